//! Which stage held the others up, told from what was seen of all; pure.

use std::ffi::OsStr;

use bytepath_report::numbers::counted;
use bytepath_report::{Ran, RanPipe, RanStage, RanVerdict, Sure};

use super::script;
use crate::live::in_a_line;

/// Fewer looks than this say little.
const LOOKS_FEW: u32 = 8;
/// A stage that is busy for less than this share holds nobody up alone.
const BUSY: f64 = 0.6;
const VERY_BUSY: f64 = 0.85;
/// A pipe that is full, or empty, for this share of the time holds up who writes, or reads.
const HELD_UP: f64 = 0.7;
/// A stage that waits for a CPU holds others up only where its input is full for this share of the
/// time; a source, where its output is empty for so long.
const HOLDS_UP: f64 = 0.5;
/// Who did a wait for a CPU is who did this share of it.
const ITS_CAUSE: f64 = 0.5;
/// Stages that share a CPU and use this share of it hold each other up.
const CPU_SPENT: f64 = 0.85;
/// A stage that runs, or waits for a CPU, for less than this share waits for something else; for
/// more than that, it was slowed down by who used the CPU.
const AT_REST: f64 = 0.3;
const AT_WORK: f64 = 0.5;

/// A help, and the words that a stage has which makes use of it; with a star, how they begin.
type Help = (&'static str, &'static [&'static str]);
/// What would help a program that takes all of a CPU.
const HELPS: &[(&[&str], &[Help])] = &[
    (
        &["gzip"],
        &[("pigz (more threads)", &[]), ("the lowest level (-1)", LOWEST_LEVEL), ("zstd", &[])],
    ),
    (&["bzip2"], &[("lbzip2 or pbzip2 (more threads)", &[]), ("zstd", &[])]),
    (
        &["xz"],
        &[
            ("xz -T0 (more threads)", ALL_THREADS),
            ("a lower level", &["-0", "-1", "--fast"]),
            ("zstd", &[]),
        ],
    ),
    (&["zstd"], &[("zstd -T0 (more threads)", ALL_THREADS), ("a lower level", LOWEST_LEVEL)]),
    (
        &["sort"],
        &[
            C_LOCALE,
            ("--parallel", &["--parallel*"]),
            ("a larger buffer (-S)", &["-S*", "--buffer-size*"]),
        ],
    ),
    (&["md5sum", "sha1sum", "sha256sum", "sha512sum"], &[("a faster hash: b3sum or xxhsum", &[])]),
    (
        &["grep", "sed", "awk", "tr", "cut", "uniq"],
        &[C_LOCALE, ("a tool of more threads such as rg", &[])],
    ),
    (
        &["tar", "find"],
        &[("fewer files", &[]), ("several of them at once on parts of the tree", &[])],
    ),
];
const LOWEST_LEVEL: &[&str] = &["-1", "--fast*"];
const ALL_THREADS: &[&str] = &["-T0", "--threads=0"];
const C_LOCALE: Help = ("LC_ALL=C", &["LC_ALL=C", "LC_ALL=POSIX"]);
/// What runs the program that its words name: its options, as letters and as names, with a colon
/// where they take a word, and how many words stand before the program.
const RUNNERS: &[(&str, &str, &str, usize)] = &[
    ("command", "p", "", 0),
    ("env", "a:iu:C:v", "argv0: chdir: debug ignore-environment unset:", 0),
    ("exec", "a:cl", "", 0),
    ("ionice", "c:n:t", "class: classdata: ignore", 0),
    ("nice", "n:0123456789", "adjustment:", 0),
    ("nohup", "", "", 0),
    ("setsid", "cfw", "ctty fork wait", 0),
    ("stdbuf", "e:i:o:", "error: input: output:", 0),
    ("taskset", "ac", "all-tasks cpu-list", 1),
    ("timeout", "fk:ps:v", "foreground kill-after: preserve-status signal: verbose", 1),
];
const OTHER_TOOL: Help = ("another tool", &[]);
const HELP: &[Help] = &[("more threads", &[]), OTHER_TOOL];
/// What would help movers that copy, if they can be told apart from the shell.
const OWN_MOVERS: &str =
    "--own-movers: bytepath's own give references to bytes on where others copy them";

/// The verdict on a run that has everything else in it; `stopped` is what a quota did, if any did
/// something. It is a guess where most of the work was done by processes that nobody saw.
pub(super) fn of(ran: &Ran, stopped: Option<Stopped>) -> RanVerdict {
    let verdict = of_longest(ran, stopped);
    let seen_s: f64 = ran.stages.iter().map(|stage| stage.user_s + stage.system_s).sum();
    let sure = if ran.unseen_cpu_s > seen_s { Sure::Guess } else { verdict.sure };
    RanVerdict { sure, ..verdict }
}

/// Of several pipelines that a shell ran, on the one that took longest.
fn of_longest(ran: &Ran, stopped: Option<Stopped>) -> RanVerdict {
    let parts = parts(ran);
    let longest = parts.iter().max_by(|one, other| weight(ran, one).total_cmp(&weight(ran, other)));
    let Some(longest) = longest.filter(|_| ran.whole.is_some() && parts.len() > 1) else {
        return of_one(ran, stopped);
    };
    let alone = alone(ran, longest);
    let verdict = of_one(&alone, stopped);
    let pipelines = parts.iter().filter(|part| part.len() > 1).count();
    let seen = at_least(ran, counted(pipelines as u64, "pipeline"));
    let which = match longest.len() {
        1 if pipelines == 0 => String::new(),
        1 => format!(" (beside {seen})"),
        _ if seen == "1 pipeline" => format!(" (in the only pipeline, {:.2} s)", alone.seconds),
        _ => format!(" (in the longest of {seen}, {:.2} s)", alone.seconds),
    };
    RanVerdict {
        stage: verdict.stage.map(|stage| longest[stage]),
        words: format!("{}{which}", verdict.words),
        ..verdict
    }
}

/// What is counted of the processes that were seen, where there were others.
fn at_least(ran: &Ran, counted: String) -> String {
    let is_part = ran.unseen_cpu_s > 0.0 && counted != "0%";
    if is_part { format!("at least {counted}") } else { counted }
}

/// The stages that pipes join, by their places.
fn parts(ran: &Ran) -> Vec<Vec<usize>> {
    let mut part_of: Vec<usize> = (0..ran.stages.len()).collect();
    for pipe in &ran.pipes {
        let (from, to) = (part_of[pipe.from], part_of[pipe.to]);
        part_of.iter_mut().filter(|part| **part == to).for_each(|part| *part = from);
    }
    let of_part = |part| (0..part_of.len()).filter(|stage| part_of[*stage] == part).collect();
    (0..part_of.len()).map(of_part).filter(|part: &Vec<usize>| !part.is_empty()).collect()
}

/// What a part counts for: the time that it took. A process alone may only have waited for others,
/// and counts if it was busy.
fn weight(ran: &Ran, part: &[usize]) -> f64 {
    let [only] = part else { return seconds(ran, part) };
    let cpu_s = ran.stages[*only].user_s + ran.stages[*only].system_s;
    if cpu_s >= BUSY * ran.seconds { cpu_s } else { -1.0 }
}

fn seconds(ran: &Ran, part: &[usize]) -> f64 {
    part.iter().filter_map(|stage| ran.stages[*stage].seconds).fold(0.0, f64::max)
}

/// A part as a run of its own.
fn alone(ran: &Ran, part: &[usize]) -> Ran {
    let place = |stage| part.iter().position(|of_part| *of_part == stage);
    let pipes = ran.pipes.iter().filter_map(|pipe| {
        let (from, to) = (place(pipe.from)?, place(pipe.to)?);
        Some(RanPipe { from, to, ..pipe.clone() })
    });
    Ran {
        seconds: seconds(ran, part),
        stages: part.iter().map(|stage| ran.stages[*stage].clone()).collect(),
        pipes: pipes.collect(),
        unseen_cpu_s: ran.unseen_cpu_s,
        whole: ran.whole.clone(),
        ..Ran::default()
    }
}

/// The share of a CPU that a stage used.
fn busy(ran: &Ran, stage: &RanStage) -> f64 {
    (stage.user_s + stage.system_s) / ran.seconds.max(1e-6)
}

fn of_one(ran: &Ran, stopped: Option<Stopped>) -> RanVerdict {
    let busy = |stage: &RanStage| busy(ran, stage);
    let busiest =
        ran.stages.iter().enumerate().max_by(|one, other| busy(one.1).total_cmp(&busy(other.1)));
    let Some((index, stage)) = busiest else {
        return RanVerdict {
            words: "nothing was seen of its stages".into(),
            ..RanVerdict::default()
        };
    };
    if let Some((index, disk)) = waits_most(ran, |_| true, |stage| stage.waits_disk) {
        let words = format!(
            "{}: it waited for a disk {} of the time",
            name(&ran.stages[index]),
            percent(disk)
        );
        return RanVerdict {
            stage: Some(index),
            sure: Sure::Likely,
            words,
            help: Some("a faster disk, or data in the page cache".into()),
        };
    }
    let share = busy(stage);
    if share < BUSY {
        let all = ran.stages.iter().map(busy).sum();
        let waits = || waits_outside(ran).or_else(|| waits_for_cpu(ran, stopped));
        let waits = if all < CPU_SPENT { waits() } else { None };
        return waits.unwrap_or_else(|| nobody(ran, all));
    }
    let (sure, evidence) = weighed(ran, index, share);
    let name = name(stage);
    let known = HELPS.iter().find(|(names, _)| names.contains(&file_name(&name)));
    let help = match gains_by_own(ran, stage) {
        true => OWN_MOVERS.to_owned(),
        false => without_what_it_has(known.map_or(HELP, |(_, help)| help), &words(stage)),
    };
    let words = format!("{name}: {evidence}");
    RanVerdict { stage: Some(index), sure, words, help: Some(help) }
}

fn without_what_it_has(helps: &[Help], words: &[&str]) -> String {
    let is = |word: &str, used: &str| match used.strip_suffix('*') {
        Some(begin) => word.starts_with(begin),
        None => word == used,
    };
    let has = |used: &str| words.iter().any(|word| is(word, used));
    let left = helps.iter().filter(|(_, used)| !used.iter().any(|it| has(it)));
    let mut left: Vec<&str> = left.map(|(help, _)| *help).collect();
    match (left.pop(), left.is_empty()) {
        (None, _) => OTHER_TOOL.0.to_owned(),
        (Some(last), true) => last.to_owned(),
        (Some(last), false) => format!("{}, or {last}", left.join(", ")),
    }
}

/// A stage's command of these words, which may have spaces in them; with quotes, as a shell has them.
pub(super) fn command(words: &[String]) -> String {
    words.iter().flat_map(|word| [word, "\0"]).collect()
}

fn words(stage: &RanStage) -> Vec<&str> {
    match stage.command.strip_suffix('\0') {
        Some(words) => words.split('\0').collect(),
        None => stage.command.split_whitespace().collect(),
    }
}

/// The words from the program on: variables may be set in front of it, and a command of ours has its
/// own name.
fn from_program(stage: &RanStage) -> impl Iterator<Item = &str> {
    let words = words(stage).into_iter();
    let words = words.skip_while(|word| sets_variable(word));
    words.skip_while(|word| *word == "bytepath")
}

/// Whether a word in front of a program sets a variable, to some shell: bash adds to one by `+=`, and has arrays.
fn sets_variable(word: &str) -> bool {
    let Some((before, _)) = word.split_once('=') else { return false };
    let name = before.strip_suffix('+').unwrap_or(before);
    let of_array = name.strip_suffix(']').and_then(|name| name.split_once('['));
    script::is_variable(of_array.map_or(name, |(name, _)| name).as_bytes())
}

/// The program's name; that of what it runs, if it only runs another.
fn name(stage: &RanStage) -> String {
    let mut words = from_program(stage).peekable();
    let mut name = words.next().unwrap_or(stage.command.trim_end_matches('\0'));
    'runners: while let Some((runner, letters, names, before)) =
        RUNNERS.iter().find(|(it, ..)| *it == file_name(name))
    {
        // To env(1), whatever has a "=" in it sets a variable.
        let sets = |word: &&str| *runner == "env" && word.contains('=');
        let is_option = |word: &&str| word.starts_with('-') || sets(word);
        while let Some(option) = words.next_if(is_option) {
            match takes_word(option, letters, names) {
                Some(true) => _ = words.next(),
                Some(false) => {}
                None => break 'runners,
            }
        }
        let Some(program) = words.by_ref().nth(*before) else { break };
        name = program;
    }
    in_a_line(&name.replace(['\'', '"', '\\'], ""))
}

/// Whether the word behind an option, of these letters and names, belongs to it; none where it is not
/// one of them.
fn takes_word(option: &str, letters: &str, names: &str) -> Option<bool> {
    if !option.starts_with('-') || option == "--" {
        return Some(false);
    }
    if let Some(name) = option.strip_prefix("--") {
        let (name, has_value) =
            name.split_once('=').map_or((name, false), |(name, _)| (name, true));
        let known = names.split(' ').find(|known| known.trim_end_matches(':') == name)?;
        return Some(known.ends_with(':') && !has_value);
    }
    let mut given = option[1..].chars();
    while let Some(letter) = given.next() {
        let (_, behind) = letters.split_once(letter)?;
        if behind.starts_with(':') {
            return Some(given.next().is_none());
        }
    }
    Some(false)
}

fn file_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or_default()
}

/// Whether this stage is a mover that another stands in for, if asked to.
fn gains_by_own(ran: &Ran, stage: &RanStage) -> bool {
    let is_own = words(stage).contains(&"bytepath");
    let is_mover =
        |name| script::is_mover(OsStr::new(name)) && !script::is_inherited_function(name);
    ran.whole.is_none() && !is_own && from_program(stage).next().is_some_and(is_mover)
}

fn percent(share: f64) -> String {
    format!("{:.0}%", 100.0 * share)
}

/// The stage that waited most for something, if that was half of the time. One that is ahead of the
/// others, or gets nothing from them, holds nobody up.
fn waits_most(
    ran: &Ran,
    counts: impl Fn(usize) -> bool,
    waits: fn(&RanStage) -> Option<f64>,
) -> Option<(usize, f64)> {
    let held_up = |index: usize| {
        ran.pipes.iter().any(|pipe| {
            let share = match (pipe.from == index, pipe.to == index) {
                (true, _) => pipe.full,
                (_, true) => pipe.empty,
                _ => None,
            };
            // Nobody was held up by a pipe that was gone, as where its other end was closed.
            let seen = (pipe.seen_s / lived_s(ran, &ran.stages[index])).min(1.0);
            is_held_up(pipe, share.map(|share| share * seen))
        })
    };
    let seen = ran.stages.iter().enumerate();
    let seen = seen
        .filter(|(index, stage)| stage.looks >= LOOKS_FEW && !held_up(*index) && counts(*index));
    // Of the time in which it was there.
    let shares = seen.filter_map(|(index, stage)| Some((index, waits(stage)? * lived(ran, stage))));
    shares.max_by(|one, other| one.1.total_cmp(&other.1)).filter(|(_, share)| *share >= 0.5)
}

/// Whether somebody may have waited for a stage: its input was full, or the output of a source
/// empty. While the pipe is not there, it has what it needs, and the end waits for it.
fn is_waited_for(ran: &Ran, index: usize) -> bool {
    let input = ran.pipes.iter().find(|pipe| pipe.to == index);
    let output = || ran.pipes.iter().find(|pipe| pipe.from == index);
    let pipe = input.map(|pipe| (pipe, pipe.full));
    let Some((pipe, Some(share))) = pipe.or_else(|| output().map(|pipe| (pipe, pipe.empty))) else {
        return true;
    };
    let seen = (pipe.seen_s / lived_s(ran, &ran.stages[index])).min(1.0);
    pipe.looks < LOOKS_FEW || share * seen + (1.0 - seen) >= HOLDS_UP
}

fn lived_s(ran: &Ran, stage: &RanStage) -> f64 {
    stage.seconds.unwrap_or(ran.seconds).max(1e-6)
}

/// For which share of the run a stage was there: who was for a moment did not hold up the whole.
fn lived(ran: &Ran, stage: &RanStage) -> f64 {
    (lived_s(ran, stage) / ran.seconds.max(1e-6)).min(1.0)
}

/// Whether a pipe holds up who is at its end, by the share of the time that it was full, or empty.
fn is_held_up(pipe: &RanPipe, share: Option<f64>) -> bool {
    pipe.looks >= LOOKS_FEW && share.is_some_and(|share| share >= HELD_UP)
}

/// What a quota of CPU did while the pipeline ran.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stopped {
    /// How many CPUs it is.
    pub(super) cpus: f64,
    /// For how long it stopped what it is for.
    pub(super) seconds: f64,
}

