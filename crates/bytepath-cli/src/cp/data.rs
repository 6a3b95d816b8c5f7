//! The bytes of a file: shared where they may be, moved by the engine, holes left out.
//!
//! Costs per extent: two seeks, and one more on either side where it is long; two before the first,
//! and three and a look at the copy's size behind the last.
//! The bytes are looked at, in a buffer of its own, for `--sparse=always` and where no holes are told
//! of.

mod range;
pub(super) mod small;

use std::ffi::OsStr;
use std::fmt;
use std::os::fd::BorrowedFd;

use bytepath::holes::Holes;
use bytepath::pages::{Memory, Pages};
use bytepath::routes::Rank;
use bytepath::{Endpoint, Job, Kind, Knobs, Moved, Plan, Side, TransferError};
use rustix::fs::{FallocateFlags, FileType, SeekFrom, Stat};
use rustix::io::Errno;

use super::hand::Other;
use super::holes::{data_before, data_bytes, has_holes};
use super::large::is_large;
use super::place::kind;
use super::settings::{Reflink, Sparse};
use super::shared::Shared;
use super::voice::q;
use crate::errno::word;
use crate::planning::{CarryError, Carrying, explain_by_hand};

/// The bytes of one file on their way.
pub(super) struct Data<'a> {
    pub(super) shared: &'a Shared<'a>,
    source: BorrowedFd<'a>,
    pub(super) sink: BorrowedFd<'a>,
    /// Bytes that are not on the device yet, where that matters.
    pub(super) dirty_bytes: u64,
    /// Up to where bytes that were looked at are written, or where that began; beyond all before.
    written_to: u64,
    source_stat: &'a Stat,
    to: SinkEnd,
    told: Told,
}

/// What the way of the bytes depends on at their end.
#[derive(Clone, Copy)]
pub(super) struct SinkEnd {
    pub(super) device: u64,
    /// Whether it is a file, which can have holes.
    pub(super) is_file: bool,
}

impl SinkEnd {
    pub(super) fn of(stat: &Stat) -> SinkEnd {
        SinkEnd { device: stat.st_dev, is_file: kind(stat) == FileType::RegularFile }
    }
}

/// How the bytes were copied, in the classic's words.
#[derive(Clone, Copy)]
pub(super) struct Told {
    offload: &'static str,
    reflink: &'static str,
    sparse: &'static str,
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Told { offload, reflink, sparse } = self;
        write!(f, "copy offload: {offload}, reflink: {reflink}, sparse detection: {sparse}")
    }
}

/// Why a file was not copied to its end.
pub(super) enum Fault {
    Opening(String),
    Reading(Errno),
    Writing(Errno),
    /// The kernel copies by itself, and does not tell which side it is.
    Copying(Errno),
    Seeking(Errno),
    Extending(Errno),
    Syncing(Errno),
    Other(String),
}

impl Fault {
    /// The message, about files of these names.
    pub(super) fn said(&self, from: &OsStr, to: &OsStr) -> String {
        let (from, to) = (q(from), q(to));
        match self {
            Fault::Opening(what) | Fault::Other(what) => {
                format!("error copying {from} to {to}: {what}")
            }
            Fault::Reading(errno) => format!("error reading {from}: {}", word(*errno)),
            Fault::Writing(errno) => format!("error writing {to}: {}", word(*errno)),
            Fault::Copying(errno) => format!("error copying {from} to {to}: {}", word(*errno)),
            Fault::Seeking(errno) => format!("cannot lseek {from}: {}", word(*errno)),
            Fault::Extending(errno) => format!("failed to extend {to}: {}", word(*errno)),
            Fault::Syncing(errno) => format!("error syncing {to}: {}", word(*errno)),
        }
    }

    /// The kernel's word.
    pub(super) fn errno(&self) -> Option<Errno> {
        match self {
            Fault::Opening(_) | Fault::Other(_) => None,
            Fault::Reading(errno)
            | Fault::Writing(errno)
            | Fault::Copying(errno)
            | Fault::Seeking(errno)
            | Fault::Extending(errno)
            | Fault::Syncing(errno) => Some(*errno),
        }
    }
}

