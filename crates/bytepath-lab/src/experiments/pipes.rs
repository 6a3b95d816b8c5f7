//! `pipes`: how fast can a pipe be? The ladder that Francesco Mazzoli published in 2022 ("How fast
//! are Linux pipes anyway?", mazzo.li), on every placement that the machine has, and the rungs that
//! follow from it.

mod dominating;

use std::collections::BTreeMap;
use std::path::Path;

use bytepath::Wait;
use bytepath::outlets::BUF_BYTES;
use bytepath::placement::NamedPlacement;
use bytepath_report::{Published, Unit};

use super::Description;
use crate::arm::{Arm, Work};
use crate::peers::Peer;
use crate::pipe_work::{PipeWork, Writer};

pub use dominating::dominating;

/// What it asks.
pub const DESCRIPTION: Description = Description {
    name: "pipes",
    question: "How fast can a pipe be on this machine, and what holds it up?",
    definition: "A writer and a reader, each a process of its own, joined by a pipe. The writer \
                 sends the same bytes over and over; the reader takes them for a fixed time after \
                 a warm-up and divides what came by the time. Sizes, pages, waits and CPUs are the \
                 arm's. A writer that blocks and lends its pages stays awake for up to 50 us after \
                 a call that slept, unless others want its CPU; the published one does not.",
};

/// Whose figures stand beside ours.
const SOURCE: &str = "mazzo.li 2022, i7-8550U, Linux 5.17, two cores";

/// Bytes per read where a slot may hold more than a page: a whole pipe, however wide.
const WIDE_READ: &str = "64M";

/// One arm of the ladder, before it is placed.
struct Rung {
    name: &'static str,
    /// Options of `bytepath write`.
    writer: &'static [&'static str],
    /// Options of `bytepath read`.
    reader: &'static [&'static str],
    wait: RungWait,
    /// Whether the reader looks at the bytes.
    touched: bool,
    /// GiB/s as published.
    published: Option<f64>,
}

