//! What may be changed while bytes move.

use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize};
use std::sync::{Mutex, OnceLock, PoisonError};

use bytepath::Cancel;

use super::Settings;
use super::signals::Signals;

/// Read by movers between pieces of work, written by whoever takes a wish from outside.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// 0 is none.
    rate: AtomicU64,
    /// 0 is the mover's choice.
    buffer_bytes: AtomicUsize,
    /// Whether bytes are to be moved: one of those below.
    course: AtomicU8,
    /// Wakes a route that holds bytes of its source; none where nobody answers signals.
    cancel: OnceLock<Cancel>,
    /// Those that were caught before there was anybody to answer them.
    caught: Mutex<Option<Signals>>,
}

/// Bytes move.
const MOVING: u8 = 0;
/// A signal asked for the end, and whoever answers it ends the process.
const ENDING: u8 = 1;
/// All were moved, or as many as could be, and the mover ends the process or goes on.
const MOVED: u8 = 2;

impl Live {
    pub(crate) fn new(settings: &Settings) -> Live {
        let live = Live::default();
        live.set_rate(settings.rate);
        live.set_buffer_bytes(settings.buffer_bytes);
        live
    }

    /// Catches signals from now on, for whoever is to answer them soon: what is made before that,
    /// and has to be put away again, is not left behind.
    pub(crate) fn catch_signals(&self) {
        let mut caught = self.caught.lock().unwrap_or_else(PoisonError::into_inner);
        if caught.is_none() {
            // Where it is refused, it is so again for who answers, and tells what is done then.
            *caught = Signals::caught().ok();
        }
    }

    /// The signals, for who answers them.
    pub(crate) fn signals(&self) -> std::io::Result<Signals> {
        let caught = self.caught.lock().unwrap_or_else(PoisonError::into_inner).take();
        caught.map_or_else(Signals::caught, Ok)
    }

    /// Keeps them for who answers them next: another stage.
    pub(crate) fn keep(&self, signals: Signals) {
        *self.caught.lock().unwrap_or_else(PoisonError::into_inner) = Some(signals);
    }

    /// Lets a signal stop what holds bytes.
    pub(crate) fn can_end(&self) -> std::io::Result<()> {
        // In a second stage it is there already.
        let _ = self.cancel.set(Cancel::new()?);
        Ok(())
    }

    /// Another stage begins to move.
    pub(crate) fn begin(&self) {
        let _ = self.course.compare_exchange(MOVED, MOVING, SeqCst, SeqCst);
    }

    /// Asks movers to stop between two pieces; whether any still moves.
    pub(crate) fn end(&self) -> bool {
        let moves = self.course.compare_exchange(MOVING, ENDING, SeqCst, SeqCst).is_ok();
        // Nothing stops a stage that is still to come.
        if let Some(cancel) = self.cancel.get().filter(|_| moves) {
            cancel.cancel();
        }
        moves
    }

    /// Notes that nothing moves any more; whether nobody asked for the end before.
    pub(crate) fn moved(&self) -> bool {
        self.course.compare_exchange(MOVING, MOVED, SeqCst, SeqCst).is_ok()
    }

    /// Whether nothing moves any more, and nobody asked for that.
    pub(crate) fn over(&self) -> bool {
        self.course.load(SeqCst) == MOVED
    }

    pub(crate) fn ending(&self) -> bool {
        self.course.load(Relaxed) == ENDING
    }

    pub(crate) fn cancel(&self) -> Option<&Cancel> {
        self.cancel.get()
    }

    pub(crate) fn rate(&self) -> Option<u64> {
        Some(self.rate.load(Relaxed)).filter(|rate| *rate > 0)
    }

    pub(crate) fn set_rate(&self, rate: Option<u64>) {
        self.rate.store(rate.unwrap_or(0), Relaxed);
    }

    pub(crate) fn buffer_bytes(&self) -> Option<usize> {
        Some(self.buffer_bytes.load(Relaxed)).filter(|bytes| *bytes > 0)
    }

    pub(crate) fn set_buffer_bytes(&self, bytes: Option<usize>) {
        self.buffer_bytes.store(bytes.unwrap_or(0), Relaxed);
    }

    /// Says a message.
    pub(crate) fn say(&self, text: std::fmt::Arguments<'_>) {
        super::say(text);
    }
}
