//! Where the bytes come from and go to.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::process::Command;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

use super::{few, gnu};
use crate::program::{BYTEPATH, as_nobody, installed, run};

#[test]
fn a_file_that_fails_is_told_of_and_the_next_is_gone_on_with() {
    let Some(cat) = gnu() else { return };
    let lines = [
        "cat nowhere a",
        "cat a nowhere b nowhere",
        "mkdir folder; cat a folder b",
        "mkdir folder; cat <folder; cat - a <folder",
        "ln -s loop loop; cat loop a",
        "cat a/b a",
        "cat a nowhere >out 2>err",
        "cat a nowhere 2>&-",
        "cat a nowhere 2>/dev/full",
        "cat nowhere -nE a",
        "cat $(printf %0300d 1) a",
        "mkdir folder; cat -n a folder a",
    ];
    for line in lines {
        cat.both(&format!("{line}; echo $?"), few).same();
    }
}

#[test]
fn a_file_that_may_not_be_read_is_told_of() {
    let (Some(cat), Some(nobody)) = (gnu(), as_nobody()) else { return };
    let line = format!("chmod 0 b; chmod 755 .; {nobody}cat a b a; echo $?");
    cat.both(&line, few).same();
}

#[test]
fn standard_input_may_be_anything() {
    let Some(cat) = gnu() else { return };
    for options in ["", "-n"] {
        for input in ["<a", "</dev/null", "<large", "<&-", "0>a", "<nowhere"] {
            let run = |files| format!("cat {options} {files} {input}; echo $?; ");
            let line: String = ["", "-", "- -", "a - b -", "b b -"].map(run).concat();
            cat.both(&line, few).same();
        }
        cat.both(&format!("cat large | cat {options}; cat large | cat {options} a - - b"), few)
            .same();
        cat.both(&format!("{{ read line; cat {options} - a; }} <a"), few).same();
        cat.both(&format!("cat {options} </dev/zero | head -c 300000"), few).same();
    }
}

#[test]
fn a_descriptor_that_was_closed_has_no_name() {
    let Some(cat) = gnu() else { return };
    let lines = [
        "cat /dev/stdin a <&-",
        "cat -n /dev/fd/0 a <&-",
        "ln -s /dev/stdin l; cat l <&-; cat l <a",
        "cat /dev/fd/2 2>&-",
        "cat /dev/stdin <a 2>&-; cat /dev/null <&-",
    ];
    for line in lines {
        cat.both(&format!("{line}; echo $?"), few).same();
    }
}

#[test]
fn standard_output_may_be_anything() {
    let Some(cat) = gnu() else { return };
    for options in ["", "-s"] {
        for output in [
            ">out",
            ">>out",
            ">>b",
            "1<>b",
            "| cat >out",
            ">/dev/null",
            ">/dev/full",
            ">&-",
            "1</dev/null",
        ] {
            let run = |files| {
                format!("{{ cat {options} {files} {output}; }} 2>>err; echo $?; cksum <out; ")
            };
            let files = ["a", "a nowhere", "large large", "/dev/null", "/dev/null a"];
            cat.both(&format!("echo >out; {}", files.map(run).concat()), few).same();
        }
    }
}

#[test]
fn a_reader_that_leaves_ends_it_without_a_word() {
    let Some(cat) = gnu() else { return };
    for words in ["large large", "- </dev/zero", "-n - </dev/zero", "-A large large"] {
        // 141 is what a shell makes of SIGPIPE.
        let line = format!("{{ cat {words}; echo $? >code; }} | head -c 1; cat code");
        let both = cat.both(&line, few);
        both.same();
        assert!(both.ours.stdout.ends_with(b"141\n"), "{words}");
    }
}

