//! Memory of one process that another one reaches: the owner shows a buffer where it is, and the
//! visitor copies out of it (process_vm_readv), or into it (process_vm_writev).
//!
//! Costs a buffer one copy of its bytes, of which the kernel does all, two packets, and a look
//! whether the owner is still there; one that is filled, another look before. No memory is shared, made
//! or handed over: so it suits buffers that are there anyway, and neither end need trust the other with
//! anything but this copy.
//!
//! Who may reach whose memory is the kernel's to decide (ptrace(2), "access mode checking"): the same
//! user, or root; not into programs with more rights; and not where a security module or a sandbox
//! forbids it. Where kernel.yama.ptrace_scope lets parents only, the owner asks the kernel to let the
//! visitor as well. It keeps one such wish of a process, also after the owner is dropped: of several
//! processes that visit owners in one, it then lets the last one that came.

use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::{PTracer, Pid, PidfdFlags, pidfd_open, set_ptracer};

use super::connection::{Connection, deadline, is_any_ready};
use super::error::ChannelError;
use super::hello::{Flow, Role};
use super::setup::Setup;
use crate::meter::Meter;
use crate::sys::forks;
use crate::sys::process_memory::{self, packet_with_sender, tell_senders};

/// How long an end waits for the other one's next word: until that one is gone.
const FOR_EVER: Duration = Duration::MAX;

/// The end that shows buffers of its own.
///
/// A buffer that is shown belongs to this until the visitor is done with it, so that it stays where
/// it is and what it is. Dropped without [`MemoryOwner::finish`], it leaves a visitor with an error
/// in the place of an end.
#[derive(Debug)]
pub struct MemoryOwner {
    connection: Connection,
    /// Whose memory it is: a process that was forked has an end that is still its parent's.
    forks: u32,
    /// With how much of each is shown.
    shown: VecDeque<(ShownTo, Vec<u8>, usize)>,
    /// How much of those that were shown first the visitor is done with, as was heard while more were shown.
    done: VecDeque<usize>,
    meter: Meter,
}

/// The end that copies out of the owner's buffers and into them.
#[derive(Debug)]
pub struct MemoryVisitor {
    connection: Connection,
    /// Whose end it is: a process that was forked says nothing for its parent.
    forks: u32,
    owner: Pid,
    /// Readable once the owner is gone: its number may be another process's then.
    owner_ended: OwnedFd,
    /// A buffer was visited and not given back.
    undone: bool,
    meter: Meter,
}

impl Connection {
    /// Makes this the end whose buffers the other one reaches. Waits for the other end to make
    /// itself the visitor.
    ///
    /// # Errors
    /// The other end is not what it should be.
    pub fn memory_owner(self, setup: &Setup) -> Result<MemoryOwner, ChannelError> {
        if let Some(visitor) = self.met(Role::Sender, setup)? {
            // A kernel without that module does not know the wish.
            let _ = set_ptracer(PTracer::ProcessID(visitor));
        }
        self.say(READY, &[])?;
        Ok(MemoryOwner {
            connection: self,
            forks: forks::count(),
            shown: VecDeque::new(),
            done: VecDeque::new(),
            meter: Meter::new(),
        })
    }

    /// Makes this the end that reaches the other one's buffers.
    ///
    /// # Errors
    /// The other end is not what it should be, or is a process that this one cannot name.
    pub fn memory_visitor(self, setup: &Setup) -> Result<MemoryVisitor, ChannelError> {
        let owner = self.met(Role::Receiver, setup)?.ok_or(ChannelError::Unreachable {
            process: 0,
            why: "it is in a namespace of processes that this process does not see",
        })?;
        let owner_ended = pidfd_open(owner, PidfdFlags::empty()).map_err(|errno| match errno {
            Errno::SRCH => ChannelError::HungUp,
            errno => ChannelError::Socket { doing: "cannot watch the other process", errno },
        })?;
        // By now it is known who that number is, unless the owner was gone before.
        match self.hear(deadline(setup.patience), setup.patience)? {
            (packet, _) if packet == READY => {}
            _ => return Err(ChannelError::Stray("it shows nothing and does not say why")),
        }
        let (forks, undone, meter) = (forks::count(), false, Meter::new());
        Ok(MemoryVisitor { connection: self, forks, owner, owner_ended, undone, meter })
    }

