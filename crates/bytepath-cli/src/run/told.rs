//! What is told of a run at its end: to people on standard error, to programs as JSON.

use std::time::Duration;

use bytepath_report::{Ran, RanDecision, RanPipe, RanStage, Sure, numbers};

use super::family::{Family, Joint, Member, Through};
use super::listed::{WORTH_CPU_S, listed, members, place, workers};
use super::measured::Measured;
use super::process::Id;
use super::quota::Quotas;
use super::stages::{End, Stages};
use super::verdict;
use super::watch::Watched;
use crate::live::in_a_line;

/// The shell's clocks and the kernel's counts differ by less than this share.
const UNSEEN_SHARE: f64 = 0.02;
/// All may have been stopped for so long by the way.
const WORTH_STOPPED_S: f64 = 0.05;
/// The kernel tells when a process began in steps of 10 ms: of less than this there is no rate.
const LIVED_S_MIN: f64 = 0.05;
/// Commands are shown no longer than this.
const SHOWN: usize = 40;
/// Of more stages than this, the first are shown: a loop may run thousands.
const SHOWN_MAX: usize = 250;

/// What is missing without /proc.
pub(super) const UNSEEN: &str =
    "/proc tells nothing here: nobody is placed, and pipes that a shell makes are not found";

/// What is told.
pub(super) struct Told {
    ran: Ran,
}

impl Told {
    pub(super) fn of(
        watched: &Watched,
        whole: Option<&'static str>,
        took: Duration,
        end: End,
    ) -> Told {
        let family = watched.family.as_ref();
        // By the numbers that --metrics has told.
        let before = watched.measured.as_ref().map(Measured::listed).unwrap_or_default();
        let (stages, ids) = listed(&watched.stages.all, family, whole.is_some(), before);
        let decisions = watched.decisions.iter();
        let mut notes = watched.stages.said.clone();
        notes.extend(watched.below.is_none().then(|| UNSEEN.to_owned()));
        let joints = || family.into_iter().flat_map(|family| family.joints.values());
        notes.extend(joints().filter_map(|joint| joint.refused.clone()));
        notes.dedup();
        notes.extend(family.and_then(unlisted));
        let unseen_cpu_s = whole.zip(family).map_or(0.0, |(_, family)| {
            let all = watched.stages.all.iter();
            unseen_cpu_s(all.map(|started| started.cpu_s.0 + started.cpu_s.1).sum(), family)
        });
        let mut ran = Ran {
            unseen_cpu_s,
            bytepath: env!("CARGO_PKG_VERSION").to_owned(),
            whole: whole.map(str::to_owned),
            seconds: took.as_secs_f64(),
            stopped_s: family.map_or(0.0, |family| family.stopped.as_secs_f64()),
            exit: end.status(),
            stages,
            pipes: pipes(&ids, family, &watched.stages, whole),
            decisions: decisions
                .map(|(at, what)| RanDecision { at_s: at.as_secs_f64(), what: what.clone() })
                .collect(),
            notes,
            ..Ran::default()
        };
        if unseen_cpu_s > 0.0 {
            for (stage, member) in ran.stages.iter_mut().zip(members(&ids, family)) {
                stage.cpu_at_least = member.is_none_or(|member| !member.seen_ended);
            }
        }
        let shell = whole.and_then(|_| Some(family?.started(watched.stages.all.first()?.pid?)));
        let mut judged = at_work(&ran, &ids, family, shell);
        // Stages that were started count what those used themselves.
        judged.unseen_cpu_s += whole.zip(family).map_or(0.0, |(_, family)| family.forgotten_s);
        if whole.is_none() {
            for (stage, started) in judged.stages.iter_mut().zip(&watched.stages.all) {
                stage.command = verdict::command(&started.own_words);
            }
        }
        let stopped = watched.quotas.as_ref().and_then(Quotas::stopped);
        ran.verdict = verdict::of(&judged, stopped);
        Told { ran }
    }

