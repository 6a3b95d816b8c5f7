//! `tee` and `wide-tee`: a reservoir pipe keeps pages that are repeated into the sink by
//! reference, without a page table being walked.
//!
//! Costs per chunk: one system call for a whole pipe; per slot one reference taken and 40 bytes
//! copied. A slot of the plain reservoir holds a page. A slot of the wide one holds up to 32 KiB:
//! the kernel keeps one slot per *fragment*, and the fragments that a stream socket's send
//! buffers are made of are allocations of up to eight pages (UNIX_SKB_FRAGS_SZ in
//! net/unix/af_unix.c, order 3). Pages that reach a pipe any other way (write, vmsplice, splice
//! from a file, even of huge pages) are cut into slots of one page each (add_to_pipe,
//! splice_folio_into_pipe). No wider way is known to us: a pipe filled from TCP over
//! loopback held 23 to 30 KiB a slot on Linux 6.18, as its fragments are of the same order and their
//! borders do not fall on the messages'; and by the kernel's sources wider ones (MSG_ZEROCOPY from
//! huge pages) are copied before they reach a local receiver (skb_orphan_frags_rx).
//!
//! Between two CPUs the sink's pipe lock is what both ends wait for: tee and splice hold it while
//! they count references, slot by slot. So where the ends spin, the reservoir is teed into a
//! relay pipe first, under locks that nobody else wants, and the slots are then moved from there
//! (splice between pipes moves slots without counting), which holds the sink's lock for a fifth
//! of the time.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use crate::endpoint::Endpoint;
use crate::error::{Refusal, Stop};
use crate::outlets::{
    Contents, LARGE_PIPE_BYTES, Outlet, Producer, Setup, Shape, Sink, Use, own_pipe, pipe_bytes,
    pipe_only, refused_size, size_pipe,
};
use crate::pages::{PageSize, page_bytes};
use crate::routes::Aliasing;
use crate::seal::Sealed;
use crate::size::shown;

/// Fragments of a Unix stream socket: 32 KiB in whole pages.
fn fragment_bytes() -> usize {
    page_bytes(PageSize::Base).max(32 << 10)
}

/// Slots of one page.
pub(super) const TEE: Reserving = Reserving {
    name: "tee",
    summary: "tee(2) from a pipe that keeps its pages; repeats its contents",
    slots: Slots::Page,
};

/// Slots as wide as the kernel gives.
pub(super) const WIDE_TEE: Reserving = Reserving {
    name: "wide-tee",
    summary: "tee(2) from a pipe whose slots hold up to 32 KiB each; repeats its contents",
    slots: Slots::Wide,
};

/// See the module.
pub(super) struct Reserving {
    name: &'static str,
    summary: &'static str,
    slots: Slots,
}

#[derive(Clone, Copy)]
enum Slots {
    Page,
    Wide,
}

impl Sealed for Reserving {}

impl Outlet for Reserving {
    fn name(&self) -> &'static str {
        self.name
    }

    fn summary(&self) -> &'static str {
        self.summary
    }

    fn aliasing(&self) -> Aliasing {
        Aliasing::None
    }

    fn used_for(&self) -> Use {
        Use::Repeats
    }

    fn suits(&self, sink: &Endpoint<'_>) -> Result<(), Refusal> {
        pipe_only(self.name, sink)
    }

    fn open<'a>(
        &self,
        sink: &'a Endpoint<'a>,
        setup: &Setup<'a>,
    ) -> Result<Box<dyn Producer + 'a>, Stop> {
        open(self.name, sink, setup, self.slots)
    }
}

fn open<'a>(
    name: &'static str,
    sink: &'a Endpoint<'a>,
    setup: &Setup<'a>,
    slots: Slots,
) -> Result<Box<dyn Producer + 'a>, Stop> {
    pipe_only(name, sink).map_err(Stop::Declined)?;
    let period_bytes = setup.contents.period()?;
    let pipe_bytes = size_pipe(sink, setup.pipe_bytes, Some(LARGE_PIPE_BYTES))?;
    let reservoir = Reservoir::fill(pipe_bytes, &setup.contents, slots)?;
    let (relay_reader, relay_writer, _) = own_pipe(pipe_bytes)?;
    let null = File::options().write(true).open("/dev/null").map_err(|error| {
        Stop::Declined(Refusal::because(format!("cannot open /dev/null: {error}")))
    })?;
    let shape = Shape {
        chunk_bytes: reservoir.bytes,
        pipe_bytes,
        slot_bytes: reservoir.bytes / (pipe_bytes / page_bytes(PageSize::Base)).max(1),
        period_bytes,
    };
    let sink = Sink::new(name, sink, setup);
    let mut flags = SpliceFlags::empty();
    flags.set(SpliceFlags::NONBLOCK, sink.nonblocking());
    Ok(Box::new(Repeating {
        sink,
        reservoir,
        relay_reader,
        relay_writer,
        null,
        relayed: 0,
        phase: 0,
        relay_always: setup.wait.spins(),
        flags,
        shape,
        wished_bytes: setup.pipe_bytes.unwrap_or(LARGE_PIPE_BYTES),
    }))
}

