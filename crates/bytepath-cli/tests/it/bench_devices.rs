//! `bytepath bench files --device`: devices that are made for the run and go with it, however it
//! ends; devices that are there; which are refused.

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{PoisonError, RwLockReadGuard};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::bench_swap::ALONE;
use crate::program::{
    arms, as_nobody, bytepath, entries, installed, root, run, shell, spawned, text, until,
};

/// Short enough for a test; the figures mean nothing.
const SHORT: &[&str] = &[
    "bench",
    "files",
    "--blocks",
    "2",
    "--time",
    "5ms",
    "--warm-up",
    "0s",
    "--jobs",
    "2",
    "--depth",
    "3",
];

/// Where runs make the files of loop devices, and keep their notes.
struct Yard {
    dir: TempDir,
    state: TempDir,
    _no_swap: RwLockReadGuard<'static, ()>,
}

impl Yard {
    fn new() -> Yard {
        let folder = || tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let _no_swap = ALONE.read().unwrap_or_else(PoisonError::into_inner);
        Yard { dir: folder(), state: folder(), _no_swap }
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = bytepath(&[SHORT, words].concat());
        command.env("XDG_STATE_HOME", self.state.path()).current_dir(self.dir.path());
        command
    }

    #[track_caller]
    fn record(&self, words: &[&str]) -> Value {
        run(&mut self.command(&[words, &["--json", "-"]].concat())).well().json()
    }

    fn notes(&self) -> PathBuf {
        self.state.path().join("bytepath/left")
    }

    /// The zram devices that the notes here tell of: those of other tests are none of ours.
    fn noted_zrams(&self) -> Vec<Zram> {
        let noted = |note: PathBuf| {
            let text = fs::read_to_string(note).ok()?;
            let number = text.split(" made ").nth(1)?.split(' ').next()?;
            Some(Zram::of(number))
        };
        entries(&self.notes()).into_iter().filter_map(noted).collect()
    }

    /// Neither files nor notes are left, nor a loop device of a file here.
    #[track_caller]
    fn is_clean(&self) {
        for folder in [self.dir.path(), &self.notes()] {
            assert_eq!(entries(folder), Vec::<PathBuf>::new());
        }
        until("the end of all loop devices", || loop_devices(self.dir.path()).is_empty());
    }
}

/// The loop devices of files in a folder, also of those that have no name any more.
fn loop_devices(folder: &Path) -> Vec<String> {
    let words = ["--list", "--noheadings", "--output", "NAME,BACK-FILE"];
    let listed = Command::new("losetup").args(words).output();
    let text = listed.map(|done| String::from_utf8_lossy(&done.stdout).into_owned());
    let (text, folder) = (text.unwrap_or_default(), folder.to_str().expect("a plain name"));
    text.lines().filter(|line| line.contains(folder)).map(str::to_owned).collect()
}

/// The devices that can be made here.
fn makeable() -> Vec<&'static str> {
    if !root() {
        println!("skipped: making devices takes root");
        return Vec::new();
    }
    let mut makeable = Vec::new();
    match Path::new("/sys/class/zram-control").exists() && Path::new("/dev/zram0").exists() {
        true => makeable.push("zram"),
        false => println!("skipped: this kernel has no zram, or has not loaded it"),
    }
    match Path::new("/dev/loop-control").exists() && installed("losetup") {
        true => makeable.push("loop"),
        false => println!("skipped: no loop device can be made here"),
    }
    makeable
}

/// A zram device. Its number may be another's later; its sequence number is its own, where the
/// kernel gives devices one.
#[derive(Debug, PartialEq)]
struct Zram {
    number: String,
    sequence: Option<String>,
}

impl Zram {
    fn of(number: &str) -> Zram {
        let told = fs::read_to_string(format!("/sys/block/zram{number}/diskseq"));
        let sequence = told.ok().map(|text| text.trim().to_owned());
        Zram { number: number.to_owned(), sequence }
    }

    fn is_there(&self) -> bool {
        let folder = format!("/sys/block/zram{}", self.number);
        Path::new(&folder).exists() && Zram::of(&self.number) == *self
    }
}

/// A device of a file of a test's own.
pub(crate) struct Loop {
    pub(crate) path: String,
    file: PathBuf,
}

