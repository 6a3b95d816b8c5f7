//! Threads that copy files beside the one that goes through the tree: batches of files to where
//! nothing is, handed over in a queue.
//!
//! The threads begin with the first batch that is worth it, or in the middle of one whose files turn out to be
//! large, so that small trees do without them.
//! What they have to say is kept, to be said in the order of the tree (turns). Each has a table of
//! open files to itself, where it gets one, and takes the directories that it copies in over into
//! that.

mod scout;

use std::collections::VecDeque;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, Once};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::ahead::{self, Ahead};
use super::entries::{Entries, FILES_TOGETHER};
use super::level::levels_open;
use super::pair::{Pair, SinkIs, Within};
use super::quick::{Lane, Quick};
use super::shared::{Shared, WATCHED_AFTER};
use super::turns::{self, Now, Turn, Way};
use crate::sys::own_files::{self, OwnFiles};

/// With fewer files one thread is done before others have begun, unless they are large.
pub(super) const FILES_ALONE: usize = 64;

/// So many bytes of several files take longer than it takes others to begin: 1 to 2 ms.
pub(super) const BYTES_ALONE: u64 = 4 << 20;

/// Files that are not shared out.
pub(super) const FILES_PART: usize = 16;

/// After so many files with several names, one after the other, the rest of a batch is taken for such.
const LINKED_MAX: usize = 4;

/// Batches and directories that are waited for, at most: enough for the one who goes through the tree to
/// be ahead of many threads.
const WAITING_MAX: usize = 256;

/// The same where few files may be open.
const WAITING_FEW: usize = 64;

/// Files that are open beside directories, at most.
const FILES_BESIDE: usize = 32;

fn waiting_max() -> usize {
    // Each may be a directory, which keeps two files open; as many again are left to the directories
    // above and to the files.
    let files = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    if files >= 4 * WAITING_MAX as u64 { WAITING_MAX } else { WAITING_FEW }
}

/// Makes room for all files that the one who goes through the tree may have open: to be called before
/// there are other threads, and soon done again.
pub(super) fn make_room() {
    static MADE: Once = Once::new();
    MADE.call_once(|| own_files::make_room(2 * (waiting_max() + levels_open()) + FILES_BESIDE));
}

/// A directory whose files are being copied.
pub(super) struct Folder {
    /// Its own names.
    pub(super) pair: Arc<Pair>,
    pub(super) source: Arc<OwnedFd>,
    pub(super) sink: Arc<OwnedFd>,
    pub(super) within: Within,
    /// What is known of each place in the sink.
    pub(super) sink_is: SinkIs,
    pub(super) entries: Arc<Entries>,
    /// Where in the tree they are.
    pub(super) way: Way,
    /// Whether they were named by the user, one by one.
    pub(super) argument: bool,
}

impl Folder {
    /// The names of an entry, both of which are in directories held open.
    pub(super) fn entry(&self, at: usize) -> Pair {
        let name = self.entries.name(at);
        Pair {
            source: self.pair.source.below(&self.source, name),
            sink: self.pair.sink.below(&self.sink, name),
            sink_is: self.sink_is,
            argument: self.argument,
            ..Pair::default()
        }
    }

    /// The same, held open by this thread, which has its own table of open files.
    fn taken_over(&self, files: &OwnFiles) -> Result<Folder, Errno> {
        let (source, sink) = (files.get(&self.source)?, files.get(&self.sink)?);
        let (pair, entries, way) = (self.pair.clone(), self.entries.clone(), self.way.clone());
        Ok(Folder { pair, source: Arc::new(source), sink: Arc::new(sink), entries, way, ..*self })
    }
}

/// Files of one directory, the copying of which may go on beside everything else.
pub(super) struct Batch {
    pub(super) folder: Arc<Folder>,
    files: Range<usize>,
    /// The first that nobody has taken: several may copy one batch, where there is no other.
    next: AtomicUsize,
    /// Not the batch's alone: whoever copies it lets go of it before saying so, since the directories
    /// of the folder are open in the table of the one who goes through the tree.
    told: Arc<Told>,
    /// Whether the scout was at them.
    scouted: AtomicBool,
}

/// What those who were given a batch tell the one who goes through the tree.
struct Told {
    /// How many have not told yet.
    missing: AtomicUsize,
    /// Files that are left to that one.
    left: Mutex<Vec<usize>>,
}

impl Told {
    fn left(&self) -> MutexGuard<'_, Vec<usize>> {
        self.left.lock().expect("nobody panics holding it")
    }

    fn tell(&self, left: Vec<usize>) {
        self.left().extend(left);
        self.missing.fetch_sub(1, Release);
    }
}

impl Batch {
    pub(super) fn new(folder: &Arc<Folder>, files: Range<usize>) -> Arc<Batch> {
        let next = AtomicUsize::new(files.start);
        let told = Told { missing: AtomicUsize::new(1), left: Mutex::default() };
        let (folder, told, scouted) = (folder.clone(), Arc::new(told), AtomicBool::new(false));
        Arc::new(Batch { folder, files, next, told, scouted })
    }

