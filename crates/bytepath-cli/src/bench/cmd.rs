//! `bytepath bench cmd`: any commands, interleaved.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::num::IntErrorKind;
use std::path::PathBuf;

use anyhow::{Context, anyhow};
use bytepath_lab::arm::Arm;
use bytepath_lab::cmd_work::{By, Steps};
use bytepath_lab::experiments::cmd::{self, Asked, Shared};
use bytepath_lab::to_the_end::Tolerated;
use bytepath_report::{Record, Status};
use clap::Args;
use serde_json::Value;

use super::choosing::{Listing, listed};
use super::input::Input;
use super::measuring::{BLOCKS, Measuring, Sampling, telling};
use super::results::{print, told};
use crate::hidden::this_program;
use crate::measured::{against_first, well_named};
use crate::said::say;
use crate::usage::wrong_usage;

/// How long do commands take? Any of them, interleaved in random order, with intervals
#[derive(Args)]
#[command(mut_args(telling(BLOCKS, [Sampling::USUAL, Sampling::QUICK])))]
pub(super) struct Cmd {
    /// What you would type into a shell, each command as one argument
    ///
    /// Where there is no terminal, each has a process group of its own. At a terminal all share that of bytepath, so
    /// that ^C, ^Z and questions at the terminal work: a command that sends a signal to its group (kill 0) sends it
    /// to bytepath too there; begin it by setsid -w.
    #[arg(required = true, value_name = "COMMAND")]
    command: Vec<String>,
    /// Call a command this, the first for the first
    #[arg(short = 'n', long, value_name = "NAME")]
    name: Vec<String>,
    /// Have the shell do this before each run, outside of the clock: once for all, or once a command
    #[arg(short, long, value_name = "COMMAND")]
    prepare: Vec<String>,
    /// Have the shell do this after each run, outside of the clock, likewise
    #[arg(long, value_name = "COMMAND")]
    conclude: Vec<String>,
    /// Have the shell do this once, before anything is run; for each of the values that it names of
    /// -L and -P
    #[arg(short, long, value_name = "COMMAND")]
    setup: Option<String>,
    /// Have the shell do this once, at the end, whatever came, likewise
    #[arg(short, long, value_name = "COMMAND")]
    cleanup: Option<String>,
    /// Write {VAR} in commands and steps, and run them with each of the values: -L n 1,2,4
    ///
    /// A comma within a value is \, and a backslash \\.
    ///
    /// Each arm of the record has its value among its parameters, under the name VAR; it is parameter_VAR
    /// where VAR is command, exit_codes, peak_memory_at_most_bytes or file_system, which mean something
    /// else there.
    #[arg(short = 'L', long, value_names = ["VAR", "VALUES"], num_args = 2)]
    parameter_list: Vec<String>,
    /// Likewise, with each number from MIN to MAX, which has as many decimals as the most exact of these and
    /// the step: -P threads 1 8
    #[arg(short = 'P', long, value_names = ["VAR", "MIN", "MAX"], num_args = 3, allow_hyphen_values = true)]
    parameter_scan: Vec<String>,
    /// The step by which every -P goes from MIN to MAX; 1 unless given
    #[arg(
        short = 'D',
        long,
        value_name = "DELTA",
        requires = "parameter_scan",
        default_value = "1"
    )]
    parameter_step_size: String,
    /// Runs of each command before the first block; one shows anyway whether it works
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    warmup: u32,
    /// See that all commands write the same to standard output
    #[arg(long)]
    check_output: bool,
    /// Measure commands that end with another code than 0, or by a signal, too; or those alone
    /// that end with one of these codes
    #[arg(short, long, value_name = "CODES", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    ignore_failure: Option<String>,
    #[command(flatten)]
    input: Input,
    /// The shell, which may have options of its own: '/bin/bash -e'; none for what -N does; /bin/sh
    /// unless given
    #[arg(short = 'S', long, value_name = "PATH", default_value = SHELL)]
    shell: String,
    /// Start each command without a shell, split into words as one would
    #[arg(short = 'N', long)]
    no_shell: bool,
    #[command(flatten)]
    listing: Listing,
    /// Keep outputs in this directory while they are compared
    #[arg(long, value_name = "DIR", default_value = ".", requires = "check_output")]
    dir: PathBuf,
    #[command(flatten)]
    measuring: Measuring,
}

