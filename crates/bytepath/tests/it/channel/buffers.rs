//! Messages with buffers: read where they were written, given back in any order, by ends that may not be
//! there yet, or any more.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use bytepath::channel::{
    Borrowed, BufferReceiver, BufferSender, Buffers, ChannelError, Connection, Draft, Setup,
};
use bytepath::pages::PageSize;
use rustix::net::RecvFlags;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{readable, small, until_readable};
use crate::ends::contents;
use crate::sys::forked;
use crate::watch::bounded;

const MOST: usize = 1 << 20;
const LITTLE: usize = 64 << 10;
/// The last bytes of a buffer that tell it from others, at the most.
const CONTENTS_BYTES: usize = 100_000;

/// A sender, and the end that its receiver is made of.
fn sender() -> (BufferSender, Connection) {
    let (here, there) = Connection::pair().expect("a pair");
    (here.buffer_sender(&small(), MOST).expect("a sender that waits for nobody"), there)
}

fn pair() -> (BufferSender, BufferReceiver) {
    let (sender, there) = sender();
    (sender, there.buffer_receiver(&small()).expect("a receiver"))
}

fn filled(sender: &mut BufferSender, bytes: usize) -> Option<Draft> {
    let mut draft = sender.try_lend(bytes).expect("it lends")?;
    let contents = contents(bytes.min(CONTENTS_BYTES));
    draft.space().copy_from(bytes - contents.len(), contents);
    Some(draft)
}

fn send(sender: &mut BufferSender, head: &[u8], buffers: &[usize]) -> bool {
    let drafts: Option<Vec<_>> = buffers.iter().map(|&bytes| filled(sender, bytes)).collect();
    drafts.is_some_and(|mut drafts| sender.try_send(head, &mut drafts).expect("it goes"))
}

fn received(receiver: &mut BufferReceiver) -> (Vec<u8>, Vec<Borrowed>) {
    let Buffers::Message(mut message) = receiver.try_receive().expect("no error") else {
        panic!("nothing came")
    };
    let mut head = vec![0; message.head().len()];
    message.head().copy_to(&mut head);
    let buffers = message.take_buffers();
    (head, buffers)
}

fn assert_holds(borrowed: &Borrowed, bytes: usize) {
    assert_eq!(borrowed.bytes().len(), bytes);
    let contents = contents(bytes.min(CONTENTS_BYTES));
    let mut copy = vec![0; contents.len()];
    borrowed.bytes().range(bytes - copy.len()..bytes).copy_to(&mut copy);
    assert!(copy == contents, "{bytes} bytes came as they were sent");
}

#[test]
fn what_is_sent_before_the_receiver_comes_and_after_the_sender_went_is_received() {
    let (mut sender, there) = sender();
    let lens = [1, 4096, 100_000, 200_000];
    assert!(send(&mut sender, b"four", &lens));
    assert!(send(&mut sender, b"none", &[]));
    assert!(!sender.is_answered());
    sender.finish();
    let mut receiver = there.buffer_receiver(&small()).expect("a receiver");
    let (head, buffers) = received(&mut receiver);
    assert_eq!(head, b"four");
    assert_eq!(received(&mut receiver).0, b"none");
    assert!(matches!(receiver.try_receive(), Ok(Buffers::End)));
    drop(receiver);
    for (borrowed, bytes) in buffers.iter().zip(lens) {
        assert_holds(borrowed, bytes);
    }
}

/// The name of the test below.
const SHORT: &str =
    "channel::buffers::a_ring_takes_one_descriptor_and_where_there_is_none_the_sender_is_told";