    /// What was decided meanwhile.
    pub(super) fn plan(&self) -> String {
        let decisions = self.ran.decisions.iter();
        let decisions =
            decisions.map(|decision| format!("  after {:.2} s: {}", decision.at_s, decision.what));
        let decisions = match self.ran.decisions.is_empty() {
            true => vec!["  stages ran where the kernel put them".to_owned()],
            false => decisions.collect(),
        };
        let notes = self.ran.notes.iter().map(|note| format!("  {note}"));
        decisions.into_iter().chain(notes).collect::<Vec<_>>().join("\n")
    }

    pub(super) fn summary(&self) -> String {
        let ran = &self.ran;
        let mut lines = vec![format!("{} s", numbers::figure(ran.seconds))];
        if ran.stopped_s >= WORTH_STOPPED_S {
            lines[0] += &format!(" (stopped for {} s)", numbers::figure(ran.stopped_s));
        }
        if let Some(why) = &ran.whole {
            lines[0] += &format!(", by the shell as it is ({why}); as seen from outside:");
        }
        let at_work_s = ran.seconds - ran.stopped_s;
        for (index, stage) in ran.stages.iter().enumerate().take(SHOWN_MAX) {
            lines.push(line(stage));
            lines.extend(
                ran.pipes
                    .iter()
                    .filter(|pipe| pipe.from == index)
                    .map(|pipe| flow(pipe, ran.whole.is_none().then_some(at_work_s))),
            );
        }
        if let Some(more) = ran.stages.len().checked_sub(SHOWN_MAX + 1) {
            lines.push(format!("  … and {} more, which --json tells", more + 1));
        }
        if ran.unseen_cpu_s > 0.0 {
            let unseen_s = numbers::figure(ran.unseen_cpu_s);
            lines.push(format!(
                "  and {unseen_s} s of CPU by processes that were not seen to their end"
            ));
        }
        let sure = match ran.verdict.sure {
            Sure::Sure => "sure",
            Sure::Likely => "likely",
            Sure::Guess => "a guess: little was seen",
        };
        lines.push(match ran.stages.is_empty() {
            true => format!("what held it up is not known: {}", ran.verdict.words),
            false => format!("held up by {} ({sure})", ran.verdict.words),
        });
        lines.extend(ran.verdict.help.iter().map(|help| format!("what would help: {help}")));
        lines.extend(ran.notes.iter().cloned());
        lines.join("\n")
    }

    pub(super) fn json(&self) -> anyhow::Result<String> {
        Ok(bytepath_report::json(&self.ran)?)
    }
}

/// The run without the time in which it was stopped, in which nobody held it up, and without the pipes
/// of the shell, which join all that it started; with how long each stage was seen.
fn at_work(ran: &Ran, ids: &[Option<Id>], family: Option<&Family>, shell: Option<Id>) -> Ran {
    let mut ran = ran.clone();
    let is_shell = |stage: usize| shell.is_some() && ids[stage] == shell;
    ran.pipes.retain(|pipe| !is_shell(pipe.from) && !is_shell(pipe.to));
    ran.seconds -= ran.stopped_s;
    let workers = if ran.whole.is_none() { workers(ids, family) } else { members(ids, family) };
    for (stage, member) in ran.stages.iter_mut().zip(workers) {
        let Some(member) = member else { continue };
        let seen = member.seen_for();
        let lived = stage.seconds.map(|seconds| seconds - member.stopped.as_secs_f64());
        stage.seconds = lived.or(Some(seen.as_secs_f64()));
    }
    ran
}

/// Of those that ended and used the least, as many are forgotten as have to be.
fn unlisted(family: &Family) -> Option<String> {
    let (processes, are) = match family.forgotten {
        0 => return None,
        1 => ("process", "is"),
        _ => ("processes", "are"),
    };
    let used_s = numbers::figure(family.forgotten_s);
    Some(format!(
        "{} more {processes}, which used {used_s} s of CPU, {are} not listed",
        family.forgotten
    ))
}

/// What the shell's processes took of the CPUs, as it learnt when it waited for them, beyond what
/// was seen. Those that go on are not in it.
fn unseen_cpu_s(waited_for_s: f64, family: &Family) -> f64 {
    let goes_on = |member: &&Member| member.alive && member.is_there();
    let seen = family.members.iter().filter(|member| !goes_on(member));
    let seen_s: f64 = seen.map(|member| member.now.used_s()).sum();
    let more_s = waited_for_s - seen_s - family.forgotten_s;
    let is_worth_it = more_s >= WORTH_CPU_S.max(UNSEEN_SHARE * waited_for_s);
    if is_worth_it { more_s } else { 0.0 }
}

