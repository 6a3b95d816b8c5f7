//! `bytepath doctor`: what it says here, to whom, and what it changes.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::calls::may_trace;
use crate::program::{BYTEPATH, Done, bytepath, run, run_for_nobody, shell, where_calls_kill};

fn findings(json: &Value) -> Vec<&Value> {
    json["findings"].as_array().expect("findings").iter().collect()
}

fn finding<'j>(json: &'j Value, name: &str) -> &'j Value {
    let found = findings(json).into_iter().find(|finding| finding["name"] == name);
    found.unwrap_or_else(|| panic!("{name} is not in {json:#}"))
}

#[test]
fn what_it_says_is_what_the_published_schema_says_and_its_code_tells_what_is_poor() {
    let done = run(&mut bytepath(&["doctor", "--json", "-"]));
    let json = done.json_of("doctor");
    let poor = findings(&json).iter().filter(|one| one["verdict"] == "poor").count();
    assert_eq!(json["poor"], poor);
    assert_eq!(done.status.code(), Some(i32::from(poor > 0)), "{done:?}");
    let unread = run_for_nobody(&mut bytepath(&["doctor"]));
    assert_eq!((unread.status, &*unread.stderr), (done.status, ""));
    for name in [
        "pipe-size",
        "memlock",
        "thp",
        "hugetlb",
        "swap",
        "io-uring",
        "seccomp",
        "mitigations",
        "governor",
        "wake-ups",
        "virtual-machine",
        "container",
        "steal",
        "cgroup-cpu",
        "cgroup-memory",
        "psi",
        "file-system",
        "mount-options",
        "iopoll",
        "somaxconn",
        "tcp-tw-reuse",
        "gso",
        "perf-event-paranoid",
        "kptr-restrict",
        "bpf",
    ] {
        let one = finding(&json, name);
        let said = |field: &str| one[field].as_str().is_some_and(|text| !text.is_empty());
        assert!(said("found") && said("why"), "{one}");
        assert!(one["verdict"] != "poor" || said("setting"), "{one}");
    }
}

#[test]
fn the_table_has_every_finding_and_how_each_poor_one_is_set() {
    let json = run(&mut bytepath(&["doctor", "--json", "-"])).json();
    let table = run(&mut bytepath(&["doctor"]));
    assert!(table.stderr.is_empty(), "{table:?}");
    let words = table.stdout.split_whitespace().collect::<Vec<_>>().join(" ");
    for one in findings(&json) {
        let head =
            format!("{} {} ", one["verdict"].as_str().unwrap(), one["name"].as_str().unwrap());
        assert!(words.contains(&head), "{head} is not in {}", table.stdout);
        if one["verdict"] == "poor" {
            let setting = one["setting"].as_str().expect("a setting");
            let line = format!("         set: {setting}");
            assert!(
                table.stdout.lines().any(|told| told == line),
                "{line} is not in {}",
                table.stdout
            );
        }
    }
}

#[test]
fn wrong_usage_ends_with_2_and_names_what_there_is() {
    for (words, told) in [
        (&["doctor", "--apply", "nonsense"][..], "pipe-size"),
        (&["doctor", "--frobnicate"][..], "--frobnicate"),
    ] {
        run(&mut bytepath(words)).refused(2, &[told]);
    }
    let json = run(&mut bytepath(&["doctor", "--json", "-"])).json();
    let poor = |one: &Value| one["verdict"] == "poor";
    // Without a terminal nobody can be asked.
    if findings(&json).iter().any(|one| poor(one) && one["changeable"] == true) {
        run(&mut bytepath(&["doctor", "--apply"])).refused(2, &["name what is to be changed"]);
    }
    if let Some(fixed) = findings(&json).iter().find(|one| poor(one) && one["changeable"] == false)
    {
        let name = fixed["name"].as_str().expect("a name");
        run(&mut bytepath(&["doctor", "--apply", name])).refused(2, &["change it yourself"]);
    }
}

#[test]
fn both_are_said_where_neither_the_table_nor_the_document_can_be_written() {
    let done = shell("$bytepath doctor --json /dev/full >/dev/full");
    done.refused(1, &["cannot write /dev/full", "standard output"]);
}

