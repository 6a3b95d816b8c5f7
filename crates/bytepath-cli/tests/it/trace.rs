//! `bytepath explain --trace`: real commands and processes, and who is refused.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::program::{
    BYTEPATH, Done, as_nobody, as_published, bytepath, run, run_for_nobody, shell,
};

/// What was traced into a file; says why not and gives none where BPF is not to be had.
fn traced(words: &[&str]) -> Option<(Value, Done)> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let path = file.path().to_str().expect("a name in UTF-8");
    let done = run(&mut bytepath(&[&["explain", "--json", path][..], words].concat()));
    if done.stderr.contains("cannot trace") {
        println!("skipped: {}", done.stderr);
        return None;
    }
    let json = std::fs::read_to_string(file.path()).expect("it was written");
    Some((serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}: {done:?}")), done))
}

#[test]
fn a_command_is_traced_as_the_published_schema_says_and_its_code_is_ours() {
    let line = [
        "--trace",
        "syscalls",
        "--",
        "sh",
        "-c",
        "exec dd if=/dev/zero of=/dev/null \
                bs=1 count=300 status=none && exit 0",
    ];
    let Some((json, done)) = traced(&line) else { return };
    assert!(done.status.success(), "{done:?}");
    as_published("trace", &json);
    assert_eq!(json["mode"], "syscalls");
    let rows = json["rows"].as_array().expect("rows");
    let writes = rows.iter().find(|row| row["name"] == "write").expect("it writes");
    assert!(writes["calls"].as_u64() >= Some(300), "{writes}");
    assert!(!json["attached"].as_array().expect("it was attached").is_empty());

    let Some((_, done)) = traced(&["--trace", "offcpu", "--", "sh", "-c", "exit 7"]) else {
        return;
    };
    assert_eq!(done.status.code(), Some(7), "{done:?}");
}

#[test]
fn what_is_found_is_told_in_words() {
    let done = run(&mut bytepath(&["explain", "--trace", "offcpu", "--", "sleep", "0.2"]));
    let told = format!("{}{}", done.stdout, done.stderr);
    if told.contains("cannot trace") {
        println!("skipped: {told}");
        return;
    }
    for words in ["sleep sleeping", "woken by an interrupt (timer)", "attached: "] {
        assert!(told.contains(words), "{words} is not in {told}");
    }
}

#[test]
fn a_process_that_runs_is_traced_for_a_while() {
    let mut sleeper = Command::new("sh")
        .args(["-c", "while :; do sleep 0.05; done"])
        .stdout(Stdio::null())
        .spawn()
        .expect("it is started");
    let pid = sleeper.id().to_string();
    let found = traced(&["--trace", "wakeups", "--pid", &pid, "--for", "600ms"]);
    sleeper.kill().expect("it runs");
    sleeper.wait().expect("it ends");
    let Some((json, done)) = found else { return };
    assert!(done.status.success(), "{done:?}");
    let rows = json["rows"].as_array().expect("rows");
    assert!(rows.iter().any(|row| row["wakee"]["name"] == "sleep"), "{json:#}");
}

#[test]
fn the_arms_of_an_experiment_are_traced() {
    let words =
        ["explain", "pipes", "--arms", "write-read@*", "--bytes", "1M", "--trace", "syscalls"];
    let done = run(&mut bytepath(&words));
    if done.stderr.contains("cannot trace") {
        println!("skipped: {}", done.stderr);
        return;
    }
    assert!(done.status.success(), "{done:?}");
    assert!(done.stdout.contains("── write-read@"), "{done:?}");
    assert!(done.stdout.contains("attached: "), "{done:?}");
}

#[test]
fn what_is_traced_of_arms_and_cannot_be_written_is_no_arm_that_is_not_explained() {
    let words = ["explain", "pipes", "--arms", "write-read@free", "--placement", "free"];
    let words = [&words[..], &["--bytes", "1M", "--no-store", "--trace", "offcpu"]].concat();
    let done = run_for_nobody(&mut bytepath(&words));
    if done.stderr.contains("cannot trace") {
        println!("skipped: {}", done.stderr);
        return;
    }
    done.well();
    let full = format!("exec $bytepath {} >/dev/full", words.join(" "));
    let done = shell(&full).refused(1, &["standard output: No space left"]);
    assert!(!done.stderr.contains("not explained"), "{done:?}");
}

