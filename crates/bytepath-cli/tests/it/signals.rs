//! A bench that is ended from outside: nothing is left of it.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitOptions, kill_process, kill_process_group, set_child_subreaper, waitpgid,
};

use crate::calls::may_trace;
use crate::program::{
    BYTEPATH, Bounded, Done, bytepath, children, installed, root, run, shell, signal_of, spawned,
    text, until,
};
use crate::terminal::{Screen, drawing, on_terminal};

/// Would run for hours.
const LONG: [&str; 6] = ["bench", "pipes", "--time", "1h", "--warm-up", "1ms"];

/// Nothing that a test waits for takes longer.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// A bench in the middle of its first sample, which takes so many processes.
fn sampling(words: &[&str], processes: usize) -> (Bounded, Screen) {
    // Its orphans become this process's children, so that their end can be waited for.
    set_child_subreaper(Pid::from_raw(1)).expect("every Linux that runs this has it");
    let (bench, mut screen) = on_terminal(words, Stdio::null());
    // Drawn before the sample's processes are started.
    screen.shows("block 1 of ");
    until("the sample", || members(bench.group) > processes);
    (bench, screen)
}

/// How many processes of the group there are.
fn members(group: Pid) -> usize {
    let stat = |process: std::io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(process.ok()?.path().join("stat")).ok()
    };
    let of_group = |stat: &String| {
        // After the name, which may hold anything: the state, the parent, the group.
        let after = stat.rsplit_once(')').map(|(_, after)| after.split_whitespace().nth(2));
        after.flatten() == Some(group.to_string().as_str())
    };
    let processes = std::fs::read_dir("/proc").expect("every Linux has it");
    processes.filter_map(stat).filter(of_group).count()
}

/// A writer and a reader.
fn of_two(arms: &str) -> (Bounded, Screen) {
    sampling(&[&LONG[..], &["--arms", arms]].concat(), 2)
}

/// Waits until no process of the group is left; hangs where one goes on.
#[track_caller]
fn all_ended(group: Pid) {
    let (told, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        while !matches!(waitpgid(group, WaitOptions::empty()), Err(Errno::CHILD)) {}
        let _ = told.send(());
    });
    let ended = end.recv_timeout(HANGS_AFTER);
    if ended.is_err() {
        let _ = kill_process_group(group, Signal::KILL);
    }
    assert!(ended.is_ok(), "an end outlives its bench");
}

#[track_caller]
fn ended_by(bench: Bounded, screen: Screen, signal: Signal) -> (Done, String) {
    let group = bench.group;
    kill_process(group, signal).expect("it runs");
    let (done, drawn) = (bench.done(), screen.whole());
    assert_eq!(signal_of(&done), Some(signal.as_raw()), "{done:?}");
    all_ended(group);
    (done, drawn)
}

#[test]
fn a_bench_that_is_told_to_end_takes_its_ends_along_and_ends_its_line() {
    for signal in [Signal::INT, Signal::TERM] {
        let (bench, screen) = of_two("write-read,tee-splice");
        let (_, drawn) = ended_by(bench, screen, signal);
        assert!(drawn.ends_with('\n') && !drawn.contains("panicked"), "{signal:?}: {drawn:?}");
    }
}

#[test]
fn a_bench_that_is_interrupted_at_the_keyboard_ends_alike() {
    let (bench, screen) = of_two("write-read");
    let group = bench.group;
    kill_process_group(group, Signal::INT).expect("they run");
    let (done, drawn) = (bench.done(), screen.whole());
    assert_eq!(signal_of(&done), Some(Signal::INT.as_raw()));
    assert!(drawn.ends_with('\n'), "{drawn:?}");
    all_ended(group);
}

/// A bench of many short blocks, some of which are complete, and where its results go.
fn in_its_third_block() -> (Bounded, Screen, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let (json, csv) = (file("record"), file("samples"));
    let words = ["bench", "pipes", "--arms", "write-read,tee-splice", "--placement", "same-cpu"];
    let short = ["--blocks", "10000", "--time", "3ms", "--warm-up", "1ms"];
    let results = ["--json", &json, "--csv", &csv];
    let words = [&words[..], &short, &results].concat();
    let (bench, mut screen) = on_terminal(&words, Stdio::piped());
    screen.shows("block 3 of 10000");
    (bench, screen, folder)
}

