//! What `bytepath tune` found on this machine: how fast each choice of route and knobs moved bytes
//! between each pair of ends. The planner reads it.
//!
//! A profile is a JSON file that anybody may edit, copy from another machine or cut in half, so
//! nothing in it is believed before it was checked, and nothing in it can do more than name a route
//! and its knobs, within bounds.

mod outlets;

use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::endpoint::{Endpoint, Kind};
use crate::knobs::{Cpu, Knobs, Pipes};
use crate::machine::{self, Machine};
use crate::shell::quoted;
use crate::size::shown;
use crate::wait::Wait;

pub use outlets::{Sending, Sent};

/// The version of the format.
pub const SCHEMA: &str = "bytepath.profile/1";

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
fn is_sound(figure: f64) -> bool {
    figure > 0.0 && figure <= FIGURE_MAX
}

/// Whether these can have been tried.
fn knobs_are_sound(chunk: Option<usize>, pipe: Option<usize>, spin_ns: Option<u64>) -> bool {
    chunk.is_none_or(|bytes| (CHUNK_BYTES_MIN..=CHUNK_BYTES_MAX).contains(&bytes))
        && pipe.is_none_or(|bytes| (PIPE_BYTES_MIN..=PIPE_BYTES_MAX).contains(&bytes))
        && spin_ns.is_none_or(|ns| Duration::from_nanos(ns) <= SPIN_BUDGET_MAX)
}

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

/// What a profile depends on: where any of it differs, the figures are another machine's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MachineKey {
    /// The kernel's release.
    pub kernel: String,
    /// The processor's name.
    pub cpu_model: String,
    /// The CPUs that the process may use, as `0-3,8`.
    pub cpus_allowed: String,
    /// The hypervisor, if any.
    pub virtualisation: String,
    /// The kernel's name for its present run (/proc/sys/kernel/random/boot_id). While it is the same,
    /// so are kernel, processor and hypervisor, which takes a hundred times as long to find out.
    #[serde(default)]
    pub boot_id: String,
}

impl MachineKey {
    /// The key of a machine.
    pub fn of(machine: &Machine) -> Self {
        let kernel = machine.kernel();
        MachineKey {
            kernel: kernel.release.clone(),
            cpu_model: kernel.cpu_model.clone(),
            cpus_allowed: machine.allowed_cpus().to_string(),
            virtualisation: kernel.virtualisation.to_string(),
            boot_id: machine.boot_id().to_owned(),
        }
    }

    /// Whether it is of the same machine, perhaps in another run of it.
    fn is_machine_of(&self, other: &MachineKey) -> bool {
        MachineKey { boot_id: self.boot_id.clone(), ..other.clone() } == *self
    }

    /// What of it differs from a machine: what, then, now.
    fn differs(&self, machine: &Machine) -> Option<(&'static str, String, String)> {
        let cpus = machine.allowed_cpus_now().to_string();
        if self.cpus_allowed != cpus {
            return Some(("the CPUs allowed", self.cpus_allowed.clone(), cpus));
        }
        if !self.boot_id.is_empty() && self.boot_id == machine.boot_id() {
            return None;
        }
        let now = MachineKey::of(machine);
        [
            ("the kernel", &self.kernel, now.kernel),
            ("the processor", &self.cpu_model, now.cpu_model),
            ("the hypervisor", &self.virtualisation, now.virtualisation),
        ]
        .into_iter()
        .find(|(_, then, now)| *then != now)
        .map(|(what, then, now)| (what, then.clone(), now))
    }
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

/// A file system that was measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Place {
    /// The directory that was measured in.
    pub directory: PathBuf,
    /// Its type, such as `ext4`.
    pub file_system: String,
    /// The options it was mounted with.
    pub options: Vec<String>,
    /// The device number of files there (`st_dev`).
    pub device: u64,
    /// When it was measured, where that was before the rest of the profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub earlier: Option<Earlier>,
}

