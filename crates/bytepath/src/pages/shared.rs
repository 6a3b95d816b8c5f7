//! Memory that processes share.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, SealFlags};

use super::{PageSize, PagesError};
use crate::sys::shared::SharedMapping;

/// Memory that this process shares with those that it hands the descriptor to.
#[derive(Debug)]
pub struct SharedMemory {
    mapping: SharedMapping,
    file: OwnedFd,
}

impl SharedMemory {
    /// Makes memory of this many bytes, zero until written. Huge pages come from the pool of
    /// hugetlbfs; those that are transparent are the administrator's choice for all shared memory
    /// (/sys/kernel/mm/transparent_hugepage/shmem_enabled), so [`PageSize::Huge`] is the same as
    /// [`PageSize::Base`] here.
    ///
    /// # Errors
    /// The kernel has no such memory to give.
    pub fn create(bytes: usize, size: PageSize) -> Result<SharedMemory, PagesError> {
        let failed = |errno| PagesError::Map { bytes, size: size.name(), errno };
        let plain = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let flags = match size {
            PageSize::Hugetlb => plain | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB,
            PageSize::Base | PageSize::Huge => plain,
        };
        let file = rustix::fs::memfd_create(c"bytepath", flags).map_err(failed)?;
        rustix::fs::ftruncate(&file, bytes as u64).map_err(failed)?;
        rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK).map_err(failed)?;
        let mapping = SharedMapping::of(file.as_fd()).map_err(failed)?;
        Ok(SharedMemory { mapping, file })
    }

    /// Maps memory that another process made.
    ///
    /// # Errors
    /// It is no memory of [`SharedMemory::create`]: another file, or one that may shrink.
    pub fn open(file: OwnedFd) -> Result<SharedMemory, PagesError> {
        let failed = |errno| PagesError::Map { bytes: 0, size: "shared", errno };
        let mapping = SharedMapping::of(file.as_fd()).map_err(failed)?;
        Ok(SharedMemory { mapping, file })
    }

    /// All of it. Whoever shares it writes at any time.
    pub fn words(&self) -> &[AtomicU64] {
        self.mapping.words()
    }
}

impl AsFd for SharedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn what_one_writes_the_other_reads() {
        let ours = SharedMemory::create(8192, PageSize::Base).expect("memory");
        let theirs = ours.as_fd().try_clone_to_owned().expect("a descriptor");
        let theirs = SharedMemory::open(theirs).expect("mapped");
        ours.words()[1023].store(7, Relaxed);
        assert_eq!((theirs.words().len(), theirs.words()[1023].load(Relaxed)), (1024, 7));
    }

    #[test]
    fn a_file_that_may_shrink_is_not_shared() {
        let file = tempfile::tempfile().expect("a file");
        assert!(SharedMemory::open(file.into()).is_err());
        let memfd = rustix::fs::memfd_create(c"test", MemfdFlags::CLOEXEC).expect("a memfd");
        assert!(SharedMemory::open(memfd).is_err());
    }
}
