//! The processes below this one that it started, as far as /proc tells: not those that it had
//! before, as a script's that becomes `bytepath run` by exec.

use std::fs;

use rustix::process::{Pid, getpid};

use super::process::{self, Id};

/// More processes than this no kernel has (PID_MAX_LIMIT).
pub(super) const ALL: usize = 4 << 20;

/// Tells ours from those that were there before.
#[derive(Debug, Clone, Default)]
pub(super) struct Below {
    strangers: Vec<Id>,
}

impl Below {
    /// Notes who is there before anything is started. `None` where /proc tells nothing.
    pub(super) fn noted() -> Option<Below> {
        let mut strangers = Vec::new();
        let note = |pid, _| strangers.extend(Id::of(pid));
        process::can_be_seen().then(|| Below::default().each(ALL, note))?;
        Some(Below { strangers })
    }

    /// Visits each that is there now, whom before those that it started, and with whether it
    /// started any; so many at most. Who is below one is read right before the visit to that one,
    /// which may end it, and all of them are visited.
    pub(super) fn each(&self, most: usize, mut visit: impl FnMut(Pid, bool)) {
        let mut parents: Option<Vec<(Pid, Pid)>> = None;
        let mut children = |pid: Pid| {
            process::children(pid).unwrap_or_else(|| {
                let all = parents.get_or_insert_with(all_parents);
                all.iter().filter(|(_, parent)| *parent == pid).map(|(child, _)| *child).collect()
            })
        };
        let mut found = children(getpid());
        found.retain(|pid| !self.is_stranger(*pid));
        let mut at = 0;
        while at < found.len().min(most) {
            let below = children(found[at]);
            visit(found[at], !below.is_empty());
            found.extend(below);
            at += 1;
        }
    }

    fn is_stranger(&self, pid: Pid) -> bool {
        let has_number = |stranger: &Id| stranger.number == pid.as_raw_nonzero().get();
        self.strangers.iter().any(|it| has_number(it) && Id::of(pid) == Some(*it))
    }
}

/// Every process and its parent, where the kernel has no lists of children.
fn all_parents() -> Vec<(Pid, Pid)> {
    let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = pids.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?));
    pids.filter_map(|pid| Some((pid, process::parent(pid)?))).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    fn sleeps() -> Child {
        Command::new("sleep").arg("60").spawn().expect("sleep")
    }

    #[test]
    fn a_child_is_found_by_both_ways_but_none_that_was_there_before() {
        let mut before = sleeps();
        let noted = Below::noted().expect("/proc tells");
        let mut child = sleeps();
        let found = |below: &Below| {
            let mut found = Vec::new();
            below.each(ALL, |pid, has_children| found.push((pid, has_children)));
            found
        };
        let (parents, ours, all) = (all_parents(), found(&noted), found(&Below::default()));
        for child in [&mut child, &mut before] {
            child.kill().expect("it lives");
            child.wait().expect("it is ours");
        }
        let [child, before] = [&child, &before].map(Pid::from_child);
        assert!(parents.contains(&(child, getpid())) && ours.contains(&(child, false)));
        assert!(!ours.contains(&(before, false)) && all.contains(&(before, false)));
    }
}
