//! The work of pipe arms: a writer and a reader in processes of their own, joined by a pipe, with
//! a classic between them where one is asked for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use bytepath::placement::pin_this_thread;
use bytepath_report::{Costs, numbers};
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use rustix::thread::sched_getaffinity;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::arm::{Measured, Outcome, TRIAL_TIME, Timing, Work};
use crate::ends::{EndReport, Starter, Usage};
use crate::interrupt::{self, Came};
use crate::sys::scheduling::children_run_until_they_sleep;
use crate::sys::together::end_together;

/// A process that was ended by a signal may not be the only one that it was sent to.
pub(crate) const SIGNAL_PATIENCE: Duration = Duration::from_millis(100);

/// A trial moves so much: enough to see that both ends can run.
const TRIAL_BYTES: u64 = 1 << 20;

/// A writer and a reader joined by a pipe, by their words, as anybody could run them by hand.
pub struct PipeWork {
    /// The `bytepath` executable.
    pub program: PathBuf,
    /// What writes.
    pub writer: Writer,
    /// Options of `bytepath read`.
    pub reader: Vec<String>,
    /// A program between the two: its words.
    pub between: Option<Vec<String>>,
    /// The CPU of the writer and that of the reader; unpinned when `None`.
    pub cpus: Option<[usize; 2]>,
    /// What has to arrive, where that is known.
    pub expected: Option<Expected>,
}

/// What writes into the pipe.
pub enum Writer {
    /// `bytepath`, by its words: it reports what it did, and is told its CPU.
    Bytepath(Vec<String>, Option<PathBuf>),
    /// Another program, by its words, with a file as its standard input.
    Program(Vec<String>, Option<PathBuf>),
}

/// Bytes that have to arrive, and the sum of their values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// How many.
    pub bytes: u64,
    /// Their sum, as the inlet read-touch gives it.
    pub sum: u64,
}

