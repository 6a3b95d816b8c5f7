//! `bytepath history`, and how runs come into the store: real runs, two at once, full disks, damage.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{BYTEPATH, Done, bytepath, may_mount, root_as_nobody, run, shell, spawned};

/// An experiment that takes a tenth of a second.
const BENCH: [&str; 8] =
    ["bench", "overhead", "--blocks", "3", "--time", "2ms", "--warm-up", "1ms"];

/// A store of its own.
pub(crate) struct Yard {
    folder: TempDir,
}

impl Yard {
    pub(crate) fn new() -> Yard {
        Yard { folder: tempfile::tempdir().expect("a folder") }
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn records(&self) -> PathBuf {
        self.path().join("bytepath/records")
    }

    fn index(&self) -> PathBuf {
        self.path().join("bytepath/index-1.sqlite")
    }

    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = bytepath(words);
        command.env("XDG_DATA_HOME", self.path());
        command
    }

    #[track_caller]
    pub(crate) fn run(&self, words: &[&str]) -> Done {
        run(&mut self.command(words))
    }

    /// The runs, as `history --json` lists them.
    #[track_caller]
    fn listed(&self) -> Vec<Value> {
        let list = self.run(&["history", "--json", "-"]).well().json_of("history");
        list["runs"].as_array().expect("a list").clone()
    }

    /// The names of the runs.
    #[track_caller]
    pub(crate) fn names(&self) -> Vec<String> {
        self.listed().iter().map(|run| run["run"].as_str().expect("a name").to_owned()).collect()
    }

    /// Measures, and gives the record.
    #[track_caller]
    pub(crate) fn measured(&self) -> Value {
        self.run(&[&BENCH[..], &["--json", "-"]].concat()).well().json()
    }

    /// Puts a record into the store, as somebody who copies files would.
    pub(crate) fn put(&self, name: &str, record: &Value) -> String {
        std::fs::create_dir_all(self.records()).expect("a folder");
        let path = self.records().join(format!("{name}.json"));
        std::fs::write(&path, record.to_string()).expect("it is written");
        path.to_str().expect("plain letters").to_owned()
    }
}

#[test]
fn every_run_is_kept_listed_shown_exported_and_removed() {
    let yard = Yard::new();
    let said = yard.run(&["history"]).well().stdout;
    assert!(said.contains("no run is kept in") && said.contains("bytepath bench"), "{said}");
    let said = yard.run(&BENCH).well().stdout;
    let kept = said.trim_end().lines().last().expect("a line").strip_prefix("kept as ");
    let name = kept.unwrap_or_else(|| panic!("{said}")).to_owned();
    assert_eq!(yard.names(), std::slice::from_ref(&name));
    let listed = &yard.listed()[0];
    assert_eq!(listed["experiment"], "overhead");
    assert_eq!((&listed["blocks"], &listed["arms_ok"]), (&json!(3), &json!(2)));
    let shown = yard.run(&["history", "show", "last"]).well().stdout;
    assert!(said.starts_with(&shown), "{shown}\nis not what bench said:\n{said}");
    let file = yard.path().join("exported.json");
    yard.run(&["history", "export", &name, "-o", file.to_str().expect("plain")]).well();
    let exported: Value =
        serde_json::from_slice(&std::fs::read(&file).expect("it is there")).expect("JSON");
    assert_eq!(exported["id"], name);
    // Where the runs are nothing else is written.
    let (kept, index) = (yard.records().join(format!("{name}.json")), yard.index());
    for (words, into) in [
        (&["history", "export", "last", "-o"][..], &kept),
        (&["report", "last", "-o"], &kept),
        (&["history", "--json"], &index),
        (&["history", "export", "last", "-o"], &yard.records().join("new.json")),
    ] {
        let before = std::fs::read(into).ok();
        let into_it = [words, &[into.to_str().expect("plain")]].concat();
        yard.run(&into_it).refused(2, &["among the runs that bytepath keeps", "another folder"]);
        assert_eq!(std::fs::read(into).ok(), before, "{words:?}");
    }
    let end = name.rsplit('-').next().expect("an end");
    let piped = yard.run(&["history", "export", end]).well().json();
    assert_eq!(piped, exported, "the end of an id names it");
    assert_eq!(yard.run(&["history", "rm", "last"]).well().stdout, format!("removed {name}\n"));
    assert_eq!(yard.names(), [] as [String; 0]);
    yard.run(&["history", "show", "last"]).refused(1, &["no run is kept"]);
}

