//! What is held in the reservoir, to the sinks: by tee(2) to all but the last, which takes it out.
//!
//! tee(2) begins at the oldest byte of a pipe each time. A sink that had room for more than
//! another is ahead, and gets nothing until the bytes that it has are out of the reservoir.

use std::os::fd::{AsFd, OwnedFd};

use rustix::io::Errno;
use rustix::pipe::{PipeFlags, SpliceFlags};

use super::Ending;
use super::lockstep::{BUFFER_BYTES, Lockstep};
use super::sink::{Cancels, Way, wait_for_room};
use super::taking::{chunk, splice};
use crate::endpoint::{self, Endpoint};
use crate::routes::nonblock_if;

/// tee(2) gives 0 where another process fills the sink's last room in just that moment. More often
/// in a row it is a refusal.
const RACES_MAX: usize = 16;

/// A pipe of our own.
pub(super) struct PipePair {
    reader: OwnedFd,
    pub(super) writer: OwnedFd,
    pub(super) bytes: usize,
}

impl PipePair {
    pub(super) fn open() -> Result<PipePair, Errno> {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
        let bytes = rustix::pipe::fcntl_getpipe_size(&writer).unwrap_or(rustix::pipe::PIPE_BUF);
        Ok(PipePair { reader, writer, bytes })
    }

    /// As large as that, if the kernel allows it.
    pub(super) fn grow(&mut self, bytes: usize) {
        if let Ok(bytes) = endpoint::set_pipe_bytes(self.writer.as_fd(), bytes) {
            self.bytes = bytes;
        }
    }

    /// Takes bytes out that are there.
    fn read(&self, into: &mut [u8]) -> Result<usize, Errno> {
        rustix::io::retry_on_intr(|| rustix::io::read(&self.reader, &mut *into))
    }
}

/// Why a sink did not get bytes.
enum Trouble {
    /// The kernel refuses this way to this sink.
    Refused(Errno),
    /// No way could have gone on.
    Lost(Errno),
    /// The kernel refuses tee(2) altogether.
    NoTee,
}