/// A pipe that is filled once and then only teed from.
struct Reservoir {
    reader: OwnedFd,
    _writer: OwnedFd,
    /// Bytes that it holds: whole periods of the contents.
    bytes: usize,
}

impl Reservoir {
    /// Fills a pipe of `pipe_bytes` with whole periods of the contents.
    fn fill(pipe_bytes: usize, contents: &Contents<'_>, slots: Slots) -> Result<Reservoir, Stop> {
        let period = contents.period()?;
        let mut wanted = usize::MAX;
        // How many bytes fit is seen by filling; a second round stops at a whole period. How the
        // kernel cuts fragments may differ between rounds, so a few more are granted.
        for _ in 0..FILLS_MAX {
            let reservoir = match slots {
                Slots::Page => Reservoir::fill_pages(pipe_bytes, contents, wanted)?,
                Slots::Wide => Reservoir::fill_wide(pipe_bytes, contents, wanted)?,
            };
            if reservoir.bytes > 0 && reservoir.bytes % period == 0 {
                return Ok(reservoir);
            }
            wanted = reservoir.bytes / period * period;
            if wanted == 0 {
                return Err(too_short(period, reservoir.bytes));
            }
        }
        Err(Stop::Declined(
            Refusal::because(format!(
                "the reservoir ended within the contents, which repeat after {period} bytes, each \
                 time that it was filled"
            ))
            .remedy("use shorter contents, or the outlet write"),
        ))
    }

    fn fill_pages(
        pipe_bytes: usize,
        contents: &Contents<'_>,
        wanted: usize,
    ) -> Result<Reservoir, Stop> {
        let (reader, writer, _) = own_pipe(pipe_bytes)?;
        let mut page = vec![0; page_bytes(PageSize::Base)];
        let mut bytes = 0;
        while bytes < wanted {
            let len = page.len().min(wanted - bytes);
            contents.fill(bytes as u64, &mut page[..len]);
            match crate::endpoint::write_now(writer.as_fd(), &[std::io::IoSlice::new(&page[..len])])
            {
                Ok(count) => bytes += count,
                Err(Errno::AGAIN) if bytes > 0 => break,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(not_filled("write", errno)),
            }
        }
        Ok(Reservoir { reader, _writer: writer, bytes })
    }

    /// Each message of one fragment becomes one slot. All messages are whole fragments, of which
    /// the last is taken in part, because a shorter one is made of smaller fragments and needs more
    /// slots.
    fn fill_wide(
        pipe_bytes: usize,
        contents: &Contents<'_>,
        wanted: usize,
    ) -> Result<Reservoir, Stop> {
        let (reader, writer, _) = own_pipe(pipe_bytes)?;
        // A splice from a socket takes at most as many pages as the pipe has free slots, however
        // few slots they need; one from a pipe moves slots whole. So each goes by a pipe between.
        let (stage_reader, stage_writer, _) = own_pipe(pipe_bytes)?;
        let (mut near, far) = UnixStream::pair().map_err(no_socket)?;
        let mut fragment = vec![0; fragment_bytes()];
        let mut bytes = 0;
        while bytes < wanted {
            contents.fill(bytes as u64, &mut fragment);
            near.write_all(&fragment).map_err(no_socket)?;
            let len = fragment.len().min(wanted - bytes);
            let staged = spliced(&far, &stage_writer, len)?;
            let moved = spliced(&stage_reader, &writer, staged)?;
            // The stage is empty each time, and so is the reservoir at first: what puts nothing
            // into either is not for want of room.
            if staged == 0 || bytes + moved == 0 {
                return Err(not_filled("splice", Errno::AGAIN));
            }
            bytes += moved;
            if moved < len {
                break;
            }
        }
        Ok(Reservoir { reader, _writer: writer, bytes })
    }
}

/// Splices up to `most` bytes that are there; how many found room.
fn spliced(from: impl AsFd, into: &OwnedFd, most: usize) -> Result<usize, Stop> {
    let mut left = most;
    while left > 0 {
        match rustix::pipe::splice(&from, None, into, None, left, SpliceFlags::NONBLOCK) {
            Ok(0) | Err(Errno::AGAIN) => break,
            Ok(count) => left -= count,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(not_filled("splice", errno)),
        }
    }
    Ok(most - left)
}

fn too_short(period: usize, bytes: usize) -> Stop {
    Stop::Declined(
        Refusal::because(format!(
            "contents that repeat after {} do not fit a reservoir of {}",
            shown(period as u64),
            shown(bytes as u64)
        ))
        .remedy("use shorter contents or a larger pipe"),
    )
}

