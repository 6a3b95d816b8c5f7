//! How streams end: as they should, and short.

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;

use bytepath::channel::{Buffers, ChannelError, Connection, Setup};

use super::messages::queue;
use super::{small, stream, waits};
use crate::ends::contents;
use crate::sys::forked;
use crate::trial::same;
use crate::watch::bounded;

#[test]
fn a_stream_that_was_not_finished_is_an_error_after_its_last_byte() {
    bounded(|watch| {
        for wait in waits() {
            watch.at(wait);
            let setup = Setup { wait, ..small() };
            let (mut sender, mut receiver) = stream(setup, setup);
            let reader = std::thread::spawn(move || {
                let mut all = Vec::new();
                let error = receiver.read_to_end(&mut all).expect_err("it was cut short");
                (all, error)
            });
            sender.write_all(contents(100_000)).expect("it writes");
            drop(sender);
            let (all, error) = reader.join().expect("no panic");
            same(&all, contents(100_000));
            assert_eq!(error.kind(), ErrorKind::UnexpectedEof);
            assert!(error.to_string().contains("100000 bytes were passed on"), "{error}");
        }
    });
}

#[test]
fn a_receiver_that_wants_no_more_ends_a_sender_that_waits() {
    bounded(|watch| {
        for wait in waits() {
            watch.at(wait);
            let setup = Setup { wait, ..small() };
            let (mut sender, mut receiver) = stream(setup, setup);
            let writer = std::thread::spawn(move || sender.write_all(contents(100_000)));
            receiver.read_exact(&mut [0; 5000]).expect("it reads");
            drop(receiver);
            let error = writer.join().expect("no panic").expect_err("nobody reads");
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
        }
    });
}

#[test]
fn a_receiver_that_is_dropped_ends_a_sender_that_has_space() {
    bounded(|_| {
        let roomy = Setup { ring_bytes: 1 << 20, ..small() };
        let (mut sender, mut receiver) = queue(roomy);
        sender.send(b"one").expect("the receiver is there");
        drop(receiver.receive().expect("no error").expect("a message"));
        drop(receiver);
        let closed = |error| matches!(error, ChannelError::Closed { .. });
        // The first may find it.
        let _ = sender.send(b"heartbeat");
        for _ in 0..5 {
            assert!(closed(sender.send(b"heartbeat").expect_err("nobody reads")));
        }
        assert!(closed(sender.try_space(9).map(|_| ()).expect_err("nobody reads")));
        assert!(sender.watch(9).expect("an answer"), "there is nothing to wait for");

        let (mut sender, mut receiver) = stream(roomy, roomy);
        sender.write_all(b"0123456789").expect("the receiver is there");
        receiver.read_exact(&mut [0; 4]).expect("it reads");
        sender.flush().expect("the receiver is there");
        drop(receiver);
        let _ = sender.write(b"more");
        for _ in 0..5 {
            let done = sender.write_all(b"more");
            assert_eq!(done.expect_err("nobody reads").kind(), ErrorKind::BrokenPipe);
            let done = sender.flush();
            assert_eq!(done.expect_err("nobody reads").kind(), ErrorKind::BrokenPipe);
        }
        assert!(closed(sender.try_space(1).map(|_| ()).expect_err("nobody reads")));
    });
}

#[test]
fn a_receiver_that_goes_without_a_word_is_noticed_by_a_sender_that_has_space() {
    bounded(|_| {
        let roomy = Setup { ring_bytes: 512 << 10, ..small() };
        let (mut sender, receiver) = queue(roomy);
        let (mut stream, other) = stream(roomy, roomy);
        for socket in [receiver.as_fd(), other.as_fd()] {
            // As the kernel does for one that was killed, which says nothing.
            rustix::net::shutdown(socket, rustix::net::Shutdown::Both).expect("a socket");
        }
        // Who is asked for space looks again after a time, and by then the older one would too.
        while stream.try_space(9).is_ok() {}
        let error = loop {
            if let Err(error) = sender.send(b"heartbeat") {
                break error;
            }
            assert!(sender.meter().read().bytes < 128 << 10, "long before the ring is full");
        };
        // Headers and gaps are none of the user's bytes.
        assert!(matches!(error, ChannelError::Gone { passed: None }), "{error:?}");
        assert!(!error.to_string().contains("bytes"), "{error}");
        stream.flush().expect("nothing was sent in vain");
    });
}

