//! Where the bytes come from and go to, and what becomes of an output that fails.

use std::path::Path;

use super::{few, gnu, large};
use crate::program::installed;

/// Every option that says what is done about an output that fails.
const MODES: [&str; 6] = [
    "",
    "-p",
    "--output-error=warn",
    "--output-error=warn-nopipe",
    "--output-error=exit",
    "--output-error=exit-nopipe",
];

#[test]
fn every_source_reaches_every_kind_of_output() {
    let Some(tee) = gnu() else { return };
    let sources = ["cat large |", "cat a |", "", "<large", "<a", "</dev/null", "</proc/version"];
    let outputs = [
        "",
        "| cat",
        ">o",
        ">>o",
        ">/dev/null",
        "c",
        "c | cat",
        "c >o",
        "c d e | cat",
        "-a c d | cat",
        "-a c | cat >o",
        "/dev/null c /dev/null | cat",
        "c /dev/null >/dev/null",
        "/dev/null /dev/null >/dev/null",
        "/dev/stderr c 2>o | cat",
        "c c | cat",
    ];
    for source in sources {
        for output in outputs {
            let line = match source.strip_prefix('<') {
                Some(_) => format!("echo >c; {{ tee {output}; }} {source}; echo $?"),
                None => format!("echo >c; {source} tee {output}; echo $?"),
            };
            tee.both(&line, few).same();
        }
    }
}

#[test]
fn an_output_that_is_another_ones_too_gets_everything_twice() {
    let Some(tee) = gnu() else { return };
    // Little, so that each takes all of it at once.
    for output in ["/dev/stdout c | cat", "/dev/stdout >o", "-a /dev/stdout >>o", "c c | cat"] {
        tee.both(&format!("cat a | tee {output}"), few).same();
        tee.both(&format!("tee {output} <b"), few).same();
    }
}

#[test]
fn bytes_that_come_in_drops_are_passed_on_whole() {
    let Some(tee) = gnu() else { return };
    let drops = "for i in 1 2 3 4 5 6 7 8 9; do head -c ${i}0000 large; echo $i; done";
    tee.both(&format!("{{ {drops}; }} | tee c d | cat >o"), few).same();
    tee.both(&format!("{{ {drops}; }} | tee -a c d | cat >o"), few).same();
    tee.both("dd if=large bs=7 count=5000 2>/dev/null | tee c d | dd obs=13 2>/dev/null >o", few)
        .same();
}

#[test]
fn outputs_of_different_speed_get_the_same_bytes() {
    let Some(tee) = gnu() else { return };
    if !installed("bash") {
        return;
    }
    let slow = "{ while dd bs=50000 count=1 iflag=fullblock status=none | grep -c '' >>n; [ -s large ] && \
                [ $(cat n | wc -l) -lt 70 ]; do :; done; }";
    let lines = [
        "cat large | tee >(dd bs=777 status=none of=c) >(cat >d) | dd bs=4000 status=none >o"
            .to_owned(),
        "cat large large | tee >(sleep 0.2; cat >c) e | (sleep 0.1; cat >o)".to_owned(),
        "tee >(sleep 0.2; cat >c) >(cat >d) e <large | cat >o".to_owned(),
        format!("cat large | tee >({slow} >/dev/null) | cat >o; rm -f n"),
    ];
    for line in lines {
        let line = format!("bash -c '{}'", line.replace('\'', "'\\''"));
        // A process substitution may outlive the line.
        tee.both(&format!("{line} | cat; sleep 0.5"), few).same();
    }
}

#[test]
fn an_output_that_cannot_be_opened_is_told_of() {
    let Some(tee) = gnu() else { return };
    for mode in MODES {
        tee.both(&format!("tee {mode} no/c d <a; echo $?; cat d"), few).same();
        tee.both(&format!("mkdir e; tee {mode} c e d <large | cat; cksum c d"), few).same();
        tee.both(&format!("tee {mode} no/c no/d <large >o; echo $?"), few).same();
    }
    tee.both("tee c $(printf %0300d 1) d <a; echo $?", few).same();
}

