//! `pv` and other processes: those that it watches, changes, asks and runs.

use std::fs::{self, File};
use std::io::{BufRead as _, Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::program::{
    BYTEPATH, Bounded, Done, as_nobody, catches, installed, root, root_as_nobody, run, shell,
    signal_of, spawned, until,
};
use crate::pv::{lines, ours, pipe, real};

/// Whether a process catches SIGUSR2, so that a wish would not end it.
fn takes_wishes(pid: u32) -> bool {
    let pid = pid.try_into().ok().and_then(Pid::from_raw);
    catches(pid.expect("a process"), Signal::USR2)
}

/// A pv between two pipes, started and ready.
fn between(words: &[&str]) -> (Bounded, u32, OwnedFd, OwnedFd) {
    begun_between(&mut ours(words))
}

fn begun_between(command: &mut Command) -> (Bounded, u32, OwnedFd, OwnedFd) {
    let ((reader, writer), (out, into)) = (pipe().expect("a pipe"), pipe().expect("a pipe"));
    let mut program = spawned(command.stdin(reader).stdout(into).stderr(Stdio::piped()));
    let pid = program.child().id();
    until("it starts", || takes_wishes(pid));
    (program, pid, writer, out)
}

fn ended(program: Bounded, pid: u32, signal: Signal) -> Done {
    let pid = Pid::from_raw(i32::try_from(pid).expect("a number")).expect("a process");
    kill_process(pid, signal).expect("it runs");
    program.done()
}

/// An environment of its own to exchange wishes in is not to be had where /run/user is ours, and
/// does not matter: the files carry the numbers of the processes.
#[test]
fn a_rate_is_changed_while_bytes_move() {
    // One byte a second: nothing of this would arrive in time.
    let (program, pid, writer, out) = between(&["-q", "-L", "1"]);
    let text = lines(2000);
    let done = run(&mut ours(&["-R", &pid.to_string(), "-L", "0"]));
    done.well();
    let got = std::thread::scope(|scope| {
        scope.spawn(|| fs::File::from(writer).write_all(text.as_bytes()).expect("taken"));
        std::io::read_to_string(fs::File::from(out)).expect("read")
    });
    assert!(got == text);
    assert!(program.done().status.success());
}

#[test]
fn a_pv_whose_name_is_cut_within_a_character_is_changed_as_any() {
    let folder = tempfile::tempdir().expect("a folder");
    // The kernel keeps 15 bytes of it.
    let link = folder.path().join("fourteen bytesé");
    std::os::unix::fs::symlink(BYTEPATH, &link).expect("a link");
    let (program, pid, writer, out) =
        begun_between(Command::new(&link).arg0("pv").args(["-q", "-L", "1"]));
    run(&mut ours(&["-R", &pid.to_string(), "-L", "0"])).well();
    drop((writer, out));
    assert!(program.done().status.success());
}

#[test]
fn a_quiet_pv_follows_and_answers_while_nothing_comes() {
    let (program, pid, writer, out) = between(&["-q"]);
    let pid = pid.to_string();
    // It has not read a byte, and sleeps until one comes.
    let done = run(&mut ours(&["-R", &pid, "-L", "1"])).well();
    assert_eq!(done.stderr, "", "it answers");
    let mut command = ours(&["-n", "-b", "-i", "0.1", "-Q", &pid]);
    let mut query = spawned(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let mut first = [0; 2];
    let mut said = query.child().stderr.take().expect("it is piped");
    said.read_exact(&mut first).expect("it answers");
    assert_eq!(&first, b"0\n");
    run(&mut ours(&["-R", &pid, "-L", "0"])).well();
    drop((said, writer, out));
    assert!(program.done().status.success());
    query.done();
}

#[test]
fn what_is_shown_is_changed_while_bytes_move() {
    let (program, pid, writer, out) = between(&["-f", "-i", "0.1", "-b"]);
    run(&mut ours(&["-R", &pid.to_string(), "-N", "changed", "-F", "new %N %b"])).well();
    fs::File::from(writer).write_all(&[b'x'; 1234]).expect("taken");
    let mut got = Vec::new();
    fs::File::from(out).read_to_end(&mut got).expect("read");
    assert_eq!(got.len(), 1234);
    let done = program.done();
    assert!(done.status.success() && done.stderr.contains("changed: 1.2"), "{done:?}");

    let (program, pid, writer, out) = between(&["-f", "-i", "0.1", "-p"]);
    run(&mut ours(&["-R", &pid.to_string(), "-8"])).well();
    drop(writer);
    assert_eq!(fs::File::from(out).read_to_end(&mut Vec::new()).expect("read"), 0);
    let done = program.done();
    let last = done.stderr.trim_end().rsplit('\r').next().expect("a line");
    assert!(last.contains("0.00") && !last.contains('<'), "{done:?}");
}

/// Over the environment, which says what hour it is here, and which letters and colours are shown.
#[test]
fn a_long_title_of_the_process_leaves_the_environment_as_it_was() {
    let (source, feed) = pipe().expect("a pipe");
    let format = "%{sgr:red}%2{bar-block}%{sgr:reset}%I";
    let mut command = ours(&["-f", "-i", "0.1", "-s", "2", "-F", format, "-x", "process:%900p"]);
    command.env_clear().envs(std::env::var_os("HOME").map(|home| ("HOME", home)));
    command.envs([("TZ", "XYZ-9"), ("LC_ALL", "C.UTF-8"), ("TERM", "xterm")]);
    let seconds = std::time::UNIX_EPOCH.elapsed().expect("it is later").as_secs();
    let hours =
        [0, 1].map(|more| format!("\x1b[31m█ \x1b[0mFIN {:02}", (seconds / 3600 + 9 + more) % 24));
    let mut program = spawned(command.stdin(source).stdout(Stdio::null()).stderr(Stdio::piped()));
    drop(command);
    let mut feed = fs::File::from(feed);
    feed.write_all(b"1").expect("there is room");
    let pid = program.child().id().to_string();
    let stderr = program.child().stderr.take().expect("it is piped");
    let drawn = std::io::BufReader::new(stderr).split(b'\r').map(|line| line.expect("read"));
    for (line, number) in drawn.take(8).zip(0..) {
        let line = String::from_utf8_lossy(&line);
        assert!(hours.iter().any(|hour| line.starts_with(hour)), "{number}: {line:?} {hours:?}");
        if number == 3 {
            // What is shown is made anew.
            run(&mut ours(&["-R", &pid, "-N", "name"])).well();
        }
    }
    drop(feed);
    program.done();
}

#[test]
fn a_query_shows_what_the_other_has_moved() {
    let (mut program, pid, mut writer, mut out) = {
        let (program, pid, writer, out) = between(&["-f", "-i", "0.1", "-b"]);
        (program, pid, fs::File::from(writer), fs::File::from(out))
    };
    writer.write_all(&[b'x'; 4321]).expect("taken");
    let mut got = vec![0; 4321];
    out.read_exact(&mut got).expect("moved");
    // Counted is what the other counts.
    let mut command = ours(&["-n", "-b", "-0", "-i", "0.1", "-Q", &pid.to_string()]);
    let mut query = spawned(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let mut said = query.child().stderr.take().expect("it is piped");
    let mut text = String::new();
    let mut piece = [0; 64];
    while !text.contains("4321") {
        let count = said.read(&mut piece).expect("it says something");
        assert!(count > 0, "it ended with {text:?}");
        text += &String::from_utf8_lossy(&piece[..count]);
    }
    drop(said);
    drop((writer, out));
    let _ = program.child();
    assert!(program.done().status.success());
    query.done();
}

#[test]
fn a_query_ends_with_the_other_also_where_nobody_has_waited_for_that() {
    let (program, pid, _writer, _out) = between(&["-q"]);
    let pid = pid.to_string();
    let mut command = ours(&["-n", "-b", "-i", "0.1", "-Q", &pid]);
    let mut query = spawned(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let said = query.child().stderr.as_mut().expect("it is piped");
    said.read_exact(&mut [0; 2]).expect("it answers");
    kill_process(program.group, Signal::TERM).expect("it runs");
    assert!(query.done().status.success());
    for option in ["-R", "-Q"] {
        run(&mut ours(&[option, &pid])).refused(1, &["No such process"]);
    }
    assert_eq!(program.done().status.code(), Some(32));
}

#[test]
fn the_time_that_a_query_shows_is_the_others() {
    let (program, pid, _writer, _out) = between(&["-q"]);
    let mut command = ours(&["-n", "-t", "-b", "-i", "0.1", "-Q", &pid.to_string()]);
    let mut query = spawned(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let stderr = query.child().stderr.take().expect("it is piped");
    let mut lines = std::io::BufReader::new(stderr).lines().map(|line| line.expect("text"));
    let mut before = lines.next().expect("it answers");
    kill_process(program.group, Signal::TSTP).expect("it runs");
    until("it stops", || state_of(pid) == Some('T'));
    // A clock of its own would go on from line to line.
    let stands = lines.take(600).any(|line| std::mem::replace(&mut before, line) == before);
    assert!(stands, "{before}");
    kill_process(program.group, Signal::CONT).expect("it is there");
    assert_eq!(ended(program, pid, Signal::TERM).status.code(), Some(32));
    query.done();
}

#[test]
fn who_has_the_number_of_a_pv_that_has_ended_is_not_asked() {
    let last = "/proc/sys/kernel/ns_last_pid";
    if !(root() && installed("unshare") && Path::new(last).exists()) {
        return println!("skipped: to give a number away takes root, unshare(1) and {last}");
    }
    if fs::read_dir("/run/user").is_ok_and(|mut users| users.next().is_some()) {
        return println!("skipped: wishes are exchanged in /run/user, by numbers of here");
    }
    let home = tempfile::tempdir().expect("a folder");
    let done = shell(&format!(
        "cd {} && export HOME=$PWD && mkfifo fifo && unshare --pid --fork --mount-proc sh -c '
        exec 3<>fifo
        $bytepath pv -q <fifo >data & asked=$!
        until grep -q \"SigCgt:.*[89a-f]..$\" /proc/$asked/status; do :; done
        $bytepath pv -n -b -i 1 -Q $asked 2>told & query=$!
        until [ -s told ]; do :; done
        kill -KILL $asked
        wait $asked
        echo $((asked - 1)) >{last}
        sleep 1000 & other=$!
        wait $query
        kill $other
        wait $other
        echo $((other - asked)) $?'",
        home.path().display()
    ));
    assert_eq!(done.stdout, "0 143\n", "{done:?}");
}

#[test]
fn a_query_of_a_quiet_pv_shows_the_share_of_the_whole() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(&[0; 5000]).and_then(|()| file.flush()).expect("written");
    let mut command = ours(&["-q", "-L", "1", file.path().to_str().expect("plain")]);
    let mut program = spawned(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let pid = program.child().id();
    until("it starts", || takes_wishes(pid));
    let format = "at %{progress-amount-only};";
    let mut command = ours(&["-f", "-i", "0.1", "-F", format, "-Q", &pid.to_string()]);
    let mut query = spawned(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let mut first = [0; 8];
    let said = query.child().stderr.as_mut().expect("it is piped");
    said.read_exact(&mut first).expect("it answers");
    assert_eq!(&first, b"at   0%;");
    assert_eq!(ended(program, pid, Signal::TERM).status.code(), Some(32));
    query.done();
}

#[test]
fn a_size_that_is_a_files_is_that_of_the_one_who_asks() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("here"), [0; 8]).expect("written");
    fs::write(folder.path().join("there"), [0; 4]).expect("written");
    let (mut program, pid, writer, out) = between(&["-n", "-i", "0.1"]);
    let mut writer = fs::File::from(writer);
    writer.write_all(b"22").expect("taken");
    // What the reader has not taken does not count.
    let mut out = fs::File::from(out);
    out.read_exact(&mut [0; 2]).expect("moved");
    let pid = pid.to_string();
    run(ours(&["-R", &pid, "-s", "@here", "--"]).current_dir(folder.path())).well();
    let stderr = program.child().stderr.take().expect("it is piped");
    let lines = std::io::BufReader::new(stderr).lines().map(|line| line.expect("text"));
    let mut lines = lines.take(99);
    assert!(lines.any(|line| line == "25"), "it is another");
    run(ours(&["-R", &pid, "-s", "@there", "-N", "--"]).current_dir(folder.path())).well();
    assert!(lines.any(|line| line == "50"), "it is another");
    drop(writer);
    program.done();
    run(&mut ours(&["-R", &pid, "-s", "@/no/such/file"])).refused(64, &["pv: -s: /no/such/file: "]);
}

#[test]
fn a_query_of_one_that_watches_another_shows_where_the_file_stands() {
    let named = tempfile::NamedTempFile::new().expect("a file");
    named.as_file().set_len(8000).expect("it grows");
    let file = fs::File::open(named.path()).expect("open");
    (&file).seek(SeekFrom::Start(2000)).expect("set");
    let fd = format!("{}:{}", std::process::id(), file.as_raw_fd());
    let mut watcher = spawned(ours(&["-q", "-d", &fd]).stderr(Stdio::piped()));
    let pid = watcher.child().id();
    until("it starts", || takes_wishes(pid));
    let format = "at %{progress-amount-only} %b;";
    let mut command = ours(&["-f", "-i", "0.1", "-F", format, "-Q", &pid.to_string()]);
    let mut query = spawned(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let mut first = [0; 17];
    let said = query.child().stderr.as_mut().expect("it is piped");
    said.read_exact(&mut first).expect("it answers");
    assert_eq!(String::from_utf8_lossy(&first), "at  25% 1.95KiB;\r");
    assert_eq!(ended(watcher, pid, Signal::TERM).status.code(), Some(32));
    query.done();
}

#[test]
fn numbers_of_no_single_process_are_refused() {
    for words in [["-Q", "-5"], ["-Q", "0"], ["-R", "-1"], ["-R", "-2147483648"], ["-R", "x"]] {
        run(&mut ours(&words)).refused(64, &["pv: ", "the number of a process is expected"]);
    }
    let us = std::process::id().to_string();
    for option in ["-R", "-Q"] {
        run(&mut ours(&[option, &us, "file"])).refused(64, &[&format!("pv: {option}: ")]);
    }
}

fn private(folder: &Path) {
    fs::DirBuilder::new().mode(0o700).create(folder).expect("made");
}

#[test]
fn nothing_of_another_user_is_waited_for_among_wishes() {
    if fs::read_dir("/run/user").is_ok_and(|mut users| users.next().is_some()) {
        return println!("skipped: wishes are exchanged in /run/user");
    }
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join(".pv");
    private(&folder);
    let (reader, writer) = pipe().expect("a pipe");
    let mut command = ours(&["-q"]);
    command.stdin(reader).stdout(Stdio::null()).stderr(Stdio::null()).env("HOME", home.path());
    let mut program = spawned(&mut command);
    drop(command);
    let pid = program.child().id();
    until("it starts", || takes_wishes(pid));
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
    let started = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(19));
    let planted = folder.join(format!("bytepath-pv.{pid}-{}.1.wish", started.expect("a time")));
    run(Command::new("mkfifo").arg(&planted)).well();
    let wish = || run(ours(&["-R", &pid.to_string(), "-N", "it"]).env("HOME", home.path()));
    wish().well();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).expect("it is ours");
    wish().refused(1, &["pv: ", ".pv: others may write to it", "set HOME"]);
    if root() {
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).expect("it is ours");
        chown(&folder, Some(65534), None).expect("it is somebody else's");
        wish().refused(1, &["pv: ", ".pv: others may write to it", "set HOME"]);
    }
    drop(writer);
    assert!(program.done().status.success());
}

#[test]
fn a_wish_that_was_taken_is_not_said_to_be_for_nobody_where_who_took_it_ended_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    // Whoever has our program's name.
    let program = folder.path().join("bytepath");
    fs::copy("/bin/sh", &program).expect("copied");
    let user = rustix::process::getuid().as_raw();
    let line = format!(
        "trap 'rm -f /run/user/{user}/bytepath-pv.$$-* \"$HOME\"/.pv/bytepath-pv.$$-*; exit' USR2; \
         while :; do sleep 0.01; done"
    );
    let mut command = Command::new(&program);
    command.arg0("sh").args(["-c", &line]).env("HOME", folder.path());
    let mut taker = spawned(&mut command);
    let pid = taker.child().id();
    until("it starts", || takes_wishes(pid));
    run(ours(&["-R", &pid.to_string(), "-L", "1"]).env("HOME", folder.path())).well();
    assert!(taker.done().status.success());
}

#[test]
fn wishes_for_those_that_are_gone_are_put_away_by_the_next() {
    let user = rustix::process::getuid().as_raw();
    if fs::exists(format!("/run/user/{user}")).is_ok_and(|there| there) {
        println!("skipped: wishes are exchanged in /run/user/{user}, which others use");
        return;
    }
    let home = tempfile::tempdir().expect("a folder");
    let folder = home.path().join(".pv");
    private(&folder);
    fs::write(folder.join("bytepath-pv.4194305.7.wish"), "set").expect("written");
    let (reader, _writer) = pipe().expect("a pipe");
    let mut command = ours(&["-q", "-L", "1"]);
    command.stdin(reader).stdout(Stdio::null()).stderr(Stdio::null()).env("HOME", home.path());
    let mut program = spawned(&mut command);
    let pid = program.child().id();
    until("it starts", || takes_wishes(pid));
    // For one that had the number before.
    let stale = folder.join(format!("bytepath-pv.{pid}-1.7.wish"));
    fs::write(stale, "set\0-L\x003").expect("written");
    run(ours(&["-R", &pid.to_string(), "-N", "it"]).env("HOME", home.path())).well();
    assert_eq!(fs::read_dir(&folder).expect("there").count(), 0);
}

#[test]
fn a_process_that_takes_no_wishes_is_not_harmed() {
    let mut command = std::process::Command::new("sleep");
    let mut other = spawned(command.arg("1000").stdout(Stdio::null()).stderr(Stdio::null()));
    let pid = other.child().id();
    for option in ["-R", "-Q"] {
        run(&mut ours(&[option, &pid.to_string()])).refused(1, &["pv: ", "takes wishes"]);
        // The first process of a container may be one that does.
        run(&mut ours(&[option, "1"])).refused(1, &["pv: "]);
    }
    let pid = Pid::from_raw(i32::try_from(pid).expect("a number")).expect("a process");
    test_kill_process(pid).expect("it runs on");
    // Numbers of processes end below this.
    for option in ["-R", "-Q"] {
        run(&mut ours(&[option, "4194305"])).refused(1, &["pv: 4194305: No such process"]);
    }
    if installed("pv") {
        assert_eq!(run(&mut real(&["-R", "4194305"])).status.code(), Some(1));
    }
}

#[test]
fn a_wish_for_another_users_pv_is_refused() {
    let Some(nobody) = root_as_nobody() else { return };
    let (program, pid, writer, _out) = between(&["-q"]);
    shell(&format!("{nobody}\"$bytepath\" pv -R {pid} -L 1")).refused(1, &["pv: ", "another user"]);
    drop(writer);
    assert!(program.done().status.success());
}

#[test]
fn a_folder_for_wishes_that_cannot_be_made_is_named() {
    let Some(nobody) = as_nobody() else { return };
    if fs::read_dir("/run/user").is_ok_and(|mut users| users.next().is_some()) {
        println!("skipped: wishes are exchanged in /run/user");
        return;
    }
    let (reader, writer) = pipe().expect("a pipe");
    let mut command = std::process::Command::new("sh");
    command.args(["-c", &format!("exec {nobody}{BYTEPATH} pv -q")]).stdin(reader);
    let mut program = spawned(command.stdout(Stdio::null()).stderr(Stdio::null()));
    drop(command);
    let pid = program.child().id();
    until("it starts", || takes_wishes(pid));
    shell(&format!("export HOME=/no/such; exec {nobody}\"$bytepath\" pv -R {pid} -L 1"))
        .refused(1, &["pv: /no/such/.pv: No such file or directory", "set HOME"]);
    drop(writer);
    assert!(program.done().status.success());
}

#[test]
fn signals_that_end_it_give_the_exit_code_of_the_real_pv() {
    let quiet: &[&str] = &["-q"];
    for words in [quiet, &["-f"], &["-n"], &["-qL", "10"], &["-q", "-P", "/dev/shm/pv-test.pid"]] {
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let (program, pid, _writer, _out) = between(words);
            let done = ended(program, pid, signal);
            assert_eq!(done.status.code(), Some(32), "{words:?} {signal:?} {done:?}");
        }
    }
    assert!(!std::path::Path::new("/dev/shm/pv-test.pid").exists(), "it is put away");
}

