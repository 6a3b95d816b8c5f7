//! Pages lent to the hugetlb pool for a run, on explicit wish alone, and taken back afterwards: also
//! by the next start where the run was killed.

use std::path::{Path, PathBuf};

use bytepath::machine::Machine;
use bytepath::pages::HUGE_PAGE_BYTES;

use crate::left::{Alone, Left, Note, REMOVED};

/// How the note begins.
const WORD: &str = "hugetlb-pool ";

/// Where the pool of 2 MiB pages is told and set.
const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

/// Pages that were lent; taken back when it is dropped.
#[derive(Debug)]
pub struct Lent {
    pages: u64,
    note: Note,
}

impl Lent {
    /// Adds as many 2 MiB pages to the pool as hold so many bytes.
    ///
    /// # Errors
    /// There is no pool, no right, or not so much memory in one piece; the pool is as before then.
    pub fn lend(bytes: u64) -> Result<Lent, String> {
        let wanted = bytes.div_ceil(HUGE_PAGE_BYTES as u64);
        let alone = Alone::wait().map_err(|error| error.to_string())?;
        let before = pages(Path::new(POOL))
            .ok_or_else(|| format!("{POOL}: this kernel has no pool of 2 MiB pages"))?;
        let mut note = alone.note().map_err(|error| format!("cannot keep a note: {error}"))?;
        let told = |note: &mut Note, text: String| {
            note.tell(text.as_bytes()).map_err(|error| format!("cannot keep a note: {error}"))
        };
        let boot = Machine::this().boot_id();
        told(&mut note, format!("{WORD}{boot} wanted {before} {wanted}"))?;
        let set = set(Path::new(POOL), before + wanted);
        let now = pages(Path::new(POOL)).unwrap_or(before);
        // Whoever takes pages back waits for its turn, and so do we, from here on.
        drop(alone);
        let mut lent = Lent { pages: now.saturating_sub(before), note };
        if let Err(error) = set {
            return Err(format!("cannot lend pages: {POOL}: {error}; only root may"));
        }
        if lent.pages < wanted {
            return Err(format!(
                "only {} of {wanted} pages of 2 MiB could be made: memory is short or fragmented; \
                 root may write 1 to /proc/sys/vm/compact_memory",
                lent.pages
            ));
        }
        told(&mut lent.note, format!("{WORD}{boot} lent {before} {wanted}"))?;
        Ok(lent)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        // What cannot be taken back keeps its note, and the next run tries again.
        let Ok(_alone) = Alone::wait() else { return };
        if taken_back(Path::new(POOL), self.pages).is_ok() {
            self.note.done();
        }
    }
}

/// The pages that the pool has for good, which is what is set. What is read counts also those that others
/// have on top of them for as long as they use them (surplus pages, by nr_overcommit_hugepages).
fn pages(pool: &Path) -> Option<u64> {
    let told = |path: &Path| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let surplus = told(&pool.with_file_name("surplus_hugepages")).unwrap_or(0);
    Some(told(pool)?.saturating_sub(surplus))
}

fn set(pool: &Path, pages: u64) -> std::io::Result<()> {
    std::fs::write(pool, pages.to_string())
}

/// Takes so many pages out of the pool, whatever others have put there since.
fn taken_back(pool: &Path, lent: u64) -> std::io::Result<()> {
    match pages(pool) {
        Some(now) if lent > 0 => set(pool, now.saturating_sub(lent)),
        _ => Ok(()),
    }
}

/// A note that was read.
pub(crate) struct Found {
    is_current: bool,
    /// Whether it is known that all of them were lent.
    is_sure: bool,
    before: u64,
    pages: u64,
}

impl Found {
    /// The note of lent pages; `None` where this is the note of something else.
    pub(crate) fn read(told: &[u8]) -> Option<Found> {
        let text = std::str::from_utf8(told).ok()?;
        let mut words = text.strip_prefix(WORD)?.split_whitespace();
        let is_current = words.next()? == Machine::this().boot_id();
        let is_sure = match words.next()? {
            "lent" => true,
            "wanted" => false,
            _ => return None,
        };
        let mut number = || words.next()?.parse().ok();
        Some(Found { is_current, is_sure, before: number()?, pages: number()? })
    }

    /// Takes the pages back. After a restart of the machine there are none.
    pub(crate) fn undone(&self) -> Option<Left> {
        self.undone_in(Path::new(POOL))
    }

    fn undone_in(&self, pool: &Path) -> Option<Left> {
        let now = pages(pool).filter(|_| self.is_current)?;
        let pages = match self.is_sure {
            true => self.pages,
            // It was killed while the kernel made them: what there is more than before is of it.
            false => self.pages.min(now.saturating_sub(self.before)),
        };
        if pages == 0 {
            return None;
        }
        let removed = taken_back(pool, pages).map_err(|error| error.to_string());
        let path = PathBuf::from(format!("{pages} pages of {}", pool.display()));
        Some(Left { path, what: REMOVED, removed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(note: &str, now: u64) -> (bool, String) {
        after_beside(note, now, 0)
    }

    /// What is told afterwards, where so many of the pages are surplus ones of others.
    fn after_beside(note: &str, now: u64, surplus: u64) -> (bool, String) {
        let folder = tempfile::tempdir().expect("a folder");
        let pool = folder.path().join("nr_hugepages");
        set(&pool, now).expect("it is written");
        set(&folder.path().join("surplus_hugepages"), surplus).expect("it is written");
        let note = note.replace("BOOT", Machine::this().boot_id());
        let found = Found::read(note.as_bytes()).expect("a note");
        let left = found.undone_in(&pool).is_some();
        (left, std::fs::read_to_string(&pool).expect("it is there"))
    }

    #[test]
    fn pages_of_others_that_go_with_their_use_do_not_come_to_stay() {
        let lent = "hugetlb-pool BOOT lent 10 50";
        assert_eq!(after_beside(lent, 62, 2), (true, "10".into()));
        let wanted = "hugetlb-pool BOOT wanted 10 50";
        assert_eq!(after_beside(wanted, 32, 2), (true, "10".into()), "not all came");
        assert_eq!(after_beside(wanted, 12, 2), (false, "12".into()), "none came");
    }

    #[test]
    fn what_was_lent_is_taken_back_and_nothing_of_others() {
        assert_eq!(after("hugetlb-pool BOOT lent 10 50", 60), (true, "10".into()));
        assert_eq!(
            after("hugetlb-pool BOOT lent 10 50", 90),
            (true, "40".into()),
            "others lent too"
        );
        assert_eq!(
            after("hugetlb-pool BOOT wanted 10 50", 30),
            (true, "10".into()),
            "not all came"
        );
        assert_eq!(after("hugetlb-pool BOOT wanted 10 50", 10), (false, "10".into()), "none came");
        assert_eq!(after("hugetlb-pool another lent 10 50", 60), (false, "60".into()), "a restart");
    }

    #[test]
    fn notes_of_something_else_are_none() {
        for text in ["", "zram x made 0", "hugetlb-pool", "hugetlb-pool b lent x 1", "/a/folder"] {
            assert!(Found::read(text.as_bytes()).is_none(), "{text}");
        }
    }
}
