//! The ways from a source descriptor to a sink descriptor, a file per mechanism, and the list of them.

use rustix::io::Errno;

use crate::endpoint::{Blocking, Endpoint, Kind};
use crate::error::{Failed, Refusal, Side, Stop};
use crate::knobs::Knobs;
use crate::meter::Meter;
use crate::seal::Sealed;
use crate::wait::{Cancel, Waiter};

mod copy_file_range;
mod direct;
mod dontcache;
mod fadvise;
mod in_flight;
mod mmap_write;
mod own_pipe;
mod parallel;
mod pieces;
mod read_write;
mod reflink;
mod room;
mod sendfile;
mod splice;
mod splice_through;
mod tee;
mod uncached;
mod uring;
mod uring_direct;

pub(crate) use in_flight::Queue;
pub(crate) use tee::nonblock_if;

/// Every route; among those that rank alike, the most general last. The planner, the help, the tests and the experiments go
/// through this list.
pub const ROUTES: &[&dyn Route] = &[
    &tee::Tee,
    &splice::Splice,
    &splice_through::SpliceThrough,
    &copy_file_range::CopyFileRange,
    &sendfile::Sendfile,
    &read_write::ReadWrite,
    &dontcache::DontCache,
    &fadvise::Fadvise,
    &reflink::Reflink,
    &mmap_write::MmapWrite,
    &parallel::Parallel,
    &uring::URING,
    &uring::REGISTERED,
    &uring::LINKED,
    &uring_direct::URING,
    &uring_direct::AIO,
];

/// Routes that `bytepath tune` measures unasked, where they suit; the others only by name.
pub const MEASURED_UNASKED: &[&str] =
    &["splice", "splice-through", "sendfile", "copy-file-range", "parallel", "read-write"];

/// Retries of a call that a signal interrupted are unbounded, as the signals are; everything else
/// in a route is bounded by the bytes that it moves. One call moves at most this many bytes, so
/// that no call keeps a CPU, or a cancel, waiting.
pub(crate) const SLICE_BYTES_MAX: usize = 64 << 20;

/// What a file is given by one call, where the knobs do not say.
///
/// File systems with large folios (ext4 since Linux 6.16, xfs, btrfs) take one piece of memory for as
/// much as one call writes. Up to so much, that is the faster, the more a call writes; pieces of
/// 256 KiB and more are often such as have not been used for long, which a virtual machine has given
/// back to its host (free page reporting) and has to ask for again: 512 MiB then took 1.2 s instead
/// of 0.12.
pub(crate) const FILE_WRITE_BYTES: usize = 128 << 10;

/// What is written at once to a socket that makes a message of it, at most: as much as GNU tee does.
/// UDP refuses more than [`DATAGRAM_BYTES_MAX`].
pub(crate) const MESSAGE_BYTES: usize = 8 << 10;

/// The longest message of UDP, in bytes. What is longer is no record but what a device such as /dev/urandom
/// gives at once.
const DATAGRAM_BYTES_MAX: usize = 65_507;

/// What is given to a sink at once that makes a message of each write, at most, of so many bytes that one read
/// of the source gave: a record as a whole, and 8 KiB of others. `None` for other sinks.
pub fn message_bytes(source: &Endpoint<'_>, sink: &Endpoint<'_>, read: usize) -> Option<usize> {
    let is_record = || match source.kind() {
        Kind::OtherSocket => source.makes_messages(),
        Kind::CharDevice | Kind::Anonymous => read <= DATAGRAM_BYTES_MAX,
        _ => false,
    };
    sink.makes_messages().then(|| if is_record() { read } else { MESSAGE_BYTES })
}

/// The route of this name.
pub fn by_name(name: &str) -> Option<&'static dyn Route> {
    ROUTES.iter().copied().find(|route| route.name() == name)
}

/// Whether bytes that a movement has delivered may still change, because their pages are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Aliasing {
    /// The sink holds copies.
    None,
    /// The sink holds pages of the source: writing to the source shows in what a reader of the
    /// sink has not yet taken.
    Source,
    /// The sink holds pages of the producer's memory.
    Memory,
}

/// What is to be moved, as far as the choice of a route depends on it: begins with [`Job::new`], and may come to
/// say more.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Job<'a> {
    /// Where the bytes come from.
    pub source: &'a Endpoint<'a>,
    /// Where they go.
    pub sink: &'a Endpoint<'a>,
    /// How many at most; all when `None`.
    pub limit: Option<u64>,
    /// See [`Job::stretch`].
    pub beyond: u64,
    /// Whether the sink may hold pages of the source instead of copies ([`Aliasing::Source`]).
    pub aliasing: Allowed,
    /// Whether the bytes stay in the source (which then has to be a pipe).
    pub keep_source: bool,
    /// What becomes of the page cache.
    pub cache: Cache,
    /// Whether the file system may let both files have the same blocks until either is written, and
    /// leave holes where the source has them.
    pub sharing: Allowed,
    /// See [`Job::allow_preallocation`].
    pub preallocation: Allowed,
    /// See [`Job::allow_any_order`].
    pub any_order: Allowed,
}

