//! A line on standard error that says again and again how far something is.

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

/// Time between two looks.
pub(crate) const EVERY: Duration = Duration::from_millis(200);

/// Rates are over this many looks: two seconds.
const LOOKS: usize = 10;

/// Lines on standard error, drawn over each other on a terminal.
pub(crate) struct Lines {
    terminal: bool,
    columns: usize,
}

impl Lines {
    pub(crate) fn new() -> Lines {
        Lines { terminal: std::io::stderr().is_terminal(), columns: 0 }
    }

    pub(crate) fn draw(&mut self, text: &str, last: bool) {
        let blanks = " ".repeat(self.columns.saturating_sub(text.len()));
        self.columns = text.len();
        let line = match (self.terminal, last) {
            (true, false) => format!("\r{text}{blanks}"),
            (true, true) => format!("\r{text}{blanks}\n"),
            (false, _) => format!("{text}\n"),
        };
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

/// Bytes a second over the last looks.
pub(crate) struct Rate {
    looks: Vec<(Instant, u64)>,
}

impl Rate {
    pub(crate) fn new() -> Rate {
        Rate { looks: vec![(Instant::now(), 0)] }
    }

    pub(crate) fn look(&mut self, bytes: u64) {
        if self.looks.len() > LOOKS {
            self.looks.remove(0);
        }
        self.looks.push((Instant::now(), bytes));
    }

    pub(crate) fn per_second(&self) -> f64 {
        let ((began, first), (ended, last)) = match self.looks[..] {
            [first, .., last] => (first, last),
            _ => return 0.0,
        };
        (last - first) as f64 / (ended - began).as_secs_f64().max(1e-6)
    }
}
