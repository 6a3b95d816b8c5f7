//! The end that messages with buffers go into.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::io::Errno;

use super::super::connection::Connection;
use super::super::error::ChannelError;
use super::super::hello::Flow;
use super::super::link::Link;
use super::super::messages::MessageSender;
use super::super::packets::FILE;
use super::super::setup::Setup;
use super::depot::{Depot, Draft, Memory, Told};
use super::slots::Slots;
use super::{COUNT_BYTES, PLACE_BYTES};
use crate::meter::Meter;

/// The table of slots, among the files that are handed over.
pub(super) const TABLE: u8 = b'#';

/// The end that messages with buffers go into. It need not wait for the other end to come.
///
/// Dropped without [`BufferSender::finish`], it leaves a receiver that has all of the messages
/// committed, and an error in the place of an end.
#[derive(Debug)]
pub struct BufferSender {
    pub(super) messages: MessageSender,
    depot: Depot,
    /// This end has told the other one to wake it when a buffer comes back.
    watching: bool,
}

impl Connection {
    /// Makes this the end that sends messages with buffers; of these so many bytes are lent at the
    /// most, or one buffer of any size. A receiver that has taken all messages and asks for more may get one
    /// buffer beyond that. Memory that lies between lent buffers may be as much once more. Does not wait for the other end: what is sent before that
    /// one comes lies there for it.
    ///
    /// # Errors
    /// The other end is gone, or there is no memory for the ring.
    pub fn buffer_sender(self, setup: &Setup, most: usize) -> Result<BufferSender, ChannelError> {
        // Before the first word, after which there is no other try.
        let (slots, table) = Slots::create()?;
        let link = Link::offer_ahead(self, Flow::Buffers, setup)?;
        say_file(&link, &[TABLE], Some(table.as_fd()))?;
        let depot = Depot::new(slots, most);
        Ok(BufferSender { messages: MessageSender { link }, depot, watching: false })
    }
}

/// The bytes of a message: more than any ring has room for where there is no such number.
fn message_bytes(head: usize, buffers: usize) -> usize {
    head.saturating_add(COUNT_BYTES).saturating_add(buffers.saturating_mul(PLACE_BYTES))
}

fn say_file(link: &Link, packet: &[u8], file: Option<BorrowedFd<'_>>) -> Result<(), ChannelError> {
    link.say(&[FILE, packet].concat(), file)
}

impl BufferSender {
    /// The longest head of a message with so many buffers.
    pub fn longest(&self, buffers: usize) -> usize {
        self.messages.longest().saturating_sub(message_bytes(0, buffers))
    }

    /// A buffer of so many bytes (above 0), to be filled and sent; none while the receiver has too
    /// many, or too much.
    ///
    /// # Errors
    /// There is no memory; or the receiver is gone.
    pub fn try_lend(&mut self, bytes: usize) -> Result<Option<Draft>, ChannelError> {
        self.lend(bytes, Memory::All)
    }

    /// Likewise, but none either while so much is lent that more would not stay in the processor's caches.
    /// A sender that is faster than its receiver gains nothing by getting further ahead: waiting a moment
    /// for memory that both have just used is cheaper than memory that neither has.
    ///
    /// # Errors
    /// As of [`BufferSender::try_lend`].
    pub fn try_lend_warm(&mut self, bytes: usize) -> Result<Option<Draft>, ChannelError> {
        self.lend(bytes, Memory::Warm)
    }

    /// Whether [`BufferSender::try_lend`] would lend so many bytes now, as far as the receiver has given back what it
    /// had.
    pub fn would_lend(&mut self, bytes: usize) -> bool {
        self.depot.would_lend(bytes, self.messages.link.end().passed())
    }

    /// How many buffers the receiver has given back, as was last seen.
    pub fn returned(&self) -> u64 {
        self.depot.returned()
    }

    fn lend(&mut self, bytes: usize, of: Memory) -> Result<Option<Draft>, ChannelError> {
        self.stop_watching()?;
        let lent = self.depot.lend(bytes, of, self.messages.link.end().passed())?;
        if lent.is_none() {
            // A receiver that is gone, or wants no more, gives nothing back.
            self.is_wanted()?;
        }
        Ok(lent)
    }

    /// Sends a message with these buffers, which are taken; false where there is no room for it now,
    /// and they stay.
    ///
    /// # Errors
    /// It is too long; or the receiver wants no more, is gone, or is broken.
    ///
    /// # Panics
    /// Another sender lent one of them.
    pub fn try_send(&mut self, head: &[u8], drafts: &mut Vec<Draft>) -> Result<bool, ChannelError> {
        let ours = drafts.iter().all(|draft| self.depot.has_lent(draft));
        assert!(ours, "a buffer is sent by who lent it");
        let len = message_bytes(head.len(), drafts.len());
        if !self.is_told_if_room(len)? {
            return Ok(false);
        }
        let Some(mut space) = self.messages.try_space(len)? else { return Ok(false) };
        let mut bytes = space.bytes();
        bytes.copy_from(0, &(drafts.len() as u64).to_le_bytes());
        let mut at = COUNT_BYTES;
        for draft in drafts.drain(..) {
            bytes.copy_from(at, &draft.sent().bytes());
            at += PLACE_BYTES;
        }
        bytes.copy_from(at, head);
        space.commit(len);
        Ok(true)
    }

