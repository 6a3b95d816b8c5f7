//! Starts the stages of a pipeline, joined by pipes, and learns how each ended.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;
use nix::sys::wait::{self, WaitPidFlag};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process, waitid};

use super::family::Family;
use super::signals::{Signals, is_passed_on};
use super::sizes::PipeSize;
use crate::errno::word_of;
use crate::said::say;
use crate::sys::spawn;

/// What a shell ends with when a command is not there, or cannot be run.
const NOT_FOUND: i32 = 127;
pub(super) const NOT_RUN: u8 = 126;
/// How a stage ends for which there is no pipe, or no process.
const NOT_MADE: End = End::Exited(NOT_RUN as i32);

/// A stage to be started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stage {
    /// As people wrote it.
    pub(super) text: String,
    pub(super) words: Vec<OsString>,
    /// What it is to find as SHLVL, if that is not what we found.
    pub(super) shell_level: Option<i64>,
    /// The words in which people wrote it, where they are known; a shell's have their quotes.
    pub(super) own_words: Vec<String>,
    /// Whether its text redirects its input, and its output.
    pub(super) redirects: [bool; 2],
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

impl End {
    /// The number by which a shell tells it.
    pub(super) fn status(self) -> i32 {
        match self {
            End::Exited(status) => status,
            End::Killed(signal) => 128 + signal,
        }
    }
}

/// A stage that was started, or could not be.
#[derive(Debug)]
pub(super) struct Started {
    pub(super) text: String,
    pub(super) own_words: Vec<String>,
    pub(super) redirects: [bool; 2],
    /// None where there is no process.
    pub(super) pid: Option<Pid>,
    /// None while it runs.
    pub(super) end: Option<End>,
    /// When that was learnt.
    ended: Option<Instant>,
    /// Seconds of CPU in user space and in the kernel, of all that it waited for too; known once it
    /// has ended, and without /proc.
    pub(super) cpu_s: (f64, f64),
}

/// All stages of a pipeline.
#[derive(Debug)]
pub(super) struct Stages {
    pub(super) all: Vec<Started>,
    /// What could not be done, for a person.
    pub(super) said: Vec<String>,
}

impl Stages {
    /// Starts them from the first to the last, with pipes of this size; patient ones do not
    /// interrupt each other. As in a shell, one that cannot be started keeps the others from nothing;
    /// without a pipe there is no next stage, nor is there after a signal that ends a shell.
    pub(super) fn start(
        stages: Vec<Stage>,
        size: &PipeSize,
        patient: bool,
        signals: &mut Signals,
    ) -> Stages {
        let mut started = Stages { all: Vec::new(), said: Vec::new() };
        let (count, mut input) = (stages.len(), None);
        let pipe_bytes = size.each_of(count.saturating_sub(1), 0);
        let mut stages = stages.into_iter().enumerate();
        for (index, stage) in stages.by_ref() {
            if let Some(signal) = signals.next() {
                started.interrupted(signal);
                started.all.push(Started::without_process(stage, End::Killed(signal)));
                continue;
            }
            if index + 1 == count {
                let last = Started::start(stage, input.take(), None, patient);
                started.all.push(last.unwrap_or_else(|unmade| unmade));
                break;
            }
            match pipe_with(PipeFlags::CLOEXEC) {
                Ok((read, write)) => {
                    started.said.extend(size.enlarge(&write, pipe_bytes).err());
                    let input = input.replace(read);
                    match Started::start(stage, input, Some(write), patient) {
                        Ok(stage) => started.all.push(stage),
                        Err(unmade) => {
                            started.all.push(unmade);
                            break;
                        }
                    }
                }
                Err(errno) => {
                    let why = crate::errno::word(errno);
                    say(format_args!(
                        "bytepath: cannot make a pipe: {why}; close files, or use fewer stages"
                    ));
                    started.all.push(Started::without_process(stage, NOT_MADE));
                    break;
                }
            }
        }
        started.all.extend(stages.map(|(_, stage)| Started::without_process(stage, NOT_MADE)));
        if let Some(signal) = signals.next() {
            started.interrupted(signal);
        }
        started
    }

