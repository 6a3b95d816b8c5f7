//! Pages that come into being with their bytes (UFFDIO_COPY of userfaultfd(2)): a fault would clear each
//! of them first, and enter the kernel for each; a write would lock the file.
#![allow(unsafe_code)]

use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl, opcode};
use rustix::mm::{UserfaultfdFlags, userfaultfd};

use super::deadly::survived;
use super::file_mapping::FileMapping;

/// struct uffdio_api of linux/userfaultfd.h.
#[repr(C)]
struct Api {
    version: u64,
    features: u64,
    ioctls: u64,
}

/// struct uffdio_register.
#[repr(C)]
struct Register {
    start: u64,
    bytes: u64,
    mode: u64,
    ioctls: u64,
}

/// struct uffdio_copy.
#[repr(C)]
struct Copy {
    to: u64,
    from: u64,
    bytes: u64,
    mode: u64,
    /// How much was copied, or an errno below 0.
    copied: i64,
}

const UFFD_API: u64 = 0xaa;
/// What anybody may have, faults of the kernel's own left out: UFFD_USER_MODE_ONLY.
const USER_MODE_ONLY: UserfaultfdFlags = UserfaultfdFlags::from_bits_retain(1);
const REGISTER_MODE_MISSING: u64 = 1;
const COPY_MODE_DONTWAKE: u64 = 1;

const UFFDIO_API: Opcode = opcode::read_write::<Api>(0xaa, 0x3f);
const UFFDIO_REGISTER: Opcode = opcode::read_write::<Register>(0xaa, 0);
const UFFDIO_COPY: Opcode = opcode::read_write::<Copy>(0xaa, 3);

/// Fills pages that files in memory do not have yet.
pub(crate) struct PageFiller {
    faults: OwnedFd,
}

impl PageFiller {
    /// Refused where the kernel lacks it (before 5.11), or a container's filter forbids it.
    pub(crate) fn open() -> Result<PageFiller, Errno> {
        survived(libc::SYS_userfaultfd)?;
        // SAFETY: what its descriptor can do to memory is done below alone, to mappings that no
        // reference leads into.
        let faults = unsafe { userfaultfd(UserfaultfdFlags::CLOEXEC | USER_MODE_ONLY) }?;
        let mut api = Api { version: UFFD_API, features: 0, ioctls: 0 };
        // SAFETY: UFFDIO_API reads and writes a struct uffdio_api, which this is.
        let asked = unsafe { Updater::<UFFDIO_API, Api>::new(&mut api) };
        // SAFETY: it changes nothing but that record and what the descriptor can do.
        unsafe { ioctl(&faults, asked) }?;
        Ok(PageFiller { faults })
    }

    /// Makes a mapping one whose missing pages can be filled. From then on nothing else fills them.
    pub(crate) fn takes(&self, sink: &FileMapping) -> Result<(), Errno> {
        let (start, bytes) = sink.place();
        let mut register = Register {
            start: start as u64,
            bytes: bytes as u64,
            mode: REGISTER_MODE_MISSING,
            ioctls: 0,
        };
        // SAFETY: UFFDIO_REGISTER reads and writes a struct uffdio_register, which this is.
        let asked = unsafe { Updater::<UFFDIO_REGISTER, Register>::new(&mut register) };
        // SAFETY: the range is the mapping's, which only the kernel touches.
        unsafe { ioctl(&self.faults, asked) }
    }

