//! The operands: what is copied, into what, and under which names.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};
use std::thread::available_parallelism;

use bytepath::placement::leave_cpu;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use rustix::thread::{sched_getaffinity, sched_getcpu, sched_yield};

use super::attributes::may_give_lists;
use super::backup;
use super::copier::Copier;
use super::crew::{self, Crew, Folder, Hall};
use super::entries::{Entries, FILES_TOGETHER};
use super::holes::data_bytes;
use super::large::is_large;
use super::leftovers;
use super::options::{Options, WRONG_USAGE};
use super::pair::{Known, Pair, SinkIs, Within};
use super::parents::Parents;
use super::place::{Directory, Follow, Place, joined, kind, last_component, without_slashes};
use super::progress;
use super::quick;
use super::settings::{Backup, Settings};
use super::shared::Shared;
use super::tally::{Holes, Tally};
use super::told::{Done, Told};
use super::turns;
use super::voice::{Voice, q};
use crate::closed;
use crate::device;
use crate::metrics;

/// Begins what goes on beside the copying, before anything is looked at.
pub(super) fn begin(settings: &Settings, options: &Options) {
    if options.extras.takes_long() && jobs(settings, options).is_some() {
        crew::make_room();
    }
    // While it is read, files that another thread makes would go without.
    umask();
    options.extras.metrics.begin("cp");
}

/// Copies all operands, and says and writes how it went.
pub(super) fn copy(settings: &Settings, options: &Options, voice: &Voice<'_>) -> ExitCode {
    let copied = copy_all(settings, options, voice);
    voice.tell_limit();
    let written = voice.ledger.close(u8::from(copied.is_err()));
    let mut code = copied.err();
    for error in written.into_iter().filter_map(Result::err) {
        voice.called.say(format_args!("{error:#}"));
        code = Some(ExitCode::FAILURE);
    }
    code.unwrap_or(ExitCode::SUCCESS)
}

/// Copies all operands; how to end where that failed.
fn copy_all(settings: &Settings, options: &Options, voice: &Voice<'_>) -> Result<(), ExitCode> {
    let (plan, extras) = (&options.plan, &options.extras);
    let jobs = jobs(settings, options);
    let tally = Arc::new(Tally::for_threads(jobs.unwrap_or(1)));
    let hand = &tally.hands[0];
    let (umask, stage, watch) = (umask(), None, None);
    let shared = Shared { settings, plan, extras, tally: &tally, hand, voice, umask, stage, watch };
    let target = target(settings, &options.files, voice)?;
    let (sources, holes) = match &target {
        Target::Directory { sources, .. } => (&options.files[..*sources], Holes::Kept),
        Target::File(_) => {
            (&options.files[..1], holes(options.files.last().filter(|_| shared.is_counted())))
        }
    };
    let work = |shared: &Shared<'_>| with_crew(shared, jobs, &options.files, target);
    metrics::measured_by({
        let (tally, durable) = (tally.clone(), extras.is_durable());
        move || tally.figures(durable)
    });
    progress::watched(&shared, (sources, holes), work);
    voice.tell_deaf();
    match voice.flush() {
        Some(errno) => Err(voice.called.write_failed(errno)),
        None if voice.has_failed() => Err(ExitCode::FAILURE),
        None => {
            tally.total.done.store(true, Relaxed);
            Ok(())
        }
    }
}

/// What becomes of holes in a copy by this name: what is no file has none.
fn holes(name: Option<&OsString>) -> Holes {
    let there = name.and_then(|name| rustix::fs::stat(name).ok());
    let is_file = |stat| matches!(kind(&stat), FileType::RegularFile | FileType::Directory);
    if there.is_none_or(is_file) { Holes::Kept } else { Holes::Written }
}

/// The bits that new files do not get. They can only be read by setting them.
pub(super) fn umask() -> u32 {
    static UMASK: OnceLock<u32> = OnceLock::new();
    *UMASK.get_or_init(|| {
        let mask = rustix::process::umask(Mode::empty());
        rustix::process::umask(mask);
        mask.as_raw_mode()
    })
}