/// Does the steps where commands run without a shell, too.
const SHELL: &str = "/bin/sh";

impl Cmd {
    /// The shell of commands, if they have one.
    fn shell(&self) -> Option<&str> {
        Some(self.shell.as_str()).filter(|shell| !self.no_shell && *shell != "none")
    }

    /// What is done beside the commands, for the record; their own texts are with the arms, and may differ
    /// where names say that they are to be compared.
    fn describe(&self, settings: &mut BTreeMap<String, Value>) {
        let mut set = |name: &str, value: Value| settings.insert(name.to_owned(), value);
        for (name, steps) in [("prepare", &self.prepare), ("conclude", &self.conclude)] {
            if !steps.is_empty() {
                set(name, steps.clone().into());
            }
        }
        if let Some(setup) = &self.setup {
            set("setup", setup.as_str().into());
        }
        if self.check_output {
            set("check_output", true.into());
        }
        self.input.describe(settings);
    }

    /// The shell of steps, which always have one.
    fn shell_of_steps(&self) -> &str {
        if self.shell == "none" { SHELL } else { &self.shell }
    }
}

pub(super) fn run(options: &Cmd) -> anyhow::Result<()> {
    let combinations = combinations(&parameters(options)?)?;
    let commands = commands(options, &combinations)?;
    let shell = shell(options.shell_of_steps())?;
    let steps = Steps { program: this_program()?, shell };
    let compared_in = match options.check_output {
        true => Some(
            std::fs::canonicalize(&options.dir)
                .with_context(|| format!("cannot keep outputs in {}", options.dir.display()))?,
        ),
        false => None,
    };
    let input = options.input.file()?;
    let (arms, is_short) = cmd::arms(
        &commands,
        &Shared {
            by: options.shell().map_or(By::Itself, |_| By::Shell(steps.shell.clone())),
            steps: &steps,
            input: input.as_deref(),
            tolerated: tolerated(options.ignore_failure.as_deref())?,
            compared_in,
            warm_ups: options.warmup,
        },
    );
    let arms = well_named(arms)?;
    if options.listing.list {
        return listed(&arms);
    }
    let outputs = options.measuring.outputs(&arms)?;
    let setups = once_each(options.setup.as_deref(), &combinations);
    let done = measure(options, &steps, &setups, arms, &is_short);
    let clean = |text: &String| {
        steps.done_at_the_end(text).map_err(|why| anyhow!("--cleanup failed: {why}"))
    };
    // One that fails keeps no other from being done.
    let cleaned: Vec<_> =
        once_each(options.cleanup.as_deref(), &combinations).iter().map(clean).collect();
    let done = done.and_then(|record| {
        print(&record, None, outputs)?;
        failed(&record, "commands")
    });
    cleaned.into_iter().fold(done, |done, cleaned| match (done, cleaned) {
        (Err(error), Err(unclean)) => {
            say(format_args!("bytepath: {unclean}"));
            Err(error)
        }
        (done, cleaned) => done.and(cleaned),
    })
}

/// What is to be done once; or once with each combination of the values that it names.
fn once_each(text: Option<&str>, combinations: &[Values]) -> Vec<String> {
    let mut texts: Vec<String> = Vec::new();
    for values in combinations {
        texts.extend(text.map(|text| filled(text, values)).filter(|text| !texts.contains(text)));
    }
    texts
}

fn measure(
    options: &Cmd,
    steps: &Steps,
    setups: &[String],
    arms: Vec<Arm>,
    is_short: &Cell<bool>,
) -> anyhow::Result<Record> {
    for setup in setups {
        steps.done(setup).map_err(|why| anyhow!("--setup failed: {why}"))?;
    }
    let mut settings = options.measuring.settings(Some(0));
    settings.others.insert("shell".into(), options.shell().unwrap_or("none").into());
    options.describe(&mut settings.others);
    let mut record = against_first(cmd::DESCRIPTION.recorded(), arms, &settings)?;
    if is_short.get() && options.shell().is_some() {
        cmd::warn_of_shell(&mut record);
    }
    record.notes.extend(options.input.unread());
    Ok(record)
}

