//! One source to many sinks: the same bytes to each, whatever they are, however slow, and whoever
//! dies.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use bytepath::fan_out::{AfterLoss, Ending, FanOutPlan, FannedOut, Full, Lags, Lost, Queue, Waits};
use bytepath::{Cancel, Endpoint, FanOut, Meter};
use proptest::prelude::*;
use rustix::io::Errno;
use rustix::pipe::PipeFlags;

use crate::stuck::until_stuck;
use crate::watch::bounded;

fn pipe(bytes: usize) -> (OwnedFd, OwnedFd) {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    let _ = rustix::pipe::fcntl_setpipe_size(&writer, bytes);
    (reader, writer)
}

fn stream(bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]).collect()
}

/// A sink, and how it is read.
#[derive(Debug, Clone)]
enum Kind {
    /// A pipe of this size whose reader takes so many bytes at a time.
    Pipe(usize, usize),
    File,
    Appended,
    Socket,
    Null,
}

fn kind() -> impl Strategy<Value = Kind> {
    let reads = prop_oneof![Just(1000_usize), Just(4096), Just(70_000), Just(1 << 20)];
    prop_oneof![
        (prop_oneof![Just(4096_usize), Just(65_536), Just(1 << 20)], reads)
            .prop_map(|(size, reads)| Kind::Pipe(size, reads)),
        Just(Kind::File),
        Just(Kind::Appended),
        Just(Kind::Socket),
        Just(Kind::Null),
    ]
}

/// Where the bytes come from.
#[derive(Debug, Clone, Copy)]
enum Origin {
    /// Written so many at a time.
    Pipe(usize),
    File,
    Socket,
}

fn origin() -> impl Strategy<Value = Origin> {
    let writes = prop_oneof![Just(777_usize), Just(65_536), Just(300_000)];
    prop_oneof![writes.prop_map(Origin::Pipe), Just(Origin::File), Just(Origin::Socket)]
}

/// What a sink's other side is.
enum Side {
    Reader(File, usize),
    Written(File),
    Nothing,
}

fn opened(kind: &Kind) -> (OwnedFd, Side) {
    match kind {
        Kind::Pipe(bytes, reads) => {
            let (reader, writer) = pipe(*bytes);
            (writer, Side::Reader(reader.into(), *reads))
        }
        Kind::File => {
            let file = tempfile::tempfile().expect("a file");
            (file.try_clone().expect("a duplicate").into(), Side::Written(file))
        }
        Kind::Appended => {
            let file = tempfile::NamedTempFile::new().expect("a file");
            let sink = File::options().append(true).open(file.path()).expect("it is ours");
            (sink.into(), Side::Written(file.into_file()))
        }
        Kind::Socket => {
            let (mine, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
            (theirs.into(), Side::Reader(OwnedFd::from(mine).into(), 50_000))
        }
        Kind::Null => {
            let null = File::options().write(true).open("/dev/null").expect("it is everywhere");
            (null.into(), Side::Nothing)
        }
    }
}

/// What came out at a sink's other side.
fn got(side: Side) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    match side {
        Side::Reader(mut reader, at_a_time) => {
            let mut buffer = vec![0; at_a_time];
            loop {
                match reader.read(&mut buffer).expect("it can be read") {
                    0 => break,
                    count => all.extend_from_slice(&buffer[..count]),
                }
            }
        }
        Side::Written(mut file) => {
            file.rewind().and_then(|()| file.read_to_end(&mut all)).expect("it can be read");
        }
        Side::Nothing => return None,
    }
    Some(all)
}

