//! `pv` against the real pv: the same words and inputs, the same bytes and exit codes.

use std::ffi::OsStr;
use std::fs;
use std::io::{Read as _, Seek as _, Write};
use std::net::UdpSocket;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::fs::OFlags;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socketpair};
use rustix::pipe::PipeFlags;
use rustix::process::{Signal, kill_process};
use tempfile::TempDir;

use crate::bench_devices::Loop;
use crate::program::{
    BYTEPATH, Done, HANGS_AFTER, bytepath, catches, installed, run, run_for_nobody, shell, spawned,
    until,
};

/// The program under test by the name of the classic.
pub(crate) fn ours(words: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new(BYTEPATH);
    command.arg0("pv").args(words).env_remove("RUST_BACKTRACE").stdin(Stdio::null());
    command
}

/// The classic itself.
pub(crate) fn real(words: &[impl AsRef<OsStr>]) -> Command {
    let mut command = Command::new("pv");
    command.args(words).env("LC_ALL", "C").stdin(Stdio::null());
    command
}

/// So many do not fit into one buffer of any of the two.
pub(crate) const LINES: usize = 100_000;

/// Lines, each with its number.
pub(crate) fn lines(count: usize) -> String {
    (0..count).map(|line| format!("line {line} of many\n")).collect()
}

/// A folder with files to move.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for (name, text) in [("a", lines(LINES)), ("b", "bb\n\0b".into()), ("empty", String::new())] {
        fs::write(folder.path().join(name), text).expect("written");
    }
    fs::create_dir(folder.path().join("dir")).expect("made");
    folder
}

/// Runs a program there, with a file for its standard input.
#[track_caller]
fn run_in(folder: &Path, command: &mut Command, stdin: &str) -> Done {
    let stdin = fs::File::open(folder.join(stdin)).expect("there");
    run(command.current_dir(folder).stdin(stdin))
}

/// What is said, but for the words after the names: pv's own are not copied.
fn shape(said: &str) -> Vec<String> {
    let names = |line: &str| {
        let mut parts: Vec<_> = line.split(": ").collect();
        parts.truncate(2);
        parts.join(": ")
    };
    said.lines().map(names).collect()
}

#[test]
fn the_same_words_and_inputs_give_the_same_bytes_and_exit_code() {
    if !installed("pv") {
        return;
    }
    let folder = folder();
    let cases: &[&[&str]] = &[
        &[],
        &["-"],
        &["a"],
        &["-q", "a"],
        &["-q", "a", "b", "empty", "a"],
        &["-q", "b", "-", "b"],
        &["-q", "a", "missing", "b"],
        &["-q", "dir", "b"],
        &["-q", "--", "a"],
        &["-q", "b", "-C"],
        &["-qB", "1000", "a"],
        &["-q", "-B", "4M", "a"],
        &["-qC", "a", "b"],
        &["-qS", "-s", "10", "a", "b"],
        &["-q", "-S", "-s", "1K", "b", "a"],
        &["-q", "-S", "a"],
        &["-qlS", "-s", "3", "a"],
        &["-qS", "-s", "0", "a"],
        &["-qlS", "-s", "0", "a"],
        &["-nS", "-s", "0", "b"],
        &["-ql", "a"],
        &["-q0", "b"],
        &["-q", "-L", "10M", "b"],
        &["-q", "-l", "-L", "1M", "a"],
        &["-q", "-E", "a"],
        &["-q", "-EE", "a", "b"],
        &["-q", "-W", "a"],
        &["-q", "-T", "a"],
        &["-q", "-A", "10", "a"],
        &["--quiet", "--no-splice", "a"],
        &["--quie", "a"],
        &["-q", "-N", "name", "a"],
        &["-n", "-b", "a"],
        &["-n", "-b", "empty"],
        &["-W", "-N", "-x", "a"],
    ];
    for words in cases {
        let theirs = run_in(folder.path(), &mut real(words), "b");
        let mine = run_in(folder.path(), &mut ours(words), "b");
        assert_eq!(mine.status.code(), theirs.status.code(), "{words:?}: {mine:?} {theirs:?}");
        assert_eq!(mine.stdout, theirs.stdout, "{words:?}");
        assert_eq!(shape(&mine.stderr), shape(&theirs.stderr), "{words:?}: {mine:?} {theirs:?}");
    }
}

#[test]
fn options_end_with_the_first_operand_where_posixly_correct_is_set() {
    if !installed("pv") {
        return;
    }
    let cases: &[&[&str]] = &[
        &["-q", "b", "-C"],
        &["-q", "b", "-o", "empty"],
        &["-q", "-", "-l", "--", "b"],
        &["-q", "--", "b", "-l"],
        &["-qB", "1000", "b", "--quiet"],
        &["--quiet", "--no-splice", "b", "--", "-"],
    ];
    for words in cases {
        let done = [real(words), ours(words)].map(|mut command| {
            let folder = folder();
            fs::write(folder.path().join("empty"), "kept").expect("written");
            let done = run_in(folder.path(), command.env("POSIXLY_CORRECT", "1"), "b");
            let kept = fs::read_to_string(folder.path().join("empty")).expect("there");
            (done.status.code(), done.stdout, shape(&done.stderr), kept)
        });
        assert_eq!(done[0], done[1], "{words:?}");
        assert_eq!(done[1].3, "kept", "{words:?}");
    }
}

