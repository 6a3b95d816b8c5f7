//! Tracepoints as tracefs describes them: a number, and where each field lies in the record.

use std::io;

use super::btf::Member;
use crate::tracefs::Tracepoints;

/// One tracepoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Format {
    /// The number by which perf_event_open(2) knows it.
    pub(crate) id: u64,
    fields: Vec<(String, Member)>,
}

impl Format {
    /// What tracefs says of a tracepoint, such as `sched/sched_switch`.
    ///
    /// # Errors
    /// ENOENT where there is no such tracepoint, or its number is none.
    pub(crate) fn of(tracepoints: &Tracepoints, name: &str) -> io::Result<Format> {
        let id = tracepoints.id(name).ok_or(io::ErrorKind::NotFound)?;
        Ok(Format { id, fields: fields(&tracepoints.text(&format!("{name}/format"))?) })
    }

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
        match Tracepoints::find().and_then(|from| Format::of(&from, "sched/sched_switch")) {
            Ok(format) => {
                assert_eq!(format.field("prev_pid").and_then(|field| field.bytes), Some(4));
                assert!(format.field("next_pid").is_some() && format.id > 0);
            }
            Err(error) => println!("skipped: no tracefs: {error}"),
        }
    }
}
