//! `bytepath bench copy`: copies on every file system that can be had here.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::calls::may_trace;
use crate::program::{arms, bytepath, ended, entries, installed, root, run, shell, spawned, until};

/// Blocks and sizes that take no time; the figures mean nothing.
const SHORT: [&str; 8] = ["--blocks", "2", "--size", "3M", "--files", "130", "--json", "-"];

/// Where a run makes its files, and keeps its notes.
struct Yard {
    dir: TempDir,
    state: TempDir,
}

impl Yard {
    fn new() -> Yard {
        let folder = || tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        Yard { dir: folder(), state: folder() }
    }

    fn command(&self, words: &[&str]) -> Command {
        let dir = self.dir.path().to_str().expect("a plain name");
        let mut command = bytepath(&[&["bench", "copy", "--dir", dir], words].concat());
        command.env("XDG_STATE_HOME", self.state.path());
        command
    }

    #[track_caller]
    fn record(&self, words: &[&str]) -> Value {
        run(&mut self.command(&[words, &SHORT].concat())).well().json()
    }

    /// A run for each: one of all would last longer than one may where others have the CPUs.
    #[track_caller]
    fn records_on_each_ground(&self, words: &[&str]) -> Vec<Value> {
        grounds().iter().map(|on| self.record(&[words, &["--on", on]].concat())).collect()
    }

    fn notes(&self) -> PathBuf {
        self.state.path().join("bytepath/left")
    }

    /// Neither files nor notes are left, nor loop devices.
    #[track_caller]
    fn is_clean(&self) {
        for folder in [self.dir.path(), &self.notes()] {
            assert_eq!(entries(folder), Vec::<PathBuf>::new());
        }
        assert_eq!(loop_devices(self.dir.path()), Vec::<String>::new());
    }
}

/// The files below a folder that are behind loop devices.
fn loop_devices(folder: &Path) -> Vec<String> {
    let words = ["--list", "--noheadings", "--output", "BACK-FILE"];
    let listed = Command::new("losetup").args(words).output();
    let text = listed.map(|done| String::from_utf8_lossy(&done.stdout).into_owned());
    let folder = folder.to_str().expect("a plain name");
    let lines = text.unwrap_or_default();
    lines.lines().filter(|line| line.starts_with(folder)).map(str::to_owned).collect()
}

fn name(arm: &Value) -> &str {
    arm["name"].as_str().expect("a name")
}

fn why(arm: &Value) -> &str {
    arm["why"].as_str().unwrap_or_default()
}

/// The file systems on which everything has to run here, asked for once: others may load one meanwhile.
fn grounds() -> &'static [&'static str] {
    static GROUNDS: OnceLock<Vec<&str>> = OnceLock::new();
    GROUNDS.get_or_init(found_grounds)
}

fn found_grounds() -> Vec<&'static str> {
    let mut grounds = vec!["dir", "tmpfs"];
    if !root() {
        println!("skipped: images of file systems take root");
        return grounds;
    }
    for kind in ["ext4", "xfs", "btrfs"] {
        // The kernel names those that are built in, or loaded.
        let _ = Command::new("modprobe").args(["-q", kind]).status();
        let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        if !known.lines().any(|line| line.trim() == kind) {
            println!("skipped: this kernel has no {kind}");
        } else if installed(&format!("mkfs.{kind}")) {
            grounds.push(kind);
        }
    }
    grounds
}

#[test]
fn files_and_trees_are_copied_on_every_file_system_and_nothing_is_left() {
    let yard = Yard::new();
    let words = ["--cache", "hot,cold", "--fsync", "--arms", "cp,bytepath-cp"];
    let records = yard.records_on_each_ground(&words);
    let all = || records.iter().flat_map(arms);
    let expected = grounds().len() * 3 * 2 * 2 * 2;
    assert_eq!(all().count(), expected, "works, caches, fsync, programs");
    for arm in all() {
        // Files in memory have no device to be read from.
        let memory = arm["params"]["file_system"] == "tmpfs" && arm["params"]["cache"] == "cold";
        assert_eq!(arm["status"] == "ok", !memory, "{}: {}", name(arm), why(arm));
        assert_eq!(why(arm).contains("never cold"), memory, "{}", name(arm));
        let first = name(arm).ends_with("/cp") && !memory;
        assert_eq!(arm["reference"], first, "{}", name(arm));
    }
    yard.is_clean();
}

