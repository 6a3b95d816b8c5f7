//! `bytepath run` against the shell: the same text, the same bytes, messages and exit codes; and
//! what goes wrong.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::program::{BYTEPATH, Done, as_published, bytepath, installed, run, shell, signal_of};

/// The text as a shell runs it, and as `bytepath run` does with that shell.
fn both(shell: &str, text: &str) -> [Done; 2] {
    let mut theirs = Command::new(shell);
    theirs.args(["-c", text]);
    let mut ours = bytepath(&["run", "--shell", &path_of(shell), text]);
    [&mut theirs, &mut ours].map(|command| run(command.stdin(std::process::Stdio::null())))
}

fn path_of(program: &str) -> String {
    let found = shell(&format!("command -v {program}"));
    found.stdout.trim_end().to_owned()
}

/// Lines that hold numbers of processes differ from run to run.
fn same(one: &Done, other: &Done) -> bool {
    let code = |done: &Done| (done.status.code(), signal_of(done));
    code(one) == code(other) && one.bytes == other.bytes && without_path(one) == without_path(other)
}

/// Shells call themselves by what they were called.
fn without_path(done: &Done) -> String {
    done.stderr.replace("/usr/bin/", "").replace("/bin/", "")
}

/// Texts that mean the same to every shell.
const EVERYWHERE: &[&str] = &[
    "echo hello | cat",
    "printf 'a b\\nc\\n' | tr a-z A-Z | sort -r",
    "printf '%s\\n' \"a|b\" 'c;d' e\\|f | grep -c '|'",
    "seq 100000 | wc -l",
    "seq 1000000 | head -1",
    "yes | head -3 | wc -c",
    "true | false",
    "false | true",
    "exit 3 | exit 4",
    "echo a; echo b | cat; false",
    "echo a && false || echo c",
    "! true | false",
    "{ echo a; echo b; } | cat",
    "(cd / && pwd) | cat; pwd | wc -l",
    "for i in 1 2 3; do echo $i | cat; done",
    "x=5; echo $x | cat; export y=6; env | grep ^y=",
    "f() { echo from f | cat; }; f | tr f g",
    "cat <<E | tr a b\naaa\nE\n",
    "echo $(echo a | cat) | cat",
    "eval 'echo a$BASH_SUBSHELL' | cat",
    "echo out 2>&1 | cat",
    "ls /nowhere-at-all 2>&1 | wc -l",
    "ls /nowhere-at-all | cat",
    "echo err >&2 | cat",
    "nosuchcommand | cat",
    "cat | nosuchcommand",
    "echo a > /nowhere/file | cat",
    "if true; then echo a | cat; fi | cat",
    "while read x; do echo \"<$x>\"; done < /dev/null | wc -c",
    "seq 5 | while read x; do echo \"<$x>\"; done",
    "seq 5 | { read x; echo $x; cat; }",
    "echo 'a | b",
    "echo a | | cat",
    "echo a |",
    "| cat",
    "echo a | cat; )",
    "sleep 0.05 & echo started | cat; wait",
    "exec echo a | cat",
    "trap 'echo bye' EXIT; echo a | cat",
    "set -e; false | true; echo on; false; echo off",
    "echo ${HOME:+set} | cat",
    "echo a\\\nb | cat",
    "echo '#' a # b | cat\n",
    "printf 'no newline' | cat",
    "printf '<%s>' a\\  | cat",
    "sh -c 'kill -TERM $$' | cat",
    "echo a | sh -c 'kill -TERM $$'",
    "kill -9 $$",
    "cat /dev/null | cat",
    "echo \"it's $((1 + 2))\" | cat",
    "A='x y' sh -c 'echo \"$A\"' | cat",
    "echo 'a\nb' | no-such-program",
    "\r",
    "\r\n",
    "echo a\r\n",
    "echo 'a\n' \"\nb\" | tr '\n' x | cat </none",
];

#[test]
fn the_text_means_what_it_means_to_a_shell() {
    for shell in ["sh", "bash", "dash"].into_iter().filter(|shell| installed(shell)) {
        for text in EVERYWHERE {
            let [theirs, ours] = both(shell, text);
            // A stage that a signal ended is told of by shells in words of their own.
            let told = text.contains("kill -TERM");
            let strip =
                |done: Done| if told { Done { stderr: String::new(), ..done } } else { done };
            let (theirs, ours) = (strip(theirs), strip(ours));
            assert!(same(&theirs, &ours), "{shell}: {text:?}: {theirs:?} but {ours:?}");
        }
    }
}

/// As a shell that sshd has started runs it: bash reads ~/.bashrc, once, and the stages know what is set there.
#[test]
fn what_bash_reads_first_is_read_once() {
    if !installed("bash") {
        return;
    }
    let home = tempfile::tempdir().expect("a folder");
    std::fs::write(home.path().join(".bashrc"), "echo read\nword=set\n").expect("written");
    let text = "echo \"$word\" | cat | sed s/^/x/";
    let bash = path_of("bash");
    let mut theirs = Command::new(&bash);
    theirs.args(["-c", text]);
    let mut ours = bytepath(&["run", "--shell", &bash, text]);
    let [theirs, ours] = [&mut theirs, &mut ours].map(|command| {
        command.env("HOME", home.path()).env("SSH_CLIENT", "there").env("SHLVL", "0");
        run(command.stdin(std::process::Stdio::null()))
    });
    // Builds of bash that do not look for sshd read nothing.
    assert_eq!((&ours.stdout, ours.status), (&theirs.stdout, theirs.status));
}

#[test]
fn options_of_shells_in_the_environment_are_meant_for_the_whole() {
    if !installed("bash") {
        return;
    }
    let mut command = bytepath(&["run", "--shell", &path_of("bash"), "false | true"]);
    run(command.env("SHELLOPTS", "pipefail")).refused(1, &[]);
}

#[test]
fn what_only_bash_reads_leaves_a_text_to_no_other_shell() {
    let folder = tempfile::tempdir().expect("a folder");
    let said = folder.path().join("said");
    std::fs::write(&said, "echo said >&2").expect("written");
    let said = said.to_str().expect("plain");
    let variables = [
        ("BASH_ENV", said),
        ("SHELLOPTS", "noglob"),
        ("BASHOPTS", "extglob"),
        ("BASH_COMPAT", "5"),
    ];
    let bash_as_sh = folder.path().join("sh");
    let mut shells: Vec<(String, &[&str])> = vec![];
    if installed("dash") {
        shells.push((path_of("dash"), &[]));
    }
    if installed("bash") {
        std::os::unix::fs::symlink(path_of("bash"), &bash_as_sh).expect("linked");
        shells.push((
            bash_as_sh.to_str().expect("plain").to_owned(),
            &["SHELLOPTS", "BASHOPTS", "BASH_COMPAT"],
        ));
        shells.push((path_of("bash"), &["BASH_ENV", "SHELLOPTS", "BASHOPTS", "BASH_COMPAT"]));
    }
    let text = "echo * | cat | cat";
    for (shell, read) in shells {
        for (name, value) in variables {
            let mut theirs = Command::new(&shell);
            theirs.args(["-c", text]);
            let mut ours = bytepath(&["run", "--no-summary", "--shell", &shell, text]);
            let [theirs, ours] = [&mut theirs, &mut ours].map(|command| {
                run(command.env("LC_ALL", "C").env(name, value).current_dir(folder.path()))
            });
            assert!(same(&theirs, &ours), "{shell}: {name}: {theirs:?} but {ours:?}");
            let words = ["run", "--no-summary", "--explain-plan", "--shell", &shell, text];
            let told = run(bytepath(&words).env("LC_ALL", "C").env(name, value)).stderr;
            let is_whole = told.contains(&format!("{shell} runs it as it is: "));
            assert_eq!(is_whole, read.contains(&name), "{shell}: {name}: {told}");
        }
    }
}

#[test]
fn functions_in_the_environment_are_none_of_a_shell_that_takes_none() {
    for (shell, said, mover) in
        [("dash", "a\n", "2  bytepath cat\n"), ("bash", "of bash\n", "2  cat\n")]
    {
        if !installed(shell) {
            continue;
        }
        let path = path_of(shell);
        let words = ["run", "--own-movers", "--explain-plan", "--shell", &path, "echo a | cat"];
        let done = run(bytepath(&words).env("BASH_FUNC_cat%%", "() { echo of bash; }"));
        assert_eq!(done.stdout, said, "{shell}: {done:?}");
        assert!(done.stderr.contains(mover), "{shell}: {done:?}");
        // One of another name is in no mover's way.
        let done = run(bytepath(&words).env("BASH_FUNC_module%%", "() { echo of bash; }"));
        assert_eq!(done.stdout, "a\n", "{shell}: {done:?}");
        assert!(done.stderr.contains("2  bytepath cat\n"), "{shell}: {done:?}");
    }
}

#[test]
fn what_begins_as_an_option_is_none_of_the_shells() {
    for shell in ["sh", "bash", "dash"].into_iter().filter(|shell| installed(shell)) {
        for text in ["+x; echo on", "+x", "-"] {
            let mut theirs = Command::new(shell);
            theirs.args(["-c", &format!(" {text}")]);
            let mut ours = bytepath(&["run", "--shell", &path_of(shell), text]);
            let [theirs, ours] = [&mut theirs, &mut ours].map(run);
            assert!(same(&theirs, &ours), "{shell}: {text:?}: {theirs:?} but {ours:?}");
        }
    }
}

