//! All sinks at the pace of the slowest: what is taken goes to each before more is taken.

use rustix::io::Errno;

use super::giving::PipePair;
use super::sink::{Cancels, Sink, Way};
use super::taking::Taken;
use super::{
    About, AfterLoss, Ending, FanOut, FanOutPlan, FannedOut, Files, Lost, OnLoss, Pipes, Planner,
    Readers,
};
use crate::endpoint::{Endpoint, Kind};
use crate::meter::Meter;
use crate::pages::AlignedBuffer;
use crate::wait::Cancel;

/// What is read at a time: see [`crate::routes::FILE_WRITE_BYTES`].
pub(super) const BUFFER_BYTES: usize = crate::routes::FILE_WRITE_BYTES;

/// Once so much was moved, the plan is looked at and pipes are made larger: what is smaller may end
/// any moment.
const GROW_AFTER_BYTES: u64 = 1 << 20;

/// What pipes are made by rules, which everybody may have by default (fs.pipe-max-size).
pub(super) const PIPE_BYTES: usize = 1 << 20;

/// See the module.
pub(super) struct Lockstep<'a> {
    pub(super) source: &'a Endpoint<'a>,
    /// Whether the source gives its bytes to splice(2).
    pub(super) splices: bool,
    /// Whether it gave the last bytes so, and whether they were handed on so.
    pub(super) spliced: bool,
    pub(super) handed_on: bool,
    pub(super) sinks: Vec<Sink<'a>>,
    pub(super) meter: &'a Meter,
    pub(super) readers: Readers,
    /// How many sinks, from the first, keep it going.
    pub(super) counted: usize,
    pub(super) cancel: Option<&'a Cancel>,
    on_loss: OnLoss<'a>,
    pipes: Pipes,
    planner: Option<Planner<'a>>,
    plan: FanOutPlan,
    /// What the source gave and is not yet with every sink; `held` bytes.
    pub(super) reservoir: Option<PipePair>,
    pub(super) held: usize,
    /// A copy of what is held, on its way to a sink that is no pipe; empty in between.
    pub(super) scratch: Option<PipePair>,
    /// Whether tee(2) works here, as far as is known.
    pub(super) tees: bool,
    /// Empty until it is needed.
    pub(super) buffer: AlignedBuffer,
    /// How many bytes of what is held are in the buffer too.
    pub(super) peeked: usize,
    bytes: u64,
}

impl<'a> Lockstep<'a> {
    pub(super) fn new(job: &FanOut<'a>, meter: &'a Meter, on_loss: OnLoss<'a>) -> Self {
        let sinks: Vec<_> = job.sinks.iter().map(|end| Sink::new(end.as_ref())).collect();
        let itself = job.sinks.iter().flatten().any(|sink| sink.same_file(job.source));
        // What a pipe has may be packets: a read takes one, where splice joins and cuts them.
        let has_messages = job.sinks.iter().flatten().any(Endpoint::makes_messages);
        let splices = match job.source.kind() {
            Kind::Pipe => !itself && !has_messages,
            Kind::File => !itself && job.files == Files::Spliced,
            _ => false,
        };
        Lockstep {
            source: job.source,
            splices,
            spliced: splices,
            handed_on: splices,
            sinks,
            meter,
            readers: job.readers,
            counted: job.counted(),
            cancel: job.cancel,
            on_loss,
            pipes: job.pipes,
            planner: job.planner,
            plan: FanOutPlan::by_rules().with(job.pipes),
            reservoir: None,
            held: 0,
            scratch: None,
            tees: true,
            buffer: AlignedBuffer::default(),
            peeked: 0,
            bytes: 0,
        }
    }

    pub(super) fn run(mut self) -> FannedOut {
        let ending = loop {
            if let Err(ending) = self.round() {
                break ending;
            }
        };
        FannedOut {
            bytes: self.bytes,
            ending,
            source_way: if self.spliced { "splice" } else { "read" },
            sinks: self.sinks.iter().map(|sink| sink.served(self.handed_on)).collect(),
            plan: self.plan,
        }
    }

    /// Has the buffer, if it was not needed before: fresh memory, of which only the pages that are used
    /// are zeroed.
    pub(super) fn have_buffer(&mut self) {
        if self.buffer.is_empty() {
            self.buffer = AlignedBuffer::new(BUFFER_BYTES);
        }
    }

