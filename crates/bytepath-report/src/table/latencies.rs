//! A second table, of arms whose requests were clocked one by one: how long they took, and what one
//! cost.

use super::{Further, Style};
use crate::arm::{Arm, Unit};
use crate::latency::Latency;
use crate::numbers::{self, UNKNOWN};
use crate::record::Record;

const GIB: f64 = (1_u64 << 30) as f64;

/// The headings, and what each column is worth where the width does not suffice for all.
const COLUMNS: [(&str, u8); 10] = [
    ("arm", 0),
    ("GiB/s", 7),
    ("p50\nµs", 9),
    ("p95\nµs", 4),
    ("p99\nµs", 8),
    ("p99.9\nµs", 6),
    ("max\nµs", 5),
    ("user\nµs each", 2),
    ("system\nµs each", 3),
    ("switches\nper 1000", 1),
];

/// The table; nothing where no arm has latencies.
pub(super) fn draw(record: &Record, style: Style) -> Option<String> {
    let importance = |_, heading: &str| {
        COLUMNS.iter().find(|(known, _)| *known == heading).map_or(0, |(_, worth)| *worth)
    };
    Some(further(&record.arms.iter().collect::<Vec<_>>())?.draw(&importance, style))
}

/// The latencies of the arms that have some; nothing where none has.
pub(crate) fn further(arms: &[&Arm]) -> Option<Further> {
    let of = |(place, arm): (usize, &&Arm)| Some((place, row(arm)?));
    let rows: Vec<_> = arms.iter().enumerate().filter_map(of).collect();
    if rows.is_empty() {
        return None;
    }
    // Columns that say nothing of any arm are left out.
    let says = |index: &usize| rows.iter().any(|(_, row)| row[*index] != UNKNOWN);
    let columns: Vec<usize> = (0..COLUMNS.len()).filter(says).collect();
    let told = |(place, row): &(usize, Vec<String>)| {
        (*place, columns.iter().map(|index| row[*index].clone()).collect())
    };
    Some(Further {
        headings: columns.iter().map(|index| COLUMNS[*index].0.to_owned()).collect(),
        rows: rows.iter().map(told).collect(),
    })
}

/// The cells of an arm that has latencies; none of others.
fn row(arm: &Arm) -> Option<Vec<String>> {
    let latency = Latency::of_arm(arm)?;
    let io_bytes = arm.params.get("io_bytes").and_then(|bytes| bytes.as_f64());
    let request_gib = io_bytes.map(|bytes| bytes / GIB);
    let micro = |ns: u64| numbers::figure(ns as f64 / 1e3);
    let known = |value: Option<f64>| value.map_or_else(|| UNKNOWN.to_owned(), numbers::figure);
    let costs = arm.costs.unwrap_or_default();
    let of_request = |per_gib: Option<f64>, factor: f64| {
        known(per_gib.zip(request_gib).map(|(per_gib, gib)| per_gib * gib * factor))
    };
    let rate = arm.median.filter(|_| arm.unit == Unit::OpsPerSecond);
    Some(vec![
        arm.name.clone(),
        known(rate.zip(request_gib).map(|(rate, gib)| rate * gib)),
        micro(latency.p50_ns),
        micro(latency.p95_ns),
        micro(latency.p99_ns),
        micro(latency.p999_ns),
        micro(latency.max_ns),
        of_request(costs.cpu_user_s_per_gib, 1e6),
        of_request(costs.cpu_system_s_per_gib, 1e6),
        of_request(costs.context_switches_per_gib, 1e3),
    ])
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Costs;

    fn record(arms: Vec<Arm>) -> Record {
        Record { blocks: 3, trusted: true, arms, ..Record::default() }
    }

    /// An arm with latencies.
    fn arm(name: &str) -> Arm {
        let latency = json!({
            "p50_ns": 1500, "p95_ns": 2500, "p99_ns": 30_000, "p99.9_ns": 31_000, "max_ns": 40_000
        });
        let mut arm = Arm::new(name, Unit::OpsPerSecond);
        arm.params.insert("latency".to_owned(), latency);
        arm
    }

    #[test]
    fn an_arm_with_latencies_has_a_row_and_the_others_have_none() {
        let mut with = arm("uring");
        with.params.insert("io_bytes".to_owned(), 1024.into());
        with.median = Some(1_048_576.0);
        with.costs = Some(Costs {
            cpu_user_s_per_gib: Some(0.5),
            cpu_system_s_per_gib: Some(1.0),
            context_switches_per_gib: Some(1_048_576.0),
            ..Costs::default()
        });
        let without = Arm::new("pread", Unit::OpsPerSecond);
        assert_eq!(draw(&record(vec![without.clone()]), Style::default()), None);
        let text = draw(&record(vec![with, without]), Style::default()).expect("one has");
        let row: Vec<_> = text.lines().last().expect("a row").split_whitespace().collect();
        assert_eq!(
            row,
            ["uring", "1.00", "1.50", "2.50", "30.0", "31.0", "40.0", "0.477", "0.954", "1000"]
        );
    }

    #[test]
    fn where_it_is_narrow_percentiles_stay_longest_and_names_stay_readable() {
        let arm = arm("io_uring, registered buffers, 32 deep");
        for width in 30..100 {
            let style = Style { width: Some(width), ..Style::default() };
            let text = draw(&record(vec![arm.clone()]), style).expect("it has some");
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= usize::from(width), "{width} columns:\n{text}");
            let head: Vec<_> = text.lines().take(1).flat_map(str::split_whitespace).collect();
            assert!(head.contains(&"p50") && head.contains(&"p99"), "{width} columns:\n{text}");
            assert!(text.contains("registered"), "{width} columns:\n{text}");
            assert_eq!(text.contains("too narrow"), !head.contains(&"p95"), "{width}:\n{text}");
        }
    }
}
