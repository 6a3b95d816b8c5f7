//! Memory that processes share.

use std::ops::{Deref, DerefMut, Range};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::AtomicU64;

use rustix::fs::{MemfdFlags, SealFlags};
use rustix::io::Errno;

use super::{PageSize, PagesError, look_for_room, page_bytes, set_size};
use crate::sys::half_word::HalfWord;
use crate::sys::shared::SharedMapping;
use crate::sys::shared_bytes::{SharedBytes, SharedSpace};

/// Memory that this process shares with those that it hands the descriptor to.
#[derive(Debug)]
pub struct SharedMemory {
    mapped: MappedMemory,
    file: OwnedFd,
}

/// [`SharedMemory`] as it is mapped: it can be used for as long as it is, with no descriptor.
#[derive(Debug)]
pub struct MappedMemory {
    mapping: SharedMapping,
}

impl SharedMemory {
    /// Makes memory of at least this many bytes (above 0), zero until written, in whole pages, and
    /// sealed: nobody makes it shorter or longer. [`PageSize::Huge`] are transparent huge pages, on
    /// advice where the administrator lets shared memory have them so
    /// (/sys/kernel/mm/transparent_hugepage/shmem_enabled), else by moving the memory into such
    /// pages; [`MappedMemory::huge_bytes`] tells what came. They are all there at once.
    ///
    /// # Errors
    /// The kernel has no such memory to give.
    pub fn create(bytes: usize, size: PageSize) -> Result<SharedMemory, PagesError> {
        SharedMemory::made(bytes, size, SealFlags::empty())
    }

    /// Memory as [`SharedMemory::create`] makes it, which is written through this mapping and no
    /// other: whoever gets the descriptor can only read (F_SEAL_FUTURE_WRITE).
    ///
    /// # Errors
    /// As of [`SharedMemory::create`].
    pub(crate) fn create_for_readers(
        bytes: usize,
        size: PageSize,
    ) -> Result<SharedMemory, PagesError> {
        SharedMemory::made(bytes, size, SealFlags::FUTURE_WRITE)
    }

    fn made(bytes: usize, size: PageSize, seals: SealFlags) -> Result<SharedMemory, PagesError> {
        let failed = |errno| PagesError::Map { bytes, size: size.name(), errno };
        let whole = bytes.checked_next_multiple_of(page_bytes(size));
        let whole = whole.ok_or_else(|| failed(Errno::NOMEM))?;
        // They are touched here, others by the caller.
        if size == PageSize::Huge {
            look_for_room(whole)?;
        }
        let plain = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let flags = match size {
            PageSize::Hugetlb => plain | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB,
            PageSize::Base | PageSize::Huge => plain,
        };
        let file = rustix::fs::memfd_create(c"bytepath", flags).map_err(failed)?;
        set_size(&file, whole).map_err(failed)?;
        let size_seals = SealFlags::SHRINK | SealFlags::GROW;
        rustix::fs::fcntl_add_seals(&file, size_seals).map_err(failed)?;
        let mapping = SharedMapping::of(file.as_fd()).map_err(failed)?;
        // Those that forbid a mapping to be written come after it.
        rustix::fs::fcntl_add_seals(&file, seals | SealFlags::SEAL).map_err(failed)?;
        let memory = SharedMemory { mapped: MappedMemory { mapping }, file };
        if size == PageSize::Huge {
            memory.mapped.mapping.advise_huge().map_err(PagesError::NoHuge)?;
            memory.populate()?;
            if memory.huge_bytes().is_ok_and(|bytes| bytes == 0) {
                // Where that is refused, they are small.
                let _ = memory.mapped.mapping.collapse();
            }
        }
        Ok(memory)
    }

    /// Maps memory that another process made.
    ///
    /// # Errors
    /// It is no memory of [`SharedMemory::create`]: another file, or one that may shrink.
    pub fn open(file: OwnedFd) -> Result<SharedMemory, PagesError> {
        let mapping = SharedMapping::of(file.as_fd()).map_err(|errno| unmapped(&file, errno))?;
        Ok(SharedMemory { mapped: MappedMemory { mapping }, file })
    }

    /// Maps a page of [`SharedMemory::create`], to be read and written, and behind it memory of
    /// [`SharedMemory::create_for_readers`], to be read. Nobody stores to its words but to those of
    /// the page.
    ///
    /// # Errors
    /// They are not such memory, or may be written by others.
    pub(crate) fn behind_page(
        page: BorrowedFd<'_>,
        file: OwnedFd,
    ) -> Result<SharedMemory, PagesError> {
        let failed = |errno| unmapped(&file, errno);
        let seals = rustix::fs::fcntl_get_seals(&file).map_err(failed)?;
        if !seals.contains(SealFlags::FUTURE_WRITE) {
            return Err(failed(Errno::PERM));
        }
        let mapping = SharedMapping::behind_page(page, file.as_fd()).map_err(failed)?;
        Ok(SharedMemory { mapped: MappedMemory { mapping }, file })
    }

    /// The memory alone: the descriptor is closed.
    pub(crate) fn into_mapped(self) -> MappedMemory {
        self.mapped
    }

    /// The mapping, and the descriptor.
    pub(crate) fn into_parts(self) -> (SharedMapping, OwnedFd) {
        (self.mapped.mapping, self.file)
    }
}

impl MappedMemory {
    /// Has all of its pages there, so that none is missed later.
    ///
    /// # Errors
    /// There is not so much memory.
    pub(crate) fn populate(&self) -> Result<(), PagesError> {
        self.populated(self.mapping.populate())
    }