    /// The place of its first file in the tree.
    pub(super) fn turn(&self) -> Turn {
        self.folder.way.entry(self.files.start)
    }

    /// Whether its files are copied, but for those that are left to the one who goes through the
    /// tree.
    pub(super) fn is_over(&self) -> bool {
        self.told.missing.load(Acquire) == 0
    }

    /// Takes the next of its files.
    fn take(&self) -> Option<usize> {
        let at = self.next.fetch_add(1, Relaxed);
        self.files.contains(&at).then_some(at)
    }

    /// How many of its files nobody has taken.
    fn waiting(&self) -> usize {
        self.files.end.saturating_sub(self.next.load(Relaxed))
    }

    /// Copies them by the thread that opened the folder, or one that shares its table, which calls others to
    /// it where that is worth while.
    fn copy(&self, shared: &Shared<'_>, hall: &Hall, call: &dyn Fn()) {
        self.told.tell(self.copy_in(&self.folder, shared, hall, call));
    }

    /// Copies them by a thread with a table of its own.
    fn copy_apart(self: Arc<Self>, shared: &Shared<'_>, hall: &Hall, files: &OwnFiles) {
        let left = match self.folder.taken_over(files) {
            Ok(folder) => self.copy_in(&folder, shared, hall, &|| hall.call(&self)),
            Err(_) => std::iter::from_fn(|| self.take()).collect(),
        };
        let told = self.told.clone();
        drop(self);
        told.tell(left);
    }

    /// Copies those that nobody has taken; which are left.
    fn copy_in(
        &self,
        folder: &Folder,
        shared: &Shared<'_>,
        hall: &Hall,
        call: &dyn Fn(),
    ) -> Vec<usize> {
        let (before, mut left) = (turns::now(), Vec::new());
        let (bytes_before, mut count) = (shared.hand.bytes_copied(), 0);
        let mut lane = Lane::new(&folder.source, &folder.sink, folder.within);
        let mut pair = folder.entry(self.files.start);
        shared.hand.goes_through(&folder.pair, &folder.entries);
        let (mut linked, mut ahead) =
            (0, Ahead::new(&folder.source, &folder.entries, self.files.end));
        while let Some(at) = self.take() {
            // Not even looked at: the one who goes through the tree has to do that again.
            if linked == LINKED_MAX {
                left.push(at);
                continue;
            }
            shared.goes_on();
            shared.hand.is_at(at);
            if shared.reads_to(folder.within) {
                ahead.is_at(at);
            } else if ahead::waits() {
                hall.is_waited_in();
            }
            let quick = lane.copy(shared, folder.entries.c_name(at), || {
                turns::set(Now { turn: folder.way.entry(at), keeps: true });
                pair.turn_to(folder.entries.name(at));
                &pair
            });
            linked = if matches!(quick, Quick::SeveralNames) { linked + 1 } else { 0 };
            match quick {
                Quick::Left | Quick::SeveralNames => left.push(at),
                Quick::Done(done) => shared.voice.note(done),
            }
            count += 1;
            // The others as large as these.
            let bytes = shared.hand.bytes_copied() - bytes_before;
            if bytes / count * self.waiting() as u64 >= BYTES_ALONE {
                shared.takes_long();
                call();
            }
        }
        shared.hand.is_through();
        turns::set(before);
        left
    }
}

/// The threads, and what they have to do.
pub(super) struct Crew<'a> {
    /// How many there are to be beside the one that goes through the tree.
    others: usize,
    /// Begins them.
    begin: &'a (dyn Fn() + Sync),
    /// Begins the one that looks at files before their turn, and whether it has.
    begin_scout: &'a (dyn Fn() + Sync),
    has_scout: Once,
    hall: &'a Hall,
    /// Files that there were so far.
    seen: AtomicUsize,
    has_begun: AtomicBool,
    waiting_max: usize,
}

/// Where batches wait, and those who copy them.
#[derive(Default)]
pub(super) struct Hall {
    queue: Mutex<Queue>,
    more: Condvar,
    done: Condvar,
    /// Whether one of them had to wait for a device where no data are read.
    waits: AtomicBool,
    scouts: Condvar,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Arc<Batch>>,
    /// Threads that have nothing to do.
    idle: usize,
    over: bool,
}

impl Hall {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("nobody panics holding it")
    }

    /// The work of a thread, until there will be no more.
    pub(super) fn work(&self, shared: &Shared<'_>) {
        // A thread that cannot get at what it is to copy leaves all of it to the others.
        let Ok(files) = OwnFiles::begin() else { return shared.tally.rests() };
        let mut queue = self.queue();
        loop {
            if let Some(batch) = queue.waiting.pop_front() {
                drop(queue);
                match &files {
                    Some(files) => batch.copy_apart(shared, self, files),
                    None => batch.copy(shared, self, &|| self.call(&batch)),
                }
                queue = self.queue();
                self.done.notify_one();
            } else if queue.over {
                return shared.tally.rests();
            } else {
                queue.idle += 1;
                shared.tally.rests();
                queue = self.more.wait(queue).expect("nobody panics holding it");
                shared.tally.begins();
                queue.idle -= 1;
            }
        }
    }

    /// Calls a thread that has nothing to do, if there is one, to what is being copied.
    fn call(&self, batch: &Arc<Batch>) {
        let mut queue = self.queue();
        if queue.waiting.len() < queue.idle {
            batch.told.missing.fetch_add(1, Relaxed);
            queue.waiting.push_back(batch.clone());
            self.more.notify_one();
        }
    }

    /// Lets the threads go home.
    pub(super) fn close(&self) {
        self.queue().over = true;
        self.more.notify_all();
        self.scouts.notify_all();
    }
}

