//! `bytepath gen`: the bytes are those that anybody else makes, into every output, whatever happens
//! on the way.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Stdio;

use bytepath::outlets::{OUTLETS, Use};
use bytepath_gen::{Counted, Generator, Rule};
use rustix::pipe::{PipeFlags, SpliceFlags};

use crate::calls::{assert_fired, faulty, may_trace};
use crate::program::{bytepath, run, shell, signal_of, spawned, text};

/// The first bytes of FizzBuzz from a line on.
fn fizzbuzz(from: u64, bytes: usize) -> Vec<u8> {
    let mut lines = Counted::new(Rule::FizzBuzz, from, None).expect("such lines");
    let mut text = vec![0; bytes];
    assert_eq!(lines.fill(0, &mut text), bytes);
    text
}

/// Outlets that can send new bytes all the time.
fn streaming() -> impl Iterator<Item = &'static str> {
    OUTLETS.iter().filter(|it| it.used_for() == Use::Streams).map(|it| it.name())
}

/// Each line prints twice the same: ours, then theirs.
#[track_caller]
fn both(ours: &str, theirs: &str) {
    let done = shell(&format!("{ours} | cksum; {{ {theirs}; }} | cksum")).well();
    let sums: Vec<_> = done.stdout.lines().collect();
    assert_eq!((sums.len(), sums[0]), (2, sums[1]), "{ours} against {theirs}");
}

#[test]
fn yes_is_what_the_classic_writes() {
    let strings = [
        "",
        "a",
        "a b c",
        "''",
        "'' ''",
        "-- -n",
        "a -- -n --bytes",
        "-- --",
        "' a  b '",
        "'x\ty'",
        "\"$(printf '\\351\\n\\377')\"",
        "a_b -- --c_d",
        "\"$(head -c 5000 /dev/zero | tr '\\0' x)\"",
        "\"$(head -c 100001 /dev/zero | tr '\\0' y)\"",
    ];
    for words in strings {
        for bytes in ["1", "2000003"] {
            let ours = format!("$bytepath gen yes {words} | head -c {bytes}");
            both(&ours, &format!("yes {words} | head -c {bytes}"));
        }
    }
    both("$bytepath gen yes --lines 500001 ab", "yes ab | head -n 500001");
    both("$bytepath gen yes --bytes 1000001 abc", "yes abc | head -c 1000001");
}

#[test]
fn both_outputs_that_fail_are_told() {
    shell("$bytepath gen zeros --bytes 1M --json /dev/full >/dev/full")
        .refused(1, &["bytepath: cannot write /dev/full: ", "bytepath: standard output: "]);
}

#[test]
fn every_outlet_repeats_a_line_wherever_it_is_cut() {
    for outlet in OUTLETS {
        let ours = format!("$bytepath gen yes --outlet {} abcdef --bytes 5000001", outlet.name());
        let ours = ours.replace("abcdef --bytes 5000001", "--bytes 5000001 abcdef");
        both(&ours, "yes abcdef | head -c 5000001");
    }
}

#[test]
fn counted_lines_are_those_of_seq() {
    for from in ["1", "95", "999", "99999999", "9999999999", "999999999999999900"] {
        both(
            &format!("$bytepath gen lines --from {from} --lines 200000"),
            &format!("seq {from} $(({from} + 199999))"),
        );
    }
    let last = shell("$bytepath gen lines --from 9223372036854775807").well();
    assert_eq!(last.stdout, "9223372036854775807\n9223372036854775808\n");
}

#[test]
fn fizzbuzz_is_that_of_a_plain_loop_by_every_outlet_and_any_number_of_threads() {
    let rule = "{ if ($1 % 15 == 0) print \"FizzBuzz\"; else if ($1 % 5 == 0) print \"Buzz\"; \
                else if ($1 % 3 == 0) print \"Fizz\"; else print }";
    for from in [1_u64, 999_990, 9_999_900_000] {
        let theirs = format!("seq {from} {} | awk '{rule}'", from + 299_999);
        both(&format!("$bytepath gen fizzbuzz --from {from} --lines 300000"), &theirs);
        for outlet in streaming() {
            for jobs in ["1", "3"] {
                let ours = format!(
                    "$bytepath gen fizzbuzz --from {from} --lines 300000 --outlet {outlet} \
                     --jobs {jobs}"
                );
                both(&ours, &theirs);
            }
        }
    }
}

