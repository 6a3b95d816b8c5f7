//! What ours does that this version of the classic does not, or not in this way.

use crate::bench_devices::Loop;
use crate::calls::may_trace;
use crate::program::{as_nobody, installed, may_mount, shell};

/// Runs the lines in a folder with a file `a` and an older `c`.
pub(super) fn in_folder(lines: &str) -> crate::program::Done {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display();
    shell(&format!("cd {path} && echo one >a && echo old >c && touch -d @1 c && {lines}"))
}

#[test]
fn update_takes_the_words_of_later_versions() {
    let done = in_folder("$bytepath cp --update=none a c && cat c").well();
    assert_eq!(done.stdout, "old\n");
    let done = in_folder("$bytepath cp --update=none-fail a c; echo $?; cat c");
    assert_eq!(
        (done.stdout.as_str(), done.stderr.as_str()),
        ("1\nold\n", "cp: not replacing 'c'\n")
    );
    let done = in_folder("$bytepath cp --update=older a c && cat c").well();
    assert_eq!(done.stdout, "one\n");
    let done = in_folder("touch -d @0 a; $bytepath cp -u --update=all a c && cat c").well();
    assert_eq!(done.stdout, "one\n");
}

/// As `-n` does, which every version of the classic has.
#[test]
fn links_replace_nothing_where_nothing_is_to_be_replaced() {
    let linked = |words: &str| {
        let done = in_folder(&format!(
            "{words} a c; echo $?; cat c; {words} a new; echo $?; stat -c '%F %h' c new"
        ));
        (done.stdout, done.stderr.replace("'c'", "c"))
    };
    for make in ["-l", "-s", "-lf", "-sf"] {
        let left = linked(&format!("cp {make} -n"));
        assert_eq!(linked(&format!("$bytepath cp {make} --update=none")), left, "{make}");
        let told = left.0.replacen('0', "1", 1);
        let failed = linked(&format!("$bytepath cp {make} --update=none-fail"));
        assert_eq!(failed, (told, "cp: not replacing c\n".into()), "{make}");
    }
}

#[test]
fn attributes_only_leaves_the_bytes_of_what_is_there_also_where_files_appear_whole() {
    let done = in_folder(
        "chmod 640 a && $bytepath cp --atomic --attributes-only --preserve=mode a c && cat c && stat -c %a c && \
         $bytepath cp --atomic --attributes-only a new && stat -c %s new",
    );
    assert_eq!(done.well().stdout, "old\n640\n0\n");
}

/// The classic links the symbolic link again, which then leads to itself, and the bytes are gone.
#[test]
fn what_is_written_through_a_link_keeps_its_bytes_where_its_source_has_other_names() {
    for options in ["-a", "-au", "-a --resume", "-a --atomic", "-dL"] {
        let done = in_folder(&format!(
            "ln a b && mkdir t && echo older >t/b && touch -d @1 t/b && ln -s b t/a && \
             $bytepath cp {options} a b t && cat t/a t/b && test t/a -ef t/b"
        ));
        assert_eq!(done.well().stdout, "one\none\n", "{options}");
    }
}

#[test]
fn debug_tells_the_truth_about_each_file() {
    let done = in_folder("$bytepath cp --debug --reflink=never a d; $bytepath cp --debug -n a c");
    let wanted =
        "'a' -> 'd'\ncopy offload: avoided, reflink: no, sparse detection: no\nskipped 'c'\n";
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), (wanted, ""));
    let done = in_folder(
        "truncate -s 1M h; echo x >>h; $bytepath cp --debug h i | tail -1; \
         $bytepath cp --debug --sparse=always h j | tail -1",
    );
    let lines: Vec<_> = done.stdout.lines().collect();
    assert!(lines[0].ends_with("sparse detection: SEEK_HOLE"), "{lines:?}");
    assert!(lines[1].ends_with("sparse detection: SEEK_HOLE + zeros"), "{lines:?}");
}

#[test]
fn links_to_directories_are_kept_on_request() {
    let prepare = "mkdir -p s/d real && echo x >s/d/x && mkdir t && ln -s ../real t/d &&";
    let done = in_folder(&format!(
        "{prepare} $bytepath cp -r --keep-directory-symlink s/. t && cat real/x"
    ));
    assert_eq!(done.well().stdout, "x\n");
    let done = in_folder(&format!("{prepare} $bytepath cp -r s/. t; ls real"));
    assert_eq!(done.stdout, "");
    assert!(
        done.stderr.contains("cannot overwrite non-directory 't/./d' with directory 's/./d'"),
        "{done:?}"
    );
}