    /// Takes some bytes if none are held, and gives some.
    fn round(&mut self) -> Result<(), Ending> {
        self.any_left()?;
        if self.held > 0 {
            return self.give_held();
        }
        if let Some(only) = self.straight_sink() {
            return self.straight(only);
        }
        match self.take()? {
            Taken::Held(count) => {
                (self.spliced, self.handed_on) = (true, true);
                self.held = count;
                self.came(count);
                self.give_held()
            }
            Taken::Read(count) => {
                (self.spliced, self.handed_on) = (false, false);
                self.came(count);
                self.write_to_all(count)
            }
        }
    }

    pub(super) fn cancels(&self) -> Cancels<'a> {
        Cancels { ours: None, callers: self.cancel }
    }

    /// Whether a sink is left that counts, and nobody wants it to stop.
    pub(super) fn any_left(&self) -> Result<(), Ending> {
        if self.cancels().are_asked() {
            return Err(Ending::Cancelled);
        }
        let left = self.sinks[..self.counted].iter().any(Sink::is_live);
        if left { Ok(()) } else { Err(Ending::NoSinkLeft) }
    }

    pub(super) fn live(&self) -> usize {
        self.sinks.iter().filter(|sink| sink.is_live()).count()
    }

    /// Writes the beginning of the buffer to every sink that does not have it yet.
    pub(super) fn write_to_all(&mut self, count: usize) -> Result<(), Ending> {
        let cancels = self.cancels();
        for place in 0..self.sinks.len() {
            let sink = &mut self.sinks[place];
            if !sink.is_live() {
                continue;
            }
            let has = sink.ahead.min(count);
            sink.ahead -= has;
            let written = match sink.way {
                Way::Drop => {
                    sink.took(count - has);
                    Ok(())
                }
                _ => sink.write_all(&self.buffer[has..count], cancels),
            };
            if let Err(errno) = written {
                self.lose(place, errno)?;
            }
        }
        Ok(())
    }

    /// A sink takes no more bytes; whoever started this decides what that means.
    pub(super) fn lose(&mut self, sink: usize, errno: Errno) -> Result<(), Ending> {
        if errno == Errno::CANCELED && self.cancels().are_asked() {
            return Err(Ending::Cancelled);
        }
        self.sinks[sink].lose(errno);
        match (self.on_loss)(Lost { sink, errno, about: About::Sink }) {
            AfterLoss::GoOn => Ok(()),
            AfterLoss::Stop => Err(Ending::Stopped),
        }
    }

    /// Counts what the source gave.
    pub(super) fn came(&mut self, count: usize) {
        let before = self.bytes;
        self.bytes += count as u64;
        self.meter.moved(count as u64);
        if passes_growth(before, count as u64) {
            self.go_by_plan();
        }
    }

    /// There is much to move: what it costs to look at a plan and to make pipes larger is earned back.
    fn go_by_plan(&mut self) {
        if let Some(planner) = self.planner {
            self.plan = planner().with(self.pipes);
        }
        self.splices &= self.plan.hands_on_pages();
        if let Some(bytes) = self.plan.pipe_bytes() {
            let live = self.sinks.iter().filter(|sink| sink.is_live());
            grow_pipes(self.source, live.filter_map(|sink| sink.end), bytes);
            for pair in self.reservoir.iter_mut().chain(&mut self.scratch) {
                pair.grow(bytes);
            }
        }
    }

    /// A pipe of our own, as large as is right by now.
    pub(super) fn pair(&self) -> Result<PipePair, Errno> {
        let mut pair = PipePair::open()?;
        if let Some(bytes) = self.plan.pipe_bytes().filter(|_| self.bytes >= GROW_AFTER_BYTES) {
            pair.grow(bytes);
        }
        Ok(pair)
    }
}

/// Whether these are the bytes after which pipes are made larger.
pub(super) fn passes_growth(before: u64, count: u64) -> bool {
    before < GROW_AFTER_BYTES && before + count >= GROW_AFTER_BYTES
}

/// Makes pipes, and the buffers of Unix sockets that are written to, larger. A refusal
/// (fs.pipe-user-pages-soft is used up) leaves the size they have, which also works.
pub(super) fn grow_pipes<'e>(
    source: &'e Endpoint<'e>,
    sinks: impl Iterator<Item = &'e Endpoint<'e>>,
    bytes: usize,
) {
    let piped_source = Some(source).filter(|source| source.kind() == Kind::Pipe);
    for end in sinks.chain(piped_source) {
        let _ = end.enlarge(bytes);
    }
}
