//! Sends what is made by one outlet after the other: the next goes on where the last gave up.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytepath::outlets::{BUF_BYTES, Choice, Contents, Producer, Ranked, Setup, by_name};
use bytepath::plan::Basis;
use bytepath::profile::{Profile, Sending};
use bytepath::{Endpoint, Failed, Kind, Meter, Refusal, Stop, Wait};
use bytepath_lab::ends::{EndReport, Usage};
use rustix::io::Errno;

use super::source::Source;
use crate::live::rate;
use crate::metrics::Figures;
use crate::said::say;

/// What goes out before the outlet is chosen: a reader that leaves before has had enough of so few
/// bytes that large pipes, reservoirs and huge pages would have cost more than they save.
const FIRST_BYTES: u64 = 192 << 10;

/// Bytes per buffer of what goes out first.
const FIRST_BUFFER_BYTES: usize = 64 << 10;

/// When it is enough.
#[derive(Debug, Clone, Copy)]
pub(super) enum Limit {
    /// After so many bytes, or never.
    Bytes(Option<u64>),
    /// After so many lines.
    Lines(u64),
}

/// How it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Went {
    /// Everything was written.
    Done,
    /// Nobody reads the rest.
    ReaderLeft,
}

/// See the module.
pub(super) struct Sender<'a> {
    sink: &'a Endpoint<'a>,
    source: &'a mut Source,
    limit: Limit,
    meter: Arc<Meter>,
    ranked: Option<Ranked>,
    /// Those that gave up: by which byte, and why.
    declined: Vec<(&'static str, u64, Refusal)>,
    /// What the outlet that came last told of itself.
    last: EndReport,
    began: Instant,
    before: Usage,
}

impl<'a> Sender<'a> {
    pub(super) fn new(sink: &'a Endpoint<'a>, source: &'a mut Source, limit: Limit) -> Self {
        Sender {
            sink,
            source,
            limit,
            meter: Arc::default(),
            ranked: None,
            declined: Vec::new(),
            last: EndReport::default(),
            began: Instant::now(),
            before: Usage::of_this_process(),
        }
    }

    /// By one outlet alone.
    pub(super) fn by(&mut self, (ranked, wait): (Ranked, Wait)) -> anyhow::Result<Went> {
        let choice = ranked.choices[0].clone();
        self.ranked = Some(ranked);
        match self.stretch(&choice, wait, u64::MAX) {
            Err(Stop::Declined(why)) => {
                anyhow::bail!("the outlet {} is refused: {why}", choice.outlet.name())
            }
            went => ended(went),
        }
    }

    /// By the best of those that suit, as soon as it is worth while.
    pub(super) fn by_best(&mut self, profile: Option<&Profile>) -> anyhow::Result<Went> {
        let ranked = Ranked::best(self.sink, self.source.used_for(), profile);
        if self.sink.kind() == Kind::Pipe
            && let Some(outlet) = by_name("write")
        {
            let settings =
                Sending { buf_bytes: Some(FIRST_BUFFER_BYTES), ..Sending::by(outlet.name()) };
            let first = Choice { outlet, settings, expected_gib_per_s: None };
            match self.stretch(&first, Wait::Block, FIRST_BYTES) {
                Ok(Stretch::Cut) => {}
                went => return ended(went),
            }
        }
        let choices = ranked.choices.clone();
        self.ranked = Some(ranked);
        for choice in &choices {
            match self.stretch(choice, choice.settings.wait(), u64::MAX) {
                Err(Stop::Declined(why)) => {
                    self.declined.push((choice.outlet.name(), self.meter.bytes(), why));
                }
                went => return ended(went),
            }
        }
        anyhow::bail!("no outlet writes into a {}", self.sink.kind())
    }

    /// Sends at most so many bytes.
    fn stretch(&mut self, choice: &Choice, wait: Wait, most: u64) -> Result<Stretch, Stop> {
        let jobs = if let Source::Made(_, jobs) = self.source { *jobs } else { 1 };
        self.meter.goes(choice.outlet.name());
        let setup = Setup {
            buf_bytes: choice.settings.buf_bytes.unwrap_or(BUF_BYTES * jobs),
            pipe_bytes: choice.settings.pipe_bytes,
            pages: choice.pages(),
            wait,
            ..Setup::new(&self.meter)
        };
        self.last.mechanism = choice.outlet.name().into();
        let offset = self.meter.bytes();
        let went = match self.source {
            Source::Zeros => {
                repeated(choice, self.sink, &setup, (self.limit, most), &mut self.last)
            }
            Source::Same(line) => {
                // The line as it goes on after what is there.
                let phase = (offset % line.len() as u64) as usize;
                let turned = [&line[phase..], &line[..phase]].concat();
                let setup = Setup { contents: Contents::Repeat(&turned), ..setup };
                repeated(choice, self.sink, &setup, (self.limit, most), &mut self.last)
            }
            Source::Made(crew, _) => {
                let mut producer = choice.outlet.open(self.sink, &setup)?;
                tell(producer.as_ref(), &mut self.last);
                streamed(producer.as_mut(), crew, &mut self.limit, most, &self.meter)
            }
        };
        match went {
            Err(Stop::Failed(failed)) if failed.errno == Errno::PIPE => Ok(Stretch::ReaderLeft),
            Err(Stop::Failed(failed)) => {
                let (offset, stranded) = (self.meter.bytes(), Vec::new());
                Err(Stop::Failed(Failed { offset, stranded, ..failed }))
            }
            went => went,
        }
    }