/// Moves a stream to such sinks, and gives what each got.
fn moved(
    origin: Origin,
    bytes: &[u8],
    kinds: &[Kind],
    run: impl FnOnce(FanOut<'_>, usize) -> FannedOut,
) -> (FannedOut, Vec<Option<Vec<u8>>>) {
    let (sinks, sides): (Vec<_>, Vec<_>) = kinds.iter().map(opened).unzip();
    std::thread::scope(|scope| {
        let source: OwnedFd = match origin {
            Origin::File => {
                let mut file = tempfile::tempfile().expect("a file");
                file.write_all(bytes).and_then(|()| file.rewind()).expect("written");
                file.into()
            }
            Origin::Pipe(writes) => {
                let (reader, writer) = pipe(65_536);
                scope.spawn(move || {
                    let mut writer = File::from(writer);
                    bytes.chunks(writes).for_each(|piece| writer.write_all(piece).expect("read"));
                });
                reader
            }
            Origin::Socket => {
                let (mine, theirs) = std::os::unix::net::UnixStream::pair().expect("a pair");
                scope.spawn(move || (&mine).write_all(bytes).expect("it is read"));
                theirs.into()
            }
        };
        let readers: Vec<_> = sides
            .into_iter()
            .map(|side| match side {
                Side::Reader(..) => Ok(scope.spawn(move || got(side))),
                other => Err(other),
            })
            .collect();
        let ends: Vec<_> = sinks.iter().map(|sink| Endpoint::sink(sink.as_fd()).ok()).collect();
        let source_end = Endpoint::source(source.as_fd()).expect("a source");
        let done = run(FanOut::new(&source_end, &ends), ends.len());
        drop(ends);
        drop(sinks);
        let all = readers.into_iter().map(|reader| match reader {
            Ok(thread) => thread.join().expect("it reads"),
            Err(side) => got(side),
        });
        (done, all.collect())
    })
}

fn go_on(_: Lost) -> AfterLoss {
    AfterLoss::GoOn
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn every_sink_gets_every_byte(
        origin in origin(),
        kinds in prop::collection::vec(kind(), 1..6),
        bytes in prop_oneof![Just(0_usize), 1..100_000_usize, 2_000_000..3_000_000_usize],
        queue in prop_oneof![Just(None), Just(Some(1_usize)), Just(Some(500_000))],
        spills in any::<bool>(),
    ) {
        let stream = stream(bytes);
        let spill = tempfile::tempfile().expect("a file");
        let meter = Meter::new();
        let (done, got) = moved(origin, &stream, &kinds, |fan_out, sinks| {
            let fan_out = fan_out.meter(&meter);
            match queue {
                None => fan_out.run(&go_on),
                Some(memory_bytes) => {
                    let queue = Queue { memory_bytes, spill: spills.then(|| spill.as_fd()) };
                    let lags = Lags::of(sinks);
                    let done = fan_out.run_queued(queue, &lags, &go_on, &|_| ()).expect("threads");
                    assert!((0..sinks).all(|sink| lags.bytes(sink) == 0));
                    done
                }
            }
        });
        prop_assert_eq!(done.ending, Ending::SourceEnded);
        prop_assert_eq!((done.bytes, meter.bytes()), (bytes as u64, bytes as u64));
        for (place, got) in got.into_iter().enumerate() {
            prop_assert_eq!(done.sinks[place].bytes, bytes as u64, "{:?}", kinds[place]);
            prop_assert!(got.is_none_or(|got| got == stream), "{:?} differs", kinds[place]);
        }
    }
}

#[test]
fn a_sink_that_is_lost_is_told_of_and_the_others_have_everything() {
    let (reader, broken) = pipe(65_536);
    drop(reader);
    let full = File::options().write(true).open("/dev/full").expect("it is everywhere");
    let file = tempfile::tempfile().expect("a file");
    let mut source = tempfile::tempfile().expect("a file");
    source.write_all(&stream(300_000)).and_then(|()| source.rewind()).expect("written");
    let end = |fd| Endpoint::sink(fd).ok();
    let ends = [end(broken.as_fd()), None, end(full.as_fd()), end(file.as_fd())];
    let source_end = Endpoint::source(source.as_fd()).expect("a source");
    for queued in [false, true] {
        (&source).rewind().and_then(|()| file.set_len(0)).expect("anew");
        (&file).rewind().expect("anew");
        let lost = Mutex::new(Vec::new());
        let on_loss = |loss: Lost| {
            lost.lock().expect("not poisoned").push((loss.sink, loss.errno));
            AfterLoss::GoOn
        };
        let fan_out = FanOut::new(&source_end, &ends);
        let done = match queued {
            false => fan_out.run(&on_loss),
            true => {
                let queue = Queue { memory_bytes: 1 << 20, spill: None };
                fan_out.run_queued(queue, &Lags::of(4), &on_loss, &|_| ()).expect("threads")
            }
        };
        assert_eq!(done.ending, Ending::SourceEnded);
        let mut lost = lost.into_inner().expect("not poisoned");
        lost.sort_by_key(|(sink, _)| *sink);
        assert_eq!(lost, [(0, Errno::PIPE), (1, Errno::BADF), (2, Errno::NOSPC)]);
        assert!(
            got(Side::Written(file.try_clone().expect("a duplicate"))) == Some(stream(300_000))
        );
    }
}

#[test]
fn it_ends_where_it_is_to_stop_or_no_sink_is_left() {
    let full = File::options().write(true).open("/dev/full").expect("it is everywhere");
    let zero = Endpoint::open_source("/dev/zero").expect("it is everywhere");
    let null = Endpoint::open_sink("/dev/null").ok();
    let both = [Endpoint::sink(full.as_fd()).ok(), null];
    let stop = |_: Lost| AfterLoss::Stop;
    let queue = Queue { memory_bytes: 1 << 20, spill: None };
    assert_eq!(FanOut::new(&zero, &both).run(&stop).ending, Ending::Stopped);
    let done = FanOut::new(&zero, &both).run_queued(queue, &Lags::of(2), &stop, &|_| ());
    assert_eq!(done.expect("threads").ending, Ending::Stopped);
    // The second only listens.
    assert_eq!(FanOut::new(&zero, &both).listeners(1).run(&go_on).ending, Ending::NoSinkLeft);
    let done = FanOut::new(&zero, &both).listeners(1);
    let done = done.run_queued(queue, &Lags::of(2), &go_on, &|_| ());
    assert_eq!(done.expect("threads").ending, Ending::NoSinkLeft);
}

#[test]
fn lags_for_another_number_of_sinks_are_refused_before_anything_is_read() {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(b"bytes").expect("room");
    file.rewind().expect("a file");
    let source = Endpoint::source(file.as_fd()).expect("a source");
    let both = [Endpoint::open_sink("/dev/null").ok(), Endpoint::open_sink("/dev/null").ok()];
    for lags in [Lags::of(1), Lags::of(3)] {
        let queue = Queue { memory_bytes: 1 << 20, spill: None };
        let done = FanOut::new(&source, &both).run_queued(queue, &lags, &go_on, &|_| ());
        assert_eq!(done.expect_err("refused").kind(), ErrorKind::InvalidInput);
    }
    assert_eq!(file.stream_position().expect("a file"), 0);
    assert_eq!(Lags::of(1).bytes(1), 0);
}

/// pwrite(2) to such a file appends, whatever the place.
#[test]
fn a_file_to_spill_to_that_appends_is_refused_before_anything_is_read() {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(b"bytes").expect("room");
    file.rewind().expect("a file");
    let source = Endpoint::source(file.as_fd()).expect("a source");
    let sinks = [Endpoint::open_sink("/dev/null").ok()];
    let spill = tempfile::NamedTempFile::new().expect("a file");
    let spill = File::options().read(true).append(true).open(spill.path()).expect("it is ours");
    let queue = Queue { memory_bytes: 1 << 20, spill: Some(spill.as_fd()) };
    let done = FanOut::new(&source, &sinks).run_queued(queue, &Lags::of(1), &go_on, &|_| ());
    assert_eq!(done.expect_err("refused").kind(), ErrorKind::InvalidInput);
    assert_eq!(file.stream_position().expect("a file"), 0);
}

#[test]
fn what_only_listens_has_all_of_it_where_it_is_told_that_the_source_ended() {
    let bytes = stream(3_000_000);
    for _ in 0..20 {
        let ((source, feeder), (reader, sink), (slow, listener)) =
            (pipe(1 << 20), pipe(1 << 20), pipe(4096));
        let source = Endpoint::source(source.as_fd()).expect("a source");
        std::thread::scope(|scope| {
            let ends = [Endpoint::sink(sink.as_fd()).ok(), Endpoint::sink(listener.as_fd()).ok()];
            scope.spawn(|| File::from(feeder).write_all(&bytes).expect("it is read"));
            // It leaves before it has everything, and long before the one that listens has.
            let leaves = scope.spawn(|| {
                let mut most = vec![0; bytes.len() - (1 << 20) - 1];
                File::from(reader).read_exact(&mut most).expect("it comes");
            });
            let hears = scope.spawn(|| {
                leaves.join().expect("it leaves");
                let mut all = Vec::new();
                File::from(slow).read_to_end(&mut all).expect("it can be read");
                all
            });
            let queue = Queue { memory_bytes: 8 << 20, spill: None };
            let fan_out = FanOut::new(&source, &ends).listeners(1);
            let done = fan_out.run_queued(queue, &Lags::of(2), &go_on, &|_| ()).expect("threads");
            drop(listener);
            let heard = hears.join().expect("it reads");
            assert_eq!(heard.len() as u64, done.sinks[1].bytes);
            assert!(done.ending != Ending::SourceEnded || heard == bytes, "{done:?}");
        });
    }
}

#[test]
fn sinks_that_are_left_get_what_is_queued_where_it_is_to_stop() {
    let bytes = stream(3_000_000);
    let ((source, feeder), (reader, sink), (slow, behind)) =
        (pipe(1 << 20), pipe(1 << 20), pipe(4096));
    let source = Endpoint::source(source.as_fd()).expect("a source");
    let (lost, is_lost) = std::sync::mpsc::channel();
    let on_loss = |_: Lost| {
        lost.send(()).expect("somebody waits for it");
        AfterLoss::Stop
    };
    std::thread::scope(|scope| {
        let all = &bytes;
        scope.spawn(move || {
            let (mut feeder, mut reader) = (File::from(feeder), File::from(reader));
            scope.spawn(move || {
                let mut taken = vec![0; all.len()];
                reader.read_exact(&mut taken).expect("it comes");
            });
            feeder.write_all(all).expect("it is read");
            // Until the reader has left, nobody hears of that.
            while is_lost.try_recv().is_err() {
                feeder.write_all(b"x").expect("it is read");
            }
            let mut got = Vec::new();
            File::from(slow).read_to_end(&mut got).expect("it can be read");
            assert!(got.starts_with(all));
            // The source has not ended before.
            drop(feeder);
        });
        let ends = [Endpoint::sink(sink.as_fd()).ok(), Endpoint::sink(behind.as_fd()).ok()];
        let queue = Queue { memory_bytes: 64 << 20, spill: None };
        let fan_out = FanOut::new(&source, &ends);
        let done = fan_out.run_queued(queue, &Lags::of(2), &on_loss, &|_| ()).expect("threads");
        drop(behind);
        assert_eq!((done.ending, done.sinks[1].lost), (Ending::Stopped, None));
        assert_eq!(done.sinks[1].bytes, done.bytes);
    });
}

#[test]
fn a_file_that_is_read_gives_all_sinks_the_same_though_it_is_written_to_meanwhile() {
    use std::os::unix::fs::FileExt;
    let source = tempfile::tempfile().expect("a file");
    source.write_all_at(&stream(40_000), 0).expect("written");
    let end = Endpoint::source(source.as_fd()).expect("a source");
    let ((first, to_first), (second, to_second)) = (pipe(65_536), pipe(65_536));
    let ends = [Endpoint::sink(to_first.as_fd()).ok(), Endpoint::sink(to_second.as_fd()).ok()];
    let done = FanOut::new(&end, &ends).read_files().run(&go_on);
    assert_eq!((done.ending, done.source_way), (Ending::SourceEnded, "read"));
    // What no reader has taken by now is in the pipes.
    source.write_all_at(&[b'x'; 40_000], 0).expect("written");
    for reader in [first, second] {
        let mut got = vec![0; 40_000];
        File::from(reader).read_exact(&mut got).expect("it is there");
        assert!(got == stream(40_000));
    }
}

#[test]
fn what_makes_messages_of_its_bytes_gets_them_in_small_ones() {
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    sender.connect(receiver.local_addr().expect("bound")).expect("connected");
    // What is not taken at once is lost where there is no more room.
    let bytes = stream(80_000);
    let mut source = tempfile::tempfile().expect("a file");
    source.write_all(&bytes).and_then(|()| source.rewind()).expect("written");
    for queued in [false, true] {
        (&source).rewind().expect("anew");
        let source = Endpoint::source(source.as_fd()).expect("a source");
        let ends = [Endpoint::sink(sender.as_fd()).ok()];
        let fan_out = FanOut::new(&source, &ends);
        let done = match queued {
            false => fan_out.run(&go_on),
            true => {
                let queue = Queue { memory_bytes: 1 << 20, spill: None };
                fan_out.run_queued(queue, &Lags::of(1), &go_on, &|_| ()).expect("threads")
            }
        };
        assert_eq!((done.sinks[0].bytes, done.sinks[0].lost), (80_000, None));
        let mut all = Vec::new();
        while all.len() < bytes.len() {
            let mut message = [0; 65_536];
            let count = receiver.recv(&mut message).expect("it comes");
            assert!(count <= 8 << 10, "{count}");
            all.extend_from_slice(&message[..count]);
        }
        assert!(all == bytes);
    }
}

#[test]
fn packets_of_a_pipe_stay_packets_where_a_sink_makes_messages() {
    let flags = rustix::pipe::PipeFlags::DIRECT | rustix::pipe::PipeFlags::CLOEXEC;
    let (reader, writer) = rustix::pipe::pipe_with(flags).expect("a pipe");
    let receiver = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let sender = std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
    sender.connect(receiver.local_addr().expect("bound")).expect("connected");
    let bytes = stream(4096);
    for count in [100, 4096, 5] {
        assert_eq!(rustix::io::write(&writer, &bytes[..count]), Ok(count));
    }
    drop(writer);
    let source = Endpoint::source(reader.as_fd()).expect("a source");
    let ends = [Endpoint::sink(sender.as_fd()).ok(), Endpoint::open_sink("/dev/null").ok()];
    let done = FanOut::new(&source, &ends).run(&go_on);
    assert_eq!((done.sinks[0].bytes, done.sinks[1].bytes), (4201, 4201));
    for count in [100, 4096, 5] {
        let mut message = [0; 65_536];
        assert_eq!(receiver.recv(&mut message).expect("it comes"), count);
        assert!(message[..count] == bytes[..count]);
    }
}

#[test]
fn readers_that_left_when_there_is_no_more_to_give_are_not_lost() {
    let empty = tempfile::tempfile().expect("a file");
    let sources = [pipe(65_536).0, empty.into()];
    for source in sources {
        let source = Endpoint::source(source.as_fd()).expect("a source");
        let (_, sink) = pipe(65_536);
        let sinks = [Endpoint::sink(sink.as_fd()).ok()];
        let done = FanOut::new(&source, &sinks).run(&go_on);
        assert_eq!((done.ending, done.sinks[0].lost), (Ending::SourceEnded, None));
    }
}

#[test]
fn readers_that_leave_end_it_while_it_waits_for_the_source() {
    for queued in [false, true] {
        let (source, _feeder) = pipe(65_536);
        let ((one, first), (other, second)) = (pipe(65_536), pipe(65_536));
        let ends = [Endpoint::sink(first.as_fd()).ok(), Endpoint::sink(second.as_fd()).ok()];
        let source = Endpoint::source(source.as_fd()).expect("a source");
        let fan_out = FanOut::new(&source, &ends).watch_readers();
        let leaves = std::thread::spawn(move || drop((one, other)));
        let done = match queued {
            false => fan_out.run(&go_on),
            true => {
                let queue = Queue { memory_bytes: 1 << 20, spill: None };
                fan_out.run_queued(queue, &Lags::of(2), &go_on, &|_| ()).expect("threads")
            }
        };
        leaves.join().expect("they leave");
        assert_eq!(done.ending, Ending::NoSinkLeft);
        assert!(done.sinks.iter().all(|sink| sink.lost == Some(Errno::PIPE)));
    }
}

/// The caller's functions of a fan-out, of which one panics.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Panics {
    Planner,
    OnFull,
    OnLoss,
}

