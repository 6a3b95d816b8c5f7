//! `bytepath bench fget`: services in every situation answer, single calls are counted, and what
//! cannot run says why.

use std::io::{BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{ChildStdout, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::program::{
    Bounded, bytepath, children, ended, entries, figure, installed, may_mount, run, shell,
    signal_of, spawned, text, until,
};

/// As little as shows that every arm runs.
const SHORT: [&str; 6] = ["--blocks", "2", "--time", "5ms", "--warm-up", "1ms"];

const SITUATIONS: [&str; 9] = [
    "shared-table",
    "fd-ranges",
    "private-table",
    "processes",
    "single-thread",
    "uring",
    "uring-registered",
    "uring-multishot",
    "uring-direct-accept",
];

/// The record of some arms.
fn measured(words: &[&str]) -> Value {
    let words = [&["bench", "fget"], words, &SHORT, &["--json", "-"]].concat();
    run(&mut bytepath(&words)).well().json()
}

fn arm<'a>(record: &'a Value, end: &str) -> &'a Value {
    let arms = record["arms"].as_array().expect("arms");
    let found =
        arms.iter().find(|arm| arm["name"].as_str().is_some_and(|name| name.ends_with(end)));
    found.unwrap_or_else(|| panic!("no arm {end}: {record}"))
}

#[test]
fn a_service_answers_in_every_situation() {
    answers_in_every_situation("2", "7");
}

#[test]
fn a_service_answers_where_threads_have_no_connection() {
    answers_in_every_situation("3", "2");
}

#[track_caller]
fn answers_in_every_situation(threads: &str, connections: &str) {
    for sockets in ["unix", "tcp"] {
        let counts = ["--threads", threads, "--connections", connections];
        let words = [&counts[..], &["--sockets", sockets, "--arms", sockets]].concat();
        let record = measured(&words);
        for situation in SITUATIONS {
            let arm = arm(&record, &format!("/{situation}"));
            let why = arm["why"].as_str().unwrap_or_default();
            assert!(!why.contains(" 0 files"), "{arm}");
            if arm["status"] == "unavailable" && situation.starts_with("uring") {
                println!("skipped: {situation}: {}", arm["why"]);
                continue;
            }
            assert_eq!(arm["status"], "ok", "{arm}");
            assert!(arm["median"].as_f64().is_some_and(|ns| ns > 100.0 && ns < 1e7), "{arm}");
            // Between its calls a ring does what lies between receiving and sending alone.
            match situation.starts_with("uring") {
                true => assert_eq!(figure(arm, "busy"), None, "{arm}"),
                false => assert!(figure(arm, "busy").is_some_and(|ns| ns > 0.0), "{arm}"),
            }
            assert!(
                arm["costs"]["syscalls_per_op"].as_f64().is_some_and(|each| each > 0.0),
                "{arm}"
            );
        }
    }
}

#[test]
fn neighbours_are_beside_and_not_counted() {
    let words = ["--threads", "2", "--connections", "4", "--sockets", "unix", "--neighbours", "1"];
    let record = measured(&[&words[..], &["--arms", "unix"]].concat());
    let arm = arm(&record, "/c=4/n=1/shared-table");
    // The neighbour alone takes a CPU all the time: for each request, as long as it took as a whole.
    let own = arm["median"].as_f64().expect("ns");
    let rate = figure(arm, "requests").expect("a rate");
    assert!(own * rate < 2.2e9, "{own} ns a request at {rate} a second: {arm}");
}

#[test]
fn single_calls_are_measured_in_every_situation() {
    let record = measured(&["--threads", "2", "--neighbours", "1", "--arms", "read,fstat,poll"]);
    for call in ["read", "fstat", "poll"] {
        for file in ["own-files", "one-file"] {
            for situation in &SITUATIONS[..5] {
                let arm = arm(&record, &format!("{call}/{file}/t=2/n=1/{situation}"));
                assert_eq!(arm["status"], "ok", "{arm}");
                assert!(arm["median"].as_f64().is_some_and(|ns| ns > 10.0 && ns < 1e6), "{arm}");
            }
        }
    }
}