#[track_caller]
fn kept(done: &Done, drawn: &str, folder: &Path) {
    let read = |name| std::fs::read_to_string(folder.join(name)).expect("the results are written");
    let record: serde_json::Value = serde_json::from_str(&read("record")).expect("it is JSON");
    let blocks = record["blocks"].as_u64().expect("a number");
    assert!(blocks >= 2, "{record}");
    let said = format!("interrupted after {blocks} of 10000 blocks");
    assert!(done.stdout.contains("write-read@same-cpu *"), "{}", done.stdout);
    assert!(done.stdout.contains(&format!("note: {said}")), "{}", done.stdout);
    assert!(drawn.contains(&said) && drawn.ends_with('\n'), "{drawn:?}");
    for arm in record["arms"].as_array().expect("a record has arms") {
        assert_eq!(arm["status"], "ok", "{arm}");
        let samples = arm["samples"].as_array().expect("samples").iter();
        let counted = samples.filter(|sample| sample["superseded"] == false).count();
        assert_eq!(counted as u64, blocks, "{}", arm["name"]);
    }
    assert!(read("samples").lines().count() as u64 > 2 * blocks);
}

#[test]
fn what_an_interrupted_bench_has_measured_is_kept() {
    for signal in [Signal::INT, Signal::QUIT, Signal::TERM] {
        let (bench, screen, folder) = in_its_third_block();
        let (done, drawn) = ended_by(bench, screen, signal);
        kept(&done, &drawn, folder.path());
    }
}

#[test]
fn an_interrupted_bench_writes_whole_results_to_standard_output() {
    let words = ["bench", "pipes", "--arms", "write-read", "--placement", "same-cpu"];
    let short = ["--blocks", "10000", "--time", "3ms", "--warm-up", "1ms", "--json", "-"];
    let (bench, mut screen) = on_terminal(&[&words[..], &short].concat(), Stdio::piped());
    screen.shows("block 3 of 10000");
    let (done, _) = ended_by(bench, screen, Signal::TERM);
    assert!(done.json()["blocks"].as_u64().is_some_and(|blocks| blocks >= 2), "{done:?}");
}

#[test]
fn what_was_measured_until_an_interrupt_at_the_keyboard_is_kept() {
    let (bench, screen, folder) = in_its_third_block();
    let group = bench.group;
    kill_process_group(group, Signal::INT).expect("they run");
    let (done, drawn) = (bench.done(), screen.whole());
    assert_eq!(signal_of(&done), Some(Signal::INT.as_raw()));
    all_ended(group);
    kept(&done, &drawn, folder.path());
}

#[test]
fn a_bench_that_was_told_not_to_hear_a_signal_does_not_hear_it() {
    let line = "trap '' INT; exec \"$bytepath\" bench pipes --arms write-read@same-cpu --blocks 3 \
                --time 3ms";
    let mut sh = std::process::Command::new("sh");
    sh.args(["-c", line]).env("bytepath", BYTEPATH).stdin(Stdio::null()).stdout(Stdio::piped());
    let (bench, mut screen) = drawing(&mut sh);
    screen.shows("block 1 of 3");
    kill_process_group(bench.group, Signal::INT).expect("they run");
    screen.whole();
    let done = bench.done();
    assert!(done.status.success() && done.stdout.contains("3 blocks"), "{done:?}");
}

#[test]
fn the_ends_of_a_bench_that_was_killed_end_too() {
    let (bench, screen) = of_two("write-read,gift-read");
    ended_by(bench, screen, Signal::KILL);
}

