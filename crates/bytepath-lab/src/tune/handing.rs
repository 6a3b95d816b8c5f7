//! How fast bytes go from one process to another through a ring in memory that they share: every
//! byte is written by one and read by the other.
//!
//! The writer is a process of its own (`bytepath hand`, not shown in the help), the reader is this
//! one.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use bytepath::pages::PageSize;
use bytepath::placement::{NamedPlacement, pin_this_thread};

use super::Effort;
use crate::ends::{GIB, Starter};
use crate::pipe_work::EndedOnDrop;
use crate::streams::{memory, read_for};

/// So many times as long as other samples it takes until both ends are in step, and as long again is
/// measured.
const SAMPLES: u32 = 3;

/// GiB/s with pages of this size, or `None` where the kernel has no such memory to share.
pub(super) fn gib_per_s(
    program: &Path,
    placement: &NamedPlacement,
    size: PageSize,
    effort: Effort,
) -> Option<f64> {
    let [writer_cpu, reader_cpu] = placement.cpus?;
    let ring = memory::ring(size).ok()?;
    let file = ring.as_fd().try_clone_to_owned().ok()?;
    let mut writer = Command::new(program);
    writer.arg("hand").args(Starter::this().words());
    writer.stdin(file).stdout(Stdio::null()).stderr(Stdio::null());
    let _writing = EndedOnDrop::spawn_on(&mut writer, Some(writer_cpu)).ok()?;
    let _pinned = pin_this_thread(reader_cpu).ok()?;
    let mut reader = memory::Reader::new(ring);
    read_for(effort.time * SAMPLES, &mut reader).ok()?;
    let (bytes, seconds) = read_for(effort.time * SAMPLES, &mut reader).ok()?;
    Some(bytes as f64 / GIB / seconds)
}

/// The writer: fills slot after slot until it is ended.
///
/// # Errors
/// The descriptor is not such memory.
pub fn hand(file: OwnedFd) -> io::Result<()> {
    memory::write(&memory::opened(file)?)
}
