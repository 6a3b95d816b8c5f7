//! Medians, intervals, ratios and verdicts on samples that can be checked by hand.

use bytepath_stats::{
    Decision, Interval, Ratio, StatsError, UNTIL_CI_BLOCKS_MIN, UNTIL_CI_CONSECUTIVE, UntilCi,
    bootstrap_median_interval, drift, median, median_interval, percentile, two_modes,
};

fn interval(low: f64, high: f64) -> Interval {
    Interval { low, high }
}

#[test]
fn the_median_is_the_middle_or_the_mean_of_the_two_middle_values() {
    assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 3.0, 2.0]), Some(2.5));
    assert_eq!(median(&[]), None);
}

#[test]
fn percentiles_are_interpolated_and_end_at_the_extremes() {
    let values = [40.0, 10.0, 20.0, 30.0];
    assert_eq!(percentile(&values, 0.0), Some(10.0));
    assert_eq!(percentile(&values, 100.0), Some(40.0));
    assert_eq!(percentile(&values, 25.0), Some(17.5));
}

/// The medians of that many resamples, drawn at random, and their 2.5% and 97.5% points.
fn drawn_bootstrap(values: &[f64], resamples: usize) -> Interval {
    let mut random = fastrand::Rng::with_seed(11);
    let medians: Vec<f64> = (0..resamples)
        .map(|_| {
            let resample: Vec<f64> =
                values.iter().map(|_| *random.choice(values).unwrap()).collect();
            median(&resample).unwrap()
        })
        .collect();
    interval(percentile(&medians, 2.5).unwrap(), percentile(&medians, 97.5).unwrap())
}

#[test]
fn the_exact_bootstrap_is_what_drawing_tends_to() {
    let values: Vec<f64> = (0..21).map(|i| 10.0 + f64::from(i * i) / 10.0).collect();
    for blocks in [3, 4, 9, 10, 20, 21] {
        let exact = bootstrap_median_interval(&values[..blocks]);
        let drawn = drawn_bootstrap(&values[..blocks], 40_000);
        // The distribution has steps, and drawing may land on the neighbouring one.
        let step = (values[blocks - 1] - values[0]) / 15.0;
        assert!((exact.low - drawn.low).abs() <= step, "{blocks}: {exact:?} {drawn:?}");
        assert!((exact.high - drawn.high).abs() <= step, "{blocks}: {exact:?} {drawn:?}");
    }
}

#[test]
fn the_bootstrap_copes_with_a_hundred_thousand_blocks() {
    for blocks in [999, 1000, 1001, 100_000] {
        let values: Vec<f64> = (0..blocks).map(f64::from).collect();
        let found = bootstrap_median_interval(&values);
        // The median's rank deviates by half the root of the number of values.
        let reach = 1.96 * f64::from(blocks).sqrt() / 2.0;
        assert!((found.high - found.low - 2.0 * reach).abs() < 5.0, "{found:?} for {blocks}");
    }
}

/// As many as a run of a short command has in an hour: by the square of their number it would take 80 GB.
#[test]
fn a_hundred_thousand_blocks_are_compared_and_looked_through() {
    let mut random = fastrand::Rng::with_seed(5);
    let mut noise = |centre: f64| -> Vec<f64> {
        (0..100_000).map(|_| centre * (1.0 + 0.1 * (random.f64() - 0.5))).collect()
    };
    let (reference, arm) = (noise(1.0), noise(1.5));
    let ratio = Ratio::of(&arm, &reference).expect("they pair up");
    assert!(ratio.interval.contains(1.5) && ratio.interval.high - ratio.interval.low < 0.002);
    let found = median_interval(&reference).expect("an interval");
    assert!(found.contains(1.0) && found.high - found.low < 0.002, "{found:?}");
    assert_eq!((drift(&reference), two_modes(&reference)), (None, None));
    let rising: Vec<f64> =
        reference.iter().enumerate().map(|(i, value)| value * (1.0 + i as f64 / 1e6)).collect();
    let total = drift(&rising).expect("it rises").total_share;
    assert!((total - 0.1).abs() < 0.01, "{total}");
    let both: Vec<f64> = arm.iter().zip(&reference).flat_map(|(a, b)| [*a, *b]).collect();
    let modes = two_modes(&both).expect("there are two");
    assert_eq!((modes.low_samples, modes.high_samples), (100_000, 100_000));
}

#[test]
fn equal_samples_have_an_interval_without_width() {
    for blocks in [3, 5, 6, 11] {
        let found = median_interval(&vec![4.0; blocks]).unwrap();
        assert!((found.low - 4.0).abs() < 1e-12 && (found.high - 4.0).abs() < 1e-12);
    }
}

