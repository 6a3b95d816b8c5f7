//! A queue of messages: the sender borrows space for one, fills it and commits it; the receiver
//! borrows the next and releases it. They lie in the ring as `records` says.

use std::sync::atomic::Ordering::Relaxed;

use super::connection::Connection;
use super::error::ChannelError;
use super::hello::Flow;
use super::link::Link;
use super::records::{
    GAP, HEADER_BYTES, MessageSpace, Record, longest, record_bytes, record_in_memory,
};
use super::setup::Setup;
use crate::meter::Meter;
use crate::sys::forks;
use crate::sys::shared_bytes::SharedBytes;

/// The end of a queue that messages go into.
///
/// Dropped without [`MessageSender::finish`], it leaves a receiver that has all of the messages
/// committed, and an error in the place of an end.
///
/// Once the receiver was dropped, the second message fails at the latest; once it was killed, soon after:
/// at the latest when a quarter of the ring (1 MiB at most) was sent and 50 ms went by.
#[derive(Debug)]
pub struct MessageSender {
    pub(super) link: Link,
}

/// The end of a queue that messages come out of: of a [`MessageSender`]'s, or of a
/// [`Broadcast`](super::Broadcast)'s, whose receivers each get all that is sent after they joined.
///
/// It is of the process that made it. One that was forked from that releases nothing, and would get
/// the same message again and again.
#[derive(Debug)]
pub struct MessageReceiver {
    pub(super) link: Link,
}

impl Connection {
    /// Makes this the end that sends messages. Waits for the other end to make itself the receiver.
    ///
    /// # Errors
    /// The other end is not what it should be, or there is no memory for the ring.
    pub fn message_sender(self, setup: &Setup) -> Result<MessageSender, ChannelError> {
        Ok(MessageSender { link: Link::offer(self, Flow::Messages, setup)? })
    }

    /// Makes this the end that receives messages.
    ///
    /// # Errors
    /// The other end is not what it should be, or the ring that it offers is not safe to use.
    pub fn message_receiver(self, setup: &Setup) -> Result<MessageReceiver, ChannelError> {
        Ok(MessageReceiver { link: Link::take(self, Flow::Messages, setup)? })
    }
}

impl MessageSender {
    /// The longest message that it carries: a little less than half of the ring.
    pub fn longest(&self) -> usize {
        longest(self.link.end())
    }

    /// Waits for space for a message of `len` bytes.
    ///
    /// # Errors
    /// It is too long; or the receiver wants no more, is gone, or is broken.
    #[inline]
    pub fn space(&mut self, len: usize) -> Result<MessageSpace<'_>, ChannelError> {
        let record = Record::of(len, self.link.end())?;
        match self.link.wait_for(record.needs(), record.needs())? {
            true => Ok(MessageSpace::to_one(&mut self.link, record)),
            false => Err(self.link.closed()),
        }
    }

    /// Space as [`MessageSender::space`] gives it, or `None` where there is none now.
    ///
    /// # Errors
    /// As of [`MessageSender::space`].
    pub fn try_space(&mut self, len: usize) -> Result<Option<MessageSpace<'_>>, ChannelError> {
        let record = Record::of(len, self.link.end())?;
        match self.link.has_room(record.needs())? {
            Some(true) => Ok(Some(MessageSpace::to_one(&mut self.link, record))),
            Some(false) => Err(self.link.closed()),
            None => Ok(None),
        }
    }

    /// To be called before the descriptor ([`AsFd`](std::os::fd::AsFd)) is polled for reading: it
    /// becomes readable once there is space for a message of `len` bytes, or the receiver is done or
    /// gone. True where that is so already.
    ///
    /// # Errors
    /// As of [`MessageSender::space`].
    pub fn watch(&mut self, len: usize) -> Result<bool, ChannelError> {
        let record = Record::of(len, self.link.end())?;
        self.link.watch(record.needs())
    }

    /// Sends a message: it lies in the ring then. Only [`MessageSender::wait_until_taken`] tells that the
    /// receiver took it.
    ///
    /// # Errors
    /// As of [`MessageSender::space`].
    pub fn send(&mut self, message: &[u8]) -> Result<(), ChannelError> {
        let mut space = self.space(message.len())?;
        space.bytes().copy_from(0, message);
        space.commit(message.len());
        Ok(())
    }

    /// Waits until the receiver has released all messages.
    ///
    /// # Errors
    /// It never will: it wants no more, is gone, or is broken.
    pub fn wait_until_taken(&mut self) -> Result<(), ChannelError> {
        self.link.wait_until_taken()
    }

    /// Says that no more messages come. Only [`MessageSender::wait_until_taken`], called before, tells that
    /// all were taken.
    pub fn finish(mut self) {
        self.link.finish();
    }

    /// Bytes committed (headers and gaps included), system calls made, and waits.
    pub fn meter(&self) -> &Meter {
        self.link.meter()
    }
}

