//! Reading a profile, and refusing what no measurement can have given.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::{End, MachineKey, Pair, Place, Profile, ProfileError, SCHEMA, Setting};

/// A profile of a hundred file systems is smaller.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Knobs beyond these are no measurement of ours: none is of less than a page.
const CHUNK_BYTES_MIN: usize = 4096;
const PIPE_BYTES_MIN: usize = 4096;
const CHUNK_BYTES_MAX: usize = 64 << 20;
const PIPE_BYTES_MAX: usize = 1 << 30;
const SPIN_BUDGET_MAX: Duration = Duration::from_millis(10);

/// Figures beyond this are none of ours either: that many nanoseconds are a quarter of an hour.
const FIGURE_MAX: f64 = 1e12;

/// Whether it can have been measured.
pub(super) fn is_sound(figure: f64) -> bool {
    figure > 0.0 && figure <= FIGURE_MAX
}

/// Whether these can have been tried.
pub(super) fn knobs_are_sound(
    chunk: Option<usize>,
    pipe: Option<usize>,
    spin_ns: Option<u64>,
) -> bool {
    chunk.is_none_or(|bytes| (CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&bytes))
        && pipe.is_none_or(|bytes| (PIPE_BYTES_MIN..=PIPE_BYTES_MAX).contains(&bytes))
        && spin_ns.is_none_or(|ns| Duration::from_nanos(ns) <= SPIN_BUDGET_MAX)
}

impl Profile {
    /// Reads a profile, and checks that it is sound.
    ///
    /// # Errors
    /// There is none, or it is none; not that it is stale.
    pub fn read(path: &Path) -> Result<Profile, ProfileError> {
        Profile::parsed(path, &text_of(path)?)
    }

    /// Reads what a job may ask for whose ends are of these kinds, in half the time: the machine, and
    /// the pairs of these ends, if there can be any. The other figures are left out; nobody looks at them.
    ///
    /// # Errors
    /// As with [`Profile::read`].
    pub fn read_between(path: &Path, ends: Option<(End, End)>) -> Result<Profile, ProfileError> {
        let text = text_of(path)?;
        match Folded::unfolded(&text, ends) {
            Ok(profile) if profile.schema == SCHEMA && profile.check().is_ok() => Ok(profile),
            // What is wrong is said of the whole.
            _ => Profile::parsed(path, &text),
        }
    }

    fn parsed(path: &Path, text: &str) -> Result<Profile, ProfileError> {
        let corrupt = |why: String| ProfileError::Corrupt { path: path.into(), why };
        let other_format = |found| ProfileError::OtherFormat { path: path.into(), found };
        // Parsed twice only where it is no profile, to say what it is instead.
        let profile: Profile = match serde_json::from_str(text) {
            Ok(profile) => profile,
            Err(error) => {
                let found = serde_json::from_str(text).map(|versioned: Versioned| versioned.schema);
                return Err(match found {
                    Ok(found) if found != SCHEMA => other_format(found),
                    _ => corrupt(error.to_string()),
                });
            }
        };
        if profile.schema != SCHEMA {
            return Err(other_format(profile.schema));
        }
        profile.check().map_err(corrupt)?;
        Ok(profile)
    }

    /// Refuses figures and knobs that no measurement can have given.
    fn check(&self) -> Result<(), String> {
        if let Some(cost) = self.costs.iter().find(|cost| !is_sound(cost.value)) {
            return Err(format!("the cost {:?} has no sound figure", cost.name));
        }
        for measured in self.pairs.iter().flat_map(|pair| &pair.choices) {
            let overall = measured.overall_gib_per_s;
            let interval = measured.ci95.iter().flatten().copied();
            let mut figures = [measured.gib_per_s, overall].into_iter().chain(interval);
            // A moment of the CPU may have been too short to be counted.
            let cpu_is_sound = (0.0..=FIGURE_MAX).contains(&measured.cpu_s_per_gib);
            if !figures.all(is_sound) || !cpu_is_sound {
                return Err(format!("{:?} has no sound figure", measured.choice.route));
            }
            let Setting { chunk_bytes, pipe_bytes, spin_ns, .. } = measured.choice;
            if !knobs_are_sound(chunk_bytes, pipe_bytes, spin_ns) {
                return Err(format!("{:?} has knobs out of bounds", measured.choice.route));
            }
        }
        let earlier = self.earlier().filter_map(|(_, earlier)| earlier.disturbed.as_ref());
        let mut disturbed = self.disturbed.iter().chain(earlier).flat_map(|why| why.chars());
        if disturbed.any(char::is_control) {
            return Err("what disturbed it is no line of text".into());
        }
        if let Some(sent) = self.outlets.iter().find(|sent| !sent.is_sound()) {
            return Err(format!(
                "the outlet {:?} has no sound figure or setting",
                sent.choice.outlet
            ));
        }
        Ok(())
    }
}

