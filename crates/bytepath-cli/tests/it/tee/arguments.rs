//! Options as getopt_long takes them, modes by their beginnings, and names as messages show them.

use super::{few, gnu};

#[test]
fn options_are_taken_and_refused_as_by_the_classic() {
    let Some(tee) = gnu() else { return };
    let lines = [
        "tee -x",
        "tee -ax c",
        "tee -h",
        "tee --foo=3 c",
        "tee --append=3 c",
        "tee --=3",
        "tee --a c; tee --app c; tee --ig c; tee --out c; tee --output-error c",
        "tee --help=3",
        "tee --bad --help",
        "tee -aaip c <a; tee c -a <b",
        "tee c -a -- -a --append <a",
        "tee - -- - <a",
        "tee",
        "tee <a",
        "tee '' <a",
        "tee c c <large",
        "tee -p5 c",
        "tee -p warn c <a",
        "tee --output-error warn c <a",
        "POSIXLY_CORRECT=1 tee c -a <a",
        "POSIXLY_CORRECT=1 tee -a a -- b <large",
    ];
    for line in lines {
        tee.both(&format!("{line}; echo $?"), few).same();
    }
}

#[test]
fn modes_are_taken_by_their_beginnings_and_the_last_counts() {
    let Some(tee) = gnu() else { return };
    let modes = ["warn", "war", "warn-", "warn-n", "exit", "exit-nopipe", "e", "", "foo", "warnx"];
    let full = "c /dev/full d <a; echo $?; cat c d";
    for mode in modes {
        tee.both(&format!("tee --output-error={mode} {full}"), few).same();
    }
    let several = [
        "--output-error=exit -p",
        "-p --output-error=exit",
        "--output-error=exit --output-error",
        "--output-error=bad --output-error=warn",
        "--output-error=warn --output-error=bad",
        "--output-error=ex --version",
        "--output-error=bad -x",
        "--output-error=bad --help",
        "-x --output-error=bad",
    ];
    for options in several {
        tee.both(&format!("tee {options} {full}"), few).same();
    }
}

#[test]
fn names_in_messages_are_quoted_as_by_the_classic() {
    let Some(tee) = gnu() else { return };
    let names = ["no dir/a", "it's/a", "a\\b/c", "nö/a", "x\ny/a", "$x/a", "a:b/c", "plain/a"];
    for name in names {
        let quoted = format!("'{}'", name.replace('\'', "'\\''"));
        tee.both(&format!("tee {quoted} c <a; echo $?"), few).same();
        tee.both(&format!("export LC_ALL=C; tee {quoted} c <a; echo $?"), few).same();
    }
    tee.both("../bin/tee no/a; ../bin/tee --bad", few).same();
}

#[test]
fn the_help_and_the_version_are_printed_or_their_failure_told() {
    let Some(tee) = gnu() else { return };
    for line in ["tee --help", "tee --version", "tee c -a --vers", "tee -a --he --bad"] {
        let both = tee.both(line, few);
        both.same_words();
        assert!(both.ours.stdout.len() > 10, "{line}");
    }
    for line in ["tee --help >/dev/full", "tee --version >/dev/full", "tee --help >&-"] {
        tee.both(line, few).same();
    }
}
