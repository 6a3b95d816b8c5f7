//! What is installed beside the program: completions and manual pages, for every command.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

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

/// What somebody types before the key for completion, and the words that the program then gets, in a folder
/// that has one file, `alpha`.
const TYPED: &[(&str, &[&str])] = &[
    ("ca", &["cat"]),
    ("bench pip", &["bench", "pipes"]),
    ("cat --show-e", &["cat", "--show-ends"]),
    ("cp ", &["cp", "alpha"]),
    ("cp al", &["cp", "alpha"]),
    ("cp alpha --recurs", &["cp", "alpha", "--recursive"]),
    ("run true --pipef", &["run", "true", "--pipefail"]),
    ("report last --plo", &["report", "last", "--plot"]),
    ("cat alpha al", &["cat", "alpha", "alpha"]),
    ("cp --reflink al", &["cp", "--reflink", "alpha"]),
    ("cp --progress al", &["cp", "--progress", "alpha"]),
    ("cp --metrics al", &["cp", "--metrics", "alpha"]),
    ("cp --sparse alw", &["cp", "--sparse", "always"]),
    ("cp --sparse=alw", &["cp", "--sparse=always"]),
    ("gen zeros --pages hu", &["gen", "zeros", "--pages", "huge"]),
    ("bench memory --pages hugetl", &["bench", "memory", "--pages", "hugetlb"]),
    ("write --placement same-c", &["write", "--placement", "same-cpu"]),
    ("write --wait poll-", &["write", "--wait", "poll-spin"]),
    ("pv -u gra", &["pv", "-u", "granular"]),
    ("bench copy --work spa", &["bench", "copy", "--work", "sparse"]),
    ("doctor --apply thp-s", &["doctor", "--apply", "thp-shared"]),
    ("completions fi", &["completions", "fish"]),
    ("pv --pidfile al", &["pv", "--pidfile", "alpha"]),
    ("fleet cp --journ", &["fleet", "cp", "--journal"]),
    ("fleet cp --sparse alw", &["fleet", "cp", "--sparse", "always"]),
    ("cp -u al", &["cp", "-u", "alpha"]),
    ("cp --reflink=ne", &["cp", "--reflink=never"]),
    ("tee --output-error=exit-", &["tee", "--output-error=exit-nopipe"]),
];

/// A shell's home, and the folder that it is in.
fn home() -> TempDir {
    let home = tempfile::tempdir().expect("a folder");
    std::fs::create_dir(home.path().join("in")).expect("a folder");
    std::fs::write(home.path().join("in/alpha"), "").expect("a file");
    for (shell, name) in [("bash", "script"), ("zsh", "_bytepath"), ("fish", "fish")] {
        let script = run(&mut bytepath(&["completions", shell])).well().stdout;
        std::fs::write(home.path().join(name), script).expect("a file");
    }
    home
}

/// The words of each call after those lines were typed on a terminal, with the key for completion at the end.
fn completed_by(home: &Path, shell: &str) -> Vec<String> {
    let keys: String = TYPED.iter().map(|(line, _)| format!("bytepath {line}\t\n")).collect();
    std::fs::write(home.join("keys"), keys + "exit\n").expect("a file");
    let mut script = Command::new("script");
    script.args(["-qec", shell, "/dev/null"]).current_dir(home.join("in")).env("HOME", home);
    script.env("ZDOTDIR", home).env("TERM", "dumb").env_remove("PROMPT_COMMAND");
    let done = run(script.stdin(File::open(home.join("keys")).expect("a file")));
    let called = std::fs::read_to_string(home.join("called"));
    let called = called.unwrap_or_else(|error| panic!("{error}: {done:?}"));
    called.lines().map(str::to_owned).collect()
}

/// In the place of the program: it notes its words.
const NOTES: &str = r#"bytepath() { printf '<%s>' "$@"; echo; } >>"$HOME/called""#;

#[track_caller]
fn completes_on_a_terminal(shell: &str, name: &str, begin: &str) {
    if !installed(shell) || !installed("script") {
        return;
    }
    let home = home();
    std::fs::write(home.path().join(name), format!("{NOTES}\n{begin}\n")).expect("a file");
    let line = format!("{shell} -i");
    let wanted = |(_, words): &(&str, &[&str])| -> String {
        words.iter().map(|word| format!("<{word}>")).collect()
    };
    let wanted: Vec<String> = TYPED.iter().map(wanted).collect();
    assert_eq!(completed_by(home.path(), &line), wanted);
}