/// A pipe that is full, and that nobody reads.
pub(crate) fn stuck() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = pipe().expect("a pipe");
    rustix::pipe::fcntl_setpipe_size(&writer, 4096).expect("one slot");
    let mut full = fs::File::from(writer.try_clone().expect("a second"));
    full.write_all(&[b'f'; 4096]).expect("there is room");
    (reader, writer)
}

#[test]
fn signals_end_it_also_while_nobody_takes_what_it_tells() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("watched");
    let held = fs::File::create(&path).expect("a file");
    let held = format!("{}:{}", std::process::id(), held.as_raw_fd());
    let cases: [&[&str]; 6] = [
        &["-n", "-i", "0.1"],
        &["-f", "-i", "0.1"],
        &["-f", "-i", "0.1", "-v", "-C"],
        &["-f", "-i", "0.1", "-d", &held],
        &["-f", "-i", "0.1", "-M", "out", "--", "sleep", "200"],
        // It is over, and tells so.
        &["-n", "-o", path.to_str().expect("plain"), "/dev/fd/0", "/no/such/file"],
    ];
    for words in cases {
        for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
            let (_unread, told) = stuck();
            let (source, feed) = pipe().expect("a pipe");
            let mut program = spawned(ours(words).stdin(source).stdout(Stdio::null()).stderr(told));
            let pid = program.child().id();
            until("it starts", || takes_wishes(pid));
            let is_over = words.contains(&"/no/such/file");
            let feed = Some(feed).filter(|_| !is_over);
            // By then there was something to tell.
            std::thread::sleep(std::time::Duration::from_millis(250));
            let done = ended(program, pid, signal);
            let code = done.status.code();
            // What else went wrong may be told as well.
            assert!(code == Some(32) || is_over && code == Some(34), "{words:?} {done:?}");
            drop(feed);
        }
    }
}