#[test]
fn every_route_between_files_copies_one_alone() {
    let yard = Yard::new();
    let record = yard.record(&["--on", "dir", "--work", "one"]);
    let routes: Vec<_> = arms(&record).iter().map(|arm| name(arm).rsplit('/').next()).collect();
    for route in ["copy-file-range", "splice", "sendfile", "read-write", "reflink", "mmap-write"] {
        assert!(routes.contains(&Some(route)), "{route} is not among {routes:?}");
    }
    assert!(!routes.contains(&Some("fadvise")), "it was not asked for");
    for arm in arms(&record) {
        // A route that cannot work here says so itself, and is not taken for another.
        let ok = arm["status"] == "ok";
        assert_eq!(!ok, !why(arm).is_empty(), "{}: {}", name(arm), why(arm));
        assert!(!why(arm).contains("planner"), "{}: {}", name(arm), why(arm));
        let helps = why(arm).contains("btrfs");
        assert!(ok || helps || !name(arm).ends_with("reflink"), "{}", why(arm));
        assert!(ok || !["read-write", "cp"].iter().any(|sure| name(arm).ends_with(sure)));
    }
    yard.is_clean();
}

#[test]
fn uncached_copies_leave_the_page_cache_and_all_tell_what_is_there() {
    let yard = Yard::new();
    let arms_wanted = "cp,bytepath-cp,bytepath-cp-uncached,dontcache,fadvise";
    let words = ["--cache", "hot,cold", "--uncached", "--arms", arms_wanted];
    let records = yard.records_on_each_ground(&words);
    let all = || records.iter().flat_map(arms);
    for arm in all() {
        let (param, name) = (|param: &str| &arm["params"][param], name(arm));
        let uncached =
            ["-uncached", "/dontcache", "/fadvise"].iter().any(|end| name.ends_with(end));
        if arm["status"] != "ok" {
            let flag = name.ends_with("/dontcache") && why(arm).contains("RWF_DONTCACHE");
            let memory = param("file_system") == "tmpfs";
            assert!(flag || memory, "{name}: {}", why(arm));
            continue;
        }
        let share = |of: &str| param(of).as_f64().expect("a share");
        let (source, copy) = (share("source_resident"), share("copy_resident"));
        // A clone reads nothing.
        let cloned = name.ends_with("cp") || name.ends_with("-uncached");
        let cloned = cloned && ["xfs", "btrfs"].iter().any(|on| name.starts_with(on));
        match (uncached, param("cache") == "hot") {
            (true, true) => assert!(copy == 0.0 && source > 0.0, "{name}: {source} {copy}"),
            (true, false) => assert_eq!((source, copy), (0.0, 0.0), "{name}"),
            (false, _) => assert!(cloned || copy > 0.0 && source > 0.0, "{name}: {source} {copy}"),
        }
    }
    let ran = |of: &str| all().any(|arm| name(arm).ends_with(of) && arm["status"] == "ok");
    assert!(ran("/fadvise") && ran("-uncached"), "{records:?}");
    yard.is_clean();
}

#[test]
fn copies_with_holes_say_how_much_they_hold() {
    let yard = Yard::new();
    let record = yard.record(&["--on", "tmpfs", "--work", "sparse", "--peer", "cp,cat"]);
    let held = |of: &str| {
        let arm = arms(&record).iter().find(|arm| name(arm).ends_with(of)).expect("it ran");
        arm["params"]["bytes_held"].as_u64().expect("bytes")
    };
    assert!(held("/cp") < 1 << 20, "cp keeps holes: {}", held("/cp"));
    assert_eq!(held("/cat"), 3 << 20, "cat knows of none");
}

