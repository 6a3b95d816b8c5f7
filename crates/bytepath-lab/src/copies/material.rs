//! What is copied: one file, one with holes, a tree of small files; and whether a copy is one.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytepath::inlets::byte_sum;
use bytepath::page_cache;

use super::ground::{Ground, dropped};
use crate::file_set::size_hint;
use crate::interrupt;

/// What is copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One file without holes.
    One,
    /// One file, most of which is holes: 64 KiB of every MiB are data.
    Sparse,
    /// Many small files: sizes below 64 KiB, each power of two as frequent as the next.
    Tree,
}

/// Every kind, in reading order.
pub const KINDS: &[Kind] = &[Kind::One, Kind::Sparse, Kind::Tree];

impl Kind {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::One => "one",
            Kind::Sparse => "sparse",
            Kind::Tree => "tree",
        }
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Kind> {
        KINDS.iter().copied().find(|kind| kind.name() == name)
    }

    /// What so much of it takes of a file system, about.
    fn bytes(self, amount: Amount) -> u64 {
        match self {
            Kind::One => amount.file_bytes,
            Kind::Sparse => amount.file_bytes / SPARSE_STRIDE * SPARSE_DATA as u64,
            Kind::Tree => u64::from(amount.files) * TREE_FILE_BYTES,
        }
    }
}

/// How much there is of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Amount {
    /// Bytes of a file, its holes among them.
    pub file_bytes: u64,
    /// Files of a tree.
    pub files: u32,
}

impl Amount {
    /// Enough to see whether an arm can run at all.
    const TRIAL: Amount = Amount { file_bytes: 2 << 20, files: 3 };
}

/// Files in one directory of a tree.
const FILES_OF_DIRECTORY: u32 = 100;
/// Sizes of a tree's files are below 2 to this power.
const SIZE_BITS: f64 = 16.0;
/// What one of them takes, about, with its inode.
const TREE_FILE_BYTES: u64 = 12 << 10;
/// A sparse file has its data at the start of each of these.
const SPARSE_STRIDE: u64 = 1 << 20;
const SPARSE_DATA: usize = 64 << 10;

/// Something to copy, on a ground.
#[derive(Debug)]
pub struct Material {
    kind: Kind,
    path: PathBuf,
    /// Bytes of all files, holes among them.
    bytes: u64,
    /// The sum of the bytes of one file.
    sum: u64,
}

/// What is copied, and little of the same for trials.
#[derive(Debug)]
pub struct Supply {
    /// All of it.
    pub whole: Material,
    /// Little of it.
    pub trial: Material,
}

impl Supply {
    /// Makes both on a ground.
    ///
    /// # Errors
    /// There is no room, or the run is to end.
    pub fn make(kind: Kind, ground: &Ground, amount: Amount) -> Result<Supply, String> {
        let at = |name: &str| ground.root().join(format!("{}-{name}", kind.name()));
        let make = |path: PathBuf, amount| {
            Material::make(kind, path, amount).map_err(|error| {
                let hint = size_hint(&error, "take a smaller --size, or ", "");
                format!("cannot make what is copied: {error}{hint}")
            })
        };
        // And a copy of it.
        ground.has_room(kind.bytes(amount).saturating_mul(2))?;
        let whole = make(at("source"), amount)?;
        let trial = make(at("trial"), Amount::TRIAL)?;
        // Written back now, so that the disk is quiet while it is measured.
        ground.sync()?;
        Ok(Supply { whole, trial })
    }
}

