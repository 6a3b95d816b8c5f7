//! `bytepath report`, and `--report` and `--plot` of every bench: what is written, what is refused,
//! and, in a real browser, what the page shows and does.

mod browser;
mod pages;
mod sample;

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::Path;

use bytepath_report::{ClassShare, Explained, Record, numbers};
use serde_json::{Value, json};

use crate::program::{BYTEPATH, bytepath, root, run, shell, text};
use sample::kept;

/// Runs `bytepath report` in a folder with these words.
fn report(folder: &Path, words: &[&str]) -> crate::program::Done {
    run(bytepath(&[&["report"], words].concat()).current_dir(folder))
}

#[test]
fn the_format_follows_the_ending_of_the_file_or_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    kept(at, "a.json", &sample::record());
    for (name, begins) in [
        ("r.html", "<!doctype html>"),
        ("r.md", "## pipes"),
        ("r.csv", "record_id,"),
        ("r.json", "{"),
    ] {
        let said = report(at, &["a.json", "-o", name]).well().stdout;
        assert!(said.starts_with(&format!("{name}: 1 run, ")), "{said}");
        let written = fs::read_to_string(at.join(name)).expect("it was written");
        assert!(written.trim_start().starts_with(begins), "{name}: {written:.80}");
        let format = ["html", "markdown", "csv", "json"][["r.html", "r.md", "r.csv", "r.json"]
            .iter()
            .position(|known| *known == name)
            .expect("one of them")];
        let piped = report(at, &["a.json", "--format", format]).well().stdout;
        assert!(piped.trim_start().starts_with(begins), "{format}: {piped:.80}");
    }
    report(at, &["a.json", "-o", "r.xyz"])
        .refused(2, &["r.xyz does not say a format", "html, markdown"]);
}

#[test]
fn a_fifo_that_another_user_planted_is_not_waited_for() {
    if !root() {
        return println!("skipped: to be another user takes root");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    kept(at, "a.json", &sample::record());
    let all = at.join("all");
    fs::create_dir(&all).expect("made");
    fs::set_permissions(&all, fs::Permissions::from_mode(0o1777)).expect("it is ours");
    run(std::process::Command::new("mkfifo").args(["all/r.csv", "all/ours.csv"]).current_dir(at))
        .well();
    chown(all.join("r.csv"), Some(65534), None).expect("it is somebody else's");
    report(at, &["a.json", "-o", "all/r.csv"]).refused(1, &["all/r.csv: Permission denied"]);
    let line =
        "cat all/ours.csv | head -c 9 & $bytepath report a.json -o all/ours.csv >/dev/null; wait";
    let read = shell(&format!("cd {}; {line}", at.display())).well().stdout;
    assert_eq!(read, "record_id");
}

#[test]
fn several_records_go_into_one_file_and_come_back_from_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let one = sample::record();
    let mut other = sample::record();
    other.id = "pipes-2".to_owned();
    kept(at, "a.json", &one);
    kept(at, "b.json", &other);
    report(at, &["a.json", "b.json", "-o", "all.json"]).well();
    let text = fs::read_to_string(at.join("all.json")).expect("it was written");
    assert_eq!(Record::all_from_json(&text).expect("records"), [one.clone(), other]);
    // What came out goes in again, and one alone is as it was.
    report(at, &["all.json", "-o", "again.json"]).well();
    assert_eq!(fs::read_to_string(at.join("again.json")).expect("written"), text);
    report(at, &["a.json", "-o", "alone.json"]).well();
    let alone = fs::read_to_string(at.join("alone.json")).expect("written");
    assert_eq!(Record::from_json(&alone).expect("a record"), one);
    let csv = report(at, &["all.json", "--format", "csv"]).well().stdout;
    let rows: Vec<_> = csv.lines().collect();
    assert_eq!(rows.iter().filter(|row| row.starts_with("record_id,")).count(), 1);
    assert_eq!(rows.len(), 1 + 2 * (4 * 3 + 1), "3 samples of 4 arms, and a row of one without");
}

