//! Large files, cut into ranges: a file is made in the stage, several processes fill it, and one gives it
//! its attributes and its name. Ranges can only ever be written with the bytes that belong there.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::time::Duration;

use rustix::fs::{Advice, FileType, OFlags, Stat};
use rustix::io::Errno;

use super::Work;
use super::ground::Side;
use super::words::{Again, Begun, Item, Moved, Name, Staged};
use crate::cp::atomic;
use crate::cp::attributes::Subject;
use crate::cp::copy::Copy;
use crate::cp::data::{Data, SinkEnd};
use crate::cp::hand::Other;
use crate::cp::pair::Pair;
use crate::cp::place::{Follow, Place, is_directory, kind};
use crate::cp::settings::Reflink;
use crate::cp::told::{Done, Told};
use crate::cp::voice::q;
use crate::device;

/// Bytes copied between two looks at the clock.
const STEP_BYTES: u64 = 16 << 20;

/// As many at most as a limit lets through in this time.
const STEP_TIME: Duration = Duration::from_millis(500);

/// How names of files end whose blocks are all shared, and which are yet to be compared.
const WHOLE_END: &str = "-whole";

impl Work<'_> {
    /// Makes the file that ranges are copied to; where blocks can be shared, it is whole at once.
    pub(super) fn begin(&mut self, f: Name, k: u64, w: f64) {
        let before = self.bytes_before;
        match self.begun(&f, k) {
            Ok(begun) => {
                self.begins();
                self.moved(k, before);
                self.answer.w += if begun.cloned { w } else { 0.0 };
                self.answer.begun.push(begun);
            }
            Err(_) if self.is_another(&f, None) => self.again(k, None, w),
            Err(_) => self.failed(Item::Begin { f, k, w }),
        }
    }

    /// Notes what counts of a large file, behind so many bytes before.
    fn moved(&mut self, k: u64, before: u64) {
        self.answer.moved.push(Moved { k, bytes: self.bytes_before - before });
    }

    /// Whether a large file was removed since it was found, or is by now another than the one that was begun, or
    /// shorter than so many bytes of it; or its copy is gone.
    fn is_another(&self, f: &Name, begun: Option<(&Staged, u64)>) -> bool {
        match self.process.ground.places(&f.0) {
            Ok((source, sink)) => match source.stat(Follow::No) {
                Ok(stat) => {
                    let is_begun =
                        |(of, size)| is_still(&stat, of, size) && !self.is_lost(of, &sink);
                    !is_regular(&stat) || begun.is_some_and(|begun| !is_begun(begun))
                }
                Err(errno) => errno == Errno::NOENT && self.has_a_source(),
            },
            Err((Side::Source, Errno::NOENT)) => self.has_a_source(),
            Err((side, errno)) => {
                side == Side::Source && matches!(errno, Errno::NOTDIR | Errno::LOOP)
            }
        }
    }

    /// Whether what was begun is gone from the stage, and did not get its name: a crash of its file system
    /// takes what nobody had brought to the device.
    fn is_lost(&self, of: &Staged, sink: &Place) -> bool {
        let staged = self.shared.stage.map(|stage| stage.place(&of.s.0).stat(Follow::No));
        let is_gone = matches!(staged, Some(Err(Errno::NOENT))) && !self.is_late();
        is_gone && has_its_name(of, sink) == Err(Errno::NOENT)
    }

    /// Whether there is anything in the source: where it is not mounted any more, nothing in it was removed.
    fn has_a_source(&self) -> bool {
        let root = self.process.ground.source_root().and_then(rustix::fs::Dir::new);
        let names = root.into_iter().flatten().filter_map(Result::ok);
        names.into_iter().any(|entry| !matches!(entry.file_name().to_bytes(), b"." | b".."))
    }

    /// Has the name looked at anew, as if the file had not been found; that is no failure.
    fn again(&mut self, k: u64, staged: Option<&Name>, w: f64) {
        // Nobody gives it its name any more, and its room is wanted.
        if let (Some(stage), Some(staged)) = (self.shared.stage, staged) {
            let _ = stage.place(&staged.0).remove();
        }
        let _ = self.shared.voice.take_gathered();
        self.was_in_vain();
        self.answer.again.push(Again { k, w });
    }

    fn begun(&self, f: &Name, k: u64) -> Done<Begun> {
        let (pair, stat) = self.large(f)?;
        let (source, stat) = self.shared.open_source(&pair, &stat)?;
        if !is_regular(&stat) {
            return Err(self.was_changed(&pair));
        }
        if pair.sink.stat(Follow::No).is_ok_and(|there| is_directory(&there)) {
            // Before all of it is copied for nothing.
            let to = q(&pair.sink.shown);
            let what = format!("cannot overwrite directory {to} with non-directory");
            return Err(self.shared.voice.wrong(what));
        }
        let staged = self.staged(&self.process.ground.new_large(k), &pair)?;
        let said =
            |errno| self.shared.voice.failed(format!("cannot write {}", q(&staged.shown)), errno);
        // Of this beginning alone: one that comes late spoils no file that is whole meanwhile.
        let sink = atomic::make_named(&pair.sink, staged.clone()).map_err(said)?;
        let shares = self.shared.settings.reflink != Reflink::Never;
        let sink_stat = rustix::fs::fstat(&sink).map_err(said)?;
        let ends = (&stat, SinkEnd::of(&sink_stat));
        let mut data = Data::new(self.shared, source.as_fd(), sink.as_fd(), ends);
        let shared = if shares { data.reflink() } else { Err(Errno::OPNOTSUPP) };
        let cloned = match shared {
            Ok(()) => true,
            Err(errno) if self.shared.settings.reflink == Reflink::Always => {
                let (to, from) = (q(&pair.sink.shown), q(&pair.source.shown));
                let told =
                    self.shared.voice.failed(format!("failed to clone {to} from {from}"), errno);
                // Nobody else is to find it.
                let _ = staged.remove();
                return Err(told);
            }
            Err(_) => false,
        };
        let size = bytes(&stat);
        match cloned {
            true => self.shared.hand.add(Other::Reflink, data.data_bytes()),
            false => rustix::fs::ftruncate(&sink, size).map_err(said)?,
        }
        let compared = cloned && self.shared.extras.verify;
        // Where it is compared, its ranges are not copied, but compared, by whoever has time.
        let last = Place { name: last_name(&staged.name, &sink_stat, compared), ..staged.clone() };
        staged.rename_to(&last).map_err(said)?;
        let s = Name(last.name);
        let (ino, mtime) = (stat.st_ino, mtime(&stat));
        Ok(Begun { k, s, cloned: cloned && !compared, ino, size, mtime })
    }

    /// Copies a part of a file.
    pub(super) fn range(&mut self, of: Staged, (a, z): (u64, u64), w: f64) {
        let (mut at, before) = (a, self.bytes_before);
        let done = self.ranged(&of, (&mut at, z));
        // Also where it failed: it goes on from there once there is room. After any other failure all of the
        // file is copied anew, and none of this counts.
        self.moved(of.k, before);
        match done {
            Ok(()) => {
                let left = if z > a { (z - at) as f64 / (z - a) as f64 } else { 0.0 };
                self.answer.w += w * (1.0 - left);
                if at < z && !self.answer.fenced {
                    self.answer.rest.push(Item::Range { of, a: at, z, w: w * left });
                }
            }
            Err(_) if self.is_another(&of.f, Some((&of, z))) => self.again(of.k, Some(&of.s), w),
            Err(_) => self.failed(Item::Range { of, a: at, z, w }),
        }
    }

    fn ranged(&mut self, of: &Staged, (at, z): (&mut u64, u64)) -> Done {
        let began = (*at, self.bytes_before);
        let (pair, source, stat) = self.still(of, z)?;
        let staged = self.staged(&of.s, &pair)?;
        let said =
            |errno| self.shared.voice.failed(format!("cannot write {}", q(&staged.shown)), errno);
        let sink = match staged.open(OFlags::RDWR | OFlags::NOFOLLOW, 0) {
            // Another was faster, and the file has its name.
            Err(Errno::NOENT) => {
                *at = z;
                return self.is_ended(of, &pair);
            }
            opened => opened.map_err(said)?,
        };
        let copied = self.copy_steps(&of.s, (&pair, &source, &stat), &sink, (at, z));
        let synced = match self.shared.extras.fsync {
            // Also of what was copied before it failed: another may go on from there.
            true => self.shared.sync(&sink, &pair),
            false => Ok(()),
        };
        if synced.is_err() {
            // The kernel says so once: to sync it again would bring nothing of this to the device.
            (*at, self.bytes_before) = began;
        }
        copied.and(synced)?;
        // Another may have ended the file meanwhile. The bytes are the same; its time would not be.
        match staged.stat(Follow::No) {
            Err(Errno::NOENT) => self.set_times_back(&pair, &sink, &stat),
            _ => Ok(()),
        }
    }

    /// Copies step by step, as long as there is time.
    fn copy_steps(
        &mut self,
        name: &Name,
        (pair, source, stat): (&Pair, &OwnedFd, &Stat),
        sink: &OwnedFd,
        (at, z): (&mut u64, u64),
    ) -> Done {
        let (from, to) = (&pair.source.shown, &pair.sink.shown);
        let failed = |errno| self.shared.voice.failed(format!("cannot write {}", q(to)), errno);
        let sink_stat = rustix::fs::fstat(sink).map_err(failed)?;
        while *at < z {
            let end = z.min(*at + self.pace.bytes_within(STEP_TIME, STEP_BYTES));
            let ends = (stat, SinkEnd::of(&sink_stat));
            let mut data = Data::new(self.shared, source.as_fd(), sink.as_fd(), ends);
            let said = |fault: crate::cp::data::Fault| {
                self.shared.voice.wrong_by(fault.said(from, to), fault.errno())
            };
            if !is_whole(&name.0) {
                data.copy_range(*at, end).map_err(said)?;
            }
            if self.shared.extras.verify {
                self.compare(pair, (source, sink), (*at, end))?;
            }
            *at = end;
            self.begins();
            self.breathe();
            if self.is_over() {
                break;
            }
        }
        Ok(())
    }

    fn set_times_back(&self, pair: &Pair, sink: &OwnedFd, stat: &Stat) -> Done {
        let subject = Subject::new(&pair.sink, Some(sink.as_fd()));
        match self.shared.settings.preserve.timestamps {
            true => self.shared.keep_times(&subject, stat),
            false => Ok(()),
        }
    }

    /// Reads a range of source and copy again, the copy from the device where it can be.
    fn compare(
        &self,
        pair: &Pair,
        (source, sink): (&OwnedFd, &OwnedFd),
        (a, z): (u64, u64),
    ) -> Done {
        let (from, to) = (q(&pair.source.shown), q(&pair.sink.shown));
        let failed = |what: String| move |errno| self.shared.voice.failed(what, errno);
        device::settle(sink).map_err(failed(format!("error syncing {to}")))?;
        // Where dropping is refused, the copy in memory is all there is.
        let _ = rustix::fs::fadvise(sink, a, std::num::NonZeroU64::new(z - a), Advice::DontNeed);
        self.shared
            .told_apart((&from, &to), self.shared.differ_at(source.as_fd(), sink.as_fd(), a..z))
    }

    /// Gives a file whose ranges are copied its attributes and its name.
    pub(super) fn end(&mut self, of: Staged, size: u64, w: f64) {
        match self.ended(&of, size) {
            Ok(()) => {
                self.hand().file_done();
                self.answer.w += w;
            }
            Err(_) if self.is_another(&of.f, Some((&of, size))) => self.again(of.k, Some(&of.s), w),
            Err(_) => self.failed(Item::End { of, size, w }),
        }
    }

    fn ended(&self, of: &Staged, size: u64) -> Done {
        let voice = self.shared.voice;
        let (pair, source, stat) = self.still(of, size)?;
        let staged = self.staged(&of.s, &pair)?;
        let failed = |errno| {
            voice.failed(format!("cannot create regular file {}", q(&pair.sink.shown)), errno)
        };
        let sink = match staged.open(OFlags::RDWR | OFlags::NOFOLLOW, 0) {
            // Another was faster: it has its name.
            Err(Errno::NOENT) => return self.is_ended(of, &pair),
            opened => opened.map_err(failed)?,
        };
        // What it replaces lends it owner and mode, as a file that is copied over keeps its own.
        let there = pair.sink.stat(Follow::No).ok().filter(is_regular);
        let omitted = if there.is_some() { 0 } else { self.shared.omitted(&stat) };
        let mode = stat.st_mode & 0o777 & !omitted;
        match &there {
            Some(there) => {
                let replaced = (&Subject::new(&pair.sink, None), there);
                atomic::be_like(&sink, replaced, &self.shared.settings.preserve)
            }
            None => atomic::be_like_new(&sink, &pair.sink, mode),
        }
        .map_err(failed)?;
        let copy = Copy::new(sink, there.is_none(), omitted, None);
        self.alone.keep_attributes(&pair, &stat, &source, &copy)?;
        if self.shared.extras.fsync {
            self.shared.sync(&copy.open, &pair)?;
        }
        match staged.rename_to(&pair.sink) {
            Err(Errno::NOENT) => self.is_ended(of, &pair),
            // Who wrote a range once more until now, and found the file not ended yet, left its time to this.
            renamed => {
                renamed.map_err(failed).and_then(|()| self.set_times_back(&pair, &copy.open, &stat))
            }
        }
    }

    /// Opens a source that was begun, unless it is not what it was. One that grew meanwhile, or was written to, is
    /// copied as it is read, with the time that it had before, as by `cp`: not one that another run began.
    fn still(&self, of: &Staged, size: u64) -> Done<(Pair, OwnedFd, Stat)> {
        let (pair, stat) = self.large(&of.f)?;
        let (source, mut stat) = self.shared.open_source(&pair, &stat)?;
        if !is_still(&stat, of, size) {
            return Err(self.was_changed(&pair));
        }
        if mtime(&stat) != of.mtime {
            stat.st_mtime = of.mtime.div_euclid(1_000_000_000);
            stat.st_mtime_nsec = of.mtime.rem_euclid(1_000_000_000) as _;
        }
        Ok((pair, source, stat))
    }

    fn was_changed(&self, pair: &Pair) -> Told {
        let name = q(&pair.source.shown);
        self.shared.voice.wrong(format!("{name} was changed while it was copied; copy it again"))
    }

    /// Sees that a file that is gone from the stage has its name already.
    fn is_ended(&self, of: &Staged, pair: &Pair) -> Done {
        has_its_name(of, &pair.sink).map_err(|errno| {
            let what = format!("cannot find what was copied to {}", q(&pair.sink.shown));
            self.shared.voice.failed(what, errno)
        })
    }

    fn large(&self, f: &Name) -> Done<(Pair, Stat)> {
        let voice = self.shared.voice;
        let (from, _) = self.process.ground.shown(&f.0);
        let what = || format!("cannot stat {}", q(&from));
        let places = self.process.ground.places(&f.0);
        let (source, sink) = places.map_err(|(_, errno)| voice.failed(what(), errno))?;
        let stat = source.stat(Follow::No).map_err(|errno| voice.failed(what(), errno))?;
        Ok((Pair { source, sink, ..Pair::default() }, stat))
    }

    /// Where the file waits until it is whole.
    fn staged(&self, s: &Name, pair: &Pair) -> Done<Place> {
        match self.shared.stage {
            Some(stage) => Ok(Place { shown: pair.sink.shown.clone(), ..stage.place(&s.0) }),
            None => Err(self.shared.voice.failed("the stage is gone", Errno::NOENT)),
        }
    }
}

