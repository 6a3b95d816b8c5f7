//! The compiled half of the Python package `bytepath`: hands what Python gives to the library, and what
//! the library tells back to Python. It decides nothing; the package's own files make it comfortable.

mod channel;
mod copying;
mod ends;
mod errors;
mod held;
mod machine;
mod planned;
mod running;
mod sys;
mod verifying;

use pyo3::prelude::*;

/// The compiled half of bytepath; use the package `bytepath`.
#[pymodule]
mod _bytepath {
    use super::*;

    #[pymodule_export]
    use crate::channel::{Board, Inbox, Meeting, Outbox, Pool, connect};
    #[pymodule_export]
    use crate::channel::{about_to_fork, forked_in_child, forked_in_parent, gives_back_later};

    /// The version of bytepath that this was built from.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    #[pymodule_export]
    use crate::copying::{
        Moved, NamedProfile, check_apart, check_sink, check_source, copy_file, is_stream,
        move_bytes, named_profile,
    };
    #[pymodule_export]
    use crate::held::Held;
    #[pymodule_export]
    use crate::machine::machine;
    #[pymodule_export]
    use crate::planned::{Planned, Route, plan_for, routes};
    #[pymodule_export]
    use crate::verifying::first_difference;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::channel::find_exceptions(module.py())
    }
}
