//! SIGINT, SIGTERM and SIGHUP during a copying that takes long: how far it came is told, and then the
//! signal ends the program, as whoever sent it expects.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use bytepath_report::numbers;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::emulate_default_handler;

use super::entry::Shared;
use crate::bench::interrupt::is_ignored;

/// The exit code of whoever cannot be ended by a signal, by the custom of shells.
const BY_SIGNAL: i32 = 128;

/// The signal that came, or 0.
#[derive(Default)]
pub(super) struct Interrupts {
    came: Arc<AtomicUsize>,
}

impl Interrupts {
    /// Catches them from now on; somebody has to look whether one came. Where that is refused, or
    /// they were ignored when the program was started, all is as ever.
    pub(super) fn catch(&self) {
        for signal in [SIGINT, SIGTERM, SIGHUP].into_iter().filter(|signal| !is_ignored(*signal)) {
            let number = signal.unsigned_abs() as usize;
            let _ = signal_hook::flag::register_usize(signal, self.came.clone(), number);
        }
    }

    /// The signal that came.
    pub(super) fn came(&self) -> Option<i32> {
        i32::try_from(self.came.load(Relaxed)).ok().filter(|signal| *signal != 0)
    }
}

/// Tells how far it came, and ends the program.
pub(super) fn end(shared: &Shared<'_>, signal: i32) -> ! {
    let (files, bytes) = shared.tally.copied();
    let advice = match (shared.extras.atomic, shared.extras.resume) {
        (true, false) => "no name stands for half a file",
        (true, true) => "no name stands for half a file; the same command goes on",
        (false, true) => "what was being copied is not whole; the same command goes on",
        (false, false) => "what was being copied is not whole; --resume goes on",
    };
    let bytes = numbers::bytes(bytes);
    shared.voice.warn(format_args!("interrupted after {files} files, {bytes}: {advice}"));
    let _ = shared.voice.flush();
    // What cannot be written now is not worth another message.
    let _ = shared.voice.ledger.close(u8::try_from(BY_SIGNAL + signal).unwrap_or(u8::MAX));
    let _ = emulate_default_handler(signal);
    // The first process of a container is ended by no default action.
    std::process::exit(BY_SIGNAL + signal)
}
