//! The end that messages with buffers come out of.

use std::collections::HashMap;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::io::Errno;
use rustix::net::RecvFlags;

use super::super::connection::Connection;
use super::super::error::ChannelError;
use super::super::hello::{Flow, Hello, PACKET_BYTES, Role};
use super::super::link::{Link, Offered, is_hugetlb};
use super::super::messages::{Message, MessageNow, MessageReceiver};
use super::super::setup::Setup;
use super::sender::TABLE;
use super::slots::{SLOTS, Slots};
use super::{COUNT_BYTES, PLACE_BYTES, Place};
use crate::meter::Meter;
use crate::pages::unmapped;
use crate::sys::shared::SharedMapping;
use crate::sys::shared_bytes::SharedBytes;

/// Segments that one sender may have, at the most.
const SEGMENTS_MAX: usize = 4096;

/// How often what was handed over is taken for one buffer, some hundred packets at a time, at the most: more
/// than the largest sockets hold.
const TAKES_MAX: u32 = 1 << 10;

/// Bytes of segments that this end has there before they are looked at, at the most, beyond as many as the
/// sender had itself: a hostile one may tell of more memory than there is. Beyond, they come as they are
/// touched.
const UNSEEN_BYTES_MAX: usize = 64 << 20;

/// So many bytes of a segment that its sender had are there by one call.
const MADE_BYTES_STEP: usize = 16 << 20;

/// Bytes that were not there though the sender seemed to have them, at the most and one step more: a
/// hostile one has pages elsewhere in its file, and hands that over again once this end has made more
/// there. Beyond, it is taken to have none.
const INVENTED_BYTES_MAX: usize = 64 << 20;

/// The end that messages with buffers come out of.
#[derive(Debug)]
pub struct BufferReceiver {
    messages: MessageReceiver,
    segments: HashMap<u32, Arc<Mapped>>,
    slots: Option<Arc<Slots>>,
    /// What is left of [`UNSEEN_BYTES_MAX`].
    unseen_bytes: usize,
    /// To be held against [`INVENTED_BYTES_MAX`].
    invented_bytes: usize,
    /// How far the ring was passed on when the last message's buffers were handed out.
    handed_out: Option<u64>,
}

/// A segment as the receiver sees it.
#[derive(Debug)]
struct Mapped {
    mapping: SharedMapping,
    bytes: usize,
    /// The pages before this were there once, or are left to come as they are touched.
    seen: AtomicUsize,
}

impl Connection {
    /// Makes this the end that receives messages with buffers.
    ///
    /// # Errors
    /// The other end is not what it should be, or the ring that it offers is not safe to use.
    pub fn buffer_receiver(self, setup: &Setup) -> Result<BufferReceiver, ChannelError> {
        self.offered_buffers(setup)?.receiver()
    }

    /// Hears what a sender of messages with buffers offers, and takes it later: for those who try
    /// again where they have no room for it now.
    ///
    /// # Errors
    /// The other end is not what it should be.
    pub fn offered_buffers(self, setup: &Setup) -> Result<OfferedBuffers, ChannelError> {
        Ok(OfferedBuffers { offered: Offered::heard(self, Flow::Buffers, setup)? })
    }

    /// Whether [`Connection::buffer_receiver`] need not wait for the other end now: the ring has
    /// come that it offers, or it is gone, or says what a sender of messages with buffers does not.
    pub fn has_offered_buffers(&self) -> bool {
        let mut said = [0; PACKET_BYTES];
        let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
        let first_bytes = match rustix::net::recv(self, &mut said[..], flags) {
            Ok((_, first_bytes)) => first_bytes,
            Err(errno) => return !matches!(errno, Errno::AGAIN | Errno::INTR),
        };
        let ours = Hello::ours(Role::Receiver, Flow::Buffers, 0);
        let is_hello = said.get(..first_bytes).is_some_and(|it| ours.understood(it).is_ok());
        // Behind the first packet is the second one, or nothing but the end.
        let is_more = || rustix::io::ioctl_fionread(self).is_ok_and(|all| all > first_bytes as u64);
        !is_hello || is_more() || self.has_hung_up()
    }
}

