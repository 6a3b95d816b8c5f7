//! One end of a ring at work: waits for room, passes bytes on, wakes the other end, and notices that
//! it is gone.
//!
//! An end that sleeps does so in futex(2), where waking it is cheapest, and after a while without
//! an answer in poll(2) on the socket, where the other's death wakes it too. One that spins looks
//! at the socket now and then, and so does a sender that need not wait.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::net::SendFlags;
use rustix::thread::futex;
use rustix::time::{ClockId, clock_gettime};

use super::connection::{Connection, deadline, is_any_ready};
use super::error::ChannelError;
use super::hello::{
    Agreed, Flow, Offer, RING_BYTES_TAKEN, Role, TAKEN, TAKES_HUGETLB, check_taken, refusal,
};
use super::packets::{Awaited, Packets, WAKE};
use super::ring::{DONE, Desk, End, IN_FUTEX, IN_POLL, Impossible};
use super::setup::Setup;
use crate::meter::Meter;
use crate::pages::{
    HUGE_PAGE_BYTES, MappedMemory, PageSize, PagesError, SharedMemory, look_for_room,
};
use crate::sys::forks;
use crate::sys::shared::RECEIVER_PAGE_BYTES;
use crate::sys::this_cpu::this_cpu;
use crate::wait::Wait;

/// Before the ring: what the ends tell each other, each in a pair of cache lines of its own, because
/// processors fetch them in pairs. Apart are what is written with every piece and what is written by
/// those who sleep.
///
/// First the receiver's page, which a receiver writes; where there are several, each has its own.
/// Then the sender's page, which only the sender writes; where there are several receivers, it and
/// the ring are in memory that they cannot write, and the receiver's page is mapped before it.
const CONTROL_BYTES: usize = RECEIVER_PAGE_BYTES + SENDER_PAGE_BYTES;
pub(super) const SENDER_PAGE_BYTES: usize = 4096;
const RECEIVER_PAGE_WORDS: usize = RECEIVER_PAGE_BYTES / size_of::<u64>();
const LINE_WORDS: usize = 16;
const RECEIVER: Lines = Lines { passes: 0, sleeps: LINE_WORDS };
/// At another place of its page than the receiver's, for processors take words for the same at first
/// whose places in their pages are.
const SENDER: Lines =
    Lines { passes: RECEIVER_PAGE_WORDS + 3 * LINE_WORDS, sleeps: 2 * LINE_WORDS };

/// Where the words of one end are.
#[derive(Clone, Copy)]
struct Lines {
    passes: usize,
    sleeps: usize,
}

/// In a line of those who sleep: the CPU that the end ran on when it last looked at the other's count
/// or woke it, and 1; 0 where it never said. Only how to wait depends on it, so it may be a lie.
const CPU: usize = 2;

impl Lines {
    #[inline(always)]
    fn desk(self, memory: &MappedMemory) -> Desk<'_> {
        let (words, halves) = (memory.words(), memory.mapping());
        Desk {
            passed: &words[self.passes],
            ended: halves.half_word(self.passes + 1),
            sleep: halves.half_word(self.sleeps),
            until: &words[self.sleeps + 1],
        }
    }
}

/// What a sender tells all of its receivers, in memory that begins with the sender's page: its count,
/// and whether it has ended.
pub(super) fn told(memory: &MappedMemory) -> (&AtomicU64, &AtomicU32) {
    let at = SENDER.passes - RECEIVER_PAGE_WORDS;
    (&memory.words()[at], memory.mapping().half_word(at + 1))
}

/// Where this end's words are, and the other's.
#[inline(always)]
fn lines(role: Role) -> (Lines, Lines) {
    match role {
        Role::Sender => (SENDER, RECEIVER),
        Role::Receiver => (RECEIVER, SENDER),
    }
}

/// What both ends tell: this one's words, and the other's.
#[inline(always)]
fn desks(memory: &MappedMemory, role: Role) -> (Desk<'_>, Desk<'_>) {
    let (ours, theirs) = lines(role);
    (ours.desk(memory), theirs.desk(memory))
}

/// Rings are no smaller, so that a piece is worth while, and no larger.
const RING_BYTES_MIN: usize = 4096;
const RING_BYTES_MAX: usize = 1 << 40;
const RING_BYTES_STEP: usize = 64;

