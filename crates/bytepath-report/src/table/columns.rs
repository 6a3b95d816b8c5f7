//! The columns of the table, in the order in which they are shown.

use comfy_table::CellAlignment;

use crate::arm::{Arm, PEAK_AT_MOST, RESIDENT, Status, Unit};
use crate::numbers::{self, UNKNOWN};
use crate::record::Record;
use crate::verdict;

/// Stands in the measured column of an arm that could not run.
pub(super) const UNAVAILABLE: &str = "n/a";
/// Follows the name of the arm that the ratios are against.
pub(super) const REFERENCE_MARK: &str = " *";

pub(super) const VERDICT: &str = "verdict";
pub(super) const PUBLISHED: &str = "published";
pub(super) const TOUCHED: &str = "touched";

/// One column of the table.
pub(crate) struct Column {
    /// How the column is called in a sentence.
    pub(crate) name: &'static str,
    /// The words over it, on one line or two.
    pub(crate) heading: fn(&Record) -> String,
    /// Of an arm, and the unit that all arms have in common.
    pub(crate) cell: fn(Option<Unit>, &Arm) -> String,
    pub(super) alignment: CellAlignment,
    /// Where the width does not suffice, the column with the lowest figure goes first: what others
    /// measured and what it cost before how sure it is. Columns without one always stay.
    pub(super) importance: Option<u8>,
}

impl Column {
    /// Whether any arm has something to say here.
    pub(crate) fn holds_anything(&self, record: &Record) -> bool {
        let unit = common_unit(record);
        record.arms.iter().any(|arm| (self.cell)(unit, arm) != UNKNOWN)
    }

    /// Whether its cells are figures rather than words.
    pub(crate) fn is_of_figures(&self) -> bool {
        self.alignment == CellAlignment::Right
    }
}

