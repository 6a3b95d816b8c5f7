//! An io_uring as a type that owns what is in flight: memory that the kernel may still read or
//! write can be neither freed nor touched.
//!
//! A request's buffer moves into the ring when it is pushed and comes out with its completion.
//! Descriptors are borrowed for `'fd`, which outlives the ring, so that the number in a queued
//! request cannot come to mean another file. A ring stays on the thread that opened it, as
//! IORING_SETUP_SINGLE_ISSUER demands. Its queues are not in the memory of a process that is forked
//! meanwhile, which can do nothing with the ring but drop it.
//!
//! Costs: three system calls and two mappings to open; then one call for any number of requests.

#![allow(unsafe_code)]

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};

use io_uring::{IoUring, cqueue, opcode, types};
use rustix::io::Errno;

use crate::error::Refusal;
use crate::machine::ring_refusal;
use crate::ring::{Completion, Completions, Piece, Request, Setup, Submission, TaskRun};
use crate::sys::deadly::survived;
use crate::sys::forks;
use flight::{Flight, Place};
use provided::Provided;

mod flight;
mod provided;
mod register;

/// Calls that answer with a passing difficulty are made again at most this often in a row.
const RETRIES_MAX: u32 = 1000;

/// An io_uring, and everything that is in flight on it. A process that is forked can only drop its
/// copy, which closes that and leaves the ring to its parent; whatever else it does with it panics.
pub struct Ring<'fd> {
    /// Not to be dropped in a forked process, which may have something else where the queues were.
    ring: ManuallyDrop<IoUring>,
    /// How often this process was forked from another when the ring was opened.
    forks: u32,
    setup: Setup,
    task_run: TaskRun,
    /// Tells this ring from all others of the process.
    id: u64,
    flights: Vec<Option<Flight>>,
    free: Vec<u32>,
    provided: Option<Provided>,
    /// Steps that have not been answered.
    steps_in_flight: usize,
    /// Of the flight that is next.
    next_number: u32,
    calls: u64,
    _files: PhantomData<BorrowedFd<'fd>>,
    _stays_on_its_thread: PhantomData<*mut ()>,
}

impl std::fmt::Debug for Ring<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ring({:?}, {} steps in flight)", self.setup, self.steps_in_flight)
    }
}