#[test]
fn a_function_of_the_caller_that_panics_ends_it() {
    let unless = |panics: Panics, this: Panics| assert_ne!(panics, this, "as it is to");
    for panics in [Panics::Planner, Panics::OnFull, Panics::OnLoss] {
        bounded(move |watch| {
            watch.at(format!("{panics:?}"));
            let ((reader, slow), (_never_read, full)) = (pipe(65_536), pipe(65_536));
            let leaves = panics == Panics::OnLoss;
            let _reader = (!leaves).then_some(reader);
            let mut source = tempfile::tempfile().expect("a file");
            source.write_all(&stream(4_000_000)).and_then(|()| source.rewind()).expect("written");
            let source = Endpoint::source(source.as_fd()).expect("a source");
            let ends = [Endpoint::sink(slow.as_fd()).ok(), Endpoint::sink(full.as_fd()).ok()];
            let planner = || {
                unless(panics, Panics::Planner);
                FanOutPlan::by_rules()
            };
            let on_loss = |_| {
                unless(panics, Panics::OnLoss);
                AfterLoss::GoOn
            };
            let ended = catch_unwind(AssertUnwindSafe(|| {
                let queue = Queue { memory_bytes: 1 << 20, spill: None };
                let fan_out = FanOut::new(&source, &ends).planned_by(&planner);
                let on_full = |_| unless(panics, Panics::OnFull);
                fan_out.run_queued(queue, &Lags::of(2), &on_loss, &on_full)
            }));
            assert!(ended.is_err(), "{panics:?} was swallowed");
        });
    }
}

