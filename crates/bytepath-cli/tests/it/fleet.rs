//! `fleet` hands its words to a Python that has the package; `piece` does what such a Python asks for, however
//! often it asks. The package's own tests have whole fleets.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use rustix::fs::XattrFlags;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::calls::may_trace;
use crate::program::{BYTEPATH, away_from_home, bytepath, run, shell, until};

fn script(folder: &Path, text: &str) -> std::path::PathBuf {
    let path = folder.join("python3");
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("its mode");
    path
}

#[test]
fn words_of_a_fleet_reach_the_package_as_they_are() {
    let folder = tempfile::tempdir().expect("a folder");
    // It is asked whether it has the package before.
    let python = script(folder.path(), r#"[ $# -lt 3 ] || { shift 2; printf '<%s>' "$@"; }"#);
    let words = ["fleet", "--scheduler", "local:2", "cp", "--jobs_like", "-a", "--help", "a b"];
    let done = run(bytepath(&words).env("BYTEPATH_PYTHON", &python)).well();
    let wanted = "<--scheduler><local:2><cp><--jobs_like><-a><--help><a b>";
    assert_eq!(done.stdout, wanted);
    for words in
        [&["--", "-d", "to"][..], &["--", "--help", "to"], &["-a", "--", "-d", "to"], &["--"]]
    {
        let done =
            run(bytepath(&["fleet", "cp"]).args(words).env("BYTEPATH_PYTHON", &python)).well();
        assert_eq!(done.stdout, format!("<cp><{}>", words.join("><")));
    }
}

#[test]
fn what_lies_in_the_current_directory_is_not_what_a_python_runs() {
    let own = std::process::Command::new("python3").args(["-c", ""]).status();
    if !own.is_ok_and(|status| status.success()) {
        println!("skipped: no python3 is installed");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (here, package) = (folder.path().join("here"), folder.path().join("there/bytepath/fleet"));
    for module in ["argparse", "importlib", "runpy", "sys", "bytepath/fleet"] {
        let module = here.join(module);
        fs::create_dir_all(&module).expect("a folder");
        fs::write(module.join("__init__.py"), "open('ran', 'w')").expect("a module");
    }
    fs::create_dir_all(&package).expect("a folder");
    fs::write(package.join("__init__.py"), "").expect("a module");
    let main = "import argparse, importlib, sys\nprint(__name__, sys.argv[1:])";
    fs::write(package.join("__main__.py"), main).expect("a module");
    let mut command = bytepath(&["fleet", "doctor", "a b"]);
    command.env("BYTEPATH_PYTHON", "python3").env("PYTHONPATH", folder.path().join("there"));
    let done = run(command.current_dir(&here)).well();
    assert_eq!(done.stdout, "__main__ ['doctor', 'a b']\n");
    assert!(!here.join("ran").exists());
}

#[test]
fn a_python_without_the_package_is_named_with_the_remedy() {
    let folder = tempfile::tempdir().expect("a folder");
    let python = script(folder.path(), "exit 1");
    let done = run(bytepath(&["fleet", "doctor"]).env("BYTEPATH_PYTHON", &python));
    done.refused(1, &["target/dist/out/", "BYTEPATH_PYTHON", "python3"]);
}

#[test]
fn completions_know_what_a_fleet_does() {
    let said = run(&mut bytepath(&["completions", "bash"])).well().stdout;
    for command in ["bench", "tune", "doctor", "compare", "cp"] {
        let known = said.lines().any(|line| line.contains("fleet") && line.contains(command));
        assert!(known, "{command}");
    }
}

#[test]
fn help_of_what_a_fleet_does_needs_no_python() {
    let done = run(bytepath(&["fleet", "cp", "--help"]).env("BYTEPATH_PYTHON", "/nonexistent"));
    let help = done.well().stdout;
    assert!(help.contains("Usage: bytepath fleet cp [OPTIONS] <SOURCE> <DEST>"), "{help}");
}

#[test]
fn help_of_an_experiment_needs_neither_python_nor_scheduler() {
    let asked = |words: &[&str]| {
        let mut command = bytepath(&["fleet", "bench"]);
        command.args(words).env("BYTEPATH_PYTHON", "/nonexistent");
        run(command.env_remove("DASK_SCHEDULER_ADDRESS").env_remove("BYTEPATH_SCHEDULER"))
    };
    for words in [&["pipes", "-h"][..], &["--json", "file", "pipes", "--quick", "-h", "--pages"]] {
        let (help, own) =
            (asked(words).well().stdout, run(&mut bytepath(&["bench", "pipes", "-h"])));
        assert_eq!(help, own.well().stdout);
    }
    // It is the command's own there.
    asked(&["cmd", "--", "--help"]).refused(1, &["BYTEPATH_PYTHON"]);
}

/// The options of each of the package's commands, with what their values are called and may be, and their help.
/// Of the packages that it needs, none has to be there for its parser.
const OPTIONS_OF_THE_PACKAGE: &str = r"
import argparse, importlib, json, sys, types, unittest.mock
for name in ('distributed', 'distributed.security', 'distributed.utils', 'distributed.versions', 'dask', 'jinja2', 'bytepath._native', 'bytepath._bytepath'):
    sys.modules[name] = unittest.mock.MagicMock()
package = types.ModuleType('bytepath')
package.__path__ = [sys.argv[1] + '/bytepath']
sys.modules['bytepath'] = package
parser = importlib.import_module('bytepath.fleet.__main__').parser()
commands = next(a for a in parser._actions if isinstance(a, argparse._SubParsersAction)).choices
print(json.dumps({
    name: [[a.option_strings, a.metavar, a.choices, a.help] for a in command._actions]
    for name, command in commands.items()
}))";

#[test]
fn what_help_says_of_a_fleet_is_what_the_package_takes() {
    let new_enough = ["-c", "import sys; sys.exit(sys.version_info < (3, 10))"];
    let python = std::process::Command::new("python3").args(new_enough).status();
    if !python.is_ok_and(|status| status.success()) {
        println!("skipped: no python3 of 3.10 or later is installed");
        return;
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python");
    let mut python = std::process::Command::new("python3");
    let told = run(python.arg("-Bc").arg(OPTIONS_OF_THE_PACKAGE).arg(package)).well().json();
    let script = run(&mut bytepath(&["completions", "bash"])).well().stdout;
    let told = told.as_object().expect("by command");
    assert_eq!(told.len(), 5);
    for (command, options) in told {
        let help = run(&mut bytepath(&["fleet", command, "--help"])).well().stdout;
        let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
        let mut named: Vec<&str> = Vec::new();
        for option in options.as_array().expect("a list") {
            let text = |at: usize| option[at].as_str().unwrap_or_default();
            let names = option[0].as_array().expect("a list").iter().filter_map(Value::as_str);
            let names: Vec<&str> = names.collect();
            let long = names.last().copied().unwrap_or_default();
            named.extend(names);
            let sentence = text(3).to_lowercase();
            if long == "--help" {
                continue;
            }
            assert!(
                help.to_lowercase().contains(&sentence),
                "{command} {long}: {sentence}: {help}"
            );
            let choices = option[2].as_array().map(|all| {
                let all: Vec<_> = all.iter().filter_map(Value::as_str).collect();
                format!("[possible values: {}]", all.join(", "))
            });
            assert!(
                help.contains(&choices.clone().unwrap_or_default()),
                "{command} {long}: {help}"
            );
            let value = if choices.is_some() { "WHEN" } else { text(1) };
            let called = if value.is_empty() { long.into() } else { format!("{long} <{value}>") };
            let takes = long.is_empty() || help.contains(&format!("{called} "));
            assert!(takes, "{command} {called}: {help}");
        }
        let section = format!("bytepath__subcmd__fleet__subcmd__{command})");
        let mut lines = script.lines().map(str::trim).skip_while(|line| *line != section).skip(1);
        let known = lines.next().and_then(|line| line.strip_prefix("opts=\"")?.strip_suffix('"'));
        let mut known: Vec<&str> = known.expect("its options").split(' ').collect();
        known.sort_unstable();
        named.sort_unstable();
        assert_eq!(known, named, "{command}");
    }
}

/// A process that does pieces.
struct Piece {
    child: Child,
    answers: BufReader<std::process::ChildStdout>,
}

impl Piece {
    fn new(folder: &Path, token: &str) -> Piece {
        Piece::after("", folder, token, &["-a"])
    }

    /// One that is begun by a shell, after these lines.
    fn after(lines: &str, folder: &Path, token: &str, options: &[&str]) -> Piece {
        Piece::of(None, lines, folder, token, options)
    }

    /// One that copies only this directory, by its device and inode.
    fn of(root: Option<&str>, lines: &str, folder: &Path, token: &str, options: &[&str]) -> Piece {
        let path = |name| folder.join(name).into_os_string().into_string().expect("UTF-8");
        let (source, sink, own) = (path("from"), path("to"), path("to/run"));
        let words = ["piece", "--source", &source, "--destination", &sink, "--run", &own];
        let root = root.map_or(vec![], |root| vec!["--root", root]);
        let words = [&words[..], &root, &["--token", token, "--"], options].concat();
        let mut shell = std::process::Command::new("sh");
        let command =
            shell.args(["-c", &format!("{lines}\nexec \"$0\" \"$@\""), BYTEPATH]).args(words);
        let command = away_from_home(command).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let answers = BufReader::new(child.stdout.take().expect("it is piped"));
        Piece { child, answers }
    }

    fn ask(&mut self, items: Value) -> Value {
        self.request(json!({ "items": items, "budget_ms": 10_000 }));
        self.answer()
    }

    fn request(&mut self, request: Value) {
        let stdin = self.child.stdin.as_mut().expect("it is piped");
        writeln!(stdin, "{request}").expect("it reads");
    }

    fn answer(&mut self) -> Value {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("it answers");
        serde_json::from_str(&line).expect("JSON")
    }
}

impl Drop for Piece {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn prepared(folder: &Path) -> Piece {
    fs::create_dir_all(folder.join("from/d")).expect("a folder");
    fs::write(folder.join("from/d/f"), b"all of it").expect("a file");
    let mut piece = Piece::new(folder, "one");
    let answer = piece.ask(json!([{ "do": "prepare", "stages": [0, 1] }]));
    assert_eq!(answer["failed"], json!([]));
    piece
}

#[test]
fn a_piece_that_is_done_again_replaces_what_another_left_half() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut piece = prepared(folder.path());
    let copy = folder.path().join("to/d/f");
    fs::create_dir(folder.path().join("to/d")).expect("a folder");
    // As somebody leaves it who is stopped in the middle, and still has it open.
    let mut half = fs::File::create(&copy).expect("a file");
    half.write_all(b"all").expect("room");
    let tree = json!([{ "do": "tree", "d": "", "w": 1.0 }]);
    assert_eq!(piece.ask(tree.clone())["files"], 1);
    assert_eq!(fs::read(&copy).expect("a file"), b"all of it");
    half.write_all(b" of what was long ago").expect("room");
    assert_eq!(fs::read(&copy).expect("a file"), b"all of it");
    let before = fs::metadata(&copy).expect("a file").ino();
    assert_eq!(piece.ask(tree)["files"], 1);
    assert_ne!(fs::metadata(&copy).expect("a file").ino(), before);
}

#[test]
fn a_large_directory_is_copied_however_often_what_is_left_of_it_is_given_back() {
    const EACH: usize = 300;
    let folder = tempfile::tempdir().expect("a folder");
    let mut piece = prepared(folder.path());
    let (from, to) = (folder.path().join("from/d"), folder.path().join("to/d"));
    for number in 0..EACH {
        fs::create_dir(from.join(format!("dir{number}"))).expect("a folder");
        fs::write(from.join(format!("dir{number}/in")), "in").expect("a file");
        fs::write(from.join(format!("file{number}")), number.to_string()).expect("a file");
        symlink(number.to_string(), from.join(format!("link{number}"))).expect("a link");
    }
    let mut left = vec![json!({ "do": "tree", "d": "", "w": 1.0 })];
    let (mut files, mut weight) = (0, 0.0);
    for _ in 0..EACH * 8 {
        let Some(next) = left.pop() else { break };
        // There is no time for more than an entry of it.
        piece.request(json!({ "items": [next], "budget_ms": 0 }));
        let answer = piece.answer();
        assert_eq!((&answer["failed"], &answer["told"]), (&json!([]), &json!([])), "{next}");
        left.extend(answer["rest"].as_array().expect("a list").clone());
        files += answer["files"].as_u64().expect("a number");
        weight += answer["w"].as_f64().expect("a number");
    }
    assert_eq!((left, files), (vec![], 2 * EACH as u64 + 1));
    assert!((weight - 1.0).abs() < 1e-6, "{weight}");
    for number in 0..EACH {
        let read = |name: String| fs::read_to_string(to.join(name)).expect("a file");
        assert_eq!(read(format!("dir{number}/in")), "in");
        assert_eq!(read(format!("file{number}")), number.to_string());
        let link = fs::read_link(to.join(format!("link{number}"))).expect("a link");
        assert_eq!(link.as_os_str(), number.to_string().as_str());
    }
}

#[test]
fn nothing_is_put_into_what_gets_the_name_of_the_destination_meanwhile() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let mut piece = prepared(folder.path());
    fs::write(at("from/d/f"), vec![7; 4 << 10]).expect("a file");
    fs::create_dir(at("from/e")).expect("a folder");
    fs::write(at("from/e/f"), "of the other").expect("a file");
    let tree = |name: &str| json!({ "do": "tree", "d": name, "w": 1.0 });
    let items = [tree("d"), tree("e")];
    // Behind the first file it waits.
    piece.request(json!({ "items": items, "budget_ms": 60_000, "bytes_per_second": 1 << 10 }));
    until("the first file", || at("to/d/f").exists());
    fs::rename(at("to"), at("before")).expect("it is there");
    fs::create_dir(at("to")).expect("a folder");
    let answer = piece.answer();
    assert_eq!((&answer["files"], &answer["failed"]), (&json!(2), &json!([])), "{answer}");
    assert_eq!(fs::read(at("before/e/f")).expect("a file"), b"of the other");
    assert_eq!(fs::read_dir(at("to")).expect("a folder").count(), 0);
}

#[test]
fn what_was_copied_before_something_failed_counts() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut piece = prepared(folder.path());
    fs::write(folder.path().join("from/f"), [7; 1000]).expect("a file");
    // It comes after the file, also where it was found first.
    fs::write(folder.path().join("to/d"), "no folder").expect("a file");
    let answer = piece.ask(json!([{ "do": "tree", "d": "", "w": 1.0 }]));
    assert_eq!(answer["failed"].as_array().map(Vec::len), Some(1), "{answer}");
    assert_eq!((&answer["files"], &answer["bytes"]), (&json!(1), &json!(1000)), "{answer}");
}

/// A large file of so many MiB that was begun, as its parts are asked for.
fn begun(folder: &Path, piece: &mut Piece, mebibytes: u64) -> Value {
    let bytes: Vec<u8> = (0..mebibytes << 20).map(|at| (at / 4093) as u8).collect();
    fs::write(folder.join("from/large"), bytes).expect("room");
    let answer = piece.ask(json!([{ "do": "begin", "f": "large", "k": 1, "w": 1.0 }]));
    let mut of = answer["begun"][0].clone();
    (of["f"], of["cloned"], of["size"]) = (json!("large"), Value::Null, Value::Null);
    of
}

/// This part of it.
fn part(of: &Value, do_what: &str, fields: Value) -> Value {
    let mut part = of.clone();
    let fields = fields.as_object().expect("fields").clone();
    part.as_object_mut().expect("fields").extend(fields);
    part.as_object_mut().expect("fields").retain(|_, value| !value.is_null());
    part["do"] = json!(do_what);
    part
}

#[test]
fn what_was_copied_of_a_range_before_it_failed_counts_and_is_not_copied_again() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(prepared(folder.path()));
    let options = ["-a", "--reflink=never"];
    let mut piece = Piece::after("", folder.path(), "two", &options);
    let of = begun(folder.path(), &mut piece, 32);
    // No file gets longer than 20 MiB: the second step fails in its midst.
    let limit = "trap '' XFSZ; ulimit -f 40960";
    let mut limited = Piece::after(limit, folder.path(), "three", &options);
    let range = part(&of, "range", json!({ "a": 0, "z": 32 << 20, "w": 1.0 }));
    let answer = limited.ask(json!([range]));
    let (failed, half) = (&answer["failed"][0]["item"], json!(16 << 20));
    assert_eq!((&failed["a"], &failed["z"]), (&half, &json!(32 << 20)), "{answer}");
    assert_eq!((&answer["bytes"], &answer["moved"][0]["bytes"]), (&half, &half), "{answer}");
    let answer = piece.ask(json!([failed]));
    assert_eq!((&answer["bytes"], &answer["moved"][0]["bytes"]), (&half, &half), "{answer}");
    let end = part(&of, "end", json!({ "size": 32 << 20, "w": 0.0 }));
    assert_eq!(piece.ask(json!([end]))["files"], 1);
    let read = |name: &str| fs::read(folder.path().join(name)).expect("a file");
    assert!(read("from/large") == read("to/large"));
}

