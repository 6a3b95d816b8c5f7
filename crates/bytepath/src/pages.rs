//! The memory that bytes are produced from or read into, by the pages it is made of.

mod shared;

use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;

use rustix::io::Errno;
use rustix::mm::MapFlags;

use crate::machine::{MemoryRoom, memory_room};
use crate::size::shown;
use crate::sys::memory::Mapping;

pub use crate::sys::half_word::HalfWord;
pub(crate) use shared::unmapped;
pub use shared::{MappedMemory, SharedMemory};

/// The size of a huge page that is a leaf of the second page-table level, on x86-64 and on
/// aarch64 with 4 KiB pages.
pub const HUGE_PAGE_BYTES: usize = 2 << 20;

/// Which pages a buffer is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PageSize {
    /// The machine's smallest, 4 KiB on x86-64.
    #[default]
    Base,
    /// 2 MiB by transparent huge pages (madvise(2) with MADV_HUGEPAGE), where the kernel has them
    /// to give: [`Memory::huge_bytes`] tells what came.
    Huge,
    /// 2 MiB from the pool of hugetlbfs, which an administrator has to fill.
    Hugetlb,
}

impl PageSize {
    /// The names that [`PageSize::named`] takes.
    pub const NAMES: &[&str] = &["base", "huge", "hugetlb"];

    /// The page size of this name.
    pub fn named(name: &str) -> Option<PageSize> {
        Some(match name {
            "base" => PageSize::Base,
            "huge" => PageSize::Huge,
            "hugetlb" => PageSize::Hugetlb,
            _ => return None,
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            PageSize::Base => "base",
            PageSize::Huge => "huge",
            PageSize::Hugetlb => "hugetlb",
        }
    }
}

/// How a buffer's pages are to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pages {
    /// Their size.
    pub size: PageSize,
    /// Whether they are locked in memory (mlock), within RLIMIT_MEMLOCK.
    pub locked: bool,
}

/// Why memory of the wanted kind is not to be had.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PagesError {
    /// The mapping failed.
    #[error("cannot map {} in {size} pages: {}{}", shown(*.bytes as u64), std::io::Error::from(*.errno), map_hint(.size, *.errno))]
    Map {
        /// Bytes asked for.
        bytes: usize,
        /// The page size's name.
        size: &'static str,
        /// The kernel's word.
        errno: Errno,
    },
    /// It would take more memory than is there: the kernel would end processes for it.
    #[error(
        "cannot take {} of memory: {room}; take less, or free some",
        shown(*.bytes as u64)
    )]
    NoRoom {
        /// Bytes asked for.
        bytes: usize,
        /// What there is.
        room: MemoryRoom,
    },
    /// The kernel does not take the advice.
    #[error(
        "cannot ask for transparent huge pages: {}; the kernel may be built without them or they \
         are set to never in /sys/kernel/mm/transparent_hugepage/enabled",
        std::io::Error::from(*.0)
    )]
    NoHuge(Errno),
    /// The pages could not be locked.
    #[error(
        "cannot lock {} in memory: {}; raise RLIMIT_MEMLOCK (ulimit -l) or lock less",
        shown(*.bytes as u64),
        std::io::Error::from(*.errno)
    )]
    Lock {
        /// Bytes to be locked.
        bytes: usize,
        /// The kernel's word.
        errno: Errno,
    },
    /// What the pages are could not be looked up.
    #[error("cannot look up which pages the buffer has: {0}")]
    Unknown(String),
}

/// Gives a file in memory its size.
pub(crate) fn set_size(file: impl AsFd, bytes: usize) -> Result<(), Errno> {
    // The kernel would end this process, by SIGXFSZ.
    let most = rustix::process::getrlimit(rustix::process::Resource::Fsize).current;
    match most.is_some_and(|most| bytes as u64 > most) {
        true => Err(Errno::FBIG),
        false => rustix::fs::ftruncate(file, bytes as u64),
    }
}

/// Less than this is taken without a look at what there is, which costs 0.1 ms.
const LOOKED_AT_BYTES: usize = 16 << 20;

/// Refuses what there is no memory for, before the kernel ends processes, be it this one, as its pages
/// come.
pub(crate) fn look_for_room(bytes: usize) -> Result<(), PagesError> {
    if bytes < LOOKED_AT_BYTES {
        return Ok(());
    }
    let room = memory_room();
    if bytes as u64 > room.bytes.saturating_add(room.swap_bytes) {
        Err(PagesError::NoRoom { bytes, room })
    } else {
        Ok(())
    }
}

