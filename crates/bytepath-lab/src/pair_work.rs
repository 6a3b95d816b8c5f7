//! The work of arms that move bytes from one kind of end to another: a mover in a process of its
//! own, and processes that feed and drain it where an end is a pipe or a socket.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use bytepath::profile::End;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags};

use crate::arm::{Measured, Outcome, Timing, Work};
use crate::descendants::end_with_all;
use crate::ends::{EndReport, GIB, NOTHING_CAME, Starter, Usage};
use crate::interrupt::{self, Came};
use crate::pipe_work::{
    SIGNAL_PATIENCE, Says, end, ended, full_pipe, said, spawn_on, unix_pair, wished_with_signal,
};
use crate::sys::together::end_together;

/// Longer than this a sample is not waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a pipe has unless somebody asks for more.
const USUAL_PIPE_SIZE: &str = "64K";

/// What is taken from a pipe or socket per call: enough not to hold the mover up.
const DRAIN_SIZE: &str = "1M";

/// A mover between two ends.
pub struct PairWork {
    /// The `bytepath` executable.
    pub program: PathBuf,
    /// What moves.
    pub mover: Mover,
    /// Where the bytes come from.
    pub source: End,
    /// Where they go.
    pub sink: End,
    /// Where files are made.
    pub directory: PathBuf,
    /// The file that is moved where the source is one.
    pub file: PathBuf,
    /// The inlet that empties a pipe or socket.
    pub inlet: &'static str,
}

/// What moves the bytes.
pub enum Mover {
    /// `bytepath carry` with these options: it is measured by its own clock.
    Carry(Vec<String>),
    /// Any program that copies its standard input to its standard output, by its words: it is
    /// measured from its start to its end.
    Program(Vec<String>),
}

impl PairWork {
    fn command(&self, word: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(word).args(Starter::this().words()).stderr(Stdio::piped());
        command
    }

    fn source(&self, running: &mut Running, bytes: u64) -> Result<Stdio, String> {
        let told = |error: std::io::Error| error.to_string();
        match self.source {
            End::File => {
                let file = open(&self.file)?;
                running.source = Some(file.try_clone().map_err(told)?.into());
                Ok(file.into())
            }
            End::Null => Ok(Stdio::null()),
            End::Pipe | End::Socket => {
                let (near, far) = joined(self.source)?;
                // The slots of a pipe are single pages, as other programs fill them.
                let outlet = if self.source == End::Pipe { "tee" } else { "write" };
                let mut feeder = self.command("write");
                feeder.args(["--outlet", outlet]).stdin(Stdio::null());
                match &self.mover {
                    // It stops by itself.
                    Mover::Carry(_) => feeder.args(["--time", "60s"]),
                    Mover::Program(_) => feeder.args(["--bytes-to-pipe", &bytes.to_string()]),
                };
                if self.source == End::Pipe {
                    feeder.args(["--pipe-size", USUAL_PIPE_SIZE]);
                }
                feeder.stdout(far);
                running.feeder = Some(spawn_on(&mut feeder, None)?);
                drop(feeder);
                wait_for_bytes(&near)?;
                if rustix::io::ioctl_fionread(&near).is_ok_and(|bytes| bytes == 0) {
                    let why = said(&mut running.feeder, Says::Errors, PATIENCE);
                    let why = why.err().unwrap_or_else(|| "it ended without a byte".to_owned());
                    return Err(format!("the process that feeds it failed: {why}"));
                }
                running.source = Some(near.try_clone().map_err(told)?);
                Ok(near.into())
            }
        }
    }

    /// Whether all bytes were taken from the source: where the sink is /dev/null nothing else tells.
    fn taken(&self, source: &OwnedFd, bytes: u64) -> Result<(), String> {
        let told = |errno: Errno| std::io::Error::from(errno).to_string();
        if self.source == End::File {
            let at = rustix::fs::tell(source).map_err(told)?;
            return match at < bytes {
                true => Err(format!("it left its input at byte {at} of {bytes}")),
                false => Ok(()),
            };
        }
        // Where no bytes are there, the feeder has more to come, or has ended.
        wait_for_bytes(source)?;
        match rustix::io::ioctl_fionread(source).map_err(told)? {
            0 => Ok(()),
            _ => Err(format!("it left some of {bytes} bytes in its input")),
        }
    }