/// What a movement leaves in the page cache.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cache {
    /// Whatever the kernel keeps there.
    #[default]
    Keep,
    /// Of the source what was there before, and of the sink nothing that was written. Files of a
    /// file system in memory are in the page cache and nowhere else, and stay there.
    LeaveAsItWas,
}

/// A permission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allowed {
    /// Given.
    Yes,
    /// Withheld.
    No,
}

impl<'a> Job<'a> {
    /// Moves everything from `source` to `sink`, as copies.
    pub fn new(source: &'a Endpoint<'a>, sink: &'a Endpoint<'a>) -> Self {
        Job {
            source,
            sink,
            limit: None,
            beyond: 0,
            aliasing: Allowed::No,
            keep_source: false,
            cache: Cache::Keep,
            sharing: Allowed::Yes,
            preallocation: Allowed::No,
            any_order: Allowed::No,
        }
    }

    /// At most `bytes`.
    #[must_use]
    pub fn limit(self, bytes: u64) -> Self {
        Job { limit: Some(bytes), beyond: 0, ..self }
    }

    /// About `bytes`, as a part of a job that goes on: a read that has begun before the limit may take
    /// up to `beyond` bytes more. A source may give records (packets, datagrams, events), and loses, or
    /// refuses, what is not taken of one at once; so no read is cut for a part's sake.
    #[must_use]
    pub fn stretch(self, bytes: u64, beyond: u64) -> Self {
        Job { limit: Some(bytes), beyond, ..self }
    }

    /// Allows the sink to hold pages of the source: nobody writes to the source before the sink's
    /// reader has taken the bytes, or nobody minds.
    #[must_use]
    pub fn allow_aliasing(self) -> Self {
        Job { aliasing: Allowed::Yes, ..self }
    }

    /// How many bytes it moves at most, where that is known beforehand: by its limit, or by the size
    /// of a file. Files of /proc say 0, which tells nothing.
    pub fn bytes_known(&self) -> Option<u64> {
        let known = self.source.kind() == Kind::File && self.source.bytes() > 0;
        let size = if known { Some(self.source.bytes()) } else { None };
        let limit = self.limit.filter(|limit| *limit != u64::MAX);
        size.into_iter().chain(limit).min()
    }

    /// Leaves the page cache as it was: see [`Cache::LeaveAsItWas`]. The plan then has the routes that
    /// can, and waits for the device.
    #[must_use]
    pub fn leave_cache(self) -> Self {
        Job { cache: Cache::LeaveAsItWas, ..self }
    }

    /// Writes every byte anew: no blocks are shared, and no holes are left. By rules the bytes then go
    /// through memory of ours; a profile may prefer another route that copies.
    #[must_use]
    pub fn unshared(self) -> Self {
        Job { sharing: Allowed::No, ..self }
    }

    /// Allows blocks to be set aside behind the sink's end, ahead of what is written, and those that are
    /// not used to be cut off with all that is there: nobody else makes the sink longer meanwhile.
    #[must_use]
    pub fn allow_preallocation(self) -> Self {
        Job { preallocation: Allowed::Yes, ..self }
    }

    /// Allows several threads to write what comes later before what comes first, with zeros between until
    /// all is there, and the sink's position to stay until then: nobody else reads or writes the sink
    /// meanwhile, and who ends the movement cancels it and waits for it.
    #[must_use]
    pub fn allow_any_order(self) -> Self {
        Job { any_order: Allowed::Yes, ..self }
    }

    /// Has what comes first written first, whatever was allowed before.
    #[must_use]
    pub fn in_order(self) -> Self {
        Job { any_order: Allowed::No, ..self }
    }

    /// Whether several threads may do it without having been asked for by name: they may, and it is at
    /// least as large as this.
    pub(crate) fn is_for_several(&self, from_bytes: u64) -> bool {
        self.any_order == Allowed::Yes
            && self.bytes_known().is_some_and(|bytes| bytes >= from_bytes)
    }

    /// Duplicates what a pipe holds now and leaves it there.
    #[must_use]
    pub fn keep_source(self) -> Self {
        Job { keep_source: true, ..self }
    }
}

/// One way from a source descriptor to a sink descriptor. Made here only: what it needs to wait
/// and to count is private to this crate.
pub trait Route: Sync + Sealed {
    /// Its name on the command line and in reports.
    fn name(&self) -> &'static str;

    /// What it does, in one line.
    fn summary(&self) -> &'static str;

