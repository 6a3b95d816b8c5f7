//! Memory of another process, copied where it is: between real processes, refused, and by liars.

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytepath::channel::{ChannelError, Connection, MemoryOwner, MemoryVisitor, Setup, ShownTo};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, UCred};
use rustix::process::{Pid, WaitId, WaitIdOptions, getegid, geteuid, getpid};

use super::{readable, small, until_readable};
use crate::ends::contents;
use crate::sys::forked;
use crate::trial::same;
use crate::watch::bounded;

/// What the other process's part is, in its environment.
const PART: &str = "BYTEPATH_TEST_VISITED";

/// The number that the other process's end of the connection has there.
const ITS_END: i32 = 0;

/// Sizes around pages; the buffers are shown in this order.
const SIZES: [usize; 6] = [1, 4095, 4096, 4097, 1_000_003, 0];

/// The visitor of an owner that is another process, which is that of the test of this name below.
fn visitor_of(part: &str) -> (Child, MemoryVisitor) {
    let (here, there) = Connection::pair().expect("a pair");
    let name = "channel::visiting::the_part_of_the_other_process";
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", name, "--nocapture"]).env(PART, part);
    let its_end = OwnedFd::from(there);
    let child = command.stdin(its_end).stdout(Stdio::null()).spawn().expect("it runs");
    // The command keeps a copy of the other end.
    drop(command);
    (child, here.memory_visitor(&Setup::default()).expect("an owner"))
}

/// What the other process does; in the test's own process nothing.
#[test]
fn the_part_of_the_other_process() {
    let Ok(part) = std::env::var(PART) else { return };
    let its_end = std::io::stdin().as_fd().try_clone_to_owned().expect("its end");
    assert_eq!(std::io::stdin().as_raw_fd(), ITS_END);
    let connection = Connection::from_fd(its_end).expect("a connection");
    // Else it would stay open after this end is dropped.
    let nothing = OwnedFd::from(std::fs::File::open("/dev/null").expect("nothing"));
    rustix::stdio::dup2_stdin(nothing).expect("no other end is left");
    let mut owner = connection.memory_owner(&Setup::default()).expect("a visitor");
    if part == "waits" {
        owner.show(vec![7; 100_000], 100_000, ShownTo::BeRead).expect("shown");
        // Until it is killed, or the visitor leaves.
        let _ = owner.take_back();
        return;
    }
    for size in SIZES {
        owner.show(contents(size).to_vec(), size, ShownTo::BeRead).expect("shown");
    }
    for size in SIZES {
        let (buffer, copied) = owner.take_back().expect("a visitor").expect("one is shown");
        assert_eq!(copied, size);
        same(&buffer, contents(size));
    }
    owner.show(vec![0; 70_000], 65_536, ShownTo::BeFilled).expect("shown");
    let (buffer, filled) = owner.take_back().expect("a visitor").expect("one is shown");
    assert_eq!(filled, 60_000);
    same(&buffer[..60_000], contents(60_000));
    same(&buffer[60_000..], &[0; 10_000]);
    owner.finish().expect("a visitor");
}

fn visited(visitor: &mut MemoryVisitor) {
    for size in SIZES {
        let mut visit = visitor.visit().expect("an owner").expect("a buffer");
        assert_eq!((visit.to(), visit.len()), (ShownTo::BeRead, size as u64));
        let mut bytes = vec![0; size];
        // In two pieces, the second of which does not begin at a page.
        let (first, second) = bytes.split_at_mut(size / 3);
        visit.copy_to(0, first).expect("copied");
        visit.copy_to(size as u64 / 3, second).expect("copied");
        same(&bytes, contents(size));
        visit.done(size as u64).expect("an owner");
    }
}

/// Whether this machine lets one process of a user reach another's memory; told where not.
fn may_visit() -> bool {
    let (mut child, mut visitor) = visitor_of("waits");
    let mut visit = visitor.visit().expect("an owner").expect("a buffer");
    let refused = match visit.copy_to(0, &mut [0]) {
        Err(ChannelError::Unreachable { why, .. }) => Some(why),
        copied => copied.map(|()| None).expect("copied"),
    };
    drop(visit);
    drop(visitor);
    child.kill().expect("it is killed");
    child.wait().expect("it is gone");
    if let Some(why) = refused {
        eprintln!("skipped: {why}");
    }
    refused.is_none()
}