/// When figures were measured that are kept from an older profile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Earlier {
    /// When, as RFC 3339.
    pub made: String,
    /// What others did then, as in [`Profile::disturbed`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disturbed: Option<String>,
}

impl Place {
    /// Whether its number is any that was free when it was mounted, as those of tmpfs, overlay, btrfs
    /// and NFS are: another file system may have it after the next start of the kernel.
    fn is_numbered_at_will(&self) -> bool {
        rustix::fs::major(self.device) == 0
    }

    /// What has changed since it was measured, for people: nothing while the directory is on the file
    /// system that it was on, mounted as it was.
    pub fn changed(&self) -> Option<String> {
        let name = self.directory.display();
        let now = match machine::file_system(&self.directory) {
            Ok(now) => now,
            Err(error) => return Some(error.to_string()),
        };
        if now.name != self.file_system {
            return Some(format!("{name} was on {} and is on {}", self.file_system, now.name));
        }
        let (then, now) = (self.options.join(","), now.options.join(","));
        (then != now).then(|| format!("{name} was mounted with {then} and is with {now}"))
    }
}

/// As `ext4 (/var/tmp)`. A profile from somewhere else must not command the terminal.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&harmless(&format!("{} ({})", self.file_system, self.directory.display())))
    }
}

fn harmless(text: &str) -> String {
    let shown = |c: char| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c };
    text.chars().map(shown).collect()
}

/// The ends that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// A regular file, in the page cache.
    File,
    /// A pipe.
    Pipe,
    /// A Unix stream socket. TCP is not measured: what loopback gives says nothing of a network.
    Socket,
    /// /dev/null.
    Null,
}

impl End {
    /// The ends that these are; `None` where either is not measured.
    pub fn of_both(source: &Endpoint<'_>, sink: &Endpoint<'_>) -> Option<(End, End)> {
        Some((End::of(source.kind())?, End::of(sink.kind())?))
    }

    /// The end that this kind of descriptor is; `None` for what is not measured.
    pub fn of(kind: Kind) -> Option<End> {
        Some(match kind {
            Kind::File => End::File,
            Kind::Pipe => End::Pipe,
            Kind::UnixSocket => End::Socket,
            Kind::Null => End::Null,
            _ => return None,
        })
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            End::File => "file",
            End::Pipe => "pipe",
            End::Socket => "socket",
            End::Null => "/dev/null",
        })
    }
}

/// One choice of route and knobs, and what it gave.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Measured {
    /// What was chosen.
    #[serde(flatten)]
    pub choice: Setting,
    /// The median speed.
    pub gib_per_s: f64,
    /// Its 95% interval; null where it was looked at too few times to have one.
    pub ci95: Option<[f64; 2]>,
    /// The speed of all samples together, without the slowest. Choices are compared by this: the
    /// median of one that is fast at times and slow at others, as sleepers are on a busy machine,
    /// is either at one time and the other at the next.
    pub overall_gib_per_s: f64,
    /// CPU seconds of the mover per GiB.
    pub cpu_s_per_gib: f64,
}

/// All fields side by side, as they stand in the file. A derived `flatten` keeps every field of every
/// choice as a value of its own first, which made reading a profile take twice as long.
impl<'de> Deserialize<'de> for Measured {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Measured, D::Error> {
        #[derive(Deserialize)]
        struct Flat {
            route: String,
            #[serde(default)]
            chunk_bytes: Option<usize>,
            #[serde(default)]
            pipe_bytes: Option<usize>,
            #[serde(default)]
            spin_ns: Option<u64>,
            #[serde(default)]
            stays: bool,
            gib_per_s: f64,
            ci95: Option<[f64; 2]>,
            overall_gib_per_s: f64,
            cpu_s_per_gib: f64,
        }
        let flat = Flat::deserialize(deserializer)?;
        let Flat { route, chunk_bytes, pipe_bytes, spin_ns, stays, .. } = flat;
        Ok(Measured {
            choice: Setting { route, chunk_bytes, pipe_bytes, spin_ns, stays },
            gib_per_s: flat.gib_per_s,
            ci95: flat.ci95,
            overall_gib_per_s: flat.overall_gib_per_s,
            cpu_s_per_gib: flat.cpu_s_per_gib,
        })
    }
}

