//! What the interval of a ratio says about an arm, and that in words.

use bytepath_stats::{Interval, Ratio};

use crate::arm::{Better, Verdict};
use crate::numbers;

/// What the interval of a ratio says about the arm.
///
/// `margin` is a share declared before the run (0.02 for ±2%). An interval wholly within it says
/// [`Verdict::Same`], also when it excludes 1: a difference is then proven, and proven not to
/// matter. This is the two one-sided tests of Schuirmann (1987) with 2.5% a side, which errs on
/// the side of `undecided`.
pub fn of(interval: Interval, better: Better, margin: f64) -> Verdict {
    assert!(margin >= 0.0, "a margin is a share of 0 or more, not {margin}");
    if interval.low >= 1.0 - margin && interval.high <= 1.0 + margin {
        return Verdict::Same;
    }
    if interval.contains(1.0) {
        return Verdict::Undecided;
    }
    match (interval.low > 1.0, better) {
        (true, Better::Higher) | (false, Better::Lower) => Verdict::Faster,
        (true, Better::Lower) | (false, Better::Higher) => Verdict::Slower,
    }
}

/// Why a run must not be trusted, given the ratio of the A/A control to the reference arm: both
/// did the same work, so an interval that excludes 1 was made by something else. `None` when the
/// control is clean. About one clean run in twenty to thirty is distrusted by chance.
pub fn untrusted_why(control: &Ratio) -> Option<String> {
    if control.interval.contains(1.0) {
        return None;
    }
    let interval = control.interval.into();
    Some(format!(
        "the reference arm differs from itself: ratio {} {} excludes 1; \
         something that is not the arms moves the figures; run again on a quieter machine, or \
         with more blocks",
        numbers::times(control.median, Some(interval)),
        numbers::ratio_interval(interval)
    ))
}

/// The verdict in words: `faster`, `slower`, `same within ±x%` or `undecided`.
///
/// The x is how far the 95% interval of the ratio reaches from 1, rounded up, so the interval lies
/// within 1 ± x%. Without an interval the word stands alone.
pub fn words(verdict: Verdict, ratio_ci95: Option<[f64; 2]>) -> String {
    match (verdict, ratio_ci95) {
        (Verdict::Faster, _) => "faster".to_owned(),
        (Verdict::Slower, _) => "slower".to_owned(),
        (Verdict::Undecided, _) => "undecided".to_owned(),
        (Verdict::Same, None) => "same".to_owned(),
        (Verdict::Same, Some(interval)) => format!("same within ±{}%", reach_percent(interval)),
    }
}

/// How far an interval reaches from 1, in percent, rounded up: whole percents, below 1 tenths.
fn reach_percent([low, high]: [f64; 2]) -> String {
    let reach = (low - 1.0).abs().max((high - 1.0).abs()) * 100.0;
    // The subtraction from 1 leaves an error of about 1e-14, which must not lift 2% to 3%.
    let reach = reach - 1e-9;
    if reach <= 0.9 {
        format!("{:.1}", (reach * 10.0).ceil().max(1.0) / 10.0)
    } else {
        format!("{}", reach.ceil())
    }
}

#[cfg(test)]
mod tests {
    use bytepath_stats::EQUIVALENCE_MARGIN;

    use super::*;

    fn interval(low: f64, high: f64) -> Interval {
        Interval { low, high }
    }

    #[test]
    fn verdicts_follow_the_interval_the_direction_and_the_margin() {
        let cases = [
            (interval(1.1, 1.3), Better::Higher, Verdict::Faster),
            (interval(1.1, 1.3), Better::Lower, Verdict::Slower),
            (interval(0.5, 0.9), Better::Higher, Verdict::Slower),
            (interval(0.5, 0.9), Better::Lower, Verdict::Faster),
            (interval(0.99, 1.01), Better::Higher, Verdict::Same),
            (interval(1.005, 1.015), Better::Higher, Verdict::Same),
            (interval(0.99, 1.03), Better::Higher, Verdict::Undecided),
            (interval(1.005, 1.03), Better::Higher, Verdict::Faster),
            (interval(0.97, 0.99), Better::Lower, Verdict::Faster),
        ];
        for (found, better, expected) in cases {
            assert_eq!(of(found, better, EQUIVALENCE_MARGIN), expected, "{found:?} {better:?}");
        }
    }

    #[test]
    fn a_control_that_differs_from_its_twin_makes_the_run_untrusted() {
        let reference = [10.0, 10.1, 9.9, 10.0, 10.2, 9.8, 10.0, 10.1, 9.9, 10.0];
        let slower: Vec<f64> = reference.iter().map(|value| value * 0.9).collect();
        let clean = Ratio::of(&reference, &reference).unwrap();
        assert_eq!(untrusted_why(&clean), None);
        let why = untrusted_why(&Ratio::of(&slower, &reference).unwrap()).unwrap();
        assert!(
            why.starts_with("the reference arm differs from itself: ratio 0.900 [0.900, 0.900]")
        );
        let hardly: Vec<f64> = reference.iter().map(|value| value * 1.0003).collect();
        let why = untrusted_why(&Ratio::of(&hardly, &reference).unwrap()).unwrap();
        assert!(why.contains("ratio 1.0003 [1.0003, 1.001] excludes 1"), "{why}");
    }

    #[test]
    fn same_names_a_margin_that_holds_the_whole_interval() {
        let cases = [
            ([0.98, 1.01], "same within ±2%"),
            ([0.99, 1.031], "same within ±4%"),
            ([0.9951, 1.002], "same within ±0.5%"),
            ([0.9905, 1.0], "same within ±1%"),
            ([1.0, 1.0], "same within ±0.1%"),
        ];
        for (interval, expected) in cases {
            assert_eq!(words(Verdict::Same, Some(interval)), expected, "{interval:?}");
        }
    }

    #[test]
    fn the_other_verdicts_are_one_word() {
        assert_eq!(words(Verdict::Faster, Some([1.2, 1.4])), "faster");
        assert_eq!(words(Verdict::Slower, Some([0.2, 0.4])), "slower");
        assert_eq!(words(Verdict::Undecided, Some([0.2, 1.4])), "undecided");
        assert_eq!(words(Verdict::Same, None), "same");
    }
}
