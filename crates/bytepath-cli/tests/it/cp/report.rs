//! What `cp` tells of what it did, and how it gets past the page cache and to the device.

use bytepath_report::{Copied, CopiedEntry, EntryKind, Outcome};
use serde_json::Value;

use crate::calls::may_trace;
use crate::program::{Done, as_published, installed, may_mount, root, shell};

fn in_folder(lines: &str) -> Done {
    let folder = tempfile::tempdir().expect("a folder");
    shell(&format!(
        "cd {} && seq 1200000 | head -c 8388608 >large && {lines}",
        folder.path().display()
    ))
}

/// The document, after it was held against the published schema.
#[track_caller]
fn document(text: &str) -> Copied {
    let value: Value = serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"));
    as_published("cp", &value);
    serde_json::from_value(value).expect("it is what the types say")
}

const TREE: &str = "mkdir -p t/d; cp large t/a; echo hi >t/d/b; ln t/d/b t/d/b2; ln -s b t/d/l; \
                    mkfifo t/f; printf x >\"t/$(printf 'n\\377')\";";

#[test]
fn what_was_done_is_one_document() {
    let done = in_folder(&format!("{TREE} $bytepath cp -a --json - t new")).well();
    let told = document(&done.stdout);
    assert_eq!((told.files, told.directories, told.links), (3, 2, 1), "{told:?}");
    assert_eq!((told.hard_links, told.specials, told.failed), (1, 1, 0), "{told:?}");
    assert_eq!((told.bytes, told.exit), ((8 << 20) + 4, 0));
    assert_eq!(told.routes.values().sum::<u64>(), told.bytes, "{told:?}");
    assert!(told.errors.is_empty() && told.seconds > 0.0, "{told:?}");
    // What is whole is told apart, and the file of another run is replaced.
    let done = in_folder(&format!(
        "{TREE} cp -a t new; echo old >said; truncate -s 5M new/a; rm new/d/l; \
         $bytepath cp -aT --resume --json said t new && cat said"
    ));
    let told = document(&done.well().stdout);
    assert_eq!((told.files, told.kept, told.kept_bytes), (1, 2, (5 << 20) + 4), "{told:?}");
    assert_eq!(told.bytes, 3 << 20);
    let done = in_folder("$bytepath cp --json said --reflink=never large c; cat said");
    assert_eq!(document(&done.well().stdout).routes.keys().collect::<Vec<_>>(), ["splice"]);
    let done = in_folder("echo x >c; $bytepath cp -n --json - large c");
    assert_eq!(document(&done.stdout).skipped, 1);
    // Newer names of what is one file in the source become one file; the first stays as it is.
    let done = in_folder(
        "mkdir s t; echo 1 >s/a; touch -d @1 s/a; ln s/a s/b; echo 2 >t/a; cp -p t/a t/b; \
         $bytepath cp -auT --json said s t && [ t/a -ef t/b ] && cat said",
    );
    let told = document(&done.well().stdout);
    assert_eq!((told.hard_links, told.skipped, told.files), (1, 1, 0), "{told:?}");
}

#[test]
fn what_is_counted_is_what_was_done() {
    for (words, count, outcome) in [
        ("-s large new", "links", Outcome::Symlinked),
        ("-l large new", "hard_links", Outcome::HardLinked),
        ("--attributes-only large new", "attributes", Outcome::Attributes),
        ("-P link new", "links", Outcome::Copied),
        ("-n large there", "skipped", Outcome::Skipped),
    ] {
        let done = in_folder(&format!(
            "ln -s large link; echo 1 >there; \
             $bytepath cp --json said --json-files - {words}; cat said >&2"
        ));
        let entry: CopiedEntry = serde_json::from_str(&done.stdout).expect("one line");
        assert_eq!((entry.outcome, entry.bytes), (outcome, 0), "{words}: {done:?}");
        let told = serde_json::to_value(document(&done.stderr)).expect("JSON");
        let counts =
            ["files", "directories", "links", "hard_links", "attributes", "specials", "skipped"];
        for name in counts {
            assert_eq!(told[name], u64::from(name == count), "{words}: {name}: {told}");
        }
    }
    let done = in_folder("mkdir d t; echo 1 >d/a; $bytepath cp -R --json - d d t 2>said");
    let told = document(&done.stdout);
    assert_eq!((told.directories, told.files, told.skipped), (1, 1, 1), "{told:?}");
}

