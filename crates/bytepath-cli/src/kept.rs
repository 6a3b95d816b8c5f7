//! Runs of the store: put into it, and found by what people call them: `last`, `last~1`, an id or its
//! end, a file, `-`.

use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context, bail};
use bytepath_lab::compare::Run;
use bytepath_lab::store::{Entry, Store};
use bytepath_report::Record;

use crate::planning::no_folder;
use crate::records;
use crate::said::say;
use crate::usage::wrong_usage;

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
        let folder = Store::default_path().with_context(|| {
            let why = no_folder("XDG_DATA_HOME");
            format!("{why}, so no runs are kept; set one of them, or name files")
        })?;
        let store = Store::at(folder);
        let listing = store.list().context("cannot look into the store")?;
        if let Some(mended) = listing.mended {
            say(format_args!("bytepath: {mended}"));
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
        sound.iter().rev().nth(back).copied().with_context(|| match sound.len() {
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

/// The runs that words stand for, from the store, files, or standard input. The store is looked into
/// once, and only if a word is of it. A file may hold several, which are then numbered.
pub(crate) fn runs(words: &[OsString]) -> anyhow::Result<Vec<Run>> {
    if words.iter().filter(|word| *word == "-").count() > 1 {
        return Err(wrong_usage("- is standard input, and there is one"));
    }
    let mut kept = None;
    let mut runs = Vec::new();
    for word in words {
        // An id is text; the name of a file may be none.
        let id = word.to_str().filter(|word| back(word).is_some() || !is_path(word));
        let Some(id) = id else {
            let (records, name) = (records::read(word)?, word.to_string_lossy());
            let several = records.len() > 1;
            runs.extend((1..).zip(records).map(|(number, record)| Run {
                name: if several { format!("{name}#{number}") } else { name.to_string() },
                record,
            }));
            continue;
        };
        if kept.is_none() {
            kept = Some(Kept::look()?);
        }
        let kept = kept.as_ref().expect("it was just looked into");
        let entry = kept.find(id)?;
        runs.push(Run { name: entry.name.clone(), record: kept.read(entry)? });
    }
    Ok(runs)
}

/// Puts the run into the store, and tells its name there. A run that cannot be kept is shown all the
/// same, with a warning.
pub(crate) fn keep(record: &Record) -> Option<String> {
    let kept = match Store::default_path() {
        Some(folder) => Store::at(folder).keep(record).map_err(anyhow::Error::from),
        None => Err(anyhow::anyhow!("{}, so nowhere to keep it", no_folder("XDG_DATA_HOME"))),
    };
    kept.inspect_err(|error| {
        say(format_args!(
            "bytepath: the run is not kept: {error}; --no-store does without, and --json FILE writes \
             the record elsewhere"
        ));
    })
    .ok()
}

/// Whether a word means a file, or standard input: it has a slash or an ending, or there is something of
/// that name.
fn is_path(word: &str) -> bool {
    word == "-" || word.contains('/') || word.ends_with(".json") || Path::new(word).exists()
}
