//! How a mover comes to its plan, and how it goes on with it: by rules where the job is small, by the
//! profile where it is worth a look, and from then on watched, stretch by stretch.
//!
//! ```
//! use bytepath::planning::{Carrying, Wishes};
//! use bytepath::{Endpoint, Job, Knobs, Meter};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (source, sink) = (Endpoint::open_source("/etc/hostname")?, Endpoint::open_sink("/dev/null")?);
//! let (meter, job) = (Meter::new(), Job::new(&source, &sink));
//! let mut planning = Wishes::default().begin(&job, Knobs::default())?;
//! let moved = planning.carry(&Carrying { job, meter: &meter, cancel: None })?;
//! println!("{}", planning.told().join("\n"));
//! assert_eq!(moved.bytes, meter.bytes());
//! # Ok(()) }
//! ```

mod carrying;
mod watch;

use std::borrow::Cow;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fd::AsFd;
use rustix::io::Errno;

use crate::machine::Machine;
use crate::plan::{Basis, PlanError};
use crate::profile::{self, End, ProfileError};
use crate::size;
use crate::transfer::Gave;
use crate::{Endpoint, Job, Kind, Knobs, Moved, Pipes, Plan, Profile, TransferError};
pub use carrying::{Carrying, Clock};
use watch::{Advice, Trying, Watch, Window};

/// Looking at the profile takes about as long as moving 1 MiB, so a job that is known to be smaller
/// than this goes by rules, and a larger one looks before it begins.
const LOOK_FROM_BYTES: u64 = 16 << 20;

/// A job of unknown size may end any moment. Once it has moved this much it makes its pipes larger,
/// which takes a tenth of the time of looking.
const GROW_FROM_BYTES: u64 = (128 << 10) + (64 << 10);
/// Once it has moved this much it looks. A little more than a round number: a job of just that is over.
const UNSURE_BYTES: u64 = (1 << 20) + (64 << 10);

/// Stretches of this length and more end at a multiple of it: what begins between two large pieces of
/// the page cache is copied to and from smaller ones for the rest of the file.
const EVEN_BYTES: u64 = 1 << 20;

/// A stretch lasts about a tenth of a second, or takes that many bytes. Shorter ones end at a multiple
/// of the least, which is one of every block that O_DIRECT asks for.
const STRETCH_BYTES_MIN: u64 = 64 << 10;
const STRETCH_BYTES_MAX: u64 = 16 << 30;
/// The same for movers that notice in between what their user wants: a fast source may become slow
/// in the middle of a stretch.
const NOTICING_BYTES_MAX: u64 = 64 << 20;
const STRETCH_SHORT: Duration = Duration::from_millis(50);
const STRETCH_LONG: Duration = Duration::from_millis(200);

/// What a user may say about the plan; nothing unless said.
#[derive(Debug, Clone, Copy, Default)]
pub struct Wishes<'o> {
    /// This route alone.
    pub route: Option<&'o str>,
    /// This profile, as [`named_profile`] reads it; the one in its usual place unless given.
    pub profile: Option<&'o Profile>,
    /// Pipes at either end keep the size they have.
    pub leave_pipes: bool,
}

/// Why there is no movement, or why it ended short.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CarryError {
    /// No plan.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// The movement ended short.
    #[error(transparent)]
    Transfer(#[from] TransferError),
    /// What was moved could not be brought to the device.
    #[error("error syncing: {errno}")]
    Syncing {
        /// The kernel's word.
        errno: Errno,
        /// What was moved until then.
        moved: Moved,
    },
}

