//! Bytes that one process makes and another one looks at, all of them, as fast as both can. The two
//! processes are `bytepath stream`.

mod channel;
pub(crate) mod memory;
mod pipe;

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use bytepath::Wait;
use bytepath::pages::PageSize;
use bytepath::wait::HYBRID_BUDGET;
use serde::{Deserialize, Serialize};

use crate::ends::Usage;
use crate::passing::control::Control;

/// What the bytes go by.
pub trait Stream: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Makes what joins the two ends: the reader's descriptor, and the writer's.
    ///
    /// # Errors
    /// It is not to be had here.
    fn joints(&self) -> io::Result<(OwnedFd, OwnedFd)>;

    /// Makes the reader, which is there when the writer is.
    ///
    /// # Errors
    /// As of [`Stream::joints`].
    fn reader(&self, joint: OwnedFd) -> io::Result<Box<dyn Reads>>;

    /// Writes, until the reader is gone or this process is ended; calls `ready` before.
    ///
    /// # Errors
    /// As of [`Stream::joints`]; or the reader is gone, which is how it ends.
    fn write(&self, joint: OwnedFd, ready: Ready<'_>) -> io::Result<()>;
}

/// Says that a writer is about to begin.
pub type Ready<'r> = &'r mut dyn FnMut() -> io::Result<()>;

/// A reader.
pub trait Reads {
    /// Reads what comes next, as much as is at hand but at most [`PIECE_BYTES`], and checks that it is
    /// what was written; how many bytes.
    ///
    /// # Errors
    /// The kernel's word, or other bytes came.
    fn read(&mut self) -> io::Result<usize>;
}

/// Every way.
pub const STREAMS: &[&dyn Stream] = &[
    &memory::Memory { name: "memory", pages: PageSize::Huge },
    &memory::Memory { name: "memory-4k-pages", pages: PageSize::Base },
    &channel::Channel { name: "channel", pages: PageSize::Huge, wait: Wait::Hybrid(HYBRID_BUDGET) },
    &channel::Channel { name: "channel-spin", pages: PageSize::Huge, wait: Wait::Spin },
    &channel::Channel { name: "channel-block", pages: PageSize::Huge, wait: Wait::Block },
    &channel::Channel {
        name: "channel-4k-pages",
        pages: PageSize::Base,
        wait: Wait::Hybrid(HYBRID_BUDGET),
    },
    &pipe::Pipe,
];

/// The way of this name.
pub fn by_name(name: &str) -> Option<&'static dyn Stream> {
    STREAMS.iter().copied().find(|stream| stream.name() == name)
}

/// What is written and read at once at most.
pub const PIECE_BYTES: usize = 64 << 10;

const WORD_BYTES: usize = 8;

/// The words of a stream count.
#[derive(Default)]
struct Count(u64);

impl Count {
    /// The next so many words.
    fn take(&mut self, words: usize) -> std::ops::Range<u64> {
        let first = self.0;
        self.0 = first.wrapping_add(words as u64);
        first..self.0
    }

    /// Looks at every one of the next words, which must be what was written.
    fn check(&mut self, words: usize, values: impl Iterator<Item = u64>) -> io::Result<usize> {
        let sum = values.fold(0, u64::wrapping_add);
        let expected = self.take(words).fold(0, u64::wrapping_add);
        match sum == expected {
            true => Ok(words * WORD_BYTES),
            false => Err(io::Error::other("other bytes came than were written")),
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StreamReport {
    /// Bytes that were read.
    pub bytes: u64,
    /// In so many seconds.
    pub seconds: f64,
    /// What the reader used.
    pub usage: Usage,
}

/// Reads for so long, after as long as `warm_up`.
///
/// # Errors
/// The way is not to be had, failed, or brought other bytes.
pub fn begin(
    stream: &dyn Stream,
    warm_up: Duration,
    time: Duration,
    control: OwnedFd,
) -> io::Result<StreamReport> {
    let mut control = Control::new(control);
    let (ours, theirs) = stream.joints()?;
    control.hand(theirs)?;
    let mut reader = stream.reader(ours)?;
    control.until_ready()?;
    read_for(warm_up, &mut *reader)?;
    let before = Usage::of_this_process();
    let (bytes, seconds) = read_for(time, &mut *reader)?;
    Ok(StreamReport { bytes, seconds, usage: Usage::of_this_process().since(before) })
}

/// Once, and then for so long.
pub(crate) fn read_for(time: Duration, reader: &mut dyn Reads) -> io::Result<(u64, f64)> {
    let (mut bytes, began) = (0, Instant::now());
    loop {
        bytes += reader.read()? as u64;
        let elapsed = began.elapsed();
        if elapsed >= time {
            return Ok((bytes, elapsed.as_secs_f64()));
        }
    }
}

/// Writes until the reader is gone, or this process is ended.
///
/// # Errors
/// The way is not to be had; or the reader is gone, which is how it ends.
pub fn answer(stream: &dyn Stream, control: OwnedFd) -> io::Result<()> {
    let mut control = Control::new(control);
    let joint = control.taken()?;
    stream.write(joint, &mut || control.ready())
}