#[test]
fn calls_that_a_filter_kills_for_are_found_and_not_made() {
    let calls = [libc::SYS_io_uring_setup, libc::SYS_bpf, libc::SYS_perf_event_open];
    let json = where_calls_kill(&calls, &["doctor", "--json", "-"]).json();
    let filter = "a filter that kills whoever calls io_uring_setup, perf_event_open, bpf";
    assert_eq!(finding(&json, "seccomp")["found"], filter);
    let ring = finding(&json, "io-uring")["found"].as_str().expect("found");
    assert!(ring.starts_with("no: "), "{ring}");
    // One that only refuses, or none that is risky, is a filter and no more.
    let json = where_calls_kill(&[libc::SYS_kcmp], &["doctor", "--json", "-"]).json();
    assert_eq!(finding(&json, "seccomp")["found"], "a filter");
}

#[test]
fn a_place_has_its_mount_and_its_device_where_statx_is_refused_too() {
    if !may_trace() {
        return;
    }
    let told = run(&mut bytepath(&["doctor", "--dir", "/", "--json", "-"])).json();
    let strace = "strace -f -qqq -o /dev/null -e trace=statx -e inject=statx:error=EPERM";
    let refused = shell(&format!("{strace} $bytepath doctor --dir / --json -")).json();
    for name in ["file-system", "mount-options", "iopoll"] {
        assert_eq!(finding(&refused, name), finding(&told, name));
    }
}

#[test]
fn a_directory_that_is_not_there_is_unknown_and_said() {
    let done = run(&mut bytepath(&["doctor", "--dir", "/no/such/place", "--json", "-"]));
    let json = done.json();
    let one = finding(&json, "file-system");
    assert_eq!(one["verdict"], "unknown");
    assert!(one["why"].as_str().is_some_and(|why| why.contains("/no/such/place")), "{one}");
}

/// As nobody; says why not where that is impossible.
fn as_nobody(words: &[&str]) -> Option<Command> {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only root can become somebody else");
        return None;
    }
    let copy = Path::new(env!("CARGO_TARGET_TMPDIR")).join("doctor-of-nobody");
    fs::create_dir_all(&copy).expect("a folder");
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all", BYTEPATH]);
    command.args(words).env("XDG_STATE_HOME", copy).current_dir("/");
    let can = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups", BYTEPATH, "--version"])
        .output();
    if !can.is_ok_and(|can| can.status.success()) {
        println!("skipped: nobody cannot run the program from where it was built, or no setpriv");
        return None;
    }
    Some(command)
}

#[test]
fn an_ordinary_user_is_told_what_is_not_for_them_and_may_change_nothing() {
    let Some(mut command) = as_nobody(&["doctor", "--json", "-"]) else { return };
    let done = run(&mut command);
    let json = done.json();
    let bpf = finding(&json, "bpf");
    assert_eq!((&bpf["verdict"], &bpf["found"]), (&"poor".into(), &"not for this user".into()));
    let poor = |one: &&&Value| one["verdict"] == "poor" && one["changeable"] == true;
    let all = findings(&json);
    let Some(changeable) = all.iter().find(poor) else {
        println!("not looked at: everything that could be changed is well here");
        return;
    };
    let name = changeable["name"].as_str().expect("a name");
    let Some(mut command) = as_nobody(&["doctor", "--apply", name]) else { return };
    run(&mut command).refused(1, &[&format!("cannot change {name}"), "run it as root"]);
}

#[test]
fn without_proc_and_sys_it_says_what_it_cannot_know() {
    let line = format!(
        "mount -t tmpfs none /proc && mount -t tmpfs none /sys && exec {BYTEPATH} doctor --json -"
    );
    let mut command = Command::new("unshare");
    command.args(["--mount", "--pid", "--fork", "sh", "-c", &line]);
    if !rustix::process::geteuid().is_root() {
        command = Command::new("unshare");
        command.args([
            "--user",
            "--map-root-user",
            "--mount",
            "--pid",
            "--fork",
            "sh",
            "-c",
            &line,
        ]);
    }
    let done = run(&mut command);
    if done.stdout.is_empty() && (done.stderr.contains("unshare") || done.stderr.contains("mount"))
    {
        println!("skipped: no namespaces: {}", done.stderr);
        return;
    }
    let json = done.json();
    assert!(!done.stderr.contains("panicked"), "{done:?}");
    let unknown = [
        "somaxconn",
        "steal",
        "swap",
        "cgroup-cpu",
        "psi",
        "mitigations",
        "seccomp",
        "thp",
        "governor",
    ];
    for name in unknown {
        assert_eq!(finding(&json, name)["verdict"], "unknown", "{name} in {json:#}");
    }
    assert_ne!(finding(&json, "pipe-size")["verdict"], "unknown", "a pipe itself tells");
}

