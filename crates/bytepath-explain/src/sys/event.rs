//! Two requests to an open event that the crate which opens it has no call for: where its records
//! go, and which of them there are at all.

#![allow(unsafe_code)]

use std::ffi::CStr;
use std::io::{Error, Result};
use std::os::fd::AsRawFd;

use perf_event::Counter;

/// PERF_EVENT_IOC_SET_OUTPUT of linux/perf_event.h: `_IO('$', 5)`.
const SET_OUTPUT: libc::c_ulong = 0x2405;
/// PERF_EVENT_IOC_SET_FILTER of linux/perf_event.h: `_IOW('$', 6, char *)`.
const SET_FILTER: libc::c_ulong = 0x4008_2406;

/// Records of `event` go to the ring of `ring`, an event on the same CPU.
///
/// # Errors
/// EINVAL: they are not on the same CPU.
pub(crate) fn set_output(event: &Counter, ring: &impl AsRawFd) -> Result<()> {
    // SAFETY: both descriptors are open; the kernel holds on to the ring by itself from then on.
    let answer = unsafe { libc::ioctl(event.as_raw_fd(), SET_OUTPUT as _, ring.as_raw_fd()) };
    told(answer)
}

/// The tracepoint counts, and records, only what `filter` is true of: `prev_state == 0`.
///
/// # Errors
/// EINVAL: the filter names a field that the tracepoint has not.
pub(crate) fn set_filter(event: &Counter, filter: &CStr) -> Result<()> {
    // SAFETY: the descriptor is open; the kernel copies the string, which ends with a zero, during
    // the call.
    let answer = unsafe { libc::ioctl(event.as_raw_fd(), SET_FILTER as _, filter.as_ptr()) };
    told(answer)
}

fn told(answer: libc::c_int) -> Result<()> {
    if answer < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}
