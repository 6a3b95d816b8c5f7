//! Runs programs to their end, within bounds, and tells what they said.

use std::fs;
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use serde_json::Value;

/// A program that takes longer than this hangs. The longest take a few seconds.
pub(crate) const HANGS_AFTER: Duration = Duration::from_secs(100);

/// The program under test.
pub(crate) const BYTEPATH: &str = env!("CARGO_BIN_EXE_bytepath");

/// Where programs under test keep their state.
const STATE: (&str, &str) = ("XDG_STATE_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/state"));

/// Where they keep their runs.
const DATA: (&str, &str) = ("XDG_DATA_HOME", concat!(env!("CARGO_TARGET_TMPDIR"), "/data"));

/// What a program said and how it ended.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    /// Standard output as it is, where it is no text.
    pub(crate) bytes: Vec<u8>,
}

impl Done {
    /// It succeeded, and had nothing to complain about.
    #[track_caller]
    pub(crate) fn well(self) -> Done {
        assert!(self.status.success() && self.stderr.is_empty(), "{self:?}");
        self
    }

    /// It ended with this code and a message that holds these words, and did not panic.
    #[track_caller]
    pub(crate) fn refused(self, code: i32, words: &[&str]) -> Done {
        assert_eq!(self.status.code(), Some(code), "{self:?}");
        for word in words {
            assert!(self.stderr.contains(word), "{word:?} is not in {self:?}");
        }
        for word in ["panicked", "RUST_BACKTRACE"] {
            assert!(!self.stderr.contains(word), "{self:?}");
        }
        self
    }

    /// What it printed, as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The same, of which this published schema has to tell every field.
    #[track_caller]
    pub(crate) fn json_of(&self, schema: &str) -> Value {
        let json = self.json();
        as_published(schema, &json);
        json
    }

    /// The cells of the one row that it printed.
    #[track_caller]
    pub(crate) fn row(&self) -> Vec<String> {
        assert_eq!(self.stdout.lines().count(), 1, "{self:?}");
        self.stdout.trim_end().split(',').map(str::to_owned).collect()
    }
}

/// The document is what this published schema says, which has to tell every field of it.
#[track_caller]
pub(crate) fn as_published(schema: &str, json: &Value) {
    fn close(schema: &mut Value) {
        if let Some(fields) = schema.as_object_mut() {
            let is_whole = fields.contains_key("properties");
            if is_whole {
                fields.insert("unevaluatedProperties".to_owned(), false.into());
            }
            // What adds fields to others is not the whole of them.
            let parts = fields.iter_mut().filter(|(name, _)| !is_whole || *name != "oneOf");
            parts.for_each(|(_, part)| close(part));
        }
        schema.as_array_mut().into_iter().flatten().for_each(close);
    }
    let texts = ["bytepath", "bytepath-cli", "bytepath-report"].map(|of| {
        let crates = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
        fs::read_to_string(format!("{crates}/{of}/schema/{schema}-1.schema.json")).ok()
    });
    let text = texts.into_iter().flatten().next().expect("it is published");
    let mut schema: Value = serde_json::from_str(&text).expect("the schema is JSON");
    jsonschema::draft202012::meta::validate(&schema).expect("the schema is a JSON Schema");
    close(&mut schema);
    let schema = jsonschema::validator_for(&schema).expect("the schema compiles");
    let complaints: Vec<_> = schema.iter_errors(json).map(|error| error.to_string()).collect();
    assert_eq!(complaints, Vec::<String>::new());
}

/// Waits for something that another process brings about.
#[track_caller]
pub(crate) fn until(what: &str, mut came: impl FnMut() -> bool) {
    let end = Instant::now() + HANGS_AFTER;
    while !came() {
        assert!(Instant::now() < end, "{what} does not come");
        // Whoever it waits for needs a CPU.
        std::thread::sleep(Duration::from_micros(200));
    }
}

/// Waits until a process that is none of ours has ended, whoever reaps it and when.
#[track_caller]
pub(crate) fn ended(process: Pid) {
    until("its end", || !runs(process));
}

/// Whether a process has not ended yet.
pub(crate) fn runs(process: Pid) -> bool {
    let stat = told_of(process, "stat");
    stat.rsplit_once(") ").is_some_and(|(_, after)| !after.starts_with(['Z', 'X']))
}

/// What a file of /proc tells of a process, whose name may be no text; nothing where it has ended.
fn told_of(process: Pid, file: &str) -> String {
    let told = fs::read(format!("/proc/{process}/{file}")).unwrap_or_default();
    String::from_utf8_lossy(&told).into_owned()
}

