//! `pv` where calls fail: every byte arrives or the exit code says why not, as with the real pv.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use rustix::fs::{OFlags, fcntl_setfl};
use tempfile::TempDir;

use crate::bench_devices::Loop;
use crate::calls::assert_fired;
use crate::program::{BYTEPATH, Done, HANGS_AFTER, bytepath, installed, root, run, shell};
use crate::pv::{LINES, lines, ours};

/// A folder with a file `a` of several buffers.
fn folder() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a"), lines(LINES)).expect("written");
    folder
}

/// Which pv.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Which {
    Ours,
    Real,
}

/// Runs pv with these words under strace, which makes calls fail as it is told, and at least one does.
#[track_caller]
fn traced(which: Which, folder: &Path, faults: &[&str], words: &str) -> Done {
    let program = match which {
        Which::Ours => format!("{BYTEPATH} pv"),
        Which::Real => "pv".into(),
    };
    let option = |fault: &&str| match fault.strip_prefix("path=") {
        // Of all calls, those about this file.
        Some(name) => format!(" -P {}", folder.join(name).display()),
        None => format!(" -e {fault}"),
    };
    let faults: String = faults.iter().map(option).collect();
    // A pipe at the output, and cat at its other end.
    let line =
        format!("{{ strace -f -qq -o log {faults} {program} {words}; echo $? >code; }} | cat");
    let mut command = Command::new("sh");
    command.args(["-c", &line]).current_dir(folder).env("LC_ALL", "C");
    let mut done = run(command.env_remove("RUST_BACKTRACE").stdin(Stdio::null()));
    let code = fs::read_to_string(folder.join("code")).expect("it ended");
    done.status = std::os::unix::process::ExitStatusExt::from_raw(
        code.trim().parse::<i32>().expect("a code") << 8,
    );
    if faults.contains("inject=") {
        assert_fired(&folder.join("log"), &format!("{which:?} {faults} {words}"));
    }
    done
}

/// The faults that both survive: nothing is missing, and nothing is said.
#[test]
fn interrupted_and_refused_calls_cost_no_byte() {
    if !installed("strace") || !installed("pv") {
        return;
    }
    let folder = folder();
    let a = fs::read_to_string(folder.path().join("a")).expect("read");
    let cases: &[(&[&str], &str)] = &[
        (&["inject=splice:error=ENOSYS"], "-q a"),
        (&["inject=splice,sendfile,copy_file_range:error=EINVAL"], "-q a"),
        (&["inject=splice:error=ENOSYS:when=2+"], "-q a"),
    ];
    for (faults, words) in cases {
        for which in [Which::Ours, Which::Real] {
            let done = traced(which, folder.path(), faults, words);
            let what = format!("{which:?} {faults:?} {words}: {} {:?}", done.stderr, done.status);
            assert!(done.stdout == a, "{what}: {} bytes", done.stdout.len());
            assert_eq!(done.status.code(), Some(0), "{what}");
        }
    }
    // Met only by ours, or not survived by Debian's pv, which waits for ever after some of them.
    let cases: &[(&[&str], &str)] = &[
        (&["inject=splice,sendfile,write,copy_file_range:error=EINTR:when=1+3"], "-q a"),
        (&["inject=write:error=EINTR:when=1+3"], "-qC a"),
        (&["inject=write:error=EAGAIN:when=2+3"], "-qC a"),
        (&["inject=splice:error=EAGAIN:when=2+3"], "-q a"),
        (&["inject=fadvise64:error=EBADF"], "-q a"),
        // Of the pipe's size; those before ask what the ends are.
        (&["inject=fcntl:error=EPERM:when=6+"], "-q a"),
        (&["inject=fdatasync:error=EINTR:when=1+2"], "-qY a"),
        (&["inject=fdatasync:error=EINVAL"], "-q --durable a"),
        // A file that has grown since the call looked for more.
        (&["inject=splice:retval=0:when=1"], "-q --route splice a"),
        (&["inject=splice:retval=0:when=1"], "-q --route splice-through a"),
        (&["inject=sendfile:retval=0:when=1"], "-q --route sendfile a"),
        (
            &["inject=copy_file_range:retval=0:when=1"],
            "-q --route copy-file-range a -o out; cat out",
        ),
    ];
    for (faults, words) in cases {
        let done = traced(Which::Ours, folder.path(), faults, words);
        assert!(done.stdout == a, "{faults:?} {words}: {done:?}", done = done.stderr);
        assert_eq!(done.status.code(), Some(0), "{faults:?} {words}: {}", done.stderr);
    }
}

