//! `bytepath explain`: of commands, processes and arms; without rights; cut short.

use std::fs;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bytepath::machine::{Capability, Machine};
use bytepath_report::Record;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;

use crate::program::{
    BYTEPATH, as_nobody, as_published, bytepath, catches, children, installed, may_mount, root,
    run, shell, spawned, until, where_calls_kill,
};

/// A child that works for a moment.
const WORKS: &str = "head -c 300M /dev/zero | md5sum >/dev/null";

/// Whether samples of whole CPUs may be taken here; if not, says so.
fn may_see_all() -> bool {
    let may = root();
    if !may {
        eprintln!("skipped: only root may see whole CPUs");
    }
    may
}

fn record(path: &std::path::Path) -> Record {
    let text = fs::read_to_string(path).expect("it was written");
    let value: Value = serde_json::from_str(&text).expect("it is JSON");
    as_published("record", &value);
    Record::from_json(&text).expect("it is a record")
}

#[test]
fn a_command_is_explained_and_ends_as_it_would_have() {
    let done = run(&mut bytepath(&["explain", "--", "sh", "-c", "echo out; echo err >&2; exit 3"]));
    assert_eq!(done.status.code(), Some(3), "{done:?}");
    assert_eq!(done.stdout, "out\n");
    for word in ["err\n", "class", "share"] {
        assert!(
            done.stderr.contains(word) || done.stderr.contains("no samples"),
            "{word}: {done:?}"
        );
    }
}

#[test]
fn what_cannot_be_told_has_failed_unless_the_command_has() {
    for (command, code) in [("true", 1), ("sh -c 'exit 5'", 5)] {
        for nowhere in ["2>/dev/full", "2>&-"] {
            let done = shell(&format!("\"$bytepath\" explain -- {command} {nowhere}"));
            assert_eq!(done.status.code(), Some(code), "{command} {nowhere}: {done:?}");
        }
    }
}

/// The kernel tells of a wake-up by both threads where both are of the work.
#[test]
fn a_wakeup_is_counted_once() {
    if !may_see_all() {
        return;
    }
    let file = tempfile::NamedTempFile::new().expect("a file");
    let (path, line) =
        (file.path(), "for i in 1 2 3 4 5 6 7 8 9; do yes | head -c 9M; done | wc -c");
    let mut command = bytepath(&["explain", "--json", path.to_str().expect("plain")]);
    let done = run(command.args(["--", "sh", "-c", line]));
    assert!(done.status.success(), "{done:?}");
    let record = record(path);
    let counters = &record.arms[0].explained.as_ref().expect("it is explained").counters;
    let count = |name: &str| counters.get(name).copied().unwrap_or_default();
    let (woken, slept) = (count("wakeups"), count("context-switches-voluntary"));
    // Whoever sleeps is woken once, here by another of the work.
    assert!(slept > 100.0 && (0.3..1.5).contains(&(woken / slept)), "{counters:?}");
}

#[test]
fn a_command_that_cannot_start_ends_as_in_a_shell() {
    run(&mut bytepath(&["explain", "--", "/nonexistent/program"]))
        .refused(127, &["No such file or directory"]);
    run(&mut bytepath(&["explain", "--", "no-such-program"])).refused(127, &["command not found"]);
    run(&mut bytepath(&["explain", "--", "/etc/passwd"])).refused(126, &["Permission denied"]);
}

#[test]
fn what_makes_no_sense_is_refused() {
    run(&mut bytepath(&["explain"])).refused(2, &["nothing to explain", "--pid"]);
    run(&mut bytepath(&["explain", "--pid", "1", "--", "true"]))
        .refused(2, &["cannot be used with"]);
    run(&mut bytepath(&["explain", "--for", "1s", "--", "true"]))
        .refused(2, &["cannot be used with"]);
    run(&mut bytepath(&["explain", "--for", "1s"])).refused(2, &["--pid"]);
    run(&mut bytepath(&["explain", "--pid", "4194400"]))
        .refused(1, &["there is no process 4194400"]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let thread = rustix::thread::gettid().to_string();
            run(&mut bytepath(&["explain", "--pid", &thread])).refused(1, &["is a thread", "Tgid"]);
        });
    });
    run(&mut bytepath(&["explain", "--stacks", "tea", "--", "true"])).refused(2, &["tables, fp"]);
    run(&mut bytepath(&["explain", "--flame", "/nonexistent/x.svg", "--", "true"]))
        .refused(1, &["/nonexistent/x.svg"]);
    run(&mut bytepath(&["explain", "--flame", "x", "--folded", "x", "--", "true"]))
        .refused(2, &["--flame and --folded are one file"]);
    run(&mut bytepath(&["run", "--flame", "x.svg", "true"])).refused(2, &["need --explain"]);
    run(&mut bytepath(&["bench", "pipes", "--hz", "99"])).refused(2, &["need --explain"]);
}

