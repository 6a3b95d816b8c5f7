//! Whether runs of one thing are told from runs that differ, on machines whose truth is known. Run
//! with `--nocapture` to see the tables of the module.

use bytepath_stats::{Between, RunRatio, Spread};

use crate::machines::{MACHINES, Machine, State, run};

const RUNS: u64 = 2000;
const BLOCKS: [u32; 5] = [3, 5, 10, 20, 60];

fn percent(hits: usize) -> f64 {
    hits as f64 * 100.0 / RUNS as f64
}

/// The samples of one arm in a run of its own.
fn samples(machine: &Machine, blocks: u32, seed: u64) -> Vec<f64> {
    let [_, arm, _] = run(machine, blocks, 1.0, seed);
    arm
}

/// How often two runs of one thing are called different.
fn wrong_percent(machine: &Machine, blocks: u32) -> f64 {
    let wrong = (0..RUNS).filter(|seed| {
        let (a, b) = (samples(machine, blocks, 2 * seed), samples(machine, blocks, 2 * seed + 1));
        !RunRatio::of(&b, &a, Between::Assumed, 1).unwrap().interval.contains(1.0)
    });
    percent(wrong.count())
}

#[test]
fn runs_of_one_thing_are_called_different_in_at_most_five_percent_of_pairs() {
    for machine in MACHINES {
        let wrong = BLOCKS.map(|blocks| wrong_percent(machine, blocks));
        println!("{:28} {wrong:.1?}", machine.name);
        // Three blocks may all be of one mode, and five: the page of the statistic says so.
        let from = if machine.name == "two modes that last" { 2 } else { 0 };
        assert!(wrong[from..].iter().all(|wrong| *wrong <= 5.0), "{}: {wrong:?}", machine.name);
    }
}

/// Noise whose power falls as one over its frequency, over all times: of sums of values that are
/// drawn anew after 1, 2, 4, … 2^20 blocks, the slowest of which a run never sees the end.
fn flicker(blocks: u32, deviation: f64, seed: u64) -> Vec<f64> {
    let mut state = State::new(seed);
    let mut levels: Vec<f64> = (0..=20).map(|_| state.normal()).collect();
    let scale = deviation / (levels.len() as f64).sqrt();
    let block = |_: u32| {
        for (octave, level) in levels.iter_mut().enumerate() {
            if state.happens(0.5_f64.powi(octave as i32)) {
                *level = state.normal();
            }
        }
        (scale * levels.iter().sum::<f64>()).exp()
    };
    (0..blocks).map(block).collect()
}

/// A run of flicker noise that goes on from `from` blocks after another, of the same machine: the
/// pair of them.
fn flicker_pair(blocks: u32, seed: u64) -> (Vec<f64>, Vec<f64>) {
    let all = flicker(5 * blocks, 0.05, seed);
    let blocks = blocks as usize;
    (all[..blocks].to_vec(), all[4 * blocks..].to_vec())
}

#[test]
fn runs_that_slow_noise_moves_are_rarely_called_different_where_a_plain_test_often_would() {
    let mut row = Vec::new();
    for blocks in BLOCKS {
        let (mut wrong, mut wrong_plain) = (0, 0);
        for seed in 0..RUNS {
            let (a, b) = flicker_pair(blocks, seed);
            let found = RunRatio::of(&b, &a, Between::Assumed, 1).unwrap();
            wrong += usize::from(!found.interval.contains(1.0));
            wrong_plain += usize::from(!plain(&a, &b));
        }
        row.push((percent(wrong), percent(wrong_plain)));
    }
    println!("flicker: {row:.1?}");
    assert!(row.iter().all(|(wrong, _)| *wrong <= 5.0), "{row:?}");
    assert!(row.last().unwrap().1 >= 25.0, "the plain test would have done: {row:?}");
}

/// Whether the difference of the means is within two errors, were blocks drawn from an urn.
fn plain(a: &[f64], b: &[f64]) -> bool {
    let of = |samples: &[f64]| {
        let logs: Vec<f64> = samples.iter().map(|sample| sample.ln()).collect();
        let n = logs.len() as f64;
        let mean = logs.iter().sum::<f64>() / n;
        (mean, logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0) / n)
    };
    let ((a, a_variance), (b, b_variance)) = (of(a), of(b));
    (a - b).abs() <= 2.0 * (a_variance + b_variance).sqrt()
}

/// A run on a machine that is another in every run, by `deviation`, and hardly noisy within.
fn stepping(deviation: f64, seed: u64) -> Vec<f64> {
    let mut state = State::new(seed);
    let level = deviation * state.normal();
    (0..10).map(|_| (level + 0.01 * state.normal()).exp()).collect()
}

