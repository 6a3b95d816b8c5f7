//! A signal that interrupts whatever call the process sleeps in, from some time on.

#![allow(unsafe_code)]

use std::io::Error;
use std::time::Duration;

use bytepath::Cancel;

/// Asked when the time is over.
static OVER: Cancel = Cancel::by_interruption();

extern "C" fn over(_: libc::c_int) {
    OVER.cancel();
}

/// Runs until it is dropped.
pub(crate) struct Interval(());

impl Interval {
    /// Has the process interrupted after this time, and every time it is over again: the first signal
    /// may come just before a call that sleeps. To be called once, while there is one thread.
    ///
    /// # Errors
    /// The kernel keeps timers, or signals, from the process.
    pub(crate) fn start(every: Duration) -> std::io::Result<Interval> {
        // SAFETY: all-zero bytes are a valid sigaction: no flags, so nothing is restarted, and an empty
        // mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = over as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler stores into an atomic, which is safe at any moment; nothing else here
        // uses the signal.
        told(unsafe { libc::sigaction(libc::SIGALRM, &raw const action, std::ptr::null_mut()) })?;
        let mut set = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
        // SAFETY: it fills the set.
        told(unsafe { libc::sigemptyset(set.as_mut_ptr()) })?;
        // SAFETY: the set was filled.
        told(unsafe { libc::sigaddset(set.as_mut_ptr(), libc::SIGALRM) })?;
        let none = std::ptr::null_mut();
        // SAFETY: the set was filled, and the old mask is not asked for.
        told(unsafe { libc::sigprocmask(libc::SIG_UNBLOCK, set.as_ptr(), none) })?;
        set_timer(every)?;
        Ok(Interval(()))
    }

    /// Is asked when the time is over.
    pub(crate) fn over(&self) -> &'static Cancel {
        &OVER
    }
}

impl Drop for Interval {
    fn drop(&mut self) {
        // It was set before, so it can be set again.
        let _ = set_timer(Duration::ZERO);
    }
}

/// Sets the timer that sends SIGALRM; a time of 0 switches it off.
fn set_timer(every: Duration) -> std::io::Result<()> {
    let tv_sec = every.as_secs().try_into().map_err(Error::other)?;
    let tv_usec = every.subsec_micros().into();
    let time = libc::timeval { tv_sec, tv_usec };
    let timer = libc::itimerval { it_interval: time, it_value: time };
    // SAFETY: it reads the timer, and writes nowhere.
    told(unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const timer, std::ptr::null_mut()) })
}

fn told(answer: libc::c_int) -> std::io::Result<()> {
    if answer == 0 { Ok(()) } else { Err(Error::last_os_error()) }
}
