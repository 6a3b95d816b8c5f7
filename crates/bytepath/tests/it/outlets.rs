//! Every outlet: what it sends over and over, what it streams, and what becomes of the pages.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::thread::JoinHandle;

use bytepath::machine::{Call, Machine};
use bytepath::outlets::{Buffers, Contents, Fresh, OUTLETS, Outlet, Producer, Setup, Use};
use bytepath::pages::{PageSize, Pages};
use bytepath::routes::Aliasing;
use bytepath::{Cancel, Endpoint, Meter, Side, Stop, Wait};
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use crate::ends::{Pace, SINKS, contents, pipe};
use crate::stuck::until_stuck;
use crate::trial::same;
use crate::watch::bounded;

/// Lengths after which contents repeat: powers of two, and one that fits nothing.
const PERIODS: &[usize] = &[1, 8, 1000, 4096, 32_768];

/// Sizes of pipes: one slot, what a pipe has, what everybody may ask for.
pub(crate) const PIPES: &[usize] = &[4096, 65_536, 1 << 20];

/// Sizes of buffers: odd, one page, several, the default.
const BUFFERS: &[usize] = &[1, 1000, 4096, 100_003, 262_144];

/// Enough to go round every pipe and buffer.
fn total_bytes(pipe_bytes: usize, buf_bytes: usize) -> usize {
    match buf_bytes {
        1 => 3001,
        _ => (2 * pipe_bytes.max(buf_bytes) + 7777).min(1_500_000),
    }
}

/// The contents as they stand after `len` bytes of repetition.
pub(crate) fn repeated(period: &[u8], len: usize) -> Vec<u8> {
    let mut all = period.repeat(len.div_ceil(period.len()));
    all.truncate(len);
    all
}

/// A pipe of this size, with a collector at its reading end.
pub(crate) fn collected(pipe_bytes: usize, pace: Pace) -> (File, JoinHandle<Vec<u8>>) {
    let (reader, writer) = pipe();
    rustix::pipe::fcntl_setpipe_size(&writer, pipe_bytes).expect("a pipe of this size");
    (writer, std::thread::spawn(move || pace.collect(reader)))
}

/// Repeats until `total` bytes went, in pieces that are cut at odd places.
pub(crate) fn repeat_all(producer: &mut dyn Producer, total: usize) {
    let (mut left, mut turn) = (total as u64, 0);
    while left > 0 {
        let most = left.min([u64::MAX, 1, 777, 70_001][turn % 4]);
        let sent = producer.repeat_some(most).expect("the pipe takes it");
        assert!(sent > 0 && sent <= most, "{sent} of {most}");
        (left, turn) = (left - sent, turn + 1);
    }
}

/// Whether the outlet may decline these contents: those that it keeps in a pipe have to fit.
pub(crate) fn may_decline(outlet: &dyn Outlet, period: usize, pipe_bytes: usize) -> bool {
    outlet.used_for() == Use::Repeats && period > pipe_bytes / 2
}

#[test]
fn every_outlet_repeats_its_contents_exactly() {
    bounded(|watch| {
        for outlet in OUTLETS {
            for &pipe_bytes in PIPES {
                for &buf_bytes in BUFFERS {
                    for &period in PERIODS {
                        for pace in [Pace::Whole, Pace::Odd] {
                            let name = outlet.name();
                            watch.at(format_args!(
                                "{name}: pipe {pipe_bytes}, buffer {buf_bytes}, period {period}, \
                                 {pace:?}"
                            ));
                            let (writer, collector) = collected(pipe_bytes, pace);
                            let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
                            let meter = Meter::new();
                            let setup = Setup {
                                contents: Contents::Repeat(contents(period)),
                                buf_bytes,
                                pipe_bytes: Some(pipe_bytes),
                                ..Setup::new(&meter)
                            };
                            let mut producer = match outlet.open(&sink, &setup) {
                                Ok(producer) => producer,
                                Err(stop) => {
                                    assert!(may_decline(*outlet, period, pipe_bytes), "{stop}");
                                    continue;
                                }
                            };
                            let shape = producer.shape();
                            assert_eq!(
                                (shape.pipe_bytes, shape.period_bytes),
                                (pipe_bytes, period)
                            );
                            let total = total_bytes(pipe_bytes, buf_bytes);
                            repeat_all(&mut *producer, total);
                            drop(producer);
                            drop(sink);
                            drop(writer);
                            let arrived = collector.join().expect("the collector ends");
                            same(&arrived, &repeated(contents(period), total));
                            assert_eq!(meter.bytes(), total as u64);
                        }
                    }
                }
            }
        }
    });
}

