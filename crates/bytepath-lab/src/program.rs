//! The program that measures, whose workers are started by the name of its file: which build it is, and
//! whether another has taken that name.

use std::fs::{File, Metadata};
use std::io;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use bytepath_report::Build;
use rustix::fs::{Mode, OFlags};
use xxhash_rust::xxh3::Xxh3;

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

    /// Which bytepath this is: the version, and a checksum of the executable's bytes (XXH3, 64 bits).
    pub fn build(&self) -> Build {
        // Piece by piece: one with all its symbols takes more memory than a small group has.
        let sum = File::open(self.kept()).and_then(|mut file| {
            let (mut sum, mut piece) = (Xxh3::new(), vec![0; 64 << 10]);
            loop {
                match file.read(&mut piece) {
                    Ok(0) => return Ok(sum.digest()),
                    Ok(n) => sum.update(&piece[..n]),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        });
        Build {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            build: sum.map_or_else(|_| "unknown".to_owned(), |sum| format!("{sum:016x}")),
        }
    }
}
