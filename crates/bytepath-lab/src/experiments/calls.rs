//! `calls`: what batching on a ring saves, operation by operation.

use std::collections::BTreeMap;
use std::path::Path;

use bytepath_report::{Arm as ShownArm, Record, Status, Unit, Verdict};

use super::Description;
use crate::arm::{Arm, Work};
use crate::call_work::CallWork;
use crate::calls::{Operation, Way};

/// What it asks.
pub const DESCRIPTION: Description = Description {
    name: "calls",
    question: "What does batching on a ring save against one system call per operation?",
    definition: "One process on one CPU does one operation again and again: by a system call \
                 each, or in batches on a ring, where one call hands a batch over and waits until \
                 all of it is answered. What an operation needs is made between rounds of 128, \
                 outside the clock. Every answer is checked. open-close takes two calls, or two \
                 calls per batch; cancel begins a wait and calls it off, by epoll_ctl or by two \
                 requests; timeout is 1 µs; on a ring the kernel leaves statx and fallocate to \
                 threads of its own, which the switches show; a ring's times include those of bytepath's own ring, \
                 which owns the memory of every request.",
};

/// The arm of each operation that the others are compared with.
pub const SYSCALL: &str = "syscall";

/// The sizes of batches unless told otherwise.
pub const BATCHES: &[u32] = &[1, 8, 32, 128];

/// Where and what is measured.
pub struct Setup<'a> {
    /// The `bytepath` executable.
    pub program: &'a Path,
    /// Where files are made.
    pub directory: &'a Path,
    /// The CPU that processes run on.
    pub cpu: usize,
}

/// The arms of these operations: by a system call each, and in batches of these sizes.
pub fn arms(operations: &[Operation], batches: &[u32], setup: &Setup<'_>) -> Vec<Arm> {
    let mut arms = Vec::new();
    for &operation in operations {
        arms.push(arm(operation, Way::Syscall, setup));
        for &batch in batches {
            for registered in
                [false, true].into_iter().take(1 + usize::from(operation.takes_file()))
            {
                arms.push(arm(operation, Way::Batch { operations: batch, registered }, setup));
            }
        }
    }
    arms
}

fn arm(operation: Operation, way: Way, setup: &Setup<'_>) -> Arm {
    let mut params = BTreeMap::from([("operation".to_owned(), operation.name().into())]);
    match way {
        Way::Syscall => {
            params.insert("syscalls".to_owned(), operation.syscalls().into());
        }
        Way::Batch { operations, registered } => {
            params.insert("batch".to_owned(), operations.into());
            params.insert("registered_files".to_owned(), registered.into());
        }
    }
    let work = CallWork {
        program: setup.program.to_owned(),
        operation,
        way,
        directory: setup.directory.to_owned(),
        cpu: [setup.cpu],
    };
    Arm {
        name: format!("{}/{}", operation.name(), way_name(way)),
        section: Some(operation.name().to_owned()),
        params,
        unit: Unit::Nanoseconds,
        touched: false,
        published: None,
        work: Ok(Box::new(work) as Box<dyn Work>),
    }
}

fn way_name(way: Way) -> String {
    match way {
        Way::Syscall => SYSCALL.to_owned(),
        Way::Batch { operations, registered: false } => format!("ring-{operations}"),
        Way::Batch { operations, registered: true } => format!("ring-{operations}+registered"),
    }
}

