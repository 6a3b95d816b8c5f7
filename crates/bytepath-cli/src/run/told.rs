//! What is told of a run at its end: to people on standard error, to programs as JSON.

use std::time::Duration;

use bytepath::machine::{CpuList, Machine};
use bytepath_report::{Ran, RanDecision, RanPipe, RanStage, Sure, numbers};
use rustix::process::Pid;

use super::family::{Doing, Family, Joint, Member, Through};
use super::measured::Measured;
use super::process;
use super::quota::Quotas;
use super::stages::{End, Started};
use super::verdict;
use super::watch::Watched;
use crate::live::in_a_line;

/// A process that took less of a CPU than this, and no part in a pipe, is not worth a line.
const WORTH_CPU_S: f64 = 0.01;
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
        let (stages, pids) = listed(&watched.stages.all, family, whole.is_some(), before);
        let decisions = watched.decisions.iter();
        let mut notes = watched.stages.said.clone();
        notes.extend(watched.below.is_none().then(|| UNSEEN.to_owned()));
        let joints = || family.into_iter().flat_map(|family| family.joints.values());
        notes.extend(joints().filter_map(|joint| joint.refused.clone()));
        notes.dedup();
        if let Some(count) = family.map(|family| family.forgotten).filter(|count| *count > 0) {
            notes.push(format!("{count} more processes that ended and did little are not listed"));
        }
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
            pipes: pipes(&pids, family, whole),
            decisions: decisions
                .map(|(at, what)| RanDecision { at_s: at.as_secs_f64(), what: what.clone() })
                .collect(),
            notes,
            ..Ran::default()
        };
        if unseen_cpu_s > 0.0 {
            for (stage, member) in ran.stages.iter_mut().zip(members(&pids, family)) {
                stage.cpu_at_least = member.is_none_or(|member| !member.seen_ended);
            }
        }
        let shell = whole.and_then(|_| watched.stages.all.first()?.pid);
        let mut judged = at_work(&ran, &pids, family, shell);
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
fn at_work(ran: &Ran, pids: &[Option<Pid>], family: Option<&Family>, shell: Option<Pid>) -> Ran {
    let mut ran = ran.clone();
    let is_shell = |stage: usize| shell.is_some() && pids[stage] == shell;
    ran.pipes.retain(|pipe| !is_shell(pipe.from) && !is_shell(pipe.to));
    ran.seconds -= ran.stopped_s;
    let workers = if ran.whole.is_none() { workers(pids, family) } else { members(pids, family) };
    for (stage, member) in ran.stages.iter_mut().zip(workers) {
        let Some(member) = member else { continue };
        let seen = member.seen_for();
        let lived = stage.seconds.map(|seconds| seconds - member.stopped.as_secs_f64());
        stage.seconds = lived.or(Some(seen.as_secs_f64()));
    }
    ran
}

/// What the shell's processes took of the CPUs, as it learnt when it waited for them, beyond what
/// was seen. Those that go on are not in it.
fn unseen_cpu_s(waited_for_s: f64, family: &Family) -> f64 {
    let goes_on =
        |member: &&Member| member.alive && process::began(member.pid) == Some(member.now.began);
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

/// The stages that are told, in their order, and who each is.
pub(super) type Listed = (Vec<RanStage>, Vec<Option<Pid>>);

/// Of what a shell ran, those that were told before keep their places.
pub(super) fn listed(
    all: &[Started],
    family: Option<&Family>,
    is_whole: bool,
    before: Listed,
) -> Listed {
    if is_whole { processes(family, before) } else { stages(all, family) }
}

/// The place in that list of a process, or of the next above it that is there.
pub(super) fn place(pid: Pid, pids: &[Option<Pid>], family: &Family) -> Option<usize> {
    let mut above = std::iter::successors(Some(pid), |pid| family.member(*pid)?.now.parent);
    above
        .by_ref()
        .take(pids.len() + family.members.len())
        .find_map(|pid| pids.iter().rposition(|place| *place == Some(pid)))
}

fn members<'a>(pids: &[Option<Pid>], family: Option<&'a Family>) -> Vec<Option<&'a Member>> {
    pids.iter().map(|pid| family?.member((*pid)?)).collect()
}

/// Who does the work of each stage: where it mostly waits for none of its files, as a shell or
/// timeout that waits for the program that it started, the one below it that used the most of a CPU,
/// of those that were there for most of its time: one that came and went says little of the whole.
fn workers<'a>(pids: &[Option<Pid>], family: Option<&'a Family>) -> Vec<Option<&'a Member>> {
    let mut workers = members(pids, family);
    let Some(family) = family else { return workers };
    let waiting = workers.iter().map(|stage| stage.filter(|stage| stage.only_waits()));
    let waited_for: Vec<Option<Duration>> =
        waiting.map(|stage| stage.map(Member::seen_for)).collect();
    for member in &family.members {
        let Some(place) = place(member.pid, pids, family) else { continue };
        if waited_for[place].is_none_or(|time| member.seen_for() * 2 <= time) {
            continue;
        }
        if workers[place].is_none_or(|worker| worker.now.run_ns < member.now.run_ns) {
            workers[place] = Some(member);
        }
    }
    workers
}

