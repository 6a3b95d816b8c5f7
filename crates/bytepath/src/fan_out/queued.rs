//! Each sink at its own pace: a thread of its own takes the bytes from a queue.
//!
//! Costs per chunk: one read, one write for each sink, and a lock taken twice by each.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::lockstep::{BUFFER_BYTES, grow_pipes};
use super::queue::{Piece, Pieces, Queue, read_all_at};
use super::sink::{Cancels, Sink, Way};
use super::taking::wait_for_source;
use super::{
    About, AfterLoss, Ending, FanOut, FanOutPlan, FannedOut, Full, Lost, OnLoss, Readers, Waits,
};
use crate::endpoint::{Blocking, Endpoint};
use crate::meter::Meter;
use crate::pages::AlignedBuffer;
use crate::wait::Cancel;

/// A queue that is full for less is nothing to tell of.
const LASTS: Duration = Duration::from_millis(200);

/// Nor is it that one of several is behind by a queue for less: equal ones are, by turns.
const HELD_UP: Duration = Duration::from_secs(1);

/// How far each sink is, readable meanwhile.
#[derive(Debug, Default)]
pub struct Lags {
    came: AtomicU64,
    /// [`GONE`] for one that takes no more.
    took: Vec<AtomicU64>,
}

/// No stream is that long.
const GONE: u64 = u64::MAX;

impl Lags {
    /// For so many sinks.
    pub fn of(sinks: usize) -> Lags {
        Lags {
            came: AtomicU64::new(0),
            took: std::iter::repeat_with(AtomicU64::default).take(sinks).collect(),
        }
    }

    /// For how many.
    pub(super) fn sinks(&self) -> usize {
        self.took.len()
    }

    /// How many bytes a sink is behind the source; 0 for one that was lost, or is none of these.
    pub fn bytes(&self, sink: usize) -> u64 {
        // In this order, so that what comes in between counts as lag, and never as less than none.
        let took = self.took.get(sink).map_or(GONE, |took| took.load(Relaxed));
        self.came.load(Relaxed).saturating_sub(took)
    }
}

/// See the module.
pub(super) struct Queued<'a> {
    job: &'a FanOut<'a>,
    queue: Queue<'a>,
    on_loss: OnLoss<'a>,
    on_full: &'a (dyn Fn(Full) + Sync),
    lags: &'a Lags,
    meter: &'a Meter,
    pieces: Mutex<State<'a>>,
    /// There is more to take, or no more will come.
    more: Condvar,
    /// There may be room for more.
    room: Condvar,
    /// Wakes who waits for the source, of which no more is to be taken.
    enough: Cancel,
    /// Wakes who waits for a sink, which is to get no more.
    stop: Cancel,
}

struct State<'a> {
    pieces: Pieces<'a>,
    /// No more will come.
    ended: bool,
    /// No more is to be taken from the source; the sinks that are left get what is queued.
    stopped: bool,
    /// A function of the caller's panicked.
    panicked: bool,
    /// Why each sink takes no more.
    lost: Vec<Option<Errno>>,
}

impl<'a> Queued<'a> {
    pub(super) fn new(
        job: &'a FanOut<'a>,
        (queue, lags): (Queue<'a>, &'a Lags),
        meter: &'a Meter,
        on_loss: OnLoss<'a>,
        on_full: &'a (dyn Fn(Full) + Sync),
        (enough, stop): (Cancel, Cancel),
    ) -> Self {
        let sinks = job.sinks.len();
        let pieces = Pieces::new(queue, sinks);
        let lost = vec![None; sinks];
        let state = State { pieces, ended: false, stopped: false, panicked: false, lost };
        let (more, room) = (Condvar::new(), Condvar::new());
        let pieces = Mutex::new(state);
        Queued { job, queue, on_loss, on_full, lags, meter, pieces, more, room, enough, stop }
    }