#[test]
fn a_hole_that_its_sink_cannot_be_made_longer_by_is_written() {
    if !installed("strace") {
        return;
    }
    let folder = folder();
    let gave_up = "copy-file-range gave up at byte ";
    for (error, told) in
        [("EINTR", "bytes by copy-file-range, "), ("EPERM", gave_up), ("EOPNOTSUPP", gave_up)]
    {
        let line = format!(
            "cp a sp && truncate -s 2M sp && cat a >>sp && truncate -s 4M sp && \
             strace -f -qq -o log -e trace=ftruncate -e inject=ftruncate:error={error}:when=1 \
             {BYTEPATH} pv -q --explain-plan sp >out && cmp sp out"
        );
        let mut command = Command::new("sh");
        let done = run(command.args(["-c", &line]).current_dir(folder.path()));
        let is_told = done.stderr.contains(told);
        assert!(done.status.success() && is_told, "{error}: {done:?}");
        assert_fired(&folder.path().join("log"), error);
    }
}

#[test]
fn routes_that_gave_up_are_told_also_where_the_last_one_fails() {
    if !installed("strace") {
        return;
    }
    let folder = folder();
    let line = format!(
        "strace -f -qq -o log -P $PWD/out -e inject=copy_file_range,sendfile:error=EINVAL \
         -e inject=splice:error=EINVAL:when=2+ -e inject=write:error=ENOSPC:when=2 \
         {BYTEPATH} pv -q --explain-plan a >out"
    );
    let mut command = Command::new("sh");
    let done = run(command.args(["-c", &line]).current_dir(folder.path()));
    let said = ["splice gave up at byte ", "by splice, by read-write,", "broke off"];
    done.refused(16, &said);
}

#[test]
fn what_did_not_reach_the_device_is_told_of() {
    if !installed("strace") {
        return;
    }
    let folder = folder();
    for words in ["-q --durable -o out a", "-q --durable -L 100G -o out a"] {
        let done = traced(Which::Ours, folder.path(), &["inject=fdatasync:error=EIO"], words);
        assert_eq!(done.status.code(), Some(16), "{words}: {}", done.stderr);
        assert!(done.stderr.contains("write failed: Input/output error"), "{}", done.stderr);
    }
}

#[test]
fn what_came_before_a_read_error_counts() {
    // A socket whose other end was closed with bytes in it.
    let broken_off = || {
        let (mut ours, mut peer) = UnixStream::pair().expect("a pair");
        ours.write_all(b"x").expect("taken");
        peer.write_all(&[b'a'; 60_000]).expect("taken");
        drop(peer);
        Stdio::from(OwnedFd::from(ours))
    };
    let folder = folder();
    fs::write(folder.path().join("good"), [b'b'; 100_000]).expect("written");
    let pv = |words: &str| {
        let mut command = Command::new(BYTEPATH);
        command.arg("pv").args(words.split(' ')).current_dir(folder.path());
        run(command.env_remove("RUST_BACKTRACE").stdin(broken_off()))
    };
    for words in ["-q -S -s 100000 - good", "-q -C -S -s 100000 - good"] {
        let done = pv(words).refused(16, &["read failed: Connection reset by peer"]);
        assert_eq!(done.stdout.len(), 100_000, "{words}");
        assert_eq!(done.stdout.find('b'), Some(60_000), "{words}");
    }
    for words in ["-n -b --durable -o out -", "-n -b -C --durable -o out -"] {
        let done = pv(words).refused(16, &["read failed: Connection reset by peer"]);
        let last = done.stderr.lines().rfind(|line| !line.starts_with("pv: "));
        assert_eq!(last, Some("60000"), "{words}: {}", done.stderr);
    }
}

