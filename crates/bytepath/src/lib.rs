//! Moves bytes on Linux by the fastest route this machine offers.
//!
//! ```
//! use bytepath::{Endpoint, Job, Knobs, Meter, Plan, Transfer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let source = Endpoint::open_source("/etc/hostname")?;
//! let sink = Endpoint::open_sink("/dev/null")?;
//! let job = Job::new(&source, &sink);
//! let plan = Plan::best(&job, Knobs::default())?;
//! println!("{plan}");
//! let meter = Meter::new();
//! let moved = Transfer::new(&job, &plan).meter(&meter).run()?;
//! println!("{} bytes by {} in {} calls", moved.bytes, moved.route, meter.read().calls);
//! # Ok(()) }
//! ```
//!
//! Bytes that begin in this process go out by an outlet, and come in by an inlet:
//!
//! ```
//! use std::os::fd::AsFd;
//! use bytepath::{Endpoint, Meter, inlets, outlets};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (reader, writer) = rustix::pipe::pipe()?;
//! let (source, sink) = (Endpoint::source(reader.as_fd())?, Endpoint::sink(writer.as_fd())?);
//! let (sent, taken) = (Meter::new(), Meter::new());
//! let gift = outlets::by_name("gift").ok_or("no such outlet")?;
//! let mut producer = gift.open(&sink, &outlets::Setup::new(&sent))?;
//! producer.room()?.ok_or("it only repeats")?[..5].copy_from_slice(b"bytes");
//! producer.send(5)?;
//! let read = inlets::by_name("read").ok_or("no such inlet")?;
//! let mut consumer = read.open(&source, &inlets::Setup::new(&taken))?;
//! consumer.take(5)?;
//! assert_eq!(consumer.bytes(), b"bytes");
//! # Ok(()) }
//! ```
//!
//! The way of a byte: a [`Job`] joins a source and a sink [`Endpoint`]; a [`Plan`] ranks the
//! [`routes`] that suit it; a [`Transfer`] runs the plan and tells the [`Meter`]; what movers for people
//! do, [`planning`] does: it looks at the profile where that is worth it, and watches the plan. Where bytes begin
//! or end in this process, [`outlets`] send memory into a descriptor and [`inlets`] take it out.
//! One source goes to many sinks by a [`FanOut`], and [`small_files`] do without plans. Where a file has data, and where
//! [`holes`], can be asked. Requests to io_uring of one's own go through [`ring`]. What is true of the machine is in [`machine`], and which CPUs the ends run on in
//! [`placement`].
//!
//! The library never prints, logs, installs signal handlers or changes settings of the machine.
//! Calls block; [`Cancel`] stops transfers, fan-outs, inlets and outlets from another thread.

#![warn(missing_debug_implementations)]

pub mod channel;
pub mod endpoint;
pub mod engines;
pub mod error;
pub mod fan_out;
pub mod holes;
pub mod inlets;
pub mod knobs;
pub mod machine;
pub mod meter;
pub mod outlets;
pub mod page_cache;
pub mod pages;
pub mod placement;
pub mod plan;
pub mod planning;
pub mod profile;
pub mod ring;
pub mod routes;
mod seal;
pub mod shell;
mod size;
pub mod small_files;
mod sys;
pub mod transfer;
pub mod wait;
pub mod zero_copy;

/// Of what is in signatures here, such as [`rustix::io::Errno`], the version that is meant.
pub use rustix;

pub use endpoint::{Endpoint, Kind};
pub use error::{Failed, Refusal, Side, Stop};
pub use fan_out::FanOut;
pub use knobs::{Cpu, Knobs, Pipes};
pub use meter::Meter;
pub use plan::Plan;
pub use profile::Profile;
pub use routes::Job;
pub use transfer::{Moved, Transfer, TransferError};
pub use wait::{Cancel, Wait};

/// The example in the README, tried as those here are.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
