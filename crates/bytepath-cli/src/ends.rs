//! Options that `bytepath write` and `bytepath read` share: those of the published pair of
//! programs, so that one set of options can be given to both, and some of ours.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use bytepath::Wait;
use bytepath::machine::Machine;
use bytepath::outlets::BUF_BYTES;
use bytepath::pages::{PageSize, Pages};
use bytepath::placement::Placement;
use bytepath_lab::ends::{EndReport, Starter};
use bytepath_report::numbers;
use clap::Args;

use crate::output::{self, Output};
use crate::usage::wrong_usage;
use crate::values;

/// Options of both ends.
#[derive(Args, Clone)]
pub(crate) struct Shared {
    /// Spin on calls that do not block, instead of blocking in them (as --wait spin)
    #[arg(long, conflicts_with = "wait")]
    busy_loop: bool,
    /// Ask poll(2) before each call (as --wait poll; with --busy-loop as --wait poll-spin)
    #[arg(long, conflicts_with = "wait")]
    poll: bool,
    /// Put buffers in 2 MiB pages (transparent huge pages)
    #[arg(long, conflicts_with = "hugetlb")]
    huge_page: bool,
    /// Put buffers in 2 MiB pages of the hugetlbfs pool
    #[arg(long)]
    hugetlb: bool,
    /// Fail unless the buffers really got huge pages; of those taken while writing, most
    #[arg(long, conflicts_with = "dont_touch_pages")]
    pub(crate) check_huge_page: bool,
    /// Bytes per buffer, and per call at most; 256K unless given
    #[arg(long, value_name = "SIZE", value_parser = values::buffer_size)]
    pub(crate) buf_size: Option<usize>,
    /// Write with vmsplice (as --outlet vmsplice)
    #[arg(long)]
    pub(crate) write_with_vmsplice: bool,
    /// Read with splice to /dev/null (as --inlet splice-null)
    #[arg(long)]
    pub(crate) read_with_splice: bool,
    /// SPLICE_F_GIFT on vmsplice, SPLICE_F_MOVE on splice
    #[arg(long)]
    pub(crate) gift: bool,
    /// Lock buffers in memory
    #[arg(long)]
    lock_memory: bool,
    /// Do not touch buffers before they are used
    #[arg(long)]
    pub(crate) dont_touch_pages: bool,
    /// Put both buffers of vmsplice in one mapping
    #[arg(long)]
    pub(crate) same_buffer: bool,
    /// Print the reader's result as one row of CSV (write takes it so that both ends can be given
    /// the same options)
    #[arg(long)]
    pub(crate) csv: bool,
    /// Bytes to move: the reader stops after 10G unless told otherwise, the writer when the reader
    /// is gone
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    pub(crate) bytes_to_pipe: Option<u64>,
    /// Size of the pipe
    #[arg(long, value_name = "SIZE", value_parser = values::buffer_size)]
    pub(crate) pipe_size: Option<usize>,
    /// What to do when the pipe is full or empty: block, poll, spin, poll-spin, hybrid
    #[arg(long, value_name = "WAIT", value_parser = values::wait)]
    wait: Option<Wait>,
    /// How long hybrid spins before it sleeps
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    spin_budget: Option<Duration>,
    /// Run this end on the CPU that it has in this placement: same-cpu, cross-cpu, …
    #[arg(long, value_name = "PLACEMENT", value_parser = values::placement, conflicts_with = "cpu")]
    placement: Option<Placement>,
    /// Run this end on this CPU
    #[arg(long, value_name = "N")]
    cpu: Option<usize>,
    /// Write, or expect, a pattern in which every byte has its place, and check it
    #[arg(long)]
    pub(crate) verify: bool,
    /// Stop after this time
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) time: Option<Duration>,
    /// Write what this end did to a file, as JSON; - for standard output (of the reader)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// End when this process, which started us, ends
    #[arg(long, value_name = "PID", hide = true, value_parser = values::starter)]
    pub(crate) starter: Option<Starter>,
    /// Say on standard error which settings are in force
    #[arg(long)]
    pub(crate) verbose: bool,
}

/// Writes the report to the file asked for, with the name of its `outlet` or `inlet`.
pub(crate) fn save(report: &EndReport, by: &str, output: Option<Output>) -> anyhow::Result<()> {
    let Some(output) = output else { return Ok(()) };
    let mut told = serde_json::to_value(report)?;
    let mechanism = told["mechanism"].take();
    if let Some(fields) = told.as_object_mut() {
        fields.remove("mechanism");
        fields.insert("schema".to_owned(), "bytepath.end/1".into());
        fields.insert(by.to_owned(), mechanism);
    }
    output.write(bytepath_report::json(&told)?.as_bytes())
}

/// Sees to it that this process does not outlive the one that started it for a measurement.
pub(crate) fn end_with(starter: Option<Starter>) -> anyhow::Result<()> {
    match starter {
        Some(starter) if !starter.end_together()? => bail!("the process that started this is gone"),
        _ => Ok(()),
    }
}

/// The words about the pipe, where there is one.
pub(crate) fn of_pipe(report: &EndReport) -> String {
    match report.pipe_bytes {
        0 => String::new(),
        bytes => format!(", pipe of {}", numbers::bytes(bytes)),
    }
}

