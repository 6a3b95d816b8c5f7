//! Receivers that lie: played by hand, on the socket and in the memory that they were handed.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering::Relaxed;

use bytepath::channel::{Broadcast, ChannelError, Connection, Receivers};
use bytepath::pages::SharedMemory;
use proptest::collection::vec;
use proptest::prelude::{any, prop_oneof};
use proptest::strategy::{Just, Strategy};
use proptest::test_runner::{Config, TestRunner};
use rustix::fs::{FallocateFlags, MemfdFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags};

use super::super::hostile::{
    BUFFERS, BYTES, COMMITTED, MESSAGES, OURS, RECEIVER, RELEASED, SENDER, hello, say, say_with,
};
use super::super::small;
use super::{PATIENCE, admits_until, joined, message, received};
use crate::watch::bounded;

/// What a receiver is handed, and its socket.
struct Liar {
    socket: OwnedFd,
    ring: OwnedFd,
    page: SharedMemory,
}

/// The descriptors that come with the next packet.
fn heard(socket: &OwnedFd) -> Vec<OwnedFd> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
    let mut with = RecvAncillaryBuffer::new(&mut space);
    let mut bytes = [0; 64];
    let into = &mut [std::io::IoSliceMut::new(&mut bytes)];
    rustix::net::recvmsg(socket, into, &mut with, RecvFlags::CMSG_CLOEXEC).expect("a packet");
    let files = with.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(files) => files.collect(),
        _ => Vec::new(),
    });
    files.collect()
}

fn liar(sender: &mut Broadcast) -> Liar {
    let (here, there) = Connection::pair().expect("a pair");
    let socket = OwnedFd::from(there);
    say(&socket, &hello(OURS, RECEIVER, MESSAGES), None);
    sender.add(here).expect("it may try");
    sender.wait_for_receivers(sender.receivers().present + 1, PATIENCE).expect("it joins");
    assert!(heard(&socket).is_empty(), "first the sender's hello");
    let mut files = heard(&socket).into_iter();
    let (ring, page) = (files.next().expect("the ring"), files.next().expect("a page"));
    assert!(files.next().is_none());
    Liar { socket, ring, page: SharedMemory::open(page).expect("it can be written") }
}

#[test]
fn what_receivers_share_cannot_be_written_by_any_of_them_nor_taken_away() {
    let mut sender = Broadcast::new(&small()).expect("a sender");
    let Liar { ring, page, .. } = liar(&mut sender);
    let reopened = rustix::fs::open(
        format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&ring)),
        OFlags::RDWR | OFlags::CLOEXEC,
        Mode::empty(),
    );
    for ring in [ring, reopened.expect("another descriptor of it")] {
        assert_eq!(rustix::io::pwrite(&ring, b"lie", 4096), Err(Errno::PERM));
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        assert_eq!(rustix::fs::fallocate(&ring, hole, 0, 4096), Err(Errno::PERM));
        for bytes in [0, 1 << 30] {
            assert_eq!(rustix::fs::ftruncate(&ring, bytes), Err(Errno::PERM));
        }
        assert!(rustix::fs::fcntl_add_seals(&ring, SealFlags::WRITE).is_err());
        assert!(SharedMemory::open(ring).is_err(), "it cannot be mapped to be written");
    }
    for bytes in [0, 1 << 30] {
        assert_eq!(rustix::fs::ftruncate(page.as_fd(), bytes), Err(Errno::PERM));
    }
}

#[test]
fn a_count_that_cannot_be_loses_its_receiver_and_nobody_else() {
    for count in [1, 4096, 1 << 63, u64::MAX] {
        let mut sender = Broadcast::new(&small()).expect("a sender");
        let mut honest = joined(&mut sender, small());
        let liar = liar(&mut sender);
        liar.page.words()[RELEASED].store(count, Relaxed);
        sender.wait_until_taken().expect("there is nothing to take");
        for number in 0..100 {
            sender.send(&message(number)).expect("it goes");
            assert_eq!(received(&mut honest).expect("one"), Some(number), "{count}");
        }
        let wanted = Receivers { present: 1, lost: 1, ..Receivers::default() };
        assert_eq!(sender.receivers(), wanted, "{count}");
    }
}

