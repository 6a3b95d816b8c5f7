//! The only unsafe code of this crate: calls to the kernel that no crate wraps.

pub(crate) mod fiemap;