#[test]
fn an_output_that_is_full_is_told_of_and_the_others_go_on_as_the_mode_says() {
    let Some(tee) = gnu() else { return };
    for mode in MODES {
        // Small, so that both are at the same byte.
        for outputs in ["/dev/full c", "c /dev/full d", "c /dev/full /dev/full d", "c d /dev/full"]
        {
            for stdout in ["", ">/dev/full", ">/dev/null", "| cat", ">o"] {
                let line = format!("cat a | {{ tee {mode} {outputs} {stdout}; echo $?; }}; cat c");
                tee.both(&line, few).same();
                let line = format!("{{ tee {mode} {outputs} <a {stdout}; echo $?; }}; cat c");
                tee.both(&line, few).same();
            }
        }
        if !mode.contains("exit") {
            tee.both(&format!("cat large | tee {mode} c /dev/full d | cksum; cksum c d"), few)
                .same();
        }
    }
}

#[test]
fn a_reader_that_leaves_is_treated_as_the_mode_says() {
    let Some(tee) = gnu() else { return };
    if !installed("bash") {
        return;
    }
    for mode in MODES {
        for prefix in ["", "trap \"\" PIPE; "] {
            let lines = [
                format!(
                    "{{ cat large large | tee {mode} c; echo ${{PIPESTATUS[1]}} >code; }} | head -c 1"
                ),
                format!("{{ tee {mode} c <large; echo $? >code; }} | head -c 1"),
                format!(
                    "{{ cat large large | tee {mode}; echo ${{PIPESTATUS[1]}} >code; }} | head -c 1"
                ),
                format!(
                    "cat large large | tee {mode} >(head -c 1 >c) | cksum >o; echo ${{PIPESTATUS[1]}} >code"
                ),
                format!(
                    "cat large large | tee {mode} >(head -c 1 >c) >/dev/null; echo ${{PIPESTATUS[1]}} >code"
                ),
            ];
            for line in lines {
                let line = format!("{prefix}{line}").replace('\'', "'\\''");
                // Which bytes are in an output when the program ends in the middle differs.
                let line =
                    format!("bash -c '{line}' 2>err; rm -f c; grep tee err; cat code; rm err");
                let both = tee.both(&line, few);
                assert_eq!(
                    String::from_utf8_lossy(&both.ours.stdout),
                    String::from_utf8_lossy(&both.theirs.stdout),
                    "{line}"
                );
            }
        }
    }
}

#[test]
fn a_reader_that_left_after_the_last_byte_is_no_matter() {
    let Some(tee) = gnu() else { return };
    for mode in MODES {
        for signal in [":", "trap '' PIPE"] {
            let gone = format!("{signal}; mkfifo p w; exec 3<>p 4>p 3<&-");
            for words in ["tee MODE </dev/null", ">c; tee MODE <c", ": | tee MODE"] {
                let words = words.replace("MODE", mode);
                tee.both(&format!("{gone}; {words} >&4; echo $?"), few).same();
            }
            // It has the line, and the end comes once it is gone.
            let line = "{ echo x; read y <w; } | { tee MODE; echo $? >code; } | \
                        { read x; exec <&-; echo $x; echo >w; }; cat code";
            let line = line.replace("MODE", mode);
            tee.both(&format!("{gone}; {line}"), few).same();
        }
    }
}

#[test]
fn standard_descriptors_that_are_closed_are_told_of() {
    let Some(tee) = gnu() else { return };
    for mode in MODES {
        let lines = [
            "tee MODE c <&-; echo $?",
            "tee MODE c d >&- <a; echo $?; cat c d",
            "tee MODE c >&- </dev/null; echo $?",
            "tee MODE >&- <&-; echo $?",
            "tee MODE c 2>&- <a; echo $?",
            "tee MODE no/c 2>&- <a; echo $?",
            "tee MODE c >&- 2>&- <&- ; echo $?",
            "tee MODE c /dev/full 2>/dev/full <a; echo $?",
            "tee MODE c 1<b <a; echo $?; cat c",
            "tee MODE c 0>b; echo $?",
            "mkdir e; tee MODE c <e; echo $?",
            "tee MODE /dev/stdout c >&- <a; echo $?; cat c",
            "tee MODE -a c /dev/fd/2 2>&- <a; echo $?; cat c",
            "tee MODE /dev/fd/0 <&-; echo $?",
        ];
        for line in lines {
            tee.both(&line.replace("MODE", mode), few).same();
        }
    }
}