#[test]
fn nothing_is_written_over_what_is_copied() {
    for words in [
        "--json-files large large d",
        "--json large large d",
        "--metrics ./large large d",
        "--json-files d large d",
        "--json d large d",
        "--metrics d large d",
        "--json e large ./e",
        "--json e --json-files e large f",
        "--json ./e --metrics e large f",
    ] {
        let done = in_folder(&format!(
            "cp large same; echo old >d; $bytepath cp {words}; echo $?; cmp large same && cat d; ls"
        ));
        assert_eq!(done.stdout, "1\nold\nd\nlarge\nsame\n", "{words}: {done:?}");
        assert!(done.stderr.contains("--"), "{words}: {done:?}");
    }
    in_folder("$bytepath cp --json - large - && cmp large ./-").well();
    // What is met on the way is left as it was, or as it was copied; the rest is copied.
    let trees = "mkdir s d; echo new >s/x; echo more >s/y; echo old >d/x;";
    let done = in_folder(&format!("{trees} $bytepath cp -rT --json d/x s d; echo $?; cat d/x d/y"));
    assert!(done.stdout.starts_with("1\n{\n") && done.stdout.ends_with("}\nmore\n"), "{done:?}");
    assert_eq!(done.stderr, "cp: not replacing 'd/x', which --json writes\n");
    let done = in_folder(&format!("{trees} $bytepath cp -rT --json d/y s d; echo $?; cat d/x d/y"));
    assert_eq!(done.stdout, "1\nnew\nmore\n", "{done:?}");
    let done =
        in_folder(&format!("{trees} $bytepath cp -rT --json-files s/x s d; echo $?; cat d/x d/y"));
    assert_eq!(done.stdout, "1\nold\nmore\n", "{done:?}");
    assert_eq!(done.stderr, "cp: not copying 's/x', which --json-files writes\n");
    // A document of an earlier run is copied, and then replaced.
    let done = in_folder(&format!("{trees} $bytepath cp -rT --json s/x s d && cat d/x s/x"));
    assert!(done.well().stdout.starts_with("new\n{"));
}

#[test]
fn no_name_commands_a_terminal_through_the_document() {
    for options in ["--json -", "--json-files -", "--json - --json-files lines"] {
        let done = in_folder(&format!(
            "mkdir d; name=$(printf 'a\\302\\233\\177b'); cp large $name; \
             $bytepath cp {options} $name missing$name d 2>said; cat lines 2>/dev/null"
        ));
        assert!(done.stdout.contains("a\\u009b\\u007fb"), "{options}: {done:?}");
        assert!(!done.stdout.contains(['\u{9b}', '\x7f']), "{options}: {done:?}");
    }
}

#[test]
fn what_went_wrong_is_in_the_document() {
    let done = in_folder("$bytepath cp --json - large missing large/x . new");
    let told = document(&done.stdout);
    assert_eq!((told.exit, told.errors.len()), (1, 1), "{told:?}");
    assert_eq!(done.stderr, format!("cp: {}\n", told.errors[0].message));
    let done = in_folder("mkdir d; $bytepath cp --json - large missing d; [ -e d/large ]");
    let told = document(&done.stdout);
    assert_eq!((told.files, told.failed, told.exit), (1, 1, 1));
    let error = &told.errors[0];
    assert_eq!(error.message, "cannot stat 'missing': No such file or directory");
    assert_eq!(error.errno, Some(rustix::io::Errno::NOENT.raw_os_error()));
    let names =
        [&error.source, &error.destination].map(|name| name.as_ref().expect("it is of one"));
    assert_eq!(names.map(|name| name.name.as_str()), ["missing", "d/missing"]);
    let done = in_folder("$bytepath cp --json - --parents large new");
    let told = document(&done.stdout);
    assert_eq!((told.exit, told.errors.len()), (1, 1), "{told:?}");
    assert!(done.stderr.starts_with(&format!("cp: {}\n", told.errors[0].message)), "{done:?}");
    for (words, told) in [
        ("--json - -v large c", "--json and --verbose, not both"),
        ("--json - --json-files - large c", "--json and --json-files, not both"),
        ("--json no/such/folder large c", "cannot write no/such/folder"),
        ("--json-files no/such/folder large c", "cannot write no/such/folder"),
    ] {
        in_folder(&format!("$bytepath cp {words}")).refused(1, &[told]);
    }
    let done = in_folder("$bytepath cp --json /dev/full large c; echo $?");
    assert_eq!(
        (done.stdout.as_str(), done.stderr.contains("cannot write /dev/full")),
        ("1\n", true)
    );
}

