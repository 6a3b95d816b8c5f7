//! The work of arms that are memory written and read in a group that is short of it: `bytepath
//! touch`.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use bytepath_report::{Figures, latency};

use super::Backend;
use super::contents::{Contents, KINDS};
use super::shortage::Shortage;
use super::stage::Stage;
use super::toucher::{PIECE_BYTES, TouchReport, WRITTEN};
use crate::arm::{Measured, Outcome, Timing, Work};
use crate::confine::Confinement;
use crate::interrupt::{self, Came};
use crate::pipe_work::{Says, end, ended, spawn_on};

/// Memory that is written and read, again and again.
pub struct TouchWork {
    /// The `bytepath` executable.
    pub program: PathBuf,
    /// How much memory there is, and what takes the pages.
    pub shortage: Shortage,
    /// What the pages hold.
    pub contents: Contents,
    /// Pages that are read in random order.
    pub random_pages: u64,
}

/// A sample is given up when it takes longer than this, and than its pages would take to go out and
/// in so often at this rate.
const PATIENCE: Duration = Duration::from_secs(60);
const SLOWEST_BYTES_PER_S: u64 = 4_000_000;
const ROUNDS_MAX: u64 = 20;

impl Work for TouchWork {
    fn is_served_by_the_kernel(&self) -> bool {
        true
    }

    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        let Measured::Bytes(bytes) = timing.measured else {
            return Err("memory is touched as a whole, however long that takes".into());
        };
        let (report, figures) = self.touched(bytes)?;
        let mut latencies = latency::empty();
        for phase in [&report.read, &report.random] {
            let text = phase.histogram.as_deref().unwrap_or_default();
            let histogram = latency::decoded(text).map_err(|error| error.to_string())?;
            latencies.add(histogram).map_err(|error| error.to_string())?;
        }
        let seconds = report.write.seconds;
        let (found, latencies) = (self.shortage.found(), Some(latencies));
        Ok(Outcome { value: seconds, seconds, found, latencies, figures, ..Outcome::default() })
    }

    /// One piece, which shows whether there is an area and a group.
    fn trial(&self, _: &Timing) -> Result<(), String> {
        self.touched(PIECE_BYTES as u64).map(drop)
    }
}

impl TouchWork {
    fn touched(&self, bytes: u64) -> Result<(TouchReport, Figures), String> {
        self.shortage.staged(|stage| {
            let mut figures = Figures::default();
            let mut child = Some(self.start(stage, bytes)?);
            stage.begins();
            let report = self.to_the_end(&mut child, stage, bytes, &mut figures);
            end(&mut child);
            let report = report?;
            self.tell(&report, stage, &mut figures);
            Ok((report, figures))
        })
    }

    fn start(&self, stage: &Stage, bytes: u64) -> Result<Child, String> {
        let confinement = Confinement { groups: stage.joined.clone(), ..Confinement::default() };
        let mut command = confinement.command(&self.program, &self.program);
        let contents =
            KINDS.iter().find(|(_, kind)| *kind == self.contents).expect("of the list").0;
        command.args(["touch", "--contents", contents, "--size", &bytes.to_string()]);
        command.args(["--random-pages", &self.random_pages.to_string()]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        spawn_on(&mut command, None)
    }

    /// Once all is written, what that takes is looked at; then it is read.
    fn to_the_end(
        &self,
        child: &mut Option<Child>,
        stage: &Stage,
        bytes: u64,
        figures: &mut Figures,
    ) -> Result<TouchReport, String> {
        let wanted = &self.shortage.wanted;
        let rate = match wanted.backend {
            Backend::SlowLoop => wanted.disk_rate.min(SLOWEST_BYTES_PER_S),
            _ => SLOWEST_BYTES_PER_S,
        };
        let patience = PATIENCE + Duration::from_secs(bytes / rate.max(1) * ROUNDS_MAX);
        let until = Instant::now() + patience;
        let running = child.as_mut().expect("it was started");
        let out = running.stdout.as_mut().expect("it has an output");
        match interrupt::wait(&*out, until).map_err(|error| error.to_string())? {
            Came::Wish => return Err("interrupted".into()),
            Came::Nothing => return Err("it did not end in time".into()),
            Came::Readable => {}
        }
        let mut word = [0; WRITTEN.len()];
        if out.read_exact(&mut word).is_ok() && word == *WRITTEN {
            stage.taken(figures);
            let mut input = running.stdin.take().expect("it has an input");
            // One that has ended says why.
            let _ = input.write_all(b"\n");
        }
        ended(child, Says::Output, patience)
    }

    fn tell(&self, report: &TouchReport, stage: &Stage, figures: &mut Figures) {
        let mut all = Figures::default();
        all.add("read in order", "s", report.read.seconds);
        all.add("read at random", "s", report.random.seconds);
        let faults = [&report.write, &report.read, &report.random].map(|phase| phase.major_faults);
        all.add("major faults", "count", faults.iter().sum::<u64>() as f64);
        all.0.append(&mut figures.0);
        stage.moved(&mut all);
        all.add("CPU user", "s", report.usage.user_s);
        all.add("CPU system", "s", report.usage.system_s);
        *figures = all;
    }
}
