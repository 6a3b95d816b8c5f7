//! `--resume`: what an earlier run left is read, and gone on with.

use crate::bench_devices::Loop;
use crate::calls::may_trace;
use crate::program::{Done, as_nobody, root, shell};

/// Runs the lines in a folder with `large`, 8 MiB that are different everywhere, and `part`, what it
/// begins with.
fn in_folder(lines: &str) -> Done {
    let folder = tempfile::tempdir().expect("a folder");
    shell(&format!(
        "cd {} && chmod 755 . && seq 1200000 | head -c 8388608 >large && \
         head -c 3000001 large >part && {lines}",
        folder.path().display()
    ))
}

#[test]
fn a_part_is_continued_and_what_is_whole_is_left() {
    let done = in_folder(
        "$bytepath cp -v --resume large part && cmp large part && stat -c %Y.%y.%i part >before && \
         $bytepath cp --resume large part && stat -c %Y.%y.%i part | cmp before",
    );
    let wanted = "'large' -> 'part'\nwent on with 'part' at byte 3000001\n";
    assert_eq!(done.well().stdout, wanted);
    // What is there is read once, and nothing of it is written again.
    if !may_trace() {
        return;
    }
    let done = in_folder(
        "strace -f -qqq -e trace=write,copy_file_range,pwrite64,sendfile -o said \
         $bytepath cp --resume --route read-write large part && cmp large part && \
         grep -c ' write(' said",
    );
    let writes: u64 = done.well().stdout.trim().parse().expect("a count");
    assert!(writes <= (8 << 20) / (128 << 10), "{writes} writes");
}

#[test]
fn from_and_to_a_block_device_it_goes_on() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let Some(device) = Loop::new(folder.path()) else { return };
    let disk = &device.path;
    let kept = |bytes: u64| format!("\"kept_bytes\": {bytes},");
    for (lines, bytes) in [
        (
            "head -c 600000 DISK >c; $bytepath cp --resume --json - DISK c >said && cmp DISK c",
            600000,
        ),
        ("cat DISK large >c; $bytepath cp --resume --json - DISK c >said && cmp DISK c", 1 << 20),
        (
            "head -c 600000 DISK >.c.bytepath-part; chmod 600 .c.bytepath-part; \
             $bytepath cp --atomic --resume --json - DISK c >said && cmp DISK c",
            600000,
        ),
        (
            "head -c 900001 large >one; dd if=one of=DISK bs=600000 count=1 conv=notrunc 2>/dev/null; \
             stat -c %a.%U DISK >mode; $bytepath cp --resume --json - one DISK >said && \
             cmp -n 900001 one DISK && stat -c %a.%U DISK | cmp - mode",
            600000,
        ),
        (
            "head -c 900001 large >one; $bytepath cp --resume --json - one DISK >said && \
             cmp -n 900001 one DISK",
            900001,
        ),
    ] {
        let lines = format!("{lines} && grep -o '\"kept_bytes.*' said");
        let done = in_folder(&lines.replace("DISK", disk));
        assert_eq!(done.well().stdout.trim(), kept(bytes), "{lines}");
    }
}

#[test]
fn what_cannot_be_read_again_is_copied_anew_with_a_note() {
    let done = in_folder(
        "mkfifo f; { cat large >f & } ; $bytepath cp --resume f part && cmp large part && \
         $bytepath cp --resume large /dev/null",
    );
    let anew = "is neither a file nor a block device: copied anew\n";
    assert!(done.status.success(), "{done:?}");
    assert_eq!(done.stderr, format!("cp: 'f' {anew}cp: '/dev/null' {anew}"));
}

