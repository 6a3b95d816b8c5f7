//! Where the time of an arm went, as its template is given it.

use askama::Template;

use crate::arm::Arm;
use crate::explained::{Explained, SymbolShare, SyscallCount};
use crate::numbers;

use super::Limits;
use super::text::{NAME_MAX, SENTENCE_MAX, shown};
use super::view::{Pair, Pairs, first, more_pairs};

/// Calls that are less than this share of all, by number and by time, are not named.
const RARE: f64 = 0.001;

#[derive(Template)]
#[template(path = "explained.html")]
pub(super) struct ExplainedArm {
    arm: usize,
    name: String,
    sentence: String,
    sampler: String,
    idle_seen: bool,
    classes: Vec<Class>,
    any_published: bool,
    unclaimed: Pairs,
    descriptor_calls: Pairs,
    counters: Pairs,
    syscalls: Vec<Syscall>,
    missing: Vec<String>,
    has_stacks: bool,
}

struct Class {
    name: String,
    share: String,
    interval: String,
    published: String,
}

struct Syscall {
    name: String,
    count: String,
    time: String,
}

pub(super) fn explained(arms: &[&Arm], limits: &Limits) -> Vec<ExplainedArm> {
    let with =
        arms.iter().enumerate().filter_map(|(at, arm)| Some((at, arm, arm.explained.as_ref()?)));
    with.map(|(at, arm, explained)| explained_arm(at, &arm.name, explained, limits)).collect()
}

fn explained_arm(arm: usize, name: &str, explained: &Explained, limits: &Limits) -> ExplainedArm {
    let percent = |share: f64| format!("{}%", numbers::figure(share * 100.0));
    let name_of = |text: &str| shown(text, NAME_MAX);
    let unknown = || numbers::UNKNOWN.to_owned();
    let others = |count: usize| numbers::counted(count as u64, "other");
    // Field by field, so that none is forgotten.
    let Explained {
        sentence,
        source,
        hz,
        samples,
        lost,
        seconds,
        cpus,
        classes,
        unclaimed,
        descriptor_calls,
        stacks,
        counters,
        syscalls,
        calls_traced,
        missing,
    } = explained;
    let lost = match lost {
        0 => String::new(),
        lost => format!(", {lost} lost"),
    };
    let shares = |all: &[SymbolShare]| Pairs {
        of: first(
            all,
            limits.details,
            |of| Pair { name: name_of(&of.symbol), value: percent(of.share) },
            |more| Pair {
                name: others(more),
                value: percent(all[limits.details..].iter().map(|of| of.share).sum()),
            },
        ),
    };
    ExplainedArm {
        arm,
        name: name_of(name),
        sentence: shown(sentence, SENTENCE_MAX),
        sampler: format!(
            "{}{lost} by {} at {} Hz, {} s",
            numbers::counted(*samples, "sample"),
            name_of(source),
            hz,
            numbers::figure(*seconds)
        ),
        idle_seen: !cpus.is_empty(),
        any_published: classes.iter().any(|class| class.published.is_some()),
        classes: first(
            classes,
            limits.classes,
            |class| Class {
                name: name_of(&class.name),
                share: percent(class.share),
                interval: format!("[{}, {}]", percent(class.ci95[0]), percent(class.ci95[1])),
                published: class.published.map_or_else(unknown, percent),
            },
            |more| Class {
                name: others(more),
                share: percent(classes[limits.classes..].iter().map(|of| of.share).sum()),
                interval: unknown(),
                published: unknown(),
            },
        ),
        unclaimed: shares(unclaimed),
        descriptor_calls: shares(descriptor_calls),
        counters: Pairs {
            of: first(
                counters,
                limits.details,
                |(name, value)| Pair { name: name_of(name), value: numbers::count(*value) },
                more_pairs,
            ),
        },
        syscalls: syscall_rows(syscalls, calls_traced.is_some(), limits),
        missing: first(
            missing,
            limits.details,
            |text| shown(text, SENTENCE_MAX),
            |more| format!("{more} more"),
        ),
        has_stacks: !stacks.is_empty(),
    }
}

