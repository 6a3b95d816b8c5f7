//! What tracing found, as `bytepath explain --trace … --json` tells it.
//!
//! The doc comments of these types are the descriptions in the published JSON Schema. Fields are
//! only ever added within one major version; a reader ignores the fields it does not know.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What was traced, how, and what was found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Traced {
    /// The name and major version of this format.
    pub schema: TracedSchema,
    /// The version of the bytepath that traced.
    pub bytepath: String,
    /// What was traced: the command, or the process.
    pub what: String,
    /// How long it was traced.
    pub seconds: f64,
    /// What the programs were attached to, and how.
    pub attached: Vec<TraceAttachment>,
    /// What was not counted, because there was no room for it.
    pub lost: Vec<TraceLost>,
    /// Files or connections that are in no row, since there are too many: those with the fewest bytes,
    /// added up.
    #[serde(default)]
    pub untold: Vec<TraceUntold>,
    /// What could not be done as well as it might be, why, and what would help.
    pub missing: Vec<String>,
    /// What was found.
    #[serde(flatten)]
    pub found: TraceFound,
}

/// The name of the format, which carries its major version.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TracedSchema {
    /// Version 1.
    #[default]
    #[serde(rename = "bytepath.trace/1")]
    V1,
}

/// A program that was attached.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceAttachment {
    /// The tracepoint or the kernel's function.
    pub to: String,
    /// The way: `tp_btf`, `raw_tp`, `tracepoint` or `fentry`.
    pub by: String,
    /// Ways that were tried before, and why the kernel refused them.
    pub refused: Vec<String>,
}

/// Something that was not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceLost {
    /// What it was.
    pub what: String,
    /// How often.
    pub times: u64,
}

/// Files, or connections into one network, that are in no row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TraceUntold {
    /// The network of connections, as in rows; null of files, and of networks beyond 10,000.
    pub subnet: Option<String>,
    /// How many.
    pub rows: u64,
    /// Bytes that were read, or received.
    pub read_bytes: u64,
    /// Bytes that were written, or sent.
    pub written_bytes: u64,
}

/// The rows of a mode, those that took longest, or came first, first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "mode", content = "rows", rename_all = "lowercase")]
pub enum TraceFound {
    /// Where threads were while they had no CPU.
    OffCpu(Vec<TraceOffCpu>),
    /// Who woke whom.
    Wakeups(Vec<TraceWakeup>),
    /// How long system calls took.
    Syscalls(Vec<TraceSyscall>),
    /// Time in soft interrupts.
    Softirq(Vec<TraceSoftirq>),
    /// Open files.
    FileLife(Vec<TraceFile>),
    /// TCP connections.
    Tcp(Vec<TraceConnection>),
}

/// A thread.
#[derive(
    Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub struct TraceThread {
    /// Its process, as the kernel's first PID namespace numbers it; 0 where it is not known.
    pub pid: u32,
    /// The thread.
    pub tid: u32,
    /// Its name, as it was last in the program that it ran then. Of one that lives, where bytepath runs in a
    /// PID namespace of its own, as it was when it was started.
    pub name: String,
}

/// One way of having no CPU, as often as a thread had it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceOffCpu {
    /// Whose it is.
    pub thread: TraceThread,
    /// `sleeping`, `uninterruptible` (it waits for a device or for memory), `stopped`, `traced`, `ended`, or
    /// `runnable`: it could have run, and another had the CPU.
    pub state: String,
    /// Seconds in all.
    pub seconds: f64,
    /// How often.
    pub times: u64,
    /// The longest, in seconds.
    pub longest_seconds: f64,
    /// It lasted still when tracing ended.
    pub still: bool,
    /// Functions of the program when it left the CPU, the outermost first.
    pub user_stack: Vec<String>,
    /// Functions of the kernel, the outermost first.
    pub kernel_stack: Vec<String>,
    /// The thread that ended it; null where an interrupt did, whoever had the CPU.
    pub waker: Option<TraceThread>,
    /// The interrupt that ended it, such as `timer`, if one did and it is known.
    pub interrupt: Option<String>,
    /// The waker's functions in the kernel, the outermost first; of an interrupt those from its entry on.
    pub waker_stack: Vec<String>,
}

