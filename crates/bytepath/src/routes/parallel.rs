//! `parallel`: several threads, each copying other slices.
//!
//! A file takes one write(2) at a time, whoever writes: its inode is locked meanwhile. On ext4 and xfs two
//! threads read into buffers of their own and write by turns (see [`buffered`]), so that one reads while the
//! other writes. Any further ones read into mappings of the sink (see [`mapped`]), whose pages are filled by
//! several at once, and leave where those are small, or memory for large ones has to be asked of a virtual
//! machine's host first. The kernel alone touches a mapping, so that a disk that is full, or a page that
//! cannot be had, is EFAULT and no SIGBUS; a source that becomes shorter meanwhile ends the read.
//!
//! Costs per slice: a lock; per MiB, by turns, a read, a write for each piece, and two copies, one of them out of a
//! cache; by a mapping two calls, one copy, and faults for pages.
//!
//! 1.4 GiB on 2 CPUs, medians of 7 and 11, as ratios to cp: ext4 2.0 by turns, 1.85 where the second tried a
//! mapping first, 1.6 by a mapping beside a thread that splices; xfs 1.9, 2.1 and 1.1; 700 MiB into memory that
//! was just freed, medians of 21: ext4 1.90, 1.87 and 1.65, xfs 2.19, 2.10 and 1.88. Two who splice, and wait for
//! the inode's lock instead of turns, gained less (1.32 by 64 KiB where those with buffers, which were slow
//! yet, gave 1.73).
//!
//! On btrfs, whose writes take longer, one splices (see [`piped`]) beside mappings with small pages: 1.53 and
//! 1.81 where two by turns gave 1.15 and 1.31.
//!
//! Into a file system in memory one splices too, and the others have pages come into being with their bytes
//! (see [`filled`]): no lock, no fault, and no page that is cleared before it is filled. 256 MiB from tmpfs to
//! tmpfs, medians of 3 on 2 CPUs: 0.18 s by copy_file_range, 0.29 by one mapping and 0.19 by one filler; 0.18
//! by two mappings, 0.107 by two fillers, 0.109 by one that splices beside a mapping, and 0.091 beside a filler.
//! (These filled out of a mapping of the source. Out of a buffer, large files take as long, and 4 MiB 2.6 ms
//! instead of 2.95.)
//! Where large pages are at hand, all of them read into mappings of such instead (see [`collapsed`]), of which the
//! kernel makes, fills and frees one in a third of the time that 512 small ones take: by one thread 2 and 4 MiB took
//! a third and 512 MiB half as long as sendfile, by two 16 MiB and more a third or less.
//!
//! What is in memory already goes into these so unasked, where the job allows any order: on tmpfs, by two
//! CPUs, as ratios to cp, which calls copy_file_range: 4 MiB 1.3 (1.2 by one thread), 8 MiB 1.4 (1.1), 16 MiB
//! 1.5 (1.1), 256 MiB 1.7, 1 GiB and more 1.7 to 4. It takes longer than one thread (0.9) where 512 MiB have to
//! be read from a disk.
//!
//! The sink grows by a window at a time, which a file system on a device has set aside before it is
//! mapped (setting memory aside would be half of the work, done by one thread; btrfs compresses nothing
//! that is set aside, and beyond a quota cannot cut back what is not: where it compresses, the route
//! declines), and by its last page only when all before it is there: a process that is killed leaves a file that is shorter than the
//! source. What ends the work early cuts the sink back to what it has without a gap, and is left to
//! the next route, which says what the matter is.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::Mutex;
use std::time::Duration;

use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::{Errno, ReadWriteFlags};
use rustix::thread::{sched_getcpu, sched_yield};
use rustix::time::{ClockId, clock_gettime};

