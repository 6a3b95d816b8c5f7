//! What `pv` draws, from its options to standard error: that the lines reach it, and where.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use tempfile::TempDir;

use crate::program::{BYTEPATH, installed, run, shell};
use crate::pv::{ours, real};
use crate::terminal::on_terminal;

/// A file of a thousand bytes, forty lines of them.
fn file() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("thousand");
    fs::write(&path, "a line of 24 characters.\n".repeat(40)).expect("written");
    (folder, path)
}

#[track_caller]
fn shown(words: &[&str]) -> String {
    let (_folder, path) = file();
    let file = path.to_str().expect("plain letters");
    let done = run(&mut ours(&[words, &[file]].concat()));
    assert!(done.status.success(), "{done:?}");
    assert_eq!(done.stdout.len(), 1_000);
    done.stderr
}

/// The last line, without what was drawn over.
fn last(shown: &str) -> &str {
    shown.trim_end_matches('\n').rsplit('\r').find(|line| !line.is_empty()).unwrap_or_default()
}

#[test]
fn the_last_line_tells_all_of_it() {
    assert_eq!(last(&shown(&["-f", "-b"])), "1000  B");
    assert_eq!(last(&shown(&["-f", "-bk"])), "1.00kB");
    assert_eq!(last(&shown(&["-f", "-8"])), "7.81Kib");
    assert_eq!(last(&shown(&["-f", "-lb"])), "40.0 ");
    assert_eq!(last(&shown(&["-f", "-pw", "20"])), "[============>] 100%");
    assert_eq!(last(&shown(&["-f", "-pw", "20", "-s", "2000"])), "[=====>       ]  50%");
    assert_eq!(last(&shown(&["-f", "-b", "-N", "name"])), "     name: 1000  B");
}

#[test]
fn the_ratio_is_of_what_is_counted_on_both_sides() {
    for counted in [&[][..], &["-l"], &["-0"]] {
        let (_folder, path) = file();
        fs::write(&path, "a line of 19 bytes.\n\0".repeat(50)).expect("written");
        let input = fs::File::open(path).expect("there");
        let words = [&["-f", "-b", "-M", "both"], counted, &["--", "cat"]].concat();
        let done = run(ours(&words).stdin(input));
        assert!(
            done.status.success() && last(&done.stderr).trim_end().ends_with(" 1:1"),
            "{done:?}"
        );
    }
}

#[test]
fn bars_look_as_the_environment_lets_them() {
    let (_folder, path) = file();
    let format = "%{sgr:red}%5{bar-block}%{sgr:reset}";
    let words = ["-f", "-s", "2000", "-F", format, path.to_str().expect("plain letters")];
    let drawn = |variables: &[(&str, &str)]| {
        let mut pv = ours(&words);
        pv.env_remove("LC_CTYPE").env_remove("NO_COLOR").env("TERM", "xterm");
        let done = run(pv.env("LC_ALL", "C.UTF-8").envs(variables.iter().copied()));
        last(&done.stderr).to_owned()
    };
    assert_eq!(drawn(&[]), "\x1b[31m██   \x1b[0m");
    assert_eq!(drawn(&[("NO_COLOR", "1")]), "██   ");
    assert_eq!(drawn(&[("LC_ALL", "C"), ("TERM", "dumb")]), "=>   ");
}

#[test]
fn numbers_need_no_terminal_and_may_be_lines_of_json() {
    assert_eq!(shown(&["-n"]).lines().last(), Some("100"));
    assert_eq!(shown(&["-n", "-b"]).lines().last(), Some("1000"));
    let format = r#"{"elapsed":%t,"bytes":%b,"rate":%r,"percent":%{progress-amount-only}}"#;
    let shown = shown(&["-n", "-F", format]);
    let read = |line: &str| serde_json::from_str::<Value>(line).expect("JSON");
    let last = shown.lines().next_back().map(read).expect("a line");
    assert_eq!((&last["bytes"], &last["percent"]), (&1_000.into(), &100.into()));
    assert!(last["elapsed"].is_f64() && last["rate"].is_f64(), "{last}");
}

#[test]
fn nothing_is_shown_where_that_is_wanted_or_nobody_looks() {
    assert_eq!(shown(&[]), "");
    assert_eq!(shown(&["-f", "-q"]), "");
    assert_eq!(shown(&["-f", "-D", "100"]), "");
    // No first byte ever came.
    assert_eq!(run(&mut ours(&["-f", "-W"])).well().stdout, "");
}

#[test]
fn a_clock_that_waits_for_a_first_byte_counts_the_time_that_the_bytes_took() {
    let done = shell("printf bytes | $bytepath pv -f -W -a");
    // It takes more than 5 microseconds to pass them on.
    let shown = last(&done.stderr);
    assert!(shown.contains("B/s)") && !shown.contains("MiB/s"), "{shown:?}");
}

