//! The script for a shell: the generator's, and what that leaves out.

use std::fmt::Write as _;

use clap::builder::{PossibleValuesParser, Str};
use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;

/// The generator offers bash options for any word, and so never leaves it to bash to offer files; and
/// takes no notice of `=`, which is a word of its own there.
const OFFERED_BY_BASH: &str = r#"
# Options for a word that begins like one and is not behind "--". For any other the commands of a command
# or, where nothing is offered, what bash itself does: files.
_bytepath_offered() {
    local before=$3 at listed= word behind=
    if [[ $before == = && COMP_CWORD -ge 2 ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    elif [[ ${COMP_WORDS[COMP_CWORD]} != = && "BEHIND_EQUALS" == *" ${COMP_WORDS[1]}$3 "* ]]; then
        before=
    fi
    # An option that takes any number of values.
    at=$((COMP_CWORD - 1))
    while [[ at -gt 1 && ${COMP_WORDS[at]} != -* && ${COMP_WORDS[at]} != = ]]; do
        at=$((at - 1))
    done
    [[ "ANY_NUMBER" != *" ${COMP_WORDS[1]}${COMP_WORDS[at]} "* ]] || before=${COMP_WORDS[at]}
    # What stands behind the last comma of a list.
    [[ $before != -* || $2 != *,* ]] || listed=${2%,*},
    _bytepath "$1" "${2#"$listed"}" "$before"
    [[ -z $listed || -z ${COMPREPLY[*]} ]] || COMPREPLY=("${COMPREPLY[@]/#/$listed}")
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        [[ $word != -- ]] || behind=--
    done
    if [[ $2 != -* || -n $behind ]]; then
        for at in "${!COMPREPLY[@]}"; do
            [[ ${COMPREPLY[at]} != -* ]] || unset "COMPREPLY[at]"
        done
    fi
}
"#;

/// The completions of this command for a shell.
pub(super) fn of(shell: Shell, mut command: Command) -> String {
    command = hidden_named(command);
    command = match shell {
        Shell::Bash => files_by_bash(command),
        Shell::Zsh => named_for_zsh(command),
        _ => command,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "bytepath", &mut script);
    let script = String::from_utf8(script).expect("the generator writes text");
    let script = without_hidden(shell, &script);
    // Scripts would offer their words for the next word too, which is another's.
    let behind_equals = options_that(&command, Arg::is_require_equals_set);
    // A line of the script, changed if it is about such an option.
    let changed =
        |line: &str, is_it: &dyn Fn(&str, &str) -> bool, [old, new]: [&str; 2]| match behind_equals
            .iter()
            .any(|(of, option)| is_it(of, option))
        {
            true => line.replacen(old, new, 1),
            false => line.to_owned(),
        };
    let lines = script.split_inclusive('\n');
    match shell {
        Shell::Bash => {
            let by_ours =
                script.replace("complete -F _bytepath ", "complete -F _bytepath_offered ");
            let words = |options: &[(String, String)]| -> String {
                options.iter().map(|(of, option)| format!(" {of}{option} ")).collect()
            };
            let offered = OFFERED_BY_BASH.replace("BEHIND_EQUALS", &words(&behind_equals));
            by_ours
                + &offered.replace("ANY_NUMBER", &words(&options_that(&command, takes_any_number)))
        }
        Shell::Fish => {
            let lines = lines.map(|line| {
                let has = |words: String| line.contains(&words);
                let is_it = |of: &str, option: &str| {
                    let long = option.strip_prefix("--");
                    has(format!("subcommand {of}\""))
                        && long.is_some_and(|long| has(format!(" -l {long} ")))
                };
                changed(line, &is_it, [" -r -f -a ", " -f -a "])
            });
            lines.collect::<String>() + &operands_for_fish(&command)
        }
        Shell::Zsh => {
            let lines = lines.map(|line| {
                let spec = line.trim_start_matches(['\'', '*']);
                let is_it = |_: &str, option: &str| {
                    let rest = spec.strip_prefix(option).filter(|_| spec.contains("]::"));
                    rest.is_some_and(|rest| rest.starts_with("=[") || rest.starts_with("+["))
                };
                let separator = if spec.starts_with("--") { ["=[", "=-["] } else { ["+[", "-["] };
                // `*::` takes all that follows for words of its own, options included: true only of
                // another command's words, for which there is nothing to offer.
                let operands = if line.ends_with(":' \\\n") { "'*::" } else { "'*:" };
                changed(line, &is_it, separator).replacen("'*::", operands, 1)
            });
            lines.collect()
        }
        _ => script,
    }
}

fn takes_any_number(option: &Arg) -> bool {
    option.get_num_args().is_some_and(|values| values.max_values() == usize::MAX)
}

/// The options of which this is true, each with its command.
fn options_that(command: &Command, is_so: fn(&Arg) -> bool) -> Vec<(String, String)> {
    let of = |command: &Command| {
        let options = command.get_arguments().filter(|option| is_so(option));
        let names = options.flat_map(|option| {
            let short = option.get_short().map(|short| format!("-{short}"));
            short.into_iter().chain(option.get_long().map(|long| format!("--{long}")))
        });
        names.map(|name| (command.get_name().to_owned(), name)).collect::<Vec<_>>()
    };
    command.get_subcommands().flat_map(of).collect()
}

/// How the names of options begin that help does not show: generators take no notice of that.
const HIDDEN: &str = "hidden-from-people-";

fn hidden_named(command: Command) -> Command {
    let named = |option: Arg| match option.get_long() {
        Some(long) if option.is_hide_set() => {
            // The script is made once a process.
            let long: &'static str = format!("{HIDDEN}{long}").leak();
            option.long(long)
        }
        _ => option,
    };
    command.mut_args(named).mut_subcommands(hidden_named)
}

/// The script without what it offers for them.
fn without_hidden(shell: Shell, script: &str) -> String {
    if shell != Shell::Bash {
        return script.split_inclusive('\n').filter(|line| !line.contains(HIDDEN)).collect();
    }
    let shown = |line: &str| match line.trim_start().starts_with("opts=") {
        true => line.split(' ').filter(|word| !word.contains(HIDDEN)).collect::<Vec<_>>().join(" "),
        false => line.replace(HIDDEN, ""),
    };
    script.split_inclusive('\n').map(shown).collect()
}

/// To zsh, what stands behind a colon of a value's name is a command, which offers words for it.
fn named_for_zsh(command: Command) -> Command {
    let named = |value: Arg| match value.get_value_names() {
        Some(names) if names.iter().any(|name| name.contains(':')) => {
            // The script is made once a process.
            let escaped = |name: &Str| &*name.replace(':', "\\:").leak();
            let names: Vec<&'static str> = names.iter().map(escaped).collect();
            value.value_names(names)
        }
        _ => value,
    };
    command.mut_args(named).mut_subcommands(named_for_zsh)
}

/// Bash offers names of files better than the generator's script does, with `~` and quotes; it does where
/// there are no words to offer.
fn files_by_bash(command: Command) -> Command {
    let named = |value: Arg| match value.get_value_hint() {
        ValueHint::FilePath => {
            let wordless = PossibleValuesParser::new([""; 0]);
            value.value_parser(wordless).value_hint(ValueHint::Unknown)
        }
        _ => value,
    };
    command.mut_args(named).mut_subcommands(files_by_bash)
}

/// The generator knows no operands of fish's: those that are one of a few words.
fn operands_for_fish(command: &Command) -> String {
    let mut lines = String::new();
    for subcommand in command.get_subcommands() {
        for operand in subcommand.get_positionals() {
            let words: Vec<_> = operand.get_possible_values();
            let words: Vec<&str> = words.iter().map(|word| word.get_name()).collect();
            if !words.is_empty() {
                let (name, words) = (subcommand.get_name(), words.join(" "));
                let when = format!("__fish_bytepath_using_subcommand {name}");
                let _ = writeln!(lines, "complete -c bytepath -n \"{when}\" -f -a \"{words}\"");
            }
        }
    }
    lines
}
