//! `--metrics`: how far a job is, in the text format of Prometheus: in a file that is replaced every
//! second, or to whoever asks for it by HTTP on a Unix socket.
//!
//! Costs a thread that wakes once a second (or when asked) and reads what the mover counts anyway:
//! nothing per chunk. Nothing that goes wrong here ever holds up or fails the job.

mod figures;
mod page;
mod served;

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU16, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use clap::Args;
use clap::builder::{OsStringValueParser, TypedValueParser};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use signal_hook::flag::register_usize;
use signal_hook::iterator::Signals;

use crate::output::{self, Renewed};
use crate::said::say;
use crate::sys::actions::{Quiet, heeded};
use crate::sys::start;
pub(crate) use figures::{Figures, PipeFigures, StageFigures};
use page::Page;

/// The option of every mover that may take long.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct MetricsOptions {
    /// Tell how far the job is, as metrics of Prometheus: in FILE, which is replaced whole every second
    /// and at the end (one that ends in .prom, in the folder of node_exporter's textfile collector), or
    /// to whoever asks for /metrics by HTTP on the Unix socket PATH
    #[arg(long, value_name = "FILE|unix:PATH", help_heading = "Metrics", value_parser = OsStringValueParser::new().try_map(Target::of))]
    pub(crate) metrics: Option<Target>,
}

/// Where the metrics go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    File(PathBuf),
    Socket(PathBuf),
}

impl Target {
    fn of(word: OsString) -> Result<Target, String> {
        let bytes = word.as_bytes();
        match bytes.strip_prefix(b"unix:") {
            Some(b"") => Err("unix: is followed by the path of the socket".into()),
            Some(path) => Ok(Target::Socket(OsString::from_vec(path.to_vec()).into())),
            None if bytes.is_empty() || bytes == b"-" => {
                Err("a file that can be replaced is needed, or unix:PATH".into())
            }
            None => Ok(Target::File(word.into())),
        }
    }

    fn path(&self) -> &PathBuf {
        let (Target::File(path) | Target::Socket(path)) = self;
        path
    }
}

/// Time between two writings of the file.
const EVERY: Duration = Duration::from_secs(1);
/// What the end of the job waits for its last state to be told, at most: where the folder hangs (a
/// network's), nobody waits for it.
const LAST: Duration = Duration::from_secs(2);

/// The code while the job runs; above every exit code.
const RUNNING: u16 = u16::MAX;

/// The one job of this process that is told of.
struct Telling {
    code: AtomicU16,
    /// Wakes the thread that tells.
    wake: OwnedFd,
    /// The thread is done.
    over: Mutex<Receiver<()>>,
    /// Says how far the job is, once that can be said.
    figures: Mutex<Option<Source>>,
}

static TELLING: OnceLock<Telling> = OnceLock::new();

impl MetricsOptions {
    /// The file that is replaced, if any is.
    pub(crate) fn file(&self) -> Option<&Path> {
        match &self.metrics {
            Some(Target::File(path)) => Some(path),
            Some(Target::Socket(_)) | None => None,
        }
    }

    /// Sees that the file is none of those that are read and written.
    ///
    /// # Errors
    /// Which it is.
    pub(crate) fn check<'n>(
        &self,
        operands: impl IntoIterator<Item = &'n OsStr>,
    ) -> Result<(), String> {
        output::replaces_none("--metrics", self.file(), operands)
    }

    /// Tells of the job from now on until [`ended`], where that was asked for, and of a signal that ends
    /// it before the command [`answers`] it. Those that are ignored stay so. To be called as soon as it is
    /// known that no file of the job is replaced: what fails after this is told as well.
    pub(crate) fn begin(&self, command: &'static str) {
        if let Some(target) = &self.metrics {
            // Before the first page, which a signal that comes then would leave as it is.
            heed_signals(|| {
                let page = Page::of(command, target.path());
                if let Err(error) = start(target.clone(), page) {
                    warn(format_args!("no thread for --metrics: {error}; the job goes on without"));
                }
            });
        }
    }

    /// The same for a command that may be the first process of a container and answers some signals never:
    /// it ends by them only where they are caught, also where nothing is told.
    pub(crate) fn begin_and_heed_signals(&self, command: &'static str) {
        if self.metrics.is_none() && rustix::process::getpid().is_init() {
            heed_signals(|| {});
        }
        self.begin(command);
    }
}

/// Says how far the job is from now on; it is called from another thread. Until this is known, nothing was
/// moved.
pub(crate) fn measured_by(figures: impl Fn() -> Figures + Send + 'static) {
    if let Some(telling) = TELLING.get() {
        *telling.figures.lock().unwrap_or_else(PoisonError::into_inner) = Some(Box::new(figures));
    }
}

/// The signals that end the job while nobody else answers them.
#[derive(Default)]
struct Heeding {
    /// The last that came, or 0.
    came: Arc<AtomicUsize>,
    /// Those that the command answers itself, a bit each.
    answered: AtomicU64,
}

static HEEDING: OnceLock<Heeding> = OnceLock::new();

/// Catches the signals that end the job, begins it, and lets another thread wait for one, tell so, and
/// end it.
fn heed_signals(begin: impl FnOnce()) {
    let signals: Vec<i32> = heeded().collect();
    let heeding = HEEDING.get_or_init(Heeding::default);
    let caught = caught(&signals, &heeding.came);
    begin();
    // Where they cannot be caught, they end it without a word.
    let Ok(mut caught) = caught else { return end_at_once(&signals) };
    let heed = move || {
        for signal in caught.forever() {
            if heeding.answered.load(SeqCst) & bit(signal) == 0 {
                ended_by(signal);
                crate::ending::by_signal(signal);
            }
        }
    };
    if deaf("signals", heed).is_err() {
        end_at_once(&signals);
    }
}