#[test]
fn a_run_that_is_not_to_be_kept_is_not() {
    let yard = Yard::new();
    let said = yard.run(&[&BENCH[..], &["--no-store"]].concat()).well().stdout;
    assert!(!said.contains("kept as"), "{said}");
    assert_eq!(std::fs::read_dir(yard.path()).expect("it lists").count(), 0);
}

#[test]
fn runs_are_listed_in_the_order_of_time_and_last_counts_back() {
    let yard = Yard::new();
    let mut record = yard.measured();
    for (name, started) in [("c", "2026-01-03"), ("a", "2026-01-01"), ("b", "2026-01-02")] {
        record["started"] = json!(format!("{started}T00:00:00Z"));
        yard.put(name, &record);
    }
    let names = yard.names();
    assert_eq!(names[..3], ["a", "b", "c"], "the run of today is last: {names:?}");
    let exported = |word: &str| yard.run(&["history", "export", word]).well().json();
    assert_eq!(exported("last~1")["started"], "2026-01-03T00:00:00Z");
    assert_eq!(exported("last~3")["started"], "2026-01-01T00:00:00Z");
    for far in ["last~4", "last~18446744073709551615"] {
        yard.run(&["history", "show", far]).refused(1, &[far, "only 4 runs are kept"]);
    }
    yard.run(&["history", "show", "last~x"]).refused(2, &["last~x", "last~1"]);
    let limited = yard.run(&["history", "-n", "2"]).well().stdout;
    assert!(limited.contains("\nc ") && !limited.contains("\nb "), "{limited}");
    let other = yard.run(&["history", "--experiment", "pipes"]).well().stdout;
    assert!(other.contains("no run of pipes is kept"), "{other}");
}

#[test]
fn nothing_is_removed_where_one_name_is_wrong() {
    let yard = Yard::new();
    let record = yard.measured();
    yard.put("x-1", &record);
    yard.put("y-1", &record);
    yard.run(&["history", "rm", "x-1", "no-such"]).refused(1, &["no-such", "bytepath history"]);
    yard.run(&["history", "rm", "1"]).refused(1, &["may be x-1 or y-1"]);
    yard.run(&["history", "rm", ""]).refused(1, &["no run \"\""]);
    yard.run(&["history", "rm"]).refused(2, &["RUNS"]);
    assert_eq!(yard.names().len(), 3);
}

#[test]
fn runs_that_end_at_once_are_all_kept_and_looked_at_meanwhile() {
    let yard = Yard::new();
    let mut running: Vec<_> = (0..4)
        .map(|_| {
            // One seed, so one id where they begin in one second.
            let words = [&BENCH[..], &["--seed", "7"]].concat();
            spawned(yard.command(&words).stdout(Stdio::piped()).stderr(Stdio::piped()))
        })
        .collect();
    running.extend((0..4).map(|_| {
        spawned(yard.command(&["history"]).stdout(Stdio::piped()).stderr(Stdio::piped()))
    }));
    for done in running {
        done.done().well();
    }
    assert_eq!(yard.names().len(), 4);
}

#[test]
fn a_damaged_index_is_made_anew_from_the_records_and_says_so_once() {
    let yard = Yard::new();
    yard.measured();
    yard.measured();
    let before = yard.names();
    let sound = std::fs::read(yard.index()).expect("it is there");
    let mut holed = sound.clone();
    holed[100..].iter_mut().step_by(7).for_each(|byte| *byte ^= 0x5a);
    let other = b"SQLite format 3\0 and then nothing".to_vec();
    for damage in [b"no database".to_vec(), sound[..sound.len() / 2].to_vec(), holed, other] {
        std::fs::write(yard.index(), &damage).expect("it is written");
        let done = yard.run(&["history", "--json", "-"]);
        assert!(done.status.success(), "{done:?}");
        assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
        assert!(done.stderr.contains("made anew from 2 records"), "{done:?}");
        assert_eq!(yard.names(), before, "and then it is sound");
    }
    // A database with tables of somebody else.
    std::fs::remove_file(yard.index()).expect("it was there");
    assert_eq!(yard.names(), before, "one that is missing is no damage");
}