use crate::endpoint::Kind;
use crate::error::{Refusal, Stop};
use crate::machine::{self, CpuList, LargePages};
use crate::pages::HUGE_PAGE_BYTES;
use crate::placement::leave_cpu;
use crate::routes::in_flight::{bytes_ahead, cut, ends_before, place, position};
use crate::routes::pieces::Pieces;
use crate::routes::{Aliasing, Job, Rank, Route, Span, read_write};
use crate::seal::Sealed;
use crate::sys::page_filler::PageFiller;
use buffered::Buffered;
use filled::Filled;
use mapped::Mapped;
use piped::Piped;
use slices::{Copied, Slice, Slices, Why};

mod buffered;
mod collapsed;
mod filled;
mod mapped;
mod piped;
mod slices;

/// A slice is long enough to earn its mapping back, and short enough for the threads to end together.
const SLICE_BYTES_MIN: u64 = 256 << 10;
const SLICE_BYTES_MAX: u64 = 8 << 20;
/// Slices for each thread, where there are that many bytes.
const SLICES_EACH: u64 = 8;

/// What the sink is made longer by at once.
const WINDOW_BYTES: u64 = 64 << 20;

/// Fewer bytes are not worth the threads: 32 MiB took 8.7 ms by two and 8.0 by one on ext4, 64 MiB 13.0 and 13.7.
const FROM_BYTES: u64 = 96 << 20;
/// On tmpfs one took less for 3 MiB (2.07 ms where two took 2.25), as long for 4, and more for 8 (5.6 and 4.2).
const FROM_BYTES_IN_MEMORY: u64 = 4 << 20;

/// File systems in memory.
const IN_MEMORY: &str = "tmpfs";
/// Where several threads fill a file faster, whatever its pages.
const PAGES_OF_ANY_SIZE: [&str; 2] = [IN_MEMORY, "btrfs"];
/// Where two write by turns, and mappings are faster if they have large pages, which shows when they are filled.
const LARGE_PAGES: [&str; 2] = ["ext4", "xfs"];

/// So many bytes of a source, spread over it, show whether it is in the page cache.
const PROBES: u64 = 8;

/// More threads than this get in each other's way in the file's page tree.
const THREADS_USUAL: usize = 4;
/// More than that nobody gets.
const THREADS_MAX: usize = 64;

/// See the module.
pub(super) struct Parallel;

const NAME: &str = "parallel";

impl Sealed for Parallel {}

impl Route for Parallel {
    fn name(&self) -> &'static str {
        NAME
    }

    fn summary(&self) -> &'static str {
        "several threads, each copying other slices, writing by turns or into mappings, file to file"
    }

    fn aliasing(&self, _: &Job<'_>) -> Aliasing {
        Aliasing::None
    }

    fn suits(&self, job: &Job<'_>) -> Result<Rank, Refusal> {
        self.is_allowed(job)?;
        let bytes = job.bytes_known().unwrap_or(0);
        let together = worth_it_from(job.sink.as_fd(), bytes)
            .is_some_and(|from| job.is_for_several(from))
            && !job.source.may_have_holes()
            && !machine::may_compress(job.sink.as_fd())
            && is_at_hand(job.source.as_fd(), bytes)
            && (self.gains_alone(job)
                || CpuList::of_this_thread().is_ok_and(|cpus| cpus.len() > 1));
        Ok(if together { Rank::Together } else { Rank::Unproven })
    }

    fn is_allowed(&self, job: &Job<'_>) -> Result<(), Refusal> {
        if job.keep_source {
            return Err(Refusal::because("parallel would advance the source"));
        }
        if (job.source.kind(), job.sink.kind()) != (Kind::File, Kind::File) {
            return Err(Refusal::because(format!(
                "parts can be copied out of order between two files, not a {} and a {}",
                job.source.kind(),
                job.sink.kind()
            )));
        }
        if job.source.same_file(job.sink) {
            return Err(Refusal::because("it would read what it has written"));
        }
        if job.sink.appends() {
            return Err(Refusal::because("a sink opened with O_APPEND is written in order"));
        }
        if job.source.is_direct() || job.sink.is_direct() {
            return Err(Refusal::because(
                "an end opened with O_DIRECT takes whole blocks, and its slices are of any size",
            ));
        }
        Ok(())
    }

    fn is_parallel(&self) -> bool {
        true
    }

    fn gains_alone(&self, job: &Job<'_>) -> bool {
        is_in_memory(job.sink.as_fd()) && LargePages::suit(job.bytes_known().unwrap_or(0))
    }

    fn maps_sink(&self) -> bool {
        true
    }

    fn goes_by_size(&self) -> bool {
        true
    }

    fn carry(&self, span: &Span<'_>) -> Result<(), Stop> {
        let (mut left, mut zero_at) = (span.limit, None);
        while left > 0 {
            let most = left.min(bytes_ahead(span));
            let copied = match most {
                0 => 0,
                most => Stretch::new(span, most)?.carry()?,
            };
            left -= copied;
            if (copied < most || most == 0) && super::ended(span, left, &mut zero_at)? {
                break;
            }
        }
        Ok(())
    }
}

