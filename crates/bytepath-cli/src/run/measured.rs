//! `--metrics`: the programs and pipes of a run in figures, as they were at the last look.

use std::sync::{Arc, Mutex, PoisonError};

use bytepath_report::RanStage;

use super::family::{FIRST_KEPT, Family, Through};
use super::listed::{self, Listed};
use super::process::Id;
use super::stages::{Stages, Started};
use crate::metrics::{Figures, PipeFigures, StageFigures};

/// What the last look saw.
#[derive(Default)]
pub(super) struct Measured(Arc<Mutex<Kept>>);

#[derive(Default)]
struct Kept {
    figures: Figures,
    /// Whom the numbers are of.
    listed: Listed,
}

impl Measured {
    /// Tells it at any time.
    pub(super) fn figures(&self) -> impl Fn() -> Figures + Send + 'static {
        let kept = self.0.clone();
        move || kept.lock().unwrap_or_else(PoisonError::into_inner).figures.clone()
    }

    /// Those that it tells of, in the order of their numbers.
    pub(super) fn listed(&self) -> Listed {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).listed.clone()
    }

    /// Takes in what is known now, by the numbers that --json counts from 0.
    pub(super) fn take(&self, family: &Family, stages: &Stages, is_whole: bool) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut kept.listed);
        let (mut listed, mut ids) = listed::listed(&stages.all, Some(family), is_whole, before);
        // Of more programs than this, the first are told: a loop may run thousands.
        listed.truncate(FIRST_KEPT);
        ids.truncate(FIRST_KEPT);
        kept.listed = (listed, ids);
        let Kept { figures: kept, listed: (listed, ids) } = &mut *kept;
        kept.stages = match is_whole {
            true => processes(ids, family, &kept.stages),
            false => started(&stages.all, listed, ids, family, &kept.stages),
        };
        let place = |id| listed::place(id, ids, family);
        let (mut unknown, mut is_told_of_all, mut known) = (Vec::new(), true, Vec::new());
        // Stages with pipes of their own, whose bytes they count too.
        let mut inner = Vec::new();
        let has_ended = stages.all.iter().all(|stage| stage.end.is_some());
        for joint in family.joints.values() {
            let (Some(from), Some(to)) = (place(joint.writer), place(joint.reader)) else {
                is_told_of_all = false;
                continue;
            };
            if from == to {
                inner.push(from);
                continue;
            }
            known.push((from + 1, to + 1));
            let pipe = kept.pipe(from + 1, to + 1);
            // A counter must neither go back nor be a guess, which nothing there would tell; nor what was seen
            // of programs before both ended unseen.
            let is_alive = |id| family.member(id).is_some_and(|member| member.alive);
            let is_over = has_ended || !(is_alive(joint.writer) || is_alive(joint.reader));
            let through = family.through(joint).agreed_bytes();
            let agreed = through.filter(|_| !stages.redirect(from, to));
            pipe.moved_bytes = pipe.moved_bytes.max(agreed);
            if is_over && (agreed.is_none() || family.is_at_least(joint)) {
                unknown.push((from + 1, to + 1));
            }
            let reads = family.member(joint.reader).is_some_and(|reader| reader.alive);
            pipe.fill_bytes = if reads { joint.fill_bytes } else { 0 };
            pipe.holds_bytes = joint.holds_bytes as u64;
        }
        // From a stage that was started to the next: what both count, if a pipe was seen there.
        for pair in stages.all.windows(2) {
            let ends = [&pair[0], &pair[1]].map(|stage| Some(family.started(stage.pid?)));
            let [Some(from), Some(to)] = ends.map(|id| id.and_then(place)) else { continue };
            let is_seen = known.contains(&(from + 1, to + 1)) && !stages.redirect(from, to);
            let counts = is_seen && ![from, to].iter().any(|place| inner.contains(place));
            let ends = ends[0].zip(ends[1]).filter(|_| counts);
            let through = ends.and_then(|(from, to)| family.between(from, to).agreed_bytes());
            known.push((from + 1, to + 1));
            let pipe = kept.pipe(from + 1, to + 1);
            pipe.moved_bytes = pipe.moved_bytes.max(through);
            // What the two count holds all that they started, whose pipes are their own.
            unknown.retain(|ends| through.is_none() || *ends != (from + 1, to + 1));
        }
        // A pipe may be between others by now, as where it is handed on; what they count is all that is left.
        for pipe in kept.pipes.iter_mut().filter(|it| !known.contains(&(it.from, it.to))) {
            let through =
                ids[pipe.from - 1].zip(ids[pipe.to - 1]).map(|(from, to)| family.between(from, to));
            pipe.moved_bytes = through.and_then(Through::agreed_bytes);
            pipe.fill_bytes = 0;
        }
        for (from, to) in unknown {
            kept.pipe(from, to).moved_bytes = None;
        }
        // All of it, or it is not known: where no pipe was seen there may have been some.
        let moved: Option<u64> = kept.pipes.iter().map(|pipe| pipe.moved_bytes).sum();
        let moved = moved.filter(|_| is_told_of_all && !kept.pipes.is_empty());
        kept.is_moved_unknown = moved.is_none();
        kept.routes = moved.map(|bytes| ("pipe", bytes)).into_iter().collect();
    }
}

