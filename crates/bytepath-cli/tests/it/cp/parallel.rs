//! Copies by several threads: the classic's trees, messages and exit codes all the same.

use std::path::Path;

use super::failing::mounted;
use super::{date, directory, file, gnu, gnu_on_disk, mode, some};
use crate::calls::may_trace;
use crate::program::{as_nobody, installed, may_mount, shell};

/// Many files, of all sizes around those at which ways part, with links, holes and a tree between.
fn many(work: &Path) {
    some(work);
    for folder in 0..6 {
        let path = work.join(format!("d/many{folder}"));
        directory(&path.join("below"));
        for number in 0..40_usize {
            let bytes = [0, 1, 4095, 4096, 70_000, 131_071, 131_072, 131_073][number % 8];
            let contents: Vec<u8> =
                (0..bytes).map(|at| (at * 31 + number + folder) as u8).collect();
            file(&path.join(format!("f{number}")), &contents, number as u64);
        }
        file(&path.join("below/last"), b"last", 5);
        std::fs::hard_link(path.join("f1"), path.join("below/f1")).expect("a link");
        std::fs::hard_link(path.join("f3"), work.join(format!("d/sub/f3-{folder}")))
            .expect("a link");
        std::os::unix::fs::symlink("f2", path.join("link")).expect("a link");
        let hole = std::fs::File::create(path.join("hole")).expect("a file");
        hole.set_len(300_000).expect("a hole");
        mode(&path.join("f5"), 0o4751);
        mode(&path.join("f6"), 0o200);
        for old in ["hole", "below", "."] {
            date(&path.join(old), 9);
        }
    }
    mode(&work.join("d/many3"), 0o555);
    for old in ["d/sub", "d"] {
        date(&work.join(old), 8);
    }
}

#[test]
fn trees_of_many_files_are_the_classics() {
    for cp in [gnu(), gnu_on_disk()].into_iter().flatten() {
        for words in ["-r", "-a", "-rp", "-rL", "-rd --sparse=always", "-a --attributes-only"] {
            cp.both(&format!("cp {words} d new; echo $?"), many).same();
        }
        cp.both("cp -r d a d/many1 l e; echo $?; cp -a d/. e; echo $?", many).same();
    }
}

/// Few files, but large ones, among small ones and what others have to see to.
fn few(work: &Path) {
    some(work);
    for number in 0..7_usize {
        let bytes = [(3 << 20) + 1, 5, (2 << 20) - 1, 1_300_000][number % 4];
        let contents: Vec<u8> = (0..bytes).map(|at| (at / 4096 + at * 3 + number) as u8).collect();
        file(&work.join(format!("d/l{number}")), &contents, number as u64);
    }
    mode(&work.join("d/l2"), 0o4640);
    std::fs::hard_link(work.join("d/l0"), work.join("d/l3x")).expect("a link");
    std::os::unix::fs::symlink("l4", work.join("d/l4x")).expect("a link");
    directory(&work.join("d/l5x"));
    file(&work.join("e/l6"), b"was there", 9);
}

#[test]
fn few_large_files_are_copied_as_the_classic_copies_them() {
    for cp in [gnu(), gnu_on_disk()].into_iter().flatten() {
        for words in
            ["-r d new", "-a d new", "d/l* e", "-a d/l* e", "-p d/l0 d/nowhere d/l2 d/l4 e"]
        {
            cp.both(&format!("cp {words}; echo $?"), few).same();
        }
        cp.both("cp d/l0 d/l2 new; echo $?; cp d/l0 d/l2 d/l0 e; echo $?", few).same();
    }
}

