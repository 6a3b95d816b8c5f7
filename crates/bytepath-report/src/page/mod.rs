//! Records as one page of HTML that needs nothing beside itself: no network, no other file.
//!
//! Every figure, warning and fact stands in the page as text, put there by templates that escape
//! whatever comes from a record; the script only adds charts, sorting and the flame graphs, from the
//! same figures as JSON. A content-security policy in the page allows exactly the scripts that this
//! crate put there, by their hashes, and no connection to anywhere, so that what a record says can
//! neither run nor tell anybody.
//!
//! The charts are drawn by Observable Plot and D3, kept in `vendor/` as they were published.

mod data;
mod explained;
mod text;
mod tree;
mod view;

use askama::Template;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

use crate::doubt::Here;
use crate::numbers;
use crate::packed::unpacked;
use crate::record::Record;
use data::Data;
pub use view::COMMAND;
use view::Run;

/// A page is never larger than this, in bytes.
pub const PAGE_BYTES_MAX: usize = 3 << 20;

// Packed by build.rs.
const D3: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/d3.z"));
const PLOT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/plot.z"));
const SCRIPT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/script.z"));
const STYLE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/style.z"));

/// Why there is no page.
#[derive(Debug, thiserror::Error)]
pub enum PageError {
    /// No record was given.
    #[error("there is no record to report")]
    Nothing,
    /// Too much for one page, however much is left out that can be.
    #[error(
        "one page of {} MiB has no room for {} with {}; report fewer at once",
        PAGE_BYTES_MAX >> 20,
        numbers::counted(*records as u64, "record"),
        numbers::counted(*arms as u64, "arm")
    )]
    TooLarge {
        /// How many records were given.
        records: usize,
        /// How many arms they have together.
        arms: usize,
    },
    /// The page cannot be put together.
    #[error("cannot put the page together: {0}")]
    Template(#[from] askama::Error),
    /// The figures cannot be put into JSON.
    #[error("cannot put the figures into the page: {0}")]
    Json(#[from] serde_json::Error),
}

/// How much of a record goes into the page. What does not is counted there in words.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Arms of a run.
    arms: usize,
    /// Samples of an arm.
    samples: usize,
    /// Calls of an arm's flame graph.
    nodes: usize,
    /// Classes of cost of an arm.
    classes: usize,
    /// Counters, system calls and the like of an arm.
    details: usize,
}

/// All arms of the page together have at most so many samples, and flame graphs so many calls.
const SAMPLES_MAX: usize = 40_000;
const NODES_MAX: usize = 40_000;
/// The runs of a page have at most so many arms.
const ARMS_MAX: usize = 2000;
/// A page that is too large is made again so often, each time with half of what may be left out.
const TRIES: usize = 4;

impl Limits {
    fn of(records: &[Record]) -> Limits {
        let arms: usize = records.iter().map(|record| record.arms.len()).sum();
        let explained = records.iter().flat_map(|record| &record.arms);
        let explained = explained.filter(|arm| arm.explained.is_some()).count();
        Limits {
            arms: (ARMS_MAX / records.len().max(1)).max(20),
            samples: (SAMPLES_MAX / arms.max(1)).max(10),
            nodes: (NODES_MAX / explained.max(1)).clamp(40, 2000),
            classes: 40,
            details: (4000 / explained.max(1)).clamp(8, 40),
        }
    }

    fn halved(self) -> Limits {
        let half = |count: usize, least: usize| (count / 2).max(least);
        Limits {
            arms: half(self.arms, 10),
            samples: half(self.samples, 3),
            nodes: half(self.nodes, 20),
            classes: half(self.classes, 16),
            details: half(self.details, 4),
        }
    }
}

/// The page of these records. `made` says when and by what it was made, and `here` what is true now,
/// which an old record is stale beside.
///
/// # Errors
/// There is no record, or they are too much for one page.
pub fn render(records: &[Record], made: &str, here: &Here) -> Result<String, PageError> {
    if records.is_empty() {
        return Err(PageError::Nothing);
    }
    let mut limits = Limits::of(records);
    for _ in 0..TRIES {
        let page = page(records, made, here, &limits)?;
        if page.len() <= PAGE_BYTES_MAX {
            return Ok(page);
        }
        limits = limits.halved();
    }
    let arms = records.iter().map(|record| record.arms.len()).sum();
    Err(PageError::TooLarge { records: records.len(), arms })
}

fn page(records: &[Record], made: &str, here: &Here, limits: &Limits) -> Result<String, PageError> {
    let data = text::json_in_script(&serde_json::to_string(&Data::of(records, limits))?);
    let runs: Vec<Run> =
        (1..).zip(records).map(|(number, record)| Run::of(number, record, here, limits)).collect();
    let (d3, plot, script) = (unpacked(D3), unpacked(PLOT), script());
    let hashes: Vec<String> = [&d3, &plot, &script].iter().map(|script| hash(script)).collect();
    let page = Page {
        title: title(records),
        hashes: hashes.join(" "),
        style: unpacked(STYLE),
        d3,
        plot,
        script,
        data,
        runs,
        made,
    };
    Ok(page.render()?)
}

/// What stands around the runs.
#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    title: String,
    /// Of the scripts, as the content-security policy names them.
    hashes: String,
    style: String,
    d3: String,
    plot: String,
    script: String,
    data: String,
    runs: Vec<Run>,
    made: &'a str,
}

/// The script that adds the charts, the names in it kept to itself.
fn script() -> String {
    format!("(() => {{\n\"use strict\";\n{}}})();\n", unpacked(SCRIPT))
}

/// What a browser shows for the page.
fn title(records: &[Record]) -> String {
    let first = text::shown(&records[0].experiment.name, text::NAME_MAX);
    match records.len() {
        1 => format!("{first} – bytepath"),
        more => format!("{first} and {} more – bytepath", more - 1),
    }
}

/// A script as the content-security policy names it.
fn hash(script: &str) -> String {
    format!("'sha256-{}'", BASE64_STANDARD.encode(Sha256::digest(script)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_vendored_libraries_are_as_their_authors_published_them() {
        let told = include_str!("vendor/README.md");
        for library in [D3, PLOT].map(unpacked) {
            let sum: String =
                Sha256::digest(&library).iter().map(|byte| format!("{byte:02x}")).collect();
            assert!(told.contains(&sum), "{sum} is not in the README");
        }
    }

    #[test]
    fn no_script_of_the_page_ends_early() {
        for script in [unpacked(D3), unpacked(PLOT), script()] {
            assert!(!script.contains("</script") && !script.contains("<!--"));
            // A browser turns them into line feeds before it looks at the hash.
            assert!(!script.contains('\r'));
        }
    }
}
