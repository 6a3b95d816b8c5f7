//! Trees: links followed or not, names of one file, devices, deep paths, other file systems.

use std::path::Path;

use super::{date, directory, file, gnu, gnu_on_disk, mode, some};
use crate::program::{as_nobody, root, shell};

#[test]
fn links_are_followed_as_asked() {
    let Some(cp) = gnu() else { return };
    for option in ["-r", "-R", "-rL", "-rH", "-rP", "-rd", "-a", "-aH", "-rl", "-rs", "-al", "-rLl"]
    {
        for operands in ["d e", "to-d e", "to-d/ e", "d/sub new", "l broken e", "d to-d a l e"] {
            cp.both(&format!("cp -v {option} {operands}"), some).same();
        }
        // A name from the root on that does not tell which folder it is.
        let line = format!("cd e; cp -v {option} ../d .; cp -v {option} /proc/self/cwd/../d t");
        cp.both(&line, some).same();
    }
    let cycle = |work: &Path| {
        some(work);
        std::os::unix::fs::symlink("..", work.join("d/sub/deep/up")).expect("a link");
    };
    cp.both("cp -rL d new; cp -rLv d/sub/deep new2", cycle).same();
}

#[test]
fn names_of_one_file_stay_names_of_one_file() {
    let Some(cp) = gnu() else { return };
    let names = |work: &Path| {
        some(work);
        for name in ["a2", "d/a3", "d/sub/a4"] {
            std::fs::hard_link(work.join("a"), work.join(name)).expect("a link");
        }
    };
    for option in
        ["-a", "-d", "-rd", "-r --preserve=links", "-rL --preserve=links", "-rH -a", "-au"]
    {
        cp.both(&format!("cp {option} a a2 l d e; cp -v {option} a d/x a2 d/sub/* e"), names)
            .same();
    }
}

#[test]
fn parents_are_made_as_the_classic_makes_them() {
    let Some(cp) = gnu() else { return };
    let lines = [
        "cp --parents d/sub/y e",
        "cp -v --parents d/sub/y d/x e",
        "cp -v --parents d//sub///y e//",
        "cp -v --parents ./d/../d/sub/y e",
        "cp -rv --parents d/sub e",
        "cp -rv --parents d/sub/ e",
        "cp -v --parents nowhere/y e",
        "cp -v --parents d/nowhere e",
        "cp -v --parents to-d/x e",
        "mkdir -p e/d; cp -pv --parents d/sub/y e",
        "touch e/d; cp -v --parents d/sub/y e",
        "mkdir e/d; touch e/d/sub; cp -v --parents d/sub/y e",
        "umask 077; cp -v --parents d/sub/y e",
        "umask 0777; cp -v --parents d/sub/y e",
        "cp --parents -a d/sub/y e; cp --parents --no-preserve=mode d/x e",
    ];
    for line in lines {
        cp.both(line, some).same();
    }
}

#[test]
fn special_files_are_made_anew_or_read() {
    let Some(cp) = gnu() else { return };
    if !root() {
        return println!("skipped: making devices needs root");
    }
    let special = |work: &Path| {
        some(work);
        let device = rustix::fs::makedev(1, 3);
        let kinds = [("null", rustix::fs::FileType::CharacterDevice, device)];
        let more = [
            ("block", rustix::fs::FileType::BlockDevice, rustix::fs::makedev(7, 200)),
            ("socket", rustix::fs::FileType::Socket, 0),
        ];
        for (name, kind, device) in kinds.into_iter().chain(more) {
            let path = work.join("d").join(name);
            rustix::fs::mknodat(rustix::fs::CWD, path, kind, 0o640.into(), device).expect("made");
        }
    };
    for option in ["-r", "-a", "-rp", "-rl", "-rv --no-preserve=mode", "-r --remove-destination"] {
        cp.both(&format!("cp {option} d e; cp {option} d/. e"), special).same();
    }
    cp.both("cp d/null c; echo fed >d/fifo & cp d/fifo f; wait", special).same();
    cp.both("echo fed >d/fifo & cp -R --copy-contents d/fifo d/null e; wait", special).same();
}

