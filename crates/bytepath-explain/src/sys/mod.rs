//! The only unsafe code.

pub(crate) mod bpf;
pub(crate) mod bpf_ring;
pub(crate) mod bpf_tracepoint;
