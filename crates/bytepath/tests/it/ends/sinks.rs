//! The sinks: each can be asked for what arrived.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::thread::JoinHandle;

use rustix::fs::OFlags;

use crate::ends::{Pace, disk_file, memfd, pipe, tcp_pair, tmpfs_file, tty_pair, unix_pair};

/// What lies in a file before the position that it is written at.
const BEFORE: &[u8] = b"kept as it is";

/// One kind of sink.
pub(crate) struct SinkKind {
    pub(crate) name: &'static str,
    open: fn(Pace) -> Sink,
}

/// Every sink.
pub(crate) const SINKS: &[SinkKind] = &[
    SinkKind { name: "tmpfs file", open: |_| file(tmpfs_file()) },
    SinkKind { name: "disk file", open: |_| file(disk_file()) },
    SinkKind { name: "new disk file", open: |_| new(disk_file()) },
    SinkKind { name: "memfd", open: |_| file(memfd()) },
    SinkKind { name: "append file", open: |_| appending(tmpfs_file()) },
    SinkKind { name: "pipe", open: |pace| collected(swapped(pipe()), pace) },
    SinkKind { name: "unix socket", open: |pace| collected(unix_pair(), pace) },
    SinkKind { name: "tcp socket", open: |pace| collected(tcp_pair(), pace) },
    SinkKind { name: "tty", open: |pace| collected(tty_pair(), pace) },
    SinkKind { name: "/dev/null", open: |_| null() },
];

impl SinkKind {
    pub(crate) fn open(&self, pace: Pace) -> Sink {
        (self.open)(pace)
    }
}

/// The sink of this name.
pub(crate) fn by_name(name: &str) -> &'static SinkKind {
    SINKS.iter().find(|kind| kind.name == name).expect("a sink of this name")
}

/// An open sink.
pub(crate) struct Sink {
    file: File,
    arrives: Arrives,
}

enum Arrives {
    /// With a collector at the far end.
    Far(JoinHandle<Vec<u8>>),
    /// In the file itself, after what was there.
    Here { before: &'static [u8] },
    /// Nowhere that could be asked.
    Nowhere,
}

impl AsFd for Sink {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Sink {
    /// Closes the sink and gives what arrived; `None` where nobody can know.
    pub(crate) fn finish(mut self) -> Option<Vec<u8>> {
        match self.arrives {
            Arrives::Far(collector) => {
                drop(self.file);
                Some(collector.join().expect("the collector ends"))
            }
            Arrives::Here { before } => {
                let mut all = Vec::new();
                self.file.rewind().expect("the sink is rewound");
                self.file.read_to_end(&mut all).expect("the sink is read");
                let arrived = all.split_off(before.len());
                assert_eq!(all, before, "what was in the sink before");
                Some(arrived)
            }
            Arrives::Nowhere => None,
        }
    }
}

fn file(mut file: File) -> Sink {
    file.write_all(BEFORE).expect("the sink is written");
    Sink { file, arrives: Arrives::Here { before: BEFORE } }
}

fn new(file: File) -> Sink {
    Sink { file, arrives: Arrives::Here { before: b"" } }
}

fn appending(file: File) -> Sink {
    let mut sink = self::file(file);
    sink.file.seek(SeekFrom::Start(0)).expect("the sink is positioned");
    rustix::fs::fcntl_setfl(&sink.file, OFlags::APPEND).expect("O_APPEND is set");
    sink
}

fn collected((near, far): (File, File), pace: Pace) -> Sink {
    let collector = std::thread::spawn(move || pace.collect(far));
    Sink { file: near, arrives: Arrives::Far(collector) }
}

fn swapped((reader, writer): (File, File)) -> (File, File) {
    (writer, reader)
}

fn null() -> Sink {
    let file = File::options().write(true).open("/dev/null").expect("/dev/null opens");
    Sink { file, arrives: Arrives::Nowhere }
}