#[test]
fn bash_completes_what_is_typed() {
    completes_on_a_terminal("bash", ".bashrc", "PS1='$ '; source ~/script");
}

#[test]
fn zsh_completes_what_is_typed() {
    completes_on_a_terminal(
        "zsh",
        ".zshrc",
        "fpath=(~ $fpath); autoload -U compinit; compinit -u -D",
    );
}

#[test]
fn fish_completes_what_is_typed() {
    if !installed("fish") {
        return;
    }
    let home = home();
    for (line, words) in TYPED {
        let asked = format!("source ~/fish; complete -C 'bytepath {line}'");
        let mut fish = Command::new("fish");
        fish.args(["--no-config", "-c", &asked]).current_dir(home.path().join("in"));
        let done = run(fish.env("HOME", home.path())).well();
        let offered: Vec<&str> =
            done.stdout.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(offered, words[words.len() - 1..], "{line}");
    }
}

#[test]
fn on_an_empty_word_bash_offers_commands_or_leaves_it_to_files() {
    if !installed("bash") {
        return;
    }
    let completed = |words: &str, typed: &str| {
        let line = format!(
            "source <($bytepath completions bash); COMP_WORDS=({words} '{typed}'); \
             COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _bytepath_offered bytepath '{typed}' \"${{COMP_WORDS[-2]}}\"; echo \"${{COMPREPLY[*]}}\""
        );
        run(Command::new("bash").args(["-c", &line]).env("bytepath", BYTEPATH)).well().stdout
    };
    let offered = |words: &str| completed(words, "");
    for words in ["bytepath cp", "bytepath cat alpha", "bytepath run --json", "bytepath gen yes"] {
        assert_eq!(offered(words), "\n", "{words}");
    }
    assert_eq!(offered("bytepath fleet"), "bench tune doctor compare cp\n");
    // An option that takes any number of values.
    let names = offered("bytepath doctor --apply");
    assert!(names.contains("thp-shared"), "{names}");
    assert_eq!(offered("bytepath doctor --apply thp governor"), names);
    assert_eq!(offered("bytepath doctor --apply thp --profile"), "\n");
    // Directly behind the sign bash takes that for the word to complete, and calls it empty.
    let behind = run(Command::new("bash").env("bytepath", BYTEPATH).args([
        "-c",
        "source <($bytepath completions bash); COMP_WORDS=(bytepath cp --reflink =); COMP_CWORD=3; \
         _bytepath_offered bytepath '' --reflink; echo \"${COMPREPLY[*]}\"",
    ]));
    assert_eq!(behind.well().stdout, "auto always never\n");
    // Behind "--" no option is offered. What a text has within it is no such word.
    assert_eq!(completed("bytepath cat --", "--show-e"), "\n");
    assert_eq!(completed("bytepath run 'grep -- x f | wc'", "--summ"), "--summary\n");
    // The last of a list, and what help does not show is not offered.
    let list = run(Command::new("bash").env("bytepath", BYTEPATH).args([
        "-c",
        "source <($bytepath completions bash); COMP_WORDS=(bytepath bench copy --on dir,t); COMP_CWORD=4; \
         _bytepath_offered bytepath dir,t --on; echo \"${COMPREPLY[*]}\"",
    ]));
    assert_eq!(list.well().stdout, "dir,tmpfs\n");
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&mut bytepath(&["completions", shell])).well().stdout;
        assert!(!script.contains("hidden"), "{shell}");
        let options = script.lines().filter(|line| shell != "bash" || line.contains("opts="));
        assert!(!options.clone().any(|line| line.contains("starter")), "{shell}");
        assert!(options.clone().any(|line| line.contains("explain-plan")), "{shell}");
    }
    let commands = offered("bytepath");
    assert!(commands.contains("cat cp") && !commands.contains('-'), "{commands}");
}