#[test]
fn numbers_that_are_read_slowly_all_arrive() {
    let (reader, told) = stuck();
    let (source, feed) = pipe().expect("a pipe");
    let mut command = ours(&["-n", "-b", "-i", "0.1"]);
    let program = spawned(command.stdin(source).stdout(Stdio::null()).stderr(told));
    drop(command);
    fs::File::from(feed).write_all(&[0; 1234]).expect("there is room");
    let mut text = String::new();
    fs::File::from(reader).read_to_string(&mut text).expect("read");
    let lines: Vec<&str> = text.trim_start_matches('f').lines().collect();
    assert_eq!(lines.last(), Some(&"1234"), "{lines:?}");
    assert!(program.done().status.success());
}

#[test]
fn an_alarm_ends_it_whoever_set_it() {
    let (program, pid, _writer, _out) = between(&["-q"]);
    let done = ended(program, pid, Signal::ALARM);
    assert_eq!(signal_of(&done), Some(Signal::ALARM.as_raw()), "{done:?}");
    if installed("perl") {
        let (source, _writer) = pipe().expect("a pipe");
        let mut command = Command::new("perl");
        command.args(["-e", "alarm 1; exec @ARGV", BYTEPATH, "pv", "-q"]);
        let done = run(command.stdin(source));
        assert_eq!(signal_of(&done), Some(Signal::ALARM.as_raw()), "{done:?}");
    }
}