fn line(stage: &RanStage) -> String {
    let whole = in_a_line(&stage.command);
    let mut command: String = whole.chars().take(SHOWN).collect();
    if command.len() < whole.len() {
        command.push('…');
    }
    let ended = match (stage.status, stage.signal) {
        (_, Some(signal)) => format!(", ended by {}", super::signals::name(signal)),
        (Some(status), _) if status != 0 => format!(", status {status}"),
        _ => String::new(),
    };
    let cpu_s = stage.user_s + stage.system_s;
    let at_least = if stage.cpu_at_least && cpu_s > 0.0 { "at least " } else { "" };
    format!("  {command:SHOWN$} {at_least}{} s of CPU{ended}", numbers::figure(cpu_s))
}

/// With how long the pipe was there, unless it tells; without a rate where nobody knows, and of what
/// may be more.
fn flow(pipe: &RanPipe, seconds: Option<f64>) -> String {
    let about = match (pipe.agreed, pipe.at_least) {
        (_, true) => "at least ",
        (true, _) => "",
        (false, _) => "about ",
    };
    let seconds = pipe.seconds.or(seconds).filter(|_| !pipe.at_least);
    let rate = |bytes: u64| {
        let rate = numbers::bytes((bytes as f64 / seconds?.max(1e-6)) as u64);
        Some(format!(", {rate}/s"))
    };
    let bytes = pipe.bytes.map_or("an unknown number of bytes".to_owned(), |bytes| {
        format!("{about}{}{}", numbers::bytes(bytes), rate(bytes).unwrap_or_default())
    });
    let of_others = |count: u32, did: &str| match count {
        0 => String::new(),
        1 => format!(", of which another may have {did} a part"),
        _ => format!(", of which {count} others may have {did} a part"),
    };
    let others = of_others(pipe.other_writers, "written") + &of_others(pipe.other_readers, "read");
    let holds = pipe
        .holds_bytes
        .map_or(String::new(), |bytes| format!(", pipe of {}", numbers::bytes(bytes)));
    let percent = |share: f64| format!("{:.0}%", 100.0 * share);
    let fill = pipe.full.zip(pipe.empty).map_or(String::new(), |(full, empty)| {
        format!(", full {} and empty {} of the time", percent(full), percent(empty))
    });
    format!("    | {bytes}{others}{holds}{fill}")
}

/// The pipes between stages by their places in the list; those of a pipeline that was taken apart
/// are known without having been seen, but not what went through them alone.
fn pipes(
    ids: &[Option<Id>],
    family: Option<&Family>,
    stages: &Stages,
    whole: Option<&str>,
) -> Vec<RanPipe> {
    let Some(family) = family else { return Vec::new() };
    let place = |id| place(id, ids, family);
    let lived_s = |id| {
        let member = family.member(id)?;
        Some(member.now.age.saturating_sub(member.stopped).as_secs_f64())
    };
    let joined = family.joints.values().filter_map(|joint| {
        let (from, to) = (place(joint.writer)?, place(joint.reader)?);
        let seconds = whole.and_then(|_| Some(lived_s(joint.writer)?.min(lived_s(joint.reader)?)));
        let seconds = seconds.filter(|seconds| *seconds >= LIVED_S_MIN);
        let at_least = family.is_at_least(joint);
        let through = match family.through(joint) {
            _ if stages.redirect(from, to) => Through::Unknown,
            Through::About(bytes) if at_least => joint.at_least(bytes),
            through => through,
        };
        let pipe = told(from, to, through, Some(joint));
        let (agreed, at_least) = (pipe.agreed && !at_least, pipe.at_least || at_least);
        (from != to).then_some(RanPipe { at_least, agreed, seconds, ..pipe })
    });
    let mut all: Vec<RanPipe> = joined.collect();
    let unseen = (1..ids.len()).filter(|_| whole.is_none()).filter_map(|to| {
        let through = match (ids[to - 1], ids[to]?) {
            (None, _) => Through::Agreed(0),
            _ if stages.redirect(to - 1, to) => Through::Unknown,
            (Some(from), to) => match family.between(from, to) {
                Through::Agreed(bytes) => Through::About(bytes),
                through => through,
            },
        };
        Some(told(to - 1, to, through, None))
    });
    for pipe in unseen {
        if !all.iter().any(|known| (known.from, known.to) == (pipe.from, pipe.to)) {
            all.push(pipe);
        }
    }
    all.sort_by_key(|pipe| (pipe.from, pipe.to));
    all
}