/// A ring that would leave more than three quarters of a huge page unused is made of small ones.
const HUGE_FROM_BYTES: usize = HUGE_PAGE_BYTES / 4;

/// A sleep in futex(2) that nobody ends is followed by one in poll(2): until then the other end's
/// death goes unnoticed.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A sender sleeps for half of the ring at once, so that the ends do not wake each other once a
/// piece; but no longer than this, because the receiver may want no more before it hears of something
/// that the sender does next.
const HALF_RING_NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };

/// Who spins, and who sends without waiting, looks this often whether the other end is still there.
pub(super) const LOOK: Duration = Duration::from_millis(10);
pub(super) const LOOK_NS: i64 = LOOK.as_nanos() as i64;

/// Turns between two looks at the clock. After so long without an answer each of them also lets
/// others run, for the other end may need this CPU.
const TURNS: u32 = 64;
const ALONE: Duration = Duration::from_micros(20);

/// Where the other end ran on this CPU when it last told, nothing comes while this one spins: it is
/// let run at once, so many times, and where that is of no use, an end that may sleep does.
const YIELDS: u32 = 2;

/// So much fits into a common L2 cache beside what else is in use.
const NEAR_BYTES: usize = 512 << 10;

#[derive(Debug)]
pub(super) struct Link {
    memory: MappedMemory,
    /// Whatever outlasts this link has it, too, and lets it go when this does.
    pub(super) socket: Arc<OwnedFd>,
    end: End,
    role: Role,
    flow: Flow,
    /// Whose end it is: a process that was forked has a copy of what is still its parent's.
    forks: u32,
    wait: Wait,
    /// The other end's socket is closed.
    pub(super) gone: bool,
    /// When that is looked for next by an end that does not wait, by the coarse clock.
    look_at_ns: i64,
    /// The other end did what it could not have done.
    broken: bool,
    /// The socket is looked at with the next piece: this end has told the other one to wake it through
    /// it, or that one may be gone.
    watching: bool,
    /// The CPU that this end has told of, and 1.
    told_cpu: u64,
    /// What was passed on since a receiver on the same CPU was last let to read it, or a sender last
    /// looked at the clock; and when that is done again.
    ahead_bytes: usize,
    ahead_bytes_max: usize,
    pub(super) packets: Packets,
    meter: Meter,
}

impl Link {
    /// Makes a ring and hands it to the other end.
    pub(super) fn offer(
        connection: Connection,
        flow: Flow,
        setup: &Setup,
    ) -> Result<Link, ChannelError> {
        let until = deadline(setup.patience);
        let agreed = connection.greet(Role::Sender, flow, setup, until)?;
        let ring_bytes = ring_bytes(setup);
        let create = SharedMemory::create;
        let memory = memory(CONTROL_BYTES + ring_bytes, setup.pages, agreed.takes, create)?;
        let offer = Offer { version: agreed.version, ring_bytes: ring_bytes as u64, begins: 0 };
        connection.say(&offer.packet(), &[memory.as_fd()])?;
        // The other end has all of it to map, and this one took its time to make it.
        let (answer, _) = connection.hear(deadline(setup.patience), setup.patience)?;
        check_taken(&answer, ring_bytes)?;
        if answer != TAKEN {
            return Err(ChannelError::Stray("its answer to the offer is none"));
        }
        Ok(Link::new(connection, memory, End::sender(ring_bytes), flow, setup))
    }

    /// Makes a ring and hands it over without waiting for an answer: what is sent lies there when
    /// the other end comes. What that one answers is heard among the packets.
    pub(super) fn offer_ahead(
        connection: Connection,
        flow: Flow,
        setup: &Setup,
    ) -> Result<Link, ChannelError> {
        let ring_bytes = ring_bytes(setup);
        // Before the first word: whoever has heard that waits for the offer. Whether the other end would
        // take memory of the pool is not known yet.
        let memory = memory(CONTROL_BYTES + ring_bytes, setup.pages, 0, SharedMemory::create)?;
        let hello = connection.introduce(Role::Sender, flow, setup.users)?;
        let version = hello.versions.1;
        let offer = Offer { version, ring_bytes: ring_bytes as u64, begins: 0 };
        connection.say(&offer.packet(), &[memory.as_fd()])?;
        let mut link = Link::new(connection, memory, End::sender(ring_bytes), flow, setup);
        link.packets.awaited = Some(Awaited::Hello(hello));
        Ok(link)
    }

