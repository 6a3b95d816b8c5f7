//! The names in a directory, read at once and in the order of their inodes.

use std::ffi::{CStr, OsStr};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType, RawDir, Stat};
use rustix::io::Errno;

/// Bytes of entries read at once.
pub(super) const ENTRIES_BYTES: usize = 32 << 10;

/// What stands before a name in [`Entries`]. A zero would be the end of the name before.
pub(super) const IS_FILE: u8 = 1;
const IS_DIRECTORY: u8 = 2;
const IS_OTHER: u8 = 3;

/// Files of a batch: few enough for every thread to have one, enough to make up for a wake-up.
pub(super) const FILES_TOGETHER: usize = 128;

/// Whether this can be the name of something in a directory, and leads nowhere else.
pub(super) fn is_entry(name: &[u8]) -> bool {
    !matches!(name, b"" | b"." | b"..") && !name.contains(&b'/')
}

/// The names in a directory, in one piece of memory.
pub(super) struct Entries {
    /// Each behind a byte that says what it is the name of, with a zero at its end, and no other.
    names: Vec<u8>,
    /// Inode, and where the name begins.
    order: Vec<(u64, u32)>,
}

impl Entries {
    /// Reads them all, by way of empty memory, in the order of their inodes, in which most file systems
    /// have them lie on the device.
    pub(super) fn read(directory: &OwnedFd, room: &mut Vec<u8>) -> Result<Entries, Errno> {
        room.reserve(ENTRIES_BYTES);
        let mut reader = RawDir::new(directory, room.spare_capacity_mut());
        Entries::read_some(&mut reader, usize::MAX)
    }

    /// Of so many names at most, from where the reader stands; whether there may be more.
    pub(super) fn read_some(
        reader: &mut RawDir<'_, &OwnedFd>,
        most: usize,
    ) -> Result<Entries, Errno> {
        let mut entries = Entries { names: Vec::new(), order: Vec::new() };
        while entries.len() < most
            && let Some(entry) = reader.next()
        {
            entries.add(&entry?)?;
        }
        entries.order.sort_unstable();
        Ok(entries)
    }

    /// Those that [`Entries::lines`] wrote.
    ///
    /// # Errors
    /// EINVAL: not all of them are names in a directory, and so something else wrote them.
    pub(super) fn of_lines(names: Vec<u8>) -> Result<Entries, Errno> {
        let mut lines = names.split_inclusive(|byte| *byte == 0);
        let is_line = |line: &[u8]| matches!(line, [_, name @ .., 0] if is_entry(name));
        lines.all(is_line).then(|| Entries::ordered(names)).ok_or(Errno::INVAL)
    }

    /// In the order of the lines.
    fn ordered(names: Vec<u8>) -> Entries {
        let starts = std::iter::once(0).chain(memchr::memchr_iter(0, &names).map(|end| end + 1));
        let order = starts.take_while(|start| *start < names.len());
        let order = order.map(|start| (0, start as u32)).collect();
        Entries { names, order }
    }

    /// Files of these names, in this order.
    pub(super) fn of_files<'n>(files: impl Iterator<Item = &'n OsStr>) -> Entries {
        let mut names = Vec::new();
        for file in files {
            names.push(IS_FILE);
            names.extend_from_slice(file.as_bytes());
            names.push(0);
        }
        Entries::ordered(names)
    }

    /// From this one on, in their order: each a byte that says what it is the name of, the
    /// name, a zero.
    pub(super) fn lines(&self, from: usize) -> Vec<u8> {
        let mut lines = Vec::with_capacity(self.names.len());
        for at in from..self.len() {
            lines.push(self.names[self.order[at].1 as usize]);
            lines.extend_from_slice(self.name(at).as_bytes());
            lines.push(0);
        }
        lines
    }

    fn add(&mut self, entry: &rustix::fs::RawDirEntry<'_>) -> Result<(), Errno> {
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            // Names of 4 GiB and more are more than there is memory for.
            let start = u32::try_from(self.names.len()).map_err(|_| Errno::NOMEM)?;
            self.names.push(match entry.file_type() {
                FileType::RegularFile => IS_FILE,
                FileType::Directory => IS_DIRECTORY,
                _ => IS_OTHER,
            });
            self.names.extend_from_slice(entry.file_name().to_bytes_with_nul());
            self.order.push((entry.ino(), start));
        }
        Ok(())
    }

    /// Whether this is a file, as far as the directory tells.
    pub(super) fn is_file(&self, at: usize) -> bool {
        self.names[self.order[at].1 as usize] == IS_FILE
    }

    /// Whether this is a directory, as far as is told.
    pub(super) fn is_directory(&self, at: usize) -> bool {
        self.names[self.order[at].1 as usize] == IS_DIRECTORY
    }

    /// That of an entry; zero where only its name is known.
    pub(super) fn inode(&self, at: usize) -> u64 {
        self.order[at].0
    }

    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// The name of an entry, as the kernel takes it.
    pub(super) fn c_name(&self, at: usize) -> &CStr {
        let name = &self.names[self.order[at].1 as usize + 1..];
        CStr::from_bytes_until_nul(name).unwrap_or_default()
    }

    /// The name of an entry.
    pub(super) fn name(&self, at: usize) -> &OsStr {
        OsStr::from_bytes(self.c_name(at).to_bytes())
    }

    /// The status of this one, if it has more names than that, in whichever directory.
    pub(super) fn with_other_names(&self, at: usize, directory: &OwnedFd) -> Option<Stat> {
        let stat = rustix::fs::statat(directory, self.c_name(at), AtFlags::SYMLINK_NOFOLLOW);
        stat.ok().filter(|stat| stat.st_nlink > 1)
    }

    /// How many of these files have no namesake in a directory, and the namesake of the next.
    pub(super) fn absent_from(&self, at: usize, sink: &OwnedFd) -> (usize, Option<Stat>) {
        let files = self.files_from(at);
        for file in 0..files {
            match rustix::fs::statat(sink, self.c_name(at + file), AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::NOENT) => {}
                answer => return (file, answer.ok()),
            }
        }
        (files, None)
    }

    /// How many entries from this one on are files, as far as is known and needed.
    pub(super) fn files_from(&self, at: usize) -> usize {
        let is_file = |(_, start): &&(u64, u32)| self.names[*start as usize] == IS_FILE;
        self.order[at..].iter().take(FILES_TOGETHER).take_while(is_file).count()
    }
}
