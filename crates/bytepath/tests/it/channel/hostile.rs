//! Other ends that lie: every one of them is played by hand, on the socket and in the memory.

use std::io::{IoSlice, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use bytepath::channel::{ChannelError, Connection, MessageNow, Now, Receiver, Setup};
use bytepath::pages::{PageSize, SharedMemory};
use proptest::collection::vec;
use proptest::prelude::any;
use proptest::test_runner::{Config, TestRunner};
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

use super::{small, stream};
use crate::watch::bounded;

/// Where the ends keep their counts, by words.
pub(super) const COMMITTED: usize = 4096 / 8 + 48;
pub(super) const RELEASED: usize = 0;

/// Where the ring begins, by words; one of messages a header before.
const RING: usize = 8192 / 8;

/// The memory of a ring: with the page of each end before it.
const MEMORY_BYTES: usize = 8192 + RING_BYTES;
const RING_BYTES: usize = 4096;

pub(super) const SENDER: u8 = 1;
pub(super) const RECEIVER: u8 = 2;

pub(super) const BYTES: u8 = 1;
pub(super) const MESSAGES: u8 = 2;
pub(super) const BUFFERS: u8 = 4;

/// The version of the ring, twice.
pub(super) const OURS: [u8; 2] = [2, 2];

pub(super) fn hello(versions: [u8; 2], role: u8, flow: u8) -> Vec<u8> {
    let mut packet = b"bytepath".to_vec();
    packet.extend([versions[0], 0, versions[1], 0, role, flow, 0, 0, 1, 0, 0, 0]);
    packet
}

pub(super) fn say(socket: &OwnedFd, packet: &[u8], file: Option<BorrowedFd<'_>>) {
    say_with(socket, packet, file.as_slice());
}

pub(super) fn say_with(socket: &OwnedFd, packet: &[u8], files: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    assert!(files.is_empty() || with.push(SendAncillaryMessage::ScmRights(files)));
    let packet = [IoSlice::new(packet)];
    rustix::net::sendmsg(socket, &packet, &mut with, SendFlags::empty()).expect("it is sent");
}

fn offer(ring_bytes: u64) -> Vec<u8> {
    [u64::from(OURS[0]).to_le_bytes(), ring_bytes.to_le_bytes(), [0; 8]].concat()
}

/// What a receiver says to a sender that offers this memory.
fn offered(ring_bytes: u64, file: Option<BorrowedFd<'_>>) -> Result<(), ChannelError> {
    let (here, there) = Connection::pair().expect("a pair");
    let there = OwnedFd::from(there);
    say(&there, &hello(OURS, SENDER, BYTES), None);
    say(&there, &offer(ring_bytes), file);
    here.receiver(&small()).map(drop)
}

fn memory(bytes: usize) -> SharedMemory {
    SharedMemory::create(bytes, PageSize::Base).expect("memory")
}

/// An end with a liar at the other: the liar's socket, and its view of the memory.
struct Lied<End> {
    end: End,
    memory: SharedMemory,
    socket: OwnedFd,
}

fn lied_to<End>(
    flow: u8,
    make: impl Fn(Connection, &Setup) -> Result<End, ChannelError>,
) -> Lied<End> {
    let (here, there) = Connection::pair().expect("a pair");
    let (memory, socket) = (memory(MEMORY_BYTES), OwnedFd::from(there));
    say(&socket, &hello(OURS, SENDER, flow), None);
    say(&socket, &offer(RING_BYTES as u64), Some(memory.as_fd()));
    let end = make(here, &small()).expect("a receiver");
    Lied { end, memory, socket }
}

fn lied_to_receiver() -> Lied<Receiver> {
    lied_to(BYTES, Connection::receiver)
}

fn is_broken<T>(answer: Result<T, ChannelError>) -> bool {
    matches!(answer, Err(ChannelError::Broken(_)))
}

#[test]
fn counts_that_cannot_be_are_refused_for_good() {
    for count in [RING_BYTES as u64 + 1, 1 << 63, u64::MAX] {
        let Lied { end: mut receiver, memory, .. } = lied_to_receiver();
        memory.words()[COMMITTED].store(count, Relaxed);
        assert!(is_broken(receiver.filled(1)), "{count}");
        memory.words()[COMMITTED].store(1, Relaxed);
        assert!(is_broken(receiver.try_filled(1)), "{count}, taken back");
    }
}

#[test]
fn who_never_waits_hears_that_the_other_end_is_gone() {
    bounded(|_| {
        let Lied { end: mut receiver, memory, socket } = lied_to_receiver();
        assert!(matches!(receiver.try_filled(1), Ok(Now::Nothing)));
        memory.words()[COMMITTED].store(1, Relaxed);
        drop(socket);
        let Ok(Now::Filled(bytes)) = receiver.try_filled(1) else { panic!("what was there") };
        bytes.release(1);
        while let Ok(now) = receiver.try_filled(1) {
            assert!(matches!(now, Now::Nothing));
            std::thread::yield_now();
        }
        assert!(matches!(receiver.try_filled(1), Err(ChannelError::Gone { passed: Some(1) })));
    });
}

#[test]
fn a_count_that_goes_back_is_refused() {
    let Lied { end: mut receiver, memory, .. } = lied_to_receiver();
    memory.words()[COMMITTED].store(10, Relaxed);
    receiver.filled(8).expect("bytes").expect("no end").release(8);
    memory.words()[COMMITTED].store(9, Relaxed);
    assert!(is_broken(receiver.try_filled(8)));
}

#[test]
fn a_receiver_that_releases_what_it_never_got_is_refused() {
    for count in [4097, u64::MAX] {
        let (mut sender, receiver) = stream(small(), small());
        sender.space(4096).expect("space").commit(4096);
        receiver.memory().words()[RELEASED].store(count, Relaxed);
        assert!(is_broken(sender.space(1)), "{count}");
    }
}

#[test]
fn memory_that_could_be_taken_away_is_refused() {
    let refused = |ring_bytes, file: BorrowedFd<'_>| {
        let answer = offered(ring_bytes, Some(file));
        let refused =
            matches!(answer, Err(ChannelError::Unsafe(_) | ChannelError::TooLarge { .. }));
        assert!(refused, "{ring_bytes}: {answer:?}");
    };
    let unsealed = |flags| {
        let file = rustix::fs::memfd_create(c"test", MemfdFlags::CLOEXEC | flags).expect("a memfd");
        rustix::fs::ftruncate(&file, MEMORY_BYTES as u64).expect("as long");
        file
    };
    offered(4096, Some(memory(MEMORY_BYTES).as_fd())).expect("this one is safe");
    refused(4096, unsealed(MemfdFlags::empty()).as_fd());
    let growing = unsealed(MemfdFlags::ALLOW_SEALING);
    rustix::fs::fcntl_add_seals(&growing, SealFlags::GROW).expect("sealed");
    refused(4096, growing.as_fd());
    let file = tempfile::tempfile().expect("a file");
    file.set_len(MEMORY_BYTES as u64).expect("as long");
    refused(4096, file.as_fd());
    for ring_bytes in [0, 64, 4160, 8192, 1 << 30, 1 << 62, u64::MAX] {
        refused(ring_bytes, memory(MEMORY_BYTES).as_fd());
    }
    refused(4096, memory(MEMORY_BYTES - 4096).as_fd());
    refused(4096, memory(64 << 20).as_fd());
    assert!(matches!(offered(4096, None), Err(ChannelError::Stray(_))));
}

