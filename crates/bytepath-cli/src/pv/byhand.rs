//! Moves bytes through a buffer of ours, where they have to be seen or treated: counted by lines,
//! shown, put on the device one by one, left out as holes, or made up where they cannot be read.
//!
//! Between two ends that may both make us wait, what comes is read while the other takes nothing: see [`ahead`].
//!
//! Costs per chunk: two copies, two system calls, one pass with vector instructions for lines.

use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use bytepath::Kind;
use bytepath::pages::AlignedBuffer;
use bytepath::routes::message_bytes;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use rustix::pipe::PIPE_BUF;

use super::Settings;
use super::direct::undirected;
use super::ends::{Sink, Source};
use super::lines::Lines;
use super::live::Live;
use super::mover::{Ended, Left};
use super::pace::{Pace, Share};
use super::skip::Skips;
use super::status::Status;
use super::tally::Tally;

mod ahead;

/// A buffer's size where nobody asked for one: what a pipe of ours holds. By a quarter of it a file is
/// read an eighth slower.
const BUFFER_BYTES: usize = 1 << 20;

/// Zeros in whole blocks of this size become holes.
const HOLE_BYTES: usize = 4096;

/// How often what was written is put on the device with --durable.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// Moves one input after the other with one buffer.
pub(crate) struct Hand<'a> {
    settings: &'a Settings,
    live: &'a Live,
    tally: &'a Tally,
    memory: AlignedBuffer,
    /// Where lines are all that has to be seen.
    lines: Option<Lines<'a>>,
    /// Whether the output may have holes.
    holes: Option<bool>,
    tail_wanted: bool,
    /// Whether anything could not be read and was made up.
    skipped_any: bool,
    /// When what was written was put on the device last, with --durable.
    settled: Instant,
}

impl<'a> Hand<'a> {
    pub(crate) fn new(settings: &'a Settings, live: &'a Live, tally: &'a Tally) -> Hand<'a> {
        // The first byte may be long in coming.
        tally.holds(0, live.buffer_bytes().unwrap_or(BUFFER_BYTES));
        Hand {
            settings,
            live,
            tally,
            memory: AlignedBuffer::default(),
            lines: Lines::wanted(settings, live, tally),
            holes: None,
            tail_wanted: settings.shows_tail(),
            skipped_any: false,
            settled: Instant::now(),
        }
    }

    /// How an input is moved, in a few words.
    pub(crate) fn way(&self, source: &Source<'_>, sink: &Sink<'_>, left: &Left) -> &'static str {
        let looks = self.lines.is_some() && matches!(left, Left::Everything);
        match looks && Lines::fits(source, sink) {
            true => "spliced, and read as a copy",
            false => "read and written by hand",
        }
    }

    /// Moves an input to its end, or until nothing is left to be moved.
    pub(crate) fn carry(
        &mut self,
        source: &Source<'_>,
        sink: &Sink<'_>,
        left: &mut Left,
        pace: &mut Pace,
    ) -> Ended {
        if let (Left::Everything, Some(lines)) = (&left, &mut self.lines)
            && let Some(ended) = lines.carry(source, sink)
        {
            return ended;
        }
        if self.may_read_ahead(source, sink) {
            return self.carry_ahead(source, sink, left, pace);
        }
        let mut skips = Skips::none(self.settings, self.live);
        while left.some() && !self.live.ending() {
            let capacity = self.live.buffer_bytes().unwrap_or(BUFFER_BYTES);
            let mut most = capacity;
            if let Left::Bytes(bytes) = left {
                most = most.min(usize::try_from(*bytes).unwrap_or(usize::MAX));
            }
            if !self.counts_lines() {
                let now = usize::try_from(allowed(pace, self.live)).unwrap_or(usize::MAX);
                most = most.min(now.max(whole_bytes(source.endpoint.kind())));
            }
            let mut memory = match self.take_memory(capacity) {
                Ok(memory) => memory,
                Err(ended) => return ended,
            };
            let done = match self.read(source, &mut memory[..most], &mut skips) {
                Ok(0) => Some(Ended::AtEnd),
                Ok(count) => self.write(source, sink, &memory[..count], left, pace).err(),
                Err(ended) => Some(ended),
            };
            self.memory = memory;
            if let Some(ended) = done {
                return ended;
            }
        }
        Ended::AtEnd
    }

