//! What is said later: messages that are kept until everything before them in the tree was said,
//! whichever thread has them first, and in whichever order the tree is gone through.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The place of something in the tree: which operand, and which entry of each directory on the way down
/// to it, in the order of the inodes.
#[derive(Clone, Default)]
pub(super) struct Turn {
    above: Way,
    at: u32,
}

/// The place of what is in a directory; none for the operands.
#[derive(Clone, Default)]
pub(super) struct Way(Option<Arc<Step>>);

/// A directory, on the way to what is in it. Its own way is shared with all that is beside it, so that
/// deep trees take no more memory than others.
struct Step {
    directory: Turn,
    depth: usize,
}

impl Turn {
    /// Of the operand after the one that this is, or is in.
    pub(super) fn next_operand(&self) -> Turn {
        let mut operand = self;
        while let Some(directory) = operand.above.directory() {
            operand = directory;
        }
        Turn { at: operand.at + 1, ..Turn::default() }
    }

    /// Behind everything.
    pub(super) fn last() -> Turn {
        Turn { at: u32::MAX, ..Turn::default() }
    }

    /// The way to what is in this directory.
    pub(super) fn inside(&self) -> Way {
        Way(Some(Arc::new(Step { directory: self.clone(), depth: self.above.depth() + 1 })))
    }

    /// The place of the directory that this is in, so many levels from the operands.
    fn above_at(&self, depth: usize) -> &Turn {
        let mut turn = self;
        while turn.above.depth() > depth
            && let Some(directory) = turn.above.directory()
        {
            turn = directory;
        }
        turn
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

    fn depth(&self) -> usize {
        self.0.as_ref().map_or(0, |step| step.depth)
    }

    fn directory(&self) -> Option<&Turn> {
        self.0.as_ref().map(|step| &step.directory)
    }

    fn is(&self, other: &Way) -> bool {
        self.0.as_ref().map(Arc::as_ptr) == other.0.as_ref().map(Arc::as_ptr)
    }
}

impl Ord for Turn {
    fn cmp(&self, other: &Turn) -> Ordering {
        let depths = (self.above.depth(), other.above.depth());
        let both = depths.0.min(depths.1);
        let (mut one, mut two) = (self.above_at(both), other.above_at(both));
        // What is in a directory comes after it; what differs further up decides.
        let mut order = one.at.cmp(&two.at).then(depths.0.cmp(&depths.1));
        while !one.above.is(&two.above)
            && let (Some(above), Some(other)) = (one.above.directory(), two.above.directory())
        {
            (one, two) = (above, other);
            order = one.at.cmp(&two.at).then(order);
        }
        order
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Turn) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Turn {
    fn eq(&self, other: &Turn) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Turn {}

/// What a thread is at.
#[derive(Clone, Default)]
pub(super) struct Now {
    pub(super) turn: Turn,
    /// Whether what it says is kept for this turn, or said at once.
    pub(super) keeps: bool,
}

thread_local! {
    static NOW: RefCell<Now> = RefCell::default();
}

/// This thread is at another place from now on.
pub(super) fn set(now: Now) {
    NOW.set(now);
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The place that these steps lead to, by ways of its own.
    fn turn(steps: &[u32]) -> Turn {
        let (at, above) = steps.split_last().expect("an operand at the least");
        let way = above.iter().fold(Way::default(), |way, at| way.entry(*at as usize).inside());
        way.entry(*at as usize)
    }

    #[test]
    fn the_order_is_that_of_the_steps() {
        let mut all = vec![vec![1], vec![2], vec![u32::MAX]];
        for at in 0..400 {
            let mut longer = all[(at * 7) % all.len()].clone();
            longer.push((at * 31 % 5) as u32);
            all.push(longer);
        }
        let turns: Vec<Turn> = all.iter().map(|steps| turn(steps)).collect();
        for (steps, one) in all.iter().zip(&turns) {
            for (other_steps, other) in all.iter().zip(&turns) {
                assert_eq!(one.cmp(other), steps.cmp(other_steps), "{steps:?} {other_steps:?}");
            }
        }
    }

    #[test]
    fn a_directory_comes_before_what_is_in_it_and_its_end_behind() {
        let directory = turn(&[1, 4]);
        let way = directory.inside();
        let deep = way.entry(3).inside().entry(9);
        let order = [&directory, &way.entry(0), &deep, &way.end(), &turn(&[1, 5])];
        assert!(order.is_sorted_by(|one, next| one < next));
        assert!(deep.next_operand() == turn(&[2]) && deep < Turn::last());
    }

    #[test]
    fn ways_as_deep_as_trees_may_be_are_compared_and_let_go() {
        let mut way = Way::default();
        for _ in 0..8192 {
            way = way.entry(7).inside();
        }
        assert!(way.entry(1) < way.entry(2) && way.entry(1) > turn(&[7, 7]));
    }
}
