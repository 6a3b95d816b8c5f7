//! One sender and many receivers: every message for each from when it joined until it leaves.

mod hostile;
mod joining;
mod killed;
mod random;

use std::os::fd::AsFd;
use std::time::Duration;

use bytepath::channel::{
    Broadcast, ChannelError, Connection, MessageNow, MessageReceiver, Receivers, Setup,
};

use super::{readable, small, until_readable, waits};
use crate::ends::contents;
use crate::watch::bounded;

const PATIENCE: Duration = Duration::from_secs(20);

/// One more receiver.
fn joined(sender: &mut Broadcast, setup: Setup) -> MessageReceiver {
    let (here, there) = Connection::pair().expect("a pair");
    let wished = sender.receivers().present + 1;
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || there.message_receiver(&setup).expect("a receiver"));
        sender.add(here).expect("it may join");
        sender.wait_for_receivers(wished, PATIENCE).expect("it joins");
        receiver.join().expect("no panic")
    })
}

fn several(receivers: usize, setup: Setup) -> (Broadcast, Vec<MessageReceiver>) {
    let mut sender = Broadcast::new(&setup).expect("a sender");
    let receivers = (0..receivers).map(|_| joined(&mut sender, setup)).collect();
    (sender, receivers)
}

/// The message of this number, which no other is like.
fn message(number: u64) -> Vec<u8> {
    let len = (number.wrapping_mul(0x9e37_79b9) % 1500) as usize;
    [&number.to_le_bytes(), contents(len)].concat()
}

/// The number of a message.
fn number_of(bytes: &[u8]) -> u64 {
    let number = u64::from_le_bytes(*bytes.first_chunk().expect("a number"));
    assert!(bytes == message(number), "message {number} is whole");
    number
}

/// Receives the next message; its number, or `None` at the end.
fn received(receiver: &mut MessageReceiver) -> Result<Option<u64>, ChannelError> {
    let Some(message) = receiver.receive()? else { return Ok(None) };
    let mut bytes = vec![0; message.bytes().len()];
    message.bytes().copy_to(&mut bytes);
    Ok(Some(number_of(&bytes)))
}

/// Receives all that follows, which has to begin here; where it ended, and how.
fn rest(receiver: &mut MessageReceiver, mut next: u64) -> (u64, Option<ChannelError>) {
    loop {
        match received(receiver) {
            Ok(Some(number)) => assert_eq!(number, next, "nothing is left out"),
            Ok(None) => return (next, None),
            Err(error) => return (next, Some(error)),
        }
        next += 1;
    }
}

/// Admits until this is so. A process that another test is starting may hold a socket for a moment
/// after it was closed.
fn admits_until(sender: &mut Broadcast, so: impl Fn(Receivers) -> bool) {
    while !so(sender.admit().expect("an answer")) {
        std::thread::yield_now();
    }
}

fn takes_nothing_now(receiver: &mut MessageReceiver) {
    assert!(matches!(receiver.try_receive(), Ok(MessageNow::Nothing)));
}

#[test]
fn every_receiver_gets_every_message_whatever_the_waits() {
    bounded(|watch| {
        for (one, other) in waits().flat_map(|one| waits().map(move |other| (one, other))) {
            watch.at(format_args!("{one} to {other}"));
            let mut sender = Broadcast::new(&Setup { wait: one, ..small() }).expect("a sender");
            let readers: Vec<_> = (0..3)
                .map(|_| {
                    let mut receiver = joined(&mut sender, Setup { wait: other, ..small() });
                    std::thread::spawn(move || rest(&mut receiver, 0))
                })
                .collect();
            for number in 0..500 {
                sender.send(&message(number)).expect("it goes");
            }
            sender.wait_until_taken().expect("all of them");
            assert_eq!(sender.receivers().present, 3);
            sender.finish();
            for reader in readers {
                let (next, error) = reader.join().expect("no panic");
                assert!(next == 500 && error.is_none(), "{next}, {error:?}");
            }
        }
    });
}

#[test]
fn a_slow_receiver_holds_the_sender_and_nobody_loses_anything() {
    let (mut sender, mut receivers) = several(3, small());
    let mut sent = 0;
    while let Some(mut space) = sender.try_space(message(sent).len()).expect("an answer") {
        space.bytes().copy_from(0, &message(sent));
        space.commit(message(sent).len());
        sent += 1;
        for fast in &mut receivers[1..] {
            assert_eq!(received(fast).expect("one"), Some(sent - 1));
        }
    }
    receivers[1..].iter_mut().for_each(takes_nothing_now);
    assert!(sender.try_space(2000).expect("an answer").is_none(), "the slow one has them all");
    for number in 0..sent {
        assert_eq!(received(&mut receivers[0]).expect("one"), Some(number));
    }
    sender.send(&message(sent)).expect("there is room");
    for receiver in &mut receivers {
        assert_eq!(received(receiver).expect("one"), Some(sent));
    }
}

