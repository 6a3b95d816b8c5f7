//! `bytepath compare`: what it says of runs whose difference is known, and what it refuses.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use serde_json::{Value, json};

use crate::history::Yard;
use crate::program::{Done, as_published, run, run_for_nobody, text};

/// A record whose arms have these samples.
fn record(yard: &Yard, id: &str, arms: &[(&str, &[f64])]) -> Value {
    let mut record = yard.measured();
    record["id"] = json!(id);
    let arm = record["arms"][0].clone();
    let made = arms.iter().map(|(name, values)| {
        let mut made = arm.clone();
        made["name"] = json!(name);
        made["samples"] = values
            .iter()
            .enumerate()
            .map(|(block, value)| json!({"block": block, "order": 0, "value": value, "seconds": 1.0}))
            .collect();
        made["median"] = json!(values.get(values.len() / 2));
        made
    });
    record["arms"] = made.collect();
    record["blocks"] = json!(arms[0].1.len());
    record["trusted"] = json!(true);
    record
}

/// Ten samples around a value, within so many percent.
fn around(value: f64, percent: f64, phase: usize) -> Vec<f64> {
    let at =
        |block: usize| [-1.0, 0.4, 0.9, -0.6, 0.1, -0.2, 0.7, -0.9, 0.3, 1.0][(block + phase) % 10];
    (0..10).map(|block| value * (1.0 + at(block) * percent / 100.0)).collect()
}

/// A yard with a base and a run in which one arm is faster, one slower, one the same and one unclear.
fn known() -> Yard {
    let yard = Yard::new();
    let base = record(
        &yard,
        "base",
        &[
            ("up", &around(10.0, 1.0, 0)),
            ("down", &around(10.0, 1.0, 1)),
            ("even", &around(10.0, 0.2, 2)),
            ("noisy", &around(10.0, 60.0, 3)),
        ],
    );
    let other = record(
        &yard,
        "other",
        &[
            ("up", &around(13.0, 1.0, 4)),
            ("down", &around(8.0, 1.0, 5)),
            ("even", &around(10.01, 0.2, 6)),
            ("noisy", &around(11.0, 60.0, 7)),
        ],
    );
    yard.put("base", &base);
    yard.put("other", &other);
    yard
}

fn verdicts(comparison: &Value, run: usize) -> Vec<String> {
    let arms = comparison["arms"].as_array().expect("arms");
    let verdict = |arm: &Value| arm["runs"][run]["verdict"].as_str().unwrap_or("none").to_owned();
    arms.iter().map(verdict).collect()
}

#[test]
fn differences_are_found_where_they_are_and_told_in_every_form() {
    let yard = known();
    let said = yard.run(&["compare", "base", "other"]).well().stdout;
    for words in ["1.30x", "faster", "slower", "same within ±", "undecided: would show"] {
        assert!(said.contains(words), "{words} is not in {said}");
    }
    let json = yard.run(&["compare", "base", "other", "--json", "-"]).well().json();
    assert_eq!(verdicts(&json, 1), ["faster", "slower", "same", "undecided"]);
    assert_eq!(verdicts(&json, 0), ["none"; 4], "the base is not held against itself");
    assert_eq!(json["method"]["intervals"], 4);
    let between = json["method"]["between"].as_str().expect("a sentence");
    assert!(between.contains("over the medians of the parts of a run"), "{between}");
    as_published("comparison", &json);
    let markdown = yard.run(&["compare", "base", "other", "--markdown", "-"]).well().stdout;
    assert!(markdown.contains("| up | GiB/s | "), "{markdown}");
    let back = yard.run(&["compare", "other", "base", "--json", "-"]).well().json();
    assert_eq!(verdicts(&back, 1), ["slower", "faster", "same", "undecided"]);
}

