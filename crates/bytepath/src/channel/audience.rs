//! Those who receive from one sender: they come, are waited for and go, each with a link of its own.
//!
//! One epoll(7) knows all of their sockets, so that one system call tells who comes, who is gone and
//! who has woken the sender. It is made wherever the sender would sleep, and every 10 ms where it
//! would not; nobody else is needed for a receiver to join, neither a thread nor a server.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;

use super::connection::{Connection, Listener, deadline};
use super::error::ChannelError;
use super::hello::{Flow, Hello, Role, full};
use super::link::{LOOK, LOOK_NS, Link, coarse_now_ns};
use super::ring::End;
use super::setup::Setup;
use crate::pages::SharedMemory;
use crate::wait::Wait;

/// Receivers that one sender has, at the most: each costs it a look with every message, a socket and
/// a descriptor of the ring.
pub const RECEIVERS_MAX: usize = 64;

/// Connections accepted at once, at the most: others may connect for ever.
const ACCEPTS_MAX: usize = 64;

/// Events taken at once; the rest is there the next time.
const EVENTS: usize = 32;

/// What the listener is called among the sockets.
const LISTENER: u64 = 0;

/// How many receivers there are, and what became of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Receivers {
    /// Those that are there now.
    pub present: usize,
    /// Those that wanted no more.
    pub left: u64,
    /// Those that are gone without a word, or did what no receiver does.
    pub lost: u64,
    /// Those that did not come to join: there were [`RECEIVERS_MAX`], they belong to another user,
    /// speak another version, are no receivers of messages, or went away again.
    pub refused: u64,
}

/// Somebody who has connected, and has not said yet what it is.
#[derive(Debug)]
struct Newcomer {
    key: u64,
    connection: Connection,
    /// What it was told.
    told: Hello,
    until: Instant,
}

#[derive(Debug)]
struct Member {
    key: u64,
    link: Link,
}

#[derive(Debug)]
pub(super) struct Audience {
    setup: Setup,
    events: OwnedFd,
    listener: Option<Listener>,
    /// Somebody may wait at the listener.
    knocked: bool,
    newcomers: Vec<Newcomer>,
    members: Vec<Member>,
    /// The newest socket's.
    key: u64,
    counts: Receivers,
    /// System calls that were made for those who are gone.
    calls: u64,
    /// When to look who comes, by the coarse clock.
    look_at: i64,
}

