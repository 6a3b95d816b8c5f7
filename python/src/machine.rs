//! What is true of this machine.

use bytepath::machine::Machine;
use pyo3::prelude::*;

use crate::running::at_once;

/// Every fact about this machine: its name and its value, in reading order.
#[pyfunction]
pub(crate) fn machine(py: Python<'_>) -> Vec<(String, String)> {
    at_once(py, || Machine::this().facts().list())
}