/// Those that count, and one row for the rest: a program makes thirty calls just to begin. What is an estimate
/// is marked.
fn syscall_rows(calls: &[SyscallCount], is_estimate: bool, limits: &Limits) -> Vec<Syscall> {
    let about = if is_estimate { "~" } else { "" };
    let sum = |calls: &[SyscallCount]| {
        calls.iter().fold(0, |sum: u64, call| sum.saturating_add(call.count))
    };
    let time = |calls: &[SyscallCount]| -> Option<f64> {
        let known: Vec<f64> = calls.iter().filter_map(|call| call.seconds).collect();
        (!known.is_empty()).then(|| known.iter().sum())
    };
    let row = |name: String, calls: &[SyscallCount]| Syscall {
        name,
        count: format!("{about}{}", numbers::count(sum(calls) as f64)),
        time: time(calls).map_or_else(
            || numbers::UNKNOWN.into(),
            |time| format!("{about}{}", numbers::time(time)),
        ),
    };
    let (all, all_time) = (sum(calls), time(calls).unwrap_or(0.0));
    let counts = |call: &&SyscallCount| {
        let seconds = call.seconds.unwrap_or(0.0);
        call.count as f64 >= RARE * all as f64 || seconds > 0.0 && seconds >= RARE * all_time
    };
    let (shown_ones, rest): (Vec<_>, Vec<_>) = calls.iter().partition(counts);
    let (shown_ones, more) = shown_ones.split_at(shown_ones.len().min(limits.details));
    let rest: Vec<SyscallCount> = more.iter().copied().chain(rest).cloned().collect();
    let rows =
        shown_ones.iter().map(|call| row(shown(&call.name, NAME_MAX), std::slice::from_ref(*call)));
    let others = match &rest[..] {
        [] => None,
        [one] => Some(row(shown(&one.name, NAME_MAX), &rest)),
        _ => Some(row(format!("{} others", rest.len()), &rest)),
    };
    rows.chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(name: &str, count: u64, seconds: Option<f64>) -> SyscallCount {
        SyscallCount { name: name.to_owned(), count, seconds }
    }

    #[test]
    fn rare_calls_share_a_row_and_none_is_lost() {
        let limits = Limits { arms: 1, samples: 1, nodes: 1, classes: 1, details: 3 };
        let told = |calls: &[SyscallCount]| -> Vec<_> {
            let rows = syscall_rows(calls, false, &limits).into_iter();
            rows.map(|row| format!("{} {} {}", row.name, row.count, row.time)).collect()
        };
        let calls = [
            call("write", 20_000, Some(1.25)),
            call("read", 3, Some(0.5)),
            call("brk", 2, Some(0.000_135)),
            call("mmap", 1, Some(0.000_001)),
        ];
        let wanted = ["write 20.0k 1.25 s", "read 3 500 ms", "2 others 3 136 µs"];
        assert_eq!(told(&calls), wanted);
        assert_eq!(told(&calls[..3]), ["write 20.0k 1.25 s", "read 3 500 ms", "brk 2 135 µs"]);
        let estimate = &syscall_rows(&calls, true, &limits)[0];
        assert_eq!((&*estimate.count, &*estimate.time), ("~20.0k", "~1.25 s"));
        let many: Vec<_> = (0..9).map(|at| call(&format!("c{at}"), 10, None)).collect();
        assert_eq!(told(&many), ["c0 10 –", "c1 10 –", "c2 10 –", "6 others 60 –"]);
        assert!(told(&[]).is_empty());
        let most: Vec<_> = (0..9).map(|at| call(&format!("c{at}"), u64::MAX, None)).collect();
        assert_eq!(told(&most).len(), 4);
    }
}
