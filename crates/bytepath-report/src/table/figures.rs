//! A further table, of arms that tell more than one value.

use super::{Fitted, NAME_MIN, Style, listing};
use crate::figures::Figures;
use crate::numbers::{self, UNKNOWN};
use crate::record::Record;

/// The table; nothing where no arm has such figures.
pub(super) fn draw(record: &Record, style: Style) -> Option<String> {
    let arms = record.arms.iter().filter_map(|arm| Some((&arm.name, Figures::of_arm(arm)?)));
    let arms: Vec<_> = arms.collect();
    let mut columns: Vec<(String, String)> = Vec::new();
    for figure in arms.iter().flat_map(|(_, figures)| &figures.0) {
        if !columns.iter().any(|(name, _)| *name == figure.name) {
            columns.push((figure.name.clone(), figure.unit.clone()));
        }
    }
    if columns.is_empty() {
        return None;
    }
    let headings =
        columns.iter().map(|(name, unit)| format!("{}\n{unit}", name.replace(' ', "\n")));
    let headings = even(std::iter::once("arm".to_owned()).chain(headings).collect());
    let row = |(name, figures): &(&String, Figures)| {
        let known = |(column, _): &(String, String)| {
            figures.get(column).map_or_else(|| UNKNOWN.to_owned(), numbers::figure)
        };
        std::iter::once((*name).clone()).chain(columns.iter().map(known)).collect()
    };
    // Those that an experiment tells first are the last to go.
    let last = u8::try_from(columns.len()).unwrap_or(u8::MAX);
    let fitted = |(place, heading): (usize, String)| match u8::try_from(place) {
        Ok(0) => Fitted::new(heading).wraps_from(NAME_MIN),
        place => Fitted::new(heading)
            .of_figures()
            .importance(place.map_or(0, |place| last.saturating_sub(place))),
    };
    let columns: Vec<_> = headings.into_iter().enumerate().map(fitted).collect();
    Some(listing(&columns, &arms.iter().map(row).collect::<Vec<_>>(), style))
}

/// Headings of the same number of lines, so that the last words of all stand beside each other.
fn even(headings: Vec<String>) -> Vec<String> {
    let lines = |heading: &String| heading.lines().count();
    let most = headings.iter().map(lines).max().unwrap_or(0);
    headings.iter().map(|heading| "\n".repeat(most - lines(heading)) + heading).collect()
}