/// Every column.
pub(crate) const ALL: &[Column] = &[
    Column {
        name: "arm",
        heading: |_| "arm".to_owned(),
        cell: |_, arm| {
            let mark = if arm.reference { REFERENCE_MARK } else { "" };
            format!("{}{mark}", arm.name)
        },
        alignment: CellAlignment::Left,
        importance: None,
    },
    Column {
        name: PUBLISHED,
        heading: |record| with_unit(PUBLISHED, record),
        cell: |unit, arm| {
            measured(unit, arm, arm.published.as_ref().map(|published| published.value))
        },
        alignment: CellAlignment::Right,
        importance: Some(3),
    },
    Column {
        name: "median",
        heading: |record| with_unit("measured", record),
        cell: |unit, arm| match arm.status {
            Status::Ok => measured(unit, arm, arm.median),
            Status::Unavailable => UNAVAILABLE.to_owned(),
        },
        alignment: CellAlignment::Right,
        importance: None,
    },
    Column {
        name: "95% interval",
        heading: |_| "95%\ninterval".to_owned(),
        cell: |_, arm| arm.ci95.map_or_else(unknown, numbers::interval),
        alignment: CellAlignment::Right,
        importance: Some(7),
    },
    Column {
        name: "ratio to reference",
        heading: |_| "ratio to\nreference".to_owned(),
        cell: |_, arm| ratio(arm),
        alignment: CellAlignment::Right,
        importance: Some(8),
    },
    Column {
        name: "ratio's interval",
        heading: |_| "ratio's\ninterval".to_owned(),
        cell: |_, arm| arm.ratio_ci95.map_or_else(unknown, numbers::ratio_interval),
        alignment: CellAlignment::Right,
        importance: Some(6),
    },
    Column {
        name: VERDICT,
        heading: |_| VERDICT.to_owned(),
        cell: |_, arm| {
            arm.verdict.map_or_else(unknown, |found| verdict::words(found, arm.ratio_ci95))
        },
        alignment: CellAlignment::Left,
        // It goes first because it does not get lost: the verdicts then stand below the table.
        importance: Some(1),
    },
    Column {
        name: "CPU s/GiB",
        heading: |_| "CPU\ns/GiB".to_owned(),
        cell: |_, arm| figure(arm.costs.and_then(|costs| costs.cpu_s_per_gib())),
        alignment: CellAlignment::Right,
        importance: Some(4),
    },
    Column {
        name: "switches/GiB",
        heading: |_| "switches\n/GiB".to_owned(),
        cell: |_, arm| figure(arm.costs.and_then(|costs| costs.context_switches_per_gib)),
        alignment: CellAlignment::Right,
        importance: Some(2),
    },
    Column {
        name: "CPU ns/op",
        heading: |_| "CPU\nns/op".to_owned(),
        cell: |_, arm| figure(arm.costs.and_then(|costs| costs.cpu_ns_per_op)),
        alignment: CellAlignment::Right,
        importance: Some(4),
    },
    Column {
        name: "calls/op",
        heading: |_| "calls\n/op".to_owned(),
        cell: |_, arm| figure(arm.costs.and_then(|costs| costs.syscalls_per_op)),
        alignment: CellAlignment::Right,
        importance: Some(2),
    },
    Column {
        name: "switches/op",
        heading: |_| "switches\n/op".to_owned(),
        cell: |_, arm| figure(arm.costs.and_then(|costs| costs.context_switches_per_op)),
        alignment: CellAlignment::Right,
        importance: Some(2),
    },
    Column {
        name: "user s/run",
        heading: |_| "user\ns".to_owned(),
        cell: |_, arm| figure(arm.costs.and_then(|costs| costs.cpu_user_s_per_run)),
        alignment: CellAlignment::Right,
        importance: Some(4),
    },
    Column {
        name: "system s/run",
        heading: |_| "system\ns".to_owned(),
        cell: |_, arm| figure(arm.costs.and_then(|costs| costs.cpu_system_s_per_run)),
        alignment: CellAlignment::Right,
        importance: Some(4),
    },
    Column {
        name: "peak memory",
        heading: |_| "peak\nmemory".to_owned(),
        cell: |_, arm| {
            let peak = arm.costs.and_then(|costs| costs.peak_memory_bytes);
            let at_most = arm.params.get(PEAK_AT_MOST).and_then(serde_json::Value::as_u64);
            match (peak, at_most) {
                (Some(bytes), _) => numbers::bytes(bytes as u64),
                (None, Some(bytes)) => format!("≤ {}", numbers::bytes(bytes)),
                (None, None) => unknown(),
            }
        },
        alignment: CellAlignment::Right,
        importance: Some(4),
    },
    Column {
        name: "faults/run",
        heading: |_| "faults".to_owned(),
        cell: |_, arm| figure(arm.costs.and_then(|costs| costs.page_faults_per_run)),
        alignment: CellAlignment::Right,
        importance: Some(2),
    },
    Column {
        name: "switches/run",
        heading: |_| "switches".to_owned(),
        cell: |_, arm| figure(arm.costs.and_then(|costs| costs.context_switches_per_run)),
        alignment: CellAlignment::Right,
        importance: Some(2),
    },
    Column {
        name: "source in the page cache",
        heading: |_| "source\ncached".to_owned(),
        cell: |_, arm| share(arm, RESIDENT[0]),
        alignment: CellAlignment::Right,
        importance: Some(4),
    },
    Column {
        name: "copy in the page cache",
        heading: |_| "copy\ncached".to_owned(),
        cell: |_, arm| share(arm, RESIDENT[1]),
        alignment: CellAlignment::Right,
        importance: Some(4),
    },
    Column {
        name: TOUCHED,
        heading: |_| TOUCHED.to_owned(),
        cell: |_, arm| match (arm.status, arm.touched) {
            (Status::Unavailable, _) => unknown(),
            _ if !arm.unit.is_of_bytes() => unknown(),
            (Status::Ok, true) => "yes".to_owned(),
            (Status::Ok, false) => "no".to_owned(),
        },
        alignment: CellAlignment::Left,
        // Nor does this get lost: speeds of bytes that nobody looked at must not pass for the others, and
        // are named below the table.
        importance: Some(5),
    },
];