    /// Fills missing pages of a mapping, from a place in it on, with these bytes, all of whole pages; how many
    /// bytes of it, at least one page.
    ///
    /// # Errors
    /// EEXIST: the file has the page. ENOMEM: there is no room for it. EFAULT, ENOENT: the file has become
    /// shorter.
    pub(crate) fn fill(&self, sink: &FileMapping, at: usize, bytes: &[u8]) -> Result<usize, Errno> {
        let (to, mapped) = sink.place();
        let fits = at.checked_add(bytes.len()).is_some_and(|end| end <= mapped);
        assert!(fits && !bytes.is_empty(), "the mapping has the range");
        let mut copy = Copy {
            to: (to + at) as u64,
            from: bytes.as_ptr().expose_provenance() as u64,
            bytes: bytes.len() as u64,
            mode: COPY_MODE_DONTWAKE,
            copied: 0,
        };
        // SAFETY: UFFDIO_COPY reads and writes a struct uffdio_copy, which this is.
        let asked = unsafe { Updater::<UFFDIO_COPY, Copy>::new(&mut copy) };
        // SAFETY: it reads the bytes, and fills pages of the mapping, which is there and touched by the
        // kernel alone.
        let outcome = unsafe { ioctl(&self.faults, asked) };
        match usize::try_from(copy.copied) {
            Ok(bytes) if bytes > 0 => Ok(bytes),
            _ => Err(outcome.err().unwrap_or(Errno::AGAIN)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::os::unix::fs::FileExt;

    use rustix::fs::{MemfdFlags, memfd_create};

    use super::*;

    const PAGE: usize = 4096;

    fn memfd() -> File {
        memfd_create("bytepath-test", MemfdFlags::CLOEXEC).expect("a memfd").into()
    }

    const BYTES: usize = 64 * PAGE;

    fn bytes() -> Vec<u8> {
        (0..BYTES).map(|at| (at / PAGE * 7 + at % 251) as u8).collect()
    }

    fn filler() -> Option<PageFiller> {
        PageFiller::open()
            .inspect_err(|errno| println!("skipped: no userfaultfd here: {errno}"))
            .ok()
    }

    /// A file of 64 pages of which it has none yet, and its mapping.
    fn sink() -> Option<(PageFiller, File, FileMapping)> {
        let filler = filler()?;
        let sink = memfd();
        sink.set_len(BYTES as u64).expect("longer");
        let mapping = FileMapping::of_sink(sink.as_fd(), 0, BYTES).expect("mapped");
        filler.takes(&mapping).expect("it is in memory");
        Some((filler, sink, mapping))
    }

    fn read(file: &File) -> Vec<u8> {
        let mut all = vec![0; BYTES];
        file.read_exact_at(&mut all, 0).expect("read");
        all
    }

    #[test]
    fn missing_pages_come_with_their_bytes_and_others_stay() {
        let Some((filler, sink, mapping)) = sink() else { return };
        let (bytes, start) = (bytes(), 4 * PAGE);
        assert_eq!(filler.fill(&mapping, start, &bytes[start..]), Ok(60 * PAGE));
        assert!(read(&sink)[..start].iter().all(|&byte| byte == 0));
        assert!(read(&sink)[start..] == bytes[start..]);
        sink.write_all_at(&[9; PAGE], PAGE as u64).expect("written");
        assert_eq!(filler.fill(&mapping, 0, &bytes[..start]), Ok(PAGE), "up to what is there");
        assert_eq!(filler.fill(&mapping, PAGE, &bytes[PAGE..start]), Err(Errno::EXIST));
        assert!(read(&sink)[PAGE..2 * PAGE].iter().all(|&byte| byte == 9));
    }

    #[test]
    fn a_file_that_was_cut_is_no_bus_error() {
        let Some((filler, sink, mapping)) = sink() else { return };
        sink.set_len(PAGE as u64).expect("shorter");
        assert_eq!(filler.fill(&mapping, 0, &bytes()), Ok(PAGE), "what there is");
        filler.fill(&mapping, PAGE, &bytes()[PAGE..]).expect_err("it has no such page");
    }

    #[test]
    fn what_is_not_in_memory_is_refused() {
        let Some(filler) = filler() else { return };
        let file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).expect("a file on the disk");
        file.set_len(BYTES as u64).expect("longer");
        let mapping = FileMapping::of_sink(file.as_fd(), 0, BYTES).expect("mapped");
        filler.takes(&mapping).expect_err("it is on a disk");
    }
}
