//! `bytepath bench files`: every engine on real files, verified; the record; fio beside it; what is
//! refused.

use std::fs;
use std::path::Path;
use std::process::Command;

use bytepath_report::latency;
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{
    BYTEPATH, arms, as_published, bytepath, entries, installed, root, run, shell, text,
};

/// Short enough for a test; the figures mean nothing.
const SHORT: &[&str] = &[
    "bench",
    "files",
    "--blocks",
    "3",
    "--time",
    "5ms",
    "--warm-up",
    "0s",
    "--files",
    "2",
    "--size",
    "64K",
];

/// How many at once, where a test does not say.
const SHAPE: &[&str] = &["--jobs", "2", "--depth", "3"];

/// A folder on a disk: files of a file system in memory cannot be dropped from the page cache.
fn folder() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder")
}

/// A short run of two jobs with these words, to its record.
#[track_caller]
fn record(words: &[&str]) -> Value {
    record_of(&[SHAPE, words].concat())
}

/// A short run with these words, to its record.
#[track_caller]
fn record_of(words: &[&str]) -> Value {
    let folder = folder();
    let words = [SHORT, &["--dir", text(folder.path())], words, &["--json", "-"]].concat();
    run(&mut bytepath(&words)).well().json()
}

/// Engines that some machines do not have or that cannot do some work, and what they then say.
const MAY_BE_REFUSED: &[(&str, &[&str])] = &[
    ("uring", &["io_uring is not"]),
    ("linux-aio", &["linux-aio is not"]),
    ("uring-iopoll@direct", &["polling", "io_uring is not"]),
    ("@direct", &["O_DIRECT"]),
    ("uring-iopoll@buffered", &["only a device can be polled"]),
    ("mmap@direct", &["a mapping is of the page cache"]),
    ("preadv2-nowait@direct", &["always waits for the device"]),
    ("preadv2-nowait@buffered", &["take no writes that may not wait"]),
];

/// That every arm ran, or says why it could not; the names of those that ran.
#[track_caller]
fn ran(record: &Value) -> Vec<&str> {
    let mut ran = Vec::new();
    for arm in arms(record) {
        let name = arm["name"].as_str().expect("a name");
        let why = arm["why"].as_str().unwrap_or_default();
        let said = |(part, words): &(&str, &[&str])| {
            name.contains(part) && words.iter().any(|word| why.contains(word))
        };
        if arm["status"] == "ok" {
            ran.push(name);
        } else {
            assert!(MAY_BE_REFUSED.iter().any(said), "{name}: {why}");
            // What is so already is no remedy, and a descriptor of somebody's no name.
            assert!(!why.contains("open the file with O_DIRECT"), "{name}: {why}");
            assert!(!why.contains("/proc/"), "{name}: {why}");
            println!("skipped: {name}: {why}");
        }
    }
    ran
}

#[test]
fn every_engine_reads_and_writes_what_belongs_there() {
    for access in ["randread", "read", "randrw", "rw", "randwrite", "write"] {
        let record = record(&["--verify", "--rw", access]);
        let ran = ran(&record);
        for engine in ["pread", "posix-aio", "mmap"] {
            let name = format!("{engine}@buffered");
            assert!(ran.contains(&name.as_str()), "{access}: {name} in {ran:?}");
        }
        for arm in arms(&record).iter().filter(|arm| arm["status"] == "ok") {
            let verified = arm["params"]["verified_blocks"].as_u64();
            assert!(verified.is_some_and(|blocks| blocks > 0), "{access}: {arm}");
            assert_eq!(arm["touched"], true);
            // Measured figures are medians, among the costs, and no parameters.
            assert!(arm["costs"]["context_switches_per_gib"].is_f64(), "{arm}");
            assert_eq!(arm["params"]["context_switches"], Value::Null, "{arm}");
        }
    }
}