#[test]
fn the_summary_comes_after_all_else() {
    let shown = shown(&["-f", "-b", "-v"]);
    let summary = shown.lines().last().expect("a summary");
    let told = summary == "rate not measured" || summary.starts_with("rate min/avg/max/mdev = ");
    assert!(told && !summary.contains('\r'), "{shown:?}");
}

#[test]
fn a_quiet_summary_is_all_that_is_told() {
    for words in [["-q", "-v", "-f"], ["-q", "-v", "-n"]] {
        assert_eq!(shown(&words).lines().count(), 1, "{words:?}");
    }
}

#[test]
fn the_title_of_the_window_is_told_to_a_terminal() {
    let (_folder, path) = file();
    let path = path.to_str().expect("plain letters");
    let words = ["pv", "-b", "-x", "window:%b of %N", "-N", "it", path];
    let (program, screen) = on_terminal(&words, Stdio::null());
    assert!(program.done().status.success());
    let drawn = screen.whole();
    assert!(drawn.contains("\x1b]2;1000  B of        it:"), "{drawn:?}");
}

#[test]
fn numbers_that_are_none_are_refused_as_the_real_pv_refuses_them() {
    let cases = [["-i", "abc"], ["-i", "-1"], ["-w", "abc"], ["-H", "1.5"], ["-A", "x"]];
    for words in cases {
        let ours = run(&mut ours(&words)).refused(64, &["argument expected"]);
        if installed("pv") {
            let real = run(&mut real(&words)).refused(64, &["argument expected"]);
            // Older ones do not repeat what they were given.
            let theirs = real.stderr.lines().next().unwrap_or_default();
            let given = format!("{}: ", words[1]);
            let message = ours.stderr.lines().next().unwrap_or_default();
            assert_eq!(message.replacen(&given, "", 1), theirs.replacen(&given, "", 1));
        }
    }
    let wide = run(&mut ours(&["-f", "-F", "%99999999p"]));
    wide.refused(64, &["pv: -F: %99999999: more than"]);
}

#[test]
fn a_line_is_drawn_while_bytes_are_still_to_come() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display();
    // The writer goes on only when the line was seen, so that it was drawn while pv waited.
    let done = shell(&format!(
        "cd '{path}' && mkfifo bytes lines
        \"$bytepath\" pv -f -b -i 0.1 <bytes >out 2>lines &
        exec 3>bytes 4<lines
        printf 0123456789 >&3
        head -c 8 <&4
        echo more >&3
        exec 3>&-
        cat <&4 >rest
        wait $!"
    ));
    assert_eq!(done.well().stdout.trim(), "10.0  B");
    assert_eq!(fs::read(folder.path().join("out")).expect("there"), b"0123456789more\n");
    let rest = fs::read_to_string(folder.path().join("rest")).expect("there");
    assert_eq!(last(&rest), "15.0  B");
}

#[test]
fn what_cannot_be_read_leaves_the_others_a_size() {
    let (folder, path) = file();
    let missing = folder.path().join("missing");
    for unread in [missing.as_path(), folder.path(), "-".as_ref()] {
        let words = ["-n".as_ref(), unread.as_os_str(), path.as_os_str()];
        let line = "exec \"$@\" <&-";
        let mut shell = std::process::Command::new("sh");
        let done = run(shell.args(["-c", line, "sh", BYTEPATH, "pv"]).args(words));
        assert!(!done.status.success() && done.stdout.len() == 1_000, "{done:?}");
        assert_eq!(done.stderr.lines().last(), Some("100"), "{unread:?}");
    }
}

#[test]
fn a_buffer_is_shown_empty_before_anything_came() {
    let done = run(ours(&["-f", "-T"]).stdin(Stdio::null()));
    assert_eq!((last(&done.stderr), done.status.code()), ("{  0%}", Some(0)));
}

#[test]
fn what_is_on_the_device_is_told_where_that_is_asked_for() {
    assert_eq!(last(&shown(&["-f", "--durable", "-F", "%{durable} safe"])), "1000  B safe");
    assert_eq!(last(&shown(&["-f", "-F", "%{durable} safe"])), "- safe");
    let words = ["-f", "--durable", "-F", "%{durable} safe"];
    let stored = shown(&[&words[..], &["-U", "-"]].concat());
    assert_eq!(stored.lines().map(last).collect::<Vec<_>>(), ["1000  B safe"; 2]);
    let of_command = shown(&[&words[..], &["-M", "out", "--", "cat"]].concat());
    assert_eq!(last(&of_command), "1000  B safe");
}

#[test]
fn names_and_formats_are_any_bytes() {
    let (_folder, path) = file();
    let strange = OsStr::from_bytes(b"caf\xe9");
    for option in ["-N", "-F"] {
        let words = ["-f".as_ref(), "-b".as_ref(), option.as_ref(), strange, path.as_os_str()];
        let done = run(ours(&words).env("LC_ALL", "C.UTF-8"));
        assert!(done.status.success() && last(&done.stderr).contains("caf\u{fffd}"), "{done:?}");
    }
}
