//! Small files without a plan: the same bytes, or the file left as it is, or the end that failed named.

use std::ffi::CString;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::Path;

use bytepath::Side;
use bytepath::small_files::{Between, Bytes, NotCopied, SMALL_BYTES, SmallFiles};
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;

use crate::ends::{contents, detached_tmpfs, pipe};

/// Two directories.
struct Folders {
    source: tempfile::TempDir,
    sink: tempfile::TempDir,
}

impl Folders {
    /// On the disk, or in memory.
    fn at(place: &str) -> Folders {
        let made = || tempfile::tempdir_in(place).expect("a directory");
        Folders { source: made(), sink: made() }
    }

    fn on_disk() -> Folders {
        Folders::at(env!("CARGO_TARGET_TMPDIR"))
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.source.path().join(name), bytes).expect("written");
    }

    /// Copies one file, by what is said.
    fn copy_by(
        &self,
        name: &str,
        how: impl FnOnce(Between<'_>) -> Between<'_>,
    ) -> Result<Bytes, NotCopied> {
        let (source, sink) = (opened(self.source.path()), opened(self.sink.path()));
        let between = how(Between::new(source.as_fd(), sink.as_fd()));
        SmallFiles::new().copy(&between, &CString::new(name).expect("a name"))
    }

    fn copy(&self, name: &str) -> Result<Bytes, NotCopied> {
        self.copy_by(name, |between| between)
    }

    fn copied(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.sink.path().join(name)).expect("it was copied")
    }

    /// Sees that this one is left, without a trace; the source, if it is open.
    fn left(&self, name: &str) -> Option<OwnedFd> {
        let before = std::fs::read_dir(self.sink.path()).expect("read").count();
        let open = match self.copy(name) {
            Err(NotCopied::Left(open)) => open,
            other => panic!("{name} is not left: {other:?}"),
        };
        assert_eq!(std::fs::read_dir(self.sink.path()).expect("read").count(), before, "{name}");
        open
    }
}

fn opened(path: &Path) -> OwnedFd {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("opened")
}

#[test]
fn small_files_of_every_size_arrive_whole_by_the_kernel_and_through_memory() {
    for folders in [Folders::on_disk(), Folders::at("/dev/shm")] {
        for bytes in [0, 1, 511, 512, 4095, 4096, 4097, 65_536, SMALL_BYTES - 1] {
            for in_kernel in [true, false] {
                let name = format!("{bytes}-{in_kernel}");
                folders.write(&name, contents(bytes));
                let moved = folders.copy_by(&name, |between| between.in_kernel(in_kernel));
                let moved = moved.expect("copied");
                assert_eq!(moved.all(), bytes as u64);
                assert!(in_kernel || moved.in_kernel == 0);
                assert!(folders.copied(&name) == contents(bytes), "{name}");
                // Shared where the file system can, copied where it cannot.
                let shared = name + "-shared";
                folders.write(&shared, contents(bytes));
                let moved = folders.copy_by(&shared, |between| between.shares(true));
                assert_eq!(moved.expect("copied").all(), bytes as u64);
                assert!(folders.copied(&shared) == contents(bytes), "{shared}");
            }
        }
    }
}

#[test]
fn permissions_are_those_of_the_source_but_for_other_bits_and_the_umask() {
    let folders = Folders::on_disk();
    folders.write("file", b"bytes");
    let path = folders.source.path().join("file");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o4751)).expect("set");
    folders.copy("file").expect("copied");
    let mode = folders.sink.path().join("file").metadata().expect("it is there").mode() & 0o7777;
    assert_eq!((mode & 0o7700, mode & !0o751), (0o700, 0), "{mode:o}");
}

#[test]
fn files_that_lie_about_their_size_are_read_to_their_end() {
    let sink = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let (source, open) = (opened(Path::new("/proc/sys/kernel")), opened(sink.path()));
    let between = Between::new(source.as_fd(), open.as_fd());
    SmallFiles::new().copy(&between, c"ostype").expect("copied");
    assert_eq!(std::fs::read(sink.path().join("ostype")).expect("read"), b"Linux\n");
}

#[test]
fn what_is_no_small_file_is_left_as_it_is() {
    let folders = Folders::on_disk();
    folders.write("large", contents(SMALL_BYTES));
    assert!(folders.left("large").is_some());

    let path = folders.source.path();
    let sparse = File::create(path.join("holes")).expect("made");
    sparse.set_len(100_000).expect("longer");
    assert!(folders.left("holes").is_some());

    std::fs::create_dir(path.join("directory")).expect("made");
    folders.left("directory");
    std::os::unix::fs::symlink("/etc/passwd", path.join("link")).expect("made");
    assert!(folders.left("link").is_none());
    let mode = Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(CWD, path.join("fifo"), FileType::Fifo, mode, 0).expect("made");
    folders.left("fifo");
    assert!(folders.left("absent").is_none());
}

#[test]
fn a_name_that_is_taken_is_not_touched_whatever_has_it() {
    let folders = Folders::on_disk();
    let sink = folders.sink.path();
    for name in ["file", "link"] {
        folders.write(name, b"new");
    }
    std::fs::write(sink.join("file"), b"old").expect("written");
    std::os::unix::fs::symlink("elsewhere", sink.join("link")).expect("made");
    for name in ["file", "link"] {
        let source = folders.left(name).expect("it is open");
        let mut three = [0; 3];
        assert_eq!(rustix::io::read(&source, &mut three), Ok(3));
        assert_eq!(&three, b"new", "nothing was read of it");
    }
    assert_eq!(folders.copied("file"), b"old");
    assert!(!sink.join("elsewhere").exists());
}