#[test]
fn a_limit_on_the_size_of_files_ends_it_by_the_signal_or_is_told_of() {
    let Some(tee) = gnu() else { return };
    let limited = "ulimit -f 1000 2>/dev/null";
    for (source, outputs) in [("cat large |", "c | cat >/dev/null"), ("", "c d <large >/dev/null")]
    {
        let ended = tee.both(&format!("{limited}; {source} tee {outputs}"), few);
        assert_eq!(ended.ours.end, ended.theirs.end);
        let told = format!("{limited}; trap '' XFSZ; {source} tee {outputs}; echo $?");
        tee.both(&told, few).same();
    }
}

#[test]
fn a_file_that_is_read_and_written_is_as_with_the_classic() {
    let Some(tee) = gnu() else { return };
    for line in ["tee a <a; cat a", "tee c <a | cat; cat c", "ln a c; tee c <a; cat a"] {
        tee.both(line, few).same();
    }
}

#[test]
fn sockets_and_terminals_are_read_and_written() {
    let Some(tee) = gnu() else { return };
    if installed("script") {
        // script(1) gives a terminal, and keeps what is written to it.
        let line = "script -qec 'tee c d <a; cat large | tee c | cksum; cat a | tee c /dev/tty' typescript \
                    >/dev/null; sed '1d;$d' typescript; rm typescript";
        tee.both(line, few).same();
    }
    if installed("python3") {
        let both = |options: &str, more: &str| {
            let text = format!(
                "import socket, subprocess, threading\n\
                 mine, theirs = socket.socketpair(); fed, feeds = socket.socketpair()\n\
                 tee = subprocess.Popen(['tee'] + '{options}'.split(), stdin=fed, stdout=theirs)\n\
                 theirs.close(); fed.close()\n\
                 def feed():\n    \
                     feeds.sendall(open('large', 'rb').read()); feeds.close()\n\
                 threading.Thread(target=feed).start()\n\
                 got = mine.makefile('rb').read()\n\
                 open('o', 'wb').write(got); tee.wait(); print(tee.returncode)\n"
            );
            tee.both(&format!("cat >s.py <<'END'\n{text}END\npython3 s.py{more}"), few).same();
        };
        both("c", "");
        both("-a c /dev/null d", "");
    }
}

#[test]
fn interrupts_are_ignored_when_asked_to() {
    let Some(tee) = gnu() else { return };
    // Where it is ended, nobody may be left to write to.
    for (options, then) in [("", ""), ("-i", "echo y >&3;"), ("-i -p", "echo y >&3;")] {
        // The shell starts what is in the background with interrupts ignored, env(1) undoes that.
        let line = format!(
            "mkfifo f; env --default-signal=INT tee {options} c <f & p=$!; exec 3>f; echo x >&3; \
             until [ -s c ]; do :; done; kill -INT $p; {then} [ -n '{then}' ] || wait $p; exec 3>&-; \
             wait $p; echo $?; rm f"
        );
        tee.both(&line, few).same();
    }
}

#[test]
fn everything_goes_to_many_outputs() {
    let Some(tee) = gnu() else { return };
    let names: Vec<_> = (0..60).map(|number| format!("c{number}")).collect();
    tee.both(&format!("cat large | tee {} | cksum", names.join(" ")), few).same();
    tee.both(&format!("tee -a {} <a", names.join(" ")), few).same();
}

#[test]
fn a_large_stream_is_passed_on_whole_through_small_pipes() {
    let Some(tee) = gnu() else { return };
    let bytes = large().len();
    let check = |folder: &Path| few(folder);
    let both = tee.both("cat large large large large | tee c | cat | tee d | wc -c", check);
    both.same();
    assert_eq!(String::from_utf8_lossy(&both.ours.stdout).trim(), (4 * bytes).to_string());
}
