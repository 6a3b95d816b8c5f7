//! The swap areas that this machine has now, as `/proc/swaps` tells; and one of them off.

use std::ffi::OsString;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytepath::machine::unescaped;
use bytepath::shell::quoted;

use crate::tools;

/// An area that is on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Active {
    /// The device or the file.
    pub path: PathBuf,
    /// Its size.
    pub bytes: u64,
    /// How much of it is in use.
    pub used_bytes: u64,
    /// Areas of a higher priority are used first.
    pub priority: i32,
}

/// Every area that is on; why that cannot be told.
///
/// # Errors
/// The kernel's list cannot be read: an area may be on, whichever it is.
pub fn active() -> Result<Vec<Active>, String> {
    match fs::read(TOLD) {
        Ok(text) => Ok(parsed(&text)),
        // A kernel without swap.
        Err(error)
            if error.kind() == ErrorKind::NotFound && Path::new("/proc/self/stat").exists() =>
        {
            Ok(Vec::new())
        }
        Err(error) => Err(format!("cannot tell which swap areas are on: {TOLD}: {error}")),
    }
}

const TOLD: &str = "/proc/swaps";

/// The area of this name, if it is on.
pub(crate) fn named(path: &Path) -> Result<Option<Active>, String> {
    Ok(active()?.into_iter().find(|area| area.path == path))
}

/// Takes an area out of use; one that is not in use is no fault. What it holds comes back to memory
/// first.
pub(crate) fn off(path: &Path) -> Result<(), String> {
    let mut until = None;
    while let Some(area) = named(path)? {
        let Err(why) = tools::said("swapoff", &[path.as_os_str()]) else { break };
        // Somebody else's swapoff, that of a run which was killed meanwhile say, makes ours fail at once
        // and takes its time; and ours may be ended by a signal.
        if Instant::now() >= *until.get_or_insert_with(|| Instant::now() + OTHERS_TIME_MAX) {
            let (used, path) = (area.used_bytes, quoted(path));
            return Err(format!("{why}; {used} bytes of it are in use; as root: swapoff {path}"));
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

const OTHERS_TIME_MAX: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Takes all areas out of use that are files in a folder, or loop devices of such files.
pub(crate) fn off_below(folder: &Path) -> Result<(), String> {
    let below = |area: &Active| {
        let behind = backing_file(&area.path);
        area.path.starts_with(folder) || behind.is_some_and(|file| file.starts_with(folder))
    };
    active()?.iter().filter(|area| below(area)).try_for_each(|area| off(&area.path))
}

/// The file behind a loop device, also where another such device is between them.
fn backing_file(device: &Path) -> Option<PathBuf> {
    let mut found = None;
    let mut device = device.to_owned();
    for _ in 0..LAYERS_MAX {
        let Some(name) = device.strip_prefix("/dev").ok().and_then(Path::to_str) else { break };
        let told = fs::read(format!("/sys/block/{name}/loop/backing_file"));
        let Ok(mut told) = told else { break };
        told.pop_if(|last| *last == b'\n');
        device = OsString::from_vec(told).into();
        found = Some(device.clone());
    }
    found
}

/// Nobody has more loop devices on top of each other.
const LAYERS_MAX: u32 = 8;

/// The areas in the text of `/proc/swaps`.
pub(crate) fn parsed(text: &[u8]) -> Vec<Active> {
    let area = |line: &[u8]| {
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let path = unescaped(words.next()?);
        let mut words = words.filter_map(|word| std::str::from_utf8(word).ok());
        let _kind = words.next()?;
        let kib = |word: Option<&str>| word?.parse::<u64>().ok().map(|kib| kib << 10);
        let (bytes, used_bytes) = (kib(words.next())?, kib(words.next())?);
        Some(Active { path, bytes, used_bytes, priority: words.next()?.parse().ok()? })
    };
    text.split(|byte| *byte == b'\n').skip(1).filter_map(area).collect()
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt;

    use super::*;

    #[test]
    fn areas_are_read_as_the_kernel_tells_them() {
        let text = b"Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n\
                    /dev/zram0                              partition\t512000\t1024\t\t32767\n\
                    /var/a\\040b\\134                       file\t4096\t0\t\t-2\n\
                    /var/\xff                              file\t4096\t0\t\t-3\n";
        let areas = parsed(text);
        assert_eq!(areas.len(), 3);
        assert_eq!(areas[2].path.as_os_str().as_bytes(), b"/var/\xff");
        assert_eq!((areas[0].bytes, areas[0].used_bytes), (512_000 << 10, 1 << 20));
        assert_eq!((&*areas[1].path, areas[1].priority), (Path::new("/var/a b\\"), -2));
        assert_eq!(parsed(b""), []);
    }
}