#[test]
fn a_reader_that_left_after_the_last_byte_is_no_matter() {
    let Some(cat) = gnu() else { return };
    for signal in [":", "trap '' PIPE"] {
        let gone = format!("{signal}; mkfifo p w; exec 3<>p 4>p 3<&-");
        for words in ["cat /dev/null", ">c; cat c", ": | cat", "echo | cat", "cat a"] {
            cat.both(&format!("{gone}; {words} >&4; echo $?"), few).same();
        }
        // It has the line, and the end comes once it is gone.
        let line = "{ echo x; read y <w; } | { cat; echo $? >code; } | \
                    { read x; exec <&-; echo $x; echo >w; }; cat code";
        let both = cat.both(&format!("{gone}; {line}"), few);
        both.same();
        assert_eq!(both.ours.stdout, b"x\n0\n");
    }
}

#[test]
fn a_reader_that_leaves_is_told_of_where_the_signal_is_ignored() {
    let Some(cat) = gnu() else { return };
    for words in ["large large", "-n - </dev/zero"] {
        let line =
            format!("trap '' PIPE; {{ cat {words}; echo $? >code; }} 2>err | head -c 1; cat code");
        let both = cat.both(&line, few);
        both.same();
        assert!(both.ours.stdout.ends_with(b"1\n"), "{words}");
    }
}

#[test]
fn a_limit_on_the_size_of_files_ends_it_by_the_signal_or_is_told_of() {
    let Some(cat) = gnu() else { return };
    for options in ["", "-n"] {
        let limited = "ulimit -f 1000 2>/dev/null";
        let ended = cat.both(&format!("{limited}; cat {options} large >out"), few);
        assert_eq!(ended.ours.end, ended.theirs.end);
        // Appending, because the classic's copy_file_range takes the limit for a bad source.
        let told = format!("{limited}; trap '' XFSZ; cat {options} large >>out; echo $?");
        cat.both(&told, few).same();
    }
}

#[test]
fn an_output_that_would_be_read_without_end_is_refused() {
    let Some(cat) = gnu() else { return };
    let lines = [
        "cat a >>a; echo $?; cat a",
        "cat <a >>a; echo $?; cat a",
        "cat b a >>a; echo $?; cat a",
        "cat -n a b >>a; echo $?; cat a",
        "cat a b >a; cat a",
        "cat a >a; echo $?",
        "{ echo x; cat a b; } >a; cat a",
        "ln a c; cat c >>a; echo $?; cat a",
        "ln -s a c; cat c - >>a <b; echo $?; cat a",
        "cat b a 1<>a; echo $?; cat a",
    ];
    for line in lines {
        cat.both(line, few).same();
    }
}

#[test]
fn an_input_that_is_one_open_file_with_the_output_is_refused_unless_it_is_at_its_end() {
    let Some(cat) = gnu() else { return };
    for options in ["", "-n"] {
        for (line, refused) in [
            ("{ read line; cat OPTIONS; } <>a >&0", true),
            ("{ read line; read line; cat OPTIONS; } <>a >&0", false),
        ] {
            let line = format!("printf '1\n2\n' >a; {line}; echo $?; cat a");
            let both = cat.both(&line.replace("OPTIONS", options), few);
            let says = both.ours.stderr.contains("cat: -: input file is output file");
            assert_eq!(says, refused, "{line}");
            match cat.version < (9, 6) {
                true => both.same(),
                false => println!("not compared: later ones write into what they read"),
            }
        }
    }
}

#[test]
fn an_output_that_grows_over_what_is_still_to_be_read_is_refused() {
    let Some(cat) = gnu() else { return };
    for options in ["-n", "-A", "-E", "-s"] {
        // The second is at its end, and the third is empty: nothing is to be read.
        for line in [
            "cat OPTIONS a b 1<>a",
            "{ read line; cat OPTIONS - b; } <a 1<>a",
            ">c; cat OPTIONS c b 1<>c",
        ] {
            let line = line.replace("OPTIONS", options);
            let line = format!("ulimit -f 1000; {line}; echo $?; cat a c");
            let both = cat.both(&line, few);
            let refused = line.contains("a b 1<>a");
            assert_eq!(both.ours.stderr.contains("input file is output file"), refused, "{line}");
            match cat.version < (9, 6) {
                true => both.same(),
                false => println!("not compared: later ones fill the device"),
            }
        }
    }
}