fn map_hint(size: &'static str, errno: Errno) -> &'static str {
    match (size, errno) {
        ("hugetlb", Errno::NOMEM) => {
            "; the pool is empty: an administrator fills it by /proc/sys/vm/nr_hugepages"
        }
        (_, Errno::NOMEM) => "; not enough memory, or above a limit (ulimit -v)",
        (_, Errno::AGAIN) => {
            "; what this process maps is locked in memory, and this passes its limit: raise \
             RLIMIT_MEMLOCK (ulimit -l)"
        }
        (_, Errno::FBIG) => "; a file in memory would pass a size limit: raise yours (ulimit -f)",
        // Such is memory in a file that was made before.
        ("sealed" | "shared", _) => "",
        (_, Errno::PERM | Errno::NOSYS) => {
            "; a sandbox may refuse memfd_create(2): allow it there, or run outside"
        }
        _ => "",
    }
}

/// Memory of our own, in whole pages, zero until written.
#[derive(Debug)]
pub struct Memory {
    mapping: Mapping,
    len: usize,
}

impl Memory {
    /// Maps at least `bytes` (above 0). Huge pages are aligned and rounded up to whole ones.
    ///
    /// # Errors
    /// The kernel has no such memory to give, or may not lock it.
    pub fn allocate(bytes: usize, pages: &Pages) -> Result<Memory, PagesError> {
        let page = page_bytes(pages.size);
        let size = pages.size.name();
        let no_memory = |errno| PagesError::Map { bytes, size, errno };
        let whole =
            bytes.max(1).checked_next_multiple_of(page).ok_or_else(|| no_memory(Errno::NOMEM))?;
        let flags = match pages.size {
            PageSize::Hugetlb => MapFlags::HUGETLB | MapFlags::HUGE_2MB,
            PageSize::Base | PageSize::Huge => MapFlags::empty(),
        };
        let mut mapping = Mapping::anonymous(whole, page, flags).map_err(no_memory)?;
        if pages.size == PageSize::Huge {
            mapping.advise_huge().map_err(PagesError::NoHuge)?;
        }
        if pages.locked {
            mapping.lock().map_err(|errno| PagesError::Lock { bytes: whole, errno })?;
        }
        Ok(Memory { mapping, len: bytes })
    }

    /// The bytes asked for.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it holds nothing; it never does.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.mapping.as_slice()[..self.len]
    }

    /// The bytes, to be written.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        let len = self.len;
        &mut self.mapping.as_mut_slice()[..len]
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    pub(crate) fn mapping_mut(&mut self) -> &mut Mapping {
        &mut self.mapping
    }

    /// How many of its bytes lie in huge pages, by /proc/self/pagemap and /proc/kpageflags.
    ///
    /// # Errors
    /// Those files tell it to root only.
    pub fn huge_bytes(&self) -> Result<usize, PagesError> {
        let open = |path: &str| {
            File::open(path).map_err(|error| {
                PagesError::Unknown(format!("{path}: {error}; only root may, so check as root"))
            })
        };
        let (pagemap, kpageflags) = (open("/proc/self/pagemap")?, open("/proc/kpageflags")?);
        let page = page_bytes(PageSize::Base);
        let mut huge = 0;
        for at in (0..self.mapping.len()).step_by(page) {
            if is_huge(&pagemap, &kpageflags, (self.mapping.address() + at) / page)? {
                huge += page;
            }
        }
        Ok(huge)
    }
}

