//! A tracepoint as perf knows it, with a BPF program behind it.
#![allow(unsafe_code)]

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

use rustix::io::Errno;

use super::bpf::Program;

const PERF_TYPE_TRACEPOINT: u32 = 2;
/// _IO('$', 0), _IOW('$', 8, u32) of linux/perf_event.h.
const PERF_EVENT_IOC_ENABLE: libc::Ioctl = 0x2400;
const PERF_EVENT_IOC_SET_BPF: libc::Ioctl = 0x4004_2408;
const PERF_FLAG_FD_CLOEXEC: libc::c_ulong = 8;

/// struct perf_event_attr, its first version, of which only these matter here.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup: u32,
    breakpoint_type: u32,
    config1: u64,
}

/// Attaches a program to the tracepoint that tracefs gives this number. It runs for all CPUs, and
/// stays attached while the result lives.
pub(crate) fn attach(program: &Program, tracepoint: u64) -> Result<OwnedFd, Errno> {
    let attributes = Attributes {
        kind: PERF_TYPE_TRACEPOINT,
        size: size_of::<Attributes>() as u32,
        config: tracepoint,
        period: 1,
        ..Attributes::default()
    };
    // SAFETY: the record has the size that it tells, and the kernel only reads it.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            &raw const attributes,
            -1,
            0,
            -1,
            PERF_FLAG_FD_CLOEXEC,
        )
    };
    let fd = i32::try_from(fd).ok().filter(|fd| *fd >= 0).ok_or_else(last_errno)?;
    // SAFETY: the kernel just gave this descriptor to us alone.
    let event = unsafe { OwnedFd::from_raw_fd(fd) };
    let number = program.as_fd().as_raw_fd();
    // SAFETY: takes the number of a program's descriptor, which is open.
    let set = unsafe { libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_SET_BPF, number) };
    if set < 0 {
        return Err(last_errno());
    }
    // SAFETY: takes no memory.
    let enabled = unsafe { libc::ioctl(event.as_raw_fd(), PERF_EVENT_IOC_ENABLE, 0) };
    if enabled < 0 { Err(last_errno()) } else { Ok(event) }
}

fn last_errno() -> Errno {
    Errno::from_io_error(&io::Error::last_os_error()).unwrap_or(Errno::IO)
}
