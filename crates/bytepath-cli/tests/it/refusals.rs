//! Bad input and hostile surroundings: a message with a remedy, the right exit code, no panic.

use std::fs::File;
use std::process::Stdio;

use bytepath::inlets::INLETS;
use bytepath::outlets::{OUTLETS, Use};
use rustix::process::getpid;

use crate::program::{
    BYTEPATH, Done, as_nobody, bytepath, installed, may_mount, root_as_nobody, run, shell, text,
};

/// Ends by itself, however far it gets.
const WRITE: &str = "$bytepath write --bytes-to-pipe 9M";

#[test]
fn unknown_names_are_wrong_usage_and_the_names_that_exist_are_told() {
    let cases: [(&[&str], &[&str]); 12] = [
        (&["write", "--outlet", "nope"], &["'nope' for '--outlet", "wide-tee"]),
        (&["read", "--inlet", "nope"], &["'nope' for '--inlet", "splice-null"]),
        (&["write", "--wait", "nope"], &["wait \"nope\"", "poll-spin"]),
        (&["write", "--fresh", "nope"], &["\"nope\"", "remap"]),
        (&["write", "--placement", "nope"], &["placement \"nope\"", "same-cpu"]),
        (&["bench", "pipes", "--placement", "nope"], &["placement \"nope\"", "same-cpu"]),
        (&["bench", "pipes", "--placement", "1"], &["placement \"1\"", "two CPUs"]),
        (&["bench", "pipes", "--wait", "block,nope"], &["wait \"nope\"", "hybrid"]),
        (&["bench", "pipes", "--peer", "nope"], &["peer \"nope\"", "mbuffer"]),
        (&["bench", "pipes", "--arms", "nope"], &["no arm matches nope", "write-read"]),
        (&["bench", "nope"], &["nope", "Usage"]),
        (&["nope"], &["nope", "Usage"]),
    ];
    for (words, wanted) in cases {
        run(&mut bytepath(words)).refused(2, wanted);
    }
}

#[test]
fn sizes_times_and_numbers_that_are_none_are_wrong_usage() {
    for size in ["0", "0.0K", "K", "1Q", "1.2.3", "99999999999999999999", "-1", "", "1e3", "٣"] {
        for option in ["--buf-size", "--pipe-size", "--bytes-to-pipe"] {
            let word = format!("{option}={size}");
            run(&mut bytepath(&["write", &word])).refused(2, &[option]);
        }
    }
    for option in ["--buf-size=2G", "--pipe-size=1T"] {
        run(&mut bytepath(&["write", option])).refused(2, &["too large", "1 GiB"]);
    }
    for time in ["", "s", "1y", "-1s", "1e9", "99999999999999999999999h"] {
        run(&mut bytepath(&["read", &format!("--time={time}")])).refused(2, &["--time"]);
    }
    for command in [&["bench", "pipes"][..], &["bench", "overhead"], &["read"]] {
        let words = [command, &["--warm-up", "61m"]].concat();
        run(&mut bytepath(&words))
            .refused(2, &["--warm-up", "61m is more than an hour of warm-up"]);
    }
    for word in [
        "--blocks=0",
        "--blocks=1",
        "--blocks=-3",
        "--blocks=x",
        "--until-ci=0",
        "--until-ci=nan",
        "--until-ci=100",
        "--seed=-1",
        "--seed=x",
    ] {
        run(&mut bytepath(&["bench", "pipes", word])).refused(2, &["error: "]);
    }
    run(&mut bytepath(&["write", "--cpu", "-1"])).refused(2, &["error: "]);
    for end in ["write", "read"] {
        run(&mut bytepath(&[end, "--time", "5000000000000000h"])).refused(2, &["100 years"]);
    }
}

#[test]
fn a_word_that_is_no_text_where_text_is_wanted_is_named() {
    let done = shell("exec $bytepath bench cmd true \"$(printf 'a b\\377')\"");
    done.refused(2, &["error: not UTF-8: 'a b'$'\\377'\n"]);
}

