//! How receivers come to a sender, and who is turned away.

use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use bytepath::channel::{
    Address, Broadcast, ChannelError, Connection, Listener, MessageReceiver, RECEIVERS_MAX,
    Receivers, Setup, Users,
};

use super::super::hostile::{BYTES, MESSAGES, OURS, RECEIVER, SENDER, hello, say};
use super::super::{name, small, waits};
use super::{PATIENCE, admits_until, joined, message, received, rest};
use crate::examples::example;
use crate::faults::refused::without_call;
use crate::watch::bounded;

fn address(of: &str) -> Address {
    Address::parse(name(of)).expect("a name")
}

fn at(address: &Address, setup: Setup) -> Broadcast {
    Broadcast::at(Listener::bind(address).expect("a listener"), &setup).expect("a sender")
}

fn come(address: &Address) -> Result<MessageReceiver, ChannelError> {
    Connection::connect(address, PATIENCE)?
        .message_receiver(&Setup { patience: PATIENCE, ..small() })
}

/// What somebody finds out whom a sender does not take in.
fn turned_away<T>(
    sender: &mut Broadcast,
    come: impl FnOnce() -> Result<T, ChannelError> + Send,
) -> ChannelError {
    let refused = sender.receivers().refused;
    std::thread::scope(|scope| {
        let comer = scope.spawn(move || come().map(drop));
        admits_until(sender, |now| now.refused > refused);
        comer.join().expect("no panic").expect_err("it is turned away")
    })
}

#[test]
fn receivers_join_by_the_address_while_the_sender_sends() {
    bounded(|watch| {
        for wait in waits() {
            watch.at(wait);
            let address = address("sends");
            let mut sender = at(&address, Setup { wait, ..small() });
            let comer = std::thread::spawn(move || {
                let mut receiver = come(&address).expect("a receiver");
                let first = received(&mut receiver).expect("one").expect("no end");
                (first, rest(&mut receiver, first + 1).0)
            });
            let (mut number, mut more) = (0, 100);
            while more > 0 {
                sender.send(&message(number)).expect("it goes");
                number += 1;
                more -= u64::from(sender.receivers().present > 0);
            }
            sender.finish();
            let (first, next) = comer.join().expect("no panic");
            assert!(next == number && first < number, "{first} to {next} of {number}");
        }
    });
}

#[test]
fn receivers_join_while_the_sender_waits_for_another() {
    bounded(|watch| {
        for wait in waits() {
            watch.at(wait);
            let address = address("waits");
            let mut sender = at(&address, Setup { wait, ..small() });
            let mut slow = joined(&mut sender, small());
            let writer = std::thread::spawn(move || {
                for number in 0..50 {
                    sender.send(&message(number)).expect("it goes");
                }
                sender.finish();
            });
            let mut late = come(&address).expect("a receiver");
            let late = std::thread::spawn(move || {
                let first = received(&mut late).expect("one").expect("no end");
                rest(&mut late, first + 1).0
            });
            assert_eq!(rest(&mut slow, 0).0, 50);
            assert_eq!(late.join().expect("no panic"), 50);
            writer.join().expect("no panic");
        }
    });
}

#[test]
fn more_receivers_than_there_may_be_are_told_so_until_one_leaves() {
    bounded(|_| {
        let address = address("full");
        let mut sender = at(&address, small());
        let mut receivers: Vec<_> =
            (0..RECEIVERS_MAX).map(|_| joined(&mut sender, small())).collect();
        let error = turned_away(&mut sender, || come(&address));
        assert!(matches!(error, ChannelError::Full { most } if most == RECEIVERS_MAX as u64));
        assert!(error.to_string().contains("64 receivers"), "{error}");
        receivers.pop();
        admits_until(&mut sender, |now| now.left == 1);
        receivers.push(joined(&mut sender, small()));
        sender.send(&message(7)).expect("it goes");
        for receiver in &mut receivers {
            assert_eq!(received(receiver).expect("one"), Some(7));
        }
        let wanted = Receivers { present: RECEIVERS_MAX, left: 1, lost: 0, refused: 1 };
        assert_eq!(sender.receivers(), wanted);
    });
}

#[test]
fn ends_that_do_not_fit_are_told_why_and_the_sender_goes_on() {
    bounded(|_| {
        let address = address("fit");
        let mut sender = at(&address, small());
        let connect = || Connection::connect(&address, PATIENCE);
        let bytes = turned_away(&mut sender, || connect()?.receiver(&small()));
        assert!(bytes.to_string().contains("one passes bytes, the other messages"), "{bytes}");
        let both = turned_away(&mut sender, || connect()?.message_sender(&small()));
        assert!(both.to_string().contains("both send"), "{both}");
        let mut receiver = joined(&mut sender, small());
        sender.send(&message(0)).expect("it goes");
        assert_eq!(received(&mut receiver).expect("one"), Some(0));
    });
}

