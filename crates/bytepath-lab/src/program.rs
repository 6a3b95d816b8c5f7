//! The program that measures, whose workers are started by the name of its file: which build it is, and
//! whether another has taken that name.

use std::fs::Metadata;
use std::io;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bytepath_report::Build;
use rustix::fs::{Mode, OFlags};

/// This program, as it was when it was first asked for.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    /// Keeps the file, and so its number, from being gone: whoever takes the name has another number.
    file: OwnedFd,
}

impl Program {
    /// This program, found once.
    ///
    /// # Errors
    /// The kernel does not tell its file, or that is gone.
    pub fn this() -> io::Result<&'static Program> {
        static THIS: OnceLock<Program> = OnceLock::new();
        match THIS.get() {
            Some(this) => Ok(this),
            None => Program::found().map(|found| THIS.get_or_init(|| found)),
        }
    }

    fn found() -> io::Result<Program> {
        let path = std::env::current_exe()?;
        // A program that may be run and not read is found as well.
        let file = rustix::fs::open(&path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Program { path, file })
    }

    /// Where it lies.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether what lies under its name now is something else, or nothing. A program that runs cannot be
    /// written to, so the same file is the same program.
    pub fn is_replaced(&self) -> bool {
        !std::fs::metadata(&self.path).is_ok_and(|now| self.is(&now))
    }

    /// Whether it is this file.
    pub(crate) fn is(&self, other: &Metadata) -> bool {
        std::fs::metadata(self.kept())
            .is_ok_and(|own| (own.dev(), own.ino()) == (other.dev(), other.ino()))
    }

    /// The file that is kept, whatever has its name.
    fn kept(&self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.file.as_raw_fd()))
    }

    /// Which bytepath this is: the version, and a hash of the executable's bytes (64-bit FNV-1a).
    pub fn build(&self) -> Build {
        // Piece by piece: one with all its symbols takes more memory than a small group has.
        let hash = std::fs::File::open(self.kept()).and_then(|file| {
            let mut bytes = std::io::BufReader::with_capacity(64 << 10, file).bytes();
            bytes.try_fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                Ok((hash ^ u64::from(byte?)).wrapping_mul(0x0000_0100_0000_01b3))
            })
        });
        Build {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: hash.map_or_else(|_| "unknown".to_owned(), |hash| format!("{hash:016x}")),
        }
    }
}