    /// A key's signal goes to all that are there, and so the stage that was started at that moment
    /// may have missed it. Others are passed on to every stage later.
    fn interrupted(&self, signal: i32) {
        let newest = self.all.last().and_then(|stage| stage.pid);
        let newest = newest.filter(|_| !is_passed_on(signal));
        if let Some((pid, signal)) = newest.zip(Signal::from_named_raw(signal)) {
            // It may have ended by it already.
            let _ = kill_process(pid, signal);
        }
    }

    /// Those that have ended and were not known to: each is shown to the family before the kernel
    /// forgets it.
    pub(super) fn reap(&mut self, mut family: Option<&mut Family>) {
        for stage in self.all.iter_mut().filter(|stage| stage.end.is_none()) {
            let Some(pid) = stage.pid else { continue };
            let flags = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            match waitid(WaitId::Pid(pid), flags | WaitIdOptions::NOWAIT) {
                Ok(None) => {}
                Ok(Some(_)) => {
                    let before = cpu_of_the_dead_s();
                    let wait = || waitid(WaitId::Pid(pid), flags).ok().flatten();
                    let ended = match &mut family {
                        Some(family) => family.bury(pid, wait),
                        None => wait(),
                    };
                    let killed = ended.as_ref().and_then(|ended| ended.terminating_signal());
                    let exited = ended.as_ref().and_then(|ended| ended.exit_status());
                    stage.end = Some(match killed {
                        Some(signal) => End::Killed(signal),
                        None => End::Exited(exited.unwrap_or(NOT_FOUND)),
                    });
                    stage.ended = Some(Instant::now());
                    let after = cpu_of_the_dead_s();
                    stage.cpu_s = (after.0 - before.0, after.1 - before.1);
                }
                // Whoever started us had its children forgotten at once.
                Err(_) => stage.end = Some(End::Exited(NOT_FOUND)),
            }
        }
        self.bury_orphans();
    }

    /// In a container, the first process becomes the parent of all that lose theirs, and nobody else
    /// waits for them.
    fn bury_orphans(&self) {
        let ended = WaitPidFlag::WEXITED | WaitPidFlag::WNOHANG;
        loop {
            let found = wait::waitid(wait::Id::All, ended | WaitPidFlag::WNOWAIT);
            let Some(orphan) = found.ok().and_then(|found| found.pid()) else { return };
            let is_stage = |pid: Pid| pid.as_raw_nonzero().get() == orphan.as_raw();
            if self.running().any(is_stage) {
                // It has ended just now, and news of that are on their way.
                return;
            }
            let _ = wait::waitid(wait::Id::Pid(orphan), ended);
        }
    }

    pub(super) fn running(&self) -> impl Iterator<Item = Pid> {
        self.all.iter().filter(|stage| stage.end.is_none()).filter_map(|stage| stage.pid)
    }

    /// Whether all that are still there were stopped, or are, since this was last asked: the kernel tells each
    /// stop of a child once, also after it went on.
    pub(super) fn were_stopped(&self) -> bool {
        let flags = WaitIdOptions::STOPPED | WaitIdOptions::CONTINUED | WaitIdOptions::NOHANG;
        let told = self.running().filter_map(|pid| waitid(WaitId::Pid(pid), flags).ok());
        let stopped: Vec<bool> = told.map(|told| told.is_some()).collect();
        !stopped.is_empty() && !stopped.contains(&false)
    }

    pub(super) fn have_ended(&self) -> bool {
        self.all.iter().all(|stage| stage.end.is_some())
    }

    /// Whether any stage could be started.
    pub(super) fn any_began(&self) -> bool {
        self.all.iter().any(|stage| stage.pid.is_some())
    }

