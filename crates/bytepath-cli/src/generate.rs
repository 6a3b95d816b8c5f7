//! `bytepath gen`: writes made-up bytes as fast as the output takes them.

mod send;
mod source;

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use bytepath::machine::Machine;
use bytepath::outlets::{Outlet, Ranked, Use};
use bytepath::pages::PageSize;
use bytepath::placement::pin_this_thread;
use bytepath::profile::Sending;
use bytepath::{Endpoint, Profile, Wait};
use bytepath_gen::{Counted, Generator, Random, Rule, Text};
use bytepath_lab::ends::{Pattern, Starter};
use clap::{Args, Subcommand};
use rustix::io::Errno;

use crate::ends::{NO_BUFFERS, Useful};
use crate::metrics::{self, MetricsOptions};
use crate::output::{self, Output};
use crate::planning::{named_profile, usual_profile};
use crate::sys::start;
use crate::usage::wrong_usage;
use crate::{classic, ends, errno, said, values};
use send::{Limit, Sender, Went};
use source::Source;

/// Write made-up bytes as fast as the output takes them: zeros, text, numbers, the same line
///
/// Into a pipe they go by the outlet that was fastest when this machine was measured (bytepath tune),
/// and pages that a reader may still hold are never written to again. Without --bytes or --lines it
/// goes on until the reader has had enough.
#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    kind: Kind,
}

#[derive(Subcommand)]
enum Kind {
    Zeros(Zeros),
    Pattern(PatternKind),
    Random(Seeded),
    Text(TextKind),
    Lines(CountedKind),
    /// Lines that count up to 2^63, Fizz in the place of multiples of 3, Buzz of 5, FizzBuzz of both
    Fizzbuzz(CountedKind),
    Yes(Yes),
}

/// Bytes of value 0
#[derive(Args)]
struct Zeros {
    #[command(flatten)]
    how: How,
}

/// A pattern in which every byte has its place: bytepath read --verify checks it
#[derive(Args)]
struct PatternKind {
    #[command(flatten)]
    making: Making,
    #[command(flatten)]
    how: How,
}

/// Random bytes, which no compressor makes smaller; the same ones for the same seed
#[derive(Args)]
struct Seeded {
    /// Which of the streams
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    #[command(flatten)]
    making: Making,
    #[command(flatten)]
    how: How,
}

/// Sentences of common English words, in lines; the same ones for the same seed
#[derive(Args)]
struct TextKind {
    /// Which of the streams
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
    /// Stop after so many lines
    #[arg(long, value_name = "N", conflicts_with = "bytes")]
    lines: Option<u64>,
    #[command(flatten)]
    making: Making,
    #[command(flatten)]
    how: How,
}

/// Lines that count up to 2^63
#[derive(Args)]
struct CountedKind {
    /// The number of the first line
    #[arg(long, value_name = "N", default_value_t = 1)]
    from: u64,
    /// Stop after so many lines
    #[arg(long, value_name = "N", conflicts_with = "bytes")]
    lines: Option<u64>,
    #[command(flatten)]
    making: Making,
    #[command(flatten)]
    how: How,
}

/// A line with the words, again and again, as yes(1) does
#[derive(Args)]
struct Yes {
    /// Stop after so many lines
    #[arg(long, value_name = "N", conflicts_with = "bytes")]
    lines: Option<u64>,
    #[command(flatten)]
    how: How,
    /// The line's words; y unless given
    #[arg(value_name = "STRING")]
    words: Vec<OsString>,
}

/// Options of what is made anew all the time.
#[derive(Args)]
struct Making {
    /// Make it by so many threads; one less than there are CPUs unless given, at most 4
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=256))]
    jobs: Option<u16>,
}

/// The most threads that are started unasked: more make bytes faster than a pipe takes them.
const JOBS_MAX: usize = 4;

impl Making {
    fn jobs(&self) -> usize {
        let spare = || Machine::this().allowed_cpus().iter().count().saturating_sub(1);
        self.jobs.map_or_else(|| spare().clamp(1, JOBS_MAX), usize::from)
    }
}

