//! `bytepath read`: the reading end of a pipe, by any inlet, and the end that measures.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, bail};
use bytepath::inlets::Inlet;
use bytepath_lab::ends::{EndReport, NOTHING_CAME, ReadEnd, Until};
use clap::Args;

use crate::ends::{self, End, Shared, Useful};
use crate::output;
use crate::streams::stdout;
use crate::sys::start;
use crate::usage::wrong_usage;
use crate::values;

/// As published.
const BYTES_DEFAULT: u64 = 10 << 30;

/// Read from a pipe as fast as it gives, and say how fast that was
///
/// Takes every option of the published program pair of the same names (in either spelling,
/// --buf-size or --buf_size), and joins any program: yes | bytepath read --bytes-to-pipe 1G.
#[derive(Args)]
pub(crate) struct Options {
    /// How to read
    #[arg(long, value_name = "INLET", value_parser = values::inlets(), conflicts_with = "read_with_splice")]
    inlet: Option<&'static dyn Inlet>,
    /// Read this long before the clock starts
    #[arg(long, value_name = "TIME", value_parser = values::warm_up, default_value = "0s")]
    warm_up: Duration,
    #[command(flatten)]
    shared: Shared,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let shared = &options.shared;
    shared.check()?;
    check(options)?;
    let stdin = [OsStr::new("-")];
    output::spares("--json", shared.json.as_deref(), stdin).map_err(wrong_usage)?;
    ends::end_with(shared.starter)?;
    if shared.csv && shared.json_alone() {
        return Err(wrong_usage("standard output takes one of --json and --csv, not both"));
    }
    if start::was_closed(0) {
        bail!("standard input is closed; was it redirected with <&-?");
    }
    let stdin = std::io::stdin();
    let end = end(options)?;
    let output = shared.output()?;
    let report = end.run(stdin.as_fd())?;
    enough(shared, &report)?;
    shared.say(&report);
    ends::save(&report, "inlet", output)?;
    if shared.json_alone() {
        return Ok(());
    }
    let line = if shared.csv {
        shared.csv_row(&report, shared.write_with_vmsplice, end.inlet.name() == "splice-null")
    } else {
        sentence(&report)
    };
    writeln!(stdout(), "{line}").context("standard output")
}

/// A speed of nothing is none, and a stream that was cut short is not verified.
fn enough(shared: &Shared, report: &EndReport) -> anyhow::Result<()> {
    if report.bytes == 0 {
        if !report.source_ended {
            bail!("nothing came in the time that was given");
        }
        bail!(NOTHING_CAME);
    }
    match shared.bytes_to_pipe {
        Some(bytes) if shared.verify && report.source_ended && report.bytes < bytes => {
            bail!("the stream ended after {} of {bytes} bytes: the rest was lost", report.bytes)
        }
        _ => Ok(()),
    }
}

fn sentence(report: &EndReport) -> String {
    let mut sentence = format!(
        "{} GiB/s, {} per call{} ({} in {:.3} s)",
        bytepath_report::numbers::figure(report.gib_per_second()),
        bytepath_report::numbers::bytes(report.chunk_bytes),
        crate::ends::of_pipe(report),
        bytepath_report::numbers::bytes(report.bytes),
        report.seconds,
    );
    if let Some(sum) = report.checksum {
        sentence += &format!(", byte sum {sum}");
    }
    match report.pattern_period {
        Some(0) => sentence += ", every byte verified",
        Some(period) => {
            sentence += &format!(", every byte verified (pattern repeats after {period} bytes)");
        }
        None => {}
    }
    sentence
}

/// Refuses options that have no effect here.
fn check(options: &Options) -> anyhow::Result<()> {
    let Some(inlet) = options.inlet else { return Ok(()) };
    let (shared, splices) = (&options.shared, inlet.name() == "splice-null");
    let published = [
        Useful {
            option: "--gift",
            given: shared.gift,
            has_effect: splices,
            about: "it is a flag of splice(2) (SPLICE_F_MOVE), which the inlet splice-null calls",
        },
        Useful {
            option: "--dont-touch-pages",
            given: shared.dont_touch_pages,
            has_effect: !splices,
            about: "it has no buffer",
        },
    ];
    let name = format!("the inlet {}", inlet.name());
    ends::refuse_without_effect(&name, &published)?;
    ends::refuse_without_effect(&name, &shared.page_options(!splices))
}

fn end(options: &Options) -> anyhow::Result<ReadEnd> {
    let shared = &options.shared;
    let named = if shared.read_with_splice { "splice-null" } else { "read" };
    let inlet = options.inlet.or_else(|| bytepath::inlets::by_name(named));
    Ok(ReadEnd {
        inlet: inlet.context("no inlet")?,
        buf_bytes: shared.buf_bytes(),
        pipe_bytes: shared.pipe_size,
        pages: shared.pages(),
        check_huge: shared.check_huge_page,
        move_flag: shared.gift,
        untouched: shared.dont_touch_pages,
        verify: shared.verify,
        wait: shared.wait(),
        cpu: shared.cpu(End::Reader)?,
        warm_up: options.warm_up,
        until: until(shared),
        interrupted: shared.starter.is_none(),
    })
}

fn until(shared: &Shared) -> Until {
    match (shared.bytes_to_pipe, shared.time) {
        (bytes, Some(time)) => Until::Time(time, bytes),
        (bytes, None) => Until::Bytes(bytes.unwrap_or(BYTES_DEFAULT)),
    }
}
