//! `pv` on a terminal: signals, sizes, rows that several share, and a terminal left as it was.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use crate::program::{BYTEPATH, Bounded, installed, run, spawned, until};
use crate::pv::{lines, ours, pipe};

/// Nothing that a test waits to see takes longer.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// A terminal, of which the test is the person and the screen.
struct Terminal {
    person: File,
    other_end: File,
    seen: String,
}

impl Terminal {
    fn new(columns: u16, rows: u16) -> Terminal {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let person = openpt(flags).expect("a terminal");
        grantpt(&person).and_then(|()| unlockpt(&person)).expect("it is ours");
        let name = ptsname(&person, Vec::new()).expect("it has a name");
        let name = name.to_str().expect("plain").to_owned();
        let other_end = File::options().read(true).write(true).open(name).expect("its other end");
        let terminal = Terminal { person: person.into(), other_end, seen: String::new() };
        terminal.resize(columns, rows);
        terminal
    }

    fn resize(&self, columns: u16, rows: u16) {
        let size = Winsize { ws_col: columns, ws_row: rows, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&self.person, size).expect("sized");
    }

    /// Starts pv with the terminal for its standard error, between two pipes.
    fn start(&self, words: &[&str], environment: &[(&str, &str)]) -> Running {
        let ((reader, input), (output, into)) = (pipe().expect("pipes"), pipe().expect("pipes"));
        let mut command = ours(words);
        command.stdin(reader).stdout(into).envs(environment.iter().copied());
        let stderr = self.other_end.try_clone().expect("a second");
        let mut program = spawned(command.stderr(stderr));
        let pid = i32::try_from(program.child().id()).expect("a number");
        Running { program, pid: Pid::from_raw(pid).expect("a process"), input: Some(input), output }
    }

    /// Reads until this was drawn.
    #[track_caller]
    fn shows(&mut self, words: &str) {
        let end = Instant::now() + HANGS_AFTER;
        while !self.seen.contains(words) {
            assert!(Instant::now() < end, "hangs; {words:?} is not in {:?}", self.seen);
            self.more(end);
        }
    }

    #[track_caller]
    fn more(&mut self, end: Instant) {
        let left = Timespec::try_from(end.saturating_duration_since(Instant::now())).ok();
        let mut fds = [PollFd::from_borrowed_fd(self.person.as_fd(), PollFlags::IN)];
        let ready = rustix::event::poll(&mut fds, left.as_ref());
        assert_ne!(ready, Ok(0), "hangs; it has drawn {:?}", self.seen);
        let mut piece = [0; 4096];
        let count = self.person.read(&mut piece).expect("we hold its other end");
        self.seen += &String::from_utf8_lossy(&piece[..count]);
    }

    /// What has been drawn by now.
    fn drawn(&mut self) -> &str {
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        loop {
            let mut fds = [PollFd::from_borrowed_fd(self.person.as_fd(), PollFlags::IN)];
            if rustix::event::poll(&mut fds, Some(&now)) != Ok(1) {
                return &self.seen;
            }
            self.more(Instant::now() + HANGS_AFTER);
        }
    }

    /// Whether it echoes and gives whole lines, as it did at first.
    fn as_at_first(&self) -> bool {
        let modes = tcgetattr(&self.other_end).expect("a terminal").local_modes;
        modes.contains(LocalModes::ECHO | LocalModes::ICANON)
    }
}

/// A pv that runs.
struct Running {
    program: Bounded,
    pid: Pid,
    input: Option<OwnedFd>,
    output: OwnedFd,
}

impl Running {
    fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("it runs");
    }

    #[track_caller]
    fn gives(&mut self, bytes: &[u8]) {
        let mut writer = File::from(self.input.as_ref().expect("open").try_clone().expect("one"));
        writer.write_all(bytes).expect("taken");
        let mut got = vec![0; bytes.len()];
        File::from(self.output.try_clone().expect("one")).read_exact(&mut got).expect("moved");
        assert_eq!(got, bytes);
    }

    fn state(&self) -> Option<char> {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.pid.as_raw_nonzero())).ok()?;
        stat.rsplit_once(')')?.1.trim_start().chars().next()
    }

    /// Ends its input; its exit code.
    fn end(mut self) -> Option<i32> {
        drop(self.input.take());
        self.program.done().status.code()
    }
}