impl Lockstep<'_> {
    /// Gives what is held to the sinks that are not ahead, in their order.
    pub(super) fn give_held(&mut self) -> Result<(), Ending> {
        self.peeked = 0;
        if !self.tees && self.live() > 1 {
            return self.read_held();
        }
        let waits = |place: usize, all: &Self| {
            let sink = &all.sinks[place];
            sink.is_live() && sink.ahead == 0
        };
        let Some(last) = (0..self.sinks.len()).rev().find(|place| waits(*place, self)) else {
            return self.forget(self.least_ahead());
        };
        let mut most = self.least_ahead();
        for place in 0..last {
            if waits(place, self) {
                let Some(count) = self.give(place, most)? else {
                    return self.read_held();
                };
                most = if self.sinks[place].is_live() { count } else { most };
            }
        }
        let count = self.give_last(last, most)?;
        self.out(count);
        Ok(())
    }

    /// How many of the held bytes all sinks have that are ahead; all where none is.
    fn least_ahead(&self) -> usize {
        let live = self.sinks.iter().filter(|sink| sink.is_live() && sink.ahead > 0);
        live.map(|sink| sink.ahead).min().unwrap_or(self.held)
    }

    /// Held bytes are in the reservoir no more.
    fn out(&mut self, count: usize) {
        self.held -= count;
        for sink in &mut self.sinks {
            sink.ahead = sink.ahead.saturating_sub(count);
        }
    }

    /// Takes out what every sink has.
    fn forget(&mut self, count: usize) -> Result<(), Ending> {
        let count = self.read_out(count)?;
        self.out(count);
        Ok(())
    }

    /// Takes what is held into memory, and writes it to the sinks.
    fn read_held(&mut self) -> Result<(), Ending> {
        let count = self.read_out(self.held)?;
        self.held -= count;
        self.handed_on = false;
        self.write_to_all(count)
    }

    /// Takes at most so many of the held bytes into the buffer.
    fn read_out(&mut self, most: usize) -> Result<usize, Ending> {
        self.have_buffer();
        let most = most.min(BUFFER_BYTES);
        let reservoir = self.reservoir.as_ref();
        match reservoir.map_or(Ok(0), |pair| pair.read(&mut self.buffer[..most])) {
            Ok(count) if count > 0 => Ok(count),
            // The bytes are there, and nobody else can have taken them.
            Ok(_) => Err(Ending::ReadFailed(Errno::IO)),
            Err(errno) => Err(Ending::ReadFailed(errno)),
        }
    }

    /// Gives a sink a copy of some held bytes, and tells how many; `None` where tee(2) does not
    /// work here.
    fn give(&mut self, place: usize, most: usize) -> Result<Option<usize>, Ending> {
        let cancels = self.cancels();
        loop {
            let sink = &mut self.sinks[place];
            let given = match (sink.way, sink.end) {
                (Way::Drop, _) => Ok(most),
                (Way::Tee, Some(end)) => self.tee(end, most),
                (Way::Splice, Some(end)) => self.splice_copy(place, end, most),
                (Way::Write, _) | (_, None) => match self.peek(most) {
                    Ok(count) => {
                        let written = self.sinks[place].write_all(&self.buffer[..count], cancels);
                        written.map(|()| count).map_err(Trouble::Lost)
                    }
                    Err(trouble) => Err(trouble),
                },
            };
            match given {
                Ok(count) => {
                    let sink = &mut self.sinks[place];
                    sink.ahead = count;
                    if sink.way != Way::Write {
                        sink.took(count);
                    }
                    return Ok(Some(count));
                }
                Err(Trouble::Refused(errno)) => self.sinks[place].refuse(errno),
                Err(Trouble::Lost(errno)) => {
                    self.lose(place, errno)?;
                    return Ok(Some(0));
                }
                Err(Trouble::NoTee) => {
                    self.tees = false;
                    return Ok(None);
                }
            }
        }
    }

    fn tee(&self, end: &Endpoint<'_>, most: usize) -> Result<usize, Trouble> {
        let reservoir = self.reservoir.as_ref().ok_or(Trouble::NoTee)?;
        let (mut races, flags) = (0, nonblock_if(self.cancel.is_some()));
        loop {
            match rustix::pipe::tee(&reservoir.reader, end, most, flags) {
                Ok(0) if races < RACES_MAX => races += 1,
                Ok(0) => return Err(Trouble::Refused(Errno::AGAIN)),
                Ok(count) => return Ok(count),
                Err(Errno::INTR | Errno::AGAIN) if self.cancels().are_asked() => {
                    return Err(Trouble::Lost(Errno::CANCELED));
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait_for_room(end, self.cancels()),
                Err(Errno::PIPE) => return Err(Trouble::Lost(Errno::PIPE)),
                Err(errno) => return Err(Trouble::Refused(errno)),
            }
        }
    }

    /// Held bytes into the scratch pipe, which is empty.
    fn copy_held(&mut self, most: usize) -> Result<usize, Trouble> {
        if self.scratch.is_none() {
            self.scratch = Some(self.pair().map_err(|_| Trouble::NoTee)?);
        }
        let (Some(reservoir), Some(scratch)) = (&self.reservoir, &self.scratch) else {
            return Err(Trouble::NoTee);
        };
        let flags = SpliceFlags::NONBLOCK;
        let tee = || rustix::pipe::tee(&reservoir.reader, &scratch.writer, most, flags);
        match rustix::io::retry_on_intr(tee) {
            Ok(0) | Err(_) => Err(Trouble::NoTee),
            Ok(count) => Ok(count),
        }
    }

    /// A copy of held bytes to a file.
    fn splice_copy(
        &mut self,
        place: usize,
        end: &Endpoint<'_>,
        most: usize,
    ) -> Result<usize, Trouble> {
        let count = self.copy_held(most)?;
        let mut done = 0;
        while done < count {
            let Some(scratch) = &self.scratch else { break };
            let chunk = chunk(Way::Splice).min(count - done);
            match splice(scratch.reader.as_fd(), end.as_fd(), chunk, SpliceFlags::empty()) {
                Ok(moved) if moved > 0 => done += moved,
                Err(Errno::AGAIN) => wait_for_room(end, Cancels::default()),
                answer => {
                    // With what is left in it.
                    self.scratch = None;
                    let errno = answer.err().unwrap_or(Errno::INVAL);
                    if done == 0 {
                        return Err(Trouble::Refused(errno));
                    }
                    self.sinks[place].took(done);
                    self.sinks[place].refuse(errno);
                    return Ok(done);
                }
            }
        }
        Ok(count)
    }

    /// Held bytes into the buffer, where they also stay held.
    fn peek(&mut self, most: usize) -> Result<usize, Trouble> {
        if self.peeked > 0 {
            return Ok(self.peeked.min(most));
        }
        self.have_buffer();
        let count = self.copy_held(most.min(BUFFER_BYTES))?;
        let mut done = 0;
        while done < count {
            let Some(scratch) = &self.scratch else { break };
            match scratch.read(&mut self.buffer[done..count]) {
                Ok(read) if read > 0 => done += read,
                _ => {
                    self.scratch = None;
                    return Err(Trouble::NoTee);
                }
            }
        }
        self.peeked = count;
        Ok(count)
    }

    /// Gives the last sink held bytes by taking them out of the reservoir; how many are out.
    fn give_last(&mut self, place: usize, most: usize) -> Result<usize, Ending> {
        let sink = &self.sinks[place];
        let (way, Some(end), Some(reservoir)) = (sink.way, sink.end, &self.reservoir) else {
            return self.write_last(place, most);
        };
        if way == Way::Write {
            return self.write_last(place, most);
        }
        let most = most.min(chunk(way));
        let flags = nonblock_if(self.cancel.is_some());
        match splice(reservoir.reader.as_fd(), end.as_fd(), most, flags) {
            Ok(0) => self.sinks[place].refuse(Errno::INVAL),
            Ok(count) => {
                self.sinks[place].took(count);
                return Ok(count);
            }
            Err(Errno::AGAIN) => wait_for_room(end, self.cancels()),
            Err(Errno::PIPE) => self.lose(place, Errno::PIPE)?,
            Err(errno) => self.sinks[place].refuse(errno),
        }
        Ok(0)
    }

    fn write_last(&mut self, place: usize, most: usize) -> Result<usize, Ending> {
        let count = self.read_out(most)?;
        let cancels = self.cancels();
        if let Err(errno) = self.sinks[place].write_all(&self.buffer[..count], cancels) {
            self.lose(place, errno)?;
        }
        Ok(count)
    }
}
