//! Files that change, have holes, are longer than what arrives, or do not lie on blocks.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use bytepath::{Endpoint, Job, Knobs, Plan, Transfer, TransferError};

use rustix::fs::{Mode, OFlags};

use crate::ends::{contents, detached_image, disk_file, memfd, tmpfs_file};
use crate::faults::{carry, routes, written_after};
use crate::trial::same;
use crate::watch::bounded;

/// The routes that go past the page cache.
const DIRECT: &[&str] = &["uring-direct", "linux-aio"];

fn file_at(make: fn() -> File, bytes: &[u8], at: u64) -> File {
    let mut file = make();
    file.write_all(bytes).expect("written");
    file.seek(SeekFrom::Start(at)).expect("positioned");
    file
}

#[test]
fn direct_routes_move_any_size_from_and_to_any_place_in_a_block() {
    bounded(|watch| {
        let sizes = [1, 511, 512, 4095, 4096, 4097, (1 << 20) + 4097, (3 << 20) + 12_345];
        for route in DIRECT {
            for bytes in sizes {
                for (from, to) in [(0, 0), (4096, 8192), (100, 4196), (7, 7), (0, 13)] {
                    for limit in [u64::MAX, bytes as u64 - 1] {
                        watch.at(format_args!(
                            "{bytes} bytes at {from} to {to}, {limit} by {route}"
                        ));
                        let source = file_at(disk_file, contents(from + bytes), from as u64);
                        let mut sink = file_at(disk_file, contents(to), to as u64);
                        let moved = limited(&source, &sink, route, limit);
                        let wanted = bytes.min(usize::try_from(limit).unwrap_or(bytes));
                        let all = &contents(from + bytes)[from..];
                        match moved {
                            Ok(moved) => {
                                assert_eq!(moved, wanted as u64);
                                same(&written_after(&mut sink, to as u64), &all[..wanted]);
                            }
                            Err(why) if from % 512 != to % 512 => {
                                assert!(why.contains("in a block"), "{why}");
                                assert!(written_after(&mut sink, to as u64).is_empty());
                            }
                            Err(why) => {
                                assert!(why.contains("O_DIRECT") || why.contains("ring"), "{why}");
                                eprintln!("skipped: {route}: {why}");
                            }
                        }
                    }
                }
            }
        }
    });
}

fn limited(source: &File, sink: &File, route: &str, limit: u64) -> Result<u64, String> {
    let source = Endpoint::source(source.as_fd()).expect("a source");
    let sink = Endpoint::sink(sink.as_fd()).expect("a sink");
    let job = Job::new(&source, &sink).limit(limit);
    let plan = Plan::only(route, &job, Knobs::default()).expect("a plan");
    match Transfer::new(&job, &plan).run() {
        Ok(moved) => Ok(moved.bytes),
        Err(error @ TransferError::Declined { offset: 0, .. }) => Err(error.to_string()),
        Err(error) => panic!("{error}"),
    }
}

/// Out of order, a chunk may come to lie behind what arrives: never over what was there.
#[test]
fn a_sink_that_is_longer_keeps_what_lies_behind() {
    bounded(|watch| {
        let (before, bytes, behind) = (5, 2_300_007, 100_000);
        let kept = vec![7_u8; before + bytes + behind];
        for only in routes() {
            for make in [disk_file as fn() -> File, memfd] {
                watch.at(format_args!("by {only:?}"));
                let source = file_at(make, contents(bytes), 0);
                let mut sink = file_at(make, &kept, before as u64);
                let Some(outcome) = carry(&source, &sink, only, Knobs::default(), None) else {
                    continue;
                };
                let moved = outcome.offset();
                assert!(
                    moved == bytes || matches!(outcome.ended, Err(TransferError::Declined { .. }))
                );
                let mut position = &sink;
                let at = position.stream_position().expect("a position");
                assert_eq!(at, (before + moved) as u64);
                let all = written_after(&mut sink, 0);
                same(&all[before..before + moved], &contents(bytes)[..moved]);
                assert!(all[..before].iter().chain(&all[before + moved..]).all(|&byte| byte == 7));
                assert_eq!(all.len(), kept.len());
            }
        }
    });
}

/// The size that a file had when it was opened is no promise.
#[test]
fn a_file_that_has_grown_or_shrunk_since_it_was_opened_arrives_as_it_is() {
    bounded(|watch| {
        let opened_with = 1_000_003;
        for only in routes() {
            for bytes in [0, 1, 4096, 900_001, 2_000_005] {
                watch.at(format_args!("{bytes} bytes by {only:?}"));
                let (from, mut to) = (file_at(disk_file, contents(opened_with), 0), disk_file());
                let source = Endpoint::source(from.as_fd()).expect("a source");
                let sink = Endpoint::sink(to.as_fd()).expect("a sink");
                let job = Job::new(&source, &sink);
                (&from).write_all(contents(bytes)).expect("written");
                (&from).rewind().expect("rewound");
                from.set_len(bytes as u64).expect("it is ours");
                let plan = match only {
                    Some(name) => Plan::only(name, &job, Knobs::default()).ok(),
                    None => Plan::best(&job, Knobs::default()).ok(),
                };
                let Some(plan) = plan else { continue };
                let moved = match Transfer::new(&job, &plan).run() {
                    Ok(moved) => moved.bytes as usize,
                    Err(TransferError::Declined { offset: 0, .. }) if only.is_some() => continue,
                    Err(error) => panic!("{error}"),
                };
                assert_eq!(moved, bytes);
                same(&written_after(&mut to, 0), contents(bytes));
            }
        }
    });
}

