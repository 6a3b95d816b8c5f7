//! Which route moved how many of the bytes that a meter counts: told by the mover between two
//! stretches, so that it costs nothing within one.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytepath::Meter;

use super::Figures;

/// A meter whose bytes are known by route.
#[derive(Debug, Default)]
pub(crate) struct Metered {
    pub(crate) meter: Meter,
    routes: Routes,
}

impl Metered {
    /// From here on, bytes are expected to go by this route.
    pub(crate) fn goes(&self, route: &'static str) {
        self.routes.goes(self.meter.bytes(), route);
    }

    /// What came since went by this route, whatever was expected.
    pub(crate) fn went(&self, route: &'static str) {
        self.routes.went(self.meter.bytes(), route);
    }

    /// How far it is.
    pub(crate) fn figures(&self) -> Figures {
        let reading = self.meter.read();
        Figures {
            routes: self.routes.look(reading.bytes),
            calls: Some(reading.calls),
            waits: Some(reading.waits),
            ..Figures::default()
        }
    }
}

/// Of one meter.
#[derive(Debug, Default)]
struct Routes(Mutex<Split>);

#[derive(Debug, Default)]
struct Split {
    /// Bytes of the meter that were given to a route.
    seen: u64,
    /// The route that the rest is believed to go by.
    goes: &'static str,
    bytes: Vec<(&'static str, u64)>,
}

impl Routes {
    /// From here on, bytes are expected to go by this route.
    fn goes(&self, metered: u64, route: &'static str) {
        let mut split = self.split();
        split.give_rest(metered, None);
        split.goes = route;
    }

    /// What came since went by this route, whatever was expected.
    fn went(&self, metered: u64, route: &'static str) {
        self.split().give_rest(metered, Some(route));
    }

    /// Bytes by route. They only ever grow: what a look gave to a route stays there.
    fn look(&self, metered: u64) -> Vec<(&'static str, u64)> {
        let mut split = self.split();
        split.give_rest(metered, None);
        split.bytes.clone()
    }

    fn split(&self) -> MutexGuard<'_, Split> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Split {
    fn give_rest(&mut self, metered: u64, route: Option<&'static str>) {
        let rest = metered.saturating_sub(self.seen);
        let route = route.filter(|route| !route.is_empty()).unwrap_or(self.goes);
        self.seen = self.seen.max(metered);
        if rest == 0 {
            return;
        }
        match self.bytes.iter_mut().find(|(name, _)| *name == route) {
            Some((_, bytes)) => *bytes += rest,
            None => self.bytes.push((route, rest)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_belong_to_the_route_that_moved_them_and_never_become_fewer() {
        let routes = Routes::default();
        routes.goes(0, "splice");
        assert_eq!(routes.look(10), [("splice", 10)]);
        // The stretch turns out to have gone by another; what was looked at stays.
        routes.went(30, "read-write");
        assert_eq!(routes.look(30), [("splice", 10), ("read-write", 20)]);
        routes.goes(30, "copy-file-range");
        routes.went(35, "");
        assert_eq!(routes.look(35).last(), Some(&("copy-file-range", 5)));
        assert_eq!(routes.look(1).iter().map(|(_, bytes)| bytes).sum::<u64>(), 35);
    }
}
