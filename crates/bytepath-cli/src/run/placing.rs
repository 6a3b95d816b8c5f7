//! Where the stages of a pipeline run: decided from what was seen of them, by trying. Values in,
//! values out: no descriptor, no clock.
//!
//! Whether two stages are better off on one CPU cannot be told from how much CPU each needs: on a
//! virtual machine waking another CPU costs more than many a stage does with the bytes, on a laptop
//! it is cheap. So as soon as a pipeline flows, one window is measured as the kernel places it, one
//! with all stages on one CPU where that could do, and, where that was no better, one with the
//! stages spread, neighbours sharing. What moved the most bytes stays. It is asked again after
//! a second, then after two, four, …, and changed only for what is clearly better, so that it never
//! goes to and fro.

use std::collections::BTreeMap;
use std::time::Duration;

/// A stage in the last window.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Seen {
    pub(super) pid: i32,
    /// The share of the window that it was on a CPU; more than 1 with several threads.
    pub(super) demand: f64,
    /// The share that it waited for one.
    pub(super) waited: f64,
    /// What it read and wrote.
    pub(super) bytes: u64,
    /// The CPU that it ran on last.
    pub(super) cpu: usize,
    pub(super) may: May,
}

/// Whether a process may be told where to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum May {
    Move,
    /// It has not begun its work: programs count their CPUs when they start.
    NotYet,
    /// It has threads or children of its own, or chose its CPUs itself.
    Never,
}

/// The CPU of each process that has one; all others run where the kernel puts them.
pub(super) type Places = BTreeMap<i32, usize>;

/// What is to be done until the next look.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Decision {
    pub(super) places: Places,
    /// When to look again.
    pub(super) window: Duration,
    /// What was decided just now, for a person.
    pub(super) said: Option<String>,
}

/// A window of a trial: what flows moves some dozens of MiB in it.
const TRIAL: Duration = Duration::from_millis(40);
const HELD: Duration = Duration::from_millis(100);
/// Below this share of a CPU a stage is idle.
const IDLE: f64 = 0.02;
/// Stages that need more than this together are not tried on one CPU. Large, since part of what
/// they need is the price of waking each other.
const TOGETHER_MAX: f64 = 1.7;
/// How much better something has to be to be taken, and to be changed for.
const BETTER: f64 = 1.03;
const CLEARLY_BETTER: f64 = 1.06;
/// A group on one CPU that gets less than this of it while it waits for it shares it with strangers.
const CROWDED: f64 = 0.7;
const SPACING: Duration = Duration::from_secs(1);
const SPACING_MAX: Duration = Duration::from_secs(16);
/// A pipeline that pauses for fewer windows than this keeps its places.
const PAUSE_MAX: u32 = 5;

/// A way to place the stages.
#[derive(Debug, Clone, PartialEq)]
enum Way {
    Free,
    Together(Places),
    Apart(Places),
}

impl Way {
    fn places(&self) -> Places {
        match self {
            Way::Free => Places::new(),
            Way::Together(places) | Way::Apart(places) => places.clone(),
        }
    }

    fn said(&self) -> String {
        match self {
            Way::Free => "where the kernel puts them".to_owned(),
            Way::Together(places) => {
                format!("together on CPU {}", places.values().next().copied().unwrap_or_default())
            }
            Way::Apart(places) => {
                let cpus: Vec<_> = places.values().map(usize::to_string).collect();
                format!("spread over CPUs {}", cpus.join(", "))
            }
        }
    }
}

#[derive(Debug)]
enum Phase {
    /// Nothing flows yet, or no more.
    Idle,
    Trial {
        rates: Vec<(Way, f64)>,
        tried: Way,
        left: Vec<Way>,
        of: Vec<i32>,
    },
    Held {
        way: Way,
        of: Vec<i32>,
        pauses: u32,
    },
}

/// Places the stages of one pipeline.
#[derive(Debug)]
pub(super) struct Placer {
    cpus: Vec<usize>,
    phase: Phase,
    next_trial: Duration,
    spacing: Duration,
}

impl Placer {
    /// For these CPUs, neighbours beside each other.
    pub(super) fn new(cpus: Vec<usize>) -> Placer {
        Placer { cpus, phase: Phase::Idle, next_trial: Duration::ZERO, spacing: SPACING }
    }