/// The text of a file that may be a profile.
fn text_of(path: &Path) -> Result<String, ProfileError> {
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => ProfileError::Absent(path.into()),
        _ => ProfileError::Unreadable { path: path.into(), error },
    };
    let corrupt = |why: String| ProfileError::Corrupt { path: path.into(), why };
    // A FIFO, say, would be waited for: here, or when it is read.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))
        .map(File::from)
        .map_err(|errno| unreadable(errno.into()))?;
    let found = file.metadata().map_err(unreadable)?;
    if !found.is_file() {
        return Err(corrupt("it is not a regular file".into()));
    }
    // Room for all of it, and for the read that finds its end: one call instead of a dozen.
    let mut text = Vec::with_capacity(found.len().min(FILE_BYTES_MAX) as usize + 64);
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(corrupt("it is larger than 4 MiB".into()));
    }
    String::from_utf8(text).map_err(|error| corrupt(error.to_string()))
}

/// A profile whose choices are still text.
#[derive(Deserialize)]
struct Folded<'t> {
    schema: String,
    made: String,
    bytepath: String,
    machine: MachineKey,
    #[serde(default)]
    disturbed: Option<String>,
    #[serde(borrow)]
    pairs: Vec<FoldedPair<'t>>,
}

#[derive(Deserialize)]
struct FoldedPair<'t> {
    source: End,
    sink: End,
    place: Option<Place>,
    #[serde(default)]
    bytes: Option<u64>,
    #[serde(borrow)]
    choices: &'t RawValue,
}

impl Folded<'_> {
    /// With the pairs of these ends alone.
    fn unfolded(text: &str, ends: Option<(End, End)>) -> serde_json::Result<Profile> {
        let Folded { schema, made, bytepath, machine, disturbed, pairs } =
            serde_json::from_str(text)?;
        let pairs = pairs.into_iter().filter(|pair| Some((pair.source, pair.sink)) == ends);
        let unfolded = |FoldedPair { source, sink, place, bytes, choices }: FoldedPair<'_>| {
            let choices = serde_json::from_str(choices.get())?;
            Ok(Pair { source, sink, place, bytes, choices })
        };
        let pairs = pairs.map(unfolded).collect::<serde_json::Result<_>>()?;
        let (costs, outlets, named) = (Vec::new(), Vec::new(), None);
        Ok(Profile { schema, made, bytepath, machine, disturbed, costs, outlets, pairs, named })
    }
}

/// What every version of the format has.
#[derive(Deserialize)]
struct Versioned {
    schema: String,
}

#[cfg(test)]
mod tests {
    use super::super::tests::{sound, written};
    use super::*;

    #[test]
    fn a_profile_is_read_as_it_was_written() {
        let mut profile = sound();
        profile.pairs[0].choices[1].ci95 = None;
        let text = serde_json::to_vec(&profile).expect("written");
        assert_eq!(Profile::read(written(&text).path()).expect("read"), profile);
    }

