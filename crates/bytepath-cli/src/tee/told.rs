//! What is told of a copying while it lasts.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use bytepath::Meter;
use bytepath::fan_out::Lags;

use super::outputs::Outputs;
use crate::metrics::Figures;

/// Counted by the fan-out.
pub(super) struct Told {
    pub(super) meter: Meter,
    pub(super) lags: Lags,
    /// Of the outputs, in their order.
    names: Vec<String>,
    queued: AtomicBool,
}

impl Told {
    pub(super) fn new(outputs: &Outputs<'_>, queued: bool) -> Told {
        let places = 0..outputs.ends().len();
        let places = places.filter(|place| outputs.is_output(*place));
        let names = places.map(|place| outputs.name(place).to_string_lossy().into_owned());
        let (lags, names) = (Lags::of(outputs.ends().len()), names.collect());
        Told { meter: Meter::new(), lags, names, queued: queued.into() }
    }

    /// It goes on without a queue, before anything was moved.
    pub(super) fn go_on_without_queue(&self) {
        self.queued.store(false, Relaxed);
    }

    pub(super) fn is_queued(&self) -> bool {
        self.queued.load(Relaxed)
    }

    /// Only with a queue can an output be behind the others.
    pub(super) fn figures(&self) -> Figures {
        let names = self.names.iter().enumerate().filter(|_| self.is_queued());
        let outputs = names.map(|(place, name)| (name.clone(), self.lags.bytes(place))).collect();
        // The meter counts the calls for the source alone, and no waits.
        Figures { outputs, calls: None, waits: None, ..Figures::of(&self.meter) }
    }
}