/// One of the calls that compare takes long.
#[test]
fn how_far_it_has_compared_is_shown_and_told_by_an_interruption() {
    if !may_trace() {
        return;
    }
    let slow = "for i in 1 2 3 4 5; do cat large; done >big; head -c 40000000 big >half; \
                strace -D -f -qqq -o /dev/null -e trace=pread64 \
                -e inject=pread64:delay_exit=DELAY:when=100 \
                $bytepath cp --resume --progress --reflink=never big half 2>said";
    let done = in_folder(&format!("{}; cat said", slow.replace("DELAY", "1500000")));
    // It is over where the shorter one ends.
    let how_far = "0 of 1 file, 0 B of 40 MiB, compared 12";
    let of = " MiB of 38.1 MiB\n";
    assert!(done.stdout.contains(how_far) && done.stdout.contains(of), "{done:?}");
    assert!(done.stdout.contains("1 file, 40 MiB, "), "{done:?}");
    let done = in_folder(&format!(
        "{} & until grep -q compared said; do :; done; kill $!; wait $!; echo $?; cat said",
        slow.replace("DELAY", "5000000")
    ));
    assert!(done.stdout.starts_with("143\n"), "{done:?}");
    let told = done.stdout.split_once("interrupted after 0 files, 0 B, at byte ");
    let (at, rest) = told.expect("how far").1.split_once(' ').expect("of what");
    let advice = "of 'big': what was being copied is not whole; the same command goes on\n";
    assert!(rest.starts_with(advice), "{rest}");
    let at: u64 = at.parse().expect("a number");
    assert!((12 << 20..13 << 20).contains(&at), "{at}");
}

/// One of the calls that compare takes long.
#[test]
fn what_is_compared_and_would_not_be_kept_is_not_told_as_copied() {
    if !may_trace() {
        return;
    }
    for (words, kept) in [
        ("--reflink=never", true),
        ("--atomic", false),
        ("--reflink=always", false),
        ("--preserve=links", false),
    ] {
        let done = in_folder(&format!(
            "for i in 1 2 3 4 5; do cat large; done >big; cp big there; ln there other; \
             printf x | dd of=there bs=1 seek=41943039 conv=notrunc 2>/dev/null; \
             strace -D -f -qqq -o /dev/null -e trace=pread64 \
             -e inject=pread64:delay_exit=5000000:when=100 \
             $bytepath cp --resume --progress {words} --metrics m.prom big there 2>said & \
             until grep -q compared said; do :; done; kill $!; wait $!; echo $?; cat said; \
             grep ^bytepath_skipped_bytes m.prom"
        ));
        assert!(done.stdout.starts_with("143\n"), "{words}: {done:?}");
        let nothing = done.stdout.contains("at byte 0 of 'big'");
        let none_skipped = done
            .stdout
            .lines()
            .any(|line| line.starts_with("bytepath_skipped_bytes") && line.ends_with(" 0"));
        assert_eq!((nothing, none_skipped), (!kept, !kept), "{words}: {done:?}");
    }
}

#[test]
fn what_an_earlier_run_copied_is_left_as_it_is_in_the_metrics() {
    let done = in_folder(
        "cp large whole; for name in whole part; do \
         $bytepath cp --resume --metrics m.prom large $name; \
         sed -n 's/^bytepath_\\(skipped\\|expected\\)_bytes.* /\\1 /p' m.prom | sort; done",
    );
    let wanted = "expected 8388608\nskipped 8388608\nexpected 8388608\nskipped 3000001\n";
    assert_eq!(done.well().stdout, wanted);
}

#[test]
fn where_they_differ_the_rest_is_copied_anew() {
    let damage = "printf x | dd of=part bs=1 seek=2000000 conv=notrunc 2>/dev/null";
    let lines = [
        format!("{damage}; $bytepath cp --resume large part && cmp large part"),
        // Longer than the source, with all of it in front.
        "cat large part >long; $bytepath cp --resume large long && cmp large long".into(),
        // Nothing in common, and nothing there.
        "echo other >c; $bytepath cp --resume large c && cmp large c".into(),
        ">c; $bytepath cp --resume large c && cmp large c".into(),
        // The same size, with a gap of zeros as a copying out of order leaves it.
        "cp large gap; fallocate -p -o 1M -l 1M gap 2>/dev/null || dd if=/dev/zero of=gap bs=1M \
         seek=1 count=1 conv=notrunc 2>/dev/null; $bytepath cp --resume large gap && cmp large gap"
            .into(),
        "$bytepath cp --resume /proc/version part && cmp /proc/version part".into(),
        "$bytepath cp --resume --reflink=never --sparse=always large part && cmp large part".into(),
        "$bytepath cp --resume --verify --fsync large part && cmp large part".into(),
    ];
    for line in lines {
        in_folder(&line).well();
    }
}

