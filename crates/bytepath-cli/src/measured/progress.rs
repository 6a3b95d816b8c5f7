//! How far a run has come, on one line of standard error, if that is a terminal.

use std::io::{IsTerminal, Write};
use std::time::Instant;

use bytepath_lab::arm::{Arm, Measured, Timing, Work};
use bytepath_lab::interrupt;
use bytepath_lab::lab::{Explain, Observer};
use bytepath_lab::schedule::Turn;
use bytepath_report::Explained;

use super::looked_at::looked_at;
use crate::interrupt::Measuring;
use crate::live;
use crate::said::say;

/// Draws the line, and passes on the wish that the run ends.
pub(crate) struct Progress {
    _measuring: Measuring,
    terminal: bool,
    /// Whether the line can be drawn over on it.
    draws: bool,
    started: Instant,
    arms: usize,
    blocks: Option<u32>,
    done: usize,
    sample_s: f64,
}

impl Progress {
    pub(crate) fn new(timing: &Timing) -> Self {
        let measured_s = match timing.measured {
            Measured::Time(time) => time.as_secs_f64(),
            Measured::Bytes(_) => 1.0,
        };
        let terminal = std::io::stderr().is_terminal();
        Progress {
            _measuring: Measuring::begin(),
            terminal,
            draws: terminal && !live::is_dumb(),
            started: Instant::now(),
            arms: 0,
            blocks: None,
            done: 0,
            sample_s: measured_s + timing.warm_up.as_secs_f64(),
        }
    }

    /// Seconds left, by what the samples so far took.
    fn left_s(&self) -> Option<f64> {
        let samples = self.arms * usize::try_from(self.blocks?).ok()?;
        let each = match self.done {
            0 => self.sample_s,
            done => self.started.elapsed().as_secs_f64() / done as f64,
        };
        Some(samples.saturating_sub(self.done) as f64 * each)
    }

    fn line(&self, text: &str) {
        if self.draws {
            // Arms are named by what people write, and what is wider would be drawn below itself.
            let text = live::in_a_line(text);
            let text = live::cut(&text, live::columns().unwrap_or(usize::MAX));
            // A terminal that is gone is no reason to stop measuring.
            let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
        }
    }
}

impl Observer for Progress {
    fn begin(&mut self, arms: usize, blocks: Option<u32>) {
        self.started = Instant::now();
        (self.arms, self.blocks) = (arms, blocks);
    }

    fn unavailable(&mut self, arm: &str, why: &str) {
        if self.terminal {
            self.line("");
            say(format_args!("{arm} cannot run here: {why}"));
        }
    }

    fn sample(&mut self, turn: &Turn, arm: &str) {
        let block = match self.blocks {
            Some(blocks) => format!("block {} of {blocks}", turn.block + 1),
            None => format!("block {}", turn.block + 1),
        };
        let left = self.left_s().map(|left| format!(", about {left:.0} s left"));
        self.line(&format!("{block}{}: {arm}", left.unwrap_or_default()));
        self.done += 1;
    }

    fn explain(
        &mut self,
        arm: &Arm,
        work: &dyn Work,
        timing: &Timing,
        how: Explain,
    ) -> Result<Option<Explained>, String> {
        self.line(&format!("explaining {}", arm.name));
        looked_at(arm, work, timing, how)
    }

    fn interrupted(&self) -> bool {
        interrupt::wished()
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.line("");
    }
}
