//! The only unsafe code: what is asked of an event besides opening it, and bpf(2).

pub(crate) mod bpf;
pub(crate) mod bpf_ring;
pub(crate) mod event;