impl<'o> Wishes<'o> {
    /// The plan that a job begins with: the route named, or the best for what is known of the job,
    /// with the knobs that the mover insists on.
    ///
    /// # Errors
    /// There is none.
    pub fn begin(self, job: &Job<'_>, knobs: Knobs) -> Result<Planning<'o>, CarryError> {
        let plan = match self.route {
            Some(name) => Plan::only(name, job, knobs.clone())?,
            None => Plan::best(job, knobs.clone())?,
        };
        let mut planning = Planning {
            wishes: self,
            knobs,
            plan: self.sparing(plan),
            stage: Stage::Settled,
            stretch_bytes: u64::MAX,
            may_give_records: !job.source.kind().is_cached(),
            always_stretches: false,
            watch: Watch::default(),
            passed: 0,
            total: Moved::default(),
            moved_by: Vec::new(),
            small_pipe: false,
            handed_out_bytes: 0,
            broke_off: false,
            began: Instant::now(),
            took: None,
            why: None,
            changes: Vec::new(),
        };
        planning.begin_with(job)?;
        Ok(planning)
    }

    /// The plan, with pipes left as they are if they are to be.
    fn sparing(self, plan: Plan) -> Plan {
        if self.leave_pipes { plan.leave_pipes() } else { plan }
    }
}

/// How far the choice has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// By rules; the profile is looked at after this stretch.
    Unsure,
    /// By the profile, and watched.
    Watched,
    /// As it is to the end.
    Settled,
}

/// The plan of a movement as it goes on, stretch by stretch.
#[derive(Debug)]
pub struct Planning<'o> {
    wishes: Wishes<'o>,
    knobs: Knobs,
    plan: Plan,
    stage: Stage,
    /// A multiple of the least, or all.
    stretch_bytes: u64,
    /// Whether reads of the source are not cut: see [`Planning::stretch`].
    may_give_records: bool,
    always_stretches: bool,
    watch: Watch,
    /// How many routes of the plan were left behind for their speed.
    passed: usize,
    total: Moved,
    /// The routes that moved anything, in the order in which they began.
    moved_by: Vec<&'static str>,
    /// Whether a pipe at either end stayed smaller than it was to be.
    small_pipe: bool,
    /// Bytes that the error which ended it holds.
    handed_out_bytes: u64,
    /// Whether an error ended it.
    broke_off: bool,
    began: Instant,
    /// How long it took, once that is known.
    took: Option<Duration>,
    /// Why the profile has no say, or what disturbed it.
    why: Option<String>,
    /// What was changed on the way, for people.
    changes: Vec<String>,
}