    /// Greets the other end; the process that it is, by the kernel's word.
    fn met(&self, role: Role, setup: &Setup) -> Result<Option<Pid>, ChannelError> {
        let until = deadline(setup.patience);
        let failed = ChannelError::socket("cannot tell which process the other end is");
        self.greet(role, Flow::Memory, setup, until)?;
        self.say_who(HERE)?;
        tell_senders(self.as_fd(), true).map_err(&failed)?;
        let met = loop {
            let mut packet = [0; HERE.len()];
            match packet_with_sender(self.as_fd(), &mut packet) {
                Ok((0, _)) => return Err(ChannelError::HungUp),
                Ok((_, sender)) if packet == *HERE => break sender,
                Ok(_) => return Err(ChannelError::Stray("it does not say who it is")),
                Err(Errno::AGAIN) if Instant::now() < until => self.wait_readable(until)?,
                Err(Errno::AGAIN) => return Err(ChannelError::Silent(setup.patience)),
                // Where the other end went without having read all, that is told once, before what it said.
                Err(Errno::INTR | Errno::CONNRESET) => {}
                Err(errno) => return Err(failed(errno)),
            }
        };
        tell_senders(self.as_fd(), false).map_err(failed)?;
        Ok(met)
    }
}

/// What an end says so that the kernel tells the other one who it is, and what the owner says once it
/// may be visited.
const HERE: &[u8; 4] = b"here";
const READY: &[u8] = b"visit me";

/// What a buffer is shown for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShownTo {
    /// To be copied from.
    BeRead,
    /// To be filled.
    BeFilled,
}

/// A buffer, as the visitor is told of it; nothing, where there are no more.
struct Told {
    to: ShownTo,
    address: u64,
    bytes: u64,
}

/// In the first word of a packet.
const TO_BE_READ: u64 = 1;
const TO_BE_FILLED: u64 = 2;
const NO_MORE: u64 = 3;

impl Told {
    fn packet(&self) -> Vec<u8> {
        let to = match self.to {
            ShownTo::BeRead => TO_BE_READ,
            ShownTo::BeFilled => TO_BE_FILLED,
        };
        [to, self.address, self.bytes].iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn understood(packet: &[u8]) -> Result<Option<Told>, ChannelError> {
        let told = || {
            let to = match word(packet, 0)? {
                TO_BE_READ => ShownTo::BeRead,
                TO_BE_FILLED => ShownTo::BeFilled,
                NO_MORE => return Some(None),
                _ => return None,
            };
            Some(Some(Told { to, address: word(packet, 8)?, bytes: word(packet, 16)? }))
        };
        told().ok_or(ChannelError::Stray("it shows what is no buffer"))
    }
}

fn word(packet: &[u8], at: usize) -> Option<u64> {
    packet.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}

impl MemoryOwner {
    /// Shows the first so many bytes of a buffer to the visitor, which then copies them, or fills
    /// them. Waits while the socket holds too many that the visitor has not come to.
    ///
    /// # Errors
    /// The visitor is gone, or is no visitor.
    ///
    /// # Panics
    /// The buffer has fewer.
    pub fn show(
        &mut self,
        mut buffer: Vec<u8>,
        bytes: usize,
        to: ShownTo,
    ) -> Result<(), ChannelError> {
        assert!(bytes <= buffer.len(), "no more is shown than there is");
        let told = Told { to, address: buffer.as_mut_ptr() as u64, bytes: bytes as u64 };
        self.meter.called();
        let packet = told.packet();
        loop {
            match self.connection.say(&packet, &[]) {
                Err(ChannelError::Socket { errno: Errno::AGAIN, .. }) => self.wait_for_visitor()?,
                said => break said.map_err(|error| self.ended(error))?,
            }
        }
        self.shown.push_back((to, buffer, bytes));
        Ok(())
    }

