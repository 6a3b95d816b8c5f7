//! Queues of messages.

use bytepath::channel::{
    ChannelError, Connection, MessageNow, MessageReceiver, MessageSender, Setup,
};

use super::{small, until_readable, waits};
use crate::ends::contents;
use crate::watch::bounded;

pub(super) fn queue(setup: Setup) -> (MessageSender, MessageReceiver) {
    let (here, there) = Connection::pair().expect("a pair");
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || there.message_receiver(&setup).expect("a receiver"));
        let sender = here.message_sender(&setup).expect("a sender");
        (sender, receiver.join().expect("no panic"))
    })
}

/// Lengths that come round, from nothing to the longest.
fn lengths(longest: usize) -> impl Iterator<Item = usize> {
    (0..2000).map(move |n: usize| n.wrapping_mul(0x9e37_79b9) % (longest + 1))
}

#[test]
fn messages_keep_their_order_and_their_bounds_whatever_the_waits() {
    bounded(|watch| {
        let rings = [small().ring_bytes, 8192 + 64, 32 << 10];
        for (wait, ring_bytes) in waits().flat_map(|wait| rings.map(|ring| (wait, ring))) {
            watch.at(format_args!("{wait:?}, {ring_bytes}"));
            let (mut sender, mut receiver) = queue(Setup { wait, ring_bytes, ..small() });
            let longest = sender.longest();
            assert!(longest > ring_bytes / 2 - 100, "{longest} of {ring_bytes}");
            let reader = std::thread::spawn(move || {
                for len in lengths(longest) {
                    let message = receiver.receive().expect("one").expect("no end");
                    let mut bytes = vec![0; message.bytes().len()];
                    message.bytes().copy_to(&mut bytes);
                    assert_eq!(bytes, contents(len));
                }
                assert!(receiver.receive().expect("an answer").is_none());
            });
            for len in lengths(longest) {
                sender.send(contents(len)).expect("it goes");
            }
            sender.wait_until_taken().expect("all of them");
            sender.finish();
            reader.join().expect("no panic");
        }
    });
}

/// So that vectors do not lie across two lines of a cache.
#[test]
fn what_follows_a_long_message_begins_with_a_cache_line() {
    let setup = Setup { ring_bytes: 64 << 10, ..small() };
    let (mut sender, mut receiver) = queue(setup);
    let mut is_aligned = true;
    for len in [8, 24, 5000, 8, 4096, 30_000, 5001, 32, 9000].repeat(20) {
        sender.send(contents(len)).expect("it goes");
        let message = receiver.receive().expect("one").expect("no end");
        let (before, words, _) = message.bytes().words();
        assert!(before.is_empty(), "{len}");
        assert!(!is_aligned || words.as_ptr().addr() % 64 == 0, "{len}");
        is_aligned = len >= 4096;
    }
}

#[test]
fn a_message_that_is_too_long_is_refused_and_the_queue_goes_on() {
    let (mut sender, mut receiver) = queue(small());
    let longest = sender.longest();
    let error = sender.send(contents(longest + 1)).expect_err("it is too long");
    assert!(matches!(error, ChannelError::TooLong { most, .. } if most == longest), "{error:?}");
    sender.send(contents(longest)).expect("it goes");
    assert_eq!(receiver.receive().expect("one").expect("no end").bytes().len(), longest);
}

#[test]
fn less_than_the_space_may_be_committed() {
    let (mut sender, mut receiver) = queue(small());
    for _ in 0..10 {
        let mut space = sender.space(1500).expect("space");
        space.bytes().copy_from(0, b"short");
        space.commit(5);
        sender.space(2000).expect("space").bytes().copy_from(0, b"not committed");
        let message = receiver.receive().expect("one").expect("no end");
        let mut bytes = [0; 5];
        message.bytes().copy_to(&mut bytes);
        assert_eq!(&bytes, b"short");
    }
    assert!(matches!(receiver.try_receive(), Ok(MessageNow::Nothing)));
}

#[test]
fn who_polls_for_messages_is_woken() {
    bounded(|_| {
        let (mut sender, mut receiver) = queue(small());
        assert!(!receiver.watch().expect("an answer"));
        sender.send(b"one").expect("it goes");
        until_readable(&receiver);
        assert!(matches!(receiver.try_receive(), Ok(MessageNow::Message(_))));
        while sender.try_space(1000).expect("an answer").map(|space| space.commit(1000)).is_some() {
        }
        assert!(!sender.watch(1000).expect("an answer"));
        drop(receiver.receive().expect("one"));
        until_readable(&sender);
        assert!(sender.try_space(1000).expect("an answer").is_some());
    });
}

#[test]
fn ends_that_share_a_cpu_answer_each_other_whatever_the_waits() {
    bounded(|watch| {
        let cpu = bytepath::machine::Machine::this().allowed_cpus().iter().next();
        let cpu = cpu.expect("a CPU");
        for (one, other) in waits().flat_map(|one| waits().map(move |other| (one, other))) {
            watch.at(format_args!("{one} and {other}"));
            let (mut out, mut there) = queue(Setup { wait: one, ..small() });
            let (mut home, mut back) = queue(Setup { wait: other, ..small() });
            let answers = std::thread::spawn(move || {
                let _pinned = bytepath::placement::pin_this_thread(cpu).expect("a CPU of ours");
                while let Some(message) = there.receive().expect("an answer") {
                    let mut bytes = [0; 8];
                    message.bytes().copy_to(&mut bytes);
                    home.send(&bytes).expect("it goes");
                }
                home.finish();
            });
            let _pinned = bytepath::placement::pin_this_thread(cpu).expect("a CPU of ours");
            for number in 0..200_u64 {
                out.send(&number.to_ne_bytes()).expect("it goes");
                let message = back.receive().expect("one").expect("no end");
                let mut bytes = [0; 8];
                message.bytes().copy_to(&mut bytes);
                assert_eq!(u64::from_ne_bytes(bytes), number);
            }
            out.finish();
            assert!(back.receive().expect("an answer").is_none());
            answers.join().expect("no panic");
        }
    });
}
