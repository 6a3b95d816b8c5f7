//! One sink of many: how it is served, and what it has by now.

use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

use super::Served;
use crate::endpoint::{Blocking, Endpoint, Kind};
use crate::routes::MESSAGE_BYTES;
use crate::wait::{Cancel, poll};

/// How bytes reach a sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// References to pages, by tee(2): a pipe.
    Tee,
    /// By splice(2): a file.
    Splice,
    /// Not at all: /dev/null.
    Drop,
    /// By write(2).
    Write,
}

impl Way {
    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Tee => "tee",
            Way::Splice => "splice",
            Way::Drop => "drop",
            Way::Write => "write",
        }
    }
}

/// Who may end a wait.
#[derive(Clone, Copy, Default)]
pub(super) struct Cancels<'c> {
    /// A thread of ours.
    pub(super) ours: Option<&'c Cancel>,
    /// Whoever started this.
    pub(super) callers: Option<&'c Cancel>,
}

impl<'c> Cancels<'c> {
    fn all(self) -> impl Iterator<Item = &'c Cancel> {
        self.ours.into_iter().chain(self.callers)
    }

    pub(super) fn are_asked(self) -> bool {
        self.all().any(Cancel::is_cancelled)
    }

    /// What wakes who polls.
    pub(super) fn wakes(self) -> impl Iterator<Item = PollFd<'c>> {
        self.all().filter_map(Cancel::wakes).map(|it| PollFd::from_borrowed_fd(it, PollFlags::IN))
    }

    /// The last of them, which a process that was forked may have a copy of.
    pub(super) fn outermost(self) -> Option<&'c Cancel> {
        self.callers.or(self.ours)
    }
}

/// See the module.
pub(super) struct Sink<'a> {
    pub(super) end: Option<&'a Endpoint<'a>>,
    pub(super) way: Way,
    /// How many bytes it has of those that are taken from the source and held for the others.
    pub(super) ahead: usize,
    bytes: u64,
    refused: Option<(&'static str, Errno)>,
    lost: Option<Errno>,
}

impl<'a> Sink<'a> {
    pub(super) fn new(end: Option<&'a Endpoint<'a>>) -> Self {
        let way = match end {
            Some(end) => match end.kind() {
                Kind::Pipe => Way::Tee,
                // splice(2) refuses O_APPEND for files.
                Kind::File | Kind::BlockDevice if !end.appends() => Way::Splice,
                Kind::Null => Way::Drop,
                _ => Way::Write,
            },
            None => Way::Write,
        };
        Sink { end, way, ahead: 0, bytes: 0, refused: None, lost: None }
    }

    /// As [`Sink::new`], for one that gets its bytes from memory.
    pub(super) fn written(end: Option<&'a Endpoint<'a>>) -> Self {
        let sink = Sink::new(end);
        let way = if sink.way == Way::Drop { Way::Drop } else { Way::Write };
        Sink { way, ..sink }
    }

    pub(super) fn is_live(&self) -> bool {
        self.lost.is_none()
    }

    pub(super) fn lose(&mut self, errno: Errno) {
        self.lost = Some(errno);
    }

    /// Counts bytes that it took.
    pub(super) fn took(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
    }

    /// Is written to from now on.
    pub(super) fn refuse(&mut self, errno: Errno) {
        self.refused = Some((self.way.name(), errno));
        self.way = Way::Write;
    }

    /// Writes all of it, however long it takes; until it is cancelled, which is told as ECANCELED.
    pub(super) fn write_all(&mut self, bytes: &[u8], cancels: Cancels<'_>) -> Result<(), Errno> {
        let end = self.end.ok_or(Errno::BADF)?;
        let most = if end.makes_messages() { MESSAGE_BYTES } else { usize::MAX };
        let mut rest = bytes;
        while !rest.is_empty() {
            if cancels.are_asked() {
                return Err(Errno::CANCELED);
            }
            let block = Blocking::unless(cancels.outermost().is_some());
            match end.write_some(&rest[..rest.len().min(most)], block) {
                // Linux never answers a write of some bytes with 0 unless the device is full.
                Ok(0) => return Err(Errno::NOSPC),
                Ok(count) => {
                    self.took(count);
                    rest = &rest[count..];
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait_for_room(end, cancels),
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// What became of it, where the source gave pages last, or did not.
    pub(super) fn served(&self, pages: bool) -> Served {
        let Sink { bytes, refused, lost, .. } = *self;
        let way = if pages || self.way == Way::Drop { self.way } else { Way::Write };
        Served { bytes, way: way.name(), refused, lost }
    }
}

/// Sleeps until a sink may take bytes, or until it is cancelled. An interruption is as good as an
/// answer: the call that follows is tried again.
pub(super) fn wait_for_room(end: &Endpoint<'_>, cancels: Cancels<'_>) {
    let room = PollFd::from_borrowed_fd(end.as_fd(), PollFlags::OUT);
    let mut fds = [room.clone(), room.clone(), room];
    let mut count = 1;
    for wakes in cancels.wakes() {
        fds[count] = wakes;
        count += 1;
    }
    let _ = poll(&mut fds[..count], cancels.outermost());
}
