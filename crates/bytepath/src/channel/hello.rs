//! What the ends say to each other before there is a ring: who they are, and where it is.
//!
//! Packets of little-endian numbers. A hello begins with the same 12 bytes in every version, so that
//! ends of any two versions understand each other well enough to say that they do not.

use super::error::ChannelError;

/// Versions of the ring that this bytepath speaks, the lowest and the highest.
const VERSIONS: (u16, u16) = (2, 2);

/// Packets are no longer.
pub(super) const PACKET_BYTES: usize = 64;

const MAGIC: [u8; 8] = *b"bytepath";

/// What flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Bytes = 1,
    Messages = 2,
    /// Messages, and beside the ring the buffers that come with them.
    Buffers = 4,
    /// Nothing: one end reaches the other's memory.
    Memory = 8,
}

/// Which end it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Sender = 1,
    Receiver = 2,
}

/// The end takes memory from the pool of huge pages.
pub(super) const TAKES_HUGETLB: u32 = 1;

/// What each end says first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) versions: (u16, u16),
    pub(super) role: Role,
    pub(super) flow: Flow,
    pub(super) takes: u32,
}

impl Hello {
    /// This bytepath's.
    pub(super) fn ours(role: Role, flow: Flow, takes: u32) -> Hello {
        Hello { versions: VERSIONS, role, flow, takes }
    }

    pub(super) fn packet(&self) -> Vec<u8> {
        let mut packet = MAGIC.to_vec();
        packet.extend(self.versions.0.to_le_bytes());
        packet.extend(self.versions.1.to_le_bytes());
        packet.extend([self.role as u8, self.flow as u8, 0, 0]);
        packet.extend(self.takes.to_le_bytes());
        packet
    }

    /// Whether a packet is one, of whatever version.
    pub(super) fn is(packet: &[u8]) -> bool {
        packet.starts_with(&MAGIC)
    }

    /// Reads what the other end says, as far as this version knows it; what both can then speak.
    pub(super) fn understood(&self, packet: &[u8]) -> Result<Agreed, ChannelError> {
        let stray = || ChannelError::Stray("it says something else first");
        let theirs = packet.strip_prefix(&MAGIC).ok_or_else(stray)?;
        let [a, b, c, d, rest @ ..] = theirs else { return Err(stray()) };
        let versions = (u16::from_le_bytes([*a, *b]), u16::from_le_bytes([*c, *d]));
        let version = self.versions.1.min(versions.1);
        if version < self.versions.0.max(versions.0) {
            return Err(ChannelError::Version { theirs: versions, ours: self.versions });
        }
        let [role, flow, _, _, takes @ ..] = rest else { return Err(stray()) };
        let takes = takes.first_chunk().map(|takes| u32::from_le_bytes(*takes));
        self.fits(*role, *flow)?;
        Ok(Agreed { version, takes: takes.ok_or_else(stray)? & self.takes })
    }

    fn fits(&self, role: u8, flow: u8) -> Result<(), ChannelError> {
        match (self.role, role) {
            (Role::Sender, 2) | (Role::Receiver, 1) => {}
            (Role::Sender, 1) => return Err(ChannelError::Mismatch("both send")),
            (Role::Receiver, 2) => return Err(ChannelError::Mismatch("both receive")),
            _ => return Err(ChannelError::Stray("it neither sends nor receives")),
        }
        match (self.flow, flow) {
            (ours, theirs) if ours as u8 == theirs => Ok(()),
            (Flow::Bytes, 2) | (Flow::Messages, 1) => {
                Err(ChannelError::Mismatch("one passes bytes, the other messages"))
            }
            (Flow::Buffers, 1 | 2 | 8) | (_, 4) => {
                Err(ChannelError::Mismatch("one passes messages with buffers, the other does not"))
            }
            (Flow::Memory, 1 | 2) | (Flow::Bytes | Flow::Messages, 8) => {
                Err(ChannelError::Mismatch("one passes on, the other visits or is visited"))
            }
            _ => Err(ChannelError::Stray("it passes neither bytes nor messages")),
        }
    }
}

/// What both ends speak.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Agreed {
    pub(super) version: u16,
    pub(super) takes: u32,
}

/// What the sender says beside the descriptors of the memory: the ring's, and of one sender's to many
/// also that of the page that the receiver writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Offer {
    pub(super) version: u16,
    pub(super) ring_bytes: u64,
    /// Bytes that went through the ring before; what follows is for the receiver.
    pub(super) begins: u64,
}

/// Counts never come so far, so nothing that is added to them overflows.
const BEGINS_MAX: u64 = 1 << 62;

impl Offer {
    pub(super) fn packet(&self) -> Vec<u8> {
        let mut packet = u64::from(self.version).to_le_bytes().to_vec();
        packet.extend(self.ring_bytes.to_le_bytes());
        packet.extend(self.begins.to_le_bytes());
        packet
    }