/// The processes that a shell started, each in its place. Those that were forgotten stay as they were.
fn processes(ids: &[Option<Id>], family: &Family, before: &[StageFigures]) -> Vec<StageFigures> {
    let now = ids.iter().map(|id| process(family, (*id)?));
    let before = before.iter().cloned().map(Some).chain(std::iter::repeat(None));
    now.zip(before).filter_map(|(now, before)| now.or(before)).collect()
}

/// A process among the others that a shell started. What it moved is not known where it has waited for
/// any of them, which the kernel counts in.
fn process(family: &Family, id: Id) -> Option<StageFigures> {
    let now = &family.member(id)?.now;
    let moved = now.moved.filter(|_| !now.has_waited);
    Some(StageFigures {
        program: now.name.clone(),
        cpu_seconds: now.cpu_s(),
        read_and_written_bytes: moved.map(|moved| (moved.read_bytes, moved.written_bytes)),
    })
}

/// The stages that were started, each with all that it started. What was forgotten of these stays counted.
fn started(
    all: &[Started],
    listed: &[RanStage],
    ids: &[Option<Id>],
    family: &Family,
    before: &[StageFigures],
) -> Vec<StageFigures> {
    let mut cpu_s = vec![0.0; ids.len()];
    for member in &family.members {
        if let Some(place) = listed::place(member.id(), ids, family) {
            cpu_s[place] += member.now.cpu_s();
        }
    }
    let figures = |(place, (started, listed)): (usize, (&Started, &RanStage))| {
        let member = ids[place].and_then(|id| family.member(id));
        let first_word = || started.own_words.first().cloned().unwrap_or_default();
        let in_the_end = started.end.map(|_| started.cpu_s.0 + started.cpu_s.1);
        let before = before.get(place).map_or(0.0, |before| before.cpu_seconds);
        StageFigures {
            program: member.map_or_else(first_word, |member| member.now.name.clone()),
            cpu_seconds: in_the_end.unwrap_or(cpu_s[place]).max(before),
            read_and_written_bytes: listed.read_bytes.zip(listed.written_bytes),
        }
    };
    all.iter().zip(listed).enumerate().map(figures).collect()
}

impl Figures {
    /// The pipe between two places; several between the same two are told as one.
    fn pipe(&mut self, from: usize, to: usize) -> &mut PipeFigures {
        let known = self.pipes.iter().position(|pipe| (pipe.from, pipe.to) == (from, to));
        let place = known.unwrap_or_else(|| {
            self.pipes.push(PipeFigures { from, to, ..PipeFigures::default() });
            self.pipes.len() - 1
        });
        &mut self.pipes[place]
    }
}
