//! The only unsafe code of the lab: instructions that the compiler does not choose by itself, and
//! system calls that take memory.

pub(crate) mod pinning;
#[cfg(target_arch = "x86_64")]
pub(crate) mod vectors;
