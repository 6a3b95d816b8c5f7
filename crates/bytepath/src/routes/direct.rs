//! What routes past the page cache share: files opened again with O_DIRECT, and the parts of a
//! movement that are no whole blocks.
//!
//! O_DIRECT belongs to everybody who shares an open file, so it is never set on the descriptors
//! that were given: the files are opened once more, by their links in /proc/thread-self/fd.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::endpoint::Endpoint;
use crate::error::{Refusal, Stop};
use crate::pages::{PageSize, page_bytes};
use crate::ring::Target;
use crate::routes::in_flight::{self, Ended, Ends, Pairing, Stretch, bytes_ahead, position};
use crate::routes::{Job, Span, read_write};

/// Both files, open past the page cache.
pub(super) struct Direct {
    name: &'static str,
    source: OwnedFd,
    sink: OwnedFd,
    align: usize,
}

/// Why a direct route does not suit a job; asks nothing of the kernel.
pub(super) fn suits(job: &Job<'_>, what: &str) -> Result<(), Refusal> {
    for end in [job.source, job.sink] {
        if !end.kind().is_cached() {
            return Err(Refusal::because(format!(
                "{what} goes past the page cache, in which a {} has no part",
                end.kind()
            )));
        }
    }
    in_flight::suits(job, what)
}

impl Direct {
    /// Opens both again, and finds out in which blocks they want to be read and written.
    ///
    /// Blocks are never smaller than a page: what goes through the page cache, before and behind,
    /// then shares no page with what goes past it.
    pub(super) fn open(name: &'static str, span: &Span<'_>) -> Result<Direct, Stop> {
        let source = again(span.source, OFlags::RDONLY, "source")?;
        let sink = again(span.sink, OFlags::WRONLY, "sink")?;
        let page = page_bytes(PageSize::Base);
        let align = [&source, &sink].map(block_bytes).into_iter().fold(page, usize::max);
        Ok(Direct { name, source, sink, align })
    }

    pub(super) fn align(&self) -> usize {
        self.align
    }

    pub(super) fn ends(&self, pairing: Pairing) -> Ends<'_> {
        let (source, sink) = (self.source.as_fd(), self.sink.as_fd());
        Ends {
            name: self.name,
            source: Target::Borrowed(source),
            sink: Target::Borrowed(sink),
            align: self.align,
            pairing,
        }
    }

    /// Moves up to the first block through the page cache, whole blocks by `carry`, and the rest
    /// through the page cache again.
    pub(super) fn carry(
        &self,
        span: &Span<'_>,
        carry: impl FnOnce(&Span<'_>) -> Result<Stretch, Stop>,
    ) -> Result<(), Stop> {
        let align = self.align as u64;
        let head = self.head_bytes(span)?.min(span.limit);
        read_write::part(self.name, span, head)?;
        let left = span.limit - head;
        let whole = left.min(bytes_ahead(span));
        let whole = whole - whole % align;
        let mut left = left;
        if whole > 0 {
            let stretch = carry(&Span { limit: whole, ..*span })?;
            left -= stretch.bytes;
            let ended = stretch.ended?;
            // The device ends with whole blocks, or the file became shorter: a read will tell.
            debug_assert!(ended == Ended::Early || stretch.bytes == whole);
        }
        read_write::part(self.name, span, left)
    }

    /// Bytes before both ends stand on a block.
    fn head_bytes(&self, span: &Span<'_>) -> Result<u64, Stop> {
        let (source, sink) = (position(span.source)?, position(span.sink)?);
        let align = self.align as u64;
        if source % align != sink % align {
            let reason = format!(
                "byte {source} of the source goes to byte {sink} of the sink, and direct access \
                 needs both at the same place in a block of {align} bytes"
            );
            return Err(Stop::Declined(
                Refusal::because(reason).remedy("go through the page cache, by another route"),
            ));
        }
        Ok(source.next_multiple_of(align) - source)
    }
}

/// The same file, past the page cache.
fn again(end: &Endpoint<'_>, way: OFlags, side: &str) -> Result<OwnedFd, Stop> {
    let path = format!("/proc/thread-self/fd/{}", end.as_fd().as_raw_fd());
    let flags = way | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NOCTTY;
    let open = || rustix::fs::open(&path, flags, Mode::empty());
    rustix::io::retry_on_intr(open).map_err(|errno| {
        let refusal = Refusal::errno(format!("the {side} cannot be opened with O_DIRECT"), errno);
        Stop::Declined(match errno {
            Errno::INVAL => refusal.remedy("its file system has no direct access"),
            Errno::NOENT => refusal.remedy("it takes /proc to be mounted"),
            Errno::ACCESS | Errno::PERM => {
                refusal.remedy("its permissions have changed since it was opened")
            }
            _ => refusal,
        })
    })
}

/// The offsets and sizes that direct access wants to be multiples of, where the kernel tells
/// (statx(2) STATX_DIOALIGN, Linux 6.1); 0 where it does not.
fn block_bytes(file: &OwnedFd) -> usize {
    // Only block devices answer this.
    if let Ok(bytes) = rustix::fs::ioctl_blksszget(file) {
        return bytes as usize;
    }
    let empty = c"";
    let flags = rustix::fs::AtFlags::EMPTY_PATH;
    let told = rustix::fs::statx(file, empty, flags, StatxFlags::from_bits_retain(STATX_DIOALIGN));
    told.map_or(0, |told| {
        if told.stx_mask & STATX_DIOALIGN == 0 { 0 } else { told.stx_dio_offset_align as usize }
    })
}

/// See statx(2).
const STATX_DIOALIGN: u32 = 0x2000;