#[test]
fn a_buffer_takes_what_comes_while_the_output_takes_nothing() {
    let text = lines(200_000);
    for words in [
        &["-q", "-B", "2M", "--no-enlarge"][..],
        &["-q", "-C", "-l", "-B", "2M", "--no-enlarge"],
        &["-q", "-B", "2M", "-L", "100M"],
        &["-q", "-B", "2M", "-s", "1400000", "-S"],
    ] {
        let (program, _, writer, out) = between(words);
        let sent = &text.as_bytes()[..1_400_000];
        // Nobody reads, and all of it is taken.
        fs::File::from(writer).write_all(sent).expect("taken");
        let mut got = Vec::new();
        fs::File::from(out).read_to_end(&mut got).expect("read");
        assert!(got == sent, "{words:?}");
        assert!(program.done().status.success());
    }
    // Pieces of all sizes go round in it.
    for bytes in ["7", "4096", "100003"] {
        let (program, _, writer, mut out) = {
            let (program, pid, writer, out) = between(&["-q", "-B", bytes, "--no-enlarge"]);
            (program, pid, fs::File::from(writer), fs::File::from(out))
        };
        let sent = &text.as_bytes()[..if bytes == "7" { 100_000 } else { text.len() }];
        let got = std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut writer = writer;
                for piece in sent.chunks(30_011) {
                    writer.write_all(piece).expect("taken");
                }
            });
            let (mut got, mut room) = (Vec::new(), [0; 50_021]);
            loop {
                match out.read(&mut room).expect("read") {
                    0 => break got,
                    count => got.extend_from_slice(&room[..count]),
                }
            }
        });
        assert!(got == sent, "{bytes}");
        assert!(program.done().status.success());
    }
}