/// The processes that one has started, and not reaped.
pub(crate) fn children(process: Pid) -> Vec<Pid> {
    let threads = entries(Path::new(&format!("/proc/{process}/task")));
    let lists = threads.iter().filter_map(|it| fs::read_to_string(it.join("children")).ok());
    let numbers =
        lists.flat_map(|list| list.split_whitespace().map(str::parse).collect::<Vec<_>>());
    numbers.filter_map(|number| Pid::from_raw(number.ok()?)).collect()
}

/// Whether a process has a handler for this signal.
pub(crate) fn catches(process: Pid, signal: Signal) -> bool {
    let status = told_of(process, "status");
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    caught.is_some_and(|mask| mask >> (signal.as_raw() - 1) & 1 == 1)
}

/// The words of a path.
pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("its name is text")
}

/// What a folder holds; nothing where it is not there.
pub(crate) fn entries(folder: &Path) -> Vec<PathBuf> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten();
    all.map(|entry| entry.path()).collect()
}

/// The arms of a record.
pub(crate) fn arms(record: &Value) -> &[Value] {
    record["arms"].as_array().expect("a record has arms")
}

/// A figure that an arm tells beside its value.
pub(crate) fn figure(arm: &Value, name: &str) -> Option<f64> {
    let figures = arm["params"]["figures"].as_array()?;
    figures.iter().find(|figure| figure["name"] == name)?["value"].as_f64()
}

/// The program under test with these words.
pub(crate) fn bytepath(words: &[&str]) -> Command {
    let mut command = Command::new(BYTEPATH);
    command.args(words).env_remove("RUST_BACKTRACE").stdin(Stdio::null());
    away_from_home(&mut command);
    // Of a terminal, where it has one.
    command.env("TERM", "xterm");
    // What has `run` leave a text to one shell.
    for name in ["SSH_CLIENT", "SSH2_CLIENT", "SHELLOPTS", "BASHOPTS"] {
        command.env_remove(name);
    }
    command
}

/// Has it, and what it starts, keep its own where the user's is not, unless it was told where.
pub(crate) fn away_from_home(command: &mut Command) -> &mut Command {
    for (name, folder) in [STATE, DATA] {
        if !command.get_envs().any(|(told, _)| told == name) {
            command.env(name, folder);
        }
    }
    command
}

/// A program of its own group, told apart from all others by it.
pub(crate) fn spawned(command: &mut Command) -> Bounded {
    away_from_home(command);
    let child = command.process_group(0).spawn().expect("the program starts");
    let group = Pid::from_child(&child);
    Bounded { child: Some(child), group }
}

/// A program that does not outlive its test, nor do those that it starts.
pub(crate) struct Bounded {
    child: Option<Child>,
    pub(crate) group: Pid,
}

impl Bounded {
    pub(crate) fn child(&mut self) -> &mut Child {
        self.child.as_mut().expect("it is waited for once")
    }

    /// Waits for the end, for as long as nothing hangs.
    #[track_caller]
    pub(crate) fn done(mut self) -> Done {
        let mut child = self.child.take().expect("it is waited for once");
        let (stdout, stderr) = (bytes_of(child.stdout.take()), bytes_of(child.stderr.take()));
        let (told, end) = mpsc::channel();
        std::thread::spawn(move || told.send(child.wait()));
        let Ok(status) = end.recv_timeout(HANGS_AFTER) else {
            let _ = kill_process_group(self.group, Signal::KILL);
            let said = [stdout, stderr].map(|pipe| pipe.recv_timeout(HANGS_AFTER));
            panic!("hangs; it said {said:?}");
        };
        let whole = |pipe: mpsc::Receiver<Vec<u8>>| pipe.recv_timeout(HANGS_AFTER);
        let bytes = whole(stdout).expect("nobody holds its output after its end");
        let errors = whole(stderr).expect("nobody holds its errors after its end");
        Done {
            status: status.expect("it is our child"),
            stdout: String::from_utf8_lossy(&bytes).into_owned(),
            stderr: String::from_utf8_lossy(&errors).into_owned(),
            bytes,
        }
    }
}

impl Drop for Bounded {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = kill_process_group(self.group, Signal::KILL);
            let _ = child.wait();
        }
    }
}

fn bytes_of(pipe: Option<impl Read + Send + 'static>) -> mpsc::Receiver<Vec<u8>> {
    let (told, all) = mpsc::channel();
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        let _ = told.send(bytes);
    });
    all
}

/// Runs a program to its end.
#[track_caller]
pub(crate) fn run(command: &mut Command) -> Done {
    spawned(command.stdout(Stdio::piped()).stderr(Stdio::piped())).done()
}

/// The same where whoever reads what it prints has left.
#[track_caller]
pub(crate) fn run_for_nobody(command: &mut Command) -> Done {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let program = spawned(command.stdout(writer).stderr(Stdio::piped()));
    // The command would hold the pipe open.
    command.stdout(Stdio::null());
    program.done()
}

