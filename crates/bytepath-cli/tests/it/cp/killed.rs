//! `cp` killed after any number of bytes: under --atomic no name ever stands for half a file, and a
//! last run with --resume makes the copy whole.

use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use rustix::process::{Signal, kill_process_group};

use super::look::look;
use super::{date, directory, file, mode};
use crate::program::{bytepath, run, spawned};

/// Killed runs, in all.
const KILLED: u64 = 200;

/// Large files of a tree, and what each takes.
const LARGE: usize = 3;
const LARGE_BYTES: usize = 2 << 20;

/// A tree of large and small files, names of one file, links, holes and a file that nobody may
/// write, all with bytes of this seed.
pub(super) fn tree(root: &Path, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    directory(&root.join("d/deep"));
    for number in 0..LARGE {
        let mut bytes = vec![0; LARGE_BYTES + random.usize(..4096)];
        random.fill(&mut bytes);
        file(&root.join(format!("large-{number}")), &bytes, seed + 1);
    }
    for number in 0..12 {
        let bytes: Vec<u8> =
            std::iter::repeat_with(|| random.u8(1..)).take(1 + number * 3001).collect();
        file(&root.join(format!("d/{number}")), &bytes, seed + number as u64);
    }
    let holes = std::fs::File::create(root.join("d/deep/holes")).expect("a file");
    holes.set_len(3 << 20).expect("a size");
    std::os::unix::fs::FileExt::write_at(&holes, b"data", 1 << 20).expect("written");
    date(&root.join("d/deep/holes"), seed);
    std::fs::hard_link(root.join("d/7"), root.join("d/deep/seven")).expect("a link");
    symlink("../large-0", root.join("d/link")).expect("a link");
    mode(&root.join("d/9"), 0o444);
    for (age, path) in ["d/deep", "d", ""].iter().enumerate() {
        date(&root.join(path), seed + 50 + age as u64);
    }
}

/// The bytes of every file.
fn files(root: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let all = look(root).into_iter();
    all.filter(|(path, _)| !path.ends_with("(status)")).collect()
}

/// Whether this system tells how many bytes a process has read and written.
fn tells_bytes() -> bool {
    let tells = std::fs::read_to_string("/proc/self/io").is_ok_and(|text| text.contains("wchar"));
    if !tells {
        println!("skipped: the kernel counts no bytes for processes (CONFIG_TASK_IO_ACCOUNTING)");
    }
    tells
}

/// Runs `cp` with these words until it has read and written so many bytes, and kills it; whether it was
/// still there.
fn killed(words: &[&str], bytes: u64) -> bool {
    let mut command = bytepath(&[&["cp"], words].concat());
    let mut cp = spawned(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let told = format!("/proc/{}/io", cp.child().id());
    let moved = || {
        let text = std::fs::read_to_string(&told).unwrap_or_default();
        let count = |name| {
            let count = text.lines().find_map(|line| line.strip_prefix(name));
            count.and_then(|count| count.parse::<u64>().ok())
        };
        Some(count("rchar: ")? + count("wchar: ")?)
    };
    while moved().is_some_and(|moved| moved < bytes) && matches!(cp.child().try_wait(), Ok(None)) {
        std::hint::spin_loop();
    }
    let _ = kill_process_group(cp.group, Signal::KILL);
    let done = cp.done();
    assert_eq!(done.stderr, "", "{words:?}");
    !done.status.success()
}

fn words<'a>(options: &[&'a str], ends: &[&'a Path; 2]) -> Vec<&'a str> {
    let ends = ends.iter().map(|path| path.to_str().expect("a plain name"));
    options.iter().copied().chain(["-a", "-T"]).chain(ends).collect()
}

/// Runs it to its end, and sees that the trees are the same.
#[track_caller]
fn completed(options: &[&str], source: &Path, sink: &Path) {
    let words = words(options, &[source, sink]);
    run(&mut bytepath(&[&["cp"], &words[..]].concat())).well();
    let (wanted, made) = (look(source), look(sink));
    let different: Vec<_> = wanted.keys().chain(made.keys()).collect();
    let different = different.into_iter().find(|path| wanted.get(*path) != made.get(*path));
    assert_eq!(different, None, "{words:?}");
}

#[test]
fn under_atomic_every_name_is_absent_old_or_whole_whenever_it_is_killed() {
    if !tells_bytes() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name);
    let (sources, sink) = ([path("one"), path("other")], path("copy"));
    for (source, seed) in sources.iter().zip([100, 500]) {
        tree(source, seed);
    }
    let versions = sources.clone().map(|source| files(&source));
    let mut random = fastrand::Rng::with_seed(4);
    let (mut early, mut parts) = (0, 0);
    let mut known = BTreeSet::new();
    for round in 0..KILLED / 2 {
        for number in 0..LARGE {
            // From its other names it is parted by -a.
            let other = path(&format!("other-{number}"));
            let _ = std::fs::remove_file(&other);
            let _ = std::fs::hard_link(sink.join(format!("large-{number}")), other);
        }
        let source = &sources[random.usize(..2)];
        let route = random.choice([&["--route", "read-write"][..], &[]]).expect("some");
        let resume = if round % 3 == 0 { &["--resume"][..] } else { &[] };
        let options = [&["--atomic"], route, resume].concat();
        early += u64::from(killed(&words(&options, &[source, &sink]), random.u64(1..14 << 20)));
        let there = files(&sink);
        for name in &known {
            assert!(there.contains_key(name), "round {round}: {name:?} was there");
        }
        for (name, bytes) in there {
            let own = name.file_name().expect("a name").to_string_lossy().starts_with('.');
            let whole = versions.iter().any(|files| files.get(&name) == Some(&bytes));
            parts += u64::from(own);
            assert!(own || whole, "round {round}: {name:?} has {} bytes", bytes.len());
            if !own {
                known.insert(name);
            }
        }
    }
    println!("{early} killed before their end, {parts} parts met");
    assert!(early > KILLED / 20, "only {early} were killed before their end");
    completed(&["--atomic", "--resume"], &sources[0], &sink);
    completed(&["--resume"], &sources[1], &sink);
}

#[test]
fn what_was_killed_again_and_again_is_whole_after_a_last_run() {
    if !tells_bytes() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (source, sink) = (folder.path().join("source"), folder.path().join("copy"));
    tree(&source, 100);
    let mut random = fastrand::Rng::with_seed(5);
    let mut early = 0;
    for round in 0..KILLED / 2 {
        let route = random.choice([&["--route", "read-write"][..], &["--route", "uring"], &[]]);
        let options = [&["--resume"][..], route.expect("some")].concat();
        early += u64::from(killed(&words(&options, &[&source, &sink]), random.u64(1..12 << 20)));
        if round % 5 == 4 {
            completed(&["--resume"], &source, &sink);
            std::fs::remove_dir_all(&sink).expect("it is ours");
        }
    }
    println!("{early} killed before their end");
    assert!(early > KILLED / 20, "only {early} were killed before their end");
}
