//! Links and special files in the place of a copy.

use std::os::fd::AsFd;

use bytepath_report::Outcome;
use rustix::fs::{FileType, Mode, Stat};
use rustix::io::Errno;

use super::attributes::MODE_BITS;
use super::entry::{Pair, Shared, Sink};
use super::link::{self, Replace};
use super::place::{Follow, Place, is_link, same_file};
use super::voice::{Done, q};

impl Shared<'_> {
    /// Whether what is in the way of a link is replaced.
    fn replaces(&self) -> Replace {
        if self.settings.force { Replace::Yes } else { Replace::No }
    }

    /// Makes a symbolic link to the source.
    pub(super) fn link_to(&self, pair: &Pair) -> Done {
        let (from, to) = (&pair.source.name, &pair.sink);
        let absolute = std::os::unix::ffi::OsStrExt::as_bytes(pair.source.shown.as_os_str());
        if !absolute.starts_with(b"/") && !is_in_working_directory(to) {
            let name = crate::classic::quoted(&to.shown);
            let name = String::from_utf8_lossy(&name);
            let what = "can make relative symbolic links only in current directory";
            return Err(self.voice.wrong(format!("{name}: {what}")));
        }
        let target = if pair.argument { from } else { &pair.source.shown };
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
    pub(super) fn same_link(&self, pair: &Pair, stat: &Stat, sink: &Sink) -> Done {
        let target = pair.source.read_link().map_err(|errno| {
            let what = format!("cannot read symbolic link {}", q(&pair.source.shown));
            self.voice.failed(what, errno)
        })?;
        let Err(errno) = link::symbolic(target.as_c_str(), &pair.sink, self.replaces()) else {
            return Ok(());
        };
        debug_assert!(is_link(stat));
        let there = self.settings.update && !sink.is_new();
        if there && pair.sink.read_link().is_ok_and(|said| said == target) {
            return Ok(());
        }
        let what = format!("cannot create symbolic link {}", q(&pair.sink.shown));
        Err(self.voice.failed(what, errno))
    }

    /// Makes a FIFO, socket or device like the source.
    pub(super) fn special(&self, pair: &Pair, stat: &Stat, special: FileType) -> Done {
        let mode = Mode::from_raw_mode(stat.st_mode & MODE_BITS & !self.omitted(stat));
        let (directory, name) = (pair.sink.directory.as_fd(), &pair.sink.name);
        let device = if special == FileType::Fifo { 0 } else { stat.st_rdev };
        rustix::fs::mknodat(directory, name, special, mode, device).map_err(|errno: Errno| {
            let kind = if special == FileType::Fifo { "fifo" } else { "special file" };
            self.voice.failed(format!("cannot create {kind} {}", q(&pair.sink.shown)), errno)
        })
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
