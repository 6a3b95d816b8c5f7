//! Signals that interrupt: what was to be said is said, how far it came is told, and the signal ends
//! the program unless all was copied.

use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::fs::{CWD, FileType, mknodat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

use super::killed::tree;
use super::look::look;
use super::{directory, file};
use crate::program::{BYTEPATH, Bounded, Done, bytepath, catches, run, signal_of, spawned, until};
use crate::terminal::{Screen, drawing, on_terminal};

/// Of what cannot be read again, as all that these tests stop at.
const MIDWAY: &str = "what was being copied is not whole; what is no file begins anew";

fn fifo(path: &Path) {
    mknodat(CWD, path, FileType::Fifo, 0o600.into(), 0).expect("a FIFO");
}

fn opened(fifo: &Path) -> File {
    File::options().write(true).open(fifo).expect("the FIFO")
}

fn started(words: &[&str]) -> Bounded {
    spawned(bytepath(words).stdout(Stdio::null()).stderr(Stdio::piped()))
}

#[track_caller]
fn ended_by(cp: Bounded, signal: Signal) -> Done {
    kill_process_group(cp.group, signal).expect("it is there");
    let done = cp.done();
    assert_eq!(signal_of(&done), Some(signal.as_raw()), "{done:?}");
    done
}

#[test]
fn an_interrupted_copy_says_how_far_it_came_and_ends_by_the_signal() {
    for (signal, options, advice) in [
        (Signal::INT, &[][..], MIDWAY),
        (Signal::TERM, &["--atomic"], "no name stands for half a file"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_str().expect("a name").to_owned();
        std::fs::write(path("a"), "one").expect("a file");
        let pipe = path("fifo");
        fifo(pipe.as_ref());
        std::fs::create_dir(path("new")).expect("a folder");
        let (a, new, json) = (path("a"), path("new"), path("json"));
        let cp = started(&[&["cp", "--json", &json], options, &[&a, &pipe, &new]].concat());
        // It has begun to read, and waits for more.
        let _writer = opened(pipe.as_ref());
        let done = ended_by(cp, signal);
        let how_far = format!("after 1 file, 3 B, at byte 0 of '{pipe}'");
        assert_eq!(done.stderr, format!("cp: interrupted {how_far}: {advice}\n"));
        let told = std::fs::read_to_string(&json).expect("a document");
        let told: serde_json::Value = serde_json::from_str(&told).expect("JSON");
        let code = 128 + signal.as_raw();
        assert_eq!((&told["files"], &told["exit"]), (&1.into(), &code.into()));
        assert_eq!(
            (&told["failed"], &told["errors"][0]["source"]["name"]),
            (&1.into(), &pipe.into())
        );
        let names = std::fs::read_dir(&new).expect("a folder").count();
        assert!(options.is_empty() || names == 1, "{names} names");
    }
}

#[test]
fn nothing_is_advised_that_would_be_refused() {
    let not_whole = "what was being copied is not whole";
    for (option, advice) in [
        ("--force", format!("{not_whole}; --resume goes on")),
        ("--update", not_whole.into()),
        ("--backup", not_whole.into()),
        ("--remove-destination", not_whole.into()),
        ("--symbolic-link", "not all is done".into()),
        ("--link", "not all is done; the same command goes on".into()),
        ("--attributes-only", "not all is done; the same command goes on".into()),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_str().expect("a name").to_owned();
        let (old, new) = (path("old"), path("new"));
        file(old.as_ref(), b"old", 1);
        std::fs::write(&new, "new").expect("a file");
        // What may take long heeds signals from the beginning.
        let mut command = bytepath(&["cp", "--fsync", "--interactive", option, &new, &old]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut cp = spawned(&mut command);
        // It waits for an answer, or is about to: none comes, nor an end of them.
        let _answers = cp.child().stdin.take();
        until("the handler", || catches(cp.group, Signal::HUP));
        let done = ended_by(cp, Signal::TERM);
        let said = format!("cp: interrupted after 0 files, 0 B: {advice}\n");
        assert!(done.stderr.ends_with(&said), "{option}: {done:?}");
        assert_eq!(std::fs::read(&old).expect("a file"), b"old", "{option}");
    }
    // What has no attributes yet would be left, or put aside.
    for (option, advice) in [
        ("--force", "not all is done; the same command goes on"),
        ("--update", "not all is done"),
        ("--update=none-fail", "not all is done"),
        ("--no-clobber", "not all is done"),
        ("--backup", "not all is done"),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let path = |name: &str| folder.path().join(name).to_str().expect("a name").to_owned();
        let (pipe, new) = (path("fifo"), path("new"));
        fifo(pipe.as_ref());
        let cp = started(&["cp", "--fsync", "--attributes-only", option, &pipe, &new]);
        // To open it takes somebody who writes to it.
        until("the handler", || catches(cp.group, Signal::HUP));
        let done = ended_by(cp, Signal::TERM);
        assert!(done.stderr.ends_with(&format!(": {advice}\n")), "{option}: {done:?}");
    }
}

#[test]
fn the_byte_that_was_reached_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pipe, new) = (folder.path().join("fifo"), folder.path().join("new"));
    fifo(&pipe);
    let (json, lines) = (folder.path().join("json"), folder.path().join("lines"));
    let [pipe_name, new_name, json_name, lines_name] =
        [&pipe, &new, &json, &lines].map(|path| path.to_str().expect("a name"));
    let told = ["--json", json_name, "--json-files", lines_name];
    let cp = started(&[&["cp", pipe_name, new_name], &told[..]].concat());
    let mut writer = opened(&pipe);
    let bytes = 3 << 20;
    writer.write_all(&vec![7; bytes as usize]).expect("it reads");
    until("all of it", || new.metadata().is_ok_and(|data| data.len() == bytes));
    let done = ended_by(cp, Signal::HUP);
    let (_, told) = done.stderr.split_once(", at byte ").expect("how far");
    let (offset, rest) = told.split_once(' ').expect("of what");
    assert_eq!(rest, format!("of '{pipe_name}': {MIDWAY}\n"));
    // The last call may have been made and not yet counted.
    let offset: u64 = offset.parse().expect("a number");
    assert!((1 << 20..=bytes).contains(&offset), "{offset}");
    let told = json_of(&json);
    let reached = told["bytes"].as_u64().expect("a number");
    assert!((offset..=bytes).contains(&reached), "{told}");
    assert_eq!(told["errors"][0]["offset"].as_u64(), Some(reached), "{told}");
    let line = json_of(&lines);
    assert_eq!((&line["outcome"], &line["bytes"]), (&"failed".into(), &reached.into()));
    assert_eq!(line["routes"], told["routes"]);
}

fn json_of(path: &Path) -> serde_json::Value {
    let text = std::fs::read_to_string(path).expect("a document");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn of_an_interrupted_tree_what_was_made_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, new) = (folder.path().join("t"), folder.path().join("new"));
    for name in ["a/b", "c"] {
        directory(&source.join(name));
        (0..40).for_each(|file| {
            std::fs::write(source.join(name).join(format!("f{file}")), "x").expect("a file")
        });
    }
    let pipe = source.join("a/b/fifo");
    fifo(&pipe);
    let json = folder.path().join("json");
    let [source, new, json_name] =
        [&source, &new, &json].map(|path| path.to_str().expect("a name"));
    for jobs in ["1", "2"] {
        let words =
            ["cp", "-r", "--copy-contents", "--jobs", jobs, "--json", json_name, source, new];
        let cp = started(&words);
        let _writer = opened(&pipe);
        ended_by(cp, Signal::INT);
        let told = json_of(&json);
        let is_made = |name: &&&str| Path::new(new).join(name).is_dir();
        let directories = ["", "a", "a/b", "c"].iter().filter(is_made).count() as u64;
        let [whole, failed] = ["directories", "failed"].map(|name| told[name].as_u64());
        let (whole, failed) = whole.zip(failed).expect("numbers");
        // Three have yet to get their attributes.
        assert_eq!(directories - whole, 3, "{told}");
        // Another thread may be at a file of its own.
        if jobs == "1" {
            let error = &told["errors"][0]["source"]["name"];
            assert_eq!((failed, error), (3 + 1, &pipe.to_str().into()), "{told}");
        }
        std::fs::remove_dir_all(new).expect("it is ours");
    }
}

