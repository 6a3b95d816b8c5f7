//! Whole buffers by descriptor.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;

use bytepath::channel::{ChannelError, Connection, Parcel, SealedParcel, SharedBytes};
use bytepath::pages::PageSize;
use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::ends::contents;
use crate::trial::same;
use crate::watch::bounded;

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn buffers_arrive_whole_and_in_order() {
    bounded(|_| {
        let (here, mut there) = Connection::pair().expect("a pair");
        let sizes = (0..300_usize).map(|n| 1 + n * 997 % 10_000).chain([3 << 20]);
        let taker = std::thread::spawn({
            let sizes = sizes.clone();
            move || {
                for size in sizes {
                    let parcel = there.take(PATIENCE).expect("a buffer").expect("no end");
                    same(parcel.as_slice(), contents(size));
                }
                assert!(there.take(PATIENCE).expect("an answer").is_none());
            }
        });
        for size in sizes {
            let mut parcel = Parcel::allocate(size + 7, PageSize::Huge).expect("a buffer");
            parcel.as_mut_slice()[..size].copy_from_slice(contents(size));
            here.give(&parcel.seal(size).expect("sealed")).expect("it goes");
        }
        drop(here);
        taker.join().expect("no panic");
    });
}

#[test]
fn of_threads_that_share_an_end_one_takes_at_a_time_and_every_buffer_is_taken_once() {
    bounded(|_| {
        // Through a shared reference two could look at one buffer, and then take two.
        let take: fn(&mut Connection, Duration) -> Result<Option<SealedParcel>, ChannelError> =
            Connection::take;
        let (here, there) = Connection::pair().expect("a pair");
        let (there, mut taken) = (&Mutex::new(there), Vec::new());
        std::thread::scope(|scope| {
            let next =
                move || take(&mut there.lock().expect("no panic"), PATIENCE).expect("an answer");
            let takes = move || -> Vec<usize> {
                std::iter::from_fn(next).map(|it| it.as_slice().len()).collect()
            };
            let takers = [(); 3].map(|()| scope.spawn(takes));
            for bytes in 1..=300 {
                here.give(&SealedParcel::written(bytes, &[]).expect("memory")).expect("it goes");
            }
            drop(here);
            for taker in takers {
                taken.append(&mut taker.join().expect("no panic"));
            }
        });
        taken.sort_unstable();
        assert_eq!(taken, (1..=300).collect::<Vec<_>>());
    });
}

/// The name of the test below.
const KEPT: &str =
    "channel::parcels::a_buffer_that_there_is_no_descriptor_for_is_there_again_once_there_is";

#[test]
fn a_buffer_that_there_is_no_descriptor_for_is_there_again_once_there_is() {
    // Limits bind a whole process, so another one has them.
    if !crate::is_alone(KEPT) {
        return;
    }
    let (here, mut there) = Connection::pair().expect("a pair");
    for bytes in [1000, 2000] {
        let parts = [(0, contents(bytes).into())];
        here.give(&SealedParcel::written(bytes, &parts).expect("memory")).expect("it is given");
    }
    let limit = getrlimit(Resource::Nofile);
    let next = std::fs::File::open("/").expect("a descriptor").as_raw_fd() as u64;
    let none = Rlimit { current: Some(next), ..limit };
    setrlimit(Resource::Nofile, none).expect("fewer are allowed");
    for _ in 0..2 {
        let error = there.take(Duration::ZERO).expect_err("there is no descriptor");
        assert!(matches!(error, ChannelError::Socket { errno: Errno::MFILE, .. }), "{error:?}");
    }
    setrlimit(Resource::Nofile, limit).expect("it was so before");
    for bytes in [1000, 2000] {
        let parcel = there.take(Duration::ZERO).expect("no error").expect("it is there again");
        same(parcel.as_slice(), contents(bytes));
    }
    drop(here);
    assert!(there.take(Duration::ZERO).expect("no error").is_none());
}

