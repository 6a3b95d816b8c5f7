//! `read` and `read-touch`: the kernel copies into our memory. Works out of every kind of source.
//!
//! Costs per chunk: one system call and one copy; `read-touch` then looks at every byte.

use crate::endpoint::{Blocking, Endpoint};
use crate::error::{Refusal, Stop};
use crate::inlets::{Consumer, Inlet, Setup, Source};
use crate::pages::Memory;

/// Into a buffer that nobody looks at.
pub(super) const READ: Read = Read {
    name: "read",
    summary: "read(2): copies into a buffer, which nobody looks at",
    sums: false,
};

/// Into a buffer whose every byte is summed.
pub(super) const READ_TOUCH: Read =
    Read { name: "read-touch", summary: "read(2), then sums every byte", sums: true };

/// See the module.
pub(super) struct Read {
    name: &'static str,
    summary: &'static str,
    sums: bool,
}

impl Inlet for Read {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn touches(&self) -> bool {
        self.sums
    }

    fn suits(&self, _: &Endpoint<'_>) -> Result<(), Refusal> {
        Ok(())
    }

    fn open<'a>(
        &self,
        source: &'a Endpoint<'a>,
        setup: &Setup<'a>,
    ) -> Result<Box<dyn Consumer + 'a>, Stop> {
        open(self.name, source, setup, self.sums.then_some(0))
    }
}

fn open<'a>(
    name: &'static str,
    source: &'a Endpoint<'a>,
    setup: &Setup<'a>,
    sum: Option<u64>,
) -> Result<Box<dyn Consumer + 'a>, Stop> {
    let mut buffer = Memory::allocate(setup.buf_bytes.max(1), &setup.pages)
        .map_err(|error| Stop::Declined(Refusal::because(error.to_string())))?;
    if !setup.untouched {
        buffer.as_mut_slice().fill(0);
    }
    Ok(Box::new(Reading { source: Source::open(name, source, setup)?, buffer, taken: 0, sum }))
}

struct Reading<'a> {
    source: Source<'a>,
    buffer: Memory,
    taken: usize,
    sum: Option<u64>,
}

impl Consumer for Reading<'_> {
    #[inline(always)]
    fn take(&mut self, most: u64) -> Result<u64, Stop> {
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(self.buffer.len());
        let into = &mut self.buffer.as_mut_slice()[..most];
        let block = Blocking::unless(self.source.nonblocking());
        self.taken = 0;
        self.taken = self.source.until_moved("read", |source| source.read_some(into, block))?;
        if let Some(sum) = &mut self.sum {
            *sum = sum.wrapping_add(sum_of(&self.buffer.as_slice()[..self.taken]));
        }
        Ok(self.taken as u64)
    }

    fn bytes(&self) -> &[u8] {
        &self.buffer.as_slice()[..self.taken]
    }

    fn checksum(&self) -> Option<u64> {
        self.sum
    }
}

/// The sum of the bytes, the same however the stream is cut into calls. The compiler turns it
/// into vector sums of absolute differences.
fn sum_of(bytes: &[u8]) -> u64 {
    bytes.iter().map(|&byte| u64::from(byte)).sum()
}
