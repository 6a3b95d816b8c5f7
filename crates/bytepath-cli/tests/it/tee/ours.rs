//! What the classic does not have, or has in later versions only.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{ChildStderr, Command, Stdio};

use bytepath::machine::Machine;
use bytepath::profile::MachineKey;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::pipe::PipeFlags;

use super::{few, gnu, large};
use crate::calls::may_trace;
use crate::program::{
    BYTEPATH, Bounded, HANGS_AFTER, bytepath, installed, root, run, shell, signal_of, spawned,
};
use crate::tune::Narrow;

/// A pipe: its reading end, its writing end.
fn pipe() -> (OwnedFd, OwnedFd) {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe")
}

/// Starts it with these words between these ends.
fn started(words: &[&str], stdin: OwnedFd, stdout: OwnedFd) -> Bounded {
    let mut command = bytepath(&[&["tee"], words].concat());
    spawned(command.stdin(stdin).stdout(stdout).stderr(Stdio::piped()))
}

/// Waits until nobody can read what this end writes: what another test forks has the reader open,
/// until it runs its program.
fn nobody_reads(writer: &OwnedFd) {
    let limit = Timespec::try_from(HANGS_AFTER).expect("it fits");
    let count = rustix::event::poll(&mut [PollFd::new(writer, PollFlags::empty())], Some(&limit));
    assert_eq!(count, Ok(1), "somebody has the reader still");
}

/// Everything that comes out of it.
fn whole(reader: impl Into<File>) -> Vec<u8> {
    let mut bytes = Vec::new();
    reader.into().read_to_end(&mut bytes).expect("it can be read");
    bytes
}

/// Writes all of it and closes the pipe, from a thread of its own.
fn fed(writer: OwnedFd, bytes: Vec<u8>) -> std::thread::JoinHandle<()> {
    std::thread::spawn(move || File::from(writer).write_all(&bytes).expect("it is read"))
}

/// A FIFO in a folder, open at its reading end, so that whoever writes into it does not wait for a
/// reader; nobody reads yet.
fn unread(folder: &Path) -> (String, File) {
    unread_of_name(folder, "fifo")
}

fn unread_of_name(folder: &Path, name: &str) -> (String, File) {
    let name = folder.join(name);
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &name, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a FIFO");
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let reader = rustix::fs::open(&name, flags, rustix::fs::Mode::empty()).expect("it opens");
    let flags = rustix::fs::fcntl_getfl(&reader).expect("flags");
    rustix::fs::fcntl_setfl(&reader, flags - OFlags::NONBLOCK).expect("it blocks");
    (name.to_str().expect("plain").to_owned(), reader.into())
}

/// The classic up to 9.1 ends with "Resource temporarily unavailable" here, and loses the rest.
#[test]
fn ends_that_do_not_block_are_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("c");
    let file = file.to_str().expect("plain");
    let bytes = large();
    for options in [&[][..], &["-p"], &["--queue", "8M"], &["-a", file], &[file], &["-p", file]] {
        let _ = std::fs::remove_file(file);
        let both = PipeFlags::NONBLOCK | PipeFlags::CLOEXEC;
        let (stdin, feeder) = rustix::pipe::pipe_with(both).expect("a pipe");
        let (reader, stdout) = rustix::pipe::pipe_with(both).expect("a pipe");
        for end in [&reader, &feeder] {
            let flags = rustix::fs::fcntl_getfl(end).expect("flags");
            rustix::fs::fcntl_setfl(end, flags - OFlags::NONBLOCK).expect("it blocks");
        }
        let tee = started(options, stdin, stdout);
        let feeds = fed(feeder, bytes.clone());
        assert!(whole(reader) == bytes, "{options:?}");
        feeds.join().expect("fed");
        tee.done().well();
        if options.contains(&file) {
            assert!(std::fs::read(file).expect("it is there") == bytes, "{options:?}");
        }
    }
}