#[test]
fn what_changes_only_between_runs_is_found_by_measuring_it() {
    for others in [5_u64, 10, 20] {
        let (mut wrong, mut assumed_wrong) = (0, 0);
        for seed in 0..RUNS {
            let run = |number: u64| stepping(0.05, seed * 100 + number);
            let (a, b) = (run(0), run(1));
            let others: Vec<_> = (2..2 + others).map(run).collect();
            let spread = Spread::of([others.iter().map(Vec::as_slice).collect()]).unwrap();
            let known = RunRatio::of(&b, &a, Between::Measured(spread), 1).unwrap();
            wrong += usize::from(!known.interval.contains(1.0));
            let unknown = RunRatio::of(&b, &a, Between::Assumed, 1).unwrap();
            assumed_wrong += usize::from(!unknown.interval.contains(1.0));
        }
        println!("{others} others: {:.1} assumed: {:.1}", percent(wrong), percent(assumed_wrong));
        assert!(percent(wrong) <= 5.6, "{others} others: {}%", percent(wrong));
        // This is what the assumption cannot see, and why the documentation says so.
        assert!(percent(assumed_wrong) >= 50.0, "{}%", percent(assumed_wrong));
    }
}

#[test]
fn of_ten_arms_that_are_the_same_one_is_rarely_called_different() {
    let machine = &MACHINES[0];
    let wrong = (0..RUNS).filter(|seed| {
        (0..10).any(|arm| {
            let number = (seed * 10 + arm) * 2;
            let (a, b) = (samples(machine, 10, number), samples(machine, 10, number + 1));
            !RunRatio::of(&b, &a, Between::Assumed, 10).unwrap().interval.contains(1.0)
        })
    });
    assert!(percent(wrong.count()) <= 5.0);
}

#[test]
fn what_a_run_is_said_to_show_is_found_in_four_of_five_cases() {
    let machine = &MACHINES[0];
    let (mut found, mut shows) = (0, Vec::new());
    for seed in 0..RUNS {
        let (a, b) = (samples(machine, 10, 2 * seed), samples(machine, 10, 2 * seed + 1));
        shows.push(RunRatio::of(&b, &a, Between::Assumed, 1).unwrap().shows_from);
    }
    shows.sort_by(f64::total_cmp);
    let shown = shows[shows.len() / 2];
    for seed in 0..RUNS {
        let (a, b) = (samples(machine, 10, 2 * seed), samples(machine, 10, 2 * seed + 1));
        let faster: Vec<f64> = b.iter().map(|value| value * (1.0 + shown)).collect();
        let ratio = RunRatio::of(&faster, &a, Between::Assumed, 1).unwrap();
        found += usize::from(ratio.interval.low > 1.0);
    }
    println!("shows {:.1}%, found in {:.1}%", shown * 100.0, percent(found));
    // The assumption is the wider one for noise that is white, so more than promised are found.
    assert!(percent(found) >= 78.0, "{}", percent(found));
}

#[test]
fn the_interval_is_students_where_it_can_be_looked_up() {
    // Logarithms of 1 to 5 and 11 to 15: variance 2.5 each, which counts twice, and 8 degrees.
    let run = |from: i32| (from..from + 5).map(|log| f64::from(log).exp()).collect::<Vec<_>>();
    let found = RunRatio::of(&run(11), &run(1), Between::Assumed, 1).unwrap();
    let reach = 2.306 * 10.0_f64.sqrt();
    assert!((found.ratio.ln() - 10.0).abs() < 1e-9);
    assert!((found.interval.low.ln() - (10.0 - reach)).abs() < 2e-3, "{found:?}");
    assert!((found.interval.high.ln() - (10.0 + reach)).abs() < 2e-3, "{found:?}");
    // Of five intervals each is a 99% one: 3.355.
    let of_five = RunRatio::of(&run(11), &run(1), Between::Assumed, 5).unwrap();
    let reach = 3.355 * 10.0_f64.sqrt();
    assert!((of_five.interval.high.ln() - (10.0 + reach)).abs() < 3e-3, "{of_five:?}");
}

#[test]
fn runs_that_cannot_be_compared_are_refused() {
    assert!(RunRatio::of(&[1.0, 2.0], &[1.0, 2.0, 3.0], Between::Assumed, 1).is_err());
    assert!(RunRatio::of(&[1.0, 2.0, 0.0], &[1.0, 2.0, 3.0], Between::Assumed, 1).is_err());
    assert!(RunRatio::of(&[1.0, 2.0, f64::NAN], &[1.0; 3], Between::Assumed, 1).is_err());
    let equal = RunRatio::of(&[2.0; 4], &[1.0; 4], Between::Assumed, 1).unwrap();
    assert_eq!((equal.ratio, equal.interval.low), (2.0, 2.0), "no noise, no doubt");
    assert_eq!(Spread::of([vec![&[1.0, 1.0, 1.0][..]; 4]]), None, "three degrees are too few");
}
