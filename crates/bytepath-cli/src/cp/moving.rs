//! How the engine is set to work for a file: past the page cache, in windows that are brought to the
//! device one by one, or as it thinks best; and what is noted of it.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

use bytepath::plan::PlanError;
use bytepath::{Moved, TransferError};
use rustix::io::Errno;

use super::data::{Data, Fault};
use super::entry::Shared;
use crate::device;
use crate::planning::{CarryError, Carrying, PlanOptions};

/// With `--progress=durable`, what is copied to a file before it is brought to the device.
const WINDOW_BYTES: u64 = 32 << 20;

/// The routes past the page cache, the better first.
const DIRECT: [&str; 2] = ["uring-direct", "linux-aio"];

impl Data<'_> {
    /// Counts bytes that did not go through the engine.
    pub(super) fn count(&mut self, route: &str, bytes: u64) -> Result<(), Fault> {
        self.shared.tally.add(bytes);
        self.shared.voice.ledger.went(route, bytes);
        self.dirty_bytes += bytes;
        match self.dirty_bytes >= WINDOW_BYTES {
            true => self.settle(),
            false => Ok(()),
        }
    }

    /// Brings what was copied to the device, where only that counts.
    pub(super) fn settle(&mut self) -> Result<(), Fault> {
        self.shared.put_on_device(self.sink, &mut self.dirty_bytes).map_err(Fault::Syncing)
    }
}

impl Shared<'_> {
    /// Brings so many bytes, which were written to a file, to the device, where only that counts.
    pub(super) fn put_on_device(
        &self,
        sink: impl AsFd,
        dirty_bytes: &mut u64,
    ) -> Result<(), Errno> {
        if !self.extras.is_durable() {
            return Ok(());
        }
        device::settle(sink)?;
        self.tally.settled(std::mem::take(dirty_bytes));
        Ok(())
    }

    /// Moves bytes by the engine. Where blocks may not be shared, they go through memory.
    pub(super) fn moved(
        &self,
        carrying: &Carrying<'_>,
        shares: bool,
        dirty_bytes: &mut u64,
    ) -> Result<Moved, CarryError> {
        // A pipe stands nowhere.
        let start = rustix::fs::tell(carrying.job.sink).unwrap_or(0);
        self.hand.reached(start);
        let moved = match (shares, &self.plan.route) {
            _ if self.extras.direct => self.past_the_cache(carrying, dirty_bytes),
            // copy_file_range(2) shares blocks where it can.
            (false, None) => self.in_windows(&self.by("read-write"), carrying, dirty_bytes),
            _ => self.in_windows(self.plan, carrying, dirty_bytes),
        };
        self.voice.ledger.moved(&moved, start);
        moved
    }

    /// The user's plan, by this route alone.
    fn by(&self, route: &str) -> PlanOptions {
        PlanOptions { route: Some(route.to_owned()), ..self.plan.clone() }
    }

    fn in_windows(
        &self,
        plan: &PlanOptions,
        carrying: &Carrying<'_>,
        dirty_bytes: &mut u64,
    ) -> Result<Moved, CarryError> {
        if !self.extras.is_durable() {
            return plan.carry(carrying);
        }
        plan.carry_in(WINDOW_BYTES, carrying, &mut |bytes| {
            *dirty_bytes += bytes;
            match *dirty_bytes >= WINDOW_BYTES {
                true => self.put_on_device(carrying.job.sink, dirty_bytes),
                false => Ok(()),
            }
        })
    }

    /// Moves them by a route past the page cache; what none of those takes, through it.
    fn past_the_cache(
        &self,
        carrying: &Carrying<'_>,
        dirty_bytes: &mut u64,
    ) -> Result<Moved, CarryError> {
        let mut total = Moved { bytes: 0, route: DIRECT[0], declined: Vec::new() };
        let mut why = String::new();
        for route in DIRECT {
            let rest = behind(carrying, total.bytes);
            match self.in_windows(&self.by(route), &rest, dirty_bytes) {
                Ok(moved) => return Ok(together(total, moved)),
                Err(CarryError::Plan(PlanError::Refused { refusal, .. })) => {
                    why = refusal.to_string();
                }
                Err(CarryError::Transfer(TransferError::Declined { offset, declined })) => {
                    why = declined.last().map_or(why, |gave| gave.why.clone());
                    total.bytes += offset;
                    total.declined.extend(declined);
                }
                Err(other) => return Err(other),
            }
        }
        if !self.tally.said_cached.swap(true, Relaxed) {
            let what = "--direct: what cannot go past the page cache is copied through it";
            self.voice.warn(format_args!("{what}: {why}"));
        }
        let moved = self.in_windows(self.plan, &behind(carrying, total.bytes), dirty_bytes)?;
        Ok(together(total, moved))
    }
}

/// What is left once so many bytes were moved.
fn behind<'a>(carrying: &Carrying<'a>, bytes: u64) -> Carrying<'a> {
    let job = match carrying.job.limit {
        Some(limit) => carrying.job.limit(limit - bytes),
        None => carrying.job,
    };
    Carrying { job, knobs: carrying.knobs.clone(), meter: carrying.meter, cancel: carrying.cancel }
}

/// Two movements as one.
fn together(mut first: Moved, second: Moved) -> Moved {
    let before = first.bytes;
    let later = second.declined.into_iter().map(|mut gave| {
        gave.offset += before;
        gave
    });
    first.declined.extend(later);
    Moved { bytes: first.bytes + second.bytes, route: second.route, declined: first.declined }
}
