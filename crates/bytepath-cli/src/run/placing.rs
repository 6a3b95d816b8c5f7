//! Where the stages of a pipeline run: decided from what was seen of them, by trying. Values in,
//! values out: no descriptor, no clock.
//!
//! Whether two stages are better off on one CPU cannot be told from how much CPU each needs: on a
//! virtual machine waking another CPU costs more than many a stage does with the bytes, on a laptop
//! it is cheap. The profile knows, of stages that only copy; for these stages it is tried. As soon
//! as a pipeline flows, windows as the kernel places it take turns with windows with all stages on
//! one CPU, where that could do and the profile does not speak against it, and, where that was no
//! better, with windows with the stages spread, neighbours sharing. They take turns because what
//! a stage does with its bytes changes from one moment to the next. What won most turns and moved
//! more stays. It is asked again after a second, then after two, four, …, and changed only for what
//! is clearly better, so that it never goes to and fro. That is a matter of these stages: a pipeline
//! of others that comes after them begins anew, unless they were gone before they were worth it.

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
const TRIAL: Duration = Duration::from_millis(20);
/// How often two ways take turns.
const TURNS: usize = 3;
/// What gives less than this in its first turn gets no other.
const HOPELESS: f64 = 0.8;
const HELD: Duration = Duration::from_millis(100);
/// How many such windows are as short as those of a trial while nothing is tried or held: what
/// begins to flow is placed soon, and what waits for long is looked at no more often than what flows.
const SHORT_IDLE_MAX: u32 = 10;
/// Below this share of a CPU a stage is idle.
const IDLE: f64 = 0.02;
/// Stages that need more than this together are not tried on one CPU. Large, since part of what
/// they need is the price of waking each other.
const TOGETHER_MAX: f64 = 1.7;
/// How much better something has to be to be taken, and to be changed for.
const BETTER: f64 = 1.05;
const CLEARLY_BETTER: f64 = 1.08;
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
        trial: Trial,
        of: Vec<i32>,
    },
    Held {
        way: Way,
        of: Vec<i32>,
        pauses: u32,
    },
}

/// Two ways that take turns, the one that is held first.
#[derive(Debug)]
struct Trial {
    held: Way,
    tried: Way,
    /// What each moved a second, in each of its turns.
    rates: [Vec<f64>; 2],
    /// How much more the other has to move.
    better: f64,
    window: Duration,
    /// Ways that are tried after this one.
    left: Vec<Way>,
    /// What was found of those before.
    said: Vec<String>,
}

impl Trial {
    fn new(held: Way, tried: Way) -> Trial {
        let (rates, left, said) = Default::default();
        Trial { held, tried, rates, better: BETTER, window: TRIAL, left, said }
    }

    /// The way whose turn it is.
    fn turn(&self) -> &Way {
        if self.rates[0].len() > self.rates[1].len() { &self.tried } else { &self.held }
    }

    fn take(&mut self, rate: f64) {
        let of = usize::from(self.rates[0].len() > self.rates[1].len());
        self.rates[of].push(rate);
    }

    /// What the other moved for each byte that this moved.
    fn ratio(&self) -> f64 {
        let [held, tried] = self.rates.each_ref().map(|rates| rates.iter().sum::<f64>());
        tried / held.max(1.0)
    }

    fn is_over(&self) -> bool {
        let [held, tried] = self.rates.each_ref().map(Vec::len);
        held == tried && (tried >= TURNS || (tried == 1 && self.ratio() < HOPELESS))
    }

    /// One lucky turn is not enough.
    fn is_won(&self) -> bool {
        let won = self.rates[0].iter().zip(&self.rates[1]).filter(|(held, tried)| tried > held);
        2 * won.count() > TURNS && self.ratio() > self.better
    }
}

