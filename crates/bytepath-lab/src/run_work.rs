//! The work of arms that are whole pipelines: a program that runs one, from its start to its end.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{Read, Seek};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use crate::arm::{Outcome, Timing, Work};
use crate::cmd_work::{Tolerated, file_in, said};
use crate::ends::Usage;
use crate::pair_work::waited;
use crate::pipe_work::spawn_on;

/// A pipeline that takes longer is not measured.
const PATIENCE: Duration = Duration::from_secs(600);

/// What came out of a pipeline: how it ended, how many bytes, and their hash.
pub(crate) type Output = (Option<i32>, u64, u64);

/// A pipeline, again and again.
pub(crate) struct RunWork {
    /// The program that runs it, with its words.
    pub(crate) words: Vec<String>,
    /// What runs `prepare`.
    pub(crate) shell: PathBuf,
    /// Done before each sample.
    pub(crate) prepare: Option<String>,
    /// Where the output is kept.
    pub(crate) directory: PathBuf,
    /// Which exit codes are no failure.
    pub(crate) tolerated: Tolerated,
    /// What came out first; all arms of a pipeline have to give the same.
    pub(crate) output: Rc<Cell<Option<Output>>>,
}

impl Work for RunWork {
    fn cpus(&self) -> &[usize] {
        &[]
    }

    fn sample(&self, _: &Timing) -> Result<Outcome, String> {
        if let Some(prepare) = &self.prepare {
            self.prepare(prepare)?;
        }
        let mut output = file_in(&self.directory)?;
        let mut errors = file_in(&std::env::temp_dir())?;
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]).stdin(Stdio::null());
        command.stderr(errors.try_clone().map_err(told)?);
        command.stdout(output.try_clone().map_err(told)?);
        let before = Usage::of_children();
        let began = Instant::now();
        let status = to_the_end(&mut command, PATIENCE)?;
        let seconds = began.elapsed().as_secs_f64();
        let usage = Usage::of_children().since(before);
        if let Some(why) = self.tolerated.failure(status.code(), status.signal()) {
            return Err(format!("{why}{}", said(&mut errors)));
        }
        self.check(status, &mut output)?;
        Ok(outcome(seconds, usage))
    }
}

impl RunWork {
    fn prepare(&self, text: &str) -> Result<(), String> {
        let mut command = Command::new(&self.shell);
        command.args(["-c", text]).stdin(Stdio::null()).stdout(Stdio::null());
        match to_the_end(&mut command, PATIENCE)? {
            status if status.success() => Ok(()),
            status => {
                Err(format!("what was to be done before each sample failed ({status}): {text}"))
            }
        }
    }

    /// The first output is the measure of all others.
    fn check(&self, status: ExitStatus, output: &mut File) -> Result<(), String> {
        let (bytes, hash) = hashed(output).map_err(told)?;
        let found = (status.code(), bytes, hash);
        let first = self.output.get().unwrap_or(found);
        self.output.set(Some(first));
        let differs = match first {
            first if first == found => return Ok(()),
            (code, _, _) if code != found.0 => {
                let shown = |code: Option<i32>| code.map_or("none".into(), |code| code.to_string());
                format!("code {}, not {}", shown(found.0), shown(code))
            }
            (_, other, _) if other != bytes => format!("{bytes} bytes, not {other}"),
            _ => format!("other bytes, as many ({bytes})"),
        };
        Err(format!(
            "it gave other output than the first run: {differs}; a pipeline can only be measured if it \
             gives the same every time"
        ))
    }
}

/// A program and all that it starts; ended together if it is not waited for to its end.
struct Group(Option<Child>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = kill_process_group(Pid::from_child(&child), Signal::KILL);
            let _ = child.wait();
        }
    }
}

/// Runs a program and all that it starts to its end, within `patience`.
pub(crate) fn to_the_end(command: &mut Command, patience: Duration) -> Result<ExitStatus, String> {
    let mut group = Group(Some(spawn_on(command.process_group(0), None)?));
    let child = group.0.as_mut().expect("it was just put there");
    let status = waited(child, patience)?;
    group.0 = None;
    Ok(status)
}

/// How many bytes a file has, and their hash.
pub(crate) fn hashed(output: &mut File) -> std::io::Result<(u64, u64)> {
    let (mut hasher, mut bytes) = (DefaultHasher::new(), 0);
    let mut piece = vec![0; 1 << 20];
    output.rewind()?;
    loop {
        let count = output.read(&mut piece)?;
        if count == 0 {
            return Ok((bytes, hasher.finish()));
        }
        hasher.write(&piece[..count]);
        bytes += count as u64;
    }
}

fn outcome(seconds: f64, usage: Usage) -> Outcome {
    let found = BTreeMap::from([
        ("cpu_s".to_owned(), usage.cpu_s().into()),
        ("context_switches".to_owned(), usage.switches().into()),
    ]);
    Outcome { value: seconds, seconds, found, ..Outcome::default() }
}

fn told(error: std::io::Error) -> String {
    error.to_string()
}