#[test]
fn what_threads_keep_to_say_it_in_order_is_said_before_the_interruption() {
    // Directories are copied in the order of their inodes, which a tmpfs numbers as they are made.
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        return println!("skipped: /dev/shm cannot be written");
    };
    let (source, new) = (folder.path().join("t"), folder.path().join("new"));
    let names = || (0..4).flat_map(|folder| (0..50).map(move |file| format!("d{folder}/f{file}")));
    for (number, name) in names().enumerate() {
        directory(source.join(&name).parent().expect("a folder"));
        // Some are too long; the last of each folder is not.
        let bytes = if number % 7 == 3 { 20_000 } else { 3 };
        std::fs::write(source.join(&name), vec![1; bytes]).expect("a file");
    }
    let pipe = source.join("fifo");
    fifo(&pipe);
    let said = |jobs: &str| {
        let line = "trap '' XFSZ; ulimit -f 8; \
                    exec \"$0\" cp -r --copy-contents --jobs $1 \"$2\" \"$3\"";
        let mut command = Command::new("sh");
        command.args(["-c", line, BYTEPATH, jobs]).args([&source, &new]);
        let cp = spawned(command.stdin(Stdio::null()).stderr(Stdio::piped()));
        // It is at the end of the tree, and the threads are done with what is before.
        let _writer = opened(&pipe);
        until("all names", || {
            names().all(|name| new.join(name).metadata().is_ok_and(|data| data.len() > 0))
        });
        let done = ended_by(cp, Signal::INT);
        std::fs::remove_dir_all(&new).expect("it is ours");
        done.stderr
    };
    let alone = said("1");
    let lines: Vec<_> = alone.lines().collect();
    let (last, before) = lines.split_last().expect("something is said");
    assert_eq!(before.len(), names().enumerate().filter(|(at, _)| at % 7 == 3).count(), "{alone}");
    let long = |line: &&str| line.ends_with(": File too large");
    assert!(before.iter().all(long), "{alone}");
    let copied = names().count() - before.len();
    assert!(last.starts_with(&format!("cp: interrupted after {copied} files, ")), "{alone}");
    assert!(last.ends_with(&format!(", at byte 0 of '{}': {MIDWAY}", pipe.display())), "{alone}");
    for jobs in ["2", "3"] {
        assert_eq!(said(jobs), alone, "by {jobs}");
    }
}