fn told(from: usize, to: usize, through: Through, joint: Option<&Joint>) -> RanPipe {
    let [writers, readers] = joint.map_or([0; 2], Joint::others);
    let others = |count| u32::try_from(count).unwrap_or(u32::MAX);
    let joint = joint.filter(|joint| !joint.seen.is_zero());
    let share =
        |time: fn(&Joint) -> Duration| joint.map(|joint| time(joint).div_duration_f64(joint.seen));
    RanPipe {
        from,
        to,
        other_writers: others(writers),
        other_readers: others(readers),
        bytes: through.bytes(),
        agreed: matches!(through, Through::Agreed(_)),
        at_least: matches!(through, Through::AtLeast(_)),
        holds_bytes: joint.map(|joint| joint.holds_bytes as u64),
        looks: joint.map_or(0, |joint| joint.looks),
        seen_s: joint.map_or(0.0, |joint| joint.seen.as_secs_f64()),
        full: share(|joint| joint.full),
        empty: share(|joint| joint.empty),
        ..RanPipe::default()
    }
}

#[cfg(test)]
mod tests {
    use bytepath::machine::CpuList;

    use super::super::below::Below;
    use super::super::sizes::PipeSize;
    use super::*;

    #[test]
    fn a_rate_is_over_the_time_at_work() {
        let pipe = RanPipe { to: 1, bytes: Some(3 << 20), ..RanPipe::default() };
        let summary = |pipe: &RanPipe| {
            let stages = vec![RanStage::default(), RanStage::default()];
            let pipes = vec![pipe.clone()];
            let ran = Ran { seconds: 5.0, stopped_s: 2.0, stages, pipes, ..Ran::default() };
            Told { ran }.summary()
        };
        assert!(summary(&pipe).contains("| about 3 MiB, 1 MiB/s\n"), "{}", summary(&pipe));
    }

    #[test]
    fn what_those_used_that_are_not_listed_is_told() {
        let (size, cpus) = (PipeSize::new(None), CpuList::default());
        let mut family = Family::new(Below::default(), size, cpus, None);
        assert_eq!(unlisted(&family), None);
        (family.forgotten, family.forgotten_s) = (700, 14.0);
        let told = "700 more processes, which used 14.0 s of CPU, are not listed";
        assert_eq!(unlisted(&family).as_deref(), Some(told));
        family.forgotten = 1;
        assert!(unlisted(&family).is_some_and(|told| told.ends_with(" is not listed")));
    }

    #[test]
    fn a_command_of_several_lines_is_shown_in_one() {
        let stage = RanStage { command: "awk '{\n\x1b[2Jprint }'".into(), ..RanStage::default() };
        assert_eq!(line(&stage), format!("  {:SHOWN$} 0 s of CPU", "awk '{  [2Jprint }'"));
    }

    #[test]
    fn only_a_command_that_is_cut_is_marked_as_cut() {
        let of = |command: &str| line(&RanStage { command: command.into(), ..RanStage::default() });
        assert!(!of("true \u{85}\u{85}").contains('…'), "{}", of("true \u{85}\u{85}"));
        let long = "ü".repeat(SHOWN);
        assert!(of(&(long.clone() + "\u{85}")).contains(&(long.clone() + "…")));
        assert!(!of(&long).contains('…'));
    }

    #[test]
    fn seconds_are_at_least_so_many_only_where_there_are_any() {
        let of = |user_s| line(&RanStage { user_s, cpu_at_least: true, ..RanStage::default() });
        assert!(of(0.0).ends_with(" 0 s of CPU") && !of(0.0).contains("at least"), "{}", of(0.0));
        assert!(of(0.5).ends_with(" at least 0.500 s of CPU"), "{}", of(0.5));
    }
}