#[test]
fn a_receiver_that_leaves_holds_the_sender_no_longer() {
    bounded(|watch| {
        for wait in waits() {
            watch.at(wait);
            let (mut sender, mut receivers) = several(2, Setup { wait, ..small() });
            let mut stays = receivers.remove(0);
            let writer = std::thread::spawn(move || {
                for number in 0..100 {
                    sender.send(&message(number)).expect("it goes");
                }
                sender.wait_until_taken().expect("all of them");
                let receivers = sender.receivers();
                sender.finish();
                receivers
            });
            assert_eq!(received(&mut receivers[0]).expect("one"), Some(0));
            let reader = std::thread::spawn(move || rest(&mut stays, 0));
            drop(receivers);
            assert_eq!(reader.join().expect("no panic").0, 100);
            let wanted = Receivers { present: 1, left: 1, ..Receivers::default() };
            assert_eq!(writer.join().expect("no panic"), wanted);
        }
    });
}

#[test]
fn a_receiver_that_left_is_seen_to_have_whoever_else_has_its_socket() {
    bounded(|_| {
        let mut sender = Broadcast::new(&small()).expect("a sender");
        let (here, there) = Connection::pair().expect("a pair");
        let _copy = there.as_fd().try_clone_to_owned().expect("a copy");
        let joins = std::thread::spawn(move || there.message_receiver(&small()));
        sender.add(here).expect("it may join");
        sender.wait_for_receivers(1, PATIENCE).expect("it joins");
        drop(joins.join().expect("no panic").expect("a receiver"));
        let now = sender.admit().expect("an answer");
        assert_eq!((now.present, now.left, now.lost), (0, 1, 0));
    });
}

#[test]
fn messages_for_nobody_go_nowhere() {
    let mut sender = Broadcast::new(&small()).expect("a sender");
    for number in 0..100 {
        sender.send(&message(number)).expect("it goes");
    }
    let mut late = joined(&mut sender, small());
    takes_nothing_now(&mut late);
    sender.send(&message(100)).expect("it goes");
    assert_eq!(received(&mut late).expect("one"), Some(100));
    drop(late);
    for number in 0..100 {
        sender.send(&message(number)).expect("it goes");
    }
    sender.wait_until_taken().expect("nobody has to");
}

#[test]
fn a_sender_that_did_not_finish_is_an_error_after_its_last_message() {
    let (mut sender, mut receivers) = several(2, small());
    for number in 0..3 {
        sender.send(&message(number)).expect("it goes");
    }
    sender.space(13).expect("space").bytes().copy_from(0, b"not committed");
    drop(sender);
    for receiver in &mut receivers {
        let (next, error) = rest(receiver, 0);
        assert_eq!(next, 3);
        assert!(matches!(error, Some(ChannelError::Gone { passed: None })), "{error:?}");
    }
}

#[test]
fn a_message_that_is_too_long_is_refused_and_the_queue_goes_on() {
    let (mut sender, mut receivers) = several(1, small());
    let longest = sender.longest();
    let error = sender.send(contents(longest + 1)).expect_err("it is too long");
    assert!(matches!(error, ChannelError::TooLong { most, .. } if most == longest), "{error:?}");
    sender.send(contents(longest)).expect("it goes");
    let message = receivers[0].receive().expect("one").expect("no end");
    assert_eq!(message.bytes().len(), longest);
}

#[test]
fn who_polls_is_woken() {
    bounded(|_| {
        let (mut sender, mut receivers) = several(2, small());
        for receiver in &mut receivers {
            assert!(!receiver.watch().expect("an answer") && !readable(receiver));
        }
        sender.send(&message(0)).expect("it goes");
        for receiver in &mut receivers {
            until_readable(&*receiver);
            assert_eq!(received(receiver).expect("one"), Some(0));
        }
        while sender.try_space(1000).expect("an answer").map(|space| space.commit(1000)).is_some() {
        }
        assert!(!sender.watch(1000).expect("an answer") && !readable(&sender));
        drop(receivers[0].receive().expect("one"));
        assert!(sender.try_space(1000).expect("an answer").is_none(), "the other has not yet");
        assert!(!sender.watch(1000).expect("an answer"));
        drop(receivers[1].receive().expect("one"));
        until_readable(&sender);
        assert!(sender.try_space(1000).expect("an answer").is_some());
        drop(receivers);
        until_readable(&sender);
        let left = Receivers { left: 2, ..Receivers::default() };
        while sender.admit().expect("an answer") != left {
            until_readable(&sender);
        }
        assert!(!readable(&sender));
    });
}