#[test]
fn a_range_of_a_file_that_is_cut_before_it_is_not_taken_for_a_hole() {
    if !may_trace() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    drop(prepared(folder.path()));
    let options = ["-a", "--reflink=never"];
    let mut piece = Piece::after("", folder.path(), "two", &options);
    let file = fs::File::create(folder.path().join("from/large")).expect("made");
    file.write_all_at(b"end", (8 << 20) - 3).expect("room");
    let answer = piece.ask(json!([{ "do": "begin", "f": "large", "k": 1, "w": 1.0 }]));
    let mut of = answer["begun"][0].clone();
    (of["f"], of["cloned"], of["size"]) = (json!("large"), Value::Null, Value::Null);
    // It is stopped behind the first look for data, of the whole file, and goes on once that is gone.
    let calls = folder.path().join("calls");
    let trace = format!(
        "set -- -e trace=lseek -e inject=lseek:signal=STOP:when=1 \"$0\" \"$@\"\n\
         set -- -f -D -o {} -P {}/from/large \"$@\"\nexec strace \"$@\"",
        calls.display(),
        folder.path().display()
    );
    let mut stopped = Piece::after(&trace, folder.path(), "three", &options);
    let range = part(&of, "range", json!({ "a": 4 << 20, "z": 8 << 20, "w": 1.0 }));
    stopped.request(json!({ "items": [range], "budget_ms": 10_000 }));
    let said = || fs::read_to_string(&calls).unwrap_or_default();
    until("it stops", || said().contains("stopped by SIGSTOP"));
    file.set_len(100).expect("cut");
    let pid = said().split(' ').next().and_then(|number| number.parse().ok());
    let pid = Pid::from_raw(pid.expect("a number")).expect("a process");
    kill_process(pid, Signal::CONT).expect("it is there");
    let answer = stopped.answer();
    assert_eq!(answer["again"], json!([{ "k": 1, "w": 1.0 }]), "{answer}");
}

