//! Sending over TCP without a copy: every byte arrives, and no buffer comes back too early.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use bytepath::Meter;
use bytepath::pages::{Memory, Pages};
use bytepath::zero_copy::ZeroCopySender;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType};

use crate::ends::contents;
use crate::stuck::until_stuck;
use crate::sys::tell_times;
use crate::trial::same;
use crate::watch::bounded;

/// A sender of this machine's, where the kernel has such, and who receives.
fn connected(address: &str) -> Option<(ZeroCopySender, TcpStream)> {
    connected_by(address, |_| {})
}

/// Likewise, by a socket of which something is asked before.
fn connected_by(
    address: &str,
    ask: impl FnOnce(&TcpStream),
) -> Option<(ZeroCopySender, TcpStream)> {
    let listener = match TcpListener::bind((address, 0)) {
        Ok(listener) => listener,
        Err(error) => {
            eprintln!("skipped: {address}: {error}");
            return None;
        }
    };
    let near = TcpStream::connect(listener.local_addr().expect("an address")).expect("connected");
    let (far, _) = listener.accept().expect("accepted");
    ask(&near);
    match ZeroCopySender::new(near.into()) {
        Ok(sender) => Some((sender, far)),
        Err(error) => {
            eprintln!("skipped: the kernel has no MSG_ZEROCOPY: {error}");
            None
        }
    }
}

fn memory(bytes: usize) -> Memory {
    Memory::allocate(bytes, &Pages::default()).expect("memory")
}

/// Memory that holds nothing but this byte.
fn filled(bytes: usize, with: u8) -> Memory {
    let mut memory = memory(bytes);
    memory.as_mut_slice().fill(with);
    memory
}

#[test]
fn every_byte_arrives_although_buffers_are_used_again() {
    bounded(|watch| {
        for (address, buffers) in [("127.0.0.1", 1), ("127.0.0.1", 4), ("::1", 40)] {
            watch.at(format_args!("{address}, {buffers} buffers"));
            let Some((mut sender, mut receiver)) = connected(address) else { continue };
            let wanted = contents(5_000_011);
            let reader = std::thread::spawn(move || {
                let mut all = Vec::new();
                receiver.read_to_end(&mut all).map(|_| all)
            });
            for piece in wanted.chunks(70_001) {
                let mut buffer = match sender.out() == buffers {
                    true => sender.take_back().expect("the kernel is done").expect("one is out"),
                    false => memory(70_001),
                };
                buffer.as_mut_slice()[..piece.len()].copy_from_slice(piece);
                sender.send(buffer, piece.len()).expect("it is sent");
            }
            while let Some(mut buffer) = sender.take_back().expect("the kernel is done") {
                buffer.as_mut_slice().fill(0);
            }
            let (done, copied) = sender.copied();
            assert!(done >= wanted.len().div_ceil(70_001) as u64 && copied <= done);
            assert_eq!(sender.meter().read().bytes, wanted.len() as u64);
            drop(sender);
            same(&reader.join().expect("no panic").expect("bytes"), wanted);
        }
    });
}

#[test]
fn a_socket_that_does_not_wait_sleeps_until_the_receiver_takes_something() {
    bounded(|_| {
        let connected = connected_by("127.0.0.1", |near| {
            near.set_nonblocking(true).expect("it does not wait");
        });
        let Some((mut sender, mut receiver)) = connected else { return };
        // Of so small pieces the kernel is done with some while the others wait.
        let (piece, pieces) = (16 << 10, 4096);
        let (tell, told) = std::sync::mpsc::channel();
        let sending = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid()).expect("somebody listens");
            for _ in 0..pieces {
                sender.send(filled(piece, 7), piece).expect("it is sent");
            }
            while sender.take_back().expect("the kernel is done").is_some() {}
        });
        // Nobody takes anything yet, and it is more than the sockets hold.
        until_stuck(told.recv().expect("it began"), &Meter::new(), || false);
        let mut all = Vec::new();
        receiver.read_to_end(&mut all).expect("bytes");
        assert!(all.len() == piece * pieces && all.iter().all(|&byte| byte == 7));
        sending.join().expect("no panic");
    });
}

#[test]
fn what_else_a_socket_tells_of_hides_no_send_that_is_done() {
    bounded(|watch| {
        for address in ["127.0.0.1", "::1"] {
            watch.at(address);
            let Some((mut sender, _receiver)) = connected_by(address, tell_times) else { continue };
            sender.send(filled(5000, 7), 5000).expect("it is sent");
            let back = sender.take_back().expect("the kernel is done").expect("it was out");
            assert_eq!(back.as_slice(), [7; 5000]);
        }
    });
}