#[test]
fn a_copier_that_fails_or_copies_badly_gives_no_figure() {
    let yard = Yard::new();
    let folder = tempfile::tempdir().expect("a folder");
    let script = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&path, mode).expect("ours");
        path.to_str().expect("a plain name").to_owned()
    };
    let short = script("short", "head -c 1000 \"$1\" > \"$2\"");
    // As long as the source, and with its bytes, but elsewhere.
    let swapped = script("swapped", "{ tail -c +4097 \"$1\"; head -c 4096 \"$1\"; } > \"$2\"");
    let with = ["--with", &short, "--with", &swapped, "--with", "false", "--with", "/no/such"];
    let words = ["--on", "dir", "--work", "one", "--arms", "short,swapped,false,such,cp"];
    let record = yard.record(&[&words[..], &with].concat());
    let why = |of: &str| {
        let arm = arms(&record).iter().find(|arm| name(arm).ends_with(of)).expect("it is there");
        assert_eq!(arm["status"], "unavailable", "{}", name(arm));
        why(arm).to_owned()
    };
    assert!(why("/short").contains("the copy has 1000 of"), "{}", why("/short"));
    assert!(why("/swapped").contains("other bytes"), "{}", why("/swapped"));
    assert!(why("/false").contains("it failed"), "{}", why("/false"));
    assert!(why("/such").contains("was not found"), "{}", why("/such"));
    yard.is_clean();
}

#[test]
fn a_tree_that_is_not_copied_whole_gives_no_figure() {
    let yard = Yard::new();
    let folder = tempfile::tempdir().expect("a folder");
    let script = folder.path().join("lossy");
    let text = "#!/bin/sh\ncp -r \"$1\" \"$2\" && rm \"$2/d0000/f000001\"\n";
    std::fs::write(&script, text).expect("written");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&script, mode).expect("ours");
    let with = script.to_str().expect("a plain name");
    let record = yard.record(&["--on", "dir", "--work", "tree", "--with", with]);
    let lossy = arms(&record).iter().find(|arm| name(arm).ends_with("lossy")).expect("it is there");
    assert!(why(lossy).contains("the copy has 2 of 3 files"), "{}", why(lossy));
}

#[test]
fn other_programs_have_the_paths_where_their_words_say() {
    if !installed("rsync") {
        println!("skipped: there is no rsync");
        return;
    }
    let yard = Yard::new();
    let into = ["--with", "rsync -r"];
    let onto = ["--with", "rsync -r {source}/ {sink}"];
    let words = ["--on", "dir,tmpfs", "--work", "tree", "--arms", "*rsync*"];
    let record = yard.record(&[&words[..], &into, &onto].concat());
    for arm in arms(&record) {
        match name(arm) {
            "dir/tree/hot/rsync -r {source}/ {sink}" => assert_eq!(arm["status"], "ok", "{arm}"),
            "dir/tree/hot/rsync -r" => assert!(why(arm).contains("copied into"), "{}", why(arm)),
            on_tmpfs if root() => {
                assert!(why(arm).contains("--on dir"), "{on_tmpfs}: {}", why(arm));
            }
            _ => {}
        }
    }
    assert!(!Path::new("/copy").exists());
    let shown = ["--on", "dir", "--work", "one", "--arms", "cat*", "--with", "cat {source}"];
    let record = yard.record(&shown);
    assert_eq!(arms(&record)[0]["status"], "ok", "{record}");
    yard.is_clean();
}

#[test]
fn peers_copy_where_they_can_and_say_why_where_they_cannot() {
    if !installed("rsync") || !root() {
        return;
    }
    let yard = Yard::new();
    let peers = ["--peer", "cp,rsync,dd,cat", "--arms", "cp,rsync,dd,cat"];
    let record = yard.record(&[&["--on", "dir,tmpfs", "--work", "one"][..], &peers].concat());
    for arm in arms(&record) {
        match name(arm) {
            "tmpfs/one/hot/rsync" => assert!(why(arm).contains("--on dir"), "{}", why(arm)),
            _ => assert_eq!(arm["status"], "ok", "{arm}"),
        }
    }
    assert!(!Path::new("/copy").exists());
}

#[test]
fn peers_that_are_missing_say_how_to_install_them() {
    let yard = Yard::new();
    let mut command = yard
        .command(&[&["--on", "dir", "--work", "one", "--peer", "xcp,rsync"][..], &SHORT].concat());
    let record = run(command.env("PATH", "/no/such")).well().json();
    let why_of = |of: &str| {
        let arm = arms(&record).iter().find(|arm| name(arm).ends_with(of)).expect("it is there");
        why(arm).to_owned()
    };
    assert_eq!(why_of("/xcp"), "xcp is not installed; cargo install xcp");
    assert!(why_of("/rsync").contains("apt-get install rsync"));
}

