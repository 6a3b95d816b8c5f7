//! Faults of the kernel, made by strace(1): whatever happens, the classic's words, and no byte lost
//! or made up.

use std::fs::File;
use std::process::Stdio;

use rustix::pipe::{PipeFlags, pipe_with};

use super::{few, gnu, large};
use crate::calls::{self, may_trace};
use crate::classic::{LOG, differ_at};
use crate::program::{bytepath, spawned};

/// Calls that move bytes without giving them to the program.
const IN_KERNEL: &str = "splice,sendfile,copy_file_range";

/// Calls that put bytes into a file, in whatever way.
const WRITES: &str = "write,writev,pwritev2,splice,sendfile,copy_file_range,vmsplice";

/// The classic's name, run with faults.
fn faulty(faults: &[&str]) -> String {
    calls::faulty(LOG, faults) + "cat"
}

/// The same, for calls on this file alone.
fn faulty_on(file: &str, faults: &[&str]) -> String {
    faulty(faults).replacen("strace ", &format!("strace -P $(pwd -P)/{file} "), 1)
}

#[test]
fn a_way_that_is_refused_at_any_point_changes_nothing() {
    let Some(cat) = gnu() else { return };
    if !may_trace() {
        return;
    }
    for ways in ["splice", IN_KERNEL] {
        for error in ["EINVAL", "ENOSYS", "EPERM"] {
            for when in ["1+", "2+", "2+2"] {
                let cat_with = faulty(&[&format!("{ways}:error={error}:when={when}")]);
                let run = |words| format!("{cat_with} {words}; echo $?; cksum <out; ");
                let words = ["large a | cat >out", "large a >out", "- a <large | cat >out"];
                cat.both(&words.map(run).concat(), few).fired().same();
            }
        }
        let cat_with = faulty(&[&format!("{ways}:error=ENOSYS:when=2+")]);
        cat.both(&format!("cat large | {cat_with} - a >out"), few).fired().same();
        cat.both(&format!("cat large | {cat_with} - a | cat >out"), few).fired().same();
    }
}

#[test]
fn interruptions_change_nothing() {
    let Some(cat) = gnu() else { return };
    if !may_trace() {
        return;
    }
    // Every third call: one that is interrupted for ever never ends. Not copy_file_range, at which
    // the classic gives up.
    for (calls, options) in
        [("splice,sendfile", ""), ("write", "-A"), ("splice,write", ""), ("splice,write", "-A")]
    {
        let cat_with = faulty(&[&format!("{calls}:error=EINTR:when=1+3")]);
        for output in ["| cat >out", ">out"] {
            let line = format!("{cat_with} {options} large a {output}; echo $?");
            cat.both(&line, few).fired().same();
        }
    }
    for options in ["", "-A"] {
        let cat_with = faulty_on("large", &["read,splice,sendfile:error=EINTR:when=1+3"]);
        cat.both(&format!("{cat_with} {options} large a | cat >out; echo $?"), few).fired().same();
    }
}

/// The classic ends with "Resource temporarily unavailable" here, and loses the rest.
#[test]
fn an_end_that_is_not_ready_is_tried_again() {
    let Some(cat) = gnu() else { return };
    if !may_trace() {
        return;
    }
    let (pipe, append) = ("| cat >out", ">>out");
    let all = "splice,sendfile,copy_file_range,read,write";
    for (options, plain) in [("", ""), ("--route=read-write", ""), ("-s", "-s")] {
        let wanted = cat.both(&format!("cat {plain} large | cksum"), few).theirs.stdout;
        for (calls, output) in
            [(IN_KERNEL, pipe), ("write", pipe), ("write", append), (all, pipe), (all, append)]
        {
            // The kernel itself moves what nothing else is said of, and what goes into a pipe.
            let is_in_kernel = options.is_empty() && output == pipe;
            if calls == all || is_in_kernel == (calls == IN_KERNEL) {
                let fault = format!("{calls}:error=EAGAIN:when=2+3");
                // Reads of the file alone: the loader does not take EAGAIN for an answer.
                let cat_with = match calls {
                    "write" => faulty(&[&fault]),
                    _ => faulty_on("large", &[&fault]),
                };
                let line = format!("{cat_with} {options} large {output}; cksum <out");
                let ours = cat.both(&line, few).fired().ours;
                assert_eq!((ours.stderr.as_str(), ours.end.0), ("", Some(0)), "{line}");
                assert_eq!(ours.stdout, wanted, "{line}");
            }
        }
    }
}

