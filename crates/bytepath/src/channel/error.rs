//! How a channel comes to no good.

use rustix::io::Errno;

use crate::pages::PagesError;
use crate::size::shown;

/// Why a channel is not made, or goes no further.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChannelError {
    /// Nobody is at the address.
    #[error(
        "nobody listens at {address}: {}; start the other end first, with the same address",
        std::io::Error::from(*.errno)
    )]
    Absent {
        /// Where.
        address: String,
        /// The kernel's word.
        errno: Errno,
    },
    /// The address is taken.
    #[error("{0} is taken: somebody listens there; use another address")]
    Taken(String),
    /// The address is none.
    #[error("{address} is no address of a channel: {why}")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// The socket failed.
    #[error("{doing}: {}", std::io::Error::from(*.errno))]
    Socket {
        /// What was being done.
        doing: &'static str,
        /// The kernel's word.
        errno: Errno,
    },
    /// The other end belongs to somebody else.
    #[error(
        "the other end belongs to user {theirs}, this one to user {ours}: their channel is refused \
         unless any user is allowed"
    )]
    Stranger {
        /// Their user.
        theirs: u32,
        /// Ours.
        ours: u32,
    },
    /// There is no version that both ends speak.
    #[error(
        "the other end speaks versions {} to {} of the channel, this one {} to {}: use the same \
         bytepath at both ends",
        .theirs.0, .theirs.1, .ours.0, .ours.1
    )]
    Version {
        /// Their lowest and highest.
        theirs: (u16, u16),
        /// Ours.
        ours: (u16, u16),
    },
    /// The ends do not fit together.
    #[error("the ends do not fit together: {0}")]
    Mismatch(&'static str),
    /// Whoever is there does not speak as an end of a channel.
    #[error("the other end is no end of a channel: {0}")]
    Stray(&'static str),
    /// The other end hung up before the channel was made.
    #[error("the other end hung up first; it may have refused this one")]
    HungUp,
    /// The other end says nothing.
    #[error("the other end has said nothing for {0:?}")]
    Silent(std::time::Duration),
    /// There is no memory for the ring.
    #[error("no memory for the channel: {0}")]
    Memory(#[from] PagesError),
    /// The memory that the other end offers is not safe to use.
    #[error("the memory that the other end offers is refused: {0}")]
    Unsafe(&'static str),
    /// The other end refuses our memory.
    #[error("the other end refuses the memory offered: {0}")]
    Refused(&'static str),
    /// The ring is larger than the receiver takes.
    #[error(
        "a ring of {} is too large: the receiver takes {} at most, unless its own setup asks for \
         more; give both ends the same ring_bytes, or the sender fewer",
        shown(*.bytes), shown(*.most)
    )]
    TooLarge {
        /// Bytes of the ring.
        bytes: u64,
        /// How many the receiver takes, as far as this end knows.
        most: u64,
    },
    /// The sender has as many receivers as it takes.
    #[error("the sender has {most} receivers, and takes no more until one leaves")]
    Full {
        /// How many it takes.
        most: u64,
    },
    /// Fewer receivers came than were waited for.
    #[error("only {present} of {wished} receivers have come in {patience:?}")]
    Few {
        /// How many there are.
        present: usize,
        /// How many were waited for.
        wished: usize,
        /// How long.
        patience: std::time::Duration,
    },
    /// The other end is gone and had not said that it was done.
    #[error(
        "the other end is gone without a last word: it was ended, or gave up{}",
        until_then(*.passed, "passed on")
    )]
    Gone {
        /// Bytes that this end has passed on: committed, or released. None where it is messages that go.
        passed: Option<u64>,
    },
    /// The receiver wants no more.
    #[error("the receiver wants no more{}", until_then(*.passed, "sent"))]
    Closed {
        /// Bytes committed; the receiver need not have looked at all of them. None where it is messages that go.
        passed: Option<u64>,
    },
    /// The other end does what no end of a channel does.
    #[error("the other end is broken or hostile: {0}")]
    Broken(&'static str),
    /// The other process's memory may not be reached.
    #[error("the memory of process {process} cannot be reached: {why}")]
    Unreachable {
        /// The process; 0 where it has no number here.
        process: u32,
        /// What keeps this one from it.
        why: &'static str,
    },
    /// The memory that the other end shows is not there.
    #[error("the memory that the other end shows is not there from byte {at} on (EFAULT)")]
    NotThere {
        /// The first byte of it that is missing; those before may have been copied.
        at: u64,
    },
    /// A message that this channel cannot carry.
    #[error("a message of {bytes} bytes is too long: this channel carries at most {most}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The longest.
        most: usize,
    },
}

fn until_then(passed: Option<u64>, how: &str) -> String {
    passed.map_or_else(String::new, |bytes| format!("; {bytes} bytes were {how} until then"))
}

impl ChannelError {
    pub(super) fn socket(doing: &'static str) -> impl Fn(Errno) -> ChannelError {
        move |errno| ChannelError::Socket { doing, errno }
    }

    /// For memory of the other end's that cannot be mapped: it is not safe, unless there is no room for it.
    pub(super) fn refused(why: &'static str) -> impl Fn(PagesError) -> ChannelError {
        move |error| match error {
            PagesError::Map { errno: Errno::NOMEM | Errno::AGAIN, .. } => {
                ChannelError::Memory(error)
            }
            _ => ChannelError::Unsafe(why),
        }
    }
}

impl From<ChannelError> for std::io::Error {
    fn from(error: ChannelError) -> std::io::Error {
        use std::io::ErrorKind;
        let kind = match &error {
            ChannelError::Absent { .. } => ErrorKind::NotFound,
            ChannelError::Taken(_) => ErrorKind::AddrInUse,
            ChannelError::Address { .. } | ChannelError::TooLong { .. } => ErrorKind::InvalidInput,
            ChannelError::Socket { errno, .. } => std::io::Error::from(*errno).kind(),
            ChannelError::Stranger { .. } | ChannelError::Unreachable { .. } => {
                ErrorKind::PermissionDenied
            }
            ChannelError::Silent(_) | ChannelError::Few { .. } => ErrorKind::TimedOut,
            ChannelError::Full { .. } => ErrorKind::ConnectionRefused,
            ChannelError::Memory(_) => ErrorKind::OutOfMemory,
            ChannelError::Gone { .. } => ErrorKind::UnexpectedEof,
            ChannelError::Closed { .. } => ErrorKind::BrokenPipe,
            _ => ErrorKind::InvalidData,
        };
        std::io::Error::new(kind, error)
    }
}
