//! Who is listed of a run, and in which place: by the same numbers for people, --json and --metrics.

use std::time::Duration;

use bytepath_report::RanStage;

use super::family::{Doing, Family, Joint, Member};
use super::process::Id;
use super::stages::{End, Started};

/// A process that took less of a CPU than this, and no part in a pipe, is not worth a line.
pub(super) const WORTH_CPU_S: f64 = 0.01;

/// The stages that are told, in their order, and who each is.
pub(super) type Listed = (Vec<RanStage>, Vec<Option<Id>>);

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
pub(super) fn place(id: Id, ids: &[Option<Id>], family: &Family) -> Option<usize> {
    let above = |id: &Id| family.parent(family.member(*id)?).map(Member::id);
    std::iter::successors(Some(id), above)
        .take(ids.len() + family.members.len())
        .find_map(|id| ids.iter().rposition(|place| *place == Some(id)))
}

pub(super) fn members<'a>(
    ids: &[Option<Id>],
    family: Option<&'a Family>,
) -> Vec<Option<&'a Member>> {
    ids.iter().map(|id| family?.member((*id)?)).collect()
}

/// Who does the work of each stage: where it mostly waits for none of its files, as a shell or
/// timeout that waits for the program that it started, the one below it that used the most of a CPU,
/// of those that were there for most of its time: one that came and went says little of the whole.
pub(super) fn workers<'a>(
    ids: &[Option<Id>],
    family: Option<&'a Family>,
) -> Vec<Option<&'a Member>> {
    let mut workers = members(ids, family);
    let Some(family) = family else { return workers };
    let waiting = workers.iter().map(|stage| stage.filter(|stage| stage.only_waits()));
    let waited_for: Vec<Option<Duration>> =
        waiting.map(|stage| stage.map(Member::seen_for)).collect();
    for member in &family.members {
        let Some(place) = place(member.id(), ids, family) else { continue };
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
    let ids: Vec<Option<Id>> =
        all.iter().map(|started| Some(family?.started(started.pid?))).collect();
    let workers = workers(&ids, family);
    let stage = |((started, id), worker): ((&Started, &Option<Id>), &Option<&Member>)| {
        let member = id.and_then(|id| family?.member(id));
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
    (all.iter().zip(&ids).zip(&workers).map(stage).collect(), ids)
}

/// The processes that took part in what a shell ran, behind those that were told before.
fn processes(family: Option<&Family>, (mut stages, mut ids): Listed) -> Listed {
    let Some(family) = family else { return (stages, ids) };
    let takes_part = |member: &&Member| {
        let joined = |joint: &Joint| joint.writer == member.id() || joint.reader == member.id();
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
    for (told, id) in stages.iter_mut().zip(&ids) {
        // What was forgotten stays as it was.
        if let Some(member) = id.and_then(|id| family.member(id)) {
            *told = stage(member);
        }
    }
    let is_new = |member: &&Member| !ids.contains(&Some(member.id()));
    let new = family.members.iter().filter(takes_part).filter(is_new);
    let (new, new_ids): Listed = new.map(|member| (stage(member), Some(member.id()))).unzip();
    stages.extend(new);
    ids.extend(new_ids);
    (stages, ids)
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

#[cfg(test)]
mod tests {
    use bytepath::machine::CpuList;
    use rustix::process::{Pid, getpid};

    use super::*;
    use crate::run::below::Below;
    use crate::run::process::Reading;
    use crate::run::sizes::PipeSize;

    #[test]
    fn who_had_a_number_before_another_keeps_its_line_and_what_it_started() {
        let (below, size) = (Below::default(), PipeSize::new(None));
        let mut family = Family::new(below, size, CpuList::default(), None);
        let reading = Reading::of(getpid()).expect("ours");
        let pid = |number| Pid::from_raw(number).expect("one");
        let add = |family: &mut Family, number, parent: Option<i32>, began, user_s| {
            let parent = parent.map(pid);
            let reading = Reading { parent, began, user_s, ..reading.clone() };
            family.members.push(Member::new(pid(number), reading));
        };
        add(&mut family, 7, None, 1, 30.0);
        add(&mut family, 8, Some(7), 2, 20.0);
        let before = listed(&[], Some(&family), true, Listed::default());
        add(&mut family, 7, None, 3, 10.0);
        add(&mut family, 9, Some(7), 4, 5.0);
        let (stages, ids) = listed(&[], Some(&family), true, before);
        let used: Vec<f64> = stages.iter().map(|stage| stage.user_s).collect();
        assert_eq!(used, [30.0, 20.0, 10.0, 5.0]);
        let shells = [ids[0], ids[2]];
        let of = |place: usize| super::place(ids[place].expect("it is there"), &shells, &family);
        assert_eq!([0, 1, 2, 3].map(of), [Some(0), Some(0), Some(1), Some(1)]);
    }
}
