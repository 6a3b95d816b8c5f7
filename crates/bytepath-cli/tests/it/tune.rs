//! `bytepath tune`: the profile that it leaves, and what it says of it.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use bytepath::machine::{self, Machine};
use bytepath::profile::MachineKey;
use bytepath::routes::ROUTES;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};
use serde_json::{Value, json};

use crate::program::{
    BYTEPATH, Done, as_published, bytepath, may_mount, run, run_for_nobody, shell, text,
};

/// As little as gives every figure.
const SHORT: [&str; 5] = ["--quick", "--blocks", "1", "--bytes", "256K"];

/// Every pair of ends, as the tables name them.
const PAIRS: [&str; 10] = [
    "file -> pipe",
    "pipe -> pipe",
    "pipe -> file",
    "pipe -> socket",
    "socket -> pipe",
    "socket -> file",
    "file -> socket",
    "file -> file",
    "file -> /dev/null",
    "pipe -> /dev/null",
];

/// Measures into `profile`, with files in `folder`.
fn tuned(profile: &Path, folder: &Path, more: &[&str]) -> Done {
    let words = ["tune", "--profile", text(profile), "--dir", text(folder)];
    run(&mut bytepath(&[&words[..], &SHORT, more].concat()))
}

/// A profile of this machine with these pairs, and no other figures.
fn by_hand(pairs: Value) -> Value {
    json!({
        "schema": "bytepath.profile/1", "made": "now", "bytepath": "0.1.0",
        "machine": MachineKey::of(Machine::this()), "pairs": pairs,
    })
}

/// One choice that was measured.
fn splice() -> Value {
    json!({
        "route": "splice", "gib_per_s": 7.0, "ci95": null,
        "overall_gib_per_s": 7.0, "cpu_s_per_gib": 0.1,
    })
}

fn json(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).expect("it is there");
    serde_json::from_str(&text).expect("it is JSON")
}

#[test]
fn the_profile_is_what_the_published_schema_says_and_has_every_pair() {
    let folder = tempfile::tempdir().expect("a folder");
    // It is kept where the state of programs is.
    let profile = folder.path().join("bytepath/profile.json");
    let mut words = bytepath(&[&["tune", "--dir", text(folder.path())][..], &SHORT].concat());
    let done = run(words.env("XDG_STATE_HOME", folder.path())).well();
    for pair in PAIRS {
        let line = done.stdout.lines().find(|line| line.trim_start().starts_with(pair));
        let line = line.unwrap_or_else(|| panic!("{pair} is not in {}", done.stdout));
        assert!(line.contains('x') && !line.contains("nothing"), "{line}");
    }
    for words in ["system call", "wake-up by futex", "memory copy", "page fault", "kept in"] {
        assert!(done.stdout.contains(words), "{words} is not in {}", done.stdout);
    }
    let kept = json(&profile);
    as_published("profile", &kept);
    assert_eq!(kept["pairs"].as_array().map(Vec::len), Some(PAIRS.len()));
    for pair in kept["pairs"].as_array().expect("pairs") {
        let choices = pair["choices"].as_array().expect("choices");
        assert!(choices.len() >= 4, "{pair}");
        let by_several = choices.iter().any(|choice| choice["route"] == "parallel");
        assert_eq!(by_several, pair["source"] == "file" && pair["sink"] == "file", "{pair}");
        let has_file = pair["source"] == "file" || pair["sink"] == "file";
        assert_eq!(pair.get("place").is_some(), has_file, "{pair}");
    }
    let left: Vec<_> = std::fs::read_dir(folder.path()).expect("it lists").collect();
    assert_eq!(left.len(), 1, "nothing but the profile's folder is left: {left:?}");
}

/// A group whose memory is limited, gone on drop.
pub(crate) struct Narrow(pub(crate) PathBuf);

impl Narrow {
    pub(crate) fn make(name: &str, bytes: usize) -> Option<Narrow> {
        let of = |folder: &str, limit: &str| {
            let group = Narrow(Path::new(folder).join(format!("bytepath-test-narrow-{name}")));
            // One that was left is as good.
            let _ = std::fs::create_dir(&group.0);
            std::fs::write(group.0.join(limit), bytes.to_string()).ok().map(|()| group)
        };
        of("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            .or_else(|| of("/sys/fs/cgroup", "memory.max"))
    }
}

impl Drop for Narrow {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir(&self.0);
    }
}

