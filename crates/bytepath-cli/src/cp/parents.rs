//! `--parents`: the directories of a source's name, made under the target and given the attributes
//! of those that they stand for.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{Mode, Stat};
use rustix::io::Errno;

use super::attributes::{MODE_BITS, Subject, owner};
use super::place::{Follow, Place, is_directory};
use super::shared::Shared;
use super::told::Done;
use super::voice::q;

/// The directories that get attributes once all is in them.
#[derive(Default)]
pub(super) struct Parents {
    made: Vec<Parent>,
}

struct Parent {
    source: Place,
    sink: Place,
    stat: Stat,
    /// The mode that it is to have, where it is not the source's.
    mode: Option<u32>,
    /// Whether it was not there before.
    is_new: bool,
}

impl Parents {
    /// Makes the missing directories above `sink`, which `path` names in the source; whether the
    /// last of them is new.
    pub(super) fn make(&mut self, shared: &Shared<'_>, path: &OsStr, sink: &Place) -> Done<bool> {
        let (folder, _) = sink.parent();
        let above = Place { name: folder, ..sink.clone() };
        match above.stat(Follow::Yes) {
            Ok(stat) if is_directory(&stat) => return Ok(false),
            Ok(_) => {
                let shown = &sink.shown.as_bytes()[..sink.base_bytes + above.name.len()];
                let name = q(OsStr::from_bytes(shown));
                return Err(shared.voice.wrong(format!("{name} exists but is not a directory")));
            }
            Err(_) => {}
        }
        let leading = path.len() - sink.name.len();
        let name = sink.name.as_bytes();
        let ends = (1..name.len()).filter(|at| name[*at] == b'/' && name[*at - 1] != b'/');
        let mut is_new = false;
        for end in ends {
            let source = Place::operand(OsStr::from_bytes(&path.as_bytes()[..leading + end]));
            let part = Place {
                name: OsStr::from_bytes(&name[..end]).to_owned(),
                shown: OsStr::from_bytes(&sink.shown.as_bytes()[..sink.base_bytes + end]).into(),
                ..sink.clone()
            };
            is_new = self.make_one(shared, source, part)?;
        }
        Ok(is_new)
    }

    fn make_one(&mut self, shared: &Shared<'_>, source: Place, sink: Place) -> Done<bool> {
        let (voice, preserve) = (shared.voice, &shared.settings.preserve);
        let there = sink.stat(Follow::Yes);
        let keeps = preserve.ownership || preserve.mode || preserve.timestamps;
        if keeps || there.is_err() {
            let stat = match source.stat(Follow::Yes) {
                Ok(stat) if is_directory(&stat) => Ok(stat),
                Ok(_) => Err(Errno::NOTDIR),
                Err(errno) => Err(errno),
            };
            let stat = stat.map_err(|errno| {
                voice.failed(format!("failed to get attributes of {}", q(&source.shown)), errno)
            })?;
            let is_new = there.is_err();
            self.made.push(Parent { source, sink: sink.clone(), stat, mode: None, is_new });
        }
        match there {
            Ok(stat) if is_directory(&stat) => Ok(false),
            Ok(_) => {
                let name = q(&sink.shown);
                Err(voice.wrong(format!("{name} exists but is not a directory")))
            }
            Err(_) => self.make_missing(shared, &sink).map(|()| true),
        }
    }

    fn make_missing(&mut self, shared: &Shared<'_>, sink: &Place) -> Done {
        let (voice, preserve) = (shared.voice, &shared.settings.preserve);
        let parent = self.made.last_mut().expect("what is missing was noted");
        let never = match (preserve.ownership, preserve.mode) {
            (true, _) => 0o077,
            (false, true) => 0o022,
            (false, false) => 0,
        };
        let omitted = parent.stat.st_mode & never;
        let mode = if preserve.default_mode { 0o777 } else { parent.stat.st_mode };
        let mode = Mode::from_raw_mode(mode & MODE_BITS & !omitted);
        rustix::fs::mkdirat(&sink.directory, &sink.name, mode).map_err(|errno| {
            voice.failed(format!("cannot make directory {}", q(&sink.shown)), errno)
        })?;
        if shared.settings.verbose {
            let (from, to) = (parent.source.shown.as_bytes(), sink.shown.as_bytes());
            voice.line(&[from, b" -> ", to].concat());
        }
        let made = sink.stat(Follow::No).map_err(|errno| {
            voice.failed(format!("failed to get attributes of {}", q(&sink.shown)), errno)
        })?;
        if !preserve.mode {
            let omitted = omitted & !(if omitted & !made.st_mode == 0 { 0 } else { shared.umask });
            if omitted & !made.st_mode != 0 || made.st_mode & 0o700 != 0o700 {
                parent.mode = Some(made.st_mode | omitted);
            }
        }
        if made.st_mode & 0o700 == 0o700 {
            return Ok(());
        }
        let subject = Subject::new(sink, None);
        subject.set_mode(made.st_mode | 0o700).map_err(|errno| {
            voice.failed(format!("setting permissions for {}", q(&sink.shown)), errno)
        })
    }

    /// Those that were not there before.
    pub(super) fn made_here(&self) -> impl Iterator<Item = &Place> {
        self.made.iter().filter(|parent| parent.is_new).map(|parent| &parent.sink)
    }

    /// Gives the directories their attributes, the innermost first.
    pub(super) fn protect(&self, shared: &Shared<'_>) -> Done {
        self.made.iter().rev().try_for_each(|parent| parent.protect(shared))
    }
}

impl Parent {
    fn protect(&self, shared: &Shared<'_>) -> Done {
        let preserve = &shared.settings.preserve;
        let source = Subject::new(&self.source, None);
        let sink = Subject::new(&self.sink, None);
        let failed = |what: &str, errno| {
            shared.voice.failed(format!("failed to preserve {what} {}", q(&self.sink.shown)), errno)
        };
        if preserve.timestamps {
            sink.set_times(&self.stat).map_err(|errno| failed("times for", errno))?;
        }
        if preserve.ownership {
            let (user, group) = owner(&self.stat);
            if let Err(errno) = sink.set_owner(user, group) {
                if !shared.is_usual_refusal(errno) {
                    return Err(failed("ownership for", errno));
                }
                let _ = sink.set_owner(None, group);
            }
        }
        match (preserve.mode, self.mode) {
            (true, _) => shared.keep_mode(&source, &sink, self.stat.st_mode, &self.stat),
            (false, Some(mode)) => {
                sink.set_mode(mode).map_err(|errno| failed("permissions for", errno))
            }
            (false, None) => Ok(()),
        }
    }
}
