//! `bytepath write | bytepath read`: every option of the published pair of programs, and ours.

use std::process::Stdio;

use bytepath::Wait;
use bytepath::inlets::INLETS;
use bytepath::outlets::{Fresh, OUTLETS, Use};
use serde_json::Value;

use crate::program::{
    Done, WITHOUT_HUGE, as_nobody, as_published, bytepath, has_prctl, pair, run, shell, spawned,
    text,
};

/// The columns of the published program's row.
const COLUMNS: [&str; 14] = [
    "gigabytes_per_second",
    "bytes_to_pipe",
    "buf_size",
    "pipe_size",
    "busy_loop",
    "poll",
    "huge_page",
    "check_huge_page",
    "write_with_vmsplice",
    "read_with_splice",
    "gift",
    "lock_memory",
    "dont_touch_pages",
    "same_buffer",
];

const BYTES: &str = "--bytes_to_pipe=1M";

/// The row when both ends get these words, after `--csv` and 1 MiB.
#[track_caller]
fn row(words: &[&str]) -> Vec<String> {
    let words = [&["--csv", BYTES], words].concat();
    let (write, read) = pair(&words, &words);
    assert_eq!(write.well().stdout, "", "the row is the reader's");
    let row = read.well().row();
    assert_eq!(row.len(), COLUMNS.len(), "{row:?}");
    assert!(row[0].parse::<f64>().is_ok_and(|speed| speed > 0.0), "{row:?}");
    row
}

/// What the row says beside the plain run's, column by column.
#[track_caller]
fn differs(words: &[&str]) -> Vec<(&'static str, String)> {
    let plain = ["1048576", "262144", "65536", "0", "0", "0", "0", "0", "0", "0", "0", "0", "0"];
    let cells = row(words).into_iter().zip(COLUMNS).skip(1);
    cells
        .zip(plain)
        .filter(|((cell, _), plain)| cell != plain)
        .map(|((c, name), _)| (name, c))
        .collect()
}

#[test]
fn the_plain_row_has_the_published_columns() {
    assert_eq!(differs(&[]), []);
}

#[test]
fn each_published_option_shows_in_its_column_and_nowhere_else() {
    let flags = [
        "busy_loop",
        "poll",
        "huge_page",
        "read_with_splice",
        "gift",
        "lock_memory",
        "dont_touch_pages",
        "same_buffer",
    ];
    for name in flags {
        for option in [format!("--{name}"), format!("--{}", name.replace('_', "-"))] {
            assert_eq!(differs(&[&option]), [(name, "1".to_owned())], "{option}");
        }
    }
    for (name, value, bytes) in [
        ("buf_size", "64K", "65536"),
        ("buf_size", "4096", "4096"),
        ("pipe_size", "131072", "131072"),
        ("pipe_size", "1M", "1048576"),
        ("bytes_to_pipe", "2MiB", "2097152"),
    ] {
        let wanted = [(name, bytes.to_owned())];
        let kebab = name.replace('_', "-");
        if name != "bytes_to_pipe" {
            assert_eq!(differs(&[&format!("--{name}"), value]), wanted);
            assert_eq!(differs(&[&format!("--{kebab}={value}")]), wanted);
        }
    }
}

#[test]
fn vmsplice_shows_with_the_pipe_of_half_a_buffer_as_published() {
    let wanted = [("pipe_size", "131072".to_owned()), ("write_with_vmsplice", "1".to_owned())];
    assert_eq!(differs(&["--write_with_vmsplice"]), wanted);
}

#[test]
fn bytes_to_pipe_are_taken_to_the_byte_in_both_spellings() {
    for option in ["--bytes_to_pipe=1000001", "--bytes-to-pipe=1000001"] {
        let (_, read) = pair(&[], &["--csv", option]);
        assert_eq!(read.well().row()[1], "1000001");
        let count = shell(&format!("$bytepath write {option} | wc -c"));
        assert_eq!(count.well().stdout.trim(), "1000001");
    }
}

#[test]
fn options_of_the_published_pair_work_together() {
    let all =
        ["--write_with_vmsplice", "--read_with_splice", "--huge_page", "--busy_loop", "--gift"];
    let names: Vec<_> = differs(&all).into_iter().map(|(name, _)| name).collect();
    assert_eq!(
        names,
        ["pipe_size", "busy_loop", "huge_page", "write_with_vmsplice", "read_with_splice", "gift"]
    );
    let both = differs(&["--busy_loop", "--poll"]);
    assert_eq!(both, [("busy_loop", "1".to_owned()), ("poll", "1".to_owned())]);
}