/// How the ends of a rung wait.
#[derive(Clone, Copy, PartialEq)]
enum RungWait {
    /// As `--wait` says; blocking by default.
    Asked,
    /// This is what the rung shows.
    Fixed(&'static str),
    /// As `--wait` says; by default blocking on one CPU, where a spinner only keeps the other end
    /// from running, and spinning on two.
    ByPlacement,
}

const VMSPLICE: &[&str] = &["--outlet", "vmsplice"];
const VMSPLICE_HUGE: &[&str] = &["--outlet", "vmsplice", "--huge-page", "--check-huge-page"];
const GIFT: &[&str] = &["--outlet", "gift", "--huge-page", "--check-huge-page"];
const SPLICE: &[&str] = &["--inlet", "splice-null"];

const RUNGS: &[Rung] = &[
    Rung {
        name: "write-read",
        writer: &["--outlet", "write"],
        reader: &["--inlet", "read"],
        wait: RungWait::Asked,
        touched: false,
        published: Some(3.7),
    },
    Rung {
        name: "write-read-touch",
        writer: &["--outlet", "write"],
        reader: &["--inlet", "read-touch"],
        wait: RungWait::Asked,
        touched: true,
        published: None,
    },
    Rung {
        name: "vmsplice-read",
        writer: VMSPLICE,
        reader: &["--inlet", "read"],
        wait: RungWait::Asked,
        touched: false,
        published: Some(12.7),
    },
    Rung {
        name: "vmsplice-splice",
        writer: VMSPLICE,
        reader: SPLICE,
        wait: RungWait::Asked,
        touched: false,
        published: Some(32.8),
    },
    Rung {
        name: "vmsplice-splice-huge",
        writer: VMSPLICE_HUGE,
        reader: SPLICE,
        wait: RungWait::Asked,
        touched: false,
        published: Some(51.0),
    },
    Rung {
        name: "vmsplice-splice-huge-spin",
        writer: VMSPLICE_HUGE,
        reader: SPLICE,
        wait: RungWait::Fixed("spin"),
        touched: false,
        published: Some(62.5),
    },
    Rung {
        name: "vmsplice-splice-huge-hybrid",
        writer: VMSPLICE_HUGE,
        reader: SPLICE,
        wait: RungWait::Fixed("hybrid"),
        touched: false,
        published: None,
    },
    Rung {
        name: "vmsplice-splice-untouched",
        writer: &["--outlet", "vmsplice", "--dont-touch-pages"],
        reader: SPLICE,
        wait: RungWait::Asked,
        touched: false,
        published: Some(25.0),
    },
    Rung {
        name: "vmsplice-splice-one-buffer",
        writer: &["--outlet", "vmsplice", "--same-buffer"],
        reader: SPLICE,
        wait: RungWait::Asked,
        touched: false,
        published: None,
    },
    Rung {
        name: "gift-read",
        writer: GIFT,
        reader: &["--inlet", "read"],
        wait: RungWait::Asked,
        touched: false,
        published: None,
    },
    Rung {
        name: "gift-splice",
        writer: GIFT,
        reader: SPLICE,
        wait: RungWait::Asked,
        touched: false,
        published: None,
    },
    Rung {
        name: "tee-splice",
        writer: &["--outlet", "tee"],
        reader: SPLICE,
        wait: RungWait::ByPlacement,
        touched: false,
        published: None,
    },
    Rung {
        name: "wide-tee-splice",
        writer: &["--outlet", "wide-tee"],
        reader: SPLICE,
        wait: RungWait::ByPlacement,
        touched: false,
        published: None,
    },
];

/// What the user may vary. An empty list leaves an axis at the rung's own value.
#[derive(Debug, Default)]
pub struct Axes {
    /// Where the ends run.
    pub placements: Vec<NamedPlacement>,
    /// Sizes of the pipe, in bytes.
    pub pipe_bytes: Vec<usize>,
    /// Sizes of the buffers, in bytes.
    pub buf_bytes: Vec<usize>,
    /// Waits.
    pub waits: Vec<Wait>,
    /// Classics between the ends.
    pub peers: Vec<&'static Peer>,
}

/// One point on the axes of sizes and waits, and how it shows in an arm's name.
#[derive(Default, Clone)]
struct Point {
    pipe_bytes: Option<usize>,
    buf_bytes: Option<usize>,
    wait: Option<Wait>,
    suffix: String,
}

impl Point {
    /// Published for pipes as they come, buffers of the usual size, and ends that block unless the rung
    /// is about another wait.
    fn is_as_published(&self) -> bool {
        self.pipe_bytes.is_none()
            && self.buf_bytes.is_none_or(|bytes| bytes == BUF_BYTES)
            && self.wait.is_none_or(|wait| wait == Wait::Block)
    }
}

/// The arms on all points of the axes, in the order of the ladder; `program` is bytepath.
pub fn arms(axes: &Axes, program: &Path) -> Vec<Arm> {
    let mut arms = Vec::new();
    // Two CPUs first, as published.
    let (same, apart): (Vec<_>, Vec<_>) = axes.placements.iter().partition(|place| on_one(place));
    for placement in apart.into_iter().chain(same) {
        for rung in RUNGS {
            for point in points(axes, rung) {
                let as_published = !on_one(placement) && point.is_as_published();
                let published = rung.published.filter(|_| as_published);
                let published = published.map(self::published);
                arms.push(Arm { published, ..arm(rung, None, placement, &point, program) });
            }
        }
        for peer in &axes.peers {
            for point in points(axes, &RUNGS[0]) {
                arms.push(arm(&RUNGS[0], Some(peer), placement, &point, program));
            }
        }
    }
    arms
}

/// The name of a peer's arm, before it is placed.
pub fn peer_arm(peer: &Peer) -> String {
    format!("write-{}-read", peer.name)
}

/// The names of the rungs.
pub fn names() -> impl Iterator<Item = &'static str> {
    RUNGS.iter().map(|rung| rung.name)
}

/// The arm that the others are compared with: the ladder's first rung, on two CPUs as published,
/// where the machine has them.
pub fn reference(arms: &[Arm]) -> Option<&str> {
    let first = |arm: &&Arm| arm.name.starts_with("write-read@");
    let apart = arms.iter().filter(first).find(|arm| !arm.name.contains("@same-cpu"));
    let reference = apart.or_else(|| arms.iter().find(first)).or(arms.first());
    reference.map(|arm| arm.name.as_str())
}

fn points(axes: &Axes, rung: &Rung) -> Vec<Point> {
    let mut points = vec![Point::default()];
    let fixed = matches!(rung.wait, RungWait::Fixed(_));
    points = spread(points, &axes.pipe_bytes, "pipe", |point, bytes: usize| {
        point.pipe_bytes = Some(bytes);
        short(bytes)
    });
    if has_buffers(rung) {
        points = spread(points, &axes.buf_bytes, "buf", |point, bytes: usize| {
            point.buf_bytes = Some(bytes);
            short(bytes)
        });
    }
    if !fixed {
        points = spread(points, &axes.waits, "wait", |point, wait: Wait| {
            point.wait = Some(wait);
            wait.name().to_owned()
        });
    }
    points
}

