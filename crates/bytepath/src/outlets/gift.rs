//! `gift`: lends pages to the pipe and never writes to them again: the sound zero-copy outlet.
//!
//! What is lent is given away; the next bytes go to fresh pages. Costs per chunk: one system
//! call; per page a walk of the page table, one reference, and a fresh page (fault and zeroing,
//! which 2 MiB pages do 512 at a time), against write's copy and page. The fresh pages come
//! either by MADV_DONTNEED of what was given away, or by mapping anew.

use std::os::fd::AsFd;

use crate::endpoint::Endpoint;
use crate::error::{Refusal, Stop};
use crate::outlets::lend::Lender;
use crate::outlets::{
    Contents, Given, LARGE_PIPE_BYTES, Outlet, Producer, Setup, Shape, Use, pipe_only,
    refused_size, size_pipe, whole,
};
use crate::pages::{Memory, PageSize, Pages, page_bytes};
use crate::routes::Aliasing;
use crate::seal::Sealed;

/// How the outlet comes by fresh pages in place of those that it gave away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Fresh {
    /// The same addresses, emptied by madvise(2) with MADV_DONTNEED.
    #[default]
    Discard,
    /// A new mapping.
    Remap,
    /// As `Discard`, and all of them faulted in by one call (MADV_POPULATE_WRITE, Linux 5.14).
    Populate,
}

impl Fresh {
    /// The names that [`Fresh::named`] takes.
    pub const NAMES: &[&str] = &["discard", "remap", "populate"];

    /// The way of this name.
    pub fn named(name: &str) -> Option<Fresh> {
        Some(match name {
            "discard" => Fresh::Discard,
            "remap" => Fresh::Remap,
            "populate" => Fresh::Populate,
            _ => return None,
        })
    }
}

/// See the module.
pub(super) struct Gift;

const NAME: &str = "gift";

/// Chunks written before the pages given away are replaced, all at once.
const CHUNKS_PER_REGION: usize = 4;

impl Sealed for Gift {}

impl Outlet for Gift {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "vmsplice(2) of pages that are given away, never written again; sound"
    }

    /// The reader holds pages that were ours and are nobody's to change.
    fn aliasing(&self) -> Aliasing {
        Aliasing::None
    }

    fn used_for(&self) -> Use {
        Use::Streams
    }

    fn suits(&self, sink: &Endpoint<'_>) -> Result<(), Refusal> {
        pipe_only(NAME, sink)
    }

    fn open<'a>(
        &self,
        sink: &'a Endpoint<'a>,
        setup: &Setup<'a>,
    ) -> Result<Box<dyn Producer + 'a>, Stop> {
        self.suits(sink).map_err(Stop::Declined)?;
        let period_bytes = setup.contents.period()?;
        let pipe_bytes = size_pipe(sink, setup.pipe_bytes, Some(LARGE_PIPE_BYTES))?;
        let page = page_bytes(PageSize::Base);
        let chunk_bytes = whole(setup.buf_bytes, page);
        let region_bytes = chunk_bytes.saturating_mul(CHUNKS_PER_REGION);
        let region = Region::new(whole(region_bytes, page_bytes(setup.pages.size)), setup)?;
        let shape = Shape { chunk_bytes, pipe_bytes, slot_bytes: page, period_bytes };
        Ok(Box::new(Giving {
            lender: Lender::new(NAME, sink, setup),
            region,
            given: Given::default(),
            contents: setup.contents,
            offset: 0,
            shape,
            wished_bytes: setup.pipe_bytes.unwrap_or(LARGE_PIPE_BYTES),
        }))
    }
}

struct Giving<'a> {
    lender: Lender<'a>,
    region: Region,
    given: Given,
    contents: Contents<'a>,
    /// Where in the repeated stream the next byte stands.
    offset: u64,
    shape: Shape,
    /// The size that the pipe should have.
    wished_bytes: usize,
}

impl Sealed for Giving<'_> {}

impl Producer for Giving<'_> {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn pipe_refused(&self) -> Option<Refusal> {
        refused_size(self.lender.end().as_fd(), self.wished_bytes)
    }

    #[inline(always)]
    fn repeat_some(&mut self, most: u64) -> Result<u64, Stop> {
        let (contents, offset, chunk) = (self.contents, self.offset, self.shape.chunk_bytes);
        let len = usize::try_from(most).unwrap_or(usize::MAX).min(chunk);
        if len == 0 {
            return Ok(0);
        }
        contents.fill(offset, &mut self.region.room(chunk)?[..len]);
        self.lend(len)?;
        self.offset += len as u64;
        Ok(len as u64)
    }

    fn room(&mut self) -> Result<Option<&mut [u8]>, Stop> {
        let chunk = self.shape.chunk_bytes;
        Ok(Some(self.given.room(self.region.room(chunk)?)))
    }

    fn send(&mut self, len: usize) -> Result<(), Stop> {
        self.given.sends(len);
        self.lend(len)
    }
}

impl Giving<'_> {
    fn lend(&mut self, len: usize) -> Result<(), Stop> {
        let at = self.region.at;
        let (lent, outcome) = self.lender.all(&self.region.memory, at..at + len);
        self.region.give_away(lent);
        outcome
    }
}

/// Pages to be filled and given away in order. `at` is the first that was not lent.
struct Region {
    memory: Memory,
    pages: Pages,
    fresh: Fresh,
    at: usize,
}

impl Region {
    fn new(bytes: usize, setup: &Setup<'_>) -> Result<Region, Stop> {
        let memory = allocate(bytes, &setup.pages)?;
        Ok(Region { memory, pages: setup.pages, fresh: setup.fresh, at: 0 })
    }

    /// The next `chunk` bytes, on pages that were never lent.
    fn room(&mut self, chunk: usize) -> Result<&mut [u8], Stop> {
        if self.at + chunk > self.memory.len() {
            self.renew()?;
        }
        Ok(&mut self.memory.as_mut_slice()[self.at..self.at + chunk])
    }

    /// The pages under the next `len` bytes are the pipe's from here on.
    fn give_away(&mut self, len: usize) {
        self.at += len.next_multiple_of(page_bytes(PageSize::Base));
    }

    fn renew(&mut self) -> Result<(), Stop> {
        let discarded = self.fresh != Fresh::Remap && self.memory.mapping_mut().discard().is_ok();
        if !discarded {
            // Locked pages cannot be discarded (EINVAL), so they are mapped anew as well.
            self.memory = allocate(self.memory.len(), &self.pages)?;
        }
        if self.fresh == Fresh::Populate {
            // Where the kernel cannot, the pages fault in one by one as they are written.
            let _ = self.memory.mapping_mut().populate();
        }
        self.at = 0;
        Ok(())
    }
}

fn allocate(bytes: usize, pages: &Pages) -> Result<Memory, Stop> {
    Memory::allocate(bytes, pages)
        .map_err(|error| Stop::Declined(Refusal::because(error.to_string())))
}
