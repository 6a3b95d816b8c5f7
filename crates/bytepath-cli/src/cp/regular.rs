//! A regular file: opened, copied, and given its attributes while it is open.

use std::os::fd::{AsFd, OwnedFd};

use bytepath::routes::by_name;
use bytepath::{Endpoint, Knobs, Plan};
use bytepath_report::Outcome;
use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;

use super::atomic::{self, Begun, NotBegun, NotNamed};
use super::attributes::{MODE_BITS, Subject, same_owner};
use super::copy::{Copy, Kept};
use super::data::{Data, Fault, SinkEnd, job};
use super::entry::Made;
use super::pair::{Pair, Sink, SinkIs};
use super::place::{Follow, Place, kind, same_file};
use super::resume::Resumed;
use super::settings::{Make, Reflink};
use super::shared::Shared;
use super::told::{Done, Told};
use super::voice::q;
use crate::close::close;
use crate::device;
use crate::errno::word;

/// A new file's permissions, but for the umask.
const NEW_FILE: u32 = 0o666;

impl Shared<'_> {
    /// Copies a file, or reads what is to be read like one.
    pub(super) fn regular(&self, pair: &Pair, stat: &Stat, sink: &mut Sink) -> Done<Made> {
        self.check_sink(pair, sink)?;
        if !self.can_go_on(stat, sink.stat.as_ref()) {
            self.hand.holds_what_begins_anew();
        }
        // To open a FIFO waits for whoever writes to it.
        if kind(stat) != FileType::RegularFile {
            self.takes_long();
        }
        let (source, opened) = self.open_source(pair, stat)?;
        self.regular_open(pair, (&source, &opened), stat, sink)
    }

    /// Sees, before anything is opened, that what is there can be copied onto as is asked for.
    fn check_sink(&self, pair: &Pair, sink: &Sink) -> Done {
        let there = sink.stat.as_ref().filter(|_| self.settings.make == Make::Copy);
        let Some(there) = there else { return Ok(()) };
        let to = q(&pair.sink.shown);
        if self.extras.atomic && kind(there) != FileType::RegularFile {
            return Err(self.voice.wrong(format!(
                "cannot replace {to}, which is no file: leave out --atomic to write into it"
            )));
        }
        self.check_verify(pair, &to, there)
    }

    /// Sees, before what is there is asked about or taken away, that a source can be copied as is asked for.
    pub(super) fn check_source(&self, pair: &Pair, stat: &Stat) -> Done {
        self.check_verify(pair, &q(&pair.source.shown), stat)
    }

    /// Copies a file that is open, and was looked at since.
    pub(super) fn regular_open(
        &self,
        pair: &Pair,
        (source, opened): (&OwnedFd, &Stat),
        stat: &Stat,
        sink: &mut Sink,
    ) -> Done<Made> {
        if self.settings.make == Make::Attributes {
            self.voice.ledger.outcome(Outcome::Attributes);
        }
        let resumed = self.resumed(pair, stat, (source, opened), sink)?;
        if let Resumed::LeftAlone = resumed {
            return Ok(Made::LeftAlone);
        }
        let mut copy = match resumed {
            Resumed::Copy(copy) => *copy,
            _ => self.open_sink(pair, source, stat, sink)?,
        };
        let done = self.copy_open(pair, opened, stat, (source, &mut copy));
        let done = done.and_then(|()| self.settle(pair, source, &copy));
        let reads_again = self.extras.verify && self.settings.preserve.timestamps;
        let done = done.and_then(|()| match reads_again {
            true => self.keep_times(&Subject::new(&pair.sink, Some(copy.open.as_fd())), stat),
            false => Ok(()),
        });
        let done = done.and_then(|()| match copy.unnamed {
            None => Ok(()),
            Some(unnamed) => {
                unnamed.name(&copy.open).map_err(|why| self.not_named(pair, why))?;
                if sink.replaced && sink.backup.is_none() {
                    self.say_removed(&pair.sink);
                }
                Ok(())
            }
        });
        let closed = close(copy.open).map_err(|errno| {
            self.voice.failed(format!("failed to close {}", q(&pair.sink.shown)), errno)
        });
        let done = done.and(closed);
        if done.is_ok() {
            self.hand.file_done();
        }
        done.map(|()| Made::Whole)
    }

    pub(super) fn open_source(&self, pair: &Pair, stat: &Stat) -> Done<(OwnedFd, Stat)> {
        let follow = match self.settings.follows(pair.argument) {
            true => OFlags::empty(),
            false => OFlags::NOFOLLOW,
        };
        let name = &pair.source.shown;
        let open = pair.source.open(OFlags::RDONLY | follow, 0).map_err(|errno| {
            self.voice.failed(format!("cannot open {} for reading", q(name)), errno)
        })?;
        let opened = rustix::fs::fstat(&open)
            .map_err(|errno| self.voice.failed(format!("cannot fstat {}", q(name)), errno))?;
        if !same_file(&opened, stat) {
            let what = format!("skipping file {}, as it was replaced while being copied", q(name));
            return Err(self.voice.wrong(what));
        }
        Ok((open, opened))
    }

    /// Opens what is there, or makes it, as POSIX has it for `cp`.
    fn open_sink(&self, pair: &Pair, source: &OwnedFd, stat: &Stat, sink: &mut Sink) -> Done<Copy> {
        let staged = self.stage.is_some() && !sink.is_new();
        // What is there keeps its bytes.
        let in_place = self.settings.attributes_only && !sink.is_new();
        if (self.extras.atomic || staged)
            && !in_place
            && let Some(copy) = self.begin_unnamed(pair, stat, sink)?
        {
            return Ok(copy);
        }
        let mut errno = None;
        if !sink.is_new() {
            match self.open_existing(&pair.sink, sink) {
                Ok(open) => {
                    if self.empties() && self.plan.route.is_some() {
                        self.empty_by_route(pair, source, &open)?;
                    }
                    return Ok(Copy::new(open, false, 0, None));
                }
                Err(Errno::NOENT) => {}
                Err(_) if self.settings.force => self.remove(&pair.sink)?,
                Err(refused) => errno = Some(refused),
            }
        }
        let omitted = self.omitted(stat);
        let mode = stat.st_mode & 0o777 & !omitted;
        let made = match errno {
            Some(errno) => Err(errno),
            None => self.make_file(&pair.sink, mode)?,
        };
        match made {
            // Another who does the same was faster: it is replaced, never written into.
            Err(Errno::EXIST) if self.stage.is_some() && sink.is_new() => {
                (sink.is, sink.stat) = (SinkIs::There, pair.sink.stat(Follow::No).ok());
                match self.begin_unnamed(pair, stat, sink)? {
                    Some(copy) => Ok(copy),
                    None => Err(self.not_made(pair, Errno::EXIST)),
                }
            }
            Ok(open) => {
                // By a link that led nowhere it may be elsewhere.
                let within = sink.within.filter(|_| sink.leads_nowhere.is_none());
                sink.gone();
                Ok(Copy { within, ..Copy::new(open, true, omitted, None) })
            }
            Err(errno) => Err(self.not_made(pair, errno)),
        }
    }

    fn not_made(&self, pair: &Pair, errno: Errno) -> Told {
        self.voice.failed(format!("cannot create regular file {}", q(&pair.sink.shown)), errno)
    }

    fn not_named(&self, pair: &Pair, why: NotNamed) -> Told {
        match why {
            NotNamed::Syncing(errno) => self.not_synced(pair, errno),
            NotNamed::Naming(errno) => self.not_made(pair, errno),
            NotNamed::SyncingFolder(errno) => self.voice.folder_not_synced(&pair.sink.shown, errno),
        }
    }

    pub(super) fn not_synced(&self, pair: &Pair, errno: Errno) -> Told {
        self.voice.failed(format!("error syncing {}", q(&pair.sink.shown)), errno)
    }

    /// Makes a file that gets its name later; none where the destination is no file.
    fn begin_unnamed(&self, pair: &Pair, stat: &Stat, sink: &mut Sink) -> Done<Option<Copy>> {
        let omitted = self.omitted(stat);
        let mode = stat.st_mode & 0o777 & !omitted;
        let always = self.settings.force || self.parts_names(sink);
        let begun = match self.stage {
            Some(stage) => atomic::begin_staged(&pair.sink, sink, mode, always, stage),
            None => atomic::begin(&pair.sink, sink, mode, always),
        };
        match begun {
            Ok(Begun::Unnamed(open, unnamed)) => {
                let is_new = sink.stat.is_none();
                let omitted = if is_new { omitted } else { 0 };
                Ok(Some(Copy::new(open, is_new, omitted, Some(unnamed))))
            }
            Ok(Begun::AsItIs) => Ok(None),
            Err(why) => Err(self.not_begun(pair, why)),
        }
    }

    /// Whether each name of the file that is there is to have a file of its own.
    pub(super) fn parts_names(&self, sink: &Sink) -> bool {
        let several = sink.link.is_none() && sink.stat.is_some_and(|there| there.st_nlink > 1);
        self.settings.preserve.links && several
    }

    pub(super) fn not_begun(&self, pair: &Pair, why: NotBegun) -> Told {
        let NotBegun { errno, folder } = why;
        let Some(folder) = folder.filter(|_| self.extras.atomic) else {
            return self.not_made(pair, errno);
        };
        let what = format!(
            "cannot create regular file {}: {} (--atomic makes a new file in {}, which may not be \
             written)",
            q(&pair.sink.shown),
            word(errno),
            q(folder)
        );
        self.voice.wrong_by(what, Some(errno))
    }

    /// Sees that the copy is what it is to be, and where.
    fn settle(&self, pair: &Pair, source: &OwnedFd, copy: &Copy) -> Done {
        if self.extras.verify && self.settings.make == Make::Copy {
            self.verify(pair, source, &copy.open)?;
        }
        if self.extras.fsync {
            self.sync(&copy.open, pair)?;
        }
        Ok(())
    }

    /// Brings a file or directory to the device.
    pub(super) fn sync(&self, open: &OwnedFd, pair: &Pair) -> Done {
        match device::settle_all(open) {
            // What is open for looking names up alone cannot be brought.
            Err(Errno::BADF) | Ok(()) => Ok(()),
            Err(errno) => Err(self.not_synced(pair, errno)),
        }
    }

    fn open_existing(&self, place: &Place, sink: &Sink) -> Result<OwnedFd, Errno> {
        let at_once = self.empties() && self.plan.route.is_none();
        let truncate = if at_once { OFlags::TRUNC } else { OFlags::empty() };
        // What was no symbolic link when it was looked at is not to be one now.
        let looked = sink.stat.is_some() && sink.link.is_none();
        let follow = if looked { OFlags::NOFOLLOW } else { OFlags::empty() };
        let flags = truncate | follow;
        place.open(self.access() | flags, 0)
    }

    fn empties(&self) -> bool {
        self.settings.make != Make::Attributes
    }

    /// The route that was named may never join such ends: only what it does join is emptied.
    fn empty_by_route(&self, pair: &Pair, source: &OwnedFd, sink: &OwnedFd) -> Done {
        let (from, to) = (&pair.source.shown, &pair.sink.shown);
        // What is no end at all is told of once it is to be copied.
        let ends = Endpoint::source(source.as_fd()).ok().zip(Endpoint::sink(sink.as_fd()).ok());
        if let Some((source, sink)) = &ends
            && let Some(route) = &self.plan.route
            && !source.gives_nothing()
            && let Err(error) = Plan::only(route, &job(source, sink), Knobs::default())
        {
            return Err(self.voice.wrong(Fault::Other(error.to_string()).said(from, to)));
        }
        match rustix::fs::ftruncate(sink, 0) {
            // Pipes and devices hold nothing that could be taken out.
            Ok(()) | Err(Errno::INVAL) => Ok(()),
            Err(errno) => Err(self.not_made(pair, errno)),
        }
    }

    /// What is verified is read again, and only what may be read is mapped.
    fn access(&self) -> OFlags {
        let mapped =
            self.plan.route.as_deref().and_then(by_name).is_some_and(|route| route.maps_sink());
        if self.extras.verify || mapped { OFlags::RDWR } else { OFlags::WRONLY }
    }

    pub(super) fn remove(&self, place: &Place) -> Done {
        match place.remove() {
            Ok(()) => {
                self.say_removed(place);
                Ok(())
            }
            Err(Errno::NOENT) => Ok(()),
            Err(errno) => {
                Err(self.voice.failed(format!("cannot remove {}", q(&place.shown)), errno))
            }
        }
    }

    /// Makes a file where there is none. A symbolic link that leads nowhere is not written through:
    /// what it names cannot be told apart from what somebody makes there meanwhile.
    fn make_file(&self, place: &Place, mode: u32) -> Done<Result<OwnedFd, Errno>> {
        let flags = self.access() | OFlags::CREATE;
        let made = match place.open(flags | OFlags::EXCL, mode) {
            Err(Errno::EXIST) if place.read_link().is_ok() => {
                let through = self.settings.through_dangling;
                if !through || self.extras.atomic {
                    let what = "not writing through dangling symlink";
                    let cure = if through { ": leave out --atomic to do so" } else { "" };
                    return Err(self.voice.wrong(format!("{what} {}{cure}", q(&place.shown))));
                }
                place.open(flags, mode)
            }
            Err(Errno::ISDIR) if place.shown.as_encoded_bytes().ends_with(b"/") => {
                Err(Errno::NOTDIR)
            }
            answer => answer,
        };
        Ok(made)
    }

    fn copy_open(
        &self,
        pair: &Pair,
        now: &Stat,
        stat: &Stat,
        (source, copy): (&OwnedFd, &mut Copy),
    ) -> Done {
        if self.settings.make == Make::Copy && copy.kept != Kept::Whole {
            let end = copy.ends().map_err(|errno| self.not_looked_at(pair, errno))?;
            self.copy_data(pair, source, copy, (now, end))?;
        }
        if let Some(unnamed) = &copy.unnamed {
            unnamed.sync_part(&copy.open).map_err(|errno| self.not_synced(pair, errno))?;
            unnamed
                .be_like_replaced(&copy.open, &self.settings.preserve)
                .map_err(|errno| self.not_made(pair, errno))?;
            copy.stat.take();
        }
        self.keep_attributes(pair, stat, source, copy)
    }

    fn not_looked_at(&self, pair: &Pair, errno: Errno) -> Told {
        self.voice.failed(format!("cannot fstat {}", q(&pair.sink.shown)), errno)
    }

    fn copy_data(
        &self,
        pair: &Pair,
        source: &OwnedFd,
        copy: &Copy,
        ends: (&Stat, SinkEnd),
    ) -> Done {
        let (from, to) = (&pair.source.shown, &pair.sink.shown);
        let mut data = Data::new(self, source.as_fd(), copy.open.as_fd(), ends);
        let cloned = match self.settings.reflink {
            Reflink::Never => false,
            Reflink::Auto if copy.kept != Kept::Nothing => false,
            Reflink::Auto => data.reflink().is_ok(),
            Reflink::Always => match data.reflink() {
                Ok(()) => true,
                Err(errno) => {
                    let what = format!("failed to clone {} from {}", q(to), q(from));
                    let told = self.voice.failed(what, errno);
                    self.remove_unfinished(pair, copy);
                    return Err(told);
                }
            },
        };
        let copied = match cloned {
            true => data.count_whole(),
            false => data.copy(),
        };
        let copied = copied.and_then(|()| data.settle());
        copied.map_err(|fault| self.voice.wrong_by(fault.said(from, to), fault.errno()))?;
        if self.settings.debug {
            self.voice.line(data.told().to_string().as_bytes());
        }
        Ok(())
    }

    /// An empty file that was to be a clone is of no use to anybody.
    fn remove_unfinished(&self, pair: &Pair, copy: &Copy) {
        if copy.is_new
            && copy.unnamed.is_none()
            && let Err(errno) = pair.sink.remove()
        {
            self.voice.failed(format!("cannot remove {}", q(&pair.sink.shown)), errno);
        }
    }

    pub(super) fn keep_attributes(
        &self,
        pair: &Pair,
        stat: &Stat,
        source: &OwnedFd,
        copy: &Copy,
    ) -> Done {
        let opened = || copy.stat().map_err(|errno| self.not_looked_at(pair, errno));
        let preserve = &self.settings.preserve;
        let source = Subject::new(&pair.source, Some(source.as_fd()));
        let sink = Subject::new(&pair.sink, Some(copy.open.as_fd()));
        sink.unlisted.set(copy.is_without_list());
        if preserve.timestamps {
            self.keep_times(&sink, stat)?;
        }
        let mut mode = stat.st_mode;
        if preserve.ownership && !same_owner(stat, opened()?) {
            let before = if copy.is_new { None } else { Some(opened()?) };
            mode = self.keep_owner(&sink, stat, before)?;
        }
        let mut outcome = Ok(());
        if preserve.xattr {
            outcome = self.keep_xattrs_of_file(&source, &sink, opened()?);
        }
        if preserve.context {
            outcome = self.keep_context(&source, &sink).and(outcome);
        }
        let without_lists = source.unlisted.get() && sink.unlisted.get();
        let set = if preserve.mode && without_lists {
            sink.set_mode(mode).or_else(|errno| self.mode_not_kept(&sink, errno))
        } else if preserve.mode {
            self.keep_mode(&source, &sink, mode, stat)
        } else if preserve.default_mode && (copy.is_new || copy.is_left) {
            self.set_new_mode(&sink, NEW_FILE & !self.umask)
        } else if copy.omitted & !self.umask != 0 {
            match sink.set_mode(stat.st_mode & 0o777 & !self.umask) {
                // Where the file system keeps no modes (vfat, CIFS), it has what any new file has.
                Err(Errno::PERM | Errno::NOSYS | Errno::OPNOTSUPP)
                    if copy.unnamed.is_some() && !atomic::is_closed(&copy.open) =>
                {
                    Ok(())
                }
                set => set.or_else(|errno| self.mode_not_given(&sink, errno)),
            }
        } else {
            Ok(())
        };
        set.and(outcome)
    }

    /// Whoever may not write a file may not set its attributes either, so that a copy that is to be
    /// read-only has to be writable for a moment.
    fn keep_xattrs_of_file(&self, source: &Subject<'_>, sink: &Subject<'_>, opened: &Stat) -> Done {
        let closed = !self.settings.privileged && opened.st_mode & 0o200 == 0;
        if closed {
            let _ = sink.set_mode(opened.st_mode & MODE_BITS | 0o200);
        }
        let kept = self.keep_xattrs(source, sink);
        if closed && !self.settings.preserve.mode {
            self.set_mode(sink, opened.st_mode & MODE_BITS)?;
        }
        kept
    }
}
