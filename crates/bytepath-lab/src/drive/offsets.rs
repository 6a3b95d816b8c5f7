//! Where requests go: the same places for every engine, from one seed.

use bytepath::engines::{Direction, Io};

/// How offsets follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Any block, each as likely as the others.
    Random,
    /// Block after block, and again from the start.
    Sequential,
}

/// How offsets follow each other, and how many of the requests read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Access {
    /// The order.
    pub order: Order,
    /// Of 100 requests, so many read; the others write.
    pub read_percent: u8,
}

impl Access {
    /// Whether any request writes.
    pub fn writes(self) -> bool {
        self.read_percent < 100
    }
}

/// Requests without end, as one thread makes them: file after file, each with its own place.
#[derive(Debug, Clone)]
pub struct Offsets {
    access: Access,
    random: fastrand::Rng,
    /// Blocks of each file.
    blocks: Vec<u64>,
    /// The block that each file comes to next, where the order is sequential.
    next: Vec<u64>,
    file: usize,
    io_bytes: u64,
}

impl Offsets {
    /// From these blocks on, in files of so many (above 0), of so many bytes each.
    pub fn new(
        access: Access,
        blocks: Vec<u64>,
        starts: Vec<u64>,
        seed: u64,
        io_bytes: u64,
    ) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Offsets { access, random, blocks, next: starts, file: 0, io_bytes }
    }

    /// The next request.
    #[inline]
    pub fn next_io(&mut self) -> Io {
        let file = self.file;
        self.file = if file + 1 == self.blocks.len() { 0 } else { file + 1 };
        let block = match self.access.order {
            Order::Random => self.random.u64(..self.blocks[file]),
            Order::Sequential => self.following(file),
        };
        let direction = match self.access.read_percent {
            100 => Direction::Read,
            0 => Direction::Write,
            percent if self.random.u8(..100) < percent => Direction::Read,
            _ => Direction::Write,
        };
        Io { file, at: block * self.io_bytes, direction }
    }

    #[inline]
    fn following(&mut self, file: usize) -> u64 {
        let block = self.next[file];
        self.next[file] = if block + 1 >= self.blocks[file] { 0 } else { block + 1 };
        block
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offsets(order: Order, read_percent: u8, seed: u64) -> Offsets {
        let access = Access { order, read_percent };
        Offsets::new(access, vec![7, 3], vec![5, 0], seed, 512)
    }

    #[test]
    fn random_requests_stay_within_their_files_and_reach_every_block() {
        let mut seen = std::collections::BTreeSet::new();
        let mut offsets = offsets(Order::Random, 100, 1);
        for count in 0..1000 {
            let io = offsets.next_io();
            assert_eq!((io.file, io.at % 512), (count % 2, 0));
            seen.insert((io.file, io.at / 512));
        }
        let all = (0..7).map(|block| (0, block)).chain((0..3).map(|block| (1, block)));
        assert_eq!(seen, all.collect());
    }

    #[test]
    fn sequential_requests_go_on_from_their_start_and_come_round() {
        let mut offsets = offsets(Order::Sequential, 100, 1);
        let first: Vec<_> =
            (0..8).map(|_| offsets.next_io()).map(|io| (io.file, io.at / 512)).collect();
        assert_eq!(first, [(0, 5), (1, 0), (0, 6), (1, 1), (0, 0), (1, 2), (0, 1), (1, 0)]);
    }

    #[test]
    fn a_seed_repeats_the_requests_and_another_does_not() {
        let of = |seed| {
            let mut offsets = offsets(Order::Random, 50, seed);
            (0..64).map(|_| offsets.next_io()).collect::<Vec<_>>()
        };
        assert_eq!(of(3), of(3));
        assert_ne!(of(3), of(4));
    }

    #[test]
    fn so_many_of_a_hundred_read() {
        let reads = |percent| {
            let mut offsets = offsets(Order::Random, percent, 9);
            (0..10_000).filter(|_| offsets.next_io().direction == Direction::Read).count()
        };
        assert_eq!((reads(0), reads(100)), (0, 10_000));
        assert!((6_700..7_300).contains(&reads(70)), "{}", reads(70));
    }
}