/// The ring of a sender of messages with buffers, which is offered and not taken yet.
#[derive(Debug)]
pub struct OfferedBuffers {
    offered: Offered,
}

impl OfferedBuffers {
    /// Maps the ring, so that it can be received from. Does nothing where that is done.
    ///
    /// # Errors
    /// There is no room ([`ChannelError::Memory`]), or no descriptor ([`ChannelError::Socket`]):
    /// try again later.
    pub fn map(&mut self) -> Result<(), ChannelError> {
        self.offered.map()
    }

    /// Whether the sender is gone and nothing is lost where its ring, which could not be mapped, is
    /// never taken: it has put nothing in.
    pub fn is_void(&self) -> bool {
        self.offered.is_void()
    }

    /// Makes this the end that receives.
    ///
    /// # Errors
    /// As of [`OfferedBuffers::map`]; the sender is told.
    pub fn receiver(self) -> Result<BufferReceiver, ChannelError> {
        BufferReceiver::of(self.offered.taken()?)
    }
}

/// What a receiver has at one moment.
#[derive(Debug)]
pub enum Buffers<'c> {
    /// A message.
    Message(BufferMessage<'c>),
    /// None yet.
    Nothing,
    /// None any more.
    End,
}

/// A message in the ring, and its buffers. Its place in the ring is the sender's again when it is
/// dropped; its buffers are when each of them is.
#[derive(Debug)]
pub struct BufferMessage<'c> {
    message: Message<'c>,
    head_from: usize,
    buffers: Vec<Borrowed>,
}

impl BufferMessage<'_> {
    /// What it says beside its buffers.
    pub fn head(&self) -> SharedBytes<'_> {
        let bytes = self.message.bytes();
        bytes.range(self.head_from..bytes.len())
    }

    /// Its buffers, to be kept.
    pub fn take_buffers(&mut self) -> Vec<Borrowed> {
        std::mem::take(&mut self.buffers)
    }
}

/// A buffer that a message in the ring tells of. It is not this end's to give back yet.
#[derive(Debug)]
struct Found {
    segment: Arc<Mapped>,
    range: Range<usize>,
    slots: Arc<Slots>,
    slot: u32,
}

impl Found {
    fn borrowed(self) -> Borrowed {
        let Found { segment, range, slots, slot } = self;
        Borrowed { segment, range, slots, slot }
    }
}

/// A buffer of the sender's, which is this end's to read until it is dropped; also after the channel.
#[derive(Debug)]
pub struct Borrowed {
    segment: Arc<Mapped>,
    range: Range<usize>,
    slots: Arc<Slots>,
    slot: u32,
}

impl Borrowed {
    /// Its bytes.
    pub fn bytes(&self) -> SharedBytes<'_> {
        self.segment.mapping.bytes(self.range.clone())
    }
}

impl Drop for Borrowed {
    /// What a forked process inherits is its parent's to give back.
    fn drop(&mut self) {
        self.slots.give_back(self.slot);
    }
}

impl BufferReceiver {
    fn of(mut link: Link) -> Result<BufferReceiver, ChannelError> {
        link.take_files()?;
        let messages = MessageReceiver { link };
        let (segments, slots, handed_out) = (HashMap::new(), None, None);
        let (unseen_bytes, invented_bytes) = (UNSEEN_BYTES_MAX, 0);
        Ok(BufferReceiver { messages, segments, slots, unseen_bytes, invented_bytes, handed_out })
    }