#[test]
fn a_line_is_drawn_over_and_ends_with_the_transfer() {
    let mut terminal = Terminal::new(60, 20);
    let mut pv = terminal.start(&["-b", "-i", "0.1"], &[]);
    pv.gives(b"1234567");
    terminal.shows("7.00");
    assert_eq!(pv.end(), Some(0));
    let drawn = terminal.drawn();
    assert!(drawn.starts_with("7.00") && drawn.ends_with("B\r\r\n"), "{drawn:?}");
    assert_eq!(drawn.matches('\n').count(), 1, "{drawn:?}");
}

#[test]
fn lines_are_drawn_below_a_message_and_not_over_it() {
    let mut terminal = Terminal::new(60, 20);
    let command = ["sh", "-c", "read x; echo hello; cat >/dev/null"];
    let words = ["-b", "-i", "0.1", "-M", "both", "-o", "/dev/full", "--"];
    let pv = terminal.start(&[&words[..], &command].concat(), &[]);
    terminal.shows("\x1b[A");
    let mut input = File::from(pv.input.as_ref().expect("open").try_clone().expect("one"));
    input.write_all(b"x\n").expect("taken");
    terminal.shows("No space left on device\r\n");
    drop(input);
    assert_eq!(pv.end(), Some(16));
    let drawn = terminal.drawn();
    let (_, below) = drawn.split_once("No space left on device\r\n").expect("it was said");
    assert!(!below.is_empty() && !below.starts_with("\x1b[A"), "{drawn:?}");
}

#[test]
fn a_message_leaves_the_row_that_is_drawn_at() {
    let folder = tempfile::tempdir().expect("a folder");
    let environment = [("TMPDIR", folder.path().to_str().expect("plain"))];
    let mut terminal = Terminal::new(60, 20);
    let mut pv = terminal.start(&["-c", "-b", "-i", "0.1", "-", "/nonexistent"], &environment);
    terminal.shows("\x1b[6n");
    terminal.person.write_all(b"\x1b[5;1R").expect("answered");
    pv.gives(b"1234567");
    terminal.shows("7.00");
    assert_eq!(pv.end(), Some(2));
    let drawn = terminal.drawn().to_owned();
    assert!(drawn.contains("\r\r\npv: /nonexistent: "), "{drawn:?}");
    assert!(drawn.ends_with("\x1b[5;1H\r\n"), "{drawn:?}");
}

#[test]
fn titles_of_any_length_are_set_and_wishes_are_still_taken() {
    let mut terminal = Terminal::new(200, 20);
    let long = "long ".repeat(50);
    let spec = format!("process,window:{long}%b");
    let mut pv = terminal.start(&["-i", "0.1", "-x", &spec], &[]);
    pv.gives(b"1234567");
    terminal.shows("\x1b]2;long long");
    let pid = pv.pid.as_raw_nonzero().to_string();
    let line = || fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    until("the title is set", || line().starts_with(&long) && line().contains("7.00"));
    run(&mut ours(&["-R", &pid, "-x", "process:short"])).well();
    until("it is changed", || line().trim_end_matches('\0') == "short");
    assert_eq!(pv.end(), Some(0));
}

#[test]
fn bytes_count_when_the_reader_has_taken_them() {
    let mut terminal = Terminal::new(60, 20);
    let mut pv = terminal.start(&["-b", "-i", "0.1"], &[]);
    pv.gives(b"taken");
    terminal.shows("5.00");
    File::from(pv.input.take().expect("open")).write_all(b"not taken").expect("room");
    until("they are moved", || rustix::io::ioctl_fionread(&pv.output) == Ok(9));
    // It is over, so that all of it is told, and none of it was before.
    assert_eq!(pv.end(), Some(0));
    let drawn = terminal.drawn().to_owned();
    assert_eq!(drawn.matches("14.0").count(), 1, "{drawn:?}");
}

