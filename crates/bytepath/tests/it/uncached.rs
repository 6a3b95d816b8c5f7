//! The page cache is as it was: what of the source was there before is there, and nothing else.

use std::fs::File;
use std::io::{IoSlice, Read, Seek, SeekFrom, Write};
use std::os::fd::AsFd;

use bytepath::page_cache;
use bytepath::planning::{Carrying, Wishes};
use bytepath::{Endpoint, Job, Knobs, Meter, Moved, Plan, Transfer, TransferError};
use rustix::fs::{Advice, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};

use crate::ends::{contents, detached_image, disk_file, memfd, pipe, tmpfs_file};
use crate::trial::same;

/// RWF_DONTCACHE.
const DONTCACHE: ReadWriteFlags = ReadWriteFlags::from_bits_retain(0x80);

const ROUTES: [&str; 2] = ["dontcache", "fadvise"];

/// Whether the kernel and the file system of a file know the flag that `dontcache` goes by.
pub(crate) fn knows_dontcache(file: &File) -> bool {
    rustix::io::pwritev2(file, &[IoSlice::new(b"x")], 0, DONTCACHE) == Ok(1)
}

/// No whole number of pages, and several windows.
const BYTES: usize = (20 << 20) + 12_345;

/// The bytes of a file.
fn all() -> Vec<u8> {
    contents(7 << 20).iter().cycle().take(BYTES).copied().collect()
}

/// What of a source is in the page cache before.
#[derive(Debug, Clone, Copy)]
enum Before {
    Nothing,
    /// Some pages of each MiB.
    Some,
    All,
}

/// A file on the device, of which so much is in the page cache.
fn source(mut file: File, before: Before) -> File {
    file.write_all(&all()).expect("written");
    page_cache::drop_pages(&file).expect("dropped");
    // The kernel would read ahead.
    rustix::fs::fadvise(&file, 0, None, Advice::Random).expect("advised");
    for at in (0..BYTES as u64).step_by(1 << 20) {
        let count = match before {
            Before::Nothing => continue,
            Before::Some => 300_000,
            Before::All => 1 << 20,
        };
        let read = rustix::io::pread(&file, &mut vec![0; count], at);
        assert!(read.is_ok_and(|count| count > 0));
    }
    rustix::fs::fadvise(&file, 0, None, Advice::Normal).expect("advised");
    file.rewind().expect("positioned");
    file
}

/// How many pages of the first so many half MiB of a file are in the page cache.
fn resident(file: &File) -> Vec<u64> {
    let pages = |end| page_cache::resident_pages(file, end).expect("the file can be mapped").0;
    let bytes = file.metadata().expect("a file").len();
    (1..).map(|half| half << 19).take_while(|end| *end < bytes).chain([bytes]).map(pages).collect()
}

/// Compares what the page cache had of a file with what it has of it afterwards, until they are
/// the same: the kernel may take pages away at any time, and some machines do it all the time. It
/// never has more.
fn unless_reclaimed(what: &str, mut look: impl FnMut() -> (Vec<u64>, Vec<u64>)) {
    const TRIES: u32 = 20;
    for _ in 0..TRIES {
        let (there, left) = look();
        let more = there.iter().zip(&left).any(|(there, left)| left > there);
        assert!(!more, "{what}: {left:?} where there was {there:?}");
        if left == there {
            return;
        }
    }
    panic!("{what}: pages went in each of {TRIES} tries");
}

/// Moves by one route, or by the best plan, and leaves the page cache.
fn moved(
    (source, sink): (&File, &File),
    only: Option<&str>,
    limit: Option<u64>,
) -> Result<Moved, TransferError> {
    let source = Endpoint::source(source.as_fd()).expect("a source");
    let sink = Endpoint::sink(sink.as_fd()).expect("a sink");
    let mut job = Job::new(&source, &sink).leave_cache();
    job.limit = limit;
    let plan = match only {
        Some(name) => Plan::only(name, &job, Knobs::default()),
        None => Plan::best(&job, Knobs::default()),
    };
    Transfer::new(&job, &plan.expect("a plan")).run()
}

/// All that a file holds, read without bringing it into the page cache for the next look.
fn read_all(mut file: &File) -> Vec<u8> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0)).and_then(|_| file.read_to_end(&mut bytes)).expect("read");
    bytes
}