/// A file of 64 MiB with some bytes at its start, in its middle and, if wanted, at its end.
fn holed(make: fn() -> File, end: bool) -> (File, Vec<u8>) {
    let mut all = vec![0; 64 << 20];
    let mut file = make();
    file.set_len(all.len() as u64).expect("a hole");
    let last = if end { all.len() - 10 } else { 1 << 20 };
    for at in [0, 30 << 20, last] {
        file.seek(SeekFrom::Start(at as u64)).expect("positioned");
        file.write_all(&contents(10)[..10]).expect("written");
        all[at..at + 10].copy_from_slice(contents(10));
    }
    file.rewind().expect("rewound");
    (file, all)
}

#[test]
fn holes_stay_holes_in_a_new_file_and_are_zeros_in_an_old_one() {
    bounded(|watch| {
        for make in [tmpfs_file as fn() -> File, disk_file] {
            for end in [false, true] {
                for before in [0, 13, 65 << 20] {
                    watch.at(format_args!("end {end}, before {before}"));
                    let (source, all) = holed(make, end);
                    // The sink has bytes where the file will come to lie, or before that only.
                    let old = before > all.len();
                    let mut sink =
                        file_at(make, &vec![9; before], if old { 0 } else { before as u64 });
                    let start = if old { 0 } else { before };
                    let only = Some("copy-file-range");
                    let outcome =
                        carry(&source, &sink, only, Knobs::default(), None).expect("a plan");
                    if let Err(TransferError::Declined { offset: 0, .. }) = outcome.ended {
                        eprintln!("skipped: {:?}", outcome.ended);
                        continue;
                    }
                    assert_eq!(outcome.offset(), all.len());
                    let stored = sink.metadata().expect("its metadata").blocks() * 512;
                    if !old {
                        assert!(stored < 8 << 20, "{stored} bytes are stored");
                    }
                    let mut arrived = written_after(&mut sink, start as u64);
                    if old {
                        assert!(arrived.split_off(all.len()).iter().all(|&byte| byte == 9));
                    }
                    same(&arrived, &all);
                    let mut rest = Vec::new();
                    (&source).read_to_end(&mut rest).expect("read");
                    assert!(rest.is_empty());
                }
            }
        }
    });
}

#[test]
fn a_limit_that_ends_in_a_hole_is_kept() {
    bounded(|watch| {
        for limit in [5, 10_000, 1 << 20, (30 << 20) + 5, (30 << 20) + 5_000_000] {
            watch.at(limit);
            let ((source, all), mut sink) = (holed(disk_file, true), disk_file());
            let moved = limited(&source, &sink, "copy-file-range", limit);
            let Ok(moved) = moved else { return eprintln!("skipped: {moved:?}") };
            assert_eq!(moved, limit);
            same(&written_after(&mut sink, 0), &all[..limit as usize]);
            let mut position = &source;
            assert_eq!(position.stream_position().expect("a position"), limit);
        }
    });
}

/// Bytes of the file system that nobody uses, once everything is stored.
fn free_bytes(file: &File) -> u64 {
    rustix::fs::syncfs(file).expect("stored");
    let told = rustix::fs::fstatfs(file).expect("it tells");
    told.f_bfree * told.f_bsize as u64
}

#[test]
fn extents_are_shared_where_the_file_system_can() {
    bounded(|watch| {
        let all = contents((6 << 20) + 5);
        for kind in ["xfs", "btrfs"] {
            watch.at(kind);
            let Some(root) = detached_image(kind) else { continue };
            let file = |name: &str| {
                let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
                let file = rustix::fs::openat(&root, name, flags, Mode::RUSR | Mode::WUSR);
                File::from(file.expect("a file on it"))
            };
            let mut source = file("source");
            source.write_all(all).expect("written");
            for (limit, chunk_bytes) in [(u64::MAX, None), (u64::MAX, Some(70_000)), (5000, None)] {
                watch.at(format_args!("{kind}, limit {limit}, {chunk_bytes:?} a call"));
                source.rewind().expect("rewound");
                let (mut sink, before) = (file("sink"), free_bytes(&source));
                sink.set_len(0).expect("it is ours");
                let knobs = Knobs { chunk_bytes, ..Knobs::default() };
                let moved = {
                    let source = Endpoint::source(source.as_fd()).expect("a source");
                    let sink = Endpoint::sink(sink.as_fd()).expect("a sink");
                    let job = Job::new(&source, &sink).limit(limit);
                    let plan = Plan::only("reflink", &job, knobs).expect("a plan");
                    Transfer::new(&job, &plan).run().expect("shared").bytes as usize
                };
                assert_eq!(moved, all.len().min(usize::try_from(limit).unwrap_or(usize::MAX)));
                same(&written_after(&mut sink, 0), &all[..moved]);
                let used = before.saturating_sub(free_bytes(&source));
                assert!(used < 2 << 20, "{used} bytes more are stored");
            }
        }
    });
}