#[test]
fn a_sink_that_takes_a_little_now_and_then_is_told_of_as_one_that_holds_the_others_up() {
    bounded(|watch| {
        watch.at("fed");
        let (reader, writer) = pipe(65_536);
        let wanted = stream(8_000_000);
        let mut source = tempfile::tempfile().expect("a file");
        source.write_all(&wanted).and_then(|()| source.rewind()).expect("written");
        let source = Endpoint::source(source.as_fd()).expect("a source");
        let mut other = tempfile::tempfile().expect("a file");
        let kept = other.try_clone().expect("a second");
        let ends = [Endpoint::sink(writer.as_fd()).ok(), Endpoint::sink(kept.as_fd()).ok()];
        let is_told = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let reads = scope.spawn(|| {
                let (mut reader, mut all, mut part) = (File::from(reader), vec![], [0; 65_536]);
                while !is_told.load(Relaxed) && all.len() < 6_000_000 {
                    let count = reader.read(&mut part).expect("it can be read");
                    all.extend_from_slice(&part[..count]);
                    std::thread::sleep(Duration::from_millis(20));
                }
                let rest = (wanted.len() - all.len()) as u64;
                reader.take(rest).read_to_end(&mut all).expect("it can be read");
                all
            });
            let queue = Queue { memory_bytes: 1 << 20, spill: None };
            let on_full = |full| {
                is_told.fetch_or(full == Full { sink: 0, waits: Waits::Others }, Relaxed);
            };
            let fan_out = FanOut::new(&source, &ends).leave_pipes();
            fan_out.run_queued(queue, &Lags::of(2), &go_on, &on_full).expect("threads");
            assert!(reads.join().expect("it reads") == wanted);
        });
        let mut got = Vec::new();
        other.rewind().and_then(|()| other.read_to_end(&mut got)).expect("it can be read");
        assert!(got == wanted);
        assert!(is_told.into_inner());
    });
}

