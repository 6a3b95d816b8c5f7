//! `files`: which engine reads and writes files fastest? The comparison that ScyllaDB published in
//! 2020 ("How io_uring and eBPF will revolutionize programming in Linux"), here.

pub mod fio;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use bytepath::engines::{Cache, ENGINES, Kind};
use bytepath_report::{Published, Unit};

use super::Description;
use crate::arm::{Arm, Work};
use crate::drive::{Access, Order};
use crate::drive_work::{DriveWork, Ground};
use crate::file_set::{FileSet, State};

/// What it asks.
pub const DESCRIPTION: Description = Description {
    name: "files",
    question: "Which engine does most requests on files on this machine?",
    definition: "Threads make requests of one size on files full of bytes that do not compress, at \
                 the same places for every engine, for a fixed time after a warm-up. As many \
                 requests may be in flight with every engine: jobs x depth, on one thread a job \
                 where the engine queues and on depth threads a job where it does not. Buffered: \
                 through the page cache, which has every page (or none with --cold); direct: past \
                 it. All that is done is taken at once, and as many handed over one by one; what the \
                 page cache does while it is handed over is in flight no longer than until the next \
                 time, where fio, which takes one at a time, tells of up to twice as long.",
};

/// Whose figures stand beside ours.
const SOURCE: &str = "ScyllaDB 2020, fio: random reads of 1 KiB, 72 jobs on 8 CPUs, 4 files each, \
                      depth 8, NVMe that peaks at 3.5 M IOPS";

/// IOPS as published: the engine, direct, buffered and hot.
const PUBLISHED: &[(&str, Option<f64>, Option<f64>)] = &[
    ("pread", Some(814e3), Some(4.906e6)),
    ("posix-aio", Some(433e3), Some(1.070e6)),
    ("linux-aio", Some(1.322e6), Some(4.127e6)),
    ("uring", Some(1.417e6), Some(5.024e6)),
    ("uring-registered", Some(1.486e6), None),
];

/// The engine that the others are compared with.
const REFERENCE: &str = "uring";

/// Files, and how they are opened and found.
#[derive(Clone)]
pub struct Site {
    /// Whether through the page cache.
    pub cache: Cache,
    /// What the cache has of them.
    pub state: State,
    /// They.
    pub files: Rc<FileSet>,
}

/// What is done on each site.
#[derive(Debug, Clone)]
pub struct Shape {
    /// How offsets follow each other, and how many of the requests read.
    pub access: Access,
    /// Bytes of a request.
    pub io_bytes: usize,
    /// Requests in flight for each job.
    pub depth: usize,
    /// Requests handed over together.
    pub batch: usize,
    /// How many jobs.
    pub jobs: usize,
    /// Files of each job; 0 where all have all.
    pub files_each: usize,
    /// Bytes of each file at most.
    pub span_bytes: Option<u64>,
    /// Whether an engine without a queue has one request in flight for a job, instead of `depth`.
    pub one_per_job: bool,
    /// Whether the bytes are looked at.
    pub verify: bool,
    /// How long the kernel's submitting thread watches an empty queue.
    pub idle: Duration,
    /// Where the offsets come from.
    pub seed: u64,
}

impl Shape {
    /// Requests in flight on a thread, and threads for a job.
    fn depth_and_threads(&self, engine: &dyn Kind) -> (usize, usize) {
        match (engine.queues(), self.one_per_job) {
            (true, _) => (self.depth, 1),
            (false, true) => (1, 1),
            (false, false) => (1, self.depth),
        }
    }

    /// The word for the access, which is fio's too.
    pub fn access_word(&self) -> &'static str {
        match (self.access.order, self.access.read_percent) {
            (Order::Random, 100) => "randread",
            (Order::Random, 0) => "randwrite",
            (Order::Random, _) => "randrw",
            (Order::Sequential, 100) => "read",
            (Order::Sequential, 0) => "write",
            (Order::Sequential, _) => "rw",
        }
    }
}

/// The word for a way to open files.
fn cache_word(cache: Cache) -> &'static str {
    match cache {
        Cache::Buffered => "buffered",
        Cache::Direct => "direct",
    }
}

/// The name of an engine's arm.
pub fn arm_name(engine: &str, cache: Cache) -> String {
    format!("{engine}@{}", cache_word(cache))
}

/// The names of all arms, in order, whatever can run.
pub fn names(caches: &[Cache]) -> Vec<String> {
    let of = |cache: &Cache| {
        let cache = *cache;
        ENGINES.iter().map(move |engine| arm_name(engine.name(), cache))
    };
    caches.iter().flat_map(of).collect()
}

/// The same, each with its peer after it.
pub fn names_with_fio(caches: &[Cache]) -> Vec<String> {
    let with_fio = |name: String| {
        let beside = fio::beside(&name);
        [name, beside]
    };
    names(caches).into_iter().flat_map(with_fio).collect()
}

/// The engines of which an arm is named for a site; the one that the others are compared with first.
pub fn engines(names: &[String], cache: Cache) -> Vec<&'static dyn Kind> {
    let named = |engine: &&dyn Kind| {
        let name = arm_name(engine.name(), cache);
        names.contains(&fio::beside(&name)) || names.contains(&name)
    };
    let mut engines: Vec<&'static dyn Kind> = ENGINES.iter().copied().filter(named).collect();
    engines.sort_by_key(|engine| engine.name() != REFERENCE);
    engines
}