#[test]
fn words_that_shells_offer_are_those_that_the_command_knows() {
    let script = run(&mut bytepath(&["completions", "bash"])).well().stdout;
    let (mut called, mut option) = (Vec::new(), "");
    let mut seen = 0;
    for line in script.lines().map(str::trim) {
        match line.strip_suffix(')') {
            Some(path) if path.starts_with("bytepath__subcmd__") => {
                called = path.split("__subcmd__").skip(1).collect();
            }
            Some(name) if name.starts_with("--") => option = name,
            _ => {}
        }
        let words = line.strip_prefix("COMPREPLY=($(compgen -W \"");
        let Some(words) = words.and_then(|line| line.strip_suffix("\" -- \"${cur}\"))")) else {
            continue;
        };
        // Those of a short option are the long one's, which stands before it.
        if option.is_empty() || words.is_empty() || called[0] == "fleet" {
            continue;
        }
        let help = run(&mut bytepath(&[&called[..], &["--help"]].concat())).stdout;
        let value = format!("{option}=nosuch");
        let said = run(&mut bytepath(&[&called[..], &[&value]].concat())).stderr;
        for word in words.split(' ') {
            let told = |text: &str| {
                let mut told =
                    text.split(|letter: char| !letter.is_alphanumeric() && letter != '-');
                told.any(|told| told == word)
            };
            assert!(told(&help) || told(&said), "{called:?} {option} {word}: {said}");
            seen += 1;
        }
        option = "";
    }
    assert!(seen > 100, "{seen}");
}

