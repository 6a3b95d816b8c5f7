//! Threads that copy slices of one file: into sinks that are not to be mapped as they are, and between
//! files that become shorter meanwhile.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytepath::{Knobs, Meter, TransferError};

use crate::ends::{contents, disk_file, memfd, tmpfs_file};
use crate::faults::{carry, carry_on, written_after};
use crate::trial::same;
use crate::watch::bounded;

const ONLY: Option<&str> = Some("parallel");

type Make = fn() -> File;
const MAKES: [(&str, Make); 3] = [("disk", disk_file), ("tmpfs", tmpfs_file), ("memfd", memfd)];

fn filled(make: Make, bytes: &[u8]) -> File {
    let mut file = make();
    file.write_all(bytes).expect("written");
    file.rewind().expect("rewound");
    file
}

fn threads(threads: usize) -> Knobs {
    Knobs { threads: Some(threads), ..Knobs::default() }
}

/// As a shell opens what stands behind `>`.
fn for_writing_alone(file: &File) -> File {
    let name = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
    File::options().write(true).open(name).expect("it is ours")
}

#[test]
fn any_number_of_threads_copies_any_size_to_a_sink_for_writing_alone() {
    bounded(|watch| {
        for (name, make) in MAKES {
            for bytes in [1, 4095, 4096, 4097, 300_007, (3 << 20) + 12_345] {
                for count in [1, 2, 5] {
                    watch.at(format_args!("{bytes} bytes to {name} by {count} threads"));
                    let source = filled(memfd, contents(bytes));
                    let mut sink = make();
                    let written = for_writing_alone(&sink);
                    let outcome = carry(&source, &written, ONLY, threads(count), None);
                    let outcome = outcome.expect("it suits");
                    assert_eq!(outcome.offset(), bytes, "{:?}", outcome.ended);
                    same(&written_after(&mut sink, 0), contents(bytes));
                }
            }
        }
    });
}

/// Of so much in memory, it is worth a trial whether large pages are at hand.
#[test]
fn a_large_file_in_memory_is_copied_whatever_its_pages_are() {
    const BYTES: u64 = (258 << 20) + 12_345;
    bounded(|watch| {
        watch.at("258 MiB in memory");
        let piece = contents(1 << 20);
        let mut source = memfd();
        (0..258).for_each(|_| source.write_all(piece).expect("written"));
        source.write_all(&piece[..12_345]).expect("written");
        source.rewind().expect("rewound");
        for count in [1, 3] {
            source.rewind().expect("rewound");
            let sink = tmpfs_file();
            let outcome = carry(&source, &sink, ONLY, threads(count), None).expect("it suits");
            assert_eq!(outcome.offset() as u64, BYTES, "{:?}", outcome.ended);
            assert_eq!(sink.metadata().expect("its size").len(), BYTES);
            let mut there = vec![0; piece.len()];
            for at in (0..BYTES).step_by(piece.len()) {
                let bytes = piece.len().min((BYTES - at) as usize);
                sink.read_exact_at(&mut there[..bytes], at).expect("read");
                assert!(there[..bytes] == piece[..bytes], "at {at} by {count}");
            }
        }
    });
}

/// Another thread's descriptors have other meanings then, those of the process's first among them.
#[test]
fn a_thread_with_descriptors_of_its_own_writes_to_its_own_sink() {
    bounded(|watch| {
        watch.at("a thread with a table of its own");
        let bytes = contents((3 << 20) + 12_345);
        // What stands at the next numbers in the table of all others.
        let others: Vec<File> = (0..8).map(|_| filled(memfd, &[7; 4096])).collect();
        std::thread::spawn(move || {
            #[allow(deprecated, reason = "nothing that is borrowed was opened before")]
            rustix::thread::unshare(rustix::thread::UnshareFlags::FILES).expect("its own");
            drop(others);
            let (source, mut sink) = (filled(memfd, bytes), memfd());
            let written = for_writing_alone(&sink);
            let outcome = carry(&source, &written, ONLY, threads(2), None).expect("it suits");
            assert_eq!(outcome.offset(), bytes.len(), "{:?}", outcome.ended);
            same(&written_after(&mut sink, 0), bytes);
        })
        .join()
        .expect("it ends well");
    });
}

#[test]
fn a_source_in_memory_keeps_its_holes() {
    bounded(|watch| {
        watch.at("a source with holes");
        let source = memfd();
        source.set_len(8 << 20).expect("longer");
        source.write_all_at(contents(1 << 20), 5 << 20).expect("written");
        let blocks = || source.metadata().expect("it is there").blocks();
        let before = blocks();
        let mut sink = memfd();
        let outcome = carry(&source, &sink, ONLY, threads(2), None).expect("it suits");
        assert_eq!(outcome.offset(), 8 << 20, "{:?}", outcome.ended);
        assert_eq!(blocks(), before, "nothing was added to the source");
        let copied = written_after(&mut sink, 0);
        assert!(copied[5 << 20..6 << 20] == *contents(1 << 20));
        assert!(copied[..5 << 20].iter().chain(&copied[6 << 20..]).all(|&byte| byte == 0));
    });
}

/// Acts once so many bytes have arrived, or the movement has ended.
fn meanwhile(bytes: u64, meter: &Meter, act: impl FnOnce() + Send, moves: impl FnOnce()) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while meter.bytes() < bytes && !ended.load(Relaxed) {
                std::thread::yield_now();
            }
            act();
        });
        moves();
        ended.store(true, Relaxed);
    });
}

const WHOLE: usize = 40 << 20;

#[test]
fn a_source_that_is_cut_meanwhile_gives_what_it_had() {
    bounded(|watch| {
        let all = vec![7_u8; WHOLE];
        for (name, make) in MAKES {
            for cut in [0, 4097, WHOLE / 3, WHOLE - 5] {
                watch.at(format_args!("{cut} bytes left, to {name}"));
                let source = filled(memfd, &all);
                let mut sink = make();
                let meter = Meter::new();
                let mut moved = 0;
                meanwhile(
                    1 << 20,
                    &meter,
                    || source.set_len(cut as u64).expect("ours"),
                    || {
                        let ended = carry_on(&meter, &source, &sink, ONLY, threads(2), None);
                        moved = ended.expect("it suits").expect("it ends").bytes as usize;
                    },
                );
                assert!((cut..=WHOLE).contains(&moved), "{moved}");
                let copied = written_after(&mut sink, 0);
                assert_eq!(copied.len(), moved);
                let kept = cut.min(moved);
                assert!(copied[..kept].iter().all(|&byte| byte == 7), "what was there to the end");
                // What was cut away arrived before, or as the zeros that the kernel puts there.
                assert!(copied[kept..].iter().all(|&byte| byte == 7 || byte == 0));
            }
        }
    });
}

/// Nobody else may do this to a copy under way, but if they do, nobody dies of it.
#[test]
fn a_sink_that_is_cut_meanwhile_is_no_bus_error() {
    bounded(|watch| {
        let all = vec![7_u8; WHOLE];
        for (name, make) in MAKES {
            watch.at(name);
            let source = filled(memfd, &all);
            let sink = make();
            let meter = Meter::new();
            meanwhile(
                1 << 20,
                &meter,
                || sink.set_len(4096).expect("ours"),
                || {
                    let ended = carry_on(&meter, &source, &sink, ONLY, threads(2), None);
                    match ended.expect("it suits") {
                        Ok(moved) => assert_eq!(moved.bytes, WHOLE as u64),
                        Err(TransferError::Declined { .. }) => {}
                        Err(other) => panic!("{other}"),
                    }
                },
            );
        }
    });
}