/// How one of the threads copies.
enum Means<'a> {
    Pipe(Piped),
    Buffer(Buffered),
    Filling(Filled<'a>),
    Mapping(Mapped),
}

/// Bytes that the source has, on their way.
struct Stretch<'a> {
    span: &'a Span<'a>,
    /// Where both ends stand at first.
    source_at: u64,
    sink_at: u64,
    /// The sink's size at first, at its position or before.
    sink_ends_at: u64,
    bytes: u64,
    /// How many of them go out of order: all but those of the last page.
    bulk: u64,
    threads: usize,
    /// The sink, open for reading as well, where the span's is not.
    mappable: Option<OwnedFd>,
    /// What the sink is on, if that is known.
    file_system: Option<&'static str>,
    /// Whether its pages are made large where such are at hand.
    in_large_pages: bool,
    /// By which threads fill a sink in memory, where the kernel lets them. The threads have this one's filters,
    /// and each would ask at the cost of a process whether those kill.
    filler: Option<PageFiller>,
    slices: Mutex<Slices>,
    /// How much a write gives a sink with blocks on a device. Where two write, each does when it has them.
    pieces: Mutex<Pieces>,
}

impl<'a> Stretch<'a> {
    fn new(span: &'a Span<'a>, bytes: u64) -> Result<Self, Stop> {
        let (source_at, sink_at) = (position(span.source)?, position(span.sink)?);
        let sink_ends_at = ends_before(span, sink_at).ok_or_else(|| {
            Stop::Declined(Refusal::because(
                "the sink has bytes behind its position, over which nothing may go out of order",
            ))
        })?;
        if machine::may_compress(span.sink.as_fd()) {
            return Err(Stop::Declined(Refusal::because(
                "the sink is compressed, which what is set aside for it beforehand would not be",
            )));
        }
        let page = rustix::param::page_size() as u64;
        // The sink is to end before the last page, and the source's end in it.
        let bulk = ((sink_at + bytes - 1) / page * page).saturating_sub(sink_at);
        let threads = threads(span);
        let each = bulk / (threads as u64 * SLICES_EACH);
        let file_system = machine::type_of(span.sink.as_fd());
        let in_memory = file_system == Some(IN_MEMORY);
        let large = HUGE_PAGE_BYTES as u64;
        let in_large_pages = in_memory && sink_at.is_multiple_of(large) && LargePages::suit(bytes);
        if in_memory {
            LargePages::count(bytes);
        }
        let least = if in_memory && !in_large_pages { SLICE_BYTES_MIN } else { large };
        let slice_bytes = each.clamp(least, SLICE_BYTES_MAX) / least * least;
        let fills = in_memory && threads > 1 && bulk > 0;
        Ok(Stretch {
            span,
            source_at,
            sink_at,
            sink_ends_at,
            bytes,
            bulk,
            threads,
            mappable: if bulk > 0 { mappable(span.sink.as_fd())? } else { None },
            file_system,
            in_large_pages,
            filler: fills.then(PageFiller::open).and_then(Result::ok),
            slices: Mutex::new(Slices::new(bulk, slice_bytes)),
            pieces: Mutex::default(),
        })
    }

