//! `bytepath explain --pid`: a process that runs is looked at for a while, and let alone.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use bytepath_explain::Whom;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::recorded::Explaining;
use crate::run::Signals;
use crate::said::{self, say};
use crate::shown::Shown;
use crate::streams::stdout;

/// Signals are looked for so often.
const EVERY: Duration = Duration::from_millis(50);

pub(super) fn run(
    pid: u32,
    time: Duration,
    shown: &Shown,
    json: Option<&Path>,
) -> anyhow::Result<ExitCode> {
    let mut explaining = Explaining::new(shown.clone(), json)?;
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.with_context(|| format!("there is no process {pid}"))?;
    let process = match pidfd_open(number, PidfdFlags::empty()) {
        Ok(process) => process,
        Err(Errno::SRCH) => bail!("there is no process {pid}"),
        // Older kernels say EINVAL.
        Err(Errno::NOENT | Errno::INVAL) => {
            bail!("{pid} is a thread; name its process (Tgid in /proc/{pid}/status)")
        }
        Err(errno) => bail!("cannot look at process {pid}: {}", std::io::Error::from(errno)),
    };
    // The kernel cuts names to 15 bytes, within a character too.
    let comm = std::fs::read(format!("/proc/{pid}/comm")).unwrap_or_default();
    let name = format!("{} ({pid})", String::from_utf8_lossy(&comm).trim_end());
    let mut signals = Signals::caught().context("cannot catch signals")?;
    // A file of its may be on a server that does not answer.
    Signals::end_by_the_second().context("cannot catch signals")?;
    explaining.begin(Whom::Process(pid));
    if let Some(why) = explaining.sees_nothing() {
        bail!("cannot explain process {pid}: {why}");
    }
    let until = Instant::now() + time;
    let mut ended = false;
    let mut signal = None;
    while Instant::now() < until && !ended && signal.is_none() {
        let left = until.saturating_duration_since(Instant::now()).min(EVERY);
        let left = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 0, tv_nsec: 0 });
        let mut fds = [PollFd::new(&process, PollFlags::IN)];
        ended = poll(&mut fds, Some(&left)).is_ok_and(|ready| ready > 0);
        signal = signals.came().first().copied();
    }
    if ended {
        say(format_args!("bytepath: process {pid} ended; this is what was seen of it"));
    }
    let mut shown = Ok(());
    let mut seen = explaining.end(&name);
    if let Some(text) = seen.text.take() {
        shown = writeln!(stdout(), "{}", text.trim_end());
    }
    let said = seen.write(|_| true);
    // A reader that had enough is no reason to complain.
    let shown = match shown {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        shown => shown.context("standard output"),
    };
    let said = said::also(said, shown);
    if let Some(signal) = signal {
        said.unwrap_or_else(|error| say(format_args!("bytepath: {error:#}")));
        crate::run::end_by(signal);
    }
    said.map(|()| ExitCode::SUCCESS)
}