#[test]
fn a_receiver_that_leaves_is_an_error() {
    bounded(|_| {
        let Some((mut sender, receiver)) = connected("127.0.0.1") else { return };
        drop(receiver);
        let sent = (0..100).try_for_each(|_| sender.send(filled(1 << 20, 7), 1 << 20));
        let failed = sent.expect_err("nobody reads");
        assert!(matches!(failed.errno, Errno::PIPE | Errno::CONNRESET), "{failed}");
        assert_eq!(failed.offset, sender.meter().bytes() % (1 << 20), "what it took of the last");
    });
}

#[test]
fn a_socket_that_knows_no_such_thing_is_refused() {
    let (kind, flags) = (SocketType::STREAM, rustix::net::SocketFlags::CLOEXEC);
    let pair = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None);
    let (one, _other): (OwnedFd, OwnedFd) = pair.expect("a pair");
    assert!(ZeroCopySender::new(one).is_err());
}

/// More than the receiver takes unread, and less than the sender may have under way.
const UNREAD: (u8, usize) = (16, 64 << 10);

#[test]
fn whoever_waits_for_a_buffer_sleeps_also_when_both_ways_are_shut() {
    bounded(|_| {
        let mut near = None;
        let ask = |socket: &TcpStream| near = socket.try_clone().ok();
        let Some((mut sender, mut receiver)) = connected_by("127.0.0.1", ask) else { return };
        let (count, bytes) = UNREAD;
        (0..count).for_each(|k| sender.send(filled(bytes, k), bytes).expect("it is sent"));
        for (end, which) in [(&receiver, "theirs"), (&near.expect("a clone"), "ours")] {
            end.shutdown(std::net::Shutdown::Write).expect(which);
        }
        let (tell, told) = std::sync::mpsc::channel();
        let waiting = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid()).expect("somebody listens");
            let back = std::iter::from_fn(|| sender.take_back().expect("the kernel is done"));
            back.map(|buffer| buffer.as_slice()[0]).collect::<Vec<_>>()
        });
        until_stuck(told.recv().expect("it began"), &Meter::new(), || waiting.is_finished());
        assert!(!waiting.is_finished(), "the kernel holds some for as long as nobody reads");
        let mut all = Vec::new();
        receiver.read_to_end(&mut all).expect("bytes");
        assert!(all.chunks(bytes).zip(0..count).all(|(piece, k)| piece.iter().all(|&it| it == k)));
        assert_eq!(all.len(), usize::from(count) * bytes);
        assert_eq!(waiting.join().expect("no panic"), (0..count).collect::<Vec<_>>());
    });
}

/// The name of the test below.
const DROPPED: &str =
    "zero_copy::what_is_out_when_the_sender_is_dropped_arrives_and_takes_no_memory_of_the_process";

#[test]
fn what_is_out_when_the_sender_is_dropped_arrives_and_takes_no_memory_of_the_process() {
    // Others take and give back memory meanwhile.
    if !crate::is_alone(DROPPED) {
        return;
    }
    // What is out counts as locked, of all sockets of a user together.
    let lockable = rustix::process::getrlimit(rustix::process::Resource::Memlock).current;
    if !rustix::process::geteuid().is_root() && lockable.is_some_and(|bytes| bytes < 64 << 20) {
        return eprintln!("skipped: pages of 40 MiB cannot be locked (ulimit -l)");
    }
    let pages = || {
        let numbers = std::fs::read_to_string("/proc/self/statm").expect("it can be read");
        numbers.split(' ').nth(1).and_then(|it| it.parse::<usize>().ok()).expect("a number")
    };
    let before = pages();
    let mut receivers = Vec::new();
    let (count, bytes) = UNREAD;
    for _ in 0..40 {
        let Some((mut sender, receiver)) = connected("127.0.0.1") else { return };
        (0..count).for_each(|k| sender.send(filled(bytes, k), bytes).expect("it is sent"));
        assert!(sender.out() == usize::from(count));
        receivers.push(receiver);
    }
    let more = pages().saturating_sub(before) * rustix::param::page_size();
    assert!(more < 20 << 20, "{more} bytes more of 40 MiB");
    for mut receiver in receivers {
        let mut all = Vec::new();
        receiver.read_to_end(&mut all).expect("bytes");
        assert_eq!(all.len(), usize::from(count) * bytes);
        assert!(all.chunks(bytes).zip(0..count).all(|(piece, k)| piece.iter().all(|&it| it == k)));
    }
}
