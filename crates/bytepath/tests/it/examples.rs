//! The examples, run as people run them.

use std::path::PathBuf;
use std::process::{Command, Output};

use crate::ends::contents;
use crate::rings::ring;
use crate::trial::same;

/// The example of this name, where it was built: cargo builds them with all tests, and not where
/// one test program alone is asked for.
fn example(name: &str) -> Option<Command> {
    let here = std::env::current_exe().expect("this program");
    let path = here.ancestors().nth(2).expect("target/debug").join("examples").join(name);
    if !path.exists() {
        eprintln!("skipped: {} is not built; `cargo build --examples` does", path.display());
        return None;
    }
    ring(&bytepath::ring::Setup::default())?;
    Some(Command::new(path))
}

fn well(done: &Output) -> String {
    assert!(done.status.success(), "{done:?}");
    String::from_utf8_lossy(&done.stdout).into_owned()
}

/// Sizes around blocks and chunks.
const SIZES: &[usize] = &[0, 1, 4096, (1 << 20) - 1, (5 << 20) + 4097];

fn file(bytes: usize) -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let path = directory.path().join("file");
    std::fs::write(&path, contents(bytes)).expect("written");
    (directory, path)
}

#[test]
fn the_example_that_reads_a_file_reads_all_of_it() {
    for &bytes in SIZES {
        let (_directory, path) = file(bytes);
        let Some(mut example) = example("uring_read") else { return };
        let said = well(&example.arg(path).output().expect("it runs"));
        let sum: u64 = contents(bytes).iter().map(|&byte| u64::from(byte)).sum();
        assert!(said.starts_with(&format!("{bytes} bytes, sum {sum}, ")), "{said}");
    }
}

#[test]
fn the_example_that_copies_a_file_copies_all_of_it() {
    for &bytes in SIZES {
        let (directory, path) = file(bytes);
        let copy = directory.path().join("copy");
        let Some(mut example) = example("uring_link_copy") else { return };
        let said = well(&example.arg(path).arg(&copy).output().expect("it runs"));
        assert!(said.starts_with(&format!("{bytes} bytes in ")), "{said}");
        same(&std::fs::read(&copy).expect("the copy"), contents(bytes));
    }
}
