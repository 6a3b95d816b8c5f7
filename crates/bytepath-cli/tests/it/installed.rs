//! What is installed beside the program: completions and manual pages, for every command.

use std::path::Path;
use std::process::Command;

use crate::program::{BYTEPATH, bytepath, installed, run};

const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// The commands that the help lists.
fn commands() -> Vec<String> {
    let help = run(&mut bytepath(&["--help"])).well().stdout;
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    // Deeper lines are the rest of a sentence.
    let listed = listed.filter(|line| !line.starts_with("   "));
    listed.filter_map(|line| line.split_whitespace().next().map(str::to_owned)).collect()
}

#[test]
fn completions_are_made_for_every_command_and_shell() {
    let commands = commands();
    assert!(commands.len() > 5, "{commands:?}");
    for shell in SHELLS {
        let script = run(&mut bytepath(&["completions", shell])).well().stdout;
        for command in &commands {
            assert!(script.contains(command), "{shell}: {command}");
        }
        assert!(script.contains("show-ends") && !script.contains("carry"), "{shell}");
    }
    run(&mut bytepath(&["completions", "nosuch"])).refused(2, &["nosuch", "bash"]);
}

#[test]
fn bash_completes_commands_and_options() {
    if !installed("bash") {
        return;
    }
    let completed = |words: &str, last: &str, before: &str| {
        let line = format!(
            "source <($bytepath completions bash); COMP_WORDS=({words}); \
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _bytepath bytepath '{last}' '{before}'; echo \"${{COMPREPLY[@]}}\""
        );
        run(Command::new("bash").args(["-c", &line]).env("bytepath", BYTEPATH)).well().stdout
    };
    assert_eq!(completed("bytepath ca", "ca", "bytepath"), "cat\n");
    let options = completed("bytepath cat --show-", "--show-", "cat");
    assert_eq!(options, "--show-nonprinting --show-ends --show-tabs --show-all\n");
}

#[track_caller]
fn has_every_page(folder: &Path) {
    for command in commands() {
        let path = folder.join(format!("bytepath-{command}.1"));
        let page =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        assert!(page.contains(".SH NAME") && page.contains(".SH SYNOPSIS"), "{page}");
    }
    assert!(folder.join("bytepath.1").exists() && !folder.join("bytepath-carry.1").exists());
}

#[test]
fn a_manual_page_is_made_for_every_command() {
    let folder = tempfile::tempdir().expect("a folder");
    let pages = folder.path().join("made/on/the/way");
    run(&mut bytepath(&["man", pages.to_str().expect("plain letters")])).well();
    has_every_page(&pages);
    run(&mut bytepath(&["man", "/dev/null/pages"])).refused(1, &["cannot make /dev/null/pages"]);
}

#[test]
fn make_install_installs_the_program_its_manual_and_its_completions() {
    if !installed("make") {
        return;
    }
    // The program under test in the place of one that `make build` has built.
    let folder = tempfile::tempdir().expect("a folder");
    let (built, root) = (folder.path().join("target"), folder.path().join("a root"));
    std::fs::create_dir_all(built.join("release")).expect("a folder");
    std::os::unix::fs::symlink(BYTEPATH, built.join("release/bytepath")).expect("a link");
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut make = Command::new("make");
    make.args(["install", "PREFIX=/usr"]).arg(format!("DESTDIR={}", root.display()));
    let make = make.current_dir(repository).env("CARGO_TARGET_DIR", &built).env_remove("MAKEFLAGS");
    assert!(run(make).status.success());
    let usr = root.join("usr");
    for file in [
        "bin/bytepath",
        "share/bash-completion/completions/bytepath",
        "share/zsh/site-functions/_bytepath",
        "share/fish/vendor_completions.d/bytepath.fish",
    ] {
        let size = usr.join(file).metadata().map(|data| data.len()).unwrap_or(0);
        assert!(size > 1000, "{file}: {size} bytes");
    }
    has_every_page(&usr.join("share/man/man1"));
}