#[test]
fn so_many_errors_are_told_as_are_asked_for_and_the_others_counted() {
    let line = "$bytepath cp --json - --json-errors";
    for (most, told) in [("0", 0), ("1", 1), ("2", 2), ("3", 3), ("1000000", 3)] {
        let done = in_folder(&format!("{line} {most} x y z ."));
        let document = document(&done.stdout);
        let sources = document.errors.iter().filter_map(|error| error.source.as_ref());
        let names: Vec<_> = sources.map(|source| source.name.as_str()).collect();
        assert_eq!(names, ["x", "y", "z"][..told], "{most}: {done:?}");
        assert_eq!(document.errors_left_out, 3 - told as u64, "{most}: {done:?}");
        assert_eq!(done.stderr.lines().count(), 3, "all are said: {done:?}");
    }
    for most in ["x", "-1"] {
        let said = format!("invalid value '{most}' for '--json-errors");
        in_folder(&format!("{line} {most} x .")).refused(1, &[&said]);
    }
    in_folder("$bytepath cp --json-errors 1 large new").refused(1, &["--json"]);
}

#[test]
fn lines_that_cannot_be_written_take_no_document_along() {
    let done =
        in_folder("$bytepath cp --json said --json-files /dev/full large c; echo $? >&2; cat said");
    let told = document(&done.stdout);
    let message = "cannot write the lines of --json-files: No space left on device (os error 28)";
    assert_eq!(done.stderr, format!("cp: {message}\n1\n"));
    assert_eq!((told.files, told.bytes, told.exit), (1, 8 << 20, 1), "{told:?}");
    assert_eq!(told.errors.iter().map(|error| &error.message).collect::<Vec<_>>(), [message]);
    let done = in_folder("$bytepath cp --json /dev/full --json-files /dev/full large c; echo $?");
    let second = "cannot write /dev/full: No space left on device (os error 28)";
    assert_eq!(done.stderr, format!("cp: {message}\ncp: {second}\n"));
    assert_eq!(done.stdout, "1\n");
    // A reader who left had enough of them.
    let done = in_folder(
        "mkfifo p && exec 8<>p 9>p 8>&- && $bytepath cp --json said --json-files - large c >&9; \
         echo $? >&2; cat said",
    );
    let told = document(&done.stdout);
    assert_eq!(done.stderr, "0\n");
    assert_eq!((told.files, told.bytes, told.exit), (1, 8 << 20, 0), "{told:?}");
    assert!(told.errors.is_empty(), "{told:?}");
}

/// Some file systems (NFS, those with quotas) say only when a file is brought to the device, or closed, that
/// its bytes are lost.
#[test]
fn results_that_are_lost_late_are_told_of_and_those_before_are_kept() {
    if !may_trace() {
        return;
    }
    let faulty = "strace -f -qqq -o /dev/null";
    let done = in_folder(&format!(
        "echo old >said; {faulty} -e inject=fsync,fdatasync:error=EDQUOT \
         $bytepath cp --json said large c; echo $?; cat said; ls"
    ));
    assert_eq!(done.stdout, "1\nold\nc\nlarge\nsaid\n", "{done:?}");
    assert!(done.stderr.contains("cannot write said: Disk quota exceeded"), "{done:?}");
    for (words, told) in [
        ("--json - large c >said", "standard output: Disk quota exceeded"),
        (
            "--json-files said large c",
            "cannot write the lines of --json-files: Disk quota exceeded",
        ),
        (
            "--json-files - large c >said",
            "cannot write the lines of --json-files: Disk quota exceeded",
        ),
        ("--json said large c", "cannot write said: Disk quota exceeded"),
    ] {
        // What is no regular file is written as it is.
        let special = if words.starts_with("--json said") {
            "rm said; mkfifo said; cat said >/dev/null &"
        } else {
            ""
        };
        let done = in_folder(&format!(
            ">said; {special} {faulty} -P $(pwd -P)/said -e inject=close:error=EDQUOT \
             $bytepath cp {words}; echo $?"
        ));
        assert!(done.stdout.ends_with("1\n") && done.stderr.contains(told), "{words}: {done:?}");
    }
}

