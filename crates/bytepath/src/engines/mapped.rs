//! `mmap`: the file as memory, copied from and to.
//!
//! Costs per request: one copy, and a page fault where the page is not mapped yet; no system call.

use rustix::io::Errno;

use super::{Cache, Direction, Done, Engine, Io, Kind, Opening, memory};
use crate::error::Refusal;
use crate::pages::Memory;
use crate::sys::mapped_file::{Access, MappedFile};

/// See the module.
pub(super) struct Mapped;

impl Kind for Mapped {
    fn name(&self) -> &'static str {
        "mmap"
    }

    fn summary(&self) -> &'static str {
        "the file mapped into memory, and copied from and to there"
    }

    fn queues(&self) -> bool {
        false
    }

    fn suits(&self, cache: Cache, _: bool) -> Result<(), Refusal> {
        match cache {
            Cache::Buffered => Ok(()),
            Cache::Direct => Err(Refusal::because("a mapping is of the page cache itself")),
        }
    }

    fn open<'fd>(&self, opening: &Opening<'_, 'fd>) -> Result<Box<dyn Engine + 'fd>, Refusal> {
        let access = if opening.writes { Access::ReadWrite } else { Access::Read };
        let map = |span: &super::Span<'fd>| {
            let bytes = usize::try_from(span.bytes).map_err(|_| Errno::OVERFLOW)?;
            MappedFile::of(span.file, bytes, access)
        };
        let files = opening.files.iter().map(map).collect::<Result<_, _>>();
        let files = files.map_err(|errno| Refusal::errno("cannot map the file", errno))?;
        Ok(Box::new(Copying { files, slots: memory(opening)?, done: Vec::new() }))
    }
}

struct Copying {
    files: Vec<MappedFile>,
    slots: Vec<Memory>,
    done: Vec<Done>,
}

impl Engine for Copying {
    fn push(&mut self, slot: usize, io: Io) {
        let (file, at) = (&mut self.files[io.file], io.at as usize);
        let bytes = self.slots[slot].as_mut_slice();
        match io.direction {
            Direction::Read => file.read(at, bytes),
            Direction::Write => file.write(at, bytes),
        }
        self.done.push(Done { slot, answer: Ok(bytes.len() as u32) });
    }

    fn submit(&mut self) -> Result<(), Errno> {
        Ok(())
    }

    fn wait(&mut self, done: &mut Vec<Done>) -> Result<(), Errno> {
        done.append(&mut self.done);
        Ok(())
    }

    fn bytes(&self, slot: usize) -> &[u8] {
        self.slots[slot].as_slice()
    }

    fn bytes_mut(&mut self, slot: usize) -> &mut [u8] {
        self.slots[slot].as_mut_slice()
    }

    fn calls(&self) -> Option<u64> {
        Some(0)
    }
}
