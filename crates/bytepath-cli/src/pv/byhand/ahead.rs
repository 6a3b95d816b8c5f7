//! Between two ends that may both keep us waiting: what comes is read while the output takes nothing, until
//! the buffer is full, so that who writes to us goes on for as long as it lasts (as pv does).

use bytepath::Endpoint;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;

use super::{
    AlignedBuffer, Duration, Ended, Errno, Hand, Instant, Kind, Left, Pace, Share, Sink, Skips,
    Source, Write, whole_bytes, write_some,
};

/// Read at once at most, so that the output does not wait for a large buffer to be filled.
const READ_BYTES_MAX: usize = 1 << 20;

/// Lines are counted of no more than this before it is known how much the output takes.
const COUNTED_BYTES_MAX: usize = 128 << 10;

/// What was read and not yet written: a ring.
struct Held {
    memory: AlignedBuffer,
    /// Where it goes on at the beginning of the memory, this time round.
    turn: usize,
    begin: usize,
    len: usize,
}

impl Held {
    fn nothing(memory: AlignedBuffer) -> Held {
        Held { turn: memory.len(), memory, begin: 0, len: 0 }
    }

    /// How much may be read into it in one piece; nothing where that is less than `least`.
    fn room(&mut self, least: usize) -> usize {
        let end = self.begin + self.len;
        if end < self.turn && self.turn - end < least {
            self.turn = end;
        }
        let room = match end.checked_sub(self.turn) {
            None => self.turn - end,
            Some(wrapped) => self.begin - wrapped,
        };
        if room < least { 0 } else { room }
    }

    /// How much is to be read into it at once, of what is left to be moved.
    fn room_for(&mut self, left: &Left, source: Kind) -> usize {
        let most = match left {
            Left::Bytes(bytes) => bytes.saturating_sub(self.len as u64),
            _ => u64::MAX,
        };
        let least = whole_bytes(source).min(self.memory.len());
        self.room(least).min(READ_BYTES_MAX).min(usize::try_from(most).unwrap_or(usize::MAX))
    }

    fn free(&mut self, bytes: usize) -> &mut [u8] {
        let end = (self.begin + self.len) % self.turn;
        &mut self.memory[end..end + bytes]
    }

    /// The oldest, as far as they lie in one piece.
    fn front(&self) -> &[u8] {
        &self.memory[self.begin..self.turn.min(self.begin + self.len)]
    }

    fn written(&mut self, bytes: usize) {
        self.begin += bytes;
        self.len -= bytes;
        if self.len == 0 || self.begin == self.turn {
            (self.begin, self.turn) = (0, self.memory.len());
        }
    }
}

impl Hand<'_> {
    /// Whether both ends may make us wait, each while the other could go on, and the output takes bytes in any
    /// pieces: one that makes packets would make others of them. What goes past the page cache goes in whole
    /// blocks.
    pub(super) fn may_read_ahead(&self, source: &Source<'_>, sink: &Sink<'_>) -> bool {
        let transfer = &self.settings.options.transfer;
        let is_stream = |end: &Endpoint<'_>| match end.kind() {
            // Packets: pipe(2).
            Kind::Pipe => rustix::fs::fcntl_getfl(end).is_ok_and(|it| !it.contains(OFlags::DIRECT)),
            kind => matches!(kind, Kind::UnixSocket | Kind::TcpSocket | Kind::Terminal),
        };
        [&source.endpoint, &sink.endpoint].into_iter().all(is_stream)
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
        let mut skips = Skips::none(self.settings, self.live);
        let mut at_end = None;
        // Where poll(2) is refused, nobody knows which end is ready.
        let mut may_poll = true;
        let ended = loop {
            self.tally.holds(held.len, held.memory.len());
            let reads = at_end.is_none() && !self.live.ending();
            if !left.some() || (held.len == 0 && !reads) {
                break at_end.unwrap_or(Ended::AtEnd);
            }
            // Another may ask for another one at any time.
            let wanted = self.memory_bytes();
            if held.len == 0 && held.memory.len() != wanted {
                held.memory = AlignedBuffer::default();
                held = match self.take_memory(wanted) {
                    Ok(memory) => Held::nothing(memory),
                    Err(ended) => break ended,
                };
            }
            // One that is to be another has to become empty first.
            let room = if reads && held.memory.len() == wanted {
                held.room_for(left, source.endpoint.kind())
            } else {
                0
            };
            let is_readable = match self.share(&held, pace) {
                _ if held.len == 0 => true,
                Share::After(time) if room > 0 && may_poll => {
                    let ready = first_ready([(&source.endpoint, PollFlags::IN)], Some(time));
                    may_poll = ready.is_ok();
                    ready == Ok(Some(0))
                }
                Share::After(time) => {
                    std::thread::sleep(time);
                    false
                }
                Share::Now(most) => {
                    let sleeps = !(reads && may_poll);
                    let write = |sink: &Sink<'_>, bytes: &[u8]| match sleeps {
                        true => write_some(sink, bytes, None),
                        false => write_now(sink, bytes),
                    };
                    match self.give(&mut held, sink, left, pace, (most, &write)) {
                        Ok(true) => false,
                        Ok(false) => {
                            let out = (&sink.endpoint, PollFlags::OUT);
                            let ready = match room {
                                0 => first_ready([out], None),
                                _ => first_ready([out, (&source.endpoint, PollFlags::IN)], None),
                            };
                            may_poll = ready.is_ok();
                            ready == Ok(Some(1))
                        }
                        Err(ended) => break ended,
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
        };
        self.memory = held.memory;
        ended
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
        (most, write): (u64, Write<'_>),
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
        Ok(0) => Err(Ended::write_failed(sink, Errno::NOSPC)),
        Err(Errno::AGAIN | Errno::INTR) => Ok(0),
        answer => answer.map_err(|errno| Ended::write_failed(sink, errno)),
    }
}

/// The number of the first end that is ready, or has ended; none after that time.
fn first_ready<const N: usize>(
    ends: [(&Endpoint<'_>, PollFlags); N],
    within: Option<Duration>,
) -> Result<Option<usize>, Errno> {
    let mut fds = ends.map(|(end, interest)| PollFd::new(end, interest));
    let within = within.and_then(|time| Timespec::try_from(time).ok());
    match rustix::event::poll(&mut fds, within.as_ref()) {
        Err(Errno::INTR) => Ok(None),
        Err(errno) => Err(errno),
        Ok(_) => Ok(fds.iter().position(|fd| !fd.revents().is_empty())),
    }
}
