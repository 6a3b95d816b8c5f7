//! What `make dist` hands out, made by the same script of the program under test: what is in it, that
//! nothing of it stands in the way of the system's programs, and that it runs in a root that has
//! nothing else.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::program::{BYTEPATH, installed, root, run};

/// The classics that have a link, where no PATH looks.
const CLASSICS: [&str; 4] = ["cat", "cp", "pv", "tee"];
const CLASSIC_FOLDER: &str = "usr/lib/bytepath/classic";

/// This machine as Debian calls it.
const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Packs the program under test; the package.
#[track_caller]
fn packed(kind: &str, folder: &Path) -> PathBuf {
    let mut package = Command::new(workspace().join("tools/package"));
    // By paths of the caller's folder, which is not the repository.
    let from_here = |path: &Path| path.strip_prefix("/").expect("a whole path").to_owned();
    package.arg(kind).arg(from_here(Path::new(BYTEPATH))).arg(ARCHITECTURE);
    package.arg(from_here(folder)).current_dir("/");
    // For a moment; and at a time that is the same whenever the test runs.
    package.env("PACKAGE_COMPRESSION", "-Zgzip -z1").env("SOURCE_DATE_EPOCH", "1700000000");
    let done = run(&mut package);
    assert!(done.status.success(), "{done:?}");
    PathBuf::from(done.stdout.trim_end())
}

/// What is in a package, as paths from the root; a link with what it points to.
#[track_caller]
fn listed(package: &Path) -> Vec<String> {
    let done = run(Command::new("dpkg-deb").arg("--contents").arg(package)).well();
    let path = |line: &str| Some(line.split_once(" ./")?.1.to_owned());
    done.stdout.lines().filter_map(path).filter(|path| !path.is_empty()).collect()
}

/// Every link of the documents below a folder to something beside them is to what is there.
#[track_caller]
fn links_lead_somewhere(folder: &Path) {
    let found = run(Command::new("find").arg(folder).args(["-name", "*.md"])).well().stdout;
    let mut seen = 0;
    for document in found.lines().map(Path::new) {
        let text = std::fs::read_to_string(document).expect("a document");
        let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        for link in links.filter(|link| !link.is_empty() && !link.contains("://")) {
            let target = document.parent().expect("it is below one").join(link);
            assert!(target.exists(), "{}: {link}", document.display());
            seen += 1;
        }
    }
    assert!(seen > 0, "no link below {}", folder.display());
}

/// Words that give the rights to install and to change the root; none where they cannot be had.
fn as_root() -> Option<Vec<&'static str>> {
    if root() {
        return Some(Vec::new());
    }
    let words = vec!["unshare", "--map-root-user"];
    let may = Command::new(words[0]).args(&words[1..]).arg("true").status();
    let may = may.is_ok_and(|status| status.success());
    if !may {
        println!("skipped: needs root, or a user namespace");
    }
    may.then_some(words)
}

/// The command behind those words.
fn with(words: &[&str], program: &str) -> Command {
    match words {
        [] => Command::new(program),
        [first, rest @ ..] => {
            let mut command = Command::new(first);
            command.args(rest).arg(program);
            command
        }
    }
}

/// A root with the libraries that the program under test was linked to, and a package database.
fn clean_root() -> TempDir {
    let root = tempfile::tempdir().expect("a folder");
    for folder in ["info", "updates"] {
        std::fs::create_dir_all(root.path().join("var/lib/dpkg").join(folder)).expect("a folder");
    }
    std::fs::write(root.path().join("var/lib/dpkg/status"), "").expect("a file");
    // What is not linked to anything says so in words.
    let linked = run(Command::new("ldd").arg(BYTEPATH)).stdout;
    for library in linked.split_whitespace().filter(|word| word.starts_with('/')) {
        let to = root.path().join(&library[1..]);
        std::fs::create_dir_all(to.parent().expect("it has one")).expect("a folder");
        std::fs::copy(library, to).expect("a library");
    }
    root
}

