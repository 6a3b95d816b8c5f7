//! Modules of the interpreter that runs.

use pyo3::exceptions::PyImportError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyString;

/// A module that it has imported. Nothing is imported here, which would let other threads run.
///
/// # Errors
/// It has not, or has it no more, as it ends.
pub(crate) fn imported<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    let object = PyString::new(py, name);
    // SAFETY: this thread has the interpreter (`py`), and the name is a string that is there until after the call.
    let module = unsafe { ffi::PyImport_GetModule(object.as_ptr()) };
    // SAFETY: likewise; the call answered with a reference that is ours, or null.
    let module = unsafe { Bound::from_owned_ptr_or_opt(py, module) };
    // Where there is none, that alone is no exception yet. An interpreter that ends puts None in its place first.
    module.filter(|module| !module.is_none()).ok_or_else(|| {
        PyErr::take(py).unwrap_or_else(|| PyImportError::new_err(format!("{name} is not there")))
    })
}