#[test]
fn options_that_exclude_each_other_are_wrong_usage() {
    for words in [
        &["write", "--outlet", "gift", "--write-with-vmsplice"][..],
        &["read", "--inlet", "read", "--read-with-splice"],
        &["write", "--busy-loop", "--wait", "block"],
        &["write", "--poll", "--wait", "block"],
        &["write", "--huge-page", "--hugetlb"],
        &["write", "--check-huge-page", "--dont-touch-pages"],
        &["write", "--cpu", "0", "--placement", "free"],
        &["bench", "pipes", "--blocks", "3", "--until-ci", "5"],
        &["bench", "pipes", "--list", "--json", "record"],
        &["bench", "pipes", "--list", "--csv", "samples"],
        &["tour", "--size", "1M", "file"],
    ] {
        run(&mut bytepath(words)).refused(2, &["cannot be used with"]);
    }
    run(&mut bytepath(&["bench", "pipes", "--json", "-", "--csv", "-"]))
        .refused(2, &["standard output takes one of --json and --csv"]);
    for words in [
        "pipes --pipe-size 64K,64K",
        "gen --placement free,free",
        "ipc --placement free,free",
        "ipc --latency --placement free,free",
        "ipc --bandwidth --placement free,free",
    ] {
        shell(&format!("exec $bytepath bench {words} --list")).refused(2, &["would run twice"]);
    }
    for experiment in ["pipes", "calls", "files", "gen", "memory"] {
        run(&mut bytepath(&["bench", experiment, "--list", "--arms", "*,pigeon"]))
            .refused(2, &["no arm matches pigeon;"]);
    }
    run(&mut bytepath(&["bench", "pipes", "--arms", "["])).refused(2, &["\"[\" is no pattern"]);
}

#[test]
fn options_without_effect_on_the_outlet_or_inlet_that_is_named_are_wrong_usage() {
    let about = |option: &str, name: &str| format!("{option} has no effect on {name}: ");
    let pages = ["--huge-page", "--hugetlb", "--lock-memory"];
    for outlet in OUTLETS {
        let name = outlet.name();
        let lends = ["vmsplice", "gift"].contains(&name);
        let cases = [
            (&["--fresh", "remap"][..], name == "gift"),
            (&["--gift"], lends),
            (&["--same-buffer"], name == "vmsplice"),
            (&["--dont-touch-pages", "--verify"], false),
        ];
        let has_buffers = outlet.used_for() == Use::Streams;
        let size = (&["--buf-size", "1"][..], has_buffers);
        let pages = pages.iter().map(|page| (std::slice::from_ref(page), has_buffers));
        for (options, _) in
            cases.into_iter().chain([size]).chain(pages).filter(|(_, has_effect)| !has_effect)
        {
            let words = [&["write", "--outlet", name], options].concat();
            let wanted = about(options[0], &format!("the outlet {name}"));
            run(&mut bytepath(&words)).refused(2, &[&wanted, "Usage: bytepath write"]);
        }
    }
    for inlet in INLETS {
        let (name, splices) = (inlet.name(), inlet.name() == "splice-null");
        let idle = match splices {
            true => &["--huge-page", "--hugetlb", "--lock-memory", "--dont-touch-pages"][..],
            false => &["--gift"],
        };
        for option in idle {
            let wanted = about(option, &format!("the inlet {name}"));
            run(&mut bytepath(&["read", "--inlet", name, option]))
                .refused(2, &[&wanted, "Usage: bytepath read"]);
        }
    }
    run(&mut bytepath(&["write", "--fresh", "discard"])).refused(2, &["add --outlet gift"]);
    for end in ["write", "read"] {
        for wait in ["block", "spin", "poll"] {
            let words = [end, "--wait", wait, "--spin-budget", "1us"];
            run(&mut bytepath(&words)).refused(2, &["no effect on the wait", "add --wait hybrid"]);
        }
    }
}

#[test]
fn wrong_usage_that_shows_late_is_told_with_the_usage_of_its_own_command() {
    for (words, usage) in [
        (&["write", "--json", "-"][..], "Usage: bytepath write [OPTIONS]\n"),
        (&["read", "--json", "-", "--csv"], "Usage: bytepath read [OPTIONS]\n"),
        (&["bench", "pipes", "--arms", "nope"], "Usage: bytepath bench pipes [OPTIONS]\n"),
        (
            &["bench", "overhead", "--json", "-", "--csv", "-"],
            "Usage: bytepath bench overhead [OPTIONS]\n",
        ),
    ] {
        run(&mut bytepath(words)).refused(2, &["error: ", usage, "try '--help'"]);
    }
}

