//! A record as a plot for the terminal: each arm's median and interval on one axis, and what others
//! published beside.

use std::collections::BTreeSet;

use anstyle::AnsiColor;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use crate::arm::{Arm, Unit, Verdict};
use crate::numbers;
use crate::record::Record;
use crate::scale::Scale;
use crate::table;

/// How a plot is drawn. The caller knows the terminal; this crate never asks it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether to use ANSI colours.
    pub colour: bool,
    /// How many columns the terminal has; none draws to 100.
    pub width: Option<u16>,
    /// Whether the terminal shows more than ASCII.
    pub unicode: bool,
}

/// The characters that a plot is made of.
struct Marks {
    touched: char,
    moved: char,
    published: char,
    low: char,
    high: char,
    line: char,
    axis: char,
    tick: char,
    dash: &'static str,
    cut: &'static str,
}

const DRAWN: Marks = Marks {
    touched: '●',
    moved: '○',
    published: '◆',
    low: '├',
    high: '┤',
    line: '─',
    axis: '─',
    tick: '┴',
    dash: "–",
    cut: "…",
};
const ASCII: Marks = Marks {
    touched: '*',
    moved: 'o',
    published: 'P',
    low: '|',
    high: '|',
    line: '-',
    axis: '-',
    tick: '+',
    dash: "-",
    cut: "~",
};

/// The width without a terminal.
const WIDTH_USUAL: usize = 100;
/// A lane for marks that is narrower than this shows nothing.
const LANE_MIN: usize = 12;
/// Names take at most this share of the width, in percent.
const NAME_PERCENT: usize = 40;
/// Columns between a name, its lane and its figure.
const GAP: usize = 2;
/// Places on the axis that are labelled, ends included.
const TICKS: usize = 4;

/// The record as a plot, ending in a newline: arms in the record's order, those of a section and of a
/// unit on an axis of their own. Arms that gave no figure have an empty lane.
pub fn render(record: &Record, style: Style) -> String {
    let marks = if style.unicode { &DRAWN } else { &ASCII };
    let width = style.width.map_or(WIDTH_USUAL, usize::from).max(24);
    let mut text = String::new();
    for group in groups(record) {
        if let Some(section) = group[0].section.as_deref() {
            text.push_str(&fitted(section, width, marks));
            text.push('\n');
        }
        text.push_str(&Panel::of(&group, width, marks).draw(&group, style));
    }
    text.push_str(&legend(record, marks, style));
    if style.unicode { text } else { ascii_only(&text) }
}

/// Arms that stand one after the other and share section and unit.
fn groups(record: &Record) -> Vec<Vec<&Arm>> {
    let mut groups: Vec<Vec<&Arm>> = Vec::new();
    for arm in &record.arms {
        match groups.last_mut() {
            Some(group) if group[0].section == arm.section && group[0].unit == arm.unit => {
                group.push(arm)
            }
            _ => groups.push(vec![arm]),
        }
    }
    groups
}

/// How the columns of a group are laid out.
struct Panel<'a> {
    width: usize,
    /// Columns for the names; none where they stand above their lanes.
    name: usize,
    lane: usize,
    figures: Vec<String>,
    scale: Option<Scale>,
    unit: Unit,
    marks: &'a Marks,
}

