//! `--watchfd`: how far other processes are in the files they have open. Moves nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};

use super::Settings;
use super::display::{Display, DisplayOptions};
use super::live::Live;
use super::remote::Told;
use super::screen::Screen;
use super::signals::{Asked, Signals, await_any, stop_here};
use super::status::Status;
use super::tally::{Tail, Tally};
use super::usage::Wrong;
use super::watch::{Clock, LAST, Side, options_of};
use crate::errno::word_of;
use crate::quote::printable;
use crate::stat::{self, Stat};

/// What is to be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target {
    pid: i32,
    /// `None` is every file that it has open.
    fd: Option<i32>,
}

/// How often it is looked where files stand, however seldom that is drawn: what is closed tells no more.
const LOOK: Duration = Duration::from_millis(50);

/// Of the time one part in so many goes into looking, where there is much to look at.
const LOOK_SHARE: u32 = 20;

/// Files named in lists that name lists end here.
const LISTS_DEEP_MAX: usize = 8;

/// Reads what follows -d: PID, PID:FD, =NAME, @LIST.
fn targets(words: &[OsString], deep: usize) -> Result<Vec<Target>, Wrong> {
    let mut all = Vec::new();
    for word in words {
        let bytes = word.as_bytes();
        if let Some(name) = bytes.strip_prefix(b"=") {
            all.extend(named(name).map(|pid| Target { pid, fd: None }));
        } else if let Some(list) = bytes.strip_prefix(b"@") {
            let path = Path::new(OsStr::from_bytes(list));
            let text = std::fs::read_to_string(path).map_err(|error| {
                Wrong::plain(format!("-d: {}: {}", printable(path), word_of(&error)))
            })?;
            if deep == LISTS_DEEP_MAX {
                return Err(Wrong::plain(format!("-d: {}: lists in lists", printable(path))));
            }
            let tells = |line: &&str| !line.is_empty() && !line.starts_with('#');
            let lines = text.lines().map(str::trim).filter(tells);
            all.extend(targets(&lines.map(OsString::from).collect::<Vec<_>>(), deep + 1)?);
        } else {
            let wrong = || {
                let word = printable(word);
                Wrong::plain(format!("-d: {word}: PID, PID:FD, =NAME or @LISTFILE is expected"))
            };
            all.push(word.to_str().and_then(target).ok_or_else(wrong)?);
        }
    }
    all.dedup();
    Ok(all)
}

fn target(text: &str) -> Option<Target> {
    let number = |text: &str| text.parse::<i32>().ok().filter(|number| *number >= 0);
    match text.split_once(':') {
        Some((pid, fd)) => {
            Some(Target { pid: number(pid).filter(|pid| *pid > 0)?, fd: Some(number(fd)?) })
        }
        None => Some(Target { pid: number(text).filter(|pid| *pid > 0)?, fd: None }),
    }
}

/// The processes whose name has these letters in it, ours left out.
fn named(name: &[u8]) -> impl Iterator<Item = i32> {
    let us = i32::try_from(std::process::id()).unwrap_or(0);
    let has = move |pid: i32| {
        let comm = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
        !name.is_empty() && memchr::memmem::find(&comm, name).is_some()
    };
    let mut pids: Vec<i32> = std::fs::read_dir("/proc")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| *pid != us && has(*pid))
        .collect();
    pids.sort_unstable();
    pids.into_iter()
}

/// A file that a process has open.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Open {
    path: PathBuf,
    /// Device, inode, and whether it is open for reading or writing.
    identity: (u64, u64, u32),
    size: Option<u64>,
}

/// Why a file cannot be watched.
#[derive(Debug)]
enum Unseen {
    /// It is closed, or its process is gone.
    Gone(std::io::Error),
    /// It has no position that means anything: a pipe, a socket, a terminal.
    NoFile,
}

impl fmt::Display for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unseen::Gone(error) => f.write_str(&word_of(error)),
            Unseen::NoFile => f.write_str("not a regular file or block device"),
        }
    }
}