#[test]
fn fewer_arms_have_narrower_intervals_and_many_runs_meet_the_first() {
    let yard = known();
    let width = |words: &[&str]| {
        let words = [&["compare", "base", "other", "--json", "-"], words].concat();
        let json = yard.run(&words).well().json();
        let up = json["arms"].as_array().expect("arms").iter().find(|arm| arm["name"] == "up");
        let ends = &up.expect("the arm")["runs"][1]["ratio_interval"];
        ends[1].as_f64().expect("an end") - ends[0].as_f64().expect("an end")
    };
    assert!(width(&["--arms", "up"]) < width(&[]));
    let third =
        record(&yard, "third", &[("up", &around(20.0, 1.0, 8)), ("new", &around(1.0, 1.0, 0))]);
    let third = yard.put("third", &third);
    let three = yard.run(&["compare", "base", "other", &third, "--json", "-"]).well().json();
    assert_eq!(verdicts(&three, 1), ["faster", "slower", "same", "undecided", "none"]);
    assert_eq!(verdicts(&three, 2), ["faster", "none", "none", "none", "none"]);
    assert_eq!(three["method"]["intervals"], 5);
    let said = yard.run(&["compare", "base", "other", &third]).well().stdout;
    assert!(said.contains("B/A") && said.contains("C/A") && said.contains("absent"), "{said}");
    yard.run(&["compare", "base", "other", "--arms", "nosuch"]).refused(2, &["no arm matches"]);
}

#[test]
fn a_slower_arm_fails_where_that_is_asked_for() {
    let yard = known();
    let code = |done: Done| done.status.code();
    let judged = |more: &[&str]| {
        yard.run(&[&["compare", "base", "other", "--fail-if-slower"], more].concat())
    };
    let failed = judged(&["5%"]);
    assert!(failed.stderr.contains("down by 20.0% in other"), "{failed:?}");
    assert!(!failed.stderr.contains("noisy") && !failed.stderr.contains("up "), "{failed:?}");
    assert_eq!(code(failed), Some(3));
    let words = ["compare", "base", "other", "--fail-if-slower", "5%"];
    assert_eq!(code(run_for_nobody(&mut yard.command(&words))), Some(3), "nobody reads the table");
    assert_eq!(code(judged(&["30"])), Some(0), "20% is less than 30%");
    // What could not have been shown is told, and no failure.
    let unseen = judged(&["5%", "--arms", "up,even,noisy", "--json", "-"]);
    assert!(unseen.stderr.contains("may be slower by 5% or more"), "{unseen:?}");
    assert!(unseen.stderr.contains("to tell: noisy in other (by up to "), "{unseen:?}");
    assert_eq!(code(unseen), Some(0));
    assert_eq!(judged(&["5%", "--arms", "up,even"]).stderr, "");
    judged(&["0"]).refused(2, &["percentage"]);
    judged(&["-5"]).refused(2, &[]);
    // An arm that is gone may hide anything.
    let gone = record(&yard, "gone", &[("up", &around(10.0, 1.0, 3))]);
    let gone = yard.put("gone", &gone);
    let words = ["compare", "base", &gone, "--fail-if-slower", "5%"];
    yard.run(&words).refused(1, &["down", "no figure to compare"]);
    let fine = ["compare", "base", &gone, "--fail-if-slower", "5%", "--arms", "up"];
    assert_eq!(code(yard.run(&fine)), Some(0));
}

#[test]
fn an_arm_that_may_be_slower_by_as_much_is_told_whatever_its_verdict() {
    let yard = Yard::new();
    let timed = |id: &str, values: &[f64]| {
        let mut made = record(&yard, id, &[("time", values)]);
        made["arms"][0]["unit"] = json!("s");
        made["arms"][0]["better"] = json!("lower");
        yard.put(id, &made)
    };
    let judged = |base: &str, other: &str| {
        let words = ["compare", base, other, "--fail-if-slower", "5", "--alone", "--json", "-"];
        let done = yard.run(&words);
        assert_eq!(done.status.code(), Some(0), "{done:?}");
        (verdicts(&done.json(), 1).remove(0), done.stderr)
    };
    // Undecided, and yet surely not slower by 5%.
    let base = timed("a1", &[1.0, 1.06, 0.95, 1.02, 0.97, 1.04, 0.96, 1.03, 0.99, 0.98]);
    let values = [1.03, 0.96, 1.05, 0.97, 1.02, 0.95, 1.04, 0.98, 1.01, 1.0];
    let other = timed("b1", &values.map(|value| value * 0.93));
    assert_eq!(judged(&base, &other), ("undecided".to_owned(), String::new()));
    // Slower by less than 5%, and maybe by much more.
    let base = timed("a2", &around(1.0, 0.2, 0));
    let values = [1.0, 1.03, 1.006, 0.98, 1.02, 1.0, 1.004, 0.97, 0.994, 1.01];
    let other = timed("b2", &values.map(|value| value * 1.048));
    let (verdict, said) = judged(&base, &other);
    assert_eq!(verdict, "slower");
    assert!(said.contains("time in ") && said.contains("(by up to 9.8%)"), "{said}");
}

