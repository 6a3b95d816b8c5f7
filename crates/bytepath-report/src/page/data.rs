//! What the page's charts are drawn from: exactly the record's figures, as JSON.

use serde::Serialize;

use crate::arm::{Arm, Sample, Status};
use crate::latency::{self, Latency};
use crate::record::Record;

use super::Limits;
use super::text::{NAME_MAX, SENTENCE_MAX, shown};
use super::tree::{Names, Tree};

/// All of a page's data.
#[derive(Serialize)]
pub(super) struct Data {
    runs: Vec<Run>,
    /// The names of frames, which trees count from 0.
    frames: Vec<String>,
}

#[derive(Serialize)]
struct Run {
    name: String,
    arms: Vec<ArmData>,
}

/// An arm; `None` and empty fields are left out, as most arms have few.
#[derive(Serialize)]
struct ArmData {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    section: Option<String>,
    unit: &'static str,
    better: &'static str,
    ok: bool,
    touched: bool,
    reference: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    median: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ci95: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio_ci95: Option<[f64; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    verdict: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<f64>,
    /// How many samples the record has.
    taken: usize,
    /// How many of all of them are disturbed.
    flagged: usize,
    samples: Vec<SampleData>,
    /// Points of the distribution of latencies: the share of requests, and the nanoseconds that so
    /// many took at most.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    latency: Vec<(f64, u64)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    costs: Option<crate::arm::Costs>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    classes: Vec<(String, f64, f64, f64, Option<f64>)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tree: Option<Tree>,
}

/// Block, order, value, seconds, flags (1: disturbed, 2: superseded), and what disturbed it.
#[derive(Serialize)]
struct SampleData(u32, u32, f64, f64, u8, Option<String>);

impl Data {
    /// The data of these records, within the limits.
    pub(super) fn of(records: &[Record], limits: &Limits) -> Data {
        let mut names = Names::default();
        let run = |record: &Record| {
            let arms = record.arms.iter().take(limits.arms);
            Run {
                name: shown(&record.experiment.name, NAME_MAX),
                arms: arms.map(|arm| arm_data(arm, limits, &mut names)).collect(),
            }
        };
        let runs = records.iter().map(run).collect();
        Data { runs, frames: names.all }
    }
}

fn arm_data(arm: &Arm, limits: &Limits, names: &mut Names) -> ArmData {
    let explained = arm.explained.as_ref();
    let tree = explained.map(|explained| Tree::of(&explained.stacks, limits.nodes, names));
    let class = |class: &crate::explained::ClassShare| {
        let [low, high] = class.ci95;
        (shown(&class.name, NAME_MAX), class.share, low, high, class.published)
    };
    ArmData {
        name: shown(&arm.name, NAME_MAX),
        section: arm.section.as_deref().map(|section| shown(section, NAME_MAX)),
        unit: arm.unit.as_str(),
        better: arm.better.as_str(),
        ok: arm.status == Status::Ok,
        touched: arm.touched || !arm.unit.is_of_bytes(),
        reference: arm.reference,
        median: arm.median,
        ci95: arm.ci95,
        ratio: arm.ratio_or_reference(),
        ratio_ci95: arm.ratio_ci95,
        verdict: arm.verdict.map(|verdict| verdict.as_str()),
        published: arm.published.as_ref().map(|published| published.value),
        taken: arm.samples.len(),
        flagged: arm.flagged(),
        samples: arm.samples.iter().take(limits.samples).map(sample_data).collect(),
        latency: Latency::of_arm(arm).map(|latency| curve(&latency)).unwrap_or_default(),
        costs: arm.costs,
        classes: explained
            .into_iter()
            .flat_map(|of| of.classes.iter().take(limits.classes).map(class))
            .collect(),
        tree: tree.filter(|tree| !tree.nodes.is_empty()),
    }
}

fn sample_data(sample: &Sample) -> SampleData {
    let flags = u8::from(sample.flagged) | u8::from(sample.superseded) << 1;
    let why = sample.flag_why.as_deref().map(|why| shown(why, SENTENCE_MAX / 10));
    SampleData(sample.block, sample.order, sample.value, sample.seconds, flags, why)
}

/// The shares of requests at which the distribution is told, beyond those of the percentiles.
const CURVE: [f64; 21] = [
    0.001, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999,
    0.9995, 0.9999, 0.99999, 0.999_999,
];

/// The distribution, from the histogram where the record has one, else from its percentiles.
fn curve(latency: &Latency) -> Vec<(f64, u64)> {
    let histogram = latency.histogram.as_deref().and_then(|text| latency::decoded(text).ok());
    let Some(histogram) = histogram.filter(|histogram| !histogram.is_empty()) else {
        let told = [
            (0.5, latency.p50_ns),
            (0.95, latency.p95_ns),
            (0.99, latency.p99_ns),
            (0.999, latency.p999_ns),
        ];
        return told.to_vec();
    };
    // Beyond 1 - 1/n there is nothing between the last request and the others.
    let last = 1.0 - 1.0 / histogram.len() as f64;
    let mut points: Vec<(f64, u64)> = CURVE
        .into_iter()
        .filter(|share| *share < last)
        .map(|share| (share, histogram.value_at_quantile(share)))
        .collect();
    points.push((last, histogram.max()));
    points
}
