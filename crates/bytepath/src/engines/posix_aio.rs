//! `posix-aio`: requests by aio_read(3) and aio_write(3) of the C library.
//!
//! glibc carries them out by pread and pwrite on threads of its own, one thread for a file at a
//! time. Costs per request: waking that thread and being woken by it.

use rustix::io::Errno;

use super::{Cache, Direction, Done, Engine, Io, Kind, Opening, Span, memory};
use crate::error::Refusal;
use crate::sys::posix_aio::Requests;

/// See the module.
pub(super) struct PosixAio;

impl Kind for PosixAio {
    fn name(&self) -> &'static str {
        "posix-aio"
    }

    fn summary(&self) -> &'static str {
        "aio_read(3) of the C library, which has threads that call pread(2)"
    }

    fn queues(&self) -> bool {
        true
    }

    /// What is compared here is glibc's: another C library's is other work under the same name.
    fn suits(&self, _: Cache, _: bool) -> Result<(), Refusal> {
        if cfg!(target_env = "gnu") {
            return Ok(());
        }
        Err(Refusal::because("this program was built without glibc, whose aio it would be")
            .remedy("take a program that was built with it (make build)"))
    }

    fn open<'fd>(&self, opening: &Opening<'_, 'fd>) -> Result<Box<dyn Engine + 'fd>, Refusal> {
        let requests = Requests::new(memory(opening)?);
        let (files, io_bytes) = (opening.files.to_vec(), opening.io_bytes);
        let done = Vec::with_capacity(opening.depth);
        Ok(Box::new(ByThreads { requests, files, io_bytes, done }))
    }
}

struct ByThreads<'fd> {
    /// Dropped, and with it ended, before the files can be closed.
    requests: Requests,
    files: Vec<Span<'fd>>,
    io_bytes: usize,
    /// What the C library did not take.
    done: Vec<Done>,
}

impl Engine for ByThreads<'_> {
    fn push(&mut self, slot: usize, io: Io) {
        let file = self.files[io.file].file;
        let writes = io.direction == Direction::Write;
        let begin = if writes { Requests::write } else { Requests::read };
        if let Err(errno) = begin(&mut self.requests, slot, file, io.at, self.io_bytes) {
            self.done.push(Done { slot, answer: Err(errno) });
        }
    }

    fn submit(&mut self) -> Result<(), Errno> {
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Done>) -> Result<(), Errno> {
        done.append(&mut self.done);
        let before = done.len();
        loop {
            self.requests.take(|slot, answer| {
                done.push(Done { slot, answer: answer.map(|count| count as u32) });
            });
            if done.len() > before || before > 0 || self.requests.in_flight() == 0 {
                return Ok(());
            }
            self.requests.suspend()?;
        }
    }

    fn bytes(&self, slot: usize) -> &[u8] {
        self.requests.memory(slot).as_slice()
    }

    fn bytes_mut(&mut self, slot: usize) -> &mut [u8] {
        self.requests.memory_mut(slot).as_mut_slice()
    }

    /// The threads make the calls.
    fn calls(&self) -> Option<u64> {
        None
    }

    fn refusal(&self, errno: Errno) -> Refusal {
        match errno {
            Errno::AGAIN => Refusal::errno("the C library has no more threads or memory", errno)
                .remedy("take a smaller --depth, or raise ulimit -u"),
            _ => super::refusal(errno),
        }
    }
}
