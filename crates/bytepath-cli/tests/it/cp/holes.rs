//! Holes: what is none is copied, what is one takes no room.

use super::failing::mounted;
use super::ours::in_folder;
use crate::calls::may_trace;
use crate::program::shell;

/// Files of ext2 and ext3, as ext4 has them.
const NO_EXTENTS: &str = "
    truncate -s 64M image; mkfs.ext4 -q -F -b $block -O ^extent,^64bit image; mount -o loop image m
    written() { dd if=bytes of=m/v bs=1000 count=50 seek=$1 conv=notrunc status=none; }
    late() { rm -f m/v; written 600; truncate -s 1M m/v; }
    both() { rm -f m/v; written 600; sync -f m; written 6000; truncate -s 9M m/v; }";

#[test]
fn data_that_has_no_blocks_yet_is_no_hole() {
    let lines = format!(
        "for block in 1024 4096; do {NO_EXTENTS}
            for make in late both; do for to in away m/w; do
                for how in '' --reflink=never --sparse=always --direct --uncached --atomic --verify; do
                    $make; ours $how m/v $to 2>said; cmp m/v $to; rm $to
                done
                $make; \"$bytepath\" cat m/v >$to; cmp m/v $to; rm $to
                $make; \"$bytepath\" pv -q m/v >$to; cmp m/v $to; rm $to
            done; done
            $make; ours --sparse=never --route copy-file-range m/v m/w; cmp m/v m/w
            umount m; rm image
        done"
    );
    let _ = mounted(&[], &lines);
}

#[test]
fn a_copy_that_lacks_data_that_has_no_blocks_yet_is_found() {
    let lines = format!(
        "for block in 1024 4096; do {NO_EXTENTS}
            for make in late both; do for how in '' --verify --atomic; do
                $make; truncate -s $(stat -c %s m/v) away; touch -r m/v away
                ours --resume $how m/v away; cmp m/v away; rm away
            done; done
            umount m; rm image
        done"
    );
    let _ = mounted(&[], &lines);
}

#[test]
fn a_file_that_is_cut_between_two_looks_for_its_holes_is_copied_to_its_new_end() {
    if !may_trace() {
        return;
    }
    for options in ["", "--sparse=always", "--atomic"] {
        // It is stopped behind the call that has found data, and goes on once that is gone.
        let done = in_folder(&format!(
            "truncate -s 100M h; \
             printf x | dd of=h bs=1 seek=50M conv=notrunc status=none; \
             copy() {{ strace -f -qqq -o log -e trace=lseek $* \
               $bytepath cp --reflink=never {options} h new; }}; \
             copy && at=$(grep -n SEEK_HOLE log | tail -1 | cut -d: -f1) && rm log; \
             copy -e inject=lseek:signal=STOP:when=$((at - 1)) & \
             until grep -qs 'stopped by SIGSTOP' log; do kill -0 $! || exit; done; \
             truncate -s 10M h; kill -CONT $(grep 'stopped by SIGSTOP' log | cut -d' ' -f1); \
             wait $!; echo $?; cmp h new && stat -c %s new"
        ));
        let done = (done.stdout.as_str(), done.stderr.as_str());
        assert_eq!(done, ("0\n10485760\n", ""), "{options}");
    }
}

#[test]
fn blocks_that_nothing_was_written_to_stay_holes() {
    let lines = "
        for make in 'mkfs.ext4 -q -F' 'mkfs.xfs -q'; do
            truncate -s 400M image; $make image; mount -o loop image m
            truncate -s 1G m/none m/some; fallocate -n -l 20M m/none; fallocate -n -l 20M m/some
            dd if=bytes of=m/some bs=4096 count=3 seek=20000 conv=notrunc status=none
            # Once they were read, they count as data.
            \"$bytepath\" cat m/none >away; stat -c '%s %b' away; rm away
            for name in none some; do
                ours --reflink=never m/$name away; stat -c '%s %b' away; cmp -n 90M m/$name away; rm away
            done
            umount m; rm image
        done";
    let Some(done) = mounted(&["mkfs.xfs", "fallocate"], lines) else { return };
    assert_eq!(done.stdout.lines().count(), 6, "{done:?}");
    for line in done.stdout.lines() {
        let (size, blocks) = line.split_once(' ').expect("both");
        assert_eq!(size, "1073741824");
        assert!(blocks.parse().is_ok_and(|blocks: u64| blocks < 1000), "{done:?}");
    }
}

