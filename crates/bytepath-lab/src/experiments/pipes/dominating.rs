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

/// That no cost dominates is said only after so many were looked at.
const EFFECTS_MIN: usize = 3;

/// One plain sentence on what dominates; `None` where the arms to tell it did not run, or the run
/// is not to be trusted.
pub fn dominating(record: &Record) -> Option<String> {
    if !record.trusted {
        return None;
    }
    let found: Vec<_> = effects(record)
        .into_iter()
        .filter_map(|effect| Some((ratio(record, &effect)?, effect)))
        .collect();
    let looked_at = found.len();
    let largest = found
        .into_iter()
        .filter(|(ratio, effect)| *ratio >= RATIO_MIN && apart(record, effect))
        .max_by(|(a, _), (b, _)| a.total_cmp(b));
    let Some((ratio, effect)) = largest else {
        let close = "No single cost dominates on this machine: the rungs are close";
        return (looked_at >= EFFECTS_MIN).then(|| close.to_owned());
    };
    let shown = numbers::figure(ratio);
    let arms = format!(" ({} against {})", effect.without, effect.with);
    Some(effect.sentence.replace("{}", &shown) + &arms)
}

fn effects(record: &Record) -> Vec<Effect> {
    let mut effects = Vec::new();
    for placement in placements(record) {
        let at = |rung: &str| format!("{rung}@{placement}");
        let apart = placement != "same-cpu";
        if apart {
            effects.push(Effect {
                with: at("write-read"),
                without: "write-read@same-cpu".to_owned(),
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
        effects.push(Effect {
            with: at("write-read"),
            without: at("vmsplice-splice"),
            sentence: "Copying dominates on this machine: handing over pages instead is {} times as \
                       fast",
        });
        effects.push(Effect {
            with: at("vmsplice-splice"),
            without: at("vmsplice-splice-huge"),
            sentence: "Walking page tables dominates on this machine: huge pages make it {} times as \
                       fast",
        });
    }
    effects
}

fn placements(record: &Record) -> Vec<&str> {
    let mut placements: Vec<&str> =
        record.arms.iter().filter_map(|arm| Some(arm.name.split_once('@')?.1)).collect();
    placements.sort_unstable();
    placements.dedup();
    placements
}

fn ratio(record: &Record, effect: &Effect) -> Option<f64> {
    let arm = |name: &str| record.arms.iter().find(|arm| arm.name == name);
    lab::times(arm(&effect.without)?, arm(&effect.with)?)
}

/// Whether the intervals of the two arms have nothing in common.
fn apart(record: &Record, effect: &Effect) -> bool {
    let interval = |name: &str| record.arms.iter().find(|arm| arm.name == name)?.ci95;
    match (interval(&effect.with), interval(&effect.without)) {
        (Some([_, with_high]), Some([without_low, _])) => with_high < without_low,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytepath_report::{Arm, Build, Experiment, Machine, SchemaName, Unit};

    use super::*;

    fn record(figures: &[(&str, f64)]) -> Record {
        let arm = |(name, median): &(&str, f64)| Arm {
            median: Some(*median),
            ci95: Some([median * 0.95, median * 1.05]),
            ..Arm::new(*name, Unit::GibPerSecond)
        };
        Record {
            schema: SchemaName::V1,
            id: String::new(),
            started: String::new(),
            bytepath: Build::default(),
            machine: Machine::default(),
            experiment: Experiment::default(),
            settings: BTreeMap::new(),
            blocks: 1,
            trusted: true,
            untrusted_why: None,
            control: None,
            arms: figures.iter().map(arm).collect(),
            notes: Vec::new(),
        }
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

    #[test]
    fn nothing_is_said_without_the_arms_that_show_it() {
        assert_eq!(dominating(&record(&[("gift-read@same-cpu", 1.0)])), None);
    }
}