/// Enough that outlets which try how best to fill a pipe come to a choice and change it.
const LONG_BYTES: u64 = 2 << 30;

/// A pipe that holds more than all buffers: a call may take several of them at once.
#[test]
fn every_outlet_goes_on_repeating_into_a_pipe_larger_than_its_buffers() {
    bounded(|watch| {
        for outlet in OUTLETS {
            watch.at(format_args!("{}", outlet.name()));
            let (reader, writer) = pipe();
            rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20).expect("a pipe of this size");
            let dropper = std::thread::spawn(move || {
                let null = File::options().write(true).open("/dev/null").expect("it is there");
                let mut all = 0;
                loop {
                    let flags = SpliceFlags::empty();
                    match rustix::pipe::splice(&reader, None, &null, None, 1 << 20, flags) {
                        Ok(0) => return all,
                        Ok(count) => all += count as u64,
                        Err(errno) => panic!("{errno} after {all} bytes"),
                    }
                }
            });
            let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
            let meter = Meter::new();
            let setup = Setup {
                contents: Contents::Repeat(contents(8)),
                buf_bytes: 256 << 10,
                pipe_bytes: Some(1 << 20),
                ..Setup::new(&meter)
            };
            let mut producer = outlet.open(&sink, &setup).expect("it runs here");
            producer.repeat(LONG_BYTES).expect("the pipe takes it");
            drop(producer);
            drop(sink);
            drop(writer);
            assert_eq!(dropper.join().expect("the dropper ends"), LONG_BYTES, "{}", outlet.name());
        }
    });
}

#[test]
fn untouched_contents_are_zeros() {
    bounded(|watch| {
        for outlet in OUTLETS {
            for size in [PageSize::Base, PageSize::Huge] {
                watch.at(format_args!("{} of {size:?} pages", outlet.name()));
                let (writer, collector) = collected(65_536, Pace::Odd);
                let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
                let meter = Meter::new();
                let pages = Pages { size, locked: false };
                let setup = Setup { pages, ..Setup::new(&meter) };
                let mut producer = outlet.open(&sink, &setup).expect("it opens");
                repeat_all(&mut *producer, 1_000_003);
                drop(producer);
                drop(sink);
                drop(writer);
                same(&collector.join().expect("the collector ends"), &vec![0; 1_000_003]);
            }
        }
    });
}

#[test]
fn every_outlet_repeats_in_every_wait_with_and_without_cancel() {
    bounded(|watch| {
        for outlet in OUTLETS {
            for wait in Wait::NAMES.iter().filter_map(|name| Wait::named(name)) {
                for &pipe_bytes in &PIPES[..2] {
                    for period in [1, 1000, 4096] {
                        for cancellable in [false, true] {
                            let name = outlet.name();
                            watch.at(format_args!(
                                "{name}, {wait}, {cancellable}, pipe {pipe_bytes}, period {period}"
                            ));
                            let (writer, collector) = collected(pipe_bytes, Pace::Odd);
                            crate::ends::set_nonblock(writer.as_fd(), cancellable);
                            let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
                            let (meter, cancel) = (Meter::new(), Cancel::new().expect("a token"));
                            let setup = Setup {
                                contents: Contents::Repeat(contents(period)),
                                pipe_bytes: Some(pipe_bytes),
                                wait,
                                cancel: cancellable.then_some(&cancel),
                                ..Setup::new(&meter)
                            };
                            let mut producer = outlet.open(&sink, &setup).expect("it opens");
                            repeat_all(&mut *producer, 90_007);
                            drop(producer);
                            drop(sink);
                            drop(writer);
                            let arrived = collector.join().expect("the collector ends");
                            same(&arrived, &repeated(contents(period), 90_007));
                            assert_eq!(meter.bytes(), 90_007);
                        }
                    }
                }
            }
        }
    });
}

