//! Which addresses of a process lie in which physical pages, and of what size: by
//! /proc/PID/smaps, which its user may read, and /proc/PID/pagemap with /proc/kpageflags, which
//! tell physical pages to root alone.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use serde::Serialize;

mod advice;

pub use advice::{Settings, advice};

/// A mapping of a process, as smaps tells it. Sizes are in bytes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Mapping {
    /// Its addresses.
    pub range: Range<u64>,
    /// What may be done there: `rw-p`.
    pub permissions: String,
    /// The file, `[heap]`, `[stack]`, or nothing.
    pub name: String,
    /// What is there of it.
    pub resident_bytes: u64,
    /// What of that is in transparent huge pages of private memory.
    pub anon_huge_bytes: u64,
    /// In transparent huge pages of shared memory.
    pub shmem_huge_bytes: u64,
    /// In transparent huge pages of files.
    pub file_huge_bytes: u64,
    /// In pages of the hugetlb pool.
    pub hugetlb_bytes: u64,
    /// What of it is private memory of no file.
    pub anonymous_bytes: u64,
    /// What is swapped out.
    pub swapped_bytes: u64,
    /// Whether the kernel may put it into transparent huge pages as it is set; `None` where the
    /// kernel does not tell.
    pub thp_eligible: Option<bool>,
    /// The two letters of each flag: `hg` for MADV_HUGEPAGE, `nh` for MADV_NOHUGEPAGE.
    pub flags: Vec<String>,
}

impl Mapping {
    /// The mappings of a process, by its number or `self`.
    ///
    /// # Errors
    /// There is no such process, or it is another user's.
    pub fn all_of(pid: &str) -> io::Result<Vec<Mapping>> {
        // The names of files are bytes.
        let text = std::fs::read(format!("/proc/{pid}/smaps"))?;
        Ok(parsed(&String::from_utf8_lossy(&text)))
    }

    /// What of it is in huge pages of any kind.
    pub fn huge_bytes(&self) -> u64 {
        self.anon_huge_bytes + self.shmem_huge_bytes + self.file_huge_bytes + self.hugetlb_bytes
    }

    fn set(&mut self, field: &str, value: &str) {
        let kib = || value.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap_or(0) << 10;
        match field {
            "Rss" => self.resident_bytes = kib(),
            "AnonHugePages" => self.anon_huge_bytes = kib(),
            "ShmemPmdMapped" => self.shmem_huge_bytes = kib(),
            "FilePmdMapped" => self.file_huge_bytes = kib(),
            // Pages of the pool are not in Rss.
            "Private_Hugetlb" | "Shared_Hugetlb" => {
                self.hugetlb_bytes += kib();
                self.resident_bytes += kib();
            }
            "Anonymous" => self.anonymous_bytes = kib(),
            "Swap" => self.swapped_bytes = kib(),
            "THPeligible" => self.thp_eligible = value.trim().parse::<u8>().ok().map(|may| may > 0),
            "VmFlags" => self.flags = value.split_whitespace().map(str::to_owned).collect(),
            _ => {}
        }
    }
}

/// The mappings in a text as of smaps.
fn parsed(text: &str) -> Vec<Mapping> {
    let mut all: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        if let Some(mapping) = heading(line) {
            all.push(mapping);
        } else if let (Some(mapping), Some((field, value))) = (all.last_mut(), line.split_once(':'))
        {
            mapping.set(field, value);
        }
    }
    all
}

/// `7f12a000-7f12b000 rw-p 00000000 00:00 0    [heap]`.
fn heading(line: &str) -> Option<Mapping> {
    let (addresses, rest) = line.split_once(' ')?;
    let (start, end) = addresses.split_once('-')?;
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let range = number(start)?..number(end)?;
    // A name may have spaces; the four fields before it have none.
    let mut name = rest;
    let permissions = rest.split(' ').next()?.to_owned();
    for _ in 0..4 {
        name = name.split_once(' ').map_or("", |(_, rest)| rest.trim_start());
    }
    Some(Mapping { range, permissions, name: name.to_owned(), ..Mapping::default() })
}

/// Addresses that lie in physical pages one after the other, of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Run {
    /// The addresses.
    pub range: Range<u64>,
    /// The number of the first physical page, of the machine's base pages.
    pub frame: u64,
    /// The size of what they lie in, in bytes: a base page, a folio of several, or a huge page.
    pub page_bytes: u64,
    /// `base`, `folio`, `thp`, `hugetlb` or `zero`, which is the page of zeros that all share.
    pub kind: &'static str,
}

