//! `bytepath bench`: the record, the orders, the arms, the outputs.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use bytepath_lab::peers::PEERS;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{
    BYTEPATH, arms, as_published, bytepath, entries, installed, run, shell, signal_of, spawned,
    until,
};
use crate::terminal::on_terminal;

/// Short enough for a test; the figures mean nothing.
const SHORT: [&str; 8] = ["bench", "pipes", "--blocks", "3", "--time", "3ms", "--warm-up", "1ms"];

/// A short run with these words, to its record.
#[track_caller]
fn record(words: &[&str]) -> Value {
    run(&mut bytepath(&[&SHORT[..], words, &["--json", "-"]].concat())).well().json()
}

fn names(record: &Value) -> Vec<&str> {
    arms(record).iter().filter_map(|arm| arm["name"].as_str()).collect()
}

/// The arm of this name.
#[track_caller]
fn arm<'a>(record: &'a Value, name: &str) -> &'a Value {
    arms(record).iter().find(|arm| arm["name"] == name).expect("the arm is there")
}

fn list(words: &[&str]) -> Vec<String> {
    let words = [&["bench", "pipes", "--list"], words].concat();
    run(&mut bytepath(&words)).well().stdout.lines().map(str::to_owned).collect()
}

#[test]
fn the_record_is_what_the_published_schema_says() {
    let record = record(&["--arms", "*@same-cpu", "--peer", "cat"]);
    as_published("record", &record);
    assert_eq!(record["blocks"], 3);
    for arm in arms(&record) {
        let why = arm["why"].as_str().unwrap_or_default();
        assert_eq!(arm["status"], "ok", "{}: {why}", arm["name"]);
        let samples = arm["samples"].as_array().expect("samples");
        let counted = samples.iter().filter(|sample| sample["superseded"] == false);
        assert_eq!(counted.count(), 3, "one a block: {}", arm["name"]);
        assert!(arm["median"].as_f64().is_some_and(|median| median > 0.0));
        let seconds = samples.iter().map(|sample| sample["seconds"].as_f64());
        assert!(seconds.into_iter().all(|seconds| seconds.is_some_and(|s| s >= 0.003)));
    }
}

#[test]
fn every_run_has_a_control_and_one_reference() {
    let record = record(&["--arms", "write-read,gift-read", "--placement", "same-cpu"]);
    assert_eq!(record["control"]["arm"], "write-read@same-cpu (A/A)");
    let ratio = record["control"]["ratio"].as_f64();
    assert!(ratio.is_some_and(|ratio| ratio > 0.0), "{}", record["control"]);
    let references: Vec<_> = arms(&record).iter().filter(|arm| arm["reference"] == true).collect();
    assert_eq!(references.len(), 1);
    assert_eq!(references[0]["name"], "write-read@same-cpu");
}

#[test]
fn a_seed_repeats_the_orders() {
    let words = ["--arms", "write-read,vmsplice-read,gift-read,tee-splice", "--seed", "7"];
    let orders = |record: &Value| -> Vec<(String, u64, u64)> {
        let of = |arm: &Value| {
            let name = arm["name"].as_str().unwrap_or_default().to_owned();
            let first = arm["samples"].as_array().into_iter().flatten().filter(|sample| {
                // Repeats come after all first attempts, as the machine would have it.
                sample["order"].as_u64().is_some_and(|order| order < 9)
            });
            let place = |sample: &Value| (sample["block"].as_u64(), sample["order"].as_u64());
            first.filter_map(|s| Some((name.clone(), place(s).0?, place(s).1?))).collect::<Vec<_>>()
        };
        arms(record).iter().flat_map(of).collect()
    };
    let (one, two) = (record(&words), record(&words));
    assert_eq!(one["settings"]["seed"], 7);
    // Where an arm came in a block; the reference's own and the control's places may swap names.
    assert_eq!(orders(&one), orders(&two));
    let third = record(&["--arms", "write-read,vmsplice-read,gift-read,tee-splice", "--seed", "8"]);
    assert_ne!(orders(&one), orders(&third));
}