impl Audience {
    pub(super) fn new(setup: &Setup) -> Result<Audience, ChannelError> {
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)
            .map_err(ChannelError::socket("cannot watch receivers"))?;
        Ok(Audience {
            setup: *setup,
            events,
            listener: None,
            knocked: false,
            newcomers: Vec::new(),
            members: Vec::new(),
            key: LISTENER,
            counts: Receivers::default(),
            calls: 0,
            look_at: 0,
        })
    }

    /// Takes in those who connect there.
    pub(super) fn listen(&mut self, listener: Listener) -> Result<(), ChannelError> {
        listener.wait_no_more()?;
        // Told once: where nobody can be accepted for want of descriptors, nobody is kept awake by
        // it, and who waits is tried again with the next one.
        self.watch_socket(listener.as_fd(), LISTENER, epoll::EventFlags::ET)?;
        self.listener = Some(listener);
        Ok(())
    }

    /// Greets somebody, who is taken in once it has said what it is.
    pub(super) fn greet(&mut self, connection: Connection) -> Result<(), ChannelError> {
        if self.newcomers.len() == RECEIVERS_MAX {
            return Err(ChannelError::Full { most: RECEIVERS_MAX as u64 });
        }
        let told = connection.introduce(Role::Sender, Flow::Messages, self.setup.users)?;
        self.key += 1;
        let (key, until) = (self.key, deadline(self.setup.patience));
        self.watch_socket(connection.socket(), key, epoll::EventFlags::empty())?;
        self.newcomers.push(Newcomer { key, connection, told, until });
        Ok(())
    }

    fn watch_socket(
        &self,
        socket: BorrowedFd<'_>,
        key: u64,
        flags: epoll::EventFlags,
    ) -> Result<(), ChannelError> {
        let (key, flags) = (epoll::EventData::new_u64(key), flags | epoll::EventFlags::IN);
        epoll::add(&self.events, socket, key, flags)
            .map_err(ChannelError::socket("cannot watch a receiver"))
    }

    pub(super) fn receivers(&self) -> Receivers {
        Receivers { present: self.members.len(), ..self.counts }
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = &End> {
        self.members.iter().map(|member| member.link.end())
    }

    /// System calls that were made to wait for receivers and to wake them.
    pub(super) fn calls(&self) -> u64 {
        let now = self.members.iter().map(|member| member.link.meter().read().calls);
        self.calls + now.sum::<u64>()
    }

    /// Whether it is time to look who comes and who is gone.
    #[inline]
    pub(super) fn is_due(&self) -> bool {
        coarse_now_ns() >= self.look_at
    }

    /// Looks who comes, who is gone, and who has woken the sender; sleeps until there is somebody, for
    /// so long at the most, or for ever. Who joins does so in the ring where `end` is.
    pub(super) fn attend(
        &mut self,
        ring: &SharedMemory,
        end: &End,
        most: Option<&Timespec>,
    ) -> Result<(), ChannelError> {
        let most = if self.knocked { Some(&NOW) } else { most };
        let mut space = [MaybeUninit::uninit(); EVENTS];
        self.calls += 1;
        let events = match epoll::wait(&self.events, &mut space, most) {
            Ok((events, _)) => &*events,
            Err(Errno::INTR) => &[],
            Err(errno) => {
                return Err(ChannelError::Socket { doing: "cannot wait for receivers", errno });
            }
        };
        for event in events {
            match event.data.u64() {
                LISTENER => self.knocked = true,
                key => self.hear(key, ring, end),
            }
        }
        // First, so that there is room for others.
        self.dismiss_those_who_left();
        self.turn_away_the_silent();
        self.accept();
        self.look_at = coarse_now_ns() + LOOK_NS;
        Ok(())
    }

    /// Accepts those who wait at the address.
    fn accept(&mut self) {
        let accepts = if self.knocked { ACCEPTS_MAX } else { 0 };
        for _ in 0..accepts {
            // Nobody more; or nobody can be accepted, and the receivers that are there come first.
            let accepted = self.listener.as_ref().map(Listener::accepted);
            let Some(Ok(Some(connection))) = accepted else {
                self.knocked = false;
                return;
            };
            if self.greet(connection).is_err() {
                self.counts.refused += 1;
            }
        }
    }

    /// Another process may still hold the socket of one that has said so.
    fn dismiss_those_who_left(&mut self) {
        let mut index = 0;
        while let Some(member) = self.members.get(index) {
            match member.link.has_left() {
                true => self.dismiss(index),
                false => index += 1,
            }
        }
    }

    fn turn_away_the_silent(&mut self) {
        if !self.newcomers.is_empty() {
            let now = Instant::now();
            for silent in self.newcomers.extract_if(.., |newcomer| newcomer.until <= now) {
                watch_no_more(&self.events, silent.connection.socket());
                self.counts.refused += 1;
            }
        }
    }

    /// Hears what came by one of the sockets.
    fn hear(&mut self, key: u64, ring: &SharedMemory, end: &End) {
        if let Some(index) = self.members.iter().position(|member| member.key == key) {
            let link = &mut self.members[index].link;
            if link.take_packets().is_err() || link.is_gone() {
                self.dismiss(index);
            }
        } else if let Some(index) = self.newcomers.iter().position(|new| new.key == key) {
            let newcomer = self.newcomers.swap_remove(index);
            watch_no_more(&self.events, newcomer.connection.socket());
            match self.welcomed(newcomer, ring, end) {
                Ok(link)
                    if self
                        .watch_socket(link.socket.as_fd(), key, epoll::EventFlags::empty())
                        .is_ok() =>
                {
                    self.members.push(Member { key, link });
                }
                _ => self.counts.refused += 1,
            }
        }
    }

    /// Hands the ring to a newcomer, who finds out by itself why it is not welcome if it is not.
    fn welcomed(
        &self,
        newcomer: Newcomer,
        ring: &SharedMemory,
        end: &End,
    ) -> Result<Link, ChannelError> {
        let Newcomer { connection, told, .. } = newcomer;
        let (packet, _) = connection.hear(Instant::now(), Duration::ZERO)?;
        let agreed = told.understood(&packet)?;
        if self.members.len() == RECEIVERS_MAX {
            connection.say(&full(RECEIVERS_MAX), &[])?;
            return Err(ChannelError::Full { most: RECEIVERS_MAX as u64 });
        }
        Link::join(connection, ring, end, agreed, &self.setup)
    }

    fn dismiss(&mut self, index: usize) {
        let Member { link, .. } = self.members.swap_remove(index);
        watch_no_more(&self.events, link.socket.as_fd());
        self.calls += link.meter().read().calls;
        match link.has_left() {
            true => self.counts.left += 1,
            false => self.counts.lost += 1,
        }
    }

    /// The first receiver that leaves no room for so many bytes. Those that are done, gone or broken
    /// are dismissed.
    pub(super) fn lacking(&mut self, bytes: u64) -> Option<usize> {
        let (mut lacking, mut index) = (None, 0);
        while let Some(member) = self.members.get_mut(index) {
            match member.link.has_room_now(bytes) {
                Ok(Some(false)) | Err(_) => {
                    self.dismiss(index);
                    continue;
                }
                Ok(Some(true)) => {}
                Ok(None) => lacking = lacking.or(Some(index)),
            }
            index += 1;
        }
        lacking
    }

    /// Waits for this receiver where that does not need the kernel; whether something has come of it.
    pub(super) fn spin(&mut self, index: usize, bytes: u64) -> bool {
        let waited = self.members[index].link.spin(bytes, LOOK);
        self.is_over(index, waited)
    }

    /// Sleeps for this receiver, for a while; whether something has come of it. Who only spins does
    /// not sleep.
    pub(super) fn doze(&mut self, index: usize, bytes: u64) -> bool {
        if let Wait::Spin | Wait::PollSpin = self.setup.wait {
            return true;
        }
        let waited = self.members[index].link.doze(bytes);
        self.is_over(index, waited)
    }

    /// Has this receiver wake the sender through its socket; whether that is not needed.
    pub(super) fn watch(&mut self, index: usize, bytes: u64) -> bool {
        let watched = self.members[index].link.watch(bytes).map(|ready| ready.then_some(true));
        self.is_over(index, watched)
    }

    fn is_over(&mut self, index: usize, answer: Result<Option<bool>, ChannelError>) -> bool {
        match answer {
            Ok(None) => false,
            Ok(Some(true)) => true,
            Ok(Some(false)) | Err(_) => {
                self.dismiss(index);
                true
            }
        }
    }

    /// Wakes those who sleep for so many bytes, which were passed on to all.
    #[inline]
    pub(super) fn follow(&mut self, bytes: usize) {
        for member in &mut self.members {
            member.link.follow(bytes);
        }
    }

    /// Wakes all who sleep.
    pub(super) fn rouse(&mut self) {
        for member in &mut self.members {
            member.link.rouse();
        }
    }
}

impl AsFd for Audience {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }
}

/// A wait that does not sleep.
pub(super) const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// To be called before a socket is closed: a process that was forked may hold it open, and so among what is
/// watched.
fn watch_no_more(events: &OwnedFd, socket: BorrowedFd<'_>) {
    let _ = epoll::delete(events, socket);
}
