//! Which routes to try for a job, in which order, and why the others are refused. Pure.

use std::fmt;

use crate::endpoint::Kind;
use crate::error::Refusal;
use crate::knobs::Knobs;
use crate::routes::{Aliasing, Job, ROUTES, Rank, Route, by_name};

/// Pipes at the ends of jobs of at least this many bytes are made larger; smaller jobs would not
/// earn the system call back.
const GROW_PIPES_FROM_BYTES: u64 = 128 << 10;

/// The size they are made: what fs.pipe-max-size allows everybody by default. GNU coreutils (512
/// KiB) and uutils (1 MiB) do likewise.
const GROWN_PIPE_BYTES: usize = 1 << 20;

/// The ranked routes for a job, with their knobs, and why the others were refused. Printable.
#[derive(Clone)]
pub struct Plan {
    routes: Vec<Choice>,
    refused: Vec<Refused>,
    knobs: Knobs,
    grow_pipes_to: Option<usize>,
}

/// A route that will be tried.
#[derive(Clone, Copy)]
pub struct Choice {
    /// The route.
    pub route: &'static dyn Route,
    /// Its standing for the job.
    pub rank: Rank,
    /// Whether the bytes it delivers may still change.
    pub aliasing: Aliasing,
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
    /// Source and sink are one file, which would grow without end.
    #[error("the source is the sink, so it would grow without end; name another file, or a limit")]
    SameFile,
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
    /// No route suits.
    pub fn best(job: &Job<'_>, knobs: Knobs) -> Result<Plan, PlanError> {
        ends(job)?;
        let (mut routes, mut refused) = (Vec::new(), Vec::new());
        for route in ROUTES.iter().copied() {
            match route.suits(job) {
                Ok(rank) => routes.push(Choice { route, rank, aliasing: route.aliasing(job) }),
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
        Ok(Plan { routes, refused, grow_pipes_to: grow(job, &knobs), knobs })
    }

    /// One route alone: it is never exchanged for another. This is what measurements use.
    ///
    /// # Errors
    /// No route has this name, or it does not suit the job.
    pub fn only(name: &str, job: &Job<'_>, knobs: Knobs) -> Result<Plan, PlanError> {
        let route = by_name(name).ok_or_else(|| PlanError::UnknownRoute { name: name.into() })?;
        ends(job)?;
        let rank = route
            .suits(job)
            .map_err(|refusal| PlanError::Refused { route: route.name(), refusal })?;
        let choice = Choice { route, rank, aliasing: route.aliasing(job) };
        Ok(Plan { routes: vec![choice], refused: Vec::new(), knobs, grow_pipes_to: None })
    }

    /// The same plan, which leaves the pipes at both ends the size they are.
    #[must_use]
    pub fn leave_pipes(self) -> Plan {
        Plan { grow_pipes_to: None, ..self }
    }

    /// The routes in the order in which they are tried.
    pub fn routes(&self) -> &[Choice] {
        &self.routes
    }

    /// The routes that are not tried.
    pub fn refused(&self) -> &[Refused] {
        &self.refused
    }

    /// How they are tried.
    pub fn knobs(&self) -> &Knobs {
        &self.knobs
    }

    /// The size that pipes at the ends are to grow to if they may.
    pub(crate) fn grow_pipes_to(&self) -> Option<usize> {
        self.grow_pipes_to
    }
}

/// Refuses a job that would never end. Whether it would depends on where both stand, so a job with
/// a limit is the caller's business.
fn ends(job: &Job<'_>) -> Result<(), PlanError> {
    match job.limit.is_none() && job.source.same_file(job.sink) {
        true => Err(PlanError::SameFile),
        false => Ok(()),
    }
}

/// Pipes are grown for jobs that are large, or of a size that nobody knows.
fn grow(job: &Job<'_>, knobs: &Knobs) -> Option<usize> {
    let known = job.source.kind() == Kind::File && job.source.bytes() > 0;
    let size = if known { Some(job.source.bytes()) } else { None };
    let bytes = size.into_iter().chain(job.limit).min().unwrap_or(u64::MAX);
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
            let why = match choice.rank {
                Rank::ByReference => "hands over pages",
                Rank::InKernel => "copies once, in the kernel",
                Rank::Copies => "copies through memory of ours",
            };
            let aliasing = match choice.aliasing {
                Aliasing::None => "",
                Aliasing::Source => "; later writes to the source show",
                Aliasing::Memory => "; later writes to the memory show",
            };
            writeln!(f, "{}. {}: {why}{aliasing}", place + 1, choice.route.name())?;
        }
        if let Some(bytes) = self.grow_pipes_to.or(self.knobs.pipe_bytes) {
            writeln!(f, "pipes: {} KiB", bytes >> 10)?;
        }
        writeln!(f, "wait: {}", self.knobs.wait)?;
        for refused in &self.refused {
            writeln!(f, "not {}: {}", refused.route, refused.refusal)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;
    use crate::endpoint::Endpoint;

    fn plan_names(plan: &Plan) -> Vec<&'static str> {
        plan.routes().iter().map(|choice| choice.route.name()).collect()
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
        assert_eq!(plan_names(&plan), ["splice", "sendfile", "read-write"]);
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
    fn pipes_are_left_as_they_are_when_that_is_asked_for() {
        let (reader, _w) = rustix::pipe::pipe().expect("a pipe");
        let null = Endpoint::open_sink("/dev/null").expect("a sink");
        let source = Endpoint::source(reader.as_fd()).expect("a source");
        let plan = Plan::best(&Job::new(&source, &null), Knobs::default()).expect("a plan");
        assert_eq!(plan.grow_pipes_to(), Some(GROWN_PIPE_BYTES));
        assert_eq!(plan.leave_pipes().grow_pipes_to(), None);
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
