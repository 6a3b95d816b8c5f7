//! Flame graphs: SVG that holds all it needs, its search among it, and loads nothing.

use bytepath_report::Stack;
use inferno::differential;
use inferno::flamegraph::{self, Options};

use crate::profile::OTHERS;

/// Why a graph could not be drawn.
#[derive(Debug, thiserror::Error)]
pub enum FlameError {
    /// There is nothing to draw.
    #[error("there is no sample to draw a flame graph of")]
    Empty,
    /// The drawing itself failed.
    #[error("cannot draw the flame graph: {0}")]
    Drawing(#[from] std::io::Error),
}

/// A flame graph of folded stacks, threads at the bottom.
///
/// # Errors
/// There is no sample.
pub fn graph(title: &str, stacks: &[Stack]) -> Result<Vec<u8>, FlameError> {
    let folded = crate::folded::text(stacks);
    drawn(title, "", &folded)
}

/// What differs between two: the second is drawn, what it has more of in red and what it has less of
/// in blue. Counts of the first are scaled to those of the second. What other programs took is left
/// out, as it is where classes are compared.
///
/// # Errors
/// One of them has no sample but of other programs.
pub fn difference(title: &str, before: &[Stack], after: &[Stack]) -> Result<Vec<u8>, FlameError> {
    let [before, after] = [before, after].map(without_others);
    if before.is_empty() || after.is_empty() {
        return Err(FlameError::Empty);
    }
    let [before, after] = [before, after].map(|stacks| crate::folded::text(&stacks));
    let mut both = Vec::new();
    let options = differential::Options { normalize: true, ..differential::Options::default() };
    differential::from_readers(options, before.as_bytes(), after.as_bytes(), &mut both)?;
    let both = String::from_utf8_lossy(&both);
    drawn(title, "red: more than before; blue: less", &both)
}

fn without_others(stacks: &[Stack]) -> Vec<Stack> {
    let is_of_others = |stack: &&Stack| stack.frames.split(';').next() == Some(OTHERS);
    stacks.iter().filter(|stack| !is_of_others(stack)).cloned().collect()
}

fn drawn(title: &str, subtitle: &str, folded: &str) -> Result<Vec<u8>, FlameError> {
    if folded.trim().is_empty() {
        return Err(FlameError::Empty);
    }
    let mut options = Options::default();
    options.title = title.to_owned();
    options.subtitle = Some(subtitle.to_owned()).filter(|text| !text.is_empty());
    options.count_name = "samples".to_owned();
    // What it was drawn from says the same colours for the same functions.
    options.hash = true;
    // Ours: a graph is compared with others by eye.
    options.deterministic = true;
    let mut svg = Vec::new();
    flamegraph::from_lines(&mut options, folded.lines(), &mut svg)?;
    Ok(svg)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stacks(lines: &[(&str, u64)]) -> Vec<Stack> {
        let stack =
            |(frames, count): &(&str, u64)| Stack { frames: (*frames).to_owned(), count: *count };
        lines.iter().map(stack).collect()
    }

    #[test]
    fn a_graph_shows_every_function_and_loads_nothing() {
        let stacks = stacks(&[("a;main;write_[k]", 7), ("a;<script>alert(1)</script>", 3)]);
        let svg =
            String::from_utf8(graph("a & b", &stacks).expect("it has samples")).expect("UTF-8");
        for part in ["main (7 samples", "write (7 samples", "a &amp; b", "search"] {
            assert!(svg.contains(part), "{part} is missing in {svg}");
        }
        assert!(!svg.contains("<script>alert"), "names are escaped");
        for loaded in ["src=\"http", "href=\"http", "url(http", "@import"] {
            assert!(!svg.contains(loaded), "it loads something: {loaded}");
        }
    }

    #[test]
    fn a_difference_is_drawn_in_two_colours_and_needs_both() {
        let before = stacks(&[("a;main;x", 50), ("a;main;y", 50)]);
        let after = stacks(&[("a;main;x", 90), ("a;main;y", 10)]);
        let svg = difference("x", &before, &after).expect("both have samples");
        let svg = String::from_utf8(svg).expect("UTF-8");
        assert!(svg.contains("x (") && svg.contains("; +"), "{svg}");
        assert!(matches!(difference("x", &before, &[]), Err(FlameError::Empty)));
        let of_others = stacks(&[(OTHERS, 900)]);
        let beside = [before.clone(), of_others.clone()].concat();
        let with_others = difference("x", &beside, &after).expect("both have samples");
        assert_eq!(String::from_utf8(with_others).expect("UTF-8"), svg, "others are left out");
        assert!(matches!(difference("x", &before, &of_others), Err(FlameError::Empty)));
        assert!(matches!(graph("x", &[]), Err(FlameError::Empty)));
    }
}
