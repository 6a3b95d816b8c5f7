//! Channels: every byte and message in its order, whatever the waits; ends that fail, lie, or are
//! killed.

mod broadcast;
mod buffers;
mod ends;
mod hostile;
mod killed;
mod meeting;
mod messages;
mod parcels;
mod random;
mod visiting;

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use bytepath::Wait;
use bytepath::channel::{Broadcast, ChannelError, Connection, Now, Receiver, Sender, Setup, Users};
use bytepath::pages::{PageSize, SharedMemory};
use rustix::event::{PollFd, PollFlags, Timespec};

use crate::ends::contents;
use crate::trial::same;
use crate::watch::bounded;

/// A setup with a ring small enough to go round often.
fn small() -> Setup {
    Setup { ring_bytes: 4096, pages: PageSize::Base, ..Setup::default() }
}

fn waits() -> impl Iterator<Item = Wait> {
    Wait::NAMES.iter().filter_map(|name| Wait::named(name))
}

/// A name that was never used: a process that another test is starting may hold a socket that has
/// one for a moment longer.
fn name(of: &str) -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Relaxed);
    format!("@bytepath-test-{of}-{}-{count}", std::process::id())
}

/// Both ends of a stream, each with its setup.
fn stream(sender: Setup, receiver: Setup) -> (Sender, Receiver) {
    let (here, there) = Connection::pair().expect("a pair");
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || there.receiver(&receiver).expect("a receiver"));
        let sender = here.sender(&sender).expect("a sender");
        (sender, receiver.join().expect("no panic"))
    })
}

/// Whether a descriptor is readable now.
fn readable(fd: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, Some(&Timespec::default())).expect("a poll") > 0
}

/// Waits until a descriptor is readable.
fn until_readable(fd: impl AsFd) {
    let mut fds = [PollFd::new(&fd, PollFlags::IN)];
    rustix::event::poll(&mut fds, None).expect("a poll");
}

#[test]
fn what_is_written_is_read_whatever_the_waits() {
    bounded(|watch| {
        for (one, other) in waits().flat_map(|one| waits().map(move |other| (one, other))) {
            for ring_bytes in [4096, 512 << 10] {
                watch.at(format_args!("{one} to {other}, a ring of {ring_bytes}"));
                let setup = |wait| Setup { wait, ring_bytes, ..small() };
                let (mut sender, mut receiver) = stream(setup(one), setup(other));
                let wanted = contents(1_000_003);
                let read = std::thread::spawn(move || {
                    let mut all = Vec::new();
                    receiver.read_to_end(&mut all).expect("it reads");
                    all
                });
                sender.write_all(wanted).expect("it writes");
                sender.finish();
                same(&read.join().expect("no panic"), wanted);
            }
        }
    });
}

#[test]
fn borrowed_space_goes_from_a_file_into_a_file_by_the_ring_alone() {
    bounded(|_| {
        let wanted = contents(3_000_001);
        let mut source = tempfile::tempfile().expect("a file");
        source.write_all(wanted).expect("written");
        std::io::Seek::rewind(&mut source).expect("from its start");
        let mut sink = tempfile::tempfile().expect("a file");
        let setup = Setup { pages: PageSize::Huge, ..Setup::default() };
        let (mut sender, mut receiver) = stream(setup, setup);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while let Some(filled) = receiver.filled(100_000).expect("bytes") {
                    let count = filled.bytes().write_to(&sink).expect("it writes");
                    filled.release(count);
                }
            });
            loop {
                let mut space = sender.space(70_000).expect("space");
                match space.bytes().read_from(0, &source).expect("it reads") {
                    0 => break,
                    count => space.commit(count),
                }
            }
            sender.wait_until_taken().expect("all of it");
            assert_eq!(sender.meter().bytes(), wanted.len() as u64);
            sender.finish();
        });
        let mut all = Vec::new();
        std::io::Seek::rewind(&mut sink).expect("from its start");
        sink.read_to_end(&mut all).expect("the sink");
        same(&all, wanted);
    });
}

#[test]
fn a_large_ring_of_any_size_is_taken_by_an_end_that_asks_for_the_same() {
    let setup = Setup { ring_bytes: (64 << 20) + 1, ..small() };
    let (mut sender, mut receiver) = stream(setup, setup);
    sender.write_all(b"x").expect("it writes");
    receiver.filled(1).expect("bytes").expect("no end").release(1);
}

#[test]
fn a_ring_that_is_too_large_for_the_receiver_is_refused_to_both_with_its_size_and_what_to_do() {
    let (here, there) = Connection::pair().expect("a pair");
    let setup = Setup { ring_bytes: 65 << 20, ..small() };
    let errors = std::thread::scope(|scope| {
        let receiver = scope.spawn(move || there.receiver(&small()).map(drop));
        let sender = here.sender(&setup).map(drop);
        [sender, receiver.join().expect("no panic")].map(|end| end.expect_err("it is too large"))
    });
    for error in errors {
        assert!(matches!(error, ChannelError::TooLarge { .. }), "{error:?}");
        for words in ["65 MiB", "64 MiB", "give both ends the same ring_bytes"] {
            assert!(error.to_string().contains(words), "{error}");
        }
    }
}

#[test]
fn what_was_not_committed_is_not_sent_and_what_was_not_released_comes_again() {
    let (mut sender, mut receiver) = stream(small(), small());
    let mut space = sender.space(10).expect("space");
    space.bytes().copy_from(0, b"0123456789");
    space.commit(4);
    sender.space(10).expect("space").bytes().copy_from(0, b"lost");
    for (wanted, release) in [("0123", 0), ("0123", 3), ("3", 1)] {
        let filled = receiver.filled(10).expect("bytes").expect("no end");
        let mut bytes = vec![0; filled.len()];
        filled.bytes().copy_to(&mut bytes);
        assert_eq!(String::from_utf8_lossy(&bytes), wanted);
        filled.release(release);
    }
    assert!(matches!(receiver.try_filled(10), Ok(Now::Nothing)));
}