/// Rounds of filling before the reservoir is given up.
const FILLS_MAX: usize = 4;

fn no_socket(error: std::io::Error) -> Stop {
    let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
    Stop::Declined(Refusal::errno("no Unix socket to make wide slots with", errno))
}

fn not_filled(call: &str, errno: Errno) -> Stop {
    Stop::Declined(Refusal::errno(format!("{call} does not fill the reservoir"), errno))
}

/// Between two pipes of our own: nothing is in flight, since the reservoir keeps what the relay has.
fn not_relayed(call: &str, errno: Errno) -> Stop {
    Stop::Declined(Refusal::errno(format!("{call} does not fill the relay pipe"), errno))
}

struct Repeating<'a> {
    sink: Sink<'a>,
    reservoir: Reservoir,
    relay_reader: OwnedFd,
    relay_writer: OwnedFd,
    null: File,
    /// Bytes that the relay pipe holds.
    relayed: usize,
    /// Where in the reservoir's contents the stream stands.
    phase: usize,
    relay_always: bool,
    flags: SpliceFlags,
    shape: Shape,
    /// The size that the sink should have.
    wished_bytes: usize,
}

impl Repeating<'_> {
    /// Straight from the reservoir, which always starts at its first byte.
    fn tee(&mut self, most: usize) -> Result<usize, Stop> {
        let (reservoir, flags) = (self.reservoir.reader.as_fd(), self.flags);
        self.sink.until_moved("tee", |sink| rustix::pipe::tee(reservoir, sink, most, flags))
    }

    /// From the relay, which holds the rest of the contents from `phase` on.
    fn move_on(&mut self, most: usize) -> Result<usize, Stop> {
        if self.relayed == 0 {
            self.fill_relay()?;
        }
        let most = most.min(self.relayed);
        let (relay, flags) = (self.relay_reader.as_fd(), self.flags);
        let count = self.sink.until_moved("splice", |sink| {
            rustix::pipe::splice(relay, None, sink, None, most, flags)
        })?;
        self.relayed -= count;
        Ok(count)
    }

    fn fill_relay(&mut self) -> Result<(), Stop> {
        let flags = SpliceFlags::NONBLOCK;
        let all = self.reservoir.bytes;
        let teed = loop {
            match rustix::pipe::tee(&self.reservoir.reader, &self.relay_writer, all, flags) {
                Err(Errno::INTR) => {}
                teed => break teed.map_err(|errno| not_relayed("tee", errno))?,
            }
        };
        if teed <= self.phase {
            let have = pipe_bytes(self.relay_writer.as_fd());
            return Err(Stop::Declined(
                Refusal::because(format!("a relay pipe of {have} bytes is too small"))
                    .remedy("ask for a smaller pipe, or free pipe pages of this user"),
            ));
        }
        self.relayed = teed;
        if self.phase > 0 {
            self.skip(self.phase)?;
        }
        Ok(())
    }

    /// Drops the first bytes of the relay.
    fn skip(&mut self, bytes: usize) -> Result<(), Stop> {
        let mut left = bytes;
        while left > 0 {
            let flags = SpliceFlags::empty();
            match rustix::pipe::splice(&self.relay_reader, None, &self.null, None, left, flags) {
                Ok(count) => left -= count,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(not_relayed("splice", errno)),
            }
        }
        self.relayed -= bytes;
        Ok(())
    }
}

impl Sealed for Repeating<'_> {}

impl Producer for Repeating<'_> {
    fn shape(&self) -> Shape {
        self.shape
    }

    fn pipe_refused(&self) -> Option<Refusal> {
        let sink = self.sink.end.as_fd();
        let own = [self.reservoir.reader.as_fd(), self.relay_writer.as_fd()];
        let of_own = || own.into_iter().find_map(|pipe| refused_size(pipe, self.shape.pipe_bytes));
        refused_size(sink, self.wished_bytes).or_else(of_own)
    }

    #[inline(always)]
    fn repeat_some(&mut self, most: u64) -> Result<u64, Stop> {
        let most = usize::try_from(most).unwrap_or(usize::MAX).min(self.reservoir.bytes);
        if most == 0 {
            return Ok(0);
        }
        // A sink with less room than the reservoir holds takes part of it; the rest then comes
        // from the relay, so that the stream goes on where it stood.
        let straight = !self.relay_always && self.relayed == 0 && self.phase == 0;
        let count = if straight { self.tee(most)? } else { self.move_on(most)? };
        self.phase = (self.phase + count) % self.shape.period_bytes;
        Ok(count as u64)
    }

    fn room(&mut self) -> Result<Option<&mut [u8]>, Stop> {
        Ok(None)
    }

    fn send(&mut self, _: usize) -> Result<(), Stop> {
        Err(Stop::Declined(Refusal::because("a reservoir only repeats what it was filled with")))
    }
}