#[test]
fn the_writer_puts_no_report_into_the_pipe() {
    let done = shell("$bytepath write --json - --bytes-to-pipe 1K");
    assert_eq!(done.refused(2, &["standard output is the pipe", "--json a file"]).stdout, "");
}

#[test]
fn a_pipe_above_the_limit_is_refused_with_the_limit() {
    let words = ["cannot set the pipe to 1 GiB", "pipe-max-size"];
    for outlet in ["write", "vmsplice", "gift", "tee", "wide-tee"] {
        let Some(nobody) = as_nobody() else { return };
        let line = format!("{nobody}{WRITE} --outlet {outlet} --pipe-size 1G | cat");
        let done = shell(&line);
        for word in words {
            assert!(done.stderr.contains(word), "{outlet}: {done:?}");
        }
        assert_eq!(done.stdout, "", "{outlet}");
    }
    shell(&format!("{WRITE} --pipe-size 1M >/dev/null")).refused(1, &["has no pipe size"]);
    let line = "echo x | $bytepath read --pipe-size 1G";
    let Some(nobody) = as_nobody() else { return };
    shell(&line.replace("$bytepath", &format!("{nobody}$bytepath"))).refused(1, &words);
}

#[test]
fn closed_and_wrong_descriptors_are_named() {
    for (line, words) in [
        ("$bytepath read 0>/dev/null", &["not open for reading"][..]),
        ("$bytepath write 1</dev/null", &["not open for writing"]),
        ("$bytepath read </", &["is a directory"]),
        ("$bytepath write --bytes-to-pipe 1K 1</", &["is a directory"]),
    ] {
        shell(line).refused(1, words);
    }
    for nowhere in [">/dev/null", "1<>/dev/null"] {
        shell(&format!("$bytepath write {nowhere}"))
            .refused(2, &["nothing would end the writing into /dev/null"]);
    }
    shell(&format!("{WRITE} >&-")).refused(1, &["standard output is closed", ">&-"]);
    shell("$bytepath read <&-").refused(1, &["standard input is closed", "<&-"]);
    shell("$bytepath read <&- 2>&-; test $? = 1").well();
    for printing in ["bench --list", "history", "completions bash", "doctor", "help", "--version"] {
        shell(&format!("$bytepath {printing} >&-"))
            .refused(1, &["bytepath: standard output: Bad file descriptor"]);
    }
    for (words, name) in [
        ("bench overhead --json -", "bytepath"),
        ("cp --json - /dev/null /dev/zero", "cp"),
        ("cp --json-files - /dev/null /dev/zero", "cp"),
    ] {
        shell(&format!("$bytepath {words} >&-"))
            .refused(1, &[&format!("{name}: standard output: Bad file descriptor")]);
    }
    // What prints nothing does not miss it.
    shell("$bytepath run true >&-").well();
}

#[test]
fn what_cannot_be_written_is_not_taken_for_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().display();
    let bench = "bench cmd --quick --no-store true";
    shell(&format!("$bytepath {bench} --json {at}/record")).well();
    std::fs::write(folder.path().join("read"), "kept\n").expect("it is written");
    for words in [
        "report record --format csv -o -",
        "report record --format csv",
        "report record",
        "history",
        "completions bash",
        "bench --list",
        "doctor",
        "pages $$",
        "pages --json - $$",
        "--help",
        "--version",
        &format!("{bench} --csv -"),
        bench,
    ] {
        shell(&format!("cd {at} && $bytepath {words} 1<read"))
            .refused(1, &["bytepath: standard output: Bad file descriptor"]);
    }
    for classic in ["cp --help", "cat --version", "tee --help"] {
        let done = shell(&format!("cd {at} && $bytepath {classic} 1<read"));
        done.refused(1, &["write error: Bad file descriptor"]);
    }
    shell(&format!("$bytepath run true 1<{at}/read && $bytepath cat /dev/null 1<{at}/read")).well();
    // What is said on standard error is the work of this one.
    shell(&format!("$bytepath run --explain true 2<{at}/read; test $? = 1")).well();
    assert_eq!(std::fs::read_to_string(folder.path().join("read")).expect("it is there"), "kept\n");
}