/// A stage that could have run, and did not since a quota stopped it or others used the CPU.
fn waits_for_cpu(ran: &Ran, stopped: Option<Stopped>) -> Option<RanVerdict> {
    if let Some(verdict) = stopped.and_then(|stopped| stopped_by_quota(ran, stopped)) {
        return Some(verdict);
    }
    let (index, share) = waits_most(ran, |index| is_waited_for(ran, index), |it| it.waits_cpu)?;
    let name = name(&ran.stages[index]);
    // What the pipeline used itself is not what others used.
    let beside = ran.stages.iter().enumerate().filter(|(other, _)| *other != index);
    let beside: f64 = beside.map(|(_, stage)| busy(ran, stage)).sum();
    let (who, help) = match beside >= ITS_CAUSE * share {
        true => ("other stages", "fewer stages, or more CPUs (--cpus)"),
        false => ("others", "fewer programs at once, or other CPUs (--cpus)"),
    };
    Some(RanVerdict {
        stage: Some(index),
        sure: Sure::Likely,
        words: format!("{name}: it waited for a CPU {} of the time; {who} used it", percent(share)),
        help: Some(help.into()),
    })
}

/// A quota stops all stages together; the one that waited most for it is named.
fn stopped_by_quota(ran: &Ran, stopped: Stopped) -> Option<RanVerdict> {
    let (index, share) = waits_most(ran, |_| true, |stage| stage.waits_cpu)?;
    if stopped.seconds < ITS_CAUSE * share * ran.seconds {
        return None;
    }
    Some(RanVerdict {
        stage: Some(index),
        sure: Sure::Likely,
        words: format!(
            "{}: it waited for a CPU {} of the time; the quota of {:.2} CPUs stopped it",
            name(&ran.stages[index]),
            percent(share),
            stopped.cpus
        ),
        help: Some(
            "a higher quota (--cpus of the container; bytepath doctor names the file)".into(),
        ),
    })
}

