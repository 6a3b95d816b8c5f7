//! Wishes from one pv to another: to change what it does (--remote), to tell how far it is
//! (--query). A wish is a file that only its owner can read, and a signal to look at it.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::{Value, json};

use super::cursor::started;
use super::display::{DisplayOptions, says_what};
use super::live::Live;
use super::signals::await_any;
use super::tally::Tally;
use super::watch::{Bar, Watch};
use super::{Options, Settings};
use crate::errno::{word, word_of};

/// How long a pv that is not stuck takes to answer, at most.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// How often the answer is looked for.
const LOOK: Duration = Duration::from_millis(10);

/// A wish is the words of a command line; longer ones are not from a pv.
const WISH_BYTES_MAX: u64 = 1 << 20;

/// Whom a wish is for: the process itself, as its number may be another's once it has ended.
#[derive(Debug)]
pub(crate) struct Target {
    process: OwnedFd,
    /// What wishes for it begin with.
    stem: String,
}

/// How a wish came out.
pub(crate) enum Came {
    /// It was taken; with the answer to a question.
    Taken(Option<Value>),
    /// It lies there to be taken by one that is stopped, or busy starting.
    Waits,
    /// There is no such pv any more.
    Gone,
}

impl Target {
    /// A pv of ours that runs.
    ///
    /// # Errors
    /// Why it is none, to be told.
    pub(crate) fn found(pid: Pid) -> Result<Target, String> {
        let number = pid.as_raw_nonzero();
        let none = |errno| format!("{number}: {}", word(errno));
        // Before anything is looked at: what is found at the number later is of this one, or for nobody.
        let process = pidfd_open(pid, PidfdFlags::empty()).map_err(none)?;
        let status = std::fs::read(format!("/proc/{number}/status"))
            .map_err(|error| format!("{number}: {}", word_of(&error)))?;
        // The name in it may be cut within a character.
        let status = String::from_utf8_lossy(&status);
        let stem = stem(pid);
        let Some(stem) = stem.filter(|_| !ends_within(&process, Duration::ZERO)) else {
            return Err(none(Errno::SRCH));
        };
        let uid = |status: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix("Uid:"))?;
            line.split_whitespace().nth(1)?.parse().ok()
        };
        if uid(&status) != Some(rustix::process::geteuid().as_raw()) {
            return Err(format!("{number}: it runs as another user, who alone can change it"));
        }
        // The signal would end a process that does not wait for it.
        if !catches_wishes(&status) || !is_bytepath(number.get()) {
            return Err(format!("{number}: it is not a pv of bytepath that takes wishes"));
        }
        Ok(Target { process, stem })
    }

    /// Waits until it has ended, at most so long; whether it has.
    pub(crate) fn ends_within(&self, most: Duration) -> bool {
        ends_within(&self.process, most)
    }

    /// Leaves a wish and waits until it is taken.
    ///
    /// # Errors
    /// It cannot be left.
    pub(crate) fn wish(&self, kind: &str, words: &[OsString]) -> std::io::Result<Came> {
        let folder = folder()?;
        sweep(&folder);
        let stem = format!("{}{}", self.stem, std::process::id());
        let (wish, answer) = (folder.join(stem.clone() + ".wish"), folder.join(stem + ".answer"));
        let mut file = tempfile::NamedTempFile::new_in(&folder)?;
        file.write_all(kind.as_bytes())?;
        for word in words {
            file.write_all(b"\0")?;
            file.write_all(word.as_bytes())?;
        }
        let _ = std::fs::remove_file(&answer);
        file.persist(&wish)?;
        let until = Instant::now() + ANSWER_TIME;
        if pidfd_send_signal(&self.process, Signal::USR2).is_err() {
            let _ = std::fs::remove_file(&wish);
            return Ok(Came::Gone);
        }
        let mut ended = false;
        loop {
            let taken = !wish.exists();
            let text = content(&answer);
            if taken && (kind == SET || text.is_some()) {
                let _ = std::fs::remove_file(&answer);
                let value =
                    text.and_then(|text| serde_json::from_str(str::from_utf8(&text).ok()?).ok());
                return Ok(Came::Taken(value));
            }
            if ended {
                let _ = std::fs::remove_file(&wish);
                return Ok(Came::Gone);
            }
            // It is no sooner looked for again; once it has ended, for what it did before.
            ended = self.ends_within(LOOK);
            if !ended && Instant::now() >= until {
                if kind == QUERY {
                    let _ = std::fs::remove_file(&wish);
                }
                return Ok(Came::Waits);
            }
        }
    }
}

