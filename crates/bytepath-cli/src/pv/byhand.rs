//! Moves bytes through a buffer of ours, where they have to be seen or treated: counted by lines,
//! shown, put on the device one by one, left out as holes, or made up where they cannot be read.
//!
//! Costs per chunk: two copies, two system calls, one pass with vector instructions for lines.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use bytepath::{Endpoint, Kind};
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{OFlags, SeekFrom};
use rustix::io::Errno;

use super::Settings;
use super::ends::{Sink, Source};
use super::live::Live;
use super::mover::{Ended, Left};
use super::pace::{Pace, Share};
use super::status::Status;
use super::tally::Tally;

/// A buffer's size where nobody asked for one.
const BUFFER_BYTES: usize = 256 << 10;

/// What O_DIRECT wants buffers, offsets and lengths to be multiples of, at most.
const ALIGNED_BYTES: usize = 4096;

/// Zeros in whole blocks of this size become holes.
const HOLE_BYTES: usize = 4096;

/// How often what was written is put on the device with --durable.
const SETTLE_TIME: Duration = Duration::from_millis(100);

/// Without --error-skip-block, what is skipped at once grows to this.
const SKIP_BYTES_MAX: u64 = 512;

/// Moves one input after the other with one buffer.
pub(crate) struct Hand<'a> {
    settings: &'a Settings,
    live: &'a Live,
    tally: &'a Tally,
    memory: Vec<u8>,
    /// Whether the last bytes of the output are a hole that nothing ends yet.
    hole_open: bool,
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
        let display = &settings.options.display;
        Hand {
            settings,
            live,
            tally,
            memory: Vec::new(),
            hole_open: false,
            holes: None,
            tail_wanted: display.last_written.is_some()
                || !display.format.is_empty()
                || display.extra_display.is_some(),
            skipped_any: false,
            settled: Instant::now(),
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
        let mut skipped = Skipped::default();
        while left.some() && !self.live.ending() {
            let capacity = self.live.buffer_bytes().unwrap_or(BUFFER_BYTES);
            let mut most = capacity;
            if let Left::Bytes(bytes) = left {
                most = most.min(usize::try_from(*bytes).unwrap_or(usize::MAX));
            }
            if !self.counts_lines() {
                let now = allowed(pace, self.live);
                most = most.min(usize::try_from(now).unwrap_or(usize::MAX));
            }
            let mut memory = std::mem::take(&mut self.memory);
            let Some(buffer) = aligned(&mut memory, capacity) else {
                self.live.say(format_args!("-B: no memory for a buffer of {capacity} bytes"));
                return Ended::Told(Status::MEMORY);
            };
            let done = match self.read(source, &mut buffer[..most], &mut skipped) {
                Ok(0) => Some(Ended::AtEnd),
                Ok(count) => self.write(source, sink, &buffer[..count], left, pace).err(),
                Err(ended) => Some(ended),
            };
            self.memory = memory;
            if let Some(ended) = done {
                return ended;
            }
        }
        Ended::AtEnd
    }

    /// Whether zeros were written for what could not be read.
    pub(crate) fn skipped_any(&self) -> bool {
        self.skipped_any
    }

    /// Ends an output whose last bytes are a hole, and puts it on the device where that counts.
    pub(crate) fn finish(&mut self, sink: &Sink<'_>) -> Result<(), Errno> {
        if self.settings.options.transfer.durable && sync(sink).is_ok() {
            self.tally.settled();
        }
        if std::mem::take(&mut self.hole_open) {
            let end = rustix::fs::tell(&sink.endpoint)?;
            rustix::fs::ftruncate(&sink.endpoint, end)?;
        }
        Ok(())
    }

    fn counts_lines(&self) -> bool {
        self.settings.options.display.counts_lines()
    }

    fn line_end(&self) -> u8 {
        if self.settings.options.display.null { 0 } else { b'\n' }
    }

    /// Reads until something comes; zeros for what cannot be read, where that is asked for.
    fn read(
        &mut self,
        source: &Source<'_>,
        buffer: &mut [u8],
        skipped: &mut Skipped,
    ) -> Result<usize, Ended> {
        loop {
            match rustix::io::read(&source.endpoint, &mut *buffer) {
                Ok(count) => {
                    skipped.in_a_row = 0;
                    return Ok(count);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait(&source.endpoint, PollFlags::IN),
                Err(Errno::INVAL) if undirected(&source.endpoint) => {}
                Err(errno) if self.settings.options.transfer.skip_errors > 0 => {
                    return self.skip(source, buffer, skipped, errno);
                }
                Err(errno) => return Err(Ended::ReadFailed(errno)),
            }
        }
    }

    /// Steps over what cannot be read; how many zeros stand for it.
    fn skip(
        &mut self,
        source: &Source<'_>,
        buffer: &mut [u8],
        skipped: &mut Skipped,
        errno: Errno,
    ) -> Result<usize, Ended> {
        let failed = |_| Ended::ReadFailed(errno);
        let at = rustix::fs::tell(&source.endpoint).map_err(failed)?;
        let wanted = match self.settings.skip_block_bytes {
            Some(block) => block - at % block,
            None => 1 << skipped.in_a_row.min(SKIP_BYTES_MAX.ilog2()),
        };
        skipped.in_a_row += 1;
        let mut count = wanted.min(buffer.len() as u64);
        if let Some(left) = end_of(source).map(|end| end.saturating_sub(at)) {
            // Beyond the end there is nothing that could not be read.
            count = count.min(left);
        }
        if count == 0 {
            return Err(Ended::ReadFailed(errno));
        }
        rustix::fs::seek(&source.endpoint, SeekFrom::Start(at + count)).map_err(failed)?;
        let once = self.settings.options.transfer.skip_errors > 1;
        if !(once && skipped.told) {
            let why = super::word(&std::io::Error::from(errno));
            let what = match once {
                true => "it has parts that cannot be read; zeros are written for them".to_owned(),
                false => {
                    format!("skipped {at} - {} ({count} B), zeros are written for it", at + count)
                }
            };
            self.live.say(format_args!("{}: {what}: {why}", source.name));
            skipped.told = true;
        }
        self.skipped_any = true;
        let count = usize::try_from(count).unwrap_or(buffer.len());
        buffer[..count].fill(0);
        Ok(count)
    }

    /// Writes a chunk, in as many pieces as the pace of lines makes it.
    fn write(
        &mut self,
        source: &Source<'_>,
        sink: &Sink<'_>,
        chunk: &[u8],
        left: &mut Left,
        pace: &mut Pace,
    ) -> Result<(), Ended> {
        let mut rest = chunk;
        while !rest.is_empty() {
            self.tally.holds(rest.len(), self.memory_bytes());
            let (piece, lines) = if self.counts_lines() {
                let most = left.lines().min(allowed(pace, self.live));
                self.cut(rest, most)
            } else {
                (rest, 0)
            };
            self.write_piece(sink, piece, lines)?;
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

    /// As much as holds at most so many line ends, and how many it holds.
    fn cut<'b>(&self, bytes: &'b [u8], most: u64) -> (&'b [u8], u64) {
        let end = self.line_end();
        let lines = memchr::memchr_iter(end, bytes).count() as u64;
        if lines <= most {
            return (bytes, lines);
        }
        let nth = usize::try_from(most.saturating_sub(1)).unwrap_or(usize::MAX);
        let at = memchr::memchr_iter(end, bytes).nth(nth).unwrap_or(bytes.len() - 1);
        (&bytes[..=at], most)
    }

    /// Writes a piece and counts what the sink took.
    fn write_piece(&mut self, sink: &Sink<'_>, piece: &[u8], lines: u64) -> Result<(), Ended> {
        let mut lines = Some(lines);
        let mut rest = piece;
        while !rest.is_empty() {
            let (hole, len) = self.next_run(sink, rest);
            let count = match hole {
                true => {
                    let ahead = SeekFrom::Current(i64::try_from(len).unwrap_or(0));
                    rustix::fs::seek(&sink.endpoint, ahead).map_err(Ended::write_failed)?;
                    len
                }
                // Thrown away without a call.
                false if self.settings.options.transfer.discard => len,
                false => write_some(sink, &rest[..len])?,
            };
            self.hole_open = hole;
            let (written, after) = rest.split_at(count);
            rest = after;
            if self.tail_wanted {
                if let Ok(mut tail) = self.tally.tail.lock() {
                    tail.add(written);
                }
            }
            let lines = if rest.is_empty() { lines.take().unwrap_or(0) } else { 0 };
            if self.settings.options.transfer.sync {
                sync(sink)?;
            }
            self.tally.wrote(count, lines);
        }
        if self.settings.options.transfer.durable && self.settled.elapsed() >= SETTLE_TIME {
            sync(sink)?;
            self.tally.settled();
            self.settled = Instant::now();
        }
        Ok(())
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

/// What could not be read of one input.
#[derive(Default)]
struct Skipped {
    in_a_row: u32,
    told: bool,
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

/// One write that took something.
fn write_some(sink: &Sink<'_>, bytes: &[u8]) -> Result<usize, Ended> {
    loop {
        match rustix::io::write(&sink.endpoint, bytes) {
            // Nothing was taken and nothing said: a device that is full does so.
            Ok(0) => return Err(Ended::write_failed(Errno::NOSPC)),
            Ok(count) => return Ok(count),
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => wait(&sink.endpoint, PollFlags::OUT),
            Err(Errno::INVAL) if undirected(&sink.endpoint) => {}
            Err(errno) => return Err(Ended::write_failed(errno)),
        }
    }
}

/// Sleeps until a descriptor that is O_NONBLOCK can go on; the next call tells of faults.
fn wait(fd: impl AsFd, interest: PollFlags) {
    let fd = fd.as_fd();
    let _ = rustix::event::poll(&mut [PollFd::from_borrowed_fd(fd, interest)], None);
}

/// Takes O_DIRECT off, where it was on: the last bytes of a file rarely fill a block.
fn undirected(fd: impl AsFd) -> bool {
    let Ok(flags) = rustix::fs::fcntl_getfl(&fd) else { return false };
    flags.contains(OFlags::DIRECT)
        && rustix::fs::fcntl_setfl(&fd, flags.difference(OFlags::DIRECT)).is_ok()
}

/// O_DIRECT on a descriptor, where its file system has it, until this is dropped.
pub(crate) struct Directed<'fd> {
    fd: BorrowedFd<'fd>,
    before: Option<OFlags>,
}

impl<'fd> Directed<'fd> {
    /// Only where it is about the page cache: a pipe would become one of packets (pipe(2)), whose
    /// reader loses what it does not take at once.
    pub(crate) fn set(end: &'fd Endpoint<'_>) -> Self {
        let fd = end.as_fd();
        let cached = matches!(end.kind(), Kind::File | Kind::BlockDevice);
        let before = cached.then(|| rustix::fs::fcntl_getfl(fd).ok()).flatten();
        let set = |flags: &OFlags| rustix::fs::fcntl_setfl(fd, *flags | OFlags::DIRECT).is_ok();
        Directed { fd, before: before.filter(set) }
    }
}

impl Drop for Directed<'_> {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            let _ = rustix::fs::fcntl_setfl(self.fd, before);
        }
    }
}