    /// The buffer, of so many bytes.
    fn take_memory(&mut self, bytes: usize) -> Result<AlignedBuffer, Ended> {
        let memory = std::mem::take(&mut self.memory);
        if memory.len() == bytes {
            return Ok(memory);
        }
        drop(memory);
        AlignedBuffer::try_new(bytes).ok_or_else(|| {
            self.live.say(format_args!("-B: no memory for a buffer of {bytes} bytes"));
            Ended::Told(Status::MEMORY)
        })
    }

    /// Whether zeros were written for what could not be read.
    pub(crate) fn skipped_any(&self) -> bool {
        self.skipped_any
    }

    /// Puts the output on the device where that counts.
    pub(crate) fn finish(&mut self, sink: &Sink<'_>) -> Result<(), Errno> {
        if self.settings.options.transfer.durable {
            crate::device::settle(&sink.endpoint)?;
            self.tally.settled();
        }
        Ok(())
    }

    fn counts_lines(&self) -> bool {
        self.settings.options.display.counts_lines()
    }

    /// Reads until something comes; zeros for what cannot be read, where that is asked for.
    fn read(
        &mut self,
        source: &Source<'_>,
        buffer: &mut [u8],
        skips: &mut Skips<'_>,
    ) -> Result<usize, Ended> {
        loop {
            let most = skips.most_bytes(source).min(buffer.len());
            match rustix::io::read(&source.endpoint, &mut buffer[..most]) {
                Ok(count) => {
                    skips.went_well();
                    return Ok(count);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    wait(&source.endpoint, PollFlags::IN).map_err(Ended::ReadFailed)?;
                }
                Err(Errno::INVAL) if undirected(&source.endpoint) => {}
                Err(_) if skips.wanted() && skips.looks_closer(source, most) => {}
                Err(errno) if skips.wanted() => {
                    let zeros = skips.step(source, buffer, errno).map_err(Ended::ReadFailed)?;
                    self.skipped_any = true;
                    return Ok(zeros);
                }
                Err(errno) => return Err(Ended::ReadFailed(errno)),
            }
        }
    }

    /// Writes a chunk, in as many pieces as the pace makes it.
    fn write(
        &mut self,
        source: &Source<'_>,
        sink: &Sink<'_>,
        chunk: &[u8],
        left: &mut Left,
        pace: &mut Pace,
    ) -> Result<(), Ended> {
        let mut rest = chunk;
        let message_bytes = message_bytes(&source.endpoint, &sink.endpoint, chunk.len());
        while !rest.is_empty() {
            self.tally.holds(rest.len(), self.memory_bytes());
            let now = allowed(pace, self.live);
            let (piece, lines) = if self.counts_lines() {
                self.cut(rest, left.lines(), now)
            } else {
                // Nor is a message cut for the rate.
                let now = usize::try_from(now).unwrap_or(rest.len());
                (&rest[..now.max(message_bytes.unwrap_or(0)).min(rest.len())], 0)
            };
            self.write_piece(sink, piece, lines, message_bytes)?;
            pace.used(if self.counts_lines() { lines } else { piece.len() as u64 });
            left.take(piece.len() as u64, lines);
            rest = &rest[piece.len()..];
            if !left.some() && !rest.is_empty() {
                // What comes after the last line asked for is for whoever reads the input next.
                let back = i64::try_from(rest.len()).unwrap_or(0);
                let _ = rustix::fs::seek(&source.endpoint, SeekFrom::Current(-back));
                break;
            }
        }
        self.tally.holds(0, self.memory_bytes());
        Ok(())
    }