/// Streams all of `bytes` in pieces of odd lengths.
fn stream(producer: &mut dyn Producer, bytes: &[u8]) {
    let (mut rest, mut turn) = (bytes, 0);
    while !rest.is_empty() {
        let room = producer.room().expect("room").expect("an outlet that streams has room");
        let most = [usize::MAX, 1, 4095, 20_000][turn % 4];
        let len = room.len().min(rest.len()).min(most);
        room[..len].copy_from_slice(&rest[..len]);
        producer.send(len).expect("the pipe takes it");
        (rest, turn) = (&rest[len..], turn + 1);
    }
}

fn streaming() -> impl Iterator<Item = &'static &'static dyn Outlet> {
    OUTLETS.iter().filter(|outlet| outlet.used_for() == Use::Streams)
}

#[test]
fn every_outlet_that_streams_delivers_the_stream() {
    bounded(|watch| {
        for outlet in streaming() {
            for &pipe_bytes in PIPES {
                for &buf_bytes in &BUFFERS[1..] {
                    for (buffers, fresh, size) in [
                        (Buffers::Apart, Fresh::Discard, PageSize::Base),
                        (Buffers::Together, Fresh::Remap, PageSize::Huge),
                    ] {
                        let name = outlet.name();
                        watch.at(format_args!(
                            "{name}: pipe {pipe_bytes}, buffer {buf_bytes}, {buffers:?}, {fresh:?}"
                        ));
                        let (writer, collector) = collected(pipe_bytes, Pace::Odd);
                        let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
                        let meter = Meter::new();
                        let setup = Setup {
                            buf_bytes,
                            pipe_bytes: Some(pipe_bytes),
                            buffers,
                            fresh,
                            pages: Pages { size, locked: false },
                            ..Setup::new(&meter)
                        };
                        let mut producer = outlet.open(&sink, &setup).expect("it opens");
                        let all = contents(3 * total_bytes(pipe_bytes, buf_bytes));
                        stream(&mut *producer, all);
                        drop(producer);
                        drop(sink);
                        drop(writer);
                        same(&collector.join().expect("the collector ends"), all);
                        assert_eq!(meter.bytes(), all.len() as u64);
                    }
                }
            }
        }
    });
}

#[test]
fn every_outlet_works_into_every_sink_or_says_why_not() {
    bounded(|watch| {
        for outlet in OUTLETS {
            for kind in SINKS {
                watch.at(format_args!("{} into {}", outlet.name(), kind.name));
                let open = kind.open(Pace::Whole);
                let meter = Meter::new();
                let setup =
                    Setup { contents: Contents::Repeat(contents(1000)), ..Setup::new(&meter) };
                {
                    let sink = Endpoint::sink(open.as_fd()).expect("a sink");
                    match (outlet.suits(&sink), outlet.open(&sink, &setup)) {
                        (Ok(()), Ok(mut producer)) => repeat_all(&mut *producer, 30_011),
                        (Err(refusal), Err(Stop::Declined(declined))) => {
                            assert_eq!(refusal, declined);
                            assert!(refusal.to_string().contains("use the outlet write"));
                        }
                        (suits, _) => panic!("suits and open disagree: {suits:?}"),
                    }
                }
                if let Some(arrived) = open.finish() {
                    let total = usize::try_from(meter.bytes()).expect("a size");
                    same(&arrived, &repeated(contents(1000), total));
                }
            }
        }
    });
}

/// What somebody sees who splices the first pages of a stream onward into a pipe of their own, and
/// reads them only when the producer has sent many MiB more.
fn held_onward(outlet: &dyn Outlet, setup: &Setup<'_>, all: &'static [u8]) -> Vec<u8> {
    let (mut reader, writer) = pipe();
    rustix::pipe::fcntl_setpipe_size(&writer, 65_536).expect("a pipe of this size");
    let (mut held_reader, held_writer) = pipe();
    let holder = std::thread::spawn(move || {
        let flags = SpliceFlags::empty();
        let most = 32_768;
        let held = rustix::pipe::splice(&reader, None, &held_writer, None, most, flags);
        let held = held.expect("spliced onward");
        let mut later = Vec::new();
        reader.read_to_end(&mut later).expect("the rest is read");
        same(&later, &all[held..]);
        drop(held_writer);
        let mut held = Vec::new();
        held_reader.read_to_end(&mut held).expect("what was held is read");
        held
    });
    {
        let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
        let mut producer = outlet.open(&sink, setup).expect("it opens");
        let mut rest = all;
        while !rest.is_empty() {
            let room = producer.room().expect("room").expect("it streams");
            let len = room.len().min(rest.len());
            room[..len].copy_from_slice(&rest[..len]);
            producer.send(len).expect("sent");
            rest = &rest[len..];
        }
    }
    drop(writer);
    holder.join().expect("the holder ends")
}