#[test]
fn the_memory_of_another_process_is_copied_and_filled() {
    bounded(|_| {
        if !may_visit() {
            return;
        }
        let (mut child, mut visitor) = visitor_of("finishes");
        visited(&mut visitor);
        let mut visit = visitor.visit().expect("an owner").expect("a buffer");
        assert_eq!((visit.to(), visit.len()), (ShownTo::BeFilled, 65_536));
        visit.copy_from(10_000, &contents(60_000)[10_000..]).expect("copied");
        visit.copy_from(0, &contents(60_000)[..10_000]).expect("copied");
        visit.done(60_000).expect("an owner");
        assert!(visitor.visit().expect("an owner that says so").is_none());
        let bytes = SIZES.iter().sum::<usize>() as u64 + 60_000;
        assert_eq!(visitor.meter().read().bytes, bytes);
        assert!(child.wait().expect("it ends").success());
    });
}

#[test]
fn an_owner_that_is_killed_is_noticed_before_and_while_it_is_visited() {
    bounded(|_| {
        if !may_visit() {
            return;
        }
        let (mut child, mut visitor) = visitor_of("waits");
        let mut visit = visitor.visit().expect("an owner").expect("a buffer");
        visit.copy_to(0, &mut [0; 100]).expect("copied");
        let passed = 100;
        child.kill().expect("it is killed");
        let child_is = WaitId::Pid(Pid::from_child(&child));
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
        rustix::process::waitid(child_is, options).expect("it ends");
        let gone = |error| matches!(error, ChannelError::Gone { passed: p } if p == Some(passed));
        // As long as nobody has been told of its end, its number is its own.
        assert!(gone(visit.copy_to(0, &mut [0; 100]).expect_err("nobody is there")));
        child.wait().expect("it is gone");
        assert!(gone(visit.copy_to(0, &mut [0; 100]).expect_err("nobody is there")));
        assert!(gone(visit.done(100).expect_err("nobody is there")));
        assert!(gone(visitor.visit().map(drop).expect_err("nobody is there")));
    });
}

