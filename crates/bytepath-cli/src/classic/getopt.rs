//! Arguments as getopt_long(3) takes them: bundled, abbreviated, anywhere between the operands.
//!
//! The options come from the command's definition, which the help, the completions and the man
//! page are made of too. What a classic knows stands there without a heading; options of ours have
//! one, and are written in full, so that they never make a classic's abbreviation ambiguous.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{Arg, ArgAction, Command};

use super::{Check, Written};

/// What the arguments ask for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The work, by whole options with their values, and operands.
    Work(Vec<OsString>, Vec<OsString>),
    /// The help, before anything after it is looked at.
    Help,
    /// The version, likewise.
    Version,
}

/// What is wrong with the arguments, in getopt_long's words.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Misuse(pub(crate) Vec<u8>);

/// Where options end before the first `--`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    /// Nowhere: they may stand between operands.
    Permuted,
    /// At the first operand, as POSIXLY_CORRECT asks.
    OptionsFirst,
}

impl Order {
    pub(crate) fn of_environment() -> Order {
        match std::env::var_os("POSIXLY_CORRECT") {
            Some(_) => Order::OptionsFirst,
            None => Order::Permuted,
        }
    }
}

/// Reads the words after the command's name.
///
/// # Errors
/// They are no use of this command.
pub(crate) fn read(
    command: &Command,
    words: impl Iterator<Item = OsString>,
    order: Order,
    check: Check<'_>,
) -> Result<Asked, Misuse> {
    let mut reader = Reader { command, words, check, options: Vec::new(), operands: Vec::new() };
    while let Some(word) = reader.words.next() {
        let asked = match word.as_bytes() {
            b"--" => break,
            [b'-', b'-', long @ ..] => reader.long(long)?,
            [b'-', short @ ..] if !short.is_empty() => reader.bundle(short)?,
            _ => {
                reader.operands.push(word);
                if order == Order::OptionsFirst {
                    break;
                }
                None
            }
        };
        if let Some(asked) = asked {
            return Ok(asked);
        }
    }
    let Reader { words, options, mut operands, .. } = reader;
    operands.extend(words);
    Ok(Asked::Work(options, operands))
}

struct Reader<'c, I> {
    command: &'c Command,
    words: I,
    check: Check<'c>,
    options: Vec<OsString>,
    operands: Vec<OsString>,
}

impl<I: Iterator<Item = OsString>> Reader<'_, I> {
    /// An option of which `word` is what follows `--`.
    fn long(&mut self, word: &[u8]) -> Result<Option<Asked>, Misuse> {
        let split = word.iter().position(|byte| *byte == b'=');
        let (name, value) = match split {
            Some(at) => (&word[..at], Some(&word[at + 1..])),
            None => (word, None),
        };
        let arg = found(self.command, name, word)?;
        let own = arg.get_long().unwrap_or_default();
        let misuse = |what: &str| Misuse(format!("option '--{own}' {what}").into_bytes());
        let value = match (takes_value(arg), value) {
            (Value::None, Some(_)) => return Err(misuse("doesn't allow an argument")),
            (Value::None | Value::Optional, None) => None,
            (_, Some(value)) => Some(OsStr::from_bytes(value).to_owned()),
            (Value::Required, None) => {
                Some(self.words.next().ok_or_else(|| misuse("requires an argument"))?)
            }
        };
        self.taken(format!("--{own}"), arg, value)
    }

    /// Options of one letter each; the first that takes a value has the rest, or the next word.
    fn bundle(&mut self, letters: &[u8]) -> Result<Option<Asked>, Misuse> {
        for (at, letter) in letters.iter().enumerate() {
            let about = |what: &[u8]| Misuse([what, b" -- '", &[*letter], b"'"].concat());
            let mut args = self.command.get_arguments();
            let named = |arg: &&Arg| arg.get_short() == Some(char::from(*letter));
            let arg = args.find(named).ok_or_else(|| about(b"invalid option"))?;
            let rest = &letters[at + 1..];
            let value = match (takes_value(arg), rest.is_empty()) {
                // What a long option may take, its letter does not.
                (Value::None | Value::Optional, _) => None,
                (Value::Required, false) => Some(OsStr::from_bytes(rest).to_owned()),
                (Value::Required, true) => {
                    let next = self.words.next();
                    Some(next.ok_or_else(|| about(b"option requires an argument"))?)
                }
            };
            let last = value.is_some();
            let asked = self.taken(format!("-{}", char::from(*letter)), arg, value)?;
            if asked.is_some() || last {
                return Ok(asked);
            }
        }
        Ok(None)
    }

    fn taken(
        &mut self,
        name: String,
        arg: &Arg,
        value: Option<OsString>,
    ) -> Result<Option<Asked>, Misuse> {
        Ok(match arg.get_action() {
            ArgAction::Help | ArgAction::HelpShort | ArgAction::HelpLong => Some(Asked::Help),
            ArgAction::Version => Some(Asked::Version),
            _ => {
                let mut word = name.into_bytes();
                if let Some(value) = value {
                    word.push(b'=');
                    word.extend_from_slice(value.as_bytes());
                }
                let word = OsString::from_vec(word);
                (self.check)(&Written::of(&word)).map_err(|what| Misuse(what.into_bytes()))?;
                self.options.push(word);
                None
            }
        })
    }
}

