//! Work that is interrupted all the time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::sys;

/// Interrupts the calling thread over and over while it does its work.
pub(crate) fn in_a_storm<T>(work: impl FnOnce() -> T) -> T {
    sys::make_interruptible();
    let (over, thread) = (AtomicBool::new(false), rustix::thread::gettid());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                sys::interrupt(thread);
                // Else a sleep might not come any nearer to its end.
                std::thread::sleep(Duration::from_micros(1));
            }
        });
        // Ends the storm also where the work panics, or the scope would wait for ever.
        let _over = Ends(&over);
        work()
    })
}

struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_storm_ends_where_its_work_panics() {
    crate::watch::bounded(|_| {
        let work = || in_a_storm(|| panic!("on purpose"));
        assert!(std::panic::catch_unwind(work).is_err());
    });
}