#[test]
fn a_visitor_that_may_not_is_told_what_keeps_it() {
    bounded(|_| {
        if !geteuid().is_root() {
            eprintln!("skipped: only root can become another user");
            return;
        }
        let (mut child, mut visitor) = visitor_of("waits");
        // This thread alone becomes nobody, who may not look into root's processes.
        let nobody = rustix::process::Uid::from_raw(65_534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("root may");
        let mut visit = visitor.visit().expect("an owner").expect("a buffer");
        let error = visit.copy_to(0, &mut [0]).expect_err("it is another user's");
        assert!(matches!(error, ChannelError::Unreachable { .. }), "{error:?}");
        let said = error.to_string();
        for words in [&*format!("process {}", child.id()), "EPERM"] {
            assert!(said.contains(words), "{said}");
        }
        let kind = std::io::Error::from(error).kind();
        assert_eq!(kind, std::io::ErrorKind::PermissionDenied);
        // It ends by itself: it has its buffer back.
        drop(visit);
        child.wait().expect("it is gone");
    });
}

fn pair() -> (MemoryOwner, MemoryVisitor) {
    let (here, there) = Connection::pair().expect("a pair");
    std::thread::scope(|scope| {
        let visitor = scope.spawn(move || there.memory_visitor(&small()).expect("a visitor"));
        let owner = here.memory_owner(&small()).expect("an owner");
        (owner, visitor.join().expect("no panic"))
    })
}

#[test]
fn a_visitor_that_leaves_is_an_error_for_the_owner() {
    bounded(|_| {
        let (mut owner, visitor) = pair();
        owner.show(vec![1], 1, ShownTo::BeRead).expect("shown");
        drop(visitor);
        assert!(matches!(owner.take_back(), Err(ChannelError::Gone { passed: Some(0) })));
        assert!(matches!(owner.show(vec![1], 1, ShownTo::BeRead), Err(ChannelError::Gone { .. })));
    });
}

#[test]
fn a_visit_that_is_dropped_gives_nothing_of_its_buffer_back_and_no_other_one() {
    bounded(|_| {
        let (mut owner, mut visitor) = pair();
        for byte in [1, 2, 3] {
            owner.show(vec![byte; 10], 10, ShownTo::BeFilled).expect("shown");
        }
        drop(visitor.visit().expect("an owner").expect("a buffer"));
        visitor.visit().expect("an owner").expect("a buffer").done(7).expect("an owner");
        visitor.visit().expect("an owner").expect("a buffer").done(8).expect("an owner");
        for (byte, filled) in [(1, 0), (2, 7), (3, 8)] {
            let taken = owner.take_back().expect("a visitor");
            assert_eq!(taken, Some((vec![byte; 10], filled)));
        }
    });
}

#[test]
fn more_buffers_than_a_socket_holds_wait_for_each_other() {
    bounded(|_| {
        let (mut owner, mut visitor) = pair();
        const BUFFERS: usize = 3000;
        let visits = std::thread::spawn(move || {
            let mut visits = 0;
            while let Some(visit) = visitor.visit().expect("an owner") {
                let bytes = visit.len();
                visit.done(bytes).expect("an owner");
                visits += 1;
            }
            visits
        });
        for number in 0..BUFFERS {
            owner.show(vec![0; 8], number % 8, ShownTo::BeRead).expect("shown");
            if owner.shown() > 100 {
                owner.take_back().expect("a visitor").expect("one is shown");
            }
        }
        owner.finish().expect("a visitor");
        assert_eq!(visits.join().expect("no panic"), BUFFERS);
    });
}

#[test]
fn more_buffers_than_a_socket_holds_are_shown_before_any_is_taken_back() {
    bounded(|_| {
        let (mut owner, mut visitor) = pair();
        const BUFFERS: usize = 3000;
        let visits = std::thread::spawn(move || {
            let mut bytes = 0;
            while let Some(visit) = visitor.visit().expect("an owner") {
                bytes += visit.len();
                let done = visit.len() / 2;
                visit.done(done).expect("an owner");
            }
            bytes
        });
        let wanted = |number: usize| vec![number as u8; 8];
        for number in 0..BUFFERS {
            owner.show(wanted(number), number % 8, ShownTo::BeFilled).expect("shown");
        }
        for number in 0..BUFFERS {
            let taken = owner.take_back().expect("a visitor").expect("one is shown");
            assert_eq!(taken, (wanted(number), number % 8 / 2));
        }
        assert_eq!(owner.shown(), 0);
        owner.finish().expect("a visitor");
        let bytes = (0..BUFFERS).map(|number| number as u64 % 8).sum::<u64>();
        assert_eq!(visits.join().expect("no panic"), bytes);
    });
}

#[test]
fn an_end_that_hangs_up_before_it_has_read_who_greets_it_has_hung_up() {
    bounded(|_| {
        for is_owner in [true, false] {
            let (here, there) = Connection::pair().expect("a pair");
            let socket = OwnedFd::from(there);
            let mut hello = b"bytepath".to_vec();
            hello.extend([2, 0, 2, 0, if is_owner { 2 } else { 1 }, 8, 0, 0, 0, 0, 0, 0]);
            say(&socket, &hello);
            let all = (hello.len() + b"here".len()) as u64;
            let other = std::thread::spawn(move || {
                while rustix::io::ioctl_fionread(&socket).expect("an answer") < all {
                    std::thread::yield_now();
                }
            });
            let met = match is_owner {
                true => here.memory_owner(&small()).map(drop),
                false => here.memory_visitor(&small()).map(drop),
            };
            assert!(matches!(met, Err(ChannelError::HungUp)), "{met:?}");
            other.join().expect("no panic");
        }
    });
}

/// A visitor of a liar: what is said next is what the visitor hears.
fn lied_to() -> (OwnedFd, MemoryVisitor) {
    let (here, there) = Connection::pair().expect("a pair");
    let socket = OwnedFd::from(there);
    let mut hello = b"bytepath".to_vec();
    hello.extend([2, 0, 2, 0, 1, 8, 0, 0, 0, 0, 0, 0]);
    say(&socket, &hello);
    let us = UCred { pid: getpid(), uid: geteuid(), gid: getegid() };
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    assert!(with.push(SendAncillaryMessage::ScmCredentials(us)));
    let packet = [IoSlice::new(b"here")];
    rustix::net::sendmsg(&socket, &packet, &mut with, SendFlags::empty()).expect("it is sent");
    say(&socket, b"visit me");
    (socket, here.memory_visitor(&small()).expect("a visitor"))
}

fn say(socket: &OwnedFd, packet: &[u8]) {
    rustix::net::send(socket, packet, SendFlags::empty()).expect("it is sent");
}

fn shown(kind: u64, address: u64, bytes: u64) -> Vec<u8> {
    [kind, address, bytes].iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn descriptors_that_come_with_a_greeting_are_closed() {
    let file = tempfile::tempfile().expect("a file");
    let open = || std::fs::read_dir("/proc/self/fd").expect("it lists").count();
    let greet = || {
        let (here, there) = Connection::pair().expect("a pair");
        let socket = OwnedFd::from(there);
        let mut hello = b"bytepath".to_vec();
        hello.extend([2, 0, 2, 0, 2, 8, 0, 0, 0, 0, 0, 0]);
        say(&socket, &hello);
        let files = [file.as_fd(); 8];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        assert!(with.push(SendAncillaryMessage::ScmRights(&files)));
        let packet = [IoSlice::new(b"here")];
        rustix::net::sendmsg(&socket, &packet, &mut with, SendFlags::empty()).expect("it is sent");
        drop(here.memory_owner(&small()));
    };
    greet();
    let before = open();
    (0..300).for_each(|_| greet());
    // Other tests have their own, but not so many.
    assert!(open() < before + 600, "{} and {before}", open());
}

#[test]
fn what_is_copied_of_an_owner_that_dropped_its_end_is_no_copy() {
    if !may_visit() {
        return;
    }
    let (socket, mut visitor) = lied_to();
    let memory = vec![7_u8; 1000];
    say(&socket, &shown(1, memory.as_ptr() as u64, 1000));
    let mut visit = visitor.visit().expect("a liar").expect("a buffer");
    let mut copy = [0; 1000];
    visit.copy_to(0, &mut copy).expect("it is there");
    assert_eq!(copy, [7; 1000]);
    drop(socket);
    let error = visit.copy_to(0, &mut copy).expect_err("nobody keeps it");
    assert!(matches!(error, ChannelError::Gone { .. }), "{error:?}");
}

#[test]
fn nothing_is_written_where_the_owner_dropped_its_end() {
    if !may_visit() {
        return;
    }
    let (socket, mut visitor) = lied_to();
    let mut memory = vec![7_u8; 1000];
    say(&socket, &shown(2, memory.as_mut_ptr() as u64, 1000));
    let mut visit = visitor.visit().expect("a liar").expect("a buffer");
    visit.copy_from(0, &[8; 500]).expect("it is there");
    drop(socket);
    let error = visit.copy_from(0, &[9; 1000]).expect_err("nobody keeps it");
    assert!(matches!(error, ChannelError::Gone { .. }), "{error:?}");
    assert_eq!(memory, [[8; 500], [7; 500]].concat());
}

#[test]
fn no_more_is_taken_back_than_was_shown() {
    let (here, there) = Connection::pair().expect("a pair");
    let socket = OwnedFd::from(there);
    let mut hello = b"bytepath".to_vec();
    hello.extend([2, 0, 2, 0, 2, 8, 0, 0, 0, 0, 0, 0]);
    say(&socket, &hello);
    say(&socket, b"here");
    let mut owner = here.memory_owner(&small()).expect("a visitor");
    owner.show(vec![0; 1000], 10, ShownTo::BeRead).expect("shown");
    say(&socket, &1000_u64.to_le_bytes());
    assert!(matches!(owner.take_back(), Err(ChannelError::Broken(_))));
}

/// The end of this process's first stack: nothing is mapped right behind it.
fn end_of_memory() -> u64 {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the maps");
    let stack = maps.lines().find(|line| line.ends_with("[stack]")).expect("a stack");
    let end = stack.split(['-', ' ']).nth(1).expect("an end");
    u64::from_str_radix(end, 16).expect("a number")
}

#[test]
fn memory_that_ends_sooner_than_was_said_is_told_to_the_byte() {
    if !may_visit() {
        return;
    }
    let (socket, mut visitor) = lied_to();
    for before in [100, 5000] {
        say(&socket, &shown(1, end_of_memory() - before, 9000));
        let mut visit = visitor.visit().expect("a liar").expect("a buffer");
        let error = visit.copy_to(0, &mut [0; 9000]).expect_err("it is not there");
        assert!(matches!(error, ChannelError::NotThere { at } if at == before), "{error:?}");
        visit.copy_to(0, &mut [0; 100]).expect("these are there");
        visit.done(0).expect("a liar");
    }
    for address in [0, 1, u64::MAX - 10, 1 << 63] {
        say(&socket, &shown(1, address, u64::MAX));
        let mut visit = visitor.visit().expect("a liar").expect("a buffer");
        let error = visit.copy_to(0, &mut [0; 10]).expect_err("it is not there");
        assert!(matches!(error, ChannelError::NotThere { at: 0 }), "{address:x}: {error:?}");
        visit.done(0).expect("a liar");
    }
}

#[test]
fn what_is_no_buffer_is_refused() {
    for packet in [&[0; 24][..], &shown(4, 0, 0), &shown(1, 0, 0)[..23], &[1], &[3; 8]] {
        let (socket, mut visitor) = lied_to();
        say(&socket, packet);
        let answer = visitor.visit().map(drop);
        assert!(matches!(answer, Err(ChannelError::Stray(_))), "{packet:?}: {answer:?}");
    }
}

#[test]
fn an_end_that_passes_bytes_visits_nobody() {
    bounded(|_| {
        let (here, there) = Connection::pair().expect("a pair");
        let other = std::thread::spawn(move || there.sender(&small()).map(drop));
        let answers = [here.memory_visitor(&small()).map(drop), other.join().expect("no panic")];
        for answer in answers {
            assert!(matches!(answer, Err(ChannelError::Mismatch(_))), "{answer:?}");
        }
    });
}

#[test]
fn a_visit_that_is_dropped_gives_the_buffer_back_to_its_process() {
    bounded(|_| {
        let (mut child, mut visitor) = visitor_of("waits");
        drop(visitor.visit().expect("an owner").expect("a buffer"));
        // It ends once it has its buffer, while this end is still here.
        assert!(child.wait().expect("it ends").success());
        drop(visitor);
    });
}

#[test]
fn an_owner_takes_back_what_is_there_and_waits_no_longer_than_it_likes() {
    bounded(|_| {
        let (mut owner, mut visitor) = pair();
        assert!(owner.take_back_within(Duration::ZERO).expect("nothing is shown").is_none());
        owner.show(vec![7; 100], 100, ShownTo::BeRead).expect("shown");
        let mut visit = visitor.visit().expect("an owner");
        for patience in [Duration::ZERO, Duration::from_millis(5)] {
            let kept = owner.take_back_within(patience);
            assert!(
                matches!(kept, Err(ChannelError::Silent(told)) if told == patience),
                "{kept:?}"
            );
            assert!(owner.shown() == 1 && !readable(&owner));
        }
        // What a forked process does with its copy is not said to the owner.
        let status = forked(|| drop(visit.take()));
        assert_eq!(status.exit_status(), Some(0));
        assert!(!readable(&owner));
        visit.take().expect("a buffer").done(100).expect("an owner");
        until_readable(&owner);
        let back = owner.take_back_within(Duration::ZERO).expect("a visitor").expect("it is back");
        assert_eq!((back.0.len(), back.1), (100, 100));
        drop(visit);
        drop(visitor);
        until_readable(&owner);
    });
}
