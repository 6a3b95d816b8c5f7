//! What an end does when it cannot go on: block, poll, spin, or spin for a while and then block.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::error::Stop;
use crate::meter::Meter;

pub(crate) mod awake;

/// The spin budget of `hybrid` when none is named: about the cost of a wake-up across CPUs on a
/// virtual machine, so that spinning in vain at most doubles the price of sleeping.
pub const HYBRID_BUDGET: Duration = Duration::from_micros(50);

/// What an end does when it cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Wait {
    /// Sleep in the call that moves the bytes.
    #[default]
    Block,
    /// Sleep in poll(2) before each call.
    Poll,
    /// Try again at once, and so keep the CPU.
    Spin,
    /// Ask poll(2) again and again without sleeping before each call.
    PollSpin,
    /// Spin for the budget, then sleep.
    Hybrid(Duration),
}

impl Wait {
    /// The names that [`Wait::named`] takes.
    pub const NAMES: &[&str] = &["block", "poll", "spin", "poll-spin", "hybrid"];

    /// The wait of this name.
    pub fn named(name: &str) -> Option<Wait> {
        Some(match name {
            "block" => Wait::Block,
            "poll" => Wait::Poll,
            "spin" => Wait::Spin,
            "poll-spin" => Wait::PollSpin,
            "hybrid" => Wait::Hybrid(HYBRID_BUDGET),
            _ => return None,
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Wait::Block => "block",
            Wait::Poll => "poll",
            Wait::Spin => "spin",
            Wait::PollSpin => "poll-spin",
            Wait::Hybrid(_) => "hybrid",
        }
    }

    /// Whether it holds a CPU while it waits.
    pub fn spins(self) -> bool {
        matches!(self, Wait::Spin | Wait::PollSpin | Wait::Hybrid(_))
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Stops a movement from another thread, or from a signal handler of the caller's own.
///
/// A movement that can be cancelled sleeps only in poll(2), which this wakes. It costs the
/// movement one poll(2) a wait; one without a `Cancel`, or with one made by
/// [`Cancel::by_interruption`], sleeps in the call that moves the bytes.
#[derive(Debug)]
pub struct Cancel {
    asked: AtomicBool,
    /// What ends a sleep; the caller does it where there is none.
    wakes: Option<OwnedFd>,
}

impl Cancel {
    /// A token that has not been asked yet.
    ///
    /// # Errors
    /// The process or the system is out of descriptors.
    pub fn new() -> std::io::Result<Cancel> {
        let wakes = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Cancel { asked: AtomicBool::new(false), wakes: Some(wakes) })
    }

    /// A token for callers who interrupt the moving thread themselves: by a signal whose handler is
    /// installed without SA_RESTART, after asking, and again for as long as the movement goes on, as
    /// the first may come just before a call that sleeps.
    pub const fn by_interruption() -> Cancel {
        Cancel { asked: AtomicBool::new(false), wakes: None }
    }

    /// Asks the movement to stop. Safe to call more than once, from any thread and from a signal
    /// handler. In a process that was forked it asks that one's movements alone.
    pub fn cancel(&self) {
        self.asked.store(true, Ordering::Release);
        if let Some(wakes) = &self.wakes {
            // A full counter (EAGAIN) already wakes every poll.
            let _ = rustix::io::write(wakes, &1u64.to_ne_bytes());
        }
    }

    /// Readable once it is asked; none where the caller interrupts who sleeps.
    pub(crate) fn wakes(&self) -> Option<BorrowedFd<'_>> {
        self.wakes.as_ref().map(AsFd::as_fd)
    }

    /// Whether [`Cancel::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        self.asked.load(Ordering::Acquire)
    }
}

/// One end's waiting: asked before each call and after each refusal to go on.
pub(crate) struct Waiter<'a> {
    wait: Wait,
    cancel: Option<&'a Cancel>,
    meter: &'a Meter,
    stalled: bool,
    spinning_since: Option<Instant>,
}

/// The descriptors that a call depends on.
#[derive(Clone, Copy)]
pub(crate) struct Ends<'fd> {
    pub(crate) source: Option<BorrowedFd<'fd>>,
    pub(crate) sink: Option<BorrowedFd<'fd>>,
}

impl<'fd> Ends<'fd> {
    pub(crate) fn source(fd: BorrowedFd<'fd>) -> Self {
        Ends { source: Some(fd), sink: None }
    }

    pub(crate) fn sink(fd: BorrowedFd<'fd>) -> Self {
        Ends { source: None, sink: Some(fd) }
    }

    pub(crate) fn both(source: BorrowedFd<'fd>, sink: BorrowedFd<'fd>) -> Self {
        Ends { source: Some(source), sink: Some(sink) }
    }
}

impl<'a> Waiter<'a> {
    pub(crate) fn new(wait: Wait, cancel: Option<&'a Cancel>, meter: &'a Meter) -> Self {
        Waiter { wait, cancel, meter, stalled: false, spinning_since: None }
    }

