//! `bytepath bench cmd`: what is run, how often, in which order, and how what fails is told.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};

use crate::program::{
    BYTEPATH, Done, bytepath, ended, installed, may_mount, run, run_for_nobody, runs, shell,
    signal_of, spawned, until,
};
use crate::terminal::terminal;

/// A run in a folder with these words.
fn bench(folder: &Path, words: &[&str]) -> Done {
    run(bytepath(&[&["bench", "cmd"], words].concat()).current_dir(folder))
}

/// The record of a run of 3 blocks.
#[track_caller]
fn record(folder: &Path, words: &[&str]) -> Value {
    bench(folder, &[words, &["--blocks", "3", "--json", "-"]].concat()).well().json()
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder")
}

/// The one arm that could not run: why.
fn why(done: &Done, arm: &str) -> String {
    let record = done.json();
    let arms = record["arms"].as_array().expect("arms");
    let arm = arms.iter().find(|one| one["name"] == arm).expect("the arm is there");
    assert_eq!((&arm["status"], &arm["median"]), (&"unavailable".into(), &Value::Null));
    arm["why"].as_str().expect("a reason").to_owned()
}

#[test]
fn commands_are_measured_from_start_to_end_with_what_they_use() {
    let folder = folder();
    let spins = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done";
    let record = record(
        folder.path(),
        &["sleep 0.05", spins, "head -c 64M /dev/zero | tail -c 60M | wc -c"],
    );
    let arms = record["arms"].as_array().expect("arms");
    let cost = |arm: usize, name: &str| arms[arm]["costs"][name].as_f64();
    for arm in arms {
        assert_eq!(
            (&arm["unit"], &arm["better"], &arm["status"]),
            (&"s".into(), &"lower".into(), &"ok".into())
        );
        assert_eq!(arm["params"]["command"], arm["name"]);
    }
    assert_eq!(arms[0]["reference"], true);
    for sample in arms[0]["samples"].as_array().expect("samples") {
        assert!(
            sample["value"].as_f64() >= Some(0.05),
            "a sleep is not shorter than asked for: {sample}"
        );
    }
    let (asleep, awake) = (cost(0, "cpu_user_s_per_run"), cost(1, "cpu_user_s_per_run"));
    assert!(awake > asleep && awake > Some(0.001), "{awake:?} {asleep:?}");
    assert!(cost(2, "peak_memory_bytes") > Some(6e7), "tail keeps what it is to show: {}", arms[2]);
    assert!(cost(2, "page_faults_per_run") > Some(10_000.0), "{}", arms[2]["costs"]);
    assert!(cost(0, "context_switches_per_run") >= Some(1.0), "who sleeps gives up its CPU");
    assert_eq!(record["control"]["arm"], "sleep 0.05 (A/A)");
}

#[test]
fn the_peak_of_memory_is_the_commands_though_who_measures_was_started_by_more() {
    let more = std::hint::black_box(vec![1_u8; 200 << 20]);
    let line = "head -c 64M /dev/zero | tail -c 60M | wc -c";
    let clocked = run(&mut bytepath(&["clock", "--", "sh", "-c", line])).well().json();
    drop(more);
    let bytes = |name: &str| clocked[name].as_u64().unwrap_or(0);
    assert!((60_000_000..200 << 20).contains(&bytes("peak_bytes")), "{clocked}");
    assert!((1..200 << 20).contains(&bytes("own_bytes")), "{clocked}");
}

#[test]
fn every_command_runs_once_a_block_with_its_steps_around_it() {
    let folder = folder();
    let steps = ["--setup", "echo setup >> log", "--cleanup", "echo cleanup >> log"];
    let each = ["--prepare", "echo prepare >> log", "--conclude", "echo conclude >> log"];
    record(folder.path(), &[&["echo a >> log", "echo b >> log"][..], &steps, &each].concat());
    let log = fs::read_to_string(folder.path().join("log")).expect("they wrote");
    let lines: Vec<&str> = log.lines().collect();
    assert_eq!((lines[0], lines[lines.len() - 1]), ("setup", "cleanup"));
    let runs: Vec<_> = lines[1..lines.len() - 1].chunks(3).collect();
    assert!(runs.iter().all(|run| run[0] == "prepare" && run[2] == "conclude"), "{lines:?}");
    let of = |name: &str| runs.iter().filter(|run| run[1] == name).count();
    // A trial, three blocks, the control, and perhaps a repeat of what was disturbed.
    assert!(of("a") >= 7 && of("b") >= 4, "{lines:?}");
}

