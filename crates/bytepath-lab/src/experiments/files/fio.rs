//! The same work by fio's matching engine, from a job file that is kept.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use bytepath::engines::Cache;
use bytepath_report::{Costs, Unit, latency};
use hdrhistogram::Histogram;
use serde_json::Value;

use super::{Made, arm_name};
use crate::arm::{Arm, Measured, Outcome, Timing, Work};
use crate::descendants::end_with_all;
use crate::drive_work::{Driven, Ground, measured_time};
use crate::ends::Usage;
use crate::peers::Peer;
use crate::pipe_work::{Says, said};
use crate::sys::together::end_together;
use crate::tools::versions;

/// The peer, by its words.
pub const PEER: Peer = Peer { name: "fio", words: &["fio"], package: "fio" };

/// fio, and where its job files are kept.
#[derive(Debug, Clone)]
pub struct Fio {
    /// Its words, or why it is not here.
    found: Result<Vec<String>, String>,
    /// Its version.
    versions: BTreeMap<String, Value>,
    /// The directory of the job files.
    jobs: PathBuf,
}

/// fio's engine and its options for each of ours: pread is fio's psync, which calls pread(2) too.
const ENGINES: &[(&str, &str, &[&str])] = &[
    ("pread", "psync", &[]),
    ("posix-aio", "posixaio", &[]),
    ("linux-aio", "libaio", &[]),
    ("uring", "io_uring", &[]),
    ("uring-registered", "io_uring", &["registerfiles=1", "fixedbufs=1"]),
    ("uring-sqpoll", "io_uring", &["sqthread_poll=1"]),
    ("uring-iopoll", "io_uring", &["hipri=1"]),
    ("mmap", "mmap", &[]),
    ("preadv2-nowait", "pvsync2", &["nowait=1"]),
];

/// Whether others do some of an engine's work: threads of the C library, or of the kernel, which io_uring
/// hands what may wait in the page cache (writes on ext4, all on tmpfs). fio tells the CPU time and the
/// switches of its own threads alone. What its process used (wait4(2)) has them all, but its start and its
/// warm-up too, of which it does not tell how much was done.
fn is_helped(engine: &str, cache: Cache) -> bool {
    match engine {
        "posix-aio" | "uring-sqpoll" => true,
        "uring" | "uring-registered" => cache == Cache::Buffered,
        _ => false,
    }
}

/// fio counts in whole milliseconds; a trial is at least so long.
const SHORTEST: Duration = Duration::from_millis(20);

/// The name of its arm beside one of ours.
pub(super) fn beside(name: &str) -> String {
    format!("fio-{name}")
}

impl Fio {
    /// fio, whose job files are kept in a directory.
    pub fn keeping(jobs: PathBuf) -> Fio {
        Fio { found: PEER.found(), versions: versions(&[PEER.name]), jobs }
    }

    /// The arm of fio beside ours.
    pub(super) fn arm(&self, made: &Made<'_>) -> Arm {
        let name = beside(&arm_name(made.engine.name(), made.site.cache));
        let file = self.jobs.join(format!("{name}.fio"));
        let mut params = made.params();
        params.extend(self.versions.clone());
        let work = match &self.found {
            Err(why) => Err(why.clone()),
            Ok(words) => {
                let words = words.iter().cloned().chain(["--output-format=json+".to_owned()]);
                let words: Vec<_> = words.chain([file.display().to_string()]).collect();
                params.insert("words".to_owned(), words.join(" ").into());
                let (work, ground) = (job(made), made.ground());
                let refills = made.shape.verify && made.shape.access.writes();
                let helped = is_helped(made.engine.name(), made.site.cache);
                let work = FioWork { words, file, job: work, ground, refills, helped };
                Ok(Box::new(work) as Box<dyn Work>)
            }
        };
        let section = Some(super::cache_word(made.site.cache).to_owned());
        Arm {
            name,
            section,
            params,
            unit: Unit::OpsPerSecond,
            touched: false,
            published: None,
            work,
        }
    }
}