/// One sentence on what batching saves here, and where that is undecided; none where there is nothing
/// to compare.
pub fn saves(record: &Record) -> Option<String> {
    let best = best_of_sections(record);
    if best.is_empty() {
        return None;
    }
    let faster: Vec<_> = best.iter().copied().filter(|arm| gains(arm)).collect();
    let (undecided, lost): (Vec<&ShownArm>, Vec<&ShownArm>) =
        best.iter().filter(|arm| !gains(arm)).partition(|arm| is_undecided(record, section(arm)));
    let told = match by_ratio(&faster) {
        Some((most, least)) if faster.len() > 1 => Some(format!(
            "batches save most on {} ({} takes {} of the time of system calls) and least on {} \
             ({}: {})",
            section(most),
            way_of(most),
            share(most),
            section(least),
            way_of(least),
            share(least)
        )),
        Some((only, _)) => Some(format!(
            "batches save time on {} ({} takes {} of the time of system calls)",
            section(only),
            way_of(only),
            share(only)
        )),
        None => None,
    };
    let mut parts: Vec<String> = told.into_iter().collect();
    match (lost.len(), lost.len() == best.len()) {
        (0, _) => {}
        (_, true) => parts.push("no batch is faster than system calls".to_owned()),
        (_, false) => {
            let they = if parts.is_empty() { "batches" } else { "they" };
            parts.push(format!("{they} save nothing on {}", sections(&lost)));
        }
    }
    match (undecided.len(), undecided.len() == best.len()) {
        (0, _) => {}
        (_, true) => parts.push(none_surely_faster(record)),
        (_, false) => parts.push(format!("undecided: {}", sections(&undecided))),
    }
    Some(format!("Here {}", parts.join("; ")))
}

/// Whether a batch is surely faster than the system call.
fn gains(arm: &ShownArm) -> bool {
    arm.ratio_ci95.is_some_and(|[_, high]| high < 1.0)
}

/// Whether some batch of a section may be faster, and may not.
fn is_undecided(record: &Record, name: &str) -> bool {
    let of_section = |arm: &&ShownArm| section(arm) == name && is_compared(record, arm);
    record.arms.iter().filter(of_section).any(may_gain)
}

fn may_gain(arm: &ShownArm) -> bool {
    let decided = matches!(arm.verdict, Some(Verdict::Slower | Verdict::Same));
    !decided && arm.ratio_ci95.is_none_or(|[low, _]| low < 1.0)
}

/// What is said where every operation has a batch that may be faster, and may not.
fn none_surely_faster(record: &Record) -> String {
    let compared = || record.arms.iter().filter(|arm| is_compared(record, arm));
    if compared().all(may_gain) {
        return "nothing can be said of batches: the intervals of all operations hold faster and \
                slower"
            .to_owned();
    }
    let mut slower: Vec<(&str, Vec<&str>)> = Vec::new();
    for arm in compared().filter(|arm| arm.verdict == Some(Verdict::Slower)) {
        match slower.last_mut().filter(|(of, _)| *of == section(arm)) {
            Some((_, ways)) => ways.push(way_of(arm)),
            None => slower.push((section(arm), vec![way_of(arm)])),
        }
    }
    let of = |(of, ways): &(&str, Vec<&str>)| format!("{of} ({})", ways.join(", "));
    let slower: Vec<_> = slower.iter().map(of).collect();
    match slower.is_empty() {
        true => "no batch is surely faster".to_owned(),
        false => format!("no batch is surely faster; slower: {}", slower.join(", ")),
    }
}

/// Of each section the arm of the ring that took least, of those that are surely faster where there is
/// one, where there is a system call to compare.
fn best_of_sections(record: &Record) -> Vec<&ShownArm> {
    let mut best: Vec<&ShownArm> = Vec::new();
    let better = |arm: &ShownArm, than: &ShownArm| match (gains(arm), gains(than)) {
        (true, false) => true,
        (false, true) => false,
        _ => arm.ratio < than.ratio,
    };
    for arm in record.arms.iter().filter(|arm| is_compared(record, arm)) {
        match best.iter_mut().find(|known| known.section == arm.section) {
            Some(known) if better(arm, known) => *known = arm,
            Some(_) => {}
            None => best.push(arm),
        }
    }
    best
}

fn is_compared(record: &Record, arm: &ShownArm) -> bool {
    arm.status == Status::Ok && !arm.reference && arm.ratio.is_some() && has_syscall(record, arm)
}