#[test]
fn a_full_ring_and_an_empty_one_say_so_without_waiting() {
    let (mut sender, mut receiver) = stream(small(), small());
    assert!(matches!(receiver.try_filled(1), Ok(Now::Nothing)));
    let mut sent = 0;
    while let Some(space) = sender.try_space(1000).expect("an answer") {
        sent += space.len();
        let count = space.len();
        space.commit(count);
    }
    assert_eq!(sent, 4096);
    match receiver.try_filled(usize::MAX).expect("an answer") {
        Now::Filled(filled) => filled.release(4096),
        other => panic!("{other:?}"),
    }
    assert!(sender.try_space(1).expect("an answer").is_some());
    sender.finish();
    assert!(matches!(receiver.try_filled(1), Ok(Now::End)));
}

#[test]
fn who_polls_is_woken_when_there_is_something_and_not_before() {
    bounded(|_| {
        let (mut sender, mut receiver) = stream(small(), small());
        assert!(!receiver.watch().expect("an answer") && !readable(&receiver));
        sender.write_all(&[7; 4096]).expect("it writes");
        assert!(readable(&receiver) && receiver.watch().expect("an answer"));
        assert!(!sender.watch().expect("an answer") && !readable(&sender));
        receiver.filled(100).expect("bytes").expect("no end").release(100);
        until_readable(&sender);
        assert!(sender.try_space(1).expect("an answer").is_some_and(|space| !space.is_empty()));
        assert!(!readable(&sender), "the packet that woke it is taken");
        receiver.filled(4096).expect("bytes").expect("no end").release(3996);
        assert!(!receiver.watch().expect("an answer") && !readable(&receiver));
        sender.finish();
        until_readable(&receiver);
        assert!(matches!(receiver.try_filled(1), Ok(Now::End)));
    });
}

#[test]
fn a_sleeper_that_wants_one_byte_is_not_left_asleep_for_half_of_the_ring() {
    bounded(|watch| {
        for wait in waits() {
            watch.at(wait);
            let (mut sender, mut receiver) = stream(Setup { wait, ..small() }, small());
            sender.write_all(&[7; 4096]).expect("it writes");
            let writer = std::thread::spawn(move || {
                sender.write_all(b"x").expect("it writes");
                sender
            });
            receiver.filled(1).expect("bytes").expect("no end").release(1);
            drop(writer.join().expect("no panic"));
        }
    });
}

#[test]
fn rings_lie_in_huge_pages_where_shared_memory_has_them() {
    let (sender, receiver) = stream(Setup::default(), Setup::default());
    let broadcast = Broadcast::new(&Setup::default()).expect("a sender");
    let huge = [sender.memory(), receiver.memory(), broadcast.memory()]
        .map(|memory| memory.huge_bytes().expect("told"));
    let probe = SharedMemory::create(1, PageSize::Huge).and_then(|memory| memory.huge_bytes());
    if probe.is_ok_and(|bytes| bytes > 0) {
        assert_eq!(huge, [2 << 20; 3]);
    } else {
        eprintln!("skipped: shared memory gets no huge pages here ({huge:?})");
    }
}

#[test]
fn a_sender_that_was_silent_is_an_error_and_not_a_wait_for_ever() {
    let (here, _there) = Connection::pair().expect("a pair");
    let hasty = Setup { patience: Duration::from_millis(1), ..small() };
    assert!(matches!(here.receiver(&hasty), Err(ChannelError::Silent(_))));
}

#[test]
fn a_small_ring_takes_the_pages_that_it_has() {
    for (ring_bytes, pages) in
        [(4096, PageSize::Huge), (400_000, PageSize::Huge), (4096, PageSize::Base)]
    {
        let setup = Setup { ring_bytes, pages, ..Setup::default() };
        let (mut sender, mut receiver) = stream(setup, setup);
        let most = ring_bytes + (32 << 10);
        assert!(sender.memory().len() <= most && receiver.memory().len() <= most, "{setup:?}");
        sender.write_all(b"some bytes").expect("it writes");
        let mut all = [0; 10];
        receiver.read_exact(&mut all).expect("bytes");
        assert_eq!(&all, b"some bytes");
    }
}

/// The name of the test below.
const SMALL_PAGES: &str =
    "channel::a_ring_that_gets_no_large_pages_takes_no_more_than_it_needs_of_small_ones";

#[test]
fn a_ring_that_gets_no_large_pages_takes_no_more_than_it_needs_of_small_ones() {
    // What a process is not given, another one has.
    if !crate::is_alone(SMALL_PAGES) {
        return;
    }
    rustix::thread::disable_transparent_huge_pages(true).expect("anybody may do without");
    let setup =
        Setup { ring_bytes: 3 << 20, pages: PageSize::Huge, users: Users::Any, ..Setup::default() };
    let (mut sender, mut receiver) = stream(setup, setup);
    if sender.memory().huge_bytes().expect("counted") > 0 {
        return println!("skipped: the kernel gives large pages all the same");
    }
    assert!(sender.memory().len() <= (3 << 20) + (32 << 10), "{}", sender.memory().len());
    sender.write_all(b"some bytes").expect("it writes");
    let mut all = [0; 10];
    receiver.read_exact(&mut all).expect("bytes");
    assert_eq!(&all, b"some bytes");
}
