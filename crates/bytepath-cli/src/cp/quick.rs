//! A file that is copied to where nothing is: in a new directory, without looking at any name first.
//!
//! Costs a look at the name less than what every other entry costs, and changes nothing that only
//! the one who goes through the tree may change: so any thread can do it. Whatever is not as usual
//! is left to that one. Of a small file from which nothing but its bytes is kept, not even a path is made.

use std::ffi::CStr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use bytepath::small_files::{Between, NotCopied};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;

use super::data::Fault;
use super::data::small::with_small_files;
use super::large::is_large;
use super::pair::{Pair, Sink, SinkIs, Within};
use super::place::{Follow, kind};
use super::settings::{Backup, Existing, Make, Reflink, Settings, Sparse};
use super::shared::Shared;
use super::told::{Done, Told};
use super::voice::q;

/// What became of the file.
pub(super) enum Quick {
    /// It is copied, or could not be, which was told of.
    Done(Done),
    /// It is left as it is, and to others.
    Left,
    /// The same, because it has other names, one of which may have been copied.
    SeveralNames,
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
    only_adds(settings) && !settings.keep_directory_symlink && !settings.follows(false)
}

/// Whether what is copied to where nothing is does not depend on anything else that is copied.
pub(super) fn only_adds(settings: &Settings) -> bool {
    let overwrites = settings.existing == Existing::Overwrite && !settings.update;
    let renames = settings.backup != Backup::None || settings.remove_first;
    overwrites && !renames
}

/// Two directories between which files are copied quickly.
pub(super) struct Lane<'a> {
    source: BorrowedFd<'a>,
    sink: BorrowedFd<'a>,
    within: Within,
    /// How the small ones are, once that is known.
    between: Option<Between<'a>>,
}

impl<'a> Lane<'a> {
    pub(super) fn new(source: &'a OwnedFd, sink: &'a OwnedFd, within: Within) -> Lane<'a> {
        Lane { source: source.as_fd(), sink: sink.as_fd(), within, between: None }
    }

    /// Copies what is most probably a file, if nothing has its name in the sink. The pair is asked for
    /// where there is something to be done, or said, about this one in particular.
    pub(super) fn copy<'p>(
        &mut self,
        shared: &Shared<'_>,
        name: &CStr,
        pair: impl FnOnce() -> &'p Pair,
    ) -> Quick {
        if self.between.is_none() {
            self.between = shared.between(self);
        }
        let Some(between) = &self.between else { return shared.quickly(pair(), self.within, None) };
        match with_small_files(|small| small.copy(between, name)) {
            Ok(moved) => {
                shared.count_small(moved);
                shared.hand.file_done();
                Quick::Done(Ok(()))
            }
            Err(NotCopied::Left(open)) => shared.quickly(pair(), self.within, open),
            Err(stopped) => Quick::Done(Err(shared.stopped(pair(), stopped))),
        }
    }
}

impl Shared<'_> {
    /// How small files are copied from one directory to the other, if nothing of them is kept but their
    /// bytes, and it is known whether blocks can be shared.
    fn between<'a>(&self, lane: &Lane<'a>) -> Option<Between<'a>> {
        let (settings, extras, keep) = (self.settings, self.extras, &self.settings.preserve);
        let keeps = keep.mode || keep.ownership || keep.timestamps || keep.xattr || keep.context;
        let more = extras.atomic || extras.verify || extras.fsync || keep.default_mode || keeps;
        let tells = self.voice.ledger.is_kept();
        if more || tells || settings.sparse == Sparse::Always || !self.needs_no_plan() {
            return None;
        }
        let between = Between::new(lane.source, lane.sink).single_names(keep.links);
        match settings.reflink {
            Reflink::Never => Some(between.in_kernel(false)),
            Reflink::Auto => {
                let (source, shares) = self.tally.known_to(lane.within.device)?;
                Some(between.on_device(source).shares(shares))
            }
            Reflink::Always => None,
        }
    }

    /// Tells why a copy that was begun is not whole.
    fn stopped(&self, pair: &Pair, stopped: NotCopied) -> Told {
        let (from, to) = (&pair.source.shown, &pair.sink.shown);
        match stopped {
            NotCopied::NotFilled(not_filled) => {
                self.count_small(not_filled.moved);
                let fault = Fault::of_small(not_filled);
                self.voice.wrong_by(fault.said(from, to), fault.errno())
            }
            NotCopied::NotClosed(errno) => {
                self.voice.failed(format!("failed to close {}", q(to)), errno)
            }
            _ => self.voice.wrong(format!("cannot copy {}", q(from))),
        }
    }

    /// Copies what is most probably a file, in this directory, if nothing is there; it may be open.
    fn quickly(&self, pair: &Pair, within: Within, open: Option<OwnedFd>) -> Quick {
        let ledger = &self.voice.ledger;
        self.hand.take(&pair.source.shown);
        ledger.begin(pair);
        let quick = self.quickly_held(pair, within, open);
        match &quick {
            Quick::Done(done) => ledger.end(done),
            Quick::Left | Quick::SeveralNames => {
                ledger.comes_later();
                ledger.end(&Ok(()));
            }
        }
        self.hand.put_down();
        quick
    }

    fn quickly_held(&self, pair: &Pair, within: Within, open: Option<OwnedFd>) -> Quick {
        // Where names that differ can be the same, the file before it may have taken it.
        let none = || matches!(pair.sink.stat(Follow::No), Err(Errno::NOENT));
        if pair.sink_is != SinkIs::New && !none() {
            return Quick::Left;
        }
        // Should it have become a FIFO meanwhile, nobody waits for its other end.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = open.map_or_else(|| pair.source.open(flags, 0), Ok);
        let Ok(open) = opened else { return Quick::Left };
        let Ok(stat) = rustix::fs::fstat(&open) else { return Quick::Left };
        if kind(&stat) != FileType::RegularFile || is_large(stat.st_size, &pair.sink.directory) {
            return Quick::Left;
        }
        if self.settings.preserve.links && stat.st_nlink > 1 {
            return Quick::SeveralNames;
        }
        self.voice.ledger.is(&stat);
        let mut sink = Sink::new(Some(within));
        Quick::Done(self.regular_open(pair, (&open, &stat), &stat, &mut sink).map(drop))
    }
}
