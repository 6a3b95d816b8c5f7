//! `read` and `read-touch`: the kernel copies into our memory. Works out of every kind of source.
//!
//! Costs per chunk: one system call and one copy; `read-touch` then looks at every byte.

use crate::endpoint::{Blocking, Endpoint};
use crate::error::{Refusal, Stop};
use crate::inlets::{Consumer, Inlet, Setup, Source};
use crate::pages::Memory;
use crate::seal::Sealed;

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

impl Sealed for Read {}

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

impl Sealed for Reading<'_> {}

impl Consumer for Reading<'_> {
    #[inline(always)]
    fn take(&mut self, most: u64) -> Result<u64, Stop> {
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(self.buffer.len());
        let into = &mut self.buffer.as_mut_slice()[..most];
        let block = Blocking::unless(self.source.nonblocking());
        self.taken = 0;
        self.taken = self.source.until_moved("read", |source| source.read_some(into, block))?;
        if let Some(sum) = &mut self.sum {
            *sum = sum.wrapping_add(byte_sum(&self.buffer.as_slice()[..self.taken]));
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

/// The sum of the bytes, as `read-touch` tells it: the same however the stream is cut into calls.
/// By words, each as four sums of 16 bits: nothing makes vectors of it where a program is linked
/// for size, and byte by byte it would take longer than the copy that is measured.
pub fn byte_sum(bytes: &[u8]) -> u64 {
    let (words, last) = bytes.as_chunks::<8>();
    let four = |word: u64| (word & EVEN) + (word >> 8 & EVEN);
    let whole = words.chunks(SUMMED_WORDS).map(|words| {
        let sums = words.iter().fold(0, |sums, word| sums + four(u64::from_ne_bytes(*word)));
        let two = (sums & LOW_HALVES) + (sums >> 16 & LOW_HALVES);
        (two & u64::from(u32::MAX)) + (two >> 32)
    });
    whole.sum::<u64>() + last.iter().map(|byte| u64::from(*byte)).sum::<u64>()
}

/// Every second byte of a word, and of its halves the low half.
const EVEN: u64 = 0x00ff_00ff_00ff_00ff;
const LOW_HALVES: u64 = 0x0000_ffff_0000_ffff;

/// So many words, of two bytes a sum, are no more than 16 bits hold.
const SUMMED_WORDS: usize = 128;

#[cfg(test)]
mod tests {
    use super::byte_sum;

    #[test]
    fn every_byte_counts_wherever_it_is() {
        let naive = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
        for len in (0..40).chain([1000, 1024, 1031, 2048, 65_536 + 3]) {
            let full = vec![0xff; len];
            assert_eq!(byte_sum(&full), naive(&full), "{len}");
            let any: Vec<u8> = (0..len).map(|at| (at * 167 / 8) as u8).collect();
            assert_eq!(byte_sum(&any), naive(&any), "{len}");
            for at in 0..len.min(1100) {
                let mut one = vec![0; len];
                one[at] = 1;
                assert_eq!(byte_sum(&one), 1, "{at} of {len}");
            }
        }
    }
}
