//! Each end joins other people's programs.

use crate::program::{bytepath, run, shell};

#[test]
fn the_writer_feeds_other_programs() {
    for outlet in ["write", "vmsplice", "gift", "wide-tee"] {
        let write = format!("$bytepath write --outlet {outlet}");
        let count = shell(&format!("{write} --bytes-to-pipe 1M | wc -c")).well().stdout;
        assert_eq!(count.trim(), "1048576", "{outlet}");
        assert_eq!(shell(&format!("{write} | head -c 10")).well().stdout, "XXXXXXXXXX", "{outlet}");
    }
}

#[test]
fn the_writer_fills_a_file_when_asked_for_so_many_bytes() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("filled");
    let made = std::fs::File::create(&file).expect("a file");
    let mut command = bytepath(&["write", "--bytes-to-pipe", "100001"]);
    let status = command.stdout(made).status().expect("it runs");
    assert!(status.success());
    let bytes = std::fs::read(&file).expect("the file");
    assert!(bytes.len() == 100_001 && bytes.iter().all(|byte| *byte == b'X'));
}

#[test]
fn the_reader_takes_from_other_programs_and_files() {
    for inlet in ["read", "read-touch", "splice-null"] {
        let read = format!("$bytepath read --inlet {inlet} --csv");
        assert_eq!(shell(&format!("yes | {read} --bytes-to-pipe 1M")).well().row()[1], "1048576");
        assert_eq!(shell(&format!("head -c 1000 /dev/zero | {read}")).well().row()[1], "1000");
    }
    let line = "$bytepath read --bytes-to-pipe 1M --csv </dev/zero";
    let row = shell(line).well().row();
    assert_eq!((row[1].as_str(), row[3].as_str()), ("1048576", "0"), "a device has no pipe size");
}

#[test]
fn a_sentence_tells_what_the_reader_found() {
    let said = shell("head -c 1000 /dev/zero | $bytepath read").well().stdout;
    let wanted = " GiB/s, 256 KiB per call, pipe of 64 KiB (1000 B in ";
    assert!(said.contains(wanted), "{said}");
    assert_eq!(said.lines().count(), 1);
}

#[test]
fn a_reader_that_gets_nothing_reports_no_speed() {
    let done = shell("$bytepath read </dev/null").refused(1, &["nothing came to be measured"]);
    assert_eq!(done.stdout, "");
}

#[test]
fn somebody_who_has_read_enough_of_the_output_is_no_error() {
    // The reader of the pipe is gone before anything is said.
    let (reader, writer) =
        rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC).expect("a pipe");
    drop(reader);
    let mut command = bytepath(&["bench", "pipes", "--list"]);
    let output = command.stdout(writer).stderr(std::process::Stdio::piped()).output();
    let output = output.expect("it runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn a_version_and_a_help_are_there() {
    assert!(run(&mut bytepath(&["--version"])).well().stdout.starts_with("bytepath "));
    run(&mut bytepath(&[])).refused(2, &["Usage: bytepath"]);
}