/// Places the stages of one pipeline.
#[derive(Debug)]
pub(super) struct Placer {
    cpus: Vec<usize>,
    /// What stages that only copy move on one CPU, for each byte that they move on two.
    together_gives: Option<f64>,
    phase: Phase,
    /// Windows since something was tried or held.
    idle: u32,
    next_trial: Duration,
    spacing: Duration,
    /// Those that were last at work.
    of: Vec<i32>,
    /// From when on they, or some of them, were.
    since: Duration,
    until: Duration,
    /// When they are tried at the latest, whatever was tried of others; none once they were.
    due: Option<Duration>,
}

impl Placer {
    /// For these CPUs, neighbours beside each other; with what the profile knows, if there is one.
    pub(super) fn new(cpus: Vec<usize>, together_gives: Option<f64>) -> Placer {
        let (next_trial, spacing) = (Duration::ZERO, SPACING);
        let (phase, idle, of) = (Phase::Idle, 0, Vec::new());
        let (since, until, due) = (Duration::ZERO, Duration::ZERO, None);
        Placer { cpus, together_gives, phase, idle, next_trial, spacing, of, since, until, due }
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
        if flows {
            self.meet(now, &part);
        }
        match std::mem::replace(&mut self.phase, Phase::Idle) {
            Phase::Idle | Phase::Held { .. } if flows && self.due.is_some_and(|due| now >= due) => {
                (self.spacing, self.next_trial) = (SPACING, now);
                self.begin(now, rate, &part)
            }
            Phase::Idle if flows && now >= self.next_trial => self.begin(now, rate, &part),
            Phase::Idle => self.idle(),
            Phase::Trial { of, .. } if !flows || of != pids(&part) => self.put_off(now),
            Phase::Trial { mut trial, of } => {
                trial.take(rate);
                self.go_on(now, trial, of)
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

    /// Others than those before owe nothing to them. What lasts no longer than the time between two
    /// trials is not tried each time, as what a loop runs.
    fn meet(&mut self, now: Duration, part: &[&Seen]) {
        if part.iter().all(|stage| !self.of.contains(&stage.pid)) {
            let has_lasted = self.until - self.since >= SPACING;
            self.due = Some(if has_lasted { now } else { now + SPACING });
            self.since = now;
        }
        (self.until, self.of) = (now, pids(part));
    }

    fn idle(&mut self) -> Decision {
        self.idle = self.idle.saturating_add(1);
        self.released(if self.idle > SHORT_IDLE_MAX { HELD } else { TRIAL })
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
            return self.idle();
        }
        let places = way.places();
        self.phase = Phase::Held { way, of, pauses };
        Decision { places, window: HELD, said: None }
    }

    fn held(&mut self, way: Way, of: Vec<i32>, said: Option<String>) -> Decision {
        let places = way.places();
        self.idle = 0;
        self.phase = Phase::Held { way, of, pauses: 0 };
        Decision { places, window: HELD, said }
    }

    /// The window that ended was as the kernel placed them.
    fn begin(&mut self, now: Duration, rate: f64, active: &[&Seen]) -> Decision {
        let of = pids(active);
        self.due = None;
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
        let mut left: Vec<_> = together.into_iter().chain(self.apart(active)).collect();
        if left.is_empty() {
            self.space(now);
            return self.held(Way::Free, of, None);
        }
        let trial = Trial { left: left.split_off(1), ..Trial::new(Way::Free, left.remove(0)) };
        self.turn(trial, of)
    }

    fn together(&self, active: &[&Seen]) -> Option<Way> {
        let need: f64 = active.iter().map(|stage| stage.demand).sum();
        let busiest = active.iter().max_by(|one, other| one.demand.total_cmp(&other.demand))?;
        let cpu =
            if self.cpus.contains(&busiest.cpu) { busiest.cpu } else { *self.cpus.first()? };
        let places = active.iter().map(|stage| (stage.pid, cpu)).collect();
        let may_help = self.together_gives.is_none_or(|gives| gives > 1.0);
        (may_help && need <= TOGETHER_MAX).then_some(Way::Together(places))
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

    /// One more turn.
    fn turn(&mut self, trial: Trial, of: Vec<i32>) -> Decision {
        let (places, window) = (trial.turn().places(), trial.window);
        self.idle = 0;
        self.phase = Phase::Trial { trial, of };
        Decision { places, window, said: None }
    }

    fn go_on(&mut self, now: Duration, trial: Trial, of: Vec<i32>) -> Decision {
        if !trial.is_over() {
            return self.turn(trial, of);
        }
        let (is_won, ratio) = (trial.is_won(), trial.ratio());
        let Trial { held, tried, mut left, mut said, .. } = trial;
        said.push(format!("{} gave {ratio:.2}", tried.said()));
        if !is_won && !left.is_empty() {
            let next = Trial { said, ..Trial::new(held, left.remove(0)) };
            return self.turn(next, of);
        }
        self.space(now);
        let said = format!("; against {}, {}", held.said(), said.join(", "));
        let way = if is_won { tried } else { held };
        let said = way.said() + &said;
        self.held(way, of, Some(said))
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
        // What has lasted so long has the time for a long look.
        let trial = Trial { better: CLEARLY_BETTER, window: TRIAL * 2, ..Trial::new(way, other) };
        self.turn(trial, of)
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
        let mut placer = Placer::new(vec![0, 1], None);
        let all =
            run(&mut placer, &[0.4, 0.3], |places| if on_one(places) { 60 } else { 20 }, 1000);
        assert!(on_one(all.last().expect("some")));
        let elsewhere = all[2..].iter().filter(|places| !on_one(places)).count();
        assert!(elsewhere <= 20, "{elsewhere} windows of 1000 elsewhere");
    }

    #[test]
    fn stages_that_need_a_cpu_each_get_one() {
        let mut placer = Placer::new(vec![0, 1], None);
        let all =
            run(&mut placer, &[0.95, 0.9], |places| if on_one(places) { 10 } else { 20 }, 500);
        assert!(all.iter().all(|places| !on_one(places)), "more than a CPU: one is not even tried");
    }

    #[test]
    fn what_is_faster_apart_is_left_or_spread() {
        let mut placer = Placer::new(vec![0, 1], None);
        let speed = |places: &Places| if on_one(places) { 10 } else { 12 };
        let all = run(&mut placer, &[0.9, 0.2], speed, 500);
        let together = all.iter().filter(|places| on_one(places)).count();
        assert!(together <= 24 && !on_one(all.last().expect("some")), "{together}");
    }

    #[test]
    fn the_profile_spares_trying_what_is_slower_here() {
        for (gives, expected) in [(Some(0.7), false), (Some(1.6), true), (None, true)] {
            let mut placer = Placer::new(vec![0, 1], gives);
            let all = run(&mut placer, &[0.4, 0.3], |_| 10, 50);
            assert_eq!(all.iter().any(on_one), expected, "{gives:?}");
        }
    }

    /// A source whose files are now large, now small, moves more in one window than in the next,
    /// wherever it runs.
    #[test]
    fn one_lucky_window_decides_nothing() {
        let mut placer = Placer::new(vec![0, 1], None);
        let mut tried = 0;
        let speed = |places: &Places| if on_one(places) { 9 } else { 10 };
        let (mut now, mut places, mut window) = (Duration::ZERO, Places::new(), TRIAL);
        for _ in 0..10 {
            now += window;
            tried += u32::from(on_one(&places));
            let lucky = if on_one(&places) && tried == 2 { 10 } else { 1 };
            let bytes = (speed(&places) * lucky) << 20;
            let stages = [seen(1, 0.4, bytes), seen(2, 0.3, bytes)];
            let decision = placer.decide(now, window, &stages);
            (places, window) = (decision.places, decision.window);
        }
        assert!(tried >= 2 && !on_one(&places), "{tried}");
    }

    #[test]
    fn what_is_as_good_is_not_changed() {
        let mut placer = Placer::new(vec![0, 1], None);
        let all = run(&mut placer, &[0.5, 0.2], |_| 10, 500);
        let changes = all[5..].windows(2).filter(|pair| pair[0] != pair[1]).count();
        assert!(changes <= 40, "{changes} changes: three to and fro each trial, ever rarer");
        assert!(all.last().expect("some").is_empty());
    }

    #[test]
    fn what_does_not_flow_for_long_is_looked_at_less_often() {
        let (mut placer, mut now) = (Placer::new(vec![0, 1], None), Duration::ZERO);
        let mut windows = |placer: &mut Placer, demand: f64, count: usize| {
            let decide = |_| {
                let stages = [1, 2].map(|pid| seen(pid, demand, 1 << 20));
                let decision = placer.decide(now, TRIAL, &stages);
                now += decision.window;
                decision.window
            };
            (0..count).map(decide).collect::<Vec<_>>()
        };
        let idle = windows(&mut placer, 0.0, 20);
        assert_eq!((idle[0], idle[19]), (TRIAL, HELD));
        assert_eq!(windows(&mut placer, 0.4, 1), [TRIAL], "it is tried at once");
        // It pauses while it is tried, so that the next trial is later.
        assert_eq!(windows(&mut placer, 0.0, 12).pop(), Some(HELD));
    }

    /// Pipelines that last so long each, with a pause between them: how many windows each ran on one
    /// CPU, where that is faster.
    fn after_another(lasts: &[Duration]) -> Vec<usize> {
        let mut placer = Placer::new(vec![0, 1], None);
        let (mut now, mut window, mut places) = (Duration::ZERO, TRIAL, Places::new());
        let run = |(lasts, number): (&Duration, i32)| {
            let (ends, mut together) = (now + *lasts, 0);
            while now < ends {
                now += window;
                let mib = if on_one(&places) { 60 } else { 20 };
                let bytes = (mib << 20) * window.as_millis() as u64 / TRIAL.as_millis() as u64;
                let stages = [seen(10 * number, 0.4, bytes), seen(10 * number + 1, 0.3, bytes)];
                let decision = placer.decide(now, window, &stages);
                (places, window) = (decision.places, decision.window);
                together += usize::from(on_one(&places));
            }
            now += window;
            (places, window) = {
                let decision = placer.decide(now, window, &[]);
                (decision.places, decision.window)
            };
            together
        };
        lasts.iter().zip(1..).map(run).collect()
    }

    #[test]
    fn a_pipeline_after_another_is_placed_as_soon_as_the_first() {
        let ten = Duration::from_secs(10);
        let together = after_another(&[ten; 4]);
        assert!(together.iter().all(|windows| *windows > 80), "{together:?}");
    }

    #[test]
    fn what_a_loop_runs_is_tried_ever_more_rarely_but_what_lasts_is_placed() {
        let short = Duration::from_millis(300);
        let mut lasts = vec![short; 100];
        lasts.push(Duration::from_secs(10));
        let together = after_another(&lasts);
        let tried = together[..100].iter().filter(|windows| **windows > 0).count();
        assert!((1..=10).contains(&tried), "{together:?}");
        assert!(together[100] > 70, "{together:?}");
    }

    #[test]
    fn what_begins_or_has_threads_is_left_alone() {
        for may in [May::NotYet, May::Never] {
            let mut placer = Placer::new(vec![0, 1], None);
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
        let mut placer = Placer::new(vec![0, 1], None);
        run(&mut placer, &[0.4, 0.3], |places| if on_one(places) { 60 } else { 20 }, 10);
        let crowded: Vec<_> =
            [1, 2].map(|pid| Seen { waited: 0.4, ..seen(pid, 0.2, 1 << 20) }).into();
        let decision = placer.decide(Duration::from_millis(500), HELD, &crowded);
        assert!(decision.places.is_empty() && decision.said.is_some(), "{decision:?}");
    }

    #[test]
    fn without_counts_need_decides() {
        let mut placer = Placer::new(vec![0, 1], None);
        assert!(on_one(&run(&mut placer, &[0.4, 0.3], |_| 0, 3)[2]));
        let mut placer = Placer::new(vec![0, 1], None);
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
        let mut placer = Placer::new(vec![3], None);
        assert!(run(&mut placer, &[0.4, 0.3], |_| 10, 50).iter().all(Places::is_empty));
    }
}
