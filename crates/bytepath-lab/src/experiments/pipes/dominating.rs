//! The sentence under the table: which cost dominates on this machine, from the figures alone.

use bytepath_report::{Record, numbers};

use crate::lab;

/// A cost that the ladder shows by removing it: two arms that differ in nothing else.
struct Effect {
    /// With the cost.
    with: String,
    /// Without it.
    without: String,
    /// The sentence, `{}` being the ratio.
    sentence: &'static str,
}

/// Below this ratio no cost dominates.
const RATIO_MIN: f64 = 1.3;

/// Copies are the step between two arms only where one wakes the other at most so many times as often
/// as the other: pages that are handed over fill a pipe in fewer turns, on some machines in far fewer.
const SWITCHES_RATIO_MAX: f64 = 4.0;

/// That no cost dominates is said only after so many were looked at.
const EFFECTS_MIN: usize = 3;

/// Where the interval of the A/A control reaches further than this, a run tells no arm from another.
const CONTROL_REACH_MAX: f64 = 2.0;

/// One plain sentence on what dominates, or on why that cannot be said; `None` where the arms to tell
/// it did not run, or the run is not to be trusted.
pub fn dominating(record: &Record) -> Option<String> {
    if !record.trusted {
        return None;
    }
    let found: Vec<_> = effects(record)
        .into_iter()
        .filter_map(|effect| Some((ratio(record, &effect)?, effect)))
        .collect();
    let looked_at = found.len();
    if let Some(why) = disturbed(record).filter(|_| looked_at > 0) {
        return Some(format!("Nothing can be said of what dominates on this machine: {why}"));
    }
    let all_small = found.iter().all(|(_, effect)| is_small(record, effect));
    let largest = found
        .into_iter()
        .filter(|(ratio, effect)| *ratio >= RATIO_MIN && apart(record, effect))
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    let Some((ratio, effect)) = largest else {
        let none = if all_small {
            "No single cost dominates on this machine: none of the ladder's steps gains 30%"
        } else {
            "Nothing can be said of what dominates on this machine: the intervals of the ladder's \
             steps overlap"
        };
        return (looked_at >= EFFECTS_MIN).then(|| none.to_owned());
    };
    let shown = numbers::figure(ratio);
    let arms = format!(" ({} against {})", effect.without, effect.with);
    Some(effect.sentence.replace("{}", &shown) + &arms)
}

/// Why nothing can be said, where the run's own signs are against it.
fn disturbed(record: &Record) -> Option<String> {
    let samples: usize = record.arms.iter().map(|arm| arm.samples.len()).sum();
    let flagged: usize = record.arms.iter().map(bytepath_report::Arm::flagged).sum();
    if flagged * 2 > samples {
        return Some(format!("others disturbed {flagged} of {samples} samples"));
    }
    let [low, high] = record.control.as_ref()?.ratio_ci95;
    (low < 1.0 / CONTROL_REACH_MAX || high > CONTROL_REACH_MAX).then(|| {
        let interval = numbers::ratio_interval([low, high]);
        format!("the A/A control, one arm against itself, came to {interval} times")
    })
}

fn effects(record: &Record) -> Vec<Effect> {
    let mut effects = Vec::new();
    for place in places(record) {
        let at = |rung: &str| format!("{rung}@{place}");
        let (placement, axes) = place.split_at(place.find('/').unwrap_or(place.len()));
        let apart = placement != "same-cpu";
        if apart {
            effects.push(Effect {
                with: at("write-read"),
                without: format!("write-read@same-cpu{axes}"),
                sentence: "Waking the other CPU dominates on this machine: plain write and read are \
                           {} times as fast when both ends share a CPU and need not wake another",
            });
            effects.push(Effect {
                with: at("vmsplice-splice-huge"),
                without: at("vmsplice-splice-huge-spin"),
                sentence: "Waking the other CPU dominates on this machine: ends that spin instead of \
                           sleeping are {} times as fast",
            });
        }
        let copying = Effect {
            with: at("write-read"),
            without: at("vmsplice-splice"),
            sentence: "Copying dominates on this machine: handing over pages instead is {} times as \
                       fast",
        };
        effects.extend(Some(copying).filter(|effect| switches_alike(record, effect)));
        effects.push(Effect {
            with: at("vmsplice-splice"),
            without: at("vmsplice-splice-huge"),
            sentence: "Walking page tables dominates on this machine: huge pages make it {} times as \
                       fast",
        });
    }
    effects
}

