//! Large files: by several threads where that is known to gain, which is from memory to a file system
//! that spends its time in one write after the other. A device that has to look for the bytes does
//! so best in their order; a tmpfs gives its pages no faster to two.

use std::io::IoSliceMut;
use std::os::fd::BorrowedFd;
use std::thread::available_parallelism;

use bytepath::TransferError;
use rustix::fs::FileType;
use rustix::io::ReadWriteFlags;

use super::{Data, Fault, fault};
use crate::cp::entry::Shared;
use crate::cp::place::kind;
use crate::cp::quick::LARGE_BYTES;
use crate::planning::{CarryError, Carrying, PlanOptions};

/// Places in the source that are looked at for being in memory.
const PLACES: u64 = 16;

/// The file systems on which it was measured, by <linux/magic.h>. On others the kernel may copy on a
/// server, or share what is written later.
const EXT4: u32 = 0xef53;
const TMPFS: u32 = 0x0102_1994;

/// Whether a file is large enough, and more threads than one may copy it, so that its copy has to be
/// open for reading too.
pub(in crate::cp) fn is_large(shared: &Shared<'_>, stat: &rustix::fs::Stat) -> bool {
    let (plan, asked) = (shared.plan, shared.extras.jobs.map(usize::from));
    kind(stat) == FileType::RegularFile
        && stat.st_size >= LARGE_BYTES
        && plan.route.is_none()
        && plan.profile.is_none()
        && !shared.extras.one_by_one()
        && asked.unwrap_or_else(|| available_parallelism().map_or(1, usize::from)) > 1
}

impl Data<'_> {
    /// Moves bytes by several threads, if that may be; how many, and whether that is all.
    pub(super) fn carry_in_parts(&self, carrying: &Carrying<'_>) -> Result<(u64, bool), Fault> {
        let bytes = carrying.job.bytes_known().unwrap_or(0);
        let large = bytes >= LARGE_BYTES as u64 && is_large(self.shared, &self.source_stat);
        if !large || !self.is_in_memory() {
            return Ok((0, false));
        }
        let mut knobs = carrying.knobs.clone();
        knobs.queue_depth = self.shared.extras.jobs.map(usize::from);
        let route = Some("parallel".to_owned());
        let plan = PlanOptions { route, ..self.shared.plan.clone() };
        match plan.carry(&Carrying { knobs, ..*carrying }) {
            Ok(moved) => Ok((moved.bytes, true)),
            // Another way will go on, or tell what the matter is.
            Err(CarryError::Transfer(TransferError::Declined { offset, .. })) => {
                Ok((offset, false))
            }
            Err(CarryError::Plan(_)) => Ok((0, false)),
            Err(error) => Err(fault(error)),
        }
    }

    fn is_in_memory(&self) -> bool {
        let system = |fd| rustix::fs::fstatfs(fd).map_or(0, |system| system.f_type as u32);
        let (source, sink) = (system(self.source), system(self.sink));
        if ![EXT4, TMPFS].contains(&source) || sink != EXT4 {
            return false;
        }
        let size = self.source_stat.st_size as u64;
        let mut places = (0..PLACES).map(|place| size / PLACES * place);
        source == TMPFS || places.all(|at| is_cached(self.source, at))
    }
}

/// Whether a byte is there without the device being asked.
fn is_cached(file: BorrowedFd<'_>, at: u64) -> bool {
    let mut byte = [0];
    let read =
        rustix::io::preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT);
    read == Ok(1)
}
