//! Directories: made, gone through, and given their attributes when all is in them.
//!
//! Names are looked up in directories that are held open, on both sides, so that neither the length
//! of a path matters nor what somebody does to it meanwhile. Of deep trees only the innermost are
//! held; the way back to the others is their `..`, which has to be the directory that was left.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags, Stat};
use rustix::io::Errno;

use super::attributes::{MODE_BITS, Subject, may_give_lists};
use super::copier::{Copier, Ending, Order};
use super::crew::{self, Crew, Folder};
use super::entries::Entries;
use super::finish::Finish;
use super::leftovers;
use super::level::{End, Level, Target};
use super::pair::{Known, Pair, Sink, SinkIs, Within};
use super::place::{Follow, Place, is_link};
use super::quick;
use super::rounds::Rounds;
use super::seen::{Identity, identity};
use super::shared::Shared;
use super::stack::{LEVELS_MAX, on_large_stack};
use super::told::Done;
use super::turns;
use super::voice::q;

/// What the owner of a directory may do while it is filled.
const OPENED_UP: u32 = 0o700;

impl Copier<'_> {
    /// Copies a directory. `fresh` says that its inode was not met before.
    pub(super) fn directory(
        &mut self,
        pair: &mut Pair,
        stat: &Stat,
        sink: &Sink,
        fresh: bool,
    ) -> Done {
        if self.levels.len() != self.levels_here {
            return self.directory_here(pair, stat, sink, fresh);
        }
        if self.crew.is_some() {
            crew::make_room();
        }
        let shown = pair.source.shown.clone();
        on_large_stack(|| self.directory_here(pair, stat, sink, fresh)).unwrap_or_else(|errno| {
            let what = format!("cannot go deeper than {}: no memory for a stack", q(&shown));
            Err(self.shared.voice.failed(what, errno))
        })
    }

    fn directory_here(&mut self, pair: &mut Pair, stat: &Stat, sink: &Sink, fresh: bool) -> Done {
        let made =
            self.check_above(pair, stat).and_then(|()| self.make_directory(pair, stat, sink));
        let (open, target) = match made {
            Ok(made) => made,
            Err(told) => {
                if fresh {
                    self.seen.forget(identity(stat));
                }
                return Err(told);
            }
        };
        let crosses = self.levels.last().is_some_and(|above| above.source.inode.0 != stat.st_dev);
        if self.shared.settings.one_file_system && crosses {
            let source = self.open_source(pair, stat).ok();
            if let Some(source) = &source {
                self.reopen_above(Some(source), Some(&open));
            }
            let source = source.as_deref();
            return self.shared.finish_directory(pair, stat, sink, (&open, &target), source);
        }
        // One that was found to be a directory itself, and no link to one, leads back by its `..`.
        let returns = pair.open.is_some() || !self.shared.settings.follows(pair.argument);
        let opened = self.open_source(pair, stat).map_err(|errno| {
            self.shared.voice.failed(format!("cannot access {}", q(&pair.source.shown)), errno)
        });
        let Ok(source) = opened else {
            // The rest is set all the same.
            let finished = self.shared.finish_directory(pair, stat, sink, (&open, &target), None);
            return finished.and(opened.map(drop));
        };
        if pair.argument {
            let several = self.crew.is_some();
            // All that is in a new directory is new.
            let may_be_beside =
                several && !target.is_new && quick::is_possible_beside_others(self.shared.settings);
            let same = target.inode.0 == stat.st_dev;
            let may_be_rounds = several && same && self.shared.gains_by_rounds(&source);
            self.order = Order { may_be_beside, may_be_rounds, ..Order::default() };
        }
        let level = Level {
            source: End { open: Some(source), inode: identity(stat), returns },
            sink: End { open: Some(open), inode: target.inode, returns: sink.link.is_none() },
            way: turns::now().turn.inside(),
            rounds: None,
        };
        self.go_through(Arc::new(pair.let_go()), level, target, stat, sink)
    }

    /// A symbolic link may lead back to a directory that holds it.
    fn check_above(&self, pair: &Pair, stat: &Stat) -> Done {
        let inode = identity(stat);
        if self.levels.iter().any(|level| level.source.inode == inode) {
            let what = format!("cannot copy cyclic symbolic link {}", q(&pair.source.shown));
            return Err(self.shared.voice.wrong(what));
        }
        if self.levels.len() >= LEVELS_MAX {
            let what = format!("cannot access {}", q(&pair.source.shown));
            return Err(self.shared.voice.failed(what, Errno::NAMETOOLONG));
        }
        Ok(())
    }

    fn make_directory(
        &mut self,
        pair: &Pair,
        stat: &Stat,
        sink: &Sink,
    ) -> Done<(Arc<OwnedFd>, Target)> {
        let is_new = sink.stat.is_none();
        let voice = self.shared.voice;
        if is_new {
            let mode = stat.st_mode & MODE_BITS & !self.shared.omitted(stat);
            let mode = Mode::from_raw_mode(mode);
            rustix::fs::mkdirat(&pair.sink.directory, &pair.sink.name, mode).map_err(|errno| {
                voice.failed(format!("cannot create directory {}", q(&pair.sink.shown)), errno)
            })?;
        }
        // A symbolic link that was to be followed was found to lead to a directory.
        let follow = Follow::when(sink.link.is_some());
        let (mut open, mut whole) = open_directory(&pair.sink, follow).map_err(|errno| {
            voice.failed(format!("cannot access {}", q(&pair.sink.shown)), errno)
        })?;
        let there = rustix::fs::fstat(&open)
            .map_err(|errno| voice.failed(format!("cannot stat {}", q(&pair.sink.shown)), errno))?;
        let (inode, mut mode) = (identity(&there), None);
        if is_new && there.st_mode & OPENED_UP != OPENED_UP {
            self.open_up(&pair.sink, &mut open, &mut whole, there.st_mode)?;
            mode = Some(there.st_mode);
        }
        if !is_new && self.shared.extras.resume {
            leftovers::sweep(&open, self.shared.extras);
        }
        if is_new {
            if !self.first_made {
                self.seen.remember(inode, || pair.sink.earlier(&self.base));
                self.first_made = true;
            }
            self.shared.say_copied(pair, None);
        }
        Ok((Arc::new(open), Target { inode, whole, mode, is_new }))
    }

    /// Sees to it that a new directory of this mode can be filled.
    fn open_up(&self, place: &Place, open: &mut OwnedFd, whole: &mut bool, mode: u32) -> Done {
        let voice = self.shared.voice;
        Subject::held(place, open, *whole).set_mode(mode | OPENED_UP).map_err(|errno| {
            voice.failed(format!("setting permissions for {}", q(&place.shown)), errno)
        })?;
        if !*whole {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            *open = rustix::fs::openat(&*open, ".", flags, Mode::empty()).map_err(|errno| {
                voice.failed(format!("cannot access {}", q(&place.shown)), errno)
            })?;
            *whole = true;
        }
        Ok(())
    }

    /// Opens the source, if it is not, and sees that it is still the one that was looked at.
    fn open_source(&self, pair: &mut Pair, stat: &Stat) -> Result<Arc<OwnedFd>, Errno> {
        let open = match pair.open.take() {
            Some(open) => return Ok(Arc::new(open)),
            None => {
                let follow = Follow::when(self.shared.settings.follows(pair.argument));
                pair.source.open(OFlags::RDONLY | OFlags::DIRECTORY | or_not(follow), 0)?
            }
        };
        match identity(&rustix::fs::fstat(&open)?) == identity(stat) {
            true => Ok(Arc::new(open)),
            false => Err(Errno::STALE),
        }
    }

    /// Copies what is in a directory, then gives the copy its attributes.
    fn go_through(
        &mut self,
        pair: Arc<Pair>,
        level: Level,
        target: Target,
        stat: &Stat,
        sink: &Sink,
    ) -> Done {
        let source = level.source.open.as_ref().expect("it was just opened");
        let read = Entries::read(source, &mut self.room).map_err(|errno| {
            self.shared.voice.failed(format!("cannot access {}", q(&pair.source.shown)), errno)
        });
        let depth = self.levels.len();
        self.levels.push(level);
        self.close_far(depth);
        let sink_is = if target.is_new { SinkIs::New } else { SinkIs::Unknown };
        let copied =
            read.and_then(|entries| self.entries(&pair, &Arc::new(entries), depth, sink_is));
        let level = self.levels.pop().expect("it was pushed");
        let end = level.way.end();
        let (source, open) = (level.source.open, level.sink.open);
        self.reopen_above(source.as_deref(), open.as_deref());
        let lost = |place: &Place| {
            let what = format!("cannot access {}", q(&place.shown));
            Err(self.shared.voice.failed(what, Errno::STALE))
        };
        let Some(open) = open else {
            self.stand_at(end);
            return lost(if source.is_none() { &pair.source } else { &pair.sink });
        };
        let (source, copied) = match source {
            Some(source) => (source, copied),
            // What is known of it is set all the same; lists and extended attributes stay as the copy has them.
            None => {
                self.stand_at(end.clone());
                (open.clone(), lost(&pair.source).and(copied))
            }
        };
        if self.has_put_off() && self.puts_off() {
            let sink = Sink { backup: None, ..*sink };
            let has_failed = self.shared.voice.ledger.comes_later();
            let stat = *stat;
            let ending = Ending { pair, stat, sink, open, target, source, has_failed };
            self.put_off_ending(end, ending);
            return copied;
        }
        self.stand_at(end);
        let ends = (&open, &target);
        self.shared.finish_directory(&pair, stat, sink, ends, Some(&source)).and(copied)
    }

    fn entries(
        &mut self,
        pair: &Arc<Pair>,
        entries: &Arc<Entries>,
        depth: usize,
        sink_is: SinkIs,
    ) -> Done {
        let mut outcome = Ok(());
        let (first_made, mut any_made) = (self.first_made, false);
        let mut folder = None;
        let way = self.levels[depth].way.clone();
        let threads = self.crew.map_or(1, Crew::threads);
        // Where nothing is put off, files are gone through among the others, in the order of the inodes.
        if self.order.may_be_rounds
            && self.puts_off()
            && sink_is == SinkIs::New
            && threads > 1
            && let Some(rounds) = Rounds::through(entries, threads)
            && self.is_parted()
        {
            self.levels[depth].rounds = Some(rounds);
            self.order.has_rounds = true;
        }
        let (mut next, mut below, mut within) = (0, Pair::default(), None);
        while next < entries.len() {
            let level = &self.levels[depth];
            let (Some(source), Some(sink)) = (&level.source.open, &level.sink.open) else {
                // Whoever began it tells.
                break;
            };
            let (files, known) = self.look_ahead(entries, next, (source, sink), sink_is);
            if files > 0 {
                let folder = folder.get_or_insert_with(|| {
                    let (pair, entries) = (pair.clone(), entries.clone());
                    let (source, sink) = (source.clone(), sink.clone());
                    let within = *within.get_or_insert_with(|| self.within(level, &sink));
                    let way = way.clone();
                    let argument = false;
                    Arc::new(Folder { pair, source, sink, within, sink_is, entries, way, argument })
                });
                let files = next..next + files;
                next = files.end;
                if let Some(rounds) = &mut self.levels[depth].rounds {
                    rounds.through_files(files.end);
                }
                self.put_off_files(folder, files);
                continue;
            }
            let (from, to) = (source.clone(), sink.clone());
            if entries.is_file(next) {
                within.get_or_insert_with(|| self.within(level, &to));
            }
            let in_order = self.keeps_much();
            let at = match &mut self.levels[depth].rounds {
                Some(rounds) if known.source.is_some() => {
                    rounds.through_files(next + 1);
                    next
                }
                Some(rounds) => rounds.instead_of(next, in_order),
                None => next,
            };
            self.stand_at(way.entry(at));
            let name = entries.name(at);
            below.source.be_below(&pair.source, &from, name);
            below.sink.be_below(&pair.sink, &to, name);
            let seems_directory = entries.is_directory(at);
            let within = within.filter(|_| entries.is_file(at));
            (below.sink_is, below.known) = (sink_is, Known { seems_directory, within, ..known });
            // Far below, the level closes them.
            drop((from, to));
            self.first_made = first_made;
            // What is written through it may be something that was put off.
            if sink_is != SinkIs::New && self.has_put_off() {
                let there = below.known.there.or_else(|| below.sink.stat(Follow::No).ok());
                if there.is_some_and(|stat| is_link(&stat)) {
                    self.do_now();
                }
            }
            let done = self.entry(&mut below);
            any_made |= self.first_made;
            outcome = done.and(outcome);
            self.bound_lines();
            if self.met_itself {
                break;
            }
            next += 1;
        }
        self.first_made = any_made;
        outcome
    }

    /// How many files from this one on are copied together, as far as it is known that nothing is where
    /// their copies are to be, and that they have no other names; if none are, what is known of this one.
    fn look_ahead(
        &self,
        entries: &Entries,
        at: usize,
        (source, sink): (&OwnedFd, &OwnedFd),
        sink_is: SinkIs,
    ) -> (usize, Known) {
        let beside = self.order.may_be_beside && self.order.parted.get() != Some(&false);
        let (files, there) = match sink_is {
            _ if !self.puts_off() => (0, None),
            SinkIs::New => (entries.files_from(at), None),
            _ if beside => match entries.absent_from(at, sink) {
                (files, there) if files == 0 || self.is_parted() => (files, there),
                _ => (0, None),
            },
            _ => (0, None),
        };
        let looks = files > 0 && self.shared.settings.preserve.links;
        match looks.then(|| entries.with_other_names(at, source)).flatten() {
            // It is for the one who knows which of its names were met before.
            linked @ Some(_) => (0, Known { source: linked, ..Known::default() }),
            None => (files, Known { there, ..Known::default() }),
        }
    }

    /// Whether neither of the operand and its copy is in the other.
    fn is_parted(&self) -> bool {
        *self.order.parted.get_or_init(|| {
            let top = &self.levels[0];
            match (&top.source.open, &top.sink.open) {
                (Some(source), Some(sink)) => {
                    !is_within(source, top.sink.inode) && !is_within(sink, top.source.inode)
                }
                _ => false,
            }
        })
    }

    /// What is to be known of a directory that files are made in.
    fn within(&self, level: &Level, sink: &OwnedFd) -> Within {
        let keeps_mode = self.shared.settings.preserve.mode;
        Within { device: level.sink.inode.0, gives_lists: !keeps_mode || may_give_lists(sink) }
    }

    /// Closes what is so far above that it will not be needed soon.
    fn close_far(&mut self, depth: usize) {
        let Some(far) = depth.checked_sub(self.levels_open) else { return };
        // What the next level is reached from has to be where its `..` leads.
        let returns = |end: &End| end.returns;
        let (source, sink) = {
            let next = &self.levels[far + 1];
            (returns(&next.source), returns(&next.sink))
        };
        let level = &mut self.levels[far];
        if source {
            level.source.open = None;
        }
        if sink {
            level.sink.open = None;
        }
    }

    /// Opens the level above anew, where it was closed.
    fn reopen_above(&mut self, source: Option<&OwnedFd>, sink: Option<&OwnedFd>) {
        let Some(above) = self.levels.last_mut() else { return };
        for (end, below) in [(&mut above.source, source), (&mut above.sink, sink)] {
            if end.open.is_none() {
                end.open = below.and_then(|below| parent_of(below, end.inode));
            }
        }
    }
}

