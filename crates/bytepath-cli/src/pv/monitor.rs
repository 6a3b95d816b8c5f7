//! `--monitor`: runs a command and moves what goes into it, what comes out of it, or both.

use std::ffi::OsString;
use std::os::fd::{AsFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

use bytepath::Endpoint;
use clap::ValueEnum;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use signal_hook::consts::{SIGINT, SIGPIPE};

use super::ends::{Sink, Source};
use super::live::Live;
use super::mover::{Left, Work};
use super::screen::Screen;
use super::status::Status;
use super::tally::Tally;
use super::usage::Wrong;
use super::watch::{Bar, LAST};
use super::{Settings, say, watched};
use crate::errno::word_of;
use crate::live::is_in_front;
use crate::quote::printable;
use crate::sys::spawn::spawn_as_we_were;

/// Which side of the command is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Watched {
    /// Its standard input
    #[value(alias = "0")]
    In,
    /// Its standard output
    #[value(alias = "1")]
    Out,
    /// Both, with a bar each
    #[value(alias = "2")]
    Both,
}

impl Watched {
    fn input(self) -> bool {
        self != Watched::Out
    }

    fn output(self) -> bool {
        self != Watched::In
    }
}

/// The command, for whoever ends this process before it.
static COMMAND: Mutex<Option<OwnedFd>> = Mutex::new(None);

/// Gives the command the signal that ends this process, if it still runs.
pub(crate) fn pass_on(signal: i32) {
    // What a terminal sends goes to all that run in front of it.
    let in_front =
        || std::fs::File::open("/dev/tty").is_ok_and(|tty| is_in_front(&tty) == Some(true));
    if signal == SIGINT && in_front() {
        return;
    }
    if let (Ok(command), Some(signal)) = (COMMAND.lock(), Signal::from_named_raw(signal))
        && let Some(command) = command.as_ref()
    {
        // One that has ended takes none.
        let _ = pidfd_send_signal(command, signal);
    }
}

/// Runs the command to its end; its exit status counts where ours has nothing to tell.
pub(crate) fn run(
    watched_side: Watched,
    words: &[OsString],
    sink: &Sink<'_>,
    settings: &Settings,
    live: &Live,
) -> Result<i32, Wrong> {
    let (program, arguments) = words.split_first().expect("without one it is wrong usage");
    let mut command = Command::new(program);
    command.args(arguments);
    if watched_side.input() {
        command.stdin(Stdio::piped());
    }
    if watched_side.output() {
        command.stdout(Stdio::piped());
    }
    let (sent, got) = (Arc::new(Tally::default()), Arc::new(Tally::default()));
    let inputs = [OsString::from("-")];
    super::ends::expect(settings, &inputs, &sent);
    got.set_size(settings.size.filter(|_| watched_side == Watched::Out));
    let mut bars = Vec::new();
    let place = |of_both| if watched_side == Watched::Both { of_both } else { LAST };
    if watched_side.input() {
        let mut bar = Bar::new(&settings.options.display, place(0), &sent)?;
        bar.side.other = watched_side.output().then_some(&got);
        bars.push(bar);
    }
    if watched_side.output() {
        let mut bar = Bar::new(&settings.options.display, place(1), &got)?;
        bar.side.goes_to(&sink.endpoint, settings);
        if watched_side.input() {
            bar.side.other = Some(&sent);
            bar.display = bar.display.with_ratio();
        }
        bars.push(bar);
    }
    let piped = [watched_side.input(), watched_side.output(), false];
    let inherited: Vec<i32> =
        (0..).zip(piped).filter_map(|(fd, piped)| (!piped).then_some(fd)).collect();
    // It is told of them by who answers them.
    live.catch_signals();
    let child = spawn_as_we_were(&mut command, &inherited, false);
    super::measured(settings, vec![sent.clone(), got.clone()]);
    let mut child = match child {
        Ok(child) => child,
        Err(error) => {
            say(format_args!("{}: {}", printable(program), word_of(&error)));
            return Ok(i32::from(Status::REMOTE.code()));
        }
    };
    if let Ok(mut command) = COMMAND.lock() {
        *command = pidfd_open(Pid::from_child(&child), PidfdFlags::empty()).ok();
    }
    let (into, out) = (child.stdin.take(), child.stdout.take());
    let screen = Screen::wanted(settings);
    // With both, the size is that of what goes in.
    let mut left = match watched_side {
        Watched::Out => Left::asked(settings),
        _ => Left::Everything,
    };
    let mut ended = None;
    let status = watched(settings, live, screen, bars, || {
        let mut status = std::thread::scope(|scope| {
            let (sent, inputs, left) = (&sent, &inputs, &mut left);
            let sender = into.map(|into| {
                // Dropped at the end of its thread: the command sees the end of its input.
                let send = move || {
                    let Ok(endpoint) = Endpoint::sink(into.as_fd()) else { return Status::OPEN };
                    let sink = Sink { name: "the command".into(), endpoint };
                    let work = Work { settings, live, tally: sent, alone: None };
                    work.run(inputs, &sink, Left::asked(settings))
                };
                std::thread::Builder::new().spawn_scoped(scope, send)
            });
            let received = out.map_or(Status::DONE, |out| {
                let Ok(endpoint) = Endpoint::source(out.as_fd()) else { return Status::OPEN };
                let source = Source { name: printable(program), endpoint };
                let work = Work { settings, live, tally: &got, alone: None };
                work.run_one(&source, sink, left) | sink.closed(live)
            });
            let sent = match sender {
                None => Status::DONE,
                Some(Ok(sender)) => {
                    sender.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                }
                Some(Err(error)) => {
                    live.say(format_args!("-M: nothing was sent: no thread: {}", word_of(&error)));
                    Status::MEMORY
                }
            };
            received | sent
        });
        match child.wait() {
            Ok(status) => ended = Some(status),
            Err(_) => status |= Status::REMOTE,
        }
        status
    });
    let theirs = ended.map_or(0, |ended| {
        use std::os::unix::process::ExitStatusExt;
        // Who had more to say than was asked for did nothing wrong.
        let signal = ended.signal().filter(|signal| *signal != SIGPIPE || left.some());
        ended.code().or_else(|| signal.map(|signal| 128 + signal)).unwrap_or(0)
    });
    Ok(match status {
        Status::DONE => theirs,
        status => i32::from(status.code()),
    })
}