#[test]
fn what_bash_complains_of_as_it_starts_is_said_once() {
    if !installed("bash") {
        return;
    }
    let bash = path_of("bash");
    let text = "true | true | true";
    let ours = [BYTEPATH, "run", "--no-summary", "--shell", &bash, text];
    let variables = [
        ("BASH_COMPAT=99", false),
        ("SHLVL=1000", false),
        ("LC_ALL=xx_YY", false),
        ("BASH_FUNC_x%%=() { echo hi; ", false),
        ("A=b", true),
    ];
    for (variable, is_gone) in variables {
        let line = match is_gone {
            true => "cd \"$0\" && rmdir \"$0\" && exec env \"$@\"",
            false => "exec env \"$@\"",
        };
        let [theirs, ours] = [&[&bash, "-c", text][..], &ours].map(|words| {
            let folder = tempfile::tempdir().expect("a folder").keep();
            let mut command = Command::new("sh");
            command.args(["-c", line]).arg(&folder).arg(variable).args(words);
            let done = run(command.env_remove("RUST_BACKTRACE"));
            let _ = std::fs::remove_dir(folder);
            done
        });
        assert!(same(&theirs, &ours), "{variable}: {theirs:?} but {ours:?}");
    }
}

#[test]
fn a_rate_is_told_only_of_pipes_that_were_there_long_enough() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("told");
    let text = "for i in 1 2 3 4 5; do head -c 20000000 /dev/zero | wc -c; done";
    run(&mut bytepath(&["run", "--json", path.to_str().expect("plain"), text])).well();
    let told: Value =
        serde_json::from_slice(&std::fs::read(path).expect("it was written")).expect("JSON");
    for pipe in told["pipes"].as_array().expect("a list") {
        assert!(pipe["seconds"].as_f64().is_none_or(|seconds| seconds >= 0.05), "{told}");
    }
}

#[test]
fn a_document_that_cannot_be_written_hides_no_failure() {
    for (text, code) in [("true | sh -c 'exit 5'", 5), ("true | true", 1)] {
        let done = run(&mut bytepath(&["run", "--json", "/dev/full", text]));
        done.refused(code, &["/dev/full", "No space left on device"]);
    }
}

#[test]
fn own_movers_leave_pipes_as_large_as_was_asked_for() {
    let text = "cat /dev/zero | pv -q | tee | sleep 0.5";
    let words = ["run", "--own-movers", "--pipe-size", "64K", "--json"];
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("told");
    let path = path.to_str().expect("plain");
    run(&mut bytepath(&[&words[..], &[path, text]].concat()));
    let told: serde_json::Value =
        serde_json::from_slice(&std::fs::read(path).expect("it was written")).expect("JSON");
    let pipes = told["pipes"].as_array().expect("a list");
    let sizes: Vec<_> = pipes.iter().filter_map(|pipe| pipe["holds_bytes"].as_u64()).collect();
    assert_eq!(sizes, [64 << 10; 3], "{told}");
}

#[test]
fn own_movers_do_what_those_do_that_they_stand_in_for() {
    let folder = tempfile::tempdir().expect("a folder");
    let texts = [
        "cat it\\'s - nosuch <it\\'s | tee copy | cat -n | cksum; cksum copy",
        "cat it\\'s - nosuch <it\\'s | tee copy | cat -n | cksum",
        "LC_ALL=C cat -A it\\'s | tee /nowhere/at/all | wc -c",
        "cat --no-such-option | cat -",
        "tee -x | cat it\\'s",
        "cat it\\'s | cat | head -c 100000",
        "yes | cat | head -3",
        "cat nosuch | cat | wc -c",
    ];
    for shell in ["sh", "bash", "dash"].into_iter().filter(|shell| installed(shell)) {
        for text in texts {
            let path = path_of(shell);
            let mut theirs = Command::new(&path);
            theirs.args(["-c", text]);
            let mut ours = bytepath(&["run", "--own-movers", "--shell", &path, text]);
            let [theirs, ours] = [&mut theirs, &mut ours].map(|command| {
                let lines = "a b\tc\n".repeat(300_000);
                std::fs::write(folder.path().join("it's"), lines).expect("a file");
                run(command.current_dir(folder.path()).stdin(std::process::Stdio::null()))
            });
            // What is no plain pipeline says that it is run as it is.
            let said = ours.stderr.replace(
                "bytepath: --own-movers: it is a list of commands, so the shell runs what it names\n",
                "",
            );
            let ours = Done { stderr: said, ..ours };
            let sorted = |done: &Done| {
                let text = without_path(done)
                    .replace("bytepath cat", "cat")
                    .replace("bytepath tee", "tee");
                let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
                lines.sort();
                lines
            };
            assert_eq!(
                (theirs.status.code(), &theirs.bytes, sorted(&theirs)),
                (ours.status.code(), &ours.bytes, sorted(&ours)),
                "{shell}: {text:?}"
            );
        }
    }
}

#[test]
fn own_movers_run_where_movers_are_named_and_nowhere_else() {
    let comm = "/proc/self/comm";
    for shell in ["sh", "bash", "dash"].into_iter().filter(|shell| installed(shell)) {
        for (text, ran) in [
            ("cat /proc/self/comm | cat", "bytepath\n"),
            ("'cat' /proc/self/comm | cat", "cat\n"),
            ("env cat /proc/self/comm | cat", "cat\n"),
            ("PATH=/usr/bin:/bin cat /proc/self/comm | cat", "cat\n"),
            ("cat /proc/self/comm | cat; true", "cat\n"),
        ] {
            let shell = path_of(shell);
            let done = run(&mut bytepath(&["run", "--own-movers", "--shell", &shell, text]));
            assert_eq!(done.stdout, ran, "{shell}: {text}");
        }
    }
    let of_words = |more: &[&str]| {
        let words = [&["run"][..], more, &["--", "cat", comm, ":::", "cat"]].concat();
        run(&mut bytepath(&words)).well().stdout
    };
    assert_eq!([of_words(&["--own-movers"]), of_words(&[])], ["bytepath\n", "cat\n"]);
    // A function of that name is meant, and not replaced.
    if installed("bash") {
        let line = "cat() { echo mine; }; export -f cat; \
             $bytepath run --own-movers --shell $(command -v bash) 'cat /proc/self/comm | tr a b'";
        let done = run(Command::new("bash").args(["-c", line]).env("bytepath", BYTEPATH));
        assert_eq!(done.stdout, "mine\n", "{done:?}");
    }
}

/// Only bash knows these.
const BASH: &[&str] = &[
    "cat <<< 'a b' | tr a b",
    "ls /nowhere-at-all |& wc -l",
    "cat <(echo a | cat) | cat",
    "echo a | tee >(cat >&2) | cat; sleep 0.1",
    "set -o pipefail; false | true",
    "echo {a,b} | cat; true | false | true; echo ${PIPESTATUS[*]}",
    "[[ a == a && b == b ]] | cat",
    "shopt -s lastpipe; echo a | read x; echo \"$x\"",
    "a=(1 2 3); echo ${a[1]} | cat",
    "echo $'a\\tb' | cat",
    "coproc cat; echo a | cat",
    "select x in a b; do break; done </dev/null 2>/dev/null | cat",
    "true | %s",
    "true | x=1 %s",
    "echo a >&-# x | wc",
    "x[a[1] | 2]=5 | cat",
    "x[']' | y]=5 | cat",
    "true | a=b <nosuch",
    "true | {v}>/nosuch/x",
    "exit 3 a<<<{v}>o | cat",
    "true | declare @",
    "true | readonly UID=3",
];

#[test]
fn what_only_bash_knows_means_the_same() {
    if !installed("bash") {
        return;
    }
    for text in BASH {
        let [theirs, ours] = both("bash", text);
        assert!(same(&theirs, &ours), "{text:?}: {theirs:?} but {ours:?}");
    }
}

/// What a shell of its own is given besides makes a long stage longer than the kernel takes.
#[test]
fn a_stage_that_a_shell_takes_is_run_however_long_it_is() {
    let longest = 32 * rustix::param::page_size() - 1;
    for (shell, before, behind) in [
        ("bash", "echo ", " | wc -c"),
        ("dash", "/bin/echo ", " | wc -c"),
        ("bash", "echo ", "|&cat"),
    ] {
        if !installed(shell) {
            println!("skipped for {shell}: it is not installed");
            continue;
        }
        let long = "A".repeat(longest - before.len() - behind.len());
        let [theirs, ours] = both(shell, &[before, &long, behind].concat());
        assert!(theirs.status.success() && same(&theirs, &ours), "{shell}{behind}");
    }
}

#[test]
fn large_amounts_come_through_whole() {
    let text = "head -c 50000000 /dev/zero | tr '\\0' x | cat | cksum";
    let [theirs, ours] = both("sh", text);
    assert!(same(&theirs, &ours), "{theirs:?} {ours:?}");
}

#[test]
fn words_are_stages_without_a_shell() {
    let words =
        ["run", "--", "printf", "%s\n", "$HOME|a", "b c", ":::", "tr", "a", "x", ":::", "cat"];
    let done = run(&mut bytepath(&words)).well();
    assert_eq!(done.stdout, "$HOME|x\nb c\n");
    let done = run(&mut bytepath(&["run", "--", "sh", "-c", "exit 7"]));
    assert_eq!(done.status.code(), Some(7), "{done:?}");
}

