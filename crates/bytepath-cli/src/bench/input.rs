//! The standard input of commands that are measured.

use std::collections::BTreeMap;
use std::fs::{File, Metadata, OpenOptions};
use std::io::IsTerminal as _;
use std::os::fd::{AsFd as _, IntoRawFd as _};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::PathBuf;

use anyhow::Context;
use clap::Args;
use rustix::fs::OFlags;
use serde_json::Value;

use crate::usage::wrong_usage;

/// What each run reads.
#[derive(Args)]
pub(super) struct Input {
    /// Give each run this file as its standard input, which is empty unless given
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
}

impl Input {
    /// Which file it is and, where it has one, its size, for the record.
    pub(super) fn describe(&self, settings: &mut BTreeMap<String, Value>) {
        let Some(path) = &self.input else { return };
        settings.insert("input".to_owned(), path.display().to_string().into());
        let found = std::fs::metadata(path).ok().filter(Metadata::is_file);
        settings.extend(found.map(|found| ("input_bytes".to_owned(), found.len().into())));
    }

    /// The file, by a name that means the same to every process: /dev/stdin does not.
    ///
    /// # Errors
    /// It cannot be read, or not again by every run.
    pub(super) fn file(&self) -> anyhow::Result<Option<PathBuf>> {
        let Some(path) = &self.input else { return Ok(None) };
        let failed = || format!("cannot read {}", path.display());
        // Before it is opened, for which a FIFO would wait.
        let kind = std::fs::metadata(path).with_context(failed)?.file_type();
        let refused = || {
            wrong_usage(format!(
                "each run is to read all of --input, and {} is neither a file nor a device such as \
                 /dev/zero: write what it gives to a file, and name that",
                path.display()
            ))
        };
        if !(kind.is_file() || kind.is_char_device() || kind.is_block_device()) {
            return Err(refused());
        }
        // A terminal's line may not be there, and would be waited for.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits().cast_signed();
        let open = OpenOptions::new().read(true).custom_flags(flags).open(path);
        let open = open.with_context(failed)?;
        if open.is_terminal() {
            return Err(refused());
        }
        let named = std::fs::canonicalize(path).ok().filter(|file| File::open(file).is_ok());
        // One without a name, as a shell makes for <<<, stays open here until all runs are over.
        let held = || format!("/proc/{}/fd/{}", std::process::id(), open.into_raw_fd()).into();
        Ok(Some(named.unwrap_or_else(held)))
    }

    /// A note, where this process's own standard input looks as if each run were to read it: that could
    /// be once alone.
    pub(super) fn unread(&self) -> Option<String> {
        let own = std::io::stdin().as_fd().try_clone_to_owned().ok()?;
        let found = File::from(own).metadata().ok()?;
        let kind = match found.file_type() {
            kind if kind.is_file() && found.len() > 0 => "file",
            kind if kind.is_fifo() => "pipe",
            _ => return None,
        };
        self.input.is_none().then(|| {
            format!(
                "standard input was empty for each run: the {kind} that bench has there is left alone; \
                 give each run a file by --input FILE"
            )
        })
    }
}