/// Directories of 300 files each, of which nobody may read every fiftieth, nor what `closed` holds; and a
/// place that is full before large files have theirs.
const FAILING: &str = "for d in a b c d; do mkdir -p t/$d/sub; for n in $(seq 300); do \
                       echo $n $d >t/$d/f$n; done; head -c 200000 large >t/$d/sub/s; done; \
                       for d in a b c d; do for n in 50 100 150 200 250 300; do \
                       chmod 0 t/$d/f$n; done; done; mkdir -p t/c/closed/x; chmod 0 t/c/closed; \
                       chmod 777 .;";

#[test]
fn several_threads_tell_the_same_in_the_same_order_as_one() {
    if !root() || !installed("setpriv") {
        return println!("skipped: to become nobody takes root, and setpriv");
    }
    let told = |words: &str| {
        let done = in_folder(&format!(
            "{FAILING} setpriv --reuid 65534 --clear-groups $bytepath cp {words} --json - t new"
        ));
        let told = document(&done.stdout);
        let messages: Vec<_> = told.errors.iter().map(|error| error.message.clone()).collect();
        let said: String = messages.iter().map(|message| format!("cp: {message}\n")).collect();
        assert_eq!(done.stderr, said, "in the order in which it was said");
        for error in &told.errors {
            let source = &error.source.as_ref().expect("it is of one").name;
            assert!(error.message.contains(source.as_str()), "{error:?}");
        }
        told
    };
    for words in ["-r", "-rp", "-r --reflink=never"] {
        let [one, several] = [1, 4].map(|jobs| told(&format!("--jobs {jobs} {words}")));
        assert_eq!((several.files, several.directories), (4 * 295, 9), "{several:?}");
        assert_eq!((several.failed, several.errors.len(), several.exit), (25, 25, 1));
        assert_eq!(several.routes.values().sum::<u64>(), several.bytes);
        let same = |told: &Copied| {
            let mut errors: Vec<_> = told.errors.iter().map(|e| e.message.clone()).collect();
            // Every tree has its own order, that of its inodes.
            errors.sort();
            (told.files, told.directories, told.failed, told.bytes, told.routes.clone(), errors)
        };
        assert_eq!(same(&one), same(&several), "{words}");
    }
}

#[test]
fn trees_that_take_a_large_stack_are_told_of_as_others_are() {
    if !root() || !installed("setpriv") {
        return println!("skipped: to become nobody takes root, and setpriv");
    }
    // 100 levels, some of them closed to nobody, others with a file that is; the limit on stacks, in
    // KiB, says on which level the large one begins: 3, 8 or 64.
    const DEEP: &str = "chmod 777 .; p=t; for n in $(seq 100); do mkdir $p; echo $n >$p/f; \
                        case $n in 1|7|8|9|63|64|65|66|99) mkdir $p/x; echo >$p/g; \
                        chmod 0 $p/x $p/g; esac; p=$p/d; done;";
    let told = |stack: u32| {
        let done = in_folder(&format!(
            "{DEEP} ulimit -s {stack}; setpriv --reuid 65534 --clear-groups \
             $bytepath cp -rp --json - t new; diff -r t new | grep -v '^Only in t.*: g$'"
        ));
        let end = done.stdout.find("\n}\n").unwrap_or_else(|| panic!("{stack}: {done:?}")) + 3;
        assert_eq!(&done.stdout[end..], "", "{stack}: {done:?}");
        let told = document(&done.stdout[..end]);
        assert_eq!(
            (told.files, told.directories, told.failed),
            (100, 100, 18),
            "{stack}: {told:?}"
        );
        let errors = told.errors.iter().map(|e| (e.message.clone(), e.source.clone()));
        let errors: Vec<_> = errors.collect();
        assert!(errors.iter().all(|(message, source)| {
            source.as_ref().is_some_and(|source| message.contains(source.name.as_str()))
        }));
        errors.into_iter().map(|(message, _)| message).collect::<Vec<_>>()
    };
    let [large, small, least] = [8192, 1024, 400].map(told);
    let sorted = |mut messages: Vec<String>| {
        messages.sort();
        messages
    };
    let large = sorted(large);
    assert_eq!((&sorted(small), &sorted(least)), (&large, &large));
    // Less than the large one takes.
    let done =
        in_folder(&format!("{DEEP} ulimit -v 260000; $bytepath cp -r t new; find new | wc -l"));
    let (path, above) = (format!("'t{}'", "/d".repeat(64)), 64 * 2 + 5 + 6);
    assert!(done.stderr.contains(&format!("cannot go deeper than {path}: no memory for a stack")));
    assert_eq!(done.stdout, format!("{above}\n"), "{done:?}");
}

