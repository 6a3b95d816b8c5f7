//! Memory that a Python object lends: its bytes, where they lie in one piece.
//!
//! The buffer protocol is a part of Python's stable ABI since 3.11, and the same before: so its
//! functions and its record are named here, and found in the interpreter, 3.10's too.
#![allow(unsafe_code)]

use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;

use bytepath::channel::SharedBytes;

use pyo3::ffi::{Py_ssize_t, PyObject};
use pyo3::prelude::*;

/// As Python's object.h has it.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct RawBuffer {
    pub(crate) buf: *mut c_void,
    pub(crate) obj: *mut PyObject,
    pub(crate) len: Py_ssize_t,
    pub(crate) itemsize: Py_ssize_t,
    pub(crate) readonly: c_int,
    pub(crate) ndim: c_int,
    pub(crate) format: *mut c_char,
    pub(crate) shape: *mut Py_ssize_t,
    pub(crate) strides: *mut Py_ssize_t,
    pub(crate) suboffsets: *mut Py_ssize_t,
    pub(crate) internal: *mut c_void,
}

/// Any contiguous memory, in C's or in Fortran's order.
const ANY_CONTIGUOUS: c_int = 0x0080 | 0x0010 | 0x0008;

#[allow(non_snake_case)]
unsafe extern "C" {
    fn PyObject_GetBuffer(object: *mut PyObject, view: *mut RawBuffer, flags: c_int) -> c_int;
    fn PyBuffer_Release(view: *mut RawBuffer);
}

/// The memory of an object that lies in one piece, which stays there until this is dropped. Other
/// threads may write to it meanwhile, so it is only copied, by pointer.
#[derive(Debug)]
pub(crate) struct LentBytes(Box<RawBuffer>);

// SAFETY: the memory stays where it is whatever thread looks; it is released by who holds the
// interpreter (Drop).
unsafe impl Send for LentBytes {}
// SAFETY: as above; shared access only copies.
unsafe impl Sync for LentBytes {}

impl LentBytes {
    /// # Errors
    /// Python's own: it lends no memory, or none in one piece.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<LentBytes> {
        let none = std::ptr::null_mut();
        let mut raw = Box::new(RawBuffer {
            buf: none,
            obj: std::ptr::null_mut(),
            len: 0,
            itemsize: 0,
            readonly: 0,
            ndim: 0,
            format: std::ptr::null_mut(),
            shape: std::ptr::null_mut(),
            strides: std::ptr::null_mut(),
            suboffsets: std::ptr::null_mut(),
            internal: none,
        });
        // SAFETY: the object lives, the interpreter is held, and the record is ours, at an address
        // that stays.
        match unsafe { PyObject_GetBuffer(object.as_ptr(), &raw mut *raw, ANY_CONTIGUOUS) } {
            0 => Ok(LentBytes(raw)),
            _ => Err(PyErr::fetch(object.py())),
        }
    }

    pub(crate) fn len(&self) -> usize {
        usize::try_from(self.0.len).unwrap_or(0)
    }

    /// Its bytes.
    pub(crate) fn bytes(&self) -> SharedBytes<'_> {
        let start = NonNull::new(self.0.buf.cast::<u8>()).unwrap_or(NonNull::dangling());
        // SAFETY: Python lends so many bytes until this is dropped; where there are none, none are read.
        unsafe { SharedBytes::from_raw_parts(start, self.len()) }
    }

    /// Copies all of it to this place of a space.
    ///
    /// # Panics
    /// It has no room there.
    pub(crate) fn copy_to(&self, into: &mut bytepath::channel::SharedSpace<'_>, at: usize) {
        let end = at.checked_add(self.len());
        assert!(end.is_some_and(|end| end <= into.len()), "there is room for all of it");
        let (from, to) = (self.0.buf.cast::<u8>(), into.as_mut_ptr().wrapping_add(at));
        // SAFETY: Python lends so many bytes until this is dropped, and the space is mapped, has room for
        // them behind `at`, and is nobody else's.
        unsafe { std::ptr::copy_nonoverlapping(from, to, self.len()) }
    }

    /// Puts a copy of all of it behind what is there.
    pub(crate) fn append_to(&self, into: &mut Vec<u8>) {
        let (len, count) = (into.len(), self.len());
        into.reserve(count);
        let end = into.as_mut_ptr().wrapping_add(len);
        // SAFETY: Python lends so many bytes, and there is room for them behind the vector's.
        unsafe { std::ptr::copy_nonoverlapping(self.0.buf.cast::<u8>(), end, count) };
        // SAFETY: so many have been written there.
        unsafe { into.set_len(len + count) };
    }
}

impl Drop for LentBytes {
    fn drop(&mut self) {
        Python::attach(|_| {
            // SAFETY: PyObject_GetBuffer filled it in, and it is released once.
            unsafe { PyBuffer_Release(&raw mut *self.0) };
        });
    }
}
