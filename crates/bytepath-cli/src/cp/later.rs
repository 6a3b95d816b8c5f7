//! What is done and said later, because files before it are still being copied: done in the order in
//! which the tree is gone through, said in the order of the tree, whoever is done first.

use std::ops::Range;
use std::sync::Arc;

use super::copier::{Copier, Ending, Item};
use super::crew::{Batch, Crew, Folder};
use super::level::Level;
use super::told::Told;
use super::turns::{self, Now, Turn};

/// Lines that are kept, before those that can be said soon are waited for.
const LINES_MAX: usize = 4096;

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
        crew.expect(files.len());
        for files in crew.parted(files) {
            let batch = Batch::new(folder, files);
            crew.take(&batch, self.shared);
            self.put_off(batch.turn(), Item::Files(batch));
        }
    }

    /// Has large files copied, by all threads that there are to be.
    pub(super) fn put_off_large_files(&mut self, folder: &Arc<Folder>, files: Range<usize>) {
        let Some(crew) = self.crew else { return };
        crew.expect(files.len());
        let batch = Batch::new(folder, files);
        self.shared.takes_long();
        crew.share(&batch);
        self.put_off(batch.turn(), Item::Files(batch));
    }

    /// Has a directory finished once its files are copied.
    pub(super) fn put_off_ending(&mut self, turn: Turn, ending: Ending) {
        self.put_off(turn, Item::Ending(Box::new(ending)));
    }

    fn put_off(&mut self, turn: Turn, item: Item) {
        self.later.waiting.push_back((turn, item));
        self.catch_up(self.crew.map_or(0, Crew::waiting_max));
    }

    /// Goes on at another place of the tree: says what was kept for all before it that is done.
    pub(super) fn stand_at(&mut self, turn: Turn) {
        // In rounds it takes long to know what is first: where nothing is kept, it is soon enough to
        // know it the next time.
        if self.order.has_rounds && self.has_put_off() && self.shared.voice.kept_count() == 0 {
            return turns::set(Now { turn, keeps: true });
        }
        let first = self.first_left().filter(|first| *first < turn);
        self.shared.voice.say_before(first.as_ref().unwrap_or(&turn));
        turns::set(Now { turn, keeps: first.is_some() });
    }

    /// What comes first in the tree of all that is left to be done, but for what is being done.
    fn first_left(&self) -> Option<Turn> {
        let mut waiting = self.later.waiting.iter().map(|(turn, _)| turn);
        if !self.order.has_rounds {
            // They wait in the order of the tree.
            return waiting.next().cloned();
        }
        let left_out = self.levels.iter().filter_map(Level::first_left_out).min();
        left_out.into_iter().chain(waiting.min().cloned()).min()
    }

    /// Whether so much is kept that no more should be.
    pub(super) fn keeps_much(&self) -> bool {
        self.shared.voice.kept_count() > LINES_MAX
    }

    /// Says what was kept, if it has become much.
    pub(super) fn bound_lines(&mut self) {
        if self.has_put_off() && self.keeps_much() {
            self.do_now();
        }
    }

    /// Does all that was put off, unless it is being done: then all before this was.
    pub(super) fn do_now(&mut self) {
        if !self.later.now && self.has_put_off() {
            self.catch_up(0);
        }
    }

    /// Does what is ready, and waits for the rest until so much is left at most. What is said from
    /// now on is kept while something is left.
    fn catch_up(&mut self, left_max: usize) {
        let here = turns::now().turn;
        self.later.now = true;
        while let Some((turn, item)) = self.later.waiting.pop_front() {
            let ready = !matches!(&item, Item::Files(batch) if !batch.is_over());
            if !ready && self.later.waiting.len() < left_max {
                self.later.waiting.push_front((turn, item));
                break;
            }
            self.work_off(turn, item);
        }
        self.later.now = false;
        self.stand_at(here);
    }

    fn work_off(&mut self, turn: Turn, item: Item) {
        match item {
            Item::Ending(ending) => {
                self.stand_at(turn);
                self.end(*ending);
            }
            Item::Files(batch) => {
                let left = self.crew.map(|crew| crew.wait_for(&batch, self.shared));
                for at in left.unwrap_or_default() {
                    self.stand_at(batch.folder.way.entry(at));
                    let done = self.entry(&mut batch.folder.entry(at));
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
