//! Records from files and standard input, each within bounds and with the file's name in what is
//! wrong with it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileTypeExt as _;
use std::time::SystemTime;

use anyhow::{Context, anyhow, bail};
use bytepath_lab::store::RECORD_BYTES_MAX;
use bytepath_report::Record;

/// The records in a file, or from standard input for `-`; a file may hold several.
pub(crate) fn read(name: &OsStr) -> anyhow::Result<Vec<Record>> {
    let records = Record::all_from_json(&text(name)?);
    // The error says its cause itself.
    let records = records.map_err(|error| anyhow!("{}: {error}", shown(name)))?;
    match records.is_empty() {
        false => Ok(records),
        true => bail!("{}: not a record, but an array of none", shown(name)),
    }
}

/// What a file, or standard input, holds as text.
pub(crate) fn text(name: &OsStr) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let read = match name == "-" {
        true => std::io::stdin().lock().take(RECORD_BYTES_MAX + 1).read_to_end(&mut bytes),
        false => {
            opened(name).and_then(|file| file.take(RECORD_BYTES_MAX + 1).read_to_end(&mut bytes))
        }
    };
    read.with_context(|| format!("cannot read {}", shown(name)))?;
    if bytes.len() as u64 > RECORD_BYTES_MAX {
        bail!("{}: larger than {} MiB, so no record", shown(name), RECORD_BYTES_MAX >> 20);
    }
    String::from_utf8(bytes)
        .with_context(|| format!("{}: no text in UTF-8, so no record", shown(name)))
}

/// A file, or a pipe as a shell's <(COMMAND) is one; a device has no record, and some have no end.
fn opened(name: &OsStr) -> std::io::Result<File> {
    let file = File::open(name)?;
    let kind = file.metadata()?.file_type();
    match kind.is_char_device() || kind.is_block_device() {
        false => Ok(file),
        true => Err(std::io::Error::other("not a regular file, so no record")),
    }
}

/// How a file is called in messages.
pub(crate) fn shown(name: &OsStr) -> String {
    match name == "-" {
        true => "standard input".to_owned(),
        false => name.to_string_lossy().into_owned(),
    }
}

/// When the year 10000 begins, in seconds after the epoch.
const YEAR_10000_S: u64 = 253_402_300_800;

/// A time as records have it; now, where there is none. Before 1970 or behind 9999 there is no way to
/// write it.
pub(crate) fn time(at: Option<SystemTime>) -> String {
    let can_be_written = |at: &SystemTime| {
        at.duration_since(SystemTime::UNIX_EPOCH).is_ok_and(|since| since.as_secs() < YEAR_10000_S)
    };
    let at = at.filter(can_be_written).unwrap_or_else(SystemTime::now);
    humantime::format_rfc3339_seconds(at).to_string()
}
