//! A large file by what was measured: the route of several threads where a profile prefers it, and
//! what becomes of it in foul weather.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use bytepath::machine::{self, Machine};
use bytepath::profile::MachineKey;

use crate::calls::{assert_fired, faulty, may_trace};
use crate::program::{Done, installed, may_mount, shell};

/// Large enough for the profile to be looked at, and for slices of several threads.
const BYTES: usize = 40 << 20 | 1;

/// A profile of this machine by which `parallel` is best from a file to a file in this folder.
fn profile(folder: &Path) -> String {
    let choice = serde_json::json!({
        "route": "parallel",
        "gib_per_s": 7.0, "ci95": [6.0, 8.0], "overall_gib_per_s": 7.0, "cpu_s_per_gib": 0.1,
    });
    let device = std::fs::metadata(folder).expect("it is there").dev();
    let own = machine::file_system(folder).expect("it has one").name;
    let profile = serde_json::json!({
        "schema": "bytepath.profile/1", "made": "2026-01-01T00:00:00Z", "bytepath": "0.1.0",
        "machine": MachineKey::of(Machine::this()),
        "pairs": [{
            "source": "file", "sink": "file", "choices": [choice],
            "place": { "directory": folder, "file_system": own, "options": [], "device": device },
        }],
    });
    profile.to_string()
}

/// Runs the lines in a folder with a `large` file and `profile`.
fn beside_large(folder: &Path, lines: &str) -> Done {
    shell(&format!("cd {} && {lines}", folder.display()))
}

/// Makes the two: each page of the file is another.
fn fill(folder: &Path) {
    let mut contents = vec![7; BYTES];
    for (number, page) in contents.chunks_exact_mut(4096).enumerate() {
        page[..8].copy_from_slice(&number.to_ne_bytes());
    }
    std::fs::write(folder.join("large"), contents).expect("a file");
    std::fs::write(folder.join("profile"), profile(folder)).expect("a profile");
}

/// A folder on a disk, most probably, and one in memory, where there is one; both filled.
fn folders() -> Vec<tempfile::TempDir> {
    let disk = tempfile::tempdir().expect("a folder");
    let memory = tempfile::tempdir_in("/dev/shm");
    if memory.is_err() {
        println!("skipped: no /dev/shm");
    }
    let folders: Vec<_> = std::iter::once(disk).chain(memory).collect();
    folders.iter().for_each(|folder| fill(folder.path()));
    folders
}

const BY_ALL: &str = "\"parallel\": 41943041";

#[test]
fn the_profile_decides_also_where_nothing_is_to_be_shared() {
    for folder in folders() {
        for words in ["", "--reflink=never", "--sparse=never --reflink=never"] {
            let done = beside_large(
                folder.path(),
                &format!(
                    "$bytepath cp {words} --profile profile --json - large new && cmp large new"
                ),
            );
            let done = done.well();
            assert!(done.stdout.contains(BY_ALL), "{words}: {done:?}");
        }
        let explained = beside_large(
            folder.path(),
            "$bytepath cp --reflink=never --profile profile --explain-plan large new",
        );
        let said = &explained.stderr;
        for words in ["by what was measured", "1. parallel: ", "measured here: 7.00 GiB/s"] {
            assert!(said.contains(words), "{words}: {said}");
        }
        assert!(said.contains("not copy-file-range: the file system may share blocks"), "{said}");
        // One thread is not what was measured; and what is named is taken, or refused with the reason.
        let done = beside_large(
            folder.path(),
            "$bytepath cp --jobs 1 --profile profile --json - large new && cmp large new",
        );
        let done = done.well();
        assert!(!done.stdout.contains("\"parallel\""), "{done:?}");
        let done = beside_large(
            folder.path(),
            "$bytepath cp --reflink=never --route copy-file-range large new",
        );
        assert!(done.stderr.contains("may share blocks"), "{done:?}");
        assert_eq!(done.status.code(), Some(1), "{done:?}");
    }
}

/// What is there is emptied only once it is known that something comes in its place.
#[test]
fn a_plan_that_cannot_be_leaves_what_is_there() {
    let folder = tempfile::tempdir().expect("a folder");
    fill(folder.path());
    for (words, told) in [
        ("cp --profile none large c", "no profile of this machine at none"),
        ("cp --profile c large c", "c is no profile"),
        ("cp --route splice-through large c", "route splice-through is refused"),
        ("pv --profile none -o c large", "no profile of this machine at none"),
        ("tee --profile none c <large", "no profile of this machine at none"),
    ] {
        let done =
            beside_large(folder.path(), &format!("echo old >c; $bytepath {words}; echo $?; cat c"));
        let (code, old) = done.stdout.split_once('\n').expect("a code");
        assert!(code != "0" && old == "old\n", "{words}: {done:?}");
        assert!(done.stderr.contains(told), "{words}: {done:?}");
    }
    beside_large(folder.path(), "seq 9 >c; $bytepath cp --route read-write large c && cmp large c")
        .well();
}

