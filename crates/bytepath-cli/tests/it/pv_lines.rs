//! `pv -l`: lines are counted in a copy while the kernel hands the bytes on, and nothing is read
//! beforehand.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::OFlags;
use tempfile::TempDir;

use crate::calls::assert_fired;
use crate::program::{BYTEPATH, installed, run, spawned};
use crate::pv::{LINES, lines, ours, pipe};

/// A folder with a file `a` of so many lines, several buffers long.
fn folder() -> (TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a"), lines(LINES)).expect("written");
    (folder, lines(LINES))
}

/// What a pv between two pipes hands on and says.
#[track_caller]
fn piped(words: &[&str], text: &str, prepare: impl Fn(&OwnedFd, &OwnedFd)) -> (String, String) {
    let ((reader, writer), (out, into)) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
    prepare(&reader, &into);
    let mut command = ours(words);
    let program = spawned(command.stdin(reader).stdout(into).stderr(Stdio::piped()));
    drop(command);
    let moved = std::thread::scope(|scope| {
        scope.spawn(|| File::from(writer).write_all(text.as_bytes()).expect("taken"));
        std::io::read_to_string(File::from(out)).expect("read")
    });
    let done = program.done();
    assert!(done.status.success(), "{}", done.stderr);
    (moved, done.stderr)
}

#[test]
fn lines_are_counted_between_ends_of_every_kind() {
    let (folder, text) = folder();
    let counted = |said: &str| said.lines().last().map(str::to_owned);
    let expected = Some(LINES.to_string());
    let path = folder.path().join("a");
    let from_file = |stdout: Stdio| {
        let mut command = ours(&["-n", "-l", "-b"]);
        command.arg(&path).stdout(stdout).stderr(Stdio::piped());
        let done = spawned(&mut command).done();
        assert!(done.status.success(), "{}", done.stderr);
        done
    };
    let done = from_file(Stdio::piped());
    assert!(done.stdout == text);
    assert_eq!(counted(&done.stderr), expected);
    let out = folder.path().join("out");
    let done = from_file(File::create(&out).expect("made").into());
    assert!(fs::read_to_string(&out).expect("read") == text);
    assert_eq!(counted(&done.stderr), expected);
    assert_eq!(counted(&from_file(Stdio::null()).stderr), expected);
    let (moved, said) = piped(&["-n", "-l", "-b"], &text, |_, _| {});
    assert!(moved == text);
    assert_eq!(counted(&said), expected);
}

#[test]
fn ends_that_do_not_wait_and_pipes_of_two_slots_are_counted_exactly() {
    let text = lines(20_000) + "no end";
    let (moved, said) = piped(&["-nlb", "--no-enlarge"], &text, |source, sink| {
        for end in [source.as_fd(), sink.as_fd()] {
            rustix::pipe::fcntl_setpipe_size(end, 8192).expect("two slots");
            rustix::fs::fcntl_setfl(end, OFlags::NONBLOCK).expect("set");
        }
    });
    assert!(moved == text);
    assert_eq!(said.lines().last(), Some("20000"));
}

#[test]
fn what_ends_lines_may_be_zeros() {
    let text = "one\0two\nhalf\0three\0rest";
    let (moved, said) = piped(&["-n0b"], text, |_, _| {});
    assert_eq!((moved.as_str(), said.lines().last()), (text, Some("3")));
}

/// Runs pv with these words under strace, of whose faults at least one fires; what it gave, what it said, and the calls about `a`.
#[track_caller]
fn traced(folder: &Path, options: &str, words: &str) -> (String, String, String) {
    let line =
        format!("strace -f -qq -o log -P $PWD/a {options} {BYTEPATH} pv {words} 2>said | cat");
    let mut command = Command::new("sh");
    command.args(["-c", &line]).current_dir(folder).stdin(Stdio::null());
    let done = run(command.env_remove("RUST_BACKTRACE"));
    if options.contains("inject=") {
        assert_fired(&folder.join("log"), options);
    }
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("there");
    (done.stdout, read("said"), read("log"))
}

