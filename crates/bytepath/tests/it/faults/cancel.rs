//! Cancelling a transfer that cannot go on, in every way of not going on.

use std::fs::File;
use std::os::fd::AsFd;

use bytepath::routes::ROUTES;
use bytepath::{Cancel, Knobs, Meter, TransferError, Wait};
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::Pid;

use crate::ends::{
    Pace, SINKS, contents, memfd, pipe, source_named, tcp_pair, tty_pair, unix_pair,
};
use crate::faults::{Outcome, carry_on};
use crate::stuck::until_stuck;
use crate::sys;
use crate::watch::bounded;

/// How the mover waits, and how it is told.
#[derive(Clone, Copy, Debug)]
struct Way {
    wait: Wait,
    interrupted: bool,
}

impl Way {
    fn token(self) -> Cancel {
        match self.interrupted {
            true => Cancel::by_interruption(),
            false => Cancel::new().expect("a token"),
        }
    }

    /// Asks the mover to stop, in whatever call it may be.
    fn tell(self, cancel: &Cancel, mover: Pid, ended: impl Fn() -> bool) {
        cancel.cancel();
        while self.interrupted && !ended() {
            sys::interrupt(mover);
            std::thread::yield_now();
        }
    }
}

fn ways() -> impl Iterator<Item = Way> {
    sys::make_interruptible();
    let waits = Wait::NAMES.iter().filter_map(|name| Wait::named(name));
    let woken = waits.map(|wait| Way { wait, interrupted: false });
    woken.chain([Way { wait: Wait::Block, interrupted: true }])
}

/// Moves until nothing moves any more, and is cancelled then.
fn cancelled(
    source: impl AsFd + Sync,
    sink: impl AsFd + Sync,
    only: &str,
    way: Way,
) -> Option<Outcome> {
    let (meter, cancel) = (Meter::new(), way.token());
    let (tell, told) = std::sync::mpsc::channel();
    let ended = std::thread::scope(|scope| {
        let (meter, cancel) = (&meter, &cancel);
        let (source, sink) = (source.as_fd(), sink.as_fd());
        let mover = scope.spawn(move || {
            tell.send(rustix::thread::gettid()).expect("the test listens");
            let knobs = Knobs { wait: way.wait, ..Knobs::default() };
            carry_on(meter, source, sink, Some(only), knobs, Some(cancel))
        });
        let thread = told.recv().expect("the mover starts");
        until_stuck(thread, meter, || mover.is_finished());
        way.tell(cancel, thread, || mover.is_finished());
        mover.join().expect("the mover ends")
    });
    ended.map(|ended| Outcome { ended, metered: meter.bytes() })
}

/// Ends that are connected: near, far.
type Connect = fn() -> (File, File);

const EMPTY: &[(&str, Connect)] =
    &[("pipe", pipe), ("unix socket", unix_pair), ("tcp socket", tcp_pair), ("tty", tty_pair)];

#[test]
fn waiting_for_an_empty_source_can_be_cancelled() {
    bounded(|watch| {
        for (name, connect) in EMPTY {
            for sink_kind in SINKS {
                for route in ROUTES {
                    for way in ways() {
                        let route = route.name();
                        watch
                            .at(format_args!("{route} from {name} to {}, {way:?}", sink_kind.name));
                        let ((near, _far), sink) = (connect(), sink_kind.open(Pace::Whole));
                        let Some(outcome) = cancelled(&near, &sink, route, way) else { continue };
                        let cancelled =
                            matches!(outcome.ended, Err(TransferError::Cancelled { .. }));
                        assert!(cancelled, "{:?}", outcome.ended);
                        assert_eq!(outcome.offset(), 0);
                    }
                }
            }
        }
    });
}

/// Ends that nobody reads from: near, far.
const UNREAD: &[(&str, Connect)] = &[
    ("pipe", || {
        let (reader, writer) = pipe();
        (writer, reader)
    }),
    ("unix socket", unix_pair),
    ("unix socket with a small buffer", || small(unix_pair())),
    ("tcp socket", tcp_pair),
    ("tcp socket with a small buffer", || small(tcp_pair())),
    ("tty", tty_pair),
];

/// A sending buffer far smaller than what a source pipe holds.
fn small((near, far): (File, File)) -> (File, File) {
    rustix::net::sockopt::set_socket_send_buffer_size(&near, 16 << 10).expect("a small buffer");
    (near, far)
}