impl<'fd> Ring<'fd> {
    /// Opens a ring, with the best way of finishing requests that the kernel has.
    ///
    /// # Errors
    /// Who or what stands in the way: somebody forbids it, this kernel does not have it, or
    /// something has run out. Each comes with its remedy.
    pub fn open(setup: &Setup) -> Result<Ring<'fd>, Refusal> {
        let mut answer = Err(Errno::INVAL);
        for &task_run in setup.task_runs() {
            answer = build(setup, task_run).map(|ring| (ring, task_run));
            if !matches!(answer, Err(Errno::INVAL)) {
                break;
            }
        }
        let (ring, task_run) = answer.map_err(|errno| refused(setup, errno))?;
        let room = ring.params().sq_entries();
        Ok(Ring {
            ring: ManuallyDrop::new(ring),
            forks: forks::count(),
            setup: *setup,
            task_run,
            id: register::next_id(),
            flights: (0..room).map(|_| None).collect(),
            free: (0..room).rev().collect(),
            provided: None,
            steps_in_flight: 0,
            next_number: 0,
            calls: 0,
            _files: PhantomData,
            _stays_on_its_thread: PhantomData,
        })
    }

    /// The kernel's ring, where it is in this process's memory.
    #[inline]
    fn ring(&mut self) -> &mut IoUring {
        assert!(
            !self.is_inherited(),
            "this ring is the parent's of a forked process: open one here"
        );
        &mut self.ring
    }

    /// Whether this process was forked since the ring was opened.
    fn is_inherited(&self) -> bool {
        self.forks != forks::count()
    }

    /// How this kernel finishes requests that had to wait.
    pub fn task_run(&self) -> TaskRun {
        self.task_run
    }

    /// What an answer of a step says about this ring and the file, for people: that the device
    /// cannot what the ring was set up for, or that this kernel does not know the operation.
    pub fn refusal(&self, errno: Errno) -> Refusal {
        let polled = self.setup.completions == Completions::Polled;
        match errno {
            Errno::OPNOTSUPP | Errno::INVAL if polled => {
                Refusal::errno("this device cannot be asked for completions by polling", errno)
                    .remedy(
                        "open the file with O_DIRECT, on a device with queues for polling (nvme: \
                         poll_queues), or let it interrupt",
                    )
            }
            Errno::INVAL => Refusal::errno(
                "this kernel does not know the operation, or not for this file",
                errno,
            ),
            Errno::OPNOTSUPP => Refusal::errno("this file cannot do that", errno),
            Errno::ACCESS | Errno::PERM => Refusal::errno("the operation is not permitted", errno)
                .remedy("look for a restriction of the ring, a security module or a sandbox"),
            _ => Refusal::errno("the operation failed", errno),
        }
    }

    /// How many more steps fit.
    pub fn room(&self) -> usize {
        self.flights.len() - self.steps_in_flight
    }

    /// Steps that have not been answered.
    pub fn steps_in_flight(&self) -> usize {
        self.steps_in_flight
    }

    /// System calls made on it so far.
    pub fn calls(&self) -> u64 {
        self.calls
    }

    /// Queues a request; [`Ring::submit`] and [`Ring::wait`] hand it to the kernel.
    ///
    /// # Panics
    /// If there is no [`Ring::room`]; a step that moves bytes has no buffer, or names a range that its
    /// buffer does not have, or one of 4 GiB and more; its credentials or files are another ring's; or this
    /// process was forked from the one that opened the ring, as with everything that is asked of one.
    pub fn push(&mut self, request: Request<'fd>) {
        let steps = request.steps();
        assert!(steps <= self.room(), "a ring takes no more than it has room for");
        let index = *self.free.last().expect("there are as many places as steps");
        let of_token = |token| self.place_of(token);
        let place = Place { number: self.next_number, index, step: 0 };
        let (entries, flight) = flight::prepare(request, place, self.id, of_token);
        self.free.pop();
        self.next_number = self.next_number.wrapping_add(1);
        self.flights[index as usize] = Some(flight);
        self.steps_in_flight += steps;
        let mut retries = 0;
        // SAFETY: what the entries point to is owned by the flight, which stays in `flights` until
        // its last step is answered; `Drop` waits for that, or leaks it. Descriptors live for
        // `'fd`, which outlives `self`.
        while unsafe { self.ring().submission().push_multiple(&entries[..steps]) }.is_err() {
            // The kernel's thread answers entries before it says that it has taken them, so the
            // queue may look full for a moment.
            let watched = matches!(self.setup.submission, Submission::Thread { .. });
            assert!(watched && retries < RETRIES_MAX, "no more steps are queued than in flight");
            retries += 1;
            if !self.make_way() {
                std::thread::yield_now();
            }
        }
    }

    /// Hands what is queued to the kernel, without waiting.
    ///
    /// # Errors
    /// The kernel's word where it takes no more; what is queued stays queued.
    pub fn submit(&mut self) -> Result<(), Errno> {
        self.hand_over(0)
    }

    /// Hands over all that is queued, and waits for `want` completions.
    fn hand_over(&mut self, want: usize) -> Result<(), Errno> {
        let mut retries = 0;
        while retries < RETRIES_MAX {
            match self.enter(want) {
                Ok(()) if self.has_handed_over(want) => return Ok(()),
                // A call ends with the step that the kernel refuses as it takes it, and tells of no
                // signal once it has taken any.
                Ok(()) => {}
                // EBUSY: completions have to be taken first, so there are some.
                Err(Errno::BUSY) => return Ok(()),
                Err(Errno::INTR | Errno::AGAIN) => retries += 1,
                Err(errno) => return Err(errno),
            }
        }
        Err(Errno::AGAIN)
    }

    /// Whether nothing is queued that the kernel does not take by itself, and so many completions are
    /// there.
    fn has_handed_over(&mut self, want: usize) -> bool {
        // While there is one, the kernel does not poll for others.
        let polled = self.setup.completions == Completions::Polled;
        let want = if polled { want.min(1) } else { want };
        let taken = match self.setup.submission {
            Submission::Calls => self.ring().submission().is_empty(),
            Submission::Thread { .. } => true,
        };
        taken && self.ring().completion().len() >= want
    }

    /// One call: hands over what is queued, and waits for `want` completions.
    fn enter(&mut self, want: usize) -> Result<(), Errno> {
        if want == 0 && self.is_watched() {
            return Ok(());
        }
        self.calls += 1;
        self.ring().submit_and_wait(want).map(drop).map_err(word)
    }

    /// Whether a thread of the kernel's is awake that takes what is queued without a call.
    fn is_watched(&mut self) -> bool {
        let Submission::Thread { .. } = self.setup.submission else { return false };
        // What was queued has to be seen by the thread before it is asked whether it sleeps: it
        // looks at the queue once more after it has said so.
        fence(Ordering::SeqCst);
        !self.ring().submission().need_wakeup()
    }

    /// The next request that is done; `None` where none is in flight. Hands over what is queued
    /// and sleeps only when nothing is done yet.
    ///
    /// # Errors
    /// The kernel's word where it does not let anybody wait. What is in flight stays so.
    pub fn wait(&mut self) -> Result<Option<Completion>, Errno> {
        let mut retries = 0;
        loop {
            if let Some(done) = self.take() {
                return Ok(Some(done));
            }
            if self.steps_in_flight == 0 {
                return Ok(None);
            }
            match self.enter(1) {
                Ok(()) | Err(Errno::INTR) => {}
                // Memory is short, or completions wait to be taken.
                Err(Errno::AGAIN | Errno::BUSY) if retries < RETRIES_MAX => retries += 1,
                Err(errno) => return Err(errno),
            }
        }
    }

    /// Hands what is queued to the kernel and sleeps until `want` steps are answered, or all that
    /// are in flight; one call where no signal comes and the kernel refuses none. What is done is then
    /// there to [`Ring::take`]. A ring whose completions are polled for may bring fewer.
    ///
    /// # Errors
    /// The kernel's word where it does not let anybody wait. What is in flight stays so.
    pub fn submit_and_wait(&mut self, want: usize) -> Result<(), Errno> {
        self.hand_over(want.min(self.steps_in_flight))
    }

    /// The next answer that is already there, without a system call: of a request that is done, or of
    /// one that goes on. What had to wait may take a [`Ring::submit`] first, even of nothing
    /// ([`TaskRun::Deferred`]). Each brings some alone (20 on Linux 6.18): where there may be more, it
    /// is called again until it brings none.
    pub fn take(&mut self) -> Option<Completion> {
        loop {
            let entry = self.ring().completion().next()?;
            let Some(place) = Place::of_user_data(entry.user_data()) else { continue };
            let slot = &mut self.flights[place.index as usize];
            let flight = slot.as_mut().expect("only flights are answered");
            let mut done = None;
            if cqueue::more(entry.flags()) {
                done = Some(flight.answer_so_far(entry.result()));
            } else {
                self.steps_in_flight -= 1;
                if flight.answered(place.step, entry.result()) {
                    self.free.push(place.index);
                    done = slot.take().map(|flight| flight.landed(self.setup.completions));
                }
            }
            if let Some(mut done) = done {
                let index = cqueue::buffer_select(entry.flags());
                let len = usize::try_from(entry.result()).unwrap_or(0);
                done.piece = index.map(|index| Piece { ring: self.id, index, len });
                return Some(done);
            }
        }
    }

    /// Which step of the first request with this token is in flight.
    fn place_of(&self, token: u64) -> Option<Place> {
        let mut flights = self.flights.iter().flatten();
        let flight = flights.find(|flight| flight.token() == token && !flight.cancels())?;
        Some(flight.unanswered())
    }

    /// Cancels everything and waits until the kernel is done with all of it. Where it lets nobody wait,
    /// the memory is given up, and nothing is handed over any more.
    pub(crate) fn settle(&mut self) {
        // A polled ring takes reads and writes only, and those end by themselves.
        if self.setup.completions == Completions::Interrupts {
            for index in 0..self.flights.len() {
                let place = self.flights[index].as_ref().map(flight::Flight::unanswered);
                if place.is_some_and(|place| !self.cancel(place)) {
                    break;
                }
            }
        }
        loop {
            match self.wait() {
                Ok(Some(_)) => {}
                Ok(None) => return,
                Err(_) => break,
            }
        }
        // The kernel may still write there.
        std::mem::forget(std::mem::take(&mut self.flights));
        std::mem::forget(self.provided.take());
        self.steps_in_flight = 0;
    }

    /// Queues the cancelling of a request, step by step; whether there came to be room for it. The
    /// kernel keeps answers that do not fit (IORING_FEAT_NODROP, Linux 5.5).
    fn cancel(&mut self, place: Place) -> bool {
        for step in 0..2 {
            let target = Place { step, ..place }.user_data();
            let entry = opcode::AsyncCancel::new(target).build().user_data(flight::UNANSWERED);
            let mut retries = 0;
            // SAFETY: the entry points to no memory.
            while unsafe { self.ring().submission().push(&entry) }.is_err() {
                // Up to Linux 5.18 the kernel takes nothing while answers wait that had no room (EBUSY).
                while self.take().is_some() {}
                if retries == RETRIES_MAX || !self.make_way() {
                    return false;
                }
                retries += 1;
            }
        }
        true
    }

    /// Hands over what is queued, so that the queue has room again; whether the kernel takes it.
    fn make_way(&mut self) -> bool {
        match self.setup.submission {
            Submission::Calls => self.submit().is_ok(),
            // The thread may have to be woken, and then be given time.
            Submission::Thread { .. } => {
                let waited = self.submit().map(|()| self.ring().submitter().squeue_wait());
                self.calls += 1;
                matches!(waited, Ok(Ok(_)))
            }
        }
    }
}