#[test]
fn the_margin_is_told_as_it_was_given() {
    let yard = known();
    for margin in ["2", "1.5", "0.04", "0.07", "12.25"] {
        let said = yard.run(&["compare", "base", "other", "--margin", margin]).well().stdout;
        let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(&format!("within ±{margin}% is called same")), "{said}");
    }
}

#[test]
fn a_sample_of_nothing_is_named_where_it_keeps_arms_from_being_compared() {
    let yard = known();
    let up = [10.0, 0.0, 10.1, 9.9];
    let down = around(10.0, 1.0, 1);
    let odd = yard.put("odd", &record(&yard, "odd", &[("up", &up), ("down", &down)]));
    let words = ["compare", "base", &odd, "--arms", "up"];
    yard.run(&words).refused(1, &["no arm is in all", "up in ", "0 in block 2 is neither"]);
    let why = |base: &str, other: &str| {
        let json = yard.run(&["compare", base, other, "--json", "-"]).well().json();
        json["arms"][0]["runs"][1]["why"].as_str().unwrap_or_default().to_owned()
    };
    assert!(why("base", &odd).starts_with("0 in block 2 is neither"));
    assert!(why(&odd, "base").starts_with("of the base, 0 in block 2 is neither"));
}

#[test]
fn a_failure_from_less_than_the_usual_margin_on_comes() {
    let yard = Yard::new();
    for (id, value, phase) in [("fast", 10.0, 0), ("slow", 9.85, 4)] {
        yard.put(id, &record(&yard, id, &[("only", &around(value, 0.02, phase))]));
    }
    let judged = |more: &[&str]| yard.run(&[&["compare", "fast", "slow"], more].concat());
    // 1.5% is the same, unless less matters.
    let said = judged(&[]).well().stdout;
    assert!(said.contains("same within"), "{said}");
    let failed = judged(&["--fail-if-slower", "1%"]);
    assert_eq!(failed.status.code(), Some(3), "{failed:?}");
    assert!(failed.stderr.contains("only by 1.5% in slow"), "{failed:?}");
    judged(&["--fail-if-slower", "1.6"]).well();
    judged(&["--fail-if-slower", "3", "--margin", "3"]).well();
    judged(&["--fail-if-slower", "1", "--margin", "1.2"])
        .refused(2, &["--fail-if-slower 1 is less than --margin 1.2"]);
}

#[test]
fn times_are_slower_where_they_are_longer() {
    let yard = Yard::new();
    let timed = |id: &str, value: f64| {
        let mut made = record(&yard, id, &[("time", &around(value, 1.0, 0))]);
        made["arms"][0]["unit"] = json!("s");
        made["arms"][0]["better"] = json!("lower");
        yard.put(id, &made)
    };
    let (short, long) = (timed("short", 1.0), timed("long", 2.0));
    let json = yard.run(&["compare", &short, &long, "--json", "-"]).well().json();
    assert_eq!(verdicts(&json, 1), ["slower"]);
    let failed = yard.run(&["compare", &short, &long, "--fail-if-slower", "10%"]);
    assert_eq!(failed.status.code(), Some(3), "{failed:?}");
    assert!(failed.stderr.contains("by 100.0%"), "{failed:?}");
}

#[test]
fn a_run_is_not_compared_with_itself() {
    let yard = known();
    yard.run(&["compare", "base", "base"]).refused(2, &["the same run"]);
    let copy = yard.path().join("copy.json");
    std::fs::copy(yard.records().join("base.json"), &copy).expect("a copy");
    let copy = copy.to_str().expect("plain");
    yard.run(&["compare", "other", "base", copy]).refused(2, &["the same run"]);
    yard.run(&["compare", "base"]).refused(2, &["2 to 26 runs"]);
    // Two runs that could do nothing are no copies for that.
    for id in ["nothing", "neither"] {
        let mut made = record(&yard, id, &[("up", &[])]);
        made["arms"][0]["status"] = json!("unavailable");
        made["arms"][0]["why"] = json!("not installed");
        made["arms"][0]["median"] = Value::Null;
        yard.put(id, &made);
    }
    yard.run(&["compare", "nothing", "neither"]).refused(1, &["no arm is in all of them"]);
}