/// What a file is called in the stage from its beginning on: with its inode, by which it is known once it has its
/// name, and whether its blocks are all shared, and yet to be compared.
fn last_name(name: &OsStr, stat: &Stat, compared: bool) -> OsString {
    let end = if compared { WHOLE_END } else { "" };
    let mut last = name.to_owned();
    last.push(format!("-{}{end}", stat.st_ino));
    last
}

/// Looks whether what was begun has its name; ENOENT where that is another's, or nobody's.
fn has_its_name(of: &Staged, sink: &Place) -> Result<(), Errno> {
    let name = of.s.0.to_str().unwrap_or_default();
    let inode =
        name.trim_end_matches(WHOLE_END).rsplit('-').next().and_then(|last| last.parse().ok());
    let there = sink.stat(Follow::No)?;
    (Some(there.st_ino) == inode).then_some(()).ok_or(Errno::NOENT)
}

fn is_whole(name: &OsStr) -> bool {
    name.as_bytes().ends_with(WHOLE_END.as_bytes())
}

/// Whether it is this file, and has so many bytes yet; and is as it was, if another run began it.
fn is_still(stat: &Stat, of: &Staged, size: u64) -> bool {
    stat.st_ino == of.ino && bytes(stat) >= size && !(of.earlier && mtime(stat) != of.mtime)
}

fn bytes(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or(0)
}

/// In nanoseconds; those beyond 2262 are told apart, and no more.
pub(super) fn mtime(stat: &Stat) -> i64 {
    stat.st_mtime.wrapping_mul(1_000_000_000).wrapping_add(stat.st_mtime_nsec as i64)
}

fn is_regular(stat: &Stat) -> bool {
    kind(stat) == FileType::RegularFile
}