#[test]
fn wrong_usage_is_refused_with_the_same_exit_code_and_points_to_the_help() {
    if !installed("pv") {
        return;
    }
    let cases: &[(&[&str], &str)] = &[
        (&["--nope"], "pv: unrecognized option '--nope'\nTry `pv --help'"),
        (&["--f"], "pv: option '--f' is ambiguous; possibilities: '--"),
        (&["-y"], "pv: invalid option -- 'y'\nTry `pv --help'"),
        (&["-s"], "requires an argument"),
        (&["-s", "x"], "pv: -s: "),
        (&["-L", "x"], "pv: -L: "),
        (&["-L", "-5"], "pv: -L: "),
        (&["-B", "5X"], "pv: -B: "),
        (&["-i", "-1"], "pv: -i: "),
        (&["-w", "x"], "pv: -w: "),
        (&["-d", "x"], "pv: -d: "),
        (&["-d", "1", "-R", "2"], "pv: "),
        (&["-d", "1", "-L", "2"], "pv: "),
    ];
    for (words, said) in cases {
        let theirs = run(&mut real(words));
        let mine = run(&mut ours(words)).refused(64, &[said]);
        assert_eq!(mine.status.code(), theirs.status.code(), "{words:?}: {theirs:?}");
        assert_eq!(mine.stderr.lines().count(), theirs.stderr.lines().count(), "{words:?}");
    }
    run(&mut ours(&["--route", "x"]))
        .refused(64, &["invalid value 'x'", "[possible values: splice,"]);
}

#[test]
fn wrong_usage_leaves_files_as_they_were() {
    let folder = folder();
    let wide = "%99999999p";
    let extra = format!("window:{wide}");
    let cases: &[&[&str]] = &[
        &["-F", wide, "-o", "b", "a"],
        &["-x", &extra, "-o", "b", "a"],
        &["-F", wide, "-U", "b", "-q", "a"],
        &["-M", "both", "-F", wide, "-F", "%b", "-o", "b", "--", "cat"],
        &["-M", "both", "-F", "%b", "-F", wide, "-o", "b", "--", "cat"],
        &["-M", "out", "-o", "b"],
        &["-M", "in", "-o", "b", "--", "cat"],
    ];
    for words in cases {
        run(ours(words).current_dir(folder.path())).refused(64, &["pv: -"]);
        assert_eq!(fs::read(folder.path().join("b")).expect("there"), b"bb\n\0b", "{words:?}");
    }
}

#[test]
fn a_link_by_the_name_of_a_classic_is_that_command_and_no_other_is() {
    let folder = folder();
    for name in ["pv", "other"] {
        symlink(BYTEPATH, folder.path().join(name)).expect("linked");
    }
    let words = ["-q", "b"];
    let by = |name: &str| {
        let mut command = Command::new(folder.path().join(name));
        command.args(words);
        run_in(folder.path(), &mut command, "a")
    };
    assert_eq!(by("pv").well().stdout, "bb\n\0b");
    by("other").refused(2, &["unexpected argument '-q'"]);
    let named = run_in(folder.path(), &mut bytepath(&["pv", "-q", "b"]), "a");
    assert_eq!(named.well().stdout, "bb\n\0b");
}

#[test]
fn help_and_version_are_printed_and_no_failure() {
    for word in ["-h", "--help", "-V", "--version"] {
        let said = run(&mut ours(&[word])).well().stdout;
        assert!(said.contains("pv"), "{said}");
    }
    let help = run(&mut ours(&["--help"])).well().stdout;
    for option in ["--rate-limit", "--watchfd", "--monitor", "--route", "--durable"] {
        assert!(help.contains(option), "{option}");
    }
    let done = run_for_nobody(&mut ours(&["--help"]));
    assert_eq!((done.status.code(), done.stderr.as_str()), (Some(0), ""));
}

#[test]
fn an_output_that_is_an_input_is_left_as_it_was() {
    let folder = folder();
    let before = fs::read(folder.path().join("a")).expect("read");
    let mine = run_in(folder.path(), &mut ours(&["-q", "-o", "a", "b", "a"]), "b");
    mine.refused(4, &["pv: a: input is the output"]);
    assert_eq!(fs::read(folder.path().join("a")).expect("read"), before);
    let words = ["-q", "-M", "both", "-o", "a", "--", "cat"];
    run_in(folder.path(), &mut ours(&words), "a").refused(4, &["pv: -: input is the output a"]);
    assert_eq!(fs::read(folder.path().join("a")).expect("read"), before);
    // Nor is it written where it is open to be read only.
    for (line, code, said) in [
        ("a 1<a", 4, "pv: a: input is the output"),
        ("- <a 1<a", 4, "pv: -: input is the output"),
        ("b 1<a", 2, "pv: standard output: "),
    ] {
        let in_shell = |pv: &str| {
            let mut command = Command::new("sh");
            run(command.args(["-c", &format!("exec {pv} -q {line}")]).current_dir(folder.path()))
        };
        in_shell(&format!("{BYTEPATH} pv")).refused(code, &[said]);
        if code == 4 && installed("pv") {
            assert_eq!(in_shell("pv").status.code(), Some(code), "{line}");
        }
    }
    // Appended to, an input is passed over and the others are moved; Debian's pv stops there.
    for mut command in [ours(&["-q", "a", "b"]), real(&["-q", "a", "b"])] {
        if command.get_program() == "pv" && !installed("pv") {
            continue;
        }
        fs::write(folder.path().join("a"), &before).expect("written");
        let a = fs::File::options().append(true).open(folder.path().join("a")).expect("open");
        let done = spawned(command.current_dir(folder.path()).stdout(a).stderr(Stdio::piped()));
        assert_eq!(done.done().status.code(), Some(4));
        let after = fs::read(folder.path().join("a")).expect("read");
        if command.get_program() != "pv" {
            assert!(after == [before.as_slice(), b"bb\n\0b"].concat());
        }
    }
}