#[test]
fn the_list_names_the_arms_and_globs_choose_among_them() {
    let all = list(&[]);
    assert!(all.len() >= 13 && all.contains(&"write-read@same-cpu".to_owned()), "{all:?}");
    let same = list(&["--arms", "*@same-cpu"]);
    assert!(!same.is_empty() && same.iter().all(|name| name.ends_with("@same-cpu")));
    let both = list(&["--arms", "gift-*,tee-splice", "--placement", "same-cpu"]);
    assert_eq!(both, ["gift-read@same-cpu", "gift-splice@same-cpu", "tee-splice@same-cpu"]);
    let twice = list(&["--arms", "tee-splice", "--arms", "gift-read", "--placement", "same-cpu"]);
    assert_eq!(twice, ["gift-read@same-cpu", "tee-splice@same-cpu"]);
}

#[test]
fn the_list_of_experiments_is_asked_for_with_no_experiment_beside() {
    let listed = run(&mut bytepath(&["bench", "--list"])).well().stdout;
    assert!(listed.starts_with("pipes "), "{listed}");
    run(&mut bytepath(&["bench", "--list", "pipes"])).refused(2, &["'pipes'", "'--list'"]);
}

#[test]
fn the_list_goes_with_no_output() {
    let outputs: [&[&str]; 5] =
        [&["--json", "x"], &["--plot"], &["--explain"], &["--flame", "x"], &["--tree"]];
    for experiment in ["pipes", "memory", "ipc"] {
        for output in outputs {
            let words = [&["bench", experiment, "--list"], output].concat();
            run(&mut bytepath(&words)).refused(2, &["cannot be used with", "--list", output[0]]);
        }
    }
    let words = ["explain", "pipes", "--list", "--flame", "x"];
    run(&mut bytepath(&words)).refused(2, &["cannot be used with", "--list", "--flame"]);
}

#[test]
fn axes_of_several_values_make_an_arm_of_each() {
    let words = ["--arms", "write-read", "--placement", "same-cpu,free"];
    let axes = ["--pipe-size", "64K,1M", "--buf-size", "4K,256K", "--wait", "block,poll"];
    let all = list(&[&words[..], &axes].concat());
    assert_eq!(all.len(), 16, "{all:?}");
    assert!(all.contains(&"write-read@free/pipe=1M/buf=4K/wait=poll".to_owned()), "{all:?}");
    let one =
        ["--placement", "same-cpu", "--pipe-size", "128K", "--buf-size", "32K", "--wait", "poll"];
    let record = record(&[&["--arms", "write-read"], &one[..]].concat());
    let params = &arm(&record, "write-read@same-cpu")["params"];
    assert_eq!(params["pipe_bytes"], 131_072);
    assert_eq!(params["write_bytes_max"], 32_768);
    let writer = params["writer"].as_str().expect("the writer's words");
    assert!(writer.contains("--buf-size 32K") && writer.contains("--wait poll"), "{writer}");
}

#[test]
fn ends_without_a_placement_have_no_cpu_in_the_record() {
    let record = record(&["--arms", "write-read", "--placement", "free"]);
    let params = &arm(&record, "write-read@free")["params"];
    assert!(params.get("writer_cpu").is_none() && params["placement"] == "free", "{params}");
}

#[test]
fn the_words_in_the_record_can_be_run_by_hand() {
    let record = record(&["--placement", "same-cpu"]);
    for arm in arms(&record) {
        let (writer, reader) = (&arm["params"]["writer"], &arm["params"]["reader"]);
        let (Some(writer), Some(reader)) = (writer.as_str(), reader.as_str()) else {
            panic!("{} has no words", arm["name"])
        };
        let line = format!("{writer} | {reader} --bytes-to-pipe 1M");
        shell(&line.replace("bytepath ", "$bytepath ")).well();
    }
}

#[test]
fn samples_by_bytes_are_of_as_many_bytes() {
    let words =
        ["bench", "pipes", "--arms", "write-read@same-cpu", "--blocks", "3", "--bytes", "1M"];
    let record = run(&mut bytepath(&[&words[..], &["--json", "-"]].concat())).well().json();
    assert_eq!(record["settings"]["measured_bytes"], 1_048_576);
    for sample in arms(&record)[0]["samples"].as_array().into_iter().flatten() {
        let (value, seconds) = (sample["value"].as_f64(), sample["seconds"].as_f64());
        let gib = value.zip(seconds).map(|(value, seconds)| value * seconds);
        assert!(gib.is_some_and(|gib| (gib * 1024.0 - 1.0).abs() < 1e-6), "{sample}");
    }
}