/// Two directories of files, many of the one, few of the other, with all else among them that may be named.
fn named(work: &Path) {
    some(work);
    for number in 0..200_usize {
        let bytes = [0, 1, 4096, 70_000, 131_073][number % 5];
        let path = work.join(format!("d/n{number:03}"));
        file(&path, &vec![number as u8; bytes], number as u64);
        mode(&path, [0o644, 0o4751, 0o600][number % 3]);
        file(&work.join(format!("m{number:03}")), b"here", 3);
    }
    for (name, leads) in [("n050x", "n051"), ("n060x", "nowhere"), ("n070x", "../e/n071")] {
        std::os::unix::fs::symlink(leads, work.join("d").join(name)).expect("a link");
    }
    std::fs::hard_link(work.join("d/n080"), work.join("d/n081x")).expect("a link");
    directory(&work.join("d/n090x"));
    let large = std::fs::File::create(work.join("d/n100x")).expect("a file");
    large.set_len(40 << 20).expect("a hole");
    // Some are there already, as files and as links to what is yet to come.
    file(&work.join("e/n110"), b"was there", 9);
    file(&work.join("e/n111"), b"read-only", 9);
    mode(&work.join("e/n111"), 0o400);
    std::os::unix::fs::symlink("n121", work.join("e/n120")).expect("a link");
    std::os::unix::fs::symlink("d/n131", work.join("e/n130")).expect("a link");
    directory(&work.join("e/n140"));
}

#[test]
fn files_named_by_the_hundred_are_copied_as_the_classic_copies_them() {
    if let Some(cp) = gnu_on_disk() {
        for words in ["", "-a"] {
            cp.both(&format!("cp {words} m* d/n* e; echo $?"), named).same();
        }
    }
    if let Some(cp) = gnu() {
        let words = [
            "",
            "-p",
            "-a",
            "-d",
            "-r",
            "-P",
            "-n",
            "-u",
            "-b",
            "-f",
            "--remove-destination",
            "-l",
            "-v",
            "-pv",
            "--preserve=links",
            "-L --preserve=all",
            "--sparse=always",
            "-T",
            "--parents",
            "--attributes-only",
            "--reflink=never",
            "--strip-trailing-slashes",
        ];
        for words in words {
            cp.both(&format!("cp {words} d/n* e; echo $?"), named).same();
        }
        let lines = [
            "cp m* e; echo $?",
            "cp ./m* e/; echo $?",
            "cd d; cp n* ../e/.; echo $?",
            "cp -t e m* d/n*; echo $?",
            "cp m0* d/n0* missing m1* a b l d d/x d/n1* e; echo $?",
            "cp -r m0* d/n0* d/sub m1* e; echo $?",
            "cp m* d/n* m050 d/n051 e; echo $?",
            "cp d//n* e; cp \"$PWD\"/m* e; echo $?",
            "cp --strip-trailing-slashes m001/ m* e; echo $?",
            "cp d/n* nowhere; cp d/n* a; echo $?",
            "cp e/n1* d/n0* e; echo $?",
            "yes n | cp -i m* d/n* e; echo $?",
            "umask 077; cp m* d/n* e; echo $?",
        ];
        for line in lines {
            cp.both(line, named).same();
        }
    }
}

#[test]
fn what_is_told_of_files_named_by_the_hundred_comes_in_the_classics_order() {
    let (Some(cp), Some(nobody)) = (gnu(), as_nobody()) else { return };
    let closed = |work: &Path| {
        named(work);
        for path in [work.to_owned(), work.join("e")] {
            mode(&path, 0o777);
        }
        for number in (0..200).step_by(7) {
            mode(&work.join(format!("d/n{number:03}")), 0o000);
            mode(&work.join(format!("m{number:03}")), 0o000);
        }
    };
    for words in ["", "-p", "-r", "-a", "--preserve=mode"] {
        let line = format!("{nobody} cp {words} d/n* m* e; echo $?");
        let both = cp.both(&line, closed);
        both.same();
        assert!(both.ours.stderr.lines().count() > 50, "{}", both.ours.stderr);
    }
    let shut = |work: &Path| {
        named(work);
        mode(&work.join("e"), 0o555);
    };
    cp.both(&format!("{nobody} cp d/n* m* e; echo $?"), shut).same();
    let hidden = |work: &Path| {
        named(work);
        mode(&work.join("d"), 0o444);
    };
    cp.both(&format!("{nobody} cp m* d/n* e; echo $?"), hidden).same();
}