#[test]
fn a_device_that_is_input_and_output_keeps_what_it_has() {
    let folder = folder();
    let Some(device) = Loop::new(folder.path()) else { return };
    fs::write(folder.path().join("one"), "x").expect("written");
    let cases = [
        ("$pv -q $device >$device", '\x07'),
        ("$pv -q - <$device >$device", '\x07'),
        ("$pv -q -o $device one $device", '\x07'),
        ("$pv -q -U $device one $device", '\x07'),
        ("$pv -q one $device >$device", 'x'),
    ];
    for (line, first) in cases {
        let pv = format!("{BYTEPATH} pv");
        let line = line.replace("$device", &device.path);
        let mut command = Command::new("sh");
        command.args(["-c", &line.replace("$pv", &pv)]).current_dir(folder.path());
        let done = run(command.stdin(Stdio::null()));
        assert_eq!(done.status.code(), Some(4), "{line}: {}", done.stderr);
        assert!(done.stderr.contains("input is "), "{line}: {}", done.stderr);
        let bytes = fs::read(&device.path).expect("read");
        assert!(bytes[0] == first as u8 && bytes[1..].iter().all(|byte| *byte == 7), "{line}");
        assert_eq!(bytes.len(), 1 << 20, "{line}");
    }
}

#[test]
fn an_output_file_is_made_or_emptied() {
    let folder = folder();
    for _ in 0..2 {
        run_in(folder.path(), &mut ours(&["-q", "-o", "out", "a"]), "b").well();
        let (a, out) = (folder.path().join("a"), folder.path().join("out"));
        assert_eq!(fs::read(out).expect("read"), fs::read(a).expect("read"));
        fs::write(folder.path().join("out"), lines(90_000)).expect("written");
    }
    run_in(folder.path(), &mut ours(&["-q", "-o", "no/such", "a"]), "b")
        .refused(2, &["pv: no/such: No such file or directory"]);
}

#[test]
fn every_way_of_moving_gives_the_same_bytes() {
    let folder = folder();
    let a = fs::read_to_string(folder.path().join("a")).expect("read");
    let ways: &[&[&str]] = &[
        &["-B", "7"],
        &["-C"],
        &["-O"],
        &["--sparse-output"],
        &["-K"],
        &["-Y"],
        &["-E", "-Z", "4K"],
        &["-Z", "4K"],
        &["-l"],
        &["-T"],
        &["-U", "-"],
        &["--durable"],
        &["--durable", "-l"],
        &["--no-enlarge"],
        &["-J", "64K"],
        &["-L", "1G"],
        &["--route", "read-write"],
        &["--route", "splice"],
    ];
    for way in ways {
        let piped = run_in(folder.path(), &mut ours(&[&["-q", "a"], *way].concat()), "b").well();
        assert!(piped.stdout == a, "{way:?}");
        if way.contains(&"splice") {
            continue;
        }
        let words = [&["-q", "-o", "out", "a"], *way].concat();
        run_in(folder.path(), &mut ours(&words), "b").well();
        let out = fs::read_to_string(folder.path().join("out")).expect("read");
        assert!(out == a, "{way:?} into a file");
    }
}

#[test]
fn zeros_become_holes_with_sparse_and_old_bytes_are_never_kept() {
    let folder = folder();
    let (zeros, out) = (folder.path().join("zeros"), folder.path().join("out"));
    let bytes = [vec![0; 1 << 20], b"middle".to_vec(), vec![0; 1 << 20]].concat();
    fs::write(&zeros, &bytes).expect("written");
    run_in(folder.path(), &mut ours(&["-q", "-O", "-o", "out", "zeros"]), "b").well();
    assert_eq!(fs::read(&out).expect("read"), bytes);
    let (sparse, full) = (fs::metadata(&out).expect("there"), fs::metadata(&zeros).expect("there"));
    if full.blocks() > 0 {
        assert!(sparse.blocks() < full.blocks() / 2, "{} blocks", sparse.blocks());
    }
    // They are part of it before anything comes behind them.
    let file = fs::File::create(&out).expect("made");
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let mut command = ours(&["-q", "-O"]);
    let program = spawned(command.stdin(reader).stdout(file).stderr(Stdio::piped()));
    let before = [vec![b'A'; 4096], vec![0; 1 << 20]].concat();
    writer.write_all(&before).expect("taken");
    let len = || fs::metadata(&out).expect("there").len();
    until("all is in the file", || len() == before.len() as u64);
    kill_process(program.group, Signal::TERM).expect("it runs");
    assert_eq!(program.done().status.code(), Some(32));
    assert_eq!(fs::read(&out).expect("read"), before);
    // Over a file that is not emptied, holes would show what was there.
    fs::write(&out, vec![7; bytes.len()]).expect("written");
    let old = fs::File::options().write(true).open(&out).expect("open");
    let mut command = ours(&["-q", "-O", "zeros"]);
    spawned(command.current_dir(folder.path()).stdout(old)).done();
    assert_eq!(fs::read(&out).expect("read"), bytes);
}

#[test]
fn stopping_at_a_size_leaves_the_rest_for_the_next_reader() {
    let folder = folder();
    let line = "cd \"$folder\"; (\"$bytepath\" pv -qS -s 8; cat) < b | od -c; \
                (\"$bytepath\" pv -qlS -s 1; cat) < b | od -c";
    let mut command = Command::new("sh");
    let done =
        run(command.args(["-c", line]).env("bytepath", BYTEPATH).env("folder", folder.path()));
    let said = done.well().stdout;
    let all = shell(&format!("od -c < {}/b", folder.path().display())).stdout;
    assert_eq!(said, all.clone() + &all);
    // What is behind the last line, and is itself none.
    let line = r#"printf 'one\0two\nthree' >"$folder/c"
        for words in '-l -s 1' '-0 -s 1' '-l -L 1 -s 1'; do
            ("$bytepath" pv -qS $words; echo :; cat) < "$folder/c" | tr '\0' 0; echo
        done"#;
    let mut command = Command::new("sh");
    let done =
        run(command.args(["-c", line]).env("bytepath", BYTEPATH).env("folder", folder.path()));
    let lines = "one0two\n:\nthree\n";
    assert_eq!(done.well().stdout, format!("{lines}one0:\ntwo\nthree\n{lines}"));
}