/// Looks at one descriptor.
fn look(pid: i32, fd: i32) -> Result<Open, Unseen> {
    let link = format!("/proc/{pid}/fd/{fd}");
    let path = std::fs::read_link(&link).map_err(Unseen::Gone)?;
    let found = std::fs::metadata(&link).map_err(Unseen::Gone)?;
    let size = match found.file_type() {
        kind if kind.is_file() => Some(found.len()),
        kind if kind.is_block_device() => device_bytes(&link),
        _ => return Err(Unseen::NoFile),
    };
    let (_, flags) = position(pid, fd).map_err(Unseen::Gone)?;
    let way = flags & 3;
    // A file that is written is as long as it is by now, which says nothing about the whole.
    let size = size.filter(|_| way == 0 || found.file_type().is_block_device());
    Ok(Open {
        path,
        identity: (found.dev(), found.ino(), way),
        size: size.filter(|size| *size > 0),
    })
}

fn device_bytes(link: &str) -> Option<u64> {
    std::io::Seek::seek(&mut std::fs::File::open(link).ok()?, std::io::SeekFrom::End(0)).ok()
}

/// Where a descriptor stands, and its flags.
fn position(pid: i32, fd: i32) -> std::io::Result<(u64, u32)> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{fd}"))?;
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let position = field("pos:").and_then(|text| text.parse().ok()).unwrap_or(0);
    let flags = field("flags:").and_then(|text| u32::from_str_radix(text, 8).ok()).unwrap_or(0);
    Ok((position, flags))
}

/// A file that is watched, with its bar.
struct Watched {
    open: Open,
    tally: Tally,
    clock: Clock,
    display: Display,
    /// When it was seen to be closed.
    closed: Option<Instant>,
}

/// Watches until everything is closed or gone.
pub(crate) fn run(settings: &Settings, live: &Live, words: &[OsString]) -> Result<Status, Wrong> {
    let targets = targets(words, 0)?;
    let alone = matches!(targets.as_slice(), [Target { fd: Some(_), .. }]);
    let many_processes = targets.iter().any(|target| target.pid != targets[0].pid);
    let mut status = Status::DONE;
    let mut there = Vec::new();
    for target in targets {
        match seen(target) {
            Ok(()) => there.push(target),
            Err(why) => {
                live.say(format_args!("{why}"));
                status |= Status::OPEN;
            }
        }
    }
    if there.is_empty() {
        if status == Status::DONE {
            live.say(format_args!("-d: no process has such a name"));
            status = Status::OPEN;
        }
        return Ok(status);
    }
    let signals = live.signals().map_err(|error| Wrong::plain(word_of(&error)))?;
    let screen = Screen::wanted(settings);
    let mut watching = Watching {
        settings: settings.clone(),
        screen,
        signals,
        targets: there,
        alone,
        many_processes,
        folder: std::env::current_dir().unwrap_or_default(),
        files: BTreeMap::new(),
        lines: 0,
    };
    Ok(status | watching.run()?)
}

/// Whether a target is there to be watched; else why not.
fn seen(target: Target) -> Result<(), String> {
    let Target { pid, fd } = target;
    if !Path::new(&format!("/proc/{pid}")).exists() {
        return Err(format!("pid {pid}: No such process"));
    }
    match fd {
        Some(fd) => look(pid, fd).map(drop).map_err(|why| format!("pid {pid}: fd {fd}: {why}")),
        None => match std::fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("pid {pid}: {}", word_of(&error))),
        },
    }
}

struct Watching {
    settings: Settings,
    screen: Option<Screen>,
    signals: Signals,
    targets: Vec<Target>,
    /// Whether one descriptor is all that was asked for, which needs no name.
    alone: bool,
    /// Whether names need the number of the process.
    many_processes: bool,
    /// Where we are: files below it are named from here.
    folder: PathBuf,
    files: BTreeMap<(i32, i32), Watched>,
    /// Lines that were drawn the last time.
    lines: usize,
}

