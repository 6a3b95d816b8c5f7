//! `swap`: what takes the pages that do not fit, and how much slower that is than memory.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::rc::Rc;

use bytepath_report::{Arm as ShownArm, Figures, Published, Record, Status, Unit, numbers};

use super::Description;
use crate::arm::{Arm, Work};
use crate::swap::area::Wanted;
use crate::swap::contents::{Contents, KINDS};
use crate::swap::mariadb::MariaDb;
use crate::swap::redis::Redis;
use crate::swap::service_work::{Service, ServiceWork, Shared};
use crate::swap::shortage::Shortage;
use crate::swap::touch_work::TouchWork;
use crate::swap::{BACKENDS, Backend};
use crate::tools::versions;

/// What it asks.
pub const DESCRIPTION: Description = Description {
    name: "swap",
    question: "What takes the pages that do not fit into memory, and how fast is that?",
    definition: "In a memory cgroup with a limit, a process gets and writes memory, 1 MiB at a time, \
                 then reads one word of each page in order, and of some in random order; every page \
                 that is read is compared with what was written, outside the clock. Text and random \
                 bytes are made before it runs: writing them is a copy. The value is the time of \
                 the writing; the percentiles are of single reads, of both kinds. swap-file: a file \
                 on the disk; swap-loop: the same behind loop devices that are kept to a rate; zram-*: \
                 compressed memory; zswap: the kernel's compressed pool before a file; none: no limit. \
                 With --work redis or mariadb a server has the limit, and the value is transactions per \
                 second: of Redis, with values of 1 KiB, 9 of 10 reading, of keys that each load draws anew; of MariaDB, sysbench's \
                 oltp_read_write on a table that fills the buffer pool. The area is used before all others. What is swapped is the machine's count, CPU of \
                 kernel threads that of all of them.",
};

/// The arm that the others are compared with.
pub const REFERENCE: &str = "swap-file";

/// The published sizes: what is written, and the limit.
pub const SIZE_BYTES: u64 = 300 << 20;
/// The limit of the published experiment.
pub const LIMIT_BYTES: u64 = 50 << 20;
/// Its area.
pub const AREA_BYTES: u64 = 500 << 20;
/// Bytes per second of its card.
pub const DISK_RATE: u64 = 12_200_000;

/// What is asked for.
pub struct Setup<'a> {
    /// The `bytepath` executable.
    pub program: &'a Path,
    /// Bytes that are written.
    pub bytes: u64,
    /// Bytes of memory.
    pub limit_bytes: u64,
    /// Bytes of the area.
    pub area_bytes: u64,
    /// Bytes per second of the slow disk.
    pub disk_rate: u64,
    /// What the pages hold.
    pub contents: Contents,
    /// Pages that are read in random order.
    pub random_pages: u64,
    /// What requests are drawn from.
    pub seed: u64,
    /// Where files are made, or why nowhere.
    pub directory: Result<&'a Path, &'a str>,
}

impl Setup<'_> {
    /// The limit, and a backend.
    fn shortage(&self, backend: Backend) -> Shortage {
        let wanted = Wanted {
            backend,
            bytes: self.area_bytes,
            directory: self.directory.map(Path::to_owned).map_err(str::to_owned),
            disk_rate: self.disk_rate,
        };
        Shortage::of(wanted, self.limit_bytes)
    }

    /// For the record.
    pub(crate) fn params(&self, backend: Backend) -> BTreeMap<String, serde_json::Value> {
        let mut params = BTreeMap::from([("io_bytes".to_owned(), 4096.into())]);
        if backend != Backend::None {
            params.insert("limit_bytes".to_owned(), self.limit_bytes.into());
            params.insert("area_bytes".to_owned(), self.area_bytes.into());
        }
        if backend == Backend::SlowLoop {
            params.insert("disk_bytes_per_s".to_owned(), self.disk_rate.into());
        }
        params
    }

    fn is_as_published(&self, backend: Backend) -> bool {
        let sizes = [self.bytes, self.limit_bytes, self.area_bytes];
        let same_disk = backend != Backend::SlowLoop || self.disk_rate == DISK_RATE;
        sizes == [SIZE_BYTES, LIMIT_BYTES, AREA_BYTES]
            && same_disk
            && self.contents == Contents::Integers
    }
}

/// What is short of memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Job {
    /// A process that writes and reads its memory.
    Touch,
    /// Redis, with a load of our own.
    Redis,
    /// MariaDB, with sysbench's.
    Mariadb,
}

/// Every kind of work, by its name on the command line.
pub const JOBS: &[(&str, Job)] =
    &[("touch", Job::Touch), ("redis", Job::Redis), ("mariadb", Job::Mariadb)];

/// The arms: every backend.
pub fn arms(job: Job, setup: &Setup<'_>) -> Vec<Arm> {
    let (service, programs): (Result<Box<dyn Service>, String>, &[&str]) = match job {
        Job::Touch => return BACKENDS.iter().map(|(name, of)| arm(name, *of, setup)).collect(),
        Job::Redis => {
            let redis = Redis::of(setup.bytes, setup.contents, setup.seed);
            (redis.map(|redis| Box::new(redis) as _), &["redis-server"])
        }
        Job::Mariadb => {
            let mariadb = MariaDb::of(setup.bytes);
            (mariadb.map(|mariadb| Box::new(mariadb) as _), &["mariadbd", "sysbench"])
        }
    };
    let versions = versions(programs);
    let directory = setup.directory.map(Path::to_owned).map_err(str::to_owned);
    let shared = Rc::new(Shared::new(service, directory));
    let arm = |(name, of): &(&str, Backend)| {
        let mut arm = service_arm(name, *of, job, &shared, setup);
        arm.params.extend(versions.clone());
        arm
    };
    BACKENDS.iter().map(arm).collect()
}

