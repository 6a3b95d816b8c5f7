//! The title of the process, as ps shows it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::stat::{self, Stat};
use crate::sys::environment;

/// How far titles have reached.
static WRITTEN_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Writes the title over the words of the command line, where the kernel has them from, and on over
/// the environment behind them if it is longer: nothing reads the words any more, and the environment lies
/// elsewhere by then. Where that is refused, the title stays as it is.
pub(crate) fn set(title: &str) {
    static MOVED: Once = Once::new();
    MOVED.call_once(environment::moved);
    let _ = written(title);
}

fn written(title: &str) -> Option<()> {
    let line = stat::line("self")?;
    let stat = Stat::of(&line)?;
    let address = |field: usize| stat.field::<u64>(field);
    let (start, end) = (address(48)?, address(49)?);
    // proc(5): arg_start, arg_end, env_start, env_end. The kernel reads on into the environment
    // where the last byte of the words is not 0.
    let end_of_all = if address(50)? == end { address(51)? } else { end };
    let words = usize::try_from(end.checked_sub(start)?).ok()?;
    let room = usize::try_from(end_of_all.checked_sub(start)?).ok()?;
    // The last byte of all stays 0.
    let len = title.len().min(room.checked_sub(1)?);
    let covered = len.max(words).max(WRITTEN_BYTES.load(Relaxed)).min(room - 1);
    let mut bytes = vec![0; covered + 1];
    bytes[..len].copy_from_slice(&title.as_bytes()[..len]);
    File::options().write(true).open("/proc/self/mem").ok()?.write_all_at(&bytes, start).ok()?;
    WRITTEN_BYTES.store(covered, Relaxed);
    Some(())
}