/// Where the sources go.
enum Target {
    /// Into this directory, all of them.
    Directory { name: OsString, open: OwnedFd, sources: usize },
    /// The first to the second, of which it may be known that it is not there.
    File(SinkIs),
}

/// Finds out where the sources go, or how to end at once.
fn target(settings: &Settings, files: &[OsString], voice: &Voice<'_>) -> Result<Target, ExitCode> {
    let plain = |what: String| {
        voice.wrong(what);
        ExitCode::from(WRONG_USAGE)
    };
    let failed = |what: String, errno| {
        voice.failed(what, errno);
        ExitCode::from(WRONG_USAGE)
    };
    match (files, &settings.target_directory) {
        ([], _) => return Err(voice.misused("missing file operand")),
        ([one], None) => {
            return Err(
                voice.misused(&format!("missing destination file operand after {}", q(one)))
            );
        }
        _ => {}
    }
    match (settings.no_target_directory, &settings.target_directory) {
        (true, Some(_)) => Err(plain(
            "cannot combine --target-directory (-t) and --no-target-directory (-T)".into(),
        )),
        (true, None) if files.len() > 2 => {
            Err(voice.misused(&format!("extra operand {}", q(&files[2]))))
        }
        (true, None) => Ok(Target::File(SinkIs::Unknown)),
        (false, Some(name)) => match open_directory(name) {
            Ok(open) => Ok(Target::Directory { name: name.clone(), open, sources: files.len() }),
            Err(errno) => Err(failed(format!("target directory {}", q(name)), errno)),
        },
        (false, None) => {
            let (name, sources) = (&files[files.len() - 1], files.len() - 1);
            match open_directory(name) {
                Ok(open) => Ok(Target::Directory { name: name.clone(), open, sources }),
                Err(errno) if sources > 1 => Err(failed(format!("target {}", q(name)), errno)),
                Err(Errno::NOENT) => Ok(Target::File(SinkIs::Absent)),
                Err(_) => Ok(Target::File(SinkIs::Unknown)),
            }
        }
    }
}

fn open_directory(name: &OsStr) -> Result<OwnedFd, Errno> {
    closed::check(name)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    match rustix::fs::openat(CWD, name, flags, Mode::empty()) {
        Err(Errno::NAMETOOLONG) => {
            let place = Place::operand(name).shortened();
            rustix::fs::openat(&place.directory, &place.name, flags, Mode::empty())
        }
        answer => answer,
    }
}

/// How many threads copy the files of trees, or those that are named, where files are copied many at a
/// time: also by one thread, which has less to do so.
fn jobs(settings: &Settings, options: &Options) -> Option<usize> {
    /// What so many batches and directories may keep open.
    const FILES_MIN: u64 = 512;
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let many = settings.recursive || options.files.len() > 2;
    let shared_out = many
        && quick::is_possible(settings)
        && !options.plan.explain_plan
        && !options.extras.one_by_one()
        && files >= FILES_MIN;
    let asked = options.extras.jobs.map(usize::from);
    shared_out.then(|| asked.unwrap_or_else(cpus))
}

/// How many CPUs this process may be on.
fn cpus() -> usize {
    match sched_getaffinity(None) {
        Ok(cpus) => cpus.count() as usize,
        // There are more than a set has room for.
        Err(_) => available_parallelism().map_or(1, usize::from),
    }
}

