//! A connection to somebody who speaks: what came and is not yet understood, and what is still to be
//! sent. Nothing here ever sleeps.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, listen, send,
    socket_with, sockopt,
};

use super::Address;

/// The most that waits for one who is to accept it; the kernel may have a lower limit.
const BACKLOG: i32 = 4096;

/// Messages here are much shorter.
const PIECE_BYTES: usize = 4096;

/// No message is longer: somebody who sends more without an end is not who they should be.
const MESSAGE_BYTES_MAX: usize = 1 << 20;

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);

/// A connection.
pub(super) struct Peer {
    socket: OwnedFd,
    pub(super) input: Vec<u8>,
    output: Vec<u8>,
}

/// How far what is to be sent has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    All,
    Some,
}

/// How far what is received has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Received {
    Some,
    Nothing,
    /// The other side sends nothing more.
    End,
}

impl Peer {
    pub(super) fn new(socket: OwnedFd) -> Peer {
        Peer { socket, input: Vec::new(), output: Vec::new() }
    }

    /// One that is about to be connected; a send tells whether it is.
    pub(super) fn connected(address: &Address) -> io::Result<Peer> {
        let socket = match address {
            Address::Tcp(port) => {
                let socket = socket_with(AddressFamily::INET, SocketType::STREAM, FLAGS, None)?;
                let begun = connect(&socket, &loopback(*port));
                begun.or_else(
                    |errno| if errno == Errno::INPROGRESS { Ok(()) } else { Err(errno) },
                )?;
                socket
            }
            Address::Unix(path) => {
                let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
                connect(&socket, &SocketAddrUnix::new(path)?)?;
                socket
            }
        };
        Ok(Peer::new(socket))
    }

    /// Sends this as soon as it can be.
    pub(super) fn say(&mut self, bytes: &[u8]) -> io::Result<Sent> {
        self.output.extend_from_slice(bytes);
        self.go_on()
    }

    /// Sends what is still to be sent.
    pub(super) fn go_on(&mut self) -> io::Result<Sent> {
        while !self.output.is_empty() {
            match send(&self.socket, &self.output, SendFlags::NOSIGNAL) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(Errno::INTR) => {}
                // A connection that is not yet made takes nothing (ENOTCONN never comes here).
                Err(Errno::AGAIN) => return Ok(Sent::Some),
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(Sent::All)
    }

    /// Receives once.
    pub(super) fn hear(&mut self) -> io::Result<Received> {
        let mut piece = [0; PIECE_BYTES];
        loop {
            match rustix::io::read(&self.socket, &mut piece) {
                Ok(0) => return Ok(Received::End),
                Ok(count) => self.input.extend_from_slice(&piece[..count]),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return Ok(Received::Nothing),
                Err(errno) => return Err(errno.into()),
            }
            return match self.input.len() > MESSAGE_BYTES_MAX {
                true => Err(io::Error::other("a message without an end")),
                false => Ok(Received::Some),
            };
        }
    }
}

impl AsFd for Peer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn loopback(port: u16) -> std::net::SocketAddrV4 {
    std::net::SocketAddrV4::new(std::net::Ipv4Addr::LOCALHOST, port)
}

/// A socket that listens. Others may connect to one in the file system: who may reach it is for its
/// directory to say.
pub(super) fn listener(address: &Address) -> io::Result<OwnedFd> {
    let socket = match address {
        Address::Tcp(port) => {
            let socket = socket_with(AddressFamily::INET, SocketType::STREAM, FLAGS, None)?;
            sockopt::set_socket_reuseaddr(&socket, true)?;
            rustix::net::bind(&socket, &loopback(*port))?;
            socket
        }
        Address::Unix(path) => {
            let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, FLAGS, None)?;
            rustix::net::bind(&socket, &SocketAddrUnix::new(path)?)?;
            let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o666);
            std::fs::set_permissions(path, everybody)?;
            socket
        }
    };
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

/// Whether a path fits into the address of a socket (unix(7): 108 bytes with the zero).
pub(super) fn fits(path: &Path) -> bool {
    SocketAddrUnix::new(path).is_ok()
}