    /// Takes the ring that the other end has made.
    pub(super) fn take(
        connection: Connection,
        flow: Flow,
        setup: &Setup,
    ) -> Result<Link, ChannelError> {
        Offered::heard(connection, flow, setup)?.taken()
    }

    /// Makes this end one of a sender's to many receivers: the ring, of which `end` tells where the
    /// receiver joins, lies in memory that is written through another mapping. So this link waits and
    /// wakes, and never passes anything on.
    pub(super) fn join(
        connection: Connection,
        ring: &SharedMemory,
        end: &End,
        agreed: Agreed,
        setup: &Setup,
    ) -> Result<Link, ChannelError> {
        let page = SharedMemory::create(rustix::param::page_size(), PageSize::Base)?;
        let file = rustix::io::fcntl_dupfd_cloexec(ring, 0)
            .map_err(ChannelError::socket("cannot hand the ring over"))?;
        let memory = SharedMemory::behind_page(page.as_fd(), file)?;
        let (ring_bytes, begins) = (end.capacity(), end.passed());
        RECEIVER.desk(&memory).passed.store(begins, Relaxed);
        let offer = Offer { version: agreed.version, ring_bytes: ring_bytes as u64, begins };
        connection.say(&offer.packet(), &[ring.as_fd(), page.as_fd()])?;
        let end = End::sender(ring_bytes).beginning_at(begins);
        Ok(Link::new(connection, memory, end, Flow::Messages, setup))
    }

    fn new(
        connection: Connection,
        memory: SharedMemory,
        end: End,
        flow: Flow,
        setup: &Setup,
    ) -> Link {
        let role = if end.room() > 0 { Role::Sender } else { Role::Receiver };
        let socket = Arc::new(connection.into_socket());
        // Each end has a descriptor of the memory no longer than it needs one, for there may be many links.
        let memory = memory.into_mapped();
        let (gone, broken, watching) = (false, false, false);
        let (wait, meter, packets) = (setup.wait, Meter::new(), Packets::default());
        let told_cpu = 0;
        let far = end.capacity() > NEAR_BYTES;
        let ahead_bytes_max = if far { NEAR_BYTES } else { end.capacity() / 8 };
        let mut link = Link {
            memory,
            socket,
            end,
            role,
            flow,
            forks: forks::count(),
            wait,
            gone,
            look_at_ns: coarse_now_ns() + LOOK_NS,
            broken,
            watching,
            told_cpu,
            ahead_bytes: 0,
            ahead_bytes_max,
            packets,
            meter,
        };
        link.tell_cpu();
        link
    }

    /// Whether the other end's socket was found closed.
    pub(super) fn is_gone(&self) -> bool {
        self.gone
    }

    /// Whether the other end has said that it is done.
    pub(super) fn has_left(&self) -> bool {
        End::other_ended(self.desks().1)
    }

    #[inline(always)]
    fn desks(&self) -> (Desk<'_>, Desk<'_>) {
        desks(&self.memory, self.role)
    }

    pub(super) fn end(&self) -> &End {
        &self.end
    }

    pub(super) fn meter(&self) -> &Meter {
        &self.meter
    }

    pub(super) fn memory(&self) -> &MappedMemory {
        &self.memory
    }

    /// A range of the ring, in the memory.
    pub(super) fn in_memory(&self, range: std::ops::Range<usize>) -> std::ops::Range<usize> {
        CONTROL_BYTES + range.start..CONTROL_BYTES + range.end
    }

    fn look(&mut self) -> Result<(), ChannelError> {
        let (_, theirs) = desks(&self.memory, self.role);
        let looked = if self.broken { Err(Impossible) } else { self.end.look(theirs) };
        looked.map_err(|impossible| self.broken_by(impossible))
    }

    #[cold]
    fn broken_by(&mut self, Impossible: Impossible) -> ChannelError {
        self.broken = true;
        ChannelError::Broken("its count of bytes is none that it can have come to")
    }

    /// Whether there is room for so many bytes (for the receiver: whether so many have come), as it
    /// is now; false where there is not, and never will be because the other end is done. For those who
    /// never wait: now and then it is looked whether the other end is still there.
    ///
    /// # Errors
    /// It never will be, because the other end is gone.
    pub(super) fn has_room(&mut self, bytes: u64) -> Result<Option<bool>, ChannelError> {
        self.hear()?;
        let now = self.useful_room(bytes)?;
        if (now.is_some() && self.role == Role::Receiver) || !self.is_look_due() {
            return Ok(now);
        }
        self.notice_hang_up()?;
        self.useful_room(bytes)
    }