#[test]
fn pages_that_are_held_downstream_keep_their_bytes_unless_the_outlet_says_that_it_aliases() {
    bounded(|watch| {
        let aliases = Machine::this().call(Call::VmspliceAliases).is_yes();
        let all = contents(8 << 20);
        for outlet in streaming() {
            for fresh in Fresh::NAMES.iter().filter_map(|name| Fresh::named(name)) {
                for size in [PageSize::Base, PageSize::Huge] {
                    for (gift_flag, locked) in [(false, false), (true, false), (false, true)] {
                        watch.at(format_args!("{}, {fresh:?}, {size:?}", outlet.name()));
                        let meter = Meter::new();
                        let setup = Setup {
                            buf_bytes: 65_536,
                            pipe_bytes: Some(65_536),
                            pages: Pages { size, locked },
                            fresh,
                            gift_flag,
                            ..Setup::new(&meter)
                        };
                        let held = held_onward(*outlet, &setup, all);
                        assert!(!held.is_empty());
                        let kept = held == all[..held.len()];
                        if outlet.aliasing() == Aliasing::None {
                            assert!(kept, "{} changed bytes that it gave", outlet.name());
                        } else if aliases {
                            assert!(!kept, "{} is as sound as gift: say so", outlet.name());
                        } else {
                            eprintln!("skipped: this kernel's vmsplice copies");
                        }
                    }
                }
            }
        }
    });
}

#[test]
fn a_pipe_that_is_made_larger_at_any_time_has_the_bytes_that_it_was_given() {
    const CHUNK_BYTES: usize = 16 << 10;
    const CHUNKS: usize = 48;
    bounded(|watch| {
        let all = contents(CHUNKS * CHUNK_BYTES);
        for outlet in streaming() {
            for before in 0..12 {
                watch.at(format_args!("{}, {before} chunks before", outlet.name()));
                let (mut reader, writer) = pipe();
                let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
                let meter = Meter::new();
                let setup = Setup {
                    buf_bytes: CHUNK_BYTES,
                    pipe_bytes: Some(4 * CHUNK_BYTES),
                    ..Setup::new(&meter)
                };
                let mut producer = outlet.open(&sink, &setup).expect("it opens");
                let mut arrived = Vec::new();
                for (sent, piece) in all.chunks(CHUNK_BYTES).enumerate() {
                    if sent == before {
                        rustix::pipe::fcntl_setpipe_size(&writer, 1 << 20).expect("it is set");
                    }
                    if (4..before).contains(&sent) {
                        let mut read = [0; CHUNK_BYTES];
                        reader.read_exact(&mut read).expect("there is so much");
                        arrived.extend_from_slice(&read);
                    }
                    let room = producer.room().expect("room").expect("it streams");
                    room[..CHUNK_BYTES].copy_from_slice(piece);
                    producer.send(CHUNK_BYTES).expect("the pipe takes it");
                }
                drop(producer);
                drop(sink);
                drop(writer);
                reader.read_to_end(&mut arrived).expect("read");
                same(&arrived, all);
            }
        }
    });
}

/// A producer that was stopped with part of its room in the pipe, and then goes on.
#[test]
fn pages_lent_before_a_stop_are_not_written_afterwards() {
    bounded(|watch| {
        for outlet in streaming() {
            watch.at(outlet.name());
            let (mut reader, writer) = pipe();
            rustix::pipe::fcntl_setpipe_size(&writer, 16_384).expect("a pipe of this size");
            let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
            let (meter, cancel) = (Meter::new(), Cancel::new().expect("a token"));
            let setup = Setup {
                buf_bytes: 65_536,
                pipe_bytes: Some(16_384),
                cancel: Some(&cancel),
                ..Setup::new(&meter)
            };
            std::thread::scope(|scope| {
                let (tell, told) = std::sync::mpsc::channel();
                let producing = scope.spawn(|| {
                    let tell = tell;
                    let mut producer = outlet.open(&sink, &setup).expect("it opens");
                    let room = producer.room().expect("room").expect("it streams");
                    let len = room.len();
                    room.copy_from_slice(contents(len));
                    tell.send(rustix::thread::gettid()).expect("the test listens");
                    let Err(Stop::Cancelled { stranded }) = producer.send(len) else {
                        panic!("it should have been cancelled")
                    };
                    producer.room().expect("room").expect("it streams").fill(0xff);
                    (len, stranded)
                });
                let thread = told.recv().expect("it starts");
                until_stuck(thread, &meter, || producing.is_finished());
                cancel.cancel();
                let (len, mut stranded) = producing.join().expect("it ends");
                let mut arrived = vec![0; usize::try_from(meter.bytes()).expect("a size")];
                reader.read_exact(&mut arrived).expect("read");
                arrived.append(&mut stranded);
                same(&arrived, contents(len));
            });
        }
    });
}