impl Material {
    fn make(kind: Kind, path: PathBuf, amount: Amount) -> std::io::Result<Material> {
        let (bytes, sum) = match kind {
            Kind::One => one(&path, amount.file_bytes)?,
            Kind::Sparse => sparse(&path, amount.file_bytes)?,
            Kind::Tree => (tree(&path, amount.files)?, 0),
        };
        Ok(Material { kind, path, bytes, sum })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Bytes of all files, holes among them.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Has all of it in the page cache, and sees that it is.
    ///
    /// # Errors
    /// It does not stay there.
    pub fn heat(&self) -> Result<(), String> {
        each(&self.path, &mut heated)
    }

    /// Has none of it in the page cache, and sees that it is so.
    ///
    /// # Errors
    /// Something stays there.
    pub fn cool(&self) -> Result<(), String> {
        each(&self.path, &mut dropped)
    }

    /// The share of its pages that are in the page cache.
    ///
    /// # Errors
    /// It cannot be told.
    pub fn resident(&self) -> Result<f64, String> {
        self.resident_of(&self.path)
    }

    /// The same of a copy.
    ///
    /// # Errors
    /// It cannot be told.
    pub fn resident_of(&self, copy: &Path) -> Result<f64, String> {
        let (mut there, mut all) = (0, 0);
        each(copy, &mut |file| {
            let bytes = file.metadata().map_err(told)?.len();
            let (resident, pages) =
                page_cache::resident_pages(file, bytes).map_err(|errno| told(errno.into()))?;
            (there, all) = (there + resident, all + pages);
            Ok(())
        })?;
        Ok(if all == 0 { 0.0 } else { there as f64 / all as f64 })
    }

    /// Sees that a copy has every file and byte; by its size alone, where `fully` is not asked for
    /// and it is a tree. How many bytes the device holds of it.
    ///
    /// # Errors
    /// What is missing or different.
    pub fn check(&self, copy: &Path, fully: bool) -> Result<u64, String> {
        match self.kind {
            Kind::One | Kind::Sparse => self.check_file(copy),
            Kind::Tree => self.check_tree(copy, fully),
        }
    }

    fn check_file(&self, copy: &Path) -> Result<u64, String> {
        let mut file = File::open(copy).map_err(|error| format!("there is no copy: {error}"))?;
        let found = file.metadata().map_err(told)?;
        if found.len() != self.bytes {
            return Err(format!("the copy has {} of {} bytes", found.len(), self.bytes));
        }
        file.seek(SeekFrom::Start(0)).map_err(told)?;
        match summed(&file).map_err(told)? {
            sum if sum == self.sum => Ok(found.blocks() * 512),
            _ => Err("the copy has other bytes than the source".into()),
        }
    }

    fn check_tree(&self, copy: &Path, fully: bool) -> Result<u64, String> {
        let of = |path: &Path| files_of(path).map_err(|error| format!("the copy: {error}"));
        let (source, copied) = (of(&self.path)?, of(copy)?);
        if source.len() != copied.len() {
            return Err(format!("the copy has {} of {} files", copied.len(), source.len()));
        }
        let (mut bytes, mut held) = (0, 0);
        for (from, to) in source.iter().zip(&copied) {
            if from.strip_prefix(&self.path) != to.strip_prefix(copy) {
                let into = self.path.file_name().map(|name| copy.join(name));
                return Err(match into.is_some_and(|into| to.starts_with(into)) {
                    true => COPIED_INTO.to_owned(),
                    false => format!("the copy has {} instead", to.display()),
                });
            }
            let found = to.symlink_metadata().map_err(told)?;
            bytes += found.len();
            held += found.blocks() * 512;
            if fully && std::fs::read(from).map_err(told)? != std::fs::read(to).map_err(told)? {
                return Err(format!("{} has other bytes than its source", to.display()));
            }
        }
        match bytes == self.bytes {
            true => Ok(held),
            false => Err(format!("the copy has {bytes} of {} bytes", self.bytes)),
        }
    }
}

/// What programs do that are used to folders that are there.
const COPIED_INTO: &str = "it copied into the target, not onto it: give words that copy onto it, \
                           such as --with 'rsync -a {source}/ {sink}'";

/// Does something with each file of a path.
fn each(path: &Path, act: &mut dyn FnMut(&File) -> Result<(), String>) -> Result<(), String> {
    let named = |path: &Path, error| format!("{}: {error}", path.display());
    for file in files_of(path).map_err(|error| named(path, told(error)))? {
        let open = File::open(&file).map_err(|error| named(&file, told(error)))?;
        act(&open).map_err(|error| named(&file, error))?;
    }
    Ok(())
}

/// Reading a file may leave pages out once, where the kernel reads ahead of it, and not again.
const READINGS_MAX: u32 = 3;

fn heated(file: &File) -> Result<(), String> {
    let metadata = file.metadata().map_err(told)?;
    // Holes of some file systems (tmpfs) are never in the page cache.
    let wanted = metadata.len().min(metadata.blocks() * 512);
    for _ in 0..READINGS_MAX {
        if resident(file)? >= metadata.len() {
            return Ok(());
        }
        let mut file = file;
        file.seek(SeekFrom::Start(0)).map_err(told)?;
        summed(file).map_err(told)?;
        if resident(file)? >= wanted {
            return Ok(());
        }
    }
    Err(format!("only {} of {wanted} bytes stay in the page cache", resident(file)?))
}

/// The files of a path, itself one or a tree, in the order of their names.
fn files_of(path: &Path) -> std::io::Result<Vec<PathBuf>> {
    if !path.symlink_metadata()?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let (mut files, mut folders) = (Vec::new(), vec![path.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => folders.push(entry.path()),
                false => files.push(entry.path()),
            }
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn resident(file: &File) -> Result<u64, String> {
    page_cache::resident_bytes(file).map_err(|errno| told(errno.into()))
}

/// Reads a file to its end for its sum.
fn summed(file: &File) -> std::io::Result<u64> {
    let (mut piece, mut at, mut sum) = (Vec::with_capacity(PIECE_BYTES), 0, 0_u64);
    loop {
        piece.clear();
        match file.take(PIECE_BYTES as u64).read_to_end(&mut piece)? {
            0 => return Ok(sum),
            count => {
                sum = sum.wrapping_add(sum_of(&piece, at));
                at += count as u64;
            }
        }
    }
}

/// Bytes that are read, or made, at a time: whole pages.
const PIECE_BYTES: usize = 1 << 20;
const PAGE_BYTES: usize = 4096;

/// The sum of bytes that begin at a whole page of a file, each page weighted by its number, so that
/// pages that change places change the sum.
fn sum_of(bytes: &[u8], at: u64) -> u64 {
    let pages = bytes.chunks(PAGE_BYTES).zip(at / PAGE_BYTES as u64 + 1..);
    pages.fold(0, |sum, (page, number)| sum.wrapping_add(byte_sum(page).wrapping_mul(number)))
}

/// A file of bytes that neither compress nor repeat; its length and its sum.
fn one(path: &Path, bytes: u64) -> std::io::Result<(u64, u64)> {
    let mut file = File::create_new(path)?;
    let (mut random, mut piece) = (fastrand::Rng::new(), vec![0; PIECE_BYTES]);
    let (mut at, mut sum) = (0, 0_u64);
    while at < bytes {
        go_on()?;
        random.fill(&mut piece);
        let count = usize::try_from(bytes - at).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        file.write_all(&piece[..count])?;
        sum = sum.wrapping_add(sum_of(&piece[..count], at));
        at += count as u64;
    }
    Ok((bytes, sum))
}

fn sparse(path: &Path, bytes: u64) -> std::io::Result<(u64, u64)> {
    let mut file = File::create_new(path)?;
    file.set_len(bytes)?;
    let (mut random, mut piece) = (fastrand::Rng::new(), vec![0; SPARSE_DATA]);
    let (mut at, mut sum) = (0, 0_u64);
    while at < bytes {
        go_on()?;
        random.fill(&mut piece);
        let count = usize::try_from(bytes - at).map_or(SPARSE_DATA, |left| left.min(SPARSE_DATA));
        file.seek(SeekFrom::Start(at))?;
        file.write_all(&piece[..count])?;
        sum = sum.wrapping_add(sum_of(&piece[..count], at));
        at += SPARSE_STRIDE;
    }
    Ok((bytes, sum))
}

/// A tree of small files; the bytes of all.
fn tree(path: &Path, files: u32) -> std::io::Result<u64> {
    std::fs::create_dir(path)?;
    // The same sizes in every run.
    let (mut sizes, mut random) = (fastrand::Rng::with_seed(4), fastrand::Rng::new());
    let mut piece = vec![0; 1 << SIZE_BITS as u32];
    random.fill(&mut piece);
    let mut bytes = 0;
    for number in 0..files {
        go_on()?;
        let folder = path.join(format!("d{:04}", number / FILES_OF_DIRECTORY));
        if number % FILES_OF_DIRECTORY == 0 {
            std::fs::create_dir(&folder)?;
        }
        let size = ((sizes.f64() * SIZE_BITS).exp2() - 1.0) as usize;
        let from = sizes.usize(..piece.len() - size);
        std::fs::write(folder.join(format!("f{number:06}")), &piece[from..from + size])?;
        bytes += size as u64;
    }
    Ok(bytes)
}

fn go_on() -> std::io::Result<()> {
    match interrupt::wished() {
        true => Err(std::io::Error::other("interrupted")),
        false => Ok(()),
    }
}

fn told(error: std::io::Error) -> String {
    error.to_string()
}
