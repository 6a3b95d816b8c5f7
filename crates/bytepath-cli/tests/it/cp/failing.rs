//! Devices that fail for real: file systems in images, which are cut off under the mount, or shut
//! down. By one thread and by several.

use crate::program::{Done, installed, may_mount, shell};

/// Runs the lines, in which `theirs WORDS` and `ours WORDS` copy, where a mount is nobody else's,
/// beside a folder `t` of small files and one large one. Mounts, and the loop devices under them,
/// are gone with the processes of their namespace. `None`, said aloud, where it cannot be done.
pub(super) fn mounted(needed: &[&str], lines: &str) -> Option<Done> {
    if !may_mount() || !["mkfs.ext4", "cp"].iter().chain(needed).all(|name| installed(name)) {
        return None;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let script = format!(
        "export LC_ALL=C.UTF-8; set -e
        theirs() {{ cp \"$@\"; }}
        ours() {{ \"$bytepath\" cp \"$@\"; }}
        # What was copied of a tree: names, sizes, and whether it is what the source begins with.
        copied() {{ (cd $1; find . -type f | sort | while read -r name; do
            size=$(stat -c %s \"$name\"); echo \"$name $size\"
            cmp -s -n $size \"$name\" \"$2/$name\" || echo \"$name is bogus\"; done); }}
        image() {{ truncate -s $1 image; mkfs.ext4 -q -F -O ^has_journal image; }}
        mkdir m t t/d
        seq 90000000 | head -c 9000000 >bytes
        for n in 1 2 3 4 5 6; do tail -c +$((n * 77)) bytes | head -c 60000 >t/d/s$n; done
        tail -c 3000000 bytes >t/large
        for n in 7 8 9; do tail -c +$((n * 77)) bytes | head -c 60000 >t/d/s$n; done
        whole=$(pwd)/t
        {lines}"
    );
    let path = folder.path();
    std::fs::write(path.join("script"), script).expect("a file");
    let done = shell(&format!("cd {} && unshare -m sh ./script", path.display()));
    assert!(done.status.success(), "{done:?}");
    Some(done)
}

/// Options that send the bytes by every way that `cp` has.
const WAYS: [&str; 8] = [
    "",
    "--jobs 1",
    "--jobs 2",
    "--route read-write",
    "--route uring",
    "--route splice",
    "--sparse=always",
    "-a --jobs 2",
];

#[test]
fn a_device_that_cannot_be_read_to_its_end_costs_what_is_behind_alone() {
    // It ends within the fifth small file, or wherever that leaves the others.
    let lines = "
        truncate -s 24M image; mkfs.ext4 -q -F -O ^has_journal -d t image
        mount -o ro,loop image m
        at=$(filefrag -v m/d/s5 | sed -n 's/^ *0: *0\\.\\. *[0-9]*: *\\([0-9]*\\)\\.\\..*/\\1/p')
        truncate -s $((at * 1024 + 20480)) image
        theirs -r m/. new 2>told || echo code $? >>told; copied new $whole >>told; rm -r new
        ends() { ours -r \"$@\" m/. new 2>said || echo code $? >>said; copied new $whole >>said
            rm -r new; diff told said || echo \"differs: $*\"; }
        cat told; echo --; ";
    let ways = WAYS.map(|way| format!("ends {way};")).concat();
    // What is read past the page cache ends with a whole block before it.
    let direct = "ours -r --direct m/. new 2>said || grep -v ': Input/output error' said || true
        copied new $whole | grep bogus || echo fine";
    let Some(done) = mounted(&["filefrag"], &format!("{lines} {ways} {direct}")) else { return };
    let (told, rest) = done.stdout.split_once("--\n").expect("both parts");
    assert!(told.contains("error reading 'm/./d/s5': Input/output error\n"), "{done:?}");
    assert!(told.contains("code 1\n") && !told.contains("bogus"), "{done:?}");
    assert!(told.contains("./d/s1 60000\n") && !told.contains("./d/s5 60000\n"), "{done:?}");
    assert_eq!((rest, done.stderr.as_str()), ("fine\n", ""));
}

#[test]
fn a_late_fault_of_the_kernels_own_copying_costs_one_file() {
    // All is full but for what was before the tree: copies go there, and the device ends behind.
    let lines = "
        image 24M; mount -o loop image m; rmdir m/lost+found
        head -c 9000000 bytes >m/filler; cp -r t m/t; cat /dev/zero >m/rest 2>/dev/null || true
        sync; rm m/filler; sync; umount m; mount -o loop image m
        at=$(filefrag -v m/t/large | sed -n 's/^ *0: *0\\.\\. *[0-9]*: *\\([0-9]*\\)\\.\\..*/\\1/p')
        truncate -s $((at * 1024 + 1572864)) image
        theirs -r m/t m/new 2>told || echo code $? >>told; copied m/new $whole >>told; rm -r m/new
        # The kernel does not say which side failed; ours has found out.
        sed -i \"s/error copying 'm.t.large' to 'm.new.large'/error reading 'm\\/t\\/large'/\" told
        ends() { ours -r \"$@\" m/t m/new 2>said || echo code $? >>said; copied m/new $whole >>said
            rm -r m/new; diff told said || echo \"differs: $*\"; }
        cat told; echo --; ";
    let ways = WAYS.map(|way| format!("ends {way};")).concat();
    let named = "ours --route copy-file-range m/t/large m/new 2>&1 || echo code $?";
    let Some(done) = mounted(&["filefrag"], &format!("{lines} {ways} {named}")) else { return };
    let (told, rest) = done.stdout.split_once("--\n").expect("both parts");
    let wanted = "cp: error reading 'm/t/large': Input/output error\ncode 1\n";
    assert!(told.starts_with(wanted) && told.ends_with("./large 1572864\n"), "{done:?}");
    assert_eq!(told.lines().filter(|line| line.ends_with(" 60000")).count(), 9, "{done:?}");
    let named = "cp: error copying 'm/t/large' to 'm/new': Input/output error\ncode 1\n";
    assert_eq!((rest, done.stderr.as_str()), (named, ""));
}

#[test]
fn a_device_that_can_no_longer_be_written_is_told_of() {
    // The first file is being written when it happens.
    let lines = "
        image 24M; mkfifo fifo; echo one >one
        for cp in theirs 'ours --jobs 1' 'ours --jobs 2' 'ours --route read-write'; do
            mount -o loop image m; mkdir m/d; echo there >m/there
            $cp -r --copy-contents fifo one t one m/d 2>said & number=$!
            exec 9>fifo; head -c 2000000 bytes >&9; xfs_io -x -c shutdown m
            head -c 2000000 bytes >&9 || true; exec 9>&-; wait $number || echo code $? >>said
            $cp m/there new 2>>said || echo code $? >>said
            $cp one m/there 2>>said || echo code $? >>said
            cat said; echo --; umount m; mkfs.ext4 -q -F image
        done";
    let Some(done) = mounted(&["xfs_io", "mkfifo"], lines) else { return };
    let mut all = done.stdout.split("--\n");
    let theirs = all.next().expect("theirs");
    assert!(theirs.starts_with("cp: error writing 'm/d/fifo': Input/output error\n"), "{done:?}");
    assert_eq!(theirs.matches("code 1\n").count(), 3, "{done:?}");
    let ours: Vec<_> = all.filter(|said| !said.is_empty()).collect();
    assert_eq!(ours, [theirs; 3]);
}

#[test]
fn what_does_not_reach_the_device_is_told_of_by_those_who_wait_for_it() {
    // Bytes get no further than the page cache: the image is in a file system that is gone.
    let lines = "
        mkdir outer; image 64M; mount -o loop image outer; cd outer; image 32M; cd ..
        mount -o loop outer/image m; cp -r t m/new; rm -r m/new; sync; xfs_io -x -c shutdown outer
        for cp in theirs ours 'ours --jobs 2'; do $cp -r t m/new; copied m/new $whole; rm -r m/new
        done >copied
        grep -c bogus copied || true
        for way in '--jobs 1' '--jobs 2' --atomic --progress=durable; do
            [ \"$way\" = --atomic ] || way=\"$way --fsync\"
            ours -r $way t m/new 2>&1 | grep -v ' files, ' | cut -d \"'\" -f 1,3 | sort | uniq -c
            find m/new -type f | wc -l; rm -r m/new
        done";
    let Some(done) = mounted(&["xfs_io"], lines) else { return };
    let said: Vec<_> = done.stdout.lines().map(str::trim).collect();
    // All files, both directories, and the one that names them.
    let syncing = [
        "12 cp: error syncing ': Input/output error",
        "1 cp: error syncing the directory of ': Input/output error",
        "10",
    ];
    let unnamed = ["10 cp: error syncing ': Input/output error", "0"];
    assert_eq!(said, [&["0"][..], &syncing, &syncing, &unnamed, &syncing].concat());
}