#[test]
fn an_outlet_whose_reader_is_gone_says_so_with_what_it_kept() {
    bounded(|watch| {
        let null = Endpoint::open_sink("/dev/null").expect("it is everywhere");
        for outlet in OUTLETS {
            watch.at(outlet.name());
            let (reader, writer) = pipe();
            let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
            let meter = Meter::new();
            let setup = Setup { buf_bytes: 5000, ..Setup::new(&meter) };
            // What another has moved by the same meter is none of its own.
            let mut before = OUTLETS[0].open(&null, &setup).expect("it opens");
            before.repeat_some(70).expect("it takes all");
            let mut producer = outlet.open(&sink, &setup).expect("it opens");
            producer.repeat_some(100).expect("there is a reader");
            drop(reader);
            let Err(Stop::Failed(failed)) = producer.repeat_some(100) else {
                panic!("{} writes to nobody", outlet.name())
            };
            assert_eq!((failed.errno, failed.side), (Errno::PIPE, Side::Sink), "{failed}");
            assert_eq!((failed.offset, meter.bytes()), (100, 170), "{failed}");
            if outlet.used_for() == Use::Repeats {
                assert!(matches!(producer.room(), Ok(None)));
                assert!(matches!(producer.send(1), Err(Stop::Declined(_))));
                continue;
            }
            producer.room().expect("room").expect("it streams")[..5].copy_from_slice(b"bytes");
            let Err(Stop::Failed(failed)) = producer.send(5) else {
                panic!("{} writes to nobody", outlet.name())
            };
            assert_eq!((failed.route, &failed.stranded[..]), (outlet.name(), &b"bytes"[..]));
        }
    });
}

#[test]
fn an_outlet_that_waits_for_room_can_be_cancelled() {
    bounded(|watch| {
        for outlet in OUTLETS {
            for wait in Wait::NAMES.iter().filter_map(|name| Wait::named(name)) {
                watch.at(format_args!("{}, {wait}", outlet.name()));
                let (mut reader, writer) = pipe();
                let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
                let (meter, cancel) = (Meter::new(), Cancel::new().expect("a token"));
                std::thread::scope(|scope| {
                    let (tell, told) = std::sync::mpsc::channel();
                    let producing = scope.spawn(|| {
                        let tell = tell;
                        let setup = Setup {
                            contents: Contents::Repeat(contents(1000)),
                            pipe_bytes: Some(65_536),
                            wait,
                            cancel: Some(&cancel),
                            ..Setup::new(&meter)
                        };
                        let mut producer = outlet.open(&sink, &setup).expect("it opens");
                        tell.send(rustix::thread::gettid()).expect("the test listens");
                        loop {
                            if let Err(stop) = producer.repeat_some(u64::MAX) {
                                return stop;
                            }
                        }
                    });
                    let thread = told.recv().expect("it starts");
                    until_stuck(thread, &meter, || producing.is_finished());
                    cancel.cancel();
                    let stop = producing.join().expect("it ends");
                    assert!(matches!(stop, Stop::Cancelled { .. }), "{stop}");
                });
                let mut arrived = vec![0; usize::try_from(meter.bytes()).expect("a size")];
                reader.read_exact(&mut arrived).expect("read");
                same(&arrived, &repeated(contents(1000), arrived.len()));
            }
        }
    });
}