#[test]
fn what_is_told_of_many_files_comes_in_the_classics_order() {
    let (Some(cp), Some(nobody)) = (gnu(), as_nobody()) else { return };
    let closed = |work: &Path| {
        many(work);
        mode(work, 0o777);
        for folder in 0..6 {
            for number in (0..40).step_by(7) {
                mode(&work.join(format!("d/many{folder}/f{number}")), 0o000);
            }
        }
        mode(&work.join("d/many2/below"), 0o000);
        mode(&work.join("d/many4"), 0o300);
    };
    for words in ["-r", "-a", "-rp"] {
        let both = cp.both(&format!("{nobody} cp {words} d new; echo $?"), closed);
        both.same();
        assert!(both.ours.stderr.lines().count() > 30, "{}", both.ours.stderr);
    }
}

#[test]
fn directories_of_xfs_are_copied_in_rounds_and_told_of_in_the_classics_order() {
    let Some(nobody) = as_nobody() else { return };
    // Its inodes are numbered group by group, and directories go from group to group. The last tree has
    // more to be told of than is kept.
    let lines = format!(
        "
        truncate -s 400M image; mkfs.xfs -q image; mount -o loop image m; cd m
        for every in 40 7 1; do
            for d in $(seq $((every == 1 ? 110 : 48))); do
                mkdir -p t$every/p$((d % 5))/d$d/below
                for f in $(seq 20); do
                    for name in f$f below/f$f; do echo $f >t$every/p$((d % 5))/d$d/$name; done
                done
                ln -s f1 t$every/p$((d % 5))/d$d/link
            done
            find t$every -type f | awk \"NR % $every == 0\" | xargs chmod 0
            chmod 0 t$every/p3/d33/below; chmod 300 t$every/p4/d44
            chmod a+w . t$every
            for words in -r -a; do
                {nobody}cp $words t$every theirs 2>said && exit 1
                grep -c . said
                for jobs in 2 5; do
                    {nobody}$bytepath cp $words --jobs $jobs t$every ours 2>own && exit 1
                    cmp said own
                    diff -r --no-dereference theirs ours
                    find ours -type f | wc -l >files
                    find ours -type f | xargs -r filefrag -v | grep -c shared | cmp files -
                    ls -lR --time-style=+ theirs | grep -v ^total >one
                    ls -lR --time-style=+ ours | grep -v ^total | sed s/ours/theirs/ | cmp one -
                    rm -r ours
                done
                rm -r theirs
            done
        done"
    );
    let Some(done) = mounted(&["mkfs.xfs", "filefrag"], &lines) else { return };
    let told: Vec<usize> = done.stdout.lines().filter_map(|count| count.parse().ok()).collect();
    assert!(told.len() == 6 && told[0] > 40 && told[2] > 200 && told[4] > 4096, "{done:?}");
}

#[test]
fn a_file_that_becomes_a_directory_is_copied_as_what_it_is_also_where_there_are_rounds() {
    if !may_trace() {
        return;
    }
    let poked = "-e inject=fstatfs:poke_exit=@arg2=4253465800000000";
    if shell(&format!("strace -o /dev/null {poked} true")).status.code() != Some(0) {
        return println!("skipped: strace cannot change what a call answers with here");
    }
    let folder = tempfile::tempdir().expect("a folder");
    // The FIFO, which comes before the file, is read once all is known to be there. Every file system is XFS.
    let done = shell(&format!(
        "cd {}; mkdir s s/one s/two; mkfifo s/fifo; echo a file >s/file; \
         until [ $(stat -c %i s/fifo) -lt $(stat -c %i s/file) ]; do \
         mv s/file s/other$((i=i+1)); echo a file >s/file; done; \
         strace -D -f -qqq -o /dev/null -e trace=fstatfs {poked} \
         $bytepath cp -r --copy-contents --jobs 2 s t & \
         exec 3>s/fifo; rm s/file; mkdir s/file; for i in 1 2 3; do mkdir s/file/d$i; \
         echo $i >s/file/f$i; done; echo read >&3; exec 3>&-; wait $! && cat t/fifo && \
         diff -r s/file t/file && ls t/file",
        folder.path().display()
    ));
    assert_eq!(done.well().stdout, "read\nd1\nd2\nd3\nf1\nf2\nf3\n");
}