#[test]
fn a_descriptor_that_was_closed_has_no_name() {
    let folder = folder();
    let place = folder.path().display();
    let input = shell(&format!("\"$bytepath\" pv -q /dev/stdin {place}/b <&-"));
    assert_eq!(input.stdout, "bb\n\0b");
    input.refused(2, &["pv: /dev/stdin: No such file or directory"]);
    let output = shell(&format!("\"$bytepath\" pv -q -o /dev/fd/0 {place}/b <&-"));
    output.refused(2, &["pv: /dev/fd/0: No such file or directory"]);
}

#[test]
fn help_and_version_for_nobody_are_no_failure() {
    for words in ["-V", "--version", "-h", "--help"] {
        let done = shell(&format!("\"$bytepath\" pv {words} >&-")).well();
        assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("", ""), "{words}");
    }
}

#[test]
fn discarding_reads_everything_and_writes_nothing() {
    let folder = folder();
    for words in [&["-q", "-X", "a"][..], &["-q", "-X", "-l", "a"], &["-q", "-X", "-B", "1K", "a"]]
    {
        assert_eq!(run_in(folder.path(), &mut ours(words), "b").well().stdout, "");
    }
}

#[test]
fn files_of_proc_that_claim_no_size_are_moved_whole() {
    let words = ["-q", "/proc/cpuinfo", "/proc/self/mounts", "/proc/version"];
    let done = run(&mut ours(&words)).well();
    assert!(done.stdout.contains("Linux version") && done.stdout.contains("processor"), "{done:?}");
}

#[test]
fn ends_that_are_nonblocking_and_pipes_of_two_slots_lose_nothing() {
    let text = lines(20_000);
    for words in [&["-q"][..], &["-qC"], &["-ql"], &["-q", "-n"]] {
        let (reader, writer) = pipe().expect("a pipe");
        let (out, into) = pipe().expect("a pipe");
        for end in [reader.as_fd(), into.as_fd()] {
            rustix::pipe::fcntl_setpipe_size(end, 8192).expect("two slots");
            rustix::fs::fcntl_setfl(end, OFlags::NONBLOCK).expect("set");
        }
        let mut command = ours(&[words, &["--no-enlarge"]].concat());
        let program = spawned(command.stdin(reader).stdout(into).stderr(Stdio::null()));
        drop(command);
        let moved = std::thread::scope(|scope| {
            scope.spawn(|| fs::File::from(writer).write_all(text.as_bytes()).expect("taken"));
            std::io::read_to_string(fs::File::from(out)).expect("read")
        });
        assert!(moved == text, "{words:?}");
        assert!(program.done().status.success());
    }
}

#[test]
fn pipes_are_left_as_they_are_when_that_is_asked_for() {
    let large = pipe().map(|(_, writer)| rustix::pipe::fcntl_setpipe_size(writer, 1 << 20));
    if large.expect("a pipe").is_err() {
        return println!("skipped: no pipe of 1 MiB here");
    }
    for (words, bytes) in [(&["-q"][..], 1 << 20), (&["-q", "--no-enlarge"], 64 << 10)] {
        let (reader, writer) = pipe().expect("a pipe");
        let mut command = ours(words);
        let kept = reader.try_clone().expect("a second");
        let program = spawned(command.stdin(reader).stdout(Stdio::null()));
        // So much that a larger pipe is worth it.
        fs::File::from(writer).write_all(&vec![0; 4 << 20]).expect("it is read");
        assert!(program.done().status.success(), "{words:?}");
        let after = rustix::pipe::fcntl_getpipe_size(&kept).expect("a size");
        assert_eq!(after, bytes, "{words:?}");
    }
}

#[test]
fn the_pipes_at_both_ends_get_the_size_that_is_asked_for() {
    for words in [&["-q"][..], &["-q", "-C"], &["-q", "-l"]] {
        let (reader, writer) = pipe().expect("a pipe");
        let (out, into) = pipe().expect("a pipe");
        drop(writer);
        let mut command = ours(&[words, &["-J", "32K"]].concat());
        let kept = reader.try_clone().expect("a second");
        assert!(spawned(command.stdin(reader).stdout(into)).done().status.success());
        for end in [kept, out] {
            let bytes = rustix::pipe::fcntl_getpipe_size(&end).expect("a size");
            assert_eq!(bytes, 32 << 10, "{words:?}");
        }
    }
}

/// The flag is of the open file, which others have too.
#[test]
fn a_signal_leaves_no_direct_io_on_an_output() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let file = fs::File::create(folder.path().join("out")).expect("made");
    let flags = || rustix::fs::fcntl_getfl(&file).expect("flags");
    let before = flags();
    if rustix::fs::fcntl_setfl(&file, before | OFlags::DIRECT).is_err() {
        println!("skipped: the build's folder is on a file system without O_DIRECT");
        return;
    }
    rustix::fs::fcntl_setfl(&file, before).expect("set");
    let (reader, _writer) = pipe().expect("a pipe");
    let mut command = ours(&["-q", "-K"]);
    let into = file.try_clone().expect("a second");
    let program = spawned(command.stdin(reader).stdout(into).stderr(Stdio::piped()));
    until("it is set", || flags().contains(OFlags::DIRECT));
    kill_process(program.group, Signal::TERM).expect("it runs");
    assert_eq!(program.done().status.code(), Some(32));
    assert_eq!(flags(), before);
}

