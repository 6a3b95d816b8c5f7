//! Faults of the kernel, made by strace(1): whatever happens, the classic's words, and no byte lost
//! or made up.

use super::{few, gnu, large};
use crate::calls::{self, may_trace};
use crate::classic::{LOG, differ_at};

/// The classic's name, run with faults.
fn faulty(faults: &[&str]) -> String {
    calls::faulty(LOG, faults) + "tee"
}

/// The same, for calls on this file alone.
fn faulty_on(file: &str, faults: &[&str]) -> String {
    faulty(faults).replacen("strace ", &format!("strace -P $(pwd -P)/{file} "), 1)
}

/// Sources and outputs of every way: from a pipe or a file, to pipes, files, appended ones.
const LINES: [&str; 7] = [
    "cat large | TEE | cat >o",
    "cat large | TEE c | cat >o",
    "cat large | TEE c d >o",
    "cat large | TEE c /dev/stderr 2>e | cat >o",
    "cat large | TEE -a c d | cat >o",
    "TEE c d <large | cat >o",
    "TEE /dev/null c <large >o",
];

/// Those in which there is something to be given to more than one.
const TO_SEVERAL: &[&str] = LINES.split_at(1).1;

/// Those that read the file themselves.
const FROM_A_FILE: &[&str] = LINES.split_at(5).1;

#[test]
fn a_way_that_is_refused_at_any_point_changes_nothing() {
    let Some(tee) = gnu() else { return };
    if !may_trace() {
        return;
    }
    for ways in ["tee", "splice", "tee,splice"] {
        for error in ["EINVAL", "ENOSYS", "EPERM", "EIO"] {
            for when in ["1+", "2+", "2+2", "5+7"] {
                let tee_with = faulty(&[&format!("{ways}:error={error}:when={when}")]);
                let runs = LINES.map(|line| line.replace("TEE", &tee_with));
                let sums = "; echo $?; cksum c d e o 2>/dev/null; rm -f c d e o; ";
                tee.both(&runs.map(|run| run + sums).concat(), few).fired().same();
            }
        }
    }
}

#[test]
fn a_pipe_of_its_own_that_cannot_be_had_changes_nothing() {
    let Some(tee) = gnu() else { return };
    if !may_trace() {
        return;
    }
    for (fault, lines) in
        [("pipe2:error=EMFILE", TO_SEVERAL), ("pipe2:error=ENFILE:when=2", &TO_SEVERAL[1..])]
    {
        let tee_with = faulty(&[fault]);
        for line in lines {
            let line = format!("{}; echo $?", line.replace("TEE", &tee_with));
            tee.both(&line, few).fired().same();
        }
    }
}

#[test]
fn interruptions_change_nothing() {
    let Some(tee) = gnu() else { return };
    if !may_trace() {
        return;
    }
    // Every third call: one that is interrupted for ever never ends. The classic's only calls are
    // reads, of which its loader's do not take EINTR for an answer.
    for (calls, lines) in [
        ("splice", &LINES[..]),
        ("tee", TO_SEVERAL),
        ("splice,tee,poll", &LINES),
        ("pipe2,splice", &LINES),
    ] {
        let tee_with = faulty(&[&format!("{calls}:error=EINTR:when=1+3")]);
        for line in lines {
            tee.both(&line.replace("TEE", &tee_with), few).fired().same();
        }
    }
    let refused = "splice,tee:error=ENOSYS";
    for file in ["large", "c"] {
        let tee_with = faulty_on(file, &["read,write:error=EINTR:when=1+3", refused]);
        let ours =
            tee.both(&format!("echo >c; {tee_with} c d <large >o; cksum c d o"), few).fired().ours;
        let theirs = tee.both("tee c d <large >o; cksum c d o", few).theirs;
        assert_eq!((ours.stderr.as_str(), &ours.stdout), ("", &theirs.stdout), "{file}");
    }
}

