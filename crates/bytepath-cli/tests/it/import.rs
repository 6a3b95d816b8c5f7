//! `bytepath import`: what the real hyperfine and fio measured, and what is none of that.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use bytepath_report::{Arm, Record, Unit, latency};
use serde_json::Value;

use crate::program::{Done, bytepath, installed, run};

fn import(folder: &Path, words: &[&str]) -> Done {
    run(bytepath(&[&["import"], words].concat()).current_dir(folder))
}

#[track_caller]
fn imported(folder: &Path, name: &str) -> Record {
    let text = import(folder, &[name, "--json", "-"]).well().stdout;
    let record = Record::from_json(&text).expect("a record");
    assert!(record.settings.contains_key("imported_from") && record.control.is_none());
    assert!(record.notes[0].contains("no A/A control, and the machine is not known"));
    record
}

/// What a program that has to succeed wrote into a file, as JSON.
#[track_caller]
fn made(command: &mut Command, file: &Path) -> Value {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{output:?}");
    let text = fs::read_to_string(file).expect("it wrote");
    serde_json::from_str(&text[text.find('{').expect("JSON")..]).expect("JSON")
}

#[test]
fn what_the_real_hyperfine_measured_is_a_record_with_its_figures() {
    if !installed("hyperfine") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("h.json");
    let mut hyperfine = Command::new("hyperfine");
    hyperfine.args(["-r", "6", "-N", "--export-json"]).arg(&file).args(["sleep 0.02", "true"]);
    let told = made(&mut hyperfine, &file);
    let record = imported(folder.path(), "h.json");
    for (arm, result) in record.arms.iter().zip(told["results"].as_array().expect("results")) {
        assert_eq!(
            (arm.name.as_str(), arm.unit),
            (result["command"].as_str().expect("it"), Unit::Seconds)
        );
        let median = result["median"].as_f64().expect("a median");
        let found = arm.median.expect("a median");
        assert!((found - median).abs() < 1e-9, "{found} {median}");
        let times: Vec<f64> = arm.samples.iter().map(|sample| sample.value).collect();
        assert_eq!(Value::from(times), result["times"]);
        assert_eq!(arm.costs.and_then(|costs| costs.cpu_user_s_per_run), result["user"].as_f64());
        let [low, high] = arm.ci95.expect("6 runs have an interval");
        assert!(low <= found && found <= high);
    }
    assert!(record.arms[0].reference);
    let (ratio, [low, high]) = (record.arms[1].ratio, record.arms[1].ratio_ci95.expect("judged"));
    let ratio = ratio.expect("a ratio");
    assert!(low <= ratio && ratio <= high && ratio < 1.0, "{low} {ratio} {high}");
    // Our own clock on the same command: neither sees less than was slept.
    let own =
        bytepath(&["bench", "cmd", "-N", "sleep 0.02", "--blocks", "3", "--json", "-"]).output();
    let own = Record::from_json(&String::from_utf8_lossy(&own.expect("it runs").stdout))
        .expect("a record");
    let ours = own.arms[0].samples.iter().chain(&record.arms[0].samples);
    assert!(ours.clone().all(|sample| sample.value >= 0.02), "{own:?}");
    assert_eq!(
        own.experiment.definition, record.experiment.definition,
        "so that both can be compared"
    );
}

#[test]
fn what_the_real_fio_measured_is_a_record_with_its_figures() {
    if !installed("fio") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for format in ["json", "json+"] {
        let file = folder.path().join("f.json");
        let mut fio = Command::new("fio");
        // Options before the first name are of every job.
        fio.arg(format!("--directory={}", folder.path().display()));
        fio.args(["--name=mixed", "--rw=randrw", "--size=4M", "--bs=4k", "--ioengine=psync"]);
        fio.args(["--name=reads", "--rw=read", "--size=4M", "--bs=64k", "--ioengine=psync"]);
        fio.arg(format!("--output-format={format}")).arg(format!("--output={}", file.display()));
        let told = made(&mut fio, &file);
        let record = imported(folder.path(), "f.json");
        let names: Vec<_> = record.arms.iter().map(|arm| arm.name.as_str()).collect();
        assert_eq!(names, ["mixed/read", "mixed/write", "reads"], "{format}");
        let places = [(0, "read"), (0, "write"), (1, "read")];
        for (arm, (job, direction)) in record.arms.iter().zip(places) {
            let of = &told["jobs"][job][direction];
            assert_eq!(arm.median, of["iops"].as_f64(), "{format}, {}", arm.name);
            assert_eq!(arm.unit, Unit::OpsPerSecond);
            let latency = latency::Latency::of_arm(arm).expect("fio tells latencies");
            let p99 = of["clat_ns"]["percentile"]["99.000000"].as_f64().expect("a percentile");
            let near = (latency.p99_ns as f64 / p99 - 1.0).abs();
            assert!(near < 0.05, "{format}, {}: {} and {p99}", arm.name, latency.p99_ns);
            assert_eq!(latency.histogram.is_some(), format == "json+", "json+ tells them all");
        }
        assert_eq!(record.arms[2].params["io_bytes"], 65536);
        assert!(record.experiment.definition.contains("mixed: rw=randrw bs=4k ioengine=psync"));
    }
    // And the page is made of it.
    import(folder.path(), &["f.json", "--json", "r.json"]).well();
    let page = run(bytepath(&["report", "r.json", "--format", "html"]).current_dir(folder.path()))
        .well()
        .stdout;
    assert!(page.contains("Measured by another program (fio-") && page.contains("Latencies"));
}

