//! Memory that processes share, as a type that owns its mapping.
#![allow(unsafe_code)]

use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};

/// The pages of a file in memory, readable and writable, unmapped on drop.
///
/// Other processes write to them at any time, so they are seen as atomic words only.
#[derive(Debug)]
pub(crate) struct SharedMapping {
    start: NonNull<AtomicU64>,
    words: usize,
}

// SAFETY: a SharedMapping owns its mapping, and all access goes through atomics.
unsafe impl Send for SharedMapping {}
// SAFETY: as above.
unsafe impl Sync for SharedMapping {}

impl SharedMapping {
    /// Maps all of a file in memory that is sealed against shrinking: else whoever shares it could
    /// take the pages away and end this process by SIGBUS.
    pub(crate) fn of(file: BorrowedFd<'_>) -> Result<SharedMapping, Errno> {
        if !rustix::fs::fcntl_get_seals(file)?.contains(SealFlags::SHRINK) {
            return Err(Errno::PERM);
        }
        let bytes = usize::try_from(rustix::fs::fstat(file)?.st_size).unwrap_or(0);
        let words = bytes / size_of::<u64>();
        if words == 0 {
            return Err(Errno::INVAL);
        }
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the address, so no existing memory is replaced.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), words * 8, prot, MapFlags::SHARED, file, 0)
        }?;
        let start = NonNull::new(start.cast::<AtomicU64>()).ok_or(Errno::NOMEM)?;
        Ok(SharedMapping { start, words })
    }

    /// All of it.
    pub(crate) fn words(&self) -> &[AtomicU64] {
        // SAFETY: the mapping is so many words, page-aligned, backed by a file that cannot shrink,
        // and every process sees them as atomics.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.words) }
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no slice of it outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.words * 8) };
    }
}