#[test]
fn a_ring_takes_one_descriptor_and_where_there_is_none_the_sender_is_told() {
    // Limits bind a whole process, so another one has them.
    if !crate::is_alone(SHORT) {
        return;
    }
    let (mut sender, there) = sender();
    let (mut told, other) = self::sender();
    let (mut sends, another) = self::sender();
    let limit = getrlimit(Resource::Nofile);
    let next = std::fs::File::open("/").expect("a descriptor").as_raw_fd() as u64;
    let spare = |count| {
        let limit = Rlimit { current: Some(next + count), ..limit };
        setrlimit(Resource::Nofile, limit).expect("fewer are allowed");
    };
    spare(1);
    let mut receiver = there.buffer_receiver(&small()).expect("a receiver");
    spare(0);
    let error = other.buffer_receiver(&small()).expect_err("there is no descriptor");
    assert!(matches!(error, ChannelError::Socket { .. }), "{error:?}");
    let _in_the_place_of_its_socket = std::fs::File::open("/").expect("a descriptor");
    another.buffer_receiver(&small()).expect_err("there is none for this one either");
    setrlimit(Resource::Nofile, limit).expect("it was so before");
    let said = told.look().expect_err("it was refused").to_string();
    assert!(said.contains("no memory, addresses or descriptors"), "{said}");
    // Who only sends finds that the other end is gone, and is told the same.
    let said = loop {
        if let Err(error) = sends.try_send(b"", &mut Vec::new()) {
            break error.to_string();
        }
    };
    assert!(said.contains("no memory, addresses or descriptors"), "{said}");
    assert!(send(&mut sender, b"four", &[1]));
    assert_eq!(received(&mut receiver).0, b"four");
}

#[test]
fn buffers_come_back_in_any_order_and_their_memory_is_used_again() {
    let (mut sender, mut receiver) = pair();
    let mut kept: Vec<(usize, Borrowed)> = Vec::new();
    for turn in 0_usize..200 {
        let bytes = 1 + turn * 7919 % 200_000;
        while !send(&mut sender, b"", &[bytes]) {
            assert!(!kept.is_empty(), "there is room where nothing is kept");
            kept.swap_remove(turn * 31 % kept.len());
        }
        let (_, mut buffers) = received(&mut receiver);
        kept.push((bytes, buffers.remove(0)));
        if turn % 3 == 0 {
            kept.swap_remove(turn * 17 % kept.len());
        }
        for (bytes, borrowed) in &kept {
            assert_holds(borrowed, *bytes);
        }
    }
    assert!(sender.buffer_bytes() <= 2 * MOST, "what came back is used again");
}

#[test]
fn one_that_is_larger_than_all_memory_goes_alone_unless_the_receiver_asks_for_more() {
    let (mut sender, mut receiver) = pair();
    assert!(send(&mut sender, b"", &[20 << 20]));
    let refused = |sender: &mut BufferSender| {
        let [large, small] = [20 << 20, 100].map(|bytes| sender.try_lend(bytes).expect("it lends"));
        assert!(large.is_none() && small.is_none(), "there is too much already");
    };
    refused(&mut sender);
    let (_, buffers) = received(&mut receiver);
    assert_holds(&buffers[0], 20 << 20);
    refused(&mut sender);
    assert!(matches!(receiver.is_there(), Ok(None)));
    let beyond = sender.try_lend(19 << 20).expect("it lends").expect("one more");
    refused(&mut sender);
    drop((beyond, buffers));
    assert!(sender.try_lend(19 << 20).expect("it lends").is_some());
    assert!(sender.buffer_bytes() <= 20 << 20, "what is beyond is let go");
}

#[test]
fn a_receiver_that_keeps_the_last_buffer_until_it_has_the_next_gets_all_whatever_their_sizes() {
    let (mut sender, mut receiver) = pair();
    let mut last = Vec::new();
    // Those that share a segment, those that have one, and those larger than all memory.
    let sizes = [20_000, 200_000, 500_000, 700_000, MOST - 20_000, MOST, 3 * MOST, 9 * MOST];
    for (one, other) in sizes.iter().flat_map(|&one| sizes.map(|other| (one, other))) {
        for bytes in [one, other] {
            assert!(matches!(receiver.try_receive(), Ok(Buffers::Nothing)));
            assert!(send(&mut sender, b"", &[bytes]), "{bytes} of {one} and {other}");
            last = received(&mut receiver).1;
            assert_holds(&last[0], bytes);
        }
        assert!(sender.buffer_bytes() <= 2 * MOST + one + other, "{one} and {other}");
    }
    drop(last);
}

#[test]
fn what_is_kept_takes_no_more_of_all_memory_than_it_is_large() {
    let (mut sender, mut receiver) = pair();
    let mut kept = Vec::new();
    // A little of a whole segment, and most of one.
    for bytes in [20_000, 700_000, 200_000, 100_000] {
        assert!(send(&mut sender, b"", &[bytes]), "{bytes}");
        kept.push((bytes, received(&mut receiver).1));
    }
    assert!(sender.try_lend(100_000).expect("it lends").is_none(), "all of it is lent");
    for (bytes, buffers) in kept {
        assert_holds(&buffers[0], bytes);
    }
}

