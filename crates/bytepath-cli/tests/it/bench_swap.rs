//! `bytepath bench swap`: memory that does not fit, by every backend; services; and that nothing of it
//! stays, however a run ends.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLock, RwLockWriteGuard};
use std::time::Duration;

use bytepath_lab::swap::BACKENDS;
use bytepath_lab::swap::area::{Area, Wanted};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::Value;
use tempfile::TempDir;

use crate::bench_devices::{Loop, Use};
use crate::program::{
    Done, as_nobody, as_published, bytepath, children, entries, figure, installed, may_mount, root,
    run, shell, spawned, text, until,
};

/// As little as swaps at all; the figures mean nothing.
const SMALL: &[&str] = &[
    "--limit",
    "10M",
    "--size",
    "16M",
    "--area",
    "12M",
    "--random-pages",
    "64",
    "--disk-rate",
    "60M",
];

/// So few that it is soon over; and so many that it is not.
const FEW: &str = "2";
const MANY: &str = "1000";

/// The kinds that a run makes something lasting for.
const LASTING: [&str; 4] = ["swap-file", "swap-loop", "zram-lzo", "zswap"];

const ZSWAP: &str = "/sys/module/zswap/parameters/enabled";

/// Areas take pages of whoever swaps, and zram devices that were there before have to be there after:
/// one test at a time makes areas, and none makes devices meanwhile.
pub(crate) static ALONE: RwLock<()> = RwLock::new(());

/// A directory for areas, a place for notes, and what was there before.
struct Yard {
    dir: TempDir,
    state: TempDir,
    zswap: Option<String>,
    zrams: Vec<String>,
    /// Those that its runs noted, by number and sequence number.
    made: RefCell<BTreeSet<(String, String)>>,
    groups: Vec<PathBuf>,
    _alone: RwLockWriteGuard<'static, ()>,
}

impl Yard {
    /// Nothing, said aloud, where memory cannot be limited or swapped here.
    fn new() -> Option<Yard> {
        let alone = ALONE.write().unwrap_or_else(PoisonError::into_inner);
        if !root() {
            println!("skipped: swap takes root");
            return None;
        }
        if !installed("mkswap") || !installed("losetup") {
            return None;
        }
        let folder = || tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let yard = Yard {
            dir: folder(),
            state: folder(),
            zswap: fs::read_to_string(ZSWAP).ok(),
            zrams: zrams(),
            made: RefCell::default(),
            groups: groups(),
            _alone: alone,
        };
        let record = yard.record(&["--arms", "none"]);
        let refused = arm(&record, "none")["why"].as_str().map(str::to_owned);
        match refused.filter(|why| why.contains("cgroup")) {
            None => Some(yard),
            Some(why) => {
                println!("skipped: {why}");
                None
            }
        }
    }

    /// As little as swaps at all.
    fn small(&self, blocks: &str, words: &[&str]) -> Command {
        self.command(&[&["--blocks", blocks], SMALL, words].concat())
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = bytepath(&[&["bench", "swap"], words].concat());
        command.env("XDG_STATE_HOME", self.state.path()).current_dir(self.dir.path());
        command
    }

    /// The record of a run that is as small as it can be.
    #[track_caller]
    fn record(&self, words: &[&str]) -> Value {
        Yard::told(&mut self.small(FEW, words), words)
    }

    /// The same; a machine whose own memory comes slowly may be too slow to write pages out once.
    #[track_caller]
    fn record_or_again(&self, words: &[&str]) -> Value {
        let record = self.record(words);
        match record.to_string().contains("for want of memory") {
            true => self.record(words),
            false => record,
        }
    }

    /// The record of a service's run.
    #[track_caller]
    fn service_record(&self, words: &[&str]) -> Value {
        Yard::told(&mut self.command(&[&["--blocks", FEW], words].concat()), words)
    }

    /// The record of a run; where no arm runs, one that says why.
    #[track_caller]
    fn told(command: &mut Command, words: &[&str]) -> Value {
        let done = run(command.args(["--json", "-"]));
        if !done.status.success() && done.stderr.contains("no arm can run here") {
            let arm =
                serde_json::json!({"name": words[1], "status": "unavailable", "why": done.stderr});
            return serde_json::json!({ "arms": [arm] });
        }
        // An arm that failed is in the record, and so is why.
        match done.stderr.contains("for want of memory") {
            true => done.json(),
            false => done.well().json(),
        }
    }

