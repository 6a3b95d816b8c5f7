//! `bytepath bench keepalive`: requests on kept connections and on one each, through nginx and without
//! it, and that all of it ends with the run.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use bytepath::shell::quoted;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::program::{
    arms, as_nobody, as_published, bytepath, children, figure, installed, root, run, shell,
    spawned, until,
};

/// Short enough for a test; the figures mean nothing.
const SHORT: &[&str] =
    &["bench", "keepalive", "--warm-up", "0s", "--rate", "500", "--connections", "4"];

/// Two blocks of it.
const BRIEF: &[&str] = &["--blocks", "2", "--time", "60ms"];

/// Places for notes and files; few letters, for the names of sockets.
struct Yard {
    dir: TempDir,
    state: TempDir,
}

impl Yard {
    fn new() -> Yard {
        // Configurations name it, in their own ways.
        let odd = tempfile::Builder::new().prefix("a \"b\\").tempdir().expect("a folder");
        Yard { dir: odd, state: tempfile::tempdir().expect("a folder") }
    }

    /// A brief run.
    fn brief(&self, words: &[&str]) -> Command {
        self.command(&[BRIEF, words].concat())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = bytepath(&[SHORT, words].concat());
        command.env("XDG_STATE_HOME", self.state.path());
        command.arg("--dir").arg(self.dir.path());
        command
    }

    #[track_caller]
    fn is_clean(&self) {
        for folder in [self.dir.path(), &self.state.path().join("bytepath/left")] {
            let all = fs::read_dir(folder).into_iter().flatten().flatten();
            let left: Vec<PathBuf> = all.map(|entry| entry.path()).collect();
            assert_eq!(left, Vec::<PathBuf>::new());
        }
    }
}

/// The record of a run; nothing, said aloud, where there can be no network apart.
#[track_caller]
fn record(command: &mut Command) -> Option<Value> {
    let done = run(command.args(["--json", "-"]));
    if !done.status.success() && done.stderr.contains("no network namespace of its own") {
        println!("skipped: {}", done.stderr);
        return None;
    }
    Some(done.well().json())
}

/// Whether an arm ran; only nginx may be missing.
#[track_caller]
fn ran(arm: &Value) -> bool {
    if arm["status"] == "ok" {
        return true;
    }
    let why = arm["why"].as_str().unwrap_or_default();
    assert!(why.contains("nginx is not installed"), "{}: {why}", arm["name"]);
    println!("skipped: {}: {why}", arm["name"]);
    false
}

#[test]
fn every_way_answers_every_request_and_kept_connections_are_few() {
    let yard = Yard::new();
    let globs = "proxy_pass/saturation/*,fastcgi_pass/saturation/*,http/*/tcp-*,fastcgi/*/unix-*";
    let Some(record) = record(&mut yard.brief(&["--arms", globs])) else { return };
    assert_eq!(arms(&record).len(), 16);
    for arm in arms(&record).iter().filter(|arm| ran(arm)) {
        let name = arm["name"].as_str().expect("a name");
        assert_eq!(figure(arm, "failed"), Some(0.0), "{name}");
        assert!(arm["median"].as_f64().is_some_and(|median| median > 0.0), "{name}");
        let version = arm["params"]["nginx"].as_str();
        assert_eq!(
            version.is_some_and(|it| it.contains("nginx/")),
            name.contains("_pass/"),
            "{name}"
        );
        let rate = name.contains("/rate/");
        assert_eq!(arm["unit"], if rate { "ns" } else { "op/s" }, "{name}");
        assert_eq!(
            arm["reference"],
            name.ends_with("/tcp-new")
                || name.ends_with("fastcgi/saturation/unix-new")
                || name.ends_with("fastcgi/rate/unix-new"),
            "{name}"
        );
        let opened = figure(arm, "opened").expect("the kernel counts them");
        let waits = figure(arm, "TIME_WAIT upstream").expect("it is looked at")
            + figure(arm, "TIME_WAIT caller").expect("it is looked at");
        let series = arm["params"]["time_wait_series"].as_array().expect("a series");
        assert!(!series.is_empty() && series.iter().all(|look| look[0].is_number()), "{name}");
        match name.ends_with("tcp-new") {
            // 60 ms at 500 a second are 30 requests.
            true => assert!(opened >= 20.0 && waits > 0.0, "{name}: {opened}, {waits}"),
            // 4 of the client's, and as many behind nginx, may be opened when the clock runs already.
            false => assert!(opened <= 12.0 && waits < 12.0, "{name}: {opened}, {waits}"),
        }
    }
    as_published("record", &record);
    yard.is_clean();
}

#[test]
fn the_table_ends_with_what_kept_connections_give_beside_what_was_published() {
    let yard = Yard::new();
    // Two blocks have no interval, and so say nothing.
    let words = [
        "--blocks",
        "3",
        "--time",
        "60ms",
        "--arms",
        "proxy_pass/saturation/tcp-*,http/saturation/tcp-*",
    ];
    let done = run(&mut yard.command(&words));
    if !done.status.success() && done.stderr.contains("namespace") {
        return println!("skipped: {}", done.stderr);
    }
    let said = done.well().stdout;
    let last = said.split("\n\n").find(|text| text.starts_with("Here ")).unwrap_or_default();
    let last = last.replace("\n  ", " ");
    assert!(last.contains("without nginx"), "{said}");
    if !said.contains("nginx is not installed") {
        assert!(last.contains("published: from over 1000 to about 20"), "{last}");
    }
    assert!(said.contains("TIME_WAIT"), "{said}");
}

