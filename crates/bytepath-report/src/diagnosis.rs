//! What holds a machine back, as `bytepath doctor --json` tells it.
//!
//! The doc comments of these types are the descriptions in the published JSON Schema. Fields are
//! only ever added within one major version; a reader ignores the fields it does not know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Every fact that helps or holds back moving bytes on a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// The name and major version of this format.
    pub schema: DiagnosisSchema,
    /// The version of the bytepath that looked.
    pub bytepath: String,
    /// When `bytepath tune` measured what poor settings cost; null where it has not.
    pub measured: Option<String>,
    /// The facts, in the order of the table.
    pub findings: Vec<Finding>,
    /// What `--apply` changed.
    pub applied: Vec<Applied>,
    /// How many findings are poor.
    pub poor: u64,
}

/// The name of the format, which carries its major version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DiagnosisSchema {
    /// Version 1.
    #[default]
    #[serde(rename = "bytepath.doctor/1")]
    V1,
}

/// A fact, judged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Its name, by which `--apply` takes it.
    pub name: String,
    /// Whether it helps or holds back.
    pub verdict: Health,
    /// What is so, in a few words.
    pub found: String,
    /// What it does to moving bytes, or why it is not known.
    pub why: String,
    /// What it costs here, where that was measured.
    pub cost: Option<String>,
    /// The exact setting that changes it.
    pub setting: Option<String>,
    /// Whether `--apply` changes it.
    pub changeable: bool,
}

/// A verdict on a fact.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Health {
    /// Nothing is lost by it.
    Good,
    /// It holds back.
    Poor,
    /// It cannot be told.
    #[default]
    Unknown,
}

impl Health {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Health::Good => "good",
            Health::Poor => "poor",
            Health::Unknown => "unknown",
        }
    }
}

/// A setting that was changed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Applied {
    /// The finding's name.
    pub name: String,
    /// The file that was written.
    pub file: String,
    /// What was in it.
    pub from: String,
    /// What is in it now.
    pub to: String,
    /// The command that puts it back, for root.
    pub undo: String,
}
