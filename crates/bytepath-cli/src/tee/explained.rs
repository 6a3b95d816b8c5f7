//! How the bytes went, for people who asked.

use std::time::Instant;

use bytepath::Endpoint;
use bytepath::fan_out::FannedOut;

use super::outputs::Outputs;
use super::planned::Planned;
use crate::errno::word;
use crate::live::rate;
use crate::quote::always_quoted;
use crate::said::say;

/// Tells of what was done since `began`.
pub(super) fn explain(
    queue: Option<u64>,
    planned: &Planned,
    (source, outputs): (&Endpoint<'_>, &Outputs<'_>),
    done: &FannedOut,
    began: Instant,
) {
    let basis = planned.basis();
    match queue {
        Some(_) => say(format_args!(
            "plan: {basis}; --queue has everything read, and written by a thread for each output"
        )),
        None => say(format_args!("plan: {basis}; {}", done.plan)),
    }
    say(format_args!("  from a {}: {}", source.kind(), done.source_way));
    for (place, served) in done.sinks.iter().enumerate() {
        let kind = outputs.ends()[place].as_ref().map_or("closed", |end| end.kind().name());
        let refused =
            served.refused.map(|(way, errno)| format!("; {way} was refused: {}", word(errno)));
        let lost = served.lost.map(|errno| format!("; lost: {}", word(errno)));
        say(format_args!(
            "  to {} ({kind}): {}, {} bytes{}{}",
            always_quoted(outputs.name(place)),
            served.way,
            served.bytes,
            refused.unwrap_or_default(),
            lost.unwrap_or_default()
        ));
    }
    let rate = rate(done.bytes, began.elapsed());
    say(format_args!("came: {} bytes, {rate}", done.bytes));
}
