//! Files that code is mapped from: where each of their addresses lies, and the tables by which
//! stacks are unwound.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::ops::Range;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::sync::Arc;

use blazesym::symbolize::source::Elf;
use framehop::ExplicitModuleSectionInfo;
use object::read::ReadCache;
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSegment};

use crate::record::Map;

/// The bytes of a section, shared by all processes that have it mapped.
pub(crate) type Bytes = Arc<[u8]>;

/// All files that were seen, each once.
#[derive(Default)]
pub(crate) struct Files {
    all: Vec<CodeFile>,
    kept_open: usize,
    by_name: HashMap<(String, Identity), u32>,
}

/// What tells a file from others that have its name, at other times or in other mount namespaces.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct Identity {
    pub(crate) device: u64,
    pub(crate) inode: u64,
    /// What tells an inode from a later one of its number, where the kernel says it.
    pub(crate) generation: Option<u64>,
}

/// A file that code was mapped from.
pub(crate) struct CodeFile {
    /// Its path, or what the kernel calls it: `[vdso]`, `//anon`.
    pub(crate) name: String,
    /// Its segments: where they lie in the file, and at which address they want to be.
    segments: Vec<Segment>,
    sections: Option<ExplicitModuleSectionInfo<Bytes>>,
    /// Itself, for its symbols: when they are asked for, its name may be another's, and its process gone.
    open: Option<File>,
    /// What it was mapped as and how it was then, where it could be read.
    seen: Option<(Map, State)>,
}

/// What changes when a file is made, written or removed: only an open descriptor keeps its inode from being
/// another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    changed: (i64, i64),
    bytes: u64,
}

/// Of more files than this, the first are kept open: a build runs thousands of programs.
const KEPT_OPEN_MAX: usize = 128;

struct Segment {
    in_file: Range<u64>,
    address: u64,
}

impl Files {
    /// The number of a file, which is looked at when it comes for the first time.
    pub(crate) fn number_of(&mut self, map: &Map) -> u32 {
        let key = (map.name.clone(), map.file);
        if let Some(number) = self.by_name.get(&key).filter(|known| self.get(**known).is_still(map))
        {
            return *number;
        }
        let number = u32::try_from(self.all.len()).expect("fewer than 2^32 files are mapped");
        let mut file = CodeFile::of(map);
        match self.kept_open < KEPT_OPEN_MAX {
            true => self.kept_open += usize::from(file.open.is_some()),
            false => file.open = None,
        }
        self.all.push(file);
        self.by_name.insert(key, number);
        number
    }

    pub(crate) fn get(&self, number: u32) -> &CodeFile {
        &self.all[number as usize]
    }
}

impl CodeFile {
    fn of(map: &Map) -> CodeFile {
        let name = map.name.clone();
        let nothing =
            CodeFile { name, segments: Vec::new(), sections: None, open: None, seen: None };
        // What cannot be read has no tables, and its frames have its name instead of their own.
        let Some((file, state)) = nothing.may_be_read().then(|| opened(map)).flatten() else {
            return nothing;
        };
        let cache = ReadCache::new(&file);
        let elf = ElfFile64::<object::Endianness, _>::parse(&cache).ok();
        let found = elf.map(|elf| (segments(&elf), sections(&elf)));
        drop(cache);
        let (segments, sections) = found.unzip();
        let segments = segments.unwrap_or_default();
        let seen = Some((map.clone(), state));
        CodeFile { segments, sections, open: Some(file), seen, ..nothing }
    }

    /// Whether what is mapped now by its name and identity is this one, and not a later one.
    fn is_still(&self, map: &Map) -> bool {
        let Some((_, before)) = self.seen.as_ref().filter(|_| self.open.is_none()) else {
            return true;
        };
        map.file.generation.is_some() || opened(map).is_none_or(|(_, now)| now == *before)
    }