impl Watching {
    fn run(&mut self) -> Result<Status, Wrong> {
        let (mut next, mut next_look) = (Instant::now(), Instant::now());
        loop {
            let now = Instant::now();
            if now >= next.min(next_look) {
                self.look()?;
                next_look = now + LOOK.max(now.elapsed() * LOOK_SHARE);
            }
            let over = self.targets.is_empty();
            if over || now >= next {
                next = now + self.settings.interval;
                self.draw(over);
            }
            if over {
                self.end_lines();
                return Ok(Status::DONE);
            }
            let left = next.min(next_look).saturating_duration_since(Instant::now());
            let mut fds = [PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN)];
            await_any(&mut fds, Some(left));
            for asked in self.signals.asked() {
                match asked {
                    Asked::End(_) => {
                        self.draw(true);
                        self.end_lines();
                        return Ok(Status::SIGNAL);
                    }
                    Asked::Stop => self.stop(),
                    Asked::Continued => next = Instant::now(),
                    Asked::Resized => self.resized(),
                    Asked::Wish => self.wish(),
                }
            }
        }
    }

    fn stop(&mut self) {
        let since = Instant::now();
        stop_here();
        for file in self.files.values_mut() {
            file.clock.leave_out(since);
        }
        self.lines = 0;
        self.resized();
    }

    /// Takes over what another pv wants to be shown, and how often; tells of the first file to one that asks.
    fn wish(&mut self) {
        let told = self.files.values().next().map(|watched| Told {
            tally: &watched.tally,
            elapsed: watched.clock.elapsed(),
            counts_lines: false,
        });
        for wished in super::remote::wished(told.as_ref()) {
            let display = &mut self.settings.options.display;
            *display = super::remote::merged(display, wished.options.display.clone());
            if wished.options.display.interval.is_some() {
                self.settings.interval = wished.interval;
            }
            self.settings.size = wished.size.or(self.settings.size);
            let options = self.shown();
            for file in self.files.values_mut() {
                // What cannot be drawn is not; it goes on as before.
                let _ = file.display.change(&options);
            }
            if let Some(screen) = &mut self.screen {
                screen.give_size(options.width, options.height);
            }
        }
    }

    fn resized(&mut self) {
        if let Some(screen) = &mut self.screen {
            screen.resize();
        }
    }

    /// Finds out what is open now, and where it stands. Targets that are done are left out; what is
    /// closed is shown a little longer, and to the end where nothing is left to be watched.
    fn look(&mut self) -> Result<(), Wrong> {
        let mut left = Vec::new();
        let mut open = BTreeSet::new();
        for target in std::mem::take(&mut self.targets) {
            let fds = match target.fd {
                Some(fd) => vec![fd],
                None => open_files(target.pid),
            };
            let mut any =
                target.fd.is_none() && Path::new(&format!("/proc/{}", target.pid)).exists();
            any &= !is_zombie(target.pid);
            for fd in fds {
                if self.look_at(target, fd)? {
                    any |= target.fd.is_some();
                    open.insert((target.pid, fd));
                }
            }
            if any {
                left.push(target);
            }
        }
        self.targets = left;
        self.close_all_but(&open);
        Ok(())
    }

    fn close_all_but(&mut self, open: &BTreeSet<(i32, i32)>) {
        let now = Instant::now();
        for (place, watched) in &mut self.files {
            if !open.contains(place) && watched.closed.is_none() {
                watched.closed = Some(now);
                watched.clock.end();
            }
        }
        if !self.targets.is_empty() {
            let long_ago = |closed: Instant| now - closed > self.settings.interval;
            self.files.retain(|_, watched| !watched.closed.is_some_and(long_ago));
        }
    }

    /// Takes over where a file stands; whether it is open, and where it was asked for by its
    /// descriptor, still the one that was watched.
    fn look_at(&mut self, target: Target, fd: i32) -> Result<bool, Wrong> {
        let pid = target.pid;
        let Ok(open) = look(pid, fd) else { return Ok(false) };
        let Ok((position, _)) = position(pid, fd) else { return Ok(false) };
        if let Some(watched) = self.files.get(&(pid, fd))
            && (watched.open.identity != open.identity || watched.closed.is_some())
        {
            if target.fd.is_some() {
                return Ok(false);
            }
            self.files.remove(&(pid, fd));
        }
        if !self.files.contains_key(&(pid, fd)) {
            let display = Display::new(&self.shown())?.starting_at(position);
            let (tally, clock) = (Tally::default(), Clock::start());
            let watched = Watched { open: open.clone(), tally, clock, display, closed: None };
            self.files.insert((pid, fd), watched);
        }
        if let Some(watched) = self.files.get(&(pid, fd)) {
            watched.tally.set(position, 0);
            let asked = self.settings.size.filter(|_| self.alone);
            watched.tally.set_size(asked.or(open.size));
        }
        Ok(true)
    }

    /// The options for each file: one of several has its name before it, whatever the format.
    fn shown(&self) -> DisplayOptions {
        let mut options = options_of(&self.settings.options.display, LAST);
        // Positions are in bytes.
        (options.line_mode, options.null) = (false, false);
        options.named = !self.alone;
        options
    }

    fn draw(&mut self, last: bool) {
        let Some(screen) = &self.screen else { return };
        if !screen.shows_lines() {
            return;
        }
        let options = self.shown();
        let mut lines = Vec::new();
        for (place, watched) in &mut self.files {
            let name = match self.alone {
                true => options.name.first().cloned(),
                false => {
                    let pid = self.many_processes.then_some(place.0);
                    let path = watched.open.path.strip_prefix(&self.folder);
                    let path = path.unwrap_or(&watched.open.path).to_string_lossy();
                    Some(name(pid, place.1, &path, screen.width()))
                }
            };
            let side = Side {
                tally: &watched.tally,
                other: None,
                name,
                clock: watched.clock,
                waiting: false,
                durable: false,
                pipe: None,
                told: std::cell::Cell::new(0),
            };
            let tail = Tail::default();
            let moment = side.moment(&options, &tail, last || watched.closed.is_some());
            match screen.numeric() {
                true => screen.line(&watched.display.numeric_line(&moment)),
                false => {
                    lines.push(screen.fitted(&watched.display.draw(&moment, screen.width())));
                }
            }
        }
        lines.truncate(screen.height());
        let shown = lines.len();
        // Lines that were drawn before and are no more become empty.
        lines.resize(shown.max(self.lines), "\x1b[K".into());
        if lines.is_empty() {
            return;
        }
        let (first, back) = (up(self.lines.saturating_sub(1)), up(lines.len() - shown.max(1)));
        self.lines = shown;
        screen.draw(&format!("{first}{}{back}", lines.join("\n\r")));
    }

    fn end_lines(&mut self) {
        if let Some(screen) = &self.screen {
            screen.end_line();
        }
    }
}

