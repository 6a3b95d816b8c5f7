//! What shells offer where a value stands: words, files, folders, or nothing.

use clap::builder::{OsStringValueParser, PossibleValuesParser};
use clap::{Arg, Command, ValueHint};

/// Values that are one of a few words: of which command ("" are all), of which option, and the words. Whoever
/// reads such a value takes abbreviations of it, or lists, and has a message of its own for what it is not; so
/// shells offer these, and the command's parser knows nothing of them. A test holds them against help and messages.
const WORDS: &[(&str, &str, &str)] = &[
    ("cp", "sparse", "auto always never"),
    ("cp", "reflink", "auto always never"),
    ("cp", "update", "all none none-fail older"),
    ("cp", "backup", "none off simple never existing nil numbered t"),
    ("cp", "preserve", "mode timestamps ownership links context xattr all"),
    ("cp", "no-preserve", "mode timestamps ownership links context xattr all"),
    ("tee", "output-error", "warn warn-nopipe exit exit-nopipe"),
    ("pv", "bar-style", "plain block granular shaded"),
    ("", "wait", "block poll spin poll-spin hybrid"),
    ("", "placement", "free same-cpu smt-sibling shared-cache same-socket cross-socket cross-cpu"),
    ("write", "fresh", "discard remap populate"),
    ("memory", "pages", "base huge hugetlb"),
    ("", "pages", "base huge"),
    (
        "doctor",
        "apply",
        "pipe-size pipe-budget thp thp-shared thp-defrag io-uring governor somaxconn tcp-tw-reuse \
         tcp-window perf-event-paranoid kptr-restrict",
    ),
    ("copy", "on", "dir tmpfs ext4 xfs btrfs"),
    ("copy", "work", "one sparse tree"),
    ("copy", "cache", "hot cold"),
    ("copy", "peer", "cp dd cat rsync xcp fcp cpz"),
    ("pipes", "peer", "pv cat dd tee mbuffer"),
    ("movers", "peer", "pv cat dd tee mbuffer"),
    ("memory", "peer", "sysbench mbw"),
    (
        "memory",
        "ops",
        "read read-avx2 read-avx512 write write-avx2 write-avx512 write-nt fill copy copy-avx2 \
         copy-avx512 copy-nt",
    ),
    ("calls", "ops", "nop open-close statx read fallocate accept send receive timeout poll cancel"),
    ("fget", "sockets", "unix tcp"),
    ("files", "rw", "randread randwrite randrw read write rw"),
    ("gen", "kind", "yes zeros random pattern text lines fizzbuzz"),
    ("ipc", "sink", "file hash drop"),
    ("pages", "area", "base huge hugetlb untouched"),
    ("swap", "work", "touch redis mariadb"),
    ("swap", "contents", "integers text random"),
    (
        "all",
        "without",
        "pipes overhead movers calls copy fget files gen ipc run memory pages swap keepalive cmd",
    ),
    ("", "stacks", "tables fp"),
    ("", "trace", "offcpu wakeups syscalls softirq filelife tcp"),
];

/// What help calls values that are files, and those that no file's name is.
const FILES: &[&str] = &["FILE", "PATH", "FILE|unix:PATH", "RECORD", "RECORD[#ARM]"];
const FOLDERS: &[&str] = &["DIR", "DIRECTORY"];
const NEITHER: &[&str] = &[
    "ADDRESS",
    "BYTES",
    "CODES",
    "CTX",
    "ENDS",
    "FORMAT",
    "GLOB",
    "HEIGHT",
    "LIST",
    "N",
    "NAME",
    "NUM",
    "PERCENT",
    "PID",
    "PLACEMENT",
    "RATE",
    "SEC",
    "SECONDS",
    "SIZE",
    "SPEC",
    "SUFFIX",
    "TIME",
    "WAIT",
    "WIDTH",
];

/// The command with what shells are to offer for its values.
pub(super) fn by(command: Command) -> Command {
    let name = command.get_name().to_owned();
    command.mut_args(|value| offering(&name, value)).mut_subcommands(by)
}

fn offering(command: &str, value: Arg) -> Arg {
    if !value.get_action().takes_values() {
        return value;
    }
    if !value.get_possible_values().is_empty() {
        return value;
    }
    if let Some(words) = words(command, &value) {
        let words: Vec<&'static str> = words.split(' ').collect();
        return value.value_parser(PossibleValuesParser::new(words));
    }
    // It stands behind `=` or not at all; scripts offer it for the next word too, which is another's.
    if value.is_require_equals_set() {
        return value.value_parser(OsStringValueParser::new()).value_hint(ValueHint::FilePath);
    }
    match hint(&value) {
        Some(hint) => value.value_hint(hint),
        None => value,
    }
}

fn words(command: &str, value: &Arg) -> Option<&'static str> {
    let option = value.get_long()?;
    let row = WORDS
        .iter()
        .find(|(of, named, _)| *named == option && (*of == command || of.is_empty()))?;
    Some(row.2)
}

fn hint(value: &Arg) -> Option<ValueHint> {
    let name = value.get_value_names()?.first()?.as_str();
    match name {
        _ if FILES.contains(&name) => Some(ValueHint::FilePath),
        _ if FOLDERS.contains(&name) => Some(ValueHint::DirPath),
        _ if NEITHER.contains(&name) => Some(ValueHint::Other),
        // What is a path in the code and has another name.
        _ if value.get_value_hint() == ValueHint::AnyPath => Some(ValueHint::FilePath),
        _ => None,
    }
}