/// Cancels what waits, once so many pipes that nobody reads have at least so much: how it ended, and
/// what each has.
fn cancelled(
    source: &Endpoint<'_>,
    (sinks, least): (usize, usize),
    queued: bool,
) -> (FannedOut, Vec<usize>) {
    let pipes: Vec<_> = (0..sinks).map(|_| pipe(4096)).collect();
    let ends: Vec<_> =
        pipes.iter().map(|(_, writer)| Endpoint::sink(writer.as_fd()).ok()).collect();
    let (cancel, meter) = (Cancel::new().expect("a token"), Meter::new());
    let held = |(reader, _): &(OwnedFd, OwnedFd)| {
        usize::try_from(rustix::io::ioctl_fionread(reader).expect("a pipe")).expect("a size")
    };
    let done = std::thread::scope(|scope| {
        let (tell, told) = std::sync::mpsc::channel();
        let moving = scope.spawn(|| {
            let tell = tell;
            tell.send(rustix::thread::gettid()).expect("the test listens");
            let fan_out = FanOut::new(source, &ends).meter(&meter).cancel(&cancel).leave_pipes();
            let go_on = |_: Lost| AfterLoss::GoOn;
            match queued {
                false => fan_out.run(&go_on),
                true => {
                    let (lags, queue) =
                        (Lags::of(sinks), Queue { memory_bytes: 20_000, spill: None });
                    fan_out.run_queued(queue, &lags, &go_on, &|_| ()).expect("descriptors")
                }
            }
        });
        let thread = told.recv().expect("it starts");
        until_stuck(thread, &meter, || moving.is_finished());
        while !moving.is_finished() && pipes.iter().any(|pipe| held(pipe) < least) {
            std::thread::yield_now();
        }
        cancel.cancel();
        moving.join().expect("it ends")
    });
    (done, pipes.iter().map(held).collect())
}

