//! Reads the small files in which the kernel tells about itself, below a root that tests can move.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// No more than this is read of any one file: /proc/cpuinfo repeats itself for every CPU and mount
/// tables of container hosts are long, and neither may make a probe slow or large.
const READ_BYTES_MAX: u64 = 4 << 20;

/// The text of `root`/`name` without surrounding white space; `None` where it cannot be read.
///
/// Contents that are not UTF-8 (a mount point may hold any byte) are kept with replacement
/// characters.
pub(crate) fn text(root: &Path, name: &str) -> Option<String> {
    text_up_to(root, name, READ_BYTES_MAX)
}

/// Like [`text`], for files whose first `bytes_max` bytes already say everything.
pub(crate) fn text_up_to(root: &Path, name: &str, bytes_max: u64) -> Option<String> {
    let file = File::open(root.join(name)).ok()?;
    let mut bytes = Vec::new();
    file.take(bytes_max).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// The number in `root`/`name`; `None` where there is no such file or no such number in it.
pub(crate) fn number<N: std::str::FromStr>(root: &Path, name: &str) -> Option<N> {
    text(root, name)?.parse().ok()
}

/// The names in the folder `root`/`name`, sorted; none where it cannot be read.
pub(crate) fn names(root: &Path, name: &str) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(root.join(name)) else { return Vec::new() };
    let mut names: Vec<String> =
        entries.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The value of `key` in a file of `key: value` lines, such as /proc/self/status and /proc/cpuinfo.
pub(crate) fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name.trim() == key).then(|| value.trim())
    })
}
