//! The stream's checksum, by a thread of its own: it is one more reader of a pipe.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::thread::JoinHandle;

use bytepath::pages::AlignedBuffer;
use clap::ValueEnum;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use sha2::Digest as _;
use xxhash_rust::xxh3::Xxh3;

/// Enough to make the system call a small part of the cost, and little enough to stay in the cache.
const BUFFER_BYTES: usize = 128 << 10;

/// Which checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Algorithm {
    /// The 64 bits of XXH3: fast, and no protection against intent
    Xxh3,
    /// SHA-256, as sha256sum has it
    Sha256,
    /// BLAKE3, as b3sum has it
    Blake3,
}

impl Algorithm {
    pub(super) fn name(self) -> &'static str {
        match self {
            Algorithm::Xxh3 => "xxh3",
            Algorithm::Sha256 => "sha256",
            Algorithm::Blake3 => "blake3",
        }
    }
}

/// A checksum under way.
pub(super) struct Hashing {
    pub(super) algorithm: Algorithm,
    writer: OwnedFd,
    thread: JoinHandle<Result<String, Errno>>,
}

impl Hashing {
    /// # Errors
    /// The process is out of descriptors, or has no memory for a thread.
    pub(super) fn start(algorithm: Algorithm) -> io::Result<Hashing> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let thread = std::thread::Builder::new().spawn(move || hash(algorithm, &reader))?;
        Ok(Hashing { algorithm, writer, thread })
    }

    /// Where the stream is to go.
    pub(super) fn sink(&self) -> BorrowedFd<'_> {
        self.writer.as_fd()
    }

    /// The checksum of all that came, in hexadecimal digits.
    ///
    /// # Errors
    /// The kernel's word.
    pub(super) fn finish(self) -> Result<String, Errno> {
        drop(self.writer);
        self.thread.join().unwrap_or(Err(Errno::IO))
    }
}

fn hash(algorithm: Algorithm, reader: &OwnedFd) -> Result<String, Errno> {
    match algorithm {
        Algorithm::Xxh3 => {
            let mut state = Xxh3::new();
            read_all(reader, |bytes| state.update(bytes))?;
            Ok(format!("{:016x}", state.digest()))
        }
        Algorithm::Sha256 => {
            let mut state = sha2::Sha256::new();
            read_all(reader, |bytes| state.update(bytes))?;
            Ok(state.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
        }
        Algorithm::Blake3 => {
            let mut state = blake3::Hasher::new();
            read_all(reader, |bytes| {
                state.update(bytes);
            })?;
            Ok(state.finalize().to_hex().to_string())
        }
    }
}

fn read_all(reader: &OwnedFd, mut take: impl FnMut(&[u8])) -> Result<(), Errno> {
    let mut buffer = AlignedBuffer::new(BUFFER_BYTES);
    loop {
        match rustix::io::retry_on_intr(|| rustix::io::read(reader, &mut buffer[..]))? {
            0 => return Ok(()),
            count => take(&buffer[..count]),
        }
    }
}
