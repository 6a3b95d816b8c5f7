//! Counts lines without carrying them: reads a copy of what comes next, and lets the kernel hand the
//! originals on.
//!
//! What was looked at is still in the source until it is handed on, so that moving by hand can take
//! over at any byte. Costs per chunk: one copy instead of two, two system calls from a file and three
//! from a pipe, one pass with vector instructions over memory that the cache holds.

use std::os::fd::OwnedFd;

use bytepath::Kind;
use bytepath::pages::AlignedBuffer;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};

use super::Settings;
use super::byhand::wait;
use super::display::Way;
use super::ends::{Sink, Source};
use super::live::Live;
use super::mover::Ended;
use super::tally::Tally;

/// Bytes looked at in one go: what is copied and what it is copied from fit into the cache of a CPU
/// together.
const CHUNK_BYTES: usize = 256 << 10;

/// Looks at one input after the other with one buffer.
pub(crate) struct Lines<'a> {
    live: &'a Live,
    tally: &'a Tally,
    line_end: u8,
    memory: AlignedBuffer,
    /// Holds the copy of what a pipe has, until it is read.
    copies: Option<(OwnedFd, OwnedFd)>,
}

/// Why looking ended before the input did.
enum Short {
    /// The rest has to be moved in another way, which also tells of faults.
    Declined,
    /// Nobody reads the output any more.
    SinkGone,
}

impl<'a> Lines<'a> {
    /// `None` where lines are not all that has to be seen.
    pub(crate) fn wanted(
        settings: &Settings,
        live: &'a Live,
        tally: &'a Tally,
    ) -> Option<Lines<'a>> {
        let display = &settings.options.display;
        let only = settings.only_counts_lines() && !settings.options.transfer.discard;
        only.then(|| Lines {
            live,
            tally,
            line_end: display.line_end(),
            memory: AlignedBuffer::default(),
            copies: None,
        })
    }

    /// Whether the kernel may hand the bytes on by reference between these ends.
    pub(crate) fn fits(source: &Source<'_>, sink: &Sink<'_>) -> bool {
        let looked_at = matches!(source.endpoint.kind(), Kind::File | Kind::Pipe);
        looked_at && sink.endpoint.kind() == Kind::Pipe
    }

    /// Moves an input to its end; `None` where the rest has to be moved by hand.
    pub(crate) fn carry(&mut self, source: &Source<'_>, sink: &Sink<'_>) -> Option<Ended> {
        if !Lines::fits(source, sink) {
            return None;
        }
        if self.memory.is_empty() {
            self.memory = AlignedBuffer::new(CHUNK_BYTES);
        }
        self.tally.goes(Way::Splice);
        while !self.live.ending() {
            if self.live.rate().is_some() || self.live.buffer_bytes().is_some() {
                return None;
            }
            let seen = self.look(source).and_then(|seen| match seen {
                0 => Ok(0),
                seen => self.hand_on(source, sink, seen),
            });
            match seen {
                Ok(0) => break,
                Ok(_) => {}
                Err(Short::Declined) => return None,
                Err(Short::SinkGone) => return Some(Ended::SinkGone),
            }
        }
        Some(Ended::AtEnd)
    }

    /// Copies what comes next, and leaves it where it is; how much that is.
    fn look(&mut self, source: &Source<'_>) -> Result<usize, Short> {
        if source.endpoint.kind() == Kind::Pipe {
            return self.look_into_pipe(source);
        }
        loop {
            let at = rustix::fs::tell(&source.endpoint).map_err(|_| Short::Declined)?;
            match rustix::io::pread(&source.endpoint, &mut self.memory[..], at) {
                Ok(count) => return Ok(count),
                Err(Errno::INTR) => {}
                Err(_) => return Err(Short::Declined),
            }
        }
    }

    fn look_into_pipe(&mut self, source: &Source<'_>) -> Result<usize, Short> {
        let (copies, into) = match &self.copies {
            Some(copies) => copies,
            None => self.copies.insert(own_pipe().ok_or(Short::Declined)?),
        };
        let flags = SpliceFlags::empty();
        let count = loop {
            match rustix::pipe::tee(&source.endpoint, into, self.memory.len(), flags) {
                Ok(count) => break count,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    wait(&source.endpoint, PollFlags::IN).map_err(|_| Short::Declined)?;
                }
                Err(_) => return Err(Short::Declined),
            }
        };
        let mut read = 0;
        while read < count {
            match rustix::io::read(copies, &mut self.memory[read..count]) {
                // It is ours, and holds all of it.
                Ok(0) => return Err(Short::Declined),
                Ok(more) => read += more,
                Err(Errno::INTR | Errno::AGAIN) => {}
                Err(_) => return Err(Short::Declined),
            }
        }
        Ok(count)
    }

    /// Hands on what was looked at, and counts the lines in what the sink took.
    fn hand_on(&self, source: &Source<'_>, sink: &Sink<'_>, seen: usize) -> Result<usize, Short> {
        let mut rest = &self.memory[..seen];
        let flags = SpliceFlags::empty();
        while !rest.is_empty() {
            let ends = (&source.endpoint, &sink.endpoint);
            match rustix::pipe::splice(ends.0, None, ends.1, None, rest.len(), flags) {
                // Files of /proc are read and not spliced; others may have become shorter.
                Ok(0) => return Err(Short::Declined),
                Ok(count) => {
                    let (taken, after) = rest.split_at(count);
                    let lines = bytecount::count(taken, self.line_end) as u64;
                    self.tally.wrote(count, lines);
                    rest = after;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    // The source has what was looked at, unless somebody else took that.
                    wait(&sink.endpoint, PollFlags::OUT)
                        .and_then(|()| wait(&source.endpoint, PollFlags::IN))
                        .map_err(|_| Short::Declined)?;
                }
                Err(Errno::PIPE) => return Err(Short::SinkGone),
                Err(_) => return Err(Short::Declined),
            }
        }
        Ok(seen)
    }
}

/// A pipe that holds a chunk, or less where this user's pipes are used up.
fn own_pipe() -> Option<(OwnedFd, OwnedFd)> {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).ok()?;
    let _ = rustix::pipe::fcntl_setpipe_size(&writer, CHUNK_BYTES);
    Some((reader, writer))
}
