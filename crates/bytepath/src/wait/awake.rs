//! Keeping an end of a pipe awake that would otherwise sleep once a pipeful.
//!
//! Two ends that block, each on a CPU of its own, have two ways of going on, and either lasts. In
//! the one nobody sleeps: each finds the other at work, and takes the pipe over when it is let go.
//! In the other the writer fills the pipe, wakes the reader and falls asleep before that one has
//! woken up; the reader empties the pipe, wakes the writer and falls asleep in turn. Every pipeful
//! then costs two wake-ups one after the other: seen on two CPUs of a virtual machine (AMD EPYC,
//! Linux 6.18, 23 µs a wake-up), 128 KiB by vmsplice and splice take 75 µs that way and 2.3 µs the
//! other. Whatever made one of them late once (an interrupt, another process) makes them both
//! sleep from then on.
//!
//! One wait without sleeping ends that: after a call that slept, this end looks whether it could go
//! on for as long as the other needs to wake up. As soon as it can, both are awake. Where it cannot
//! by then (the other end is slow), the next calls are left alone, each time twice as many.
//!
//! Nobody waits so on a CPU that others want, the other end among them: the scheduler would make up
//! for it by letting them interrupt this end once a pipeful (20% slower, seen for as long as the
//! stream lasted). Whether others want it is what the kernel counts as this thread's run delay.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// How long to wait without sleeping: a wake-up across the CPUs of a virtual machine.
const PATIENCE: Duration = Duration::from_micros(50);

/// Calls left alone after a wait in vain or on a CPU that others want, at the most. They are not
/// even timed: where two processes share a CPU and every switch empties the TLB, the pages of the
/// clock alone cost 1 to 2 µs a call.
const LEFT_ALONE_MAX: u32 = 4096;

/// A call of so many bytes that took longer than this has slept, or has waited for long.
fn slept(took: Duration, bytes: usize) -> bool {
    // 64 bytes a nanosecond is what lending 4 KiB pages comes to at the least.
    took > Duration::from_nanos(3_000 + bytes as u64 / 64)
}

/// Decides, call by call, whether to wait without sleeping.
#[derive(Debug, Default)]
pub(crate) struct Awake {
    last_ended: Option<Instant>,
    asleep: bool,
    /// Calls still to be left alone, and how many were, last time.
    left_alone: u32,
    left_alone_last: u32,
    rivals: Rivals,
}

impl Awake {
    /// To be called before each call: waits if the one before slept. `ready` tells whether the call
    /// would go through.
    #[inline(always)]
    pub(crate) fn before(&mut self, ready: impl FnMut() -> bool) {
        if self.asleep {
            self.asleep = false;
            self.wait(ready);
        }
    }

    #[cold]
    fn wait(&mut self, mut ready: impl FnMut() -> bool) {
        let began = Instant::now();
        let helped = match self.rivals.present(began) {
            None => return,
            Some(true) => false,
            Some(false) => loop {
                if ready() {
                    break true;
                }
                if began.elapsed() > PATIENCE {
                    break false;
                }
                std::hint::spin_loop();
            },
        };
        self.last_ended = helped.then(Instant::now);
        self.left_alone_last =
            if helped { 0 } else { (2 * self.left_alone_last).clamp(1, LEFT_ALONE_MAX) };
        self.left_alone = self.left_alone_last;
    }

    /// To be called after each call that moved bytes.
    #[inline(always)]
    pub(crate) fn moved(&mut self, bytes: usize, now: impl FnOnce() -> Instant) {
        if self.left_alone > 0 {
            self.left_alone -= 1;
            return;
        }
        let now = now();
        let began = self.last_ended.replace(now);
        self.asleep = began.is_some_and(|began| slept(now - began, bytes));
    }
}

/// How long a look at who wants this thread's CPU lasts at the least.
const LOOK: Duration = Duration::from_micros(500);

/// A thread that could have run, but did not, for this share of the time (1 in so many) has rivals.
/// Seen: 1 in 100 with an end on each CPU, 1 in 4 with both on one.
const RIVALS_SHARE: u32 = 16;

/// Whether others want this thread's CPU.
#[derive(Debug, Default)]
struct Rivals {
    schedstat: Option<File>,
    /// When the present look began, and this thread's run delay then.
    since: Option<(Instant, Duration)>,
    present: Option<bool>,
}

impl Rivals {
    /// Whether there are any, as far as was seen by now.
    fn present(&mut self, now: Instant) -> Option<bool> {
        match self.since {
            Some((since, _)) if now - since < LOOK => {}
            Some((since, before)) => {
                let delay = self.run_delay();
                self.present = Some(match delay {
                    Some(delay) => delay.saturating_sub(before) * RIVALS_SHARE > now - since,
                    // A kernel that does not count: wait for nobody.
                    None => true,
                });
                self.since = delay.map(|delay| (now, delay)).or(self.since);
            }
            None => self.since = Some((now, self.run_delay().unwrap_or_default())),
        }
        self.present
    }

