//! `gen`: bytes that are made up, into a pipe, beside the programs that people use for them.

use std::collections::BTreeMap;
use std::path::Path;

use bytepath::placement::NamedPlacement;
use bytepath_report::{Published, Unit};

use super::Description;
use crate::arm::{Arm, Work};
use crate::peers;
use crate::pipe_work::{PipeWork, Writer};

/// What it asks.
pub const DESCRIPTION: Description = Description {
    name: "gen",
    question: "How fast do bytes that are made up go through a pipe?",
    definition: "A program that writes made-up bytes, and a reader that takes them for a fixed time \
                 after a warm-up, each a process of its own on the CPUs of the placement, joined by \
                 a pipe. The reader copies what comes (read), or drops the pages (splice). Lines \
                 are counted from 1000000000 on. Arms with an outlet in their name use it alone; \
                 those without use what the planner picks. Where both ends spin, the name says so. \
                 Random bytes of openssl are a cipher's, ours are not.",
};

/// The other programs' arms are called by their names.
struct Other {
    name: &'static str,
    words: &'static [&'static str],
    package: &'static str,
}

/// What is made.
struct Kind {
    name: &'static str,
    /// Words after `bytepath gen`.
    words: &'static [&'static str],
    others: &'static [Other],
    /// GiB/s as published for the outlet vmsplice into a reader that splices.
    published: Option<f64>,
}

const KINDS: &[Kind] = &[
    Kind {
        name: "yes",
        words: &["yes"],
        others: &[Other { name: "yes", words: &["yes"], package: "coreutils" }],
        published: None,
    },
    Kind {
        name: "zeros",
        words: &["zeros"],
        others: &[
            Other { name: "cat", words: &["cat", "/dev/zero"], package: "coreutils" },
            Other {
                name: "dd",
                words: &["dd", "if=/dev/zero", "bs=1M", "status=none"],
                package: "coreutils",
            },
        ],
        published: None,
    },
    Kind {
        name: "random",
        words: &["random"],
        others: &[
            Other { name: "urandom", words: &["cat", "/dev/urandom"], package: "coreutils" },
            Other {
                name: "openssl",
                words: &[
                    "openssl",
                    "enc",
                    "-aes-128-ctr",
                    "-in",
                    "/dev/zero",
                    "-K",
                    "00",
                    "-iv",
                    "00",
                ],
                package: "openssl",
            },
        ],
        published: None,
    },
    Kind { name: "pattern", words: &["pattern"], others: &[], published: None },
    Kind { name: "text", words: &["text"], others: &[], published: None },
    Kind {
        name: "lines",
        words: &["lines", "--from", "1000000000"],
        others: &[Other {
            name: "seq",
            words: &["seq", "1000000000", "9000000000000"],
            package: "coreutils",
        }],
        published: None,
    },
    Kind {
        name: "fizzbuzz",
        words: &["fizzbuzz", "--from", "1000000000"],
        others: &[],
        published: Some(36.2),
    },
];

/// Whose figure stands beside ours.
const SOURCE: &str = "mazzo.li 2022, i7-8550U, Linux 5.17, two cores";

/// The readers, and the inlet of each.
const READERS: [(&str, &str); 2] = [("read", "read"), ("splice", "splice-null")];

/// How ours writes: the end of the name, and options.
const WAYS: &[(&str, &[&str], Ends)] = &[
    ("", &[], Ends::Sleep),
    ("+write", &["--outlet", "write"], Ends::Sleep),
    ("+vmsplice", &["--outlet", "vmsplice"], Ends::Sleep),
    ("+vmsplice-spin", &["--outlet", "vmsplice", "--wait", "spin"], Ends::Spin),
];

/// What both ends do when they cannot go on.
#[derive(Clone, Copy, PartialEq)]
enum Ends {
    Sleep,
    Spin,
}

/// The names of what is made.
pub fn kinds() -> impl Iterator<Item = &'static str> {
    KINDS.iter().map(|kind| kind.name)
}

/// The arms of these kinds (all where there are none) on these placements; `program` is bytepath.
pub fn arms(kinds: &[String], placements: &[NamedPlacement], program: &Path) -> Vec<Arm> {
    let chosen = |kind: &&Kind| kinds.is_empty() || kinds.iter().any(|name| name == kind.name);
    let mut arms = Vec::new();
    for kind in KINDS.iter().filter(chosen) {
        for placement in placements {
            for (reader, inlet) in READERS {
                let section = format!("{}/{reader}@{}", kind.name, placement.name);
                let at = At { kind, placement, inlet, section: &section, program };
                arms.extend(kind.others.iter().map(|other| at.other(other)));
                let ways = WAYS.iter().filter(|(_, _, ends)| at.can(*ends));
                arms.extend(ways.map(|way| at.ours(way)));
            }
        }
    }
    arms
}

