//! `--watchfd`: how far other processes are in the files they have open. Moves nothing.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec};

use super::display::Display;
use super::live::Live;
use super::screen::Screen;
use super::signals::{Asked, Signals, stop_here};
use super::status::Status;
use super::tally::{Tail, Tally};
use super::usage::Wrong;
use super::watch::{Clock, LAST, Side, options_of};
use super::{Settings, word};

/// What is to be watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Target {
    pid: i32,
    /// `None` is every file that it has open.
    fd: Option<i32>,
}

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
                Wrong::plain(format!("-d: {}: {}", path.display(), super::word(&error)))
            })?;
            if deep == LISTS_DEEP_MAX {
                return Err(Wrong::plain(format!("-d: {}: lists in lists", path.display())));
            }
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            all.extend(targets(&lines.map(OsString::from).collect::<Vec<_>>(), deep + 1)?);
        } else {
            let wrong = || {
                let word = word.to_string_lossy();
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
            Unseen::Gone(error) => f.write_str(&word(error)),
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
    name: String,
}

/// Watches until everything is closed or gone.
pub(crate) fn run(settings: &Settings, live: &Live, words: &[OsString]) -> Result<Status, Wrong> {
    let targets = targets(words, 0)?;
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
    let signals = Signals::caught().map_err(|error| Wrong::plain(word(&error)))?;
    let screen = Screen::wanted(settings);
    let mut watching = Watching {
        settings: settings.clone(),
        live,
        screen,
        signals,
        targets: there,
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
            Err(error) => Err(format!("pid {pid}: {}", word(&error))),
        },
    }
}

struct Watching<'a> {
    settings: Settings,
    live: &'a Live,
    screen: Option<Screen>,
    signals: Signals,
    targets: Vec<Target>,
    files: BTreeMap<(i32, i32), Watched>,
    /// Lines that were drawn the last time.
    lines: usize,
}

impl Watching<'_> {
    fn run(&mut self) -> Result<Status, Wrong> {
        let mut next = Instant::now();
        loop {
            if Instant::now() >= next {
                next = Instant::now() + self.settings.interval;
                self.look()?;
                let over = self.targets.is_empty();
                self.draw(over);
                if over {
                    self.end_lines();
                    return Ok(Status::DONE);
                }
            }
            let left = next.saturating_duration_since(Instant::now());
            let timeout = Timespec::try_from(left).ok();
            let mut fds = [PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN)];
            let _ = rustix::event::poll(&mut fds, timeout.as_ref());
            for asked in self.signals.asked() {
                match asked {
                    Asked::End => {
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

    /// Takes over what another pv wants to be shown, and how often.
    fn wish(&mut self) {
        for wished in super::remote::wished() {
            let display = &mut self.settings.options.display;
            *display = super::remote::merged(display, wished.options.display.clone());
            if wished.options.display.interval.is_some() {
                self.settings.interval = wished.interval;
            }
            self.settings.size = wished.size.or(self.settings.size);
            let options = options_of(&self.settings.options.display, LAST);
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

    /// Finds out what is open now, and where it stands. Targets that are done are left out; their
    /// last lines stay.
    fn look(&mut self) -> Result<(), Wrong> {
        let mut left = Vec::new();
        for target in std::mem::take(&mut self.targets) {
            let fds = match target.fd {
                Some(fd) => vec![fd],
                None => open_files(target.pid),
            };
            let mut any =
                target.fd.is_none() && Path::new(&format!("/proc/{}", target.pid)).exists();
            any &= !is_zombie(target.pid);
            for fd in fds {
                any |= self.look_at(target.pid, fd)? && target.fd.is_some();
            }
            if any {
                left.push(target);
            }
        }
        self.targets = left;
        Ok(())
    }

    /// Takes over where a file stands; whether it is still the one that was watched.
    fn look_at(&mut self, pid: i32, fd: i32) -> Result<bool, Wrong> {
        let Ok(open) = look(pid, fd) else { return Ok(false) };
        let Ok((position, _)) = position(pid, fd) else { return Ok(false) };
        let watched = self.files.get(&(pid, fd));
        if let Some(watched) = watched
            && watched.open.identity != open.identity
        {
            let only = self.targets_one(pid, fd);
            if only {
                return Ok(false);
            }
            self.files.remove(&(pid, fd));
        }
        if !self.files.contains_key(&(pid, fd)) {
            let options = options_of(&self.settings.options.display, LAST);
            let display = Display::new(&options)?;
            let name = open.path.file_name().unwrap_or_default().to_string_lossy();
            let name = options.name.first().cloned().unwrap_or_else(|| format!("{fd}:{name}"));
            let (tally, clock) = (Tally::default(), Clock::start());
            self.files
                .insert((pid, fd), Watched { open: open.clone(), tally, clock, display, name });
        }
        if let Some(watched) = self.files.get(&(pid, fd)) {
            watched.tally.set(position, 0);
            let single = self.settings.size.filter(|_| self.files.len() == 1);
            watched.tally.set_size(single.or(open.size));
        }
        Ok(true)
    }

    /// Whether this very descriptor was asked for, and not all of its process.
    fn targets_one(&self, pid: i32, fd: i32) -> bool {
        !self.targets.contains(&Target { pid, fd: None })
            && self
                .settings
                .options
                .modes
                .watchfd
                .iter()
                .any(|word| word.to_str().and_then(target) == Some(Target { pid, fd: Some(fd) }))
    }

    fn draw(&mut self, last: bool) {
        let Some(screen) = &self.screen else { return };
        if !screen.shows_lines() {
            return;
        }
        let mut options = self.settings.options.display.clone();
        // Positions are in bytes.
        (options.line_mode, options.null) = (false, false);
        let several = self.files.len() > 1;
        let mut lines = Vec::new();
        for watched in self.files.values_mut() {
            let named = several || !options.name.is_empty();
            let name = named.then(|| watched.name.clone());
            let clock = Clock::started_before(watched.clock.elapsed());
            let side = Side {
                tally: &watched.tally,
                other: None,
                name,
                clock,
                waiting: false,
                durable: false,
                pipe: None,
                told: std::cell::Cell::new(0),
            };
            let tail = Tail::default();
            let moment = side.moment(&options, &tail, last);
            match screen.numeric() {
                true => screen.line(&watched.display.numeric_line(&moment)),
                false => lines.push(watched.display.draw(&moment, screen.width())),
            }
        }
        if lines.is_empty() {
            return;
        }
        // Back to the first of the lines drawn before.
        let up = match self.lines {
            0 | 1 => String::new(),
            lines => format!("\x1b[{}A", lines - 1),
        };
        self.lines = lines.len();
        screen.draw(&format!("{up}{}", lines.join("\n\r")), self.live);
    }

    fn end_lines(&mut self) {
        if let Some(screen) = &self.screen {
            screen.end_line(self.live);
        }
    }
}

/// A process that has ended and was not waited for has nothing open.
fn is_zombie(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X']))
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
    fn targets_are_processes_and_their_descriptors() {
        assert_eq!(target("12"), Some(Target { pid: 12, fd: None }));
        assert_eq!(target("12:3"), Some(Target { pid: 12, fd: Some(3) }));
        for text in ["", "0", "-1", "x", "12:", ":3", "12:-1", "1:2:3"] {
            assert_eq!(target(text), None, "{text}");
        }
    }
}