#[test]
fn quiet_draws_nothing_on_a_terminal() {
    let mut terminal = Terminal::new(60, 20);
    let mut pv = terminal.start(&["-q"], &[]);
    pv.gives(b"1234567");
    assert_eq!(pv.end(), Some(0));
    assert_eq!(terminal.drawn(), "");
}

#[test]
fn a_signal_ends_the_line_and_the_program() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        let mut terminal = Terminal::new(60, 20);
        let mut pv = terminal.start(&["-b", "-i", "0.1"], &[]);
        pv.gives(b"x");
        terminal.shows("1.00");
        pv.signal(signal);
        assert_eq!(pv.program.done().status.code(), Some(32), "{signal:?}");
        assert!(terminal.drawn().ends_with("\r\n") && terminal.as_at_first());
    }
}

#[test]
fn a_pv_that_is_stopped_goes_on_when_it_is_continued() {
    let mut terminal = Terminal::new(60, 20);
    let mut pv = terminal.start(&["-b", "-i", "0.1"], &[]);
    pv.gives(b"x");
    terminal.shows("1.00");
    for drawn in ["2.00", "3.00"] {
        pv.signal(Signal::TSTP);
        until("it stops", || pv.state() == Some('T'));
        pv.signal(Signal::CONT);
        until("it goes on", || pv.state() != Some('T'));
        // Only then has it heard that it is to: a signal to stop that met that one half way would be the earlier.
        pv.gives(b"y");
        terminal.shows(drawn);
    }
    pv.gives(b"yz");
    terminal.shows("5.00");
    assert_eq!(pv.end(), Some(0));
}

#[test]
fn a_line_is_cut_where_the_terminal_is_too_narrow_for_it() {
    let mut terminal = Terminal::new(10, 20);
    let mut pv = terminal.start(&["-b", "-t", "-i", "0.1", "-N", "漢"], &[]);
    pv.gives(b"x");
    terminal.shows("漢:");
    assert_eq!(pv.end(), Some(0));
    let drawn = terminal.drawn();
    let line = |line: &str| line.is_empty() || line == "       漢:";
    assert!(drawn.split(['\r', '\n']).all(line), "{drawn:?}");
}

#[test]
fn a_terminal_of_any_size_that_changes_is_drawn_on() {
    let mut terminal = Terminal::new(1, 1);
    let mut pv = terminal.start(&["-i", "0.1"], &[]);
    for (columns, rows) in [(1, 1), (0, 0), (2000, 1), (7, 3)] {
        terminal.resize(columns, rows);
        pv.signal(Signal::WINCH);
        pv.gives(b"x");
    }
    assert_eq!(pv.end(), Some(0));
    assert!(terminal.drawn().ends_with('\n'));
}

#[test]
fn the_first_asks_for_the_row_and_a_second_takes_the_next() {
    let folder = tempfile::tempdir().expect("a folder");
    let environment = [("TMPDIR", folder.path().to_str().expect("plain"))];
    let mut terminal = Terminal::new(60, 20);
    let words = |name| ["-c", "-b", "-i", "0.1", "-N", name];
    // Both at once: whoever gets the lock asks, the other waits for it.
    let mut both = ["one", "two"].map(|name| terminal.start(&words(name), &environment));
    terminal.shows("\x1b[6n");
    assert!(!terminal.as_at_first(), "the answer would be echoed");
    terminal.person.write_all(b"\x1b[5;1R").expect("answered");
    for pv in &mut both {
        pv.gives(b"x");
    }
    terminal.shows("\x1b[5;1H");
    terminal.shows("\x1b[6;1H");
    terminal.shows("one:");
    terminal.shows("two:");
    assert!(terminal.as_at_first());
    let [first, second] = both;
    assert_eq!((first.end(), second.end()), (Some(0), Some(0)));
    let drawn = terminal.drawn().to_owned();
    assert_eq!(drawn.matches("\x1b[6n").count(), 1, "{drawn:?}");
    assert!(drawn.ends_with("\x1b[6;1H\r\n"), "the cursor ends below both: {drawn:?}");
    let row_of = |name: &str| {
        let line = drawn.split("\x1b[").find(|part| part.contains(name)).map(|part| &part[..1]);
        line.map(str::to_owned)
    };
    assert_ne!(row_of("one:"), row_of("two:"), "{drawn:?}");
    assert_eq!(fs::read_dir(folder.path()).expect("there").count(), 0, "nothing is left behind");
}