#[test]
fn wrong_usage_is_told_with_the_right_code() {
    let cases: &[(&[&str], &str)] = &[
        (&["run"], "required"),
        (&["run", ""], "the pipeline is empty"),
        (&["run", " \n"], "the pipeline is empty"),
        (&["run", "--", ":::", "cat"], "stage 1 has no words"),
        (&["run", "--", "cat", ":::"], "stage 2 has no words"),
        (&["run", "--json", "-", "true | cat"], "standard output is the pipeline's"),
        (&["run", "--cpus", "x", "true | cat"], "no list of CPUs"),
        (&["run", "--cpus", "4000", "true | cat"], "may not use CPU 4000"),
        (&["run", "--pipe-size", "0", "true | cat"], "0 bytes"),
        (&["run", "--pipefail", "--shell", "/bin/sh", "true; false"], "use --shell bash"),
        (&["run", "true", "--", "cat"], "cannot be used with"),
        (&["run", "--sumary", "true | cat"], "'--summary'"),
        (&["run", "-x | cat"], "put a space in front of it"),
    ];
    for (words, says) in cases {
        run(&mut bytepath(words)).refused(2, &[says]);
    }
    let done = run(&mut bytepath(&["run", " -x | cat"]));
    assert!(done.status.success() && done.stderr.contains("-x: "), "{done:?}");
    for list in ["0,1-", "0,1-0", "0,-1", "0-1-2,0", "0,99999999999999999999", "0,", ",0", "+0"] {
        let words = ["run", &format!("--cpus={list}"), "true | cat"];
        run(&mut bytepath(&words)).refused(2, &["no list of CPUs"]);
    }
}

#[test]
fn programs_that_are_not_there_end_as_in_a_shell() {
    run(&mut bytepath(&["run", "--", "nosuch-at-all"]))
        .refused(127, &["nosuch-at-all: command not found"]);
    run(&mut bytepath(&["run", "--", "./nosuch-at-all"]))
        .refused(127, &["./nosuch-at-all: No such file or directory"]);
    run(&mut bytepath(&["run", "--", "echo", "a", ":::", "/etc/passwd"]))
        .refused(126, &["ermission denied"]);
    let done = run(&mut bytepath(&["run", "--", "nosuch-at-all", ":::", "wc", "-c"]));
    assert_eq!((done.status.code(), done.stdout.trim()), (Some(0), "0"), "{done:?}");
    run(&mut bytepath(&["run", "--shell", "/nowhere/sh", "echo a"])).refused(127, &["/nowhere/sh"]);
}

#[test]
fn pipefail_ends_with_the_last_that_failed() {
    let cases = [
        ("true | true", 0),
        ("exit 3 | exit 4 | true", 4),
        ("exit 3 | true", 3),
        ("true | exit 5", 5),
    ];
    for (text, code) in cases {
        let done = run(&mut bytepath(&["run", "--pipefail", text]));
        assert_eq!(done.status.code(), Some(code), "{text}: {done:?}");
    }
    if installed("bash") {
        let words = ["run", "--pipefail", "--shell", &path_of("bash"), "true; { exit 3; } | true"];
        assert_eq!(run(&mut bytepath(&words)).status.code(), Some(3));
        let done = run(&mut bytepath(&[&words[..], &["--explain-plan"]].concat()));
        assert!(done.stderr.contains("runs it as it is: it is a list of commands"), "{done:?}");
    }
}

/// What `--json` tells of a run with these words.
fn told(words: &[&str]) -> Value {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("told.json");
    let file_name = file.to_str().expect("plain").to_owned();
    run(&mut bytepath(&[&["run", "--json", &file_name], words].concat()));
    let text = std::fs::read_to_string(file).expect("it is told");
    let told: Value = serde_json::from_str(&text).expect("it is JSON");
    as_published("run", &told);
    told
}

/// A group whose processes may use a twentieth of a CPU; removed afterwards.
struct SmallGroup(PathBuf);

impl SmallGroup {
    /// None, said aloud, where none can be made.
    fn new() -> Option<SmallGroup> {
        let name = format!("bytepath-test-{}", std::process::id());
        let tops = ["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct", "/sys/fs/cgroup"];
        for top in tops {
            let group = SmallGroup(Path::new(top).join(&name));
            // Never made where it is not there: that is no group.
            let open = |file: &str| std::fs::File::options().write(true).open(group.0.join(file));
            let set = |file: &str, text: &str| {
                open(file).is_ok_and(|mut file| file.write_all(text.as_bytes()).is_ok())
            };
            if std::fs::create_dir(&group.0).is_ok()
                && (set("cpu.max", "5000 100000")
                    || set("cpu.cfs_period_us", "100000") && set("cpu.cfs_quota_us", "5000"))
            {
                return Some(group);
            }
        }
        println!("skipped: no group with a quota of CPU can be made here, as without root");
        None
    }
}

impl Drop for SmallGroup {
    fn drop(&mut self) {
        // The last of its processes may be on its way out.
        crate::program::until("the group is removed", || {
            !self.0.exists() || std::fs::remove_dir(&self.0).is_ok()
        });
    }
}

#[test]
fn a_quota_of_cpu_is_not_told_as_others_who_used_it() {
    let Some(SmallGroup(group)) = &SmallGroup::new() else { return };
    let done = shell(&format!(
        "echo $$ >{}/cgroup.procs && $bytepath run --summary 'head -c 30M /dev/zero | sha256sum'",
        group.display()
    ));
    assert!(done.status.success(), "{done:?}");
    let told = "; the quota of 0.05 CPUs stopped it (likely)\nwhat would help: a higher quota";
    assert!(done.stderr.contains(told), "{done:?}");
}

#[test]
fn each_stages_status_is_told() {
    let told = told(&["exit 3 | sh -c 'kill -TERM $PPID; kill -TERM $$' 2>&1 | cat; true"]);
    assert!(told["whole"].is_string(), "{told}");
    for shell in ["sh", "bash"].into_iter().filter(|shell| installed(shell)) {
        let text = "sh -c 'exit 3' | sh -c 'kill -TERM \"$$\"' | cat";
        let told = self::told(&["--shell", &path_of(shell), text]);
        assert_eq!(told["whole"], Value::Null, "{told}");
        let stages = told["stages"].as_array().expect("a list");
        let of = |name: &str| stages.iter().map(|stage| stage[name].clone()).collect::<Vec<_>>();
        assert_eq!(of("command"), ["sh -c 'exit 3'", "sh -c 'kill -TERM \"$$\"'", "cat"]);
        assert_eq!(of("status"), [Value::from(3), 143.into(), 0.into()], "{told}");
        assert_eq!(of("signal"), [Value::Null, 15.into(), Value::Null], "{told}");
        assert_eq!(told["exit"], 0);
    }
}

#[test]
fn bytes_through_pipes_are_told_exactly_where_both_ends_count_them() {
    let told = told(&[
        "--",
        "head",
        "-c",
        "70000000",
        "/dev/zero",
        ":::",
        "tr",
        "\\0",
        "x",
        ":::",
        "wc",
        "-c",
    ]);
    let pipes = told["pipes"].as_array().expect("a list");
    assert_eq!(pipes.len(), 2, "{told}");
    for pipe in pipes {
        assert_eq!((&pipe["bytes"], &pipe["agreed"]), (&70_000_000.into(), &true.into()), "{told}");
    }
    assert!(told["stages"][1]["user_s"].as_f64().is_some_and(|seconds| seconds > 0.0), "{told}");
}