#[test]
fn the_plan_is_explained_and_a_route_can_be_named() {
    let done =
        in_folder("$bytepath cp --explain-plan a d; $bytepath cp --route read-write a f; cat d f");
    assert_eq!(done.stdout, "one\none\n");
    assert!(done.stderr.contains("came: 4 bytes by "), "{}", done.stderr);
    assert!(done.stderr.contains("/a' to '") && done.stderr.contains("/d': by "), "{done:?}");
}

/// A file of 8 MiB that is different everywhere: several calls for every route.
const LARGE: &str = "seq 1200000 | head -c 8388608 >large &&";

#[test]
fn an_atomic_copy_that_is_killed_leaves_what_was_there_and_nothing_else() {
    if !may_trace() {
        return;
    }
    let moments =
        ["read:signal=KILL:when=4", "fsync:signal=KILL:when=1", "linkat:signal=KILL:when=1"];
    for moment in moments {
        let strace = format!("strace -f -qqq -o /dev/null -P $(pwd -P)/large -e inject={moment}");
        // Only calls on the source are counted; the others are made on the copy. The kernel alone
        // would copy it all in one call.
        let (strace, route) = match moment.starts_with("read") {
            true => (strace, " --route read-write"),
            false => (strace.replace("-P $(pwd -P)/large ", ""), ""),
        };
        for (sink, left) in [("c", "a c large"), ("new", "a c large")] {
            let done = in_folder(&format!(
                "{LARGE} {{ {strace} $bytepath cp --atomic{route} large {sink}; }} 2>/dev/null; \
                 echo $?; ls -A | tr '\\n' ' '; cat c"
            ));
            assert_eq!(done.stdout, format!("137\n{left} old\n"), "{moment} {sink}: {done:?}");
        }
    }
}

#[test]
fn what_an_atomic_copy_parts_or_puts_aside_has_its_name_until_the_copy_is_whole() {
    if !may_trace() {
        return;
    }
    let fault = "strace -f -qqq -o /dev/null -e trace=fsync -e inject=fsync";
    for (options, sink, there, made) in [
        ("-a", "c", "a c e l n", "one\n old\n"),
        ("-a", "l", "a c e l n", "one\n old\n"),
        ("--preserve=links", "c", "a c e l n", "one\n old\n"),
        ("--remove-destination", "c", "a c e l n", "one\n old\n"),
        ("--remove-destination", "l", "a c e l n", "one\n old\n"),
        ("-b", "c", "a c c~ e l n", "one\n old\n old\n"),
        ("-b", "l", "a c e l l~ n", "one\n old\n old\n"),
        ("-a --backup=numbered", "c", "a c c.~1~ e l n", "one\n old\n old\n"),
        ("-a --attributes-only -b", "c", "a c c~ e l n", " old\n old\n"),
        ("-f", "e", "a c e l n", "one\n old\n"),
    ] {
        let options = format!("--atomic {options}");
        let done = in_folder(&format!(
            "ln c n; ln -s c l; ln -s e e; \
             {{ {fault}:signal=KILL $bytepath cp {options} a {sink}; }} 2>/dev/null; \
             ls -A | grep -v '~$' | tr '\\n' ' '; cat c n; readlink l e; rm -f *~; \
             {fault}:error=EIO:when=1 $bytepath cp -v {options} a {sink} 2>/dev/null | grep removed; \
             ls -A | tr '\\n' ' '; cat c n; readlink l e; \
             $bytepath cp -v {options} a {sink} | grep removed; ls -A | tr '\\n' ' '; \
             for f in {sink} n *~; do [ ! -f $f ] || (cat $f; echo -n ' '); done; stat -c %a {sink}"
        ));
        let as_it_was = "a c e l n old\nold\nc\ne\n";
        let mode = done.stdout.lines().last().unwrap_or_default();
        // GNU cp says so before it copies; here it is so once the copy has the name.
        let removed = match options.contains("-b") {
            true => String::new(),
            false => format!("removed '{sink}'\n"),
        };
        let wanted = format!("{as_it_was}{as_it_was}{removed}{there} {made}{mode}\n");
        assert_eq!(
            (done.stdout.as_str(), done.stderr.as_str()),
            (&wanted[..], ""),
            "{options} {sink}"
        );
    }
}

