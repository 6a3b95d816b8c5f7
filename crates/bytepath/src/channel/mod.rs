//! Channels: bytes or messages from one process to another that both use bytepath, through memory
//! that both have mapped.
//!
//! ```
//! use bytepath::channel::{Connection, Setup};
//! use std::io::{Read, Write};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (here, there) = Connection::pair()?; // or Listener::bind, and Connection::connect elsewhere
//! let other = std::thread::spawn(move || {
//!     let mut receiver = there.receiver(&Setup::default()).expect("a sender");
//!     let mut text = String::new();
//!     receiver.read_to_string(&mut text).map(|_| text)
//! });
//! let mut sender = here.sender(&Setup::default())?;
//! sender.write_all(b"hello, ")?; // a copy into the ring; or without one:
//! let mut space = sender.space(5)?;
//! space.bytes().copy_from(0, b"world");
//! space.commit(5);
//! sender.wait_until_taken()?; // without it, nobody knows whether the receiver took all of it
//! sender.finish();
//! assert_eq!(other.join().expect("no panic")?, "hello, world");
//! # Ok(()) }
//! ```
//!
//! In an event loop, an end's descriptor is waited for as any other's (epoll(7); mio and tokio take it as
//! it is), to be readable, once the end's `watch` has said that there is nothing now:
//!
//! ```
//! use bytepath::channel::{Connection, MessageNow, Setup};
//! use rustix::buffer::spare_capacity;
//! use rustix::event::epoll;
//! use rustix::io::retry_on_intr;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (here, there) = Connection::pair()?;
//! # let other = std::thread::spawn(move || {
//! #     let mut sender = there.message_sender(&Setup::default()).expect("a receiver");
//! #     sender.send(b"hello").expect("it goes");
//! #     sender.finish();
//! # });
//! let mut receiver = here.message_receiver(&Setup::default())?;
//! let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
//! let data = epoll::EventData::new_u64(1);
//! epoll::add(&events, &receiver, data, epoll::EventFlags::IN)?;
//! let mut ready = Vec::with_capacity(8);
//! let mut messages = 0;
//! loop {
//!     let nothing = match receiver.try_receive()? {
//!         MessageNow::Message(_) => {
//!             messages += 1; // released where it is dropped
//!             false
//!         }
//!         MessageNow::Nothing => true,
//!         MessageNow::End => break,
//!     };
//!     // Where `watch` says true, something has come meanwhile.
//!     if nothing && !receiver.watch()? {
//!         // A signal, or a stop and its end, interrupts it.
//!         retry_on_intr(|| epoll::wait(&events, spare_capacity(&mut ready), None))?;
//!         ready.clear();
//!     }
//! }
//! assert_eq!(messages, 1);
//! # other.join().expect("no panic");
//! # Ok(()) }
//! ```
//!
//! The way of a byte: two ends meet at an [`Address`], or by a descriptor that one inherits, as a
//! [`Connection`]; they say what they are (`hello`); the sender makes memory that can be made neither
//! shorter nor longer and hands it over. From then on the sender writes to the ring, commits, and
//! wakes the receiver if that one sleeps (`ring`, `link`). The socket stays open: it tells each end
//! that the other is gone, wakes those who poll, and carries nothing else.
//!
//! A buffer that is there as a whole goes by descriptor instead, as a [`Parcel`]; or it stays where
//! it is, and the other end copies it from there, where the kernel permits that ([`MemoryOwner`]).
//! Messages go to many receivers at once from a [`Broadcast`]: from one ring, which all of them read.
//!
//! What an end may rely on, whatever the other one does, killed at any instant or hostile:
//! - A receiver gets every byte that was committed, then the end or an error; within 100 ms of the
//!   sender's death.
//! - A sender fails with the second piece after its receiver was dropped, and soon after one was killed,
//!   also where the ring has space; what it sent before may lie there unread.
//! - Neither reads or writes outside of the ring: the other's counts are read once and checked.
//! - Memory cannot be taken away: its seals and size are checked before it is mapped.
//! - Bytes may change as long as they are in the ring, if the other end is not to be trusted. So
//!   [`SharedBytes`] has them copied, given to the kernel, or seen as atomic words.
//! - A receiver of buffers makes no more than 144 MiB of pages that the sender has not, whatever that one
//!   hands over, and however often. Those of a buffer that has none come as it is read: where the sender is
//!   not to be trusted, look how long a buffer is first.
//! - A process that is forked has copies of the ends that are its parent's, who goes on with them; what
//!   it does with its copies, other than to drop them, disturbs both. Dropped, they tell the other end
//!   nothing. An end that a forked process is to have is made by it, of the [`Connection`].
//!
//! And where there are many receivers:
//! - What one of them does, the others need not trust. Each has a page of its own to write in; the
//!   ring and the sender's count are sealed against writing by anybody but the sender
//!   (F_SEAL_FUTURE_WRITE), and receivers refuse a ring that is not. So their bytes change only if the
//!   sender changes them.
//! - All have the same last message when the sender dies, for one count commits to all.
//! - A receiver that is killed, or that writes what cannot be into its page, is dropped, and holds
//!   nobody up for longer than 100 ms. One that stays and releases nothing holds the sender up for as
//!   long as it likes: a sender that cannot wait asks [`Broadcast::try_space`].
//! - A receiver can wake the sender for nothing, and cost it time so. Processes that may trace the
//!   sender (ptrace(2)) can do anything to it; [`Users::Same`] keeps out those of other users only.

/// What event loops wait for: the descriptor of one of an end's fields. A macro, as neither trait can
/// be given to every type that has the other, or a trait of ours.
macro_rules! polled {
    ($end:ty, $field:ident $(, $readable:literal)?) => {
        impl std::os::fd::AsFd for $end {
            $(#[doc = $readable])?
            fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
                std::os::fd::AsFd::as_fd(&self.$field)
            }
        }

        /// For event loops that take numbers.
        impl std::os::fd::AsRawFd for $end {
            fn as_raw_fd(&self) -> std::os::fd::RawFd {
                std::os::fd::AsRawFd::as_raw_fd(&std::os::fd::AsFd::as_fd(self))
            }
        }
    };
}

mod address;
mod audience;
mod broadcast;
mod buffers;
mod connection;
mod error;
mod hello;
mod link;
mod messages;
#[cfg(test)]
mod model;
mod packets;
mod parcel;
mod records;
mod ring;
mod setup;
mod stream;
mod visiting;

pub use crate::sys::shared_bytes::{SharedBytes, SharedSpace, SharedWord};
pub use address::Address;
pub use audience::{RECEIVERS_MAX, Receivers};
pub use broadcast::Broadcast;
pub use buffers::{
    Borrowed, BufferMessage, BufferReceiver, BufferSender, Buffers, Draft, OfferedBuffers,
};
pub use connection::{Connection, Listener};
pub use error::ChannelError;
pub use messages::{Message, MessageNow, MessageReceiver, MessageSender};
pub use parcel::{Parcel, SealedParcel};
pub use records::MessageSpace;
pub use setup::{Setup, Users};
pub use stream::{Filled, Now, Receiver, Sender, Space};
pub use visiting::{MemoryOwner, MemoryVisitor, ShownTo, Visit};

/// What the ring is made of; a model checker brings its own.
mod atomic {
    pub(super) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
}