fn ends_within(process: &OwnedFd, most: Duration) -> bool {
    let mut fds = [PollFd::new(process, PollFlags::IN)];
    await_any(&mut fds, Some(most));
    !fds[0].revents().is_empty()
}

/// Change what it does.
pub(crate) const SET: &str = "set";
/// Tell how far it is.
pub(crate) const QUERY: &str = "query";

fn catches_wishes(status: &str) -> bool {
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask >> (Signal::USR2.as_raw() - 1) & 1 == 1)
}

/// Whether a process runs a program of our name, be it replaced by a newer one meanwhile.
fn is_bytepath(pid: i32) -> bool {
    let name = |pid: &str| {
        let program = std::fs::read_link(format!("/proc/{pid}/exe")).ok()?;
        let name = program.file_name()?.to_string_lossy().into_owned();
        Some(name.trim_end_matches(" (deleted)").to_owned())
    };
    name("self").is_some_and(|ours| name(&pid.to_string()) == Some(ours))
}

/// What wishes for a process begin with; the number of the one that wishes follows. Its number alone may be
/// another's later, also at once, in a container that is started again.
fn stem(pid: Pid) -> Option<String> {
    let pid = pid.as_raw_nonzero().get();
    Some(format!("{PREFIX}{pid}-{}.", started(pid)?))
}

const PREFIX: &str = "bytepath-pv.";

/// Where wishes are left: a folder that only we can write to.
///
/// # Errors
/// There is none, and what to do.
fn folder() -> std::io::Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let run = PathBuf::from(format!("/run/user/{user}"));
    if rustix::fs::access(&run, rustix::fs::Access::WRITE_OK).is_ok() {
        return Ok(run);
    }
    let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).ok_or_else(|| {
        std::io::Error::other("no folder to exchange wishes in: set HOME to one of yours")
    })?;
    let folder = Path::new(&home).join(".pv");
    let made = std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), 0o700)
        .create(&folder);
    let found = match made {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => Err(error),
        _ => std::fs::metadata(&folder),
    };
    let why = match found {
        Ok(found) if is_ours(&found) && found.mode() & 0o022 == 0 => return Ok(folder),
        Ok(_) => "others may write to it".to_owned(),
        Err(error) => word_of(&error),
    };
    let shown = folder.display();
    Err(std::io::Error::other(format!(
        "{shown}: {why}; wishes are exchanged there: set HOME to a folder of yours"
    )))
}

fn is_ours(found: &Metadata) -> bool {
    found.uid() == rustix::process::geteuid().as_raw()
}

/// What a wish or an answer holds; only files of our own user count.
fn content(path: &Path) -> Option<Vec<u8>> {
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW).bits() as i32;
    let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
    let found = file.metadata().ok()?;
    if !(found.is_file() && is_ours(&found)) {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(WISH_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Removes what was left for pv's that ended before they took it.
fn sweep(folder: &Path) {
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| name.starts_with(PREFIX)) else { continue };
        let pid = name[PREFIX.len()..].split(['.', '-']).next().and_then(|pid| pid.parse().ok());
        let its = pid.and_then(Pid::from_raw).and_then(stem);
        if its.is_none_or(|its| !name.starts_with(&its)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// A wish that was left for us.
struct Wish {
    kind: OsString,
    words: Vec<OsString>,
    answer: PathBuf,
}

/// Takes the wishes that lie there.
fn taken() -> Vec<Wish> {
    let Ok(folder) = folder() else { return Vec::new() };
    let Some(stem) = stem(rustix::process::getpid()) else { return Vec::new() };
    let Ok(entries) = std::fs::read_dir(&folder) else { return Vec::new() };
    let ours = |name: &OsStr| {
        name.to_str().is_some_and(|name| name.starts_with(&stem) && name.ends_with(".wish"))
    };
    let paths = entries.flatten().filter(|entry| ours(&entry.file_name())).map(|e| e.path());
    paths.filter_map(|path| read(&path)).collect()
}

/// Reads a wish and takes it away.
fn read(path: &Path) -> Option<Wish> {
    let bytes = content(path)?;
    std::fs::remove_file(path).ok()?;
    let mut words = bytes.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec()));
    let kind = words.next()?;
    Some(Wish { kind, words: words.collect(), answer: path.with_extension("answer") })
}

/// How far a watched file is, to be told to who asks.
pub(crate) struct Told<'a> {
    pub(crate) tally: &'a Tally,
    pub(crate) elapsed: Duration,
    pub(crate) counts_lines: bool,
}

