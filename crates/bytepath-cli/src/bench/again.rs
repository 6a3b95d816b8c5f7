//! The command that makes a run again, for its record.

use std::collections::BTreeMap;

use bytepath::shell::quoted;
use bytepath_report::page::COMMAND;
use serde_json::Value;

/// Options that say where results go; they change nothing about the run.
const RESULTS: [&str; 3] = ["--json", "--csv", "--report"];
/// The same, of options without a value.
const RESULT_FLAGS: [&str; 2] = ["--plot", "--no-store"];

/// The setting in which the record keeps the command, where this is a run of `bench`.
pub(super) fn command(seed: u64) -> BTreeMap<String, Value> {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    match again(words.collect(), seed) {
        Some(text) => BTreeMap::from([(COMMAND.to_owned(), text.into())]),
        None => BTreeMap::new(),
    }
}

/// What to type for the same run with the same random orders; its results then go to standard
/// output alone.
fn again(words: Vec<String>, seed: u64) -> Option<String> {
    if words.first().is_none_or(|word| word != "bench") {
        return None;
    }
    let mut kept = vec!["bytepath".to_owned()];
    let mut words = words.into_iter();
    let mut seeded = false;
    while let Some(word) = words.next() {
        // What follows is no option, whatever it looks like.
        if word == "--" {
            if !seeded {
                kept.extend(["--seed".to_owned(), seed.to_string()]);
                seeded = true;
            }
            kept.push(word);
            kept.extend(words.by_ref());
            break;
        }
        if RESULTS.contains(&word.as_str()) {
            words.next();
            continue;
        }
        let has_value = |option: &&str| word.starts_with(&format!("{option}="));
        if RESULTS.iter().any(has_value) || RESULT_FLAGS.contains(&word.as_str()) {
            continue;
        }
        seeded |= word == "--seed" || word.starts_with("--seed=");
        kept.push(word);
    }
    if !seeded {
        kept.extend(["--seed".to_owned(), seed.to_string()]);
    }
    Some(kept.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::again;

    fn words(text: &str) -> Vec<String> {
        text.split(' ').map(str::to_owned).collect()
    }

    #[test]
    fn the_command_keeps_what_makes_the_run_and_not_where_its_results_go() {
        let typed = words("bench pipes --json out.json --quick --csv=x --plot --arms *@same-cpu");
        let told = again(typed, 7).expect("a bench");
        assert_eq!(told, "bytepath bench pipes --quick --arms '*@same-cpu' --seed 7");
        let told = again(words("bench files --seed 3"), 3).expect("a bench");
        assert_eq!(told, "bytepath bench files --seed 3");
        assert_eq!(again(words("tour"), 3), None);
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
}