/// The unit of all arms, where they have one in common.
pub(crate) fn common_unit(record: &Record) -> Option<Unit> {
    let first = record.arms.first()?.unit;
    record.arms.iter().all(|arm| arm.unit == first).then_some(first)
}

fn with_unit(heading: &str, record: &Record) -> String {
    match common_unit(record) {
        Some(unit) => format!("{heading}\n{}", unit.as_str()),
        None => heading.to_owned(),
    }
}

/// A figure in the arm's unit, which is named here unless it stands in the heading.
fn measured(unit: Option<Unit>, arm: &Arm, value: Option<f64>) -> String {
    match (value, unit) {
        (None, _) => unknown(),
        (Some(value), Some(_)) => numbers::figure(value),
        (Some(value), None) => format!("{} {}", numbers::figure(value), arm.unit.as_str()),
    }
}

fn ratio(arm: &Arm) -> String {
    let shown = |ratio| numbers::ratio_within(ratio, arm.ratio_ci95);
    arm.ratio_or_reference().map_or_else(unknown, shown)
}

fn figure(value: Option<f64>) -> String {
    value.map_or_else(unknown, numbers::figure)
}

/// A parameter that is a share, in percent.
fn share(arm: &Arm, param: &str) -> String {
    let share = arm.params.get(param).and_then(serde_json::Value::as_f64);
    share.map_or_else(unknown, |share| format!("{}%", numbers::figure(share * 100.0)))
}

fn unknown() -> String {
    UNKNOWN.to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{Costs, csv};

    /// Costs that no column shows, and why.
    const WITHOUT_A_COLUMN: &[(&str, &str)] = &[
        ("syscalls_per_gib", "routes are told apart by CPU time and switches; the page has it"),
        ("page_faults_per_gib", "likewise"),
    ];

    #[test]
    fn every_cost_is_in_the_csv_on_the_page_and_in_the_table() {
        // Every field by its name, so that a new one cannot be forgotten here.
        let costs = Costs {
            cpu_user_s_per_gib: Some(1.0),
            cpu_system_s_per_gib: Some(1.0),
            syscalls_per_gib: Some(1.0),
            context_switches_per_gib: Some(1.0),
            page_faults_per_gib: Some(1.0),
            cpu_ns_per_op: Some(1.0),
            syscalls_per_op: Some(1.0),
            context_switches_per_op: Some(1.0),
            cpu_user_s_per_run: Some(1.0),
            cpu_system_s_per_run: Some(1.0),
            context_switches_per_run: Some(1.0),
            page_faults_per_run: Some(1.0),
            peak_memory_bytes: Some(1.0),
        };
        let Ok(Value::Object(all)) = serde_json::to_value(costs) else { panic!("{costs:?}") };
        let cells = |costs: Costs| -> Vec<String> {
            let arm = Arm { costs: Some(costs), ..Arm::new("arm", Unit::GibPerSecond) };
            ALL.iter().map(|column| (column.cell)(None, &arm)).collect()
        };
        for name in all.keys() {
            assert!(csv::COLUMNS.iter().any(|column| column.name == name), "{name}: csv.rs");
            let page = include_str!("../page/js/costs.js");
            assert!(page.contains(&format!("\"{name}\"")), "{name}: costs.js");
            let mut more = all.clone();
            more.insert(name.clone(), 1e9.into());
            let more = serde_json::from_value(Value::Object(more)).expect("they are costs");
            let has_none = WITHOUT_A_COLUMN.iter().any(|(without, _)| without == name);
            assert_eq!(cells(more) == cells(costs), has_none, "{name}: columns.rs");
        }
    }
}