    /// Whether calls must come back instead of sleeping.
    pub(crate) fn nonblocking(&self) -> bool {
        self.wait.spins() || self.cancel.is_some_and(|cancel| cancel.wakes().is_some())
    }

    /// Whether the call that moves bytes may be made as it is: it sleeps by itself, and nobody
    /// can cancel it.
    pub(crate) fn is_plain(&self) -> bool {
        self.sleeps_in_calls() && self.cancel.is_none()
    }

    /// Whether it waits in no other way than sleeping in the call that moves bytes.
    pub(crate) fn sleeps_in_calls(&self) -> bool {
        self.wait == Wait::Block && !self.nonblocking()
    }

    /// To be called before each call that moves bytes.
    #[inline(always)]
    pub(crate) fn before(&mut self, ends: Ends<'_>) -> Result<(), Stop> {
        match self.wait {
            Wait::Poll => self.sleep(ends)?,
            Wait::PollSpin => {
                while !self.both_ready(ends) {
                    self.note_wait();
                    self.check_cancelled()?;
                    std::hint::spin_loop();
                }
            }
            Wait::Block | Wait::Spin | Wait::Hybrid(_) => {}
        }
        self.check_cancelled()
    }

    /// To be called instead where the call sleeps whatever its flags say: waits here, where it can
    /// be cancelled and the wait is the one that was asked for.
    pub(crate) fn before_sleeper(&mut self, ends: Ends<'_>) -> Result<(), Stop> {
        if self.nonblocking() {
            while !self.both_ready(ends) {
                self.stalled(ends)?;
            }
        }
        self.before(ends)
    }

    /// To be called after a call that moved bytes.
    #[inline(always)]
    pub(crate) fn progressed(&mut self) {
        self.stalled = false;
        self.spinning_since = None;
    }

    /// To be called when a call said that it cannot go on (EAGAIN); comes back when it is worth
    /// trying again.
    pub(crate) fn stalled(&mut self, ends: Ends<'_>) -> Result<(), Stop> {
        self.meter.called();
        self.note_wait();
        self.check_cancelled()?;
        match self.wait {
            Wait::Spin | Wait::PollSpin => std::hint::spin_loop(),
            Wait::Hybrid(budget) => return self.spin_or_sleep(budget, ends),
            Wait::Block | Wait::Poll => return self.sleep(ends),
        }
        Ok(())
    }

    /// Counts the first of the stalls between two calls that moved bytes.
    fn note_wait(&mut self) {
        if !self.stalled {
            self.stalled = true;
            self.meter.waited();
        }
    }

    fn spin_or_sleep(&mut self, budget: Duration, ends: Ends<'_>) -> Result<(), Stop> {
        let since = *self.spinning_since.get_or_insert_with(Instant::now);
        if since.elapsed() < budget {
            std::hint::spin_loop();
            return Ok(());
        }
        self.spinning_since = None;
        self.sleep(ends)
    }

    /// Stops here if the caller asked to.
    pub(crate) fn check_cancelled(&self) -> Result<(), Stop> {
        match self.cancel {
            Some(cancel) if cancel.is_cancelled() => Err(Stop::Cancelled { stranded: Vec::new() }),
            _ => Ok(()),
        }
    }

    /// Sleeps until the source can be read and the sink written, or until cancelled.
    fn sleep(&self, ends: Ends<'_>) -> Result<(), Stop> {
        if let Some(source) = ends.source {
            self.sleep_on(source, PollFlags::IN)?;
        }
        if let Some(sink) = ends.sink {
            self.sleep_on(sink, PollFlags::OUT)?;
        }
        Ok(())
    }

    fn sleep_on(&self, fd: BorrowedFd<'_>, interest: PollFlags) -> Result<(), Stop> {
        loop {
            self.check_cancelled()?;
            let mut fds = poll_set(fd, interest, self.cancel);
            // Any answer but an interruption is worth a try: the call itself reports faults.
            match poll(fds.as_mut_slice(), self.cancel) {
                Err(Errno::INTR) => {}
                Ok(_) if fds.woken_only() => {}
                _ => return Ok(()),
            }
        }
    }

    fn both_ready(&self, ends: Ends<'_>) -> bool {
        ends.source.is_none_or(|fd| ready(fd, PollFlags::IN))
            && ends.sink.is_none_or(|fd| ready(fd, PollFlags::OUT))
    }
}

/// How long who cannot ask poll(2) as a rule sleeps before the next try.
const UNASKED: Duration = Duration::from_millis(10);