    /// The same, for those who hear of the other end otherwise.
    pub(super) fn has_room_now(&mut self, bytes: u64) -> Result<Option<bool>, ChannelError> {
        if self.hear()? { self.useful_room(bytes) } else { self.room(bytes) }
    }

    /// Whether something may have been heard of the other end through the socket, which is taken in.
    fn hear(&mut self) -> Result<bool, ChannelError> {
        let watching = self.watching;
        if watching {
            self.stop_watching()?;
        }
        // An end that never waits comes here once a ring at the least.
        self.tell_cpu();
        Ok(watching)
    }

    /// Whether there is room by what the other end counts, though it may be done or gone: a sender that
    /// waits asks this with every turn.
    #[inline]
    pub(super) fn room(&mut self, bytes: u64) -> Result<Option<bool>, ChannelError> {
        self.look()?;
        if self.end.room() >= bytes {
            return Ok(Some(true));
        }
        self.no_room(bytes)
    }

    fn no_room(&mut self, bytes: u64) -> Result<Option<bool>, ChannelError> {
        // What is known of the end before its last count is looked at.
        let (ended, gone) = (End::other_ended(self.desks().1), self.gone);
        if !ended && !gone {
            return Ok(None);
        }
        self.look()?;
        match self.end.room() >= bytes {
            true => Ok(Some(true)),
            false => self.no_more(ended).map(Some),
        }
    }

    /// The answer of an end that waits in vain: false where the other one is done, an error where it is
    /// gone.
    fn no_more(&mut self, ended: bool) -> Result<bool, ChannelError> {
        // A sender gets it again with each piece, also with one that the ring has space for.
        self.watching |= self.role == Role::Sender;
        if ended { Ok(false) } else { Err(self.gone()) }
    }

    /// The same, where space is of no use to a sender whose receiver is done or gone.
    fn useful_room(&mut self, bytes: u64) -> Result<Option<bool>, ChannelError> {
        // What has come, or was all taken, is so whatever became of the other end.
        let stays = self.role == Role::Receiver || bytes == self.end.capacity() as u64;
        let (ended, gone) = (End::other_ended(self.desks().1), self.gone);
        if stays || !(ended || gone) {
            return self.room(bytes);
        }
        self.no_more(ended).map(Some)
    }

    /// Waits for room; false where the other end is done before there is. Where there is room for
    /// `wished` already, as far as this end knows, the other one's count is not even looked at.
    #[inline]
    pub(super) fn wait_for(&mut self, bytes: u64, wished: u64) -> Result<bool, ChannelError> {
        if self.end.room() >= wished && !self.watching {
            return Ok(true);
        }
        match self.has_room_now(bytes)? {
            Some(answer) => Ok(answer),
            None => self.waited_for(bytes),
        }
    }

    /// Waits until the receiver has released all that was committed.
    pub(super) fn wait_until_taken(&mut self) -> Result<(), ChannelError> {
        let all = self.end.capacity() as u64;
        match self.wait_for(all, all)? {
            true => Ok(()),
            false => Err(self.closed()),
        }
    }

    /// That the receiver wants no more.
    pub(super) fn closed(&self) -> ChannelError {
        ChannelError::Closed { passed: self.bytes_passed() }
    }

    /// That the other end is no more.
    pub(super) fn gone(&self) -> ChannelError {
        ChannelError::Gone { passed: self.bytes_passed() }
    }

    /// What whoever uses it has passed on: of messages, the ring has headers and gaps, too, and buffers lie elsewhere.
    fn bytes_passed(&self) -> Option<u64> {
        (self.flow == Flow::Bytes).then(|| self.end.passed())
    }

    /// Whether it is time to look whether the other end is still there, which is believed for a while.
    fn is_look_due(&mut self) -> bool {
        let now_ns = coarse_now_ns();
        let is_due = now_ns >= self.look_at_ns;
        if is_due {
            self.look_at_ns = now_ns + LOOK_NS;
        }
        is_due
    }

