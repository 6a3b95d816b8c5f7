//! Which routes to try for a job, in which order, and why the others are refused. Moves nothing and
//! changes nothing; asks the kernel what [`Route::suits`] and the profile's places need.

use std::fmt;

use crate::error::Refusal;
use crate::knobs::{Cpu, Knobs, Pipes};
use crate::profile::{End, Measured, Pair, Profile, Setting};
use crate::routes::{
    Aliasing, Allowed, Cache, Job, MEASURED_UNASKED, ROUTES, Rank, Route, by_name,
};
use crate::size::{rate, shown};
use crate::wait::Wait;

/// Pipes at the ends of jobs of at least this many bytes are made larger; smaller jobs would not
/// earn the system call back.
const GROW_PIPES_FROM_BYTES: u64 = 128 << 10;

/// What is measured of several threads is true of jobs that are as large, or nearly.
const MEASURED_BYTES: u64 = 32 << 20;

/// So many bytes are copied when it is measured, unless the pair says how many.
const MEASURED_BYTES_USUAL: u64 = 64 << 20;

/// The size they are made: what fs.pipe-max-size allows everybody by default. GNU coreutils (512
/// KiB) and uutils (1 MiB) do likewise.
const GROWN_PIPE_BYTES: usize = 1 << 20;

/// The ranked routes for a job, with their knobs, and why the others were refused. Printable.
#[derive(Clone)]
pub struct Plan {
    routes: Vec<Choice>,
    refused: Vec<Refused>,
    grow_pipes_to: Option<usize>,
    /// The pipe size that the caller insists on.
    pipe_bytes: Option<usize>,
    basis: Basis,
    unmeasured: Option<Unmeasured>,
}

/// What a profile has no figures for, so that rules decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmeasured {
    /// Ends of these kinds.
    Ends,
    /// The file system that the files are on.
    Place,
    /// Files on two file systems, which nobody measures.
    Places,
    /// Files so large that several threads copy them.
    Size,
    /// What the caller allows.
    Allowed,
}

impl Unmeasured {
    /// A sentence, without an end, of what this profile has no figures for.
    pub fn told(self, profile: &Profile) -> String {
        let what = match self {
            Unmeasured::Places => {
                return "no profile has figures for copies between two file systems".to_owned();
            }
            Unmeasured::Ends => "these ends",
            Unmeasured::Place => "these files' file system",
            Unmeasured::Size => "files so large that several threads copy them",
            Unmeasured::Allowed => "what may be done",
        };
        let told = format!("the profile has no figures for {what}");
        match self {
            // Of several threads, which are for such files.
            Unmeasured::Place | Unmeasured::Size => {
                format!("{told}, which `{} --bytes 128M --dir DIR` measures", profile.tuning())
            }
            Unmeasured::Ends | Unmeasured::Places | Unmeasured::Allowed => told,
        }
    }
}

/// What the order of the routes goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// One route was asked for.
    Asked,
    /// Rules that are sound everywhere.
    Rules,
    /// What was measured on this machine.
    Profile,
}

/// A route that will be tried.
#[derive(Clone)]
pub struct Choice {
    /// The route.
    pub route: &'static dyn Route,
    /// Its standing for the job.
    pub rank: Rank,
    /// Whether the bytes it delivers may still change.
    pub aliasing: Aliasing,
    /// How it is tried.
    pub knobs: Knobs,
    /// What this choice gave when this machine was measured between ends like these, in GiB/s.
    pub expected_gib_per_s: Option<f64>,
    /// What it gave on another file system, where that of the job's files was not measured.
    pub elsewhere: Option<Elsewhere>,
    /// The bytes of the files that gave this, where the job's are more.
    pub measured_bytes: Option<u64>,
    /// Why it stands first though another gave a little more, in words.
    pub preferred: Option<&'static str>,
}

/// What was measured on a file system that the job's files are not on.
#[derive(Debug, Clone)]
pub struct Elsewhere {
    /// The speed there.
    pub gib_per_s: f64,
    /// Where, for people: its type and the directory that was measured in.
    pub place: String,
}

/// A route that will not be tried.
#[derive(Debug, Clone)]
pub struct Refused {
    /// The route's name.
    pub route: &'static str,
    /// Why.
    pub refusal: Refusal,
}

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PlanError {
    /// No route has this name.
    #[error("there is no route {name}; there are: {}", names())]
    UnknownRoute {
        /// The name asked for.
        name: String,
    },
    /// The only route asked for does not suit the job.
    #[error("route {route} is refused: {refusal}")]
    Refused {
        /// The route.
        route: &'static str,
        /// Why.
        refusal: Refusal,
    },
    /// Source and sink are one file or device, which would grow without end, or be copied onto itself.
    #[error(
        "the source is the sink, so it would grow without end, or be copied onto itself; name another \
         file, or a limit"
    )]
    SameFile,
    /// Source and sink are one open file, which has one position.
    #[error(
        "both ends are one open file, with one position for reading and for writing; open the file \
         once more for one of them"
    )]
    SameOpenFile,
    /// Source and sink are parts of one file or device, and what is written would be read again.
    #[error(
        "what is written would be read again, as both are parts of one file; copy by way of another"
    )]
    Overlap,
    /// No route suits the job.
    #[error("no route suits this job: {0}")]
    None(Refusal),
}

fn names() -> String {
    ROUTES.iter().map(|route| route.name()).collect::<Vec<_>>().join(", ")
}

impl Plan {
    /// Every route that suits, best first. What a route declines at run time, the next takes over
    /// from the byte reached.
    ///
    /// # Errors
    /// No route suits; or both ends are one file, which would grow without end or be read again
    /// ([`PlanError::SameFile`], [`PlanError::Overlap`]), or one open file
    /// ([`PlanError::SameOpenFile`]).
    pub fn best(job: &Job<'_>, knobs: Knobs) -> Result<Plan, PlanError> {
        ends(job)?;
        let (mut routes, mut refused) = (Vec::new(), Vec::new());
        for route in ROUTES.iter().copied() {
            match suits(route, job).and_then(|rank| may_go_by_size(route, job).map(|()| rank)) {
                // One thread alone is not what the rules mean, as a rule.
                Ok(Rank::Together) if knobs.threads == Some(1) && !route.gains_alone(job) => {
                    routes.push(choice(route, Rank::Unproven, job, &knobs));
                }
                Ok(rank) => routes.push(choice(route, rank, job, &knobs)),
                Err(refusal) => refused.push(Refused { route: route.name(), refusal }),
            }
        }
        // Stable: among equals the order of ROUTES decides.
        routes.sort_by_key(|choice| std::cmp::Reverse(choice.rank));
        if routes.is_empty() {
            // The first is the most particular: it says what the job lacks.
            let first = refused.into_iter().next();
            let none = Refusal::because("there are none");
            return Err(PlanError::None(first.map_or(none, |refused| refused.refusal)));
        }
        let (grow_pipes_to, pipe_bytes) = (grow(job, &knobs), knobs.pipe_bytes);
        let (basis, unmeasured) = (Basis::Rules, None);
        Ok(Plan { routes, refused, grow_pipes_to, pipe_bytes, basis, unmeasured })
    }