#[test]
fn a_named_route_that_the_kernel_refuses_is_told_with_the_reason_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    fill(folder.path());
    for (route, sink) in [("splice", "/dev/full"), ("sendfile", "/dev/full")] {
        let line = format!("$bytepath cp --route {route} large {sink}");
        let done = beside_large(folder.path(), &line);
        let told = format!("{route}: {route} refuses this pair: Invalid argument (os error 22)\n");
        assert!(done.stderr.ends_with(&told), "{done:?}");
        assert_eq!(done.status.code(), Some(1), "{done:?}");
    }
    let done =
        beside_large(folder.path(), "$bytepath cp --route reflink large new && cmp large new");
    if !done.status.success() {
        done.refused(1, &["this file system shares no extents", "xfs and btrfs"]);
    }
}

#[test]
fn figures_of_smaller_files_are_told_as_such() {
    let folder = tempfile::tempdir().expect("a folder");
    fill(folder.path());
    for (more, told) in [
        ("", "; measured here: 7.00 GiB/s"),
        ("large", "; measured here with files of 64 MiB: 7.00 GiB/s"),
    ] {
        let line = format!(
            "cat large {more} >all && $bytepath cp --profile profile --explain-plan all new && cmp all new"
        );
        let done = beside_large(folder.path(), &line);
        assert!(done.status.success() && done.stderr.contains(told), "{line}: {done:?}");
    }
}

#[test]
fn what_is_looked_at_for_zeros_goes_by_no_other_route_and_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    fill(folder.path());
    for route in ["reflink", "uring-direct", "splice"] {
        let line = format!("$bytepath cp --route {route} --sparse=always large new");
        let told =
            format!("cp: options --route={route} and --sparse=always are mutually exclusive");
        beside_large(folder.path(), &line).refused(1, &[&told, "read and written by hand"]);
        assert!(!folder.path().join("new").exists(), "{route}");
    }
    beside_large(
        folder.path(),
        "$bytepath cp --route read-write --sparse=always large new && cmp large new",
    )
    .well();
    let done = beside_large(
        folder.path(),
        "truncate -s 1M holes && cat large >>holes && mkdir d && \
         $bytepath cp --explain-plan --reflink=never --sparse=always large holes d",
    );
    let how = "': read and written by hand, because of --sparse=always";
    assert_eq!((done.stderr.lines().count(), done.stderr.matches(how).count()), (2, 2), "{done:?}");
}

/// A profile that the copy itself overwrites was read before.
#[test]
fn a_profile_is_read_once_for_all_that_is_moved() {
    let folder = tempfile::tempdir().expect("a folder");
    fill(folder.path());
    for words in ["cp --profile d/a s/a s/b d", "pv -q --profile d/a -o d/a s/a"] {
        let line = format!(
            "rm -rf s d && mkdir s d && cp profile d/a && seq 9 >s/a && cp large s/b && \
             $bytepath {words} && cmp s/a d/a && if [ -e d/b ]; then cmp s/b d/b; fi"
        );
        beside_large(folder.path(), &line).well();
    }
}

#[test]
fn what_cannot_go_past_the_page_cache_goes_by_the_profile() {
    if !may_trace() {
        return;
    }
    for folder in folders() {
        let done = beside_large(
            folder.path(),
            "strace -f -qqq -o /dev/null -e inject=io_uring_setup,io_setup:error=ENOSYS \
             $bytepath cp --direct --profile profile --json - large new && cmp large new",
        );
        assert!(done.stdout.contains(BY_ALL), "{done:?}");
        assert!(done.stderr.contains("--direct: what cannot go past the page cache"), "{done:?}");
    }
}

#[test]
fn whatever_call_of_its_threads_fails_the_copy_is_whole() {
    if !may_trace() {
        return;
    }
    for folder in folders() {
        let everywhere = [
            "madvise:error=EINVAL",
            "madvise:error=EFAULT",
            "ftruncate,fallocate:error=EINTR:when=1+3",
            // The loader of a program reads with pread64, too, some three times.
            "splice,pread64:error=EINTR:when=8+3",
            "clone3,clone:error=EAGAIN",
        ];
        let in_memory = [
            "splice:error=EINVAL",
            "splice:error=ENOSYS:when=3+",
            "splice:error=EIO:when=4",
            // A read that gives nothing is the end, and no kernel says so before it; of splice it is asked
            // for again by a read.
            "splice:retval=0:when=9",
            "pipe2:error=EMFILE",
        ];
        let on_disk = ["fallocate:error=EOPNOTSUPP", "ftruncate,fallocate:error=EINTR:when=2+3"];
        let is_in_memory = machine::file_system(folder.path()).expect("it has one").name == "tmpfs";
        let here = if is_in_memory { &in_memory[..] } else { &on_disk };
        for inject in everywhere.iter().chain(here) {
            let line = format!(
                "{} -f $bytepath cp --reflink=never --profile profile large new && cmp large new && echo same",
                faulty("log", &[inject])
            );
            let done = beside_large(folder.path(), &line);
            assert_eq!(done.stdout, "same\n", "{inject}: {done:?}");
            assert_fired(&folder.path().join("log"), inject);
        }
    }
}

