//! Between two ends that may both keep us waiting: what comes is read while the output takes nothing, until
//! the buffer is full, so that who writes to us goes on for as long as it lasts (as pv does).

use bytepath::Endpoint;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::{
    AlignedBuffer, Duration, Ended, Errno, Hand, Instant, Kind, Left, Pace, Share, Sink, Skips,
    Source, Write, write_some,
};

/// Read at once at most, so that the output does not wait for a large buffer to be filled.
const READ_BYTES_MAX: usize = 1 << 20;

/// Lines are counted of no more than this before it is known how much the output takes.
const COUNTED_BYTES_MAX: usize = 128 << 10;

/// What was read and not yet written: a ring.
struct Held {
    memory: AlignedBuffer,
    begin: usize,
    len: usize,
}

impl Held {
    fn nothing(memory: AlignedBuffer) -> Held {
        Held { memory, begin: 0, len: 0 }
    }

    /// How much may be read into it in one piece.
    fn room(&self) -> usize {
        let end = self.begin + self.len;
        match end.checked_sub(self.memory.len()) {
            None => self.memory.len() - end,
            Some(wrapped) => self.begin - wrapped,
        }
    }

    fn free(&mut self, bytes: usize) -> &mut [u8] {
        let end = (self.begin + self.len) % self.memory.len();
        &mut self.memory[end..end + bytes]
    }

    /// The oldest, as far as they lie in one piece.
    fn front(&self) -> &[u8] {
        &self.memory[self.begin..self.memory.len().min(self.begin + self.len)]
    }

    fn written(&mut self, bytes: usize) {
        self.len -= bytes;
        self.begin = if self.len == 0 { 0 } else { (self.begin + bytes) % self.memory.len() };
    }
}

