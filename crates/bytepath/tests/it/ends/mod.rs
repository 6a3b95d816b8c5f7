//! Real descriptors to move bytes between, with a feeder or a collector at the far end.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use rustix::fs::{MemfdFlags, OFlags};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use rustix::pipe::PipeFlags;
use rustix::pty::OpenptFlags;
use rustix::termios::OptionalActions;

mod sinks;
mod sources;

pub(crate) use sinks::{SINKS, SinkKind, by_name as sink_named};
pub(crate) use sources::{SOURCES, SourceKind, Supply, by_name as source_named};

/// The most that a test moves with known contents.
const CONTENTS_BYTES_MAX: usize = 8 << 20;

/// The first `len` bytes of a stream that does not repeat itself.
pub(crate) fn contents(len: usize) -> &'static [u8] {
    static ALL: OnceLock<Vec<u8>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let mut bytes = Vec::with_capacity(CONTENTS_BYTES_MAX);
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        while bytes.len() < CONTENTS_BYTES_MAX {
            // The step of Marsaglia's xorshift64.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.extend_from_slice(&state.to_ne_bytes());
        }
        bytes
    });
    &all[..len]
}

/// How a feeder or collector goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// As much as there is at once.
    Whole,
    /// Odd pieces from one byte up, giving up the CPU in between.
    Odd,
}

impl Pace {
    /// The largest piece for the `turn`th call.
    fn piece_bytes(self, turn: usize) -> usize {
        match self {
            Pace::Whole => 1 << 20,
            Pace::Odd => {
                std::thread::yield_now();
                [1, 4097, 13, 7919, 511, 65537][turn % 6]
            }
        }
    }

    /// Writes all of it, or until the reader is gone.
    pub(crate) fn feed(self, mut to: impl Write, bytes: &[u8]) {
        let (mut rest, mut turn) = (bytes, 0);
        while !rest.is_empty() {
            let (piece, later) = rest.split_at(rest.len().min(self.piece_bytes(turn)));
            if to.write_all(piece).is_err() {
                return;
            }
            (rest, turn) = (later, turn + 1);
        }
    }

    /// Reads to the end, which a terminal reports as EIO. It can do so too early (seen three times in
    /// 90,000 on Linux 6.18): the master's reader is told that the slave is closed while the last
    /// bytes are between the two, and gets them with its next call. So only the second EIO counts.
    pub(crate) fn collect(self, mut from: impl Read) -> Vec<u8> {
        let (mut all, mut turn, mut hangups) = (Vec::new(), 0, 0);
        let mut piece = vec![0; 1 << 20];
        loop {
            let most = self.piece_bytes(turn).min(piece.len());
            match from.read(&mut piece[..most]) {
                Ok(0) => return all,
                Ok(count) => {
                    all.extend_from_slice(&piece[..count]);
                    hangups = 0;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) if error.raw_os_error() == Some(libc::EIO) && hangups == 0 => {
                    hangups = 1
                }
                Err(error) if error.raw_os_error() == Some(libc::EIO) => return all,
                Err(error) => panic!("the collector fails after {} bytes: {error}", all.len()),
            }
            turn += 1;
        }
    }
}

/// A file without a name on the disk that the build is on.
pub(crate) fn disk_file() -> File {
    tempfile::tempfile_in(env!("CARGO_TARGET_TMPDIR")).expect("a file on the disk")
}

/// A file without a name on a tmpfs, or on the disk where there is none.
pub(crate) fn tmpfs_file() -> File {
    let shm = PathBuf::from("/dev/shm");
    tempfile::tempfile_in(&shm).unwrap_or_else(|_| disk_file())
}

/// The root of a tmpfs that is mounted nowhere, so that nothing is left to be unmounted. Takes
/// root; says so where it is missing.
pub(crate) fn detached_tmpfs(size: &str, attributes: MountAttrFlags) -> Option<OwnedFd> {
    detached_tmpfs_with(size, &[], attributes)
}

