//! Moves the inputs one after the other: by the plan where neither end needs to see the bytes, by
//! hand where they have to be seen.

use std::ffi::OsString;
use std::os::fd::AsFd as _;
use std::time::Instant;

use bytepath::routes::Route;
use bytepath::{Endpoint, Failed, Job, Kind, Knobs, Moved, Side, Transfer, TransferError};
use rustix::fs::Advice;
use rustix::io::Errno;

use super::Settings;
use super::alone::Alone;
use super::byhand::{self, Hand, allowed};
use super::direct::Directed;
use super::display::Way;
use super::ends::{self, Sink, Source};
use super::live::Live;
use super::pace::Pace;
use super::status::Status;
use super::tally::Tally;
use crate::errno::word;
use crate::planning::{CarryError, Clock, PlanOptions};

/// Everything that moving needs to know.
#[derive(Clone, Copy)]
pub(crate) struct Work<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) live: &'a Live,
    pub(crate) tally: &'a Tally,
    /// Where nobody watches yet.
    pub(crate) alone: Option<&'a Alone<'a>>,
}

/// How an input ended.
pub(crate) enum Ended {
    /// All of it was moved, or all that was asked for.
    AtEnd,
    /// Reading failed; the next input may do better.
    ReadFailed(Errno),
    /// Nobody reads the output any more, which is no error of ours.
    SinkGone,
    /// Writing failed: there is no point in going on.
    WriteFailed(Errno),
    /// Something else, told already; whether the next input is worth a try.
    Told(Status),
}

impl Ended {
    pub(crate) fn write_failed(sink: &Sink<'_>, errno: Errno) -> Ended {
        match errno {
            Errno::PIPE => Ended::SinkGone,
            errno if reader_left(sink, errno) => Ended::SinkGone,
            errno => Ended::WriteFailed(errno),
        }
    }

    /// The failure that ended it by hand, if one did.
    fn failure(&self) -> Option<Failed> {
        let (side, call, errno) = match *self {
            Ended::ReadFailed(errno) => (Side::Source, "read", errno),
            Ended::WriteFailed(errno) => (Side::Sink, "write", errno),
            Ended::SinkGone => (Side::Sink, "write", Errno::PIPE),
            Ended::AtEnd | Ended::Told(_) => return None,
        };
        Some(Failed::new("read-write", side, call, errno))
    }
}

/// Whether whoever reads from a Unix socket has closed it: with bytes in it that is another error than
/// EPIPE, once.
fn reader_left(sink: &Sink<'_>, errno: Errno) -> bool {
    errno == Errno::CONNRESET && sink.endpoint.kind() == Kind::UnixSocket
}

/// Whether an output is the file that messages go to as well (`> file 2>&1`).
fn is_also_stderr(sink: &Endpoint<'_>) -> bool {
    let stderr = std::io::stderr();
    sink.kind() == Kind::File
        && Endpoint::sink(stderr.as_fd()).is_ok_and(|stderr| stderr.same_file(sink))
}

/// What is left to be moved.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Left {
    Everything,
    Bytes(u64),
    Lines(u64),
}

impl Left {
    /// What was asked for: up to the size with --stop-at-size.
    pub(crate) fn asked(settings: &Settings) -> Left {
        match settings.size.filter(|_| settings.options.transfer.stop_at_size) {
            None => Left::Everything,
            Some(size) if settings.options.display.counts_lines() => Left::Lines(size),
            Some(size) => Left::Bytes(size),
        }
    }

    pub(crate) fn some(self) -> bool {
        !matches!(self, Left::Bytes(0) | Left::Lines(0))
    }

    pub(crate) fn lines(self) -> u64 {
        match self {
            Left::Lines(lines) => lines,
            _ => u64::MAX,
        }
    }

    pub(crate) fn take(&mut self, bytes: u64, lines: u64) {
        match self {
            Left::Everything => {}
            Left::Bytes(left) => *left = left.saturating_sub(bytes),
            Left::Lines(left) => *left = left.saturating_sub(lines),
        }
    }
}

