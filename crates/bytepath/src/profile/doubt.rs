//! What disturbed the figures, for people, and what to do about it.

use std::path::Path;

use super::error::tuning;
use super::place::harmless;
use super::{Pair, Profile};
use crate::endpoint::Endpoint;
use crate::shell::quoted;

impl Profile {
    /// What a choice of outlet by its figures goes by, for people.
    pub fn basis(&self) -> String {
        told_basis(self.disturbed.as_deref().map(|why| self.advice(why, None)).as_deref())
    }

    /// What a plan by its figures between ends like these goes by, for people.
    pub fn basis_between<'e>(
        &self,
        source: &Endpoint<'_>,
        sinks: impl IntoIterator<Item = &'e Endpoint<'e>>,
    ) -> String {
        let mut sinks = sinks.into_iter();
        told_basis(sinks.find_map(|sink| self.doubt_between(source, sink)).as_deref())
    }

    /// What disturbed the figures between ends like these, if anything did, and what to do about it.
    pub(crate) fn doubt_between(
        &self,
        source: &Endpoint<'_>,
        sink: &Endpoint<'_>,
    ) -> Option<String> {
        self.pair(source, sink).and_then(|pair| self.doubt_of(pair))
    }

    pub(super) fn doubt_of(&self, pair: &Pair) -> Option<String> {
        let place = pair.place.as_ref();
        let earlier = place.and_then(|place| Some((place, place.earlier.as_ref()?)));
        match earlier {
            Some((place, earlier)) => {
                let why = earlier.disturbed.as_deref()?;
                Some(self.advice(why, Some(&place.directory)))
            }
            None => self.disturbed.as_deref().map(|why| self.advice(why, None)),
        }
    }

    /// What disturbed figures, and the command that measures them again: those of a place that was
    /// measured earlier only where that is named.
    fn advice(&self, why: &str, earlier: Option<&Path>) -> String {
        let again = self.tuning();
        let again = match earlier {
            Some(directory) => format!("{again} --dir {}", quoted(directory)),
            None => again,
        };
        harmless(&format!("while {why}: measure again when it is idle ({again})"))
    }

    /// The command that makes it anew, where it was read.
    pub fn tuning(&self) -> String {
        tuning(self.named.as_deref())
    }

    /// What to do about figures that others disturbed, for people; `None` where nobody did. Places that
    /// were measured earlier have [their own](Profile::doubts_of_earlier).
    pub fn doubt(&self) -> Option<String> {
        let why = self.disturbed.as_ref()?;
        Some(format!("while this was measured, {why}; measure again when the machine is idle"))
    }

    /// The same of each place that was measured earlier, with the command that measures it again,
    /// for a profile in this file; in its usual place unless given.
    pub fn doubts_of_earlier(&self, kept: Option<&Path>) -> Vec<String> {
        let mut doubts: Vec<String> = Vec::new();
        for (place, earlier) in self.earlier() {
            let Some(why) = &earlier.disturbed else { continue };
            let (again, directory) = (tuning(kept), quoted(&place.directory));
            let doubt = harmless(&format!(
                "while {place} was measured, {why}; run `{again} --dir {directory}` when the machine \
                 is idle"
            ));
            if !doubts.contains(&doubt) {
                doubts.push(doubt);
            }
        }
        doubts
    }
}

/// What a plan by the figures of a profile goes by, for people; `doubt` is what disturbed them.
pub(crate) fn told_basis(doubt: Option<&str>) -> String {
    let measured = "by what was measured on this machine";
    doubt.map_or_else(|| measured.to_owned(), |doubt| format!("{measured}, {doubt}"))
}

#[cfg(test)]
mod tests {
    use rustix::fd::AsFd;

    use super::super::tests::{gave, profile, sound, written};
    use super::super::{Earlier, End, Place};
    use super::*;

    #[test]
    fn what_disturbed_it_is_one_line_and_older_profiles_do_not_say() {
        let read = |disturbed: Option<&str>| {
            let mut value = serde_json::to_value(sound()).expect("JSON");
            assert!(value.get("disturbed").is_none());
            if let Some(why) = disturbed {
                value["disturbed"] = why.into();
            }
            Profile::read(written(value.to_string().as_bytes()).path())
        };
        let quiet = read(None).expect("sound");
        assert_eq!((quiet.doubt(), quiet.basis().contains("again")), (None, false));
        let busy = read(Some("others worked")).expect("sound");
        for told in [busy.doubt().expect("it says so"), busy.basis()] {
            assert!(told.contains("others worked") && told.contains("again"), "{told}");
        }
        assert!(busy.basis().ends_with("idle (bytepath tune)"), "{}", busy.basis());
        let named = Profile { named: Some("p".into()), ..busy };
        assert!(named.basis().ends_with("(bytepath tune --profile p)"), "{}", named.basis());
        assert_eq!(serde_json::to_value(&named).expect("JSON").get("named"), None);
        assert!(read(Some("\u{1b}[1m")).is_err());
        let mut escaped = profile(vec![]);
        let earlier = Earlier { made: "before".into(), disturbed: Some("\u{1b}[1m".into()) };
        let place = Place {
            directory: "/".into(),
            file_system: "xfs".into(),
            options: Vec::new(),
            device: 1,
            earlier: Some(earlier),
        };
        escaped.pairs = vec![Pair { place: Some(place), ..sound().pairs.remove(0) }];
        let text = serde_json::to_vec(&escaped).expect("written");
        assert!(Profile::read(written(&text).path()).is_err());
    }

    #[test]
    fn what_was_measured_earlier_is_not_in_doubt_for_what_disturbed_the_rest() {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = rustix::fs::memfd_create("profile", flags).expect("a file");
        let source = Endpoint::source(file.as_fd()).expect("a source");
        let null = Endpoint::open_sink("/dev/null").expect("a sink");
        let basis = |disturbed: Option<&str>, earlier: Option<Option<&str>>| {
            let earlier = earlier.map(|disturbed| Earlier {
                made: "before".into(),
                disturbed: disturbed.map(str::to_owned),
            });
            let place = Place {
                directory: "/".into(),
                file_system: "tmpfs".into(),
                options: Vec::new(),
                device: source.device(),
                earlier,
            };
            let choices = vec![gave("splice", None, 1.0)];
            let (source_end, sink, place) = (End::File, End::Null, Some(place));
            let pair = Pair { source: source_end, sink, place, bytes: None, choices };
            let mut profile = profile(vec![pair]);
            profile.disturbed = disturbed.map(str::to_owned);
            let text = serde_json::to_vec(&profile).expect("written");
            assert_eq!(Profile::read(written(&text).path()).expect("sound"), profile);
            profile.basis_between(&source, [&null])
        };
        let quiet = "by what was measured on this machine";
        assert_eq!(basis(None, None), quiet);
        assert_eq!(basis(Some("others worked"), Some(None)), quiet);
        let told = basis(Some("others worked"), None);
        assert!(told.contains("while others worked"), "{told}");
        let told = basis(None, Some(Some("others slept")));
        assert!(told.contains("while others slept"), "{told}");
    }
}