/// A stage that used no CPU worth mentioning, and yet those before it waited for it to take and those
/// behind it for it to give.
fn waits_outside(ran: &Ran) -> Option<RanVerdict> {
    let input = |index| ran.pipes.iter().find(|pipe| pipe.to == index);
    let output = |index| ran.pipes.iter().find(|pipe| pipe.from == index);
    let is_it = |index: &usize| {
        let (input, output) = (input(*index), output(*index));
        let rests = ran.stages[*index].runs.is_none_or(|runs| runs < AT_REST);
        (input.is_some() || output.is_some())
            && rests
            && lived(ran, &ran.stages[*index]) >= 0.5
            && input.is_none_or(|pipe| is_held_up(pipe, pipe.full))
            && output.is_none_or(|pipe| is_held_up(pipe, pipe.empty))
    };
    let index = (0..ran.stages.len()).find(is_it)?;
    let full = input(index).and_then(|pipe| pipe.full);
    let empty = output(index).and_then(|pipe| pipe.empty);
    let mut words = vec![format!("{}: it waited for what is outside", name(&ran.stages[index]))];
    words.extend(full.map(|full| format!("its input was full {} of the time", percent(full))));
    words.extend(empty.map(|empty| format!("its output was empty {} of the time", percent(empty))));
    let words = words.join("; ");
    Some(RanVerdict { stage: Some(index), sure: Sure::Likely, words, help: None })
}