#[test]
fn a_sender_is_told_that_its_memory_is_refused() {
    let (here, there) = Connection::pair().expect("a pair");
    let there = OwnedFd::from(there);
    say(&there, &hello(OURS, RECEIVER, BYTES), None);
    say(&there, b"refused", None);
    assert!(matches!(here.sender(&small()), Err(ChannelError::Refused(_))));
}

#[test]
fn the_memory_that_a_sender_hands_over_keeps_its_size() {
    let (here, there) = Connection::pair().expect("a pair");
    let there = OwnedFd::from(there);
    say(&there, &hello(OURS, RECEIVER, BYTES), None);
    let sender = std::thread::spawn(move || here.sender(&small()));
    let file = loop {
        if let Some(file) = heard(&there) {
            break file;
        }
    };
    for bytes in [0, 1 << 30] {
        assert_eq!(rustix::fs::ftruncate(&file, bytes), Err(rustix::io::Errno::PERM));
    }
    say(&there, b"taken", None);
    sender.join().expect("no panic").expect("a sender");
}

/// The descriptor that comes with the next packet.
fn heard(socket: &OwnedFd) -> Option<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut with = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 64];
    let into = &mut [std::io::IoSliceMut::new(&mut bytes)];
    rustix::net::recvmsg(socket, into, &mut with, RecvFlags::CMSG_CLOEXEC).expect("a packet");
    with.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    })
}

#[test]
fn ends_of_other_versions_and_of_other_kinds_are_told_what_is_wrong() {
    let answer = |packet: &[u8]| {
        let (here, there) = Connection::pair().expect("a pair");
        say(&there.into(), packet, None);
        here.sender(&small()).expect_err("no receiver").to_string()
    };
    let version = answer(&hello([7, 9], RECEIVER, BYTES));
    assert!(version.contains("versions 7 to 9") && version.contains("2 to 2"), "{version}");
    assert!(answer(&hello(OURS, SENDER, BYTES)).contains("both send"));
    assert!(answer(&hello(OURS, RECEIVER, MESSAGES)).contains("the other messages"));
    assert!(answer(b"GET / HTTP/1.1").contains("no end of a channel"));
}

