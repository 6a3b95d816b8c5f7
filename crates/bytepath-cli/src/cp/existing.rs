//! What is done about a destination that is there already.

use bytepath_report::Outcome;
use rustix::fs::{Access, AtFlags, FileType, Stat};

use super::attributes;
use super::backup::{self, Aside};
use super::copier::Copier;
use super::link::{self, Linked, Replace};
use super::pair::{Pair, Sink, SinkIs};
use super::place::{Follow, Place, is_directory, is_link, kind, last_component};
use super::same::{Sameness, judge};
use super::seen::identity;
use super::settings::{Backup, Existing, Make};
use super::shared::Shared;
use super::told::Done;
use super::voice::q;

impl Copier<'_> {
    /// Looks at the destination, and clears the way to it; false where nothing is copied, which was noted.
    pub(super) fn meet(&mut self, pair: &Pair, stat: &Stat, sink: &mut Sink) -> Done<bool> {
        if pair.sink_is != SinkIs::New {
            self.look(pair, stat, sink)?;
        }
        if sink.stat.is_some() && !self.clear(pair, stat, sink)? {
            return Ok(false);
        }
        self.never_through_own_link(pair, sink)?;
        Ok(true)
    }

    /// Finds out what is there: a file that is written to is looked for through symbolic links,
    /// everything else takes the place of what bears the name.
    fn look(&self, pair: &Pair, stat: &Stat, sink: &mut Sink) -> Done {
        let settings = self.shared.settings;
        let regular = kind(stat) == FileType::RegularFile;
        let as_file = settings.special_as_file && !is_directory(stat) && !is_link(stat);
        let entry = !(regular || as_file)
            || matches!(settings.make, Make::HardLink | Make::SymbolicLink)
            || settings.backup != Backup::None
            || settings.remove_first;
        if !entry && pair.sink_is == SinkIs::Absent {
            return Ok(());
        }
        let looked = self.look_at(pair, stat, if entry { Follow::No } else { Follow::Yes }, sink);
        match looked {
            Ok(()) => sink.is = SinkIs::There,
            Err(rustix::io::Errno::NOENT) => {}
            // It is removed when it cannot be opened either.
            Err(rustix::io::Errno::LOOP) if settings.force => {
                (sink.is, sink.replaced) = (SinkIs::There, self.replaces_at_once(stat));
            }
            Err(errno) => {
                let what = format!("cannot stat {}", q(&pair.sink.shown));
                return Err(self.shared.voice.failed(what, errno));
            }
        }
        Ok(())
    }

    /// The status of what is meant, and of a symbolic link that leads to it, or nowhere.
    fn look_at(
        &self,
        pair: &Pair,
        stat: &Stat,
        follow: Follow,
        sink: &mut Sink,
    ) -> Result<(), rustix::io::Errno> {
        let seen = match pair.known.there {
            Some(there) => there,
            None => pair.sink.stat(Follow::No)?,
        };
        if !is_link(&seen) {
            sink.stat = Some(seen);
            return Ok(());
        }
        let kept = self.shared.settings.keep_directory_symlink && is_directory(stat);
        let target = match (follow, kept.then(|| pair.sink.stat(Follow::Yes))) {
            (_, Some(Ok(target))) if is_directory(&target) => Ok(target),
            (Follow::No, _) => Ok(seen),
            (Follow::Yes, _) => pair.sink.stat(Follow::Yes),
        };
        match target {
            Ok(target) => (sink.stat, sink.link) = (Some(target), Some(seen)),
            Err(errno) => {
                sink.leads_nowhere = Some(seen);
                return Err(errno);
            }
        }
        Ok(())
    }

    /// Whether the copy is made, once what is in the way is skipped, kept or removed as asked.
    fn clear(&mut self, pair: &Pair, stat: &Stat, sink: &mut Sink) -> Done<bool> {
        let there = sink.stat.expect("it is there");
        let settings = self.shared.settings;
        let mut nothing = false;
        if !matches!(settings.existing, Existing::Skip | Existing::Refuse) {
            match judge(pair, settings, stat, &there) {
                Sameness::Fine => {}
                Sameness::Nothing => nothing = true,
                Sameness::Refused => {
                    let (one, other) = (q(&pair.source.shown), q(&pair.sink.shown));
                    let what = format!("{one} and {other} are the same file");
                    return Err(self.shared.voice.wrong(what));
                }
            }
        }
        if !is_directory(stat) && !self.is_wanted(pair, stat, &there)? {
            return Ok(false);
        }
        if nothing {
            self.skipped(pair, stat);
            return Ok(false);
        }
        self.check_kinds(pair, stat, &there)?;
        self.make_way(pair, stat, sink, &there)?;
        Ok(true)
    }

    /// Whether what is there is to be replaced: by its age, by its being there, by the user's word.
    fn is_wanted(&mut self, pair: &Pair, stat: &Stat, there: &Stat) -> Done<bool> {
        let (settings, voice) = (self.shared.settings, self.shared.voice);
        if settings.update && !is_newer(stat, there, settings.preserve.timestamps) {
            self.shared.say_skipped(pair);
            self.link_though_older(pair, stat)?;
            return Ok(false);
        }
        let replaces = match settings.existing {
            Existing::Overwrite => true,
            // What is there is read first, and may need no overwriting.
            Existing::Ask if self.shared.may_resume(stat, there) => true,
            Existing::Ask => {
                // The user has read what was before it when it comes to the question.
                self.do_now();
                voice.asks(&self.shared.question(&pair.sink, there))
            }
            Existing::Skip => false,
            Existing::Refuse => {
                return Err(voice.wrong(format!("not replacing {}", q(&pair.sink.shown))));
            }
        };
        if !replaces {
            self.shared.say_skipped(pair);
            self.skipped(pair, stat);
        }
        Ok(replaces)
    }

    /// Notes that a source is not copied by this name. A file that was by another is counted there.
    fn skipped(&self, pair: &Pair, stat: &Stat) {
        match self.seen.earlier(identity(stat)) {
            Some(_) => self.shared.voice.ledger.outcome(Outcome::Skipped),
            None => self.shared.skipped(pair, stat),
        }
    }

    /// A destination that is not copied to still has its place among those that are one file.
    fn link_though_older(&mut self, pair: &Pair, stat: &Stat) -> Done {
        let earlier = self.seen.remember(identity(stat), || pair.sink.earlier(&self.base));
        match earlier {
            Some(earlier) => self.link_to_earlier(pair, stat, &earlier),
            None => {
                self.shared.skipped(pair, stat);
                Ok(())
            }
        }
    }

    /// Makes the destination another name of a copy made before: of the file, where that was written to through
    /// a symbolic link, which as another name of its own might lead to nothing but itself.
    pub(super) fn link_to_earlier(
        &self,
        pair: &Pair,
        stat: &Stat,
        earlier: &super::seen::Earlier,
    ) -> Done {
        self.shared.voice.ledger.outcome(Outcome::HardLinked);
        let follow = Follow::when(!is_link(stat));
        match link::hard(&earlier.place(), follow, &pair.sink, Replace::Yes) {
            Ok(Linked::Replaced) => {
                self.shared.say_removed(&pair.sink);
                Ok(())
            }
            Ok(Linked::New) => Ok(()),
            Err(errno) => {
                let (name, file) = (q(&pair.sink.shown), q(&earlier.shown));
                let what = format!("cannot create hard link {name} to {file}");
                Err(self.shared.voice.failed(what, errno))
            }
        }
    }

    /// A directory replaces nothing but a directory, nothing else replaces one, and what this run
    /// has made is not overwritten.
    fn check_kinds(&self, pair: &Pair, stat: &Stat, there: &Stat) -> Done {
        let made = || {
            pair.argument
                && self.tracks
                && self.shared.settings.backup != Backup::Numbered
                && self.seen.was_made(identity(there), &pair.sink)
        };
        let (from, to) = (|| q(&pair.source.shown), || q(&pair.sink.shown));
        let what = match (is_directory(stat), is_directory(there)) {
            (true, false) => {
                format!("cannot overwrite non-directory {} with directory {}", to(), from())
            }
            (false, true) => format!("cannot overwrite directory {} with non-directory", to()),
            (false, false) if made() => {
                format!("will not overwrite just-created {} with {}", to(), from())
            }
            _ => match self.shared.extras.writes(there) {
                Some(option) => format!("not replacing {}, which {option} writes", to()),
                None => return Ok(()),
            },
        };
        Err(self.shared.voice.wrong(what))
    }

    /// Puts aside or removes what is not written to.
    fn make_way(&mut self, pair: &Pair, stat: &Stat, sink: &mut Sink, there: &Stat) -> Done {
        let (settings, voice) = (self.shared.settings, self.shared.voice);
        if is_directory(there) {
            return Ok(());
        }
        let last = last_component(&pair.source.name);
        if settings.backup != Backup::None && last != "." && last != ".." {
            return self.put_aside(pair, stat, sink);
        }
        let never = !settings.follows(pair.argument);
        let parted = (settings.preserve.links && there.st_nlink > 1)
            || (never && kind(stat) != FileType::RegularFile);
        let parted = parted && !self.shared.may_resume(stat, there);
        let removed = settings.remove_first || (!settings.attributes_only && parted);
        // By way of a stage it is replaced at once, or not at all.
        let staged = self.shared.stage.is_some() && kind(stat) != FileType::RegularFile;
        if !removed || staged {
            return Ok(());
        }
        if self.replaces_at_once(stat) {
            sink.be_replaced();
            return Ok(());
        }
        match pair.sink.remove() {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(errno) => {
                return Err(voice.failed(format!("cannot remove {}", q(&pair.sink.shown)), errno));
            }
        }
        sink.gone();
        self.shared.say_removed(&pair.sink);
        Ok(())
    }

    fn put_aside(&mut self, pair: &Pair, stat: &Stat, sink: &mut Sink) -> Done {
        let (settings, voice) = (self.shared.settings, self.shared.voice);
        if backup::would_destroy(&pair.source.name, stat, &pair.sink, settings) {
            let (from, to) = (q(&pair.source.shown), q(&pair.sink.shown));
            let what = format!("backing up {to} might destroy source;  {from} not copied");
            return Err(voice.wrong(what));
        }
        let at_once = self.replaces_at_once(stat);
        let aside = if at_once { Aside::Linked } else { Aside::Renamed };
        match backup::put_aside(&pair.sink, settings, aside) {
            Ok(backup) => sink.backup = Some(backup),
            Err(rustix::io::Errno::NOENT) => {}
            Err(errno) => {
                return Err(voice.failed(format!("cannot backup {}", q(&pair.sink.shown)), errno));
            }
        }
        match at_once {
            true => sink.be_replaced(),
            false => sink.gone(),
        }
        Ok(())
    }

    /// Whether a name keeps what it has until a file that is whole takes it.
    fn replaces_at_once(&self, stat: &Stat) -> bool {
        let is_made = matches!(self.shared.settings.make, Make::Copy | Make::Attributes);
        self.shared.extras.atomic && is_made && self.is_file(stat)
    }

    /// A symbolic link that this run made is nobody's way to a file of the next operand.
    fn never_through_own_link(&self, pair: &Pair, sink: &Sink) -> Done {
        if !pair.argument || !self.tracks || self.shared.settings.backup != Backup::None {
            return Ok(());
        }
        let own = |stat: Stat| is_link(&stat) && self.seen.was_made(identity(&stat), &pair.sink);
        if !sink.link.or(sink.leads_nowhere).is_some_and(own) {
            return Ok(());
        }
        let (from, to) = (q(&pair.source.shown), q(&pair.sink.shown));
        let what = format!("will not copy {from} through just-created symlink {to}");
        Err(self.shared.voice.wrong(what))
    }
}