#[test]
fn faults_of_either_end_give_the_exit_code_and_the_words_of_the_real_pv() {
    if !installed("strace") || !installed("pv") {
        return;
    }
    let folder = folder();
    let cases: &[(&[&str], &str, &str)] = &[
        (&["inject=write:error=ENOSPC:when=2"], "-qC a", "No space left on device"),
        (&["inject=write:error=EIO:when=2"], "-qC a", "Input/output error"),
        (
            &["inject=read:error=EIO:when=2+", "path=a"],
            "-qC a",
            "a: read failed: Input/output error",
        ),
    ];
    for (faults, words, said) in cases {
        let theirs = traced(Which::Real, folder.path(), faults, words);
        let mine = traced(Which::Ours, folder.path(), faults, words);
        assert_eq!(
            mine.status.code(),
            theirs.status.code(),
            "{faults:?}: {mine:?} {theirs:?}",
            mine = mine.stderr,
            theirs = theirs.stderr
        );
        for done in [&mine, &theirs] {
            assert!(done.stderr.starts_with("pv: "), "{faults:?}: {}", done.stderr);
            assert!(done.stderr.contains(said), "{faults:?}: {}", done.stderr);
        }
    }
}

#[test]
fn an_end_that_nobody_may_wait_for_is_told_of() {
    if !installed("strace") {
        return;
    }
    let folder = folder();
    for (program, fault, words, code, says) in [
        // Who is to wait for an output that takes nothing now.
        ("pv", "write:error=EAGAIN:when=2+", "-qC a", 16, "write failed: Cannot allocate memory"),
        ("pv", "read:error=EAGAIN:when=2+", "-qC a", 16, "read failed: Cannot allocate memory"),
        ("cat", "write:error=EAGAIN", "-n a", 1, "write error: Cannot allocate memory"),
    ] {
        let path = if fault.starts_with("read") { "a" } else { "out" };
        let line = format!(
            "strace -f -qq -o log -P $PWD/{path} -e trace=read,write,ppoll -e inject={fault} \
             -e inject=ppoll:error=ENOMEM {BYTEPATH} {program} {words} >out"
        );
        let mut command = Command::new("sh");
        command.args(["-c", &line]).current_dir(folder.path()).env("LC_ALL", "C");
        run(command.stdin(Stdio::null())).refused(code, &[says]);
    }
}

#[test]
fn who_draws_and_may_not_wait_sleeps_for_a_moment() {
    if !installed("strace") {
        return;
    }
    let folder = folder();
    let strace = "strace -f -qq -o log -e trace=ppoll,clock_nanosleep -e inject=ppoll:error=ENOMEM";
    for line in [
        format!("sleep 0.3 <a & {strace} {BYTEPATH} pv --watchfd $!"),
        format!("sleep 0.3 | {strace} {BYTEPATH} pv -f 2>drawn"),
    ] {
        let mut command = Command::new("sh");
        command.args(["-c", &line]).current_dir(folder.path()).env("LC_ALL", "C");
        run(command.stdin(Stdio::null())).well();
        let log = fs::read_to_string(folder.path().join("log")).expect("a log");
        let threads_of = |call: &str| {
            let lines = log.lines().filter(|line| line.contains(call));
            lines.filter_map(|line| line.split_whitespace().next()).collect::<BTreeSet<_>>()
        };
        let refused = threads_of("ENOMEM");
        assert!(!refused.is_empty(), "{line}: nobody waited: {log}");
        assert!(refused.is_subset(&threads_of("clock_nanosleep")), "{line}: {log}");
    }
}

#[test]
fn an_output_that_cannot_be_closed_is_told() {
    if !installed("strace") {
        return;
    }
    let folder = folder();
    // The last close of all is that of the output's duplicate.
    let words = "-q a -o out";
    let done =
        traced(Which::Ours, folder.path(), &["inject=close:error=EIO:when=1+", "path=out"], words);
    assert_eq!(done.status.code(), Some(8), "{}", done.stderr);
    assert!(done.stderr.contains("pv: out: close failed: Input/output error"), "{}", done.stderr);
}

