//! What the ends tell each other over the socket once there is a ring: wakes, answers that came late,
//! and files.

use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{Ordering::SeqCst, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::event::EventfdFlags;
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags};

use super::connection::{say, take_peeked};
use super::error::ChannelError;
use super::hello::{Hello, PACKET_BYTES, TAKEN, check_taken};
use super::link::Link;

/// Wakes whoever sleeps in poll(2).
pub(super) const WAKE: &[u8] = b"w";

/// Before what comes with a file, or tells of one.
pub(super) const FILE: &[u8] = b"file";

/// Packets taken from the socket at once, at the most: a peer may send more for ever.
const PACKETS_MAX: u32 = 256;

/// Files that came and were not looked at, at the most.
const FILES_MAX: usize = 256;

/// What came by packets.
#[derive(Debug, Default)]
pub(super) struct Packets {
    /// What the other end has yet to say.
    pub(super) awaited: Option<Awaited>,
    /// Where files are taken.
    spare: Option<Arc<Spare>>,
    pub(super) files: VecDeque<(Vec<u8>, Option<OwnedFd>)>,
}

/// What an end says late that was not there yet when the ring was made.
#[derive(Debug, Clone, Copy)]
pub(super) enum Awaited {
    /// Its hello, to this one.
    Hello(Hello),
    /// Whether it takes the ring.
    Answer,
}

/// Nobody answers it.
const HELLO_AGAIN: ChannelError = ChannelError::Broken(
    "it says hello again, as where two processes have made themselves the same end",
);

/// A descriptor in store: closed, it makes room for a file that comes, which the kernel would throw away
/// else. All links of this process have one together.
#[derive(Debug)]
struct Spare(Mutex<Option<OwnedFd>>);

impl Spare {
    fn of_all() -> Arc<Spare> {
        static ALL: Mutex<Weak<Spare>> = Mutex::new(Weak::new());
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.upgrade().unwrap_or_else(|| {
            let spare = Arc::new(Spare(Mutex::new(None)));
            *all = Arc::downgrade(&spare);
            spare
        })
    }

    /// The descriptor, which is there.
    fn filled(&self) -> Result<MutexGuard<'_, Option<OwnedFd>>, ChannelError> {
        let mut spare = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.is_none() {
            let made = rustix::event::eventfd(0, EventfdFlags::CLOEXEC);
            *spare = Some(made.map_err(ChannelError::socket(
                "cannot keep a descriptor in store for what the other end hands over",
            ))?);
        }
        Ok(spare)
    }
}

impl Link {
    /// Takes the packets that have woken this end, and notices where there will be no more.
    pub(super) fn take_packets(&mut self) -> Result<(), ChannelError> {
        let before = self.packets.files.len();
        let taken = self.take_packets_now();
        if self.packets.files.len() > before {
            // A sender may sleep because the socket had no room for more. Either it finds that there is
            // some, or this end sees it asleep.
            fence(SeqCst);
            self.rouse();
        }
        taken
    }

    fn take_packets_now(&mut self) -> Result<(), ChannelError> {
        let files = self.packets.spare.is_some();
        let peek = if files { RecvFlags::PEEK } else { RecvFlags::empty() };
        for _ in 0..PACKETS_MAX {
            // The rest stays in the socket until these are looked at.
            if self.packets.files.len() == FILES_MAX {
                return Ok(());
            }
            let mut packet = [0; PACKET_BYTES];
            let flags = RecvFlags::DONTWAIT | peek;
            match rustix::net::recv(&self.socket, &mut packet, flags) {
                Ok((_, 0)) => {
                    self.gone = true;
                    return Ok(());
                }
                // Told once, where the other end went without having read all; before what it said.
                Err(Errno::CONNRESET) => self.gone = true,
                Ok((_, bytes)) if files => match self.take_file(&packet[..bytes]) {
                    // What came is looked at first, and closed, which makes room for more.
                    Err(_) if !self.packets.files.is_empty() => return Ok(()),
                    taken => taken?,
                },
                Ok((_, bytes)) => self.understand(&packet[..bytes])?,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(()),
                Err(errno) => return Err(deaf(errno)),
            }
        }
        Ok(())
    }

