//! How large the pipes between stages are made: as asked, or 1 MiB, or what is a fair share of what this
//! user's pipes may have in all, or what the kernel gives.

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
    /// What all of them may have together; no limit is asked of this machine where it is none.
    budget_bytes: Option<usize>,
}

impl PipeSize {
    /// In a budget of half of what this user's pipes may have: past that, the kernel makes all that
    /// the user opens no larger than two pages.
    pub(super) fn new(asked: Option<usize>) -> PipeSize {
        let limit = || {
            let limits = Machine::this().pipes();
            // Who gets more than the largest size is not held to the sum either.
            let is_free = limits.largest_bytes > limits.max_bytes;
            let pages = limits.user_pages_soft.filter(|pages| *pages > 0 && !is_free)?;
            Some(usize::try_from(pages).ok()?.saturating_mul(rustix::param::page_size()))
        };
        // As the kernel rounds it.
        let rounded =
            |bytes: usize| bytes.max(rustix::param::page_size()).checked_next_power_of_two();
        let asked = asked.map(|bytes| rounded(bytes).unwrap_or(bytes));
        let budget_bytes = if asked.is_none() { limit().map(|bytes| bytes / 2) } else { None };
        PipeSize { asked, budget_bytes }
    }

    /// What each of so many new pipes is to have, beside others that have so much already.
    pub(super) fn each_of(&self, pipes: usize, taken_bytes: usize) -> usize {
        let left = self.budget_bytes.map(|budget| budget.saturating_sub(taken_bytes));
        let share = left.map_or(USUAL_BYTES, |left| left / pipes.max(1));
        // The largest power of two in it.
        let share = share.checked_ilog2().map_or(0, |log| 1 << log);
        self.asked.unwrap_or(share.min(USUAL_BYTES))
    }

    /// So many pipes, for a person.
    pub(super) fn said(&self, pipes: usize) -> String {
        match self.each_of(pipes, 0) {
            bytes if self.asked.is_none() && bytes < LEAST_BYTES => {
                "pipes as the kernel makes them".to_owned()
            }
            bytes => format!("pipes of {}", bytepath_report::numbers::bytes(bytes as u64)),
        }
    }

    /// Makes a pipe so large, or as the kernel lets it; one that is larger already is left so, and
    /// so is one that would gain nothing, unless a size was asked for.
    ///
    /// # Errors
    /// What it has instead, why, and what would help.
    pub(super) fn enlarge(&self, pipe: impl AsFd, wanted: usize) -> Result<(), String> {
        let has = fcntl_getpipe_size(&pipe).unwrap_or(0);
        let is_enough = has > wanted || wanted < LEAST_BYTES;
        if has == wanted || (self.asked.is_none() && is_enough) {
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
        if PipeSize::new(None).enlarge(&read, USUAL_BYTES).is_err() {
            println!("skipped: this user may not have a pipe of 1 MiB now");
            return;
        }
        assert_eq!(fcntl_getpipe_size(&read), Ok(USUAL_BYTES));
        let asked = PipeSize::new(Some(128 << 10));
        assert_eq!(asked.enlarge(&read, asked.each_of(200, 0)), Ok(()));
        assert_eq!(fcntl_getpipe_size(&read), Ok(128 << 10));
        let asked = PipeSize::new(Some((64 << 10) + 1));
        assert_eq!(asked.enlarge(&read, asked.each_of(1, 0)), Ok(()));
        assert_eq!(
            fcntl_getpipe_size(&read),
            Ok(asked.each_of(1, 0)),
            "what is shown is what comes"
        );
    }

    #[test]
    fn many_pipes_share_what_a_user_may_have_and_leave_half_of_it() {
        let size = PipeSize { asked: None, budget_bytes: Some(32 << 20) };
        let each = |pipes, taken_mib: usize| size.each_of(pipes, taken_mib << 20);
        assert_eq!([each(1, 0), each(32, 0), each(33, 0)], [1 << 20, 1 << 20, 512 << 10]);
        assert_eq!([each(149, 0), each(8, 30), each(1, 32)], [128 << 10, 256 << 10, 0]);
        let said = [149, 257].map(|pipes| size.said(pipes));
        assert_eq!(said, ["pipes of 128 KiB", "pipes as the kernel makes them"]);
        assert_eq!(PipeSize { asked: Some(4096), ..size }.said(257), "pipes of 4 KiB");
        let free = PipeSize { asked: None, budget_bytes: None };
        assert_eq!(free.each_of(1000, 1 << 40), USUAL_BYTES);
        let (read, _write) = rustix::pipe::pipe().expect("a pipe");
        let has = fcntl_getpipe_size(&read);
        assert_eq!(size.enlarge(&read, each(1, 32)), Ok(()));
        assert_eq!(fcntl_getpipe_size(&read), has, "it is left as it is");
    }

    #[test]
    fn what_is_refused_says_what_to_do() {
        let text = why_not(1 << 30, 1 << 20, Errno::PERM);
        assert!(text.contains("has 1048576 bytes and not 1073741824"), "{text}");
        assert!(why_not(1 << 20, 8192, Errno::PERM).contains("fs.pipe-"));
    }
}
