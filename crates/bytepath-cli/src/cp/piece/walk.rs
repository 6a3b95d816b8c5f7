//! Directories: their entries looked at, files copied, directories below gone into as long as there is
//! time; the rest is given back.
//!
//! A directory with more names than one request is worth is written down as a list, whose parts
//! can be copied by anybody: neither its names nor memory for them go through the one who shares the
//! work out.

use std::ffi::{CStr, OsStr};
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{AtFlags, Mode, RawDir, Stat};
use rustix::io::Errno;

use super::Work;
use super::ground::{self, Ends, Side};
use super::words::{Item, Large, Name, Several, Tree};
use crate::cp::ahead::Ahead;
use crate::cp::attributes::may_give_lists;
use crate::cp::copier::Copier;
use crate::cp::entries::{ENTRIES_BYTES, Entries, IS_FILE};
use crate::cp::pair::{Pair, SinkIs, Within};
use crate::cp::place::{Directory, Follow, Place, is_directory, joined, kind};
use crate::cp::quick::{Lane, Quick};
use crate::cp::seen::identity;
use crate::cp::voice::q;

/// Names of a part of a directory.
const PART_NAMES: usize = 4096;

/// From so many names on, what is left of a directory is written down instead of sent.
const SENT_NAMES: usize = 256;

/// Levels of directories that are held open below the one that was asked for.
const OPEN_LEVELS: usize = 32;

/// From this size on a file is cut into ranges.
const LARGE_BYTES: u64 = 128 << 20;

/// So is one that takes longer by a limit.
const LARGE_TIME: Duration = Duration::from_secs(2);

/// A directory that was found, and not gone into yet.
struct Pending {
    tree: Tree,
    /// The directory that it was found in.
    above: Option<Arc<Ends>>,
    levels: usize,
}

/// A directory whose entries are being gone through.
struct Open {
    path: Name,
    ends: Arc<Ends>,
    pair: Pair,
    within: Within,
    alone: bool,
    weight: f64,
    /// Directories below.
    below: Vec<Name>,
    levels: usize,
}