/// The job file, but for the times. Its buffers begin at a page, as ours do: at the odd addresses that
/// fio has unless told, requests of 64 KiB were seen at a quarter of the speed.
fn job(made: &Made<'_>) -> String {
    let shape = made.shape;
    let known = ENGINES.iter().find(|(ours, ..)| *ours == made.engine.name());
    let (_, engine, options) = known.expect("every engine has its match");
    let (depth, threads) = shape.depth_and_threads(made.engine);
    let mut text = format!(
        "; {} as fio does it. Files in /proc were the run's own: put yours in their place.\n\
         [global]\nioengine={engine}\nrw={}\nbs={}\niodepth={depth}\niodepth_batch_submit={}\n\
         iodepth_batch_complete_min=1\ndirect={}\ninvalidate=0\nnorandommap=1\nrandseed={}\n\
         thread=1\niomem_align={}\ngroup_reporting=1\nlat_percentiles=1\nclat_percentiles=0\ntime_based=1\n",
        arm_name(made.engine.name(), made.site.cache),
        shape.access_word(),
        shape.io_bytes,
        shape.batch.min(depth),
        u8::from(made.site.cache == Cache::Direct),
        // It takes no more bits.
        shape.seed & 0x7fff_ffff,
        rustix::param::page_size(),
    );
    if !matches!(shape.access.read_percent, 0 | 100) {
        let _ = writeln!(text, "rwmixread={}", shape.access.read_percent);
    }
    for option in *options {
        let _ = writeln!(text, "{option}");
    }
    let paths: Vec<_> =
        made.site.files.paths().map(|path| escaped(&path.to_string_lossy())).collect();
    let bytes: Vec<_> = made.site.files.bytes().collect();
    let each = if shape.files_each == 0 { paths.len() } else { shape.files_each };
    for job in 0..shape.jobs {
        let first = if shape.files_each == 0 { 0 } else { job * each };
        let names = paths[first..first + each].join(":");
        let whole: u64 = bytes[first..first + each].iter().sum();
        let _ = write!(text, "[job{job}]\nfilename={names}\nnumjobs={threads}\nsize={whole}\n");
        if shape.span_bytes.is_some() {
            let _ = writeln!(text, "filesize={}", bytes[first]);
        }
    }
    text
}

/// A name as fio reads it: colons divide names.
fn escaped(path: &str) -> String {
    path.replace(':', "\\:")
}

/// fio with a job file.
struct FioWork {
    words: Vec<String>,
    file: PathBuf,
    job: String,
    ground: Ground,
    /// Whether what it writes would be found wrong by the arms that verify.
    refills: bool,
    /// Whether fio does not count all that its work costs.
    helped: bool,
}

impl FioWork {
    fn run(&self, warm_up: Duration, time: Duration, timing: &Timing) -> Result<Value, String> {
        let times = format!(
            "[global]\nramp_time={}ms\nruntime={}ms\n",
            warm_up.as_millis(),
            time.as_millis()
        );
        let job = self.job.replacen("[global]\n", &times, 1);
        std::fs::write(&self.file, job)
            .map_err(|error| format!("cannot write {}: {error}", self.file.display()))?;
        self.ground.files.bring_to(self.ground.state)?;
        let said = self.said(timing);
        if self.refills {
            let filled = self.ground.files.fill();
            filled.map_err(|error| format!("cannot put right what fio wrote: {error}"))?;
        }
        let said = said?;
        // It may say what it thinks of the options first.
        let start = said.find("\n{").map_or(0, |at| at + 1);
        serde_json::from_str(&said[start..]).map_err(|error| format!("fio: {error}: {said}"))
    }

    /// What it says; of what it complains about, the first line: the others are of other requests.
    fn said(&self, timing: &Timing) -> Result<String, String> {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = end_together(&mut command).spawn();
        let child = child.map_err(|error| format!("cannot start fio: {error}"))?;
        let mut child = Some(child);
        let said = said(&mut child, Says::Output, timing.patience());
        end_with_all(&mut child);
        said.map_err(|why| {
            let first = why.lines().next().unwrap_or_default();
            format!("fio: {}", first.trim_start_matches("fio: "))
        })
    }
}

impl Work for FioWork {
    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        let time = measured_time(timing)?.max(SHORTEST);
        let said = self.run(timing.warm_up, time, timing)?;
        let driven = driven(&said)?;
        let mut outcome = driven.outcome();
        // Those that fio tells are of its start as well.
        outcome.costs.page_faults_per_gib = None;
        if self.helped {
            forget_cpu(&mut outcome.costs);
        }
        outcome.latencies = latencies_of(&said);
        Ok(outcome)
    }

    fn trial(&self, timing: &Timing) -> Result<(), String> {
        let trial = Timing { warm_up: Duration::ZERO, measured: Measured::Time(SHORTEST) };
        self.run(Duration::ZERO, SHORTEST, &Timing { warm_up: timing.warm_up, ..trial })
            .and_then(|said| driven(&said).map(drop))
    }
}