/// Waits, for 30 s at most, until a file holds something and the tracer has held the process for a while.
const HELD: &str = "until_held() { \
    tries=0; held=0; until [ $held = 20 ] || [ $tries = 3000 ]; do sleep 0.01; tries=$((tries + 1)); \
    [ -s $1 ] && grep -q '^State:.t' /proc/$(cat pid)/status && held=$((held + 1)) || held=0; done; };";

/// Ends pv by a signal once a call for a file there is held up; the exit code is what was printed.
fn ended_while_held(folder: &Path, words: &str, file: &str, held: &str) -> Done {
    let call = held.split(':').next().expect("a call");
    let script = format!(
        "strace -f -qqq -e signal=none -o log -P $PWD/{file} -e trace={call} -e inject={held} \
         sh -c 'echo $$ >pid; exec {BYTEPATH} pv {words}' & \
         {HELD} until_held {file}; kill -TERM $(cat pid); wait $!; echo $?"
    );
    run(Command::new("sh").args(["-c", &script]).current_dir(folder))
}

/// Where that takes long: file systems on a network first send what they hold.
#[test]
fn a_signal_ends_it_while_its_output_is_closed() {
    if !crate::calls::may_trace() {
        return;
    }
    let folder = folder();
    fs::write(folder.path().join("b"), "b").expect("written");
    // What lasts is watched by a thread of its own, which answers signals.
    for words in ["-q -C b -o out", "-q -U stored b -o out", "-q -M out -o out -- echo b"] {
        let done = ended_while_held(folder.path(), words, "out", "close:delay_enter=8000000");
        assert_eq!(done.stdout, "32\n", "{words}: {done:?}");
        fs::remove_file(folder.path().join("out")).expect("it is made");
    }
}

#[test]
fn a_signal_that_comes_between_storing_and_forwarding_ends_it() {
    if !crate::calls::may_trace() {
        return;
    }
    let folder = folder();
    fs::write(folder.path().join("b"), "b").expect("written");
    let (words, held) = ("-q -U stored b -o out", "lseek:delay_enter=4000000");
    let done = ended_while_held(folder.path(), words, "stored", held);
    assert_eq!(done.stdout, "32\n", "{done:?}");
    let [stored, out] = ["stored", "out"].map(|name| fs::read(folder.path().join(name)));
    assert_eq!((stored.expect("it stays"), out.expect("it is made")), (b"b".to_vec(), Vec::new()));
}

#[test]
fn what_cannot_be_read_becomes_zeros_of_the_same_length_and_is_told() {
    if !installed("strace") || !installed("pv") {
        return;
    }
    let folder = folder();
    let a = fs::read(folder.path().join("a")).expect("read");
    // The first of them makes it look closer.
    let faults = ["inject=read:error=EIO:when=2..5", "path=a"];
    for (words, told) in
        [("-q -E a", 3), ("-q -EE a", 1), ("-q -E -Z 512 a", 3), ("-q -Z 512 a", 3)]
    {
        let done = traced(Which::Ours, folder.path(), &faults, words);
        assert_eq!(done.status.code(), Some(16), "{words}: {}", done.stderr);
        let got = done.stdout.as_bytes();
        assert_eq!(got.len(), a.len(), "{words}");
        let differ = got.iter().zip(&a).filter(|(got, a)| got != a);
        assert!(
            differ.clone().count() > 0 && differ.into_iter().all(|(got, _)| *got == 0),
            "{words}"
        );
        let lines = done.stderr.lines().filter(|line| line.starts_with("pv: a: ")).count();
        assert_eq!(lines, told, "{words}: {}", done.stderr);
    }
    let theirs = traced(Which::Real, folder.path(), &faults, "-q -C -E a");
    assert_eq!((theirs.status.code(), theirs.stdout.len()), (Some(16), a.len()));
}

#[test]
fn what_cannot_be_read_of_a_file_that_says_it_is_empty_is_skipped_too() {
    // Nothing is at the first addresses of a process.
    let ours =
        run(bytepath(&["pv", "-EE", "-q", "-S", "-s", "4096", "/proc/self/mem"])
            .stdin(Stdio::null()));
    assert_eq!(
        (ours.status.code(), ours.stdout.as_bytes()),
        (Some(16), &[0; 4096][..]),
        "{}",
        ours.stderr
    );
}