/// No stage took a CPU for itself.
fn nobody(ran: &Ran, all: f64) -> RanVerdict {
    let (words, help) = match all {
        _ if all >= CPU_SPENT => {
            let shares = ran.stages.iter().map(|stage| {
                let share = (stage.user_s + stage.system_s) / ran.seconds.max(1e-6);
                format!("{} {}", name(stage), percent(share))
            });
            let words = format!(
                "none alone; of a CPU they took: {}",
                shares.collect::<Vec<_>>().join(", ")
            );
            let gains = ran.stages.iter().any(|stage| gains_by_own(ran, stage));
            (words, Some(if gains { OWN_MOVERS } else { "fewer stages" }.to_owned()))
        }
        _ if ran.stages.iter().any(|stage| stage.runs.is_some_and(|runs| runs >= AT_WORK)) => {
            let used = at_least(ran, percent(all));
            (format!("none alone; together they used {used} of a CPU"), None)
        }
        _ => (
            format!(
                "none; together they used {} of a CPU, and waited for what is outside",
                at_least(ran, percent(all))
            ),
            None,
        ),
    };
    let sure = if ran.stages.iter().any(|stage| stage.looks >= LOOKS_FEW) {
        Sure::Likely
    } else {
        Sure::Guess
    };
    RanVerdict { stage: None, sure, words, help }
}