#[test]
fn a_range_that_cannot_be_brought_to_the_device_is_copied_again() {
    if !may_trace() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    drop(prepared(folder.path()));
    let options = ["-a", "--reflink=never", "--fsync"];
    let mut piece = Piece::after("", folder.path(), "two", &options);
    let of = begun(folder.path(), &mut piece, 20);
    let trace = "set -- -e inject=fsync:error=EIO:when=1 \"$0\" \"$@\"\n\
                 set -- -D -qqq -o /dev/null -e trace=fsync \"$@\"\n\
                 exec strace \"$@\"";
    let mut faulty = Piece::after(trace, folder.path(), "three", &options);
    let range = part(&of, "range", json!({ "a": 0, "z": 20 << 20, "w": 1.0 }));
    let answer = faulty.ask(json!([range]));
    let failed = &answer["failed"][0]["item"];
    assert_eq!((&failed["a"], &answer["bytes"]), (&json!(0), &json!(0)), "{answer}");
    assert_eq!(faulty.ask(json!([failed]))["bytes"], json!(20 << 20));
}

#[test]
fn what_was_copied_of_a_range_before_it_failed_is_brought_to_the_device() {
    if !may_trace() {
        return;
    }
    // The second step of two finds no room; what is given back begins behind what is on the device.
    for (fault, left, copied) in [("", 16 << 20, 16 << 20), ("-e inject=fsync:error=EIO", 0, 0)] {
        let folder = tempfile::tempdir().expect("a folder");
        drop(prepared(folder.path()));
        let options = ["-a", "--reflink=never", "--route", "read-write", "--fsync"];
        let mut piece = Piece::after("", folder.path(), "two", &options);
        let of = begun(folder.path(), &mut piece, 32);
        let calls = folder.path().join("calls");
        let trace = format!(
            "set -- -e inject=write:error=EDQUOT:when=150 {fault} \"$0\" \"$@\"\n\
             set -- -f -qqq -o {} -e trace=write,fsync \"$@\"\nexec strace \"$@\"",
            calls.display()
        );
        let mut full = Piece::after(&trace, folder.path(), "three", &options);
        let range = part(&of, "range", json!({ "a": 0, "z": 32 << 20, "w": 1.0 }));
        let answer = full.ask(json!([range]));
        let rest = &answer["rest"];
        assert!(answer["stop"].is_string(), "{answer}");
        assert_eq!((&rest[0]["a"], &rest[0]["z"]), (&json!(left), &json!(32 << 20)), "{answer}");
        assert_eq!(answer["bytes"], json!(copied), "{answer}");
        let calls = fs::read_to_string(calls).expect("strace wrote it");
        assert_eq!(calls.matches("fsync(").count(), 1, "{fault}");
        assert_eq!(piece.ask(rest.clone())["bytes"], json!((32 << 20) - copied));
        let end = part(&of, "end", json!({ "size": 32 << 20, "w": 0.0 }));
        assert_eq!(piece.ask(json!([end]))["files"], 1);
        let read = |name: &str| fs::read(folder.path().join(name)).expect("a file");
        assert!(read("from/large") == read("to/large"));
    }
}

