//! The only unsafe code: what is asked of an event besides opening it.

pub(crate) mod event;