#[test]
fn without_a_file_tables_and_plots_go_to_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    kept(at, "a.json", &sample::record());
    let table = report(at, &["a.json"]).well().stdout;
    assert!(table.contains("vmsplice-read") && table.contains("12.2 "), "{table}");
    let mut plot = bytepath(&["report", "a.json", "--plot"]);
    plot.current_dir(at);
    let drawn = run(plot.env("LC_ALL", "C.UTF-8")).well().stdout;
    for mark in ['●', '○', '◆', '├', '┤'] {
        assert!(drawn.contains(mark), "{mark}: {drawn}");
    }
    assert!(drawn.contains("GiB/s, logarithmic"), "0.25 and 62.5 lie decades apart: {drawn}");
    let ascii = run(plot.env("LC_ALL", "C")).well().stdout;
    let below_the_table = &ascii[ascii.rfind("n/a uring").unwrap_or(0)..];
    let (plotted, _) = below_the_table.split_once("+--").expect("an axis");
    assert!(plotted.contains("|*") || plotted.contains("*|"), "{plotted}");
    let legend = ascii.lines().rfind(|line| line.contains("median and its 95% interval"));
    assert!(legend.is_some_and(str::is_ascii), "{ascii}");
    assert!(!drawn.contains('\u{1b}'), "no colour where nobody sees it");
}

#[test]
fn a_plot_lies_where_its_figures_are() {
    let record = sample::record();
    let style = bytepath_report::plot::Style { width: Some(80), ..Default::default() };
    let plot = bytepath_report::plot::render(&record, style);
    for line in plot.lines() {
        assert!(line.len() <= 80, "{line:?}");
    }
    let column = |name: &str| {
        let line = plot.lines().find(|line| line.starts_with(name)).expect("a line for each arm");
        let lane = &line[name.len()..];
        lane.find(['*', 'o']).map(|at| at + name.len())
    };
    let places = ["write-read-4k", "write-read", "vmsplice-read", "vmsplice-splice-huge-spin"]
        .map(|name| column(name).expect("it has a figure"));
    assert!(places.is_sorted() && places[0] < places[3], "slow to fast: {places:?} in\n{plot}");
    assert_eq!(column("uring-read"), None, "{plot}");
    let huge = plot.lines().find(|line| line.starts_with("vmsplice-splice-huge-spin"));
    assert!(huge.is_some_and(|line| line.contains('o')), "moved, not touched: {plot}");
}

#[test]
fn a_bench_writes_a_page_and_draws_a_plot_by_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    let words =
        ["bench", "pipes", "--arms", "write-read@same-cpu", "--blocks", "3", "--time", "3ms"];
    let more =
        ["--warm-up", "1ms", "--report", "r.html", "--json", "r.json", "--plot", "--no_store"];
    let mut command = bytepath(&[&words[..], &more[..]].concat());
    let said = run(command.current_dir(folder.path()).env("LC_ALL", "C.UTF-8")).well().stdout;
    assert!(said.contains("├") && said.contains("median and its 95% interval"), "{said}");
    let page = fs::read_to_string(folder.path().join("r.html")).expect("a page");
    let text = fs::read_to_string(folder.path().join("r.json")).expect("a record");
    let record = Record::from_json(&text).expect("a record");
    let median = record.arms[0].median.expect("it ran");
    assert!(page.contains(&format!("data-median=\"{median}\"")), "the figure is in the page");
    let again = record.settings["command"].as_str().expect("the command is kept");
    let seed = &record.settings["seed"];
    let wanted = format!(
        "bytepath bench pipes --arms write-read@same-cpu --blocks 3 --time 3ms --warm-up 1ms --seed {seed}"
    );
    assert_eq!(again, wanted);
    assert!(page.contains(&wanted), "the page tells how to run it again");
}

