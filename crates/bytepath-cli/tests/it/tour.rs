//! `bytepath tour`: its three parts, and what it can do nothing with.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{BYTEPATH, Done, bytepath, installed, may_mount, root_as_nobody, run, shell};

/// On one CPU a tour has half the arms; two tours at once are better on two.
fn on_one_cpu(turn: usize) -> String {
    let cpus: Vec<_> = bytepath::machine::Machine::this().allowed_cpus().iter().collect();
    let cpu = cpus[turn % cpus.len()];
    if installed("taskset") { format!("taskset -c {cpu} ") } else { String::new() }
}

#[track_caller]
fn is_whole(done: Done) -> String {
    let said = done.well().stdout;
    let parts = [
        "THIS MACHINE",
        "THE PIPE LADDER",
        "TUNED",
        "A REAL FILE THROUGH A PIPE",
        "Checked:",
        "NEXT",
    ];
    let places: Vec<_> = parts.iter().map(|part| said.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}: {said}");
    for word in
        ["kernel", "placements", "wide-tee-splice@same-cpu", "cat *", "splice-1M-pipe", "planner"]
    {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(!said.contains("n/a"), "every arm runs here: {said}");
    let next = said.lines().filter_map(|line| line.strip_prefix("  bytepath bench pipes"));
    // The explanation stands apart.
    let next: Vec<_> = next.filter_map(|words| words.split("   ").next()).collect();
    assert_eq!(next.len(), 2, "{said}");
    let listed = shell(&format!("$bytepath bench pipes --list {}", next[1])).well().stdout;
    for arm in ["write-read@same-cpu", "write-cat-read@same-cpu", "write-pv-read@same-cpu"] {
        assert!(listed.contains(arm), "{listed}");
    }
    said
}

#[test]
fn a_tour_shows_the_machine_the_ladder_and_a_file_and_leaves_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = format!("{}$bytepath tour --size 8M", on_one_cpu(0));
    let said = is_whole(shell(&format!("TMPDIR={} {line}", folder.path().display())));
    assert!(said.contains("a file of 8 MiB") && said.contains("8 MiB once more byte by byte"));
    assert_eq!(files_in(folder.path()), 0, "the file is gone");
}

#[test]
fn a_tour_takes_a_file_of_ones_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("with a space, 3000001 bytes");
    let bytes: Vec<u8> = (0..3_000_001_u32).map(|index| (index % 251) as u8).collect();
    std::fs::write(&file, &bytes).expect("a file");
    let line = format!("{}$bytepath tour '{}'", on_one_cpu(1), file.display());
    let said = is_whole(shell(&line));
    assert!(said.contains("read once into the page cache"), "{said}");
    assert!(std::fs::read(&file).is_ok_and(|now| now == bytes), "the file is as it was");
}

#[test]
fn a_file_that_grows_meanwhile_is_said_to_have_changed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("grows");
    std::fs::write(&file, vec![b'x'; 1 << 20]).expect("a file");
    let ended = AtomicBool::new(false);
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut grows = std::fs::File::options().append(true).open(&file).expect("it is ours");
            while !ended.load(Ordering::Relaxed) {
                grows.write_all(b"x").expect("it grows");
                std::thread::yield_now();
            }
        });
        let tour = format!("{}$bytepath tour '{}'", on_one_cpu(0), file.display());
        let done = std::panic::catch_unwind(|| shell(&tour));
        ended.store(true, Ordering::Relaxed);
        done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    });
    let words = ["the file changed meanwhile", "so the comparison is void", "nothing writes to"];
    done.refused(1, &words);
}

#[test]
fn what_cannot_be_toured_is_refused_before_anything_is_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let empty = folder.path().join("empty");
    std::fs::write(&empty, "").expect("a file");
    let missing = folder.path().join("missing");
    let remedy = "name another, or none to have one made";
    for (file, reason) in [
        (empty.as_path(), "is empty"),
        (folder.path(), "is no regular file"),
        (Path::new("/dev/null"), "is no regular file"),
        (Path::new("/proc/version"), "has bytes and a size of 0"),
        (missing.as_path(), "No such file or directory"),
    ] {
        let done = run(bytepath(&["tour"]).arg(file)).refused(1, &[reason, remedy]);
        assert_eq!(done.stdout, "");
    }
    let done = run(bytepath(&["tour"]).env("TMPDIR", &missing));
    assert_eq!(done.refused(1, &["cannot make a file in", "set TMPDIR"]).stdout, "");
    run(&mut bytepath(&["tour", "--size", "0"])).refused(2, &["--size"]);
}

#[test]
fn a_tour_that_is_interrupted_as_it_tunes_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = format!("{}{BYTEPATH} tour", on_one_cpu(0));
    let words: Vec<&str> = words.split(' ').collect();
    let mut tour = Command::new(words[0]);
    tour.args(&words[1..]).env("XDG_STATE_HOME", folder.path()).env("TMPDIR", folder.path());
    tour.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut tour = tour.spawn().expect("it starts");
    let mut lines = BufReader::new(tour.stdout.take().expect("piped")).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line.contains("TUNED"))));
    // Before something is measured, a signal ends it as it does anywhere.
    let children = format!("/proc/{0}/task/{0}/children", tour.id());
    let reads = |pid: &str| {
        let words = std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
        words.is_ok_and(|words| words.split('\0').nth(1) == Some("read"))
    };
    while !std::fs::read_to_string(&children).is_ok_and(|all| all.split(' ').any(reads)) {
        assert!(tour.try_wait().is_ok_and(|ended| ended.is_none()), "it has ended");
        std::thread::yield_now();
    }
    kill_process(Pid::from_child(&tour), Signal::INT).expect("it runs");
    let more: Vec<String> = lines.map(|line| line.expect("text")).collect();
    let done = tour.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&done.stderr);
    assert_eq!(done.status.signal(), Some(Signal::INT.as_raw()), "{said}");
    assert!(said.contains("interrupted"), "{said}");
    let is_further = |line: &&String| line.contains("Plans go by") || line.contains("A REAL FILE");
    assert_eq!(more.iter().find(is_further), None);
}

#[test]
fn a_fifo_is_refused_rather_than_waited_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let fifo = folder.path().join("fifo");
    shell(&format!("mkfifo '{}'", fifo.display())).well();
    run(bytepath(&["tour"]).arg(&fifo)).refused(1, &["is no regular file"]);
}

#[test]
fn a_file_that_may_not_be_read_is_refused() {
    let Some(nobody) = root_as_nobody() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let line =
        format!("umask 077; echo x >{0}/x; {nobody}$bytepath tour {0}/x", folder.path().display());
    shell(&line).refused(1, &["cannot open", "Permission denied"]);
}

#[test]
fn a_full_folder_is_refused_with_what_is_left() {
    if !may_mount() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let name = folder.path().display();
    let line = format!(
        "unshare -m sh -ec 'mount -t tmpfs -o size=1M none {name}; TMPDIR={name} exec $bytepath tour'"
    );
    let done = shell(&line);
    let words = ["has 1 MiB left, and 256 MiB are to stay free", "name a file", "TMPDIR"];
    assert_eq!(done.refused(1, &words).stdout, "");
}

fn files_in(folder: &Path) -> usize {
    std::fs::read_dir(folder).expect("the folder").count()
}
