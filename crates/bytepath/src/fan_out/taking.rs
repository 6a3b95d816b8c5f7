//! What the source gives: into a pipe of our own, into the buffer, or straight to the only sink.

use std::os::fd::{AsFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use super::lockstep::Lockstep;
use super::sink::{Cancels, Way, wait_for_room};
use super::{Ending, Readers};
use crate::endpoint::{Blocking, Endpoint, Kind};
use crate::routes::SLICE_BYTES_MAX;

/// Where the bytes are that the source gave.
pub(super) enum Taken {
    /// In the reservoir.
    Held(usize),
    /// In the buffer.
    Read(usize),
}

impl Lockstep<'_> {
    /// The next bytes of the source.
    pub(super) fn take(&mut self) -> Result<Taken, Ending> {
        while self.splices && self.takes_pages() {
            if self.reservoir.is_none() {
                match self.pair() {
                    Ok(pair) => self.reservoir = Some(pair),
                    Err(_) => break,
                }
            }
            let Some(pair) = &self.reservoir else { break };
            match splice(self.source.as_fd(), pair.writer.as_fd(), pair.bytes, self.flags()) {
                Ok(0) => self.ended()?,
                Ok(count) => return Ok(Taken::Held(count)),
                Err(Errno::AGAIN) => self.wait_for_source()?,
                // Whatever it was, reading gets through or tells it.
                Err(_) => self.splices = false,
            }
        }
        self.read().map(Taken::Read)
    }

    /// Whether what is held can be given away by reference.
    fn takes_pages(&self) -> bool {
        let mut live = self.sinks.iter().filter(|sink| sink.is_live());
        live.any(|sink| sink.way != Way::Write) && (self.tees || self.live() == 1)
    }

    /// splice(2) gave 0. That is the end of a pipe; of files, some of /proc claim to be empty.
    fn ended(&mut self) -> Result<(), Ending> {
        if self.source.kind() == Kind::Pipe {
            return Err(Ending::SourceEnded);
        }
        self.splices = false;
        Ok(())
    }

    fn read(&mut self) -> Result<usize, Ending> {
        self.peeked = 0;
        self.have_buffer();
        let block = Blocking::unless(self.readers == Readers::Watched || self.cancel.is_some());
        loop {
            match self.source.read_some(&mut self.buffer, block) {
                Ok(0) => return Err(Ending::SourceEnded),
                Ok(count) => return Ok(count),
                Err(Errno::INTR) => self.any_left()?,
                Err(Errno::AGAIN) => self.wait_for_source()?,
                Err(errno) => return Err(Ending::ReadFailed(errno)),
            }
        }
    }

    /// The only sink that is left, if the source's bytes can go to it without a pipe of ours.
    ///
    /// /dev/null is no such: dropping a page takes longer than handing it on, and the lock of the
    /// source is held meanwhile.
    pub(super) fn straight_sink(&self) -> Option<usize> {
        if !self.splices || self.live() != 1 {
            return None;
        }
        let only = self.sinks.iter().position(|sink| sink.is_live())?;
        let pipes = self.source.kind() == Kind::Pipe || self.sinks[only].way == Way::Tee;
        (pipes && matches!(self.sinks[only].way, Way::Tee | Way::Splice)).then_some(only)
    }

    /// One call from the source to the only sink.
    pub(super) fn straight(&mut self, only: usize) -> Result<(), Ending> {
        let Some(end) = self.sinks[only].end else { return Ok(()) };
        let most = chunk(self.sinks[only].way);
        match splice(self.source.as_fd(), end.as_fd(), most, self.flags()) {
            Ok(0) => self.ended()?,
            Ok(count) => {
                (self.spliced, self.handed_on) = (true, true);
                self.sinks[only].took(count);
                self.came(count);
            }
            // Looked for before the source is: a reader that left at the end misses nothing.
            Err(Errno::PIPE) if self.source.has_ended() => return Err(Ending::SourceEnded),
            Err(Errno::PIPE) => self.lose(only, Errno::PIPE)?,
            Err(Errno::AGAIN) => {
                self.wait_for_source()?;
                if self.sinks[only].is_live() {
                    wait_for_room(end, self.cancels());
                }
            }
            // Which end it was shows when the bytes are read and written.
            Err(errno) => self.sinks[only].refuse(errno),
        }
        Ok(())
    }

    /// Sleeps until the source has bytes or is at its end, or, where readers are watched, until one
    /// has left.
    fn wait_for_source(&mut self) -> Result<(), Ending> {
        let watches = self.readers == Readers::Watched;
        let watched = self.sinks.iter().enumerate();
        let watched = watched.filter(|(_, sink)| watches && sink.is_live());
        let watched: Vec<_> =
            watched.filter_map(|(place, sink)| Some((place, sink.end?))).collect();
        for place in wait_for_source(self.source, &watched, self.cancels()) {
            self.lose(place, Errno::PIPE)?;
        }
        self.any_left()
    }

    /// Only pipes can be told not to sleep; a sink that is one as well.
    fn flags(&self) -> SpliceFlags {
        let watched = self.readers == Readers::Watched && self.source.kind() == Kind::Pipe;
        crate::routes::nonblock_if(watched || self.cancel.is_some())
    }
}

/// How much a sink is given by one call.
pub(super) fn chunk(way: Way) -> usize {
    if way == Way::Splice { crate::routes::FILE_WRITE_BYTES } else { SLICE_BYTES_MAX }
}

/// splice(2), again where a signal interrupted it.
pub(super) fn splice(
    source: BorrowedFd<'_>,
    sink: BorrowedFd<'_>,
    most: usize,
    flags: SpliceFlags,
) -> Result<usize, Errno> {
    rustix::io::retry_on_intr(|| rustix::pipe::splice(source, None, sink, None, most, flags))
}

/// Sleeps until the source has bytes or is at its end, until the reader of a watched pipe has left,
/// or until it is cancelled. Gives the places of those whose readers have left.
pub(super) fn wait_for_source(
    source: &Endpoint<'_>,
    watched: &[(usize, &Endpoint<'_>)],
    cancels: Cancels<'_>,
) -> Vec<usize> {
    let pipes: Vec<_> = watched.iter().filter(|(_, end)| end.kind() == Kind::Pipe).collect();
    let fds =
        pipes.iter().map(|(_, end)| PollFd::from_borrowed_fd(end.as_fd(), PollFlags::empty()));
    let mut fds: Vec<_> = fds.collect();
    fds.push(PollFd::from_borrowed_fd(source.as_fd(), PollFlags::IN));
    fds.extend(cancels.wakes());
    // An interruption is as good as an answer: the call that follows is tried again.
    if crate::wait::poll(&mut fds, cancels.outermost()).is_err() {
        return Vec::new();
    }
    let left = |fd: &PollFd<'_>| fd.revents().contains(PollFlags::ERR);
    pipes.iter().zip(&fds).filter(|(_, fd)| left(fd)).map(|((place, _), _)| *place).collect()
}