/// What goes to a file as well, and what comes from another, is in no pipe, though they be alike.
#[test]
fn what_tee_gives_on_is_what_it_reads() {
    if !installed("bash") {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let [file, copy] = ["file", "copy"].map(|name| dir.path().join(name).display().to_string());
    std::fs::write(&file, vec![b'x'; 20_000_000]).expect("a file");
    for text in [
        format!("cat {file} | tee {copy} | cat - {file} | wc -c"),
        format!("cat {file} | tee {copy} {copy}2 | cat {file} - | wc -c"),
        format!("cat {file} | tee {copy} | cat | cat - {file} | wc -c"),
    ] {
        let told = told(&["--shell", &path_of("bash"), &text]);
        let pipe = &told["pipes"][1];
        let bytes = pipe["bytes"].as_u64().expect("it is known");
        assert!((20_000_000..20_100_000).contains(&bytes), "{text}: {told}");
        assert_eq!((&pipe["agreed"], &pipe["at_least"]), (&false.into(), &false.into()), "{told}");
    }
}

/// Nor are they guessed of what their writer writes elsewhere.
#[test]
fn what_is_written_to_a_file_is_told_of_no_pipe() {
    let dir = tempfile::tempdir().expect("a directory");
    let [from, to, page] = ["from", "to", "page.prom"].map(|name| dir.path().join(name));
    std::fs::write(&from, vec![b'x'; 20_000_000]).expect("a file");
    let text = format!("cp -v {} {} | wc -l", from.display(), to.display());
    let told = told(&["--metrics", page.to_str().expect("plain"), &text]);
    let bytes = told["pipes"][0]["bytes"].as_u64();
    assert!(bytes.is_none_or(|bytes| bytes < 1_000_000), "{told}");
    let page = std::fs::read_to_string(page).expect("it was written");
    assert!(!page.contains("pipe_moved_bytes_total{"), "{page}");
}

/// Though they read as much from elsewhere as the others wrote there.
#[test]
fn of_a_pipe_that_stages_redirect_nothing_is_told() {
    let dir = tempfile::tempdir().expect("a directory");
    let page = dir.path().join("page.prom");
    let zeros = "head -c 50000000 /dev/zero";
    for text in
        [format!("{zeros} >/dev/null | {zeros} >/dev/null"), format!("{zeros} | wc -c </dev/null")]
    {
        let page_name = page.to_str().expect("plain");
        let told = told(&["--shell", &path_of("sh"), "--metrics", page_name, &text]);
        let pipe = &told["pipes"][0];
        assert_eq!((&pipe["bytes"], &pipe["agreed"]), (&Value::Null, &false.into()), "{told}");
        let page = std::fs::read_to_string(&page).expect("it was written");
        assert!(!page.contains("pipe_moved_bytes_total{"), "{page}");
    }
    // Messages that go elsewhere are none of its bytes.
    let text = format!("{zeros} 2>/dev/null | tr '\\0' x | wc -c");
    let told = told(&["--shell", &path_of("sh"), &text]);
    assert_eq!(told["pipes"][0]["bytes"], 50_000_000, "{told}");
}

/// A reader that moves most of it by splice(2) counts the rest alone.
#[test]
fn what_is_spliced_out_of_a_pipe_is_what_was_written_to_it() {
    if !installed("pv") {
        println!("skipped: pv is not installed");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    std::fs::write(&file, vec![b'x'; 8_000_000]).expect("a file");
    let told = told(&[&format!("head -c 8000000 {} | pv -qL 12M > /dev/null", file.display())]);
    let pipe = &told["pipes"][0];
    assert_eq!((&pipe["bytes"], &pipe["at_least"]), (&8_000_000.into(), &false.into()), "{told}");
}

/// Nor what its writer has written elsewhere.
#[test]
fn what_is_written_to_another_pipe_is_not_told_of_one_that_is_spliced() {
    if !installed("pv") {
        println!("skipped: pv is not installed");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name).display().to_string();
    let line = [b'x'; 99].iter().chain(b"\n").copied().collect::<Vec<_>>();
    std::fs::write(at("file"), line.repeat(60_000)).expect("a file");
    let [file, lines] = [at("file"), at("lines")];
    let twice = format!("awk '{{print | \"wc -l > {lines}\"}} {{print}}' {file}");
    let told = told(&[&format!("{twice} | pv -qL 12M > /dev/null")]);
    let pipe = &told["pipes"][0];
    assert!(pipe["bytes"].as_u64().is_none_or(|bytes| bytes <= 6_200_000), "{told}");
    assert_eq!(std::fs::read_to_string(lines).expect("it is told").trim(), "60000");
}

/// What a loop runs inherits the ends of its pipes, and is none of them.
#[test]
fn a_loop_reads_and_writes_its_pipe_and_not_what_it_runs() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    std::fs::write(&file, vec![b'x'; 1_000_000]).expect("a file");
    let reads = "seq 2000000 | while read -r x; do sleep 0.02; [ $x = 60 ] && break; done";
    let writes = format!("for i in 1 2 3 4; do cat {}; sleep 0.4; done | cat", file.display());
    for shell in ["dash", "bash"].into_iter().filter(|shell| installed(shell)) {
        let path = path_of(shell);
        for (text, end) in [(reads, "to"), (&writes, "from")] {
            let told = told(&["--shell", &path, text]);
            let pipe = &told["pipes"][0];
            let stage = usize::try_from(pipe[end].as_u64().expect("a place")).expect("small");
            let command = told["stages"][stage]["command"].as_str().expect("text");
            assert!(command.starts_with(&path), "{shell}: {told}");
            let bytes = pipe["bytes"].as_u64().expect("it is known");
            // About so many: what its reader reads as it starts may be among them.
            assert!(end == "to" || bytes <= 4_000_000 + 65_536, "{shell}: {told}");
        }
    }
}

/// But one that moves something, and be it the last of several, is the end.
#[test]
fn what_a_subshell_runs_last_writes_its_pipe() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    std::fs::write(&file, vec![b'x'; 3_000_000]).expect("a file");
    // What it writes is all there when it is looked at, and it is there until the end of the run.
    let text = format!("(sleep 1.5; timeout 0.5 tail -c +1 -f {}; :) | wc -c", file.display());
    for shell in ["dash", "bash"].into_iter().filter(|shell| installed(shell)) {
        let told = told(&["--shell", &path_of(shell), &text]);
        let pipe = &told["pipes"][0];
        let stage = usize::try_from(pipe["from"].as_u64().expect("a place")).expect("small");
        let command = told["stages"][stage]["command"].as_str().expect("text");
        assert!(command.starts_with("tail"), "{shell}: {told}");
        assert_eq!(pipe["other_writers"], 0, "{shell}: {told}");
        let bytes = pipe["bytes"].as_u64().expect("it is known");
        assert!((2_900_000..=3_100_000).contains(&bytes), "{shell}: {told}");
    }
}

/// Nor of what their reader reads elsewhere, or as it starts.
#[test]
fn what_is_read_of_other_files_is_told_of_no_pipe() {
    let dir = tempfile::tempdir().expect("a directory");
    let [big, small, to] = ["big", "small", "to"].map(|name| {
        let path = dir.path().join(name);
        path.to_str().expect("plain").to_owned()
    });
    std::fs::write(&big, vec![b'x'; 20_000_000]).expect("a file");
    std::fs::write(&small, vec![b'x'; 20_000]).expect("a file");
    for text in [
        format!("echo {big} | xargs md5sum | cut -c1-32"),
        format!("echo x | cat {big} | wc -c"),
        format!("cat {small} | cat < {big} | wc -c"),
        format!("cat {small} >{to} | cat"),
        "no-such-program | cat".to_owned(),
    ] {
        let told = told(&[&text]);
        let bytes = told["pipes"][0]["bytes"].as_u64();
        assert!(bytes.is_none_or(|bytes| bytes < 100), "{text}: {told}");
    }
    // Nor where the writer does not count what it gives on by reference.
    let (own, both) = ("--own-movers", format!("cat {big} | sha256sum - {big}"));
    let told = self::told(&["--shell", &path_of("sh"), own, &both]);
    let bytes = told["pipes"][0]["bytes"].as_u64();
    assert!(bytes.is_none_or(|bytes| bytes < 20_100_000), "{told}");
    let told = self::told(&["--", "no-such-program", ":::", "cat"]);
    assert_eq!(told["pipes"][0]["bytes"], 0, "{told}");
}