fn service_arm(
    name: &str,
    backend: Backend,
    job: Job,
    shared: &Rc<Shared>,
    setup: &Setup<'_>,
) -> Arm {
    let mut params = setup.params(backend);
    // Transactions have no size.
    params.remove("io_bytes");
    params.insert("bytes".to_owned(), setup.bytes.into());
    let named = JOBS.iter().find(|(_, known)| *known == job);
    params.insert("work".to_owned(), named.map_or("", |(name, _)| name).into());
    let work = ServiceWork {
        program: setup.program.to_owned(),
        shortage: setup.shortage(backend),
        shared: shared.clone(),
    };
    Arm {
        name: name.to_owned(),
        section: None,
        params,
        unit: Unit::OpsPerSecond,
        touched: true,
        published: None,
        work: Ok(Box::new(work) as Box<dyn Work>),
    }
}

fn arm(name: &str, backend: Backend, setup: &Setup<'_>) -> Arm {
    let mut params = setup.params(backend);
    params.insert("bytes".to_owned(), setup.bytes.into());
    let contents = KINDS.iter().find(|(_, kind)| *kind == setup.contents);
    params.insert("contents".to_owned(), contents.map_or("", |(name, _)| name).into());
    let work = TouchWork {
        program: setup.program.to_owned(),
        shortage: setup.shortage(backend),
        contents: setup.contents,
        random_pages: setup.random_pages,
    };
    Arm {
        name: name.to_owned(),
        section: None,
        params,
        unit: Unit::Seconds,
        touched: true,
        published: published(backend).filter(|_| setup.is_as_published(backend)),
        work: Ok(Box::new(work) as Box<dyn Work>),
    }
}

fn published(backend: Backend) -> Option<Published> {
    let value = match backend {
        Backend::SlowLoop => 80.0,
        Backend::Zram("lz4") => 8.0,
        _ => return None,
    };
    Some(Published {
        value,
        source: "a test of zram under a memory cgroup, 2015".into(),
        note: Some(
            "A2 ARM board with 2 GiB; its swap file on an SD card that writes 12.2 MB/s; one run"
                .into(),
        ),
    })
}

/// What else takes pages of this machine, and may have taken some of the arms'.
pub fn beside(record: &Record) -> Vec<String> {
    let told = record.arms.iter().filter_map(|arm| arm.params.get("others")?.as_array());
    let all = told.flatten().filter_map(|other| Some(other.as_str()?.to_owned()));
    let each: BTreeSet<_> = all.collect();
    each.into_iter().collect()
}

/// One sentence on what this machine shows; none where there is nothing to compare.
pub fn shows(record: &Record) -> Option<String> {
    let ran = |name: &str| {
        record
            .arms
            .iter()
            .find(|arm| arm.name == name && arm.status == Status::Ok && arm.median.is_some())
    };
    let zram =
        record.arms.iter().filter(|arm| arm.name.starts_with("zram") && arm.median.is_some());
    let is_rate = |arm: &&ShownArm| arm.unit == Unit::OpsPerSecond;
    let best = zram.min_by(|a, b| {
        let order = a.median.partial_cmp(&b.median).expect("finite");
        if is_rate(a) { order.reverse() } else { order }
    })?;
    let (done, unit) = match is_rate(&best) {
        true => ("transactions are", "a second"),
        false => ("writing takes", "s"),
    };
    let others = ["swap-file", "swap-loop", "none"].into_iter().filter_map(|name| {
        let name_shown = if name == "none" { "no limit" } else { name };
        Some(format!("{} {unit} with {name_shown}", numbers::figure(ran(name)?.median?)))
    });
    let others: Vec<_> = others.collect();
    if others.is_empty() {
        return None;
    }
    let holds = Figures::of_arm(best).and_then(|figures: Figures| {
        let (swap, memory) = (figures.get("in swap")?, figures.get("memory taken")?);
        let (swap, memory) = (numbers::figure(swap), numbers::figure(memory));
        Some(format!("; the {swap} MiB that it holds take {memory} MiB of memory"))
    });
    Some(format!(
        "Here {done} {} {unit} with {}, {}{}",
        best.median.map_or_else(String::new, numbers::figure),
        best.name,
        others.join(", "),
        holds.unwrap_or_default()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_stand_beside_the_sizes_and_the_disk_that_they_are_of() {
        let usual = || Setup {
            program: Path::new("bytepath"),
            bytes: SIZE_BYTES,
            limit_bytes: LIMIT_BYTES,
            area_bytes: AREA_BYTES,
            disk_rate: DISK_RATE,
            contents: Contents::Integers,
            random_pages: 1,
            seed: 1,
            directory: Err("nowhere"),
        };
        let beside = |setup: &Setup<'_>| -> Vec<String> {
            let arms = arms(Job::Touch, setup).into_iter().filter(|arm| arm.published.is_some());
            arms.map(|arm| arm.name).collect()
        };
        assert_eq!(beside(&usual()), ["swap-loop", "zram-lz4"]);
        assert_eq!(beside(&Setup { disk_rate: 200_000_000, ..usual() }), ["zram-lz4"]);
        assert_eq!(beside(&Setup { area_bytes: 2 * AREA_BYTES, ..usual() }), [""; 0]);
        assert_eq!(beside(&Setup { contents: Contents::Text, ..usual() }), [""; 0]);
    }
}
