//! What the kernel keeps count of for everybody: switches and faults of children that have ended, and
//! of processes that run. For those who may not have events of their own.

use std::collections::BTreeMap;

use nix::sys::resource::{UsageWho, getrusage};

use crate::Whom;
use crate::counters::name;
use crate::world::{Stat, text, threads_of, with_descendants};

/// The counts so far, by the names of counters.
pub(crate) fn so_far(whom: Whom) -> BTreeMap<&'static str, f64> {
    match whom {
        Whom::Started => of_children(),
        Whom::Process(pid) => of_process(pid),
    }
}

/// Those of children count once somebody has waited for them.
fn of_children() -> BTreeMap<&'static str, f64> {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return BTreeMap::new() };
    let switches = usage.voluntary_context_switches() + usage.involuntary_context_switches();
    BTreeMap::from([
        (name::SWITCHES, switches as f64),
        (name::SWITCHES_VOLUNTARY, usage.voluntary_context_switches() as f64),
        (name::SWITCHES_INVOLUNTARY, usage.involuntary_context_switches() as f64),
        (name::FAULTS_MINOR, usage.minor_page_faults() as f64),
        (name::FAULTS_MAJOR, usage.major_page_faults() as f64),
    ])
}

fn of_process(pid: u32) -> BTreeMap<&'static str, f64> {
    let mut counts = BTreeMap::new();
    let mut add = |name, count: Option<f64>| {
        if let Some(count) = count {
            *counts.entry(name).or_insert(0.0) += count;
        }
    };
    for pid in with_descendants(pid) {
        let stat = Stat::of(&pid.to_string());
        add(name::FAULTS_MINOR, stat.number(7).map(|count| count as f64));
        add(name::FAULTS_MAJOR, stat.number(9).map(|count| count as f64));
        for tid in threads_of(pid) {
            let status = text(&format!("/proc/{pid}/task/{tid}/status"));
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name))?;
                line.trim_start_matches(':').trim().parse().ok()
            };
            let voluntary: Option<f64> = field("voluntary_ctxt_switches");
            let involuntary: Option<f64> = field("nonvoluntary_ctxt_switches");
            add(name::SWITCHES, voluntary.zip(involuntary).map(|(one, other)| one + other));
            add(name::SWITCHES_VOLUNTARY, voluntary);
            add(name::SWITCHES_INVOLUNTARY, involuntary);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_that_has_ended_has_left_its_faults() {
        let before = so_far(Whom::Started)[name::FAULTS_MINOR];
        let ended = std::process::Command::new("true").status().expect("true is everywhere");
        assert!(ended.success());
        assert!(so_far(Whom::Started)[name::FAULTS_MINOR] > before);
    }

    #[test]
    fn this_process_has_faults_and_switches() {
        let counts = so_far(Whom::Process(std::process::id()));
        assert!(counts[name::FAULTS_MINOR] > 0.0, "{counts:?}");
        assert!(counts.contains_key(name::SWITCHES_VOLUNTARY), "{counts:?}");
    }
}