    /// # Errors
    /// The process may have no thread for each sink; nothing has been read.
    pub(super) fn run(self) -> std::io::Result<FannedOut> {
        let (mut served, mut bytes, mut plan) =
            (Vec::new(), 0, FanOutPlan::by_rules().with(self.job.pipes));
        let ending = std::thread::scope(|scope| {
            let _released = Released(&self);
            let all = &self;
            let spawn = |(place, end): (usize, &'a Option<Endpoint<'a>>)| {
                let serve = move || all.serve(place, Sink::written(end.as_ref()));
                std::thread::Builder::new().spawn_scoped(scope, serve)
            };
            let threads: std::io::Result<Vec<_>> =
                self.job.sinks.iter().enumerate().map(spawn).collect();
            // Those that there are end with nothing.
            let threads = threads.inspect_err(|_| {
                self.ended(Ending::NoSinkLeft);
            })?;
            let ending = self.feed(&mut bytes, &mut plan);
            let ending = self.ended(ending);
            let mut panic = None;
            for (place, thread) in threads.into_iter().enumerate() {
                served.push(thread.join().unwrap_or_else(|why| {
                    panic = Some(why);
                    Sink::written(self.job.sinks[place].as_ref())
                }));
            }
            Ok::<_, std::io::Error>(panic.map_or(ending, |why| resume_unwind(why)))
        })?;
        let state = self.lock();
        for (sink, lost) in served.iter_mut().zip(&state.lost) {
            lost.iter().for_each(|errno| sink.lose(*errno));
        }
        let has_all = |sink: &Sink<'_>| !sink.is_live() || sink.served(false).bytes == bytes;
        let ending = match ending {
            _ if state.stopped => Ending::Stopped,
            Ending::SourceEnded if self.is_cancelled() && !served.iter().all(has_all) => {
                Ending::Cancelled
            }
            ending => ending,
        };
        let sinks = served.iter().map(|sink| sink.served(false)).collect();
        Ok(FannedOut { bytes, ending, source_way: "read", sinks, plan })
    }

