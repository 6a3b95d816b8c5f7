//! Every route on every pair of ends: the same bytes, an honest meter, nothing taken too much.

use std::collections::BTreeMap;

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, AsRawFd};

use bytepath::machine::Machine;
use bytepath::routes::{Allowed, Cache, ROUTES};
use bytepath::{Endpoint, Job, Knobs, Meter, Plan, Transfer, TransferError, Wait};
use rustix::fs::{Mode, OFlags};

use crate::ends::{
    Pace, SINKS, SOURCES, SinkKind, SourceKind, contents, disk_file, memfd, pipe, tmpfs_file,
};
use crate::trial::{Ended, Nonblock, Trial, same};
use crate::uncached::knows_dontcache;
use crate::watch::{Watch, bounded};

/// Sizes around those that a kernel cuts at, and one that is a multiple of none.
fn sizes() -> Vec<usize> {
    let page = rustix::param::page_size();
    vec![0, 1, 1009, page - 1, page, page + 1, (3 << 20) + 12_345]
}

/// Terminals take a few MB/s through their 4 KiB.
const TTY_BYTES_MAX: usize = 150_001;

fn is_tty(source: &SourceKind, sink: &SinkKind) -> bool {
    source.name == "tty" || sink.name == "tty"
}

fn limits(bytes: usize) -> [Option<u64>; 5] {
    let bytes = bytes as u64;
    [None, Some(0), Some(bytes / 2), Some(bytes), Some(bytes + 1000)]
}

/// Every pair, size and limit that comes to an end.
fn trials(sizes: &[usize]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for source in SOURCES {
        for sink in SINKS {
            let most = if is_tty(source, sink) { TTY_BYTES_MAX } else { usize::MAX };
            for bytes in sizes.iter().map(|&bytes| bytes.min(most)) {
                for limit in limits(bytes) {
                    trials.push(Trial { limit, ..Trial::new(source, sink, bytes) });
                }
            }
        }
    }
    trials.retain(Trial::ends);
    trials
}

/// Routes that depend on what a file system can, or on where in its blocks both ends stand; and
/// mapping, which files of /sys cannot.
const MAY_DECLINE: &[&str] = &[
    "copy-file-range",
    "reflink",
    "uring-direct",
    "linux-aio",
    "mmap-write",
    "parallel",
    "dontcache",
];

/// What became of every route on every pair: for people who read the test's output, and to see
/// that none of them declines everything.
#[derive(Default)]
struct Tally {
    moved: BTreeMap<&'static str, usize>,
    declined: BTreeMap<(&'static str, String), usize>,
}

impl Tally {
    fn count(&mut self, route: &'static str, ended: Ended) {
        match ended {
            Ended::Moved(_) => *self.moved.entry(route).or_default() += 1,
            Ended::Declined(why) => *self.declined.entry((route, why)).or_default() += 1,
            Ended::Refused => {}
        }
    }

