//! Stacks in one line each, folded, as flame graphs are made from: root first, joined by `;`, with
//! the number of samples behind.

use std::collections::BTreeMap;

use bytepath_report::Stack as Kept;

use crate::profile::{KERNEL_MARK, Part, Profile, Stack, Symbol, Thread};

/// A record keeps at most so much text of stacks for an arm.
const KEPT_BYTES_MAX: usize = 200 << 10;

/// And beside it at most so much of stacks that were merged thread by thread.
const MERGED_BYTES_MAX: usize = 50 << 10;

/// What stands for stacks that were merged.
pub(crate) const RARE: &str = "[rare]";

/// A function as a frame of a folded stack.
pub(crate) fn frame(symbol: &Symbol) -> String {
    match symbol.is_kernel {
        true => format!("{}{KERNEL_MARK}", symbol.name),
        false => symbol.name.clone(),
    }
}

/// A stack in one line, without its count.
fn line(profile: &Profile, stack: &Stack) -> String {
    let mut text = profile.thread_of(stack).name.clone();
    for symbol in profile.symbols_of(stack) {
        text.push(';');
        text.push_str(&frame(symbol));
    }
    text
}

/// All stacks with their counts, each once, most frequent first.
pub fn all(profile: &Profile) -> Vec<Kept> {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for (stack, count) in
        profile.stacks.iter().zip(&profile.counts).filter(|(_, count)| **count > 0)
    {
        *counts.entry(line(profile, stack)).or_default() += count;
    }
    sorted(counts)
}

fn sorted(counts: BTreeMap<String, u64>) -> Vec<Kept> {
    let kept = |(frames, count)| Kept { frames, count };
    let mut stacks: Vec<Kept> = counts.into_iter().map(kept).collect();
    stacks.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.frames.cmp(&b.frames)));
    stacks
}

/// What stands for a thread where threads have too many names: one of the same part as it.
fn any_like(thread: &Thread) -> &str {
    match thread.part {
        Part::Work => "other threads",
        Part::Kernel => "[other threads]",
        Part::Idle | Part::Others => &thread.name,
    }
}

/// As [`all`], with what is rare merged by thread and class, and by class alone where threads have many
/// names, so that it stays small whatever ran.
pub(crate) fn bounded(profile: &Profile, classes: &[&str]) -> Vec<Kept> {
    let mut lines: Vec<(String, u64, [String; 2])> = Vec::new();
    for (number, stack) in profile.stacks.iter().enumerate() {
        if profile.counts[number] > 0 {
            let thread = profile.thread_of(stack);
            let merged = [&thread.name, any_like(thread)]
                .map(|name| format!("{name};{RARE};{}", classes[number]));
            lines.push((line(profile, stack), profile.counts[number], merged));
        }
    }
    lines.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let (mut counts, mut bytes, mut merged_bytes) = (BTreeMap::<String, u64>::new(), 0, 0);
    for (line, count, [of_thread, of_any]) in lines {
        bytes += line.len();
        let kept = if bytes <= KEPT_BYTES_MAX {
            line
        } else if counts.contains_key(&of_thread) {
            of_thread
        } else {
            merged_bytes += of_thread.len();
            if merged_bytes <= MERGED_BYTES_MAX { of_thread } else { of_any }
        };
        *counts.entry(kept).or_default() += count;
    }
    sorted(counts)
}

/// The lines of a file of folded stacks.
pub fn text(stacks: &[Kept]) -> String {
    stacks.iter().map(|stack| format!("{} {}\n", stack.frames, stack.count)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::Classes;
    use crate::profile::OTHERS;

    #[test]
    fn what_is_folded_unfolds_to_the_same() {
        let stacks = [("a;main;write_[k]", 7), ("a;main", 3), ("idle;do_idle_[k]", 1)];
        let profile = Profile::from_folded(stacks);
        let lines: Vec<(String, u64)> =
            all(&profile).into_iter().map(|stack| (stack.frames, stack.count)).collect();
        let expected: Vec<_> =
            stacks.iter().map(|(frames, count)| ((*frames).to_owned(), *count)).collect();
        assert_eq!(lines, expected);
        assert_eq!(text(&all(&profile)).lines().next(), Some("a;main;write_[k] 7"));
    }

    #[test]
    fn however_many_stacks_there_are_a_record_keeps_little_and_loses_no_sample() {
        let lines: Vec<String> = (0..20_000)
            .map(|number| format!("thread;main;function_{number:080};pipe_write_[k]"))
            .collect();
        let profile = Profile::from_folded(lines.iter().map(|line| (line.as_str(), 2)));
        let kept = bounded(&profile, &Classes::built_in().of_all(&profile));
        let bytes: usize = kept.iter().map(|stack| stack.frames.len()).sum();
        assert!(bytes < KEPT_BYTES_MAX + 1000, "{bytes} bytes");
        assert_eq!(kept.iter().map(|stack| stack.count).sum::<u64>(), 40_000);
        assert_eq!(kept[0].frames, "thread;[rare];pipes and splice");
    }

    #[test]
    fn however_many_names_threads_have_a_record_keeps_little_and_each_sample_its_class_and_part() {
        let of = |number: usize| match number % 3 {
            0 => format!("w-{number};main;pipe_write_[k]"),
            1 => format!("[kworker/{number}:1];kthread_[k];pipe_write_[k]"),
            _ => format!("w-{number};main"),
        };
        let mut lines: Vec<String> = (0..60_000).map(of).collect();
        lines.extend(["idle;do_idle_[k]".to_owned(), OTHERS.to_owned()]);
        let profile = Profile::from_folded(lines.iter().map(|line| (line.as_str(), 1)));
        let kept = bounded(&profile, &Classes::built_in().of_all(&profile));
        let bytes: usize = kept.iter().map(|stack| stack.frames.len()).sum();
        assert!(bytes < KEPT_BYTES_MAX + MERGED_BYTES_MAX + 1000, "{bytes} bytes");
        let again = kept.iter().map(|stack| (stack.frames.as_str(), stack.count));
        let sums = |profile: &Profile| {
            let mut sums = std::collections::HashMap::<_, u64>::new();
            let classes = Classes::built_in().of_all(profile);
            for (number, stack) in profile.stacks.iter().enumerate() {
                let of = (classes[number].to_owned(), profile.thread_of(stack).part);
                *sums.entry(of).or_default() += profile.counts[number];
            }
            sums
        };
        assert_eq!(sums(&Profile::from_folded(again)), sums(&profile));
    }
}