fn caught(signals: &[i32], came: &Arc<AtomicUsize>) -> std::io::Result<Signals> {
    let _quiet = Quiet::begin();
    for signal in signals {
        register_usize(*signal, came.clone(), signal.unsigned_abs() as usize)?;
    }
    Signals::new(signals)
}

/// Has them end it as they do where nobody caught them.
pub(crate) fn end_at_once(signals: &[i32]) {
    for signal in signals {
        let _ = crate::ending::by_signal_while(*signal, Arc::new(true.into()));
    }
}

fn bit(signal: i32) -> u64 {
    1 << signal
}

/// The command answers these signals itself from now on. Its handlers are there by now.
pub(crate) fn answers(signals: &[i32]) {
    let Some(heeding) = HEEDING.get() else { return };
    let all = signals.iter().fold(0, |all, signal| all | bit(*signal));
    let is_first = heeding.answered.fetch_or(all, SeqCst) & all != all;
    // One that came before is not known to the command, and no longer heeded.
    let came = i32::try_from(heeding.came.load(SeqCst)).unwrap_or_default();
    if is_first && signals.contains(&came) {
        ended_by(came);
        crate::ending::by_signal(came);
    }
}

/// The command answers none any more: from now on each ends the job, and that is told. The last that came
/// before, or 0; none where nobody tells.
pub(crate) fn answers_no_more() -> Option<usize> {
    let heeding = HEEDING.get()?;
    heeding.answered.store(0, SeqCst);
    Some(heeding.came.load(SeqCst))
}

type Source = Box<dyn Fn() -> Figures + Send>;

fn start(target: Target, page: Page) -> std::io::Result<()> {
    let (done, over) = channel();
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
    let (code, over) = (AtomicU16::new(RUNNING), Mutex::new(over));
    let telling = Telling { code, wake, over, figures: Mutex::default() };
    let telling = TELLING.get_or_init(|| telling);
    // What is there now, before the job makes anything.
    let file = Renewed::of(target.path().clone(), page::BEGINS);
    deaf("metrics", move || tell((target, file), telling, &page, &done))
}

/// Begins a thread that gets no signals: they are for those that expect them.
fn deaf(name: &str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let _quiet = Quiet::begin();
    std::thread::Builder::new().name(name.into()).spawn(work).map(drop)
}

/// What the thread does: each of the ways ends when the job does.
fn tell((target, mut file): (Target, Renewed), telling: &Telling, page: &Page, done: &Sender<()>) {
    match target {
        Target::File(path) => {
            let mut warned = false;
            loop {
                let code = telling.code();
                let text = page.text(&telling.figures(), code);
                if let Err(error) = file.write(text.as_bytes())
                    && !std::mem::replace(&mut warned, true)
                {
                    let path = path.display();
                    warn(format_args!(
                        "--metrics: cannot write {path}: {error:#}; the job goes on without"
                    ));
                }
                if code.is_some() {
                    break;
                }
                telling.wait(Some(EVERY), []);
            }
        }
        Target::Socket(path) => {
            served::serve(&path, telling, || page.text(&telling.figures(), telling.code()))
        }
    }
    // Nobody listens any more where the end came too late.
    let _ = done.send(());
}

impl Telling {
    /// The exit code, once the job has ended.
    fn code(&self) -> Option<u16> {
        Some(self.code.load(SeqCst)).filter(|code| *code != RUNNING)
    }

    fn figures(&self) -> Figures {
        let source = self.figures.lock().unwrap_or_else(PoisonError::into_inner);
        source.as_ref().map(|source| source()).unwrap_or_default()
    }

    /// Waits for the end, or for somebody at one of these sockets, at most so long.
    fn wait<'s>(
        &'s self,
        most: Option<Duration>,
        sockets: impl IntoIterator<Item = BorrowedFd<'s>>,
    ) {
        let timeout = most.and_then(|most| Timespec::try_from(most).ok());
        let fds = [self.wake.as_fd()].into_iter().chain(sockets);
        let mut fds: Vec<_> = fds.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // An interruption is one more look.
        let _ = poll(&mut fds, timeout.as_ref());
    }
}

/// The job has ended, or is about to be, with this code: its last state is told. Costs nothing where
/// nothing is told.
pub(crate) fn ended(code: u8) {
    let Some(telling) = TELLING.get() else { return };
    if telling.code.compare_exchange(RUNNING, code.into(), SeqCst, SeqCst).is_ok() {
        let _ = rustix::io::write(&telling.wake, &1u64.to_ne_bytes());
    }
    // Also where another thread said so first, as a signal does while the job ends.
    if let Ok(over) = telling.over.lock() {
        let _ = over.recv_timeout(LAST);
    }
}

/// The same, at the end of `main`.
pub(crate) fn ended_with(code: ExitCode) {
    if TELLING.get().is_some() {
        ended(start::number(code));
    }
}

/// By a signal, as shells number that.
pub(crate) fn ended_by(signal: i32) {
    ended(u8::try_from(128 + signal).unwrap_or(u8::MAX));
}

fn warn(text: std::fmt::Arguments<'_>) {
    say(format_args!("bytepath: {text}"));
}
