//! A file system of a test's own, by FUSE: one file, which the test itself serves.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::program::{BYTEPATH, Done, installed, root, run};

/// What the file holds, and how it is served.
pub(crate) struct Served {
    pub(crate) bytes: Vec<u8>,
    /// The size that is told of it.
    pub(crate) size: usize,
    /// What a read is answered with at most: the server may answer short (FOPEN_DIRECT_IO).
    pub(crate) answer_bytes: usize,
}

/// Runs a line of shell in a folder in which `served/file` is that file; `None`, said aloud, where
/// nothing can be mounted.
#[track_caller]
pub(crate) fn shell(served: &Served, folder: &std::path::Path, line: &str) -> Option<Done> {
    let device = File::options().read(true).write(true).open("/dev/fuse");
    let (true, true, Ok(device)) = (root(), installed("unshare"), device) else {
        println!("skipped: serving a file system takes root, unshare(1) and FUSE");
        return None;
    };
    // The mount goes with its namespace.
    let line = format!(
        "cd {} && mkdir served && \
         mount -i -t fuse -o fd=0,rootmode=40000,user_id=0,group_id=0 none served && \
         exec </dev/null && {{ {line}; }}",
        folder.display()
    );
    let mut command = Command::new("unshare");
    command.args(["-m", "sh", "-c", &line]).env("bytepath", BYTEPATH);
    command.stdin(device.try_clone().expect("a descriptor"));
    let ended = AtomicBool::new(false);
    let done = std::thread::scope(|scope| {
        scope.spawn(|| served.serve(&device, &ended));
        let done = run(&mut command);
        ended.store(true, Ordering::Relaxed);
        done
    });
    if done.stderr.contains("unshare:") || done.stderr.contains("mount:") {
        println!("skipped: {}", done.stderr);
        return None;
    }
    Some(done)
}

/// See linux/fuse.h.
const LOOKUP: u32 = 1;
const FORGET: u32 = 2;
const GETATTR: u32 = 3;
const OPEN: u32 = 14;
const READ: u32 = 15;
const STATFS: u32 = 17;
const RELEASE: u32 = 18;
const FLUSH: u32 = 25;
const INIT: u32 = 26;
const INTERRUPT: u32 = 36;
const BATCH_FORGET: u32 = 42;
const FOPEN_DIRECT_IO: u32 = 1;

/// Bytes before what a request asks.
const HEADER_BYTES: usize = 40;

const ROOT: u64 = 1;

impl Served {
    /// Answers until the file system is gone.
    fn serve(&self, mut device: &File, ended: &AtomicBool) {
        let mut room = vec![0; 1 << 20];
        loop {
            match device.read(&mut room) {
                Ok(count) => {
                    if let Some(answer) = self.answer(&room[..count]) {
                        // Who asked may be gone.
                        let _ = device.write(&answer);
                    }
                }
                // It is not mounted yet.
                Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                    if ended.load(Ordering::Relaxed) {
                        return;
                    }
                    std::thread::yield_now();
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }

    fn answer(&self, request: &[u8]) -> Option<Vec<u8>> {
        let word = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().expect("four"));
        let long = |at: usize| u64::from_ne_bytes(request[at..at + 8].try_into().expect("eight"));
        let (kind, unique, node) = (word(4), long(8), long(16));
        let body = match kind {
            FORGET | BATCH_FORGET | INTERRUPT => return None,
            INIT => Ok(introduction()),
            LOOKUP if &request[HEADER_BYTES..] == b"file\0" => {
                Ok([longs(&[2, 0, 0, 0, 0]), self.attributes(2)].concat())
            }
            LOOKUP => Err(rustix::io::Errno::NOENT),
            GETATTR => Ok([longs(&[0, 0]), self.attributes(node)].concat()),
            OPEN => Ok([longs(&[0]), words(&[FOPEN_DIRECT_IO, 0])].concat()),
            READ => {
                let most = (word(HEADER_BYTES + 16) as usize).min(self.answer_bytes);
                Ok(self.from(long(HEADER_BYTES + 8)).iter().take(most).copied().collect())
            }
            STATFS => Ok([longs(&[0; 5]), words(&[4096, 255, 4096, 0, 0, 0, 0, 0, 0, 0])].concat()),
            RELEASE | FLUSH => Ok(Vec::new()),
            _ => Err(rustix::io::Errno::NOSYS),
        };
        let error = body.as_ref().err().map_or(0, |errno| errno.raw_os_error().wrapping_neg());
        let body = body.unwrap_or_default();
        let length = 16 + u32::try_from(body.len()).expect("short");
        Some([words(&[length, error.cast_unsigned()]), longs(&[unique]), body].concat())
    }

    fn from(&self, at: u64) -> &[u8] {
        usize::try_from(at).ok().and_then(|at| self.bytes.get(at..)).unwrap_or_default()
    }

    fn attributes(&self, node: u64) -> Vec<u8> {
        let bytes = self.size as u64;
        let (mode, bytes) = if node == ROOT { (0o040_755, 0) } else { (0o100_644, bytes) };
        let times_and_sizes = longs(&[node, bytes, bytes.div_ceil(512), 0, 0, 0]);
        [times_and_sizes, words(&[0, 0, 0, mode, 1, 0, 0, 0, 4096, 0])].concat()
    }
}

/// The version of the protocol, and limits.
fn introduction() -> Vec<u8> {
    let mut words = words(&[7, 31, 0, 0, 0, 128 << 10, 1]);
    words.resize(64, 0);
    words
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

fn longs(longs: &[u64]) -> Vec<u8> {
    longs.iter().flat_map(|long| long.to_ne_bytes()).collect()
}