#[test]
fn each_command_may_have_steps_of_its_own_and_names_and_parameters() {
    let folder = folder();
    let own = ["-p", "touch one", "-p", "touch two", "-n", "first", "-n", "second"];
    let found = record(folder.path(), &[&["rm one", "rm two"][..], &own].concat());
    let names: Vec<_> =
        found["arms"].as_array().expect("arms").iter().map(|arm| &arm["name"]).collect();
    assert_eq!(names, ["first", "second"]);
    let listed = bench(
        folder.path(),
        &["head -c {n} /dev/{from}", "-L", "n", "1,2", "-L", "from", "zero,null", "--list"],
    );
    let wanted =
        "head -c 1 /dev/zero\nhead -c 1 /dev/null\nhead -c 2 /dev/zero\nhead -c 2 /dev/null\n";
    assert_eq!(listed.well().stdout, wanted);
    let commas = bench(folder.path(), &["echo {n}", "-L", "n", r"a\,b,c\\,\d", "--list"]);
    assert_eq!(commas.well().stdout, "echo a,b\necho c\\\necho \\d\n");
    // What looks like a parameter in a value is what the value says.
    let values = ["-L", "foo", "{bar},{foo}", "-L", "bar", "quux", "--list"];
    let braces = bench(folder.path(), &[&["{ echo ${foo} {bar} {bar; }"][..], &values].concat());
    let wanted = "{ echo ${bar} quux {bar; }\n{ echo ${foo} quux {bar; }\n";
    assert_eq!(braces.well().stdout, wanted);
}

#[test]
fn setup_and_cleanup_are_done_once_with_each_combination_of_the_values_that_they_name() {
    let folder = folder();
    let values = ["-L", "n", "a,b", "-P", "m", "1", "2"];
    let once =
        ["-s", "echo s{n} >>log; echo {n} >in-{n}", "-c", "echo c{n}{m} >>log; rm -f in-{n}"];
    record(folder.path(), &[&["cat in-{n} # {m}"][..], &values, &once].concat());
    let log = fs::read_to_string(folder.path().join("log")).expect("they wrote");
    assert_eq!(log, "sa\nsb\nca1\nca2\ncb1\ncb2\n");
    assert!(!folder.path().join("in-a").exists() && !folder.path().join("in-b").exists());
    // What fails keeps no other from being done, and is told.
    let fails = ["-c", "echo {n} >>left; echo no {n} >&2; false"];
    bench(folder.path(), &[&["true # {n}{m}", "--blocks", "3"][..], &values, &fails].concat())
        .refused(1, &["--cleanup failed", "no a", "no b"]);
    let left = fs::read_to_string(folder.path().join("left")).expect("they wrote");
    assert_eq!(left, "a\nb\n");
    record(folder.path(), &[&["true # {n}{m}", "-s", "echo >>lone"][..], &values].concat());
    assert_eq!(fs::read_to_string(folder.path().join("lone")).expect("it wrote"), "\n");
}

#[test]
fn what_variables_stand_for_is_kept_with_each_arm() {
    let folder = folder();
    let found = record(
        folder.path(),
        &[
            "{command} {n}; exit 3",
            "-i",
            "-L",
            "n",
            "1,2",
            "-L",
            "command",
            "true",
            "-L",
            "exit_codes",
            "x",
            "-L",
            "file_system",
            "none such",
        ],
    );
    assert_ne!(found["machine"]["file_system"], "none such");
    let arms = found["arms"].as_array().expect("arms");
    for (arm, n) in arms.iter().zip(["1", "2"]) {
        let params = &arm["params"];
        assert_eq!(params["n"], n);
        assert_eq!(params["command"], format!("true {n}; exit 3"));
        assert_eq!(params["parameter_command"], "true");
        assert_eq!(params["parameter_file_system"], "none such");
        assert_eq!(
            (&params["exit_codes"], &params["parameter_exit_codes"]),
            (&json!({"3": 3}), &"x".into())
        );
    }
    bench(folder.path(), &["echo {n}", "-L", "n", "1", "-L", "n", "2"])
        .refused(2, &["the parameter n is given twice"]);
}