#[test]
fn it_can_be_cancelled_whatever_it_waits_for() {
    bounded(|watch| {
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&stream(300_000)).and_then(|()| file.rewind()).expect("written");
        for queued in [false, true] {
            for sinks in [1, 2, 3] {
                watch.at(format_args!("{sinks} sinks that are full, queued: {queued}"));
                file.rewind().expect("a file");
                let source = Endpoint::source(file.as_fd()).expect("a source");
                let (done, held) = cancelled(&source, (sinks, 4096), queued);
                assert_eq!(done.ending, Ending::Cancelled);
                assert!(done.sinks.iter().all(|sink| sink.lost.is_none()), "{done:?}");
                let told: Vec<_> = done.sinks.iter().map(|sink| sink.bytes as usize).collect();
                assert_eq!(told, held);
                watch.at(format_args!("a source that is silent, {sinks} sinks, queued: {queued}"));
                let (reader, mut writer) = std::io::pipe().expect("a pipe");
                writer.write_all(b"bytes").expect("there is room");
                let source = Endpoint::source(reader.as_fd()).expect("a source");
                let (done, held) = cancelled(&source, (sinks, 5), queued);
                assert_eq!((done.ending, done.bytes), (Ending::Cancelled, 5));
                assert_eq!(held, vec![5; sinks]);
            }
        }
    });
}

