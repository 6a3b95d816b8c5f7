//! `bytepath import`: records of what hyperfine and fio measured.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use bytepath_lab::import;
use bytepath_report::{Record, table};
use clap::Args;

use crate::kept::keep;
use crate::output::{self, Output};
use crate::streams::stdout;
use crate::style::style;
use crate::usage::wrong_usage;
use crate::{interrupt, records, report, said};

/// Make records of what hyperfine (--export-json) and fio (--output-format=json) measured, to
/// report and compare
#[derive(Args)]
pub(crate) struct Options {
    /// Files that hyperfine or fio wrote; - for standard input
    #[arg(required = true, value_name = "FILE")]
    file: Vec<OsString>,
    /// Write the records to a file, several as an array; - for standard output, which then holds
    /// nothing else
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Do not keep the runs; see bytepath history
    #[arg(long)]
    no_store: bool,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    interrupt::heeded();
    let read = options.file.iter().map(OsString::as_os_str);
    output::spares("--json", options.json.as_deref(), read).map_err(wrong_usage)?;
    let output = options.json.as_deref().map(Output::open).transpose()?;
    let records =
        options.file.iter().map(|name| record(name)).collect::<anyhow::Result<Vec<_>>>()?;
    let stored = |record| keep(record).map(|kept| format!("\nkept as {kept}\n"));
    let kept: Vec<_> = records
        .iter()
        .map(|record| if options.no_store { None } else { stored(record) }.unwrap_or_default())
        .collect();
    let written = output.map_or(Ok(()), |output| output.write(report::json(&records)?.as_bytes()));
    if options.json.as_deref().is_some_and(output::is_stdout) {
        return written;
    }
    let tables = records.iter().zip(kept);
    let tables = tables.map(|(record, kept)| table::render(record, style()) + &kept);
    let text = tables.collect::<Vec<_>>().join("\n");
    let printed = stdout().write_all(text.as_bytes()).context("standard output");
    said::also(written, said::printed(printed))
}

fn record(name: &OsStr) -> anyhow::Result<Record> {
    let text = records::text(name)?;
    let file = match name == "-" {
        true => {
            let stdin = std::io::stdin().as_fd().try_clone_to_owned();
            stdin.and_then(|stdin| File::from(stdin).metadata())
        }
        false => std::fs::metadata(name),
    };
    // What comes through a pipe was written just now.
    let file = file.ok().filter(Metadata::is_file);
    let written = records::time(file.and_then(|file| file.modified().ok()));
    let record = import::record(&text, &written);
    // The error says its cause itself.
    record.map_err(|error| anyhow!("{}: {error}", records::shown(name)))
}