#[test]
fn files_beside_others_are_copied_as_the_classic_copies_them() {
    // Every third is there already: a file, a name of another, a folder, a link to one
    // that is not, or not yet.
    let some_there = |work: &Path| {
        many(work);
        directory(&work.join("s"));
        for folder in 0..4 {
            let sink = work.join(format!("e/d/many{folder}"));
            directory(&sink);
            for number in (0..40).step_by(3) {
                let path = sink.join(format!("f{number}"));
                match number % 4 {
                    0 => file(&path, b"old", number),
                    1 => std::fs::hard_link(sink.join("f0"), &path).expect("a link"),
                    2 => {
                        let other = if number == 6 { 28 } else { number - 1 };
                        let other = format!("f{other}");
                        std::os::unix::fs::symlink(other, &path).expect("a link");
                    }
                    _ => directory(&path),
                }
            }
        }
        std::os::unix::fs::symlink("many1", work.join("e/d/many4")).expect("a link");
    };
    let Some(cp) = gnu() else { return };
    for words in ["-r", "-a", "-rf", "-rp", "-rL", "-rb", "-ru", "-rn"] {
        cp.both(&format!("cp {words} d e; echo $?"), some_there).same();
    }
    // Into what is being copied, out of what is being filled, and where questions wait.
    let within = "cp -r d/. d/many1; echo $?; cp -r d/many2/. d; echo $?; cp -r . s; echo $?";
    cp.both(within, some_there).same();
    cp.both("yes | cp -ri d e; echo $?", some_there).same();
}

/// Runs the lines beside a folder `t` of 400 files of 16 KiB, and one `large` of 40 MiB.
fn beside_many(lines: &str) -> crate::program::Done {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display();
    shell(&format!(
        "cd {path} && seq 9000000 | head -c 41943041 >large && mkdir -p t/a t/b && \
         head -c 3276800 large | split -b 16384 -a 3 - t/a/ && cp t/a/* t/b/ && {lines}"
    ))
}

#[test]
fn any_number_of_threads_copies_the_same() {
    for jobs in [1, 2, 3, 64] {
        let line = format!(
            "$bytepath cp -a --jobs {jobs} t u && diff -r t u && \
             $bytepath cp --jobs={jobs} large copy && cmp large copy && echo same"
        );
        assert_eq!(beside_many(&line).well().stdout, "same\n");
    }
    for wrong in ["0", "65", "x", "-1", ""] {
        let done = beside_many(&format!("$bytepath cp --jobs={wrong} large copy; echo $?; ls"));
        assert_eq!(done.stdout, "1\nlarge\nt\n", "{wrong}: {done:?}");
        assert!(done.stderr.contains("--jobs"), "{wrong}: {done:?}");
    }
}

#[test]
fn threads_that_get_no_open_files_of_their_own_copy_the_same() {
    if !may_trace() {
        return;
    }
    // Refused before they have a table, once they have it, and with each directory.
    for inject in [
        "close_range:error=EPERM",
        "pidfd_open:error=ENOSYS",
        "pidfd_open:error=EMFILE:when=2+",
        "pidfd_getfd:error=EPERM",
        "pidfd_getfd:error=EMFILE:when=2+",
        "pidfd_getfd:error=EMFILE:when=3+2",
    ] {
        let done = beside_many(&format!(
            "strace -f -qqq -o /dev/null -e inject={inject} $bytepath cp -a --jobs 3 t u && \
             diff -r t u && echo same"
        ));
        assert_eq!(done.well().stdout, "same\n", "{inject}");
    }
}

