//! zram devices of a run: memory that looks like a disk.
//!
//! They do not go by themselves. Each has a note, so that the run after one that was killed removes
//! it: and no other, for the note tells the device by the number that the kernel gives to each
//! device once (its sequence number; its size where there is none), and by the kernel's present run.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Error, Result as IoResult};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytepath::machine::Machine;
use rustix::io::Errno;

use crate::left::{Alone, Left, Note, REMOVED};
use crate::swap::areas;

const CONTROL: &str = "/sys/class/zram-control";

/// For so long a device may be busy with those who look at every device that changes.
const BUSY_TIME_MAX: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A zram device of this run.
#[derive(Debug)]
pub struct Zram {
    number: u32,
    note: Note,
    removed: bool,
}

impl Zram {
    /// Makes one of this size.
    ///
    /// # Errors
    /// Why not, with the remedy, for a person.
    pub(super) fn make(bytes: u64) -> Result<Zram, String> {
        Zram::compressing(bytes, None)
    }

    /// Makes one of this size that compresses by this algorithm; by the kernel's own choice unless
    /// one is named.
    ///
    /// # Errors
    /// Why not, with the remedy, for a person.
    pub(crate) fn compressing(bytes: u64, algorithm: Option<&str>) -> Result<Zram, String> {
        possible()?;
        is_room(bytes)?;
        let zram = noted(bytes).map_err(|error| format!("{error}{}", hint(&error)))?;
        if let Some(algorithm) = algorithm {
            zram.compress_by(algorithm)?;
        }
        let size = format!("/sys/block/zram{}/disksize", zram.number);
        fs::write(&size, bytes.to_string()).map_err(|error| format!("{size}: {error}"))?;
        match zram.path().exists() {
            true => Ok(zram),
            false => Err(format!(
                "{} does not appear; is /dev here the system's own, and not a container's?",
                zram.path().display()
            )),
        }
    }

    /// Chooses the algorithm, which is possible until it has a size.
    fn compress_by(&self, algorithm: &str) -> Result<(), String> {
        let file = format!("/sys/block/zram{}/comp_algorithm", self.number);
        let has = fs::read_to_string(&file).map_err(|error| format!("{file}: {error}"))?;
        let mut has = has.split_whitespace().map(|name| name.trim_matches(['[', ']']));
        if !has.any(|name| name == algorithm) {
            let all = fs::read_to_string(&file).unwrap_or_default();
            let all: Vec<_> = all.split_whitespace().collect();
            return Err(format!(
                "this kernel's zram has no {algorithm}, only {}; it takes a kernel with \
                 CONFIG_ZRAM_BACKEND_{}",
                all.join(" ").replace(['[', ']'], ""),
                algorithm.to_uppercase().replace('-', "_")
            ));
        }
        fs::write(&file, algorithm).map_err(|error| format!("{file}: {error}"))
    }

    /// What its pages take: as they were, compressed, and in memory with all that belongs to them
    /// (the first three numbers of mm_stat, Documentation/admin-guide/blockdev/zram.rst).
    pub(crate) fn taken_bytes(&self) -> Option<[u64; 3]> {
        let told = fs::read_to_string(format!("/sys/block/zram{}/mm_stat", self.number)).ok()?;
        let mut numbers = told.split_whitespace().map(|word| word.parse().ok());
        Some([numbers.next()??, numbers.next()??, numbers.next()??])
    }

    pub(crate) fn path(&self) -> PathBuf {
        path(self.number)
    }

    pub(crate) fn remove(mut self) -> Result<(), String> {
        self.removed = true;
        self.taken_away().map_err(|error| left_there(self.number, &error))
    }

    fn taken_away(&self) -> IoResult<()> {
        hot_remove(self.number)?;
        self.note.done();
        Ok(())
    }
}

impl Drop for Zram {
    fn drop(&mut self) {
        if !self.removed {
            // One that stays keeps its note, and the next run tries again.
            let _ = self.taken_away();
        }
    }
}