#[test]
fn a_run_until_the_intervals_are_narrow_ends() {
    let words = ["bench", "pipes", "--arms", "write-read@same-cpu", "--until-ci", "99"];
    let short = ["--time", "2ms", "--warm-up", "1ms", "--json", "-"];
    let record = run(&mut bytepath(&[&words[..], &short].concat())).well().json();
    assert!(record["blocks"].as_u64().is_some_and(|blocks| blocks >= 10), "{}", record["blocks"]);
    let notes = record["notes"].to_string();
    assert!(notes.contains("narrow as asked for") || notes.contains("given up after"), "{notes}");
}

#[test]
fn the_table_has_every_arm_with_its_costs_and_footnotes() {
    let words = [&SHORT[..], &["--arms", "write-read,write-read-touch", "--placement", "free"]];
    let said = run(&mut bytepath(&words.concat())).well().stdout;
    for word in [
        "pipes: How fast can a pipe be",
        "published",
        "write-read@free *",
        "write-read-touch@free",
        "* the reference",
        "A/A control",
        "touched no:",
        "mazzo.li 2022",
        "3 blocks",
    ] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(!said.contains('\x1b'), "no colour into a pipe: {said}");
    assert!(!said.contains(".."), "{said}");
}

#[test]
fn results_go_where_they_are_asked_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let (json, csv) = (folder.path().join("r.json"), folder.path().join("r.csv"));
    let (json_name, csv_name) = (json.display().to_string(), csv.display().to_string());
    let arms = ["--arms", "write-read@same-cpu"];
    let both = [&SHORT[..], &arms, &["--json", &json_name, "--csv", &csv_name]].concat();
    let table = run(&mut bytepath(&both)).well().stdout;
    assert!(table.contains("write-read@same-cpu *"), "the table comes all the same: {table}");
    let text = fs::read_to_string(&json).expect("the record");
    let record: Value = serde_json::from_str(&text).expect("it is JSON");
    let rows = fs::read_to_string(&csv).expect("the samples");
    let samples = arm(&record, "write-read@same-cpu")["samples"].as_array().map_or(0, Vec::len);
    assert_eq!(rows.lines().count(), samples + 1, "a heading and every sample: {rows}");
    let alone = run(&mut bytepath(&[&SHORT[..], &arms, &["--csv", "-"]].concat())).well().stdout;
    assert_eq!(alone.lines().next(), rows.lines().next(), "the same heading, and first");
    assert!(!alone.contains("* the reference"), "{alone}");
}

#[test]
fn results_for_an_open_descriptor_follow_what_its_file_holds() {
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    // Where others keep the CPU busy, nothing may come in a few milliseconds, which is a failure.
    let bench = "$bytepath bench pipes --arms write-read@same-cpu --blocks 2 --bytes 1M --no-store";
    for (line, result) in [
        (format!("{bench} --csv /dev/fd/3 3>>LOG >/dev/null"), "write-read@same-cpu,"),
        (format!("{bench} --report /proc/self/fd/3 3>>LOG >/dev/null"), "<html"),
        (format!("{bench} --json /dev/stdout >>LOG"), "bytepath.record/1"),
        (
            "$bytepath gen zeros --bytes 1K --json /dev/stderr 2>>LOG | wc -c".into(),
            "bytepath.end/1",
        ),
        ("$bytepath cp --json /dev/stderr /etc/passwd LOG.copy 2>>LOG".into(), "{"),
        // Another process has it open.
        (format!("exec 3>>LOG; {bench} --csv /proc/$$/fd/3 >/dev/null"), "write-read@same-cpu,"),
    ] {
        fs::write(&log, "old\n").expect("it is written");
        let line = line.replace("LOG", log.to_str().expect("plain"));
        shell(&format!("exec 4>>{}; {line} && echo after >&4", log.display())).well();
        let text = fs::read_to_string(&log).expect("it is text");
        assert!(text.starts_with("old\n") && text.contains(result), "{line}: {text}");
        assert!(text.ends_with("after\n"), "{line}: {text}");
    }
    let read_only = format!("{bench} --json /dev/fd/3 3<{}", log.display());
    shell(&read_only).refused(1, &["cannot write /dev/fd/3"]);
    assert!(fs::read_to_string(&log).expect("it is text").starts_with("old\n"));
}