#[test]
fn holes_are_passed_over_and_kept() {
    let done = in_folder(
        "truncate -s 1G holes; echo end >>holes; printf x | dd of=holes bs=1 seek=500M \
         conv=notrunc 2>/dev/null; truncate -s 700M c; printf x | dd of=c bs=1 seek=500M \
         conv=notrunc 2>/dev/null; $bytepath cp --resume --json - holes c >said; cmp holes c && \
         [ $(stat -c %b c) -lt 1000 ] && grep kept_bytes said",
    );
    assert_eq!(done.well().stdout.trim(), format!("\"kept_bytes\": {},", 700 << 20));
}

#[test]
fn under_atomic_the_old_file_stays_until_the_part_is_whole() {
    let done = in_folder(
        "echo old >c; cp -p part .c.bytepath-part; chmod 600 .c.bytepath-part; chmod 640 c; \
         $bytepath cp -v --atomic --resume large c && cmp large c && stat -c %a c; ls -A",
    );
    let wanted = "'large' -> 'c'\nwent on with 'c' at byte 3000001\n640\nc\nlarge\npart\n";
    assert_eq!(done.well().stdout, wanted);
    // A new one has the mode of its source, whatever its part had.
    let done = in_folder(
        "umask 022; chmod 754 large; $bytepath cp --atomic --resume large n && stat -c %a n; \
         chmod 444 large; cp part .m.bytepath-part; $bytepath cp --atomic --resume large m && \
         stat -c %a m; cmp large m; ls -A",
    );
    assert_eq!(done.well().stdout, "754\n444\nlarge\nm\nn\npart\n");
    // What fails leaves the part for the next run.
    if !may_trace() {
        return;
    }
    let done = in_folder(
        "echo old >c; strace -f -qqq -o /dev/null -P $(pwd -P)/large -e inject=read:signal=KILL:when=4 \
         $bytepath cp --atomic --resume --route read-write large c 2>/dev/null; cat c; ls -A; \
         $bytepath cp -v --atomic --resume large c | tail -1 | cut -c-12; cmp large c; ls -A",
    );
    let wanted = "old\n.c.bytepath-part\nc\nlarge\npart\nwent on with\nc\nlarge\npart\n";
    assert_eq!(done.stdout, wanted, "{done:?}");
    let done = in_folder(
        "cp -p part .c.bytepath-part; chmod 600 .c.bytepath-part; \
         strace -f -qqq -o /dev/null -e trace=renameat -e inject=renameat:error=ENOSPC \
         $bytepath cp --atomic --resume large c 2>/dev/null; echo $?; cmp .c.bytepath-part large; ls -A; \
         $bytepath cp --atomic --resume large c && cmp large c; ls -A",
    );
    let wanted = "1\n.c.bytepath-part\nlarge\npart\nc\nlarge\npart\n";
    assert_eq!(done.stdout, wanted, "{done:?}");
}

#[test]
fn parts_of_others_are_left_alone() {
    // Locked by a program that copies to it.
    let done = in_folder(
        "exec 9>.c.bytepath-part; flock 9; $bytepath cp --atomic --resume large c; echo $?; ls -A",
    );
    assert_eq!(done.stdout, "1\n.c.bytepath-part\nlarge\npart\n", "{done:?}");
    let told = "cp: cannot go on with 'c': another program is copying to it ('.c.bytepath-part' is locked)\n";
    assert_eq!(done.stderr, told);
    // Links are not written through, and what is another user's is not written either.
    let done = in_folder(
        "echo mine >victim; ln -s victim .c.bytepath-part; ln victim .n.bytepath-part; \
         $bytepath cp --atomic --resume large c && cmp large c && \
         $bytepath cp --atomic --resume large n && cmp large n && cat victim",
    );
    assert_eq!(done.well().stdout, "mine\n");
    if root() {
        let done = in_folder(
            "echo mine >.c.bytepath-part; chown 65534 .c.bytepath-part; \
             $bytepath cp --atomic --resume large c && cmp large c && cat .c.bytepath-part",
        );
        assert_eq!(done.well().stdout, "mine\n");
    }
}

