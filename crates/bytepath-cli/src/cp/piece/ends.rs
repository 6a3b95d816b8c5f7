//! What comes before all files and after them: the directory for the work, more names of files, attributes
//! of directories.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::Work;
use super::ground::{self, Ground, LIST_BYTES, LISTS, Side};
use super::words::{Apart, Item, Name};
use crate::cp::level::Target;
use crate::cp::link::{self, Replace};
use crate::cp::pair::{Pair, Sink, SinkIs};
use crate::cp::place::{Follow, same_file};
use crate::cp::told::Done;
use crate::cp::voice::q;

/// Stages that there are: one for files, and one for names.
const STAGES: u32 = 2;

/// How a file or directory is opened that something is mounted on.
const MOUNT: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// Rounds of removing what others still make.
const ROUNDS_MAX: usize = 100;

impl Work<'_> {
    /// Makes the destination, and in it what the work needs.
    pub(super) fn prepared(&mut self, stages: Vec<u32>) {
        let ground = &self.process.ground;
        let made = rustix::fs::stat(&ground.source)
            .map_err(Into::into)
            .and_then(|stat| make(&ground.sink, self.new_mode(&stat)))
            .and_then(|()| Ok(make_run(ground, &stages)?));
        if let Err(error) = made {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            let what = format!("cannot prepare {}", q(&ground.run));
            self.failed_by(Item::Prepare { stages }, what, errno);
        }
    }

    /// Removes a stage with all in it. From then on nobody can replace anything by way of it.
    pub(super) fn fence(&mut self, stage: u32) {
        let ground = &self.process.ground;
        let name = ground::stage(stage);
        if let Err(errno) = remove_from_run(ground, &[&name]) {
            let what = format!("cannot remove {}", q(ground.run.join(name)));
            self.failed_by(Item::Fence { stage }, what, errno);
        }
    }

    pub(super) fn clean(&mut self) {
        let ground = &self.process.ground;
        let names: Vec<_> = (0..STAGES).map(ground::stage).chain([LISTS.into()]).collect();
        let names: Vec<&OsStr> = names.iter().map(|name| &**name).collect();
        let removed = remove_from_run(ground, &names)
            .and_then(|()| remove(ground, CWD, ground.run.as_os_str()));
        if let Err(errno) = removed {
            let what = format!("cannot remove {}", q(&ground.run));
            self.failed_by(Item::Clean, what, errno);
        }
    }

    /// Brings to the device what this machine has written, to file systems too that are mounted below.
    pub(super) fn sync(&mut self) {
        let sink = &self.process.ground.sink;
        let synced =
            std::iter::once(sink.clone()).chain(mounted_below(sink)).try_for_each(|path| {
                match rustix::fs::open(&path, MOUNT, Mode::empty()).and_then(rustix::fs::syncfs) {
                    // It was unmounted meanwhile, for which it was synced, or another hides it.
                    Err(Errno::NOENT | Errno::NOTDIR) if path != *sink => Ok(()),
                    synced => synced.map_err(|errno| (path, errno)),
                }
            });
        if let Err((path, errno)) = synced {
            self.failed_by(Item::Sync, format!("error syncing {}", q(&path)), errno);
        }
    }

    /// Gives files more names.
    pub(super) fn links(&mut self, links: Vec<(Name, Name)>) {
        let mut links = links.into_iter();
        for (file, name) in links.by_ref() {
            match self.link(&file, &name) {
                Ok(Fate::Linked) => self.hand().file_done(),
                Ok(Fate::Gone) => {}
                Ok(Fate::Apart { is_there }) => {
                    let (f, gone) = (file.clone(), !is_there);
                    self.answer.apart.push(Apart { f, name: name.clone(), gone });
                }
                Err(_) => self.failed(Item::Links { links: vec![(file, name)] }),
            }
            self.breathe();
            if self.is_over() {
                break;
            }
        }
        let left: Vec<_> = links.collect();
        if !left.is_empty() {
            self.answer.rest.push(Item::Links { links: left });
        }
    }

    fn link(&self, file: &Name, name: &Name) -> Done<Fate> {
        let voice = self.shared.voice;
        let (_, file_shown) = self.process.ground.shown(&file.0);
        let (_, name_shown) = self.process.ground.shown(&name.0);
        let failed = |errno| {
            let (name, file) = (q(&name_shown), q(&file_shown));
            voice.failed(format!("cannot create hard link {name} to {file}"), errno)
        };
        // Whatever they were when they were found: the source is what it is now.
        let source = |path: &Name| match self.process.ground.places(&path.0) {
            Ok((source, sink)) => match source.stat(Follow::No) {
                Ok(stat) => Ok(Some((stat, sink))),
                Err(Errno::NOENT) => Ok(None),
                Err(errno) => Err(failed(errno)),
            },
            Err((Side::Source, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) => Ok(None),
            Err((_, errno)) => Err(failed(errno)),
        };
        let Some((stat, name)) = source(name)? else { return Ok(Fate::Gone) };
        let file = match source(file)? {
            Some((of_file, file)) if same_file(&of_file, &stat) => file,
            other => return Ok(Fate::Apart { is_there: other.is_some() }),
        };
        match link::hard(&file, Follow::No, &name, Replace::No) {
            Err(Errno::EXIST) => {}
            made => return made.map(|_| Fate::Linked).map_err(failed),
        }
        let inodes = (file.stat(Follow::No), name.stat(Follow::No));
        if let (Ok(file), Ok(name)) = &inodes
            && same_file(file, name)
        {
            return Ok(Fate::Linked);
        }
        let stage = self.shared.stage.ok_or(Errno::NOENT).map_err(failed)?;
        let there = rustix::fs::fstat(&name.directory).map_err(failed)?;
        if !stage.is_on(there.st_dev) {
            let replaced = link::hard(&file, Follow::No, &name, Replace::Yes);
            return replaced.map(|_| Fate::Linked).map_err(failed);
        }
        let staged = stage.new_place();
        link::hard(&file, Follow::No, &staged, Replace::No).map_err(failed)?;
        let renamed = staged.rename_to(&name);
        // Renaming a name over another of the same file leaves both.
        let _ = staged.remove();
        renamed.map(|()| Fate::Linked).map_err(failed)
    }

    /// Notes a directory that is to get its attributes once all is in it.
    pub(super) fn note_attributes(&mut self, path: &Name, stat: &Stat) {
        let preserve = &self.shared.settings.preserve;
        let set = preserve.mode || preserve.default_mode;
        let owned = preserve.timestamps || preserve.ownership;
        let kept = set || owned || preserve.xattr || preserve.context;
        if stat.st_mode & 0o700 != 0o700 {
            self.answer.closed.push(path.clone());
        } else if kept && !path.0.is_empty() {
            // The root gets its own once the directory for the work is gone from it.
            self.directories.extend_from_slice(path.0.as_bytes());
            self.directories.push(0);
        }
    }

    /// Writes down the directories that were noted.
    pub(super) fn list_directories(&mut self) {
        if self.directories.is_empty() {
            return;
        }
        let count = self.directories.iter().filter(|byte| **byte == 0).count() as u64;
        match self.process.ground.write_list(&self.directories) {
            Ok(list) => self.answer.attributes = Some((Name(list), count)),
            // Where there is no room for a list, the names are sent.
            Err(_) => {
                let paths =
                    self.directories.split(|byte| *byte == 0).filter(|path| !path.is_empty());
                let paths = paths.map(|path| Name(OsStr::from_bytes(path).to_owned()));
                self.answer.closed.extend(paths);
            }
        }
    }

    /// Gives the directories of a list their attributes.
    pub(super) fn attributes(&mut self, l: Name, a: u64) {
        let read = self.process.ground.read_list(&l.0, a, None);
        let bytes = match read {
            Ok(bytes) => bytes,
            Err(error) => {
                let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
                return self.failed_by(
                    Item::Attributes { l, a },
                    "cannot read a list".into(),
                    errno,
                );
            }
        };
        let mut at = 0;
        while let Some(length) = memchr::memchr(0, &bytes[at..]) {
            let path = Name(OsStr::from_bytes(&bytes[at..at + length]).to_owned());
            if !path.stays_below() {
                let what = "cannot read a list".into();
                return self.failed_by(
                    Item::Attributes { l, a: a + at as u64 },
                    what,
                    Errno::INVAL,
                );
            }
            at += length + 1;
            if self.directory(&path, None).is_err() {
                self.failed(Item::Closed { dirs: vec![path], new: false });
            }
            self.breathe();
            if self.is_over() {
                break;
            }
        }
        if at < bytes.len() || bytes.len() as u64 >= LIST_BYTES {
            self.answer.rest.push(Item::Attributes { l, a: a + at as u64 });
        }
    }

    pub(super) fn closed(&mut self, paths: &[Name], new: bool) {
        for path in paths {
            // The root is older than the directory for the work, which is gone when it is its turn.
            if self.directory(path, path.0.is_empty().then_some(new)).is_err() {
                self.failed(Item::Closed { dirs: vec![path.clone()], new });
            }
        }
    }

    /// Gives a directory its attributes; whether it is new, where that is known.
    fn directory(&mut self, path: &Name, new: Option<bool>) -> Done {
        let (shown, sink_shown) = self.process.ground.shown(&path.0);
        let (source, open) = match self.both(path) {
            Ok(both) => both,
            // Somebody has removed it, or made something else of it, and there is nothing to keep.
            Err((Side::Source, Errno::NOENT | Errno::NOTDIR | Errno::LOOP)) => return Ok(()),
            Err((side, errno)) => {
                let name = if side == Side::Source { &shown } else { &sink_shown };
                return Err(self.shared.voice.failed(format!("cannot access {}", q(name)), errno));
            }
        };
        let failed = |errno| self.shared.voice.failed(format!("cannot stat {}", q(&shown)), errno);
        let stat = rustix::fs::fstat(&source).map_err(failed)?;
        let there = rustix::fs::fstat(&open).map_err(failed)?;
        let place = |shown: &OsStr| crate::cp::place::Place::operand(shown);
        let (source_place, sink_place) = (place(&shown), place(&sink_shown));
        let pair = Pair {
            source: source_place,
            sink: sink_place,
            sink_is: SinkIs::There,
            ..Pair::default()
        };
        let sink = Sink { is: SinkIs::There, stat: Some(there), ..Sink::new(None) };
        let is_new = new.unwrap_or_else(|| self.is_new(&open));
        // What a new one was given so that it could be filled is taken away.
        let given = !stat.st_mode & 0o700;
        let mode = (is_new && given != 0).then_some(there.st_mode & !given);
        let ends = (&Arc::new(open), &Target::there(&there, mode, is_new));
        self.shared.finish_directory(&pair, &stat, &sink, ends, Some(&source))?;
        self.answer.others += 1;
        Ok(())
    }

    /// Whether a directory was made by this copying: since the directory for the work is there. Where no
    /// file system tells, all may have been.
    fn is_new(&self, open: impl AsFd) -> bool {
        self.is_known_new(open).unwrap_or(true)
    }

    /// The same; None where no file system tells.
    pub(super) fn is_known_new(&self, open: impl AsFd) -> Option<bool> {
        Some(super::born(open)? >= self.began?)
    }

    fn both(
        &self,
        path: &Name,
    ) -> Result<(std::os::fd::OwnedFd, std::os::fd::OwnedFd), (Side, Errno)> {
        let ground = &self.process.ground;
        let source = ground.source_root().and_then(|root| ground::below(root, &path.0));
        let sink = ground.sink_root().and_then(|root| ground::below(root, &path.0));
        Ok((
            source.map_err(|errno| (Side::Source, errno))?,
            sink.map_err(|errno| (Side::Sink, errno))?,
        ))
    }
}