    #[cold]
    fn waited_for(&mut self, bytes: u64) -> Result<bool, ChannelError> {
        self.meter.waited();
        if let Some(answer) = self.spin(bytes, Duration::MAX)? {
            return Ok(answer);
        }
        if let Some(answer) = self.doze(bytes)? {
            return Ok(answer);
        }
        loop {
            self.sleep(bytes)?;
            if let Some(answer) = self.room(bytes)? {
                return Ok(answer);
            }
        }
    }

    /// Sleeps where waking is cheap, for no longer than the other end's death may go unnoticed.
    pub(super) fn doze(&mut self, bytes: u64) -> Result<Option<bool>, ChannelError> {
        let half = bytes.max(self.end.capacity() as u64 / 2);
        let naps = match (self.wait, self.role) {
            (Wait::Poll, _) => &[][..],
            (_, Role::Sender) => &[(half, HALF_RING_NAP), (bytes, NAP)],
            (_, Role::Receiver) => &[(bytes, NAP)],
        };
        for (bytes_wished, nap) in naps {
            self.nap(*bytes_wished, nap)?;
            if let Some(answer) = self.room(bytes)? {
                return Ok(Some(answer));
            }
        }
        Ok(None)
    }

    /// Tells the other end which CPU this one runs on.
    #[inline]
    fn tell_cpu(&mut self) {
        let cpu = this_cpu().map_or(0, |cpu| u64::from(cpu) + 1);
        if self.told_cpu != cpu {
            self.told_cpu = cpu;
            let (ours, _) = lines(self.role);
            self.memory.words()[ours.sleeps + CPU].store(cpu, Relaxed);
        }
    }

    /// Whether the other end ran on this CPU when it last told.
    pub(super) fn shares_cpu(&mut self) -> bool {
        self.tell_cpu();
        let (_, theirs) = lines(self.role);
        self.told_cpu != 0
            && self.memory.words()[theirs.sleeps + CPU].load(Relaxed) == self.told_cpu
    }

    /// Spins, if this end's wait is such, for its budget, and for so long at the most.
    pub(super) fn spin(
        &mut self,
        bytes: u64,
        most: Duration,
    ) -> Result<Option<bool>, ChannelError> {
        let budget = match self.wait {
            Wait::Spin | Wait::PollSpin => most,
            Wait::Hybrid(budget) => budget.min(most),
            Wait::Block | Wait::Poll => return Ok(None),
        };
        let began = Instant::now();
        let mut looked = began;
        loop {
            let shares_cpu = self.shares_cpu();
            for _ in 0..if shares_cpu { YIELDS } else { TURNS } {
                if shares_cpu {
                    std::thread::yield_now();
                } else {
                    std::hint::spin_loop();
                }
                if let Some(answer) = self.room(bytes)? {
                    return Ok(Some(answer));
                }
            }
            let now = Instant::now();
            if now - began > budget || (shares_cpu && budget < Duration::MAX) {
                return Ok(None);
            }
            if now - looked > LOOK {
                looked = now;
                self.notice_hang_up()?;
            }
            if now - began > ALONE {
                std::thread::yield_now();
            }
        }
    }

    /// Sleeps until there is room, for a while.
    fn nap(&mut self, bytes: u64, most: &Timespec) -> Result<(), ChannelError> {
        if self.lie_down(bytes, IN_FUTEX)? {
            self.meter.called();
            let (ours, _) = self.desks();
            // However it ends, the ring is looked at next.
            let _ = futex::wait(ours.sleep, futex::Flags::empty(), IN_FUTEX, Some(most));
            End::get_up(ours);
        }
        Ok(())
    }