/// The kernel does not show an ordinary user what a process moved that has ended.
#[test]
fn an_ordinary_user_is_told_the_same_bytes() {
    let Some(_) = crate::program::root().then_some(()).filter(|()| installed("setpriv")) else {
        println!("skipped: needs root and setpriv");
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let all = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(dir.path(), all).expect("it is ours");
    let file = dir.path().join("told.json");
    let line = format!(
        "setpriv --reuid=65534 --clear-groups \"$bytepath\" run --json {} 'head -c 70000000 /dev/zero | sh -c \"cat; true\" | wc -c'",
        file.display()
    );
    let done = shell(&line);
    if done.status.code() == Some(127) || done.status.code() == Some(126) {
        println!("skipped: others may not start this program");
        return;
    }
    assert_eq!(done.well().stdout.trim(), "70000000");
    let told: Value =
        serde_json::from_slice(&std::fs::read(file).expect("it is told")).expect("JSON");
    for pipe in told["pipes"].as_array().expect("a list") {
        let bytes = pipe["bytes"].as_u64().expect("they are known");
        assert!((70_000_000..70_070_000).contains(&bytes), "{told}");
    }
}

/// The kernel counts them in.
#[test]
fn what_others_moved_is_not_told_of_a_process_that_waited_for_them() {
    let counts = "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; sleep 0.3; :";
    let told = told(&[&format!("{{ sh -c 'head -c 9000000 /dev/zero; {counts}' | wc -c; }}")]);
    let stages = told["stages"].as_array().expect("a list");
    let of = |start: &str| {
        let words =
            |stage: &&Value| stage["command"].as_str().is_some_and(|it| it.starts_with(start));
        stages.iter().find(words).unwrap_or_else(|| panic!("no {start}: {told}"))
    };
    for bytes in ["read_bytes", "written_bytes"] {
        assert_eq!(of("sh -c")[bytes], Value::Null, "{told}");
        assert!(of("wc")[bytes].is_u64(), "{told}");
    }
}

#[test]
fn pipes_are_as_large_as_asked_for_whoever_runs_the_text() {
    let texts = [
        "head -c 20000000 /dev/zero | sh -c 'sleep 0.5; cat' | wc -c",
        "{ head -c 20000000 /dev/zero | sh -c 'sleep 0.5; cat' | wc -c; }",
    ];
    for text in texts {
        let told = told(&["--pipe-size", "256K", text]);
        let pipes = told["pipes"].as_array().expect("a list");
        assert!(!pipes.is_empty(), "{told}");
        for pipe in pipes {
            assert_eq!(pipe["holds_bytes"], 262_144, "{told}");
        }
        assert_eq!(told["whole"].is_string(), text.starts_with('{'), "{told}");
    }
}

#[test]
fn two_hundred_stages_are_run() {
    let words = [&["run", "--", "seq", "1000"][..], &[":::", "cat"].repeat(199)].concat();
    let done = run(&mut bytepath(&words)).well();
    assert_eq!(done.stdout.lines().count(), 1000);
    let text = format!("seq 1000{}", " | cat".repeat(199));
    assert_eq!(run(&mut bytepath(&["run", &text])).well().stdout, done.stdout);
}

#[test]
fn too_few_descriptors_are_told_and_nothing_hangs() {
    let text = "ulimit -n 12; \"$bytepath\" run -- seq 100000 ::: cat ::: cat 3</dev/null 4<&3 5<&3 6<&3 7<&3 8<&3 9<&3";
    let done = shell(text);
    assert_ne!(done.status.code(), None, "{done:?}");
    assert!(!done.stderr.contains("panicked"), "{done:?}");
}

#[test]
fn a_stage_that_cannot_be_made_is_no_end_of_input_for_the_next() {
    for shells in ["sh", "bash"].into_iter().filter(|shell| installed(shell)) {
        let (mut made, mut unmade) = (0, 0);
        for files in 4..=16 {
            // What whoever runs the tests has left open takes none of them.
            let line = format!(
                "exec 3<&- 4<&- 5<&- 6<&- 7<&- 8<&- 9<&-; ulimit -n {files}; \
                 \"$bytepath\" run --shell {} 'seq 10 | cat | cat | wc -l'",
                path_of(shells)
            );
            let done = shell(&line);
            match done.status.code() {
                Some(0) => {
                    assert_eq!(done.stdout, "10\n", "{shells}, {files}: {done:?}");
                    made += 1;
                }
                code => {
                    assert_eq!(
                        (code, &*done.stdout),
                        (Some(126), ""),
                        "{shells}, {files}: {done:?}"
                    );
                    assert!(done.stderr.contains("Too many open files"), "{files}: {done:?}");
                    unmade += 1;
                }
            }
        }
        assert!(made > 0 && unmade > 0, "{made} and {unmade} by {shells}");
    }
}

#[test]
fn a_signal_that_is_ignored_stays_so_for_stages() {
    if !installed("bash") {
        return;
    }
    for signal in ["XFSZ", "PIPE", "INT", "USR1", "CHLD"] {
        let line = "grep SigIgn /proc/self/status | (cat; exit 3)";
        let ours = format!("\"$bytepath\" run --shell {}", path_of("bash"));
        let [theirs, ours] = ["bash -c", &ours]
            .map(|command| shell(&format!("trap '' {signal}; {command} '{line}'")));
        assert!(same(&theirs, &ours), "{signal}: {theirs:?} but {ours:?}");
    }
}

#[test]
fn descriptors_and_environment_of_stages_are_those_of_a_shell() {
    let text = "ls /proc/self/fd | wc -l; env | sort | grep -v -e ^_= -e ^SHLVL= | cksum";
    for line in [text, "ls /proc/self/fd | wc -l", "env | sort | grep -v -e ^_= -e ^SHLVL= | cksum"]
    {
        let [theirs, ours] = both("sh", line);
        // The terminal's kind is given to the program under test alone.
        let mut theirs_too = Command::new("sh");
        theirs_too.args(["-c", line]).env("TERM", "xterm");
        theirs_too.env_remove("RUST_BACKTRACE");
        let theirs = Done { bytes: run(&mut theirs_too).bytes, ..theirs };
        assert!(same(&theirs, &ours), "{line}: {theirs:?} but {ours:?}");
    }
}

#[test]
fn stages_count_the_shells_above_them_as_in_one_shell() {
    let folder = tempfile::tempdir().unwrap();
    let bash_as_sh = folder.path().join("sh");
    let shells = ["dash", "bash"].into_iter().filter(|shell| installed(shell));
    let mut shells: Vec<_> = shells.map(path_of).collect();
    if installed("bash") {
        std::os::unix::fs::symlink(path_of("bash"), &bash_as_sh).unwrap();
        shells.push(bash_as_sh.to_str().unwrap().to_owned());
    }
    let lines = [
        "printenv SHL\\VL | cat",
        "true | printenv SHL\\VL",
        "</dev/null printenv SHL\\VL 2>&1 | cat",
        "x=1 printenv SHL\\VL x | cat",
        "exec printenv SHL\\VL | cat",
        "command printenv SHL\\VL | cat",
        "eval printenv SHL\\VL | cat",
        "export -p | grep SHL\\VL",
        "'export' -p | grep SHL\\VL",
        "\\export -p | grep SHL\\VL",
        "command export -p | grep SHL\\VL",
        "builtin export -p | grep SHL\\VL",
        "trap 'export -p' EXIT | grep SHL\\VL",
        "'set' | grep BASH_EXECUTION_STRING",
        "'printenv' SHL\\VL | cat",
        "true | SHLVL=7 printenv SHLVL",
        "x=printenv; $x SHLVL | cat",
        "bash -c 'echo $SHLVL' | cat",
        "-x | cat",
    ];
    for shell in shells {
        for level in [None, Some("1"), Some("-7"), Some("998"), Some("x")] {
            for line in lines {
                let mut theirs = Command::new(&shell);
                let mut ours = bytepath(&["run", "--shell", &shell, line]);
                let [theirs, ours] = [theirs.args(["-c", line]), &mut ours].map(|command| {
                    command.env_remove("SHLVL").envs(level.map(|level| ("SHLVL", level)));
                    run(command)
                });
                let ended = |done: &Done| (done.stdout.clone(), done.status.code());
                assert_eq!(ended(&theirs), ended(&ours), "{shell} at {level:?}: {line}");
            }
        }
    }
}

#[test]
fn an_ignored_sigpipe_and_closed_descriptors_stay_so() {
    let lines = [
        "trap '' PIPE; RUN 'yes 2>/dev/null | true; echo on' 2>&1",
        "trap '' PIPE; RUN 'seq 100000 | head -1' 2>/dev/null; trap '' HUP INT; RUN 'grep Ign /proc/self/status | cat'",
        "RUN 'cat | cat' <&-",
        "RUN 'echo a | cat' >&-",
    ];
    for line in lines {
        let theirs = shell(&line.replace("RUN", "sh -c"));
        let ours = shell(&line.replace("RUN", "$bytepath run --shell /bin/sh"));
        assert!(same(&theirs, &ours), "{line}: {theirs:?} but {ours:?}");
    }
}

#[test]
fn a_stage_that_never_reads_or_dies_at_once_holds_nobody_for_ever() {
    let texts = [
        "yes | sleep 0.1",
        "yes | true | cat",
        "sleep 0.1 | true",
        "(trap '' PIPE; yes 2>/dev/null) | head -2",
    ];
    for text in texts {
        let [theirs, ours] = both("sh", text);
        assert!(same(&theirs, &ours), "{text}: {theirs:?} but {ours:?}");
    }
}

#[test]
fn what_is_run_is_explained() {
    let done = run(&mut bytepath(&["run", "--explain-plan", "--summary", "seq 10 | cat"]));
    assert_eq!(done.stdout.lines().count(), 10);
    for words in ["taken apart into 2 stages", "2  cat", "pipes of 1 MiB", "held up by"] {
        assert!(done.stderr.contains(words), "{words:?} is not in {done:?}");
    }
    let done = run(&mut bytepath(&["run", "--explain-plan", "seq 10; seq 2 | cat"]));
    for words in ["runs it as it is: it is a list of commands", "found from outside"] {
        assert!(done.stderr.contains(words), "{words:?} is not in {done:?}");
    }
}

#[test]
fn without_proc_or_the_right_to_place_it_runs_all_the_same() {
    let Some(_) = crate::program::root().then_some(()).filter(|()| installed("unshare")) else {
        println!("skipped: needs root and unshare");
        return;
    };
    let hidden = "unshare -m sh -c 'mount -t tmpfs none /proc && exec \"$bytepath\" run --summary \"seq 100000 | tail -1\"'";
    let done = shell(hidden);
    assert_eq!((done.status.code(), done.stdout.trim()), (Some(0), "100000"), "{done:?}");
    assert!(done.stderr.contains("/proc tells nothing here"), "{done:?}");
    for option in ["--explain-plan --no-summary", "--progress --no-summary"] {
        let done = shell(&hidden.replace("--summary", option));
        assert!(done.stderr.contains("nobody is placed"), "{done:?}");
        assert!(!done.stderr.contains("placed by what is seen"), "{done:?}");
    }
    // What is named runs where our own program cannot be found.
    let done =
        shell(&hidden.replace("--summary", "--own-movers").replace("tail -1", "tail -1 | cat"));
    assert_eq!((done.status.code(), done.stdout.trim()), (Some(0), "100000"), "{done:?}");
    let said =
        "--own-movers: cannot find this program's own file, as without /proc; what is named runs";
    assert!(done.stderr.contains(said), "{done:?}");
    let whole = hidden.replace("seq 100000 | tail -1", "seq 5 | tail -1; exit 3");
    assert_eq!(shell(&whole).status.code(), Some(3));
}

#[test]
fn the_proc_of_other_processes_tells_nothing() {
    let Some(_) = crate::program::root().then_some(()).filter(|()| installed("unshare")) else {
        println!("skipped: needs root and unshare");
        return;
    };
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("told.json");
    let text = "head -c 9000000 /dev/zero | tail -c 1 | wc -c";
    let line = format!("unshare -pf \"$bytepath\" run --json {} '{text}'", file.display());
    assert_eq!(shell(&line).well().stdout.trim(), "1");
    let told: Value =
        serde_json::from_slice(&std::fs::read(file).expect("it is told")).expect("JSON");
    for stage in told["stages"].as_array().expect("a list") {
        assert_eq!((&stage["looks"], &stage["read_bytes"]), (&0.into(), &Value::Null), "{told}");
        let cpu_s = ["user_s", "system_s"].iter().filter_map(|kind| stage[kind].as_f64()).sum();
        assert!((1e-6..5.0).contains(&cpu_s), "{told}");
    }
    assert_eq!(told["pipes"], Value::Array(vec![]), "{told}");
}

#[test]
fn an_orphan_that_becomes_its_child_is_buried() {
    let Some(_) = crate::program::root().then_some(()).filter(|()| installed("unshare")) else {
        println!("skipped: needs root and unshare");
        return;
    };
    // The orphan has the pipe until it ends, and closes that before it is a zombie.
    let waits = "cat; n=0; while grep -qs \"^Name:.sleep\" /proc/[0-9]*/status && [ $n -lt 200 ]; do n=$((n+1)); sleep 0.05; done";
    let counts = "grep -ls \"^State:.Z\" /proc/[0-9]*/status | wc -l";
    let dir = tempfile::tempdir().expect("a directory");
    let script = dir.path().join("counts");
    std::fs::write(&script, format!("{waits}; {counts}")).expect("it is written");
    let line = format!(
        "unshare -pfm --mount-proc \"$bytepath\" run \"sh -c 'sleep 0.2 & echo made' | sh {}\"",
        script.display()
    );
    assert_eq!(shell(&line).well().stdout, "made\n0\n");
}

#[test]
fn a_stage_that_a_signal_ended_is_told_of() {
    let killed = "sh -c 'kill -SEGV $$'";
    let done = run(&mut bytepath(&["run", "--", "sh", "-c", "kill -SEGV $$", ":::", "cat"]));
    assert_eq!(
        (done.status.code(), done.stderr.as_str()),
        (Some(0), "bytepath: sh -c kill -SEGV $$: ended by SIGSEGV\n")
    );
    let done =
        run(&mut bytepath(&["run", &format!("echo a | {}", killed.replace("$$", "\"$$\""))]));
    assert!(done.stderr.ends_with("ended by SIGSEGV\n"), "{done:?}");
    run(&mut bytepath(&["run", "yes | head -1"])).well();
}

/// Not of the one that only waits for that: a shell, or what ends it after a time.
#[test]
fn what_a_stage_waits_for_is_told_of_the_one_that_does_its_work() {
    if !installed("bash") {
        return;
    }
    let works = "timeout 0.5 sh -c 'while :; do :; done'";
    for stage in [works.to_owned(), format!("{works} 2>/dev/null")] {
        let told = told(&["--shell", &path_of("bash"), &format!("{stage} | cat")]);
        let stage = &told["stages"][0];
        assert!(stage["runs"].as_f64().is_some_and(|runs| runs > 0.5), "{told}");
        let words = told["verdict"]["words"].as_str().expect("text");
        assert!(!words.contains("outside"), "{words}");
    }
}

/// Nor of one that worked for a moment of the time.
#[test]
fn what_came_and_went_says_nothing_of_the_whole_stage() {
    let works = "i=0; while [ $i -lt 100000 ]; do i=$((i + 1)); done";
    let script = format!("sh -c '{works}'; sleep 2; echo");
    let told = told(&["--", "sh", "-c", &script, ":::", "cat"]);
    assert!(told["stages"][0]["runs"].as_f64().is_some_and(|runs| runs < 0.5), "{told}");
    let words = told["verdict"]["words"].as_str().expect("text");
    assert!(words.contains("waited for what is outside"), "{words}");
}

#[test]
fn quotas_are_looked_for_only_where_they_are_told() {
    if !crate::calls::may_trace() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let calls = dir.path().join("calls");
    for (options, wanted) in [(&["--no-summary", "--no-place"][..], false), (&["--summary"], true)]
    {
        let mut traced = Command::new("strace");
        traced.args(["-e", "trace=open,openat", "-o"]).arg(&calls);
        traced.arg(BYTEPATH).arg("run").args(options).arg("true");
        assert!(run(&mut traced).status.success());
        let calls = std::fs::read_to_string(&calls).expect("strace wrote it");
        assert_eq!(calls.contains("/proc/self/cgroup"), wanted, "{options:?}: {calls}");
    }
}

/// What ends at once waits neither for what only placing needs, nor for what nobody is told.
#[test]
fn what_is_over_at_once_costs_no_look_at_the_machine_and_at_the_dead() {
    if !crate::calls::may_trace() {
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let [calls, told] = ["calls", "told"].map(|name| dir.path().join(name));
    let told = told.to_str().expect("plain");
    for (options, wanted) in [(&["--no-summary"][..], false), (&["--json", told], true)] {
        let mut traced = Command::new("strace");
        traced.args(["-e", "trace=open,openat,poll,ppoll", "-o"]).arg(&calls);
        traced.args([BYTEPATH, "run"]).args(options).arg("true | true");
        assert!(run(&mut traced).status.success());
        let calls = std::fs::read_to_string(&calls).expect("strace wrote it");
        assert_eq!(calls.contains("/proc/self/io"), wanted, "{options:?}: {calls}");
        let started = calls.split("poll(").next().expect("one");
        assert!(!started.contains("/topology/"), "{options:?}: {calls}");
        assert!(!started.contains("profile.json"), "{options:?}: {calls}");
    }
}

/// What is only seen from outside is not claimed to be all.
#[test]
fn figures_of_what_a_shell_runs_are_told_as_what_was_seen() {
    /// What a program of coreutils reads of its libraries and locale, at the most.
    const LIBRARIES: u64 = 1 << 20;
    let pipeline = "head -c 50000000 /dev/zero | sh -c 'sleep 0.3; exec cat' | tail -c 1 | wc -c";
    let told = told(&[&format!("{pipeline}; {pipeline}")]);
    let pipes = told["pipes"].as_array().expect("a list");
    assert!(!pipes.is_empty(), "{told}");
    for (pipe, all) in pipes.iter().zip([50_000_000, 50_000_000, 1].into_iter().cycle()) {
        // Who is looked at when it has done all its work is known to have moved that, and where both
        // are, they agree. One that was first looked at before it became its program has read that
        // one's libraries as well.
        let at_least = pipe["agreed"] == false && pipe["at_least"] == true;
        let about = pipe["agreed"] == false && pipe["at_least"] == false;
        let near = |bytes: u64| bytes >= all && bytes < all + LIBRARIES;
        let right = pipe["bytes"].as_u64().is_some_and(|it| it == all || (about && near(it)));
        // So little may be all that it wrote elsewhere.
        let too_little = all == 1 && pipe["bytes"].is_null();
        assert!(at_least || right || too_little, "{told}");
        // Of one that was gone before anybody looked at it nothing is known.
        let (seconds, all) = (pipe["seconds"].as_f64(), told["seconds"].as_f64());
        assert!(seconds.is_none_or(|seconds| all.is_some_and(|all| seconds < all)), "{told}");
    }
    let words = told["verdict"]["words"].as_str().expect("text");
    assert!(words.contains("(in the longest of "), "{words}");
    assert!(words.contains(" 2 pipelines, "), "{words}");
}

/// A pipe is the work of all that have written to it, and not of who holds it open until the end.
#[test]
fn what_several_wrote_to_one_pipe_is_not_told_as_the_last_ones() {
    let dir = tempfile::tempdir().expect("a directory");
    let [file, json] = ["file", "told"].map(|name| dir.path().join(name));
    std::fs::write(&file, vec![b'x'; 4_000_000]).expect("a file");
    // Who writes stays until it was looked at.
    let several = format!("timeout 2 tail -c +1 -f {}; sleep 1; true", file.display());
    for (text, is_whole) in
        [(format!("({several}) | wc -c"), true), (format!("sh -c '{several}' | wc -c"), false)]
    {
        let json_name = json.to_str().expect("plain");
        let shell = path_of("sh");
        let words = ["run", "--shell", &shell, "--summary", "--json", json_name, &text];
        let done = run(&mut bytepath(&words));
        assert_eq!(done.stdout.trim(), "4000000", "{done:?}");
        let told = std::fs::read_to_string(&json).expect("it is told");
        let told: Value = serde_json::from_str(&told).expect("JSON");
        assert_eq!(told["whole"].is_string(), is_whole, "{told}");
        let pipe = &told["pipes"][0];
        assert_eq!((&pipe["other_writers"], &pipe["other_readers"]), (&1.into(), &0.into()));
        let bytes = pipe["bytes"].as_u64().expect("it is known");
        // A bound is none that what they read as they started is in.
        let right = if is_whole { 3_900_000..4_000_001 } else { 4_000_000..4_100_000 };
        assert!(right.contains(&bytes), "{told}");
        assert_eq!((&pipe["agreed"], &pipe["at_least"]), (&false.into(), &is_whole.into()));
        let said = ", of which another may have written a part, pipe of ";
        assert!(done.stderr.contains(said), "{done:?}");
    }
}

/// Nor is it what they wrote to files of their own, and its readers read from such.
#[test]
fn what_goes_by_files_of_their_own_is_not_told_as_gone_through_a_pipe_of_several() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    std::fs::create_dir(at("folder")).expect("a folder");
    std::fs::write(at("folder/small"), vec![b'x'; 3_800_000]).expect("a file");
    std::fs::File::create(at("big")).and_then(|file| file.set_len(200 << 20)).expect("a file");
    let loop_of_files = "(printf 'big\nbig\nbig\n'; head -c 200000 /dev/zero | tr '\\0' '\\n'; sleep 2; true) \
                         | while read f; do md5sum $f; done";
    let files_beside = "(tar cf x big; sleep 0.3; timeout 1 tail -c +1 -f folder/small; true) \
                        | (cat; md5sum big)";
    // Each tar stays, with one end of the pipe, until what it does by another is taken.
    let by_others = "({ tar cf /dev/fd/3 folder 3>&1 >&4 4>&- | (sleep 1; cat > /dev/null); } 4>&1; \
                     echo; sleep 2; true) \
                     | while read f; do tar cf - folder | (sleep 1; cat > /dev/null); done";
    for (text, from, most) in [
        (loop_of_files, "sleep 2", 200_012),
        (files_beside, "t", 3_900_000),
        (by_others, "sleep 2", 1),
    ] {
        let shell = path_of("sh");
        let words = ["run", "--shell", &shell, "--json", "told", text];
        let done = run(bytepath(&words).current_dir(dir.path()));
        assert!(done.status.success(), "{done:?}");
        let told = std::fs::read_to_string(at("told")).expect("it is told");
        let told: Value = serde_json::from_str(&told).expect("JSON");
        let writer = |pipe: &Value| {
            let stage = usize::try_from(pipe["from"].as_u64()?).ok()?;
            let command = told["stages"][stage]["command"].as_str()?;
            // Where one that came and went took long, it is the shell that had the end all the time.
            Some([from, &shell].iter().any(|it| command.starts_with(it)))
        };
        let mut pipes = told["pipes"].as_array().expect("a list").iter();
        let pipe = pipes.find(|pipe| writer(pipe) == Some(true));
        let pipe = pipe.unwrap_or_else(|| panic!("{told}"));
        assert!(pipe["bytes"].as_u64().is_none_or(|bytes| bytes <= most), "{text}: {told}");
    }
}

/// Nor is what a stage read and wrote until the last look.
#[test]
fn what_a_stage_may_have_moved_after_the_last_look_is_told_as_a_bound() {
    let pipeline = "head -c 50000000 /dev/zero | wc -c";
    for (text, is_bound) in [(pipeline.to_owned(), false), (format!("({pipeline}; true)"), true)] {
        let told = told(&["--shell", &path_of("sh"), &text]);
        let stages = told["stages"].as_array().expect("a list");
        for (name, bytes) in [("head", "written_bytes"), ("wc", "read_bytes")] {
            let is_it = |it: &&Value| it["command"].as_str().is_some_and(|it| it.starts_with(name));
            // Of what a shell runs, one may have come and gone unseen.
            let Some(stage) = stages.iter().find(is_it) else {
                assert!(is_bound, "no {name}: {told}");
                continue;
            };
            let at_least = stage["moved_at_least"].as_bool().expect("it is told");
            let is_all = stage[bytes].as_u64().is_some_and(|bytes| bytes >= 50_000_000);
            assert!(is_all || (is_bound && at_least), "{told}");
            assert!(is_bound || !at_least, "{told}");
        }
    }
}

/// Processes that come and go between two looks are not passed over.
#[test]
fn cpu_seconds_that_nobody_saw_are_told() {
    let many = "for i in $(seq 300); do seq 3000 | tail -1; done; exit 0";
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("told.json");
    let file_name = file.to_str().expect("plain");
    let words = ["run", "--shell", &path_of("sh"), "--summary", "--json", file_name, many];
    let done = run(&mut bytepath(&words));
    let text = std::fs::read_to_string(file).expect("it is told");
    let told: Value = serde_json::from_str(&text).expect("it is JSON");
    assert!(told["unseen_cpu_s"].as_f64().is_some_and(|unseen_s| unseen_s > 0.0), "{told}");
    let mut lines = done.stderr.lines();
    assert!(lines.any(|it| it.ends_with(" s of CPU by processes that were not seen to their end")));
    let stages = told["stages"].as_array().expect("a list");
    let is_at_least = |stage: &Value| stage["cpu_at_least"] == true;
    assert!(stages.is_empty() || stages.iter().any(is_at_least), "{told}");
    let words = told["verdict"]["words"].as_str().expect("text");
    assert!(!words.contains("pipelines") || words.contains("at least "), "{words}");
}

/// A shell counts what its children moved as its own, and has had an end of each of their pipes.
#[test]
fn what_a_shell_counts_of_all_is_told_of_no_pipe() {
    const BYTES: u64 = 2_000_000;
    for shell in ["sh", "bash", "zsh"].into_iter().filter(|shell| installed(shell)) {
        let text = format!(
            "for i in $(seq 30); do head -c {BYTES} /dev/zero | tr a b | wc -l >/dev/null; done"
        );
        let told = told(&["--shell", &path_of(shell), &text]);
        let pipes = told["pipes"].as_array().expect("a list");
        for pipe in pipes {
            let bytes = pipe["bytes"].as_u64().unwrap_or(0);
            assert!(bytes < 2 * BYTES, "{shell}: {told}");
        }
        let words = told["verdict"]["words"].as_str().expect("text");
        assert!(!words.starts_with("none alone; of a CPU they took"), "{shell}: {words}");
    }
}

#[test]
fn the_shell_and_run_are_compared_on_the_same_output() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().to_str().expect("plain");
    let words = ["bench", "run", "--blocks", "2", "--json", "-", "--dir", dir];
    let pipelines = ["seq 1000 | wc -l", "true | false"];
    let record = run(&mut bytepath(&[&words[..], &["-i=1"], &pipelines].concat())).well().json();
    let arms = record["arms"].as_array().expect("arms");
    assert!(arms.len() >= 4, "{record}");
    assert!(arms.iter().all(|arm| arm["status"] == "ok" && arm["unit"] == "s"), "{record}");
    let cost = |arm: &Value, name: &str| arm["costs"][name].as_f64();
    for arm in arms {
        let system_s = cost(arm, "cpu_system_s_per_run");
        assert!(system_s.is_some() && cost(arm, "cpu_user_s_per_run").is_some(), "{arm}");
        assert!(cost(arm, "context_switches_per_run") > Some(0.0), "it waits for its end: {arm}");
        let ended =
            if arm["params"]["pipeline"] == pipelines[1] { json!({"1": 2}) } else { Value::Null };
        assert_eq!(arm["params"]["exit_codes"], ended, "{arm}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).expect("it lists").count(), 0, "nothing is left");
}

#[test]
fn stages_that_fail_unnoticed_are_noted_once_an_arm() {
    let words = ["bench", "run", "--blocks", "2", "--shell", "/bin/sh", "--json", "-"];
    let notes = |text: &str| {
        let record = run(&mut bytepath(&[&words[..], &[text]].concat())).well().json();
        let notes = record["notes"].as_array().expect("notes").clone();
        let of_stages = |note: &String| note.contains("it wrote") || note.contains("its stages");
        let notes = notes.iter().filter_map(Value::as_str).map(str::to_owned).filter(of_stages);
        notes.collect::<Vec<_>>()
    };
    let found = notes("seq 10 | nosuch-at-all | cat");
    for (arm, end) in [("shell", "not found"), ("bytepath", "not found")] {
        let begin = format!("{arm}: it wrote to standard error: ");
        let told = |note: &&String| note.starts_with(&begin) && note.ends_with(end);
        assert_eq!(found.iter().filter(told).count(), 1, "{found:?}");
    }
    let ended = "bytepath: of its stages, nosuch-at-all ended with 127";
    assert!(found.iter().any(|note| note == ended), "{found:?}");
    assert_eq!(found.len(), 3, "{found:?}");
    let found = notes("seq 3 | grep x | cat");
    assert_eq!(found, ["bytepath: of its stages, grep x ended with 1"]);
    // Its reader leaves, as is usual.
    assert_eq!(notes("yes | head -n 1 | cat"), [""; 0]);
}

#[test]
fn what_each_sample_of_a_pipeline_reads_is_given_or_empty_and_that_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("in put");
    std::fs::write(&file, "2\n1\n").expect("it writes");
    for bench in ["run", "cmd"] {
        let words = ["bench", bench, "--blocks", "2", "--no-store", "--json", "-"];
        let of = |more: &[&str], own: std::process::Stdio| {
            let mut command = bytepath(&[&words[..], more].concat());
            run(command.current_dir(folder.path()).stdin(own)).well().json()
        };
        let notes = |record: &Value| {
            let notes = record["notes"].as_array().expect("notes").iter();
            let of_input = |note: &&str| note.contains("standard input was empty");
            notes.filter_map(Value::as_str).filter(of_input).map(str::to_owned).collect::<String>()
        };
        let own = || std::fs::File::open(&file).expect("it opens").into();
        let found = notes(&of(&["test -z \"$(cat)\""], own()));
        assert!(found.contains("the file") && found.contains("--input FILE"), "{found}");
        let (pipe, _writer) = std::io::pipe().expect("a pipe");
        assert!(notes(&of(&["true"], pipe.into())).contains("the pipe"));
        assert_eq!(notes(&of(&["true"], std::process::Stdio::null())), "");
        let record = of(&["test \"$(sort | head -n 1)\" = 1", "--input", "in put"], own());
        assert_eq!(notes(&record), "");
        let words = ["bench", bench, "true", "--input", "absent"];
        run(&mut bytepath(&words)).refused(1, &["cannot read absent"]);
    }
}

#[test]
fn what_gives_other_output_each_time_gives_no_figure() {
    let words = ["bench", "run", "--blocks", "2", "--json", "-", "date +%N | cat"];
    let record = run(&mut bytepath(&words)).json();
    for told in ["gave other output than the first run", "end it with >/dev/null", "bench cmd"] {
        assert!(record.to_string().contains(told), "{record}");
    }
    for (text, why) in [("true | false", "it ended with 1"), ("nosuch-at-all | nosuch", "127")] {
        let words = ["bench", "run", "--blocks", "2", text];
        run(&mut bytepath(&words)).refused(1, &["no arm can run", why]);
    }
    let words = ["bench", "run", "--blocks", "2", "--with", "--bogus", "true | cat"];
    let why = "it said: error: unexpected argument '--bogus' found";
    run(&mut bytepath(&words)).refused(1, &["1 of 2 arms failed", why]);
    // To both it is a program that is not there, and no option.
    let words = ["bench", "run", "--blocks", "2", "-i=127", "--", "-x | nosuch-at-all"];
    run(&mut bytepath(&words)).well();
    run(&mut bytepath(&["bench", "run", " "])).refused(2, &["empty"]);
    run(&mut bytepath(&["bench", "run", "a", "a"])).refused(2, &["twice"]);
    let done =
        run(&mut bytepath(&["bench", "run", "--prepare", "exit 3", "true", "--blocks", "2"]));
    assert!(
        format!("{done:?}").contains("what was to be done before each sample failed"),
        "{done:?}"
    );
}

/// `bytepath run` with these words of shell, by an ordinary user; `$0` and `$it` name a file in a folder of its own.
fn by_nobody(words: &str) -> Option<Done> {
    let nobody = crate::program::as_nobody()?;
    let line = format!(
        "export it=\"$0\"; cp \"$bytepath\" \"$0\" && chmod 755 \"$0\" && {nobody}\"$0\" run {words}"
    );
    let folder = tempfile::tempdir_in("/tmp").expect("a folder");
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).expect("it is ours");
    let copy = folder.path().join("bytepath");
    let mut command = Command::new("sh");
    command.args(["-c", &line]).arg(&copy).env("bytepath", crate::program::BYTEPATH);
    Some(run(command.stdin(std::process::Stdio::null())))
}