#[test]
fn a_read_that_fails_is_told_of_as_one_and_the_next_file_is_gone_on_with() {
    let Some(cat) = gnu() else { return };
    if !may_trace() {
        return;
    }
    // A file that one call copies whole is read well, whatever the call after says.
    let cases =
        [("1+", "| cat"), ("2+", "| cat"), ("1+", ">out; cat out"), ("1+", ">>out; cat out")];
    for (when, output) in cases {
        for (error, options) in [("EIO", ""), ("EIO", "-n"), ("ESTALE", "")] {
            let in_kernel = format!("{IN_KERNEL}:error={error}:when={when}");
            let read = format!("read:error={error}");
            let cat_with = faulty_on("large", &[&in_kernel, &read]);
            let line = format!("{{ {cat_with} {options} large a {output}; }} 2>&1 >/dev/null");
            let both = cat.both(&line, few);
            both.same_words();
            assert!(both.ours.stdout.starts_with(b"cat: large: "), "{line}");
            assert_eq!(both.ours.stdout, both.theirs.stdout, "{line}");
        }
    }
}

#[test]
fn what_was_read_before_a_failure_is_delivered() {
    let Some(cat) = gnu() else { return };
    if !may_trace() {
        return;
    }
    let in_kernel = format!("{IN_KERNEL}:error=EIO:when=2+");
    let cat_with = faulty_on("large", &[&in_kernel, "read:error=EIO:when=2+"]);
    let line = format!("{cat_with} large a");
    let (both, large) = (cat.both(&line, few), large());
    both.same_words();
    let ours = both.ours.stdout.strip_suffix(b"one\n").expect("the second file follows");
    let at = differ_at(ours, &large).expect("it stops before the end");
    assert_eq!(at, ours.len(), "every byte up to there is the file's");
}

#[test]
fn a_write_that_fails_is_told_of_as_one_and_ends_the_work() {
    let Some(cat) = gnu() else { return };
    if !may_trace() {
        return;
    }
    for error in ["ENOSPC", "EDQUOT", "EIO", "EFBIG"] {
        for options in ["", "-n"] {
            // Appending, because the classic's copy_file_range takes a full disk for a bad source.
            let fault = format!("{WRITES}:error={error}:when=2+");
            let cat_with = faulty_on("out", &[&fault]);
            let line = format!("{cat_with} {options} large a nowhere >>out");
            let both = cat.both(&format!("echo >out; {line}; echo $?"), few);
            both.same_words();
            assert!(both.ours.stderr.starts_with("cat: write error: "), "{}", both.ours.stderr);
            assert_eq!(both.ours.stdout, b"1\n");
        }
    }
}

#[test]
fn a_write_that_fails_is_the_outputs_fault_by_every_route() {
    let Some(cat) = gnu() else { return };
    if !may_trace() {
        return;
    }
    // The classic blames the source here ("cat: large: No space left on device").
    for route in ["copy_file_range", "splice", "sendfile", "write"] {
        let full = format!("{route}:error=ENOSPC:when=2+");
        let ways = ["copy_file_range", "splice", "sendfile"].into_iter();
        let others = ways.filter(|way| *way != route);
        let refused: Vec<_> = others.map(|way| format!("{way}:error=ENOSYS")).collect();
        let faults: Vec<_> = refused.iter().chain([&full]).map(String::as_str).collect();
        let line = format!("{} large a >out", faulty_on("out", &faults));
        let both = cat.both(&format!("{line}; echo $?"), few);
        assert_eq!(both.ours.stderr, "cat: write error: No space left on device\n", "{line}");
        assert_eq!(both.ours.stdout, b"1\n", "{line}");
    }
}

#[test]
fn an_output_that_fails_when_it_is_closed_is_told_of() {
    let Some(cat) = gnu() else { return };
    if !may_trace() {
        return;
    }
    let line = format!("echo >out; {} a >>out", faulty_on("out", &["close:error=EDQUOT"]));
    cat.both(&line, few).fired().same();
}

/// A record that is not taken at once is lost, so no read may be cut where a part of the work ends.
#[test]
fn records_are_taken_whole_however_many_come() {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    const RECORDS: usize = 2000;
    const RECORD: [u8; 1000] = [b'r'; 1000];
    let folder = tempfile::tempdir().expect("a folder");
    let movers = [&["cat"][..], &["cat", "--route", "read-write"], &["pv", "-q"]];
    for words in movers {
        for packets in [true, false] {
            let (source, feed) = match packets {
                true => pipe_with(PipeFlags::DIRECT | PipeFlags::CLOEXEC).expect("a pipe"),
                false => {
                    let kind = (SocketType::SEQPACKET, SocketFlags::CLOEXEC);
                    socketpair(AddressFamily::UNIX, kind.0, kind.1, None).expect("sockets")
                }
            };
            let path = folder.path().join("out");
            let _ = std::fs::remove_file(&path);
            let out = File::options().append(true).create(true).open(&path).expect("a file");
            let mut command = bytepath(words);
            let mover = spawned(command.stdin(source).stdout(out).stderr(Stdio::piped()));
            drop(command);
            for _ in 0..RECORDS {
                assert_eq!(rustix::io::write(&feed, &RECORD), Ok(RECORD.len()));
            }
            drop(feed);
            let done = mover.done();
            assert!(done.status.success(), "{words:?} {packets}: {done:?}");
            let came = std::fs::metadata(&path).expect("made").len();
            assert_eq!(came, (RECORDS * RECORD.len()) as u64, "{words:?} {packets}");
        }
    }
}