    /// The message that is there now, without waiting.
    ///
    /// # Errors
    /// The sender is gone without having ended, after all that it had committed; it is broken; or this
    /// process is out of descriptors or addresses, and the message is there again later.
    pub fn try_receive(&mut self) -> Result<Buffers<'_>, ChannelError> {
        self.release_forgotten()?;
        let places = match self.messages.try_receive()? {
            MessageNow::Nothing => None,
            MessageNow::End => return Ok(Buffers::End),
            MessageNow::Message(message) => {
                let places = places(message.bytes());
                // It stays in the ring until its buffers are there.
                message.keep();
                Some(places?)
            }
        };
        let Some(places) = places else {
            self.ask();
            return Ok(Buffers::Nothing);
        };
        // None is borrowed yet: dropped, it would be given back, while the message still tells of it.
        let found = places.iter().map(|place| self.find(*place)).collect::<Result<Vec<_>, _>>()?;
        let head_from = COUNT_BYTES + places.len() * PLACE_BYTES;
        let at = self.messages.link.end().passed();
        match self.messages.try_receive()? {
            MessageNow::Message(message) if message.bytes().len() >= head_from => {
                self.handed_out = Some(at);
                let buffers = found.into_iter().map(Found::borrowed).collect();
                Ok(Buffers::Message(BufferMessage { message, head_from, buffers }))
            }
            _ => Err(ChannelError::Broken("it takes a message back")),
        }
    }

    /// Whether a message is there now; false where none will be any more.
    ///
    /// # Errors
    /// As of [`BufferReceiver::try_receive`].
    pub fn is_there(&mut self) -> Result<Option<bool>, ChannelError> {
        self.release_forgotten()?;
        let there = self.messages.is_there()?;
        if there.is_none() {
            self.ask();
        }
        Ok(there)
    }

    /// Tells the sender that all is taken and more is asked for: it need not wait for what this end keeps.
    fn ask(&self) {
        if let Some(slots) = &self.slots {
            slots.ask(self.messages.link.end().passed());
        }
    }

    /// A message that was forgotten, not dropped, is still in the ring, while its buffers are somebody's: they
    /// are not handed out again.
    fn release_forgotten(&mut self) -> Result<(), ChannelError> {
        if self.handed_out == Some(self.messages.link.end().passed()) {
            drop(self.messages.try_receive()?);
        }
        Ok(())
    }

    fn find(&mut self, place: Place) -> Result<Found, ChannelError> {
        // As many as there are: a sender may have handed over more than are taken at once. One that goes
        // on for ever is hostile.
        let mut takes = 0..TAKES_MAX;
        while !self.segments.contains_key(&place.segment) || self.slots.is_none() {
            self.messages.link.take_packets()?;
            if self.messages.link.packets.files.is_empty() {
                break;
            }
            takes.next().ok_or(ChannelError::Broken("it hands over memory without end"))?;
            self.take_files()?;
        }
        self.take_files()?;
        let (segment, slots) = self
            .segments
            .get(&place.segment)
            .zip(self.slots.as_ref())
            .ok_or(ChannelError::Broken("it tells of memory that it did not hand over"))?;
        let end = place.from.checked_add(place.len).and_then(|end| usize::try_from(end).ok());
        let end = end.filter(|&end| end <= segment.bytes && (place.slot as usize) < SLOTS);
        let end = end.ok_or(ChannelError::Broken("it tells of a buffer that cannot be there"))?;
        let range = place.from as usize..end;
        segment.see(&range, &mut self.unseen_bytes);
        let (segment, slots) = (Arc::clone(segment), Arc::clone(slots));
        Ok(Found { segment, range, slots, slot: place.slot })
    }

    /// Maps what was handed over. What fails for want of addresses is tried again.
    fn take_files(&mut self) -> Result<(), ChannelError> {
        const UNSAFE: &str = "it is no memory that only the sender writes, and that stays";
        const OF_THE_POOL: ChannelError =
            ChannelError::Unsafe("its pages are of the pool, which could be taken away");
        while let Some((told, file)) = self.messages.link.packets.files.front() {
            let id =
                told.get(1..).and_then(|id| id.first_chunk()).map(|id| u32::from_le_bytes(*id));
            match (told.first(), id, file) {
                (_, _, Some(file)) if is_hugetlb(file.as_fd()) => return Err(OF_THE_POOL),
                (Some(&TABLE), _, Some(file)) => {
                    let bell = Arc::clone(&self.messages.link.socket);
                    self.slots = Some(Arc::new(Slots::open(file.as_fd(), bell)?));
                }
                (Some(b'+'), Some(id), Some(file)) if self.segments.len() < SEGMENTS_MAX => {
                    let seals = rustix::fs::fcntl_get_seals(file)
                        .map_err(|_| ChannelError::Unsafe(UNSAFE))?;
                    if !seals.contains(rustix::fs::SealFlags::FUTURE_WRITE) {
                        return Err(ChannelError::Unsafe(UNSAFE));
                    }
                    let mapping = SharedMapping::to_read(file.as_fd())
                        .map_err(|errno| unmapped(file, errno))
                        .map_err(ChannelError::refused(UNSAFE))?;
                    let bytes = mapping.words().len() * size_of::<u64>();
                    let seen = see_made(&mapping, file.as_fd(), &mut self.invented_bytes);
                    let seen = AtomicUsize::new(seen);
                    self.segments.insert(id, Arc::new(Mapped { mapping, bytes, seen }));
                }
                (Some(b'-'), Some(id), None) => {
                    self.segments.remove(&id);
                }
                _ => return Err(ChannelError::Broken("it hands over what nobody asked for")),
            }
            self.messages.link.packets.files.pop_front();
        }
        Ok(())
    }

    /// To be called before the descriptor ([`AsFd`]) is polled for reading: it becomes readable once
    /// there is a message, or the sender is done or gone. True where that is so already.
    ///
    /// # Errors
    /// As of [`BufferReceiver::try_receive`].
    pub fn watch(&mut self) -> Result<bool, ChannelError> {
        self.release_forgotten()?;
        let there = self.messages.watch()?;
        if !there {
            self.ask();
        }
        // What is let go is unmapped even where no buffer comes any more.
        self.take_files()?;
        Ok(there)
    }

    /// Looks whether the sender is still there.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn look(&mut self) -> Result<(), ChannelError> {
        self.messages.link.notice_hang_up()
    }

    /// Whether more than half of the buffers that may be kept at once are: who keeps more of them, be they ever so
    /// small, copies them and gives them back, as the sender has no more of them at last.
    pub fn keeps_many(&self) -> bool {
        self.slots.as_ref().is_some_and(|slots| Arc::strong_count(slots) > SLOTS / 2)
    }

    /// Whether the other end ran on this CPU when it last told: spinning keeps it from going on then.
    pub fn shares_cpu(&mut self) -> bool {
        self.messages.link.shares_cpu()
    }

    /// Bytes of heads released, system calls made, and waits.
    pub fn meter(&self) -> &Meter {
        self.messages.meter()
    }
}

