//! What is done and said later, because files before it in the tree are still being copied: in the
//! order of the tree, whoever is done first.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::Stat;

use super::crew::{Batch, Noted};
use super::entry::{Copier, Pair, Sink};
use super::tree::Target;
use super::voice;

/// Batches and directories that are waited for, at most: a directory keeps two files open.
const WAITING_MAX: usize = 64;

/// Lines that are kept, at most.
const LINES_MAX: usize = 256;

/// What is still to be done, the first of it first.
#[derive(Default)]
pub(super) struct Later {
    waiting: VecDeque<Item>,
    /// Whether it is being worked off: nothing is put off again.
    now: bool,
}

enum Item {
    Files(Arc<Batch>),
    Ending(Box<Ending>),
    Lines(Vec<String>),
}

/// A directory all of whose entries were gone through, and its attributes not yet set.
pub(super) struct Ending {
    pub(super) pair: Arc<Pair>,
    pub(super) stat: Stat,
    pub(super) sink: Sink,
    pub(super) open: Arc<OwnedFd>,
    pub(super) target: Target,
    pub(super) source: Arc<OwnedFd>,
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

    /// Has files copied, now or soon.
    pub(super) fn put_off_files(&mut self, batch: Arc<Batch>) {
        let Some(crew) = self.crew else { return };
        let lines = voice::kept();
        crew.take(&batch, self.shared);
        self.put_off(lines, Item::Files(batch));
    }

    /// Has a directory finished once its files are copied.
    pub(super) fn put_off_ending(&mut self, ending: Ending) {
        let lines = voice::kept();
        self.put_off(lines, Item::Ending(Box::new(ending)));
    }

    fn put_off(&mut self, lines: Vec<String>, item: Item) {
        let waiting = &mut self.later.waiting;
        match lines.is_empty() {
            true => {}
            false => waiting.push_back(Item::Lines(lines)),
        }
        waiting.push_back(item);
        self.catch_up(WAITING_MAX);
    }

    /// Says what was kept, if it has become much.
    pub(super) fn bound_lines(&mut self) {
        if voice::kept_count() > LINES_MAX {
            self.do_now();
        }
    }

    /// Does all that was put off.
    pub(super) fn do_now(&mut self) {
        self.catch_up(0);
    }

    /// Does what is ready, and waits for the rest until so much is left at most. What is said from
    /// now on is kept while something is left.
    fn catch_up(&mut self, left_max: usize) {
        let after = voice::kept();
        self.later.now = true;
        while let Some(item) = self.later.waiting.pop_front() {
            let ready = !matches!(&item, Item::Files(batch) if batch.noted().is_none());
            if !ready && self.later.waiting.len() < left_max {
                self.later.waiting.push_front(item);
                break;
            }
            self.work_off(item);
        }
        self.later.now = false;
        match self.later.waiting.is_empty() {
            true => self.say(&after),
            false => voice::keep(after),
        }
    }

    fn work_off(&mut self, item: Item) {
        match item {
            Item::Lines(lines) => self.say(&lines),
            Item::Ending(ending) => self.end(*ending),
            Item::Files(batch) => {
                if let Some(crew) = self.crew {
                    crew.wait_for(&batch, self.shared);
                }
                for noted in batch.noted().unwrap_or_default() {
                    self.heed(&batch, noted);
                }
            }
        }
    }

    fn heed(&mut self, batch: &Batch, noted: &Noted) {
        match noted {
            Noted::Said { lines, failed } => {
                self.say(lines);
                self.shared.voice.note(if *failed { Err(voice::Told) } else { Ok(()) });
            }
            Noted::Left(at) => {
                let done = self.entry(batch.folder.entry(*at));
                self.shared.voice.note(done);
            }
        }
    }

    fn end(&mut self, ending: Ending) {
        let Ending { pair, stat, sink, open, target, source } = ending;
        let done =
            self.shared.finish_directory(&pair, &stat, &sink, (&open, &target), Some(&source));
        self.shared.voice.note(done);
    }

    fn say(&self, lines: &[String]) {
        for line in lines {
            self.shared.voice.warn(line);
        }
    }
}
