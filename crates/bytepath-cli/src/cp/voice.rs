//! What `cp` says: what it does on standard output, what goes wrong on standard error.

use std::ffi::OsStr;
use std::io::{BufRead as _, BufReader, IsTerminal as _, Read, Write as _};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::hand::Hand;
use super::ledger::Ledger;
use super::options::WRONG_USAGE;
use super::told::{Done, Told, Weight};
use super::turns::{self, Now, Turn, Unsaid};
use crate::classic::Called;
use crate::errno::word;
use crate::live;
use crate::quote::always_quoted;
use crate::streams::stdout;
use crate::sys::start;

/// Lines of standard output are written together from this many bytes on.
const HELD_BYTES: usize = 16 << 10;

/// Says things, for any number of threads.
pub(super) struct Voice<'a> {
    pub(super) called: &'a Called,
    /// What is written of the run.
    pub(super) ledger: Ledger,
    /// Whoever has it speaks on standard error.
    unsaid: Mutex<Unsaid>,
    held: Mutex<Vec<u8>>,
    /// Whether somebody reads each line of standard output as it comes.
    is_read_at_once: OnceLock<bool>,
    /// Why standard output could not be written.
    mute: Mutex<Option<Errno>>,
    questions: Mutex<Questions>,
    /// That answers could not be read, and why if that is said.
    deaf: Mutex<Option<Option<Errno>>>,
    failed: AtomicBool,
    /// More files were to be open than this process may have.
    lacks_files: AtomicBool,
    /// What would have been said on standard error, where somebody else says it.
    gathered: Option<Mutex<Vec<Said>>>,
}

/// Something said: the message, and the kernel's word in it.
pub(super) type Said = (String, Option<Errno>);

impl<'a> Voice<'a> {
    pub(super) fn new(called: &'a Called, ledger: Ledger) -> Self {
        Voice {
            called,
            ledger,
            unsaid: Mutex::default(),
            held: Mutex::default(),
            is_read_at_once: OnceLock::new(),
            mute: Mutex::default(),
            questions: Mutex::new(Questions {
                answers: BufReader::new(Answers),
                waited: Duration::ZERO,
            }),
            deaf: Mutex::default(),
            failed: AtomicBool::new(false),
            lacks_files: AtomicBool::new(false),
            gathered: None,
        }
    }

    /// One that says nothing, and gives up what it was to say when asked.
    pub(super) fn gathering(called: &'a Called, ledger: Ledger) -> Self {
        Voice { gathered: Some(Mutex::default()), ..Voice::new(called, ledger) }
    }

    /// Gives up what was gathered.
    pub(super) fn take_gathered(&self) -> Vec<Said> {
        let gathered = self.gathered.as_ref();
        gathered
            .map(|said| std::mem::take(&mut *said.lock().expect("nobody panics holding it")))
            .unwrap_or_default()
    }

    /// Tells of a failure that the kernel has a word for.
    pub(super) fn failed(&self, what: impl std::fmt::Display, errno: Errno) -> Told {
        self.wrong_by(format_args!("{what}: {}", word(errno)), Some(errno))
    }

    /// Tells that the directory that names a copy did not get to the device.
    pub(super) fn folder_not_synced(&self, sink: &OsStr, errno: Errno) -> Told {
        self.failed(format_args!("error syncing the directory of {}", q(sink)), errno)
    }

    /// Tells of a failure.
    pub(super) fn wrong(&self, what: impl std::fmt::Display) -> Told {
        self.wrong_by(what, None)
    }

    /// Tells of a failure whose message has the kernel's word, if it has one.
    pub(super) fn wrong_by(&self, what: impl std::fmt::Display, errno: Option<Errno>) -> Told {
        self.say(what, errno, Weight::Failure);
        Told
    }

    /// Tells of an attribute that was not kept.
    pub(super) fn not_kept(
        &self,
        what: impl std::fmt::Display,
        errno: Errno,
        weight: Weight,
    ) -> Done {
        self.say(format_args!("{what}: {}", word(errno)), Some(errno), weight);
        match weight {
            Weight::Failure => Err(Told),
            Weight::Warning => Ok(()),
        }
    }

    /// Says what is wrong with the arguments, and where to look.
    pub(super) fn misused(&self, what: &str) -> ExitCode {
        self.ledger.said(what, None, Weight::Failure);
        self.called.misused(what.as_bytes(), WRONG_USAGE)
    }

    fn say(&self, what: impl std::fmt::Display, errno: Option<Errno>, weight: Weight) {
        if errno == Some(Errno::MFILE) {
            self.lacks_files.store(true, Relaxed);
        }
        if self.ledger.is_kept() {
            self.ledger.said(&what.to_string(), errno, weight);
        }
        if let Some(gathered) = &self.gathered {
            let said = (what.to_string(), errno);
            return gathered.lock().expect("nobody panics holding it").push(said);
        }
        let mut unsaid = self.unsaid();
        match turns::now() {
            Now { turn, keeps: true } => unsaid.keep(turn, what.to_string()),
            _ => self.called.say(what),
        }
    }

