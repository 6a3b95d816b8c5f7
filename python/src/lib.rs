//! The compiled half of the Python package `bytepath`: hands what Python gives to the library, and what
//! the library tells back to Python. It decides nothing; the package's own files make it comfortable.

mod channel;
mod copying;
mod ends;
mod errors;
mod held;
mod machine;
mod planned;
mod profile;
mod running;
mod sys;
mod verifying;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;

/// The compiled half of bytepath; use the package `bytepath`.
#[pymodule]
mod _bytepath {
    use super::*;

    #[pymodule_export]
    use crate::channel::{
        Board, Inbox, Meeting, Outbox, Pool, hear, introduce, make_first, make_once,
    };
    #[pymodule_export]
    use crate::channel::{about_to_fork, forked_in_child, forked_in_parent, gives_back_later};

    /// The version of bytepath that this was built from.
    #[pymodule_export]
    #[expect(non_upper_case_globals, reason = "Python's name for it")]
    const __version__: &str = env!("CARGO_PKG_VERSION");

    /// With which the names of ends of channels begin that a process has used.
    #[pymodule_export]
    const CLAIM: &[u8] = crate::channel::CLAIM;

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
    use crate::profile::best_choice;
    #[pymodule_export]
    use crate::verifying::first_difference;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        // These end a subinterpreter that is left over once the process ends: what it closes then without
        // the interpreter's lock gets that no more, and the process would never end.
        if py.version_info() < (3, 12) && !sys::interpreter::is_main(py) {
            return Err(PyImportError::new_err(
                "before Python 3.12, bytepath is for the main interpreter alone, and this is a \
                 subinterpreter: use a process of its own, or Python 3.12 or later, where one that is \
                 not isolated takes it",
            ));
        }
        crate::channel::find_exceptions(py)
    }
}