/// Copies with other threads beside this one, as far as there are to be any.
fn with_crew(shared: &Shared<'_>, jobs: Option<usize>, files: &[OsString], target: Target) {
    let Some(jobs) = jobs else {
        return copy_to(shared, None, files, target);
    };
    let hall = &Hall::default();
    std::thread::scope(|scope| {
        let begin = || {
            crew::make_room();
            let here = sched_getcpu();
            // A group of processes may be granted less than all of the CPUs.
            let granted = match shared.extras.jobs {
                Some(_) => jobs,
                None => available_parallelism().map_or(jobs, usize::from),
            };
            for hand in shared.tally.hands[1..].iter().take(granted.saturating_sub(1)) {
                let work = move || {
                    leave_cpu(here);
                    // What they would begin would have their open files.
                    hall.work(&Shared { hand, watch: None, ..*shared });
                };
                shared.tally.begins();
                // Without memory for a thread, those that there are do its work.
                if std::thread::Builder::new().spawn_scoped(scope, work).is_err() {
                    shared.tally.rests();
                }
            }
            // To those that are here.
            sched_yield();
        };
        let begin_scout = || {
            // Without memory for a thread, inodes are waited for as before.
            let _ = std::thread::Builder::new().spawn_scoped(scope, || hall.scout());
        };
        let crew = Crew::new(jobs - 1, hall, &begin, &begin_scout);
        copy_to(shared, Some(&crew), files, target);
        hall.close();
    });
}

fn copy_to(shared: &Shared<'_>, crew: Option<&Crew<'_>>, files: &[OsString], target: Target) {
    let (base, within, name, sources, sink_is) = match target {
        Target::Directory { name, open, sources } => {
            let within = within(shared, &open);
            (Directory::Held(Arc::new(open)), within, Some(name), sources, SinkIs::Unknown)
        }
        Target::File(sink_is) => (Directory::Working, None, None, 1, sink_is),
    };
    // Neither what was given twice nor what was made for another has a name that differs.
    let distinct = has_distinct_names(&files[..sources]);
    let mut copier = Copier { within, tracks: !distinct, crew, ..Copier::new(shared, base) };
    match name {
        Some(name) => copier.copy_all_into(&files[..sources], &name, distinct),
        None => copier.copy_one_to(&files[0], &files[1], sink_is),
    }
    // The end of the process gives its memory back at once.
    std::mem::forget(copier.seen);
}

/// The directory of operands that are copied together.
struct Origin {
    /// As they name it, without the slash; nothing where they do not.
    name: OsString,
    open: Arc<OwnedFd>,
}

/// A path as its directory and its last component, where one slash or none is between them.
fn directory_and_name(path: &OsStr) -> Option<(&OsStr, &OsStr)> {
    let bytes = path.as_bytes();
    let (directory, name) = match bytes.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&bytes[..slash], &bytes[slash + 1..]),
        None => (&[][..], bytes),
    };
    let is_plain = !matches!(name, b"" | b"." | b"..");
    let is_root = directory.is_empty() && name.len() < bytes.len();
    let parts = (OsStr::from_bytes(directory), OsStr::from_bytes(name));
    (is_plain && !is_root && !directory.ends_with(b"/")).then_some(parts)
}

/// Whether no two operands have the same last component.
fn has_distinct_names(sources: &[OsString]) -> bool {
    let mut names = BTreeSet::new();
    sources.iter().all(|source| names.insert(without_slashes(last_component(source))))
}

/// What is known of the directory that operands are copied into, which is open for looking names up.
fn within(shared: &Shared<'_>, open: &OwnedFd) -> Option<Within> {
    let device = rustix::fs::fstat(open).ok()?.st_dev;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let gives_lists = !shared.settings.preserve.mode
        || rustix::fs::openat(open, ".", flags, Mode::empty()).map_or(true, may_give_lists);
    Some(Within { device, gives_lists })
}

