//! A verdict in words.

use crate::arm::Verdict;

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
    use super::*;

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
