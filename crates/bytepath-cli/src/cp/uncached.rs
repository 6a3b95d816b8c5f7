//! `--uncached`: copies that leave the page cache as it was, and what contradicts that.

use std::os::fd::AsFd;
use std::sync::atomic::Ordering::Relaxed;

use bytepath::Moved;
use bytepath::routes::by_name;

use super::large::is_in_memory;
use super::moving::Detour;
use super::options::Options;
use super::settings::{Reflink, Settings, Sparse};
use super::shared::Shared;
use crate::planning::{CarryError, Carrying};

/// Sees that nothing asked for contradicts it.
///
/// # Errors
/// What does.
pub(super) fn check(settings: &Settings, options: &Options) -> Result<(), String> {
    let extras = &options.extras;
    if !extras.uncached {
        return Ok(());
    }
    let route = options.plan.route.as_deref();
    if let Some((name, Err(why))) =
        route.and_then(|name| Some((name, by_name(name)?.leaves_cache())))
    {
        return Err(format!("options --uncached and --route={name} are mutually exclusive: {why}"));
    }
    let (other, why) = if extras.direct {
        ("--direct", "that leaves the page cache alone already, and needs whole blocks")
    } else if settings.reflink == Reflink::Always {
        ("--reflink=always", "a clone has no bytes copied that could be kept out of the page cache")
    } else if settings.sparse == Sparse::Always {
        ("--sparse=always", "zeros are looked for in bytes that come through the page cache")
    } else {
        return Ok(());
    };
    Err(format!("options --uncached and {other} are mutually exclusive: {why}"))
}

impl Shared<'_> {
    /// Moves bytes by a route that leaves the page cache as it was; what none of those takes, through
    /// it.
    pub(super) fn leaving_the_cache(
        &self,
        carrying: &Carrying<'_>,
        dirty_bytes: &mut u64,
    ) -> Result<Moved, CarryError> {
        let mut detour = Detour::new(carrying);
        let leaving = Carrying { job: carrying.job.leave_cache(), ..detour.rest() };
        let tried = self.in_windows(self.plan, &leaving, dirty_bytes);
        let moved = match detour.tried(tried)? {
            Some(moved) => moved,
            None => {
                self.note_kept_in_cache(&detour.why);
                let moved = self.in_windows(self.plan, &detour.rest(), dirty_bytes)?;
                detour.ended(moved)
            }
        };
        self.note_memory(carrying.job.sink);
        Ok(moved)
    }

    /// Says once that something stays in the page cache, and why.
    pub(super) fn note_kept_in_cache(&self, why: &str) {
        let option = self.extras.leaves_cache().unwrap_or_default();
        let what = format!("{option}: what cannot be kept out of the page cache stays there");
        self.note(&what, why);
    }

    /// Says once that the copies themselves are in memory.
    fn note_memory(&self, sink: impl AsFd) {
        if is_in_memory(sink) && !self.tally.said_memory.swap(true, Relaxed) {
            self.voice.warn(format_args!(
                "--uncached: the destination is a file system in memory: its files are in the page \
                 cache and nowhere else"
            ));
        }
    }
}
