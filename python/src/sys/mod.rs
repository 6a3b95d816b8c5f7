//! The only unsafe code of the bindings: memory that Python lends to us, and that we lend to it;
//! descriptors that it names by number; modules that it has, and which interpreter it is.

#![allow(unsafe_code)]

pub(crate) mod buffer;
pub(crate) mod descriptors;
pub(crate) mod interpreter;
pub(crate) mod modules;
pub(crate) mod view;