    /// Likewise where others have made it.
    ///
    /// # Errors
    /// There is not so much memory.
    pub(crate) fn populate_to_read(&self) -> Result<(), PagesError> {
        self.populated(self.mapping.populate_to_read())
    }

    fn populated(&self, answer: Result<(), Errno>) -> Result<(), PagesError> {
        match answer {
            // Linux before 5.14 does not know the advice: pages come as they are touched.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(errno) => Err(PagesError::Map { bytes: self.len(), size: "shared", errno }),
        }
    }

    /// Bytes that it has.
    pub fn len(&self) -> usize {
        self.words().len() * size_of::<u64>()
    }

    /// Whether it holds nothing; it never does.
    pub fn is_empty(&self) -> bool {
        self.words().is_empty()
    }

    /// All of it. Whoever shares it writes at any time.
    pub fn words(&self) -> &[AtomicU64] {
        self.mapping.words()
    }

    /// A word whose first half can be slept on (futex(2)).
    ///
    /// # Panics
    /// It has no such word.
    pub fn half_word(&self, index: usize) -> HalfWord<'_> {
        HalfWord::of(&self.words()[index])
    }

    /// A range of its bytes, to be read. Meanwhile no other thread of this process stores to its words:
    /// bytes are copied as if nobody did.
    ///
    /// ```compile_fail,E0502
    /// # use bytepath::pages::{PageSize, SharedMemory};
    /// # use std::sync::atomic::Ordering::Relaxed;
    /// let mut memory = SharedMemory::create(4096, PageSize::Base).unwrap();
    /// let word = &memory.words()[0];
    /// let bytes = memory.bytes(0..8);
    /// word.store(1, Relaxed);
    /// ```
    ///
    /// # Panics
    /// It does not have the range.
    pub fn bytes(&mut self, range: Range<usize>) -> SharedBytes<'_> {
        self.mapping.bytes(range)
    }

    /// A range of its bytes, to be written.
    ///
    /// # Panics
    /// It does not have the range.
    pub fn space(&mut self, range: Range<usize>) -> SharedSpace<'_> {
        self.mapping.space(range)
    }

    pub(crate) fn mapping(&self) -> &SharedMapping {
        &self.mapping
    }

    /// How many of its bytes this process has mapped by 2 MiB pages, by /proc/self/smaps.
    ///
    /// # Errors
    /// That file cannot be read.
    pub fn huge_bytes(&self) -> Result<usize, PagesError> {
        // The names of files are bytes.
        let smaps = std::fs::read("/proc/self/smaps");
        let smaps = smaps.map_err(|e| PagesError::Unknown(format!("/proc/self/smaps: {e}")))?;
        Ok(huge_bytes_at(&String::from_utf8_lossy(&smaps), self.mapping.address()))
    }
}

/// Memory that another process made cannot be mapped.
pub(crate) fn unmapped(file: impl AsFd, errno: Errno) -> PagesError {
    let bytes = rustix::fs::fstat(file).map_or(0, |found| found.st_size as usize);
    PagesError::Map { bytes, size: "shared", errno }
}

/// What proc_pid_smaps(5) tells of the mapping that begins at this address.
fn huge_bytes_at(smaps: &str, address: usize) -> usize {
    let begins = format!("{address:x}-");
    let of_it = smaps.lines().skip_while(|line| !line.starts_with(&begins)).skip(1);
    // A line of numbers has a name with a colon; the head of the next mapping has none.
    let numbers =
        of_it.map_while(|line| line.split_once(':').filter(|(name, _)| !name.contains('-')));
    let huge = numbers
        .filter(|(name, _)| ["ShmemPmdMapped", "Shared_Hugetlb", "Private_Hugetlb"].contains(name));
    let kib = huge.filter_map(|(_, value)| value.split_whitespace().next()?.parse::<usize>().ok());
    kib.sum::<usize>() << 10
}

impl Deref for SharedMemory {
    type Target = MappedMemory;

    fn deref(&self) -> &MappedMemory {
        &self.mapped
    }
}

impl DerefMut for SharedMemory {
    fn deref_mut(&mut self) -> &mut MappedMemory {
        &mut self.mapped
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
    fn what_was_made_keeps_its_length() {
        let memory = SharedMemory::create(4096, PageSize::Base).expect("memory");
        for bytes in [0, 8192] {
            assert_eq!(rustix::fs::ftruncate(memory.as_fd(), bytes), Err(Errno::PERM));
        }
    }

    #[test]
    fn huge_pages_are_counted_of_the_mapping_that_was_asked_for() {
        let smaps = "10-20 rw-s 00000000 00:01 7 /memfd:a\nSize: 8 kB\nShmemPmdMapped: 2048 kB\n\
                     20-30 rw-s 00000000 00:01 8 /memfd:b\nSize: 8 kB\nShmemPmdMapped: 4096 kB\n\
                     Shared_Hugetlb: 2048 kB\nVmFlags: rd wr\n30-40 rw-s 0 0:1 9 /memfd:c\n\
                     ShmemPmdMapped: 2048 kB\n";
        let counted = [0x10, 0x20, 0x30, 0x50].map(|address| huge_bytes_at(smaps, address));
        assert_eq!(counted, [2 << 20, 6 << 20, 2 << 20, 0]);
    }

    #[test]
    fn a_file_that_may_shrink_is_not_shared() {
        let file = tempfile::tempfile().expect("a file");
        assert!(SharedMemory::open(file.into()).is_err());
        let memfd = rustix::fs::memfd_create(c"test", MemfdFlags::CLOEXEC).expect("a memfd");
        assert!(SharedMemory::open(memfd).is_err());
    }
}