#[test]
fn every_kind_ends_after_the_bytes_asked_for_and_is_the_same_from_run_to_run() {
    let kinds = [
        "zeros",
        "pattern",
        "random",
        "random --seed 5",
        "text",
        "text --seed 5",
        "lines",
        "fizzbuzz",
    ];
    for kind in kinds {
        for bytes in [1, 4095, 65_537, 3_000_001] {
            both(
                &format!("$bytepath gen {kind} --bytes {bytes}"),
                &format!("$bytepath gen {kind} --bytes 4M | head -c {bytes}"),
            );
        }
        both(
            &format!("$bytepath gen {kind} --bytes 3000001 | cat"),
            &format!("f=$(mktemp); $bytepath gen {kind} --bytes 3000001 >$f; cat $f; rm $f"),
        );
    }
    both("$bytepath gen zeros --bytes 3000001", "head -c 3000001 /dev/zero");
    let sums = "for s in 1 2; do for k in random text; do $bytepath gen $k --seed $s --bytes 9K | \
                cksum; done; done | sort -u | wc -l";
    assert_eq!(shell(sums).well().stdout, "4\n", "seeds differ");
}

#[test]
fn a_pattern_is_verified_and_random_bytes_do_not_compress() {
    for options in ["", "--jobs 3", "--outlet write", "--outlet gift", "--outlet vmsplice"] {
        let line = format!("$bytepath gen pattern --bytes 9M {options} | $bytepath read --verify");
        let done = shell(&line).well();
        assert!(done.stdout.contains("every byte verified"), "{done:?}");
    }
    let count = |line: &str| -> u64 { shell(line).well().stdout.trim().parse().expect("a number") };
    assert!(count("$bytepath gen random --bytes 1M | gzip -9 | wc -c") > 1 << 20);
    let text = count("$bytepath gen text --bytes 4M | gzip -6 | wc -c");
    assert!((1 << 19..3 << 20).contains(&text), "4 MiB of text became {text} bytes");
    assert_eq!(count("$bytepath gen text --lines 54321 | wc -l"), 54_321);
    assert_eq!(count("$bytepath gen text --lines 0 | wc -c"), 0);
    assert_eq!(count("$bytepath gen zeros --bytes 0 | wc -c"), 0);
}