#[test]
fn files_of_one_directory_are_shared_by_all_who_have_nothing_else_to_do() {
    if !may_trace() {
        return;
    }
    // Whoever waits for the files of the last directory copies some of them.
    let done = beside_many(
        "mkdir s && cp t/a/aa? t/a/ab? t/a/ac? s && \
         strace -f -qqq -o calls -e trace=openat -e inject=openat:delay_exit=1000 \
         $bytepath cp -r --jobs 2 s u && diff -r s u && \
         awk '/O_CREAT/ {made[$1]++} END {for (who in made) print (made[who] > 15)}' calls",
    );
    assert_eq!(done.well().stdout, "1\n1\n");
}

#[test]
fn few_open_files_are_enough_for_many_files() {
    for (files, options) in [(16, ""), (16, "--jobs 2"), (16, "--jobs 64"), (512, "--jobs 64")] {
        let done = beside_many(&format!(
            "mkdir w && for n in $(seq 150); do mkdir w/$n && echo $n >w/$n/file && cp t/a/aa[a-d] w/$n; \
             done && mv w t && ulimit -n {files} && $bytepath cp -a {options} t u && diff -r t u && \
             echo same"
        ));
        assert_eq!(done.well().stdout, "same\n", "{files} {options}");
    }
}

#[test]
fn files_that_are_too_large_are_told_of_by_any_number_of_threads_as_by_the_classic() {
    if gnu().is_none() {
        return;
    }
    // 16 blocks of 512 bytes, in dash(1) and POSIX. What is said goes through a pipe, which has no
    // limit.
    let done = beside_many(
        "export LC_ALL=C.UTF-8; rm large; \
         for file in t/*/*[aeiou]; do head -c 5000 $file >part; cp part $file; done; \
         copied() { (trap '' XFSZ; ulimit -f 16; \"$@\" t u; echo $?) 2>&1 | cat; \
         diff -rq t u | wc -l; find u -type f -size 8k | wc -l; rm -r u; }; \
         copied cp -r --reflink=never >theirs; for jobs in 1 2 64; do \
         copied $bytepath cp -r --reflink=never --jobs $jobs >ours; cmp theirs ours; done; \
         cat theirs",
    );
    let said = done.well().stdout;
    let (large, rest): (Vec<_>, Vec<_>) =
        said.lines().partition(|line| line.ends_with(": File too large"));
    let large = large.len().to_string();
    assert_eq!(rest, ["1", &large, &large]);
    assert!(large.parse::<usize>().expect("a number") > 100, "{large}");
}

/// Says which of the copies in `small` are longer than what they have of their sources.
const BOGUS: &str = "for copy in $(find small -type f); do \
     source=${copy#small/}; size=$(stat -c %s $copy); \
     cmp -s -n $size $copy $source || echo bogus $copy; done";

#[test]
fn a_full_file_system_ends_copies_where_their_bytes_end() {
    if !may_mount() || !installed("mkfs.ext4") {
        return;
    }
    // The mounts, and the loop device, are gone with the processes of their namespace.
    let mounts = [
        "mount -t tmpfs -o size=1M none small",
        "truncate -s 24M image && mkfs.ext4 -q image && mount -o loop image small",
    ];
    for mount in mounts {
        let all = [
            ("-r t", "t"),
            ("large", "large"),
            ("-a t large", "large"),
            ("--route parallel large", "large"),
        ];
        for (words, left) in all {
            let done = beside_many(&format!(
                "mkdir small; unshare -m sh -c '{mount} && $bytepath cp {words} small; echo $?; \
                 {BOGUS}; cmp -s {left} small/{left} && echo whole; true'"
            ));
            let full = done.stderr.contains("No space left on device");
            // The tree alone fits into the larger one.
            let fits = words == "-r t" && mount.contains("24M");
            let code = if fits { "0\n" } else { "1\n" };
            assert_eq!((done.stdout.as_str(), full), (code, !fits), "{mount} {words}: {done:?}");
        }
    }
}