/// The kernel gives two pages to each pipe of a user whose pipes have all that they may.
#[test]
fn many_stages_leave_a_user_the_half_of_what_pipes_may_have() {
    // The first ends when the last has been there for some time.
    let first = r#"sh -c "until [ -e \$it.go ]; do sleep 0.1; done""#;
    let last = r#"sh -c "sleep 0.5; touch \$it.go; cat""#;
    let stages = format!("{first}{} | {last}", " | cat".repeat(98));
    for text in [format!("{{ {stages}; }}"), stages] {
        let words = format!("--json \"$0.json\" '{text}' && cat \"$0.json\"");
        let Some(done) = by_nobody(&words) else { return };
        let told = done.well().json();
        let pipes = told["pipes"].as_array().expect("a list");
        let sizes: Vec<_> = pipes.iter().filter_map(|pipe| pipe["holds_bytes"].as_u64()).collect();
        assert!(sizes.len() >= 50, "{}: {sizes:?}", told["notes"]);
        assert!(sizes.iter().all(|size| *size >= 64 << 10), "{sizes:?}");
    }
}

#[test]
fn a_larger_pipe_that_is_refused_is_told_and_done_without() {
    let words = "--pipe-size 512M --explain-plan -- seq 10 ::: tail -1";
    let Some(done) = by_nobody(words) else { return };
    assert_eq!((done.status.code(), done.stdout.as_str()), (Some(0), "10\n"), "{done:?}");
    assert!(done.stderr.contains("above fs.pipe-max-size"), "{done:?}");
    for (text, summary) in
        [("seq 10 | tail -1", ""), ("{ seq 10; sleep 0.3; } | tail -1", "--summary")]
    {
        let words = format!("--pipe-size 512M {summary} '{text}'");
        let Some(done) = by_nobody(&words) else { return };
        let told = done.stderr.matches("above fs.pipe-max-size").count();
        assert_eq!(
            (done.stdout.as_str(), told),
            ("10\n", if summary.is_empty() { 1 } else { 2 }),
            "{done:?}"
        );
    }
}