/// What the kernel is asked for tells the situations apart.
#[test]
fn situations_are_what_they_are_called() {
    if !crate::calls::may_trace() {
        return;
    }
    let calls = |situation: &str| {
        let folder = tempfile::tempdir().expect("a folder");
        let told = folder.path().join("calls");
        let line = format!(
            "strace -f -qqq -e signal=none -e trace=unshare,fcntl -o {} $bytepath descriptor --call \
             read --situation {situation} --threads 2 --time 1ms",
            told.display()
        );
        shell(&line).well();
        std::fs::read_to_string(told).expect("strace wrote it")
    };
    assert!(!calls("shared-table").contains("CLONE_FILES"));
    assert_eq!(calls("private-table").matches("unshare(CLONE_FILES").count(), 2);
    let moved = calls("fd-ranges");
    assert!(moved.contains("F_DUPFD_CLOEXEC, 2048"), "{moved}");
    assert!(moved.contains("F_DUPFD_CLOEXEC, 4096"), "{moved}");
}

#[test]
fn memcached_is_put_under_the_same_load() {
    if !installed("memcached") {
        return;
    }
    for sockets in ["unix", "tcp"] {
        let words = ["--threads", "2", "--connections", "5", "--sockets", sockets];
        let record =
            measured(&[&words[..], &["--peer", "memcached", "--arms", "memcached"]].concat());
        let arm = arm(&record, "/memcached");
        assert_eq!(arm["status"], "ok", "{arm}");
        assert!(arm["median"].as_f64().is_some_and(|ns| ns > 100.0), "{arm}");
    }
}

#[test]
fn a_memcached_ends_with_a_run_that_is_killed_and_its_folder_goes_with_the_next() {
    if !installed("memcached") {
        return;
    }
    let (folder, state) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let bench = |words: &[&str]| {
        let mut command = bytepath(&["bench", "fget", "--no-store"]);
        command.args(words).env("XDG_STATE_HOME", state.path()).env("TMPDIR", folder.path());
        command
    };
    let words = ["--peer", "memcached", "--arms", "unix*memcached", "--blocks", "1000"];
    let mut command = bench(&[&words[..], &["--time", "1s"]].concat());
    let mut killed = spawned(command.stdout(Stdio::null()).stderr(Stdio::null()));
    let sockets = || {
        let folders = std::fs::read_dir(folder.path()).expect("it lists").flatten();
        folders.map(|entry| entry.path().join("socket")).collect::<Vec<_>>()
    };
    let answers = |socket: &PathBuf| UnixStream::connect(socket).is_ok();
    until("memcached's answer", || sockets().iter().any(answers));
    kill_process(Pid::from_child(killed.child()), Signal::KILL).expect("it runs");
    killed.child().wait().expect("it ends");
    assert_eq!(sockets().len(), 1);
    until("memcached's end", || !sockets().iter().any(answers));
    let next = run(&mut bench(&["--list"]));
    assert!(next.status.success() && next.stderr.contains("removed "), "{next:?}");
    assert!(sockets().is_empty());
}

/// The record of a script by the name of memcached, which starts the real one.
fn scripted(folder: &Path, then: &str, time: &str) -> Value {
    let real = shell("command -v memcached").well().stdout.trim().to_owned();
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = -V ] && exec {real} -V\n{real} \"$@\" &\necho $! >>{}\n{then}\n",
        text(&folder.join("pids"))
    );
    std::fs::write(folder.join("memcached"), script).expect("written");
    let path = format!("{}:{}", text(folder), std::env::var("PATH").expect("it is set"));
    let words =
        ["bench", "fget", "--peer", "memcached", "--arms", "unix*memcached", "--threads", "1"];
    let mut command = bytepath(
        &[&words[..], &["--blocks", "2", "--warm-up", "1ms", "--time", time, "--json", "-"]]
            .concat(),
    );
    shell(&format!("chmod +x {}", text(&folder.join("memcached")))).well();
    let done = run(command.env("PATH", path));
    match done.stderr.find("no arm can run here") {
        Some(at) => serde_json::json!({"arms": [{"name": "/memcached", "why": done.stderr[at..]}]}),
        None => done.json(),
    }
}