#[test]
fn who_says_something_else_says_nothing_or_goes_is_turned_away() {
    bounded(|watch| {
        let hasty = Setup { patience: Duration::from_millis(1), ..small() };
        let said: [(&str, Option<Vec<u8>>); 5] = [
            ("another version", Some(hello([7, 9], RECEIVER, MESSAGES))),
            ("a sender", Some(hello(OURS, SENDER, MESSAGES))),
            ("another flow", Some(hello(OURS, RECEIVER, BYTES))),
            ("something else", Some(b"GET / HTTP/1.1".to_vec())),
            ("nothing", None),
        ];
        for (what, packet) in said {
            watch.at(what);
            let mut sender = Broadcast::new(&hasty).expect("a sender");
            let (here, there) = Connection::pair().expect("a pair");
            let there = OwnedFd::from(there);
            packet.iter().for_each(|packet| say(&there, packet, None));
            sender.add(here).expect("it may try");
            admits_until(&mut sender, |now| now.refused == 1);
        }
        let mut sender = Broadcast::new(&small()).expect("a sender");
        let (here, there) = Connection::pair().expect("a pair");
        drop(there);
        sender.add(here).expect("it may try");
        admits_until(&mut sender, |now| now.refused == 1);
    });
}

#[test]
fn a_sender_waits_for_as_many_as_are_wished_and_says_how_many_came() {
    bounded(|_| {
        let address = address("wished");
        let mut sender = at(&address, small());
        let comers: Vec<_> = (0..3)
            .map(|_| {
                let address = address.clone();
                std::thread::spawn(move || come(&address))
            })
            .collect();
        assert!(sender.wait_for_receivers(3, PATIENCE).expect("they come").present == 3);
        let error = sender.wait_for_receivers(4, Duration::from_millis(1)).expect_err("3 came");
        assert!(error.to_string().contains("only 3 of 4 receivers"), "{error}");
        comers.into_iter().for_each(|comer| drop(comer.join().expect("no panic")));
    });
}

#[test]
fn a_sender_waits_ever_so_long_where_the_kernel_counts_in_milliseconds() {
    bounded(|_| {
        let address = address("patient");
        let mut sender = at(&address, small());
        let come = std::thread::spawn(move || [(); 2].map(|()| come(&address)));
        // As before Linux 5.11.
        let waited = without_call(libc::SYS_epoll_pwait2, || {
            sender.wait_for_receivers(2, Duration::MAX).map(|now| now.present)
        });
        assert_eq!(waited.expect("both come"), 2);
        assert!(come.join().expect("no panic").iter().all(Result::is_ok));
    });
}

#[test]
fn a_sender_that_never_admits_anybody_is_a_silent_one() {
    let address = address("silent");
    let _sender = at(&address, small());
    let hasty = Setup { patience: Duration::from_millis(1), ..small() };
    let connection = Connection::connect(&address, PATIENCE).expect("it listens");
    assert!(matches!(connection.message_receiver(&hasty), Err(ChannelError::Silent(_))));
}

#[test]
fn the_descriptor_tells_that_somebody_comes() {
    bounded(|_| {
        let address = address("comes");
        let mut sender = at(&address, small());
        assert!(!super::readable(&sender));
        let comer = std::thread::spawn(move || come(&address));
        while sender.admit().expect("an answer").present == 0 {
            super::until_readable(sender.as_fd());
        }
        comer.join().expect("no panic").expect("a receiver");
    });
}

#[test]
fn receivers_of_another_user_are_turned_away_unless_any_is_welcome() {
    bounded(|watch| {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: only root can be two users");
            return;
        }
        let Some(consumer) = example("broadcast_consumer") else { return };
        let directory = tempfile::tempdir().expect("a directory");
        let program = directory.path().join("consumer");
        std::fs::copy(consumer.get_program(), &program).expect("a copy that anybody may run");
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(directory.path(), open).expect("open to all");
        for users in [Users::Same, Users::Any] {
            watch.at(format_args!("{users:?}"));
            let name = name("user");
            let mut sender =
                at(&Address::parse(&name).expect("a name"), Setup { users, ..small() });
            let mut consumer = Command::new(&program);
            consumer.arg(&name).uid(65534).stdout(Stdio::piped()).stderr(Stdio::piped());
            let consumer = match consumer.spawn() {
                Ok(consumer) => consumer,
                Err(error) => {
                    eprintln!("skipped: {}: {error}", program.display());
                    return;
                }
            };
            let receivers = loop {
                let receivers = sender.admit().expect("an answer");
                if receivers != Receivers::default() {
                    break receivers;
                }
                std::thread::yield_now();
            };
            sender.send(b"all").expect("it goes");
            sender.finish();
            let done = consumer.wait_with_output().expect("it ends");
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            match users {
                Users::Same => {
                    assert_eq!((receivers.present, receivers.refused), (0, 1));
                    assert!(!done.status.success() && said.contains("HungUp"), "{said}");
                }
                Users::Any => {
                    // It takes root's ring: root may be at the other end of anything.
                    assert_eq!((receivers.present, receivers.refused), (1, 0));
                    assert!(done.status.success() && done.stdout == b"all", "{said}");
                }
            }
        }
    });
}
