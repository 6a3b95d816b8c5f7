//! A record from JSON: says what is wrong with a file that is not one.

use serde_json::Value;
use thiserror::Error;

use crate::record::Record;

/// The `schema` of the records that this version writes and reads.
pub const SCHEMA_NAME: &str = "bytepath.record/1";

const SCHEMA_FAMILY: &str = "bytepath.record/";
const SCHEMA_MAJOR: u64 = 1;

/// Why a text is not a record that can be read.
#[derive(Debug, Error)]
pub enum ReadError {
    /// The text is not JSON at all, or is cut short.
    #[error("not JSON: {0}; a record is what `--json FILE` wrote")]
    NotJson(#[source] serde_json::Error),
    /// The text is JSON, but does not name a schema.
    #[error("not a record: no \"schema\": \"{SCHEMA_NAME}\" at the top level")]
    NoSchema,
    /// The text names a schema that is not a record's.
    #[error("not a record: expected schema \"{SCHEMA_NAME}\", found \"{found}\"")]
    WrongSchema {
        /// The schema that the text names.
        found: String,
    },
    /// The record was written by a later bytepath, in a format that this one does not know.
    #[error(
        "record too new: this bytepath reads \"{SCHEMA_NAME}\", found \"{found}\"; \
         use the bytepath that wrote it, or a later one"
    )]
    Newer {
        /// The schema that the text names.
        found: String,
    },
    /// The text claims to be a record, but a field is missing or holds something else.
    #[error("damaged record: {0}")]
    Damaged(#[source] serde_json::Error),
}

impl Record {
    /// Reads a record from JSON. Fields that this version does not know are ignored, so that a
    /// record from a later release of the same major version still reads.
    pub fn from_json(text: &str) -> Result<Record, ReadError> {
        check_schema(text)?;
        // From the text once more rather than from the value, because the text has line numbers.
        serde_json::from_str(text).map_err(ReadError::Damaged)
    }
}

fn check_schema(text: &str) -> Result<(), ReadError> {
    let value: Value = serde_json::from_str(text).map_err(ReadError::NotJson)?;
    match value.get("schema") {
        None => Err(ReadError::NoSchema),
        Some(Value::String(found)) if found == SCHEMA_NAME => Ok(()),
        Some(Value::String(found)) if is_newer(found) => {
            Err(ReadError::Newer { found: found.clone() })
        }
        Some(Value::String(found)) => Err(ReadError::WrongSchema { found: found.clone() }),
        Some(other) => Err(ReadError::WrongSchema { found: other.to_string() }),
    }
}

fn is_newer(found: &str) -> bool {
    found
        .strip_prefix(SCHEMA_FAMILY)
        .and_then(|version| version.parse::<u64>().ok())
        .is_some_and(|major| major > SCHEMA_MAJOR)
}
