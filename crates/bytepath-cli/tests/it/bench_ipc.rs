//! `bytepath bench ipc`: a file from one process to another.

use bytepath_lab::passing::{Keeps, WAYS};
use serde_json::Value;

use crate::program::{arms, as_published, bytepath, installed, run, shell};

fn record(words: &[&str]) -> Value {
    let words = [&["bench", "ipc", "--blocks", "2", "--json", "-"][..], words].concat();
    run(&mut bytepath(&words)).well().json()
}

fn name(arm: &Value) -> &str {
    arm["name"].as_str().expect("an arm has a name")
}

/// Ways that may not be had here, and the word of the reason.
const MAY_LACK: [(&str, &str); 4] = [
    ("channel@", "2 MiB pages"),
    ("channel-4k-pages@", "2 MiB pages"),
    ("process-vm@", "EPERM"),
    ("tcp-msg-zerocopy@", "SO_ZEROCOPY"),
];

#[test]
fn every_way_brings_every_byte_to_every_sink() {
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let file = folder.join("file");
    // Odd, so that the last piece of every way is a short one; and less than a piece.
    for bytes in [3_000_001, 1] {
        std::fs::write(&file, vec![0xa5; bytes]).expect("written");
        for sink in Keeps::NAMES {
            let words = ["--sink", sink, "--placement", "same-cpu", "--file"];
            let (file, folder) = (file.to_str().expect("plain"), folder.to_str().expect("plain"));
            let record = record(&[&words[..], &[file, "--dir", folder]].concat());
            assert_eq!(arms(&record).len(), WAYS.len());
            for arm in arms(&record).iter().filter(|arm| arm["status"] != "ok") {
                let why = arm["why"].as_str().unwrap_or_default();
                let lacks =
                    |(way, word): &(&str, &str)| name(arm).starts_with(way) && why.contains(word);
                assert!(MAY_LACK.iter().any(lacks), "{bytes} bytes to {sink}: {arm}");
                println!("skipped: {}: {why}", name(arm));
            }
            for arm in arms(&record) {
                let copied = &arm["params"]["copied_by_the_kernel_after_all"];
                let tells = name(arm).starts_with("tcp-msg-zerocopy@") && arm["status"] == "ok";
                assert_eq!(copied.as_f64().is_some_and(|it| (0.0..=1.0).contains(&it)), tells);
                assert_eq!(arm["touched"], *sink == "hash" && arm["status"] == "ok", "{arm}");
            }
        }
    }
    assert_eq!(std::fs::read_dir(folder).expect("it lists").count(), 1, "only the file is left");
}

#[test]
fn the_record_is_valid_and_each_placement_has_its_reference() {
    let record = record(&["--bytes", "300K", "--dir", "/tmp", "--arms", "pipe-*,channel*"]);
    as_published("record", &record);
    for arm in arms(&record).iter().filter(|arm| arm["reference"] == true) {
        assert!(name(arm).starts_with("pipe-read-write@"), "{arm}");
    }
}

#[test]
fn a_quick_run_passes_a_smaller_file() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let dir = folder.path().to_str().expect("plain");
    let words = ["--quick", "--dir", dir, "--placement", "same-cpu", "--arms", "pipe-splice"];
    let passed = |more: &[&str]| record(&[&words[..], more].concat())["settings"].clone();
    let quick = passed(&["--sink", "drop"]);
    assert_eq!(quick["measured_bytes"], 256 << 20, "{quick}");
    assert_eq!(quick["directory"], dir, "{quick}");
    assert_eq!(passed(&["--bytes", "300K"])["measured_bytes"], 300 << 10);
}

#[test]
fn the_published_gain_of_splice_is_told_where_the_run_repeats_the_survey() {
    let told = |sink: &str, way: &str| {
        let asked = format!("--bytes 300K --dir /tmp --placement same-cpu --arms {way}");
        shell(&format!("$bytepath bench ipc --blocks 2 --no-store --sink {sink} {asked}")).well()
    };
    for sink in Keeps::NAMES {
        let words = told(sink, "pipe-*").stdout.split_whitespace().collect::<Vec<_>>().join(" ");
        let repeats = *sink == "file";
        assert_eq!(words.contains("wins by 30% to 55%"), repeats, "{sink}: {words}");
        assert_eq!(words.contains("--sink file repeats the survey"), !repeats, "{sink}: {words}");
    }
    let without = told("file", "pipe-read-write").stdout;
    assert!(!without.contains("survey"), "{without}");
}

#[test]
fn the_arms_are_listed_and_chosen() {
    let listed = |words: &[&str]| {
        let words = [&["bench", "ipc", "--list", "--placement", "same-cpu"], words].concat();
        run(&mut bytepath(&words)).well().stdout
    };
    assert_eq!(listed(&[]).lines().count(), WAYS.len());
    assert_eq!(listed(&["--arms", "pipe-splice"]), "pipe-splice@same-cpu\n");
    assert_eq!(listed(&["--arms", "channel*"]).lines().count(), 2);
}