/// The classic up to 9.1 ends with "Resource temporarily unavailable" here, and loses the rest.
#[test]
fn an_end_that_is_not_ready_is_tried_again() {
    let Some(tee) = gnu() else { return };
    if !may_trace() {
        return;
    }
    for (calls, lines) in [
        ("splice", &LINES[..]),
        ("tee", TO_SEVERAL),
        ("tee,splice", &LINES),
        ("write", &LINES),
        ("tee,splice,write,read", FROM_A_FILE),
    ] {
        let fault = format!("{calls}:error=EAGAIN:when=2+3");
        for line in lines {
            let tee_with = match calls {
                // Nothing is left but to write.
                "write" => faulty(&[&fault, "tee,splice:error=ENOSYS"]),
                // Reads of the file alone: the loader does not take EAGAIN for an answer.
                _ if calls.contains("read") => faulty_on("large", &[&fault]),
                _ => faulty(&[&fault]),
            };
            let sums = "; echo $?; cksum c d e o 2>/dev/null";
            let ours = tee.both(&(line.replace("TEE", &tee_with) + sums), few).fired().ours;
            let wanted = tee.both(&(line.replace("TEE", "tee") + sums), few).theirs;
            assert_eq!((ours.stderr.as_str(), ours.end), ("", wanted.end), "{calls} {line}");
            assert_eq!(ours.stdout, wanted.stdout, "{calls} {line}");
        }
    }
}

#[test]
fn calls_that_move_less_than_asked_lose_nothing() {
    let Some(tee) = gnu() else { return };
    if !may_trace() {
        return;
    }
    // A call that is answered by strace moves nothing; one that says 0 is what can be made.
    for fault in ["tee:retval=0", "tee:retval=0:when=3+4"] {
        let tee_with = faulty(&[fault]);
        for line in TO_SEVERAL {
            tee.both(&line.replace("TEE", &tee_with), few).fired().same();
        }
    }
}

#[test]
fn a_read_that_fails_is_told_of_after_all_that_came_before() {
    let Some(tee) = gnu() else { return };
    if !may_trace() {
        return;
    }
    for error in ["EIO", "ESTALE"] {
        for when in ["", ":when=3+"] {
            let fault = format!("read,splice:error={error}{when}");
            let tee_with = faulty_on("large", &[&fault]);
            let both = tee.both(&format!("{tee_with} c <large >o; echo $?; cmp c o"), few);
            both.same_words();
            assert_eq!(both.ours.stdout, both.theirs.stdout, "{error}{when}");
            assert!(both.ours.stderr.starts_with("tee: read error: "), "{error}{when}");
            let given = both.ours.file("o");
            let at = differ_at(given, &large()).expect("it stops before the end");
            assert_eq!(at, given.len(), "every byte up to there is the file's");
        }
    }
}

#[test]
fn a_write_that_fails_is_told_of_as_that_outputs_and_the_others_go_on() {
    let Some(tee) = gnu() else { return };
    if !may_trace() {
        return;
    }
    for error in ["ENOSPC", "EDQUOT", "EIO", "EFBIG"] {
        for mode in ["", "-p", "--output-error=warn", "--output-error=exit"] {
            for (file, line) in [
                ("c", "cat large | TEE c d | cat >o"),
                ("d", "cat large | TEE c d | cat >o"),
                ("c", "TEE c d <large >o"),
                ("o", "TEE c d <large >o"),
            ] {
                let fault = format!("write,splice,tee:error={error}:when=2+");
                let tee_with = format!("{} {mode}", faulty_on(file, &[&fault]));
                let line = line.replace("TEE", &tee_with);
                let both = tee.both(&format!("echo >c; echo >d; echo >o; {line}; echo $?"), few);
                both.same_words();
                for name in ["c", "d", "o"] {
                    let (ours, large) = (both.ours.file(name), large());
                    match differ_at(ours, &large) {
                        None => {}
                        Some(at) => {
                            assert_eq!(at, ours.len(), "{name}, {line}");
                            assert!(name == file || mode.contains("exit"), "{name}, {line}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn an_output_that_fails_when_it_is_closed_is_told_of() {
    let Some(tee) = gnu() else { return };
    if !may_trace() {
        return;
    }
    let tee_with = faulty_on("c", &["close:error=EDQUOT"]);
    tee.both(&format!("echo >c; {tee_with} c d <a; echo $?"), few).fired().same();
    let tee_with = faulty_on("o", &["close:error=EDQUOT"]);
    tee.both(&format!("echo >o; {tee_with} c d <a >o; echo $?"), few).fired().same();
}
