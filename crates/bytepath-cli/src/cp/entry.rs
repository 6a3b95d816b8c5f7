//! One entry: a file, link, device or directory, and the place where its copy is to be.

use bytepath_report::Outcome;
use rustix::fs::{FileType, OFlags, Stat};

use super::attributes::Subject;
use super::copier::Copier;
use super::finish::Finish;
use super::pair::{Pair, Sink, SinkIs, Within};
use super::place::{Follow, Place, is_directory, is_link, kind, same_file};
use super::seen::{Earlier, identity};
use super::settings::{Backup, Make};
use super::shared::Shared;
use super::told::Done;
use super::voice::q;

/// What is left to be done for a copy.
pub(super) enum Made {
    /// Nothing: all was set where it was made.
    Whole,
    /// Its attributes.
    Bare,
    /// Nothing, as there is none: the user does not want what is there overwritten.
    LeftAlone,
}

impl Shared<'_> {
    /// The status of the source. A directory is opened for it: that it has to be in any case.
    fn look_at(&self, pair: &mut Pair) -> Done<Stat> {
        pair.open = None;
        if let Some(stat) = pair.known.source {
            return Ok(stat);
        }
        if pair.known.seems_directory
            && let Ok(open) = pair.source.open(OFlags::DIRECTORY | OFlags::NOFOLLOW, 0)
            && let Ok(stat) = rustix::fs::fstat(&open)
        {
            pair.open = Some(open);
            return Ok(stat);
        }
        let follow = Follow::when(self.settings.follows(pair.argument));
        pair.source.stat(follow).map_err(|errno| {
            self.voice.failed(format!("cannot stat {}", q(&pair.source.shown)), errno)
        })
    }
}

