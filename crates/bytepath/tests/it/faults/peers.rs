//! Peers that go away in the middle.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::thread::JoinHandle;

use bytepath::{Endpoint, Knobs, Side, TransferError};
use rustix::io::Errno;

use crate::ends::{Pace, contents, memfd, pipe, tcp_pair, unix_pair};
use crate::faults::{carry, ending_sources, routes};
use crate::trial::same;
use crate::watch::bounded;

/// What the reader takes before it goes.
const TAKEN_BYTES: usize = 300_001;

fn leaving((near, far): (File, File)) -> (File, JoinHandle<Vec<u8>>) {
    let reader = std::thread::spawn(move || {
        let mut taken = vec![0; TAKEN_BYTES];
        { far }.read_exact(&mut taken).expect("the reader takes its bytes");
        taken
    });
    (near, reader)
}

/// A way to make two connected ends: one to write to, one to read from.
type Connect = fn() -> (File, File);

/// The ways to be connected to a peer that can go away.
const CONNECTED: &[(&str, Connect)] = &[
    ("pipe", || {
        let (reader, writer) = pipe();
        (writer, reader)
    }),
    ("unix socket", unix_pair),
    ("tcp socket", tcp_pair),
];

#[test]
fn a_reader_that_goes_away_is_the_sinks_failure_and_every_byte_accounted_for() {
    bounded(|watch| {
        let all = contents(8 << 20);
        for (name, connect) in CONNECTED {
            for source_kind in ending_sources() {
                for only in routes() {
                    watch.at(format_args!("{} to a {name} by {only:?}", source_kind.name));
                    let source = source_kind.open(all, Pace::Whole);
                    let (sink, reader) = leaving(connect());
                    let outcome = carry(&source, &sink, only, Knobs::default(), None);
                    let Some(outcome) = outcome else {
                        // The reader of a plan that was refused waits for its bytes.
                        (&sink).write_all(&all[..TAKEN_BYTES]).expect("written");
                        reader.join().expect("the reader ends");
                        continue;
                    };
                    same(&reader.join().expect("the reader ends"), &all[..TAKEN_BYTES]);
                    assert!(outcome.offset() >= TAKEN_BYTES);
                    outcome.accounts_for(all, &source.rest(0));
                    let failed = outcome.failed();
                    assert!([Errno::PIPE, Errno::CONNRESET].contains(&failed.errno), "{failed}");
                    assert_ne!(failed.side, Side::Source, "{failed}");
                }
            }
        }
    });
}

#[test]
fn a_reader_that_left_when_there_is_no_more_to_give_is_no_failure() {
    bounded(|watch| {
        for only in routes() {
            let null = File::open("/dev/null").expect("it is everywhere");
            let sources = [pipe().0, unix_pair().0, memfd(), null];
            for source in sources {
                watch.at(format_args!("{source:?} by {only:?}"));
                let (_, sink) = pipe();
                let Some(outcome) = carry(&source, &sink, only, Knobs::default(), None) else {
                    continue;
                };
                assert_eq!(outcome.offset(), 0);
                let declined = matches!(outcome.ended, Err(TransferError::Declined { .. }));
                assert!(outcome.ended.is_ok() || declined && only.is_some(), "{:?}", outcome.ended);
            }
        }
    });
}

/// A TCP connection that is reset by its writer.
fn reset_after(bytes: &[u8]) -> File {
    let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a listener");
    let near = TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
    let (mut far, _) = listener.accept().expect("accepted");
    far.write_all(bytes).expect("written");
    // Closing with a linger of zero sends a reset instead of the end.
    let reset = Some(std::time::Duration::ZERO);
    rustix::net::sockopt::set_socket_linger(&far, reset).expect("the linger is set");
    drop(far);
    OwnedFd::from(near).into()
}

#[test]
fn a_writer_that_resets_the_connection_is_not_taken_for_the_end() {
    bounded(|watch| {
        let all = contents(50_000);
        for only in routes() {
            watch.at(format_args!("by {only:?}"));
            let (reader, writer) = pipe();
            let source = reset_after(all);
            let Some(outcome) = carry(source, &writer, only, Knobs::default(), None) else {
                continue;
            };
            drop(writer);
            same(&Pace::Whole.collect(reader), &all[..outcome.offset()]);
            let failed = outcome.failed();
            assert_eq!(failed.errno, Errno::CONNRESET, "{failed}");
            assert_ne!(failed.side, Side::Sink, "{failed}");
        }
    });
}

/// Address 0 is mapped in no process, and the kernel says so with EIO.
#[test]
fn a_source_that_fails_is_the_sources_failure() {
    bounded(|watch| {
        for only in [None, Some("read-write")] {
            for sink_kind in crate::ends::SINKS {
                watch.at(format_args!("to {} by {only:?}", sink_kind.name));
                let source = Endpoint::open_source("/proc/self/mem").expect("a source");
                let sink = sink_kind.open(Pace::Whole);
                let outcome =
                    carry(source.as_fd(), &sink, only, Knobs::default(), None).expect("a plan");
                let failed = outcome.failed();
                assert_eq!((failed.errno, failed.side), (Errno::IO, Side::Source), "{failed}");
                assert!(sink.finish().is_none_or(|arrived| arrived.is_empty()));
            }
        }
    });
}

#[test]
fn a_source_without_a_writer_is_at_its_end() {
    bounded(|watch| {
        for (name, connect) in CONNECTED {
            for only in routes() {
                watch.at(format_args!("{name} by {only:?}"));
                let (far, near) = connect();
                drop(far);
                let outcome = carry(
                    near,
                    File::options().write(true).open("/dev/null").expect("/dev/null opens"),
                    only,
                    Knobs::default(),
                    None,
                );
                assert!(outcome.is_none_or(|outcome| outcome.offset() == 0));
            }
        }
    });
}

/// The name of the test below.
const MINDED: &str = "faults::peers::a_socket_whose_peer_is_gone_ends_no_program_by_sigpipe";

#[test]
fn a_socket_whose_peer_is_gone_ends_no_program_by_sigpipe() {
    // Signals are a whole process's, so another one minds this.
    if !crate::is_alone(MINDED) {
        return;
    }
    crate::sys::mind_sigpipe();
    let cancel = bytepath::Cancel::new().expect("a token");
    for cancel in [None, Some(&cancel)] {
        let ((near, far), mut source) = (unix_pair(), memfd());
        drop(far);
        source.write_all(b"nobody reads this").expect("written");
        std::io::Seek::rewind(&mut source).expect("set back");
        let outcome = carry(&source, &near, Some("read-write"), Knobs::default(), cancel);
        assert_eq!(outcome.expect("a plan").failed().errno, Errno::PIPE);
    }
}