/// What each way of explaining the work draws, with these words, and the stacks that it writes.
#[track_caller]
fn drawn(words: &str) -> Vec<(String, Vec<String>)> {
    let ways = [
        format!("explain --tree --folded f {words} -- sh -c '{WORKS}'"),
        format!("run --explain --tree --folded f {words} '{WORKS}'"),
        format!("bench cmd --explain --blocks 2 --no-store --tree --folded f {words} '{WORKS}'"),
    ];
    let drawn = |way: &String| {
        let dir = tempfile::tempdir().expect("a directory");
        let done =
            shell(&format!("cd {} && $bytepath {way} && cat f >stacks", dir.path().display()));
        assert!(done.status.success(), "{way}: {done:?}");
        let stacks = fs::read_to_string(dir.path().join("stacks")).expect("they are written");
        (done.stdout + &done.stderr, stacks.lines().map(str::to_owned).collect())
    };
    ways.iter().map(drawn).collect()
}

#[test]
fn the_thread_and_the_function_that_are_asked_for_are_all_that_is_shown() {
    if !may_see_all() {
        return;
    }
    for (said, stacks) in drawn("--thread md5sum") {
        assert!(!stacks.is_empty(), "{said}");
        assert!(stacks.iter().all(|stack| stack.starts_with("md5sum")), "{stacks:?}");
    }
    for (said, stacks) in drawn("--symbol '*read*'") {
        assert!(!stacks.is_empty(), "{said}");
        assert!(stacks.iter().all(|stack| stack.contains("read")), "{stacks:?}");
    }
}

#[test]
fn branches_of_less_than_the_share_that_is_asked_for_are_left_out() {
    if !may_see_all() {
        return;
    }
    // Of what the tables show there is one decimal.
    let shares = |said: &str| -> Vec<f64> {
        let words = said.split(|letter: char| !letter.is_ascii_digit() && !".%".contains(letter));
        let shares = words.filter_map(|word| word.strip_suffix('%'));
        let of_branches = shares.filter(|it| it.split_once('.').is_some_and(|it| it.1.len() == 2));
        of_branches.map(|share| share.parse().expect("a number")).collect()
    };
    for (said, _) in drawn("--min-share 10") {
        let shares = shares(&said);
        assert!(!shares.is_empty() && shares.iter().all(|share| *share >= 10.0), "{said}");
    }
    for (said, _) in drawn("--min-share 0") {
        assert!(shares(&said).iter().any(|share| *share < 1.0), "{said}");
    }
}

#[test]
fn every_file_that_was_asked_for_is_written_and_can_be_read() {
    if !may_see_all() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name);
    let text = |name: &str| fs::read_to_string(path(name)).expect("it was written");
    for (run_number, work) in [("1", WORKS), ("2", "head -c 300M /dev/zero | gzip -1 >/dev/null")] {
        let done = shell(&format!(
            "cd {} && {BYTEPATH} explain --flame f.svg --folded f.folded --firefox f.json --json r{run_number}.json \
             --tree -- sh -c '{work}'",
            dir.path().display()
        ));
        assert!(done.status.success(), "{done:?}");
        assert!(
            done.stderr.contains("--") && done.stderr.contains("md5sum") || run_number == "2",
            "{done:?}"
        );
    }
    assert!(text("f.svg").trim_end().ends_with("</svg>"));
    let count: u64 = text("f.folded")
        .lines()
        .map(|line| line.rsplit_once(' ').expect("a count").1.parse::<u64>().expect("a number"))
        .sum();
    let explained = record(&path("r2.json")).arms[0].explained.clone().expect("it is explained");
    assert_eq!(count, explained.samples);
    assert!(serde_json::from_str::<Value>(&text("f.json")).expect("JSON")["threads"].is_array());
    let bytes: usize = explained.stacks.iter().map(|stack| stack.frames.len()).sum();
    assert!(bytes < 400 << 10, "{bytes} bytes of stacks");

    let diff = ["explain", "diff", "r1.json", "r2.json", "--flame", "d.svg"];
    let done = run(bytepath(&diff).current_dir(dir.path())).well();
    assert!(done.stdout.contains("points") && done.stdout.contains("compression"), "{done:?}");
    assert!(text("d.svg").contains("red: more than before"));
    run(bytepath(&["explain", "diff", "r1.json#nobody", "r2.json"]).current_dir(dir.path()))
        .refused(1, &["no arm \"nobody\""]);
}