/// The stages as they were started, each with what the one who does its work waits for.
fn stages(all: &[Started], family: Option<&Family>) -> Listed {
    let pids: Vec<Option<Pid>> = all.iter().map(|started| started.pid).collect();
    let workers = workers(&pids, family);
    let stage = |(started, worker): (&Started, &Option<&Member>)| {
        let member = started.pid.and_then(|pid| family?.member(pid));
        let moved = member.and_then(|member| member.now.moved);
        let (user_s, system_s) = started.cpu_s;
        RanStage {
            read_bytes: moved.map(|moved| moved.read_bytes),
            written_bytes: moved.map(|moved| moved.written_bytes),
            moved_at_least: member.is_some_and(Member::moved_at_least),
            user_s,
            system_s,
            command: started.text.clone(),
            status: started.end.map(End::status),
            signal: started.end.and_then(|end| match end {
                End::Killed(signal) => Some(signal),
                End::Exited(_) => None,
            }),
            ..worker.map(seen).unwrap_or_default()
        }
    };
    (all.iter().zip(&workers).map(stage).collect(), pids)
}

/// The processes that took part in what a shell ran, behind those that were told before.
fn processes(family: Option<&Family>, (mut stages, mut pids): Listed) -> Listed {
    let Some(family) = family else { return (stages, pids) };
    let takes_part = |member: &&Member| {
        let joined = |joint: &Joint| joint.writer == member.pid || joint.reader == member.pid;
        family.joints.values().any(joined) || member.now.cpu_s() >= WORTH_CPU_S
    };
    let stage = |member: &Member| {
        let mut stage = RanStage { seconds: Some(member.now.age.as_secs_f64()), ..seen(member) };
        // The others that it waited for are listed too, and the kernel counts theirs in.
        if member.now.has_waited {
            (stage.read_bytes, stage.written_bytes) = (None, None);
            stage.moved_at_least = false;
        }
        stage
    };
    for (told, pid) in stages.iter_mut().zip(&pids) {
        // What was forgotten stays as it was.
        if let Some(member) = pid.and_then(|pid| family.member(pid)) {
            *told = stage(member);
        }
    }
    let is_new = |member: &&Member| !pids.contains(&Some(member.pid));
    let new = family.members.iter().filter(takes_part).filter(is_new);
    let (new, new_pids): Listed = new.map(|member| (stage(member), Some(member.pid))).unzip();
    stages.extend(new);
    pids.extend(new_pids);
    (stages, pids)
}

fn seen(member: &Member) -> RanStage {
    let seen = member.seen_for();
    let share = |doings: &[Doing]| {
        let time: Duration = doings.iter().filter_map(|doing| member.times.get(doing)).sum();
        (!seen.is_zero()).then(|| time.div_duration_f64(seen))
    };
    RanStage {
        command: member.words.clone(),
        user_s: member.now.user_s,
        system_s: member.now.system_s,
        read_bytes: member.now.moved.map(|moved| moved.read_bytes),
        written_bytes: member.now.moved.map(|moved| moved.written_bytes),
        moved_at_least: member.moved_at_least(),
        looks: member.looks,
        runs: share(&[Doing::Runs, Doing::WaitsForCpu]),
        waits_cpu: share(&[Doing::WaitsForCpu]),
        waits_input: share(&[Doing::WaitsForInput]),
        waits_output: share(&[Doing::WaitsForOutput]),
        waits_disk: share(&[Doing::WaitsForDisk]),
        ..RanStage::default()
    }
}

/// The pipes between stages by their places in the list; those of a pipeline that was taken apart
/// are known without having been seen.
fn pipes(pids: &[Option<Pid>], family: Option<&Family>, whole: Option<&str>) -> Vec<RanPipe> {
    let Some(family) = family else { return Vec::new() };
    let place = |pid: Pid| place(pid, pids, family);
    let lived_s = |pid: Pid| {
        let member = family.member(pid)?;
        Some(member.now.age.saturating_sub(member.stopped).as_secs_f64())
    };
    let joined = family.joints.values().filter_map(|joint| {
        let (from, to) = (place(joint.writer)?, place(joint.reader)?);
        let seconds = whole.and_then(|_| Some(lived_s(joint.writer)?.min(lived_s(joint.reader)?)));
        let seconds = seconds.filter(|seconds| *seconds >= LIVED_S_MIN);
        let at_least = family.is_at_least(joint);
        let through = match family.through(joint) {
            Through::About(bytes) if at_least => joint.at_least(bytes),
            through => through,
        };
        let pipe = told(from, to, through, Some(joint));
        let (agreed, at_least) = (pipe.agreed && !at_least, pipe.at_least || at_least);
        (from != to).then_some(RanPipe { at_least, agreed, seconds, ..pipe })
    });
    let mut all: Vec<RanPipe> = joined.collect();
    let unseen = (1..pids.len()).filter(|_| whole.is_none()).filter_map(|to| {
        let through = match (pids[to - 1], pids[to]?) {
            (Some(from), to) => family.between(from, to),
            (None, _) => Through::Agreed(0),
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

/// CPUs in an order in which neighbours share what can be shared: the cores of a socket that share
/// a cache one after the other, and only then their second threads.
pub(super) fn neighbours(allowed: &CpuList) -> Vec<usize> {
    let topology = Machine::this().cpus();
    let mut cpus: Vec<usize> = allowed.iter().collect();
    cpus.sort_by_key(|&id| {
        let cpu = topology.cpu(id);
        let thread = cpu.and_then(|cpu| cpu.smt_siblings.iter().position(|sibling| sibling == id));
        let cache = cpu.and_then(|cpu| cpu.caches.last()?.shared_by.first());
        (thread, cpu.and_then(|cpu| cpu.package), cache, id)
    });
    cpus
}

#[cfg(test)]
mod tests {
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