#[test]
fn a_signal_that_comes_before_the_end_ends_it_however_soon_that_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pipe, new) = (folder.path().join("fifo"), folder.path().join("new"));
    fifo(&pipe);
    let ends = [&pipe, &new].map(|path| path.to_str().expect("a name"));
    for _ in 0..20 {
        let cp = started(&["cp", ends[0], ends[1]]);
        let writer = opened(&pipe);
        kill_process_group(cp.group, Signal::INT).expect("it is there");
        // Now there is nothing more to copy.
        drop(writer);
        let done = cp.done();
        assert_eq!(signal_of(&done), Some(Signal::INT.as_raw()), "{done:?}");
        assert!(done.stderr.starts_with("cp: interrupted after "), "{done:?}");
    }
}

#[test]
fn whenever_it_is_interrupted_success_means_that_all_is_copied() {
    /// Interrupted runs, in all.
    const RUNS: u32 = 120;
    let folder = tempfile::tempdir().expect("a folder");
    let (source, new) = (folder.path().join("t"), folder.path().join("new"));
    tree(&source, 7);
    for number in 0..300 {
        let folder = source.join(format!("d/many{}", number % 3));
        directory(&folder);
        file(&folder.join(number.to_string()), &vec![3; number * 100], 5);
    }
    let ends = [&source, &new].map(|path| path.to_str().expect("a name"));
    let wanted = look(&source);
    let began = Instant::now();
    run(&mut bytepath(&["cp", "-a", ends[0], ends[1]])).well();
    let takes = began.elapsed();
    let mut random = fastrand::Rng::with_seed(6);
    let (mut whole, mut ended, mut all) = (0, 0, 0);
    for round in 0..RUNS {
        std::fs::remove_dir_all(&new).or_else(none).expect("it is ours");
        let jobs = random.choice(["1", "2", "4"]).expect("some");
        let signals = [Signal::INT, Signal::QUIT, Signal::TERM, Signal::HUP];
        let signal = random.choice(signals).expect("some");
        let moment = Instant::now() + takes.mul_f64(random.f64() * 1.6);
        let mut cp = started(&["cp", "-a", "--jobs", jobs, ends[0], ends[1]]);
        while Instant::now() < moment && matches!(cp.child().try_wait(), Ok(None)) {
            std::hint::spin_loop();
        }
        let _ = kill_process_group(cp.group, signal);
        let done = cp.done();
        // Before it catches them, signals do what they always do.
        let told = done.stderr.is_empty() || done.stderr.starts_with("cp: interrupted after ");
        assert!(told && done.stderr.lines().count() <= 1, "{round}: {done:?}");
        match done.status.code() {
            Some(0) => whole += 1,
            _ => {
                assert_eq!(signal_of(&done), Some(signal.as_raw()), "{round}: {done:?}");
                ended += 1;
            }
        }
        if done.status.success() || done.stderr.ends_with(": that was all\n") {
            assert!(look(&new) == wanted, "{round}: not all is there");
            all += 1;
        }
    }
    println!("{whole} were whole, {ended} ended by the signal, {} of these whole", all - whole);
    assert!(ended > RUNS / 10, "only {ended} were ended by the signal");
}

