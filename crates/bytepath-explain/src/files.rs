//! Files that code is mapped from: where each of their addresses lies, and the tables by which
//! stacks are unwound.

use std::collections::HashMap;
use std::fs::File;
use std::ops::Range;
use std::sync::Arc;

use framehop::ExplicitModuleSectionInfo;
use object::read::ReadCache;
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSegment};

/// The bytes of a section, shared by all processes that have it mapped.
pub(crate) type Bytes = Arc<[u8]>;

/// All files that were seen, each once.
#[derive(Default)]
pub(crate) struct Files {
    all: Vec<CodeFile>,
    by_name: HashMap<String, u32>,
}

/// A file that code was mapped from.
pub(crate) struct CodeFile {
    /// Its path, or what the kernel calls it: `[vdso]`, `//anon`.
    pub(crate) name: String,
    /// Its segments: where they lie in the file, and at which address they want to be.
    segments: Vec<Segment>,
    sections: Option<ExplicitModuleSectionInfo<Bytes>>,
}

struct Segment {
    in_file: Range<u64>,
    address: u64,
}

impl Files {
    /// The number of a file, which is looked at when it comes for the first time.
    pub(crate) fn number_of(&mut self, name: &str) -> u32 {
        if let Some(number) = self.by_name.get(name) {
            return *number;
        }
        let number = u32::try_from(self.all.len()).expect("fewer than 2^32 files are mapped");
        self.all.push(CodeFile::named(name));
        self.by_name.insert(name.to_owned(), number);
        number
    }

    pub(crate) fn get(&self, number: u32) -> &CodeFile {
        &self.all[number as usize]
    }
}

impl CodeFile {
    fn named(name: &str) -> CodeFile {
        let nothing = CodeFile { name: name.to_owned(), segments: Vec::new(), sections: None };
        if !name.starts_with('/') || name.starts_with("//") {
            return nothing;
        }
        // What cannot be read has no tables, and its frames have addresses instead of names.
        let Ok(file) = File::open(name) else { return nothing };
        if !file.metadata().is_ok_and(|found| found.is_file()) {
            return nothing;
        }
        let cache = ReadCache::new(file);
        let Ok(elf) = ElfFile64::<object::Endianness, _>::parse(&cache) else { return nothing };
        CodeFile { segments: segments(&elf), sections: Some(sections(&elf)), ..nothing }
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

type Elf<'data> = ElfFile64<'data, object::Endianness, &'data ReadCache<File>>;

fn segments(elf: &Elf<'_>) -> Vec<Segment> {
    let segment = |segment: object::read::elf::ElfSegment64<'_, '_, object::Endianness, _>| {
        let (offset, bytes) = segment.file_range();
        Segment { in_file: offset..offset.saturating_add(bytes), address: segment.address() }
    };
    elf.segments().map(segment).collect()
}

fn sections(elf: &Elf<'_>) -> ExplicitModuleSectionInfo<Bytes> {
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
        let file = CodeFile { name: "/evil".to_owned(), segments, sections: None };
        assert_eq!(file.address_of(50), Some(49));
        assert_eq!(file.base_of(&(4096..8192), 0), Some(4097));
    }
}