#[test]
fn nothing_that_is_said_first_does_harm() {
    bounded(|watch| {
        let config = Config { cases: 300, failure_persistence: None, ..Config::default() };
        let run = TestRunner::new(config).run(&(vec(any::<u8>(), 1..64), 0..21_usize), |drawn| {
            let (mut packet, true_bytes) = drawn;
            watch.at(format_args!("{packet:?}"));
            // The longer the true beginning, the further the lie gets.
            let true_bytes = true_bytes.min(packet.len());
            packet[..true_bytes].copy_from_slice(&hello(OURS, SENDER, BYTES)[..true_bytes]);
            let (here, there) = Connection::pair().expect("a pair");
            let there = OwnedFd::from(there);
            say(&there, &packet, None);
            say(&there, &packet, Some(memory(MEMORY_BYTES).as_fd()));
            assert!(here.receiver(&small()).is_err());
            Ok(())
        });
        run.unwrap_or_else(|failure| panic!("{failure}"));
    });
}

#[test]
fn no_header_of_a_message_leads_out_of_the_ring() {
    bounded(|watch| {
        let config = Config { cases: 300, failure_persistence: None, ..Config::default() };
        let headers = vec((any::<u64>(), 0..5_u8, 0..4200_u64), 1..40);
        let run = TestRunner::new(config).run(&headers, |drawn| {
            let Lied { end: mut receiver, memory, .. } =
                lied_to(MESSAGES, Connection::message_receiver);
            let mut committed = 0_u64;
            for (any, kind, small) in drawn {
                watch.at(format_args!("{any:x}, {kind}, {small}"));
                let header = match kind {
                    0 => any,
                    1 => small | 1 << 32,
                    2 => (4096 - committed % 4096).saturating_sub(8) | 1 << 32,
                    _ => small % 64,
                };
                let at = (committed % 4096) as usize / 8;
                memory.words()[RING - 1 + at].store(header, Relaxed);
                committed += 8 + (small % 64).next_multiple_of(8);
                memory.words()[COMMITTED].store(committed, Relaxed);
                match receiver.try_receive() {
                    Ok(MessageNow::Message(message)) => {
                        let mut bytes = vec![0; message.bytes().len()];
                        assert!(bytes.len() <= 64, "no more than was committed");
                        message.bytes().copy_to(&mut bytes);
                    }
                    Ok(MessageNow::Nothing) => {}
                    Ok(MessageNow::End) => panic!("nobody ended it"),
                    Err(error) => {
                        assert!(matches!(error, ChannelError::Broken(_)), "{error:?}");
                        return Ok(());
                    }
                }
            }
            Ok(())
        });
        run.unwrap_or_else(|failure| panic!("{failure}"));
    });
}

#[test]
fn packets_that_nobody_needs_only_wake_who_sleeps() {
    bounded(|_| {
        let Lied { end: mut receiver, memory, socket } = lied_to_receiver();
        for _ in 0..100 {
            say(&socket, &[0; 64], Some(memory.as_fd()));
        }
        assert!(!receiver.watch().expect("an answer"));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 16];
            receiver.read_exact(&mut bytes).map(|()| bytes)
        });
        say(&socket, &[0; 64], None);
        memory.words()[RING].store(u64::from_ne_bytes(*b"01234567"), Relaxed);
        memory.words()[RING + 1].store(u64::from_ne_bytes(*b"89abcdef"), Relaxed);
        memory.words()[COMMITTED].store(16, std::sync::atomic::Ordering::Release);
        say(&socket, b"w", None);
        assert_eq!(&reader.join().expect("no panic").expect("bytes"), b"0123456789abcdef");
    });
}

#[test]
fn a_second_hello_is_an_error_that_says_so() {
    let again = hello(OURS, SENDER, BYTES);
    let Lied { end: mut receiver, memory: _memory, socket } = lied_to_receiver();
    assert!(!receiver.watch().expect("an answer"));
    say(&socket, &again, None);
    let error = receiver.try_filled(1).expect_err("nobody says it twice").to_string();
    assert!(error.contains("hello again"), "{error}");

    let (here, there) = Connection::pair().expect("a pair");
    let mut sender = here.buffer_sender(&small(), 1 << 20).expect("it need not wait");
    let there = OwnedFd::from(there);
    say(&there, &hello(OURS, RECEIVER, BUFFERS), None);
    sender.look().expect("the first one is awaited");
    assert!(!sender.is_answered());
    say(&there, &hello(OURS, RECEIVER, BUFFERS), None);
    let error = sender.look().expect_err("nobody says it twice").to_string();
    assert!(error.contains("hello again"), "{error}");
    say(&there, b"taken", None);
    sender.look().expect("the answer");
    assert!(sender.is_answered());
    for _ in 0..2 {
        say(&there, &hello(OURS, RECEIVER, BUFFERS), None);
        let error = sender.look().expect_err("nobody says it later").to_string();
        assert!(error.contains("hello again"), "{error}");
    }
}

#[test]
fn who_greets_and_goes_is_noticed() {
    let (here, there) = Connection::pair().expect("a pair");
    let there = OwnedFd::from(there);
    say(&there, &hello(OURS, SENDER, BYTES), None);
    drop(there);
    let patient = Setup { patience: Duration::from_secs(3600), ..small() };
    assert!(matches!(here.receiver(&patient), Err(ChannelError::HungUp)));
}
