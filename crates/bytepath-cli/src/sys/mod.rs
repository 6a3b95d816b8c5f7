//! The only unsafe code of the command.

pub(crate) mod actions;
pub(crate) mod environment;
pub(crate) mod given;
pub(crate) mod interrupts;
pub(crate) mod local_time;
pub(crate) mod modes;
pub(crate) mod nudge;
pub(crate) mod own_files;
pub(crate) mod queue;
pub(crate) mod spawn;
pub(crate) mod start;
pub(crate) mod xattrs;

/// What the call that failed last in this thread says.
fn last_error() -> rustix::io::Errno {
    let error = std::io::Error::last_os_error();
    rustix::io::Errno::from_io_error(&error).unwrap_or(rustix::io::Errno::IO)
}
