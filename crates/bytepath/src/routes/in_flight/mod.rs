//! Moves a stretch of one file to another with many chunks in flight, out of order, by any queue of
//! requests: io_uring's or linux-aio's.
//!
//! Each chunk is read, then written; what comes up short, is interrupted or was cancelled with its
//! link is queued again. The first offset at which the stretch cannot go on is a barrier: chunks
//! before it are finished, chunks behind it are undone, so that the sink has all bytes up to the
//! barrier and none behind it.
//!
//! Behind the end of the sink a truncation undoes. Where it would take bytes that were there before,
//! chunks are written one after the other, in order, and only reads are out of order.

use std::collections::VecDeque;

use rustix::io::Errno;

use crate::error::{Failed, Refusal, Side, Stop};
use crate::ring::{Answer, Buffer, Completion, Operation, Request, Ring, Target};
use crate::routes::Span;
use stand::Stand;

mod shape;
mod stand;

pub(super) use shape::{Shape, suits};
pub(super) use stand::{bytes_ahead, cut, ends_before, place, position};

/// A chunk that makes no progress is queued again at most this often.
const RETRIES_MAX: u32 = 1000;

/// A queue of requests that the kernel carries out.
pub(crate) trait Queue<'fd> {
    /// Takes a request; there is room for two steps for each chunk in flight.
    fn push(&mut self, request: Request<'fd>);

    /// The next request that is done, in any order; `None` where none is in flight.
    fn next(&mut self) -> Result<Option<Completion>, Errno>;

    /// Ends what is in flight: nothing of it lands later, unless the kernel lets nobody wait for it
    /// even now. Takes no more requests.
    fn settle(&mut self);

    /// System calls made so far.
    fn calls(&self) -> u64;

    /// The call to name where [`Queue::next`] fails.
    fn call(&self) -> &'static str;
}

impl<'fd> Queue<'fd> for Ring<'fd> {
    fn push(&mut self, request: Request<'fd>) {
        Ring::push(self, request);
    }

    fn next(&mut self) -> Result<Option<Completion>, Errno> {
        Ring::wait(self)
    }

    fn settle(&mut self) {
        Ring::settle(self);
    }

    fn calls(&self) -> u64 {
        Ring::calls(self)
    }

    fn call(&self) -> &'static str {
        "io_uring_enter"
    }
}

/// The route's name, and the two ends as its queue knows them.
#[derive(Clone, Copy)]
pub(super) struct Ends<'fd> {
    pub(super) name: &'static str,
    pub(super) source: Target<'fd>,
    pub(super) sink: Target<'fd>,
    /// Reads and writes are of multiples of this many bytes, at such offsets.
    pub(super) align: usize,
    /// Whether each write is linked to its read.
    pub(super) pairing: Pairing,
}

/// When a chunk's write is handed to the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pairing {
    /// When its read is done.
    Apart,
    /// With its read, linked to it.
    Linked,
}

/// A chunk that has been started, at `at` bytes from the start of the stretch.
#[derive(Debug, Clone, Copy)]
struct Chunk {
    at: u64,
    len: usize,
    read: usize,
    written: usize,
    retries: u32,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Reading,
    /// Reading, with the write linked to it.
    Pair,
    Writing,
    /// Read, and waiting for the chunks before it to be written.
    Held,
    Done,
}

/// Where and why the stretch does not go on.
struct Barrier {
    at: u64,
    why: Why,
}

enum Why {
    /// The source ends there.
    End,
    Stop(Stop),
}

/// One stretch under way.
pub(super) struct InFlight<'a, 'fd, Q> {
    span: &'a Span<'a>,
    ends: Ends<'fd>,
    queue: &'a mut Q,
    free: Vec<Buffer>,
    held: VecDeque<Option<Buffer>>,
    chunks: VecDeque<Chunk>,
    shape: Shape,
    /// The number of the first chunk in `chunks`, which is its token.
    first: u64,
    next_at: u64,
    /// Bytes from the start of the stretch that the sink has without a gap.
    reached: u64,
    /// The furthest byte that was written.
    furthest: u64,
    barrier: Option<Barrier>,
    calls_told: u64,
}

/// What a stretch came to.
pub(super) struct Stretch {
    /// Bytes that the sink has taken, all of them told to the meter.
    pub(super) bytes: u64,
    /// How it ended there.
    pub(super) ended: Result<Ended, Stop>,
}

/// How a stretch came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// All that was asked for was moved.
    Whole,
    /// The source ended before.
    Early,
}