impl Planning<'_> {
    /// The plan now.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The bytes of the next stretch at most: so many that it lasts a tenth of a second, or all.
    pub fn most_bytes(&self) -> u64 {
        let (bytes, total) = (self.stretch_bytes, self.total.bytes);
        if self.ends_with_a_read() {
            return bytes;
        }
        match total % EVEN_BYTES {
            0 if bytes == u64::MAX => bytes,
            over if bytes == u64::MAX => EVEN_BYTES - over,
            _ if bytes >= EVEN_BYTES => bytes - (total + bytes) % EVEN_BYTES,
            _ => bytes - (total + bytes) % STRETCH_BYTES_MIN,
        }
    }

    /// A part of the job, of so many bytes; `left` are those that may be taken in all. Reads of a
    /// source that may give records are not cut for its sake.
    pub fn stretch<'a>(&self, job: &Job<'a>, bytes: u64, left: u64) -> Job<'a> {
        let beyond = if self.may_give_records { left.saturating_sub(bytes) } else { 0 };
        job.stretch(bytes, beyond)
    }

    /// Whether a stretch ends wherever a read of its source does, which may give records.
    pub fn ends_with_a_read(&self) -> bool {
        let first = self.plan.routes().first();
        self.may_give_records && first.is_some_and(|choice| choice.route.name() == "read-write")
    }

    /// The same, in stretches also where the plan is settled, for movers with something to do in
    /// between.
    pub fn in_stretches(self) -> Self {
        let stretch_bytes = self.stretch_bytes.min(UNSURE_BYTES);
        Planning { stretch_bytes, always_stretches: true, ..self }
    }

    /// To be started before a stretch.
    fn clock(&self) -> Clock {
        match self.stage {
            Stage::Watched => Clock::now(),
            // Nobody asks how busy the mover was.
            Stage::Unsure | Stage::Settled => Clock::wall(),
        }
    }

    /// Looks at the profile where what is known of the job says that it is worth it.
    fn begin_with(&mut self, job: &Job<'_>) -> Result<(), CarryError> {
        match job.bytes_known() {
            _ if self.wishes.route.is_some() => {}
            // A profile that was named is gone by, however small the job.
            _ if self.wishes.profile.is_some() => self.look(job)?,
            Some(bytes) if bytes >= LOOK_FROM_BYTES => self.look(job)?,
            Some(_) => {}
            // What a pipe holds is small, and carried at once.
            None if job.keep_source => {}
            None => self.wait_and_see(),
        }
        Ok(())
    }

    /// Goes on after what came before, which may have been too small to look at the profile.
    fn go_on_with(&mut self, job: &Job<'_>) -> Result<(), CarryError> {
        self.broke_off = false;
        self.total.bytes += std::mem::take(&mut self.handed_out_bytes);
        let looked = self.plan.basis() != Basis::Rules || self.why.is_some();
        if self.stage == Stage::Settled && !looked { self.begin_with(job) } else { Ok(()) }
    }

    /// Goes by rules for one short stretch; pipes are as they are until it is known that the job
    /// is worth it.
    fn wait_and_see(&mut self) {
        self.plan = self.plan.clone().leave_pipes();
        self.stage = Stage::Unsure;
        self.stretch_bytes = GROW_FROM_BYTES;
    }

    /// To be told of each stretch, as it began and what it moved. Changes the plan for what is left
    /// of the job if there is reason to.
    ///
    /// # Errors
    /// There is no plan for what is left.
    pub fn went(&mut self, job: &Job<'_>, moved: Moved, clock: Clock) -> Result<(), CarryError> {
        let whole = moved.bytes >= self.most_bytes();
        let window = clock.window(moved.bytes);
        let as_planned = moved.declined.is_empty();
        self.gave_up(&moved.declined);
        self.came_by(&moved.declined, moved.route, moved.bytes);
        // The next stretch begins with what brought this one to its end.
        for gave in &moved.declined {
            self.plan = self.plan.clone().without(gave.route, &gave.why);
        }
        let stayed_small = moved.small_pipe.is_some() && has_small_pipe(job, &self.plan);
        self.total.small_pipe = moved.small_pipe.or(self.total.small_pipe.take());
        if stayed_small && !self.small_pipe {
            self.small_pipe = true;
            // What larger pipes gave cannot come.
            if self.stage == Stage::Watched {
                return self.look(job);
            }
        }
        match self.stage {
            Stage::Unsure if self.total.bytes >= UNSURE_BYTES => self.look(job)?,
            Stage::Unsure if self.total.bytes >= GROW_FROM_BYTES => {
                return self.go_by_rules(job);
            }
            Stage::Watched if whole && as_planned => self.heed(&window),
            Stage::Unsure | Stage::Watched | Stage::Settled => {}
        }
        self.stretch_bytes = match (self.stretch_bytes, window.wall) {
            (u64::MAX, _) => u64::MAX,
            (bytes, short) if whole && short < STRETCH_SHORT => self.within(bytes * 2),
            (bytes, long) if long > STRETCH_LONG => self.within(bytes / 2),
            (bytes, _) => bytes,
        };
        Ok(())
    }

    /// Keeps by which byte of the whole job, and not of a stretch that begins now, routes gave up.
    fn gave_up(&mut self, declined: &[Gave]) {
        let before = self.total.bytes;
        let of_job = |gave: &Gave| Gave { offset: before + gave.offset, ..gave.clone() };
        self.total.declined.extend(declined.iter().map(of_job));
    }

    /// Counts what a stretch moved, and keeps by which routes.
    fn came_by(&mut self, declined: &[Gave], route: &'static str, bytes: u64) {
        let mut moved = 0;
        let gave_up = declined.iter().map(|gave| (gave.route, gave.offset));
        for (route, end) in gave_up.chain([(route, bytes)]) {
            if end > moved && !self.moved_by.contains(&route) {
                self.moved_by.push(route);
            }
            moved = moved.max(end);
        }
        self.total.bytes += bytes;
        self.total.route = route;
    }

    /// To be told of the error that ended the last stretch, by its place in that stretch.
    pub fn broke_off(&mut self, error: &TransferError) {
        self.broke_off = true;
        match error {
            TransferError::Failed(failed) => {
                self.gave_up(&failed.declined);
                self.came_by(&failed.declined, failed.route, failed.offset);
                self.handed_out_bytes = failed.stranded.len() as u64;
            }
            TransferError::Declined { offset, declined } => {
                self.gave_up(declined);
                self.came_by(declined, self.total.route, *offset);
            }
            TransferError::Cancelled { offset, stranded, route, declined } => {
                self.gave_up(declined);
                self.came_by(declined, route, *offset);
                self.handed_out_bytes = stranded.len() as u64;
            }
            TransferError::MeterInUse | TransferError::PipeSize(_) | TransferError::OtherJob(_) => {
            }
        }
    }

    /// Goes by rules, with pipes as large as they want them, until it is worth while to look.
    fn go_by_rules(&mut self, job: &Job<'_>) -> Result<(), CarryError> {
        self.take(Plan::best(job, self.knobs.clone())?);
        self.stretch_bytes = self.within(UNSURE_BYTES - self.total.bytes);
        Ok(())
    }

    /// Settles on the plan for a job, by the profile if there is one.
    fn look(&mut self, job: &Job<'_>) -> Result<(), CarryError> {
        let ends = End::of_both(job.source, job.sink);
        let found = match self.wishes.profile {
            Some(profile) => Ok(Cow::Borrowed(profile)),
            None => usual(|path| Profile::read_between(path, ends)).map(Cow::Owned),
        };
        let plan = match &found {
            Ok(profile) => {
                let leave = self.wishes.leave_pipes || self.small_pipe;
                let pipes = if leave { Pipes::Leave } else { Pipes::Grow };
                Plan::by_profile(job, self.knobs.clone(), profile, pipes)?
            }
            Err(_) => Plan::best(job, self.knobs.clone())?,
        };
        self.why = match (found, plan.unmeasured()) {
            (Ok(profile), Some(what)) => Some(what.told(&profile)),
            (Ok(profile), None) => profile.doubt_between(job.source, job.sink),
            (Err(why), _) => Some(why),
        };
        self.take(plan);
        self.stage = match self.plan.basis() {
            Basis::Profile => Stage::Watched,
            Basis::Rules | Basis::Asked => Stage::Settled,
        };
        self.stretch_bytes = match self.stage {
            // They grow from small ones on, as nobody knows how fast the other end is.
            _ if self.always_stretches => self.stretch_bytes,
            Stage::Watched => self.tenth_of_a_second(),
            Stage::Unsure | Stage::Settled => u64::MAX,
        };
        Ok(())
    }

    /// A plan for what is left of the job: what has given up would do so again.
    fn take(&mut self, plan: Plan) {
        let plan = self.wishes.sparing(plan);
        let gave = self.total.declined.iter();
        self.plan = gave.fold(plan, |plan, gave| plan.without(gave.route, &gave.why));
    }

    /// The bytes that the plan is expected to move in that time.
    fn tenth_of_a_second(&self) -> u64 {
        let expected = self.plan.routes().first().and_then(|choice| choice.expected_gib_per_s);
        let bytes = expected.unwrap_or(1.0) * f64::from(1 << 30) / 10.0;
        self.within(bytes as u64)
    }

    /// The nearest length of a stretch.
    fn within(&self, bytes: u64) -> u64 {
        let most = if self.always_stretches { NOTICING_BYTES_MAX } else { STRETCH_BYTES_MAX };
        (bytes - bytes % STRETCH_BYTES_MIN).clamp(STRETCH_BYTES_MIN, most)
    }

    /// Does as the watch advises.
    fn heed(&mut self, window: &Window) {
        let Some(first) = self.plan.routes().first() else { return };
        let trying = Trying {
            expected_gib_per_s: first.expected_gib_per_s,
            spins: first.knobs.wait.spins(),
            has_next: self.passed + 1 < self.plan.routes().len() && next_is_measured(&self.plan),
        };
        let advice = self.watch.saw(window, trying);
        let plan = self.plan.clone();
        self.plan = match advice {
            Advice::Stay => return,
            Advice::Sleep => plan.sleeping(),
            Advice::Next => plan.by_next(),
            Advice::Back => plan.by_previous(),
        };
        match advice {
            Advice::Next => self.passed += 1,
            Advice::Back => self.passed -= 1,
            Advice::Stay | Advice::Sleep => {}
        }
        let to = match advice {
            Advice::Sleep => "sleeping instead of spinning".to_owned(),
            _ => self.plan.routes().first().map_or(String::new(), |now| now.route.name().into()),
        };
        self.changes.push(format!(
            "at byte {}: {}; went on by {to}",
            self.total.bytes,
            size::rate(window.gib_per_s())
        ));
    }

    /// As it stands, for whoever may want to be told of it later: putting it into words takes as long
    /// as copying a small file.
    pub fn over(self) -> Planning<'static> {
        Planning {
            wishes: Wishes::default(),
            knobs: self.knobs,
            plan: self.plan,
            stage: self.stage,
            stretch_bytes: self.stretch_bytes,
            may_give_records: self.may_give_records,
            always_stretches: self.always_stretches,
            watch: self.watch,
            passed: self.passed,
            total: self.total,
            moved_by: self.moved_by,
            small_pipe: self.small_pipe,
            handed_out_bytes: self.handed_out_bytes,
            broke_off: self.broke_off,
            began: self.began,
            took: Some(self.took.unwrap_or_else(|| self.began.elapsed())),
            why: self.why,
            changes: self.changes,
        }
    }

    /// What the plan goes by, and why.
    pub fn reason(&self) -> String {
        match (self.plan.basis(), &self.why) {
            (Basis::Asked, _) => "the route that was asked for".to_owned(),
            (Basis::Profile, doubt) => profile::told_basis(doubt.as_deref()),
            (Basis::Rules, Some(why)) => format!("by rules; {why}"),
            (Basis::Rules, None) => {
                "by rules; the job was too small to look at the profile".to_owned()
            }
        }
    }

    /// Tells people of the plan and what came of it so far, line by line.
    pub fn told(&self) -> Vec<String> {
        let total = &self.total;
        let mut told: Vec<String> =
            self.plan.to_string().lines().map(|line| format!("  {line}")).collect();
        told.extend(total.small_pipe.iter().map(ToString::to_string));
        told.extend(
            total.declined.iter().map(|gave| {
                format!("{} gave up at byte {}: {}", gave.route, gave.offset, gave.why)
            }),
        );
        told.extend(self.changes.iter().cloned());
        let took = self.took.unwrap_or_else(|| self.began.elapsed());
        let rate = total.bytes as f64 / f64::from(1 << 30) / took.as_secs_f64().max(1e-9);
        let by = match (&self.moved_by[..], total.route) {
            ([], "") => String::new(),
            ([], route) => format!(" by {route}"),
            (routes, _) => format!(" by {}", routes.join(", by ")),
        };
        let end = if self.broke_off { "; then it broke off" } else { "" };
        told.push(format!("came: {} bytes{by}, {}{end}", total.bytes, size::rate(rate)));
        told
    }
}