/// Sleeps in poll(2) until one of them is ready, for those who then try again whatever it says. The
/// last of them is the token's, where it has one.
///
/// Two things would keep them from sleeping, and then this sleeps for a moment. poll(2) refuses: EINVAL
/// for more descriptors than the limit of open files, which may have been lowered since they were
/// opened, and ENOMEM. Or a process that was forked has asked its copy of the token: what ends a sleep
/// is shared with it, whether it was asked is not. (Taking that wake-up away might take one of its own
/// from a thread of the other process.)
pub(crate) fn poll(fds: &mut [PollFd<'_>], cancel: Option<&Cancel>) -> Result<usize, Errno> {
    let answer = rustix::event::poll(fds, None);
    let [others @ .., last] = fds else { return answer };
    let asked_elsewhere = || {
        let woken = |cancel: &Cancel| cancel.wakes().is_some() && !cancel.is_cancelled();
        cancel.is_some_and(woken) && !last.revents().is_empty()
    };
    match answer {
        Err(Errno::INTR) => answer,
        Err(_) => {
            std::thread::sleep(UNASKED);
            answer
        }
        Ok(1) if asked_elsewhere() => {
            let moment = Timespec::try_from(UNASKED).ok();
            rustix::event::poll(others, moment.as_ref())
        }
        Ok(_) => answer,
    }
}

/// Whether a descriptor would not block now. A signal ends poll(2) only where nothing is ready.
pub(crate) fn ready(fd: BorrowedFd<'_>, interest: PollFlags) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let answer = rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd, interest)], Some(&now));
    !matches!(answer, Ok(0) | Err(Errno::INTR))
}

/// The descriptor waited for, and the cancel token's where there is one; no allocation.
struct PollSet<'fd> {
    fds: [PollFd<'fd>; 2],
    len: usize,
}

fn poll_set<'fd>(
    fd: BorrowedFd<'fd>,
    interest: PollFlags,
    cancel: Option<&'fd Cancel>,
) -> PollSet<'fd> {
    let first = PollFd::from_borrowed_fd(fd, interest);
    match cancel.and_then(Cancel::wakes) {
        Some(wakes) => {
            let second = PollFd::from_borrowed_fd(wakes, PollFlags::IN);
            PollSet { fds: [first, second], len: 2 }
        }
        None => PollSet { fds: [first.clone(), first], len: 1 },
    }
}

impl<'fd> PollSet<'fd> {
    fn as_mut_slice(&mut self) -> &mut [PollFd<'fd>] {
        &mut self.fds[..self.len]
    }

    /// Whether only the cancel token answered.
    fn woken_only(&self) -> bool {
        self.fds[0].revents().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_wait_has_its_name_back() {
        for name in Wait::NAMES {
            assert_eq!(Wait::named(name).map(Wait::name), Some(*name));
        }
        assert_eq!(Wait::named("sleep"), None);
    }

    #[test]
    fn a_cancelled_waiter_does_not_sleep() {
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        let cancel = Cancel::new().expect("a token");
        let meter = Meter::new();
        cancel.cancel();
        let mut waiter = Waiter::new(Wait::Block, Some(&cancel), &meter);
        assert!(matches!(
            waiter.stalled(Ends::source(reader.as_fd())),
            Err(Stop::Cancelled { .. })
        ));
    }

    #[test]
    fn cancelling_wakes_a_sleeper() {
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        let cancel = Cancel::new().expect("a token");
        std::thread::scope(|scope| {
            let sleeper = scope.spawn(|| {
                let meter = Meter::new();
                Waiter::new(Wait::Block, Some(&cancel), &meter)
                    .stalled(Ends::source(reader.as_fd()))
                    .is_err()
            });
            cancel.cancel();
            assert!(sleeper.join().expect("the sleeper ends"));
        });
    }

    #[test]
    fn what_a_forked_process_asks_keeps_nobody_here_from_sleeping() {
        let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
        let cancel = Cancel::new().expect("a token");
        let wakes = cancel.wakes().expect("it wakes");
        // All that a cancel() elsewhere does here.
        rustix::io::write(wakes, &1u64.to_ne_bytes()).expect("there is room");
        let polled = || {
            let mut fds = poll_set(reader.as_fd(), PollFlags::IN, Some(&cancel));
            let began = Instant::now();
            let ready = poll(fds.as_mut_slice(), Some(&cancel)).expect("polled");
            (ready, fds.woken_only(), began.elapsed() >= UNASKED)
        };
        assert_eq!(polled(), (0, true, true));
        rustix::io::write(&writer, b"x").expect("there is room");
        assert!(matches!(polled(), (2, false, _)));
        rustix::io::read(&reader, &mut [0; 1]).expect("read");
        cancel.cancel();
        assert!(matches!(polled(), (1, true, _)));
    }

    #[test]
    fn a_spinner_counts_one_wait_a_stall() {
        let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
        let meter = Meter::new();
        let mut waiter = Waiter::new(Wait::Spin, None, &meter);
        for _ in 0..3 {
            waiter.stalled(Ends::source(reader.as_fd())).expect("spinning goes on");
        }
        assert_eq!((meter.read().waits, meter.read().calls), (1, 3));
    }
}