    /// Whether what it delivers may still change.
    fn aliasing(&self, job: &Job<'_>) -> Aliasing;

    /// How well it suits the job: higher is better; or why it does not. The one of several threads
    /// asks the kernel what the files are on and what of them is in memory; the others ask it
    /// nothing.
    ///
    /// # Errors
    /// The rule that the job breaks.
    fn suits(&self, job: &Job<'_>) -> Result<Rank, Refusal>;

    /// Whether the job breaks none of its rules, however well it suits. Asks nothing of the kernel.
    ///
    /// # Errors
    /// The rule that the job breaks.
    fn is_allowed(&self, job: &Job<'_>) -> Result<(), Refusal> {
        self.suits(job).map(drop)
    }

    /// Whether it leaves the page cache as it was; see [`Cache::LeaveAsItWas`].
    ///
    /// # Errors
    /// Why it cannot.
    fn leaves_cache(&self) -> Result<(), Refusal> {
        Err(Refusal::because("what it moves stays in the page cache"))
    }

    /// Whether it may leave the sink with blocks of the source, or with its holes.
    fn may_share(&self) -> bool {
        false
    }

    /// Whether its errors name the end that they are of, as those of reading and writing do, and it is
    /// no slower than those.
    fn is_as_good_as_reading(&self, _: &Job<'_>) -> bool {
        false
    }

    /// Whether it moves with several threads, of which [`Knobs::threads`] says how many.
    fn is_parallel(&self) -> bool {
        false
    }

    /// Whether one thread alone does that faster than other routes as well.
    fn gains_alone(&self, _: &Job<'_>) -> bool {
        false
    }

    /// Whether bytes of such a job may be in neither end while it moves them, but in memory or a pipe of
    /// ours: a process that ends meanwhile loses them, or leaves a file's position ahead by them. A [`Cancel`]
    /// sets that back, or has them told.
    fn holds_bytes(&self, _: &Job<'_>) -> bool {
        false
    }

    /// Whether it takes a file's size for what it has. Files of /proc and /sys say 0 and have content,
    /// which is theirs to give in order; copy_file_range gives none of it (Linux 5.3 to 5.18, see
    /// copy_file_range(2), BUGS).
    fn goes_by_size(&self) -> bool {
        false
    }

    /// Whether it maps the sink, which takes one that is open for reading as well.
    fn maps_sink(&self) -> bool {
        false
    }

    /// Moves bytes until the source ends or the limit is reached, and tells the meter.
    ///
    /// # Errors
    /// How it stopped short. After `Declined` nothing is in flight: what it took from the source
    /// was delivered, or set back.
    fn carry(&self, span: &Span<'_>) -> Result<(), Stop>;
}

/// A route's standing for a job, by rule; measured figures refine it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// Works, and is not known to be better than what works everywhere: taken only where it is
    /// asked for by name, or where measurements on this machine prefer it.
    Unproven,
    /// Works, and copies through user space.
    Copies,
    /// Stays in the kernel, and copies there.
    InKernel,
    /// The same by several threads at once, where the job allows it and the file system is one that
    /// is faster then.
    Together,
    /// Hands over pages, or lets the file system share or offload.
    ByReference,
}

/// What a route is given to carry out.
#[derive(Debug)]
pub struct Span<'a> {
    /// Where the bytes come from.
    pub source: &'a Endpoint<'a>,
    /// Where they go.
    pub sink: &'a Endpoint<'a>,
    /// How many at most.
    pub limit: u64,
    /// How many more a read may take that has begun before the limit: see [`Job::stretch`].
    pub beyond: u64,
    /// Whether blocks may be set aside behind the sink's end: see [`Job::allow_preallocation`].
    pub preallocation: Allowed,
    /// How.
    pub knobs: &'a Knobs,
    /// Whom to tell.
    pub meter: &'a Meter,
    /// Who may stop it.
    pub cancel: Option<&'a Cancel>,
}

impl Span<'_> {
    pub(crate) fn waiter(&self) -> Waiter<'_> {
        Waiter::new(self.knobs.wait, self.cancel, self.meter)
    }

    pub(crate) fn blocking(&self) -> Blocking {
        Blocking::unless(self.waiter().nonblocking())
    }

    /// How many bytes to ask for next, `left` being what the limit leaves.
    pub(crate) fn next_bytes(&self, left: u64, chunk_default: usize) -> usize {
        let chunk = self.knobs.chunk_bytes.unwrap_or(chunk_default).clamp(1, SLICE_BYTES_MAX);
        usize::try_from(left).map_or(chunk, |left| chunk.min(left))
    }

    /// How many bytes to read next into so much room: a read that has begun before the limit is not
    /// cut there (see [`Job::stretch`]).
    pub(crate) fn read_bytes(&self, left: u64, room: usize) -> usize {
        let most = usize::try_from(left.saturating_add(self.beyond));
        most.map_or(room, |most| room.min(most))
    }

    /// How many bytes the sink takes without sleeping when it is ready; any number where the call
    /// may sleep.
    pub(crate) fn sink_takes_bytes(&self) -> usize {
        match self.blocking() {
            Blocking::Yes => usize::MAX,
            Blocking::No => self.sink.ready_bytes(),
        }
    }

    /// The same for a call that hands over references to pages, of which a file makes copies.
    pub(crate) fn splice_takes_bytes(&self) -> usize {
        let most = self.chunk_for_sink(usize::MAX);
        self.sink_takes_bytes().min(self.knobs.chunk_bytes.map_or(most, |bytes| bytes.max(1)))
    }

    /// A route's own chunk, or what a file or a message is given at once: see [`FILE_WRITE_BYTES`] and
    /// [`MESSAGE_BYTES`].
    pub(crate) fn chunk_for_sink(&self, chunk_default: usize) -> usize {
        match self.sink.kind() {
            Kind::File => chunk_default.min(FILE_WRITE_BYTES),
            _ if self.sink.makes_messages() => chunk_default.min(MESSAGE_BYTES),
            _ => chunk_default,
        }
    }

    /// Which end is the socket: what errors of a connection are about.
    fn socket_side(&self) -> Side {
        match (self.source.kind().is_socket(), self.sink.kind().is_socket()) {
            (true, false) => Side::Source,
            (false, true) => Side::Sink,
            _ => Side::Either,
        }
    }

    /// Ends with the bytes in `held`, which were taken and are not delivered: set back where the
    /// source can be, else handed to the caller.
    pub(crate) fn stranded(&self, held: &[u8]) -> Vec<u8> {
        if held.is_empty() || self.source.take_back(held.len()) { Vec::new() } else { held.into() }
    }
}

