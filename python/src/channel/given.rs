//! A message that was taken, as Python's objects.

use std::ops::Range;
use std::sync::Arc;

use bytepath::channel::{ChannelError, SharedBytes};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList};

use super::errors::raised;
use super::head::{Part, Parts};
use crate::sys::view::{Block, view};

/// A message that is in the ring no more: copies of what was there, and its block.
pub(crate) struct Given<'py> {
    block: Option<Arc<Block>>,
    pickle: Copied<'py>,
    buffers: Vec<Copied<'py>>,
}

enum Copied<'py> {
    Here(Bound<'py, PyAny>),
    Block(Range<usize>),
}

/// Longer parts of a copy of a message are looked at where they are, instead of being copied once more.
const COPIED_MAX: usize = 4 << 10;

/// The pickle and the buffers of a message of which this is a copy, and of its block.
///
/// # Errors
/// It is none of this package's, or there is no memory for it.
pub(crate) fn objects_of_copy<'py>(
    py: Python<'py>,
    head: Vec<u8>,
    block: Option<Block>,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyList>)> {
    let head = Arc::new(Block::Own(head));
    let here = |range: Range<usize>| match range.len() > COPIED_MAX {
        true => view(py, &head, range),
        false => copied(py, head.bytes().range(range)),
    };
    Given::with(py, head.bytes(), block, here)?.objects(py)
}

fn strange(py: Python<'_>) -> PyErr {
    raised(py, ChannelError::Broken("its message is none of Python's"))
}

impl<'py> Given<'py> {
    /// # Errors
    /// It is none of this package's, or there is no memory for it.
    pub(crate) fn of(
        py: Python<'py>,
        head: SharedBytes<'_>,
        block: Option<Block>,
    ) -> PyResult<Given<'py>> {
        Given::with(py, head, block, |range| copied(py, head.range(range)))
    }

    /// The same, of what lies in the message being told how it becomes an object.
    fn with(
        py: Python<'py>,
        head: SharedBytes<'_>,
        block: Option<Block>,
        here: impl Fn(Range<usize>) -> PyResult<Bound<'py, PyAny>>,
    ) -> PyResult<Given<'py>> {
        let block = block.map(Arc::new);
        let parts = Parts::of(head, block.as_ref().map(|block| block.bytes()));
        let Parts { pickle, buffers } = parts.ok_or_else(|| strange(py))?;
        let copied = |part| match part {
            Part::Here(range) => here(range).map(Copied::Here),
            Part::Block(range) => Ok(Copied::Block(range)),
        };
        let pickle = copied(pickle)?;
        let buffers = buffers.into_iter().map(copied).collect::<PyResult<Vec<_>>>()?;
        Ok(Given { block, pickle, buffers })
    }

    /// Has its block copied into memory of this process, where there is some, so that the sender has its own back.
    pub(crate) fn keep_copy(&mut self, py: Python<'py>) {
        let copy = self.block.as_ref().and_then(|block| py.detach(|| block.copied()));
        if let Some(copy) = copy {
            self.block = Some(Arc::new(Block::Own(copy)));
        }
    }

    /// Its pickle, and its buffers.
    ///
    /// # Errors
    /// There is no memory for them.
    pub(crate) fn objects(
        self,
        py: Python<'py>,
    ) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyList>)> {
        let Given { block, pickle, buffers } = self;
        let object = |part| match (part, &block) {
            (Copied::Here(object), _) => Ok(object),
            (Copied::Block(range), Some(block)) => view(py, block, range),
            (Copied::Block(_), None) => Err(PyValueError::new_err("a message without its block")),
        };
        let pickle = object(pickle)?;
        let buffers = buffers.into_iter().map(object).collect::<PyResult<Vec<_>>>()?;
        Ok((pickle, PyList::new(py, buffers)?))
    }
}

fn copied<'py>(py: Python<'py>, bytes: SharedBytes<'_>) -> PyResult<Bound<'py, PyAny>> {
    let copy = PyBytes::new_with(py, bytes.len(), |into| {
        bytes.copy_to(into);
        Ok(())
    })?;
    Ok(copy.into_any())
}
