//! What stands in the way of a copy: limits of the process, failing devices, destinations that may
//! not be written, and sources that change while they are copied.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{directory, file, gnu, gnu_on_disk, mode, some};
use crate::calls::may_trace;
use crate::program::{installed, may_mount, root, shell};

#[test]
fn a_limit_on_the_size_of_files_is_told_of_and_the_rest_is_copied() {
    let Some(cp) = gnu() else { return };
    let large = |work: &Path| {
        some(work);
        file(&work.join("large"), &vec![5; 300_000], 1);
    };
    // 200 blocks of 512 bytes, in dash(1) and POSIX.
    for line in [
        "trap '' XFSZ; ulimit -f 200; cp large new; echo $?; cmp large new",
        "trap '' XFSZ; ulimit -f 200; cp --reflink=never large a b e; echo $?; ls e",
        "ulimit -f 200; cp large new; echo $?",
    ] {
        let both = cp.both(&format!("{line} 2>&1"), large);
        assert_eq!(both.ours.end, both.theirs.end, "{line}");
        both.same_words();
    }
}

#[test]
fn a_copy_that_ends_short_leaves_no_blocks_behind_its_end() {
    let folder = tempfile::tempdir().expect("a folder");
    // Ended by the signal, by an error, and well; what is set aside on ext4 is 4 MiB.
    let line = format!(
        "cd {} && head -c 9000000 /dev/urandom >large && sync large && \
         (ulimit -f 4096; $bytepath cp large one); (trap '' XFSZ; ulimit -f 4096; $bytepath cp large two); \
         $bytepath cp large three && cmp large three && stat -c '%s %b %B' one two three",
        folder.path().display()
    );
    let done = shell(&line);
    let sizes: Vec<Vec<u64>> = done
        .stdout
        .lines()
        .map(|line| line.split(' ').map(|word| word.parse().expect("a number")).collect())
        .collect();
    let bytes: Vec<u64> = sizes.iter().map(|size| size[0]).collect();
    assert_eq!(bytes, [4096 * 512, 4096 * 512, 9_000_000], "{done:?}");
    for size in sizes {
        assert!(size[1] * size[2] < size[0] + (1 << 20), "{size:?}");
    }
}

#[test]
fn a_limit_on_open_files_that_is_too_low_is_named_and_a_tree_needs_seven() {
    let folder = tempfile::tempdir().expect("a folder");
    let deep = "a/b/c/d/e/f";
    let line = |files: u32| {
        format!(
            "cd {} && mkdir -p top/{deep} && echo deep >top/{deep}/file && echo flat >top/a/file && \
             rm -rf copy && ulimit -n {files} && $bytepath cp -r top copy && diff -r top copy",
            folder.path().display()
        )
    };
    shell(&line(7)).well();
    for files in [4, 6] {
        let limit = format!("cp: no more than {files} files may be open here");
        let refused = shell(&line(files)).refused(1, &["Too many open files", &limit]);
        assert_eq!(refused.stderr.matches("ulimit").count(), 1, "{refused:?}");
    }
}

#[test]
fn few_open_files_are_enough_for_what_the_classic_does_not_do() {
    let folder = tempfile::tempdir().expect("a folder");
    let deep = "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u/v/w/x/y/z";
    let line = format!(
        "cd {} && mkdir -p top/{deep} && echo deep >top/{deep}/file && echo flat >top/a/file && \
         ln top/a/file top/other && ulimit -n 16 && $bytepath cp -a --atomic --fsync top one && \
         rm one/a/file && $bytepath cp -aT --resume --atomic --json said top one && \
         $bytepath cp -aT --resume --verify --json-files lines top one && \
         $bytepath cp -a --progress top two 2>/dev/null && diff -r top two && \
         diff -r top one && wc -l <lines",
        folder.path().display()
    );
    let done = shell(&line).well();
    assert_eq!(done.stdout, "30\n");
}