    /// Decides, from the window that ends `now` and took `window`.
    pub(super) fn decide(&mut self, now: Duration, window: Duration, stages: &[Seen]) -> Decision {
        // What sleeps with threads of its own is in nobody's way.
        let is_part = |stage: &&Seen| stage.may != May::Never || stage.demand >= IDLE;
        let part: Vec<&Seen> = stages.iter().filter(is_part).collect();
        if part.iter().any(|stage| stage.may == May::Never) {
            return self.released(HELD);
        }
        let rate = part.iter().map(|stage| stage.bytes as f64).sum::<f64>() / window.as_secs_f64();
        let flows = self.flows(&part);
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle if flows && now >= self.next_trial => self.begin(now, rate, &part),
            Phase::Idle => self.released(TRIAL),
            Phase::Trial { of, .. } if !flows || of != pids(&part) => self.put_off(now),
            Phase::Trial { mut rates, tried, left, of } => {
                rates.push((tried, rate));
                self.go_on(now, rates, left, of)
            }
            Phase::Held { way, of, pauses } if !flows || of != pids(&part) => {
                self.paused(way, of, pauses + 1)
            }
            Phase::Held { way, of, .. } if now >= self.next_trial => {
                self.try_again(now, way, rate, of, &part)
            }
            Phase::Held { way: Way::Together(_), of, .. } if is_crowded(&part) => {
                self.space(now);
                let said = "where the kernel puts them: others use their CPU".to_owned();
                self.held(Way::Free, of, Some(said))
            }
            Phase::Held { way, of, .. } => self.held(way, of, None),
        }
    }

    /// Whether there is something to decide: two stages at work, and all have begun.
    fn flows(&self, part: &[&Seen]) -> bool {
        let busy = part.iter().filter(|stage| stage.demand >= IDLE).count();
        busy >= 2 && self.cpus.len() >= 2 && part.iter().all(|stage| stage.may == May::Move)
    }

    fn released(&mut self, window: Duration) -> Decision {
        self.phase = Phase::Idle;
        Decision { places: Places::new(), window, said: None }
    }

    fn put_off(&mut self, now: Duration) -> Decision {
        self.space(now);
        self.released(HELD)
    }

    /// The next trial is later than the last was.
    fn space(&mut self, now: Duration) {
        self.next_trial = now + self.spacing;
        self.spacing = (self.spacing * 2).min(SPACING_MAX);
    }

    fn paused(&mut self, way: Way, of: Vec<i32>, pauses: u32) -> Decision {
        if pauses > PAUSE_MAX {
            return self.released(TRIAL);
        }
        let places = way.places();
        self.phase = Phase::Held { way, of, pauses };
        Decision { places, window: HELD, said: None }
    }

    fn held(&mut self, way: Way, of: Vec<i32>, said: Option<String>) -> Decision {
        let places = way.places();
        self.phase = Phase::Held { way, of, pauses: 0 };
        Decision { places, window: HELD, said }
    }

    /// The window that ended was as the kernel placed them.
    fn begin(&mut self, now: Duration, rate: f64, active: &[&Seen]) -> Decision {
        let of = pids(active);
        let together = self.together(active);
        if rate <= 0.0 {
            // Nothing tells what they move, so what they need decides.
            let need: f64 = active.iter().map(|stage| stage.demand).sum();
            let way = together.filter(|_| need <= 0.9).unwrap_or(Way::Free);
            self.space(now);
            let said = format!(
                "{}: they need {need:.2} CPUs, and nothing tells what they move",
                way.said()
            );
            return self.held(way, of, Some(said));
        }
        let left = together.into_iter().chain(self.apart(active)).collect();
        self.go_on(now, vec![(Way::Free, rate)], left, of)
    }

    fn together(&self, active: &[&Seen]) -> Option<Way> {
        let need: f64 = active.iter().map(|stage| stage.demand).sum();
        let busiest = active.iter().max_by(|one, other| one.demand.total_cmp(&other.demand))?;
        let cpu =
            if self.cpus.contains(&busiest.cpu) { busiest.cpu } else { *self.cpus.first()? };
        let places = active.iter().map(|stage| (stage.pid, cpu)).collect();
        (need <= TOGETHER_MAX).then_some(Way::Together(places))
    }

    /// As few groups of neighbours as need a CPU each, at least two.
    fn apart(&self, active: &[&Seen]) -> Option<Way> {
        let need: f64 = active.iter().map(|stage| stage.demand).sum();
        let groups = ((need / 0.9).ceil() as usize).clamp(2, self.cpus.len().min(active.len()));
        let demands: Vec<f64> = active.iter().map(|stage| stage.demand).collect();
        let group = grouped(&demands, groups);
        let places = active.iter().zip(group).map(|(stage, group)| (stage.pid, self.cpus[group]));
        Some(Way::Apart(places.collect()))
    }

    fn go_on(
        &mut self,
        now: Duration,
        rates: Vec<(Way, f64)>,
        mut left: Vec<Way>,
        of: Vec<i32>,
    ) -> Decision {
        let free = rates[0].1;
        let better = rates
            .iter()
            .find(|(way, rate)| matches!(way, Way::Together(_)) && *rate > BETTER * free);
        if left.is_empty() || better.is_some() {
            return self.chosen(now, &rates, BETTER, of);
        }
        let tried = left.remove(0);
        let places = tried.places();
        self.phase = Phase::Trial { rates, tried, left, of };
        Decision { places, window: TRIAL, said: None }
    }

    /// The first of the ways stays unless another is better by so much.
    fn chosen(
        &mut self,
        now: Duration,
        rates: &[(Way, f64)],
        better: f64,
        of: Vec<i32>,
    ) -> Decision {
        let (first, rest) = rates.split_first().expect("one was measured before others are tried");
        let best = rest.iter().max_by(|one, other| one.1.total_cmp(&other.1));
        let best = best.filter(|(_, rate)| *rate > better * first.1).unwrap_or(first);
        self.space(now);
        let gave = |(way, rate): &(Way, f64)| format!("{} gave {:.2}", way.said(), rate / first.1);
        let gave: Vec<_> = rest.iter().map(gave).collect();
        let said = match gave.is_empty() {
            true => best.0.said(),
            false => format!("{}; against {}, {}", best.0.said(), first.0.said(), gave.join(", ")),
        };
        self.held(best.0.clone(), of, Some(said))
    }

    /// What is held against the most likely other way.
    fn try_again(
        &mut self,
        now: Duration,
        way: Way,
        rate: f64,
        of: Vec<i32>,
        active: &[&Seen],
    ) -> Decision {
        let other = match &way {
            Way::Free | Way::Apart(_) => self.together(active),
            Way::Together(_) => Some(Way::Free),
        };
        let Some(other) = other.filter(|_| rate > 0.0) else {
            self.space(now);
            return self.held(way, of, None);
        };
        let places = other.places();
        // What is held counts for more than it gave.
        let rates = vec![(way, rate * CLEARLY_BETTER / BETTER)];
        self.phase = Phase::Trial { rates, tried: other, left: Vec::new(), of };
        // What has lasted so long has the time for a long look.
        Decision { places, window: HELD, said: None }
    }
}