#[test]
fn directions_that_fio_tells_together_are_one_arm_unless_it_tells_each_too() {
    let folder = tempfile::tempdir().expect("a folder");
    let of = |ios: u32| {
        let bytes = ios * 4096;
        format!(r#"{{"io_bytes": {bytes}, "total_ios": {ios}, "iops": {ios}.5, "runtime": 1000}}"#)
    };
    let arms = |parts: &str| {
        let job = format!(r#"{{"jobname": "j", {parts}}}"#);
        let text = format!(r#"{{"fio version": "fio-3.33", "jobs": [{job}]}}"#);
        fs::write(folder.path().join("f.json"), text).expect("a file");
        let record = imported(folder.path(), "f.json");
        let told = |arm: &Arm| {
            let direction = arm.params["direction"].as_str().expect("a word").to_owned();
            (arm.name.clone(), direction, arm.median)
        };
        record.arms.iter().map(told).collect::<Vec<_>>()
    };
    let arm = |name: &str, direction: &str, median| (name.into(), direction.into(), Some(median));
    let mixed = format!(r#""mixed": {}"#, of(256));
    assert_eq!(arms(&mixed), [arm("j", "mixed", 256.5)]);
    let both = format!(r#""read": {}, "write": {}, {mixed}"#, of(132), of(124));
    assert_eq!(arms(&both), [arm("j/read", "read", 132.5), arm("j/write", "write", 124.5)]);
}

#[test]
fn several_files_become_several_records() {
    let folder = tempfile::tempdir().expect("a folder");
    let one = |name: &str, command: &str, times: &str| {
        let text = format!(r#"{{"results": [{{"command": "{command}", "times": {times}}}]}}"#);
        fs::write(folder.path().join(name), text).expect("a file");
    };
    one("a.json", "first", "[1.0, 2.0, 3.0]");
    one("b.json", "second", "[4.0]");
    import(folder.path(), &["a.json", "b.json", "--json", "all.json"]).well();
    let text = fs::read_to_string(folder.path().join("all.json")).expect("written");
    let records = Record::all_from_json(&text).expect("records");
    let medians: Vec<_> = records.iter().map(|record| record.arms[0].median).collect();
    assert_eq!(medians, [Some(2.0), Some(4.0)]);
    assert_eq!(records[1].arms[0].ci95, None, "one run has no interval");
}

#[test]
fn a_record_is_of_the_day_on_which_what_was_read_was_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let day = 24 * 60 * 60;
    for (days, name) in [(1, "-"), (2, "h.json")] {
        let mut file = fs::File::create(folder.path().join(name)).expect("a file");
        let text = br#"{"results": [{"command": "x", "times": [1.0]}]}"#;
        std::io::Write::write_all(&mut file, text).expect("it is written");
        let written = UNIX_EPOCH + Duration::from_secs(days * day);
        file.set_modified(written).expect("it is ours");
    }
    let started = |stdin: Stdio, name: &str| {
        let mut command = bytepath(&["import", "--no-store", "--json", "-", name]);
        let done = run(command.current_dir(folder.path()).stdin(stdin)).well();
        Record::from_json(&done.stdout).expect("a record").started
    };
    let file = || fs::File::open(folder.path().join("h.json")).expect("it is there");
    assert_eq!(started(Stdio::null(), "./-"), "1970-01-02T00:00:00Z");
    assert_eq!(started(Stdio::null(), "h.json"), "1970-01-03T00:00:00Z");
    assert_eq!(started(file().into(), "-"), "1970-01-03T00:00:00Z");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    std::io::copy(&mut file(), &mut writer).expect("room");
    drop(writer);
    assert!(started(reader.into(), "-").as_str() > "2000", "nobody knows when, so it is now");
}

#[test]
fn what_cannot_be_written_keeps_no_table_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = r#"{"results": [{"command": "x", "times": [1.0]}]}"#;
    fs::write(folder.path().join("h.json"), text).expect("a file");
    let done = import(folder.path(), &["h.json", "--no-store", "--json", "/dev/full"])
        .refused(1, &["cannot write /dev/full"]);
    assert!(done.stdout.contains("\nx "), "{done:?}");
}

#[test]
fn what_cannot_be_imported_is_told_with_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let deep = format!("{{\"results\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let cases: [(&str, &[&str]); 11] = [
        ("", &["not JSON", "--export-json"]),
        ("{\"results\": [{\"command\": \"x\"", &["not JSON", "EOF"]),
        ("{}", &["neither what hyperfine", "fio"]),
        ("[1, 2]", &["neither what hyperfine"]),
        (r#"{"schema": "bytepath.record/1"}"#, &["it is a record of bytepath already"]),
        (r#"{"results": []}"#, &["damaged hyperfine result: it has no results"]),
        (r#"{"results": [{"command": "x"}]}"#, &["x: no times"]),
        (r#"{"results": [{"command": "x", "times": [-1.0]}]}"#, &["-1 is no time"]),
        (
            r#"{"results": [{"command": 7, "times": [1.0]}]}"#,
            &["damaged hyperfine result", "string"],
        ),
        (
            r#"{"fio version": "fio-3.33", "jobs": []}"#,
            &["damaged fio result: no job did anything"],
        ),
        (&deep, &["not JSON", "recursion limit"]),
    ];
    for (text, words) in cases {
        fs::write(at.join("x.json"), text).expect("a file");
        import(at, &["x.json"]).refused(1, &[&["x.json"], words].concat());
    }
    import(at, &["absent.json"]).refused(1, &["cannot read absent.json"]);
    let failed = r#"{"fio version": "fio-3.33", "jobs": [{"jobname": "j", "error": 5}]}"#;
    fs::write(at.join("x.json"), failed).expect("a file");
    let record = imported(at, "x.json");
    let why = record.arms[0].why.as_deref();
    assert!(why.is_some_and(|why| why.contains("Input/output error")), "{why:?}");
}
