//! Going through the directories of a directory in rounds, one of each part of it in turn, instead of
//! in the order of their inodes, so that threads that copy what comes one after the other are in
//! different parts of the device.
//!
//! XFS has groups of blocks, inodes are numbered through them group by group, and each new directory
//! is made in the next group. Sharing the blocks of a file takes the lock of the group that they are in:
//! in the order of inodes, all threads wait for the same one.

use std::ops::Range;
use std::os::fd::OwnedFd;

use rustix::fs::StatFs;

use super::entries::Entries;
use super::settings::Reflink;
use super::shared::Shared;

/// The number of XFS in statfs(2).
const XFS: u64 = 0x5846_5342;

/// Which entries of a directory are still to be gone through.
pub(super) struct Rounds {
    /// Those that are no files, in the order of the inodes, and whether each is left.
    others: Vec<(u32, bool)>,
    /// What is left of each part of these, but for what was taken out of turn.
    parts: Vec<Range<usize>>,
    /// How many turns there were.
    turns: usize,
    /// All of them before this one were gone through.
    first: usize,
    /// All files before this entry were.
    files: usize,
    entries: usize,
}

impl Shared<'_> {
    /// Whether threads that copy from this directory to the same device are less in each other's way
    /// so.
    pub(super) fn gains_by_rounds(&self, source: &OwnedFd) -> bool {
        let is_xfs = |about: StatFs| u64::try_from(about.f_type) == Ok(XFS);
        self.settings.reflink != Reflink::Never && rustix::fs::fstatfs(source).is_ok_and(is_xfs)
    }
}

impl Rounds {
    /// Through these entries, in so many parts; none where there is nothing to be divided.
    pub(super) fn through(entries: &Entries, parts: usize) -> Option<Rounds> {
        let others = (0..entries.len()).filter(|at| !entries.is_file(*at));
        let others: Vec<_> = others.map(|at| (at as u32, true)).collect();
        let (count, entries) = (others.len(), entries.len());
        let parts =
            (0..parts).map(|part| count * part / parts..count * (part + 1) / parts).collect();
        (count > 2).then_some(Rounds { others, parts, turns: 0, first: 0, files: 0, entries })
    }

    /// The entry to go through in the place of this one, neither of them a file: the next of the part
    /// whose turn it is, or the first of all that are left.
    pub(super) fn instead_of(&mut self, at: usize, in_order: bool) -> usize {
        let next = if in_order { self.first } else { self.in_turn() };
        let (entry, left) = &mut self.others[next];
        *left = false;
        let entry = *entry as usize;
        while self.others.get(self.first).is_some_and(|(_, left)| !left) {
            self.first += 1;
        }
        self.through_files(at + 1);
        entry
    }

    fn in_turn(&mut self) -> usize {
        for _ in 0..self.parts.len() {
            let part = self.turns % self.parts.len();
            self.turns += 1;
            let mut left = self.parts[part].by_ref().filter(|at| self.others[*at].1);
            if let Some(next) = left.next() {
                return next;
            }
        }
        self.first
    }

    /// All files before this entry are gone through.
    pub(super) fn through_files(&mut self, end: usize) {
        self.files = end;
    }

    /// The first entry that is left.
    pub(super) fn first_left(&self) -> Option<usize> {
        let other = self.others.get(self.first).map(|(at, _)| *at as usize);
        let file = (self.files < self.entries).then_some(self.files);
        other.into_iter().chain(file).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cp::entries::IS_FILE;

    /// The order in which these entries are gone through: d for a directory, f for a file; and what
    /// is the first left after each.
    fn order(kinds: &str, parts: usize, in_order_from: usize) -> (Vec<usize>, Vec<Option<usize>>) {
        let byte = |kind| if kind == 'f' { IS_FILE } else { IS_FILE + 1 };
        let lines = kinds.chars().flat_map(|kind| [byte(kind), b'n', 0]).collect();
        let entries = Entries::of_lines(lines).expect("lines");
        let mut rounds = Rounds::through(&entries, parts).expect("there are enough");
        let (mut order, mut left) = (Vec::new(), Vec::new());
        for at in 0..entries.len() {
            match entries.is_file(at) {
                true => {
                    order.push(at);
                    rounds.through_files(at + 1);
                }
                false => order.push(rounds.instead_of(at, order.len() >= in_order_from)),
            }
            left.push(rounds.first_left());
        }
        (order, left)
    }

    #[test]
    fn the_parts_take_turns() {
        assert_eq!(order("dddddd", 2, 99).0, [0, 3, 1, 4, 2, 5]);
        assert_eq!(order("ddddd", 3, 99).0, [0, 1, 3, 2, 4]);
        // More parts than there are directories.
        assert_eq!(order("ddd", 8, 99).0, [0, 1, 2]);
    }

    #[test]
    fn files_are_where_they_were() {
        assert_eq!(order("dfdfdd", 2, 99).0, [0, 1, 4, 3, 2, 5]);
    }

    #[test]
    fn all_are_gone_through_once_and_what_is_left_is_known() {
        for kinds in ["ddd", "ffdddfdfdddf", "dfffffdd", "ddddddddddddddddf"] {
            for parts in 1..9 {
                for in_order_from in 0..kinds.len() {
                    let (order, left) = order(kinds, parts, in_order_from);
                    for (done, first) in left.iter().enumerate() {
                        let mut all = 0..kinds.len();
                        let first_left = all.find(|at| !order[..=done].contains(at));
                        assert_eq!(*first, first_left, "{kinds} {parts} {in_order_from} {order:?}");
                    }
                }
            }
        }
    }
}
