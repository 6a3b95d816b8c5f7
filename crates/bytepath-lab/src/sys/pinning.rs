//! System calls that make the kernel look up and hold the pages of memory (get_user_pages).
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::mm::Advice;
use rustix::pipe::{IoSliceRaw, SpliceFlags};

/// Lends pages to a pipe by vmsplice(2); the caller drains the pipe before the memory is used for
/// anything else.
pub(crate) fn vmsplice(pipe: BorrowedFd<'_>, memory: &[u8]) -> Result<usize, Errno> {
    // SAFETY: the kernel only reads the pages, and takes references of its own to them.
    unsafe {
        rustix::pipe::vmsplice(pipe, &[IoSliceRaw::from_slice(memory)], SpliceFlags::NONBLOCK)
    }
}

/// Gives the pages of memory back: it reads as zeros, and is untouched, afterwards. The memory is a
/// mapping of its own, in whole pages.
pub(crate) fn discard(memory: &mut [u8]) -> Result<(), Errno> {
    let start = memory.as_mut_ptr().cast();
    // SAFETY: the range is private anonymous memory, which reads as zeros afterwards; `&mut` means
    // that nobody else looks at it.
    unsafe { rustix::mm::madvise(start, memory.len(), Advice::LinuxDontNeed) }
}

/// What the kernel's gup_test is asked and tells (`struct gup_test` of mm/gup_test.h, since 5.11).
#[repr(C)]
#[derive(Default)]
struct GupTest {
    get_delta_usec: u64,
    put_delta_usec: u64,
    addr: u64,
    size: u64,
    nr_pages_per_call: u32,
    gup_flags: u32,
    test_flags: u32,
    which_pages: [u32; 8],
}

/// `_IOWR('g', 1, struct gup_test)`: get_user_pages_fast, and put_page of all of them.
const GUP_FAST_BENCHMARK: libc::Ioctl =
    (3 << 30 | (std::mem::size_of::<GupTest>() as u32) << 16 | (b'g' as u32) << 8 | 1)
        as libc::Ioctl;

/// How many microseconds get_user_pages_fast takes for all pages of memory, by gup_test.
pub(crate) fn gup_fast_us(
    device: BorrowedFd<'_>,
    memory: &[u8],
    at_once: u32,
) -> Result<u64, Errno> {
    let mut test = GupTest {
        addr: memory.as_ptr() as u64,
        size: memory.len() as u64,
        nr_pages_per_call: at_once,
        ..GupTest::default()
    };
    // SAFETY: the device reads and writes the structure that the number names; it only looks the
    // pages of `memory` up, and lets go of them.
    let answer = unsafe { libc::ioctl(device.as_raw_fd(), GUP_FAST_BENCHMARK, &raw mut test) };
    match answer {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        _ => Ok(test.get_delta_usec),
    }
}