/// Copying so many bytes may take so long that somebody asks how far it is.
pub(super) const LARGE_BYTES: i64 = 32 << 20;

/// Bytes that `--sparse=always` looks at together.
const LOOK_BYTES: usize = 128 << 10;

/// The classic's idea of what fills a whole number of blocks, where a file system tells nonsense.
const BLOCK_BYTES_MAX: usize = 64 << 10;

/// What is asked of the engine.
pub(super) fn job<'e>(source: &'e Endpoint<'e>, sink: &'e Endpoint<'e>) -> Job<'e> {
    Job::new(source, sink).allow_preallocation().allow_any_order()
}

impl<'a> Data<'a> {
    pub(super) fn new(
        shared: &'a Shared<'a>,
        source: BorrowedFd<'a>,
        sink: BorrowedFd<'a>,
        (source_stat, to): (&'a Stat, SinkEnd),
    ) -> Data<'a> {
        let reflink = if shared.settings.reflink == Reflink::Never { "no" } else { "unknown" };
        let told = Told { offload: "unknown", reflink, sparse: "no" };
        Data { shared, source, sink, dirty_bytes: 0, written_to: u64::MAX, source_stat, to, told }
    }

    pub(super) fn told(&self) -> Told {
        self.told
    }

    /// Shares the blocks of the source until either is written.
    pub(super) fn reflink(&mut self) -> Result<(), Errno> {
        let devices = (self.source_stat.st_dev, self.to.device);
        let may_fail = self.shared.settings.reflink == Reflink::Auto;
        let cloned = match may_fail && self.shared.tally.is_unshared(devices) {
            true => Err(Errno::OPNOTSUPP),
            false => rustix::fs::ioctl_ficlone(self.sink, self.source),
        };
        if let Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::XDEV) = cloned {
            self.shared.tally.note_sharing(devices, cloned.is_ok());
        }
        self.told.reflink = if cloned.is_ok() { "yes" } else { "unsupported" };
        cloned
    }

    /// Counts all bytes as copied, of which holes are none.
    pub(super) fn count_whole(&mut self) -> Result<(), Fault> {
        let size = u64::try_from(self.source_stat.st_size).unwrap_or(0);
        self.shared.hand.reached(size);
        self.count(Other::Reflink, self.data_bytes())
    }

    /// All bytes of the source but its holes.
    pub(super) fn data_bytes(&self) -> u64 {
        let size = u64::try_from(self.source_stat.st_size).unwrap_or(0);
        match has_holes(self.source_stat) {
            true => data_before(self.source, size),
            false => size,
        }
    }

    /// Copies the bytes.
    pub(super) fn copy(&mut self) -> Result<(), Fault> {
        let stat = self.source_stat;
        let is_chosen = self.shared.plan.route.is_some() || self.shared.extras.direct;
        let source = || Endpoint::source(self.source);
        if is_chosen && stat.st_size == 0 && source().is_ok_and(|source| source.gives_nothing()) {
            return Ok(());
        }
        if data_bytes(stat) >= LARGE_BYTES {
            self.shared.takes_long();
        }
        let sparse = self.shared.settings.sparse;
        if sparse == Sparse::Always && self.to.is_file && self.shared.plan.explain_plan {
            self.explain_by_hand("--sparse=always");
        }
        match (has_holes(stat), sparse) {
            (_, Sparse::Never) if kind(stat) == FileType::RegularFile => {
                let through_memory = if has_holes(stat) { Way::Memory } else { Way::Any };
                self.carry(None, through_memory).map(drop)
            }
            (true, _) if self.to.is_file => self.copy_extents(sparse),
            _ if self.is_small() => self.copy_small(),
            (_, Sparse::Always) if self.to.is_file => self.copy_but_zeros(),
            _ => self.carry(None, Way::Any).map(drop),
        }
    }

    /// Tells why there is no plan, where bytes are looked at for zeros.
    fn explain_by_hand(&self, because: &str) {
        let ends = (Endpoint::source(self.source), Endpoint::sink(self.sink));
        if let (Ok(source), Ok(sink)) = ends {
            explain_by_hand(&job(&source, &sink), because);
        }
    }

    /// Copies what is between the holes.
    fn copy_extents(&mut self, sparse: Sparse) -> Result<(), Fault> {
        // A copy that is gone on with has what is before.
        let start = rustix::fs::tell(self.source).map_err(Fault::Seeking)?;
        let (holes, mut at) = (Holes::of(self.source), start);
        if self.is_looked_through(&holes) {
            self.stand_at(start)?;
            return self.copy_but_zeros();
        }
        loop {
            let data = match holes.data(at) {
                Ok(Some(data)) => data,
                Ok(None) => {
                    let end = self.source_end()?;
                    // Nothing but a hole up to the end, unless bytes came behind it meanwhile.
                    match holes.data(at) {
                        Ok(None) => return self.extend(end),
                        _ => continue,
                    }
                }
                Err(Errno::INVAL | Errno::OPNOTSUPP) if at == start => {
                    return self.carry(None, Way::Any).map(drop);
                }
                Err(errno) => return Err(Fault::Seeking(errno)),
            };
            self.told.sparse =
                if sparse == Sparse::Always { "SEEK_HOLE + zeros" } else { "SEEK_HOLE" };
            let hole = match holes.hole(data) {
                // It was cut before that: what is there now is data up to its end.
                Err(Errno::NXIO) => self.source_end()?,
                answer => answer.map_err(Fault::Seeking)?,
            };
            if hole <= data {
                return self.extend(hole);
            }
            let end = match sparse {
                Sparse::Always => {
                    self.stand_at(data)?;
                    self.look_through(hole - data)?
                }
                _ if self.is_short(hole - data) => data + self.copy_short(data, hole - data)?,
                _ => {
                    self.stand_at(data)?;
                    data + self.carry(Some(hole - data), Way::Any)?
                }
            };
            if end < hole {
                // It was cut meanwhile.
                return self.extend(end);
            }
            at = hole;
        }
    }

    /// Whether holes are found by looking for zeros, as the classic finds them.
    fn is_looked_through(&self, holes: &Holes<'_>) -> bool {
        let (plan, extras) = (self.shared.plan, self.shared.extras);
        let is_chosen = !matches!(plan.route.as_deref(), None | Some("read-write"));
        let may = !is_chosen && !extras.direct && !extras.uncached;
        let bytes = u64::try_from(self.source_stat.st_size).unwrap_or(0);
        may && !self.is_short(bytes) && !tells_of_holes(holes, bytes)
    }

    /// Copies the rest of a file but for zeros.
    fn copy_but_zeros(&mut self) -> Result<(), Fault> {
        if self.shared.plan.explain_plan && self.shared.settings.sparse != Sparse::Always {
            self.explain_by_hand("holes that its file system does not tell of");
        }
        self.told.sparse = "zeros";
        let end = self.look_through(u64::MAX)?;
        self.extend(end)
    }

    fn source_end(&self) -> Result<u64, Fault> {
        rustix::fs::seek(self.source, SeekFrom::End(0)).map_err(Fault::Seeking)
    }

    /// Sets both files to a place.
    fn stand_at(&self, at: u64) -> Result<(), Fault> {
        rustix::fs::seek(self.source, SeekFrom::Start(at)).map_err(Fault::Seeking)?;
        rustix::fs::seek(self.sink, SeekFrom::Start(at)).map_err(Fault::Writing)?;
        Ok(())
    }

    /// How many threads copy parts of the file, where the plan has several do so: of those that are
    /// copied many at a time, each has one.
    fn threads(&self) -> Option<usize> {
        let at_a_time = self.shared.tally.at_work() > 1 || self.shared.stage.is_some();
        match at_a_time && !is_large(data_bytes(self.source_stat), self.sink) {
            true => Some(1),
            false => self.shared.extras.jobs.map(usize::from),
        }
    }

    /// Moves bytes by the engine; how many.
    fn carry(&mut self, limit: Option<u64>, way: Way) -> Result<u64, Fault> {
        let opening = |error: bytepath::endpoint::EndpointError| Fault::Opening(error.to_string());
        let source = Endpoint::source(self.source).map_err(opening)?;
        let sink = Endpoint::sink(self.sink).map_err(opening)?;
        let job = match limit {
            Some(bytes) => job(&source, &sink).limit(bytes),
            None => job(&source, &sink),
        };
        let knobs = Knobs { threads: self.threads(), ..Knobs::default() };
        let stopping = &self.shared.tally.stopping;
        let cancel =
            (source.kind() == Kind::File && sink.kind() == Kind::File).then_some(stopping.cancel());
        // Several threads leave gaps meanwhile, which no signal is to leave for good.
        let shared = self.shared;
        let planned = |plan: &Plan| {
            let mut routes = plan.routes().iter();
            let several = routes.next().is_some_and(|first| first.route.is_parallel())
                || routes.any(|choice| choice.rank == Rank::Together);
            if several {
                shared.takes_long();
            }
            !several || shared.may_leave_gaps()
        };
        let (meter, planned) = (&self.shared.hand.meter, Some(&planned as &dyn Fn(&Plan) -> bool));
        let carrying = Carrying { job, knobs, meter, cancel, planned };
        let (settings, extras) = (self.shared.settings, self.shared.extras);
        let shares = settings.reflink != Reflink::Never && way == Way::Any && !extras.uncached;
        let moved = || self.shared.moved(&carrying, shares, &mut self.dirty_bytes);
        match stopping.heeded(cancel.is_some(), moved) {
            Ok(moved) => {
                self.note(&moved, shares);
                Ok(moved.bytes)
            }
            Err(error) => Err(fault(error)),
        }
    }

    /// Notes what the movement shows of the ways there are.
    fn note(&mut self, moved: &Moved, shares: bool) {
        const OFFLOAD: &str = "copy-file-range";
        let declined = moved.declined.iter().any(|gave| gave.route == OFFLOAD);
        self.told.offload = match (shares, moved.bytes, declined) {
            (false, ..) => "avoided",
            (true, 0, _) => self.told.offload,
            (true, _, true) => "unsupported",
            (true, _, false) if moved.route == OFFLOAD => "yes",
            (true, _, false) => "no",
        };
    }

    /// Copies bytes but for whole blocks of zeros, which become holes; where it stopped.
    fn look_through(&mut self, limit: u64) -> Result<u64, Fault> {
        let start = match rustix::fs::tell(self.source) {
            // A pipe.
            Err(Errno::SPIPE) => 0,
            answer => answer.map_err(Fault::Seeking)?,
        };
        self.written_to = self.written_to.min(start);
        let block_bytes = rustix::fs::fstat(self.sink).map_err(Fault::Writing)?.st_blksize;
        let block_bytes = usize::try_from(block_bytes).unwrap_or(512).clamp(512, BLOCK_BYTES_MAX);
        let (mut room, mut done) = (room(LOOK_BYTES)?, 0);
        let room = room.as_mut_slice();
        while done < limit {
            let most =
                usize::try_from(limit - done).map_or(LOOK_BYTES, |left| left.min(LOOK_BYTES));
            let (count, filled) = self.fill(&mut room[..most]);
            let at = start + done;
            let written = self.write_but_holes(at, &room[..count], block_bytes);
            let end = written.map_or_else(|(end, _)| end, |()| at + count as u64);
            done = end - start;
            self.shared.hand.reached(end);
            self.count(Other::ReadWrite, end - at)?;
            let stopped = written.map_err(|(_, errno)| Fault::Writing(errno)).and(filled);
            if let Err(Fault::Reading(errno) | Fault::Writing(errno)) = stopped {
                self.shared.voice.ledger.stopped(errno, end);
            }
            stopped?;
            if count < most {
                break;
            }
        }
        Ok(start + done)
    }

    /// Reads until the room is full or the source ends, so that blocks stay whole; how much, and
    /// why no more.
    fn fill(&self, room: &mut [u8]) -> (usize, Result<(), Fault>) {
        let mut filled = 0;
        while filled < room.len() {
            match self.read(&mut room[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(fault) => return (filled, Err(fault)),
            }
        }
        (filled, Ok(()))
    }

    /// One read; 0 at the end.
    fn read(&self, room: &mut [u8]) -> Result<usize, Fault> {
        loop {
            match rustix::io::read(self.source, &mut *room) {
                Err(Errno::INTR) => {}
                answer => return answer.map_err(Fault::Reading),
            }
        }
    }

    /// Writes what is between blocks of zeros, each run of blocks by one call; or where that stopped.
    fn write_but_holes(
        &mut self,
        start: u64,
        bytes: &[u8],
        block_bytes: usize,
    ) -> Result<(), (u64, Errno)> {
        let (mut run, mut end) = (0, 0);
        for block in bytes.chunks(block_bytes) {
            if bytepath_show::is_zeros(block) {
                self.write_at(start + run as u64, &bytes[run..end])?;
                run = end + block.len();
            }
            end += block.len();
        }
        self.write_at(start + run as u64, &bytes[run..])
    }

    fn write_at(&mut self, mut at: u64, mut bytes: &[u8]) -> Result<(), (u64, Errno)> {
        if !bytes.is_empty() {
            self.punch(at);
            self.written_to = at + bytes.len() as u64;
        }
        while !bytes.is_empty() {
            match rustix::io::pwrite(self.sink, bytes, at) {
                Ok(0) => return Err((at, Errno::NOSPC)),
                Ok(count) => (at, bytes) = (at + count as u64, &bytes[count..]),
                Err(Errno::INTR) => {}
                Err(errno) => return Err((at, errno)),
            }
        }
        Ok(())
    }

    /// Makes a hole of what was not written before a place: XFS sets blocks aside behind the end of a
    /// file that grows, and keeps them where the next bytes are written behind them. A wish.
    fn punch(&self, end: u64) {
        if self.shared.settings.sparse == Sparse::Always && end > self.written_to {
            let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = rustix::fs::fallocate(self.sink, flags, self.written_to, end - self.written_to);
        }
    }

    /// Gives the copy its size, a hole at its end included. Not every file system lets that be set.
    fn extend(&self, end: u64) -> Result<(), Fault> {
        self.punch(end);
        let has_it = |stat: Stat| u64::try_from(stat.st_size) == Ok(end);
        match rustix::fs::fstat(self.sink).is_ok_and(has_it) {
            true => Ok(()),
            false => rustix::fs::ftruncate(self.sink, end).map_err(Fault::Extending),
        }
    }
}

