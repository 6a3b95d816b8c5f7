//! A stage for one sample: an area that is on, a group that is short of memory, and what both tell.

use std::path::PathBuf;

use bytepath_report::Figures;

use super::area::{Area, On};
use super::group::MemoryGroup;
use super::usage::Counters;
use super::{Backend, zswap};

const MIB: f64 = (1 << 20) as f64;

/// An area that is on, and a group; both gone when it is dropped.
pub(super) struct Stage {
    // The group goes first: what its processes have in swap is then free.
    group: MemoryGroup,
    on: On,
    /// The groups that the processes of the sample are put into.
    pub(super) joined: Vec<PathBuf>,
    before: Moment,
}

/// What is counted from the beginning of what is measured.
#[derive(Clone, Copy)]
struct Moment {
    counters: Counters,
    waited_s: Option<f64>,
    major_faults: Option<u64>,
}

impl Stage {
    /// Sets it up: so much memory, and all that an area has.
    pub(super) fn set(
        area: &Area,
        backend: Backend,
        limit: u64,
        swap: u64,
    ) -> Result<Stage, String> {
        let limit = (backend != Backend::None).then_some(limit);
        let group = MemoryGroup::make(limit, swap)?;
        let on = area.on()?;
        let others = on.throttle().map_or(Ok(Vec::new()), |throttle| throttle.apply(&group))?;
        let joined = group.joined(others);
        let before = Moment::now(&group);
        Ok(Stage { group, on, joined, before })
    }

    /// What is measured begins now.
    pub(super) fn begins(&mut self) {
        self.before = Moment::now(&self.group);
    }

    /// What the pages that are out take; to be asked while they are.
    pub(super) fn taken(&self, figures: &mut Figures) {
        if let Some(used) = self.on.used_bytes() {
            figures.add("in swap", "MiB", used as f64 / MIB);
        }
        if let Some([plain, compressed, memory]) = self.on.taken_bytes() {
            let ratio = (compressed > 0).then(|| plain as f64 / compressed as f64);
            figures.add("compression", "ratio", ratio);
            figures.add("memory taken", "MiB", memory as f64 / MIB);
        }
    }

    /// What went in and out, and what that cost beside the processes themselves.
    pub(super) fn moved(&self, figures: &mut Figures) {
        let (now, before) = (Moment::now(&self.group), &self.before);
        figures.add("swapped in", "MiB", now.counters.mib_in_since(&before.counters));
        figures.add("swapped out", "MiB", now.counters.mib_out_since(&before.counters));
        let waited = now.waited_s.zip(before.waited_s).map(|(now, before)| now - before);
        figures.add("memory pressure", "s", waited);
        figures.add("CPU kernel threads", "s", now.counters.kernel_s_since(&before.counters));
        let most = self.group.most_bytes().map(|bytes| bytes as f64 / MIB);
        figures.add("memory at most", "MiB", most);
    }

    /// Major faults of the group since it began.
    pub(super) fn major_faults(&self) -> Option<u64> {
        let now = self.group.major_faults()?;
        Some(now.saturating_sub(self.before.major_faults?))
    }

    /// How often a process of the group was ended for want of memory.
    pub(super) fn killed(&self) -> u64 {
        self.group.killed()
    }

    /// Takes it down.
    pub(super) fn end(self) -> Result<(), String> {
        let Stage { group, on, .. } = self;
        drop(group);
        on.off()
    }
}

impl Moment {
    fn now(group: &MemoryGroup) -> Moment {
        Moment {
            counters: Counters::take(),
            waited_s: group.waited_s(),
            major_faults: group.major_faults(),
        }
    }
}

/// What compresses, for the record.
pub(super) fn compressor(backend: Backend) -> Option<String> {
    match backend {
        Backend::Zram(algorithm) => Some(algorithm.to_owned()),
        Backend::Zswap => zswap::compressor(),
        _ => None,
    }
}