/// The physical pages of a mapping.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Frames {
    /// Bytes by the size of what they lie in.
    pub bytes_by_page: BTreeMap<u64, u64>,
    /// Where they lie, the first [`RUNS_MAX`].
    pub runs: Vec<Run>,
    /// Runs beyond those.
    pub runs_left_out: u64,
}

/// So many runs of a mapping are kept: nobody reads more.
pub const RUNS_MAX: usize = 4096;

/// Pages looked up at once.
const PAGES_AT_ONCE: u64 = 1 << 15;

/// A mapping that is larger, such as the shadow of a sanitizer, takes too long to look through.
const PAGES_MAX: u64 = 1 << 26;

/// The files that tell it.
pub struct Lookup {
    pagemap: File,
    kpageflags: File,
    page_bytes: u64,
}

/// Root of a container may lack the capability: it is told which pages are there, and not where.
const HIDDEN: &str =
    "physical pages are hidden from all but root with CAP_SYS_ADMIN: only sizes are told";

/// Bits of the kernel's Documentation/admin-guide/mm/pagemap.rst.
const PRESENT: u64 = 1 << 63;
const FRAME: u64 = (1 << 55) - 1;
const COMPOUND_TAIL: u64 = 1 << 16;
const COMPOUND: u64 = (1 << 15) | COMPOUND_TAIL;
const HUGE: u64 = 1 << 17;
const THP: u64 = 1 << 22;
const ZERO: u64 = 1 << 24;

impl Lookup {
    /// Looks pages of a process up.
    ///
    /// # Errors
    /// Only root may.
    pub fn of(pid: &str) -> Result<Lookup, String> {
        let open = |path: String| {
            File::open(&path).map_err(|error| match error.kind() {
                io::ErrorKind::PermissionDenied => {
                    format!("cannot open {path}: {error}; it takes CAP_SYS_ADMIN here")
                }
                _ => format!("cannot open {path}: {error}"),
            })
        };
        if !rustix::process::geteuid().is_root() {
            return Err(HIDDEN.into());
        }
        Ok(Lookup {
            pagemap: open(format!("/proc/{pid}/pagemap"))?,
            kpageflags: open("/proc/kpageflags".to_owned())?,
            page_bytes: rustix::param::page_size() as u64,
        })
    }

    /// The physical pages of a mapping.
    ///
    /// # Errors
    /// The process has gone, the mapping is too large to look through, or the kernel hides where it lies.
    pub fn frames(&self, mapping: &Mapping) -> Result<Frames, String> {
        let pages = mapping.range.start / self.page_bytes..mapping.range.end / self.page_bytes;
        let mut frames = Frames::default();
        if mapping.resident_bytes == 0 {
            return Ok(frames);
        }
        if pages.end - pages.start > PAGES_MAX {
            return Err("too large to look through page by page".into());
        }
        let mut builder =
            Builder { page_bytes: self.page_bytes, current: None, frames: &mut frames };
        for from in pages.clone().step_by(PAGES_AT_ONCE as usize) {
            let count = PAGES_AT_ONCE.min(pages.end - from);
            let entries = words(&self.pagemap, from, count).map_err(|error| error.to_string())?;
            for (page, entry) in (from..).zip(entries) {
                let frame = entry & FRAME;
                if entry & PRESENT == 0 {
                    builder.finish();
                    continue;
                }
                // Nobody's page lies there: it stands for what may not be known.
                if frame == 0 {
                    return Err(HIDDEN.into());
                }
                let flags = words(&self.kpageflags, frame, 1).map_err(|error| error.to_string())?;
                builder.add(page, frame, flags.first().copied().unwrap_or(0));
            }
        }
        builder.finish();
        Ok(frames)
    }
}

/// Puts pages together to what they are parts of.
struct Builder<'a> {
    page_bytes: u64,
    current: Option<Piece>,
    frames: &'a mut Frames,
}

/// Pages of one folio, or a base page.
struct Piece {
    page: u64,
    frame: u64,
    count: u64,
    kind: &'static str,
}