/// Those that scripts have started, as far as they run.
fn started(folder: &Path) -> Vec<String> {
    let pids = std::fs::read_to_string(folder.join("pids")).expect("they were started");
    let line = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/cmdline"));
    let runs = |pid: &&str| line(pid).is_ok_and(|line| line.contains("memcached"));
    pids.lines().filter(runs).map(str::to_owned).collect()
}

#[test]
fn a_memcached_that_a_script_starts_is_counted_and_ends_with_the_run() {
    if !installed("memcached") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let record = scripted(folder.path(), "wait", "5ms");
    let arm = arm(&record, "/memcached");
    assert_eq!(arm["status"], "ok", "{arm}");
    assert!(arm["median"].as_f64().is_some_and(|ns| ns > 100.0), "{arm}");
    let params = &arm["params"];
    assert!(params["memcached"].as_str().is_some_and(|it| it.starts_with("memcached 1.")), "{arm}");
    assert!(params["words"].as_str().is_some_and(|it| it.contains("memcached -t 1 ")), "{arm}");
    until("the end of all", || started(folder.path()).is_empty());
}

#[test]
fn a_memcached_that_ends_is_told_with_how_and_what_it_said() {
    if !installed("memcached") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // It says more than a pipe holds; and is there for a moment.
    let long = "head -c 100000 /dev/zero | tr '\\0' x >&2; echo >&2";
    for then in [long, "sleep 0.1"] {
        let then = format!("{then}; kill -KILL $!; echo it broke >&2; exit 3");
        let record = scripted(folder.path(), &then, "1s");
        let arm = arm(&record, "/memcached");
        let why = arm["why"].as_str().unwrap_or_default();
        assert!(why.contains("memcached ended (exit status: 3); it said: it broke"), "{arm}");
        until("the end of all", || started(folder.path()).is_empty());
    }
}

#[test]
fn a_memcached_that_is_missing_or_another_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let fake = folder.path().join("memcached");
    std::fs::write(&fake, "#!/bin/sh\necho memcached 0.9.1\n").expect("written");
    let line = format!(
        "chmod +x {fake}; PATH={folder}:/bin:/usr/bin $bytepath bench fget --threads 1 --sockets unix \
         --arms 'unix' --peer memcached --blocks 2 --time 2ms --warm-up 0 --json - | \
         grep -o '1.4 or newer is needed'",
        fake = fake.display(),
        folder = folder.path().display(),
    );
    assert_eq!(shell(&line).stdout, "1.4 or newer is needed\n");
}