/// net.core.somaxconn is of each network namespace: one of our own is changed, and goes.
#[test]
fn a_setting_is_changed_when_named_and_undone_by_what_is_printed() {
    let line = format!(
        "echo 128 > /proc/sys/net/core/somaxconn && {BYTEPATH} doctor --apply somaxconn; \
         echo \"code $?\"; cat /proc/sys/net/core/somaxconn"
    );
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", &line]);
    let done = run(&mut command);
    if !done.stdout.contains("code ") {
        println!("skipped: no network namespaces: {}", done.stderr);
        return;
    }
    let told = &done.stdout;
    assert!(told.contains("/proc/sys/net/core/somaxconn was 128 and is 4096"), "{done:?}");
    assert!(told.contains("undo: sysctl -w net.core.somaxconn=128"), "{done:?}");
    assert!(told.trim_end().ends_with("4096"), "{done:?}");

    // In JSON too, and the command that undoes it does.
    let line = format!(
        "echo 128 > /proc/sys/net/core/somaxconn && {BYTEPATH} doctor --apply somaxconn --json -"
    );
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", &line]);
    let json = run(&mut command).json();
    let applied = &json["applied"][0];
    assert_eq!((&applied["from"], &applied["to"]), (&"128".into(), &"4096".into()));
    assert_eq!(finding(&json, "somaxconn")["verdict"], "good", "it is looked at again");
    let undo = applied["undo"].as_str().expect("a command");
    let line = format!(
        "echo 4096 > /proc/sys/net/core/somaxconn && {undo} >&2 && cat /proc/sys/net/core/somaxconn"
    );
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", &line]);
    let done = run(&mut command);
    if done.stderr.contains("not found") {
        println!("not looked at: no sysctl here");
        return;
    }
    assert_eq!(done.stdout.trim(), "128", "{done:?}");
}

/// Runs a line of shell in a network namespace of its own, in which net.core.somaxconn is 128; says
/// why not where there is none.
fn with_short_queue(line: &str) -> Option<Done> {
    let line = format!("echo 128 > /proc/sys/net/core/somaxconn && {{ {line}; }}; echo ran >&2");
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", &line]).env("bytepath", BYTEPATH);
    let done = run(&mut command);
    if done.stderr.contains("ran") {
        return Some(done);
    }
    println!("skipped: no network namespaces: {}", done.stderr);
    None
}

#[test]
fn a_change_is_undone_by_what_is_told_also_where_the_table_reaches_nobody() {
    let undo = "undo: sysctl -w net.core.somaxconn=128\n";
    for sink in [">/dev/full", "| head -n 1 >/dev/null", "--json - >/dev/full"] {
        let line = format!(
            "\"$bytepath\" doctor --apply somaxconn {sink}; cat /proc/sys/net/core/somaxconn"
        );
        let Some(done) = with_short_queue(&line) else { return };
        assert_eq!(
            (done.stdout.as_str(), done.stderr.contains(undo)),
            ("4096\n", true),
            "{done:?}"
        );
    }
    let line = "\"$bytepath\" doctor --apply somaxconn >&-; cat /proc/sys/net/core/somaxconn";
    let Some(done) = with_short_queue(line) else { return };
    assert_eq!(done.stdout, "128\n", "nothing is changed: {done:?}");
}

#[test]
fn a_setting_that_is_named_twice_is_changed_once() {
    let line = "\"$bytepath\" doctor --apply somaxconn somaxconn --json -";
    let Some(done) = with_short_queue(line) else { return };
    let json = done.json();
    let applied = json["applied"].as_array().expect("changes");
    assert_eq!((applied.len(), &applied[0]["from"]), (1, &"128".into()), "{json:#}");
}

#[test]
fn what_is_well_already_is_left_alone() {
    let line = format!(
        "echo 4096 > /proc/sys/net/core/somaxconn && {BYTEPATH} doctor --apply somaxconn --json -"
    );
    let mut command = Command::new("unshare");
    command.args(["--net", "sh", "-c", &line]);
    let done = run(&mut command);
    if done.stdout.is_empty() {
        println!("skipped: no network namespaces: {}", done.stderr);
        return;
    }
    assert_eq!(done.json()["applied"], Value::Array(Vec::new()));
    assert!(done.stderr.contains("somaxconn is good: nothing is changed"), "{done:?}");
}
