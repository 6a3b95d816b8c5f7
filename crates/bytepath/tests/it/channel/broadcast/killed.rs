//! Receivers and senders that are killed at any instant, as real processes.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::mpsc::Sender;

use bytepath::Wait;
use bytepath::channel::{Address, Broadcast, ChannelError, Connection, Listener, Setup};

use super::super::{name, waits};
use super::{PATIENCE, admits_until};
use crate::ends::contents;
use crate::examples::example;
use crate::trial::same;
use crate::watch::bounded;

const ROUNDS: usize = 10;

/// What is sent in a round.
const BYTES: usize = 6 << 20;

/// Bytes of a message: numbers that do not divide what is sent, nor each other.
const PIECES: [usize; 3] = [1009, 30_011, 61_007];

fn killed(mut child: Child) {
    child.kill().expect("it is killed");
    child.wait().expect("it is gone");
}

/// A consumer that writes there what it receives.
fn consumer(name: &str, copy: &Path) -> Option<Child> {
    let mut consumer = example("broadcast_consumer")?;
    consumer.arg(name).stdout(File::create(copy).expect("a file")).stderr(Stdio::null());
    Some(consumer.spawn().expect("it runs"))
}

/// Sends pieces of the contents, from one place to another.
fn send(sender: &mut Broadcast, from: usize, to: usize) {
    let mut at = from;
    for turn in 0.. {
        let piece = PIECES[turn % PIECES.len()].min(to - at);
        sender.send(&contents(BYTES)[at..at + piece]).expect("it goes");
        at += piece;
        if at == to {
            return;
        }
    }
}

#[test]
fn receivers_that_are_killed_hold_nobody_up_and_the_others_lose_nothing() {
    bounded(|watch| {
        for (round, wait) in (0..ROUNDS).flat_map(|round| waits().map(move |wait| (round, wait))) {
            watch.at(format_args!("round {round}, {wait}"));
            let (name, directory) = (name("receivers"), tempfile::tempdir().expect("a directory"));
            let listener = Listener::bind(&Address::parse(&name).expect("a name"));
            let setup = Setup { wait, ..Setup::default() };
            let listener = listener.expect("a listener");
            let mut sender = Broadcast::at(listener, &setup).expect("a sender");
            let copy = |number: usize| directory.path().join(number.to_string());
            let consumers: Option<Vec<Child>> =
                (0..4).map(|number| consumer(&name, &copy(number))).collect();
            let Some(mut consumers) = consumers else { return };
            sender.wait_for_receivers(4, PATIENCE).expect("they come");
            // One before all, one between, one while the sender is at it.
            killed(consumers.pop().expect("one"));
            let early = BYTES / (round + 2);
            send(&mut sender, 0, early);
            killed(consumers.pop().expect("one"));
            let victim = consumers.pop().expect("one");
            let killer = std::thread::spawn(move || {
                (0..round * 2000).for_each(|_| std::hint::spin_loop());
                killed(victim);
            });
            send(&mut sender, early, BYTES);
            killer.join().expect("no panic");
            sender.wait_until_taken().expect("all of it");
            admits_until(&mut sender, |now| (now.present, now.lost) == (1, 3));
            sender.finish();
            let mut last = consumers.pop().expect("one");
            assert!(last.wait().expect("it ends").success());
            same(&std::fs::read(copy(0)).expect("the copy"), contents(BYTES));
            for number in 1..4 {
                let part = std::fs::read(copy(number)).expect("what came until then");
                same(&part, contents(part.len()));
            }
        }
    });
}

#[test]
fn a_sender_that_waits_for_a_receiver_notices_that_it_is_killed() {
    bounded(|watch| {
        for wait in waits() {
            watch.at(wait);
            let name = name("waiting");
            let listener = Listener::bind(&Address::parse(&name).expect("a name"));
            let setup = Setup { wait, ..Setup::default() };
            let listener = listener.expect("a listener");
            let mut sender = Broadcast::at(listener, &setup).expect("a sender");
            // A pipe that nobody reads: it takes some, and then no more.
            let Some(mut consumer) = example("broadcast_consumer") else { return };
            consumer.arg(&name).stdout(Stdio::piped()).stderr(Stdio::null());
            let child = consumer.spawn().expect("it runs");
            sender.wait_for_receivers(1, PATIENCE).expect("it comes");
            let (told, full) = std::sync::mpsc::channel();
            let writer = std::thread::spawn(move || {
                while sender.try_space(1000).expect("an answer").map(|s| s.commit(1000)).is_some() {
                }
                told.send(()).expect("somebody hears");
                send(&mut sender, 0, BYTES);
                sender.receivers()
            });
            full.recv().expect("it is full");
            killed(child);
            let receivers = writer.join().expect("no panic");
            assert_eq!((receivers.present, receivers.lost), (0, 1));
        }
    });
}

/// What a receiver got of a sender that was killed, and whether it found out; it tells when it has so many bytes.
fn received(name: &str, wait: Wait, enough: usize, tell: &Sender<()>) -> (usize, bool) {
    let address = Address::parse(name).expect("a name");
    let connection = Connection::connect(&address, PATIENCE).expect("a sender");
    let setup = Setup { wait, ..Setup::default() };
    let mut receiver = connection.message_receiver(&setup).expect("a receiver");
    let (mut at, mut told) = (0, false);
    loop {
        if at >= enough && !told {
            tell.send(()).expect("somebody hears");
            told = true;
        }
        match receiver.receive() {
            Ok(Some(message)) => {
                let mut bytes = vec![0; message.bytes().len()];
                message.bytes().copy_to(&mut bytes);
                assert!(bytes == contents(BYTES)[at..at + bytes.len()], "right from {at} on");
                at += bytes.len();
            }
            Ok(None) => return (at, false),
            Err(ChannelError::Gone { .. }) => return (at, true),
            Err(other) => panic!("{other}"),
        }
    }
}

#[test]
fn what_a_killed_sender_had_committed_arrives_at_every_receiver_and_then_an_error() {
    bounded(|watch| {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("file");
        std::fs::write(&path, contents(BYTES)).expect("written");
        let mut cut_short = 0;
        for (round, wait) in (0..ROUNDS).flat_map(|round| waits().map(move |wait| (round, wait))) {
            watch.at(format_args!("round {round}, {wait}"));
            let name = name("sender");
            let Some(mut producer) = example("broadcast_producer") else { return };
            producer.args([&name, "3"]).stdin(File::open(&path).expect("the file"));
            let child = producer.stderr(Stdio::null()).spawn().expect("it runs");
            let (tell, told) = std::sync::mpsc::channel();
            let receivers: Vec<_> = (0..3)
                .map(|_| {
                    let (name, tell) = (name.clone(), tell.clone());
                    let enough = round * BYTES / ROUNDS;
                    std::thread::spawn(move || received(&name, wait, enough, &tell))
                })
                .collect();
            (0..3).for_each(|_| told.recv().expect("it has them"));
            killed(child);
            let joined = receivers.into_iter().map(|receiver| receiver.join().expect("no panic"));
            let got: Vec<_> = joined.collect();
            assert!(got.iter().all(|one| *one == got[0]), "all got the same: {got:?}");
            let (bytes, was_cut_short) = got[0];
            assert!(was_cut_short || bytes == BYTES, "{bytes} bytes are all of it");
            cut_short += u32::from(was_cut_short);
        }
        assert!(cut_short > 0, "at least those that were killed before their first byte");
    });
}
