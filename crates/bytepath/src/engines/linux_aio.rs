//! `linux-aio`: requests by io_submit(2) and io_getevents(2).
//!
//! Costs per request: a system call for each batch, another for what is done. Requests that go
//! through the page cache are carried out within io_submit.

use rustix::io::Errno;

use super::{Cache, Direction, Done, Engine, Io, Kind, Opening, Span, memory};
use crate::error::Refusal;
use crate::ring::{Buffer, Completion, Operation, Request, Target};
use crate::routes::Queue;
use crate::sys::aio::Aio;

/// See the module.
pub(super) struct LinuxAio;

impl Kind for LinuxAio {
    fn name(&self) -> &'static str {
        "linux-aio"
    }

    fn summary(&self) -> &'static str {
        "io_submit(2) and io_getevents(2), the kernel's older queue"
    }

    fn queues(&self) -> bool {
        true
    }

    fn suits(&self, _: Cache, _: bool) -> Result<(), Refusal> {
        Ok(())
    }

    fn open<'fd>(&self, opening: &Opening<'_, 'fd>) -> Result<Box<dyn Engine + 'fd>, Refusal> {
        let buffer = |memory| Some(Buffer { memory, registered: None });
        Ok(Box::new(InContext {
            aio: Aio::open(opening.depth)?,
            files: opening.files.to_vec(),
            slots: memory(opening)?.into_iter().map(buffer).collect(),
            io_bytes: opening.io_bytes,
        }))
    }
}

struct InContext<'fd> {
    aio: Aio<'fd>,
    files: Vec<Span<'fd>>,
    /// The memory of free slots; that of the others is in flight.
    slots: Vec<Option<Buffer>>,
    io_bytes: usize,
}

impl InContext<'_> {
    fn landed(&mut self, completion: Completion) -> Done {
        let slot = completion.token as usize;
        self.slots[slot] = completion.buffer;
        Done { slot, answer: completion.first }
    }
}

impl Engine for InContext<'_> {
    fn push(&mut self, slot: usize, io: Io) {
        let buffer = self.slots[slot].take().expect("the slot is free");
        let file = Target::Borrowed(self.files[io.file].file);
        let (at, bytes) = (io.at, 0..self.io_bytes);
        let operation = match io.direction {
            Direction::Read => Operation::Read { file, at, bytes },
            Direction::Write => Operation::Write { file, at, bytes },
        };
        self.aio.push(Request::new(slot as u64, operation).buffer(buffer));
    }

    fn submit(&mut self) -> Result<(), Errno> {
        self.aio.submit();
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Done>) -> Result<(), Errno> {
        let mut next = self.aio.next()?;
        while let Some(completion) = next {
            done.push(self.landed(completion));
            next = self.aio.take();
        }
        Ok(())
    }

    fn bytes(&self, slot: usize) -> &[u8] {
        self.slots[slot].as_ref().expect("the slot is free").as_slice()
    }

    fn bytes_mut(&mut self, slot: usize) -> &mut [u8] {
        self.slots[slot].as_mut().expect("the slot is free").as_mut_slice()
    }

    fn calls(&self) -> Option<u64> {
        Some(self.aio.calls())
    }
}
