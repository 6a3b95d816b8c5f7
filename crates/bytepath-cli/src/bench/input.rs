//! The standard input of commands that are measured.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::os::fd::AsFd as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::Args;
use serde_json::Value;

/// What each run reads.
#[derive(Args)]
pub(super) struct Input {
    /// Give each run this file as its standard input, which is empty unless given
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,
}

impl Input {
    pub(super) fn file(&self) -> Option<&Path> {
        self.input.as_deref()
    }

    /// Which file it is and, where it has one, its size, for the record.
    pub(super) fn describe(&self, settings: &mut BTreeMap<String, Value>) {
        let Some(path) = self.file() else { return };
        settings.insert("input".to_owned(), path.display().to_string().into());
        let found = std::fs::metadata(path).ok().filter(Metadata::is_file);
        settings.extend(found.map(|found| ("input_bytes".to_owned(), found.len().into())));
    }

    /// Sees that the file can be read, before anything is measured.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.file().map_or(Ok(()), |path| {
            File::open(path).map(drop).with_context(|| format!("cannot read {}", path.display()))
        })
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