/// Whoever reads on goes on where the output ends.
#[test]
fn a_signal_leaves_an_input_behind_what_its_reader_was_given() {
    let folder = folder();
    let all: Vec<u8> = (0..2_000_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(folder.path().join("large"), &all).expect("written");
    for route in ["splice-through", "read-write"] {
        let mut from = fs::File::open(folder.path().join("large")).expect("it");
        let (far, near) = pipe().expect("a pipe");
        let mut command = ours(&["-q", "--route", route]);
        let source = from.try_clone().expect("the same");
        let program = spawned(command.stdin(source).stdout(near).stderr(Stdio::piped()));
        until("it is watched", || catches(program.group, Signal::TERM));
        until("it has begun", || rustix::io::ioctl_fionread(&far).expect("a size") > 0);
        drop(command);
        kill_process(program.group, Signal::TERM).expect("it runs");
        let done = program.done();
        assert_eq!(done.status.code(), Some(32), "{route}: {}", done.stderr);
        let mut got = Vec::new();
        fs::File::from(far).read_to_end(&mut got).expect("read");
        assert!(got == all[..got.len()], "{route}");
        let at = from.stream_position().expect("a place");
        assert_eq!(at, got.len() as u64, "{route}: {}", done.stderr);
    }
}

#[test]
fn what_is_drawn_into_the_file_that_is_written_takes_nothing_from_it() {
    let folder = folder();
    let (from, to) = (folder.path().join("from"), folder.path().join("to"));
    // What is drawn has none of these.
    fs::write(&from, vec![b'x'; 48 << 20]).expect("written");
    let both = fs::File::create(&to).expect("a file");
    let mut command = ours(&["-f", "-i", "0.1", "-L", "160M"]);
    command.arg(&from).stderr(both.try_clone().expect("a second")).stdout(both);
    assert!(spawned(&mut command).done().status.success());
    let got = fs::read(&to).expect("it");
    let data = got.iter().filter(|byte| **byte == b'x').count();
    assert!(got.len() > data, "something is drawn");
    assert_eq!(data, 48 << 20);
}

/// However much a call of its moves: what was taken so far is told while the call still waits.
#[test]
fn a_slow_reader_is_kept_up_with_and_loses_nothing() {
    let folder = folder();
    let file = folder.path().join("large");
    let all = lines(2 * LINES);
    fs::write(&file, &all).expect("written");
    let ways: [&[&str]; 4] = [&[], &["-C"], &["-T"], &["-l"]];
    for (words, socket) in ways.iter().flat_map(|words| [(words, false), (words, true)]) {
        let (near, far) = match socket {
            true => {
                let (near, far) = std::os::unix::net::UnixStream::pair().expect("sockets");
                (OwnedFd::from(near), OwnedFd::from(far))
            }
            false => {
                let (far, near) = std::io::pipe().expect("a pipe");
                (OwnedFd::from(near), OwnedFd::from(far))
            }
        };
        let mut command = ours(&["-n", "-i", "0.1"]);
        let of_bytes = (!words.contains(&"-l")).then_some("-b");
        command.args(of_bytes).args(*words).arg(&file).stdout(near).stderr(Stdio::piped());
        let program = spawned(&mut command);
        drop(command);
        let mut far = fs::File::from(far);
        let (mut got, mut piece) = (Vec::new(), [0; 8192]);
        for _ in 0..75 {
            let count = far.read(&mut piece).expect("it comes");
            got.extend(&piece[..count]);
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        far.read_to_end(&mut got).expect("the rest");
        let done = program.done();
        assert!(done.status.success() && got == all.as_bytes(), "{words:?} {socket}: {done:?}");
        let mut told: Vec<&str> = done.stderr.lines().take(10).collect();
        told.dedup();
        assert!(told.len() >= 5, "{words:?} {socket}: {told:?}");
    }
}

#[test]
fn a_socket_whose_reader_has_left_is_no_error() {
    let folder = folder();
    let file = folder.path().join("large");
    fs::write(&file, vec![7; 8 << 20]).expect("written");
    let ways: [&[&str]; 4] = [&[], &["-C"], &["-E"], &["-B", "4096"]];
    for (words, round) in ways.iter().flat_map(|words| (0..10).map(move |round| (words, round))) {
        let (mut far, near) = std::os::unix::net::UnixStream::pair().expect("sockets");
        let mut command = ours(words);
        command
            .args(["-q".as_ref(), file.as_os_str()])
            .stdout(OwnedFd::from(near))
            .stderr(Stdio::piped());
        let program = spawned(&mut command);
        drop(command);
        far.read_exact(&mut [0; 100_000]).expect("so much");
        if round % 2 == 0 {
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        // It has bytes that nobody will read.
        drop(far);
        let done = program.done();
        assert_eq!((done.status.code(), done.stderr.as_str()), (Some(0), ""), "{words:?} {round}");
    }
}

/// Writes a packet.
type Sender = Box<dyn Fn(&[u8])>;

/// Three sources of packets: a pipe and sockets of both kinds; with what writes one and what ends it.
fn packets() -> [(OwnedFd, Sender); 3] {
    let (reader, writer) =
        rustix::pipe::pipe_with(PipeFlags::DIRECT | PipeFlags::CLOEXEC).expect("a pipe");
    let write = move |packet: &[u8]| {
        assert_eq!(rustix::io::write(&writer, packet), Ok(packet.len()));
    };
    let socket = |kind| {
        let flags = SocketFlags::CLOEXEC;
        let (near, far) = socketpair(AddressFamily::UNIX, kind, flags, None).expect("sockets");
        let send = move |packet: &[u8]| {
            assert_eq!(send(&far, packet, SendFlags::empty()), Ok(packet.len()));
        };
        (near, Box::new(send) as Sender)
    };
    [(reader, Box::new(write)), socket(SocketType::SEQPACKET), socket(SocketType::DGRAM)]
}

#[test]
fn a_rate_cuts_no_packet() {
    let folder = folder();
    let sent: Vec<u8> = (0..9000_u32).map(|at| at.to_le_bytes()[0]).collect();
    for words in [&["-L", "20K"][..], &["-C", "-L", "20K"], &["-E", "-L", "20K"]] {
        for append in [false, true] {
            for (number, (reader, send)) in packets().into_iter().enumerate() {
                let out = folder.path().join("out");
                fs::write(&out, "").expect("emptied");
                let into = fs::File::options().append(append).write(true).open(&out);
                sent.chunks(3000).for_each(&send);
                if number == 2 {
                    // Nobody sees the end of these.
                    send(b"");
                }
                drop(send);
                let mut command = ours(words);
                command.arg("-q").stdin(reader).stdout(into.expect("it"));
                spawned(&mut command).done().well();
                let got = fs::read(&out).expect("it");
                assert!(got == sent, "{words:?} {append} {number}: {} bytes", got.len());
            }
        }
    }
}

/// The messages that so many bytes come as, by UDP.
fn messages(words: &[&str], source: impl Into<Stdio>, bytes: usize) -> Vec<Vec<u8>> {
    let socket = || UdpSocket::bind("127.0.0.1:0").expect("a socket");
    let (far, near) = (socket(), socket());
    near.connect(far.local_addr().expect("it has one")).expect("connected");
    far.set_read_timeout(Some(HANGS_AFTER)).expect("set");
    let mut command = ours(words);
    let program = spawned(command.arg("-q").stdin(source).stdout(OwnedFd::from(near)));
    drop(command);
    let (mut got, mut left, mut room) = (Vec::new(), bytes, vec![0; 1 << 16]);
    while left > 0 {
        // A socket with a timeout is not waited for again after a signal.
        let received = rustix::io::retry_on_intr(|| rustix::io::read(&far, &mut room));
        let count = received.expect("it comes");
        got.push(room[..count].to_vec());
        left = left.saturating_sub(count);
    }
    program.done().well();
    got
}

#[test]
fn what_makes_messages_gets_packets_as_they_came_and_of_other_bytes_small_ones() {
    let folder = folder();
    let sent: Vec<u8> = (0..100_000_u32).map(|at| at.to_le_bytes()[0]).collect();
    let file = folder.path().join("sent");
    fs::write(&file, &sent).expect("written");
    let ways: [&[&str]; 4] =
        [&["-L", "1M"], &["-L", "1M", "--route", "read-write"], &["-C", "-L", "1M"], &["-C"]];
    for words in ways {
        let got = messages(words, fs::File::open(&file).expect("there"), sent.len());
        assert!(got.concat() == sent && got.iter().all(|it| it.len() <= 8192), "{words:?}");
        let some = [words, &["-S", "-s", "100000"]].concat();
        let got = messages(&some, fs::File::open("/dev/zero").expect("there"), 100_000);
        assert!(got.concat() == [0; 100_000] && got.iter().all(|it| it.len() <= 8192), "{words:?}");
    }
    let ways =
        [&[][..], &["-L", "20K"], &["-L", "20K", "--route", "read-write"], &["-C", "-L", "20K"]];
    for words in ways {
        let [pipe, socket, _] = packets();
        for (reader, send) in [pipe, socket] {
            sent[..9000].chunks(3000).for_each(&send);
            drop(send);
            let got = messages(words, reader, 9000);
            assert!(got == sent[..9000].chunks(3000).collect::<Vec<_>>(), "{words:?}");
        }
    }
}

#[test]
fn a_share_that_is_less_than_an_event_refuses_none() {
    use rustix::fs::inotify::{CreateFlags, WatchFlags, add_watch, init};
    let folder = folder();
    let events = init(CreateFlags::CLOEXEC).expect("there are some to be had");
    add_watch(&events, folder.path(), WatchFlags::CREATE).expect("it is there");
    let names = ["first", "second", "third"].map(|name| format!("{name:x<40}"));
    for name in &names {
        fs::write(folder.path().join(name), "").expect("made");
    }
    // A header, and a name that is filled up to a multiple of that.
    let mut command = ours(&["-q", "-L", "500", "-S", "-s", "192"]);
    let done = run(command.stdin(events)).well();
    let told: Vec<_> = done.bytes.chunks(64).map(|event| event[16..56].to_vec()).collect();
    assert!(done.bytes.len() == 192 && told == names.map(String::into_bytes), "{done:?}");
}

#[test]
fn of_a_source_without_an_end_no_more_is_read_ahead_of_the_rate_than_a_packet() {
    let folder = folder();
    let out = folder.path().join("out");
    let mut command = ours(&["-q", "-C", "-L", "1K", "/dev/urandom"]);
    let program = spawned(command.stdout(fs::File::create(&out).expect("made")));
    let bytes = || fs::metadata(&out).expect("there").len();
    until("something comes", || bytes() > 0);
    kill_process(program.group, Signal::INT).expect("it runs");
    program.done();
    assert!(bytes() <= 64 << 10, "{} bytes", bytes());
}

#[test]
fn a_packet_is_read_ahead_as_a_whole_or_not_at_all() {
    let flags = PipeFlags::DIRECT | PipeFlags::CLOEXEC;
    let (reader, writer) = rustix::pipe::pipe_with(flags).expect("a pipe");
    let (output, into) = pipe().expect("a pipe");
    rustix::pipe::fcntl_setpipe_size(&into, 4096).expect("set");
    let sent: Vec<u8> = (0..48_000_u32).map(|at| at.to_le_bytes()[0]).collect();
    for packet in sent.chunks(3000) {
        assert_eq!(rustix::io::write(&writer, packet), Ok(3000));
    }
    drop(writer);
    let left = reader.try_clone().expect("a second");
    let mut command = ours(&["-q", "-C", "--no-enlarge", "-B", "8192"]);
    let program = spawned(command.stdin(reader).stdout(into));
    drop(command);
    // The output has a page of them, and the buffer no room for another.
    until("a full buffer", || rustix::io::ioctl_fionread(&left).expect("it tells") <= 39_000);
    let mut got = Vec::new();
    fs::File::from(output).read_to_end(&mut got).expect("all");
    assert!(program.done().status.success() && got == sent, "{} bytes", got.len());
}

#[test]
fn the_buffer_of_a_socket_that_is_written_to_is_made_larger_unless_it_is_to_be_left() {
    let folder = folder();
    let file = folder.path().join("megabyte");
    fs::write(&file, vec![7; 1 << 20]).expect("written");
    for (words, grows) in [(&["-q"][..], true), (&["-q", "--no-enlarge"], false)] {
        let (mut far, near) = std::os::unix::net::UnixStream::pair().expect("sockets");
        rustix::net::sockopt::set_socket_send_buffer_size(&near, 64 << 10).expect("set");
        let size = || rustix::net::sockopt::socket_send_buffer_size(&near).expect("a size");
        let (before, kept) = (size(), near.try_clone().expect("a second"));
        let mut command = ours(words);
        let into = Stdio::from(std::os::fd::OwnedFd::from(kept));
        let program = spawned(command.stdin(fs::File::open(&file).expect("it")).stdout(into));
        drop(command);
        let mut got = vec![0; 1 << 20];
        far.read_exact(&mut got).expect("all of it");
        assert!(program.done().status.success());
        assert!(got.iter().all(|byte| *byte == 7));
        assert_eq!(size() > before, grows, "{words:?}: {before}, {}", size());
    }
}

#[test]
fn everything_is_stored_before_any_of_it_is_forwarded() {
    let folder = folder();
    let a = fs::read_to_string(folder.path().join("a")).expect("read");
    let words = ["-q", "-U", "stored", "b", "a"];
    let done = run_in(folder.path(), &mut ours(&words), "b").well();
    let stored = fs::read_to_string(folder.path().join("stored")).expect("it stays");
    assert_eq!(stored, "bb\n\0b".to_owned() + &a);
    assert!(done.stdout == stored);
    assert_eq!(
        run_in(folder.path(), &mut ours(&["-q", "-U", "-", "b"]), "a").well().stdout,
        "bb\n\0b"
    );
}

#[test]
fn what_is_moved_is_never_stored_in_itself() {
    let folder = folder();
    let a = fs::read(folder.path().join("a")).expect("read");
    let refused = |words: &str, said: &str| {
        let line = format!("exec {BYTEPATH} pv -q {words}");
        let mut command = Command::new("sh");
        run(command.args(["-c", &line]).current_dir(folder.path())).refused(4, &[said]);
        assert!(fs::read(folder.path().join("a")).expect("read") == a, "{words}");
    };
    refused("-U a a", "pv: a: input is a");
    refused("-U a b - <a", "pv: -: input is a");
    // Forwarding from a file to its own end would never come to its end.
    refused("-U a b >>a", "pv: a: it is the output");
}

#[test]
fn names_that_no_terminal_shows_are_quoted_in_messages() {
    let folder = folder();
    let said = |line: &str| {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("n=$(printf 'b\\377\\033\\nz'); {line}")]);
        command.env("pv", BYTEPATH).env("LC_ALL", "C.UTF-8").current_dir(folder.path());
        run(command.stdin(std::process::Stdio::null())).stderr
    };
    let quoted = "'b'$'\\377\\033\\n''z'";
    for (line, wanted) in [
        ("\"$pv\" pv \"$n\"", "pv: NAME: No such file or directory\n"),
        ("\"$pv\" pv -s \"@$n\"", "pv: -s: NAME: No such file or directory\n"),
        ("\"$pv\" pv -d \"@$n\"", "pv: -d: NAME: No such file or directory\n"),
        ("cp a \"$n\"; \"$pv\" pv -q -U \"$n\" \"$n\"", "pv: NAME: input is NAME, to be stored in"),
        ("\"$pv\" pv -q -o \"$n\" \"$n\"", "pv: NAME: input is the output NAME; it is left"),
        ("\"$pv\" pv -q -o \"$n/o\" a", "pv: NAME/o"),
        // As the original writes them.
        ("\"$pv\" pv gone", "pv: gone: No such file or directory\n"),
        ("\"$pv\" pv 'a gone one'", "pv: a gone one: No such file or directory\n"),
    ] {
        let said = said(line);
        let wanted = wanted.replace("NAME/o", "'b'$'\\377\\033\\n''z/o'").replace("NAME", quoted);
        assert!(said.starts_with(&wanted), "{line}: {said:?} is not {wanted:?}");
    }
}

#[test]
fn a_size_may_be_that_of_a_file_or_of_a_folder() {
    let folder = folder();
    // Only that it is taken: the display tells percentages elsewhere.
    for size in ["@a", "@dir", "@."] {
        run_in(folder.path(), &mut ours(&["-q", "-s", size, "b"]), "a").well();
    }
    run_in(folder.path(), &mut ours(&["-q", "-s", "@none", "b"]), "a")
        .refused(64, &["pv: -s: none: No such file or directory"]);
    let done = run_in(folder.path(), &mut ours(&["-q", "-S", "-s", "@b", "a"]), "a").well();
    assert_eq!(done.stdout.len(), 5);
}

#[test]
fn si_changes_only_the_sizes_behind_it() {
    let folder = folder();
    let bytes = |words: &[&str]| run_in(folder.path(), &mut ours(words), "a").well().stdout.len();
    assert_eq!(bytes(&["-q", "-S", "-k", "-s", "1K", "a"]), 1000);
    assert_eq!(bytes(&["-q", "-S", "-s", "1K", "-k", "a"]), 1024);
    assert_eq!(bytes(&["-q", "-S", "-s", "1.5K", "a"]), 1536);
}

#[test]
fn a_plan_is_explained_and_a_route_that_cannot_show_the_bytes_is_refused() {
    let folder = folder();
    let done = run_in(folder.path(), &mut ours(&["-q", "--explain-plan", "a"]), "b");
    assert!(done.stderr.contains("1. splice") && done.stderr.contains("came: "), "{done:?}");
    let done = run_in(folder.path(), &mut ours(&["-q", "--explain-plan", "-l", "a"]), "b");
    assert!(done.stderr.contains("--line-mode"), "{done:?}");
    run(&mut ours(&["-l", "--route", "splice"])).refused(64, &["--line-mode"]);
}

#[test]
fn a_plan_is_explained_also_where_the_movement_breaks_off() {
    let folder = folder();
    for (words, from, code) in [
        ("pv -q a", "/a' to ", 16),
        ("cat a", "/a' to ", 1),
        ("pv -q -L 1M --route read-write /dev/zero", "/dev/zero' to ", 16),
    ] {
        let line = format!("exec {BYTEPATH} {words} --explain-plan >/dev/full");
        let mut command = Command::new("sh");
        let done = run(command.args(["-c", &line]).current_dir(folder.path()));
        let said = [from, "1. ", "came: 0 bytes", "broke off", "No space left on device"];
        done.refused(code, &said);
    }
}

#[test]
fn a_route_that_gave_up_in_the_first_moment_is_not_said_to_have_moved_anything() {
    let text = fs::read("/proc/kallsyms").unwrap_or_default();
    if text.len() < 1 << 20 {
        return println!("skipped: no /proc file is long enough");
    }
    let (out, near) = pipe().expect("a pipe");
    let mut command = ours(&["-q", "--explain-plan", "/proc/kallsyms"]);
    let program = spawned(command.stdout(near).stderr(Stdio::piped()));
    drop(command);
    until("the first moment is over", || catches(program.group, Signal::TERM));
    let mut got = Vec::new();
    fs::File::from(out).read_to_end(&mut got).expect("read");
    assert_eq!(got.len(), text.len());
    let done = program.done();
    assert!(done.status.success(), "{done:?}");
    assert!(done.stderr.contains("splice gave up at byte 0: "), "{}", done.stderr);
    assert!(done.stderr.contains(" bytes by read-write, "), "{}", done.stderr);
}

/// A pipe that programs started by other tests do not inherit.
pub(crate) fn pipe() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC)
}