    fn notes(&self) -> Vec<PathBuf> {
        entries(&self.state.path().join("bytepath/left"))
    }

    /// What notes here say.
    fn noted(&self) -> Vec<String> {
        self.notes().into_iter().filter_map(|note| fs::read_to_string(note).ok()).collect()
    }

    /// Remembers the zram devices that notes tell of now.
    fn remember(&self) {
        self.noted().iter().for_each(|note| self.remember_of(note));
    }

    fn remember_of(&self, note: &str) {
        let mut words = note.split(" made ").skip(1).flat_map(str::split_whitespace);
        if let (Some(number), Some(sequence)) = (words.next(), words.next()) {
            self.made.borrow_mut().insert((number.to_owned(), sequence.to_owned()));
        }
    }

    /// What a run has made is named by a note: its files, and the devices that have a size.
    #[track_caller]
    fn has_notes_of_all(&self) {
        let noted = self.noted();
        for path in entries(self.dir.path()) {
            assert!(noted.iter().any(|note| note.contains(text(&path))), "{path:?} {noted:?}");
        }
        for device in zrams().iter().filter(|device| !self.zrams.contains(device)) {
            let mut words = device.split_whitespace();
            let number = words.next().and_then(|path| path.strip_prefix("/sys/block/zram"));
            let (Some(number), Some(sequence), Some(size)) = (number, words.next(), words.next())
            else {
                continue;
            };
            let made = format!(" made {number} {sequence} ");
            let is_noted = noted.iter().any(|note| note.contains(&made));
            assert!(is_noted || size == "0", "{device} {noted:?}");
        }
    }

    /// Whether an area of ours is on.
    fn is_swapping(&self) -> bool {
        let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
        let ours = |line: &str| {
            let path = line.split_whitespace().next().unwrap_or_default();
            path.starts_with(text(self.dir.path()))
                || path.starts_with("/dev/loop")
                || path.starts_with("/dev/zram")
        };
        swaps.lines().skip(1).any(ours)
    }

    /// Nothing is left of any run.
    #[track_caller]
    fn is_clean(&self) {
        assert_eq!(entries(self.dir.path()), Vec::<PathBuf>::new());
        assert_eq!(self.noted(), Vec::<String>::new());
        assert!(!self.is_swapping(), "{:?}", fs::read_to_string("/proc/swaps"));
        assert_eq!(fs::read_to_string(ZSWAP).ok(), self.zswap);
        assert_eq!(throttled(), "");
        let new: Vec<_> =
            groups().into_iter().filter(|group| !self.groups.contains(group)).collect();
        assert_eq!(new, Vec::<PathBuf>::new());
        for (number, sequence) in self.made.borrow().iter() {
            let now = fs::read_to_string(format!("/sys/block/zram{number}/diskseq"));
            assert_ne!(now.unwrap_or_default().trim(), sequence, "zram{number} is still there");
        }
        let now = zrams();
        assert!(self.zrams.iter().all(|device| now.contains(device)), "{:?} {now:?}", self.zrams);
        until("the end of all loop devices", || {
            let listed =
                Command::new("losetup").args(["--noheadings", "--output", "BACK-FILE"]).output();
            let listed = listed.map(|done| String::from_utf8_lossy(&done.stdout).into_owned());
            !listed.unwrap_or_default().contains(text(self.dir.path()))
        });
    }
}

/// Every zram device, by its name and the number that the kernel gave it.
fn zrams() -> Vec<String> {
    let all =
        entries(Path::new("/sys/block")).into_iter().filter(|path| text(path).contains("/zram"));
    all.map(|path| {
        let number = fs::read_to_string(path.join("diskseq")).unwrap_or_default();
        let size = fs::read_to_string(path.join("disksize")).unwrap_or_default();
        format!("{} {number} {size}", path.display())
    })
    .collect()
}

