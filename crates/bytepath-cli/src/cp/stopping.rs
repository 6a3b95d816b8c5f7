//! How a signal stops the movements that are going on.

use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};

use bytepath::wait::Cancel;
use bytepath::{Moved, TransferError};

use crate::planning::CarryError;

/// Who sent a signal waits no longer than this for a device.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Stops movements from file to file where they have left no gap, so that what is there is what the
/// source begins with.
pub(super) struct Stopping {
    cancel: Cancel,
    /// How many are going on.
    moving: AtomicUsize,
}

impl Default for Stopping {
    fn default() -> Stopping {
        Stopping { cancel: Cancel::by_interruption(), moving: AtomicUsize::new(0) }
    }
}

impl Stopping {
    /// What stops them.
    pub(super) fn cancel(&self) -> &Cancel {
        &self.cancel
    }

    /// Moves; where that was stopped, the program ends, and this does not come back.
    pub(super) fn heeded(
        &self,
        stoppable: bool,
        moved: impl FnOnce() -> Result<Moved, CarryError>,
    ) -> Result<Moved, CarryError> {
        if !stoppable {
            return moved();
        }
        self.moving.fetch_add(1, SeqCst);
        let moved = moved();
        self.moving.fetch_sub(1, SeqCst);
        if matches!(moved, Err(CarryError::Transfer(TransferError::Cancelled { .. }))) {
            loop {
                std::thread::park();
            }
        }
        moved
    }

    /// Stops them, and waits until they are, unless a device keeps one for long.
    pub(super) fn stop(&self) {
        self.cancel.cancel();
        let until = Instant::now() + PATIENCE;
        while self.moving.load(SeqCst) > 0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
