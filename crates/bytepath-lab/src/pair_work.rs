//! The work of arms that move bytes from one kind of end to another: a mover in a process of its
//! own, and processes that feed and drain it where an end is a pipe or a socket.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytepath::profile::End;
use bytepath_report::Costs;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use rustix::pipe::PipeFlags;

use crate::arm::{Measured, Outcome, Timing, Work};
use crate::ends::{EndReport, GIB, Starter};
use crate::pipe_work::{Says, end, ended, spawn_on};

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
    /// Options of `bytepath carry`, which moves.
    pub options: Vec<String>,
    /// Where the bytes come from.
    pub source: End,
    /// Where they go.
    pub sink: End,
    /// Where files are made.
    pub directory: PathBuf,
    /// The file that is moved where the source is one.
    pub file: PathBuf,
}

impl PairWork {
    fn command(&self, word: &str) -> Command {
        let mut command = Command::new(&self.program);
        command.arg(word).args(Starter::this().words()).stderr(Stdio::piped());
        command
    }

    fn source(&self, running: &mut Running) -> Result<Stdio, String> {
        match self.source {
            End::File => Ok(open(&self.file)?.into()),
            End::Null => Ok(Stdio::null()),
            End::Pipe | End::Socket => {
                let (near, far) = joined(self.source)?;
                // The slots of a pipe are single pages, as other programs fill them.
                let outlet = if self.source == End::Pipe { "tee" } else { "write" };
                let mut feeder = self.command("write");
                feeder.args(["--outlet", outlet, "--time", "60s"]).stdin(Stdio::null());
                if self.source == End::Pipe {
                    feeder.args(["--pipe-size", USUAL_PIPE_SIZE]);
                }
                feeder.stdout(far).stderr(Stdio::null());
                running.feeder = Some(spawn_on(&mut feeder, None)?);
                drop(feeder);
                wait_for_bytes(&near)?;
                Ok(near.into())
            }
        }
    }

    fn sink(&self, running: &mut Running) -> Result<Stdio, String> {
        match self.sink {
            End::File => unnamed(&self.directory).map(Stdio::from).map_err(|error| {
                format!("cannot make a file in {}: {error}", self.directory.display())
            }),
            End::Null => File::options()
                .write(true)
                .open("/dev/null")
                .map(Stdio::from)
                .map_err(|error| format!("cannot open /dev/null: {error}")),
            End::Pipe | End::Socket => {
                let (far, near) = joined(self.sink)?;
                let mut drain = self.command("read");
                drain.args(["--inlet", "read", "--buf-size", DRAIN_SIZE, "--json", "-"]);
                drain.args(["--bytes-to-pipe", "1T"]).stdin(far).stdout(Stdio::piped());
                running.drain = Some(spawn_on(&mut drain, None)?);
                Ok(near.into())
            }
        }
    }
}

impl Work for PairWork {
    fn cpus(&self) -> &[usize] {
        &[]
    }

    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        let Measured::Bytes(bytes) = timing.measured else {
            return Err("a pair of ends is measured by bytes; give a number of them".into());
        };
        let mut running = Running::default();
        let mut mover = self.command("carry");
        mover.args(&self.options).args(["--limit", &bytes.to_string(), "--json", "/dev/stderr"]);
        mover.stdout(self.sink(&mut running)?).stdin(self.source(&mut running)?);
        running.mover = Some(spawn_on(&mut mover, None)?);
        // Its ends are ours too until it is forgotten, and the drain waits for the last writer.
        drop(mover);
        let moved = ended(&mut running.mover, Says::Errors, PATIENCE)?;
        if moved.bytes != bytes {
            return Err(format!("only {} of {bytes} bytes were moved", moved.bytes));
        }
        let drained = match &mut running.drain {
            Some(_) => Some(ended(&mut running.drain, Says::Output, PATIENCE)?),
            None => None,
        };
        if let Some(drained) = drained.as_ref().filter(|drained| drained.bytes != bytes) {
            return Err(format!("only {} of {bytes} bytes came through", drained.bytes));
        }
        Ok(outcome(&moved, drained.as_ref()))
    }
}

/// The processes of one sample; ended when dropped.
#[derive(Default)]
struct Running {
    feeder: Option<Child>,
    mover: Option<Child>,
    drain: Option<Child>,
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in [&mut self.mover, &mut self.feeder, &mut self.drain] {
            end(child);
        }
    }
}

/// The slower of the two clocks: the mover's ends when the last bytes are in the pipe, the drain's
/// begins when the first come.
fn outcome(moved: &EndReport, drained: Option<&EndReport>) -> Outcome {
    let seconds = drained.map_or(moved.seconds, |drained| drained.seconds.max(moved.seconds));
    let gib = moved.bytes as f64 / GIB;
    let per_gib = |amount: f64| (gib > 0.0).then(|| amount / gib);
    let costs = Costs {
        cpu_user_s_per_gib: per_gib(moved.usage.user_s),
        cpu_system_s_per_gib: per_gib(moved.usage.system_s),
        syscalls_per_gib: per_gib(moved.calls as f64),
        context_switches_per_gib: per_gib(moved.usage.switches() as f64),
        page_faults_per_gib: per_gib(moved.usage.faults as f64),
    };
    Outcome { value: gib / seconds.max(1e-9), seconds, costs, found: BTreeMap::new() }
}

/// The reading and the writing end of a pipe or of a pair of connected sockets.
fn joined(kind: End) -> Result<(OwnedFd, OwnedFd), String> {
    let made = match kind {
        End::Socket => rustix::net::socketpair(
            AddressFamily::UNIX,
            SocketType::STREAM,
            SocketFlags::CLOEXEC,
            None,
        ),
        _ => rustix::pipe::pipe_with(PipeFlags::CLOEXEC),
    };
    made.map_err(|errno| format!("cannot make a {kind}: {}", std::io::Error::from(errno)))
}

/// Waits until the feeder has set its end up and begun: what it does to the pipe must not come after
/// what the mover does.
fn wait_for_bytes(source: &OwnedFd) -> Result<(), String> {
    let patience = Timespec::try_from(PATIENCE).ok();
    loop {
        match rustix::event::poll(&mut [PollFd::new(source, PollFlags::IN)], patience.as_ref()) {
            Ok(0) => return Err("the feeder does not begin".into()),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(std::io::Error::from(errno).to_string()),
        }
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