/// NFS, FUSE and others make no files without a name.
#[test]
fn an_atomic_copy_that_is_interrupted_leaves_nothing_where_every_file_has_a_name() {
    if !may_trace() {
        return;
    }
    let done = in_folder(
        "head -c 64M /dev/zero >large && \
         strace -f -qqq -o calls -e trace=openat $bytepath cp --atomic --route read-write large new && \
         at=$(grep openat calls | grep -n O_TMPFILE | head -1 | cut -d: -f1) && rm new calls && \
         { strace -f -qqq -o /dev/null -e trace=openat,write -e inject=write:signal=TERM:when=5 \
            -e inject=openat:error=EOPNOTSUPP:when=$at $bytepath cp --atomic --route read-write large new; } \
            2>/dev/null; echo $?; ls -A; \
         strace -f -qqq -o calls -e trace=openat -e inject=openat:error=EOPNOTSUPP:when=$at \
            $bytepath cp --atomic --route read-write large new && grep -c bytepath- calls; cmp large new; ls -A",
    );
    assert_eq!(done.stdout, "143\na\nc\nlarge\n1\na\nc\ncalls\nlarge\nnew\n", "{done:?}");
}

/// Runs a program for which no file without a name can be made.
const NAMED_ALONE: &str = r#"
import ctypes, os, platform, struct, sys

def instruction(code, then, otherwise, number):
    return struct.pack("HBBI", code, then, otherwise, number)

openat = {"x86_64": 257, "aarch64": 56}[platform.machine()]
text = b"".join([
    instruction(0x20, 0, 0, 0),
    instruction(0x15, 0, 3, openat),
    instruction(0x20, 0, 0, 32),
    instruction(0x45, 0, 1, 0o20000000),
    instruction(0x06, 0, 0, 0x50000 | 95),
    instruction(0x06, 0, 0, 0x7FFF0000),
])
room = ctypes.create_string_buffer(text)
filter = struct.pack("HxxxxxxQ", len(text) // 8, ctypes.addressof(room))
prctl = ctypes.CDLL(None).prctl
assert prctl(38, 1, 0, 0, 0) == 0 and prctl(22, 2, filter, 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])
"#;

#[test]
fn whoever_copies_beside_others_leaves_no_passing_name_when_a_signal_comes() {
    if !installed("python3") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let named = folder.path().join("named.py");
    std::fs::write(&named, NAMED_ALONE).expect("a script");
    let done = in_folder(&format!(
        "for i in $(seq 8); do mkdir -p s/$i; for j in $(seq 150); do echo $j >s/$i/$j; done; \
         for j in $(seq 20); do head -c 400K /dev/zero >s/$i/l$j; done; done; \
         for jobs in 1 4 4 4; do rm -rf t; mkdir t; \
         python3 {} $bytepath cp -r --atomic --jobs=$jobs s t 2>said & \
         until find t -name '.bytepath-*' 2>/dev/null | grep -q . || ! kill -0 $!; do :; done; \
         kill -TERM $!; wait $!; echo $?; find t -name '.bytepath-*'; done",
        named.display()
    ));
    assert_eq!(done.stdout, "143\n".repeat(4), "{done:?}");
}

#[test]
fn a_name_on_its_way_to_another_is_removed_when_a_signal_comes() {
    if !may_trace() {
        return;
    }
    // The signal comes and ends each before anything is renamed, and strace waits as long as it said.
    let done = in_folder(
        "ended() { mkdir $1; cp a c $1; cd $1; strace -D -f -qqq -o /dev/null -e trace=renameat \
           -e inject=renameat:delay_enter=5000000 $bytepath cp --atomic $2 a c 2>/dev/null & \
           until ls .bytepath-* >/dev/null 2>&1 || ! kill -0 $!; do :; done; kill -TERM $!; \
           wait $!; echo $? >../told-$1; ls -A >>../told-$1; cat c >>../told-$1; }; \
         ended file '' & ended name -lf & ended link -sf & wait; cat told-*",
    );
    assert_eq!(done.stdout, "143\na\nc\nold\n".repeat(3), "{done:?}");
}

/// As in a file that is copied over.
#[test]
fn what_replaces_a_file_keeps_what_is_said_of_it_beside_its_bytes() {
    if !crate::program::root() || !installed("python3") {
        println!("skipped: needs root and python3");
        return;
    }
    for options in ["", "--atomic", "--atomic --resume"] {
        let done = in_folder(&format!(
            "chown 12:34 c && chmod 6751 c && \
             python3 -c 'import os; os.setxattr(\"c\", \"user.k\", b\"v\")' && \
             $bytepath cp {options} a c && stat -c '%a %u %g' c && cat c && \
             python3 -c 'import os; print(os.getxattr(\"c\", \"user.k\"))'"
        ));
        assert_eq!(done.well().stdout, "6751 12 34\none\nb'v'\n", "{options}");
    }
}