#[test]
fn reads_that_would_wait_are_counted_also_where_none_did() {
    let record = record(&["--buffered", "--arms", "preadv2-nowait,pread"]);
    ran(&record);
    for arm in arms(&record).iter().filter(|arm| arm["status"] == "ok") {
        let figures = arm["params"]["figures"].as_array().cloned().unwrap_or_default();
        let counts: Vec<_> =
            figures.iter().filter(|figure| figure["name"] == "would block").collect();
        let waits_once_refused = arm["name"] == "preadv2-nowait@buffered";
        assert_eq!(counts.len(), usize::from(waits_once_refused), "{arm}");
        assert!(counts.iter().all(|count| count["value"].is_f64()), "{arm}");
    }
}

#[test]
fn batches_depths_and_blocks_of_every_size_are_verified() {
    let shapes: [&[&str]; 4] = [
        &["--bs", "512", "--depth", "1"],
        &["--bs", "4K", "--depth", "16", "--batch", "16"],
        &["--bs", "16K", "--depth", "5", "--batch", "2", "--jobs", "1"],
        &["--bs", "64K", "--one-per-job"],
    ];
    for shape in shapes {
        let mixed = ["--verify", "--rw", "randrw", "--read-percent", "70"];
        ran(&record_of(&[&mixed, shape].concat()));
    }
}

#[test]
fn blocks_of_any_size_go_through_the_page_cache() {
    let record = record(&["--verify", "--buffered", "--bs", "1000", "--cold"]);
    assert!(ran(&record).contains(&"pread@buffered"));
    let state = arms(&record)[0]["params"]["cache_state"].as_str().unwrap_or_default();
    assert!(state.starts_with("cold"), "{state}");
}