#[test]
fn a_copy_of_a_large_file_is_whole_or_shorter_than_the_file() {
    if !may_trace() {
        return;
    }
    // A file in memory that is copied too soon for anybody to ask about it has no gaps either: by one CPU because
    // it is copied in order.
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let done = shell(&format!(
        "cd {} && seq 9000000 | head -c 6000001 >mid; for time in 1 2 3; do
            strace -f -qqq -o /dev/null -e trace=splice -e inject=splice:signal=INT:when=1 \
                $bytepath cp mid new 2>said
            [ $? -gt 128 ] && cmp -n $(stat -c %s new) mid new && \
                {{ [ $(nproc) = 1 ] || grep -q interrupted said; }} && echo fine
            rm new
        done",
        folder.path().display()
    ));
    assert_eq!(done.stdout, "fine\n".repeat(3), "{done:?}");
    for signal in ["INT", "KILL"] {
        for when in [1, 2] {
            let done = beside_many(&format!(
                "{{ strace -f -qqq -o /dev/null -e trace=splice \
                 -e inject=splice:signal={signal}:when={when} $bytepath cp large new; \
                 }} 2>/dev/null; [ $? -gt 128 ] && \
                 {{ [ $(stat -c %s new) -lt 41943041 ] || cmp large new; }} && echo fine"
            ));
            assert_eq!(done.stdout, "fine\n", "{signal} {when}: {done:?}");
        }
    }
}

#[test]
fn a_large_file_on_a_disk_is_copied_by_several_threads() {
    if !may_trace() {
        return;
    }
    // Two threads write by turns, and further ones fill mappings, without which they leave; btrfs has one splice
    // beside mappings. What the disk has no room for is told of as by the classic.
    let lines = "
        seq 90000000 | head -c 125829121 >large
        for system in ext4 xfs btrfs; do
            truncate -s 400M image; mkfs.$system -q image >/dev/null; mount -o loop image m
            cp large m/large
            for words in '' '--jobs 1' '--jobs 4' '--fsync' '--atomic'; do
                $bytepath cp --reflink=never $words m/large m/new; cmp large m/new; rm m/new
            done
            for run in '2 EINVAL' '4 EINVAL' '4 EFAULT' '4 ENOMEM'; do
                set -- $run
                # Before its first write each waits, so that all others are there, however busy the CPUs are.
                strace -f -qqq -o calls -e trace=madvise,pwrite64,splice -e inject=madvise:error=$2 \
                    -e inject=pwrite64,splice:delay_enter=300000:when=1 \
                    $bytepath cp --jobs $1 --reflink=never large m/new
                cmp large m/new; rm m/new
                echo $system $1 $(grep -c MADV_POPULATE_WRITE calls) \
                    $(grep -o '^[0-9]* *pwrite64(' calls | sort -u | wc -l)
            done
            [ $system = btrfs ] || for call in pread64:error=EINTR:when=5+2 pread64:error=EIO:when=9 \
                pwrite64:error=EINTR:when=5+3 pwrite64:error=ENOSPC:when=9 pwrite64:error=EIO:when=7+; do
                strace -f -qqq -o calls -e trace=pread64,pwrite64 -e inject=$call \
                    $bytepath cp --jobs 2 --reflink=never large m/new
                cmp large m/new; rm m/new
                [ $(nproc) = 1 ] || grep -q INJECTED calls
            done
            without() {
                strace -f -qqq -o calls -e trace=madvise -e inject=madvise:error=EINVAL \
                    $bytepath cp --jobs 4 $@
            }
            for cp in theirs ours without; do
                $cp --reflink=never m/large m/2 && $cp --reflink=never m/large m/3 && \
                    $cp --reflink=never m/large m/4 && exit 1
                for copy in m/2 m/3 m/4; do
                    if [ -e $copy ]; then cmp -n $(stat -c %s $copy) large $copy; rm $copy; fi
                done
            done 2>said
            # Of a call that a thread makes as the program ends, strace says that it could not change it.
            sed -i '/^strace: Failed to tamper/d' said
            [ $(wc -l <said) = 3 ]; [ $(sort said | uniq | wc -l) = 1 ]; grep -q 'No space left on device' said
            umount m; rm image
        done";
    let Some(done) = mounted(&["mkfs.xfs", "mkfs.btrfs"], lines) else { return };
    // Of a mapping each thread but two tries once, and on btrfs each but one to the end. By one CPU nobody does.
    let mut lines = 0;
    for line in done.stdout.lines() {
        let (system, numbers) = line.split_once(' ').expect("a file system");
        let numbers = numbers.split(' ').map(str::parse).collect::<Result<Vec<usize>, _>>();
        let Ok(&[threads, tries, writing]) = numbers.as_deref() else { panic!("{line}") };
        let as_said = match system {
            _ if by_one_cpu() => tries == 0,
            "btrfs" => tries > threads && writing == 0,
            _ => (usize::from(threads > 2)..=threads - 2).contains(&tries) && writing > 1,
        };
        assert!(as_said, "{line}: {done:?}");
        lines += 1;
    }
    assert_eq!(lines, 12, "{done:?}");
}

