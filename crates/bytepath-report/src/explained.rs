//! Where the time of some work went: classes of cost, stacks, counters and system calls.
//!
//! The doc comments of these types are the descriptions in the published JSON Schema.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where the time of some work went, as a sampler saw it: in runs of their own, apart from the
/// measured samples, so that no figure was taken under the sampler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Explained {
    /// What dominated, and what to try, in plain words.
    pub sentence: String,
    /// What the sampler counted: `cycles`, or `cpu-clock` where there is no hardware counter.
    pub source: String,
    /// Samples per second and CPU that were asked for.
    pub hz: u32,
    /// Samples taken, those of idle CPUs included.
    pub samples: u64,
    /// Samples that the kernel could not hand over, for want of room; they are in no share.
    #[serde(default)]
    pub lost: u64,
    /// How long the sampler ran, in seconds of wall-clock time.
    pub seconds: f64,
    /// The CPUs whose whole time the shares divide, idle time included. Empty where the sampler may
    /// only see the work's own threads: idle time is then in no share.
    #[serde(default)]
    pub cpus: Vec<u32>,
    /// The classes of cost, largest first. Their shares add up to 1.
    #[serde(default)]
    pub classes: Vec<ClassShare>,
    /// The symbols at which samples ended that no class claims, largest first.
    #[serde(default)]
    pub unclaimed: Vec<SymbolShare>,
    /// From which system calls descriptors were looked up: shares of the class `descriptor lookup`.
    #[serde(default)]
    pub descriptor_calls: Vec<SymbolShare>,
    /// The stacks, folded, most frequent first. Those that were seen too rarely to be kept are merged into one
    /// for each thread and class, `THREAD;[rare];CLASS`; where threads have too many names, `other threads`
    /// stands for them, and `[other threads]` for those of the kernel.
    #[serde(default)]
    pub stacks: Vec<Stack>,
    /// What was counted meanwhile, by name: `context-switches-voluntary`, `page-faults-minor`,
    /// `migrations`, `wakeups-across-cpus`, `cycles`, …
    #[serde(default)]
    pub counters: BTreeMap<String, f64>,
    /// The system calls made meanwhile, those that took longest first.
    #[serde(default)]
    pub syscalls: Vec<SyscallCount>,
    /// The part of the time in which calls were traced, where it was not all of it: what is told of each call
    /// is an estimate then.
    #[serde(default)]
    pub calls_traced: Option<f64>,
    /// What could not be seen, why, and the setting or capability that would show it; a sentence
    /// each.
    #[serde(default)]
    pub missing: Vec<String>,
}

/// The share of the time that a class of cost took.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassShare {
    /// The class: `copying`, `idle`, …; `unclaimed` for what no class claims.
    pub name: String,
    /// Its share of the samples, 0 to 1.
    pub share: f64,
    /// The 95% sampling interval of the share: [low, high].
    pub ci95: [f64; 2],
    /// The share that was published for this arm, on another machine; null where none was.
    #[serde(default)]
    pub published: Option<f64>,
}

/// The share of the time that was spent in a function itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SymbolShare {
    /// The function, with `_[k]` at its end where it is the kernel's.
    pub symbol: String,
    /// Its share of all samples, 0 to 1.
    pub share: f64,
}

/// A stack that samples were taken in.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// Its frames, root first, joined by `;`. The root is the name of the thread; frames of the
    /// kernel end with `_[k]`.
    pub frames: String,
    /// How many samples were taken in it.
    pub count: u64,
}

/// How often a system call was made.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SyscallCount {
    /// The name of the call.
    pub name: String,
    /// How often it was made.
    pub count: u64,
    /// The time spent in it, waiting included, all threads together; null where only the number is
    /// known.
    #[serde(default)]
    pub seconds: Option<f64>,
}
