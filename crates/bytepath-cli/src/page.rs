//! The page of records for a browser, and what is true here beside which they may be stale.

use std::time::SystemTime;

use bytepath::machine::Machine;
use bytepath_lab::program::Program;
use bytepath_report::doubt::Here;
use bytepath_report::{Record, page};

/// The page of these records.
pub(crate) fn page(records: &[Record]) -> anyhow::Result<String> {
    let now = humantime::format_rfc3339_seconds(SystemTime::now());
    let made = format!("Made by bytepath {} on {now}", env!("CARGO_PKG_VERSION"));
    Ok(page::render(records, &made, &here())?)
}

/// What is true here and now, beside which records may be stale.
pub(crate) fn here() -> Here {
    let kernel = Machine::this().kernel();
    let cpu = (!kernel.cpu_model.is_empty()).then(|| kernel.cpu_model.clone());
    Here {
        now: Some(SystemTime::now()),
        bytepath: Program::this().ok().map(Program::build),
        kernel_and_cpu: Some((format!("{} {}", kernel.release, kernel.version), cpu)),
    }
}