#[test]
fn outlets_that_need_a_pipe_refuse_everything_else() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    for outlet in ["vmsplice", "gift", "tee", "wide-tee"] {
        let file = File::create(&file).expect("a file");
        let full = File::options().write(true).open("/dev/full").expect("every Linux has it");
        let null = File::options().write(true).open("/dev/null").expect("every Linux has it");
        for (what, sink) in [("file", file), ("device", full), ("null", null)] {
            let words = ["write", "--bytes-to-pipe", "1M", "--outlet", outlet];
            let mut command = bytepath(&words);
            let child = command.stdout(sink).stderr(Stdio::piped()).output().expect("it runs");
            let said = String::from_utf8_lossy(&child.stderr).into_owned();
            assert_eq!(child.status.code(), Some(1), "{outlet} into {what}: {said}");
            assert!(said.contains("needs a pipe") && said.contains("outlet write"), "{said}");
        }
    }
    assert_eq!(std::fs::metadata(&file).map(|file| file.len()).ok(), Some(0));
    for source in ["/dev/zero", BYTEPATH] {
        shell(&format!("$bytepath read --inlet splice-null <{source}"))
            .refused(1, &["needs a pipe", "inlet read"]);
    }
}

#[test]
fn a_disk_is_not_filled_by_mistake() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("file");
    let words = ["into a file", "--bytes-to-pipe or --time"];
    shell(&format!("$bytepath write >'{}'", file.display())).refused(2, &words);
    assert_eq!(std::fs::metadata(&file).map(|file| file.len()).ok(), Some(0));
    shell(&format!("$bytepath write --time 20ms >'{}'", file.display())).well();
    assert!(std::fs::metadata(&file).is_ok_and(|file| file.len() > 0));
}

#[test]
fn a_full_device_is_reported_with_the_byte_reached() {
    let words = ["writing failed at byte 0", "No space left", "free some space"];
    shell(&format!("{WRITE} >/dev/full")).refused(1, &words);
    shell("$bytepath bench pipes --list >/dev/full").refused(1, &["No space left"]);
    shell("head -c 1000 /dev/zero | $bytepath read >/dev/full").refused(1, &["No space left"]);
    shell("head -c 1000 /dev/zero | $bytepath read --json /dev/full")
        .refused(1, &["cannot write /dev/full", "No space left"]);
}

#[test]
fn a_limit_on_the_size_of_files_is_reported_with_the_byte_reached() {
    if !installed("prlimit") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (source, sink) = (folder.path().join("source"), folder.path().join("sink"));
    std::fs::write(&source, vec![b'x'; 100_000]).expect("a file");
    let words = ["writing failed at byte 65536", "File too large", "ulimit -f"];
    let (source_name, sink_name) = (source.display(), sink.display());
    for command in [
        "write --outlet write --bytes-to-pipe 99999",
        "write --outlet writev --bytes-to-pipe 99999",
        "carry --route read-write",
        "carry --route splice",
        "carry --route sendfile",
        "carry --route copy-file-range",
    ] {
        let input = if command.contains("splice") { "cat $source |" } else { "<$source" };
        let line = format!(
            "source={source_name}; {input} prlimit --fsize=65536 $bytepath {command} >{sink_name}"
        );
        shell(&line).refused(1, &words);
        assert_eq!(std::fs::metadata(&sink).map(|file| file.len()).ok(), Some(65_536), "{command}");
    }
    let record = folder.path().join("record");
    let line = format!(
        "head -c 10 /dev/zero | prlimit --fsize=10 $bytepath read --json {}",
        record.display()
    );
    shell(&line).refused(1, &["cannot write", "File too large"]);
    assert!(!record.exists());
}

/// The memory of a process has none at its first byte, and says so as a failing device does.
#[test]
fn a_source_that_fails_is_reported_with_the_byte_reached() {
    let words = ["reading failed at byte 0", "Input/output error", "dmesg"];
    for command in ["read", "read --inlet read-touch", "carry --route read-write"] {
        // The shell stays, and with it its memory.
        let done = shell(&format!("$bytepath {command} </proc/$$/mem; exit $?"));
        if done.stderr.contains("Permission denied") {
            println!("skipped: memory may not be read here");
            return;
        }
        assert_eq!(done.refused(1, &words).stdout, "", "{command}");
    }
}

