//! How often the comparison calls runs of one thing different: every pair of them is compared.

use bytepath_report::{Record, Verdict};

use super::{CompareError, Run, Settings, compare, is_like};

/// What came of comparing all pairs of runs of one thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FalsePositives {
    /// How many pairs of runs.
    pub pairs: usize,
    /// Pairs in which an arm is called faster or slower.
    pub pairs_different: usize,
    /// How many arms were compared, over all pairs.
    pub arms: usize,
    /// Those that are called faster or slower.
    pub arms_different: usize,
    /// Those that are called same.
    pub arms_same: usize,
}

/// Compares all pairs of runs of one thing, as if nothing else were known, or with all others
/// telling how far runs lie apart.
///
/// # Errors
/// As [`compare`]; and some are not like the first.
pub fn false_positives(
    runs: &[Run],
    with_others: bool,
    settings: &Settings,
) -> Result<FalsePositives, CompareError> {
    let mut found =
        FalsePositives { pairs: 0, pairs_different: 0, arms: 0, arms_different: 0, arms_same: 0 };
    let [first, _, ..] = runs else { return Err(CompareError::Count(runs.len())) };
    if let Some(other) = runs.iter().find(|run| !is_like(&first.record, &run.record)) {
        let (a, b) = (first.name.clone(), other.name.clone());
        let what = "their builds, machines, settings or numbers of blocks differ".to_owned();
        return Err(CompareError::OtherWork { a, b, what });
    }
    let others: Option<Vec<Record>> =
        with_others.then(|| runs.iter().map(|run| run.record.clone()).collect());
    for (index, base) in runs.iter().enumerate() {
        for run in &runs[index + 1..] {
            let comparison = compare(&[base.clone(), run.clone()], others.as_deref(), settings)?;
            let verdicts = comparison.arms.iter().filter_map(|arm| arm.runs[1].as_ref()?.verdict);
            let verdicts: Vec<Verdict> = verdicts.collect();
            let count = |of: &[Verdict]| verdicts.iter().filter(|found| of.contains(found)).count();
            let different = count(&[Verdict::Faster, Verdict::Slower]);
            found.pairs += 1;
            found.pairs_different += usize::from(different > 0);
            found.arms += verdicts.len();
            found.arms_different += different;
            found.arms_same += count(&[Verdict::Same]);
        }
    }
    Ok(found)
}
