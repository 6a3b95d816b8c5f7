//! The examples, run as people run them.

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use crate::ends::contents;
use crate::rings::ring;
use crate::trial::same;
use crate::watch::bounded;

/// The example of this name, where it was built: cargo builds them with all tests, and not where
/// one test program alone is asked for.
pub(crate) fn example(name: &str) -> Option<Command> {
    let here = std::env::current_exe().expect("this program");
    let path = here.ancestors().nth(2).expect("target/debug").join("examples").join(name);
    if !path.exists() {
        eprintln!("skipped: {} is not built; `cargo build --examples` does", path.display());
        return None;
    }
    Some(Command::new(path))
}

/// One that uses a ring of the kernel's, where there are such.
fn ring_example(name: &str) -> Option<Command> {
    ring(&bytepath::ring::Setup::default())?;
    example(name)
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
        let Some(mut example) = ring_example("uring_read") else { return };
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
        let Some(mut example) = ring_example("uring_link_copy") else { return };
        let said = well(&example.arg(path).arg(&copy).output().expect("it runs"));
        assert!(said.starts_with(&format!("{bytes} bytes in ")), "{said}");
        same(&std::fs::read(&copy).expect("the copy"), contents(bytes));
    }
}

#[test]
fn an_example_that_would_lose_bytes_refuses_and_leaves_the_file_as_it_was() {
    let (_directory, path) = file(5000);
    let copy = path.with_file_name("copy");
    let Some(mut onto_itself) = ring_example("uring_link_copy") else { return };
    let Some(mut of_proc) = ring_example("uring_link_copy") else { return };
    let Some(mut read) = ring_example("uring_read") else { return };
    for refused in [
        onto_itself.arg(&path).arg(&path),
        of_proc.arg("/proc/cpuinfo").arg(&copy),
        read.arg("/proc/cpuinfo"),
    ] {
        assert!(!refused.output().expect("it runs").status.success(), "{refused:?}");
    }
    same(&std::fs::read(&path).expect("the file"), contents(5000));
}

#[test]
fn the_examples_of_channels_hand_over_all_of_a_file() {
    bounded(|watch| {
        for &bytes in SIZES {
            watch.at(format_args!("{bytes} bytes"));
            let (directory, path) = file(bytes);
            let copy = directory.path().join("copy");
            let address = directory.path().join("channel");
            let (Some(mut producer), Some(mut consumer)) =
                (example("channel_producer"), example("channel_consumer"))
            else {
                return;
            };
            consumer.arg(&address).stderr(Stdio::piped());
            consumer.stdout(File::create(&copy).expect("the copy"));
            let consumer = consumer.spawn().expect("it runs");
            let source = File::open(path).expect("the file");
            let sent = producer.arg(&address).stdin(source).output().expect("it runs");
            well(&sent);
            let received = consumer.wait_with_output().expect("it ends");
            well(&received);
            let said = |done: &Output| String::from_utf8_lossy(&done.stderr).into_owned();
            assert_eq!(said(&sent), format!("{bytes} bytes sent\n"));
            assert_eq!(said(&received), format!("{bytes} bytes received\n"));
            same(&std::fs::read(&copy).expect("the copy"), contents(bytes));
            assert!(!address.exists(), "the socket is removed");
        }
    });
}

#[test]
fn the_examples_of_a_broadcast_give_every_consumer_all_of_a_file() {
    bounded(|watch| {
        for &bytes in SIZES {
            watch.at(format_args!("{bytes} bytes"));
            let (directory, path) = file(bytes);
            let address = directory.path().join("broadcast");
            let copies = ["one", "other"].map(|copy| directory.path().join(copy));
            let Some(mut producer) = example("broadcast_producer") else { return };
            producer.arg(&address).arg("2").stdin(File::open(path).expect("the file"));
            let producer = producer.stderr(Stdio::piped()).spawn().expect("it runs");
            let consumers = copies.each_ref().map(|copy| {
                let mut consumer = example("broadcast_consumer").expect("both are built");
                consumer.arg(&address).stdout(File::create(copy).expect("the copy"));
                consumer.stderr(Stdio::piped()).spawn().expect("it runs")
            });
            let said = |done: &Output| String::from_utf8_lossy(&done.stderr).into_owned();
            for (consumer, copy) in consumers.into_iter().zip(copies) {
                let received = consumer.wait_with_output().expect("it ends");
                well(&received);
                assert_eq!(said(&received), format!("{bytes} bytes received\n"));
                same(&std::fs::read(&copy).expect("the copy"), contents(bytes));
            }
            let sent = producer.wait_with_output().expect("it ends");
            well(&sent);
            let wanted = format!("{bytes} bytes sent; 2 consumers have them, 0 died\n");
            assert_eq!(said(&sent), wanted);
            assert!(!address.exists(), "the socket is removed");
        }
    });
}