impl Shared<'_> {
    /// Gives a directory its attributes, once all is in it.
    pub(super) fn finish_directory(
        &self,
        pair: &Pair,
        stat: &Stat,
        sink: &Sink,
        (open, target): (&Arc<OwnedFd>, &Target),
        source: Option<&OwnedFd>,
    ) -> Done {
        let from = Subject::new(&pair.source, source.map(AsFd::as_fd));
        let to = Subject::held(&pair.sink, open, target.whole);
        let before = sink.stat.as_ref();
        let is_left = before.is_some_and(|there| self.may_be_left(stat, there));
        let may_be_new = target.is_new || is_left;
        let omitted = if may_be_new { self.omitted(stat) } else { 0 };
        let finish = Finish { before, is_link: false, may_be_new, omitted, mode: target.mode };
        let finished = self.finish(&from, &to, stat, &finish);
        match self.extras.fsync {
            true => self.sync(open, pair).and(finished),
            false => finished,
        }
    }
}

/// A directory to copy into. One that may not be read can still be filled.
fn open_directory(place: &Place, follow: Follow) -> Result<(OwnedFd, bool), Errno> {
    let follow = or_not(follow);
    match place.open(OFlags::RDONLY | OFlags::DIRECTORY | follow, 0) {
        Err(Errno::ACCESS) => {
            place.open(OFlags::PATH | OFlags::DIRECTORY | follow, 0).map(|open| (open, false))
        }
        answer => answer.map(|open| (open, true)),
    }
}

