//! Programs started with what this one was started with: Rust's way of starting programs gives them
//! the default for SIGPIPE and an empty signal mask, and its runtime opens what was closed.

#![allow(unsafe_code)]

use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use bytepath_lab::scheduling::policy;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use rustix::process::Pid;

use super::actions::ENDING;
use super::start;

/// Those that were ignored until this process caught them, as bits.
static WERE_IGNORED: AtomicU64 = AtomicU64::new(0);

/// Before these are caught: those that are ignored are ignored in programs that are started later,
/// as `nohup` and shells want of all that begins below them.
pub(crate) fn note_ignored(signals: &[libc::c_int]) {
    let ignored = signals.iter().filter(|signal| super::actions::is_ignored(**signal));
    let bits = ignored.fold(0, |bits, signal| bits | 1 << signal);
    WERE_IGNORED.fetch_or(bits, Relaxed);
}

/// Those that this process ignores and programs that it starts do not, as bits.
static IGNORED_HERE: AtomicU64 = AtomicU64::new(0);

/// Ignores a signal in this process alone.
pub(crate) fn ignore_here(signal: libc::c_int) {
    note_ignored(&[signal]);
    IGNORED_HERE.fetch_or(1 << signal, Relaxed);
    // SAFETY: a disposition that every process may have, and that runs no code.
    unsafe { libc::signal(signal, libc::SIG_IGN) };
}

/// Starts a program with ignored signals, the signal mask, and closed standard descriptors as this
/// process was started with. `inherited` are the standard descriptors that are not given to it anew.
///
/// No signal gets lost meanwhile, and Ctrl-Z stops both: the quicker call for starting programs
/// lends them this process's memory until they begin, and one that is stopped before keeps this
/// process from stopping.
///
/// Patient programs do not interrupt one that runs when something wakes them ([`may_be_patient`]).
///
/// # Errors
/// As those of [`Command::spawn`].
pub(crate) fn spawn_as_we_were(
    command: &mut Command,
    inherited: &[i32],
    patient: bool,
) -> std::io::Result<Child> {
    if !may_do_more() {
        return command.spawn();
    }
    let ignored = WERE_IGNORED.load(Relaxed)
        | u64::from(start::pipe_was_ignored()) << libc::SIGPIPE
        | u64::from(start::children_were_ignored()) << libc::SIGCHLD;
    let heeded = IGNORED_HERE.load(Relaxed) & !ignored;
    let closed: Vec<i32> =
        inherited.iter().copied().filter(|fd| start::was_closed(*fd as usize)).collect();
    let held = Held::back();
    let mut mask = held.mask;
    if start::children_were_blocked() {
        // SAFETY: the set is a mask, and the number is a signal's.
        unsafe { libc::sigaddset(&raw mut mask, libc::SIGCHLD) };
    }
    let restore = move || {
        for (signals, action) in [(ignored, libc::SIG_IGN), (heeded, libc::SIG_DFL)] {
            for signal in (1..u64::BITS as i32).filter(|signal| signals >> signal & 1 == 1) {
                // SAFETY: a disposition that every process may have, and that runs no code.
                unsafe { libc::signal(signal, action) };
            }
        }
        for fd in &closed {
            // SAFETY: between fork and exec nobody uses it: it stands for one that was closed.
            unsafe { libc::close(*fd) };
        }
        if patient {
            set_policy(0, libc::SCHED_BATCH);
        }
        // SAFETY: `mask` was filled by the same call, and the old mask is not asked for.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const mask, null_mut()) };
        Ok(())
    };
    // SAFETY: what runs between fork and exec calls nothing but functions that are safe in a signal
    // handler, and allocates nothing.
    unsafe { command.pre_exec(restore) };
    command.spawn()
}

/// Whether anything can be done between fork and exec, for which Rust asks for a pair of sockets. Where a
/// sandbox refuses it, programs begin by the quicker call and as Rust has them begin, rather than not at all.
fn may_do_more() -> bool {
    static MAY: OnceLock<bool> = OnceLock::new();
    *MAY.get_or_init(|| {
        let pair =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None);
        matches!(pair, Ok(_) | Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM))
    })
}

/// Whether programs that we start may be made patient: nobody has given us another scheduling
/// policy than the usual one. Under `SCHED_BATCH` (sched(7)) a program that is woken waits until the
/// one that runs sleeps or has had its share. Of two programs with a pipe between them on one CPU,
/// each then goes on until the pipe is full or empty, and not only until it has moved one piece.
pub(crate) fn may_be_patient() -> bool {
    policy(0) == libc::c_long::from(libc::SCHED_OTHER)
}

/// Gives a thread that is patient the usual policy, which this process then has ([`may_be_patient`]).
pub(crate) fn end_patience(task: Pid) {
    let task = task.as_raw_nonzero().get();
    if policy(task) == libc::c_long::from(libc::SCHED_BATCH) {
        set_policy(task, libc::SCHED_OTHER);
    }
}

/// Where it is refused, all runs as it would have. Its niceness stays.
fn set_policy(task: libc::pid_t, policy: libc::c_int) {
    // The kernel's structure; some C libraries' own has more, and their function refuses.
    let no_priority: libc::c_int = 0;
    // SAFETY: it reads one number, which is there.
    unsafe { libc::syscall(libc::SYS_sched_setscheduler, task, policy, &raw const no_priority) };
}

/// While it lives, signals that end a program wait, and have no handler that a new process would
/// begin with: one that comes to that process ends it.
struct Held {
    mask: libc::sigset_t,
    handlers: [Option<libc::sigaction>; ENDING.len()],
}

impl Held {
    fn back() -> Held {
        let mut ending = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: it makes the set empty, for which there is room.
        unsafe { libc::sigemptyset(ending.as_mut_ptr()) };
        for signal in ENDING {
            // SAFETY: the set was made, and the number is a signal's.
            unsafe { libc::sigaddset(ending.as_mut_ptr(), signal) };
        }
        let mut mask = MaybeUninit::<libc::sigset_t>::zeroed();
        // SAFETY: the new set was made, and `mask` has room for the old.
        unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, ending.as_ptr(), mask.as_mut_ptr()) };
        // SAFETY: it was filled, or is all zeros, which is a mask too.
        let mask = unsafe { mask.assume_init() };
        Held { mask, handlers: ENDING.map(taken) }
    }
}

/// A signal's handler, in the place of which the default stands from now on.
fn taken(signal: libc::c_int) -> Option<libc::sigaction> {
    let handler = super::actions::action(signal)
        .filter(|action| ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction))?;
    // SAFETY: the default is an action that every process may have, and runs no code.
    unsafe { libc::signal(signal, libc::SIG_DFL) };
    Some(handler)
}

impl Drop for Held {
    fn drop(&mut self) {
        for (signal, handler) in ENDING.into_iter().zip(&self.handlers) {
            if let Some(handler) = handler {
                // SAFETY: the action is the one that stood there before.
                unsafe { libc::sigaction(signal, handler, null_mut()) };
            }
        }
        // SAFETY: the mask is the one from before.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.mask, null_mut()) };
    }
}
