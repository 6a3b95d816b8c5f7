//! A signal that interrupts whatever call the process sleeps in, from some time on.

#![allow(unsafe_code)]

use std::time::Duration;

use bytepath::Cancel;
use nix::sys::signal::{
    SaFlags, SigAction, SigEvent, SigHandler, SigSet, SigevNotify, Signal, sigaction,
};
use nix::sys::timer::{Expiration, Timer, TimerSetTimeFlags};
use nix::time::ClockId;

/// Others may catch it once this is dropped. SIGALRM and its timer may have been set by whoever started the process, and are to end it.
const SIGNAL: Signal = Signal::SIGURG;

/// How long a signal that came too early to interrupt anything is made up for.
const AGAIN: Duration = Duration::from_millis(10);

/// Asked when the time is over.
static OVER: Cancel = Cancel::by_interruption();

extern "C" fn over(_: libc::c_int) {
    OVER.cancel();
}

/// Runs until it is dropped.
pub struct Interval {
    /// It goes before what answers it.
    _timer: Timer,
    _before: Before,
}

/// What the signal did before.
struct Before(SigAction);

impl Drop for Before {
    fn drop(&mut self) {
        // SAFETY: what was there before may be there again.
        let _ = unsafe { sigaction(SIGNAL, &self.0) };
    }
}

impl Interval {
    /// Has the process interrupted after this time, and then again and again: the first signal may
    /// come just before a call that sleeps. To be called while there is one thread, and again only
    /// where [`Interval::over`] was not asked.
    ///
    /// # Errors
    /// The kernel keeps timers, or signals, from the process.
    pub fn start(after: Duration) -> nix::Result<Interval> {
        // No flags, so nothing is restarted.
        let action = SigAction::new(SigHandler::Handler(over), SaFlags::empty(), SigSet::empty());
        // SAFETY: the handler stores into an atomic, which is safe at any moment; nothing else here
        // uses the signal until this is dropped.
        let before = Before(unsafe { sigaction(SIGNAL, &action) }?);
        SigSet::from(SIGNAL).thread_unblock()?;
        let sent = SigevNotify::SigevSignal { signal: SIGNAL, si_value: 0 };
        let mut timer = Timer::new(ClockId::CLOCK_MONOTONIC, SigEvent::new(sent))?;
        // Nothing would disarm it.
        let after = after.max(Duration::from_nanos(1));
        let expiration = Expiration::IntervalDelayed(after.into(), AGAIN.into());
        timer.set(expiration, TimerSetTimeFlags::empty())?;
        Ok(Interval { _timer: timer, _before: before })
    }

    /// Is asked when the time is over.
    pub fn over() -> &'static Cancel {
        &OVER
    }
}