/// As on vfat for whoever is not the user of the mount, and on NFS for root.
#[test]
fn where_what_is_made_is_anothers_no_part_is_left() {
    if !may_trace() {
        return;
    }
    let done = in_folder(
        "strace -f -qqq -o /dev/null -e trace=geteuid -e inject=geteuid:retval=1234 \
         $bytepath cp --atomic --resume large c && cmp large c; ls -A",
    );
    assert_eq!(done.well().stdout, "c\nlarge\npart\n");
}

#[test]
fn a_part_that_another_user_may_have_open_is_not_copied_to() {
    if !root() {
        return println!("skipped: to be another user takes root");
    }
    // One that another user made; one of ours, with names of another user's making. All are open.
    for part in ["chown 65534 $p; chmod 666 $p", "chmod 644 $p", "chmod 622 $p"] {
        for names in ["", "ln m/f m/g;"] {
            let done = in_folder(&format!(
                "mkdir m; echo f >m/f; {names} p=m/.f.bytepath-part; echo planted >$p; {part}; chmod 666 m/f; \
                 chown 65534 m m/f; exec 8<$p 9<>$p; chmod 600 large; \
                 $bytepath cp -a --atomic --resume large m/f && cmp large m/f && stat -c '%u %a' m/f; \
                 cat <&8; echo changed >&9; cmp large m/f"
            ));
            assert_eq!(done.well().stdout, "0 600\nplanted\n", "{part} {names}");
        }
    }
    // An ordinary user goes on with a part of its own that all may read, as its source.
    let Some(nobody) = as_nobody() else { return };
    let done = in_folder(&format!(
        "chmod 644 large; mkdir m; chown 65534 m; cp part m/.f.bytepath-part; chmod 644 m/.f.bytepath-part; \
         chown 65534 m/.f.bytepath-part; {nobody}$bytepath cp -v --atomic --resume large m/f | tail -1; \
         cmp large m/f; stat -c %u m/f"
    ));
    assert_eq!(done.well().stdout, "went on with 'm/f' at byte 3000001\n65534\n");
}

#[test]
fn a_part_is_the_copiers_own_until_it_is_whole() {
    if !root() || !may_trace() {
        return println!("skipped: to replace a file of another user, and be traced, takes root");
    }
    for (options, whole) in [("", "65534 666"), ("-a", "0 640"), ("--preserve=mode", "65534 640")] {
        let killed = "-P $(pwd -P)/large -e inject=read:signal=KILL:when=4";
        let done = in_folder(&format!(
            "chmod 640 large; echo old >c; chown 65534 c; chmod 666 c; strace -f -qqq -o /dev/null {killed} \
             $bytepath cp {options} --atomic --resume --route read-write large c 2>/dev/null; \
             stat -c '%u %a' .c.bytepath-part; \
             strace -f -qqq -e trace=fchown,fchmod -e signal=none -o said \
             $bytepath cp -v {options} --atomic --resume large c | tail -1 | cut -c-12; \
             cmp large c; stat -c '%u %a' c; test '{options}' != -a || grep -e 65534 -e 0666 said"
        ));
        assert_eq!(done.stdout, format!("0 600\nwent on with\n{whole}\n"), "{options}: {done:?}");
    }
}