#[test]
fn holes_are_kept_made_or_filled_as_asked() {
    let Some(cp) = gnu_on_disk() else { return };
    let holes = |work: &Path| {
        for (name, size, data) in [
            ("all", 3 << 20, vec![]),
            ("middle", 1 << 20, vec![512 << 10]),
            ("ends", 1 << 20, vec![0, (1 << 20) - 5]),
            ("many", 2 << 20, (0..16).map(|at| at * (128 << 10) + 4096).collect()),
        ] {
            let file = std::fs::File::create(work.join(name)).expect("a file");
            file.set_len(size).expect("a size");
            for at in data {
                std::os::unix::fs::FileExt::write_at(&file, b"data!", at).expect("written");
            }
            date(&work.join(name), 4);
        }
        file(&work.join("zeros"), &vec![0; 300_000], 4);
        let mut mixed = vec![0; 400_000];
        mixed[..10].fill(1);
        mixed[200_000..200_010].fill(1);
        file(&work.join("mixed"), &mixed, 4);
        file(&work.join("there"), &vec![9; 500_000], 4);
    };
    for option in
        ["", "--sparse=auto", "--sparse=always", "--sparse=never", "--reflink=never", "-a"]
    {
        for name in ["all", "middle", "ends", "many", "zeros", "mixed"] {
            let line = format!(
                "cp {option} {name} new; cp {option} {name} there; ls -s --block-size=1 new there"
            );
            cp.both(&line, holes).same();
        }
    }
    cp.both(
        "cp --sparse=always /dev/stdin new <mixed; cat mixed | cp --sparse=always /dev/stdin t",
        holes,
    )
    .same();
}

#[test]
fn what_may_not_be_read_is_told_of_and_the_rest_is_copied() {
    let Some(cp) = gnu() else { return };
    let Some(nobody) = as_nobody() else { return };
    let closed = |work: &Path| {
        some(work);
        mode(work, 0o777);
        for (path, bits) in [("b", 0o000), ("d/sub/deep", 0o300), ("d/x", 0o644)] {
            mode(&work.join(path), bits);
        }
        directory(&work.join("d/closed"));
        file(&work.join("d/closed/file"), b"hidden", 1);
        mode(&work.join("d/closed"), 0o000);
        directory(&work.join("d/only-read"));
        file(&work.join("d/only-read/file"), b"listed", 1);
        mode(&work.join("d/only-read"), 0o444);
        directory(&work.join("d/fixed"));
        file(&work.join("d/fixed/file"), b"fixed", 1);
        mode(&work.join("d/fixed"), 0o555);
        directory(&work.join("unwritable"));
    };
    let lines = [
        "cp -r d new",
        "cp -a d new",
        "cp -rp d new",
        "cp -rv --no-preserve=mode d new",
        "cp b new",
        "cp a unwritable; cp -r d unwritable; cp -v a unwritable/new",
        "cp -rf d e",
        "cp -p /etc/passwd new",
        "cp -r d/fixed new; cp -rv d/fixed/. new; cp -rfv d/fixed/. new",
    ];
    for line in lines {
        cp.both(&line.replace("cp ", &format!("{nobody} cp ")), closed).same();
        if root() {
            cp.both(line, closed).same();
        }
    }
}

/// Runs the lines in a folder with a file `b`, where `name` is a path of so many bytes in it: all of its
/// directories are there, and `deep` goes to the last.
fn with_long_name(bytes: usize, lines: &str) -> crate::program::Done {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().display();
    let done = shell(&format!(
        "cd {path} && echo b >b && start=$PWD name=$PWD part=$(printf %0100d 0) && \
         deep() {{ cd $start; while [ -d $part ]; do cd -P $part; done; }}; \
         while [ $(({bytes} - ${{#name}})) -gt 201 ]; do \
         mkdir $part && cd -P $part && name=$name/$part; done && \
         name=$name/$(printf %0$(({bytes} - ${{#name}} - 1))d 1) && cd $start && {lines}"
    ));
    shell(&format!("rm -rf {path}/*"));
    done
}

#[test]
fn a_symbolic_link_says_what_the_user_named_however_long_that_is() {
    for bytes in [2000, 2049, 3000, 4000] {
        let lines =
            "echo x >$name && $bytepath cp -s $name l && [ $(readlink l) = $name ] && cat l";
        assert_eq!(with_long_name(bytes, lines).well().stdout, "x\n", "{bytes}");
    }
}

#[test]
fn slashes_behind_a_long_name_are_no_name() {
    // With them it is longer than one piece.
    for bytes in [2046, 2047, 2048, 2049] {
        let lines = "mkdir $name && echo x >$name/f && for end in / // /// /.; do \
                     $bytepath cp -r $name$end new && cat new/f && rm -r new && \
                     $bytepath cp b $name$end && cat $name/b && rm $name/b || echo $end; done";
        assert_eq!(with_long_name(bytes, lines).well().stdout, "x\nb\n".repeat(4), "{bytes}");
    }
}

#[test]
fn what_is_beside_a_destination_too_long_for_one_call_is_synced_swept_and_counted() {
    let lines = "dead=$(sh -c 'echo $$') && (deep; echo half >.bytepath-$dead-0) && \
                 $bytepath cp --fsync b $name && $bytepath cp --resume b $name && (deep; cat *) && \
                 (deep; ls -A | grep -c .) && $bytepath cp -f --backup=numbered $name $name && \
                 $bytepath cp -f --backup=numbered $name $name && (deep; ls | sed 's/^0*1//')";
    assert_eq!(with_long_name(4438, lines).well().stdout, "b\n1\n\n.~1~\n.~2~\n");
}
