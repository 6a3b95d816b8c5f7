//! Rows of one terminal shared by several pv's: each draws at its own, whoever starts first.
//!
//! They agree through a file that belongs to the terminal, under its lock: where the first row is,
//! and who has which. Only the first asks the terminal where the cursor stands; who needs a row
//! below the last scrolls everything up and says so there. A pv that was killed is found out by its
//! number and start time, and its row is free again.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{FlockOperation, OFlags};
use rustix::io::Errno;
use rustix::stdio::stderr;
use rustix::termios::{LocalModes, OptionalActions, Termios};

use super::screen::{self, Screen};
use super::signals::ends;
use crate::live::note;
use crate::stat::{self, Stat};

/// How long a terminal has to say where its cursor stands; one over a slow line takes a while.
const ANSWER_TIME: Duration = Duration::from_millis(1000);

/// A terminal's answer is shorter than this.
const ANSWER_BYTES_MAX: usize = 64;

/// How often the lock is tried.
const LOCK_LOOK: Duration = Duration::from_millis(5);

/// How often the file may be removed by another while we wait for its lock.
const REMOVED_MAX: usize = 100;

/// Our rows.
pub(crate) struct Row {
    file: File,
    path: PathBuf,
    us: Owner,
}

/// Who has rows: from `first` on, counted from the base.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    pid: i32,
    /// When it was started, so that a number given anew is not taken for it.
    started: u64,
    first: usize,
    rows: usize,
}

/// What the file says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Shared {
    /// The terminal's row that is the first of all, counted from 1.
    base: usize,
    /// How many rows were ever taken.
    rows: usize,
    owners: Vec<Owner>,
}

impl Row {
    /// Takes `rows` rows of the terminal; nothing where they cannot be shared, so that lines are
    /// drawn as without --cursor.
    pub(crate) fn taken(screen: &Screen, rows: usize) -> Option<Row> {
        let device = rustix::fs::fstat(stderr()).ok()?.st_rdev;
        let user = rustix::process::geteuid().as_raw();
        let folder = ["TMPDIR", "TMP"]
            .iter()
            .find_map(|name| std::env::var_os(name).filter(|folder| !folder.is_empty()));
        let folder = PathBuf::from(folder.unwrap_or_else(|| "/tmp".into()));
        let path = folder.join(format!("bytepath-pv-{user}-{device:x}.rows"));
        let mut file = opened(&path, user)?;
        let mut shared = Shared::read(&mut file);
        shared.owners.retain(Owner::lives);
        if shared.owners.is_empty() {
            shared = Shared { base: cursor_row(screen), ..Shared::default() };
        }
        let us = shared.join(rows, screen.height());
        shared.write(&mut file).ok()?;
        rustix::fs::flock(&file, FlockOperation::Unlock).ok()?;
        Some(Row { file, path, us })
    }

    /// Draws a line at each of our rows.
    pub(crate) fn draw(&mut self, lines: &[String], screen: &Screen) {
        self.locked(|us, shared| {
            let rows = lines.iter().zip(shared.base + us.first..).take(us.rows);
            let text: String = rows
                .filter(|(_, row)| *row <= screen.height())
                .map(|(line, row)| format!("\x1b[{row};1H{line}\r"))
                .collect();
            screen::drawn(format_args!("{text}"));
            false
        });
    }

    /// Gives the rows up; the last one leaves the cursor below all of them.
    pub(crate) fn end(mut self, screen: &Screen) {
        let path = std::mem::take(&mut self.path);
        self.locked(|us, shared| {
            note(false);
            shared.owners.retain(|owner| owner != us);
            if shared.owners.is_empty() {
                let row = (shared.base + shared.rows).saturating_sub(1).clamp(1, screen.height());
                screen::write(format_args!("\x1b[{row};1H\n"));
                // Who waits for its lock makes another.
                let _ = std::fs::remove_file(path);
            }
            true
        });
    }