#[test]
fn without_root_an_image_is_refused_with_the_reason() {
    if !root() || !installed("setpriv") {
        println!("skipped: becoming another user takes root");
        return;
    }
    let mut command = Command::new("setpriv");
    let user = ["--reuid", "65532", "--regid", "65532", "--clear-groups"];
    let folder = tempfile::tempdir().expect("a folder");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), mode).expect("ours");
    let bench =
        ["bench", "copy", "--on", "ext4,tmpfs,dir", "--work", "one", "--arms", "cp", "--no-store"];
    command.args(user).arg(crate::program::BYTEPATH).args(bench).args(SHORT);
    command.arg("--dir").arg(folder.path()).env("XDG_STATE_HOME", folder.path().join("state"));
    let record = run(command.stdin(Stdio::null())).well().json();
    let [ext4, tmpfs, dir] = arms(&record) else { panic!("three arms: {record}") };
    assert_eq!(why(ext4), "making an image of ext4 takes root");
    assert_eq!((&tmpfs["status"], &dir["status"]), (&"ok".into(), &"ok".into()), "{}", why(tmpfs));
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |words: &[&str], code: i32, says: &str| {
        run(&mut bytepath(&[&["bench", "copy"], words].concat())).refused(code, &[says]);
    };
    refused(&["--on", "ntfs"], 2, "there are: dir, tmpfs, ext4, xfs, btrfs");
    refused(&["--work", "play"], 2, "there are: one, sparse, tree");
    refused(&["--cache", "tepid"], 2, "there are: hot, cold");
    refused(&["--peer", "mv"], 2, "there is no peer");
    refused(&["--on", "dir,dir"], 2, "--on has a value twice");
    refused(&["--with", " "], 2, "--with needs the words");
    refused(&["--with", "x {sink}"], 2, "has {sink} without {source}");
    refused(&["--size", "0"], 2, "moves nothing");
    refused(&["--time", "1s"], 2, "unexpected argument '--time'");
    refused(&["--within", "1m", "--blocks", "3"], 2, "cannot be used with");
    refused(&["--arms", "no-such", "--list"], 2, "no arm matches no-such");
    refused(&["--dir", "/no/such"], 1, "/no/such");
}

#[test]
fn arms_are_named_or_refused_without_making_anything() {
    let yard = Yard::new();
    let refused = |words: [&str; 2], says: &[&str]| {
        run(&mut yard.command(&[&words[..], &SHORT].concat())).refused(2, says);
    };
    refused(["--arms", "no-such"], &["no arm matches no-such"]);
    refused(["--with", "cp"], &["dir/one/hot/cp would run twice"]);
    let long = "x".repeat(19_995);
    refused(["--with", &long], &["characters", "command into a script"]);
    let words = ["--list", "--on", "dir,ext4", "--work", "tree", "--cache", "hot,cold"];
    let listed = run(&mut yard.command(&words)).well().stdout;
    let expected = "dir/tree/hot/cp\ndir/tree/hot/bytepath-cp\ndir/tree/cold/cp\n\
                    dir/tree/cold/bytepath-cp\next4/tree/hot/cp\next4/tree/hot/bytepath-cp\n\
                    ext4/tree/cold/cp\next4/tree/cold/bytepath-cp\n";
    assert_eq!(listed, expected);
    assert!(!yard.notes().exists() && entries(yard.dir.path()).is_empty());
}

/// Starts a long run, and sends it a signal once it has come so far.
fn cut_short(yard: &Yard, on: &str, signal: Signal, far: impl Fn(&Path) -> bool) {
    let words = ["--on", on, "--work", "one", "--size", "64M", "--within", "1h", "--peer", "cp"];
    let mut command = yard.command(&words);
    let mut bench = spawned(command.stdout(Stdio::null()).stderr(Stdio::null()));
    until("the run", || entries(yard.dir.path()).iter().any(|folder| far(folder)));
    let pid = Pid::from_child(bench.child());
    kill_process(pid, signal).expect("it runs");
    bench.child().wait().expect("it ends");
}