#[test]
fn waiting_for_a_full_sink_can_be_cancelled_and_every_byte_is_accounted_for() {
    bounded(|watch| {
        // More than a socket of the loopback device buffers.
        let all = contents(8 << 20);
        for (name, connect) in UNREAD {
            for source_name in ["memfd", "pipe", "unix socket", "tcp socket"] {
                for route in ROUTES {
                    for way in ways() {
                        let route = route.name();
                        watch.at(format_args!("{route} from {source_name} to {name}, {way:?}"));
                        let source =
                            source_named(source_name).open_sized(all, Pace::Whole, Some(1 << 20));
                        let (near, far) = connect();
                        let Some(outcome) = cancelled(&source, &near, route, way) else {
                            continue;
                        };
                        let cancelled =
                            matches!(outcome.ended, Err(TransferError::Cancelled { .. }));
                        assert!(cancelled, "{:?}", outcome.ended);
                        drop(near);
                        let arrived = Pace::Whole.collect(far);
                        crate::trial::same(&arrived, &all[..outcome.offset()]);
                        outcome.accounts_for(all, &source.rest(0));
                    }
                }
            }
        }
    });
}

/// Sources that never end, with a mover that sleeps in its calls.
fn endless_ways() -> impl Iterator<Item = (&'static str, Way)> {
    let block = |way: &Way| way.wait == Wait::Block;
    ways().filter(block).flat_map(|way| ["memfd", "/dev/zero"].map(|source| (source, way)))
}

#[test]
fn a_transfer_that_never_waits_is_cancelled_between_chunks() {
    bounded(|watch| {
        for route in ROUTES {
            for (source_name, way) in endless_ways() {
                watch.at(format_args!("{} from {source_name}, {way:?}", route.name()));
                let endless = memfd();
                endless.set_len(1 << 50).expect("a hole");
                let zero = File::open("/dev/zero").expect("/dev/zero opens");
                let null = File::options().write(true).open("/dev/null").expect("/dev/null opens");
                let source = if source_name == "memfd" { &endless } else { &zero };
                let (meter, cancel) = (Meter::new(), way.token());
                let ended = std::thread::scope(|scope| {
                    let mover = scope.spawn(|| {
                        let (name, wait) = (route.name(), way.wait);
                        let knobs = Knobs { wait, ..Knobs::default() };
                        carry_on(&meter, source, &null, Some(name), knobs, Some(&cancel))
                    });
                    while meter.bytes() == 0 && !mover.is_finished() {
                        std::thread::yield_now();
                    }
                    cancel.cancel();
                    mover.join().expect("the mover ends")
                });
                let Some(ended) = ended else { continue };
                assert!(matches!(ended, Err(TransferError::Cancelled { .. })), "{ended:?}");
            }
        }
    });
}

/// The name of the test below.
const UNASKED: &str = "faults::cancel::a_transfer_that_may_not_poll_sleeps_and_goes_on";

#[test]
fn a_transfer_that_may_not_poll_sleeps_and_goes_on() {
    // Limits bind a whole process, so another one has them.
    if !crate::is_alone(UNASKED) {
        return;
    }
    let ((source, feeds), (drains, sink)) = (pipe(), pipe());
    let cancel = Cancel::new().expect("a token");
    let limit = |most| Rlimit { current: Some(most), maximum: Some(most) };
    // poll(2) refuses two, and who spins for ever is killed.
    setrlimit(Resource::Nofile, limit(1)).expect("anybody may have less");
    setrlimit(Resource::Cpu, limit(3)).expect("anybody may have less");
    let meter = Meter::new();
    let ended = std::thread::scope(|scope| {
        let mover =
            scope.spawn(|| carry_on(&meter, &source, &sink, None, Knobs::default(), Some(&cancel)));
        while meter.read().waits == 0 {
            std::thread::yield_now();
        }
        rustix::io::write(&feeds, b"late").expect("written");
        drop(feeds);
        mover.join().expect("the mover ends")
    });
    assert_eq!(ended.expect("a plan").expect("it moves all").bytes, 4);
    let mut seen = [0; 8];
    assert_eq!(rustix::io::read(&drains, &mut seen), Ok(4));
    assert_eq!(&seen[..4], b"late");
}
