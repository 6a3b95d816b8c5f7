//! Finds out whether vmsplice lends this process's memory to a pipe or copies it.
//!
//! One page is lent, changed, and read back through the pipe: a reader that sees the change was
//! looking at our memory. Costs about ten system calls, once.

#![allow(unsafe_code)]

use std::ffi::c_void;
use std::ptr::{self, NonNull};

use rustix::io::{self, Errno};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::pipe::{IoSliceRaw, PipeFlags, SpliceFlags};

const BEFORE: u8 = 0x5a;
const AFTER: u8 = 0xa5;

/// Whether a reader of the pipe sees what is written to lent memory afterwards.
///
/// # Errors
///
/// The kernel's word where it refuses vmsplice, a pipe or a page.
pub(crate) fn vmsplice_aliases() -> io::Result<bool> {
    let mut page = Page::map(rustix::param::page_size())?;
    page.fill(BEFORE);
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let lent = IoSliceRaw::from_slice(page.bytes());
    // SAFETY: `writer` is the write end of a pipe, so the kernel only reads the memory, and nothing
    // is gifted. The pages stay valid for the pipe also after they are unmapped: it holds
    // references.
    let lent_bytes = unsafe { rustix::pipe::vmsplice(&writer, &[lent], SpliceFlags::NONBLOCK) }?;
    if lent_bytes == 0 {
        return Err(Errno::IO);
    }
    page.fill(AFTER);
    let mut seen = [0_u8; 1];
    rustix::io::read(&reader, &mut seen)?;
    Ok(seen == [AFTER])
}

/// One private page of our own, unmapped when dropped.
struct Page {
    start: NonNull<c_void>,
    bytes: usize,
}

impl Page {
    fn map(bytes: usize) -> io::Result<Page> {
        let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
        // SAFETY: no address is asked for, so the new mapping overlaps nothing that is in use.
        let start =
            unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), bytes, protection, flags) };
        let start = NonNull::new(start?).ok_or(Errno::NOMEM)?;
        Ok(Page { start, bytes })
    }

    fn fill(&mut self, value: u8) {
        // SAFETY: the mapping is writable, `self.bytes` long and ours alone (`&mut self`). A pipe
        // that holds the page only reads it, from the kernel.
        unsafe { ptr::write_bytes(self.start.as_ptr().cast::<u8>(), value, self.bytes) }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping is readable and `self.bytes` long (zero-filled by the kernel), lives
        // as long as `self`, and is written only through `&mut self`.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr().cast::<u8>(), self.bytes) }
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: this is the mapping that `map` made, and no borrow of it outlives `self`.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr(), self.bytes) };
        debug_assert!(unmapped.is_ok(), "a mapping of our own can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_gives_the_same_answer_twice() {
        assert_eq!(vmsplice_aliases(), vmsplice_aliases());
    }
}
