//! The work of arms that pass a file from one process to another: two processes of `bytepath pass`.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::arm::{INTACT, Measured, Outcome, Timing, Work};
use crate::ends::{EndReport, GIB, Starter};
use crate::passing::control::GAVE_UP;
use crate::passing::{Keeps, Way, controls};
use crate::pipe_work::{EndedOnDrop, NO_REPORT, Says, costs, ended};

/// A file that is passed from a sender to a receiver.
pub struct PassWork {
    /// The `bytepath` executable.
    pub program: PathBuf,
    /// By what way.
    pub way: &'static dyn Way,
    /// What becomes of the bytes.
    pub keeps: Keeps,
    /// The file.
    pub file: PathBuf,
    /// What it has.
    pub bytes: u64,
    /// Its XXH3 checksum.
    pub checksum: u64,
    /// Where files are made.
    pub directory: PathBuf,
    /// The sender's CPU and the receiver's; where not given, the kernel chooses.
    pub cpus: Option<[usize; 2]>,
}

/// Longer than this over the time that the slowest way takes, a sample is not waited for.
const PATIENCE: Duration = Duration::from_secs(60);

impl PassWork {
    fn end(&self, role: &str, keeps: Keeps, cpu: Option<usize>) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["pass", role, "--way", self.way.name(), "--sink", keeps.name()]);
        command.arg("--dir").arg(&self.directory);
        command.args(cpu.map(|cpu| format!("--cpu={cpu}")));
        command.args(Starter::this().words()).stderr(Stdio::piped());
        command
    }

    /// The sender and the receiver.
    fn start(&self, keeps: Keeps) -> Result<(EndedOnDrop, EndedOnDrop), String> {
        let told = |error: std::io::Error| error.to_string();
        let (near, far) = controls().map_err(told)?;
        let file = File::open(&self.file)
            .map_err(|error| format!("cannot open {}: {error}", self.file.display()))?;
        let [sender_cpu, receiver_cpu] = self.cpus.map_or([None; 2], |cpus| cpus.map(Some));
        let mut receiver = self.end("receive", keeps, receiver_cpu);
        receiver.stdin(near).stdout(Stdio::piped());
        let receives = EndedOnDrop::spawn_on(&mut receiver, receiver_cpu)?;
        // Its control socket is ours too until it is forgotten, and the sender waits for its end.
        drop(receiver);
        let mut sender = self.end("send", keeps, sender_cpu);
        sender.stdin(file).stdout::<OwnedFd>(far);
        let sends = EndedOnDrop::spawn_on(&mut sender, sender_cpu)?;
        Ok((sends, receives))
    }

    fn passed(&self, keeps: Keeps) -> Result<Outcome, String> {
        let (mut sends, mut receives) = self.start(keeps)?;
        // The slowest machines move 64 MiB/s.
        let patience = PATIENCE + Duration::from_secs(self.bytes >> 26);
        let received: Result<EndReport, _> = ended(&mut receives.0, Says::Output, patience);
        drop(receives);
        let sent: Result<EndReport, _> = ended(&mut sends.0, Says::Errors, patience);
        let (received, sent) = match (received, sent) {
            (Ok(received), Ok(sent)) => (received, sent),
            (received, sent) => return Err(failure(received.err(), sent.err())),
        };
        let mut found = self.found(&received)?;
        found.extend(sent.found.clone());
        // A receiver that waits for nothing may be done before the sender.
        let seconds = received.seconds.max(sent.seconds);
        Ok(Outcome {
            value: received.bytes as f64 / GIB / seconds.max(1e-9),
            seconds,
            costs: costs(&[&sent, &received]),
            found,
            ..Outcome::default()
        })
    }

    /// Whether the bytes came as they were sent; where the way does not promise it, that is what was
    /// found.
    fn found(&self, received: &EndReport) -> Result<BTreeMap<String, Value>, String> {
        if received.bytes != self.bytes {
            return Err(format!("{} of {} bytes came", received.bytes, self.bytes));
        }
        match received.checksum {
            Some(sum) if !self.way.is_sound() => {
                Ok(BTreeMap::from([(INTACT.to_owned(), (sum == self.checksum).into())]))
            }
            Some(sum) if sum != self.checksum => Err(format!(
                "the bytes that came are not those that were sent: their checksum is {sum:016x}, \
                 not {:016x}",
                self.checksum
            )),
            _ => Ok(BTreeMap::new()),
        }
    }
}

/// Which of the two failed, and why.
fn failure(receiver: Option<String>, sender: Option<String>) -> String {
    // That its fellow is gone is no failure of its own.
    let is_left = |why: &str| {
        let left = [NO_REPORT, GAVE_UP, "hung up", "Broken pipe", "Connection reset"];
        left.iter().any(|left| why.contains(left))
    };
    match (receiver, sender) {
        (Some(why), Some(other)) if is_left(&why) && is_left(&other) => {
            format!("the sender failed: {other}; the receiver failed: {why}")
        }
        (Some(why), sender) if !is_left(&why) || sender.is_none() => {
            format!("the receiver failed: {why}")
        }
        (_, sender) => format!("the sender failed: {}", sender.unwrap_or_default()),
    }
}

impl Work for PassWork {
    fn cpus(&self) -> &[usize] {
        self.cpus.as_ref().map_or(&[], |cpus| cpus)
    }

    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        match timing.measured {
            Measured::Bytes(_) => self.passed(self.keeps),
            Measured::Time(_) => Err("a file is passed as a whole, however long that takes".into()),
        }
    }

    /// Bytes that nobody will look at are looked at once, here.
    fn trial(&self, _timing: &Timing) -> Result<(), String> {
        let keeps = if self.keeps == Keeps::Nothing { Keeps::Checksum } else { self.keeps };
        self.passed(keeps).map(drop)
    }
}
