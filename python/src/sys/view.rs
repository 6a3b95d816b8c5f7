//! Memory that we lend to Python: an object whose bytes are those of a block that came by a channel, to be
//! read only. The block is given back when Python drops the object, which it does when no memoryview, array
//! or table looks at it any more.
//!
//! A type made by hand: PyO3 offers buffers to no interpreter before 3.11, where the stable ABI first
//! names them. The interpreter of 3.10 takes them all the same.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::Arc;

use bytepath::channel::{SealedParcel, SharedBytes};
use pyo3::ffi::{
    Py_TPFLAGS_DEFAULT, Py_ssize_t, PyObject, PyType_FromSpec, PyType_Slot, PyType_Spec,
    PyTypeObject,
};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::buffer::RawBuffer;
use crate::channel::Lent;

/// Numbers of slots, of Python's typeslots.h.
const BF_GETBUFFER: c_int = 1;
const TP_DEALLOC: c_int = 52;
const TP_DOC: c_int = 56;

#[allow(non_snake_case)]
unsafe extern "C" {
    fn PyBuffer_FillInfo(
        view: *mut RawBuffer,
        object: *mut PyObject,
        buf: *mut c_void,
        len: Py_ssize_t,
        readonly: c_int,
        flags: c_int,
    ) -> c_int;
    fn PyType_GenericAlloc(kind: *mut PyTypeObject, items: Py_ssize_t) -> *mut PyObject;
    fn PyObject_Free(object: *mut c_void);
}

/// The object: what every object of Python's begins with, and what it owns.
#[repr(C)]
struct View {
    base: PyObject,
    /// From Box::into_raw, until Python drops the object.
    lends: *mut Lends,
}

/// Memory that large buffers came in.
#[derive(Debug)]
pub(crate) enum Block {
    /// The sender's, which has it back when this is dropped, and no forked process has it.
    Lent(Lent),
    /// Ours, and that of whoever else has it.
    Sealed(SealedParcel),
    /// Ours alone.
    Own(Vec<u8>),
}

impl Block {
    pub(crate) fn bytes(&self) -> SharedBytes<'_> {
        match self {
            Block::Lent(lent) => lent.bytes(),
            Block::Sealed(parcel) => parcel.as_slice().into(),
            Block::Own(bytes) => bytes[..].into(),
        }
    }

    /// The same bytes, if there is memory for them.
    pub(crate) fn copied(&self) -> Option<Vec<u8>> {
        let (bytes, mut copy) = (self.bytes(), Vec::new());
        copy.try_reserve_exact(bytes.len()).ok()?;
        copy.resize(bytes.len(), 0);
        bytes.copy_to(&mut copy);
        Some(copy)
    }
}

/// A part of a block.
struct Lends {
    block: Arc<Block>,
    part: Range<usize>,
}

static TYPE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// An object that lends some bytes of a block.
///
/// # Errors
/// There is no memory for it.
///
/// # Panics
/// The block does not have them.
pub(crate) fn view<'py>(
    py: Python<'py>,
    block: &Arc<Block>,
    part: Range<usize>,
) -> PyResult<Bound<'py, PyAny>> {
    let _ = block.bytes().range(part.clone());
    let kind = TYPE.get_or_try_init(py, || make_type(py))?;
    // SAFETY: it is a type of ours whose objects are as large as a View, and the interpreter is held.
    let object = unsafe { PyType_GenericAlloc(kind.as_ptr().cast(), 0) };
    // SAFETY: a new reference, or null with an error set.
    let object = unsafe { Bound::from_owned_ptr_or_err(py, object) }?;
    let lends = Box::into_raw(Box::new(Lends { block: Arc::clone(block), part }));
    // SAFETY: the object is a View that nobody else has yet, zero until now.
    unsafe { (*object.as_ptr().cast::<View>()).lends = lends };
    Ok(object)
}

fn make_type(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let mut slots = [
        PyType_Slot { slot: BF_GETBUFFER, pfunc: get_buffer as *mut c_void },
        PyType_Slot { slot: TP_DEALLOC, pfunc: dealloc as *mut c_void },
        PyType_Slot {
            slot: TP_DOC,
            pfunc: c"Bytes of a channel, where the sender wrote them.".as_ptr() as *mut c_void,
        },
        PyType_Slot { slot: 0, pfunc: std::ptr::null_mut() },
    ];
    let mut spec = PyType_Spec {
        name: c"bytepath._bytepath.View".as_ptr(),
        basicsize: size_of::<View>() as c_int,
        itemsize: 0,
        flags: (Py_TPFLAGS_DEFAULT | DISALLOW_INSTANTIATION) as _,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the record and its slots are complete, and what they point to is there for ever.
    let made = unsafe { PyType_FromSpec(&raw mut spec) };
    // SAFETY: a new reference, or null with an error set.
    let made = unsafe { Bound::from_owned_ptr_or_err(py, made) }?;
    let reduced = py.import("bytepath._pickling")?.getattr("reduced_view")?;
    made.setattr("__reduce_ex__", reduced)?;
    Ok(made.unbind())
}

/// Python cannot make one (Py_TPFLAGS_DISALLOW_INSTANTIATION, since 3.10).
const DISALLOW_INSTANTIATION: std::ffi::c_ulong = 1 << 7;

unsafe extern "C" fn get_buffer(
    object: *mut PyObject,
    into: *mut RawBuffer,
    flags: c_int,
) -> c_int {
    // SAFETY: Python calls this with an object of the type, which is whole, and alive.
    let lends = unsafe { (*object.cast::<View>()).lends };
    // SAFETY: it was made by Box::into_raw and is freed with the object only.
    let lends = unsafe { &*lends };
    let bytes = lends.block.bytes().range(lends.part.clone());
    let (start, len) = (bytes.as_ptr() as *mut c_void, bytes.len() as Py_ssize_t);
    // SAFETY: so many bytes are mapped to be read for as long as the object lives, which the record
    // refers to; Python says whether it asks for more than reading.
    unsafe { PyBuffer_FillInfo(into, object, start, len, 1, flags) }
}

unsafe extern "C" fn dealloc(object: *mut PyObject) {
    // SAFETY: Python calls this once, when nobody refers to the object any more.
    let lends = unsafe { (*object.cast::<View>()).lends };
    if !lends.is_null() {
        // SAFETY: it was made by Box::into_raw, and nobody looks at it any more.
        drop(unsafe { Box::from_raw(lends) });
    }
    // SAFETY: the object lives, and so does its type, to which it holds a reference.
    let kind = unsafe { pyo3::ffi::Py_TYPE(object) };
    // SAFETY: PyType_GenericAlloc made it, of no collected type.
    unsafe { PyObject_Free(object.cast()) };
    // SAFETY: the reference that the object held.
    unsafe { pyo3::ffi::Py_DECREF(kind.cast()) };
}
