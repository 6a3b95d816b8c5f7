//! What is said later: messages that are kept until everything before them in the tree was said,
//! whichever thread has them first.

use std::cell::Cell;
use std::collections::BTreeMap;

/// The place of something in the order of the tree: behind how many things that were put off, and
/// which of the files of such a thing it is about.
pub(super) type Turn = (u64, usize);

/// What is about none of the files, and follows them.
pub(super) const BEHIND_FILES: usize = usize::MAX;

/// Behind everything.
pub(super) const LAST: Turn = (u64::MAX, usize::MAX);

thread_local! {
    /// Whose turn it has to be for what this thread says; nothing while that is said at once.
    static TURN: Cell<Option<Turn>> = const { Cell::new(None) };
    /// The place of what this thread says at once.
    static AT_ONCE: Cell<Turn> = const { Cell::new((0, 0)) };
}

/// From now on, what this thread says is kept for this turn, or said at once; what it was before.
pub(super) fn set(turn: Option<Turn>) -> Option<Turn> {
    TURN.replace(turn)
}

/// Whose turn it has to be for what this thread says.
pub(super) fn own() -> Option<Turn> {
    TURN.get()
}

/// What this thread says at once has this place from now on.
pub(super) fn at_once(place: Turn) {
    AT_ONCE.set(place);
}

/// The place of what this thread says, whenever that is.
pub(super) fn place() -> Turn {
    own().unwrap_or(AT_ONCE.get())
}

/// The messages that are kept.
#[derive(Default)]
pub(super) struct Unsaid {
    lines: BTreeMap<Turn, Vec<String>>,
}

impl Unsaid {
    pub(super) fn keep(&mut self, turn: Turn, line: String) {
        self.lines.entry(turn).or_default().push(line);
    }

    /// How many are kept for this turn.
    pub(super) fn count(&self, turn: Turn) -> usize {
        self.lines.get(&turn).map_or(0, Vec::len)
    }

    /// Gives up those of all turns before this one, in their order.
    pub(super) fn before(&mut self, turn: Turn) -> impl Iterator<Item = String> {
        let rest = self.lines.split_off(&turn);
        std::mem::replace(&mut self.lines, rest).into_values().flatten()
    }

    /// Gives up all of them, in their order.
    pub(super) fn all(&mut self) -> impl Iterator<Item = String> {
        std::mem::take(&mut self.lines).into_values().flatten()
    }
}
