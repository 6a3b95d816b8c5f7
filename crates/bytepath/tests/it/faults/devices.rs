//! A device that fails in the middle: everything before that arrives, and the error says where.

use std::fs::File;
use std::io::Write;
use std::process::Command;

use bytepath::{Knobs, Side, TransferError};
use rustix::io::Errno;

use crate::ends::{contents, disk_file, memfd, pipe};
use crate::faults::{carry, routes, written_after};
use crate::trial::same;
use crate::watch::bounded;

/// Where the device begins to fail.
const GOOD_BYTES: usize = 1 << 20;
const DEVICE_BYTES: usize = 3 << 20;

/// A loop device whose file has become shorter, so that what lies behind its end cannot be read
/// (EIO). The kernel takes the device away when it is closed, however that happens.
fn failing_device() -> Option<File> {
    let skipped = |why: &str| eprintln!("skipped: no loop device can be made here: {why}");
    if !rustix::process::geteuid().is_root() {
        skipped("that takes root");
        return None;
    }
    let mut named = tempfile::NamedTempFile::new_in(env!("CARGO_TARGET_TMPDIR")).expect("a file");
    named.write_all(contents(DEVICE_BYTES)).expect("written");
    let losetup = |words: &[&str]| Command::new("losetup").args(words).output();
    let name = named.path().to_str().expect("a plain name").to_owned();
    let device = match losetup(&["--find", "--show", &name]) {
        Ok(made) if made.status.success() => {
            String::from_utf8_lossy(&made.stdout).trim().to_owned()
        }
        Ok(made) => {
            skipped(&String::from_utf8_lossy(&made.stderr));
            return None;
        }
        Err(error) => {
            skipped(&error.to_string());
            return None;
        }
    };
    let file = File::open(&device);
    // Somebody has it open, so it goes when that is closed.
    losetup(&["--detach", &device]).expect("losetup ran before");
    named.as_file().set_len(GOOD_BYTES as u64).expect("it is ours");
    Some(file.expect("root opens its device"))
}

#[test]
fn a_device_that_fails_is_reported_with_the_byte_reached_and_all_before_it_arrives() {
    bounded(|watch| {
        let all = contents(DEVICE_BYTES);
        for only in routes() {
            for into in ["memfd", "disk file"] {
                let Some(device) = failing_device() else { return };
                watch.at(format_args!("to {into} by {only:?}"));
                let mut sink = if into == "memfd" { memfd() } else { disk_file() };
                let outcome = carry(&device, &sink, only, Knobs::default(), None);
                let Some(outcome) = outcome else { continue };
                // Few kernels know its flag for devices.
                let declined = matches!(outcome.ended, Err(TransferError::Declined { .. }));
                if only == Some("dontcache") && declined {
                    assert_eq!(outcome.offset(), 0);
                    continue;
                }
                let failed = outcome.failed();
                assert_eq!(failed.errno, Errno::IO, "{failed}");
                assert_ne!(failed.side, Side::Sink, "{failed}");
                assert!(failed.to_string().contains("dmesg"), "{failed}");
                // What the kernel read ahead of the fault may be lost with it, whole pages at most.
                assert!(
                    outcome.offset() <= GOOD_BYTES && outcome.stranded().is_empty(),
                    "{failed}"
                );
                same(&written_after(&mut sink, 0), &all[..outcome.offset()]);
            }
        }
    });
}

#[test]
fn a_device_that_fails_ends_a_pipe_where_it_fails() {
    bounded(|watch| {
        let all = contents(DEVICE_BYTES);
        for only in routes() {
            let Some(device) = failing_device() else { return };
            watch.at(format_args!("by {only:?}"));
            let (mut reader, writer) = pipe();
            let reading = std::thread::spawn(move || {
                let mut got = Vec::new();
                std::io::Read::read_to_end(&mut reader, &mut got).expect("it is read");
                got
            });
            let outcome = carry(&device, &writer, only, Knobs::default(), None);
            drop(writer);
            let got = reading.join().expect("it reads");
            let Some(outcome) = outcome else { continue };
            assert_eq!(outcome.failed().errno, Errno::IO);
            same(&got, &all[..outcome.offset()]);
        }
    });
}