#[test]
fn huge_pages_are_checked_whoever_asks() {
    let base = run(&mut bytepath(&["read", "--check-huge-page"]));
    base.refused(1, &["no huge pages were asked for", "--huge"]);
    let words = ["--huge_page", "--check_huge_page"];
    let line = format!("$bytepath write --huge-page --check-huge-page {BYTES} >/dev/null");
    let done = shell(&line);
    if !done.status.success() && done.stderr.contains("huge pages") {
        println!("skipped: this machine gives no huge pages: {}", done.stderr);
        return;
    }
    done.well();
    let wanted = [("huge_page", "1".to_owned()), ("check_huge_page", "1".to_owned())];
    assert_eq!(differs(&words), wanted);
    for bytes in [1, 8 << 20] {
        let gift =
            format!("write --outlet gift --huge-page --check-huge-page --bytes-to-pipe {bytes}");
        let counted = shell(&format!("$bytepath {gift} | wc -c")).well().stdout;
        assert_eq!(counted.trim(), bytes.to_string());
    }
    let Some(nobody) = as_nobody() else { return };
    shell(&line.replace("$bytepath", &format!("{nobody}$bytepath"))).well();
}

#[test]
fn buffers_that_got_no_huge_pages_are_refused_by_the_end_that_has_them() {
    if !has_prctl() {
        return;
    }
    let huge = "--huge-page --check-huge-page";
    for writer in OUTLETS.iter().filter(|outlet| outlet.used_for() == Use::Streams) {
        let write = format!("write --outlet {} {huge}", writer.name());
        // No pipeline tells the code of its first program.
        let line = format!("({WITHOUT_HUGE} {write} {BYTES} || echo $? >&2) | wc -c");
        let done = shell(&line);
        assert!(done.stderr.contains("only 0 B of the"), "{write}: {done:?}");
        assert!(done.stderr.ends_with("\n1\n"), "{write}: {done:?}");
    }
    let line = format!("$bytepath write {BYTES} | {WITHOUT_HUGE} read {huge}");
    shell(&line).refused(1, &["only 0 B of the 256 KiB of buffers are in huge pages", "--hugetlb"]);
}

#[test]
fn verbose_says_on_standard_error_what_is_in_force() {
    let words = ["--verbose", BYTES, "--buf-size", "64K", "--poll"];
    let (write, read) = pair(&words, &words);
    for (end, name) in [(write, "write"), (read, "read")] {
        assert!(end.status.success(), "{end:?}");
        let said = end.stderr;
        let wanted = format!("{name}: 64 KiB per call, pipe of 64 KiB, wait poll");
        assert!(said.starts_with(&wanted) && said.contains("1048576 bytes"), "{said}");
    }
}

#[test]
fn of_a_pipe_that_is_none_nothing_is_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    let line = |line: &str| shell(&line.replace("FILE", file.to_str().expect("plain letters")));
    let words = format!("{BYTES} --verbose --buf-size 64K");
    let write = line(&format!("$bytepath write {words} >FILE"));
    let read = line(&format!("$bytepath read {words} <FILE"));
    assert!(write.stderr.starts_with("write: 64 KiB per call, wait "), "{write:?}");
    assert!(read.stderr.starts_with("read: 64 KiB per call, wait "), "{read:?}");
    assert!(read.stdout.contains(" GiB/s, 64 KiB per call (1 MiB in "), "{read:?}");
    assert!(write.status.success() && read.status.success());
}

#[test]
fn every_outlet_reaches_every_inlet_that_looks_by_every_wait_byte_for_byte() {
    let words = ["--verify", "--bytes-to-pipe", "3000001"];
    for outlet in OUTLETS {
        for inlet in INLETS.iter().filter(|inlet| inlet.name() != "splice-null") {
            for wait in Wait::NAMES {
                let case = format!("{} to {} by {wait}", outlet.name(), inlet.name());
                let wait = ["--wait", wait];
                let writer = [&["--outlet", outlet.name()][..], &words, &wait].concat();
                let reader = [&["--inlet", inlet.name()][..], &words, &wait].concat();
                let (write, read) = pair(&writer, &reader);
                assert_eq!(write.well().stdout, "", "{case}");
                let said = read.well().stdout;
                assert!(said.contains("every byte verified"), "{case}: {said}");
            }
        }
    }
}

#[test]
fn splice_null_takes_from_every_outlet_by_every_wait() {
    for outlet in OUTLETS {
        for wait in Wait::NAMES {
            let words = ["--bytes-to-pipe", "3000001", "--wait", wait];
            let writer = [&["--outlet", outlet.name()][..], &words].concat();
            let reader = [&["--inlet", "splice-null", "--csv"][..], &words].concat();
            let (write, read) = pair(&writer, &reader);
            write.well();
            let row = read.well().row();
            assert_eq!((row[1].as_str(), row[9].as_str()), ("3000001", "1"), "{}", outlet.name());
        }
    }
}

