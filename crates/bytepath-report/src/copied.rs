//! What a run of `bytepath cp` did, as its `--json` and `--json-files` tell it.
//!
//! The doc comments of these types are the descriptions in the published JSON Schema. Fields are
//! only ever added within one major version; a reader ignores the fields it does not know.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A run of `bytepath cp`: what it did, and what went wrong.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Copied {
    /// The name and major version of this format.
    pub schema: CopiedSchema,
    /// The version of the bytepath that copied.
    pub bytepath: String,
    /// Files whose bytes were copied or shared by this run, those it went on with included.
    pub files: u64,
    /// Directories made or gone through.
    pub directories: u64,
    /// Symbolic links made.
    pub links: u64,
    /// Further names given to files that were copied before, or to the sources (`-l`).
    pub hard_links: u64,
    /// Files whose attributes alone were copied (`--attributes-only`).
    #[serde(default)]
    pub attributes: u64,
    /// FIFOs, sockets and devices made, or read like files.
    pub specials: u64,
    /// Entries that were left alone as asked for (`-n`, `-u`, `-i`), or given before.
    pub skipped: u64,
    /// Files that an earlier run had copied whole (`--resume`).
    pub kept: u64,
    /// Entries that were not copied, or not whole.
    pub failed: u64,
    /// Bytes copied or shared. Holes are none.
    pub bytes: u64,
    /// Bytes of earlier runs that were verified and left (`--resume`).
    pub kept_bytes: u64,
    /// Bytes by the route that moved them; `reflink` shares them.
    pub routes: BTreeMap<String, u64>,
    /// How long it took, from the reading of the options to the end.
    pub seconds: f64,
    /// What was said on standard error, in order; the first thousand of it, unless `--json-errors` says
    /// how many.
    pub errors: Vec<CopyError>,
    /// Messages beyond those.
    pub errors_left_out: u64,
    /// The exit code.
    pub exit: u8,
}

/// The name of the format, which carries its major version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum CopiedSchema {
    /// Version 1.
    #[default]
    #[serde(rename = "bytepath.cp/1")]
    V1,
}

/// Something that was said on standard error.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CopyError {
    /// The message, without the name of the program.
    pub message: String,
    /// What was being copied; null where it is about no entry.
    pub source: Option<FileName>,
    /// The place of its copy.
    pub destination: Option<FileName>,
    /// The kernel's number, where it had a word.
    pub errno: Option<i32>,
    /// The byte that was reached, where bytes were being moved.
    pub offset: Option<u64>,
    /// Whether it is no failure, by which the exit code does not go: a warning, or an attribute that was
    /// not kept and did not have to be.
    #[serde(default)]
    pub warning: bool,
}

/// The name of a file, as it was written on the command line and goes on from there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileName {
    /// The name; what is no UTF-8 is replaced.
    pub name: String,
    /// Its bytes in hexadecimal digits, where it is no UTF-8.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hex: Option<String>,
}

/// One entry of a tree: a line of `--json-files`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CopiedEntry {
    /// What was copied.
    pub source: FileName,
    /// The place of its copy.
    pub destination: FileName,
    /// What it is; null where that could not be found out.
    pub kind: Option<EntryKind>,
    /// What became of it.
    pub outcome: Outcome,
    /// Bytes copied or shared by this run.
    pub bytes: u64,
    /// Bytes of an earlier run that were verified and left.
    pub kept_bytes: u64,
    /// Bytes by the route that moved them.
    pub routes: BTreeMap<String, u64>,
    /// How long it took; for a directory, with all that is in it.
    pub seconds: f64,
}

/// What an entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link that was not followed.
    Link,
    /// A FIFO, socket or device.
    Special,
}

/// What became of an entry.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// It was copied.
    #[default]
    Copied,
    /// It was copied from where an earlier run had stopped.
    Continued,
    /// An earlier run had copied it whole.
    Kept,
    /// Its copy is a further name of a file.
    HardLinked,
    /// Its copy is a symbolic link to it (`-s`).
    Symlinked,
    /// Its attributes alone were copied (`--attributes-only`).
    Attributes,
    /// It was left alone, as asked for.
    Skipped,
    /// It was not copied, or not whole.
    Failed,
}
