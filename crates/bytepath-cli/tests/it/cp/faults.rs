//! Faults of the kernel, made by strace(1) and by full file systems.

use std::path::Path;

use super::{gnu, some};
use crate::calls::may_trace;
use crate::program::{installed, may_mount, shell};

#[test]
fn a_call_that_is_refused_leaves_other_ways() {
    let Some(cp) = gnu() else { return };
    if !may_trace() {
        return;
    }
    for error in ["EINVAL", "EOPNOTSUPP", "ENOSYS", "EPERM", "EXDEV", "EBADF"] {
        // We make one such call for one file of this size.
        for (when, words) in [
            ("1+", "d/sub/deep/z new"),
            ("1+", "-r d new"),
            ("1+", "-a d new"),
            ("2+", "-r d new"),
            ("2+", "-a d new"),
        ] {
            let faulty = format!(
                "strace -f -qqq -o ../log -e inject=copy_file_range:error={error}:when={when} cp"
            );
            let both = cp.both(&format!("{faulty} {words}; echo $?"), some).fired();
            // The classic gives up at a late EPERM.
            match (error, when) {
                ("EPERM", "2+") => both.ours_well(),
                _ => both.same(),
            }
        }
    }
}

/// Neither from the kernel nor, where there is a /dev, from there.
#[test]
fn no_random_numbers_are_needed() {
    let Some(cp) = gnu() else { return };
    if !may_trace() {
        return;
    }
    let line = |words: &str| {
        format!("strace -f -qqq -o ../log -e inject=getrandom:error=EACCES cp {words}; echo $?")
    };
    for words in ["a new", "-a d new", "a b l d/x e", "-a a d/x d/sub/y d e", "-bf a b"] {
        cp.both(&line(words), some).same();
    }
    for words in ["--atomic a b", "--resume a new", "--verify -a d new", "--json told -r d new"] {
        let ours = cp.both(&line(words), some).ours;
        assert_eq!((&ours.stdout[..], ours.stderr.as_str()), (&b"0\n"[..], ""), "{words}");
    }
}

#[test]
fn where_no_attribute_may_be_removed_nothing_is_missed_that_is_not_there() {
    let Some(cp) = gnu() else { return };
    if !may_trace() {
        return;
    }
    for error in ["EPERM", "EACCES", "EINVAL"] {
        let line = format!(
            "strace -f -qqq -o ../log -e inject=fremovexattr:error={error} cp -a d new; echo $?"
        );
        cp.both(&line, some).same();
    }
}

#[test]
fn without_proc_all_kinds_of_files_are_kept() {
    let Some(cp) = gnu() else { return };
    if !may_mount() || !["umount", "setfacl", "getfacl"].into_iter().all(installed) {
        return;
    }
    let prepare = |work: &Path| {
        some(work);
        let line = "mknod d/null c 1 3; chmod 604 d/null; chown 5:6 d/fifo; mkfifo d/listed; \
                    setfacl -m u:1234:rw d/listed; mkdir -m 1700 d/sticky; \
                    setfacl -m d:u:1234:r e";
        let done = shell(&format!("cd {} && {line}", work.display()));
        assert!(done.status.success(), "{done:?}");
        std::os::unix::net::UnixListener::bind(work.join("d/socket")).expect("a socket");
        super::mode(&work.join("d/socket"), 0o751);
    };
    for words in [
        "-a d new",
        "-a d/. e",
        "-a d/fifo d/socket d/null d/listed e",
        "-R --no-preserve=mode d e",
    ] {
        let line = format!(
            "unshare -m sh -c 'umount -l /proc || mount -t tmpfs none /proc; cp {words}; echo $?'; \
             getfacl -nR e new 2>/dev/null"
        );
        let both = cp.both(&line, prepare);
        if both.ours.stderr.contains("without /proc") {
            return println!("skipped: this kernel has no calls for attributes by name");
        }
        both.same();
    }
}