impl Hand<'_> {
    /// Whether both ends may make us wait, each while the other could go on. What goes past the page cache
    /// goes in whole blocks.
    pub(super) fn may_read_ahead(&self, source: &Source<'_>, sink: &Sink<'_>) -> bool {
        let waits = |kind| !matches!(kind, Kind::File | Kind::BlockDevice | Kind::Null);
        let transfer = &self.settings.options.transfer;
        waits(source.endpoint.kind())
            && waits(sink.endpoint.kind())
            && !transfer.discard
            && !transfer.direct_io
    }

    /// Moves an input to its end, or until nothing is left to be moved.
    pub(super) fn carry_ahead(
        &mut self,
        source: &Source<'_>,
        sink: &Sink<'_>,
        left: &mut Left,
        pace: &mut Pace,
    ) -> Ended {
        let mut held = match self.take_memory(self.memory_bytes()) {
            Ok(memory) => Held::nothing(memory),
            Err(ended) => return ended,
        };
        let ended = self.carry_held(&mut held, source, sink, left, pace);
        self.tally.holds(0, held.memory.len());
        self.memory = held.memory;
        ended
    }

    fn carry_held(
        &mut self,
        held: &mut Held,
        source: &Source<'_>,
        sink: &Sink<'_>,
        left: &mut Left,
        pace: &mut Pace,
    ) -> Ended {
        let mut skips = Skips::none(self.settings, self.live);
        let mut at_end = None;
        // Where poll(2) is refused, nobody knows which end is ready.
        let mut may_poll = true;
        while left.some() {
            self.tally.holds(held.len, held.memory.len());
            let reads = at_end.is_none() && !self.live.ending();
            if held.len == 0 {
                if !reads {
                    break;
                }
                if let Err(ended) = self.resize(held) {
                    return ended;
                }
            }
            let room = if reads { self.room(held, left) } else { 0 };
            let is_readable = match self.share(held, pace) {
                _ if held.len == 0 => true,
                Share::After(time) if room > 0 => {
                    first_ready(&[(&source.endpoint, PollFlags::IN)], Some(time)) == Ok(Some(0))
                }
                Share::After(time) => {
                    std::thread::sleep(time);
                    false
                }
                Share::Now(most) => {
                    let write = if reads && may_poll { write_now } else { write_some };
                    match self.give(held, sink, left, pace, (most, write)) {
                        Ok(true) => false,
                        Ok(false) => {
                            let ends = [
                                (&sink.endpoint, PollFlags::OUT),
                                (&source.endpoint, PollFlags::IN),
                            ];
                            let ready = first_ready(&ends[..if room > 0 { 2 } else { 1 }], None);
                            may_poll = ready.is_ok();
                            ready == Ok(Some(1))
                        }
                        Err(ended) => return ended,
                    }
                }
            };
            if is_readable {
                match self.read(source, held.free(room), &mut skips) {
                    Ok(0) => at_end = Some(Ended::AtEnd),
                    Ok(count) => held.len += count,
                    Err(ended) => at_end = Some(ended),
                }
            }
        }
        at_end.unwrap_or(Ended::AtEnd)
    }

    /// Takes a buffer of another size, where that was asked for meanwhile.
    fn resize(&mut self, held: &mut Held) -> Result<(), Ended> {
        if held.memory.len() != self.memory_bytes() {
            held.memory = AlignedBuffer::default();
            *held = Held::nothing(self.take_memory(self.memory_bytes())?);
        }
        Ok(())
    }

    /// How much may be read now: nothing where the buffer is to be another one, and has to be empty for that.
    fn room(&self, held: &Held, left: &Left) -> usize {
        if held.memory.len() != self.memory_bytes() {
            return 0;
        }
        let most = match left {
            Left::Bytes(bytes) => bytes.saturating_sub(held.len as u64),
            _ => u64::MAX,
        };
        held.room().min(READ_BYTES_MAX).min(usize::try_from(most).unwrap_or(usize::MAX))
    }

    /// What may be written now. What is held at the end is not held back.
    fn share(&self, held: &Held, pace: &mut Pace) -> Share {
        match pace.share(self.live.rate(), Instant::now()) {
            Share::After(_) if held.len > 0 && self.live.ending() => Share::Now(u64::MAX),
            share => share,
        }
    }

    /// Writes some of what is held, by one call; whether the sink took any.
    fn give(
        &mut self,
        held: &mut Held,
        sink: &Sink<'_>,
        left: &mut Left,
        pace: &mut Pace,
        (most, write): (u64, Write),
    ) -> Result<bool, Ended> {
        let front = held.front();
        let (piece, lines) = match self.counts_lines() {
            true => self.cut(&front[..front.len().min(COUNTED_BYTES_MAX)], left.lines(), most),
            false => (&front[..usize::try_from(most).unwrap_or(front.len()).min(front.len())], 0),
        };
        let (count, lines) = self.write_part(sink, piece, lines, write)?;
        pace.used(if self.counts_lines() { lines } else { count as u64 });
        left.take(count as u64, lines);
        held.written(count);
        Ok(count > 0)
    }
}

/// One write that does not sleep; 0 where it would have to.
fn write_now(sink: &Sink<'_>, bytes: &[u8]) -> Result<usize, Ended> {
    match sink.endpoint.write_now(bytes) {
        Ok(0) => Err(Ended::write_failed(Errno::NOSPC)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        answer => answer.map_err(Ended::write_failed),
    }
}

/// The number of the first end that is ready, or has ended; none after that time.
fn first_ready(
    ends: &[(&Endpoint<'_>, PollFlags)],
    within: Option<Duration>,
) -> Result<Option<usize>, Errno> {
    let mut fds: Vec<_> = ends.iter().map(|(end, interest)| PollFd::new(*end, *interest)).collect();
    let within = within.and_then(|time| Timespec::try_from(time).ok());
    match rustix::event::poll(&mut fds, within.as_ref()) {
        Err(Errno::INTR) => Ok(None),
        Err(errno) => Err(errno),
        Ok(_) => Ok(fds.iter().position(|fd| !fd.revents().is_empty())),
    }
}
