//! `--uncached`: the page cache is as it was, by whichever way the kernel and the file system have.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use bytepath::page_cache;
use tempfile::TempDir;

use crate::calls::may_trace;
use crate::program::{Done, as_nobody, shell};

/// A folder on a disk, with a file `large` that is not in the page cache.
struct Disk(TempDir);

/// No whole number of pages, and several windows.
const BYTES: usize = (20 << 20) + 12_345;

impl Disk {
    /// `None`, said aloud, where the build is on a file system in memory.
    fn new() -> Option<Disk> {
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
        let mut large = File::create_new(folder.path().join("large")).expect("a file");
        let bytes: Vec<u8> = (0..BYTES as u32 / 4).flat_map(u32::to_le_bytes).collect();
        large.write_all(&bytes).and_then(|()| large.write_all(b"x")).expect("written");
        let disk = Disk(folder);
        disk.cool("large");
        let cold = disk.resident("large") == 0;
        if !cold {
            println!("skipped: nothing can be dropped from the page cache here");
        }
        cold.then_some(disk)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn open(&self, name: &str) -> File {
        File::options().read(true).write(true).open(self.path(name)).expect("it is there")
    }

    /// Brings a file to the device, and has none of it in the page cache.
    fn cool(&self, name: &str) {
        page_cache::drop_pages(self.open(name)).expect("dropped");
    }

    fn resident(&self, name: &str) -> u64 {
        page_cache::resident_bytes(self.open(name)).expect("the file can be mapped")
    }

    fn shell(&self, lines: &str) -> Done {
        shell(&format!("cd {} && {lines}", self.0.path().display()))
    }

    /// Neither file is in the page cache, and their bytes are the same.
    #[track_caller]
    fn is_clean(&self, source: &str, copy: &str) {
        assert_eq!((self.resident(source), self.resident(copy)), (0, 0), "{source} to {copy}");
        let same = self.shell(&format!("cmp {source} {copy}"));
        assert!(same.status.success(), "{same:?}");
        self.cool(source);
    }
}

/// Whether a path goes by a route that leaves the page cache as it was.
fn is_uncached(route: &str) -> bool {
    ["dontcache", "fadvise"].contains(&route)
}

#[test]
fn nothing_that_was_not_in_the_page_cache_is_there_afterwards() {
    let Some(disk) = Disk::new() else { return };
    let done = disk.shell("$bytepath cp --uncached --reflink=never --json - large new").well();
    let routes = done.json()["routes"].clone();
    let routes: Vec<_> = routes.as_object().expect("routes").keys().cloned().collect();
    assert!(!routes.is_empty() && routes.iter().all(|route| is_uncached(route)), "{routes:?}");
    disk.is_clean("large", "new");
    // The kernel may take pages away at any time, and some machines do it all the time.
    const TRIES: u32 = 20;
    let stays = (0..TRIES).any(|_| {
        page_cache::fill(disk.open("large"), BYTES as u64).expect("read");
        let hot = disk.resident("large");
        disk.shell("$bytepath cp --uncached --reflink=never -v --debug large again").well();
        assert_eq!(disk.resident("again"), 0);
        hot >= BYTES as u64 && disk.resident("large") == hot
    });
    assert!(stays, "the source lost pages in each of {TRIES} tries");
}

#[test]
fn the_plan_says_how_the_page_cache_is_left() {
    let Some(disk) = Disk::new() else { return };
    let done = disk.shell("$bytepath cp --uncached --reflink=never --explain-plan large new");
    for said in [
        ": copies through memory of ours; leaves the page cache as it was",
        "not copy-file-range: copy_file_range copies through the page cache",
        "not splice: ",
    ] {
        assert!(done.stderr.contains(said), "{said:?} is not in {}", done.stderr);
    }
    let came = format!("came: {BYTES} bytes by ");
    let (_, route) = done.stderr.split_once(&came).expect("what came");
    assert!(route.split(',').next().is_some_and(is_uncached), "{}", done.stderr);
}

#[test]
fn holes_stay_holes_and_trees_stay_out() {
    let Some(disk) = Disk::new() else { return };
    let done = disk.shell(
        "truncate -s 3M holes && head -c 100000 large >>holes && truncate -s 9M holes && \
         head -c 70001 large >>holes && mkdir t && head -c 5000 large >t/a && : >t/empty && \
         ln -s a t/l && cp holes t/holes && sync -f t",
    );
    done.well();
    let files = ["holes", "t/a", "t/holes", "large"];
    files.iter().for_each(|name| disk.cool(name));
    disk.shell(
        "$bytepath cp --uncached --reflink=never holes new && $bytepath cp -a --uncached t u",
    )
    .well();
    for (source, copy) in [("holes", "new"), ("t/a", "u/a"), ("t/holes", "u/holes")] {
        disk.is_clean(source, copy);
    }
    let held = |name: &str| {
        let found = disk.path(name).metadata().expect("it is there");
        std::os::unix::fs::MetadataExt::blocks(&found)
    };
    assert_eq!(held("new"), held("holes"));
    assert_eq!(disk.shell("diff -r t u && readlink u/l").well().stdout, "a\n");
}

/// What strace makes of a call, and on which of its calls.
fn injected(disk: &Disk, inject: &str, words: &str) -> Done {
    disk.shell(&format!(
        "strace -f -qqq -o /dev/null -e inject={inject} $bytepath cp --uncached --reflink=never {words}"
    ))
}

#[test]
fn a_refused_flag_leads_to_advice_from_the_byte_reached() {
    let Some(disk) = Disk::new() else { return };
    if !may_trace() {
        return;
    }
    for (at, inject) in [
        "preadv2:error=EOPNOTSUPP:when=1+",
        "pwritev2:error=EOPNOTSUPP:when=3+",
        "pwritev2:error=EINVAL:when=1+",
        "preadv2:error=EINVAL:when=4+",
        "preadv2:error=ENOSYS:when=2+",
    ]
    .iter()
    .enumerate()
    {
        let copy = format!("new{at}");
        let done = injected(&disk, inject, &format!("--explain-plan large {copy}"));
        let gave = "dontcache gave up at byte ";
        let (_, rest) = done.stderr.split_once(gave).unwrap_or_else(|| panic!("{done:?}"));
        let byte: u64 = rest.split(':').next().and_then(|byte| byte.parse().ok()).expect("a byte");
        // The call that is refused is the first, or some chunks were moved before.
        assert_eq!(byte == 0, inject.ends_with("=1+"), "{inject}: {}", done.stderr);
        assert!(done.stderr.contains("with RWF_DONTCACHE is refused for the s"), "{done:?}");
        let before = if byte == 0 { "" } else { "by dontcache, " };
        let came = format!("came: {BYTES} bytes {before}by fadvise");
        assert!(done.stderr.contains(&came), "{done:?}");
        disk.is_clean("large", &copy);
    }
}

#[test]
fn interrupted_and_short_calls_lose_nothing() {
    let Some(disk) = Disk::new() else { return };
    if !may_trace() {
        return;
    }
    for (at, inject) in [
        "preadv2,pwritev2,sync_file_range,read,write:error=EINTR:when=20+3",
        "pwritev2:error=EINTR:when=1+2",
    ]
    .iter()
    .enumerate()
    {
        let copy = format!("new{at}");
        injected(&disk, inject, &format!("large {copy}")).well();
        disk.is_clean("large", &copy);
    }
    // A failing device is told of when its writing is waited for.
    let done = injected(&disk, "sync_file_range:error=EIO:when=3", "large lost");
    done.refused(1, &["cp: error writing 'lost': Input/output error"]);
}

#[test]
fn what_no_way_takes_is_copied_through_the_page_cache_with_a_note() {
    let Some(disk) = Disk::new() else { return };
    if !may_trace() {
        return;
    }
    disk.shell("mkdir t && cp large other").well();
    let done = injected(&disk, "sync_file_range:error=ENOSYS", "large other t");
    let note = "cp: --uncached: what cannot be kept out of the page cache stays there: \
                sync_file_range is refused for the sink: Function not implemented";
    assert!(done.stderr.starts_with(note) && done.stderr.lines().count() == 1, "{done:?}");
    assert!(disk.shell("cmp large t/large && cmp large t/other").status.success());
}

#[test]
fn a_source_of_others_is_looked_at_by_nobody() {
    let (Some(disk), Some(nobody)) = (Disk::new(), as_nobody()) else { return };
    if nobody.is_empty() || !may_trace() {
        return println!("skipped: becoming another user takes root, and strace");
    }
    let to = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let mode = |mode| std::os::unix::fs::PermissionsExt::from_mode(mode);
    for (path, bits) in [(disk.0.path(), 0o755), (to.path(), 0o777)] {
        std::fs::set_permissions(path, mode(bits)).expect("ours");
    }
    if !reachable(nobody, &disk.path("large")) {
        return println!("skipped: another user cannot come to the build's folder");
    }
    let to = to.path().display();
    let strace = "strace -f -qqq -o /dev/null -e inject=preadv2:error=EOPNOTSUPP";
    let done = disk.shell(&format!(
        "{nobody} {strace} $bytepath cp --uncached --reflink=never large {to}/new && cmp large {to}/new"
    ));
    let note =
        "the kernel tells only who owns or may write the source what of it is in the page cache";
    assert!(done.status.success() && done.stderr.contains(note), "{done:?}");
}

fn reachable(nobody: &str, path: &Path) -> bool {
    let line = format!("{nobody} test -r {} && {nobody} test -x $bytepath", path.display());
    shell(&line).status.success()
}

#[test]
fn sources_without_pages_and_places_in_memory_are_copied() {
    let Some(disk) = Disk::new() else { return };
    let done = disk.shell(
        "$bytepath cp --uncached /proc/version v && mkfifo f && \
         { cat large >f & } && $bytepath cp --uncached f new && wait",
    );
    done.well();
    assert_eq!((disk.resident("v"), disk.resident("new")), (0, 0));
    disk.shell("cmp /proc/version v && cmp large new").well();
    disk.cool("large");
    let Ok(memory) = tempfile::tempdir_in("/dev/shm") else {
        return println!("skipped: there is no /dev/shm");
    };
    let to = memory.path().display();
    let done = disk.shell(&format!(
        "$bytepath cp --uncached large {to}/new && mkdir t {to}/t && cp large t/a && cp large t/b && \
         $bytepath cp -r --uncached t {to} && cmp large {to}/new && diff -r t {to}/t"
    ));
    let note = "cp: --uncached: the destination is a file system in memory: its files are in the page \
                cache and nowhere else\n";
    assert_eq!((done.stderr, done.stdout), (note.repeat(2), String::new()));
}

/// The node lies on a file system in memory; what is written to it does not.
#[test]
fn a_device_is_no_file_system_in_memory() {
    let Some(disk) = Disk::new() else { return };
    let done = disk.shell("$bytepath cp --uncached large /dev/null");
    assert!(done.status.success() && !done.stderr.contains("in memory"), "{done:?}");
}

#[test]
fn what_contradicts_it_is_refused() {
    let Some(disk) = Disk::new() else { return };
    for (other, why) in [
        ("--direct", "leaves the page cache alone already"),
        ("--reflink=always", "has no bytes copied"),
        ("--reflink", "has no bytes copied"),
        ("--sparse=always", "zeros are looked for"),
        ("--route copy-file-range", "copies through the page cache"),
        ("--route uring-direct", "no whole block"),
    ] {
        let done = disk.shell(&format!("$bytepath cp --uncached {other} large new"));
        done.refused(1, &["cp: options --uncached and --", "are mutually exclusive: ", why]);
        assert!(!disk.path("new").exists(), "{other}");
    }
    let done = disk.shell("$bytepath cp --direct --sparse=always large new");
    done.refused(1, &["cp: options --direct and --sparse=always are mutually exclusive: zeros"]);
    assert!(!disk.path("new").exists());
    disk.shell("$bytepath cp --uncached --route fadvise --reflink=never large new").well();
    disk.is_clean("large", "new");
}

#[test]
fn what_is_verified_or_gone_on_with_stays_out_as_well() {
    let Some(disk) = Disk::new() else { return };
    for option in ["--verify", "--resume", "--resume --verify", "--resume --atomic"] {
        disk.shell("rm -f new .new.bytepath-part; head -c 9000001 large >new").well();
        ["large", "new"].iter().for_each(|name| disk.cool(name));
        let done =
            disk.shell(&format!("$bytepath cp --uncached --reflink=never {option} large new"));
        if done.stderr.contains("RWF_DONTCACHE is refused") {
            return println!("skipped: reading leaves pages behind here: {}", done.stderr);
        }
        done.well();
        disk.is_clean("large", "new");
    }
}

/// What is no whole block goes through the page cache, at the end of the file and behind what is there.
#[test]
fn what_is_verified_or_gone_on_with_goes_past_it_as_well() {
    const BLOCKS_MAX: u64 = 2 * 4096;
    let Some(disk) = Disk::new() else { return };
    for option in ["", "--verify", "--resume", "--resume --verify", "--resume --atomic"] {
        disk.shell("rm -f new .new.bytepath-part; head -c 9000001 large >new").well();
        ["large", "new"].iter().for_each(|name| disk.cool(name));
        let done = disk.shell(&format!("$bytepath cp --direct --reflink=never {option} large new"));
        if !done.stderr.is_empty() {
            return println!("skipped: not all goes past the page cache here: {}", done.stderr);
        }
        done.well();
        for name in ["large", "new"] {
            let resident = disk.resident(name);
            assert!(resident <= BLOCKS_MAX, "{resident} bytes of {name} with {option:?}");
        }
        disk.shell("cmp large new").well();
        disk.cool("large");
    }
}

#[test]
fn where_reading_leaves_pages_behind_there_is_a_note() {
    let Some(disk) = Disk::new() else { return };
    if !may_trace() {
        return;
    }
    disk.shell("head -c 9000001 large >part").well();
    for words in ["--verify large new", "--resume large part"] {
        let done = injected(&disk, "preadv2:error=EOPNOTSUPP", words);
        let note = "cp: --uncached: what cannot be kept out of the page cache stays there: reading \
                    with RWF_DONTCACHE is refused for the source: Operation not supported\n";
        assert_eq!(done.stderr, note, "{words}: {done:?}");
        let copy = words.rsplit(' ').next().expect("the copy");
        assert!(disk.shell(&format!("cmp large {copy}")).status.success(), "{words}");
    }
    let strace = "strace -f -qqq -o /dev/null -e inject=preadv2:error=EOPNOTSUPP";
    let done = disk.shell(&format!("{strace} $bytepath cp --direct --verify large direct"));
    assert!(done.stderr.starts_with("cp: --direct: what cannot "), "{done:?}");
}
