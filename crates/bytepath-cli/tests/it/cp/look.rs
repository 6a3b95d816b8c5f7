//! What can be told of a tree: kinds, modes, owners, times, bytes, holes, names of one file, what
//! links say, extended attributes.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::SeekFrom;

/// Seconds after which a time is of the run, not of what it was made from.
const RECENT: i64 = 1_500_000_000;

/// All that is in the folder.
pub(super) fn look(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut told, mut names) = (BTreeMap::new(), HashMap::new());
    go(folder, Path::new(""), &mut told, &mut names);
    told
}

type Names = HashMap<(u64, u64), PathBuf>;

fn go(folder: &Path, below: &Path, told: &mut BTreeMap<PathBuf, Vec<u8>>, names: &mut Names) {
    let mut entries: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.file_name()).collect();
    entries.sort();
    for name in entries {
        let (path, below) = (folder.join(&name), below.join(&name));
        let data = path.symlink_metadata().expect("it is there");
        let mut text = status(&path, &data);
        if !data.is_dir() && data.nlink() > 1 {
            let first = names.entry((data.dev(), data.ino())).or_insert_with(|| below.clone());
            let _ = writeln!(text, "another name of {first:?}");
        }
        told.insert(below.join("(status)"), text.into_bytes());
        if data.is_dir() {
            go(&path, &below, told, names);
        } else if data.is_file() {
            told.insert(below, std::fs::read(&path).unwrap_or_default());
        }
    }
}

fn status(path: &Path, data: &std::fs::Metadata) -> String {
    let mut text = format!("mode {:o}, owner {}:{}\n", data.mode(), data.uid(), data.gid());
    let _ = match data.mtime() < RECENT {
        true => writeln!(text, "changed {}.{:09}", data.mtime(), data.mtime_nsec()),
        false => writeln!(text, "changed now"),
    };
    if !data.is_dir() {
        let _ = writeln!(text, "size {}, device {}", data.size(), data.rdev());
    }
    if data.is_symlink() {
        let _ = writeln!(text, "says {:?}", std::fs::read_link(path).expect("a link"));
    }
    if data.is_file() {
        let _ = writeln!(text, "data {:?}", extents(path));
    }
    let _ = writeln!(text, "attributes {:?}", attributes(path));
    text
}

/// Where there is data and not a hole.
fn extents(path: &Path) -> Vec<(u64, u64)> {
    let mut extents = Vec::new();
    let Ok(file) = std::fs::File::open(path) else { return extents };
    let mut at = 0;
    while let Ok(data) = rustix::fs::seek(file.as_fd(), SeekFrom::Data(at)) {
        at = rustix::fs::seek(file.as_fd(), SeekFrom::Hole(data)).expect("a hole at the end");
        extents.push((data, at));
    }
    extents
}

fn attributes(path: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut names = vec![0; 4096];
    let count = rustix::fs::llistxattr(path, &mut names).unwrap_or(0);
    names.truncate(count);
    let names = names.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    names
        .map(|name| {
            let mut value = vec![0; 4096];
            let name = std::ffi::OsStr::from_bytes(name);
            let count = rustix::fs::lgetxattr(path, name, &mut value).unwrap_or(0);
            value.truncate(count);
            (name.to_string_lossy().into_owned(), value)
        })
        .collect()
}