fn has_syscall(record: &Record, arm: &ShownArm) -> bool {
    let reference =
        record.arms.iter().find(|other| other.reference && other.section == arm.section);
    reference.is_some_and(|reference| reference.name.ends_with(SYSCALL))
}

/// The arms with the lowest and the highest ratio.
fn by_ratio<'a>(arms: &[&'a ShownArm]) -> Option<(&'a ShownArm, &'a ShownArm)> {
    let order = |a: &&&ShownArm, b: &&&ShownArm| a.ratio.partial_cmp(&b.ratio).expect("finite");
    Some((arms.iter().min_by(order)?, arms.iter().max_by(order)?))
}

fn section(arm: &ShownArm) -> &str {
    arm.section.as_deref().unwrap_or_default()
}

fn sections(arms: &[&ShownArm]) -> String {
    arms.iter().map(|arm| section(arm)).collect::<Vec<_>>().join(", ")
}

fn way_of(arm: &ShownArm) -> &str {
    arm.name.split_once('/').map_or(arm.name.as_str(), |(_, way)| way)
}

fn share(arm: &ShownArm) -> String {
    format!("{:.0}%", arm.ratio.unwrap_or(1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::record_of;

    /// A record of these batches: operation, way, ratio and its interval.
    fn record(batches: &[(&str, &str, f64, [f64; 2], Verdict)]) -> Record {
        let mut arms = Vec::new();
        for (operation, way, ratio, ci95, verdict) in batches {
            let arm = |name: &str| ShownArm {
                section: Some((*operation).to_owned()),
                ..ShownArm::new(format!("{operation}/{name}"), Unit::Nanoseconds)
            };
            arms.push(ShownArm { reference: true, ..arm(SYSCALL) });
            arms.push(ShownArm {
                ratio: Some(*ratio),
                ratio_ci95: Some(*ci95),
                verdict: Some(*verdict),
                ..arm(way)
            });
        }
        record_of(arms)
    }

    #[test]
    fn what_is_undecided_is_not_said_to_save_nothing() {
        use Verdict::{Faster, Same, Slower, Undecided};
        let nop = ("nop", "ring-8", 0.4, [0.3, 0.5], Faster);
        let read = ("read", "ring-8", 0.9, [0.04, 5.0], Undecided);
        let statx = ("statx", "ring-8", 3.0, [2.0, 4.0], Slower);
        let poll = ("poll", "ring-8", 1.0, [0.99, 1.01], Same);
        let said = |batches: &[_]| saves(&record(batches)).expect("a sentence");
        let text = said(&[nop, read, statx, poll]);
        assert!(text.starts_with("Here batches save time on nop (ring-8 takes 40%"), "{text}");
        assert!(text.ends_with("; they save nothing on statx, poll; undecided: read"), "{text}");
        let text = said(&[read, ("send", "ring-8", 1.4, [0.5, 2.0], Undecided)]);
        assert!(text.starts_with("Here nothing can be said of batches"), "{text}");
        // One that is undecided leaves the others of its operation what they are.
        let slow = |way| ("read", way, 3.0, [2.0, 4.0], Slower);
        let text =
            said(&[slow("ring-1"), slow("ring-8"), ("read", "ring-32", 0.9, read.3, Undecided)]);
        assert_eq!(text, "Here no batch is surely faster; slower: read (ring-1, ring-8)");
        let text = said(&[("read", "ring-1", 1.0, poll.3, Same), read]);
        assert_eq!(text, "Here no batch is surely faster");
        assert_eq!(said(&[statx, read]), "Here batches save nothing on statx; undecided: read");
        assert_eq!(said(&[statx, poll]), "Here no batch is faster than system calls");
        // A batch that surely saves tells more than one whose figure is lower and may be anything.
        let text = said(&[nop, ("nop", "ring-32", 0.3, [0.1, 4.0], Undecided)]);
        assert_eq!(
            text,
            "Here batches save time on nop (ring-8 takes 40% of the time of system calls)"
        );
    }
}