#[test]
fn who_waits_for_a_buffer_or_for_room_is_woken() {
    bounded(|_| {
        let (mut sender, mut receiver) = pair();
        let mut kept = Vec::new();
        while send(&mut sender, b"", &[500_000]) {
            kept.extend(received(&mut receiver).1);
        }
        while sender.watch_buffers().expect("it watches") {}
        while readable(&sender) {
            assert!(sender.try_lend(500_000).expect("it lends").is_none());
            while sender.watch_buffers().expect("it watches") {}
        }
        kept.remove(1);
        until_readable(&sender);
        assert!(sender.try_lend(500_000).expect("it lends").is_some());

        // Nothing comes back before the receiver has one more.
        let _draft = filled(&mut sender, 500_000).expect("there is room");
        assert!(sender.try_lend(500_000).expect("it lends").is_none());
        while sender.watch_buffers().expect("it watches") {}
        while readable(&sender) {
            assert!(!sender.watch_buffers().expect("it watches"));
        }
        assert!(matches!(receiver.is_there(), Ok(None)));
        until_readable(&sender);
        assert!(sender.try_lend(500_000).expect("it lends").is_some());

        while send(&mut sender, &[7; 500], &[]) {}
        while sender.watch(500, 0).expect("it watches") {}
        assert!(!readable(&sender));
        assert_eq!(received(&mut receiver).0, [7; 500]);
        until_readable(&sender);
        assert!(send(&mut sender, &[7; 500], &[]));
    });
}

/// Tells the receiver so many times, while the socket takes it, that a segment is let go which it never had; how
/// often that was.
fn tell(sender: &BufferSender, times: usize) -> usize {
    let packet = b"file-\xff\xff\xff\xff";
    let told = || rustix::net::send(sender, packet, rustix::net::SendFlags::DONTWAIT);
    (0..times).take_while(|_| told().is_ok()).count()
}

#[test]
fn for_what_finds_no_room_in_the_ring_no_memory_is_handed_over() {
    let (here, there) = Connection::pair().expect("a pair");
    let mut sender = here.buffer_sender(&small(), LITTLE).expect("a sender");
    while send(&mut sender, &[7; 500], &[]) {}
    for bytes in [2 * LITTLE, 100].repeat(20) {
        assert!(!send(&mut sender, &[7; 500], &[bytes]));
        while sender.watch(500, 1).expect("a receiver") {}
    }
    let mut packets = 0;
    while rustix::net::recv(&there, &mut [0; 64], RecvFlags::DONTWAIT).is_ok() {
        packets += 1;
    }
    assert_eq!(packets, 3, "a hello, the ring and the table");
}

#[test]
fn who_waits_for_room_in_the_socket_is_woken_once_there_is_some() {
    bounded(|_| {
        for messages in [0, 1] {
            let (here, there) = Connection::pair().expect("a pair");
            let mut sender = here.buffer_sender(&small(), LITTLE).expect("a sender");
            let mut receiver = there.buffer_receiver(&small()).expect("a receiver");
            sender.look().expect("a receiver");
            for _ in 0..messages {
                assert!(send(&mut sender, b"early", &[]));
            }
            let mut drafts = vec![filled(&mut sender, 100).expect("there is memory")];
            tell(&sender, usize::MAX);
            assert!(!sender.try_send(b"late", &mut drafts).expect("it goes"));
            while sender.watch(4, 1).expect("a receiver") {}
            assert!(!readable(&sender), "{messages} messages");
            for _ in 0..messages {
                // That may be a sign that there is room.
                received(&mut receiver);
                until_readable(&sender);
                while sender.watch(4, 1).expect("a receiver") {}
            }
            while !receiver.watch().expect("a sender") && readable(&receiver) {}
            until_readable(&sender);
            assert!(sender.try_send(b"late", &mut drafts).expect("it goes"));
            assert_holds(&received(&mut receiver).1[0], 100);
        }
    });
}