    /// Copies them; how many, which is fewer where the source has fewer than it says.
    fn carry(&self) -> Result<u64, Stop> {
        if self.bulk > 0 {
            let threads = self.threads.min(self.slices().count());
            let here = sched_getcpu();
            std::thread::scope(|scope| {
                for thread in 1..threads {
                    let begin = move || {
                        leave_cpu(here);
                        self.work(self.means(thread, threads), || ());
                    };
                    // Without memory for a thread, those that there are do its work.
                    let _ = std::thread::Builder::new().spawn_scoped(scope, begin);
                }
                // To those that are here.
                sched_yield();
                // Of the threads, this one alone tells the meter.
                self.work(self.means(0, threads), || self.tell());
            });
            let reached = self.leave()?;
            if reached < self.bulk {
                return Ok(reached);
            }
        }
        let rest = self.bytes - self.bulk;
        if self.bulk > 0 && !self.is_in_memory() {
            // ext4 writes all of a file to the device when it is closed if it was cut when it was opened, and
            // any block of it has no place yet: 100 MiB were closed in 17 to 200 ms. A refusal costs that.
            let keep = FallocateFlags::KEEP_SIZE;
            let _ = rustix::fs::fallocate(self.span.sink, keep, self.sink_at + self.bulk, rest);
        }
        self.copy_rest(rest).map(|rest| self.bulk + rest)
    }