#[test]
fn who_reads_a_fifo_gets_what_is_exported_to_it() {
    if !may_see_all() {
        return;
    }
    let arm = "explain pipes --arms write-read@free --placement free --blocks 2 --time 20ms";
    for words in [&format!("explain FILES -- sh -c '{WORKS}'"), &format!("{arm} FILES")] {
        let dir = tempfile::tempdir().expect("a directory");
        let words = words.replace("FILES", "--folded f --firefox g");
        let done = shell(&format!(
            "cd {} && mkfifo f g && {{ cat f >folded & f=$!; cat g >firefox & g=$!; {BYTEPATH} {words}; code=$?; \
             [ $code = 0 ] || kill $f $g; wait; exit $code; }}",
            dir.path().display()
        ));
        assert!(done.status.success(), "{words}: {done:?}");
        let text = |name: &str| fs::read_to_string(dir.path().join(name)).expect("it was read");
        assert!(text("folded").lines().count() > 1, "{words}: {done:?}");
        assert!(serde_json::from_str::<Value>(&text("firefox")).is_ok(), "{words}: {done:?}");
    }
}

#[test]
fn each_file_that_cannot_be_written_is_told() {
    let words = ["--folded", "/dev/full", "--json", "/dev/full", "--", "true"];
    let done = run(bytepath(&["explain"]).args(words)).refused(1, &[]);
    assert_eq!(done.stderr.matches("cannot write /dev/full").count(), 2, "{done:?}");
}

#[test]
fn a_process_that_dies_meanwhile_is_told_of() {
    if !may_see_all() {
        return;
    }
    let mut sleeper = Command::new("sleep").arg("0.5").spawn().expect("sleep is everywhere");
    let pid = sleeper.id().to_string();
    let waits = std::thread::spawn(move || sleeper.wait());
    let began = Instant::now();
    let done = run(&mut bytepath(&["explain", "--pid", &pid, "--for", "60s"]));
    assert!(done.status.success(), "{done:?}");
    assert!(done.stderr.contains("ended; this is what was seen"), "{done:?}");
    assert!(done.stdout.contains("class"), "{done:?}");
    assert!(began.elapsed() < Duration::from_secs(50));
    waits.join().expect("it only waits").expect("sleep ends");
}

#[test]
fn a_command_of_any_length_makes_a_record_that_can_be_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.json");
    let long = "é".repeat(20_001);
    let mut command = bytepath(&["explain", "--json", path.to_str().expect("plain"), "--"]);
    assert!(run(command.args(["true", &long])).status.success());
    let record = record(&path);
    assert!(record.arms[0].name.starts_with("true é") && record.arms[0].name.ends_with("é…"));
    assert!(record.experiment.definition.contains(&long));
    assert!(record.experiment.definition.ends_with(", run once and looked at meanwhile"));
}

#[test]
fn a_record_says_when_the_looking_began_and_what_was_looked_at() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r.json");
    let mut other = std::process::Command::new("sleep").arg("60").spawn().expect("sleep runs");
    let pid = other.id().to_string();
    let words = ["explain", "--pid", &pid, "--for", "1500ms", "--json"];
    let done = run(bytepath(&words).arg(&path));
    other.kill().expect("it is our child");
    other.wait().expect("it is our child");
    if !path.exists() {
        println!("skipped: nobody may look here: {done:?}");
        return;
    }
    let record = record(&path);
    let started = humantime::parse_rfc3339(&record.started).expect("a time");
    let since = started.elapsed().expect("it is over");
    // Times of records are cut to whole seconds: what is said of the end is not so long ago.
    assert!(since.as_secs_f64() >= record.arms[0].samples[0].seconds, "{since:?}");
    let what = &record.experiment.definition;
    assert!(what.ends_with(", which ran already, looked at for a while"), "{what}");
}

