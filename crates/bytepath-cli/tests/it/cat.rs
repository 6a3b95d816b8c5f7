//! `cat` beside GNU's: the same bytes, messages and exit codes.

mod arguments;
mod faults;
mod files;
mod formats;
mod ours;

use std::path::Path;
use std::sync::LazyLock;

use crate::bench_devices::Loop;
use crate::classic::Classic;
use crate::program::shell;

/// GNU's, to compare with.
fn gnu() -> Option<Classic> {
    Classic::of("cat", "GNU coreutils")
}

/// More than any buffer or pipe, and different everywhere.
fn large() -> Vec<u8> {
    static LARGE: LazyLock<Vec<u8>> = LazyLock::new(|| {
        let mut random = fastrand::Rng::with_seed(7);
        std::iter::repeat_with(|| random.u8(..)).take(3 << 20).collect()
    });
    LARGE.clone()
}

/// A few files: `a`, `b`, and `large`.
fn few(folder: &Path) {
    for (name, bytes) in [("a", b"one\n".to_vec()), ("b", b"two".to_vec()), ("large", large())] {
        std::fs::write(folder.join(name), bytes).expect("a file");
    }
}

#[test]
fn an_empty_file_is_written_by_any_route_between_files() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let here = folder.path().display();
    for route in ["splice", "uring", "parallel", "mmap-write", "linux-aio", "copy-file-range"] {
        // A filter, a sysctl or a file system without O_DIRECT may forbid some of them.
        let line = format!("cd {here} && echo some >s && $bytepath cat --route {route} s >o");
        let some = shell(&line);
        if !some.status.success() {
            println!("skipped: {route}: {}", some.stderr);
            continue;
        }
        for program in ["cat", "pv -q"] {
            let line = format!(
                "cd {here} && : >e && $bytepath {program} --route {route} e >o && test ! -s o"
            );
            shell(&line).well();
        }
        let line = format!("cd {here} && $bytepath cat --route {route} /proc/version >o");
        let done = shell(&line);
        assert!(route == "splice" || done.stderr.contains("says that it is empty"), "{done:?}");
    }
}

#[test]
fn a_device_is_not_copied_over_what_is_yet_to_be_read_of_it() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let Some(device) = Loop::new(folder.path()) else { return };
    let path = &device.path;
    for (way, says) in [
        ("cat", "input file is output file"),
        ("cat -n", "input file is output file"),
        ("pv -q", "input is the output"),
        ("carry --limit 64K", "would be read again"),
        ("carry --limit 64K --route uring", "would be read again"),
    ] {
        // Two open files of one device, of which the one that is written stands behind.
        let line = format!(
            "{{ dd bs=4096 count=0 seek=1 status=none; $bytepath {way}; }} <{path} 1<>{path}"
        );
        let done = shell(&line);
        assert!(!done.status.success() && done.stderr.contains(says), "{way}: {done:?}");
    }
    assert_eq!(device.bytes(), vec![7; 1 << 20], "it is as it was");
    // Who writes all of it anew may.
    for way in ["cat", "carry --limit 64K"] {
        shell(&format!("$bytepath {way} <{path} 1<>{path}")).well();
        let line = format!("{{ head -c 4096 >/dev/null; $bytepath {way}; }} <{path} 1<>{path}");
        shell(&line).well();
    }
}
