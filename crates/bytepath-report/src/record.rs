//! What a bench run left: the one format in which bytepath keeps a measurement.
//!
//! The doc comments of these types are the descriptions in the published JSON Schema, so they are
//! written for somebody who has only the JSON file. Fields are only ever added within one major
//! version; a reader ignores the fields it does not know.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::arm::{Arm, Sample};
use crate::machine::Machine;

/// A record: one run of one experiment on one machine, with every sample that was taken.
///
/// Nothing is left out of a record: disturbed samples are flagged and kept, and an arm that could
/// not run is present with its reason.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// The name and major version of this format.
    pub schema: SchemaName,
    /// A name for this run that no other run has.
    pub id: String,
    /// When the run started: RFC 3339, for example `2026-03-01T12:00:00Z`.
    #[schemars(extend("format" = "date-time"))]
    pub started: String,
    /// The bytepath that measured.
    pub bytepath: Build,
    /// What was true of the machine at the start of the run.
    pub machine: Machine,
    /// The question that was put to the machine.
    pub experiment: Experiment,
    /// The settings of the run, by name, with the `seed` of the random order among them.
    #[serde(default)]
    pub settings: BTreeMap<String, Value>,
    /// How many blocks were run. In a block every arm runs once, in random order, in fresh
    /// processes.
    pub blocks: u32,
    /// Whether the figures may be believed: false when the A/A control differs from its twin, or
    /// when something else made the run worthless.
    pub trusted: bool,
    /// Why the run is not trusted; null when it is.
    #[serde(default)]
    pub untrusted_why: Option<String>,
    /// The A/A control: the reference arm measured once more under another name. Null when the run
    /// had none.
    #[serde(default)]
    pub control: Option<Control>,
    /// The arms, in the order in which they are to be shown.
    pub arms: Vec<Arm>,
    /// What else a reader of the figures should know, a sentence each.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// The name of the format, which carries its major version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SchemaName {
    /// Version 1.
    #[default]
    #[serde(rename = "bytepath.record/1")]
    V1,
}

/// Which bytepath measured.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Build {
    /// The version of the release, for example `0.1.0`.
    pub version: String,
    /// What tells this build from others of the same version: a commit or a build id.
    pub build: String,
}

/// The question, and the work that answers it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Experiment {
    /// The name of the experiment, as on the command line.
    pub name: String,
    /// The question in one sentence.
    pub question: String,
    /// The workload in words: what is moved, how much of it, between which ends, and what the clock
    /// covers.
    pub definition: String,
}

/// The A/A control: the same work as the reference arm, measured as if it were another arm.
///
/// The two differ in name alone, so a ratio whose interval excludes 1 says that the run measured
/// something other than the arms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Control {
    /// The name under which the reference arm ran once more.
    pub arm: String,
    /// The median of the ratios to the reference arm, block by block.
    pub ratio: f64,
    /// The 95% interval of that ratio: [low, high].
    pub ratio_ci95: [f64; 2],
    /// Its samples, block by block, as those of an arm. Empty in records of versions that did not keep them.
    #[serde(default)]
    pub samples: Vec<Sample>,
}

impl Control {
    /// Whether the interval excludes 1, which makes the whole run untrusted.
    pub fn excludes_one(&self) -> bool {
        let [low, high] = self.ratio_ci95;
        low > 1.0 || high < 1.0
    }
}

impl Record {
    /// Whether its arms are in sections, each with a reference of its own.
    pub fn has_sections(&self) -> bool {
        self.arms.iter().any(|arm| arm.section.is_some())
    }

    /// The arm that the ratios of the others are against, where the run had one; the first of them
    /// where it has sections.
    pub fn reference(&self) -> Option<&Arm> {
        self.arms.iter().find(|arm| arm.reference)
    }
}