/// The placements of arms, each with the axes that are crossed with it: `cross-cpu/pipe=64K`.
fn places(record: &Record) -> Vec<&str> {
    let mut places: Vec<&str> =
        record.arms.iter().filter_map(|arm| Some(arm.name.split_once('@')?.1)).collect();
    places.sort_unstable();
    places.dedup();
    places
}

fn ratio(record: &Record, effect: &Effect) -> Option<f64> {
    let arm = |name: &str| record.arms.iter().find(|arm| arm.name == name);
    lab::times(arm(&effect.without)?, arm(&effect.with)?)
}

/// Whether the ends wait for each other about as often in both arms, as far as that was counted.
fn switches_alike(record: &Record, effect: &Effect) -> bool {
    let switches = |name: &str| {
        let arm = record.arms.iter().find(|arm| arm.name == name)?;
        arm.costs?.context_switches_per_gib
    };
    switches(&effect.with)
        .zip(switches(&effect.without))
        .is_none_or(|(with, without)| with <= without * SWITCHES_RATIO_MAX)
}

/// Whether the intervals of the two arms have nothing in common.
fn apart(record: &Record, effect: &Effect) -> bool {
    intervals(record, effect)
        .is_some_and(|([_, with_high], [without_low, _])| with_high < without_low)
}

/// Whether the intervals leave no room for an effect that would dominate.
fn is_small(record: &Record, effect: &Effect) -> bool {
    intervals(record, effect)
        .is_some_and(|([with_low, _], [_, without_high])| without_high < with_low * RATIO_MIN)
}

/// The intervals with the cost and without it.
fn intervals(record: &Record, effect: &Effect) -> Option<([f64; 2], [f64; 2])> {
    let interval = |name: &str| record.arms.iter().find(|arm| arm.name == name)?.ci95;
    Some((interval(&effect.with)?, interval(&effect.without)?))
}

#[cfg(test)]
mod tests {
    use bytepath_report::{Arm, Control, Costs, Sample, Unit};

    use super::*;
    use crate::experiments::record_of;

    fn record(figures: &[(&str, f64)]) -> Record {
        let arm = |(name, median): &(&str, f64)| Arm {
            median: Some(*median),
            ci95: Some([median * 0.95, median * 1.05]),
            ..Arm::new(*name, Unit::GibPerSecond)
        };
        record_of(figures.iter().map(arm).collect())
    }

    #[test]
    fn the_largest_effect_is_named_with_its_arms() {
        let virtual_machine = record(&[
            ("write-read@same-cpu", 8.5),
            ("write-read@cross-cpu", 0.8),
            ("vmsplice-splice@cross-cpu", 2.9),
            ("vmsplice-splice-huge@cross-cpu", 3.8),
            ("vmsplice-splice-huge-spin@cross-cpu", 58.0),
        ]);
        let said = dominating(&virtual_machine).expect("a sentence");
        assert!(said.contains("ends that spin instead of sleeping are 15.3 times"), "{said}");
        let laptop = record(&[("write-read@cross-cpu", 3.7), ("vmsplice-splice@cross-cpu", 32.8)]);
        let said = dominating(&laptop).expect("a sentence");
        assert!(said.starts_with("Copying dominates") && said.contains("8.86"), "{said}");
    }

    #[test]
    fn arms_of_crossed_axes_are_compared_where_the_axes_are_alike() {
        let crossed = record(&[
            ("write-read@same-cpu/pipe=64K", 8.0),
            ("write-read@cross-cpu/pipe=64K", 0.8),
            ("write-read@same-cpu/pipe=1M", 9.0),
            ("write-read@cross-cpu/pipe=1M", 4.5),
            ("vmsplice-splice-huge@same-cpu/pipe=1M", 1.0),
            ("vmsplice-splice-huge-spin@same-cpu/pipe=1M", 90.0),
        ]);
        let said = dominating(&crossed).expect("a sentence");
        let arms = "(write-read@same-cpu/pipe=64K against write-read@cross-cpu/pipe=64K)";
        assert!(said.contains("10.0 times") && said.ends_with(arms), "{said}");
    }