    /// Whether it is the name of a file, and not what the kernel calls memory.
    fn may_be_read(&self) -> bool {
        self.name.starts_with('/') && !self.name.starts_with("//")
    }

    /// Whether there is a file, and it was not to be had.
    pub(crate) fn is_missing(&self) -> bool {
        self.may_be_read() && self.seen.is_none()
    }

    /// Where its symbols are read from; with the file that is to be kept until then, where it was not
    /// kept open.
    pub(crate) fn symbols(&self) -> Option<(Elf, Option<File>)> {
        let again = if self.open.is_none() { Some(self.again()?) } else { None };
        let file = self.open.as_ref().or(again.as_ref())?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        // What a file says of others that have its symbols leads from its name, which here may be a file of
        // somebody else's.
        let by_name = std::fs::read_link(&path).and_then(std::fs::metadata);
        let itself = std::fs::metadata(&path).ok()?;
        let is_here = by_name.is_ok_and(|found| Identity::of(&found) == Identity::of(&itself));
        Some((Elf { debug_syms: is_here, ..Elf::new(path) }, again))
    }

    /// Opens it once more, if it is as it was.
    fn again(&self) -> Option<File> {
        let (map, before) = self.seen.as_ref()?;
        opened(map).filter(|(_, now)| now == before).map(|(file, _)| file)
    }

    /// The address that the file itself gives to what lies at `offset`.
    pub(crate) fn address_of(&self, offset: u64) -> Option<u64> {
        let segment = self.segments.iter().find(|segment| segment.in_file.contains(&offset))?;
        // A file may say anything of its segments.
        Some(segment.address.wrapping_add(offset - segment.in_file.start))
    }

    /// Where the file as a whole begins that has `range` mapped from `offset` on. Mappings begin at a
    /// page's start, and so with the end of the segment before.
    pub(crate) fn base_of(&self, range: &Range<u64>, offset: u64) -> Option<u64> {
        let end = offset.saturating_add(range.end.saturating_sub(range.start));
        let overlap = |segment: &&Segment| {
            let (from, to) = (segment.in_file.start.max(offset), segment.in_file.end.min(end));
            to.saturating_sub(from)
        };
        let segment = self.segments.iter().max_by_key(overlap)?;
        // Of addresses that wrap around nothing is lost.
        Some(
            range
                .start
                .wrapping_sub(offset)
                .wrapping_add(segment.in_file.start)
                .wrapping_sub(segment.address),
        )
    }

    /// Its tables for unwinding.
    pub(crate) fn sections(&self) -> Option<ExplicitModuleSectionInfo<Bytes>> {
        let found = self.sections.as_ref()?;
        Some(ExplicitModuleSectionInfo {
            base_svma: found.base_svma,
            text_svma: found.text_svma.clone(),
            eh_frame_svma: found.eh_frame_svma.clone(),
            eh_frame: found.eh_frame.clone(),
            eh_frame_hdr_svma: found.eh_frame_hdr_svma.clone(),
            eh_frame_hdr: found.eh_frame_hdr.clone(),
            ..ExplicitModuleSectionInfo::default()
        })
    }
}

impl Identity {
    fn of(found: &Metadata) -> Identity {
        Identity { device: found.dev(), inode: found.ino(), generation: None }
    }

    /// Whether it is this one. Of btrfs and of overlays mappings tell another device than stat(2) does, which
    /// has one that is no device's then.
    fn is(self, found: &Metadata) -> bool {
        let found = Identity::of(found);
        self.inode == found.inode
            && (self.device == found.device || rustix::fs::major(found.device) == 0)
    }
}