#[test]
fn arms_that_nobody_may_trace_are_told_and_the_code_is_1() {
    let Some(as_nobody) = as_nobody() else { return };
    let words = "explain pipes --arms write-read@free --placement free --bytes 1M --no-store";
    let done = shell(&format!("cd / && {as_nobody}\"$bytepath\" {words} --trace offcpu"));
    if [Some(126), Some(127)].contains(&done.status.code()) {
        println!("skipped: nobody cannot run the program from where it was built: {}", done.stderr);
        return;
    }
    done.refused(1, &["not explained: write-read@free: cannot trace", "CAP_BPF"]);
    // Before the first sample, so that a run of hours need not end to tell.
    let words = "bench cmd 'exit 3' --no-store --explain";
    let done = shell(&format!("cd / && {as_nobody}\"$bytepath\" {words} --trace offcpu"));
    done.refused(1, &["arms are measured, but not traced: cannot trace", "no arm can run here"]);
}

#[test]
fn what_is_traced_of_arms_is_promised_to_no_record() {
    for output in ["--json", "--report"] {
        let words = ["explain", "pipes", "--trace", "offcpu", output, "/nonexistent/x"];
        run(&mut bytepath(&words)).refused(2, &["goes to standard output alone", "--report"]);
    }
}

#[test]
fn wrong_usage_names_the_modes() {
    run(&mut bytepath(&["explain", "--trace", "nonsense", "--", "true"])).refused(2, &["filelife"]);
    let words = ["explain", "--trace", "tcp", "--tree", "--", "true"];
    run(&mut bytepath(&words)).refused(2, &["--trace takes no samples"]);
    let words = ["explain", "--trace", "tcp", "--pid", "4194304", "--for", "1s"];
    run(&mut bytepath(&words)).refused(1, &["4194304"]);
}

#[test]
fn an_ordinary_user_is_told_which_capabilities_it_takes() {
    if !rustix::process::geteuid().is_root() {
        run(&mut bytepath(&["explain", "--trace", "offcpu", "--", "true"]))
            .refused(1, &["CAP_BPF"]);
        return;
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", BYTEPATH]);
    command.args(["explain", "--trace", "offcpu", "--", "true"]).current_dir("/");
    command.stdin(Stdio::null()).env_remove("RUST_BACKTRACE");
    let done = run(&mut command);
    if done.status.code() == Some(127) || done.stderr.contains("setpriv") {
        println!("skipped: nobody cannot run the program from where it was built: {}", done.stderr);
        return;
    }
    done.refused(1, &["cannot trace", "CAP_BPF and CAP_PERFMON", "run it as root"]);
}

/// A pipe comes without open(2), and often where a file was that has been closed.
#[test]
fn what_went_through_a_pipe_is_not_said_to_be_of_a_file() {
    let line = "head -c 1000000 /dev/zero | cat >/dev/null";
    let Some((json, done)) = traced(&["--trace", "filelife", "--", "sh", "-c", line]) else {
        return;
    };
    assert!(done.status.success(), "{done:?}");
    let rows = json["rows"].as_array().expect("rows");
    let written = |row: &Value| row["written_bytes"].as_u64().unwrap_or(0);
    for row in rows {
        let is_read_only = row["path"].as_str().is_some_and(|path| path.starts_with("/etc/"));
        assert!(!is_read_only || written(row) == 0, "nobody writes it: {row}");
    }
    let pipes: Vec<&Value> = rows
        .iter()
        .filter(|row| row["path"].as_str().is_some_and(|path| path.starts_with("pipe:")))
        .collect();
    let read: u64 = pipes.iter().map(|row| row["read_bytes"].as_u64().unwrap_or(0)).sum();
    let into: u64 = pipes.iter().map(|row| written(row)).sum();
    assert_eq!((into, read), (1_000_000, 1_000_000), "{pipes:#?}");
}

#[test]
fn when_a_file_was_opened_is_told() {
    let line = "sleep 0.2; exec 5</etc/group; sleep 0.1";
    let Some((json, _)) = traced(&["--trace", "filelife", "--", "sh", "-c", line]) else {
        return;
    };
    let rows = json["rows"].as_array().expect("rows");
    let of_group = |row: &&Value| row["path"] == "/etc/group";
    let opened: Vec<Option<f64>> =
        rows.iter().filter(of_group).map(|row| row["opened_at"].as_f64()).collect();
    assert!(opened.iter().any(|at| *at > Some(0.2)), "{rows:#?}");
}
