//! Each option really does what it says: by the system calls that strace(1) sees.

use std::path::Path;
use std::process::Command;

use bytepath::machine::Machine;
use bytepath::placement::Placement;

use crate::program::{installed, shell};

/// The calls of both ends, in order, where strace is there and may trace.
struct Calls {
    writer: Vec<String>,
    reader: Vec<String>,
}

/// Runs both ends with these words and 1 MiB; `None`, said aloud, where nothing can be traced.
#[track_caller]
fn traced(writer: &str, reader: &str) -> Option<Calls> {
    if !may_trace() {
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let end = |name: &str| folder.path().join(name);
    let (write, read) = (end("writer"), end("reader"));
    let line = format!(
        "strace -f -o {} $bytepath write --bytes-to-pipe 1M {writer} \
         | strace -f -o {} $bytepath read --bytes-to-pipe 1M {reader}",
        write.display(),
        read.display()
    );
    shell(&line).well();
    Some(Calls { writer: calls(&write), reader: calls(&read) })
}

pub(crate) fn may_trace() -> bool {
    if !installed("strace") {
        return false;
    }
    let may = Command::new("strace").args(["-o", "/dev/null", "true"]).status();
    let may = may.is_ok_and(|status| status.success());
    if !may {
        println!("skipped: tracing is not allowed here");
    }
    may
}

/// strace(1)'s words to run what follows with these faults, of which it keeps a log.
pub(crate) fn faulty(log: &str, faults: &[&str]) -> String {
    let inject: String = faults.iter().map(|fault| format!("-e inject={fault} ")).collect();
    format!("strace -qqq -o {log} -e signal=none {inject}")
}

/// A test of a fault that does not occur would pass.
#[track_caller]
pub(crate) fn assert_fired(log: &Path, what: &str) {
    assert!(fired(log), "{what}: it never fires");
}

/// Whether one of the faults met a call.
pub(crate) fn fired(log: &Path) -> bool {
    let log = std::fs::read(log).expect("strace wrote it");
    String::from_utf8_lossy(&log).contains("(INJECTED)")
}

/// The calls without the number of the process before each, nor the blanks that align them.
fn calls(file: &Path) -> Vec<String> {
    let text = std::fs::read(file).expect("strace wrote it");
    let text = String::from_utf8_lossy(&text);
    let call = |line: &str| line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
    text.lines().map(call).collect()
}

/// The calls of this name, on this descriptor where it is their first argument.
fn named<'a>(calls: &'a [String], start: &str) -> Vec<&'a str> {
    calls.iter().map(String::as_str).filter(|call| call.starts_with(start)).collect()
}

/// The calls on the pipe, poll(2) included, in order.
fn on_pipe(calls: &[String], fd: u32) -> Vec<&str> {
    let moving = ["read", "write", "vmsplice", "splice", "preadv2", "pwritev2", "writev"];
    let is_moving = |call: &str| {
        let on = format!("({fd},");
        moving.iter().any(|name| call.strip_prefix(name).is_some_and(|rest| rest.starts_with(&on)))
    };
    let way = if fd == 0 { "IN" } else { "OUT" };
    let asks = |call: &str| {
        ["poll(", "ppoll("].iter().any(|name| call.starts_with(name))
            && call.contains(&format!("[{{fd={fd}, events=POLL{way}}}]"))
    };
    calls.iter().map(String::as_str).filter(|call| is_moving(call) || asks(call)).collect()
}

fn moved(call: &str) -> bool {
    !call.contains("poll(") && !call.contains("= -1 ")
}

#[test]
fn plain_ends_write_and_read_whole_buffers_and_leave_the_pipe_as_it_is() {
    let Some(calls) = traced("", "") else { return };
    assert_eq!(named(&calls.writer, "write(1,").len(), 4, "256 KiB at a time");
    assert!(named(&calls.writer, "write(1,").iter().all(|call| call.ends_with("262144) = 262144")));
    assert!(named(&calls.reader, "read(0,")[0].contains(", 262144) = "));
    for end in [&calls.writer, &calls.reader] {
        assert!(
            end.iter().all(|call| !call.contains("F_SETPIPE_SZ") && !call.contains("MADV_HUGE"))
        );
        assert!(end.iter().all(|call| !call.starts_with("mlock") && !call.contains("SPLICE_F")));
    }
}

#[test]
fn buffers_and_pipes_have_the_size_asked_for() {
    let Some(calls) = traced("--buf-size 4K --pipe-size 512K", "--buf-size 8K") else { return };
    assert!(named(&calls.writer, "write(1,").iter().all(|call| call.ends_with("4096) = 4096")));
    assert!(named(&calls.writer, "fcntl(1, F_SETPIPE_SZ, 524288) = 524288").len() == 1);
    assert!(named(&calls.reader, "read(0,")[0].contains(", 8192) = "));
    let Some(calls) = traced("", "--pipe-size 512K") else { return };
    assert!(named(&calls.reader, "fcntl(0, F_SETPIPE_SZ, 524288) = 524288").len() == 1);
}

