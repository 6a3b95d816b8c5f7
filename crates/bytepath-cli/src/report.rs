//! `bytepath report`: records as one page for a browser, as Markdown, CSV, JSON, or on the terminal.

use std::ffi::OsString;
use std::io::{IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context;
use bytepath_report::{Record, csv, markdown, numbers, plot, table};
use clap::{Args, ValueEnum};

use crate::output::{self, Output};
use crate::page::{here, page};
use crate::streams::stdout;
use crate::style::{plot_style, style};
use crate::usage::wrong_usage;
use crate::{interrupt, kept};

/// Show records to others: one page for a browser with plots, costs, flame graphs and the machine;
/// or Markdown, CSV, JSON; or tables and plots on the terminal
#[derive(Args)]
pub(crate) struct Options {
    /// Runs: ids (see bytepath history), last, last~1, files that --json wrote; - for standard input
    #[arg(required = true, value_name = "RECORD")]
    record: Vec<OsString>,
    /// Write to this file; - for standard output. Its ending says the format: .html, .md, .csv, .json
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The format, whatever the file is called
    #[arg(long, value_enum)]
    format: Option<Format>,
    /// Draw the medians and their intervals on the terminal
    #[arg(long)]
    plot: bool,
}

/// What a report is written as.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// One page for a browser, with nothing beside it
    Html,
    /// Markdown, with a table
    Markdown,
    /// Every sample, a row each
    Csv,
    /// The records themselves; several as an array
    Json,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    interrupt::heeded();
    let output = options.output.as_deref();
    let format = format(options.format, output)?;
    let to_stdout = output.is_none_or(output::is_stdout);
    if options.plot && format.is_some() && to_stdout {
        return Err(wrong_usage(
            "standard output takes a plot or another format, not both; name a file: -o FILE",
        ));
    }
    if format == Some(Format::Html) && output.is_none() && std::io::stdout().is_terminal() {
        return Err(wrong_usage("a page is not for a terminal; name a file: -o report.html"));
    }
    let read = options.record.iter().map(OsString::as_os_str);
    output::spares("-o", output, read).map_err(wrong_usage)?;
    let opened = output.map(Output::open).transpose()?;
    let records: Vec<Record> =
        kept::runs(&options.record)?.into_iter().map(|run| run.record).collect();
    if let Some(format) = format {
        let text = written(&records, format)?;
        match opened {
            Some(file) => file.write(&text)?,
            None => stdout().write_all(&text).context("standard output")?,
        }
        if let Some(path) = output.filter(|_| !to_stdout) {
            told(path, &records, text.len())?;
        }
    }
    if options.plot || format.is_none() {
        shown(&records, options.plot, format.is_none())?;
    }
    Ok(())
}

/// The format that was asked for, or that the file's ending says; none where all goes to the
/// terminal.
fn format(asked: Option<Format>, output: Option<&Path>) -> anyhow::Result<Option<Format>> {
    let Some(path) = output.filter(|_| asked.is_none()) else { return Ok(asked) };
    of_ending(path).map(Some).ok_or_else(|| {
        wrong_usage(format!(
            "{} does not say a format; give --format html, markdown, csv or json",
            path.display()
        ))
    })
}

/// The format that a file's ending says.
pub(crate) fn of_ending(path: &Path) -> Option<Format> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "html" | "htm" => Some(Format::Html),
        "md" | "markdown" => Some(Format::Markdown),
        "csv" => Some(Format::Csv),
        "json" => Some(Format::Json),
        _ => None,
    }
}

fn written(records: &[Record], format: Format) -> anyhow::Result<Vec<u8>> {
    match format {
        Format::Html => Ok(page(records)?.into_bytes()),
        Format::Markdown => {
            let here = here();
            let each = records.iter().map(|record| markdown::render(record, &here));
            Ok(each.collect::<String>().into_bytes())
        }
        Format::Csv => {
            let mut text = Vec::new();
            csv::write_all(records, &mut text)?;
            Ok(text)
        }
        Format::Json => Ok(json(records)?.into_bytes()),
    }
}

/// One record as it is, several as an array; `report` reads either.
pub(crate) fn json(records: &[Record]) -> anyhow::Result<String> {
    let each: Result<Vec<String>, _> = records.iter().map(Record::to_json).collect();
    let mut each = each?;
    match each.len() {
        1 => Ok(each.remove(0)),
        _ => Ok(format!("[\n{}]\n", each.join(",\n"))),
    }
}

/// Says what was written, for somebody who waits for it.
fn told(path: &Path, records: &[Record], bytes: usize) -> anyhow::Result<()> {
    let runs = numbers::counted(records.len() as u64, "run");
    let line = format!("{}: {runs}, {}\n", path.display(), numbers::bytes(bytes as u64));
    stdout().write_all(line.as_bytes()).context("standard output")
}

/// Plots, tables, or both, of all records on the terminal.
fn shown(records: &[Record], with_plot: bool, with_table: bool) -> anyhow::Result<()> {
    let mut text = String::new();
    for record in records {
        if with_table {
            text += &table::render(record, style());
            text.push('\n');
        } else {
            text += &table::paragraph(
                &format!("{}: {}", record.experiment.name, record.experiment.question),
                style(),
            );
        }
        if with_plot {
            text += &plot::render(record, plot_style());
            text.push('\n');
        }
    }
    stdout().write_all(text.as_bytes()).context("standard output")
}
