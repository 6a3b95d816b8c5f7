//! The record of a measurement, and how it is shown.
//!
//! A [`Record`] holds one run of one experiment: the machine, the settings, every sample of every
//! arm, and what the samples say. This crate reads and writes it as JSON, and shows it; it never
//! measures, never decides, and opens nothing but what it is handed.
//!
//! | to | use |
//! |---|---|
//! | keep a run | [`Record::to_json`], [`Record::from_json`]; the format is [`schema`] |
//! | feed a spreadsheet | [`csv::write`] |
//! | show a run in a terminal | [`table::render`], [`plot::render`] |
//! | show runs to others | [`page::render`], [`markdown::render`] |
//! | say what a run answers, and what to doubt about it | [`answer`], [`doubt`] |
//! | keep and show how long requests took | [`latency`] |
//! | say where an arm's time went | [`Explained`] |
//! | say what a `cp` did | [`Copied`], [`CopiedEntry`] |
//! | say what a `run` did | [`Ran`] |
//! | say what runs tell about each other | [`Comparison`] |
//! | say what tracing found | [`Traced`] |
//! | say what holds a machine back | [`Diagnosis`] |
//! | write a figure or a verdict as the tables do | [`numbers`], [`verdict`] |
//!
//! ```
//! use bytepath_report::{Arm, Build, Experiment, Machine, Record, SchemaName, Unit, table};
//!
//! let record = Record {
//!     schema: SchemaName::V1,
//!     id: "example".to_owned(),
//!     started: "2026-03-01T12:00:00Z".to_owned(),
//!     bytepath: Build::default(),
//!     machine: Machine::default(),
//!     experiment: Experiment { name: "pipes".to_owned(), ..Experiment::default() },
//!     settings: Default::default(),
//!     blocks: 10,
//!     trusted: true,
//!     untrusted_why: None,
//!     control: None,
//!     arms: vec![Arm::unavailable("vmsplice", Unit::GibPerSecond, "EPERM: seccomp refuses it")],
//!     notes: Vec::new(),
//! };
//! let text = record.to_json()?;
//! assert_eq!(Record::from_json(&text)?, record);
//! assert!(table::render(&record, table::Style::default()).contains("seccomp refuses it"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod answer;
pub mod csv;
pub mod doubt;
pub mod figures;
pub mod latency;
pub mod markdown;
pub mod numbers;
pub mod page;
pub mod plot;
pub mod scale;
pub mod schema;
pub mod table;
pub mod verdict;

mod arm;
mod comparison;
mod copied;
mod diagnosis;
mod explained;
mod foreign;
mod machine;
mod packed;
mod ran;
mod read;
mod record;
mod traced;
mod write;

pub use arm::{
    Arm, Better, Costs, EXIT_CODES, PEAK_AT_MOST, Published, RESIDENT, Sample, Status, Unit,
    Verdict,
};
pub use comparison::{
    ArmInRun, ComparedArm, ComparedRun, Comparison, ComparisonSchema, Difference, Method,
};
pub use copied::{Copied, CopiedEntry, CopiedSchema, CopyError, EntryKind, FileName, Outcome};
pub use diagnosis::{Applied, Diagnosis, DiagnosisSchema, Finding, Health};
pub use explained::{ClassShare, Explained, Stack, SymbolShare, SyscallCount};
pub use figures::{Figure, Figures};
pub use foreign::Foreign;
pub use latency::Latency;
pub use machine::{Cache, Machine};
pub use packed::unpacked;
pub use ran::{Ran, RanDecision, RanPipe, RanSchema, RanStage, RanVerdict, Sure};
pub use read::{NAME_CHARS_MAX, ReadError, SCHEMA_NAME, short_name};
pub use record::{Build, Control, Experiment, Record, SchemaName};
pub use traced::{
    TraceAttachment, TraceConnection, TraceFile, TraceFound, TraceLost, TraceOffCpu, TraceSoftirq,
    TraceSyscall, TraceThread, TraceUntold, TraceWakeup, Traced, TracedSchema,
};
pub use write::{WriteError, inert, json};