#[test]
fn peers_run_between_the_ends_or_say_how_to_install_them() {
    let peers: Vec<_> = PEERS.iter().map(|peer| peer.name).collect();
    let words = ["--arms", "write-*read@same-cpu", "--peer", &peers.join(",")];
    let record = record(&words);
    for peer in peers {
        let arm = arm(&record, &format!("write-{peer}-read@same-cpu"));
        if installed(peer) {
            assert_eq!(arm["status"], "ok", "{}", arm["why"]);
            let between = arm["params"]["between"].as_str().expect("its words");
            assert!(between.contains(&format!("/{peer}")), "{between}");
            // How the kernel divides a few milliseconds between user and system is chance.
            let cost = |name: &str| arm["costs"][name].as_f64().expect("a figure");
            assert!(cost("cpu_user_s_per_gib") + cost("cpu_system_s_per_gib") > 0.0);
        } else {
            assert!(arm["why"].as_str().is_some_and(|why| why.contains("apt-get install")));
        }
    }
}

#[test]
fn ends_that_spin_are_not_begun_where_neither_would_ever_run() {
    // Where it is begun all the same, it never ends by itself.
    let by = |policy: &str, line: &str| shell(&format!("timeout -s KILL 60 chrt {policy} {line}"));
    if !installed("chrt") || !by("--fifo 1", "true").status.success() {
        return println!("skipped: it takes chrt, and the right to a real-time priority");
    }
    let arm = "vmsplice-splice-huge-spin@same-cpu";
    let line = format!("$bytepath {} --no-store --arms {arm}", SHORT.join(" "));
    by("--fifo 1", &line).refused(1, &[arm, "real-time priority", "chrt --other"]);
    for policy in ["--other 0", "--rr 1", "--reset-on-fork --fifo 1"] {
        let done = by(policy, &line);
        // There may be none, or none at hand.
        if done.stderr.contains("huge pages") {
            return println!("skipped: {}", done.stderr);
        }
        done.well();
    }
}

#[test]
fn a_peer_that_is_not_installed_is_unavailable_and_the_run_goes_on() {
    let words = [&SHORT[..], &["--arms", "write-*read@same-cpu", "--peer", "pv,cat"]].concat();
    let json = run(bytepath(&[&words[..], &["--json", "-"]].concat()).env("PATH", "/nowhere"));
    let record = json.well().json();
    for peer in ["pv", "cat"] {
        let arm = arm(&record, &format!("write-{peer}-read@same-cpu"));
        assert_eq!(arm["status"], "unavailable");
        let why = arm["why"].as_str().expect("a reason");
        assert!(why.contains(&format!("{peer} is not installed; on Debian: apt-get install")));
    }
    assert_eq!(arm(&record, "write-read@same-cpu")["status"], "ok");
    let table = run(bytepath(&words).env("PATH", "/nowhere")).well().stdout;
    assert!(table.contains("write-cat-read@same-cpu: cat is not installed"), "{table}");
}

/// A classic of our own in a folder that stands first in PATH.
fn with_script(name: &str, script: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let classic = folder.path().join(name);
    fs::write(&classic, format!("#!/bin/sh\n{script}\n")).expect("a script");
    fs::set_permissions(&classic, fs::Permissions::from_mode(0o755)).expect("it may run");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    (folder, path)
}

#[test]
fn a_peer_that_ends_early_gives_no_figure() {
    // What is read before the clock starts may be all that there is, or not.
    for warm_up in ["0s", "1ms"] {
        for script in ["head -c 1000; exit 3", "head -c 1000", "exit 7"] {
            let (_folder, path) = with_script("cat", script);
            let words = ["bench", "pipes", "--arms", "write-*read@same-cpu", "--peer", "cat"];
            let short = ["--blocks", "3", "--time", "3ms", "--warm-up", warm_up, "--json", "-"];
            let mut command = bytepath(&[&words[..], &short].concat());
            // It ends with 1 where the trial went well.
            let record = run(command.env("PATH", path)).json();
            let arm = arm(&record, "write-cat-read@same-cpu");
            assert_eq!(arm["status"], "unavailable", "{script} {warm_up}");
            let why = arm["why"].as_str().expect("a reason");
            let status = script.split("exit ").nth(1).unwrap_or("0");
            assert!(why.contains(&format!("ended (exit status: {status})")), "{why}");
        }
    }
}

/// A classic of this name that is a link to bytepath, first on PATH.
fn with_link(name: &str) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(BYTEPATH, folder.path().join(name)).expect("a link");
    let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap_or_default());
    (folder, path)
}