fn or_not(follow: Follow) -> OFlags {
    if follow == Follow::Yes { OFlags::empty() } else { OFlags::NOFOLLOW }
}

/// Whether a directory is the other one, or in it; also where that cannot be told.
fn is_within(directory: &OwnedFd, other: Identity) -> bool {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let opened = |below: &OwnedFd, name| rustix::fs::openat(below, name, flags, Mode::empty());
    let inode = |open: &OwnedFd| rustix::fs::fstat(open).map(|stat| identity(&stat));
    let (Ok(mut own), Ok(mut above)) = (inode(directory), opened(directory, "..")) else {
        return true;
    };
    for _ in 0..LEVELS_MAX {
        if own == other {
            return true;
        }
        let (Ok(next), Ok(further)) = (inode(&above), opened(&above, "..")) else { return true };
        // The root is in itself.
        if next == own {
            return false;
        }
        (own, above) = (next, further);
    }
    true
}

/// The directory that holds this one, if it is still the one that did.
fn parent_of(directory: &OwnedFd, inode: Identity) -> Option<Arc<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = match rustix::fs::openat(directory, "..", flags, Mode::empty()) {
        Err(Errno::ACCESS) => {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            rustix::fs::openat(directory, "..", flags, Mode::empty())
        }
        answer => answer,
    };
    let open = open.ok()?;
    let found = rustix::fs::fstat(&open).ok()?;
    (identity(&found) == inode).then(|| Arc::new(open))
}