#[test]
fn it_ends_with_its_last_reader_though_no_byte_comes() {
    for options in [&["-p"][..], &["--output-error=exit-nopipe"], &["-p", "--queue", "1M"]] {
        for extra in [&[][..], &["--hash", "xxh3"]] {
            let ((stdin, feeder), (reader, stdout)) = (pipe(), pipe());
            let tee = started(&[options, extra].concat(), stdin, stdout);
            drop(reader);
            let done = tee.done();
            assert!(done.status.success(), "{options:?}: {done:?}");
            drop(feeder);
        }
    }
}

#[test]
fn a_reader_that_stays_keeps_it_going_though_another_has_left() {
    for options in [&["-p"][..], &["-p", "--queue", "8M"]] {
        let folder = tempfile::tempdir().expect("a folder");
        let (name, fifo) = unread(folder.path());
        let ((stdin, feeder), (reader, stdout)) = (pipe(), pipe());
        let tee = started(&[options, &[name.as_str()]].concat(), stdin, stdout);
        drop(reader);
        let feeds = fed(feeder, large());
        // Until somebody writes, it is at its end.
        let _ = rustix::event::poll(&mut [PollFd::new(&fifo, PollFlags::IN)], None);
        let mut first = vec![0; large().len()];
        (&fifo).read_exact(&mut first).expect("it goes on");
        assert!(first == large(), "{options:?}");
        feeds.join().expect("fed");
        tee.done().well();
    }
}

#[test]
fn a_slow_output_holds_nobody_up_that_the_queue_has_room_for() {
    let spill = tempfile::tempdir().expect("a folder");
    let spill_name = spill.path().to_str().expect("plain");
    for options in [&["--queue", "8M"][..], &["--queue", "256K", "--spill", spill_name]] {
        let folder = tempfile::tempdir().expect("a folder");
        let (name, fifo) = unread(folder.path());
        let ((stdin, feeder), (reader, stdout)) = (pipe(), pipe());
        let tee = started(&[options, &[name.as_str()]].concat(), stdin, stdout);
        let feeds = fed(feeder, large());
        assert!(whole_of(&reader, large().len()) == large(), "{options:?}");
        feeds.join().expect("fed");
        assert_eq!(std::fs::read_dir(spill.path()).expect("it lists").count(), 0, "no name");
        assert!(whole(fifo) == large(), "{options:?}");
        tee.done().well();
    }
}

#[test]
fn an_output_has_what_is_queued_for_it_before_the_reader_of_another_that_left_ends_it() {
    for (mode, code) in [("--append", None), ("--output-error=exit", Some(1))] {
        let folder = tempfile::tempdir().expect("a folder");
        let (name, fifo) = unread(folder.path());
        let ((stdin, feeder), (reader, stdout)) = (pipe(), pipe());
        let writer = stdout.try_clone().expect("a duplicate");
        let mut tee = started(&["--queue", "64M", mode, &name], stdin, stdout);
        let mut feeder = File::from(feeder);
        let all = std::thread::scope(|scope| {
            let fed = scope.spawn(|| feeder.write_all(&large()).expect("it is read"));
            let all = whole_of(&reader, large().len());
            fed.join().expect("fed");
            all
        });
        assert!(all == large());
        drop(reader);
        nobody_reads(&writer);
        feeder.write_all(b"x").expect("it is read");
        if code.is_some() {
            let mut said = [0; 256];
            let mut stderr = tee.child().stderr.take().expect("it is piped");
            let count = stderr.read(&mut said).expect("it says something");
            let said = String::from_utf8_lossy(&said[..count]).into_owned();
            assert!(said.contains("Broken pipe"), "{said}");
        }
        // It ends though its input does not.
        assert!(whole(fifo).starts_with(&large()), "{mode}");
        let done = tee.done();
        assert_eq!(done.status.code(), code, "{done:?}");
        let signal = code.is_none().then_some(rustix::process::Signal::PIPE.as_raw());
        assert_eq!(signal_of(&done), signal, "{done:?}");
        drop(feeder);
    }
}

/// So many bytes, whoever still has the other end open.
fn whole_of(reader: &OwnedFd, bytes: usize) -> Vec<u8> {
    let mut all = vec![0; bytes];
    let file = File::from(reader.try_clone().expect("a duplicate"));
    (&file).read_exact(&mut all).expect("it comes");
    all
}