#[test]
fn a_count_that_goes_back_loses_its_receiver() {
    let mut sender = Broadcast::new(&small()).expect("a sender");
    let liar = liar(&mut sender);
    let mut sent = 0;
    for _ in 0..2 {
        while sender.try_space(504).expect("an answer").map(|space| space.commit(504)).is_some() {
            sent += 512;
        }
        liar.page.words()[RELEASED].store(sent, Relaxed);
    }
    assert!((sent, sender.receivers().present) == (8192, 1), "{sent}");
    assert!(sender.try_space(504).expect("an answer").is_some());
    liar.page.words()[RELEASED].store(sent - 1, Relaxed);
    sender.wait_until_taken().expect("nobody is left");
    assert_eq!(sender.receivers(), Receivers { lost: 1, ..Receivers::default() });
}

#[test]
fn a_page_that_its_receiver_empties_loses_that_receiver_only() {
    bounded(|_| {
        let mut sender = Broadcast::new(&small()).expect("a sender");
        let mut honest = joined(&mut sender, small());
        let liar = liar(&mut sender);
        for number in 0..100 {
            sender.send(&message(number)).expect("it goes");
            assert_eq!(received(&mut honest).expect("one"), Some(number));
            let now = sender.meter().bytes;
            liar.page.words()[RELEASED].store(now, Relaxed);
        }
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&liar.page, hole, 0, 4096).expect("a hole");
        for number in 0..100 {
            sender.send(&message(number)).expect("it goes");
            assert_eq!(received(&mut honest).expect("one"), Some(number));
        }
        assert_eq!(sender.receivers().lost, 1);
    });
}

/// What a liar does.
#[derive(Debug, Clone, Copy)]
enum Lie {
    /// Stores to a word of its page.
    Store { word: usize, value: u64 },
    /// Says that it has released all but so many bytes.
    Release { but: u64 },
    /// Sends packets.
    Packets { count: usize },
}

fn lies() -> impl Strategy<Value = Vec<Lie>> {
    let words = prop_oneof![4 => (0..5_usize).prop_map(|line| line * 16), 2 => 0..512_usize];
    let values = prop_oneof![0..3_u64, 0..10_000_u64, any::<u64>()];
    let lie = prop_oneof![
        2 => (words, values).prop_map(|(word, value)| Lie::Store { word, value }),
        4 => (0..200_u64).prop_map(|but| Lie::Release { but: but.saturating_sub(100) }),
        1 => Just(Lie::Packets { count: 20 }),
    ];
    vec(lie, 1..60)
}

#[test]
fn whatever_a_receiver_writes_others_get_every_message() {
    bounded(|watch| {
        let config = Config { cases: 200, failure_persistence: None, ..Config::default() };
        let run = TestRunner::new(config).run(&lies(), |lies| {
            watch.at(format_args!("{lies:?}"));
            let mut sender = Broadcast::new(&small()).expect("a sender");
            let mut honest = joined(&mut sender, small());
            let liar = liar(&mut sender);
            let mut sent = 0;
            for lie in lies {
                match lie {
                    Lie::Store { word, value } => liar.page.words()[word].store(value, Relaxed),
                    Lie::Release { but } => {
                        let count = sender.meter().bytes.saturating_sub(but);
                        liar.page.words()[RELEASED].store(count, Relaxed);
                    }
                    Lie::Packets { count } => {
                        for _ in 0..count {
                            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
                            let _ = rustix::net::send(&liar.socket, &[7; 64], flags);
                        }
                    }
                }
                for _ in 0..3 {
                    let bytes = message(sent);
                    let Some(mut space) = sender.try_space(bytes.len()).expect("an answer") else {
                        continue;
                    };
                    space.bytes().copy_from(0, &bytes);
                    space.commit(bytes.len());
                    sent += 1;
                    assert_eq!(received(&mut honest).expect("one"), Some(sent - 1));
                }
                sender.watch(100).expect("an answer");
            }
            drop(liar);
            for number in sent..sent + 20 {
                sender.send(&message(number)).expect("it goes");
                assert_eq!(received(&mut honest).expect("one"), Some(number));
            }
            sender.wait_until_taken().expect("all of it");
            admits_until(&mut sender, |now| now.present == 1);
            Ok(())
        });
        run.unwrap_or_else(|failure| panic!("{failure}"));
    });
}

fn offer(begins: u64) -> Vec<u8> {
    [u64::from(OURS[0]).to_le_bytes(), 4096_u64.to_le_bytes(), begins.to_le_bytes()].concat()
}

