//! The only unsafe code of the command.

pub(crate) mod own_files;
pub(crate) mod spawn;
pub(crate) mod start;