impl Shared<'_> {
    /// What the user is asked before it is overwritten.
    pub(super) fn question(&self, sink: &Place, there: &Stat) -> String {
        let settings = self.settings;
        let (name, mode) = (q(&sink.shown), there.st_mode & attributes::MODE_BITS);
        let may = is_link(there)
            || settings.privileged
            || rustix::fs::accessat(
                &sink.directory,
                &sink.name,
                Access::WRITE_OK,
                AtFlags::EACCESS,
            )
            .is_ok();
        let letters = letters(there.st_mode);
        match (may, settings.remove_first || settings.force) {
            (true, _) => format!("overwrite {name}? "),
            (false, true) => format!("replace {name}, overriding mode {mode:04o} ({letters})? "),
            (false, false) => {
                format!("unwritable {name} (mode {mode:04o}, {letters}); try anyway? ")
            }
        }
    }
}

/// Whether the source was changed after the destination was. A time that was copied may have lost
/// its end on the way, where the destination's file system keeps no more.
fn is_newer(source: &Stat, sink: &Stat, copied: bool) -> bool {
    let kept = if copied { kept_nanoseconds(sink) } else { 1 };
    let source_nanoseconds = source.st_mtime_nsec / kept * kept;
    let source_seconds = if kept > SECOND { source.st_mtime & !1 } else { source.st_mtime };
    (source_seconds, source_nanoseconds) > (sink.st_mtime, sink.st_mtime_nsec)
}

