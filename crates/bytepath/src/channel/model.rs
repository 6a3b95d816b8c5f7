//! The ring under a model checker (loom), which tries every order that the memory model allows, and
//! says so where an end sleeps for ever or a byte is looked at before it is there.

use loom::cell::Cell;
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;

/// The ring, on the model checker's atomics.
#[path = "ring.rs"]
#[expect(dead_code, reason = "the model has no poll(2)")]
#[expect(clippy::duplicate_mod, reason = "the same lines, on other atomics")]
mod ring;

mod atomic {
    pub(super) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}

use atomic::{AtomicU32, AtomicU64, Ordering};
use ring::{Desk, End, IN_FUTEX};

const CAPACITY: usize = 2;

/// One end's words, and its futex: the kernel looks at the word and goes to sleep in one.
struct Words {
    passed: AtomicU64,
    ended: AtomicU32,
    sleep: AtomicU32,
    until: AtomicU64,
    bed: (Mutex<()>, Condvar),
}

impl Words {
    fn new() -> Words {
        let (passed, until) = (AtomicU64::new(0), AtomicU64::new(0));
        let (ended, sleep) = (AtomicU32::new(0), AtomicU32::new(0));
        Words { passed, ended, sleep, until, bed: (Mutex::new(()), Condvar::new()) }
    }

    fn desk(&self) -> Desk<'_> {
        let Words { passed, ended, sleep, until, .. } = self;
        Desk { passed, ended, sleep, until }
    }

    fn futex_wait(&self) {
        let guard = self.bed.0.lock().expect("no panic");
        if self.sleep.load(Ordering::Relaxed) == IN_FUTEX {
            drop(self.bed.1.wait(guard).expect("no panic"));
        }
    }

    fn futex_wake(&self) {
        let _guard = self.bed.0.lock().expect("no panic");
        self.bed.1.notify_one();
    }
}

struct Memory {
    sender: Words,
    receiver: Words,
    ring: [Cell<u64>; CAPACITY],
}

/// Waits for room; false where the other end is done before there is.
fn wait_for(bytes: u64, end: &mut End, ours: &Words, theirs: &Words) -> bool {
    loop {
        let ended = End::other_ended(theirs.desk());
        end.look(theirs.desk()).expect("the other end is no liar");
        if end.room() >= bytes || ended {
            return end.room() >= bytes;
        }
        if end.lie_down(bytes, IN_FUTEX, ours.desk(), theirs.desk()).expect("no liar") {
            ours.futex_wait();
            End::get_up(ours.desk());
        }
    }
}

fn sent(memory: &Memory, numbers: u64, pieces: u64) {
    let (ours, theirs) = (&memory.sender, &memory.receiver);
    let mut end = End::sender(CAPACITY);
    for number in 0..numbers {
        // Sleeping until there is more room than is needed.
        if end.room() == 0 && !wait_for(pieces, &mut end, ours, theirs) {
            return;
        }
        memory.ring[end.at()].set(number);
        if end.pass(1, ours.desk(), theirs.desk()).is_some() {
            theirs.futex_wake();
        }
    }
    if End::end(ours.desk(), theirs.desk()).is_some() {
        theirs.futex_wake();
    }
}

fn received(memory: &Memory, most: u64) -> u64 {
    let (ours, theirs) = (&memory.receiver, &memory.sender);
    let mut end = End::receiver(CAPACITY);
    while end.passed() < most && wait_for(1, &mut end, ours, theirs) {
        assert_eq!(memory.ring[end.at()].get(), end.passed(), "what was sent, in its order");
        if end.pass(1, ours.desk(), theirs.desk()).is_some() {
            theirs.futex_wake();
        }
    }
    if End::end(ours.desk(), theirs.desk()).is_some() {
        theirs.futex_wake();
    }
    end.passed()
}

/// Tries all orders in which a CPU is taken from the ends no more than twice.
fn in_every_order(work: impl Fn(Arc<Memory>) + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(move || {
        let ring = [Cell::new(u64::MAX), Cell::new(u64::MAX)];
        work(Arc::new(Memory { sender: Words::new(), receiver: Words::new(), ring }));
    });
}

#[test]
fn everything_arrives_in_order_and_nobody_sleeps_for_ever() {
    for pieces in [1, CAPACITY as u64] {
        in_every_order(move |memory| {
            let other = Arc::clone(&memory);
            let sender = thread::spawn(move || sent(&other, 3, pieces));
            assert_eq!(received(&memory, u64::MAX), 3);
            sender.join().expect("no panic");
        });
    }
}

#[test]
fn a_receiver_that_is_done_ends_a_sleeping_sender() {
    in_every_order(|memory| {
        let other = Arc::clone(&memory);
        let sender = thread::spawn(move || sent(&other, 4, 1));
        assert_eq!(received(&memory, 1), 1);
        sender.join().expect("no panic");
    });
}