#[test]
fn a_queue_may_be_larger_than_any_buffer_and_takes_no_memory_before_it_fills() {
    let folder = tempfile::tempdir().expect("a folder");
    let done = shell(&format!(
        "ulimit -v 400000; cd {} && seq 100000 >all && $bytepath tee --queue 64G o <all | cmp - all && \
         cmp o all",
        folder.path().display()
    ));
    assert_eq!((done.status.code(), done.stderr.as_str()), (Some(0), ""), "{done:?}");
}

#[test]
fn a_queue_for_which_there_is_no_memory_is_a_full_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (name, fifo) = unread(folder.path());
    // Whoever waits for more than it may have waits until it is read.
    let line = "ulimit -v 400000; exec \"$bytepath\" tee --queue 1G \"$0\" </dev/zero";
    let mut command = Command::new("sh");
    command.args(["-c", line, &name]).env("bytepath", BYTEPATH);
    let (reader, stdout) = pipe();
    let mut tee = spawned(command.stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped()));
    drop(command);
    let reads = std::thread::spawn(move || {
        let mut buffer = vec![0; 1 << 20];
        let mut bytes = 0;
        // More than it may have, and it goes on.
        while bytes < 600 << 20 {
            match File::from(reader.try_clone().expect("a duplicate")).read(&mut buffer) {
                Ok(count) if count > 0 => bytes += count,
                ended => panic!("it ended after {bytes} bytes: {ended:?}"),
            }
        }
    });
    let mut stderr = tee.child().stderr.take().expect("it is piped");
    let mut said = [0; 4096];
    let count = stderr.read(&mut said).expect("it says something");
    let said = String::from_utf8_lossy(&said[..count]).into_owned();
    assert!(said.contains("the queue is full"), "{said}");
    let drains = std::thread::spawn(move || std::io::copy(&mut &fifo, &mut std::io::sink()));
    reads.join().expect("it goes on");
    // It ends by its reader that left.
    assert_eq!(signal_of(&tee.done()), Some(rustix::process::Signal::PIPE.as_raw()));
    drains.join().expect("a thread").expect("it can be read");
}

#[test]
fn a_queue_leaves_a_group_some_of_the_memory_that_it_may_have() {
    let Some(group) = Narrow::make("tee", 40 << 20) else {
        return println!("skipped: no cgroup with a limit can be made here (that takes root)");
    };
    let folder = tempfile::tempdir().expect("a folder");
    let done = shell(&format!(
        "cd {} && mkfifo f && >said && echo 0 >{}/cgroup.procs && {{ \
         (exec <f; until grep -q 'is full' said; do sleep 0.01; done; wc -c >slow) & \
         head -c 100M /dev/zero | $bytepath tee --queue 200M f 2>said | wc -c; wait; cat slow said; }}",
        folder.path().display(),
        group.0.display()
    ));
    let said =
        done.stdout.strip_prefix("104857600\n104857600\ntee: f: ").expect("all of it, twice");
    assert!(said.contains("the queue is full (the limit in /sys/fs/cgroup/"), "{done:?}");
}

#[test]
fn who_holds_the_others_up_is_said() {
    holds_the_others_up("exec \"$bytepath\" tee --queue 64K \"$0\"");
}

#[test]
fn an_output_that_is_the_only_one_holds_up_the_input() {
    let ((stdin, feeder), (reader, stdout)) = (pipe(), pipe());
    let mut tee = started(&["--queue", "64K"], stdin, stdout);
    let mut stderr = tee.child().stderr.take().expect("it is piped");
    let feeds = fed(feeder, large());
    let mut said = [0; 4096];
    let count = stderr.read(&mut said).expect("it says something");
    let said = String::from_utf8_lossy(&said[..count]).into_owned();
    assert!(whole(reader) == large());
    feeds.join().expect("fed");
    assert!(said.contains("the queue is full: the input waits for it"), "{said}");
    assert!(tee.done().status.success());
}