impl Loop {
    /// Full of sevens, in a folder of the test's own.
    pub(crate) fn new(folder: &Path) -> Option<Loop> {
        if !makeable().contains(&"loop") {
            return None;
        }
        let file = folder.join("disk");
        fs::write(&file, vec![7; 1 << 20]).expect("written");
        let made = Command::new("losetup").args(["--find", "--show"]).arg(&file).output();
        let made = made.ok().filter(|done| done.status.success());
        let Some(made) = made else {
            println!("skipped: no loop device can be made here");
            return None;
        };
        Some(Loop { path: String::from_utf8_lossy(&made.stdout).trim().to_owned(), file })
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let device = fs::File::open(&self.path);
        device.and_then(|mut device| device.read_to_end(&mut bytes)).expect("it is read");
        bytes
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.path]).status();
        let _ = fs::remove_file(&self.file);
    }
}

/// What engines say that cannot drive a device, or cannot do this work at all.
const REFUSALS: &[&str] = &[
    "io_uring is not",
    "linux-aio is not",
    "polling",
    "only a device can be polled",
    "a mapping is of the page cache",
    "always waits for the device",
    "take no writes that may not wait",
    "this file cannot do that",
];

/// That every arm ran, or says why it could not; the names of those that ran.
#[track_caller]
fn ran(record: &Value) -> BTreeSet<&str> {
    let name = |arm: &'_ Value| arm["name"].as_str().map(str::to_owned).expect("a name");
    for arm in arms(record).iter().filter(|arm| arm["status"] != "ok") {
        let why = arm["why"].as_str().unwrap_or_default();
        assert!(REFUSALS.iter().any(|words| why.contains(words)), "{}: {why}", name(arm));
        println!("skipped: {}: {why}", name(arm));
    }
    let ok = arms(record).iter().filter(|arm| arm["status"] == "ok");
    ok.filter_map(|arm| arm["name"].as_str()).collect()
}

#[test]
fn every_engine_reads_and_writes_a_device_made_for_the_run_and_finds_what_belongs_there() {
    for kind in makeable() {
        let yard = Yard::new();
        let device = format!("{kind}:1M");
        for access in ["randread", "randrw", "write"] {
            let record = yard.record(&["--device", &device, "--verify", "--rw", access]);
            let ran = ran(&record);
            for name in ["pread@buffered", "mmap@buffered", "pread@direct", "posix-aio@direct"] {
                assert!(ran.contains(name), "{kind}, {access}: {name} is not in {ran:?}");
            }
            for arm in arms(&record).iter().filter(|arm| arm["status"] == "ok") {
                let verified = arm["params"]["verified_blocks"].as_u64();
                assert!(verified.is_some_and(|blocks| blocks > 0), "{kind}, {access}: {arm}");
            }
            assert_eq!(record["settings"]["device"], format!("{kind} device of 1 MiB"));
        }
        yard.is_clean();
        assert_eq!(yard.noted_zrams(), []);
    }
}

#[test]
fn requests_have_at_least_the_devices_block_unless_told_otherwise() {
    for kind in makeable() {
        let yard = Yard::new();
        let device = format!("{kind}:1M");
        let bytes = |words: &[&str]| {
            let words = [&["--device", &device, "--arms", "pread"], words].concat();
            yard.record(&words)["settings"]["bs"].as_u64().expect("bytes")
        };
        assert_eq!(bytes(&["--direct"]), if kind == "zram" { 4096 } else { 1024 });
        assert_eq!(bytes(&["--buffered"]), 1024);
        assert_eq!(bytes(&["--bs", "8K", "--size", "16K", "--cold"]), 8192);
    }
}

#[test]
fn fio_drives_the_same_device_and_what_it_writes_is_put_right() {
    if !installed("fio") {
        return;
    }
    for kind in makeable() {
        let yard = Yard::new();
        let jobs = yard.state.path().join("jobs");
        let device = format!("{kind}:1M");
        let words = ["--device", &device, "--verify", "--rw", "randrw", "--arms", "pread"];
        let fio = ["--peer", "fio", "--save-jobs", text(&jobs)];
        let record = yard.record(&[&words[..], &fio].concat());
        let expected = ["pread@buffered", "fio-pread@buffered", "pread@direct", "fio-pread@direct"];
        assert_eq!(ran(&record), BTreeSet::from(expected), "{kind}");
        let job = fs::read_to_string(jobs.join("fio-pread@direct.fio")).expect("it is kept");
        let name = format!("filename=/dev/{kind}");
        assert!(job.lines().any(|line| line.starts_with(&name)), "{name} is not in {job}");
        assert!(job.lines().any(|line| line == "size=1048576"), "{job}");
        yard.is_clean();
    }
}