/// What the pipes beside a stage say.
fn weighed(ran: &Ran, index: usize, share: f64) -> (Sure, String) {
    let input = ran.pipes.iter().find(|pipe| pipe.to == index);
    let output = ran.pipes.iter().find(|pipe| pipe.from == index);
    let full = input.and_then(|pipe| pipe.full);
    let empty = output.and_then(|pipe| pipe.empty);
    let mut words = vec![format!("it used {} of a CPU", percent(share))];
    words.extend(full.map(|full| format!("its input was full {} of the time", percent(full))));
    words.extend(empty.map(|empty| format!("its output empty {}", percent(empty))));
    let enough = |pipe: Option<&RanPipe>| pipe.is_none_or(|pipe| pipe.looks >= LOOKS_FEW);
    let agrees =
        full.is_none_or(|full| full >= HELD_UP) && empty.is_none_or(|empty| empty >= HELD_UP);
    let looks = ran.stages[index].looks >= LOOKS_FEW && enough(input) && enough(output);
    let sure = match (looks, share >= VERY_BUSY, agrees) {
        (true, true, true) => Sure::Sure,
        (true, ..) => Sure::Likely,
        (false, ..) => Sure::Guess,
    };
    (sure, words.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ran: &Ran) -> RanVerdict {
        super::of(ran, None)
    }

    fn stage(command: &str, cpu_s: f64) -> RanStage {
        RanStage {
            command: command.into(),
            user_s: cpu_s,
            looks: 50,
            waits_disk: Some(0.0),
            ..RanStage::default()
        }
    }

    fn pipe(from: usize, full: f64, empty: f64) -> RanPipe {
        RanPipe {
            from,
            to: from + 1,
            looks: 50,
            seen_s: 10.0,
            full: Some(full),
            empty: Some(empty),
            ..RanPipe::default()
        }
    }

    #[test]
    fn a_busy_stage_between_a_full_and_an_empty_pipe_is_the_one() {
        let stages =
            vec![stage("cat f", 1.0), stage("LC_ALL=C gzip -6", 9.8), stage("sha256sum", 0.3)];
        let pipes = vec![pipe(0, 0.97, 0.0), pipe(1, 0.0, 0.99)];
        let verdict = of(&Ran { seconds: 10.0, stages, pipes, ..Ran::default() });
        assert_eq!((verdict.stage, verdict.sure), (Some(1), Sure::Sure));
        assert_eq!(
            verdict.words,
            "gzip: it used 98% of a CPU; its input was full 97% of the time; its output empty 99%"
        );
        assert!(verdict.help.is_some_and(|help| help.contains("pigz")));
    }

    #[test]
    fn where_little_was_seen_of_several_pipelines_it_is_said_that_there_are_more() {
        let lived = |command| RanStage { seconds: Some(1.0), ..stage(command, 0.9) };
        let stages = vec![lived("cat f"), lived("gzip"), lived("cat g"), lived("xz")];
        let pipes = vec![pipe(0, 0.9, 0.0), pipe(2, 0.9, 0.0)];
        let whole = Some("it is a list of commands".to_owned());
        let mut ran = Ran { seconds: 10.0, whole, stages, pipes, ..Ran::default() };
        assert!(of(&ran).words.contains("longest of 2 pipelines"), "{}", of(&ran).words);
        ran.unseen_cpu_s = 5.0;
        let verdict = of(&ran);
        assert!(verdict.words.contains("longest of at least 2 pipelines"), "{}", verdict.words);
        assert_eq!(verdict.sure, Sure::Guess);
    }

    #[test]
    fn nothing_is_no_bound() {
        let lived = |command, cpu_s| RanStage { seconds: Some(10.0), ..stage(command, cpu_s) };
        let stages = vec![lived("sh", 9.0), lived("sleep 1", 0.0)];
        let whole = Some("it is a list of commands".to_owned());
        let mut ran = Ran { seconds: 10.0, unseen_cpu_s: 5.0, whole, stages, ..Ran::default() };
        assert_eq!(of(&ran).words, "sh: it used 90% of a CPU");
        ran.stages = vec![stage("sh", 0.0)];
        assert!(of(&ran).words.starts_with("none; together they used 0% of a CPU"), "{ran:?}");
    }

    /// The shell that waits for them is none of them.
    #[test]
    fn of_several_pipelines_the_one_that_took_longest_is_judged() {
        let lived =
            |command, cpu_s, seconds| RanStage { seconds: Some(seconds), ..stage(command, cpu_s) };
        let shell = lived("sh -c", 0.02, 10.0);
        let stages = vec![
            shell,
            lived("cat f", 0.1, 4.0),
            lived("gzip", 3.9, 4.1),
            lived("cat", 3.0, 3.2),
            lived("wc", 1.0, 3.2),
        ];
        let pipes = vec![pipe(1, 0.9, 0.0), pipe(3, 0.0, 0.9)];
        let whole = Some("it is a list of commands".to_owned());
        let verdict = of(&Ran { seconds: 10.0, whole, stages, pipes, ..Ran::default() });
        assert_eq!((verdict.stage, verdict.sure), (Some(2), Sure::Sure));
        assert_eq!(
            verdict.words,
            "gzip: it used 95% of a CPU; its input was full 90% of the time (in the longest of 2 pipelines, 4.10 s)"
        );
    }

    /// A source, a stage in the middle, or a sink that waits for a network, or by intent.
    #[test]
    fn a_slow_stage_that_uses_no_cpu_is_told_by_the_pipes_beside_it() {
        let slow = [[0.0, 1.0, 0.0, 1.0], [0.9, 0.0, 0.0, 1.0], [0.9, 0.0, 0.8, 0.1]];
        for (index, [full, empty, full_next, empty_next]) in slow.into_iter().enumerate() {
            let stages = ["a", "b", "c"].map(|name| stage(name, 0.1)).to_vec();
            let pipes = vec![pipe(0, full, empty), pipe(1, full_next, empty_next)];
            let verdict = of(&Ran { seconds: 10.0, stages, pipes, ..Ran::default() });
            assert_eq!(verdict.stage, Some(index), "{verdict:?}");
        }
        let stages = ["a", "b"].map(|name| stage(name, 0.1)).to_vec();
        let verdict =
            of(&Ran { seconds: 10.0, stages, pipes: vec![pipe(0, 0.3, 0.3)], ..Ran::default() });
        assert_eq!(verdict.stage, None);
    }

    #[test]
    fn what_a_stage_has_is_no_help_for_it() {
        for (command, wanted) in [
            ("gzip -1", "pigz (more threads), or zstd"),
            ("xz --fast", "xz -T0 (more threads), or zstd"),
            ("zstd -1", "zstd -T0 (more threads)"),
            ("zstd -19", "zstd -T0 (more threads), or a lower level"),
            ("xz -T0 -1", "zstd"),
            ("xz -T1", "xz -T0 (more threads), a lower level, or zstd"),
            ("sort", "LC_ALL=C, --parallel, or a larger buffer (-S)"),
            ("LC_ALL=C sort --parallel=8", "a larger buffer (-S)"),
            ("LC_ALL=C sort --parallel=8 -S50%", "another tool"),
            ("LC_ALL=C grep x", "a tool of more threads such as rg"),
            ("frobnicate", "more threads, or another tool"),
            ("gzip -6", "pigz (more threads), the lowest level (-1), or zstd"),
        ] {
            let stages = vec![stage(command, 9.8)];
            let verdict = of(&Ran { seconds: 10.0, stages, ..Ran::default() });
            assert_eq!(verdict.help.as_deref(), Some(wanted));
        }
    }

    #[test]
    fn the_program_is_named_and_not_what_stands_before_it() {
        let cases: &[(&[&str], &str)] = &[
            (&["gzip"], "gzip"),
            (&["A=1", "'gzip'", "-6"], "gzip"),
            (&["PATH+=:/opt/bin", "gzip", "-6"], "gzip"),
            (&["a[0]=1", "b[1]+=2", "gzip"], "gzip"),
            (&["./v=1/gzip", "f"], "./v=1/gzip"),
            (&["1[0]=1", "gzip"], "1[0]=1"),
            (&["nice", "./v=1/gzip", "f"], "./v=1/gzip"),
            (&["nice", "-n", "5", "/bin/gzip"], "/bin/gzip"),
            (&["env", "-u", "A", "B=1", "timeout", "-k1", "9", "gzip"], "gzip"),
            (&["stdbuf", "-oL", "gzip"], "gzip"),
            (&["timeout", "--kill-after", "5", "60", "gzip"], "gzip"),
            (&["timeout", "--kill-after=5", "--foreground", "60", "gzip"], "gzip"),
            (&["timeout", "-vk", "5", "60", "gzip"], "gzip"),
            (&["timeout", "-vk5", "60", "gzip"], "gzip"),
            (&["nice", "--adjustment", "5", "gzip"], "gzip"),
            (&["nice", "-5", "--", "gzip"], "gzip"),
            (&["env", "--unset", "A", "--chdir", "/tmp", "-i", "B=1", "gzip"], "gzip"),
            (&["stdbuf", "--output", "L", "gzip"], "gzip"),
            (&["ionice", "--class", "3", "gzip"], "gzip"),
            (&["taskset", "-c", "0", "gzip"], "gzip"),
            (&["env", "--new", "5", "gzip"], "env"),
            (&["timeout", "-vZ", "5", "60", "gzip"], "timeout"),
            (&["nice"], "nice"),
            (&["'my prog'", "f"], "my prog"),
            (&["bytepath", "cat", "f"], "cat"),
        ];
        for (words, name) in cases {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let stages = vec![stage(&command(&words), 9.8)];
            let verdict = of(&Ran { seconds: 10.0, stages, ..Ran::default() });
            assert_eq!(verdict.words, format!("{name}: it used 98% of a CPU"));
            let is_known = verdict.help.is_some_and(|help| help.contains("pigz"));
            assert_eq!(is_known, name.ends_with("gzip"), "{words:?}");
        }
    }

    #[test]
    fn few_looks_are_a_guess() {
        let mut busy = stage("xz", 0.1);
        busy.looks = 2;
        let verdict = of(&Ran { seconds: 0.1, stages: vec![busy], ..Ran::default() });
        assert_eq!((verdict.stage, verdict.sure), (Some(0), Sure::Guess));
    }

    #[test]
    fn stages_that_spend_a_cpu_together_are_none_alone() {
        let stages = vec![stage("cat f", 4.0), stage("cat", 3.0), stage("wc", 3.0)];
        let verdict = of(&Ran { seconds: 10.0, stages, ..Ran::default() });
        assert_eq!(verdict.stage, None);
        assert!(verdict.words.contains("cat 40%, cat 30%, wc 30%"), "{}", verdict.words);
    }

    #[test]
    fn own_movers_would_help_where_others_move_and_are_started_here() {
        let help = |first: &str, whole: Option<&str>| {
            let of_time = |command, cpu_s, seconds| RanStage {
                seconds: Some(seconds),
                ..stage(command, cpu_s)
            };
            let stages = vec![
                of_time(first, 9.0, 10.0),
                of_time("wc", 1.0, 10.0),
                of_time("cat g", 0.1, 1.0),
                of_time("wc", 0.1, 1.0),
            ];
            let (whole, pipes) =
                (whole.map(str::to_owned), vec![pipe(0, 0.0, 0.9), pipe(2, 0.0, 0.9)]);
            let ran = Ran { seconds: 10.0, stages, pipes, whole, ..Ran::default() };
            let verdict = of(&ran);
            assert_eq!(verdict.stage, Some(0), "{verdict:?}");
            verdict.help.unwrap_or_default()
        };
        assert!(help("LC_ALL=C cat f", None).starts_with("--own-movers"));
        for (first, whole) in [
            ("bytepath cat f", None),
            ("cut -c1", None),
            ("cat f", Some("a list")),
            ("'cat' f", None),
            ("nice cat f", None),
        ] {
            assert!(!help(first, whole).contains("--own-movers"), "{first}");
        }
    }

    #[test]
    fn who_waits_for_a_cpu_does_not_wait_for_what_is_outside() {
        let at = |runs, waits_cpu| RanStage {
            runs: Some(runs),
            waits_cpu: Some(waits_cpu),
            ..stage("gzip -6", 2.4)
        };
        let of = |stage: RanStage| {
            let stages = vec![self::stage("head f", 0.1), stage];
            of(&Ran { seconds: 10.0, stages, pipes: vec![pipe(0, 0.9, 0.0)], ..Ran::default() })
        };
        let verdict = of(at(0.95, 0.9));
        assert_eq!((verdict.stage, verdict.sure), (Some(1), Sure::Likely));
        assert_eq!(verdict.words, "gzip: it waited for a CPU 90% of the time; others used it");
        assert!(verdict.help.is_some_and(|help| help.contains("--cpus")));
        let verdict = of(at(0.9, 0.1));
        assert_eq!(verdict.words, "none alone; together they used 25% of a CPU");
        assert!(of(at(0.2, 0.1)).words.contains("outside"));
    }

    #[test]
    fn who_waits_for_a_cpu_but_is_ahead_of_the_others_holds_nobody_up() {
        let waiting = |command, waits| RanStage {
            runs: Some(0.9),
            waits_cpu: Some(waits),
            waits_disk: Some(waits),
            ..stage(command, 0.1)
        };
        let of = |second, full, empty| {
            let stages = vec![waiting("cat f", 0.9), waiting("sh", second)];
            let pipes = vec![pipe(0, full, empty)];
            of(&Ran { seconds: 10.0, stages, pipes, ..Ran::default() }).stage
        };
        assert_eq!(of(0.6, 0.94, 0.0), Some(1));
        assert_eq!(of(0.4, 0.94, 0.0), None);
        assert_eq!(of(0.95, 0.0, 0.9), Some(0));
        assert_eq!(of(0.6, 0.4, 0.4), Some(0));
    }

    #[test]
    fn who_waits_for_a_cpu_after_its_pipe_is_gone_is_not_held_up_by_it() {
        let sort = RanStage { runs: Some(0.9), waits_cpu: Some(0.78), ..stage("sort", 4.0) };
        for (sort_s, seen_s, wanted) in
            [(28.0, 1.0, Some(1)), (28.0, 28.0, None), (20.0, 20.0, None)]
        {
            let sort = RanStage { seconds: Some(sort_s), ..sort.clone() };
            let pipes = vec![RanPipe { seen_s, ..pipe(0, 0.0, 1.0) }];
            let head = RanStage { seconds: Some(1.0), ..stage("head f", 0.1) };
            let stages = vec![head, sort];
            let verdict = of(&Ran { seconds: 28.0, stages, pipes, ..Ran::default() });
            assert_eq!(verdict.stage, wanted, "{verdict:?}");
        }
    }

    #[test]
    fn who_waits_for_a_cpu_holds_up_only_who_waits_for_it() {
        let of = |full, empty, full_next, head_s| {
            let waits = |command, waits_cpu, cpu_s| RanStage {
                runs: Some(0.9),
                waits_cpu: Some(waits_cpu),
                ..stage(command, cpu_s)
            };
            let stages =
                vec![waits("yes", 0.0, 1.0), waits("head", 0.55, head_s), stage("wc", 0.1)];
            let pipes = vec![pipe(0, full, empty), pipe(1, full_next, 0.4)];
            of(&Ran { seconds: 10.0, stages, pipes, ..Ran::default() })
        };
        // Nobody waited for it to read.
        assert_eq!(of(0.0, 0.6, 0.0, 0.1).stage, None);
        let verdict = of(0.6, 0.2, 0.0, 0.1);
        assert_eq!(verdict.words, "head: it waited for a CPU 55% of the time; others used it");
        let source = |empty| {
            let waits = RanStage { runs: Some(0.9), waits_cpu: Some(0.6), ..stage("a", 1.0) };
            let (stages, pipes) = (vec![waits, stage("b", 0.1)], vec![pipe(0, 0.3, empty)]);
            self::of(&Ran { seconds: 10.0, stages, pipes, ..Ran::default() }).stage
        };
        assert_eq!([source(0.4), source(0.6)], [None, Some(0)]);
    }

    #[test]
    fn what_a_pipeline_uses_itself_is_not_used_by_others() {
        let waits = RanStage { runs: Some(0.9), waits_cpu: Some(0.6), ..stage("gzip", 2.0) };
        for (first_s, wanted) in [(1.0, "; others used it"), (4.0, "; other stages used it")] {
            let stages = vec![stage("cat f", first_s), waits.clone()];
            let pipes = vec![pipe(0, 0.9, 0.0)];
            let verdict = of(&Ran { seconds: 10.0, stages, pipes, ..Ran::default() });
            assert!(verdict.words.ends_with(wanted), "{verdict:?}");
        }
    }

    #[test]
    fn a_quota_that_did_a_good_part_of_a_wait_is_named() {
        let waits = RanStage { runs: Some(0.9), waits_cpu: Some(0.94), ..stage("sha256sum", 0.4) };
        let ran = Ran { seconds: 10.0, stages: vec![waits], ..Ran::default() };
        let of = |seconds| super::of(&ran, Some(Stopped { cpus: 0.05, seconds }));
        let words =
            "sha256sum: it waited for a CPU 94% of the time; the quota of 0.05 CPUs stopped it";
        assert_eq!(of(9.0).words, words);
        assert!(of(9.0).help.is_some_and(|help| help.contains("a higher quota")));
        assert!(of(1.0).words.ends_with("others used it"));
    }

    #[test]
    fn who_lived_for_a_moment_is_not_what_the_whole_waited_for() {
        let waiting = |seconds, waits_cpu, waits_disk| RanStage {
            seconds: Some(seconds),
            runs: Some(0.9),
            waits_cpu: Some(waits_cpu),
            waits_disk: Some(waits_disk),
            ..stage("a", 0.1)
        };
        let of = |cpu, disk| {
            let stages = vec![waiting(1.0, cpu, disk), waiting(10.0, 0.1, 0.1)];
            of(&Ran { seconds: 10.0, stages, ..Ran::default() }).stage
        };
        assert_eq!([of(0.9, 0.0), of(0.0, 0.9)], [None; 2]);
        let stages = vec![waiting(1.0, 0.9, 0.0), waiting(9.0, 0.8, 0.0)];
        let verdict = self::of(&Ran { seconds: 10.0, stages, ..Ran::default() });
        assert_eq!(verdict.stage, Some(1));
        assert!(verdict.words.contains("for a CPU 72% of the time"), "{verdict:?}");
    }

    #[test]
    fn what_waits_outside_or_for_a_disk_is_told_so() {
        let verdict =
            of(&Ran { seconds: 10.0, stages: vec![stage("curl x", 0.1)], ..Ran::default() });
        assert!(verdict.stage.is_none() && verdict.words.contains("outside"), "{verdict:?}");
        let mut slow = stage("tar cf - d", 1.0);
        slow.waits_disk = Some(0.8);
        let verdict = of(&Ran { seconds: 10.0, stages: vec![slow], ..Ran::default() });
        assert!(verdict.words.contains("disk 80%"), "{verdict:?}");
    }
}
