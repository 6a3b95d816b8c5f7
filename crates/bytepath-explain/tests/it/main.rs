//! Explaining from the outside: real samples of real work, and stored stacks of several kernels.

mod sampling;
mod stored;
