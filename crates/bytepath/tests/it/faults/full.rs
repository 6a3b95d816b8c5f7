//! Sinks that take some bytes and then no more.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};

use bytepath::{Knobs, Side, TransferError};
use rustix::fs::{AtFlags, Mode, OFlags, SealFlags, Uid};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use rustix::thread::CapabilitySet;

use crate::ends::{Pace, contents, detached_tmpfs, detached_tmpfs_with, disk_file};
use crate::faults::{carry, ending_sources, routes, written_after};
use crate::trial::same;
use crate::watch::bounded;

/// A sink that is full after `room_bytes` at most.
struct Full {
    name: &'static str,
    errno: Errno,
    open: fn() -> Option<File>,
}

const FULL: &[Full] = &[
    Full { name: "/dev/full", errno: Errno::NOSPC, open: dev_full },
    Full { name: "a small tmpfs", errno: Errno::NOSPC, open: small_tmpfs },
    Full { name: "the largest offset", errno: Errno::FBIG, open: at_the_largest },
    Full { name: "a used-up quota", errno: Errno::DQUOT, open: used_up_quota },
    Full { name: "a sealed memfd", errno: Errno::PERM, open: sealed },
];

fn dev_full() -> Option<File> {
    Some(File::options().write(true).read(true).open("/dev/full").expect("/dev/full opens"))
}

fn small_tmpfs() -> Option<File> {
    let root = detached_tmpfs("1m", MountAttrFlags::empty())?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let file = rustix::fs::openat(root, "file", flags, Mode::RUSR | Mode::WUSR);
    Some(file.expect("a file on it").into())
}

/// A file of an ordinary user on a tmpfs that gives each of them 1 MiB. Quotas do not bind a thread
/// that may exceed limits, so this one gives that right up.
fn used_up_quota() -> Option<File> {
    let quota = [("usrquota", None), ("usrquota_block_hardlimit", Some("1m"))];
    let root = detached_tmpfs_with("16m", &quota, MountAttrFlags::empty())?;
    let mut sets = rustix::thread::capabilities(None).expect("every thread has some");
    sets.effective.remove(CapabilitySet::SYS_RESOURCE);
    rustix::thread::set_capabilities(None, sets).expect("anybody may have fewer");
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
    let file_of_user = |name: &str| {
        let file = rustix::fs::openat(&root, name, flags, Mode::RUSR | Mode::WUSR);
        let file = File::from(file.expect("a file on it"));
        rustix::fs::fchown(&file, Some(Uid::from_raw(65_532)), None).expect("root gives it away");
        file
    };
    // A trial, deleted at once.
    let trial = file_of_user("trial");
    let most = (&trial).write_all(&[0; 2 << 20]);
    rustix::fs::unlinkat(&root, "trial", AtFlags::empty()).expect("it is there");
    if most.is_ok() {
        eprintln!("skipped: the quota of a tmpfs does not bind here");
        return None;
    }
    Some(file_of_user("file"))
}

/// 100,003 bytes before the largest offset that the file system on the disk has, which is the
/// largest that can be sought to. Where that is all that 63 bits can count, other checks come
/// first, with other words.
fn at_the_largest() -> Option<File> {
    let mut file = disk_file();
    let (mut known, mut beyond) = (0, i64::MAX as u64);
    if file.seek(SeekFrom::Start(beyond)).is_ok() {
        eprintln!("skipped: the file system on the disk has no limit of its own");
        return None;
    }
    while beyond - known > 1 {
        let middle = known + (beyond - known) / 2;
        match file.seek(SeekFrom::Start(middle)) {
            Ok(_) => known = middle,
            Err(_) => beyond = middle,
        }
    }
    file.seek(SeekFrom::Start(known - 100_003)).expect("positioned");
    Some(file)
}

/// May not grow, which the kernel says as EPERM: the word with which sandboxes refuse a call.
fn sealed() -> Option<File> {
    let flags = rustix::fs::MemfdFlags::ALLOW_SEALING | rustix::fs::MemfdFlags::CLOEXEC;
    let file = rustix::fs::memfd_create("bytepath-test", flags).expect("a memfd");
    rustix::fs::fcntl_add_seals(&file, SealFlags::GROW).expect("sealed");
    Some(file.into())
}

#[test]
fn a_full_sink_is_named_and_every_byte_accounted_for() {
    bounded(|watch| {
        let all = contents((2 << 20) + 77);
        for full in FULL {
            for source_kind in ending_sources() {
                for only in routes() {
                    let Some(mut file) = (full.open)() else { continue };
                    let start = file.stream_position().unwrap_or(0);
                    watch.at(format_args!("{} to {} by {only:?}", source_kind.name, full.name));
                    let source = source_kind.open(all, Pace::Whole);
                    let outcome = carry(&source, &file, only, Knobs::default(), None);
                    let Some(outcome) = outcome else { continue };
                    if full.name != "/dev/full" {
                        same(&written_after(&mut file, start), &all[..outcome.offset()]);
                    }
                    outcome.accounts_for(all, &source.rest(0));
                    if let (Err(TransferError::Declined { declined, .. }), Some(only)) =
                        (&outcome.ended, only)
                    {
                        assert_ne!(
                            only, "read-write",
                            "the last resort has to say it: {declined:?}"
                        );
                        continue;
                    }
                    let failed = outcome.failed();
                    assert_eq!((failed.errno, failed.side), (full.errno, Side::Sink), "{failed}");
                }
            }
        }
    });
}
