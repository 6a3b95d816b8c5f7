//! A line on standard error that says again and again how far something is.

use std::io::{IsTerminal as _, Write as _};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytepath_report::numbers;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use unicode_width::UnicodeWidthStr;

/// Time between two looks.
pub(crate) const EVERY: Duration = Duration::from_millis(200);

/// Rates are over this many looks: two seconds.
const LOOKS: usize = 10;

/// Over less there is no rate: a thread's start takes as long.
const RATED_FROM: Duration = Duration::from_millis(1);

/// Whether such a line stands on the terminal, and the cursor in it or behind it.
static STANDS: AtomicBool = AtomicBool::new(false);

/// Whether such a line, or several, was drawn and nothing ended it.
pub(crate) fn stands() -> bool {
    STANDS.load(Relaxed)
}

/// Notes whether one stands now.
pub(crate) fn note(stands: bool) {
    STANDS.store(stands, Relaxed);
}

/// What has to be written before a message, so that it has a line of its own.
pub(crate) fn before_message() -> &'static str {
    if STANDS.swap(false, Relaxed) { "\n" } else { "" }
}

/// What is said where there is no thread that looks how far it is.
pub(crate) fn unseen(error: &std::io::Error) -> String {
    let word = crate::errno::word_of(error);
    format!("no thread for --progress: {word}; the job goes on without")
}

/// Whether this process's group is in front of a terminal; none where that is not its controlling one.
pub(crate) fn is_in_front(terminal: impl AsFd) -> Option<bool> {
    let group = rustix::termios::tcgetpgrp(terminal).ok()?;
    // The group may be outside of a PID namespace, and 0 then, which rustix takes for impossible.
    Some(group.as_raw_pid() == nix::unistd::getpgrp().as_raw())
}

/// Whether a line would be taken by standard error now, or after so long.
pub(crate) fn is_heard(patience: Duration) -> bool {
    let stderr = std::io::stderr();
    let mut ends = [PollFd::new(&stderr, PollFlags::OUT)];
    let patience = Timespec::try_from(patience).unwrap_or_default();
    poll(&mut ends, Some(&patience)).is_ok_and(|ready| ready > 0)
}

/// A text without what would begin lines in it, or steer the terminal.
pub(crate) fn in_a_line(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Whether a terminal obeys nothing but letters and the ends of lines, by what TERM says of it.
pub(crate) fn is_dumb() -> bool {
    std::env::var_os("TERM").is_none_or(|name| name.is_empty() || name == "dumb")
}

/// The columns of the terminal that is standard error, where it tells.
pub(crate) fn columns() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stderr()).ok();
    size.map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// As much of it as takes fewer columns than that.
pub(crate) fn cut(line: &str, columns: usize) -> &str {
    // Letters that are one on the terminal are together not as wide as each of them is alone.
    let ends: Vec<usize> = line.char_indices().map(|(at, _)| at).chain([line.len()]).collect();
    let fit = ends.partition_point(|end| line[..*end].width() < columns);
    &line[..ends[fit.saturating_sub(1)]]
}

/// Lines on standard error, drawn over each other on a terminal that obeys.
pub(crate) struct Lines {
    terminal: bool,
    columns: usize,
}

impl Lines {
    pub(crate) fn new() -> Lines {
        Lines { terminal: std::io::stderr().is_terminal() && !is_dumb(), columns: 0 }
    }

    pub(crate) fn draw(&mut self, text: &str, last: bool) {
        // One that is wider than the terminal would be drawn below itself.
        let room = columns().filter(|_| self.terminal).unwrap_or(usize::MAX);
        let text = cut(text, room);
        let columns = text.width();
        // What was drawn before stands on a line of its own where a message came behind it.
        let old = if stands() { self.columns } else { 0 };
        let blanks = " ".repeat(old.saturating_sub(columns));
        self.columns = columns;
        let line = match (self.terminal, last) {
            (true, false) => format!("\r{text}{blanks}"),
            (true, true) => format!("\r{text}{blanks}\n"),
            (false, _) => format!("{text}\n"),
        };
        note(self.terminal && !last);
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }
}

/// What so many bytes in that time are a second, in a unit that fits.
pub(crate) fn rate(bytes: u64, time: Duration) -> String {
    format!("{}/s", numbers::bytes((bytes as f64 / time.as_secs_f64().max(1e-9)) as u64))
}

/// Bytes a second over the last looks, and in the end over all.
pub(crate) struct Rate {
    began: Instant,
    looks: Vec<(Instant, u64)>,
}

impl Rate {
    /// Of what was begun then; who looks may have begun later.
    pub(crate) fn since(began: Instant) -> Rate {
        Rate { began, looks: vec![(began, 0)] }
    }