#[test]
fn a_run_that_is_interrupted_leaves_nothing() {
    let yard = Yard::new();
    cut_short(&yard, "dir", Signal::INT, |folder| folder.join("one-source").exists());
    until("the end of all copies", || entries(yard.dir.path()).is_empty());
    yard.is_clean();
    cut_short(&yard, "dir", Signal::TERM, |folder| folder.join("copy").exists());
    until("the end of all copies", || entries(yard.dir.path()).is_empty());
    yard.is_clean();
}

#[test]
fn a_file_of_holes_is_not_made_to_its_end_once_a_run_is_interrupted() {
    let yard = Yard::new();
    let mut command = yard.command(&["--on", "dir", "--work", "sparse", "--size", "64G"]);
    let mut bench = spawned(command.stdout(Stdio::null()).stderr(Stdio::null()));
    let mut source = None;
    until("the file", || {
        let folders = entries(yard.dir.path());
        source = folders.iter().find_map(|at| std::fs::File::open(at.join("sparse-source")).ok());
        source.is_some()
    });
    let pid = Pid::from_child(bench.child());
    kill_process(pid, Signal::INT).expect("it runs");
    bench.child().wait().expect("it ends");
    let metadata = source.and_then(|file| file.metadata().ok()).expect("it is still open");
    // Of each MiB of the whole file 64 KiB are there.
    let held = std::os::unix::fs::MetadataExt::blocks(&metadata) * 512;
    assert!(held < 4 << 30, "{held}");
    yard.is_clean();
}

#[test]
fn what_a_copier_has_started_ends_with_the_run() {
    for signal in [Signal::TERM, Signal::KILL] {
        let (yard, folder) = (Yard::new(), tempfile::tempdir().expect("a folder"));
        let (copier, left) = (folder.path().join("copier"), folder.path().join("left"));
        let text = format!("#!/bin/sh\nsleep 100 &\necho $! > {}\nwait\n", left.display());
        std::fs::write(&copier, text).expect("written");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&copier, mode).expect("ours");
        let copier = copier.to_str().expect("a plain name");
        let words = ["--on", "dir", "--work", "one", "--size", "3M", "--with", copier];
        let words = [&words[..], &["--arms", "*copier", "--no-store"]].concat();
        let mut command = yard.command(&words);
        let mut bench = spawned(command.stdout(Stdio::null()).stderr(Stdio::null()));
        let number = || std::fs::read_to_string(&left).ok()?.strip_suffix('\n')?.parse().ok();
        until("the number", || number().is_some());
        let process = number().and_then(Pid::from_raw).expect("a process");
        kill_process(Pid::from_child(bench.child()), signal).expect("it runs");
        bench.child().wait().expect("it ends");
        ended(process);
    }
}

#[test]
fn what_a_killed_run_left_goes_when_the_next_one_starts() {
    let yard = Yard::new();
    let stages: [fn(&Path) -> bool; 3] = [
        |_| true,
        |folder| folder.join("one-source").exists(),
        |folder| folder.join("copy").exists(),
    ];
    for stage in stages {
        cut_short(&yard, "dir", Signal::KILL, stage);
        assert_eq!((entries(yard.dir.path()).len(), entries(&yard.notes()).len()), (1, 1));
        let words = [&["--on", "dir", "--work", "one", "--arms", "cp"][..], &SHORT].concat();
        let next = run(&mut yard.command(&words));
        assert!(next.status.success() && next.stderr.contains("which a run that was killed"));
        // A copier that still runs may have made its copy anew.
        until("the end of all copies", || {
            entries(yard.dir.path()).is_empty() || {
                run(&mut yard.command(&words));
                false
            }
        });
        yard.is_clean();
    }
}

#[test]
fn what_a_run_makes_is_noted_on_the_device_before() {
    if !may_trace() {
        return;
    }
    let line = "cd $(mktemp -d) && strace -f -y -qqq -o log -e trace=fdatasync,fsync,mkdir $bytepath \
                bench copy --on dir --work one --arms cp --blocks 2 --size 64K --no-store >/dev/null && \
                grep -B 2 'mkdir(\"[^\"]*/.bytepath-run' log | head -n 3; rm -r \"$PWD\"";
    let done = shell(line).well();
    let calls: Vec<_> = done.stdout.lines().collect();
    let [note, notes, folder] = calls[..] else { panic!("{done:?}") };
    let name = |line: &str| {
        Some(line.split_once("/.bytepath-run-")?.1.split(['"', '>']).next()?.to_owned())
    };
    assert!(note.contains("fdatasync(") && notes.contains("fsync("), "{done:?}");
    assert!(name(folder).is_some() && name(note) == name(folder), "{done:?}");
}

