//! The compiled half of the Python package `bytepath`: hands what Python gives to the library, and what
//! the library tells back to Python. It decides nothing; the package's own files make it comfortable.

use pyo3::prelude::*;

/// The compiled half of bytepath; use the package `bytepath`.
#[pymodule]
mod _bytepath {
    /// The version of bytepath that this was built from.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");
}