impl<'a, 'fd, Q: Queue<'fd>> InFlight<'a, 'fd, Q> {
    /// What moves stretches of one span, with these buffers.
    pub(super) fn new(
        span: &'a Span<'a>,
        ends: Ends<'fd>,
        queue: &'a mut Q,
        shape: Shape,
        buffers: Vec<Buffer>,
    ) -> Self {
        assert!(buffers.len() == shape.depth);
        let calls_told = queue.calls();
        InFlight {
            span,
            ends,
            queue,
            free: buffers,
            held: VecDeque::with_capacity(shape.depth),
            chunks: VecDeque::with_capacity(shape.depth),
            shape,
            first: 0,
            next_at: 0,
            reached: 0,
            furthest: 0,
            barrier: None,
            calls_told,
        }
    }

    /// Moves everything up to the span's limit, as read-write would: also what the source grows by
    /// meanwhile.
    pub(super) fn carry(&mut self) -> Result<(), Stop> {
        let (mut left, mut zero_at) = (self.span.limit, None);
        while left > 0 {
            let stretch = self.stretch(left.min(bytes_ahead(self.span)))?;
            left -= stretch.bytes;
            stretch.ended?;
            if left > 0 && super::ended(self.span, left, &mut zero_at)? {
                break;
            }
        }
        Ok(())
    }

    /// Moves at most `most` bytes from where the ends stand, and leaves them behind what was moved.
    pub(super) fn stretch(&mut self, most: u64) -> Result<Stretch, Stop> {
        let stand = self.stand()?;
        let mut stretch = self.run(most, &stand)?;
        let sinks = matches!(&stretch.ended, Err(Stop::Failed(f)) if f.side == Side::Sink);
        if sinks && !stand.in_order && self.furthest > self.reached {
            // What was written behind the gap took the room that the gap lacks.
            let stand = Stand { in_order: true, ..self.stand()? };
            let again = self.run(most - stretch.bytes, &stand)?;
            stretch = Stretch { bytes: stretch.bytes + again.bytes, ended: again.ended };
        }
        Ok(stretch)
    }

    fn run(&mut self, most: u64, stand: &Stand) -> Result<Stretch, Stop> {
        (self.next_at, self.reached, self.furthest, self.barrier) = (0, 0, 0, None);
        loop {
            self.start(most, stand);
            let done = self.queue.next();
            self.tell_calls();
            match done {
                Ok(Some(done)) => self.took(done, stand),
                Ok(None) => break,
                Err(errno) => return Err(self.lost(errno, stand)),
            }
        }
        self.leave(stand)?;
        let ended = match self.barrier.take() {
            None => Ok(Ended::Whole),
            Some(Barrier { why: Why::End, .. }) => Ok(Ended::Early),
            Some(Barrier { why: Why::Stop(stop), .. }) => Err(stop),
        };
        Ok(Stretch { bytes: self.reached, ended })
    }

    /// Starts chunks as long as there are buffers for them, and bytes.
    fn start(&mut self, most: u64, stand: &Stand) {
        let linked = self.ends.pairing == Pairing::Linked;
        let depth = if linked && stand.in_order { 1 } else { self.shape.depth };
        while self.chunks.len() < depth && self.barrier.is_none() && self.next_at < most {
            if self.span.cancel.is_some_and(crate::Cancel::is_cancelled) {
                let stop = Stop::Cancelled { stranded: Vec::new() };
                self.barrier = Some(Barrier { at: self.next_at, why: Why::Stop(stop) });
                return;
            }
            let left = usize::try_from(most - self.next_at).unwrap_or(usize::MAX);
            let len = left.min(self.shape.chunk_bytes);
            let (at, state) = (self.next_at, State::Held);
            self.chunks.push_back(Chunk { at, len, read: 0, written: 0, retries: 0, state });
            self.held.push_back(self.free.pop());
            self.next_at += len as u64;
            self.go_on(self.chunks.len() - 1, stand);
        }
    }

    /// A request is done.
    fn took(&mut self, done: Completion, stand: &Stand) {
        let place = usize::try_from(done.token - self.first).expect("a chunk in flight");
        self.held[place] = done.buffer;
        match self.chunks[place].state {
            State::Reading => self.was_read(place, done.first),
            State::Writing => self.was_written(place, done.first),
            State::Pair => self.was_paired(place, done.first, done.then),
            State::Held | State::Done => unreachable!("it had a request in flight"),
        }
        self.go_on(place, stand);
        self.pass(stand);
    }

    fn was_read(&mut self, place: usize, answer: Answer) {
        let align = self.ends.align;
        let chunk = &mut self.chunks[place];
        match answer {
            Ok(count) => {
                let wanted = chunk.len - chunk.read;
                let count = (count as usize).min(wanted);
                // A direct read that is no whole block ends the file, or what can be read directly.
                let whole = if count == wanted { count } else { count - count % align };
                chunk.read += whole;
                if whole == 0 {
                    let at = chunk.at + chunk.read as u64;
                    self.stop_at(at, Why::End);
                }
            }
            Err(errno) => self.refused(place, Side::Source, errno),
        }
    }

    fn was_written(&mut self, place: usize, answer: Answer) {
        let align = self.ends.align;
        let chunk = &mut self.chunks[place];
        match answer {
            // Linux never answers a write of some bytes with 0 unless the device is full.
            Ok(0) => self.refused(place, Side::Sink, Errno::NOSPC),
            Ok(count) => {
                let wanted = chunk.read - chunk.written;
                let count = (count as usize).min(wanted);
                let whole = if count == wanted { count } else { count - count % align };
                chunk.written += whole;
                self.furthest =
                    self.furthest.max(chunk.at + (chunk.written + count - whole) as u64);
                if whole == 0 {
                    self.refused(place, Side::Sink, Errno::AGAIN);
                }
            }
            Err(errno) => self.refused(place, Side::Sink, errno),
        }
    }

    /// A pair breaks where its read is short; a write that goes on all the same writes stale bytes,
    /// which are written over or undone.
    fn was_paired(&mut self, place: usize, read: Answer, written: Option<Answer>) {
        let chunk = self.chunks[place];
        self.was_read(place, read);
        let came = self.chunks[place].read - chunk.read;
        if let Some(Ok(count)) = written {
            self.furthest = self.furthest.max(chunk.at + chunk.written as u64 + u64::from(count));
        }
        match written {
            Some(Err(Errno::CANCELED)) | None => {}
            Some(answer) if came > 0 => self.was_written(place, answer),
            Some(_) => {}
        }
    }

    /// What an errno means for a chunk: once more, or no further than this.
    fn refused(&mut self, place: usize, side: Side, errno: Errno) {
        let chunk = &mut self.chunks[place];
        chunk.retries += 1;
        let passing = matches!(errno, Errno::INTR | Errno::AGAIN | Errno::CANCELED);
        if passing && chunk.retries < RETRIES_MAX {
            return;
        }
        let (done, call) = match side {
            Side::Source => (chunk.read, "read"),
            _ => (chunk.written, "write"),
        };
        let at = chunk.at + done as u64;
        self.stop_at(at, Why::Stop(judged(self.ends.name, side, call, errno)));
    }

    /// The stretch goes no further than this; the lowest such offset counts.
    fn stop_at(&mut self, at: u64, why: Why) {
        if self.barrier.as_ref().is_none_or(|barrier| at < barrier.at) {
            self.barrier = Some(Barrier { at, why });
        }
    }

    /// Queues a chunk's next request, if it has one.
    fn go_on(&mut self, place: usize, stand: &Stand) {
        let chunk = self.chunks[place];
        let goal = match &self.barrier {
            Some(barrier) => {
                let before = barrier.at.saturating_sub(chunk.at);
                usize::try_from(before).map_or(chunk.len, |before| before.min(chunk.len))
            }
            None => chunk.len,
        };
        let state = if chunk.written >= goal {
            State::Done
        } else if chunk.written < chunk.read {
            if stand.in_order && place > 0 { State::Held } else { State::Writing }
        } else if self.ends.pairing == Pairing::Linked {
            State::Pair
        } else {
            State::Reading
        };
        self.chunks[place].state = state;
        if !matches!(state, State::Held | State::Done) {
            self.push(place, stand);
        }
    }

    fn push(&mut self, place: usize, stand: &Stand) {
        let chunk = self.chunks[place];
        let read = chunk.read..chunk.len;
        let write =
            if chunk.state == State::Pair { read.clone() } else { chunk.written..chunk.read };
        let read = Operation::Read {
            file: self.ends.source,
            at: stand.source + chunk.at + read.start as u64,
            bytes: read,
        };
        let write = Operation::Write {
            file: self.ends.sink,
            at: stand.sink + chunk.at + write.start as u64,
            bytes: write,
        };
        let token = self.first + place as u64;
        let request = match chunk.state {
            State::Reading => Request::new(token, read),
            State::Writing => Request::new(token, write),
            _ => Request::new(token, read).then(write),
        };
        let buffer = self.held[place].take().expect("its buffer is here between requests");
        // What was refused once because it would sleep is left to a thread that may.
        let request = if chunk.retries > 0 { request.offloaded() } else { request };
        self.queue.push(request.buffer(buffer));
    }

    /// Passes the chunks that are done, and lets the next one write.
    fn pass(&mut self, stand: &Stand) {
        while let Some(&chunk) = self.chunks.front() {
            // Behind the barrier nothing counts.
            let written = chunk.at + chunk.written as u64;
            let limit = self.barrier.as_ref().map_or(u64::MAX, |barrier| barrier.at);
            let reached = written.min(limit).max(self.reached);
            if self.reached >= chunk.at {
                self.span.meter.delivered(reached - self.reached);
                self.reached = reached;
            }
            if chunk.state == State::Held {
                self.go_on(0, stand);
            }
            if self.chunks[0].state != State::Done {
                return;
            }
            self.chunks.pop_front();
            self.first += 1;
            self.free.extend(self.held.pop_front().flatten());
        }
    }

    fn tell_calls(&mut self) {
        let calls = self.queue.calls();
        for _ in self.calls_told..calls {
            self.span.meter.called();
        }
        self.calls_told = calls;
    }
}

/// What an errno means that one end gave by itself.
fn judged(name: &'static str, side: Side, call: &'static str, errno: Errno) -> Stop {
    match errno {
        // The words for "not this way": another route names the fault, if it is one.
        Errno::INVAL
        | Errno::OPNOTSUPP
        | Errno::NOSYS
        | Errno::FAULT
        | Errno::NOMEM
        | Errno::AGAIN
        | Errno::INTR
        | Errno::CANCELED => {
            Stop::Declined(Refusal::errno(format!("this file cannot {call} in this way"), errno))
        }
        _ => Stop::Failed(Failed::new(name, side, call, errno)),
    }
}
