//! Reads the table of mounts, /proc/self/mountinfo (proc_pid_mountinfo(5)).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// One line of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    /// The number that statx gives for files on it.
    pub(crate) id: u64,
    /// The device's number, `98:0`; of file systems on several devices, one of their own.
    pub(crate) device: String,
    /// What of its file system is to be seen there.
    pub(crate) root: PathBuf,
    /// Where it is mounted.
    pub(crate) point: PathBuf,
    /// The file system's type: `ext4`, `fuse.sshfs`, …
    pub(crate) kind: String,
    /// The device or whatever stands for it.
    pub(crate) source: String,
    /// The options of this mount, then those of its file system.
    pub(crate) options: Vec<String>,
}

/// The mounts of a table; lines that are not understood are left out.
pub(crate) fn parse(table: &str) -> impl Iterator<Item = Mount> + Clone + '_ {
    table.lines().filter_map(mount)
}

/// `36 35 98:0 /root /mnt rw,noatime shared:1 - ext3 /dev/sda1 rw,errors=continue`: fields before
/// the lone hyphen, of which the optional ones vary in number, and fields after it.
fn mount(line: &str) -> Option<Mount> {
    let (before, after) = line.split_once(" - ")?;
    let mut before = before.split(' ');
    let id = before.next()?.parse().ok()?;
    let device = before.nth(1)?.to_owned();
    let (root, point, options) = (before.next()?, before.next()?, before.next()?);
    let mut after = after.split(' ');
    let (kind, source, more) = (after.next()?, after.next()?, after.next().unwrap_or(""));
    Some(Mount {
        id,
        device,
        root: unescaped(root.as_bytes()),
        point: unescaped(point.as_bytes()),
        kind: kind.to_owned(),
        source: unescaped(source.as_bytes()).to_string_lossy().into_owned(),
        options: distinct(options.split(',').chain(more.split(','))),
    })
}

fn distinct<'a>(options: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut seen: Vec<String> = Vec::new();
    for option in options.filter(|option| !option.is_empty()) {
        if !seen.iter().any(|known| known == option) {
            seen.push(option.to_owned());
        }
    }
    seen
}

/// A name as files below `/proc` have it, where space, tab, newline and backslash are `\040` and so
/// on: `mountinfo` (proc_pid_mountinfo(5)), `swaps`. Any other byte is there as it is.
pub fn unescaped(text: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'\\').then(|| after.get(..3).and_then(octal)).flatten();
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    OsString::from_vec(bytes).into()
}

fn octal(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_with_optional_fields_and_escapes_is_read() {
        let line = r"36 35 98:0 /r /mnt/a\040b\134c rw,noatime shared:1 master:2 - ext4 /dev/sda1 rw,quota";
        let mount = mount(line).expect("a mount");
        assert_eq!(mount.point, PathBuf::from(r"/mnt/a b\c"));
        assert_eq!(
            (mount.id, mount.device.as_str(), mount.kind.as_str(), mount.source.as_str()),
            (36, "98:0", "ext4", "/dev/sda1")
        );
        assert_eq!(mount.options, ["rw", "noatime", "quota"]);
    }

    #[test]
    fn damaged_lines_are_left_out() {
        let table = "\n36 35\n x - y\n36 35 98:0 / /mnt\\04 rw - tmpfs none\n36 - -\n";
        let mounts: Vec<_> = parse(table).collect();
        assert_eq!(mounts.len(), 1);
        assert_eq!(mounts[0].point, PathBuf::from("/mnt\\04"));
    }
}
