//! The JSON Schema of a record, made from the types that are the record.

use schemars::schema_for;

use crate::record::Record;

/// The published schema (JSON Schema, draft 2020-12), as committed in
/// `schema/record-1.schema.json`.
pub const PUBLISHED: &str = include_str!("../schema/record-1.schema.json");

/// The schema as the types of this version make it, indented, with a newline at its end. A test
/// keeps it equal to [`PUBLISHED`].
pub fn generate() -> Result<String, serde_json::Error> {
    let mut text = serde_json::to_string_pretty(&schema_for!(Record))?;
    text.push('\n');
    Ok(text)
}
