//! What callers do wrong, and what they are told.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use bytepath::endpoint::EndpointError;
use bytepath::{Endpoint, Job, Kind, Knobs, Meter, Plan, Transfer, TransferError};
use rustix::fs::{Mode, OFlags};
use rustix::mount::MountAttrFlags;

use crate::ends::{detached_tmpfs, disk_file, pipe};
use crate::watch::bounded;

fn source_error(fd: BorrowedFd<'_>) -> String {
    Endpoint::source(fd).map(|end| end.kind()).expect_err("no source").to_string()
}

fn sink_error(fd: BorrowedFd<'_>) -> String {
    Endpoint::sink(fd).map(|end| end.kind()).expect_err("no sink").to_string()
}

#[test]
fn a_descriptor_the_wrong_way_round_is_told_by_its_number() {
    let (reader, writer) = pipe();
    let number = writer.as_raw_fd();
    assert_eq!(
        source_error(writer.as_fd()),
        format!("descriptor {number} is not open for reading; it is the wrong way round")
    );
    assert!(sink_error(reader.as_fd()).contains("not open for writing"));
}

#[test]
fn a_descriptor_that_only_names_a_file_is_neither_source_nor_sink() {
    let flags = OFlags::PATH | OFlags::CLOEXEC;
    let named = rustix::fs::open("/dev/null", flags, Mode::empty()).expect("a name");
    assert!(source_error(named.as_fd()).contains("not open for reading"));
    assert!(sink_error(named.as_fd()).contains("not open for writing"));
}

#[test]
fn a_directory_is_neither_source_nor_sink() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    for refused in [Endpoint::open_source(path), Endpoint::open_sink(path)] {
        let error = refused.expect_err("a directory is refused");
        assert!(matches!(error, EndpointError::Directory { .. }), "{error}");
        assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
    }
    let open = File::open(path).expect("it opens");
    assert!(source_error(open.as_fd()).contains("is a directory"));
}

#[test]
fn a_path_that_does_not_open_is_named_with_what_to_check() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("missing");
    let error = Endpoint::open_source(&path).expect_err("nothing there").to_string();
    assert!(error.contains("missing") && error.contains("check the path"), "{error}");
}

#[test]
fn a_sink_on_a_read_only_file_system_is_refused_with_the_cause() {
    let Some(root) = detached_tmpfs("1m", MountAttrFlags::MOUNT_ATTR_RDONLY) else { return };
    let path = format!("/proc/self/fd/{}/file", root.as_raw_fd());
    let error = Endpoint::open_sink(&path).expect_err("it is read-only").to_string();
    assert!(error.contains(&path) && error.contains("mounted read-only"), "{error}");
}

#[test]
fn a_meter_that_is_told_already_is_refused_and_nothing_moves() {
    bounded(|watch| {
        watch.at("two transfers on one meter");
        let ((from, mut near), (mut other_source, other_sink)) = (pipe(), pipe());
        let meter = Meter::new();
        let null = Endpoint::open_sink("/dev/null").expect("a sink");
        std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                let source = Endpoint::source(from.as_fd()).expect("a source");
                let job = Job::new(&source, &null);
                let plan = Plan::best(&job, Knobs::default()).expect("a plan");
                Transfer::new(&job, &plan).meter(&meter).run()
            });
            near.write_all(b"first").expect("written");
            while meter.bytes() < 5 {
                std::thread::yield_now();
            }
            let mut file = disk_file();
            file.write_all(b"second").expect("written");
            std::io::Seek::rewind(&mut file).expect("rewound");
            let source = Endpoint::source(file.as_fd()).expect("a source");
            let sink = Endpoint::sink(other_sink.as_fd()).expect("a sink");
            let job = Job::new(&source, &sink);
            let plan = Plan::best(&job, Knobs::default()).expect("a plan");
            let second = Transfer::new(&job, &plan).meter(&meter).run();
            assert!(matches!(second, Err(TransferError::MeterInUse)), "{second:?}");
            drop(near);
            assert_eq!(first.join().expect("it ends").expect("moved").bytes, 5);
            let again = Transfer::new(&job, &plan).meter(&meter).run().expect("the meter is free");
            assert_eq!((again.bytes, meter.bytes()), (6, 11));
        });
        drop(other_sink);
        let mut arrived = String::new();
        std::io::Read::read_to_string(&mut other_source, &mut arrived).expect("read");
        assert_eq!(arrived, "second");
    });
}

#[test]
fn a_pipe_size_that_cannot_be_had_is_refused_before_anything_moves() {
    let (reader, mut writer) = pipe();
    writer.write_all(&[7; 20_000]).expect("written");
    let source = Endpoint::source(reader.as_fd()).expect("a source");
    let null = Endpoint::open_sink("/dev/null").expect("a sink");
    let job = Job::new(&source, &null).limit(20_000);
    let knobs = Knobs { pipe_bytes: Some(4096), ..Knobs::default() };
    let plan = Plan::best(&job, knobs).expect("a plan");
    let meter = Meter::new();
    let error = Transfer::new(&job, &plan).meter(&meter).run().expect_err("it holds more");
    assert!(matches!(error, TransferError::PipeSize(_)), "{error:?}");
    assert_eq!(
        error.to_string(),
        "cannot set the pipe to 4 KiB: it holds more than that: Device or resource busy (os error \
         16); set the size before anything is written"
    );
    assert_eq!((meter.bytes(), source.kind()), (0, Kind::Pipe));
    assert_eq!(rustix::io::ioctl_fionread(&reader), Ok(20_000));
}
