//! Block devices that are made for a run and go with it.

pub mod loop_device;
pub mod zram;

use std::fs::File;
use std::path::{Path, PathBuf};

use bytepath_report::numbers;
use loop_device::Loop;
use zram::Zram;

/// What a device can be made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Compressed memory.
    Zram,
    /// A file.
    Loop,
}

impl Kind {
    /// The kind of this name.
    pub fn named(name: &str) -> Option<Kind> {
        match name {
            "zram" => Some(Kind::Zram),
            "loop" => Some(Kind::Loop),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Zram => "zram",
            Kind::Loop => "loop",
        }
    }
}

/// A device that is to be made for a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// What of.
    pub kind: Kind,
    /// Its size; devices have whole blocks, so it may become a little larger.
    pub bytes: u64,
}

/// The largest block that devices are usually made of.
const BLOCK_BYTES: u64 = 4096;

/// A device of this run; gone when it is dropped.
#[derive(Debug)]
pub enum Made {
    /// Of memory.
    Zram(Zram),
    /// Of a file.
    Loop(Loop),
}

impl std::fmt::Display for Wanted {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{} device of {}", self.kind.name(), numbers::bytes(self.bytes))
    }
}

impl Wanted {
    /// Makes it; the file of a loop device lies in `directory`.
    ///
    /// # Errors
    /// Why not, with the remedy, for a person.
    pub fn make(self, directory: &Path) -> Result<Made, String> {
        let bytes = self.bytes.checked_next_multiple_of(BLOCK_BYTES).unwrap_or(u64::MAX);
        let made = match self.kind {
            Kind::Zram => Zram::make(bytes).map(Made::Zram),
            Kind::Loop => Loop::make(directory, bytes).map(Made::Loop),
        };
        made.map_err(|why| format!("cannot make a {self}: {why}"))
    }
}

impl Made {
    /// By which name it is opened.
    pub fn path(&self) -> PathBuf {
        match self {
            Made::Zram(zram) => zram.path(),
            Made::Loop(device) => device.path().to_owned(),
        }
    }

    /// The file below it, whose bytes the page cache may have too.
    pub fn image(&self) -> Option<&File> {
        match self {
            Made::Zram(_) => None,
            Made::Loop(device) => Some(device.image()),
        }
    }

    /// Removes it.
    ///
    /// # Errors
    /// It is still there: why, and what removes it.
    pub fn remove(self) -> Result<(), String> {
        match self {
            Made::Zram(zram) => zram.remove(),
            // The kernel does it when nobody has it open.
            Made::Loop(device) => {
                drop(device);
                Ok(())
            }
        }
    }
}