#[test]
fn what_there_is_no_memory_to_measure_is_left_out() {
    let Some(group) = Narrow::make("tune", 64 << 20) else {
        println!("skipped: no cgroup with a limit can be made here (that takes root)");
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let enter = format!("echo 0 >{}/cgroup.procs && cd {}", text(&group.0), text(folder.path()));
    let line = format!("{enter} && $bytepath tune --profile p {}", SHORT.join(" "));
    let done = shell(&line).well();
    assert!(
        done.stdout.contains("system call") && !done.stdout.contains("memory copy"),
        "{done:?}"
    );
    assert_eq!(json(&folder.path().join("p"))["pairs"].as_array().map(Vec::len), Some(PAIRS.len()));
    // Files in memory are of the memory that is there.
    let line = format!("{enter} && $bytepath tune --profile q --dir /dev/shm --bytes 64M");
    if machine::file_system(Path::new("/dev/shm")).is_ok_and(|found| found.name == "tmpfs") {
        shell(&line).refused(1, &["/dev/shm", "memory", "--dir", "--bytes"]);
    }
}

#[test]
fn a_disk_without_room_for_both_files_is_left_as_it_is() {
    if !may_mount() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let line = format!(
        "unshare -m sh -c 'mount -t tmpfs -o size=16m none {0} && exec $bytepath tune --quick \
         --profile {0}/profile --dir {0} --bytes 12M'",
        text(folder.path())
    );
    shell(&line).refused(1, &["cannot make files of 12582912 bytes", "No space left", "--dir"]);
}

#[test]
fn a_limit_on_the_size_of_files_is_named_where_it_is_too_low() {
    let folder = tempfile::tempdir().expect("a folder");
    let copy = "bench copy --on dir --work one --arms '*read-write*' --no-store --quick";
    let pages = "bench pages --arms o-direct --no-store --quick";
    for words in ["tune --quick", "bench files --quick", copy, pages] {
        let line = format!("cd {} && ulimit -f 100; $bytepath {words}", text(folder.path()));
        shell(&line).refused(1, &["File too large", "(ulimit -f)"]);
    }
}

#[test]
fn a_profile_is_shown_again_without_measuring() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("state/profile.json");
    // Where others have the CPUs, standard error tells.
    let measured = tuned(&profile, folder.path(), &["--json", "-"]);
    assert!(measured.status.success(), "{measured:?}");
    assert_eq!(measured.json(), json(&profile), "standard output holds the profile alone");
    let before = std::fs::read(&profile).expect("it is there");
    let words = ["tune", "--show", "--profile", text(&profile)];
    let shown = run(&mut bytepath(&words)).well();
    assert!(PAIRS.iter().all(|pair| shown.stdout.contains(pair)), "{}", shown.stdout);
    let again = run(&mut bytepath(&[&words[..], &["--json", "-"]].concat()));
    assert_eq!(again.json(), measured.json());
    assert_eq!(std::fs::read(&profile).expect("it is there"), before);
}

#[test]
fn what_others_disturbed_is_noted() {
    let cpu = Machine::this().allowed_cpus().iter().next().expect("it has one").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let line = format!(
        "cd {}; timeout 300 taskset -c {cpu} sh -c 'while :; do :; done' & \
         taskset -c {cpu} $bytepath tune --profile p --json - {}; kill $!",
        text(folder.path()),
        SHORT.join(" ")
    );
    let done = shell(&line);
    let why = json(&folder.path().join("p"))["disturbed"].as_str().expect("it says so").to_owned();
    assert!(why.contains("of the CPU time"), "{why}");
    let told = format!("while this was measured, {why}; measure again when the machine is idle");
    assert!(done.stderr.contains(&told), "{done:?}");
}