#[test]
fn an_interval_holds_the_median_to_its_last_digit() {
    for value in [0.01, 0.1, 0.3, 3.7, 1e-7] {
        for blocks in [3, 10] {
            let equal = vec![value; blocks];
            assert!(median_interval(&equal).unwrap().contains(value), "{value}");
            let ratio = Ratio::of(&equal, &vec![0.7; blocks]).unwrap();
            assert!(ratio.interval.contains(ratio.median), "{ratio:?}");
        }
    }
}

#[test]
fn intervals_hold_their_point_and_scale_with_the_unit() {
    let arm = [2.1, 2.0, 2.3, 1.9, 2.2, 2.0, 2.1, 9.0];
    let reference = [1.0, 1.1, 1.0, 0.9, 1.2, 1.0, 0.3, 1.0];
    for blocks in 3..=arm.len() {
        let (arm, reference) = (&arm[..blocks], &reference[..blocks]);
        let ratio = Ratio::of(arm, reference).unwrap();
        assert!(ratio.interval.contains(ratio.median), "{ratio:?}");
        let thousandfold: Vec<f64> = arm.iter().map(|value| value * 1000.0).collect();
        let scaled = Ratio::of(&thousandfold, reference).unwrap();
        assert!((scaled.interval.low / ratio.interval.low - 1000.0).abs() < 1e-6);
        assert!(median_interval(arm).unwrap().contains(median(arm).unwrap()));
    }
}

#[test]
fn the_ratio_the_other_way_round_has_the_inverse_interval() {
    let (a, b) = ([2.0, 2.2, 1.9, 2.1, 2.0, 2.3], [1.0, 1.2, 1.1, 1.0, 0.9, 1.1]);
    let (there, back) = (Ratio::of(&a, &b).unwrap(), Ratio::of(&b, &a).unwrap());
    assert!((there.interval.low * back.interval.high - 1.0).abs() < 1e-12);
    assert!((there.interval.high * back.interval.low - 1.0).abs() < 1e-12);
}

#[test]
fn a_level_that_wanders_between_blocks_does_not_blur_the_ratio() {
    let reference: Vec<f64> = (0..10).map(|block| 1.3_f64.powi(block)).collect();
    let arm: Vec<f64> = reference.iter().map(|value| value * 1.1).collect();
    let ratio = Ratio::of(&arm, &reference).unwrap();
    assert!(ratio.interval.low > 1.0999 && ratio.interval.high < 1.1001);
}

#[test]
fn what_was_not_measured_is_refused() {
    assert_eq!(median_interval(&[1.0]), Err(StatsError::TooFewBlocks { blocks: 1 }));
    assert_eq!(median_interval(&[1.0, 1.0]), Err(StatsError::TooFewBlocks { blocks: 2 }));
    assert_eq!(median_interval(&[]), Err(StatsError::TooFewBlocks { blocks: 0 }));
    let zero = StatsError::NotPositive { block: 1, value: 0.0 };
    assert_eq!(median_interval(&[1.0, 0.0]), Err(zero));
    assert_eq!(Ratio::of(&[1.0, 2.0, 1.0], &[1.0, 0.0, 1.0]), Err(zero));
    let unpaired = StatsError::Unpaired { arm: 1, reference: 2 };
    assert_eq!(Ratio::of(&[1.0], &[1.0, 2.0]), Err(unpaired));
    assert!(median_interval(&[1.0, f64::NAN]).is_err());
}

#[test]
fn a_run_stops_when_the_interval_stays_narrow_but_not_before_the_minimum() {
    let mut rule = UntilCi::new(2.0);
    for _ in 1..UNTIL_CI_BLOCKS_MIN {
        assert_eq!(rule.after_block(0.001), Decision::Continue);
    }
    assert_eq!(rule.after_block(0.02), Decision::Reached);
}

#[test]
fn one_wide_interval_starts_the_count_again() {
    let mut rule = UntilCi::new(2.0).within(1, 100);
    for width in [0.01, 0.01, 0.03] {
        assert_eq!(rule.after_block(width), Decision::Continue);
    }
    for _ in 1..UNTIL_CI_CONSECUTIVE {
        assert_eq!(rule.after_block(0.01), Decision::Continue);
    }
    assert_eq!(rule.after_block(0.01), Decision::Reached);
}

#[test]
fn a_run_that_never_narrows_gives_up_at_the_maximum() {
    let mut rule = UntilCi::new(2.0).within(10, 12);
    let decisions: Vec<Decision> = (0..12).map(|_| rule.after_block(f64::INFINITY)).collect();
    assert!(decisions[..11].iter().all(|decision| *decision == Decision::Continue));
    assert_eq!(decisions[11], Decision::GaveUp);
}

#[test]
fn a_half_width_is_a_share_of_its_figure() {
    assert!((interval(98.0, 102.0).relative_half_width(100.0) - 0.02).abs() < 1e-12);
    assert_eq!(<[f64; 2]>::from(interval(1.0, 2.0)), [1.0, 2.0]);
}
