//! Every engine on a real file: the bytes that belong there, slots that are free again, requests
//! that fail, and engines that end with requests in flight.

use std::fs::File;
use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use bytepath::engines::{Cache, Direction, Done, ENGINES, Engine, Io, Kind, Opening, Span};
use bytepath::page_cache;

const IO_BYTES: usize = 1024;
const BLOCKS: u64 = 64;
const DEPTH: usize = 4;

/// A file whose every block holds its number.
fn numbered() -> File {
    let mut file = tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    for block in 0..BLOCKS {
        file.write_all(&[block as u8; IO_BYTES]).expect("written");
    }
    file
}

fn span(file: &File) -> Span<'_> {
    Span { file: file.as_fd(), bytes: BLOCKS * IO_BYTES as u64 }
}

/// The engine on these files, through the page cache; none where it cannot be.
fn opened<'fd>(
    kind: &dyn Kind,
    files: &[Span<'fd>],
    writes: bool,
) -> Option<Box<dyn Engine + 'fd>> {
    let idle = Duration::from_millis(1);
    let opening = Opening { files, io_bytes: IO_BYTES, depth: DEPTH, writes, idle };
    let engine = kind.suits(Cache::Buffered, writes).and_then(|()| kind.open(&opening));
    engine.map_err(|refusal| println!("skipped: {}: {refusal}", kind.name())).ok()
}

/// All that are in flight.
fn waited(engine: &mut dyn Engine, count: usize) -> Vec<Done> {
    let mut done = Vec::new();
    while done.len() < count {
        let mut more = Vec::new();
        engine.wait(&mut more).expect("the kernel lets us wait");
        assert!(!more.is_empty(), "{} of {count} came", done.len());
        done.append(&mut more);
    }
    done
}

fn read(block: u64) -> Io {
    Io { file: 0, at: block * IO_BYTES as u64, direction: Direction::Read }
}

#[test]
fn every_engine_reads_each_block_into_its_slot() {
    let file = numbered();
    for kind in ENGINES {
        let Some(mut engine) = opened(*kind, &[span(&file)], false) else { continue };
        for first in (0..BLOCKS).step_by(DEPTH) {
            for slot in 0..DEPTH {
                engine.push(slot, read(first + slot as u64));
            }
            engine.submit().expect("the kernel takes them");
            let mut slots: Vec<_> = waited(&mut *engine, DEPTH)
                .iter()
                .map(|done| {
                    assert_eq!(done.answer, Ok(IO_BYTES as u32), "{}", kind.name());
                    done.slot
                })
                .collect();
            slots.sort_unstable();
            assert_eq!(slots, [0, 1, 2, 3], "{}", kind.name());
            for slot in 0..DEPTH {
                let expected = [(first + slot as u64) as u8; IO_BYTES];
                assert_eq!(engine.bytes(slot), expected, "{}", kind.name());
            }
        }
    }
}

#[test]
fn every_engine_that_writes_leaves_what_its_slots_held() {
    for kind in ENGINES {
        let file = numbered();
        let Some(mut engine) = opened(*kind, &[span(&file)], true) else { continue };
        for slot in 0..DEPTH {
            engine.bytes_mut(slot).fill(100 + slot as u8);
            engine.push(slot, Io { direction: Direction::Write, ..read(slot as u64 * 7) });
        }
        engine.submit().expect("the kernel takes them");
        waited(&mut *engine, DEPTH);
        drop(engine);
        let mut block = [0; IO_BYTES];
        for slot in 0..DEPTH as u64 {
            file.read_exact_at(&mut block, slot * 7 * IO_BYTES as u64).expect("read");
            assert_eq!(block, [100 + slot as u8; IO_BYTES], "{}", kind.name());
            file.read_exact_at(&mut block, (slot * 7 + 1) * IO_BYTES as u64).expect("read");
            assert_eq!(block, [slot as u8 * 7 + 1; IO_BYTES], "{}", kind.name());
        }
    }
}