/// A device without a size, whose note is there before it is and tells the size that it is to have.
/// Nobody else makes or undoes any meanwhile.
fn noted(bytes: u64) -> IoResult<Zram> {
    let alone = Alone::wait()?;
    let mut note = alone.note()?;
    note.tell(Noted::None { before: numbers()? }.text().as_bytes())?;
    let made = fs::read_to_string(format!("{CONTROL}/hot_add"));
    let number = made.and_then(|text| text.trim().parse().map_err(Error::other));
    let number = number.inspect_err(|_| note.done())?;
    let mut zram = Zram { number, note, removed: false };
    let told = Noted::One { number, sequence: sequence(number), bytes }.text();
    zram.note.tell(told.as_bytes())?;
    Ok(zram)
}

/// Whether devices can be made here at all.
fn possible() -> Result<(), String> {
    if !Path::new(CONTROL).exists() {
        return Err(
            "this kernel has no zram, or has not loaded it: as root, modprobe zram; or take \
                    --device loop:SIZE"
                .into(),
        );
    }
    match rustix::process::geteuid().is_root() {
        true => Ok(()),
        false => Err("that takes root; run it as root, or measure files with --dir".into()),
    }
}

fn hint(error: &Error) -> &'static str {
    match Errno::from_io_error(error) {
        Some(Errno::ACCESS | Errno::PERM | Errno::ROFS) => {
            "; in a container, zram is the host's: run it there, or measure files with --dir"
        }
        _ => "",
    }
}

/// What does not compress takes all of its size.
fn is_room(bytes: u64) -> Result<(), String> {
    let room = bytepath::machine::memory_room();
    match room.bytes < bytes {
        true => Err(format!("{room}; take a smaller one")),
        false => Ok(()),
    }
}

fn path(number: u32) -> PathBuf {
    format!("/dev/zram{number}").into()
}

fn left_there(number: u32, error: &Error) -> String {
    let hint = match Errno::from_io_error(error) {
        Some(Errno::BUSY) => {
            format!("who has it open? (fuser /dev/zram{number}) The next run tries again")
        }
        _ => format!("as root: echo {number} >{CONTROL}/hot_remove"),
    };
    format!("{error}; {hint}")
}

/// Removes a device with all that it holds; one that is gone is no fault.
fn hot_remove(number: u32) -> IoResult<()> {
    let until = Instant::now() + BUSY_TIME_MAX;
    loop {
        let removed = fs::write(format!("{CONTROL}/hot_remove"), number.to_string());
        match removed.as_ref().err().and_then(Errno::from_io_error) {
            Some(Errno::NODEV) => return Ok(()),
            Some(Errno::BUSY) if Instant::now() < until => std::thread::sleep(LOOK_EVERY),
            _ => return removed,
        }
    }
}

/// The numbers of the devices that there are.
fn numbers() -> IoResult<BTreeSet<u32>> {
    let number = |entry: fs::DirEntry| {
        let name = entry.file_name();
        name.to_str()?.strip_prefix("zram")?.parse().ok()
    };
    Ok(fs::read_dir("/sys/block")?.filter_map(Result::ok).filter_map(number).collect())
}

/// The kernel's number of this device, which no other ever gets while it runs; kernels before 5.15
/// give none.
fn sequence(number: u32) -> Option<u64> {
    fs::read_to_string(format!("/sys/block/zram{number}/diskseq")).ok()?.trim().parse().ok()
}

/// Whether a device has no size yet, and so holds nothing.
fn is_empty(number: u32) -> bool {
    let told = fs::read_to_string(format!("/sys/block/zram{number}/initstate"));
    told.is_ok_and(|state| state.trim() == "0")
}