#[test]
fn a_pipe_that_cannot_have_the_size_asked_for_is_declined_and_one_not_asked_for_is_taken() {
    for outlet in OUTLETS {
        let (_reader, mut writer) = pipe();
        writer.write_all(&[1; 20_000]).expect("written");
        let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
        let meter = Meter::new();
        // The pipe holds more than a page, so that it cannot shrink to one.
        let setup = Setup { pipe_bytes: Some(4096), ..Setup::new(&meter) };
        let Err(Stop::Declined(refusal)) = outlet.open(&sink, &setup) else {
            panic!("{} takes a pipe that it cannot have", outlet.name())
        };
        assert!(refusal.to_string().contains("4 KiB"), "{refusal}");
        let setup = Setup { buf_bytes: 8192, ..Setup::new(&meter) };
        assert!(outlet.open(&sink, &setup).is_ok(), "{}", outlet.name());
    }
}

#[test]
fn a_buffer_larger_than_any_memory_is_declined_with_the_reason() {
    for outlet in streaming() {
        for size in [PageSize::Base, PageSize::Huge] {
            for buffers in [Buffers::Apart, Buffers::Together] {
                let (_reader, writer) = pipe();
                let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
                let meter = Meter::new();
                let pages = Pages { size, locked: false };
                let buf_bytes = usize::MAX;
                let setup = Setup { buf_bytes, pages, buffers, ..Setup::new(&meter) };
                let Err(Stop::Declined(refusal)) = outlet.open(&sink, &setup) else {
                    panic!("{} has all memory there is", outlet.name())
                };
                assert!(refusal.to_string().contains("not enough memory"), "{refusal}");
            }
        }
    }
}

/// Writing is the last resort, so that a refused write is no matter of the mechanism.
#[test]
fn a_sink_that_refuses_to_be_written_fails_instead_of_declining() {
    let flags = rustix::fs::MemfdFlags::ALLOW_SEALING | rustix::fs::MemfdFlags::CLOEXEC;
    let sealed = rustix::fs::memfd_create("bytepath-test", flags).expect("a memfd");
    rustix::fs::fcntl_add_seals(&sealed, rustix::fs::SealFlags::WRITE).expect("sealed");
    let sink = Endpoint::sink(sealed.as_fd()).expect("a sink");
    for outlet in OUTLETS.iter().filter(|outlet| outlet.suits(&sink).is_ok()) {
        let meter = Meter::new();
        let mut producer = outlet.open(&sink, &Setup::new(&meter)).expect("it opens");
        let Err(Stop::Failed(failed)) = producer.repeat_some(1) else { panic!("it is sealed") };
        assert_eq!((failed.errno, failed.side), (Errno::PERM, Side::Sink), "{failed}");
    }
}

#[test]
fn no_more_is_sent_than_there_was_room_for() {
    for outlet in streaming() {
        let (_reader, writer) = pipe();
        let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
        let meter = Meter::new();
        let setup = Setup { buf_bytes: 4096, ..Setup::new(&meter) };
        let mut producer = outlet.open(&sink, &setup).expect("it opens");
        let panics = |producer: &mut dyn Producer, len| {
            let send = std::panic::AssertUnwindSafe(|| producer.send(len));
            let panic = std::panic::catch_unwind(send).expect_err("nobody wrote that");
            let said = panic.downcast_ref::<String>().expect("words");
            assert!(said.contains("ask for room before each send"), "{said}");
        };
        panics(&mut *producer, 1);
        let room = producer.room().expect("room").expect("it streams").len();
        panics(&mut *producer, room + 1);
        producer.room().expect("room").expect("it streams").fill(7);
        producer.send(10).expect("sent");
        panics(&mut *producer, 1);
        assert_eq!(meter.bytes(), 10, "{}", outlet.name());
    }
}

#[test]
fn contents_of_no_bytes_are_refused_as_such_and_nothing_is_sent_where_nothing_is_asked_for() {
    for outlet in OUTLETS {
        let (_reader, writer) = pipe();
        let sink = Endpoint::sink(writer.as_fd()).expect("a sink");
        let meter = Meter::new();
        let setup = Setup { contents: Contents::Repeat(b""), ..Setup::new(&meter) };
        let Err(Stop::Declined(refusal)) = outlet.open(&sink, &setup).map(drop) else {
            panic!("{} repeats nothing", outlet.name())
        };
        assert!(refusal.to_string().contains("contents of no bytes"), "{refusal}");
        let mut producer = outlet.open(&sink, &Setup::new(&meter)).expect("it opens");
        assert!(matches!(producer.repeat_some(0), Ok(0)), "{}", outlet.name());
        assert_eq!(meter.bytes(), 0);
    }
}