/// The words of the shell, as one would split them.
fn shell(text: &str) -> anyhow::Result<Vec<String>> {
    match shell_words::split(text) {
        Ok(words) if !words.is_empty() => Ok(words),
        _ => Err(wrong_usage(format!("{text:?} is no shell; write it as you would to start it"))),
    }
}

/// Whoever names a command wants it to run: one that failed is told by the exit code too.
pub(super) fn failed(record: &Record, what: &str) -> anyhow::Result<()> {
    let failed = record.arms.iter().filter(|arm| arm.status == Status::Unavailable);
    told(&failed.collect::<Vec<_>>(), record, what)
}

/// The commands, each with each combination of the values of the parameters.
fn commands(options: &Cmd, combinations: &[Values]) -> anyhow::Result<Vec<Asked>> {
    let of = |steps: &[String], option: &str, index: usize| match steps.len() {
        0 => Ok(None),
        1 => Ok(Some(steps[0].clone())),
        count if count == options.command.len() => Ok(Some(steps[index].clone())),
        count => Err(wrong_usage(format!(
            "{option} was given {count} times; give it once, or once for each of the {} commands",
            options.command.len()
        ))),
    };
    if options.name.len() > options.command.len() {
        return Err(wrong_usage("there are more names than commands"));
    }
    let mut asked: Vec<Asked> = Vec::new();
    for (index, text) in options.command.iter().enumerate() {
        let (prepare, conclude) = (
            of(&options.prepare, "--prepare", index)?,
            of(&options.conclude, "--conclude", index)?,
        );
        for values in combinations {
            let filled = |text: &str| filled(text, values);
            let text = filled(text);
            let words = shell_words::split(&text);
            let words = match options.shell() {
                None => words
                    .map_err(|_| wrong_usage(format!("{text:?} has a quote without its end")))?,
                Some(_) => Vec::new(),
            };
            if text.trim().is_empty() || (options.shell().is_none() && words.is_empty()) {
                return Err(wrong_usage("an empty command takes no time; write what is to run"));
            }
            let name = options.name.get(index).map_or_else(|| text.clone(), |name| filled(name));
            if asked.iter().any(|known| known.name == name) {
                let hint = match values.first() {
                    Some((variable, _)) => format!(", which may have {{{variable}}} in it"),
                    None => String::new(),
                };
                return Err(wrong_usage(format!(
                    "{name:?} would run twice: give each once, or name them with -n{hint}"
                )));
            }
            let step = |step: &Option<String>| step.as_deref().map(filled);
            asked.push(Asked {
                name,
                prepare: step(&prepare),
                conclude: step(&conclude),
                text,
                words,
                values: values.clone(),
            });
        }
    }
    Ok(asked)
}

/// A value for each parameter, by its name.
type Values = Vec<(String, String)>;

/// More arms than this would take longer than anybody waits.
const COMBINATIONS_MAX: usize = 1000;

/// The parameters in the order of their lists and scans, each with its values.
fn parameters(options: &Cmd) -> anyhow::Result<Vec<(&String, Vec<String>)>> {
    let lists = options.parameter_list.chunks_exact(2);
    let lists = lists.map(|pair| Ok((&pair[0], listed_values(&pair[1]))));
    let scans = options.parameter_scan.chunks_exact(3);
    let scans = scans.map(|scan| {
        let numbers = numbers(&scan[1], &scan[2], &options.parameter_step_size)?;
        Ok((&scan[0], numbers))
    });
    lists.chain(scans).collect()
}

