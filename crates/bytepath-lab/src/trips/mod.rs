//! Round trips between two processes: one sends some bytes, the other sends them back. The two
//! processes are `bytepath trip`.

mod channel;
mod files;
mod futex;

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use bytepath::Wait;
use bytepath::pages::AlignedBuffer;
use bytepath_report::latency;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

use crate::ends::Usage;
use crate::passing::control::Control;

/// What bytes go by, there and back.
pub trait Medium: Sync {
    /// Its name.
    fn name(&self) -> &'static str;

    /// Whether it carries so many bytes: some only wake the other.
    fn carries(&self, bytes: usize) -> bool;

    /// Makes what joins the two ends: the descriptors of this one, and as many of the other.
    ///
    /// # Errors
    /// It is not to be had here.
    fn joints(&self) -> io::Result<(Vec<OwnedFd>, Vec<OwnedFd>)>;

    /// How many descriptors an end has.
    fn joints_an_end(&self) -> usize;

    /// Makes the end that begins, or the one that answers, of its descriptors.
    ///
    /// # Errors
    /// As of [`Medium::joints`].
    fn end(&self, joints: Vec<OwnedFd>, side: Side) -> io::Result<Box<dyn Trips>>;
}

/// Which of the two ends it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that begins.
    Begins,
    /// The one that answers.
    Answers,
}

/// An end that is ready.
pub trait Trips {
    /// Sends these bytes.
    ///
    /// # Errors
    /// The kernel's word.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Waits until all of them have come.
    ///
    /// # Errors
    /// The kernel's word.
    fn receive(&mut self, into: &mut [u8]) -> io::Result<()>;
}

/// Every medium.
pub const MEDIA: &[&dyn Medium] = &[
    &files::Files { name: "pipe", of: files::Of::Pipes },
    &files::Files { name: "unix-socket", of: files::Of::UnixSockets },
    &files::Files { name: "tcp", of: files::Of::Tcp },
    &files::Files { name: "eventfd", of: files::Of::Eventfds },
    &futex::Futex,
    &channel::Channel { name: "channel-block", wait: Wait::Block },
    &channel::Channel { name: "channel-spin", wait: Wait::Spin },
    &channel::Channel { name: "channel-hybrid", wait: Wait::Hybrid(bytepath::wait::HYBRID_BUDGET) },
];

/// The medium of this name.
pub fn by_name(name: &str) -> Option<&'static dyn Medium> {
    MEDIA.iter().copied().find(|medium| medium.name() == name)
}

/// What the end that begins is to do.
pub struct Job {
    /// By what.
    pub medium: &'static dyn Medium,
    /// Bytes of a trip; at least 8.
    pub bytes: usize,
    /// For so long before the clock starts.
    pub warm_up: Duration,
    /// For so long.
    pub time: Duration,
}

/// What came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TripReport {
    /// Trips there and back.
    pub trips: u64,
    /// How long all of them took, in seconds.
    pub seconds: f64,
    /// How long each took, as `bytepath_report::latency` encodes it.
    pub histogram: String,
    /// What the process that begins used.
    pub usage: Usage,
}

/// Makes trip after trip.
///
/// # Errors
/// The medium is not to be had, failed, or brought back other bytes.
pub fn begin(job: &Job, control: OwnedFd) -> io::Result<TripReport> {
    let mut control = Control::new(control);
    let (ours, theirs) = job.medium.joints()?;
    for joint in theirs {
        control.hand(joint)?;
    }
    let mut end = job.medium.end(ours, Side::Begins)?;
    control.until_ready()?;
    let (mut out, mut back) = (AlignedBuffer::new(job.bytes), AlignedBuffer::new(job.bytes));
    let mut trips = 0_u64;
    let mut round = |histogram: &mut Histogram<u64>| {
        trips += 1;
        out[..8].copy_from_slice(&trips.to_ne_bytes());
        let began = Instant::now();
        end.send(&out)?;
        end.receive(&mut back)?;
        histogram.saturating_record(began.elapsed().as_nanos() as u64);
        match out[..] == back[..] {
            true => Ok(()),
            false => Err(io::Error::other("other bytes came back than were sent")),
        }
    };
    timed(job.warm_up, &mut round)?;
    let before = Usage::of_this_process();
    let (histogram, seconds) = timed(job.time, &mut round)?;
    Ok(TripReport {
        trips: histogram.len(),
        seconds,
        histogram: latency::encoded(&histogram).map_err(io::Error::other)?,
        usage: Usage::of_this_process().since(before),
    })
}

/// Once, and then for so long.
fn timed(
    time: Duration,
    round: &mut impl FnMut(&mut Histogram<u64>) -> io::Result<()>,
) -> io::Result<(Histogram<u64>, f64)> {
    let (mut histogram, began) = (latency::empty(), Instant::now());
    loop {
        round(&mut histogram)?;
        let elapsed = began.elapsed();
        if elapsed >= time {
            return Ok((histogram, elapsed.as_secs_f64()));
        }
    }
}

/// Answers until the other end is gone, or this process is ended.
///
/// # Errors
/// The medium is not to be had; or the other end is gone, which is how it ends.
pub fn answer(medium: &dyn Medium, bytes: usize, control: OwnedFd) -> io::Result<()> {
    let mut control = Control::new(control);
    let joints = (0..medium.joints_an_end()).map(|_| control.taken());
    let mut end = medium.end(joints.collect::<io::Result<_>>()?, Side::Answers)?;
    control.ready()?;
    let mut buffer = AlignedBuffer::new(bytes);
    loop {
        end.receive(&mut buffer)?;
        end.send(&buffer)?;
    }
}
