//! io_uring for safe code: a request owns its memory until the kernel is done with it.
//!
//! A [`Ring`] takes [`Request`]s of one or two steps and gives back [`Completion`]s. A request's
//! [`Buffer`] moves into the ring and comes back with the completion, so that memory which the
//! kernel may still write can be neither freed nor touched; descriptors are borrowed for as long as
//! the ring lives. Dropping a ring cancels what is in flight and waits for it.
//!
//! ```
//! use std::os::fd::AsFd;
//! use bytepath::pages::Pages;
//! use bytepath::ring::{Buffer, Operation, Request, Ring, Setup, Target};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = std::fs::File::open("/etc/passwd")?;
//! let mut ring = match Ring::open(&Setup::default()) {
//!     Ok(ring) => ring,
//!     Err(refusal) => return Ok(println!("no ring here: {refusal}")),
//! };
//! let buffer = Buffer::allocate(4096, &Pages::default())?;
//! let read = Operation::Read { file: Target::Borrowed(file.as_fd()), at: 0, bytes: 0..4096 };
//! ring.push(Request::new(7, read).buffer(buffer));
//! let done = ring.wait()?.ok_or("it is in flight")?;
//! let count = done.first? as usize;
//! println!("{} bytes", done.buffer.ok_or("it had one")?.as_slice()[..count].len());
//! # Ok(()) }
//! ```

mod request;
mod setup;

pub use crate::sys::ring::Ring;
pub(crate) use request::Registered;
pub use request::{
    Answer, Buffer, Completion, FilePlace, Operation, Personality, Piece, Request, Target,
};
pub use setup::{Completions, Setup, Submission, TaskRun};