fn combinations(parameters: &[(&String, Vec<String>)]) -> anyhow::Result<Vec<Values>> {
    let mut all: Vec<Values> = vec![Vec::new()];
    for (name, values) in parameters {
        if all[0].iter().any(|(known, _)| known == *name) {
            return Err(wrong_usage(format!(
                "the parameter {name} is given twice: give it once, with all of its values"
            )));
        }
        let with = |so_far: &Values| -> Vec<Values> {
            let one = |value: &String| {
                let mut so_far = so_far.clone();
                so_far.push(((*name).clone(), value.clone()));
                so_far
            };
            values.iter().map(one).collect()
        };
        all = all.iter().flat_map(with).collect();
        if all.len() > COMBINATIONS_MAX {
            return Err(wrong_usage(format!(
                "more than {COMBINATIONS_MAX} combinations of parameters"
            )));
        }
    }
    Ok(all)
}

/// The numbers from `first` to `last`, with as many decimals as the most exact of the three has.
fn numbers(first: &str, last: &str, step: &str) -> anyhow::Result<Vec<String>> {
    let decimals = |text: &str| text.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    let places = [first, last, step].into_iter().map(decimals).max().unwrap_or(0);
    let units = |text: &str| {
        let zeros = "0".repeat(places - decimals(text));
        let digits = format!("{}{zeros}", text.replacen('.', "", 1));
        digits.parse::<i64>().map_err(|error| match error.kind() {
            IntErrorKind::PosOverflow | IntErrorKind::NegOverflow => {
                wrong_usage(format!("{text} is too large, or has too many decimals, for -P"))
            }
            _ => wrong_usage(format!("-P goes by numbers such as 8 or 0.25, and {text:?} is none")),
        })
    };
    let (first, last, step) = (units(first)?, units(last)?, units(step)?);
    if step <= 0 || last < first {
        return Err(wrong_usage("-P goes up, from MIN to a MAX that is no less, by steps above 0"));
    }
    let ascending = std::iter::successors(Some(first), |number| number.checked_add(step));
    let ascending = ascending.take_while(|number| *number <= last).take(COMBINATIONS_MAX + 1);
    Ok(ascending.map(|number| decimal(number, places)).collect())
}

/// A number of so many units of 10^-`places`.
fn decimal(units: i64, places: usize) -> String {
    let sign = if units < 0 { "-" } else { "" };
    let digits = format!("{:0>width$}", units.unsigned_abs(), width = places + 1);
    match digits.split_at(digits.len() - places) {
        (whole, "") => format!("{sign}{whole}"),
        (whole, decimals) => format!("{sign}{whole}.{decimals}"),
    }
}

/// The values of a list: a comma ends one, but for one behind a backslash, which stands for itself, as another
/// backslash does there.
fn listed_values(list: &str) -> Vec<String> {
    let mut values = vec![String::new()];
    let mut letters = list.chars().peekable();
    while let Some(letter) = letters.next() {
        let escaped = letters.next_if(|next| letter == '\\' && matches!(next, ',' | '\\'));
        match (letter, escaped) {
            (',', _) => values.push(String::new()),
            (letter, escaped) => {
                values.last_mut().expect("there is one").push(escaped.unwrap_or(letter));
            }
        }
    }
    values
}

/// The text with the value of each parameter where its name stands; what looks like a name in a value is none.
fn filled(text: &str, values: &[(String, String)]) -> String {
    let (mut whole, mut rest) = (String::new(), text);
    while let Some(at) = rest.find('{') {
        whole += &rest[..at];
        let behind = &rest[at + 1..];
        let named = |(name, value): &(String, String)| {
            Some((value.clone(), behind.strip_prefix(name.as_str())?.strip_prefix('}')?))
        };
        let (value, left) = values.iter().find_map(named).unwrap_or_else(|| ("{".into(), behind));
        whole += &value;
        rest = left;
    }
    whole + rest
}

pub(super) fn tolerated(asked: Option<&str>) -> anyhow::Result<Tolerated> {
    match asked {
        None => Ok(Tolerated::Success),
        Some("all" | "all-non-zero") => Ok(Tolerated::All),
        Some(codes) => {
            let code = |text: &str| {
                text.trim().parse().map_err(|_| {
                    wrong_usage(format!("{text:?} is no exit code; write --ignore-failure=1,2"))
                })
            };
            Ok(Tolerated::These(codes.split(',').map(code).collect::<anyhow::Result<_>>()?))
        }
    }
}
