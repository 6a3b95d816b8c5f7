//! `bytepath piece`: the part of one process in a copying that a fleet shares out; not shown in the help.
//!
//! Reads requests from standard input and answers each on standard output (words). What it does can be
//! done again, and by several at once, with the same outcome: a name that is taken is never written
//! into, but replaced by a whole file from the stage; and once the stage is gone, nobody who was
//! asleep meanwhile changes anything any more.
//!
//! SIGURG, which nobody else sends and which by default does nothing, asks for what is left of a request:
//! others have nothing to do.
//!
//! Costs per file what `cp` costs; per request a line each way.

mod ends;
mod ground;
mod large;
mod walk;
mod words;

use std::ffi::{OsStr, OsString};
use std::io::{BufRead as _, Write as _};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{AtFlags, StatxFlags};
use rustix::io::Errno;
use signal_hook::consts::SIGURG;

use super::asked;
use super::hand::Hand;
use super::ledger::Ledger;
use super::options::{Options as CopyOptions, WRONG_USAGE};
use super::place::Follow;
use super::seen::{Identity, identity};
use super::settings::{Preserve, Settings};
use super::shared::Shared;
use super::stage::Stage;
use super::tally::Tally;
use super::voice::{Said, Voice, q};
use crate::classic::Called;
use crate::streams::stdout;
use crate::sys::own_files;
use ground::Ground;
use walk::joined_below;
use words::{Answer, Failed, Item, Request, Tree};

/// Do what standard input asks for of a copying that several processes share, an answer a line
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Options {
    /// What is copied
    #[arg(long, value_name = "DIR")]
    source: PathBuf,
    /// Its device and inode: another directory of its name is not copied
    #[arg(long, value_name = "DEVICE:INODE")]
    root: Option<String>,
    /// What it is copied to
    #[arg(long, value_name = "DIR")]
    destination: PathBuf,
    /// A directory in the destination for what is not whole yet
    #[arg(long, value_name = "DIR")]
    run: PathBuf,
    /// What names of this process begin with, and no others
    #[arg(long, value_name = "WORD")]
    token: String,
    /// Options of cp
    #[arg(last = true)]
    options: Vec<OsString>,
}

/// However low a limit is, so many bytes are copied at once.
const BYTES_MIN: u64 = 64 << 10;

/// Between two entries, a process that was stopped for so long looks whether the work still goes on.
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let called = Called::as_command("cp");
    let (copy, written) = called
        .ordered_options::<CopyOptions>(options.options.clone(), WRONG_USAGE)
        .map_err(|_| anyhow!("the options for cp are not understood"))?;
    let settings = asked::settings(&called, &written)
        .map_err(|wrong| anyhow!("the options for cp do not fit together: {}", wrong.text()))?;
    // What is in the way of a link is replaced at once.
    let settings = Settings { force: true, ..settings };
    end_with_the_asker();
    let ground = Ground::new(options);
    let wanted = Arc::new(AtomicBool::new(false));
    // Without it the rest is given back when its time is over.
    let _ = signal_hook::flag::register(SIGURG, wanted.clone());
    let mut process = Process { settings, copy, called, ground, wanted };
    process.serve()
}

/// What stays the same for all requests.
struct Process {
    settings: Settings,
    copy: CopyOptions,
    called: Called,
    ground: Ground,
    /// Whether others want what is left of the request.
    wanted: Arc<AtomicBool>,
}

impl Process {
    fn serve(&mut self) -> anyhow::Result<()> {
        let ledger = Ledger::open(&self.copy.extras)?;
        let voice = Voice::gathering(&self.called, ledger);
        let umask = super::operands::umask();
        let mut out = stdout();
        for line in std::io::stdin().lock().lines() {
            let line = line.context("standard input")?;
            let request: Request = serde_json::from_str(&line).context("a request")?;
            self.wanted.store(false, Relaxed);
            if let Err(errno) = self.ground.hold() {
                let word = crate::errno::word(errno);
                bail!("cannot access {}: {word}", q(&self.ground.source));
            }
            let answer = self.answer(request, &voice, umask);
            self.ground.let_go();
            let mut line = serde_json::to_vec(&answer)?;
            line.push(b'\n');
            out.write_all(&line).context("standard output")?;
        }
        Ok(())
    }