#[test]
fn bytes_that_a_signal_finds_in_a_buffer_are_told_of() {
    let cases: [(&[&str], bool); 6] = [
        (&["-f", "-C", "--no-enlarge"], true),
        (&["-q", "-B", "64K", "--no-enlarge"], true),
        (&["-f", "-l", "-T", "--no-enlarge"], true),
        (&["-f", "--route", "read-write", "--no-enlarge"], true),
        // The kernel moves them: they are in one pipe or the other.
        (&["-f", "--no-enlarge"], false),
        (&["-f", "-l", "--no-enlarge"], false),
    ];
    for (words, told) in cases {
        let (program, pid, writer, out) = between(words);
        let room = rustix::pipe::fcntl_getpipe_size(&out).expect("a size") as u64;
        // More than the output holds, and the rest waits in the buffer or in the input.
        let more = vec![b'\n'; usize::try_from(room).expect("small") + 5000];
        let mut writer = fs::File::from(writer);
        let writing = std::thread::spawn(move || writer.write_all(&more).map(|()| writer));
        until("the output is full", || rustix::io::ioctl_fionread(&out) == Ok(room));
        let writer = writing.join().expect("it ends").expect("taken");
        let input = || rustix::io::ioctl_fionread(&writer).unwrap_or(0);
        until("the rest is read", || !told || input() == 0);
        let done = ended(program, pid, Signal::TERM);
        assert_eq!(done.status.code(), Some(32), "{words:?}");
        let said = done.stderr.contains("pv: 5000 bytes were read");
        assert_eq!(said, told, "{words:?}: {}", done.stderr);
    }
}

/// What came before anybody answers signals, and after that, out of a socket, which goes through memory or
/// a pipe of its own by any route.
#[test]
fn bytes_that_a_signal_finds_out_of_a_socket_arrive_or_are_told_of() {
    const SENT: usize = 5000;
    for route in ["read-write", "splice"] {
        for (early, taken) in [(true, true), (true, false), (false, true), (false, false)] {
            let (source, mut feed) = UnixStream::pair().expect("sockets");
            let left = source.try_clone().expect("a second");
            let (out, into) = pipe().expect("a pipe");
            let room = rustix::pipe::fcntl_getpipe_size(&out).expect("a size");
            let mut full = fs::File::from(into.try_clone().expect("a second"));
            full.write_all(&vec![b'f'; room]).expect("there is room");
            drop(full);
            let mut send = || feed.write_all(&[b's'; SENT]).expect("there is room");
            if early {
                send();
            }
            let mut command = ours(&["-q", "--no-enlarge", "--route", route]);
            let command = command.stdin(OwnedFd::from(source)).stdout(into).stderr(Stdio::piped());
            let mut program = spawned(command);
            command.stdin(Stdio::null()).stdout(Stdio::null());
            let pid = program.child().id();
            until("it starts", || takes_wishes(pid));
            if !early {
                send();
            }
            until("all is taken", || rustix::io::ioctl_fionread(&left) == Ok(0));
            let id = Pid::from_raw(i32::try_from(pid).expect("a number")).expect("a process");
            kill_process(id, Signal::TERM).expect("it runs");
            let mut got = Vec::new();
            let mut out = fs::File::from(out);
            if taken {
                out.read_to_end(&mut got).expect("it ends");
            }
            let done = program.done();
            out.read_to_end(&mut got).expect("it ends");
            let what = format!("{route} {early} {taken}: {} {}", got.len(), done.stderr);
            assert_eq!(done.status.code(), Some(32), "{what}");
            match SENT + room - got.len() {
                0 => assert_eq!(done.stderr, "", "{what}"),
                lost => {
                    let told =
                        format!("pv: {lost} bytes were read and could not be written any more\n");
                    assert_eq!(done.stderr, told, "{what}");
                }
            }
            assert!(taken || got.len() == room, "{what}");
        }
    }
}

#[test]
fn the_number_of_the_process_is_in_a_file_while_it_runs() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("number");
    fs::write(&path, "older").expect("written");
    let name = path.to_str().expect("plain");
    let (program, pid, writer, _out) = between(&["-q", "-P", name]);
    // Signals are caught before that.
    until("it tells its number", || {
        fs::read_to_string(&path).expect("there") == format!("{pid}\n")
    });
    drop(writer);
    assert!(program.done().status.success());
    assert!(!path.exists());
    run(&mut ours(&["-q", "-P", "/no/such/folder"]))
        .refused(1, &["pv: /no/such/folder: No such file or directory"]);
}

