//! The only unsafe code: loops over the widest registers that the processor turns out to have.

pub(crate) mod filling;