#[test]
fn an_ordinary_user_measures_too_where_users_may_have_namespaces() {
    let Some(nobody) = as_nobody() else { return };
    let yard = Yard::new();
    for folder in [yard.dir.path(), yard.state.path()] {
        fs::set_permissions(folder, std::os::unix::fs::PermissionsExt::from_mode(0o777))
            .expect("ours");
    }
    let [dir, state] = [&yard.dir, &yard.state].map(|folder| quoted(folder.path()));
    let arms = "proxy_pass/saturation/unix-kept,http/rate/tcp-new";
    let line = format!(
        "cd {dir} && XDG_STATE_HOME={state} XDG_DATA_HOME={state} {nobody}$bytepath {} --dir {dir} --arms {arms} --json -",
        [SHORT, BRIEF].concat().join(" ")
    );
    let done = shell(&line);
    if !done.status.success() && done.stderr.contains("no network namespace of its own") {
        assert!(done.stderr.contains("max_user_namespaces"), "{done:?}");
        return println!("skipped: {}", done.stderr);
    }
    let record = done.well().json();
    let ran = self::arms(&record).iter().filter(|arm| ran(arm)).count();
    assert!(ran >= 1, "{record}");
    yard.is_clean();
}

#[test]
fn without_the_right_to_a_namespace_the_reason_and_the_remedy_are_told() {
    if !root() || !installed("setpriv") {
        return println!("skipped: it takes root, and setpriv, to give up a right");
    }
    let yard = Yard::new();
    let [dir, state] = [&yard.dir, &yard.state].map(|folder| quoted(folder.path()));
    let line = format!(
        "XDG_STATE_HOME={state} setpriv --bounding-set -sys_admin --inh-caps -sys_admin $bytepath {} \
         --dir {dir} --arms http/saturation/tcp-new",
        [SHORT, BRIEF].concat().join(" ")
    );
    shell(&line).refused(1, &["no network namespace of its own", "CAP_SYS_ADMIN"]);
    yard.is_clean();
}

/// The processes below one, by their numbers and lines.
fn below(pid: Pid) -> Vec<(Pid, String)> {
    let mut all = Vec::new();
    for child in children(pid) {
        let line = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
        all.push((child, line));
        all.extend(below(child));
    }
    all
}

#[test]
fn a_run_that_is_ended_takes_all_its_processes_with_it() {
    let yard = Yard::new();
    let probe = ["--arms", "proxy_pass/saturation/tcp-new"];
    let is_there = |record: &Value| arms(record).iter().all(ran);
    if !record(&mut yard.brief(&probe)).is_some_and(|record| is_there(&record)) {
        return;
    }
    for signal in [Signal::KILL, Signal::INT] {
        let words = ["--blocks", "1000", "--time", "1s", "--arms", "proxy_pass/saturation/tcp-new"];
        let mut command = yard.command(&words);
        let mut bench = spawned(command.stdout(Stdio::null()).stderr(Stdio::null()));
        let pid = Pid::from_child(bench.child());
        let is_worker = |(_, line): &(Pid, String)| line.contains("nginx: worker");
        until("nginx's worker", || below(pid).iter().any(is_worker));
        let all = below(pid);
        kill_process(pid, signal).expect("it runs");
        bench.child().wait().expect("it ends");
        let is_gone = |(pid, line): &(Pid, String)| {
            let now = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            now.is_empty() || now != *line
        };
        until("the end of all", || all.iter().all(is_gone));
        if signal == Signal::KILL {
            assert!(fs::read_dir(yard.dir.path()).expect("it lists").next().is_some());
            let next = run(&mut yard.brief(&["--arms", "http/saturation/unix-kept"]));
            assert!(next.status.success() && next.stderr.contains("removed "), "{next:?}");
        }
        yard.is_clean();
    }
}

#[test]
fn arms_are_named_and_what_cannot_be_is_refused() {
    let listed = run(&mut bytepath(&["bench", "keepalive", "--list"])).well().stdout;
    assert_eq!(listed.lines().count(), 32);
    assert_eq!(listed.lines().next(), Some("proxy_pass/saturation/tcp-new"));
    let refused = |words: &[&str], code: i32, says: &str| {
        run(&mut bytepath(&[&["bench", "keepalive"], words].concat())).refused(code, &[says]);
    };
    refused(&["--connections", "0"], 2, "0 is not in 1..=4000");
    refused(&["--rate", "0"], 2, "no rate");
    refused(&["--workers", "1000"], 2, "1000 is not in");
    refused(&["--arms", "no-such"], 2, "no arm matches");
    refused(&["--dir", "/no/such"], 1, "/no/such");
    let process = |words: &[&str], says: &str| {
        run(&mut bytepath(words)).refused(2, &[says]);
    };
    process(&["fetch", "udp:1"], "no address");
    process(&["upstream", "tcp:0"], "is no port");
    process(&["upstream", "--protocol", "gopher", "tcp:1"], "http, fastcgi");
    process(&["keepalive", "--sample", "{}"], "missing field");
    run(&mut bytepath(&["upstream", "unix:/no/such/socket"])).refused(1, &["cannot serve"]);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("it has one").port();
    run(&mut bytepath(&["upstream", &format!("tcp:{port}")])).refused(1, &["in use"]);
}
