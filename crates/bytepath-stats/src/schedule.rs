//! Which arm runs when: complete randomised blocks, repeatable from a recorded seed.
//!
//! In each block every arm runs once, in random order, so that whatever drifts or jumps between
//! and within blocks meets every arm alike (Fisher, "The design of experiments", 1935). Orders are
//! drawn afresh for each block, except that the second block runs the first one's order backwards:
//! with three blocks, two arms would else meet in the same order all the time in one run of four,
//! and what the first place in a block costs would look like a difference between the arms.

use std::collections::VecDeque;

/// A sample is measured again at most this often after it was disturbed. A machine that disturbs
/// three in a row will disturb the fourth.
pub const REPEATS_PER_SAMPLE_MAX: u32 = 2;

/// At most one sample in so many of a block is measured again, so that a run takes little longer on
/// a machine that is never quiet.
const SAMPLES_PER_REPEAT: usize = 4;

/// The arms of a run, by number, and with them the A/A control: the reference arm's work once more
/// under a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lineup {
    arms: usize,
    reference: usize,
}

impl Lineup {
    /// The arms 0 to `arms` - 1, of which `reference` is the one that the others are compared with.
    pub fn new(arms: usize, reference: usize) -> Lineup {
        assert!(reference < arms, "reference {reference} is not among {arms} arms");
        Lineup { arms, reference }
    }

    /// The number of the arm that the others are compared with.
    pub fn reference(self) -> usize {
        self.reference
    }

    /// The number of the A/A control: one past the arms.
    pub fn control(self) -> usize {
        self.arms
    }

    /// How many arms run in a block, the control among them.
    pub fn in_a_block(self) -> usize {
        self.arms + 1
    }

    /// Whose work `arm` does: the reference arm's for the control, else its own.
    pub fn work_of(self, arm: usize) -> usize {
        assert!(arm < self.in_a_block(), "there is no arm {arm}");
        if arm == self.control() { self.reference } else { arm }
    }
}

/// One arm's turn to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The block, from 0.
    pub block: u32,
    /// The place in the block, from 0; repeats come after all first attempts.
    pub order: u32,
    /// Which arm, by its number in the [`Lineup`].
    pub arm: usize,
    /// 0, or which repeat of a disturbed sample this is.
    pub attempt: u32,
}

/// What became of the wish to measure a sample again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// The arm runs again at the end of this block; the new sample supersedes the disturbed one.
    Queued,
    /// It was repeated [`REPEATS_PER_SAMPLE_MAX`] times, or a quarter of the block's samples was
    /// already: the last sample counts, flagged.
    LimitReached,
}

/// The turns of a run, one after the other.
///
/// Whether a sample is repeated may depend on what strangers did to the machine, never on the value
/// measured: that would choose the samples one likes.
///
/// ```
/// use bytepath_stats::schedule::{Lineup, Schedule};
///
/// let lineup = Lineup::new(2, 0);
/// let mut schedule = Schedule::new(lineup, 10, 42);
/// let mut runs = vec![0; lineup.in_a_block()];
/// while let Some(turn) = schedule.next() {
///     runs[turn.arm] += 1;
///     let narrow_enough = turn.block == 4;
///     if schedule.block_finished() && narrow_enough {
///         schedule.stop();
///     }
/// }
/// assert_eq!(runs, [5, 5, 5]);
/// ```
#[derive(Clone, Debug)]
pub struct Schedule {
    lineup: Lineup,
    random: fastrand::Rng,
    blocks_max: u32,
    blocks_begun: u32,
    first_order: Vec<usize>,
    waiting: VecDeque<Turn>,
    places_given: u32,
    repeats_left: usize,
}

impl Schedule {
    /// A run of at most `blocks_max` blocks whose orders follow from `seed` ([`fresh_seed`] draws
    /// one). Record the seed; the record also holds each sample's place, so that a run can be
    /// followed even if the generator ever changes.
    pub fn new(lineup: Lineup, blocks_max: u32, seed: u64) -> Schedule {
        Schedule {
            lineup,
            random: fastrand::Rng::with_seed(seed),
            blocks_max,
            blocks_begun: 0,
            first_order: Vec::new(),
            waiting: VecDeque::new(),
            places_given: 0,
            repeats_left: 0,
        }
    }

    /// Measures the sample of `turn` again at the end of its block, because it was disturbed.
    pub fn repeat(&mut self, turn: Turn) -> Repeat {
        assert_eq!(turn.block + 1, self.blocks_begun, "a sample is repeated within its own block");
        if turn.attempt >= REPEATS_PER_SAMPLE_MAX || self.repeats_left == 0 {
            return Repeat::LimitReached;
        }
        self.repeats_left -= 1;
        self.enqueue(turn.arm, turn.attempt + 1);
        Repeat::Queued
    }

    /// Whether the block of the last turn has no more turns.
    pub fn block_finished(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Begins no further block; what is left of this one still runs, so that blocks stay complete.
    pub fn stop(&mut self) {
        self.blocks_max = self.blocks_begun;
    }

    fn begin_block(&mut self) {
        let order = self.draw_order();
        self.blocks_begun += 1;
        self.places_given = 0;
        self.repeats_left = order.len().div_ceil(SAMPLES_PER_REPEAT);
        for arm in order {
            self.enqueue(arm, 0);
        }
    }

    fn draw_order(&mut self) -> Vec<usize> {
        if self.blocks_begun == 1 {
            return self.first_order.iter().rev().copied().collect();
        }
        let mut order: Vec<usize> = (0..self.lineup.in_a_block()).collect();
        self.random.shuffle(&mut order);
        if self.blocks_begun == 0 {
            self.first_order.clone_from(&order);
        }
        order
    }

    fn enqueue(&mut self, arm: usize, attempt: u32) {
        let (block, order) = (self.blocks_begun - 1, self.places_given);
        self.waiting.push_back(Turn { block, order, arm, attempt });
        self.places_given += 1;
    }
}

impl Iterator for Schedule {
    type Item = Turn;

    fn next(&mut self) -> Option<Turn> {
        if self.waiting.is_empty() && self.blocks_begun < self.blocks_max {
            self.begin_block();
        }
        self.waiting.pop_front()
    }
}

/// Readers of JSON that know numbers as floating-point ones, as jq and JavaScript do, tell integers
/// apart up to here.
const SEEDS: u64 = 1 << 53;

/// A seed that no other run is likely to have, and that every reader of the record reads as it is.
pub fn fresh_seed() -> u64 {
    fastrand::u64(..SEEDS)
}