    fn answer(&self, request: Request, voice: &Voice<'_>, umask: u32) -> Answer {
        let tally = Tally::for_threads(1);
        let (run, name) = (self.ground.run_directory(), ground::stage(request.stage));
        let stage = run
            .as_ref()
            .map_err(|errno| *errno)
            .and_then(|run| Stage::new(self.ground.own(run.as_fd(), &name)?, &self.ground.token));
        let mut answer = Answer::default();
        let staged = request.items.iter().any(needs_stage);
        if let Err(errno) = &stage
            && staged
        {
            answer.fenced = matches!(*errno, Errno::NOENT | Errno::STALE);
            if !answer.fenced {
                let at = self.ground.run.join(name);
                let word = crate::errno::word(*errno);
                answer.stop = Some(format!("cannot open {}: {word}", at.display()));
            }
            answer.rest = request.items;
            return answer;
        }
        let shared = Shared {
            settings: &self.settings,
            plan: &self.copy.plan,
            extras: &self.copy.extras,
            tally: &tally,
            hand: &tally.hands[0],
            voice,
            umask,
            stage: stage.as_ref().ok(),
            watch: None,
        };
        let preserve = Preserve { links: false, ..self.settings.preserve };
        let alone = Settings { preserve, ..self.settings.clone() };
        let work = Work {
            process: self,
            shared: &shared,
            alone: &Shared { settings: &alone, ..shared },
            pace: Pace::new(&request),
            split: request.split,
            staged,
            answer,
            own: run
                .as_ref()
                .ok()
                .and_then(|run| rustix::fs::fstat(run).ok())
                .as_ref()
                .map(identity),
            began: run.ok().and_then(born),
            sink_root: identity_of(&self.ground.sink),
            directories: Vec::new(),
            bytes_before: 0,
            bytes_in_vain: 0,
        };
        work.all(request.items)
    }
}

/// Whether it replaces files, which needs a stage, and is over without one.
fn needs_stage(item: &Item) -> bool {
    match item {
        Item::Tree(_)
        | Item::Begin { .. }
        | Item::Range { .. }
        | Item::End { .. }
        | Item::Links { .. } => true,
        Item::Attributes { .. }
        | Item::Closed { .. }
        | Item::Prepare { .. }
        | Item::Fence { .. }
        | Item::Sync
        | Item::Clean => false,
    }
}

fn identity_of(path: &Path) -> Option<Identity> {
    rustix::fs::stat(path).ok().map(|stat| identity(&stat))
}

/// When something was made, in seconds and nanoseconds, where the file system tells.
fn born(open: impl AsFd) -> Option<(i64, u32)> {
    let found = rustix::fs::statx(open, "", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
    let told = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    told.then_some((found.stx_btime.tv_sec, found.stx_btime.tv_nsec))
}

/// One request being worked on.
struct Work<'a> {
    process: &'a Process,
    /// Files with several names are left out.
    shared: &'a Shared<'a>,
    /// They are not.
    alone: &'a Shared<'a>,
    pace: Pace,
    /// Whether trees are only given back in parts.
    split: bool,
    /// Whether it is over once the stage is gone.
    staged: bool,
    answer: Answer,
    /// The directory for the work.
    own: Option<Identity>,
    /// When that was made, where the file system tells.
    began: Option<(i64, u32)>,
    /// The destination.
    sink_root: Option<Identity>,
    /// Paths of directories that are to get their attributes, each with a zero behind it.
    directories: Vec<u8>,
    /// What was copied before the range, or the entry, that it is at.
    bytes_before: u64,
    /// What was copied of those that failed, and are begun anew.
    bytes_in_vain: u64,
}

