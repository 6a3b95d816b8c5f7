//! How the bytes of a fan-out go: by rules, or by what was measured between its source and its sinks.

use std::fmt;

use super::lockstep::PIPE_BYTES;
use crate::endpoint::{Endpoint, Kind};
use crate::knobs::{Knobs, Pipes};
use crate::plan::Unmeasured;
use crate::profile::{Profile, Setting};
use crate::size::{rate, shown};

/// How the bytes go from one source to many sinks.
#[derive(Debug, Clone, PartialEq)]
pub struct FanOutPlan {
    /// Whether pages are handed on where the ends have them; else everything is read and written.
    hands_on_pages: bool,
    /// What pipes are made, once it shows that there is much to move, unless they stay as they are.
    pipe_bytes: Option<usize>,
    /// What was measured: the route that is best to each kind of sink, and its speed.
    measured: Vec<Best>,
    /// What the profile has no figures for, where nothing was.
    unmeasured: Option<Unmeasured>,
}

/// The best way to one kind of sink alone.
#[derive(Debug, Clone, PartialEq)]
struct Best {
    sink: &'static str,
    route: String,
    gib_per_s: f64,
    /// Where that was, if not on the file system of the files.
    elsewhere: Option<String>,
}

impl FanOutPlan {
    /// Without any figures: handing pages on saves a copy for every sink.
    pub fn by_rules() -> Self {
        let (measured, unmeasured) = (Vec::new(), None);
        FanOutPlan { hands_on_pages: true, pipe_bytes: Some(PIPE_BYTES), measured, unmeasured }
    }

