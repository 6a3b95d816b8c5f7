//! `--resume`: what an earlier run left is read, compared with the source, and gone on with.
//!
//! Only bytes tell how far a copy is: a program that was killed, or a machine that lost power, may
//! leave any size and any time behind. Costs a read of what is there on both sides; holes that both
//! have are passed over. A block device is compared and gone on with as a file is; what else is no file
//! cannot be read twice.

use std::os::fd::{AsFd, OwnedFd};

use bytepath_report::Outcome;
use rustix::fs::{Advice, FileType, OFlags, SeekFrom, Stat};
use rustix::io::Errno;

use super::atomic::{self, Begun, NotBegun};
use super::copy::{Copy, Kept};
use super::extras::Extras;
use super::hand::{Other, Why};
use super::holes::{data_before, has_holes, length};
use super::leftovers;
use super::pair::{Pair, Sink};
use super::place::{is_directory, kind, same_file};
use super::settings::{Backup, Existing, Make, Reflink, Settings};
use super::shared::Shared;
use super::told::Done;
use super::verify::Which;
use super::voice::q;

/// What becomes of a destination.
pub(super) enum Resumed {
    /// It is opened and copied to as ever.
    Not,
    /// It is gone on with.
    Copy(Box<Copy>),
    /// The user does not want it overwritten.
    LeftAlone,
}

/// A bit outside of every umask, among permissions that a copy gets at the end: it gets the mode of
/// a new file then.
const GETS_MODE: u32 = 0o1000;

/// Sees that nothing asked for contradicts going on.
///
/// # Errors
/// What does.
pub(super) fn check(settings: &Settings, extras: &Extras) -> Result<(), String> {
    match contradiction(settings).filter(|_| extras.resume) {
        Some((other, why)) => {
            Err(format!("options --resume and {other} are mutually exclusive: {why}"))
        }
        None => Ok(()),
    }
}

/// What contradicts going on with what an earlier run left, and why.
pub(super) fn contradiction(settings: &Settings) -> Option<(&'static str, &'static str)> {
    Some(if settings.update {
        (
            "--update",
            "an interrupted copy is newer than its source; --resume alone leaves what is whole",
        )
    } else if matches!(settings.existing, Existing::Skip | Existing::Refuse) {
        ("--no-clobber", "an interrupted copy is there, and would never be completed")
    } else if settings.backup != Backup::None {
        ("--backup", "an interrupted copy would become the backup")
    } else if settings.remove_first {
        ("--remove-destination", "what is removed cannot be continued")
    } else if settings.make != Make::Copy {
        ("--link, --symbolic-link and --attributes-only", "only copies of bytes are continued")
    } else {
        return None;
    })
}