#[test]
fn what_cannot_be_passed_is_refused() {
    let empty = tempfile::NamedTempFile::new().expect("a file");
    let empty = empty.path().to_str().expect("plain");
    for (words, code, says) in [
        (&["--sink", "sea"][..], 2, "there is no sink"),
        (&["--arms", "pigeon"], 2, "no arm matches pigeon;"),
        (&["--arms", "pipe-*,pigeon,owl*"], 2, "no arm matches pigeon,owl*;"),
        (&["--bandwidth", "--arms", "pigeon"], 2, "no arm matches pigeon;"),
        (&["--bandwidth", "--size", "8"], 2, "cannot be used with"),
        (&["--size", "1M"], 2, "an effect with --latency alone"),
        (&["--size", "1M", "--sink", "drop"], 2, "an effect with --latency alone"),
        (&["--size", "1M", "--bytes", "1M"], 2, "the file that is made is --bytes"),
        (&["--size", "1M", "--file", "/no/such"], 2, "an effect with --latency alone"),
        (&["--size", "1M", "--dir", "/no/such"], 2, "an effect with --latency alone"),
        (&["--time", "1s"], 2, "an effect with --latency and --bandwidth alone"),
        (&["--warm-up", "1s"], 2, "an effect with --latency and --bandwidth alone"),
        (&["--file", "/dev/null"], 2, "no regular file"),
        (&["--file", empty], 2, "it is empty"),
        (&["--file", "/no/such"], 1, "/no/such"),
        (&["--dir", "/no/such"], 1, "/no/such"),
    ] {
        run(&mut bytepath(&[&["bench", "ipc"], words].concat())).refused(code, &[says]);
    }
}

#[test]
fn a_process_that_is_alone_fails_and_says_so() {
    let words = ["pass", "send", "--way", "channel"];
    run(&mut bytepath(&words)).refused(1, &["bytepath:"]);
    run(&mut bytepath(&["pass", "send", "--way", "x"])).refused(2, &["there is no way"]);
}

#[test]
fn every_medium_brings_the_same_bytes_back() {
    let words = ["--latency", "--size", "8,100000", "--time", "2ms", "--warm-up", "1ms"];
    let record = record(&words);
    assert!(arms(&record).len() >= 8 + 6, "eventfd and futex carry 8 bytes");
    for arm in arms(&record) {
        assert_eq!(arm["status"], "ok", "{arm}");
        let latency = &arm["params"]["latency"];
        let at = |name: &str| latency[name].as_u64().unwrap_or(0);
        assert!(0 < at("p50_ns") && at("p50_ns") <= at("p99_ns"), "{arm}");
        assert!(at("p99_ns") <= at("p99.9_ns"), "{arm}");
    }
}

#[test]
fn trips_that_cannot_be_made_are_refused() {
    let refused = |words: &[&str], says: &str| {
        run(&mut bytepath(words)).refused(2, &[says]);
    };
    refused(&["bench", "ipc", "--latency", "--size", "7"], "8 bytes at the least");
    refused(&["bench", "ipc", "--size", "8"], "--latency");
    refused(&["bench", "ipc", "--latency", "--sink", "drop"], "cannot be used with");
    refused(&["trip", "begin", "--medium", "eventfd", "--size", "9"], "does not carry 9 bytes");
    refused(&["trip", "begin", "--medium", "owl"], "there is no medium");
}

#[test]
fn streams_bring_every_word_beside_the_bare_memory_that_is_their_reference() {
    let words = ["bench", "ipc", "--bandwidth", "--quick", "--blocks", "2", "--time", "20ms"];
    let record = run(&mut bytepath(&[&words[..], &["--json", "-"]].concat())).well().json();
    assert_eq!(record["experiment"]["name"], "ipc-bandwidth");
    for arm in arms(&record) {
        if arm["status"] != "ok" {
            let why = arm["why"].as_str().unwrap_or_default();
            assert!(why.contains("2 MiB pages"), "{arm}");
            println!("skipped: {}: {why}", name(arm));
            continue;
        }
        assert_eq!((&arm["unit"], &arm["touched"]), (&"GiB/s".into(), &true.into()), "{arm}");
        assert!(arm["median"].as_f64().is_some_and(|gib_per_s| gib_per_s > 0.0), "{arm}");
        let is_bare = name(arm).starts_with("memory@");
        assert_eq!(arm["reference"] == true && !name(arm).contains("A/A"), is_bare, "{arm}");
    }
    for way in bytepath_lab::streams::STREAMS {
        let way = format!("{}@", way.name());
        assert!(arms(&record).iter().any(|arm| name(arm).starts_with(&way)), "{way}");
    }
    let wrong = run(&mut bytepath(&["bench", "ipc", "--bandwidth", "--latency"]));
    assert_eq!(wrong.status.code(), Some(2), "{}", wrong.stderr);
}

#[test]
fn ends_without_a_placement_are_put_on_no_cpu() {
    // Whoever asks for a CPU is refused it.
    let refused = "strace -f -qqq -o /dev/null -e trace=sched_setaffinity \
                   -e inject=sched_setaffinity:error=EPERM";
    let refused = if installed("strace") { refused } else { "" };
    let short = "--time 2ms --warm-up 1ms";
    for asked in [
        "--bytes 300K --arms pipe-read-write",
        &format!("--latency --size 8 --arms pipe* {short}"),
        &format!("--bandwidth --arms pipe* {short}"),
    ] {
        let line = format!(
            "{refused} $bytepath bench ipc --blocks 2 --no-store --placement free {asked} --json -"
        );
        let record = shell(&line).well().json();
        for arm in arms(&record) {
            let params = &arm["params"];
            assert!(params.get("cpus").is_none() && params["placement"] == "free", "{arm}");
            assert_eq!(arm["status"], "ok", "{arm}");
        }
    }
}