#[test]
fn images_of_a_killed_run_go_with_it() {
    if !grounds().contains(&"ext4") {
        return;
    }
    let yard = Yard::new();
    cut_short(&yard, "ext4", Signal::KILL, |folder| folder.join("image").exists());
    let words = [&["--on", "ext4", "--work", "one", "--arms", "cp"][..], &SHORT].concat();
    assert!(run(&mut yard.command(&words)).status.success());
    until("the end of all loop devices", || loop_devices(yard.dir.path()).is_empty());
    yard.is_clean();
}

#[test]
fn a_note_that_names_something_else_removes_nothing() {
    let yard = Yard::new();
    let treasure = yard.dir.path().join("treasure");
    std::fs::create_dir(&treasure).expect("made");
    std::fs::create_dir_all(yard.notes()).expect("made");
    let note = yard.notes().join(".bytepath-run-1-0");
    std::fs::write(note, treasure.to_str().expect("a plain name")).expect("written");
    yard.record(&["--on", "dir", "--work", "one", "--arms", "cp"]);
    assert_eq!(entries(yard.dir.path()), [treasure]);
    assert_eq!(entries(&yard.notes()), Vec::<PathBuf>::new(), "it names nothing of ours");
}

/// The user `nobody` of most systems.
const NOBODY: u32 = 65_534;

/// Makes a folder of a killed run, and the note that names it.
fn left_there(yard: &Yard, notes: &Path) -> [PathBuf; 2] {
    let [folder, note] = [yard.dir.path(), notes].map(|place| place.join(".bytepath-run-1-0"));
    std::fs::create_dir(&folder).expect("made");
    std::fs::create_dir_all(notes).expect("made");
    std::fs::write(&note, folder.to_str().expect("a plain name")).expect("written");
    [folder, note]
}

#[test]
fn a_note_that_nothing_can_be_done_about_keeps_no_other_from_being_done() {
    let yard = Yard::new();
    let [folder, _] = left_there(&yard, &yard.notes());
    // Of other names than any order of names would put last.
    let name = |name: &str| yard.notes().join(format!(".bytepath-run-{name}"));
    let others = [name("0-directory"), name("0-fifo"), name("0-link")];
    std::fs::create_dir(&others[0]).expect("made");
    rustix::fs::mkfifoat(rustix::fs::CWD, &others[1], 0o600.into()).expect("made");
    std::os::unix::fs::symlink("nowhere", &others[2]).expect("made");
    let words = [&["--on", "dir", "--work", "one", "--arms", "cp"][..], &SHORT].concat();
    let done = run(&mut yard.command(&words));
    assert!(done.status.success(), "{done:?}");
    assert!(!folder.exists(), "{done:?}");
    for other in &others {
        let said = format!("bytepath: {}, which a run that was killed had left", other.display());
        assert!(done.stderr.contains(&said), "{said:?} is not in {done:?}");
    }
    let mut left = entries(&yard.notes());
    left.sort();
    assert_eq!(left, others);
}