#[test]
fn no_advice_comes_of_what_others_disturbed_and_whoever_goes_by_it_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let choice = json!({
        "route": "splice", "gib_per_s": 7.0, "ci95": null,
        "overall_gib_per_s": 7.0, "cpu_s_per_gib": 0.1,
    });
    let cost = |name: &str, value: f64| json!({ "name": name, "unit": "ns", "value": value });
    let profile = json!({
        "schema": "bytepath.profile/1", "made": "now", "bytepath": "0.1.0",
        "machine": MachineKey::of(Machine::this()), "disturbed": "others worked",
        "costs": [
            cost("wake-up by pipe, same-cpu", 3e3), cost("wake-up by pipe, cross-cpu", 121.9e3),
            cost("write and read, pipe of 1M, same-cpu, block", 9.0),
            cost("write and read, pipe of 1M, cross-cpu, block", 1.0),
        ],
        "pairs": [{ "source": "pipe", "sink": "pipe", "choices": [choice] }],
    });
    std::fs::create_dir(folder.path().join("bytepath")).expect("a folder");
    let path = folder.path().join("bytepath/profile.json");
    std::fs::write(&path, profile.to_string()).expect("written");
    let at = format!("cd {}; export XDG_STATE_HOME=$PWD", text(folder.path()));
    let doubt = "while this was measured, others worked; measure again when the machine is idle";
    let shown = shell(&format!("{at}; $bytepath tune --show")).well();
    assert!(shown.stdout.contains(doubt) && !shown.stdout.contains("idle=poll"), "{shown:?}");
    let shown = shell(&format!("{at}; $bytepath tune --show --json -"));
    assert!(shown.stderr.contains(doubt), "{shown:?}");
    for mover in ["cat", "tee"] {
        let line = format!(
            "{at}; head -c 8M /dev/zero | \
             $bytepath {mover} --profile bytepath/profile.json --explain-plan | wc -c"
        );
        let moved = shell(&line);
        let words = "by what was measured on this machine, while others worked: measure again when \
                     it is idle (bytepath tune --profile bytepath/profile.json)";
        assert!(moved.stdout == "8388608\n" && moved.stderr.contains(words), "{moved:?}");
    }
    if Machine::this().allowed_cpus().len() == 1 {
        println!("skipped: with one CPU nothing is measured of a second");
        return;
    }
    let found = shell(&format!("{at}; $bytepath doctor --json -")).json();
    let findings = found["findings"].as_array().expect("findings");
    let one = findings.iter().find(|one| one["name"] == "wake-ups").expect("it is looked at");
    assert_eq!((&one["verdict"], &one["why"]), (&"unknown".into(), &doubt.into()));
    assert_eq!(one["setting"], "bytepath tune");
    let found = shell(&format!("{at}; $bytepath doctor --profile ./bytepath/profile.json"));
    let named = "bytepath tune --profile ./bytepath/profile.json";
    assert!(found.stdout.contains(named), "{found:?}");
    let ran = shell(&format!("{at}; $bytepath run --explain-plan 'echo a | cat'"));
    assert!(ran.stderr.contains(doubt) && !ran.stderr.contains("times as much"), "{ran:?}");
}

/// As `bytepath run` does with its stages.
#[test]
fn a_mover_that_is_placed_by_others_goes_on_by_the_profile() {
    let allowed = Machine::this().allowed_cpus();
    if allowed.len() == 1 {
        println!("skipped: with one CPU nobody is placed");
        return;
    }
    let profile = by_hand(json!([{ "source": "pipe", "sink": "pipe", "choices": [splice()] }]));
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(folder.path().join("bytepath")).expect("a folder");
    let path = folder.path().join("bytepath/profile.json");
    std::fs::write(&path, profile.to_string()).expect("written");
    let mut mover = bytepath(&["cat", "--explain-plan"]);
    mover.env("XDG_STATE_HOME", folder.path());
    mover.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut mover = mover.spawn().expect("it starts");
    let mut input = mover.stdin.take().expect("a pipe");
    let mut output = mover.stdout.take().expect("a pipe");
    input.write_all(b"begun").expect("written");
    output.read_exact(&mut [0; 5]).expect("it has begun");
    let mut one = CpuSet::new();
    one.set(allowed.first().expect("a CPU"));
    sched_setaffinity(Some(Pid::from_child(&mover)), &one).expect("placed");
    let feeder = std::thread::spawn(move || input.write_all(&[0; 4 << 20]));
    assert_eq!(std::io::copy(&mut output, &mut std::io::sink()).expect("read"), 4 << 20);
    feeder.join().expect("it ends").expect("written");
    let done = mover.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(said.contains("by what was measured on this machine"), "{said}");
}

