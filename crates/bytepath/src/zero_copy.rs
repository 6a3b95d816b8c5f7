//! Sending over TCP without a copy (MSG_ZEROCOPY): the kernel sends the pages that the bytes lie in,
//! and says in the socket's error queue when it needs them no more.
//!
//! Costs a send no copy where the bytes leave by a device that can gather them, but looking up and
//! holding their pages, and a message of the error queue. Where they stay on this machine the kernel
//! copies them after all, so all of that is in vain: it says so ([`ZeroCopySender::copied`]).

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, epoll};
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::error::{Failed, Side};
use crate::meter::Meter;
use crate::pages::Memory;
use crate::sys::error_queue::{allow_zero_copy, done};

/// A stream socket and the buffers whose pages the kernel still needs. They are nobody else's until
/// then: what changed in them meanwhile would be sent changed.
///
/// Dropped, it closes the socket and unmaps the buffers that are out. The kernel sends on what was sent: it
/// holds the pages for itself, and nobody else gets them before it lets go.
#[derive(Debug)]
pub struct ZeroCopySender {
    socket: OwnedFd,
    out: VecDeque<Out>,
    /// The number that the next send has: the kernel counts from 0 on, around 2^32.
    sends: u32,
    /// So many it was done with, and so many of them it copied.
    done: u64,
    copied: u64,
    meter: Meter,
}

/// A buffer that is out, and the sends that it took: the first's number, and how many are not done.
#[derive(Debug)]
struct Out {
    buffer: Memory,
    first: u32,
    sends: u32,
    open: u32,
}

/// From linux/socket.h.
const MSG_ZEROCOPY: SendFlags = SendFlags::from_bits_retain(0x400_0000);

impl ZeroCopySender {
    /// Of a connected stream socket, by which nothing was ever sent in this way: the kernel numbers
    /// what it says of sends from the socket's first one on, whoever made it.
    ///
    /// # Errors
    /// The kernel sends nothing without a copy there (EOPNOTSUPP, ENOPROTOOPT).
    pub fn new(socket: OwnedFd) -> io::Result<ZeroCopySender> {
        allow_zero_copy(socket.as_fd())?;
        let (out, meter) = (VecDeque::new(), Meter::new());
        Ok(ZeroCopySender { socket, out, sends: 0, done: 0, copied: 0, meter })
    }

    /// Sends the first so many bytes of a buffer, all of them, and keeps it until the kernel is done
    /// with its pages.
    ///
    /// # Errors
    /// The kernel's word; the other end may be gone. [`Failed::offset`] says how many bytes of this buffer
    /// the kernel had taken; they stay in it, and it stays out.
    ///
    /// # Panics
    /// The buffer has fewer.
    pub fn send(&mut self, buffer: Memory, bytes: usize) -> Result<(), Failed> {
        assert!(bytes <= buffer.len(), "no more is sent than there is");
        // From here on the kernel may need it, also where a later send fails.
        self.out.push_back(Out { buffer, first: self.sends, sends: 0, open: 0 });
        let mut sent = 0;
        self.send_all(bytes, &mut sent).map_err(|errno| Failed {
            offset: sent as u64,
            ..Failed::new("zero-copy", Side::Sink, "send", errno)
        })
    }

    /// Sends of the buffer that went out last.
    fn send_all(&mut self, bytes: usize, sent: &mut usize) -> Result<(), Errno> {
        while *sent < bytes {
            self.meter.called();
            let Some(out) = self.out.back_mut() else { break };
            let flags = MSG_ZEROCOPY | SendFlags::NOSIGNAL;
            match rustix::net::send(&self.socket, &out.buffer.as_slice()[*sent..bytes], flags) {
                Ok(count) => {
                    *sent += count;
                    out.sends += 1;
                    out.open += 1;
                    self.sends = self.sends.wrapping_add(1);
                    self.meter.delivered(count as u64);
                }
                // It holds as much as it may for this socket (net.core.optmem_max).
                Err(Errno::NOBUFS) if self.is_anything_open() => self.wait()?,
                Err(Errno::AGAIN) => self.wait_writable()?,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// How many buffers are out.
    pub fn out(&self) -> usize {
        self.out.len()
    }

    /// Waits until the kernel needs the buffer that was sent first no more, and gives it back. `None`
    /// where none is out.
    ///
    /// # Errors
    /// The kernel's word.
    pub fn take_back(&mut self) -> io::Result<Option<Memory>> {
        while self.out.front().is_some_and(|out| out.open > 0) {
            self.wait()?;
        }
        Ok(self.out.pop_front().map(|out| out.buffer))
    }

    /// How many sends the kernel is done with, and how many of them it copied after all.
    pub fn copied(&self) -> (u64, u64) {
        (self.done, self.copied)
    }

    /// Bytes sent, and system calls made.
    pub fn meter(&self) -> &Meter {
        &self.meter
    }

    fn is_anything_open(&self) -> bool {
        self.out.iter().any(|out| out.open > 0)
    }

    /// Waits until the kernel is done with something.
    fn wait(&mut self) -> Result<(), Errno> {
        if self.take_done()? {
            return Ok(());
        }
        self.poll(PollFlags::empty())?;
        let mut edges = None;
        while !self.take_done()? {
            // What ended the wait stays: both ways are shut, say. From here on only news ends it.
            let edges = match &edges {
                Some(edges) => edges,
                None => edges.insert(self.edges()?),
            };
            let mut event = Vec::with_capacity(1);
            match epoll::wait(edges, rustix::buffer::spare_capacity(&mut event), None) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// What tells of each change of the socket once, beginning with how it is.
    fn edges(&self) -> Result<OwnedFd, Errno> {
        let edges = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&edges, &self.socket, data, epoll::EventFlags::ET)?;
        Ok(edges)
    }

    /// Takes what the error queue says next of sends that are done; false where it says nothing now.
    fn take_done(&mut self) -> Result<bool, Errno> {
        loop {
            self.meter.called();
            match done(self.socket.as_fd()) {
                Ok(Some(done)) => {
                    self.finished(done.first, done.last, done.copied);
                    return Ok(true);
                }
                Ok(None) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return Ok(false),
                Err(errno) => return Err(errno),
            }
        }
    }

    fn finished(&mut self, first: u32, last: u32, copied: bool) {
        let sends = last.wrapping_sub(first).wrapping_add(1);
        self.done += u64::from(sends);
        self.copied += if copied { u64::from(sends) } else { 0 };
        for out in &mut self.out {
            let theirs = |number: u32| number.wrapping_sub(out.first) < out.sends;
            let done = (0..sends).filter(|&at| theirs(first.wrapping_add(at))).count();
            out.open = out.open.saturating_sub(done as u32);
        }
    }

    fn wait_writable(&mut self) -> Result<(), Errno> {
        // What the error queue holds would end the wait at once, every time.
        while self.take_done()? {}
        self.poll(PollFlags::OUT)
    }

    /// A message in the error queue ends it too.
    fn poll(&self, interest: PollFlags) -> Result<(), Errno> {
        let mut fds = [PollFd::new(&self.socket, interest)];
        match rustix::event::poll(&mut fds, None) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(errno) => Err(errno),
        }
    }
}
