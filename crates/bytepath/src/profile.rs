//! What `bytepath tune` found on this machine: how fast each choice of route and knobs moved bytes
//! between each pair of ends. The planner reads it.
//!
//! A profile is a JSON file that anybody may edit, copy from another machine or cut in half, so
//! nothing in it is believed before it was checked, and nothing in it can do more than name a route
//! and its knobs, within bounds.

mod choice;
mod doubt;
mod end;
mod error;
mod key;
mod outlets;
mod place;
mod reading;

use std::path::PathBuf;

use rustix::fd::AsFd;
use serde::{Deserialize, Serialize};

use crate::endpoint::Endpoint;
use crate::machine::{self, Machine};

pub use choice::{Measured, Setting};
pub(crate) use doubt::told_basis;
pub use end::End;
pub use error::{ProfileError, tuning};
pub use key::MachineKey;
pub use outlets::{Sending, Sent};
pub use place::{Earlier, Place};

/// The version of the format.
pub const SCHEMA: &str = "bytepath.profile/1";

/// Everything that was measured on one machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Profile {
    /// Always [`SCHEMA`].
    pub schema: String,
    /// When, as RFC 3339.
    pub made: String,
    /// The version of bytepath that measured.
    pub bytepath: String,
    /// What the figures are true of.
    pub machine: MachineKey,
    /// What others did meanwhile, where it was so much that the figures may be far off; those of
    /// places that were measured earlier have their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbed: Option<String>,
    /// What single operations cost.
    #[serde(default)]
    pub costs: Vec<Cost>,
    /// What outlets gave; older profiles have none.
    #[serde(default)]
    pub outlets: Vec<Sent>,
    /// The pairs of ends, those with a file once for each file system measured.
    pub pairs: Vec<Pair>,
    /// The file that it was read from, where one was named; it is not written.
    #[serde(skip)]
    pub named: Option<PathBuf>,
}

/// What one kind of operation costs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Cost {
    /// What was measured, such as `wake-up by pipe, cross-cpu`.
    pub name: String,
    /// `ns` or `GiB/s`.
    pub unit: String,
    /// The median.
    pub value: f64,
}

/// Two ends, and how fast each choice moved bytes from one to the other.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Pair {
    /// Where the bytes came from.
    pub source: End,
    /// Where they went.
    pub sink: End,
    /// Where the files were, if either end is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub place: Option<Place>,
    /// The bytes of the files that were moved, of which larger ones may differ; 64 MiB unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// What was tried.
    pub choices: Vec<Measured>,
}