#[test]
fn directories_that_an_earlier_run_made_get_the_default_mode_where_none_is_kept() {
    let done = in_folder(
        "umask 022; mkdir -p s/d t/d; echo x >s/d/x; chmod 700 s s/d t t/d; \
         $bytepath cp -aT --resume --no-preserve=mode s t && stat -c %a t t/d",
    );
    assert_eq!(done.well().stdout, "755\n755\n");
    // So do files; what has another mode than a copy on its way is as its owner wants it.
    for options in ["", "--atomic"] {
        let done = in_folder(&format!(
            "umask 022; mkdir -p s t/s; echo 1 >s/whole; cp large s; echo 2 >s/left; chmod 600 s/left; \
             cp -p s/left s/whole t/s; cp part t/s/large; chmod 600 t/s/whole t/s/large; chmod 700 t/s; \
             $bytepath cp -r {options} --resume --no-preserve=mode s t && cmp large t/s/large && cd t/s && \
             stat -c '%a %n' . *"
        ));
        assert_eq!(done.well().stdout, "700 .\n600 large\n644 left\n600 whole\n", "{options}");
    }
}

#[test]
fn directories_get_back_what_they_did_without_while_they_were_filled() {
    for (options, made) in [("", "755"), ("--preserve=ownership", "700")] {
        let done = in_folder(&format!(
            "umask 002; mkdir -p s/d t; echo x >s/d/x; chmod 775 s s/d; \
             cp -r {options} s want && cp -r s/. t; chmod {made} t t/d; \
             $bytepath cp -rT {options} --resume s t && stat -c %a want want/* t t/*"
        ));
        assert_eq!(done.well().stdout, "775\n775\n775\n775\n", "{options}");
    }
    // What has another mode is as its owner wants it, and nothing is ever taken away.
    let done = in_folder(
        "umask 002; mkdir -p s/d s/e t/d t/e; chmod 775 s/*; chmod 750 t/d; chmod 2755 t/e; \
         $bytepath cp -rT --resume s t && stat -c %a t/*; \
         umask 077; chmod 755 s s/* t t/*; $bytepath cp -rT --resume s t && stat -c %a t t/d",
    );
    assert_eq!(done.well().stdout, "750\n2775\n755\n755\n");
}

#[test]
fn a_file_that_is_parted_from_its_other_names_is_like_a_new_one() {
    for options in ["--preserve=links", "-d", "--preserve=links --no-preserve=mode"] {
        let done = in_folder(&format!(
            "umask 022; chmod 644 large; echo old >a; chmod 600 a; ln a b; \
             $bytepath cp --resume --atomic {options} large a && cmp large a && cat b && stat -c %a a b"
        ));
        assert_eq!(done.well().stdout, "old\n644\n600\n", "{options}");
    }
}

#[test]
fn what_killed_runs_left_is_removed() {
    let done = in_folder(
        "dead=$(sh -c 'echo $$'); mkdir -p s/d t/d; echo x >s/d/x; for f in t t/d; do \
         echo half >$f/.bytepath-$dead-0; echo half >$f/.bytepath-$$-0; echo user >$f/.bytepath-me; \
         echo half >$f/.x.bytepath-part; done; $bytepath cp -aT --resume s t; \
         find t -type f | LC_ALL=C sort | sed s/$$/me/",
    );
    let wanted = "t/.bytepath-me-0\nt/.bytepath-me\nt/d/.bytepath-me-0\nt/d/.bytepath-me\nt/d/x\n";
    assert_eq!(done.well().stdout, wanted);
}

#[test]
fn what_is_left_beside_a_file_behind_a_link_is_removed() {
    for options in ["", "--atomic"] {
        let done = in_folder(&format!(
            "dead=$(sh -c 'echo $$'); mkdir d; cp large d/real; ln -s d/real link; \
             echo half >d/.bytepath-$dead-0; mv part d/.real.bytepath-part; \
             chmod 600 d/.real.bytepath-part; $bytepath cp {options} --resume large link && \
             cmp large d/real && ls -A . d"
        ));
        assert_eq!(done.well().stdout, ".:\nd\nlarge\nlink\n\nd:\nreal\n", "{options}");
    }
    let done = in_folder(
        "mkdir d; echo old >d/real; ln -s d/real link; exec 9>d/.real.bytepath-part; flock 9; \
         $bytepath cp --atomic --resume large link; cat d/real",
    );
    let told = "cp: cannot go on with 'link': another program is copying to it ('.real.bytepath-part' is locked)\n";
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("old\n", told));
}

