//! What was copied already: operands given twice, files with several names, directories that are
//! their own copies.

use std::collections::BTreeMap;
use std::ffi::OsString;

use rustix::fs::Stat;

use super::place::{Directory, Follow, Place};

/// Device and inode.
pub(super) type Identity = (u64, u64);

pub(super) fn identity(stat: &Stat) -> Identity {
    (stat.st_dev, stat.st_ino)
}

/// A copy that was made earlier, by its path from where the operands are copied into.
#[derive(Clone)]
pub(super) struct Earlier {
    pub(super) base: Directory,
    pub(super) path: OsString,
    pub(super) shown: OsString,
}

impl Earlier {
    pub(super) fn place(&self) -> Place {
        let base_bytes = self.shown.len() - self.path.len().min(self.shown.len());
        Place {
            directory: self.base.clone(),
            name: self.path.clone(),
            shown: self.shown.clone(),
            base_bytes,
        }
        .shortened()
    }
}

impl Place {
    /// This copy, as it is remembered.
    pub(super) fn earlier(&self, base: &Directory) -> Earlier {
        let (path, shown) = (self.relative().to_owned(), self.shown.clone());
        Earlier { base: base.clone(), path, shown }
    }
}

/// Memory of one run. No maps of hashes, here and elsewhere in the copying: the standard library's ends
/// a program that gets no random numbers.
#[derive(Default)]
pub(super) struct Seen {
    copies: BTreeMap<Identity, Earlier>,
    sources: BTreeMap<Identity, Vec<Place>>,
    /// What was made for operands, by its path, and what is there of it, once that is asked for.
    destinations: BTreeMap<OsString, Option<Option<Identity>>>,
}

impl Seen {
    /// The copy that this inode already has; else remembers this one.
    pub(super) fn remember(
        &mut self,
        inode: Identity,
        copy: impl FnOnce() -> Earlier,
    ) -> Option<Earlier> {
        match self.copies.entry(inode) {
            std::collections::btree_map::Entry::Occupied(earlier) => Some(earlier.get().clone()),
            std::collections::btree_map::Entry::Vacant(free) => {
                free.insert(copy());
                None
            }
        }
    }

    /// The copy that this inode already has.
    pub(super) fn earlier(&self, inode: Identity) -> Option<Earlier> {
        self.copies.get(&inode).cloned()
    }

    /// Forgets a copy that was not made after all.
    pub(super) fn forget(&mut self, inode: Identity) {
        self.copies.remove(&inode);
    }

    /// Whether an operand names the same entry as one before; remembers it otherwise.
    pub(super) fn source(&mut self, inode: Identity, place: &Place) -> bool {
        let known = self.sources.entry(inode).or_default();
        let twice = known.iter().any(|other| other.is_same_entry(place));
        if !twice {
            known.push(place.clone());
        }
        twice
    }

    /// Remembers that this run made the destination of an operand. What it is need not be known while
    /// only other operands that are no directories could replace it: they are told of, too.
    pub(super) fn made(&mut self, place: &Place) {
        self.destinations.insert(place.relative().to_owned(), None);
    }

    /// Whether it did, and this is still there.
    pub(super) fn was_made(&self, inode: Identity, place: &Place) -> bool {
        let is = || place.stat(Follow::No).ok().map(|stat| identity(&stat));
        let known = self.destinations.get(place.relative());
        known.is_some_and(|known| known.unwrap_or_else(is) == Some(inode))
    }

    /// Finds out what was made, before the entries of a directory are copied, which may replace it.
    pub(super) fn know_made(&mut self, base: &Directory) {
        for (path, known) in &mut self.destinations {
            known.get_or_insert_with(|| {
                let earlier =
                    Earlier { base: base.clone(), path: path.clone(), shown: path.clone() };
                earlier.place().stat(Follow::No).ok().map(|stat| identity(&stat))
            });
        }
    }
}