impl<'a> Crew<'a> {
    pub(super) fn new(
        others: usize,
        hall: &'a Hall,
        begin: &'a (dyn Fn() + Sync),
        begin_scout: &'a (dyn Fn() + Sync),
    ) -> Crew<'a> {
        let (has_scout, has_begun) = (Once::new(), AtomicBool::new(false));
        let (seen, waiting_max) = (AtomicUsize::new(0), waiting_max());
        Crew { others, begin, begin_scout, has_scout, hall, seen, has_begun, waiting_max }
    }

    /// How many copy, the one who goes through the tree among them.
    pub(super) fn threads(&self) -> usize {
        self.others + 1
    }

    /// How many batches and directories are waited for at most.
    pub(super) fn waiting_max(&self) -> usize {
        self.waiting_max
    }

    /// There are so many files more: begins the threads, once that is worth it.
    pub(super) fn expect(&self, files: usize) {
        if self.seen.fetch_add(files, Relaxed) + files >= FILES_ALONE {
            self.begin();
        }
    }

    /// Hands a batch of large files to all of them, which begin with it where there were none.
    pub(super) fn share(&self, batch: &Arc<Batch>) {
        self.hall.queue().waiting.push_back(batch.clone());
        self.call_all(batch);
    }

    /// Calls as many threads to it as there are and it has files for.
    fn call_all(&self, batch: &Arc<Batch>) {
        let more = self.others.min(batch.waiting());
        batch.told.missing.fetch_add(more, Relaxed);
        self.hall.queue().waiting.extend(std::iter::repeat_n(batch.clone(), more));
        match self.has_begun() {
            true => self.hall.more.notify_all(),
            false => self.begin(),
        }
    }

    fn begin(&self) {
        if self.others > 0 && !self.has_begun.swap(true, Relaxed) {
            (self.begin)();
        }
    }

    /// Whether there are other threads by now.
    fn has_begun(&self) -> bool {
        self.has_begun.load(Relaxed)
    }

    /// Calls other threads, which begin with this where there were none, to what is being copied.
    fn call(&self, batch: &Arc<Batch>) {
        match self.has_begun() {
            true => self.hall.call(batch),
            false => self.call_all(batch),
        }
    }

    /// Files as one batch, or, where nothing waits for the threads, as one for each of them.
    pub(super) fn parted(&self, files: Range<usize>) -> impl Iterator<Item = Range<usize>> + use<> {
        let most = match self.has_begun() && self.hall.queue().waiting.is_empty() {
            true => files.len().div_ceil(self.threads()).max(FILES_PART),
            false => FILES_TOGETHER,
        };
        files.clone().step_by(most).map(move |start| start..files.end.min(start + most))
    }

    /// Hands a batch over, or copies it here while there is too little to do for others.
    pub(super) fn take(&self, batch: &Arc<Batch>, shared: &Shared<'_>) {
        if !self.has_begun() {
            return batch.copy(shared, self.hall, &|| self.call(batch));
        }
        self.hall.queue().waiting.push_back(batch.clone());
        self.hall.more.notify_one();
        self.scout();
    }

    /// Has files looked at before their turn, once it is seen that there is something to wait for.
    fn scout(&self) {
        if self.hall.waits.load(Relaxed) {
            self.has_scout.call_once(self.begin_scout);
            self.hall.scouts.notify_one();
        }
    }

    /// Helps until this batch is copied: with others, and where there are none, with this one. Which
    /// of its files are left to the one who goes through the tree.
    pub(super) fn wait_for(&self, batch: &Arc<Batch>, shared: &Shared<'_>) -> Vec<usize> {
        let mut left = Vec::new();
        let mut queue = self.hall.queue();
        while !batch.is_over() {
            shared.goes_on();
            if let Some(next) = queue.waiting.pop_front() {
                drop(queue);
                self.scout();
                next.copy(shared, self.hall, &|| self.call(&next));
            } else if batch.waiting() > 0 {
                drop(queue);
                left.extend(batch.copy_in(&batch.folder, shared, self.hall, &|| ()));
            } else {
                let wait = || self.hall.done.wait_timeout(queue, WATCHED_AFTER);
                drop(shared.tally.while_waiting(wait).expect("nobody panics holding it"));
            }
            queue = self.hall.queue();
        }
        drop(queue);
        left.append(&mut batch.told.left());
        left.sort_unstable();
        left
    }
}
