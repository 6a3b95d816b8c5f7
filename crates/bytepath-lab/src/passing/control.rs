//! What a sender and a receiver say to each other before the clock runs: the link's end, "ready",
//! "go". Never a byte of the work.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType,
};

/// The control sockets of a receiver and a sender.
///
/// # Errors
/// The process or the system is out of descriptors.
pub fn controls() -> io::Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Ok(rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// One process's end.
pub(crate) struct Control {
    socket: OwnedFd,
}

/// What a process says whose fellow is gone, which knows why.
pub(crate) const GAVE_UP: &str = "the other process gave up";

const READY: &[u8] = b"ready";
const GO: &[u8] = b"go";
const LINK: &[u8] = b"link";

impl Control {
    pub(crate) fn new(socket: OwnedFd) -> Control {
        Control { socket }
    }

    /// Hands the sender its end of the link.
    pub(crate) fn hand(&mut self, link: OwnedFd) -> io::Result<()> {
        say_with(&self.socket, LINK, link.as_fd())
    }

    /// The sender's end of the link.
    pub(crate) fn taken(&mut self) -> io::Result<OwnedFd> {
        self.hear(LINK)?.ok_or_else(|| io::Error::other("the receiver handed over no end"))
    }

    pub(crate) fn ready(&mut self) -> io::Result<()> {
        self.say(READY)
    }

    pub(crate) fn until_ready(&mut self) -> io::Result<()> {
        self.hear(READY).map(drop)
    }

    pub(crate) fn go(&mut self) -> io::Result<()> {
        self.say(GO)
    }

    pub(crate) fn until_go(&mut self) -> io::Result<()> {
        self.hear(GO).map(drop)
    }

    fn say(&mut self, word: &[u8]) -> io::Result<()> {
        rustix::net::send(&self.socket, word, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Waits for this word; the descriptor that comes with it.
    fn hear(&mut self, word: &[u8]) -> io::Result<Option<OwnedFd>> {
        let (heard, file) = hear(&self.socket)?;
        match heard == word {
            true => Ok(file),
            false => Err(io::Error::other(GAVE_UP)),
        }
    }
}

/// Sends a packet with a descriptor.
pub(crate) fn say_with(socket: &OwnedFd, packet: &[u8], file: BorrowedFd<'_>) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    let files = [file];
    assert!(with.push(SendAncillaryMessage::ScmRights(&files)), "there is room for one");
    rustix::net::sendmsg(socket, &[IoSlice::new(packet)], &mut with, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Waits for a packet, which is empty once nobody is there; and the descriptor that comes with it.
pub(crate) fn hear(socket: &OwnedFd) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut with = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 16];
    let into = &mut [IoSliceMut::new(&mut bytes)];
    let got = rustix::net::recvmsg(socket, into, &mut with, RecvFlags::CMSG_CLOEXEC)?;
    let file = with.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    Ok((bytes[..got.bytes].to_vec(), file))
}