    /// How far it is, at any time.
    pub(super) fn figures(&self) -> impl Fn() -> Figures + Send + 'static {
        let meter = self.meter.clone();
        let expected_bytes = if let Limit::Bytes(bytes) = self.limit { bytes } else { None };
        move || Figures { expected_bytes, ..Figures::of(&meter) }
    }

    /// What was done, for whoever measures.
    pub(super) fn report(&self) -> EndReport {
        let counts = self.meter.read();
        EndReport {
            bytes: counts.bytes,
            seconds: self.began.elapsed().as_secs_f64(),
            calls: counts.calls,
            waits: counts.waits,
            usage: Usage::of_this_process().since(self.before),
            ..self.last.clone()
        }
    }

    /// Says on standard error which outlet was chosen, why, and what came.
    pub(super) fn explain(&self, profile: Option<&Result<Profile, String>>) {
        match &self.ranked {
            None => say(format_args!(
                "plan: so few bytes go by write, before anything is chosen or made larger"
            )),
            Some(ranked) => {
                let basis = match (ranked.basis, profile) {
                    (Basis::Asked, _) => "the outlet that was asked for".to_owned(),
                    (Basis::Profile, Some(Ok(profile))) => profile.basis(),
                    (_, Some(Err(why))) => format!("by rules; {why}"),
                    _ => {
                        format!("by rules; nothing was measured for a {}", self.sink.kind())
                    }
                };
                say(format_args!("plan: {basis}"));
                for line in ranked.to_string().lines() {
                    say(format_args!("  {line}"));
                }
            }
        }
        for (name, offset, why) in &self.declined {
            say(format_args!("{name} gave up at byte {offset}: {why}"));
        }
        if let Some(why) = &self.last.pipe_refused {
            say(format_args!("{why}"));
        }
        let report = self.report();
        say(format_args!(
            "came: {} bytes by {}, {}",
            report.bytes,
            report.mechanism,
            rate(report.bytes, Duration::from_secs_f64(report.seconds))
        ));
    }
}

/// How a stretch ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stretch {
    /// Everything is written.
    Done,
    /// There is more.
    Cut,
    ReaderLeft,
}

fn ended(went: Result<Stretch, Stop>) -> anyhow::Result<Went> {
    match went? {
        Stretch::ReaderLeft => Ok(Went::ReaderLeft),
        Stretch::Done | Stretch::Cut => Ok(Went::Done),
    }
}

fn tell(producer: &dyn Producer, last: &mut EndReport) {
    let shape = producer.shape();
    last.chunk_bytes = shape.chunk_bytes as u64;
    last.pipe_bytes = shape.pipe_bytes as u64;
    last.slot_bytes = Some(shape.slot_bytes as u64);
    last.pipe_refused = producer.pipe_refused().map(|why| why.to_string());
}

/// The same bytes over and over.
fn repeated(
    choice: &Choice,
    sink: &Endpoint<'_>,
    setup: &Setup<'_>,
    (limit, most): (Limit, u64),
    last: &mut EndReport,
) -> Result<Stretch, Stop> {
    let mut producer = choice.outlet.open(sink, setup)?;
    tell(producer.as_ref(), last);
    let left = match limit {
        Limit::Bytes(Some(bytes)) => bytes - setup.meter.bytes().min(bytes),
        Limit::Bytes(None) | Limit::Lines(_) => u64::MAX,
    };
    producer.repeat(left.min(most))?;
    Ok(if left > most { Stretch::Cut } else { Stretch::Done })
}

/// A stream, from the byte on that the meter tells.
fn streamed(
    producer: &mut dyn Producer,
    crew: &mut bytepath_gen::Crew,
    limit: &mut Limit,
    most: u64,
    meter: &Meter,
) -> Result<Stretch, Stop> {
    let end = meter.bytes().saturating_add(most);
    loop {
        let offset = meter.bytes();
        if offset >= end {
            return Ok(Stretch::Cut);
        }
        let most = match limit {
            Limit::Bytes(Some(bytes)) if offset >= *bytes => return Ok(Stretch::Done),
            Limit::Bytes(Some(bytes)) => (*bytes).min(end) - offset,
            Limit::Lines(0) => return Ok(Stretch::Done),
            Limit::Bytes(None) | Limit::Lines(_) => end - offset,
        };
        let Some(room) = producer.room()? else {
            return Err(Stop::Declined(Refusal::because("it only repeats")));
        };
        let len = room.len().min(usize::try_from(most).unwrap_or(usize::MAX));
        let made = crew.fill(offset.into(), &mut room[..len]);
        if made == 0 {
            return Ok(Stretch::Done);
        }
        let (len, lines) = match limit {
            Limit::Lines(left) => cut(&room[..made], *left),
            Limit::Bytes(_) => (made, 0),
        };
        let sent = producer.send(len);
        if let Limit::Lines(left) = limit {
            *left -= match sent {
                Ok(()) => lines,
                // Another outlet may go on from the byte reached.
                Err(_) => lines_between(crew, offset, meter.bytes()),
            };
        }
        sent?;
    }
}

/// The lines that end between two bytes of a stream.
fn lines_between(crew: &mut bytepath_gen::Crew, offset: u64, end: u64) -> u64 {
    let mut text = vec![0; (end - offset) as usize];
    let made = crew.fill(offset.into(), &mut text);
    memchr::memchr_iter(b'\n', &text[..made]).count() as u64
}

/// The bytes of at most so many lines, and how many lines end in them.
fn cut(text: &[u8], lines: u64) -> (usize, u64) {
    let all = memchr::memchr_iter(b'\n', text).count() as u64;
    if all < lines {
        return (text.len(), all);
    }
    let nth = usize::try_from(lines).unwrap_or(usize::MAX).saturating_sub(1);
    let last = memchr::memchr_iter(b'\n', text).nth(nth);
    (last.map_or(text.len(), |at| at + 1), lines)
}