/// What makes new files on one file system.
type Make = Box<dyn Fn() -> File>;

/// The disk here, and every file system of which an image can be made.
fn grounds() -> Vec<(&'static str, Make)> {
    let mut grounds: Vec<(&str, Make)> = vec![("disk", Box::new(disk_file))];
    for kind in ["ext4", "xfs", "btrfs"] {
        let Some(root) = detached_image(kind) else { continue };
        let file = move || {
            let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
            File::from(rustix::fs::openat(&root, c".", flags, Mode::RUSR).expect("a file"))
        };
        grounds.push((kind, Box::new(file)));
    }
    grounds
}

#[test]
fn what_was_in_the_page_cache_is_there_afterwards_and_nothing_else() {
    for (ground, file) in grounds() {
        let dontcache = knows_dontcache(&file());
        for before in [Before::Nothing, Before::Some, Before::All] {
            for route in ROUTES.iter().filter(|route| dontcache || **route != "dontcache") {
                let what = format!("{route} on {ground}, {before:?} before");
                unless_reclaimed(&what, || {
                    let (from, to) = (source(file(), before), file());
                    let there = resident(&from);
                    let moved = moved((&from, &to), Some(route), None).expect("moved");
                    let left = resident(&from);
                    assert_eq!(resident(&to).last(), Some(&0), "the copy of {what}");
                    assert_eq!(moved.bytes, BYTES as u64);
                    same(&read_all(&to), &all());
                    (there, left)
                });
            }
        }
    }
}

#[test]
fn a_part_leaves_nothing_behind_its_end() {
    for (ground, file) in grounds() {
        let dontcache = knows_dontcache(&file());
        for route in ROUTES.iter().filter(|route| dontcache || **route != "dontcache") {
            let (mut from, mut to) = (source(file(), Before::Nothing), file());
            let (start, limit) = (1_234_567, (5 << 20) + 1);
            from.seek(SeekFrom::Start(start)).expect("positioned");
            to.seek(SeekFrom::Start(99)).expect("positioned");
            let moved = moved((&from, &to), Some(route), Some(limit)).expect("moved");
            assert_eq!((moved.bytes, from.stream_position().ok()), (limit, Some(start + limit)));
            for (file, what) in [(&from, "source"), (&to, "copy")] {
                assert_eq!(resident(file).last(), Some(&0), "the {what} of {route} on {ground}");
            }
            let start = start as usize;
            same(&read_all(&to)[99..], &all()[start..start + limit as usize]);
        }
    }
}

#[test]
fn one_end_is_left_where_the_other_has_no_pages() {
    for (ground, file) in grounds() {
        unless_reclaimed(&format!("{ground} to a pipe"), || {
            let from = source(file(), Before::Some);
            let there = resident(&from);
            let (mut reader, writer) = pipe();
            let collected = std::thread::spawn(move || {
                let mut bytes = Vec::new();
                reader.read_to_end(&mut bytes).map(|_| bytes)
            });
            moved((&from, &writer), None, None).expect("moved");
            drop(writer);
            let left = resident(&from);
            same(&collected.join().expect("no panic").expect("read"), &all());
            (there, left)
        });

        let (reader, mut writer) = pipe();
        let fed = std::thread::spawn(move || writer.write_all(&all()));
        let to = file();
        moved((&reader, &to), None, None).expect("moved");
        fed.join().expect("no panic").expect("written");
        assert_eq!(resident(&to).last(), Some(&0), "a pipe to {ground}");
        same(&read_all(&to), &all());
    }
}

#[test]
fn a_file_in_memory_goes_the_other_way_and_stays_where_it_is() {
    let (from, to) = (source(disk_file(), Before::Nothing), memfd());
    let done = moved((&from, &to), None, None).expect("moved");
    assert_eq!((done.bytes, done.route), (BYTES as u64, "fadvise"));
    let [gave] = &done.declined[..] else { panic!("one gave up: {done:?}") };
    assert_eq!(gave.route, "dontcache");
    let word = std::io::Error::from(Errno::OPNOTSUPP).to_string();
    assert!(gave.why.contains(&word) && gave.why.contains("RWF_DONTCACHE"), "{}", gave.why);
    assert_eq!(resident(&from).last(), Some(&0));
    same(&read_all(&to), &all());
}