#[test]
fn a_peer_is_never_bytepath_under_its_name() {
    let (folder, path) = with_link("cat");
    let words = ["bench", "pipes", "--arms", "write-read@same-cpu", "--peer", "cat"];
    let words = [&words[..], &["--blocks", "2", "--time", "3ms", "--json", "-"]].concat();
    let with = |path: &str| {
        let record = run(bytepath(&words).env("PATH", path)).well().json();
        arm(&record, "write-cat-read@same-cpu").clone()
    };
    let found = with(&path);
    let link = folder.path().join("cat").display().to_string();
    assert_eq!(found["status"], "ok", "{found}");
    assert!(!found.to_string().contains(&link), "{found}");
    let none = with(&folder.path().display().to_string());
    assert!(none["why"].as_str().is_some_and(|why| why.starts_with("cat is not")), "{none}");
}

#[test]
fn a_run_of_nothing_but_what_is_missing_fails_with_the_reasons() {
    let words = [&SHORT[..], &["--arms", "write-pv-read", "--peer", "pv"]].concat();
    let done = run(bytepath(&words).env("PATH", "/nowhere"));
    done.refused(1, &["no arm can run here", "pv is not installed", "apt-get install pv"]);
}

#[test]
fn pairs_of_cpus_are_placements() {
    let cpus = bytepath::machine::Machine::this().allowed_cpus();
    let (first, last) = (cpus.first().expect("a CPU"), cpus.iter().last().expect("a CPU"));
    let pair = format!("{first},{last}");
    let record = record(&["--arms", "write-read", "--placement", &pair]);
    let params = &arms(&record)[0]["params"];
    assert_eq!((&params["writer_cpu"], &params["reader_cpu"]), (&first.into(), &last.into()));
}

#[test]
fn what_the_layers_cost_is_an_experiment() {
    let words = ["bench", "overhead", "--blocks", "3", "--time", "5ms", "--warm-up", "1ms"];
    let record = run(&mut bytepath(&[&words[..], &["--json", "-"]].concat())).well().json();
    assert_eq!(names(&record)[0], "bare-loop");
    assert!(arms(&record).iter().all(|arm| arm["status"] == "ok"), "{}", record["arms"]);
}

#[test]
fn the_program_is_found_however_it_was_called() {
    let folder = tempfile::tempdir().expect("a folder");
    let link = folder.path().join("bytepath");
    std::os::unix::fs::symlink(BYTEPATH, &link).expect("a link");
    let mut command = std::process::Command::new("bytepath");
    let path = |folder: &Path| format!("{}:/usr/bin:/bin", folder.display());
    command.args(SHORT).args(["--arms", "write-read@same-cpu", "--json", "-"]);
    command.env("PATH", path(folder.path())).current_dir("/");
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
    assert_eq!(names(&spawned(&mut command).done().well().json()), ["write-read@same-cpu"]);
}

#[test]
fn a_peer_that_is_asked_for_runs_whatever_else_is_chosen() {
    let words = ["bench", "pipes", "--list", "--arms", "write-read@same-cpu", "--peer", "cat"];
    let listed = run(&mut bytepath(&[&words[..], &["--placement", "same-cpu"]].concat())).well();
    assert_eq!(listed.stdout, "write-read@same-cpu\nwrite-cat-read@same-cpu\n");
}

#[test]
fn an_arm_is_chosen_by_its_placed_name_at_every_point_of_the_axes() {
    let words = ["bench", "pipes", "--list", "--arms", "write-read@same-cpu"];
    let axes = ["--pipe-size", "64K,1M,1G"];
    let listed = run(&mut bytepath(&[&words[..], &axes].concat())).well().stdout;
    let wanted = ["64K", "1M", "1G"].map(|size| format!("write-read@same-cpu/pipe={size}\n"));
    assert_eq!(listed, wanted.concat());
}

#[test]
fn results_that_cannot_be_written_keep_neither_the_table_nor_other_results_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let csv = folder.path().join("samples.csv").display().to_string();
    let words = [&SHORT[..], &["--arms", "write-read@same-cpu", "--json", "/dev/full"]].concat();
    let done = run(&mut bytepath(&[&words[..], &["--csv", &csv]].concat()));
    let done = done.refused(1, &["/dev/full", "No space left on device"]);
    assert!(done.stdout.contains("write-read@same-cpu *"), "{}", done.stdout);
    assert!(fs::read_to_string(&csv).is_ok_and(|rows| rows.lines().count() > 3));
}