#[test]
fn what_the_group_of_a_replaced_file_may_do_no_other_group_may() {
    if !crate::program::root() || !["setpriv", "setfacl"].into_iter().all(installed) {
        return println!("skipped: needs root, setpriv and setfacl");
    }
    for (owner, mode, more, kept) in [
        // Whose owner cannot be kept has its group all the same.
        ("3002:3050", "664", "", "3001 3050 664"),
        ("3001:3060", "664", "", "3001 3001 644"),
        ("3001:3060", "640", "", "3001 3001 600"),
        ("3001:3060", "604", "", "3001 3001 600"),
        ("3001:3060", "640", "setfacl -m u:5:rw d/f;", "3001 3001 600"),
        // The mode says 664 then.
        ("3001:3060", "604", "setfacl -m u:5:rw d/f;", "3001 3001 600"),
    ] {
        for options in ["", "--resume"] {
            let done = in_folder(&format!(
                "chmod 755 .; chown 3001 a; chmod 600 a; mkdir d; chmod 777 d; echo old >d/f; \
                 chown {owner} d/f; chmod {mode} d/f; {more} \
                 setpriv --reuid 3001 --regid 3001 --groups 3050 $bytepath cp --atomic {options} a d/f && \
                 stat -c '%u %g %a' d/f && cat d/f"
            ));
            assert_eq!(done.well().stdout, format!("{kept}\none\n"), "{owner} {mode} {more}");
        }
    }
}

#[test]
fn an_atomic_copy_is_whole_and_has_the_mode_of_what_it_replaces() {
    let done = in_folder(&format!(
        "{LARGE} chmod 640 c; ln c other; ln -s c link; mkdir d; umask 022; chmod 755 large; \
         $bytepath cp --atomic large link && cmp large c && stat -c %a c && cat other && \
         readlink link && $bytepath cp --atomic -v large d/new && cmp large d/new && \
         stat -c %a d/new && ls -A d && echo x | $bytepath cp --atomic /dev/stdin piped && cat piped"
    ));
    let wanted = "640\nold\nc\n'large' -> 'd/new'\n755\nnew\nx\n";
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), (wanted, ""));
    let done = in_folder("$bytepath cp --atomic -r . d; $bytepath cp --atomic -pb a c; ls; cat c");
    assert_eq!(done.stdout, "a\nc\nc~\nd\none\n");
}

#[test]
fn an_atomic_copy_that_does_not_reach_the_device_says_what_did_not() {
    if !may_trace() {
        return;
    }
    for (when, what, there) in
        [(1, "error syncing 'c'", "old"), (2, "error syncing the directory of 'c'", "new")]
    {
        for options in ["", "--resume", "--json -"] {
            // A part is there once more, before it is given away.
            let when = if options == "--resume" && when == 2 { 3 } else { when };
            let done = in_folder(&format!(
                "echo old >c; echo new >a; strace -f -qqq -o /dev/null \
                 -e inject=fsync:error=EIO:when={when} $bytepath cp --atomic {options} a c >told; \
                 echo $?; cat c; [ ! -s told ] || grep -c \"{what}: \" told"
            ));
            let said = format!("cp: {what}: Input/output error\n");
            assert_eq!(done.stderr, said, "{options}: {done:?}");
            let counted = if options.starts_with("--json") { "1\n" } else { "" };
            assert_eq!(done.stdout, format!("1\n{there}\n{counted}"), "{options}: {done:?}");
        }
    }
}

#[test]
fn what_has_no_device_is_verified_and_what_is_not_on_it_is_told() {
    let done = in_folder(
        "echo 500 >s; for how in --verify '--verify --fsync'; do \
         $bytepath cp $how s /proc/self/oom_score_adj || exit 1; done",
    );
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
    if !may_trace() {
        return;
    }
    // A file system that was shut down.
    let lines = "echo new >s; for how in --verify --fsync --atomic --progress=durable; do \
                 strace -f -qqq -o /dev/null -e inject=fsync,fdatasync:error=EROFS \
                 $bytepath cp $how s new; echo $?; done";
    let done = in_folder(lines);
    let said = "cp: error syncing 'new': Read-only file system";
    assert_eq!(done.stdout, "1\n1\n1\n1\n", "{done:?}");
    assert_eq!(done.stderr.matches(said).count(), 4, "{done:?}");
}

