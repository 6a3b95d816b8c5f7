//! The end of this process by a signal, as whoever sent it expects.
//!
//! No default action reaches the first process of a container: it ends by the exit code that shells
//! give for the signal.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::process::getpid;
use signal_hook::flag::{register_conditional_default, register_conditional_shutdown};
use signal_hook::low_level::emulate_default_handler;

/// Added to a signal's number, by the custom of shells.
pub(crate) const BY_SIGNAL: i32 = 128;

/// Ends this process by the signal.
pub(crate) fn by_signal(signal: i32) -> ! {
    // What it does where its own signal has no effect is to end by another, and that by a fault.
    if !getpid().is_init() {
        let _ = emulate_default_handler(signal);
    }
    std::process::exit(BY_SIGNAL + signal)
}

/// From now on the signal ends this process while the flag is set.
///
/// # Errors
/// Handlers are refused.
pub(crate) fn by_signal_while(signal: i32, flag: Arc<AtomicBool>) -> std::io::Result<()> {
    match getpid().is_init() {
        true => register_conditional_shutdown(signal, BY_SIGNAL + signal, flag),
        false => register_conditional_default(signal, flag),
    }
    .map(drop)
}