/// Who writes beyond the limit is ended by a signal.
#[test]
fn what_is_spilled_stays_within_the_limit_on_files() {
    let line =
        "ulimit -f 1024; exec \"$bytepath\" tee --queue 64K --spill \"$(dirname \"$0\")\" \"$0\"";
    holds_the_others_up(line);
}

/// The outputs are not at fault. The first calls of a program are its loader's.
#[test]
fn what_was_spilled_and_cannot_be_read_back_is_told_of() {
    if !may_trace() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (name, fifo) = unread(folder.path());
    let strace = "strace -f -qqq -o /dev/null -e trace=pread64 -e inject=pread64:error=EIO:when=5";
    let line = format!(
        "{strace} \"$bytepath\" tee --queue 64K --spill \"$(dirname \"$0\")\" \"$0\" >/dev/null"
    );
    let (stdin, feeder) = pipe();
    let mut command = Command::new("sh");
    command.args(["-c", &line, &name]).env("bytepath", BYTEPATH);
    let tee = spawned(command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::piped()));
    drop(command);
    fed(feeder, large()).join().expect("all but a pipe full is in the file");
    let read = whole(fifo);
    let done = tee.done();
    let folder = folder.path().display();
    let said = format!(
        "tee: reading back what was spilled to {folder}, for '{name}': Input/output error\n"
    );
    assert_eq!((done.status.code(), done.stderr.as_str()), (Some(1), said.as_str()), "{done:?}");
    assert!(large().starts_with(&read) && read.len() < large().len());
}

#[test]
fn outputs_get_all_where_they_may_have_no_threads() {
    if !may_trace() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    few(folder.path());
    let strace =
        "strace -f -qqq -o /dev/null -e trace=clone3,clone -e inject=clone3,clone:error=EAGAIN";
    let done = shell(&format!(
        "cd {} && {strace} $bytepath tee --queue 10M o <large | cmp - large && cmp o large",
        folder.path().display()
    ));
    let said = "tee: no thread for each output, as --queue needs: Resource temporarily unavailable; \
                the job goes on without a queue\n";
    assert_eq!((done.status.code(), done.stderr.as_str()), (Some(0), said));
    // No output is behind where there is no queue. The thread of the metrics is the first.
    let done = shell(&format!(
        "cd {} && {strace}:when=2+ $bytepath tee --queue 10M --metrics m o <large | cmp - large && \
         cat m",
        folder.path().display()
    ));
    assert_eq!((done.status.code(), done.stderr.as_str()), (Some(0), said));
    let told = done.stdout;
    let queued = ["fan-out-queue", "behind_bytes"].iter().any(|it| told.contains(it));
    assert!(told.contains("\"fan-out\"") && !queued, "{told}");
    let line = format!("{strace} $bytepath tee --progress <{}/a", folder.path().display());
    let done = shell(&line);
    assert!(
        done.status.success() && done.stderr.contains("no thread for --progress: Resource"),
        "{done:?}"
    );
}

/// Of this line of shell, whose $0 is an output that nobody reads for a while.
#[track_caller]
fn holds_the_others_up(line: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let (name, mut fifo) = unread(folder.path());
    let ((stdin, feeder), (reader, stdout)) = (pipe(), pipe());
    let mut command = Command::new("sh");
    command.args(["-c", line, &name]).env("bytepath", BYTEPATH);
    let mut tee = spawned(command.stdin(stdin).stdout(stdout).stderr(Stdio::piped()));
    drop(command);
    let mut stderr = tee.child().stderr.take().expect("it is piped");
    let feeds = fed(feeder, large());
    let reads = std::thread::spawn(move || whole(reader));
    // Both may be as slow for a moment, and another output too.
    let of_fifo = format!("tee: {name}: ");
    says(&mut stderr, &mut String::new(), &[&of_fifo, " behind, ", "the others wait for it"]);
    let mut all = Vec::new();
    fifo.read_to_end(&mut all).expect("it can be read");
    assert!(all == large() && reads.join().expect("read") == large());
    feeds.join().expect("fed");
    assert!(tee.done().status.success());
}

