//! How a movement of bytes can end short: declined, failed, cancelled; each with its reason.

use std::borrow::Cow;
use std::fmt;

use rustix::io::Errno;

use crate::transfer::Gave;

/// Which end of a movement an error belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The reading end.
    Source,
    /// The writing end.
    Sink,
    /// The kernel moved the bytes itself and its answer does not tell which end refused.
    Either,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Source => "reading",
            Side::Sink => "writing",
            Side::Either => "moving",
        })
    }
}

/// Why a mechanism is not used for a job: the reason, and what would change it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What stands in the way, as a clause: "copy_file_range needs two files".
    pub reason: Cow<'static, str>,
    /// The kernel's word, where the kernel was asked.
    pub errno: Option<Errno>,
    /// What to try instead, where there is something.
    pub remedy: Option<Cow<'static, str>>,
}

impl Refusal {
    /// A refusal by rule: nothing was asked of the kernel.
    pub fn because(reason: impl Into<Cow<'static, str>>) -> Self {
        Refusal { reason: reason.into(), errno: None, remedy: None }
    }

    /// A refusal by the kernel.
    pub fn errno(reason: impl Into<Cow<'static, str>>, errno: Errno) -> Self {
        Refusal { reason: reason.into(), errno: Some(errno), remedy: None }
    }

    /// The same refusal with what to try.
    #[must_use]
    pub fn remedy(mut self, remedy: impl Into<Cow<'static, str>>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        if let Some(errno) = self.errno {
            write!(f, ": {}", Word(errno))?;
        }
        match &self.remedy {
            Some(remedy) => write!(f, "; {remedy}"),
            None => Ok(()),
        }
    }
}

/// A movement that no route could have carried on: the kernel's word at one end.
#[derive(Clone)]
pub struct Failed {
    /// The route, outlet or inlet that was at work.
    pub route: &'static str,
    /// The end that failed.
    pub side: Side,
    /// The system call that said so.
    pub call: &'static str,
    /// Its errno.
    pub errno: Errno,
    /// Bytes that the sink had taken when it happened, counted from the start of the transfer.
    pub offset: u64,
    /// Bytes taken from the source that the sink did not take. Empty where the source could be
    /// set back, so that reading it again gives them.
    pub stranded: Vec<u8>,
    /// Routes of the transfer that gave up before, in order.
    pub declined: Vec<Gave>,
}

impl Failed {
    /// A failure at `offset`, nothing stranded.
    pub fn new(route: &'static str, side: Side, call: &'static str, errno: Errno) -> Self {
        let (stranded, declined) = (Vec::new(), Vec::new());
        Failed { route, side, call, errno, offset: 0, stranded, declined }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} failed at byte {} (route {}, {}): {}",
            self.side,
            self.offset,
            self.route,
            self.call,
            Word(self.errno)
        )?;
        if !self.stranded.is_empty() {
            write!(
                f,
                "; {} bytes could not be written: they are in the error",
                self.stranded.len()
            )?;
        }
        match hint(self.errno, self.side) {
            Some(hint) => write!(f, "; {hint}"),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Failed { route, side, call, errno, offset, stranded, declined } = self;
        f.debug_struct("Failed")
            .field("route", route)
            .field("side", side)
            .field("call", call)
            .field("errno", errno)
            .field("offset", offset)
            .field("stranded", &Count(stranded))
            .field("declined", declined)
            .finish()
    }
}

/// Shows how many bytes there are, as they may be MiB.
pub(crate) struct Count<'a>(pub(crate) &'a [u8]);

impl fmt::Debug for Count<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}

impl std::error::Error for Failed {}

/// How a route, outlet or inlet ended without having done all of its work.
#[derive(Clone)]
#[non_exhaustive]
pub enum Stop {
    /// The kernel refuses this mechanism for this pair; another may go on from the byte reached.
    /// Nothing is in flight.
    Declined(Refusal),
    /// Any mechanism would fail.
    Failed(Failed),
    /// The caller asked to stop.
    Cancelled {
        /// Bytes taken from a source that cannot be set back, and not yet delivered.
        stranded: Vec<u8>,
    },
}

impl Stop {
    /// The same, told as this route's: another did a part of its work.
    pub(crate) fn of_route(self, route: &'static str) -> Stop {
        match self {
            Stop::Failed(failed) => Stop::Failed(Failed { route, ..failed }),
            stop => stop,
        }
    }
}

impl fmt::Debug for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Declined(refusal) => f.debug_tuple("Declined").field(refusal).finish(),
            Stop::Failed(failed) => f.debug_tuple("Failed").field(failed).finish(),
            Stop::Cancelled { stranded } => {
                f.debug_struct("Cancelled").field("stranded", &Count(stranded)).finish()
            }
        }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Stop::Declined(refusal) => write!(f, "declined: {refusal}"),
            Stop::Failed(failed) => failed.fmt(f),
            Stop::Cancelled { stranded } if stranded.is_empty() => f.write_str("cancelled"),
            Stop::Cancelled { stranded } => {
                write!(f, "cancelled; {} bytes were not written", stranded.len())
            }
        }
    }
}

impl std::error::Error for Stop {}

/// Shows an errno by its text and number, as in "No space left on device (os error 28)".
pub(crate) struct Word(pub(crate) Errno);

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        std::io::Error::from(self.0).fmt(f)
    }
}

/// The likely cause and what to try, for the errors that people meet.
fn hint(errno: Errno, side: Side) -> Option<&'static str> {
    Some(match errno {
        Errno::NOSPC => "the file system is full: free some space, or write elsewhere",
        Errno::DQUOT => "your disk quota is used up: free some space, or write elsewhere",
        Errno::FBIG => {
            "the file would pass a size limit: raise yours (ulimit -f), or write to a file system \
             that takes larger files"
        }
        Errno::PIPE => "the reader of the sink is gone",
        Errno::CONNRESET => "the peer closed the connection with bytes still under way",
        Errno::IO => "the device or file system reports a fault: look at the kernel's log (dmesg)",
        Errno::BADF if side == Side::Source => "the source is closed, or not open for reading",
        Errno::BADF if side == Side::Sink => "the sink is closed, or not open for writing",
        Errno::ISDIR => "a directory cannot be moved as bytes: name a file in it",
        Errno::PERM if side == Side::Sink => {
            "the file may be sealed, append-only or immutable (lsattr), or a sandbox refuses it"
        }
        // Seldom anything else: reading and writing take any place, length and memory as a rule.
        Errno::INVAL if side != Side::Either => {
            "if it was opened with O_DIRECT, place and length have to be multiples of its blocks: open \
             it without"
        }
        Errno::MSGSIZE if side != Side::Source => {
            "the sink makes a message of each write and takes none so large: use a smaller chunk"
        }
        Errno::ROFS => "the file system is mounted read-only",
        Errno::STALE => "the file on the server was replaced or removed",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_side_offset_route_word_and_remedy() {
        let failed =
            Failed { offset: 4096, ..Failed::new("splice", Side::Sink, "splice", Errno::NOSPC) };
        assert_eq!(
            failed.to_string(),
            "writing failed at byte 4096 (route splice, splice): No space left on device (os error \
             28); the file system is full: free some space, or write elsewhere"
        );
    }

    #[test]
    fn a_refusal_says_reason_word_and_remedy() {
        let refusal = Refusal::errno("cannot set the pipe to 4 MiB", Errno::PERM)
            .remedy("use --pipe-size 1M");
        assert_eq!(
            refusal.to_string(),
            "cannot set the pipe to 4 MiB: Operation not permitted (os error 1); use --pipe-size 1M"
        );
    }
}