#[test]
fn what_is_written_lies_at_its_places_and_zeros_elsewhere() {
    let (long, short) = (contents(3 << 20), contents(100));
    let parts: [(usize, SharedBytes<'_>); 3] =
        [(64, long.into()), ((4 << 20) - 100, short.into()), (10, [][..].into())];
    let sealed = SealedParcel::written(4 << 20, &parts).expect("a buffer");
    let mut wanted = vec![0; 4 << 20];
    wanted[64..64 + long.len()].copy_from_slice(long);
    wanted[(4 << 20) - 100..].copy_from_slice(short);
    same(sealed.as_slice(), &wanted);
    let empty = SealedParcel::written(5, &[]).expect("a buffer");
    assert_eq!(empty.as_slice(), [0; 5]);
}

#[test]
#[should_panic(expected = "they fit")]
fn what_does_not_fit_is_not_written() {
    let _ = SealedParcel::written(99, &[(0, contents(100).into())]);
}

#[test]
fn nobody_changes_a_sealed_buffer() {
    let filled =
        Parcel::allocate(5000, PageSize::Base).expect("a buffer").seal(5000).expect("sealed");
    cannot_change(&filled);
    cannot_change(&SealedParcel::written(5000, &[(0, contents(5000).into())]).expect("a buffer"));
}

fn cannot_change(sealed: &SealedParcel) {
    let file = sealed.as_fd();
    // Linux before 6.7 refuses shared mappings of it, be they only read.
    assert_eq!(rights(sealed.as_slice()), "r--p");
    assert_eq!(rustix::io::write(file, b"x"), Err(Errno::PERM));
    for bytes in [0, 1 << 20] {
        assert_eq!(rustix::fs::ftruncate(file, bytes), Err(Errno::PERM));
    }
    let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    assert_eq!(rustix::fs::fallocate(file, hole, 0, 4096), Err(Errno::PERM));
}

#[test]
fn a_buffer_that_could_still_change_or_is_too_short_is_refused() {
    let memfd = |seals| -> OwnedFd {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create(c"test", flags).expect("a memfd");
        rustix::fs::ftruncate(&file, 4096).expect("as long");
        rustix::fs::fcntl_add_seals(&file, seals).expect("sealed");
        file
    };
    let opened = |seals, bytes| SealedParcel::open(memfd(seals), bytes).map(drop);
    let all = SealFlags::WRITE | SealFlags::SHRINK;
    opened(all, 4096).expect("it is safe");
    for (seals, bytes) in [(SealFlags::SHRINK, 1), (SealFlags::WRITE, 1), (all, 4097)] {
        let refused = opened(seals, bytes);
        assert!(matches!(refused, Err(ChannelError::Unsafe(_))), "{seals:?}: {refused:?}");
    }
    let file: OwnedFd = tempfile::tempfile().expect("a file").into();
    assert!(matches!(SealedParcel::open(file, 0), Err(ChannelError::Unsafe(_))));
}

#[test]
fn a_buffer_of_the_pool_is_refused_as_its_pages_may_be_missing() {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let huge = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    let Ok(file) = rustix::fs::memfd_create(c"test", flags | huge) else {
        eprintln!("skipped: this kernel has no pool of 2 MiB pages");
        return;
    };
    // None of them is there, be the pool empty or not: to read one may end this process.
    rustix::fs::ftruncate(&file, 2 << 20).expect("as long");
    let all = SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL;
    rustix::fs::fcntl_add_seals(&file, all).expect("sealed");
    let refused = SealedParcel::open(file, 2 << 20);
    let Err(ChannelError::Unsafe(why)) = refused else { panic!("{refused:?}") };
    assert!(why.contains("pool"), "{why}");
}

/// What may be done with the mapping that begins with these bytes, as /proc/self/maps tells it.
fn rights(bytes: &[u8]) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the maps");
    let begins = format!("{:x}-", bytes.as_ptr().addr());
    let line = maps.lines().find(|line| line.starts_with(&begins)).expect("it is mapped");
    line.split_whitespace().nth(1).expect("its rights").to_owned()
}