#[test]
fn a_directory_that_fails_at_the_end_counts_whatever_failed_in_it() {
    if !root() || !installed("setpriv") {
        return println!("skipped: to become nobody takes root, and setpriv");
    }
    for jobs in [1, 2, 4] {
        let done = in_folder(&format!(
            "chmod 755 .; mkdir -p t/closed out/t; chmod 700 t/closed; chmod 777 out/t; \
             for n in $(seq 300); do head -c 30000 large >t/f$n; done; \
             setpriv --reuid 65534 --clear-groups $bytepath cp -r --preserve=timestamps --jobs {jobs} \
             --json - t out"
        ));
        let told = document(&done.stdout);
        assert_eq!((told.files, told.directories, told.failed), (300, 0, 2), "{jobs}: {told:?}");
        let messages: Vec<_> = told.errors.iter().map(|error| error.message.as_str()).collect();
        let times = "preserving times for 'out/t': Operation not permitted";
        assert_eq!(messages, ["cannot access 't/closed': Permission denied", times]);
    }
}

#[test]
fn the_first_thousand_errors_are_those_of_the_tree() {
    if !may_mount() {
        return;
    }
    for jobs in [1, 4] {
        let done = in_folder(&format!(
            "mkdir m t; for n in $(seq 2000); do head -c 8000 large >t/f$n; done; unshare -m sh -c \
             'mount -t tmpfs -o size=1m none m && $bytepath cp -r --jobs {jobs} --json - t m/'"
        ));
        let told = document(&done.stdout);
        let said: Vec<_> = done.stderr.lines().collect();
        let messages: Vec<_> =
            told.errors.iter().map(|error| format!("cp: {}", error.message)).collect();
        assert!(said.len() > 1000 && messages.len() == 1000, "{} {}", said.len(), messages.len());
        assert_eq!(told.errors_left_out as usize, said.len() - 1000);
        assert_eq!(messages, said[..1000], "{jobs}");
    }
}

#[test]
fn where_a_small_file_stopped_is_told() {
    if !may_mount() {
        return;
    }
    let done = in_folder(
        "mkdir m t; head -c 100000 large >t/s; unshare -m sh -c 'mount -t tmpfs -o size=64k none m && \
         $bytepath cp -r --reflink=never --json - t m/new'",
    );
    let told = document(&done.stdout);
    assert_eq!((told.failed, told.exit, told.errors.len()), (1, 1, 1), "{told:?}");
    let error = &told.errors[0];
    assert_eq!(error.errno, Some(rustix::io::Errno::NOSPC.raw_os_error()));
    let reached = error.offset.expect("it was begun");
    assert!((1..=65_536).contains(&reached), "{error:?}");
    assert_eq!(told.bytes, reached);
}

#[test]
fn what_was_copied_of_a_file_that_fails_part_way_counts() {
    let told = |done: &Done, errno: rustix::io::Errno, wanted: std::ops::RangeInclusive<u64>| {
        let told = document(&done.stdout);
        assert_eq!((told.failed, told.exit, told.errors.len()), (1, 1, 1), "{told:?}");
        assert_eq!(told.errors[0].errno, Some(errno.raw_os_error()));
        let reached = told.errors[0].offset.expect("it was begun");
        assert!(wanted.contains(&reached), "{told:?}");
        assert_eq!((told.bytes, told.routes.values().sum()), (reached, reached), "{told:?}");
    };
    // Where blocks of zeros are looked for: those of 512 bytes that one file may have.
    let done =
        in_folder("trap '' XFSZ; ulimit -f 1000; $bytepath cp --sparse=always --json - large new");
    told(&done, rustix::io::Errno::FBIG, 512_000..=512_000);
    if may_trace() {
        let done = in_folder(
            "strace -f -qqq -o /dev/null -P $(pwd -P)/large -e inject=read:error=EIO:when=3 \
             $bytepath cp --sparse=always --json - large new",
        );
        told(&done, rustix::io::Errno::IO, 256 << 10..=256 << 10);
        let done = in_folder(
            "cat large large large large large >big && strace -f -qqq -o /dev/null \
             -e inject=fdatasync:error=EIO $bytepath cp --progress=durable --reflink=never --json - \
             big new",
        );
        told(&done, rustix::io::Errno::IO, 32 << 20..=40 << 20);
    }
    if !may_mount() {
        return;
    }
    for route in ["read-write", "splice", "sendfile"] {
        let done = in_folder(&format!(
            "mkdir m; unshare -m sh -c 'mount -t tmpfs -o size=3m none m && \
             $bytepath cp --route {route} --json - large m/new'"
        ));
        told(&done, rustix::io::Errno::NOSPC, 1 << 20..=3 << 20);
    }
    // Each route has its own, whichever was the one that failed.
    let done = in_folder(
        "mkdir m; unshare -m sh -c 'mount -t tmpfs -o size=7m none m && \
         $bytepath cp --json - --metrics said large m/new'; \
         grep ^bytepath_moved_bytes_total said | sed 's/.*route=\"//; s/\"}//' >&2",
    );
    told(&done, rustix::io::Errno::NOSPC, 1 << 20..=7 << 20);
    let routes = document(&done.stdout).routes;
    let routes: Vec<_> = routes.iter().map(|(route, bytes)| format!("{route} {bytes}")).collect();
    let mut metrics: Vec<_> = done.stderr.lines().skip(1).collect();
    metrics.sort_unstable();
    assert_eq!(routes, metrics);
}