/// The part of an earlier run stands for one that a file system gave other permissions than it was made
/// with, as those do that keep none.
#[test]
fn where_no_modes_are_kept_an_atomic_copy_keeps_silent() {
    if !may_trace() {
        return;
    }
    let part = ": >.new.bytepath-part; chmod 644 .new.bytepath-part";
    let made = |before: &str, words: &str, error: &str| {
        in_folder(&format!(
            "umask 022; echo new >a; {before}; strace -f -qqq -o /dev/null \
             -e inject=fchmod,fchmodat:error={error} $bytepath cp --atomic {words} a new; \
             echo $?; cat new"
        ))
    };
    for (before, words, error, why) in [
        (part, "--resume", "EPERM", None),
        (part, "--resume", "ENOSYS", None),
        (part, "--resume", "EOPNOTSUPP", None),
        ("touch new; chmod 600 new", "", "EPERM", None),
        ("true", "--resume", "EPERM", Some("Operation not permitted")),
        // Whatever else is wrong is told of.
        (part, "--resume", "EIO", Some("Input/output error")),
        (part, "--resume", "EROFS", Some("Read-only file system")),
    ] {
        let done = made(before, words, error);
        let told = |why| format!("cp: preserving permissions for 'new': {why}\n");
        let said = why.map(told).unwrap_or_default();
        let found = (done.stdout.as_str(), done.stderr.as_str());
        assert_eq!(found, ("0\nnew\n", said.as_str()), "{before}: {done:?}");
    }
}

#[test]
fn a_name_that_only_a_directory_can_have_is_given_to_no_atomic_copy() {
    for options in ["", "--resume", "-u", "-n", "-T", "--jobs 1"] {
        let done = in_folder(&format!(
            "mkdir e; ln -s nowhere e/l; for name in e/new/ e/zz// e/l/; do \
             $bytepath cp --atomic {options} a $name; echo $?; done; ls -F e; [ ! -e nowhere ]"
        ));
        let said: String = ["e/new/", "e/zz//", "e/l/"]
            .map(|name| format!("cp: cannot create regular file '{name}': Not a directory\n"))
            .concat();
        let found = (done.stdout.as_str(), done.stderr.as_str());
        assert_eq!(found, ("1\n1\n1\nl@\n", said.as_str()), "{options}");
    }
}

#[test]
fn an_atomic_copy_needs_no_proc() {
    if !may_mount() {
        return;
    }
    let done = in_folder(
        "mkdir -p t/d; echo two >t/d/f; cp -r t u; echo three >t/d/f; ln -s c l; ln -s $PWD/l l2; \
         unshare -m sh -c 'mount -t tmpfs none /proc && $bytepath cp --atomic a new && \
         $bytepath cp --atomic a l2 && $bytepath cp --atomic -rT t u' && \
         cat new c u/d/f && readlink l && ls -A . u/d",
    );
    let names = ".:\na\nc\nl\nl2\nnew\nt\nu\n\nu/d:\nf\n";
    assert_eq!(done.well().stdout, format!("one\none\nthree\nc\n{names}"));
}

#[test]
fn a_directory_that_no_atomic_copy_can_be_made_in_is_named() {
    let Some(nobody) = as_nobody() else { return };
    for options in ["", "--resume"] {
        let done = in_folder(&format!(
            "chmod 755 .; mkdir d; cp c d; chmod 666 d/c; chmod 555 d; \
             {nobody} $bytepath cp --atomic {options} a d/c; {nobody} $bytepath cp --atomic a d/new; \
             cd d; {nobody} $bytepath cp --atomic {options} ../a c; cat c; chmod 755 ."
        ));
        let (denied, made) = ("Permission denied", "--atomic makes a new file in");
        let said = [
            format!(
                "cp: cannot create regular file 'd/c': {denied} ({made} 'd', which may not be written)"
            ),
            format!("cp: cannot create regular file 'd/new': {denied}"),
            format!(
                "cp: cannot create regular file 'c': {denied} ({made} '.', which may not be written)\n"
            ),
        ];
        assert_eq!((done.stdout, done.stderr), ("old\n".to_owned(), said.join("\n")), "{options}");
    }
}

