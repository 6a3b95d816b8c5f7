//! The experiments, one file each.

use bytepath_report::Experiment;

pub mod calls;
pub mod cmd;
pub mod copy;
pub mod fget;
pub mod file_pipe;
pub mod files;
pub mod generators;
pub mod ipc;
pub mod ipc_bandwidth;
pub mod ipc_latency;
pub mod keepalive;
pub mod memory;
pub mod movers;
pub mod overhead;
pub mod pages;
pub mod pairs;
pub mod pipes;
pub mod run;
pub mod swap;

/// What an experiment asks and how.
pub struct Description {
    /// Its name on the command line.
    pub name: &'static str,
    /// The question put to the machine.
    pub question: &'static str,
    /// The work, so that somebody else could do it again.
    pub definition: &'static str,
}

impl Description {
    /// As the record keeps it.
    pub fn recorded(&self) -> Experiment {
        Experiment {
            name: self.name.into(),
            question: self.question.into(),
            definition: self.definition.into(),
        }
    }
}

/// A record of these arms and nothing else.
#[cfg(test)]
pub(crate) fn record_of(arms: Vec<bytepath_report::Arm>) -> bytepath_report::Record {
    bytepath_report::Record {
        schema: bytepath_report::SchemaName::V1,
        id: String::new(),
        started: String::new(),
        bytepath: bytepath_report::Build::default(),
        machine: bytepath_report::Machine::default(),
        experiment: Experiment::default(),
        settings: std::collections::BTreeMap::new(),
        blocks: 1,
        trusted: true,
        untrusted_why: None,
        control: None,
        arms,
        notes: Vec::new(),
    }
}
