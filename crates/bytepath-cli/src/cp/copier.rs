//! What goes through the operands and their trees, and what it knows of them on the way.

use std::cell::OnceCell;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::Stat;

use super::crew::{Batch, Crew};
use super::level::{Level, Target, levels_open};
use super::pair::{Pair, Sink, Within};
use super::place::Directory;
use super::seen::Seen;
use super::shared::Shared;
use super::stack::levels_here;
use super::turns::Turn;

/// What goes through the operands and their trees.
pub(super) struct Copier<'a> {
    pub(super) shared: &'a Shared<'a>,
    pub(super) seen: Seen,
    /// Whether operands are several, which then must not meet each other.
    pub(super) tracks: bool,
    /// What the operands are copied into, and what is known of it.
    pub(super) base: Directory,
    pub(super) within: Option<Within>,
    /// The directory that is copied as an operand, and its copy, for messages about directories that
    /// hold themselves.
    pub(super) operand: (OsString, OsString),
    /// Whether the operand has a directory made, which is then known.
    pub(super) first_made: bool,
    /// Whether a directory was met that is its own copy.
    pub(super) met_itself: bool,
    /// The directories that are being copied, the outermost first.
    pub(super) levels: Vec<Level>,
    pub(super) levels_open: usize,
    /// How many are on the stack of the thread that began.
    pub(super) levels_here: usize,
    /// Who copies files beside this thread, if anybody does.
    pub(super) crew: Option<&'a Crew<'a>>,
    pub(super) later: Later,
    /// What of this operand may be done in another order than that of its inodes.
    pub(super) order: Order,
    /// Empty memory that directories are read by way of.
    pub(super) room: Vec<u8>,
}

impl<'a> Copier<'a> {
    /// One that has copied nothing yet, and does so alone.
    pub(super) fn new(shared: &'a Shared<'a>, base: Directory) -> Copier<'a> {
        Copier {
            shared,
            seen: Seen::default(),
            tracks: false,
            base,
            within: None,
            operand: Default::default(),
            first_made: false,
            met_itself: false,
            levels: Vec::new(),
            levels_open: levels_open(),
            levels_here: levels_here(),
            crew: None,
            later: Later::default(),
            order: Order::default(),
            room: Vec::new(),
        }
    }
}

/// In which order the entries of an operand are copied, but for what is said.
#[derive(Default)]
pub(super) struct Order {
    /// Whether files can be put off in directories that were there before, as far as the options go.
    pub(super) may_be_beside: bool,
    /// Whether directories of a new one are to be gone through in rounds, likewise.
    pub(super) may_be_rounds: bool,
    /// Whether source and destination are not within each other, once that was looked at.
    pub(super) parted: OnceCell<bool>,
    /// Whether any directory is gone through in rounds.
    pub(super) has_rounds: bool,
}

/// What is still to be done, the first of it first.
#[derive(Default)]
pub(super) struct Later {
    pub(super) waiting: VecDeque<(Turn, Item)>,
    /// Whether it is being worked off: nothing is put off again.
    pub(super) now: bool,
}

pub(super) enum Item {
    Files(Arc<Batch>),
    Ending(Box<Ending>),
}

/// A directory all of whose entries were gone through, and its attributes not yet set.
pub(super) struct Ending {
    pub(super) pair: Arc<Pair>,
    pub(super) stat: Stat,
    pub(super) sink: Sink,
    pub(super) open: Arc<OwnedFd>,
    pub(super) target: Target,
    pub(super) source: Arc<OwnedFd>,
    /// Whether a failure of the directory itself was told of before.
    pub(super) has_failed: bool,
}
