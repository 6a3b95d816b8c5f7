//! Destinations that are there: overwritten, skipped, asked about, kept under another name, linked.

use std::path::Path;

use super::{directory, file, gnu, mode, some};
use crate::program::as_nobody;

/// As [`some`], with an older `c`, a newer `n`, a read-only `r`, and links in the way.
fn more(work: &Path) {
    some(work);
    file(&work.join("c"), b"older", 1);
    file(&work.join("n"), b"newer", 9);
    file(&work.join("r"), b"read-only", 1);
    mode(&work.join("r"), 0o444);
    std::fs::hard_link(work.join("a"), work.join("a2")).expect("a link");
    file(&work.join("e/x"), b"x of e", 1);
    file(&work.join("e/a"), b"a of e", 8);
    std::os::unix::fs::symlink("a", work.join("e/sub")).expect("a link");
    file(&work.join("c~"), b"a backup", 1);
    file(&work.join("n.~7~"), b"a backup", 1);
    file(&work.join("n.~07~"), b"no backup", 1);
}

#[test]
fn what_is_in_the_way_is_treated_as_the_classic_treats_it() {
    let Some(cp) = gnu() else { return };
    let options = [
        "-v",
        "-fv",
        "-nv",
        "-uv",
        "-uvp",
        "-bv",
        "-fbv",
        "-vb --suffix=.bak",
        "-v --backup=numbered",
        "-v --backup=existing",
        "-v --backup=none",
        "-v --backup=t --backup",
        "-vS .old",
        "-vS a/b",
        "-lv",
        "-lfv",
        "-lbv",
        "-sv",
        "-sfv",
        "-sbv",
        "-lPv",
        "-v --remove-destination",
        "-v --remove-destination -P",
        "-dv",
        "-av",
        "-afv",
        "-auv",
        "-abv",
        "-v --attributes-only",
        "-pv --attributes-only",
        "-av --attributes-only",
        "-lv --attributes-only",
        "-alv --attributes-only",
    ];
    for option in options {
        let pairs = [
            "a c", "a n", "a r", "a a", "a a2", "a l", "l a", "l l", "l c", "a broken", "broken c",
            "c l", "c~ c", "a e", "b e/sub", "c a2",
        ];
        for pair in pairs {
            cp.both(&format!("cp {option} {pair}"), more).same();
        }
        cp.both(&format!("cp -r {option} d e; cp -r {option} d/. e"), more).same();
        cp.both(&format!("cp {option} a b c n e"), more).same();
    }
}

#[test]
fn what_an_operand_made_is_known_to_those_after_it() {
    let Some(cp) = gnu() else { return };
    let of_one_name = |work: &Path| {
        some(work);
        for name in ["p", "q", "r"] {
            directory(&work.join(name));
            file(&work.join(name).join("f"), name.as_bytes(), 1);
        }
        directory(&work.join("s"));
        std::os::unix::fs::symlink("../a", work.join("s/f")).expect("a link");
        file(&work.join("e/a"), b"a of e", 8);
    };
    let options = [
        "-v",
        "-fv",
        "-nv",
        "-uv",
        "-bv",
        "-v --backup=numbered",
        "-v --remove-destination",
        "-lv",
        "-Pv",
        "-rv",
        "-rv --remove-destination",
        "-rv --backup=numbered",
        "-rlv",
        "-av",
        "-afv",
    ];
    for option in options {
        let operands = [
            "p/f q/f",
            "p/f p/f",
            "p/f ./p/f",
            "s/f p/f",
            "p/f s/f",
            "p/f q/f r/f",
            "p/f q r/f",
            "p/f q/. r/f",
            "s/f q/. r/f",
            "q/. p/f",
            "p/f q/. q/f",
            "q/. r/. p/f",
        ];
        for operands in operands {
            cp.both(&format!("cp {option} {operands} e"), of_one_name).same();
        }
    }
}

