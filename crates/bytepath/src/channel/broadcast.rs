//! A queue of messages to many receivers, each of which gets every message that is sent after it has
//! joined, in order.
//!
//! There is one ring: a message is written once and read where it lies by all. It costs the sender
//! one store and one fence for all receivers, and a look at a line of each. Where the ring is full
//! the sender waits for the slowest.

use std::time::{Duration, Instant};

use rustix::event::Timespec;

use super::audience::{Audience, NOW, Receivers};
use super::connection::{Connection, Listener, deadline};
use super::error::ChannelError;
use super::link::{SENDER_PAGE_BYTES, memory, ring_bytes, told};
use super::records::{MessageSpace, Record, longest};
use super::ring::End;
use super::setup::Setup;
use crate::meter::{Meter, Reading};
use crate::pages::{MappedMemory, SharedMemory};

/// Receivers are waited for so long at once, at the most: with longer times epoll_wait(2), which counts in
/// milliseconds, gives way to epoll_pwait2(2), which is of Linux 5.11.
const ATTENDED_AT_ONCE_MAX: Duration = Duration::from_secs(86_400);

/// The end of a queue that messages go into, for all who have joined: each is a
/// [`MessageReceiver`](super::MessageReceiver), made of a [`Connection`] to the sender's address, and
/// gets every message that is sent from then on.
///
/// Receivers join and leave at any time. They are taken in wherever the sender waits, and at most
/// every 10 ms where it sends; a sender that does neither calls [`Broadcast::admit`]. Sending waits
/// for the slowest receiver, and for none that is gone: a receiver that dies is noticed within 100 ms
/// while the sender waits for it. Where there is no receiver, messages go nowhere.
///
/// Dropped without [`Broadcast::finish`], it leaves receivers that have all of the messages
/// committed, and an error in the place of an end.
///
/// ```
/// use bytepath::channel::{Address, Broadcast, Connection, Listener, Setup};
/// use std::time::Duration;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let name = format!("@bytepath-doc-{}", std::process::id());
/// let address = Address::parse(&name)?;
/// let mut sender = Broadcast::at(Listener::bind(&address)?, &Setup::default())?;
/// let receive = |address| { // in as many processes as there are
///     let connection = Connection::connect(&address, Duration::from_secs(1))?;
///     let mut receiver = connection.message_receiver(&Setup::default())?;
///     let mut bytes = 0;
///     while let Some(message) = receiver.receive()? {
///         bytes += message.bytes().len();
///     }
///     Ok::<_, bytepath::channel::ChannelError>(bytes)
/// };
/// let receivers = [address.clone(), address].map(|at| std::thread::spawn(move || receive(at)));
/// sender.wait_for_receivers(2, Duration::from_secs(1))?;
/// sender.send(b"to all")?; // a copy into the ring; or without one:
/// let mut space = sender.space(5)?;
/// space.bytes().copy_from(0, b"again");
/// space.commit(5);
/// sender.finish();
/// for receiver in receivers {
///     assert_eq!(receiver.join().expect("no panic")?, 11);
/// }
/// # Ok(()) }
/// ```
#[derive(Debug)]
pub struct Broadcast {
    memory: SharedMemory,
    /// Where the sender is, and the room that the slowest receiver leaves, as far as it is known.
    end: End,
    audience: Audience,
    meter: Meter,
}

impl Broadcast {
    /// A sender with no receivers and no address; [`Broadcast::add`] gives it receivers. Their ring
    /// is made here, so that `setup.users` counts for its pages too.
    ///
    /// # Errors
    /// There is no memory for the ring.
    pub fn new(setup: &Setup) -> Result<Broadcast, ChannelError> {
        let (ring_bytes, takes) = (ring_bytes(setup), setup.users.takes());
        let create = SharedMemory::create_for_readers;
        let memory = memory(SENDER_PAGE_BYTES + ring_bytes, setup.pages, takes, create)?;
        let (end, audience) = (End::sender(ring_bytes), Audience::new(setup)?);
        Ok(Broadcast { memory, end, audience, meter: Meter::new() })
    }

    /// A sender whose receivers are those who connect to the listener's address.
    ///
    /// # Errors
    /// As of [`Broadcast::new`].
    pub fn at(listener: Listener, setup: &Setup) -> Result<Broadcast, ChannelError> {
        let mut broadcast = Broadcast::new(setup)?;
        broadcast.audience.listen(listener)?;
        Ok(broadcast)
    }

    /// Takes in who is at the other end of a connection, such as one of [`Connection::pair`], once it
    /// has made itself a receiver.
    ///
    /// # Errors
    /// It belongs to another user, or too many are about to join.
    pub fn add(&mut self, connection: Connection) -> Result<(), ChannelError> {
        self.audience.greet(connection)
    }

