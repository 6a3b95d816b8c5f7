//! Small files, and what is between holes that are close together, with no plan made.

use std::cell::RefCell;

use bytepath::Side;
use bytepath::small_files::{Bytes, NotFilled, SMALL_BYTES, SmallFiles};
use rustix::fs::FileType;

use super::{Data, Fault};
use crate::cp::hand::Other;
use crate::cp::place::kind;
use crate::cp::settings::{Reflink, Sparse};
use crate::cp::shared::Shared;

thread_local! {
    static SMALL_FILES: RefCell<SmallFiles> = RefCell::default();
}

/// Copies by this thread's means.
pub(in crate::cp) fn with_small_files<T>(act: impl FnOnce(&mut SmallFiles) -> T) -> T {
    SMALL_FILES.with_borrow_mut(act)
}

impl Fault {
    pub(in crate::cp) fn of_small(NotFilled { side, errno, .. }: NotFilled) -> Fault {
        match side {
            Side::Source => Fault::Reading(errno),
            Side::Sink => Fault::Writing(errno),
            Side::Either => Fault::Copying(errno),
        }
    }
}

impl Shared<'_> {
    /// Whether nothing was asked for that takes a plan, or tells of one. A profile says what large
    /// movements give: by its routes 20,000 files of 3 KB took three times as long.
    pub(in crate::cp) fn needs_no_plan(&self) -> bool {
        let plan = self.plan;
        let asks = plan.route.is_some() || plan.explain_plan;
        // --debug tells how much the kernel did by itself.
        !self.settings.debug && !asks && !self.extras.one_by_one()
    }

    /// Counts what was moved of a small file.
    pub(in crate::cp) fn count_small(&self, moved: Bytes) {
        let ways = [
            (Other::Reflink, moved.shared),
            (Other::CopyFileRange, moved.in_kernel),
            (Other::ReadWrite, moved.through_memory),
        ];
        for (way, bytes) in ways.into_iter().filter(|(_, bytes)| *bytes > 0) {
            self.hand.add(way, bytes);
            self.voice.ledger.went(way.route().unwrap_or_default(), bytes);
        }
    }
}

impl Data<'_> {
    /// Whether so many bytes between two holes are copied by [`Data::copy_short`].
    pub(super) fn is_short(&self, bytes: u64) -> bool {
        bytes <= SMALL_BYTES as u64 && self.shared.needs_no_plan()
    }

    /// Copies bytes between two holes; how many, which is fewer where the source was cut.
    pub(super) fn copy_short(&self, at: u64, bytes: u64) -> Result<u64, Fault> {
        let moved = with_small_files(|small| small.fill_at(self.source, self.sink, at, bytes));
        self.counted(at, moved)
    }

    /// Whether it is a small file of which only the bytes are wanted. A file that says it is empty
    /// may be one of /proc.
    pub(super) fn is_small(&self) -> bool {
        let stat = self.source_stat;
        self.to.is_file
            && kind(stat) == FileType::RegularFile
            && (0..SMALL_BYTES as i64).contains(&stat.st_size)
            && self.shared.settings.sparse != Sparse::Always
            && self.shared.needs_no_plan()
    }

    /// Copies it, and all that it has become longer by.
    pub(super) fn copy_small(&self) -> Result<(), Fault> {
        let in_kernel = self.shared.settings.reflink != Reflink::Never;
        let (source, sink, stat) = (self.source, self.sink, self.source_stat);
        let moved = with_small_files(|small| small.fill(source, sink, stat, in_kernel));
        self.counted(0, moved).map(drop)
    }

    /// Takes note of what was moved from a place on, and how much it is.
    fn counted(&self, at: u64, moved: Result<Bytes, NotFilled>) -> Result<u64, Fault> {
        let bytes = moved.unwrap_or_else(|not_filled| not_filled.moved);
        self.shared.count_small(bytes);
        self.shared.hand.reached(at + bytes.all());
        moved.map(Bytes::all).map_err(|not_filled| {
            self.shared.voice.ledger.stopped(not_filled.errno, at + bytes.all());
            Fault::of_small(not_filled)
        })
    }
}