impl PipeWork {
    fn reader(&self, timing: &Timing) -> Command {
        let mut reader = Command::new(&self.program);
        reader.arg("read").args(&self.reader).args(Starter::this().words());
        if let Some(cpus) = self.cpus {
            reader.args(["--cpu", &cpus[1].to_string()]);
        }
        reader.args(["--warm-up", &format!("{}us", timing.warm_up.as_micros())]);
        match timing.measured {
            Measured::Time(time) => reader.args(["--time", &format!("{}us", time.as_micros())]),
            Measured::Bytes(bytes) => reader.args(["--bytes-to-pipe", &bytes.to_string()]),
        };
        reader.args(["--json", "-"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        reader
    }

    fn spawn_writer(&self, sink: OwnedFd) -> Result<Child, String> {
        let cpu = self.cpus.map(|cpus| cpus[0]);
        let (mut writer, stdin, pin) = match &self.writer {
            Writer::Bytepath(words, stdin) => {
                let mut writer = Command::new(&self.program);
                writer.args(words).args(["--json", "/dev/stderr"]).args(Starter::this().words());
                if let Some(cpu) = cpu {
                    writer.args(["--cpu", &cpu.to_string()]);
                }
                (writer, stdin, None)
            }
            Writer::Program(words, stdin) => {
                let mut writer = Command::new(&words[0]);
                writer.args(&words[1..]);
                end_together(&mut writer);
                (writer, stdin, cpu)
            }
        };
        let stdin = match stdin {
            Some(path) => File::open(path)
                .map_err(|error| format!("cannot open {}: {error}", path.display()))?
                .into(),
            None => Stdio::null(),
        };
        writer.stdin(stdin).stdout(sink).stderr(Stdio::piped());
        spawn_on(&mut writer, pin)
    }

    fn start(&self, timing: &Timing) -> Result<Running, String> {
        if self.spins_on_one_cpu() && children_run_until_they_sleep() {
            return Err(SPINS_FOR_GOOD.to_owned());
        }
        let (read_end, write_end) = if self.sizes_its_pipe() { pipe() } else { full_pipe() }?;
        let mut running = Running::default();
        let mut source = read_end;
        if let Some(words) = &self.between {
            let (next_source, sink) = full_pipe()?;
            let mut between = Command::new(&words[0]);
            between.args(&words[1..]).stdin(source).stdout(sink).stderr(Stdio::null());
            end_together(&mut between);
            // On two CPUs the scheduler places a third program; on one it shares it.
            let same = self.cpus.filter(|cpus| cpus[0] == cpus[1]);
            running.between = Some(spawn_on(&mut between, same.map(|cpus| cpus[0]))?);
            source = next_source;
        }
        running.writer = Some(self.spawn_writer(write_end)?);
        let mut reader = self.reader(timing);
        reader.stdin(source);
        running.reader = Some(spawn_on(&mut reader, None)?);
        Ok(running)
    }

    /// Whether an end asks for a size of the pipe, which it then has or fails.
    fn sizes_its_pipe(&self) -> bool {
        self.words().any(|word| word == "--pipe-size")
    }

    /// Whether an end never sleeps while it waits for the other, which has no other CPU.
    fn spins_on_one_cpu(&self) -> bool {
        let spins = self.words().any(|word| ["spin", "poll-spin"].contains(&word.as_str()));
        let allowed = || sched_getaffinity(None).is_ok_and(|cpus| cpus.count() == 1);
        spins && self.cpus.map_or_else(allowed, |cpus| cpus[0] == cpus[1])
    }

    /// What both ends are told.
    fn words(&self) -> impl Iterator<Item = &String> {
        let (Writer::Bytepath(writer, _) | Writer::Program(writer, _)) = &self.writer;
        writer.iter().chain(&self.reader)
    }

    fn check(
        &self,
        reader: &EndReport,
        timing: &Timing,
        peer: Option<ExitStatus>,
    ) -> Result<(), String> {
        // What is only begun, for a trial, has no sum to compare.
        let whole = |expected: &Expected| match timing.measured {
            Measured::Bytes(bytes) => bytes > expected.bytes,
            Measured::Time(_) => false,
        };
        let Some(expected) = self.expected.filter(whole) else {
            return self.enough(reader, timing, peer);
        };
        let found = Expected { bytes: reader.bytes, sum: reader.checksum.unwrap_or(0) };
        if found == expected {
            return Ok(());
        }
        Err(format!(
            "the bytes that arrived are not those that were sent: {} bytes with the sum {}, not {} \
             with {}",
            found.bytes, found.sum, expected.bytes, expected.sum
        ))
    }

    /// A writer without end only stops when its reader leaves: a stream that ended by itself was
    /// cut short, and its speed is not that of the arm.
    fn enough(
        &self,
        reader: &EndReport,
        timing: &Timing,
        peer: Option<ExitStatus>,
    ) -> Result<(), String> {
        let enough = match timing.measured {
            Measured::Bytes(bytes) => reader.bytes >= bytes,
            Measured::Time(_) => !reader.source_ended,
        };
        if enough {
            return Ok(());
        }
        let name = self.between.as_ref().map_or("the writer", |words| words[0].as_str());
        let status = peer.map_or_else(String::new, |status| format!(" ({status})"));
        Err(format!("{name} ended{status} before the measurement did"))
    }
}

impl Work for PipeWork {
    fn cpus(&self) -> &[usize] {
        match &self.cpus {
            // With a third program the scheduler may use any CPU, unless all are on one.
            Some([writer, reader]) if self.between.is_some() && writer != reader => &[],
            Some(cpus) => cpus,
            None => &[],
        }
    }

    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        let before = Usage::of_children();
        let mut running = self.start(timing)?;
        let reports = matches!(self.writer, Writer::Bytepath(..));
        let (writer, reader) = running.finish(timing.patience(), reports)?;
        if let Some(why) = writer.as_ref().and_then(|writer| writer.pipe_refused.clone()) {
            return Err(why);
        }
        self.check(&reader, timing, running.between_ended)?;
        let outcome = match (writer, &self.between) {
            (Some(writer), None) => outcome(&[&writer, &reader], &reader),
            (writer, _) => {
                // Programs that do not report are counted whole, from their start to their end, and
                // so are the bytes.
                let read = reader.bytes + reader.warm_up_bytes.unwrap_or(0);
                let all = EndReport {
                    usage: Usage::of_children().since(before),
                    bytes: writer.as_ref().map_or(read, |writer| writer.bytes),
                    ..EndReport::default()
                };
                outcome(&[&all], &reader)
            }
        };
        Ok(outcome)
    }

    fn trial(&self, timing: &Timing) -> Result<(), String> {
        let measured = match timing.measured {
            Measured::Time(_) => Measured::Time(TRIAL_TIME),
            Measured::Bytes(bytes) => Measured::Bytes(bytes.min(TRIAL_BYTES)),
        };
        self.sample(&Timing { warm_up: Duration::ZERO, measured }).map(drop)
    }
}

const SPINS_FOR_GOOD: &str = "an end that spins never lets the other run on its CPU where both have the same \
    real-time priority (SCHED_FIFO); measure under another policy (chrt --other 0)";

/// The slots, of a page each, that a new pipe has (PIPE_DEF_BUFFERS).
const PIPE_SLOTS: usize = 16;

fn pipe() -> Result<(OwnedFd, OwnedFd), String> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
        .map_err(|errno| format!("cannot make a pipe: {}", std::io::Error::from(errno)))
}

