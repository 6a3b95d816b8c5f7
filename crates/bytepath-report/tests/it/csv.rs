//! The CSV of a record: what the rows are, and that the header stays.

use std::collections::BTreeSet;
use std::io::{self, Write};

use bytepath_report::{Record, csv};

use crate::sample;

/// The header and the rows, as another program would read them.
fn rows(record: &Record) -> (Vec<String>, Vec<Vec<String>>) {
    let mut text = Vec::new();
    csv::write(record, &mut text).expect("memory takes everything");
    let mut reader = ::csv::Reader::from_reader(text.as_slice());
    let header = reader.headers().expect("there is a header").iter().map(str::to_owned).collect();
    let rows = reader
        .records()
        .map(|row| row.expect("a sound row").iter().map(str::to_owned).collect())
        .collect();
    (header, rows)
}

#[test]
fn the_header_is_stable() {
    let (header, _) = rows(&sample::record());
    insta::assert_snapshot!(header.join("\n"));
}

#[test]
fn every_column_has_a_name_of_its_own_and_a_meaning() {
    let names: BTreeSet<_> = csv::COLUMNS.iter().map(|column| column.name).collect();
    assert_eq!(names.len(), csv::COLUMNS.len());
    assert!(csv::COLUMNS.iter().all(|column| !column.meaning.is_empty()));
}

#[test]
fn a_row_is_a_sample_and_an_arm_without_samples_keeps_one() {
    let record = sample::record();
    let (header, rows) = rows(&record);
    let samples: usize = record.arms.iter().map(|arm| arm.samples.len()).sum();
    assert_eq!(rows.len(), samples + 1);

    let at = |name: &str| header.iter().position(|column| column == name).expect("a column");
    let unavailable: Vec<_> = rows.iter().filter(|row| row[at("status")] != "ok").collect();
    let [row] = unavailable.as_slice() else { panic!("one arm is unavailable: {unavailable:?}") };
    assert_eq!(row[at("arm")], "uring → read");
    assert_eq!(row[at("value")], "");
    assert!(row[at("why")].contains("set it to 0 as root"));
}

#[test]
fn a_row_can_be_read_alone() {
    let (header, rows) = rows(&sample::record());
    let disturbed = rows.iter().find(|row| row.contains(&"40.1".to_owned())).expect("kept");
    let pairs = header.iter().zip(disturbed).map(|(name, cell)| format!("{name} = {cell}"));
    insta::assert_snapshot!(pairs.collect::<Vec<_>>().join("\n"));
}

#[test]
fn text_is_no_formula_of_a_spreadsheet_and_figures_stay() {
    let mut record = sample::record();
    let arm = &mut record.arms[0];
    arm.name = "=HYPERLINK(\"http://x\")".to_owned();
    arm.section = Some("@SUM(A1)".to_owned());
    arm.why = Some("-1+cmd|' /C calc'!A0".to_owned());
    arm.samples[0].flag_why = Some("\t=1".to_owned());
    arm.samples[0].value = -0.25;
    record.experiment.name = "a=b".to_owned();
    let (header, rows) = rows(&record);
    let at = |name: &str| header.iter().position(|column| column == name).expect("a column");
    for (name, expected) in [
        ("arm", "'=HYPERLINK(\"http://x\")"),
        ("section", "'@SUM(A1)"),
        ("why", "'-1+cmd|' /C calc'!A0"),
        ("flag_why", "'\t=1"),
        ("value", "-0.25"),
        ("experiment", "a=b"),
    ] {
        assert_eq!(rows[0][at(name)], expected, "{name}");
    }
}

#[test]
fn text_commands_no_terminal() {
    let mut record = sample::record();
    record.arms[0].name = "a\tb\n\u{1b}[31m\u{9b}31m\r\u{7f}é".to_owned();
    let (header, rows) = rows(&record);
    let at = header.iter().position(|column| column == "arm").expect("a column");
    assert_eq!(rows[0][at], "a\tb\n\u{fffd}[31m\u{fffd}31m\u{fffd}\u{fffd}é");
}

#[test]
fn a_sink_that_fails_keeps_its_error() {
    struct Closed;
    impl Write for Closed {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    // Enough rows that the writer meets the error before its last flush, too.
    let mut record = sample::record();
    for arms in [1, 100] {
        record.arms = vec![record.arms; arms].concat();
        let error = csv::write(&record, Closed).expect_err("nobody reads");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