#[test]
fn where_no_signal_can_be_watched_for_nothing_is_written_behind_a_gap() {
    if !may_trace() {
        return;
    }
    for folder in folders() {
        let line = "strace -f -qqq -o /dev/null -e inject=clone3,clone:error=EAGAIN \
                    $bytepath cp --json - --profile profile large new && cmp large new";
        let done = beside_large(folder.path(), line).well();
        assert!(!done.stdout.contains("parallel"), "{done:?}");
    }
}

#[test]
fn ends_that_cannot_be_set_behind_what_was_copied_end_the_copy() {
    if !may_trace() {
        return;
    }
    let mut ended = 0;
    for folder in folders() {
        for when in 1..12 {
            let line = format!(
                "strace -f -qqq -o /dev/null -P $(pwd -P)/large -P $(pwd -P)/new -e inject=lseek:error=EIO:when={when} \
                 $bytepath cp --profile profile large new; code=$?; [ $code != 0 ] || cmp large new || echo wrong; \
                 echo $code"
            );
            let done = beside_large(folder.path(), &line);
            assert!(["0\n", "1\n"].contains(&done.stdout.as_str()), "{when}: {done:?}");
            ended += usize::from(done.stdout == "1\n");
        }
    }
    assert!(ended > 0, "none failed");
}

/// Makes the profile that of the file system mounted on `small`, of the type `$kind`.
const ANEW: &str = "sed -i -e s/.device.:[0-9]*/\\\"device\\\":$(stat -c %d small)/ \
                    -e s/.file_system.:.[a-z0-9]*./\\\"file_system\\\":\\\"$kind\\\"/ profile";

#[test]
fn a_full_disk_ends_the_copy_where_its_bytes_end() {
    if !may_mount() || !installed("mkfs.ext4") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    fill(folder.path());
    // The mounts, and the loop device, are gone with the processes of their namespace.
    for mount in [
        "kind=tmpfs && mount -t tmpfs -o size=24M none small",
        "kind=ext4 && truncate -s 32M image && mkfs.ext4 -q image && mount -o loop image small",
    ] {
        for words in ["", "--reflink=never", "--jobs 4"] {
            let done = beside_large(
                folder.path(),
                &format!(
                    "mkdir -p small; unshare -m sh -c '{mount} && {ANEW} && $bytepath cp {words} --profile profile \
                     large small; echo $?; size=$(stat -c %s small/large); \
                     [ $size -gt 9000000 ] && cmp -n $size large small/large && echo begins so'"
                ),
            );
            assert_eq!(done.stdout, "1\nbegins so\n", "{mount} {words}: {done:?}");
            let said = "error writing 'small/large': No space left on device";
            let copying = "error copying 'large' to 'small/large': No space left on device";
            assert!(done.stderr.contains(said) || done.stderr.contains(copying), "{done:?}");
        }
    }
}

#[test]
fn a_copy_that_is_killed_is_shorter_than_the_file() {
    if !may_trace() {
        return;
    }
    for folder in folders() {
        // Behind what the loader of the program reads.
        for when in [8, 10, 13] {
            let line = format!(
                "rm -f new; {{ strace -f -qqq -o /dev/null -e trace=pread64,splice \
                 -e inject=pread64,splice:signal=KILL:when={when} \
                 $bytepath cp --profile profile large new; }} 2>/dev/null; [ $? -eq 137 ] && \
                 [ $(stat -c %s new) -lt {BYTES} ] && echo fine"
            );
            let done = beside_large(folder.path(), &line);
            assert_eq!(done.stdout, "fine\n", "{when}: {done:?}");
        }
    }
}

#[test]
fn empty_files_need_no_route_and_those_that_only_say_so_are_refused() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let here = folder.path().display();
    let routes = ["uring", "parallel", "mmap-write", "linux-aio", "copy-file-range", "reflink"];
    let routes = routes.map(|route| format!("--route {route}"));
    for way in routes.iter().map(String::as_str).chain(["--direct", "--route sendfile"]) {
        let line = format!(
            "cd {here} && rm -rf e d && mkdir -p e d/e && : >e/x && : >e/y && echo old >d/e/y && \
             $bytepath cp -r {way} e d && diff -r e d/e"
        );
        shell(&line).well();
    }
    for route in ["uring", "linux-aio", "mmap-write", "copy-file-range"] {
        let line = format!("cd {here} && $bytepath cp --route {route} /proc/version new");
        shell(&line).refused(1, &["the source says that it is empty, so it has to be read"]);
    }
    shell(&format!(
        "cd {here} && $bytepath cp --direct /proc/version new && cmp /proc/version new"
    ))
    .refused(0, &["--direct: what cannot go past the page cache"]);
}
