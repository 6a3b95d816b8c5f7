//! What is said later: messages that are kept until everything before them in the tree was said,
//! whichever thread has them first, and in whichever order the tree is gone through.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The place of something in the tree: which operand, and which entry of each directory on the way down
/// to it, in the order of the inodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Turn {
    above: Way,
    at: u32,
}

/// The place of what is in a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Way(Arc<[u32]>);

impl Turn {
    /// Of the operand after the one that this is, or is in.
    pub(super) fn next_operand(&self) -> Turn {
        let before = self.steps().next().unwrap_or_default();
        Turn { at: before + 1, ..Turn::default() }
    }

    /// Behind everything.
    pub(super) fn last() -> Turn {
        Turn { at: u32::MAX, ..Turn::default() }
    }

    /// The way to what is in this directory.
    pub(super) fn inside(&self) -> Way {
        Way(self.steps().collect())
    }

    fn steps(&self) -> impl Iterator<Item = u32> {
        self.above.0.iter().copied().chain([self.at])
    }
}

impl Way {
    /// The place of an entry.
    pub(super) fn entry(&self, at: usize) -> Turn {
        // There are fewer: their names have less than 4 GiB.
        Turn { above: self.clone(), at: at as u32 }
    }

    /// The place behind all entries.
    pub(super) fn end(&self) -> Turn {
        Turn { above: self.clone(), at: u32::MAX }
    }
}

impl Ord for Turn {
    fn cmp(&self, other: &Turn) -> Ordering {
        self.steps().cmp(other.steps())
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Turn) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// What a thread is at.
#[derive(Debug, Clone, Default)]
pub(super) struct Now {
    pub(super) turn: Turn,
    /// Whether what it says is kept for this turn, or said at once.
    pub(super) keeps: bool,
}

thread_local! {
    static NOW: RefCell<Now> = RefCell::default();
}

/// This thread is at another place from now on; where it was before.
pub(super) fn set(now: Now) -> Now {
    NOW.replace(now)
}

/// What this thread is at.
pub(super) fn now() -> Now {
    NOW.with_borrow(Clone::clone)
}

/// The messages that are kept.
#[derive(Default)]
pub(super) struct Unsaid {
    lines: BTreeMap<Turn, Vec<String>>,
    count: usize,
}

impl Unsaid {
    pub(super) fn keep(&mut self, turn: Turn, line: String) {
        self.lines.entry(turn).or_default().push(line);
        self.count += 1;
    }

    /// How many are kept.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Gives up those of all turns before this one, in their order.
    pub(super) fn before(&mut self, turn: &Turn) -> Vec<String> {
        let rest = self.lines.split_off(turn);
        let before = std::mem::replace(&mut self.lines, rest);
        let lines: Vec<String> = before.into_values().flatten().collect();
        self.count -= lines.len();
        lines
    }

    /// Gives up all of them, in their order.
    pub(super) fn all(&mut self) -> impl Iterator<Item = String> {
        std::mem::take(self).lines.into_values().flatten()
    }
}
