//! The attributes of a copy that is no regular file, once all is in it.

use std::os::unix::ffi::OsStrExt;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use super::atomic::is_proc_there;
use super::attributes::{ACCESS_LIST, Subject, owner, same_owner};
use super::place::{is_directory, kind};
use super::settings::Make;
use super::shared::Shared;
use super::told::{Done, Weight};
use super::voice::q;
use crate::quote::locale_quoted;

/// How the attributes of a copy are to be set.
pub(super) struct Finish<'a> {
    /// The status of what was there before, if it is still there.
    pub(super) before: Option<&'a Stat>,
    pub(super) is_link: bool,
    /// Whether this copying made it, or may have in an earlier run or another process.
    pub(super) may_be_new: bool,
    /// Permissions that it did not get when it was made, and may get now.
    pub(super) omitted: u32,
    /// The mode that it had before it was opened up for the copying.
    pub(super) mode: Option<u32>,
}

impl Shared<'_> {
    /// Sets the attributes of a copy that is no regular file.
    pub(super) fn finish(
        &self,
        source: &Subject<'_>,
        sink: &Subject<'_>,
        stat: &Stat,
        finish: &Finish<'_>,
    ) -> Done {
        let preserve = &self.settings.preserve;
        if preserve.timestamps {
            self.keep_times(sink, stat)?;
        }
        let mut mode = stat.st_mode;
        let same = finish.before.is_some_and(|before| same_owner(before, stat));
        if finish.is_link && preserve.ownership {
            // Links that are made to the source belong to whoever made them.
            if self.settings.make != Make::SymbolicLink {
                self.keep_link_owner(sink, stat)?;
            }
        } else if preserve.ownership && !same {
            mode = self.keep_owner(sink, stat, finish.before)?;
        }
        if preserve.xattr {
            self.keep_xattrs(source, sink)?;
        }
        if preserve.context {
            self.keep_context(source, sink)?;
        }
        if finish.is_link {
            return Ok(());
        }
        if preserve.mode {
            return self.keep_mode(source, sink, mode, stat);
        }
        if preserve.default_mode && finish.may_be_new {
            let whole = is_directory(stat) || kind(stat) == FileType::Socket;
            let mode = if whole { 0o777 } else { 0o666 } & !self.umask;
            let set = sink.drop_list(ACCESS_LIST).and_then(|()| match is_directory(stat) {
                true => sink.set_mode_of_directory(mode),
                false => sink.set_mode(mode),
            });
            return self.new_mode_set(sink, set);
        }
        self.give_omitted(sink, finish)
    }

    /// Gives back the permissions that were left out while the copy was being made, or taken.
    fn give_omitted(&self, sink: &Subject<'_>, finish: &Finish<'_>) -> Done {
        let omitted = finish.omitted & !self.umask;
        let mode = match (finish.mode, omitted) {
            (Some(mode), _) => mode,
            (None, 0) => return Ok(()),
            (None, _) => match sink.stat() {
                Ok(stat) if omitted & !stat.st_mode == 0 => return Ok(()),
                Ok(stat) => stat.st_mode,
                Err(errno) => {
                    let what = format!("cannot stat {}", q(&sink.place.shown));
                    return Err(self.voice.failed(what, errno));
                }
            },
        };
        self.set_mode(sink, mode | omitted)
    }

    /// Gives a copy the mode that any new file has, whatever its directory says.
    pub(super) fn set_new_mode(&self, sink: &Subject<'_>, mode: u32) -> Done {
        self.new_mode_set(sink, sink.drop_list(ACCESS_LIST).and_then(|()| sink.set_mode(mode)))
    }

    pub(super) fn set_mode(&self, sink: &Subject<'_>, mode: u32) -> Done {
        sink.set_mode(mode).or_else(|errno| self.mode_not_given(sink, errno))
    }

    pub(super) fn mode_not_given(&self, sink: &Subject<'_>, errno: Errno) -> Done {
        let what = format!("preserving permissions for {}", q(&sink.place.shown));
        self.voice.not_kept(what, errno, self.weight())
    }

    fn new_mode_set(&self, sink: &Subject<'_>, set: Result<(), Errno>) -> Done {
        set.or_else(|errno| self.mode_not_set("setting", sink, errno, Weight::Failure))
    }

    /// Tells that the source's mode was not kept, which is a failure only where it has to be.
    pub(super) fn mode_not_kept(&self, sink: &Subject<'_>, errno: Errno) -> Done {
        self.mode_not_set("preserving", sink, errno, self.weight())
    }

    /// Tells of a mode that was not set. Where it may go with an access list, the classic has its
    /// library tell so, which quotes names as the locale does.
    fn mode_not_set(&self, how: &str, sink: &Subject<'_>, errno: Errno, weight: Weight) -> Done {
        let name = locale_quoted(sink.place.shown.as_bytes());
        // What is not there then is the path by which the copy was to be reached.
        let without = match errno {
            Errno::NOENT if !is_proc_there() => " without /proc",
            _ => "",
        };
        self.voice.not_kept(format!("{how} permissions for {name}{without}"), errno, weight)
    }

    fn keep_link_owner(&self, sink: &Subject<'_>, stat: &Stat) -> Done {
        let (user, group) = owner(stat);
        let kept = sink.set_owner(user, group);
        match kept {
            Err(errno) if !self.is_usual_refusal(errno) => {
                // The classic does not quote the name here.
                let name = sink.place.shown.to_string_lossy();
                let what = format!("failed to preserve ownership for {name}");
                self.voice.not_kept(what, errno, self.weight())
            }
            _ => Ok(()),
        }
    }
}