    /// Waits until there is room to show more, and takes in what came back: else a visitor that has no room
    /// to say so would wait for this end, and this end for it.
    fn wait_for_visitor(&mut self) -> Result<(), ChannelError> {
        self.connection.wait_any()?;
        loop {
            match self.hear_done(Duration::ZERO) {
                Ok(bytes) => self.done.push_back(bytes),
                Err(ChannelError::Silent(_)) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Waits until the visitor is done with one buffer more; with how many of its bytes.
    fn hear_done(&mut self, patience: Duration) -> Result<usize, ChannelError> {
        self.meter.called();
        let heard = self.connection.hear(deadline(patience), patience);
        let (packet, _) = heard.map_err(|error| self.ended(error))?;
        let bytes = word(&packet, 0).and_then(|bytes| usize::try_from(bytes).ok());
        let most = self.shown.get(self.done.len()).map(|(_, _, shown)| *shown);
        let Some(bytes) = bytes.filter(|&bytes| Some(bytes) <= most) else {
            return Err(ChannelError::Broken("it is done with more than was shown to it"));
        };
        self.meter.delivered(bytes as u64);
        Ok(bytes)
    }

    /// How many buffers are shown and did not come back.
    pub fn shown(&self) -> usize {
        self.shown.len()
    }

    /// Waits until the visitor is done with the buffer that was shown first: the buffer, and how many
    /// of its bytes were copied or filled. `None` where none is shown. A visitor that keeps it keeps
    /// this waiting.
    ///
    /// # Errors
    /// The visitor is gone, which may have filled some of it; or it is no visitor.
    pub fn take_back(&mut self) -> Result<Option<(Vec<u8>, usize)>, ChannelError> {
        self.take_back_within(FOR_EVER)
    }

    /// The same, but no longer than this; with no time at all what has come back by now. Once nothing has
    /// ([`ChannelError::Silent`]), the descriptor ([`AsFd`]) tells when to ask again.
    ///
    /// # Errors
    /// As of [`MemoryOwner::take_back`]; [`ChannelError::Silent`] where the visitor is not done yet,
    /// which keeps the buffer.
    pub fn take_back_within(
        &mut self,
        patience: Duration,
    ) -> Result<Option<(Vec<u8>, usize)>, ChannelError> {
        if self.shown.is_empty() {
            return Ok(None);
        }
        let bytes = match self.done.pop_front() {
            Some(bytes) => bytes,
            None => self.hear_done(patience)?,
        };
        Ok(self.shown.pop_front().map(|(_, buffer, _)| (buffer, bytes)))
    }

    /// Waits until the visitor is done with every buffer, and says that there are no more. Who cannot
    /// wait takes all of them back before, by [`MemoryOwner::take_back_within`].
    ///
    /// # Errors
    /// As of [`MemoryOwner::take_back`].
    pub fn finish(mut self) -> Result<(), ChannelError> {
        while self.take_back()?.is_some() {}
        self.connection
            .say_when_there_is_room(&NO_MORE.to_le_bytes())
            .map_err(|error| self.ended(error))
    }

    /// Bytes that the visitor was done with, and system calls made.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    fn ended(&self, error: ChannelError) -> ChannelError {
        gone(error, &self.meter)
    }
}

polled!(
    MemoryOwner,
    connection,
    "Readable once the visitor is done with a buffer more than was heard of, or is gone."
);

impl Drop for MemoryOwner {
    /// Buffers that the visitor may still fill are never used again: what lay there next would be
    /// written over.
    fn drop(&mut self) {
        // A visitor that is copying sees this before any of the memory is used for something else.
        if self.forks == forks::count() {
            self.connection.hang_up();
        }
        for (_, buffer, _) in self.shown.drain(..).filter(|shown| shown.0 == ShownTo::BeFilled) {
            std::mem::forget(buffer);
        }
    }
}

/// Whoever hangs up here had not said that it was done.
fn gone(error: ChannelError, meter: &Meter) -> ChannelError {
    match error {
        ChannelError::HungUp => ChannelError::Gone { passed: Some(meter.read().bytes) },
        error => error,
    }
}

impl MemoryVisitor {
    /// Waits until the owner shows a buffer; `None` where it shows no more.
    ///
    /// # Errors
    /// The owner is gone without having said so, or is no owner.
    pub fn visit(&mut self) -> Result<Option<Visit<'_>>, ChannelError> {
        if self.undone {
            // Of one that was forgotten, or dropped while the owner took nothing. The owner takes buffers back in their order, whichever was meant.
            self.give_back(0)?;
        }
        self.meter.called();
        let heard = self.connection.hear(deadline(FOR_EVER), FOR_EVER);
        let (packet, _) = heard.map_err(|error| gone(error, &self.meter))?;
        let told = Told::understood(&packet)?;
        self.undone = told.is_some();
        Ok(told.map(|told| Visit { visitor: self, told }))
    }

    fn give_back(&mut self, bytes: u64) -> Result<(), ChannelError> {
        self.undone = false;
        self.meter.called();
        let said = self.connection.say_when_there_is_room(&bytes.to_le_bytes());
        said.map_err(|error| gone(error, &self.meter))
    }

    /// Bytes copied, and system calls made.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    /// Whether the owner was there until now, so that what was copied was of its memory.
    fn is_owner_there(&self) -> Result<bool, ChannelError> {
        // One that lives may have dropped its end, and used the memory for something else.
        let mut fds = [
            PollFd::new(&self.owner_ended, PollFlags::IN),
            PollFd::new(&self.connection, PollFlags::RDHUP),
        ];
        self.meter.called();
        let ended = is_any_ready(&mut fds);
        Ok(!ended.map_err(ChannelError::socket("cannot watch the owner"))?)
    }
}

polled!(MemoryVisitor, connection, "Readable once the owner shows a buffer, is done, or is gone.");

/// A buffer of the owner's, who gets it back by [`Visit::done`], or when this is dropped: then as one of
/// which no byte was copied or filled.
#[derive(Debug)]
#[must_use = "the owner waits until it is done"]
pub struct Visit<'v> {
    visitor: &'v mut MemoryVisitor,
    told: Told,
}

impl Visit<'_> {
    /// What the buffer is shown for.
    pub fn to(&self) -> ShownTo {
        self.told.to
    }