#[test]
fn different_work_is_compared_only_by_force() {
    let yard = known();
    let mut other = record(&yard, "defined", &[("up", &around(13.0, 1.0, 0))]);
    other["experiment"]["definition"] = json!("something else");
    let file = yard.put("defined", &other);
    let words = ["compare", "base", &file];
    yard.run(&words).refused(1, &["not of the same work", "--force"]);
    let forced = yard.run(&[&words[..], &["--force"]].concat()).well().stdout;
    assert!(forced.contains("is not of the work of base"), "{forced}");
    let mut sized = record(&yard, "sized", &[("up", &around(13.0, 1.0, 0))]);
    sized["settings"]["measured_bytes"] = json!(4096);
    let sized = yard.put("sized", &sized);
    yard.run(&["compare", "base", &sized]).refused(1, &["measured_bytes is none and 4096"]);
    let mut named = record(&yard, "named", &[("up", &around(13.0, 1.0, 0))]);
    named["experiment"]["name"] = json!("pipes");
    let named = yard.put("named", &named);
    yard.run(&["compare", "base", &named]).refused(1, &["the one is overhead, the other pipes"]);
}

#[test]
fn a_file_of_the_same_size_is_the_same_input_whatever_it_is_called() {
    let yard = Yard::new();
    let mut ran = Vec::new();
    for (name, bytes) in [("one", "bytes"), ("other", "bytes"), ("longer", "more bytes")] {
        let [input, file] = ["", ".json"].map(|end| yard.path().join(format!("{name}{end}")));
        std::fs::write(&input, bytes).expect("a file");
        let words = ["bench", "cmd", "cat", "--blocks", "3", "--no-store", "--input", text(&input)];
        yard.run(&[&words[..], &["--json", text(&file)]].concat()).well();
        ran.push(file);
    }
    let [one, other, longer] = [0, 1, 2].map(|index| text(&ran[index]));
    let said = yard.run(&["compare", one, other]).well().stdout;
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["settings.input", "read another file than", "of the same size"] {
        assert!(said.contains(words), "{words} is not in {said}");
    }
    yard.run(&["compare", one, longer])
        .refused(1, &["not of the same work", "input_bytes is 5 and 10"]);
}

#[test]
fn what_experiments_are_told_to_do_is_part_of_their_work() {
    let yard = Yard::new();
    let ran = |words: &[&str]| {
        let file = yard.path().join(format!("{}.json", words.join("_").replace('/', "-")));
        let options = ["--blocks", "3", "--no-store", "--json", text(&file)];
        yard.run(&[&["bench"][..], words, &options].concat()).well();
        file
    };
    let refused = |one: &[&str], other: &[&str], why: &str| {
        let (one, other) = (ran(one), ran(other));
        let done = yard.run(&["compare", text(&one), text(&other)]);
        done.refused(1, &["not of the same work", why, "--force"]);
    };
    refused(&["run", "true"], &["run", "true | cat"], "pipeline is true and true | cat");
    refused(&["run", "true"], &["run", "true", "--with", "--no-place"], "with is none and");
    refused(&["run", "true"], &["run", "true", "--prepare", ":"], "prepare is none and :");
    let input = ["--input", "/dev/null"];
    for bench in ["run", "cmd"] {
        let with_input = [&[bench, "true"][..], &input].concat();
        refused(&[bench, "true"], &with_input, "input is none and /dev/null");
    }
    refused(&["cmd", "true"], &["cmd", "true", "--prepare", ":"], "prepare is none and");
    refused(&["cmd", "true"], &["cmd", "true", "--conclude", ":"], "conclude is none and");
    refused(&["cmd", "true"], &["cmd", "true", "--check-output"], "check_output is none and true");
    let short = ["--time", "5ms", "--warm-up", "0s"];
    let overhead = |size| [&["overhead", "--buf-size", size][..], &short].concat();
    refused(&overhead("4K"), &overhead("256K"), "buf_size is 4096 and 262144");
    let movers = ["movers", "--bytes", "64K", "--peer", "cat"];
    let other = [&movers[..], &["--inlet", "read-touch"]].concat();
    refused(&movers, &other, "inlet is none and read-touch");
    let files = ["files", "--size", "64K", "--arms", "pread@buffered"];
    let files = [&files[..], &["--files", "1", "--jobs", "1", "--buffered"], &short].concat();
    refused(&files, &[&files[..], &["--cold"]].concat(), "cold is none and true");
    let other = [&files[..], &["--sqpoll-idle", "2s"]].concat();
    refused(&files, &other, "sqpoll_idle_s is 1.0 and 2.0");
    // What prepares both differs where versions of one program are compared.
    let setup = ran(&["cmd", "true", "--setup", ":"]);
    let done = yard.run(&["compare", text(&ran(&["cmd", "true"])), text(&setup)]);
    assert!(done.well().stdout.contains("setup"));
}

