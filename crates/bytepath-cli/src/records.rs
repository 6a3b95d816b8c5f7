//! Records from files and standard input, each within bounds and with the file's name in what is
//! wrong with it.

use std::fs::File;
use std::io::Read;

use anyhow::{Context, bail};
use bytepath_report::Record;

use crate::wrong_usage;

/// A larger file is no record: those of an hour's run have some MiB.
pub(crate) const BYTES_MAX: u64 = 256 << 20;

/// The records in these files, in order; a file may hold several.
pub(crate) fn read(names: &[String]) -> anyhow::Result<Vec<Record>> {
    if names.iter().filter(|name| *name == "-").count() > 1 {
        return Err(wrong_usage("- is standard input, and there is one"));
    }
    let mut records = Vec::new();
    for name in names {
        let text = text(name)?;
        records.extend(Record::all_from_json(&text).with_context(|| shown(name))?);
    }
    match records.is_empty() {
        false => Ok(records),
        true => bail!("{}: an array of no records", names.join(", ")),
    }
}

/// What a file, or standard input, holds as text.
pub(crate) fn text(name: &str) -> anyhow::Result<String> {
    let mut bytes = Vec::new();
    let read = match name {
        "-" => std::io::stdin().lock().take(BYTES_MAX + 1).read_to_end(&mut bytes),
        _ => File::open(name).and_then(|file| file.take(BYTES_MAX + 1).read_to_end(&mut bytes)),
    };
    read.with_context(|| format!("cannot read {}", shown(name)))?;
    if bytes.len() as u64 > BYTES_MAX {
        bail!("{}: larger than {} MiB, so no record", shown(name), BYTES_MAX >> 20);
    }
    String::from_utf8(bytes)
        .with_context(|| format!("{}: no text in UTF-8, so no record", shown(name)))
}

/// How a file is called in messages.
pub(crate) fn shown(name: &str) -> String {
    match name {
        "-" => "standard input".to_owned(),
        _ => name.to_owned(),
    }
}
