//! One source to many sinks: every byte to each of them.
//!
//! What the source gives is taken into a pipe of our own by splice(2). From there each sink that is
//! a pipe gets references to the same pages by tee(2), and each that is a file a copy by splice(2);
//! the last sink takes the bytes out. Where there is one sink only, they go straight. Sinks that
//! take no pages (sockets, terminals, files opened with O_APPEND) are written to, and whatever the
//! kernel refuses at any point is read and written from the byte reached.
//!
//! Costs per chunk: one system call for the source and one for each sink; two for a sink that is
//! no pipe and not the last. No byte is copied for pipes, one copy is made for each file.

mod giving;
mod lockstep;
mod plan;
mod queue;
mod queued;
mod sink;
mod taking;

use std::fmt;
use std::io::ErrorKind;

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::endpoint::Endpoint;
use crate::knobs::Pipes;
use crate::meter::Meter;
use crate::wait::Cancel;
use lockstep::Lockstep;
pub use plan::FanOutPlan;
pub use queue::Queue;
pub use queued::Lags;
use queued::Queued;

/// A source and its sinks, about to be run.
#[derive(Clone)]
pub struct FanOut<'a> {
    source: &'a Endpoint<'a>,
    sinks: &'a [Option<Endpoint<'a>>],
    meter: Option<&'a Meter>,
    listeners: usize,
    readers: Readers,
    pipes: Pipes,
    files: Files,
    planner: Option<Planner<'a>>,
    cancel: Option<&'a Cancel>,
}

/// Who is asked for the plan once it shows that there is much to move.
pub type Planner<'a> = &'a (dyn Fn() -> FanOutPlan + Sync);

/// What is done about sinks whose readers leave while no byte comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Readers {
    /// Nothing: the next byte shows it.
    Unwatched,
    /// They are lost at once.
    Watched,
}

/// How the bytes of a source that is a file are taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Files {
    /// By its pages, where they can be.
    Spliced,
    /// As copies.
    Read,
}

/// A sink that takes no more bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// Its place among the sinks.
    pub sink: usize,
    /// The kernel's word.
    pub errno: Errno,
    /// What it is about.
    pub about: About,
}

/// A sink that the queue is full because of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full {
    /// Its place among the sinks.
    pub sink: usize,
    /// Who waits for it.
    pub waits: Waits,
}

/// Who waits for a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waits {
    /// No other sink: the input would else be read further ahead.
    Input,
    /// Some other sink as well, which has taken most of what is queued.
    Others,
}

/// What was at fault where a sink was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum About {
    /// The sink.
    Sink,
    /// The file of the queue: what it took for the sink could not be read back.
    Spill,
}

/// What is to be done after a sink was lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterLoss {
    /// The other sinks go on.
    GoOn,
    /// All of it ends here.
    Stop,
}

/// Who is asked about a sink that was lost, before the next one gets any bytes.
pub type OnLoss<'a> = &'a (dyn Fn(Lost) -> AfterLoss + Sync);

/// Why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ending {
    /// The source is at its end, and the sinks have all of it.
    SourceEnded,
    /// No sink is left. Bytes that were taken from the source last are with none.
    NoSinkLeft,
    /// It was to stop after a sink was lost.
    Stopped,
    /// It was cancelled. What the source gave last, and some sinks or all of them do not have, is
    /// lost to those: [`FannedOut::bytes`] less [`Served::bytes`].
    Cancelled,
    /// The source could not be read on. The sinks have all that it gave before, unless it was
    /// cancelled meanwhile: [`Served::bytes`] tells.
    ReadFailed(Errno),
}

/// What was done.
#[derive(Debug, Clone)]
pub struct FannedOut {
    /// Bytes that the source gave.
    pub bytes: u64,
    /// Why it ended.
    pub ending: Ending,
    /// How the bytes left the source: `splice` or `read`.
    pub source_way: &'static str,
    /// What became of each sink.
    pub sinks: Vec<Served>,
    /// The plan that it went by last.
    pub plan: FanOutPlan,
}

/// What became of one sink.
#[derive(Debug, Clone)]
pub struct Served {
    /// Bytes that it took.
    pub bytes: u64,
    /// How they reached it, last: `tee`, `splice`, `drop` (/dev/null takes nothing but the count) or
    /// `write`.
    pub way: &'static str,
    /// A way that the kernel refused, and its word.
    pub refused: Option<(&'static str, Errno)>,
    /// Why it takes no more, if it was lost.
    pub lost: Option<Errno>,
}

impl fmt::Debug for FanOut<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FanOut { source, sinks, listeners, .. } = self;
        let mut shown = f.debug_struct("FanOut");
        shown.field("source", source).field("sinks", sinks).field("listeners", listeners);
        shown.finish_non_exhaustive()
    }
}

