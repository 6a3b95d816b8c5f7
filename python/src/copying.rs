//! Moves bytes from one descriptor to another by the best plan for them.

use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytepath::plan::PlanError;
use bytepath::planning::{self, CarryError, Carrying, Planning, Wishes};
use bytepath::{Cancel, Endpoint, Job, Kind, Knobs, Meter, Profile, TransferError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use rustix::fs::{FileType, Mode, OFlags, Stat, ftruncate, open, stat};
use rustix::io::Errno;

use crate::ends::End;
use crate::errors;
use crate::running::{Ended, Outcome, Watch, at_once, tell, watched};
use crate::sys::descriptors::close;

/// Between files, a job of at most this many bytes is over before anybody could want to interrupt it,
/// and a thread for it would take a tenth of its time.
const AT_ONCE_BYTES: u64 = 4 << 20;

/// What a movement did.
#[pyclass(frozen)]
pub(crate) struct Moved {
    /// Bytes that the sink took.
    #[pyo3(get)]
    bytes: u64,
    /// The route that brought it to the end.
    #[pyo3(get)]
    route: &'static str,
    /// System calls made.
    #[pyo3(get)]
    calls: u64,
    /// Seconds it took.
    #[pyo3(get)]
    seconds: f64,
    /// Routes that gave up before: name, offset, why.
    #[pyo3(get)]
    declined: Vec<(&'static str, u64, String)>,
    planning: Planning<'static>,
}

#[pymethods]
impl Moved {
    /// The plan, its reason, and what came of it, for people.
    #[getter]
    fn explained(&self) -> String {
        format!("{}\n{}", self.planning.reason(), self.planning.told().join("\n"))
    }
}

/// A profile that was named, read once for all that a copy does.
#[pyclass(frozen)]
pub(crate) struct NamedProfile(Profile);

/// Reads it; it has to be of this machine.
#[pyfunction]
pub(crate) fn named_profile(py: Python<'_>, path: PathBuf) -> PyResult<NamedProfile> {
    let read = py.detach(|| planning::named_profile(&path));
    read.map(NamedProfile).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// What is asked of a movement.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Asked {
    limit: Option<u64>,
    /// Bytes that the sink took before, of which offsets and progress tell, too.
    before: u64,
    route: Option<String>,
    profile: Option<Py<NamedProfile>>,
    enlarge_pipes: bool,
    allow_aliasing: bool,
    leave_cache: bool,
    any_order: bool,
    every: f64,
    stall: Option<f64>,
}

impl Asked {
    fn wishes(&self) -> Wishes<'_> {
        let (route, profile) = (self.route.as_deref(), self.profile.as_ref());
        let profile = profile.map(|profile| &profile.get().0);
        Wishes { route, profile, leave_pipes: !self.enlarge_pipes }
    }

    pub(crate) fn job<'a>(&self, source: &'a Endpoint<'a>, sink: &'a Endpoint<'a>) -> Job<'a> {
        let mut job = Job::new(source, sink);
        job.limit = self.limit;
        if self.allow_aliasing {
            job = job.allow_aliasing();
        }
        if self.any_order {
            job = job.allow_any_order();
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
    let (source, sink) = (End::source(py, source)?, End::sink(py, sink)?);
    let (source, sink) = (source.endpoint(py)?, sink.endpoint(py)?);
    move_between(py, asked.job(&source, &sink), &asked, progress.as_ref())
}

/// Refuses what no bytes come from, before anything is lost for it.
#[pyfunction]
pub(crate) fn check_source(py: Python<'_>, source: i32) -> PyResult<()> {
    End::source(py, source)?.endpoint(py).map(drop)
}

/// Refuses what no bytes go into, before anything is taken for it.
#[pyfunction]
pub(crate) fn check_sink(py: Python<'_>, sink: i32) -> PyResult<()> {
    End::sink(py, sink)?.endpoint(py).map(drop)
}

/// Refuses ends that are one open file, before either is set to where its bytes begin.
#[pyfunction]
pub(crate) fn check_apart(py: Python<'_>, source: i32, sink: i32) -> PyResult<()> {
    let (source, sink) = (End::source(py, source)?, End::sink(py, sink)?);
    match source.endpoint(py)?.same_open_file(&sink.endpoint(py)?) {
        true => Err(errors::carrying(py, PlanError::SameOpenFile.into(), 0)),
        false => Ok(()),
    }
}

/// Whether a sink is a pipe, or a socket that knows no messages: how writes are cut is nothing to
/// whoever reads.
#[pyfunction]
pub(crate) fn is_stream(py: Python<'_>, sink: i32) -> PyResult<bool> {
    let kind = End::sink(py, sink)?.endpoint(py)?.kind();
    Ok(matches!(kind, Kind::Pipe | Kind::UnixSocket | Kind::TcpSocket))
}

/// Copies one regular file to another, by name: what `move_bytes` takes a dozen calls from Python for,
/// which a small file would notice. Nothing where it is not as simple as that; nothing was done then.
#[pyfunction]
pub(crate) fn copy_file(
    py: Python<'_>,
    source: PathBuf,
    sink: PathBuf,
    asked: Asked,
) -> PyResult<Option<Moved>> {
    // What cannot be is refused before a file is made for it, of which this knows no more than its name.
    let is_chosen = asked.route.is_some() || asked.profile.is_some();
    if is_chosen && !py.detach(|| sink.exists()) {
        return Ok(None);
    }
    let Some(opened) = py.detach(|| open_both(&source, &sink)) else { return Ok(None) };
    let moved = copy_opened(py, &opened, &asked);
    // Closing may wait for a file system, as that of ext4 does for a file that was emptied before.
    let closed = py.detach(|| close(opened.1));
    match (moved?, closed) {
        (Some(moved), Err(errno)) => Err(errors::closing(py, errno, &sink, moved.bytes)),
        (moved, _) => Ok(moved),
    }
}

/// Opens both, if both are regular files and can be opened. The sink keeps what it holds.
fn open_both(source: &Path, sink: &Path) -> Option<(OwnedFd, OwnedFd)> {
    let regular = |found: Stat| FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    // Looked at before it is opened: opening a FIFO wakes, or waits for, whoever is at its other end.
    if !stat(source).is_ok_and(regular) {
        return None;
    }
    let (flags, mode) = (OFlags::CLOEXEC | OFlags::NOCTTY, Mode::from_raw_mode(0o666));
    let source = open(source, flags | OFlags::RDONLY, mode).ok()?;
    // Some routes map the sink, which takes one that can be read.
    let flags = flags | OFlags::RDWR | OFlags::CREATE;
    let sink = match open(sink, flags | OFlags::EXCL, mode) {
        Ok(new) => new,
        Err(Errno::EXIST) => match stat(sink) {
            Ok(found) if regular(found) => open(sink, flags, mode).ok()?,
            // A link to what is not there yet.
            Err(Errno::NOENT) => open(sink, flags, mode).ok()?,
            _ => return None,
        },
        Err(_) => return None,
    };
    Some((source, sink))
}

fn copy_opened(
    py: Python<'_>,
    (source, sink): &(OwnedFd, OwnedFd),
    asked: &Asked,
) -> PyResult<Option<Moved>> {
    let ends = (Endpoint::source(source.as_fd()), Endpoint::sink(sink.as_fd()));
    let (Ok(source), Ok(sink)) = ends else { return Ok(None) };
    let files = (source.kind(), sink.kind()) == (Kind::File, Kind::File);
    if !files || source.same_file(&sink) {
        return Ok(None);
    }
    if asked.route.is_some() || asked.profile.is_some() {
        // What cannot be is refused before anything is lost.
        let planned = py.detach(|| asked.begin(&asked.job(&source, &sink)).map(drop));
        planned.map_err(|error| errors::carrying(py, error, 0))?;
    }
    if sink.bytes() > 0 && py.detach(|| ftruncate(&sink, 0)).is_err() {
        return Ok(None);
    }
    // It was opened here, and emptied.
    let job = asked.job(&source, &sink).allow_preallocation();
    move_between(py, job, asked, None).map(Some)
}

fn move_between(
    py: Python<'_>,
    job: Job<'_>,
    asked: &Asked,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Moved> {
    let meter = Meter::new();
    let watch = Watch {
        progress,
        before: asked.before,
        every: Duration::try_from_secs_f64(asked.every).unwrap_or(Duration::MAX),
        stall: asked.stall.and_then(|stall| Duration::try_from_secs_f64(stall).ok()),
        meter: &meter,
    };
    let began = Instant::now();
    let carry = |cancel: Option<&Cancel>| carry(asked, job, &meter, cancel);
    let (carried, ended): Outcome<_> = match is_short(&job) {
        true => (at_once(py, || carry(None)), None),
        false => watched(py, &watch, |cancel| carry(Some(cancel)))?,
    };
    let seconds = began.elapsed().as_secs_f64();
    // Where it stopped, and bytes that were under way, go along with what stopped it.
    let ended_by = |ended, stopped| match ended {
        Ended::Raised(ended) => {
            errors::with_cause(py, ended, errors::carrying(py, stopped, asked.before))
        }
        Ended::Stalled(most) => errors::stalled(py, most, stopped, asked.before),
    };
    match (carried, ended) {
        (Err(stopped), Some(ended)) => Err(ended_by(ended, stopped)),
        (Err(error), None) => Err(errors::carrying(py, error, asked.before)),
        // All was there already.
        (Ok((moved, _)), Some(ended)) => Err(ended_by(ended, stopped_at(&moved))),
        (Ok((moved, planning)), None) => {
            tell(&watch).map_err(|ended| ended_by(Ended::Raised(ended), stopped_at(&moved)))?;
            let gave = moved.declined.into_iter();
            Ok(Moved {
                bytes: moved.bytes,
                route: moved.route,
                calls: meter.read().calls,
                seconds,
                declined: gave.map(|gave| (gave.route, gave.offset, gave.why)).collect(),
                planning,
            })
        }
    }
}

/// The end of a job of which nothing is under way.
fn stopped_at(moved: &bytepath::Moved) -> CarryError {
    let (offset, route, declined) = (moved.bytes, moved.route, moved.declined.clone());
    TransferError::Cancelled { offset, stranded: Vec::new(), route, declined }.into()
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
) -> Result<(bytepath::Moved, Planning<'static>), CarryError> {
    let mut planning = asked.begin(&job)?;
    let moved = planning.carry(&Carrying { job, meter, cancel })?;
    Ok((moved, planning.over()))
}
