//! Random bytes: the same for the same seed, like noise to every compressor, and no secret.

use crate::Generator;

/// Word i of the stream is wyrand's output for its i-th state (Wang Yi's wyhash, final version 4,
/// 2019 to 2023): the state counts up by a constant, so any word is made by itself, of one 128-bit
/// product. It passes BigCrush and PractRand; it is no cipher.
#[derive(Debug, Clone, Copy)]
pub struct Random {
    seed: u64,
}

const STEP: u64 = 0xa076_1d64_78bd_642f;
const MIX: u64 = 0xe703_7ed1_a0b4_28db;

const WORD: usize = 8;

impl Random {
    /// The stream of this seed.
    pub fn new(seed: u64) -> Random {
        // Streams of seeds that follow each other are not pieces of one stream.
        Random { seed: word(seed, 0) }
    }

    /// Word `index` of the stream.
    pub(crate) fn word(self, index: u64) -> u64 {
        word(self.seed, index)
    }
}

#[inline(always)]
fn word(seed: u64, index: u64) -> u64 {
    let state = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(STEP));
    let product = u128::from(state) * u128::from(state ^ MIX);
    (product >> 64) as u64 ^ product as u64
}

impl Generator for Random {
    fn fill(&mut self, offset: u128, into: &mut [u8]) -> usize {
        let all = into.len();
        let mut index = (offset / WORD as u128) as u64;
        let skip = (offset % WORD as u128) as usize;
        let head = if skip == 0 { 0 } else { all.min(WORD - skip) };
        let (head, rest) = into.split_at_mut(head);
        if !head.is_empty() {
            head.copy_from_slice(&self.word(index).to_le_bytes()[skip..skip + head.len()]);
            index += 1;
        }
        let (words, tail) = rest.as_chunks_mut::<WORD>();
        for piece in words {
            *piece = word(self.seed, index).to_le_bytes();
            index = index.wrapping_add(1);
        }
        tail.copy_from_slice(&self.word(index).to_le_bytes()[..tail.len()]);
        all
    }

    fn another(&self) -> Box<dyn Generator> {
        Box::new(*self)
    }
}