/// Options of every kind.
#[derive(Args)]
struct How {
    /// Stop after so many bytes
    #[arg(long, value_name = "SIZE", value_parser = values::amount)]
    bytes: Option<u64>,
    /// Write by this outlet alone, or fail; vmsplice is for readers that only read: one that splices
    /// onward may see later bytes in the place of earlier ones
    #[arg(long, value_name = "OUTLET", value_parser = values::outlets())]
    outlet: Option<&'static dyn Outlet>,
    /// Bytes per buffer, of the outlet named
    #[arg(long, value_name = "SIZE", value_parser = values::buffer_size, requires = "outlet")]
    buf_size: Option<usize>,
    /// The pages of its buffers: base or huge
    #[arg(long, value_name = "SIZE", value_parser = pages, requires = "outlet")]
    pages: Option<PageSize>,
    /// Size of the pipe
    #[arg(long, value_name = "SIZE", value_parser = values::buffer_size, requires = "outlet")]
    pipe_size: Option<usize>,
    /// What the outlet named does when the pipe is full: block, poll, spin, poll-spin, hybrid
    #[arg(long, value_name = "WAIT", value_parser = values::wait, requires = "outlet")]
    wait: Option<Wait>,
    /// How long hybrid spins before it sleeps
    #[arg(long, value_name = "TIME", value_parser = values::duration, requires = "wait")]
    spin_budget: Option<Duration>,
    /// The profile of this machine, as bytepath tune made it; its usual place unless given
    #[arg(long, value_name = "FILE", conflicts_with = "outlet")]
    profile: Option<PathBuf>,
    /// Say on standard error which outlet was chosen and why, and what came
    #[arg(long)]
    explain_plan: bool,
    /// Run on this CPU
    #[arg(long, value_name = "N", hide = true)]
    cpu: Option<usize>,
    /// Write what was done to a file, as JSON; a reader that leaves is no error then
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    metrics: MetricsOptions,
    /// End when this process, which started us, ends
    #[arg(long, value_name = "PID", hide = true, value_parser = values::starter)]
    starter: Option<Starter>,
}