    /// Takes in those who want to join now, without waiting, and notices who is gone. The descriptor
    /// ([`AsFd`](std::os::fd::AsFd)) is readable when there is somebody.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn admit(&mut self) -> Result<Receivers, ChannelError> {
        self.attend(Some(&NOW))?;
        Ok(self.receivers())
    }

    /// Waits until there are at least so many receivers, for so long at the most.
    ///
    /// # Errors
    /// Fewer have come; they stay.
    pub fn wait_for_receivers(
        &mut self,
        wished: usize,
        patience: Duration,
    ) -> Result<Receivers, ChannelError> {
        let until = deadline(patience);
        let mut left = Some(NOW);
        loop {
            self.attend(left.as_ref())?;
            let (receivers, now) = (self.receivers(), Instant::now());
            if receivers.present >= wished {
                return Ok(receivers);
            }
            if now >= until {
                return Err(ChannelError::Few { present: receivers.present, wished, patience });
            }
            left = Timespec::try_from((until - now).min(ATTENDED_AT_ONCE_MAX)).ok();
        }
    }

    /// How many receivers there are, as was last seen, and what became of others.
    pub fn receivers(&self) -> Receivers {
        self.audience.receivers()
    }

    /// The longest message that it carries, in bytes: a little less than half of the ring.
    pub fn longest(&self) -> usize {
        longest(&self.end)
    }

    /// Waits until all receivers leave space for a message of `len` bytes.
    ///
    /// # Errors
    /// It is too long, or the kernel's word. What receivers do is no error of the sender's.
    #[inline]
    pub fn space(&mut self, len: usize) -> Result<MessageSpace<'_>, ChannelError> {
        let record = Record::of(len, &self.end)?;
        if !self.knows_room(record.needs()) {
            self.wait_for(record.needs())?;
        }
        Ok(MessageSpace::to_all(self, record))
    }

    /// Space as [`Broadcast::space`] gives it, or `None` where there is none now.
    ///
    /// # Errors
    /// As of [`Broadcast::space`].
    pub fn try_space(&mut self, len: usize) -> Result<Option<MessageSpace<'_>>, ChannelError> {
        let record = Record::of(len, &self.end)?;
        if !self.knows_room(record.needs()) {
            self.attend(Some(&NOW))?;
            if self.lacking(record.needs()).is_some() {
                return Ok(None);
            }
        }
        Ok(Some(MessageSpace::to_all(self, record)))
    }

    /// To be called before the descriptor ([`AsFd`](std::os::fd::AsFd)) is polled for reading: it
    /// becomes readable once it is worth trying again to get space for a message of `len` bytes. True
    /// where it is so already. It is readable too when somebody wants to join, or is gone; trying takes
    /// note of it.
    ///
    /// # Errors
    /// As of [`Broadcast::space`].
    pub fn watch(&mut self, len: usize) -> Result<bool, ChannelError> {
        let record = Record::of(len, &self.end)?;
        self.attend(Some(&NOW))?;
        while let Some(slow) = self.lacking(record.needs()) {
            if !self.audience.watch(slow, record.needs()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sends a message.
    ///
    /// # Errors
    /// As of [`Broadcast::space`].
    pub fn send(&mut self, message: &[u8]) -> Result<(), ChannelError> {
        let mut space = self.space(message.len())?;
        space.bytes().copy_from(0, message);
        space.commit(message.len());
        Ok(())
    }

    /// Waits until all receivers that are there have released all messages.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn wait_until_taken(&mut self) -> Result<(), ChannelError> {
        self.wait_for(self.end.capacity() as u64)
    }

    /// Says that no more messages come.
    pub fn finish(mut self) {
        let (_, ended) = told(&self.memory);
        End::tell_end(ended);
        self.audience.rouse();
    }

    /// Bytes committed (headers and gaps included), system calls made, and waits.
    pub fn meter(&self) -> Reading {
        Reading { calls: self.audience.calls(), ..self.meter.read() }
    }

    /// The memory that the ring lies in. Nobody but this sender can write to it.
    pub fn memory(&self) -> &MappedMemory {
        &self.memory
    }

    pub(super) fn end(&self) -> &End {
        &self.end
    }

    /// A place of the ring, in the memory.
    #[inline]
    pub(super) fn in_memory(&self, at: usize) -> usize {
        SENDER_PAGE_BYTES + at
    }

    /// Passes so many of the bytes on that there is room for, to all at once.
    #[inline]
    pub(super) fn pass(&mut self, bytes: usize) {
        self.end.advance(bytes);
        let (passed, _) = told(&self.memory);
        self.end.tell(passed);
        self.meter.delivered(bytes as u64);
        self.audience.follow(bytes);
    }

    /// Whether there is room for so many bytes as was last seen, which was a moment ago.
    #[inline]
    fn knows_room(&self, bytes: u64) -> bool {
        self.end.room() >= bytes && !self.audience.is_due()
    }

    fn attend(&mut self, most: Option<&Timespec>) -> Result<(), ChannelError> {
        self.audience.attend(&self.memory, &self.end, most)
    }

    /// The first receiver that leaves no room for so many bytes.
    fn lacking(&mut self, bytes: u64) -> Option<usize> {
        let lacking = self.audience.lacking(bytes);
        self.end.follow(self.audience.ends());
        lacking
    }

    /// Waits for room for so many bytes, and takes note of who comes and goes.
    #[cold]
    fn wait_for(&mut self, bytes: u64) -> Result<(), ChannelError> {
        if self.audience.is_due() {
            self.attend(Some(&NOW))?;
        }
        let mut lacking = self.lacking(bytes);
        if lacking.is_some() {
            self.meter.waited();
        }
        while let Some(slow) = lacking {
            if !self.audience.spin(slow, bytes) {
                self.sleep(bytes)?;
            }
            lacking = self.lacking(bytes);
        }
        Ok(())
    }

    /// Sleeps until the first that lacks room for so many bytes has some, or for a while, or until
    /// somebody comes or goes.
    fn sleep(&mut self, bytes: u64) -> Result<(), ChannelError> {
        // Those who are gone need not be slept for.
        self.attend(Some(&NOW))?;
        match self.lacking(bytes) {
            Some(slow) if !self.audience.doze(slow, bytes) && !self.audience.watch(slow, bytes) => {
                self.attend(None)
            }
            _ => Ok(()),
        }
    }
}

polled!(Broadcast, audience);