/// Starts a long run on a device, and sends it a signal once the note or the folder is there, or
/// once the device is driven.
fn cut_short(yard: &Yard, device: &str, signal: Signal, far: Far) {
    let words = ["--device", device, "--blocks", "1000", "--time", "1s", "--arms", "pread,mmap"];
    let words = [&["bench", "files", "--warm-up", "0s"], &words[..]].concat();
    let mut command = bytepath(&words);
    command.env("XDG_STATE_HOME", yard.state.path()).current_dir(yard.dir.path());
    let mut bench = spawned(command.stdout(Stdio::null()).stderr(Stdio::null()));
    let pid = Pid::from_child(bench.child());
    until("the run", || match far {
        Far::Made => !yard.noted_zrams().is_empty() || !loop_devices(yard.dir.path()).is_empty(),
        Far::Driven => {
            let children = format!("/proc/{0}/task/{0}/children", pid.as_raw_nonzero());
            fs::read_to_string(children).is_ok_and(|children| {
                let line = |child| fs::read_to_string(format!("/proc/{child}/cmdline"));
                children
                    .split_whitespace()
                    .filter_map(|child| line(child).ok())
                    .any(|line| line.split('\0').any(|word| word == "drive"))
            })
        }
    });
    kill_process(pid, signal).expect("it runs");
    bench.child().wait().expect("it ends");
}

#[derive(Clone, Copy)]
enum Far {
    Made,
    Driven,
}

#[test]
fn a_run_that_is_interrupted_leaves_no_device() {
    for kind in makeable() {
        let yard = Yard::new();
        for (signal, far) in [(Signal::INT, Far::Made), (Signal::TERM, Far::Driven)] {
            cut_short(&yard, &format!("{kind}:256M"), signal, far);
            assert_eq!(yard.noted_zrams(), []);
            yard.is_clean();
        }
    }
}

#[test]
fn a_device_that_a_killed_run_left_goes_when_the_next_one_starts() {
    for kind in makeable() {
        let yard = Yard::new();
        for far in [Far::Made, Far::Driven] {
            cut_short(&yard, &format!("{kind}:256M"), Signal::KILL, far);
            let left = yard.noted_zrams();
            assert_eq!(left.len(), usize::from(kind == "zram"), "loop devices go by themselves");
            assert!(left.iter().all(Zram::is_there));
            let words = ["--arms", "pread", "--buffered", "--size", "64K"];
            let next = run(&mut yard.command(&words));
            assert!(next.status.success(), "{next:?}");
            for device in left {
                let name = format!("/dev/zram{}", device.number);
                let said = format!("removed {name}, which a run that was killed had left");
                assert!(next.stderr.contains(&said), "{said:?} is not in {next:?}");
                assert!(!device.is_there(), "{name} is still there");
            }
            yard.is_clean();
        }
    }
}

/// A zram device of somebody else, without a size.
struct Strange(Zram);

impl Strange {
    fn new() -> Strange {
        let number = fs::read_to_string("/sys/class/zram-control/hot_add").expect("it is made");
        Strange(Zram::of(number.trim()))
    }
}

impl Drop for Strange {
    fn drop(&mut self) {
        if self.0.is_there() {
            let _ = fs::write("/sys/class/zram-control/hot_remove", &self.0.number);
        }
    }
}

#[test]
fn only_the_device_of_a_note_is_removed_and_no_other_that_has_its_name() {
    if !makeable().contains(&"zram") {
        return;
    }
    let (yard, device) = (Yard::new(), Strange::new());
    let (number, sequence) = (&device.0.number, device.0.sequence.clone().unwrap_or_default());
    let Ok(sequence) = sequence.parse::<u64>() else {
        println!("skipped: this kernel gives devices no sequence numbers");
        return;
    };
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux has it");
    let boot = boot.trim();
    fs::create_dir_all(yard.notes()).expect("made");
    let next_after = |note: String| {
        fs::write(yard.notes().join(".bytepath-run-1-0"), note).expect("written");
        run(&mut yard.command(&["--arms", "pread", "--buffered", "--size", "64K"]))
    };
    let made = |boot: &str, sequence| format!("zram {boot} made {number} {sequence} 4096");
    // All that there may be, so that none of others is taken for what the run made.
    let after = |but: &str| {
        let all = (0..1000).map(|number: u32| number.to_string()).filter(|number| number != but);
        format!("zram {boot} after {}", all.collect::<Vec<_>>().join(" "))
    };
    for note in [made(boot, sequence - 1), made("another", sequence), after("")] {
        next_after(note).well();
        assert!(device.0.is_there(), "it is another's");
    }
    // As it is when a run is killed before it noted which device it was given.
    let next = next_after(after(number));
    assert!(next.stderr.contains("removed /dev/zram"), "{next:?}");
    assert!(!device.0.is_there());
    yard.is_clean();
}

