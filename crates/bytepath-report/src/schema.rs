//! The JSON Schemas of a record, of a comparison, of what `cp` and `run` did, of what tracing found and of what
//! `doctor` did, made from the types that they are.

use schemars::{JsonSchema, Schema, schema_for};

use crate::comparison::Comparison;
use crate::copied::{Copied, CopiedEntry};
use crate::diagnosis::Diagnosis;
use crate::ran::Ran;
use crate::record::Record;
use crate::traced::Traced;

/// The published schema (JSON Schema, draft 2020-12), as committed in
/// `schema/record-1.schema.json`.
pub const PUBLISHED: &str = include_str!("../schema/record-1.schema.json");

/// The published schema of what `bytepath cp --json` and each line of `--json-files` tell, as
/// committed in `schema/cp-1.schema.json`.
pub const PUBLISHED_COPIED: &str = include_str!("../schema/cp-1.schema.json");

/// The published schema of what `bytepath run --json` tells, as committed in
/// `schema/run-1.schema.json`.
pub const PUBLISHED_RAN: &str = include_str!("../schema/run-1.schema.json");

/// The published schema of what `bytepath compare --json` tells, as committed in
/// `schema/comparison-1.schema.json`.
pub const PUBLISHED_COMPARISON: &str = include_str!("../schema/comparison-1.schema.json");

/// The published schema of what `bytepath explain --trace MODE --json` tells, as committed in
/// `schema/trace-1.schema.json`.
pub const PUBLISHED_TRACED: &str = include_str!("../schema/trace-1.schema.json");

/// The published schema of what `bytepath doctor --json` tells, as committed in
/// `schema/doctor-1.schema.json`.
pub const PUBLISHED_DIAGNOSIS: &str = include_str!("../schema/doctor-1.schema.json");

/// Either of what `bytepath cp` writes: the document of a run, or the line of an entry.
#[derive(JsonSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "only its schema is of use")]
enum CopiedOrEntry {
    /// `--json`.
    Copied(Copied),
    /// A line of `--json-files`.
    Entry(CopiedEntry),
}

/// A published schema, and the types that make it.
pub struct Published {
    /// The file that it is committed as, in `schema/`.
    pub file: &'static str,
    /// What the file says.
    pub text: &'static str,
    made: fn() -> Schema,
}

/// Every published schema.
pub const SCHEMAS: &[Published] = &[
    Published { file: "record-1.schema.json", text: PUBLISHED, made: || schema_for!(Record) },
    Published {
        file: "cp-1.schema.json",
        text: PUBLISHED_COPIED,
        made: || schema_for!(CopiedOrEntry),
    },
    Published { file: "run-1.schema.json", text: PUBLISHED_RAN, made: || schema_for!(Ran) },
    Published {
        file: "comparison-1.schema.json",
        text: PUBLISHED_COMPARISON,
        made: || schema_for!(Comparison),
    },
    Published { file: "trace-1.schema.json", text: PUBLISHED_TRACED, made: || schema_for!(Traced) },
    Published {
        file: "doctor-1.schema.json",
        text: PUBLISHED_DIAGNOSIS,
        made: || schema_for!(Diagnosis),
    },
];

impl Published {
    /// As the types of this version make it, indented, with a newline at its end. A test keeps that
    /// equal to what is published.
    pub fn generate(&self) -> Result<String, serde_json::Error> {
        let mut text = serde_json::to_string_pretty(&(self.made)())?;
        text.push('\n');
        Ok(text)
    }
}