/// The arms of these names on their sites; `program` is bytepath.
pub fn arms(
    names: &[String],
    sites: &[Site],
    shape: &Shape,
    program: &Path,
    peer: Option<&fio::Fio>,
) -> Vec<Arm> {
    let mut arms = Vec::new();
    for site in sites {
        for engine in engines(names, site.cache) {
            let refused = refused(engine, site, shape);
            let made = Made { engine, site, shape };
            let own = arm_name(engine.name(), site.cache);
            let beside = peer.filter(|_| names.contains(&fio::beside(&own)));
            let beside = beside.map(|fio| fio.arm(&made));
            match refused {
                // What is said of ours holds for fio's too.
                Some(why) if names.contains(&own) => arms.push(made.arm(Some(why), program)),
                Some(why) => arms.extend(beside.map(|arm| Arm { work: Err(why), ..arm })),
                None => {
                    arms.extend(names.contains(&own).then(|| made.arm(None, program)));
                    arms.extend(beside);
                }
            }
        }
    }
    arms
}

/// Why the engine cannot do this work on this site, if so.
fn refused(engine: &dyn Kind, site: &Site, shape: &Shape) -> Option<String> {
    engine.suits(site.cache, shape.access.writes()).err().map(|refusal| refusal.to_string())
}

/// An arm in the making.
struct Made<'a> {
    engine: &'static dyn Kind,
    site: &'a Site,
    shape: &'a Shape,
}

impl Made<'_> {
    fn ground(&self) -> Ground {
        Ground {
            files: self.site.files.clone(),
            state: self.site.state,
            io_bytes: self.shape.io_bytes,
        }
    }

    fn arm(&self, refused: Option<String>, program: &Path) -> Arm {
        let words = self.words();
        let mut params = self.params();
        params.insert("words".to_owned(), format!("bytepath drive {}", words.join(" ")).into());
        let work = DriveWork { program: PathBuf::from(program), words, ground: self.ground() };
        Arm {
            name: arm_name(self.engine.name(), self.site.cache),
            section: Some(cache_word(self.site.cache).to_owned()),
            params,
            unit: Unit::OpsPerSecond,
            touched: self.shape.verify,
            published: self.published(),
            work: refused.map_or(Ok(Box::new(work) as Box<dyn Work>), Err),
        }
    }

    fn params(&self) -> BTreeMap<String, serde_json::Value> {
        let shape = self.shape;
        let (depth, threads) = shape.depth_and_threads(self.engine);
        BTreeMap::from([
            ("engine".to_owned(), self.engine.name().into()),
            ("cache".to_owned(), cache_word(self.site.cache).into()),
            ("cache_state".to_owned(), self.site.state.name().into()),
            ("io_bytes".to_owned(), shape.io_bytes.into()),
            ("access".to_owned(), shape.access_word().into()),
            ("read_percent".to_owned(), shape.access.read_percent.into()),
            ("threads".to_owned(), (shape.jobs * threads).into()),
            ("depth_of_thread".to_owned(), depth.into()),
            ("in_flight".to_owned(), (shape.jobs * threads * depth).into()),
        ])
    }

    fn published(&self) -> Option<Published> {
        let Access { order, read_percent } = self.shape.access;
        let Shape { io_bytes, depth, batch, verify, .. } = *self.shape;
        let asked = (order, read_percent, io_bytes, depth, batch, verify);
        if asked != (Order::Random, 100, 1024, 8, 1, false) {
            return None;
        }
        let row = PUBLISHED.iter().find(|(name, ..)| *name == self.engine.name())?;
        let value = match self.site.cache {
            Cache::Direct => row.1,
            Cache::Buffered => row.2.filter(|_| self.site.state == State::Hot),
        };
        value.map(|value| Published { value, source: SOURCE.to_owned(), note: None })
    }

    /// Options of `bytepath drive`, and the files.
    fn words(&self) -> Vec<String> {
        let shape = self.shape;
        let (depth, threads) = shape.depth_and_threads(self.engine);
        let mut words: Vec<String> = [
            ("--engine", self.engine.name().to_owned()),
            ("--rw", shape.access_word().to_owned()),
            ("--read-percent", shape.access.read_percent.to_string()),
            ("--bs", shape.io_bytes.to_string()),
            ("--depth", depth.to_string()),
            ("--batch", shape.batch.min(depth).to_string()),
            ("--jobs", shape.jobs.to_string()),
            ("--threads", threads.to_string()),
            ("--files", shape.files_each.to_string()),
            ("--seed", shape.seed.to_string()),
            ("--sqpoll-idle", format!("{}us", shape.idle.as_micros())),
        ]
        .into_iter()
        .flat_map(|(option, value)| [option.to_owned(), value])
        .collect();
        words.extend((self.site.cache == Cache::Direct).then(|| "--direct".to_owned()));
        words.extend(shape.verify.then(|| "--verify".to_owned()));
        if let Some(bytes) = shape.span_bytes {
            words.extend(["--size".to_owned(), bytes.to_string()]);
        }
        words.push("--".to_owned());
        words.extend(self.site.files.paths().map(|path| path.display().to_string()));
        words
    }
}