#[test]
fn what_cannot_be_removed_keeps_its_note_until_it_can() {
    if !makeable().contains(&"zram") {
        return;
    }
    let (yard, device) = (Yard::new(), Strange::new());
    let number = &device.0.number;
    fs::write(format!("/sys/block/zram{number}/disksize"), "1M").expect("it has none yet");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux has it");
    let sequence = device.0.sequence.as_deref().unwrap_or("-");
    fs::create_dir_all(yard.notes()).expect("made");
    let note = format!("zram {} made {number} {sequence} {}", boot.trim(), 1 << 20);
    // As it is when a run is killed while it tells something else than before.
    let note = format!("{note}\0 and the end of what it said before");
    fs::write(yard.notes().join(".bytepath-run-1-0"), note).expect("written");
    let next = || run(&mut yard.command(&["--arms", "pread", "--buffered", "--size", "64K"]));
    let open = fs::File::open(format!("/dev/zram{number}")).expect("it is there");
    for _ in 0..2 {
        let next = next();
        assert!(next.stderr.contains("is not removed"), "{next:?}");
        assert!(device.0.is_there());
        assert_eq!(yard.noted_zrams(), [Zram::of(number)]);
    }
    drop(open);
    let next = next();
    assert!(next.stderr.contains("removed /dev/zram"), "{next:?}");
    assert!(!device.0.is_there());
    yard.is_clean();
}

#[test]
fn where_a_note_has_no_sequence_number_the_size_tells_whose_a_device_is() {
    if !makeable().contains(&"zram") {
        return;
    }
    let (yard, device) = (Yard::new(), Strange::new());
    let number = &device.0.number;
    fs::write(format!("/sys/block/zram{number}/disksize"), "1M").expect("it has none yet");
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").expect("Linux has it");
    fs::create_dir_all(yard.notes()).expect("made");
    let next_after = |bytes: u64| {
        let note = format!("zram {} made {number} - {bytes}", boot.trim());
        fs::write(yard.notes().join(".bytepath-run-1-0"), note).expect("written");
        run(&mut yard.command(&["--arms", "pread", "--buffered", "--size", "64K"]))
    };
    next_after(2 << 20).well();
    assert!(device.0.is_there(), "it is another's");
    // Devices have whole pages.
    let next = next_after((1 << 20) - 1);
    assert!(next.stderr.contains("removed /dev/zram"), "{next:?}");
    assert!(!device.0.is_there());
    yard.is_clean();
}

#[test]
fn a_device_that_is_there_is_read_and_stays_as_it_is_unless_it_may_be_destroyed() {
    let yard = Yard::new();
    let disk = TempDir::new().expect("a folder");
    let Some(device) = Loop::new(disk.path()) else { return };
    let record = yard.record(&["--device", &device.path]);
    assert!(ran(&record).contains("pread@direct"));
    assert_eq!(device.bytes(), vec![7; 1 << 20]);
    let words = ["--device", &device.path, "--destroy", "--verify", "--rw", "randrw"];
    let record = yard.record(&[&words[..], &["--size", "256K"]].concat());
    assert!(ran(&record).contains("pread@direct"));
    let bytes = device.bytes();
    assert!(bytes[..256 << 10].chunks(4096).all(|block| block != [7; 4096]), "it is filled");
    assert_eq!(bytes[256 << 10..], vec![7; 768 << 10], "what is behind --size is left alone");
    yard.is_clean();
}

