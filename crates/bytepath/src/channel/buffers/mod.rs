//! Messages with buffers: the head of a message is copied, and each buffer is read where the sender
//! wrote it, for as long as the receiver keeps it.
//!
//! ```
//! use bytepath::channel::{Buffers, Connection, Setup};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (here, there) = Connection::pair()?;
//! let mut sender = here.buffer_sender(&Setup::default(), 64 << 20)?; // does not wait for the other
//! let mut draft = sender.try_lend(1 << 20)?.expect("memory");
//! draft.space().copy_from(0, &[7; 1 << 20]);
//! assert!(sender.try_send(b"a picture", &mut vec![draft])?);
//!
//! let mut receiver = there.buffer_receiver(&Setup::default())?;
//! let Buffers::Message(mut message) = receiver.try_receive()? else { panic!("it was sent") };
//! assert_eq!(message.head().len(), 9);
//! let picture = message.take_buffers().remove(0);
//! assert_eq!(picture.bytes().len(), 1 << 20); // the sender's own pages
//! drop(picture); // its memory is the sender's again
//! # Ok(()) }
//! ```
//!
//! Heads go through a ring, as messages do. Buffers lie in segments: memory that only the sender can
//! write, each handed over once, as a descriptor that comes before the first message that names it.
//! A table of words that both ends write (`slots`) tells which buffers the receiver has given back, in
//! any order. So memory is used again while it is warm, and its pages are made once.
//!
//! Costs a buffer one copy into its segment, a word in the message's table, a word when it comes back;
//! no system call, unless a segment is made or an end sleeps.
//!
//! The receiver's mapping of a segment cannot be written. The sender's can: one that is hostile may
//! change a buffer while it is looked at, so it is seen as
//! [`SharedBytes`](super::SharedBytes), or by pointer. It cannot take the memory away, and a message that names what is no part of a segment is refused.

mod depot;
mod receiver;
mod segments;
mod sender;
mod slots;

pub use depot::Draft;
pub use receiver::{Borrowed, BufferMessage, BufferReceiver, Buffers, OfferedBuffers};
pub use sender::BufferSender;

/// Where a buffer is, as a message tells it: 24 bytes, little-endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    segment: u32,
    slot: u32,
    from: u64,
    len: u64,
}

const PLACE_BYTES: usize = 24;

/// Before the places, how many there are, in a word.
const COUNT_BYTES: usize = 8;

impl Place {
    fn bytes(self) -> [u8; PLACE_BYTES] {
        let mut bytes = [0; PLACE_BYTES];
        bytes[..4].copy_from_slice(&self.segment.to_le_bytes());
        bytes[4..8].copy_from_slice(&self.slot.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.from.to_le_bytes());
        bytes[16..].copy_from_slice(&self.len.to_le_bytes());
        bytes
    }

    fn understood(bytes: [u8; PLACE_BYTES]) -> Place {
        let [first, from, len] = [0, 8, 16].map(|at| {
            let word = bytes[at..].first_chunk().copied().unwrap_or_default();
            u64::from_le_bytes(word)
        });
        Place { segment: first as u32, slot: (first >> 32) as u32, from, len }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::{ChannelError, Connection, Setup};
    use crate::pages::PageSize;

    #[test]
    fn a_place_is_understood_as_it_was_told() {
        let place = Place { segment: 7, slot: u32::MAX, from: 1 << 40, len: 3 };
        assert_eq!(Place::understood(place.bytes()), place);
    }

    /// Both ends, after a buffer of 100 bytes that came back.
    fn pair() -> (BufferSender, BufferReceiver) {
        let setup = Setup { ring_bytes: 4096, pages: PageSize::Base, ..Setup::default() };
        let (here, there) = Connection::pair().expect("a pair");
        let mut sender = here.buffer_sender(&setup, 16 << 20).expect("a sender");
        let mut receiver = there.buffer_receiver(&setup).expect("a receiver");
        let draft = sender.try_lend(100).expect("it lends").expect("memory");
        assert!(sender.try_send(b"", &mut vec![draft]).expect("it goes"));
        assert!(matches!(receiver.try_receive(), Ok(Buffers::Message(_))));
        (sender, receiver)
    }

    #[test]
    fn a_receiver_is_told_when_it_keeps_many_whatever_their_size() {
        let (mut sender, mut receiver) = pair();
        let mut kept = Vec::new();
        while !receiver.keeps_many() {
            let draft = sender.try_lend(1).expect("it lends").expect("there are more");
            assert!(sender.try_send(b"", &mut vec![draft]).expect("it goes"));
            let Ok(Buffers::Message(mut message)) = receiver.try_receive() else {
                panic!("it is there")
            };
            kept.append(&mut message.take_buffers());
        }
        assert!(sender.try_lend(1).expect("it lends").is_some());
        kept.pop();
        assert!(!receiver.keeps_many());
    }

    #[test]
    fn a_message_that_tells_of_what_was_never_handed_over_is_refused() {
        let honest = Place { segment: 1, slot: 0, from: 0, len: 100 };
        let lies = [
            Place { segment: 9, ..honest },
            Place { slot: 4096, ..honest },
            Place { from: 16 << 20, ..honest },
            Place { from: u64::MAX, ..honest },
            Place { len: u64::MAX, ..honest },
        ];
        for place in lies {
            let (mut sender, mut receiver) = pair();
            let forged = [&1_u64.to_le_bytes()[..], &place.bytes()].concat();
            sender.messages.send(&forged).expect("it goes");
            let refused = receiver.try_receive();
            assert!(matches!(refused, Err(ChannelError::Broken(_))), "{place:?}: {refused:?}");
        }
        for count in [1, 7, u64::MAX] {
            let (mut sender, mut receiver) = pair();
            sender.messages.send(&count.to_le_bytes()).expect("it goes");
            assert!(matches!(receiver.try_receive(), Err(ChannelError::Broken(_))), "{count}");
        }
        let (mut sender, mut receiver) = pair();
        sender.messages.send(b"short").expect("it goes");
        assert!(matches!(receiver.try_receive(), Err(ChannelError::Broken(_))));
    }
}