#[test]
fn what_has_the_name_of_a_large_file_that_is_gone_from_the_stage_is_not_taken_for_it() {
    let folder = tempfile::tempdir().expect("a folder");
    drop(prepared(folder.path()));
    let mut piece = Piece::after("", folder.path(), "two", &["-a", "--reflink=never"]);
    let copy = folder.path().join("to/large");
    fs::write(&copy, vec![0; 2 << 20]).expect("room");
    let of = begun(folder.path(), &mut piece, 1);
    let range = part(&of, "range", json!({ "a": 0, "z": 1 << 20, "w": 0.5 }));
    let end = part(&of, "end", json!({ "size": 1 << 20, "w": 0.0 }));
    assert_eq!(piece.ask(json!([range]))["bytes"], json!(1 << 20));
    // As a crash leaves it before any of it was on the device.
    let staged = folder.path().join("to/run/stage-0").join(of["s"].as_str().expect("a name"));
    let lost = folder.path().join("lost");
    fs::rename(&staged, &lost).expect("it was begun");
    for (item, weight) in [(&range, 0.5), (&end, 0.0)] {
        let answer = piece.ask(json!([item]));
        assert_eq!(answer["again"], json!([{ "k": 1, "w": weight }]), "{answer}");
        let none = (&answer["files"], &answer["w"], &answer["failed"]);
        assert_eq!(none, (&json!(0), &json!(0.0), &json!([])), "{answer}");
    }
    assert!(fs::read(&copy).expect("a file") == vec![0; 2 << 20]);
    // Once it has its name, whoever comes late finds that.
    fs::rename(&lost, &staged).expect("it is there");
    for _ in 0..2 {
        assert_eq!(piece.ask(json!([end]))["files"], 1);
    }
    assert_eq!(piece.ask(json!([range]))["again"], json!([]));
    assert!(
        fs::read(&copy).expect("a file")
            == fs::read(folder.path().join("from/large")).expect("a file")
    );
}