#[test]
fn no_number_of_a_process_is_left_by_one_that_waits_for_its_outputs_reader() {
    let folder = tempfile::tempdir().expect("a folder");
    let [number, fifo] = ["number", "fifo"].map(|name| folder.path().join(name));
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0)
        .expect("a FIFO");
    let [number, fifo] = [&number, &fifo].map(|path| path.to_str().expect("plain"));
    let mut program = spawned(&mut ours(&["-q", "-P", number, "-o", fifo]));
    let pid = program.child().id();
    until("it sleeps", || state_of(pid) == Some('S'));
    assert_eq!(signal_of(&ended(program, pid, Signal::TERM)), Some(Signal::TERM.as_raw()));
    assert!(!std::path::Path::new(number).exists());
}

/// What a process does, by one letter; nothing where there is none.
fn state_of(pid: u32) -> Option<char> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("State:\t"))?.chars().next()
}

#[test]
fn a_descriptor_of_another_process_is_watched_until_it_is_closed() {
    let mut file = tempfile::NamedTempFile::new().expect("a file");
    file.write_all(&[0; 5000]).and_then(|()| file.flush()).expect("written");
    let (reader, writer) = pipe().expect("a pipe");
    let mut command = std::process::Command::new("cat");
    let opened = fs::File::open(file.path()).expect("open");
    (&opened).seek(SeekFrom::Start(1234)).expect("set");
    // Its standard error is the file; it waits for the pipe.
    let other = spawned(command.stdin(reader).stdout(Stdio::null()).stderr(opened));
    let pid = other.group.as_raw_nonzero();
    let mut command = ours(&["-n", "-b", "-i", "0.1", "-d", &format!("{pid}:2")]);
    let mut watching = spawned(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let mut said = watching.child().stderr.take().expect("it is piped");
    let mut first = [0; 5];
    said.read_exact(&mut first).expect("it says where it stands");
    assert_eq!(&first, b"1234\n");
    drop(writer);
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("until the end");
    assert_eq!(watching.done().status.code(), Some(0), "{rest}");
    other.done();
}

/// A shell that has a file open at its thousandth byte, until it reads a line; another one ends it.
fn closes_a_file(folder: &Path) -> (Bounded, File) {
    fs::write(folder.join("a"), [0; 5000]).expect("written");
    let (reader, writer) = pipe().expect("a pipe");
    let mut command = Command::new("sh");
    command.args(["-c", "exec 3<a; head -c 1000 <&3 >/dev/null; read x; exec 3<&-; read x"]);
    let command = command.current_dir(folder).stdin(reader);
    let other = spawned(command.stdout(Stdio::null()).stderr(Stdio::null()));
    let place = format!("/proc/{}/fdinfo/3", other.group);
    let is_read = || fs::read_to_string(&place).is_ok_and(|told| told.starts_with("pos:\t1000"));
    until("it was read", is_read);
    (other, writer.into())
}

#[test]
fn what_was_closed_is_told_the_same_after_a_stop() {
    let folder = tempfile::tempdir().expect("a folder");
    let (other, mut writer) = closes_a_file(folder.path());
    // An hour between two lines, but for those that follow a stop.
    let words = ["-n", "-t", "-b", "-r", "-i", "3600", "-d", &other.group.to_string()];
    let mut watching = spawned(ours(&words).current_dir(folder.path()).stderr(Stdio::piped()));
    let stderr = watching.child().stderr.take().expect("it is piped");
    let mut lines = std::io::BufReader::new(stderr).lines().map(|line| line.expect("text"));
    lines.next().expect("it is open");
    writer.write_all(b"\n").expect("taken");
    until("it is closed", || !Path::new(&format!("/proc/{}/fd/3", other.group)).exists());
    let (group, pid) = (watching.group, watching.child().id());
    let slept = sleeps(group.as_raw_nonzero().get());
    until("it has looked", || sleeps(group.as_raw_nonzero().get()) > slept + 4);
    let told = [(); 2].map(|()| {
        kill_process(group, Signal::TSTP).expect("it runs");
        until("it stops", || state_of(pid) == Some('T'));
        kill_process(group, Signal::CONT).expect("it is there");
        lines.next().expect("it is told")
    });
    assert!(
        told[0] == told[1] && told[0].contains("3:a: ") && told[0].contains(" 1000 "),
        "{told:?}"
    );
    assert_eq!(ended(watching, pid, Signal::TERM).status.code(), Some(32));
    drop(writer);
    other.done();
}

#[test]
fn the_terminals_tab_is_told_when_nothing_is_open_or_watched_any_more() {
    let farewell = "\x1b]9;4;0;0\x1b\\";
    let folder = tempfile::tempdir().expect("a folder");
    let (other, mut writer) = closes_a_file(folder.path());
    let words = |what: &str| {
        let format = ["-f", "-9", "-i", "0.1", "-F", "%b 100%%N", "-d"];
        let mut command = ours(&[&format[..], &[what]].concat());
        command.current_dir(folder.path()).stdout(Stdio::null()).stderr(Stdio::piped());
        spawned(&mut command)
    };
    let see = |watching: &mut Bounded, words: &str| {
        let (mut seen, mut piece) = (String::new(), [0; 512]);
        while !seen.contains(words) {
            let said = watching.child().stderr.as_mut().expect("it is piped");
            let count = said.read(&mut piece).expect("it draws");
            assert!(count > 0, "{words:?} is not in {seen:?}");
            seen += &String::from_utf8_lossy(&piece[..count]);
        }
        seen
    };
    // A signal is the usual end.
    let mut alone = words(&format!("{}:3", other.group));
    let seen = see(&mut alone, "]9;4;1;20");
    assert!(seen.contains("1000  B 100%N") && !seen.contains(farewell), "{seen:?}");
    let pid = alone.child().id();
    let done = ended(alone, pid, Signal::INT);
    assert_eq!(done.status.code(), Some(32));
    assert!(done.stderr.ends_with(&format!("{farewell}\r\n")), "{done:?}");
    // The process runs on.
    let mut all = words(&other.group.to_string());
    let seen = see(&mut all, "]9;4;1;20");
    assert!(seen.contains("   3:a: 1000  B 100%N") && !seen.contains(farewell), "{seen:?}");
    writer.write_all(b"\n").expect("taken");
    see(&mut all, farewell);
    drop(writer);
    assert_eq!(all.done().status.code(), Some(0));
    other.done();
}

/// How often the threads of a process have begun to wait for something.
fn sleeps(pid: i32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").flatten();
    let of = |task: fs::DirEntry| -> u64 {
        let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
        let told = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        told.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
    };
    tasks.map(of).sum()
}

#[test]
fn where_a_file_stood_last_is_shown_however_seldom_that_is_drawn() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), [0; 50_000]).expect("written");
    let (reader, writer) = pipe().expect("a pipe");
    let script = "read x; head -c 30000 <&3 >/dev/null; read x";
    let mut command = Command::new("sh");
    command.args(["-c", &format!("exec 3<{}; {script}", file.path().display())]);
    let other = spawned(command.stdin(reader).stdout(Stdio::null()).stderr(Stdio::null()));
    let pid = other.group.as_raw_nonzero();
    let place = format!("/proc/{pid}/fdinfo/3");
    let stands_at = |at: &str| fs::read_to_string(&place).is_ok_and(|told| told.starts_with(at));
    until("it is open", || stands_at("pos:\t0"));
    // An hour between two lines.
    let mut command = ours(&["-n", "-b", "-i", "3600", "-d", &format!("{pid}:3")]);
    let mut watching = spawned(command.stdout(Stdio::null()).stderr(Stdio::piped()));
    let mut said = watching.child().stderr.take().expect("it is piped");
    let mut first = [0; 2];
    said.read_exact(&mut first).expect("it says where it stands");
    let mut writer = fs::File::from(writer);
    writer.write_all(b"\n").expect("taken");
    until("it was read", || stands_at("pos:\t30000"));
    // It sleeps between two looks: one of those that follow has begun after that.
    let pid = watching.group.as_raw_nonzero().get();
    let slept = sleeps(pid);
    until("it has looked again", || sleeps(pid) > slept + 4);
    drop(writer);
    let mut rest = String::new();
    said.read_to_string(&mut rest).expect("until the end");
    assert_eq!((&first, rest.as_str()), (b"0\n", "30000\n"));
    assert_eq!(watching.done().status.code(), Some(0));
    other.done();
}