    /// As [`Plan::best`], in the order of what was measured on this machine, each route with the
    /// knobs that [`Pair::best`](crate::profile::Pair::best) prefers; what the caller set stays as
    /// it is. Routes that were not measured come last, and so do those of several threads that were
    /// measured on another file system only. Where the pair was not measured at all, or rules would
    /// have several threads copy on a file system that was not, or what is larger than what was
    /// measured, the rules decide, and [`Plan::unmeasured`] says why. Where pipes are to stay as they
    /// are, what larger ones gave has no say.
    ///
    /// # Errors
    /// No route suits; or both ends are one file, which would grow without end or be read again
    /// ([`PlanError::SameFile`], [`PlanError::Overlap`]), or one open file
    /// ([`PlanError::SameOpenFile`]).
    pub fn by_profile(
        job: &Job<'_>,
        knobs: Knobs,
        profile: &Profile,
        pipes: Pipes,
    ) -> Result<Plan, PlanError> {
        let mut plan = Plan::best(job, knobs.clone())?;
        if pipes == Pipes::Leave {
            plan = plan.leave_pipes();
        }
        let found = profile.pair_and_whether_here(job.source, job.sink);
        let Some((pair, measured_here)) = found else {
            return Ok(Plan { unmeasured: Some(Unmeasured::Ends), ..plan });
        };
        // What several threads gain is a matter of the file system's locks, of which the figures of
        // another say nothing; nor do those of fewer bytes than are worth the threads.
        let first = plan.routes.first().filter(|first| first.rank == Rank::Together);
        let measured_bytes = pair.bytes.unwrap_or(MEASURED_BYTES_USUAL);
        let as_measured = |first: &Choice| first.route.suits(&job.limit(measured_bytes));
        if first.is_some_and(|it| !measured_here || as_measured(it) != Ok(Rank::Together)) {
            let what = match measured_here {
                true => Unmeasured::Size,
                // Only copies from file to file are for several threads.
                false if job.source.device() != job.sink.device() => Unmeasured::Places,
                false => Unmeasured::Place,
            };
            return Ok(Plan { unmeasured: Some(what), ..plan });
        }
        let several = measured_here && job.is_for_several(MEASURED_BYTES);
        let counts = |choice: &Choice| {
            !choice.route.is_parallel() || several || choice.rank == Rank::Together
        };
        let eligible: Vec<_> =
            plan.routes.iter().filter(|choice| counts(choice)).map(|c| c.route.name()).collect();
        let allowed = |setting: &Setting| {
            eligible.contains(&setting.route.as_str())
                && setting.agrees(&knobs)
                // What spins is watched, by figures of here.
                && (measured_here || setting.spin_ns.is_none())
                && setting.suits(pipes, &knobs, (job.source, job.sink))
        };
        let elsewhere = (!measured_here).then(|| pair.told_place());
        let is_longer = pair.source == End::File
            && job.bytes_known().is_some_and(|bytes| bytes > measured_bytes);
        let Some(best) = pair.best(allowed) else {
            return Ok(Plan { unmeasured: Some(Unmeasured::Allowed), ..plan });
        };
        let mut figures = Vec::new();
        for choice in &mut plan.routes {
            let name = choice.route.name();
            let (own, figure) = match best.choice.route == name {
                // It stands first, whatever the others gave.
                true => (Some(best), f64::INFINITY),
                false => {
                    let own = pair.best(|setting| setting.route == name && allowed(setting));
                    (own, own.map_or(0.0, |own| own.overall_gib_per_s))
                }
            };
            let Some(own) = own else { continue };
            choice.knobs = own.choice.filled(&knobs);
            if best.choice.route == name {
                choice.preferred = preferred(pair, best, allowed);
            }
            let gib_per_s = own.overall_gib_per_s;
            choice.measured_bytes = is_longer.then_some(measured_bytes);
            match &elsewhere {
                None => choice.expected_gib_per_s = Some(gib_per_s),
                Some(place) => {
                    choice.elsewhere = Some(Elsewhere { gib_per_s, place: place.clone() });
                }
            }
            figures.push((name, figure));
        }
        plan.basis = Basis::Profile;
        let figure = |choice: &Choice| {
            let name = choice.route.name();
            figures.iter().find(|(route, _)| *route == name).map_or(0.0, |(_, figure)| *figure)
        };
        plan.routes.sort_by(|a, b| figure(b).total_cmp(&figure(a)));
        let first_pipe = best.choice.pipe_bytes;
        let grows = pipes == Pipes::Grow && knobs.pipe_bytes.is_none() && !job.keep_source;
        plan.grow_pipes_to = first_pipe.filter(|_| grows);
        Ok(plan)
    }

    /// One route alone: it is never exchanged for another. This is what measurements use. An empty
    /// file is moved by each that suits its ends.
    ///
    /// # Errors
    /// No route has this name, or it does not suit the job.
    pub fn only(name: &str, job: &Job<'_>, knobs: Knobs) -> Result<Plan, PlanError> {
        let route = by_name(name).ok_or_else(|| PlanError::UnknownRoute { name: name.into() })?;
        ends(job)?;
        let suited = suits(route, job).and_then(|rank| match may_go_by_size(route, job) {
            Err(refusal) if !job.source.gives_nothing() => Err(refusal),
            _ => Ok(rank),
        });
        let rank = suited.map_err(|refusal| PlanError::Refused { route: route.name(), refusal })?;
        let routes = vec![choice(route, rank, job, &knobs)];
        let (pipe_bytes, basis) = (knobs.pipe_bytes, Basis::Asked);
        let (refused, grow_pipes_to, unmeasured) = (Vec::new(), None, None);
        Ok(Plan { routes, refused, grow_pipes_to, pipe_bytes, basis, unmeasured })
    }

    /// The same plan, but pipes at the ends keep the size they have unless the knobs name one.
    #[must_use]
    pub fn leave_pipes(self) -> Plan {
        Plan { grow_pipes_to: None, ..self }
    }

    /// The same plan, beginning with the route that stood second; the first is now the last resort.
    #[must_use]
    pub fn by_next(mut self) -> Plan {
        self.routes.rotate_left(1);
        self
    }

    /// The same plan without a route that has given up, unless it is the only one.
    #[must_use]
    pub fn without(mut self, route: &'static str, why: &str) -> Plan {
        if self.routes.len() > 1 && self.routes.iter().any(|choice| choice.route.name() == route) {
            self.routes.retain(|choice| choice.route.name() != route);
            self.refused.push(Refused { route, refusal: Refusal::because(why.to_owned()) });
        }
        self
    }

