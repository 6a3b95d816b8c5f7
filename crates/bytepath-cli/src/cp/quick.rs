//! A file that is copied to where nothing is: in a new directory, without looking at any name first.
//!
//! Costs a look at the name less than what every other entry costs, and changes nothing that only
//! the one who goes through the tree may change: so any thread can do it. Whatever is not as usual
//! is left to that one.

use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::entry::{Pair, Shared, Sink, SinkIs, Within};
use super::place::{Follow, kind};
use super::settings::{Backup, Existing, Make, Settings};
use super::voice::Done;

/// Files from this size on are copied one after the other: two at a time take no less time.
const LARGE_BYTES: i64 = 32 << 20;

/// What became of the file.
pub(super) enum Quick {
    /// It is copied, or could not be, which was told of.
    Done(Done),
    /// It is left as it is, and to others.
    Left,
}

/// Whether files can be copied so, and by several threads, for all that was asked for: what is told
/// of each file is told in order, and every name that is followed may lead anywhere.
pub(super) fn is_possible(settings: &Settings) -> bool {
    let tells = settings.verbose || settings.debug;
    let all_known = settings.preserve.links && settings.follows(false);
    settings.make == Make::Copy && !tells && !all_known && !settings.one_file_system
}

/// Whether they can be copied so to directories that were there before as well: other files of those
/// are copied meanwhile, and must neither get the names of these nor lead to them.
pub(super) fn is_possible_beside_others(settings: &Settings) -> bool {
    let overwrites = settings.existing == Existing::Overwrite && !settings.update;
    let renames = settings.backup != Backup::None || settings.remove_first;
    overwrites && !renames && !settings.keep_directory_symlink && !settings.follows(false)
}

impl Shared<'_> {
    /// Copies what is most probably a file, in this directory, if nothing is there.
    pub(super) fn quickly(&self, pair: &Pair, within: Within) -> Quick {
        // Where names that differ can be the same, the file before it may have taken it.
        let none = || matches!(pair.sink.stat(Follow::No), Err(Errno::NOENT));
        if pair.sink_is != SinkIs::New && !none() {
            return Quick::Left;
        }
        // Should it have become a FIFO meanwhile, nobody waits for its other end.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let Ok(open) = pair.source.open(flags, 0) else { return Quick::Left };
        let Ok(stat) = rustix::fs::fstat(&open) else { return Quick::Left };
        let several_names = self.settings.preserve.links && stat.st_nlink > 1;
        let large = stat.st_size >= LARGE_BYTES;
        if kind(&stat) != FileType::RegularFile || several_names || large {
            return Quick::Left;
        }
        let within = Some(within);
        let mut sink = Sink { is: SinkIs::New, stat: None, link: None, backup: None, within };
        Quick::Done(self.regular_open(pair, (&open, &stat), &stat, &mut sink))
    }
}
