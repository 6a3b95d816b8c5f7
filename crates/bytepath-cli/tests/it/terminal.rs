//! A terminal of the test's own, for what is only drawn on one.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::Winsize;

use crate::program::{BYTEPATH, Bounded, bytepath, spawned};

/// Nothing that a test waits to see takes longer.
const HANGS_AFTER: Duration = Duration::from_secs(100);

/// What a program draws on a terminal.
pub(crate) struct Screen {
    terminal: File,
    seen: Vec<u8>,
}

/// Starts the program with a terminal for its standard error, and the given standard output.
pub(crate) fn on_terminal(words: &[&str], stdout: Stdio) -> (Bounded, Screen) {
    drawing(bytepath(words).stdout(stdout))
}

/// The same with any program.
pub(crate) fn drawing(command: &mut Command) -> (Bounded, Screen) {
    let (terminal, name) = terminal();
    let other_end = File::options().read(true).write(true).open(name).expect("its other end");
    if !command.get_envs().any(|(name, _)| name == "TERM") {
        command.env("TERM", "xterm");
    }
    let program = spawned(command.stderr(other_end));
    // The command would hold the other end open.
    command.stderr(Stdio::null());
    (program, Screen { terminal: terminal.into(), seen: Vec::new() })
}

/// A terminal, and the name of its other end.
pub(crate) fn terminal() -> (OwnedFd, String) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = openpt(flags).expect("a terminal");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("it is ours");
    let name = ptsname(&terminal, Vec::new()).expect("it has a name");
    (terminal, name.to_str().expect("in plain letters").to_owned())
}

impl Screen {
    /// Reads until these words are drawn.
    #[track_caller]
    pub(crate) fn shows(&mut self, words: &str) {
        while !self.text().contains(words) {
            assert!(self.more(), "the program ended; {words:?} is not in {:?}", self.text());
        }
    }

    /// Makes it so wide from now on.
    pub(crate) fn be_wide(&self, columns: u16) {
        let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        rustix::termios::tcsetwinsize(&self.terminal, size).expect("it is ours");
    }

    /// Reads to the end, when every process has closed the terminal.
    #[track_caller]
    pub(crate) fn whole(mut self) -> String {
        while self.more() {}
        self.text()
    }

    /// What is drawn by now.
    pub(crate) fn so_far(&mut self) -> String {
        let drawn = |terminal: &File| {
            let mut fds = [PollFd::from_borrowed_fd(terminal.as_fd(), PollFlags::IN)];
            rustix::event::poll(&mut fds, Some(&Timespec::default())) == Ok(1)
        };
        while drawn(&self.terminal) && self.more() {}
        self.text()
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    #[track_caller]
    fn more(&mut self) -> bool {
        let until = Instant::now() + HANGS_AFTER;
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
        let mut fds = [PollFd::from_borrowed_fd(self.terminal.as_fd(), PollFlags::IN)];
        let ready = rustix::event::poll(&mut fds, left.as_ref());
        assert_ne!(ready, Ok(0), "hangs; it has drawn {:?}", self.text());
        let mut piece = [0; 4096];
        // EIO is the end of a terminal, but the first can come before its last bytes.
        let count = self.terminal.read(&mut piece).or_else(|_| self.terminal.read(&mut piece));
        let count = count.unwrap_or(0);
        self.seen.extend_from_slice(&piece[..count]);
        count > 0
    }
}

#[test]
fn progress_is_drawn_on_one_line_that_is_gone_at_the_end() {
    let words =
        ["bench", "pipes", "--arms", "write-read@same-cpu", "--blocks", "3", "--time", "3ms"];
    let (program, mut screen) = on_terminal(&words, Stdio::piped());
    screen.shows("block 1 of 3");
    screen.shows("write-read@same-cpu");
    let drawn = screen.whole();
    assert!(!drawn.contains('\n'), "one line: {drawn:?}");
    assert!(drawn.ends_with("\r\x1b[K"), "wiped: {drawn:?}");
    assert!(program.done().status.success());
}

#[test]
fn without_a_terminal_nothing_is_drawn() {
    let words =
        ["bench", "pipes", "--arms", "write-read@same-cpu", "--blocks", "3", "--time", "3ms"];
    crate::program::run(&mut bytepath(&words)).well();
}

#[test]
fn an_arm_that_cannot_run_is_told_of_at_once() {
    let words = ["bench", "pipes", "--arms", "write-*read@same-cpu", "--peer", "mbuffer"];
    let short = ["--blocks", "3", "--time", "3ms"];
    let mut command = bytepath(&[&words[..], &short].concat());
    let (program, screen) = drawing(command.env("PATH", "/nowhere").stdout(Stdio::piped()));
    let drawn = screen.whole();
    assert!(drawn.contains("cannot run here: mbuffer is not installed"), "{drawn:?}");
    assert!(program.done().status.success());
}

#[test]
fn wrong_usage_is_told_on_a_terminal_too() {
    let (program, screen) =
        on_terminal(&["write", "--outlet", "gift", "--json", "-"], Stdio::null());
    let drawn = screen.whole();
    assert!(drawn.contains("standard output is the pipe"), "{drawn:?}");
    assert_eq!(program.done().status.code(), Some(2));
}

#[test]
fn a_terminal_that_obeys_nothing_is_sent_letters_alone() {
    for term in ["dumb", ""] {
        for line in [
            "doctor",
            "bench overhead --blocks 3 --time 2ms --warm-up 1ms --no-store",
            "run --progress 'sleep 0.5 | cat'",
            "cp --progress /dev/null /dev/full",
            "tee --progress </dev/null",
        ] {
            let mut command = Command::new("sh");
            command.args(["-c", &format!("\"$bytepath\" {line} >&2")]).env("bytepath", BYTEPATH);
            let (program, screen) = drawing(command.env("TERM", term).stdin(Stdio::null()));
            let drawn = screen.whole();
            assert!(!drawn.is_empty() && !drawn.contains('\x1b'), "{term} {line}: {drawn:?}");
            assert!(!drawn.replace("\r\n", "").contains('\r'), "{term} {line}: {drawn:?}");
            program.done();
        }
    }
}