    /// By the figures of each sink alone: pages are handed on unless reading and writing is the best
    /// way to every kind of sink that was measured, and pipes are made as large as the largest of the
    /// best choices has them; they stay as they are where none of these made them larger. Only choices
    /// between ends of which one has a size to choose say anything of that. Where pipes have to stay as
    /// they are, what larger ones gave has no say.
    pub fn by_profile(
        profile: &Profile,
        source: &Endpoint<'_>,
        sinks: &[Option<Endpoint<'_>>],
        pipes: Pipes,
    ) -> Self {
        let mut measured: Vec<Best> = Vec::new();
        // What those had who had a choice, if any had.
        let mut pipe_bytes: Option<Option<usize>> = None;
        let mut unmeasured = Unmeasured::Ends;
        for sink in sinks.iter().flatten() {
            let found = profile.pair_and_whether_here(source, sink);
            if found.is_some() {
                unmeasured = Unmeasured::Allowed;
            }
            let suits = |setting: &Setting| setting.suits(pipes, &Knobs::default(), (source, sink));
            let best = found.and_then(|(pair, here)| Some((pair, here, pair.best(suits)?)));
            let is_sized = matches!(sink.kind(), Kind::Pipe | Kind::UnixSocket);
            pipe_bytes = pipe_bytes.max(match best {
                Some((.., best)) if is_sized || source.kind() == Kind::Pipe => {
                    Some(best.choice.pipe_bytes)
                }
                None if is_sized => Some(Some(PIPE_BYTES)),
                _ => None,
            });
            let Some((pair, here, best)) = best else { continue };
            let sink = sink.kind().name();
            if measured.iter().all(|other| other.sink != sink) {
                let (route, gib_per_s) = (best.choice.route.clone(), best.overall_gib_per_s);
                let elsewhere = (!here).then(|| pair.told_place());
                measured.push(Best { sink, route, gib_per_s, elsewhere });
            }
        }
        let copies = |best: &Best| best.route == "read-write";
        FanOutPlan {
            hands_on_pages: measured.is_empty() || !measured.iter().all(copies),
            pipe_bytes: pipe_bytes.unwrap_or(Some(PIPE_BYTES)),
            unmeasured: measured.is_empty().then_some(unmeasured),
            measured,
        }
        .with(pipes)
    }

    /// The same, for pipes that may have to stay as they are.
    pub(super) fn with(self, pipes: Pipes) -> Self {
        FanOutPlan { pipe_bytes: self.pipe_bytes.filter(|_| pipes == Pipes::Grow), ..self }
    }

    /// Whether pages are handed on where the ends have them.
    pub fn hands_on_pages(&self) -> bool {
        self.hands_on_pages
    }

    /// What pipes are made, in bytes; `None` where they stay as they are.
    pub fn pipe_bytes(&self) -> Option<usize> {
        self.pipe_bytes
    }

    /// What the profile that was looked at has no figures for, where nothing was measured.
    pub fn unmeasured(&self) -> Option<Unmeasured> {
        self.unmeasured
    }
}

/// A sentence, without an end.
impl fmt::Display for FanOutPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.hands_on_pages {
            true => "pages are handed on where both ends have them, the rest is read and written",
            false => "everything is read and written",
        })?;
        match self.pipe_bytes {
            Some(bytes) => write!(f, "; pipes of {}", shown(bytes as u64))?,
            None => f.write_str("; pipes stay as they are")?,
        }
        for best in &self.measured {
            let Best { sink, route, gib_per_s, elsewhere } = best;
            write!(f, "; to a {sink} alone {route} is best, {}", rate(*gib_per_s))?;
            if let Some(place) = elsewhere {
                write!(f, " on {place}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::profile::tests::{between_pipes, gave, profile};
    use crate::profile::{End, Pair};

    #[test]
    fn pages_are_handed_on_unless_copying_was_better_to_every_sink() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let source = Endpoint::source(reader.as_fd()).expect("a source");
        let sinks = [Some(Endpoint::sink(writer.as_fd()).expect("a sink")), None];
        let spliced = between_pipes(vec![
            gave("splice", Some(256 << 10), 5.0),
            gave("read-write", None, 1.0),
        ]);
        let plan = FanOutPlan::by_profile(&spliced, &source, &sinks, Pipes::Grow);
        assert!(plan.hands_on_pages() && !plan.measured.is_empty());
        assert_eq!(plan.pipe_bytes(), Some(256 << 10));
        let copied =
            between_pipes(vec![gave("splice", None, 1.0), gave("read-write", Some(1 << 19), 5.0)]);
        let plan = FanOutPlan::by_profile(&copied, &source, &sinks, Pipes::Grow);
        assert!(!plan.hands_on_pages());
        assert_eq!(plan.pipe_bytes(), Some(1 << 19));
        assert!(plan.to_string().contains("to a pipe alone read-write is best, 5.00 GiB/s"));
        let as_they_are = between_pipes(vec![
            gave("splice", None, 9.0),
            gave("splice", Some(1 << 20), 1.0),
            gave("no-such-route", Some(1 << 20), 99.0),
        ]);
        let plan = FanOutPlan::by_profile(&as_they_are, &source, &sinks, Pipes::Grow);
        assert_eq!(plan.pipe_bytes(), None, "the best left them as they are");
        assert!(plan.to_string().ends_with("to a pipe alone splice is best, 9.00 GiB/s"), "{plan}");
        let plan = FanOutPlan::by_profile(&copied, &source, &sinks, Pipes::Leave);
        let told = "; pipes stay as they are; to a pipe alone splice is best, 1.00 GiB/s";
        assert!(plan.to_string().ends_with(told), "{plan}");
        let large = between_pipes(vec![gave("splice", Some(1 << 20), 5.0)]);
        let plan = FanOutPlan::by_profile(&large, &source, &sinks, Pipes::Leave);
        assert_eq!(plan.unmeasured(), Some(Unmeasured::Allowed));
    }

    #[test]
    fn only_who_has_a_size_to_choose_says_that_pipes_stay_as_they_are() {
        let file = tempfile::tempfile().expect("a file");
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let (file_source, pipe_source) =
            (Endpoint::source(file.as_fd()), Endpoint::source(reader.as_fd()));
        let (file_source, pipe_source) = (file_source.expect("one"), pipe_source.expect("one"));
        let end = |sink| Some(Endpoint::sink(sink).expect("a sink"));
        let pair = |source, sink, pipe_bytes| {
            let choices = vec![gave("splice", pipe_bytes, 5.0)];
            Pair { source, sink, place: None, bytes: None, choices }
        };
        let pipe_bytes = |pairs: &[Pair], source, sinks: &[Option<Endpoint<'_>>]| {
            let profile = profile(pairs.to_vec());
            let plan = FanOutPlan::by_profile(&profile, source, sinks, Pipes::Grow);
            assert!(!plan.measured.is_empty(), "{plan}");
            plan.pipe_bytes()
        };
        let files = [end(file.as_fd()), end(file.as_fd())];
        let both = [end(file.as_fd()), end(writer.as_fd())];
        let between_files = pair(End::File, End::File, None);
        let of = std::slice::from_ref(&between_files);
        assert_eq!(pipe_bytes(of, &file_source, &files), Some(PIPE_BYTES), "pipes of our own");
        assert_eq!(pipe_bytes(of, &file_source, &both), Some(PIPE_BYTES), "a pipe without figures");
        let into_file = pair(End::Pipe, End::File, None);
        let of = std::slice::from_ref(&into_file);
        assert_eq!(pipe_bytes(of, &pipe_source, &files), None, "the source was better as it is");
        assert_eq!(pipe_bytes(of, &pipe_source, &both), Some(PIPE_BYTES), "a pipe without figures");
        for size in [None, Some(256 << 10)] {
            let of = [between_files.clone(), pair(End::File, End::Pipe, size)];
            assert_eq!(pipe_bytes(&of, &file_source, &both), size);
        }
    }

    #[test]
    fn figures_without_a_place_are_none_of_here() {
        let file = tempfile::tempfile().expect("a file");
        let source = Endpoint::source(file.as_fd()).expect("a source");
        let (_reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let sinks = [Some(Endpoint::sink(writer.as_fd()).expect("a sink"))];
        let choices = vec![gave("splice", None, 5.0)];
        let pair = Pair { source: End::File, sink: End::Pipe, place: None, bytes: None, choices };
        let plan = FanOutPlan::by_profile(&profile(vec![pair]), &source, &sinks, Pipes::Grow);
        let told = plan.to_string();
        assert!(told.ends_with("splice is best, 5.00 GiB/s on another file system"), "{told}");
    }

    #[test]
    fn without_figures_rules_decide() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let source = Endpoint::source(reader.as_fd()).expect("a source");
        let sinks = [Some(Endpoint::sink(writer.as_fd()).expect("a sink")), None];
        let plan = FanOutPlan::by_profile(&profile(Vec::new()), &source, &sinks, Pipes::Grow);
        assert_eq!(plan.unmeasured(), Some(Unmeasured::Ends));
        assert_eq!(FanOutPlan { unmeasured: None, ..plan }, FanOutPlan::by_rules());
    }
}
