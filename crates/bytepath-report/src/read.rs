//! A record from JSON: says what is wrong with a file that is not one.

use serde_json::Value;
use serde_json::value::RawValue;
use thiserror::Error;

use crate::figures;
use crate::foreign::Foreign;
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
    /// A name that no table can hold.
    #[error(
        "damaged record: {what} has a name of {characters} characters, and {NAME_CHARS_MAX} is the most"
    )]
    LongName {
        /// What has it.
        what: &'static str,
        /// How long it is.
        characters: usize,
    },
    /// The text is what another program measured.
    #[error("not a record, but what {program} measured: bytepath import makes records of that")]
    Foreign {
        /// The program.
        program: &'static str,
    },
    /// One of several records cannot be read.
    #[error("record {number} of {of}: {why}")]
    OneOf {
        /// Which one, from 1.
        number: usize,
        /// How many there are.
        of: usize,
        /// What is wrong with it.
        why: Box<ReadError>,
    },
}

impl Record {
    /// Reads one record or an array of them.
    ///
    /// # Errors
    /// As [`Record::from_json`]; of an array it is told which one cannot be read.
    pub fn all_from_json(text: &str) -> Result<Vec<Record>, ReadError> {
        if !text.trim_start().starts_with('[') {
            return Ok(vec![Record::from_json(text)?]);
        }
        let texts: Vec<&RawValue> = serde_json::from_str(text).map_err(ReadError::NotJson)?;
        let of = texts.len();
        // Where the record stands is told by an error in it, and so asked for only then.
        let in_place = |record: &str| {
            let before = &text.as_bytes()[..record.as_ptr().addr() - text.as_ptr().addr()];
            let blank = before.iter().map(|byte| if *byte == b'\n' { '\n' } else { ' ' });
            Record::from_json(&(blank.collect::<String>() + record))
        };
        let read = |(number, record): (usize, &RawValue)| {
            Record::from_json(record.get())
                .or_else(|_| in_place(record.get()))
                .map_err(|why| ReadError::OneOf { number, of, why: Box::new(why) })
        };
        (1..).zip(texts).map(read).collect()
    }

    /// Reads a record from JSON. Fields that this version does not know are ignored, so that a
    /// record from a later release of the same major version still reads.
    pub fn from_json(text: &str) -> Result<Record, ReadError> {
        check(&serde_json::from_str(text).map_err(ReadError::NotJson)?)?;
        // From the text once more rather than from the value, because the text has line numbers.
        serde_json::from_str(text).map_err(ReadError::Damaged).and_then(with_short_names)
    }
}

/// Names in a record are no longer than this: tables count their columns in 16 bits.
pub const NAME_CHARS_MAX: usize = 20_000;

/// A name that a record may have: of a longer one, the beginning, with room for a number behind it.
pub fn short_name(name: &str) -> String {
    const KEPT_CHARS: usize = NAME_CHARS_MAX - 100;
    match name.char_indices().nth(KEPT_CHARS) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}

fn with_short_names(record: Record) -> Result<Record, ReadError> {
    let arms = record.arms.iter().flat_map(|arm| {
        let section = arm.section.as_deref().map(|name| ("a section", name));
        let figures = arm.params.get(figures::PARAM).and_then(Value::as_array);
        let words = |figure| ["name", "unit"].map(|of| Value::get(figure, of));
        let figures = figures.into_iter().flatten().flat_map(words);
        let figures = figures.filter_map(|text| Some(("a figure", text?.as_str()?)));
        std::iter::once(("an arm", arm.name.as_str())).chain(section).chain(figures)
    });
    let kernel = ("the kernel", record.machine.kernel.as_str());
    let names =
        [("the run", record.id.as_str()), ("the experiment", &record.experiment.name), kernel];
    // A character has at least a byte: most names need no counting.
    let long = |(what, name): (&'static str, &str)| {
        let characters = if name.len() > NAME_CHARS_MAX { name.chars().count() } else { 0 };
        (characters > NAME_CHARS_MAX).then_some(ReadError::LongName { what, characters })
    };
    let refused = names.into_iter().chain(arms).find_map(long);
    refused.map_or(Ok(record), Err)
}

fn check(value: &Value) -> Result<(), ReadError> {
    match value.get("schema") {
        None => Err(foreign(value).unwrap_or(ReadError::NoSchema)),
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

/// What another program wrote, where it is one that can be imported.
fn foreign(value: &Value) -> Option<ReadError> {
    let program = Foreign::of(value)?;
    Some(ReadError::Foreign { program: program.name() })
}