    /// How many have ended in another way than by this signal.
    pub(super) fn ended_but_by(&self, signal: i32) -> usize {
        let ends = self.all.iter().filter_map(|stage| stage.end);
        ends.filter(|end| *end != End::Killed(signal)).count()
    }

    pub(super) fn any_ended_by(&self, signal: i32) -> bool {
        self.all.iter().any(|stage| stage.end == Some(End::Killed(signal)))
    }

    /// Whether this signal has ended one just now, whether or not that was learnt yet.
    pub(super) fn any_ends_by(&self, signal: i32) -> bool {
        const JUST: Duration = Duration::from_millis(100);
        let flags = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        self.all.iter().any(|stage| match (stage.pid, stage.end) {
            (Some(pid), None) => {
                let ended = waitid(WaitId::Pid(pid), flags).ok().flatten();
                ended.and_then(|ended| ended.terminating_signal()) == Some(signal)
            }
            (_, end) => {
                let is_new = stage.ended.is_some_and(|ended| ended.elapsed() < JUST);
                is_new && end == Some(End::Killed(signal))
            }
        })
    }

    /// The words of the stage that this process, which lives, is or becomes, as people wrote them.
    pub(super) fn own_words(&self, pid: Pid) -> Option<String> {
        let is_it = |stage: &&Started| stage.pid == Some(pid) && stage.end.is_none();
        let stage = self.all.iter().find(is_it)?;
        (!stage.own_words.is_empty()).then(|| stage.own_words.join(" "))
    }

    /// Whether what these two count may have gone elsewhere than through the pipe between them, as
    /// their own text tells.
    pub(super) fn redirect(&self, from: usize, to: usize) -> bool {
        let of = |stage: usize, end: usize| self.all.get(stage).is_some_and(|it| it.redirects[end]);
        of(from, 1) || of(to, 0)
    }

    /// How the last stage ended.
    pub(super) fn end(&self) -> End {
        self.all.last().and_then(|stage| stage.end).unwrap_or(End::Exited(0))
    }

    /// How the last of those ended that failed, or the last where none did.
    pub(super) fn failed_end(&self) -> End {
        let mut ends = self.all.iter().rev().filter_map(|stage| stage.end);
        ends.find(|end| end.status() != 0).unwrap_or(End::Exited(0))
    }
}

impl Started {
    fn without_process(stage: Stage, end: End) -> Started {
        Started::of(stage, None, Some(end))
    }

    fn of(stage: Stage, pid: Option<Pid>, end: Option<End>) -> Started {
        let Stage { text, own_words, redirects, .. } = stage;
        Started { text, own_words, redirects, pid, end, ended: None, cpu_s: (0.0, 0.0) }
    }

    /// Starts a stage; its end where its program cannot be run. The error is its end where no process
    /// can be made: what comes after it would take that for the end of its input.
    fn start(
        stage: Stage,
        input: Option<OwnedFd>,
        output: Option<OwnedFd>,
        patient: bool,
    ) -> Result<Started, Started> {
        let (program, arguments) = stage.words.split_first().expect("a stage has words");
        let mut command = Command::new(program);
        command.args(arguments);
        stage.shell_level.map(|level| command.env("SHLVL", level.to_string()));
        let inherited: Vec<i32> = [(0, input.is_none()), (1, output.is_none()), (2, true)]
            .into_iter()
            .filter(|(_, inherited)| *inherited)
            .map(|(fd, _)| fd)
            .collect();
        input.map(|input| command.stdin(Stdio::from(input)));
        output.map(|output| command.stdout(Stdio::from(output)));
        let name = program.to_string_lossy();
        match spawned(&mut command, &inherited, patient) {
            Ok(child) => Ok(Started::of(stage, Some(Pid::from_child(&child)), None)),
            Err(error) if is_lack(&error) => {
                let help = match error.kind() {
                    ErrorKind::ArgumentListTooLong => "unset variables, or use shorter text",
                    _ => {
                        "use fewer stages, or raise the limits on files and processes \
                         (ulimit -n, ulimit -u)"
                    }
                };
                let word = word_of(&error);
                say(format_args!("bytepath: cannot start {name}: {word}; {help}"));
                Err(Started::without_process(stage, NOT_MADE))
            }
            Err(error) => {
                let status =
                    if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN.into() };
                // By a path it is a file that is missing, or what is to run it.
                let word = match program.as_encoded_bytes().contains(&b'/') {
                    true => word_of(&error),
                    false => not_found_or(&error),
                };
                say(format_args!("bytepath: {name}: {word}"));
                Ok(Started::without_process(stage, End::Exited(status)))
            }
        }
    }
}

