//! The command that makes a run again, for its record.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;

use bytepath::shell::quoted;
use bytepath_report::page::COMMAND;
use clap::Args as _;
use serde_json::Value;

use crate::values;

/// Options that say where results go; they change nothing about the run.
const RESULTS: [&str; 6] = ["--json", "--csv", "--report", "--flame", "--folded", "--firefox"];
/// The same, of options without a value.
const RESULT_FLAGS: [&str; 2] = ["--plot", "--no-store"];

/// The setting in which the record keeps the command, where this is a run of `bench`.
pub(super) fn command(seed: u64) -> BTreeMap<String, Value> {
    let words = values::kebab_case(std::env::args_os()).into_iter();
    match again(words.skip(1).collect(), seed) {
        Some(text) => BTreeMap::from([(COMMAND.to_owned(), text.into())]),
        None => BTreeMap::new(),
    }
}

/// What to type for the same run with the same random orders; its results then go to standard
/// output alone.
fn again(words: Vec<OsString>, seed: u64) -> Option<String> {
    if words.first().is_none_or(|word| word != "bench") {
        return None;
    }
    let bench = super::Options::augment_args(clap::Command::new("bench"));
    let experiment = words.get(1).and_then(|name| bench.find_subcommand(name));
    let options: Vec<_> = experiment.into_iter().flat_map(clap::Command::get_arguments).collect();
    let mut kept: Vec<OsString> = vec!["bytepath".into()];
    let seeding = || ["--seed".into(), seed.to_string().into()];
    let mut words = words.into_iter().peekable();
    let mut seeded = false;
    while let Some(word) = words.next() {
        // What follows is no option, whatever it looks like.
        if word == "--" {
            if !seeded {
                kept.extend(seeding());
                seeded = true;
            }
            kept.push(word);
            kept.extend(words.by_ref());
            break;
        }
        let begins = |start: &str| word.as_bytes().starts_with(start.as_bytes());
        if RESULTS.iter().any(|option| word == *option) {
            words.next();
            continue;
        }
        let has_value = |option: &&str| begins(&format!("{option}="));
        if RESULTS.iter().any(has_value) || RESULT_FLAGS.iter().any(|flag| word == *flag) {
            continue;
        }
        seeded |= word == "--seed" || begins("--seed=");
        let name = word.to_str().and_then(|word| word.strip_prefix("--"));
        let is_it = |option: &&&clap::Arg| name.is_some() && option.get_long() == name;
        // What follows may look like an option, and is its value.
        let takes_any =
            options.iter().find(is_it).is_some_and(|it| it.is_allow_hyphen_values_set());
        kept.push(word);
        kept.extend(words.next_if(|_| takes_any));
    }
    if !seeded {
        kept.extend(seeding());
    }
    Some(kept.iter().map(quoted).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStringExt as _;

    use super::*;

    fn words(text: &str) -> Vec<OsString> {
        text.split(' ').map(OsString::from).collect()
    }

    #[test]
    fn the_command_keeps_what_makes_the_run_and_not_where_its_results_go() {
        let typed = words(
            "bench pipes --json out.json --quick --csv=x --plot --flame f --folded=g --firefox h --arms *@same-cpu",
        );
        let told = again(typed, 7).expect("a bench");
        assert_eq!(told, "bytepath bench pipes --quick --arms '*@same-cpu' --seed 7");
        let told = again(words("bench files --seed 3"), 3).expect("a bench");
        assert_eq!(told, "bytepath bench files --seed 3");
        assert_eq!(again(words("tour"), 3), None);
    }

    #[test]
    fn what_is_the_value_of_another_option_is_kept() {
        let typed = "bench run true --with --json=x --blocks 2 --folded f --with --plot --json y";
        let told = again(words(typed), 7).expect("a bench");
        let kept = "bytepath bench run true --with --json=x --blocks 2 --with --plot --seed 7";
        assert_eq!(told, kept);
    }

    #[test]
    fn words_that_a_shell_would_read_are_quoted() {
        let typed = vec![
            "bench".into(),
            "cmd".into(),
            "--".into(),
            "echo it's $HOME".into(),
            "a\tb\r".into(),
            "--json".into(),
        ];
        let told = again(typed, 1).expect("a bench");
        assert_eq!(told, r"bytepath bench cmd --seed 1 -- 'echo it'\''s $HOME' $'a\tb\r' --json");
    }

    #[test]
    fn words_that_are_no_text_are_kept_byte_by_byte() {
        let path = |bytes: &[u8]| OsString::from_vec(bytes.to_vec());
        let typed =
            [words("bench cmd cat --input"), vec![path(b"in\xff")], vec![path(b"--csv=\xfe")]];
        let told = again(typed.concat(), 1).expect("a bench");
        assert_eq!(told, r"bytepath bench cmd cat --input $'in\xff' --seed 1");
    }
}