/// The 41st field of proc_pid_stat(5) is the scheduling policy: 0 is the usual one, 3 SCHED_BATCH.
#[test]
fn stages_do_not_interrupt_each_other_unless_that_is_left_to_the_kernel() {
    const POLICY: &str = "cut -d' ' -f41 /proc/self/stat";
    let text = format!("{POLICY} | cat");
    let policy = |words: &[&str]| run(&mut bytepath(&[words, &[&text]].concat())).well().stdout;
    assert_eq!(policy(&["run"]), "3\n");
    assert_eq!(policy(&["run", "--no-place"]), "0\n");
    let whole = format!("{{ {POLICY}; }} | cat");
    assert_eq!(run(&mut bytepath(&["run", &whole])).well().stdout, "3\n");
    if installed("chrt") {
        let done = run(Command::new("chrt").args(["--idle", "0", BYTEPATH, "run", &text]));
        assert_eq!(done.well().stdout, "5\n", "what was chosen is left");
    }
    if installed("strace") {
        let inject = ["-f", "-o", "/dev/null", "-e", "inject=sched_setscheduler:error=EPERM"];
        let done = run(Command::new("strace").args(inject).args([BYTEPATH, "run", &text]));
        assert_eq!(done.well().stdout, "0\n");
    }
}

/// What goes on behind the run waits for nobody any more.
#[test]
fn what_is_left_in_the_background_is_scheduled_as_ever() {
    let text = "sleep 1000 >/dev/null 2>&1 </dev/null & echo $!; sleep 0.5 | cat";
    for words in [&["run", text][..], &["run", "--", "sh", "-c", text]] {
        let done = run(&mut bytepath(words)).well();
        let pid: i32 = done.stdout.trim().parse().expect("a number");
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it is there");
        let pid = rustix::process::Pid::from_raw(pid).expect("a process");
        rustix::process::kill_process(pid, rustix::process::Signal::KILL).expect("it is there");
        assert_eq!(stat.split(' ').nth(40), Some("0"), "{words:?}: {stat}");
    }
}

