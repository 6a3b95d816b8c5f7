//! A sink that drops what comes: it takes everything, counts right, and tells what fails.

use crate::calls::may_trace;
use crate::program::{bytepath, run, shell};

#[test]
fn everything_that_comes_is_taken_and_counted() {
    let cases = [
        ("head -c 3000001 /dev/zero | $bytepath null --count", "3000001\n"),
        ("head -c 3000001 /dev/zero | $bytepath null --count --touch", "3000001\n"),
        ("head -c 3000001 /dev/zero | $bytepath null --count --no-enlarge -", "3000001\n"),
        ("$bytepath null --count </dev/null", "0\n"),
        ("head -c 5 /dev/zero | $bytepath null", ""),
        ("head -c 5 /dev/zero | $bytepath null --count - /dev/null -", "5\n"),
        ("f=$(mktemp); printf 1234567 >$f; $bytepath null --count $f $f <$f; rm $f", "14\n"),
        ("f=$(mktemp); printf 1234567 >$f; $bytepath null --count --touch <$f; rm $f", "7\n"),
    ];
    for (line, wanted) in cases {
        assert_eq!(shell(line).well().stdout, wanted, "{line}");
    }
}

#[test]
fn an_input_that_fails_is_told_of_and_the_next_is_gone_on_with() {
    let done = shell("printf 1234 | $bytepath null --count /nowhere / -");
    let done = done.refused(1, &["/nowhere: ", "No such file", "directory", "2 of 3 inputs"]);
    assert_eq!(done.stdout, "4\n");
    let done = run(bytepath(&["null", "a\nb", "/"]).current_dir("/").env("LC_ALL", "C"));
    done.refused(1, &["cannot open 'a'$'\\n''b': No such file", "\nbytepath: / is a directory"]);
    shell("$bytepath null <&-").refused(1, &["standard input is closed"]);
    shell("$bytepath null --count </dev/null >/dev/full").refused(1, &["No space left"]);
    run(&mut bytepath(&["null", "--sum"])).refused(2, &["--sum"]);
}

#[test]
fn a_pipe_is_dropped_unread_unless_its_bytes_are_to_be_looked_at() {
    if !may_trace() {
        return;
    }
    let strace = "strace -qqq -e signal=none -e trace=splice,read";
    let calls = |options: &str, fault: &str| {
        let line = format!("printf 123456 | {strace} {fault} $bytepath null --count {options}");
        let done = shell(&line);
        assert_eq!(done.stdout, "6\n", "{done:?}");
        let on_input = |line: &&str| line.starts_with("splice(0,") || line.starts_with("read(0,");
        done.stderr.lines().filter(on_input).map(|line| line[..5].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(calls("", ""), ["splic", "splic"]);
    assert_eq!(calls("--touch", ""), ["read(", "read("]);
    // What splice refuses at any point is read.
    assert_eq!(calls("", " -e inject=splice:error=EINVAL")[..2], ["splic", "read("]);
}

#[test]
fn the_way_that_was_taken_is_explained() {
    let cases = [
        ("printf 1234 | $bytepath null --explain-plan", "by splice-null", "2. read: "),
        ("printf 1234 | $bytepath null --explain-plan --touch", "by read-touch", "not splice-null"),
        ("$bytepath null --explain-plan </dev/null", "by read", "not splice-null"),
    ];
    for (line, taken, other) in cases {
        let done = shell(line);
        assert!(done.status.success(), "{done:?}");
        assert!(done.stderr.contains("plan: ") && done.stderr.contains(taken), "{done:?}");
        assert!(!done.stderr.contains("inlet read"), "{done:?}");
        assert!(done.stderr.contains("came: ") && done.stderr.contains(other), "{done:?}");
    }
}