#[test]
fn vmsplice_and_splice_are_used_when_asked_for() {
    let Some(calls) = traced("--write-with-vmsplice", "--read-with-splice") else { return };
    let (writes, reads) = (on_pipe(&calls.writer, 1), on_pipe(&calls.reader, 0));
    // After a call that slept the writer may look whether there is room, but not sleep for it.
    let (looks, writes): (Vec<_>, Vec<_>) =
        writes.into_iter().partition(|call| call.contains("poll("));
    let sleeps =
        |call: &&str| !call.contains("], 1, 0) = ") && !call.contains("1, {tv_sec=0, tv_nsec=0},");
    assert!(!looks.iter().any(sleeps), "{looks:?}");
    assert!(!writes.is_empty() && writes.iter().all(|call| call.starts_with("vmsplice(1,")));
    assert!(writes.iter().all(|call| !call.contains("SPLICE_F")), "{writes:?}");
    assert!(!reads.is_empty() && reads.iter().all(|call| call.starts_with("splice(0, NULL,")));
    assert!(named(&calls.writer, "fcntl(1, F_SETPIPE_SZ, 131072)").len() == 1, "half a buffer");
    assert!(calls.reader.iter().any(|call| call.contains("\"/dev/null\"")));
}

#[test]
fn gift_sets_the_flags_of_vmsplice_and_splice() {
    let words = "--write-with-vmsplice --read-with-splice --gift";
    let Some(calls) = traced(words, words) else { return };
    // A look whether there is room moves nothing.
    let moves = |calls: &[String], fd, flag: &str| {
        let moves: Vec<_> =
            on_pipe(calls, fd).into_iter().filter(|c| !c.contains("poll(")).collect();
        assert!(!moves.is_empty() && moves.iter().all(|call| call.contains(flag)), "{moves:?}");
    };
    moves(&calls.writer, 1, "SPLICE_F_GIFT");
    moves(&calls.reader, 0, "SPLICE_F_MOVE");
}

#[test]
fn a_busy_loop_makes_calls_that_do_not_block() {
    let Some(calls) = traced("--busy-loop", "--busy-loop") else { return };
    assert!(on_pipe(&calls.writer, 1).iter().all(|call| call.contains("RWF_NOWAIT")));
    assert!(on_pipe(&calls.reader, 0).iter().all(|call| call.contains("RWF_NOWAIT")));
    let words = "--busy-loop --write-with-vmsplice --read-with-splice";
    let Some(calls) = traced(words, words) else { return };
    for calls in [on_pipe(&calls.writer, 1), on_pipe(&calls.reader, 0)] {
        assert!(calls.iter().all(|call| call.contains("SPLICE_F_NONBLOCK")), "{calls:?}");
    }
}

#[test]
fn poll_is_asked_before_every_call() {
    for words in ["--poll", "--poll --write-with-vmsplice --read-with-splice", "--poll --busy-loop"]
    {
        let Some(calls) = traced(words, words) else { return };
        for calls in [on_pipe(&calls.writer, 1), on_pipe(&calls.reader, 0)] {
            assert!(calls.iter().filter(|call| moved(call)).count() >= 2, "{calls:?}");
            let unasked = calls.windows(2).find(|two| moved(two[1]) && !two[0].contains("poll("));
            assert_eq!(unasked, None, "{words}");
            assert!(calls[0].contains("poll("), "{words}: {}", calls[0]);
        }
    }
}

#[test]
fn huge_and_locked_pages_are_asked_for() {
    let Some(calls) = traced("--huge-page --lock-memory", "--huge-page --lock-memory") else {
        return;
    };
    for end in [&calls.writer, &calls.reader] {
        assert!(named(end, "madvise(").iter().any(|call| call.contains("MADV_HUGEPAGE) = 0")));
        assert!(named(end, "mlock").iter().any(|call| call.ends_with("= 0")));
    }
}

#[test]
fn buffers_in_one_mapping_are_halves_of_it() {
    let Some(calls) = traced("--write-with-vmsplice --same-buffer", "") else { return };
    let first = on_pipe(&calls.writer, 1)[0].to_owned();
    assert!(first.contains("iov_len=131072"), "{first}");
    let Some(calls) = traced("--write-with-vmsplice", "") else { return };
    assert!(on_pipe(&calls.writer, 1)[0].contains("iov_len=262144"));
}

#[test]
fn an_end_is_put_on_its_cpu() {
    let cpu = Machine::this().allowed_cpus().first().expect("a CPU");
    let words = format!("--cpu {cpu}");
    let Some(calls) = traced(&words, &words) else { return };
    for end in [&calls.writer, &calls.reader] {
        let pinned = named(end, "sched_setaffinity(");
        assert!(pinned.iter().any(|call| call.contains(&format!("[{cpu}]"))), "{pinned:?}");
    }
}

#[test]
fn an_end_is_put_where_its_placement_has_it() {
    let machine = Machine::this();
    for placement in Placement::distinct(machine.cpus(), machine.allowed_cpus()) {
        let words = format!("--placement {}", placement.name);
        let Some(calls) = traced(&words, &words) else { return };
        for (end, calls) in [calls.writer, calls.reader].iter().enumerate() {
            let pinned = named(calls, "sched_setaffinity(");
            match placement.cpus {
                Some(cpus) => assert!(
                    pinned.iter().any(|call| call.contains(&format!("[{}]", cpus[end]))),
                    "{words}: {pinned:?}"
                ),
                None => assert_eq!(pinned, Vec::<&str>::new(), "{words}"),
            }
        }
    }
}