    /// Does something with what the file says, alone; and writes it back if it says so.
    fn locked(&mut self, work: impl FnOnce(&Owner, &mut Shared) -> bool) {
        if !is_locked(&self.file) {
            return;
        }
        let mut shared = Shared::read(&mut self.file);
        if work(&self.us, &mut shared) {
            let _ = shared.write(&mut self.file);
        }
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// Waits for the lock, which whoever draws on a terminal that takes nothing keeps; but not if we were asked
/// to end.
fn is_locked(file: &File) -> bool {
    loop {
        match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK | Errno::INTR) if !ends() => std::thread::sleep(LOCK_LOOK),
            locked => return locked.is_ok(),
        }
    }
}

/// The file at `path`, locked; nothing where it is not ours.
fn opened(path: &Path, user: u32) -> Option<File> {
    let nofollow = i32::try_from(OFlags::NOFOLLOW.bits()).ok()?;
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o600).custom_flags(nofollow);
    for _ in 0..REMOVED_MAX {
        let file = options.open(path).ok()?;
        let found = file.metadata().ok()?;
        if found.uid() != user || !found.is_file() {
            return None;
        }
        if !is_locked(&file) {
            return None;
        }
        match file.metadata().ok()?.nlink() {
            0 => {}
            1 => return Some(file),
            // Another name of it may be a file that is not ours to change.
            _ => return None,
        }
    }
    None
}

impl Shared {
    /// What cannot be read says nothing.
    fn read(file: &mut File) -> Shared {
        let mut text = String::new();
        let read = file.rewind().and_then(|()| file.read_to_string(&mut text));
        read.ok().and_then(|_| Shared::parsed(&text)).unwrap_or_default()
    }

    fn parsed(text: &str) -> Option<Shared> {
        let mut lines = text.lines().map(|line| {
            line.split(' ').map(|word| word.parse::<u64>().ok()).collect::<Option<Vec<_>>>()
        });
        let small = |number: u64| usize::try_from(number).ok();
        let head = lines.next()??;
        let [base, rows] = head[..] else { return None };
        let mut shared = Shared { base: small(base)?, rows: small(rows)?, owners: Vec::new() };
        for line in lines {
            let [pid, started, first, rows] = line?[..] else { return None };
            let (first, rows) = (small(first)?, small(rows)?);
            shared.owners.push(Owner { pid: i32::try_from(pid).ok()?, started, first, rows });
        }
        Some(shared)
    }

    fn text(&self) -> String {
        let mut text = format!("{} {}\n", self.base, self.rows);
        for Owner { pid, started, first, rows } in &self.owners {
            text += &format!("{pid} {started} {first} {rows}\n");
        }
        text
    }

    fn write(&self, file: &mut File) -> std::io::Result<()> {
        file.set_len(0)?;
        file.rewind()?;
        file.write_all(self.text().as_bytes())
    }

    /// Takes rows below those that are taken; scrolls the terminal where it ends before them.
    fn join(&mut self, rows: usize, height: usize) -> Owner {
        let taken = self.owners.iter().map(|owner| owner.first + owner.rows);
        let first = taken.max().unwrap_or(0);
        self.rows = self.rows.max(first + rows);
        let beyond = (self.base + self.rows).saturating_sub(height + 1);
        if beyond > 0 {
            let lines = "\n".repeat(beyond);
            screen::write(format_args!("\x1b[{height};1H{lines}"));
            self.base = self.base.saturating_sub(beyond).max(1);
        }
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let us = Owner { pid, started: started(pid).unwrap_or(0), first, rows };
        self.owners.push(us.clone());
        us
    }
}

impl Owner {
    fn lives(&self) -> bool {
        started(self.pid) == Some(self.started)
    }
}

/// When a process was started, in ticks since the machine was.
pub(super) fn started(pid: i32) -> Option<u64> {
    Stat::of(&stat::line(pid)?)?.field(22)
}

/// The row of the cursor, counted from 1; the last one where the terminal does not tell.
fn cursor_row(screen: &Screen) -> usize {
    let row = screen.in_foreground().then(asked_row).flatten();
    row.unwrap_or(screen.height()).clamp(1, screen.height().max(1))
}

/// The terminal without echo and without waiting for the end of a line, until this is dropped.
struct Unbuffered<'t> {
    terminal: &'t File,
    before: Termios,
}