#[test]
fn a_process_has_its_name_also_where_that_is_cut_within_a_character() {
    let folder = tempfile::tempdir().expect("a folder");
    let (path, link) = (folder.path().join("r.json"), folder.path().join("fourteen bytesé"));
    std::os::unix::fs::symlink("/bin/sh", &link).expect("a link");
    let mut shell = Command::new(&link);
    let shell = shell.args(["-c", "read line"]).stdin(std::process::Stdio::piped());
    let mut shell = shell.spawn().expect("sh is everywhere");
    let pid = shell.id().to_string();
    let words = ["explain", "--pid", &pid, "--for", "100ms", "--json"];
    let done = run(bytepath(&words).arg(&path));
    drop(shell.stdin.take());
    shell.wait().expect("it ends with its input");
    if !path.exists() {
        println!("skipped: nobody may look here: {done:?}");
        return;
    }
    assert_eq!(record(&path).arms[0].name, format!("fourteen bytes\u{fffd} ({pid})"));
}

#[test]
fn what_cannot_be_shown_of_a_process_is_a_failure_unless_nobody_reads_it() {
    if !may_see_all() {
        return;
    }
    shell("$bytepath explain --pid $$ --for 100ms >/dev/full")
        .refused(1, &["standard output: No space left on device"]);
    let done = shell("{ sleep 0.1; $bytepath explain --pid $$ --for 100ms; echo $? >&2; } | true");
    assert_eq!(done.stderr, "0\n");
}