/// Whether a pipe at either end is smaller than the plan wishes.
fn has_small_pipe(job: &Job<'_>, plan: &Plan) -> bool {
    let wished = plan.grow_pipes_to().unwrap_or(0);
    let small = |end: &Endpoint<'_>| {
        end.kind() == Kind::Pipe && crate::outlets::pipe_bytes(end.as_fd()) < wished
    };
    small(job.source) || small(job.sink)
}

/// Whether there are figures of the second route: what was never measured is not tried for its speed.
fn next_is_measured(plan: &Plan) -> bool {
    plan.routes().get(1).is_some_and(|choice| choice.expected_gib_per_s.is_some())
}

/// The profile in a file that was named, which has to be of this machine. Read before anything is touched,
/// and once for all that is moved: whatever becomes of the file meanwhile, the profile stays what it was.
///
/// # Errors
/// There is none, or it is none, or another machine's.
pub fn named_profile(path: &Path) -> Result<Profile, ProfileError> {
    let profile = Profile::read(path)?;
    profile.check_machine(Machine::this()).map_err(|error| error.of(path))?;
    Ok(Profile { named: Some(path.into()), ..profile })
}

/// The profile in its usual place, or why it cannot be used.
pub fn usual_profile() -> Result<Profile, String> {
    usual(Profile::read)
}

