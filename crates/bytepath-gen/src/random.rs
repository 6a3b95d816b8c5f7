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

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(seed: u64, from: u128, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        Random::new(seed).fill(from, &mut bytes);
        bytes
    }

    #[test]
    fn a_stream_is_the_same_from_any_byte_on_and_another_for_another_seed() {
        let whole = bytes(7, 0, 1000);
        for cut in 0..50 {
            assert_eq!(bytes(7, cut as u128, 1000 - cut), whole[cut..], "from {cut}");
            assert_eq!(bytes(7, 0, cut), whole[..cut], "to {cut}");
        }
        assert_ne!(bytes(8, 0, 1000), whole);
    }

    #[test]
    fn every_value_of_a_byte_comes_about_as_often() {
        let mut counts = [0u32; 256];
        let all = bytes(0, 1 << 40, 1 << 20);
        all.iter().for_each(|&byte| counts[byte as usize] += 1);
        // 4096 each, give or take 64: five times that is once in a million streams.
        assert!(counts.iter().all(|count| (3776..=4416).contains(count)), "{counts:?}");
        let ones: u32 = all.iter().map(|byte| byte.count_ones()).sum();
        assert!(ones.abs_diff(4 << 20) < 8 * 1024, "{ones}");
    }
}
