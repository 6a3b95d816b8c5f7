//! A stream of bytes: the sender borrows space in the ring, fills it and commits it; the receiver
//! borrows what is there and releases it.
//!
//! Costs nothing per piece but what the ends tell each other in the ring's memory, as long as nobody
//! sleeps: no copy, no system call.

use std::io;

use super::connection::Connection;
use super::error::ChannelError;
use super::hello::Flow;
use super::link::Link;
use super::setup::Setup;
use crate::meter::Meter;
use crate::pages::MappedMemory;
use crate::sys::shared_bytes::{SharedBytes, SharedSpace};

/// Plain reads and writes pass on this part of the ring at once, so that both ends are at work.
const PARTS: usize = 8;

/// The end of a stream that bytes go into.
///
/// Dropped without [`Sender::finish`], it leaves a receiver that has all of the bytes committed, and
/// an error in the place of an end: so a stream that was cut short is never taken for a whole one.
///
/// Once the receiver was dropped, the second piece fails at the latest; once it was killed, soon after:
/// at the latest when a quarter of the ring (1 MiB at most) was sent and 50 ms went by.
#[derive(Debug)]
pub struct Sender {
    link: Link,
}

/// The end of a stream that bytes come out of.
#[derive(Debug)]
pub struct Receiver {
    link: Link,
}

impl Connection {
    /// Makes this the end that sends a stream of bytes. Waits for the other end to make itself the
    /// receiver.
    ///
    /// # Errors
    /// The other end is not what it should be, or there is no memory for the ring.
    pub fn sender(self, setup: &Setup) -> Result<Sender, ChannelError> {
        Ok(Sender { link: Link::offer(self, Flow::Bytes, setup)? })
    }

    /// Makes this the end that receives a stream of bytes.
    ///
    /// # Errors
    /// The other end is not what it should be, or the ring that it offers is not safe to use.
    pub fn receiver(self, setup: &Setup) -> Result<Receiver, ChannelError> {
        Ok(Receiver { link: Link::take(self, Flow::Bytes, setup)? })
    }
}

impl Sender {
    /// Waits for space in the ring: at least 1 byte and at most `most` (above 0), in one piece. An
    /// eighth of the ring is a good piece: both ends are at work then.
    ///
    /// # Errors
    /// The receiver wants no more, is gone, or is broken.
    #[inline]
    pub fn space(&mut self, most: usize) -> Result<Space<'_>, ChannelError> {
        let wished = most.min(self.link.end().capacity() / PARTS) as u64;
        match self.link.wait_for(1, wished)? {
            true => Ok(Space { link: &mut self.link, most }),
            false => Err(self.link.closed()),
        }
    }

    /// Space as [`Sender::space`] gives it, or `None` where there is none now.
    ///
    /// # Errors
    /// As of [`Sender::space`].
    pub fn try_space(&mut self, most: usize) -> Result<Option<Space<'_>>, ChannelError> {
        match self.link.has_room(1)? {
            Some(true) => Ok(Some(Space { link: &mut self.link, most })),
            Some(false) => Err(self.link.closed()),
            None => Ok(None),
        }
    }

    /// To be called before the descriptor ([`AsFd`](std::os::fd::AsFd)) is polled for reading: it
    /// becomes readable once there is space, or the receiver is done or gone. True where that is so
    /// already, and polling would wait in vain.
    ///
    /// # Errors
    /// As of [`Sender::space`].
    pub fn watch(&mut self) -> Result<bool, ChannelError> {
        self.link.watch(1)
    }

    /// Waits until the receiver has released all that was committed.
    ///
    /// # Errors
    /// It never will: it wants no more, is gone, or is broken.
    pub fn wait_until_taken(&mut self) -> Result<(), ChannelError> {
        self.link.wait_until_taken()
    }

    /// Says that the stream ends here. Only [`Sender::wait_until_taken`], called before, tells that all of
    /// it was taken: a receiver may go away, or be killed, with bytes that it did not look at.
    pub fn finish(mut self) {
        self.link.finish();
    }

    /// Bytes committed, system calls made, and waits.
    pub fn meter(&self) -> &Meter {
        self.link.meter()
    }

    /// The memory that the ring lies in.
    pub fn memory(&self) -> &MappedMemory {
        self.link.memory()
    }
}

polled!(Sender, link);

impl io::Write for Sender {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            return Ok(0);
        }
        let part = self.link.end().capacity() / PARTS;
        let mut space = self.space(bytes.len().min(part))?;
        let count = space.len();
        space.bytes().copy_from(0, &bytes[..count]);
        space.commit(count);
        Ok(count)
    }

    /// Sends nothing: what is written is there for the receiver at once. Fails where that one is known to
    /// have gone without it; waits for nothing, as [`Sender::wait_until_taken`] does.
    fn flush(&mut self) -> io::Result<()> {
        let all = self.link.end().capacity() as u64;
        match self.link.room(all)? {
            Some(false) => Err(self.link.closed().into()),
            _ => Ok(()),
        }
    }
}