/// What fio says that it did.
fn driven(said: &Value) -> Result<Driven, String> {
    let jobs = said["jobs"].as_array().map(Vec::as_slice).unwrap_or_default();
    let wrong = jobs.iter().find_map(|job| job["error"].as_i64().filter(|error| *error != 0));
    if let Some(errno) = wrong {
        let error = std::io::Error::from_raw_os_error(i32::try_from(errno).unwrap_or(0));
        return Err(format!("fio: {error}"));
    }
    let sides = |key: &str| {
        let of = |job: &Value| {
            job["read"][key].as_f64().unwrap_or(0.0) + job["write"][key].as_f64().unwrap_or(0.0)
        };
        jobs.iter().map(of).sum::<f64>()
    };
    let share = |key: &str| {
        let of = |job: &Value| {
            let percent = job[key].as_f64().unwrap_or(0.0);
            percent / 100.0 * job["job_runtime"].as_f64().unwrap_or(0.0) / 1000.0
        };
        jobs.iter().map(of).sum::<f64>()
    };
    let (per_second, bytes) = (sides("iops"), sides("io_bytes"));
    if per_second <= 0.0 {
        return Err("fio did no request in the time; take a longer --time".into());
    }
    let longest = |side: &str| {
        jobs.iter().filter_map(|job| job[side]["runtime"].as_f64()).fold(0.0, f64::max)
    };
    Ok(Driven {
        per_second,
        seconds: longest("read").max(longest("write")) / 1000.0,
        bytes: bytes as u64,
        usage: Usage {
            user_s: share("usr_cpu"),
            system_s: share("sys_cpu"),
            switches_voluntary: jobs.iter().filter_map(|job| job["ctx"].as_u64()).sum(),
            ..Usage::default()
        },
        calls: None,
    })
}

/// What is not known is not told.
fn forget_cpu(costs: &mut Costs) {
    costs.cpu_user_s_per_gib = None;
    costs.cpu_system_s_per_gib = None;
    costs.cpu_ns_per_op = None;
    costs.context_switches_per_gib = None;
    costs.context_switches_per_op = None;
}

/// How long its requests took, of both sides together: those of all blocks are told as one. None where
/// it counted none.
fn latencies_of(said: &Value) -> Option<Histogram<u64>> {
    let jobs = said["jobs"].as_array()?;
    let sides = jobs.iter().flat_map(|job| [&job["read"], &job["write"]]);
    let bins = sides.filter_map(|side| side["lat_ns"]["bins"].as_object()).flatten();
    let counts: Option<Vec<_>> =
        bins.map(|(ns, count)| Some((ns.parse().ok()?, count.as_u64()?))).collect();
    latency::counted(counts?).ok().filter(|all| !all.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_the_helpers_of_an_engine_cost_is_not_told_as_if_it_were_nothing() {
        let all = Some(1.0);
        let mut costs = Costs {
            cpu_user_s_per_gib: all,
            cpu_system_s_per_gib: all,
            context_switches_per_gib: all,
            cpu_ns_per_op: all,
            context_switches_per_op: all,
            ..Costs::default()
        };
        forget_cpu(&mut costs);
        assert_eq!(costs, Costs::default());
    }

    #[test]
    fn engines_that_others_help_are_known() {
        let helped = |cache| {
            let engines = ENGINES.iter().map(|(engine, ..)| *engine);
            engines.filter(|engine| is_helped(engine, cache)).collect::<Vec<_>>()
        };
        assert_eq!(helped(Cache::Direct), ["posix-aio", "uring-sqpoll"]);
        let buffered = ["posix-aio", "uring", "uring-registered", "uring-sqpoll"];
        assert_eq!(helped(Cache::Buffered), buffered);
    }

    #[test]
    fn latencies_are_those_of_every_request_that_fio_counted() {
        let side = |bins: Value| json!({"lat_ns": {"bins": bins}});
        let said = json!({"jobs": [
            {"read": side(json!({"1000": 3, "2000": 1})), "write": side(json!({"5000": 2}))},
            {"read": side(json!({"1000": 1})), "write": {"lat_ns": {}}},
        ]});
        let found = latencies_of(&said).expect("there were requests");
        let counts = [1000, 2000, 5000].map(|ns| found.count_at(ns));
        assert_eq!((found.len(), counts), (7, [4, 1, 2]));
        assert_eq!(latencies_of(&json!({"jobs": [{"read": {}}]})), None);
        let long = json!({"jobs": [{"read": side(json!({"90000000000": 1})), "write": {}}]});
        let longest_ns = latencies_of(&long).expect("there was one").max();
        assert!(longest_ns.abs_diff(90_000_000_000) < 90_000_000, "{longest_ns}");
    }
}
