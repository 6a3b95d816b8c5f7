//! `bytepath bench calls`: operations by system calls and in batches on a ring.

use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{
    arms, as_published, bytepath, installed, may_mount, run, shell, spawned, until,
};

/// Blocks and times that take no time; the figures mean nothing.
const SHORT: [&str; 6] = ["--blocks", "2", "--time", "2ms", "--warm-up", "1ms"];

fn record(words: &[&str]) -> Value {
    let words = [&["bench", "calls"][..], words, &SHORT, &["--json", "-"]].concat();
    run(&mut bytepath(&words)).well().json()
}

/// Whether this machine has rings; what needs one is skipped aloud otherwise.
fn rings() -> bool {
    let probe = bytepath::ring::Ring::open(&bytepath::ring::Setup::default());
    probe.map_err(|refusal| println!("skipped: no ring here: {refusal}")).is_ok()
}

#[test]
fn every_operation_runs_in_every_way_and_answers_what_it_should() {
    if !rings() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path();
    let record = record(&["--batch", "1,7,128", "--dir", folder.to_str().expect("plain")]);
    let failed = |arm: &&Value| arm["status"] != "ok";
    let failed: Vec<_> = arms(&record).iter().filter(failed).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(arms(&record).len(), 11 + 3 * (11 + 6), "6 operations take a file");
    for arm in arms(&record) {
        assert_eq!(arm["unit"], "ns");
        assert!(arm["median"].as_f64().is_some_and(|median| median > 0.0), "{}", arm["name"]);
    }
    assert_eq!(std::fs::read_dir(folder).expect("it lists").count(), 0, "nothing is left");
    as_published("record", &record);
}

#[test]
fn each_operation_has_a_reference_of_its_own_and_batches_take_fewer_calls() {
    if !rings() {
        return;
    }
    let record = record(&["--ops", "nop,read,cancel", "--batch", "32"]);
    for arm in arms(&record) {
        let name = arm["name"].as_str().expect("a name");
        assert_eq!(arm["reference"], name.ends_with("/syscall"), "{name}");
        assert_eq!(arm["section"], name.split('/').next().expect("a part"), "{name}");
        let calls = arm["costs"]["syscalls_per_op"].as_f64().expect("calls are counted");
        let wanted = match (name.ends_with("/syscall"), name.starts_with("cancel")) {
            (true, true) => 2.0,
            (true, false) => 1.0,
            // A signal, or a thread of the kernel's, may take one more now and then.
            (false, _) => calls.clamp(1.0 / 32.0, 0.1),
        };
        assert!((calls - wanted).abs() < 1e-9, "{name}: {calls} calls");
    }
}

#[test]
fn the_table_ends_with_what_batching_saves() {
    if !rings() {
        return;
    }
    // Two blocks have no interval, and so say nothing.
    let words =
        ["bench", "calls", "--ops", "nop,poll", "--batch", "8", "--blocks", "3", "--no-store"];
    let said = run(&mut bytepath(&[&words[..], &SHORT[2..]].concat())).well().stdout;
    let last = said.trim_end().rsplit("\n\n").next().unwrap_or_default();
    assert!(last.starts_with("Here ") && last.contains("batch"), "{last}");
    assert!(said.contains("the reference of its section"), "{said}");
}

#[test]
fn arms_are_named_and_chosen() {
    let list = |words: &[&str]| {
        let words = [&["bench", "calls", "--list"], words].concat();
        run(&mut bytepath(&words)).well().stdout
    };
    assert_eq!(list(&["--ops", "nop", "--batch", "8"]), "nop/syscall\nnop/ring-8\n");
    assert_eq!(
        list(&["--ops", "nop,read", "--arms", "ring-128*"]),
        "nop/ring-128\nread/ring-128\nread/ring-128+registered\n"
    );
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |words: &[&str], code: i32, says: &str| {
        run(&mut bytepath(&[&["bench", "calls"], words].concat())).refused(code, &[says]);
    };
    refused(&["--ops", "dance"], 2, "there is no operation");
    refused(&["--batch", "0"], 2, "0 is not in 1..=256");
    refused(&["--batch", "257"], 2, "257 is not in 1..=256");
    refused(&["--batch", "8,8"], 2, "--batch has a value twice");
    refused(&["--arms", "no-such"], 2, "no arm matches no-such");
    refused(&["--arms", "["], 2, "is no pattern");
    refused(&["--dir", "/no/such"], 1, "/no/such");
    let call = |words: &[&str], says: &str| {
        run(&mut bytepath(&[&["call"], words].concat())).refused(2, &[says]);
    };
    call(&["--op", "statx", "--batch", "2", "--registered"], "takes no file");
    call(&["--op", "read", "--registered"], "--batch");
}

#[test]
fn an_operation_that_fails_is_an_error_and_no_figure() {
    // 20 descriptors do not suffice for 128 connections.
    let failed = shell("ulimit -n 20; exec $bytepath call --op accept --time 1ms");
    failed.refused(1, &["connections", "ulimit -n"]);
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().display();
    // The file is larger than a process may write.
    let limited = format!("ulimit -f 1; exec $bytepath call --op read --time 1ms --dir {dir}");
    shell(&limited).refused(1, &["cannot make the file", "(ulimit -f)"]);
    let bench = format!(
        "ulimit -n 60; exec $bytepath bench calls --ops accept,nop --batch 8 --blocks 2 --time 1ms \
         --warm-up 1ms --json - --dir {dir}"
    );
    let record = shell(&bench).well().json();
    for arm in arms(&record) {
        let accept = arm["section"] == "accept";
        let name = &arm["name"];
        assert_eq!(arm["status"] == "unavailable", accept, "{name}: {}", arm["why"]);
        assert_eq!(arm["why"].as_str().is_some_and(|why| why.contains("ulimit -n")), accept);
    }
}

#[test]
fn a_run_that_is_ended_leaves_no_file_and_what_a_killed_one_left_goes_with_the_next() {
    let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let there = || std::fs::read_dir(folder.path()).expect("it lists").count();
    let bench = |words: &[&str]| {
        let mut command = bytepath(&["bench", "calls", "--no-store", "--dir"]);
        command.arg(folder.path()).args(words).env("XDG_STATE_HOME", state.path());
        command
    };
    for signal in [Signal::INT, Signal::TERM, Signal::KILL] {
        let mut command = bench(&["--blocks", "1000", "--time", "50ms", "--ops", "read"]);
        let mut bench = spawned(command.stdout(Stdio::null()).stderr(Stdio::null()));
        until("a file", || there() > 0);
        kill_process(Pid::from_child(bench.child()), signal).expect("it runs");
        bench.child().wait().expect("it ends");
        assert_eq!(there() > 0, signal == Signal::KILL, "{signal:?}");
    }
    let next = run(&mut bench(&["--ops", "nop", "--blocks", "2", "--time", "2ms"]));
    assert!(next.status.success() && next.stderr.contains("removed "), "{next:?}");
    assert_eq!(there(), 0);
}

#[test]
fn a_null_device_that_is_missing_or_refused_is_told_and_not_the_program() {
    if !may_mount() || !installed("setpriv") {
        return;
    }
    let rights = "-dac_override,-dac_read_search";
    for (made, why) in
        [("true", "No such file"), ("touch /dev/null && chmod 0 /dev/null", "denied")]
    {
        let line = format!(
            "unshare -m sh -c 'mount -t tmpfs none /dev && {made} && exec setpriv --bounding-set \
             {rights} --inh-caps {rights} $bytepath bench calls --blocks 2 --time 1ms --no-store'"
        );
        shell(&line).refused(1, &["cannot open /dev/null", why]);
    }
}