#[test]
fn a_failing_device_is_told_of_and_the_rest_is_copied() {
    let Some(cp) = gnu() else { return };
    if !may_trace() {
        return;
    }
    let calls = "read,pread64,copy_file_range,sendfile,splice";
    let faulty = format!(
        "strace -f -qqq -o /dev/null -P $(pwd -P)/d/sub/deep/z -e inject={calls}:error=EIO cp"
    );
    for words in ["d/sub/deep/z new", "-r d new", "-r --reflink=never --sparse=never d new"] {
        let both = cp.both(&format!("{faulty} {words}; echo $?; find . | sort"), some);
        let told = &both.ours.stderr;
        assert!(told.contains("'d/sub/deep/z'"), "{told}");
        assert!(told.ends_with(": Input/output error\n") && told.lines().count() == 1, "{told}");
        assert_eq!(both.ours.stdout, both.theirs.stdout, "{words}");
    }
    // Late, and where what was written is brought to the device.
    let folder = tempfile::tempdir().expect("a folder");
    let line = format!(
        "cd {} && seq 200000 >large && \
         strace -f -qqq -o /dev/null -P $(pwd -P)/large -e inject=read:error=EIO:when=3 $bytepath cp \
         --route read-write --json - large new; strace -f -qqq -o /dev/null \
         -e inject=fdatasync:error=EIO $bytepath cp --progress=durable large new 2>said; \
         echo $?; grep -a error said",
        folder.path().display()
    );
    let done = shell(&line);
    assert_eq!(done.stderr, "cp: error reading 'large': Input/output error\n");
    let (document, rest) = done.stdout.split_once("\n}\n").expect("a document");
    let told: serde_json::Value = serde_json::from_str(&format!("{document}}}")).expect("JSON");
    assert_eq!((&told["errors"][0]["errno"], &told["exit"]), (&5.into(), &1.into()));
    assert!(told["errors"][0]["offset"].as_u64() > Some(0), "{told}");
    assert_eq!(rest, "1\ncp: error syncing 'new': Input/output error\n");
}

#[test]
fn a_read_only_destination_is_told_of() {
    let Some(cp) = gnu() else { return };
    if !may_mount() {
        return;
    }
    for words in ["a fixed", "a b fixed/there", "-r d fixed", "-a d a fixed", "-f a fixed/there"] {
        let line = format!(
            "mkdir fixed; echo there >fixed/there; unshare -m sh -c 'mount --bind fixed fixed && \
             mount -o remount,ro,bind fixed && cp {words}; echo $?'"
        );
        let both = cp.both(&line, some);
        both.same();
        assert!(both.ours.stdout.ends_with(b"1\n"), "{}", both.ours.stdout.escape_ascii());
    }
    let both = cp.both(
        "mkdir fixed; unshare -m sh -c 'mount --bind fixed fixed && mount -o remount,ro,bind fixed \
         && cp -a d fixed'",
        some,
    );
    assert!(both.ours.stderr.contains("Read-only file system"), "{}", both.ours.stderr);
}

