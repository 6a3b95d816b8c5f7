//! Files that are done with, closed together: those that were opened one after the other have
//! consecutive numbers, and one call closes all of them.
//!
//! Only for what was read: an error that closing tells is lost.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, IntoRawFd, OwnedFd};

/// Files that are closed when they are so many.
pub(crate) struct Spent {
    files: Vec<OwnedFd>,
    together: usize,
}

impl Spent {
    /// Closes so many at a time.
    pub(crate) fn by(together: usize) -> Spent {
        Spent { files: Vec::with_capacity(together), together }
    }

    /// Closes this file, now or with the next ones.
    pub(crate) fn push(&mut self, file: OwnedFd) {
        self.files.push(file);
        if self.files.len() >= self.together {
            self.close();
        }
    }

    fn close(&mut self) {
        let follows = |pair: &[OwnedFd]| pair[0].as_raw_fd() + 1 == pair[1].as_raw_fd();
        if self.files.len() < 2 || !self.files.windows(2).all(follows) || !answers() {
            return self.files.clear();
        }
        let numbers = self.files.drain(..).map(|file| file.into_raw_fd().cast_unsigned());
        let (first, last) = numbers
            .fold((u32::MAX, 0), |(first, last), number| (first.min(number), last.max(number)));
        // SAFETY: every descriptor of the range was owned here, and nobody else has one of them.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
}

/// Whether the kernel has the call, and it is allowed. It is asked once, for no descriptor at all.
fn answers() -> bool {
    static ANSWERS: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    const NONE: libc::c_uint = libc::c_uint::MAX;
    // SAFETY: no descriptor has this number.
    *ANSWERS.get_or_init(|| unsafe { libc::syscall(libc::SYS_close_range, NONE, NONE, 0) } == 0)
}

impl Drop for Spent {
    fn drop(&mut self) {
        self.close();
    }
}