#[test]
fn a_list_of_directories_is_gone_through_to_its_end_however_long_a_path_in_it_is() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut piece = prepared(folder.path());
    fs::create_dir(folder.path().join("to/d")).expect("a folder");
    let open = fs::File::open(folder.path().join("from/d")).expect("a folder");
    open.set_modified(UNIX_EPOCH + Duration::from_secs(1000)).expect("its time");
    let list = folder.path().join("to/run/lists/one");
    // It is gone from the source by now, and nothing is to be done for it.
    let gone = ["gone"; 300_000].join("/");
    fs::write(&list, [&gone, "d", &gone, ""].join("\0")).expect("room");
    let (mut left, mut others) = (vec![json!({ "do": "attributes", "l": "one", "a": 0 })], 0);
    while let Some(next) = left.pop() {
        let answer = piece.ask(json!([next]));
        assert_eq!(answer["failed"], json!([]));
        left.extend(answer["rest"].as_array().expect("a list").clone());
        others += answer["others"].as_u64().expect("a number");
    }
    assert_eq!(others, 1);
    assert_eq!(fs::metadata(folder.path().join("to/d")).expect("a folder").mtime(), 1000);
    // One that ends within a path is not whole.
    fs::write(&list, [&gone, "d", "d"].join("\0")).expect("room");
    let mut answer = json!({ "rest": [{ "do": "attributes", "l": "one", "a": 0 }] });
    while answer["rest"] != json!([]) {
        answer = piece.ask(answer["rest"].clone());
    }
    assert_eq!(answer["failed"][0]["item"]["a"], gone.len() + "\0d\0".len(), "{answer}");
}