/// A pipe of the size that every new one has. A user whose pipes use up fs.pipe-user-pages-soft is
/// given pipes of two slots, without a word (alloc_pipe_info in the kernel's fs/pipe.c).
///
/// # Errors
/// It would be such a one, or there is none.
pub(crate) fn full_pipe() -> Result<(OwnedFd, OwnedFd), String> {
    let (reader, writer) = pipe()?;
    let bytes = rustix::pipe::fcntl_getpipe_size(&writer).unwrap_or(0);
    let wanted = PIPE_SLOTS * rustix::param::page_size();
    if bytes >= wanted {
        return Ok((reader, writer));
    }
    Err(format!(
        "a new pipe has {} instead of {}: your pipes use up fs.pipe-user-pages-soft; close some, \
         raise it as root, or ask for a size where that can be asked for (--pipe-size)",
        numbers::bytes(bytes as u64),
        numbers::bytes(wanted as u64)
    ))
}

/// Two sockets of TCP on the loopback device that are connected.
pub(crate) fn tcp_pair() -> std::io::Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, from) = listener.accept()?;
    if from != near.local_addr()? {
        return Err(std::io::Error::other("somebody else connected"));
    }
    Ok((near, far))
}

/// Two stream sockets of this machine that are connected.
pub(crate) fn unix_pair() -> std::io::Result<(OwnedFd, OwnedFd)> {
    let (family, flags) = (AddressFamily::UNIX, SocketFlags::CLOEXEC);
    Ok(rustix::net::socketpair(family, SocketType::STREAM, flags, None)?)
}

/// Starts a program on a CPU: it inherits the one of the thread that starts it.
///
/// # Errors
/// There is no such program, or no such CPU.
pub fn spawn_on(command: &mut Command, cpu: Option<usize>) -> Result<Child, String> {
    let _pinned = match cpu {
        Some(cpu) => Some(pin_this_thread(cpu).map_err(|error| error.to_string())?),
        None => None,
    };
    command.spawn().map_err(|error| {
        let program = Path::new(command.get_program());
        // What an end does not use of its input and outputs is /dev/null, which is opened first.
        if let Err(why) = File::options().read(true).write(true).open(NULL) {
            return format!("cannot open {NULL}, which {} needs: {why}", program.display());
        }
        format!("cannot start {}: {error}", program.display())
    })
}

