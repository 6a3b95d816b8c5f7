//! Sending without a copy (MSG_ZEROCOPY), and what a socket's error queue says of it.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::io::Errno;

use super::last_errno;

/// Has a socket take the wish to send without a copy (SO_ZEROCOPY, Linux 4.14).
pub(crate) fn allow_zero_copy(socket: BorrowedFd<'_>) -> Result<(), Errno> {
    let on: libc::c_int = 1;
    let (value, len) = ((&raw const on).cast(), size_of::<libc::c_int>() as libc::socklen_t);
    let (level, option) = (libc::SOL_SOCKET, libc::SO_ZEROCOPY);
    // SAFETY: the kernel reads `len` bytes of the value; the descriptor is open.
    match unsafe { libc::setsockopt(socket.as_raw_fd(), level, option, value, len) } {
        0 => Ok(()),
        _ => Err(last_errno()),
    }
}

/// What the kernel is done with: the sends of these numbers, the first and the last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Done {
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// It copied the bytes after all.
    pub(crate) copied: bool,
}

/// Room for what comes beside a message of the error queue: a record of the error, an address, and what
/// else the socket was asked to tell, such as times.
#[repr(C, align(8))]
struct Beside([u8; 256]);

/// Takes one message from a socket's error queue without waiting; `None` where it was about
/// something else.
pub(crate) fn done(socket: BorrowedFd<'_>) -> Result<Option<Done>, Errno> {
    let mut beside = Beside([0; 256]);
    // SAFETY: all zeros are a message header without anything.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_control = (&raw mut beside.0).cast();
    message.msg_controllen = beside.0.len() as _;
    let flags = libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT;
    // SAFETY: the kernel writes no more than `beside` has; the descriptor is open.
    if unsafe { libc::recvmsg(socket.as_raw_fd(), &raw mut message, flags) } < 0 {
        return Err(last_errno());
    }
    // SAFETY: the message is as the kernel left it.
    let mut header = unsafe { libc::CMSG_FIRSTHDR(&raw const message) };
    let found = loop {
        if header.is_null() {
            return Ok(None);
        }
        // SAFETY: a header that is not null lies whole in `beside`, which is aligned for it.
        let found = unsafe { *header };
        let about = (found.cmsg_level, found.cmsg_type);
        if about == (libc::SOL_IP, libc::IP_RECVERR)
            || about == (libc::SOL_IPV6, libc::IPV6_RECVERR)
        {
            break found;
        }
        // SAFETY: the header is one of the message's.
        header = unsafe { libc::CMSG_NXTHDR(&raw const message, header) };
    };
    let least = size_of::<libc::cmsghdr>() + size_of::<libc::sock_extended_err>();
    if (found.cmsg_len as usize) < least {
        return Ok(None);
    }
    // SAFETY: the header lies in `beside`, and so does what is behind it.
    let record = unsafe { libc::CMSG_DATA(header) }.cast::<libc::sock_extended_err>();
    // SAFETY: the kernel says that the record is there, whole.
    let record = unsafe { record.read_unaligned() };
    if record.ee_origin != SO_EE_ORIGIN_ZEROCOPY || record.ee_errno != 0 {
        return Ok(None);
    }
    let copied = i32::from(record.ee_code) & SO_EE_CODE_ZEROCOPY_COPIED != 0;
    Ok(Some(Done { first: record.ee_info, last: record.ee_data, copied }))
}

/// From linux/errqueue.h, as the next.
const SO_EE_ORIGIN_ZEROCOPY: u8 = 5;
const SO_EE_CODE_ZEROCOPY_COPIED: i32 = 1;