#[test]
fn results_that_would_overwrite_each_other_are_wrong_usage() {
    let bench = ["bench", "pipes", "--json", "x", "--report", "x"];
    run(&mut bytepath(&bench)).refused(2, &["--json and --report are one file"]);
    // However they are spelled, before they are there and after.
    let folder = tempfile::tempdir().expect("a folder");
    std::os::unix::fs::symlink(".", folder.path().join("link")).expect("a link");
    let at = |name: &str| folder.path().join(name).display().to_string();
    let bench = ["bench", "pipes", "--json", &at("x"), "--csv", &at("link/./x")];
    for _ in 0..2 {
        run(&mut bytepath(&bench)).refused(2, &["--json and --csv are one file"]);
        fs::write(at("x"), "").expect("a file");
    }
    let bench = ["bench", "pipes", "--report", "-"];
    run(&mut bytepath(&bench)).refused(2, &["a page is for a file"]);
    kept(folder.path(), "a.json", &sample::record());
    report(folder.path(), &["a.json", "--format", "csv", "--plot"])
        .refused(2, &["standard output takes a plot or another format"]);
    report(folder.path(), &["-", "-"]).refused(2, &["- is standard input, and there is one"]);
}

#[test]
fn what_is_no_record_is_told_with_its_name_and_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let whole = sample::record().to_json().expect("finite figures");
    let newer = whole.replacen("bytepath.record/1", "bytepath.record/2", 1);
    let missing = whole.replacen("\"blocks\"", "\"blocs\"", 1);
    let deep = format!("{{\"schema\": {}1{}}}", "[".repeat(100_000), "]".repeat(100_000));
    let huge = whole.replacen("12.25", "1e999", 1);
    let hyperfine = r#"{"results": [{"command": "true", "times": [0.1]}]}"#;
    let second_bad = format!("[{whole}, {{}}]");
    let cases: [(&str, &[u8], &[&str]); 11] = [
        ("cut.json", &whole.as_bytes()[..whole.len() / 2], &["cut.json: not JSON", "EOF"]),
        ("newer.json", newer.as_bytes(), &["record too new", "bytepath.record/2"]),
        ("missing.json", missing.as_bytes(), &["damaged record", "blocks"]),
        ("deep.json", deep.as_bytes(), &["not JSON", "recursion limit"]),
        ("huge.json", huge.as_bytes(), &["not JSON", "out of range"]),
        ("other.json", b"{\"jobs\": []}", &["not a record: no \"schema\""]),
        ("hyperfine.json", hyperfine.as_bytes(), &["what hyperfine measured", "bytepath import"]),
        ("second.json", second_bad.as_bytes(), &["record 2 of 2: not a record"]),
        ("none.json", b"[]", &["an array of none"]),
        ("binary.json", b"\xff\xfe\x00", &["no text in UTF-8"]),
        ("empty.json", b"", &["not JSON"]),
    ];
    for (name, bytes, words) in cases {
        fs::write(at.join(name), bytes).expect("a file");
        report(at, &[name, "-o", "r.html"]).refused(1, &[&[name], words].concat());
        assert!(!at.join("r.html").exists(), "{name} made a page");
    }
    report(at, &["absent.json"]).refused(1, &["cannot read absent.json", "No such file"]);
    report(at, &["."]).refused(1, &["cannot read .", "directory"]);
    report(at, &["/dev/zero"]).refused(1, &["/dev/zero", "not a regular file"]);
    let vast = fs::File::create(at.join("vast.json")).expect("a file");
    vast.set_len((256 << 20) + 1).expect("a hole");
    report(at, &["vast.json"]).refused(1, &["vast.json: larger than 256 MiB"]);
    let piped = shell(&format!("echo '{{}}' | '{BYTEPATH}' report -"));
    piped.refused(1, &["standard input: not a record"]);
    kept(at, "a.json", &sample::record());
    report(at, &["a.json", "-o", "no/such/folder/r.html"]).refused(1, &["no/such/folder/r.html"]);
}