#[test]
fn every_way_to_fresh_pages_delivers() {
    for fresh in Fresh::NAMES {
        let writer = ["--verify", "--outlet", "gift", "--fresh", fresh, "--buf-size", "64K"];
        let (_, read) = pair(&writer, &["--verify", "--bytes-to-pipe", "5M"]);
        assert!(read.well().stdout.contains("every byte verified"), "{fresh}");
    }
}

#[test]
fn odd_buffers_and_pipes_deliver() {
    for outlet in OUTLETS {
        for (buf, pipe) in [("1", "4K"), ("4097", "64K"), ("1000001", "8192"), ("3M", "1M")] {
            let writer = ["--verify", "--outlet", outlet.name(), "--pipe-size", pipe];
            // Others have no buffers.
            let streams = outlet.used_for() == Use::Streams;
            let size = if streams { &["--buf-size", buf][..] } else { &[] };
            let writer = [&writer[..], size].concat();
            let reader = ["--verify", "--bytes-to-pipe", "70001", "--buf-size", "999"];
            let (write, read) = pair(&writer, &reader);
            assert!(write.status.success(), "{} {buf} {pipe}: {write:?}", outlet.name());
            let said = read.well().stdout;
            assert!(said.contains("every byte verified"), "{} {buf} {pipe}: {said}", outlet.name());
        }
    }
}

#[test]
fn the_writer_sends_the_published_byte_or_leaves_its_pages_alone() {
    for outlet in OUTLETS {
        let name = outlet.name();
        let write = format!("$bytepath write --outlet {name} --bytes-to-pipe 300001");
        let rest = shell(&format!("{write} | tr -d X | wc -c")).well().stdout;
        assert_eq!(rest.trim(), "0", "{name}");
        let rest =
            shell(&format!("{write} --dont-touch-pages | tr -d '\\0' | wc -c")).well().stdout;
        assert_eq!(rest.trim(), "0", "{name} untouched");
    }
}

#[test]
fn the_writer_ends_quietly_when_the_reader_leaves() {
    for outlet in OUTLETS {
        for wait in Wait::NAMES {
            let writer = ["--outlet", outlet.name(), "--wait", wait];
            let (write, read) = pair(&writer, &["--bytes-to-pipe", "100K"]);
            read.well();
            write.well();
        }
    }
}

#[test]
fn a_mover_ends_quietly_when_the_reader_leaves() {
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report");
    for way in ["", "--route read-write", "--route splice", "--bare", "--repeat-for 1h"] {
        // sh has no pipefail: what the mover says and how it ends are looked at by themselves.
        let carry = format!("$bytepath carry {way} --json {0}; echo $? >&2", report.display());
        let done = shell(&format!("({carry}) </dev/zero | head -c 100K | wc -c"));
        assert_eq!((done.stdout.trim(), done.stderr.trim()), ("102400", "0"), "{way}");
        let text = std::fs::read_to_string(&report).expect("the report");
        let report: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
        assert!(report["bytes"].as_u64().is_some_and(|bytes| bytes >= 102_400), "{way}: {report}");
    }
}

#[test]
fn both_ends_tell_the_same_in_json() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("writer.json");
    let name = file.to_str().expect("a plain name");
    let writer = ["--json", name, "--bytes-to-pipe", "1M", "--verify"];
    let reader = ["--json", "-", "--inlet", "read-touch", "--verify"];
    let (write, read) = pair(&writer, &reader);
    write.well();
    let read = read.well().json();
    let made = folder.path().join("made.json");
    let made = made.to_str().expect("a plain name");
    run(&mut bytepath(&["gen", "zeros", "--bytes", "1M", "--json", made])).well();
    let made = std::fs::read_to_string(made).expect("its report");
    let made: serde_json::Value = serde_json::from_str(&made).expect("it is JSON");
    let text = std::fs::read_to_string(&file).expect("the writer's report");
    let write: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert_eq!((&write["bytes"], &read["bytes"]), (&1048576.into(), &1048576.into()));
    assert_eq!((&write["outlet"], &read["inlet"]), (&"write".into(), &"read-touch".into()));
    for end in [&write, &read, &made] {
        as_published("end", end);
    }
    for end in [&write, &read] {
        for field in ["seconds", "calls", "pipe_bytes", "chunk_bytes"] {
            assert!(end[field].as_f64().is_some_and(|value| value > 0.0), "{field}: {end}");
        }
    }
    assert_eq!((&read["touched"], &read["pattern_period"]), (&true.into(), &0.into()));
    assert!(read["checksum"].as_u64().is_some_and(|sum| sum > 0), "{read}");
}

#[test]
fn the_byte_sum_is_the_sum_of_the_bytes() {
    let (_, read) = pair(&[], &["--inlet", "read-touch", "--bytes-to-pipe", "1000"]);
    let sum = 1000 * u32::from(b'X');
    assert!(read.well().stdout.contains(&format!("byte sum {sum}")));
}