/// Where file systems are mounted below a directory, as far as /proc tells.
fn mounted_below(directory: &Path) -> Vec<PathBuf> {
    let Ok(directory) = directory.canonicalize() else { return Vec::new() };
    let mounts = std::fs::read("/proc/self/mountinfo").unwrap_or_default();
    let mounted = mounts.split(|byte| *byte == b'\n').filter_map(|line| {
        let place = line.split(|byte| *byte == b' ').nth(4)?;
        Some(bytepath::machine::unescaped(place))
    });
    mounted.filter(|place| place.starts_with(&directory) && *place != directory).collect()
}

/// What became of a name that was to be one more of a file.
enum Fate {
    Linked,
    /// That name is gone from the source.
    Gone,
    /// It is another file's there; whether the file's first name is there.
    Apart {
        is_there: bool,
    },
}

/// Makes a directory with these permissions, but for the umask, unless it is there.
fn make(path: &Path, permissions: u32) -> std::io::Result<()> {
    match std::fs::DirBuilder::new().mode(permissions).create(path) {
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// Makes the directory for the work, and what belongs in it, nobody else's.
fn make_run(ground: &Ground, stages: &[u32]) -> Result<(), Errno> {
    let make = |above: BorrowedFd<'_>, name: &OsStr| {
        match rustix::fs::mkdirat(above, name, Mode::RWXU) {
            Err(Errno::EXIST) => {}
            made => made?,
        }
        ground.own(above, name)
    };
    let run = make(CWD, ground.run.as_os_str())?;
    // An earlier version let others in, as far as the umask did. Not all file systems know of that.
    let _ = rustix::fs::fchmod(&run, Mode::RWXU);
    let stages = stages.iter().map(|number| ground::stage(*number));
    stages.chain([LISTS.into()]).try_for_each(|name| make(run.as_fd(), &name).map(drop))
}

/// Removes directories of files from the one for the work, if that is there.
fn remove_from_run(ground: &Ground, names: &[&OsStr]) -> Result<(), Errno> {
    let run = match ground.run_directory() {
        Err(Errno::NOENT) => return Ok(()),
        open => open?,
    };
    names.iter().try_for_each(|name| remove(ground, run.as_fd(), name))
}

/// Removes a directory of files, until nobody makes any more in it.
fn remove(ground: &Ground, above: BorrowedFd<'_>, name: &OsStr) -> Result<(), Errno> {
    for _ in 0..ROUNDS_MAX {
        let open = match ground.own(above, name) {
            Err(Errno::NOENT) => return Ok(()),
            open => open?,
        };
        for entry in Dir::read_from(&open)? {
            let entry = entry?;
            if matches!(entry.file_name().to_bytes(), b"." | b"..") {
                continue;
            }
            match rustix::fs::unlinkat(&open, entry.file_name(), AtFlags::empty()) {
                Err(Errno::NOENT) => {}
                removed => removed?,
            }
        }
        match rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR) {
            Err(Errno::NOTEMPTY) => {}
            Err(Errno::NOENT) => return Ok(()),
            removed => return removed,
        }
    }
    Err(Errno::NOTEMPTY)
}