impl Work<'_> {
    pub(super) fn tree(&mut self, tree: Tree) {
        let mut pending = vec![Pending { tree, above: None, levels: 0 }];
        while let Some(next) = pending.pop() {
            self.some_of(next, &mut pending);
            // A directory in which nothing is takes its time as well: nobody is to make more who is late.
            self.breathe();
            if self.is_over() || self.is_wanted() {
                break;
            }
        }
        self.answer.rest.extend(pending.into_iter().map(|next| Item::Tree(next.tree)));
    }

    fn some_of(&mut self, next: Pending, pending: &mut Vec<Pending>) {
        self.begins();
        let tree = next.tree.clone();
        let Some(mut open) = self.open(next) else { return };
        let entries = match self.entries_of(&tree, &open) {
            Ok(entries) => entries,
            Err(error) => {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                let what = format!("cannot access {}", q(&self.process.ground.shown(&tree.d.0).0));
                return self.failed_by(Item::Tree(tree), what, errno);
            }
        };
        let Some(entries) = entries else { return };
        if self.split {
            return self.give_back_in_parts(&tree, &mut open, &entries);
        }
        let done = self.go_through(&mut open, &entries);
        let (done_weight, left_weight) = shares(tree.w, done, entries.len());
        if done < entries.len() {
            self.give_back(&tree, &entries, done, left_weight);
        }
        self.share_out(open, done_weight, pending);
    }

    /// What was found below gets its share of the weight, and is gone into next.
    fn share_out(&mut self, mut open: Open, weight: f64, pending: &mut Vec<Pending>) {
        let count = open.below.len() + 1;
        let each = weight / count as f64;
        self.answer.w += each;
        let held = open.levels < OPEN_LEVELS;
        for path in open.below.drain(..).rev() {
            pending.push(Pending {
                tree: Tree { d: path, w: each, ..Tree::default() },
                above: held.then(|| open.ends.clone()),
                levels: open.levels + 1,
            });
        }
    }

    /// The entries that are asked for; none where they were given back as parts.
    fn entries_of(&mut self, tree: &Tree, open: &Open) -> std::io::Result<Option<Entries>> {
        let ground = &self.process.ground;
        if let Some(names) = &tree.n {
            let lines = names.iter().flat_map(|name| line(IS_FILE, &name.0)).collect();
            return Ok(Some(Entries::of_lines(lines)?));
        }
        if let Some(list) = &tree.l {
            let lines = ground.read_list(&list.0, tree.a, Some(tree.z))?;
            return Ok(Some(Entries::of_lines(lines)?));
        }
        let mut room = Vec::with_capacity(ENTRIES_BYTES);
        let source = &*open.ends.source;
        let mut reader = RawDir::new(source, room.spare_capacity_mut());
        let first = Entries::read_some(&mut reader, PART_NAMES)?;
        if first.len() < PART_NAMES {
            return Ok(Some(first));
        }
        let (mut file, list) = ground.new_list()?;
        let (mut parts, mut at, mut entries) = (Vec::new(), 0, first);
        while entries.len() > 0 {
            let lines = entries.lines(0);
            file.write_all(&lines)?;
            parts.push((at, at + lines.len() as u64));
            at += lines.len() as u64;
            entries = Entries::read_some(&mut reader, PART_NAMES)?;
        }
        ground::kept(&file)?;
        let (w, l) = (tree.w / parts.len() as f64, Some(Name(list)));
        let part = |(a, z)| {
            Item::Tree(Tree { d: tree.d.clone(), l: l.clone(), a, z, w, ..Tree::default() })
        };
        self.answer.rest.extend(parts.into_iter().map(part));
        Ok(None)
    }

    /// Gives back the entries from this one on.
    fn give_back(&mut self, tree: &Tree, entries: &Entries, from: usize, w: f64) {
        let rest = Tree { n: None, w, ..tree.clone() };
        let lines = entries.lines(from);
        let list = match &tree.l {
            Some(_) => Some(Tree { a: tree.z - lines.len() as u64, ..rest.clone() }),
            None if entries.len() - from <= SENT_NAMES => None,
            None => self.process.ground.write_list(&lines).ok().map(|list| Tree {
                l: Some(Name(list)),
                a: 0,
                z: lines.len() as u64,
                ..rest.clone()
            }),
        };
        let names = || (from..entries.len()).map(|at| entries.name(at).into()).collect();
        let rest = list.unwrap_or_else(|| Tree { n: Some(names()), l: None, ..rest });
        self.answer.rest.push(Item::Tree(rest));
    }

    /// Gives back both halves of the entries; one that is alone and a directory as what it is.
    fn give_back_in_parts(&mut self, tree: &Tree, open: &mut Open, entries: &Entries) {
        let count = entries.len();
        if count == 0 {
            self.answer.w += tree.w;
        }
        for part in [0..count / 2, count / 2..count] {
            if part.is_empty() {
                continue;
            }
            let w = tree.w * part.len() as f64 / count as f64;
            let rest = Tree { w, ..tree.clone() };
            let directory = (part.len() == 1)
                .then(|| self.directory_below(open, entries.name(part.start)))
                .flatten();
            let rest = match (directory, &tree.l) {
                (Some(d), _) => Tree { d, w, ..Tree::default() },
                (None, Some(_)) if part.len() > 1 => {
                    let at = |from| tree.z - entries.lines(from).len() as u64;
                    Tree { a: at(part.start), z: at(part.end), ..rest }
                }
                _ => {
                    let names = part.map(|at| entries.name(at).into()).collect();
                    Tree { n: Some(names), l: None, a: 0, z: 0, ..rest }
                }
            };
            self.answer.rest.push(Item::Tree(rest));
        }
    }

    /// The path of an entry that is a directory, and part of the source.
    fn directory_below(&self, open: &mut Open, name: &OsStr) -> Option<Name> {
        open.pair.turn_to(name);
        let stat = open.pair.source.stat(Follow::No).ok()?;
        let is_other = self.is_own(&stat) || self.sink_root == Some(identity(&stat));
        (is_directory(&stat) && !is_other).then(|| Name(joined_below(&open.path.0, name)))
    }

    /// Opens a directory on both sides, and makes it where it is not there.
    fn open(&mut self, next: Pending) -> Option<Open> {
        let Pending { tree, above, levels } = next;
        match self.open_ends(&tree, above.as_deref()) {
            Ok((ends, stat, sink_is)) => self.opened(&tree, (ends, levels), &stat, sink_is),
            // It was there when it was found: somebody removed it, or made something else of it.
            Err((Side::Source, Errno::NOENT)) if !tree.d.0.is_empty() => {
                self.answer.w += tree.w;
                None
            }
            Err((Side::Source, Errno::NOTDIR | Errno::LOOP)) if !tree.d.0.is_empty() => {
                let (folder, name) = ground::split(&tree.d.0);
                let (d, n) = (Name::from(folder), Some(vec![Name::from(name)]));
                self.answer.rest.push(Item::Tree(Tree { d, n, w: tree.w, ..Tree::default() }));
                None
            }
            Err((side, errno)) => {
                if (side, errno) == (Side::Source, Errno::ACCESS) {
                    self.make_empty(&tree.d, above.as_deref());
                }
                let (from, to) = self.process.ground.shown(&tree.d.0);
                let what = match side {
                    Side::Source => format!("cannot access {}", q(from)),
                    Side::Sink if matches!(errno, Errno::NOTDIR | Errno::LOOP) => {
                        format!(
                            "cannot overwrite non-directory {} with directory {}",
                            q(to),
                            q(from)
                        )
                    }
                    Side::Sink => format!("cannot create directory {}", q(to)),
                };
                self.failed_by(Item::Tree(tree), what, errno);
                None
            }
        }
    }

    /// Makes a directory that cannot be read, as `cp` does; whatever hinders that is told otherwise.
    fn make_empty(&self, path: &Name, above: Option<&Ends>) -> Option<()> {
        let (source, sink) = match above {
            Some(ends) => (ends.source.clone(), ends.sink.clone()),
            None => self.process.ground.folders(&path.0).ok()?,
        };
        let name = ground::split(&path.0).1;
        let stat = rustix::fs::statat(&source, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let mode = Mode::from_raw_mode(self.new_mode(&stat));
        is_directory(&stat).then(|| rustix::fs::mkdirat(&sink, name, mode).ok())??;
        let made = ground::directory(sink.as_fd(), name).ok()?;
        self.give_omitted(&made, &stat, SinkIs::New).ok()
    }

    #[allow(clippy::type_complexity, reason = "two ends, what the source is, and what is known")]
    fn open_ends(
        &self,
        tree: &Tree,
        above: Option<&Ends>,
    ) -> Result<(Ends, Stat, SinkIs), (Side, Errno)> {
        let ground = &self.process.ground;
        let (from, to) = (|errno| (Side::Source, errno), |errno| (Side::Sink, errno));
        let path = &tree.d.0;
        if path.is_empty() {
            let (source, sink) =
                (ground.source_root().map_err(from)?, ground.sink_root().map_err(to)?);
            let stat = rustix::fs::fstat(&source).map_err(from)?;
            let ends = Ends { source: Arc::new(source), sink: Arc::new(sink) };
            return Ok((ends, stat, SinkIs::Unknown));
        }
        let (folder, name) = ground::split(path);
        let (source, sink_above) = match above {
            Some(ends) => {
                (ground::directory(ends.source.as_fd(), name).map_err(from)?, ends.sink.clone())
            }
            None => (
                ground.source_root().and_then(|root| ground::below(root, path)).map_err(from)?,
                Arc::new(
                    ground.sink_root().and_then(|root| ground::below(root, folder)).map_err(to)?,
                ),
            ),
        };
        let stat = rustix::fs::fstat(&source).map_err(from)?;
        let mode = Mode::from_raw_mode(self.new_mode(&stat));
        let sink_is = match rustix::fs::mkdirat(&sink_above, name, mode) {
            Ok(()) => SinkIs::New,
            Err(Errno::EXIST) => SinkIs::Unknown,
            Err(errno) => return Err(to(errno)),
        };
        let sink = ground::directory(sink_above.as_fd(), name).map_err(to)?;
        self.give_omitted(&sink, &stat, sink_is).map_err(to)?;
        let ends = Ends { source: Arc::new(source), sink: Arc::new(sink) };
        Ok((ends, stat, sink_is))
    }

    /// Gives a new directory what it gets only by the umask, where a list of the one above might have
    /// given it otherwise. What its owner is to have first is given once all is in it.
    fn give_omitted(&self, sink: &OwnedFd, stat: &Stat, sink_is: SinkIs) -> Result<(), Errno> {
        let omitted = self.shared.omitted(stat) & !self.shared.umask;
        if self.shared.settings.preserve.ownership || omitted == 0 {
            return Ok(());
        }
        // Whoever made it may have died before this.
        if sink_is != SinkIs::New && self.is_known_new(sink) != Some(true) {
            return Ok(());
        }
        let there = rustix::fs::fstat(sink)?;
        match omitted & !there.st_mode {
            0 => Ok(()),
            _ => rustix::fs::fchmod(sink, Mode::from_raw_mode(there.st_mode & 0o7777 | omitted)),
        }
    }

    /// The mode of a directory that is to be filled: nobody else's where it is to have its own owner
    /// first, and writable to others by the umask alone.
    pub(super) fn new_mode(&self, stat: &Stat) -> u32 {
        stat.st_mode & 0o1777 & !self.shared.omitted(stat) | 0o700
    }

    fn opened(
        &mut self,
        tree: &Tree,
        (ends, levels): (Ends, usize),
        stat: &Stat,
        sink_is: SinkIs,
    ) -> Option<Open> {
        let settings = self.shared.settings;
        let whole = tree.n.is_none() && tree.l.is_none();
        let sink = match rustix::fs::fstat(&ends.sink) {
            Ok(sink) => sink,
            Err(errno) => {
                let what = format!("cannot stat {}", q(self.process.ground.shown(&tree.d.0).1));
                self.failed_by(Item::Tree(tree.clone()), what, errno);
                return None;
            }
        };
        if identity(&sink) == identity(stat) {
            let what = format!("{} is its own copy", q(self.process.ground.shown(&tree.d.0).0));
            self.failed_by(Item::Tree(tree.clone()), what, Errno::INVAL);
            return None;
        }
        if whole {
            self.answer.directories += 1;
            self.note_attributes(&tree.d, stat);
        }
        let root = settings.one_file_system.then(|| std::fs::metadata(&self.process.ground.source));
        let device =
            root.and_then(Result::ok).map(|root| std::os::unix::fs::MetadataExt::dev(&root));
        if device.is_some_and(|device| device != stat.st_dev) {
            // All that is done of it is done.
            self.answer.w += tree.w;
            return None;
        }
        let (source_shown, sink_shown) = self.process.ground.shown(&tree.d.0);
        let place = |open: &Arc<_>, shown| Place {
            directory: Directory::Held(Arc::clone(open)),
            name: ".".into(),
            shown,
            base_bytes: 0,
        };
        let gives_lists = !settings.preserve.mode || may_give_lists(&*ends.sink);
        Some(Open {
            path: tree.d.clone(),
            pair: Pair {
                source: place(&ends.source, source_shown).below(&ends.source, OsStr::new(".")),
                sink: place(&ends.sink, sink_shown).below(&ends.sink, OsStr::new(".")),
                sink_is,
                ..Pair::default()
            },
            within: Within { device: sink.st_dev, gives_lists },
            ends: Arc::new(ends),
            alone: tree.alone,
            weight: tree.w,
            below: Vec::new(),
            levels,
        })
    }

    /// Copies entries as long as there is time; how many.
    fn go_through(&mut self, open: &mut Open, entries: &Entries) -> usize {
        let ends = open.ends.clone();
        let mut lane = Lane::new(&ends.source, &ends.sink, open.within);
        let mut ahead = Ahead::new(&ends.source, entries, entries.len());
        for at in 0..entries.len() {
            if entries.is_file(at) && self.shared.reads_to(open.within) {
                ahead.is_at(at);
            }
            let each = open.weight / entries.len() as f64;
            self.begins();
            if !self.entry(open, &mut lane, (entries, at), each) {
                return at;
            }
            self.breathe();
            if self.is_over() {
                return at + 1;
            }
        }
        entries.len()
    }

    /// Copies an entry, unless it is another's; false where it has to be done again.
    fn entry(
        &mut self,
        open: &mut Open,
        lane: &mut Lane<'_>,
        (entries, at): (&Entries, usize),
        weight: f64,
    ) -> bool {
        let shared = if open.alone { self.alone } else { self.shared };
        let turn = |pair: &mut Pair| pair.turn_to(entries.name(at));
        if entries.is_file(at) && !self.is_long(open, entries.c_name(at)) {
            let quick = lane.copy(shared, entries.c_name(at), || {
                turn(&mut open.pair);
                &open.pair
            });
            if let Quick::Done(done) = quick {
                return done.is_ok() || self.entry_failed(open);
            }
        } else {
            turn(&mut open.pair);
        }
        let stat = match open.pair.source.stat(Follow::No) {
            Ok(stat) => stat,
            // It was there when the directory was read: somebody removed it.
            Err(Errno::NOENT) => return true,
            Err(errno) => {
                let what = format!("cannot stat {}", q(&open.pair.source.shown));
                self.shared.voice.failed(what, errno);
                return self.entry_failed(open);
            }
        };
        self.looked_at(open, &stat, weight)
    }

    fn looked_at(&mut self, open: &mut Open, stat: &Stat, weight: f64) -> bool {
        let path = || Name(joined_below(&open.path.0, &open.pair.source.name));
        if is_directory(stat) {
            let path = path();
            // What is there for the work alone is no part of the source.
            if self.is_own(stat) {
                return true;
            }
            if self.sink_root == Some(identity(stat)) {
                // By another path than its own, such as a bind mount.
                let (from, root) = (q(&open.pair.source.shown), q(&self.process.ground.sink));
                let what = format!("cannot copy a directory, {from}, into itself, {root}");
                self.shared.voice.wrong(what);
                return self.entry_failed(open);
            }
            open.below.push(path);
            return true;
        }
        let several = self.shared.settings.preserve.links && stat.st_nlink > 1;
        if several && !open.alone {
            let (ino, size, mtime) = (stat.st_ino, stat.st_size, super::large::mtime(stat));
            self.answer.links.push(Several { f: path(), ino, size, mtime, w: weight });
            return true;
        }
        let is_regular = kind(stat) == rustix::fs::FileType::RegularFile;
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        if is_regular && size >= self.large_bytes() && self.may_be_cut(open) {
            self.answer.large.push(Large { f: path(), size, w: weight });
            return true;
        }
        let done = copier(self.alone, &open.ends).entry(&mut again(&open.pair));
        if done.is_ok() && !is_regular {
            self.answer.others += 1;
        }
        done.is_ok() || self.entry_failed(open)
    }

    /// From which size on a file is cut into ranges.
    fn large_bytes(&self) -> u64 {
        self.pace.bytes_within(LARGE_TIME, LARGE_BYTES)
    }

    /// Whether a file is cut because of a limit: without one it may be copied before its size is known.
    fn is_long(&self, open: &Open, name: &CStr) -> bool {
        let stat = || rustix::fs::statat(&open.ends.source, name, AtFlags::SYMLINK_NOFOLLOW);
        let large = self.large_bytes();
        large < LARGE_BYTES && stat().is_ok_and(|stat| stat.st_size >= large as i64)
    }

    /// Notes that an entry failed, and whether the others go on.
    fn entry_failed(&mut self, open: &Open) -> bool {
        let name = Name(open.pair.source.name.clone());
        let (d, alone, n) = (open.path.clone(), open.alone, Some(vec![name]));
        let before = self.answer.rest.len();
        self.failed(Item::Tree(Tree { d, n, alone, ..Tree::default() }));
        // Where nothing goes any more, the entry is among the rest that is given back by its caller.
        self.answer.rest.truncate(before);
        self.answer.stop.is_none()
    }

    /// Whether a file can wait in the stage until it is whole, and then have the name: not on another
    /// file system, nor behind a link that stands there.
    fn may_be_cut(&self, open: &Open) -> bool {
        let is_link = |stat: Stat| kind(&stat) == rustix::fs::FileType::Symlink;
        self.shared.stage.is_some_and(|stage| stage.is_on(open.within.device))
            && !open.pair.sink.stat(Follow::No).is_ok_and(is_link)
    }

    /// Whether it is the directory for this work.
    fn is_own(&self, stat: &Stat) -> bool {
        self.own == Some(identity(stat))
    }
}

/// How much of a weight is done, and left.
fn shares(weight: f64, done: usize, all: usize) -> (f64, f64) {
    let done = if all == 0 { weight } else { weight * done as f64 / all as f64 };
    (done, weight - done)
}

fn line(kind: u8, name: &OsStr) -> Vec<u8> {
    [&[kind], name.as_bytes(), b"\0"].concat()
}

pub(super) fn joined_below(path: &OsStr, name: &OsStr) -> std::ffi::OsString {
    if path.is_empty() { name.to_owned() } else { joined(path, name) }
}

/// The same names; nothing is known of the sink any more.
fn again(pair: &Pair) -> Pair {
    let (source, sink) = (pair.source.clone(), pair.sink.clone());
    Pair { source, sink, ..Pair::default() }
}

/// What copies single entries as `cp` does.
fn copier<'a>(shared: &'a crate::cp::shared::Shared<'a>, ends: &Ends) -> Copier<'a> {
    Copier::new(shared, Directory::Held(ends.sink.clone()))
}