#[test]
fn a_parameter_goes_over_a_range_of_numbers() {
    let folder = folder();
    let over = |words: &[&str]| bench(folder.path(), &[&["{n}", "--list"], words].concat());
    for (words, numbers) in [
        ("-P n 1 4", "1 2 3 4"),
        ("-P n 1 8 -D 3", "1 4 7"),
        ("-P n -0.5 0.6 -D 0.25", "-0.50 -0.25 0.00 0.25 0.50"),
        ("-P n 9223372036854775806 9223372036854775807 -D 2", "9223372036854775806"),
    ] {
        let words: Vec<_> = words.split(' ').collect();
        let listed = over(&words).well();
        assert_eq!(listed.stdout, numbers.replace(' ', "\n") + "\n", "{words:?}");
    }
    let both = bench(
        folder.path(),
        &["{m} {n} {l}", "-P", "n", "1", "2", "-L", "l", "x,y", "-P", "m", "8", "8", "--list"],
    );
    assert_eq!(both.well().stdout, "8 1 x\n8 2 x\n8 1 y\n8 2 y\n");
    for (words, said) in [
        ("-P n 1 x", "\"x\" is none"),
        ("-P n 1 99999999999999999999", "99999999999999999999 is too large"),
        ("-P n 4 1", "-P goes up"),
        ("-P n 1 4 -D 0", "-P goes up"),
        ("-P n 0 1 -D 0.0001", "more than 1000 combinations"),
        ("-P n 1 2 -L n 3", "the parameter n is given twice"),
        ("-D 2", "--parameter-scan"),
    ] {
        over(&words.split(' ').collect::<Vec<_>>()).refused(2, &[said]);
    }
}

#[test]
fn a_command_that_fails_is_told_with_its_cause_and_never_by_a_figure() {
    let folder = folder();
    fs::write(folder.path().join("text"), "not a program").expect("a file");
    let cases: [(&str, &[&str]); 9] = [
        ("no-such-command", &["127", "not found", "no-such-command"]),
        ("./text", &["126", "not executable", "Permission denied"]),
        ("exit 3", &["it ended with 3", "--ignore-failure"]),
        ("kill -SEGV $$", &["SIGSEGV"]),
        ("kill -9 $$", &["SIGKILL"]),
        ("sh -c 'kill -TERM $$'; exit $?", &["143", "SIGTERM", "--ignore-failure measures"]),
        ("echo because >&2; false", &["it ended with 1", "it said: because"]),
        ("seq -f line-%g 5 >&2; false", &["it said: line-3 / line-4 / line-5"]),
        ("printf \"why\\nTry 'x --help' for more\\n\" >&2; false", &["it said: why"]),
    ];
    let commands: Vec<&str> = cases.iter().map(|(command, _)| *command).collect();
    let all = [&commands[..], &["true", "--blocks", "3", "--json", "-"]].concat();
    let done = bench(folder.path(), &all).refused(1, &["9 of 10 commands failed"]);
    for (command, words) in cases {
        let why = why(&done, command);
        for word in words {
            assert!(why.contains(word), "{word:?} is not in what is told of {command:?}: {why}");
        }
    }
    let words = ["bench", "cmd", "true", "false", "--blocks", "3"];
    run_for_nobody(&mut bytepath(&words)).refused(1, &["1 of 2 commands failed"]);
    bench(folder.path(), &["-N", "no-such-command", "./text"])
        .refused(1, &["no-such-command was not found", "./text is not executable"]);
}

