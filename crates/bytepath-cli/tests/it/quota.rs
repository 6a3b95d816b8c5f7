//! A user whose pipes use up fs.pipe-user-pages-soft gets small ones: a bench says so, and measures
//! none of them in the place of others.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};

use crate::program::{BYTEPATH, Bounded, installed, root, run, spawned};

/// A user of this test's own: the quota is one for all of a user's pipes, and other tests have
/// theirs.
const USER: &str = "65533";

fn as_user(words: &[&str]) -> Command {
    user_runs(&[&[BYTEPATH], words].concat())
}

fn user_runs(words: &[&str]) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid", USER, "--regid", USER, "--clear-groups"]).args(words);
    command.stdin(Stdio::null());
    command
}

const SOFT: &str = "/proc/sys/fs/pipe-user-pages-soft";

/// Pages of a pipe of 1 MiB, and of the two that the outlet tee keeps.
const PIPE_PAGES: usize = (1 << 20) / 4096;
const HOLDER_PAGES: usize = 2 * PIPE_PAGES;

/// More than this would take too much memory.
const HOLDERS_MAX: usize = 64;

/// How many holders use up the quota, to the page.
fn holders_of_all() -> Option<usize> {
    if !root() || !installed("setpriv") {
        println!("skipped: becoming another user needs root");
        return None;
    }
    let soft = std::fs::read_to_string(SOFT).unwrap_or_default();
    let most = std::fs::read_to_string("/proc/sys/fs/pipe-max-size").unwrap_or_default();
    let pages: usize = soft.trim().parse().unwrap_or(0);
    let holders = pages / HOLDER_PAGES;
    let whole = pages.is_multiple_of(HOLDER_PAGES) && rustix::param::page_size() == 4096;
    if !whole || !(2..=HOLDERS_MAX).contains(&holders) || most.trim() != "1048576" {
        println!("skipped: limits on pipes are not the usual ones: {pages} pages, {most} bytes");
        return None;
    }
    Some(holders)
}

/// A process that keeps two pipes of 1 MiB, or of what is left. (Its sink is this test's.)
fn holder() -> Bounded {
    let mut command = as_user(&["write", "--outlet", "tee"]);
    let mut holder = spawned(command.stdout(Stdio::piped()).stderr(Stdio::null()));
    // Its pipes are there when it writes.
    let sink = holder.child().stdout.as_mut().expect("it is piped");
    sink.read_exact(&mut [0]).expect("it writes");
    holder
}

/// The quota is the whole machine's: other runs of this test have to wait.
fn alone() -> File {
    let lock = File::open(SOFT).expect("it was read");
    flock(&lock, FlockOperation::LockExclusive).expect("any file can be locked");
    lock
}

const BENCH: [&str; 9] =
    ["bench", "pipes", "--blocks", "2", "--time", "3ms", "--placement", "free", "--no-store"];

#[test]
fn a_spent_quota_of_pipes_makes_arms_unavailable_with_the_reason_and_the_remedy() {
    let Some(all) = holders_of_all() else { return };
    let _lock = alone();
    let mut holders: Vec<_> = (1..all).map(|_| holder()).collect();
    // The sink and the reservoir still find room, and the relay does not.
    let words = [&BENCH[..], &["--arms", "write-read,tee-splice", "--json", "-"]].concat();
    let record = run(&mut as_user(&words)).well().json();
    let arms = record["arms"].as_array().expect("a record has arms");
    assert_eq!((&arms[0]["name"], &arms[0]["status"]), (&"write-read@free".into(), &"ok".into()));
    assert_eq!(arms[1]["status"], "unavailable", "{}", arms[1]);
    let why = arms[1]["why"].as_str().expect("a reason");
    for word in ["cannot set the pipe to 1 MiB", "fs.pipe-user-pages-soft", "raise it as root"] {
        assert!(why.contains(word), "{why}");
    }
    holders.push(holder());
    let words = [&BENCH[..], &["--arms", "write-read,tee-splice"]].concat();
    run(&mut as_user(&words)).refused(
        1,
        &[
            "no arm can run here:\n  all 2: a new pipe has ",
            " KiB instead of 64 KiB: your pipes use up fs.pipe-user-pages-soft; close some",
        ],
    );
}

#[test]
fn a_plan_that_is_explained_says_why_a_pipe_stays_small() {
    let Some(all) = holders_of_all() else { return };
    let _lock = alone();
    let _holders: Vec<_> = (0..all).map(|_| holder()).collect();
    let line = "head -c 40000000 /dev/zero | \"$0\" pv -q --explain-plan | wc -c";
    let done = run(&mut user_runs(&["sh", "-c", line, BYTEPATH]));
    assert_eq!(done.stdout.trim(), "40000000");
    for said in ["cannot set the pipe to 1 MiB", "came: 40000000 bytes"] {
        assert!(done.stderr.contains(said), "{}", done.stderr);
    }
}

#[test]
fn pipes_of_ipc_and_of_movers_are_full_ones_or_none() {
    let Some(all) = holders_of_all() else { return };
    let _lock = alone();
    let folder = tempfile::tempdir().expect("a folder");
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), everybody).expect("it is ours");
    let _holders: Vec<_> = (0..all).map(|_| holder()).collect();
    for words in [
        "bench ipc --arms pipe-* --bytes 300K",
        "bench ipc --arms gift-pipe --bytes 300K",
        "bench ipc --latency --size 8 --arms pipe* --time 2ms --warm-up 0s",
        "bench ipc --bandwidth --arms pipe* --time 2ms --warm-up 0s",
        "bench movers --pair pipe:null --peer cat --bytes 300K",
        "bench movers --pair file:pipe --peer cat --bytes 300K",
    ] {
        let words: Vec<_> = words.split(' ').chain(["--blocks", "2", "--no-store"]).collect();
        run(as_user(&words).current_dir(folder.path())).refused(
            1,
            &["no arm can run here", "KiB instead of 64 KiB: your pipes use up fs.pipe-user-pages"],
        );
    }
}