/// A route with its knobs; what is absent is left to the route.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Setting {
    /// The route's name.
    pub route: String,
    /// Bytes per call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_bytes: Option<usize>,
    /// The size that pipes at either end are given, and the buffer of a Unix socket that is written to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipe_bytes: Option<usize>,
    /// How long to spin before sleeping, in nanoseconds; absent where it sleeps at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin_ns: Option<u64>,
    /// Whether the mover stays on the CPU that it begins on.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub stays: bool,
}

impl Setting {
    /// The wait that it means.
    pub fn wait(&self) -> Wait {
        match self.spin_ns {
            Some(budget) => Wait::Hybrid(Duration::from_nanos(budget)),
            None => Wait::Block,
        }
    }

    /// These knobs, with everything that the caller left open as it was measured.
    pub(crate) fn filled(&self, asked: &Knobs) -> Knobs {
        Knobs {
            chunk_bytes: asked.chunk_bytes.or(self.chunk_bytes),
            pipe_bytes: asked.pipe_bytes,
            queue_depth: asked.queue_depth,
            threads: asked.threads,
            wait: if asked.wait == Wait::Block { self.wait() } else { asked.wait },
            pages: asked.pages,
            cpu: if asked.cpu == Cpu::Any && self.stays { Cpu::Stay } else { asked.cpu },
        }
    }

    /// Whether it is what the caller asks for, as far as that goes. What was measured with several
    /// threads says nothing of one.
    pub(crate) fn agrees(&self, asked: &Knobs) -> bool {
        let same = |asked: Option<usize>, own: Option<usize>| asked.is_none() || asked == own;
        let several = crate::routes::by_name(&self.route).is_some_and(|route| route.is_parallel());
        if several && asked.threads == Some(1) {
            return false;
        }
        same(asked.chunk_bytes, self.chunk_bytes)
            && same(asked.pipe_bytes, self.pipe_bytes)
            && (asked.wait == Wait::Block || asked.wait == self.wait())
            && (asked.cpu == Cpu::Any || self.stays)
    }

    /// Whether pipes at these ends are to be as they were measured: those that stay as they are, if
    /// they hold as much already.
    pub(crate) fn suits(
        &self,
        pipes: Pipes,
        asked: &Knobs,
        (source, sink): (&Endpoint<'_>, &Endpoint<'_>),
    ) -> bool {
        let holds = |end: &Endpoint<'_>, bytes| {
            end.kind() != Kind::Pipe || crate::outlets::pipe_bytes(end.as_fd()) >= bytes
        };
        // A Unix socket's buffer would be made larger as well.
        let hold =
            |bytes| holds(source, bytes) && holds(sink, bytes) && sink.kind() != Kind::UnixSocket;
        pipes == Pipes::Grow || asked.pipe_bytes.is_some() || self.pipe_bytes.is_none_or(hold)
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.route)?;
        if let Some(bytes) = self.chunk_bytes {
            write!(f, ", {} a call", shown(bytes as u64))?;
        }
        if let Some(bytes) = self.pipe_bytes {
            write!(f, ", pipes of {}", shown(bytes as u64))?;
        }
        if let Some(budget) = self.spin_ns {
            write!(f, ", spins {} us", budget / 1000)?;
        }
        if self.stays {
            f.write_str(", stays on its CPU")?;
        }
        Ok(())
    }
}

