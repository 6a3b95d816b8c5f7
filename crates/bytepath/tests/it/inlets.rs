//! Every inlet: what it takes out of every source, and how it ends.

use std::io::Write;
use std::os::fd::AsFd;

use bytepath::inlets::{Consumer, INLETS, Inlet, Setup};
use bytepath::outlets::{self, Contents, OUTLETS};
use bytepath::{Cancel, Endpoint, Meter, Side, Stop, Wait};
use rustix::io::Errno;

use crate::ends::{Pace, SOURCES, Supply, contents, pipe, set_nonblock, source_named, tcp_pair};
use crate::outlets::{PIPES, may_decline, repeat_all, repeated};
use crate::stuck::until_stuck;
use crate::trial::same;
use crate::watch::bounded;

/// What an inlet took: all of it where it shows the bytes, else how many.
struct Taken {
    count: usize,
    seen: Vec<u8>,
    checksum: Option<u64>,
}

/// Takes until `most` bytes came or the source ended, in pieces that are cut at odd places.
fn take_all(consumer: &mut dyn Consumer, most: usize) -> Taken {
    let (mut taken, mut turn) = (Taken { count: 0, seen: Vec::new(), checksum: None }, 0);
    while taken.count < most {
        let left = (most - taken.count) as u64;
        let piece = left.min([u64::MAX, 1, 777, 70_001][turn % 4]);
        let count = consumer.take(piece).expect("it can be taken");
        assert!(count <= piece, "{count} of {piece}");
        if count == 0 {
            break;
        }
        taken.seen.extend_from_slice(consumer.bytes());
        taken.count += usize::try_from(count).expect("a size");
        turn += 1;
    }
    taken.checksum = consumer.checksum();
    taken
}

impl Taken {
    fn is(&self, inlet: &dyn Inlet, expected: &[u8]) {
        assert_eq!(self.count, expected.len());
        if inlet.name() == "splice-null" {
            assert!(self.seen.is_empty(), "what is dropped is not shown");
        } else {
            same(&self.seen, expected);
        }
        let sum = expected.iter().map(|&byte| u64::from(byte)).sum();
        assert_eq!(self.checksum, inlet.touches().then_some(sum));
    }
}

fn waits() -> impl Iterator<Item = Wait> {
    Wait::NAMES.iter().filter_map(|name| Wait::named(name))
}

#[test]
fn every_inlet_takes_what_every_source_has_and_no_more_or_says_why_not() {
    bounded(|watch| {
        for inlet in INLETS {
            for kind in SOURCES {
                for (bytes, limit) in [(0, 0), (1, 1), (50_021, 50_021), (50_021, 30_000)] {
                    for wait in waits() {
                        for nonblocking in [false, true] {
                            watch.at(format_args!(
                                "{} from {}: {limit} of {bytes}, {wait}, {nonblocking}",
                                inlet.name(),
                                kind.name
                            ));
                            let open = kind.open(contents(bytes), Pace::Odd);
                            set_nonblock(open.as_fd(), nonblocking);
                            let (meter, cancel) = (Meter::new(), Cancel::new().expect("a token"));
                            let setup = Setup {
                                buf_bytes: 10_007,
                                wait,
                                cancel: nonblocking.then_some(&cancel),
                                ..Setup::new(&meter)
                            };
                            let taken = take_from(*inlet, open.as_fd(), &setup, limit);
                            let Some(taken) = taken else { continue };
                            assert_eq!(meter.bytes(), limit as u64);
                            if kind.supply == Supply::Endless {
                                taken.is(*inlet, &vec![0; limit]);
                            } else {
                                taken.is(*inlet, &contents(bytes)[..limit]);
                                same(&open.rest(bytes - limit), &contents(bytes)[limit..]);
                            }
                        }
                    }
                }
            }
        }
    });
}

/// `None` where the inlet does not suit the source, which it then says.
fn take_from(
    inlet: &dyn Inlet,
    from: std::os::fd::BorrowedFd<'_>,
    setup: &Setup<'_>,
    limit: usize,
) -> Option<Taken> {
    let source = Endpoint::source(from).expect("a source");
    match (inlet.suits(&source), inlet.open(&source, setup)) {
        (Ok(()), Ok(mut consumer)) => Some(take_all(&mut *consumer, limit)),
        (Err(refusal), Err(Stop::Declined(declined))) => {
            assert_eq!(refusal, declined);
            assert!(refusal.to_string().contains("use the inlet read"), "{refusal}");
            None
        }
        (suits, _) => panic!("suits and open disagree: {suits:?}"),
    }
}