#[test]
fn what_btrfs_compresses_takes_no_more_room_than_by_the_classic() {
    // More than the image has room for, were it not compressed.
    let lines = "
        seq 90000000 | head -c 104857601 >large
        for way in mount folder; do
            truncate -s 120M image; mkfs.btrfs -q image >/dev/null
            case $way in
                mount) mount -o loop,compress=zstd image m; mkdir m/in;;
                folder) mount -o loop image m; mkdir m/in; chattr +c m/in;;
            esac
            used() { btrfs filesystem sync m; btrfs filesystem df -k m |
                sed -n 's/^Data.*used=\\([0-9]*\\).*/\\1/p'; }
            for who in theirs ours 'ours --jobs 4' 'ours --atomic'; do
                $who large m/in/new; used; cmp large m/in/new; rm m/in/new; btrfs filesystem sync m
            done
            ours --route parallel large m/in/new 2>said && exit 1
            grep -q 'parallel: the sink is compressed' said; umount m; rm image
        done";
    let Some(done) = mounted(&["btrfs", "mkfs.btrfs", "chattr"], lines) else { return };
    let used: Vec<u64> = done.stdout.lines().map(|line| line.parse().expect("KiB")).collect();
    assert_eq!(used.len(), 8, "{done:?}");
    for used in used.chunks(4) {
        assert!(used[0] > 0 && used[1..].iter().all(|ours| *ours <= used[0] * 3 / 2), "{used:?}");
    }
}

fn by_one_cpu() -> bool {
    std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() == 1)
}

#[test]
fn the_route_of_several_threads_can_be_named() {
    let done = beside_many(
        "echo old >there; chmod 200 there; for to in new there; do \
         $bytepath cp --route parallel --json - large $to; cmp large $to; done",
    );
    let done = done.well();
    assert_eq!(done.stdout.matches("\"parallel\": 41943041").count(), 2, "{done:?}");
}

#[test]
fn what_several_threads_cannot_read_is_said_of_the_source() {
    if !may_trace() {
        return;
    }
    for jobs in [1, 2, 3] {
        let done = beside_many(&format!(
            "strace -f -qqq -o /dev/null -P $(pwd -P)/large \
             -e inject=pread64,splice:error=EIO:when=6+ $bytepath cp --route parallel --jobs {jobs} --json - large new; \
             cmp -n $(stat -c %s new) large new && stat -c %s new"
        ));
        assert_eq!(done.stderr, "cp: error reading 'large': Input/output error\n", "{done:?}");
        let (document, size) = done.stdout.split_once("\n}\n").expect("a document");
        let told: serde_json::Value = serde_json::from_str(&format!("{document}}}")).expect("JSON");
        assert_eq!((&told["errors"][0]["errno"], &told["exit"]), (&5.into(), &1.into()));
        assert_eq!(told["errors"][0]["offset"], size.trim().parse::<u64>().expect("a size"));
    }
}