#[test]
fn what_several_threads_have_copied_has_no_gap_when_a_signal_comes() {
    const BYTES: u64 = 192 << 20;
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        return println!("skipped: /dev/shm cannot be written");
    };
    let (source, new) = (folder.path().join("a"), folder.path().join("new"));
    let content: Vec<u8> = (0..BYTES / 8).flat_map(u64::to_le_bytes).collect();
    std::fs::write(&source, &content).expect("a file");
    let json = folder.path().join("json");
    let ends = [&source, &new].map(|path| path.to_str().expect("a name"));
    let told = ["--json", json.to_str().expect("a name")];
    let mut midway = 0;
    for (round, words) in [&["cp"][..], &["cp", "--route", "parallel"]].repeat(6).iter().enumerate()
    {
        std::fs::remove_file(&new).or_else(none).expect("it is ours");
        let mut cp = started(&[*words, &told, &ends].concat());
        let least = BYTES / 12 * (round as u64 / 2);
        until("so much", || {
            let reached = new.metadata().is_ok_and(|data| data.len() > least);
            reached || !matches!(cp.child().try_wait(), Ok(None))
        });
        let _ = kill_process_group(cp.group, Signal::TERM);
        let done = cp.done();
        let copied = std::fs::read(&new).expect("what there is");
        assert!(content.starts_with(&copied), "{words:?}: a gap in {} bytes", copied.len());
        if let Some((_, told)) = done.stderr.split_once(", at byte ") {
            let offset = told.split(' ').next().expect("a byte");
            assert_eq!(offset, copied.len().to_string(), "{words:?}");
            let told = json_of(&json);
            assert_eq!(told["bytes"].as_u64(), Some(copied.len() as u64), "{words:?}: {told}");
            assert_eq!(told["errors"][0]["offset"], told["bytes"], "{words:?}: {told}");
            midway += 1;
        }
    }
    println!("{midway} were interrupted midway");
    assert!(midway > 0, "none was interrupted midway");
}

/// What is not there need not be removed.
fn none(error: std::io::Error) -> std::io::Result<()> {
    match error.kind() {
        std::io::ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    }
}

#[test]
fn where_nobody_reads_how_far_it_came_one_signal_ends_it_all_the_same() {
    for options in [&[][..], &["--progress"], &["--fsync", "--metrics=m.prom"]] {
        let folder = tempfile::tempdir().expect("a folder");
        let (pipe, new) = (folder.path().join("fifo"), folder.path().join("new"));
        fifo(&pipe);
        let (_reader, full) = full_pipe();
        let ends = [&pipe, &new].map(|path| path.to_str().expect("a name"));
        let mut command = bytepath(&[&["cp", ends[0], ends[1]], options].concat());
        let mut cp = spawned(command.current_dir(&folder).stdout(Stdio::null()).stderr(full));
        let _writer = opened(&pipe);
        let pid = Pid::from_child(cp.child());
        until("the handler", || catches(pid, Signal::INT));
        kill_process_group(cp.group, Signal::INT).expect("it is there");
        assert_eq!(signal_of(&cp.done()), Some(Signal::INT.as_raw()), "{options:?}");
        if options.len() > 1 {
            tells_its_end(&folder.path().join("m.prom"), Signal::INT);
        }
    }
}