#[test]
fn a_file_system_that_fills_up_is_reported_with_the_byte_reached() {
    for verify in ["", "--verify"] {
        let line = format!("{WRITE} {verify} --buf-size 64K >$small/file");
        let Some(done) = on_small(&line) else { return };
        let done = done.refused(1, &["writing failed at byte 1048576", "No space left"]);
        assert!(!done.stderr.contains("could not be written: they are in the error"), "{done:?}");
    }
}

#[test]
fn a_file_that_is_passed_to_a_full_place_is_told_with_the_place() {
    let big = tempfile::NamedTempFile::new().expect("a file");
    big.as_file().set_len(3 << 20).expect("it grows");
    let big = big.path().display();
    let line = format!(
        "cd $small && \
         $bytepath bench ipc --sink file --file {big} --dir . --placement same-cpu --blocks 2"
    );
    let Some(done) = on_small(&line) else { return };
    let full = ["cannot write to a file in /", ": No space left", "see --dir"];
    let done = done.refused(1, &["no arm can run here"]).refused(1, &full);
    assert!(!done.stderr.contains("EOF") && !done.stderr.contains("the sender"), "{done:?}");
}

#[test]
fn what_tune_measured_is_shown_where_no_room_is_left_to_keep_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let line = format!(
        "head -c 2M /dev/zero >$small/full 2>/dev/null; \
         $bytepath tune --blocks 1 --bytes 256K --dir {} --profile $small/profile.json; \
         code=$?; echo there is $(ls -A $small); exit $code",
        folder.path().display()
    );
    let Some(done) = on_small(&line) else { return };
    let done = done.refused(1, &["cannot write", "profile.json: No space left on device"]);
    assert!(done.stdout.contains("pipe -> pipe"), "{done:?}");
    assert!(!done.stdout.contains("kept in") && !done.stderr.contains("at path"), "{done:?}");
    assert!(done.stdout.ends_with("\nthere is full\n"), "only what filled it: {done:?}");
}

#[test]
fn a_read_only_file_system_takes_no_results() {
    if !may_mount() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let name = folder.path().display();
    let line = format!(
        "unshare -m sh -ec 'mount -t tmpfs -o ro none {name}; \
         exec $bytepath bench pipes --json {name}/record'"
    );
    shell(&line).refused(1, &["cannot write", "Read-only file system"]);
}

#[test]
fn a_file_whose_place_no_other_can_take_is_known_before_anything_is_measured() {
    let Some(nobody) = root_as_nobody() else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().display();
    let begin = format!(
        "cd {at}; chmod 777 .; cp {BYTEPATH} bytepath; mkdir closed; mkdir -m 1777 sticky; umask 0; \
         echo old | tee closed/r sticky/r >mounted"
    );
    shell(&begin).well();
    let bench = "bench cmd --quick --no-store \"touch ran\" --csv";
    for (file, why) in [("closed/r", "Permission denied"), ("sticky/r", "Operation not permitted")]
    {
        shell(&format!("cd {at}; {nobody}./bytepath {bench} {file}"))
            .refused(1, &["cannot write", file, "another cannot take its place", why]);
    }
    if may_mount() {
        let line = format!(
            "cd {at}; unshare -m sh -ec 'mount --bind mounted closed/r; exec \"$@\"' - \
             ./bytepath {bench} closed/r"
        );
        shell(&line).refused(1, &["cannot write closed/r", "take its place", "busy"]);
    }
    let line = format!("cd {at}; cat */r mounted; test ! -e ran && ls -A closed sticky");
    assert_eq!(shell(&line).well().stdout, "old\nold\nold\nclosed:\nr\n\nsticky:\nr\n");
    // Its owner may, and so may root.
    for (who, file) in [("", "sticky/r"), ("", "closed/r"), (nobody, "own")] {
        let line =
            format!("cd {at}; rm -f ran; {who}sh -c 'echo old >{file}; ./bytepath {bench} {file}'");
        shell(&line).well();
        let text = std::fs::read_to_string(folder.path().join(file)).expect("it is there");
        assert!(text.lines().count() >= 4, "{file}: {text}");
    }
}