impl<'t> Unbuffered<'t> {
    fn set(terminal: &'t File) -> Option<Self> {
        let before = rustix::termios::tcgetattr(terminal).ok()?;
        let mut now = before.clone();
        now.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        rustix::termios::tcsetattr(terminal, OptionalActions::Now, &now).ok()?;
        Some(Unbuffered { terminal, before })
    }
}

impl Drop for Unbuffered<'_> {
    fn drop(&mut self) {
        let _ = rustix::termios::tcsetattr(self.terminal, OptionalActions::Now, &self.before);
    }
}

/// Asks the terminal where its cursor stands. Signals that would end or stop us are only noted
/// meanwhile, so that the terminal is set back whatever comes.
fn asked_row() -> Option<usize> {
    // One that takes nothing now is not waited for.
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).ok()?;
    let mut options = File::options();
    options.read(true).write(true).custom_flags(flags);
    let mut terminal = options.open("/proc/self/fd/2").ok()?;
    let unbuffered = Unbuffered::set(&terminal)?;
    let mut writer = &terminal;
    writer.write_all(b"\x1b[6n").ok()?;
    let until = Instant::now() + ANSWER_TIME;
    let mut answer = Vec::new();
    while !answer.ends_with(b"R") && answer.len() < ANSWER_BYTES_MAX {
        let left = until.saturating_duration_since(Instant::now());
        let left = Timespec::try_from(left).ok()?;
        let mut fds = [PollFd::from_borrowed_fd(terminal.as_fd(), PollFlags::IN)];
        match rustix::event::poll(&mut fds, Some(&left)) {
            Ok(0) => return None,
            Err(rustix::io::Errno::INTR) => continue,
            _ => {}
        }
        let mut byte = [0];
        if (&terminal).read(&mut byte).ok()? == 0 {
            return None;
        }
        answer.push(byte[0]);
    }
    drop(unbuffered);
    terminal.flush().ok()?;
    row_in(&answer)
}

/// The row in an answer like ESC [ 12 ; 1 R, whatever was typed before it.
fn row_in(answer: &[u8]) -> Option<usize> {
    let text = String::from_utf8_lossy(answer);
    let (_, place) = text.rsplit_once("\x1b[")?;
    place.strip_suffix('R')?.split(';').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let owner = |pid, first| Owner { pid, started: 77, first, rows: 1 };
        let shared = Shared { base: 5, rows: 3, owners: vec![owner(10, 0), owner(11, 2)] };
        assert_eq!(Shared::parsed(&shared.text()), Some(shared));
        for text in ["", "5", "5 x\n", "5 3\n1 2 3\n", "5 3\n-1 2 3 4\n"] {
            assert_eq!(Shared::parsed(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_file_that_was_removed_while_its_lock_was_waited_for_is_made_anew() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows");
        let user = rustix::process::geteuid().as_raw();
        let first = opened(&path, user).expect("ours");
        let inode = format!(":{} ", first.metadata().expect("it is open").ino());
        let is_waited_for = || {
            let locks = std::fs::read_to_string("/proc/locks").unwrap_or_default();
            locks.lines().any(|line| line.contains("->") && line.contains(&inode))
        };
        std::thread::scope(|scope| {
            let second = scope.spawn(|| opened(&path, user).expect("made anew"));
            // Some containers do not show locks.
            for _ in 0..10_000 {
                if is_waited_for() {
                    break;
                }
                std::thread::yield_now();
            }
            std::fs::remove_file(&path).expect("it is there");
            drop(first);
            let second = second.join().expect("it does not panic");
            let found = path.metadata().expect("it is there again");
            assert_eq!(second.metadata().expect("it is open").ino(), found.ino());
        });
    }

    #[test]
    fn the_row_is_found_behind_what_was_typed() {
        assert_eq!(row_in(b"abc\x1b[A\x1b[12;40R"), Some(12));
        assert_eq!(row_in(b"\x1b[;R"), None);
        assert_eq!(row_in(b"R"), None);
    }

    #[test]
    fn this_process_lives_and_another_of_its_number_does_not() {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        let started = started(pid).expect("it runs");
        assert!(Owner { pid, started, first: 0, rows: 1 }.lives());
        assert!(!Owner { pid, started: started + 1, first: 0, rows: 1 }.lives());
    }
}