    /// Sleeps until there is room, or the other end is gone.
    fn sleep(&mut self, bytes: u64) -> Result<(), ChannelError> {
        if !self.lie_down(bytes, IN_POLL)? {
            return Ok(());
        }
        self.meter.called();
        let mut fds = [PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN)];
        match rustix::event::poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => self.stop_watching(),
            Err(errno) => Err(ChannelError::Socket { doing: "cannot sleep", errno }),
        }
    }

    /// Tells the other end when to wake this one; false where there is nothing to sleep for.
    fn lie_down(&mut self, bytes: u64, how: u32) -> Result<bool, ChannelError> {
        let (ours, theirs) = desks(&self.memory, self.role);
        let lies = self.end.lie_down(bytes, how, ours, theirs);
        lies.map_err(|impossible| self.broken_by(impossible))
    }

    /// Has the socket become readable once there is room for so many bytes, or the other end is done
    /// or gone; true where that is so already.
    pub(super) fn watch(&mut self, bytes: u64) -> Result<bool, ChannelError> {
        if self.has_room(bytes)?.is_some() {
            return Ok(true);
        }
        self.watching = self.lie_down(bytes, IN_POLL)?;
        Ok(!self.watching)
    }

    fn stop_watching(&mut self) -> Result<(), ChannelError> {
        self.watching = false;
        End::get_up(self.desks().0);
        self.take_packets()
    }

    pub(super) fn notice_hang_up(&mut self) -> Result<(), ChannelError> {
        self.meter.called();
        let socket = PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::RDHUP);
        self.gone |= is_any_ready(&mut [socket])
            .map_err(ChannelError::socket("cannot look for the other end"))?;
        // Its last word may be why it does not take the ring.
        if self.gone && self.packets.awaited.is_some() { self.take_packets() } else { Ok(()) }
    }

    /// Passes on so many of the bytes that there is room for.
    #[inline]
    pub(super) fn pass(&mut self, bytes: usize) {
        let (ours, theirs) = desks(&self.memory, self.role);
        let asleep = self.end.pass(bytes, ours, theirs);
        self.meter.delivered(bytes as u64);
        if let Some(how) = asleep {
            self.wake(how);
        }
        self.ahead_bytes += bytes;
        if self.ahead_bytes >= self.ahead_bytes_max {
            self.pause();
        }
    }

    /// Lets a receiver that has this CPU too read what was written while the cache still holds it, where
    /// the ring is larger. There is nothing that the two could do at once. And has a sender that need not
    /// wait look at the socket now and then.
    #[cold]
    fn pause(&mut self) {
        self.ahead_bytes = 0;
        if self.role == Role::Receiver {
            return;
        }
        self.watching |= self.is_look_due();
        if self.end.capacity() > NEAR_BYTES && self.shares_cpu() {
            std::thread::yield_now();
        }
    }

    /// Tells the other end that this one is done.
    pub(super) fn finish(&mut self) {
        let (ours, theirs) = self.desks();
        let mut wakes = End::end(ours, theirs);
        if self.role == Role::Receiver {
            End::have_noticed(ours);
            // A sender of buffers may sleep by a word of its table, which this end need not have yet.
            if self.flow == Flow::Buffers {
                wakes = wakes.or(Some(IN_POLL));
            }
        }
        if let Some(how) = wakes {
            self.wake(how);
        }
    }

    /// The same, where this is dropped; not by a process that was forked, whose parent goes on.
    pub(super) fn leave(&mut self) {
        if self.forks == forks::count() {
            self.finish();
        }
    }

    /// Goes on by so many bytes, which the caller has passed on to all of its receivers at once, and
    /// wakes this one if it sleeps for them.
    #[inline]
    pub(super) fn follow(&mut self, bytes: usize) {
        self.end.advance(bytes);
        let (_, theirs) = desks(&self.memory, self.role);
        if let Some(how) = self.end.rouse(theirs) {
            self.wake(how);
        }
    }

    /// Wakes the other end if it sleeps, whatever for.
    pub(super) fn rouse(&mut self) {
        if let Some(how) = self.desks().1.roused() {
            self.wake(how);
        }
    }

    #[cold]
    pub(super) fn wake(&mut self, how: u32) {
        if how == DONE {
            self.watching = true;
            return;
        }
        self.meter.called();
        // Whoever is woken decides by it how to wait from then on.
        self.tell_cpu();
        if how == IN_FUTEX {
            let sleep = self.desks().1.sleep;
            let woken = futex::wake(sleep, futex::Flags::empty(), 1);
            // Whoever is not there got up by itself, or is gone.
            let in_vain = self.role == Role::Sender && woken == Ok(0);
            self.watching |= in_vain && self.is_look_due();
            return;
        }
        // A socket that is full (EAGAIN) is readable already.
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let said = rustix::net::send(&self.socket, WAKE, flags);
        self.watching |= said.is_err_and(|errno| errno != Errno::AGAIN);
    }
}

/// A clock that costs a few nanoseconds to look at, and is some milliseconds late.
#[inline]
pub(super) fn coarse_now_ns() -> i64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    now.tv_sec * 1_000_000_000 + now.tv_nsec
}

