//! What is done and said later, because files before it in the tree are still being copied: in the
//! order of the tree, whoever is done first.

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::Stat;

use super::crew::{Batch, Crew, Folder};
use super::entry::{Copier, Pair, Sink};
use super::tree::Target;
use super::turns::{self, BEHIND_FILES};
use super::voice::Told;

/// Lines that the one who goes through the tree keeps between two things put off, at most.
const LINES_MAX: usize = 256;

/// What is still to be done, the first of it first.
#[derive(Default)]
pub(super) struct Later {
    waiting: VecDeque<(u64, Item)>,
    /// How much was put off so far, by which it is numbered.
    put_off: u64,
    /// Whether it is being worked off: nothing is put off again.
    now: bool,
}

enum Item {
    Files(Arc<Batch>),
    Ending(Box<Ending>),
}

/// A directory all of whose entries were gone through, and its attributes not yet set.
pub(super) struct Ending {
    pub(super) pair: Arc<Pair>,
    pub(super) stat: Stat,
    pub(super) sink: Sink,
    pub(super) open: Arc<OwnedFd>,
    pub(super) target: Target,
    pub(super) source: Arc<OwnedFd>,
    /// Whether a failure of the directory itself was told of before.
    pub(super) has_failed: bool,
}

impl Copier<'_> {
    /// Whether files and the ends of directories can be put off.
    pub(super) fn puts_off(&self) -> bool {
        self.crew.is_some() && !self.later.now
    }

    /// Whether anything was.
    pub(super) fn has_put_off(&self) -> bool {
        !self.later.waiting.is_empty()
    }

    /// Has files of a directory copied, now or soon.
    pub(super) fn put_off_files(&mut self, folder: &Arc<Folder>, files: Range<usize>) {
        let Some(crew) = self.crew else { return };
        let batch = Batch::new(folder, files, self.later.put_off + 1);
        crew.take(&batch, self.shared);
        self.put_off(Item::Files(batch));
    }

    /// Has a directory finished once its files are copied.
    pub(super) fn put_off_ending(&mut self, ending: Ending) {
        self.put_off(Item::Ending(Box::new(ending)));
    }

    fn put_off(&mut self, item: Item) {
        self.later.put_off += 1;
        self.later.waiting.push_back((self.later.put_off, item));
        self.catch_up(self.crew.map_or(0, Crew::waiting_max));
    }

    /// Says what was kept, if it has become much.
    pub(super) fn bound_lines(&mut self) {
        if self.has_put_off() && self.shared.voice.kept_count() > LINES_MAX {
            self.do_now();
        }
    }

    /// Does all that was put off, unless it is being done: then all before this was.
    pub(super) fn do_now(&mut self) {
        if !self.later.now {
            self.catch_up(0);
        }
    }

    /// Does what is ready, and waits for the rest until so much is left at most. What is said from
    /// now on is kept while something is left.
    fn catch_up(&mut self, left_max: usize) {
        turns::set(None);
        self.later.now = true;
        while let Some((number, item)) = self.later.waiting.pop_front() {
            let ready = !matches!(&item, Item::Files(batch) if batch.left().is_none());
            if !ready && self.later.waiting.len() < left_max {
                self.later.waiting.push_front((number, item));
                break;
            }
            self.work_off(number, item);
            self.shared.voice.say_before((number + 1, 0));
        }
        self.later.now = false;
        let turn = (self.later.put_off, BEHIND_FILES);
        turns::set(self.has_put_off().then_some(turn));
        turns::at_once(turn);
    }

    fn work_off(&mut self, number: u64, item: Item) {
        match item {
            Item::Ending(ending) => {
                turns::at_once((number, 0));
                self.end(*ending);
            }
            Item::Files(batch) => {
                if let Some(crew) = self.crew {
                    crew.wait_for(&batch, self.shared);
                }
                for at in batch.left().unwrap_or_default() {
                    self.shared.voice.say_before((number, *at));
                    turns::at_once((number, *at));
                    let done = self.entry(batch.folder.entry(*at));
                    self.shared.voice.note(done);
                }
            }
        }
    }

    fn end(&mut self, ending: Ending) {
        let Ending { pair, stat, sink, open, target, source, has_failed } = ending;
        let ledger = &self.shared.voice.ledger;
        ledger.begin(&pair);
        ledger.is(&stat);
        let done =
            self.shared.finish_directory(&pair, &stat, &sink, (&open, &target), Some(&source));
        match has_failed {
            true => {
                ledger.has_failed();
                ledger.end(&Err(Told));
            }
            false => ledger.end(&done),
        }
        self.shared.voice.note(done);
    }
}
