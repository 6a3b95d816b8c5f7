//! Memory of another process, reached by its number and an address there; and the number of the
//! process at the other end of a socket, by the kernel's word.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;
use rustix::process::Pid;

use super::counted;

/// Copies bytes at an address of a process (process_vm_readv(2)); how many, which may be fewer.
pub(crate) fn read(process: Pid, address: u64, into: &mut [u8]) -> Result<usize, Errno> {
    let (here, there) = ends(into.as_mut_ptr(), into.len(), address)?;
    let process = process.as_raw_pid();
    // SAFETY: the kernel writes no more than `into` has, and checks the other process's addresses.
    let count =
        unsafe { libc::process_vm_readv(process, &raw const here, 1, &raw const there, 1, 0) };
    counted(count)
}

/// Copies bytes to an address of a process (process_vm_writev(2)); how many, which may be fewer.
pub(crate) fn write(process: Pid, address: u64, from: &[u8]) -> Result<usize, Errno> {
    let (here, there) = ends(from.as_ptr().cast_mut(), from.len(), address)?;
    let process = process.as_raw_pid();
    // SAFETY: the kernel only reads `from`, and checks the other process's addresses.
    let count =
        unsafe { libc::process_vm_writev(process, &raw const here, 1, &raw const there, 1, 0) };
    counted(count)
}

/// An address that this process could not even name is none of the other's.
fn ends(start: *mut u8, len: usize, address: u64) -> Result<(libc::iovec, libc::iovec), Errno> {
    let there = usize::try_from(address).map_err(|_| Errno::FAULT)?;
    let here = libc::iovec { iov_base: start.cast(), iov_len: len };
    Ok((here, libc::iovec { iov_base: std::ptr::without_provenance_mut(there), iov_len: len }))
}

/// Whether packets come with the process that sent them (SO_PASSCRED).
pub(crate) fn tell_senders(socket: BorrowedFd<'_>, tells: bool) -> Result<(), Errno> {
    rustix::net::sockopt::set_socket_passcred(socket, tells)
}

/// Room for what comes beside a packet: a `ucred` behind its header, and nothing else. Descriptors that
/// somebody sends along would have to be closed; without room for them the kernel does that.
#[repr(C, align(8))]
struct Beside([u8; SENDER_BYTES]);

// SAFETY: it only calculates.
const SENDER_BYTES: usize = unsafe { libc::CMSG_SPACE(size_of::<libc::ucred>() as u32) } as usize;

/// Takes a packet without waiting, and the process that sent it, where the kernel told: none where
/// that one is in a namespace of processes that this one does not see. rustix's record of it has no
/// room for the number 0, by which the kernel tells that.
pub(crate) fn packet_with_sender(
    socket: BorrowedFd<'_>,
    into: &mut [u8],
) -> Result<(usize, Option<Pid>), Errno> {
    let mut beside = Beside([0; SENDER_BYTES]);
    let mut piece = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    // SAFETY: all zeros are a message header without anything.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = &raw mut piece;
    message.msg_iovlen = 1;
    message.msg_control = (&raw mut beside.0).cast();
    message.msg_controllen = beside.0.len() as _;
    let flags = libc::MSG_DONTWAIT | libc::MSG_CMSG_CLOEXEC;
    // SAFETY: the kernel writes no more than `into` and `beside` have; the descriptor is open.
    let count = unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) };
    let count = counted(count)?;
    // SAFETY: the message is as the kernel left it.
    let header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    if header.is_null() {
        return Ok((count, None));
    }
    // SAFETY: a header that is not null lies whole in `beside`, which is aligned for it.
    let found = unsafe { *header };
    let is_sender =
        (found.cmsg_level, found.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_CREDENTIALS);
    let least = std::mem::offset_of!(Told, sender) + size_of::<libc::ucred>();
    if !is_sender || (found.cmsg_len as usize) < least {
        return Ok((count, None));
    }
    // SAFETY: the header lies in `beside`, and so does what is behind it.
    let sender = unsafe { libc::CMSG_DATA(header) }.cast::<libc::ucred>();
    // SAFETY: the kernel says that the record is there, whole.
    let sender = unsafe { sender.read_unaligned() };
    Ok((count, Pid::from_raw(sender.pid)))
}

/// What the kernel writes beside a packet.
#[repr(C)]
struct Told {
    header: libc::cmsghdr,
    sender: libc::ucred,
}
