//! What ours does that the classic does not, or not in this way.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::Stdio;

use rustix::event::{PollFd, PollFlags};
use rustix::pipe::PipeFlags;

use super::large;
use crate::program::{Bounded, bytepath, run, shell, spawned};

/// A file of these bytes; it is gone with its folder.
fn file(bytes: &[u8]) -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("file");
    std::fs::write(&path, bytes).expect("a file");
    let name = path.to_str().expect("plain letters").to_owned();
    (folder, name)
}

/// Starts it with this output, which nobody else holds then.
fn started(words: &[&str], stdout: OwnedFd) -> Bounded {
    let mut command = bytepath(&[&["cat"], words].concat());
    spawned(command.stdout(stdout).stderr(Stdio::piped()))
}

fn whole(reader: OwnedFd) -> Vec<u8> {
    let mut bytes = Vec::new();
    File::from(reader).read_to_end(&mut bytes).expect("it can be read");
    bytes
}

/// The classic ends with "Resource temporarily unavailable" here, and loses the rest.
#[test]
fn ends_that_do_not_block_are_waited_for() {
    let bytes = large();
    let (_folder, name) = file(&bytes);
    let squeezed = run(&mut bytepath(&["cat", "-s", &name])).well().bytes;
    for (options, route, wanted) in [
        ("", "", &bytes),
        ("-u", "--route=read-write", &bytes),
        ("-u", "--route=splice", &bytes),
        ("-s", "", &squeezed),
    ] {
        let words: Vec<_> =
            [options, route, &name].into_iter().filter(|word| !word.is_empty()).collect();
        let (reader, writer) =
            rustix::pipe::pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).expect("a pipe");
        let cat = started(&words, writer);
        let flags = rustix::fs::fcntl_getfl(&reader).expect("flags");
        rustix::fs::fcntl_setfl(&reader, flags - rustix::fs::OFlags::NONBLOCK).expect("it blocks");
        let got = whole(reader);
        cat.done().well();
        assert!(got == *wanted, "{words:?}: {} of {} bytes", got.len(), wanted.len());
    }
}

#[test]
fn an_input_that_does_not_block_is_waited_for() {
    for options in ["-u", "-s"] {
        let (reader, writer) =
            rustix::pipe::pipe_with(PipeFlags::NONBLOCK | PipeFlags::CLOEXEC).expect("a pipe");
        let mut command = bytepath(&["cat", options]);
        let cat = spawned(command.stdin(reader).stdout(Stdio::piped()).stderr(Stdio::piped()));
        drop(command);
        File::from(writer).write_all(b"late").expect("there is room");
        assert_eq!(cat.done().well().stdout, "late");
    }
}

/// Starts it on a file larger than any pipe, and waits until the first bytes have come: it has
/// begun, and cannot end before they are read.
fn begun(words: &[&str]) -> (Bounded, OwnedFd) {
    let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
    let cat = started(words, writer);
    let mut fds = [PollFd::new(&reader, PollFlags::IN)];
    rustix::event::poll(&mut fds, None).expect("it begins");
    (cat, reader)
}

#[test]
fn a_file_that_grows_meanwhile_is_copied_to_its_new_end() {
    for options in ["-u", "--route=read-write", "--route=sendfile"] {
        let mut bytes = large();
        let (_folder, name) = file(&bytes);
        let (cat, reader) = begun(&[options, &name]);
        let mut more = File::options().append(true).open(&name).expect("it is ours");
        more.write_all(b"more").expect("written");
        bytes.extend_from_slice(b"more");
        assert!(whole(reader) == bytes, "{options}");
        cat.done().well();
    }
}

#[test]
fn a_file_that_shrinks_meanwhile_is_copied_to_its_new_end() {
    let (_folder, name) = file(&vec![b'x'; 8 << 20]);
    let (cat, reader) = begun(&[&name]);
    let shorter = 4 << 20;
    File::options()
        .write(true)
        .open(&name)
        .and_then(|file| file.set_len(shorter))
        .expect("shorter");
    let got = whole(reader);
    cat.done().well();
    assert_eq!(got.len() as u64, shorter);
}

#[test]
fn a_file_beyond_4_gib_is_copied_whole() {
    let (_folder, name) = file(b"");
    let size = (4 << 30) + 4099;
    let file = File::options().write(true).open(&name).expect("it is ours");
    file.set_len(size).expect("a file of holes");
    let done = shell(&format!("$bytepath cat {name} | $bytepath null --count")).well();
    assert_eq!(done.stdout, format!("{size}\n"));
}

#[test]
fn the_plan_is_explained_and_a_route_can_be_named() {
    let (_folder, name) = file(b"some bytes");
    let said = shell(&format!("$bytepath cat --explain-plan {name} | wc -c")).stderr;
    assert!(said.contains("came: 10 bytes by splice"), "{said}");
    assert!(said.contains(&format!("plan for '{name}' to a pipe: by rules")), "{said}");
    let said =
        shell(&format!("$bytepath cat --explain-plan --route read-write {name} | wc -c")).stderr;
    assert!(said.contains("came: 10 bytes by read-write"), "{said}");
    let refused = run(&mut bytepath(&["cat", "--route", "tee", &name]));
    refused.refused(1, &["cat: invalid value 'tee'"]);
    let refused = run(&mut bytepath(&["cat", "--route", "teleport", &name]));
    refused.refused(1, &["cat: invalid value 'teleport'", "Try 'bytepath cat --help'"]);
    let refused = run(&mut bytepath(&["cat", "--route", "splice", "-n", &name]));
    refused.refused(1, &["leave out --route"]);
}

#[test]
fn a_route_that_gave_up_is_not_tried_again_when_the_profile_is_looked_at() {
    let large = "/proc/kallsyms";
    if std::fs::read(large).is_ok_and(|bytes| bytes.len() > 2 << 20) {
        let said = shell(&format!("$bytepath cat --explain-plan {large} | cat >/dev/null")).stderr;
        assert_eq!(said.matches("splice gave up").count(), 1, "{said}");
        assert!(said.contains(" by read-write, "), "{said}");
    } else {
        println!("skipped: {large} cannot be read here, or is small");
    }
}

#[test]
fn pipes_are_made_larger_unless_they_are_to_be_left() {
    let (_folder, name) = file(&large());
    for (option, enlarges) in [("-u", true), ("--no-enlarge", false)] {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let before = rustix::pipe::fcntl_getpipe_size(&reader).expect("a pipe has a size");
        let cat = started(&[option, &name], writer);
        let mut first = [0];
        rustix::io::read(&reader, &mut first).expect("it writes");
        let after = rustix::pipe::fcntl_getpipe_size(&reader).expect("a pipe has a size");
        drop(whole(reader));
        cat.done().well();
        assert_eq!(after > before, enlarges, "{option}: {before}, {after}");
    }
}
