//! `--metrics`: the programs and pipes of a run in figures, as they were at the last look.

use std::sync::{Arc, Mutex, PoisonError};

use super::family::{FIRST_KEPT, Family, Through};
use super::stages::{Stages, Started};
use crate::metrics::{Figures, PipeFigures, StageFigures};

/// What the last look saw.
#[derive(Default)]
pub(super) struct Measured(Arc<Mutex<Figures>>);

impl Measured {
    /// Tells it at any time.
    pub(super) fn figures(&self) -> impl Fn() -> Figures + Send + 'static {
        let kept = self.0.clone();
        move || kept.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Takes in what is known now, of stages that ended by their ends.
    pub(super) fn take(&self, family: &Family, stages: &Stages) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Of more programs than this, the first are told: a loop may run thousands.
        let members = || family.members.iter().take(FIRST_KEPT);
        let ended_cpu_s = |pid| {
            let stage = stages.all.iter().find(|stage| stage.pid == Some(pid))?;
            stage.end.map(|_| stage.cpu_s.0 + stage.cpu_s.1)
        };
        kept.stages = members()
            .map(|member| StageFigures {
                program: member.now.name.clone(),
                cpu_seconds: ended_cpu_s(member.pid).unwrap_or(member.now.cpu_s()),
                read_and_written_bytes: member
                    .now
                    .moved
                    .map(|moved| (moved.read_bytes, moved.written_bytes)),
            })
            .collect();
        let (mut unknown, mut is_told_of_all, mut known) = (Vec::new(), true, Vec::new());
        let has_ended = stages.all.iter().all(|stage| stage.end.is_some());
        for joint in family.joints.values() {
            let place = |pid| members().position(|member| member.pid == pid);
            let (Some(from), Some(to)) = (place(joint.writer), place(joint.reader)) else {
                is_told_of_all = false;
                continue;
            };
            known.push((from + 1, to + 1));
            let pipe = kept.pipe(from + 1, to + 1);
            // A counter must neither go back nor be a guess, which nothing there would tell; nor what was seen
            // of programs before both ended unseen.
            let is_alive = |pid| family.member(pid).is_some_and(|member| member.alive);
            let is_over = has_ended || !(is_alive(joint.writer) || is_alive(joint.reader));
            let agreed = family.through(joint).agreed_bytes();
            pipe.moved_bytes = pipe.moved_bytes.max(agreed);
            if is_over && (agreed.is_none() || family.is_at_least(joint)) {
                unknown.push((from + 1, to + 1));
            }
            let reads = family.member(joint.reader).is_some_and(|reader| reader.alive);
            pipe.fill_bytes = if reads { joint.fill_bytes } else { 0 };
            pipe.holds_bytes = joint.holds_bytes as u64;
        }
        // Those that nobody saw: from a stage that was started to the next.
        for pair in stages.all.windows(2) {
            let place =
                |stage: &Started| members().position(|member| Some(member.pid) == stage.pid);
            let (Some(from), Some(to)) = (place(&pair[0]), place(&pair[1])) else { continue };
            let through = pair[0]
                .pid
                .zip(pair[1].pid)
                .and_then(|(from, to)| family.between(from, to).agreed_bytes());
            known.push((from + 1, to + 1));
            let pipe = kept.pipe(from + 1, to + 1);
            pipe.moved_bytes = pipe.moved_bytes.max(through);
        }
        // A pipe may be between others by now, as where it is handed on; what they count is all that is left.
        for pipe in kept.pipes.iter_mut().filter(|it| !known.contains(&(it.from, it.to))) {
            let pid = |place: usize| members().nth(place - 1).map(|member| member.pid);
            let through =
                pid(pipe.from).zip(pid(pipe.to)).map(|(from, to)| family.between(from, to));
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
