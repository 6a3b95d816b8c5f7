//! What an arm tells beside its value: named figures, each a median over its samples.

use serde::{Deserialize, Serialize};

use crate::arm::Arm;

/// The name under which an arm's parameters hold them.
pub const PARAM: &str = "figures";

/// A figure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What it is.
    pub name: String,
    /// In what it is told.
    pub unit: String,
    /// It.
    pub value: f64,
}

/// Figures, in the order in which they are shown.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Figures(pub Vec<Figure>);

impl Figures {
    /// Adds one; nothing where it is not known.
    pub fn add(&mut self, name: &str, unit: &str, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into() {
            self.0.push(Figure { name: name.to_owned(), unit: unit.to_owned(), value });
        }
    }

    /// The figure of this name.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }

    /// Of each figure the median over these samples.
    pub fn medians(samples: &[Figures]) -> Figures {
        let mut medians = Figures::default();
        for figure in samples.iter().flat_map(|figures| &figures.0) {
            if medians.get(&figure.name).is_some() {
                continue;
            }
            let mut values: Vec<f64> =
                samples.iter().filter_map(|figures| figures.get(&figure.name)).collect();
            values.sort_by(f64::total_cmp);
            let (low, high) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
            medians.add(&figure.name, &figure.unit, (low + high) / 2.0);
        }
        medians
    }

    /// The figures that an arm's parameters hold.
    pub fn of_arm(arm: &Arm) -> Option<Figures> {
        serde_json::from_value(arm.params.get(PARAM)?.clone()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_over_the_samples_that_have_the_figure() {
        let of = |values: &[(&str, f64)]| {
            let mut figures = Figures::default();
            values.iter().for_each(|(name, value)| figures.add(name, "s", *value));
            figures
        };
        let samples = [of(&[("a", 3.0)]), of(&[("a", 1.0), ("b", 7.0)]), of(&[("a", 2.0)])];
        assert_eq!(Figures::medians(&samples), of(&[("a", 2.0), ("b", 7.0)]));
        assert_eq!(Figures::medians(&samples[..2]).get("a"), Some(2.0));
        assert_eq!(Figures::medians(&[]), Figures::default());
    }
}
