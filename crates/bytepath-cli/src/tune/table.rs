//! What a profile means, in lines that people can act on.

use std::io::{self, Write as _};
use std::path::Path;

use bytepath::Profile;
use bytepath::machine::Machine;
use bytepath::outlets::{self, Use};
use bytepath::profile::{End, Measured, Pair, Sent};
use bytepath_lab::doctor;
use bytepath_lab::experiments::pairs;
use bytepath_lab::tune::Regret;
use bytepath_report::table::printable;
use bytepath_report::{Finding, numbers};

use crate::streams::stdout;

/// Prints the figures of the profile in this file, the best choice for each pair, and what holds
/// this machine back.
pub(super) fn print(profile: &Profile, kept: Option<&Path>) -> io::Result<()> {
    let machine = &profile.machine;
    let mut text = format!(
        "{}, Linux {}, CPUs {}, {}; measured {}\n\n",
        machine.cpu_model,
        machine.kernel,
        machine.cpus_allowed,
        machine.virtualisation,
        profile.made
    );
    for cost in &profile.costs {
        let figure = numbers::figure(cost.value);
        text += &format!("  {:<54} {figure:>9} {}\n", cost.name, cost.unit);
    }
    text += &choices(profile);
    for hint in hints(Machine::this(), profile) {
        text += &format!("{hint}\n");
    }
    for doubt in profile.doubt().into_iter().chain(profile.doubts_of_earlier(kept)) {
        text += &format!("\n{doubt}\n");
    }
    stdout().write_all(printable(&text).as_bytes())
}

/// The best choice for each pair, and what it gains.
pub(crate) fn choices(profile: &Profile) -> String {
    let mut text = String::new();
    for (title, pairs) in sections(profile) {
        text += &format!("\n{title}\n  {:<22} {:>8} {:>8}  best choice\n", "", "GiB/s", "classic");
        for pair in pairs {
            text += &format!("  {}\n", line(pair));
        }
    }
    text += &outlets(profile);
    printable(&text)
        + "\nGiB/s: of all samples together, without the slowest; classic: the gain over read and \
            write of 128 KiB with pipes as they come, as most tools do; sockets are Unix sockets \
            (TCP goes by rules), and one that is written to gets a buffer of the pipes' size. Of \
            choices that are about as fast, the best is the one that takes least CPU\n"
}

/// The best outlet for what is made up, into a pipe.
fn outlets(profile: &Profile) -> String {
    let mut text = String::new();
    for (used_for, name) in
        [(Use::Repeats, "repeated -> pipe"), (Use::Streams, "made anew -> pipe")]
    {
        let of_use = profile.outlets.iter().filter(|sent| {
            sent.used_for == used_for && outlets::by_name(&sent.choice.outlet).is_some()
        });
        let overall = |sent: &&Sent| sent.overall_gib_per_s();
        let best = of_use.clone().max_by(|a, b| overall(a).total_cmp(&overall(b)));
        let plain = |sent: &&Sent| sent.choice == bytepath::profile::Sending::by("write");
        if let (Some(best), Some(write)) = (best, of_use.clone().find(plain)) {
            let gain = numbers::ratio(overall(&best) / overall(&write));
            let figure = numbers::figure(overall(&best));
            text += &format!("  {name:<22} {figure:>8} {gain:>8}  {}\n", best.choice);
        }
    }
    if text.is_empty() {
        return text;
    }
    format!(
        "\nbytes that are made up\n  {:<22} {:>8} {:>8}  best outlet\n{text}",
        "", "GiB/s", "write"
    )
}

/// The pairs without a file, then those of each file system.
fn sections(profile: &Profile) -> Vec<(String, Vec<&Pair>)> {
    let mut sections: Vec<(String, Vec<&Pair>)> = Vec::new();
    for pair in &profile.pairs {
        let title = match &pair.place {
            None => "between processes".to_owned(),
            Some(place) => match &place.earlier {
                None => format!("files on {place}"),
                Some(earlier) => format!("files on {place}, measured {}", earlier.made),
            },
        };
        match sections.iter_mut().find(|(other, _)| *other == title) {
            Some((_, pairs)) => pairs.push(pair),
            None => sections.push((title, vec![pair])),
        }
    }
    sections
}

fn line(pair: &Pair) -> String {
    let name = ends((pair.source, pair.sink));
    let Some(best) = pair.best(|_| true) else { return format!("{name:<22} nothing could run") };
    let classic = pair.choices.iter().find(|measured| measured.choice == pairs::classic());
    let gain = classic.map_or("–".to_owned(), |classic| numbers::ratio(gain(best, classic)));
    format!("{name:<22} {:>8} {gain:>8}  {}", numbers::figure(best.overall_gib_per_s), best.choice)
}

fn gain(best: &Measured, classic: &Measured) -> f64 {
    best.overall_gib_per_s / classic.overall_gib_per_s
}

fn ends((source, sink): (End, End)) -> String {
    format!("{source} -> {sink}")
}

/// Settings of this machine that keep bytes from going faster, with what they cost where that was
/// measured.
fn hints(machine: &Machine, profile: &Profile) -> Vec<String> {
    let hint = |finding: Finding| {
        let cost = finding.cost.map(|cost| format!("; {cost}")).unwrap_or_default();
        let setting = finding.setting.map(|setting| format!("; {setting}")).unwrap_or_default();
        format!("held back: {}: {}{cost}{setting}", finding.found, finding.why)
    };
    doctor::held_back(machine, profile).into_iter().map(hint).collect()
}

/// The head of the table of regrets.
pub(super) fn regret_head() -> io::Result<()> {
    writeln!(
        stdout(),
        "{:<22} {:>8} {:>8} {:>20}  best fixed choice",
        "GiB/s",
        "planner",
        "best",
        "planner/best"
    )
}

/// One pair of the table of regrets, and what follows from it.
pub(super) fn regret(pair: (End, End), regret: Option<&Regret>, verdict: &str) -> io::Result<()> {
    let name = ends(pair);
    let Some(regret) = regret else {
        return writeln!(stdout(), "{name:<22} could not be compared");
    };
    let ratio = numbers::times(regret.ratio, Some(regret.ratio_ci95));
    let ratio = format!("{ratio} {}", numbers::ratio_interval(regret.ratio_ci95));
    writeln!(
        stdout(),
        "{name:<22} {:>8} {:>8} {ratio:>20}  {}{verdict}",
        numbers::figure(regret.planner_gib_per_s),
        numbers::figure(regret.best_gib_per_s),
        regret.best
    )
}
