//! The file that the tour moves: the user's, or one made for it that is gone when the tour ends,
//! however it ends.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::Builder;
use std::time::SystemTime;

use anyhow::{Context, bail};
use bytepath::inlets::byte_sum;
use bytepath::{Endpoint, Job, Knobs, Plan, Transfer};
use bytepath_lab::ends::Pattern;
use bytepath_lab::file_set::free_bytes;
use bytepath_lab::pipe_work::Expected;
use bytepath_report::numbers;
use rustix::fs::{Mode, OFlags};

/// Bytes written, read and compared at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Left free on the file system, whatever size is asked for.
const SPARE_BYTES: u64 = 256 << 20;

/// A file to be moved, and what has to arrive.
#[derive(Debug)]
pub(super) struct Moved {
    file: File,
    seen: Seen,
    pub(super) expected: Expected,
}

/// What shows that a file was written to.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    bytes: u64,
    modified: SystemTime,
}

impl Seen {
    fn of(file: &File) -> anyhow::Result<Seen> {
        let found = file.metadata().context("cannot look at the file")?;
        let modified = found.modified().context("cannot look at the file")?;
        Ok(Seen { bytes: found.len(), modified })
    }
}

/// Whether there will be a file to move.
pub(super) fn possible(named: Option<&Path>) -> anyhow::Result<()> {
    match named {
        Some(path) => opened(path).map(drop),
        None => room(&folder()).map(drop),
    }
}

/// Opens the user's file, or makes one of `bytes`.
pub(super) fn prepared(
    named: Option<&Path>,
    bytes: u64,
    out: &mut impl Write,
) -> anyhow::Result<Moved> {
    let file = match named {
        Some(path) => {
            let file = opened(path)?;
            writeln!(out, "{}, read once into the page cache", path.display())?;
            file
        }
        None => made(bytes, out)?,
    };
    out.flush()?;
    let seen = Seen::of(&file)?;
    let expected = summed(&file, seen.bytes)?;
    let moved = Moved { file, seen, expected };
    moved.unchanged()?;
    if moved.expected.bytes == 0 {
        bail!("the file was emptied meanwhile");
    }
    Ok(moved)
}

fn opened(path: &Path) -> anyhow::Result<File> {
    let (name, remedy) = (path.display(), "name another, or none to have one made");
    // Looked at before it is opened: opening a FIFO waits for a writer.
    let found = path.metadata().with_context(|| format!("cannot open {name}; {remedy}"))?;
    if !found.is_file() {
        bail!("{name} is no regular file; {remedy}");
    }
    let file = File::open(path).with_context(|| format!("cannot open {name}; {remedy}"))?;
    let count = file.read_at(&mut [0], 0).with_context(|| format!("cannot read {name}"))?;
    if count == 0 {
        bail!("{name} is empty; {remedy}");
    }
    // What the kernel makes as it is read, as in /proc, is said to have none.
    if found.len() == 0 {
        bail!("{name} has bytes and a size of 0; {remedy}");
    }
    Ok(file)
}

/// A file without a name: it cannot be left behind.
fn made(wanted: u64, out: &mut impl Write) -> anyhow::Result<File> {
    let folder = folder();
    let bytes = wanted.min(room(&folder)?);
    let fitted = if bytes < wanted { ", all that fits" } else { "" };
    let (size, place) = (numbers::bytes(bytes), folder.display());
    writeln!(out, "a file of {size}{fitted}, made without a name in {place}")?;
    out.flush()?;
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let file = match rustix::fs::open(&folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => File::from(file),
        // Not every file system has files without names.
        Err(_) => tempfile::tempfile_in(&folder)
            .with_context(|| format!("cannot make a file in {}; set TMPDIR", folder.display()))?,
    };
    let mut piece = vec![0; PIECE_BYTES];
    let mut offset = 0;
    while offset < bytes {
        let len = piece.len().min(usize::try_from(bytes - offset).unwrap_or(usize::MAX));
        Pattern::fill(offset, &mut piece[..len]);
        (&file).write_all(&piece[..len]).with_context(|| format!("{place}, at byte {offset}"))?;
        offset += len as u64;
    }
    // Written back now, so that the disk is quiet while it is measured.
    file.sync_data().context("the file cannot be written to its disk")?;
    Ok(file)
}

/// Bytes that a file in this folder may have, above 0.
fn room(folder: &Path) -> anyhow::Result<u64> {
    let name = folder.display();
    let system = rustix::fs::statvfs(folder)
        .with_context(|| format!("cannot make a file in {name}; set TMPDIR to another folder"))?;
    let free = free_bytes(&system);
    if free <= SPARE_BYTES {
        bail!(
            "{name} has {} left, and {} are to stay free; free some space, name a file to move, \
             or set TMPDIR to another folder",
            numbers::bytes(free),
            numbers::bytes(SPARE_BYTES)
        );
    }
    Ok(free - SPARE_BYTES)
}

/// Where large temporary files belong: TMPDIR, or /var/tmp, which is rarely in memory.
pub(super) fn folder() -> PathBuf {
    let named = std::env::var_os("TMPDIR").filter(|folder| !folder.is_empty());
    named.map_or_else(|| PathBuf::from("/var/tmp"), PathBuf::from)
}