/// A program that is replaced while it measures: what it measured with itself counts, and nothing else.
#[test]
fn a_run_ends_where_another_file_takes_the_place_of_the_program() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::copy(BYTEPATH, at("bytepath")).expect("a program");
    fs::copy(BYTEPATH, at("other")).expect("a program");
    let replaces = "echo >>runs; [ $(wc -l <runs) != 20 ] || mv other bytepath";
    let bench = |blocks: &str| {
        let mut command = Command::new(at("bytepath"));
        command.args(["bench", "cmd", replaces, "--blocks", blocks, "--no-store", "--json", "-"]);
        run(command.current_dir(folder.path()))
    };
    let whole = bench("2").well().json();
    let cut = bench("1000").refused(1, &["interrupted after", "took the place of"]).json();
    assert!(cut["blocks"].as_u64().is_some_and(|blocks| (1..20).contains(&blocks)), "{cut}");
    assert_eq!(cut["bytepath"], whole["bytepath"], "the program that measured");
    fs::write(at("runs"), "\n".repeat(19)).expect("a file");
    fs::copy(BYTEPATH, at("other")).expect("a program");
    bench("2").refused(1, &["took the place of", "before the first block was complete"]);
}

#[test]
fn failures_are_measured_where_that_is_asked_for() {
    let folder = folder();
    let found = record(folder.path(), &["exit 3", "exit 4", "--ignore-failure"]);
    assert_eq!(found["arms"][0]["params"]["exit_codes"], json!({"3": 3}));
    assert!(found["arms"][1]["median"].as_f64().is_some());
    // The trial is the first start; the first block needs three more at most, the last one is later.
    let early = "echo >>runs; [ $(wc -l <runs) -gt 4 ] || exit 3";
    let found = record(folder.path(), &[early, "-i"]);
    let codes = &found["arms"][0]["params"]["exit_codes"];
    let (good, bad) = (codes["0"].as_u64(), codes["3"].as_u64());
    let (good, bad) = (good.expect("some end well"), bad.expect("some do not"));
    assert_eq!(good + bad, 3, "{codes}");
    let note = format!("{early}: {bad} of 3 runs ended with 3; they count");
    assert!(found["notes"].as_array().expect("notes").contains(&note.into()), "{}", found["notes"]);
    let words = ["exit 3", "exit 4", "--ignore-failure=3", "--blocks", "3", "--json", "-"];
    let done = bench(folder.path(), &words).refused(1, &["1 of 2 commands failed"]);
    assert!(why(&done, "exit 4").contains("it ended with 4; --ignore-failure=3,4 measures it"));
    // Its cleanup failed, or is done though the run was ended.
    bench(folder.path(), &["true", "-c", "echo why >&2; false"]).refused(1, &["--cleanup", "why"]);
    let signals = ["kill -9 $$", "kill -TERM $$"];
    let found = record(folder.path(), &[&signals[..], &["-i"]].concat());
    assert_eq!(found["arms"][0]["params"]["exit_codes"], json!({"137": 3}));
    assert_eq!(found["arms"][1]["params"]["exit_codes"], json!({"143": 3}));
    // A signal is no exit code.
    let hint = "SIGKILL; --ignore-failure without codes measures it";
    bench(folder.path(), &["kill -9 $$", "-i=9,137"]).refused(1, &[hint]);
    bench(folder.path(), &["true", "-i=x"]).refused(2, &["\"x\" is no exit code"]);
}

#[test]
fn outputs_are_compared_where_that_is_asked_for() {
    let folder = folder();
    record(folder.path(), &["echo same", "printf 'same\\n'", "--check-output"]);
    let words =
        ["echo one", "echo two", "echo three", "--check-output", "--blocks", "3", "--json", "-"];
    let done = bench(folder.path(), &words).refused(1, &["2 of 3 commands failed"]);
    assert!(
        why(&done, "echo two")
            .contains("its output differs from that of echo one: other bytes, as many (4)")
    );
    assert!(why(&done, "echo three").contains("6 bytes, not 4"));
    let changing = ["date +%N", "--check-output", "--blocks", "3"];
    bench(folder.path(), &changing).refused(1, &["its output differs from its first output"]);
}