#[test]
fn what_a_receiver_leaves_in_the_ring_is_told_to_who_asks() {
    bounded(|_| {
        let (mut sender, mut receiver) = stream(small(), small());
        sender.write_all(b"0123456789").expect("it writes");
        receiver.read_exact(&mut [0; 4]).expect("it reads");
        drop(receiver);
        let error = sender.wait_until_taken().expect_err("6 bytes are left");
        assert!(matches!(error, ChannelError::Closed { passed: Some(10) }), "{error:?}");
    });
}

#[test]
fn a_finished_stream_without_bytes_ends_at_once() {
    bounded(|_| {
        let (sender, mut receiver) = stream(small(), small());
        sender.finish();
        assert!(receiver.filled(1).expect("an answer").is_none());
        assert!(receiver.filled(1).expect("the same again").is_none());
    });
}

#[test]
fn a_sender_that_is_dropped_is_noticed_though_a_forked_process_has_its_socket() {
    bounded(|_| {
        let (mut sender, mut receiver) = stream(small(), small());
        sender.write_all(b"all").expect("the receiver is there");
        let (here, there) = Connection::pair().expect("a pair");
        let mut buffers = here.buffer_sender(&small(), 1 << 20).expect("a sender");
        let mut draft = buffers.try_lend(100).expect("it lends").expect("memory");
        draft.space().copy_from(0, &[7; 100]);
        assert!(buffers.try_send(b"", &mut vec![draft]).expect("it goes"));
        // What a forked process has: another descriptor of the same socket.
        let held = [sender.as_fd(), buffers.as_fd()].map(|end| end.try_clone_to_owned());
        drop((sender, buffers));
        let mut all = Vec::new();
        let error = receiver.read_to_end(&mut all).expect_err("it was cut short");
        assert_eq!((&all[..], error.kind()), (&b"all"[..], ErrorKind::UnexpectedEof));
        let mut receiver = there.buffer_receiver(&small()).expect("what was said is heard");
        let Ok(Buffers::Message(mut message)) = receiver.try_receive() else { panic!("nothing") };
        let mut copy = [0; 100];
        message.take_buffers()[0].bytes().copy_to(&mut copy);
        assert_eq!(copy, [7; 100]);
        drop(message);
        receiver.look().expect("no error");
        receiver.try_receive().map(drop).expect_err("it did not finish");
        drop(held);
    });
}

#[test]
fn a_receiver_that_a_forked_process_drops_is_still_its_parents() {
    bounded(|_| {
        let (mut sender, mut receiver) = stream(small(), small());
        let (mut asks, mut hears) = queue(small());
        let mut ends = Some((receiver, hears));
        let status = forked(|| drop(ends.take()));
        assert_eq!(status.exit_status(), Some(0));
        (receiver, hears) = ends.take().expect("they are here");
        sender.write_all(b"still there").expect("the receiver is there");
        receiver.read_exact(&mut [0; 11]).expect("it reads");
        asks.send(b"you too").expect("the receiver is there");
        assert_eq!(hears.receive().expect("no error").expect("a message").bytes().len(), 7);
        let long = vec![7; asks.longest()];
        while asks.try_space(long.len()).expect("the receiver is there").is_some() {
            asks.send(&long).expect("there is room");
        }
        let mut message = Some(hears.receive().expect("no error").expect("a message"));
        let status = forked(|| drop(message.take()));
        assert_eq!(status.exit_status(), Some(0));
        let room = asks.try_space(long.len()).expect("the receiver is there");
        assert!(room.is_none(), "the parent has the message still");
        drop(message);
        assert!(asks.try_space(long.len()).expect("the receiver is there").is_some());
        drop((receiver, hears));
        assert!(sender.write_all(contents(100_000)).is_err());
        assert!((0..10_000).any(|_| asks.send(b"gone").is_err()));
    });
}
