//! SIGINT, SIGQUIT, SIGTERM and SIGHUP while something is measured: the run ends at once, what is complete
//! is shown, and only then does the signal end the program, as whoever sent it expects.

use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytepath_lab::interrupt;
use rustix::pipe::{PipeFlags, pipe_with};
use signal_hook::flag::register_usize;
use signal_hook::low_level::pipe;

use crate::ending;
use crate::said::say;
use crate::sys::actions::{self, Quiet};

/// Handlers are the process's, and so is this.
static HANDLERS: OnceLock<Handlers> = OnceLock::new();

#[derive(Default)]
struct Handlers {
    /// The signal that came, or 0.
    came: Arc<AtomicUsize>,
    /// Whether signals end the program as they do anywhere: while nothing is measured.
    idle: Arc<AtomicBool>,
    /// How many measure, one inside the other.
    measuring: AtomicUsize,
}

/// While it lives, signals end the run and not the program.
pub(crate) struct Measuring(());

impl Measuring {
    pub(crate) fn begin() -> Measuring {
        let handlers = HANDLERS.get_or_init(Handlers::installed);
        handlers.measuring.fetch_add(1, Ordering::Relaxed);
        handlers.idle.store(false, Ordering::Relaxed);
        Measuring(())
    }
}

impl Drop for Measuring {
    fn drop(&mut self) {
        let Some(handlers) = HANDLERS.get() else { return };
        if handlers.measuring.fetch_sub(1, Ordering::Relaxed) == 1 {
            handlers.idle.store(true, Ordering::Relaxed);
        }
    }
}

impl Handlers {
    /// Where handlers are refused, the signals end the program as they always do.
    fn installed() -> Handlers {
        let handlers = Handlers { idle: Arc::new(true.into()), ..Handlers::default() };
        let _quiet = Quiet::begin();
        let pipe = || pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK);
        let (Ok((reader, writer)), Ok((each, again))) = (pipe(), pipe()) else { return handlers };
        let installed = actions::heeded().filter(|signal| {
            let writers = [writer.try_clone(), again.try_clone()];
            let writers = writers.into_iter().collect::<std::io::Result<Vec<_>>>();
            writers.and_then(|writers| handlers.install(*signal, writers)).is_ok()
        });
        // A pipe that nobody writes to is at its end, which would be a wish too.
        if installed.count() > 0 {
            interrupt::when_readable(reader);
            interrupt::each_in(each);
        }
        handlers
    }

    fn install(&self, signal: i32, writers: Vec<OwnedFd>) -> std::io::Result<()> {
        // What is registered first is done first.
        ending::by_signal_while(signal, self.idle.clone())?;
        register_usize(signal, self.came.clone(), signal.unsigned_abs() as usize)?;
        writers.into_iter().try_for_each(|writer| pipe::register(signal, writer).map(drop))
    }
}

/// The signal that came while something was measured.
pub(crate) fn came() -> Option<i32> {
    let came = HANDLERS.get()?.came.load(Ordering::Relaxed);
    i32::try_from(came).ok().filter(|signal| *signal != 0)
}

/// From now on signals end the program, also where it is the first process of a container; who measures
/// has them end the run first.
pub(crate) fn heeded() {
    HANDLERS.get_or_init(Handlers::installed);
}

/// Does work that measures, and ends the program by the signal that came meanwhile, if one did; what
/// went wrong is said before.
pub(crate) fn ended(work: impl FnOnce() -> anyhow::Result<()>) -> anyhow::Result<()> {
    heeded();
    // What a shell left in the background, which ^C does not end, is still found then.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let done = work();
    let Some(signal) = came() else { return done };
    bytepath_lab::descendants::end_all();
    if let Err(error) = done {
        say(format_args!("bytepath: {error:#}"));
    }
    ending::by_signal(signal)
}
