//! `--progress`: one line a stage, drawn over again on the terminal while the stages run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use bytepath::Endpoint;
use bytepath_report::numbers;
use rustix::process::Pid;
use rustix::stdio::{stderr, stdout};
use unicode_width::UnicodeWidthStr;

use super::family::{Family, Joint};
use super::process;
use super::stages::Stages;
use crate::live::{cut, in_a_line, is_heard, is_in_front};

/// Lines are drawn no more often than this; where the output goes to the same terminal, which must
/// not be drawn over, no more often than that.
const BETWEEN: Duration = Duration::from_millis(250);
const BETWEEN_OUTPUT: Duration = Duration::from_secs(1);
/// Rows and columns that are assumed where the terminal does not tell.
const SIZE: (usize, usize) = (24, 80);
/// Columns of a name.
const NAME: usize = 18;

/// The lines as they were drawn last.
#[derive(Default)]
pub(super) struct Live {
    rows: usize,
    drawn: Option<Instant>,
    /// What had gone through each pipe then.
    before: BTreeMap<u64, u64>,
}

impl Live {
    /// Draws what is known now, unless it was drawn a moment ago or the terminal is another's.
    pub(super) fn draw(&mut self, family: &Family, stages: &Stages, elapsed: Duration) {
        let beside_output = rustix::termios::isatty(stdout());
        let between = if beside_output { BETWEEN_OUTPUT } else { BETWEEN };
        let is_early = self.drawn.is_some_and(|drawn| drawn.elapsed() < between);
        if is_early || !is_ours() || !is_heard(Duration::ZERO) {
            return;
        }
        let since = self.drawn.replace(Instant::now()).map(|drawn| drawn.elapsed());
        let (rows, columns) = size();
        let mut lines = self.lines(family, stages, elapsed, since);
        // What has left the screen at its top cannot be drawn over. The cursor takes a row too.
        let most = rows.saturating_sub(2).max(1);
        if lines.len() > most + 1 {
            let last = lines.pop().unwrap_or_default();
            let more = lines.len() - (most - 1);
            lines.truncate(most - 1);
            lines.extend([format!("and {more} stages more"), last]);
        }
        let mut text = self.up();
        for line in &lines {
            // Writing to a String does not fail.
            let _ = writeln!(text, "{}\x1b[K", cut(line, columns));
        }
        let written = write(&text).iter().filter(|byte| **byte == b'\n');
        self.rows = if beside_output { 0 } else { written.count() };
    }

    /// Takes the lines away.
    pub(super) fn end(&mut self) {
        if self.rows > 0 {
            write(&(self.up() + "\x1b[J"));
        }
        self.rows = 0;
    }

    fn up(&self) -> String {
        if self.rows == 0 { String::new() } else { format!("\r\x1b[{}A", self.rows) }
    }

    fn lines(
        &mut self,
        family: &Family,
        stages: &Stages,
        elapsed: Duration,
        since: Option<Duration>,
    ) -> Vec<String> {
        let seen = family.seen();
        let mut lines = Vec::new();
        for stage in &seen {
            let Some(member) = Pid::from_raw(stage.pid).and_then(|pid| family.latest(pid)) else {
                continue;
            };
            let own_words = stages.own_words(member.pid);
            let name = in_a_line(own_words.as_deref().unwrap_or(&member.words));
            let name = cut(&name, NAME + 1);
            let gap = " ".repeat(NAME.saturating_sub(name.width()));
            let mut line = format!(
                "{name}{gap} {:>4.0}% CPU  {:16}",
                100.0 * stage.demand,
                member.doing.said()
            );
            let out = family.joints.iter().find(|(_, joint)| joint.writer == member.id());
            if let Some((number, joint)) = out {
                line.push_str(&self.flow(*number, joint, family, since));
            }
            lines.push(line);
        }
        let first = seen.first().and_then(|first| Pid::from_raw(first.pid));
        let first =
            first.filter(|pid| !process::names_files(*pid, 2, 0)).and_then(process::reads_file);
        lines.push(format!("{:.1} s{}", elapsed.as_secs_f64(), left(first, elapsed)));
        lines
    }

    fn flow(
        &mut self,
        number: u64,
        joint: &Joint,
        family: &Family,
        since: Option<Duration>,
    ) -> String {
        let full = 100 * joint.fill_bytes / (joint.holds_bytes as u64).max(1);
        let through = family.through(joint).bytes();
        let before = through.and_then(|through| self.before.insert(number, through));
        let rate = through.zip(before).zip(since).map(|((through, before), since)| {
            through.saturating_sub(before) as f64 / since.as_secs_f64().max(1e-3)
        });
        let through = through.map_or("unknown".to_owned(), numbers::bytes);
        let rate = rate.map(|rate| format!("{}/s, ", numbers::bytes(rate as u64)));
        format!(" {through}, {}{full}% full", rate.unwrap_or_default())
    }
}

/// How long it takes yet, where the first stage reads a file from its beginning on.
fn left(reads: Option<(u64, u64)>, elapsed: Duration) -> String {
    match reads {
        Some((at, bytes)) if at > 0 => {
            let whole = elapsed.as_secs_f64() * bytes as f64 / at as f64;
            format!(
                ", {}% of the file read, about {:.0} s left",
                100 * at / bytes,
                whole - elapsed.as_secs_f64()
            )
        }
        _ => String::new(),
    }
}

/// Whether the terminal is ours to draw on. One that is not our controlling terminal puts nobody in
/// its background.
fn is_ours() -> bool {
    is_in_front(stderr()).unwrap_or(true)
}

/// The terminal's rows and columns.
fn size() -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(stderr()).ok();
    let or = |told: Option<u16>, otherwise| match told {
        None | Some(0) => otherwise,
        Some(told) => usize::from(told),
    };
    (or(size.map(|size| size.ws_row), SIZE.0), or(size.map(|size| size.ws_col), SIZE.1))
}

/// Writes as much of it as there is room for, and gives that: whoever waited would answer no signal. Where
/// nobody can see it, the work goes on all the same.
fn write(text: &str) -> &[u8] {
    let Ok(end) = Endpoint::sink(stderr()) else { return &[] };
    let mut len = 0;
    while let Ok(count @ 1..) = end.write_now(&text.as_bytes()[len..]) {
        len += count;
    }
    // It may end within a letter.
    &text.as_bytes()[..len]
}