#[test]
fn an_interrupted_bench_leaves_no_empty_results_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let json = folder.path().join("record.json");
    let name = json.display().to_string();
    let words =
        ["bench", "pipes", "--arms", "write-read@same-cpu", "--time", "30s", "--json", &name];
    let (bench, mut screen) = on_terminal(&words, Stdio::null());
    screen.shows("block 1 of ");
    kill_process(bench.group, Signal::TERM).expect("it runs");
    let done = bench.done();
    assert_eq!(signal_of(&done), Some(Signal::TERM.as_raw()), "{}", screen.whole());
    assert_eq!(entries(folder.path()), Vec::<PathBuf>::new());
}

/// A run of the classic `yes` alone, which is this script.
fn of_yes(script: &str) -> (tempfile::TempDir, Command) {
    let (folder, path) = with_script("yes", script);
    let words = ["bench", "gen", "--arms", "yes/read@same-cpu/yes", "--quick", "--no-store"];
    let mut command = bytepath(&words);
    command.env("PATH", path);
    (folder, command)
}

#[test]
fn kinds_of_made_up_bytes_are_those_that_are_asked_for() {
    let listed = |kinds: &str| {
        let words = ["bench", "gen", "--list", "--kind", kinds];
        let arms = run(&mut bytepath(&words)).well().stdout;
        let kinds = arms.lines().filter_map(|arm| Some(arm.split_once('/')?.0.to_owned()));
        kinds.collect::<std::collections::BTreeSet<_>>()
    };
    let of = |kinds: &[&str]| kinds.iter().map(|&kind| kind.to_owned()).collect();
    assert_eq!(listed("zeros"), of(&["zeros"]));
    assert_eq!(listed("yes,fizzbuzz"), of(&["yes", "fizzbuzz"]));
    run(&mut bytepath(&["bench", "gen", "--kind", "nope"])).refused(2, &["nope", "fizzbuzz"]);
}

#[test]
fn what_a_writer_complained_of_is_told() {
    let (_folder, mut bench) = of_yes("echo 'yes: error while loading' >&2; exit 127");
    let said = "the writer failed (exit status: 127); it said: yes: error while loading";
    run(&mut bench).refused(1, &[said]);
}

#[test]
fn a_run_whose_writer_writes_nothing_can_be_interrupted() {
    let (folder, mut bench) = of_yes("touch \"$0\".started; exec sleep 1000");
    let mut bench = spawned(bench.stdout(Stdio::piped()).stderr(Stdio::piped()));
    until("the writer", || folder.path().join("yes.started").exists());
    kill_process(Pid::from_child(bench.child()), Signal::INT).expect("it runs");
    let done = bench.done();
    assert!(!done.status.success() && done.stderr.contains("interrupted"), "{done:?}");
}

/// openssl takes no notice of SIGPIPE, and fails when its reader has enough.
#[test]
fn a_writer_that_complains_of_its_reader_leaving_is_measured_all_the_same() {
    if !installed("openssl") {
        return println!("skipped: no openssl here");
    }
    let arm = "random/read@same-cpu/openssl";
    let words = ["bench", "gen", "--arms", arm, "--blocks", "2", "--time", "3ms", "--json", "-"];
    let record = run(&mut bytepath(&words)).well().json();
    let arms = record["arms"].as_array().expect("arms");
    let found = arms.iter().find(|found| found["name"] == arm).expect("it is one of them");
    assert_eq!(found["status"], "ok", "{found}");
    assert!(found["median"].as_f64().is_some_and(|value| value > 0.0), "{found}");
}

/// Two processes on one CPU use no more than that.
#[test]
fn what_a_classic_uses_is_told_by_all_the_bytes_that_it_wrote() {
    let arm = "zeros/read@same-cpu/cat";
    let words = ["bench", "gen", "--arms", arm, "--blocks", "2", "--time", "10ms", "--json", "-"];
    let record = run(&mut bytepath(&[&words[..], &["--warm-up", "200ms"]].concat())).well().json();
    let found = self::arm(&record, arm);
    let cost = |name: &str| found["costs"][name].as_f64().expect("a figure");
    let cpu_s_per_gib = cost("cpu_user_s_per_gib") + cost("cpu_system_s_per_gib");
    let gib_per_s = found["median"].as_f64().expect("a figure");
    // What starts and what varies comes on top; by the bytes of the sample alone it was 20.
    assert!(cpu_s_per_gib * gib_per_s < 6.0, "{found}");
}
