//! `bytepath bench memory` and `bench pages`: every arm runs, or says why it does not.

use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;

use crate::program::{
    BYTEPATH, WITHOUT_HUGE, arms, as_nobody, bytepath, children, has_prctl, installed, may_mount,
    root, run, shell, signal_of, spawned, until,
};

/// Blocks and times that take no time; the figures mean nothing.
const SHORT: [&str; 7] = ["--blocks", "2", "--time", "1ms", "--warm-up", "1ms", "--no-store"];

fn record(words: &[&str]) -> Value {
    let words = [&["bench"], words, &SHORT, &["--json", "-"]].concat();
    run(&mut bytepath(&words)).well().json()
}

fn name(arm: &Value) -> &str {
    arm["name"].as_str().expect("a name")
}

const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";

/// What the pool of 2 MiB pages has, where there is one.
fn pool() -> Option<u64> {
    std::fs::read_to_string(POOL).ok()?.trim().parse().ok()
}

/// The machine has one pool: tests that look at it, or take what it has, take turns, those of other programs too.
pub(crate) fn turn() -> Option<File> {
    let lock = File::open(POOL).ok()?;
    flock(&lock, FlockOperation::LockExclusive).expect("any file can be locked");
    Some(lock)
}

#[track_caller]
fn ran_or_says_why(arm: &Value) {
    if arm["status"] == "ok" {
        assert!(arm["median"].as_f64().is_some_and(|median| median > 0.0), "{arm}");
        return;
    }
    let why = arm["why"].as_str().unwrap_or_default();
    let expected = ["AVX", "x86-64", "pool", "huge pages", "gup_test", "O_DIRECT", "2 MiB pages"];
    assert!(expected.iter().any(|word| why.contains(word)), "{}: {why}", name(arm));
    println!("skipped: {}: {why}", name(arm));
}

#[test]
fn every_sweep_runs_over_every_kind_of_page_or_says_why_not() {
    let _turn = turn();
    let record = record(&["memory", "--size", "16K,4M"]);
    assert_eq!(record["experiment"]["name"], "memory");
    for arm in arms(&record) {
        ran_or_says_why(arm);
        let copies = name(arm).starts_with("copy") || name(arm).starts_with("read");
        let between = name(arm).starts_with("between");
        assert_eq!(arm["touched"], copies || between, "{}", name(arm));
    }
    let ran =
        |wanted: &str| arms(&record).iter().any(|arm| name(arm) == wanted && arm["status"] == "ok");
    for wanted in ["read/16KiB", "write/4MiB", "fill/16KiB", "copy/4MiB", "between-processes+base"]
    {
        assert!(ran(wanted), "{wanted}");
    }
    let first = &arms(&record)[0];
    let tells = Path::new("/sys/devices/system/cpu/cpu0/cache/index0/size").exists();
    assert_eq!(first["params"]["fits_into"].is_string(), tells, "the cache is marked: {first}");
}

#[test]
fn where_no_cache_is_told_nothing_is_said_to_hold_a_block() {
    if !may_mount() {
        return;
    }
    let words = ["memory", "--ops", "read", "--size", "16K", "--pages", "base"];
    let words = [&words[..], &SHORT].concat().join(" ");
    let hidden = |json: &str| {
        shell(&format!(
            "unshare -m sh -c 'mount -t tmpfs none /sys && exec $bytepath bench {words} {json}'"
        ))
    };
    let record = hidden("--json -").json();
    for arm in arms(&record) {
        assert!(arm["params"].get("fits_into").is_none() && arm["status"] == "ok", "{arm}");
    }
    let told = hidden("").stdout;
    assert!(told.contains("in GiB/s by block: ") && !told.contains("(memory)"), "{told}");
}

#[test]
fn axes_are_crossed_and_threads_have_blocks_of_their_own() {
    let words =
        ["memory", "--ops", "read,copy", "--size", "64K", "--threads", "1,2", "--pages", "base"];
    let record = record(&words);
    let names: Vec<_> = arms(&record).iter().map(name).collect();
    assert_eq!(names, ["read/64KiB", "read/64KiBx2", "copy/64KiB", "copy/64KiBx2"]);
    assert!(arms(&record).iter().all(|arm| arm["status"] == "ok"), "{record}");
}

