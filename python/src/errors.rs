//! What went wrong, as the package's exceptions.

use std::path::Path;
use std::time::Duration;

use bytepath::plan::PlanError;
use bytepath::planning::CarryError;
use bytepath::{Failed, Side, TransferError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use rustix::io::Errno;

use crate::planned;

/// What the package's `CopyError` is made of.
pub(crate) struct CopyError {
    errno: Errno,
    text: String,
    offset: u64,
    route: Option<&'static str>,
    side: Option<&'static str>,
    stranded: Vec<u8>,
    /// The function of the package that makes it.
    made_by: &'static str,
}

impl CopyError {
    pub(crate) fn new(errno: Errno, text: String, offset: u64) -> CopyError {
        CopyError {
            errno,
            text,
            offset,
            route: None,
            side: None,
            stranded: Vec::new(),
            made_by: "make",
        }
    }

    /// The same, of this end.
    pub(crate) fn of(self, side: &'static str) -> CopyError {
        CopyError { side: Some(side), ..self }
    }

    /// The exception, of the class that Python has for the errno.
    pub(crate) fn raise(self, py: Python<'_>) -> PyErr {
        let made = py.import("bytepath._errors").and_then(|module| {
            let stranded = PyBytes::new(py, &self.stranded);
            let errno = self.errno.raw_os_error();
            module.call_method1(
                self.made_by,
                (errno, self.text, self.offset, self.route, self.side, stranded),
            )
        });
        made.map_or_else(|error| error, PyErr::from_value)
    }
}

/// What a handler of a signal or a callback raised, with this as its cause unless it has one.
pub(crate) fn with_cause(py: Python<'_>, raised: PyErr, cause: PyErr) -> PyErr {
    if raised.cause(py).is_none() {
        raised.set_cause(py, Some(cause));
    }
    raised
}

/// The exception for what a copy needs and this process cannot have.
pub(crate) fn lacking(py: Python<'_>, what: &str, error: &std::io::Error, at: u64) -> PyErr {
    let errno = Errno::from_io_error(error).unwrap_or(Errno::NOMEM);
    CopyError::new(errno, format!("there is no {what} to be had: {error}"), at).raise(py)
}

/// The exception for a sink that told, when it was closed, of bytes that are lost, after so many.
pub(crate) fn closing(py: Python<'_>, errno: Errno, sink: &Path, offset: u64) -> PyErr {
    let made = py.import("bytepath._errors").and_then(|module| {
        module.call_method1("unclosed", (errno.raw_os_error(), sink.as_os_str(), offset))
    });
    made.map_or_else(|error| error, PyErr::from_value)
}

/// The exception for a plan that there is not, for a sink that took so many bytes before.
fn plan(py: Python<'_>, error: &PlanError, before: u64) -> PyErr {
    let new = |errno| CopyError::new(errno, error.to_string(), before);
    let error = match error {
        PlanError::UnknownRoute { name } => {
            let names: Vec<_> = planned::routes().into_iter().map(|(name, _)| name).collect();
            let text = format!("there is no route {name}; there are: {}", names.join(", "));
            return PyValueError::new_err(text);
        }
        PlanError::SameOpenFile => return PyValueError::new_err(error.to_string()),
        PlanError::SameFile => CopyError { made_by: "make_same_file", ..new(Errno::INVAL) },
        PlanError::Overlap => new(Errno::INVAL),
        _ => new(Errno::OPNOTSUPP),
    };
    error.raise(py)
}

/// The exception for a movement that ended short, of a sink that took so many bytes before it.
pub(crate) fn carrying(py: Python<'_>, error: CarryError, before: u64) -> PyErr {
    match error {
        CarryError::Plan(error) => plan(py, &error, before),
        CarryError::Syncing { errno, ref moved } => {
            CopyError::new(errno, error.to_string(), before + moved.bytes).raise(py)
        }
        CarryError::Transfer(error) => transfer(error, before).raise(py),
        error => CopyError::new(Errno::INVAL, error.to_string(), before).raise(py),
    }
}

/// The exception for a movement that was given up, and stopped then, because nothing moved for so long.
pub(crate) fn stalled(py: Python<'_>, most: Duration, stopped: CarryError, before: u64) -> PyErr {
    let CarryError::Transfer(stopped @ TransferError::Cancelled { .. }) = stopped else {
        // It has failed in the same moment.
        return carrying(py, stopped, before);
    };
    let told = transfer(stopped, before);
    let text = format!("nothing moved for {} s: {}", most.as_secs_f64(), told.text);
    CopyError { errno: Errno::TIMEDOUT, text, ..told }.raise(py)
}

fn transfer(mut error: TransferError, before: u64) -> CopyError {
    if let TransferError::Failed(Failed { offset, .. })
    | TransferError::Declined { offset, .. }
    | TransferError::Cancelled { offset, .. } = &mut error
    {
        *offset += before;
    }
    let text = error.to_string();
    match error {
        TransferError::Failed(failed) => CopyError {
            route: Some(failed.route),
            side: match failed.side {
                Side::Source => Some("source"),
                Side::Sink => Some("sink"),
                Side::Either => None,
            },
            stranded: failed.stranded,
            ..CopyError::new(failed.errno, text, failed.offset)
        },
        TransferError::Declined { offset, declined } => {
            let route = declined.last().map(|gave| gave.route);
            CopyError { route, ..CopyError::new(Errno::OPNOTSUPP, text, offset) }
        }
        TransferError::Cancelled { offset, stranded, route, .. } => {
            let route = Some(route);
            CopyError { route, stranded, ..CopyError::new(Errno::CANCELED, text, offset) }
        }
        TransferError::MeterInUse => CopyError::new(Errno::BUSY, text, before),
        TransferError::PipeSize(refusal) => {
            CopyError::new(refusal.errno.unwrap_or(Errno::INVAL), text, before)
        }
        _ => CopyError::new(Errno::INVAL, text, before),
    }
}