#[test]
fn a_sender_that_handed_over_more_than_is_taken_at_once_is_not_called_hostile() {
    let (here, there) = Connection::pair().expect("a pair");
    let mut sender = here.buffer_sender(&small(), LITTLE).expect("a sender");
    let mut receiver = there.buffer_receiver(&small()).expect("a receiver");
    assert!(!receiver.watch().expect("a sender"));
    const TOLD: usize = 260;
    if tell(&sender, TOLD) < TOLD || !send(&mut sender, b"", &[2 * LITTLE]) {
        eprintln!("skipped: the socket holds fewer packets than are taken at once");
        return;
    }
    // It takes as many as it keeps, before it looks at the message that needs one more.
    assert_eq!(receiver.is_there().expect("a sender"), Some(true));
    assert_holds(&received(&mut receiver).1[0], 2 * LITTLE);
}

#[test]
fn a_draft_that_is_dropped_leaves_it_to_the_receiver_to_wake_who_polls() {
    bounded(|_| {
        let (mut sender, mut receiver) = pair();
        assert!(send(&mut sender, b"", &[MOST / 2]));
        let draft = filled(&mut sender, MOST / 2).expect("there is memory");
        let (_, borrowed) = received(&mut receiver);
        // What the socket has to say is heard.
        while sender.watch_buffers().expect("a receiver") {}
        while readable(&sender) {
            assert!(!sender.watch_buffers().expect("a receiver"));
        }
        drop(draft);
        drop(borrowed);
        until_readable(&sender);
    });
}

#[test]
fn ends_that_are_gone_are_told_of() {
    let (mut sender, receiver) = pair();
    drop(receiver);
    assert!(matches!(sender.look(), Err(ChannelError::Closed { .. })));
    let (mut sender, there) = self::sender();
    drop(there);
    assert!(matches!(sender.look(), Err(ChannelError::Gone { .. })));
    let (mut sender, mut receiver) = pair();
    assert!(send(&mut sender, b"last", &[5_000]));
    drop(sender);
    let (head, buffers) = received(&mut receiver);
    assert_eq!(head, b"last");
    assert_holds(&buffers[0], 5_000);
    until_readable(&receiver);
    receiver.look().expect("it looks");
    assert!(matches!(receiver.try_receive(), Err(ChannelError::Gone { .. })));
}

#[test]
fn a_sender_says_nothing_before_it_has_its_ring() {
    let (here, there) = Connection::pair().expect("a pair");
    // Whether the other end may have these is not known.
    let setup = Setup { pages: PageSize::Hugetlb, ..small() };
    here.buffer_sender(&setup, MOST).map(drop).expect_err("no ring");
    let socket = OwnedFd::from(there);
    let heard = rustix::net::recv(&socket, &mut [0; 64], RecvFlags::DONTWAIT);
    assert_eq!(heard.map(|(_, bytes)| bytes), Ok(0));
}

#[test]
fn ends_of_messages_without_buffers_do_not_fit() {
    let (_sender, there) = sender();
    let error = there.message_receiver(&small()).expect_err("it does not fit");
    assert!(error.to_string().contains("the other does not"), "{error}");
}

#[test]
fn a_receiver_that_wants_no_more_is_told_of_while_waiting_for_memory() {
    bounded(|_| {
        let (mut sender, receiver) = pair();
        let _all = filled(&mut sender, MOST).expect("there is room");
        assert!(sender.try_lend(MOST).expect("it may come back").is_none());
        drop(receiver);
        let error = sender.try_lend(MOST).map(drop).expect_err("nothing comes back any more");
        assert!(matches!(error, ChannelError::Closed { .. }), "{error}");
    });
}

#[test]
fn a_sender_that_waits_for_memory_is_woken_when_its_receiver_goes_whoever_else_has_its_socket() {
    // The second has not taken the words that tell of memory yet.
    for takes in [true, false] {
        let (mut sender, there) = sender();
        let _copy = there.as_fd().try_clone_to_owned().expect("a copy");
        let mut receiver = there.buffer_receiver(&small()).expect("a receiver");
        assert!(send(&mut sender, b"all", &[MOST]));
        let kept = takes.then(|| received(&mut receiver).1);
        sender.look().expect("it is there");
        assert!(sender.try_lend(MOST).expect("it may come back").is_none());
        assert!(!sender.watch_buffers().expect("an answer") && !readable(&sender));
        drop(receiver);
        assert!(readable(&sender));
        // Who lies down again has taken what woke it.
        assert!(sender.watch_buffers().expect("an answer"));
        let error = sender.try_lend(MOST).map(drop).expect_err("nothing comes back any more");
        assert!(matches!(error, ChannelError::Closed { .. }), "{error}");
        drop(kept);
    }
}