/// Whether the file system of a file that lacks blocks tells where. Some refuse to (hugetlbfs), and
/// others call every file data from its beginning to its end (NFSv3, many of FUSE), as all do what they
/// compress. The file stands elsewhere afterwards.
fn tells_of_holes(holes: &Holes<'_>, bytes: u64) -> bool {
    match holes.data(0) {
        Ok(Some(0)) => holes.hole(0).map_or(true, |hole| hole < bytes),
        Err(Errno::INVAL | Errno::OPNOTSUPP) => false,
        _ => true,
    }
}

/// Memory to copy through: whole pages, as the kernel is slower between bytes that do not stand at the
/// same place in theirs.
fn room(bytes: usize) -> Result<Memory, Fault> {
    Memory::allocate(bytes, &Pages::default()).map_err(|error| Fault::Other(error.to_string()))
}

/// Which routes may be taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Any,
    /// Those that write every byte, zeros of holes included.
    Memory,
}

fn fault(error: CarryError) -> Fault {
    match error {
        CarryError::Transfer(TransferError::Failed(failed)) => match failed.side {
            // Its words about a sink may be about the source: a full disk stops either.
            _ if failed.call == "copy_file_range" => Fault::Copying(failed.errno),
            Side::Source => Fault::Reading(failed.errno),
            Side::Sink => Fault::Writing(failed.errno),
            Side::Either => Fault::Copying(failed.errno),
        },
        CarryError::Syncing { errno, .. } => Fault::Syncing(errno),
        other => Fault::Other(other.to_string()),
    }
}