#[test]
fn a_classic_between_the_ends_does_not_outlive_a_bench_that_was_killed() {
    for peer in ["cat", "dd", "pv", "mbuffer"] {
        if installed(peer) {
            let words = ["--arms", "write-?*-read@same-cpu", "--peer", peer];
            let (bench, screen) = sampling(&[&LONG[..], &words].concat(), 3);
            ended_by(bench, screen, Signal::KILL);
        }
    }
}

#[test]
fn the_process_of_an_arm_of_one_does_not_outlive_its_bench() {
    let words = ["bench", "overhead", "--time", "1h", "--warm-up", "1ms"];
    let (bench, screen) = sampling(&words, 1);
    ended_by(bench, screen, Signal::TERM);
}

#[test]
fn a_writer_whose_reader_was_killed_ends_by_itself() {
    let mut write = bytepath(&["write"]);
    let mut write = spawned(write.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let pipe = write.child().stdout.take().expect("it is piped");
    let mut command = bytepath(&["read", "--time", "1h"]);
    let read = spawned(command.stdin(pipe).stdout(Stdio::piped()).stderr(Stdio::piped()));
    // It holds the pipe too.
    drop(command);
    kill_process(read.group, Signal::KILL).expect("it runs");
    assert_eq!(signal_of(&read.done()), Some(Signal::KILL.as_raw()));
    write.done().well();
}

#[test]
fn a_reader_whose_writer_was_killed_reports_what_came() {
    let mut write = bytepath(&["write"]);
    let mut write = spawned(write.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let pipe = write.child().stdout.take().expect("it is piped");
    // At least one byte has come before the writer ends.
    let mut first = [0];
    rustix::io::read(&pipe, &mut first).expect("it writes");
    kill_process(write.group, Signal::KILL).expect("it runs");
    write.done();
    let row = run(bytepath(&["read", "--csv"]).stdin(pipe)).well().row();
    assert!(row[1].parse::<u64>().is_ok_and(|bytes| bytes > 0), "{row:?}");
}

#[test]
fn the_first_process_of_a_container_ends_with_the_code_of_its_signal() {
    if !root() || !installed("unshare") || !installed("pgrep") {
        println!("skipped: needs root, unshare and pgrep");
        return;
    }
    let container = "unshare -pf --kill-child --mount-proc \"$bytepath\"";
    for words in [
        "run --no-summary 'kill -TERM 1; sleep 100 | cat'",
        "explain -- sh -c 'kill -TERM 1; exec sleep 100'",
        "bench cmd --no-store 'kill -TERM 1; exec sleep 100'",
        "bench cmd --no-store -i 'kill -TERM 1 $$'",
    ] {
        let done = shell(&format!("exec {container} {words}"));
        assert_eq!(done.status.code(), Some(143), "{words}: {done:?}");
    }
    // Until it catches signals it hears none.
    let folder = tempfile::tempdir().expect("a folder");
    let done = shell(&format!(
        "cd {} && mkfifo f && exec 9<>f && {{ {container} cp f new & }}; \
         until pgrep -P $! >&2; do :; done; while pkill -P $!; do sleep 0.1; done; wait $!",
        folder.path().display()
    ));
    assert_eq!(done.status.code(), Some(143), "{done:?}");
    assert!(done.stderr.contains("cp: interrupted after 0 files"), "{done:?}");
}

#[test]
fn the_first_process_of_a_container_ends_by_signals_also_while_it_measures_nothing() {
    if !root() || !installed("unshare") || !installed("pkill") {
        println!("skipped: needs root, unshare and pkill");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let container = "unshare -pf --kill-child --mount-proc \"$bytepath\"";
    // Each waits for what never comes: for a reader, or for a writer.
    for words in [
        "tune --profile p --json nobody",
        "bench pipes --json nobody",
        "explain pipes --json nobody",
        "doctor --json nobody",
        "history --json nobody",
        "compare a b --json nobody",
        "report - <&9",
        "import - <&9",
        "cat <&9",
        "gen zeros >&9",
    ] {
        let done = shell(&format!(
            "cd {}; [ -p f ] || mkfifo nobody f; exec 9<>f; {{ {container} {words} & }}; \
             for _ in $(seq 300); do \
             pkill -P $! -x bytepath && seen=1 || [ -z \"$seen\" ] || break; sleep 0.1; done; \
             kill -KILL $! 2>&-; wait $!",
            folder.path().display()
        ));
        assert_eq!(done.status.code(), Some(143), "{words}: {done:?}");
    }
}

#[test]
fn where_both_signals_are_ignored_it_measures_all_the_same() {
    let bench = "bench overhead --blocks 3 --time 2ms --warm-up 1ms --no-store";
    shell(&format!("trap '' INT TERM; \"$bytepath\" {bench}")).well();
}

#[test]
fn a_signal_while_results_are_written_loses_none_of_them() {
    if !may_trace() {
        println!("skipped: needs strace, and the right to use it");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let mut command = std::process::Command::new("strace");
    command.args([
        "-f",
        "-qqq",
        "-o",
        &file("calls"),
        "-e",
        "signal=none",
        "-e",
        "trace=fdatasync",
    ]);
    command.args(["-e", "inject=fdatasync:delay_enter=2s", BYTEPATH, "bench", "gen", "--no-store"]);
    command.args(["--quick", "--time", "0.05s", "--arms", "yes*", "--json", &file("record")]);
    let strace = spawned(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()));
    let group = strace.group;
    // What becomes the record has its bytes.
    let writing = || {
        let pid = *children(group).first()?;
        let open = std::fs::read_dir(format!("/proc/{pid}/fd")).ok()?.flatten();
        let mut open = open.map(|entry| entry.path());
        let there = |file: &std::path::PathBuf| {
            std::fs::read_link(file).is_ok_and(|path| path.starts_with(folder.path()))
        };
        let has_bytes =
            |file: &std::path::PathBuf| std::fs::metadata(file).is_ok_and(|file| file.len() > 0);
        open.find(|file| there(file) && has_bytes(file)).map(|_| pid)
    };
    let mut pid = None;
    until("the writing", || {
        pid = writing();
        pid.is_some()
    });
    kill_process(pid.expect("a process"), Signal::TERM).expect("it runs");
    let done = strace.done();
    assert_eq!(signal_of(&done), Some(Signal::TERM.as_raw()), "{done:?}");
    assert!(done.stdout.contains("yes"), "the table: {done:?}");
    let record = std::fs::read_to_string(file("record")).expect("it is written");
    serde_json::from_str::<serde_json::Value>(&record).expect("all of it");
    assert_eq!(std::fs::read_dir(folder.path()).expect("the folder").count(), 2);
}

#[test]
fn explanations_are_in_their_files_before_a_signal_ends_what_waits_for_a_reader() {
    let folder = tempfile::tempdir().expect("a folder");
    let works = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
    let explained = run(&mut bytepath(&["explain", "--", "sh", "-c", works]));
    if explained.stderr.contains("no samples") {
        return println!("skipped: {}", explained.stderr);
    }
    let words = ["bench", "cmd", "--no-store", "--blocks", "2", "--explain", "--json", "-"];
    let (unread, writer) = rustix::pipe::pipe().expect("a pipe");
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).expect("one slot");
    let mut command = bytepath(&words);
    command.args(["--folded", "stacks", "--flame", "flame.svg", works]).current_dir(folder.path());
    let mut bench = spawned(command.stdout(writer).stderr(Stdio::piped()));
    drop(command);
    until("the results", || rustix::io::ioctl_fionread(&unread).is_ok_and(|held| held == 4096));
    kill_process(Pid::from_child(bench.child()), Signal::TERM).expect("it waits");
    let done = bench.done();
    assert_eq!(signal_of(&done), Some(Signal::TERM.as_raw()), "{done:?}");
    for file in ["stacks", "flame.svg"] {
        let text = std::fs::read_to_string(folder.path().join(file)).expect(file);
        assert!(!text.is_empty(), "{file}");
    }
}

#[test]
fn results_that_nobody_reads_are_ended_by_one_signal() {
    let folder = tempfile::tempdir().expect("a folder");
    let (cmd, run) = (["cmd", "--blocks", "3"], ["run", "--blocks", "3"]);
    let memory = ["memory", "--quick", "--time"];
    for (words, last) in [(cmd, "true"), (run, "true | true"), (memory, "0.01s")] {
        let (unread, writer) = rustix::pipe::pipe().expect("a pipe");
        rustix::pipe::fcntl_setpipe_size(&writer, 4096).expect("one slot");
        let mut command = bytepath(&["bench"]);
        command.args(words).args([last, "--no-store", "--json", "-"]).current_dir(folder.path());
        let mut bench = spawned(command.stdout(writer).stderr(Stdio::piped()));
        drop(command);
        until("the results", || rustix::io::ioctl_fionread(&unread).is_ok_and(|held| held == 4096));
        kill_process(Pid::from_child(bench.child()), Signal::TERM).expect("it waits");
        let done = bench.done();
        assert_eq!(signal_of(&done), Some(Signal::TERM.as_raw()), "{words:?}: {done:?}");
    }
}

/// The definition of all commands takes more.
#[test]
fn a_small_stack_is_enough_and_signals_end_the_process_as_ever() {
    let line = "ulimit -s 64; for command in explain bench cp 'fleet cp'; do \
                $bytepath $command --help || echo failed; done | grep -c '^Usage: \\|failed'; \
                $bytepath --help | grep -c '^Usage: '; echo through | $bytepath cat; \
                for signal in INT TERM; do \
                timeout --preserve-status -s $signal 0.3 $bytepath cat /dev/zero >/dev/null; \
                echo $?; done; exec $bytepath cat missing";
    let done = shell(line).refused(1, &["cat: missing: No such file or directory\n"]);
    assert_eq!(done.stdout, "4\n1\nthrough\n130\n143\n", "{done:?}");
}

/// A process of several threads gets no user namespace.
#[test]
fn confine_has_namespaces_for_ordinary_users_where_the_stack_is_small() {
    let nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups --inh-caps=-all";
    let may = format!("{nobody} unshare --user --net --map-root-user true");
    if !root() || !shell(&may).status.success() {
        return println!("skipped: it takes root, setpriv, and namespaces for ordinary users");
    }
    let done = shell(&format!("ulimit -s 256; {nobody} $bytepath confine --apart -- echo apart"));
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("apart\n", ""), "{done:?}");
}

/// Between the moment in which the kernel has a handler and that in which the handler knows what to do, a
/// signal would do nothing at all.
#[test]
fn a_signal_that_comes_while_it_is_being_caught_ends_the_program() {
    if !may_trace() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    let (input, _open) = std::io::pipe().expect("a pipe");
    for words in [
        &["pv", "-q"][..],
        &["pv", "-q", "--metrics", "metrics"],
        &["cat", "--metrics", "metrics"],
        &["cp", "/dev/stdin", "copy"],
        &["run", "sleep 100 | cat"],
        &["bench", "cmd", "--no-store", "sleep 100"],
        &["pages", "--", "sleep", "100"],
    ] {
        // The first handler of the signal is set by one of these calls.
        let was_caught = (1..1000).any(|place| {
            let inject = format!("inject=rt_sigaction:signal=TERM:when={place}");
            let mut command = Command::new("strace");
            command.args(["-qq", "-o", text(&log), "-e", "trace=rt_sigaction", "-e", &inject]);
            command.arg(BYTEPATH).args(words).current_dir(folder.path());
            let done = run(command.stdin(input.try_clone().expect("another")));
            // pv has a status of its own for it.
            let is_ended = signal_of(&done) == Some(Signal::TERM.as_raw())
                || matches!(done.status.code(), Some(32 | 143));
            assert!(is_ended, "{words:?} at {place}: {done:?}");
            let log = std::fs::read_to_string(&log).expect("strace wrote it");
            let call = log.lines().filter(|line| line.starts_with("rt_sigaction(")).nth(place - 1);
            call.is_some_and(|call| call.starts_with("rt_sigaction(SIGTERM, {sa_handler=0x"))
        });
        assert!(was_caught, "{words:?}");
    }
}