#[test]
fn the_record_is_what_the_schema_says_with_latencies_and_ratios_within_each_kind() {
    let record = record(&[]);
    as_published("record", &record);
    let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let found = bytepath::machine::file_system(place).expect("it is on one");
    assert_eq!(record["machine"]["file_system"], found.name);
    let directory = record["settings"]["directory"].as_str().unwrap_or_default();
    assert!(
        directory.starts_with(text(&place.canonicalize().expect("it is there"))),
        "{directory}"
    );
    for arm in arms(&record).iter().filter(|arm| arm["status"] == "ok") {
        let name = arm["name"].as_str().expect("a name");
        let kind = name.split('@').nth(1).expect("a kind");
        assert_eq!(
            (&arm["section"], &arm["reference"]),
            (&kind.into(), &(name.starts_with("uring@")).into())
        );
        assert!(arm["ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{arm}");
        let told = &arm["params"]["latency"];
        let ns = |key: &str| told[key].as_u64().expect("a percentile");
        let keys = ["p50_ns", "p95_ns", "p99_ns", "p99.9_ns", "max_ns"];
        assert!(keys.windows(2).all(|pair| ns(pair[0]) <= ns(pair[1])), "{told}");
        let histogram = told["histogram"].as_str().expect("a histogram");
        let histogram = latency::decoded(histogram).expect("it is one");
        assert_eq!(histogram.value_at_quantile(0.5), ns("p50_ns"));
        assert!(!histogram.is_empty());
    }
}

#[test]
fn as_many_requests_are_in_flight_with_every_engine() {
    let shape = ["--depth", "4", "--jobs", "2"];
    let record = record_of(&[&shape[..], &["--arms", "pread,mmap,posix-aio"]].concat());
    for arm in arms(&record) {
        assert_eq!(arm["params"]["in_flight"], 8, "{arm}");
    }
}

#[test]
fn the_table_tells_latencies_and_what_was_published() {
    let folder = folder();
    let words = [SHORT, &["--dir", text(folder.path()), "--arms", "pread,posix-aio"]].concat();
    let table = run(&mut bytepath(&words)).well().stdout;
    for words in ["p99.9", "4.91M", "814k", "ScyllaDB 2020", "pread@direct", "its section"] {
        assert!(table.contains(words), "{words:?} is not in {table}");
    }
    let other = run(&mut bytepath(&[&words, SHAPE].concat())).well().stdout;
    assert!(!other.contains("ScyllaDB"), "it published no such depth: {other}");
}

#[test]
fn the_list_names_the_arms_and_globs_choose_among_them() {
    let list = |words: &[&str]| -> Vec<String> {
        let words = [&["bench", "files", "--list"], words].concat();
        run(&mut bytepath(&words)).well().stdout.lines().map(str::to_owned).collect()
    };
    assert_eq!(list(&[]).len(), 18);
    assert_eq!(list(&["--arms", "uring*", "--direct"]).len(), 4);
    assert_eq!(
        list(&["--arms", "mmap@buffered,pread", "--buffered"]),
        ["pread@buffered", "mmap@buffered"]
    );
}

#[test]
fn fio_does_the_same_work_from_a_job_file_that_is_kept() {
    if !installed("fio") {
        println!("skipped: fio is not installed");
        return;
    }
    let folder = folder();
    let jobs = folder.path().join("jobs");
    let words = ["--peer", "fio", "--save-jobs", text(&jobs), "--arms", "pread,linux-aio,mmap"];
    let record = record(&words);
    let ran = ran(&record);
    assert!(ran.contains(&"fio-pread@buffered") && ran.contains(&"fio-mmap@buffered"), "{ran:?}");
    for arm in arms(&record).iter().filter(|arm| arm["status"] == "ok") {
        assert!(arm["median"].as_f64().is_some_and(|median| median > 0.0), "{arm}");
        assert!(arm["params"]["latency"]["p99_ns"].as_u64().is_some_and(|ns| ns > 0), "{arm}");
        // fio's are of all blocks too.
        assert!(arm["params"]["latency"]["histogram"].is_string(), "{arm}");
    }
    let job = fs::read_to_string(jobs.join("fio-linux-aio@direct.fio")).expect("it is kept");
    for line in ["ioengine=libaio", "direct=1", "bs=1024", "iodepth=3", "invalidate=0", "[job1]"] {
        assert!(job.lines().any(|is| is == line), "{line} is not in {job}");
    }
    let sync = fs::read_to_string(jobs.join("fio-pread@buffered.fio")).expect("it is kept");
    assert!(sync.contains("ioengine=psync") && sync.contains("numjobs=3"), "{sync}");
}

#[test]
fn jobs_are_kept_beside_a_record_that_is_a_file_and_no_other() {
    let folder = folder();
    let line = |json: &str| {
        let dir = folder.path().display();
        let words = "--peer fio --buffered --arms pread --size 1M --blocks 2 --quick --no-store";
        shell(&format!("cd {dir} && exec $bytepath bench files {words} --json {json}")).well()
    };
    line("/dev/fd/3 3>record");
    assert_eq!(entries(folder.path()), [folder.path().join("record")]);
    line("record");
    let mut kept = entries(folder.path());
    kept.sort();
    assert_eq!(kept, ["record", "record.jobs"].map(|name| folder.path().join(name)));
}

#[test]
fn without_files_to_be_measured_no_folder_for_jobs_is_left() {
    let folder = folder();
    let jobs = folder.path().join("jobs");
    let words = ["bench", "files", "--peer", "fio", "--dir", "/proc", "--save-jobs", text(&jobs)];
    run(&mut bytepath(&words)).refused(1, &["/proc"]);
    assert_eq!(entries(folder.path()), [] as [std::path::PathBuf; 0]);
}

#[test]
fn what_fio_does_not_count_is_not_told_of_it() {
    if !installed("fio") {
        println!("skipped: fio is not installed");
        return;
    }
    let record = record(&["--peer", "fio", "--arms", "fio-pread,fio-posix-aio,fio-uring"]);
    let ran = ran(&record);
    for arm in arms(&record).iter().filter(|arm| ran.iter().any(|name| arm["name"] == *name)) {
        let helped = ["fio-posix-aio@buffered", "fio-posix-aio@direct", "fio-uring@buffered"];
        let is_helped = helped.iter().any(|name| arm["name"] == *name);
        for cost in ["cpu_system_s_per_gib", "context_switches_per_gib"] {
            assert_eq!(arm["costs"][cost].is_number(), !is_helped, "{cost} of {arm}");
        }
    }
    assert!(ran.contains(&"fio-pread@buffered") && ran.contains(&"fio-posix-aio@buffered"));
}

#[test]
fn the_arms_of_fio_are_listed_and_chosen_as_others_are() {
    let list = |words: &[&str]| {
        let words = [&["bench", "files", "--peer", "fio", "--buffered", "--list"], words].concat();
        run(&mut bytepath(&words)).well().stdout.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let all = list(&[]);
    assert_eq!(all[..2], ["pread@buffered", "fio-pread@buffered"]);
    assert_eq!(list(&["--arms", "mmap"]), ["mmap@buffered", "fio-mmap@buffered"]);
    assert_eq!(list(&["--arms", "fio-mmap"]), ["fio-mmap@buffered"]);
    if installed("fio") {
        let record = record(&["--peer", "fio", "--buffered", "--arms", "fio-pread"]);
        assert_eq!(ran(&record), ["fio-pread@buffered"]);
        let version = record["arms"][0]["params"]["fio"].as_str();
        assert!(version.is_some_and(|version| version.starts_with("fio-")), "{record}");
    }
}

#[test]
fn files_that_are_given_are_read_and_stay_as_they_are() {
    let folder = folder();
    let names: Vec<_> = ["one", "two"].iter().map(|name| folder.path().join(name)).collect();
    for name in &names {
        fs::write(name, vec![7; 40_000]).expect("written");
    }
    let files = ["--file", text(&names[0]), "--file", text(&names[1])];
    let words =
        [&SHORT[..SHORT.len() - 4], SHAPE, &files, &["--arms", "pread,mmap", "--json", "-"]];
    let record = run(&mut bytepath(&words.concat())).well().json();
    assert!(ran(&record).contains(&"pread@buffered"));
    for name in &names {
        assert_eq!(fs::read(name).expect("read"), vec![7; 40_000]);
    }
}

#[test]
fn what_may_be_destroyed_is_filled_and_verified() {
    let folder = folder();
    let name = folder.path().join("file");
    fs::write(&name, vec![7; 65_536]).expect("written");
    let words = ["--file", text(&name), "--destroy", "--verify", "--rw", "randrw", "--json", "-"];
    let words = [&SHORT[..SHORT.len() - 4], SHAPE, &words].concat();
    let ran_all = run(&mut bytepath(&words)).well().json();
    assert!(ran(&ran_all).contains(&"pread@direct"));
    assert_ne!(fs::read(&name).expect("read"), vec![7; 65_536]);
    // What a run leaves is what the next expects, and a byte that is wrong is found.
    let drive = ["drive", "--engine", "pread", "--rw", "read", "--time", "20ms", "--verify"];
    let drive = [&drive[..], &[text(&name)]].concat();
    let report = run(&mut bytepath(&drive)).well().json();
    assert!(report["verified"].as_u64().is_some_and(|blocks| blocks >= 64), "{report}");
    let mut bytes = fs::read(&name).expect("read");
    bytes[3000] ^= 1;
    fs::write(&name, bytes).expect("written");
    run(&mut bytepath(&drive)).refused(1, &["pread", "the bytes at 3000", "belongs"]);
}

/// Whoever waits for the threads that drive may be woken when they have ended: here all want one CPU.
#[test]
fn what_requests_cost_is_told_where_threads_leave_nobody_else_the_cpu() {
    if !installed("taskset") {
        println!("skipped: taskset is not installed");
        return;
    }
    let cpus = bytepath::machine::Machine::this().allowed_cpus();
    let cpu = cpus.first().expect("a CPU").to_string();
    let folder = folder();
    let name = folder.path().join("file");
    fs::write(&name, vec![7; 65_536]).expect("written");
    let drive = ["drive", "--engine", "pread", "--threads", "16", "--depth", "1"];
    let times = ["--warm-up", "20ms", "--time", "30ms", text(&name)];
    let words = [&["-c", &cpu, env!("CARGO_BIN_EXE_bytepath")], &drive[..], &times].concat();
    for _ in 0..10 {
        let report = run(Command::new("taskset").args(&words)).well().json();
        let requests = report["requests"].as_f64().expect("requests");
        let used =
            ["user_s", "system_s"].map(|kind| report["usage"][kind].as_f64().expect("seconds"));
        // No system call takes less than 10 ns.
        assert!(used.iter().sum::<f64>() >= 10e-9 * requests, "{report}");
    }
}

#[test]
fn where_a_thread_cannot_be_had_none_begins() {
    if !root() || !installed("setpriv") {
        return println!("skipped: a user with few processes can only be had by root");
    }
    // A user of this test's own, as the limit is on all of a user's processes.
    let limited = "prlimit --nproc=20 setpriv --reuid 65529 --regid 65529 --clear-groups";
    let drive = "drive --engine pread --threads 40 --depth 1 --time 10ms";
    let line = format!("{limited} {BYTEPATH} {drive} {BYTEPATH}");
    run(Command::new("sh").args(["-c", &line]))
        .refused(1, &["cannot start thread 20 of 40: ", "take fewer threads", "ulimit -u"]);
}

#[test]
fn wrong_usage_says_what_is_wrong() {
    let folder = folder();
    let name = folder.path().join("file");
    fs::write(&name, [7; 4096]).expect("written");
    let file = text(&name);
    let cases: &[(&[&str], &[&str])] = &[
        (&["--arms", "pwrite"], &["no arm matches pwrite", "posix-aio@direct"]),
        (&["--batch", "100", "--depth", "2"], &["--batch 100", "--depth 2"]),
        (&["--seed", "abc"], &["--seed", "no seed", "whole number"]),
        (&["--bs", "1000"], &["--bs 1000", "512", "--buffered"]),
        (&["--read-percent", "30"], &["--read-percent has no effect"]),
        (&["--direct", "--cold"], &["--cold has no effect"]),
        (&["--rw", "sideways"], &["no access \"sideways\"", "randread"]),
        (&["--file", file, "--rw", "randwrite"], &["--destroy"]),
        (&["--device", "/dev/null", "--rw", "write"], &["--destroy"]),
        (&["--file", file, "--verify"], &["--verify", "--destroy"]),
        (&["--destroy"], &["--destroy has no effect"]),
        (&["--depth", "0"], &["--depth"]),
        (&["--peer", "cat"], &["fio"]),
        (&["--save-jobs", "x"], &["--peer"]),
    ];
    for (words, said) in cases {
        run(&mut bytepath(&[&["bench", "files", "--quick"], *words].concat())).refused(2, said);
    }
}

#[test]
fn what_cannot_be_measured_says_why() {
    let folder = folder();
    let small = folder.path().join("small");
    fs::write(&small, "small").expect("written");
    let missing = folder.path().join("missing");
    let dir = text(folder.path());
    let cases: &[(&[&str], &[&str])] = &[
        (&["--file", text(&missing)], &["missing", "No such file"]),
        (&["--file", text(&small)], &["small holds 5 bytes, less than one block of 1024"]),
        (&["--file", dir], &["neither a file nor a block device"]),
        (&["--device", "/dev/null"], &["no block device"]),
        (&["--device", text(&small)], &["--file"]),
        (&["--dir", text(&missing)], &["cannot measure in", "No such file"]),
        (&["--dir", dir, "--size", "1000T"], &["No space left", "smaller --size"]),
        (&["--dir", "/proc"], &["cannot make", "--dir"]),
    ];
    for (words, said) in cases {
        let words = [&["bench", "files", "--quick", "--arms", "pread"], *words].concat();
        run(&mut bytepath(&words)).refused(1, said);
    }
}

#[test]
fn nothing_is_left_in_the_folder() {
    let folder = folder();
    let words = [SHORT, &["--dir", text(folder.path()), "--arms", "pread"]].concat();
    run(&mut bytepath(&words)).well();
    assert_eq!(fs::read_dir(folder.path()).expect("it is there").count(), 0);
}
