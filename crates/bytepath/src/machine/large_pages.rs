//! Whether memory in large pages is at hand, as far as this process has seen.
//!
//! One is 0.1 ms away where the kernel has it (to find and clear it), a few where it has to move other pages
//! together first, and 5 to 8 where a virtual machine gave free memory back to its host (free page reporting of
//! the balloon, which does so with large pieces, after 2 s), so that each has to be asked for again. So it is
//! tried: at once where the kernel has many free and no balloon reports, else where so much is copied that what one
//! slow page costs is little beside it.

use std::path::Path;
use std::sync::{LazyLock, Mutex, MutexGuard};
use std::time::Duration;

use super::files;
use crate::pages::HUGE_PAGE_BYTES;

/// What no page takes that is at hand. 2 MiB of small ones take 0.6 ms.
const AT_HAND: Duration = Duration::from_millis(1);

/// One slow page costs what so many gain that are not.
const FOR_ONE_SLOW: u32 = 16;

/// So many bytes are copied into memory in 60 to 80 ms: one slow page lengthens that by less than a tenth.
const FIRST_PRICE_BYTES: u64 = 256 << 20;
/// Of what is tried in vain again and again.
const LAST_PRICE_BYTES: u64 = 16 << 30;

/// Where the kernel tells how many free pieces it has of each size.
const FREE: &str = "proc/buddyinfo";
/// What many large pages are.
const FREE_BYTES: u64 = 128 << 20;

/// Where the balloon tells what it agreed on with the host: a character for each feature.
const BALLOONS: &str = "sys/bus/virtio/drivers/virtio_balloon";
/// VIRTIO_BALLOON_F_REPORTING of linux/virtio_balloon.h.
const REPORTING: usize = 5;

/// What this process has seen of large pages.
#[derive(Debug)]
pub(crate) struct LargePages {
    /// Bytes to be copied before it is worth another trial.
    owed: u64,
    /// What is owed after the next trial that is slow.
    price: u64,
    /// Somebody is at it.
    on_trial: bool,
    /// The last trial went well; how many since the last that did not.
    proven: Option<u32>,
}

/// Whether a large page is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    Now,
    /// Another thread is trying whether that is worth while.
    Tried,
    Never,
}

static SEEN: LazyLock<Mutex<LargePages>> =
    LazyLock::new(|| Mutex::new(LargePages::unseen(expected(Path::new("/")))));

impl LargePages {
    /// Whether a job of so many bytes would try them.
    pub(crate) fn suit(bytes: u64) -> bool {
        bytes >= HUGE_PAGE_BYTES as u64 && LargePages::seen().would_try(bytes)
    }

    /// Counts a job of so many bytes in.
    pub(crate) fn count(bytes: u64) {
        let mut seen = LargePages::seen();
        seen.owed = seen.owed.saturating_sub(bytes);
    }

    /// Whether to make a large page now; [`LargePages::end`] has to follow if so. Before it is known how long that
    /// takes one thread tries alone.
    pub(crate) fn begin() -> Turn {
        LargePages::seen().begins()
    }

    /// How long that took, if it went well.
    pub(crate) fn end(took: Option<Duration>) {
        LargePages::seen().ended(took.is_some_and(|took| took <= AT_HAND));
    }

    fn seen() -> MutexGuard<'static, LargePages> {
        SEEN.lock().expect("nobody panics holding it")
    }

    fn unseen(expected: bool) -> LargePages {
        let owed = if expected { 0 } else { FIRST_PRICE_BYTES };
        LargePages { owed, price: FIRST_PRICE_BYTES, on_trial: false, proven: None }
    }

    fn would_try(&self, bytes: u64) -> bool {
        self.proven.is_some() || self.owed <= bytes
    }

    fn begins(&mut self) -> Turn {
        match (self.proven, self.on_trial) {
            (Some(_), _) => Turn::Now,
            (None, true) => Turn::Tried,
            (None, false) if self.owed > 0 => Turn::Never,
            (None, false) => {
                self.on_trial = true;
                Turn::Now
            }
        }
    }

    fn ended(&mut self, fast: bool) {
        self.on_trial = false;
        match self.proven {
            _ if fast => {
                self.proven = Some(self.proven.unwrap_or(0).saturating_add(1));
                self.price = FIRST_PRICE_BYTES;
            }
            Some(enough) if enough >= FOR_ONE_SLOW => self.proven = Some(0),
            _ => {
                self.proven = None;
                self.owed = self.price;
                self.price = (self.price * 2).min(LAST_PRICE_BYTES);
            }
        }
    }
}

