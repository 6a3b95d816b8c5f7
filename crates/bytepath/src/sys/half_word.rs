//! A word of memory whose first half can be slept on (futex(2)).
#![allow(unsafe_code)]

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::thread::futex;
use rustix::time::Timespec;

/// A word whose first half counts, and can be slept on. This process sees it as the whole word, which
/// others may do with the same memory; only the kernel looks at the half.
#[derive(Debug, Clone, Copy)]
pub struct HalfWord<'m>(&'m AtomicU64);

impl<'m> HalfWord<'m> {
    pub(crate) fn of(word: &'m AtomicU64) -> HalfWord<'m> {
        HalfWord(word)
    }

    /// Its value now.
    #[inline]
    pub fn load(self, order: Ordering) -> u32 {
        first_half(self.0.load(order))
    }

    /// Gives it this value.
    #[inline]
    pub fn store(self, value: u32, order: Ordering) {
        self.0.store(in_first_half(value), order);
    }

    /// Adds to it, from the greatest value on to 0 again; what it was.
    #[inline]
    pub fn fetch_add(self, value: u32, order: Ordering) -> u32 {
        first_half(self.0.fetch_add(in_first_half(value), order))
    }

    /// Sleeps until woken, by whichever process, at most so long; not at all where it is no longer what
    /// was seen. May wake for nothing.
    pub fn sleep(self, seen: u32, most: Option<Duration>) {
        let most = most.and_then(|most| Timespec::try_from(most).ok());
        let _ = futex::wait(self.futex(), futex::Flags::empty(), seen, most.as_ref());
    }

    /// Wakes so many of those that sleep on it, of all processes, at the most.
    pub fn wake(self, most: u32) {
        // The kernel takes it for a number with a sign.
        let most = most.min(i32::MAX as u32);
        let _ = futex::wake(self.futex(), futex::Flags::empty(), most);
    }

    /// The half, for the kernel alone: whoever used it here beside the word would race with it.
    fn futex(self) -> &'m AtomicU32 {
        let word: *const AtomicU64 = self.0;
        // SAFETY: the word is there for as long as 'm, and is aligned for its half.
        unsafe { &*word.cast::<AtomicU32>() }
    }
}

/// The half that comes first in memory.
fn first_half(word: u64) -> u32 {
    if cfg!(target_endian = "little") { word as u32 } else { (word >> 32) as u32 }
}

fn in_first_half(half: u32) -> u64 {
    if cfg!(target_endian = "little") { u64::from(half) } else { u64::from(half) << 32 }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn the_kernel_sees_what_was_stored_and_wakes_whoever_sleeps_on_it() {
        let word = AtomicU64::new(0);
        let half = HalfWord::of(&word);
        half.store(u32::MAX, Relaxed);
        assert_eq!(word.load(Relaxed).to_ne_bytes()[..4], [0xff; 4]);
        assert_eq!((half.fetch_add(2, Relaxed), half.load(Relaxed)), (u32::MAX, 1));
        // It is another value: nobody sleeps.
        half.sleep(0, None);
        std::thread::scope(|threads| {
            let sleeper = threads.spawn(|| {
                while half.load(Relaxed) == 1 {
                    half.sleep(1, None);
                }
            });
            half.store(2, Relaxed);
            half.wake(1);
            sleeper.join().expect("it wakes");
        });
    }

    #[test]
    fn all_that_sleep_on_it_are_woken_where_so_many_are_asked_for() {
        let word = AtomicU64::new(0);
        let half = HalfWord::of(&word);
        let (tell, told) = std::sync::mpsc::channel();
        std::thread::scope(|threads| {
            for _ in 0..3 {
                let tell = tell.clone();
                threads.spawn(move || {
                    tell.send(rustix::thread::gettid()).expect("it is heard");
                    while half.load(Relaxed) == 0 {
                        half.sleep(0, None);
                    }
                });
            }
            for thread in told.iter().take(3) {
                let stat = format!("/proc/self/task/{}/stat", thread.as_raw_nonzero());
                while !std::fs::read_to_string(&stat).expect("it lives").contains(") S ") {
                    std::thread::yield_now();
                }
            }
            half.store(1, Relaxed);
            half.wake(u32::MAX);
            let left = futex::wake(half.futex(), futex::Flags::empty(), i32::MAX as u32);
            assert_eq!(left, Ok(0), "still asleep");
        });
    }
}
