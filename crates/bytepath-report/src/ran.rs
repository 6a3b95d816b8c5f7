//! What a run of a pipeline by `bytepath run` was, as its `--json` tells it.
//!
//! The doc comments of these types are the descriptions in the published JSON Schema. Fields are
//! only ever added within one major version; a reader ignores the fields it does not know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A run of a pipeline: how it ended, and what was seen of its stages and pipes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ran {
    /// The name and major version of this format.
    pub schema: RanSchema,
    /// The version of the bytepath that ran it.
    pub bytepath: String,
    /// Why a shell ran it as it is; null where its stages were started one by one.
    pub whole: Option<String>,
    /// From the start of the first stage to the end of the last.
    pub seconds: f64,
    /// For how long of that all of its processes were stopped, as by Ctrl-Z; the verdict leaves it
    /// out.
    #[serde(default)]
    pub stopped_s: f64,
    /// The exit code, as a shell tells it: 128 and its number for a signal.
    pub exit: i32,
    /// Where a shell ran it, the seconds of CPU of processes that came and went unseen, or were not
    /// seen to their end.
    #[serde(default)]
    pub unseen_cpu_s: f64,
    /// The stages in order; where a shell ran it, the processes that took part as far as they were
    /// seen.
    pub stages: Vec<RanStage>,
    /// The pipes between them.
    pub pipes: Vec<RanPipe>,
    /// Where the stages were put, and why.
    pub decisions: Vec<RanDecision>,
    /// Which stage held the others up.
    pub verdict: RanVerdict,
    /// What could not be had, such as a larger pipe.
    pub notes: Vec<String>,
}

/// The name of the format, which carries its major version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RanSchema {
    /// Version 1.
    #[default]
    #[serde(rename = "bytepath.run/1")]
    V1,
}

/// A stage.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RanStage {
    /// Its words.
    pub command: String,
    /// How it ended, as a shell tells it; null where only the shell was told.
    pub status: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Seconds of CPU in user space; where a shell ran it, as last seen.
    pub user_s: f64,
    /// Seconds of CPU in the kernel.
    pub system_s: f64,
    /// Whether it may have used more, since it was last looked at before it ended; told where a
    /// shell ran it and some of the work was not seen.
    #[serde(default)]
    pub cpu_at_least: bool,
    /// What it read, by its calls of read and their like; splice is not counted. Null where the
    /// kernel does not tell; and, where a shell ran it, of one that waited for others: theirs are
    /// counted in.
    pub read_bytes: Option<u64>,
    /// What it wrote, likewise.
    pub written_bytes: Option<u64>,
    /// Whether it may have read and written more, since it was last looked at before it ended.
    #[serde(default)]
    pub moved_at_least: bool,
    /// How long it was there, as far as that was seen; told where a shell ran it.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// How often it was looked at; of a stage that only waits for what it started, as a shell does,
    /// this and the shares are of the one that used the most of a CPU, of those that were there for
    /// most of its time.
    pub looks: u32,
    /// The share of the time that it ran or waited for a CPU.
    pub runs: Option<f64>,
    /// The part of this that it waited for a CPU.
    #[serde(default)]
    pub waits_cpu: Option<f64>,
    /// The share that it waited for its input pipe.
    pub waits_input: Option<f64>,
    /// The share that it waited for its output pipe.
    pub waits_output: Option<f64>,
    /// The share that it waited for a disk.
    pub waits_disk: Option<f64>,
}

/// A pipe between two stages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RanPipe {
    /// Its writer, of several the last one, as an index into the stages.
    pub from: usize,
    /// Its reader.
    pub to: usize,
    /// How many others had its end for writing, before the last one or with it, and wrote something, to it or
    /// to files of their own; what they wrote to it is in `bytes`.
    #[serde(default)]
    pub other_writers: u32,
    /// How many others had its end for reading, likewise.
    #[serde(default)]
    pub other_readers: u32,
    /// What went through; null where it is unknown.
    pub bytes: Option<u64>,
    /// Whether writer and reader tell the same, and not only until one of them was last seen;
    /// otherwise it is about right, or a bound where `at_least` says so.
    pub agreed: bool,
    /// Whether more may have gone through: both ends were last looked at before they ended, or its
    /// writer may have counted only a part, as one does that splices.
    #[serde(default)]
    pub at_least: bool,
    /// How long both ends were there and not stopped, as far as that was seen; told where a shell ran
    /// them.
    #[serde(default)]
    pub seconds: Option<f64>,
    /// What it can hold; null where it was never seen.
    pub holds_bytes: Option<u64>,
    /// How often it was looked at.
    pub looks: u32,
    /// For how long it was looked at.
    #[serde(default)]
    pub seen_s: f64,
    /// The share of that time that it was at least three quarters full.
    pub full: Option<f64>,
    /// The share that it was empty.
    pub empty: Option<f64>,
}

/// Something that was decided about where stages run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RanDecision {
    /// Seconds after the start.
    pub at_s: f64,
    /// What, and what it was decided from.
    pub what: String,
}

/// Which stage held the others up.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RanVerdict {
    /// The stage, as an index; null where it was none alone.
    pub stage: Option<usize>,
    /// How sure that is.
    pub sure: Sure,
    /// The verdict in words, with what speaks for it.
    pub words: String,
    /// What would help.
    pub help: Option<String>,
}

/// How sure a verdict is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sure {
    /// Everything that was seen says so.
    Sure,
    /// Most says so.
    Likely,
    /// Too little was seen.
    #[default]
    Guess,
}