/// Reads on until it has said a line with all of these words.
#[track_caller]
fn says(stderr: &mut ChildStderr, said: &mut String, words: &[&str]) {
    let mut more = [0; 4096];
    while !said.lines().any(|line| words.iter().all(|word| line.contains(word))) {
        let time = Timespec::try_from(HANGS_AFTER).expect("it is short");
        let ready = rustix::event::poll(&mut [PollFd::new(stderr, PollFlags::IN)], Some(&time));
        assert_eq!(ready, Ok(1), "it says no more: {said}");
        let count = stderr.read(&mut more).expect("it can be read");
        assert!(count > 0, "it ended: {said}");
        said.push_str(&String::from_utf8_lossy(&more[..count]));
    }
}

#[test]
fn that_the_others_wait_is_said_also_where_the_input_waited_before() {
    let folder = tempfile::tempdir().expect("a folder");
    let (name, mut fifo) = unread(folder.path());
    let ((stdin, feeder), (reader, stdout)) = (pipe(), pipe());
    let mut tee = started(&["--queue", "64K", "--no-enlarge", &name], stdin, stdout);
    let mut stderr = tee.child().stderr.take().expect("it is piped");
    let feeds = fed(feeder, large());
    let (said, of_fifo) = (&mut String::new(), format!("tee: {name}: "));
    // The input, as a rule; where one had no CPU for a moment, the other may be ahead.
    says(&mut stderr, said, &[&of_fifo, "wait"]);
    let reads = std::thread::spawn(move || whole(reader));
    says(&mut stderr, said, &[&of_fifo, "the others wait for it"]);
    let mut all = Vec::new();
    fifo.read_to_end(&mut all).expect("it can be read");
    assert!(all == large() && reads.join().expect("read") == large());
    feeds.join().expect("fed");
    assert!(tee.done().status.success());
}

#[test]
fn a_queue_changes_nothing_of_what_the_classic_does() {
    let Some(tee) = gnu() else { return };
    let lines = [
        "cat large | TEE c d | cksum",
        "TEE -a c /dev/null <large >o",
        "TEE c /dev/full d <a; echo $?",
        "TEE -p c /dev/full d <a >o; echo $?",
        "TEE --output-error=exit /dev/full <a >/dev/null; echo $?",
        "TEE no/c <a; echo $?",
        "TEE c >&- <a; echo $?",
        "TEE c <&-; echo $?",
        "mkdir e; TEE c <e; echo $?",
        "{ TEE <large; echo $? >code; } | head -c 1; cat code",
        "{ TEE -p <large; echo $? >code; } | head -c 1; cat code",
        "{ TEE --output-error=warn <large; echo $? >code; } 2>&1 | head -c 1 >o; cat code",
        "{ trap '' PIPE; TEE <large; echo $? >code; } | head -c 1; cat code",
        "printf 1 | TEE c | cat",
        "TEE c </dev/null | cat",
    ];
    for line in lines {
        let theirs = tee.both(&line.replace("TEE", "tee"), few).theirs;
        for queue in ["1", "100K", "64M", "10K --spill ."] {
            let ours = tee.both(&line.replace("TEE", &format!("tee --queue {queue}")), few).ours;
            let said = |text: &str| text.lines().filter(|line| !line.contains("behind")).count();
            assert_eq!(ours.stdout, theirs.stdout, "{queue}: {line}");
            assert_eq!(ours.end, theirs.end, "{queue}: {line}");
            assert_eq!(said(&ours.stderr), said(&theirs.stderr), "{queue}: {line}");
            if !line.contains("exit") && !line.contains("head") {
                assert!(ours.files() == theirs.files(), "{queue}: {line}");
            }
        }
    }
}