#[test]
fn the_shell_may_have_options_of_its_own() {
    let folder = folder();
    let name = folder.path().join("a shell");
    std::os::unix::fs::symlink("/bin/sh", &name).expect("a link");
    let shell = format!("'{}' -e", name.display());
    let found = record(folder.path(), &["echo it >>log; true", "-S", &shell, "-s", "true"]);
    assert_eq!(found["settings"]["shell"], shell);
    assert!(folder.path().join("log").exists());
    bench(folder.path(), &["false; true", "-S", &shell]).refused(1, &["it ended with 1"]);
    bench(folder.path(), &["true", "-S", &shell, "-s", "false; true"]).refused(1, &["--setup"]);
    bench(folder.path(), &["true", "-S", &shell, "-p", "false; true"]).refused(1, &["before each"]);
    for none in ["", " ", "'sh"] {
        bench(folder.path(), &["true", "-S", none]).refused(2, &["is no shell"]);
    }
}

#[test]
fn without_a_shell_words_are_split_and_nothing_else_is_done() {
    let folder = folder();
    fs::write(folder.path().join("in put"), "given").expect("a file");
    // The second as hyperfine has it. Steps have a shell all the same.
    for asked in [&["-N"][..], &["-S", "none"]] {
        let words = ["cat 'in put' \"$HOME\"", "cat", "--input", "in put", "--check-output"];
        let more = ["--setup", "test -n \"$HOME\"", "--blocks", "3", "--json", "-"];
        let done = bench(folder.path(), &[asked, &words, &more].concat());
        let done = done.refused(1, &["1 of 2 commands failed"]);
        assert_eq!(done.json()["settings"]["shell"], "none");
        assert!(why(&done, "cat 'in put' \"$HOME\"").contains("cat: '$HOME': No such file"));
        bench(folder.path(), &[asked, &["echo 'open"]].concat())
            .refused(2, &["a quote without its end"]);
    }
}

#[test]
fn steps_that_fail_are_told_and_the_cleanup_is_done() {
    let folder = folder();
    bench(
        folder.path(),
        &["true", "--setup", "echo why >&2; exit 5", "--cleanup", "echo done > log"],
    )
    .refused(1, &["--setup failed", "exit status: 5", "it said: why"]);
    assert_eq!(fs::read_to_string(folder.path().join("log")).expect("it was done"), "done\n");
    bench(folder.path(), &["true", "--prepare", "false"])
        .refused(1, &["what was to be done before each run failed: false"]);
}

#[test]
fn what_is_to_be_done_after_each_run_is_done_after_one_that_fails_too() {
    let folder = folder();
    let log = || {
        let log = fs::read_to_string(folder.path().join("log")).expect("they wrote");
        fs::remove_file(folder.path().join("log")).expect("it is there");
        log
    };
    let steps = ["-p", "echo before >> log", "--conclude", "echo after >> log"];
    let failing = ["echo run >> log; false"];
    bench(folder.path(), &[&failing[..], &steps].concat()).refused(1, &["it ended with 1"]);
    assert_eq!(log(), "before\nrun\nafter\n");
    // One that gives something else has been run as well.
    let differing = ["echo run >> log; wc -l < log", "--check-output"];
    bench(folder.path(), &[&differing[..], &steps].concat())
        .refused(1, &["its output differs from its first output"]);
    assert_eq!(log(), "before\nrun\nafter\n".repeat(2));
    let both = ["exit 3", "--conclude", "echo why >&2; exit 4"];
    let told = "it ended with 3; --ignore-failure measures it all the same; and what was to be done \
                after each run failed: echo why >&2; exit 4 (exit status: 4); it said: why";
    bench(folder.path(), &both).refused(1, &[told]);
}