#[test]
fn an_interruption_shows_what_there_is_and_leaves_nothing_running() {
    if !may_see_all() {
        return;
    }
    use std::os::unix::process::CommandExt;
    let mut command = bytepath(&["explain", "--", "sh", "-c", "echo $$; exec sleep 300"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = spawned(command.process_group(0));
    let pid = Pid::from_child(running.child());
    // Its child does not run before it is watched.
    let name = |child| fs::read_to_string(format!("/proc/{child}/comm")).unwrap_or_default();
    until("its start", || children(pid).into_iter().any(|child| name(child) == "sleep\n"));
    kill_process_group(pid, Signal::INT).expect("it runs");
    let done = running.done();
    assert!(!done.status.success(), "{done:?}");
    if let Ok(sleeper) = done.stdout.trim().parse::<u32>() {
        assert!(!std::path::Path::new(&format!("/proc/{sleeper}")).exists(), "{done:?}");
    }
    assert!(done.stderr.contains("class"), "{done:?}");
}

/// timeout(1) sends its signal to its child, and at once to its group.
#[test]
fn a_signal_that_comes_twice_at_once_shows_what_there_is() {
    if !may_see_all() {
        return;
    }
    let pid = std::process::id().to_string();
    let mut command = bytepath(&["explain", "--pid", &pid, "--for", "300s"]);
    let mut running = spawned(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let its = Pid::from_child(running.child());
    until("its handlers", || {
        [Signal::TERM, Signal::INT].iter().all(|signal| catches(its, *signal))
    });
    // Two that are the same may come as one. It is stopped meanwhile, since this process may be held up
    // between them.
    for signal in [Signal::STOP, Signal::TERM, Signal::INT, Signal::CONT] {
        rustix::process::kill_process(its, signal).expect("it runs");
    }
    let done = running.done();
    assert!(!done.status.success() && done.stdout.contains("class"), "{done:?}");
}

#[test]
fn where_a_file_cannot_be_written_the_old_one_stays() {
    if !may_see_all() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let old = dir.path().join("old.svg");
    fs::write(&old, "the old one").expect("room for a line");
    // A graph is larger than a block of 512 bytes, and SIGXFSZ is not what ends it.
    let done = shell(&format!(
        "ulimit -f 1; {BYTEPATH} explain --flame {} -- sh -c '{WORKS}'",
        old.display()
    ));
    assert_eq!(done.status.code(), Some(1), "{done:?}");
    assert!(done.stderr.contains("cannot write"), "{done:?}");
    assert_eq!(fs::read_to_string(&old).expect("it is there"), "the old one");
    assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 1, "nothing is left");
}

#[test]
fn a_file_that_there_are_no_samples_for_is_a_failure_that_says_why() {
    let strace = "strace -f -qqq -o /dev/null -e trace=perf_event_open \
                  -e inject=perf_event_open:error=EACCES";
    let dir = tempfile::tempdir().expect("a directory");
    let arm = "bench pipes --arms write-read@free --placement free --quick --no-store --explain";
    for (words, code) in [
        (format!("{arm} --flame f --folded g"), 1),
        ("explain --folded f --firefox g -- true".to_owned(), 1),
        ("explain --flame f -- sh -c 'exit 5'".to_owned(), 5),
    ] {
        let done = shell(&format!("cd {} && {strace} $bytepath {words}", dir.path().display()));
        if done.stderr.contains("strace") {
            eprintln!("skipped: no strace to refuse samples: {done:?}");
            return;
        }
        assert_eq!(done.status.code(), Some(code), "{words}: {done:?}");
        let said = done.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["cannot write f, of ", ": no samples: ", "CAP_PERFMON"] {
            assert!(said.contains(part), "{words}: {part}: {done:?}");
        }
        let both = words.contains(" g");
        assert_eq!(said.contains("cannot write g, of "), both, "{words}: {done:?}");
        assert!(!dir.path().join("f").exists(), "{words}");
    }
}

#[test]
fn what_refuses_events_is_not_said_to_be_a_level_that_does_not_bind() {
    if !may_see_all() || !Machine::this().user().capabilities.has(Capability::SysAdmin) {
        println!("skipped: the level of perf events binds this user");
        return;
    }
    let done = shell(
        "strace -f -qqq -o /dev/null -e trace=perf_event_open \
         -e inject=perf_event_open:error=EPERM $bytepath explain -- true",
    );
    if done.stderr.contains("strace") {
        eprintln!("skipped: no strace to refuse events: {done:?}");
        return;
    }
    let said = done.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    let why = ": the kernel refuses perf_event_open: ";
    assert!(said.contains(&format!("no samples{why}")), "{done:?}");
    let (_, not_counted) = said.split_once("not counted: migrations").expect("it is refused too");
    let (names, _) = not_counted.split_once(':').expect("and why");
    assert!(not_counted[names.len()..].starts_with(why), "{done:?}");
    // Lines are broken behind hyphens, too.
    let names = names.replace(' ', "");
    for name in ["context-switches", "page-faults-minor", "page-faults-major"] {
        assert!(names.contains(name), "{name}: {done:?}");
    }
    assert!(said.contains("seccomp filter") && !said.contains("perf_event_paranoid"), "{done:?}");
}

#[test]
fn where_a_filter_kills_who_opens_events_the_command_runs_without() {
    let explained = ["explain", "--", "sh", "-c", "echo out; exit 3"];
    let done = where_calls_kill(&[libc::SYS_perf_event_open], &explained);
    assert_eq!((done.status.code(), done.stdout.as_str()), (Some(3), "out\n"), "{done:?}");
    for word in ["no samples", "seccomp"] {
        assert!(done.stderr.contains(word), "{word}: {done:?}");
    }
}

#[test]
fn an_ordinary_user_sees_less_and_is_told_what_is_missing() {
    let Some(as_nobody) = as_nobody() else { return };
    let done = shell(&format!("{as_nobody} {BYTEPATH} explain -- sh -c '{WORKS}'"));
    if done.stderr.contains("Permission denied") {
        eprintln!("skipped: nobody may not run this program where it lies: {done:?}");
        return;
    }
    assert!(done.status.success(), "{done:?}");
    let paranoid = fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap_or_default();
    match paranoid.trim().parse::<i32>() {
        Ok(2) => {
            for word in ["the kernel, not divided", "user code", "perf_event_paranoid=1"] {
                assert!(done.stderr.contains(word), "{word}: {done:?}");
            }
        }
        Ok(3..) => assert!(done.stderr.contains("no samples"), "{done:?}"),
        _ => assert!(done.stderr.contains("class"), "{done:?}"),
    }
    let said = done.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("tracefs is for root alone"), "{done:?}");
}

#[test]
fn tracepoints_that_may_not_be_opened_are_told_as_refused() {
    if !may_mount() || !installed("setpriv") {
        return;
    }
    let rights = "-dac_override,-dac_read_search,-sys_admin";
    let done = shell(&format!(
        "unshare -m sh -c 'mount -t tmpfs none /sys/kernel/debug; \
         mount -t tmpfs none /sys/kernel/tracing && cd /sys/kernel/tracing && \
         mkdir -p events/raw_syscalls/sys_enter && touch events/header_page && chmod 0 events/header_page \
         && exec setpriv --bounding-set {rights} --inh-caps {rights} \
         $bytepath explain -- sh -c \"seq 100000 | wc -l\"'"
    ));
    let said = done.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("system calls by name, wake-ups"), "{done:?}");
    assert!(said.contains("tracefs is refused"), "{done:?}");
}

