//! A comparison as tables for the terminal, one for each run that is held against the base.

use anstyle::AnsiColor;

use super::{
    ArmInRun, ComparedArm, Comparison, absence, difference, line_of, ratio_cells, remarks, words,
};
use crate::arm::Verdict;
use crate::numbers;
use crate::table::{Fitted, NAME_MIN, Style, listing, paragraph};

/// A verdict wraps to no less: `undecided: would`.
const VERDICT_MIN: u16 = 16;

impl Comparison {
    /// The comparison as tables, ending in a newline.
    pub fn render(&self, style: Style) -> String {
        let mut text =
            paragraph(&format!("{}: {}", self.experiment.name, self.experiment.question), style);
        for (index, run) in self.runs.iter().enumerate() {
            text += &paragraph(&format!("{}  {}", Comparison::letter(index), line_of(run)), style);
        }
        for run in 1..self.runs.len() {
            text.push('\n');
            text += &coloured(&self.table(run, style), style);
        }
        text.push('\n');
        text += &match self.differences.is_empty() {
            true => paragraph("The runs tell of the same machine, program and settings.", style),
            false => "These differ:\n".to_owned(),
        };
        for what in &self.differences {
            text += &paragraph(&format!("  {}", difference(what)), style);
        }
        for remark in remarks(self) {
            text += &paragraph(&remark, style);
        }
        text
    }

    fn table(&self, run: usize, style: Style) -> String {
        let (base, other) = (Comparison::letter(0), Comparison::letter(run));
        let figures = |heading: String| Fitted::new(heading).of_figures();
        let columns = [
            Fitted::new("arm").wraps_from(NAME_MIN),
            Fitted::new("unit").importance(1),
            figures(format!("{base}\nmedian")).importance(2),
            figures(format!("{other}\nmedian")).importance(3),
            figures(format!("{other}/{base}")).importance(5),
            figures("interval".to_owned()).importance(4),
            Fitted::new("verdict").wraps_from(VERDICT_MIN),
        ];
        let rows: Vec<_> = self.arms.iter().map(|arm| row(arm, run).to_vec()).collect();
        listing(&columns, &rows, style)
    }
}

fn row(arm: &ComparedArm, run: usize) -> [String; 7] {
    let (base, other) = (arm.runs[0].as_ref(), arm.runs[run].as_ref());
    let median = |of: Option<&ArmInRun>| match of.and_then(|arm| arm.median) {
        Some(median) => numbers::figure(median),
        None => absence(of).to_owned(),
    };
    let [ratio, interval] = ratio_cells(other);
    [
        arm.name.clone(),
        arm.unit.as_str().to_owned(),
        median(base),
        median(other),
        ratio,
        interval,
        other.map_or_else(|| numbers::UNKNOWN.to_owned(), words),
    ]
}

/// Lines that end in a verdict, in its colour.
fn coloured(text: &str, style: Style) -> String {
    let colour = |line: &str| {
        let ends = |verdict: Verdict| line.trim_end().ends_with(verdict.as_str());
        match () {
            () if ends(Verdict::Faster) => Some(AnsiColor::Green),
            () if ends(Verdict::Slower) => Some(AnsiColor::Red),
            () => None,
        }
    };
    let line = |line: &str| match colour(line).filter(|_| style.colour) {
        Some(colour) => {
            let style = anstyle::Style::new().fg_color(Some(colour.into()));
            format!("{style}{line}{style:#}\n")
        }
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arm::{Better, Status, Unit};
    use crate::comparison::Method;

    fn arm(name: &str, verdict: Verdict) -> ComparedArm {
        let run = |ratio, ratio_interval, verdict| ArmInRun {
            status: Status::Ok,
            why: None,
            median: Some(12.3),
            ci95: Some([12.1, 12.5]),
            ratio,
            ratio_interval,
            verdict,
            shows_from: Some(0.08),
        };
        let (base, other) =
            (run(None, None, None), run(Some(1.1), Some([0.98, 1.2]), Some(verdict)));
        let name = name.to_owned();
        let runs = vec![Some(base), Some(other)];
        ComparedArm { name, unit: Unit::GibPerSecond, better: Better::Higher, runs }
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_names_and_verdicts_stay_readable() {
        let method = Method {
            confidence: 0.95,
            intervals: 2,
            margin: 0.02,
            repeats: 0,
            between: String::new(),
        };
        let comparison = Comparison {
            schema: Default::default(),
            bytepath: String::new(),
            experiment: Default::default(),
            runs: vec![Default::default(), Default::default()],
            differences: Vec::new(),
            method,
            arms: vec![
                arm("vmsplice-splice-huge-spin@same-cpu", Verdict::Undecided),
                arm("write-read@same-cpu", Verdict::Faster),
            ],
            notes: Vec::new(),
        };
        for width in 40..140 {
            let text = comparison.table(1, Style { colour: false, width: Some(width) });
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= usize::from(width), "{width} columns:\n{text}");
            assert!(text.contains("undecided: would") && text.contains("faster"), "{text}");
            assert!(text.lines().count() <= 10, "{width} columns:\n{text}");
            let (table, missing) = text.split_once("too narrow").unwrap_or((&text, ""));
            let has_all = ["GiB/s", "[0.98"].iter().all(|cell| table.contains(cell))
                && table.matches("median").count() == 2;
            assert_eq!(missing.is_empty(), has_all, "{text}");
        }
    }
}