/// The same with further options, of which some have a value.
pub(crate) fn detached_tmpfs_with(
    size: &str,
    options: &[(&str, Option<&str>)],
    attributes: MountAttrFlags,
) -> Option<OwnedFd> {
    let mounted = rustix::mount::fsopen("tmpfs", FsOpenFlags::FSOPEN_CLOEXEC).and_then(|tmpfs| {
        rustix::mount::fsconfig_set_string(tmpfs.as_fd(), "size", size)?;
        for (option, value) in options {
            match value {
                Some(value) => {
                    rustix::mount::fsconfig_set_string(tmpfs.as_fd(), *option, *value)?;
                }
                None => rustix::mount::fsconfig_set_flag(tmpfs.as_fd(), *option)?,
            }
        }
        rustix::mount::fsconfig_create(tmpfs.as_fd())?;
        rustix::mount::fsmount(tmpfs.as_fd(), FsMountFlags::FSMOUNT_CLOEXEC, attributes)
    });
    let said = |errno| eprintln!("skipped: no tmpfs {options:?} can be mounted here: {errno}");
    mounted.map_err(said).ok()
}

/// The root of a file system of this kind in an image of its own, mounted nowhere: device and image
/// go with the last descriptor. Takes root and mkfs; says so where either is missing.
pub(crate) fn detached_image(kind: &str) -> Option<OwnedFd> {
    let skipped = |why: &str| eprintln!("skipped: no {kind} can be made here: {why}");
    if !rustix::process::geteuid().is_root() {
        skipped("that takes root");
        return None;
    }
    let image = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    image.as_file().set_len(400 << 20).expect("a hole");
    let path = image.path().to_str().expect("a plain name");
    said(&format!("mkfs.{kind}"), &["-q", path]).map_err(|why| skipped(&why)).ok()?;
    let device = said("losetup", &["--find", "--show", path]).map_err(|why| skipped(&why)).ok()?;
    let open = File::open(&device);
    let mounted = rustix::mount::fsopen(kind, FsOpenFlags::FSOPEN_CLOEXEC).and_then(|made| {
        rustix::mount::fsconfig_set_string(made.as_fd(), "source", &*device)?;
        rustix::mount::fsconfig_create(made.as_fd())?;
        let (flags, none) = (FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty());
        rustix::mount::fsmount(made.as_fd(), flags, none)
    });
    // Somebody has it open, so it goes when that is closed.
    said("losetup", &["--detach", &device]).expect("losetup ran before");
    drop(open);
    mounted.map_err(|errno| skipped(&errno.to_string())).ok()
}

/// What a program says that succeeds; else what it complains about.
fn said(program: &str, words: &[&str]) -> Result<String, String> {
    let done = Command::new(program).args(words).output().map_err(|e| format!("{program}: {e}"))?;
    let (said, complaint) = (done.stdout, done.stderr);
    let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
    if done.status.success() { Ok(text(&said)) } else { Err(text(&complaint)) }
}

pub(crate) fn memfd() -> File {
    rustix::fs::memfd_create("bytepath-test", MemfdFlags::CLOEXEC).expect("a memfd").into()
}

pub(crate) fn pipe() -> (File, File) {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    (reader.into(), writer.into())
}

pub(crate) fn unix_pair() -> (File, File) {
    let (near, far) = UnixStream::pair().expect("a socket pair");
    (OwnedFd::from(near).into(), OwnedFd::from(far).into())
}

/// Connected through the loopback device.
pub(crate) fn tcp_pair() -> (File, File) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a listener");
    let near = TcpStream::connect(listener.local_addr().expect("its address")).expect("connected");
    let (far, _) = listener.accept().expect("accepted");
    (OwnedFd::from(near).into(), OwnedFd::from(far).into())
}

/// The slave side in raw mode, and its master.
pub(crate) fn tty_pair() -> (File, File) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags).expect("a terminal");
    rustix::pty::unlockpt(&master).expect("unlocked");
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags).expect("its slave side");
    let mut modes = rustix::termios::tcgetattr(&slave).expect("its modes");
    modes.make_raw();
    rustix::termios::tcsetattr(&slave, OptionalActions::Now, &modes).expect("raw mode");
    (slave.into(), master.into())
}

/// Sets or clears O_NONBLOCK, as another program that shares the descriptor might.
pub(crate) fn set_nonblock(fd: BorrowedFd<'_>, on: bool) {
    let mut flags = rustix::fs::fcntl_getfl(fd).expect("its flags");
    flags.set(OFlags::NONBLOCK, on);
    rustix::fs::fcntl_setfl(fd, flags).expect("its flags are set");
}