#[test]
fn without_a_home_notes_are_kept_where_nobody_else_can_write_them() {
    let yard = Yard::new();
    let user = rustix::process::geteuid().as_raw();
    let notes = yard.state.path().join(format!("bytepath-left-{user}"));
    let homeless = || {
        let words = [&["--on", "dir", "--work", "one", "--arms", "cp"][..], &SHORT].concat();
        let mut command = yard.command(&words);
        command.env_remove("HOME").env_remove("XDG_STATE_HOME");
        run(command.env("TMPDIR", yard.state.path()))
    };
    homeless().well();
    let mode = |mode: u32| {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&notes, mode).expect("ours");
    };
    let made = std::fs::metadata(&notes).expect("it was made");
    assert_eq!(std::os::unix::fs::MetadataExt::mode(&made) & 0o777, 0o700);
    let [folder, note] = left_there(&yard, &notes);
    // Somebody else may have made it, or its notes.
    let refused = |why: &str| {
        let says = ["cannot keep notes in", notes.to_str().expect("a plain name"), why];
        homeless().refused(1, &says).refused(1, &["remove it, or set XDG_STATE_HOME"]);
        assert!(folder.exists() && note.exists());
    };
    mode(0o777);
    refused("everybody may write in it");
    mode(0o700);
    let moved = notes.with_extension("elsewhere");
    std::fs::rename(&notes, &moved).expect("ours");
    std::os::unix::fs::symlink(&moved, &notes).expect("made");
    refused("a link or a file");
    std::fs::remove_file(&notes).expect("ours");
    std::fs::rename(&moved, &notes).expect("ours");
    if root() {
        let given = |to: u32, what: &Path| std::os::unix::fs::chown(what, Some(to), None);
        given(NOBODY, &notes).expect("root may");
        refused("it belongs to another user");
        given(user, &notes).and_then(|()| given(NOBODY, &note)).expect("root may");
        let done = homeless();
        assert!(done.stderr.contains("no note of yours"), "{done:?}");
        assert!(done.status.success() && folder.exists() && note.exists(), "{done:?}");
        given(user, &note).expect("root may");
    } else {
        println!("skipped: giving folders to others takes root");
    }
    let done = homeless();
    assert!(done.stderr.contains("bytepath: removed "), "{done:?}");
    assert!(!folder.exists() && !note.exists());
}

/// Servers have no home, or one that is read alone.
#[test]
fn where_no_folder_can_be_made_for_notes_they_are_kept_elsewhere() {
    if !root() || !installed("setpriv") {
        println!("skipped: becoming another user takes root");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), mode).expect("ours");
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65532", "--regid", "65532", "--clear-groups"]);
    command.arg(crate::program::BYTEPATH);
    command.args(["bench", "copy", "--on", "dir", "--work", "one", "--arms", "cp", "--no-store"]);
    command.args(SHORT).arg("--dir").arg(folder.path());
    command.env("HOME", "/nonexistent").env_remove("XDG_STATE_HOME").env("TMPDIR", folder.path());
    run(command.stdin(Stdio::null())).well();
    assert!(folder.path().join("bytepath-left-65532").exists());
}

#[test]
fn a_disk_without_room_is_left_as_it_is() {
    if !root() || !installed("unshare") {
        println!("skipped: mounting takes root");
        return;
    }
    let yard = Yard::new();
    let copied = |file_system: &str, size: &str| {
        let line = format!("mount -t {file_system} none \"$0\" && exec \"$@\" --dir \"$0\"");
        let words = ["bench", "copy", "--on", "dir", "--work", "one", "--arms", "cp"];
        let mut command = Command::new("unshare");
        command.args(["-m", "sh", "-c", &line]).arg(yard.dir.path()).arg(crate::program::BYTEPATH);
        command.args(words).args(["--size", size, "--blocks", "3", "--no-store"]);
        run(command.env("XDG_STATE_HOME", yard.state.path()))
    };
    copied("tmpfs -o size=8m", "16M").refused(1, &["8 MiB are free", "--size"]);
    // Twice that is more than a number holds.
    let done = copied("tmpfs -o size=8m", "8388608T").refused(1, &["--size"]);
    assert!(!done.stderr.contains("No space left"), "nothing was written: {done:?}");
    // It has no size, so nothing is told of its room.
    copied("ramfs", "1M").well();
}

#[test]
fn beside_the_profile_of_somebody_else_nothing_is_noted() {
    if !root() {
        println!("skipped: giving folders to others takes root");
        return;
    }
    let yard = Yard::new();
    let others = yard.state.path().join("bytepath");
    std::fs::create_dir(&others).expect("made");
    std::os::unix::fs::chown(&others, Some(NOBODY), None).expect("root may");
    let words = [&["--on", "dir", "--work", "one", "--arms", "cp"][..], &SHORT].concat();
    run(yard.command(&words).env("TMPDIR", yard.dir.path())).well();
    assert_eq!(entries(&others), Vec::<PathBuf>::new());
    assert!(yard.dir.path().join("bytepath-left-0").exists());
}