#[test]
fn what_differs_between_the_machines_is_told() {
    let yard = known();
    let mut moved = record(&yard, "moved", &[("up", &around(13.0, 1.0, 0))]);
    moved["machine"]["kernel"] = json!("5.10.0 of another machine");
    moved["machine"]["mitigations"]["spectre_v2"] = json!("Vulnerable");
    moved["machine"]["memlock_bytes"] = json!(65536);
    moved["settings"]["measured_s"] = json!(9.0);
    moved["trusted"] = json!(false);
    moved["untrusted_why"] = json!("the control is off");
    moved["arms"][0]["params"]["carry"] = json!("otherwise");
    let moved = yard.put("moved", &moved);
    let said = yard.run(&["compare", "base", &moved]).well().stdout;
    for words in [
        "machine.kernel: A ",
        "B 5.10.0 of another machine",
        "machine.mitigations.spectre_v2",
        "machine.memlock_bytes",
        "settings.measured_s",
        "UNTRUSTED",
        "the control is off",
        "up: carry is",
    ] {
        assert!(
            said.split_whitespace().collect::<Vec<_>>().join(" ").contains(words),
            "{words}: {said}"
        );
    }
}

#[test]
fn further_runs_of_the_same_thing_tell_how_far_runs_lie_apart() {
    let yard = Yard::new();
    let alone = |words: &[&str]| {
        let words = [&["compare", "r0", "r1", "--json", "-"], words].concat();
        yard.run(&words).well().json()
    };
    // Runs that differ by 10% from each other, and hardly within.
    for (number, level) in [1.0, 1.1, 0.9, 1.05, 0.95, 1.1, 0.9].into_iter().enumerate() {
        let name = format!("r{number}");
        let made = record(&yard, &name, &[("arm", &around(10.0 * level, 0.1, number))]);
        yard.put(&name, &made);
    }
    // Those that were measured to make them are of other arms, and are not like them.
    let known = alone(&[]);
    assert_eq!(known["method"]["repeats"], 5, "{}", known["method"]);
    assert_eq!(verdicts(&known, 1), ["undecided"]);
    let assumed = alone(&["--alone"]);
    assert_eq!(assumed["method"]["repeats"], 0);
    let between = assumed["method"]["between"].as_str().expect("a sentence");
    assert!(between.contains("not to be asked of other runs (--alone)"), "{between}");
    assert_eq!(verdicts(&assumed, 1), ["faster"], "runs alone cannot know");
    let words = ["compare", "--false-positives", "r0", "r1", "r2", "r3", "r4", "r5", "r6"];
    let said = yard.run(&words).well().stdout;
    assert!(said.starts_with("each pair alone: ") && said.contains("of 21 pairs"), "{said}");
    assert!(said.contains("with the other runs telling"), "{said}");
    let words = ["compare", "--false-positives", "r0"];
    let done = yard.run(&words).refused(2, &["a comparison takes 2 to", "not 1"]);
    assert_eq!(done.stdout, "");
    yard.run(&["compare", "--false-positives", "r0", "r0"]).refused(2, &["are the same run"]);
}

#[test]
fn what_further_runs_do_not_have_is_told_as_assumed() {
    let yard = Yard::new();
    for (number, level) in [1.0, 1.1, 0.9, 1.05, 0.95, 1.1, 0.9].into_iter().enumerate() {
        let name = format!("r{number}");
        let (both, level) = (number < 2, 10.0 * level);
        let (known, lone) = (around(level, 0.1, number), around(level, 0.1, number + 1));
        let arms: [(&str, &[f64]); 2] = [("known", &known), ("lone", &lone)];
        yard.put(&name, &record(&yard, &name, &arms[..if both { 2 } else { 1 }]));
    }
    let json = yard.run(&["compare", "r0", "r1", "--json", "-"]).well().json();
    assert_eq!(json["method"]["repeats"], 5, "{}", json["method"]);
    assert_eq!(verdicts(&json, 1), ["undecided", "faster"]);
    let notes = json["notes"].to_string();
    assert!(notes.contains("assumed of lone: too few further runs"), "{notes}");
    let words = ["compare", "r0", "r1", "--arms", "known", "--json", "-"];
    let notes = yard.run(&words).well().json()["notes"].to_string();
    assert!(!notes.contains("assumed of"), "{notes}");
}

