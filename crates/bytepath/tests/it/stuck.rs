//! Tells when another thread cannot go on, without waiting for a time to pass.

use bytepath::Meter;
use rustix::thread::Pid;

/// Looks that have to agree that the mover cannot go on: it may be asleep for a moment only.
const LOOKS: usize = 50;

/// Comes back when the mover sleeps or spins and nothing moves any more, or when it has ended.
pub(crate) fn until_stuck(mover: Pid, meter: &Meter, ended: impl Fn() -> bool) {
    let (mut seen, mut looks) = (meter.read().bytes, 0);
    while looks < LOOKS && !ended() {
        std::thread::yield_now();
        let now = meter.read();
        let stuck = now.bytes == seen && (sleeps(mover) || now.waits > 0);
        looks = if stuck { looks + 1 } else { 0 };
        seen = now.bytes;
    }
}

/// Whether the kernel has put a thread of this process to sleep.
fn sleeps(thread: Pid) -> bool {
    let path = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
    let stat = std::fs::read_to_string(path).unwrap_or_default();
    // "1234 (name) S ..."; a name can hold anything but ends at the last bracket.
    stat.rsplit_once(')').is_some_and(|(_, after)| after.trim_start().starts_with('S'))
}
