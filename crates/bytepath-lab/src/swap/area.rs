//! A swap area of a run: made, used before all others, and gone when it is dropped.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use bytepath_report::numbers;

use super::throttle::Throttle;
use super::zswap::{self, Zswap};
use super::{Backend, areas};
use crate::devices::loop_device::{Way, attached};
use crate::devices::zram::Zram;
use crate::file_set;
use crate::left::{Folder, IMAGE, image_options};
use crate::tools;

/// The highest that an area can have (SWAP_FLAG_PRIO_MASK): pages go there before they go anywhere
/// else.
const PRIORITY: i32 = 32_767;

/// Bytes that are written at once while a file is made.
const PIECE_BYTES: usize = 1 << 20;

/// What an area is to be.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// What takes the pages.
    pub backend: Backend,
    /// Its size.
    pub bytes: u64,
    /// Where files are made: one that [`super::places`] found fit.
    pub directory: Result<PathBuf, String>,
    /// Bytes per second of [`Backend::SlowLoop`].
    pub disk_rate: u64,
}

/// An area that is there, and is on for as long as an [`On`] of it lives. A file is made once for all
/// samples; a zram device is made for each.
#[derive(Debug)]
pub struct Area {
    wanted: Wanted,
    file: Option<(Folder, PathBuf)>,
}

impl Area {
    /// Makes what lasts.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn make(wanted: &Wanted) -> Result<Area, String> {
        let wanted = wanted.clone();
        let file = match wanted.backend {
            Backend::None => None,
            _ if !rustix::process::geteuid().is_root() => {
                return Err("swap takes root: run it as root".into());
            }
            Backend::Zram(_) => None,
            Backend::Zswap if !zswap::is_there() => {
                return Err("this kernel has no zswap; it takes one with CONFIG_ZSWAP".into());
            }
            Backend::File | Backend::SlowLoop | Backend::Zswap => {
                Some(file_for(&wanted.directory.clone()?, wanted.bytes)?)
            }
        };
        Ok(Area { wanted, file })
    }

    /// Has it used, before all others.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub fn on(&self) -> Result<On, String> {
        let mut on = On::default();
        let path = match (self.wanted.backend, &self.file) {
            (Backend::None, _) => return Ok(on),
            (Backend::Zram(algorithm), _) => {
                let zram = Zram::compressing(self.wanted.bytes, Some(algorithm))?;
                let path = zram.path();
                on.zram = Some(zram);
                path
            }
            (Backend::SlowLoop, Some((_, file))) => {
                // The kernel never holds back what is written to swap, since others may wait for that
                // memory (bio_issue_as_root_blkg in block/blk-throttle.c). So the device that is kept
                // to a rate lies below the one that is swap: what that one writes is no swap any more.
                let file = File::options().read(true).write(true).open(file);
                let file = file.map_err(|error| format!("cannot open its file: {error}"))?;
                // Past the page cache: what is in there takes the memory that is to be freed.
                let (path, below) = attached(&file, Way::Direct)?;
                on.throttle = Some(Throttle::of_device(&path, self.wanted.disk_rate)?);
                let above = attached(&below, Way::Direct);
                on.devices.push(below);
                let (path, device) = above?;
                on.devices.push(device);
                path
            }
            (_, Some((_, file))) => file.clone(),
            (_, None) => return Err("its file was not made".into()),
        };
        if self.wanted.backend == Backend::Zswap {
            on.zswap = Some(Zswap::enabled()?);
        }
        tools::said("mkswap", &[path.as_os_str()])?;
        let priority = PRIORITY.to_string();
        // Told before it is on: what is not on is turned off without harm.
        on.path = Some(path.clone());
        tools::said("swapon", &["--priority".as_ref(), priority.as_ref(), path.as_os_str()])?;
        Ok(on)
    }

    /// What else takes pages of this machine, and may take some of a sample's, for a reader.
    pub fn others(&self) -> Vec<String> {
        let mut others: Vec<String> = Vec::new();
        for area in areas::active().unwrap_or_default() {
            let used = match area.priority >= PRIORITY {
                true => "it is used as much as the arms' own",
                false => "it is used once the arms' own are full",
            };
            let (path, bytes) = (area.path.display(), numbers::bytes(area.bytes));
            others.push(format!("{path} is swap of others ({bytes}): {used}"));
        }
        if self.wanted.backend != Backend::Zswap && zswap::is_on() {
            others.push("zswap is on: it takes pages before any area does".into());
        }
        others
    }
}

/// An area that is on; off, and its device gone, when dropped.
#[derive(Debug, Default)]
pub struct On {
    path: Option<PathBuf>,
    throttle: Option<Throttle>,
    zswap: Option<Zswap>,
    zram: Option<Zram>,
    /// Keep loop devices there.
    devices: Vec<File>,
}

impl On {
    /// What the pages take now, where it is known: as they were, compressed, in memory.
    pub(super) fn taken_bytes(&self) -> Option<[u64; 3]> {
        match (&self.zram, &self.zswap) {
            (Some(zram), _) => zram.taken_bytes(),
            (_, Some(zswap)) => zswap.taken_bytes(),
            _ => None,
        }
    }

    /// How much of it is in use.
    pub(super) fn used_bytes(&self) -> Option<u64> {
        areas::named(self.path.as_deref()?).ok()?.map(|area| area.used_bytes)
    }

    /// The limit on what its device does.
    pub(super) fn throttle(&self) -> Option<&Throttle> {
        self.throttle.as_ref()
    }

    /// Turns it off.
    ///
    /// # Errors
    /// It is still on: why, and what to do.
    pub fn off(mut self) -> Result<(), String> {
        self.ended()?;
        self.devices.clear();
        self.zram.take().map_or(Ok(()), Zram::remove)
    }

    fn ended(&mut self) -> Result<(), String> {
        // What is still there is written no slower than it can be.
        self.throttle = None;
        self.path.as_deref().map_or(Ok(()), areas::off)?;
        self.path = None;
        Ok(())
    }
}

impl Drop for On {
    fn drop(&mut self) {
        // What stays has a note, and the next run tries again.
        let _ = self.ended();
    }
}

/// A file without holes, as swap has to be; written, so that no page waits for the file system to
/// mark its place as such.
fn file_for(directory: &Path, bytes: u64) -> Result<(Folder, PathBuf), String> {
    let failed = |error: std::io::Error| {
        let place = directory.display();
        let smaller = "take a smaller --area, or ";
        let hint =
            file_set::size_hint(&error, smaller, "; take a smaller --area, or another --dir");
        format!("no file for it in {place}: {error}{hint}")
    };
    file_set::is_room(directory, bytes).map_err(failed)?;
    let folder = Folder::make_lasting(directory).map_err(failed)?;
    let path = folder.path().join(IMAGE);
    let made = || -> std::io::Result<()> {
        let file = image_options().open(&path)?;
        let mut file = file_set::reserved(file, bytes)?;
        let piece = vec![0; PIECE_BYTES];
        let mut left = bytes;
        while left > 0 {
            if crate::interrupt::wished() {
                return Err(std::io::Error::other("interrupted"));
            }
            let count = left.min(PIECE_BYTES as u64);
            file.write_all(&piece[..count as usize])?;
            left -= count;
        }
        file.sync_all()?;
        // Nothing of it may stay in the page cache: what swap writes goes past that.
        bytepath::page_cache::drop_pages(&file)?;
        match file.metadata()?.blocks() * 512 < bytes {
            true => Err(std::io::Error::other("its file system leaves holes in it")),
            false => Ok(()),
        }
    };
    made().map_err(failed)?;
    Ok((folder, path))
}
