//! A record as CSV: one row per sample of an arm, for spreadsheets and statistics programs. Those of the
//! A/A control, which is no arm, are in the JSON alone.
//!
//! What belongs to the record or to the arm is repeated on each of its rows, so that a row can be
//! read alone. An arm without samples keeps one row, with its reason and empty sample columns.
//! Unknown figures are empty. The list [`COLUMNS`] is the header, in order; within one major
//! version of the record new columns only join at its end.
//!
//! Text that a spreadsheet would take for a formula, because it begins with `=`, `+`, `-`, `@` or a tab, has a
//! `'` before it. Figures never have. Control characters but for tabs and ends of lines are replaced (U+FFFD).

use std::io;

use crate::arm::{Arm, Costs, Sample};
use crate::record::Record;

/// One column: its name in the header, and what it holds.
pub struct Column {
    /// The name in the header.
    pub name: &'static str,
    /// What the column holds, with its unit.
    pub meaning: &'static str,
    cell: fn(&Row<'_>) -> String,
}

/// What a row is made from.
struct Row<'a> {
    record: &'a Record,
    arm: &'a Arm,
    sample: Option<&'a Sample>,
}

/// Every column, in the order of the header.
pub const COLUMNS: &[Column] = &[
    Column {
        name: "record_id",
        meaning: "the run, as in the record's `id`",
        cell: |row| row.record.id.clone(),
    },
    Column {
        name: "started",
        meaning: "when the run started, RFC 3339",
        cell: |row| row.record.started.clone(),
    },
    Column {
        name: "bytepath_version",
        meaning: "the version of the bytepath that measured",
        cell: |row| row.record.bytepath.version.clone(),
    },
    Column {
        name: "bytepath_build",
        meaning: "its build",
        cell: |row| row.record.bytepath.build.clone(),
    },
    Column {
        name: "kernel",
        meaning: "the kernel's release and version",
        cell: |row| row.record.machine.kernel.clone(),
    },
    Column {
        name: "experiment",
        meaning: "the name of the experiment",
        cell: |row| row.record.experiment.name.clone(),
    },
    Column {
        name: "trusted",
        meaning: "whether the run's figures may be believed: true or false",
        cell: |row| row.record.trusted.to_string(),
    },
    Column { name: "arm", meaning: "the name of the arm", cell: |row| row.arm.name.clone() },
    Column {
        name: "params",
        meaning: "what distinguishes the arm, as a JSON object",
        cell: |row| serde_json::json!(row.arm.params).to_string(),
    },
    Column {
        name: "reference",
        meaning: "whether the ratios are against this arm: true or false",
        cell: |row| row.arm.reference.to_string(),
    },
    Column {
        name: "status",
        meaning: "ok or unavailable",
        cell: |row| row.arm.status.as_str().to_owned(),
    },
    Column {
        name: "why",
        meaning: "why the arm could not run, and what would allow it",
        cell: |row| row.arm.why.clone().unwrap_or_default(),
    },
    Column {
        name: "touched",
        meaning: "whether the reader looked at the bytes: true or false",
        cell: |row| row.arm.touched.to_string(),
    },
    Column {
        name: "unit",
        meaning: "the unit of value, median, ci95 and published: GiB/s, op/s, s or ns",
        cell: |row| row.arm.unit.as_str().to_owned(),
    },
    Column {
        name: "better",
        meaning: "whether a higher or a lower value is better",
        cell: |row| row.arm.better.as_str().to_owned(),
    },
    Column {
        name: "block",
        meaning: "the block of the sample, from 0",
        cell: |row| of_sample(row, |sample| sample.block.to_string()),
    },
    Column {
        name: "order",
        meaning: "the position of the arm in the block's random order, from 0",
        cell: |row| of_sample(row, |sample| sample.order.to_string()),
    },
    Column {
        name: "value",
        meaning: "the sample, in the arm's unit",
        cell: |row| of_sample(row, |sample| sample.value.to_string()),
    },
    Column {
        name: "seconds",
        meaning: "how long the measured part ran, in seconds",
        cell: |row| of_sample(row, |sample| sample.seconds.to_string()),
    },
    Column {
        name: "flagged",
        meaning: "whether something disturbed the sample: true or false",
        cell: |row| of_sample(row, |sample| sample.flagged.to_string()),
    },
    Column {
        name: "flag_why",
        meaning: "what disturbed it",
        cell: |row| of_sample(row, |sample| sample.flag_why.clone().unwrap_or_default()),
    },
    Column {
        name: "superseded",
        meaning: "whether a later sample of the block replaces it in the statistics: true or false",
        cell: |row| of_sample(row, |sample| sample.superseded.to_string()),
    },
    Column {
        name: "steal_share",
        meaning: "CPU time that the hypervisor kept for others meanwhile, 0 to 1",
        cell: |row| of_sample(row, |sample| known(sample.steal_share)),
    },
    Column {
        name: "foreign_cpu_share",
        meaning: "CPU time that other processes used meanwhile, 0 to 1",
        cell: |row| of_sample(row, |sample| known(sample.foreign_cpu_share)),
    },
    Column {
        name: "median",
        meaning: "the arm's median over the blocks",
        cell: |row| known(row.arm.median),
    },
    Column {
        name: "ci95_low",
        meaning: "the low end of the median's 95% interval",
        cell: |row| known(row.arm.ci95.map(|[low, _]| low)),
    },
    Column {
        name: "ci95_high",
        meaning: "the high end of the median's 95% interval",
        cell: |row| known(row.arm.ci95.map(|[_, high]| high)),
    },
    Column {
        name: "ratio",
        meaning: "the arm's value divided by the reference arm's, median over the blocks",
        cell: |row| known(row.arm.ratio),
    },
    Column {
        name: "ratio_ci95_low",
        meaning: "the low end of the ratio's 95% interval",
        cell: |row| known(row.arm.ratio_ci95.map(|[low, _]| low)),
    },
    Column {
        name: "ratio_ci95_high",
        meaning: "the high end of the ratio's 95% interval",
        cell: |row| known(row.arm.ratio_ci95.map(|[_, high]| high)),
    },
    Column {
        name: "verdict",
        meaning: "faster, slower, same or undecided",
        cell: |row| row.arm.verdict.map_or_else(String::new, |verdict| verdict.as_str().to_owned()),
    },
    Column {
        name: "cpu_user_s_per_gib",
        meaning: "CPU seconds in user space per GiB, both ends",
        cell: |row| cost(row, |costs| costs.cpu_user_s_per_gib),
    },
    Column {
        name: "cpu_system_s_per_gib",
        meaning: "CPU seconds in the kernel per GiB, both ends",
        cell: |row| cost(row, |costs| costs.cpu_system_s_per_gib),
    },
    Column {
        name: "syscalls_per_gib",
        meaning: "system calls per GiB",
        cell: |row| cost(row, |costs| costs.syscalls_per_gib),
    },
    Column {
        name: "context_switches_per_gib",
        meaning: "context switches per GiB",
        cell: |row| cost(row, |costs| costs.context_switches_per_gib),
    },
    Column {
        name: "page_faults_per_gib",
        meaning: "page faults per GiB",
        cell: |row| cost(row, |costs| costs.page_faults_per_gib),
    },
    Column {
        name: "published",
        meaning: "what others published for the arm, in the arm's unit",
        cell: |row| known(row.arm.published.as_ref().map(|published| published.value)),
    },
    Column {
        name: "published_source",
        meaning: "who published it",
        cell: |row| {
            row.arm
                .published
                .as_ref()
                .map_or_else(String::new, |published| published.source.clone())
        },
    },
    Column {
        name: "section",
        meaning: "the section of the record that the arm belongs to, where it has sections",
        cell: |row| row.arm.section.clone().unwrap_or_default(),
    },
    Column {
        name: "cpu_ns_per_op",
        meaning: "CPU nanoseconds per operation",
        cell: |row| cost(row, |costs| costs.cpu_ns_per_op),
    },
    Column {
        name: "syscalls_per_op",
        meaning: "system calls per operation",
        cell: |row| cost(row, |costs| costs.syscalls_per_op),
    },
    Column {
        name: "context_switches_per_op",
        meaning: "context switches per operation",
        cell: |row| cost(row, |costs| costs.context_switches_per_op),
    },
    Column {
        name: "cpu_user_s_per_run",
        meaning: "CPU seconds in user space of one run of a command",
        cell: |row| cost(row, |costs| costs.cpu_user_s_per_run),
    },
    Column {
        name: "cpu_system_s_per_run",
        meaning: "CPU seconds in the kernel of one run",
        cell: |row| cost(row, |costs| costs.cpu_system_s_per_run),
    },
    Column {
        name: "context_switches_per_run",
        meaning: "context switches of one run",
        cell: |row| cost(row, |costs| costs.context_switches_per_run),
    },
    Column {
        name: "page_faults_per_run",
        meaning: "page faults of one run",
        cell: |row| cost(row, |costs| costs.page_faults_per_run),
    },
    Column {
        name: "peak_memory_bytes",
        meaning: "the most memory that a process of the run held, in bytes",
        cell: |row| cost(row, |costs| costs.peak_memory_bytes),
    },
];