#[test]
fn interruptions_change_nothing() {
    let Some(cp) = gnu() else { return };
    if !may_trace() {
        return;
    }
    let here = "-P $(pwd -P)/d/sub/deep/z -P $(pwd -P)/new/sub/deep/z";
    // Each in turn, so that none is interrupted for ever; the loader's own calls come first.
    for (calls, when, of) in [
        ("copy_file_range", "1+2", here),
        ("copy_file_range,read,write", "1+2", here),
        ("openat", "12+2", ""),
    ] {
        let inject = format!("-e inject={calls}:error=EINTR:when={when}");
        let traced = format!("strace -f -qqq {of} -o ../log {inject} cp");
        let plain = cp.both("cp -r d new; echo $?", some);
        let both = cp.both(&format!("{traced} -r d new; echo $?"), some).fired();
        assert_eq!(both.ours.stderr, "", "{calls}");
        assert_eq!(both.ours.stdout, plain.theirs.stdout, "{calls}");
    }
}

#[test]
fn a_full_file_system_is_told_of_and_no_bytes_are_made_up() {
    let Some(cp) = gnu() else { return };
    if !may_mount() {
        return;
    }
    // The mount is gone with the processes of its namespace.
    for (options, what) in [("", "large small"), ("-a", "large small"), ("-r", "tree")] {
        let line = format!(
            "mkdir small-one; unshare -m sh -c 'mount -t tmpfs -o size=1M none small-one && \
             cp {options} {what} small-one; echo $?; find small-one -type f | sort; \
             cmp large small-one/large'"
        );
        let both = cp.both(&line, |work: &Path| {
            std::fs::write(work.join("large"), vec![5; 3 << 20]).expect("a file");
            std::fs::write(work.join("small"), b"fits").expect("a file");
            std::fs::create_dir(work.join("tree")).expect("a folder");
            std::fs::write(work.join("tree/large"), vec![5; 3 << 20]).expect("a file");
        });
        both.same_words();
        assert!(both.ours.stderr.contains("No space left on device"), "{}", both.ours.stderr);
        assert!(both.ours.stdout.starts_with(b"1\n"), "{}", both.ours.stdout.escape_ascii());
    }
}

#[test]
fn few_open_files_are_enough_for_deep_trees() {
    for options in ["-a", "-rL"] {
        deep_trees_are_copied_with_few_open_files(options);
    }
}

fn deep_trees_are_copied_with_few_open_files(options: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    let line = format!(
        "cd {} && name=$(printf %0200d 7) && mkdir top && cd top && i=0 && \
         while [ $i -lt 40 ]; do mkdir $name && cd -P $name && i=$((i+1)); done && echo deep >file \
         && cd {} && ulimit -n 16 && $bytepath cp {options} top copy && cd copy && \
         i=0 && while [ $i -lt 40 ]; do cd -P $name && i=$((i+1)); done && cat file",
        folder.path().display(),
        folder.path().display()
    );
    // Paths of 8000 bytes: longer than any one call takes.
    let done = shell(&line);
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("deep\n", ""), "{options}");
    shell(&format!("rm -rf {}/top {}/copy", folder.path().display(), folder.path().display()));
}

#[test]
fn nothing_lands_behind_a_gap_where_what_is_in_flight_cannot_be_waited_for() {
    if !may_trace() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let folder = folder.path().display();
    shell(&format!("cd {folder} && seq 9000000 | head -c 64M >large")).well();
    for (route, call) in [
        ("uring", "io_uring_enter"),
        ("uring-linked", "io_uring_enter"),
        ("uring-registered", "io_uring_enter"),
        ("uring-direct", "io_uring_enter"),
        ("linux-aio", "io_getevents"),
    ] {
        let plain = shell(&format!("cd {folder} && $bytepath cp --route {route} large new"));
        if !plain.status.success() {
            println!("skipped: {route}: {}", plain.stderr);
            continue;
        }
        // Only one call is refused: the next one brings what is still in flight.
        for when in [2, 3, 5] {
            let done = shell(&format!(
                "cd {folder} && rm -f new && \
                 strace -f -qqq -o /dev/null -e inject={call}:error=ENOMEM:when={when} \
                 $bytepath cp --route {route} large new; \
                 stat -c %s new && cmp -n $(stat -c %s new) large new && echo same"
            ));
            assert!(done.stderr.contains("Cannot allocate memory"), "{route}, {when}: {done:?}");
            assert!(done.stdout.ends_with("same\n"), "{route}, {when}: {done:?}");
        }
    }
}
