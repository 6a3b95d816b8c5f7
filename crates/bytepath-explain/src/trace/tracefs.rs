//! Tracepoints as tracefs describes them: a number, and where each field lies in the record.
//!
//! Where nobody mounted tracefs, root makes a mount of its own that has no name and is gone with its
//! descriptor.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsmount, fsopen};

use super::btf::Member;

/// A description is a few KiB.
const FORMAT_BYTES_MAX: u64 = 64 << 10;

/// The folder `events` of tracefs.
#[derive(Debug)]
pub(crate) struct Tracefs(OwnedFd);

/// One tracepoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Format {
    /// The number by which perf_event_open(2) knows it.
    pub(crate) id: u64,
    fields: Vec<(String, Member)>,
}

impl Tracefs {
    /// Opens tracefs where it usually is mounted, or mounts it for this process alone.
    ///
    /// # Errors
    /// The kernel's word to the last try: EPERM or EACCES for who may not, ENODEV where the kernel has
    /// none.
    pub(crate) fn open() -> Result<Tracefs, Errno> {
        let mounted = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];
        for place in mounted {
            // Without tracefs the first is an empty folder's missing entry.
            if let Ok(fd) = openat(CWD, place, folder_flags(), Mode::empty()) {
                return Ok(Tracefs(fd));
            }
        }
        let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC)?;
        rustix::mount::fsconfig_create(&context)?;
        let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, MountAttrFlags::empty())?;
        Ok(Tracefs(openat(&mount, "events", folder_flags(), Mode::empty())?))
    }

    /// What tracefs says of a tracepoint, such as `sched/sched_switch`.
    ///
    /// # Errors
    /// ENOENT where there is no such tracepoint, EINVAL where its description is not understood.
    pub(crate) fn format(&self, group: &str, name: &str) -> Result<Format, Errno> {
        let id = self.text(&format!("{group}/{name}/id"))?;
        let format = self.text(&format!("{group}/{name}/format"))?;
        let id = id.trim().parse().map_err(|_| Errno::INVAL)?;
        Ok(Format { id, fields: fields(&format) })
    }

    fn text(&self, path: &str) -> Result<String, Errno> {
        let file = openat(&self.0, Path::new(path), OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut text = String::new();
        let read = std::fs::File::from(file).take(FORMAT_BYTES_MAX).read_to_string(&mut text);
        read.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
        Ok(text)
    }
}

fn folder_flags() -> OFlags {
    OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC
}

impl Format {
    /// Where a field lies in the record.
    pub(crate) fn field(&self, name: &str) -> Option<Member> {
        self.fields.iter().find(|(known, _)| known == name).map(|(_, member)| *member)
    }
}

/// Lines such as `	field:pid_t prev_pid;	offset:24;	size:4;	signed:1;`
fn fields(format: &str) -> Vec<(String, Member)> {
    format.lines().filter_map(field).collect()
}

fn field(line: &str) -> Option<(String, Member)> {
    let mut parts = line.trim().strip_prefix("field:")?.split(';');
    let declared = parts.next()?.trim();
    let number = |part: &str, key: &str| part.trim().strip_prefix(key)?.parse::<usize>().ok();
    let offset = number(parts.next()?, "offset:")?;
    let bytes = number(parts.next()?, "size:")?;
    let declared = declared.split('[').next()?;
    let name = declared.rsplit([' ', '*']).next().filter(|name| !name.is_empty())?;
    Some((name.to_owned(), Member { offset, bytes: Some(bytes) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_name_also_arrays_and_pointers() {
        let format = Format {
            id: 1,
            fields: fields(
                "name: sched_switch\nID: 1\nformat:\n\
                 \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
                 \tfield:char prev_comm[16];\toffset:8;\tsize:16;\tsigned:0;\n\
                 \tfield:const void *skaddr;\toffset:24;\tsize:8;\tsigned:0;\n\
                 \tfield:damaged;\toffset:x;\tsize:8;\n\
                 \nprint fmt: \"field:none\"\n",
            ),
        };
        let at = |offset, bytes| Some(Member { offset, bytes: Some(bytes) });
        assert_eq!(format.field("prev_comm"), at(8, 16));
        assert_eq!(format.field("skaddr"), at(24, 8));
        assert_eq!(format.field("damaged"), None);
    }

    #[test]
    fn a_switch_of_tasks_has_numbers_of_both() {
        match Tracefs::open().and_then(|tracefs| tracefs.format("sched", "sched_switch")) {
            Ok(format) => {
                assert_eq!(format.field("prev_pid").and_then(|field| field.bytes), Some(4));
                assert!(format.field("next_pid").is_some() && format.id > 0);
            }
            Err(errno) => println!("skipped: no tracefs: {errno}"),
        }
    }
}