impl Kind {
    fn how(&self) -> &How {
        match self {
            Kind::Zeros(kind) => &kind.how,
            Kind::Pattern(kind) => &kind.how,
            Kind::Random(kind) => &kind.how,
            Kind::Text(kind) => &kind.how,
            Kind::Lines(kind) | Kind::Fizzbuzz(kind) => &kind.how,
            Kind::Yes(kind) => &kind.how,
        }
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let how = options.kind.how();
    how.begin()?;
    let bytes = Limit::Bytes(how.bytes);
    let (source, limit) = match &options.kind {
        Kind::Zeros(_) => (Source::Zeros, bytes),
        Kind::Pattern(kind) => {
            let pattern = |offset: u128, into: &mut [u8]| Pattern::fill(offset as u64, into);
            (made(pattern, &kind.making)?, bytes)
        }
        Kind::Random(kind) => (made(Random::new(kind.seed), &kind.making)?, bytes),
        Kind::Text(kind) => {
            (made(Text::new(kind.seed), &kind.making)?, kind.lines.map_or(bytes, Limit::Lines))
        }
        Kind::Lines(kind) => (counted(Rule::Plain, kind)?, bytes),
        Kind::Fizzbuzz(kind) => (counted(Rule::FizzBuzz, kind)?, bytes),
        Kind::Yes(kind) => {
            let line = line(&kind.words);
            let of_lines = kind.lines.map(|lines| lines.saturating_mul(line.len() as u64));
            (Source::Same(line), Limit::Bytes(of_lines.or(how.bytes)))
        }
    };
    generate(source, limit, how)
}

fn made(stream: impl Generator + 'static, making: &Making) -> anyhow::Result<Source> {
    Ok(Source::made(Box::new(stream), making.jobs())?)
}

fn counted(rule: Rule, kind: &CountedKind) -> anyhow::Result<Source> {
    let stream = Counted::new(rule, kind.from, kind.lines)
        .map_err(|why| wrong_usage(format!("no such lines: {why}")))?;
    made(stream, &kind.making)
}

/// The words as yes(1) writes them: one space between two of them.
fn line(words: &[OsString]) -> Vec<u8> {
    use std::os::unix::ffi::OsStrExt;
    let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
    let mut line = if words.is_empty() { b"y".to_vec() } else { words.join(&b' ') };
    line.push(b'\n');
    line
}

fn generate(mut source: Source, limit: Limit, how: &How) -> anyhow::Result<()> {
    how.check()?;
    ends::end_with(how.starter)?;
    if start::was_closed(1) {
        bail!("standard output is closed; was it redirected with >&-?");
    }
    let json = how.json.as_deref().map(Output::open).transpose()?;
    let stdout = std::io::stdout();
    let sink = Endpoint::sink(stdout.as_fd())?;
    let asked = how.asked(&sink, source.used_for())?;
    let profile = asked.is_none().then(|| how.profile()).transpose()?;
    // The profile is of the CPUs that were allowed before.
    if let Some(cpu) = how.cpu {
        pin_this_thread(cpu)?.keep();
    }
    let mut sender = Sender::new(&sink, &mut source, limit);
    metrics::measured_by(sender.figures());
    let went = match asked {
        Some(ranked) => sender.by(ranked),
        None => sender.by_best(profile.as_ref().and_then(|found| found.as_ref().ok())),
    };
    if how.explain_plan {
        sender.explain(profile.as_ref());
    }
    let saved = ends::save(&sender.report(), "outlet", json);
    let went = match went {
        Ok(Went::Done) => Ok(()),
        Ok(Went::ReaderLeft) if how.json.is_some() => Ok(()),
        Ok(Went::ReaderLeft) => {
            classic::end_by_broken_pipe();
            Err(anyhow!("standard output: {}", errno::word(Errno::PIPE)))
        }
        Err(error) => Err(error).context("standard output"),
    };
    said::also(saved, went)
}

fn pages(name: &str) -> Result<PageSize, String> {
    match PageSize::named(name) {
        Some(size) if size != PageSize::Hugetlb => Ok(size),
        _ => Err(format!("there are no pages {name:?} here; there are: base, huge")),
    }
}

impl How {
    /// Sees that what is written goes to files of its own, and tells of the job from now on.
    fn begin(&self) -> anyhow::Result<()> {
        if self.json.as_deref().is_some_and(output::is_stdout) {
            return Err(wrong_usage("standard output is for what is made: give --json a file"));
        }
        let (json, metrics) = (self.json.as_deref(), self.metrics.file());
        output::beside_data(&[("--json", json), ("--metrics", metrics)]).map_err(wrong_usage)?;
        let profile = || self.profile.as_deref().map(Path::as_os_str);
        for (option, file) in [("--json", json), ("--metrics", metrics)] {
            output::spares(option, file, profile()).map_err(wrong_usage)?;
        }
        self.metrics.begin_and_heed_signals("gen");
        Ok(())
    }

    fn check(&self) -> anyhow::Result<()> {
        if let Some(outlet) = self.outlet {
            let has_effect = outlet.used_for() == Use::Streams;
            let useful = |option, given| Useful { option, given, has_effect, about: NO_BUFFERS };
            let options = [
                useful("--buf-size", self.buf_size.is_some()),
                useful("--pages", self.pages.is_some()),
            ];
            ends::refuse_without_effect(&format!("the outlet {}", outlet.name()), &options)?;
        }
        self.wait().map(drop)
    }

    fn wait(&self) -> anyhow::Result<Wait> {
        ends::spinning(self.wait.unwrap_or_default(), self.spin_budget)
    }

    /// The outlet that is named, alone.
    fn asked(&self, sink: &Endpoint<'_>, sends: Use) -> anyhow::Result<Option<(Ranked, Wait)>> {
        let Some(outlet) = self.outlet else { return Ok(None) };
        let usual = Ranked::usual(outlet.name());
        let settings = Sending {
            huge_pages: self.pages.map_or(usual.huge_pages, |size| size == PageSize::Huge),
            buf_bytes: self.buf_size.or(usual.buf_bytes),
            pipe_bytes: self.pipe_size.or(usual.pipe_bytes),
            ..usual
        };
        let ranked = Ranked::only(settings, sink, sends)
            .map_err(|why| anyhow!("the outlet {} is refused: {why}", outlet.name()))?;
        Ok(Some((ranked, self.wait()?)))
    }

    /// The profile, or why it cannot be gone by; one that is named has to be good.
    fn profile(&self) -> anyhow::Result<Result<Profile, String>> {
        Ok(match &self.profile {
            Some(path) => Ok(named_profile(path)?),
            None => usual_profile(),
        })
    }
}