impl Drop for Ring<'_> {
    fn drop(&mut self) {
        if self.is_inherited() {
            // SAFETY: the descriptor is this process's copy, and `ring`, which has it, is never
            // dropped or used again.
            drop(unsafe { OwnedFd::from_raw_fd(self.ring.as_raw_fd()) });
            return;
        }
        if self.steps_in_flight > 0 {
            self.settle();
        }
        // SAFETY: nobody uses it after this.
        unsafe { ManuallyDrop::drop(&mut self.ring) };
    }
}

fn build(setup: &Setup, task_run: TaskRun) -> Result<IoUring, Errno> {
    survived(libc::SYS_io_uring_setup)?;
    let mut builder = IoUring::builder();
    match task_run {
        // The ring tells when something is due that a call that does not wait has to ask for.
        TaskRun::Deferred => {
            builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag()
        }
        TaskRun::Cooperative => builder.setup_coop_taskrun(),
        TaskRun::Interrupting => &mut builder,
    };
    if let Submission::Thread { idle } = setup.submission {
        builder.setup_sqpoll(u32::try_from(idle.as_millis()).unwrap_or(u32::MAX));
    }
    if setup.completions == Completions::Polled {
        builder.setup_iopoll();
    }
    builder.dontfork().setup_clamp().build(setup.entries.max(1)).map_err(word)
}

/// Why there is no ring, in the words that the machine's facts use.
fn refused(setup: &Setup, errno: Errno) -> Refusal {
    let thread = matches!(setup.submission, Submission::Thread { .. });
    if errno == Errno::PERM && thread && build(&Setup::default(), TaskRun::Interrupting).is_ok() {
        return Refusal::errno("the kernel's submitting thread is not permitted", errno).remedy(
            "before Linux 5.11 it takes CAP_SYS_ADMIN, up to 5.12 CAP_SYS_NICE: submit by calls",
        );
    }
    ring_refusal(errno)
}

/// The kernel's word in an error of the standard library.
fn word(error: std::io::Error) -> Errno {
    Errno::from_io_error(&error).unwrap_or(Errno::IO)
}

/// A timespec of the kernel's; a time without end is one of some years.
fn timespec(duration: std::time::Duration) -> Box<types::Timespec> {
    const YEARS: std::time::Duration = std::time::Duration::from_secs(100_000_000);
    Box::new(types::Timespec::from(duration.min(YEARS)))
}