#[test]
fn a_file_that_ends_at_the_largest_offset_is_verified() {
    let max = i64::MAX;
    let done = in_folder(&format!(
        "d=$(mktemp -d -p /dev/shm) && truncate -s {max} $d/a && \
         printf x | dd of=$d/a bs=1 seek=$(({max} - 10)) conv=notrunc status=none && \
         for options in --verify --resume '--resume --uncached --verify'; do \
         $bytepath cp $options $d/a $d/b; echo $?; done; rm -r $d"
    ));
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("0\n0\n0\n", ""));
}

#[test]
fn a_file_that_ends_at_the_largest_offset_is_kept_out_of_the_page_cache_as_others_are() {
    let done = in_folder(
        "d=$(mktemp -d -p /dev/shm) && printf data >$d/a && truncate -s 9223372036854775807 $d/a && \
         $bytepath cp --route fadvise $d/a $d/b; echo $?; head -c 4 $d/b; stat -c ' %s' $d/b; rm $d/b; \
         $bytepath cp --uncached $d/a $d/b; echo $?; head -c 4 $d/b; rm -r $d",
    );
    assert_eq!(done.stdout, "0\ndata 9223372036854775807\n0\ndata");
    assert!(!done.stderr.contains("can be neither told nor dropped"), "{done:?}");
}

#[test]
fn a_copy_that_differs_is_found_by_verify() {
    let done = in_folder(&format!(
        "{LARGE} mkdir e; $bytepath cp --verify large new && \
         $bytepath cp -a --verify --fsync large new e && cmp large e/new"
    ));
    done.well();
    if !may_trace() {
        return;
    }
    // The kernel is made to say that it wrote what it did not.
    let lie = "strace -f -qqq -o /dev/null -e inject=write:retval=131072:when=2";
    let cp = "$bytepath cp --verify --route read-write large new";
    let done = in_folder(&format!("{LARGE} {lie} {cp}"));
    // What follows moves up, and may begin with the same digits.
    done.refused(1, &["cp: 'new' differs from 'large' at byte 1310"]);
}

#[test]
fn what_cannot_be_verified_or_replaced_is_refused_before_anything_is_written() {
    for (words, told) in [
        ("--verify f new", "cp: cannot verify 'new': 'f' is neither a file nor"),
        ("--verify a f", "cp: cannot verify 'f': 'f' is neither a file nor"),
        ("--verify a pipe", "cp: cannot verify 'pipe': 'pipe' is neither a file nor"),
        ("--atomic a f", "cp: cannot replace 'f', which is no file: leave out --atomic"),
        ("--atomic a pipe", "cp: cannot replace 'pipe', which is no file: leave out --atomic"),
        ("--atomic --resume a f", "cp: cannot replace 'f', which is no file: leave out --atomic"),
    ] {
        let done = in_folder(&format!(
            "mkfifo f && ln -s f pipe && $bytepath cp {words}; echo $?; [ -e new ] || [ ! -p f ] || echo as ever"
        ));
        let (code, left) = ("1\nas ever\n", done.stderr.starts_with(told));
        assert!(done.stdout == code && left, "{words}: {done:?}");
    }
    // What a link that leads nowhere names would be written as it appears.
    let done = in_folder(
        "ln -s nowhere l; export POSIXLY_CORRECT=1; for how in --atomic '--atomic --resume' ''; do \
         $bytepath cp $how a l; echo $?; ls -A | tr '\\n' ' '; done",
    );
    let told = "cp: not writing through dangling symlink 'l': leave out --atomic to do so\n";
    assert_eq!(done.stdout, "1\na c l 1\na c l 0\na c l nowhere ", "{done:?}");
    assert_eq!(done.stderr, told.repeat(2));
    // Nor is what is there taken away.
    let done = in_folder(
        "mkfifo f && echo old >new && $bytepath cp --verify --remove-destination f new; cat new",
    );
    assert_eq!(done.stdout, "old\n", "{done:?}");
}