/// Groups that runs make, in any hierarchy.
fn groups() -> Vec<PathBuf> {
    let found = Command::new("find")
        .args(["/sys/fs/cgroup", "-type", "d", "-name", ".bytepath-run-*"])
        .output();
    let found = found.map(|done| String::from_utf8_lossy(&done.stdout).into_owned());
    found.unwrap_or_default().lines().map(PathBuf::from).collect()
}

/// The limits on devices of the root group of version 1.
fn throttled() -> String {
    let files = ["read", "write"]
        .map(|what| format!("/sys/fs/cgroup/blkio/blkio.throttle.{what}_bps_device"));
    files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect()
}

const READ_LIMITS: &str = "/sys/fs/cgroup/blkio/blkio.throttle.read_bps_device";

/// A device that a test slows down for the root group of version 1, by its numbers.
struct Limit(String);

impl Limit {
    fn set(&self, bytes_per_second: u32) -> std::io::Result<()> {
        fs::write(READ_LIMITS, format!("{} {bytes_per_second}", self.0))
    }
}

impl Drop for Limit {
    fn drop(&mut self) {
        let _ = self.set(0);
    }
}

#[track_caller]
fn arm<'a>(record: &'a Value, name: &str) -> &'a Value {
    let arms = record["arms"].as_array().expect("a record has arms");
    arms.iter().find(|arm| arm["name"] == name).unwrap_or_else(|| panic!("no {name}: {record}"))
}

/// Whether an arm ran; one that did not has a reason that names what is missing.
#[track_caller]
fn ran(record: &Value, name: &str) -> bool {
    let arm = arm(record, name);
    if arm["status"] == "ok" {
        return true;
    }
    let why = arm["why"].as_str().unwrap_or_default();
    let reasons = [
        "this kernel's zram has no",
        "this kernel has no",
        "cannot slow down",
        "modprobe zram",
        "io controller",
    ];
    assert!(reasons.iter().any(|reason| why.contains(reason)), "{name}: {why}");
    println!("skipped: {name}: {why}");
    false
}

#[test]
fn every_backend_takes_the_pages_and_gives_them_back_and_nothing_is_left() {
    let Some(yard) = Yard::new() else { return };
    let record = yard.record_or_again(&[]);
    let names =
        ["swap-file", "swap-loop", "zram-lz4", "zram-lzo", "zram-lzo-rle", "zram-zstd", "zswap"];
    for name in names.into_iter().filter(|name| ran(&record, name)) {
        let arm = arm(&record, name);
        // What does not fit is out; a process and its pages take some of the rest.
        let out = figure(arm, "in swap").or_else(|| figure(arm, "swapped out")).unwrap_or(0.0);
        assert!(out >= 6.0, "{name}: {out} MiB");
        assert!(figure(arm, "major faults").is_some_and(|faults| faults > 0.0), "{name}");
        assert!(figure(arm, "memory at most").is_some_and(|most| most <= 10.01), "{name}");
        let clocked = arm["params"]["latency"]["max_ns"].as_u64();
        assert!(clocked.is_some_and(|max| max > 0), "{name}");
    }
    assert!(ran(&record, "none"));
    assert_eq!(figure(arm(&record, "none"), "major faults"), Some(0.0));
    for (name, limited) in [("none", false), ("swap-file", true)] {
        for param in ["limit_bytes", "area_bytes"] {
            assert_eq!(
                arm(&record, name)["params"].get(param).is_some(),
                limited,
                "{name} {param}"
            );
        }
    }
    assert_eq!(arm(&record, "swap-file")["reference"], true);
    as_published("record", &record);
    yard.is_clean();
}

#[test]
fn what_compresses_takes_less_memory_and_what_does_not_takes_all_of_it() {
    let Some(yard) = Yard::new() else { return };
    let ratio = |contents: &str| {
        let record = yard.record(&["--arms", "zram-lzo", "--contents", contents]);
        ran(&record, "zram-lzo").then(|| {
            let arm = arm(&record, "zram-lzo");
            let memory = figure(arm, "memory taken").expect("zram tells it");
            figure(arm, "in swap").expect("swap is on") / memory
        })
    };
    let (Some(text), Some(random)) = (ratio("text"), ratio("random")) else { return };
    assert!(text > 1.2 && random < 1.1, "{text} {random}");
    yard.is_clean();
}