#[test]
fn the_user_is_asked_in_the_classics_words() {
    let Some(cp) = gnu() else { return };
    let Some(nobody) = as_nobody() else { return };
    let lines = [
        "echo y | cp -i a c",
        "echo n | cp -iv a c",
        "cp -iv a c </dev/null",
        "echo yes | cp -iv a r",
        "echo n | cp -ni a c; echo y | cp -in a c",
        "printf 'n\\ny\\n' | cp -iv a b c n e",
        "printf 'y\\nn\\ny\\n' | cp -riv d/. e",
        "echo y | cp -ilv a c",
        "echo y | cp -ibv a c",
        "echo y | cp -iuv a n; echo y | cp -iuv a c",
        "echo y | cp -iv a l; echo y | cp -iPv l c",
        "printf 'y\\377\\n' | cp -iv a c",
        "printf '\\377y\\n' | cp -iv a c",
        "cp -iv a c <&-; cp -i a r <&- 2>&-",
        "cp -i a c </; cp -i a b e </; cp -i a c 0>new; cp -i a c >/dev/full </",
        "cp -i a made </; cp -in a c <&-",
    ];
    for line in lines {
        cp.both(line, more).same();
    }
    for line in ["cp -i", "cp -if", "cp -i --remove-destination", "cp", "cp -f", "cp -fv"] {
        let open = |work: &Path| {
            more(work);
            mode(work, 0o777);
        };
        cp.both(&format!("yes | {nobody} {line} a r; yes | {nobody} {line} a c"), open).same();
    }
}

#[test]
fn what_was_preserved_and_not_is_the_same_for_each_attribute() {
    let Some(cp) = gnu() else { return };
    let options = [
        "-p",
        "-a",
        "-d",
        "--preserve",
        "--preserve=mode",
        "--preserve=timestamps",
        "--preserve=ownership",
        "--preserve=links",
        "--preserve=xattr",
        "--preserve=all",
        "--no-preserve=mode",
        "--no-preserve=mode,links -p",
        "-a --no-preserve=mode",
        "-a --no-preserve=all",
        "-p --no-preserve=timestamps",
        "-a --no-preserve=ownership",
    ];
    let prepare = |work: &Path| {
        more(work);
        let set = |path: &str, user: u32| {
            let _ = std::os::unix::fs::lchown(work.join(path), Some(user), Some(user + 1));
        };
        for (path, user) in [("b", 65533), ("d/x", 65532), ("d/sub", 65531), ("l", 65530)] {
            set(path, user);
        }
        mode(&work.join("d/x"), 0o6755);
        mode(&work.join("d/sub"), 0o3711);
        let flags = rustix::fs::XattrFlags::empty();
        for path in ["b", "d/x", "d/sub"] {
            let _ = rustix::fs::setxattr(work.join(path), "user.note", b"some", flags);
        }
        for (path, age) in [("d/sub", 30), ("d", 31)] {
            super::date(&work.join(path), age);
        }
    };
    for option in options {
        for umask in ["022", "077", "000", "0777"] {
            cp.both(&format!("umask {umask}; cp {option} b c; cp {option} b new"), prepare).same();
            cp.both(&format!("umask {umask}; cp -r {option} d new"), prepare).same();
        }
        cp.both(&format!("cp -r {option} d/. e; cp {option} d/x d/sub/* e"), prepare).same();
        cp.both(&format!("cp {option} -v --parents d/sub/y d//sub/deep/z e"), prepare).same();
    }
}

#[test]
fn a_directory_that_nobody_may_look_into_gets_its_attributes_all_the_same() {
    let (Some(cp), Some(nobody)) = (gnu(), as_nobody()) else { return };
    for bits in ["0", "200", "400", "100"] {
        for words in ["-r", "-a", "-rp", "-r --preserve=timestamps", "-a --attributes-only"] {
            let lines = format!(
                "{nobody}sh -c 'mkdir -p s/d e/d; touch -d @7 s/d; chmod 750 s/d; chmod {bits} e/d'
                {nobody}cp {words} -T s e; echo $?; stat -c '%a %Y' e/d | grep -v ' .........'"
            );
            cp.both(&lines, |work| mode(work, 0o777)).same();
        }
    }
}

#[test]
fn backups_of_long_names_are_named_as_the_classic_names_them() {
    let Some(cp) = gnu() else { return };
    for (bytes, how) in (252..=255).flat_map(|bytes| {
        ["-b", "-b -S.a", "-b -S.abcdefgh", "--backup=numbered", "--backup=simple"]
            .map(|how| (bytes, how))
    }) {
        let name = "x".repeat(bytes);
        cp.both(&format!("echo old >{name}; cp {how} a {name}; ls"), some).same();
    }
}