#[test]
fn a_source_that_could_not_be_read_on_is_told_of_though_it_is_cancelled_then() {
    bounded(|_| {
        let (mut near, mut far) = std::os::unix::net::UnixStream::pair().expect("a pair");
        far.write_all(&stream(10_000)).expect("there is room");
        // What the other side has not read when it goes makes it a loss, and no end.
        near.write_all(b"unread").expect("there is room");
        drop(far);
        let source = Endpoint::source(near.as_fd()).expect("a source");
        let (done, held) = cancelled(&source, (1, 4096), true);
        assert_eq!((done.ending, done.bytes), (Ending::ReadFailed(Errno::CONNRESET), 10_000));
        assert_eq!(held, [4096]);
    });
}

#[test]
fn the_meter_tells_what_went_by_the_fan_out_apart_from_what_went_by_others() {
    let mut source = tempfile::tempfile().expect("a file");
    source.write_all(&stream(50_000)).expect("written");
    let null = [Endpoint::open_sink("/dev/null").ok()];
    let meter = Meter::new();
    meter.goes("somebody else's");
    let run = |queued: bool| {
        (&source).rewind().expect("anew");
        let from = Endpoint::source(source.as_fd()).expect("a source");
        let fan_out = FanOut::new(&from, &null).meter(&meter);
        if queued {
            let queue = Queue { memory_bytes: 1 << 20, spill: None };
            fan_out.run_queued(queue, &Lags::of(1), &go_on, &|_| ()).expect("threads");
        } else {
            fan_out.run(&go_on);
        }
    };
    run(false);
    run(true);
    assert_eq!(meter.by_route(), [("fan-out", 50_000), ("fan-out-queue", 50_000)]);
}