/// Whether its ends have buffers whose size can be chosen: the outlets tee and wide-tee have none, and
/// their reader takes all there is.
fn has_buffers(rung: &Rung) -> bool {
    rung.wait != RungWait::ByPlacement
}

/// Every point at every value of one more axis; an axis of several values shows in the name.
fn spread<T: Copy>(
    points: Vec<Point>,
    values: &[T],
    axis: &str,
    set: impl Fn(&mut Point, T) -> String,
) -> Vec<Point> {
    if values.is_empty() {
        return points;
    }
    let several = values.len() > 1;
    let at = |point: &Point, value: T| {
        let mut point = point.clone();
        let word = set(&mut point, value);
        if several {
            point.suffix += &format!("/{axis}={word}");
        }
        point
    };
    points.iter().flat_map(|point| values.iter().map(move |value| at(point, *value))).collect()
}

/// 1M for 1048576.
fn short(bytes: usize) -> String {
    match bytes {
        _ if bytes.is_multiple_of(1 << 30) => format!("{}G", bytes >> 30),
        _ if bytes.is_multiple_of(1 << 20) => format!("{}M", bytes >> 20),
        _ if bytes.is_multiple_of(1 << 10) => format!("{}K", bytes >> 10),
        _ => bytes.to_string(),
    }
}

fn arm(
    rung: &Rung,
    peer: Option<&Peer>,
    placement: &NamedPlacement,
    point: &Point,
    program: &Path,
) -> Arm {
    let wait = wait(rung, placement, point);
    let (writer, reader) = (writer(rung, point, wait), reader(rung, point, wait));
    let mut params = BTreeMap::from([
        ("writer".to_owned(), format!("bytepath write {}", writer.join(" ")).into()),
        ("reader".to_owned(), format!("bytepath read {}", reader.join(" ")).into()),
        ("placement".to_owned(), placement.name.into()),
    ]);
    if let Some([writer, reader]) = placement.cpus {
        params.insert("writer_cpu".to_owned(), writer.into());
        params.insert("reader_cpu".to_owned(), reader.into());
    }
    let between = peer.map(Peer::found).transpose();
    if let Ok(Some(words)) = &between {
        params.insert("between".to_owned(), words.join(" ").into());
    }
    let name = peer.map_or_else(|| rung.name.to_owned(), peer_arm);
    Arm {
        name: format!("{name}@{}{}", placement.name, point.suffix),
        params,
        unit: Unit::GibPerSecond,
        section: None,
        touched: rung.touched,
        published: None,
        work: between.map(|between| {
            let write = std::iter::once("write".to_owned()).chain(writer).collect();
            Box::new(PipeWork {
                program: program.to_owned(),
                writer: Writer::Bytepath(write, None),
                reader,
                between,
                cpus: placement.cpus,
                expected: None,
            }) as Box<dyn Work>
        }),
    }
}

/// Whether both ends run on one CPU.
fn on_one(placement: &NamedPlacement) -> bool {
    placement.cpus.is_some_and(|[writer, reader]| writer == reader)
}

fn published(value: f64) -> Published {
    Published { value, source: SOURCE.to_owned(), note: None }
}

fn wait(rung: &Rung, placement: &NamedPlacement, point: &Point) -> &'static str {
    match (rung.wait, point.wait) {
        (RungWait::Fixed(wait), _) => wait,
        (_, Some(wait)) => wait.name(),
        (RungWait::ByPlacement, None) if placement.cpus.is_none() => "hybrid",
        (RungWait::ByPlacement, None) if !on_one(placement) => "spin",
        (RungWait::Asked | RungWait::ByPlacement, None) => "block",
    }
}

fn writer(rung: &Rung, point: &Point, wait: &str) -> Vec<String> {
    let mut writer = words(rung.writer);
    if let Some(bytes) = point.buf_bytes {
        writer.extend(["--buf-size".to_owned(), short(bytes)]);
    }
    if let Some(bytes) = point.pipe_bytes {
        writer.extend(["--pipe-size".to_owned(), short(bytes)]);
    }
    with_wait(writer, wait)
}

fn reader(rung: &Rung, point: &Point, wait: &str) -> Vec<String> {
    let mut reader = words(rung.reader);
    match (has_buffers(rung), point.buf_bytes) {
        (false, _) => reader.extend(["--buf-size".to_owned(), WIDE_READ.to_owned()]),
        (true, Some(bytes)) => reader.extend(["--buf-size".to_owned(), short(bytes)]),
        (true, None) => {}
    }
    with_wait(reader, wait)
}