    fn lock(&self) -> MutexGuard<'_, State<'a>> {
        // Nothing that is done under the lock leaves it half done.
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Who ends a wait: this token, or the caller's.
    fn cancels<'c>(&'c self, ours: &'c Cancel) -> Cancels<'c> {
        Cancels { ours: Some(ours), callers: self.job.cancel }
    }

    /// Whether the caller wants no more.
    fn is_cancelled(&self) -> bool {
        self.job.cancel.is_some_and(Cancel::is_cancelled)
    }

    /// No more will come.
    fn ended(&self, ending: Ending) -> Ending {
        let mut state = self.lock();
        state.ended = true;
        self.more.notify_all();
        if ending == Ending::Cancelled {
            self.stop.cancel();
        }
        match ending {
            // Those that only listen were stopped before they had all of it.
            Ending::SourceEnded if self.stop.is_cancelled() => Ending::NoSinkLeft,
            ending => ending,
        }
    }

    /// Whether a sink is left that counts.
    fn any_left(&self, state: &State<'_>) -> bool {
        !state.panicked && (0..self.job.counted()).any(|sink| state.pieces.is_live(sink))
    }

    /// Whether more is to be taken from the source.
    fn takes_more(&self, state: &State<'_>) -> bool {
        !state.stopped && self.any_left(state)
    }

    /// Puts what the source gives into the queue, until it ends.
    fn feed(&self, bytes: &mut u64, plan: &mut FanOutPlan) -> Ending {
        let mut buffer = AlignedBuffer::new(BUFFER_BYTES);
        let mut held_up_since = None;
        loop {
            let piece = match self.read(&mut buffer) {
                Ok(count) => &buffer[..count],
                Err(ending) => return ending,
            };
            let count = piece.len() as u64;
            if super::lockstep::passes_growth(*bytes, count) {
                if let Some(planner) = self.job.planner {
                    *plan = planner().with(self.job.pipes);
                }
                if let Some(bytes) = plan.pipe_bytes() {
                    grow_pipes(self.job.source, self.job.sinks.iter().flatten(), bytes);
                }
            }
            *bytes += count;
            self.meter.moved(count);
            self.lags.came.store(*bytes, Relaxed);
            if let Err(ending) = self.put(piece, &mut held_up_since) {
                return ending;
            }
        }
    }

    fn read(&self, into: &mut [u8]) -> Result<usize, Ending> {
        loop {
            if self.is_cancelled() {
                return Err(Ending::Cancelled);
            }
            if !self.takes_more(&self.lock()) {
                return Err(Ending::NoSinkLeft);
            }
            match self.job.source.read_some(into, Blocking::No) {
                Ok(0) => return Err(Ending::SourceEnded),
                Ok(count) => return Ok(count),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait_for_source(),
                Err(errno) => return Err(Ending::ReadFailed(errno)),
            }
        }
    }

    fn wait_for_source(&self) {
        let watches = self.job.readers == Readers::Watched;
        let state = self.lock();
        let watched = self.job.sinks.iter().enumerate();
        let watched = watched.filter(|(place, _)| watches && state.pieces.is_live(*place));
        let watched: Vec<_> =
            watched.filter_map(|(place, end)| Some((place, end.as_ref()?))).collect();
        drop(state);
        for place in wait_for_source(self.job.source, &watched, self.cancels(&self.enough)) {
            self.lose(Lost { sink: place, errno: Errno::PIPE, about: About::Sink });
        }
    }

    /// Puts a piece into the queue, once there is room; no piece has found any at once since then, and a
    /// sink is held up.
    fn put(&self, piece: &[u8], held_up_since: &mut Option<Instant>) -> Result<(), Ending> {
        let mut state = self.lock();
        let mut was_full = false;
        // Memory that the system does not give is as good as a queue that is full.
        while !(state.pieces.fits(piece.len()) && state.pieces.keep(piece)) {
            if self.is_cancelled() {
                return Err(Ending::Cancelled);
            }
            if !self.any_left(&state) {
                return Err(Ending::NoSinkLeft);
            }
            if let Some(place) = state.pieces.place_in_file(piece.len()) {
                // The sinks go on while a disk takes its time.
                drop(state);
                let written = place.write(piece);
                state = self.lock();
                if written.is_ok() {
                    match self.has_messages() {
                        true => state.pieces.written(place),
                        false => state.pieces.joined(place),
                    }
                    break;
                }
                state.pieces.not_written(place);
            }
            was_full = true;
            // Who takes a piece now and then wakes this, and holds the others up all the same; that the
            // input is faster than all of them is nothing to tell of.
            let is_held_up = self.any_is_held_up(&state);
            *held_up_since = is_held_up.then(|| held_up_since.unwrap_or_else(Instant::now));
            let is_told = if held_up_since.is_some_and(|since| since.elapsed() >= HELD_UP) {
                true
            } else {
                let waited = self.room.wait_timeout(state, LASTS);
                let (still, time) = waited.unwrap_or_else(PoisonError::into_inner);
                state = still;
                time.timed_out() && !self.is_cancelled()
            };
            if is_told {
                *held_up_since = None;
                state = self.tell_of_slowest(state);
            }
        }
        if !was_full {
            *held_up_since = None;
        }
        self.more.notify_all();
        Ok(())
    }

    /// Whether a sink makes a message of each piece.
    fn has_messages(&self) -> bool {
        self.job.sinks.iter().flatten().any(Endpoint::makes_messages)
    }

    /// Whether a sink that counts has next to nothing to take until the slowest has taken more.
    fn any_is_held_up(&self, state: &State<'_>) -> bool {
        let counted = self.job.sinks[..self.job.counted()].iter().enumerate();
        let mut far = counted.filter(|(sink, _)| state.pieces.has_taken_most(*sink));
        far.any(|(_, end)| Sink::written(end.as_ref()).way != Way::Drop)
    }

    fn tell_of_slowest<'s>(
        &'s self,
        state: MutexGuard<'s, State<'a>>,
    ) -> MutexGuard<'s, State<'a>> {
        let waits = if self.any_is_held_up(&state) { Waits::Others } else { Waits::Input };
        let slowest: Vec<_> = state.pieces.slowest().map(|sink| Full { sink, waits }).collect();
        // Whoever is told may take its time.
        drop(state);
        slowest.into_iter().for_each(self.on_full);
        self.lock()
    }