/// How far a run has come.
#[derive(Clone, Copy)]
enum Far {
    /// Something is noted.
    Noted,
    /// An area is on.
    Swapping,
    /// The process in the group runs.
    Touching,
}

/// Starts a long run and sends it a signal once it has come so far.
fn cut_short(yard: &Yard, arm: &str, signal: Signal, far: Far) {
    let mut command = yard.small(MANY, &["--arms", arm]);
    let mut bench = spawned(command.stdout(Stdio::null()).stderr(Stdio::null()));
    let pid = Pid::from_child(bench.child());
    until("the run", || match far {
        Far::Noted => !yard.notes().is_empty(),
        Far::Swapping => yard.is_swapping(),
        Far::Touching => children(pid).into_iter().any(|child| {
            let line = fs::read_to_string(format!("/proc/{child}/cmdline")).unwrap_or_default();
            line.split('\0').nth(1) == Some("touch")
        }),
    });
    kill_process(pid, signal).expect("it runs");
    bench.child().wait().expect("it ends");
    yard.remember();
}

#[test]
fn a_run_that_is_interrupted_leaves_nothing() {
    let Some(yard) = Yard::new() else { return };
    for (arm, signal, far) in [
        ("swap-loop", Signal::INT, Far::Swapping),
        ("swap-file", Signal::TERM, Far::Touching),
        ("swap-loop", Signal::QUIT, Far::Swapping),
        ("zswap", Signal::HUP, Far::Noted),
    ] {
        cut_short(&yard, arm, signal, far);
        yard.is_clean();
    }
}

/// A terminal's signal is for the whole group: it reaches the run while that waits for swapoff.
#[test]
fn a_run_that_is_interrupted_while_an_area_goes_off_leaves_nothing() {
    let Some(yard) = Yard::new() else { return };
    let tools = tempfile::tempdir().expect("a folder");
    let [begun, goes_on] = ["begun", "goes-on"].map(|name| tools.path().join(name));
    let swapoff = tools.path().join("swapoff");
    let path = std::env::var("PATH").expect("it is set");
    // The first that goes on is ended by somebody, whatever group it is in.
    let script = format!(
        "#!/bin/sh\nPATH={path}:/usr/sbin:/sbin\ntest -e {0} && exec swapoff \"$@\"\n: >{0}\n\
         until test -e {1}; do sleep 0.01; done\nkill -KILL $$\n",
        text(&begun),
        text(&goes_on)
    );
    fs::write(&swapoff, script).expect("written");
    fs::set_permissions(&swapoff, fs::Permissions::from_mode(0o755)).expect("ours");
    for signal in [Signal::INT, Signal::TERM] {
        let mut command = yard.small(MANY, &["--arms", "zram-lzo"]);
        command.env("PATH", format!("{}:{path}", tools.path().display()));
        let mut bench = spawned(command.stdout(Stdio::null()).stderr(Stdio::piped()));
        until("the end of an area", || {
            begun.exists() || bench.child().try_wait().is_ok_and(|ended| ended.is_some())
        });
        yard.remember();
        // One that could not run has said why.
        let _ = kill_process_group(bench.group, signal);
        fs::write(&goes_on, "").expect("written");
        let done = bench.done();
        if !begun.exists() {
            println!("skipped: {}", done.stderr);
            return;
        }
        yard.is_clean();
        for file in [&begun, &goes_on] {
            fs::remove_file(file).expect("it is there");
        }
    }
}

/// Which area the process that panics has, in its environment.
const PANICS_WITH: &str = "BYTEPATH_TEST_PANICS_WITH";

#[test]
fn a_panic_undoes_what_an_area_holds() {
    if let Ok(name) = std::env::var(PANICS_WITH) {
        return panics_with_an_area(&name);
    }
    let Some(yard) = Yard::new() else { return };
    for name in LASTING {
        // A process of its own, which keeps its notes here.
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args(["--exact", "bench_swap::a_panic_undoes_what_an_area_holds", "--nocapture"]);
        command.env(PANICS_WITH, name).env("XDG_STATE_HOME", yard.state.path());
        let done = run(command.current_dir(yard.dir.path()).stdin(Stdio::null()));
        if !done.stderr.contains("while the area is on") {
            let skipped = done.stdout.lines().find(|line| line.starts_with("skipped: "));
            println!("{}", skipped.unwrap_or_else(|| panic!("{name}: {done:?}")));
        }
        yard.remember_of(&done.stdout);
        yard.is_clean();
    }
}