/// Space in the ring, this end's until it is committed. What was not committed is given back when it
/// is dropped.
#[derive(Debug)]
pub struct Space<'c> {
    link: &'c mut Link,
    most: usize,
}

impl Space<'_> {
    fn range(&self) -> std::ops::Range<usize> {
        self.link.in_memory(self.link.end().piece(self.most))
    }

    /// Bytes that it has room for.
    pub fn len(&self) -> usize {
        self.range().len()
    }

    /// Whether it has no room; it always has.
    pub fn is_empty(&self) -> bool {
        self.range().is_empty()
    }

    /// The space, to be filled.
    #[inline]
    pub fn bytes(&mut self) -> SharedSpace<'_> {
        let range = self.range();
        self.link.memory().mapping().space(range)
    }

    /// Passes the first so many bytes on to the receiver.
    ///
    /// # Panics
    /// There are not so many.
    #[inline]
    pub fn commit(self, bytes: usize) {
        assert!(bytes <= self.len(), "no more is committed than was borrowed");
        self.link.pass(bytes);
    }
}

impl Receiver {
    /// Waits for bytes: at least 1 and at most `most` (above 0), in one piece. `None` at the end of
    /// the stream.
    ///
    /// # Errors
    /// The sender is gone without having ended the stream, after all that it had committed; or it is
    /// broken.
    #[inline]
    pub fn filled(&mut self, most: usize) -> Result<Option<Filled<'_>>, ChannelError> {
        let wished = most.min(self.link.end().capacity() / PARTS) as u64;
        match self.link.wait_for(1, wished)? {
            true => Ok(Some(Filled { link: &mut self.link, most })),
            false => Ok(None),
        }
    }

    /// What is there now, without waiting.
    ///
    /// # Errors
    /// As of [`Receiver::filled`].
    pub fn try_filled(&mut self, most: usize) -> Result<Now<'_>, ChannelError> {
        Ok(match self.link.has_room(1)? {
            Some(true) => Now::Filled(Filled { link: &mut self.link, most }),
            Some(false) => Now::End,
            None => Now::Nothing,
        })
    }

    /// To be called before the descriptor ([`AsFd`](std::os::fd::AsFd)) is polled for reading: it
    /// becomes readable once there are bytes, or the sender is done or gone. True where that is so
    /// already, and polling would wait in vain.
    ///
    /// # Errors
    /// As of [`Receiver::filled`].
    pub fn watch(&mut self) -> Result<bool, ChannelError> {
        self.link.watch(1)
    }

    /// Bytes released, system calls made, and waits.
    pub fn meter(&self) -> &Meter {
        self.link.meter()
    }

    /// The memory that the ring lies in.
    pub fn memory(&self) -> &MappedMemory {
        self.link.memory()
    }
}

polled!(Receiver, link);

impl Drop for Receiver {
    /// Tells the sender that nobody wants more. A process that was forked drops its copy without a word.
    fn drop(&mut self) {
        self.link.leave();
    }
}

impl io::Read for Receiver {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() {
            return Ok(0);
        }
        let part = self.link.end().capacity() / PARTS;
        let Some(filled) = self.filled(into.len().min(part))? else { return Ok(0) };
        let count = filled.len();
        filled.bytes().copy_to(&mut into[..count]);
        filled.release(count);
        Ok(count)
    }
}

/// What a receiver has at one moment.
#[derive(Debug)]
pub enum Now<'c> {
    /// Bytes.
    Filled(Filled<'c>),
    /// None yet.
    Nothing,
    /// None any more.
    End,
}

/// Bytes in the ring, this end's until they are released. What was not released is there again next
/// time.
#[derive(Debug)]
pub struct Filled<'c> {
    link: &'c mut Link,
    most: usize,
}

impl Filled<'_> {
    fn range(&self) -> std::ops::Range<usize> {
        self.link.in_memory(self.link.end().piece(self.most))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.range().len()
    }

    /// Whether there are none; there always are.
    pub fn is_empty(&self) -> bool {
        self.range().is_empty()
    }

    /// The bytes.
    #[inline]
    pub fn bytes(&self) -> SharedBytes<'_> {
        self.link.memory().mapping().bytes(self.range())
    }

    /// Gives the first so many back to the sender.
    ///
    /// # Panics
    /// There are not so many.
    #[inline]
    pub fn release(self, bytes: usize) {
        assert!(bytes <= self.len(), "no more is released than was borrowed");
        self.link.pass(bytes);
    }
}