impl<'a> Panel<'a> {
    fn of(arms: &[&Arm], width: usize, marks: &'a Marks) -> Panel<'a> {
        let widest = arms.iter().map(|arm| arm.name.width()).max().unwrap_or(0);
        let beside = widest.min(width * NAME_PERCENT / 100).max(1);
        // Names that would be cut alike stand above their lanes, as on the page.
        let cut = |columns| arms.iter().map(move |arm| fitted(&arm.name, columns, marks));
        let different = |columns| cut(columns).collect::<BTreeSet<_>>().len();
        let name = if different(beside) < different(widest) { 0 } else { beside };
        let mut figures: Vec<String> = arms.iter().map(|arm| figure(arm, true, marks)).collect();
        let lane_beside = |figures: &[String]| {
            let widest = figures.iter().map(|text| text.width()).max().unwrap_or(0);
            width.saturating_sub(name + widest + 2 * GAP)
        };
        if lane_beside(&figures) < LANE_MIN {
            figures = arms.iter().map(|arm| figure(arm, false, marks)).collect();
        }
        let lane = lane_beside(&figures).max(4);
        let all = arms.iter().flat_map(|arm| {
            let published = arm.published.iter().map(|published| published.value);
            arm.median.into_iter().chain(arm.ci95.into_iter().flatten()).chain(published)
        });
        Panel { width, name, lane, figures, scale: Scale::of(all), unit: arms[0].unit, marks }
    }

    fn draw(&self, arms: &[&Arm], style: Style) -> String {
        let mut text = String::new();
        for (arm, figure) in arms.iter().zip(&self.figures) {
            let mut name = fitted(&arm.name, self.name, self.marks);
            if self.name == 0 {
                text.push_str(&fitted(&arm.name, self.width, self.marks));
                text.push('\n');
                name.clear();
            }
            let pad = self.name.saturating_sub(name.width());
            let line = format!(
                "{name}{:pad$}{:GAP$}{}{:GAP$}{figure}",
                "",
                "",
                painted(&self.lane(arm), arm, style),
                ""
            );
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text.push_str(&self.axis());
        text
    }

    fn column(&self, scale: Scale, figure: f64) -> usize {
        (scale.place(figure) * (self.lane - 1) as f64).round() as usize
    }

    fn lane(&self, arm: &Arm) -> String {
        let mut lane = vec![' '; self.lane];
        let Some(scale) = self.scale else { return lane.into_iter().collect() };
        if let Some([low, high]) = arm.ci95 {
            let (low, high) =
                (self.column(scale, low.min(high)), self.column(scale, high.max(low)));
            lane[low..=high].fill(self.marks.line);
            lane[low] = self.marks.low;
            lane[high] = self.marks.high;
        }
        if let Some(published) = &arm.published {
            lane[self.column(scale, published.value)] = self.marks.published;
        }
        if let Some(median) = arm.median {
            let moved = arm.unit.is_of_bytes() && !arm.touched;
            let mark = if moved { self.marks.moved } else { self.marks.touched };
            lane[self.column(scale, median)] = mark;
        }
        lane.into_iter().collect()
    }

    /// The axis with its ticks, and their figures below.
    fn axis(&self) -> String {
        let Some(scale) = self.scale else { return "\n".to_owned() };
        let indent = self.name + GAP;
        let mut line = vec![self.marks.axis; self.lane];
        let mut labels = String::new();
        for tick in 0..TICKS {
            let place = tick as f64 / (TICKS - 1) as f64;
            let column = (place * (self.lane - 1) as f64).round() as usize;
            line[column] = self.marks.tick;
            let label = numbers::figure(scale.figure(place));
            // The last ends where the axis does; the others begin or stand at their tick.
            let from = match tick {
                0 => 0,
                _ if tick + 1 == TICKS => (column + 1).saturating_sub(label.width()),
                _ => column.saturating_sub(label.width() / 2),
            };
            let used = labels.width();
            if used == 0 || from > used {
                labels.push_str(&" ".repeat(from - used));
                labels.push_str(&label);
            }
        }
        let kind = if scale.is_logarithmic() { ", logarithmic" } else { "" };
        let unit = format!("{}{kind}", self.unit.as_str());
        let line: String = line.into_iter().collect();
        // The unit stands below the names, or below all where they are too short for it.
        let (beside, below) = match unit.width() < indent {
            true => (unit, String::new()),
            false => (String::new(), format!("{unit}\n")),
        };
        format!("{:indent$}{line}\n{beside:indent$}{labels}\n{below}\n", "")
    }
}

/// The figure of an arm, with its interval where there is room.
fn figure(arm: &Arm, with_interval: bool, marks: &Marks) -> String {
    match (arm.median, arm.ci95.filter(|_| with_interval)) {
        (None, _) if arm.why.is_some() => "n/a".to_owned(),
        (None, _) => marks.dash.to_owned(),
        (Some(median), None) => numbers::figure(median),
        (Some(median), Some(interval)) => {
            format!("{} {}", numbers::figure(median), numbers::interval(interval))
        }
    }
}

/// The text without control characters, cut to so many columns. Names of arms differ at their ends as
/// often as at their beginnings: what does not fit is left out in the middle, as on the page.
fn fitted(text: &str, columns: usize, marks: &Marks) -> String {
    let text = table::printable(text).replace('\n', " ");
    if text.width() <= columns {
        return text;
    }
    let room = columns.saturating_sub(marks.cut.width());
    let end_room = room * END_PERCENT / 100;
    // Letters that are one on the terminal are together not as wide as each of them is alone.
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).chain([text.len()]).collect();
    let fit = places.partition_point(|at| text[..*at].width() <= room - end_room);
    let begin = &text[..places[fit.saturating_sub(1)]];
    let end = &text[places[places.partition_point(|at| text[*at..].width() > end_room)]..];
    // Nor does a mark without its letter belong to the one before.
    let end = end.trim_start_matches(|c: char| c.width() == Some(0));
    format!("{begin}{}{end}", marks.cut)
}

/// So much of the room for a name that is cut has its end, in percent.
const END_PERCENT: usize = 45;

fn painted(lane: &str, arm: &Arm, style: Style) -> String {
    let colour = match arm.verdict {
        Some(Verdict::Faster) => AnsiColor::Green,
        Some(Verdict::Slower) => AnsiColor::Red,
        _ => return lane.to_owned(),
    };
    if !style.colour {
        return lane.to_owned();
    }
    let paint = anstyle::Style::new().fg_color(Some(colour.into()));
    format!("{paint}{lane}{paint:#}")
}

fn legend(record: &Record, marks: &Marks, style: Style) -> String {
    let any = |is: fn(&Arm) -> bool| record.arms.iter().any(is);
    let mut told =
        vec![format!("{}{}{} median and its 95% interval", marks.low, marks.touched, marks.high)];
    if any(|arm| arm.median.is_some() && arm.unit.is_of_bytes() && !arm.touched) {
        told.push(format!("{} bytes moved, but not looked at", marks.moved));
    }
    if any(|arm| arm.published.is_some()) {
        told.push(format!("{} published, on another machine", marks.published));
    }
    let width = style.width.map_or(WIDTH_USUAL, usize::from).max(24);
    format!("{}\n", textwrap::fill(&told.join("; "), width))
}

/// For terminals of no more than ASCII: whatever else a name holds is a question mark.
fn ascii_only(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            c if c.is_ascii() => c,
            '→' => '>',
            '×' => 'x',
            _ => '?',
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_do_not_fit_lose_their_middle() {
        for (name, columns, shown) in [
            ("vmsplice-splice-huge@same-cpu", 16, "vmsplice-…me-cpu"),
            ("vmsplice-splice-huge@free", 16, "vmsplice-…e@free"),
            ("write-read", 10, "write-read"),
            ("管道管道管道", 8, "管道…道"),
            ("ab", 1, "…"),
            ("❤\u{fe0f}❤\u{fe0f}❤\u{fe0f}❤\u{fe0f}❤\u{fe0f}", 7, "❤\u{fe0f}❤\u{fe0f}…❤\u{fe0f}"),
        ] {
            let cut = fitted(name, columns, &DRAWN);
            assert_eq!(cut, shown);
            assert!(cut.width() <= columns);
        }
    }

    #[test]
    fn names_of_letters_that_are_one_together_keep_to_their_columns() {
        let arm = |name: &str| {
            let mut arm = Arm::new(name, Unit::GibPerSecond);
            (arm.median, arm.ci95) = (Some(8.0), Some([7.0, 9.0]));
            arm
        };
        let names =
            ["❤\u{fe0f}", "👩\u{200d}🚀", "🇩🇪", "e\u{301}", "⌚\u{fe0e}"].map(|it| it.repeat(30));
        let record =
            Record { arms: names.each_ref().map(|name| arm(name)).to_vec(), ..Record::default() };
        for width in 24..200 {
            let style = Style { colour: false, width: Some(width), unicode: true };
            for line in render(&record, style).lines() {
                assert!(line.width() <= usize::from(width), "{width} columns: {line}");
            }
        }
    }

    #[test]
    fn names_that_would_be_cut_alike_stand_above_their_lanes() {
        let steps = ["splice", "splice-huge", "splice-huge-spin", "splice-untouched", "read"];
        let arm = |step: &str| {
            let mut arm = Arm::new(format!("vmsplice-{step}@same-cpu"), Unit::GibPerSecond);
            (arm.median, arm.ci95) = (Some(8.0), Some([7.0, 9.0]));
            arm
        };
        let record = Record { arms: steps.map(arm).to_vec(), ..Record::default() };
        for width in 34..120 {
            let style = Style { colour: false, width: Some(width), unicode: true };
            let text = render(&record, style);
            let widest = text.lines().map(|line| line.width()).max().unwrap_or(0);
            assert!(widest <= usize::from(width), "{width} columns:\n{text}");
            let begin = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
            let names: BTreeSet<_> =
                text.lines().map(begin).filter(|name| name.starts_with("vmsplice")).collect();
            assert_eq!(names.len(), steps.len(), "{width} columns:\n{text}");
        }
    }
}
