//! Finds out whether vmsplice lends this process's memory to a pipe or copies it.
//!
//! One page is lent, changed, and read back through the pipe: a reader that sees the change was
//! looking at our memory. Costs about ten system calls, once.

use std::os::fd::AsFd;

use rustix::io::{self, Errno};
use rustix::mm::MapFlags;
use rustix::pipe::{PipeFlags, SpliceFlags};

use super::memory::{Mapping, vmsplice};

const BEFORE: u8 = 0x5a;
const AFTER: u8 = 0xa5;

/// Whether a reader of the pipe sees what is written to lent memory afterwards.
///
/// # Errors
///
/// The kernel's word where it refuses vmsplice, a pipe or a page.
pub(crate) fn vmsplice_aliases() -> io::Result<bool> {
    let bytes = rustix::param::page_size();
    let mut page = Mapping::anonymous(bytes, bytes, MapFlags::empty())?;
    page.as_mut_slice().fill(BEFORE);
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let lent_bytes = vmsplice(writer.as_fd(), page.loan(0..bytes), SpliceFlags::NONBLOCK)?;
    if lent_bytes == 0 {
        return Err(Errno::IO);
    }
    page.as_mut_slice().fill(AFTER);
    let mut seen = [0_u8; 1];
    rustix::io::read(&reader, &mut seen)?;
    Ok(seen == [AFTER])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_gives_the_same_answer_twice() {
        assert_eq!(vmsplice_aliases(), vmsplice_aliases());
    }
}