    fn memory_bytes(&self) -> usize {
        self.live.buffer_bytes().unwrap_or(BUFFER_BYTES)
    }

    /// As much as holds at most `now` line ends, and ends with the last of those `left`; how many it holds.
    fn cut<'b>(&self, bytes: &'b [u8], left: u64, now: u64) -> (&'b [u8], u64) {
        let end = self.settings.options.display.line_end();
        let lines = bytecount::count(bytes, end) as u64;
        if lines < left && lines <= now {
            return (bytes, lines);
        }
        let most = left.min(now);
        let nth = usize::try_from(most.saturating_sub(1)).unwrap_or(usize::MAX);
        let at = memchr::memchr_iter(end, bytes).nth(nth).unwrap_or(bytes.len() - 1);
        (&bytes[..=at], most)
    }

    /// Writes a piece and counts what the sink took.
    fn write_piece(
        &mut self,
        sink: &Sink<'_>,
        piece: &[u8],
        lines: u64,
        message_bytes: Option<usize>,
    ) -> Result<(), Ended> {
        let (mut rest, mut lines) = (piece, lines);
        let write = |sink: &Sink<'_>, bytes: &[u8]| write_some(sink, bytes, message_bytes);
        while !rest.is_empty() {
            let (count, written_lines) = self.write_part(sink, rest, lines, &write)?;
            (rest, lines) = (&rest[count..], lines - written_lines);
        }
        Ok(())
    }

    /// Writes some of a piece with so many lines by one call, and counts that; how many bytes and lines.
    fn write_part(
        &mut self,
        sink: &Sink<'_>,
        piece: &[u8],
        lines: u64,
        write: Write<'_>,
    ) -> Result<(usize, u64), Ended> {
        let (hole, len) = self.next_run(sink, piece);
        let count = match hole {
            true => {
                leave_hole(sink, len, len == piece.len())
                    .map_err(|errno| Ended::write_failed(sink, errno))?;
                len
            }
            // Thrown away without a call.
            false if self.settings.options.transfer.discard => len,
            false => write(sink, &piece[..len])?,
        };
        if count == 0 {
            return Ok((0, 0));
        }
        let (written, line_end) = (&piece[..count], self.settings.options.display.line_end());
        if self.tail_wanted
            && let Ok(mut tail) = self.tally.tail.lock()
        {
            tail.add(written, line_end);
        }
        let lines = match self.counts_lines() && count < piece.len() {
            true => bytecount::count(written, line_end) as u64,
            false => lines,
        };
        if self.settings.options.transfer.sync {
            sync(sink)?;
        }
        self.tally.wrote(count, lines);
        self.tally.gave(count);
        if self.settings.options.transfer.durable && self.settled.elapsed() >= SETTLE_TIME {
            sync(sink)?;
            self.tally.settled();
            self.settled = Instant::now();
        }
        Ok((count, lines))
    }

    /// Whether the next bytes become a hole, and how many of them go the same way.
    fn next_run(&mut self, sink: &Sink<'_>, rest: &[u8]) -> (bool, usize) {
        if !self.settings.options.transfer.sparse {
            return (false, rest.len());
        }
        let holes = *self.holes.get_or_insert_with(|| may_have_holes(sink));
        if !holes {
            return (false, rest.len());
        }
        let is_hole = |block: &[u8]| block.len() == HOLE_BYTES && block == [0; HOLE_BYTES];
        let mut blocks = rest.chunks(HOLE_BYTES);
        let first = blocks.next().is_some_and(is_hole);
        let same = 1 + blocks.take_while(|block| is_hole(block) == first).count();
        (first, (same * HOLE_BYTES).min(rest.len()))
    }
}