fn panics_with_an_area(name: &str) {
    let (_, backend) = BACKENDS.iter().find(|(known, _)| *known == name).expect("a backend");
    let directory = Ok(std::env::current_dir().expect("it is there"));
    let wanted = Wanted { backend: *backend, bytes: 12 << 20, directory, disk_rate: 60_000_000 };
    let area = match Area::make(&wanted) {
        Ok(area) => area,
        Err(why) => return println!("skipped: {name}: {why}"),
    };
    let _on = match area.on() {
        Ok(on) => on,
        Err(why) => return println!("skipped: {name}: {why}"),
    };
    let notes =
        Path::new(&std::env::var("XDG_STATE_HOME").expect("it is set")).join("bytepath/left");
    for note in entries(&notes) {
        println!("{}", fs::read_to_string(note).expect("text"));
    }
    panic!("while the area is on");
}

#[test]
fn twenty_runs_that_were_killed_are_cleaned_up_by_one_start() {
    let Some(yard) = Yard::new() else { return };
    let record = yard.record_or_again(&["--arms", &LASTING.join(",")]);
    let lasting: Vec<_> = LASTING.into_iter().filter(|name| ran(&record, name)).collect();
    // Each run undoes what the one before left, unless it is killed before it comes to that.
    for round in 0..20 {
        let far = [Far::Noted, Far::Swapping, Far::Touching][round % 3];
        cut_short(&yard, lasting[round % lasting.len()], Signal::KILL, far);
    }
    assert!(!yard.noted().is_empty(), "the last one left something");
    let next = run(&mut yard.small(FEW, &["--arms", "none"]));
    assert!(next.status.success(), "{next:?}");
    assert!(next.stderr.contains("which a run that was killed had left"), "{next:?}");
    yard.is_clean();
}

/// The three points above are not all that there are: whatever the moment, nothing is made without a note.
#[test]
fn what_a_run_makes_has_a_note_whenever_it_is_killed() {
    let Some(yard) = Yard::new() else { return };
    let record = yard.record_or_again(&["--arms", &LASTING.join(",")]);
    let lasting: Vec<_> = LASTING.into_iter().filter(|name| ran(&record, name)).collect();
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..60 {
        let arm = lasting[random.usize(..lasting.len())];
        let mut command = yard.small(MANY, &["--arms", arm]);
        let mut bench = spawned(command.stdout(Stdio::null()).stderr(Stdio::null()));
        // As many moments in the first milliseconds as in the first tenths of a second.
        std::thread::sleep(Duration::from_secs_f64(0.5 * 0.002_f64.powf(random.f64())));
        let pid = Pid::from_child(bench.child());
        kill_process(pid, Signal::KILL).expect("it runs");
        bench.child().wait().expect("it ends");
        yard.remember();
        yard.has_notes_of_all();
    }
    let next = run(&mut yard.small(FEW, &["--arms", "none"]));
    assert!(next.status.success(), "{next:?}");
    yard.is_clean();
}

#[test]
fn the_limit_of_a_killed_run_is_lifted_and_not_one_that_somebody_else_has_set_since() {
    let Some(yard) = Yard::new() else { return };
    let Some(device) = Loop::new(yard.state.path()) else { return };
    let name = device.path.trim_start_matches("/dev/");
    let number = fs::read_to_string(format!("/sys/block/{name}/dev")).expect("it is there");
    let limit = Limit(number.trim().to_owned());
    if limit.set(1_000_000).is_err() {
        println!("skipped: no device can be slowed down by cgroups of version 1 here");
        return;
    }
    let (number, file) = (&limit.0, READ_LIMITS);
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux has it");
    let note = format!("settings {}\n{file}\t{number} 1000000\t{number} 0\n", boot.trim());
    let after_the_next = || {
        fs::write(yard.state.path().join("bytepath/left/.bytepath-run-1-0"), &note).expect("noted");
        run(&mut yard.small(FEW, &["--arms", "none"]));
        throttled()
    };
    limit.set(2_000_000).expect("it was set before");
    assert_eq!(after_the_next(), format!("{number} 2000000\n"), "of others");
    limit.set(1_000_000).expect("it was set before");
    assert_eq!(after_the_next(), "", "of the run");
    drop((limit, device));
    yard.is_clean();
}