/// A ring that the other end has offered, which is not taken yet.
#[derive(Debug)]
pub(super) struct Offered {
    connection: Connection,
    packet: Vec<u8>,
    files: Vec<OwnedFd>,
    flow: Flow,
    agreed: Agreed,
    setup: Setup,
    mapped: Option<(SharedMemory, End)>,
}

impl Offered {
    /// Hears what the other end offers.
    pub(super) fn heard(
        connection: Connection,
        flow: Flow,
        setup: &Setup,
    ) -> Result<Offered, ChannelError> {
        let until = deadline(setup.patience);
        let agreed = connection.greet(Role::Receiver, flow, setup, until)?;
        // The sender has made the ring since it said hello.
        let heard = connection.hear(deadline(setup.patience), setup.patience);
        let (packet, files) = heard.inspect_err(|error| {
            // What comes with the offer comes but once.
            if matches!(error, ChannelError::Socket { .. }) {
                refuse(&connection, error);
            }
        })?;
        let (setup, mapped) = (*setup, None);
        Ok(Offered { connection, packet, files, flow, agreed, setup, mapped })
    }

    /// Maps the ring, if it can be used without harm. What fails for want of memory or descriptors
    /// may be tried again.
    pub(super) fn map(&mut self) -> Result<(), ChannelError> {
        if self.mapped.is_none() {
            let again = |file: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(file, 0);
            let files = self.files.iter().map(again).collect::<Result<_, _>>();
            let files = files.map_err(ChannelError::socket("cannot keep the ring"))?;
            self.mapped = Some(self.mapped_of(files)?);
            self.files.clear();
        }
        Ok(())
    }

    /// Whether the other end is gone and has put nothing into a ring that is not mapped yet.
    pub(super) fn is_void(&self) -> bool {
        let (at, mut passed) = ((SENDER.passes * size_of::<u64>()) as u64, [0xff; 8]);
        let is_zero = |file: &OwnedFd| {
            rustix::io::pread(file, &mut passed, at) == Ok(passed.len()) && passed == [0; 8]
        };
        self.connection.has_hung_up() && self.files.first().is_some_and(is_zero)
    }

    fn mapped_of(&self, files: Vec<OwnedFd>) -> Result<(SharedMemory, End), ChannelError> {
        taken((self.packet.as_slice(), files), self.flow, self.agreed, &self.setup)
    }

    /// Takes the ring, and tells the other end whether it did.
    pub(super) fn taken(mut self) -> Result<Link, ChannelError> {
        // There is no other try, which the descriptors would be kept for.
        let files = std::mem::take(&mut self.files);
        let mapped = self.mapped.take().map_or_else(|| self.mapped_of(files), Ok);
        let (memory, end) = mapped.inspect_err(|error| refuse(&self.connection, error))?;
        match self.connection.say(TAKEN, &[]) {
            // A sender to many may be done already; what it has sent is there.
            Ok(()) | Err(ChannelError::HungUp) => {
                Ok(Link::new(self.connection, memory, end, self.flow, &self.setup))
            }
            Err(error) => Err(error),
        }
    }
}

/// Tells the other end why its ring is not taken.
fn refuse(connection: &Connection, error: &ChannelError) {
    // It may be gone; what is wrong with the offer is what counts.
    let _ = connection.say(refusal(error), &[]);
}

impl Drop for Link {
    /// The other end notices one that was not finished even where a process that was forked still has the
    /// socket. What was said can still be heard.
    fn drop(&mut self) {
        if self.forks == forks::count() && !End::other_ended(self.desks().0) {
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Both);
        }
    }
}

