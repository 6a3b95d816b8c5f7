//! From figures to places on an axis, linear or logarithmic, as terminal plots and pages choose it.

/// From so many times on between the smallest and the largest figure, an axis is logarithmic.
const LOG_FROM: f64 = 20.0;

/// An axis that holds all of some figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    low: f64,
    high: f64,
    logarithmic: bool,
}

impl Scale {
    /// The axis for these figures: logarithmic where they span decades, else linear and from 0.
    /// Figures that are not finite, or not positive, do not count. None without any.
    pub fn of(figures: impl Iterator<Item = f64>) -> Option<Scale> {
        let counts = |figure: &f64| figure.is_finite() && *figure > 0.0;
        let (low, high) =
            figures.filter(counts).fold((f64::INFINITY, 0.0_f64), |(low, high), figure| {
                (low.min(figure), high.max(figure))
            });
        if high == 0.0 {
            return None;
        }
        // Of the figures' quotient, as their difference says nothing about decades.
        let logarithmic = high / low >= LOG_FROM;
        Some(Scale { low: if logarithmic { low } else { 0.0 }, high, logarithmic })
    }

    /// Whether it is logarithmic.
    pub fn is_logarithmic(&self) -> bool {
        self.logarithmic
    }

    /// Where a figure lies, from 0 to 1; those beyond the ends lie at them.
    pub fn place(&self, figure: f64) -> f64 {
        let place = if self.logarithmic {
            let span = (self.high / self.low).ln();
            (figure.max(self.low) / self.low).ln() / span
        } else {
            (figure - self.low) / (self.high - self.low)
        };
        if place.is_finite() { place.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// The figure at a place from 0 to 1.
    pub fn figure(&self, place: f64) -> f64 {
        if self.logarithmic {
            self.low * (self.high / self.low).powf(place)
        } else {
            self.low + (self.high - self.low) * place
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_is_logarithmic_where_figures_span_decades() {
        let linear = Scale::of([3.0, 8.0].into_iter()).expect("figures");
        assert!(!linear.is_logarithmic());
        assert_eq!(linear.place(4.0), 0.5);
        let wide = Scale::of([0.1, 1.0, 10.0].into_iter()).expect("figures");
        assert!(wide.is_logarithmic());
        assert!((wide.place(1.0) - 0.5).abs() < 1e-12);
        assert!((wide.figure(0.5) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn figures_that_cannot_be_placed_are_left_out_of_account() {
        assert_eq!(Scale::of([0.0, -1.0, f64::NAN, f64::INFINITY].into_iter()), None);
        let scale = Scale::of([0.0, 5.0].into_iter()).expect("one figure");
        assert_eq!((scale.place(-3.0), scale.place(f64::NAN), scale.place(9.0)), (0.0, 0.0, 1.0));
        let narrow = Scale::of([1e-300, 1e300].into_iter()).expect("figures");
        assert!((0.0..=1.0).contains(&narrow.place(1.0)));
    }
}