#[test]
fn swap_goes_where_it_cannot_stop_the_kernel_and_nowhere_else() {
    let Some(yard) = Yard::new() else { return };
    let memory = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let record = |dir: &Path| yard.record(&["--arms", "swap-file,none", "--dir", text(dir)]);
    let why =
        |record: &Value| arm(record, "swap-file")["why"].as_str().unwrap_or_default().to_owned();
    let refused = why(&record(memory.path()));
    assert!(
        refused.contains("no place on a device") || refused.contains("does not tell where"),
        "{refused}"
    );
    assert!(refused.contains("--dir") && refused.contains(text(memory.path())), "{refused}");
    assert_eq!(entries(memory.path()), Vec::<PathBuf>::new());
    // A file system that is itself a file.
    if !installed("mkfs.ext4") {
        return;
    }
    let (image, point) = (yard.state.path().join("disk"), yard.state.path().join("point"));
    fs::create_dir(&point).expect("made");
    let line = format!(
        "truncate -s 32M {0} && mkfs.ext4 -q {0} && mount -o loop {0} {1}",
        text(&image),
        text(&point)
    );
    if !shell(&line).status.success() {
        println!("skipped: no file system can be mounted from a file here");
        return;
    }
    let mounted = Use("umount", text(&point).to_owned());
    let refused = why(&record(&point));
    let left = entries(&point);
    drop(mounted);
    assert!(refused.contains("loop device"), "{refused}");
    assert!(left.iter().all(|path| path.ends_with("lost+found")), "{left:?}");
    yard.is_clean();
}

/// What a service is, and how it was run, is told in its arm.
#[track_caller]
fn tells(arm: &Value, param: &str, words: &str) {
    let told = arm["params"][param].as_str().unwrap_or_default();
    assert!(told.contains(words), "{param}: {told:?}");
}

#[test]
fn redis_answers_with_what_it_was_given_whatever_takes_its_pages() {
    let Some(yard) = Yard::new() else { return };
    if !installed("redis-server") {
        return;
    }
    let words = [
        "--work",
        "redis",
        "--size",
        "24M",
        "--limit",
        "16M",
        "--area",
        "96M",
        "--time",
        "100ms",
        "--warm-up",
        "0s",
        "--arms",
        "zram-lzo,swap-file,none",
    ];
    let record = yard.service_record(&words);
    for name in ["zram-lzo", "swap-file", "none"].into_iter().filter(|name| ran(&record, name)) {
        let arm = arm(&record, name);
        assert_eq!(arm["unit"], "op/s");
        tells(arm, "redis-server", "v=");
        tells(arm, "words", "/redis-server --port 0 ");
        assert!(arm["median"].as_f64().is_some_and(|rate| rate > 0.0), "{arm}");
        let out = figure(arm, "in swap").unwrap_or(0.0);
        assert_eq!(out > 1.0, name != "none", "{name}: {out} MiB");
    }
    yard.is_clean();
}