    /// How many bytes it has, as the owner says.
    pub fn len(&self) -> u64 {
        self.told.bytes
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.told.bytes == 0
    }

    /// Copies the bytes from the place `at` on, as many as `into` has room for.
    ///
    /// # Errors
    /// This process may not, the owner is gone, or its memory is not where it said.
    ///
    /// # Panics
    /// There are not so many, or the buffer is to be filled.
    pub fn copy_to(&mut self, at: u64, into: &mut [u8]) -> Result<(), ChannelError> {
        assert_eq!(self.told.to, ShownTo::BeRead, "the buffer is to be filled");
        self.copied(at, into.len(), |owner, address, done| {
            process_memory::read(owner, address, &mut into[done..])
        })
    }

    /// Copies these bytes to the place `at`.
    ///
    /// # Errors
    /// As of [`Visit::copy_to`].
    ///
    /// # Panics
    /// There is no room for them, or the buffer is to be read.
    pub fn copy_from(&mut self, at: u64, from: &[u8]) -> Result<(), ChannelError> {
        assert_eq!(self.told.to, ShownTo::BeFilled, "the buffer is to be read");
        self.copied(at, from.len(), |owner, address, done| {
            process_memory::write(owner, address, &from[done..])
        })
    }

    /// Calls until all is copied: the kernel stops where a page is missing, and says so only when it
    /// is the first one.
    fn copied(
        &mut self,
        at: u64,
        bytes: usize,
        mut copy: impl FnMut(Pid, u64, usize) -> Result<usize, Errno>,
    ) -> Result<(), ChannelError> {
        let end = at.checked_add(bytes as u64);
        assert!(end.is_some_and(|end| end <= self.told.bytes), "no more is copied than is shown");
        let mut done = 0;
        while done < bytes {
            let place = at + done as u64;
            // An owner that lies about its addresses has the kernel look where nothing is.
            let address = self.told.address.wrapping_add(place);
            if self.told.to == ShownTo::BeFilled && !self.visitor.is_owner_there()? {
                // What lies there now, be it in another process of its number, is not written over.
                return Err(self.owner_gone());
            }
            self.visitor.meter.called();
            match copy(self.visitor.owner, address, done) {
                Ok(0) => return Err(ChannelError::NotThere { at: place }),
                Ok(count) => done += count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(self.refused(errno, place)),
            }
        }
        if !self.visitor.is_owner_there()? {
            return Err(self.owner_gone());
        }
        self.visitor.meter.delivered(bytes as u64);
        Ok(())
    }

