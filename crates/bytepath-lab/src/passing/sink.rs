//! Where received bytes go: into a file, into a checksum, or nowhere.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::path::Path;

use bytepath::channel::SharedBytes;
use xxhash_rust::xxh3::Xxh3;

use crate::pair_work::unnamed;

/// What becomes of received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keeps {
    /// They are written to a file.
    File,
    /// They are looked at: their XXH3 checksum is taken.
    Checksum,
    /// Nothing: nobody looks at them.
    Nothing,
}

impl Keeps {
    /// The names that [`Keeps::named`] takes.
    pub const NAMES: &[&str] = &["file", "hash", "drop"];

    /// By its name on the command line.
    pub fn named(name: &str) -> Option<Keeps> {
        Some(match name {
            "file" => Keeps::File,
            "hash" => Keeps::Checksum,
            "drop" => Keeps::Nothing,
            _ => return None,
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Keeps::File => "file",
            Keeps::Checksum => "hash",
            Keeps::Nothing => "drop",
        }
    }
}

/// Bytes of a ring are copied in pieces that stay in the first-level cache, and summed there.
const NEAR_BYTES: usize = 8 << 10;

/// Where received bytes go.
pub struct Sink {
    bytes: u64,
    to: To,
}

enum To {
    File(File),
    Checksum(Box<(Xxh3, [u8; NEAR_BYTES])>),
    Nothing,
}

impl Sink {
    /// A new one; a file is made in this directory, without a name.
    ///
    /// # Errors
    /// No file can be made there.
    pub fn open(keeps: Keeps, directory: &Path) -> io::Result<Sink> {
        let to = match keeps {
            Keeps::File => To::File(unnamed(directory)?),
            Keeps::Checksum => To::Checksum(Box::new((Xxh3::new(), [0; NEAR_BYTES]))),
            Keeps::Nothing => To::Nothing,
        };
        Ok(Sink { bytes: 0, to })
    }

    /// How many have come.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The file, if they go to one.
    pub(super) fn file(&self) -> Option<&File> {
        match &self.to {
            To::File(file) => Some(file),
            To::Checksum(_) | To::Nothing => None,
        }
    }

    /// Whether nobody looks at them.
    pub(super) fn drops(&self) -> bool {
        matches!(self.to, To::Nothing)
    }

    /// Counts bytes that the kernel has taken where they go.
    pub(super) fn moved(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Takes bytes of this process; the system calls that it made.
    pub(super) fn take(&mut self, bytes: &[u8]) -> io::Result<u64> {
        self.bytes += bytes.len() as u64;
        match &mut self.to {
            To::File(file) => return file.write_all(bytes).map(|()| 1),
            To::Checksum(sum) => sum.0.update(bytes),
            To::Nothing => {}
        }
        Ok(0)
    }

    /// Takes bytes of a ring; the system calls that it made.
    pub(super) fn take_shared(&mut self, bytes: SharedBytes<'_>) -> io::Result<u64> {
        self.bytes += bytes.len() as u64;
        match &mut self.to {
            To::File(file) => return written(bytes, file),
            To::Checksum(sum) => {
                let (sum, near) = &mut **sum;
                for at in (0..bytes.len()).step_by(NEAR_BYTES) {
                    let piece = bytes.range(at..bytes.len().min(at + NEAR_BYTES));
                    let near = &mut near[..piece.len()];
                    piece.copy_to(near);
                    sum.update(near);
                }
            }
            To::Nothing => {}
        }
        Ok(0)
    }

    /// The checksum of all that came, where it was kept; a file is read again.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn checksum(self) -> io::Result<Option<u64>> {
        match self.to {
            To::File(file) => checksum(file).map(Some),
            To::Checksum(sum) => Ok(Some(sum.0.digest())),
            To::Nothing => Ok(None),
        }
    }
}

fn written(bytes: SharedBytes<'_>, file: &File) -> io::Result<u64> {
    let (mut done, mut calls) = (0, 0);
    while done < bytes.len() {
        let rest = bytes.range(done..bytes.len());
        done += super::uninterrupted(|| rest.write_to(file))?;
        calls += 1;
    }
    Ok(calls)
}

/// The XXH3 checksum of a whole file.
///
/// # Errors
/// It cannot be read.
pub fn checksum(mut file: File) -> io::Result<u64> {
    let (mut sum, mut buffer) = (Xxh3::new(), vec![0; 1 << 20]);
    file.rewind()?;
    loop {
        match super::uninterrupted(|| file.read(&mut buffer))? {
            0 => return Ok(sum.digest()),
            count => sum.update(&buffer[..count]),
        }
    }
}
