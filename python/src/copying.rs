//! Moves bytes from one descriptor to another by the best plan for them.

use std::os::fd::AsFd;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytepath::planning::{CarryError, Carrying, Planning, Wishes};
use bytepath::{Cancel, Endpoint, Job, Kind, Knobs, Meter};
use pyo3::prelude::*;

use crate::errors::{self, own};
use crate::running::{Outcome, Watch, at_once, tell, watched};

/// Between files, a job of at most this many bytes is over before anybody could want to interrupt it,
/// and a thread for it would take a tenth of its time.
const AT_ONCE_BYTES: u64 = 4 << 20;

/// What a movement did.
#[pyclass(frozen, get_all)]
pub(crate) struct Moved {
    /// Bytes that the sink took.
    bytes: u64,
    /// The route that brought it to the end.
    route: &'static str,
    /// System calls made.
    calls: u64,
    /// Seconds it took.
    seconds: f64,
    /// Routes that gave up before: name, offset, why.
    declined: Vec<(&'static str, u64, String)>,
    /// The plan, its reason, and what came of it, for people.
    explained: String,
}

/// What is asked of a movement.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    limit: Option<u64>,
    route: Option<String>,
    profile: Option<PathBuf>,
    enlarge_pipes: bool,
    allow_aliasing: bool,
    leave_cache: bool,
    every: f64,
    stall: Option<f64>,
}

impl Asked {
    fn wishes(&self) -> Wishes<'_> {
        let (route, profile) = (self.route.as_deref(), self.profile.as_deref());
        Wishes { route, profile, leave_pipes: !self.enlarge_pipes }
    }

    pub(crate) fn job<'a>(&self, source: &'a Endpoint<'a>, sink: &'a Endpoint<'a>) -> Job<'a> {
        let mut job = Job { limit: self.limit, ..Job::new(source, sink) };
        if self.allow_aliasing {
            job = job.allow_aliasing();
        }
        if self.leave_cache { job.leave_cache() } else { job }
    }

    pub(crate) fn begin(&self, job: &Job<'_>) -> Result<Planning<'_>, CarryError> {
        self.wishes().begin(job, Knobs::default())
    }
}

/// Moves bytes between descriptors, each from where it stands. `progress` is called with the bytes so
/// far, every so many seconds, and once more at the end.
#[pyfunction]
pub(crate) fn move_bytes(
    py: Python<'_>,
    source: i32,
    sink: i32,
    asked: Asked,
    progress: Option<Bound<'_, PyAny>>,
) -> PyResult<Moved> {
    let (source, sink) = (own(py, source)?, own(py, sink)?);
    let source = Endpoint::source(source.as_fd()).map_err(|error| errors::endpoint(py, &error))?;
    let sink = Endpoint::sink(sink.as_fd()).map_err(|error| errors::endpoint(py, &error))?;
    let (meter, job) = (Meter::new(), asked.job(&source, &sink));
    let watch = Watch {
        progress: progress.as_ref(),
        every: Duration::try_from_secs_f64(asked.every).unwrap_or(Duration::MAX),
        stall: asked.stall.and_then(|stall| Duration::try_from_secs_f64(stall).ok()),
        meter: &meter,
    };
    let began = Instant::now();
    let carry = |cancel: Option<&Cancel>| carry(&asked, job, &meter, cancel);
    let (carried, ended): Outcome<_> = match is_short(&job) {
        true => (at_once(py, || carry(None)), None),
        false => watched(py, &watch, |cancel| carry(Some(cancel)))?,
    };
    let seconds = began.elapsed().as_secs_f64();
    let moved = carried.map_err(|error| errors::carrying(py, error));
    match (moved, ended) {
        (moved, Some(ended)) => {
            // Where it stopped, and bytes that were under way, go along with what stopped it.
            if ended.cause(py).is_none() {
                ended.set_cause(py, moved.err());
            }
            Err(ended)
        }
        (Err(error), None) => Err(error),
        (Ok((moved, explained)), None) => {
            tell(&watch)?;
            let gave = moved.declined.into_iter();
            Ok(Moved {
                bytes: moved.bytes,
                route: moved.route,
                calls: meter.read().calls,
                seconds,
                declined: gave.map(|gave| (gave.route, gave.offset, gave.why)).collect(),
                explained,
            })
        }
    }
}

/// Whether it is over in a moment: neither end can keep it waiting.
fn is_short(job: &Job<'_>) -> bool {
    (job.source.kind(), job.sink.kind()) == (Kind::File, Kind::File)
        && job.bytes_known().is_some_and(|bytes| bytes <= AT_ONCE_BYTES)
}

fn carry(
    asked: &Asked,
    job: Job<'_>,
    meter: &Meter,
    cancel: Option<&Cancel>,
) -> Result<(bytepath::Moved, String), CarryError> {
    let mut planning = asked.begin(&job)?;
    let moved = planning.carry(&Carrying { job, meter, cancel })?;
    Ok((moved, format!("{}\n{}", planning.reason(), planning.told().join("\n"))))
}
