//! `pairs`: how fast a mover moves bytes between each pair of ends, by each route and setting.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytepath::profile::{End, Setting};
use bytepath_report::Unit;

use super::Description;
use crate::arm::{Arm, Work};
use crate::pair_work::{Mover, PairWork};

/// What it asks.
pub const DESCRIPTION: Description = Description {
    name: "pairs",
    question: "By which route do bytes go fastest between two ends, and with which settings?",
    definition: "A mover in a process of its own moves a file in the page cache, or what comes \
                 through a pipe or socket that another process keeps full, to a new file, or \
                 to a pipe or socket that another process empties by reads of 1 MiB. The \
                 processes run where the scheduler puts them.",
};

/// The pairs, in reading order.
pub const PAIRS: &[(End, End)] = &[
    (End::File, End::Pipe),
    (End::Pipe, End::Pipe),
    (End::Pipe, End::File),
    (End::Pipe, End::Socket),
    (End::Socket, End::Pipe),
    (End::Socket, End::File),
    (End::File, End::Socket),
    (End::File, End::File),
    (End::File, End::Null),
    (End::Pipe, End::Null),
];

/// What everybody's tools did for decades, and many still do: the reference.
pub const CLASSIC: (&str, usize) = ("read-write", 128 << 10);

/// The sizes of pipes that are tried beside leaving them as they are.
const PIPE_BYTES: &[usize] = &[256 << 10, 1 << 20];

/// Bytes per call that are tried where a call copies.
const CHUNK_BYTES: &[usize] = &[64 << 10, 128 << 10, 256 << 10, 1 << 20];

/// The same where it copies into a file. A call of 1 MiB has the file system ask for one piece of
/// memory of that size; on a virtual machine whose host takes back what is free that was 4.4 GiB/s in
/// one run, 512 KiB about the same, and 0.76 in another, which no measurement of half a minute foretells.
const FILE_CHUNK_BYTES: &[usize] = &[64 << 10, 128 << 10, 256 << 10, 512 << 10];

/// Whether a route can join two ends.
type Joins = fn(End, End) -> bool;

/// Routes that hand pages on or copy in the kernel, by one thread or several.
const IN_KERNEL: &[(&str, Joins)] = &[
    ("splice", |source, _| source != End::Null),
    ("splice-through", |source, sink| {
        piped(source, sink) && source != End::Socket && sink != End::Null && sink != End::File
    }),
    ("sendfile", |source, sink| source == End::File && sink != End::Null),
    ("copy-file-range", |source, sink| (source, sink) == (End::File, End::File)),
    ("parallel", |source, sink| (source, sink) == (End::File, End::File)),
];

/// Whether an end is a pipe.
fn piped(source: End, sink: End) -> bool {
    source == End::Pipe || sink == End::Pipe
}

/// The classic's setting.
pub fn classic() -> Setting {
    let (route, chunk) = CLASSIC;
    let (pipe_bytes, spin_ns, stays) = (None, None, false);
    Setting { route: route.into(), chunk_bytes: Some(chunk), pipe_bytes, spin_ns, stays }
}

/// Everything that is tried between two ends; the classic first. `spin` is how long spinning is
/// worth while on this machine.
pub fn settings(source: End, sink: End, spin: Option<Duration>) -> Vec<Setting> {
    let mut settings = vec![classic()];
    let mut pipes: Vec<Option<usize>> = vec![None];
    match sink {
        _ if piped(source, sink) => pipes.extend(PIPE_BYTES.iter().copied().map(Some)),
        // The buffer of a socket that is written to goes by the same size.
        End::Socket => pipes.extend(PIPE_BYTES.last().copied().map(Some)),
        _ => {}
    }
    let plain = |route: &str, chunk_bytes, pipe_bytes| Setting {
        route: route.into(),
        chunk_bytes,
        pipe_bytes,
        spin_ns: None,
        stays: false,
    };
    for (route, joins) in IN_KERNEL {
        if joins(source, sink) {
            settings.extend(pipes.iter().map(|pipe| plain(route, None, *pipe)));
        }
    }
    // Larger calls than the pipe holds gain nothing, so sizes go together.
    if piped(source, sink) {
        settings.extend(
            PIPE_BYTES.iter().map(|bytes| plain("read-write", Some(256 << 10), Some(*bytes))),
        );
        settings.push(plain("read-write", Some(64 << 10), Some(1 << 20)));
    } else {
        let sizes = if sink == End::File { FILE_CHUNK_BYTES } else { CHUNK_BYTES };
        let others = sizes.iter().filter(|bytes| **bytes != CLASSIC.1);
        settings.extend(others.map(|bytes| plain("read-write", Some(*bytes), None)));
    }
    let spins = spin.filter(|_| piped(source, sink) && sink != End::File);
    if let Some(spin) = spins {
        let spin_ns = u64::try_from(spin.as_nanos()).ok();
        settings.push(Setting { spin_ns, ..plain("splice", None, Some(1 << 20)) });
    }
    if pipes.len() > 1 {
        settings.push(Setting { stays: true, ..plain("splice", None, Some(1 << 20)) });
    }
    settings
}

