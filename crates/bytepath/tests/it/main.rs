//! The engine from the outside: every route, outlet and inlet on real descriptors, in fair weather
//! and in foul.

use std::process::Command;

mod channel;
mod conformance;
mod ends;
mod engines;
mod examples;
mod fan_out;
mod faults;
mod hugetlb;
mod inlets;
mod machine;
mod outlets;
mod pool;
mod random;
mod rings;
mod small_files;
mod storm;
mod stuck;
mod sys;
mod trial;
mod uncached;
mod watch;
mod zero_copy;

/// Whether this process has this test to itself, which then may change what is the whole process's; else
/// runs it in one that has, sees that it passes, and tells what that one says it skipped.
#[track_caller]
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "BYTEPATH_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let done = this_test(test).arg("--nocapture").env(ALONE, "1").output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{done:?}");
    for line in said.lines().chain(String::from_utf8_lossy(&done.stderr).lines()) {
        // The first thing that a test prints stands behind its name.
        if let Some((_, why)) = line.split_once("skipped: ") {
            println!("skipped: {why}");
        }
    }
    false
}

/// This program, which runs this test and no other.
fn this_test(test: &str) -> Command {
    let mut child = Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", test]);
    child
}

#[test]
fn what_is_skipped_alone_is_skipped() {
    const SKIPPED: &str = "what_is_skipped_alone_is_skipped";
    const SKIPS: &str = "BYTEPATH_TEST_SKIPS";
    if std::env::var_os(SKIPS).is_some() {
        if is_alone(SKIPPED) {
            println!("skipped: on standard output");
            eprintln!("skipped: on standard error");
        }
        return;
    }
    let done = this_test(SKIPPED).arg("--show-output").env(SKIPS, "1").output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stdout);
    for line in ["skipped: on standard output", "skipped: on standard error"] {
        assert!(said.lines().any(|told| told == line), "{done:?}");
    }
}