impl Work<'_> {
    /// Moves all inputs to the sink; what went wrong.
    pub(crate) fn run(&self, inputs: &[OsString], sink: &Sink<'_>, mut left: Left) -> Status {
        let mut status = Status::DONE;
        let mut hand = self.by_hand().then(|| Hand::new(self.settings, self.live, self.tally));
        let mut pace = Pace::new(self.live.rate(), Instant::now());
        for input in inputs {
            if !left.some() || self.live.ending() {
                break;
            }
            if let Some(alone) = self.alone {
                alone.opens(input);
            }
            let source = match Source::open(input, self.live) {
                Ok(source) => source,
                Err(failed) => {
                    status |= failed;
                    continue;
                }
            };
            if ends::are_one(&source.endpoint, &sink.endpoint) {
                self.live.say(format_args!("{}: input is the output", source.name));
                status |= Status::SAME_FILE;
                continue;
            }
            let ended = self.one(&source, sink, &mut left, &mut pace, hand.as_mut());
            let (failed, go_on) = self.told(ended, &source);
            status |= failed;
            if !go_on {
                break;
            }
        }
        status | self.finished(hand, sink)
    }

    /// What moving by hand leaves to be done and told at the end.
    fn finished(&self, hand: Option<Hand<'_>>, sink: &Sink<'_>) -> Status {
        let Some(mut hand) = hand else { return Status::DONE };
        let mut status = if hand.skipped_any() { Status::TRANSFER } else { Status::DONE };
        if let Err(errno) = hand.finish(sink) {
            self.live.say(format_args!("write failed: {}", word(errno)));
            status |= Status::TRANSFER;
        }
        status
    }

    /// Moves one open input, as `run` does; what of it is left then.
    pub(crate) fn run_one(&self, source: &Source<'_>, sink: &Sink<'_>, left: &mut Left) -> Status {
        let mut hand = self.by_hand().then(|| Hand::new(self.settings, self.live, self.tally));
        let mut pace = Pace::new(self.live.rate(), Instant::now());
        let ended = self.one(source, sink, left, &mut pace, hand.as_mut());
        self.told(ended, source).0 | self.finished(hand, sink)
    }

    fn by_hand(&self) -> bool {
        self.settings.by_hand().is_some()
    }

    /// Tells why there is no plan to explain.
    fn explain_by_hand(&self, how: &str) {
        if let (true, Some(option)) =
            (self.settings.options.plan.explain_plan, self.settings.by_hand())
        {
            self.live.say(format_args!("{how}, because of {option}"));
        }
    }

    fn one(
        &self,
        source: &Source<'_>,
        sink: &Sink<'_>,
        left: &mut Left,
        pace: &mut Pace,
        hand: Option<&mut Hand<'_>>,
    ) -> Ended {
        if source.endpoint.kind() == Kind::File {
            // Only advice, but for large files it makes the kernel read further ahead.
            let _ = rustix::fs::fadvise(&source.endpoint, 0, None, Advice::Sequential);
        }
        if let Some(bytes) = self.settings.pipe_bytes {
            for end in [&source.endpoint, &sink.endpoint] {
                let _ = end.set_pipe_bytes(bytes);
            }
        }
        let waits =
            hand.is_some() || self.live.rate().is_some() || self.settings.options.transfer.durable;
        if let Some(alone) = self.alone.filter(|_| waits) {
            alone.end();
        }
        // What files take does not depend on a reader.
        let may_be_kept = !matches!(sink.endpoint.kind(), Kind::File | Kind::BlockDevice);
        self.tally.moved_by(may_be_kept.then(rustix::thread::gettid));
        let ended = match hand {
            None => self.by_plan(source, sink, left, pace),
            Some(hand) => self.by(hand, source, sink, left, pace),
        };
        self.tally.moved_by(None);
        self.tally.wakes(false);
        ended
    }

    fn by(
        &self,
        hand: &mut Hand<'_>,
        source: &Source<'_>,
        sink: &Sink<'_>,
        left: &mut Left,
        pace: &mut Pace,
    ) -> Ended {
        self.explain_by_hand(hand.way(source, sink, left));
        // The flag belongs to everybody who shares the open file: it is taken off again.
        let direct = self.settings.options.transfer.direct_io;
        let _source = direct.then(|| Directed::set(&source.endpoint));
        let _sink = direct.then(|| Directed::set(&sink.endpoint));
        if self.grows_pipes() {
            for end in [&source.endpoint, &sink.endpoint] {
                // A refusal (fs.pipe-user-pages-soft used up) leaves what it has, which works.
                let _ = end.set_pipe_bytes(GROWN_PIPE_BYTES);
            }
        }
        hand.carry(source, sink, left, pace)
    }

    /// A limited rate gains nothing from larger pipes, and would run ahead of its reader.
    fn grows_pipes(&self) -> bool {
        !self.settings.options.plan.no_enlarge
            && self.settings.pipe_bytes.is_none()
            && self.live.rate().is_none()
    }

    /// Lets the library move the bytes, a slice at a time: between slices the rate may have
    /// changed. Slices cost a few system calls each and last about a tenth of a second.
    ///
    /// Aliasing is allowed: the output of a pipe viewer may show what is written to an input
    /// after it was spliced and before it was read, as that of pv and of cat does; who changes a
    /// file while it is copied has no claim to either version.
    fn by_plan(
        &self,
        source: &Source<'_>,
        sink: &Sink<'_>,
        left: &mut Left,
        pace: &mut Pace,
    ) -> Ended {
        let whole = Job::new(&source.endpoint, &sink.endpoint).allow_aliasing();
        let no_enlarge = !self.grows_pipes();
        let mut options = PlanOptions { no_enlarge, ..self.settings.options.plan.clone() };
        if options.route.is_none() && is_also_stderr(&sink.endpoint) {
            // What is drawn goes between what is written, and only write(2) keeps them apart.
            options.route = Some("read-write".to_owned());
        }
        let endless = whole.limit(u64::MAX);
        let mut planning = match options.begin(&endless, Knobs::default()) {
            Ok(planning) => planning.in_stretches(),
            Err(error) => return self.no_plan(&error, source),
        };
        self.show_way(planning.plan().routes().first().map_or("", |c| c.route.name()), &whole);
        let mut route = "";
        let ended = loop {
            if self.live.rate().is_some() && planning.ends_with_a_read() {
                // A share of the rate may be less than a packet, which is to be read whole.
                let mut hand = Hand::new(self.settings, self.live, self.tally);
                let (before, clock) = (self.tally.bytes(), Clock::now());
                let ended = self.by(&mut hand, source, sink, left, pace);
                let bytes = self.tally.bytes() - before;
                match ended.failure() {
                    Some(failed) => planning.broke_off(&Failed { offset: bytes, ..failed }.into()),
                    None => {
                        let moved = Moved { bytes, route: "read-write", ..Moved::default() };
                        // Nothing goes on by another plan.
                        let _ = planning.went(&endless, moved, clock);
                    }
                }
                break self.settle(sink).err().unwrap_or(ended);
            }
            let left_bytes = if let Left::Bytes(bytes) = left { *bytes } else { u64::MAX };
            let in_all = allowed(pace, self.live).min(left_bytes);
            let most = planning.most_bytes().min(in_all);
            // Where another route gives up, a share may still be less than the first packet.
            let whole_bytes = byhand::whole_bytes(source.endpoint.kind()) as u64;
            let in_all = in_all.max(most.saturating_add(whole_bytes)).min(left_bytes);
            let job = planning.stretch(&whole, most, in_all);
            let clock = Clock::now();
            let moment = self.alone.and_then(Alone::moment);
            let signal = self.live.cancel();
            // Waking it costs a call each time it waits, which is worth it where bytes would be lost.
            let wakes = |route: &dyn Route| {
                let holds_bytes = route.holds_bytes(&whole) && sink.endpoint.kind() != Kind::Null;
                self.tally.wakes(holds_bytes && signal.is_some());
                holds_bytes || moment.is_some()
            };
            let mut transfer =
                Transfer::new(&job, planning.plan()).meter(&self.tally.meter).wakes(&wakes);
            if let Some(cancel) = moment.or(signal) {
                transfer = transfer.cancel(cancel);
            }
            let before = self.tally.meter.bytes();
            let (moved, goes_on) = match transfer.run() {
                Ok(moved) => {
                    let goes_on = moved.bytes >= most;
                    (moved, goes_on)
                }
                Err(TransferError::Cancelled { offset, stranded, route, declined }) => {
                    // The moment is over, or a signal asks for the end; writing may take longer, and what
                    // it takes is known before anybody answers signals.
                    self.tally.holds(stranded.len(), stranded.len());
                    self.alone.inspect(|alone| alone.end());
                    if let Err(ended) = byhand::write_all(source, sink, &stranded, self.tally) {
                        break ended;
                    }
                    self.show_way(route, &whole);
                    let bytes = offset + stranded.len() as u64;
                    (Moved { bytes, route, declined, small_pipe: None }, moment.is_some())
                }
                Err(error) => {
                    planning.broke_off(&error);
                    // What was moved before it counts.
                    let bytes = self.tally.meter.bytes() - before;
                    pace.used(bytes);
                    left.take(bytes, 0);
                    let ended = self.failed(error, source, sink);
                    break self.settle(sink).err().unwrap_or(ended);
                }
            };
            self.tally.wakes(false);
            pace.used(moved.bytes);
            left.take(moved.bytes, 0);
            if route != moved.route {
                route = moved.route;
                self.show_way(route, &whole);
            }
            if let Err(ended) = self.settle(sink) {
                break ended;
            }
            if let Err(error) = planning.went(&endless, moved, clock) {
                break self.no_plan(&error, source);
            }
            if !goes_on || !left.some() || self.live.ending() {
                break Ended::AtEnd;
            }
        };
        options.explain(&planning, &endless);
        ended
    }

    /// Puts what was moved on the device where that counts.
    fn settle(&self, sink: &Sink<'_>) -> Result<(), Ended> {
        if self.settings.options.transfer.durable {
            byhand::sync(sink)?;
            self.tally.settled();
        }
        Ok(())
    }

    fn no_plan(&self, error: &CarryError, source: &Source<'_>) -> Ended {
        self.live.say(format_args!("{}: {error}", source.name));
        Ended::Told(Status::TRANSFER)
    }

    /// Tells the display how the bytes go.
    fn show_way(&self, route: &str, job: &Job<'_>) {
        let pipe = [job.source, job.sink].iter().any(|end| end.kind() == Kind::Pipe);
        match route {
            "copy-file-range" => self.tally.goes(Way::CopyFileRange),
            "read-write" => self.tally.holds(0, READ_WRITE_BYTES),
            _ if pipe => self.tally.goes(Way::Splice),
            _ => self.tally.goes(Way::SplicePipe),
        }
    }

    fn failed(&self, error: TransferError, source: &Source<'_>, sink: &Sink<'_>) -> Ended {
        match error {
            TransferError::Failed(failed) => {
                let ended = match failed.side {
                    Side::Source => Ended::ReadFailed(failed.errno),
                    Side::Either if !reader_left(sink, failed.errno) => {
                        Ended::ReadFailed(failed.errno)
                    }
                    Side::Sink | Side::Either => Ended::write_failed(sink, failed.errno),
                };
                if !failed.stranded.is_empty() && !matches!(ended, Ended::SinkGone) {
                    self.say_lost(failed.stranded.len() as u64, source);
                }
                ended
            }
            other => {
                self.live.say(format_args!("{}: {other}", source.name));
                Ended::Told(Status::TRANSFER)
            }
        }
    }

    fn say_lost(&self, bytes: u64, source: &Source<'_>) {
        self.live.say(format_args!(
            "{}: {bytes} bytes were read that could not be written",
            source.name
        ));
    }

    /// Says what has to be said; the status, and whether the next input is worth a try.
    fn told(&self, ended: Ended, source: &Source<'_>) -> (Status, bool) {
        // Nobody is to take it any more.
        let held_bytes = self.tally.let_go();
        match ended {
            Ended::AtEnd => (Status::DONE, true),
            Ended::ReadFailed(errno) => {
                let why = word(errno);
                self.live.say(format_args!("{}: read failed: {why}", source.name));
                (Status::TRANSFER, true)
            }
            Ended::SinkGone => (Status::DONE, false),
            Ended::WriteFailed(errno) => {
                // What can be read once more is not lost.
                if held_bytes > 0 && rustix::fs::tell(&source.endpoint).is_err() {
                    self.say_lost(held_bytes, source);
                }
                self.live.say(format_args!("write failed: {}", word(errno)));
                (Status::TRANSFER, false)
            }
            Ended::Told(status) => (status, true),
        }
    }
}

/// What pipes are made where the bytes go by hand, as the plan does for routes.
const GROWN_PIPE_BYTES: usize = 1 << 20;

/// What the library's read-write has for a buffer.
const READ_WRITE_BYTES: usize = 256 << 10;
