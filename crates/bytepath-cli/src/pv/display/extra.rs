//! Where else -x writes: titles of the window and of the process, with a format of their own.

use super::WrongDisplay;
use super::format::Format;

/// What -x asked for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ExtraSpec {
    pub(crate) window: bool,
    pub(crate) process: bool,
    /// A format of its own; without one it is that of the terminal.
    pub(crate) format: Option<Format>,
}

impl ExtraSpec {
    /// Reads `window,process:FORMAT`. A place that we do not know is passed over, as with pv.
    pub(crate) fn read(spec: &str) -> Result<Self, WrongDisplay> {
        let (places, format) = match spec.split_once(':') {
            Some((places, format)) => (places, Some(Format::read(format)?)),
            None => (spec, None),
        };
        let named = |names: &[&str]| places.split(',').any(|place| names.contains(&place));
        Ok(Self {
            window: named(&["windowtitle", "window"]),
            process: named(&["processtitle", "proctitle", "process", "proc"]),
            format,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(spec: &str) -> (bool, bool, Option<Format>) {
        let spec = ExtraSpec::read(spec).expect("places");
        (spec.window, spec.process, spec.format)
    }

    #[test]
    fn places_have_several_names() {
        for window in ["window", "windowtitle", "foo,window", "window,windowtitle"] {
            assert_eq!(read(window), (true, false, None), "{window}");
        }
        for process in ["process", "proc", "proctitle", "processtitle"] {
            assert_eq!(read(process), (false, true, None), "{process}");
        }
        assert_eq!(read("proc,window"), (true, true, None));
        assert_eq!(read("window process"), (false, false, None));
    }

    #[test]
    fn behind_the_colon_is_a_format() {
        let (window, process, format) = read("window:%b: %r");
        assert_eq!((window, process), (true, false));
        assert_eq!(format, Some(Format::read("%b: %r").expect("a format")));
        assert_eq!(read("window:"), (true, false, Some(Format::default())));
    }
}