#[test]
fn access_lists_and_attributes_are_kept_as_the_classic_keeps_them() {
    let Some(cp) = gnu_on_disk() else { return };
    if !installed("setfacl") || !installed("getfacl") {
        return;
    }
    let prepare = |work: &Path| {
        some(work);
        let line = format!(
            "cd {} && setfacl -m u:65533:r,g:65532:rw a && setfacl -m u:65531:--- d/x && \
             setfacl -m u:65530:rwx,d:u:65530:rx,d:g::- d/sub && setfacl -d -m u:65529:rwx e",
            work.display()
        );
        let done = shell(&line);
        assert!(done.status.success(), "{done:?}");
        let flags = rustix::fs::XattrFlags::empty();
        for path in ["a", "d/sub", "d/sub/y"] {
            let set = rustix::fs::setxattr(work.join(path), "user.note", b"some \0 bytes", flags);
            set.expect("the file system keeps attributes");
        }
        super::date(&work.join("d/sub"), 30);
        super::date(&work.join("d"), 31);
    };
    for option in ["-a", "-p", "-r", "--preserve=mode", "--preserve=xattr", "--no-preserve=mode"] {
        for sink in ["new", "e"] {
            let both =
                cp.both(&format!("cp -r {option} d {sink}; cp {option} a {sink}/sub"), prepare);
            both.same();
        }
        // What is copied first gives the directory a default list.
        let line = format!("mkdir t; echo x >plain; cp -r {option} e/. a plain t");
        cp.both(&line, prepare).same();
    }
    let folder = tempfile::tempdir().expect("a folder");
    prepare(folder.path());
    // Ours as well: whatever makes the file, it has the same in the end.
    for options in ["-a", "-a --atomic", "-a --resume", "-a --resume --atomic", "-a --direct"] {
        let done = shell(&format!(
            "cd {} && rm -rf new && $bytepath cp {options} -T d new 2>/dev/null && \
             $bytepath cp {options} a new && of() {{ getfacl \"$1\" && getfattr -d -m user \"$1\"; }} && \
             all() {{ find . ! -type l | sort | while read -r name; do of \"$name\"; done; }} && \
             (of a && cd d && all) >one && (cd new && of a && rm a && all) >other && \
             cmp one other && grep -c user.note one",
            folder.path().display()
        ));
        assert_eq!(done.well().stdout, "3\n", "{options}");
    }
}

#[test]
fn where_an_access_list_is_refused_the_mode_is_kept_as_the_classic_keeps_it() {
    let Some(cp) = gnu_on_disk() else { return };
    if !installed("setfacl") || !installed("getfacl") || !installed("unshare") {
        return;
    }
    if !shell("unshare -Ur true").status.success() {
        return println!("skipped: there are no namespaces of users here");
    }
    // A user that has no number in the namespace.
    let lists = "chmod 664 a; setfacl -m u:1234:r a; chmod 4770 b; setfacl -m u:1234:rw,g::- b; \
                 chmod 2750 d/sub; setfacl -m u:1234:rx,d:u:1234:r d/sub; \
                 setfacl -m d:u:1234:r d/sub/deep; chmod 640 d/fifo; setfacl -m u:1234:r d/fifo; \
                 mkdir gives t; setfacl -d -m u:0:rwx,o::rx gives";
    for line in [
        "cp -p a b t",
        "cp -p a e; cp -p b a",
        "cp -a d t",
        "cp -a d/. e",
        "cp -a a b d gives",
        "cp -r --preserve=mode a d gives",
    ] {
        let line = format!(
            "{lists}; unshare -Ur sh -c '{line}; echo $?'; getfacl -R a t gives e; find . | sort | xargs -d '\\n' stat -c '%a %n'"
        );
        let both = cp.both(&line, some);
        both.same();
        assert!(both.ours.stderr.contains("Invalid argument"), "{}", both.ours.stderr);
    }
}

#[test]
fn access_lists_that_cannot_be_kept_are_told_of_as_the_classic_tells() {
    let Some(cp) = gnu_on_disk() else { return };
    if !root() || !installed("setfacl") {
        return;
    }
    let lines = [
        "setfacl -m u:1:rw a; cp -p a r/x",
        "setfacl -m u:1:rw a; setfacl -b a; cp -p a r/x",
        "setfacl -m u:1:rwx d; cp -a d r/x",
        "setfacl -d -m u:1:rwx d; cp -a d r/x",
        "setfacl -m u:1:rw a; cp --attributes-only --preserve=mode a r/x",
        "echo r >r/x; chmod 666 r/x; chmod 755 . r; setpriv --reuid 65534 --regid 65534 --clear-groups \
         cp --preserve=mode a r/x",
    ];
    let locales = ["C", "C.UTF-8"];
    for (line, locale) in lines.iter().flat_map(|line| locales.map(|locale| (line, locale))) {
        // Of a file system without lists what is left is told, not kept.
        let line = format!(
            "export LC_ALL={locale}; mkdir r; unshare -m sh -c 'mount -t ramfs none r && {{ {line}; echo $?; \
             cd r && find . -printf \"%P %m %s\\n\" | LC_ALL=C sort; }}'"
        );
        let both = cp.both(&line, some);
        let left = String::from_utf8_lossy(&both.ours.stdout);
        assert!(left.contains("\nx "), "{line}: {left}");
        both.same();
    }
}