/// Runs a line of shell in which `$bytepath` is the program under test.
#[track_caller]
pub(crate) fn shell(line: &str) -> Done {
    let mut command = Command::new("sh");
    command.args(["-c", line]).env("bytepath", BYTEPATH);
    run(command.stdin(Stdio::null()))
}

/// Runs `bytepath write` into `bytepath read`, both with these words.
#[track_caller]
pub(crate) fn pair(writer: &[&str], reader: &[&str]) -> (Done, Done) {
    let mut write = bytepath(&[&["write"], writer].concat());
    let mut write = spawned(write.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let pipe = write.child().stdout.take().expect("it is piped");
    let read = run(bytepath(&[&["read"], reader].concat()).stdin(pipe));
    (write.done(), read)
}

/// The signal that ended a program.
pub(crate) fn signal_of(done: &Done) -> Option<i32> {
    done.status.signal()
}

/// Whether this test has the rights of root.
pub(crate) fn root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether a program is installed; says which is missed otherwise.
pub(crate) fn installed(name: &str) -> bool {
    let found = Command::new("sh").args(["-c", &format!("command -v {name} >/dev/null")]).status();
    let found = found.is_ok_and(|status| status.success());
    if !found {
        println!("skipped: {name} is not installed");
    }
    found
}

/// Whether file systems can be mounted where nobody else sees them (`unshare -m`); says why not otherwise.
pub(crate) fn may_mount() -> bool {
    if !root() {
        println!("skipped: mounting needs root");
    }
    if !root() || !["mount", "unshare"].into_iter().all(installed) {
        return false;
    }
    let refused = shell("unshare -m true").stderr;
    if !refused.is_empty() {
        println!("skipped: {refused}");
    }
    refused.is_empty()
}

/// Runs the program where a seccomp filter ends whoever makes one of the calls, as systemd's do.
pub(crate) fn where_calls_kill(calls: &[i64], words: &[&str]) -> Done {
    let rules = calls.iter().map(|call| (*call, Vec::new())).collect();
    let here = std::env::consts::ARCH.try_into().expect("an architecture that it knows");
    let (allow, kill) = (SeccompAction::Allow, SeccompAction::KillProcess);
    let filter = SeccompFilter::new(rules, allow, kill, here).and_then(BpfProgram::try_from);
    let filter = filter.expect("a filter");
    // Of one thread, and of what that starts.
    let filtered = || {
        seccompiler::apply_filter(&filter).expect("the filter is installed");
        run(&mut bytepath(words))
    };
    std::thread::scope(|scope| scope.spawn(filtered).join().expect("it has run"))
}

/// A shell's words for bytepath, and what it starts, where transparent huge pages are refused.
pub(crate) const WITHOUT_HUGE: &str = "python3 -c 'import ctypes, os, sys
assert ctypes.CDLL(None).prctl(41, 1, 0, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])' $bytepath";

/// Whether [`WITHOUT_HUGE`] works; else says that it does not.
pub(crate) fn has_prctl() -> bool {
    let has = installed("python3");
    if !has {
        println!("skipped: python3 is not installed");
    }
    has
}

/// The words by which root becomes another, ordinary user; `None`, said aloud, where that cannot be had, as where the
/// test is not root's.
pub(crate) fn root_as_nobody() -> Option<&'static str> {
    if !root() {
        println!("skipped: becoming another user needs root");
        return None;
    }
    as_nobody()
}

/// The words by which root becomes an ordinary user; nothing where the test already is one, and
/// `None`, said aloud, where that cannot be had.
pub(crate) fn as_nobody() -> Option<&'static str> {
    if !root() {
        return Some("");
    }
    installed("setpriv").then_some("setpriv --reuid 65534 --regid 65534 --clear-groups ")
}

#[test]
fn however_a_program_is_started_it_is_kept_from_what_the_user_has() {
    let line = "echo $XDG_STATE_HOME $XDG_DATA_HOME";
    let own = format!("{} {}\n", STATE.1, DATA.1);
    assert_eq!(shell(line).stdout, own);
    let sh = || Command::new("sh");
    assert_eq!(run(sh().args(["-c", line])).stdout, own);
    let cleared = run(Command::new("/bin/sh").args(["-c", line]).env_clear());
    assert_eq!(cleared.stdout, own);
    // But for what a test is about.
    let told = run(sh().args(["-c", line]).env(DATA.0, "told").env_remove(STATE.0));
    assert_eq!(told.stdout.trim(), "told");
}

#[test]
#[should_panic(expected = "'nonsense' was unexpected")]
fn a_field_that_no_schema_tells_of_is_found() {
    let mut told = pair(&[], &["--bytes-to-pipe", "1K", "--json", "-"]).1.json();
    told["nonsense"] = true.into();
    as_published("end", &told);
}