/// Its kernel is told to run SELinux, by which alone contexts are kept by name.
#[test]
fn directories_get_their_contexts_also_where_nothing_else_is_kept() {
    const CONTEXT: &str = "security.selinux";
    let poked = "-e inject=statfs:retval=0:poke_exit=@arg2=8cff7cf900000000";
    if !may_trace() {
        return;
    }
    if shell(&format!("strace -o /dev/null {poked} true")).status.code() != Some(0) {
        return println!("skipped: this strace cannot change what a call answers");
    }
    let folder = tempfile::tempdir().expect("a folder");
    drop(prepared(folder.path()));
    let set = XattrFlags::empty();
    if rustix::fs::setxattr(folder.path().join("from/d"), CONTEXT, b"some", set).is_err() {
        return println!("skipped: contexts cannot be set here");
    }
    let trace = format!(
        "set -- -D -qqq -o /dev/null -P /sys/fs/selinux -e trace=statfs {poked} \"$0\" \"$@\"\n\
         exec strace \"$@\""
    );
    let mut piece = Piece::after(&trace, folder.path(), "two", &["-r", "--preserve=context"]);
    let answer = piece.ask(json!([{ "do": "tree", "d": "", "w": 1.0 }]));
    let list = &answer["attributes"][0];
    let answer = piece.ask(json!([{ "do": "attributes", "l": list, "a": 0 }]));
    assert_eq!((&answer["failed"], &answer["others"]), (&json!([]), &json!(1)), "{answer}");
    let mut kept = [0; 100];
    let bytes = rustix::fs::getxattr(folder.path().join("to/d"), CONTEXT, &mut kept);
    assert_eq!(&kept[..bytes.expect("it has one")], b"some");
}

#[test]
fn a_directory_of_another_file_system_has_its_share_of_the_work() {
    let device = |path| fs::metadata(path).ok().map(|found| found.dev());
    let (Some(outer), Some(inner)) = (device("/dev"), device("/dev/shm")) else {
        return println!("skipped: there is no /dev/shm");
    };
    if outer == inner {
        return println!("skipped: nothing is mounted at /dev/shm");
    }
    let folder = tempfile::tempdir().expect("a folder");
    symlink("/dev", folder.path().join("from")).expect("a link");
    let mut piece = Piece::after("", folder.path(), "one", &["-a", "--one-file-system"]);
    assert_eq!(piece.ask(json!([{ "do": "prepare", "stages": [0] }]))["failed"], json!([]));
    let answer = piece.ask(json!([{ "do": "tree", "d": "shm", "w": 0.5 }]));
    let told = (&answer["failed"], &answer["rest"], &answer["w"], &answer["directories"]);
    assert_eq!(told, (&json!([]), &json!([]), &json!(0.5), &json!(1)), "{answer}");
    assert_eq!(fs::read_dir(folder.path().join("to/shm")).expect("a folder").count(), 0);
}