    #[test]
    fn copies_do_not_answer_for_wake_ups_that_went_with_them() {
        let mut record = record(&[
            ("write-read@same-cpu", 4.3),
            ("vmsplice-splice@same-cpu", 20.0),
            ("write-read@cross-cpu", 0.74),
            ("vmsplice-splice@cross-cpu", 39.5),
        ]);
        let switches = [32_800.0, 16_400.0, 32_700.0, 48.9];
        for (arm, switches) in record.arms.iter_mut().zip(switches) {
            let costs = Costs { context_switches_per_gib: Some(switches), ..Costs::default() };
            arm.costs = Some(costs);
        }
        let said = dominating(&record).expect("a sentence");
        assert!(said.starts_with("Waking the other CPU dominates"), "{said}");
    }

    #[test]
    fn an_effect_within_the_noise_and_a_run_not_to_be_trusted_say_nothing() {
        let mut record =
            record(&[("write-read@cross-cpu", 3.7), ("vmsplice-splice@cross-cpu", 32.8)]);
        record.arms[0].ci95 = Some([1.0, 50.0]);
        assert_eq!(dominating(&record), None);
        record.arms[0].ci95 = Some([3.6, 3.8]);
        assert!(dominating(&record).is_some());
        record.trusted = false;
        assert_eq!(dominating(&record), None);
    }

    /// Three steps of which none gains anything, in intervals that reach so far.
    fn flat(reach: f64) -> Record {
        let mut flat = record(&[
            ("write-read@same-cpu", 3.0),
            ("vmsplice-splice@same-cpu", 3.1),
            ("vmsplice-splice-huge@same-cpu", 3.0),
            ("write-read@cross-cpu", 2.9),
        ]);
        for arm in &mut flat.arms {
            arm.ci95 = arm.median.map(|median| [median / reach, median * reach]);
        }
        flat
    }

    #[test]
    fn that_nothing_dominates_is_said_only_where_the_intervals_show_it() {
        let said = dominating(&flat(1.05)).expect("a sentence");
        assert!(said.starts_with("No single cost dominates"), "{said}");
        let said = dominating(&flat(30.0)).expect("a sentence");
        assert!(said.starts_with("Nothing can be said") && said.contains("overlap"), "{said}");
    }

    #[test]
    fn nothing_can_be_said_of_a_disturbed_run_and_why_is_said() {
        let mut clear =
            record(&[("write-read@cross-cpu", 3.7), ("vmsplice-splice@cross-cpu", 32.8)]);
        let sample = |flagged| Sample { flagged, ..Sample::default() };
        clear.arms[0].samples = vec![sample(true), sample(false)];
        clear.arms[1].samples = vec![sample(false), sample(true)];
        let control = |ratio_ci95| Control {
            arm: "A/A".to_owned(),
            ratio: 1.0,
            ratio_ci95,
            samples: Vec::new(),
        };
        clear.control = Some(control([0.7, 1.6]));
        let said = dominating(&clear).expect("a sentence");
        assert!(said.starts_with("Copying dominates"), "{said}");
        clear.control = Some(control([0.0137, 433.0]));
        let said = dominating(&clear).expect("a sentence");
        assert!(
            said.starts_with("Nothing can be said") && said.contains("[0.0137, 433]"),
            "{said}"
        );
        clear.control = None;
        clear.arms[0].samples[1].flagged = true;
        let said = dominating(&clear).expect("a sentence");
        assert!(said.contains("others disturbed 3 of 4 samples"), "{said}");
    }

    #[test]
    fn nothing_is_said_without_the_arms_that_show_it() {
        assert_eq!(dominating(&record(&[("gift-read@same-cpu", 1.0)])), None);
    }
}