    /// The second number of /proc/thread-self/schedstat (proc_pid_schedstat(5)).
    fn run_delay(&mut self) -> Option<Duration> {
        if self.schedstat.is_none() {
            self.schedstat = File::open("/proc/thread-self/schedstat").ok();
        }
        let mut text = [0; 96];
        let len = self.schedstat.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..len]).ok()?;
        text.split_ascii_whitespace().nth(1)?.parse().ok().map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    const PIPEFUL: usize = 128 << 10;

    /// An end that has its CPU for itself.
    fn alone() -> Awake {
        let far = Instant::now() + Duration::from_secs(3600);
        let rivals =
            Rivals { schedstat: None, since: Some((far, Duration::ZERO)), present: Some(false) };
        Awake { rivals, ..Awake::default() }
    }

    /// After a call that took so long: how often it was asked whether the next would go through.
    fn asked(awake: &mut Awake, took: Duration, ready: bool) -> u32 {
        let mut asked = 0;
        let began = Instant::now();
        awake.last_ended = awake.last_ended.map(|_| began);
        awake.moved(PIPEFUL, || began + took);
        awake.before(|| {
            asked += 1;
            ready
        });
        asked
    }

    #[test]
    fn only_a_call_that_slept_is_waited_after() {
        let mut awake = alone();
        assert_eq!(asked(&mut awake, Duration::from_micros(40), true), 0, "no beginning");
        assert_eq!(asked(&mut awake, Duration::from_micros(2), true), 0);
        assert_eq!(asked(&mut awake, Duration::from_micros(40), true), 1);
        assert_eq!(asked(&mut awake, Duration::from_micros(2), true), 0);
    }

    #[test]
    fn waits_in_vain_become_rare_and_one_that_helps_brings_them_back() {
        let mut awake = alone();
        let sleep = Duration::from_micros(40);
        let in_vain = |awake: &mut Awake| asked(awake, sleep, false) > 0;
        let waits = (0..100_000).filter(|_| in_vain(&mut awake)).count();
        assert!((10..50).contains(&waits), "{waits} waits in vain for 100000 sleeps");
        while asked(&mut awake, sleep, true) == 0 {}
        assert_eq!(asked(&mut awake, sleep, true), 1);
        assert_eq!(asked(&mut awake, sleep, true), 1);
    }

    #[test]
    fn a_kernel_that_does_not_count_is_taken_for_one_with_rivals() {
        let mut rivals =
            Rivals { schedstat: Some(File::open("/dev/null").expect("null")), ..Rivals::default() };
        let now = Instant::now();
        assert_eq!(rivals.present(now), None);
        assert_eq!(rivals.present(now + LOOK), Some(true));
    }

    #[test]
    fn rivals_are_there_when_the_thread_could_have_run_and_did_not() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let delayed = |nanos: u64| {
            file.as_file().set_len(0).expect("emptied");
            file.as_file().write_all_at(format!("0 {nanos} 7\n").as_bytes(), 0).expect("written");
        };
        let mut rivals = Rivals { schedstat: file.reopen().ok(), ..Rivals::default() };
        let mut now = Instant::now();
        delayed(1_000_000);
        assert_eq!(rivals.present(now), None, "nothing was seen yet");
        for (delay, present) in [(1_010_000, false), (2_010_000, true), (2_020_000, false)] {
            delayed(delay);
            now += 2 * LOOK;
            assert_eq!(rivals.present(now), Some(present), "{delay}");
        }
    }

    #[test]
    fn a_thread_that_shares_its_cpu_has_rivals() {
        let allowed = rustix::thread::sched_getaffinity(None).expect("the CPUs allowed");
        let mut one = rustix::thread::CpuSet::new();
        let mut all = 0..rustix::thread::CpuSet::MAX_CPU;
        one.set(all.find(|&cpu| allowed.is_set(cpu)).expect("a CPU"));
        let stop = AtomicBool::new(false);
        let spin = |enough: &dyn Fn() -> bool| {
            while !enough() {
                std::hint::spin_loop();
            }
        };
        let present = std::thread::scope(|scope| {
            let looks = scope.spawn(|| {
                // The other inherits where it may run.
                rustix::thread::sched_setaffinity(None, &one).expect("a CPU of ours");
                scope.spawn(|| spin(&|| stop.load(Relaxed)));
                let (mut rivals, began) = (Rivals::default(), Instant::now());
                rivals.present(began);
                spin(&|| began.elapsed() > Duration::from_millis(100));
                let present = rivals.present(Instant::now());
                stop.store(true, Relaxed);
                present
            });
            looks.join().expect("no panic")
        });
        assert_eq!(present, Some(true));
    }
}