/// XFS sets blocks aside behind the end of a file that grows.
#[test]
fn holes_that_are_looked_for_take_no_more_room_than_the_classics() {
    let lines = "
        truncate -s 400M image; mkfs.xfs -q image; mount -o loop image m
        for at in 5 9 12 20; do dd if=bytes of=told bs=1M count=2 seek=$at conv=notrunc status=none; done
        truncate -s 30M told; cp --sparse=never told untold
        head -c 7000000 bytes >begun
        for name in told untold; do
            theirs --sparse=always $name m/theirs; ours --sparse=always $name m/ours
            head -c 7000000 $name >m/resumed; ours --sparse=always --resume $name m/resumed
            for copy in ours resumed; do cmp $name m/$copy; done
            stat -c %b m/theirs m/ours; rm m/*
        done
        umount m; rm image";
    let Some(done) = mounted(&["mkfs.xfs"], lines) else { return };
    let blocks: Vec<u64> = done.stdout.lines().map(|line| line.parse().expect("blocks")).collect();
    assert_eq!(blocks.len(), 4, "{done:?}");
    for pair in blocks.chunks(2) {
        assert!(pair[1] <= pair[0], "{blocks:?}");
    }
}

#[test]
fn of_a_clone_holes_are_not_counted() {
    let lines = "
        truncate -s 400M image; mkfs.xfs -q -m reflink=1 image; mount -o loop image m
        truncate -s 8T m/v; dd if=bytes of=m/v bs=4096 count=7 seek=1000 conv=notrunc status=none
        ours --reflink=always --json - m/v m/w
        umount m; rm image";
    let Some(done) = mounted(&["mkfs.xfs"], lines) else { return };
    assert!(done.stdout.contains("\"reflink\": 28672"), "{done:?}");
}

/// A file without an end, for which the place is limited.
#[test]
fn files_that_give_whole_entries_alone_are_copied() {
    let folder = tempfile::tempdir().expect("a folder");
    let done = shell(&format!(
        "cd {}; trap '' XFSZ; ulimit -f 2048; $bytepath cp /proc/self/pagemap x; stat -c %s x",
        folder.path().display()
    ));
    assert!(done.stderr.contains("File too large"), "{done:?}");
    let bytes: u64 = done.stdout.trim().parse().expect("a size");
    assert!(bytes >= 1 << 20, "{done:?}");
}

/// A hole is passed over before the kernel is asked to copy, which it refuses between file systems.
#[test]
fn the_route_that_passed_over_a_hole_is_named_beside_the_one_that_went_on() {
    let lines = "
        mount -t tmpfs none m; truncate -s 2M told; head -c 100000 bytes >>told
        \"$bytepath\" cat --explain-plan told >m/copy 2>said; cmp told m/copy; cat said; umount m";
    let Some(done) = mounted(&[], lines) else { return };
    assert!(done.stdout.contains("copy-file-range gave up at byte 2097152: "), "{done:?}");
    assert!(done.stdout.contains("came: 2197152 bytes by copy-file-range, by "), "{done:?}");
}

#[test]
fn what_comes_behind_the_last_hole_meanwhile_is_copied() {
    if !may_trace() {
        return;
    }
    for words in ["", "--sparse=always", "--atomic", "--resume", "--jobs 1"] {
        // It is stopped once it was told that there is nothing but a hole, and bytes come then.
        let done = in_folder(&format!(
            "truncate -s 1M s; seq 9000 >>s; truncate -s 3M s; traced=\"strace -P $PWD/s -e trace=lseek -o said\"
             $traced $bytepath cp {words} s d; number=$(grep -n ENXIO said | head -n 1 | cut -d: -f1)
             rm d; $traced -e inject=lseek:signal=STOP:when=$number \
                 sh -c 'echo $$ >pid; exec $bytepath cp {words} s d' & tracer=$!
             until grep -q 'stopped by' said; do kill -0 $tracer || exit 9; done
             seq 9000 >>s; kill -CONT $(cat pid); wait $tracer && cmp s d"
        ));
        assert!(done.status.success() && done.stderr.is_empty(), "{words}: {done:?}");
    }
}

#[test]
fn a_copy_that_has_its_size_needs_no_other() {
    if !may_trace() {
        return;
    }
    for words in ["", "--sparse=always", "--sparse=always --reflink=never", "--atomic"] {
        let done = in_folder(&format!(
            "truncate -s 1M s; seq 9000 >>s; for name in s said; do seq 90000 >said
             strace -f -qqq -o /dev/null -e inject=ftruncate:error=EOPNOTSUPP \
                 $bytepath cp {words} $name d && cmp $name d || exit 1; rm d; done"
        ));
        assert!(done.status.success() && done.stderr.is_empty(), "{words}: {done:?}");
    }
}
