//! Ends that are killed at any instant, as real processes.

use std::fs::File;
use std::io::Write;
use std::process::{Child, Stdio};
use std::sync::atomic::Ordering::Acquire;
use std::time::Duration;

use bytepath::Wait;
use bytepath::channel::{Address, ChannelError, Connection, Listener, Receiver, Setup};

use super::hostile::COMMITTED;
use super::{name, waits};
use crate::ends::contents;
use crate::examples::example;
use crate::watch::bounded;

/// Kills of each kind.
const KILLS: usize = 25;

const PATIENCE: Duration = Duration::from_secs(20);

fn killed(mut child: Child) {
    child.kill().expect("it is killed");
    child.wait().expect("it is gone");
}

/// A producer that reads this, and the receiver here.
fn producer(stdin: Stdio, wait: Wait) -> Option<(Child, Receiver)> {
    let name = name("producer");
    let listener = Listener::bind(&Address::parse(&name).expect("a name")).expect("a listener");
    let mut producer = example("channel_producer")?;
    let child = producer.arg(&name).stdin(stdin).stderr(Stdio::null()).spawn().expect("it runs");
    let setup = Setup { wait, ..Setup::default() };
    let receiver = listener.accept().expect("a producer").receiver(&setup).expect("a receiver");
    Some((child, receiver))
}

/// Receives until so many bytes have come, or the end or an error.
fn received(receiver: &mut Receiver, most: u64) -> (u64, Option<ChannelError>) {
    let mut bytes = 0;
    while bytes < most {
        match receiver.filled(10_007) {
            Ok(Some(filled)) => {
                let count = filled.len();
                filled.release(count);
                bytes += count as u64;
            }
            Ok(None) => panic!("an endless stream has no end"),
            Err(error) => return (bytes, Some(error)),
        }
    }
    (bytes, None)
}

#[test]
fn what_a_killed_sender_had_committed_arrives_and_then_an_error() {
    bounded(|watch| {
        for (kill, wait) in (0..KILLS).flat_map(|kill| waits().map(move |wait| (kill, wait))) {
            watch.at(format_args!("kill {kill}, {wait}"));
            let zeros = File::open("/dev/zero").expect("zeros");
            let Some((child, mut receiver)) = producer(zeros.into(), wait) else { return };
            let (before, error) = received(&mut receiver, (kill * kill * 3001) as u64);
            assert!(error.is_none(), "{error:?}");
            killed(child);
            let (after, error) = received(&mut receiver, u64::MAX);
            let committed = receiver.memory().words()[COMMITTED].load(Acquire);
            assert_eq!(before + after, committed, "every byte that was committed");
            assert!(
                matches!(error, Some(ChannelError::Gone { passed }) if passed == Some(committed)),
                "{error:?}"
            );
        }
    });
}

#[test]
fn a_receiver_that_waits_notices_that_the_sender_is_killed() {
    bounded(|watch| {
        for wait in waits() {
            watch.at(wait);
            let Some((mut child, mut receiver)) = producer(Stdio::piped(), wait) else { return };
            let waiter = std::thread::spawn(move || received(&mut receiver, u64::MAX));
            let mut stdin = child.stdin.take().expect("its input");
            stdin.write_all(contents(1000)).expect("it writes");
            // What it had taken by then is committed or not; more does not come.
            killed(child);
            let (bytes, error) = waiter.join().expect("no panic");
            assert!([0, 1000].contains(&bytes), "{bytes}");
            assert!(matches!(error, Some(ChannelError::Gone { .. })), "{error:?}");
        }
    });
}

#[test]
fn a_sender_notices_that_the_receiver_is_killed() {
    bounded(|watch| {
        for (kill, wait) in (0..KILLS).flat_map(|kill| waits().map(move |wait| (kill, wait))) {
            watch.at(format_args!("kill {kill}, {wait}"));
            let name = name("consumer");
            let Some(mut consumer) = example("channel_consumer") else { return };
            consumer.arg(&name).stdout(Stdio::null()).stderr(Stdio::null());
            let child = consumer.spawn().expect("it runs");
            let address = Address::parse(&name).expect("a name");
            let connection = Connection::connect(&address, PATIENCE).expect("a consumer");
            let setup = Setup { wait, ..Setup::default() };
            let mut sender = connection.sender(&setup).expect("a sender");
            sender.write_all(contents(kill * kill * 3001)).expect("it writes");
            killed(child);
            let error = loop {
                match sender.space(10_007) {
                    Ok(space) => space.commit(1),
                    Err(error) => break error,
                }
            };
            assert!(matches!(error, ChannelError::Gone { .. }), "{error:?}");
        }
    });
}