fn with_wait(mut options: Vec<String>, wait: &str) -> Vec<String> {
    if wait != "block" {
        options.extend(["--wait".to_owned(), wait.to_owned()]);
    }
    options
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use bytepath::placement::Placement;

    use super::*;

    fn on(name: &'static str, writer_cpu: usize, reader_cpu: usize) -> NamedPlacement {
        NamedPlacement { name, placement: Placement::SameCpu, cpus: Some([writer_cpu, reader_cpu]) }
    }

    #[test]
    fn every_rung_is_on_every_placement_and_names_are_unique() {
        let placements = vec![on("same-cpu", 1, 1), on("cross-cpu", 0, 1)];
        let axes = Axes { placements, pipe_bytes: vec![65536, 1 << 20], ..Axes::default() };
        let arms = arms(&axes, Path::new("bytepath"));
        let mut names: Vec<_> = arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names.len(), RUNGS.len() * 4);
        assert!(names.contains(&"tee-splice@cross-cpu/pipe=64K"), "{names:?}");
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), RUNGS.len() * 4);
    }

    #[test]
    fn arms_without_buffers_are_one_whatever_sizes_are_asked_for() {
        let placements = vec![on("same-cpu", 1, 1)];
        let axes = Axes { placements, buf_bytes: vec![1, 4097], ..Axes::default() };
        let arms = arms(&axes, Path::new("bytepath"));
        for (rung, count) in [("tee-splice@", 1), ("wide-tee-splice@", 1), ("gift-splice@", 2)] {
            let found: Vec<_> = arms.iter().filter(|arm| arm.name.starts_with(rung)).collect();
            assert_eq!(found.len(), count, "{rung}");
            let has = |arm: &&Arm| arm.params["writer"].to_string().contains("--buf-size");
            assert_eq!(found.iter().filter(|arm| has(arm)).count(), count / 2 * 2, "{rung}");
        }
    }

    #[test]
    fn the_reference_is_write_read_on_two_cpus_where_there_are_two() {
        let axes = |placements| Axes { placements, ..Axes::default() };
        let both = arms(&axes(vec![on("same-cpu", 1, 1), on("cross-cpu", 0, 1)]), Path::new("b"));
        assert_eq!(reference(&both), Some("write-read@cross-cpu"));
        let one = arms(&axes(vec![on("same-cpu", 0, 0)]), Path::new("b"));
        assert_eq!(reference(&one), Some("write-read@same-cpu"));
    }

    #[test]
    fn figures_for_two_cores_stand_beside_no_ends_on_one() {
        let placements = vec![on("same-cpu", 1, 1), on("cross-cpu", 0, 1)];
        let both = arms(&Axes { placements, ..Axes::default() }, Path::new("b"));
        let placements = vec![on("same-cpu", 0, 0)];
        let one = arms(&Axes { placements, ..Axes::default() }, Path::new("b"));
        for arm in both.iter().chain(&one) {
            let beside = arm.published.is_some();
            assert!(!(beside && arm.name.contains("@same-cpu")), "{}", arm.name);
            assert!(beside || arm.name != "write-read@cross-cpu");
        }
    }

    #[test]
    fn figures_stand_beside_buffers_and_waits_that_they_are_of() {
        let published = |buf_bytes: &[usize], waits: &[Wait]| {
            let placements = vec![on("cross-cpu", 0, 1)];
            let (buf_bytes, waits) = (buf_bytes.to_vec(), waits.to_vec());
            let axes = Axes { placements, buf_bytes, waits, ..Axes::default() };
            let arms = arms(&axes, Path::new("b")).into_iter();
            arms.filter(|arm| arm.published.is_some()).map(|arm| arm.name).collect::<Vec<_>>()
        };
        let all = published(&[], &[]);
        assert_eq!(all.len(), RUNGS.iter().filter(|rung| rung.published.is_some()).count());
        assert_eq!(published(&[BUF_BYTES], &[Wait::Block]), all);
        assert_eq!(published(&[4096], &[]), [""; 0]);
        assert_eq!(published(&[], &[Wait::Spin]), ["vmsplice-splice-huge-spin@cross-cpu"]);
    }

    #[test]
    fn a_wait_that_a_rung_shows_is_not_overridden() {
        let axes = Axes {
            placements: vec![on("same-cpu", 1, 1)],
            waits: vec![Wait::Poll],
            ..Axes::default()
        };
        for arm in arms(&axes, Path::new("bytepath")) {
            let writer = arm.params["writer"].to_string();
            let wanted = ["spin", "hybrid"].iter().find(|wait| arm.name.contains(**wait));
            assert!(writer.contains(&format!("--wait {}", wanted.unwrap_or(&"poll"))), "{writer}");
        }
    }
}