/// Runs `cp` until it asks about `asked`, then `meanwhile`, then answers; what was said and what is
/// left.
fn while_asked(words: &str, asked: &str, meanwhile: &str) -> crate::program::Done {
    let folder = tempfile::tempdir().expect("a folder");
    let work = folder.path().join("work");
    directory(&work.join("source/in"));
    directory(&work.join("sink/in"));
    for path in ["source/a", "source/in/b", "source/in/c"] {
        file(&work.join(path), b"wanted", 5);
    }
    // Copied in the order of their inodes, which need not be that in which they were made.
    let [b, c, other] = ["b", "c", "other"].map(|name| work.join("source/in").join(name));
    let inode = |path: &Path| path.metadata().expect("it is there").ino();
    if inode(&c) < inode(&b) {
        for (from, to) in [(&b, &other), (&c, &b), (&other, &c)] {
            std::fs::rename(from, to).expect("it is there");
        }
    }
    // The only one that is there already, and asked about.
    file(&work.join(asked), b"old", 1);
    directory(&work.join("elsewhere"));
    for path in ["secret", "elsewhere/b", "elsewhere/c"] {
        file(&work.join(path), b"secret", 1);
    }
    mode(&work.join("secret"), 0o600);
    // The question has no line end; a loop that looks for it costs no more than it takes.
    shell(&format!(
        "cd {}; mkfifo answers; $bytepath cp -i {words} <answers 2>said & exec 9>answers; until grep -q \"overwrite '{asked}'\" said 2>/dev/null; do :; done; {meanwhile}; \
         yes | head -99 >&9; exec 9>&-; wait $!; echo $?; sed 's/[^?]*? //g' said; \
         cat secret elsewhere/*; echo; cat sink/a sink/in/b sink/in/c 2>/dev/null; echo",
        work.display()
    ))
}

#[test]
fn a_symbolic_link_swapped_in_half_way_is_not_followed() {
    if !installed("mkfifo") {
        return;
    }
    let loops = "Too many levels of symbolic links";
    // In the place of the source: it is not read.
    let done = while_asked("-rT source sink", "sink/a", "ln -sf ../secret source/a");
    assert!(done.stdout.starts_with("1\n"), "{done:?}");
    assert!(
        done.stdout.contains(&format!("cannot open 'source/a' for reading: {loops}")),
        "{done:?}"
    );
    assert!(!done.stdout.contains("secretwanted"), "{done:?}");
    // In the place of the destination: what it leads to is not written.
    let done = while_asked("-rT source sink", "sink/a", "ln -sf ../secret sink/a");
    assert!(
        done.stdout.contains(&format!("cannot create regular file 'sink/a': {loops}")),
        "{done:?}"
    );
    assert!(done.stdout.contains("secretsecretsecret\n"), "{done:?}");
    // In the place of a directory, on either side: the one that was entered is gone on with.
    let swap = |side: &str| format!("mv {side}/in {side}-in && ln -s ../elsewhere {side}/in");
    for side in ["source", "sink"] {
        let meanwhile = swap(side);
        let done = while_asked("-rT source sink", "sink/in/b", &meanwhile);
        assert!(done.stdout.starts_with("0\n"), "{side}: {done:?}");
        assert!(done.stdout.contains("secretsecretsecret\n"), "{side}: {done:?}");
        let kept = done.stdout.ends_with("wantedwantedwanted\n");
        assert!(kept || side == "sink", "{done:?}");
    }
}