#[track_caller]
fn has_every_page(folder: &Path) {
    for command in commands() {
        let path = folder.join(format!("bytepath-{command}.1"));
        let page =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        for section in ["NAME", "SYNOPSIS", "\"EXIT STATUS\"", "\"SEE ALSO\""] {
            assert!(page.contains(&format!(".SH {section}\n")), "{section}: {page}");
        }
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
fn a_day_that_cannot_be_written_dates_no_manual_page() {
    let folder = tempfile::tempdir().expect("a folder");
    for second in ["253402300799", "253402300800", "18446744073709551615"] {
        let mut command = bytepath(&["man", folder.path().to_str().expect("plain letters")]);
        run(command.env("SOURCE_DATE_EPOCH", second)).well();
        let page = std::fs::read_to_string(folder.path().join("bytepath.1")).expect("it is made");
        assert_eq!(page.contains(" 9999-12-31 "), second == "253402300799", "{second}: {page}");
    }
}

#[test]
fn manual_pages_are_named_dated_and_in_the_letters_that_every_formatter_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let words = ["man", folder.path().to_str().expect("plain letters")];
    run(bytepath(&words).env("SOURCE_DATE_EPOCH", "1700000000")).well();
    let page = |name: &str| {
        std::fs::read_to_string(folder.path().join(name)).unwrap_or_else(|error| panic!("{error}"))
    };
    let yes = page("bytepath-gen-yes.1");
    let version = env!("CARGO_PKG_VERSION");
    let title = format!(".TH bytepath-gen-yes 1 2023-11-14 \"bytepath {version}\" bytepath\n");
    assert!(yes.contains(&title), "{yes}");
    assert!(yes.contains("\\fBbytepath gen yes\\fR [OPTIONS] [STRING]...\n"), "{yes}");
    assert!(yes.contains("\\fBbytepath\\-gen\\fR(1), \\fBbytepath\\fR(1)\n"), "{yes}");
    assert!(page("bytepath-compare.1").contains("\\fB3\\fR\n"));
    let of_fleet = page("bytepath-fleet-cp.1");
    assert!(of_fleet.contains("\\-\\-limit\\-per\\-machine"));
    assert!(of_fleet.contains("\\fB129, 130, 131, 143\\fR\n"), "its own codes: {of_fleet}");
    assert!(!page("bytepath-bench-run.1").contains("\\fBany\\fR\n"), "not those of run");
    let interrupted = "\\fB129, 130, 131, 143\\fR\n";
    for name in ["bench", "bench-pipes", "bench-cmd", "bench-run", "tune", "tour", "explain-copy"] {
        assert!(page(&format!("bytepath-{name}.1")).contains(interrupted), "{name}");
    }
    assert!(!page("bytepath-compare.1").contains(interrupted));
    let pv = page("bytepath-pv.1");
    assert!(pv.contains(&format!(".SH VERSION\nv{version}\n")), "{pv}");
    let groff = installed("groff");
    for entry in folder.path().read_dir().expect("a folder") {
        let path = entry.expect("an entry").path();
        let text = std::fs::read_to_string(&path).expect("text");
        assert!(text.is_ascii(), "{path:?}");
        // A break beside a blank line, which is one, is passed over with a warning.
        assert!(!text.contains(".br\n\n") && !text.contains("\n\n.br"), "{path:?}");
        if groff {
            run(Command::new("groff").args(["-man", "-ww", "-z"]).arg(&path)).well();
        }
    }
}

#[test]
fn manual_pages_tell_of_every_variable_and_of_the_files_of_their_commands() {
    let folder = tempfile::tempdir().expect("a folder");
    run(&mut bytepath(&["man", folder.path().to_str().expect("plain letters")])).well();
    let page = |name: &str| {
        let page = std::fs::read_to_string(folder.path().join(name));
        page.unwrap_or_else(|error| panic!("{name}: {error}")).replace("\\-", "-")
    };
    let whole = page("bytepath.1");
    for name in variables(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")) {
        assert!(whole.contains(&name), "{name} is read and not told of: {whole}");
    }
    assert!(whole.contains(".SH \"SIZES AND TIMES\"\nA SIZE is"), "{whole}");
    for (name, of_it, of_others) in [
        ("bytepath-fleet-cp.1", "bytepath/fleet/*.journal", "bytepath-swap.lock"),
        ("bytepath-bench-swap.1", "/run/bytepath-swap.lock", "bytepath-fleet"),
        ("bytepath-tune.1", "bytepath/profile.json", "POSIXLY_CORRECT"),
        ("bytepath-cp.1", "POSIXLY_CORRECT", "XDG_DATA_HOME"),
        ("bytepath-tour.1", "/var/tmp", "XDG_RUNTIME_DIR"),
    ] {
        let page = page(name);
        assert!(page.contains(of_it) && !page.contains(of_others), "{name}: {page}");
    }
    assert!(!page("bytepath-completions.1").contains(".SH ENVIRONMENT"));
}

/// The variables that the sources below a folder ask for by name, but those of tests.
fn variables(sources: &Path) -> Vec<String> {
    let words = ["-rhoE", "--include=*.rs", "--exclude-dir=tests", "--exclude=build.rs"];
    let asked = r#"(var|var_os|absolute|is_set|told)\("[A-Z][A-Z0-9_]+""#;
    let found = run(Command::new("grep").args(words).arg(asked).arg(sources)).well().stdout;
    let names = found.lines().filter_map(|line| line.split('"').nth(1)).map(str::to_owned);
    let names: Vec<String> = names.filter(|name| name != "UPDATE_SCHEMA").collect();
    assert!(names.len() > 10, "{names:?}");
    names
}

/// Installs the program under test, in the place of one that `make build` has built; the root it is in.
#[track_caller]
fn made_to_install(folder: &Path, prefix: &str) -> PathBuf {
    made(folder, "install", prefix)
}

/// As `make` does this; the root it is in.
#[track_caller]
fn made(folder: &Path, what: &str, prefix: &str) -> PathBuf {
    let (built, root) = (folder.join("target"), folder.join("a root"));
    std::fs::create_dir_all(built.join("release")).expect("a folder");
    let _ = std::os::unix::fs::symlink(BYTEPATH, built.join("release/bytepath"));
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut make = Command::new("make");
    make.args([what, &format!("PREFIX={prefix}")]).arg(format!("DESTDIR={}", root.display()));
    // Others can read it, whatever those may of the files of who installs it.
    let mut shell = Command::new("sh");
    shell
        .args(["-c", r#"umask 077; exec "$@""#, "sh"])
        .arg(make.get_program())
        .args(make.get_args());
    let make =
        shell.current_dir(repository).env("CARGO_TARGET_DIR", &built).env_remove("MAKEFLAGS");
    assert!(run(make).status.success());
    root
}

#[test]
fn make_install_installs_the_program_its_manual_and_its_completions() {
    if !installed("make") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let usr = made_to_install(folder.path(), "/usr").join("usr");
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
    let hidden = run(Command::new("find").arg(&usr).args(["!", "-perm", "-044"])).well().stdout;
    assert_eq!(hidden, "", "nobody else can read these");
    let left = made(folder.path(), "uninstall", "/usr");
    let left = run(Command::new("find").arg(left).args(["-type", "f"])).well().stdout;
    assert_eq!(left, "", "uninstalled");
}

#[test]
fn fish_looks_where_make_install_puts_its_completions() {
    if !installed("make") || !installed("fish") {
        return;
    }
    for prefix in ["/usr", "/usr/local", "/home/somebody/.local"] {
        let folder = tempfile::tempdir().expect("a folder");
        let root = made_to_install(folder.path(), prefix);
        let mut fish = Command::new("fish");
        fish.args(["-c", "string join \\n $fish_complete_path"]).env("HOME", "/home/somebody");
        for name in ["XDG_DATA_DIRS", "XDG_DATA_HOME", "XDG_CONFIG_HOME", "XDG_CONFIG_DIRS"] {
            fish.env_remove(name);
        }
        let looked = run(&mut fish).stdout;
        let there = |at: &str| root.join(&at[1..]).join("bytepath.fish").exists();
        assert!(looked.lines().any(there), "{prefix}: {looked}");
    }
}
