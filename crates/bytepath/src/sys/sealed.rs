//! Memory in a file without a name: first ours alone to be written, then sealed and read by anybody.
#![allow(unsafe_code)]

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::{Errno, retry_on_intr};
use rustix::mm::{Advice, MapFlags, ProtFlags};

use crate::pages::{HUGE_PAGE_BYTES, PageSize, PagesError, look_for_room, page_bytes, set_size};

/// A range of a file in memory, unmapped on drop.
#[derive(Debug)]
struct Mapped {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a Mapped owns its mapping; nothing in it belongs to a thread.
unsafe impl Send for Mapped {}
// SAFETY: shared access only reads.
unsafe impl Sync for Mapped {}

impl Mapped {
    fn of(file: BorrowedFd<'_>, prot: ProtFlags, flags: MapFlags) -> Result<Mapped, Errno> {
        let len = usize::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
        if len == 0 {
            return Err(Errno::INVAL);
        }
        let none = std::ptr::null_mut();
        // SAFETY: the kernel chooses the address, so no existing memory is replaced.
        let start = unsafe { rustix::mm::mmap(none, len, prot, flags, file, 0) }?;
        let start = NonNull::new(start.cast::<u8>()).ok_or(Errno::NOMEM)?;
        Ok(Mapped { start, len })
    }

    fn as_slice(&self) -> &[u8] {
        // SAFETY: so many bytes are mapped and readable; that nobody changes them meanwhile is said
        // where a Mapped is kept.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no slice of it outlives `self`.
        let gone = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(gone.is_ok(), "munmap of our own mapping: {gone:?}");
    }
}

/// Memory to be written, in a file that nobody else was given: its descriptor leaves only by
/// [`Draft::into_file`], which ends the mapping.
#[derive(Debug)]
pub(crate) struct Draft {
    mapped: Mapped,
    file: OwnedFd,
}

impl Draft {
    pub(crate) fn allocate(bytes: usize, size: PageSize) -> Result<Draft, PagesError> {
        let failed = |errno| PagesError::Map { bytes, size: size.name(), errno };
        let whole = bytes.checked_next_multiple_of(page_bytes(size));
        let whole = whole.ok_or_else(|| failed(Errno::NOMEM))?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let flags = match size {
            PageSize::Hugetlb => flags | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB,
            PageSize::Base | PageSize::Huge => {
                look_for_room(whole)?;
                flags
            }
        };
        let file = rustix::fs::memfd_create(c"bytepath", flags).map_err(failed)?;
        set_size(&file, whole).map_err(failed)?;
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        let mapped = Mapped::of(file.as_fd(), prot, MapFlags::SHARED).map_err(failed)?;
        if size == PageSize::Hugetlb {
            // What was never written to would be missed once it is sealed: see `Sealed::of`.
            let none = FallocateFlags::empty();
            retry_on_intr(|| rustix::fs::fallocate(&file, none, 0, whole as u64))
                .map_err(failed)?;
        }
        if size == PageSize::Huge && whole >= HUGE_PAGE_BYTES {
            let start = mapped.start.as_ptr().cast();
            // SAFETY: the range is this mapping; the advice changes no content.
            unsafe { rustix::mm::madvise(start, whole, Advice::LinuxHugepage) }
                .map_err(PagesError::NoHuge)?;
        }
        Ok(Draft { mapped, file })
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        self.mapped.as_slice()
    }

    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is writable and so long, and `&mut self` is the only access: nobody
        // else has the file.
        unsafe { std::slice::from_raw_parts_mut(self.mapped.start.as_ptr(), self.mapped.len) }
    }

    pub(crate) fn into_file(self) -> OwnedFd {
        self.file
    }
}

/// Memory that nobody can change, nor take away.
#[derive(Debug)]
pub(crate) struct Sealed(Mapped);

impl Sealed {
    /// Maps a file that is sealed against writing and shrinking; EPERM where it is not. The kernel
    /// seals against writing only where no writable mapping is left, and against holes with it. A file
    /// of the pool's pages has them all by then: to read one that is not there ends the process (SIGBUS)
    /// where the pool has no other.
    pub(crate) fn of(file: BorrowedFd<'_>) -> Result<Sealed, Errno> {
        if !rustix::fs::fcntl_get_seals(file)?.contains(SealFlags::WRITE | SealFlags::SHRINK) {
            return Err(Errno::PERM);
        }
        // Linux before 6.7 takes a shared mapping of such a file for one that could be written (EPERM).
        // A private one has the same pages, as nobody writes. Of a file of the pool's it reserves no pages
        // for copies, which are never made.
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        Mapped::of(file, ProtFlags::READ, flags).map(Sealed)
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        self.0.as_slice()
    }
}
