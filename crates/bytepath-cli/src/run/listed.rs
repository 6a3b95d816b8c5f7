//! Who is listed of a run, and in which place: by the same numbers for people, --json and --metrics.

use std::time::Duration;

use bytepath_report::RanStage;
use rustix::process::Pid;

use super::family::{Doing, Family, Joint, Member};
use super::stages::{End, Started};

/// A process that took less of a CPU than this, and no part in a pipe, is not worth a line.
pub(super) const WORTH_CPU_S: f64 = 0.01;

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

pub(super) fn members<'a>(
    pids: &[Option<Pid>],
    family: Option<&'a Family>,
) -> Vec<Option<&'a Member>> {
    pids.iter().map(|pid| family?.member((*pid)?)).collect()
}

/// Who does the work of each stage: where it mostly waits for none of its files, as a shell or
/// timeout that waits for the program that it started, the one below it that used the most of a CPU,
/// of those that were there for most of its time: one that came and went says little of the whole.
pub(super) fn workers<'a>(
    pids: &[Option<Pid>],
    family: Option<&'a Family>,
) -> Vec<Option<&'a Member>> {
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
