//! Settings of the machine that a run changes and puts back: noted while they are changed, so that
//! the run after one that was killed puts them back.

use std::fs;
use std::path::{Path, PathBuf};

use bytepath::machine::Machine;

use crate::left::{Alone, Left, Note};
use crate::swap::{throttle, zswap};

/// How notes of settings begin.
const WORD: &str = "settings";

/// A setting: its file, what is written there for the run, and what is written afterwards, if a line of
/// the file still says what the run wrote: somebody may have changed it since.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) file: PathBuf,
    /// What it says during the run.
    pub(crate) during: String,
    /// What puts it back.
    pub(crate) after: String,
}

/// Settings that are changed while it lives.
#[derive(Debug)]
pub(crate) struct Changed {
    settings: Vec<Setting>,
    note: Note,
}

impl Changed {
    /// Changes settings, in order.
    ///
    /// # Errors
    /// One cannot be changed; those that were are put back.
    pub(crate) fn make(settings: Vec<Setting>) -> Result<Changed, String> {
        let noted = || -> std::io::Result<Note> {
            let mut note = Alone::wait()?.note()?;
            note.tell(text(&settings).as_bytes())?;
            Ok(note)
        };
        let note = noted().map_err(|error| error.to_string())?;
        let changed = Changed { settings, note };
        for Setting { file, during, .. } in &changed.settings {
            fs::write(file, during).map_err(|error| {
                format!("cannot write {during:?} to {}: {error}", file.display())
            })?;
        }
        Ok(changed)
    }
}

impl Drop for Changed {
    fn drop(&mut self) {
        // The other way round: what was changed last may need what was changed before.
        let back = self.settings.iter().rev().map(put_back).filter(Result::is_err).count();
        if back == 0 {
            self.note.done();
        }
    }
}

/// Whether there was something to be put back.
fn put_back(setting: &Setting) -> std::io::Result<bool> {
    let now = fs::read_to_string(&setting.file)?;
    let is_ours = now.lines().any(|line| line.trim() == setting.during);
    if is_ours {
        fs::write(&setting.file, &setting.after)?;
    }
    Ok(is_ours)
}

/// `settings BOOT`, and a line for each: the file, what is there during and after the run.
fn text(settings: &[Setting]) -> String {
    let mut text = format!("{WORD} {}\n", Machine::this().boot_id());
    for Setting { file, during, after } in settings {
        text += &format!("{}\t{during}\t{after}\n", file.display());
    }
    text
}

/// A note of settings.
pub(crate) struct Found {
    settings: Vec<Setting>,
    is_current: bool,
}

impl Found {
    /// The note of settings; `None` where this is the note of something else.
    pub(crate) fn read(told: &[u8]) -> Option<Found> {
        let text = std::str::from_utf8(told).ok()?;
        let (head, rest) = text.split_once('\n')?;
        let boot = head.strip_prefix(WORD)?.trim();
        let setting = |line: &str| {
            let mut words = line.split('\t').map(str::to_owned);
            let file = PathBuf::from(words.next()?);
            let (during, after) = (words.next()?, words.next()?);
            is_setting(&file).then_some(Setting { file, during, after })
        };
        let settings = rest.lines().filter_map(setting).collect();
        Some(Found { settings, is_current: boot == Machine::this().boot_id() })
    }

    /// Puts them back, where somebody has not changed them since.
    pub(crate) fn undone(&self) -> Option<Left> {
        let first = self.settings.first().filter(|_| self.is_current)?.file.clone();
        let (mut is_back, mut failed) = (false, Vec::new());
        for setting in self.settings.iter().rev() {
            match put_back(setting) {
                Ok(done) => is_back |= done,
                Err(error) => failed.push(format!(
                    "{}: {error}; it was {:?}",
                    setting.file.display(),
                    setting.after
                )),
            }
        }
        let removed = if failed.is_empty() { Ok(()) } else { Err(failed.join("; ")) };
        (is_back || removed.is_err()).then_some(Left { path: first, what: "put back", removed })
    }
}

/// Only what runs change is ever written by a note.
fn is_setting(file: &Path) -> bool {
    zswap::changes(file) || throttle::changes(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_again_what_was_changed_and_no_file_is_written_that_runs_do_not_change() {
        let setting =
            |file: &str| Setting { file: file.into(), during: "lz4".into(), after: "7:0 0".into() };
        let ours = setting("/sys/module/zswap/parameters/enabled");
        let all = [
            setting("/sys/kernel/mm/ksm/run"),
            ours.clone(),
            setting("/etc/passwd"),
            setting("/sys/module/zswap/parameters/../../../power/state"),
            setting("/sys/devices/blkio.throttle.read_bps_device"),
        ];
        let found = Found::read(text(&all).as_bytes()).expect("a note");
        assert!(found.is_current);
        assert_eq!(found.settings, [ours]);
        for other in ["", "/a/folder", "zram x made 1 2", "settings"] {
            assert!(Found::read(other.as_bytes()).is_none(), "{other:?}");
        }
    }
}