#[test]
fn peers_measure_the_same_blocks() {
    for (peer, size) in [("sysbench", "64K"), ("mbw", "4M")] {
        if !installed(peer) {
            continue;
        }
        let words = ["memory", "--ops", "read", "--pages", "base", "--size", size, "--peer", peer];
        let record = record(&words);
        let theirs = arms(&record).iter().filter(|arm| name(arm).starts_with(peer));
        assert!(theirs.clone().count() >= 2);
        for arm in theirs {
            assert_eq!(arm["status"], "ok", "{arm}");
            let words = arm["params"]["words"].as_str().expect("they are told");
            assert!(words.contains(&format!("/{peer} ")), "{words}");
            // mbw tells no version.
            let version = arm["params"][peer].as_str().unwrap_or_default();
            assert_eq!(version.starts_with("sysbench "), peer == "sysbench", "{arm}");
        }
    }
    let words = ["memory", "--ops", "read", "--pages", "base", "--size", "16K", "--peer", "mbw"];
    let record = record(&words);
    let why = arms(&record)[1]["why"].as_str().expect("it takes no such blocks");
    assert!(why.contains("whole 1 MiB only") || why.contains("apt-get install mbw"), "{why}");
}

#[test]
fn a_peer_that_fails_is_told_with_how_it_ended_and_what_it_complained_of_last() {
    let folder = tempfile::tempdir().expect("a folder");
    let sysbench = folder.path().join("sysbench");
    let words = ["--ops", "read", "--pages", "base", "--size", "16K", "--peer", "sysbench"];
    for (script, says) in [
        ("echo a banner; echo it broke >&2; exit 7", "failed (exit status: 7): it broke"),
        (
            "echo a banner; echo FATAL: it broke; exit 7",
            "failed: exit status: 7; it said: FATAL: it broke",
        ),
        (
            "echo a banner; echo nothing",
            "did not say how fast it was; the last that it said: nothing",
        ),
    ] {
        std::fs::write(&sysbench, format!("#!/bin/sh\n{script}\n")).expect("written");
        shell(&format!("chmod +x {}", sysbench.display())).well();
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").expect("set"));
        let words = [&["bench", "memory"], &words[..], &SHORT, &["--json", "-"]].concat();
        let record = run(bytepath(&words).env("PATH", path)).json();
        let theirs = arms(&record).iter().find(|arm| name(arm).starts_with("sysbench-read"));
        assert_eq!(theirs.expect("it is there")["why"], format!("sysbench {says}"));
    }
}

#[test]
fn what_does_not_fit_into_memory_says_so_and_nothing_is_swapped() {
    let words = ["memory", "--ops", "copy,read", "--size", "1G,16K", "--threads", "1000", "--list"];
    let listed = run(&mut bytepath(&[&["bench"][..], &words].concat())).well().stdout;
    assert!(listed.contains("copy/1GiBx1000"), "{listed}");
    let words = ["memory", "--ops", "copy", "--size", "1G", "--threads", "1000"];
    let refused = run(&mut bytepath(&[&["bench"], &words[..], &SHORT].concat()));
    refused.refused(1, &["no arm can run", "needs 1.95 TiB of memory", "--size"]);
}

