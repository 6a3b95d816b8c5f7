//! Signals to one thread, forked processes, and an option of sockets: what the tests need of the kernel that no safe crate
//! offers.

#![allow(unsafe_code)]

use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::sync::Once;

use rustix::thread::Pid;

/// Interrupts what a thread is doing, without any other effect.
const SIGNAL: libc::c_int = libc::SIGUSR1;

extern "C" fn nothing(_: libc::c_int) {}

/// From here on [`interrupt`] makes calls that sleep end with EINTR, as nothing restarts them.
pub(crate) fn make_interruptible() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: all-zero bytes are a valid sigaction: no flags, an empty mask.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        action.sa_sigaction = nothing as extern "C" fn(libc::c_int) as libc::sighandler_t;
        // SAFETY: the handler does nothing, so it is safe in any thread at any moment; nobody else
        // in this process uses the signal.
        let installed = unsafe { libc::sigaction(SIGNAL, &action, std::ptr::null_mut()) };
        assert_eq!(installed, 0, "the handler is installed");
    });
}

/// Sends one signal to a thread of this process; to none if it is gone.
pub(crate) fn interrupt(thread: Pid) {
    let (process, thread) = (rustix::process::getpid().as_raw_nonzero(), thread.as_raw_nonzero());
    // SAFETY: tgkill takes three numbers; the handler is installed, so no thread dies of it.
    unsafe { libc::syscall(libc::SYS_tgkill, process.get(), thread.get(), SIGNAL) };
}

/// So long has a forked process at most: where another thread was printing, or had panicked, it has
/// that one's locks with nobody to give them back, and waits for them where it panics.
const FORKED_SECONDS_MAX: libc::c_uint = 30;

/// Has a forked process do this alone; how that one ended, whatever came of it.
pub(crate) fn forked(work: impl FnOnce()) -> rustix::process::WaitStatus {
    // SAFETY: the child has this thread alone. It does what the caller says, and ends without any of
    // what the other threads would have to do.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: it takes a number, and nobody here has a handler for the signal, which ends the
        // process.
        unsafe { libc::alarm(FORKED_SECONDS_MAX) };
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        // SAFETY: it takes a number, and nothing is done after it.
        unsafe { libc::_exit(libc::c_int::from(done.is_err())) };
    }
    let child = Pid::from_raw(child).expect("there is room for a process");
    let none = rustix::process::WaitOptions::empty();
    let ended = rustix::process::waitpid(Some(child), none).expect("it is ours");
    ended.expect("it has ended").1
}

/// From here on SIGPIPE ends this process, as it does programs that are not Rust's.
pub(crate) fn mind_sigpipe() {
    // SAFETY: the default action is no handler, so nothing of ours runs in it.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}

/// Has a socket tell of times with what it tells (SO_TIMESTAMPNS).
pub(crate) fn tell_times(socket: &TcpStream) {
    let on: libc::c_int = 1;
    let (number, len) = (socket.as_raw_fd(), size_of::<libc::c_int>() as libc::socklen_t);
    let (level, option, value) = (libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &raw const on);
    // SAFETY: the kernel reads `len` bytes of the value; the descriptor is open.
    let set = unsafe { libc::setsockopt(number, level, option, value.cast(), len) };
    assert_eq!(set, 0, "the socket tells of times");
}