/// What a call's errno means for a route whose bytes never enter user space.
pub(crate) fn judged(
    span: &Span<'_>,
    route: &'static str,
    call: &'static str,
    errno: Errno,
) -> Stop {
    let failed = |side| Stop::Failed(Failed::new(route, side, call, errno));
    match errno {
        // The sink's own words: no route could go on.
        Errno::PIPE | Errno::NOSPC | Errno::DQUOT | Errno::FBIG | Errno::ROFS => failed(Side::Sink),
        // A socket tells each of these once, and then calls itself ended: another route would take
        // a broken connection for the end of the bytes.
        Errno::CONNRESET
        | Errno::CONNABORTED
        | Errno::CONNREFUSED
        | Errno::TIMEDOUT
        | Errno::NOTCONN
        | Errno::HOSTDOWN
        | Errno::HOSTUNREACH
        | Errno::NETDOWN
        | Errno::NETRESET
        | Errno::NETUNREACH
        | Errno::NONET
        | Errno::PROTO => failed(span.socket_side()),
        // May come from either end: read-write names it.
        Errno::IO => failed(Side::Either),
        // The words for "not this way" (EINVAL, ENOSYS, EOPNOTSUPP, EXDEV, EPERM from seccomp,
        // EBADF for O_APPEND) may hide a fault that read-write names as well.
        _ => Stop::Declined(Refusal::errno(format!("{call} refuses this pair"), errno)),
    }
}

/// The same for calls that look for the reader of a pipe before they look at the source: where there
/// is nothing to give any more, one that has left misses nothing.
pub(crate) fn judged_at_end(
    span: &Span<'_>,
    route: &'static str,
    call: &'static str,
    errno: Errno,
) -> Result<(), Stop> {
    match errno {
        Errno::PIPE if span.source.has_ended() => Ok(()),
        _ => Err(judged(span, route, call, errno)),
    }
}

/// Whether a 0 from the kernel means the end: it does unless a read of the file says that there is more.
/// It may have grown in between; where the kernel gives 0 once more, with as much `left` as at the last 0
/// (`zero_at`), it has not.
///
/// copy_file_range, sendfile and splice answer 0 for files that have content but claim no size, or
/// a wrong one (/proc, /sys; see copy_file_range(2), BUGS), so that only a read shows their end.
pub(crate) fn ended(span: &Span<'_>, left: u64, zero_at: &mut Option<u64>) -> Result<bool, Stop> {
    if span.source.kind() != Kind::File {
        return Ok(true);
    }
    span.meter.called();
    match span.source.is_at_end() {
        Ok(false) if zero_at.replace(left) != Some(left) => Ok(false),
        Ok(true) => Ok(true),
        Ok(false) => Err(Stop::Declined(Refusal::because(
            "the kernel sees the end of the file where a read gives more",
        ))),
        Err(errno) => Err(Stop::Declined(Refusal::errno("the file's end has to be read", errno))),
    }
}
