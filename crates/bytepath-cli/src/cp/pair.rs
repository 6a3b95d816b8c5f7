//! An entry and the place where its copy is to be, and what is known of both.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;

use rustix::fs::Stat;

use super::place::{Directory, Place};

/// An entry and the place of its copy.
#[derive(Default)]
pub(super) struct Pair {
    pub(super) source: Place,
    pub(super) sink: Place,
    pub(super) sink_is: SinkIs,
    /// Whether it was named by the user.
    pub(super) argument: bool,
    pub(super) known: Known,
    /// The source, where it was opened to be looked at.
    pub(super) open: Option<OwnedFd>,
}

/// What going through a directory told of an entry, which is not asked for again.
#[derive(Default)]
pub(super) struct Known {
    /// Whether it is a directory, as far as the one that it is in tells.
    pub(super) seems_directory: bool,
    /// Its status, just now.
    pub(super) source: Option<Stat>,
    /// That of what bears the copy's name, likewise.
    pub(super) there: Option<Stat>,
    /// Of the directory that the copy is to be in.
    pub(super) within: Option<Within>,
}

impl Pair {
    /// Makes it that of another entry of the same directory, in the memory that it has.
    pub(super) fn turn_to(&mut self, name: &OsStr) {
        self.source.turn_to(name);
        self.sink.turn_to(name);
    }

    /// Takes it out, with nothing held open for it: only its names are needed any more.
    pub(super) fn let_go(&mut self) -> Pair {
        self.source.directory = Directory::Working;
        self.sink.directory = Directory::Working;
        std::mem::take(self)
    }
}

/// What is known of the place of a copy.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum SinkIs {
    /// Nothing.
    #[default]
    Unknown,
    /// There was nothing that could be opened.
    Absent,
    /// It is in a directory that was just made.
    New,
    /// Something is there.
    There,
}

/// The place of a copy, once it was looked at.
pub(super) struct Sink {
    pub(super) is: SinkIs,
    /// What is there, behind a symbolic link if that is written through.
    pub(super) stat: Option<Stat>,
    /// The symbolic link that is there.
    pub(super) link: Option<Stat>,
    /// The same, where it cannot be followed.
    pub(super) leads_nowhere: Option<Stat>,
    /// Whether the name of what was there is its own until a new file, like no other, takes it.
    pub(super) replaced: bool,
    /// Where what was there is kept.
    pub(super) backup: Option<Place>,
    /// The directory that it is in, where that is known.
    pub(super) within: Option<Within>,
}

/// What is known of a directory that files are made in.
#[derive(Debug, Clone, Copy)]
pub(super) struct Within {
    pub(super) device: u64,
    /// Whether they may begin with an access list.
    pub(super) gives_lists: bool,
}

impl Sink {
    /// Of what is not there, in this directory.
    pub(super) fn new(within: Option<Within>) -> Sink {
        let (stat, link, leads_nowhere, replaced, backup) = (None, None, None, false, None);
        Sink { is: SinkIs::New, stat, link, leads_nowhere, replaced, backup, within }
    }

    /// What was there was removed or renamed.
    pub(super) fn gone(&mut self) {
        let (backup, within) = (self.backup.take(), self.within);
        *self = Sink { backup, ..Sink::new(within) };
    }

    /// What is there is as good as gone: it will be replaced.
    pub(super) fn be_replaced(&mut self) {
        self.gone();
        self.replaced = true;
    }

    pub(super) fn is_new(&self) -> bool {
        self.is == SinkIs::New
    }
}