impl Profile {
    /// Where the profile of this user is: `bytepath/profile.json` in `$XDG_STATE_HOME`, or in
    /// `~/.local/state`. `None` where neither is known.
    pub fn default_path() -> Option<PathBuf> {
        let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
        let state = absolute("XDG_STATE_HOME")
            .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))?;
        Some(state.join("bytepath/profile.json"))
    }

    /// The places that were measured earlier.
    fn earlier(&self) -> impl Iterator<Item = (&Place, &Earlier)> {
        self.places().filter_map(|place| Some((place, place.earlier.as_ref()?)))
    }

    /// Takes over what an older profile of the same machine has of file systems that this one has
    /// not, and that are as they were, with what disturbed that.
    pub fn keep_other_places(&mut self, older: Option<Profile>) {
        let same = |older: &Profile| self.machine.is_machine_of(&older.machine);
        let Some(older) = older.filter(same) else { return };
        let here: Vec<u64> = self.places().map(|place| place.device).collect();
        let same_boot = self.machine.boot_id == older.machine.boot_id;
        let stays = |place: &Place| {
            let known = same_boot || !place.is_numbered_at_will();
            known && !here.contains(&place.device) && place.changed().is_none()
        };
        let (made, disturbed) = (older.made, older.disturbed);
        let then = Earlier { made, disturbed };
        let kept = |mut pair: Pair| {
            let place = pair.place.as_mut().filter(|place| stays(place))?;
            place.earlier.get_or_insert_with(|| then.clone());
            Some(pair)
        };
        self.pairs.extend(older.pairs.into_iter().filter_map(kept));
    }

    fn places(&self) -> impl Iterator<Item = &Place> {
        self.pairs.iter().filter_map(|pair| pair.place.as_ref())
    }

    /// Whether the figures are this machine's.
    ///
    /// # Errors
    /// What has changed since.
    pub fn check_machine(&self, machine: &Machine) -> Result<(), ProfileError> {
        match self.machine.differs(machine) {
            Some((what, then, now)) => {
                let why = format!("{what} was {then:?} and is {now:?}");
                Err(ProfileError::Stale { path: None, why })
            }
            None => Ok(()),
        }
    }

    /// What has changed at the places that were measured, see [`Place::changed`].
    pub fn changed_places(&self) -> Vec<String> {
        let mut places: Vec<&Place> = Vec::new();
        for place in self.places() {
            if !places.contains(&place) {
                places.push(place);
            }
        }
        places.into_iter().filter_map(Place::changed).collect()
    }

    /// What was measured between ends like these: on the file system that the files are on, or on
    /// another where that one was not measured.
    pub fn pair(&self, source: &Endpoint<'_>, sink: &Endpoint<'_>) -> Option<&Pair> {
        self.pair_and_whether_here(source, sink).map(|(pair, _)| pair)
    }

    /// The same, and whether it was here: on the file system that every file at either end is on.
    pub(crate) fn pair_and_whether_here(
        &self,
        source: &Endpoint<'_>,
        sink: &Endpoint<'_>,
    ) -> Option<(&Pair, bool)> {
        let ends = End::of_both(source, sink)?;
        let pairs = self.pairs.iter().filter(|pair| (pair.source, pair.sink) == ends);
        let on = |pair: &Pair, file| pair.place.as_ref().is_some_and(|it| self.is_on(it, file));
        let source_here = |pair: &Pair| ends.0 != End::File || on(pair, source);
        let sink_here = |pair: &Pair| ends.1 != End::File || on(pair, sink);
        let here = pairs.clone().find(|pair| source_here(pair) && sink_here(pair));
        // Of others, that of the file system that is written to.
        let elsewhere = pairs.clone().find(|pair| sink_here(pair)).or_else(|| pairs.clone().next());
        here.map(|pair| (pair, true)).or(elsewhere.map(|pair| (pair, false)))
    }

    /// Whether a file is on a file system that was measured.
    fn is_on(&self, place: &Place, file: &Endpoint<'_>) -> bool {
        let booted_since = || {
            let boot_id = &self.machine.boot_id;
            !boot_id.is_empty() && boot_id != Machine::this().boot_id()
        };
        place.device == file.device()
            && !(place.is_numbered_at_will() && booted_since())
            && machine::may_be_of(file.as_fd(), &place.file_system)
    }
}