impl Copier<'_> {
    fn copy_all_into(&mut self, sources: &[OsString], target: &OsStr, distinct: bool) {
        let settings = self.shared.settings;
        let several = sources.len() > 1;
        let may_be_together =
            distinct && several && !settings.parents && quick::only_adds(settings);
        let (mut next, mut alone, mut together, mut origin) = (0, 0, false, None);
        while next < sources.len() {
            if may_be_together && next >= alone {
                match self.put_off_operands(&sources[next..], target, &mut origin) {
                    Ok(files) => {
                        (next, together) = (next + files, true);
                        continue;
                    }
                    Err(files) => alone = next + files,
                }
            }
            let source = &sources[next];
            next += 1;
            self.do_now();
            let source = match self.shared.settings.strip_slashes {
                true => without_slashes(source),
                false => source,
            };
            let done = match self.shared.settings.parents {
                true => self.with_parents(source, target),
                false => {
                    let last = without_slashes(last_component(source));
                    // The directory above is copied into the target, not beside it.
                    let last = if last == ".." { OsStr::new(".") } else { last };
                    let sink = self.below_base(target, last);
                    self.operand(source, sink, SinkIs::Unknown)
                }
            };
            self.shared.voice.note(done);
        }
        self.do_now();
        if together && self.shared.extras.fsync {
            let any = self.below_base(target, OsStr::new("."));
            let done = self.sync_folder(&any);
            self.shared.voice.note(done);
        }
        // What the last of them said is said.
        self.stand_at(turns::now().turn.next_operand());
    }

    /// Has the first of these operands copied, now or soon, as far as they are files of one directory, which
    /// is then held open, that are not in the target yet; how many. Where those are too few it is how many
    /// are to be copied one by one.
    fn put_off_operands(
        &mut self,
        sources: &[OsString],
        target: &OsStr,
        origin: &mut Option<Origin>,
    ) -> Result<usize, usize> {
        let first = sources.first().and_then(|source| directory_and_name(source));
        let Some((directory, _)) = first.filter(|_| self.puts_off()) else { return Err(0) };
        let (Some(within), Directory::Held(sink)) = (self.within, &self.base) else {
            return Err(0);
        };
        if origin.as_ref().is_none_or(|origin| origin.name != directory) {
            let path = if directory.is_empty() { OsStr::new(".") } else { directory };
            let open = open_directory(path).map_err(|_| 0_usize)?;
            *origin = Some(Origin { name: directory.to_owned(), open: Arc::new(open) });
        }
        let Some(origin) = origin else { return Err(0) };
        let (names, bytes): (Vec<&OsStr>, Vec<i64>) = sources
            .iter()
            .take(FILES_TOGETHER)
            .map_while(|source| directory_and_name(source))
            .map_while(|(directory, name)| match *directory == origin.name {
                true => Some((name, self.bytes_to_put_off(name, &origin.open, sink)?)),
                false => None,
            })
            .unzip();
        let are_large = names.len() > 1 && bytes.iter().sum::<i64>() > crew::BYTES_ALONE as i64;
        if names.len() < crew::FILES_PART && !are_large {
            return Err(names.len());
        }
        let before = joined(target, names[0]).len() - names[0].len();
        let place = |shown: &OsStr, base_bytes| Place {
            shown: shown.to_owned(),
            base_bytes,
            ..Place::default()
        };
        let (source, sink_place) = (place(&origin.name, 0), place(target, before));
        let turn = turns::now().turn.next_operand();
        let folder = Folder {
            pair: Arc::new(Pair { source, sink: sink_place, ..Pair::default() }),
            source: origin.open.clone(),
            sink: sink.clone(),
            within,
            sink_is: SinkIs::Unknown,
            entries: Arc::new(Entries::of_files(names.iter().copied())),
            way: turn.inside(),
            argument: true,
        };
        self.stand_at(turn);
        match are_large {
            true => self.put_off_large_files(&Arc::new(folder), 0..names.len()),
            false => self.put_off_files(&Arc::new(folder), 0..names.len()),
        }
        Ok(names.len())
    }

    /// How many bytes this has, if it is a file, none that takes long or may have been copied under another
    /// name, and nothing has its name in the target.
    fn bytes_to_put_off(&self, name: &OsStr, source: &OwnedFd, sink: &OwnedFd) -> Option<i64> {
        let links = self.shared.settings.preserve.links;
        let stat = |at: &OwnedFd| rustix::fs::statat(at, name, AtFlags::SYMLINK_NOFOLLOW);
        let there = stat(source).ok().filter(|stat| {
            kind(stat) == FileType::RegularFile
                && !is_large(stat.st_size, sink)
                && !(links && stat.st_nlink > 1)
        })?;
        stat(sink).is_err_and(|errno| errno == Errno::NOENT).then(|| data_bytes(&there))
    }

    /// The place of this path in the directory that the operands are copied into.
    fn below_base(&self, target: &OsStr, path: &OsStr) -> Place {
        let shown = joined(target, path);
        let slashes = path.as_bytes().iter().take_while(|byte| **byte == b'/').count();
        let name = OsStr::from_bytes(&path.as_bytes()[slashes..]).to_owned();
        let base_bytes = shown.len() - name.len();
        Place { directory: self.base.clone(), name, shown, base_bytes }
    }

    /// Copies a source under its whole name, the directories of which are made.
    fn with_parents(&mut self, source: &OsStr, target: &OsStr) -> Done {
        let path = without_slashes(source);
        let sink = self.below_base(target, path);
        let mut parents = Parents::default();
        let is_new = parents.make(self.shared, path, &sink)?;
        let sink_is = if is_new { SinkIs::New } else { SinkIs::Unknown };
        let done = self.operand(source, sink, sink_is);
        let done = parents.protect(self.shared).and(done);
        if !self.shared.extras.fsync {
            return done;
        }
        parents.made_here().try_for_each(|made| self.sync_folder(made)).and(done)
    }

    fn copy_one_to(&mut self, source: &OsStr, name: &OsStr, sink_is: SinkIs) {
        let settings = self.shared.settings;
        if settings.parents {
            self.shared.voice.misused("with --parents, the destination must be a directory");
            return self.shared.voice.note(Err(Told));
        }
        let mut sink = Place::operand(name).shortened();
        // A backup of a file that is copied to itself is a copy under the backup's name.
        let itself = settings.force && settings.backup != Backup::None && source == name;
        let is_file = |sink: &Place| {
            sink.stat(Follow::Yes).is_ok_and(|stat| kind(&stat) == FileType::RegularFile)
        };
        if itself && is_file(&sink) {
            sink = sink.renamed(backup::name(&sink, settings));
            let settings = Settings { backup: Backup::None, ..settings.clone() };
            let shared = Shared { settings: &settings, ..*self.shared };
            let other = Copier::new(&shared, self.base.clone());
            let mut copier = Copier { tracks: self.tracks, ..other };
            let done = copier.operand(source, sink, SinkIs::Unknown);
            return shared.voice.note(done);
        }
        let done = self.operand(source, sink, sink_is);
        self.shared.voice.note(done);
    }

    fn operand(&mut self, source: &OsStr, sink: Place, sink_is: SinkIs) -> Done {
        (self.first_made, self.met_itself) = (false, false);
        let turn = turns::now().turn.next_operand();
        self.stand_at(turn.clone());
        let (source, sink) = (Place::operand(source).shortened(), sink.shortened());
        if self.shared.extras.resume {
            leftovers::sweep_beside(&sink, self.shared.extras);
        }
        let folder = self.shared.extras.fsync.then(|| sink.clone());
        // Below it there may be others.
        let within = self.within.filter(|_| !self.shared.settings.parents);
        let known = Known { within, ..Known::default() };
        let mut pair = Pair { source, sink, sink_is, argument: true, known, open: None };
        let done = self.entry(&mut pair);
        self.do_now();
        self.stand_at(turn.inside().end());
        match folder {
            Some(sink) => self.sync_folder(&sink).and(done),
            None => done,
        }
    }

    /// Brings the directory that names a copy to the device.
    fn sync_folder(&self, sink: &Place) -> Done {
        // What may be written and not read cannot be synced by itself.
        match sink.open_folder(OFlags::RDONLY).and_then(device::settle_all) {
            Err(Errno::ACCESS | Errno::NOENT | Errno::NOTDIR) | Ok(()) => Ok(()),
            Err(errno) => Err(self.shared.voice.folder_not_synced(&sink.shown, errno)),
        }
    }
}