/// Whether an option takes a value.
#[derive(Clone, Copy)]
enum Value {
    None,
    /// After an equals sign, if at all.
    Optional,
    Required,
}

fn takes_value(arg: &Arg) -> Value {
    match (arg.get_action().takes_values(), arg.is_require_equals_set()) {
        (false, _) => Value::None,
        (true, true) => Value::Optional,
        (true, false) => Value::Required,
    }
}

/// The option of this name, or of the only name that begins so; `word` is what was written.
fn found<'c>(command: &'c Command, name: &[u8], word: &[u8]) -> Result<&'c Arg, Misuse> {
    let long = |arg: &&Arg| arg.get_long().is_some();
    let is = |arg: &&Arg| arg.get_long().is_some_and(|long| long.as_bytes() == name);
    if let Some(arg) = command.get_arguments().find(is) {
        return Ok(arg);
    }
    let begins = |arg: &&Arg| {
        let of_classic = arg.get_help_heading().is_none();
        of_classic && arg.get_long().is_some_and(|long| long.as_bytes().starts_with(name))
    };
    let possible: Vec<&Arg> = command.get_arguments().filter(long).filter(begins).collect();
    match possible[..] {
        [arg] => Ok(arg),
        [] => Err(Misuse([b"unrecognized option '--", word, b"'"].concat())),
        _ => {
            let mut misuse = [b"option '--", word, b"' is ambiguous; possibilities:"].concat();
            for long in possible.iter().filter_map(|arg| arg.get_long()) {
                misuse.extend_from_slice(format!(" '--{long}'").as_bytes());
            }
            Err(Misuse(misuse))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command() -> Command {
        let flag = |name| Arg::new(name).long(name).action(ArgAction::SetTrue);
        Command::new("test")
            .disable_help_flag(true)
            .arg(flag("number").short('n'))
            .arg(flag("number-nonblank").short('b'))
            .arg(Arg::new("size").long("size").short('s'))
            .arg(Arg::new("backup").long("backup").short('k').num_args(0..=1).require_equals(true))
            .arg(flag("numbered").help_heading("Ours"))
            .arg(Arg::new("help").long("help").action(ArgAction::Help))
    }

    fn asked(words: &[&str], order: Order) -> Result<Asked, String> {
        read(&command(), words.iter().map(OsString::from), order, &|_| Ok(()))
            .map_err(|misuse| String::from_utf8_lossy(&misuse.0).into_owned())
    }

    fn work(options: &[&str], operands: &[&str]) -> Result<Asked, String> {
        let owned = |words: &[&str]| words.iter().map(OsString::from).collect();
        Ok(Asked::Work(owned(options), owned(operands)))
    }

    #[test]
    fn options_are_bundled_abbreviated_and_permuted() {
        let permuted = |words: &[&str]| asked(words, Order::Permuted);
        assert_eq!(permuted(&["a", "-nb", "-"]), work(&["-n", "-b"], &["a", "-"]));
        assert_eq!(permuted(&["-ns4K", "--siz", "5"]), work(&["-n", "-s=4K", "--size=5"], &[]));
        assert_eq!(
            permuted(&["--number-", "--si=7"]),
            work(&["--number-nonblank", "--size=7"], &[])
        );
        assert_eq!(permuted(&["a", "--", "-n"]), work(&[], &["a", "-n"]));
        assert_eq!(asked(&["a", "-n"], Order::OptionsFirst), work(&[], &["a", "-n"]));
        assert_eq!(permuted(&["--numbered"]), work(&["--numbered"], &[]));
        assert_eq!(permuted(&["-kb", "--backup"]), work(&["-k", "-b", "--backup"], &[]));
        assert_eq!(permuted(&["--ba=t", "t"]), work(&["--backup=t"], &["t"]));
    }

    #[test]
    fn help_is_given_at_once() {
        assert_eq!(asked(&["-n", "--he", "--bad"], Order::Permuted), Ok(Asked::Help));
    }

    #[test]
    fn misuse_is_told_in_the_words_of_getopt() {
        let cases: &[(&[&str], &str)] = &[
            (&["-nx"], "invalid option -- 'x'"),
            (&["-s"], "option requires an argument -- 's'"),
            (&["--size"], "option '--size' requires an argument"),
            (&["--number=3"], "option '--number' doesn't allow an argument"),
            (&["--none=3"], "unrecognized option '--none=3'"),
            (
                &["--num=3"],
                "option '--num=3' is ambiguous; possibilities: '--number' '--number-nonblank'",
            ),
        ];
        for (words, wanted) in cases {
            assert_eq!(asked(words, Order::Permuted), Err((*wanted).to_owned()));
        }
    }
}