/// Writes the record to a sink, header first.
///
/// The sink is written in large pieces and flushed at the end; its errors come back as they are.
pub fn write(record: &Record, sink: impl io::Write) -> io::Result<()> {
    write_all(std::slice::from_ref(record), sink)
}

/// Writes several records below one header, as [`write()`] does one.
pub fn write_all(records: &[Record], sink: impl io::Write) -> io::Result<()> {
    let mut writer = ::csv::Writer::from_writer(sink);
    writer.write_record(COLUMNS.iter().map(|column| column.name)).map_err(errno_kept)?;
    for (record, arm) in
        records.iter().flat_map(|record| record.arms.iter().map(move |arm| (record, arm)))
    {
        if arm.samples.is_empty() {
            write_row(&mut writer, &Row { record, arm, sample: None })?;
        }
        for sample in &arm.samples {
            write_row(&mut writer, &Row { record, arm, sample: Some(sample) })?;
        }
    }
    writer.flush()
}

fn write_row(writer: &mut ::csv::Writer<impl io::Write>, row: &Row<'_>) -> io::Result<()> {
    writer.write_record(COLUMNS.iter().map(|column| inert((column.cell)(row)))).map_err(errno_kept)
}

/// The cell, as text where it would be a formula, and without control characters. A record of somebody else
/// must not be able to command the spreadsheet, nor a terminal.
fn inert(cell: String) -> String {
    let commands = |c: char| c.is_control() && !matches!(c, '\n' | '\t');
    let cell = cell.replace(commands, "\u{fffd}");
    let is_formula = cell.starts_with(['=', '+', '-', '@', '\t']);
    match is_formula && cell.parse::<f64>().is_err() {
        true => format!("'{cell}"),
        false => cell,
    }
}

/// The sink's own error. The csv crate's conversion would wrap it, and a closed pipe would no
/// longer be told from a full disk.
fn errno_kept(error: ::csv::Error) -> io::Error {
    match error.into_kind() {
        ::csv::ErrorKind::Io(error) => error,
        other => io::Error::other(format!("{other:?}")),
    }
}

fn of_sample(row: &Row<'_>, cell: impl Fn(&Sample) -> String) -> String {
    row.sample.map_or_else(String::new, cell)
}

fn cost(row: &Row<'_>, cost: impl Fn(&Costs) -> Option<f64>) -> String {
    known(row.arm.costs.as_ref().and_then(cost))
}

/// Every digit, so that nothing is lost; empty when unknown.
fn known(figure: Option<f64>) -> String {
    figure.map_or_else(String::new, |figure| figure.to_string())
}