polled!(MessageSender, link);

impl MessageReceiver {
    /// Waits for a message; `None` at the end of the queue.
    ///
    /// # Errors
    /// The sender is gone without having ended the queue, after all that it had committed; or it is
    /// broken.
    #[inline]
    pub fn receive(&mut self) -> Result<Option<Message<'_>>, ChannelError> {
        let least = HEADER_BYTES as u64;
        let found = loop {
            if !self.link.wait_for(least, least)? {
                return Ok(None);
            }
            if let Some(found) = self.found()? {
                break found;
            }
        };
        Ok(Some(Message::new(&mut self.link, found)))
    }

    /// The message that is there now, without waiting.
    ///
    /// # Errors
    /// As of [`MessageReceiver::receive`].
    pub fn try_receive(&mut self) -> Result<MessageNow<'_>, ChannelError> {
        match self.is_there()? {
            None => return Ok(MessageNow::Nothing),
            Some(false) => return Ok(MessageNow::End),
            Some(true) => {}
        }
        let found = self.found()?.ok_or(ChannelError::Broken("its messages change"))?;
        Ok(MessageNow::Message(Message::new(&mut self.link, found)))
    }

    /// Whether a message is there now; false where none will be any more.
    ///
    /// # Errors
    /// As of [`MessageReceiver::receive`].
    pub fn is_there(&mut self) -> Result<Option<bool>, ChannelError> {
        loop {
            match self.link.has_room(HEADER_BYTES as u64)? {
                Some(true) if self.found()?.is_none() => {}
                answer => return Ok(answer),
            }
        }
    }

    /// To be called before the descriptor ([`AsFd`](std::os::fd::AsFd)) is polled for reading: it
    /// becomes readable once there is a message, or the sender is done or gone. True where that is so
    /// already.
    ///
    /// # Errors
    /// As of [`MessageReceiver::receive`].
    pub fn watch(&mut self) -> Result<bool, ChannelError> {
        self.link.watch(HEADER_BYTES as u64)
    }

    /// Bytes released (headers and gaps included), system calls made, and waits.
    pub fn meter(&self) -> &Meter {
        self.link.meter()
    }

    /// The length of the message that comes next; `None` where a gap came, which is released. Its
    /// header is read once, and believed only as far as the ring and the sender's count go.
    #[inline]
    fn found(&mut self) -> Result<Option<usize>, ChannelError> {
        let at = self.link.end().at();
        let to_the_end = self.link.end().capacity() - at;
        let there = to_the_end.min(self.link.end().room() as usize);
        let begins = record_in_memory(&self.link, at);
        let header = self.link.memory().words()[begins / HEADER_BYTES].load(Relaxed);
        let len = (header & u64::from(u32::MAX)) as usize;
        match header & !u64::from(u32::MAX) {
            0 if record_bytes(at, len) <= there => Ok(Some(len)),
            // A gap lasts to the ring's end, and never from its beginning on: nobody goes round and
            // round here.
            GAP if at > 0 && there == to_the_end && len + HEADER_BYTES == to_the_end => {
                self.link.pass(to_the_end);
                Ok(None)
            }
            _ => Err(ChannelError::Broken("there is no message where one has to be")),
        }
    }
}

polled!(MessageReceiver, link);

impl Drop for MessageReceiver {
    /// Tells the sender that nobody wants more. A process that was forked drops its copy without a word.
    fn drop(&mut self) {
        self.link.leave();
    }
}

/// What a receiver of messages has at one moment.
#[derive(Debug)]
pub enum MessageNow<'c> {
    /// A message.
    Message(Message<'c>),
    /// None yet.
    Nothing,
    /// None any more.
    End,
}

/// A message in the ring. Its space is the sender's again when it is dropped.
#[derive(Debug)]
pub struct Message<'c> {
    link: &'c mut Link,
    len: usize,
    kept: bool,
    /// Whose it is: what a forked process has of it is its parent's.
    forks: u32,
}

impl<'c> Message<'c> {
    fn new(link: &'c mut Link, len: usize) -> Message<'c> {
        Message { link, len, kept: false, forks: forks::count() }
    }
}

impl Message<'_> {
    /// Its bytes.
    #[inline]
    pub fn bytes(&self) -> SharedBytes<'_> {
        let begins = record_in_memory(self.link, self.link.end().at()) + HEADER_BYTES;
        self.link.memory().mapping().bytes(begins..begins + self.len)
    }
}

impl Message<'_> {
    /// Leaves it in the ring: it comes again.
    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Message<'_> {
    /// A process that was forked leaves it there: it is its parent's.
    fn drop(&mut self) {
        if !self.kept && self.forks == forks::count() {
            self.link.pass(record_bytes(self.link.end().at(), self.len));
        }
    }
}
