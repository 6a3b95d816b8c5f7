//! The only unsafe code of the command.

pub(crate) mod start;