    /// Gives a sink its bytes, until there are no more or it is lost.
    fn serve(&self, place: usize, mut sink: Sink<'a>) -> Sink<'a> {
        let _released = Released(self);
        let mut buffer = AlignedBuffer::new(BUFFER_BYTES);
        while let Some(piece) = self.next(place) {
            let given = match &piece {
                _ if sink.way == Way::Drop => {
                    sink.took(piece.bytes());
                    Ok(())
                }
                Piece::Memory(bytes) => sink.write_all(bytes, self.cancels(&self.stop)),
                Piece::Spilled { at, bytes } => {
                    if let Err(errno) = self.read_back(&mut buffer[..*bytes], *at) {
                        self.lose(Lost { sink: place, errno, about: About::Spill });
                        break;
                    }
                    sink.write_all(&buffer[..*bytes], self.cancels(&self.stop))
                }
            };
            match given {
                Ok(()) => {
                    let mut state = self.lock();
                    if state.pieces.is_live(place) {
                        self.lags.took[place].fetch_add(piece.bytes() as u64, Relaxed);
                    }
                    state.pieces.took(place);
                    drop(state);
                    self.room.notify_all();
                }
                // Nobody waits for the rest.
                Err(Errno::CANCELED) if self.cancels(&self.stop).are_asked() => break,
                Err(errno) => {
                    self.lose(Lost { sink: place, errno, about: About::Sink });
                    break;
                }
            }
        }
        // Who waits for room looks first whether it is cancelled, under the lock: it has either
        // seen that, or sleeps by now.
        drop(self.lock());
        self.room.notify_all();
        sink
    }

    fn read_back(&self, buffer: &mut [u8], at: u64) -> Result<(), Errno> {
        let file = self.queue.spill.ok_or(Errno::IO)?;
        read_all_at(file, buffer, at)
    }

    /// The next piece for a sink; sleeps until there is one. `None` when there will be none.
    fn next(&self, place: usize) -> Option<Piece> {
        let mut state = self.lock();
        loop {
            if state.panicked || self.is_cancelled() || !state.pieces.is_live(place) {
                return None;
            }
            match state.pieces.next(place) {
                None if state.ended => return None,
                None => state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner),
                piece => return piece,
            }
        }
    }

    /// A sink takes no more bytes; whoever started this decides what that means.
    fn lose(&self, lost: Lost) {
        let Lost { sink, errno, .. } = lost;
        let mut state = self.lock();
        if !state.pieces.is_live(sink) || state.panicked {
            return;
        }
        state.pieces.lost(sink);
        state.lost[sink] = Some(errno);
        self.lags.took[sink].store(GONE, Relaxed);
        state.stopped |= (self.on_loss)(lost) == AfterLoss::Stop;
        if !self.takes_more(&state) {
            self.enough.cancel();
        }
        // Those that only listen get the rest where that is all there is.
        if !self.any_left(&state) && !state.ended {
            self.stop.cancel();
        }
        drop(state);
        self.more.notify_all();
        self.room.notify_all();
    }
}

/// Ends all threads where one of the caller's functions panics in one of them, so that nobody waits
/// for it.
struct Released<'q, 'a>(&'q Queued<'a>);

impl Drop for Released<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.lock().panicked = true;
            self.0.enough.cancel();
            self.0.stop.cancel();
            self.0.more.notify_all();
            self.0.room.notify_all();
        }
    }
}
