//! The start of the process, and what it was started with, noted before that is changed.
//!
//! Rust's programs take a standard descriptor that is closed for /dev/null, and ignore SIGPIPE. A
//! command that stands in for a classic has to know both: `cat <&-` is an error, and a reader that
//! leaves ends the classic by the signal, unless whoever started it ignores it.

#![allow(unsafe_code)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use nix::sys::signal::{SigSet, SigmaskHow, Signal, pthread_sigmask};
use rustix::process::{Resource, getrlimit};

/// The entry, in place of the one of Rust's runtime. That one looks its stack up in
/// /proc/self/maps, to give a stack overflow a message, which takes 80 us: a twelfth of what
/// `bytepath cat` of nothing takes as a whole. The rest of what it does is done here.
///
/// Where the C library does not hand the arguments to what runs before `main`, they would be
/// missing; so elsewhere the entry is the runtime's.
// SAFETY: no other function of the program has this name, and it has the type that C gives `main`.
#[cfg(all(not(test), target_env = "gnu"))]
#[unsafe(no_mangle)]
extern "C" fn main(_: libc::c_int, _: *const *const libc::c_char) -> libc::c_int {
    /// What Rust's runtime ends with after a panic.
    const PANICKED: u8 = 101;
    // SAFETY: a disposition that every process may have, and that runs no code.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let code = std::panic::catch_unwind(|| number(crate::main())).unwrap_or(PANICKED);
    let_the_reader_go();
    code.into()
}

/// Does the work of the process on a stack of its own where the limit on stacks (`ulimit -s`) leaves little:
/// the definition of all commands takes more than 64 KiB, and a stack that ends, ends the process without a
/// word.
pub(crate) fn with_room(work: fn() -> ExitCode) -> ExitCode {
    /// The least that does without, twice what is needed.
    const ROOM_BYTES: u64 = 256 << 10;
    if getrlimit(Resource::Stack).current.is_none_or(|bytes| bytes >= ROOM_BYTES) {
        return work();
    }
    // Signals are for the thread that works.
    let Ok(mask) = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK) else { return work() };
    let works = move || {
        mask.thread_set_mask().expect("it is the mask from before");
        work()
    };
    match std::thread::Builder::new().spawn(works) {
        Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
        Err(_) => works(),
    }
}

/// Closes standard output, at the end of a process that uses it no more: whoever reads it goes on
/// while the kernel takes the process apart, which takes a tenth of what `bytepath cat` of nothing
/// does.
pub(crate) fn let_the_reader_go() {
    // SAFETY: it closes a descriptor that nothing uses after this.
    unsafe { libc::close(libc::STDOUT_FILENO) };
}

/// The number that an exit code was made from, which the standard library keeps to itself.
pub(crate) fn number(code: ExitCode) -> u8 {
    (0..=u8::MAX).find(|&number| code == number.into()).unwrap_or(1)
}

/// Opens what is always empty, and always full, in the place of each standard descriptor that is closed, so that
/// no file comes to be taken for one. It cannot be written, as what is closed cannot.
fn fill_closed() {
    for (descriptor, closed) in CLOSED.iter().enumerate() {
        if !closed.load(Relaxed) {
            continue;
        }
        // Who opens it by its name, as /dev/stdout, is to learn that nothing is kept.
        let device = if descriptor == 1 { c"/dev/full" } else { c"/dev/null" };
        // SAFETY: the paths end with a NUL; the lowest free descriptor, which is the answer, stays
        // open for as long as the process lives.
        let opened = unsafe { libc::open(device.as_ptr(), libc::O_RDONLY) };
        if opened < 0 {
            // SAFETY: as above.
            unsafe { libc::open(c"/dev/null".as_ptr(), libc::O_RDONLY) };
        }
    }
}

static CLOSED: [AtomicBool; 3] = [const { AtomicBool::new(false) }; 3];
static PIPE_IGNORED: AtomicBool = AtomicBool::new(false);
static CHILDREN_IGNORED: AtomicBool = AtomicBool::new(false);
static CHILDREN_BLOCKED: AtomicBool = AtomicBool::new(false);

/// Whether the process was started with this standard descriptor (0, 1, 2) closed.
pub(crate) fn was_closed(descriptor: usize) -> bool {
    CLOSED[descriptor].load(Relaxed)
}

/// Whether whoever started the process has it ignore SIGPIPE.
pub(crate) fn pipe_was_ignored() -> bool {
    PIPE_IGNORED.load(Relaxed)
}

/// Whether whoever started the process has it ignore SIGCHLD.
pub(crate) fn children_were_ignored() -> bool {
    CHILDREN_IGNORED.load(Relaxed)
}

/// Whether whoever started the process has SIGCHLD held back from it. Here it would be the news of
/// children that never comes.
pub(crate) fn children_were_blocked() -> bool {
    CHILDREN_BLOCKED.load(Relaxed)
}

// SAFETY: the loader calls what stands in this section before `main`, as a C function; `note`
// uses nothing that the runtime has to set up first.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    for (descriptor, closed) in (0..).zip(&CLOSED) {
        // SAFETY: F_GETFD reads a flag of a descriptor, and answers EBADF where there is none.
        let answer = unsafe { libc::fcntl(descriptor, libc::F_GETFD) };
        let error = std::io::Error::last_os_error().raw_os_error();
        closed.store(answer == -1 && error == Some(libc::EBADF), Relaxed);
    }
    fill_closed();
    PIPE_IGNORED.store(super::actions::is_ignored(libc::SIGPIPE), Relaxed);
    if super::actions::is_ignored(libc::SIGCHLD) {
        CHILDREN_IGNORED.store(true, Relaxed);
        // The kernel would forget how the programs ended that this one starts.
        // SAFETY: a disposition that every process may have, and that runs no code.
        unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    }
    CHILDREN_BLOCKED.store(unblocked(Signal::SIGCHLD), Relaxed);
}

/// Has the signal come from now on, and tells whether it was blocked.
fn unblocked(signal: Signal) -> bool {
    let (one, mut before) = (SigSet::from_iter([signal]), SigSet::empty());
    let told = pthread_sigmask(SigmaskHow::SIG_UNBLOCK, Some(&one), Some(&mut before));
    told.is_ok() && before.contains(signal)
}