#[test]
fn what_is_to_be_done_after_each_run_is_done_after_one_that_is_interrupted() {
    let folder = folder();
    let conclude = "sleep 0.2; echo after > log";
    let words = ["bench", "cmd", "--no-store", "echo $$ > left; exec sleep 100"];
    let words = [&words[..], &["--conclude", conclude]].concat();
    takes_along(&words, folder.path(), Signal::TERM);
    assert_eq!(fs::read_to_string(folder.path().join("log")).expect("it was done"), "after\n");
    // It is finished where the signal comes during it, too, and nothing is begun after it.
    fs::remove_file(folder.path().join("left")).expect("it is there");
    let conclude = "echo $$ > left; sleep 2; echo concluded >> log";
    let words = ["bench", "cmd", "--no-store", "--warmup", "3", "true", "--conclude", conclude];
    let words = [&words[..], &["--prepare", "echo prepared >> log"]].concat();
    fs::remove_file(folder.path().join("log")).expect("it is there");
    takes_along(&words, folder.path(), Signal::TERM);
    let log = fs::read_to_string(folder.path().join("log")).expect("it was done");
    assert_eq!(log, "prepared\nconcluded\n");
}

/// The process that has written its number there.
#[track_caller]
fn written(file: &Path) -> Pid {
    let number = || fs::read_to_string(file).ok()?.strip_suffix('\n')?.parse().ok();
    until("the number", || number().is_some());
    number().and_then(Pid::from_raw).expect("a process")
}

/// What has told its number in the file `left` ends with a bench that a signal ends.
#[track_caller]
fn takes_along(words: &[&str], folder: &Path, signal: Signal) {
    let mut bench =
        spawned(bytepath(words).current_dir(folder).stdout(Stdio::null()).stderr(Stdio::null()));
    let process = written(&folder.join("left"));
    kill_process(Pid::from_child(bench.child()), signal).expect("it runs");
    assert_eq!(signal_of(&bench.done()), Some(signal.as_raw()), "{words:?}");
    ended(process);
}

#[test]
fn what_a_command_has_started_ends_with_a_bench_that_is_killed_or_told_to_end() {
    // Its own parent has ended before.
    let left = "sh -c 'sleep 100 & echo $! > left'; sleep 100; :";
    let started = "sleep 100 & echo $! > left; wait";
    for words in [["cmd", left], ["cmd", started], ["run", started]] {
        for signal in [Signal::KILL, Signal::TERM, Signal::QUIT] {
            let folder = folder();
            let words = [&["bench"], &words[..], &["--no-store"]].concat();
            takes_along(&words, folder.path(), signal);
        }
    }
}

#[test]
fn a_signal_that_a_command_sends_to_its_group_does_not_end_bench() {
    if !installed("setsid") {
        println!("skipped: a run without a terminal takes setsid");
        return;
    }
    let folder = folder();
    let bench = |words: &[&str]| {
        let mut command = Command::new("setsid");
        command.args(["-w", BYTEPATH, "bench", "cmd", "--no-store", "--blocks", "3"]);
        run(command.args(words).current_dir(folder.path()))
    };
    let found = bench(&["kill 0", "kill -9 0", "true", "-i", "--json", "-"]).well().json();
    let codes = [json!({"143": 3}), json!({"137": 3}), Value::Null];
    for (arm, codes) in found["arms"].as_array().expect("arms").iter().zip(codes) {
        assert_eq!(arm["params"]["exit_codes"], codes, "{arm}");
    }
    bench(&["true", "--prepare", "kill 0"]).refused(1, &["before each run failed: kill 0 (signal"]);
}

#[test]
fn what_a_command_has_started_ends_with_a_bench_whose_group_is_killed() {
    let folder = folder();
    let words = ["bench", "cmd", "sleep 100 & echo $! > left; wait", "--no-store"];
    let mut command = bytepath(&words);
    command.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut bench = spawned(&mut command);
    let process = written(&folder.path().join("left"));
    kill_process_group(Pid::from_child(bench.child()), Signal::KILL).expect("it runs");
    assert_eq!(signal_of(&bench.done()), Some(Signal::KILL.as_raw()));
    ended(process);
}