#[test]
fn an_output_that_the_reading_never_meets_is_no_reason_to_refuse() {
    let Some(cat) = gnu() else { return };
    // The first two from what POSIX says of cat; coreutils before 9.6 refused them.
    let cases = [
        ("cat - b <a 1<>a; echo $?; cat a", "0\none\ntwo"),
        ("cat a b 1<>a; echo $?; cat a", "0\none\ntwo"),
        ("{ read line; cat - 1>&3; } <large 3<>large; echo $?; wc -c <large", "0\n3145728\n"),
    ];
    for (line, wanted) in cases {
        let both = cat.both(line, few);
        assert_eq!(String::from_utf8_lossy(&both.ours.stdout), wanted, "{line}");
        match cat.version >= (9, 6) {
            true => both.same(),
            false => println!("not compared: this classic ({:?}) still refuses it", cat.version),
        }
    }
}

#[test]
fn files_whose_size_lies_are_copied_whole() {
    let Some(cat) = gnu() else { return };
    let files = "/proc/version /proc/filesystems /proc/devices /sys/devices/system/cpu/online";
    for options in ["", "-n"] {
        for output in ["", ">out", ">>out", "| cat"] {
            cat.both(&format!("cat {options} {files} {output}"), few).same();
        }
    }
    cat.both("cat /proc/self/mem; echo $?", few).same();
}

#[test]
fn fifos_and_descriptors_by_name_are_read() {
    let Some(cat) = gnu() else { return };
    cat.both("mkfifo fifo; cat large >fifo & cat a fifo b", few).same();
    cat.both("cat /dev/stdin /proc/self/fd/0 a <large", few).same();
    cat.both("cat large | cat /dev/stdin -", few).same();
}

#[test]
fn a_terminal_is_read_until_its_end_key_and_again_for_the_next_dash() {
    let Some(cat) = gnu() else { return };
    let line = "cat - - <$TERMINAL; cat -nE - - <$TERMINAL";
    let keys = b"one\ntwo\n\x04three\n\x04four\n\x04five\n\x04";
    let said = |program: &Path| {
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a terminal");
        grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("it is ours");
        let name = ptsname(&terminal, Vec::new()).expect("it has a name");
        // What is typed while nobody has the other end open may be lost.
        let other_end = File::options().read(true).write(true).open(name.to_str().expect("plain"));
        let mut keyboard = File::from(terminal);
        keyboard.write_all(keys).expect("typed");
        let link = tempfile::tempdir().expect("a folder");
        std::os::unix::fs::symlink(program, link.path().join("cat")).expect("a link");
        let line = format!("PATH={}:$PATH; {line}", link.path().display());
        let done = run(Command::new("sh")
            .args(["-c", &line])
            .env("TERMINAL", name.to_str().expect("plain")));
        drop(other_end);
        done.well().stdout
    };
    let theirs = said(&cat.path);
    assert_eq!(said(Path::new(BYTEPATH)), theirs);
    assert!(theirs.contains("one\ntwo\nthree\n"), "{theirs}");
}

#[test]
fn a_terminal_is_written_to() {
    let Some(cat) = gnu() else { return };
    if !installed("script") {
        return;
    }
    // script(1) gives a terminal, and keeps what is written to it.
    for words in ["a b a", "-A large", "- a </dev/null", "nowhere a", "/proc/version b", "c c"] {
        let line = format!(
            "yes line | head -c 300000 >c; script -qec 'cat {words}' typescript >/dev/null; \
             rm large; sed '1d;$d' typescript; rm typescript"
        );
        cat.both(&line, few).same();
    }
}