#[test]
fn nothing_that_can_be_read_is_skipped_for_what_is_near() {
    let folder = folder();
    // All of its pages but those from the middle on, of which the first lacks one sector.
    let readable = (512 << 10) - 4096;
    for options in [
        "-EE",
        "-EE -B 64K",
        "-E -B 1000",
        "-Z 512 -B 8K",
        "-K -E",
        "-K -EE -B 64K",
        "-K -Z 4096",
        "-K -Z 1000",
        "-K -Z 512 -B 8K",
    ] {
        let Some(device) = Loop::new(folder.path()) else { return };
        let disk = folder.path().join("disk");
        let disk = fs::File::options().write(true).open(disk).expect("open");
        disk.set_len(readable + 3584).expect("cut");
        let words = options.split(' ').chain(["-q", &device.path, "-o", "got"]);
        let mut command = ours(&words.collect::<Vec<_>>());
        let done = run(command.current_dir(folder.path()));
        assert_eq!(done.status.code(), Some(16), "{options}: {}", done.stderr);
        let got = fs::read(folder.path().join("got")).expect("read");
        assert_eq!(got.len(), 1 << 20, "{options}");
        let (good, bad) = got.split_at(usize::try_from(readable).expect("small"));
        let lost = good.iter().filter(|byte| **byte != 7).count();
        assert_eq!(lost, 0, "{options}: {}", done.stderr.lines().next().unwrap_or_default());
        assert!(bad[3584..].iter().all(|byte| *byte == 0), "{options}");
    }
}

#[test]
fn memory_that_is_not_to_be_had_is_told() {
    let folder = folder();
    let script = format!("ulimit -v 600000; exec {BYTEPATH} pv -q -B 1G a");
    let mut command = Command::new("sh");
    run(command.args(["-c", &script]).current_dir(folder.path()).stdin(Stdio::null()))
        .refused(64, &["pv: -B: no memory for a buffer of 1073741824 bytes"]);
}

#[test]
fn an_output_that_is_full_or_gone_ends_it_as_it_ends_the_real_pv() {
    if !installed("pv") {
        return;
    }
    let folder = folder();
    for words in ["-q", "-qC", "-ql", "-q -L 1G"] {
        for rest in ["a >/dev/full", "a | true"] {
            let codes = ["pv".to_owned(), format!("{BYTEPATH} pv")].map(|program| {
                let script =
                    format!("{{ LC_ALL=C {program} {words} a; echo code $? >&2; }} {}", &rest[1..]);
                let done = run(Command::new("sh")
                    .args(["-c", &script])
                    .current_dir(folder.path())
                    .stdin(Stdio::null()));
                done.stderr
            });
            assert_eq!(codes[0], codes[1], "{words} {rest}");
        }
    }
}

#[test]
fn bytes_that_a_full_output_leaves_in_a_buffer_are_told_of() {
    for words in ["-C", "-l", "-B 8K", "-T"] {
        let line = format!("printf 123456 | $bytepath pv -q {words} >/dev/full");
        let told = "pv: -: 6 bytes were read that could not be written\n\
                    pv: write failed: No space left on device\n";
        assert_eq!(shell(&line).stderr, told, "{words}");
    }
    let folder = folder();
    // What a file holds is still there.
    let line = format!("$bytepath pv -q -C <{}/a >/dev/full", folder.path().display());
    assert_eq!(shell(&line).stderr, "pv: write failed: No space left on device\n");
    if !installed("strace") {
        return;
    }
    // Between two pipes it is read ahead.
    let fifo = folder.path().join("fifo");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a FIFO");
    let writes = std::thread::spawn(move || fs::write(fifo, "123456").expect("it is read"));
    let fails = ["inject=pwritev2:error=EIO:when=1"];
    let done = traced(Which::Ours, folder.path(), &fails, "-q -C fifo");
    writes.join().expect("it ends");
    let told = "pv: fifo: 6 bytes were read that could not be written\n\
                pv: write failed: Input/output error\n";
    assert_eq!(done.stderr, told);
}