#[test]
fn a_time_ends_either_end() {
    let count = shell("$bytepath write --time 100ms | wc -c").well();
    assert!(count.stdout.trim().parse::<u64>().is_ok_and(|count| count > 0), "{count:?}");
    let (write, read) = pair(&[], &["--warm-up", "2ms", "--time", "1s", "--json", "-"]);
    write.well();
    let read = read.well().json();
    assert!(read["seconds"].as_f64().is_some_and(|seconds| seconds >= 1.0), "{read}");
    let zero = pair(&[], &["--time", "0s", "--json", "-"]).1.well().json();
    assert!(zero["bytes"].as_u64().is_some_and(|bytes| bytes > 0), "{zero}");
}

#[test]
fn a_time_ends_an_end_that_sleeps() {
    for wait in Wait::NAMES {
        for inlet in INLETS {
            let read = |words: &[&str]| {
                let words = [&["read", "--wait", wait, "--inlet", inlet.name()], words].concat();
                bytepath(&words)
            };
            for warm_up in ["0s", "1ms"] {
                let (source, _writer) = std::io::pipe().expect("a pipe");
                let mut read = read(&["--time", "5ms", "--warm-up", warm_up]);
                run(read.stdin(source)).refused(1, &["nothing came in the time"]);
            }
            // What came until then is told.
            let (source, mut writer) = std::io::pipe().expect("a pipe");
            std::io::Write::write_all(&mut writer, &[1; 10_000]).expect("there is room");
            let told = run(read(&["--time", "200ms", "--json", "-"]).stdin(source)).well().json();
            assert_eq!(told["bytes"], 10_000, "{told}");
            assert_eq!(told["source_ended"], false, "{told}");
        }
        for outlet in OUTLETS {
            for verify in [&[][..], &["--verify"]] {
                let folder = tempfile::tempdir().expect("a folder");
                let json = folder.path().join("told");
                let (mut reader, sink) = std::io::pipe().expect("a pipe");
                let words = ["write", "--wait", wait, "--outlet", outlet.name(), "--time", "5ms"];
                let words = [&words[..], &["--json", text(&json)], verify].concat();
                let mut write = bytepath(&words);
                let ended = spawned(write.stdout(sink).stderr(Stdio::piped())).done();
                // The command would hold the pipe open.
                drop(write);
                ended.well();
                let told = std::fs::read(&json).expect("it is told");
                let told: Value = serde_json::from_slice(&told).expect("it is JSON");
                let mut all = Vec::new();
                std::io::Read::read_to_end(&mut reader, &mut all).expect("it ends");
                assert_eq!(told["bytes"], all.len(), "{} {told}", outlet.name());
            }
        }
    }
}

#[test]
fn what_is_read_before_the_clock_starts_is_not_counted() {
    let line = "$bytepath write --bytes-to-pipe 2G --outlet tee \
                | $bytepath read --warm-up 2ms --bytes-to-pipe 1M --csv";
    assert_eq!(shell(line).well().row()[1], "1048576");
    let line = line.replace("--csv", "--json -");
    let told = shell(&line).well().json_of("end");
    let before = told["warm_up_bytes"].as_u64().expect("a count");
    assert!(told["bytes"] == 1 << 20 && 0 < before && before <= (2 << 30) - (1 << 20), "{told}");
}

#[test]
fn an_end_that_spins_first_ends_alike() {
    let words = &["--wait", "hybrid", "--spin-budget", "10us"][..];
    let (write, read) = pair(words, &[words, &[BYTES]].concat());
    write.well();
    read.well();
}

#[test]
fn the_reader_stops_at_the_time_or_the_bytes_whichever_comes_first() {
    let (_, by_time) = pair(&[], &["--bytes-to-pipe", "1T", "--time", "1s", "--csv"]);
    let (_, by_bytes) = pair(&[], &["--bytes-to-pipe", "1M", "--time", "1h", "--csv"]);
    let bytes = |done: Done| done.well().row()[1].parse::<u64>().expect("a count");
    assert!(bytes(by_time) < 1 << 40);
    assert_eq!(bytes(by_bytes), 1 << 20);
}

#[test]
fn an_end_that_cannot_complain_keeps_its_exit_code() {
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let mut nowhere = bytepath(&["write", "--cpu", "4095", "--bytes-to-pipe", "1"]);
    let nowhere = nowhere.stdout(std::process::Stdio::null());
    let refused = nowhere.stderr(full()).status().expect("it runs");
    assert_eq!(refused.code(), Some(1));
    let mut verbose = bytepath(&["write", "--verbose", "--bytes-to-pipe", "1"]);
    let done =
        verbose.stdout(std::process::Stdio::null()).stderr(full()).status().expect("it runs");
    assert_eq!(done.code(), Some(0));
}