#[test]
fn a_check_tells_the_planners_regret_pair_by_pair() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("profile.json");
    std::fs::write(&profile, by_hand(json!([])).to_string()).expect("written");
    let words = ["tune", "--check", "--profile", text(&profile), "--dir", text(folder.path())];
    let more = ["--blocks", "3", "--bytes", "256K"];
    let done = run(&mut bytepath(&[&words[..], &more].concat()));
    // Samples as small as these say nothing of speed: either verdict will do that its interval bears out.
    let mut behind = 0;
    for pair in PAIRS {
        let line = done.stdout.lines().rfind(|line| line.starts_with(pair));
        let line = line.unwrap_or_else(|| panic!("{pair} is not in {done:?}"));
        let is_behind = line.ends_with("TOO FAR BEHIND");
        behind += u32::from(is_behind);
        let high = line.split_once(']').and_then(|(before, _)| before.rsplit_once(", "));
        let high: f64 = high
            // Of thousands only the letter tells, and nothing is asked of them here.
            .and_then(|(_, high)| high.trim_end_matches(char::is_alphabetic).parse().ok())
            .unwrap_or_else(|| panic!("no interval in {line:?}: {done:?}"));
        // Shown with two digits.
        assert!(if is_behind { high <= 0.95 } else { high >= 0.95 }, "{line}");
    }
    let pairs = if behind == 1 { "1 pair".to_owned() } else { format!("{behind} pairs") };
    let told = format!("the planner is more than 5% behind the best fixed choice on {pairs}; run");
    assert_eq!(done.stderr.contains(&told), behind > 0, "{done:?}");
    assert!(!done.stderr.contains("could not be compared"), "{done:?}");
    assert_eq!(done.status.code(), Some(i32::from(behind > 0)), "{done:?}");
}

#[test]
fn a_profile_of_another_machine_is_shown_and_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("profile.json");
    let mut other = by_hand(json!([]));
    other["machine"]["kernel"] = "2.4.0".into();
    other["machine"]["boot_id"] = "of another run".into();
    std::fs::write(&profile, other.to_string()).expect("written");
    let words = ["tune", "--profile", text(&profile), "--dir", text(folder.path())];
    let again = format!("run bytepath tune --profile {} again", text(&profile));
    let stale = ["stale", "2.4.0", again.as_str()];
    let shown = run(&mut bytepath(&[&words[..3], &["--show"]].concat())).refused(1, &stale);
    assert!(shown.stdout.contains("2.4.0"), "{shown:?}");
    run_for_nobody(&mut bytepath(&[&words[..3], &["--show"]].concat())).refused(1, &stale);
    run(&mut bytepath(&[&words[..], &["--check"]].concat())).refused(1, &stale);
}

#[test]
fn a_place_that_is_gone_is_remarked_on_and_its_figures_go() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("profile.json");
    let place = json!({
        "directory": folder.path(), "file_system": "of before", "options": [], "device": 7,
    });
    let pair = |source, sink| json!({ "source": source, "sink": sink, "place": place, "choices": [splice()] });
    let other = by_hand(json!([pair("file", "file"), pair("file", "pipe")]));
    std::fs::write(&profile, other.to_string()).expect("written");
    let words = ["tune", "--show", "--profile", text(&profile)];
    let shown = run(&mut bytepath(&words));
    assert_eq!(shown.status.code(), Some(0), "{shown:?}");
    assert_eq!(shown.stderr.matches("was on of before and is on").count(), 1, "{shown:?}");
    assert!(!shown.stderr.contains("stale"), "{shown:?}");
    tuned(&profile, folder.path(), &[]).well();
    run(&mut bytepath(&words)).well();
    assert_eq!(json(&profile)["pairs"].as_array().map(Vec::len), Some(PAIRS.len()));
}

#[test]
fn names_in_a_profile_do_not_command_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("profile.json");
    let choice = json!({
        "route": "splice\u{1b}[3m", "gib_per_s": 7.0, "ci95": null, "overall_gib_per_s": 7.0, "cpu_s_per_gib": 0.1,
    });
    let other = json!({
        "schema": "bytepath.profile/1", "made": "now\u{1b}[1m", "bytepath": "0.1.0",
        "machine": MachineKey::of(Machine::this()),
        "costs": [{ "name": "system call\u{1b}[2m", "unit": "ns", "value": 100.0 }],
        "pairs": [{ "source": "pipe", "sink": "pipe", "choices": [choice] }],
    });
    std::fs::write(&profile, other.to_string()).expect("written");
    let shown = run(&mut bytepath(&["tune", "--show", "--profile", text(&profile)])).well();
    assert!(["[1m", "[2m"].iter().all(|name| shown.stdout.contains(name)), "{shown:?}");
    assert!(!shown.stdout.contains('\u{1b}'), "{shown:?}");
}