    #[test]
    fn what_is_no_profile_is_refused_with_the_reason() {
        let text = |change: fn(&mut Profile)| {
            let mut profile = sound();
            change(&mut profile);
            serde_json::to_string(&profile).expect("written")
        };
        let cases = [
            (String::new(), "no profile"),
            ("{".into(), "no profile"),
            ("[]".into(), "no profile"),
            (r#"{"schema":"bytepath.profile/9","new":1}"#.into(), "of the format"),
            (text(|p| p.pairs[0].choices[0].gib_per_s = -1.0), "sound figure"),
            (text(|p| p.pairs[0].choices[0].ci95 = Some([0.0, 1.0])), "sound figure"),
            (text(|p| p.pairs[0].choices[0].gib_per_s = 1e300), "sound figure"),
            (text(|p| p.pairs[0].choices[0].cpu_s_per_gib = -1.0), "sound figure"),
            (text(|p| p.pairs[0].choices[0].choice.chunk_bytes = Some(0)), "out of bounds"),
            (text(|p| p.pairs[0].choices[0].choice.chunk_bytes = Some(1)), "out of bounds"),
            (text(|p| p.pairs[0].choices[0].choice.pipe_bytes = Some(1)), "out of bounds"),
            (text(|p| p.pairs[0].choices[0].choice.pipe_bytes = Some(1 << 40)), "out of bounds"),
            (text(|p| p.pairs[0].choices[0].choice.spin_ns = Some(u64::MAX)), "out of bounds"),
            (" ".repeat(5 << 20), "larger than"),
        ];
        for (text, why) in cases {
            let file = written(text.as_bytes());
            let error = Profile::read(file.path()).expect_err(why).to_string();
            assert!(error.contains(why) && error.contains("bytepath tune"), "{why}: {error}");
            let ends = Some((sound().pairs[0].source, sound().pairs[0].sink));
            let between = Profile::read_between(file.path(), ends).expect_err(why);
            assert_eq!(between.to_string(), error);
        }
    }

    #[test]
    fn bytes_that_are_no_text_are_no_profile() {
        // The cut at the largest size falls inside a character.
        let long = "\u{e4}".repeat(3 << 20);
        for (bytes, why) in [(&b"\xff\xfe"[..], "invalid utf-8"), (long.as_bytes(), "larger than")]
        {
            let error = Profile::read(written(bytes).path()).expect_err(why);
            assert!(matches!(error, ProfileError::Corrupt { .. }), "{error:?}");
            let said = error.to_string();
            assert!(said.contains(why) && said.contains("bytepath tune"), "{said}");
        }
    }

    #[test]
    fn costs_that_cannot_be_are_refused_by_whoever_reads_them() {
        for value in [-5.0, 0.0, 1e300] {
            let mut profile = sound();
            profile.costs[0].value = value;
            let text = serde_json::to_vec(&profile).expect("written");
            let error = Profile::read(written(&text).path()).expect_err("no cost").to_string();
            assert!(error.contains("\"system call\" has no sound figure"), "{error}");
        }
    }

    #[test]
    fn between_two_ends_their_pairs_are_read_alone() {
        let mut all = sound();
        all.disturbed = Some("other processes used 76 % of the CPU time".into());
        all.pairs[0].bytes = Some(256 << 20);
        let (source, sink) = (all.pairs[0].source, all.pairs[0].sink);
        let other = [End::File, End::Socket].into_iter().find(|end| *end != source);
        all.pairs.push(Pair { source: other.expect("one of them"), ..all.pairs[0].clone() });
        let file = written(serde_json::to_string(&all).expect("written").as_bytes());
        let read = |ends| Profile::read_between(file.path(), ends).expect("read");
        let first = vec![all.pairs[0].clone()];
        let expected = Profile { costs: vec![], outlets: vec![], pairs: first, ..all.clone() };
        assert_eq!(read(Some((source, sink))), expected);
        assert_eq!(read(None), Profile { pairs: vec![], ..expected });
    }

    #[test]
    fn what_cannot_be_read_is_told_apart_from_what_is_not_there() {
        let folder = tempfile::tempdir().expect("a folder");
        let absent = Profile::read(&folder.path().join("none"));
        assert!(matches!(absent, Err(ProfileError::Absent(_))));
        let directory = Profile::read(folder.path());
        assert!(matches!(directory, Err(ProfileError::Corrupt { .. })), "{directory:?}");
    }
}
