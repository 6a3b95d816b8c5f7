//! What may be changed while bytes move.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use bytepath::Cancel;

use super::Settings;

/// Read by movers between pieces of work, written by whoever takes a wish from outside.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// 0 is none.
    rate: AtomicU64,
    /// 0 is the mover's choice.
    buffer_bytes: AtomicUsize,
    /// Whether the cursor stands in a line that was drawn.
    line_open: AtomicBool,
    /// Whether a signal asked for the end.
    ending: AtomicBool,
    /// Wakes a route that holds bytes of its source; none where nobody answers signals.
    cancel: OnceLock<Cancel>,
}

impl Live {
    pub(crate) fn new(settings: &Settings) -> Live {
        let live = Live::default();
        live.set_rate(settings.rate);
        live.set_buffer_bytes(settings.buffer_bytes);
        live
    }

    /// Lets a signal stop what holds bytes.
    pub(crate) fn can_end(&self) -> std::io::Result<()> {
        // In a second stage it is there already.
        let _ = self.cancel.set(Cancel::new()?);
        Ok(())
    }

    /// Asks movers to stop between two pieces.
    pub(crate) fn end(&self) {
        self.ending.store(true, Relaxed);
        if let Some(cancel) = self.cancel.get() {
            cancel.cancel();
        }
    }

    pub(crate) fn ending(&self) -> bool {
        self.ending.load(Relaxed)
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

    /// Notes that a line was drawn, or ended.
    pub(crate) fn set_line_open(&self, open: bool) {
        self.line_open.store(open, Relaxed);
    }

    /// Notes that the drawn line is ended; whether there was one.
    pub(crate) fn end_line(&self) -> bool {
        self.line_open.swap(false, Relaxed)
    }

    /// Says a message, on a line of its own.
    pub(crate) fn say(&self, text: std::fmt::Arguments<'_>) {
        let end = if self.end_line() { "\n" } else { "" };
        crate::say(format_args!("{end}pv: {text}"));
    }
}