#[test]
fn nothing_is_read_twice_to_know_how_many_lines_there_are() {
    if !installed("strace") {
        return;
    }
    let (folder, text) = folder();
    for words in ["-f -l a", "-n -l a", "-q -l a", "-f -l -C a", "-f -l -U - a"] {
        let (moved, _, log) = traced(folder.path(), "-e trace=read,pread64", words);
        assert!(moved == text, "{words}");
        let answer =
            |line: &str| line.rsplit_once(" = ")?.1.split(' ').next()?.parse::<usize>().ok();
        let read: usize = log.lines().filter_map(answer).sum();
        assert_eq!(read, text.len(), "{words}: {log}");
    }
}

#[test]
fn faults_while_lines_are_counted_cost_no_byte_and_no_line() {
    if !installed("strace") {
        return;
    }
    let (folder, text) = folder();
    for fault in [
        "splice:error=EINVAL",
        "splice:error=EINVAL:when=2+",
        "splice:error=EINTR:when=1+2",
        "splice:error=EAGAIN:when=1+2",
        "pread64:error=EINTR:when=1+2",
        "pread64:error=ENOSYS",
        "pread64:error=EIO:when=3+",
        "read,pread64:error=EINTR:when=1+2",
        "lseek:error=ESPIPE",
        "fadvise64:error=EINVAL",
    ] {
        let (moved, said, _) = traced(folder.path(), &format!("-e inject={fault}"), "-nlb a");
        assert!(moved == text, "{fault}: {} bytes; {said}", moved.len());
        assert_eq!(said.lines().last(), Some(LINES.to_string().as_str()), "{fault}: {said}");
    }
    // Of the pipes' calls, as well.
    for fault in ["tee:error=EINVAL", "tee:error=EINTR:when=1+2", "tee:error=EAGAIN:when=2+2"] {
        let line = format!(
            "cat a | strace -f -qq -o log -e inject={fault} {BYTEPATH} pv -nlb 2>said | cmp - a"
        );
        run(Command::new("sh").args(["-c", &line]).current_dir(folder.path())).well();
        assert_fired(&folder.path().join("log"), fault);
        let said = fs::read_to_string(folder.path().join("said")).expect("there");
        assert_eq!(said.lines().last(), Some(LINES.to_string().as_str()), "{fault}: {said}");
    }
    let (moved, said, _) = traced(folder.path(), "-e inject=read,pread64:error=EIO", "-ql a");
    assert_eq!((moved.as_str(), said.as_str()), ("", "pv: a: read failed: Input/output error\n"));
}

#[test]
fn the_share_of_the_lines_is_told_before_all_are_seen() {
    let (folder, text) = folder();
    let (out, into) = pipe().expect("a pipe");
    let mut command = ours(&["-n", "-l", "-i", "0.1", "--no-enlarge"]);
    command.arg(folder.path().join("a")).stdout(into).stderr(Stdio::piped());
    let mut program = spawned(&mut command);
    drop(command);
    let said = program.child().stderr.take().expect("it is piped");
    let mut said = BufReader::new(said).lines().map(|line| line.expect("text"));
    // The pipe is full, and nobody reads it.
    let share = said.by_ref().map(|line| line.parse::<u32>().expect("a number"));
    let share = share.into_iter().find(|share| *share > 0);
    assert!(share.is_some_and(|share| share < 50), "{share:?}");
    assert!(std::io::read_to_string(File::from(out)).expect("read") == text);
    assert_eq!(said.last().as_deref(), Some("100"));
    program.done().well();
}

#[test]
fn a_rate_and_a_size_to_stop_at_count_lines() {
    let (folder, text) = folder();
    let first = |words: &[&str]| {
        run(ours(words).arg("a").current_dir(folder.path())).well().stdout.lines().count()
    };
    assert_eq!(first(&["-q", "-l", "-S", "-s", "123"]), 123);
    assert_eq!(first(&["-q", "-l", "-S", "-s", "123", "-U", "-"]), 123);
    assert_eq!(first(&["-q", "-l", "-L", "1G"]), text.lines().count());
}
