//! The signals that pv answers, as a queue that can be waited for together with other things.

use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use signal_hook::consts::{SIGCONT, SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGTTOU, SIGUSR2, SIGWINCH};

use super::status::Status;
use crate::sys::actions::Quiet;
use crate::sys::nudge;
use crate::sys::queue::Queue;
use crate::sys::spawn::{ignore_here, note_ignored};

/// What a signal asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// End now, as this signal says.
    End(i32),
    /// Stop until continued.
    Stop,
    /// It was continued.
    Continued,
    /// The terminal has another size.
    Resized,
    /// Another pv has left a wish.
    Wish,
}

const CAUGHT: [i32; 7] = [SIGINT, SIGTERM, SIGHUP, SIGTSTP, SIGCONT, SIGWINCH, SIGUSR2];

/// Those of them that end it.
const ENDING: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// How long who may not wait sleeps.
const UNASKED: Duration = Duration::from_millis(10);

/// Waits for one of these, at most so long. Where poll(2) is refused (ENOMEM), this sleeps for a moment:
/// drawing goes on, and whoever waits in a loop does not use a CPU up.
pub(crate) fn await_any(fds: &mut [PollFd<'_>], most: Option<Duration>) {
    let timeout = most.and_then(|most| Timespec::try_from(most).ok());
    match rustix::event::poll(fds, timeout.as_ref()) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(_) => std::thread::sleep(most.map_or(UNASKED, |most| most.min(UNASKED))),
    }
}

/// Readable from when a signal came that ends it, whether it was answered or not.
static ENDS: OnceLock<Queue> = OnceLock::new();

/// Whether such a signal came.
pub(crate) fn ends() -> bool {
    ENDS.get().is_some_and(Queue::has_any)
}

/// Waits until there is room for what is written to it, or such a signal comes; whether one did while there
/// is none.
pub(crate) fn ends_before_room(end: BorrowedFd<'_>) -> bool {
    let mut both = vec![PollFd::from_borrowed_fd(end, PollFlags::OUT)];
    both.extend(ENDS.get().map(|ends| PollFd::new(ends, PollFlags::IN)));
    await_any(&mut both, None);
    both[0].revents().is_empty() && ends()
}

/// Signals that came and were not looked at.
#[derive(Debug)]
pub(crate) struct Signals {
    queue: Queue,
    /// Which of the two that stop and continue came last.
    last: Arc<AtomicUsize>,
}

impl Signals {
    /// Catches them from now on. A signal that was ignored when this program was started, as
    /// `nohup` does with SIGHUP, is caught as well, which is what pv does; a command of `-M` begins
    /// with it ignored.
    pub(crate) fn caught() -> std::io::Result<Signals> {
        note_ignored(&CAUGHT);
        let _quiet = Quiet::begin();
        // Before the queue, which tells of a signal only once it is known here.
        let last = Arc::default();
        for signal in [SIGTSTP, SIGCONT] {
            signal_hook::flag::register_usize(signal, Arc::clone(&last), signal as usize)?;
        }
        let queue = Queue::of(CAUGHT)?;
        // After the queue, so that who hears of one here finds it there.
        if ENDS.get().is_none() {
            let _ = ENDS.set(Queue::of(ENDING)?);
        }
        crate::metrics::answers(&ENDING);
        nudge::allow()?;
        Ok(Signals { queue, last })
    }

    /// Readable when a signal came.
    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }

    /// What they ask for, each once. One that was continued since it was to stop does not stop any more:
    /// nobody would continue it again.
    pub(crate) fn asked(&mut self) -> Vec<Asked> {
        let signals: Vec<_> = self.queue.came().collect();
        let is_last = self.last.load(SeqCst) == SIGTSTP as usize;
        let goes_on = signals.contains(&SIGCONT) && !is_last;
        let asked = signals.into_iter().filter_map(|signal| match signal {
            SIGINT | SIGTERM | SIGHUP => Some(Asked::End(signal)),
            SIGTSTP if goes_on => None,
            SIGTSTP => Some(Asked::Stop),
            SIGCONT => Some(Asked::Continued),
            SIGWINCH => Some(Asked::Resized),
            SIGUSR2 => Some(Asked::Wish),
            _ => None,
        });
        asked.collect()
    }
}

/// Where nobody looks at the queue, signals that end a program do it at once, with pv's status.
pub(crate) fn end_at_once() {
    for signal in ENDING {
        let status = i32::from(Status::SIGNAL.code());
        let always = Arc::new(AtomicBool::new(true));
        // Where it is refused, the program runs on to its end.
        let _ = signal_hook::flag::register_conditional_shutdown(signal, status, always);
    }
}

/// Has nothing that is written from the background of a terminal stop this process; see [`super::screen`] for
/// what is.
pub(crate) fn go_on_in_the_background() {
    ignore_here(SIGTTOU);
}

/// Stops this process as SIGTSTP would have, until it is continued.
pub(crate) fn stop_here() {
    let _ = signal_hook::low_level::emulate_default_handler(SIGTSTP);
}
