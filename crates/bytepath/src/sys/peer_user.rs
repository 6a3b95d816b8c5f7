//! Who is at the other end of a Unix socket.
#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};

/// The user that connected the other end (SO_PEERCRED). rustix's record of it has no room for the
/// process number 0, which peers in another namespace of processes have.
pub(crate) fn peer_user(socket: BorrowedFd<'_>) -> std::io::Result<u32> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut len = size_of::<libc::ucred>() as libc::socklen_t;
    let (socket, into) = (socket.as_raw_fd(), (&raw mut peer).cast());
    // SAFETY: the kernel writes at most `len` bytes, which is what the record has; the descriptor is
    // open.
    let got = unsafe {
        libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, into, &raw mut len)
    };
    match got {
        0 => Ok(peer.uid),
        _ => Err(std::io::Error::last_os_error()),
    }
}