/// Whether large pages should be at hand.
fn expected(root: &Path) -> bool {
    let free = files::text(root, FREE).map_or(0, |zones| free_bytes(&zones));
    free >= FREE_BYTES && !balloon_reports(root)
}

/// What is free in pieces of large pages and more: `Node 0, zone Normal 7 5 …` has pieces of 1, 2, 4, … pages.
fn free_bytes(zones: &str) -> u64 {
    let page = rustix::param::page_size() as u64;
    let of_zone = |zone: &str| -> u64 {
        let pieces = zone.split_whitespace().skip(4).zip(0..);
        let bytes = pieces.map(|(count, order)| {
            let (count, bytes) = (count.parse().unwrap_or(0), page << order);
            if bytes < HUGE_PAGE_BYTES as u64 { 0 } else { bytes.saturating_mul(count) }
        });
        bytes.fold(0, u64::saturating_add)
    };
    zones.lines().map(of_zone).fold(0, u64::saturating_add)
}

/// Whether this machine gives free memory back to a host.
fn balloon_reports(root: &Path) -> bool {
    let reports = |name: &String| {
        let features = files::text(root, &format!("{BALLOONS}/{name}/features"));
        features.is_some_and(|features| features.as_bytes().get(REPORTING) == Some(&b'1'))
    };
    files::names(root, BALLOONS).iter().any(reports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_expected_page_is_tried_at_once_and_others_when_that_was_fast() {
        let mut pages = LargePages::unseen(true);
        assert!(pages.would_try(1));
        assert_eq!(pages.begins(), Turn::Now);
        assert_eq!(pages.begins(), Turn::Tried, "one thread tries alone");
        pages.ended(true);
        assert_eq!([pages.begins(), pages.begins()], [Turn::Now; 2]);
    }

    #[test]
    fn a_slow_page_has_to_be_earned_back_and_a_second_one_twice() {
        let mut pages = LargePages::unseen(false);
        let mut trials = Vec::new();
        for mib in 0_u64..=1024 {
            if pages.begins() == Turn::Now {
                trials.push(mib);
                pages.ended(false);
            }
            pages.owed = pages.owed.saturating_sub(1 << 20);
        }
        assert_eq!(trials, [256, 512, 1024]);
        assert!(pages.would_try(LAST_PRICE_BYTES));
    }

    #[test]
    fn one_slow_page_among_many_is_borne() {
        let mut pages = LargePages::unseen(true);
        for _ in 0..FOR_ONE_SLOW {
            assert_eq!(pages.begins(), Turn::Now);
            pages.ended(true);
        }
        pages.ended(false);
        assert_eq!(pages.begins(), Turn::Now, "it is made good for");
        pages.ended(false);
        assert_eq!(pages.begins(), Turn::Never, "this one is not");
    }

    #[test]
    fn pieces_of_large_pages_and_more_count_as_such() {
        let zones = "Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3\n\
                     Node 0, zone   Normal  21490  12639  11010   7217   4318   1909   3378   2198   1287   20      2 ";
        let page = rustix::param::page_size() as u64;
        if page == 4096 {
            assert_eq!(free_bytes(zones), (21 << 21) + (5 << 22));
        }
        assert_eq!(free_bytes("Node 0, zone Normal 5 5 x"), 0);
        assert_eq!(free_bytes("Node 0, zone\n\nNode"), 0);
    }

    #[test]
    fn a_balloon_says_what_it_reports() {
        let root = tempfile::tempdir().expect("a folder");
        assert!(!balloon_reports(root.path()));
        let device = root.path().join(BALLOONS).join("virtio0");
        std::fs::create_dir_all(&device).expect("a device");
        for (features, reports) in [("011000\n", false), ("0110010\n", true), ("01", false)] {
            std::fs::write(device.join("features"), features).expect("written");
            assert_eq!(balloon_reports(root.path()), reports, "{features}");
        }
    }
}