#[test]
fn each_entry_has_a_line_on_request() {
    let done = in_folder(&format!("{TREE} $bytepath cp -r --json-files - t new; echo $?"));
    let mut lines: Vec<&str> = done.stdout.lines().collect();
    assert_eq!(lines.pop(), Some("0"), "{done:?}");
    let entries = lines.iter().map(|line| serde_json::from_str(line).expect("an entry"));
    let entries: Vec<CopiedEntry> = entries.collect();
    assert_eq!(entries.len(), 8);
    let of = |name: &str| entries.iter().find(|entry| entry.source.name == name).expect("told of");
    assert_eq!((of("t/a").kind, of("t/a").bytes), (Some(EntryKind::File), 8 << 20));
    assert_eq!((of("t/f").kind, of("t/f").outcome), (Some(EntryKind::Special), Outcome::Copied));
    assert_eq!(
        entries.last().map(|entry| entry.source.name.as_str()),
        Some("t"),
        "when it is done"
    );
    let strange = entries.iter().find_map(|entry| entry.destination.hex.as_deref());
    assert_eq!(strange, Some("6e65772f6eff"));
}

#[test]
fn direct_goes_past_the_page_cache_and_says_where_it_cannot() {
    let done = in_folder(
        "head -c 5000003 large >odd; truncate -s 3M holes; cat large >>holes; \
         $bytepath cp --direct --json - --reflink=never odd new 2>said; cat said >&2; cmp odd new; \
         $bytepath cp --direct holes h 2>/dev/null; cmp holes h; \
         head -c 4097 large >p; $bytepath cp --direct --resume large p 2>/dev/null; cmp large p; \
         $bytepath cp --direct /proc/version v 2>/dev/null; cmp /proc/version v",
    );
    let told = document(&done.stdout);
    let past = ["uring-direct", "linux-aio"].iter().any(|route| told.routes.contains_key(*route));
    assert_eq!((told.bytes, told.exit), (5_000_003, 0), "{told:?}");
    assert!(past || done.stderr.starts_with("cp: --direct: what cannot go past"), "{done:?}");
    let done = in_folder("$bytepath cp --direct --route read-write large c");
    done.refused(1, &["--direct", "cannot be used with", "--route"]);
    if !may_mount() {
        return;
    }
    // It has no device, and knows nothing of direct access.
    let done = in_folder(
        "mkdir m; unshare -m sh -c 'mount -t ramfs none m && $bytepath cp --direct large m/one && \
         $bytepath cp -r --direct large m/one m/two 2>/dev/null; cmp large m/one'",
    );
    assert!(done.status.success(), "{done:?}");
    let note = "cp: --direct: what cannot go past the page cache is copied through it: ";
    assert!(done.stderr.starts_with(note) && done.stderr.lines().count() == 1, "{done:?}");
}

#[test]
fn durable_progress_counts_what_was_brought_to_the_device() {
    if !may_trace() {
        return;
    }
    let done = in_folder(
        "cat large large large large large large large large large large >big && \
         strace -f -qqq -e trace=fdatasync -o said $bytepath cp --progress=durable big new && \
         cmp big new && grep -c 'fdatasync(.*= 0' said",
    );
    // Windows of 32 MiB, and what is left of 80.
    assert_eq!(done.stdout, "3\n", "{done:?}");
    assert!(done.stderr.contains("1 file, 80 MiB, "), "{done:?}");
    let done = in_folder("$bytepath cp --progress=what large new");
    done.refused(1, &["invalid value 'what'", "copied, durable"]);
}
