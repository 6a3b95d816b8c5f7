//! `cp` beside GNU's: the same trees, messages and exit codes.

mod arguments;
mod existing;
mod failing;
mod faults;
mod full;
mod holes;
mod interrupted;
mod killed;
mod limits;
mod look;
mod ours;
mod parallel;
mod planned;
mod random;
mod report;
mod resume;
mod served;
mod trees;
mod uncached;

use std::fs::{File, FileTimes, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use crate::classic::Classic;

/// GNU's, to compare with.
fn gnu() -> Option<Classic> {
    let gnu = Classic::of("cp", "GNU coreutils")?;
    // Directories are copied in the order of their inodes, which a tmpfs numbers as they are made.
    let memory = Path::new("/dev/shm");
    let scratch = if memory.is_dir() { memory.to_owned() } else { gnu.scratch };
    Some(Classic { look: look::look, scratch, ..gnu })
}

/// The same on whatever file system temporary files are.
fn gnu_on_disk() -> Option<Classic> {
    Some(Classic { scratch: std::env::temp_dir(), ..gnu()? })
}

/// A file of these bytes that is as old as it can be told to be.
fn file(path: &Path, bytes: &[u8], age: u64) {
    std::fs::write(path, bytes).expect("a file");
    date(path, age);
}

/// Dates a file or directory far in the past, later for larger ages.
fn date(path: &Path, age: u64) {
    let time = UNIX_EPOCH + Duration::new(1_000_000_000 + age, 123_456_789);
    let times = FileTimes::new().set_accessed(time).set_modified(time);
    File::open(path).and_then(|file| file.set_times(times)).expect("it is ours");
}

fn mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).expect("it is ours");
}

fn directory(path: &Path) {
    std::fs::create_dir_all(path).expect("a folder");
}

/// Files `a` and `b`, a link `l` to `a`, one to nowhere, a folder `d` with a tree, an empty folder
/// `e`, a FIFO, two names of one file, strange modes and strange names.
fn some(work: &Path) {
    file(&work.join("a"), b"one\n", 3);
    file(&work.join("b"), b"second\n", 2);
    mode(&work.join("b"), 0o640);
    symlink("a", work.join("l")).expect("a link");
    symlink("nowhere", work.join("broken")).expect("a link");
    directory(&work.join("d/sub/deep"));
    directory(&work.join("e"));
    file(&work.join("d/x"), b"x of d", 5);
    mode(&work.join("d/x"), 0o4755);
    file(&work.join("d/sub/y"), b"", 6);
    std::fs::hard_link(work.join("d/x"), work.join("d/sub/other name")).expect("a link");
    symlink("../x", work.join("d/sub/to-x")).expect("a link");
    symlink(".", work.join("d/sub/loop")).expect("a link");
    file(&work.join("d/sub/deep/z"), &[7; 70_000], 7);
    rustix::fs::mknodat(
        rustix::fs::CWD,
        work.join("d/fifo"),
        rustix::fs::FileType::Fifo,
        0o644.into(),
        0,
    )
    .expect("a FIFO");
    symlink("d", work.join("to-d")).expect("a link");
    for (age, path) in ["d/sub/deep", "d/sub", "d", "e"].iter().enumerate() {
        date(&work.join(path), 20 + age as u64);
    }
}