    /// By which a thread copies, of those that there are.
    fn means(&self, thread: usize, threads: usize) -> Means<'_> {
        let slow_pages = self.file_system.is_some_and(|name| PAGES_OF_ANY_SIZE.contains(&name));
        let anyhow = || Means::Mapping(Mapped::anyhow());
        let spliced = || Piped::open().map_or_else(anyhow, Means::Pipe);
        let buffered = || Buffered::open().map_or_else(anyhow, Means::Buffer);
        match thread {
            0 if threads == 1 || slow_pages => spliced(),
            _ if self.is_in_memory() => {
                let filled = self.filler.as_ref().and_then(Filled::new);
                filled.map_or_else(anyhow, Means::Filling)
            }
            _ if slow_pages => anyhow(),
            0 | 1 => buffered(),
            _ => Means::Mapping(Mapped::while_fast()),
        }
    }

    /// Whether the sink's bytes are in memory and nowhere else.
    fn is_in_memory(&self) -> bool {
        self.file_system == Some(IN_MEMORY)
    }

    fn slices(&self) -> std::sync::MutexGuard<'_, Slices> {
        self.slices.lock().expect("nobody panics holding it")
    }

    /// Copies slices until there are none, or the work has ended early, or this thread is better gone.
    fn work<'m>(&'m self, mut means: Means<'m>, mut after: impl FnMut()) {
        while let Some(slice) = self.next() {
            let mut copied = self.copy(&mut means, &slice);
            let slow = matches!(copied.why, Some(Why::Slow));
            if slow {
                // What the second thread has.
                means = self.means(1, 2);
                copied = copied.then(|done| self.copy_by(&mut means, &slice.behind(done)));
            }
            // Not between these two, or no more: a read of the same bytes shows which.
            if matches!(copied.why, Some(Why::Refused)) {
                means = Means::Mapping(Mapped::anyhow());
                copied = self.copy_by(&mut means, &slice);
            }
            self.slices().copied(&slice, copied);
            after();
            if slow {
                return;
            }
        }
    }

    /// Copies a slice; how much of it, the calls that took, and why it is not all.
    fn copy(&self, means: &mut Means<'_>, slice: &Slice) -> Copied {
        if !self.in_large_pages {
            return self.copy_by(means, slice);
        }
        let ends = (self.span.source.as_fd(), self.mappable());
        let all = self.bytes - slice.at;
        let copied = collapsed::copy(ends, self.places(slice), (slice.bytes as usize, all));
        match copied.why {
            Some(Why::Slow) => copied.then(|done| self.copy_by(means, &slice.behind(done))),
            // The kernel makes no page large right before one that a filler waits for.
            Some(Why::Small) => {
                let mut pipe = Piped::open().map(Means::Pipe);
                let means = pipe.as_mut().unwrap_or(means);
                copied.then(|done| self.copy_by(means, &slice.behind(done)))
            }
            _ => copied,
        }
    }

    /// Likewise, where its pages are as the file system makes them.
    fn copy_by(&self, means: &mut Means<'_>, slice: &Slice) -> Copied {
        let source = self.span.source.as_fd();
        let (places, bytes) = (self.places(slice), slice.bytes as usize);
        match means {
            Means::Pipe(pipe) => {
                // A sink in memory takes page by page.
                let pieces = (!self.is_in_memory()).then_some(&self.pieces);
                pipe.copy(pieces, (source, self.span.sink.as_fd()), places, bytes)
            }
            Means::Buffer(buffer) => {
                buffer.copy(&self.pieces, (source, self.span.sink.as_fd()), places, bytes)
            }
            Means::Filling(filled) => filled.copy((source, self.mappable()), places, bytes),
            Means::Mapping(mapped) => {
                let all = self.bulk - slice.at;
                mapped.copy((source, self.mappable()), places, (bytes, all))
            }
        }
    }

    /// Where a slice is in the source and in the sink.
    fn places(&self, slice: &Slice) -> (u64, u64) {
        (self.source_at + slice.at, self.sink_at + slice.at)
    }

    /// The next slice, for which the sink has room.
    fn next(&self) -> Option<Slice> {
        let mut slices = self.slices();
        let slice = slices.next()?;
        if self.span.cancel.is_some_and(crate::wait::Cancel::is_cancelled) {
            slices.end(slice.at, Why::Cancelled);
            return None;
        }
        if slice.at + slice.bytes > slices.room {
            let more = WINDOW_BYTES.max(slice.bytes).min(self.bulk - slices.room);
            let grown = self.grow(slices.room, more);
            // A disk that is full may have made it longer by what it had (ext4).
            slices.room += more;
            if let Err(errno) = grown {
                slices.end(slice.at, Why::Room(errno));
                return None;
            }
        }
        Some(slice)
    }

    /// Makes the sink longer, by what the file system then has set aside unless that is memory.
    fn grow(&self, room: u64, more: u64) -> Result<(), Errno> {
        // A file that may not become so long is the business of who writes up to there.
        let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
        let end = self.sink_at + room + more;
        if limit.is_some_and(|limit| end > limit) {
            return Err(Errno::FBIG);
        }
        loop {
            let grown = match self.is_in_memory() {
                true => rustix::fs::ftruncate(self.span.sink, end),
                false => {
                    let flags = FallocateFlags::empty();
                    rustix::fs::fallocate(self.span.sink, flags, self.sink_at + room, more)
                }
            };
            match grown {
                Err(Errno::INTR) => {}
                answer => return answer,
            }
        }
    }

    /// The sink, open for reading and writing.
    fn mappable(&self) -> BorrowedFd<'_> {
        self.mappable.as_ref().map_or(self.span.sink.as_fd(), |sink| sink.as_fd())
    }

    /// Tells the meter of what the sink has without a gap.
    fn tell(&self) {
        let (bytes, calls) = self.slices().untold();
        self.span.meter.teller().tell(bytes, calls);
    }

    /// Leaves both ends behind what was copied without a gap; how much that is, or why it is not all
    /// that the source has.
    fn leave(&self) -> Result<u64, Stop> {
        let (reached, room) = {
            let mut slices = self.slices();
            (slices.settle(), slices.room)
        };
        self.tell();
        if room > reached {
            cut(self.span, NAME, self.sink_at + reached, self.sink_ends_at, reached)?;
        }
        place(self.span, NAME, self.source_at + reached, self.sink_at + reached)?;
        if self.slices().is_fault() {
            // Of a page that cannot be had a write says why not, once it has no room that was cut off here.
            let page = rustix::param::page_size() as u64;
            self.copy_rest((room - reached + page).min(self.bytes - reached))?;
        }
        self.slices().ended().map(|()| reached)
    }

    /// Copies the rest in order: the last page, or all of what is less than a page.
    fn copy_rest(&self, bytes: u64) -> Result<u64, Stop> {
        let before = self.span.meter.bytes();
        read_write::part(NAME, self.span, bytes)?;
        Ok(self.span.meter.bytes() - before)
    }
}

