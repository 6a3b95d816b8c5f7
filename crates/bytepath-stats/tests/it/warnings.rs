//! Outliers, drift and two modes: found where they are, seldom where they are not.

use bytepath_stats::{drift, outliers, two_modes};

use crate::machines::State;

const RUNS: u64 = 4000;

/// In how many percent of runs of `blocks` samples `odd` holds.
fn percent(blocks: usize, sample: fn(&mut State) -> f64, odd: fn(&[f64]) -> bool) -> f64 {
    let hits = (0..RUNS).filter(|seed| {
        let mut state = State::new(*seed);
        let samples: Vec<f64> = (0..blocks).map(|_| sample(&mut state).exp()).collect();
        odd(&samples)
    });
    hits.count() as f64 * 100.0 / RUNS as f64
}

fn normal(state: &mut State) -> f64 {
    0.05 * state.normal()
}

fn uniform(state: &mut State) -> f64 {
    0.2 * state.random.f64()
}

fn exponential(state: &mut State) -> f64 {
    -0.1 * (1.0 - state.random.f64()).ln()
}

#[test]
fn a_sample_far_from_the_others_is_an_outlier_and_stays() {
    let samples = [10.0, 10.1, 9.9, 10.2, 3.3, 10.0, 9.8];
    assert_eq!(outliers(&samples), [false, false, false, false, true, false, false]);
}

#[test]
fn equal_samples_do_not_make_every_other_one_an_outlier() {
    assert_eq!(outliers(&[5.0; 8]), [false; 8]);
    let mut samples = [5.0; 20];
    samples[3] = 15.0;
    assert_eq!(outliers(&samples).iter().filter(|flag| **flag).count(), 1);
}

#[test]
fn few_or_impossible_samples_have_no_oddities() {
    assert_eq!(outliers(&[1.0, 1.0, 9.0]), [false; 3]);
    assert_eq!(outliers(&[1.0, 1.0, 0.0, 1.0, 1.0, 1.0]), [false; 6]);
    assert_eq!(drift(&[1.0, 2.0, 3.0, 4.0, 5.0]), None);
    assert_eq!(two_modes(&[1.0, 1.0, 1.0, 2.0, 2.0, 2.0]), None);
}

#[test]
fn undisturbed_samples_are_seldom_odd() {
    for blocks in [6, 10, 20, 50] {
        let outlying = percent(blocks, normal, |samples| outliers(samples).contains(&true));
        let drifting = percent(blocks, normal, |samples| drift(samples).is_some());
        let modes = [normal, uniform, exponential]
            .map(|noise| percent(blocks, noise, |samples| two_modes(samples).is_some()));
        println!("{blocks} blocks: outlier {outlying}, drift {drifting}, modes {modes:?}");
        assert!(drifting <= 1.0, "{drifting}% of runs of {blocks} drift");
        assert!(modes[0] <= 1.0 && modes[1].max(modes[2]) <= 5.0, "{modes:?}% of {blocks}");
        if blocks == 10 {
            assert!(outlying <= 5.0, "{outlying}% of runs have an outlier");
        }
    }
}

#[test]
fn a_drift_is_found_and_measured() {
    let samples: Vec<f64> = (0..10).map(|block| 100.0 * 1.01_f64.powi(block)).collect();
    let found = drift(&samples).expect("1% a block over ten blocks is a drift");
    assert!((found.total_share - (1.01_f64.powi(9) - 1.0)).abs() < 1e-9);
    assert!(found.p < 0.001);
}

#[test]
fn one_outlier_neither_makes_nor_hides_a_drift() {
    let mut flat = [10.0, 10.01, 9.99, 10.02, 9.98, 10.0, 10.01, 9.99, 10.0, 10.0];
    flat[9] = 30.0;
    assert_eq!(drift(&flat), None);
    let mut rising: Vec<f64> = (0..12).map(|block| 100.0 + 2.0 * f64::from(block)).collect();
    rising[3] = 30.0;
    assert!(drift(&rising).is_some());
}

#[test]
fn a_drift_too_small_to_matter_is_not_told() {
    let samples: Vec<f64> = (0..10).map(|block| 100.0 + 0.1 * f64::from(block)).collect();
    assert_eq!(drift(&samples), None);
}

#[test]
fn two_modes_are_found_and_named() {
    let samples = [2.0, 2.02, 3.0, 1.98, 3.02, 2.01, 2.98, 2.0, 3.01, 1.99];
    let modes = two_modes(&samples).expect("2 and 3 are two modes");
    assert_eq!((modes.low_samples, modes.high_samples), (6, 4));
    assert!((modes.low - 2.0).abs() < 0.01 && (modes.high - 3.0).abs() < 0.02);
}

#[test]
fn two_outliers_are_not_a_mode() {
    assert_eq!(two_modes(&[2.0, 2.02, 3.0, 1.98, 3.02, 2.01, 2.03, 2.0, 1.97, 1.99]), None);
}

#[test]
fn a_mode_of_less_than_a_fifth_is_none_and_is_not_filled_up_from_the_other() {
    for (few, all) in [(9, 50), (17, 100), (2, 14)] {
        let samples = |few: u32| -> Vec<f64> {
            let noise = |at: u32| 1.0 + 0.001 * f64::from(at % 7);
            (0..all).map(|at| if at < few { 2.0 } else { 3.0 } * noise(at)).collect()
        };
        assert_eq!(two_modes(&samples(few)), None, "{few} of {all}");
        let enough = all.div_ceil(5);
        let found = two_modes(&samples(enough)).map(|modes| modes.low_samples);
        assert_eq!(found, Some(enough as usize), "{enough} of {all}");
    }
}

#[test]
fn two_modes_are_seldom_missed() {
    let found = percent(
        10,
        |state| f64::from(state.random.bool()) * 0.3 + 0.02 * state.normal(),
        |samples| two_modes(samples).is_some(),
    );
    println!("found {found}");
    // In 11% of such runs one of the modes comes up less than three times.
    assert!(found >= 85.0, "{found}%");
}