/// The size of a device; it has whole pages, and so may have more than was asked for.
fn is_of_size(number: u32, bytes: u64) -> bool {
    let told = fs::read_to_string(format!("/sys/block/zram{number}/disksize"));
    let size: Option<u64> = told.ok().and_then(|size| size.trim().parse().ok());
    size.is_some() && size == bytes.checked_next_multiple_of(rustix::param::page_size() as u64)
}

/// How notes of zram devices begin; folders begin with a slash.
const WORD: &str = "zram";

/// What a note says.
#[derive(Debug, PartialEq, Eq)]
enum Noted {
    /// A device is about to be made where these are.
    None { before: BTreeSet<u32> },
    /// This one was made, to be given so many bytes.
    One { number: u32, sequence: Option<u64>, bytes: u64 },
}

/// A note that was read, and whether it is of the kernel's present run.
pub(crate) struct Found {
    noted: Noted,
    is_current: bool,
}

impl Noted {
    /// `zram BOOT made NUMBER SEQUENCE BYTES`, with `-` for no sequence number, or `zram BOOT after
    /// NUMBER…`.
    fn text(&self) -> String {
        let boot = Machine::this().boot_id();
        match self {
            Noted::None { before } => {
                let before: Vec<_> = before.iter().map(u32::to_string).collect();
                format!("{WORD} {boot} after {}", before.join(" "))
            }
            Noted::One { number, sequence, bytes } => {
                let sequence = sequence.map_or("-".to_owned(), |sequence| sequence.to_string());
                format!("{WORD} {boot} made {number} {sequence} {bytes}")
            }
        }
    }
}

impl Found {
    /// The note of a device; `None` where this is the note of something else.
    pub(crate) fn read(told: &[u8]) -> Option<Found> {
        let text = std::str::from_utf8(told).ok()?;
        let mut words = text.strip_prefix(WORD)?.split_whitespace();
        let is_current = words.next()? == Machine::this().boot_id();
        let noted = match words.next()? {
            "after" => Noted::None { before: words.filter_map(|word| word.parse().ok()).collect() },
            "made" => Noted::One {
                number: words.next()?.parse().ok()?,
                sequence: words.next()?.parse().ok(),
                bytes: words.next()?.parse().ok()?,
            },
            _ => return None,
        };
        Some(Found { noted, is_current })
    }

    /// Removes the device, where it is still the one that the run made.
    pub(crate) fn undone(&self) -> Option<Left> {
        let number = self.device().filter(|_| self.is_current)?;
        let removed = areas::off(&path(number))
            .and_then(|()| hot_remove(number).map_err(|error| left_there(number, &error)));
        Some(Left { path: path(number), what: REMOVED, removed })
    }

    fn device(&self) -> Option<u32> {
        match &self.noted {
            Noted::One { number, sequence: noted, bytes } => {
                let is_it = match noted {
                    Some(_) => sequence(*number) == *noted,
                    None => is_of_size(*number, *bytes) || is_empty(*number),
                };
                is_it.then_some(*number)
            }
            Noted::None { before } => {
                numbers().ok()?.into_iter().find(|is| !before.contains(is) && is_empty(*is))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_says_again_what_it_was_told() {
        let notes = [
            Noted::None { before: BTreeSet::new() },
            Noted::None { before: BTreeSet::from([0, 7]) },
            Noted::One { number: 3, sequence: Some(99), bytes: 1 << 40 },
            Noted::One { number: 0, sequence: None, bytes: 0 },
        ];
        for noted in notes {
            let found = Found::read(noted.text().as_bytes()).expect("a note");
            assert_eq!((found.noted, found.is_current), (noted, true));
        }
    }

    #[test]
    fn a_note_of_something_else_or_of_an_earlier_start_of_the_machine_removes_nothing() {
        for text in ["", "/a/folder", "zram", "zram boot", "zram boot made", "zram boot made x"] {
            assert!(Found::read(text.as_bytes()).is_none(), "{text}");
        }
        let found = Found::read(b"zram another-boot made 0 1 4096").expect("a note");
        assert!(found.undone().is_none());
    }
}
