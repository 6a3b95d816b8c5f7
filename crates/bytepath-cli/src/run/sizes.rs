//! How large the pipes between stages are made: as asked or 1 MiB, or what the kernel gives.

use std::os::fd::AsFd;

use bytepath::machine::Machine;
use rustix::io::Errno;
use rustix::pipe::{fcntl_getpipe_size, fcntl_setpipe_size};

/// What most machines allow to anybody, and more has gained nothing between unmodified programs.
const USUAL_BYTES: usize = 1 << 20;
/// Below this nothing is gained.
const LEAST_BYTES: usize = 128 << 10;

/// The size that pipes are to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PipeSize {
    asked: Option<usize>,
}

impl PipeSize {
    pub(super) fn new(asked: Option<usize>) -> PipeSize {
        PipeSize { asked }
    }

    /// Makes a pipe as large as it is to be, or as the kernel lets it; one that is larger already is
    /// left so, unless a size was asked for.
    ///
    /// # Errors
    /// What it has instead, why, and what would help.
    pub(super) fn enlarge(&self, pipe: impl AsFd) -> Result<(), String> {
        let has = fcntl_getpipe_size(&pipe).unwrap_or(0);
        let wanted = self.asked.unwrap_or(USUAL_BYTES);
        if has == wanted || (self.asked.is_none() && has > wanted) {
            return Ok(());
        }
        let mut refused = match fcntl_setpipe_size(&pipe, wanted) {
            Ok(_) => return Ok(()),
            Err(errno) => errno,
        };
        let mut smaller = wanted / 2;
        while smaller >= LEAST_BYTES && smaller > has {
            match fcntl_setpipe_size(&pipe, smaller) {
                Ok(_) => break,
                Err(errno) => refused = errno,
            }
            smaller /= 2;
        }
        Err(why_not(wanted, fcntl_getpipe_size(&pipe).unwrap_or(has), refused))
    }
}

fn why_not(wanted: usize, has: usize, errno: Errno) -> String {
    let limits = Machine::this().pipes();
    let why = match (errno, limits.max_bytes) {
        (Errno::BUSY, _) => "more than that is in it".to_owned(),
        (Errno::PERM, Some(max)) if wanted > max => format!("above fs.pipe-max-size ({max}); use --pipe-size {max}, or raise it as root"),
        (Errno::PERM, _) => "this user's pipes reach fs.pipe-user-pages-soft; use a smaller --pipe-size, or raise it as root".to_owned(),
        _ => std::io::Error::from(errno).to_string(),
    };
    format!("a pipe has {has} bytes and not {wanted}: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pipes_get_1_mib_or_what_was_asked_for_and_larger_ones_are_left() {
        let (read, _write) = rustix::pipe::pipe().expect("a pipe");
        if PipeSize::new(None).enlarge(&read).is_err() {
            println!("skipped: this user may not have a pipe of 1 MiB now");
            return;
        }
        assert_eq!(fcntl_getpipe_size(&read), Ok(USUAL_BYTES));
        assert_eq!(PipeSize::new(Some(128 << 10)).enlarge(&read), Ok(()));
        assert_eq!(fcntl_getpipe_size(&read), Ok(128 << 10));
    }

    #[test]
    fn what_is_refused_says_what_to_do() {
        let text = why_not(1 << 30, 1 << 20, Errno::PERM);
        assert!(text.contains("has 1048576 bytes and not 1073741824"), "{text}");
        assert!(why_not(1 << 20, 8192, Errno::PERM).contains("fs.pipe-"));
    }
}
