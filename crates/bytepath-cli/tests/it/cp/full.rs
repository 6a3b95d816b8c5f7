//! Full disks, quotas and mounts that may not be written, for real: by one thread and by several.

use super::failing::mounted;

/// Makes many files in `many`. `same WORDS` copies them as the classic does and as ours does by one
/// thread and by several, and says where they differ; `whole WORDS` sees that each file that ours
/// copies is whole or told of, and that none has bytes of its own.
const MANY: &str = "
    mkdir many; for folder in 1 2 3; do mkdir many/$folder; for n in $(seq 40); do
        tail -c +$((folder * 1000 + n)) bytes | head -c 30000 >many/$folder/$n; done; done
    same() { theirs \"$@\" 2>told || echo code $? >>told; copied m/new $(pwd)/many >>told; rm -r m/new
        for jobs in 1 2 3; do
            ours --jobs $jobs \"$@\" 2>said || echo code $? >>said
            copied m/new $(pwd)/many >>said; rm -r m/new
            diff told said || echo \"differs by $jobs: $*\"
        done; }
    whole() { code=0; ours \"$@\" 2>said || code=$?; echo code $code
        copied m/new $(pwd)/many | grep bogus || true
        (cd many; find * -type f) | while read -r name; do
            cmp -s many/$name m/new/$name || grep -q \"'m/new/$name'\" said ||
                grep -q \"'m/new/${name%/*}'\" said || echo lost $name
        done
        sed \"s/'.*'/it/\" said | sort -u; rm -r m/new; }
";

/// What `whole` says where there was not enough room.
fn short(word: &str) -> [String; 2] {
    ["code 1".to_owned(), format!("cp: error writing it: {word}")]
}

#[test]
fn on_a_full_disk_every_file_is_whole_or_told_of() {
    let full = "No space left on device";
    for mount in [
        "mount -t tmpfs -o size=1M none m",
        "image 3M; mount -o loop image m",
        "image 3M; mount -o loop,nodelalloc image m",
    ] {
        let ways = ["--jobs 1", "--jobs 2", "--jobs 3 -a", "--jobs 2 --route uring"];
        let lines = ways.map(|way| format!("whole -r {way} many m/new;")).concat();
        let Some(done) = mounted(&[], &format!("{MANY} {mount}; {lines}")) else { return };
        let said: Vec<_> = done.stdout.lines().collect();
        assert_eq!(said, [short(full), short(full), short(full), short(full)].concat(), "{mount}");
    }
    // By one thread it is, besides, the classic to the byte.
    let lines =
        "mount -t tmpfs -o size=1M none m; theirs -r many m/new 2>told || echo code $? >>told
        copied m/new $(pwd)/many >>told; rm -r m/new
        ours --jobs 1 -r many m/new 2>said || echo code $? >>said; copied m/new $(pwd)/many >>said
        diff told said && grep -c 'No space' said";
    let Some(done) = mounted(&[], &format!("{MANY} {lines}")) else { return };
    assert!(done.stdout.trim().parse::<u32>().is_ok_and(|count| count > 50), "{done:?}");
}

#[test]
fn a_large_file_fills_a_disk_as_far_as_the_classic_fills_it() {
    // Enough for pieces to have become large ones by the time that the disk is full, and not the same
    // part of one left each time.
    for (disk, options, size) in [("xfs", "", "300M"), ("ext4", "-m 0", "60M")] {
        let lines = format!(
            "seq 90000000 | head -c 90000000 >long
            truncate -s {size} image; mkfs.{disk} -q {options} image >/dev/null
            for left in 40000 40100 40200 40300; do
                mount -o loop image m
                room=$(df --output=avail -k m | tail -1)
                fallocate -l $((room - left))K m/filler
                for who in theirs ours; do
                    $who long m/x 2>$who || echo code $? >>$who
                    stat -c %s m/x; cmp -n $(stat -c %s m/x) long m/x; rm m/x
                    # Some give the room back only then.
                    umount m; mount -o loop image m
                done
                diff theirs ours; rm m/filler; umount m
            done; cat ours"
        );
        let Some(done) = mounted(&[&format!("mkfs.{disk}")], &lines) else { continue };
        let (sizes, said) = done.stdout.split_at(done.stdout.find("cp:").expect("a message"));
        assert_eq!(said, "cp: error writing 'm/x': No space left on device\ncode 1\n");
        let sizes: Vec<u64> = sizes.lines().map(|size| size.parse().expect("a size")).collect();
        assert_eq!(sizes.len(), 8, "{done:?}");
        for pair in sizes.chunks(2) {
            assert!(pair[0] > 20_000_000 && pair[1] >= pair[0], "{disk}: {sizes:?}");
        }
    }
}

#[test]
fn beyond_a_quota_every_file_is_whole_or_told_of() {
    let lines = "
        truncate -s 200M image; mkfs.btrfs -q image >/dev/null; mount -o loop image m
        btrfs quota enable m; btrfs subvolume create m/limited >/dev/null
        btrfs qgroup limit 1M m/limited; umount m; mount -o loop,subvol=limited image m
        whole -r --jobs 1 many m/new; btrfs filesystem sync m; whole -r --jobs 2 many m/new";
    let needed = ["btrfs", "mkfs.btrfs"];
    let Some(done) = mounted(&needed, &format!("{MANY} {lines}")) else { return };
    let exceeded = |line: &&str| line.ends_with(" it: Disk quota exceeded");
    let (exceeded, rest): (Vec<_>, Vec<_>) = done.stdout.lines().partition(exceeded);
    assert!(exceeded.len() >= 2, "{done:?}");
    assert_eq!(rest, ["code 1", "code 1"], "{done:?}");
}

#[test]
fn a_mount_that_may_not_be_written_is_told_of_for_each_file() {
    let lines = "
        mkdir m/new m/new/1 m/new/3; mount --bind m m; mount -o remount,ro,bind m
        rm() { :; }; same -r many/. m/new; cat told";
    let Some(done) = mounted(&[], &format!("{MANY} {lines}")) else { return };
    let refused = |what: &str| {
        let told = format!("cp: cannot create {what} 'm/new/./");
        let word = ": Read-only file system";
        let line = |line: &&str| line.starts_with(&told) && line.ends_with(word);
        done.stdout.lines().filter(line).count()
    };
    assert_eq!((refused("regular file"), refused("directory")), (80, 1), "{done:?}");
    assert_eq!(done.stdout.lines().count(), 82, "{done:?}");
}