impl AsFd for Link {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// The bytes of the ring that such a setup asks for.
pub(super) fn ring_bytes(setup: &Setup) -> usize {
    let ring_bytes = setup.ring_bytes.clamp(RING_BYTES_MIN, RING_BYTES_MAX);
    ring_bytes.next_multiple_of(RING_BYTES_STEP)
}

/// Memory for a ring, made so: of 2 MiB pages if they are to be had. All of it is taken at once, so what is more than
/// the machine has is refused before others are killed for it.
pub(super) fn memory(
    bytes: usize,
    pages: PageSize,
    takes: u32,
    create: fn(usize, PageSize) -> Result<SharedMemory, PagesError>,
) -> Result<SharedMemory, ChannelError> {
    if pages != PageSize::Hugetlb {
        look_for_room(bytes)?;
    }
    let made = |size| {
        let memory = create(bytes, size)?;
        memory.populate().map(|()| memory)
    };
    let pool = || match takes & TAKES_HUGETLB {
        0 => Err(ChannelError::Mismatch("pages of the pool are for ends of one user only")),
        _ => Ok(made(PageSize::Hugetlb)?),
    };
    match pages {
        PageSize::Base => Ok(made(PageSize::Base)?),
        PageSize::Hugetlb => pool(),
        PageSize::Huge if bytes < HUGE_FROM_BYTES => Ok(made(PageSize::Base)?),
        PageSize::Huge => {
            match made(PageSize::Huge) {
                Ok(memory) if memory.huge_bytes().unwrap_or(0) > 0 => return Ok(memory),
                // It is larger than it need be of small pages, and given back before they are taken.
                Ok(_) | Err(PagesError::NoHuge(_)) => {}
                Err(error) => return Err(error.into()),
            }
            pool().or_else(|_| Ok(made(PageSize::Base)?))
        }
    }
}

/// The memory that was offered, if it is what was agreed and can be used without harm, and the end
/// that reads it.
fn taken(
    (packet, files): (&[u8], Vec<OwnedFd>),
    flow: Flow,
    agreed: Agreed,
    setup: &Setup,
) -> Result<(SharedMemory, End), ChannelError> {
    let offer = Offer::understood(packet)?;
    if offer.version != agreed.version {
        return Err(ChannelError::Stray("it offers a ring of another version than was agreed"));
    }
    let mut files = files.into_iter();
    let file = files.next().ok_or(ChannelError::Stray("it offers a ring without memory"))?;
    let page = files.next();
    if page.is_some() && flow != Flow::Messages {
        return Err(ChannelError::Unsafe(
            "it is one of messages to many, which this end is not for",
        ));
    }
    if is_hugetlb(file.as_fd()) && agreed.takes & TAKES_HUGETLB == 0 {
        return Err(ChannelError::Unsafe("its pages are of the pool, which could be taken away"));
    }
    let ring_bytes = usize::try_from(offer.ring_bytes).unwrap_or(usize::MAX);
    let most = self::ring_bytes(setup).max(RING_BYTES_TAKEN);
    if ring_bytes > most {
        return Err(ChannelError::TooLarge { bytes: offer.ring_bytes, most: most as u64 });
    }
    if ring_bytes < RING_BYTES_MIN || !ring_bytes.is_multiple_of(RING_BYTES_STEP) {
        return Err(ChannelError::Unsafe("its ring is too small, or no whole lines"));
    }
    // Looked at before it is mapped: all of it will be there at once.
    let found = rustix::fs::fstat(&file).map(|found| found.st_size as u64);
    let page_bytes = if page.is_some() { RECEIVER_PAGE_BYTES } else { 0 };
    let least = (CONTROL_BYTES - page_bytes + ring_bytes) as u64;
    let sizes = least..=least.next_multiple_of(HUGE_PAGE_BYTES as u64);
    if !found.is_ok_and(|found| sizes.contains(&found)) {
        return Err(ChannelError::Unsafe("it is not as large as its ring"));
    }
    let memory = match page {
        None => SharedMemory::open(file)
            .map_err(ChannelError::refused("it is no memory that is sealed against shrinking")),
        Some(page) => SharedMemory::behind_page(page.as_fd(), file).map_err(ChannelError::refused(
            "it could be made shorter, or written by other receivers",
        )),
    }?;
    // Until it was sealed, it may have become shorter or longer; a page of its own may stand before it.
    if !sizes.contains(&((memory.len() - page_bytes) as u64)) {
        return Err(ChannelError::Unsafe("it is not as large as its ring"));
    }
    memory.populate_to_read()?;
    Ok((memory, End::receiver(ring_bytes).beginning_at(offer.begins)))
}

/// Whether it is memory of the pool, which whoever has it can take away by fallocate(2), whatever its seals.
pub(super) fn is_hugetlb(file: BorrowedFd<'_>) -> bool {
    /// From linux/magic.h.
    const HUGETLBFS_MAGIC: u64 = 0x9584_58f6;
    rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type as u64 == HUGETLBFS_MAGIC)
}