/// Answers the wishes that ask how far it is, where there is something to tell, and gives the options of
/// those that ask for a change.
pub(crate) fn wished(told: Option<&Told<'_>>) -> Vec<Settings> {
    let (changes, questions): (Vec<_>, Vec<_>) =
        taken().into_iter().partition(|wish| wish.kind == SET);
    if let Some(told) = told {
        questions.iter().for_each(|wish| tell(wish, told));
    }
    changes.into_iter().filter_map(|wish| Options::read(wish.words).ok()).collect()
}

/// Answers the wishes that lie there.
pub(crate) fn answer(watch: &mut Watch<'_>) {
    for wish in taken() {
        if wish.kind == SET {
            if let Ok(settings) = Options::read(wish.words) {
                set(&settings, watch.live);
                for Bar { side, .. } in &watch.bars {
                    if settings.size.is_some() {
                        side.tally.set_size(settings.size);
                    }
                }
                watch.change(settings);
            }
        } else if let Some(Bar { side, .. }) = watch.bars.first() {
            let counts_lines = watch.settings.options.display.counts_lines();
            let (tally, elapsed) = (side.tally, side.elapsed());
            tell(&wish, &Told { tally, elapsed, counts_lines });
        }
    }
}

/// Changes what the mover goes by.
fn set(settings: &Settings, live: &Live) {
    if settings.options.transfer.rate_limit.is_some() {
        live.set_rate(settings.rate);
    }
    if settings.options.transfer.buffer_size.is_some() {
        live.set_buffer_bytes(settings.buffer_bytes);
    }
}

fn tell(wish: &Wish, told: &Told<'_>) {
    let value = json!({
        "elapsed_s": told.elapsed.as_secs_f64(),
        "bytes": told.tally.bytes(),
        "lines": told.tally.lines(),
        "size": told.tally.size(),
        "counts_lines": told.counts_lines,
    });
    let folder = wish.answer.parent().unwrap_or(Path::new("."));
    let written = tempfile::NamedTempFile::new_in(folder).and_then(|mut file| {
        write!(file, "{value}")?;
        file.persist(&wish.answer).map_err(|error| error.error)
    });
    // Who asked sees that nothing came.
    drop(written);
}

/// What is shown after a wish: what it names is new, the rest stays; what cannot change while
/// bytes move stays as well.
pub(crate) fn merged(old: &DisplayOptions, new: DisplayOptions) -> DisplayOptions {
    let shown = says_what(&new) || !new.format.is_empty();
    let what = if shown { new.clone() } else { old.clone() };
    DisplayOptions {
        bits: new.bits || old.bits,
        si: new.si || old.si,
        gauge: new.gauge || old.gauge,
        interval: new.interval.or(old.interval),
        average_rate_window: new.average_rate_window.or(old.average_rate_window),
        width: new.width.or(old.width),
        height: new.height.or(old.height),
        name: if new.name.is_empty() { old.name.clone() } else { new.name },
        bar_style: new.bar_style.or(old.bar_style),
        extra_display: new.extra_display.or_else(|| old.extra_display.clone()),
        conemu: new.conemu || old.conemu,
        numeric: old.numeric,
        quiet: old.quiet,
        wait: old.wait,
        delay_start: old.delay_start,
        line_mode: old.line_mode,
        null: old.null,
        stats: old.stats,
        force: old.force,
        cursor: old.cursor,
        ..what
    }
}
