//! Memory that is short, for one sample after the other: the area is made once, the stage for each, and
//! one that the kernel ended for want of memory is tried once more.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use serde_json::Value;

use super::area::{Area, Wanted};
use super::stage::{Stage, compressor};
use crate::interrupt;

/// So much memory, and what takes the pages that do not fit.
pub struct Shortage {
    pub(super) wanted: Wanted,
    limit_bytes: u64,
    /// Once it is made.
    area: OnceCell<Area>,
}

/// Of a sample that the kernel ended for want of memory one more is taken.
const ATTEMPTS: u32 = 2;

impl Shortage {
    /// Nothing is made yet.
    pub(crate) fn of(wanted: Wanted, limit_bytes: u64) -> Shortage {
        Shortage { wanted, limit_bytes, area: OnceCell::new() }
    }

    /// A stage, on the area that all have in common.
    pub(super) fn stage(&self) -> Result<Stage, String> {
        if self.area.get().is_none() {
            let _ = self.area.set(Area::make(&self.wanted)?);
        }
        let area = self.area.get().expect("it was just made");
        Stage::set(area, self.wanted.backend, self.limit_bytes, self.wanted.bytes)
    }

    /// Takes a sample on a stage of its own, whose processes have ended when it returns.
    pub(super) fn staged<T>(
        &self,
        sample: impl Fn(&mut Stage) -> Result<T, String>,
    ) -> Result<T, String> {
        let mut why = String::new();
        for _ in 0..ATTEMPTS {
            let mut stage = self.stage()?;
            let done = sample(&mut stage);
            let is_killed = stage.killed() > 0 && !interrupt::wished();
            stage.end()?;
            match done {
                Err(ended) if is_killed => why = ended,
                done => return done,
            }
        }
        Err(format!(
            "the kernel ended its process for want of memory, {ATTEMPTS} times ({why}): pages did not \
             go out fast enough, or --area is full; take a larger --area or --limit, or a smaller --size"
        ))
    }

    /// What the record tells of it.
    pub(super) fn found(&self) -> BTreeMap<String, Value> {
        let mut found = BTreeMap::new();
        if let Some(compressor) = compressor(self.wanted.backend) {
            found.insert("compressor".to_owned(), compressor.into());
        }
        if let Some(others) = self.area.get().map(Area::others).filter(|all| !all.is_empty()) {
            found.insert("others".to_owned(), others.into());
        }
        found
    }
}