#[test]
fn a_step_ends_with_all_that_it_started() {
    let started = "sleep 100 & echo $! > left; wait";
    let steps = [
        ["cmd", "--setup"],
        ["cmd", "--prepare"],
        ["cmd", "--conclude"],
        ["cmd", "--cleanup"],
        ["run", "--prepare"],
    ];
    for [experiment, step] in steps {
        for signal in [Signal::KILL, Signal::TERM] {
            // Those are done whatever comes.
            if ["--conclude", "--cleanup"].contains(&step) && signal == Signal::TERM {
                continue;
            }
            let folder = folder();
            let words = ["bench", experiment, "--no-store", "--blocks", "2", "true", step, started];
            takes_along(&words, folder.path(), signal);
        }
    }
}

/// A program that says who it is, and does not end.
const ENDLESS: &str =
    "#!/bin/sh\ncase $1 in --version) exit ;; esac\necho $$ > left\nexec sleep 100\n";

#[test]
fn a_program_that_is_compared_ends_with_a_bench_that_is_killed() {
    let cases: [&[&str]; 4] = [
        &["files", "--peer", "fio", "--buffered", "--arms", "fio-pread", "--size", "1M"],
        &["movers", "--peer", "cat"],
        &["pipes", "--peer", "cat", "--arms", "*-cat-*"],
        &["memory", "--peer", "mbw", "--arms", "mbw*", "--size", "16M"],
    ];
    for words in cases {
        let folder = folder();
        let program = folder.path().join(words[2]);
        fs::write(&program, ENDLESS).expect("written");
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).expect("it runs");
        let path = format!("{}:{}", folder.path().display(), std::env::var("PATH").expect("there"));
        let mut bench = spawned(
            bytepath(&[&["bench"], words, &["--no-store"]].concat())
                .env("PATH", path)
                .current_dir(folder.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null()),
        );
        let process = written(&folder.path().join("left"));
        kill_process(Pid::from_child(bench.child()), Signal::KILL).expect("it runs");
        assert_eq!(signal_of(&bench.done()), Some(Signal::KILL.as_raw()), "{words:?}");
        ended(process);
    }
}

#[test]
fn a_cleanup_that_hangs_is_ended_by_a_second_signal_and_that_is_said() {
    let cleanup = "sleep 100 & echo $! > left; wait";
    // Interrupted, and at its own end.
    for command in ["echo $$ > runs; exec sleep 100", "true"] {
        let folder = folder();
        let words = ["bench", "cmd", "--no-store", "--blocks", "2", command, "--cleanup", cleanup];
        let mut bench = spawned(
            bytepath(&words)
                .current_dir(folder.path())
                .stdout(Stdio::null())
                .stderr(Stdio::piped()),
        );
        let pid = Pid::from_child(bench.child());
        if command != "true" {
            written(&folder.path().join("runs"));
            kill_process(pid, Signal::TERM).expect("it runs");
        }
        let process = written(&folder.path().join("left"));
        // Those that come at once are one.
        while runs(process) {
            let _ = kill_process(pid, Signal::TERM);
            std::thread::sleep(Duration::from_millis(500));
        }
        let done = bench.done();
        assert_eq!(signal_of(&done), Some(Signal::TERM.as_raw()), "{done:?}");
        assert!(done.stderr.contains("was not finished: a second signal ended it"), "{done:?}");
        ended(process);
    }
}

#[test]
fn wrong_words_are_told_before_anything_runs() {
    let folder = folder();
    let cases: [(&[&str], &str); 6] = [
        (&["true", "true"], "would run twice"),
        (&["  "], "an empty command"),
        (&["true", "-p", "a", "-p", "b"], "--prepare was given 2 times"),
        (&["true", "-n", "a", "-n", "b"], "more names than commands"),
        (&["true", "--warm-up", "1s"], "--warmup"),
        (&[], "required"),
    ];
    for (words, told) in cases {
        bench(folder.path(), words).refused(2, &[told]);
    }
    // So long a name is one that no record may have; what counts is its characters, not its bytes.
    let (long, most) = (format!("true {}", "é".repeat(20_000)), "é".repeat(20_000));
    let marks = ["-s", "touch made"];
    bench(folder.path(), &[&[&*long][..], &marks].concat()).refused(2, &["20005 characters", "-n"]);
    assert!(!folder.path().join("made").exists());
    let kept = ["-n", &most, "--blocks", "2", "--json", "record"];
    bench(folder.path(), &[&[&*long][..], &kept].concat()).well();
    run(bytepath(&["report", "record"]).current_dir(folder.path())).well();
    let same = ["true", "-L", "n", "1,2", "-p", "echo {n}"];
    bench(folder.path(), &same).refused(2, &["name them with -n, which may have {n} in it"]);
    bench(folder.path(), &["true", "--input", "absent"]).refused(1, &["cannot read absent"]);
}

