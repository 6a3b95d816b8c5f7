//! What reading brought of a file into the page cache, told from what was there before, and dropped.
//!
//! Pages are looked at well ahead of the reading, because the kernel reads ahead of it too.

use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, BorrowedFd};

use rustix::fs::Advice;
use rustix::io::Errno;

use super::WINDOW_BYTES;
use crate::endpoint::{Endpoint, Kind};
use crate::error::{Refusal, Stop};
use crate::page_cache;
use crate::pages::HUGE_PAGE_BYTES;

/// Looked at ahead: more than the kernel reads ahead, unless its administrator made that more.
const AHEAD_BYTES: u64 = 32 << 20;

/// The pages of a file, from one on.
pub(super) struct Brought<'a> {
    file: BorrowedFd<'a>,
    page_bytes: u64,
    /// The byte up to which it was read.
    at: u64,
    /// How much of that since pages were dropped.
    window_bytes: u64,
    /// The first page of those that are noted.
    first: u64,
    /// Whether each page from there on was in the page cache before.
    before: VecDeque<bool>,
}

impl<'a> Brought<'a> {
    /// The pages from so many bytes on behind where a source stands; none where it has no pages.
    pub(super) fn from(source: &'a Endpoint<'_>, behind: u64) -> Result<Option<Brought<'a>>, Stop> {
        if source.kind() != Kind::File {
            return Ok(None);
        }
        match page_cache::is_told(source) {
            Ok(true) => {}
            Ok(false) => {
                return Err(Stop::Declined(Refusal::because(
                    "the kernel tells only who owns or may write the source what of it is in the \
                     page cache",
                )));
            }
            // What cannot be mapped (/proc) is not in the page cache.
            Err(Errno::NODEV | Errno::IO) => return Ok(None),
            Err(errno) => return Err(refused(errno)),
        }
        let page_bytes = rustix::param::page_size() as u64;
        let at = rustix::fs::tell(source).map_err(refused)?.saturating_add(behind);
        let (file, first) = (source.as_fd(), at / page_bytes);
        let before = VecDeque::new();
        let mut brought = Brought { file, page_bytes, at, window_bytes: 0, first, before };
        brought.look()?;
        Ok(Some(brought))
    }

    /// To be called before so many bytes are read.
    pub(super) fn before(&mut self, bytes: usize) -> Result<(), Stop> {
        match self.seen_bytes() < self.at + bytes as u64 + AHEAD_BYTES / 2 {
            true => self.look(),
            false => Ok(()),
        }
    }

    /// Notes that so many bytes were read; those of a window are dropped together.
    pub(super) fn gave(&mut self, bytes: usize) -> Result<(), Stop> {
        self.at += bytes as u64;
        self.window_bytes += bytes as u64;
        if self.window_bytes < WINDOW_BYTES {
            return Ok(());
        }
        self.window_bytes = 0;
        let read = (self.at / self.page_bytes).saturating_sub(self.first) as usize;
        self.drop(read)?;
        // Large pages that reach into what is not read yet are dropped with the next window.
        let kept = (HUGE_PAGE_BYTES as u64 / self.page_bytes) as usize;
        let past = read.min(self.before.len()).saturating_sub(kept);
        self.before.drain(..past);
        self.first += past as u64;
        Ok(())
    }

    /// Drops the rest, with what the kernel read ahead.
    pub(super) fn settle(self) -> Result<(), Stop> {
        self.drop(self.before.len())
    }

    fn seen_bytes(&self) -> u64 {
        (self.first + self.before.len() as u64) * self.page_bytes
    }

    /// Looks at the pages ahead.
    fn look(&mut self) -> Result<(), Stop> {
        let from = self.seen_bytes();
        let to = self.at + AHEAD_BYTES;
        self.before.extend(page_cache::residency(self.file, from..to).map_err(refused)?);
        Ok(())
    }

    /// Drops those of the first `pages` that were not there before.
    fn drop(&self, pages: usize) -> Result<(), Stop> {
        let mut at = self.first;
        let pages: Vec<bool> = self.before.iter().take(pages).copied().collect();
        for run in pages.chunk_by(|one, next| one == next) {
            let bytes = NonZeroU64::new(run.len() as u64 * self.page_bytes);
            if !run[0] {
                let from = at * self.page_bytes;
                rustix::fs::fadvise(self.file, from, bytes, Advice::DontNeed).map_err(refused)?;
            }
            at += run.len() as u64;
        }
        Ok(())
    }
}

fn refused(errno: Errno) -> Stop {
    let reason = "what the page cache has of the source can be neither told nor dropped";
    Stop::Declined(Refusal::errno(reason, errno))
}