#[test]
fn copies_of_a_run_are_one_further_run() {
    let yard = Yard::new();
    let made = |id: &str, level: f64| record(&yard, id, &[("arm", &around(10.0 * level, 0.1, 0))]);
    yard.put("r0", &made("r0", 1.0));
    yard.put("r1", &made("r1", 1.1));
    yard.put("a", &made("a", 0.95));
    // More than are looked at.
    let mut copy = made("copy", 0.9);
    for number in 0..45 {
        copy["id"] = json!(format!("s{number}"));
        yard.put(&format!("s{number}"), &copy);
    }
    let json = yard.run(&["compare", "r0", "r1", "--json", "-"]).well().json();
    assert_eq!(json["method"]["repeats"], 0, "{}", json["method"]);
    let between = json["method"]["between"].as_str().expect("a sentence");
    assert!(between.contains("; 3 more runs of the same thing"), "{between}");
}

#[test]
fn a_run_that_is_compared_is_no_further_run_though_arms_are_left_out() {
    let yard = Yard::new();
    for (number, level) in [1.0, 0.75, 1.0, 1.001, 0.999, 1.0].into_iter().enumerate() {
        let name = format!("r{number}");
        let (arm, beside) = (around(10.0 * level, 0.1, number), around(3.0, 0.1, number));
        yard.put(&name, &record(&yard, &name, &[("arm", &arm), ("beside", &beside)]));
    }
    let words = ["compare", "r0", "r1", "--arms", "arm", "--fail-if-slower", "5%", "--json", "-"];
    let done = yard.run(&words);
    assert_eq!(done.status.code(), Some(3), "{done:?}");
    let json = done.json();
    assert_eq!(json["method"]["repeats"], 0, "four do not tell: {}", json["method"]);
    let between = json["method"]["between"].as_str().expect("a sentence");
    assert!(between.contains("; 1 more run of the same thing"), "{between}");
    assert_eq!(verdicts(&json, 1), ["slower"]);
}

#[test]
fn real_runs_are_compared_and_records_come_by_any_way() {
    let yard = Yard::new();
    let first = yard.measured();
    yard.measured();
    let said = yard.run(&["compare", "last~1", "last"]).well().stdout;
    assert!(said.contains("bare-loop") && said.contains("the same machine"), "{said}");
    let file = yard.path().join("first.json");
    std::fs::write(&file, first.to_string()).expect("it is written");
    let input = std::fs::File::open(&file).expect("it is there");
    let piped =
        run(yard.command(&["compare", "-", "last", "--json", "-"]).stdin(input)).well().json();
    assert_eq!(piped["runs"][0]["name"], "-");
    yard.run(&["compare", "-", "-"]).refused(2, &["standard input"]);
    // Who forgets the file of --json must not lose a record.
    let file = file.to_str().expect("plain");
    yard.run(&["compare", "--json", file, "last", "last~1"]).refused(2, &["is a record"]);
    yard.run(&["compare", "last", "last~1", "--json", "-", "--markdown", "-"])
        .refused(2, &["not both"]);
    let (json, markdown) = (yard.path().join("both"), yard.path().join("bytepath/../both"));
    let files = ["--json", text(&json), "--markdown", text(&markdown)];
    yard.run(&[&["compare", "last", "last~1"][..], &files].concat())
        .refused(2, &["--json and --markdown are one file"]);
    // Several records in a file are no single one, and can be lost as well.
    let several = yard.path().join("several.json");
    std::fs::write(&several, format!("[{first}, {first}]")).expect("it is written");
    yard.run(&["compare", text(&several), "last", "--json", text(&several)])
        .refused(2, &["--json would be written over"]);
    let words = ["compare", "last", "last~1", "--json", "-", "--markdown", text(&markdown)];
    run_for_nobody(&mut yard.command(&words)).well();
    let written = std::fs::read_to_string(&json).expect("it is written though nobody reads");
    assert!(written.contains("bare-loop"), "{written}");
}