impl Shared<'_> {
    /// Whether a destination may be one that an earlier run left.
    pub(super) fn may_resume(&self, stat: &Stat, there: &Stat) -> bool {
        // Without --copy-contents, a device in a tree is made anew and never read.
        let is_read = is_file(stat) || self.settings.special_as_file;
        self.extras.resume && is_read && reads_again(stat) && reads_again(there)
    }

    /// What is there, where the user is asked about it only once it was read, if at all.
    pub(super) fn asks_later(&self, stat: &Stat, sink: &Sink) -> Option<Stat> {
        let asks = self.settings.existing == Existing::Ask;
        sink.stat.filter(|there| asks && self.may_resume(stat, there))
    }

    /// Whether another run would go on with the copying of such a file to what is there, if anything is.
    pub(super) fn can_go_on(&self, stat: &Stat, there: Option<&Stat>) -> bool {
        reads_again(stat) && there.is_none_or(reads_again)
    }

    /// Goes on with what an earlier run left, if there is something.
    pub(super) fn resumed(
        &self,
        pair: &Pair,
        stat: &Stat,
        (source, now): (&OwnedFd, &Stat),
        sink: &mut Sink,
    ) -> Done<Resumed> {
        if !self.extras.resume {
            return Ok(Resumed::Not);
        }
        self.note_anew(pair, now, sink);
        if pair.argument
            && sink.link.is_some()
            && let Ok(place) = atomic::behind(&pair.sink, sink)
        {
            leftovers::sweep_beside(&place, self.extras);
        }
        // Files of /proc say that they are empty.
        let bytes = length(source, now);
        if !reads_again(now) || bytes == 0 {
            return self.anew(pair, stat, sink);
        }
        let there = sink.stat.filter(|there| self.may_resume(stat, there));
        let open = there.as_ref().and_then(|there| self.open_there(pair, sink, there));
        let (Some(there), Some(open)) = (there, open) else {
            return match self.anew(pair, stat, sink)? {
                Resumed::Not if self.extras.atomic => self.begin_part(pair, stat, source, sink),
                other => Ok(other),
            };
        };
        let kept = self.compare(pair, (source, &open), self.why_compared(&there))?;
        // Names that it has beside those of its source keep what they have.
        let is_kept = !(self.parts_names(sink) && there.st_nlink > stat.st_nlink);
        let is_beginning = kept == Kept::Whole || is_file(&there) && kept == all_of(&open);
        if !is_beginning && !self.may_overwrite(pair, &there) {
            return Ok(self.left_alone(pair, stat));
        }
        self.say_copied_late(pair);
        if kept == Kept::Whole && is_kept {
            if self.extras.atomic
                && let Ok(place) = atomic::behind(&pair.sink, sink)
            {
                leftovers::remove_part(&place);
            }
            self.count_kept(pair, &open, bytes, Outcome::Kept)?;
            return Ok(Resumed::Copy(self.kept_copy(open, stat, kept).into()));
        }
        if self.extras.atomic {
            self.part_names(pair, &there, sink)?;
            return self.begin_part(pair, stat, source, sink);
        }
        self.go_on(pair, stat, (source, &open), sink, (kept, is_beginning))
    }

    /// Says which end of a copy that is there keeps it from being gone on with.
    fn note_anew(&self, pair: &Pair, now: &Stat, sink: &Sink) {
        let Some(there) = &sink.stat else { return };
        let ends = [(now, &pair.source), (there, &pair.sink)];
        if let Some((_, end)) = ends.into_iter().find(|(stat, _)| !reads_again(stat)) {
            let name = q(&end.shown);
            self.voice.warn(format!("{name} is neither a file nor a block device: copied anew"));
        }
    }

    /// Whether the user lets a file be overwritten that is no beginning of its source.
    pub(super) fn may_overwrite(&self, pair: &Pair, there: &Stat) -> bool {
        let may = self.settings.existing != Existing::Ask
            || self.voice.asks(&self.question(&pair.sink, there));
        if !may {
            self.say_skipped(pair);
        }
        may
    }

    /// Says what is copied, where nothing was said before it was known whether the user is to be asked.
    pub(super) fn say_copied_late(&self, pair: &Pair) {
        if self.settings.existing == Existing::Ask {
            self.say_copied(pair, None);
        }
    }

    /// Does for a copy that begins anew what was left until now: asks the user, and parts the file
    /// from its other names.
    fn anew(&self, pair: &Pair, stat: &Stat, sink: &mut Sink) -> Done<Resumed> {
        let Some(there) = sink.stat.filter(|there| self.may_resume(stat, there)) else {
            return Ok(Resumed::Not);
        };
        if !self.may_overwrite(pair, &there) {
            return Ok(self.left_alone(pair, stat));
        }
        self.say_copied_late(pair);
        self.part_names(pair, &there, sink).map(|_| Resumed::Not)
    }

    /// Takes a name from a file that has others, which keep what they have; whether it did. With
    /// --atomic it is replaced at the end.
    fn part_names(&self, pair: &Pair, there: &Stat, sink: &mut Sink) -> Done<bool> {
        let parted = self.settings.preserve.links && there.st_nlink > 1;
        if parted && self.extras.atomic {
            sink.be_replaced();
        } else if parted {
            self.remove(&pair.sink)?;
            sink.gone();
        }
        Ok(parted)
    }

    fn left_alone(&self, pair: &Pair, stat: &Stat) -> Resumed {
        self.skipped(pair, stat);
        Resumed::LeftAlone
    }

    /// Opens a destination for reading; nothing where it cannot be read, or is another by now.
    fn open_there(&self, pair: &Pair, sink: &Sink, there: &Stat) -> Option<OwnedFd> {
        let follow = if sink.link.is_none() { OFlags::NOFOLLOW } else { OFlags::empty() };
        let open = pair.sink.open(OFlags::RDONLY | follow | OFlags::NONBLOCK, 0).ok()?;
        let stat = rustix::fs::fstat(&open).ok()?;
        same_file(&stat, there).then_some(open)
    }

    /// Why what is there is compared: no part is kept where a new file takes its place, or a clone.
    fn why_compared(&self, there: &Stat) -> Why {
        let is_cloned = self.settings.reflink == Reflink::Always;
        let is_parted = self.settings.preserve.links && there.st_nlink > 1;
        match self.extras.atomic || is_cloned || is_parted {
            true => Why::Whole,
            false => Why::Resume,
        }
    }

    /// How much of the source a file holds, byte by byte.
    fn compare(&self, pair: &Pair, (source, copy): (&OwnedFd, &OwnedFd), why: Why) -> Done<Kept> {
        let failed = |name, errno| self.voice.failed(format!("error reading {}", q(name)), errno);
        // What the kernel read ahead of where they differ would stay in the page cache: nobody who
        // copies past that drops it.
        let advise = |advice| {
            for file in [source, copy].into_iter().filter(|_| self.extras.direct) {
                let _ = rustix::fs::fadvise(file, 0, None, advice);
            }
        };
        advise(Advice::Random);
        let bytes = |file| rustix::fs::fstat(file).map_or(0, |stat| length(file, &stat));
        self.hand.rereads(why, bytes(source).min(bytes(copy)));
        let differ = self.differ_at(source.as_fd(), copy.as_fd(), 0..u64::MAX);
        self.hand.has_reread();
        advise(Advice::Normal);
        // Looking for holes moves where the file stands, and it may be copied from its start yet.
        rustix::fs::seek(source, SeekFrom::Start(0))
            .map_err(|errno| failed(&pair.source.shown, errno))?;
        match differ {
            Ok(None) => Ok(Kept::Whole),
            Ok(Some(0)) => Ok(Kept::Nothing),
            Ok(Some(at)) => Ok(Kept::Bytes(at)),
            Err((Which::Source, errno)) => Err(failed(&pair.source.shown, errno)),
            // What cannot be read cannot be trusted.
            Err((Which::Copy, _)) => Ok(Kept::Nothing),
        }
    }

    /// A copy that gets the permissions it was not given yet, if it is of an earlier run.
    fn kept_copy(&self, open: OwnedFd, stat: &Stat, kept: Kept) -> Copy {
        let there = rustix::fs::fstat(&open);
        let is_left = there.is_ok_and(|there| is_file(&there) && self.may_be_left(stat, &there));
        let omitted = if is_left { self.omitted(stat) } else { 0 };
        Copy { kept, is_left, ..Copy::new(open, false, omitted, None) }
    }

    /// Whether what is there may be what an earlier run made and did not finish: a copy has another mode
    /// while it is made. What has any other is as its owner wants it.
    pub(super) fn may_be_left(&self, stat: &Stat, there: &Stat) -> bool {
        let made = stat.st_mode & 0o777 & !self.omitted(stat);
        // In directories with a default list, the umask takes nothing away.
        let made = [made, made & !self.umask].map(|mode| match is_directory(stat) {
            true => mode | 0o700,
            false => mode,
        });
        self.extras.resume
            && made.contains(&(there.st_mode & 0o777))
            && there.st_uid == rustix::process::geteuid().as_raw()
    }

    /// Counts what an earlier run copied. The copy stands behind it.
    fn count_kept(&self, pair: &Pair, copy: &OwnedFd, bytes: u64, outcome: Outcome) -> Done {
        self.voice.ledger.kept(bytes, outcome);
        let at = bytes;
        // Of what there is to copy, holes are none.
        let mut bytes = match rustix::fs::fstat(copy) {
            Ok(stat) if has_holes(&stat) => {
                let data = data_before(copy, bytes);
                rustix::fs::seek(copy, SeekFrom::Start(bytes)).map_or(bytes, |_| data)
            }
            _ => bytes,
        };
        self.hand.reached(at);
        self.hand.add(Other::Kept, bytes);
        self.put_on_device(copy, &mut bytes).map_err(|errno| self.not_synced(pair, errno))
    }

    /// Goes on in the file itself.
    fn go_on(
        &self,
        pair: &Pair,
        stat: &Stat,
        (source, open): (&OwnedFd, &OwnedFd),
        sink: &mut Sink,
        (kept, is_beginning): (Kept, bool),
    ) -> Done<Resumed> {
        let there = rustix::fs::fstat(open).map_err(|errno| {
            self.voice.failed(format!("cannot fstat {}", q(&pair.sink.shown)), errno)
        })?;
        if self.part_names(pair, &there, sink)? {
            return Ok(Resumed::Not);
        }
        // What is to be a clone is one as a whole.
        if self.settings.reflink == Reflink::Always || kept == Kept::Nothing {
            return Ok(Resumed::Not);
        }
        match self.open_for_more(pair, sink, &there) {
            Ok(open) => {
                self.continue_at(pair, (source, &open), kept)?;
                let copy = self.kept_copy(open, stat, kept);
                let is_left = copy.is_left && is_beginning;
                let omitted = if is_left { copy.omitted } else { 0 };
                Ok(Resumed::Copy(Copy { omitted, is_left, ..copy }.into()))
            }
            // A copy of a file that may not be written may not be written either, and all that it
            // holds is in its source.
            Err(Errno::ACCESS) if is_beginning => {
                self.remove(&pair.sink)?;
                sink.gone();
                Ok(Resumed::Not)
            }
            Err(_) => Ok(Resumed::Not),
        }
    }

    fn open_for_more(&self, pair: &Pair, sink: &Sink, there: &Stat) -> Result<OwnedFd, Errno> {
        let follow = if sink.link.is_none() { OFlags::NOFOLLOW } else { OFlags::empty() };
        let open = pair.sink.open(OFlags::RDWR | follow, 0)?;
        match same_file(&rustix::fs::fstat(&open)?, there) {
            true => Ok(open),
            false => Err(Errno::STALE),
        }
    }

    /// Goes on in a file beside the destination, which stays as it is until that is whole.
    fn begin_part(&self, pair: &Pair, stat: &Stat, source: &OwnedFd, sink: &Sink) -> Done<Resumed> {
        let failed = |why: NotBegun| {
            let name = q(&pair.sink.shown);
            match why.errno {
                Errno::BUSY => {
                    let place = atomic::behind(&pair.sink, sink);
                    let place = place.as_ref().unwrap_or(&pair.sink);
                    let part = q(atomic::part_name(&place.parent().1));
                    let what = "another program is copying to it";
                    self.voice.wrong(format!("cannot go on with {name}: {what} ({part} is locked)"))
                }
                _ => self.not_begun(pair, why),
            }
        };
        let begun = atomic::begin_part(&pair.sink, sink, stat, self.settings.force);
        let begun = begun.map_err(failed)?;
        let Begun::Unnamed(open, unnamed) = begun else { return Ok(Resumed::Not) };
        let kept = match all_of(&open) {
            Kept::Nothing => Kept::Nothing,
            _ => self.compare(pair, (source, &open), Why::Resume)?,
        };
        let is_new = sink.stat.is_none();
        match kept {
            Kept::Whole => {
                let bytes = length(source, stat);
                self.count_kept(pair, &open, bytes, Outcome::Continued)?;
            }
            _ => self.continue_at(pair, (source, &open), kept)?,
        }
        let omitted = if is_new { GETS_MODE } else { 0 };
        Ok(Resumed::Copy(Copy { kept, ..Copy::new(open, is_new, omitted, Some(unnamed)) }.into()))
    }

    /// Cuts off what differs, and lets both files stand behind what they have in common.
    fn continue_at(&self, pair: &Pair, (source, copy): (&OwnedFd, &OwnedFd), kept: Kept) -> Done {
        let at = match kept {
            Kept::Bytes(at) => at,
            Kept::Nothing => 0,
            Kept::Whole => return Ok(()),
        };
        let cut = rustix::fs::ftruncate(copy, at)
            // A device has nothing that could be cut off.
            .or_else(|errno| if errno == Errno::INVAL { Ok(()) } else { Err(errno) })
            .and_then(|()| rustix::fs::seek(copy, SeekFrom::Start(at)))
            .and_then(|_| rustix::fs::seek(source, SeekFrom::Start(at)));
        cut.map_err(|errno| {
            self.voice.failed(format!("cannot go on with {}", q(&pair.sink.shown)), errno)
        })?;
        if at == 0 {
            return Ok(());
        }
        self.count_kept(pair, copy, at, Outcome::Continued)?;
        if self.settings.verbose {
            let line = format!("went on with {} at byte {at}", q(&pair.sink.shown));
            self.voice.line(line.as_bytes());
        }
        Ok(())
    }
}

fn is_file(stat: &Stat) -> bool {
    kind(stat) == FileType::RegularFile
}

/// Whether what is read of it can be read again.
fn reads_again(stat: &Stat) -> bool {
    matches!(kind(stat), FileType::RegularFile | FileType::BlockDevice)
}

/// The length of a file, as what is kept of it.
fn all_of(open: &OwnedFd) -> Kept {
    match rustix::fs::fstat(open).map(|stat| u64::try_from(stat.st_size)) {
        Ok(Ok(bytes)) if bytes > 0 => Kept::Bytes(bytes),
        _ => Kept::Nothing,
    }
}