    /// Undoes [`Plan::by_next`].
    #[must_use]
    pub fn by_previous(mut self) -> Plan {
        self.routes.rotate_right(1);
        self
    }

    /// The same plan, but where it would spin it sleeps at once.
    #[must_use]
    pub fn sleeping(mut self) -> Plan {
        for choice in self.routes.iter_mut().filter(|choice| choice.knobs.wait.spins()) {
            choice.knobs.wait = Wait::Block;
        }
        self
    }

    /// The routes in the order in which they are tried.
    pub fn routes(&self) -> &[Choice] {
        &self.routes
    }

    /// The routes that are not tried.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// What their order goes by.
    pub fn basis(&self) -> Basis {
        self.basis
    }

    /// What the profile that was looked at has no figures for, where rules decide.
    pub fn unmeasured(&self) -> Option<Unmeasured> {
        self.unmeasured
    }

    /// The size that pipes at the ends must have.
    pub(crate) fn pipe_bytes(&self) -> Option<usize> {
        self.pipe_bytes
    }

    /// The size that pipes at the ends, and the buffer of a Unix socket that is written to, are to grow
    /// to if they may.
    pub(crate) fn grow_pipes_to(&self) -> Option<usize> {
        self.grow_pipes_to
    }
}

/// Whether a route suits a job, and does with the page cache as it asks.
pub(crate) fn suits(route: &dyn Route, job: &Job<'_>) -> Result<Rank, Refusal> {
    let rank = route.suits(job)?;
    keeps_to(route, job)?;
    match (job.sharing, rank) {
        (Allowed::Yes, rank) => Ok(rank),
        // Reading and writing tells which end an error is of, so the others have to earn it.
        (Allowed::No, Rank::InKernel | Rank::ByReference) => {
            Ok(if route.is_as_good_as_reading(job) { rank } else { Rank::Unproven })
        }
        (Allowed::No, rank) => Ok(rank),
    }
}

/// Whether a job allows a route, however well it suits. Asks nothing of the kernel.
pub(crate) fn allows(route: &dyn Route, job: &Job<'_>) -> Result<(), Refusal> {
    route.is_allowed(job)?;
    keeps_to(route, job)
}

/// Whether a route does with the page cache, and with blocks, as a job asks.
fn keeps_to(route: &dyn Route, job: &Job<'_>) -> Result<(), Refusal> {
    let cached = job.source.kind().is_cached() || job.sink.kind().is_cached();
    if cached && job.cache == Cache::LeaveAsItWas {
        route.leaves_cache()?;
    }
    match job.sharing {
        Allowed::No if route.may_share() => {
            Err(Refusal::because("the file system may share blocks, or leave holes"))
        }
        _ => Ok(()),
    }
}

/// Refuses to a route that goes by the source's size a file that says it is empty: only a read tells
/// whether it is.
fn may_go_by_size(route: &dyn Route, job: &Job<'_>) -> Result<(), Refusal> {
    match job.source.says_empty() && route.goes_by_size() {
        true => Err(Refusal::because("the source says that it is empty, so it has to be read")),
        false => Ok(()),
    }
}

fn choice(route: &'static dyn Route, rank: Rank, job: &Job<'_>, knobs: &Knobs) -> Choice {
    let (aliasing, knobs) = (route.aliasing(job), knobs.clone());
    Choice {
        route,
        rank,
        aliasing,
        knobs,
        expected_gib_per_s: None,
        elsewhere: None,
        measured_bytes: None,
        preferred: None,
    }
}

/// Why this choice is the best, if another of those allowed gave more.
fn preferred(
    pair: &Pair,
    best: &Measured,
    allowed: impl Fn(&Setting) -> bool,
) -> Option<&'static str> {
    let overall = |measured: &&Measured| measured.overall_gib_per_s;
    let fastest = pair.about_as_fast(allowed).max_by(|a, b| overall(a).total_cmp(&overall(b)))?;
    if overall(&best) >= overall(&fastest) {
        return None;
    }
    Some(match best.cpu_s_per_gib < fastest.cpu_s_per_gib {
        true => "about as fast as the fastest, for less CPU",
        false => "about as fast as the fastest, and steadier",
    })
}

/// Refuses a job within one file or device that would never end, or read what it has written, as
/// copy_file_range(2) does. Bytes may move down, also over others that were read before.
pub(crate) fn ends(job: &Job<'_>) -> Result<(), PlanError> {
    match job.limit {
        _ if job.source.same_open_file(job.sink) => Err(PlanError::SameOpenFile),
        _ if !job.source.same_file(job.sink) => Ok(()),
        None if job.source.stands_behind(job.sink) => Ok(()),
        None => Err(PlanError::SameFile),
        Some(limit) if job.source.overlaps(job.sink, limit) => Err(PlanError::Overlap),
        Some(_) => Ok(()),
    }
}