/// What keeps a device in use, undone afterwards.
pub(crate) struct Use(pub(crate) &'static str, pub(crate) String);

impl Drop for Use {
    fn drop(&mut self) {
        let _ = Command::new(self.0).arg(&self.1).status();
    }
}

/// Runs programs; what they say must not be an error.
#[track_caller]
fn done(line: &str) {
    let done = shell(line);
    assert!(done.status.success(), "{line}: {done:?}");
}

#[test]
fn a_device_in_use_is_refused_even_where_it_may_be_destroyed() {
    let yard = Yard::new();
    let disk = TempDir::new().expect("a folder");
    let Some(device) = Loop::new(disk.path()) else { return };
    let refused = |words: &[&str], why: &str| {
        for destroy in [&[][..], &["--destroy", "--rw", "randwrite"]] {
            let words = [&["--device", &device.path], words, destroy].concat();
            let says = [why, &device.path, "left alone"];
            run(&mut yard.command(&words)).refused(1, &says);
        }
    };
    // Somebody who has it alone, as file systems do, but of whom no table tells.
    let alone = || {
        use rustix::fs::{Mode, OFlags, open};
        open(&device.path, OFlags::RDONLY | OFlags::EXCL | OFlags::CLOEXEC, Mode::empty())
    };
    let held = alone().expect("nobody uses it");
    refused(&[], "somebody uses it");
    drop(held);
    // What another test was starting meanwhile has it open until it begins.
    until("the end of all use", || alone().is_ok());
    assert_eq!(device.bytes(), vec![7; 1 << 20]);
    if installed("mkfs.ext4") {
        let point = disk.path().join("a point");
        fs::create_dir(&point).expect("made");
        done(&format!("mkfs.ext4 -q {0} && mount {0} '{1}'", device.path, text(&point)));
        let mounted = Use("umount", device.path.clone());
        refused(&[], &format!("mounted on {}", text(&point)));
        drop(mounted);
    }
    if installed("mkswap") {
        done(&format!("mkswap -q {}", device.path));
        let swapon = Command::new("swapon").arg(&device.path).output();
        if swapon.is_ok_and(|done| done.status.success()) {
            let _swap = Use("swapoff", device.path.clone());
            refused(&[], "used as swap");
        } else {
            println!("skipped: nothing can be made swap here");
        }
    }
}

#[test]
fn wrong_usage_of_devices_says_what_is_wrong() {
    let cases: &[(&[&str], &[&str])] = &[
        (&["--device", "zram:x"], &["\"x\" is no size"]),
        (&["--device", "loop:0"], &["0 bytes"]),
        (&["--device", "zram:1M", "--destroy"], &["--destroy has no effect"]),
        (&["--device", "zram:1M", "--dir", "."], &["--dir has no effect", "loop:SIZE"]),
        (&["--device", "zram:1M", "--file", "x"], &["cannot be used with"]),
        (&["--device", "loop:1M", "--bs", "1000"], &["--bs 1000", "512"]),
        (&["--device", "/dev/loop0", "--rw", "write"], &["--destroy"]),
        (&["--device", "/dev/loop0", "--verify"], &["--destroy"]),
    ];
    for (words, said) in cases {
        run(&mut bytepath(&[SHORT, *words].concat())).refused(2, said);
    }
    for kind in makeable() {
        let yard = Yard::new();
        if kind == "zram" {
            let words = ["--device", "zram:1M", "--bs", "1K"];
            run(&mut yard.command(&words)).refused(2, &["--bs 1024", "4096", "--buffered"]);
        }
        let device = format!("{kind}:1000T");
        let refused = run(&mut yard.command(&["--device", &device]));
        refused.refused(1, &["1000 TiB", "take a smaller one"]);
        yard.is_clean();
    }
}

#[test]
fn without_rights_a_device_is_refused_with_the_remedy() {
    let Some(nobody) = as_nobody() else { return };
    let folder = TempDir::new().expect("a folder");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    fs::set_permissions(folder.path(), mode).expect("ours");
    let refused = |device: &str, says: &[&str]| {
        let (words, state) = (SHORT.join(" "), text(folder.path()));
        let line = format!(
            "cd {state} && XDG_STATE_HOME={state} {nobody}$bytepath {words} --device {device}"
        );
        shell(&line).refused(1, says);
    };
    // An ordinary user whom somebody lets read devices can.
    match root() && Path::new("/dev/loop0").exists() {
        true => refused("/dev/loop0", &["/dev/loop0", "Permission denied", "as root"]),
        false => println!("skipped: there is no loop device, or no other user to become"),
    }
    refused("loop:1M", &["cannot make a loop device of 1 MiB", "root"]);
    match Path::new("/sys/class/zram-control").exists() {
        true => refused("zram:1M", &["cannot make a zram device of 1 MiB", "root"]),
        false => refused("zram:1M", &["modprobe zram"]),
    }
}