/// How many threads copy: as many as were asked for, else as there are CPUs, up to a few.
fn threads(span: &Span<'_>) -> usize {
    let cpus = || CpuList::of_this_thread().map_or(1, |cpus| cpus.len()).min(THREADS_USUAL);
    span.knobs.threads.unwrap_or_else(cpus).clamp(1, THREADS_MAX)
}

/// The sink once more, open for reading as well, where it is not: what a shell opens for `>` is for
/// writing alone, which nobody may map.
fn mappable(sink: BorrowedFd<'_>) -> Result<Option<OwnedFd>, Stop> {
    let declined = |errno| {
        Stop::Declined(Refusal::errno("the sink cannot be opened for reading as well", errno))
    };
    let flags = rustix::fs::fcntl_getfl(sink).map_err(declined)?;
    if flags & OFlags::RWMODE == OFlags::RDWR {
        return Ok(None);
    }
    // A thread may have a table of open files to itself.
    let name = format!("/proc/thread-self/fd/{}", sink.as_raw_fd());
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOCTTY;
    let open = || rustix::fs::open(&name, flags, Mode::empty());
    let again = rustix::io::retry_on_intr(open).map_err(declined)?;
    let inode = |file| rustix::fs::fstat(file).map(|stat| (stat.st_dev, stat.st_ino));
    match inode(again.as_fd()).map_err(declined)? == inode(sink).map_err(declined)? {
        true => Ok(Some(again)),
        false => Err(declined(Errno::STALE)),
    }
}

/// Whether the next so many bytes of a file are in memory, as far as a few of them show.
fn is_at_hand(file: BorrowedFd<'_>, bytes: u64) -> bool {
    if is_in_memory(file) {
        return true;
    }
    let Ok(start) = rustix::fs::tell(file) else { return false };
    let at_once = |probe: u64| {
        let (mut byte, at) = ([0], start + bytes / PROBES * probe);
        let mut into = [std::io::IoSliceMut::new(&mut byte)];
        rustix::io::preadv2(file, &mut into, at, ReadWriteFlags::NOWAIT) == Ok(1)
    };
    (0..PROBES).all(at_once)
}

/// Whether a file is in memory and nowhere else (tmpfs, memfd).
fn is_in_memory(file: BorrowedFd<'_>) -> bool {
    machine::type_of(file) == Some(IN_MEMORY)
}

/// From how many bytes on several threads fill a file faster than one, where its pages are as they
/// should be; `None` where they do not, as far as is known. One alone does if it makes them large, which no
/// other route does.
fn worth_it_from(sink: BorrowedFd<'_>, bytes: u64) -> Option<u64> {
    match machine::type_of(sink)? {
        IN_MEMORY if LargePages::suit(bytes) => Some(HUGE_PAGE_BYTES as u64),
        IN_MEMORY => Some(FROM_BYTES_IN_MEMORY),
        name if PAGES_OF_ANY_SIZE.contains(&name) || LARGE_PAGES.contains(&name) => {
            Some(FROM_BYTES)
        }
        _ => None,
    }
}

/// What this thread has used of CPUs: time in which it waited for one says nothing about memory.
fn cpu_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}
