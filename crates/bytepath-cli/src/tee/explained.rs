//! How the bytes went, for people who asked.

use std::time::Instant;

use bytepath::Endpoint;
use bytepath::fan_out::FannedOut;

use super::outputs::Outputs;
use super::planned::Planned;
use crate::errno::word;
use crate::quote::always_quoted;
use crate::said::say;

/// Tells of what was done since `began`.
pub(super) fn explain(
    queue: Option<usize>,
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
    let rate = done.bytes as f64 / f64::from(1 << 30) / began.elapsed().as_secs_f64().max(1e-9);
    say(format_args!("came: {} bytes, {rate:.2} GiB/s", done.bytes));
}