    pub(super) fn understood(packet: &[u8]) -> Result<Offer, ChannelError> {
        let number = |at: usize| packet.get(at..)?.first_chunk().map(|n| u64::from_le_bytes(*n));
        if packet.starts_with(FULL) {
            let most = number(FULL.len()).unwrap_or(0);
            return Err(ChannelError::Full { most });
        }
        let version = number(0).and_then(|version| u16::try_from(version).ok());
        let begins = number(16).filter(|&begins| begins <= BEGINS_MAX);
        let offer = version.zip(number(8)).zip(begins);
        let ((version, ring_bytes), begins) =
            offer.ok_or(ChannelError::Stray("its offer is no offer"))?;
        Ok(Offer { version, ring_bytes, begins })
    }
}

/// What a sender says in the place of an offer when it has as many receivers as it takes; their
/// number follows.
const FULL: &[u8] = b"is full:";

pub(super) fn full(most: usize) -> Vec<u8> {
    [FULL, &(most as u64).to_le_bytes()].concat()
}

/// A receiver takes rings of this size even if its own setup names a smaller one. A larger one could
/// be there to use up its memory.
pub(super) const RING_BYTES_TAKEN: usize = 64 << 20;

/// The receiver's answers to an offer.
pub(super) const TAKEN: &[u8] = b"taken";
pub(super) const REFUSED: &[u8] = b"refused";
/// It would take it, and has no room for it.
const NO_ROOM: &[u8] = b"no room";

/// What a receiver answers that cannot take an offer because of this.
pub(super) fn refusal(error: &ChannelError) -> &'static [u8] {
    match error {
        ChannelError::Memory(_) | ChannelError::Socket { .. } => NO_ROOM,
        _ => REFUSED,
    }
}

/// Why the receiver does not take the offer of a ring of so many bytes, if that is its answer.
pub(super) fn check_taken(answer: &[u8], ring_bytes: usize) -> Result<(), ChannelError> {
    match answer {
        // Its own limit may be higher, which it does not tell.
        REFUSED if ring_bytes > RING_BYTES_TAKEN => {
            Err(ChannelError::TooLarge { bytes: ring_bytes as u64, most: RING_BYTES_TAKEN as u64 })
        }
        REFUSED => Err(ChannelError::Refused("it is not what that end can use")),
        NO_ROOM => Err(ChannelError::Refused(
            "that end had no memory, addresses or descriptors for the ring; free some there, raise \
             its limit (ulimit -v, ulimit -n), or make the ring smaller here",
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ours() -> Hello {
        Hello::ours(Role::Sender, Flow::Bytes, TAKES_HUGETLB)
    }

    #[test]
    fn ends_of_one_version_agree_on_what_both_take() {
        for takes in [0, TAKES_HUGETLB, u32::MAX] {
            let theirs = Hello::ours(Role::Receiver, Flow::Bytes, takes).packet();
            let agreed = Agreed { version: VERSIONS.1, takes: takes & TAKES_HUGETLB };
            assert_eq!(ours().understood(&theirs).expect("agreed"), agreed);
        }
    }

    #[test]
    fn a_later_version_that_still_speaks_ours_is_understood_whatever_else_it_says() {
        let later =
            Hello { versions: (VERSIONS.1, 9), ..Hello::ours(Role::Receiver, Flow::Bytes, 0) };
        let mut packet = later.packet();
        packet.extend([7; 20]);
        assert_eq!(ours().understood(&packet).expect("agreed").version, VERSIONS.1);
        let alien = Hello { versions: (VERSIONS.1 + 1, 9), ..later };
        let error = ours().understood(&alien.packet()[..12]).unwrap_err();
        assert!(error.to_string().contains("versions 3 to 9"), "{error}");
    }

    #[test]
    fn ends_that_do_not_fit_say_why() {
        let said = |role, flow| {
            let theirs = Hello::ours(role, flow, 0).packet();
            ours().understood(&theirs).unwrap_err().to_string()
        };
        assert!(said(Role::Sender, Flow::Bytes).contains("both send"));
        assert!(said(Role::Receiver, Flow::Messages).contains("the other messages"));
    }

    #[test]
    fn no_packet_is_too_strange() {
        let whole = Hello::ours(Role::Receiver, Flow::Bytes, 0).packet();
        for len in 0..whole.len() {
            assert!(ours().understood(&whole[..len]).is_err(), "{len} bytes");
        }
        for len in 0..24 {
            assert!(Offer::understood(&vec![0; len]).is_err(), "{len} bytes");
        }
        let far = Offer { version: VERSIONS.1, ring_bytes: 4096, begins: BEGINS_MAX };
        assert_eq!(Offer::understood(&far.packet()).expect("an offer"), far);
        for begins in [BEGINS_MAX + 1, u64::MAX] {
            assert!(Offer::understood(&Offer { begins, ..far }.packet()).is_err(), "{begins}");
        }
        assert!(Offer::understood(&[0xff; 24]).is_err());
        let crowded = Offer::understood(&full(7));
        assert!(matches!(crowded, Err(ChannelError::Full { most: 7 })));
    }
}
