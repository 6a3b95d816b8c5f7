//! The engine from the outside: every route, outlet and inlet on real descriptors, in fair weather
//! and in foul.

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
/// runs it in one that has, and sees that it passes.
#[track_caller]
fn is_alone(test: &str) -> bool {
    const ALONE: &str = "BYTEPATH_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let mut child = std::process::Command::new(std::env::current_exe().expect("this program"));
    child.args(["--exact", test, "--nocapture"]).env(ALONE, "1");
    let done = child.output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stdout);
    assert!(done.status.success() && said.contains("1 passed"), "{done:?}");
    false
}