/// Reads the first `bytes`, or what there is of them, which also puts them into the page cache. A
/// file that grows faster than it is read has no end.
fn summed(file: &File, bytes: u64) -> anyhow::Result<Expected> {
    let mut piece = vec![0; PIECE_BYTES];
    let mut expected = Expected { bytes: 0, sum: 0 };
    while expected.bytes < bytes {
        let left = usize::try_from(bytes - expected.bytes).unwrap_or(usize::MAX);
        let most = piece.len().min(left);
        let count =
            file.read_at(&mut piece[..most], expected.bytes).context("cannot read the file")?;
        if count == 0 {
            break;
        }
        expected.bytes += count as u64;
        expected.sum = expected.sum.wrapping_add(byte_sum(&piece[..count]));
    }
    Ok(expected)
}

impl Moved {
    /// Fails if somebody wrote to the file since it was summed: whatever arrived then is compared
    /// with something else.
    pub(super) fn unchanged(&self) -> anyhow::Result<()> {
        let now = Seen::of(&self.file)?;
        if now == self.seen {
            return Ok(());
        }
        let (before, now) = (self.seen.bytes, now.bytes);
        let how = match now == before {
            true => "was written to".to_owned(),
            false => format!("had {before} bytes, then {now}"),
        };
        bail!(
            "the file changed meanwhile ({how}), so the comparison is void; name a file that \
             nothing writes to"
        )
    }

    /// A path under which any process can open the file anew.
    pub(super) fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()))
    }

    /// Moves the file through a pipe by the planner's best route and compares every byte with the
    /// file; how many there were.
    pub(super) fn compare_every_byte(&self) -> anyhow::Result<u64> {
        let anew = File::open(self.path()).context("cannot open the file again")?;
        let (reader, writer) =
            rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).context("no pipe")?;
        let mut reader = File::from(reader);
        std::thread::scope(|scope| {
            let mover = Builder::new().spawn_scoped(scope, move || -> anyhow::Result<u64> {
                let source = Endpoint::source(anew.as_fd())?;
                let sink = Endpoint::sink(writer.as_fd())?;
                let job = Job::new(&source, &sink).limit(self.expected.bytes).allow_aliasing();
                let plan = Plan::best(&job, Knobs::default())?;
                Ok(Transfer::new(&job, &plan).run()?.bytes)
            });
            let mover = mover.context("cannot start a thread")?;
            let compared = self.compare(&mut reader);
            drop(reader);
            let moved = mover.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            let compared = compared?;
            if moved? != self.expected.bytes || compared != self.expected.bytes {
                bail!("{compared} bytes arrived instead of {}", self.expected.bytes);
            }
            Ok(compared)
        })
    }

    fn compare(&self, reader: &mut impl Read) -> anyhow::Result<u64> {
        let (mut got, mut wanted) = (vec![0; PIECE_BYTES], vec![0; PIECE_BYTES]);
        let mut offset = 0;
        loop {
            let count = reader.read(&mut got).context("cannot read the pipe")?;
            if count == 0 {
                return Ok(offset);
            }
            self.file
                .read_exact_at(&mut wanted[..count], offset)
                .context("the file became shorter meanwhile")?;
            if got[..count] != wanted[..count] {
                bail!(
                    "the bytes that arrived differ from the file's within {count} of byte {offset}"
                );
            }
            offset += count as u64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared_of(text: &str) -> (tempfile::NamedTempFile, Moved) {
        let mut named = tempfile::NamedTempFile::new().expect("a file");
        named.write_all(text.as_bytes()).expect("written");
        let moved = prepared(Some(named.path()), 0, &mut Vec::new()).expect("prepared");
        (named, moved)
    }

    #[test]
    fn a_file_system_that_counts_no_blocks_is_not_full() {
        assert!(room(Path::new("/proc")).is_ok_and(|bytes| bytes > 1 << 60));
    }

    #[test]
    fn a_file_is_summed_to_the_size_that_was_seen_first() {
        let (mut named, moved) = prepared_of("first");
        named.write_all(b" and more").expect("written");
        assert_eq!(summed(&moved.file, 5).expect("it is read"), moved.expected);
        assert_eq!(summed(&moved.file, 99).expect("it is read").bytes, 14, "what there is");
        assert_eq!(moved.compare_every_byte().expect("they are the same"), 5);
    }

    #[test]
    fn a_file_that_is_written_to_meanwhile_makes_the_comparison_void() {
        let (mut named, moved) = prepared_of("first");
        moved.unchanged().expect("nobody wrote to it");
        named.write_all(b" and more").expect("written");
        let said = moved.unchanged().expect_err("somebody did").to_string();
        assert!(said.contains("had 5 bytes, then 14") && said.contains("void"), "{said}");
        let (named, moved) = prepared_of("first");
        let later = SystemTime::now() + std::time::Duration::from_secs(9);
        named.as_file().write_all_at(b"other", 0).expect("written");
        // The clock of file systems may stand still for milliseconds.
        named.as_file().set_modified(later).expect("it is ours");
        let said = moved.unchanged().expect_err("somebody did").to_string();
        assert!(said.contains("was written to") && said.contains("void"), "{said}");
    }
}
