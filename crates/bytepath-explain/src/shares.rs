//! How the time was divided: counts of samples by class, each share with its sampling interval.
//!
//! Where whole CPUs were seen, the shares divide the time of as many CPUs as the work used at once
//! while it ran: two ends on a machine of 64 CPUs leave 62 of them idle whatever they do, and that
//! says nothing about them.

use std::collections::{BTreeMap, HashMap, HashSet};

use crate::profile::{Part, Profile};

/// Samples of one class, and how sure its share is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Share {
    pub(crate) class: String,
    pub(crate) share: f64,
    pub(crate) ci95: [f64; 2],
}

/// What was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Seen {
    /// The work's own threads.
    Threads,
    /// So many whole CPUs, on any of which the work might run.
    Cpus(usize),
    /// So many whole CPUs, which the work was put on, all the time of which counts.
    ItsCpus(usize),
}

impl Seen {
    /// How many CPUs the work could use: those that it was put on, or as many as it used at once.
    ///
    /// `hz` samples were taken a second of each.
    pub(crate) fn usable(self, profile: &Profile, hz: u32) -> f64 {
        match self {
            Seen::Threads => 1.0,
            Seen::Cpus(cpus) => side_by_side(profile, hz).clamp(1.0, cpus.max(1) as f64),
            Seen::ItsCpus(cpus) => cpus as f64,
        }
    }
}

/// Samples in a row hang together. Their times are cut into this many pieces at most, and how much
/// shares differ from piece to piece says how many samples they are worth.
const PIECES_MAX: usize = 40;

/// Fewer samples than these a piece say nothing.
const IN_A_PIECE_MIN: usize = 20;

/// The shares of all classes, largest first.
///
/// `classes` has the class of each stack, and of the CPUs that were seen so many were usable.
pub(crate) fn shares(profile: &Profile, classes: &[&str], seen: Seen, usable: f64) -> Vec<Share> {
    let mut weights: BTreeMap<&str, f64> = BTreeMap::new();
    for (class, count) in classes.iter().zip(&profile.counts) {
        *weights.entry(class).or_default() += *count as f64;
    }
    weights.retain(|_, weight| *weight > 0.0);
    if let Seen::Cpus(cpus) = seen {
        beside_the_work(profile, classes, &mut weights, usable / cpus as f64);
    }
    let all: f64 = weights.values().sum();
    let spread = Spread::of(profile, classes);
    let mut shares: Vec<Share> = weights
        .into_iter()
        .filter(|(_, weight)| *weight > 0.0)
        .map(|(class, weight)| {
            let share = weight / all;
            let ci95 = wilson(share, all / spread.design_effect(class));
            Share { class: class.to_owned(), share, ci95 }
        })
        .collect();
    shares.sort_by(|a, b| b.share.total_cmp(&a.share));
    shares
}

/// Takes away idle time, and time of others, that the work could not have used: it could use this
/// part of what was seen.
fn beside_the_work(
    profile: &Profile,
    classes: &[&str],
    weights: &mut BTreeMap<&str, f64>,
    usable: f64,
) {
    let mut beside: BTreeMap<&str, f64> = BTreeMap::new();
    let (mut seen, mut kept) = (0.0, 0.0);
    for (number, stack) in profile.stacks.iter().enumerate() {
        let count = profile.counts[number] as f64;
        seen += count;
        match profile.thread_of(stack).part {
            Part::Idle | Part::Others => *beside.entry(classes[number]).or_default() += count,
            Part::Work => kept += count,
            // It may be for the work, and is told whole; it takes no time that the work could have used.
            Part::Kernel => {}
        }
    }
    let room = (seen * usable - kept).max(0.0);
    let there: f64 = beside.values().sum();
    let keep = if there > room { room / there } else { 1.0 };
    for (class, count) in beside {
        if let Some(weight) = weights.get_mut(class) {
            *weight -= count * (1.0 - keep);
        }
    }
}

/// How many threads of the work ran side by side, on average of those ticks in which any did.
/// Threads that run one after the other are one: only what has a sample within the same tick ran
/// beside it.
fn side_by_side(profile: &Profile, hz: u32) -> f64 {
    let tick_of = |time_ns: u64| u128::from(time_ns) * u128::from(hz) / 1_000_000_000;
    let mut ran: HashSet<(u128, u32)> = HashSet::new();
    for moment in &profile.moments {
        let thread = profile.stacks[moment.stack as usize].thread;
        if profile.threads[thread as usize].part == Part::Work {
            ran.insert((tick_of(moment.time_ns), thread));
        }
    }
    let ticks: HashSet<u128> = ran.iter().map(|(tick, _)| *tick).collect();
    ran.len() as f64 / ticks.len().max(1) as f64
}