#[test]
fn a_load_of_redis_ends_when_that_is_wished_and_nothing_is_left() {
    let Some(yard) = Yard::new() else { return };
    if !installed("redis-server") {
        return;
    }
    // Nobody waits for the end of that.
    let words = ["--work", "redis", "--size", "12M", "--limit", "8M", "--time", "1h", "--arms"];
    let mut command = yard.command(&[&words[..], &["none", "--warm-up", "0s"]].concat());
    let mut bench = spawned(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let pid = Pid::from_child(bench.child());
    // Its threads are those that load, once it is filled.
    let task = format!("/proc/{}/task", pid.as_raw_nonzero());
    until("the load", || entries(Path::new(&task)).len() > 4);
    // Redis itself is not told.
    kill_process(pid, Signal::INT).expect("it runs");
    let done = bench.done();
    assert!(done.stderr.contains("interrupted before the first block"), "{done:?}");
    yard.is_clean();
}

#[test]
fn mariadb_does_sysbenchs_transactions_whatever_takes_its_pages() {
    let Some(yard) = Yard::new() else { return };
    let all = ["mariadbd", "mariadb-install-db", "mariadb", "sysbench"];
    if !all.into_iter().all(installed) {
        return;
    }
    let words = [
        "--work",
        "mariadb",
        "--size",
        "25M",
        "--limit",
        "24M",
        "--area",
        "160M",
        "--time",
        "1s",
        "--warm-up",
        "0s",
        "--arms",
        "zram-lzo",
    ];
    let record = yard.service_record(&words);
    if ran(&record, "zram-lzo") {
        let arm = arm(&record, "zram-lzo");
        assert!(arm["median"].as_f64().is_some_and(|rate| rate > 0.0), "{arm}");
        assert!(figure(arm, "in swap").is_some_and(|out| out > 1.0), "{arm}");
        tells(arm, "mariadbd", "MariaDB");
        tells(arm, "sysbench", "sysbench ");
        tells(arm, "words", "/mariadbd --no-defaults ");
    }
    let settings = record["settings"].as_object();
    if let Some(settings) = settings {
        for unused in ["contents", "random_pages"] {
            assert!(!settings.contains_key(unused), "{settings:?}");
        }
    }
    yard.is_clean();
}

/// A small run in a folder that anybody may write to, behind these words of the shell.
fn small_by(whom: &str) -> Done {
    let folder = tempfile::tempdir().expect("a folder");
    fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o777))
        .expect("ours");
    let dir = text(folder.path());
    let words = SMALL.join(" ");
    shell(&format!(
        "cd {dir} && TMPDIR={dir} XDG_STATE_HOME={dir} {whom}$bytepath bench swap {words}"
    ))
}

#[test]
fn the_root_of_a_namespace_of_users_is_told_of_each_arm_what_it_takes() {
    let Some(nobody) = as_nobody() else { return };
    let in_one = format!("{nobody}unshare -Ur ");
    if !shell(&format!("{in_one}true")).status.success() {
        return println!("skipped: nobody may have no namespace of users here");
    }
    small_by(&in_one).refused(1, &["no arm can run here", "takes root"]);
}

#[test]
fn root_that_is_refused_the_file_that_runs_meet_at_is_told() {
    if !(may_mount() && installed("setpriv")) {
        return println!("skipped: needs setpriv, and to mount");
    }
    let words = SMALL.join(" ");
    let lacks = "-dac_override,-dac_read_search,-sys_admin";
    let line = format!(
        "unshare -m sh -c 'mount -t tmpfs -o uid=65534,mode=700 none /run && exec setpriv \
         --bounding-set {lacks} --inh-caps {lacks} $bytepath bench swap {words}'"
    );
    shell(&line).refused(1, &["cannot lock /run/bytepath-swap.lock", "Permission denied"]);
}

#[test]
fn what_cannot_be_is_refused() {
    let refused = |words: &[&str], says: &str| {
        run(&mut bytepath(&[&["bench", "swap"], words].concat())).refused(2, &[says]);
    };
    refused(&["--size", "20M", "--limit", "20M"], "nothing is swapped");
    refused(&["--size", "90M", "--limit", "20M", "--area", "30M"], "hold together");
    refused(
        &["--size", "9000G", "--limit", "20M", "--area", "9001G"],
        "more than this machine's memory",
    );
    refused(&["--size", "1000000"], "no multiple");
    refused(&["--limit", "1M"], "starts no process");
    refused(&["--disk-rate", "1K"], "hours");
    refused(&["--contents", "lies"], "integers, text, random");
    refused(&["--work", "mariadb", "--contents", "text"], "--contents has no effect");
    refused(&["--work", "redis", "--random-pages", "9"], "--random-pages has no effect");
    refused(&["--work", "sleep"], "touch, redis, mariadb");
    refused(&["--arms", "no-such"], "swap-file");
    refused(&["--time", "1s"], "--size");
    let Some(nobody) = as_nobody() else { return };
    small_by(nobody).refused(1, &["takes root", "cgroup"]);
}