/// How one thread, or one kind of interrupt, woke a thread, from one CPU to one CPU.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceWakeup {
    /// The thread that woke; null where an interrupt did, whoever had the CPU.
    pub waker: Option<TraceThread>,
    /// The interrupt that woke, such as `timer`, if one did and it is known.
    pub interrupt: Option<String>,
    /// Who was woken.
    pub wakee: TraceThread,
    /// The CPU on which the waker ran, or to which the interrupt came.
    pub from_cpu: u32,
    /// The CPU on which the woken one ran then.
    pub to_cpu: u32,
    /// How often.
    pub times: u64,
    /// Seconds from waking to running, in all.
    pub seconds: f64,
    /// The longest, in seconds.
    pub longest_seconds: f64,
    /// How often it took 2^n to 2^(n+1) nanoseconds, from n = 0 on; what took longer is in the last.
    pub log2_ns: Vec<u64>,
}

/// A system call.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceSyscall {
    /// Its name, or its number where it has none here.
    pub name: String,
    /// Calls that returned.
    pub calls: u64,
    /// Calls of these that returned an error.
    pub errors: u64,
    /// Seconds in all.
    pub seconds: f64,
    /// The longest, in seconds.
    pub longest_seconds: f64,
    /// How often it took 2^n to 2^(n+1) nanoseconds, from n = 0 on; what took longer is in the last.
    pub log2_ns: Vec<u64>,
    /// Calls that had not returned when tracing ended.
    pub unfinished: u64,
    /// How long the longest of these had lasted by then, in seconds.
    pub unfinished_seconds: f64,
}

/// A vector of soft interrupts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceSoftirq {
    /// `timer`, `net-rx`, `block`, …
    pub vector: String,
    /// How often, on the whole machine.
    pub times: u64,
    /// Seconds, on the whole machine.
    pub seconds: f64,
    /// The longest, in seconds.
    pub longest_seconds: f64,
    /// How often one took a CPU from a thread that is traced.
    pub on_traced_times: u64,
    /// Seconds that it took from such.
    pub on_traced_seconds: f64,
    /// How often it took 2^n to 2^(n+1) nanoseconds, from n = 0 on; what took longer is in the last.
    pub log2_ns: Vec<u64>,
}

/// An open file: what open(2) made, whoever had descriptors of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceFile {
    /// Its path, from the root of all mounts; a name of the kernel's for what has none.
    pub path: String,
    /// The kind of its file system.
    pub file_system: String,
    /// `file`, `directory`, `character-device`, `block-device`, `fifo`, or `other`.
    pub kind: String,
    /// Who opened it, or was first seen to use it.
    pub thread: TraceThread,
    /// When it was opened, in seconds from the first that was seen; null where it was open before.
    pub opened_at: Option<f64>,
    /// How long it was open, or is known to have been used, in seconds; null where it was open still.
    pub lifetime_seconds: Option<f64>,
    /// Calls that read.
    pub reads: u64,
    /// Bytes that were read.
    pub read_bytes: u64,
    /// Calls that wrote.
    pub writes: u64,
    /// Bytes that were written.
    pub written_bytes: u64,
}

/// A TCP connection.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TraceConnection {
    /// The address and port here.
    pub local: String,
    /// The address and port there.
    pub remote: String,
    /// The network of the address there: /24, or /64 of IPv6.
    pub subnet: String,
    /// Who used it first.
    pub thread: TraceThread,
    /// Calls that sent.
    pub sends: u64,
    /// Bytes that they sent.
    pub sent_bytes: u64,
    /// Calls that received.
    pub receives: u64,
    /// Bytes that they received.
    pub received_bytes: u64,
    /// From its first use to its end, in seconds; null where it was open still.
    pub lifetime_seconds: Option<f64>,
    /// Segments that were sent again; null where it was open still.
    pub retransmitted: Option<u32>,
    /// The round trip, smoothed, at the end, in seconds; null where it was open still, or none was measured.
    pub round_trip_seconds: Option<f64>,
}