#[test]
fn the_debian_package_is_the_same_each_time_and_shadows_nothing() {
    if !installed("dpkg-deb") {
        return;
    }
    let (one, other) =
        (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let (first, second) = (packed("deb", one.path()), packed("deb", other.path()));
    let same = run(Command::new("cmp").args([&first, &second]));
    assert!(same.status.success(), "{same:?}");
    let listed = listed(&first);
    for path in &listed {
        // One name where programs are looked for, and all else under names of ours.
        let path = path.split(" -> ").next().expect("a name");
        let ours = path == "usr/bin/bytepath" || !path.contains("bin/") || path.ends_with("bin/");
        let named = path.ends_with('/') || path.contains("bytepath");
        assert!(ours && named, "{path} is not ours to install");
    }
    for classic in CLASSICS {
        let link = format!("{CLASSIC_FOLDER}/{classic} -> ../../../bin/bytepath");
        assert!(listed.contains(&link), "{link}: {listed:?}");
    }
    for path in [
        "usr/share/bash-completion/completions/bytepath",
        "usr/share/fish/vendor_completions.d/bytepath.fish",
        "usr/share/zsh/vendor-completions/_bytepath",
        "usr/share/man/man1/bytepath-cp.1.gz",
        "usr/share/doc/bytepath/copyright",
        "usr/share/doc/bytepath/third-party.gz",
        "usr/share/doc/bytepath/docs/fleet.md",
    ] {
        assert!(listed.iter().any(|listed| listed == path), "{path}: {listed:?}");
    }
    let unpacked = one.path().join("unpacked");
    run(Command::new("dpkg-deb").arg("--extract").args([&first, &unpacked])).well();
    links_lead_somewhere(&unpacked);
    lint(&first);
}

/// What lintian has to say. The program under test is linked dynamically, which packages that are
/// handed out are not, so what is said of its libraries is left out.
fn lint(package: &Path) {
    if !installed("lintian") {
        return;
    }
    let mut lintian = Command::new("lintian");
    lintian.args(["--allow-root", "--fail-on", "none", "--tag-display-limit", "0"]);
    let done = run(lintian.arg(package));
    assert!(done.status.success(), "{done:?}");
    let ours =
        ["mismatched-override", "unused-override", "undeclared-elf-prerequisites", "hardening"];
    let faults: Vec<&str> = done
        .stdout
        .lines()
        .filter(|line| line.starts_with("E:") || line.starts_with("W:"))
        .filter(|line| !ours.iter().any(|known| line.contains(known)))
        .collect();
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn the_debian_package_installs_runs_and_leaves_in_a_clean_root() {
    let Some(words) = as_root().filter(|_| installed("dpkg") && installed("chroot")) else {
        return;
    };
    let folder = tempfile::tempdir().expect("a folder");
    let package = packed("deb", folder.path());
    let root = clean_root();
    let at = |path: &str| root.path().join(path);
    let dpkg = |arguments: &[&str]| {
        let mut dpkg = with(&words, "dpkg");
        dpkg.arg(format!("--root={}", root.path().display()))
            .arg("--force-not-root,script-chrootless");
        // There is no shell or ldconfig in the root that could be looked for.
        dpkg.args(["--force-bad-path", "--ignore-depends=libc6,libgcc-s1"]).args(arguments);
        let done = run(&mut dpkg);
        assert!(done.status.success(), "{done:?}");
    };
    dpkg(&["--install", package.to_str().expect("letters")]);
    std::fs::write(at("words"), "some words\n").expect("a file");
    let inside = |arguments: &[&str]| {
        run(with(&words, "chroot").arg(root.path()).args(arguments)).well().stdout
    };
    assert!(inside(&["/usr/bin/bytepath", "--version"]).starts_with("bytepath "));
    let classic = |name: &str| format!("/{CLASSIC_FOLDER}/{name}");
    assert_eq!(inside(&[&classic("cat"), "/words"]), "some words\n");
    assert_eq!(inside(&[&classic("pv"), "-q", "/words"]), "some words\n");
    inside(&[&classic("cp"), "/words", "/copy"]);
    assert_eq!(std::fs::read_to_string(at("copy")).expect("a copy"), "some words\n");
    assert!(inside(&[&classic("tee"), "--version"]).contains("bytepath"));
    dpkg(&["--purge", "bytepath"]);
    for left in ["usr/bin/bytepath", "usr/lib/bytepath", "usr/share/doc/bytepath"] {
        assert!(!at(left).exists(), "{left} is left");
    }
}

#[test]
fn the_archive_runs_from_where_it_is_unpacked() {
    let folder = tempfile::tempdir().expect("a folder");
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    let (first, second) = (packed("tar", &one), packed("tar", &other));
    let same = run(Command::new("cmp").args([&first, &second]));
    assert!(same.status.success(), "{same:?}");
    run(Command::new("tar").arg("-C").arg(folder.path()).arg("-xzf").arg(&first)).well();
    let name = first.file_name().and_then(|name| name.to_str()).expect("letters");
    let unpacked = folder.path().join(name.strip_suffix(".tar.gz").expect("its ending"));
    let words = unpacked.join("words");
    std::fs::write(&words, "some words\n").expect("a file");
    for program in ["bin/bytepath", "lib/bytepath/classic/cat"] {
        let mut program = Command::new(unpacked.join(program));
        if program.get_program().to_string_lossy().ends_with("bytepath") {
            program.arg("cat");
        }
        assert_eq!(run(program.arg(&words)).well().stdout, "some words\n");
    }
    for file in [
        "README.md",
        "docs/fleet.md",
        "docs/figures.md",
        "LICENSE-MIT",
        "LICENSE-APACHE",
        "share/man/man1/bytepath.1.gz",
    ] {
        assert!(unpacked.join(file).exists(), "{file}");
    }
    links_lead_somewhere(&unpacked);
    let text = std::fs::read_to_string(unpacked.join("THIRD-PARTY.txt")).expect("a file");
    // Of each kind one: what asks for its notice, for its text, and what is no crate.
    for notice in [
        "\nnom ",
        "Copyright (c) 2014-2019 Geoffroy Couprie",
        "\nsyscalls ",
        "Redistributions in binary form must reproduce",
        "\ninferno ",
        "COMMON DEVELOPMENT AND DISTRIBUTION LICENSE",
        "Rich Felker",
        "Mike Bostock",
    ] {
        assert!(text.contains(notice), "{notice:?} is missing");
    }
    assert!(!text.contains("/registry/"), "no folder of the machine that packed it");
}

#[test]
fn every_crate_has_the_texts_of_its_licences_and_the_library_says_what_it_is() {
    let read = |path: &Path| {
        std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    let crates = std::fs::read_dir(workspace().join("crates")).expect("a folder");
    let crates: Vec<PathBuf> = crates.map(|entry| entry.expect("an entry").path()).collect();
    assert!(crates.len() > 1, "{crates:?}");
    for one in crates {
        for licence in ["LICENSE-MIT", "LICENSE-APACHE"] {
            assert_eq!(read(&one.join(licence)), read(&workspace().join(licence)));
        }
    }
    let library = workspace().join("crates/bytepath");
    assert!(read(&library.join("README.md")).starts_with("# bytepath\n"));
}