const NULL: &str = "/dev/null";

/// The processes of one sample; ended when dropped.
#[derive(Default)]
struct Running {
    writer: Option<Child>,
    between: Option<Child>,
    /// How the program between ended, where it did so by itself.
    between_ended: Option<ExitStatus>,
    reader: Option<Child>,
}

impl Running {
    /// Waits for the reader, which ends by itself, then for the writer, which then has nobody to
    /// write to. The writer's report is there if it is one that `reports`.
    fn finish(
        &mut self,
        limit: Duration,
        reports: bool,
    ) -> Result<(Option<EndReport>, EndReport), String> {
        let reader = ended::<EndReport>(&mut self.reader, Says::Output, limit);
        // One that did not end in time still holds the pipe, and with it the writer.
        end(&mut self.reader);
        if let Some(between) = &mut self.between {
            // Some classics ignore a reader that is gone (mbuffer goes on for a while).
            let _ = between.kill();
            let killed = |status: &ExitStatus| status.signal() == Some(Signal::KILL.as_raw());
            self.between_ended = between.wait().ok().filter(|status| !killed(status));
        }
        // A writer that failed explains why the reader had nothing to read.
        let writer = if reports {
            let writer = ended::<EndReport>(&mut self.writer, Says::Errors, limit);
            Some(writer.map_err(|error| format!("the writer failed: {error}"))?)
        } else {
            let ended = complained(&mut self.writer, limit);
            let (status, complaint) =
                ended.map_err(|error| format!("the writer failed: {error}"))?;
            // Some, such as openssl, outlive SIGPIPE and then call it a failure that their reader
            // has left.
            let was_left = reader.as_ref().is_ok_and(|reader| !reader.source_ended);
            if !was_left && status.code().is_some_and(|code| code != 0) {
                let line = complaint.trim().lines().next_back();
                let said = line.map_or_else(String::new, |line| format!("; it said: {line}"));
                return Err(format!("the writer failed ({status}){said}"));
            }
            None
        };
        let reader = reader.map_err(|error| match self.between_ended {
            Some(status) => {
                format!("the reader failed: {error}; the program between ended ({status})")
            }
            None => format!("the reader failed: {error}"),
        })?;
        if reader.bytes == 0 {
            return Err("nothing came through the pipe".into());
        }
        Ok((writer, reader))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in [&mut self.writer, &mut self.between, &mut self.reader] {
            end(child);
        }
    }
}