#[test]
fn the_checksum_is_that_of_the_stream() {
    let digests = [
        ("xxh3", "2d06800538d394c2"),
        ("sha256", "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"),
        ("blake3", "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"),
    ];
    for (algorithm, of_nothing) in digests {
        let done = shell(&format!("$bytepath tee --hash {algorithm} </dev/null"));
        assert_eq!(done.stderr, format!("tee: {algorithm} {of_nothing}\n"));
    }
    let folder = tempfile::tempdir().expect("a folder");
    few(folder.path());
    let name = folder.path().join("large").display().to_string();
    let wanted = shell(&format!("sha256sum <{name}")).stdout;
    let wanted = format!("tee: sha256 {}\n", wanted.split(' ').next().expect("a digest"));
    for line in [
        "$bytepath tee --hash sha256 <NAME >/dev/null",
        "cat NAME | $bytepath tee --hash sha256 NAME.c | cat >/dev/null",
        "cat NAME | $bytepath tee --hash sha256 -a NAME.c NAME.d | cat >/dev/null",
        "cat NAME | $bytepath tee --hash sha256 --queue 8M NAME.c | cat >/dev/null",
        "$bytepath tee --hash sha256 /dev/full <NAME 2>&1 >/dev/null | grep -v full >&2",
    ] {
        let done = shell(&line.replace("NAME", &name));
        assert_eq!(done.stderr, wanted, "{line}");
    }
}

/// A user of this test's own, as the limit is on all of a user's processes.
#[test]
fn without_a_thread_for_the_checksum_the_bytes_go_on() {
    if !root() || !installed("setpriv") || !installed("prlimit") {
        return println!("skipped: a user without processes can only be had by root");
    }
    let done = shell(
        "seq 3 | prlimit --nproc=1 setpriv --reuid 65527 --regid 65527 --clear-groups \
         $bytepath tee --hash sha256",
    );
    let said = "tee: no thread for --hash: Resource temporarily unavailable; the job goes on without \
                a checksum, which a higher limit of processes (ulimit -u) allows\n";
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("1\n2\n3\n", said));
    assert_eq!(done.status.code(), Some(1), "{done:?}");
}

#[test]
fn a_checksum_that_nobody_can_hear_is_told_by_the_exit_code() {
    for to in [">/dev/full", ">&-"] {
        let done = shell(&format!("seq 3 | $bytepath tee --hash xxh3 2{to}; echo $?"));
        assert_eq!(done.stdout, "1\n2\n3\n1\n", "{to}");
    }
}

#[test]
fn what_is_not_read_to_its_end_has_no_checksum() {
    let unread = "tee: no sha256: the input was not read to its end\n";
    let done = shell("yes | $bytepath tee -p --hash sha256 | head -1");
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("y\n", unread));
    let done =
        shell("$bytepath tee --hash sha256 --output-error=exit /dev/full </dev/zero >/dev/null");
    assert!(done.stderr.ends_with(unread) && done.status.code() == Some(1), "{done:?}");
    let done = shell("$bytepath tee --hash sha256 </");
    assert!(done.stderr.ends_with(unread) && done.status.code() == Some(1), "{done:?}");
}

#[test]
fn a_checksum_that_cannot_be_begun_is_told_in_the_kernels_word() {
    if !may_trace() {
        return;
    }
    let done = shell(
        "strace -f -qqq -o /dev/null -e trace=pipe2 -e inject=pipe2:error=EMFILE \
         $bytepath tee --hash xxh3",
    );
    done.refused(1, &["tee: cannot compute the checksum: Too many open files\n"]);
}

#[test]
fn a_checksum_whose_thread_did_not_get_all_bytes_is_not_told() {
    if !may_trace() {
        return;
    }
    // It is slower than who reads, so what it is to get is read back from the file; the first such calls are
    // those of the loader.
    let folder = tempfile::tempdir().expect("a folder");
    let done = shell(&format!(
        "head -c 60M /dev/zero | strace -f -qqq -o /dev/null -e trace=pread64 \
         -e inject=pread64:error=EIO:when=20+ \
         $bytepath tee --hash sha256 --queue 256K --spill {} 2>&1 >/dev/null; echo $?",
        folder.path().display()
    ));
    assert!(done.stdout.ends_with("1\n") && !done.stdout.contains("tee: sha256"), "{done:?}");
    assert!(done.stdout.contains("no sha256: Input/output error"), "{done:?}");
}