/// A service in one thread, what it says, and where it listens.
fn serving(situation: &str, connections: &str) -> (Bounded, BufReader<ChildStdout>, String) {
    let words = ["serve", "--situation", situation, "--threads", "1", "--family", "tcp"];
    let mut serve = bytepath(&[&words[..], &["--connections", connections]].concat());
    let mut serve = spawned(serve.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut out = BufReader::new(serve.child().stdout.take().expect("it is piped"));
    let mut line = String::new();
    out.read_line(&mut line).expect("it says where it listens");
    let said: Value = serde_json::from_str(&line).expect("JSON");
    let address = said["addresses"][0].as_str().and_then(|it| it.strip_prefix("tcp:"));
    let address = address.expect("TCP").to_owned();
    (serve, out, address)
}

#[test]
fn a_service_whose_clients_do_not_keep_to_the_protocol_ends_well() {
    use std::io::{Read, Write};
    for situation in ["shared-table", "uring-registered", "uring-multishot"] {
        let (mut serve, mut out, address) = serving(situation, "2");
        let connect = || std::net::TcpStream::connect(&address).expect("it listens");
        let (mut one, two) = (connect(), connect());
        one.write_all(b"nonsense\r\nset k 0 0 2\r\nab\r\nget k\r\nquit\r\n").expect("sent");
        let wanted = b"ERROR\r\nSTORED\r\nVALUE k 0 2\r\nab\r\nEND\r\n";
        let mut answer = vec![0; wanted.len()];
        if let Err(error) = one.read_exact(&mut answer) {
            drop((one, two));
            let done = serve.done();
            assert!(situation.starts_with("uring") && !done.status.success(), "{error}: {done:?}");
            println!("skipped: {situation}: {}", done.stderr);
            continue;
        }
        assert_eq!(answer, wanted, "{situation}: {}", String::from_utf8_lossy(&answer));
        drop((one, two));
        let mut last = String::new();
        out.read_to_string(&mut last).expect("it says what it did");
        assert!(serve.child().wait().expect("it ends").success());
        let served: Value = serde_json::from_str(&last).expect("JSON");
        assert_eq!(served["requests"], 4, "{situation}");
    }
}

#[test]
fn a_client_that_quits_sees_the_end_and_silent_ones_are_given_up() {
    use std::io::{Read, Write};
    let situations =
        ["shared-table", "uring", "uring-registered", "uring-multishot", "uring-direct-accept"];
    // All at once: patience takes its time.
    let served = situations.map(|situation| {
        let (serve, _out, address) = serving(situation, "2");
        let connect = || std::net::TcpStream::connect(&address).expect("it listens");
        (situation, serve, [connect(), connect()])
    });
    for (situation, serve, [mut quits, silent]) in served {
        quits.write_all(b"get k\r\nquit\r\n").expect("sent");
        let mut answer = String::new();
        let ended = quits.read_to_string(&mut answer);
        let done = match ended {
            // Such a ring cannot be had here.
            _ if answer.is_empty() => {
                drop((quits, silent));
                let done = serve.done();
                assert!(situation.starts_with("uring") && !done.status.success(), "{done:?}");
                println!("skipped: {situation}: {}", done.stderr);
                continue;
            }
            ended => {
                assert!(ended.is_ok() && answer == "END\r\n", "{situation}: {ended:?} {answer}");
                serve.done()
            }
        };
        done.refused(1, &["the clients say nothing any more"]);
    }
}

/// More answers than sockets hold, asked for before any is read: the service neither loses one nor
/// waits for ever.
#[test]
fn many_requests_at_once_are_all_answered_in_their_order() {
    use std::io::{Read, Write};
    const REQUESTS: usize = 20_000;
    for situation in ["uring-registered", "uring-multishot"] {
        let (serve, _out, address) = serving(situation, "1");
        let mut client = std::net::TcpStream::connect(&address).expect("it listens");
        let mut writer = client.try_clone().expect("a descriptor");
        let asking = std::thread::spawn(move || {
            let ask = |number| format!("set k 0 0 200\r\n{number:0200}\r\nget k\r\n");
            let all: String = (0..REQUESTS).map(ask).collect();
            writer.write_all(all.as_bytes())
        });
        let answer = |number: usize| format!("STORED\r\nVALUE k 0 200\r\n{number:0200}\r\nEND\r\n");
        let mut came = vec![0; answer(0).len()];
        for number in 0..REQUESTS {
            if let Err(error) = client.read_exact(&mut came) {
                drop(client);
                let done = serve.done();
                assert!(number == 0 && !done.status.success(), "{error} at {number}: {done:?}");
                println!("skipped: {situation}: {}", done.stderr);
                break;
            }
            assert_eq!(String::from_utf8_lossy(&came), answer(number), "{situation}");
        }
        let _ = asking.join().expect("it does not panic");
    }
}

#[test]
fn what_cannot_be_is_refused_in_words() {
    let refused: [(&[&str], i32, &str); 8] = [
        (&["bench", "fget", "--threads", "0"], 2, "--threads"),
        (&["bench", "fget", "--threads", "1,1"], 2, "would run twice"),
        (&["bench", "fget", "--sockets", "udp"], 2, "unix, tcp"),
        (&["bench", "fget", "--arms", "nothing"], 2, "no arm matches"),
        (&["bench", "fget", "--peer", "redis"], 2, "memcached"),
        (
            &[
                "descriptor",
                "--call",
                "read",
                "--situation",
                "uring",
                "--threads",
                "1",
                "--time",
                "1ms",
            ],
            2,
            "of services",
        ),
        (
            &["load", "--address", "tcp:127.0.0.1:1", "--connections", "1", "--time", "1ms"],
            1,
            "cannot reach",
        ),
        (
            &["load", "--address", "udp:x", "--connections", "1", "--time", "1ms"],
            1,
            "is no address",
        ),
    ];
    for (words, code, said) in refused {
        run(&mut bytepath(words)).refused(code, &[said]);
    }
    // With so few descriptors no range lies apart.
    let line = "ulimit -n 256; $bytepath descriptor --call read --situation fd-ranges --threads 2 \
                --time 1ms";
    shell(line).refused(1, &["ulimit -n"]);
    let line = "ulimit -n 40; $bytepath bench fget --threads 2 --connections 64 --sockets unix --arms \
                shared-table --blocks 2 --time 2ms --warm-up 0 --json - 2>&1";
    let done = shell(line);
    assert!(done.stdout.contains("ulimit -n"), "{done:?}");
}

#[test]
fn a_service_that_fails_beside_others_is_told_with_what_it_said() {
    if !may_mount() || !installed("ip") {
        return;
    }
    // One port is for the first process.
    let line = "unshare -n sh -c 'ip link set lo up && echo 40000 40000 \
                >/proc/sys/net/ipv4/ip_local_port_range && exec $bytepath bench fget --arms \
                tcp/t=2/c=64/processes --threads 2 --connections 64 --quick --no-store'";
    shell(line).refused(1, &["tcp/t=2/c=64/processes: ", "Address already in use"]);
}

#[test]
fn clients_have_as_many_threads_as_are_asked_for() {
    let words = ["bench", "fget", "--threads", "1", "--connections", "64", "--sockets", "unix"];
    let more = ["--arms", "unix/t=1/c=64/single-thread", "--clients", "5", "--time", "60s"];
    let mut bench = bytepath(&[&words[..], &more].concat());
    let bench = spawned(bench.stdout(Stdio::piped()).stderr(Stdio::piped()));
    // And one that waits for them.
    let threads = |process| entries(Path::new(&format!("/proc/{process}/task"))).len();
    until("six threads", || children(bench.group).into_iter().any(|child| threads(child) == 6));
    kill_process(bench.group, Signal::TERM).expect("it runs");
    assert_eq!(signal_of(&bench.done()), Some(Signal::TERM.as_raw()));
}

/// A killed service, or one whose starter is gone, does not stay.
#[test]
fn nothing_stays_when_the_bench_is_killed() {
    let words = ["bench", "fget", "--threads", "2", "--sockets", "unix", "--arms", "unix"];
    let more = ["--time", "10s", "--blocks", "2"];
    let mut bench = bytepath(&[&words[..], &more].concat());
    let mut bench = spawned(bench.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let pid = bench.group;
    let mut both = Vec::new();
    until("a service and clients", || {
        both = children(pid);
        both.len() == 2
    });
    bench.child().kill().expect("killed");
    bench.child().wait().expect("it is gone");
    both.into_iter().for_each(ended);
}
