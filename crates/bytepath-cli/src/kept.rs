//! Runs by what people call them: `last`, `last~1`, an id of the store or its end, a file, `-`.

use std::io::Read as _;
use std::path::Path;

use anyhow::{Context, bail};
use bytepath_lab::compare::Run;
use bytepath_lab::store::{self, Entry, RECORD_BYTES_MAX, Store};
use bytepath_report::Record;

use crate::wrong_usage;

/// The word for the run that started last.
const LAST: &str = "last";

/// The store, and what is in it.
pub(crate) struct Kept {
    pub(crate) store: Store,
    pub(crate) entries: Vec<Entry>,
}

impl Kept {
    /// Looks into this user's store; says so where its index had to be mended.
    pub(crate) fn look() -> anyhow::Result<Kept> {
        let folder = Store::default_path().context(
            "no HOME and no XDG_DATA_HOME, so no runs are kept; set one of them, or name files",
        )?;
        let store = Store::at(folder);
        let listing = store.list().context("cannot look into the store")?;
        if let Some(mended) = listing.mended {
            crate::say(format_args!("bytepath: {mended}"));
        }
        Ok(Kept { store, entries: listing.entries })
    }

    /// The run that a word stands for.
    pub(crate) fn find(&self, word: &str) -> anyhow::Result<&Entry> {
        if let Some(back) = back(word) {
            return self.last(word, back?);
        }
        if let Some(entry) = self.entries.iter().find(|entry| entry.name == word) {
            return Ok(entry);
        }
        let ends = |entry: &&Entry| {
            entry.name.strip_suffix(word).is_some_and(|rest| rest.is_empty() || rest.ends_with('-'))
        };
        let ending: Vec<_> = self.entries.iter().filter(ends).collect();
        match ending[..] {
            [entry] if !word.is_empty() => Ok(entry),
            [] | [_] => bail!("no run {word:?} is kept; bytepath history names them all"),
            [one, another, ..] => {
                bail!("{word:?} may be {} or {}: write more of it", one.name, another.name)
            }
        }
    }

    /// The run that started last but so many.
    fn last(&self, word: &str, back: usize) -> anyhow::Result<&Entry> {
        let sound: Vec<_> = self.entries.iter().filter(|run| run.problem.is_none()).collect();
        let index = sound.len().checked_sub(back + 1);
        index.map(|index| sound[index]).with_context(|| match sound.len() {
            0 => format!("{word}: no run is kept in {}", self.store.folder().display()),
            1 => format!("{word}: only one run is kept"),
            count => format!("{word}: only {count} runs are kept"),
        })
    }

    /// The record of a run.
    pub(crate) fn read(&self, entry: &Entry) -> anyhow::Result<Record> {
        Ok(self.store.read(&entry.name)?)
    }
}

/// How far back `last` or `last~N` goes; `None` for another word.
fn back(word: &str) -> Option<anyhow::Result<usize>> {
    match word.strip_prefix(LAST)? {
        "" => Some(Ok(0)),
        rest => {
            let number = rest.strip_prefix('~')?;
            let wrong = || wrong_usage(format!("{word:?} is no run; write for example last~1"));
            Some(number.parse().map_err(|_| wrong()))
        }
    }
}

/// The runs that words stand for, from the store, files, or one from standard input. The store is
/// looked into once, and only if a word is of it.
pub(crate) fn runs(words: &[String]) -> anyhow::Result<Vec<Run>> {
    let mut kept = None;
    let mut piped = false;
    let mut runs = Vec::new();
    for word in words {
        let record = match word.as_str() {
            "-" if piped => return Err(wrong_usage("- is standard input, and there is one")),
            "-" => {
                piped = true;
                from_stdin()?
            }
            word if back(word).is_none() && is_path(word) => store::read_record(Path::new(word))?,
            word => {
                if kept.is_none() {
                    kept = Some(Kept::look()?);
                }
                let kept = kept.as_ref().expect("it was just looked into");
                let entry = kept.find(word)?;
                runs.push(Run { name: entry.name.clone(), record: kept.read(entry)? });
                continue;
            }
        };
        runs.push(Run { name: word.clone(), record });
    }
    Ok(runs)
}

/// Whether a word means a file: it has a slash or an ending, or there is a file of that name.
fn is_path(word: &str) -> bool {
    word.contains('/') || word.ends_with(".json") || Path::new(word).is_file()
}

fn from_stdin() -> anyhow::Result<Record> {
    let mut bytes = Vec::new();
    let limit = std::io::stdin().lock().take(RECORD_BYTES_MAX + 1).read_to_end(&mut bytes);
    limit.context("standard input")?;
    if bytes.len() as u64 > RECORD_BYTES_MAX {
        bail!("standard input: larger than {} MiB, so no record", RECORD_BYTES_MAX >> 20);
    }
    Record::from_json(&String::from_utf8_lossy(&bytes)).context("standard input")
}
