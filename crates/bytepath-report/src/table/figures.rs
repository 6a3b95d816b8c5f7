//! A further table, of arms that tell more than one value.

use super::{Further, Style};
use crate::arm::Arm;
use crate::figures::Figures;
use crate::numbers::{self, UNKNOWN};
use crate::record::Record;

/// The table; nothing where no arm has such figures.
pub(super) fn draw(record: &Record, style: Style) -> Option<String> {
    let mut further = further(&record.arms.iter().collect::<Vec<_>>())?;
    further.headings = even(further.headings);
    // Those that an experiment tells first are the last to go.
    let last = further.headings.len() - 1;
    let importance = |place, _: &str| match u8::try_from(place) {
        Ok(place) => u8::try_from(last).unwrap_or(u8::MAX).saturating_sub(place),
        Err(_) => 0,
    };
    Some(further.draw(&importance, style))
}

/// The figures of the arms that have such; nothing where none has.
pub(crate) fn further(arms: &[&Arm]) -> Option<Further> {
    let of = |(place, arm): (usize, &&Arm)| Some((place, arm.name.clone(), Figures::of_arm(arm)?));
    let arms: Vec<_> = arms.iter().enumerate().filter_map(of).collect();
    let mut columns: Vec<(&str, &str)> = Vec::new();
    for figure in arms.iter().flat_map(|(.., figures)| &figures.0) {
        if !columns.iter().any(|(name, _)| *name == figure.name) {
            columns.push((&figure.name, &figure.unit));
        }
    }
    if columns.is_empty() {
        return None;
    }
    let headings =
        columns.iter().map(|(name, unit)| format!("{}\n{unit}", name.replace(' ', "\n")));
    let row = |(place, name, figures): &(usize, String, Figures)| {
        let known = |(column, _): &(&str, &str)| {
            figures.get(column).map_or_else(|| UNKNOWN.to_owned(), numbers::figure)
        };
        (*place, std::iter::once(name.clone()).chain(columns.iter().map(known)).collect())
    };
    Some(Further {
        headings: std::iter::once("arm".to_owned()).chain(headings).collect(),
        rows: arms.iter().map(row).collect(),
    })
}

/// Headings of the same number of lines, so that the last words of all stand beside each other.
fn even(headings: Vec<String>) -> Vec<String> {
    let lines = |heading: &String| heading.lines().count();
    let most = headings.iter().map(lines).max().unwrap_or(0);
    headings.iter().map(|heading| "\n".repeat(most - lines(heading)) + heading).collect()
}