#[test]
fn a_copy_on_a_device_is_verified_as_far_as_it_goes_and_never_whole_at_once() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let Some(device) = Loop::new(folder.path()) else { return };
    let disk = &device.path;
    let lines = |lines: &str| shell(&format!("cd {} && {lines}", folder.path().display()));
    let done = lines(&format!(
        "seq 90000 | head -c 400001 >mix && truncate -s 500000 mix && $bytepath cp --verify mix {disk} && \
         cmp -n 500000 mix {disk} && tail -c 1 {disk} | od -An -tu1 && \
         $bytepath cp --verify {disk} image && cmp {disk} image && \
         $bytepath cp --direct --verify --reflink=never mix {disk} 2>/dev/null && cmp -n 500000 mix {disk}"
    ));
    assert_eq!(done.well().stdout, "   7\n");
    let done = lines(&format!("$bytepath cp --atomic image {disk}; cmp -n 500000 mix {disk}"));
    assert_eq!(
        done.stderr,
        format!(
            "cp: cannot replace '{disk}', which is no file: leave out --atomic to write into it\n"
        )
    );
    if !may_trace() {
        return;
    }
    // The kernel is made to say that it wrote what it did not.
    let done = lines(&format!(
        "seq 80000 | head -c 400000 >other && strace -f -qqq -o /dev/null -e inject=write:retval=131072:when=2 \
         $bytepath cp --verify --route read-write other {disk}"
    ));
    done.refused(1, &[&format!("cp: '{disk}' differs from 'other' at byte ")]);
}

#[test]
fn fsync_brings_files_and_directories_to_the_device() {
    if !may_trace() {
        return;
    }
    let done = in_folder(
        "mkdir d && echo x >d/x && strace -f -qqq -e trace=fsync -o said \
         $bytepath cp -r --fsync d new && grep -c 'fsync(' said",
    );
    // The file, its directory, and the one that names that.
    assert_eq!(done.well().stdout, "3\n");
    let done = in_folder(
        "mkdir -p s/p t && for i in $(seq 20); do echo $i >s/$i; done && echo x >s/p/x && \
         strace -f -qqq -e trace=fsync -o said $bytepath cp --fsync s/[0-9]* t && grep -c 'fsync(' said; \
         strace -f -qqq -e trace=fsync -o said $bytepath cp --fsync --parents s/p/x t && grep -c 'fsync(' said",
    );
    // Twenty files and the directory that names them; a file and the three above it.
    assert_eq!(done.well().stdout, "21\n4\n");
    let done = in_folder(
        "strace -f -qqq -e trace=fsync -o said $bytepath cp --fsync --attributes-only -p a new && \
         grep -c 'fsync(' said",
    );
    assert_eq!(done.well().stdout, "2\n");
}

#[test]
fn a_copy_that_was_read_again_to_be_verified_has_the_access_time_of_its_source() {
    let done = in_folder("touch -a -d @1000 a && $bytepath cp -p --verify a new && stat -c %X new");
    assert_eq!(done.well().stdout, "1000\n");
}

#[test]
fn an_atomic_clone_that_cannot_be_removes_nothing() {
    let done =
        in_folder("$bytepath cp --atomic --reflink=always a /dev/shm/bytepath-test-clone; ls a");
    let (first, rest) = done.stderr.split_once('\n').unwrap_or_else(|| panic!("{done:?}"));
    assert!(first.contains("failed to clone") && rest.is_empty(), "{done:?}");
}

#[test]
fn progress_is_shown_and_told_on_request() {
    let done = in_folder(&format!("{LARGE} $bytepath cp --progress large new"));
    assert!(done.stderr.contains("1 file, 8 MiB, "), "{done:?}");
    // Where no bytes are copied there is no end of them to come to.
    let done =
        in_folder("mkdir s && touch s/$(seq -s ' s/' 500) && $bytepath cp --progress -rl s t");
    assert!(!done.stderr.contains(" of "), "{done:?}");
    // It has opened the FIFO, so it has begun to answer.
    let done = in_folder(
        "mkfifo f; $bytepath cp f new 2>said & exec 9>f; kill -USR1 $!; \
         until [ -s said ]; do :; done; echo fed >&9; exec 9>&-; wait $!; echo $?; cat new said",
    );
    assert!(done.stdout.starts_with("0\nfed\n0 files, 0 B, "), "{done:?}");
}

#[test]
fn progress_that_may_have_no_thread_says_so() {
    if !may_trace() {
        return;
    }
    let done = in_folder(&format!(
        "{LARGE} strace -f -qqq -o /dev/null -e trace=clone3,clone -e inject=clone3,clone:error=EAGAIN \
         $bytepath cp --progress large new && cmp large new"
    ));
    let said =
        "cp: no thread for --progress: Resource temporarily unavailable; the job goes on without\n";
    assert_eq!((done.status.code(), done.stderr.as_str()), (Some(0), said));
}