/// How the samples of each class lie in time.
struct Spread<'a> {
    /// For each piece of time, its samples by class.
    pieces: Vec<HashMap<&'a str, usize>>,
}

impl<'a> Spread<'a> {
    fn of(profile: &Profile, classes: &[&'a str]) -> Spread<'a> {
        let moments = &profile.moments;
        let pieces = (moments.len() / IN_A_PIECE_MIN).clamp(1, PIECES_MAX);
        let length = moments.len().div_ceil(pieces).max(1);
        let piece = |moments: &[crate::profile::Moment]| {
            let mut counts = HashMap::new();
            for moment in moments {
                *counts.entry(classes[moment.stack as usize]).or_default() += 1;
            }
            counts
        };
        Spread { pieces: moments.chunks(length).map(piece).collect() }
    }

    /// By how much the share of a class varies more from piece to piece than it would if samples
    /// had nothing to do with each other; at least 1.
    fn design_effect(&self, class: &str) -> f64 {
        let shares: Vec<(f64, f64)> = self
            .pieces
            .iter()
            .map(|piece| {
                let all = piece.values().sum::<usize>() as f64;
                (piece.get(class).copied().unwrap_or(0) as f64 / all, all)
            })
            .collect();
        if shares.len() < 5 {
            return 1.0;
        }
        let pieces = shares.len() as f64;
        let mean = shares.iter().map(|(share, _)| share).sum::<f64>() / pieces;
        let size = shares.iter().map(|(_, all)| all).sum::<f64>() / pieces;
        let expected = mean * (1.0 - mean) / size;
        if expected <= 0.0 {
            return 1.0;
        }
        let found = shares.iter().map(|(share, _)| (share - mean).powi(2)).sum::<f64>();
        (found / (pieces - 1.0) / expected).max(1.0)
    }
}

/// Wilson's 95% interval of a share among so many samples, which need be no whole number.
pub(crate) fn wilson(share: f64, samples: f64) -> [f64; 2] {
    const Z: f64 = 1.959_964;
    if samples < 1.0 {
        return [0.0, 1.0];
    }
    let z2 = Z * Z / samples;
    let middle = (share + z2 / 2.0) / (1.0 + z2);
    let half = Z / (1.0 + z2) * (share * (1.0 - share) / samples + z2 / (4.0 * samples)).sqrt();
    [(middle - half).max(0.0), (middle + half).min(1.0)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classes::Classes;

    fn share_of(shares: &[Share], class: &str) -> f64 {
        shares.iter().find(|share| share.class == class).map_or(0.0, |share| share.share)
    }

    fn profile(stacks: &[(&str, u64)]) -> Profile {
        let mut profile = Profile::from_folded(stacks.iter().copied());
        // One after the other, a sample each millisecond, in turn.
        let mut left = profile.counts.clone();
        let mut time_ns = 0;
        while left.iter().any(|left| *left > 0) {
            for (stack, left) in left.iter_mut().enumerate().filter(|(_, left)| **left > 0) {
                *left -= 1;
                time_ns += 1_000_000;
                let stack = u32::try_from(stack).expect("few");
                profile.moments.push(crate::profile::Moment { time_ns, stack });
            }
        }
        profile
    }

    fn of(profile: &Profile, seen: Seen) -> Vec<Share> {
        at(profile, seen, 999)
    }

    fn at(profile: &Profile, seen: Seen, hz: u32) -> Vec<Share> {
        let usable = seen.usable(profile, hz);
        shares(profile, &Classes::built_in().of_all(profile), seen, usable)
    }

    #[test]
    fn shares_add_up_to_one_and_lie_in_their_intervals() {
        let profile = profile(&[
            ("a;main;pipe_write_[k];copy_page_from_iter_[k]", 600),
            ("a;main", 300),
            ("idle;do_idle_[k];default_idle_[k]", 100),
        ]);
        let shares = of(&profile, Seen::Threads);
        assert!((shares.iter().map(|share| share.share).sum::<f64>() - 1.0).abs() < 1e-9);
        for share in &shares {
            let [low, high] = share.ci95;
            assert!(low < share.share && share.share < high, "{share:?}");
        }
        assert_eq!(shares[0].class, "copying");
        assert!((share_of(&shares, "idle") - 0.1).abs() < 1e-9);
    }

    #[test]
    fn idle_time_that_one_thread_could_not_use_is_not_counted() {
        // One thread, always at work, on a machine of four CPUs.
        let profile = profile(&[("a;main", 1000), ("idle;do_idle_[k]", 3000)]);
        let shares = of(&profile, Seen::Cpus(4));
        assert_eq!(share_of(&shares, "idle"), 0.0, "{shares:?}");
        // On one CPU the same samples say that it slept three quarters of the time.
        assert_eq!(share_of(&of(&profile, Seen::Cpus(1)), "idle"), 0.75);
    }

    #[test]
    fn few_samples_a_second_divide_the_time_alike() {
        // Two threads run side by side half of the time, and wait together: half of two CPUs is idle.
        let stacks = [("a;main", 0), ("b;main", 0), ("idle;do_idle_[k]", 0)];
        for hz in [1, 10, 20, 40, 100, 999] {
            let mut profile = Profile::from_folded(stacks);
            for tick in 0..200 {
                for stack in if tick % 2 == 0 { [0, 1] } else { [2, 2] } {
                    profile.counts[stack] += 1;
                    let time_ns = tick * 1_000_000_000 / u64::from(hz);
                    let stack = u32::try_from(stack).expect("few");
                    profile.moments.push(crate::profile::Moment { time_ns, stack });
                }
            }
            let shares = at(&profile, Seen::Cpus(2), hz);
            assert_eq!(share_of(&shares, "idle"), 0.5, "{hz} a second: {shares:?}");
        }
    }

    #[test]
    fn threads_that_run_one_after_the_other_use_one_cpu() {
        // A program that starts another each quarter of a second, on one of two CPUs in turn.
        let commands: Vec<String> = (0..12).map(|number| format!("{number};main")).collect();
        let stacks = commands.iter().map(|command| (command.as_str(), 0));
        let mut profile = Profile::from_folded(stacks.chain([("idle;do_idle_[k]", 0)]));
        let idle = commands.len();
        let mut sample = |stack: usize, time_ns: u64| {
            profile.counts[stack] += 1;
            let stack = u32::try_from(stack).expect("few");
            profile.moments.push(crate::profile::Moment { time_ns, stack });
        };
        for tick in 0..3000 {
            // The CPUs have no sample at the same moment.
            let time_ns = tick as u64 * 1_001_001;
            sample(tick / 250, time_ns);
            sample(idle, time_ns + 300_000);
        }
        let shares = of(&profile, Seen::Cpus(2));
        assert!(share_of(&shares, "idle") < 0.01, "{shares:?}");
    }

    #[test]
    fn time_of_threads_of_the_kernel_is_no_cost_of_the_work() {
        let spins = profile(&[
            ("spin;main", 500),
            ("[kworker/0:1H];kthread_[k];blk_mq_run_work_fn_[k]", 100),
            ("[kworker/u8:1];kthread_[k];__alloc_pages_[k];get_page_from_freelist_[k]", 50),
        ]);
        let shares = of(&spins, Seen::Cpus(2));
        let named: Vec<&str> = shares.iter().map(|share| share.class.as_str()).collect();
        assert_eq!(named, ["user code", "threads of the kernel"]);
        assert!((share_of(&shares, "threads of the kernel") - 150.0 / 650.0).abs() < 1e-9);
        // Nor does it take away what the work waits.
        let waits = profile(&[
            ("reads;main", 200),
            ("[kworker/0:1H];kthread_[k];blk_mq_run_work_fn_[k]", 700),
            ("idle;do_idle_[k]", 1100),
        ]);
        let shares = of(&waits, Seen::Cpus(2));
        assert!((share_of(&shares, "idle") - 800.0 / 1700.0).abs() < 1e-9, "{shares:?}");
    }

    #[test]
    fn what_waits_all_the_time_is_idle() {
        let profile = profile(&[("idle;do_idle_[k]", 2000)]);
        assert_eq!(share_of(&of(&profile, Seen::Cpus(2)), "idle"), 1.0);
    }

    #[test]
    fn samples_that_come_in_bursts_give_wider_intervals() {
        let even = profile(&[("a;main", 500), ("a;main;write_[k];pipe_write_[k]", 500)]);
        let mut bursts = even.clone();
        bursts.moments.sort_by_key(|moment| moment.stack);
        let width = |profile: &Profile| {
            let [low, high] = of(profile, Seen::Threads)[0].ci95;
            high - low
        };
        assert!(width(&bursts) > 3.0 * width(&even));
    }

    #[test]
    fn intervals_are_wilsons() {
        // 5 of 10: known from tables.
        let [low, high] = wilson(0.5, 10.0);
        assert!((low - 0.2366).abs() < 1e-3 && (high - 0.7634).abs() < 1e-3);
        assert_eq!(wilson(0.0, 100.0)[0], 0.0);
        assert_eq!(wilson(1.0, 0.0), [0.0, 1.0]);
    }
}