#[test]
fn what_is_left_of_a_piece_is_given_back_when_others_want_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut piece = prepared(folder.path());
    for name in ["a", "b", "c", "e"] {
        fs::create_dir(folder.path().join("from").join(name)).expect("a folder");
        fs::write(folder.path().join("from").join(name).join("f"), [7; 1000]).expect("a file");
    }
    // All of it would take four seconds more than its first bytes.
    let tree = json!([{ "do": "tree", "d": "", "w": 1.0 }]);
    piece.request(json!({ "items": tree, "budget_ms": 100_000_000, "bytes_per_second": 1000 }));
    until("its first bytes", || {
        let copied = |name| folder.path().join("to").join(name).join("f").exists();
        ["a", "b", "c", "d", "e"].into_iter().any(copied)
    });
    let id = rustix::process::Pid::from_child(&piece.child);
    rustix::process::kill_process(id, rustix::process::Signal::URG).expect("it is there");
    let answer = piece.answer();
    let rest = answer["rest"].as_array().expect("a list").clone();
    assert!(!rest.is_empty() && rest.len() < 5, "{answer}");
    // What was wanted once is not wanted of the next request.
    let last = piece.ask(json!(rest));
    assert_eq!(last["rest"], json!([]));
    assert_eq!(answer["files"].as_u64().zip(last["files"].as_u64()).map(|(a, b)| a + b), Some(5));
    for name in ["a", "b", "c", "e"] {
        let copy = folder.path().join("to").join(name).join("f");
        assert_eq!(fs::read(copy).expect("a file"), [7; 1000]);
    }
}

#[test]
fn a_piece_that_comes_when_all_is_over_changes_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut piece = prepared(folder.path());
    let mut late = Piece::new(folder.path(), "late");
    let tree = json!([{ "do": "tree", "d": "", "w": 1.0 }]);
    piece.ask(tree.clone());
    let copy = folder.path().join("to/d/f");
    let before = fs::metadata(&copy).expect("a file").ino();
    assert_eq!(piece.ask(json!([{ "do": "fence", "stage": 0 }]))["failed"], json!([]));
    let answer = late.ask(tree);
    assert_eq!((&answer["fenced"], &answer["files"]), (&json!(true), &json!(0)));
    assert_eq!(fs::metadata(&copy).expect("a file").ino(), before);
    assert_eq!(piece.ask(json!([{ "do": "clean" }]))["failed"], json!([]));
    assert!(!folder.path().join("to/run").exists());
}

#[test]
fn a_directory_for_the_work_that_somebody_else_put_there_leads_nowhere() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut piece = prepared(folder.path());
    let (run, theirs) = (folder.path().join("to/run"), folder.path().join("theirs"));
    let mode = fs::metadata(&run).expect("it is there").mode();
    assert_eq!(mode & 0o777, 0o700);
    let all = ["stage-0", "stage-1", "lists"];
    let refuses = |piece: &mut Piece, what: &str| {
        for name in all {
            fs::write(theirs.join(name).join("kept"), b"\x01d\0").expect("a file");
        }
        let tree = json!({ "do": "tree", "d": "", "l": "kept", "a": 0, "z": 3, "w": 1.0 });
        let fence = json!({ "do": "fence", "stage": 0 });
        let prepare = json!({ "do": "prepare", "stages": [0] });
        for item in [prepare, fence, tree, json!({ "do": "clean" })] {
            let answer = piece.ask(json!([item]));
            let failed = answer["failed"].as_array().is_some_and(|failed| failed.len() == 1);
            assert!(failed || answer["stop"].is_string(), "{what}: {item}: {answer}");
        }
        for name in all {
            assert_eq!(fs::read_dir(theirs.join(name)).expect("a folder").count(), 1, "{what}");
        }
        assert!(!folder.path().join("to/d").exists(), "{what}");
    };
    fs::rename(&run, &theirs).expect("it is moved away");
    symlink(&theirs, &run).expect("a link");
    refuses(&mut piece, "a link to it");
    fs::remove_file(&run).expect("it was there");
    fs::create_dir(&run).expect("a folder");
    for name in all {
        symlink(theirs.join(name), run.join(name)).expect("a link");
    }
    refuses(&mut piece, "links in it");
    if !rustix::process::geteuid().is_root() {
        println!("skipped in part: only root can give a directory to somebody else");
        return;
    }
    fs::remove_dir_all(&run).expect("it was there");
    fs::rename(&theirs, &run).expect("it is back");
    std::os::unix::fs::chown(&run, Some(65534), None).expect("it is somebody else's");
    symlink("to/run", &theirs).expect("a link");
    refuses(&mut piece, "somebody else's");
}