#[test]
fn every_run_reads_all_of_the_input_and_what_gives_its_bytes_once_is_refused() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("text"), "three\nshort\nlines\n").expect("a file");
    let words = ["bench", "cmd", "cat >> read", "--blocks", "3", "--input"];
    let read = |input: &str, stdin: Stdio| {
        run(bytepath(&[&words[..], &[input]].concat()).current_dir(folder.path()).stdin(stdin))
    };
    // Its name means another file to the process that measures.
    let text = || fs::File::open(path("text")).expect("it is there");
    // Some have no name at all.
    let mut unnamed = tempfile::tempfile().expect("a file");
    std::io::copy(&mut text(), &mut unnamed).expect("it is written");
    for (input, stdin) in
        [("text", Stdio::null()), ("/dev/stdin", text().into()), ("/dev/stdin", unnamed.into())]
    {
        read(input, stdin).well();
        let all = fs::read_to_string(path("read")).expect("they wrote");
        fs::remove_file(path("read")).expect("it is there");
        let runs = all.len() / text().metadata().expect("it is there").len() as usize;
        assert!(runs >= 4 && all == "three\nshort\nlines\n".repeat(runs), "{input}: {all:?}");
    }
    read("/dev/null", Stdio::null()).well();
    rustix::fs::mkfifoat(rustix::fs::CWD, path("fifo"), 0o600.into()).expect("a FIFO");
    for input in ["fifo", ".", "/dev/stdin"] {
        let (pipe, _writer) = std::io::pipe().expect("a pipe");
        read(input, pipe.into()).refused(2, &["--input, and", "write what it gives to a file"]);
    }
    let (_terminal, name) = terminal();
    read(&name, Stdio::null()).refused(2, &["--input, and", "write what it gives to a file"]);
    run(bytepath(&["bench", "run", "cat", "--input", "fifo"]).current_dir(folder.path()))
        .refused(2, &["fifo is neither a file nor a device"]);
}

#[test]
fn a_folder_for_temporary_files_that_is_full_is_named() {
    shell("$bytepath clock -- true >/dev/full")
        .refused(1, &["standard output: No space left on device"]);
    if !may_mount() {
        return;
    }
    let folder = folder();
    let name = folder.path().display();
    let done = shell(&format!(
        "unshare -m sh -ec 'mount -t tmpfs -o size=64k none {name}; cat /dev/zero >{name}/all || :; \
         TMPDIR={name} exec $bytepath bench cmd true --blocks 3' 2>&1"
    ));
    let words = [&format!("cannot write into {name}: No space left"), "set TMPDIR"];
    assert!(words.iter().all(|word| done.stdout.contains(*word)), "{done:?}");
}

/// The command ends well as long as it is measured, and fails once it is run to be explained.
#[test]
fn an_explanation_that_fails_is_told_and_so_is_the_file_that_there_is_not() {
    let folder = folder();
    let words = ["--blocks", "2", "--no-store", "--explain", "--flame", "f.svg"];
    // Disturbed samples are measured again, so how often it is measured is not known.
    for first in 6..60 {
        fs::write(folder.path().join("c"), "0").expect("it is written");
        let line = format!(
            "n=$(($(cat c)+1)); echo $n >c; [ $n -lt {first} ] || {{ echo it is over >&2; false; }}"
        );
        let done = bench(folder.path(), &[&[line.as_str()][..], &words].concat());
        if !done.stdout.contains("n/a") && !done.stderr.contains("no arm can run") {
            let done = done.refused(1, &["not explained: n=$((", "it is over"]);
            assert!(!folder.path().join("f.svg").exists(), "{done:?}");
            return;
        }
    }
    panic!("it was never measured to the end");
}