    fn unsaid(&self) -> MutexGuard<'_, Unsaid> {
        self.unsaid.lock().expect("nobody panics holding it")
    }

    /// How many lines are kept.
    pub(super) fn kept_count(&self) -> usize {
        self.unsaid().count()
    }

    /// Says what was kept for turns before this one.
    pub(super) fn say_before(&self, turn: &Turn) {
        let mut unsaid = self.unsaid();
        if unsaid.count() > 0 {
            for line in unsaid.before(turn) {
                self.called.say(line);
            }
        }
    }

    /// Says all that was kept, and this as the last thing: other threads are silent from now on.
    pub(super) fn say_last(&self, what: impl std::fmt::Display, hands: &[Hand]) {
        turns::set(Now { turn: Turn::last(), keeps: false });
        self.ledger.cut(&what.to_string(), hands);
        let mut unsaid = self.unsaid();
        for line in unsaid.all() {
            self.called.say(line);
        }
        self.called.say(what);
        std::mem::forget(unsaid);
    }

    /// Says something that is no failure.
    pub(super) fn warn(&self, what: impl std::fmt::Display) {
        self.say(what, None, Weight::Warning);
    }

    /// Whether there was a failure.
    pub(super) fn has_failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// Remembers a failure, if it is one, for the exit code. Not all that is told of is one: what
    /// need not be preserved may fail to be.
    pub(super) fn note(&self, outcome: Done) {
        if outcome.is_err() {
            self.failed.store(true, Relaxed);
        }
    }

    /// A line on standard output, in time.
    pub(super) fn line(&self, line: &[u8]) {
        let mut held = self.held.lock().expect("nobody panics holding it");
        held.extend_from_slice(line);
        held.push(b'\n');
        if held.len() >= HELD_BYTES || self.is_read_at_once() {
            self.flush_held(&mut held);
        }
    }

    /// Writes what is held back; why standard output cannot be written, if it cannot.
    pub(super) fn flush(&self) -> Option<Errno> {
        self.flush_held(&mut self.held.lock().expect("nobody panics holding it"));
        *self.mute.lock().expect("nobody panics holding it")
    }

    fn flush_held(&self, held: &mut Vec<u8>) {
        if held.is_empty() {
            return;
        }
        if self.is_read_at_once() {
            held.splice(..0, live::before_message().bytes());
        }
        let written = stdout().write_all(held);
        held.clear();
        if let Err(error) = written {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            self.mute.lock().expect("nobody panics holding it").get_or_insert(errno);
        }
    }

    fn is_read_at_once(&self) -> bool {
        *self.is_read_at_once.get_or_init(|| std::io::stdout().is_terminal())
    }

    /// How long questions have waited for their answers; none while one does. No question is asked
    /// while it is kept.
    pub(super) fn unless_asking(&self) -> Option<MutexGuard<'_, Questions>> {
        self.questions.try_lock().ok()
    }

    /// Asks a question; whether the answer is yes.
    pub(super) fn asks(&self, question: &str) -> bool {
        let mut questions = self.questions.lock().expect("nobody panics holding it");
        self.flush();
        let (name, asked) = (self.called.name.as_bytes(), Instant::now());
        let line = [live::before_message().as_bytes(), name, b": ", question.as_bytes()].concat();
        let _ = std::io::stderr().write_all(&line);
        let mut answer = Vec::new();
        // One byte at a time would be needed to leave the rest to others; the classic does not.
        let heard = match start::was_closed(0) {
            true => Err(Some(Errno::BADF)),
            false => questions.answers.read_until(b'\n', &mut answer).map_err(|_| None),
        };
        questions.waited += asked.elapsed();
        if let Err(errno) = heard {
            *self.deaf.lock().expect("nobody panics holding it") = Some(errno);
        }
        matches!(answer.first(), Some(b'y' | b'Y'))
    }

    /// Tells at the end of the limit that kept files from being opened, which the kernel's word does not name.
    pub(super) fn tell_limit(&self) {
        if self.lacks_files.load(Relaxed) {
            let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
            self.called.say(format_args!(
                "no more than {most} files may be open here: raise the limit (ulimit -n)"
            ));
        }
    }

    /// Tells that answers could not be read. The classic does so at the end, and has the word only of
    /// closing what was closed.
    pub(super) fn tell_deaf(&self) {
        let deaf = *self.deaf.lock().expect("nobody panics holding it");
        let what = "error closing file";
        let told = deaf.map(|errno| match errno {
            Some(errno) => self.failed(what, errno),
            None => self.wrong(what),
        });
        self.note(told.map_or(Ok(()), Err));
    }
}

/// What is asked, one question at a time.
pub(super) struct Questions {
    answers: BufReader<Answers>,
    /// How long all of them waited.
    pub(super) waited: Duration,
}

/// Standard input: the standard library takes one that is not open for reading for one at its end.
struct Answers;

impl Read for Answers {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        Ok(rustix::io::read(rustix::stdio::stdin(), into)?)
    }
}

/// The name in quotes.
pub(super) fn q(name: impl AsRef<OsStr>) -> String {
    always_quoted(name.as_ref())
}