/// The settings of further routes, which the kernel is asked for as the machine is measured: an arm that
/// does not suit the ends is left out.
pub fn further(routes: &[&str], known: &[Setting]) -> Vec<Setting> {
    let mut further: Vec<Setting> = Vec::new();
    for route in routes {
        if !known.iter().chain(&further).any(|setting| setting.route == *route) {
            further.push(Setting { route: (*route).into(), chunk_bytes: None, ..classic() });
        }
    }
    further
}

/// Where and by what it is measured.
pub struct Setup<'a> {
    /// The `bytepath` executable.
    pub program: &'a Path,
    /// Where files are made.
    pub directory: &'a Path,
    /// The file that is moved.
    pub file: &'a Path,
    /// The inlet that empties a pipe or socket: `read`, unless the question is another.
    pub inlet: &'static str,
}

/// The arm of one setting.
pub fn arm(source: End, sink: End, setting: &Setting, setup: &Setup<'_>) -> Arm {
    let mut options = vec!["--route".to_owned(), setting.route.clone()];
    let mut option = |name: &str, value: String| options.extend([name.to_owned(), value]);
    if let Some(bytes) = setting.chunk_bytes {
        option("--buf-size", bytes.to_string());
    }
    if let Some(bytes) = setting.pipe_bytes {
        option("--pipe-size", bytes.to_string());
    }
    if let Some(ns) = setting.spin_ns {
        option("--spin-budget", format!("{}us", ns / 1000));
    }
    if setting.stays {
        options.push("--stay".to_owned());
    }
    made(setting.to_string(), source, sink, options, setup)
}

/// The arm of the planner's choice by a profile.
pub fn planned(source: End, sink: End, profile: &Path, setup: &Setup<'_>) -> Arm {
    let options = vec!["--profile".to_owned(), profile.display().to_string()];
    made(PLANNED.to_owned(), source, sink, options, setup)
}

/// The name of the planner's arm.
pub const PLANNED: &str = "planner";

fn made(name: String, source: End, sink: End, options: Vec<String>, setup: &Setup<'_>) -> Arm {
    let params = BTreeMap::from([
        ("source".to_owned(), source.to_string().into()),
        ("sink".to_owned(), sink.to_string().into()),
        ("mover".to_owned(), options.join(" ").into()),
    ]);
    let work = PairWork {
        program: setup.program.into(),
        mover: Mover::Carry(options),
        source,
        sink,
        directory: setup.directory.into(),
        file: PathBuf::from(setup.file),
        inlet: setup.inlet,
    };
    Arm {
        name,
        params,
        unit: Unit::GibPerSecond,
        section: None,
        touched: false,
        published: None,
        work: Ok(Box::new(work) as Box<dyn Work>),
    }
}

#[cfg(test)]
mod tests {
    use bytepath::routes::{MEASURED_UNASKED, ROUTES, by_name};

    use super::*;

    /// Routes that are measured only where they are asked for, and why.
    const LEFT_OUT: &[(&str, &str)] = &[
        ("tee", "it keeps the source, which no mover asks for"),
        ("dontcache", "only for jobs that leave the page cache as it was"),
        ("fadvise", "only for jobs that leave the page cache as it was"),
        ("reflink", "shares blocks, of which copy-file-range does as much as is allowed"),
        ("mmap-write", "seldom the best"),
        ("uring", "seldom the best, and often forbidden"),
        ("uring-registered", "seldom the best, and often forbidden"),
        ("uring-linked", "seldom the best, and often forbidden"),
        ("uring-direct", "goes past the page cache, which the files here are in"),
        ("linux-aio", "goes past the page cache, which the files here are in"),
    ];

    #[test]
    fn every_route_is_measured_or_left_out_for_a_reason() {
        let spin = Some(Duration::from_micros(1));
        let of_pair = |pair: &(End, End)| settings(pair.0, pair.1, spin);
        let measured: Vec<Setting> = PAIRS.iter().flat_map(of_pair).collect();
        for setting in &measured {
            assert!(by_name(&setting.route).is_some(), "there is no route {}", setting.route);
        }
        for route in ROUTES.iter().map(|route| route.name()) {
            let is_measured = measured.iter().any(|setting| setting.route == route);
            let is_left_out = LEFT_OUT.iter().any(|(name, _)| *name == route);
            assert!(is_measured != is_left_out, "{route} is to be in one of both lists");
            assert_eq!(is_measured, MEASURED_UNASKED.contains(&route), "plans say so of {route}");
        }
        assert!(LEFT_OUT.iter().all(|(name, _)| by_name(name).is_some()));
    }

    #[test]
    fn a_route_that_is_asked_for_is_measured_once() {
        let known = settings(End::File, End::File, None);
        let asked = further(&["uring", "splice", "uring"], &known);
        let routes: Vec<_> = asked.iter().map(|setting| setting.route.as_str()).collect();
        assert_eq!(routes, ["uring"]);
    }
}
