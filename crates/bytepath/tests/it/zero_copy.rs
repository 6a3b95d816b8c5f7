//! Sending over TCP without a copy: every byte arrives, and no buffer comes back too early.

use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::fd::OwnedFd;

use bytepath::Meter;
use bytepath::zero_copy::ZeroCopySender;
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
                    false => vec![0; 70_001],
                };
                buffer[..piece.len()].copy_from_slice(piece);
                sender.send(buffer, piece.len()).expect("it is sent");
            }
            while let Some(mut buffer) = sender.take_back().expect("the kernel is done") {
                buffer.fill(0);
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
                sender.send(vec![7; piece], piece).expect("it is sent");
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
            sender.send(vec![7; 5000], 5000).expect("it is sent");
            assert_eq!(sender.take_back().expect("the kernel is done"), Some(vec![7; 5000]));
        }
    });
}

#[test]
fn a_receiver_that_leaves_is_an_error() {
    bounded(|_| {
        let Some((mut sender, receiver)) = connected("127.0.0.1") else { return };
        drop(receiver);
        let sent = (0..100).try_for_each(|_| sender.send(vec![7; 1 << 20], 1 << 20));
        let kind = sent.expect_err("nobody reads").kind();
        use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
        assert!(matches!(kind, BrokenPipe | ConnectionReset), "{kind:?}");
    });
}

#[test]
fn a_socket_that_knows_no_such_thing_is_refused() {
    let (kind, flags) = (SocketType::STREAM, rustix::net::SocketFlags::CLOEXEC);
    let pair = rustix::net::socketpair(AddressFamily::UNIX, kind, flags, None);
    let (one, _other): (OwnedFd, OwnedFd) = pair.expect("a pair");
    assert!(ZeroCopySender::new(one).is_err());
}