#[test]
fn files_that_a_device_has_to_read_are_asked_for_before_their_turn() {
    if !may_trace() {
        return;
    }
    // Two who share files may both ask, and where a copy is put may have to be read even if its source
    // has not.
    let lines = "
        asked() { awk '/WILLNEED/ {n++} END {print (n > 100 ? \"most\" : \"few\")}' calls; }
        truncate -s 64M image; mkfs.ext4 -q -F image; mount -o loop image m
        mkdir m/t; for n in $(seq 300); do tail -c +$n bytes | head -c $((n * 40)) >m/t/$n; done
        umount m; mount -o loop image m
        for words in '-r --jobs 1' '-a --jobs 2' '-r --reflink=never --jobs 2'; do
            umount m; mount -o loop image m
            strace -f -qqq -o calls -e trace=fadvise64 \"$bytepath\" cp $words m/t m/cold
            asked
            strace -f -qqq -o calls -e trace=fadvise64 \"$bytepath\" cp $words m/t m/hot
            asked
            diff -r m/t m/cold; diff -r m/t m/hot; rm -r m/cold m/hot
        done
        # A part of a fleet's copying does so, too.
        umount m; mount -o loop image m; mkdir m/cold; mkfifo asked; : >answers
        strace -f -qqq -o calls -e trace=fadvise64 \"$bytepath\" piece --source m/t \\
            --destination m/cold --run m/cold/run --token t -- -a <asked >answers &
        exec 9>asked
        echo '{\"items\":[{\"do\":\"prepare\",\"stages\":[0]}],\"budget_ms\":60000}' >&9
        echo '{\"items\":[{\"do\":\"tree\",\"d\":\"\"}],\"budget_ms\":60000}' >&9
        for tenth in $(seq 300); do
            if [ $(wc -l <answers) -ge 2 ]; then break; fi; sleep 0.1
        done
        exec 9>&-; wait
        asked
        rm -r m/cold/run; diff -r m/t m/cold; rm -r m/cold
        # Without them all is copied too.
        umount m; mount -o loop image m
        strace -f -qqq -o calls -e inject=fadvise64:error=EINVAL \"$bytepath\" cp -r m/t m/cold
        diff -r m/t m/cold; umount m";
    let Some(done) = mounted(&[], lines) else { return };
    assert_eq!(done.stdout, "most\nfew\n".repeat(3) + "most\n", "{done:?}");
}

#[test]
fn where_blocks_are_shared_a_scout_looks_at_inodes_that_a_device_has_to_read() {
    if !may_trace() {
        return;
    }
    // No call but a scout's is of this kind.
    let lines = "
        scouted() { awk '/NO_AUTOMOUNT/ {n++} END {print (n > 0 ? \"some\" : \"none\")}' calls; }
        traced() { strace -f -qqq -o calls -e trace=newfstatat,statx \"$bytepath\" cp \"$@\"; }
        truncate -s 400M image; mkfs.xfs -q image; mount -o loop image m; mkdir m/t
        for d in $(seq 30); do
            mkdir m/t/$d; for n in $(seq 64); do echo $d $n >m/t/$d/$n; done
        done
        cold() { umount m; mount -o loop image m; }
        for words in '-r --jobs 2' '-r --jobs 1' '-r --reflink=never --jobs 2'; do
            cold
            traced $words m/t m/cold; scouted
            traced $words m/t m/hot; scouted
            diff -r m/t m/cold; diff -r m/t m/hot; rm -r m/cold m/hot
        done
        umount m";
    let Some(done) = mounted(&["mkfs.xfs"], lines) else { return };
    let (shared, others) = ("some\nnone\n", "none\n".repeat(4));
    assert_eq!(done.stdout, shared.to_string() + &others, "{done:?}");
}