    /// Sends a packet, and a file with it.
    pub(super) fn say(
        &self,
        packet: &[u8],
        file: Option<BorrowedFd<'_>>,
    ) -> Result<(), ChannelError> {
        say(self.socket.as_fd(), packet, file.as_slice())
    }

    /// Takes the packet that was seen to come next.
    fn take_file(&mut self, seen: &[u8]) -> Result<(), ChannelError> {
        if Hello::is(seen) {
            return Err(HELLO_AGAIN);
        }
        if !seen.starts_with(FILE) {
            take_peeked(self.socket.as_fd());
            return Ok(());
        }
        // Without a descriptor in store, nothing is taken until there is one again.
        let store = Spare::of_all();
        let mut spare = store.filled()?;
        *spare = None;
        match self.peeked_file() {
            Ok(peeked) => {
                take_peeked(self.socket.as_fd());
                self.packets.files.push_back(peeked);
            }
            // The other end went since the packet was seen, which comes next all the same.
            Err(Errno::CONNRESET) => self.gone = true,
            Err(errno) => return Err(deaf(errno)),
        }
        drop(spare);
        // If it cannot be had now, it may be once what came is closed.
        drop(store.filled());
        Ok(())
    }

    /// The packet's bytes and its file, both of which are there again until the packet is taken: another thread
    /// may have got the descriptor that was to be the file's.
    fn peeked_file(&self) -> Result<(Vec<u8>, Option<OwnedFd>), Errno> {
        let mut packet = [0; PACKET_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut with = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let into = &mut [IoSliceMut::new(&mut packet)];
        let got = rustix::net::recvmsg(&self.socket, into, &mut with, flags)?;
        let file = with.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        if file.is_none() && got.flags.contains(ReturnFlags::CTRUNC) {
            return Err(Errno::MFILE);
        }
        Ok((packet[FILE.len().min(got.bytes)..got.bytes].to_vec(), file))
    }

    /// Takes files from now on.
    pub(super) fn take_files(&mut self) -> Result<(), ChannelError> {
        let spare = self.packets.spare.insert(Spare::of_all());
        spare.filled().map(drop)
    }

    /// Takes what is awaited, if this is it. What nobody needs has woken this end, which is all.
    fn understand(&mut self, packet: &[u8]) -> Result<(), ChannelError> {
        match (packet, self.packets.awaited) {
            (WAKE, _) => {}
            (TAKEN, _) => self.packets.awaited = None,
            (packet, Some(Awaited::Hello(hello))) => {
                check_taken(packet, self.end().capacity())?;
                hello.understood(packet)?;
                self.packets.awaited = Some(Awaited::Answer);
            }
            (packet, _) if Hello::is(packet) => return Err(HELLO_AGAIN),
            (packet, Some(Awaited::Answer)) => {
                check_taken(packet, self.end().capacity())?;
                return Err(ChannelError::Stray("its answer to the offer is none"));
            }
            (_, None) => {}
        }
        Ok(())
    }
}

fn deaf(errno: Errno) -> ChannelError {
    ChannelError::Socket { doing: "cannot hear the other end", errno }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::hello::Flow;
    use crate::channel::{Connection, Setup};

    #[test]
    fn what_was_handed_over_by_one_that_goes_the_moment_it_is_seen_is_taken() {
        let (here, there) = Connection::pair().expect("a pair");
        let sender = here.buffer_sender(&Setup::default(), 1 << 20).expect("a sender");
        let mut link = Link::take(there, Flow::Buffers, &Setup::default()).expect("a receiver");
        // It has not read what this end has said.
        drop(sender);
        link.take_files().expect("a descriptor in store");
        link.take_file(FILE).expect("the other end is gone, which is no error");
        assert!(link.gone && link.packets.spare.is_some());
        link.take_packets().expect("there is the table");
        assert!(matches!(link.packets.files.make_contiguous(), [(_, Some(_))]));
    }
}