#[test]
fn records_that_cannot_be_read_are_listed_with_the_reason_and_harm_nothing() {
    let yard = Yard::new();
    let record = yard.measured();
    let good = yard.names();
    let text = record.to_string();
    let write = |name: &str, text: &[u8]| {
        std::fs::write(yard.records().join(name), text).expect("it is written");
    };
    write("truncated.json", &text.as_bytes()[..text.len() / 2]);
    write("newer.json", text.replace("bytepath.record/1", "bytepath.record/2").as_bytes());
    write("other.json", b"{\"schema\": \"somebody.else/1\"}");
    write("deep.json", "[".repeat(100_000).as_bytes());
    write("binary.json", &[0xff, 0xfe, 0x00]);
    write("empty.json", b"");
    std::fs::create_dir(yard.records().join("folder.json")).expect("a folder");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        yard.records().join("fifo.json"),
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR,
        0,
    )
    .expect("a FIFO");
    let listed = yard.listed();
    let problem = |name: &str| {
        let run = listed.iter().find(|run| run["run"] == name).expect("it is listed");
        run["problem"].as_str().unwrap_or_default().to_owned()
    };
    assert!(problem("truncated").contains("not JSON"), "{}", problem("truncated"));
    assert!(problem("newer").contains("too new"), "{}", problem("newer"));
    assert!(problem("other").contains("somebody.else/1"), "{}", problem("other"));
    for name in ["deep", "binary", "empty", "folder", "fifo"] {
        assert!(!problem(name).is_empty(), "{name}");
    }
    let said = yard.run(&["history"]).well().stdout;
    assert!(said.contains("truncated cannot be read: not JSON"), "{said}");
    yard.run(&["history", "show", "truncated"]).refused(1, &["truncated.json", "not JSON"]);
    yard.run(&["history", "show", "last"]).well();
    assert_eq!(listed.iter().filter(|run| run["problem"].is_null()).count(), good.len());
    yard.run(&["history", "rm", "truncated", "newer"]).well();
}

#[test]
fn a_record_that_could_not_be_read_once_is_looked_at_again() {
    let yard = Yard::new();
    let mut record = yard.measured();
    record["started"] = json!("2026-01-01T00:00:00Z");
    let path = yard.put("early", &record);
    let written = std::fs::metadata(&path).and_then(|found| found.modified()).expect("its time");
    let text = record.to_string();
    // As an errno that passes does, or an upgrade, these change neither its size nor its time.
    let write = |text: &str| {
        std::fs::write(&path, text).expect("it is written");
        let file = std::fs::File::options().write(true).open(&path).expect("it opens");
        file.set_modified(written).expect("its time");
    };
    let problem =
        || yard.listed().iter().find(|run| run["run"] == "early").map(|run| run["problem"].clone());
    write(&text.replace("bytepath.record/1", "bytepath.record/2"));
    assert!(problem().is_some_and(|problem| problem.to_string().contains("too new")));
    write(&text);
    assert_eq!(problem(), Some(Value::Null));
    yard.run(&["history", "show", "last~1"]).well();
    std::fs::write(&path, "no record").expect("it is written");
    assert!(problem().is_some_and(|problem| problem.is_string()));
    std::fs::remove_file(&path).expect("it was there");
    assert_eq!(problem(), None, "what is gone is not listed, whatever it was");
}

#[test]
fn a_record_that_is_a_link_is_read_as_what_it_leads_to() {
    let yard = Yard::new();
    let record = yard.measured();
    let real = yard.path().join("real");
    std::fs::write(&real, record.to_string()).expect("it is written");
    std::os::unix::fs::symlink(&real, yard.records().join("linked.json")).expect("a link");
    let problem = || {
        yard.listed().iter().find(|run| run["run"] == "linked").map(|run| run["problem"].clone())
    };
    assert_eq!(problem(), Some(Value::Null));
    std::fs::write(&real, "no record").expect("it is written");
    assert!(problem().is_some_and(|problem| problem.is_string()), "what it leads to has changed");
    std::fs::remove_file(&real).expect("it was there");
    assert!(problem().is_some_and(|problem| problem.is_string()), "it leads nowhere");
}