#[test]
fn every_outlet_feeds_every_inlet() {
    bounded(|watch| {
        for outlet in OUTLETS {
            for inlet in INLETS {
                for wait in waits() {
                    for &pipe_bytes in &PIPES[..2] {
                        for period in [8, 1000, 32_768] {
                            watch.at(format_args!(
                                "{} into {}, {wait}, pipe {pipe_bytes}, period {period}",
                                outlet.name(),
                                inlet.name()
                            ));
                            feed(*outlet, *inlet, wait, pipe_bytes, period);
                        }
                    }
                }
            }
        }
    });
}

fn feed(
    outlet: &dyn outlets::Outlet,
    inlet: &dyn Inlet,
    wait: Wait,
    pipe_bytes: usize,
    period: usize,
) {
    let total = pipe_bytes + 100_003;
    let (reader, writer) = pipe();
    rustix::pipe::fcntl_setpipe_size(&writer, pipe_bytes).expect("a pipe of this size");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
            let meter = Meter::new();
            let setup = outlets::Setup {
                contents: Contents::Repeat(contents(period)),
                pipe_bytes: Some(pipe_bytes),
                wait,
                ..outlets::Setup::new(&meter)
            };
            match outlet.open(&sink, &setup) {
                Ok(mut producer) => repeat_all(&mut *producer, total),
                Err(stop) => {
                    assert!(may_decline(outlet, period, pipe_bytes), "{stop}");
                    (&writer).write_all(&repeated(contents(period), total)).expect("written");
                }
            }
        });
        let source = Endpoint::source(reader.as_fd()).expect("a source");
        let meter = Meter::new();
        let setup = Setup { wait, ..Setup::new(&meter) };
        let mut consumer = inlet.open(&source, &setup).expect("it opens");
        let taken = take_all(&mut *consumer, usize::MAX);
        taken.is(inlet, &repeated(contents(period), total));
        assert_eq!(meter.bytes(), total as u64);
    });
}

#[test]
fn an_inlet_that_waits_for_bytes_can_be_cancelled() {
    bounded(|watch| {
        for inlet in INLETS {
            for kind in ["pipe", "unix", "tcp", "tty"] {
                for wait in waits() {
                    watch.at(format_args!("{} from an empty {kind}, {wait}", inlet.name()));
                    let (near, _far) = match kind {
                        "pipe" => pipe(),
                        "unix" => crate::ends::unix_pair(),
                        "tcp" => tcp_pair(),
                        _ => crate::ends::tty_pair(),
                    };
                    let source = Endpoint::source(near.as_fd()).expect("a source");
                    if inlet.suits(&source).is_err() {
                        continue;
                    }
                    let (meter, cancel) = (Meter::new(), Cancel::new().expect("a token"));
                    std::thread::scope(|scope| {
                        let (tell, told) = std::sync::mpsc::channel();
                        let taking = scope.spawn(|| {
                            let tell = tell;
                            let setup = Setup { wait, cancel: Some(&cancel), ..Setup::new(&meter) };
                            let mut consumer = inlet.open(&source, &setup).expect("it opens");
                            tell.send(rustix::thread::gettid()).expect("the test listens");
                            consumer.take(u64::MAX)
                        });
                        let thread = told.recv().expect("it starts");
                        until_stuck(thread, &meter, || taking.is_finished());
                        cancel.cancel();
                        let ended = taking.join().expect("it ends");
                        assert!(matches!(ended, Err(Stop::Cancelled { .. })), "{ended:?}");
                    });
                }
            }
        }
    });
}

#[test]
fn a_source_that_fails_is_told_by_the_inlets_name() {
    let source = Endpoint::open_source("/proc/self/mem").expect("a source");
    for inlet in INLETS.iter().filter(|inlet| inlet.suits(&source).is_ok()) {
        let meter = Meter::new();
        let mut consumer = inlet.open(&source, &Setup::new(&meter)).expect("it opens");
        let Err(Stop::Failed(failed)) = consumer.take(10) else { panic!("address 0 is readable") };
        assert_eq!((failed.route, failed.side), (inlet.name(), Side::Source));
        assert_eq!((failed.errno, consumer.bytes()), (Errno::IO, &[][..]));
    }
}

#[test]
fn a_pipe_that_cannot_have_the_size_asked_for_is_declined() {
    for inlet in INLETS {
        let open = source_named("pipe").open_sized(contents(20_000), Pace::Whole, Some(65_536));
        let source = Endpoint::source(open.as_fd()).expect("a source");
        while rustix::io::ioctl_fionread(open.as_fd()) != Ok(20_000) {
            std::thread::yield_now();
        }
        let meter = Meter::new();
        let setup = Setup { pipe_bytes: Some(4096), ..Setup::new(&meter) };
        let Err(Stop::Declined(refusal)) = inlet.open(&source, &setup) else {
            panic!("{} takes a pipe that it cannot have", inlet.name())
        };
        assert!(refusal.to_string().contains("4 KiB"), "{refusal}");
    }
}