#[test]
fn a_page_that_cannot_be_written_leaves_the_old_one() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    let record = kept(at, "a.json", &sample::record());
    fs::write(at.join("r.html"), "the old page").expect("a file");
    let line = format!(
        "cd '{}' && ulimit -f 100 && exec '{BYTEPATH}' report '{}' -o r.html",
        text(at),
        text(&record)
    );
    shell(&line).refused(1, &["cannot write r.html", "File too large"]);
    assert_eq!(fs::read_to_string(at.join("r.html")).expect("it is there"), "the old page");
    let names: Vec<_> =
        fs::read_dir(at).expect("a folder").map(|one| one.expect("an entry").file_name()).collect();
    assert_eq!(names.len(), 2, "nothing half-written is left: {names:?}");
}

#[test]
fn markdown_says_the_figures_and_cannot_be_made_to_say_more() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = folder.path();
    kept(at, "a.json", &sample::record());
    let plain = report(at, &["a.json", "--format", "markdown"]).well().stdout;
    let wanted = [
        "| vmsplice-read |",
        "12.2 | ",
        "faster",
        "> **stale**",
        "n/a uring-read: io\\_uring\\_setup: EPERM",
    ];
    for words in wanted {
        assert!(plain.contains(words), "{words:?} is not in {plain}");
    }
    kept(at, "evil.json", &sample::hostile());
    let evil = report(at, &["evil.json", "--format", "markdown"]).well().stdout;
    // In the block of code at the end, where the command is, nothing means anything.
    let text = evil.split("\n- again:\n  ```\n").next().unwrap_or_default();
    assert!(!text.contains("<script") && !text.contains("<img"), "{evil}");
    assert!(evil.ends_with("\n  ```\n\n") && !evil.contains('\u{1b}'), "{evil}");
}

#[test]
fn explanations_of_others_command_no_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut record = sample::hostile();
    let class = ClassShare { name: record.arms[0].name.clone(), share: 1.0, ..Default::default() };
    let explained = Explained { samples: 100, classes: vec![class], ..Explained::default() };
    record.arms.iter_mut().for_each(|arm| arm.explained = None);
    record.arms[0].explained = Some(explained.clone());
    kept(folder.path(), "one.json", &record);
    record.arms[1].explained = Some(explained);
    kept(folder.path(), "two.json", &record);
    let diff = |name| run(bytepath(&["explain", "diff", name, name]).current_dir(folder.path()));
    let shown = diff("one.json").well().stdout;
    assert!(shown.contains("before: 0") && !shown.contains('\u{1b}'), "{shown:?}");
    let refused = diff("two.json").refused(1, &["several arms are explained"]).stderr;
    assert!(!refused.contains('\u{1b}'), "{refused:?}");
}

#[test]
fn figures_in_the_page_read_as_in_the_tables() {
    let folder = tempfile::tempdir().expect("a folder");
    kept(folder.path(), "a.json", &sample::record());
    let page = report(folder.path(), &["a.json", "--format", "html"]).well().stdout;
    for arm in &sample::record().arms {
        let Some(median) = arm.median else { continue };
        for wanted in [numbers::figure(median), numbers::interval(arm.ci95.expect("it has one"))] {
            assert!(page.contains(&format!(">{wanted}</td>")), "{wanted} of {}", arm.name);
        }
    }
    let data = page.split_once("id=\"data\">").and_then(|(_, rest)| rest.split_once("</script>"));
    let data: Value = serde_json::from_str(data.expect("the page has data").0).expect("JSON");
    assert_eq!(
        data["runs"][0]["arms"][1]["samples"][1],
        json!([1, 1, 12.25, 0.3, 1, "steal 23%, more than 5%"])
    );
}