#[test]
fn each_file_that_cannot_be_written_is_told_and_the_table_shown() {
    let files = ["--json", "/dev/full", "--markdown", "/dev/full"];
    let done = known().run(&[&["compare", "base", "other"][..], &files].concat()).refused(1, &[]);
    assert_eq!(done.stderr.matches("cannot write /dev/full").count(), 2, "{done:?}");
    assert!(done.stdout.contains("down"), "{done:?}");
}

#[test]
fn records_that_are_none_are_refused_with_the_reason() {
    let yard = known();
    let folder = yard.path();
    let refused = |name: &str, text: &[u8], words: &[&str]| {
        let path = folder.join(name);
        std::fs::write(&path, text).expect("it is written");
        let path = path.to_str().expect("plain");
        yard.run(&["compare", "base", path]).refused(1, &[&[name], words].concat());
    };
    let good = std::fs::read_to_string(yard.records().join("other.json")).expect("it is there");
    refused("cut.json", &good.as_bytes()[..good.len() - 20], &["not JSON"]);
    refused("new.json", good.replace("record/1", "record/9").as_bytes(), &["too new"]);
    refused("deep.json", "{\"schema\":".repeat(5000).as_bytes(), &["not JSON"]);
    refused("none.json", b"[]", &["not a record"]);
    let few = good.replace("\"block\":9", "\"block\":8").replace("10.0", "0.0");
    let path = folder.join("odd.json");
    std::fs::write(&path, few).expect("it is written");
    let odd = yard.run(&["compare", "base", path.to_str().expect("plain")]);
    assert!(
        matches!(odd.status.code(), Some(0 | 1)) && !odd.stderr.contains("panicked"),
        "{odd:?}"
    );
    yard.run(&["compare", "base", "/no/such.json"]).refused(1, &["/no/such.json", "No such file"]);
    yard.run(&["compare", "base", "/dev/zero"]).refused(1, &["not a regular file"]);
    yard.run(&["compare", "base", "nosuch"]).refused(1, &["no run \"nosuch\""]);
    // Figures that nothing measured: no panic, and JSON all the same.
    let vast = [1e-300, 1e300, 1e-300, 1e300, 1.0, 2.0, 1e-300, 1e300, 1e-300, 1e300];
    let vast = yard.put("vast", &record(&yard, "vast", &[("up", &vast)]));
    let json = yard.run(&["compare", "base", &vast, "--arms", "up", "--json", "-"]).well().json();
    assert!(json["arms"][0]["runs"][1]["ratio_interval"][1].is_f64(), "{json}");
    // Two blocks say nothing.
    let two = yard.put("two", &record(&yard, "two", &[("up", &[1.0, 2.0])]));
    yard.run(&["compare", "base", &two]).refused(1, &["no arm", "fewer than 3 blocks"]);
}

#[test]
fn nothing_of_a_record_is_taken_for_markup_or_commands() {
    let yard = Yard::new();
    let name = "<script>|`x`\u{1b}[31m";
    for id in ["one", "two"] {
        let level = if id == "one" { 1.0 } else { 2.0 };
        let made = record(&yard, id, &[(name, &around(level, 1.0, 0))]);
        yard.put(id, &made);
    }
    let markdown = yard.run(&["compare", "one", "two", "--markdown", "-"]).well().stdout;
    assert!(markdown.contains("&lt;script&gt;\\|\\`x\\`"), "{markdown}");
    assert!(!markdown.contains('\u{1b}') && !markdown.contains("<script>"), "{markdown:?}");
    let said = yard.run(&["compare", "one", "two"]).well().stdout;
    assert!(!said.contains('\u{1b}'), "{said:?}");
}

#[test]
fn files_have_any_name() {
    let yard = known();
    let name = yard.path().join(OsStr::from_bytes(b"caf\xe9"));
    std::fs::copy(yard.records().join("base.json"), &name).expect("a copy");
    let mut compare = yard.command(&["compare", "other"]);
    let compared = run(compare.arg(&name).args(["--json", "-"])).well().json();
    let shown = name.to_string_lossy();
    assert_eq!(compared["runs"][1]["name"].as_str(), Some(&*shown));
    let shown = run(yard.command(&["report"]).arg(&name)).well().stdout;
    assert!(shown.contains("noisy"), "{shown}");
    run(yard.command(&["import"]).arg(&name)).refused(1, &["it is a record of bytepath already"]);
}
