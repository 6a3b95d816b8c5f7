//! What a movement has done so far, told by the mover and read by whoever draws.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counts of one movement: bytes, system calls, waits.
///
/// One mover at a time tells a meter, of two some counts are lost; any number of threads may read it meanwhile. The counts are plain
/// stores on the mover's side, because a locked addition costs as much as 1% of a small read.
#[derive(Debug, Default)]
pub struct Meter {
    bytes: AtomicU64,
    calls: AtomicU64,
    waits: AtomicU64,
    told: AtomicBool,
    routes: Mutex<Routes>,
}

/// Whose the bytes are; only told between routes, so that it costs nothing within one.
#[derive(Debug, Default)]
struct Routes {
    /// Bytes that were given to a route.
    seen: u64,
    /// The route that the rest goes by.
    goes: &'static str,
    bytes: Vec<(&'static str, u64)>,
}

/// The counts of a [`Meter`] at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Reading {
    /// Bytes that the sink has taken.
    pub bytes: u64,
    /// System calls made to move them, those that moved nothing included.
    pub calls: u64,
    /// Times that the mover could not go on and waited (blocking calls wait unseen).
    pub waits: u64,
}

impl Meter {
    /// A meter at zero.
    pub const fn new() -> Self {
        Meter {
            bytes: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            told: AtomicBool::new(false),
            routes: Mutex::new(Routes { seen: 0, goes: "", bytes: Vec::new() }),
        }
    }

    /// From here on, bytes go by this route, or outlet. A [`Transfer`](crate::Transfer) tells so itself, as does a
    /// [`FanOut`](crate::FanOut): `fan-out`, or `fan-out-queue`.
    pub fn goes(&self, route: &'static str) {
        let mut routes = self.routes();
        routes.give(self.bytes());
        routes.goes = route;
    }

    /// The bytes by route, as far as it was told. They only ever grow.
    pub fn by_route(&self) -> Vec<(&'static str, u64)> {
        let mut routes = self.routes();
        routes.give(self.bytes());
        routes.bytes.clone()
    }

    fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The counts now. Each is exact; between them a call may have been counted.
    pub fn read(&self) -> Reading {
        Reading {
            bytes: self.bytes.load(Relaxed),
            calls: self.calls.load(Relaxed),
            waits: self.waits.load(Relaxed),
        }
    }

    /// Bytes that the sink has taken.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Counts one call that moved `bytes`.
    #[inline]
    pub(crate) fn moved(&self, bytes: u64) {
        self.bytes.store(self.bytes.load(Relaxed) + bytes, Relaxed);
        self.called();
    }

    /// Counts bytes that calls counted elsewhere have moved.
    #[inline]
    pub(crate) fn delivered(&self, bytes: u64) {
        self.bytes.store(self.bytes.load(Relaxed) + bytes, Relaxed);
    }

    /// Counts one call that moved nothing to the sink.
    #[inline]
    pub(crate) fn called(&self) {
        self.calls.store(self.calls.load(Relaxed) + 1, Relaxed);
    }

    /// Tells from counts of its own, for loops in which even a load costs.
    #[inline(always)]
    pub(crate) fn teller(&self) -> Teller<'_> {
        Teller { meter: self, bytes: self.bytes.load(Relaxed), calls: self.calls.load(Relaxed) }
    }

    /// Counts one wait.
    #[inline]
    pub(crate) fn waited(&self) {
        self.waits.store(self.waits.load(Relaxed) + 1, Relaxed);
    }

    /// Makes the caller the meter's only teller until the claim is dropped; `None` while there is
    /// another.
    pub(crate) fn claim(&self) -> Option<Claim<'_>> {
        let free =
            self.told.compare_exchange(false, true, std::sync::atomic::Ordering::Acquire, Relaxed);
        free.is_ok().then_some(Claim { meter: self })
    }
}

impl Routes {
    /// Gives what came since to the route that it went by.
    fn give(&mut self, bytes: u64) {
        let rest = bytes.saturating_sub(self.seen);
        self.seen = self.seen.max(bytes);
        match self.bytes.iter_mut().find(|(name, _)| *name == self.goes) {
            Some((_, bytes)) => *bytes += rest,
            None if rest > 0 => self.bytes.push((self.goes, rest)),
            None => {}
        }
    }
}

/// Counts that are stored in a meter and never read back from it. Nothing else tells the meter
/// meanwhile.
pub(crate) struct Teller<'m> {
    meter: &'m Meter,
    bytes: u64,
    calls: u64,
}

impl Teller<'_> {
    /// Counts calls that moved `bytes` between them.
    #[inline(always)]
    pub(crate) fn tell(&mut self, bytes: u64, calls: u64) {
        self.bytes += bytes;
        self.calls += calls;
        self.meter.bytes.store(self.bytes, Relaxed);
        self.meter.calls.store(self.calls, Relaxed);
    }
}

/// The right to tell a meter.
pub(crate) struct Claim<'m> {
    meter: &'m Meter,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.meter.told.store(false, std::sync::atomic::Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_has_one_teller_at_a_time() {
        let meter = Meter::new();
        let claim = meter.claim();
        assert!(claim.is_some() && meter.claim().is_none());
        drop(claim);
        assert!(meter.claim().is_some());
    }

    #[test]
    fn bytes_belong_to_the_route_that_they_went_by() {
        let meter = Meter::new();
        meter.goes("splice");
        meter.moved(10);
        assert_eq!(meter.by_route(), [("splice", 10)]);
        meter.moved(1);
        meter.goes("read-write");
        meter.delivered(5);
        meter.goes("splice");
        meter.goes("splice");
        meter.moved(2);
        assert_eq!(meter.by_route(), [("splice", 13), ("read-write", 5)]);
    }

    #[test]
    fn a_call_that_moved_is_counted_once() {
        let meter = Meter::new();
        meter.moved(7);
        meter.called();
        assert_eq!(meter.read(), Reading { bytes: 7, calls: 2, waits: 0 });
    }
}
