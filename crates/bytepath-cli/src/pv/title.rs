//! The title of the process, as ps shows it.

use std::fs::File;
use std::os::unix::fs::FileExt;

/// Writes the title over the words of the command line, where the kernel has them from; as long as
/// they were. Nothing reads them any more. Where that is refused, the title stays as it is.
pub(crate) fn set(title: &str) {
    let _ = written(title);
}

fn written(title: &str) -> Option<()> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name in brackets may hold anything; fields are counted behind it, from the third.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    let address = |field: usize| fields.get(field - 3)?.parse::<u64>().ok();
    let (start, end) = (address(48)?, address(49)?);
    let room = usize::try_from(end.checked_sub(start)?).ok()?;
    let mut bytes = vec![0; room];
    // The last byte stays 0: else the kernel reads on into the environment.
    let len = title.len().min(room.checked_sub(1)?);
    bytes[..len].copy_from_slice(&title.as_bytes()[..len]);
    File::options().write(true).open("/proc/self/mem").ok()?.write_all_at(&bytes, start).ok()
}
