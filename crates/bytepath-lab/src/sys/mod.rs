//! The only unsafe code of this crate: calls to the kernel that no crate wraps, what answers a signal,
//! and instructions that the compiler does not choose by itself.

pub(crate) mod fiemap;
pub mod interval;
pub(crate) mod loops;
pub(crate) mod pinning;
pub mod scheduling;
pub(crate) mod together;
#[cfg(target_arch = "x86_64")]
pub(crate) mod vectors;
