//! The script for a shell: the generator's, and what that leaves out.

use std::fmt::Write as _;

use clap::builder::{PossibleValuesParser, Str};
use clap::{Arg, Command, ValueHint};
use clap_complete::Shell;

/// The generator offers bash options for any word, and so never leaves it to bash to offer files; and
/// takes no notice of `=`, which is a word of its own there.
const OFFERED_BY_BASH: &str = r#"
# Options for a word that begins like one. For any other the commands of a command or, where nothing is
# offered, what bash itself does: files.
_bytepath_offered() {
    local before=$3 at
    if [[ $before == = && COMP_CWORD -ge 2 ]]; then
        before=${COMP_WORDS[COMP_CWORD - 2]}
    fi
    _bytepath "$1" "$2" "$before"
    if [[ $2 != -* ]]; then
        for at in "${!COMPREPLY[@]}"; do
            [[ ${COMPREPLY[at]} != -* ]] || unset "COMPREPLY[at]"
        done
    fi
}
"#;

/// The completions of this command for a shell.
pub(super) fn of(shell: Shell, mut command: Command) -> String {
    command = match shell {
        Shell::Bash => files_by_bash(command),
        Shell::Zsh => named_for_zsh(command),
        _ => command,
    };
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut command, "bytepath", &mut script);
    let script = String::from_utf8(script).expect("the generator writes text");
    match shell {
        Shell::Bash => {
            let by_ours =
                script.replace("complete -F _bytepath ", "complete -F _bytepath_offered ");
            by_ours + OFFERED_BY_BASH
        }
        Shell::Fish => script + &operands_for_fish(&command),
        _ => script,
    }
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