impl<'a> FanOut<'a> {
    /// Everything from `source` to each of `sinks`. `None` stands for a sink that is not open: it
    /// is lost with EBADF when there are bytes for it.
    ///
    /// Pipes get the pages of a source that is a file, as with splice(2): what is written to it
    /// before their readers have taken them shows, and may show to some sinks only; see
    /// [`FanOut::read_files`]. A source that is also a sink is read.
    pub fn new(source: &'a Endpoint<'a>, sinks: &'a [Option<Endpoint<'a>>]) -> Self {
        let (readers, pipes, files) = (Readers::Unwatched, Pipes::Grow, Files::Spliced);
        let (meter, planner, cancel) = (None, None, None);
        FanOut { source, sinks, meter, listeners: 0, readers, pipes, files, planner, cancel }
    }

    /// Counts on this meter what the source gives.
    #[must_use]
    pub fn meter(self, meter: &'a Meter) -> Self {
        FanOut { meter: Some(meter), ..self }
    }

    /// Stops when asked to: every wait for the source or a sink is woken. Where sinks have threads
    /// of their own ([`FanOut::run_queued`]), a token made by [`Cancel::new`] alone reaches all of
    /// them.
    ///
    /// What was taken from the source by then and not given to a sink is lost to it, whatever the
    /// source is: a chunk of [`FanOut::run`], which is 1 MiB as a rule, or as much as a pipe of the
    /// plan's size holds; all that is queued, and a chunk, of [`FanOut::run_queued`]. Of each sink
    /// that is [`FannedOut::bytes`] less [`Served::bytes`].
    #[must_use]
    pub fn cancel(self, cancel: &'a Cancel) -> Self {
        FanOut { cancel: Some(cancel), ..self }
    }

    /// The last so many sinks only listen: it ends once all the others are lost.
    #[must_use]
    pub fn listeners(self, count: usize) -> Self {
        FanOut { listeners: count, ..self }
    }

    /// How many sinks, from the first, keep it going.
    fn counted(&self) -> usize {
        self.sinks.len().saturating_sub(self.listeners)
    }

    /// Notices that the reader of a pipe is gone while it waits for the source, so that it ends
    /// with its last sink even if no byte comes any more.
    #[must_use]
    pub fn watch_readers(self) -> Self {
        FanOut { readers: Readers::Watched, ..self }
    }

    /// Asks for a plan after the first MiB, and goes by it from there; by rules before, and without.
    #[must_use]
    pub fn planned_by(self, planner: Planner<'a>) -> Self {
        FanOut { planner: Some(planner), ..self }
    }

    /// Leaves pipes at the size they have.
    #[must_use]
    pub fn leave_pipes(self) -> Self {
        FanOut { pipes: Pipes::Leave, ..self }
    }

    /// Reads a source that is a file, so that all sinks get the same bytes though it is written to
    /// meanwhile.
    #[must_use]
    pub fn read_files(self) -> Self {
        FanOut { files: Files::Read, ..self }
    }

    /// Moves the bytes, blocking until the source ends, all sinks are lost, `on_loss` wants it to
    /// stop, or it is cancelled. Each sink gets the bytes in order, and each chunk goes to all before the next is
    /// taken, so that the slowest sets the pace.
    ///
    /// A process that does not ignore SIGPIPE is ended by it where a reader is gone, as with write(2);
    /// not by a socket, whose peer's going is its loss alone.
    pub fn run(self, on_loss: OnLoss<'_>) -> FannedOut {
        let own = Meter::new();
        let meter = self.meter.unwrap_or(&own);
        meter.goes("fan-out");
        Lockstep::new(&self, meter, on_loss).run()
    }

    /// The same, but a slow sink may be behind the others, as far as the queue allows. Everything is
    /// read, and each sink written to by a thread of its own; the threads are gone when it returns.
    /// Where `on_loss` wants it to stop, no more is read, and the sinks that are left get what is queued.
    /// `on_full` is told of each sink because of which the queue is full for more than a moment, where it
    /// holds others up or nothing moves; again and again while that lasts.
    ///
    /// # Errors
    /// The process is out of descriptors, or may have no thread for each sink (EAGAIN), or `lags` is not
    /// for as many sinks as there are, or the file to spill to was opened with O_APPEND; nothing has been
    /// read. A clone can be [`FanOut::run`] then.
    pub fn run_queued(
        self,
        queue: Queue<'_>,
        lags: &Lags,
        on_loss: OnLoss<'_>,
        on_full: &(dyn Fn(Full) + Sync),
    ) -> std::io::Result<FannedOut> {
        if lags.sinks() != self.sinks.len() {
            let (told, there) = (lags.sinks(), self.sinks.len());
            let text = format!("the lags are for {told} sinks, and there are {there}");
            return Err(std::io::Error::new(ErrorKind::InvalidInput, text));
        }
        if let Some(spill) = queue.spill
            && rustix::fs::fcntl_getfl(spill)?.contains(OFlags::APPEND)
        {
            let text = "the file to spill to appends what is to be written in its place (O_APPEND)";
            return Err(std::io::Error::new(ErrorKind::InvalidInput, text));
        }
        let own = Meter::new();
        let meter = self.meter.unwrap_or(&own);
        let cancels = (Cancel::new()?, Cancel::new()?);
        meter.goes("fan-out-queue");
        Queued::new(&self, (queue, lags), meter, on_loss, on_full, cancels).run()
    }
}