    pub(crate) fn look(&mut self, bytes: u64) {
        if self.looks.len() > LOOKS {
            self.looks.remove(0);
        }
        self.looks.push((Instant::now(), bytes));
    }

    /// Of the time since the last look, so much is not counted, whatever came in it.
    pub(crate) fn leaves_out(&mut self, time: Duration) {
        self.began += time;
        self.looks.iter_mut().for_each(|(at, _)| *at += time);
    }

    /// Since the last look none could come: where none did, that time is not counted.
    pub(crate) fn rests(&mut self, bytes: u64) {
        match self.looks.last() {
            Some((last, looked)) if *looked == bytes => {
                let rested = last.elapsed();
                self.looks.iter_mut().for_each(|(at, _)| *at += rested);
            }
            _ => self.look(bytes),
        }
    }

    /// From now on it is over the whole time: what was done is over.
    pub(crate) fn ended(&mut self, bytes: u64) {
        self.looks = vec![(self.began, 0), (Instant::now(), bytes)];
    }

    /// None over so short a time that it would tell nothing.
    pub(crate) fn per_second(&self) -> Option<f64> {
        let [(began, first), .., (ended, last)] = self.looks[..] else { return None };
        let time = Some(ended - began).filter(|time| *time >= RATED_FROM)?;
        Some(last.saturating_sub(first) as f64 / time.as_secs_f64())
    }

    /// In words, behind others.
    pub(crate) fn shown(&self) -> String {
        let shown = |rate| format!(", {}/s", numbers::bytes(rate as u64));
        self.per_second().map_or(String::new(), shown)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_cut_to_fewer_columns_than_there_are() {
        for (line, columns, shown) in [
            ("abc", 0, ""),
            ("abc", 3, "ab"),
            ("abc", 4, "abc"),
            ("管道", 4, "管"),
            ("❤\u{fe0f}❤\u{fe0f}❤\u{fe0f}", 5, "❤\u{fe0f}❤\u{fe0f}"),
        ] {
            assert_eq!(cut(line, columns), shown, "{columns}");
        }
    }

    #[test]
    fn a_rate_is_told_of_no_moment() {
        let now = Instant::now();
        let of = |ms| {
            let looks = vec![(now, 0), (now + Duration::from_millis(ms), 3_000_000)];
            Rate { began: now, looks }.shown()
        };
        assert_eq!(of(0), "");
        assert_eq!(of(1000), ", 2.86 MiB/s");
    }

    #[test]
    fn the_last_rate_is_of_the_whole_time() {
        let began = Instant::now().checked_sub(Duration::from_secs(100)).expect("an earlier time");
        let mut rate = Rate::since(began);
        for _ in 0..=LOOKS {
            rate.look(300 << 20);
        }
        assert_eq!(rate.shown(), "");
        rate.ended(300 << 20);
        let per_second = rate.per_second().expect("it took long enough");
        assert!((2 << 20..=3 << 20).contains(&(per_second as u64)), "{per_second}");
    }

    #[test]
    fn a_rate_is_not_of_the_time_in_which_nothing_could_come() {
        let before = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds));
        let (began, ended) = before(101).zip(before(100)).expect("an earlier time");
        let looks = vec![(began, 0), (ended, 3 << 20)];
        let mut rate = Rate { began, looks };
        let per_second = rate.per_second();
        rate.rests(3 << 20);
        assert_eq!(rate.per_second(), per_second);
        assert!(rate.looks[1].0 > ended);
        // What came before it rested counts.
        rate.rests(4 << 20);
        assert_eq!(rate.looks.len(), 3);
        // Of what was not begun yet there is none.
        let mut rate = Rate::since(began);
        rate.rests(0);
        assert_eq!(rate.shown(), "");
    }

    #[test]
    fn a_rate_is_not_of_the_time_that_is_left_out() {
        let before = |seconds| Instant::now().checked_sub(Duration::from_secs(seconds));
        let (began, looked) = before(103).zip(before(102)).expect("an earlier time");
        let mut rate = Rate { began, looks: vec![(began, 0), (looked, 3 << 20)] };
        rate.leaves_out(Duration::from_secs(100));
        assert_eq!(rate.shown(), ", 3.00 MiB/s");
        rate.ended(6 << 20);
        let per_second = rate.per_second().expect("it took long enough");
        assert!((1 << 20..=2 << 20).contains(&(per_second as u64)), "{per_second}");
    }

    #[test]
    fn a_line_is_cut_by_columns() {
        assert_eq!(cut("abcdef", 4), "abc");
        assert_eq!(cut("abc", 4), "abc");
        assert_eq!(cut("\u{65e5}\u{672c}\u{8a9e}", 6), "\u{65e5}\u{672c}");
        assert_eq!(cut("", 1), "");
    }
}