    fn refused(&self, errno: Errno, at: u64) -> ChannelError {
        match errno {
            Errno::SRCH => self.owner_gone(),
            Errno::FAULT => ChannelError::NotThere { at },
            Errno::PERM => ChannelError::Unreachable {
                process: self.visitor.owner.as_raw_pid() as u32,
                why: why_refused(),
            },
            errno => ChannelError::Socket { doing: "cannot reach the owner's memory", errno },
        }
    }

    fn owner_gone(&self) -> ChannelError {
        gone(ChannelError::HungUp, &self.visitor.meter)
    }

    /// Gives the buffer back to the owner: so many of its bytes were copied or filled.
    ///
    /// # Errors
    /// The owner is gone.
    ///
    /// # Panics
    /// There are not so many.
    pub fn done(self, bytes: u64) -> Result<(), ChannelError> {
        assert!(bytes <= self.told.bytes, "no more is done than was shown");
        self.visitor.give_back(bytes)
    }
}

impl Drop for Visit<'_> {
    /// Gives the buffer back, if that is not done. Where the owner takes nothing now, that waits for the
    /// next visit.
    fn drop(&mut self) {
        let visitor = &mut *self.visitor;
        if visitor.undone && visitor.forks == forks::count() {
            visitor.meter.called();
            visitor.undone = visitor.connection.say(&0u64.to_le_bytes(), &[]).is_err();
        }
    }
}

impl std::fmt::Debug for Told {
    /// Addresses are nobody's business.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Told").field("to", &self.to).field("bytes", &self.bytes).finish()
    }
}

/// Why the kernel refuses (EPERM), as far as it can be told.
fn why_refused() -> &'static str {
    let scope = std::fs::read_to_string("/proc/sys/kernel/yama/ptrace_scope");
    match scope.as_deref().map(str::trim) {
        Ok("1") => {
            "EPERM: kernel.yama.ptrace_scope is 1, so of all visitors only the last that came may; or \
             it is another user's, has more rights than this process, or a sandbox forbids it; visit \
             a process from one process, or run this one with CAP_SYS_PTRACE"
        }
        Ok("2") => {
            "EPERM: kernel.yama.ptrace_scope is 2, so only root may; root may set it to 1 or 0"
        }
        Ok("3") => "EPERM: kernel.yama.ptrace_scope is 3, so nobody may, until the next boot",
        _ => {
            "EPERM: it is another user's, has more rights than this process, or a sandbox forbids \
             it; run both as one user, or this one with CAP_SYS_PTRACE"
        }
    }
}