impl Copier<'_> {
    /// Copies an entry, with all that is in it; of a directory the pair is taken. A failure was told
    /// of; what else there is goes on.
    pub(super) fn entry(&mut self, pair: &mut Pair) -> Done {
        let shared = self.shared;
        shared.goes_on();
        shared.voice.ledger.begin(pair);
        let done = self.entry_noted(pair);
        shared.voice.ledger.end(&done);
        done
    }

    fn entry_noted(&mut self, pair: &mut Pair) -> Done {
        let settings = self.shared.settings;
        let stat = self.shared.look_at(pair)?;
        self.shared.voice.ledger.is(&stat);
        if is_directory(&stat) && !settings.recursive {
            let what = format!("-r not specified; omitting directory {}", q(&pair.source.shown));
            return Err(self.shared.voice.wrong(what));
        }
        if pair.argument && is_directory(&stat) {
            self.operand = (pair.source.shown.clone(), pair.sink.shown.clone());
            self.seen.know_made(&self.base);
            // Its copy may be the directory that the next operand is copied into (DIR/.), which has its
            // default list then.
            self.within = self.within.map(|within| Within { gives_lists: true, ..within });
        }
        // It would grow by what is said of its copying. A document is as it was until the end.
        let told = self.shared.extras.json_files.is_some();
        if told && self.shared.extras.writes(&stat) == Some("--json-files") {
            let what = format!("not copying {}, which --json-files writes", q(&pair.source.shown));
            return Err(self.shared.voice.wrong(what));
        }
        if self.shared.settings.make == Make::Copy && self.is_file(&stat) {
            self.shared.check_source(pair, &stat)?;
        }
        let mut sink = Sink::new(pair.known.within);
        if self.is_repeated(pair, &stat) {
            self.shared.skipped(pair, &stat);
            return Ok(());
        }
        if !self.meet(pair, &stat, &mut sink)? {
            return Ok(());
        }
        if !is_directory(&stat) && self.shared.asks_later(&stat, &sink).is_none() {
            self.shared.say_copied(pair, sink.backup.as_ref());
        }
        self.copy(pair, &stat, &mut sink)
    }

    /// Whether it is a file, or is treated as one.
    pub(super) fn is_file(&self, stat: &Stat) -> bool {
        let as_file = self.shared.settings.special_as_file;
        kind(stat) == FileType::RegularFile || as_file && !is_link(stat) && !is_directory(stat)
    }

    /// Whether an operand that is no directory was given before, in so many words.
    fn is_repeated(&mut self, pair: &Pair, stat: &Stat) -> bool {
        if !pair.argument || !self.tracks {
            return false;
        }
        let again = self.seen.source(identity(stat), &pair.source);
        if !again || is_directory(stat) || self.shared.settings.backup != Backup::None {
            return false;
        }
        let name = q(&pair.source.shown);
        self.shared.voice.warn(format!("warning: source file {name} specified more than once"));
        true
    }

    fn copy(&mut self, pair: &mut Pair, stat: &Stat, sink: &mut Sink) -> Done {
        let earlier = self.earlier(pair, stat);
        let made = match &earlier {
            Some(earlier) => self.copied_before(pair, stat, sink, earlier),
            None => None,
        };
        let made = match made {
            Some(done) => done.map(|()| Made::Whole),
            None if is_directory(stat) => {
                return self.directory(pair, stat, sink, earlier.is_none());
            }
            None => self.make(pair, stat, sink),
        };
        match made {
            Ok(Made::Whole) => Ok(()),
            Ok(Made::Bare) => self.finish_entry(pair, stat, sink),
            Ok(Made::LeftAlone) => {
                // No other name of the source is to become one of what is there.
                self.seen.forget(identity(stat));
                Ok(())
            }
            Err(told) => {
                if earlier.is_none() {
                    self.seen.forget(identity(stat));
                }
                if let Some(backup) = &sink.backup {
                    self.put_back(&pair.sink, backup);
                }
                Err(told)
            }
        }
    }

    /// The copy that this file already has, as another name of it is one.
    fn earlier(&mut self, pair: &Pair, stat: &Stat) -> Option<Earlier> {
        let settings = self.shared.settings;
        if is_directory(stat) {
            return match pair.argument {
                true => self.seen.remember(identity(stat), || pair.sink.earlier(&self.base)),
                false => self.seen.earlier(identity(stat)),
            };
        }
        let several = stat.st_nlink > 1 || settings.follows(pair.argument);
        if !settings.preserve.links || settings.make == Make::HardLink || !several {
            return None;
        }
        if pair.sink_is != SinkIs::New {
            // A name that was put off is the first.
            self.do_now();
        }
        self.seen.remember(identity(stat), || pair.sink.earlier(&self.base))
    }

    /// What is done about a file that has a copy; `None` where it gets another.
    fn copied_before(
        &mut self,
        pair: &Pair,
        stat: &Stat,
        sink: &Sink,
        earlier: &Earlier,
    ) -> Option<Done> {
        let (voice, place) = (self.shared.voice, earlier.place());
        if !is_directory(stat) {
            if let Some(there) = self.shared.asks_later(stat, sink) {
                // A symbolic link that leads to the copy is another entry, and would be replaced.
                let is_it = sink.link.is_none()
                    && place.stat(Follow::No).is_ok_and(|made| same_file(&made, &there));
                if !is_it && !self.shared.may_overwrite(pair, &there) {
                    // The file itself was copied, and is counted.
                    voice.ledger.outcome(Outcome::Skipped);
                    return Some(Ok(()));
                }
                self.shared.say_copied_late(pair);
            }
            return Some(self.link_to_earlier(pair, stat, earlier));
        }
        if pair.source.is_same_entry(&place) {
            let (from, to) = (q(&self.operand.0), q(&self.operand.1));
            let what = format!("cannot copy a directory, {from}, into itself, {to}");
            self.met_itself = true;
            return Some(Err(voice.wrong(what)));
        }
        if pair.sink.is_same_entry(&place) {
            let name = q(&self.operand.0);
            voice.warn(format!("warning: source directory {name} specified more than once"));
            self.shared.skipped(pair, stat);
            return Some(Ok(()));
        }
        if self.shared.settings.follows(pair.argument) {
            return None;
        }
        let (name, file) = (q(&pair.sink.shown), q(&earlier.shown));
        let what = format!("will not create hard link {name} to directory {file}");
        Some(Err(voice.wrong(what)))
    }

    /// Gives what was put aside its name again.
    fn put_back(&self, place: &Place, backup: &Place) {
        let renamed = backup.rename_to(place);
        if renamed.is_ok() {
            // Renaming a name over another of the same file leaves both.
            let _ = backup.remove();
        }
        match renamed {
            Err(errno) => {
                let what = format!("cannot un-backup {}", q(&place.shown));
                self.shared.voice.failed(what, errno);
            }
            Ok(()) if self.shared.settings.verbose => {
                let (from, to) = (q(&backup.shown), q(&place.shown));
                self.shared.voice.line(format!("{from} -> {to} (unbackup)").as_bytes());
            }
            Ok(()) => {}
        }
    }

    /// Makes the copy of what is no directory.
    fn make(&mut self, pair: &Pair, stat: &Stat, sink: &mut Sink) -> Done<Made> {
        let settings = self.shared.settings;
        let made = match (settings.make, kind(stat)) {
            (Make::SymbolicLink, _) => self.shared.link_to(pair).map(|()| Made::Bare),
            (Make::HardLink, _) => self.shared.link(pair).map(|()| Made::Whole),
            _ if self.is_file(stat) => self.regular(pair, stat, sink),
            (_, FileType::Symlink) => self.shared.same_link(pair, stat, sink).map(|()| Made::Bare),
            (_, FileType::Unknown) => {
                let what = format!("{} has unknown file type", q(&pair.source.shown));
                Err(self.shared.voice.wrong(what))
            }
            (_, special) => self.shared.special(pair, stat, special, sink).map(|()| Made::Bare),
        }?;
        if pair.argument && self.tracks && !matches!(made, Made::LeftAlone) {
            self.seen.made(&pair.sink);
        }
        Ok(made)
    }

    fn regular(&mut self, pair: &Pair, stat: &Stat, sink: &mut Sink) -> Done<Made> {
        // It may have been left out by another name.
        self.shared.tally.total.skipped.take_out(identity(stat));
        self.shared.hand.take(&pair.source.shown);
        let done = self.shared.regular(pair, stat, sink);
        self.shared.hand.put_down();
        done
    }

    /// Sets the attributes of a link or device by its name.
    fn finish_entry(&self, pair: &Pair, stat: &Stat, sink: &Sink) -> Done {
        let is_link = is_link(stat) || self.shared.settings.make == Make::SymbolicLink;
        let source = Subject::new(&pair.source, None);
        let copy = Subject::new(&pair.sink, None);
        let omitted = self.shared.omitted(stat);
        let before = sink.stat.as_ref();
        let may_be_new = before.is_none();
        let finish = Finish { before, is_link, may_be_new, omitted, mode: None };
        self.shared.finish(&source, &copy, stat, &finish)
    }
}