/// Ends a process that may have ended already.
pub fn end(child: &mut Option<Child>) {
    if let Some(mut child) = child.take() {
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// A process that is ended when it is dropped.
pub(crate) struct EndedOnDrop(pub(crate) Option<Child>);

impl EndedOnDrop {
    /// Starts a program as `spawn_on` does.
    pub(crate) fn spawn_on(command: &mut Command, cpu: Option<usize>) -> Result<Self, String> {
        spawn_on(command, cpu).map(|child| EndedOnDrop(Some(child)))
    }
}

impl Drop for EndedOnDrop {
    fn drop(&mut self) {
        end(&mut self.0);
    }
}

/// Between two looks at a process that was asked to end.
const ENDING_LOOK_EVERY: Duration = Duration::from_millis(5);

/// Asks a process to end by itself, and waits for that as long as nobody wishes the end of the run. One
/// that has ended is asked nothing: its number may be another's by now.
pub(crate) fn asked_to_end(child: &mut Child, within: Duration) {
    let is_running = |child: &mut Child| child.try_wait().is_ok_and(|status| status.is_none());
    if !is_running(child) {
        return;
    }
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    let until = Instant::now() + within;
    while is_running(child) && Instant::now() < until && !interrupt::wished() {
        std::thread::sleep(ENDING_LOOK_EVERY);
    }
}

/// Where a process says what it did.
#[derive(Clone, Copy)]
pub enum Says {
    /// On its standard output.
    Output,
    /// On its standard error.
    Errors,
}

/// What is said of a process that ended well and said nothing.
pub(crate) const NO_REPORT: &str = "it ended without a report";

/// Starts a process, and has its report; ended if that does not come in time.
pub(crate) fn reported<Report: DeserializeOwned>(
    command: &mut Command,
    says: Says,
    limit: Duration,
) -> Result<Report, String> {
    ended(&mut EndedOnDrop::spawn_on(command, None)?.0, says, limit)
}

/// Waits for a process without using a CPU, and reads its report.
///
/// # Errors
/// What it said went wrong, or that it did not end in time.
pub fn ended<Report: DeserializeOwned>(
    child: &mut Option<Child>,
    says: Says,
    limit: Duration,
) -> Result<Report, String> {
    let report = said(child, says, limit)?;
    if report.trim().is_empty() {
        return Err(NO_REPORT.to_owned());
    }
    serde_json::from_str(&report).map_err(|error| format!("{error}: {report}"))
}

/// Waits for a process without using a CPU: what it says until its end, if that is a good one.
pub(crate) fn said(
    child: &mut Option<Child>,
    says: Says,
    limit: Duration,
) -> Result<String, String> {
    let Some(child) = child else { return Err("it was not started".into()) };
    let out = child.stdout.take().map(OwnedFd::from);
    let errors = child.stderr.take().map(OwnedFd::from);
    let (report, other) = match says {
        Says::Output => (out, errors),
        Says::Errors => (errors, out),
    };
    let mut report = Some(Heard::of(report.ok_or("it has no output")?)?);
    let mut other = other.map(Heard::of).transpose()?;
    let status = heard_to_the_end(child, &mut report, &mut other, Instant::now() + limit)?;
    let text = |heard: Option<Heard>| heard.map_or_else(String::new, |heard| heard.text());
    let said = text(report);
    if status.success() {
        return Ok(said);
    }
    let errors = match says {
        Says::Output => text(other),
        Says::Errors => said.clone(),
    };
    let errors = errors.trim().trim_start_matches("bytepath: ");
    if status.signal().is_some() {
        wished_with_signal();
    }
    Err(match (errors.is_empty(), said.trim().lines().next_back()) {
        (false, _) => errors.to_owned(),
        // Some complain where others report, as sysbench does.
        (true, Some(line)) => format!("{status}; it said: {line}"),
        (true, None) => status.to_string(),
    })
}

/// Waits likewise for a process that does not report: how it ended, and what it complained of.
fn complained(child: &mut Option<Child>, limit: Duration) -> Result<(ExitStatus, String), String> {
    let Some(child) = child else { return Err("it was not started".into()) };
    let errors = child.stderr.take().map(OwnedFd::from);
    let mut errors = errors.map(Heard::of).transpose()?;
    let status = heard_to_the_end(child, &mut None, &mut errors, Instant::now() + limit)?;
    Ok((status, errors.map_or_else(String::new, |errors| errors.text())))
}

/// Whether the signal that ended a process is the wish that the run ends: what is typed at a keyboard comes to
/// all processes, and may come to this one last.
pub(crate) fn wished_with_signal() -> bool {
    interrupt::wished_within(SIGNAL_PATIENCE)
}

/// Hears a process on both of its pipes, as one that is full stops it, until it has ended and all of its
/// report is there. What else still holds the other pipe is not waited for.
fn heard_to_the_end(
    child: &mut Child,
    report: &mut Option<Heard>,
    other: &mut Option<Heard>,
    until: Instant,
) -> Result<ExitStatus, String> {
    let told = |error: std::io::Error| error.to_string();
    // One that was waited for before has no number any more.
    let mut status = child.try_wait().map_err(told)?;
    let watched = || pidfd_open(Pid::from_child(child), PidfdFlags::empty());
    let ended = status.is_none().then(watched).transpose();
    let ended = ended.map_err(|errno| told(errno.into()))?;
    loop {
        report.iter_mut().chain(other.iter_mut()).try_for_each(Heard::hear)?;
        let is_whole = report.as_ref().is_none_or(|report| report.is_whole);
        if let (Some(status), true) = (status, is_whole) {
            return Ok(status);
        }
        let heard = report.iter().chain(other.iter());
        let open = heard.filter(|heard| !heard.is_whole).map(|heard| heard.pipe.as_fd());
        let watched = ended.iter().filter(|_| status.is_none()).map(|ended| ended.as_fd());
        let all: Vec<_> = open.chain(watched).collect();
        match interrupt::wait_for_any(&all, until).map_err(told)? {
            Came::Readable => {}
            Came::Wish => return Err("interrupted".into()),
            Came::Nothing => return Err("it did not end in time".into()),
        }
        // Before the pipes are looked at, which then have all that it said.
        status = child.try_wait().map_err(told)?;
    }
}

/// So much of what a process says is kept.
const HEARD_BYTES_MAX: usize = 64 << 20;

/// What a process has said on a pipe.
struct Heard {
    pipe: File,
    bytes: Vec<u8>,
    /// Whether nobody can say more.
    is_whole: bool,
}

impl Heard {
    fn of(pipe: OwnedFd) -> Result<Heard, String> {
        let flagged = rustix::io::ioctl_fionbio(&pipe, true);
        flagged.map_err(|errno| std::io::Error::from(errno).to_string())?;
        Ok(Heard { pipe: pipe.into(), bytes: Vec::new(), is_whole: false })
    }

    /// Takes what is there now, as far as a pipe usually holds it: who says more meanwhile is heard again.
    fn hear(&mut self) -> Result<(), String> {
        let mut piece = [0; 4096];
        for _ in 0..PIPE_SLOTS {
            match self.pipe.read(&mut piece) {
                Ok(0) => {
                    self.is_whole = true;
                    break;
                }
                Ok(count) if self.bytes.len() < HEARD_BYTES_MAX => {
                    self.bytes.extend_from_slice(&piece[..count]);
                }
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(())
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// What all the ends cost per GiB that each of them moved; not known where one moved nothing.
pub(crate) fn costs(ends: &[&EndReport]) -> Costs {
    let of_each: Vec<Costs> = ends.iter().map(|end| end.costs()).collect();
    let sum = |of: fn(&Costs) -> Option<f64>| of_each.iter().map(of).sum();
    Costs {
        cpu_user_s_per_gib: sum(|costs| costs.cpu_user_s_per_gib),
        cpu_system_s_per_gib: sum(|costs| costs.cpu_system_s_per_gib),
        syscalls_per_gib: sum(|costs| costs.syscalls_per_gib),
        context_switches_per_gib: sum(|costs| costs.context_switches_per_gib),
        page_faults_per_gib: sum(|costs| costs.page_faults_per_gib),
        ..Costs::default()
    }
}

/// Whether all ends counted their calls.
fn told(ends: &[&EndReport]) -> bool {
    ends.iter().all(|end| end.calls > 0)
}

/// The reader's figure, and what all the ends cost.
fn outcome(ends: &[&EndReport], reader: &EndReport) -> Outcome {
    let mut found = BTreeMap::from([
        ("pipe_bytes".to_owned(), Value::from(reader.pipe_bytes)),
        ("read_bytes_max".to_owned(), Value::from(reader.chunk_bytes)),
    ]);
    if let Some(writer) = ends.first().filter(|_| told(ends)) {
        found.insert("write_bytes_max".to_owned(), Value::from(writer.chunk_bytes));
        if let Some(slot) = writer.slot_bytes {
            found.insert("slot_bytes".to_owned(), Value::from(slot));
        }
    }
    let (value, seconds, costs) = (reader.gib_per_second(), reader.seconds, costs(ends));
    Outcome { value, seconds, costs, found, ..Outcome::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a shell's line says, and how that ends.
    fn said_by(line: &str, limit: Duration) -> Result<String, String> {
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = Some(shell.spawn().expect("a shell is everywhere"));
        let said = said(&mut child, Says::Output, limit);
        end(&mut child);
        said
    }

    #[test]
    fn who_complains_at_length_is_heard_to_the_end() {
        // More than a pipe holds, and nobody reads it meanwhile but this process.
        let line = "head -c 300000 /dev/zero | tr '\\0' x >&2; echo done";
        let long = Duration::from_secs(60);
        assert_eq!(said_by(line, long).as_deref(), Ok("done\n"));
        let why = said_by(&format!("{line}; exit 3"), long).expect_err("it failed");
        assert!(why.len() == 300_000 && why.bytes().all(|byte| byte == b'x'), "{}", why.len());
        assert_eq!(said_by("exit 3", long), Err("exit status: 3".to_owned()));
        let why = said_by("echo a banner; echo FATAL: no; exit 3", long);
        assert_eq!(why, Err("exit status: 3; it said: FATAL: no".to_owned()));
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{line} >&2; exit 3")]).stderr(Stdio::piped());
        let mut child = Some(shell.spawn().expect("a shell is everywhere"));
        let (status, why) = complained(&mut child, long).expect("it ends");
        assert_eq!((status.code(), why.len()), (Some(3), 300_000 + "done\n".len()));
        // What others hold of its standard error is not waited for.
        let mut echo = Command::new("echo").stdout(Stdio::piped()).spawn().expect("it starts");
        let (errors, _held) = full_pipe().expect("a pipe");
        echo.stderr = Some(errors.into());
        assert_eq!(said(&mut Some(echo), Says::Output, long).as_deref(), Ok("\n"));
    }

    #[test]
    fn who_closes_its_output_and_goes_on_is_not_waited_for_without_a_limit() {
        let why = said_by("exec >&- 2>&-; exec sleep 1000", Duration::from_millis(50));
        assert_eq!(why, Err("it did not end in time".to_owned()));
    }

    const NAME: &str = "one_that_has_ended_is_asked_nothing_though_another_has_its_number_now";

    /// Says that this is the process in the namespace.
    const APART: &str = "BYTEPATH_TEST_APART";

    #[test]
    fn one_that_has_ended_is_asked_nothing_though_another_has_its_number_now() {
        if std::env::var_os(APART).is_some() {
            another_has_the_number();
            return;
        }
        // Numbers are given twice in a namespace of its own, where that meets nobody else.
        let apart = |words: &[&std::ffi::OsStr]| {
            let mut unshare = Command::new("unshare");
            unshare.args(["--pid", "--fork", "--"]).args(words).env(APART, "1").output()
        };
        if !apart(&["true".as_ref()]).is_ok_and(|done| done.status.success()) {
            println!("skipped: no namespace of processes can be had here");
            return;
        }
        let program = std::env::current_exe().expect("it has a name");
        let words = ["--nocapture".as_ref(), NAME.as_ref()];
        let done = apart(&[&[program.as_os_str()][..], &words].concat()).expect("it starts");
        let said = String::from_utf8_lossy(&done.stdout);
        assert!(done.status.success() && said.contains("1 passed"), "{done:?}");
    }

    /// Asks a process to end that has ended, whose number another has.
    fn another_has_the_number() {
        let mut ended = Command::new("true").spawn().expect("true is everywhere");
        let number = ended.id();
        ended.wait().expect("it ends");
        let before = (number - 1).to_string();
        std::fs::write("/proc/sys/kernel/ns_last_pid", before).expect("root of the namespace may");
        let mut other = Command::new("sleep").arg("1000").spawn().expect("sleep is everywhere");
        assert_eq!(other.id(), number);
        asked_to_end(&mut ended, Duration::ZERO);
        // Whatever it was sent before this has come first.
        other.kill().expect("it runs");
        let status = other.wait().expect("it ends");
        assert_eq!(status.signal(), Some(Signal::KILL.as_raw()));
    }
}