/// A way to write, by one call; how many bytes the sink took.
type Write<'w> = &'w dyn Fn(&Sink<'_>, &[u8]) -> Result<usize, Ended>;

/// The least to be read of it at once, where there is room and nobody asked for less: a source may give
/// packets, datagrams or events, and what is not taken of one is lost. Those of a pipe are no larger (pipe(2),
/// O_DIRECT), and only its writer can ask whether it has any; those of a device are none of more than 64 KiB,
/// and it may have no end of bytes.
pub(super) fn whole_bytes(source: Kind) -> usize {
    match source {
        Kind::Pipe => PIPE_BUF,
        Kind::OtherSocket => usize::MAX,
        Kind::CharDevice | Kind::Anonymous => 64 << 10,
        _ => 1,
    }
}

/// Waits until something may be moved, and says how much.
pub(crate) fn allowed(pace: &mut Pace, live: &Live) -> u64 {
    loop {
        match pace.share(live.rate(), Instant::now()) {
            Share::Now(count) => return count,
            // What is held at the end is not held back.
            Share::After(_) if live.ending() => return u64::MAX,
            Share::After(time) => std::thread::sleep(time),
        }
    }
}

/// Writes what a route had taken from its source and not yet written, and what the tally says is held.
pub(crate) fn write_all(
    source: &Source<'_>,
    sink: &Sink<'_>,
    mut bytes: &[u8],
    tally: &Tally,
) -> Result<(), Ended> {
    let message_bytes = message_bytes(&source.endpoint, &sink.endpoint, bytes.len());
    while !bytes.is_empty() {
        let count = write_some(sink, bytes, message_bytes)?;
        tally.wrote(count, 0);
        tally.gave(count);
        bytes = &bytes[count..];
    }
    Ok(())
}

/// One write that took something, of no more than a message.
fn write_some(sink: &Sink<'_>, bytes: &[u8], message: Option<usize>) -> Result<usize, Ended> {
    let bytes = &bytes[..bytes.len().min(message.unwrap_or(usize::MAX))];
    loop {
        match rustix::io::write(&sink.endpoint, bytes) {
            // Nothing was taken and nothing said: a device that is full does so.
            Ok(0) => return Err(Ended::write_failed(sink, Errno::NOSPC)),
            Ok(count) => return Ok(count),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                wait(&sink.endpoint, PollFlags::OUT)
                    .map_err(|errno| Ended::write_failed(sink, errno))?;
            }
            Err(Errno::INVAL) if undirected(&sink.endpoint) => {}
            Err(errno) => return Err(Ended::write_failed(sink, errno)),
        }
    }
}

/// Sleeps until a descriptor that is O_NONBLOCK can go on, or a signal comes; the next call tells of
/// its faults.
///
/// # Errors
/// Nobody may wait for it: whoever tried again at once would use a CPU up.
pub(crate) fn wait(fd: impl AsFd, interest: PollFlags) -> Result<(), Errno> {
    let fd = fd.as_fd();
    match rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd, interest)], None) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno),
    }
}

/// Leaves a hole of so many bytes, which is part of the file once there is something behind it; or at once,
/// where nobody knows whether anything comes.
fn leave_hole(sink: &Sink<'_>, bytes: usize, is_last: bool) -> Result<(), Errno> {
    let ahead = SeekFrom::Current(i64::try_from(bytes).unwrap_or(0));
    let end = rustix::fs::seek(&sink.endpoint, ahead)?;
    if is_last { rustix::fs::ftruncate(&sink.endpoint, end) } else { Ok(()) }
}

/// Puts what was written on the device; pipes and sockets have none.
pub(crate) fn sync(sink: &Sink<'_>) -> Result<(), Ended> {
    crate::device::settle(&sink.endpoint).map_err(|errno| Ended::write_failed(sink, errno))
}

/// Only where nothing is: seeking over old bytes would keep them.
fn may_have_holes(sink: &Sink<'_>) -> bool {
    let end =
        || rustix::fs::fstat(&sink.endpoint).ok().and_then(|stat| u64::try_from(stat.st_size).ok());
    sink.endpoint.kind() == Kind::File
        && !sink.endpoint.appends()
        && rustix::fs::tell(&sink.endpoint).is_ok_and(|at| end().is_some_and(|end| at >= end))
}