#[test]
fn no_byte_is_copied_on_its_way_from_pipe_to_pipes() {
    if !may_trace() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (large_file, trace) = (folder.path().join("large"), folder.path().join("trace"));
    std::fs::write(&large_file, large()).expect("a file");
    let (large_file, trace) = (large_file.display(), trace.display());
    let calls = |words: &str| {
        let line = format!(
            "cat {large_file} | strace -qqq -y -e signal=none -e trace=read,write,splice,tee -o {trace} \
             $bytepath tee {words} | cksum; cat {trace}"
        );
        shell(&line).well().stdout
    };
    let on_pipes = |calls: &str, call: &str| {
        let moved = |line: &&str| line.starts_with(call) && line.contains("<pipe:");
        calls.lines().filter(moved).count()
    };
    for words in ["", "/dev/null", "/dev/stdout"] {
        let seen = calls(words);
        assert!(on_pipes(&seen, "splice(") > 0, "{seen}");
        assert_eq!(on_pipes(&seen, "read(") + on_pipes(&seen, "write("), 0, "{words}: {seen}");
    }
    assert!(on_pipes(&calls("/dev/stdout"), "tee(") > 0);
}

#[test]
fn the_plan_is_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = folder.path().join("c").display().to_string();
    let said = shell(&format!("printf 12345 | $bytepath tee --explain-plan {name} | cat")).stderr;
    for word in ["from a pipe: splice", "(pipe): tee, 5 bytes", "(file): splice", "came: 5 bytes"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    for (way, pipes) in [("", "; pipes of 1 MiB"), ("--no-enlarge", "; pipes stay as they are")] {
        let line = format!("head -c 3M /dev/zero | $bytepath tee --explain-plan {way} | wc -c");
        let said = shell(&format!("export XDG_STATE_HOME=/proc; {line}")).stderr;
        assert!(said.contains(pipes), "{way}: {said}");
    }
    std::fs::write(folder.path().join("a"), "12345").expect("a file");
    let line =
        format!("$bytepath tee --explain-plan {name} <{} | cat", folder.path().join("a").display());
    let said = shell(&line).stderr;
    for word in ["from a file: splice", "(pipe): tee, 5 bytes", "(file): splice"] {
        assert!(said.contains(word), "{word}: {said}");
    }
    let said =
        shell("printf 12345 | $bytepath tee --explain-plan --queue 1M /dev/full | cat").stderr;
    for word in ["--queue has", "from a pipe: read", "(pipe): write", "lost: No space left"] {
        assert!(said.contains(word), "{word}: {said}");
    }
}

#[test]
fn outputs_that_were_written_to_since_tee_is_refused_are_not_said_to_be_teed() {
    if !may_trace() {
        return;
    }
    let refused = "strace -qqq -o /dev/null -e inject=tee:error=EPERM $bytepath";
    let done = shell(&format!("printf 12345 | {refused} tee --explain-plan /dev/stdout | cat"));
    assert_eq!(done.stdout, "1234512345");
    let said = done.stderr;
    assert_eq!(said.matches("(pipe): write, 5 bytes").count(), 2, "{said}");
}

#[test]
fn how_far_it_is_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    few(folder.path());
    let large = folder.path().join("large").display().to_string();
    for queue in ["", "--queue 1M"] {
        // It takes some time, or there would be no rate.
        let line = format!("(cat {large}; sleep 0.02) | $bytepath tee --progress {queue} | cksum");
        let done = shell(&line);
        let last = done.stderr.lines().last().unwrap_or_default().to_owned();
        assert!(last.starts_with("3.00 MiB, ") && last.contains("/s"), "{queue}: {last:?}");
    }
}

#[test]
fn names_command_no_terminal_where_it_is_shown_how_far_outputs_are_behind() {
    let folder = tempfile::tempdir().expect("a folder");
    let (name, fifo) = unread_of_name(folder.path(), "\x1b]0;x\x07");
    let ((stdin, feeder), (reader, stdout)) = (pipe(), pipe());
    let mut tee = started(&["--progress", "--queue", "64M", &name], stdin, stdout);
    let mut stderr = tee.child().stderr.take().expect("it is piped");
    let feeds = fed(feeder, large());
    let reads = std::thread::spawn(move || whole(reader));
    let mut said = String::new();
    let mut more = [0; 4096];
    while !said.contains("x'$'\\a' is 2.") && !said.contains("x\x07 is") {
        let count = stderr.read(&mut more).expect("it says something");
        assert!(count > 0, "it ended: {said}");
        said.push_str(&String::from_utf8_lossy(&more[..count]));
    }
    assert!(!said.contains("\x1b]"), "{said:?}");
    assert!(whole(fifo) == large() && reads.join().expect("read") == large());
    feeds.join().expect("fed");
    assert!(tee.done().status.success());
}

