//! The page as text: what it may load and run, and what is left out of one that is too large.

use bytepath_report::doubt::Here;
use bytepath_report::page::{self, PAGE_BYTES_MAX, PageError};
use bytepath_report::{Arm, ClassShare, Record, Sample, SymbolShare, markdown};
use serde_json::json;

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

/// The page without its scripts.
fn own(record: Record) -> String {
    let page = page(&[record]).expect("a page");
    let end = page.find("<script").expect("it has scripts");
    page[..end].to_owned()
}

#[test]
fn samples_that_are_left_out_and_disturbed_ones_are_told_of() {
    let mut record = sample::record();
    record.arms.truncate(1);
    let sample = |block| Sample { block, flagged: block >= 45_000, ..Sample::default() };
    record.arms[0].samples = (0..50_000).map(sample).collect();
    let page = page(std::slice::from_ref(&record)).expect("a page");
    assert!(page.contains("\"taken\":50000,\"flagged\":5000,"), "the chart counts them all");
    let text = own(record);
    assert!(text.contains("for want of room: 10000 more samples of the record;"), "{text}");
    assert!(text.contains("5000 of 50000 samples flagged as disturbed"), "{text}");
    let whole = own(sample::record());
    assert!(!whole.contains("for want of room"), "{whole}");
}

#[test]
fn notes_and_details_that_are_left_out_are_counted() {
    let mut record = sample::record();
    record.notes = (0..203).map(|number| format!("note {number}")).collect();
    for number in 0..300 {
        record.settings.insert(format!("setting {number}"), number.into());
    }
    let settings = record.settings.len() - 200;
    let explained = record.arms[0].explained.as_mut().expect("the sample explains its reference");
    explained.counters = (0..47).map(|number| (format!("counter {number}"), 1.0)).collect();
    explained.missing = (0..46).map(|number| format!("thing {number}")).collect();
    let class = explained.classes[0].clone();
    explained.classes = (0..50).map(|_| ClassShare { share: 0.02, ..class.clone() }).collect();
    let symbol = |_| SymbolShare { symbol: "f".to_owned(), share: 0.01 };
    explained.unclaimed = (0..43).map(symbol).collect();
    let calls = explained.descriptor_calls.clone();
    explained.descriptor_calls = std::iter::repeat_n(calls, 45).flatten().collect();
    let text = own(record);
    for said in [
        "<li>note 199</li>\n<li>not on this page: 3 more notes</li>\n</ul>",
        &format!("<dt>not on this page</dt><dd>{settings} more</dd>"),
        "<dt>not on this page</dt><dd>7 more</dd>",
        "Not seen: 6 more</p>",
        "<th scope=\"row\">10 others</th><td class=\"figure\">20.0%</td>",
        "<dt>3 others</dt><dd>3.00%</dd>",
        "<h4>Descriptors were looked up in</h4>",
        "<dt>sys_read_[k]</dt><dd>12.5%</dd>",
        "<dt>5 others</dt><dd>62.5%</dd>",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
}

/// A record of which one arm has latencies, and one further figures.
fn with_further_tables() -> Record {
    let mut record = sample::record();
    let latency = json!({
        "p50_ns": 1500, "p95_ns": 2500, "p99_ns": 30_000, "p99.9_ns": 31_000, "max_ns": 41_234
    });
    record.arms[1].params.insert("latency".to_owned(), latency);
    let figures = json!([
        { "name": "ports left", "unit": "k|<b>", "value": 12_345.0 },
        { "name": "TIME_WAIT", "unit": "sockets", "value": 678.0 },
    ]);
    record.arms[2].params.insert("figures".to_owned(), figures);
    record
}

#[test]
fn what_the_terminal_shows_in_further_tables_stands_in_the_page_and_in_markdown() {
    let record = with_further_tables();
    let text = own(record.clone());
    let row = "<tr data-arm=\"2\" class=\"faster\"><th scope=\"row\">vmsplice → splice, huge</th>\
               <td class=\"figure\">12.3k</td><td class=\"figure\">678</td></tr>";
    for said in [row, "ports left k|&#60;b&#62;</th>", "TIME_WAIT sockets</th>", ">41.2</td></tr>"]
    {
        assert!(text.contains(said), "{said}: {text}");
    }
    let text = markdown::render(&record, &Here::default());
    for said in [
        "\n\n| arm | p50 µs | p95 µs | p99 µs | p99.9 µs | max µs |\n\
         | --- | ---: | ---: | ---: | ---: | ---: |\n\
         | write → read, again | 1.50 | 2.50 | 30.0 | 31.0 | 41.2 |\n\n",
        "| arm | ports left k\\|&lt;b&gt; | TIME\\_WAIT sockets |\n| --- | ---: | ---: |\n\
         | vmsplice → splice, huge | 12.3k | 678 |\n\n",
        "- published: mazzo.li, 2022: i7-8550U, Linux 5.17, ends on cores of their own\n",
        "- 1 of 16 samples flagged as disturbed, all kept in the record: vmsplice → splice, huge 1\n",
    ] {
        assert!(text.contains(said), "{said}: {text}");
    }
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