impl Builder<'_> {
    fn add(&mut self, page: u64, frame: u64, flags: u64) {
        let kind = match flags {
            flags if flags & ZERO != 0 => "zero",
            flags if flags & HUGE != 0 => "hugetlb",
            flags if flags & THP != 0 => "thp",
            flags if flags & COMPOUND != 0 => "folio",
            _ => "base",
        };
        // A tail that follows is of the same folio; anything else begins another.
        let goes_on = self.current.as_ref().is_some_and(|current| {
            flags & COMPOUND_TAIL != 0
                && current.kind == kind
                && current.frame + current.count == frame
                && current.page + current.count == page
        });
        match self.current.as_mut().filter(|_| goes_on) {
            Some(current) => current.count += 1,
            None => {
                self.finish();
                self.current = Some(Piece { page, frame, count: 1, kind });
            }
        }
    }

    fn finish(&mut self) {
        let Some(Piece { page, frame, count, kind }) = self.current.take() else { return };
        let (start, bytes) = (page * self.page_bytes, count * self.page_bytes);
        *self.frames.bytes_by_page.entry(bytes).or_default() += bytes;
        let run = Run { range: start..start + bytes, frame, page_bytes: bytes, kind };
        if let Some(last) = self.frames.runs.last_mut() {
            let frames = (last.range.end - last.range.start) / self.page_bytes;
            let follows = last.range.end == run.range.start && last.frame + frames == run.frame;
            if follows && last.kind == run.kind && last.page_bytes == run.page_bytes {
                last.range.end = run.range.end;
                return;
            }
        }
        match self.frames.runs.len() < RUNS_MAX {
            true => self.frames.runs.push(run),
            false => self.frames.runs_left_out += 1,
        }
    }
}

/// Words of a file that has one for each page. It may end early.
fn words(file: &File, from: u64, count: u64) -> io::Result<Vec<u64>> {
    let mut bytes = vec![0; count as usize * 8];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], from * 8 + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
55d0c8a00000-55d0c8c00000 rw-p 00000000 00:00 0                          [heap]
Size:               2048 kB
Rss:                2048 kB
Anonymous:          2048 kB
AnonHugePages:      2048 kB
Swap:                 12 kB
THPeligible:           1
VmFlags: rd wr mr mw me ac hg
7f0000000000-7f0000400000 rw-s 00000000 00:0f 33   /dev/huge pages/a b (deleted)
Rss:                   0 kB
Private_Hugetlb:    2048 kB
Shared_Hugetlb:     2048 kB
ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0                  [vsyscall]
";

    #[test]
    fn smaps_is_read_with_names_that_have_spaces() {
        let all = parsed(SMAPS);
        assert_eq!(all.len(), 3);
        assert_eq!((all[0].name.as_str(), all[0].anon_huge_bytes), ("[heap]", 2 << 20));
        assert_eq!((all[0].swapped_bytes, all[0].thp_eligible), (12 << 10, Some(true)));
        assert!(all[0].flags.contains(&"hg".to_owned()));
        assert_eq!(all[1].name, "/dev/huge pages/a b (deleted)");
        assert_eq!((all[1].hugetlb_bytes, all[1].resident_bytes), (4 << 20, 4 << 20));
        assert_eq!(all[2].range, 0xffff_ffff_ff60_0000..0xffff_ffff_ff60_1000);
    }

    #[test]
    fn text_that_is_none_has_no_mappings() {
        for text in ["", "\n\n", "Rss: 1 kB", "zz-yy rw-p", "1-2", "1-2 r", "5-1 r"] {
            assert!(parsed(text).len() <= 1, "{text:?}");
        }
    }

    #[test]
    fn pages_of_one_folio_are_put_together() {
        let mut frames = Frames::default();
        let mut builder = Builder { page_bytes: 4096, current: None, frames: &mut frames };
        let head = 1 << 15;
        // A folio of four pages, another right behind it, a base page, and one somewhere else.
        for (page, frame, flags) in [
            (10, 100, head),
            (11, 101, COMPOUND_TAIL),
            (12, 102, COMPOUND_TAIL),
            (13, 103, COMPOUND_TAIL),
            (14, 104, head),
            (15, 105, COMPOUND_TAIL),
            (16, 106, COMPOUND_TAIL),
            (17, 107, COMPOUND_TAIL),
            (18, 108, 0),
            (19, 500, 0),
        ] {
            builder.add(page, frame, flags);
        }
        builder.finish();
        assert_eq!(frames.bytes_by_page, BTreeMap::from([(4096, 8192), (16384, 32768)]));
        let runs: Vec<_> = frames.runs.iter().map(|run| (run.frame, run.kind)).collect();
        assert_eq!(runs, [(100, "folio"), (108, "base"), (500, "base")]);
    }
}