/// Why there is no profile to go by.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// There is none.
    #[error("there is no profile of this machine at {}; run {}", .0.display(), tuning(Some(.0)))]
    Absent(PathBuf),
    /// It cannot be read.
    #[error("cannot read the profile {}: {error}", path.display())]
    Unreadable {
        /// Where it is.
        path: PathBuf,
        /// The kernel's word.
        error: std::io::Error,
    },
    /// It is not one.
    #[error("{} is no profile: {why}; run {} to make one", path.display(), tuning(other_than(path)))]
    Corrupt {
        /// Where it is.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// It was made by a bytepath whose profiles mean something else.
    #[error("{} is of the format {found:?}, not {SCHEMA}; run {} again", path.display(), tuning(Some(path)))]
    OtherFormat {
        /// Where it is.
        path: PathBuf,
        /// The format that it names.
        found: String,
    },
    /// It is another machine's, or this one's before it was changed.
    #[error("the profile is stale: {why}; run {} again", tuning(path.as_deref()))]
    Stale {
        /// The file that was named, if one was.
        path: Option<PathBuf>,
        /// What has changed.
        why: String,
    },
}

impl ProfileError {
    /// The same of the profile in this file.
    #[must_use]
    pub fn of(self, path: &Path) -> ProfileError {
        match self {
            ProfileError::Stale { why, .. } => ProfileError::Stale { path: Some(path.into()), why },
            other => other,
        }
    }
}

/// The command that makes the profile in this file anew; the one in its usual place unless given.
pub fn tuning(path: Option<&Path>) -> String {
    match path.filter(|path| is_named(path)) {
        Some(path) => format!("bytepath tune --profile {}", quoted(path)),
        None => "bytepath tune".into(),
    }
}

/// Whether it is anywhere but in the usual place.
fn is_named(path: &Path) -> bool {
    Profile::default_path().is_none_or(|usual| usual != path)
}

