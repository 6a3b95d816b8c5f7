//! The sources: each is fed with known contents, and can be asked for what was not taken.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread::JoinHandle;

use crate::ends::{
    Pace, disk_file, memfd, pipe, set_nonblock, tcp_pair, tmpfs_file, tty_pair, unix_pair,
};

/// What lies in most files before the position that they are read from.
const BEFORE: &[u8] = b"before";

/// One kind of source.
pub(crate) struct SourceKind {
    pub(crate) name: &'static str,
    pub(crate) supply: Supply,
    open: fn(&'static [u8], Pace, Option<usize>) -> Source,
}

/// How the source ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Supply {
    /// Where the contents do.
    Ends,
    /// It gives the contents and then keeps its reader waiting, so that it takes a limit to end.
    Waits,
    /// It gives zeros for ever.
    Endless,
}

/// Every source.
pub(crate) const SOURCES: &[SourceKind] = &[
    SourceKind {
        name: "tmpfs file",
        supply: Supply::Ends,
        open: |all, _, _| file(tmpfs_file(), BEFORE, all),
    },
    SourceKind {
        name: "disk file",
        supply: Supply::Ends,
        open: |all, _, _| file(disk_file(), BEFORE, all),
    },
    SourceKind {
        name: "whole disk file",
        supply: Supply::Ends,
        open: |all, _, _| file(disk_file(), b"", all),
    },
    SourceKind { name: "memfd", supply: Supply::Ends, open: |all, _, _| file(memfd(), b"", all) },
    SourceKind {
        name: "pipe",
        supply: Supply::Ends,
        open: |all, pace, bytes| fed(sized_pipe(bytes), all, pace),
    },
    SourceKind {
        name: "unix socket",
        supply: Supply::Ends,
        open: |all, pace, _| fed(unix_pair(), all, pace),
    },
    SourceKind {
        name: "tcp socket",
        supply: Supply::Ends,
        open: |all, pace, _| fed(tcp_pair(), all, pace),
    },
    SourceKind { name: "tty", supply: Supply::Waits, open: terminal },
    SourceKind { name: "/dev/zero", supply: Supply::Endless, open: |_, _, _| zero() },
];

impl SourceKind {
    /// Opens one that gives `contents`.
    pub(crate) fn open(&self, contents: &'static [u8], pace: Pace) -> Source {
        (self.open)(contents, pace, None)
    }

    /// The same; a pipe is made of this size before anything is in it.
    pub(crate) fn open_sized(
        &self,
        contents: &'static [u8],
        pace: Pace,
        pipe_bytes: Option<usize>,
    ) -> Source {
        (self.open)(contents, pace, pipe_bytes)
    }
}

/// The source of this name.
pub(crate) fn by_name(name: &str) -> &'static SourceKind {
    SOURCES.iter().find(|kind| kind.name == name).expect("a source of this name")
}

/// An open source.
pub(crate) struct Source {
    file: File,
    feeder: Option<JoinHandle<Option<File>>>,
    supply: Supply,
}

impl AsFd for Source {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Source {
    /// What a reader finds who comes after the transfer. A source that would keep its reader
    /// waiting is asked for `expected` bytes, and must then be empty.
    pub(crate) fn rest(mut self, expected: usize) -> Vec<u8> {
        set_nonblock(self.file.as_fd(), false);
        let mut rest = Vec::new();
        match self.supply {
            Supply::Ends => rest = Pace::Whole.collect(&self.file),
            Supply::Waits => {
                rest.resize(expected, 0);
                self.file.read_exact(&mut rest).expect("the rest can be read");
                assert_eq!(rustix::io::ioctl_fionread(&self.file), Ok(0), "more than expected");
            }
            Supply::Endless => {}
        }
        if let Some(feeder) = self.feeder.take() {
            feeder.join().expect("the feeder ends");
        }
        rest
    }
}

fn file(mut file: File, before: &[u8], all: &'static [u8]) -> Source {
    file.write_all(before).and_then(|()| file.write_all(all)).expect("the source is written");
    file.seek(SeekFrom::Start(before.len() as u64)).expect("the source is positioned");
    Source { file, feeder: None, supply: Supply::Ends }
}

fn sized_pipe(bytes: Option<usize>) -> (File, File) {
    let (reader, writer) = pipe();
    if let Some(bytes) = bytes {
        rustix::pipe::fcntl_setpipe_size(&writer, bytes).expect("the pipe has this size");
    }
    (reader, writer)
}

fn fed((near, far): (File, File), all: &'static [u8], pace: Pace) -> Source {
    let feeder = std::thread::spawn(move || {
        pace.feed(&far, all);
        None
    });
    Source { file: near, feeder: Some(feeder), supply: Supply::Ends }
}

/// The master stays open, as its closing would take what the slave has not read.
fn terminal(all: &'static [u8], pace: Pace, _: Option<usize>) -> Source {
    let (slave, master) = tty_pair();
    let feeder = std::thread::spawn(move || {
        pace.feed(&master, all);
        Some(master)
    });
    Source { file: slave, feeder: Some(feeder), supply: Supply::Waits }
}

fn zero() -> Source {
    let file = File::open("/dev/zero").expect("/dev/zero opens");
    Source { file, feeder: None, supply: Supply::Endless }
}