/// Where arms stand.
struct At<'a> {
    kind: &'a Kind,
    placement: &'a NamedPlacement,
    inlet: &'static str,
    section: &'a str,
    program: &'a Path,
}

impl At<'_> {
    /// A spinner on the only CPU keeps the other end from running.
    fn can(&self, ends: Ends) -> bool {
        ends == Ends::Sleep || self.placement.cpus.is_none_or(|[writer, reader]| writer != reader)
    }

    fn other(&self, other: &Other) -> Arm {
        let words: Vec<String> = other.words.iter().map(|word| (*word).to_owned()).collect();
        let line = words.join(" ");
        let writer = peers::found(other.words[0])
            .map(|path| {
                let path = path.to_string_lossy().into_owned();
                let words = std::iter::once(path).chain(words.into_iter().skip(1));
                Writer::Program(words.collect(), None)
            })
            .ok_or_else(|| {
                let (program, package) = (other.words[0], other.package);
                format!("{program} is not installed; on Debian: apt-get install {package}")
            });
        self.arm(other.name.to_owned(), &line, writer, Ends::Sleep)
    }

    fn ours(&self, (suffix, options, ends): &(&str, &[&str], Ends)) -> Arm {
        let words = std::iter::once("gen").chain(self.kind.words.iter().copied());
        let words: Vec<String> = words.chain(options.iter().copied()).map(str::to_owned).collect();
        let line = format!("bytepath {}", words.join(" "));
        let name = format!("bytepath{suffix}");
        let arm = self.arm(name, &line, Ok(Writer::Bytepath(words, None)), *ends);
        let beside = *suffix == "+vmsplice"
            && self.inlet == "splice-null"
            && self.placement.cpus.is_none_or(|[writer, reader]| writer != reader);
        let published = self.kind.published.filter(|_| beside).map(|value| Published {
            value,
            source: SOURCE.to_owned(),
            note: Some("FizzBuzz in assembly into pv".to_owned()),
        });
        Arm { published, ..arm }
    }

    fn arm(&self, by: String, line: &str, writer: Result<Writer, String>, ends: Ends) -> Arm {
        let mut reader = vec!["--inlet".to_owned(), self.inlet.to_owned()];
        reader.extend(["--buf-size", "1M"].map(str::to_owned));
        if ends == Ends::Spin {
            reader.extend(["--wait", "spin"].map(str::to_owned));
        }
        let params = BTreeMap::from([
            ("writer".to_owned(), line.into()),
            ("reader".to_owned(), format!("bytepath read {}", reader.join(" ")).into()),
            ("placement".to_owned(), self.placement.name.into()),
        ]);
        let work = writer.map(|writer| {
            Box::new(PipeWork {
                program: self.program.to_owned(),
                writer,
                reader,
                between: None,
                cpus: self.placement.cpus,
                expected: None,
            }) as Box<dyn Work>
        });
        Arm {
            name: format!("{}/{by}", self.section),
            section: Some(self.section.to_owned()),
            params,
            unit: Unit::GibPerSecond,
            touched: false,
            published: None,
            work,
        }
    }
}

#[cfg(test)]
mod tests {
    use bytepath::placement::Placement;

    use super::*;

    #[test]
    fn every_kind_is_made_by_ours_and_names_are_unique() {
        let placement = |name, writer_cpu, reader_cpu| NamedPlacement {
            name,
            placement: Placement::Pinned { source: writer_cpu, sink: reader_cpu },
            cpus: Some([writer_cpu, reader_cpu]),
        };
        let placements = [placement("same-cpu", 0, 0), placement("cross-cpu", 0, 1)];
        let arms = arms(&[], &placements, Path::new("bytepath"));
        let mut names: Vec<_> = arms.iter().map(|arm| arm.name.clone()).collect();
        for kind in kinds() {
            assert!(names.contains(&format!("{kind}/splice@cross-cpu/bytepath+vmsplice-spin")));
            assert!(!names.contains(&format!("{kind}/read@same-cpu/bytepath+vmsplice-spin")));
        }
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        let published: Vec<_> = arms.iter().filter(|arm| arm.published.is_some()).collect();
        assert_eq!(published.len(), 1);
    }
}
