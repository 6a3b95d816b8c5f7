//! Which settings are changed: those that were named, or confirmed on the terminal.

use std::io::{BufRead as _, IsTerminal as _, Write as _};

use anyhow::Context;
use bytepath_lab::doctor::Examined;
use bytepath_lab::doctor::change::ChangeError;
use bytepath_report::{Applied, Health};

use crate::said::say;
use crate::usage::wrong_usage;

/// The findings whose settings are to be changed.
pub(super) fn chosen<'f>(
    names: &[String],
    found: &'f [Examined],
) -> anyhow::Result<Vec<&'f Examined>> {
    if names.is_empty() {
        return confirmed(found);
    }
    // A second time it would be found as the first left it, and that be told as its undo.
    let is_first = |(at, name): &(usize, &String)| !names[..*at].contains(name);
    let each = names.iter().enumerate().filter(is_first);
    each.map(|(_, name)| named(name, found)).collect::<anyhow::Result<_>>().map(unchanged_out)
}

fn named<'f>(name: &str, found: &'f [Examined]) -> anyhow::Result<&'f Examined> {
    let one = found.iter().find(|one| one.finding.name == name);
    let one = one.ok_or_else(|| {
        let all: Vec<&str> = found.iter().map(|one| one.finding.name.as_str()).collect();
        wrong_usage(format!("there is no setting {name}: there are {}", all.join(", ")))
    })?;
    if one.finding.verdict != Health::Poor || one.change.is_some() {
        return Ok(one);
    }
    let setting =
        one.finding.setting.as_deref().unwrap_or("nothing that bytepath knows changes it");
    Err(wrong_usage(format!("{name} cannot be changed by --apply; change it yourself: {setting}")))
}

/// Those that are well already are left alone, and it is said.
fn unchanged_out(chosen: Vec<&Examined>) -> Vec<&Examined> {
    let changes = |one: &&Examined| {
        // What is well for this user may be poor for others, for whom it is named here.
        let changes = one.finding.verdict == Health::Poor || one.change.is_some();
        if !changes {
            let (name, verdict) = (&one.finding.name, one.finding.verdict.name());
            say(format_args!("bytepath: {name} is {verdict}: nothing is changed"));
        }
        changes
    };
    chosen.into_iter().filter(changes).collect()
}

/// Asks for each that could be changed.
fn confirmed(found: &[Examined]) -> anyhow::Result<Vec<&Examined>> {
    let poor = |one: &&Examined| one.finding.verdict == Health::Poor && one.change.is_some();
    let changeable: Vec<&Examined> = found.iter().filter(poor).collect();
    if changeable.is_empty() {
        say(format_args!("bytepath: nothing that is poor can be changed by --apply"));
        return Ok(Vec::new());
    }
    if !std::io::stdin().is_terminal() || !std::io::stderr().is_terminal() {
        let names: Vec<&str> = changeable.iter().map(|one| one.finding.name.as_str()).collect();
        return Err(wrong_usage(format!(
            "--apply with no name asks on the terminal, and there is none; name what is to be changed: \
             {}",
            names.join(", ")
        )));
    }
    let mut chosen = Vec::new();
    for one in changeable {
        if yes(one)? {
            chosen.push(one);
        }
    }
    Ok(chosen)
}

fn yes(one: &Examined) -> anyhow::Result<bool> {
    let change = one.change.as_ref().expect("those without were left out");
    let (name, steps) = (&one.finding.name, change.steps());
    let mut terminal = std::io::stderr().lock();
    write!(terminal, "{name}: change {steps}? [y/N] ").context("the terminal")?;
    terminal.flush().context("the terminal")?;
    let mut answer = String::new();
    std::io::stdin().lock().read_line(&mut answer).context("the terminal")?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

/// Changes one.
pub(super) fn applied(one: &Examined) -> Result<Vec<Applied>, ChangeError> {
    match &one.change {
        Some(change) => change.apply(&one.finding.name),
        None => Ok(Vec::new()),
    }
}
