//! `bytepath pages`: the memory of processes that is known.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use bytepath::machine::Machine;
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::Value;

use crate::program::{
    BYTEPATH, as_published, bytepath, installed, root, root_as_nobody, run, run_for_nobody, shell,
    spawned, until,
};

/// A process that has 8 MiB in huge pages, or in small ones.
fn has_memory(pages: &str) -> crate::program::Bounded {
    let words = format!("sweep --way write --block 8M --pages {pages} {} --time 60s", on_a_cpu());
    let words: Vec<_> = words.split(' ').collect();
    spawned(bytepath(&words).stdout(Stdio::null()).stderr(Stdio::null()))
}

/// The words for one that this process may use.
fn on_a_cpu() -> String {
    let cpu = Machine::this().allowed_cpus().first().expect("a CPU");
    format!("--cpus {cpu}")
}

/// The mapping of those 8 MiB, once it is there.
fn mapping_of(pid: &str, more: &[&str]) -> Value {
    let began = std::time::Instant::now();
    loop {
        let words = [&["pages", pid, "--json", "-"], more].concat();
        let seen = run(&mut bytepath(&words)).well().json_of("pages");
        let mappings = seen["processes"][0]["mappings"].as_array().expect("mappings").clone();
        let whole = |mapping: &&Value| {
            mapping["anonymous_bytes"].as_u64().is_some_and(|bytes| bytes >= 8 << 20)
        };
        if let Some(mapping) = mappings.iter().find(whole) {
            return mapping.clone();
        }
        assert!(began.elapsed().as_secs() < 60, "the memory comes: {seen}");
    }
}

#[test]
fn huge_pages_are_told_from_small_ones_with_what_could_be_huge() {
    let mut small = has_memory("base");
    let pid = small.child().id().to_string();
    let mapping = mapping_of(&pid, &[]);
    assert_eq!(mapping["anon_huge_bytes"], 0, "{mapping}");
    let advice = mapping["advice"].as_str().expect("it could be huge");
    assert!(advice.contains("could be in 2 MiB pages and is not"), "{advice}");
    let said = run(&mut bytepath(&["pages", &pid])).well().stdout;
    assert!(
        said.contains("8 MiB could be in 2 MiB pages") && said.contains("in huge pages"),
        "{said}"
    );
    if root() {
        let base = &mapping["frames"]["bytes_by_page"];
        assert!(base["4096"].as_u64().is_some_and(|bytes| bytes >= 4 << 20), "{base}");
        let each = run(&mut bytepath(&["pages", &pid, "--each"])).well().stdout;
        assert!(each.contains("  frame ") && each.contains("(base)"), "{each}");
    }
    let mut huge = has_memory("huge");
    let pid = huge.child().id().to_string();
    let mapping = mapping_of(&pid, &[]);
    if mapping["anon_huge_bytes"] == 0 {
        println!("skipped: no huge pages are to be had here");
        return;
    }
    if root() {
        let sizes = &mapping["frames"]["bytes_by_page"];
        assert!(sizes["2097152"].as_u64().is_some_and(|bytes| bytes >= 4 << 20), "{sizes}");
    }
}

#[test]
fn a_command_and_what_it_starts_are_looked_at_and_its_code_is_passed_on() {
    let sweep = format!("{BYTEPATH} sweep --way write --block 8M {}", on_a_cpu());
    let line = format!("{sweep} --time 300ms >&2; exit 7");
    let json = tempfile::NamedTempFile::new().expect("a file");
    let words = ["pages", "--json", json.path().to_str().expect("plain"), "--", "sh", "-c", &line];
    let done = run(&mut bytepath(&words));
    assert_eq!(done.status.code(), Some(7), "{done:?}");
    assert_eq!(done.stdout, "", "it is the command's: {done:?}");
    let seen = std::fs::read_to_string(json.path()).expect("it is there");
    let seen: Value = serde_json::from_str(&seen).expect("JSON");
    as_published("pages", &seen);
    let seen = seen["processes"].as_array().expect("processes");
    let most = seen.iter().filter_map(|process| process["resident_bytes"].as_u64()).max();
    assert!(
        seen.len() >= 2 && most.is_some_and(|bytes| bytes >= 8 << 20),
        "{}: {most:?}",
        seen.len()
    );
    assert!(done.stderr.contains("sweep --way write"), "{done:?}");
}

#[test]
fn the_commands_code_is_passed_on_also_where_nobody_reads_what_was_seen() {
    for command in ["pages", "explain"] {
        let words = [command, "--json", "-", "--", "sh", "-c", "exit 5"];
        let done = run_for_nobody(&mut bytepath(&words));
        assert_eq!(done.status.code(), Some(5), "{command}: {done:?}");
        assert!(!done.stderr.contains("standard output"), "{command}: {done:?}");
    }
}

#[test]
fn the_processes_that_one_started_are_shown_where_that_is_asked_for() {
    let mut command = Command::new("sh");
    command.args(["-c", "sleep 60 & sleep 60"]).stdout(Stdio::null());
    let mut shell = spawned(&mut command);
    let pid = shell.child().id().to_string();
    let count = |words: &[&str]| {
        let words = [&["pages", &pid, "--json", "-"], words].concat();
        let seen = run(&mut bytepath(&words)).well().json_of("pages");
        seen["processes"].as_array().expect("processes").len()
    };
    until("their start", || count(&["--children"]) >= 3);
    assert_eq!(count(&[]), 1);
}