    fn sink(&self, running: &mut Running) -> Result<Stdio, String> {
        match self.sink {
            End::File => {
                let made = unnamed(&self.directory).and_then(|file| {
                    running.file = Some(file.try_clone()?);
                    Ok(file.into())
                });
                made.map_err(|error| {
                    format!("cannot make a file in {}: {error}", self.directory.display())
                })
            }
            End::Null => File::options()
                .write(true)
                .open("/dev/null")
                .map(Stdio::from)
                .map_err(|error| format!("cannot open /dev/null: {error}")),
            End::Pipe | End::Socket => {
                let (far, near) = joined(self.sink)?;
                let mut drain = self.command("read");
                drain.args(["--inlet", self.inlet, "--buf-size", DRAIN_SIZE, "--json", "-"]);
                drain.args(["--bytes-to-pipe", "1T"]).stdin(far).stdout(Stdio::piped());
                running.drain = Some(spawn_on(&mut drain, None)?);
                Ok(near.into())
            }
        }
    }
}

impl Work for PairWork {
    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        let Measured::Bytes(bytes) = timing.measured else {
            return Err("a pair of ends is measured by bytes; give a number of them".into());
        };
        let mut running = Running::default();
        let (sink, source) = (self.sink(&mut running)?, self.source(&mut running, bytes)?);
        let went = match &self.mover {
            Mover::Carry(options) => self.carried(options, bytes, &mut running, source, sink),
            Mover::Program(words) => self.moved(words, bytes, &mut running, source, sink),
        };
        went.map_err(|why| running.blamed().unwrap_or(why))
    }

    fn trial(&self, timing: &Timing) -> Result<(), String> {
        let few = match (&self.mover, timing.measured) {
            (Mover::Carry(_), Measured::Bytes(bytes)) => Measured::Bytes(bytes.min(TRIAL_BYTES)),
            // Other programs take a file to its end.
            (_, all) => all,
        };
        self.sample(&Timing { measured: few, ..*timing }).map(drop)
    }
}

/// So many show whether the ends can be joined by the mover at all.
const TRIAL_BYTES: u64 = 1 << 20;

impl PairWork {
    fn carried(
        &self,
        options: &[String],
        bytes: u64,
        running: &mut Running,
        source: Stdio,
        sink: Stdio,
    ) -> Result<Outcome, String> {
        let mut mover = self.command("carry");
        mover.args(options).args(["--limit", &bytes.to_string(), "--json", "/dev/stderr"]);
        mover.stdin(source).stdout(sink);
        running.mover = Some(spawn_on(&mut mover, None)?);
        // Its ends are ours too until it is forgotten, and the drain waits for the last writer.
        drop(mover);
        let moved: EndReport = ended(&mut running.mover, Says::Errors, PATIENCE)?;
        if moved.bytes != bytes {
            return Err(format!("only {} of {bytes} bytes were moved", moved.bytes));
        }
        let drained = running.drained(bytes)?;
        // The slower of the two clocks: the mover's ends when the last bytes are in the pipe, the
        // drain's begins when the first come.
        let seconds = drained.map_or(moved.seconds, |drained| drained.seconds.max(moved.seconds));
        Ok(outcome(&moved, seconds))
    }

    fn moved(
        &self,
        words: &[String],
        bytes: u64,
        running: &mut Running,
        source: Stdio,
        sink: Stdio,
    ) -> Result<Outcome, String> {
        let before = Usage::of_children();
        let mut mover = Command::new(&words[0]);
        mover.args(&words[1..]).stdin(source).stdout(sink).stderr(Stdio::null());
        end_together(&mut mover);
        let began = Instant::now();
        let child = running.mover.insert(spawn_on(&mut mover, None)?);
        // Its ends are ours too until it is forgotten, and the drain waits for the last writer.
        drop(mover);
        let status = waited(child, PATIENCE)?;
        let mut took = began.elapsed();
        let usage = Usage::of_children().since(before);
        if !status.success() {
            return Err(format!("{} failed ({status})", words[0]));
        }
        if running.drained(bytes)?.is_some() {
            took = began.elapsed();
        }
        if let (End::Null, Some(source)) = (self.sink, &running.source) {
            self.taken(source, bytes)?;
        }
        Ok(outcome(&EndReport { bytes, usage, ..EndReport::default() }, took.as_secs_f64()))
    }
}

/// Waits for a program to end, for as long as nobody wishes that the run ends.
pub(crate) fn waited(child: &mut Child, patience: Duration) -> Result<ExitStatus, String> {
    let told = |error: std::io::Error| error.to_string();
    let ended = rustix::process::pidfd_open(Pid::from_child(child), PidfdFlags::empty());
    let ended = ended.map_err(|errno| told(errno.into()))?;
    match interrupt::wait(&ended, Instant::now() + patience).map_err(told)? {
        Came::Readable => match child.wait().map_err(told)? {
            status if status.signal().is_some() && wished_with_signal() => {
                Err("interrupted".into())
            }
            status => Ok(status),
        },
        Came::Wish => Err("interrupted".into()),
        Came::Nothing => Err("it did not end in time".into()),
    }
}

