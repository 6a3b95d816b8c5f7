//! `--verify`: a stream that is not what was sent is caught.

use bytepath::outlets::{OUTLETS, Use};

use crate::program::{pair, shell};

const WRITE: &str = "$bytepath write --verify --bytes-to-pipe 1000000";
const READ: &str = "$bytepath read --verify --bytes-to-pipe 1000000";

#[test]
fn what_other_programs_pass_on_whole_is_verified() {
    for between in ["cat", "dd bs=777 status=none", "tail -c +1"] {
        shell(&format!("{WRITE} | {between} | {READ}")).well();
    }
}

#[test]
fn changed_lost_doubled_and_foreign_bytes_are_caught() {
    let cases = [
        ("changed", "tr 'a' 'b'"),
        ("lost at the start", "tail -c +2"),
        ("lost in the middle", "{ head -c 4096; head -c 8 >/dev/null; cat; }"),
        ("doubled", "{ head -c 4096 | tee /dev/fd/3; cat; } 3>&1"),
        ("foreign", "{ cat >/dev/null; yes | head -c 1000000; }"),
    ];
    for (what, between) in cases {
        for outlet in ["write", "tee"] {
            let line = format!("{WRITE} --outlet {outlet} | {between} | {READ}");
            let done = shell(&line).refused(1, &["differ from the pattern at byte"]);
            assert_eq!(done.stdout, "", "{what}: no speed of wrong bytes");
        }
    }
}

#[test]
fn a_stream_that_is_cut_short_is_caught() {
    for outlet in OUTLETS {
        let line = format!("{WRITE} --outlet {} | head -c 999999 | {READ}", outlet.name());
        shell(&line).refused(1, &["ended after 999999 of 1000000 bytes"]);
    }
}

#[test]
fn bytes_that_no_verifying_writer_wrote_are_caught() {
    let (_, read) = pair(&[], &["--verify", "--bytes-to-pipe", "1M"]);
    read.refused(1, &["at byte 0", "is the writer one with --verify?"]);
}

#[test]
fn an_inlet_that_looks_at_nothing_verifies_nothing() {
    for reader in [&["--inlet", "splice-null"][..], &["--read-with-splice"]] {
        let (_, read) = pair(&["--verify"], &[reader, &["--verify"]].concat());
        read.refused(1, &["nothing can be verified", "--inlet read"]);
    }
}

#[test]
fn a_stream_that_starts_over_is_held_to_where_it_did_so_first() {
    let write = |bytes: &str| format!("$bytepath write --verify --bytes-to-pipe {bytes}");
    let streams = |each: [&str; 3]| each.map(write).join("; ");
    let even = shell(&format!("{{ {}; }} | $bytepath read --verify", streams(["8K", "8K", "5K"])));
    assert!(even.well().stdout.contains("pattern repeats after 8192 bytes"));
    let odd = shell(&format!("{{ {}; }} | $bytepath read --verify", streams(["8K", "4K", "8K"])));
    odd.refused(1, &["differ from the pattern at byte 12288"]);
}

#[test]
fn an_outlet_that_repeats_says_after_how_many_bytes() {
    let words = ["--verify", "--bytes-to-pipe", "1M"];
    let (_, read) = pair(&[&["--outlet", "tee"], &words[..]].concat(), &words);
    assert!(read.well().stdout.contains("pattern repeats after 65536 bytes"));
}

#[test]
fn an_outlet_that_repeats_is_verified_whatever_is_asked_of_the_pipe() {
    for outlet in OUTLETS.iter().filter(|outlet| outlet.used_for() == Use::Repeats) {
        for bytes in ["1", "4097", "12345", "1000001"] {
            let words = ["--outlet", outlet.name(), "--pipe-size", bytes, "--verify"];
            let (_, read) = pair(&[&words[..], &["--bytes-to-pipe", "3M"]].concat(), &["--verify"]);
            assert!(read.well().stdout.contains("every byte verified"), "{words:?}");
        }
    }
}