/// The last destination is a FIFO that nobody reads until the total was shown.
#[test]
fn progress_counts_neither_holes_nor_further_names_and_what_is_skipped_as_done() {
    for (prepare, words, wanted) in [
        (
            "truncate -s 20M holes && cat a >>holes && truncate -s 9M nothing",
            "holes nothing",
            "2 of 3 files, 4 B of 4 B, ",
        ),
        ("ln a b && ln a d", "-a --copy-contents a b d", "1 of 2 files, 4 B of 4 B, "),
        ("cp -p a t", "-u a c", "2 of 3 files, 8 B of 8 B, "),
        ("ln a b && cp -p a b t", "-au --copy-contents a b c", "2 of 3 files, 8 B of 8 B, "),
        // A file that is left out by the first of its names, or by the second, is copied by the other.
        (
            "ln a b && cp c t/a && printf 'n\\ny\\n' >said2",
            "-ai a b c <said2",
            "2 of 3 files, 8 B of 8 B, ",
        ),
        (
            "ln a b && cp c t/b && printf 'n\\ny\\n' >said2",
            "-ai a b c <said2",
            "2 of 3 files, 8 B of 8 B, ",
        ),
        (
            "truncate -s 20M holes && cat a >>holes && truncate -s 20M t/holes",
            "--resume holes",
            "1 of 2 files, 4 B of 4 B, ",
        ),
    ] {
        let done = in_folder(&format!(
            "mkdir t && mkfifo t/z && touch -d @1 t/z && touch z && {prepare} && \
             {{ $bytepath cp --progress {words} z t 2>said & }} && \
             until grep -q '{wanted}' said || [ $(grep -c ' of ' said) -gt 50 ]; do :; done; \
             cat t/z; wait; cat said"
        ));
        assert!(done.stdout.contains(wanted), "{words}: {done:?}");
        // A total that was shown stays.
        if wanted.contains("8 B") {
            let count = |words| done.stdout.matches(words).count();
            assert_eq!(count(" of "), count(" of 3 files, ") + count(" of 8 B, "), "{done:?}");
            let bounded = count(" or less left") + count(", ? left");
            assert!(words.contains('<') || count(" left") == bounded, "{done:?}");
            let skipped = usize::from(!words.contains('<'));
            assert_eq!(count("; 1 file skipped"), skipped, "{done:?}");
        }
    }
}

/// What is verified is brought to the device first, which takes long here.
#[test]
fn progress_says_that_it_verifies() {
    if !may_trace() {
        return;
    }
    let done = in_folder(&format!(
        "{LARGE} for i in 1 2 3 4 5; do cat large; done >big; mkdir t; \
         strace -f -qqq -o /dev/null -e trace=fdatasync -e inject=fdatasync:delay_exit=1500000:when=1 \
         $bytepath cp --verify --progress --jobs 1 big large t && cmp big t/big"
    ));
    // The job's total stays, and how long it takes is not known meanwhile.
    let mut lines = done.stderr.lines().filter(|line| line.contains("verifying"));
    let is_whole = |line: &str| {
        line.starts_with("0 of 2 files, 40 MiB of 48 MiB, ") && line.ends_with("/s, verifying 0%")
    };
    assert!(lines.any(is_whole), "{done:?}");
    assert!(lines.all(|line| !line.contains(" left")), "{done:?}");
}

#[test]
fn progress_knows_what_a_device_holds_and_not_what_a_fifo_will() {
    // Whoever reads the FIFO does not, so that it is never over.
    let done = in_folder(
        "mkfifo f && exec 9<>f && truncate -s 20M holes && { $bytepath cp --progress holes f 2>said & } && \
         until grep -q ' of ' said; do :; done; kill $!; wait; cat said",
    );
    assert!(
        done.stdout.contains("0 of 1 file, ") && done.stdout.contains(" of 20 MiB"),
        "{done:?}"
    );
    let done = in_folder(
        "mkfifo f && exec 9<>f && { $bytepath cp --progress --metrics m.prom f new 2>said & } && echo fed >f && \
         until grep -q '4 B, ' said; do :; done; kill $!; wait; cat said; ! grep -q ^bytepath_expected m.prom",
    );
    assert!(!done.stdout.contains(" of 1 file") && done.status.success(), "{done:?}");
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let Some(device) = Loop::new(folder.path()) else { return };
    let wanted = "1 of 2 files, 1 MiB of 1 MiB, ";
    let done = in_folder(&format!(
        "mkdir t && mkfifo t/z && touch z && {{ $bytepath cp --progress {} z t 2>said & }} && \
         until grep -q '{wanted}' said || [ $(grep -c ' of ' said) -gt 50 ]; do :; done; \
         cat t/z; wait; cat said",
        device.path
    ));
    assert!(done.stdout.contains(wanted), "{done:?}");
}