#[test]
fn arms_are_explained_after_their_samples_with_published_shares_beside() {
    if !may_see_all() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let words = [
        "explain",
        "pipes",
        "--arms",
        "write-read@free,vmsplice-splice@free",
        "--placement",
        "free",
        "--blocks",
        "2",
        "--time",
        "20ms",
        "--json",
        "r.json",
        "--folded",
        "f.folded",
        "--hz",
        "499",
    ];
    let done = run(bytepath(&words).current_dir(dir.path()));
    assert!(done.status.success(), "{done:?}");
    for word in ["── write-read@free ──", "published", "system call"] {
        assert!(done.stdout.contains(word), "{word}: {done:?}");
    }
    let record = record(&dir.path().join("r.json"));
    assert_eq!(record.arms.len(), 2);
    for arm in &record.arms {
        assert_eq!(
            arm.samples.iter().filter(|sample| !sample.superseded).count(),
            2,
            "{}",
            arm.name
        );
        let explained = arm.explained.as_ref().expect("it is explained");
        assert_eq!(explained.hz, 499);
        assert!(explained.samples > 0 && !explained.sentence.is_empty());
        assert!(explained.classes.iter().any(|class| class.published.is_some()), "{}", arm.name);
        let name = format!("f.{}.folded", arm.name);
        let folded = fs::read_to_string(dir.path().join(&name)).expect("each arm has a file");
        // The ends are told apart by the names of their threads.
        assert!(
            folded.contains("bytepath write;") && folded.contains("bytepath read;"),
            "{folded}"
        );
    }
}

#[test]
fn amounts_are_the_quick_ones_however_many_blocks_are_asked_for() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let dir = folder.path().to_str().expect("a plain name");
    let few = ["--on", "dir", "--work", "one", "--size", "64K", "--arms", "cp", "--dir", dir];
    let settings = |words: &[&str]| -> serde_json::Value {
        let words =
            [&["explain", "copy"], &few[..], &["--no-store", "--json", "-"], words].concat();
        let record = run(bytepath(&words).env("XDG_STATE_HOME", folder.path())).well().json();
        record["settings"].clone()
    };
    let two = settings(&["--blocks", "2"]);
    assert_eq!((&two["files"], &two["blocks"]), (&2000.into(), &2.into()), "{two}");
    assert_eq!(settings(&["--within", "1ms"])["within_s"], 0.001);
}

#[test]
fn a_pipeline_that_is_run_is_explained() {
    let done = run(&mut bytepath(&["run", "--explain", "head -c 50000000 /dev/zero | wc -c"]));
    assert!(done.status.success(), "{done:?}");
    assert_eq!(done.stdout.trim(), "50000000");
    assert!(done.stderr.contains("class") || done.stderr.contains("no samples"), "{done:?}");
}

#[test]
fn records_of_any_name_are_put_beside_each_other() {
    use std::os::unix::ffi::OsStrExt;
    let name = std::ffi::OsStr::from_bytes(b"no-such-\xff#arm");
    let done = run(bytepath(&["explain", "diff"]).args([name, name]));
    assert_eq!(done.status.code(), Some(1), "it is no wrong usage: {done:?}");
    assert!(done.stderr.contains("no-such-\u{fffd}"), "{done:?}");
}

#[test]
fn a_hash_may_stand_in_the_name_of_an_arm_and_of_a_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let made = run(&mut bytepath(&["explain", "--json", "-", "--", "true"]));
    let mut record = Record::from_json(&made.stdout).expect("a record");
    let other = record.arms[0].clone();
    record.arms[0].name = "b#c".to_owned();
    record.arms.push(other);
    let text = record.to_json().expect("JSON");
    fs::create_dir(dir.path().join("a")).expect("it is made");
    fs::write(dir.path().join("r.json"), &text).expect("it is written");
    fs::write(dir.path().join("a#r.json"), &text).expect("it is written");
    for file in ["r.json", "a#r.json", "-"] {
        let (named, beside) = (format!("{file}#b#c"), "r.json#b#c");
        let mut diff = bytepath(&["explain", "diff", "--", &named, beside]);
        let stdin = fs::File::open(dir.path().join("r.json")).expect("it is there");
        let shown = run(diff.stdin(stdin).current_dir(dir.path())).well().stdout;
        assert!(shown.starts_with("before: b#c\nafter:  b#c\n"), "{file}: {shown}");
    }
}