#[test]
fn without_the_right_to_place_stages_they_run_where_they_are() {
    if !installed("strace") {
        return;
    }
    let inject = "-e trace=sched_setaffinity -e inject=sched_setaffinity:error=EPERM";
    let line = format!(
        "strace -f --seccomp-bpf -qq -o /dev/null {inject} \"$bytepath\" run --explain-plan 'yes | head -c 3G | wc -c'"
    );
    let done = shell(&line);
    assert_eq!((done.status.code(), done.stdout.trim()), (Some(0), "3221225472"), "{done:?}");
    assert!(done.stderr.contains("the kernel does not let us"), "{done:?}");
}

/// What stands before a program that is to be started with the news of its children held back.
const NO_NEWS: &str = "python3 -c 'import os, signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD])
os.execvp(sys.argv[1], sys.argv[1:])'";

#[test]
fn news_of_children_that_is_held_back_comes_here_and_stays_held_back_for_stages() {
    if !installed("python3") {
        println!("skipped: python3 is not installed");
        return;
    }
    for words in ["--no-place --no-summary 'sleep 0.1 | cat'", "-- sleep 0.1 ::: cat"] {
        shell(&format!("{NO_NEWS} \"$bytepath\" run {words}")).well();
    }
    let held = "-- grep SigBlk /proc/self/status";
    let [ours, theirs] = [&format!("\"$bytepath\" run --no-place {held}"), &held[3..]]
        .map(|command| shell(&format!("{NO_NEWS} {command}")).well().stdout);
    assert_eq!(ours, theirs);
}

#[test]
fn who_works_and_sleeps_by_turns_runs_for_its_share_of_the_time() {
    if !installed("python3") {
        println!("skipped: python3 is not installed");
        return;
    }
    let program = "import time
began = time.monotonic()
for _ in range(6):
    until = time.monotonic() + 0.25
    while time.monotonic() < until: pass
    time.sleep(0.35)
print(1 - 6 * 0.35 / (time.monotonic() - began))";
    let words = ["run", "--json", "/dev/stderr", "--no-summary", "--"];
    let line = [&words[..], &["python3", "-c", program, ":::", "cat"]].concat();
    let done = run(&mut bytepath(&line));
    let share: f64 = done.stdout.trim().parse().expect("a share");
    let told: Value = serde_json::from_str(&done.stderr).expect("JSON");
    let runs = told["stages"][0]["runs"].as_f64().expect("it was seen");
    // The interpreter's own start counts for us alone.
    assert!((runs - share).abs() < 0.17, "{runs} instead of {share}");
}