/// Any other file, where one was named that may hold something else, which nobody wants to lose.
fn other_than(path: &Path) -> Option<&'static Path> {
    is_named(path).then(|| Path::new("FILE"))
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

    fn doubt_of(&self, pair: &Pair) -> Option<String> {
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

/// The text of a file that may be a profile.
fn text_of(path: &Path) -> Result<String, ProfileError> {
    let unreadable = |error: std::io::Error| match error.kind() {
        std::io::ErrorKind::NotFound => ProfileError::Absent(path.into()),
        _ => ProfileError::Unreadable { path: path.into(), error },
    };
    let corrupt = |why: &str| ProfileError::Corrupt { path: path.into(), why: why.into() };
    // A FIFO, say, would be waited for: here, or when it is read.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))
        .map(File::from)
        .map_err(|errno| unreadable(errno.into()))?;
    let found = file.metadata().map_err(unreadable)?;
    if !found.is_file() {
        return Err(corrupt("it is not a regular file"));
    }
    // Room for all of it, and for the read that finds its end: one call instead of a dozen.
    let mut text = String::with_capacity(found.len().min(FILE_BYTES_MAX) as usize + 64);
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(unreadable)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(corrupt("it is larger than 4 MiB"));
    }
    Ok(text)
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

/// What a plan by the figures of a profile goes by, for people; `doubt` is what disturbed them.
pub(crate) fn told_basis(doubt: Option<&str>) -> String {
    let measured = "by what was measured on this machine";
    doubt.map_or_else(|| measured.to_owned(), |doubt| format!("{measured}, {doubt}"))
}

/// What every version of the format has.
#[derive(Deserialize)]
struct Versioned {
    schema: String,
}

impl Pair {
    /// Where it was measured, for people.
    pub(crate) fn told_place(&self) -> String {
        let unnamed = || "another file system".to_owned();
        self.place.as_ref().map_or_else(unnamed, Place::to_string)
    }

    /// The best of the choices that some condition leaves: of those that are about as fast as the
    /// first, the one that is worth most, as its CPU time counts too.
    pub fn best(&self, of: impl Fn(&Setting) -> bool) -> Option<&Measured> {
        let worth = |measured: &&Measured| self.worth(measured);
        self.about_as_fast(of).max_by(|a, b| worth(a).total_cmp(&worth(b)))
    }

    /// The fastest of the choices that some condition leaves, and those that are about as fast.
    pub fn about_as_fast(&self, of: impl Fn(&Setting) -> bool) -> impl Iterator<Item = &Measured> {
        let left: Vec<_> = self.choices.iter().filter(|measured| of(&measured.choice)).collect();
        let overall = |measured: &&Measured| measured.overall_gib_per_s;
        let fastest = left.iter().copied().max_by(|a, b| overall(a).total_cmp(&overall(b)));
        let about_as_fast = move |measured: &&Measured| {
            fastest.is_some_and(|fastest| measured.is_about_as_fast_as(fastest))
        };
        left.into_iter().filter(about_as_fast)
    }

    /// A choice's speed, and how little of the CPU that takes: half of the CPU is worth 0.84 of the
    /// speed. A spinner is rarely worth what it burns, and what wakes its peer more often is the first
    /// to fall into a rut; but a tenth of the CPU, which is noise, is no reason to take the slower one.
    fn worth(&self, measured: &Measured) -> f64 {
        let steady = match (self.source, measured.choice.stays) {
            (End::Socket, true) => STAYING_IS_WORTH,
            _ => 1.0,
        };
        let cpu = measured.cpu_s_per_gib.max(CPU_S_PER_GIB_MIN);
        steady * measured.overall_gib_per_s / cpu.powf(0.25)
    }
}

impl Measured {
    /// Whether measuring again may turn it round.
    fn is_about_as_fast_as(&self, fastest: &Measured) -> bool {
        let share = self.overall_gib_per_s / fastest.overall_gib_per_s;
        let not_told_apart = self.ci95.is_none_or(|[_, high]| high >= fastest.gib_per_s);
        share >= ABOUT_AS_FAST || (not_told_apart && share >= NOT_FAR_BEHIND)
    }
}

/// Whoever takes pages out of a socket frees what they came in, which its CPU keeps for the next. From socket
/// to pipe, choices that five runs of half a minute could not tell apart were at 4.5 to 6.7 GiB/s in ten longer
/// ones, the one that stays at 5.9 to 6.7 in eight of them.
const STAYING_IS_WORTH: f64 = 1.1;

/// Less is not told from nothing.
const CPU_S_PER_GIB_MIN: f64 = 0.001;

/// A share of the fastest from which on a choice is about as fast, whatever the intervals say.
const ABOUT_AS_FAST: f64 = 0.97;

/// The same where its interval reaches the fastest, or there is none. Two ends that wake each other were measured at
/// 4.1 GiB/s by pipes of 64 KiB and at 3.7 by larger ones for half the CPU; a minute later it was 1.6 and 5.3.
const NOT_FAR_BEHIND: f64 = 0.85;

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;

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

    fn written(text: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().expect("a file");
        file.write_all(text).expect("written");
        file
    }

    fn sound() -> Profile {
        let choices = vec![gave("splice", Some(1 << 20), 5.0), gave("read-write", None, 1.0)];
        between_pipes(choices)
    }

    #[test]
    fn within_one_run_of_the_kernel_only_the_cpus_allowed_can_change() {
        let here = Machine::this();
        let mut key = MachineKey { kernel: "2.4.0".into(), ..MachineKey::of(here) };
        assert_eq!(key.differs(here), None);
        key.boot_id = "another run".into();
        assert_eq!(key.differs(here).map(|(what, ..)| what), Some("the kernel"));
        let other = MachineKey { cpus_allowed: "77".into(), ..MachineKey::of(here) };
        assert_eq!(other.differs(here).map(|(what, ..)| what), Some("the CPUs allowed"));
    }

    #[test]
    fn a_thread_that_may_use_other_cpus_than_before_is_asked_anew() {
        let here = Machine::this();
        if here.allowed_cpus_now().len() < 2 {
            println!("skipped: one CPU alone");
            return;
        }
        let cpus_allowed = here.allowed_cpus_now().to_string();
        let key = MachineKey { cpus_allowed, ..MachineKey::of(here) };
        let what = |key: &MachineKey| key.differs(here).map(|(what, ..)| what);
        assert_eq!(what(&key), None);
        let cpu = here.allowed_cpus_now().first().expect("a CPU");
        let pinned = crate::placement::pin_this_thread(cpu).expect("an allowed CPU");
        assert_eq!(what(&key), Some("the CPUs allowed"));
        let alone = MachineKey { cpus_allowed: cpu.to_string(), ..key.clone() };
        assert_eq!(what(&alone), None);
        drop(pinned);
        assert_eq!(what(&key), None);
    }

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
    fn the_remedy_writes_where_the_profile_was_looked_for() {
        let absent = |path: PathBuf| ProfileError::Absent(path).to_string();
        assert!(absent("nope.json".into()).ends_with("; run bytepath tune --profile nope.json"));
        assert!(absent("my own".into()).ends_with("; run bytepath tune --profile 'my own'"));
        if let Some(usual) = Profile::default_path() {
            assert!(absent(usual).ends_with("; run bytepath tune"));
        }
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
    fn figures_of_unix_sockets_are_not_those_of_tcp() {
        let end = |family| {
            let socket = rustix::net::socket(family, rustix::net::SocketType::STREAM, None);
            let socket = socket.expect("a socket");
            End::of(Endpoint::sink(socket.as_fd()).expect("a sink").kind())
        };
        assert_eq!(end(rustix::net::AddressFamily::UNIX), Some(End::Socket));
        assert_eq!(end(rustix::net::AddressFamily::INET), None);
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
    fn of_choices_about_as_fast_the_one_that_takes_least_of_the_cpu_is_best() {
        let cost = |measured: Measured, cpu| Measured { cpu_s_per_gib: cpu, ..measured };
        let choices = vec![
            cost(gave("splice", None, 10.0), 0.9),
            cost(gave("sendfile", None, 9.8), 0.1),
            cost(gave("read-write", None, 9.0), 0.01),
        ];
        let pair = Pair { source: End::File, sink: End::Pipe, place: None, bytes: None, choices };
        let best = |of: fn(&Setting) -> bool| pair.best(of).map(|best| best.choice.route.as_str());
        assert_eq!(best(|_| true), Some("sendfile"));
        assert_eq!(best(|setting| setting.route != "sendfile"), Some("splice"));
        assert_eq!(best(|_| false), None);
    }

    #[test]
    fn a_choice_that_a_measurement_does_not_tell_from_the_fastest_may_be_the_best() {
        let measured = |route: &str, figure: f64, high, cpu_s_per_gib| {
            let ci95 = Some([figure - 0.5, high]);
            Measured { ci95, cpu_s_per_gib, ..gave(route, None, figure) }
        };
        let best_of = |second: Measured| {
            let choices = vec![measured("splice-through", 4.1, 4.6, 0.13), second];
            let pair =
                Pair { source: End::Pipe, sink: End::Socket, place: None, bytes: None, choices };
            pair.best(|_| true).map(|best| best.choice.route.clone())
        };
        assert_eq!(best_of(measured("splice", 3.7, 4.5, 0.07)).as_deref(), Some("splice"));
        let looked_at_twice =
            |figure| Measured { ci95: None, ..measured("splice", figure, 0.0, 0.07) };
        assert_eq!(best_of(looked_at_twice(3.7)).as_deref(), Some("splice"));
        assert_eq!(best_of(looked_at_twice(3.3)).as_deref(), Some("splice-through"));
        let hardly_cheaper = best_of(measured("splice", 3.7, 4.5, 0.11));
        assert_eq!(hardly_cheaper.as_deref(), Some("splice-through"));
        let (surely_slower, far_behind) =
            (measured("splice", 3.7, 4.0, 0.07), measured("splice", 3.3, 4.5, 0.07));
        for second in [surely_slower, far_behind] {
            assert_eq!(best_of(second).as_deref(), Some("splice-through"));
        }
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
