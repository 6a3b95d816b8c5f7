//! Carries a job out stretch by stretch, as its planning says.

use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};

use super::watch::Window;
use super::{CarryError, Planning};
use crate::{Cancel, Failed, Job, Meter, Moved, Plan, Transfer, TransferError};

/// What is needed to carry a job out.
#[derive(Debug)]
pub struct Carrying<'a> {
    /// The job.
    pub job: Job<'a>,
    /// Whom to tell.
    pub meter: &'a Meter,
    /// Who may stop it.
    pub cancel: Option<&'a Cancel>,
}

impl Planning<'_> {
    /// Carries the job out, from where it stands to its end.
    ///
    /// May be called again, to go on after a cancel or with more of the same ends: the job's limit is
    /// of each call. What it returns, and the places that errors tell, count all that this planning has
    /// moved, in the calls before as well. The bytes that an error holds (`stranded`) are the first
    /// of those that the sink lacks: whoever goes on gives them to it before, and they count as
    /// moved then, though neither the meter nor the new limit knows of them.
    ///
    /// # Errors
    /// See [`CarryError`].
    pub fn carry(&mut self, carrying: &Carrying<'_>) -> Result<Moved, CarryError> {
        self.carry_in(u64::MAX, carrying, &mut |_| Ok(()))
    }

    /// The same in windows of so many bytes at most (1 at least); `after` is called with the bytes of
    /// each, to bring them to the device. A job that keeps its source, which does not advance, is one window.
    ///
    /// # Errors
    /// See [`CarryError`].
    pub fn carry_in(
        &mut self,
        window_bytes: u64,
        carrying: &Carrying<'_>,
        after: &mut dyn FnMut(u64) -> Result<(), Errno>,
    ) -> Result<Moved, CarryError> {
        self.go_on_with(&carrying.job)?;
        let at_entry = self.total.bytes;
        loop {
            let before = self.total.bytes;
            let went = before - at_entry;
            let left = carrying.job.limit.map_or(u64::MAX, |limit| limit.saturating_sub(went));
            let most = match carrying.job.keep_source {
                // The next stretch would begin with the same bytes again.
                true => left,
                false => self.most_bytes().min(left).min(window_bytes.max(1)),
            };
            let job = match most {
                u64::MAX => carrying.job,
                most => self.stretch(&carrying.job, most, left),
            };
            let clock = self.clock();
            let moved = match run(carrying, &job, self.plan()) {
                Ok(moved) => moved,
                Err(error) => {
                    self.broke_off(&error);
                    return Err(beyond(error, before).into());
                }
            };
            let bytes = moved.bytes;
            self.went(&carrying.job, moved, clock)?;
            if let Err(errno) = after(bytes) {
                self.broke_off = true;
                return Err(CarryError::Syncing { errno, moved: self.total.clone() });
            }
            if bytes < most || bytes >= left {
                return Ok(self.total.clone());
            }
        }
    }
}

/// When a stretch began, on the wall and, where somebody asks, on the CPU.
#[derive(Debug)]
pub struct Clock {
    wall: Instant,
    cpu: Option<Duration>,
}

impl Clock {
    /// Now. Costs a system call.
    pub fn now() -> Clock {
        Clock { wall: Instant::now(), cpu: Some(cpu()) }
    }

    /// Now, on the wall alone. Costs none.
    pub(super) fn wall() -> Clock {
        Clock { wall: Instant::now(), cpu: None }
    }

    /// What was moved since.
    pub(super) fn window(&self, bytes: u64) -> Window {
        let on_cpu = self.cpu.map_or(Duration::ZERO, |began| cpu().saturating_sub(began));
        Window { bytes, wall: self.wall.elapsed(), cpu: on_cpu }
    }
}

/// What this thread has had of the CPU.
fn cpu() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

fn run(carrying: &Carrying<'_>, job: &Job<'_>, plan: &Plan) -> Result<Moved, TransferError> {
    let transfer = Transfer::new(job, plan).meter(carrying.meter);
    match carrying.cancel {
        Some(cancel) => transfer.cancel(cancel).run(),
        None => transfer.run(),
    }
}

/// The same error, told by its place in the whole job.
fn beyond(mut error: TransferError, first_bytes: u64) -> TransferError {
    if let TransferError::Failed(Failed { offset, declined, .. })
    | TransferError::Declined { offset, declined }
    | TransferError::Cancelled { offset, declined, .. } = &mut error
    {
        *offset += first_bytes;
        declined.iter_mut().for_each(|gave| gave.offset += first_bytes);
    }
    error
}