#[track_caller]
fn tells_its_end(page: &Path, signal: Signal) {
    let page = std::fs::read_to_string(page).expect("it is told");
    let code = format!("}} {}\n", 128 + signal.as_raw());
    let told = page.split_inclusive('\n').find(|line| line.contains("job_exit_code{"));
    assert!(told.is_some_and(|line| line.ends_with(&code)), "{page}");
}

#[test]
fn once_all_is_copied_a_signal_ends_it_also_while_nobody_reads_what_it_has_to_say() {
    for (signal, option, metrics) in [
        (Signal::INT, "-v", None),
        (Signal::TERM, "--json=-", None),
        (Signal::HUP, "--json-files=-", None),
        (Signal::TERM, "-v", Some("m.prom")),
        (Signal::INT, "-v", Some("unix:m")),
    ] {
        let folder = tempfile::tempdir().expect("a folder");
        let [old, new] = ["old", "new"].map(|name| folder.path().join(name));
        std::fs::write(&old, "old").expect("a file");
        let ends = [&old, &new].map(|path| path.to_str().expect("a name"));
        let (_reader, full) = full_pipe();
        // It heeds signals from the beginning, by a thread that is gone when all is copied.
        let mut command = bytepath(&["cp", "--fsync", option, ends[0], ends[1]]);
        command.current_dir(&folder).args(metrics.map(|target| format!("--metrics={target}")));
        let cp = spawned(command.stdout(full).stderr(Stdio::piped()));
        until("the handler", || catches(cp.group, Signal::HUP));
        // The job is told of by two.
        let left = if metrics.is_some() { 3 } else { 1 };
        let tasks = format!("/proc/{}/task", cp.group);
        until("the end", || {
            let threads = std::fs::read_dir(&tasks).map(Iterator::count);
            new.exists() && threads.is_ok_and(|threads| threads == left)
        });
        let done = ended_by(cp, signal);
        assert_eq!(done.stderr, "", "{option}");
        assert_eq!(std::fs::read(&new).expect("a file"), b"old", "{option}");
        if metrics == Some("m.prom") {
            tells_its_end(&folder.path().join("m.prom"), signal);
        }
        assert!(!folder.path().join("m").exists(), "the socket is left");
    }
}

/// A pipe into which nothing more goes.
fn full_pipe() -> (OwnedFd, OwnedFd) {
    let (reader, full) = pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).expect("a pipe");
    while rustix::io::write(&full, &[0; 4096]) != Err(Errno::AGAIN) {}
    let flags = rustix::fs::fcntl_getfl(&full).expect("flags");
    rustix::fs::fcntl_setfl(&full, flags - rustix::fs::OFlags::NONBLOCK).expect("it blocks");
    (reader, full)
}

#[test]
fn where_nobody_reads_how_far_it_came_another_signal_ends_it_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (pipe, new) = (folder.path().join("fifo"), folder.path().join("new"));
    fifo(&pipe);
    let (_reader, full) = full_pipe();
    let ends = [&pipe, &new].map(|path| path.to_str().expect("a name"));
    let mut command = bytepath(&["cp", ends[0], ends[1]]);
    let mut cp = spawned(command.stdout(Stdio::null()).stderr(full));
    let _writer = opened(&pipe);
    until("the end", || {
        let _ = kill_process_group(cp.group, Signal::INT);
        !matches!(cp.child().try_wait(), Ok(None))
    });
    assert_eq!(signal_of(&cp.done()), Some(Signal::INT.as_raw()));
}