/// Pipes are grown for jobs that are large, or of a size that nobody knows.
fn grow(job: &Job<'_>, knobs: &Knobs) -> Option<usize> {
    let bytes = job.bytes_known().unwrap_or(u64::MAX);
    let wanted = knobs.pipe_bytes.is_none() && !job.keep_source && bytes >= GROW_PIPES_FROM_BYTES;
    wanted.then_some(GROWN_PIPE_BYTES)
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, choice) in self.routes.iter().enumerate() {
            writeln!(f, "{}. {choice}", place + 1)?;
        }
        if let Some(bytes) = self.grow_pipes_to.or(self.pipe_bytes) {
            writeln!(f, "pipes: {}", shown(bytes as u64))?;
        }
        for refused in &self.refused {
            writeln!(f, "not {}: {}", refused.route, refused.refusal)?;
        }
        Ok(())
    }
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.rank {
            Rank::ByReference if self.route.may_share() => {
                "shares blocks where the file system does, else copies once, in the kernel"
            }
            Rank::ByReference => "hands over pages",
            Rank::InKernel => "copies once, in the kernel",
            Rank::Together => "copies once, in the kernel, by several threads",
            Rank::Copies => "copies through memory of ours",
            Rank::Unproven if MEASURED_UNASKED.contains(&self.route.name()) => {
                "only by name, or where it was measured to be best"
            }
            Rank::Unproven => "only by name, or where `bytepath tune --route NAME` found it best",
        };
        let aliasing = match self.aliasing {
            Aliasing::None => "",
            Aliasing::Source => "; later writes to the source show",
            Aliasing::Memory => "; later writes to the memory show",
        };
        let cache = match self.route.leaves_cache() {
            Ok(()) => "; leaves the page cache as it was",
            Err(_) => "",
        };
        write!(f, "{}: {why}{aliasing}{cache}; wait: {}", self.route.name(), self.knobs.wait)?;
        if let Some(bytes) = self.knobs.chunk_bytes {
            write!(f, "; {} a call", shown(bytes as u64))?;
        }
        if self.knobs.cpu == Cpu::Stay {
            f.write_str("; stays on its CPU")?;
        }
        let of_bytes = |bytes| format!(" with files of {}", shown(bytes));
        let of_bytes = self.measured_bytes.map(of_bytes).unwrap_or_default();
        match (self.expected_gib_per_s, &self.elsewhere) {
            (Some(figure), _) => write!(f, "; measured here{of_bytes}: {}", rate(figure))?,
            (None, Some(Elsewhere { gib_per_s, place })) => {
                write!(f, "; measured on {place}{of_bytes}: {}", rate(*gib_per_s))?;
            }
            (None, None) => {}
        }
        self.preferred.map_or(Ok(()), |why| write!(f, ", {why}"))
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::endpoint::Endpoint;
    use crate::profile::Place;
    use crate::profile::tests::{between_pipes, gave, profile};
    use crate::transfer::{Transfer, TransferError};

    fn plan_names(plan: &Plan) -> Vec<&'static str> {
        plan.routes().iter().map(|choice| choice.route.name()).collect()
    }

    #[test]
    fn figures_that_are_missing_are_told_with_the_command_that_measures_them() {
        let usual = profile(Vec::new());
        let size = Unmeasured::Size.told(&usual);
        assert!(size.ends_with("copy them, which `bytepath tune --bytes 128M --dir DIR` measures"));
        let named = Profile { named: Some("p".into()), ..usual.clone() };
        for what in [Unmeasured::Size, Unmeasured::Place] {
            let told = what.told(&named);
            let command = ", which `bytepath tune --profile p --bytes 128M --dir DIR` measures";
            assert!(told.ends_with(command), "{told}");
        }
        assert_eq!(Unmeasured::Ends.told(&usual), "the profile has no figures for these ends");
    }

    #[test]
    fn a_file_is_not_lent_to_a_pipe_unless_the_job_allows_it() {
        let file = tempfile::tempfile().expect("a file");
        let (_reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let source = Endpoint::source(file.as_fd()).expect("a source");
        let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
        let job = Job::new(&source, &sink);
        let plan = Plan::best(&job, Knobs::default()).expect("a plan");
        assert_eq!(plan_names(&plan), ["read-write"]);
        let plan = Plan::best(&job.allow_aliasing(), Knobs::default()).expect("a plan");
        assert_eq!(plan_names(&plan), ["splice", "splice-through", "sendfile", "read-write"]);
    }

    #[test]
    fn an_empty_file_is_moved_by_every_route_and_one_that_only_says_so_is_read() {
        let (from, to) = (tempfile::tempfile().expect("a file"), tempfile::tempfile());
        let to = to.expect("a file");
        let (source, sink) = (Endpoint::source(from.as_fd()), Endpoint::sink(to.as_fd()));
        let (source, sink) = (source.expect("a source"), sink.expect("a sink"));
        let told = Endpoint::open_source("/proc/self/status").expect("a source");
        // Not every kernel and file system has these, and not every file system's files are mapped to their end.
        let rings = ["uring", "uring-registered", "uring-linked", "uring-direct", "linux-aio"];
        let may_decline = [&rings[..], &["reflink", "dontcache", "mmap-write"]].concat();
        for route in ROUTES.iter().copied() {
            let refused = may_go_by_size(route, &Job::new(&told, &sink)).is_err();
            assert_eq!(refused, route.goes_by_size(), "{}", route.name());
            let job = Job::new(&source, &sink);
            if suits(route, &job).is_err() {
                continue;
            }
            let plan = Plan::only(route.name(), &job, Knobs::default()).expect("a plan");
            match Transfer::new(&job, &plan).run() {
                Ok(moved) => assert_eq!(moved.bytes, 0, "{}", route.name()),
                Err(TransferError::Declined { .. }) if may_decline.contains(&route.name()) => {}
                Err(stopped) => panic!("{}: {stopped}", route.name()),
            }
        }
        let by_size = |plan: &Plan| plan.routes().iter().any(|choice| choice.route.goes_by_size());
        let plan = Plan::best(&Job::new(&source, &sink), Knobs::default()).expect("a plan");
        assert!(!by_size(&plan), "nobody looks whether it is empty: {plan}");
    }

    #[test]
    fn routes_that_keep_bytes_of_a_file_in_memory_or_a_pipe_of_ours_say_so() {
        let (from, to) = (tempfile::tempfile().expect("a file"), tempfile::tempfile());
        let to = to.expect("a file");
        let (source, sink) = (Endpoint::source(from.as_fd()), Endpoint::sink(to.as_fd()));
        let (source, sink) = (source.expect("a source"), sink.expect("a sink"));
        let job = Job::new(&source, &sink);
        let holding = ROUTES.iter().filter(|route| route.suits(&job).is_ok());
        let holding = holding.filter(|route| route.holds_bytes(&job)).map(|route| route.name());
        let names: Vec<_> = holding.collect();
        assert_eq!(names, ["splice", "read-write", "dontcache", "fadvise"]);
    }

    #[test]
    fn an_end_of_whole_blocks_is_not_moved_by_slices_of_any_size() {
        use rustix::fs::{Mode, OFlags};
        let named = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).expect("a file");
        std::fs::write(named.path(), vec![7; 10_001]).expect("written");
        let Ok(from) =
            rustix::fs::open(named.path(), OFlags::RDONLY | OFlags::DIRECT, Mode::empty())
        else {
            println!("skipped: this file system has no O_DIRECT");
            return;
        };
        let to = tempfile::tempfile().expect("a file");
        let source = Endpoint::source(from.as_fd()).expect("a source");
        let sink = Endpoint::sink(to.as_fd()).expect("a sink");
        for route in ["parallel", "fadvise"] {
            let refused = Plan::only(route, &Job::new(&source, &sink), Knobs::default());
            let refused = refused.expect_err("it would end with EINVAL").to_string();
            assert!(refused.contains("O_DIRECT"), "{refused}");
        }
        let job = Job::new(&source, &sink).allow_any_order();
        let plan = Plan::best(&job, Knobs::default()).expect("a plan");
        let moved = Transfer::new(&job, &plan).run().expect("moved, its tail too");
        assert_eq!(moved.bytes, 10_001);
    }

    #[test]
    fn bytes_that_are_not_to_be_shared_go_through_memory_unless_another_copy_was_measured_to_be_better()
     {
        let (from, to) = (tempfile::tempfile().expect("a file"), tempfile::tempfile());
        let to = to.expect("a file");
        std::os::unix::fs::FileExt::write_all_at(&from, b"some", 0).expect("bytes");
        let source = Endpoint::source(from.as_fd()).expect("a source");
        let sink = Endpoint::sink(to.as_fd()).expect("a sink");
        let job = Job::new(&source, &sink).unshared();
        let plan = Plan::best(&job, Knobs::default()).expect("a plan");
        let names = plan_names(&plan);
        assert_eq!(names[0], "read-write");
        assert!(!names.contains(&"copy-file-range") && !names.contains(&"reflink"), "{names:?}");
        let choices = vec![
            gave("copy-file-range", None, 9.0),
            gave("parallel", None, 3.0),
            gave("read-write", None, 2.0),
        ];
        let own = crate::machine::file_system_of(to.as_fd()).expect("it has one").name;
        let measured_on = |device| {
            let (directory, file_system) = ("/".into(), own.clone());
            let place =
                Some(Place { directory, file_system, options: Vec::new(), device, earlier: None });
            let (source, sink, choices) = (End::File, End::File, choices.clone());
            profile(vec![Pair { source, sink, place, bytes: None, choices }])
        };
        let first = |job: Job<'_>, knobs, device| {
            let plan = Plan::by_profile(&job.unshared(), knobs, &measured_on(device), Pipes::Grow);
            plan_names(&plan.expect("a plan"))[0]
        };
        let (here, elsewhere) = (sink.device(), sink.device() + 1);
        let any = Knobs::default;
        assert_eq!(first(job.allow_any_order(), any(), here), "read-write", "it is small");
        from.set_len(64 << 20).expect("it grows");
        let source = Endpoint::source(from.as_fd()).expect("a source");
        let large = Job::new(&source, &sink);
        let best_in_order = first(large, any(), here);
        assert_ne!(best_in_order, "parallel", "the order matters");
        assert_eq!(first(large.allow_any_order(), any(), here), "parallel");
        assert_ne!(first(large.allow_any_order(), any(), elsewhere), "parallel", "another place");
        let one = Knobs { threads: Some(1), ..Knobs::default() };
        let alone = first(large.allow_any_order(), one, here);
        assert_eq!(alone, best_in_order, "one thread is not what was measured");
    }

    #[test]
    fn a_large_file_is_spliced_where_its_file_system_only_copies_and_keeps_its_holes() {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        // Such files are on tmpfs.
        let in_memory = || rustix::fs::memfd_create("plan", flags).expect("a file");
        let (full, holes, to) = (in_memory(), in_memory(), in_memory());
        rustix::fs::fallocate(&full, rustix::fs::FallocateFlags::empty(), 0, 1 << 20)
            .expect("there is room");
        rustix::fs::ftruncate(&holes, 1 << 20).expect("it grows");
        let sink = Endpoint::sink(to.as_fd()).expect("a sink");
        let first = |from: &rustix::fd::OwnedFd| {
            let source = Endpoint::source(from.as_fd()).expect("a source");
            let plan = Plan::best(&Job::new(&source, &sink), Knobs::default());
            plan_names(&plan.expect("a plan"))[0]
        };
        assert_eq!(first(&full), "splice");
        assert_eq!(first(&holes), "copy-file-range");
        rustix::fs::ftruncate(&full, 4096).expect("it shrinks");
        assert_eq!(first(&full), "copy-file-range", "a small one is not worth the question");
    }

    #[test]
    fn a_large_file_in_memory_is_copied_by_several_threads_where_they_are_faster() {
        let flags = rustix::fs::MemfdFlags::CLOEXEC;
        let of = |bytes: u64| {
            let file = rustix::fs::memfd_create("plan", flags).expect("a file");
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)
                .expect("there is room");
            file
        };
        let first = |from: &rustix::fd::OwnedFd, to: &rustix::fd::OwnedFd, threads| {
            let (source, sink) = (Endpoint::source(from.as_fd()), Endpoint::sink(to.as_fd()));
            let (source, sink) = (source.expect("a source"), sink.expect("a sink"));
            let knobs = Knobs { threads, ..Knobs::default() };
            let plan = Plan::best(&Job::new(&source, &sink).allow_any_order(), knobs);
            plan_names(&plan.expect("a plan"))[0]
        };
        let (large, small, to) = (of(96 << 20), of(1 << 20), of(4096));
        let cpus = crate::machine::CpuList::of_this_thread().expect("CPUs").len();
        if cpus > 1 {
            assert_eq!(first(&large, &to, None), "parallel");
            assert_eq!(first(&of(4 << 20), &to, None), "parallel");
        }
        assert_eq!(first(&small, &to, None), "splice");
        rustix::fs::ftruncate(&small, 32 << 20).expect("it grows");
        assert_eq!(first(&small, &to, None), "copy-file-range", "it has holes");
        // Others keep account of what is written to them in ways of their own.
        let elsewhere: rustix::fd::OwnedFd = tempfile::tempfile().expect("a file").into();
        let several = ["tmpfs", "btrfs", "ext4", "xfs"].map(Some);
        let takes_several = several.contains(&crate::machine::type_of(elsewhere.as_fd()));
        assert_eq!(first(&large, &elsewhere, None) == "parallel", takes_several && cpus > 1);
        assert_ne!(first(&large, &elsewhere, Some(1)), "parallel");
    }

    #[test]
    fn what_is_not_worth_several_threads_when_it_is_measured_says_nothing_of_larger_files() {
        let (from, to) = (tempfile::tempfile().expect("a file"), tempfile::tempfile());
        let to = to.expect("a file");
        if rustix::fs::fallocate(&from, rustix::fs::FallocateFlags::empty(), 0, 96 << 20).is_err() {
            println!("skipped: nothing can be set aside");
            return;
        }
        std::io::copy(&mut &from, &mut std::io::sink()).expect("it is in the page cache now");
        rustix::fs::seek(&from, rustix::fs::SeekFrom::Start(0)).expect("it is a file");
        let sink = Endpoint::sink(to.as_fd()).expect("a sink");
        let own = crate::machine::file_system_of(to.as_fd()).expect("it has one").name;
        let place = Some(Place {
            directory: "/".into(),
            file_system: own.clone(),
            options: Vec::new(),
            device: sink.device(),
            earlier: None,
        });
        let choices = vec![gave("splice", None, 9.0), gave("parallel", None, 3.0)];
        let pair = Pair { source: End::File, sink: End::File, place, bytes: None, choices };
        let with_more = Pair { bytes: Some(96 << 20), ..pair.clone() };
        let (usual, with_more) = (profile(vec![pair]), profile(vec![with_more]));
        let first = |by: Option<&Profile>| {
            let source = Endpoint::source(from.as_fd()).expect("a source");
            let job = Job::new(&source, &sink).allow_any_order();
            let plan = match by {
                None => Plan::best(&job, Knobs::default()),
                Some(profile) => Plan::by_profile(&job, Knobs::default(), profile, Pipes::Grow),
            };
            plan_names(&plan.expect("a plan"))[0]
        };
        let by_rules = first(None);
        if by_rules != "parallel" || own == "tmpfs" {
            println!("skipped: {own}, by {by_rules}, takes no threads of this size alone");
            return;
        }
        assert_eq!(first(Some(&usual)), "parallel");
        assert_eq!(first(Some(&with_more)), "splice", "as many were moved when it was measured");
        from.set_len(64 << 20).expect("it shrinks");
        assert_eq!(first(Some(&usual)), "splice");
    }

    #[test]
    fn several_threads_on_what_was_not_measured_are_told_what_measures_it_if_anything_does() {
        if crate::machine::CpuList::of_this_thread().expect("CPUs").len() == 1 {
            println!("skipped: one CPU takes no threads");
            return;
        }
        let bytes = vec![7; 8 << 20];
        let in_memory = |name| {
            let flags = rustix::fs::MemfdFlags::CLOEXEC;
            std::fs::File::from(rustix::fs::memfd_create(name, flags).expect("a file"))
        };
        let (here, to, there) = (in_memory("here"), in_memory("to"), tempfile::tempfile());
        let there = there.expect("a file");
        for file in [&here, &there] {
            std::os::unix::fs::FileExt::write_all_at(file, &bytes, 0).expect("bytes");
        }
        let sink = Endpoint::sink(to.as_fd()).expect("a sink");
        let lacks = |from: &std::fs::File, measured: &[u64]| {
            let pair = |device: &u64| {
                let (directory, file_system) = ("/".into(), "tmpfs".into());
                let (device, options) = (*device, Vec::new());
                let place = Some(Place { directory, file_system, options, device, earlier: None });
                let choices = vec![gave("splice", None, 9.0)];
                Pair { source: End::File, sink: End::File, place, bytes: None, choices }
            };
            let profile = profile(measured.iter().map(pair).collect());
            let source = Endpoint::source(from.as_fd()).expect("a source");
            let job = Job::new(&source, &sink).allow_any_order();
            let plan = Plan::by_profile(&job, Knobs::default(), &profile, Pipes::Grow);
            plan.expect("a plan").unmeasured().expect("rules decide").told(&profile)
        };
        let device = |file: &std::fs::File| Endpoint::sink(file.as_fd()).expect("a sink").device();
        let command = "`bytepath tune --bytes 128M --dir DIR`";
        let one = lacks(&here, &[device(&there)]);
        assert!(one.contains("these files' file system, which ") && one.contains(command), "{one}");
        // Both may be measured: that is of copies within each.
        let two = lacks(&there, &[device(&there), device(&to)]);
        assert_eq!(two, "no profile has figures for copies between two file systems");
    }

    #[test]
    fn only_routes_that_tune_leaves_out_are_told_to_be_measured_by_name() {
        let (from, to) = (tempfile::tempfile().expect("a file"), tempfile::tempfile());
        let to = to.expect("a file");
        std::os::unix::fs::FileExt::write_all_at(&from, b"some", 0).expect("bytes");
        let source = Endpoint::source(from.as_fd()).expect("a source");
        let sink = Endpoint::sink(to.as_fd()).expect("a sink");
        let plan = Plan::best(&Job::new(&source, &sink).unshared(), Knobs::default());
        let plan = plan.expect("a plan");
        let told = |name| {
            let is_it = |choice: &&Choice| choice.route.name() == name;
            plan.routes().iter().find(is_it).expect("it is last").to_string()
        };
        for name in ["sendfile", "parallel"] {
            let words = "only by name, or where it was measured to be best;";
            assert!(told(name).contains(words), "{plan}");
        }
        assert!(told("uring").contains("or where `bytepath tune --route NAME` found"), "{plan}");
    }

    #[test]
    fn keeping_the_source_leaves_tee_alone() {
        let (reader, _w) = rustix::pipe::pipe().expect("a pipe");
        let (_r, writer) = rustix::pipe::pipe().expect("a pipe");
        let source = Endpoint::source(reader.as_fd()).expect("a source");
        let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
        let job = Job::new(&source, &sink).keep_source();
        let plan = Plan::best(&job, Knobs::default()).expect("a plan");
        assert_eq!(plan_names(&plan), ["tee"]);
        assert_eq!(plan.refused().len(), ROUTES.len() - 1);
    }

    #[test]
    fn a_file_is_not_moved_into_itself_without_a_limit() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let source = Endpoint::open_source(file.path()).expect("a source");
        let sink = Endpoint::open_sink(file.path()).expect("a sink");
        let job = Job::new(&source, &sink);
        assert!(matches!(Plan::best(&job, Knobs::default()), Err(PlanError::SameFile)));
        let alone = Plan::only("read-write", &job, Knobs::default());
        assert!(matches!(alone, Err(PlanError::SameFile)));
        assert!(Plan::best(&job.limit(1), Knobs::default()).is_ok());
    }

    #[test]
    fn parts_of_a_file_are_not_moved_over_each_other() {
        use rustix::fd::AsFd;
        use rustix::fs::{SeekFrom, seek};
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(1000).expect("it grows");
        let source = Endpoint::open_source(file.path()).expect("a source");
        let sink = std::fs::File::options().write(true).open(file.path()).expect("a sink");
        let sink = Endpoint::sink(sink.as_fd()).expect("a sink");
        let cases = [
            (0, 5, 10),
            (5, 0, 10),
            (0, 5, 5),
            (5, 0, 5),
            (0, 0, 10),
            (990, 995, 5),
            (995, 990, 100),
        ];
        for (from, to, limit) in cases {
            seek(source.as_fd(), SeekFrom::Start(from)).expect("it is a file");
            seek(sink.as_fd(), SeekFrom::Start(to)).expect("it is a file");
            let plan = Plan::best(&Job::new(&source, &sink).limit(limit), Knobs::default());
            let overlaps = matches!(plan, Err(PlanError::Overlap));
            assert_eq!(overlaps, limit == 10 && to > from, "{from} {to} {limit}");
            let without_limit = Plan::best(&Job::new(&source, &sink), Knobs::default());
            let refused = matches!(without_limit, Err(PlanError::SameFile));
            assert_eq!((refused, without_limit.is_err()), (to >= from, to >= from), "{from} {to}");
            for by_page in ["splice", "sendfile"] {
                let job = Job::new(&source, &sink).limit(1);
                let alone = Plan::only(by_page, &job, Knobs::default());
                assert!(matches!(alone, Err(PlanError::Refused { .. })), "{by_page}");
            }
        }
    }

    #[test]
    fn a_file_is_not_moved_onto_its_own_end_to_be_read_there_again() {
        use rustix::fd::AsFd;
        use rustix::fs::{SeekFrom, seek};
        let file = tempfile::NamedTempFile::new().expect("a file");
        file.as_file().set_len(10).expect("it grows");
        let source = Endpoint::open_source(file.path()).expect("a source");
        let cases = [
            (0, Some(10), 10, false),
            (0, Some(10), 11, true),
            (0, Some(10), 100, true),
            (0, Some(20), 10, false),
            (0, Some(20), 20, true),
            (0, Some(20), 100, true),
            (5, None, 5, false),
            (5, None, 100, true),
            (5, None, 1 << 20, true),
            (10, Some(20), 100, false),
            (10, None, 100, false),
        ];
        for (from, to, limit, is_read_again) in cases {
            let sink = std::fs::File::options().append(to.is_none()).write(true).open(file.path());
            let sink = sink.expect("a sink");
            let sink = Endpoint::sink(sink.as_fd()).expect("a sink");
            seek(source.as_fd(), SeekFrom::Start(from)).expect("it is a file");
            seek(sink.as_fd(), SeekFrom::Start(to.unwrap_or(0))).expect("it is a file");
            let plan = Plan::best(&Job::new(&source, &sink).limit(limit), Knobs::default());
            let is_refused = matches!(plan, Err(PlanError::Overlap));
            assert_eq!(is_refused, is_read_again, "{from} {to:?} {limit}: {plan:?}");
        }
    }

    #[test]
    fn an_open_file_is_not_both_ends() {
        let file = tempfile::tempfile().expect("a file");
        let copy = file.try_clone().expect("a duplicate");
        let source = Endpoint::source(file.as_fd()).expect("a source");
        let sink = Endpoint::sink(copy.as_fd()).expect("a sink");
        for job in [Job::new(&source, &sink), Job::new(&source, &sink).limit(1)] {
            for plan in [
                Plan::best(&job, Knobs::default()),
                Plan::only("read-write", &job, Knobs::default()),
            ] {
                assert!(matches!(plan, Err(PlanError::SameOpenFile)));
            }
        }
    }

    fn pipes() -> [(rustix::fd::OwnedFd, rustix::fd::OwnedFd); 2] {
        [rustix::pipe::pipe().expect("a pipe"), rustix::pipe::pipe().expect("a pipe")]
    }

    #[test]
    fn a_profile_orders_the_routes_and_fills_what_the_caller_left_open() {
        let [(reader, _w), (_r, writer)] = pipes();
        let source = Endpoint::source(reader.as_fd()).expect("a source");
        let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
        let job = Job::new(&source, &sink);
        let choices = vec![
            gave("splice", None, 3.0),
            gave("splice", Some(1 << 18), 5.0),
            gave("splice", Some(1 << 20), 4.0),
            gave("read-write", None, 6.0),
            gave("no-such-route", None, 99.0),
        ];
        let profile = between_pipes(choices);
        let by = |asked, pipes| Plan::by_profile(&job, asked, &profile, pipes).expect("a plan");
        let plan = by(Knobs::default(), Pipes::Grow);
        assert_eq!(plan_names(&plan), ["read-write", "splice", "splice-through"]);
        assert_eq!(plan.basis(), Basis::Profile);
        let expected: Vec<_> = plan.routes().iter().map(|c| c.expected_gib_per_s).collect();
        assert_eq!(expected, [Some(6.0), Some(5.0), None]);
        assert_eq!(plan.grow_pipes_to(), None, "the best left them as they are");
        let asked = Knobs { pipe_bytes: Some(1 << 20), ..Knobs::default() };
        let plan = by(asked, Pipes::Grow);
        assert_eq!(plan_names(&plan), ["splice", "splice-through", "read-write"]);
        assert_eq!(plan.routes()[0].expected_gib_per_s, Some(4.0));
        assert_eq!((plan.pipe_bytes(), plan.grow_pipes_to()), (Some(1 << 20), None));
    }

    #[test]
    fn a_plan_shows_the_figures_it_goes_by_and_why_another_than_the_fastest_is_first() {
        let [(reader, _w), (_r, writer)] = pipes();
        let source = Endpoint::source(reader.as_fd()).expect("a source");
        let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
        let cost = |measured, cpu_s_per_gib| Measured { cpu_s_per_gib, ..measured };
        let slower_median = Measured { gib_per_s: 1.0, ..gave("splice", None, 9.8) };
        let choices = vec![
            cost(slower_median, 0.1),
            cost(gave("splice-through", None, 10.0), 0.9),
            cost(gave("read-write", None, 5.0), 0.9),
        ];
        let profile = between_pipes(choices);
        let job = Job::new(&source, &sink);
        let plan = Plan::by_profile(&job, Knobs::default(), &profile, Pipes::Grow);
        let told = plan.expect("a plan").to_string();
        let ends: Vec<_> = told.lines().filter_map(|line| line.split_once("measured ")).collect();
        let [(first, preferred), (second, fastest), (_, slowest)] = ends[..] else {
            panic!("{told}");
        };
        assert!(first.starts_with("1. splice:"), "{told}");
        assert_eq!(preferred, "here: 9.80 GiB/s, about as fast as the fastest, for less CPU");
        assert!(second.starts_with("2. splice-through:"), "{told}");
        assert_eq!((fastest, slowest), ("here: 10.0 GiB/s", "here: 5.00 GiB/s"));
    }

    #[test]
    fn what_larger_pipes_gave_has_no_say_where_they_stay_as_they_are() {
        let [(reader, _w), (_r, writer)] = pipes();
        let source = Endpoint::source(reader.as_fd()).expect("a source");
        let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
        let job = Job::new(&source, &sink);
        let choices = vec![
            gave("splice", Some(1 << 20), 6.0),
            gave("splice", None, 1.0),
            gave("read-write", Some(1 << 20), 5.0),
            gave("read-write", None, 1.5),
        ];
        let by = |choices, pipes| {
            Plan::by_profile(&job, Knobs::default(), &between_pipes(choices), pipes)
        };
        let first = |pipes| {
            let plan = by(choices.clone(), pipes).expect("a plan");
            let first = &plan.routes()[0];
            (first.route.name(), first.expected_gib_per_s, plan.grow_pipes_to())
        };
        assert_eq!(first(Pipes::Grow), ("splice", Some(6.0), Some(1 << 20)));
        assert_eq!(first(Pipes::Leave), ("read-write", Some(1.5), None));
        let plan = by(vec![choices[0].clone()], Pipes::Leave).expect("a plan");
        assert_eq!((plan.basis(), plan.grow_pipes_to()), (Basis::Rules, None));
        assert_eq!(plan.unmeasured(), Some(Unmeasured::Allowed));
        source.set_pipe_bytes(1 << 20).expect("as large as everybody may");
        assert_eq!(first(Pipes::Leave), ("read-write", Some(1.5), None), "the other is small");
        sink.set_pipe_bytes(1 << 20).expect("as large as everybody may");
        assert_eq!(first(Pipes::Leave), ("splice", Some(6.0), None), "they are so large already");
    }

    #[test]
    fn figures_of_another_file_system_say_where_they_are_from_and_are_not_expected() {
        let file = tempfile::tempfile().expect("a file");
        let [(_r, writer), _] = pipes();
        let source = Endpoint::source(file.as_fd()).expect("a source");
        let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
        let job = Job::new(&source, &sink).allow_aliasing();
        let own = crate::machine::file_system_of(file.as_fd()).expect("it has one").name;
        let mut spinning = gave("splice", None, 9.0);
        spinning.choice.spin_ns = Some(1000);
        let choices = vec![gave("splice", None, 5.0), spinning, gave("read-write", None, 1.0)];
        let first = |device, directory: &str| {
            let (directory, options, file_system) = (directory.into(), Vec::new(), own.clone());
            let place = Some(Place { directory, file_system, options, device, earlier: None });
            let (source, sink, choices) = (End::File, End::Pipe, choices.clone());
            let profile = profile(vec![Pair { source, sink, place, bytes: None, choices }]);
            let plan =
                Plan::by_profile(&job, Knobs::default(), &profile, Pipes::Grow).expect("a plan");
            assert_eq!(plan.basis(), Basis::Profile);
            (plan.routes()[0].expected_gib_per_s, plan.routes()[0].to_string())
        };
        let (expected, told) = first(source.device(), "/there");
        assert_eq!(expected, Some(9.0));
        assert!(told.ends_with("; measured here: 9.00 GiB/s"), "{told}");
        let (expected, told) = first(source.device() + 1, "/there\x1b");
        assert_eq!(expected, None);
        let words = format!("; measured on {own} (/there\u{fffd}): 5.00 GiB/s");
        assert!(told.ends_with(&words) && told.contains("wait: block"), "{told}");
    }

    #[test]
    fn a_plan_can_go_by_its_next_route_and_back() {
        let [(reader, _w), (_r, writer)] = pipes();
        let source = Endpoint::source(reader.as_fd()).expect("a source");
        let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
        let plan = Plan::best(&Job::new(&source, &sink), Knobs::default()).expect("a plan");
        let names = plan_names(&plan);
        let next = plan.by_next();
        assert_eq!(plan_names(&next)[..2], names[1..3]);
        assert_eq!(plan_names(&next.by_previous()), names);
    }

    #[test]
    fn a_route_that_gave_up_is_not_tried_again() {
        let [(reader, _w), (_r, writer)] = pipes();
        let source = Endpoint::source(reader.as_fd()).expect("a source");
        let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
        let job = Job::new(&source, &sink);
        let plan = Plan::best(&job, Knobs::default()).expect("a plan").without("splice", "denied");
        assert!(!plan_names(&plan).contains(&"splice"));
        assert!(plan.to_string().contains("not splice: denied"), "{plan}");
        let only = Plan::only("splice", &job, Knobs::default()).expect("a plan");
        assert_eq!(plan_names(&only.without("splice", "denied")), ["splice"]);
    }

    #[test]
    fn a_plan_made_to_sleep_does_not_spin() {
        let [(reader, _w), (_r, writer)] = pipes();
        let source = Endpoint::source(reader.as_fd()).expect("a source");
        let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
        for (wait, sleeping) in [(Wait::Spin, Wait::Block), (Wait::Poll, Wait::Poll)] {
            let knobs = Knobs { wait, ..Knobs::default() };
            let plan = Plan::best(&Job::new(&source, &sink), knobs).expect("a plan").sleeping();
            assert!(plan.routes().iter().all(|choice| choice.knobs.wait == sleeping));
        }
    }

    #[test]
    fn ends_that_were_not_measured_go_by_rules() {
        let null = Endpoint::open_sink("/dev/null").expect("a sink");
        let zero = Endpoint::open_source("/dev/zero").expect("a source");
        let job = Job::new(&zero, &null);
        let by_rules = Plan::best(&job, Knobs::default()).expect("a plan");
        let plan = Plan::by_profile(&job, Knobs::default(), &profile(vec![]), Pipes::Grow);
        let plan = plan.expect("a plan");
        assert_eq!((plan.basis(), plan.unmeasured()), (Basis::Rules, Some(Unmeasured::Ends)));
        assert_eq!(plan.to_string(), by_rules.to_string());
    }

    #[test]
    fn a_profile_allows_nothing_that_the_job_does_not() {
        let file = tempfile::tempfile().expect("a file");
        let [(_r, writer), _] = pipes();
        let source = Endpoint::source(file.as_fd()).expect("a source");
        let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
        let choices = vec![gave("splice", None, 9.0), gave("read-write", None, 1.0)];
        let profile = profile(vec![Pair {
            source: End::File,
            sink: End::Pipe,
            place: None,
            bytes: None,
            choices,
        }]);
        let job = Job::new(&source, &sink);
        let plan = Plan::by_profile(&job, Knobs::default(), &profile, Pipes::Grow);
        assert_eq!(plan_names(&plan.expect("a plan")), ["read-write"]);
    }

    #[test]
    fn pipes_are_grown_for_large_jobs_unless_they_are_to_be_left() {
        let (reader, _w) = rustix::pipe::pipe().expect("a pipe");
        let source = Endpoint::source(reader.as_fd()).expect("a source");
        let sink = Endpoint::open_sink("/dev/null").expect("a sink");
        let plan = Plan::best(&Job::new(&source, &sink), Knobs::default()).expect("a plan");
        assert_eq!(plan.grow_pipes_to(), Some(GROWN_PIPE_BYTES));
        assert_eq!(plan.leave_pipes().grow_pipes_to(), None);
    }

    #[test]
    fn pipes_are_left_as_they_are_for_jobs_that_are_known_to_be_small() {
        let file = tempfile::tempfile().expect("a file");
        let [(_r, writer), _] = pipes();
        let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
        let from = GROW_PIPES_FROM_BYTES;
        for (bytes, grown) in [(from - 1, None), (from, Some(GROWN_PIPE_BYTES))] {
            file.set_len(bytes).expect("it grows");
            let source = Endpoint::source(file.as_fd()).expect("a source");
            let job = Job::new(&source, &sink);
            let plan = Plan::best(&job, Knobs::default()).expect("a plan");
            assert_eq!(plan.grow_pipes_to(), grown, "{bytes} bytes");
        }
    }

    #[test]
    fn an_unknown_route_is_answered_with_those_there_are() {
        let null = Endpoint::open_sink("/dev/null").expect("a sink");
        let zero = Endpoint::open_source("/dev/zero").expect("a source");
        let job = Job::new(&zero, &null);
        let error = Plan::only("teleport", &job, Knobs::default()).unwrap_err().to_string();
        assert!(ROUTES.iter().all(|route| error.contains(route.name())), "{error}");
    }
}