const SECOND: u64 = 1_000_000_000;

/// The unit in which a file system seems to keep times, by those of one file.
fn kept_nanoseconds(stat: &Stat) -> u64 {
    let times = [stat.st_atime_nsec, stat.st_mtime_nsec, stat.st_ctime_nsec];
    let mut unit = 1;
    while unit < SECOND && times.iter().all(|time| time % (unit * 10) == 0) {
        unit *= 10;
    }
    // FAT keeps every other second.
    let seconds = [stat.st_atime, stat.st_mtime, stat.st_ctime];
    let may_be_fat = unit == SECOND && seconds.iter().all(|second| second % 2 == 0);
    if may_be_fat { 2 * SECOND } else { unit }
}

/// The mode as `ls -l` shows it, without the kind.
fn letters(mode: u32) -> String {
    let mut letters = String::new();
    for (at, special, name) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> at;
        letters.push(if bits & 4 == 0 { '-' } else { 'r' });
        letters.push(if bits & 2 == 0 { '-' } else { 'w' });
        letters.push(match (mode & special != 0, bits & 1 != 0) {
            (true, true) => name,
            (true, false) => name.to_ascii_uppercase(),
            (false, true) => 'x',
            (false, false) => '-',
        });
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file with these times.
    fn file(seconds: i64, nanoseconds: u64) -> Stat {
        let mut stat = rustix::fs::stat("/").expect("it is there");
        (stat.st_atime, stat.st_mtime, stat.st_ctime) = (seconds, seconds, seconds);
        (stat.st_atime_nsec, stat.st_mtime_nsec) = (nanoseconds, nanoseconds);
        stat.st_ctime_nsec = nanoseconds;
        stat
    }

    #[test]
    fn what_the_file_system_of_a_copy_cannot_keep_makes_no_source_newer() {
        let source = file(1001, 123_456_789);
        for (sink, wanted) in [
            (file(1001, 123_456_789), false),
            (file(1001, 123_450_000), false),
            (file(1001, 0), false),
            (file(1000, 0), false),
            (file(1000, 500), true),
            (file(999, 0), true),
            (file(998, 0), true),
        ] {
            assert_eq!(is_newer(&source, &sink, true), wanted, "{sink:?}");
            let exactly = (1001, 123_456_789) > (sink.st_mtime, sink.st_mtime_nsec);
            assert_eq!(is_newer(&source, &sink, false), exactly, "{sink:?}");
        }
    }
}
