//! A comparison as Markdown, for the comment of a review.

use super::{ArmInRun, Comparison, absence, difference, line_of, ratio_cells, remarks, words};
use crate::markdown::escaped;
use crate::numbers;

impl Comparison {
    /// The comparison as Markdown with tables, as GitHub and GitLab show them. Nothing of a record
    /// is taken for markup.
    pub fn to_markdown(&self) -> String {
        let mut text = format!(
            "### {}: {}\n\n",
            escaped(&self.experiment.name),
            escaped(&self.experiment.question)
        );
        for (index, run) in self.runs.iter().enumerate() {
            text += &format!("- **{}** {}\n", Comparison::letter(index), escaped(&line_of(run)));
        }
        for run in 1..self.runs.len() {
            text += &self.markdown_table(run);
        }
        if !self.differences.is_empty() {
            text += "\nThese differ:\n\n";
            for what in &self.differences {
                text += &format!("- {}\n", escaped(&difference(what)));
            }
        }
        for remark in remarks(self) {
            text += &format!("\n{}\n", escaped(&remark));
        }
        text
    }

    fn markdown_table(&self, run: usize) -> String {
        let (base, other) = (Comparison::letter(0), Comparison::letter(run));
        let mut text = format!(
            "\n| arm | unit | {base} median | {other} median | {other}/{base} | interval | verdict |\n\
             |---|---|--:|--:|--:|--:|---|\n"
        );
        for arm in &self.arms {
            let (one, two) = (arm.runs[0].as_ref(), arm.runs[run].as_ref());
            let median = |of: Option<&ArmInRun>| match of.and_then(|arm| arm.median) {
                Some(median) => numbers::figure(median),
                None => absence(of).to_owned(),
            };
            let [ratio, interval] = ratio_cells(two);
            let cells = [
                escaped(&arm.name),
                arm.unit.as_str().to_owned(),
                median(one),
                median(two),
                ratio,
                interval,
                two.map_or_else(|| numbers::UNKNOWN.to_owned(), words),
            ];
            text += &format!("| {} |\n", cells.join(" | "));
        }
        text
    }
}