#[test]
fn names_and_devices_that_were_not_asked_for_are_left() {
    let folders = Folders::on_disk();
    folders.write("file", b"bytes");
    let path = folders.source.path();
    std::fs::hard_link(path.join("file"), path.join("other")).expect("linked");
    let single = folders.copy_by("file", |between| between.single_names(true));
    assert!(matches!(single, Err(NotCopied::Left(Some(_)))), "{single:?}");
    let device = path.metadata().expect("it is there").dev();
    let elsewhere = folders.copy_by("file", |between| between.on_device(device + 1));
    assert!(matches!(elsewhere, Err(NotCopied::Left(Some(_)))), "{elsewhere:?}");
    folders.copy_by("file", |between| between.on_device(device)).expect("copied");
    assert_eq!(folders.copied("file"), b"bytes");
}

#[test]
fn a_full_file_system_is_the_sinks_fault_and_what_came_before_is_there() {
    const ROOM: usize = 64 << 10;
    let Some(full) = detached_tmpfs("64k", MountAttrFlags::empty()) else { return };
    let folders = Folders::on_disk();
    folders.write("file", contents(100_000));
    let source = opened(folders.source.path());
    let between = Between::new(source.as_fd(), full.as_fd()).in_kernel(false);
    let not_filled = match SmallFiles::new().copy(&between, c"file") {
        Err(NotCopied::NotFilled(not_filled)) => not_filled,
        other => panic!("there is no room for it: {other:?}"),
    };
    assert_eq!((not_filled.side, not_filled.errno), (Side::Sink, Errno::NOSPC));
    let moved = not_filled.moved.all() as usize;
    assert!((1..=ROOM).contains(&moved), "{moved}");
    let copy = rustix::fs::openat(&full, "file", OFlags::RDONLY, Mode::empty()).expect("opened");
    let mut there = vec![0; 100_000];
    let count = File::from(copy).read_at(&mut there, 0).expect("read");
    assert_eq!(count, moved);
    assert!(there[..count] == contents(100_000)[..count]);
}

#[test]
fn ends_that_fail_are_told_apart() {
    let (folder, mut small) = (Folders::on_disk(), SmallFiles::new());
    folder.write("file", contents(10_000));
    let read_only = File::open(folder.source.path().join("file")).expect("opened");
    let stat = rustix::fs::fstat(&read_only).expect("it is there");
    let (_reader, writer) = pipe();
    let fill = |small: &mut SmallFiles, source: &File, sink: &File| {
        small.fill(source.as_fd(), sink.as_fd(), &stat, true).expect_err("it cannot be")
    };
    let not_read = fill(&mut small, &writer, &File::create("/dev/null").expect("opened"));
    assert_eq!((not_read.side, not_read.errno), (Side::Source, Errno::BADF));
    let not_written = fill(&mut small, &read_only, &read_only);
    assert_eq!((not_written.side, not_written.errno), (Side::Sink, Errno::BADF));
    assert!(not_written.to_string().starts_with("writing at byte 0: "), "{not_written}");
}

#[test]
fn what_a_file_has_become_longer_by_comes_along() {
    let folders = Folders::on_disk();
    folders.write("file", contents(5000));
    let path = folders.source.path().join("file");
    let source = File::open(&path).expect("opened");
    let stat = rustix::fs::fstat(&source).expect("it is there");
    File::options().append(true).open(&path).expect("opened").write_all(b"more").expect("written");
    let sink = File::create(folders.sink.path().join("file")).expect("made");
    let moved = SmallFiles::new().fill(source.as_fd(), sink.as_fd(), &stat, true);
    assert_eq!(moved.expect("copied").all(), 5004);
    assert_eq!(folders.copied("file"), [contents(5000), b"more"].concat());
}

#[test]
fn a_piece_goes_to_the_same_place_and_ends_where_the_source_does() {
    let folders = Folders::on_disk();
    folders.write("file", contents(300_000));
    let source = File::open(folders.source.path().join("file")).expect("opened");
    let sink = File::create_new(folders.sink.path().join("file")).expect("made");
    let mut small = SmallFiles::new();
    let mut fill_at = |at, bytes| small.fill_at(source.as_fd(), sink.as_fd(), at, bytes);
    assert_eq!(fill_at(100_000, 150_000).expect("copied").all(), 150_000);
    assert_eq!(fill_at(250_000, 150_000).expect("copied").all(), 50_000);
    let mut there = vec![0; 200_000];
    let copy = File::open(folders.sink.path().join("file")).expect("opened");
    copy.read_exact_at(&mut there, 100_000).expect("read");
    assert!(there == contents(300_000)[100_000..]);
}

#[test]
fn a_name_of_any_bytes_is_a_name() {
    let folders = Folders::on_disk();
    let name = std::ffi::OsStr::from_bytes(b"\xff\n'\\ x");
    std::fs::write(folders.source.path().join(name), b"bytes").expect("written");
    let (source, sink) = (opened(folders.source.path()), opened(folders.sink.path()));
    let name_bytes = CString::new(name.as_bytes()).expect("a name");
    let between = Between::new(source.as_fd(), sink.as_fd());
    SmallFiles::new().copy(&between, &name_bytes).expect("copied");
    assert_eq!(std::fs::read(folders.sink.path().join(name)).expect("read"), b"bytes");
}