/// Puts what was written on the device; pipes and sockets have none.
pub(crate) fn sync(sink: &Sink<'_>) -> Result<(), Ended> {
    loop {
        match rustix::fs::fdatasync(&sink.endpoint) {
            Err(Errno::INTR) => {}
            Ok(()) | Err(Errno::INVAL | Errno::NOTSUP | Errno::ROFS | Errno::NOSYS) => {
                return Ok(());
            }
            Err(errno) => return Err(Ended::write_failed(errno)),
        }
    }
}

/// Only where nothing is: seeking over old bytes would keep them.
fn may_have_holes(sink: &Sink<'_>) -> bool {
    let end =
        || rustix::fs::fstat(&sink.endpoint).ok().and_then(|stat| u64::try_from(stat.st_size).ok());
    sink.endpoint.kind() == Kind::File
        && !sink.endpoint.appends()
        && rustix::fs::tell(&sink.endpoint).is_ok_and(|at| end().is_some_and(|end| at >= end))
}

fn end_of(source: &Source<'_>) -> Option<u64> {
    match source.endpoint.kind() {
        Kind::File => {
            let stat = rustix::fs::fstat(&source.endpoint).ok()?;
            u64::try_from(stat.st_size).ok()
        }
        Kind::BlockDevice => {
            let at = rustix::fs::tell(&source.endpoint).ok()?;
            super::ends::device_bytes(&source.endpoint).map(|left| at + left)
        }
        _ => None,
    }
}

/// So many bytes of memory at an address that O_DIRECT takes, if they are to be had.
fn aligned(memory: &mut Vec<u8>, bytes: usize) -> Option<&mut [u8]> {
    let whole = bytes + ALIGNED_BYTES;
    if memory.len() != whole {
        *memory = Vec::new();
        // Asked for first, and then taken as zeros that cost nothing until they are used.
        Vec::<u8>::new().try_reserve_exact(whole).ok()?;
        *memory = vec![0; whole];
    }
    let start = memory.as_ptr().align_offset(ALIGNED_BYTES);
    memory.get_mut(start..start + bytes)
}
