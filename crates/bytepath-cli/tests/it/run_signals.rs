//! `bytepath run` and signals: sent to it, and by the terminal's keys, as a shell would answer them.

use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{ChildStderr, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{CWD, FileType, mknodat};
use rustix::process::{Pid, Signal, kill_process};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{tcgetpgrp, tcgetsid};

use crate::calls::may_trace;
use crate::program::{
    BYTEPATH, Bounded, bytepath, children, ended, installed, run, runs, shell, spawned, until,
};
use crate::pv_others::stuck;

const HANGS_AFTER: Duration = Duration::from_secs(60);

/// Reads lines of its own processes' numbers, one a stage, and the program that runs them.
fn running(words: &[&str], stages: usize) -> (Bounded, Vec<Pid>, BufReader<ChildStderr>) {
    telling(&mut bytepath(words), stages)
}

/// The same of any command.
fn telling(command: &mut Command, stages: usize) -> (Bounded, Vec<Pid>, BufReader<ChildStderr>) {
    let mut program = spawned(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let told = program.child().stderr.take().expect("it is piped");
    let mut told = BufReader::new(told);
    let lines = std::io::BufRead::lines(&mut told).take(stages);
    let pid =
        |line: String| Pid::from_raw(line.trim().parse().expect("a number")).expect("a process");
    let pids = lines.map(|line| pid(line.expect("text"))).collect();
    // Shells that find nobody there to hear their messages would end.
    (program, pids, told)
}

fn pid_of(program: &mut Bounded) -> Pid {
    Pid::from_raw(program.child().id().try_into().expect("a number")).expect("a process")
}

#[track_caller]
fn gone(pids: &[Pid]) {
    pids.iter().copied().for_each(ended);
}

/// A stage that tells its number and then waits.
const WAITS: &str = "sh -c 'echo \"$$\" >&2; exec sleep 1000'";

/// Some shells replace themselves with the last program that they run, and some wait for it.
fn shells() -> impl Iterator<Item = &'static str> {
    ["/bin/sh", "/bin/dash", "/bin/bash"].into_iter().filter(|shell| Path::new(shell).exists())
}

#[test]
fn sigterm_and_sighup_reach_every_stage_and_end_it_as_a_shell() {
    let both = [Signal::TERM, Signal::HUP];
    for (signal, shell) in shells().flat_map(|shell| both.map(|signal| (signal, shell))) {
        for text in [format!("{WAITS} | {WAITS}"), format!("{{ {WAITS} | {WAITS}; }}; true")] {
            let (mut program, pids, _told) = running(&["run", "--shell", shell, &text], 2);
            kill_process(pid_of(&mut program), signal).expect("it runs");
            let done = program.done();
            assert_eq!(done.status.signal(), Some(signal.as_raw()), "{text}: {done:?}");
            gone(&pids);
        }
    }
}

/// A second one may be taken for the wish that it ends without more ado.
#[test]
fn sigterm_to_the_group_reaches_a_stage_once() {
    if !installed("setsid") {
        return;
    }
    let folder = tempfile::tempdir().expect("a directory");
    let [count, end] = ["count", "end"].map(|name| folder.path().join(name));
    mknodat(CWD, &end, FileType::Fifo, 0o600.into(), 0).expect("a FIFO");
    // What it waits for ignores the signal, and so it counts until somebody writes to the FIFO.
    let counts = "n=0; trap \"\" TERM; head -n 1 END >/dev/null & trap \"n=\\$((n+1)); echo \\$n >COUNT\" TERM; \
                  echo \"$$\" >&2; while kill -0 \"$!\"; do wait \"$!\"; done 2>/dev/null";
    let counts = counts.replace("END", end.to_str().expect("plain"));
    let counts = counts.replace("COUNT", count.to_str().expect("plain"));
    // One of another group has it from nobody but us, after those before it.
    let text = format!("sh -c '{counts}' | {WAITS} | setsid {WAITS}");
    let counted = || std::fs::read_to_string(&count).unwrap_or_default();
    for to_group in [true, false] {
        let _ = std::fs::remove_file(&count);
        let (mut program, pids, _told) = running(&["run", "--shell", "/bin/sh", &text], 3);
        let us = pid_of(&mut program);
        match to_group {
            true => rustix::process::kill_process_group(us, Signal::TERM),
            false => kill_process(us, Signal::TERM),
        }
        .expect("it runs");
        let until = Instant::now() + HANGS_AFTER;
        while pids.iter().filter(|pid| runs(**pid)).count() > 1 || counted().is_empty() {
            assert!(Instant::now() < until, "{to_group}: {pids:?} have not all got it");
            std::thread::sleep(Duration::from_micros(200));
        }
        let mut ends = File::options().read(true).write(true).open(&end).expect("it is there");
        ends.write_all(b"\n").expect("written");
        program.done();
        gone(&pids);
        assert_eq!(counted(), "1\n", "{to_group}");
    }
}

/// A script that has started something and then becomes `bytepath run`.
#[test]
fn sigterm_reaches_nobody_who_was_there_before() {
    let line = format!("{WAITS} & exec \"$0\" run --shell /bin/sh \"$1\"");
    let mut command = Command::new("sh");
    command.args(["-c", &line, BYTEPATH, &format!("{WAITS} | cat")]).stdin(Stdio::null());
    let (mut program, pids, _told) = telling(&mut command, 2);
    kill_process(pid_of(&mut program), Signal::TERM).expect("it runs");
    let done = program.done();
    assert_eq!(done.status.signal(), Some(Signal::TERM.as_raw()), "{done:?}");
    let left: Vec<Pid> = pids.into_iter().filter(|pid| runs(*pid)).collect();
    assert_eq!(left.len(), 1, "the stage ends, and the script's own stays");
    kill_process(left[0], Signal::KILL).expect("it is there");
}

/// Also where nobody looks at them, and where they are more than are looked at.
#[test]
fn sigterm_reaches_all_that_stages_have_started() {
    let few = "sh -c 'sh -c \"echo \\$\\$ >&2; exec sleep 1000\"; :' | cat";
    let many = "seq 300 | xargs -P 300 -I{} sh -c 'echo $$ >&2; exec sleep 1000'";
    for (words, text, count) in [(&["run", "--no-place"][..], few, 1), (&["run"], many, 300)] {
        let (mut program, pids, _told) = running(&[words, &[text]].concat(), count);
        kill_process(pid_of(&mut program), Signal::TERM).expect("it runs");
        program.done();
        gone(&pids);
    }
}

#[test]
fn a_stage_that_answers_sigterm_is_waited_for() {
    let answers =
        "trap \"sleep 0.2; echo bye; exit\" TERM; echo \"$$\" >&2; while :; do sleep 0.05; done";
    // It opens the file itself: bash stays in front of a program whose output it has redirected, and
    // is ended by a signal for which the program is not.
    let stays = "trap : TERM; exec > FILE; echo \"$$\" >&2; cat; cat";
    let text = format!("sh -c '{answers}' | sh -c '{stays}'");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("out");
    let text = text.replace("FILE", file.to_str().expect("plain"));
    for shell in shells() {
        let (mut program, _, _told) = running(&["run", "--shell", shell, &text], 2);
        kill_process(pid_of(&mut program), Signal::TERM).expect("it runs");
        program.done();
        assert_eq!(std::fs::read_to_string(&file).expect("it was made"), "bye\n", "{shell}");
    }
}

#[track_caller]
fn has_no_children(pid: Pid) {
    until("the end of its children", || children(pid).is_empty());
}

#[test]
fn one_signal_ends_it_while_nobody_takes_its_record() {
    for file in ["-", "/dev/stdout"] {
        let (_unread, stdout) = stuck();
        let mut command = bytepath(&["explain", "--json", file, "--", "true"]);
        let mut program = spawned(command.stdout(stdout).stderr(Stdio::null()));
        std::thread::sleep(Duration::from_millis(250));
        has_no_children(pid_of(&mut program));
        kill_process(pid_of(&mut program), Signal::TERM).expect("it runs");
        let done = program.done();
        assert_eq!(done.status.signal(), Some(Signal::TERM.as_raw()), "{file}: {done:?}");
    }
}

#[test]
fn one_signal_ends_it_while_nobody_takes_what_it_tells() {
    let (over, works) = ("echo done | cat", "sh -c 'echo done; exec sleep 1000' | cat");
    // One from the keyboard reaches all stages without it.
    let (sent, any) = ([Signal::TERM, Signal::HUP], [Signal::TERM, Signal::HUP, Signal::INT]);
    let cases = [
        ("--summary", over, &any[..]),
        ("--summary", works, &sent),
        ("--explain-plan", over, &any),
    ];
    for (option, text, signals) in cases {
        for &signal in signals {
            let (_unread, told) = stuck();
            let mut command = bytepath(&["run", option, text]);
            let mut program = spawned(command.stdout(Stdio::piped()).stderr(told));
            if option == "--summary" {
                let stdout = program.child().stdout.as_mut().expect("it is piped");
                stdout.read_exact(&mut [0; 5]).expect("it runs");
            }
            // By then there is something to tell.
            std::thread::sleep(Duration::from_millis(250));
            if text == over && option == "--summary" {
                // One from the keyboard would not end it before.
                has_no_children(pid_of(&mut program));
            }
            kill_process(pid_of(&mut program), signal).expect("it runs");
            let done = program.done();
            assert_eq!(done.status.signal(), Some(signal.as_raw()), "{option} {text}: {done:?}");
        }
    }
}

/// Until nothing more goes into this pipe.
fn fill(pipe: impl AsFd) {
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;
    let path = format!("/proc/self/fd/{}", pipe.as_fd().as_raw_fd());
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let full = File::options().write(true).custom_flags(flags).open(path);
    let mut full = full.expect("it is a pipe");
    while full.write(&[b'f'; 4096]).is_ok() {}
}

/// timeout(1) sends one to it, and then to its group.
#[test]
fn a_signal_that_comes_twice_at_once_leaves_what_is_told() {
    let text = format!("{WAITS} | {WAITS}");
    let folder = tempfile::tempdir().expect("a directory");
    let page = folder.path().join("m.prom");
    for metrics in [false, true] {
        let page = page.to_str().expect("plain");
        let words = if metrics { vec!["--metrics", page] } else { Vec::new() };
        let (mut at_once, mut tries) = (false, 0);
        while !at_once {
            assert!(tries < 20, "this machine is too slow to send two at once");
            tries += 1;
            let words = [&["run", "--summary"], &words[..], &[&text]].concat();
            let (mut program, pids, mut told) = running(&words, 2);
            // Whoever reads what it tells begins later.
            fill(told.get_ref());
            let us = pid_of(&mut program);
            let sent = Instant::now();
            kill_process(us, Signal::TERM).expect("it runs");
            gone(&pids);
            let again = kill_process(us, Signal::TERM);
            at_once = again.is_ok() && sent.elapsed() < Duration::from_millis(100);
            let mut summary = String::new();
            told.read_to_string(&mut summary).expect("text");
            let done = program.done();
            assert_eq!(done.status.signal(), Some(Signal::TERM.as_raw()), "{done:?}");
            assert!(
                !at_once || !summary.trim_start_matches('f').is_empty(),
                "{metrics}: nothing is told"
            );
        }
    }
}

/// A shell that runs a text with an answer of its own is not ended by the signal; one that runs stages alone
/// has none.
#[test]
fn a_text_that_answers_a_signal_ends_as_it_says() {
    let signals = [(Signal::TERM, "TERM"), (Signal::HUP, "HUP"), (Signal::INT, "INT")];
    let cases = shells().flat_map(|shell| signals.map(|(signal, name)| (shell, signal, name)));
    for (shell, signal, name) in cases {
        let answers =
            format!("trap \"exit 7\" {name}; echo \"$$\" >&2; while :; do sleep 0.05; done");
        for to_group in [false, true] {
            for (text, is_whole) in
                [(answers.clone(), true), (format!("sh -c '{answers}' | cat"), false)]
            {
                // Of a key's, what is sent to it alone reaches nobody, and stages tell by their ends.
                if signal == Signal::INT && !(to_group && is_whole) {
                    continue;
                }
                let words = ["--default-signal", BYTEPATH, "run", "--shell", shell, &text];
                let (mut program, _, _told) = telling(Command::new("env").args(words), 1);
                let us = pid_of(&mut program);
                match to_group {
                    true => rustix::process::kill_process_group(us, signal),
                    false => kill_process(us, signal),
                }
                .expect("it runs");
                let status = program.done().status;
                let ended = (status.code(), status.signal());
                let wanted = if is_whole { (Some(7), None) } else { (None, Some(signal.as_raw())) };
                assert_eq!(ended, wanted, "{shell}: {text}, to the group: {to_group}");
            }
        }
    }
}

/// By Ctrl-Z all stop, and by a signal to stages they alone; those that go on while we do not were not stopped.
#[test]
fn time_that_it_was_stopped_is_told() {
    const STOPPED: Duration = Duration::from_millis(400);
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("told");
    let text = format!("{WAITS} | {WAITS}");
    for (them, with_us) in [(true, true), (true, false), (false, true)] {
        let path = path.to_str().expect("plain");
        let (mut program, pids, _told) = running(&["run", "--json", path, &text], 2);
        let us = pid_of(&mut program);
        let all = pids.iter().copied().filter(|_| them).chain(with_us.then_some(us));
        let send = |signal| all.clone().for_each(|pid| kill_process(pid, signal).expect("it runs"));
        send(Signal::STOP);
        std::thread::sleep(STOPPED);
        send(Signal::CONT);
        kill_process(us, Signal::TERM).expect("it runs");
        program.done();
        let told = std::fs::read(path).expect("it is told");
        let told: serde_json::Value = serde_json::from_slice(&told).expect("JSON");
        // It is not looked at all the time.
        let stopped_s = told["stopped_s"].as_f64().expect("a number");
        let wanted = if them { 0.1..60.0 } else { 0.0..f64::MIN_POSITIVE };
        assert!(wanted.contains(&stopped_s), "{them} {with_us}: {told}");
    }
}

/// Each signal is sent by the first stage, to the whole group as a key would, or to the program
/// alone, while there are many left to be started.
#[test]
fn a_signal_that_comes_while_stages_are_started_ends_them_too() {
    let sends = [
        (Signal::INT, "kill -INT 0"),
        (Signal::QUIT, "kill -QUIT 0"),
        (Signal::TERM, "kill -TERM $PPID; exec sleep 1000"),
    ];
    for (signal, text) in sends {
        // Whoever runs the tests may have them ignore signals.
        let first = ["--default-signal", BYTEPATH, "run", "--", "sh", "-c", text];
        let words = [&first[..], &[":::", "sleep", "1000"].repeat(150)].concat();
        let done = run(Command::new("env").args(words));
        assert_eq!(done.status.signal(), Some(signal.as_raw()), "{done:?}");
    }
}

#[test]
fn no_sockets_are_needed() {
    if !may_trace() {
        return;
    }
    let refused = "strace -f -qqq -o /dev/null -e inject=socket,socketpair,sendto,recvfrom:error=EPERM $bytepath";
    for words in ["run 'echo one | cat'", "run -- echo one", "explain --json /dev/null -- echo one"]
    {
        let done = shell(&format!("{refused} {words}"));
        assert_eq!((done.status.code(), done.stdout.as_str()), (Some(0), "one\n"), "{done:?}");
    }
    let done = shell(&format!("echo one | {refused} pv -q"));
    assert_eq!((done.status.code(), done.stdout.as_str()), (Some(0), "one\n"), "{done:?}");
    // What comes is heard, and passed on.
    let text = "kill -TERM $PPID; exec sleep 1000";
    let done = shell(&format!("exec {refused} run -- sh -c '{text}'"));
    assert_eq!(done.status.signal(), Some(Signal::TERM.as_raw()), "{done:?}");
}

#[test]
fn why_signals_cannot_be_caught_is_told() {
    if !may_trace() {
        return;
    }
    for (error, word, remedy) in [
        ("EPERM", "Operation not permitted", ""),
        ("EMFILE", "Too many open files", "; close files, or raise the limit on them (ulimit -n)"),
    ] {
        let done = shell(&format!(
            "strace -f -qqq -o /dev/null -e inject=pipe2:error={error} $bytepath run -- true"
        ));
        let said = format!("bytepath: cannot catch signals: {word}{remedy}\n");
        assert_eq!((done.status.code(), done.stderr), (Some(126), said), "{error}");
    }
}

#[test]
fn what_was_ignored_at_the_start_stays_ignored() {
    let line = "trap '' HUP; exec \"$0\" run \"sh -c 'kill -HUP \\$PPID; echo on' | cat\"";
    let mut command = Command::new("sh");
    let done = run(command.args(["-c", line, BYTEPATH]).stdin(Stdio::null()));
    assert_eq!((done.status.code(), done.stdout.as_str()), (Some(0), "on\n"), "{done:?}");
}

/// Each writes "ready" when it is, and the key that interrupts is pressed then. Where some end by it and some
/// otherwise at the same moment, bash does this or that.
#[test]
fn it_ends_by_the_key_that_interrupts_where_bash_would() {
    if !installed("bash") {
        return;
    }
    // It is told when what comes behind has long begun: a shell that is between two commands may miss the key.
    let ready = "{ sleep 0.5; echo ready >&2; } &";
    let texts = [
        format!("sh -c '{ready} exec sleep 1000' | true"),
        format!("sh -c '{ready} exec sleep 1000' | sh -c 'exit 5'"),
        format!("sh -c '{ready} exec sleep 1000' | cat"),
        format!("sh -c 'trap \"\" INT; {ready} exec sleep 2' | cat"),
    ];
    for text in &texts {
        let [by_bash, by_us] =
            [vec!["bash", "-c", text], vec![BYTEPATH, "run", "--shell", "bash", text]]
                .map(|words| interrupted(&words));
        assert_eq!((by_us.code(), by_us.signal()), (by_bash.code(), by_bash.signal()), "{text}");
    }
}

/// How it ends where all of its group are sent what the key sends, once a stage is ready.
fn interrupted(words: &[&str]) -> ExitStatus {
    use std::os::unix::process::CommandExt as _;
    let mut command = Command::new("env");
    command.args(["--default-signal"]).args(words).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut program = spawned(&mut command);
    let mut told = BufReader::new(program.child().stderr.take().expect("it is piped"));
    let mut line = String::new();
    while line != "ready\n" {
        line.clear();
        let count = std::io::BufRead::read_line(&mut told, &mut line).expect("text");
        assert_ne!(count, 0, "{words:?} ended");
    }
    let group = pid_of(&mut program);
    rustix::process::kill_process_group(group, Signal::INT).expect("it runs");
    program.done().status
}

/// A person at a shell with job control, on a terminal of its own.
struct Person {
    terminal: File,
    seen: String,
    shell: Option<Bounded>,
}

impl Person {
    fn sits_down() -> Option<Person> {
        if !installed("setsid") || !installed("bash") {
            return None;
        }
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let terminal = openpt(flags).expect("a terminal");
        grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("it is ours");
        let name = ptsname(&terminal, Vec::new()).expect("it has a name");
        let name = name.to_str().expect("plain").to_owned();
        let end = || File::options().read(true).write(true).open(&name).expect("its other end");
        let mut command = Command::new("setsid");
        command.args(["--ctty", "--wait", "bash", "--norc", "--noprofile", "--noediting", "-i"]);
        command.env("PS1", "ready> ").env("HISTFILE", "").env("TERM", "xterm");
        command.env("bytepath", BYTEPATH);
        command.stdin(end()).stdout(end()).stderr(end());
        let shell = Some(spawned(&mut command));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Some(Person { terminal: terminal.into(), seen: String::new(), shell })
    }

    fn types(&mut self, keys: &str) {
        self.terminal.write_all(keys.as_bytes()).expect("typed");
    }

    /// Reads until this is shown, and gives what was shown up to there.
    #[track_caller]
    fn sees(&mut self, words: &str) -> String {
        let until = Instant::now() + HANGS_AFTER;
        while !self.seen.contains(words) {
            assert!(self.sees_more(until), "the shell ended; {words:?} is not in {:?}", self.seen);
        }
        let after = self.seen.find(words).expect("it is there") + words.len();
        self.seen.drain(..after).collect()
    }

    /// Whether more is shown, before nobody has the terminal any more.
    #[track_caller]
    fn sees_more(&mut self, until: Instant) -> bool {
        let left = Timespec::try_from(until.saturating_duration_since(Instant::now())).ok();
        let mut fds = [PollFd::from_borrowed_fd(self.terminal.as_fd(), PollFlags::IN)];
        let ready = rustix::event::poll(&mut fds, left.as_ref());
        assert_ne!(ready, Ok(0), "hangs; it has shown {:?}", self.seen);
        let mut piece = [0; 4096];
        let count = self.terminal.read(&mut piece).unwrap_or(0);
        self.seen += &String::from_utf8_lossy(&piece[..count]);
        count > 0
    }

    /// The number of a stage of [`TEXTS`], once it has begun.
    #[track_caller]
    fn sees_a_stage(&mut self) -> Pid {
        let said = self.sees(" started\r\n");
        let number = said.trim_end_matches(" started\r\n").lines().last().expect("a number");
        Pid::from_raw(number.parse().expect("a number")).expect("a process")
    }

    fn leaves(mut self) {
        self.types("exit\n");
        let until = Instant::now() + HANGS_AFTER;
        while self.sees_more(until) {}
        self.shell.take().expect("it was started").done();
    }
}

impl Drop for Person {
    /// Nothing of the session outlives a test that failed.
    fn drop(&mut self) {
        let Ok(session) = tcgetsid(&self.terminal) else { return };
        let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        for pid in pids.filter_map(Pid::from_raw) {
            let number = nix::unistd::Pid::from_raw(pid.as_raw_nonzero().get());
            let its = nix::unistd::getsid(Some(number)).map(nix::unistd::Pid::as_raw);
            if its == Ok(session.as_raw_nonzero().get()) {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// Both ways of running a text. The last stage does not read, since one that does may find its input
/// at an end before the key's signal finds it, and then ends well, in a shell too. Each says when it
/// has begun, and its number.
const TEXTS: [&str; 2] = [
    r"sh -c 'echo \$\$ started >&2; exec sleep 1000' | sh -c 'echo \$\$ started >&2; exec sleep 1000'",
    r"{ sh -c 'echo \$\$ started >&2; exec sleep 1000' | cat; } | sh -c 'echo \$\$ started >&2; exec sleep 1000'",
];

#[test]
fn ctrl_c_ends_the_stages_and_then_it() {
    for text in TEXTS {
        let Some(mut person) = Person::sits_down() else { return };
        person.sees("ready> ");
        person.types(&format!("\"$bytepath\" run --no-summary \"{text}\"; echo code=$?\n"));
        let pids = [person.sees_a_stage(), person.sees_a_stage()];
        person.types("\x03");
        person.sees("ready> ");
        person.types("echo code=$?, jobs=$(jobs -p | wc -l)\n");
        person.sees("code=130, jobs=0\r\n");
        gone(&pids);
        person.leaves();
    }
}

#[test]
fn ctrl_z_stops_and_fg_goes_on() {
    for text in TEXTS {
        let Some(mut person) = Person::sits_down() else { return };
        person.sees("ready> ");
        let shell = tcgetpgrp(&person.terminal).expect("the shell's group");
        person.types(&format!("\"$bytepath\" run \"{text}\"\n"));
        person.sees_a_stage();
        person.sees_a_stage();
        person.types("\x1a");
        person.sees("Stopped");
        // On a busy machine a stage may not have come to it yet.
        let go_on = "while ps -o stat= --ppid $(jobs -p) | grep -qv ^T; do sleep 0.1; done";
        person.types(&format!("{go_on}; echo stopped=$(jobs -s | wc -l)=\n"));
        person.sees("stopped=1=");
        person.sees("ready> ");
        person.types("fg\n");
        // The shell names the job before it gives it the terminal.
        let until = Instant::now() + HANGS_AFTER;
        while tcgetpgrp(&person.terminal) == Ok(shell) {
            assert!(Instant::now() < until, "the job does not get the terminal");
        }
        person.sees("bytepath");
        person.types("\x03");
        person.sees("ready> ");
        person.leaves();
    }
}

#[test]
fn stages_read_the_terminal_and_the_summary_comes_on_it() {
    let Some(mut person) = Person::sits_down() else { return };
    person.sees("ready> ");
    person.types("\"$bytepath\" run 'head -1 | tr a-z A-Z'\n");
    person.sees("A-Z'\r\n");
    person.types("spoken\n");
    person.sees("SPOKEN");
    person.sees("held up by");
    person.sees("ready> ");
    person.leaves();
}

#[test]
fn progress_draws_a_line_a_stage() {
    let Some(mut person) = Person::sits_down() else { return };
    person.sees("ready> ");
    let text = "head -c 1G /dev/zero | LANG=C tr x y | wc -c";
    // With its output elsewhere the lines are drawn over, and gone in the end.
    person.types(&format!("\"$bytepath\" run --progress --no-summary '{text}' | cat\n"));
    let drawn = person.sees("ready> ");
    // A stage has its name before a shell has made it its program, and a rate once there is one.
    for words in ["\nLANG=C tr x y  ", "/s, ", "% full", "\x1b[4A", "\x1b[J", "1073741824"] {
        assert!(drawn.contains(words), "{words:?} is not in {drawn:?}");
    }
    assert!(!drawn.contains("unknown/s"), "{drawn:?}");
    person.types(&format!("\"$bytepath\" run --progress --no-summary '{text}'\n"));
    let drawn = person.sees("ready> ");
    assert!(drawn.contains("% full") && drawn.contains("1073741824"), "{drawn:?}");
    assert!(!drawn.contains("\x1b[J") && !drawn.contains("\x1b[4A"), "{drawn:?}");
    person.leaves();
}

#[test]
fn commands_that_are_measured_have_the_terminal_and_are_interrupted_at_it() {
    let Some(mut person) = Person::sits_down() else { return };
    person.sees("ready> ");
    let bench = "\"$bytepath\" bench cmd --no-store --blocks 2";
    // Who sets it is stopped where its group is not the one in front.
    person.types(&format!("{bench} 'stty sane </dev/tty' && echo me''asured\n"));
    person.sees("measured\r\n");
    person.types(&format!("{bench} true --prepare 'stty sane </dev/tty' && echo me''asured\n"));
    person.sees("measured\r\n");
    person.sees("ready> ");
    person.types(&format!("{bench} 'echo be''gun >/dev/tty; sleep 100; :'; echo en''ded $?\n"));
    person.sees("begun\r\n");
    person.types("\x03");
    person.sees("ready> ");
    person.types("echo co''de $?\n");
    person.sees("code 130");
    person.leaves();
}
