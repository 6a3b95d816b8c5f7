//! The first moments of a job, in which nobody draws and nobody answers signals: a second thread
//! would cost more than all of a small job.

use std::cell::Cell;
use std::ffi::OsStr;
use std::time::{Duration, Instant};

use bytepath::{Endpoint, Kind};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::ends;

/// Before anybody could see or ask anything.
const MOMENT: Duration = Duration::from_millis(20);

/// How often, and for how long, a reader is waited for to empty its pipe: together about as long as
/// starting a thread takes.
const NAPS: u32 = 4;
const NAP: Duration = Duration::from_micros(20);

/// Bytes that are moved in a moment.
const BYTES_MAX: u64 = 1 << 20;

/// A job that nobody watches yet. Signals do what they do to a program that does not catch them.
pub(crate) struct Alone<'a> {
    watch: &'a dyn Fn(),
    until: Instant,
    /// How many bytes may still be moved so; `None` once somebody watches.
    left: Cell<Option<u64>>,
    naps: Cell<u32>,
}

impl<'a> Alone<'a> {
    /// From now on; `watch` is called at most once.
    pub(crate) fn new(watch: &'a dyn Fn()) -> Alone<'a> {
        Alone {
            watch,
            until: Instant::now() + MOMENT,
            left: Cell::new(Some(BYTES_MAX)),
            naps: Cell::new(NAPS),
        }
    }

    /// From here on somebody watches.
    pub(crate) fn end(&self) {
        if self.left.take().is_some() {
            (self.watch)();
        }
    }

    /// Ends it if opening this input may take longer than a moment, as it does with a FIFO.
    pub(crate) fn opens(&self, input: &OsStr) {
        let here = || std::fs::metadata(input).is_ok_and(|found| found.is_file());
        if self.left.get().is_some() && !ends::is_stdin(input) && !here() {
            self.end();
        }
    }

    /// How many bytes can be moved now, or the end be seen, without a wait; `None` is as many as
    /// there are, with somebody who watches.
    pub(crate) fn most(&self, source: &Endpoint<'_>, sink: &Endpoint<'_>) -> Option<u64> {
        let left = self.left.get()?;
        let here = || Some(self.taken(source, sink)?.min(self.there(source, left)?).min(left));
        let most = here().filter(|bytes| *bytes > 0);
        if most.is_none() {
            self.end();
        }
        most
    }

    /// Notes what was moved.
    pub(crate) fn moved(&self, bytes: u64) {
        self.left.set(self.left.get().map(|left| left.saturating_sub(bytes)));
    }

    /// What the source has for us.
    fn there(&self, source: &Endpoint<'_>, left: u64) -> Option<u64> {
        match source.kind() {
            Kind::Null => Some(left),
            // Files that claim to be empty are not trusted: some of /proc wait.
            Kind::File if source.bytes() > 0 => {
                let at = rustix::fs::tell(source).ok()?;
                (source.bytes().saturating_sub(at) < left).then_some(left)
            }
            Kind::Pipe | Kind::UnixSocket | Kind::TcpSocket => {
                let ended = PollFlags::HUP | PollFlags::RDHUP;
                let found = self.polled(source, PollFlags::IN | PollFlags::RDHUP)?;
                match rustix::io::ioctl_fionread(source).ok()? {
                    0 => found.intersects(ended).then_some(left),
                    bytes => Some(bytes),
                }
            }
            _ => None,
        }
    }

    /// What the sink has room for.
    fn taken(&self, source: &Endpoint<'_>, sink: &Endpoint<'_>) -> Option<u64> {
        match sink.kind() {
            Kind::File | Kind::Null => Some(u64::MAX),
            Kind::Pipe => self.room(source, sink),
            Kind::UnixSocket | Kind::TcpSocket => {
                let found = self.polled(sink, PollFlags::OUT)?;
                // At least a third of its buffer is free then, more on Unix sockets; what the
                // kernel needs for itself is paid out of that.
                let buffer = rustix::net::sockopt::socket_send_buffer_size(sink).ok()?;
                found.contains(PollFlags::OUT).then_some(buffer as u64 / 4)
            }
            _ => None,
        }
    }

    /// Waits for the rest of the moment; what came.
    fn polled(&self, end: &Endpoint<'_>, wanted: PollFlags) -> Option<PollFlags> {
        let left = self.until.saturating_duration_since(Instant::now());
        let timeout = Timespec::try_from(left).ok()?;
        let mut fds = [PollFd::new(end, wanted)];
        rustix::event::poll(&mut fds, Some(&timeout)).ok().filter(|found| *found > 0)?;
        Some(fds[0].revents())
    }

    /// What a pipe takes of this source without a reader. How much that is of one that is not empty
    /// cannot be known, so its reader is given a little time.
    fn room(&self, source: &Endpoint<'_>, pipe: &Endpoint<'_>) -> Option<u64> {
        while rustix::io::ioctl_fionread(pipe).ok()? > 0 {
            self.naps.set(self.naps.get().checked_sub(1)?);
            std::thread::sleep(NAP);
        }
        let page = rustix::param::page_size();
        let slots = rustix::pipe::fcntl_getpipe_size(pipe).ok()? / page;
        if source.kind() == Kind::Pipe
            && rustix::pipe::fcntl_getpipe_size(source).ok()? <= slots * page
        {
            // What fills a slot there fills one here.
            return Some(u64::MAX);
        }
        // A slot holds a page, be it a part of one, as the first and the last of a file's bytes are.
        Some((slots.saturating_sub(2) * page) as u64)
    }
}