fn pids(active: &[&Seen]) -> Vec<i32> {
    active.iter().map(|stage| stage.pid).collect()
}

/// Whether strangers take the CPU that these stages share.
fn is_crowded(active: &[&Seen]) -> bool {
    let [ran, waited] = [|stage: &&Seen| stage.demand, |stage: &&Seen| stage.waited]
        .map(|share| active.iter().map(share).sum::<f64>());
    ran < CROWDED && waited > 1.0 - CROWDED
}

/// Neighbours in so many groups that the one that needs most needs as little as can be: the group
/// of each.
fn grouped(demands: &[f64], groups: usize) -> Vec<usize> {
    let most: f64 = demands.iter().copied().fold(0.0, f64::max);
    let sum: f64 = demands.iter().sum();
    const STEPS: u32 = 32;
    let (mut low, mut high) = (most, sum.max(most));
    for _ in 0..STEPS {
        let middle = f64::midpoint(low, high);
        match filled(demands, middle).last() {
            Some(last) if *last < groups => high = middle,
            _ => low = middle,
        }
    }
    filled(demands, high + 1e-9)
}

/// Each group takes neighbours until it is full.
fn filled(demands: &[f64], room: f64) -> Vec<usize> {
    let (mut group, mut taken) = (0, 0.0);
    let place = |demand: &f64| {
        if taken + demand > room && taken > 0.0 {
            (group, taken) = (group + 1, 0.0);
        }
        taken += demand;
        group
    };
    demands.iter().map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(pid: i32, demand: f64, bytes: u64) -> Seen {
        Seen { pid, demand, waited: 0.0, bytes, cpu: 1, may: May::Move }
    }

    /// A machine on which a placement gives a speed: MiB in a window of a trial.
    fn run(
        placer: &mut Placer,
        demands: &[f64],
        speed: impl Fn(&Places) -> u64,
        windows: usize,
    ) -> Vec<Places> {
        let (mut now, mut places, mut all) = (Duration::ZERO, Places::new(), Vec::new());
        let mut window = TRIAL;
        for _ in 0..windows {
            now += window;
            let bytes =
                (speed(&places) << 20) * window.as_millis() as u64 / TRIAL.as_millis() as u64;
            let stages: Vec<_> =
                demands.iter().zip(1..).map(|(demand, pid)| seen(pid, *demand, bytes)).collect();
            let decision = placer.decide(now, window, &stages);
            (places, window) = (decision.places, decision.window);
            all.push(places.clone());
        }
        all
    }

    fn on_one(places: &Places) -> bool {
        !places.is_empty() && places.values().all(|cpu| Some(cpu) == places.values().next())
    }

    #[test]
    fn light_stages_share_a_cpu_where_that_is_faster_and_stay_there() {
        let mut placer = Placer::new(vec![0, 1]);
        let all =
            run(&mut placer, &[0.4, 0.3], |places| if on_one(places) { 60 } else { 20 }, 1000);
        assert!(on_one(all.last().expect("some")));
        let elsewhere = all[2..].iter().filter(|places| !on_one(places)).count();
        assert!(elsewhere <= 10, "{elsewhere} windows of 1000 elsewhere");
    }

    #[test]
    fn stages_that_need_a_cpu_each_get_one() {
        let mut placer = Placer::new(vec![0, 1]);
        let all =
            run(&mut placer, &[0.95, 0.9], |places| if on_one(places) { 10 } else { 20 }, 500);
        assert!(all.iter().all(|places| !on_one(places)), "more than a CPU: one is not even tried");
    }

    #[test]
    fn what_is_faster_apart_is_left_or_spread() {
        let mut placer = Placer::new(vec![0, 1]);
        let speed = |places: &Places| if on_one(places) { 10 } else { 12 };
        let all = run(&mut placer, &[0.9, 0.2], speed, 500);
        let together = all.iter().filter(|places| on_one(places)).count();
        assert!(together <= 10 && !on_one(all.last().expect("some")), "{together}");
    }

    #[test]
    fn what_is_as_good_is_not_changed() {
        let mut placer = Placer::new(vec![0, 1]);
        let all = run(&mut placer, &[0.5, 0.2], |_| 10, 500);
        let changes = all[5..].windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(changes <= 12, "{changes} changes: one to and fro each trial, ever rarer");
        assert!(all.last().expect("some").is_empty());
    }

    #[test]
    fn what_begins_or_has_threads_is_left_alone() {
        for may in [May::NotYet, May::Never] {
            let mut placer = Placer::new(vec![0, 1]);
            for window in 1..100 {
                let mut stages = [seen(1, 0.4, 1 << 20), seen(2, 0.4, 1 << 20)];
                stages[1].may = may;
                let decision = placer.decide(window * TRIAL, TRIAL, &stages);
                assert!(decision.places.is_empty(), "{may:?}");
            }
        }
    }

    #[test]
    fn stages_that_strangers_crowd_are_let_go() {
        let mut placer = Placer::new(vec![0, 1]);
        run(&mut placer, &[0.4, 0.3], |places| if on_one(places) { 60 } else { 20 }, 5);
        let crowded: Vec<_> =
            [1, 2].map(|pid| Seen { waited: 0.4, ..seen(pid, 0.2, 1 << 20) }).into();
        let decision = placer.decide(Duration::from_millis(500), HELD, &crowded);
        assert!(decision.places.is_empty() && decision.said.is_some(), "{decision:?}");
    }

    #[test]
    fn without_counts_need_decides() {
        let mut placer = Placer::new(vec![0, 1]);
        assert!(on_one(&run(&mut placer, &[0.4, 0.3], |_| 0, 3)[2]));
        let mut placer = Placer::new(vec![0, 1]);
        assert!(run(&mut placer, &[0.8, 0.7], |_| 0, 3)[2].is_empty());
    }

    #[test]
    fn neighbours_are_grouped_so_that_the_busiest_group_is_as_light_as_can_be() {
        assert_eq!(grouped(&[0.9, 0.1, 0.1, 0.7], 2), [0, 1, 1, 1]);
        assert_eq!(grouped(&[0.2, 0.2, 0.2, 0.2], 2), [0, 0, 1, 1]);
        assert_eq!(grouped(&[0.5, 0.5], 2), [0, 1]);
        assert_eq!(grouped(&[0.1, 1.0, 0.1], 3), [0, 1, 2]);
    }

    #[test]
    fn one_cpu_leaves_nothing_to_decide() {
        let mut placer = Placer::new(vec![3]);
        assert!(run(&mut placer, &[0.4, 0.3], |_| 10, 50).iter().all(Places::is_empty));
    }
}