#[test]
fn at_the_last_row_everything_scrolls_up_for_the_second() {
    let folder = tempfile::tempdir().expect("a folder");
    let environment = [("TMPDIR", folder.path().to_str().expect("plain"))];
    let mut terminal = Terminal::new(60, 20);
    let mut first = terminal.start(&["-c", "-b", "-i", "0.1"], &environment);
    terminal.shows("\x1b[6n");
    terminal.person.write_all(b"\x1b[20;1R").expect("answered");
    first.gives(b"x");
    terminal.shows("\x1b[20;1H");
    let mut second = terminal.start(&["-c", "-b", "-i", "0.1"], &environment);
    second.gives(b"y");
    terminal.shows("\x1b[20;1H\r\n");
    terminal.shows("\x1b[19;1H");
    assert_eq!((second.end(), first.end()), (Some(0), Some(0)));
}

#[test]
fn a_signal_while_the_terminal_is_asked_leaves_it_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let environment = [("TMPDIR", folder.path().to_str().expect("plain"))];
    let mut terminal = Terminal::new(60, 20);
    let pv = terminal.start(&["-c"], &environment);
    terminal.shows("\x1b[6n");
    pv.signal(Signal::INT);
    assert_eq!(pv.program.done().status.code(), Some(32));
    assert!(terminal.as_at_first());
}

#[test]
fn bytes_move_while_the_terminal_does_not_answer() {
    let folder = tempfile::tempdir().expect("a folder");
    let environment = [("TMPDIR", folder.path().to_str().expect("plain"))];
    let mut terminal = Terminal::new(60, 20);
    let mut pv = terminal.start(&["-c", "-b", "-i", "0.1"], &environment);
    terminal.shows("\x1b[6n");
    pv.gives(&[b'x'; 3000]);
    assert_eq!(pv.end(), Some(0));
    assert!(terminal.as_at_first());
}

#[test]
fn a_terminal_that_is_gone_costs_no_byte() {
    let terminal = Terminal::new(60, 20);
    let mut pv = terminal.start(&["-i", "0.1"], &[]);
    pv.gives(b"x");
    drop(terminal);
    pv.gives(lines(100).as_bytes());
    assert_eq!(pv.end(), Some(0));
}

#[test]
fn nothing_is_drawn_from_the_background_of_a_terminal() {
    if !installed("setsid") {
        return;
    }
    // A session with a terminal, and jobs in it; tostop would stop one that writes.
    let drawn = |modes: &str, input: &str, words: &str| {
        let mut terminal = Terminal::new(60, 20);
        let end = || Stdio::from(terminal.other_end.try_clone().expect("one"));
        let job = format!("{{ {input}; }} | {BYTEPATH} pv {words} >/dev/null");
        let script = format!("stty {modes}; set -m; {job} & wait; echo over");
        let mut command = Command::new("setsid");
        command.args(["-c", "-w", "sh", "-c", &script]).stdin(end()).stdout(end()).stderr(end());
        let shell = spawned(&mut command);
        terminal.shows("over");
        let drawn = terminal.drawn().to_owned();
        drop(command);
        shell.done();
        assert!(!drawn.to_lowercase().contains("stopped"), "{words}: {drawn:?}");
        drawn.trim_end().strip_suffix("over").expect("the end").to_owned()
    };
    // What is over at once, and what is watched by another thread.
    for input in ["echo x", "echo x; sleep 0.3; echo y"] {
        for words in
            ["-b", "-n -i 0.1", "-f -i 0.1", "-c -i 0.1", "-c -f -i 0.1", "-q -v", "-q nofile -"]
        {
            assert_eq!(drawn("tostop", input, words), "", "{words}");
        }
        assert_ne!(drawn("-tostop", input, "-f -i 0.1"), "");
        assert_eq!(drawn("-tostop", input, "-b -i 0.1"), "");
    }
}
