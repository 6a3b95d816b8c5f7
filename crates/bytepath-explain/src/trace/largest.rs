//! Of rows that come one by one, those with the most bytes are kept, and the others are added up.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use bytepath_report::TraceUntold;

/// Rows that are told.
const ROWS_MAX: usize = 10_000;
/// Networks by which the others are added up; those beyond are one.
const NETWORKS_MAX: usize = 10_000;

/// A row that has bytes.
pub(super) trait Moved {
    fn first_ns(&self) -> u64;
    /// Those that were read or received, and those that were written or sent.
    fn bytes(&self) -> [u64; 2];
    /// With what it is added up.
    fn subnet(&self) -> Option<String>;
}

/// The largest so far, and at most as many that are not.
#[derive(Debug)]
pub(super) struct Largest<T> {
    rows: Vec<T>,
    first_ns: Option<u64>,
    untold: BTreeMap<Option<String>, TraceUntold>,
}

/// What is told.
#[derive(Debug)]
pub(super) struct Told<T> {
    /// The earliest first.
    pub(super) rows: Vec<T>,
    /// When the first of all began.
    pub(super) first_ns: u64,
    pub(super) untold: Vec<TraceUntold>,
}

impl<T> Default for Largest<T> {
    fn default() -> Largest<T> {
        Largest { rows: Vec::new(), first_ns: None, untold: BTreeMap::new() }
    }
}

impl<T: Moved> Largest<T> {
    pub(super) fn push(&mut self, row: T) {
        let first_ns = row.first_ns();
        self.first_ns = Some(self.first_ns.map_or(first_ns, |other| other.min(first_ns)));
        self.rows.push(row);
        if self.rows.len() >= 2 * ROWS_MAX {
            self.cut();
        }
    }

    pub(super) fn told(mut self) -> Told<T> {
        self.cut();
        self.rows.sort_by_key(T::first_ns);
        let untold = self.untold.into_values().collect();
        Told { rows: self.rows, first_ns: self.first_ns.unwrap_or(0), untold }
    }

    fn cut(&mut self) {
        if self.rows.len() <= ROWS_MAX {
            return;
        }
        self.rows.sort_by_key(|row| Reverse(row.bytes().iter().sum::<u64>()));
        for row in self.rows.drain(ROWS_MAX..) {
            let is_room = |subnet: &String| {
                let key = Some(subnet.clone());
                self.untold.len() < NETWORKS_MAX || self.untold.contains_key(&key)
            };
            let subnet = row.subnet().filter(is_room);
            let sum = self.untold.entry(subnet.clone()).or_default();
            let [read, written] = row.bytes();
            sum.subnet = subnet;
            sum.rows += 1;
            sum.read_bytes += read;
            sum.written_bytes += written;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// When it began, its bytes, its network.
    struct Row(u64, u64, Option<u64>);

    impl Moved for Row {
        fn first_ns(&self) -> u64 {
            self.0
        }

        fn bytes(&self) -> [u64; 2] {
            [self.1, 2 * self.1]
        }

        fn subnet(&self) -> Option<String> {
            self.2.map(|number| number.to_string())
        }
    }

    fn told(rows: impl Iterator<Item = Row>) -> Told<Row> {
        let mut largest = Largest::default();
        rows.for_each(|row| largest.push(row));
        largest.told()
    }

    #[test]
    fn the_largest_are_told_whenever_they_come_and_the_others_are_added_up() {
        let all = 5 * ROWS_MAX as u64;
        // The small come first, and one of them last.
        let rows = (1..=all).map(|at| Row(at, at, Some(at % 2))).chain([Row(all + 1, 1, Some(1))]);
        let told = told(rows);
        let bytes: Vec<u64> = told.rows.iter().map(|row| row.1).collect();
        let untold = all - ROWS_MAX as u64;
        assert_eq!(bytes, (untold + 1..=all).collect::<Vec<_>>());
        assert_eq!(told.first_ns, 1);
        let sum = |subnet: u64| {
            let odd_twice = if subnet == 1 { 1 } else { 0 };
            let of = (1..=untold).filter(|at| at % 2 == subnet);
            let bytes = of.clone().sum::<u64>() + odd_twice;
            TraceUntold {
                subnet: Some(subnet.to_string()),
                rows: of.count() as u64 + odd_twice,
                read_bytes: bytes,
                written_bytes: 2 * bytes,
            }
        };
        assert_eq!(told.untold, [sum(0), sum(1)]);
    }

    #[test]
    fn what_is_few_is_told_in_the_order_in_which_it_began() {
        let told = told([5, 3, 4].into_iter().map(|at| Row(at, 9 - at, None)));
        assert_eq!(told.rows.iter().map(|row| row.0).collect::<Vec<_>>(), [3, 4, 5]);
        assert_eq!((told.first_ns, told.untold), (3, Vec::new()));
    }

    #[test]
    fn networks_beyond_those_that_are_kept_are_one() {
        let small = (0..NETWORKS_MAX as u64 + 5).map(|at| Row(at, 1, Some(at)));
        let large = (0..ROWS_MAX as u64).map(|at| Row(at, 2, Some(0)));
        let told = told(small.chain(large));
        let rows: u64 = told.untold.iter().map(|sum| sum.rows).sum();
        assert_eq!(rows, NETWORKS_MAX as u64 + 5);
        assert_eq!(told.untold.len(), NETWORKS_MAX + 1);
        assert_eq!((told.untold[0].subnet.as_deref(), told.untold[0].rows), (None, 5));
    }
}