#[test]
fn files_of_several_arms_are_looked_at_before_any_is_run() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path().display();
    shell(&format!("cd {at}; mkfifo fifo; mkdir r.true.svg; echo old >r.touch_ran.csv")).well();
    let explain = "bench cmd --quick --no-store --explain 'touch ran' true";
    for (words, why) in [
        ("--folded -", "--folded -: each of 2 arms has a file of its own"),
        ("--firefox fifo", "--firefox fifo: each of 2 arms has a file of its own"),
        ("--flame /dev/null", "--flame /dev/null: each of 2 arms has a file of its own"),
        ("--folded r.csv --csv r.touch_ran.csv", "--csv and --folded are one file"),
        ("--folded f --firefox f.true", "--firefox and --folded are one file"),
    ] {
        shell(&format!("cd {at}; $bytepath {explain} {words}")).refused(2, &[why]);
    }
    shell(&format!("cd {at}; $bytepath {explain} --flame r.svg"))
        .refused(1, &["cannot write r.true.svg: Is a directory"]);
    let left = shell(&format!("cd {at}; ls -A; cat *.csv")).well().stdout;
    assert_eq!(left, "fifo\nr.touch_ran.csv\nr.true.svg\nold\n");
}

/// Runs the line where `$small` is a file system of 1 MiB, which nobody else sees and which is gone
/// with the line; `None`, said aloud, where nothing can be mounted.
fn on_small(line: &str) -> Option<Done> {
    if !may_mount() {
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let place = text(folder.path());
    Some(shell(&format!(
        "export small={place}; unshare -m sh -c 'mount -t tmpfs -o size=1M none $small && {line}'"
    )))
}

#[test]
fn results_that_cannot_be_written_are_known_before_anything_is_measured() {
    let missing = "/no-such-folder-of-bytepath/record";
    for option in ["--json", "--csv"] {
        let words = ["bench", "pipes", option, missing];
        let done = run(&mut bytepath(&words));
        let done = done.refused(1, &["cannot write", missing, "No such file or directory"]);
        assert_eq!(done.stdout, "");
    }
    for end in ["write", "read"] {
        // Would wait for ever if it began.
        let end = format!("$bytepath {end} --time 1h --json {missing}");
        let done = shell(&format!("{end} </dev/zero >/dev/null"));
        done.refused(1, &["cannot write", missing]);
    }
    // A folder that is not there either, be it named as one.
    for missing in ["no-such-folder-of-bytepath/", "./no-such-folder-of-bytepath/."] {
        let done = run(&mut bytepath(&["bench", "pipes", "--json", missing]));
        done.refused(1, &["cannot write", missing, "No such file or directory"]);
    }
    let folder = std::env::temp_dir();
    let done = run(&mut bytepath(&["bench", "pipes", "--json", &folder.to_string_lossy()]));
    done.refused(1, &["cannot write", "Is a directory"]);
}

#[test]
fn results_go_neither_over_each_other_nor_over_what_is_read() {
    let folder = tempfile::tempdir().expect("a folder");
    let kept = folder.path().join("kept");
    std::fs::write(&kept, "kept").expect("a file");
    let lost = "what is printed goes to kept, and would be lost";
    for (line, why) in [
        ("explain --json new --flame ./new -- true", "--json and --flame are one file"),
        ("explain --flame new --folded ./new -- true", "--flame and --folded are one file"),
        ("run --explain --json new --firefox ./new true", "--json and --firefox are one file"),
        ("run --json new --metrics ./new true", "--json and --metrics are one file"),
        ("run --metrics kept true >>kept", "--metrics would replace standard output"),
        ("bench cmd true --json kept --explain --flame ./kept", "--json and --flame are one file"),
        ("gen zeros --bytes 1 --json kept >>kept", "standard output and --json are one file"),
        ("gen zeros --bytes 1 --metrics kept >>kept", "standard output and --metrics are one file"),
        ("write --bytes-to-pipe 1 --json kept >>kept", "standard output and --json are one file"),
        ("tune --show --json kept >>kept", lost),
        ("tune --quick --json kept >>kept", lost),
        ("tune --quick --profile kept >>kept", lost),
        ("tune --quick --profile -", "no profile is kept on standard output"),
        ("doctor --json kept >>kept", lost),
        ("bench overhead --csv kept >>kept", lost),
        ("run --json kept true >>kept", lost),
        ("explain --json kept -- true >>kept", lost),
        ("history --json kept >>kept", lost),
        ("report kept -o ./kept --format csv", "-o would be written over 'kept'"),
        ("import kept --json ./kept", "--json would be written over 'kept'"),
        ("doctor --profile kept --json ./kept", "--json would be written over 'kept'"),
        ("explain diff kept#arm kept --flame ./kept", "--flame would be written over 'kept'"),
    ] {
        shell(&format!("cd {} && $bytepath {line}", text(folder.path()))).refused(2, &[why]);
    }
    assert_eq!(std::fs::read_to_string(&kept).expect("it is there"), "kept");
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 1, "nothing is made");
}

