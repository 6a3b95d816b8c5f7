//! How the engine is set to work for a file: past the page cache, in windows that are brought to the
//! device one by one, or as it thinks best; and what is noted of it.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

use bytepath::plan::PlanError;
use bytepath::{Moved, TransferError};
use rustix::io::Errno;

use super::data::{Data, Fault};
use super::hand::Other;
use super::options::Options;
use super::settings::{Reflink, Settings, Sparse};
use super::shared::Shared;
use crate::device;
use crate::planning::{CarryError, Carrying, PlanOptions};

/// With `--progress=durable`, what is copied to a file before it is brought to the device.
const WINDOW_BYTES: u64 = 32 << 20;

/// The routes past the page cache, the better first.
const DIRECT: [&str; 2] = ["uring-direct", "linux-aio"];

/// Sees that nothing asked for contradicts the way that was.
///
/// # Errors
/// What does.
pub(super) fn check(settings: &Settings, options: &Options) -> Result<(), String> {
    if settings.sparse != Sparse::Always {
        return Ok(());
    }
    let (other, why) = match options.plan.route.as_deref() {
        _ if options.extras.direct => ("--direct".into(), "come through the page cache"),
        None | Some("read-write") => return Ok(()),
        Some(name) => (format!("--route={name}"), "are read and written by hand"),
    };
    let what = format!("options {other} and --sparse=always are mutually exclusive");
    Err(format!("{what}: zeros are looked for in bytes that {why}"))
}

impl Data<'_> {
    /// Counts bytes that did not go through the engine.
    pub(super) fn count(&mut self, way: Other, bytes: u64) -> Result<(), Fault> {
        self.shared.hand.add(way, bytes);
        self.shared.voice.ledger.went(way.route().unwrap_or_default(), bytes);
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

    /// Moves bytes by the engine, by the user's plan; where blocks may not be shared, every byte is
    /// written anew.
    pub(super) fn moved(
        &self,
        carrying: &Carrying<'_>,
        shares: bool,
        dirty_bytes: &mut u64,
    ) -> Result<Moved, CarryError> {
        // A pipe stands nowhere.
        let start = rustix::fs::tell(carrying.job.sink).unwrap_or(0);
        self.hand.reached(start);
        self.voice.ledger.moves(self.hand, start);
        // copy_file_range(2) shares blocks where it can. A route that was named is taken, unless
        // somebody said that nothing may be shared.
        let named = self.plan.route.is_some() && self.settings.reflink != Reflink::Never;
        let job = match shares || named {
            true => carrying.job,
            false => carrying.job.unshared(),
        };
        let carrying = &Carrying { job, knobs: carrying.knobs.clone(), ..*carrying };
        let moved = match (self.extras.direct, self.extras.uncached) {
            (true, _) => self.past_the_cache(carrying, dirty_bytes),
            (_, true) => self.leaving_the_cache(carrying, dirty_bytes),
            _ => self.in_windows(self.plan, carrying, dirty_bytes),
        };
        self.voice.ledger.moved(self.hand, ended_short(&moved));
        moved
    }

    /// The user's plan, by this route alone.
    fn by(&self, route: &str) -> PlanOptions {
        PlanOptions { route: Some(route.to_owned()), ..self.plan.clone() }
    }

    /// Moves them by a plan, in windows where each has to be on the device before the next.
    pub(super) fn in_windows(
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
        let mut detour = Detour::new(carrying);
        for route in DIRECT {
            let tried = self.in_windows(&self.by(route), &detour.rest(), dirty_bytes);
            if let Some(moved) = detour.tried(tried)? {
                return Ok(moved);
            }
        }
        self.note("--direct: what cannot go past the page cache is copied through it", &detour.why);
        let moved = self.in_windows(self.plan, &detour.rest(), dirty_bytes)?;
        Ok(detour.ended(moved))
    }

    /// Says once that something is not copied as it was asked for.
    pub(super) fn note(&self, what: &str, why: &str) {
        if !self.tally.said_cached.swap(true, Relaxed) {
            self.voice.warn(format_args!("{what}: {why}"));
        }
    }
}

/// A movement by ways that may be refused, until one is not.
pub(super) struct Detour<'c, 'a> {
    carrying: &'c Carrying<'a>,
    /// What was moved so far.
    total: Moved,
    /// Why the last way was refused.
    pub(super) why: String,
}

impl<'c, 'a> Detour<'c, 'a> {
    pub(super) fn new(carrying: &'c Carrying<'a>) -> Detour<'c, 'a> {
        let total = Moved::default();
        Detour { carrying, total, why: String::new() }
    }

    /// What is left to be moved.
    pub(super) fn rest(&self) -> Carrying<'a> {
        behind(self.carrying, self.total.bytes)
    }

    /// Takes the answer of one way; nothing where it was refused, and another has to go on.
    ///
    /// # Errors
    /// It failed.
    pub(super) fn tried(
        &mut self,
        moved: Result<Moved, CarryError>,
    ) -> Result<Option<Moved>, CarryError> {
        match moved {
            Ok(moved) => return Ok(Some(self.ended(moved))),
            Err(CarryError::Plan(
                PlanError::Refused { refusal, .. } | PlanError::None(refusal),
            )) => {
                self.why = refusal.to_string();
            }
            Err(CarryError::Transfer(TransferError::Declined { offset, declined })) => {
                if let Some(gave) = declined.last() {
                    self.why = gave.why.clone();
                }
                self.total.bytes += offset;
                self.total.declined.extend(declined);
            }
            Err(other) => return Err(other),
        }
        Ok(None)
    }

    /// All of it, with what the last way moved.
    pub(super) fn ended(&mut self, last: Moved) -> Moved {
        let total = Moved::default();
        together(std::mem::replace(&mut self.total, total), last)
    }
}

/// Whether a movement ended short, and by which word of the kernel.
fn ended_short(moved: &Result<Moved, CarryError>) -> Option<Option<Errno>> {
    match moved {
        Err(CarryError::Transfer(TransferError::Failed(failed))) => Some(Some(failed.errno)),
        Err(CarryError::Syncing { errno, .. }) => Some(Some(*errno)),
        Err(CarryError::Transfer(
            TransferError::Declined { .. } | TransferError::Cancelled { .. },
        )) => Some(None),
        Ok(_) | Err(_) => None,
    }
}

/// What is left once so many bytes were moved.
fn behind<'a>(carrying: &Carrying<'a>, bytes: u64) -> Carrying<'a> {
    let job = match carrying.job.limit {
        Some(limit) => carrying.job.limit(limit - bytes),
        None => carrying.job,
    };
    Carrying { job, knobs: carrying.knobs.clone(), ..*carrying }
}

/// Two movements as one.
fn together(mut first: Moved, second: Moved) -> Moved {
    let before = first.bytes;
    let later = second.declined.into_iter().map(|mut gave| {
        gave.offset += before;
        gave
    });
    first.declined.extend(later);
    Moved { bytes: first.bytes + second.bytes, declined: first.declined, ..second }
}