/// The file that was mapped, by whichever name leads to it, and how it is.
fn opened(map: &Map) -> Option<(File, State)> {
    let (pid, start, name) = (map.pid, map.start, &map.name);
    let end = start.saturating_add(map.bytes);
    let names = [
        // Whatever has its name by now, if any; for root alone.
        format!("/proc/{pid}/map_files/{start:x}-{end:x}"),
        // As the process sees it.
        format!("/proc/{pid}/root{name}"),
        name.clone(),
    ];
    // Where a FIFO has the name by now, opening it would wait for whoever put it there.
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    names.iter().find_map(|name| {
        let file = File::options().read(true).custom_flags(flags).open(name).ok()?;
        let found = file.metadata().ok()?;
        let state = State { changed: (found.ctime(), found.ctime_nsec()), bytes: found.len() };
        (found.is_file() && map.file.is(&found)).then_some((file, state))
    })
}

type Read<'data, 'file> = ElfFile64<'data, object::Endianness, &'data ReadCache<&'file File>>;

fn segments(elf: &Read<'_, '_>) -> Vec<Segment> {
    let segment = |segment: object::read::elf::ElfSegment64<'_, '_, object::Endianness, _>| {
        let (offset, bytes) = segment.file_range();
        Segment { in_file: offset..offset.saturating_add(bytes), address: segment.address() }
    };
    elf.segments().map(segment).collect()
}