impl Pair {
    /// Where it was measured, for people.
    pub(crate) fn told_place(&self) -> String {
        let unnamed = || "another file system".to_owned();
        self.place.as_ref().map_or_else(unnamed, Place::to_string)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

    use std::path::Path;

    use super::*;
    use crate::machine::Facts;

    /// A profile of a machine that does not exist, with these pairs.
    pub(crate) fn profile(pairs: Vec<Pair>) -> Profile {
        Profile {
            schema: SCHEMA.into(),
            made: "2026-01-01T00:00:00Z".into(),
            bytepath: "0.1.0".into(),
            machine: MachineKey::of(&Machine::from_facts(Facts::ordinary())),
            disturbed: None,
            costs: vec![Cost { name: "system call".into(), unit: "ns".into(), value: 100.0 }],
            outlets: Vec::new(),
            pairs,
            named: None,
        }
    }

    /// One of the pair of two pipes alone.
    pub(crate) fn between_pipes(choices: Vec<Measured>) -> Profile {
        let (source, sink) = (End::Pipe, End::Pipe);
        profile(vec![Pair { source, sink, place: None, bytes: None, choices }])
    }

    /// A choice that was measured.
    pub(crate) fn gave(route: &str, pipe_bytes: Option<usize>, gib_per_s: f64) -> Measured {
        let (chunk_bytes, spin_ns, stays) = (None, None, false);
        let choice = Setting { route: route.into(), chunk_bytes, pipe_bytes, spin_ns, stays };
        Measured {
            choice,
            gib_per_s,
            ci95: Some([gib_per_s, gib_per_s]),
            overall_gib_per_s: gib_per_s,
            cpu_s_per_gib: 0.1,
        }
    }

    pub(super) fn written(text: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(text).expect("written");
        file
    }

    pub(super) fn sound() -> Profile {
        let choices = vec![gave("splice", Some(1 << 20), 5.0), gave("read-write", None, 1.0)];
        between_pipes(choices)
    }

    #[test]
    fn another_machines_figures_are_stale() {
        let here = Machine::from_facts(Facts::ordinary());
        assert!(sound().check_machine(&here).is_ok());
        let mut facts = Facts::ordinary();
        facts.kernel.release = "9.9".into();
        let error = sound().check_machine(&Machine::from_facts(facts)).expect_err("stale");
        assert!(error.to_string().contains("the kernel was"), "{error}");
        assert!(error.to_string().ends_with("; run bytepath tune again"), "{error}");
        let named = error.of(Path::new("/a/b")).to_string();
        assert!(named.ends_with("; run bytepath tune --profile /a/b again"), "{named}");
    }

    #[test]
    fn files_go_by_their_own_file_system_or_else_by_any() {
        let null = Endpoint::open_sink("/dev/null").expect("a sink");
        let file = tempfile::NamedTempFile::new().expect("a file");
        let source = Endpoint::open_source(file.path()).expect("a source");
        let own = machine::file_system_of(source.as_fd()).expect("it has one").name;
        let pair = |device, kind: &str, speed| Pair {
            source: End::File,
            sink: End::Null,
            place: Some(Place {
                directory: "/".into(),
                file_system: kind.into(),
                options: Vec::new(),
                device,
                earlier: None,
            }),
            bytes: None,
            choices: vec![gave("splice", None, speed)],
        };
        let found = |pairs| {
            let profile = profile(pairs);
            let found = profile.pair_and_whether_here(&source, &null);
            found.map(|(pair, here)| (pair.choices[0].gib_per_s, here))
        };
        let here = source.device();
        let other = if own == "xfs" { "btrfs" } else { "xfs" };
        let (elsewhere, before) = (pair(here + 1, &own, 1.0), pair(here, other, 3.0));
        assert_eq!(found(vec![elsewhere.clone(), pair(here, &own, 2.0)]), Some((2.0, true)));
        assert_eq!(found(vec![elsewhere.clone()]), Some((1.0, false)));
        assert_eq!(found(vec![elsewhere, before]), Some((1.0, false)), "its number was another's");
        assert_eq!(found(vec![]), None);
    }

    #[test]
    fn files_on_two_file_systems_go_by_neither_as_if_they_were_on_one() {
        // One is on tmpfs, whatever the other is on.
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let memory = rustix::fs::memfd_create("profile", flags).expect("a file");
        let disk = tempfile::tempfile().expect("a file");
        let again = tempfile::tempfile().expect("a file");
        let end = |file| Endpoint::source(file).expect("an end");
        let (memory, disk, again) = (end(memory.as_fd()), end(disk.as_fd()), end(again.as_fd()));
        let pair = |file: &Endpoint<'_>, speed| Pair {
            source: End::File,
            sink: End::File,
            place: Some(Place {
                directory: "/".into(),
                file_system: machine::file_system_of(file.as_fd()).expect("it has one").name,
                options: Vec::new(),
                device: file.device(),
                earlier: None,
            }),
            bytes: None,
            choices: vec![gave("splice", None, speed)],
        };
        let profile = profile(vec![pair(&memory, 1.0), pair(&disk, 2.0)]);
        let found = |source, sink| {
            let (pair, here) = profile.pair_and_whether_here(source, sink).expect("a pair");
            (pair.choices[0].gib_per_s, here)
        };
        assert_eq!(found(&disk, &again), (2.0, true));
        assert_eq!(found(&memory, &disk), (2.0, false), "where it is written");
        assert_eq!(found(&disk, &memory), (1.0, false), "where it is written");
    }

    #[test]
    fn numbers_that_are_given_at_will_say_nothing_after_the_next_start() {
        // Such files are on tmpfs, whatever stands in /tmp.
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let file = rustix::fs::memfd_create("profile", flags).expect("a file");
        let source = Endpoint::source(file.as_fd()).expect("a source");
        let null = Endpoint::open_sink("/dev/null").expect("a sink");
        let place = Place {
            directory: "/".into(),
            file_system: "tmpfs".into(),
            options: Vec::new(),
            device: source.device(),
            earlier: None,
        };
        let choices = vec![gave("splice", None, 1.0)];
        let pair =
            Pair { source: End::File, sink: End::Null, place: Some(place), bytes: None, choices };
        let mut profile = profile(vec![pair]);
        let is_here = |profile: &Profile| {
            profile.pair_and_whether_here(&source, &null).is_some_and(|(_, here)| here)
        };
        assert!(is_here(&profile), "an older one does not know when it was");
        profile.machine.boot_id = Machine::this().boot_id().into();
        assert!(is_here(&profile));
        profile.machine.boot_id = "of another run".into();
        assert!(!is_here(&profile));
    }