#[test]
fn a_receiver_that_is_killed_with_a_buffer_never_gives_it_back_and_one_that_was_dropped_may() {
    bounded(|_| {
        let (mut sender, there) = sender();
        assert!(send(&mut sender, b"kept", &[5000]));
        let mut there = Some(there);
        let status = forked(move || {
            let there = there.take().expect("it is here");
            let mut receiver = there.buffer_receiver(&small()).expect("a receiver");
            let kept = received(&mut receiver).1;
            // It ends without a word.
            std::mem::forget((receiver, kept));
        });
        assert_eq!(status.exit_status(), Some(0));
        let answer = loop {
            match sender.is_taken() {
                Ok(false) => std::thread::yield_now(),
                answer => break answer,
            }
        };
        assert!(matches!(answer, Err(ChannelError::Gone { .. })), "{answer:?}");

        let (mut sender, mut receiver) = pair();
        assert!(send(&mut sender, b"kept", &[5000]));
        let kept = received(&mut receiver).1;
        drop(receiver);
        // By now its socket is seen to be closed.
        while !matches!(sender.look(), Err(ChannelError::Closed { .. })) {}
        assert!(!sender.is_taken().expect("it may come back"));
        assert_holds(&kept[0], 5000);
        drop(kept);
        assert!(sender.is_taken().expect("all came back"));
    });
}

#[test]
#[should_panic(expected = "a buffer is sent by who lent it")]
fn what_another_sender_lent_is_not_sent() {
    let (mut one, mut other) = (sender(), sender());
    assert!(send(&mut other.0, b"", &[4096]));
    let theirs = filled(&mut one.0, 4096).expect("memory");
    let _ = other.0.try_send(b"", &mut vec![theirs]);
}

#[test]
fn a_message_that_is_forgotten_hands_its_buffers_out_once() {
    let (mut sender, mut receiver) = pair();
    assert!(send(&mut sender, b"one", &[4096]));
    assert!(send(&mut sender, b"two", &[100_000]));
    let Ok(Buffers::Message(mut message)) = receiver.try_receive() else { panic!("it is there") };
    let first = message.take_buffers();
    std::mem::forget(message);
    let (head, second) = received(&mut receiver);
    assert_eq!(head, b"two");
    assert_holds(&first[0], 4096);
    assert_holds(&second[0], 100_000);
    assert!(send(&mut sender, b"three", &[1]));
    let Ok(Buffers::Message(message)) = receiver.try_receive() else { panic!("it is there") };
    std::mem::forget(message);
    // Only a forgotten one is there.
    assert!(matches!(receiver.is_there(), Ok(None)));
    assert!(matches!(receiver.watch(), Ok(false)));
    assert!(matches!(receiver.try_receive(), Ok(Buffers::Nothing)));
}

#[test]
fn what_a_forked_process_drops_is_still_its_parents() {
    bounded(|_| {
        let (mut sender, mut receiver) = pair();
        let mut draft = filled(&mut sender, 5_000).expect("there is memory");
        let mut ended = Some((sender, receiver, draft));
        let status = forked(|| drop(ended.take()));
        assert_eq!(status.exit_status(), Some(0));
        (sender, receiver, draft) = ended.take().expect("it is here");
        assert!(sender.try_send(b"head", &mut vec![draft]).expect("the receiver is there"));
        let (head, buffers) = received(&mut receiver);
        assert_eq!(head, b"head");
        assert_holds(&buffers[0], 5_000);
        let mut kept = Some(buffers);
        let status = forked(|| drop(kept.take()));
        assert_eq!(status.exit_status(), Some(0));
        assert_eq!(sender.returned(), 0, "the receiver has the buffer still");
        assert!(!sender.is_taken().expect("the receiver is there"));
        drop(kept);
        assert!(sender.is_taken().expect("the receiver is there"));
    });
}

#[test]
fn what_no_ring_has_room_for_is_too_long_however_much_it_is() {
    let (mut sender, _there) = sender();
    assert!(sender.longest(3) > 0);
    for (head, buffers) in [(usize::MAX, usize::MAX), (0, usize::MAX / 2), (usize::MAX, 0)] {
        assert_eq!(sender.longest(usize::MAX / 2), 0);
        let refused = sender.watch(head, buffers);
        assert!(matches!(refused, Err(ChannelError::TooLong { .. })), "{refused:?}");
    }
}