#[test]
fn a_buffer_that_is_asked_for_is_filled_in_one_read_however_large() {
    if !installed("strace") {
        return;
    }
    let folder = folder();
    let text = lines(400_000);
    fs::write(folder.path().join("a"), &text).expect("written");
    let done = traced(Which::Ours, folder.path(), &["trace=read", "path=a"], "-q -B 4M a");
    assert!(done.stdout == text);
    let log = fs::read_to_string(folder.path().join("log")).expect("there");
    let first = log.lines().find(|line| line.contains("read(")).expect("it reads");
    assert!(first.ends_with(", 4194304) = 4194304"), "{first}");
}

#[test]
fn reads_and_waits_that_are_interrupted_cost_no_byte() {
    if !installed("strace") {
        return;
    }
    let folder = folder();
    // Enough for faults to begin after those reads by which a program starts.
    let text = lines(400_000);
    fs::write(folder.path().join("a"), &text).expect("written");
    let poll = "poll,ppoll:error=EINTR:when=1+2";
    let copying = [
        "read:error=EINTR:when=30+2",
        "read:error=EAGAIN:when=30+3",
        "pwritev2:error=EINTR:when=4+2",
        poll,
    ];
    // Fewer, of what the pipe holds.
    let in_pipefuls = [
        "read:error=EINTR:when=6+2",
        "read:error=EAGAIN:when=6+3",
        "write:error=EINTR:when=4+2",
        poll,
    ];
    let splicing = ["splice:error=EINTR:when=1+2", "splice:error=EAGAIN:when=2+3", poll];
    let cases = [
        ("-q -C -B 64K", &copying[..]),
        ("-q --route read-write", &in_pipefuls),
        ("-q -B 7K", &copying),
        ("-q", &splicing),
        ("-f -i 0.1", &splicing),
    ];
    for (words, faults) in cases {
        for fault in faults {
            let line = format!(
                "strace -f -qq -o log -e inject={fault} {BYTEPATH} pv {words} 2>said | cmp - a"
            );
            let log = folder.path().join("log");
            let _ = fs::remove_file(&log);
            let (source, mut feed) = std::io::pipe().expect("a pipe");
            let is_waited_for = *fault == poll;
            if is_waited_for {
                fcntl_setfl(&source, OFlags::NONBLOCK).expect("it is ours");
            }
            let text = &text;
            let done = std::thread::scope(|scope| {
                scope.spawn(move || {
                    if is_waited_for {
                        wait_for_a_poll(&log);
                    }
                    // Whoever does not read all of it is found out below.
                    let _ = feed.write_all(text.as_bytes());
                });
                let mut command = Command::new("sh");
                run(command.args(["-c", &line]).current_dir(folder.path()).stdin(source))
            });
            assert!(done.status.success(), "{words} {fault}: {done:?}");
            assert_fired(&folder.path().join("log"), &format!("{words} {fault}"));
        }
    }
}

/// Until who is traced waits for its input, if it does.
fn wait_for_a_poll(log: &Path) {
    let until = Instant::now() + HANGS_AFTER / 2;
    let has_waited = || fs::read_to_string(log).is_ok_and(|log| log.contains("poll("));
    while !has_waited() && Instant::now() < until {
        std::thread::yield_now();
    }
}

#[test]
fn a_user_who_may_have_no_second_thread_still_moves_all_of_it() {
    if !root() || !installed("setpriv") {
        println!("skipped: a user without processes can only be had by root");
        return;
    }
    let folder = folder();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    let text = fs::read_to_string(folder.path().join("a")).expect("read");
    for words in ["-q", "-f", "-ql", "-q -L 1G", "-q -U -"] {
        // A user of this test's own, as the limit is on all of a user's processes.
        let line = format!(
            "cat a | TMPDIR=/tmp prlimit --nproc=1 \
             setpriv --reuid 65531 --regid 65531 --clear-groups {BYTEPATH} pv {words} 2>said"
        );
        let mut command = Command::new("sh");
        let done = run(command.args(["-c", &line]).current_dir(folder.path()));
        assert!(done.status.success() && done.stdout == text, "{words}: {done:?}");
    }
}