#[test]
fn progress_keeps_to_its_line_and_messages_have_their_own() {
    let directory = tempfile::tempdir().expect("a folder");
    let (from, to) = (directory.path().join("from"), directory.path().join("to"));
    fifo(&from);
    let words = ["cp", "--progress", from.to_str().expect("UTF-8"), to.to_str().expect("UTF-8")];
    let (cp, mut screen) = on_terminal(&words, Stdio::null());
    screen.be_wide(21);
    let mut writer = opened(&from);
    writer.write_all(&[1; 5000]).expect("it reads");
    screen.shows(", 4.88");
    kill_process_group(cp.group, Signal::TERM).expect("it is there");
    let drawn = screen.whole();
    drop(writer);
    assert_eq!(signal_of(&cp.done()), Some(Signal::TERM.as_raw()));
    let (line, said) = drawn.split_once("\r\n").unwrap_or_else(|| panic!("one line: {drawn:?}"));
    assert!(said.starts_with("cp: interrupted"), "{drawn:?}");
    for text in line.split('\r') {
        assert!(text.len() < 21, "{drawn:?}");
    }
}

/// Runs it in that folder, on a terminal for its messages; its questions wait for answers.
fn asking(folder: &Path, words: &str) -> (Bounded, Screen) {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec {BYTEPATH} cp {words}")]).current_dir(folder);
    drawing(command.stdin(Stdio::piped()))
}

/// One whose copy is to wait, and others, one of them there already.
fn some_files() -> TempDir {
    let directory = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(directory.path().join("to")).expect("a folder");
    fifo(&directory.path().join("fifo"));
    for name in ["one", "two", "to/two"] {
        std::fs::write(directory.path().join(name), name).expect("a file");
    }
    directory
}

const ASKED: &str = "cp: overwrite 'to/two'? ";

#[test]
fn on_a_terminal_each_file_is_told_of_as_it_comes() {
    let folder = some_files();
    let (cp, mut screen) = asking(folder.path(), "-v one fifo two to/ >&2");
    screen.shows("'one' -> 'to/one'\r\n'fifo' -> 'to/fifo'\r\n");
    drop(opened(&folder.path().join("fifo")));
    assert!(screen.whole().ends_with("'two' -> 'to/two'\r\n"));
    assert!(cp.done().status.success());
}

#[test]
fn what_was_done_is_told_before_a_question() {
    for output in [">&2", ">said"] {
        let folder = some_files();
        let (mut cp, mut screen) = asking(folder.path(), &format!("-iv one two to/ {output}"));
        screen.shows(ASKED);
        let _answers = cp.child().stdin.take();
        ended_by(cp, Signal::INT);
        let drawn = screen.whole().replace('\r', "");
        let said = std::fs::read_to_string(folder.path().join("said")).unwrap_or_default();
        let all = said + &drawn;
        assert!(all.starts_with(&format!("'one' -> 'to/one'\n{ASKED}")), "{output}: {all:?}");
        assert_eq!(std::fs::read(folder.path().join("to/two")).expect("a file"), b"to/two");
    }
}

/// How often the threads of a process have waited.
fn waits(process: Pid) -> u64 {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("it is there");
    let status = |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("status"));
    let told = threads.flatten().filter_map(|thread| status(thread).ok());
    let count = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        line.and_then(|count| count.trim().parse::<u64>().ok())
    };
    told.filter_map(count).sum()
}

#[test]
fn no_progress_is_drawn_over_a_question() {
    for verbose in ["", "-v"] {
        let folder = some_files();
        let words = format!("-i {verbose} --progress fifo one two to/ >&2");
        let (mut cp, mut screen) = asking(folder.path(), &words);
        let mut answers = cp.child().stdin.take().expect("a pipe");
        screen.shows("0 files, 0 B");
        drop(opened(&folder.path().join("fifo")));
        screen.shows(ASKED);
        let before = waits(cp.group);
        until("some looks", || waits(cp.group) >= before + 4);
        let drawn = screen.so_far();
        let line = if verbose.is_empty() { "" } else { "'one' -> 'to/one'\r\n" };
        assert!(drawn.ends_with(&format!("\r\n{line}{ASKED}")), "{drawn:?}");
        answers.write_all(b"y\n").expect("it reads");
        let drawn = screen.whole();
        assert!(drawn.contains("3 files, 6 B") && drawn.ends_with("\r\n"), "{drawn:?}");
        assert!(cp.done().status.success());
    }
}