#[test]
fn a_part_that_is_about_to_be_removed_is_waited_for_and_not_copied_to() {
    if !may_trace() {
        return;
    }
    let done = in_folder(
        "mkdir d; mv part d/.large.bytepath-part; chmod 600 d/.*-part; echo x >a; \
         inode=$(stat -c %i d/.*-part); strace -D -qqq -o /dev/null -e trace=unlinkat \
         -e inject=unlinkat:delay_enter=300000:when=1 $bytepath cp --resume a d & \
         until grep -q \":$inode \" /proc/locks || ! kill -0 $!; do :; done; \
         $bytepath cp --atomic --resume large d && cmp large d/large; wait $!; ls -A d",
    );
    assert_eq!(done.well().stdout, "a\nlarge\n");
}

#[test]
fn the_user_is_asked_only_where_something_else_is_overwritten() {
    let done = in_folder("$bytepath cp -i --resume large part && cmp large part").well();
    assert_eq!(done.stdout, "");
    let done = in_folder("echo other >c; echo n | $bytepath cp -i --resume large c; cat c");
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("other\n", "cp: overwrite 'c'? "));
    let done = in_folder("echo other >c; echo y | $bytepath cp -i --resume large c; cmp large c");
    assert_eq!((done.status.code(), done.stderr.as_str()), (Some(0), "cp: overwrite 'c'? "));
}

#[test]
fn what_the_user_declines_is_neither_told_as_copied_nor_taken_for_a_copy() {
    let done = in_folder("echo other >c; echo n | $bytepath cp -v -i --resume large c; cat c");
    assert_eq!((done.stdout.as_str(), done.stderr.as_str()), ("other\n", "cp: overwrite 'c'? "));
    let done =
        in_folder("echo other >c; echo y | $bytepath cp -v -i --resume large c; cmp large c");
    assert_eq!(done.stdout, "'large' -> 'c'\n");
    let done = in_folder("echo other >c; echo n | $bytepath cp --debug -i --resume large c");
    assert_eq!(done.stdout, "skipped 'c'\n");
    // What is copied is told before how.
    let done = in_folder(
        "cp part c; echo other >>c; echo y | $bytepath cp -v -i --resume large c; cmp large c",
    );
    assert_eq!(done.stdout, "'large' -> 'c'\nwent on with 'c' at byte 3000001\n", "{done:?}");
    let done = in_folder("$bytepath cp -v -i --resume large part; cmp large part");
    assert_eq!(done.stdout, "'large' -> 'part'\nwent on with 'part' at byte 3000001\n");
    // Names of one file: none becomes a name of what is there, and each that is there is asked about.
    let names = "mkdir s t; echo new >s/a; ln s/a s/b; echo old >t/b";
    let done = in_folder(&format!(
        "{names}; yes n | $bytepath cp -aT -i --resume s t; cat t/a t/b; \
         mv t/a t/c; echo old >t/a; yes n | $bytepath cp -aT -i --resume s t; cat t/a t/b; \
         yes | $bytepath cp -aT -i --resume s t; cat t/a t/b; [ t/a -ef t/b ] && echo one"
    ));
    let [declined, all_declined, copied] = ["new\nold\n", "old\nold\n", "new\nnew\none\n"];
    assert_eq!(done.stdout, [declined, all_declined, copied].concat(), "{done:?}");
    assert_eq!(done.stderr.matches("overwrite").count(), 1 + 2 + 2, "{done:?}");
    // A symbolic link to the copy is no name of it yet.
    let done = in_folder(
        "mkdir s t; echo new >s/a; ln s/a s/b; echo new >t/b; ln -s b t/a; \
         yes n | $bytepath cp -aT -i --resume s t; readlink t/a; cat t/b",
    );
    assert_eq!(done.stdout, "b\nnew\n", "{done:?}");
    // What was copied by one name is not skipped as well.
    let done = in_folder(&format!(
        "{names}; yes n | $bytepath cp -d -i --resume --progress s/a s/b t; cat t/a t/b"
    ));
    assert_eq!(done.stdout, declined, "{done:?}");
    assert!(done.stderr.contains("1 file, 4 B"), "{done:?}");
    assert!(!done.stderr.contains("skipped"), "{done:?}");
    // Nor is an operand told that what is there was just made.
    let done = in_folder(
        "mkdir s t; echo 1 >s/large; echo old >t/large; \
         yes n | $bytepath cp -i --resume large s/large t; echo $?; cat t/large",
    );
    assert_eq!(done.stdout, "0\nold\n", "{done:?}");
    assert_eq!(done.stderr, "cp: overwrite 't/large'? ".repeat(2));
}