    /// Whether there is room now for a message with a head of so many bytes and so many buffers.
    ///
    /// # Errors
    /// As of [`BufferSender::try_send`].
    pub fn has_room(&mut self, head: usize, buffers: usize) -> Result<bool, ChannelError> {
        Ok(self.messages.try_space(message_bytes(head, buffers))?.is_some())
    }

    /// To be called before the descriptor ([`AsFd`]) is polled for reading, where a message could not
    /// be sent: it becomes readable once there is room for a head of so many bytes and its buffers, or
    /// the receiver is done or gone. True where that is so already, and where nobody would tell, as this
    /// user has too many descriptors under way elsewhere: who looks again in vain waits a moment.
    ///
    /// # Errors
    /// As of [`BufferSender::try_send`].
    pub fn watch(&mut self, head: usize, buffers: usize) -> Result<bool, ChannelError> {
        let len = message_bytes(head, buffers);
        if self.messages.try_space(len)?.is_none() || self.tell()?.is_none() {
            return self.messages.watch(len);
        }
        // A receiver that takes what lies in the socket wakes whoever sleeps, whatever for.
        let more = self.messages.link.end().room() + 1;
        if self.messages.link.watch(more)? {
            return Ok(true);
        }
        // It may have done so before this end lay down.
        match self.tell()? {
            None => Ok(true),
            Some(Errno::AGAIN) => Ok(false),
            // Nobody tells when other channels have less under way; a message that is released does.
            Some(_) => Ok(more > self.messages.link.end().capacity() as u64),
        }
    }

    /// Likewise, where a buffer could not be lent: readable once one came back, or the receiver has taken
    /// all messages and asks for more.
    ///
    /// # Errors
    /// As of [`BufferSender::try_lend`].
    pub fn watch_buffers(&mut self) -> Result<bool, ChannelError> {
        self.stop_watching()?;
        self.watching = self.depot.lie_down();
        // A receiver that had left before this end lay down has woken nobody.
        if self.watching && self.messages.link.has_left() {
            self.stop_watching()?;
        }
        Ok(!self.watching)
    }

    fn stop_watching(&mut self) -> Result<(), ChannelError> {
        if self.watching {
            self.watching = false;
            self.depot.slots.get_up();
            self.messages.link.take_packets()?;
        }
        Ok(())
    }

    /// Looks whether the other end is still there, and takes what it has said.
    ///
    /// # Errors
    /// It is gone, wants no more, or is none that this one can speak with.
    pub fn look(&mut self) -> Result<(), ChannelError> {
        self.messages.link.take_packets()?;
        self.is_wanted()
    }

    fn is_wanted(&mut self) -> Result<(), ChannelError> {
        match self.messages.link.room(u64::MAX)? {
            Some(_) => Err(self.messages.link.closed()),
            None => Ok(()),
        }
    }

    /// Whether the receiver has released all messages and given back all buffers. One that was dropped after the
    /// last message may still give back what it keeps; nobody tells where its process is killed before it does.
    ///
    /// # Errors
    /// It never will: it wants no more, is gone, or is broken.
    pub fn is_taken(&mut self) -> Result<bool, ChannelError> {
        let all = self.messages.link.end().capacity() as u64;
        match self.messages.link.has_room(all)? {
            Some(true) => {
                let link = &self.messages.link;
                let is_lost = link.is_gone() && !link.has_left();
                match self.depot.is_whole() {
                    false if is_lost => Err(link.gone()),
                    is_whole => Ok(is_whole),
                }
            }
            Some(false) => Err(self.messages.link.closed()),
            None => Ok(false),
        }
    }

    /// Whether the other end has taken the ring. Until then nobody reads what is sent.
    pub fn is_answered(&mut self) -> bool {
        self.messages.link.packets.awaited.is_none()
    }

    /// Whether the other end ran on this CPU when it last told: spinning keeps it from going on then.
    pub fn shares_cpu(&mut self) -> bool {
        self.messages.link.shares_cpu()
    }

    /// Bytes that its buffers' memory takes now.
    pub fn buffer_bytes(&self) -> usize {
        self.depot.bytes()
    }

    /// Says that no more messages come.
    pub fn finish(self) {
        self.messages.finish();
    }

    /// Bytes of heads committed, system calls made, and waits.
    pub fn meter(&self) -> &Meter {
        self.messages.meter()
    }

    /// Whether the receiver was told of all segments, or is now. While there is no room for a message of so many
    /// bytes it is not: what is told of for a message that does not go is the receiver's for nothing.
    fn is_told_if_room(&mut self, len: usize) -> Result<bool, ChannelError> {
        let is_told = self.depot.to_tell.is_empty();
        Ok(is_told || (self.messages.try_space(len)?.is_some() && self.tell()?.is_none()))
    }

    /// Tells of segments, as far as the socket takes it now; why it takes no more, where it does not.
    fn tell(&mut self) -> Result<Option<Errno>, ChannelError> {
        while let Some(told) = self.depot.to_tell.first() {
            let (packet, file) = told.packet();
            match say_file(&self.messages.link, &packet, file) {
                // Too many were not taken yet, here or of all that this user has under way.
                Err(ChannelError::Socket {
                    errno: errno @ (Errno::AGAIN | Errno::TOOMANYREFS),
                    ..
                }) => return Ok(Some(errno)),
                Err(ChannelError::HungUp) => return Err(self.messages.link.gone()),
                said => said?,
            }
            drop::<Told>(self.depot.to_tell.remove(0));
        }
        Ok(None)
    }
}

polled!(BufferSender, messages);
