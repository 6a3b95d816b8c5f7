//! Samples for the Firefox Profiler (profiler.firefox.com): its "processed profile" as JSON, which is
//! opened in the browser and stays there.

use std::collections::HashMap;
use std::time::SystemTime;

use fxprof_processed_profile::{
    CategoryColor, CpuDelta, Frame, FrameFlags, FrameInfo, Profile as Processed,
    ReferenceTimestamp, SamplingInterval, ThreadHandle, Timestamp,
};

use crate::profile::{Moment, Part, Profile, Thread};

/// The profile of some work, by its name. `hz` samples were taken a second.
///
/// # Errors
/// It cannot be written as JSON, which would be a bug.
pub fn json(name: &str, hz: u32, profile: &Profile) -> Result<Vec<u8>, serde_json::Error> {
    let interval = SamplingInterval::from_hz(hz.max(1) as f32);
    let now = ReferenceTimestamp::from(SystemTime::now());
    let mut made = Processed::new(name, now, interval);
    made.set_symbolicated(true);
    let kernel = made.add_category("Kernel", CategoryColor::Orange);
    let user = made.add_category("User", CategoryColor::Yellow);
    // By this name the profiler knows what it leaves out of what ran.
    let idle = made.add_category("Idle", CategoryColor::Transparent);
    let start_ns = profile.moments.first().map_or(0, |moment| moment.time_ns);
    let start = Timestamp::from_nanos_since_reference(0);
    let mut processes = HashMap::new();
    let mut threads: HashMap<_, ThreadHandle> = HashMap::new();
    let names = last_names(&profile.threads);
    let weight = CpuDelta::from_nanos(interval.nanos());
    for (moment, count) in samples(profile, interval.nanos()) {
        let stack = &profile.stacks[moment.stack as usize];
        let of = profile.thread_of(stack);
        let (of_process, of_thread) = (identity(of.pid, of), identity(of.tid, of));
        let name = |identity| names.get(&identity).map_or(of.name.as_str(), |name| *name);
        let thread = *threads.entry(of_thread).or_insert_with(|| {
            let process = *processes
                .entry(of_process)
                .or_insert_with(|| made.add_process(name(of_process), of.pid, start));
            let thread = made.add_thread(process, of.tid, start, of.pid == of.tid);
            made.set_thread_name(thread, name(of_thread));
            thread
        });
        let frames: Vec<FrameInfo> = profile
            .symbols_of(stack)
            .map(|symbol| FrameInfo {
                frame: Frame::Label(made.intern_string(&symbol.name)),
                category_pair: match (of.part, symbol.is_kernel) {
                    (Part::Idle, _) => idle,
                    (_, true) => kernel,
                    (_, false) => user,
                }
                .into(),
                flags: FrameFlags::empty(),
            })
            .collect();
        let stack = made.intern_stack_frames(thread, frames.into_iter());
        let time = Timestamp::from_nanos_since_reference(moment.time_ns.saturating_sub(start_ns));
        let ran = if of.part == Part::Idle { CpuDelta::ZERO } else { weight };
        made.add_sample(thread, time, stack, ran, count);
    }
    serde_json::to_vec(&made)
}

/// What tells processes and threads apart: their numbers, and where they have none, the names of idle time,
/// of other programs, and of whatever comes from a record.
fn identity(number: u32, of: &Thread) -> (u32, &str) {
    (number, if of.pid == 0 { &of.name } else { "" })
}

/// What every thread was called in the end: a program is started by a thread that has another's name.
fn last_names(threads: &[Thread]) -> HashMap<(u32, &str), &str> {
    threads.iter().map(|of| (identity(of.tid, of), of.name.as_str())).collect()
}

/// The samples in the order of their times; where only counts are known, as in a record, all of a
/// stack at once.
fn samples(profile: &Profile, interval_ns: u64) -> Vec<(Moment, i32)> {
    if !profile.moments.is_empty() {
        return profile.moments.iter().map(|moment| (*moment, 1)).collect();
    }
    let mut time_ns = 0;
    let stacks = (0_u32..).zip(&profile.counts).filter(|(_, count)| **count > 0);
    stacks
        .map(|(stack, count)| {
            let moment = Moment { time_ns, stack };
            time_ns += count * interval_ns;
            (moment, i32::try_from(*count).unwrap_or(i32::MAX))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn every_sample_is_in_it_with_its_functions() {
        let stacks = [("a;main;write_[k]", 2), ("idle;do_idle_[k]", 1), ("other programs;x", 1)];
        let mut profile = Profile::from_folded(stacks);
        profile.moments = [(10, 0), (20, 1), (30, 0), (40, 2)]
            .map(|(time_ns, stack)| Moment { time_ns, stack })
            .to_vec();
        let text = json("work", 999, &profile).expect("it is JSON");
        let value: Value = serde_json::from_slice(&text).expect("it parses");
        assert_eq!(value["meta"]["product"], "work");
        let threads = value["threads"].as_array().expect("it has threads");
        let told = |thread: &Value| {
            let samples = thread["samples"]["length"].as_u64().expect("it has samples");
            let frame = thread["frameTable"]["category"].as_array().and_then(|all| all.last());
            let frame = frame.and_then(Value::as_u64).expect("a category") as usize;
            let category = value["meta"]["categories"][frame]["name"].as_str();
            let words = [thread["name"].as_str(), thread["processName"].as_str(), category];
            (words.map(|word| word.expect("text").to_owned()), samples)
        };
        let found: Vec<_> = threads.iter().map(told).collect();
        let wanted = [
            (["a", "a", "Kernel"], 2),
            (["idle", "idle", "Idle"], 1),
            (["other programs", "other programs", "User"], 1),
        ];
        assert_eq!(found, wanted.map(|(words, samples)| (words.map(str::to_owned), samples)));
        let text = String::from_utf8(text).expect("UTF-8");
        assert!(text.contains("\"write\"") && text.contains("\"do_idle\""), "{text}");
    }

    #[test]
    fn a_thread_has_the_name_of_the_program_that_it_became() {
        let mut profile = Profile::from_folded([("sh;main", 1), ("gzip;deflate", 2)]);
        for thread in &mut profile.threads {
            (thread.pid, thread.tid) = (7, 7);
        }
        let text = json("work", 999, &profile).expect("it is JSON");
        let value: Value = serde_json::from_slice(&text).expect("it parses");
        let threads = value["threads"].as_array().expect("it has threads");
        assert_eq!(threads.len(), 1);
        assert_eq!(threads[0]["processName"], "gzip");
        assert_eq!(
            threads[0]["samples"]["length"], 2,
            "one for each stack, as moments are unknown"
        );
    }
}