#[test]
fn a_run_that_fails_leaves_an_old_record_alone_and_no_new_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    // Longer than what replaces it.
    let kept = "kept ".repeat(1000);
    std::fs::write(&old, &kept).expect("a file");
    for file in [&old, &new] {
        let line = format!("$bytepath read --verify --json {} </dev/zero", file.display());
        shell(&line).refused(1, &["differ from the pattern"]);
    }
    assert_eq!(std::fs::read_to_string(&old).ok().as_deref(), Some(kept.as_str()));
    assert!(!new.exists());
    let line = format!("head -c 10 /dev/zero | $bytepath read --json {}", old.display());
    shell(&line).well();
    let text = std::fs::read_to_string(&old).expect("the report");
    assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok(), "{text}");
}

#[test]
fn cpus_that_are_not_there_or_not_allowed_are_refused() {
    shell(&format!("{WRITE} --cpu 99999 >/dev/null"))
        .refused(1, &["cannot run on CPU 99999", "choose one of these"]);
    if !installed("taskset") {
        return;
    }
    let cpus = bytepath::machine::Machine::this().allowed_cpus();
    let first = cpus.first().expect("a CPU");
    let on_one = format!("taskset -c {first} $bytepath");
    // The kernel would take it: it is in our cpuset.
    if let Some(other) = cpus.iter().nth(1) {
        shell(&format!("{on_one} read --cpu {other} </dev/null >/dev/null"))
            .refused(1, &[&format!("cannot run on CPU {other}"), "choose one of these"]);
    }
    let list = shell(&format!("{on_one} bench pipes --arms write-read --list")).well();
    assert_eq!(list.stdout, "write-read@same-cpu\n", "one CPU has one placement");
    for command in ["bench pipes --list", "write --time 1s"] {
        shell(&format!("{on_one} {command} --placement cross-cpu >/dev/null"))
            .refused(1, &["no placement cross-cpu", "it has free, same-cpu"]);
    }
}

#[test]
fn memory_that_may_not_be_locked_is_refused_with_the_limit() {
    let Some(nobody) = as_nobody() else { return };
    if !installed("prlimit") {
        return;
    }
    for (end, data) in [("write --bytes-to-pipe 1M", ">/dev/null"), ("read", "</dev/zero")] {
        let line = format!("prlimit --memlock=0:0 {nobody}$bytepath {end} --lock-memory {data}");
        shell(&line).refused(1, &["cannot lock 256 KiB", "RLIMIT_MEMLOCK"]);
    }
}

#[test]
fn an_empty_pool_of_huge_pages_is_refused_with_the_setting() {
    let _turn = crate::bench_memory::turn();
    let pool = std::fs::read_to_string("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
    if pool.is_ok_and(|free| free.trim() != "0") {
        println!("skipped: the pool of huge pages is not empty");
        return;
    }
    for (end, data) in [("write --bytes-to-pipe 1M", ">/dev/null"), ("read", "</dev/zero")] {
        let line = format!("$bytepath {end} --hugetlb {data}");
        shell(&line).refused(1, &["hugetlb pages", "the pool is empty", "nr_hugepages"]);
    }
}

#[test]
fn more_memory_than_may_be_mapped_is_refused() {
    if !installed("prlimit") {
        return;
    }
    let line = "prlimit --as=300000000 $bytepath read --buf-size 1G </dev/zero";
    shell(line).refused(1, &["cannot map 1 GiB", "Cannot allocate memory"]);
}

#[test]
fn an_end_whose_starter_is_gone_does_not_begin() {
    // This process is not the parent of the shell's children.
    let line = format!("$bytepath read --starter {} </dev/zero; true", getpid());
    let done = shell(&line);
    assert!(done.stderr.contains("the process that started this is gone"), "{done:?}");
    run(&mut bytepath(&["read", "--starter", "x"])).refused(2, &["no process"]);
}
