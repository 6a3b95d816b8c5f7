//! The only unsafe code of the command.

pub(crate) mod actions;
pub(crate) mod given;
pub(crate) mod interrupts;
pub(crate) mod local_time;
pub(crate) mod nudge;
pub(crate) mod own_files;
pub(crate) mod queue;
pub(crate) mod spawn;
pub(crate) mod start;
pub(crate) mod xattrs;