#[test]
fn a_file_whose_name_is_no_text_hides_nothing() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = folder.path().display();
    let line = format!(
        "cd {path}; b=$(printf 'b\\351'); mkdir $b; ln $bytepath $b/b; $bytepath pages --json json -- $b/b \
         sweep --way write --block 8M {} --time 300ms >/dev/null; \
         $b/b write --huge-page --check-huge-page --bytes-to-pipe 1M | wc -c",
        on_a_cpu()
    );
    let done = shell(&line);
    let seen = std::fs::read_to_string(folder.path().join("json")).expect("it is there");
    assert!(seen.contains("/b\u{fffd}/b\""), "{seen}");
    assert!(!done.stderr.contains("smaps"), "{done:?}");
}

#[test]
fn root_from_whom_physical_pages_are_hidden_is_told_so() {
    if !root() || !installed("setpriv") {
        println!("skipped: needs root and setpriv");
        return;
    }
    let without = "setpriv --bounding-set -sys_admin --inh-caps -sys_admin";
    let done = shell(&format!("{without} $bytepath pages --each --all $$")).well();
    assert!(done.stdout.contains("hidden from all but root"), "{done:?}");
    assert!(!done.stdout.contains("  frame "), "{done:?}");
}

#[test]
fn what_cannot_be_looked_at_says_why() {
    run(&mut bytepath(&["pages", "999999999"])).refused(1, &["there is no process 999999999"]);
    run(&mut bytepath(&["pages", "0"])).refused(1, &["there is no process 0"]);
    run(&mut bytepath(&["pages"])).refused(2, &["PID"]);
    run(&mut bytepath(&["pages", "x"])).refused(2, &["invalid"]);
    run(&mut bytepath(&["pages", "--", "/no/such"])).refused(127, &["cannot start /no/such"]);
    run(&mut bytepath(&["pages", "--", "/etc/passwd"])).refused(126, &["Permission denied"]);
    let done = run(&mut bytepath(&["pages", "--", "true"]));
    assert!(done.status.success(), "{done:?}");
    if root() && installed("unshare") {
        let hidden =
            "unshare -m sh -c 'mount -t tmpfs none /proc && exec \"$bytepath\" pages -- true'";
        shell(hidden).refused(1, &["/proc/self/smaps cannot be read"]);
        let sweep = format!("sweep --way read --block 8M --pages base {} --time 1ms", on_a_cpu());
        shell(&hidden.replace("pages -- true", &sweep)).refused(1, &["/proc/self/smaps: "]);
        let process = hidden.replace("-- true", "1");
        shell(&process).refused(1, &["cannot look at process 1: /proc is not mounted"]);
    }
    // A kernel thread has none.
    if root() && std::fs::read_to_string("/proc/2/comm").is_ok_and(|name| name == "kthreadd\n") {
        run(&mut bytepath(&["pages", "2"])).refused(1, &["a thread of the kernel's"]);
    }
    let Some(nobody) = root_as_nobody() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let copy = folder.path().join("program");
    std::fs::copy(BYTEPATH, &copy).expect("a copy");
    let line = format!(
        "chmod 755 {}; {nobody}{} pages $PPID; {nobody}{} pages -- sleep 0.3",
        folder.path().display(),
        copy.display(),
        copy.display()
    );
    let done = shell(&line);
    assert!(done.stderr.contains("only its user and root may"), "{done:?}");
    assert!(done.status.success() && done.stderr.contains("hidden from all but root"), "{done:?}");
}

#[test]
fn what_may_not_be_looked_at_is_not_taken_for_gone() {
    let Some(nobody) = root_as_nobody() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().display();
    let begin = format!(
        "cd {at}; chmod 755 .; cp {BYTEPATH} bytepath; mkdir -p shut; cp $(command -v sleep) shut; \
         chmod 711 shut/sleep"
    );
    // Who may not read a program may not look at it either.
    let done = shell(&format!("{begin}; {nobody}./bytepath pages -- shut/sleep 0.5"));
    let refused = "cannot look at process ";
    assert!(done.status.success() && done.stderr.contains(refused), "{done:?}");
    assert!(
        done.stderr.contains("Permission denied") && !done.stderr.contains("ended"),
        "{done:?}"
    );
    // Its shell may be looked at, and the child of that may not.
    let line = format!(
        "{begin}; {nobody}sh -c 'shut/sleep 100 & n=0; \
         until [ \"$(cat /proc/$!/comm)\" = sleep ] || [ $((n += 1)) = 9999 ]; do :; done; \
         ./bytepath pages $$ --children; echo $!; kill $!'"
    );
    let done = shell(&line);
    assert!(done.status.success(), "{done:?}");
    let child = done.stdout.lines().last().expect("it says its number");
    assert!(done.stderr.contains(&format!("{refused}{child}; ")), "{done:?}");
}

#[test]
fn a_signal_that_ends_it_ends_the_command_first() {
    let mut command = bytepath(&["pages", "--", "sh", "-c", "echo $$; exec sleep 1000"]);
    let mut pages = spawned(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut line = String::new();
    let out = pages.child().stdout.as_mut().expect("a pipe");
    BufReader::new(out).read_line(&mut line).expect("it says its number");
    kill_process(Pid::from_child(pages.child()), Signal::TERM).expect("it runs");
    let done = pages.done();
    assert_eq!(done.status.code(), Some(128 + 15), "{done:?}");
    let pid: i32 = line.trim().parse().expect("a number");
    let gone = test_kill_process(Pid::from_raw(pid).expect("a process"));
    assert!(gone.is_err(), "the command is over");
}