#[test]
fn bytes_of_a_pipe_that_were_read_when_the_flag_is_refused_arrive() {
    let (reader, mut writer) = pipe();
    let fed = std::thread::spawn(move || writer.write_all(&all()));
    let to = tmpfs_file();
    let done = moved((&reader, &to), None, None).expect("moved");
    fed.join().expect("no panic").expect("written");
    assert_eq!(done.route, "fadvise", "{done:?}");
    same(&read_all(&to), &all());
}

#[test]
fn the_plan_refuses_what_leaves_pages_and_says_why() {
    let (from, to) = (disk_file(), disk_file());
    from.set_len(1).expect("a byte");
    let source = Endpoint::source(from.as_fd()).expect("a source");
    let sink = Endpoint::sink(to.as_fd()).expect("a sink");
    let job = Job::new(&source, &sink).leave_cache();
    let plan = Plan::best(&job, Knobs::default()).expect("a plan");
    let names: Vec<_> = plan.routes().iter().map(|choice| choice.route.name()).collect();
    assert_eq!(names, ROUTES);
    let said = plan.to_string();
    let why = "not copy-file-range: copy_file_range copies through the page cache";
    assert!(said.contains(why), "{said}");
    assert!(said.contains("leaves the page cache as it was"), "{said}");
    let only = Plan::only("copy-file-range", &job, Knobs::default()).unwrap_err().to_string();
    assert!(only.contains("copies through the page cache"), "{only}");
}

#[test]
fn what_a_file_had_before_stays_where_more_is_appended() {
    for (ground, file) in grounds() {
        unless_reclaimed(&format!("{ground}, appended to"), || {
            let (from, to) = (source(file(), Before::Nothing), source(file(), Before::All));
            let mut there = resident(&to);
            rustix::fs::fcntl_setfl(&to, OFlags::APPEND).expect("it may append");
            moved((&from, &to), None, None).expect("moved");
            let mut left = resident(&to);
            // The page in which the old end is was written, with others of its folio.
            let whole = (left.last().copied(), there.pop().map(|pages| pages + 512));
            assert!(whole.0 <= whole.1, "{whole:?} pages of {ground}");
            left.truncate(there.len());
            same(&read_all(&to)[BYTES..], &all());
            (there, left)
        });
    }
}

#[test]
fn a_place_behind_all_that_a_file_has_is_refused_and_the_position_stays() {
    let mut file = disk_file();
    file.write_all(b"some bytes").and_then(|()| file.seek(SeekFrom::Start(3))).expect("written");
    for at in [u64::MAX, u64::MAX - 1, 1 << 63] {
        assert!(page_cache::read_leaving(&file, &mut [0; 4], at).is_err(), "{at}");
        assert_eq!(file.stream_position().ok(), Some(3), "{at}");
    }
}

#[test]
fn records_arrive_whole_wherever_a_part_of_the_job_ends() {
    const RECORDS: usize = 400;
    const RECORD_BYTES: usize = 1000;
    let all = contents(RECORDS * RECORD_BYTES);
    // From a place in the sink on that is behind one of its chunks, and from one byte before it.
    for place in [0, (2 << 20) - 1] {
        let (near, far) = rustix::net::socketpair(
            rustix::net::AddressFamily::UNIX,
            rustix::net::SocketType::SEQPACKET,
            rustix::net::SocketFlags::CLOEXEC,
            None,
        )
        .expect("sockets");
        let fed = std::thread::spawn(move || {
            for record in all.chunks(RECORD_BYTES) {
                assert_eq!(rustix::io::write(&near, record), Ok(RECORD_BYTES));
            }
        });
        let mut to = disk_file();
        to.set_len(place).and_then(|()| to.seek(SeekFrom::Start(place))).expect("positioned");
        let source = Endpoint::source(far.as_fd()).expect("a source");
        let sink = Endpoint::sink(to.as_fd()).expect("a sink");
        let (job, meter) = (Job::new(&source, &sink).leave_cache(), Meter::new());
        let mut planning = Wishes::default().begin(&job, Knobs::default()).expect("a plan");
        let moved = planning.carry(&Carrying { job, meter: &meter, cancel: None }).expect("moved");
        fed.join().expect("no panic");
        assert!(ROUTES.contains(&moved.route), "{moved:?}");
        same(&read_all(&to)[place as usize..], all);
    }
}
