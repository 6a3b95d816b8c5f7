//! The interpreter that runs, of which a process may have several.

use pyo3::ffi;
use pyo3::prelude::*;

/// Whether it is the one that the process began with.
pub(crate) fn is_main(_py: Python<'_>) -> bool {
    // SAFETY: this thread has an interpreter (`_py`).
    let own = unsafe { ffi::PyInterpreterState_Get() };
    // SAFETY: likewise, and this is its state.
    unsafe { ffi::PyInterpreterState_GetID(own) == 0 }
}