/// The processes of one sample; ended when dropped.
#[derive(Default)]
struct Running {
    feeder: Option<Child>,
    mover: Option<Child>,
    drain: Option<Child>,
    /// Where the mover takes bytes from: another descriptor of the same.
    source: Option<OwnedFd>,
    /// The file that is written.
    file: Option<File>,
}

impl Running {
    /// Why the process at the other end of a pipe failed, if one did: the mover can only say that
    /// nobody was there.
    fn blamed(&mut self) -> Option<String> {
        [("feeds", &mut self.feeder), ("empties", &mut self.drain)].into_iter().find_map(
            |(does, child)| {
                let status = waited(child.as_mut()?, SIGNAL_PATIENCE).ok()?;
                let why = said(child, Says::Errors, PATIENCE).err();
                // That nothing came is the mover's failure.
                let why = why.filter(|why| !status.success() && why != NOTHING_CAME)?;
                Some(format!("the process that {does} it failed: {why}"))
            },
        )
    }

    /// What the drain says, if there is one; it has to have taken everything, or a file to hold it.
    fn drained(&mut self, bytes: u64) -> Result<Option<EndReport>, String> {
        if let Some(file) = &self.file {
            let found = file.metadata().map_err(|error| error.to_string())?.len();
            if found != bytes {
                return Err(format!("only {found} of {bytes} bytes are in the file"));
            }
        }
        if self.drain.is_none() {
            return Ok(None);
        }
        let drained: Result<EndReport, String> = ended(&mut self.drain, Says::Output, PATIENCE);
        let drained = drained.map_err(|why| {
            // It has spoken.
            end(&mut self.drain);
            match why == NOTHING_CAME {
                true => "it moved nothing".to_owned(),
                false => format!("the process that empties it failed: {why}"),
            }
        })?;
        if drained.bytes != bytes {
            return Err(format!("only {} of {bytes} bytes came through", drained.bytes));
        }
        Ok(Some(drained))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end_with_all(&mut self.mover);
        end(&mut self.feeder);
        end(&mut self.drain);
    }
}

/// The speed, and what the mover used.
fn outcome(moved: &EndReport, seconds: f64) -> Outcome {
    let gib = moved.bytes as f64 / GIB;
    let (value, costs) = (gib / seconds.max(1e-9), moved.costs());
    Outcome { value, seconds, costs, ..Outcome::default() }
}

/// The reading and the writing end of a pipe or of a pair of connected sockets.
fn joined(kind: End) -> Result<(OwnedFd, OwnedFd), String> {
    if kind != End::Socket {
        return full_pipe();
    }
    unix_pair().map_err(|error| format!("cannot make a socket: {error}"))
}

/// Waits until the feeder has set its end up and begun: what it does to the pipe must not come after
/// what the mover does.
fn wait_for_bytes(source: &OwnedFd) -> Result<(), String> {
    match interrupt::wait(source, Instant::now() + PATIENCE) {
        Ok(Came::Readable) => Ok(()),
        Ok(Came::Wish) => Err("interrupted".into()),
        Ok(Came::Nothing) => Err("the feeder does not begin".into()),
        Err(error) => Err(error.to_string()),
    }
}

fn open(path: &Path) -> Result<File, String> {
    File::open(path).map_err(|error| format!("cannot open {}: {error}", path.display()))
}

/// A new file without a name, gone when it is closed.
pub(crate) fn unnamed(directory: &Path) -> std::io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        // Not every file system has files without a name; this one has one for a moment.
        Err(_) => tempfile::tempfile_in(directory),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_that_cannot_feed_or_empty_says_why_before_the_mover_does() {
        // It takes the name of the end for one of a script that is not there.
        let work = |source, sink, mover: &[&str]| PairWork {
            program: "/bin/sh".into(),
            mover: Mover::Program(mover.iter().map(|word| (*word).to_owned()).collect()),
            source,
            sink,
            directory: "/tmp".into(),
            file: "/etc/passwd".into(),
            inlet: "read",
        };
        let timing = Timing { warm_up: Duration::ZERO, measured: Measured::Bytes(1 << 20) };
        for (work, says, end) in [
            (work(End::Pipe, End::Null, &["cat"]), "feeds", "write"),
            (work(End::Socket, End::Null, &["cat"]), "feeds", "write"),
            (work(End::File, End::Pipe, &["yes"]), "empties", "read"),
            (work(End::File, End::Socket, &["cat"]), "empties", "read"),
        ] {
            let why = work.sample(&timing).map(drop).expect_err("it has no other end");
            let says = format!("the process that {says} it failed: ");
            assert!(why.starts_with(&says) && why.contains(end), "{why}");
        }
    }
}