/// Why there is no folder of this user's own: neither HOME nor this variable of the environment names
/// one.
pub fn no_folder(variable: &str) -> String {
    let told = |name| match std::env::var_os(name) {
        None => format!("no {name}"),
        Some(value) => format!("no absolute path in {name} ({value:?})"),
    };
    format!("{} and {}", told("HOME"), told(variable))
}

fn usual(read: impl Fn(&Path) -> Result<Profile, ProfileError>) -> Result<Profile, String> {
    let Some(path) = Profile::default_path() else {
        return Err(format!("{}, so no profile", no_folder("XDG_STATE_HOME")));
    };
    let profile = read(&path).map_err(|error| error.to_string())?;
    profile.check_machine(Machine::this()).map_err(|error| error.to_string())?;
    Ok(profile)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Meter;
    use crate::profile::Pair;
    use crate::profile::tests::{gave, profile};

    #[test]
    fn a_pipe_that_stays_small_is_not_expected_to_give_what_larger_ones_gave() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        rustix::io::write(&writer, &[1; 1000]).expect("there is room");
        drop(writer);
        let source = Endpoint::source(reader.as_fd()).expect("a source");
        let sink = Endpoint::open_sink("/dev/null").expect("a sink");
        // No pipe can be made so large, whoever asks.
        let choices = vec![gave("splice", Some(1 << 31), 6.0), gave("splice", None, 1.0)];
        let pair = Pair { source: End::Pipe, sink: End::Null, place: None, bytes: None, choices };
        let profile = profile(vec![pair]);
        let wishes = Wishes { profile: Some(&profile), ..Wishes::default() };
        let (job, meter) = (Job::new(&source, &sink), Meter::new());
        let mut planning = wishes.begin(&job, Knobs::default()).expect("a plan");
        let expected = |planning: &Planning<'_>| planning.plan().routes()[0].expected_gib_per_s;
        assert_eq!(expected(&planning), Some(6.0));
        let moved = planning.carry(&Carrying { job, meter: &meter, cancel: None });
        assert_eq!(moved.expect("moved").bytes, 1000);
        assert_eq!(expected(&planning), Some(1.0));
        let told = planning.told().join("\n");
        assert!(told.contains("cannot set the pipe to 2 GiB"), "{told}");
    }

    #[test]
    fn stretches_end_on_the_grid_wherever_they_begin() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let source = Endpoint::open_source(file.path()).expect("a source");
        let sink = Endpoint::open_sink("/dev/null").expect("a sink");
        let job = Job::new(&source, &sink);
        let mut planning = Wishes::default().begin(&job, Knobs::default()).expect("a plan");
        let lengths =
            [0, 100_000, GROW_FROM_BYTES, EVEN_BYTES, UNSURE_BYTES, 460_259_328, u64::MAX];
        for bytes in lengths.map(|bytes| planning.within(bytes)) {
            for total in [0, 1, 4095, GROW_FROM_BYTES, EVEN_BYTES, UNSURE_BYTES, 5_000_001] {
                planning.stretch_bytes = bytes;
                planning.total.bytes = total;
                let most = planning.most_bytes();
                assert!(0 < most && most <= bytes, "{most} of {bytes} from {total} on");
                let grid = if bytes < EVEN_BYTES { STRETCH_BYTES_MIN } else { EVEN_BYTES };
                assert_eq!((total + most) % grid, 0, "{bytes} from {total} on");
            }
        }
    }

    #[test]
    fn stretches_of_a_file_that_takes_whole_blocks_only_are_such() {
        use std::io::{Read, Seek, Write};

        // On the disk that the build is on.
        let program = std::env::current_exe().expect("this program");
        let mut file = tempfile::NamedTempFile::new_in(program.parent().expect("a folder"));
        let file = file.as_mut().expect("a file");
        let bytes: Vec<u8> = (0..5_000_000_u32).map(|at| (at % 251) as u8).collect();
        file.write_all(&bytes).expect("written");
        let flags = rustix::fs::OFlags::DIRECT;
        let Ok(from) = rustix::fs::open(file.path(), flags, rustix::fs::Mode::empty()) else {
            return println!("skipped: the build's folder is on a file system without O_DIRECT");
        };
        for stretch_bytes in [100_000, 1_234_567] {
            rustix::fs::seek(&from, rustix::fs::SeekFrom::Start(0)).expect("positioned");
            let mut to = tempfile::tempfile().expect("a file");
            let source = Endpoint::source(from.as_fd()).expect("a source");
            let sink = Endpoint::sink(to.as_fd()).expect("a sink");
            let wishes = Wishes { route: Some("read-write"), ..Wishes::default() };
            let (job, meter) = (Job::new(&source, &sink), Meter::new());
            let mut planning = wishes.begin(&job, Knobs::default()).expect("a plan");
            planning.stretch_bytes = planning.within(stretch_bytes);
            let moved = planning.carry(&Carrying { job, meter: &meter, cancel: None });
            assert_eq!(moved.expect("moved").bytes, 5_000_000);
            let mut got = Vec::new();
            to.rewind().and_then(|()| to.read_to_end(&mut got)).expect("read");
            assert!(got == bytes, "other bytes");
        }
    }

    #[test]
    fn what_a_pipe_keeps_is_duplicated_once() {
        let pipe = || {
            let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
            rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20).expect("it is set");
            (reader, writer)
        };
        let ((from, feed), (drain, to)) = (pipe(), pipe());
        rustix::io::write(&feed, &[7; 500_000]).expect("there is room");
        let source = Endpoint::source(from.as_fd()).expect("a source");
        let sink = Endpoint::sink(to.as_fd()).expect("a sink");
        let (job, meter) = (Job::new(&source, &sink).keep_source(), Meter::new());
        let mut planning = Wishes::default().begin(&job, Knobs::default()).expect("a plan");
        for (job, in_all) in [(job, 500_000), (job.limit(400_000), 900_000)] {
            let moved = planning.carry(&Carrying { job, meter: &meter, cancel: None });
            assert_eq!(moved.expect("moved").bytes, in_all);
            assert_eq!(rustix::io::ioctl_fionread(&drain), Ok(in_all));
        }
        assert_eq!(rustix::io::ioctl_fionread(&from), Ok(500_000));
    }

    #[test]
    fn a_planning_that_goes_on_has_the_limit_of_each_call_and_windows_of_no_bytes_are_of_one() {
        let source = Endpoint::open_source("/dev/zero").expect("a source");
        let sink = Endpoint::open_sink("/dev/null").expect("a sink");
        let (job, meter) = (Job::new(&source, &sink), Meter::new());
        let mut planning = Wishes::default().begin(&job, Knobs::default()).expect("a plan");
        let went = |planning: &mut Planning<'_>, bytes, window_bytes| {
            let carrying = Carrying { job: job.limit(bytes), meter: &meter, cancel: None };
            planning.carry_in(window_bytes, &carrying, &mut |_| Ok(())).expect("moved").bytes
        };
        assert_eq!(went(&mut planning, 5_000_000, u64::MAX), 5_000_000);
        assert_eq!(went(&mut planning, 3_000_000, u64::MAX), 8_000_000);
        assert_eq!(went(&mut planning, 3, 0), 8_000_003);
        assert_eq!(meter.bytes(), 8_000_003);
    }

    #[test]
    fn a_planning_that_goes_on_after_a_cancel_counts_what_the_error_held() {
        let pipe = |bytes: usize| {
            let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
            rustix::pipe::fcntl_setpipe_size(&writer, bytes).expect("it is set");
            (reader, writer)
        };
        let ((from, feed), (drain, to)) = (pipe(64 << 10), pipe(4096));
        let source = Endpoint::source(from.as_fd()).expect("a source");
        let sink = Endpoint::sink(to.as_fd()).expect("a sink");
        let wishes = Wishes { route: Some("read-write"), leave_pipes: true, profile: None };
        let (job, meter) = (Job::new(&source, &sink), Meter::new());
        let mut planning = wishes.begin(&job, Knobs::default()).expect("a plan");
        rustix::io::write(&feed, &[1; 10_000]).expect("there is room");
        let cancel = crate::Cancel::new().expect("a token");
        let sink_bytes = || rustix::io::ioctl_fionread(&drain).expect("a pipe");
        let work = Carrying { job, meter: &meter, cancel: Some(&cancel) };
        let stopped = std::thread::scope(|scope| {
            let moving = scope.spawn(|| planning.carry(&work));
            while sink_bytes() < 4096 && !moving.is_finished() {
                std::thread::yield_now();
            }
            cancel.cancel();
            moving.join().expect("it ends").expect_err("it is cancelled")
        });
        let CarryError::Transfer(TransferError::Cancelled { offset, stranded, .. }) = stopped
        else {
            panic!("{stopped:?}");
        };
        assert_eq!((offset, stranded.len()), (4096, 10_000 - 4096));
        assert!(planning.told().join("\n").contains("broke off"));
        // What was handed out is for the caller to bring to the sink.
        let mut room = vec![0; 4096];
        assert_eq!(rustix::io::read(&drain, &mut room), Ok(4096));
        rustix::io::write(&feed, b"more").expect("there is room");
        let work = Carrying { job: job.limit(4), meter: &meter, cancel: None };
        assert_eq!(planning.carry(&work).expect("moved").bytes, 10_004);
        assert!(!planning.told().join("\n").contains("broke off"));
    }

    #[test]
    fn routes_are_told_that_moved_something_and_no_others() {
        let source = Endpoint::open_source("/dev/zero").expect("a source");
        let sink = Endpoint::open_sink("/dev/null").expect("a sink");
        let job = Job::new(&source, &sink);
        let mut planning = Wishes::default().begin(&job, Knobs::default()).expect("a plan");
        let gave = |route, offset| Gave { route, offset, why: "it says no".to_owned() };
        let stretches = [
            ("splice", 5, vec![]),
            // The plan changed for its speed: nothing gave up where splice ended.
            ("read-write", 10, vec![gave("sendfile", 0), gave("copy-file-range", 3)]),
            ("splice", 5, vec![]),
        ];
        for (route, bytes, declined) in stretches {
            let moved = Moved { bytes, route, declined, small_pipe: None };
            planning.went(&job, moved, Clock::wall()).expect("a plan for what is left");
        }
        let told = planning.told().join("\n");
        let came = "came: 20 bytes by splice, by copy-file-range, by read-write,";
        assert!(told.contains(came), "{told}");
    }

    #[test]
    fn routes_that_gave_up_before_it_broke_off_are_told_with_what_they_moved() {
        use crate::{Failed, Side};

        let source = Endpoint::open_source("/dev/zero").expect("a source");
        let sink = Endpoint::open_sink("/dev/null").expect("a sink");
        let job = Job::new(&source, &sink);
        let declined = || vec![Gave { route: "splice", offset: 3, why: "it says no".to_owned() }];
        let failed = Failed::new("read-write", Side::Sink, "write", Errno::NOSPC);
        for error in [
            Failed { offset: 5, declined: declined(), ..failed }.into(),
            TransferError::Cancelled {
                offset: 5,
                stranded: Vec::new(),
                route: "read-write",
                declined: declined(),
            },
        ] {
            let mut planning = Wishes::default().begin(&job, Knobs::default()).expect("a plan");
            planning.broke_off(&error);
            let told = planning.told().join("\n");
            assert!(told.contains("splice gave up at byte 3: it says no"), "{told}");
            assert!(told.contains("came: 5 bytes by splice, by read-write,"), "{told}");
        }
    }

    #[test]
    fn a_planning_that_began_small_looks_at_the_profile_once_there_is_much() {
        let source = Endpoint::open_source("/dev/zero").expect("a source");
        let sink = Endpoint::open_sink("/dev/null").expect("a sink");
        let (small, meter) = (Job::new(&source, &sink).limit(1000), Meter::new());
        let mut planning = Wishes::default().begin(&small, Knobs::default()).expect("a plan");
        for (bytes, looks) in [(1000, false), (1000, false), (LOOK_FROM_BYTES, true)] {
            let job = small.limit(bytes);
            planning.carry(&Carrying { job, meter: &meter, cancel: None }).expect("moved");
            assert_eq!(!planning.reason().contains("too small"), looks, "{}", planning.reason());
        }
        assert_eq!(meter.bytes(), 2000 + LOOK_FROM_BYTES);
    }
}
