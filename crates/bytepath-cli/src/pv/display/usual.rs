//! What is shown where no format says it: each thing that was asked for, in pv's order.

use super::format::{Field, Format};
use super::{COLUMNS_MAX, DisplayOptions, Moment};

/// Fields with their numbers, before it is known what there is to tell.
#[derive(Clone, Debug)]
pub(crate) struct Usual(Vec<(Field, Option<usize>)>);

impl Usual {
    /// Everything that was asked for; pv's usual five things where nothing was.
    pub(crate) fn of(options: &DisplayOptions) -> Self {
        if options.numeric {
            return Self::numbers(options);
        }
        let all = !says_what(options);
        let last_written = options.last_written.filter(|bytes| *bytes > 0);
        let last_written = last_written.map(|bytes| bytes.min(COLUMNS_MAX));
        Self::wanted(&[
            (true, Field::Name, None),
            (options.bytes || options.bits || all, Field::Bytes, None),
            (options.buffer_percent, Field::BufferPercent, None),
            (options.timer || all, Field::Timer, None),
            (options.rate || all, Field::Rate, None),
            (options.average_rate, Field::AverageRate, None),
            (options.progress || all, Field::Progress, None),
            (options.eta || all, Field::Eta, None),
            (options.fineta, Field::Fineta, None),
            (last_written.is_some(), Field::LastWritten, last_written),
        ])
    }

    /// What -n writes: the percentage, unless the amount or the rate were asked for; one of several has its
    /// name before it.
    fn numbers(options: &DisplayOptions) -> Self {
        let bytes = options.bytes || options.bits;
        Self::wanted(&[
            (options.named, Field::Name, None),
            (options.timer, Field::Timer, None),
            (bytes, Field::Bytes, None),
            (options.rate, Field::Rate, None),
            (!bytes && !options.rate, Field::Amount, None),
        ])
    }

    fn wanted(fields: &[(bool, Field, Option<usize>)]) -> Self {
        let wanted = fields.iter().filter(|(wanted, ..)| *wanted);
        Self(wanted.map(|(_, field, number)| (*field, *number)).collect())
    }

    /// Shows the ratio of both sides as well.
    pub(crate) fn add_ratio(&mut self) {
        self.0.push((Field::Ratio, None));
    }

    /// The format for this moment: what cannot be told leaves no gap.
    pub(crate) fn format(&self, moment: &Moment<'_>) -> Format {
        Format::spaced(self.0.iter().copied().filter(|(field, _)| match field {
            Field::Eta | Field::Fineta => moment.size.is_some_and(|size| size > 0),
            Field::Name => moment.name.is_some(),
            _ => true,
        }))
    }
}

/// Whether a thing to show was asked for.
pub(crate) fn says_what(options: &DisplayOptions) -> bool {
    options.progress
        || options.timer
        || options.eta
        || options.fineta
        || options.rate
        || options.average_rate
        || options.bytes
        || options.bits
        || options.buffer_percent
        || options.last_written.is_some_and(|bytes| bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(options: DisplayOptions) -> Vec<Field> {
        Usual::of(&options).0.into_iter().map(|(field, _)| field).collect()
    }

    #[test]
    fn pv_has_five_usual_things_to_tell() {
        let usual =
            [Field::Name, Field::Bytes, Field::Timer, Field::Rate, Field::Progress, Field::Eta];
        assert_eq!(fields(DisplayOptions::default()), usual);
        assert_eq!(fields(DisplayOptions { gauge: true, ..Default::default() }), usual);
    }

    #[test]
    fn what_is_asked_for_is_told_in_pvs_order_and_nothing_else() {
        let some = DisplayOptions {
            fineta: true,
            average_rate: true,
            bits: true,
            last_written: Some(8),
            ..Default::default()
        };
        let expected =
            [Field::Name, Field::Bytes, Field::AverageRate, Field::Fineta, Field::LastWritten];
        assert_eq!(fields(some), expected);
    }

    #[test]
    fn numbers_are_a_percentage_unless_others_are_asked_for() {
        let numeric = DisplayOptions { numeric: true, ..Default::default() };
        assert_eq!(fields(numeric.clone()), [Field::Amount]);
        let timed = DisplayOptions { timer: true, ..numeric.clone() };
        assert_eq!(fields(timed), [Field::Timer, Field::Amount]);
        let both = DisplayOptions { rate: true, bytes: true, ..numeric };
        assert_eq!(fields(both), [Field::Bytes, Field::Rate]);
    }

    #[test]
    fn an_end_that_is_not_known_leaves_no_gap() {
        let options = DisplayOptions { eta: true, timer: true, ..Default::default() };
        let usual = Usual::of(&options);
        let told = |moment: &Moment<'_>| usual.format(moment).0.len();
        assert_eq!(told(&Moment::default()), 1);
        assert_eq!(told(&Moment { size: Some(0), ..Default::default() }), 1);
        assert_eq!(told(&Moment { size: Some(9), ..Default::default() }), 3);
    }
}