#[test]
fn what_a_process_opens_and_closes_comes_and_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("a"), [0; 5000]).expect("written");
    let script = "exec 3<a 4>w; printf hello >&4; dd bs=1000 count=1 <&3 of=b 2>/dev/null; \
                  echo ready; read x; exec 3<&-; read x";
    let mut command = std::process::Command::new("sh");
    let command = command.args(["-c", script]).current_dir(folder.path());
    // A log that the tests write to would be watched as well.
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut other = spawned(command);
    let mut ready = [0; 6];
    other.child().stdout.as_mut().expect("piped").read_exact(&mut ready).expect("it is ready");
    let mut told = other.child().stdin.take().expect("piped");
    let pid = other.child().id().to_string();
    let mut command = ours(&["-f", "-i", "0.1", "-d", &pid]);
    let command = command.current_dir(folder.path()).stderr(Stdio::piped());
    let mut watching = spawned(command.stdout(Stdio::null()));
    let mut said = watching.child().stderr.take().expect("it is piped");
    let mut seen = String::new();
    let mut see = |seen: &mut String, times: usize, words: &str| {
        let mut piece = [0; 512];
        while seen.matches(words).count() < times {
            let count = said.read(&mut piece).expect("it draws");
            assert!(count > 0, "{words:?} is not in {seen:?}");
            *seen += &String::from_utf8_lossy(&piece[..count]);
        }
    };
    see(&mut seen, 3, "\x1b[1A");
    for line in seen.split(['\r', '\n']).filter(|line| line.contains("3:a: 1000  B")) {
        // It stood there before anybody watched.
        assert!(line.contains("[0.00  B/s]") && line.contains(" 20%"), "{seen:?}");
    }
    // Lines of numbers have names as well.
    let mut command = ours(&["-n", "-t", "-b", "-i", "0.1", "-d", &pid]);
    let command = command.current_dir(folder.path()).stderr(Stdio::piped());
    let mut numbers = spawned(command.stdout(Stdio::null()));
    let mut told_first = [0; 23];
    let said_first = numbers.child().stderr.as_mut().expect("it is piped");
    said_first.read_exact(&mut told_first).expect("it tells");
    let line = String::from_utf8_lossy(&told_first);
    assert!(line.trim_start().starts_with("3:a: 0.") && line.contains(" 1000\n"), "{line:?}");
    drop(numbers);
    // How long it will be, nobody knows.
    assert!(seen.contains("4:w: 5.00  B") && !seen.contains("100%"), "{seen:?}");
    told.write_all(b"\n").expect("it reads");
    see(&mut seen, 1, "\x1b[K");
    seen.clear();
    see(&mut seen, 2, "4:w: 5.00  B");
    assert!(!seen.contains("3:a") && !seen.contains("\x1b[1A\x1b"), "{seen:?}");
    drop(told);
    see(&mut seen, 1, "\r\n");
    drop(said);
    other.done();
    assert_eq!(watching.done().status.code(), Some(0));
}

#[test]
fn what_cannot_be_watched_is_told_with_the_exit_code_of_the_real_pv() {
    let us = std::process::id();
    let (reader, _writer) = pipe().expect("a pipe");
    let a_pipe = format!("{us}:{}", reader.as_raw_fd());
    let closed = format!("{us}:1023");
    for (words, said) in [
        (["-d", "4194305"], "pid 4194305: No such process"),
        (["-d", &closed], "fd 1023: No such file or directory"),
        (["-d", &a_pipe], "not a regular file"),
        (["-d", "=no such name"], "no process has such a name"),
        (["-d", "@/no/such/list"], "/no/such/list: No such file or directory"),
        (["-cd", "1"], "--cursor: "),
    ] {
        let done = run(&mut ours(&words));
        let code = if words[1].starts_with('@') || words[0] == "-cd" { 64 } else { 2 };
        done.refused(code, &["pv: ", said]);
        if installed("pv") && !words[1].starts_with(['=', '@']) {
            let theirs = run(&mut real(&words));
            assert_eq!(theirs.status.code(), Some(code), "{words:?} {theirs:?}");
        }
    }
}