#[test]
fn what_contradicts_it_is_refused() {
    for option in [
        "-u",
        "--update=older",
        "-n",
        "--update=none",
        "--update=none-fail",
        "-b",
        "-S .x",
        "--remove-destination",
        "-l",
        "-s",
        "--attributes-only",
    ] {
        let done = in_folder(&format!("$bytepath cp --resume {option} large part"));
        done.refused(
            1,
            &["options --resume and --", " are mutually exclusive: ", "Try 'bytepath cp"],
        );
    }
    in_folder("$bytepath cp --resume --update=all --backup=none large part && cmp large part")
        .well();
}

#[test]
fn names_of_one_file_and_files_that_may_not_be_written_are_continued() {
    let done = in_folder(
        "mkdir s; mv large s/a; ln s/a s/b; chmod 444 s/a; cp -a s t; \
         $bytepath cp -aT --resume s t && [ t/a -ef t/b ] && cmp s/a t/a && stat -c %a.%h t/b; \
         rm t/b; truncate -s 1M t/a; ln t/a other; $bytepath cp -aT --resume s t && \
         [ t/a -ef t/b ] && cmp s/a t/b && stat -c %s other",
    );
    assert_eq!(done.well().stdout, "444.2\n1048576\n");
    // Also where there is nothing to compare.
    let done = in_folder(
        ">empty; echo other >t; ln t u; $bytepath cp -a --resume empty t && cat t u && \
         cp -p large v; ln v w; $bytepath cp -a --resume --atomic part v && cmp part v && cmp large w",
    );
    assert_eq!(done.well().stdout, "other\n");
    let Some(nobody) = as_nobody() else { return };
    let done = in_folder(&format!(
        "chmod 777 .; chmod 444 large; {nobody} cp large c; {nobody} $bytepath cp --resume large c \
         && stat -c %a c; rm c; {nobody} sh -c 'head -c 3M large >c; chmod 444 c'; \
         {nobody} $bytepath cp -a --resume large c && cmp large c && stat -c %a c"
    ));
    assert_eq!(done.stdout, "444\n444\n", "{done:?}");
    // Names of a file that may not be written are parted from it, as without --resume.
    for source in ["large", "empty"] {
        let done = in_folder(&format!(
            "chmod 777 .; >empty; mkdir d; chmod 777 d; echo x >d/a; ln d/a d/b; chmod 444 d/a; \
             {nobody} $bytepath cp -a --atomic --resume -T {source} d/a && cmp {source} d/a && cat d/b"
        ));
        assert_eq!(done.well().stdout, "x\n", "{source}");
    }
}

#[test]
fn other_names_of_a_copy_that_is_whole_keep_what_they_have() {
    let folder = tempfile::tempdir().expect("a folder");
    for more in ["", " --atomic", " -i"] {
        let line = format!(
            "cd {} && rm -rf a b && mkdir a b && echo same >a/f && chmod 600 a/f && \
             echo two >a/one && ln a/one a/two && cp -a a/. b && ln b/f b/other && chmod 644 b/f && \
             $bytepath cp -aT --resume{more} a b && stat -c '%a %h' b/f b/other b/one && \
             cat b/f b/other",
            folder.path().display()
        );
        assert_eq!(shell(&line).well().stdout, "600 1\n644 1\n644 2\nsame\nsame\n", "{more}");
    }
}
