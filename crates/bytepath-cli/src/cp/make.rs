//! Links and special files in the place of a copy.

use std::ffi::CStr;
use std::os::fd::AsFd;
use std::path::Path;

use bytepath_report::Outcome;
use rustix::fs::{FileType, Gid, Mode, Stat};
use rustix::io::Errno;

use super::attributes::{MODE_BITS, Subject};
use super::link::{self, Replace};
use super::pair::{Pair, Sink};
use super::place::{Follow, Place, is_link, kind, same_file};
use super::shared::Shared;
use super::stage::Stage;
use super::told::Done;
use super::voice::q;

/// Of a directory that what is made in it has the group of.
const GROUP_OF_DIRECTORY: u32 = 0o2000;

impl Shared<'_> {
    /// Whether what is in the way of a link is replaced.
    fn replaces(&self) -> Replace {
        if self.settings.force { Replace::Yes } else { Replace::No }
    }

    /// Makes a symbolic link to the source.
    pub(super) fn link_to(&self, pair: &Pair) -> Done {
        let (target, to) = (&pair.source.shown, &pair.sink);
        if !Path::new(target).is_absolute() && !is_in_working_directory(to) {
            let name = crate::quote::shown(&to.shown);
            let what = "can make relative symbolic links only in current directory";
            return Err(self.voice.wrong(format!("{name}: {what}")));
        }
        self.voice.ledger.outcome(Outcome::Symlinked);
        link::symbolic(target, to, self.replaces()).map(drop).map_err(|errno| {
            let (name, target) = (q(&to.shown), q(target));
            self.voice.failed(format!("cannot create symbolic link {name} to {target}"), errno)
        })
    }

    /// Makes the destination another name of the source.
    pub(super) fn link(&self, pair: &Pair) -> Done {
        self.voice.ledger.outcome(Outcome::HardLinked);
        let asks = self.settings.existing == super::settings::Existing::Ask;
        let replace = if asks { Replace::Yes } else { self.replaces() };
        let follow = Follow::when(self.settings.follows(pair.argument));
        link::hard(&pair.source, follow, &pair.sink, replace).map(drop).map_err(|errno| {
            let (name, file) = (q(&pair.sink.shown), q(&pair.source.shown));
            self.voice.failed(format!("cannot create hard link {name} to {file}"), errno)
        })
    }

    /// Makes a symbolic link that says what the source says.
    pub(super) fn same_link(&self, pair: &Pair, stat: &Stat, sink: &mut Sink) -> Done {
        let target = pair.source.read_link().map_err(|errno| {
            let what = format!("cannot read symbolic link {}", q(&pair.source.shown));
            self.voice.failed(what, errno)
        })?;
        let made = match self.stage {
            Some(stage) => by_stage(stage, &pair.sink, sink, &Entry::Link(&target)),
            None => link::symbolic(target.as_c_str(), &pair.sink, self.replaces()).map(drop),
        };
        let Err(errno) = made else { return Ok(()) };
        debug_assert!(is_link(stat));
        let there = self.settings.update && !sink.is_new();
        if there && pair.sink.read_link().is_ok_and(|said| said == target) {
            return Ok(());
        }
        let what = format!("cannot create symbolic link {}", q(&pair.sink.shown));
        Err(self.voice.failed(what, errno))
    }

    /// Makes a FIFO, socket or device like the source.
    pub(super) fn special(
        &self,
        pair: &Pair,
        stat: &Stat,
        special: FileType,
        sink: &mut Sink,
    ) -> Done {
        let mode = Mode::from_raw_mode(stat.st_mode & MODE_BITS & !self.omitted(stat));
        let device = if special == FileType::Fifo { 0 } else { stat.st_rdev };
        let entry = Entry::Special { special, mode, device };
        let made = match self.stage {
            Some(stage) => by_stage(stage, &pair.sink, sink, &entry),
            None => entry.make(&pair.sink),
        };
        made.map_err(|errno| {
            let kind = if special == FileType::Fifo { "fifo" } else { "special file" };
            self.voice.failed(format!("cannot create {kind} {}", q(&pair.sink.shown)), errno)
        })
    }
}

/// What is made under a name at once, whole.
enum Entry<'a> {
    Link(&'a CStr),
    Special { special: FileType, mode: Mode, device: u64 },
}

impl Entry<'_> {
    fn make(&self, place: &Place) -> Result<(), Errno> {
        let (directory, name) = (place.directory.as_fd(), &place.name);
        match *self {
            Entry::Link(target) => rustix::fs::symlinkat(target, directory, name),
            Entry::Special { special, mode, device } => {
                rustix::fs::mknodat(directory, name, special, mode, device)
            }
        }
    }

    /// Whether it is there, but for its attributes.
    fn is_at(&self, place: &Place) -> bool {
        match *self {
            Entry::Link(target) => place.read_link().is_ok_and(|said| said.as_c_str() == target),
            Entry::Special { special, device, .. } => place.stat(Follow::No).is_ok_and(|there| {
                kind(&there) == special && (special == FileType::Fifo || there.st_rdev == device)
            }),
        }
    }
}

/// Makes it under a new name, or has it take the place of what is there by way of the stage, so that
/// whoever is late changes nothing.
fn by_stage(stage: &Stage, place: &Place, sink: &mut Sink, entry: &Entry<'_>) -> Result<(), Errno> {
    match entry.make(place) {
        Err(Errno::EXIST) => {}
        made => {
            sink.gone();
            return made;
        }
    }
    // Another who does the same was faster.
    if sink.is_new() && entry.is_at(place) {
        return Ok(());
    }
    sink.gone();
    let folder = rustix::fs::fstat(&place.directory)?;
    if stage.is_on(folder.st_dev) {
        let staged = stage.new_place();
        entry.make(&staged)?;
        if folder.st_mode & GROUP_OF_DIRECTORY != 0 {
            // As what is made there has it.
            let _ = Subject::new(&staged, None).set_owner(None, Some(Gid::from_raw(folder.st_gid)));
        }
        match staged.rename_to(place) {
            // Another mount of the same file system.
            Err(Errno::XDEV) => drop(staged.remove()),
            Err(errno) => {
                let _ = staged.remove();
                return Err(errno);
            }
            Ok(()) => return Ok(()),
        }
    }
    match place.remove() {
        Ok(()) | Err(Errno::NOENT) => entry.make(place),
        refused => refused,
    }
}

/// Whether a name is one in the directory that the program was started in; also where that cannot
/// be told, because then other things fail.
fn is_in_working_directory(place: &Place) -> bool {
    let (folder, _) = place.parent();
    let working = rustix::fs::statat(rustix::fs::CWD, ".", rustix::fs::AtFlags::empty());
    let holding = rustix::fs::statat(&place.directory, &folder, rustix::fs::AtFlags::empty());
    match (working, holding) {
        (Ok(working), Ok(holding)) => same_file(&working, &holding),
        _ => true,
    }
}
