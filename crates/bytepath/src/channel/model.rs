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
    wait_in(ours, bytes, end, ours.desk(), theirs.desk())
}

/// Likewise, asleep in this end's bed.
fn wait_in(bed: &Words, bytes: u64, end: &mut End, ours: Desk<'_>, theirs: Desk<'_>) -> bool {
    loop {
        let ended = End::other_ended(theirs);
        end.look(theirs).expect("the other end is no liar");
        if end.room() >= bytes || ended {
            return end.room() >= bytes;
        }
        if end.lie_down(bytes, IN_FUTEX, ours, theirs).expect("no liar") {
            bed.futex_wait();
            End::get_up(ours);
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

/// What a sender to several shares with each of them: the count and the end are the same for all, and
/// what it sleeps by is each one's.
struct Broadcast {
    passed: AtomicU64,
    ended: AtomicU32,
    /// What the sender sleeps by, and the receiver's words.
    each: [(Words, Words); RECEIVERS],
    ring: Cell<u64>,
}

const RECEIVERS: usize = 2;

impl Broadcast {
    /// What the sender tells one of them, and where it sleeps for it.
    fn sender(&self, index: usize) -> Desk<'_> {
        let Words { sleep, until, .. } = &self.each[index].0;
        Desk { passed: &self.passed, ended: &self.ended, sleep, until }
    }
}

fn sent_to_all(memory: &Broadcast, numbers: u64) {
    let mut all = End::sender(1);
    let mut ends = [End::sender(1), End::sender(1)];
    for number in 0..numbers {
        if all.room() == 0 {
            for (index, end) in ends.iter_mut().enumerate() {
                let (bed, theirs) = &memory.each[index];
                wait_in(bed, 1, end, memory.sender(index), theirs.desk());
            }
            all.follow(ends.iter());
        }
        memory.ring.set(number);
        all.advance(1);
        all.tell(&memory.passed);
        for (end, (_, theirs)) in ends.iter_mut().zip(&memory.each) {
            end.advance(1);
            if end.rouse(theirs.desk()).is_some() {
                theirs.futex_wake();
            }
        }
    }
    End::tell_end(&memory.ended);
    for (_, theirs) in &memory.each {
        if theirs.desk().roused().is_some() {
            theirs.futex_wake();
        }
    }
}

fn received_of_all(memory: &Broadcast, index: usize) -> u64 {
    let (theirs, ours) = &memory.each[index];
    let mut end = End::receiver(1);
    while wait_in(ours, 1, &mut end, ours.desk(), memory.sender(index)) {
        assert_eq!(memory.ring.get(), end.passed(), "what was sent, in its order");
        if end.pass(1, ours.desk(), memory.sender(index)).is_some() {
            theirs.futex_wake();
        }
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

#[test]
fn everything_arrives_at_each_of_several_and_nobody_sleeps_for_ever() {
    let mut model = loom::model::Builder::new();
    // With two it takes a minute, and finds nothing more.
    model.preemption_bound = Some(1);
    model.check(|| {
        let each = [(Words::new(), Words::new()), (Words::new(), Words::new())];
        let (passed, ended) = (AtomicU64::new(0), AtomicU32::new(0));
        let memory = Arc::new(Broadcast { passed, ended, each, ring: Cell::new(u64::MAX) });
        let [one, other] = [Arc::clone(&memory), Arc::clone(&memory)];
        let one = thread::spawn(move || assert_eq!(received_of_all(&one, 0), 2));
        let other = thread::spawn(move || assert_eq!(received_of_all(&other, 1), 2));
        sent_to_all(&memory, 2);
        one.join().expect("no panic");
        other.join().expect("no panic");
    });
}