    /// Every route that empties its source moved bytes, and only those may have declined at run
    /// time that depend on the file systems.
    fn judge(&self) {
        eprintln!("moved: {:?}", self.moved);
        eprintln!("declined by the kernel: {:?}", self.declined);
        let ring = Machine::this().ring().answer().is_yes();
        let dontcache = knows_dontcache(&disk_file());
        let can = |name: &&str| match *name {
            "tee" => false,
            "dontcache" => dontcache,
            name => ring || !name.starts_with("uring"),
        };
        for route in ROUTES.iter().map(|route| route.name()).filter(can) {
            assert!(self.moved.contains_key(route), "{route} never moved anything");
        }
        for (route, why) in self.declined.keys() {
            assert!(MAY_DECLINE.contains(route) || !can(route), "{route} declined: {why}");
        }
    }
}

#[test]
fn every_route_moves_the_same_bytes_between_every_pair_or_says_why_not() {
    bounded(|watch: &Watch| {
        let mut tally = Tally::default();
        for trial in trials(&sizes()) {
            for route in ROUTES {
                let trial = Trial { only: Some(route.name()), ..trial.clone() };
                watch.at(&trial);
                tally.count(route.name(), trial.run());
            }
        }
        tally.judge();
    });
}

#[test]
fn the_page_cache_can_be_left_as_it_was_between_every_pair() {
    bounded(|watch| {
        for trial in trials(&[0, 1009, (3 << 20) + 12_345]) {
            for only in [None, Some("fadvise")] {
                let trial = Trial { only, cache: Cache::LeaveAsItWas, ..trial.clone() };
                watch.at(&trial);
                let ended = trial.run();
                assert!(only.is_some() || matches!(ended, Ended::Moved(_)));
            }
        }
    });
}

#[test]
fn the_best_plan_moves_the_bytes_between_every_pair() {
    bounded(|watch| {
        for trial in trials(&[0, 1009, (1 << 20) + 1]) {
            for aliasing in [Allowed::No, Allowed::Yes] {
                let trial = Trial { aliasing, ..trial.clone() };
                watch.at(&trial);
                assert!(matches!(trial.run(), Ended::Moved(_)));
            }
        }
    });
}

/// Pairs of ends that can keep each other waiting.
fn waiting_trials() -> Vec<Trial> {
    let waits = |name: &str| ["pipe", "unix socket", "tcp socket", "tty"].contains(&name);
    let mut trials = Vec::new();
    for source in SOURCES.iter().filter(|source| waits(source.name) || source.name == "memfd") {
        for sink in SINKS.iter().filter(|sink| waits(sink.name) || sink.name == "memfd") {
            for route in ROUTES {
                let bytes = if is_tty(source, sink) { 20_011 } else { 300_007 };
                trials.push(Trial {
                    only: Some(route.name()),
                    limit: Some(bytes as u64),
                    ..Trial::new(source, sink, bytes)
                });
            }
        }
    }
    trials
}

#[test]
fn every_wait_works_with_and_without_cancel_and_o_nonblock() {
    bounded(|watch| {
        let nonblocks = [(false, false), (true, false), (false, true), (true, true)];
        for trial in waiting_trials() {
            for wait in Wait::NAMES.iter().filter_map(|name| Wait::named(name)) {
                for (nonblock_source, nonblock_sink) in nonblocks {
                    for cancellable in [false, true] {
                        let trial = Trial {
                            knobs: Knobs { wait, ..Knobs::default() },
                            nonblock: Nonblock { source: nonblock_source, sink: nonblock_sink },
                            cancellable,
                            ..trial.clone()
                        };
                        watch.at(&trial);
                        trial.run();
                    }
                }
            }
        }
    });
}

#[test]
fn small_pipes_and_odd_pieces_lose_nothing() {
    bounded(|watch| {
        for trial in waiting_trials() {
            for (chunk_bytes, pipe_bytes) in
                [(None, 4096), (Some(0), 4096), (Some(1), 4096), (Some(5000), 65536)]
            {
                let bytes =
                    if chunk_bytes < Some(2) && chunk_bytes.is_some() { 3001 } else { trial.bytes };
                let trial = Trial {
                    bytes,
                    limit: Some(bytes as u64),
                    knobs: Knobs { chunk_bytes, pipe_bytes: Some(pipe_bytes), ..Knobs::default() },
                    pace: Pace::Odd,
                    ..trial.clone()
                };
                watch.at(&trial);
                trial.run();
            }
        }
    });
}

/// Past what 32 bits can count, and not on a page.
const BEYOND_4_GIB: u64 = (1 << 32) + 4099;

/// A file of nothing but a hole, where that costs no memory.
fn sparse(bytes: u64) -> File {
    let file = memfd();
    file.set_len(bytes).expect("a hole");
    file
}

#[test]
fn counts_beyond_4_gib_are_right() {
    bounded(|watch| {
        let null = Endpoint::open_sink("/dev/null").expect("a sink");
        for route in ROUTES {
            let mut file = sparse(BEYOND_4_GIB + 10);
            file.seek(SeekFrom::Start(5)).expect("positioned");
            let source = Endpoint::source(file.as_fd()).expect("a source");
            let job = Job::new(&source, &null).limit(BEYOND_4_GIB);
            watch.at(format_args!("4 GiB by {}", route.name()));
            let Ok(plan) = Plan::only(route.name(), &job, Knobs::default()) else { continue };
            let meter = Meter::new();
            let moved = Transfer::new(&job, &plan).meter(&meter).run().expect("moved");
            assert_eq!((moved.bytes, meter.bytes()), (BEYOND_4_GIB, BEYOND_4_GIB));
            assert_eq!(file.stream_position().expect("a position"), BEYOND_4_GIB + 5);
        }
    });
}

#[test]
fn positions_beyond_4_gib_are_right() {
    bounded(|watch| {
        let all = contents(2 << 20);
        for route in ROUTES {
            for make in [tmpfs_file, disk_file] {
                let (mut from, mut to) = (make(), make());
                for file in [&mut from, &mut to] {
                    file.seek(SeekFrom::Start((1 << 32) - (1 << 20) - 3)).expect("positioned");
                }
                let start = from.stream_position().expect("a position");
                from.write_all(all).expect("written");
                from.seek(SeekFrom::Start(start)).expect("positioned");
                let source = Endpoint::source(from.as_fd()).expect("a source");
                let sink = Endpoint::sink(to.as_fd()).expect("a sink");
                let job = Job::new(&source, &sink);
                watch.at(format_args!("across 4 GiB by {}", route.name()));
                let Ok(plan) = Plan::only(route.name(), &job, Knobs::default()) else { continue };
                match Transfer::new(&job, &plan).run() {
                    Err(TransferError::Declined { offset: 0, .. })
                        if MAY_DECLINE.contains(&route.name()) =>
                    {
                        continue;
                    }
                    moved => assert_eq!(moved.expect("moved").bytes, all.len() as u64),
                }
                to.seek(SeekFrom::Start(start)).expect("positioned");
                let mut arrived = Vec::new();
                to.read_to_end(&mut arrived).expect("read");
                same(&arrived, all);
            }
        }
    });
}

/// Files of /proc claim no size, those of /sys a page.
#[test]
fn files_that_claim_a_wrong_size_arrive_whole_or_are_declined() {
    bounded(|watch| {
        for path in
            ["/proc/version", "/proc/kallsyms", "/sys/kernel/notes", "/sys/class/net/lo/mtu"]
        {
            let Ok(expected) = std::fs::read(path) else {
                eprintln!("skipped: {path} cannot be read here");
                continue;
            };
            for sink_kind in SINKS {
                for only in ROUTES.iter().map(|route| Some(route.name())).chain([None]) {
                    watch.at(format_args!("{path} to {} by {only:?}", sink_kind.name));
                    let sink = sink_kind.open(Pace::Whole);
                    let moved = move_file(path, sink.as_fd(), only);
                    assert!(only.is_some() || moved.is_some(), "the best plan gets through");
                    if let (Some(arrived), Some(_)) = (sink.finish(), moved) {
                        same(&arrived, &expected);
                    }
                }
            }
        }
    });
}

/// Bytes moved; `None` where the route refuses or declines before the first byte.
fn move_file(
    path: &str,
    sink: std::os::fd::BorrowedFd<'_>,
    only: Option<&'static str>,
) -> Option<u64> {
    let source = Endpoint::open_source(path).expect("a source");
    let sink = Endpoint::sink(sink).expect("a sink");
    let job = Job::new(&source, &sink).allow_aliasing();
    let plan = match only {
        Some(name) => Plan::only(name, &job, Knobs::default()).ok()?,
        None => Plan::best(&job, Knobs::default()).expect("a plan"),
    };
    match Transfer::new(&job, &plan).run() {
        Ok(moved) => Some(moved.bytes),
        Err(TransferError::Declined { offset: 0, .. }) if only.is_some() => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn keeping_the_source_duplicates_what_both_pipes_hold() {
    bounded(|watch| {
        for (bytes, limit) in [(1, None), (4097, None), (60_000, Some(50_001)), (9, Some(0))] {
            watch.at(format_args!("{bytes} bytes, limit {limit:?}"));
            let ((from, mut near), (far, to)) = (pipe(), pipe());
            near.write_all(contents(bytes)).expect("the source is filled");
            let source = Endpoint::source(from.as_fd()).expect("a source");
            let sink = Endpoint::sink(to.as_fd()).expect("a sink");
            let mut job = Job::new(&source, &sink).keep_source();
            job.limit = limit;
            let plan = Plan::best(&job, Knobs::default()).expect("a plan");
            let moved = Transfer::new(&job, &plan).run().expect("duplicated");
            let expected = limit.map_or(bytes, |limit| limit as usize);
            assert_eq!((moved.bytes, moved.route), (expected as u64, "tee"));
            drop((to, near));
            same(&Pace::Whole.collect(far), contents(expected));
            same(&Pace::Whole.collect(from), contents(bytes));
        }
    });
}

/// The file once more, so that it has a position for each of both.
fn again(file: &File) -> File {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    File::options().read(true).write(true).open(path).expect("it is there")
}

#[test]
fn parts_of_one_file_move_down_by_every_route_that_takes_them_and_up_by_none() {
    bounded(|watch| {
        let files: [fn() -> File; 2] = [disk_file, tmpfs_file];
        let routes = || ROUTES.iter().map(|route| Some(route.name())).chain([None]);
        for ((file, bytes), down) in files
            .into_iter()
            .flat_map(|file| [1009, 70_001, (3 << 20) + 12_345].map(|bytes| (file, bytes)))
            .flat_map(|of| [1, 5, 100, 4095, 4096, 4097, 65_536, 1_100_000].map(|down| (of, down)))
            .filter(|((_, bytes), down)| down < bytes)
        {
            for (only, limit) in routes().flat_map(|only| [(only, None), (only, Some(bytes / 2))]) {
                watch.at(format_args!("{bytes} bytes, {down} down, limit {limit:?}, by {only:?}"));
                let mut file = file();
                file.write_all(contents(bytes)).expect("the file is filled");
                let (mut from, mut to) = (again(&file), again(&file));
                let most = limit.map(|limit| limit as u64);
                from.seek(SeekFrom::Start(down as u64)).expect("it is a file");
                let meets = limit.is_none_or(|limit| down < limit.min(bytes));
                assert!(!meets || moved_within(&to, &from, most, only).is_none(), "it goes up");
                let Some(moved) = moved_within(&from, &to, most, only) else {
                    assert!(only.is_some(), "the best plan gets through");
                    continue;
                };
                let count = limit.unwrap_or(usize::MAX).min(bytes - down);
                assert_eq!(moved, count as u64);
                let mut expected = contents(bytes).to_vec();
                expected.copy_within(down..down + count, 0);
                let mut found = Vec::new();
                file.seek(SeekFrom::Start(0)).expect("it is a file");
                file.read_to_end(&mut found).expect("it is read");
                same(&found, &expected);
                assert_eq!(to.stream_position().ok(), Some(moved));
            }
        }
    });
}

/// Bytes moved within one file; `None` where the plan or the route refuses before the first byte.
fn moved_within(from: &File, to: &File, limit: Option<u64>, only: Option<&str>) -> Option<u64> {
    let source = Endpoint::source(from.as_fd()).expect("a source");
    let sink = Endpoint::sink(to.as_fd()).expect("a sink");
    let mut job = Job::new(&source, &sink);
    job.limit = limit;
    let plan = match only {
        Some(name) => Plan::only(name, &job, Knobs::default()),
        None => Plan::best(&job, Knobs::default()),
    };
    match Transfer::new(&job, &plan.ok()?).run() {
        Ok(moved) => Some(moved.bytes),
        Err(TransferError::Declined { offset: 0, .. }) if only.is_some() => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn a_stretch_goes_to_its_end_however_far_a_read_may_go_beyond() {
    let all = contents(2 << 20);
    for beyond in [0, 1, u64::MAX - 1_000_003, u64::MAX - 1_000_002, u64::MAX] {
        let (mut from, mut to) = (memfd(), memfd());
        from.write_all(all).and_then(|()| from.rewind()).expect("written");
        let source = Endpoint::source(from.as_fd()).expect("a source");
        let sink = Endpoint::sink(to.as_fd()).expect("a sink");
        let job = Job::new(&source, &sink).stretch(1_000_003, beyond);
        let plan = Plan::only("read-write", &job, Knobs::default()).expect("a plan");
        let moved = Transfer::new(&job, &plan).run().expect("moved").bytes;
        assert!(
            moved >= 1_000_003 && moved - 1_000_003 <= beyond,
            "{moved} of 1000003, {beyond} beyond"
        );
        let mut arrived = Vec::new();
        to.rewind().and_then(|()| to.read_to_end(&mut arrived)).expect("read");
        same(&arrived, &all[..usize::try_from(moved).expect("a size")]);
    }
}

/// UDP takes no more than 64 KiB at once, and a file and a pipe give as much.
#[test]
fn a_socket_that_makes_messages_of_its_bytes_gets_them_in_small_ones_and_datagrams_whole() {
    use std::net::UdpSocket;
    let socket = || UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let connected = |to: &UdpSocket| {
        let from = socket();
        from.connect(to.local_addr().expect("bound")).expect("connected");
        from
    };
    // What is not taken at once is lost where there is no more room.
    let all = contents(80_000);
    let mut file = memfd();
    file.write_all(all).expect("written");
    let moved = |from: &dyn AsFd, to: &UdpSocket, limit: u64, only: Option<&str>| {
        let source = Endpoint::source(from.as_fd()).expect("a source");
        let sink = Endpoint::sink(to.as_fd()).expect("a sink");
        let job = Job::new(&source, &sink).limit(limit).allow_aliasing();
        let plan = match only {
            Some(name) => Plan::only(name, &job, Knobs::default()),
            None => Plan::best(&job, Knobs::default()),
        };
        let plan = plan.expect("a plan");
        Transfer::new(&job, &plan).run().expect("moved").bytes
    };
    let ways = [false, true].into_iter().flat_map(|it| [(it, Some("read-write")), (it, None)]);
    for (is_piped, only) in ways.chain([(false, Some("sendfile")), (true, Some("splice"))]) {
        let (piped, mut writer) = pipe();
        rustix::pipe::fcntl_setpipe_size(&writer, 128 << 10).expect("anybody may have as much");
        writer.write_all(all).expect("there is room");
        drop(writer);
        file.rewind().expect("anew");
        let (receiver, from) = (socket(), if is_piped { &piped as &dyn AsFd } else { &file });
        assert_eq!(moved(from, &connected(&receiver), 80_000, only), 80_000);
        let mut arrived = Vec::new();
        while arrived.len() < all.len() {
            let mut message = [0; 65_536];
            let count = receiver.recv(&mut message).expect("it comes");
            assert!(count <= 8 << 10, "{count}");
            arrived.extend_from_slice(&message[..count]);
        }
        same(&arrived, all);
    }
    // A device may give records, and this gives as much as is asked for.
    let (device, receiver) = (File::open("/dev/urandom").expect("a device"), socket());
    assert_eq!(moved(&device, &connected(&receiver), 80_000, Some("read-write")), 80_000);
    let mut arrived = 0;
    while arrived < 80_000 {
        let count = receiver.recv(&mut [0; 65_536]).expect("it comes");
        assert!(count <= 8 << 10, "{count}");
        arrived += count;
    }
    let (relay, receiver) = (socket(), socket());
    let message = &all[..30_000];
    connected(&relay).send(message).expect("sent");
    assert_eq!(moved(&relay, &connected(&receiver), 30_000, None), 30_000);
    let mut arrived = [0; 65_536];
    let count = receiver.recv(&mut arrived).expect("it comes");
    same(&arrived[..count], message);
}

#[test]
fn a_stream_makes_no_messages_whatever_its_family() {
    use rustix::net::{AddressFamily, SocketType, socket};
    let file = File::open("/dev/zero").expect("a device");
    let source = Endpoint::source(file.as_fd()).expect("a source");
    let bytes_of = |family, kind| {
        let socket = socket(family, kind, None).ok()?;
        let sink = Endpoint::sink(socket.as_fd()).expect("a sink");
        assert_eq!(sink.kind(), bytepath::Kind::OtherSocket);
        Some(bytepath::routes::message_bytes(&source, &sink, 1 << 20))
    };
    assert_eq!(bytes_of(AddressFamily::INET, SocketType::DGRAM), Some(Some(8 << 10)));
    match bytes_of(AddressFamily::from_raw(40), SocketType::STREAM) {
        Some(bytes) => assert_eq!(bytes, None),
        None => println!("skipped: this kernel has no AF_VSOCK"),
    }
}

#[test]
fn packets_of_a_pipe_stay_packets_where_each_write_makes_a_message() {
    use std::net::UdpSocket;
    let flags = rustix::pipe::PipeFlags::DIRECT | rustix::pipe::PipeFlags::CLOEXEC;
    let (reader, writer) = rustix::pipe::pipe_with(flags).expect("a pipe");
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let sender = UdpSocket::bind("127.0.0.1:0").expect("a socket");
    sender.connect(receiver.local_addr().expect("bound")).expect("connected");
    let packets = [contents(100), contents(4096), contents(5)];
    for packet in packets {
        assert_eq!(rustix::io::write(&writer, packet), Ok(packet.len()));
    }
    drop(writer);
    let source = Endpoint::source(reader.as_fd()).expect("a source");
    let sink = Endpoint::sink(sender.as_fd()).expect("a sink");
    let job = Job::new(&source, &sink).allow_aliasing();
    let plan = Plan::best(&job, Knobs::default()).expect("a plan");
    assert_eq!(Transfer::new(&job, &plan).run().expect("moved").bytes, 4201);
    for packet in packets {
        let mut arrived = [0; 65_536];
        let count = receiver.recv(&mut arrived).expect("it comes");
        same(&arrived[..count], packet);
    }
}

#[test]
fn a_small_file_that_takes_whole_blocks_only_is_read_to_its_end() {
    for bytes in [1, 4095, 4096, 5000, 100_001] {
        let mut file = disk_file();
        file.write_all(contents(bytes)).expect("written");
        let again = format!("/proc/self/fd/{}", file.as_raw_fd());
        let Ok(from) = rustix::fs::open(again, OFlags::DIRECT, Mode::empty()) else {
            return println!("skipped: the build's folder is on a file system without O_DIRECT");
        };
        let mut to = memfd();
        let source = Endpoint::source(from.as_fd()).expect("a source");
        let sink = Endpoint::sink(to.as_fd()).expect("a sink");
        let job = Job::new(&source, &sink);
        let plan = Plan::only("read-write", &job, Knobs::default()).expect("a plan");
        Transfer::new(&job, &plan).run().expect("moved");
        let mut arrived = Vec::new();
        to.rewind().and_then(|()| to.read_to_end(&mut arrived)).expect("read");
        same(&arrived, contents(bytes));
    }
}