#[test]
fn lists_and_names_name_several_at_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let list = folder.path().join("list");
    fs::write(&list, "# those\n4194305\n\n  4194306:3\n").expect("written");
    let list = format!("@{}", list.display());
    let done = run(&mut ours(&["-d", &list, "4194307"]));
    done.refused(2, &["pid 4194305:", "pid 4194306:", "pid 4194307:"]);
}

#[test]
fn a_command_is_run_and_what_goes_in_and_out_is_moved() {
    let text = lines(20_000);
    let with = |words: &[&str]| {
        let (reader, writer) = pipe().expect("a pipe");
        let mut command = ours(words);
        let program = spawned(command.stdin(reader).stdout(Stdio::piped()).stderr(Stdio::piped()));
        drop(command);
        std::thread::scope(|scope| {
            scope.spawn(|| fs::File::from(writer).write_all(text.as_bytes()));
            program.done()
        })
    };
    for side in ["in", "out", "both", "0", "1", "2"] {
        let done = with(&["-q", "-M", side, "--", "tr", "l", "L"]).well();
        assert!(done.stdout == text.replace('l', "L"), "{side}");
    }
    let done = with(&["-f", "-M", "both", "-F", "one %b", "-F", "two %b", "--", "cat"]);
    assert!(done.status.success() && done.stdout == text, "{}", done.stderr);
    assert!(done.stderr.contains("one ") && done.stderr.contains("two "), "{}", done.stderr);
    let done = with(&["-q", "-M", "out", "--", "sh", "-c", "exit 3"]);
    assert_eq!(done.status.code(), Some(3));
    for side in ["in", "out"] {
        let done = with(&["-f", "-b", "-N", "one", "-N", "two", "-M", side, "--", "cat"]);
        let of_last = done.stderr.contains("two: ") && !done.stderr.contains("one: ");
        assert!(done.status.success() && of_last, "{side}: {}", done.stderr);
    }
    let done = run(&mut ours(&["-q", "-M", "out", "-S", "-s", "9", "--", "yes"])).well();
    assert_eq!(done.stdout, "y\ny\ny\ny\ny");
    let limited = |side| with(&["-q", "-M", side, "-S", "-s", "9", "--", "cat"]).stdout;
    assert_eq!(["in", "out", "both"].map(limited), ["line 0 of"; 3]);
    run(&mut ours(&["-M", "in", "--", "/no/such/program"]))
        .refused(1, &["pv: /no/such/program: No such file or directory"]);
    run(&mut ours(&["-M", "in"])).refused(64, &["pv: "]);
}

#[test]
fn a_command_gets_the_signal_that_ends_it() {
    for signal in [Signal::TERM, Signal::HUP, Signal::INT] {
        let mut command = ours(&["-q", "-M", "out", "--", "sh", "-c", "echo $$; exec sleep 200"]);
        let mut program = spawned(command.stdout(Stdio::piped()).stderr(Stdio::null()));
        let pid = program.child().id();
        let mut said = std::io::BufReader::new(program.child().stdout.take().expect("piped"));
        let mut number = String::new();
        said.read_line(&mut number).expect("it says its number");
        let sleeps = number.trim().parse().expect("a number");
        until("it starts", || takes_wishes(pid));
        assert_eq!(ended(program, pid, signal).status.code(), Some(32));
        until("it ends", || matches!(state_of(sleeps), None | Some('Z')));
    }
}

/// Before there is who answers signals; with --metrics there is a thread more.
#[test]
fn a_signal_just_as_the_command_begins_leaves_neither_it_nor_the_pidfile() {
    if !crate::calls::may_trace() {
        return;
    }
    for metrics in ["", "--metrics told"] {
        let folder = tempfile::tempdir().expect("a folder");
        let done = shell(&format!(
            "cd {} && {{ strace -qqq -o calls -e trace=clone,?clone3,?fork,?vfork \
             -e inject=clone,?clone3,?fork,?vfork:delay_exit=300000 \
             $bytepath pv -q -P pid {metrics} -M out -- \
             sh -c 'echo $$ >command; exec sleep 200' & }} && \
             until [ -s pid ] && [ -s command ]; do :; done; \
             kill -TERM $(cat pid); wait $!; echo $?; ls pid; command=$(cat command); \
             for i in $(seq 5000); do \
             grep -q '^State:.[^Z]' /proc/$command/status || exit 0; done; \
             echo left; kill $command",
            folder.path().display()
        ));
        let lines: Vec<&str> = done.stdout.lines().collect();
        assert_eq!(lines, ["32"], "{metrics}: {done:?}");
    }
}

#[test]
fn a_command_begins_with_what_pv_was_started_with() {
    let ignored = |before: &str, options: &str| {
        let line = format!("$bytepath pv -q {options} -M out -- grep SigIgn: /proc/self/status");
        let said = shell(&format!("{before} {line}")).well().stdout;
        let mask = said.trim().trim_start_matches("SigIgn:\t");
        u64::from_str_radix(mask, 16).expect("a mask")
    };
    let folder = tempfile::tempdir().expect("a folder");
    let pidfile = format!("-P {}", folder.path().join("pid").display());
    let some = [
        ("PIPE", Signal::PIPE),
        ("HUP", Signal::HUP),
        ("INT", Signal::INT),
        ("QUIT", Signal::QUIT),
        ("TERM", Signal::TERM),
        ("TSTP", Signal::TSTP),
        ("TTOU", Signal::TTOU),
        ("URG", Signal::URG),
        ("USR2", Signal::USR2),
        ("WINCH", Signal::WINCH),
    ];
    let bits: u64 = some.iter().map(|(_, signal)| 1 << (signal.as_raw() - 1)).sum();
    let names = some.map(|(name, _)| name).join(" ");
    for options in ["", &pidfile] {
        assert_eq!(ignored(&format!("trap '' {names};"), options) & bits, bits, "{options}");
        assert_eq!(ignored("", options) & bits, 0, "{options}");
    }
    let open = "$bytepath pv -q -M out -- sh -c 'test -e /proc/self/fd/0; echo $?'";
    assert_eq!(shell(open).well().stdout, "0\n");
    assert_eq!(shell(&format!("{open} <&-")).well().stdout, "1\n");
}