/// Moves the cursor up by so many lines.
fn up(lines: usize) -> String {
    if lines == 0 { String::new() } else { format!("\x1b[{lines}A") }
}

/// What a file is called beside others: its descriptor, with that of its process where there are
/// several, and its path, without its middle where half of the line is not enough for it.
fn name(pid: Option<i32>, fd: i32, path: &str, width: usize) -> String {
    let pid = pid.map_or(String::new(), |pid| format!("{pid:8}:"));
    let room = (width / 2).saturating_sub(6 + pid.len());
    let letters = path.chars().count();
    if letters <= room {
        return format!("{pid}{fd:4}:{path}");
    }
    let before = room / 4;
    let behind = room.saturating_sub(before + "...".len());
    let begin: String = path.chars().take(before).collect();
    let end: String = path.chars().skip(letters - behind).collect();
    format!("{pid}{fd:4}:{begin}...{end}")
}

/// A process that has ended and was not waited for has nothing open.
fn is_zombie(pid: i32) -> bool {
    let state = stat::line(pid).and_then(|line| Stat::of(&line)?.field(3));
    matches!(state, Some('Z' | 'X'))
}

/// The numbers of a process's descriptors, in order.
fn open_files(pid: i32) -> Vec<i32> {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd"));
    let mut fds: Vec<i32> = entries
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect();
    fds.sort_unstable();
    fds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_lose_their_middle() {
        assert_eq!(name(None, 3, "short", 80), "   3:short");
        let path = "/a/very/long/path/to/a/file/in/a/folder";
        assert_eq!(name(None, 12, path, 80), "  12:/a/very/...h/to/a/file/in/a/folder");
        assert_eq!(name(Some(77), 3, path, 80), "      77:   3:/a/ver...file/in/a/folder");
        assert_eq!(name(None, 3, "ü漢ü漢ü漢", 1), "   3:...");
    }

    #[test]
    fn targets_are_processes_and_their_descriptors() {
        assert_eq!(target("12"), Some(Target { pid: 12, fd: None }));
        assert_eq!(target("12:3"), Some(Target { pid: 12, fd: Some(3) }));
        for text in ["", "0", "-1", "x", "12:", ":3", "12:-1", "1:2:3"] {
            assert_eq!(target(text), None, "{text}");
        }
    }
}