#[test]
fn a_source_that_vanishes_is_told_of_and_the_rest_is_copied() {
    if !installed("mkfifo") {
        return;
    }
    let none = "No such file or directory";
    let done = while_asked("-rT source sink", "sink/a", "rm source/a");
    assert!(done.stdout.starts_with("1\n"), "{done:?}");
    assert!(
        done.stdout.contains(&format!("cannot open 'source/a' for reading: {none}")),
        "{done:?}"
    );
    assert!(done.stdout.ends_with("oldwantedwanted\n"), "{done:?}");
    let done = while_asked("-rT source sink", "sink/in/b", "rm source/in/c");
    assert!(done.stdout.contains(&format!("cannot stat 'source/in/c': {none}")), "{done:?}");
    assert!(done.stdout.contains("wantedwanted"), "{done:?}");
}

/// Of the directories above only the innermost are held open where few files may be.
#[test]
fn what_the_way_back_no_longer_leads_to_is_told_of_and_the_rest_is_finished() {
    for moved in ["v", "w"] {
        let folder = tempfile::tempdir().expect("a folder");
        let done = shell(&format!(
            "cd {} && mkdir -p v/1/2/3/4 && mkfifo v/1/2/3/4/fifo && chmod 700 v/1 && \
             touch -d @1000 v/1/2/3 v/1 v && \
             {{ (ulimit -n 12; exec $bytepath cp -rp --copy-contents --json said v w) & }} && \
             exec 9>v/1/2/3/4/fifo && mv {moved}/1/2 moved && echo fed >&9 && exec 9>&- && \
             wait $!; echo $?; mv moved {moved}/1/2; cat w/1/2/3/4/fifo; stat -c %Y w/1/2/3; \
             grep -c '\"message\"' said; grep failed said; \
             if [ {moved} = v ]; then stat -c '%Y %a' w/1; stat -c %Y w; fi",
            folder.path().display()
        ));
        let told = |name| format!("cp: cannot access '{moved}{name}': Stale file handle\n");
        assert_eq!(done.stderr, told("/1") + &told(""), "{done:?}");
        // The copy of what is lost on the way back is there all the same.
        let kept = if moved == "v" { "1000 700\n1000\n" } else { "" };
        assert_eq!(done.stdout, format!("1\nfed\n1000\n2\n  \"failed\": 2,\n{kept}"));
    }
}

#[test]
fn holes_of_which_a_file_system_does_not_tell_stay_holes() {
    if !may_trace() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    // The first call tells where the file stands, the second where data is, the third where not.
    let line = |words: &str, told: &str| {
        format!(
            "cd {} && rm -f holes new && echo begin >holes && truncate -s 40M holes && \
             echo end >>holes && \
             strace -f -qqq -o /dev/null -P $(pwd -P)/holes -e inject=lseek:{told} \
             $bytepath cp {words} holes new && cmp holes new && \
             if [ $(stat -c %b new) -gt 1000 ]; then echo filled; fi",
            folder.path().display()
        )
    };
    let size = (40 << 20) + 4;
    let tells_of_none =
        ["error=EINVAL:when=2", "error=EOPNOTSUPP:when=2", &format!("retval={size}:when=3")];
    for words in ["", "--sparse=always", "--route read-write", "--debug"] {
        for told in tells_of_none {
            let done = shell(&line(words, told)).well();
            let said = if words == "--debug" { "sparse detection: zeros\n" } else { "" };
            assert!(
                done.stdout.ends_with(said) && !done.stdout.contains("filled"),
                "{words}: {done:?}"
            );
        }
    }
    let done = shell(&line("--explain-plan", "error=EINVAL:when=2"));
    assert!(
        done.stderr.contains("because of holes that its file system does not tell of"),
        "{done:?}"
    );
    for words in ["--sparse=never", "--route sendfile"] {
        assert_eq!(shell(&line(words, "error=EINVAL:when=2")).well().stdout, "filled\n", "{words}");
    }
}