#[test]
fn what_is_over_in_a_moment_is_moved_without_a_second_thread_and_what_lasts_is_watched() {
    if !installed("strace") {
        return;
    }
    let folder = folder();
    let threads = |before: &str, words: &str| {
        let line = format!(
            "{before} strace -f -qq -o log -e trace=clone,clone3 -e signal=none \
             {BYTEPATH} pv -q {words}; wc -l <log"
        );
        let mut command = Command::new("sh");
        let done = run(command.args(["-c", &line]).current_dir(folder.path()));
        done.well().stdout.trim().to_owned()
    };
    // Where others have the CPUs, it may take longer than a moment.
    until("the end within a moment", || threads("", "</dev/null") == "0");
    until("the end within a moment", || threads("", "a b -o out") == "0");
    let moved = fs::read_to_string(folder.path().join("out")).expect("made");
    assert_eq!(moved, lines(LINES) + "bb\n\0b");
    // It lasts until it is watched.
    let watched = "until grep -q clone log; do sleep 0.01; done |";
    assert_eq!(threads(watched, ">/dev/null"), "1");
    // Opening it may take as long as it likes.
    assert_eq!(threads("mkfifo fifo; cat a >fifo &", "fifo >/dev/null"), "1");
}

#[test]
fn a_pidfile_takes_no_other_file_away() {
    let folder = tempfile::tempdir().expect("a folder");
    let here = folder.path().display();
    let before = format!("cd {here} && echo some >a && echo old >b");
    for (words, says) in [
        ("--pidfile a a >/dev/null", "--pidfile would replace 'a'"),
        ("--pidfile b a -o b", "--pidfile would replace 'b'"),
        ("--pidfile b a >b", "--pidfile would replace standard output"),
        ("--pidfile a <a >/dev/null", "--pidfile would replace standard input"),
        ("--pidfile c --metrics ./c a >/dev/null", "--pidfile and --metrics are one file"),
    ] {
        let line = format!("{before} && $bytepath pv -q {words}; code=$?; cat a; exit $code");
        let done = shell(&line);
        assert!(!done.status.success() && done.stderr.contains(says), "{words}: {done:?}");
        assert_eq!(done.stdout, "some\n", "{words}");
    }
    // The name of a descriptor stays, and what is open there gets the line.
    for name in ["/dev/fd/3", "/proc/self/fd/3", "link"] {
        let line = format!(
            "{before} && ln -sf /dev/fd/3 link && $bytepath pv -q --pidfile {name} a 3>>b >c && \
             test -L link && cmp a c && cat b"
        );
        let said = shell(&line).well().stdout;
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines.len() == 2 && lines[0] == "old", "{name}: {said}");
        assert!(lines[1].parse::<u32>().is_ok(), "{name}: {said}");
    }
}