    #[test]
    fn a_place_that_is_mounted_otherwise_has_changed() {
        let here = machine::file_system(Path::new("/")).expect("there is a root");
        let at = |file_system: &str, options: Vec<String>| {
            let (directory, file_system) = ("/".into(), file_system.into());
            let place = Some(Place { directory, file_system, options, device: 1, earlier: None });
            let choices = vec![gave("splice", None, 1.0)];
            let pair = Pair { source: End::File, sink: End::File, place, bytes: None, choices };
            profile(vec![pair.clone(), pair]).changed_places()
        };
        assert_eq!(at(&here.name, here.options.clone()), [""; 0]);
        let other = at("other", here.options.clone());
        assert!(other.len() == 1 && other[0].contains("is on"), "{other:?}");
        let other = at(&here.name, vec!["other".to_owned()]);
        assert!(other.len() == 1 && other[0].contains("mounted with"), "{other:?}");
    }

    #[test]
    fn measuring_one_file_system_keeps_what_is_known_of_others() {
        let here = machine::file_system(Path::new("/")).expect("there is a root");
        let at = |device, speed| Pair {
            source: End::File,
            sink: End::File,
            place: Some(Place {
                directory: "/".into(),
                file_system: here.name.clone(),
                options: here.options.clone(),
                device,
                earlier: None,
            }),
            bytes: None,
            choices: vec![gave("splice", None, speed)],
        };
        // Those of real devices; of others a number is only good while the kernel runs.
        let (first, second) = (rustix::fs::makedev(8, 1), rustix::fs::makedev(8, 2));
        let mut gone = at(3, 3.0);
        gone.place.as_mut().expect("it has one").file_system = "of before".into();
        let pipes = sound().pairs.remove(0);
        let mut older = profile(vec![at(first, 1.0), at(second, 2.0), at(5, 5.0), gone, pipes]);
        older.disturbed = Some("others worked".into());
        let kept = |device, speed| {
            let mut pair = at(device, speed);
            let (made, disturbed) = (older.made.clone(), older.disturbed.clone());
            pair.place.as_mut().expect("it has one").earlier = Some(Earlier { made, disturbed });
            pair
        };
        let mut newer = profile(vec![at(second, 3.0)]);
        newer.made = "later".into();
        let mut booted = newer.clone();
        newer.keep_other_places(Some(older.clone()));
        assert_eq!(newer.pairs, [at(second, 3.0), kept(first, 1.0), kept(5, 5.0)]);
        let doubts = newer.doubts_of_earlier(None);
        assert_eq!((newer.doubt(), doubts.len()), (None, 1), "of what is kept");
        let directory = &newer.pairs[1].place.as_ref().expect("it has one").directory;
        let again = format!("run `bytepath tune --dir {}` when", directory.display());
        assert!(doubts[0].contains(&again), "{doubts:?}");
        let plans = newer.pairs.iter().map(|pair| newer.doubt_of(pair)).collect::<Vec<_>>();
        let again = format!("idle (bytepath tune --dir {})", directory.display());
        assert_eq!((&plans[0], plans.len()), (&None, 3));
        assert!(plans[1].as_ref().is_some_and(|told| told.ends_with(&again)), "{plans:?}");
        let there = newer.doubts_of_earlier(Some(Path::new("p")));
        assert!(there[0].contains("tune --profile p --dir "), "{there:?}");
        booted.machine.boot_id = "of another run".into();
        booted.keep_other_places(Some(older.clone()));
        assert_eq!(booted.pairs, [at(second, 3.0), kept(first, 1.0)]);
        let mut third = profile(vec![at(second, 4.0)]);
        third.disturbed = Some("others worked again".into());
        third.keep_other_places(Some(newer));
        assert_eq!(third.pairs, [at(second, 4.0), kept(first, 1.0), kept(5, 5.0)]);
        let mut other = profile(vec![]);
        other.machine.kernel = "9.9".into();
        other.keep_other_places(Some(older));
        assert_eq!(other.pairs, []);
    }

    #[test]
    fn the_published_schema_is_that_of_the_types() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/schema/profile-1.schema.json");
        let mut text = serde_json::to_string_pretty(&schemars::schema_for!(Profile)).expect("it");
        text.push('\n');
        if std::env::var_os("UPDATE_SCHEMA").is_some() {
            std::fs::write(path, &text).expect("written");
        }
        assert_eq!(std::fs::read_to_string(path).expect("published"), text);
    }
}