/// And not the medians, by which another may be faster.
#[test]
fn the_table_shows_the_figures_that_the_planner_goes_by() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("profile.json");
    let choice = |route, chunk_bytes, median, overall| {
        json!({
            "route": route, "chunk_bytes": chunk_bytes, "gib_per_s": median, "ci95": null,
            "overall_gib_per_s": overall, "cpu_s_per_gib": 0.1,
        })
    };
    let choices =
        [choice("read-write", Some(128 << 10), 9.0, 1.25), choice("splice", None, 2.0, 5.0)];
    let other = by_hand(json!([{ "source": "pipe", "sink": "pipe", "choices": choices }]));
    std::fs::write(&profile, other.to_string()).expect("written");
    let shown = run(&mut bytepath(&["tune", "--show", "--profile", text(&profile)])).well();
    let line = shown.stdout.lines().find(|line| line.contains("pipe -> pipe")).expect("a line");
    let words: Vec<_> = line.split_whitespace().skip(3).collect();
    assert_eq!(words, ["5.00", "4.00x", "splice"], "{shown:?}");
}

#[test]
fn bad_profiles_and_places_are_refused_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = |name: &str| text(&folder.path().join(name)).to_owned();
    std::fs::write(name("corrupt"), "{\"schema\": 7").expect("written");
    std::fs::write(name("other"), "{\"schema\": \"bytepath.profile/0\"}").expect("written");
    let shown = |file: &str| run(&mut bytepath(&["tune", "--show", "--profile", &name(file)]));
    shown("corrupt").refused(1, &["is no profile", "run bytepath tune"]);
    shown("other").refused(1, &["bytepath.profile/0", "run bytepath tune --profile", "again"]);
    shown("absent").refused(1, &["there is no profile", "run bytepath tune"]);
    // Nobody waits for what a FIFO in its place might give.
    let (here, rights) = (rustix::fs::CWD, rustix::fs::Mode::RUSR);
    rustix::fs::mknodat(here, name("fifo"), rustix::fs::FileType::Fifo, rights, 0).expect("made");
    shown("fifo").refused(1, &["is no profile", "not a regular file"]);
    run(&mut bytepath(&["cat", "--profile", &name("fifo"), &name("corrupt")]))
        .refused(1, &["not a regular file"]);
    let profile = name("profile.json");
    let words = ["tune", "--profile", &profile, "--dir", "/no/such/folder"];
    run(&mut bytepath(&words)).refused(1, &["cannot measure in /no/such/folder"]);
    let words = ["tune", "--profile", "/proc/bytepath/profile.json"];
    run(&mut bytepath(&words)).refused(1, &["cannot make /proc/bytepath", "--profile FILE"]);
    let words = ["tune", "--profile", &profile, "--dir", "/proc"];
    run(&mut bytepath(&words))
        .refused(1, &["cannot make files of 67108864 bytes in /proc", "--dir"]);
    run(&mut bytepath(&["tune", "--show", "--check"])).refused(2, &["--show"]);
    run(&mut bytepath(&["tune", "--blocks", "0"])).refused(2, &["--blocks"]);
    let check = |more: &[&str]| run(&mut bytepath(&[&["tune", "--check"], more].concat()));
    check(&["--blocks", "2"]).refused(2, &["--check --blocks 2", "no interval"]);
    let json = name("check.json");
    check(&["--json", &json]).refused(2, &["--check", "--json"]);
    assert!(!Path::new(&json).exists());
}

#[test]
fn without_a_home_the_profile_has_to_be_named() {
    let words = ["tune", "--show"];
    let mut homeless = bytepath(&words);
    homeless.env_remove("HOME").env_remove("XDG_STATE_HOME");
    run(&mut homeless).refused(2, &["--profile FILE"]);
}

#[test]
fn a_profile_that_is_not_kept_is_an_error_also_where_nobody_reads_what_was_measured() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = ["tune", "--profile", "/dev/full", "--dir", text(folder.path())];
    run_for_nobody(&mut bytepath(&[&words[..], &SHORT].concat()))
        .refused(1, &["cannot write /dev/full", "No space left"]);
}