/// Zeros that begin where a page does, in memory of the allocator's: what system calls copy into.
///
/// The kernel copies with `rep movsb`, which is slow on AMD's CPUs since Zen 3 where the destination stands less than
/// 32 bytes further in its page than the source (<https://xuanwo.io/2023/04-rust-std-fs-slower-than-python/>).
/// A `Vec` of 128 KiB and more stands 16 bytes behind the start of a page, as all that glibc maps for
/// malloc; what is in a file's pages stands at their starts. Reading a file in the cache by 1 MiB, on an
/// EPYC, to so many bytes behind a page's start: 0 and 32 and more 0.06 ms a MiB, 16 bytes 0.13 to 0.2, 8 bytes
/// 0.33.
#[derive(Debug, Default)]
pub struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuffer {
    /// So many bytes.
    pub fn new(len: usize) -> AlignedBuffer {
        let page = rustix::param::page_size();
        let memory = vec![0; len + page - 1];
        let start = memory.as_ptr().align_offset(page);
        AlignedBuffer { memory, start, len }
    }

    /// So many bytes, if they are to be had.
    pub fn try_new(len: usize) -> Option<AlignedBuffer> {
        // Asked for first, and then taken as zeros that cost nothing until they are used.
        Vec::<u8>::new().try_reserve_exact(len.checked_add(rustix::param::page_size())?).ok()?;
        Some(AlignedBuffer::new(len))
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.memory[self.start..][..self.len]
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.len]
    }
}

/// Bytes of one page of this size on this machine.
pub fn page_bytes(size: PageSize) -> usize {
    match size {
        PageSize::Base => rustix::param::page_size(),
        PageSize::Huge | PageSize::Hugetlb => HUGE_PAGE_BYTES,
    }
}

/// Bits of the kernel's Documentation/admin-guide/mm/pagemap.rst.
const PAGEMAP_PRESENT: u64 = 1 << 63;
const PAGEMAP_FRAME: u64 = (1 << 55) - 1;
const KPAGEFLAG_HUGE: u64 = 1 << 17;
const KPAGEFLAG_THP: u64 = 1 << 22;

fn is_huge(pagemap: &File, kpageflags: &File, page: usize) -> Result<bool, PagesError> {
    let entry = word_at(pagemap, page as u64)?;
    if entry & PAGEMAP_PRESENT == 0 {
        return Ok(false);
    }
    let frame = entry & PAGEMAP_FRAME;
    if frame == 0 {
        return Err(PagesError::Unknown("page frame numbers are hidden from all but root".into()));
    }
    let flags = word_at(kpageflags, frame)?;
    Ok(flags & (KPAGEFLAG_HUGE | KPAGEFLAG_THP) != 0)
}

fn word_at(file: &File, index: u64) -> Result<u64, PagesError> {
    let mut word = [0; 8];
    file.read_exact_at(&mut word, index * 8)
        .map_err(|error| PagesError::Unknown(error.to_string()))?;
    Ok(u64::from_ne_bytes(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aligned_buffer_is_of_zeros_and_begins_at_a_page() {
        for len in [0, 1, 4096, 131_072, 1 << 20] {
            let mut buffer = AlignedBuffer::new(len);
            assert!(buffer.as_ptr().addr().is_multiple_of(page_bytes(PageSize::Base)));
            assert_eq!((buffer.len(), buffer.iter().all(|byte| *byte == 0)), (len, true));
            buffer.fill(1);
        }
        assert!(AlignedBuffer::default().is_empty());
    }

    #[test]
    fn memory_is_aligned_zeroed_and_as_long_as_asked() {
        for size in [PageSize::Base, PageSize::Huge] {
            let pages = Pages { size, locked: false };
            let mut memory = Memory::allocate(300_001, &pages).expect("memory");
            assert_eq!(memory.mapping().address() % page_bytes(size), 0);
            assert!(memory.as_slice().iter().all(|&byte| byte == 0));
            memory.as_mut_slice().fill(9);
            assert_eq!((memory.len(), memory.as_slice()[300_000]), (300_001, 9));
        }
    }

    #[test]
    fn huge_pages_are_told_from_base_pages_by_root() {
        let mut base = Memory::allocate(HUGE_PAGE_BYTES / 2, &Pages::default()).expect("memory");
        base.as_mut_slice().fill(1);
        match base.huge_bytes() {
            Ok(huge) => assert_eq!(huge, 0),
            Err(error) => eprintln!("skipped: {error}"),
        }
    }

    #[test]
    fn locking_beyond_the_limit_names_the_limit() {
        let error = PagesError::Lock { bytes: 1, errno: Errno::NOMEM };
        assert!(error.to_string().contains("RLIMIT_MEMLOCK"));
        // Where all that is mapped is locked, by mlockall.
        let error = PagesError::Map { bytes: 1, size: "base", errno: Errno::AGAIN };
        assert!(error.to_string().contains("RLIMIT_MEMLOCK"));
    }
}