#[test]
fn names_that_lead_out_of_their_directories_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut piece = prepared(folder.path());
    fs::write(folder.path().join("secret"), b"secret").expect("a file");
    fs::create_dir(folder.path().join("to/d")).expect("a folder");
    let list = folder.path().join("to/run/lists/one");
    for lines in ["\x01../secret\0", "\x01..\0", "\x01.\0", "\x01\0", "\x01/f\0", "\0", "\x01f"] {
        fs::write(&list, lines).expect("a file");
        let tree =
            json!({ "do": "tree", "d": "d", "l": "one", "a": 0, "z": lines.len(), "w": 1.0 });
        let answer = piece.ask(json!([tree]));
        assert_eq!(answer["failed"].as_array().map(Vec::len), Some(1), "{lines:?}: {answer}");
        assert_eq!((&answer["files"], &answer["rest"]), (&json!(0), &json!([])), "{lines:?}");
    }
    fs::write(&list, "..\0").expect("a file");
    let answer = piece.ask(json!([{ "do": "attributes", "l": "one", "a": 0 }]));
    assert_eq!(answer["failed"].as_array().map(Vec::len), Some(1), "{answer}");
    let names = json!([{ "do": "tree", "d": "", "n": ["d/f"], "w": 1.0 }]);
    assert_eq!(piece.ask(names)["failed"].as_array().map(Vec::len), Some(1));
    assert_eq!(fs::read_dir(folder.path().join("to/d")).expect("a folder").count(), 0);
    assert!(!folder.path().join("to/secret").exists());
    for leads_out in [
        json!({ "do": "tree", "d": "..", "w": 1.0 }),
        json!({ "do": "tree", "d": "d", "n": ["../../secret"], "w": 1.0 }),
        json!({ "do": "attributes", "l": "../../../secret", "a": 0 }),
        json!({ "do": "closed", "dirs": ["d/../.."] }),
    ] {
        let mut piece = Piece::new(folder.path(), "two");
        piece.request(json!({ "items": [leads_out], "budget_ms": 10_000 }));
        // Waiting closes it, and a process that nobody asks any more ends as it is.
        let _asks = piece.child.stdin.take();
        assert_eq!(piece.child.wait().expect("it ends").code(), Some(1), "{leads_out}");
    }
}

#[test]
fn a_process_for_pieces_ends_with_whoever_asks() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut piece = prepared(folder.path());
    drop(piece.child.stdin.take());
    assert!(piece.child.wait().expect("it ends").success());
}

#[test]
fn a_source_that_is_not_what_it_was_when_a_request_comes_looks_like_nothing_that_was_removed() {
    let tree = json!([{ "do": "tree", "d": "d", "w": 1.0 }]);
    for another in [false, true] {
        let folder = tempfile::tempdir().expect("a folder");
        drop(prepared(folder.path()));
        let from = folder.path().join("from");
        let there = fs::metadata(&from).expect("it is there");
        let root = format!("{}:{}", there.dev(), there.ino());
        let mut piece = Piece::of(Some(&root), "", folder.path(), "two", &["-a"]);
        assert_eq!(piece.ask(tree.clone())["files"], 1);
        fs::rename(&from, folder.path().join("aside")).expect("it is moved");
        if another {
            fs::create_dir(&from).expect("a folder");
        }
        piece.request(json!({ "items": tree, "budget_ms": 10_000 }));
        let mut line = String::new();
        assert_eq!(piece.answers.read_line(&mut line).expect("it is read"), 0, "{line}");
        let _asks = piece.child.stdin.take();
        assert_eq!(piece.child.wait().expect("it ends").code(), Some(1));
    }
}

#[test]
fn a_request_that_is_none_ends_it_with_a_message() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("from")).expect("a folder");
    let path = folder.path().join("from").into_os_string().into_string().expect("UTF-8");
    let words =
        ["piece", "--source", &path, "--destination", &path, "--run", &path, "--token", "t"];
    let mut command = bytepath(&words);
    let mut child = command
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    // It is open to the end: once nobody asks any more, the process ends as it is.
    let mut asks = child.stdin.take().expect("it is piped");
    writeln!(asks, "{{}}").expect("it reads");
    let done = child.wait_with_output().expect("it ends");
    assert_eq!(done.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&done.stderr).contains("a request"));
}