#[test]
fn every_touch_runs_on_every_kind_of_area_or_says_why_not() {
    let _turn = turn();
    // Not in a tmpfs, which may have no O_DIRECT.
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let dir = folder.path().to_str().expect("plain");
    let record = record(&["pages", "--dir", dir]);
    arms(&record).iter().for_each(ran_or_says_why);
    assert!(arms(&record).len() >= 40, "{}", arms(&record).len());
    for wanted in [
        "vmsplice/base",
        "process-vm-readv/untouched",
        "fault-write/base",
        "mmap/base",
        "munmap/base",
        "stride-32M/base",
    ] {
        let arm = arms(&record).iter().find(|arm| name(arm) == wanted).expect(wanted);
        assert_eq!(arm["status"], "ok", "{arm}");
    }
    // What makes transparent huge pages is no pair of calls, and would be blamed on the pages.
    assert!(!arms(&record).iter().any(|arm| name(arm) == "mmap/huge"));
    let gup = arms(&record).iter().find(|arm| name(arm) == "gup-fast/base").expect("it is there");
    if !Path::new("/sys/kernel/debug/gup_test").exists() {
        assert!(gup["why"].as_str().is_some_and(|why| why.contains("CONFIG_GUP_TEST")), "{gup}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("it lists").count(), 0, "nothing is left");
}

#[test]
fn what_gets_no_huge_pages_is_not_measured_as_if_it_had() {
    if !has_prctl() {
        return;
    }
    for bench in [
        "memory --size 16K,3M --ops read --pages huge,base",
        "pages --area huge,base --arms vmsplice,register-buffers,stride-256K,munmap",
        "pipes --placement same-cpu --arms '*-huge@*,gift-*,write-read@*'",
    ] {
        let line = format!("{WITHOUT_HUGE} bench {bench} {} --json -", SHORT.join(" "));
        let record = shell(&line).well().json();
        let is_huge = |arm: &Value| ["huge", "gift"].iter().any(|word| name(arm).contains(word));
        let (huge, others): (Vec<_>, Vec<_>) = arms(&record).iter().partition(|arm| is_huge(arm));
        assert!(huge.len() >= 2 && !others.is_empty(), "{bench}");
        for arm in huge {
            let why = arm["why"].as_str().unwrap_or_default();
            assert!(why.contains("huge pages") || why.contains("io_uring"), "{arm}");
            assert_eq!(arm["status"], "unavailable", "{arm}");
        }
        let ok = others.iter().filter(|arm| arm["status"] == "ok").count();
        assert!(ok > 0, "{bench}: {others:?}");
    }
}

#[test]
fn the_pool_is_left_alone_unless_asked_and_the_remedy_is_told() {
    let _turn = turn();
    if pool() != Some(0) {
        println!("skipped: this machine has pages in its pool, or none at all");
        return;
    }
    let record = record(&["memory", "--ops", "read", "--size", "4M", "--pages", "base,hugetlb"]);
    let why = arms(&record)[1]["why"].as_str().expect("there is no page");
    assert!(why.contains("nr_hugepages") && why.contains("--hugetlb-pool"), "{why}");
    let shared = arms(&record).iter().find(|arm| arm["name"] == "between-processes+hugetlb");
    if let Some(why) = shared.and_then(|arm| arm["why"].as_str()) {
        assert_eq!(why.matches("the pool is empty").count(), 1, "{why}");
    }
    assert_eq!(pool(), Some(0));
    let Some(nobody) = as_nobody() else { return };
    let words =
        "bench memory --ops read --size 4M --pages hugetlb --hugetlb-pool --blocks 2 --no-store";
    let line = format!(
        "cp \"$bytepath\" \"$0\" && chmod 755 \"$0\" && XDG_STATE_HOME=/tmp/bytepath-nobody-$$ \
         {nobody}\"$0\" {words}; code=$?; rm -rf /tmp/bytepath-nobody-$$; exit $code"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("program");
    shell(&format!("chmod 755 {}", folder.path().display())).well();
    let line = line.replace("$0", copy.to_str().expect("plain"));
    shell(&line).refused(1, &["cannot lend pages", "only root may"]);
    assert_eq!(pool(), Some(0));
}

#[test]
fn pages_that_are_lent_are_taken_back_also_by_the_next_start_after_a_kill() {
    let _turn = turn();
    if !root() || pool() != Some(0) {
        println!("skipped: only root lends pages, and only where the pool is empty is that seen");
        return;
    }
    let state = tempfile::tempdir().expect("a folder");
    let bench = |more: &[&str]| {
        let words = ["bench", "memory", "--ops", "read", "--size", "4M", "--pages", "hugetlb"];
        let mut command: Command = bytepath(&[&words[..], more].concat());
        command.env("XDG_STATE_HOME", state.path());
        command
    };
    let lending = [&["--hugetlb-pool", "--json", "-"], &SHORT[..]].concat();
    let done = run(&mut bench(&lending));
    if done.stderr.contains("could be made") {
        println!("skipped: {}", done.stderr);
        return;
    }
    let record = done.well().json();
    assert_eq!(arms(&record)[0]["status"], "ok", "{record}");
    assert_eq!(pool(), Some(0), "taken back");
    // One that is ended as soon as it has lent them.
    let long = ["--hugetlb-pool", "--blocks", "1000", "--time", "1s", "--no-store"];
    let ended_by = |signal: Signal| {
        let mut ended = spawned(bench(&long).stdout(Stdio::null()).stderr(Stdio::piped()));
        let began = std::time::Instant::now();
        while pool() == Some(0) {
            assert!(began.elapsed().as_secs() < 60, "it lends pages");
            assert!(ended.child().try_wait().expect("it is ours").is_none(), "it goes on");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        kill_process_group(ended.group, signal).expect("it is there");
        assert_eq!(signal_of(&ended.done()), Some(signal.as_raw()));
    };
    for signal in [Signal::INT, Signal::HUP, Signal::QUIT] {
        ended_by(signal);
        assert_eq!(pool(), Some(0), "taken back");
    }
    ended_by(Signal::KILL);
    assert_eq!(pool(), Some(4), "nobody took them back");
    let next = run(&mut bench(&[&lending[..]].concat()));
    assert!(next.stderr.contains("which a run that was killed had left"), "{next:?}");
    assert_eq!(pool(), Some(0));
}

#[test]
fn experiments_are_listed_and_all_of_them_can_be_run_but_some() {
    let listed = run(&mut bytepath(&["bench", "--list"])).well().stdout;
    for experiment in ["pipes", "copy", "files", "ipc", "memory", "pages"] {
        let line = listed.lines().find(|line| line.split_whitespace().next() == Some(experiment));
        assert!(line.is_some_and(|line| line.len() > 30), "{experiment}: {listed}");
    }
    run(&mut bytepath(&["bench"])).refused(2, &["Usage"]);
    run(&mut bytepath(&["bench", "all", "--without", "nosuch"])).refused(2, &["nosuch", "pipes"]);
    let met = tempfile::tempdir().expect("a folder");
    let (records, page) = (met.path().join("records"), met.path().join("records/overhead.json"));
    run(bytepath(&["bench", "all", "--json-dir"]).arg(&records).arg("--report").arg(&page))
        .refused(2, &["--report would be written over the record", "overhead.json"]);
    // All but one, which is quick.
    let others: Vec<_> = listed.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let others: Vec<_> = others.into_iter().filter(|name| *name != "overhead").collect();
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("records");
    let words =
        ["bench", "all", "--quick", "--no-store", "--without", &others.join(","), "--json-dir"];
    // Who reads a FIFO gets the page, as its ending says.
    let page = folder.path().join("page.markdown");
    rustix::fs::mkfifoat(rustix::fs::CWD, &page, 0o600.into()).expect("a FIFO");
    let reader = std::thread::spawn({
        let page = page.clone();
        move || std::fs::read_to_string(page)
    });
    let done = run(bytepath(&words).arg(&json).arg("--report").arg(&page)).well();
    assert!(done.stdout.contains("=== bytepath bench overhead"), "{done:?}");
    let page = reader.join().expect("it reads").expect("text");
    assert!(page.starts_with('#'), "{page}");
    let record = std::fs::read_to_string(json.join("overhead.json")).expect("its record");
    assert!(record.contains("bytepath.record/1"));
    assert!(done.stdout.contains("=== all of them are in "), "{done:?}");
    // One that fails is told.
    let denied = format!(
        "cd {} && exec {BYTEPATH} bench all --quick --no-store --dir /no/such --report page.html \
         --without {}",
        folder.path().display(),
        others.iter().filter(|name| **name != "pages").copied().collect::<Vec<_>>().join(",")
    );
    let denied = shell(&denied).refused(1, &["bench pages", "/no/such", "these failed: pages"]);
    let told = "=== the results of 1 of 2 experiments are in page.html";
    assert!(denied.stdout.contains(told), "{denied:?}");
    let without = others.iter().filter(|name| **name != "pages").copied().chain(["overhead"]);
    let without = without.collect::<Vec<_>>().join(",");
    let words =
        ["bench", "all", "--quick", "--no-store", "--dir", "/no/such", "--without", &without];
    let page = folder.path().join("none.html");
    let none = run(bytepath(&words).arg("--report").arg(&page)).refused(1, &["failed: pages"]);
    assert!(none.stdout.contains("none.html: nothing was measured"), "{none:?}");
    assert!(!page.exists());
}

#[test]
fn what_all_measured_until_it_is_interrupted_is_reported_and_nothing_older() {
    let listed = run(&mut bytepath(&["bench", "--list"])).well().stdout;
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    // The second takes seconds.
    let others: Vec<_> = names.filter(|name| !["overhead", "gen"].contains(name)).collect();
    let folder = tempfile::tempdir().expect("a folder");
    let (page, json) = (folder.path().join("page.html"), folder.path().join("records"));
    std::fs::create_dir(&json).expect("a folder");
    std::fs::write(json.join("gen.json"), "of some other day").expect("it is written");
    let mut command = bytepath(&["bench", "all", "--quick", "--no-store"]);
    command.args(["--without", &others.join(",")]).arg("--report").arg(&page);
    command.arg("--json-dir").arg(&json).stdout(Stdio::piped()).stderr(Stdio::piped());
    let all = spawned(&mut command);
    until("the first record", || json.join("overhead.json").exists());
    kill_process_group(all.group, Signal::INT).expect("it is there");
    let done = all.done();
    assert_eq!(signal_of(&done), Some(Signal::INT.as_raw()), "{done:?}");
    assert!(done.stderr.contains("interrupted after"), "{done:?}");
    assert!(done.stdout.contains("what was measured is in"), "{done:?}");
    let page = std::fs::read_to_string(&page).expect("the page");
    assert!(page.contains("overhead") && !page.contains("of some other day"));
}

#[test]
fn an_experiment_of_all_that_is_under_way_ends_when_only_they_are_told_to() {
    let listed = run(&mut bytepath(&["bench", "--list"])).well().stdout;
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    let others: Vec<_> = names.filter(|name| *name != "pipes").collect();
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = bytepath(&["bench", "all", "--no-store", "--json-dir"]);
    command.arg(folder.path()).args(["--without", &others.join(",")]);
    let mut all = spawned(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let pid = Pid::from_child(all.child());
    // One that has started workers heeds signals.
    until("a worker", || children(pid).into_iter().any(|own| !children(own).is_empty()));
    kill_process(pid, Signal::TERM).expect("it is there");
    let done = all.done();
    assert_eq!(signal_of(&done), Some(Signal::TERM.as_raw()), "{done:?}");
    assert!(done.stderr.contains("interrupted after 1 experiment"), "{done:?}");
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |words: &[&str], says: &str| {
        run(&mut bytepath(&[&["bench"], words].concat())).refused(2, &[says]);
    };
    refused(&["memory", "--ops", "dance"], "there is no sweep");
    refused(&["memory", "--size", "5000"], "multiple of 4096");
    refused(&["memory", "--size", "2G"], "at most 1 GiB");
    refused(&["memory", "--size", "4K,4K"], "--size has a value twice");
    refused(&["memory", "--pages", "giant"], "there are no pages");
    refused(&["memory", "--threads", "0"], "0 is not in 1..=1024");
    refused(&["memory", "--threads", "2,2"], "would run twice");
    refused(&["memory", "--peer", "stream"], "there is no peer");
    refused(&["memory", "--arms", "nosuch"], "no arm matches");
    refused(&["pages", "--area", "nosuch"], "there is no area");
    run(&mut bytepath(&["sweep", "--way", "read", "--cpus", "99999"])).refused(1, &["99999"]);
    run(&mut bytepath(&["paging", "--way", "mmap", "--area", "untouched"]))
        .refused(2, &["not measured on"]);
}