#[test]
fn a_hostile_name_cannot_command_the_terminal() {
    let yard = Yard::new();
    let mut record = yard.measured();
    record["experiment"]["name"] = json!("\u{1b}[2Jpipes");
    yard.put("hostile\u{1b}[31m", &record);
    for words in [&["history"][..], &["history", "show", "hostile\u{1b}[31m"]] {
        let said = yard.run(words).well().stdout;
        assert!(said.contains("pipes") && !said.contains('\u{1b}'), "{said:?}");
    }
}

/// A run where nothing can be kept.
#[track_caller]
fn is_shown_though_not_kept(done: &Done, why: &str) {
    assert!(done.status.success(), "{done:?}");
    assert_eq!(done.stderr.lines().count(), 1, "{done:?}");
    assert!(done.stderr.contains("the run is not kept") && done.stderr.contains(why), "{done:?}");
    assert!(done.stdout.contains("bare-loop") && !done.stdout.contains("kept as"), "{done:?}");
}

#[test]
fn a_run_that_cannot_be_kept_is_shown_all_the_same() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    std::fs::write(&file, b"").expect("it is written");
    let done = run(bytepath(&BENCH).env("XDG_DATA_HOME", file));
    is_shown_though_not_kept(&done, "Not a directory");
    let mut homeless = bytepath(&BENCH);
    let done = run(homeless.env_remove("HOME").env_remove("XDG_DATA_HOME"));
    assert!(done.status.success() && done.stderr.contains("no HOME"), "{done:?}");
    for home in ["", "here"] {
        let done = run(homeless.env("HOME", home));
        let why = format!("no absolute path in HOME ({home:?}) and no XDG_DATA_HOME");
        assert!(done.status.success() && done.stderr.contains(&why), "{done:?}");
    }
}

#[test]
fn a_full_disk_loses_no_figures() {
    if !may_mount() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // Nobody else sees it, and it is gone with the lines.
    let on_disk = |lines: &str| {
        shell(&format!(
            "export XDG_DATA_HOME={}; unshare -m sh -c 'mount -t tmpfs -o size=64k none $XDG_DATA_HOME && \
             cd $XDG_DATA_HOME && {lines}'",
            folder.path().display()
        ))
    };
    let (bench, fill) = (BENCH.join(" "), "head -c 60K /dev/zero >filler");
    let done = on_disk(&format!("{fill} && $bytepath {bench} && find . -name \"*.new-*\""));
    is_shown_though_not_kept(&done, "No space left");
    assert!(!done.stdout.contains(".new-"), "{done:?}");
    // There is room for a record, and none for an index.
    let done =
        on_disk(&format!("$bytepath {bench} >&2 && {{ {fill} 2>/dev/null; $bytepath history; }}"));
    assert!(done.status.success() && done.stdout.contains("overhead"), "{done:?}");
    assert!(done.stderr.contains("no index can be kept"), "{done:?}");
}

#[test]
fn a_store_that_may_only_be_read_is_read() {
    let Some(nobody) = root_as_nobody() else { return };
    let yard = Yard::new();
    let record = yard.measured();
    yard.names();
    let yard_path = yard.path().display();
    let copy = yard.path().join("program");
    std::fs::copy(BYTEPATH, &copy).expect("a copy");
    let open = format!("chmod -R go+rX {yard_path} && ");
    let line = format!("{open}XDG_DATA_HOME={yard_path} {nobody}{} history", copy.display());
    assert!(shell(&line).well().stdout.contains("overhead"), "by the index as it is");
    yard.put("new", &record);
    let done = shell(&line);
    assert!(done.status.success() && done.stdout.contains("\nnew "), "{done:?}");
    assert!(done.stderr.contains("no index can be kept"), "{done:?}");
    let bench = format!("XDG_DATA_HOME={yard_path} {nobody}{} {}", copy.display(), BENCH.join(" "));
    let done = shell(&bench);
    assert!(done.status.success() && done.stderr.contains("is not kept"), "{done:?}");
}