/// So that a profile can come to prefer a route that is not measured by itself.
#[test]
fn a_route_that_is_asked_for_is_measured_and_planned_by() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("profile.json");
    let routes = ["--route", "mmap-write", "--route", "mmap-write"];
    let done = tuned(&profile, folder.path(), &routes);
    assert_eq!((done.status.code(), done.stderr.as_str()), (Some(0), ""), "{done:?}");
    let mut kept = json(&profile);
    let pairs = kept["pairs"].as_array_mut().expect("pairs");
    let both_files = |pair: &&mut Value| pair["source"] == "file" && pair["sink"] == "file";
    let pair = pairs.iter_mut().find(both_files).expect("it is measured");
    let choices = pair["choices"].as_array_mut().expect("choices");
    let is_it = |choice: &&mut Value| choice["route"] == "mmap-write";
    assert_eq!(choices.iter_mut().filter(is_it).count(), 1, "{choices:?}");
    // Had it been the best, it would be taken.
    let best = choices.iter_mut().find(is_it).expect("it is there");
    for figure in ["gib_per_s", "overall_gib_per_s"] {
        best[figure] = 1e6.into();
    }
    std::fs::write(&profile, kept.to_string()).expect("written");
    std::fs::write(folder.path().join("from"), vec![1; 20 << 20]).expect("written");
    let at = format!("cd {}", text(folder.path()));
    let copied = shell(&format!(
        "{at}; $bytepath cat --profile profile.json --explain-plan from 2>&1 1<>to; cmp from to"
    ));
    assert!(
        copied
            .well()
            .stdout
            .contains("1. mmap-write: only by name, or where `bytepath tune --route")
    );
}

#[test]
fn every_route_of_movers_gives_figures_somewhere_or_says_why_it_does_not_and_no_other_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("profile.json");
    let (movers, others): (Vec<&str>, Vec<&str>) =
        ROUTES.iter().map(|route| route.name()).partition(|name| *name != "tee");
    for name in others.into_iter().chain(["none"]) {
        let refused = tuned(&profile, folder.path(), &["--route", name]);
        let told = format!("invalid value '{name}' for '--route <NAME>'");
        let all = format!("[possible values: {}]", movers.join(", "));
        refused.refused(2, &[&told, &all]);
        assert!(!profile.exists(), "nothing is measured");
    }
    let asked: Vec<&str> = movers.iter().flat_map(|name| ["--route", *name]).collect();
    let done = tuned(&profile, folder.path(), &asked);
    let kept = json(&profile).to_string();
    for name in movers {
        let has_figure = kept.contains(&format!("\"route\":\"{name}\""));
        let is_told = done.stderr.contains(&format!("--route {name}: "));
        assert!(has_figure || is_told, "{name}: {done:?}");
    }
}

#[test]
fn a_route_that_the_file_system_refuses_is_told_with_its_reason() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else {
        println!("skipped: no /dev/shm, which shares no blocks");
        return;
    };
    let profile = folder.path().join("profile.json");
    let routes = ["--route", "reflink"];
    let check = [&routes[..], &["--check", "--blocks", "3", "--bytes", "256K"]].concat();
    let dir = ["tune", "--profile", text(&profile), "--dir", text(folder.path())];
    let measured = tuned(&profile, folder.path(), &routes);
    let checked = run(&mut bytepath(&[&dir[..], &check].concat()));
    for done in [measured, checked] {
        assert!(done.stderr.contains("--route reflink: file to file: "), "{done:?}");
    }
}

#[test]
fn an_interrupted_tune_leaves_the_old_profile_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let profile = folder.path().join("profile.json");
    std::fs::write(&profile, "the old one").expect("written");
    let line = format!(
        "timeout -s INT 1 {BYTEPATH} tune --profile {0}/profile.json --dir {0} --blocks 1000; \
         echo ended $?",
        text(folder.path())
    );
    let done = shell(&line);
    assert!(done.stdout.contains("ended 124"), "{done:?}");
    assert_eq!(std::fs::read_to_string(&profile).expect("it is there"), "the old one");
    assert_eq!(std::fs::read_dir(folder.path()).expect("it lists").count(), 1);
}