/// An option that only some outlets or inlets have a use for. Where it has no effect it is wrong
/// usage, so that nobody takes a figure for that of an option. That holds only where the outlet or
/// inlet was named: the published programs take each other's options, with or without effect.
pub(crate) struct Useful {
    pub(crate) option: &'static str,
    pub(crate) given: bool,
    pub(crate) has_effect: bool,
    /// What it is about, as a clause.
    pub(crate) about: &'static str,
}

/// What options about buffers say of an end without any.
pub(crate) const NO_BUFFERS: &str =
    "it has no buffers of its own whose size or pages could be chosen";

/// Refuses options without effect on the mechanism of this name.
pub(crate) fn refuse_without_effect(name: &str, options: &[Useful]) -> anyhow::Result<()> {
    match options.iter().find(|useful| useful.given && !useful.has_effect) {
        Some(Useful { option, about, .. }) => {
            Err(wrong_usage(format!("{option} has no effect on {name}: {about}")))
        }
        None => Ok(()),
    }
}

/// A wait that spins as long as its budget says, where one is given.
///
/// # Errors
/// It has no effect on this wait.
pub(crate) fn spinning(wait: Wait, budget: Option<Duration>) -> anyhow::Result<Wait> {
    match (wait, budget) {
        (wait, None) => Ok(wait),
        (Wait::Hybrid(_), Some(budget)) => Ok(Wait::Hybrid(budget)),
        (wait, Some(_)) => Err(wrong_usage(format!(
            "--spin-budget is how long the wait hybrid spins, and has no effect on the wait {}; add \
             --wait hybrid",
            wait.name()
        ))),
    }
}

/// Which end of the pipe.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Writer,
    Reader,
}

impl Shared {
    /// Refuses options that have no effect on either end.
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        spinning(self.named_wait(), self.spin_budget).map(drop)
    }

    /// Options about the pages of an end's own buffers, which have an effect on some mechanisms.
    pub(crate) fn page_options(&self, has_effect: bool) -> [Useful; 4] {
        let useful = |option, given| Useful { option, given, has_effect, about: NO_BUFFERS };
        [
            useful("--huge-page", self.huge_page),
            useful("--hugetlb", self.hugetlb),
            useful("--check-huge-page", self.check_huge_page),
            useful("--lock-memory", self.lock_memory),
        ]
    }

    /// Bytes per buffer.
    pub(crate) fn buf_bytes(&self) -> usize {
        self.buf_size.unwrap_or(BUF_BYTES)
    }

    pub(crate) fn wait(&self) -> Wait {
        spinning(self.named_wait(), self.spin_budget).expect("others were refused")
    }

    fn named_wait(&self) -> Wait {
        match (self.wait, self.busy_loop, self.poll) {
            (Some(wait), ..) => wait,
            (None, true, true) => Wait::PollSpin,
            (None, true, false) => Wait::Spin,
            (None, false, true) => Wait::Poll,
            (None, false, false) => Wait::Block,
        }
    }

    pub(crate) fn pages(&self) -> Pages {
        let size = match (self.huge_page, self.hugetlb) {
            (true, _) => PageSize::Huge,
            (_, true) => PageSize::Hugetlb,
            _ => PageSize::Base,
        };
        Pages { size, locked: self.lock_memory }
    }

    /// The CPU that this end is to run on.
    pub(crate) fn cpu(&self, end: End) -> anyhow::Result<Option<usize>> {
        let Some(placement) = self.placement else { return Ok(self.cpu) };
        let machine = Machine::this();
        let pair = placement.cpus(machine.cpus(), machine.allowed_cpus())?;
        Ok(pair.map(|(writer, reader)| if end == End::Writer { writer } else { reader }))
    }

    /// Says on standard error what is in force.
    pub(crate) fn say(&self, report: &EndReport) {
        if self.verbose {
            crate::said::say(format_args!(
                "{}: {} per call{}, wait {}, {} calls, {} waits, {} bytes in {:.3} s",
                report.mechanism,
                numbers::bytes(report.chunk_bytes),
                of_pipe(report),
                self.wait(),
                report.calls,
                report.waits,
                report.bytes,
                report.seconds
            ));
        }
    }

    /// Whether standard output is to hold JSON and nothing else.
    pub(crate) fn json_alone(&self) -> bool {
        self.json.as_deref().is_some_and(output::is_stdout)
    }

    /// Opens the file for the report, if one was asked for.
    pub(crate) fn output(&self) -> anyhow::Result<Option<Output>> {
        self.json.as_deref().map(Output::open).transpose()
    }

    /// The published program's row: its columns, in its order.
    pub(crate) fn csv_row(&self, report: &EndReport, vmsplices: bool, splices: bool) -> String {
        let flag = |set: bool| u8::from(set).to_string();
        [
            format!("{:.6}", report.gib_per_second()),
            report.bytes.to_string(),
            self.buf_bytes().to_string(),
            report.pipe_bytes.to_string(),
            flag(self.wait().spins()),
            flag(matches!(self.wait(), Wait::Poll | Wait::PollSpin)),
            flag(self.pages().size != PageSize::Base),
            flag(self.check_huge_page),
            flag(vmsplices),
            flag(splices),
            flag(self.gift),
            flag(self.lock_memory),
            flag(self.dont_touch_pages),
            flag(self.same_buffer),
        ]
        .join(",")
    }
}