/// What a receiver says to a sender that offers these.
fn offered(begins: u64, files: &[&OwnedFd]) -> Result<(), ChannelError> {
    let (here, there) = Connection::pair().expect("a pair");
    let there = OwnedFd::from(there);
    say(&there, &hello(OURS, SENDER, MESSAGES), None);
    let files: Vec<_> = files.iter().map(AsFd::as_fd).collect();
    say_with(&there, &offer(begins), &files);
    here.message_receiver(&small()).map(drop)
}

fn memfd(bytes: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create(c"test", flags).expect("a memfd");
    rustix::fs::ftruncate(&file, bytes).expect("as long");
    rustix::fs::fcntl_add_seals(&file, seals).expect("sealed");
    file
}

#[test]
fn receivers_refuse_a_ring_that_others_could_write_and_pages_that_could_be_taken_away() {
    let (ring, page) = (SealFlags::SHRINK | SealFlags::FUTURE_WRITE, SealFlags::SHRINK);
    let good = (memfd(8192, ring), memfd(4096, page));
    offered(4096 << 20, &[&good.0, &good.1]).expect("these are safe");
    let refused = |begins, files: &[&OwnedFd]| {
        let answer = offered(begins, files);
        assert!(
            matches!(answer, Err(ChannelError::Unsafe(_) | ChannelError::Stray(_))),
            "{answer:?}"
        );
    };
    refused(0, &[&memfd(8192, SealFlags::SHRINK), &good.1]);
    refused(0, &[&memfd(8192, SealFlags::FUTURE_WRITE), &good.1]);
    refused(0, &[&memfd(4096, ring), &good.1]);
    refused(0, &[&good.0, &memfd(4096, SealFlags::empty())]);
    refused(0, &[&good.0, &memfd(8192, page)]);
    refused(0, &[&good.0, &memfd(100, page)]);
    refused(0, &[&good.0, &tempfile::tempfile().expect("a file").into()]);
    refused(u64::MAX, &[&good.0, &good.1]);
    refused(u64::MAX / 2, &[&good.0, &good.1]);
}

#[test]
fn only_receivers_of_messages_take_a_ring_that_they_cannot_write() {
    let ring = memfd(8192, SealFlags::SHRINK | SealFlags::FUTURE_WRITE);
    let page = memfd(4096, SealFlags::SHRINK);
    let offered = |flow, receives: fn(Connection) -> Result<(), ChannelError>| {
        let (here, there) = Connection::pair().expect("a pair");
        let there = OwnedFd::from(there);
        say(&there, &hello(OURS, SENDER, flow), None);
        say_with(&there, &offer(0), &[ring.as_fd(), page.as_fd()]);
        receives(here)
    };
    offered(MESSAGES, |end| end.message_receiver(&small()).map(drop)).expect("it reads alone");
    let refused = [
        offered(BYTES, |end| end.receiver(&small()).map(drop)),
        offered(BUFFERS, |end| end.buffer_receiver(&small()).map(drop)),
    ];
    for answer in refused {
        assert!(matches!(answer, Err(ChannelError::Unsafe(_))), "{answer:?}");
    }
}

#[test]
fn a_receiver_believes_no_count_that_cannot_be_wherever_it_joined() {
    for (begins, count) in [(0, 4097), (10_000, 9_999), (10_000, 14_097), (1 << 62, u64::MAX)] {
        // Written through a mapping that was there before the seal.
        let file = memfd(8192, SealFlags::SHRINK);
        let ring = SharedMemory::open(file.try_clone().expect("a descriptor")).expect("mapped");
        rustix::fs::fcntl_add_seals(&file, SealFlags::FUTURE_WRITE).expect("sealed");
        ring.words()[COMMITTED - 512].store(count, Relaxed);
        let (here, there) = Connection::pair().expect("a pair");
        let there = OwnedFd::from(there);
        say(&there, &hello(OURS, SENDER, MESSAGES), None);
        say_with(&there, &offer(begins), &[file.as_fd(), memfd(4096, SealFlags::SHRINK).as_fd()]);
        let mut receiver = here.message_receiver(&small()).expect("a receiver");
        for _ in 0..2 {
            let answer = receiver.try_receive();
            assert!(
                matches!(answer, Err(ChannelError::Broken(_))),
                "{begins}, {count}: {answer:?}"
            );
        }
    }
}