#[test]
fn pipes_are_made_larger_unless_they_are_to_be_left() {
    for (options, enlarges) in
        [(&[][..], true), (&["--no-enlarge"], false), (&["--queue", "8M"], true)]
    {
        let ((stdin, feeder), (reader, stdout)) = (pipe(), pipe());
        let size = || rustix::pipe::fcntl_getpipe_size(&reader).expect("a pipe has a size");
        let before = size();
        let tee = started(options, stdin, stdout);
        let feeds = fed(feeder, large());
        let got = whole_of(&reader, large().len());
        let after = size();
        assert!(got == large());
        feeds.join().expect("fed");
        tee.done().well();
        assert_eq!(after > before, enlarges, "{options:?}: {before}, {after}");
    }
}

#[test]
fn wrong_use_of_our_options_is_refused_before_any_output_is_touched() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = folder.path().join("c").display().to_string();
    let cases = [
        (&["--queue", "0"][..], "a size of 0"),
        (&["--queue", "many"], "no size"),
        (&["--spill", "/tmp"], "--queue"),
        (&["--queue", "1M", "--spill", "/no/such"], "cannot spill to /no/such"),
        (&["--hash", "md5"], "md5"),
    ];
    for (options, word) in cases {
        let refused = run(&mut bytepath(&[&["tee", name.as_str()], options].concat()));
        refused.refused(1, &["tee: ", word]);
        assert!(!Path::new(&name).exists(), "{options:?}");
    }
    let refused = run(&mut bytepath(&["tee", "--bad"]));
    refused.refused(1, &["tee: unrecognized option", "Try 'bytepath tee --help'"]);
}

/// A profile of this machine by which one route is best from a pipe to a pipe.
fn profile_for(route: &str, folder: &Path) -> String {
    let key = MachineKey::of(Machine::this());
    let choice = serde_json::json!({
        "route": route, "pipe_bytes": 256 << 10,
        "gib_per_s": 7.0, "ci95": [6.0, 8.0], "overall_gib_per_s": 7.0, "cpu_s_per_gib": 0.1,
    });
    let profile = serde_json::json!({
        "schema": "bytepath.profile/1", "made": "2026-01-01T00:00:00Z", "bytepath": "0.1.0",
        "machine": key, "pairs": [{ "source": "pipe", "sink": "pipe", "choices": [choice] }],
    });
    let path = folder.join(format!("{route}.json"));
    std::fs::write(&path, profile.to_string()).expect("a profile");
    path.display().to_string()
}

#[test]
fn what_was_measured_decides_whether_pages_are_handed_on() {
    let folder = tempfile::tempdir().expect("a folder");
    few(folder.path());
    let name = folder.path().join("large").display().to_string();
    for (route, way, kind) in
        [("splice", "tee", "handed on"), ("read-write", "write", "everything is")]
    {
        let profile = profile_for(route, folder.path());
        let done = shell(&format!(
            "cat {name} | $bytepath tee --explain-plan --profile {profile} {name}.2 | cmp - {name} && cmp {name}.2 {name} && echo same"
        ));
        let said = &done.stderr;
        assert_eq!(done.stdout, "same\n", "{said}");
        let best = format!("pipes of 256 KiB; to a pipe alone {route} is best, 7.00 GiB/s");
        for words in ["by what was measured", kind, &best, &format!("(pipe): {way}, ")] {
            assert!(said.contains(words), "{words}: {said}");
        }
    }
    let bad = run(&mut bytepath(&["tee", "--profile", "/nonexistent", "/dev/null"]));
    bad.refused(1, &["tee: ", "there is no profile", "run bytepath tune"]);
}