#[test]
fn a_request_past_the_end_is_short_and_one_that_fails_says_why() {
    let file = numbered();
    let folder = File::open(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    // A mapping has no requests that could fail.
    for kind in ENGINES.iter().filter(|kind| kind.name() != "mmap") {
        let files = [span(&file), span(&folder)];
        let Some(mut engine) = opened(*kind, &files, false) else { continue };
        engine.push(0, read(BLOCKS));
        engine.push(1, Io { file: 1, ..read(0) });
        engine.submit().expect("the kernel takes them");
        for done in waited(&mut *engine, 2) {
            match done.slot {
                0 => assert_eq!(done.answer, Ok(0), "{}", kind.name()),
                _ => {
                    let errno = done.answer.expect_err("a folder holds no bytes");
                    let refusal = engine.refusal(errno);
                    assert_eq!(refusal.errno, Some(errno), "{}: {refusal}", kind.name());
                }
            }
        }
    }
}

#[test]
fn an_engine_that_is_dropped_with_requests_in_flight_keeps_nothing() {
    const DROPPED: &str =
        "engines::an_engine_that_is_dropped_with_requests_in_flight_keeps_nothing";
    const TIMES: usize = 100;
    if !crate::is_alone(DROPPED) {
        return;
    }
    let file = numbered();
    // Descriptors, and contexts of linux-aio.
    let open = || {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("it is there");
        let contexts = maps.lines().filter(|line| line.contains("[aio]")).count();
        std::fs::read_dir("/proc/self/fd").expect("it lists").count() + contexts
    };
    // Memory by the page tables: counters, as of statm, lag behind.
    let memory_kib = || -> Option<usize> {
        let told = std::fs::read_to_string("/proc/self/smaps_rollup").ok()?;
        let line = told.lines().find_map(|line| line.strip_prefix("Anonymous:"))?;
        line.trim().strip_suffix(" kB")?.parse().ok()
    };
    if memory_kib().is_none() {
        return println!("skipped: this kernel does not tell what a process has in memory");
    }
    for kind in ENGINES {
        let dropped_after = |answers| {
            let mut engine = opened(*kind, &[span(&file)], false)?;
            for slot in 0..DEPTH {
                engine.push(slot, read(slot as u64));
            }
            engine.submit().expect("the kernel takes them");
            waited(&mut *engine, answers);
            Some(())
        };
        // What the first of a kind takes is there for the next.
        let Some(()) = dropped_after(0) else { continue };
        let before = (open(), memory_kib());
        for _ in 0..TIMES {
            dropped_after(0).expect("as before");
        }
        // A thread does one after the other: whatever was not waited for has its memory by now.
        dropped_after(DEPTH).expect("as before");
        assert_eq!(open(), before.0, "{}", kind.name());
        let more = memory_kib().unwrap_or(0).saturating_sub(before.1.unwrap_or(0));
        assert!(more < 2 * TIMES, "{}: {more} KiB more in {TIMES} times", kind.name());
    }
}

#[test]
fn a_slot_in_flight_cannot_be_looked_at() {
    let file = numbered();
    for name in ["uring", "linux-aio", "posix-aio"] {
        let kind = bytepath::engines::by_name(name).expect("it is in the list");
        let Some(mut engine) = opened(kind, &[span(&file)], false) else { continue };
        engine.push(0, read(0));
        let looked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = engine.bytes(0).len();
        }));
        assert!(looked.is_err(), "{name}");
        engine.submit().expect("the kernel takes it");
        waited(&mut *engine, 1);
        assert_eq!(engine.bytes(0), [0; IO_BYTES]);
    }
}

#[test]
fn what_the_page_cache_has_of_a_file_is_told_and_changed() {
    let file = numbered();
    let bytes = BLOCKS * IO_BYTES as u64;
    let all = bytes.div_ceil(rustix::param::page_size() as u64);
    // The kernel may take pages away at any time, and some machines do it all the time.
    let filled = (0..20).any(|_| {
        page_cache::fill(&file, bytes).expect("read");
        page_cache::resident_pages(&file, bytes) == Ok((all, all))
    });
    assert!(filled, "the whole file is there");
    page_cache::drop_pages(&file).expect("dropped");
    let (resident, pages) = page_cache::resident_pages(&file, u64::MAX).expect("told");
    assert_eq!(pages, all, "there are none behind the end");
    assert!(resident < all, "{resident} of {all} stay");
}

#[test]
fn a_place_behind_all_that_a_file_has_is_refused_and_the_position_stays() {
    use std::io::{Seek, SeekFrom};
    let mut file = numbered();
    file.seek(SeekFrom::Start(3)).expect("positioned");
    for kind in ENGINES.iter().filter(|kind| kind.name() != "mmap") {
        let Some(mut engine) = opened(*kind, &[span(&file)], true) else { continue };
        for direction in [Direction::Read, Direction::Write] {
            engine.push(0, Io { file: 0, at: u64::MAX, direction });
            engine.submit().expect("the kernel takes it");
            let done = waited(&mut *engine, 1);
            assert!(done[0].answer.is_err(), "{}: {done:?}", kind.name());
        }
        let ends = (&file).stream_position().ok();
        assert_eq!(ends, Some(3), "{}", kind.name());
    }
    assert_eq!(file.metadata().expect("a file").len(), BLOCKS * IO_BYTES as u64);
}
