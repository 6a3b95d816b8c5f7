//! Modules of the interpreter that runs.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// A module that it has imported. Nothing is imported here, which would let other threads run.
///
/// # Errors
/// It has not.
pub(crate) fn imported<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let name = PyString::new(py, name);
    // SAFETY: this thread has the interpreter (`py`), and the name is a string that is there until after the call.
    let module = unsafe { ffi::PyImport_GetModule(name.as_ptr()) };
    // SAFETY: likewise; the call answered with a reference that is ours, or null.
    unsafe { Bound::from_owned_ptr_or_err(py, module) }
}
