//! What a ring keeps from one request to the next: files, buffers, credentials, an eventfd.

#![allow(unsafe_code)]

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::{Ring, word};
use crate::error::Refusal;
use crate::ring::{Buffer, FilePlace, Personality, Registered, Target};
use crate::size::shown;

/// A number that no other ring of this process has.
pub(super) fn next_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl<'fd> Ring<'fd> {
    /// Has the ring keep these files, so that no request has to look its file up. Once per ring.
    ///
    /// # Errors
    /// The kernel's word: EBUSY where there are some already, EMFILE above RLIMIT_NOFILE.
    pub fn register_files(
        &mut self,
        files: &[BorrowedFd<'fd>],
    ) -> Result<Vec<Target<'fd>>, Refusal> {
        let numbers: Vec<_> = files.iter().map(|file| file.as_raw_fd()).collect();
        self.calls += 1;
        let answer = self.ring().submitter().register_files(&numbers);
        answer.map_err(|error| {
            let errno = word(error);
            let refusal = Refusal::errno(format!("cannot register {} files", files.len()), errno);
            match errno {
                Errno::BUSY => refusal.remedy("a ring takes files once: register all together"),
                Errno::MFILE => refusal.remedy("raise ulimit -n, or register fewer"),
                _ => refusal,
            }
        })?;
        let ring = self.id;
        let target = |index| Target::Registered(FilePlace { ring, index });
        Ok((0..files.len() as u32).map(target).collect())
    }

    /// Makes room for so many files that the ring is to take itself: see
    /// [`Operation::AcceptRegistered`](crate::ring::Operation::AcceptRegistered). Once per ring, in
    /// the place of [`Ring::register_files`].
    ///
    /// # Errors
    /// The kernel's word: EINVAL before Linux 5.19, EBUSY where there are some already, EMFILE above
    /// RLIMIT_NOFILE.
    pub fn register_room(&mut self, files: u32) -> Result<(), Refusal> {
        self.calls += 1;
        self.ring().submitter().register_files_sparse(files).map_err(|error| {
            let errno = word(error);
            let refusal = Refusal::errno(format!("cannot register room for {files} files"), errno);
            match errno {
                Errno::INVAL => refusal.remedy("Linux 5.19 and later can"),
                Errno::MFILE => refusal.remedy("raise ulimit -n, or register less"),
                _ => refusal,
            }
        })
    }

    /// Pins the pages of these buffers, so that no request has to. Once per ring. They count
    /// against RLIMIT_MEMLOCK until the ring is dropped.
    ///
    /// # Errors
    /// The kernel's word, and the limit that the buffers pass.
    pub fn register_buffers(&mut self, buffers: Vec<Buffer>) -> Result<Vec<Buffer>, Refusal> {
        let total: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let pieces: Vec<_> = buffers
            .iter()
            .map(|buffer| libc::iovec {
                iov_base: buffer.memory.mapping().pointer_to(0..buffer.len()).cast(),
                iov_len: buffer.len(),
            })
            .collect();
        self.calls += 1;
        // SAFETY: the kernel takes references of its own to the pages, and reads or writes them
        // only for requests, each of which owns the buffer that it names.
        let answer = unsafe { self.ring().submitter().register_buffers(&pieces) };
        answer.map_err(|error| unpinned(total, word(error)))?;
        let registered = |index| Some(Registered { ring: self.id, index });
        let number = |(index, buffer)| Buffer { registered: registered(index), ..buffer };
        Ok((0..=u16::MAX).zip(buffers).map(number).collect())
    }

    /// Registers the rights that the thread has now, for requests to be carried out with later.
    ///
    /// # Errors
    /// The kernel's word: EINVAL where it does not know of this (Linux 5.6 does).
    pub fn register_personality(&mut self) -> Result<Personality, Refusal> {
        self.calls += 1;
        let answer = self.ring().submitter().register_personality();
        answer.map(|id| Personality { ring: self.id, id }).map_err(|error| {
            Refusal::errno("cannot register this thread's credentials", word(error))
                .remedy("Linux 5.6 and later can")
        })
    }

    /// Counts up an eventfd with each completion, for whoever waits for other things as well: once
    /// it is readable, [`Ring::submit`], then [`Ring::take`] until there is none, and both again until
    /// a submit brings none.
    ///
    /// # Errors
    /// The kernel's word: EBUSY where there is one already, EINVAL where it is no eventfd.
    pub fn notify(&mut self, eventfd: BorrowedFd<'_>) -> Result<(), Refusal> {
        self.calls += 1;
        let answer = self.ring().submitter().register_eventfd(eventfd.as_raw_fd());
        answer.map_err(|error| Refusal::errno("cannot notify this descriptor", word(error)))
    }
}

/// Why buffers cannot be pinned.
fn unpinned(bytes: u64, errno: Errno) -> Refusal {
    let what = format!("cannot register {} of buffers", shown(bytes));
    match errno {
        Errno::NOMEM => {
            let limit = getrlimit(Resource::Memlock).current;
            let limit = limit.map_or_else(|| "no limit".to_owned(), shown);
            Refusal::errno(
                format!(
                    "{what}: with those of your other processes they pass RLIMIT_MEMLOCK ({limit})"
                ),
                errno,
            )
            .remedy("raise ulimit -l, or take fewer or smaller buffers")
        }
        Errno::BUSY => {
            Refusal::errno(what, errno).remedy("a ring takes buffers once: register all together")
        }
        errno => Refusal::errno(what, errno),
    }
}