/// Starts a program. Where there are too many processes just now, some may end soon.
fn spawned(command: &mut Command, inherited: &[i32], patient: bool) -> std::io::Result<Child> {
    const WAITS_MS: [u64; 5] = [100, 200, 400, 800, 1600];
    let mut started = spawn::spawn_as_we_were(command, inherited, patient);
    for wait_ms in WAITS_MS {
        if !started.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock) {
            break;
        }
        std::thread::sleep(Duration::from_millis(wait_ms));
        started = spawn::spawn_as_we_were(command, inherited, patient);
    }
    started
}

/// Whether it is for want of something that no process can be made, and not the program's fault.
fn is_lack(error: &std::io::Error) -> bool {
    let lacks = [libc::EAGAIN, libc::ENOMEM, libc::EMFILE, libc::ENFILE, libc::E2BIG];
    error.raw_os_error().is_some_and(|number| lacks.contains(&number))
}

/// What all children took that have been waited for.
fn cpu_of_the_dead_s() -> (f64, f64) {
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN);
    usage.map_or((0.0, 0.0), |usage| (seconds(usage.user_time()), seconds(usage.system_time())))
}

fn not_found_or(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::NotFound => "command not found".to_owned(),
        _ => word_of(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_were_stopped_where_all_that_are_there_were() {
        let spawn = |line: &str| {
            let mut command = Command::new("sh");
            command.args(["-c", line]).stdin(Stdio::piped()).spawn().expect("sh")
        };
        let mut children = ["exit", "read line", "read line"].map(spawn);
        let pids = children.each_ref().map(Pid::from_child);
        let all = pids.map(|pid| Started {
            text: String::new(),
            own_words: Vec::new(),
            redirects: [false; 2],
            pid: Some(pid),
            end: None,
            ended: None,
            cpu_s: (0.0, 0.0),
        });
        let stages = Stages { all: all.into(), said: Vec::new() };
        let wait =
            |pid, what| waitid(WaitId::Pid(pid), what | WaitIdOptions::NOWAIT).expect("ours");
        let stop = |pid| {
            kill_process(pid, Signal::STOP).expect("it lives");
            wait(pid, WaitIdOptions::STOPPED);
        };
        let go_on = |pid| kill_process(pid, Signal::CONT).expect("it lives");
        // One that has ended is not there.
        wait(pids[0], WaitIdOptions::EXITED);
        let mut told = vec![stages.were_stopped()];
        stop(pids[1]);
        told.push(stages.were_stopped());
        go_on(pids[1]);
        told.push(stages.were_stopped());
        pids[1..].iter().for_each(|pid| stop(*pid));
        pids[1..].iter().for_each(|pid| go_on(*pid));
        told.extend([stages.were_stopped(), stages.were_stopped()]);
        pids[1..].iter().for_each(|pid| stop(*pid));
        go_on(pids[1]);
        told.push(stages.were_stopped());
        for child in &mut children {
            child.kill().expect("ours");
            child.wait().expect("ours");
        }
        assert_eq!(told, [false, false, false, true, false, true]);
    }
}
