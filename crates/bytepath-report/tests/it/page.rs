//! The page as text: what it may load and run, and what is left out of one that is too large.

use bytepath_report::doubt::Here;
use bytepath_report::page::{self, PAGE_BYTES_MAX, PageError};
use bytepath_report::{Arm, Record};

use crate::sample;

fn page(records: &[Record]) -> Result<String, PageError> {
    page::render(records, "Made by a test", &Here::default())
}

#[test]
fn the_page_names_nothing_outside_itself() {
    let page = page(&[sample::record()]).expect("a page");
    // Of the libraries, only the names of XML's own spaces look like addresses; nobody asks for them.
    let own = page.split("<script>").next().expect("the part before the libraries");
    for word in ["src=", "href=\"http", "url(", "@import", "<link", "<img"] {
        assert!(!own.contains(word), "{word} is in the page");
    }
    assert!(own.contains("default-src 'none'; script-src 'sha256-"));
    assert!(!own.contains("'unsafe-eval'") && !own.contains("script-src 'unsafe-inline'"));
}

#[test]
fn a_run_that_is_not_trusted_says_so_before_its_answer() {
    let page = page(&[sample::untrusted_record(), sample::record()]).expect("a page");
    let of = |words: &str| page.find(words).unwrap_or_else(|| panic!("{words} is in the page"));
    assert!(of("class=\"doubt grave\"") < of("class=\"answer\""));
    assert!(
        page.contains("<span class=\"badge grave\">untrusted</span>"),
        "and in the list of runs"
    );
    assert!(page.contains("came out at 1.31x [1.22, 1.40]"));
}

#[test]
fn what_is_left_out_for_want_of_room_is_counted() {
    let mut record = sample::record();
    let arm = record.arms[0].clone();
    record
        .arms
        .extend((0..5_000).map(|number| Arm { name: format!("arm {number}"), ..arm.clone() }));
    let arms = record.arms.len();
    let page = page(&[record]).expect("a page");
    assert!(page.len() <= PAGE_BYTES_MAX, "{} bytes", page.len());
    // The script has such words too.
    let own = page.split("<script>").next().expect("the part before the libraries");
    let table = own.split("<tbody>").nth(1).and_then(|rest| rest.split("</tbody>").next());
    let shown = table.expect("the table of the arms").matches("<tr data-arm=").count();
    let said = format!("for want of room: {} more arms of the record;", arms - shown);
    assert!(shown < arms && own.contains(&said), "{said}");
}

#[test]
fn too_many_records_and_none_are_refused() {
    let refusal = page(&vec![sample::record(); 600]).expect_err("too many").to_string();
    assert!(
        refusal.contains("one page of 3 MiB has no room for 600 records with 3600 arms"),
        "{refusal}"
    );
    assert!(matches!(page(&[]), Err(PageError::Nothing)));
}
