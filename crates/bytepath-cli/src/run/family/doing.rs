//! What each member does, and for how long it did what.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Joint, Member};
use crate::run::process::Reading;

/// What a process does at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::run) enum Doing {
    Runs,
    WaitsForCpu,
    WaitsForInput,
    WaitsForOutput,
    WaitsForDisk,
    #[default]
    Other,
}

impl Doing {
    /// Whether it runs, or would.
    fn is_awake(self) -> bool {
        matches!(self, Doing::Runs | Doing::WaitsForCpu)
    }

    pub(in crate::run) fn said(self) -> &'static str {
        match self {
            Doing::Runs => "runs",
            Doing::WaitsForCpu => "waits for CPU",
            Doing::WaitsForInput => "waits for input",
            Doing::WaitsForOutput => "waits for output",
            Doing::WaitsForDisk => "waits for disk",
            Doing::Other => "waits",
        }
    }
}

impl Member {
    /// Whether it waited for most of the time, and for none of its pipes and files.
    pub(in crate::run) fn only_waits(&self) -> bool {
        self.times.get(&Doing::Other).is_some_and(|other| *other * 2 > self.seen_for())
    }

    /// For how long it was seen, but for when it was stopped.
    pub(in crate::run) fn seen_for(&self) -> Duration {
        self.times.values().sum()
    }

    /// Since the look before it ran and waited for a CPU for as long as the kernel tells, and slept
    /// otherwise. Where that is not told, or of several threads, what was seen at either end of the
    /// time counts for half of it.
    pub(super) fn spent(&mut self, window: Duration, before: Doing) {
        let before = if self.looks == 0 || self.before.is_stopped() { self.doing } else { before };
        let asleep = [before, self.doing].into_iter().rfind(|end| !end.is_awake());
        self.slept = asleep.or(self.slept);
        if self.looks == 0 {
            *self.times.entry(self.doing).or_default() += window.min(self.now.age);
            return;
        }
        let (mut ends, mut left) = ([before, self.doing], window);
        if self.now.is_exact() && self.before.is_exact() {
            let gained = |of: fn(&Reading) -> u64| {
                Duration::from_nanos(of(&self.now).saturating_sub(of(&self.before)))
            };
            let ran = gained(|reading| reading.run_ns);
            let waited = gained(|reading| reading.wait_ns);
            for (doing, time) in [(Doing::Runs, ran), (Doing::WaitsForCpu, waited)] {
                // A wait is told when it is over, and may be longer.
                let time = time.min(left);
                *self.times.entry(doing).or_default() += time;
                left -= time;
            }
            // Who has not run does what it did.
            let slept = self.slept.filter(|_| !(ran.is_zero() && before.is_awake()));
            let asleep = slept.unwrap_or(Doing::WaitsForCpu);
            ends = if ran.is_zero() { [before; 2] } else { ends };
            ends = ends.map(|end| if end.is_awake() { asleep } else { end });
        }
        for end in ends {
            *self.times.entry(end).or_default() += left / 2;
        }
    }

    /// What it does at this moment.
    pub(super) fn done_now(&self, joints: &BTreeMap<u64, Joint>) -> Doing {
        let gained = |of: fn(&Reading) -> u64| of(&self.now).saturating_sub(of(&self.before));
        match self.now.state {
            // The kernel has one letter for both, and tells how long it did either.
            'R' if gained(|reading| reading.wait_ns) > gained(|reading| reading.run_ns) => {
                return Doing::WaitsForCpu;
            }
            'R' => return Doing::Runs,
            'D' => return Doing::WaitsForDisk,
            'S' => {}
            _ => return Doing::Other,
        }
        let place = self.sleeps_in.as_deref().unwrap_or_default();
        let starved =
            || joints.values().any(|joint| joint.reader == self.id() && joint.fill_bytes == 0);
        let held_up = || joints.values().any(|joint| joint.writer == self.id() && joint.is_full());
        match () {
            () if place.contains("pipe_read") => Doing::WaitsForInput,
            () if place.contains("pipe_write") => Doing::WaitsForOutput,
            () if held_up() => Doing::WaitsForOutput,
            () if starved() => Doing::WaitsForInput,
            () => Doing::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::process::getpid;

    use super::*;

    #[test]
    fn who_waited_longer_for_a_cpu_than_it_ran_waits_for_one() {
        let reading = Reading::of(getpid()).expect("ours");
        let mut member = Member::new(getpid(), Reading { state: 'R', ..reading.clone() });
        for (ran_ms, waited_ms, does) in [(20, 10, Doing::Runs), (10, 20, Doing::WaitsForCpu)] {
            let run_ns = reading.run_ns + ran_ms * 1_000_000;
            let wait_ns = reading.wait_ns + waited_ms * 1_000_000;
            member.now = Reading { state: 'R', run_ns, wait_ns, ..reading.clone() };
            assert_eq!(member.done_now(&BTreeMap::new()), does);
        }
    }

    #[test]
    fn the_time_between_two_looks_is_told_by_what_the_kernel_counts_and_the_rest_by_its_ends() {
        let reading =
            Reading { are_exact: true, threads: 1, ..Reading::of(getpid()).expect("ours") };
        let ms = Duration::from_millis;
        let spent = |ends: [Doing; 2], ran_ms: u64, waited_ms: u64, threads| {
            let mut member = Member::new(getpid(), Reading { threads, ..reading.clone() });
            member.looks = 1;
            member.now.run_ns += ran_ms * 1_000_000;
            member.now.wait_ns += waited_ms * 1_000_000;
            member.doing = ends[1];
            member.spent(ms(100), ends[0]);
            member.times.retain(|_, time| !time.is_zero());
            member.times
        };
        use Doing::{Runs, WaitsForCpu, WaitsForInput, WaitsForOutput};
        let asleep = [WaitsForInput, WaitsForOutput];
        let all = [(Runs, ms(20)), (WaitsForCpu, ms(10)), (asleep[0], ms(35)), (asleep[1], ms(35))];
        assert_eq!(spent(asleep, 20, 10, 1), all.into());
        assert_eq!(spent(asleep, 0, 0, 1), [(asleep[0], ms(100))].into());
        for ends in [[Runs, WaitsForInput], [WaitsForInput, Runs]] {
            let told = [(Runs, ms(60)), (WaitsForInput, ms(40))];
            assert_eq!(spent(ends, 60, 0, 1), told.into());
            let told = [(Runs, ms(50)), (WaitsForInput, ms(50))];
            assert_eq!(spent(ends, 60, 0, 2), told.into(), "its threads run at once");
        }
        assert_eq!(spent([Runs; 2], 0, 0, 1), [(WaitsForCpu, ms(100))].into());
        assert_eq!(spent([Runs; 2], 10, 900, 1), [(Runs, ms(10)), (WaitsForCpu, ms(90))].into());
    }
}
