//! A record to JSON, refusing figures that JSON would silently turn into null.

use serde::Serialize;
use thiserror::Error;

use crate::arm::{Arm, Sample};
use crate::explained::{ClassShare, Explained, SymbolShare, SyscallCount};
use crate::record::Record;

/// Why a record cannot be written.
#[derive(Debug, Error)]
pub enum WriteError {
    /// A figure is infinite or not a number. JSON has no word for it: written anyway, it would read
    /// back as unknown.
    #[error("cannot write the record: {place} is not a finite number; the measurement is at fault")]
    NotFinite {
        /// Where the figure is: the arm and the field.
        place: String,
    },
    /// The record cannot be put into JSON for another reason.
    #[error("cannot write the record as JSON: {0}")]
    Json(#[from] serde_json::Error),
}

impl Record {
    /// The record as JSON, indented for people, with a newline at its end.
    pub fn to_json(&self) -> Result<String, WriteError> {
        if let Some(place) = self.not_finite() {
            return Err(WriteError::NotFinite { place });
        }
        Ok(json(self)?)
    }

    /// Where the first figure is that is infinite or not a number.
    fn not_finite(&self) -> Option<String> {
        let control = self.control.iter().flat_map(|control| {
            named("ratio", [control.ratio])
                .chain(named("ratio_ci95", control.ratio_ci95))
                .chain(named("samples", control.samples.iter().flat_map(sample_figures)))
        });
        let arms = self.arms.iter().flat_map(|arm| {
            figures(arm).map(|(field, value)| (format!("{field} of arm \"{}\"", arm.name), value))
        });
        control
            .map(|(field, value)| (format!("{field} of the control"), value))
            .chain(arms)
            .find(|(_, value)| !value.is_finite())
            .map(|(place, _)| place)
    }
}

/// A document as JSON, indented for people, [`inert`].
///
/// # Errors
/// JSON has no word for something in it.
pub fn json(document: &impl Serialize) -> Result<String, serde_json::Error> {
    Ok(inert(&serde_json::to_string_pretty(document)?))
}

/// JSON with a newline at its end, and without the control characters that may stand in its strings (DEL and
/// those above it), in which a terminal finds commands: what replaces them means the same.
pub fn inert(json: &str) -> String {
    let mut text = String::with_capacity(json.len() + 1);
    for c in json.chars() {
        match c {
            '\x7f'..='\u{9f}' => text += &format!("\\u{:04x}", u32::from(c)),
            c => text.push(c),
        }
    }
    text.push('\n');
    text
}

type Figure = (&'static str, f64);

/// Every figure of an arm, with the name of its field.
fn figures(arm: &Arm) -> impl Iterator<Item = Figure> {
    let costs = arm.costs.unwrap_or_default().each().map(|cost| *cost);
    named("median", arm.median)
        .chain(named("ci95", arm.ci95.into_iter().flatten()))
        .chain(named("ratio", arm.ratio))
        .chain(named("ratio_ci95", arm.ratio_ci95.into_iter().flatten()))
        .chain(named("published", arm.published.iter().map(|published| published.value)))
        .chain(named("costs", costs.into_iter().flatten()))
        .chain(named("samples", arm.samples.iter().flat_map(sample_figures)))
        .chain(named("explained", arm.explained.iter().flat_map(explained_figures)))
}

fn explained_figures(explained: &Explained) -> impl Iterator<Item = f64> {
    // Field by field, so that none is forgotten.
    let Explained {
        sentence: _,
        source: _,
        hz: _,
        samples: _,
        lost: _,
        seconds,
        cpus: _,
        classes,
        unclaimed,
        descriptor_calls,
        stacks: _,
        counters,
        syscalls,
        calls_traced,
        missing: _,
    } = explained;
    let class = |ClassShare { name: _, share, ci95: [low, high], published }: &ClassShare| {
        [*share, *low, *high].into_iter().chain(*published)
    };
    let symbol = |SymbolShare { symbol: _, share }: &SymbolShare| *share;
    let call = |SyscallCount { name: _, count: _, seconds }: &SyscallCount| *seconds;
    std::iter::once(*seconds)
        .chain(classes.iter().flat_map(class))
        .chain(unclaimed.iter().chain(descriptor_calls).map(symbol))
        .chain(counters.values().copied())
        .chain(syscalls.iter().filter_map(call))
        .chain(*calls_traced)
}

fn sample_figures(sample: &Sample) -> impl Iterator<Item = f64> {
    [sample.value, sample.seconds]
        .into_iter()
        .chain(sample.steal_share)
        .chain(sample.foreign_cpu_share)
}

fn named(
    field: &'static str,
    values: impl IntoIterator<Item = f64>,
) -> impl Iterator<Item = Figure> {
    values.into_iter().map(move |value| (field, value))
}