#[test]
fn refused_and_interrupted_calls_lose_nothing() {
    if !may_trace() {
        return;
    }
    let of_streams = [
        "vmsplice:error=EINVAL",
        "vmsplice:error=ENOSYS:when=3",
        "vmsplice,write:error=EINTR:when=1+3",
        "vmsplice,write:error=EAGAIN:when=2+3",
        "fcntl:error=EPERM:when=5+",
        "madvise:error=EINVAL",
    ];
    let of_repeats = [
        "fcntl:error=EPERM:when=5+",
        "tee:error=EINVAL",
        "tee,splice:error=EINTR:when=3+4",
        "tee,splice:error=EAGAIN:when=60+3",
        "pipe2:error=EMFILE",
    ];
    let kinds = [
        ("fizzbuzz --from 999000", &of_streams[..]),
        ("text --lines 50000", &of_streams),
        ("yes --bytes 5000000 abc", &of_repeats),
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let log = folder.path().join("log");
    for (kind, faults) in kinds {
        let whole = format!("$bytepath gen {kind} | head -c 3000000");
        for fault in faults {
            let strace = faulty(text(&log), &[fault]);
            both(&format!("{strace} -f {whole}"), &whole);
            assert_fired(&log, fault);
        }
    }
}

#[test]
fn a_reader_that_leaves_ends_it_as_it_ends_the_classic() {
    for kind in ["yes", "fizzbuzz", "zeros"] {
        let mut made = bytepath(&["gen", kind]);
        let mut made = spawned(made.stdout(Stdio::piped()).stderr(Stdio::piped()));
        let mut pipe = made.child().stdout.take().expect("it is piped");
        let mut some = vec![0; 3 << 20];
        pipe.read_exact(&mut some).expect("bytes");
        drop(pipe);
        let done = made.done();
        assert_eq!((signal_of(&done), done.stderr.as_str()), (Some(13), ""), "{kind}");
    }
    let ignored = "trap '' PIPE; ($bytepath gen yes; echo $? >&2) | head -n 1";
    let done = shell(ignored);
    assert_eq!(done.stderr, "bytepath: standard output: Broken pipe\n1\n");
    // Whoever wants a report has one.
    let folder = tempfile::tempdir().expect("a folder");
    let report = folder.path().join("report.json");
    let line =
        format!("$bytepath gen yes --json {} | head -c 3000000 >/dev/null", report.display());
    shell(&line).well();
    let text = std::fs::read_to_string(&report).expect("it is written");
    let json: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    assert!(json["bytes"].as_u64().is_some_and(|bytes| bytes >= 3_000_000), "{json}");
}

#[test]
fn what_cannot_be_written_is_told_with_the_byte_reached() {
    shell("$bytepath gen zeros >/dev/full").refused(1, &["byte 0", "No space left"]);
    shell("$bytepath gen fizzbuzz >/dev/full").refused(1, &["byte 0", "No space left"]);
    let line = "cd $(mktemp -d); ulimit -f 100; $bytepath gen lines --bytes 9M >f; code=$?; \
                wc -c <f; rm -r \"$PWD\"; exit $code";
    let done = shell(line).refused(1, &["byte ", "File too large"]);
    let written = done.stdout.trim().to_owned();
    assert!(done.stderr.contains(&format!("byte {written} ")), "{done:?}");
    shell("$bytepath gen zeros >&-").refused(1, &["standard output is closed"]);
    shell("$bytepath gen zeros >/dev/null </dev/null --bytes 1M").well();
}

#[test]
fn it_writes_into_sockets_short_pipes_and_ends_that_do_not_block() {
    let expected = fizzbuzz(1, 3_000_000);
    let words = ["gen", "fizzbuzz", "--bytes", "3000000"];
    let read_all = |mut from: Box<dyn Read>, into: OwnedFd| {
        // The command keeps the end that it gives away for as long as it is there.
        let made = spawned(bytepath(&words).stdout(into).stderr(Stdio::piped()));
        let mut all = Vec::new();
        from.read_to_end(&mut all).expect("it is read");
        made.done().well();
        assert!(all == expected, "{} bytes came", all.len());
    };
    let (near, far) = UnixStream::pair().expect("sockets");
    read_all(Box::new(near), far.into());
    for flags in [PipeFlags::CLOEXEC, PipeFlags::CLOEXEC | PipeFlags::NONBLOCK] {
        let (reader, writer) = rustix::pipe::pipe_with(flags).expect("a pipe");
        rustix::pipe::fcntl_setpipe_size(&writer, 8192).expect("two slots");
        let open = rustix::fs::fcntl_getfl(&reader).expect("flags") - rustix::fs::OFlags::NONBLOCK;
        rustix::fs::fcntl_setfl(&reader, open).expect("it blocks");
        read_all(Box::new(std::fs::File::from(reader)), writer);
    }
}

/// The pages that went into the pipe first are held while many more come: with an outlet that uses
/// its pages again, they would be seen to change.
#[test]
fn pages_that_a_reader_holds_are_not_written_to_again() {
    let held_bytes = 256 << 10;
    // Past what goes out before the outlet is chosen.
    let skipped_bytes = 1 << 20;
    for outlet in [None, Some("gift")] {
        let (reader, writer) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let (kept_reader, kept) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        if rustix::pipe::fcntl_setpipe_size(&kept, held_bytes).is_err() {
            println!("skipped: no pipe of {held_bytes} bytes here");
            return;
        }
        let mut words = vec!["gen", "fizzbuzz"];
        words.extend(outlet.iter().flat_map(|name| ["--outlet", name]));
        let mut made = spawned(bytepath(&words).stdout(writer).stderr(Stdio::piped()));
        let mut stream = std::fs::File::from(reader);
        stream.read_exact(&mut vec![0; skipped_bytes]).expect("bytes");
        let mut held = 0;
        while held < held_bytes {
            let flags = SpliceFlags::NONBLOCK;
            let most = held_bytes - held;
            match rustix::pipe::splice(stream.as_fd(), None, kept.as_fd(), None, most, flags) {
                Ok(count) => held += count,
                // Its slots are used up by pieces of pages, or the writer is not so far.
                Err(rustix::io::Errno::AGAIN) if held > 0 => break,
                Err(rustix::io::Errno::AGAIN) => std::thread::yield_now(),
                Err(errno) => panic!("splice: {errno}"),
            }
        }
        stream.read_exact(&mut vec![0; 32 << 20]).expect("bytes");
        let mut found = vec![0; held];
        std::fs::File::from(kept_reader).read_exact(&mut found).expect("bytes");
        let whole = fizzbuzz(1, skipped_bytes + held);
        assert!(found == whole[skipped_bytes..], "{outlet:?}: {held} held bytes were changed");
        drop(stream);
        let _ = made.child().wait();
    }
}

#[test]
fn wrong_usage_is_refused_with_what_to_do() {
    let refused: [(&[&str], i32, &[&str]); 14] = [
        (&["gen"], 2, &["fizzbuzz", "zeros"]),
        (&["gen", "primes"], 2, &["primes"]),
        (&["gen", "lines", "--from", "0"], 2, &["from 1 to 9223372036854775808"]),
        (&["gen", "fizzbuzz", "--from", "9223372036854775808", "--lines", "2"], 2, &["2^63"]),
        (&["gen", "zeros", "--lines", "3"], 2, &["--lines"]),
        (&["gen", "zeros", "--jobs", "3"], 2, &["--jobs"]),
        (&["gen", "text", "--jobs", "0"], 2, &["0"]),
        (&["gen", "lines", "--lines", "3", "--bytes", "4"], 2, &["--bytes"]),
        (&["gen", "zeros", "--buf-size", "4K"], 2, &["--outlet"]),
        (
            &["gen", "zeros", "--outlet", "write", "--spin-budget", "1us", "--wait", "spin"],
            2,
            &["no effect on the wait spin", "add --wait hybrid"],
        ),
        (&["gen", "zeros", "--outlet", "tee", "--pages", "huge"], 2, &["--pages has no effect"]),
        (&["gen", "zeros", "--outlet", "wide-tee", "--buf-size", "1"], 2, &["--buf-size has no"]),
        (&["gen", "zeros", "--json", "-"], 2, &["give --json a file"]),
        (&["gen", "zeros", "--profile", "/nowhere/p.json"], 1, &["bytepath tune"]),
    ];
    for (words, code, said) in refused {
        run(&mut bytepath(words)).refused(code, said);
    }
    let line = "$bytepath gen fizzbuzz --outlet wide-tee | cat; $bytepath gen zeros --outlet gift >/dev/null";
    let done = shell(line).refused(1, &["only repeats", "gift needs a pipe"]);
    assert_eq!(done.stdout, "");
}

#[test]
fn the_outlet_that_was_chosen_is_explained() {
    let explained = |words: &str| {
        let line = format!("$bytepath gen {words} --explain-plan 2>&3 | cat >/dev/null");
        shell(&format!("{{ {line}; }} 3>&1")).well().stdout
    };
    let few = explained("lines --bytes 1000");
    assert!(few.contains("so few bytes") && few.contains("1000 bytes by write"), "{few}");
    let rules = explained("zeros --bytes 9M");
    assert!(rules.contains("by rules") && rules.contains("by wide-tee"), "{rules}");
    assert!(rules.contains("not vmsplice: it writes to pages again"), "{rules}");
    let asked = explained("zeros --bytes 9M --outlet write");
    assert!(asked.contains("that was asked for") && asked.contains("by write"), "{asked}");
}

#[test]
fn the_profile_says_which_outlet_is_best() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("profile.json");
    let words = ["tune", "--blocks", "1", "--bytes", "256K", "--profile"];
    let path = path.to_str().expect("a name in UTF-8");
    let dir = folder.path().to_str().expect("a name in UTF-8");
    run(&mut bytepath(&[&words[..], &[path, "--dir", dir]].concat())).well();
    let text = std::fs::read_to_string(path).expect("it is there");
    let mut profile: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let outlets = profile["outlets"].as_array_mut().expect("outlets were measured");
    assert!(outlets.len() >= 6, "{outlets:?}");
    for sent in outlets.iter_mut() {
        let best = matches!(sent["outlet"].as_str(), Some("tee"));
        sent["read_gib_per_s"] = if best { 1000.0.into() } else { 1.0.into() };
    }
    std::fs::write(path, profile.to_string()).expect("written");
    let cpu = bytepath::machine::Machine::this().allowed_cpus().first().expect("a CPU");
    for placed in ["", &format!("--cpu {cpu}")] {
        let words = format!("gen zeros --bytes 9M --profile {path} {placed} --explain-plan");
        let done = shell(&format!("$bytepath {words} | wc -c"));
        assert_eq!(done.stdout, "9437184\n");
        for words in ["by what was measured", "1. tee", "expected 1000 GiB/s"] {
            assert!(done.stderr.contains(words), "{words}: {done:?}");
        }
        assert!(done.stderr.contains("9437184 bytes by tee"), "{done:?}");
    }
}

#[test]
fn bytes_that_are_lost_when_standard_output_is_closed_are_told_of() {
    if !may_trace() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for words in [
        "gen yes --lines 9",
        "gen random --bytes 1M",
        "completions bash",
        "bench pipes --list",
        "--help",
        "gen --help",
        "cp --help",
    ] {
        let line = format!(
            "cd {} && strace -f -qqq -o /dev/null -P $(pwd -P)/out -e inject=close:error=EDQUOT \
             $bytepath {words} >out; echo $?",
            folder.path().display()
        );
        let done = shell(&line);
        assert_eq!(done.stdout, "1\n", "{words}: {done:?}");
        assert!(done.stderr.contains(": Disk quota exceeded"), "{words}: {done:?}");
        assert_eq!(done.stderr.lines().count(), 1, "{words}: {done:?}");
    }
}
