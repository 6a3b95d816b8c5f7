//! The two ends of a pipe as programs: one that writes, one that reads, and what each tells of
//! itself. `bytepath write` and `bytepath read` are these, and so are the processes of an arm.

mod pattern;
mod read;
mod starter;
mod usage;
mod write;

use std::collections::BTreeMap;
use std::time::Duration;

use bytepath::error::{Refusal, Stop};
use bytepath::pages::{PageSize, Pages, PagesError, page_bytes};
use bytepath_report::{Costs, numbers};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::page_map::Mapping;

pub use pattern::{Pattern, PatternError, Verifier};
pub use read::{ReadEnd, Until};
pub use starter::Starter;
pub use usage::Usage;
pub(crate) use usage::costs_per_gib;
pub use write::WriteEnd;

/// What an end did while it was measured.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct EndReport {
    /// The outlet or inlet, under whose word `write`, `gen` and `read` tell it to people.
    #[serde(alias = "outlet", alias = "inlet")]
    pub mechanism: String,
    /// Bytes moved.
    pub bytes: u64,
    /// Bytes that came before the clock started, where there was a warm-up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warm_up_bytes: Option<u64>,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// System calls that it made on the pipe.
    pub calls: u64,
    /// Times that it waited other than in such a call.
    pub waits: u64,
    /// What the process used meanwhile.
    pub usage: Usage,
    /// Bytes per call at most.
    pub chunk_bytes: u64,
    /// The size of the pipe (F_GETPIPE_SZ); 0 where the descriptor is none.
    pub pipe_bytes: u64,
    /// Bytes that one slot of the pipe held on average, where the outlet knows.
    pub slot_bytes: Option<u64>,
    /// Why a pipe was smaller than the outlet wished for, where one was.
    pub pipe_refused: Option<String>,
    /// Whether every byte was looked at.
    pub touched: bool,
    /// The sum of all bytes, where they were looked at.
    pub checksum: Option<u64>,
    /// Whether the source had no more to give.
    pub source_ended: bool,
    /// After how many bytes the verified pattern repeated itself; 0 for never.
    pub pattern_period: Option<u64>,
    /// What the work turned out to be made of, for the arm's parameters.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub found: BTreeMap<String, Value>,
}

impl EndReport {
    /// GiB/s; 0 where no time passed.
    pub fn gib_per_second(&self) -> f64 {
        if self.seconds > 0.0 { self.bytes as f64 / GIB / self.seconds } else { 0.0 }
    }

    /// What each GiB cost it.
    pub(crate) fn costs(&self) -> Costs {
        costs_per_gib(&self.usage, Some(self.calls).filter(|calls| *calls > 0), self.bytes)
    }
}

/// What a reader says to whom nothing came: that is the writer's failure.
pub const NOTHING_CAME: &str = "nothing came to be measured: the writer ended too early, or failed";

/// Bytes of a GiB.
pub const GIB: f64 = (1u64 << 30) as f64;

/// How an end went wrong.
#[derive(Debug, thiserror::Error)]
pub enum EndError {
    /// The descriptor cannot be used.
    #[error(transparent)]
    Endpoint(#[from] bytepath::endpoint::EndpointError),
    /// The mechanism ended short.
    #[error("{mechanism}: {}", said(.stop))]
    Stopped {
        /// The outlet or inlet.
        mechanism: &'static str,
        /// How.
        stop: Stop,
    },
    /// The mechanism does not suit the descriptor.
    #[error("{mechanism} is refused: {refusal}")]
    Refused {
        /// The outlet or inlet.
        mechanism: &'static str,
        /// Why.
        refusal: Refusal,
    },
    /// Memory of the wanted kind is not to be had.
    #[error(transparent)]
    Pages(#[from] PagesError),
    /// Huge pages were asked for, to be checked, and did not come.
    #[error(
        "only {} of the {} of buffers are in huge pages: memory may be fragmented, or \
         /sys/kernel/mm/transparent_hugepage/enabled is never; free some, write madvise there as \
         root, or ask for --hugetlb pages",
        numbers::bytes(*.huge),
        numbers::bytes(*.bytes)
    )]
    NotHuge {
        /// Bytes in huge pages.
        huge: u64,
        /// Bytes of the buffers that are there.
        bytes: u64,
    },
    /// Huge pages were to be checked, and none were asked for.
    #[error("no huge pages were asked for, so there are none to check; add --huge-page")]
    NoneAsked,
    /// The bytes were not those of the pattern.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The inlet brings no bytes to look at.
    #[error("{0} does not bring bytes into memory, so nothing can be verified; use --inlet read")]
    NothingToVerify(&'static str),
    /// The end cannot run where it is to run.
    #[error(transparent)]
    Placement(#[from] bytepath::placement::PlacementError),
}

/// The stop as a person reads it: that it was "declined" matters to planners only.
fn said(stop: &Stop) -> String {
    match stop {
        Stop::Declined(refusal) => refusal.to_string(),
        stop => stop.to_string(),
    }
}

/// Fails unless what there is of this process's buffers lies in huge pages: they alone are advised to.
fn check_huge(pages: Pages) -> Result<(), EndError> {
    match pages.size {
        PageSize::Base => return Err(EndError::NoneAsked),
        // The pool gives its pages or none.
        PageSize::Hugetlb => return Ok(()),
        PageSize::Huge => {}
    }
    let unknown = |error| PagesError::Unknown(format!("/proc/self/smaps: {error}"));
    let maps = Mapping::all_of("self").map_err(unknown)?;
    let advised = || maps.iter().filter(|map| map.flags.iter().any(|flag| flag == "hg"));
    let bytes = advised().map(|map| map.resident_bytes).sum();
    let huge = advised().map(|map| map.anon_huge_bytes).sum();
    if huge < bytes { Err(EndError::NotHuge { huge, bytes }) } else { Ok(()) }
}

/// Page faults of an end while it moves bytes that bring none of them: some dozens.
const OTHER_FAULTS: u64 = 64;

/// Fails if most of the pages that an end took for what it wrote were small. Each of these is a fault, and
/// a huge page is one in place of hundreds. `None` where it wrote too little for its faults to tell.
fn check_taken(bytes: u64, faults: u64) -> Option<Result<(), EndError>> {
    let page = page_bytes(PageSize::Base) as u64;
    let others = OTHER_FAULTS * page;
    if bytes < 4 * others {
        return None;
    }
    let huge = bytes.saturating_sub(faults * page);
    let is_huge = huge + others >= bytes / 2;
    Some(if is_huge { Ok(()) } else { Err(EndError::NotHuge { huge, bytes }) })
}

/// Seconds as a number.
fn seconds(time: Duration) -> f64 {
    time.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_in_huge_pages_may_have_taken_some_small_ones_but_not_most() {
        const GIB: u64 = 1 << 30;
        let (small, huge) = (page_bytes(PageSize::Base) as u64, 2 << 20);
        let taken = |of_huge: u64, of_small: u64, others: u64| {
            let faults = of_huge / huge + of_small / small + others;
            check_taken(of_huge + of_small, faults)
        };
        assert!(matches!(taken(4 * GIB, 0, 0), Some(Ok(()))));
        assert!(matches!(taken(4 * GIB, huge, 60), Some(Ok(()))));
        for of_huge in [0, GIB] {
            let most = taken(of_huge, 3 * GIB, 0);
            assert!(matches!(most, Some(Err(EndError::NotHuge { .. }))), "{most:?}");
        }
        assert!(matches!(taken(0, 1 << 20, 9), Some(Err(EndError::NotHuge { huge: 0, .. }))));
        assert!(taken(0, small, 60).is_none());
    }
}