fn sections(elf: &Read<'_, '_>) -> ExplicitModuleSectionInfo<Bytes> {
    let range = |name| {
        let section = elf.section_by_name(name)?;
        Some(section.address()..section.address().checked_add(section.size())?)
    };
    let bytes = |name| Some(Bytes::from(elf.section_by_name(name)?.data().ok()?));
    ExplicitModuleSectionInfo {
        base_svma: 0,
        text_svma: range(".text"),
        eh_frame_svma: range(".eh_frame"),
        eh_frame: bytes(".eh_frame"),
        eh_frame_hdr_svma: range(".eh_frame_hdr"),
        eh_frame_hdr: bytes(".eh_frame_hdr"),
        ..ExplicitModuleSectionInfo::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_that_lie_at_the_end_of_all_addresses_wrap_around() {
        let segments = vec![Segment { in_file: 0..100, address: u64::MAX }];
        let name = "/evil".to_owned();
        let file = CodeFile { name, segments, sections: None, open: None, seen: None };
        assert_eq!(file.address_of(50), Some(49));
        assert_eq!(file.base_of(&(4096..8192), 0), Some(4097));
    }

    /// What is mapped from this path, as far as its name and identity tell.
    fn mapped(path: &std::path::Path) -> Map {
        let file = Identity::of(&std::fs::metadata(path).expect("it is there"));
        let (pid, name) = (std::process::id(), path.to_str().expect("plain").to_owned());
        Map { pid, file, name, ..Map::default() }
    }

    #[test]
    fn only_the_file_that_was_mapped_is_read_and_not_another_of_its_name() {
        let folder = tempfile::tempdir().expect("a folder");
        let [path, other] = ["program", "other"].map(|name| folder.path().join(name));
        for copy in [&path, &other] {
            std::fs::copy("/bin/sh", copy).expect("a copy");
        }
        let mut files = Files::default();
        let map = mapped(&path);
        let first = files.number_of(&map);
        assert!(files.get(first).address_of(0).is_some() && !files.get(first).is_missing());
        std::fs::rename(&other, &path).expect("it is replaced");
        let mut late = Files::default();
        let number = late.number_of(&map);
        assert!(late.get(number).is_missing() && late.get(number).address_of(0).is_none());
        let second = files.number_of(&mapped(&path));
        assert!(second != first && files.get(second).address_of(0).is_some());
        // Its symbols are its own still.
        let (symbols, _) = files.get(first).symbols().expect("it is open");
        let found = std::fs::metadata(symbols.path).expect("it is open");
        assert_eq!((Identity::of(&found), symbols.debug_syms), (map.file, false));
    }

    #[test]
    fn many_files_are_not_all_kept_open() {
        let folder = tempfile::tempdir().expect("a folder");
        let mut files = Files::default();
        for number in 0..KEPT_OPEN_MAX + 3 {
            let path = folder.path().join(number.to_string());
            std::fs::copy("/bin/true", &path).expect("a copy");
            files.number_of(&mapped(&path));
        }
        let kept = || files.all.iter().filter(|file| file.open.is_some()).count();
        assert_eq!(kept(), KEPT_OPEN_MAX);
        let last = files.all.last().expect("there are some");
        assert!(!last.is_missing() && last.symbols().is_some_and(|(_, file)| file.is_some()));
        assert_eq!(kept(), KEPT_OPEN_MAX, "those that are opened later are closed again");
    }

    /// As where there are so many that no more are kept open.
    fn with_none_kept_open() -> Files {
        Files { kept_open: KEPT_OPEN_MAX, ..Files::default() }
    }

    #[test]
    fn a_later_file_of_the_same_inode_is_another() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        std::fs::copy("/bin/true", &path).expect("a copy");
        let mut files = with_none_kept_open();
        let map = mapped(&path);
        let of = |generation| {
            let file = Identity { generation, ..map.file };
            Map { file, ..map.clone() }
        };
        let [first, second] = [1, 2].map(|generation| files.number_of(&of(Some(generation))));
        assert!(first != second && files.number_of(&of(Some(1))) == first);
        let third = files.number_of(&map);
        assert_eq!(files.number_of(&map), third);
        // What is written into it has the inode that a file would have that was made after it.
        let mut program = std::fs::read("/bin/sh").expect("it is there");
        program.push(0);
        std::fs::write(&path, program).expect("a program");
        assert_eq!(mapped(&path).file, map.file);
        let fourth = files.number_of(&map);
        assert!(![first, second, third].contains(&fourth));
        let has_symbols = |number| files.get(number).symbols().is_some();
        assert!(has_symbols(fourth) && ![first, second, third].into_iter().any(has_symbols));
    }

    #[test]
    fn files_whose_names_cannot_be_had_in_the_end_are_told() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        std::fs::copy("/bin/true", &path).expect("a copy");
        let mut files = with_none_kept_open();
        let number = files.number_of(&mapped(&path));
        std::fs::remove_file(&path).expect("it was there");
        let (place, mut missing) = (crate::world::Place::File(number, 7), Vec::new());
        let found = crate::symbols::of_places(&files, &[place], &mut missing);
        assert_eq!(found[0][0].name, "[program]");
        let path = path.to_str().expect("plain");
        assert!(missing.len() == 1 && missing[0].contains(path), "{missing:?}");
    }

    #[test]
    fn a_fifo_that_has_the_name_of_code_is_not_waited_for() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("program");
        let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RWXU);
        rustix::fs::mknodat(rustix::fs::CWD, &path, fifo, mode, 0).expect("a FIFO");
        let mut files = Files::default();
        let number = files.number_of(&mapped(&path));
        assert!(files.get(number).is_missing());
    }

    #[test]
    fn a_mapping_itself_leads_to_its_file_whatever_that_is_called_here() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("it is there");
        let program = std::env::current_exe().expect("this");
        let line = maps.lines().find(|line| line.ends_with(program.to_str().expect("plain")));
        let range = line.and_then(|line| line.split(' ').next()?.split_once('-'));
        let number = |hex: &str| u64::from_str_radix(hex, 16).expect("hexadecimal");
        let (start, end) = range.map(|(start, end)| (number(start), number(end))).expect("a range");
        let map = mapped(&program);
        let map = Map { start, bytes: end - start, name: "/no/such/program".into(), ..map };
        if std::fs::read_dir("/proc/self/map_files").is_err()
            || File::open(format!("/proc/self/map_files/{start:x}-{end:x}")).is_err()
        {
            println!("skipped: only root may open what is mapped");
            return;
        }
        let mut files = Files::default();
        let number = files.number_of(&map);
        assert!(files.get(number).address_of(0).is_some());
    }
}