impl Drop for BufferReceiver {
    fn drop(&mut self) {
        if let Some(slots) = &self.slots {
            slots.hang_up();
        }
    }
}

polled!(BufferReceiver, messages);

impl Mapped {
    /// Has the pages of a range there: one call instead of a fault for every few of them. Without
    /// them it goes on all the same. It takes so many at the most, of which it leaves the rest.
    fn see(&self, range: &Range<usize>, unseen_bytes: &mut usize) {
        let seen = self.seen.load(Relaxed);
        let fresh = range.start.max(seen)..range.end;
        if fresh.is_empty() {
            return;
        }
        if let Some(left) = unseen_bytes.checked_sub(fresh.len()) {
            *unseen_bytes = left;
            let _ = self.mapping.populate_range(fresh.clone(), false);
        }
        self.seen.store(fresh.end, Relaxed);
    }
}

/// Has the pages there that the sender had when it handed the segment over, and keeps: an honest one had
/// them at the beginning. Up to where they are there then; what the file has by that which it had not is added
/// to what was invented.
fn see_made(mapping: &SharedMapping, file: BorrowedFd<'_>, invented_bytes: &mut usize) -> usize {
    let (mut seen, mut made) = (0, made_bytes(file));
    let all = made.min(size_of_val(mapping.words()));
    while seen < all && *invented_bytes < INVENTED_BYTES_MAX {
        let end = all.min(seen + MADE_BYTES_STEP);
        let _ = mapping.populate_range(seen..end, false);
        let now = made_bytes(file);
        *invented_bytes += now.saturating_sub(made);
        (seen, made) = (end, now);
    }
    seen
}

