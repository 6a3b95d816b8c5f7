//! Sockets of this network as the kernel tells them by netlink (sock_diag(7)): which are in TIME_WAIT,
//! and on which side.

use std::collections::BTreeSet;
use std::io::{Error, Result as IoResult};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink};

/// `SOCK_DIAG_BY_FAMILY` of linux/sock_diag.h.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`.
const REQUEST_ALL: u16 = 1 | 0x300;
/// `NLMSG_ERROR` and `NLMSG_DONE`.
const ERROR: u16 = 2;
const DONE: u16 = 3;
const HEADER_BYTES: usize = 16;
/// `AF_INET` and `IPPROTO_TCP`.
const INET: u8 = 2;
const TCP: u8 = 6;
/// The kernel's numbers of states (net/tcp_states.h).
const TIME_WAIT: u8 = 6;
const LISTEN: u8 = 10;

/// Answers come in pieces of at most so much.
const PIECE_BYTES: usize = 1 << 16;

/// What asks.
pub(super) struct Sockets {
    socket: OwnedFd,
    piece: Vec<u8>,
}

/// Sockets at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Census {
    /// In TIME_WAIT on the side that listens at the port: it closed first.
    pub(super) by_listener: usize,
    /// In TIME_WAIT on the side that connected to the port.
    pub(super) by_caller: usize,
    /// Ephemeral ports that connections to the port have, those in TIME_WAIT with them.
    pub(super) ports: BTreeSet<u16>,
}

impl Sockets {
    pub(super) fn open() -> IoResult<Sockets> {
        let socket = rustix::net::socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC,
            Some(netlink::SOCK_DIAG),
        )?;
        Ok(Sockets { socket, piece: vec![0; PIECE_BYTES] })
    }

    /// The sockets of connections to a port.
    pub(super) fn census(&mut self, port: u16) -> IoResult<Census> {
        rustix::net::send(&self.socket, &request(), SendFlags::empty())?;
        let mut census = Census::default();
        loop {
            let received = rustix::net::recv(&self.socket, &mut self.piece[..], RecvFlags::empty());
            let count = match received {
                Ok((count, _)) => count,
                Err(Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            if !census.take(&self.piece[..count], port)? {
                return Ok(census);
            }
        }
    }
}

impl Census {
    /// Takes the messages of a piece; whether there are more pieces.
    fn take(&mut self, mut piece: &[u8], port: u16) -> IoResult<bool> {
        while let Some(header) = piece.get(..HEADER_BYTES) {
            let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
            let kind = u16::from_ne_bytes([header[4], header[5]]);
            let content = piece.get(HEADER_BYTES..length);
            let content = content.ok_or_else(|| Error::other("a message that is cut off"))?;
            match kind {
                DONE => return Ok(false),
                ERROR => {
                    let number = content.get(..4).and_then(|bytes| bytes.try_into().ok());
                    let errno = number.map_or(0, i32::from_ne_bytes).saturating_neg();
                    return Err(Errno::from_raw_os_error(errno).into());
                }
                _ => self.add(content, port),
            }
            piece = piece.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        }
        Ok(true)
    }

    /// A `struct inet_diag_msg`: the state is its second byte, the ports follow the fourth.
    fn add(&mut self, message: &[u8], port: u16) {
        let Some(&[_, state, _, _, a, b, c, d]) = message.get(..8) else { return };
        let (source, destination) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        if state == LISTEN {
            return;
        }
        let (other, by_listener) = match (source == port, destination == port) {
            (true, _) => (destination, true),
            (_, true) => (source, false),
            _ => return,
        };
        self.ports.insert(other);
        match (state == TIME_WAIT, by_listener) {
            (true, true) => self.by_listener += 1,
            (true, false) => self.by_caller += 1,
            _ => {}
        }
    }
}

/// A `struct nlmsghdr` and a `struct inet_diag_req_v2` for TCP sockets in any state.
fn request() -> Vec<u8> {
    let mut message = Vec::new();
    message.extend(72_u32.to_ne_bytes());
    message.extend(BY_FAMILY.to_ne_bytes());
    message.extend(REQUEST_ALL.to_ne_bytes());
    message.extend([0; 8]);
    message.extend([INET, TCP, 0, 0]);
    message.extend(u32::MAX.to_ne_bytes());
    message.extend([0; 48]);
    message
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn the_side_that_closes_first_is_in_time_wait() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("it has one").port();
        let mut sockets = match Sockets::open().and_then(|mut all| all.census(port).map(|_| all)) {
            Ok(sockets) => sockets,
            Err(error) => return println!("skipped: no sock_diag here: {error}"),
        };
        let mut caller = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        let own = caller.local_addr().expect("it has one").port();
        let (accepted, _) = listener.accept().expect("somebody called");
        let census = sockets.census(port).expect("it is told");
        assert_eq!((census.by_listener, census.by_caller), (0, 0));
        assert_eq!(census.ports, BTreeSet::from([own]));
        drop(accepted);
        assert_eq!(caller.read(&mut [0]).expect("the end"), 0);
        drop(caller);
        let census = sockets.census(port).expect("it is told");
        assert_eq!((census.by_listener, census.by_caller), (1, 0), "{census:?}");
        assert_eq!(census.ports, BTreeSet::from([own]));
    }

    #[test]
    fn messages_that_are_cut_off_are_an_error_and_no_panic() {
        let whole = request();
        for length in HEADER_BYTES..whole.len() {
            assert!(Census::default().take(&whole[..length], 1).is_err(), "{length}");
        }
        assert!(Census::default().take(&whole[..HEADER_BYTES - 1], 1).is_ok_and(|more| more));
    }
}