impl Work<'_> {
    fn all(mut self, items: Vec<Item>) -> Answer {
        let mut items = items.into_iter();
        for item in items.by_ref() {
            self.begins();
            self.item(item);
            if self.is_over() || self.is_wanted() {
                break;
            }
        }
        self.answer.rest.extend(items);
        self.list_directories();
        self.answer.told =
            self.shared.voice.take_gathered().into_iter().map(|said| said.0).collect();
        self.answer.files = self.shared.hand.files();
        self.answer.bytes = self.shared.hand.bytes() - self.bytes_in_vain;
        self.answer
    }

    /// From now on it is at something else.
    fn begins(&mut self) {
        self.bytes_before = self.shared.hand.bytes();
    }

    fn item(&mut self, item: Item) {
        match item {
            Item::Tree(tree) => self.tree(tree),
            Item::Begin { f, k, w } => self.begin(f, k, w),
            Item::Range { of, a, z, w } => self.range(of, (a, z), w),
            Item::End { of, size, w } => self.end(of, size, w),
            Item::Links { links } => self.links(links),
            Item::Attributes { l, a } => self.attributes(l, a),
            Item::Closed { dirs, new } => self.closed(&dirs, new),
            Item::Prepare { stages } => self.prepared(stages),
            Item::Fence { stage } => self.fence(stage),
            Item::Sync => self.sync(),
            Item::Clean => self.clean(),
        }
    }

    /// Whether the rest is to be given back.
    fn is_over(&self) -> bool {
        self.answer.fenced || self.answer.stop.is_some() || self.pace.is_over()
    }

    /// Whether what is not begun yet is to be given back.
    fn is_wanted(&self) -> bool {
        self.process.wanted.load(Relaxed)
    }

    /// Between two entries: waits where there is a limit, and looks around after a pause.
    fn breathe(&mut self) {
        // Blocks that are shared load nobody.
        let bytes = self.shared.hand.bytes_copied();
        if self.pace.step(bytes) && self.is_late() {
            self.answer.fenced = true;
        }
    }

    /// Whether the stage is gone that this needs.
    fn is_late(&self) -> bool {
        self.staged && !self.shared.stage.is_some_and(Stage::is_there)
    }

    /// Takes note of something that failed, as what was just said tells, and of what to try again.
    fn failed(&mut self, item: Item) {
        let said = self.shared.voice.take_gathered();
        self.failed_for(item, said);
    }

    fn failed_for(&mut self, item: Item, said: Vec<Said>) {
        self.was_in_vain();
        let errno = said.iter().find_map(|said| said.1);
        // An attribute that a file has no room for is told so as well.
        let full = match errno {
            Some(Errno::NOSPC) => !self.process.ground.has_room(self.data_bytes(&item)),
            errno => errno == Some(Errno::DQUOT),
        };
        let why: Vec<String> = said.into_iter().map(|said| said.0).collect();
        if full {
            // Nothing is lost by stopping: all that is left can be done when there is room.
            self.answer.stop = Some(why.join("; "));
            return self.answer.rest.push(item);
        }
        // A late one's failures are nobody's.
        if errno == Some(Errno::NOENT) && self.is_late() {
            self.answer.fenced = true;
        }
        let errno = errno.map(Errno::raw_os_error);
        self.answer.failed.push(Failed { item, why, errno });
    }

    /// The bytes of data that the files of an item have: what was written of one that is to replace
    /// another is gone again.
    fn data_bytes(&self, item: &Item) -> u64 {
        let of = |path: &OsStr| {
            let (source, _) = self.process.ground.places(path).ok()?;
            source.stat(Follow::No).ok().map(|stat| super::holes::data_bytes(&stat).cast_unsigned())
        };
        match item {
            Item::Tree(Tree { d, n: Some(names), .. }) => {
                names.iter().filter_map(|name| of(&joined_below(&d.0, &name.0))).sum()
            }
            Item::Begin { f, .. } => of(&f.0).unwrap_or(0),
            Item::Range { a, z, .. } => z - a,
            // Of what is at its end the data is there already.
            _ => 0,
        }
    }

    /// What was copied since it began does not count.
    fn was_in_vain(&mut self) {
        self.bytes_in_vain += self.shared.hand.bytes() - self.bytes_before;
        self.begins();
    }

    /// As [`Work::failed`], with the message.
    fn failed_by(&mut self, item: Item, what: String, errno: Errno) {
        let mut said = self.shared.voice.take_gathered();
        said.push((format!("{what}: {}", crate::errno::word(errno)), Some(errno)));
        self.failed_for(item, said);
    }

    fn hand(&self) -> &Hand {
        self.shared.hand
    }
}

/// How long, and how fast.
struct Pace {
    began: Instant,
    looked: Instant,
    budget: Duration,
    bytes_per_second: Option<u64>,
}

impl Pace {
    fn new(request: &Request) -> Pace {
        let now = Instant::now();
        let budget = Duration::from_millis(request.budget_ms);
        Pace { began: now, looked: now, budget, bytes_per_second: request.bytes_per_second }
    }

    /// So many bytes, or what may be copied in this time where there is a limit: whoever waits for it
    /// longer than that is taken for one who sleeps.
    fn bytes_within(&self, time: Duration, bytes: u64) -> u64 {
        match self.bytes_per_second {
            Some(rate) => {
                bytes.min((rate as f64 * time.as_secs_f64()) as u64).max(BYTES_MIN.min(bytes))
            }
            None => bytes,
        }
    }

    fn is_over(&self) -> bool {
        self.looked - self.began >= self.budget
    }

    /// Waits until so many bytes are within the limit; whether much time has passed since the last
    /// step, from which nobody knows what happened meanwhile.
    fn step(&mut self, bytes: u64) -> bool {
        let mut now = Instant::now();
        let paused = now - self.looked > PAUSE;
        if let Some(rate) = self.bytes_per_second {
            let due = self.began + Duration::from_secs_f64(bytes as f64 / rate.max(1) as f64);
            if due > now {
                std::thread::sleep(due - now);
                now = Instant::now();
            }
        }
        self.looked = now;
        paused
    }
}

/// Ends the process when whoever asks has ended, in the middle of whatever it does: the other end of
/// standard input is closed then.
fn end_with_the_asker() {
    let watch = || {
        // A table of open files that two threads share costs the one that copies a lock at each call.
        own_files::begin_empty();
        loop {
            let stdin = std::io::stdin();
            let mut ends = [PollFd::new(&stdin, PollFlags::empty())];
            match poll(&mut ends, None) {
                Err(Errno::INTR) => {}
                Err(_) => return,
                Ok(_) if ends[0].revents().intersects(PollFlags::HUP | PollFlags::ERR) => {
                    std::process::exit(0)
                }
                // Not a pipe that could tell.
                Ok(_) => return,
            }
        }
    };
    // Without a thread it ends with the next request that does not come.
    let _ = std::thread::Builder::new().name("asker".into()).spawn(watch);
}