/// Bytes of the pages that a file in memory has. Where they are takes lseek(2), which waits while the
/// sender makes some (fallocate(2)).
fn made_bytes(file: BorrowedFd<'_>) -> usize {
    /// Of st_blocks, whatever the pages are.
    const BLOCK_BYTES: usize = 512;
    let blocks = rustix::fs::fstat(file).map_or(0, |found| found.st_blocks);
    usize::try_from(blocks).unwrap_or(0).saturating_mul(BLOCK_BYTES)
}

/// Where a message's buffers are.
fn places(bytes: SharedBytes<'_>) -> Result<Vec<Place>, ChannelError> {
    const SHORT: ChannelError =
        ChannelError::Broken("its message is shorter than what it tells of");
    if bytes.len() < COUNT_BYTES {
        return Err(SHORT);
    }
    let mut count = [0; COUNT_BYTES];
    bytes.range(0..COUNT_BYTES).copy_to(&mut count);
    let count = usize::try_from(u64::from_le_bytes(count)).map_err(|_| SHORT)?;
    let end = count.checked_mul(PLACE_BYTES).and_then(|end| end.checked_add(COUNT_BYTES));
    end.filter(|&end| end <= bytes.len()).ok_or(SHORT)?;
    let place = |at: usize| {
        let from = COUNT_BYTES + at * PLACE_BYTES;
        let mut place = [0; PLACE_BYTES];
        bytes.range(from..from + PLACE_BYTES).copy_to(&mut place);
        Place::understood(place)
    };
    Ok((0..count).map(place).collect())
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use rustix::fs::{MemfdFlags, SealFlags};

    use super::*;
    use crate::channel::BufferSender;

    /// Each has a segment to itself, of which there may be three.
    const BYTES: usize = 128 << 10;
    const MOST: usize = 448 << 10;

    fn pair() -> (BufferSender, BufferReceiver) {
        let (here, there) = Connection::pair().expect("a pair");
        let sender = here.buffer_sender(&Setup::default(), MOST).expect("a sender");
        (sender, there.buffer_receiver(&Setup::default()).expect("a receiver"))
    }

    /// Sends buffers that are all this byte.
    fn send(sender: &mut BufferSender, byte: u8, count: usize) {
        let drafts = (0..count).map(|_| {
            let mut draft = sender.try_lend(BYTES).expect("it lends").expect("memory");
            draft.space().copy_from(0, &[byte; BYTES]);
            draft
        });
        let mut drafts: Vec<_> = drafts.collect();
        assert!(sender.try_send(b"", &mut drafts).expect("it goes"));
    }

    #[test]
    fn a_ring_is_waited_for_until_it_is_offered_or_never_will_be() {
        let has_offered = |packets: &[&[u8]]| {
            let (here, there) = Connection::pair().expect("a pair");
            for packet in packets {
                here.say(packet, &[]).expect("it is said");
            }
            (there.has_offered_buffers(), {
                drop(here);
                there.has_offered_buffers()
            })
        };
        let hello = Hello::ours(Role::Sender, Flow::Buffers, 0).packet();
        let other_flow = Hello::ours(Role::Sender, Flow::Bytes, 0).packet();
        assert_eq!(has_offered(&[]), (false, true));
        assert_eq!(has_offered(&[&hello]), (false, true));
        assert_eq!(has_offered(&[&hello, b"an offer"]), (true, true));
        assert_eq!(has_offered(&[&other_flow]), (true, true));
        assert_eq!(has_offered(&[b"hello?"]), (true, true));
        assert_eq!(has_offered(&[&[7; 2 * PACKET_BYTES]]), (true, true));
    }

    #[test]
    fn a_message_that_could_not_be_taken_is_the_same_the_next_time() {
        let (mut sender, mut receiver) = pair();
        send(&mut sender, 1, 2);
        assert!(matches!(receiver.try_receive(), Ok(Buffers::Message(_))));
        send(&mut sender, 2, 2);
        let missing = receiver.segments.remove(&2).expect("the second buffer's");
        receiver.try_receive().map(drop).expect_err("a buffer is missing");
        // What would be lent out of the message is written over.
        send(&mut sender, 3, 1);
        receiver.segments.insert(2, missing);
        for (byte, count) in [(2, 2), (3, 1)] {
            let Ok(Buffers::Message(mut message)) = receiver.try_receive() else {
                panic!("it is there")
            };
            let buffers = message.take_buffers();
            assert_eq!(buffers.len(), count);
            for buffer in buffers {
                let mut bytes = vec![0; BYTES];
                buffer.bytes().copy_to(&mut bytes);
                assert!(bytes.iter().all(|&it| it == byte), "{} for {byte}", bytes[0]);
            }
        }
    }

    const SPARSE_BYTES: u64 = 1 << 30;

    /// A file with so many bytes of pages, at its end.
    fn sparse(own_bytes: usize) -> OwnedFd {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create(c"test", flags).expect("a memfd");
        rustix::fs::ftruncate(&file, SPARSE_BYTES).expect("no page");
        let end = SPARSE_BYTES - own_bytes as u64;
        rustix::io::pwrite(&file, &vec![1; own_bytes], end).expect("they are written");
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::FUTURE_WRITE)
            .expect("sealed");
        file
    }

    #[test]
    fn a_file_that_is_handed_over_again_and_again_has_nobody_make_ever_more_pages() {
        const OWN_BYTES: usize = 8 << 20;
        let file = sparse(OWN_BYTES);
        let (sender, mut receiver) = pair();
        for id in 100..130 {
            let packet = [b"file+", &[id, 0, 0, 0][..]].concat();
            sender.messages.link.say(&packet, Some(file.as_fd())).expect("it goes");
            let len = made_bytes(file.as_fd()) as u64;
            receiver
                .find(Place { segment: id.into(), slot: 0, from: 0, len })
                .expect("it is there");
        }
        let made = made_bytes(file.as_fd()) - OWN_BYTES;
        assert!(made <= INVENTED_BYTES_MAX + MADE_BYTES_STEP + UNSEEN_BYTES_MAX, "{made} bytes");
    }

    #[test]
    fn a_sender_has_nobody_make_many_more_pages_than_it_has() {
        const OWN_BYTES: u64 = 1 << 20;
        let file = sparse(OWN_BYTES as usize);
        let (mut sender, mut receiver) = pair();
        send(&mut sender, 1, 3);
        assert!(matches!(receiver.try_receive(), Ok(Buffers::Message(_))));
        let missed = (UNSEEN_BYTES_MAX - receiver.unseen_bytes, receiver.invented_bytes);
        assert_eq!(missed, (0, 0), "an honest one has them");
        sender.messages.link.say(b"file+\xff\0\0\0", Some(file.as_fd())).expect("it goes");
        for (len, more) in [(OWN_BYTES, 0), (3 << 20, 2 << 20), (SPARSE_BYTES, 2 << 20)] {
            let place = Place { segment: 0xff, slot: 0, from: 0, len };
            receiver.find(place).expect("it is there");
            assert_eq!(UNSEEN_BYTES_MAX - receiver.unseen_bytes, more, "of {len} bytes");
            let made = made_bytes(file.as_fd());
            assert!(made <= 2 * OWN_BYTES as usize + more, "{made} bytes were made");
        }
    }

    #[test]
    fn memory_of_the_pool_is_refused_whatever_it_is_for() {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let huge = MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
        let Ok(file) = rustix::fs::memfd_create(c"test", flags | huge) else {
            eprintln!("skipped: this kernel has no pool of 2 MiB pages");
            return;
        };
        rustix::fs::ftruncate(&file, 2 << 20).expect("a large page");
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::FUTURE_WRITE)
            .expect("sealed");
        for packet in [&b"file#"[..], b"file+\x07\0\0\0"] {
            let (sender, mut receiver) = pair();
            sender.messages.link.say(packet, Some(file.as_fd())).expect("it goes");
            receiver.messages.link.take_packets().expect("it comes");
            let refused = receiver.take_files();
            let Err(ChannelError::Unsafe(why)) = refused else { panic!("{refused:?}") };
            assert!(why.contains("pool"), "{why}");
        }
    }
}
