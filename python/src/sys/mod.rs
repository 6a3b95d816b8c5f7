//! The only unsafe code of the bindings.

#![allow(unsafe_code)]

pub(crate) mod descriptors;
