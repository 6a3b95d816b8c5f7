//! Records to JSON and back, and the words for what is not a record.

use bytepath_report::{Explained, ReadError, Record, SCHEMA_NAME, SchemaName};
use serde_json::{Value, json};

use crate::sample;

fn refusal(text: &str) -> String {
    Record::from_json(text).expect_err("this text is not a record").to_string()
}

fn changed(change: impl FnOnce(&mut Value)) -> String {
    let mut value = serde_json::to_value(sample::record()).expect("a record is JSON");
    change(&mut value);
    value.to_string()
}

#[test]
fn a_record_reads_back_exactly_as_it_was_written() {
    let mut record = sample::record();
    // Figures of which the shortest decimal form is long.
    record.arms[0].samples[0].value = 0.1 + 0.2;
    record.arms[0].samples[1].value = 8.509_999_999_999_998;
    let text = record.to_json().expect("every figure is finite");
    assert_eq!(Record::from_json(&text).expect("it was just written"), record);
    assert!(text.ends_with("}\n"));
}

#[test]
fn a_record_holds_no_control_characters_and_reads_back_with_them() {
    let mut record = sample::record();
    record.arms[0].name = "\u{1b}[1m\u{9b}31m\u{7f}\u{80}\u{9f}\u{a0}é".to_owned();
    let text = record.to_json().expect("every figure is finite");
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text}");
    assert!(text.contains("\\u009b31m\\u007f\\u0080\\u009f\u{a0}é"), "{text}");
    assert_eq!(Record::from_json(&text).expect("it was just written"), record);
}

#[test]
fn the_schema_name_in_the_file_is_the_one_that_is_looked_for() {
    assert_eq!(json!(SchemaName::V1), json!(SCHEMA_NAME));
}

/// Whether all that the old value holds is in the new one, which may have more fields.
fn holds_all_of(new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Object(new), Value::Object(old)) => {
            old.iter().all(|(field, old)| new.get(field).is_some_and(|new| holds_all_of(new, old)))
        }
        (Value::Array(new), Value::Array(old)) => {
            new.len() == old.len() && new.iter().zip(old).all(|(new, old)| holds_all_of(new, old))
        }
        _ => new == old,
    }
}

#[test]
fn nothing_in_a_record_of_the_first_release_gets_lost() {
    // This file stays as it is: people have such files.
    let text = include_str!("records/first.json");
    let old: Value = serde_json::from_str(text).expect("the file is JSON");
    let record = Record::from_json(text).expect("a record of the first release reads");
    let new = json!(record);
    assert!(holds_all_of(&new, &old), "read back as {new:#}");
}

#[test]
fn fields_that_are_not_known_are_ignored() {
    let text = changed(|value| {
        value["mood"] = json!("good");
        value["arms"][0]["samples"][0]["temperature_c"] = json!(61);
    });
    assert_eq!(Record::from_json(&text).expect("later fields do no harm"), sample::record());
}

#[test]
fn fields_that_may_be_unknown_may_be_missing() {
    let text = changed(|value| {
        for field in ["control", "notes", "settings", "untrusted_why"] {
            value.as_object_mut().expect("a record is an object").remove(field);
        }
    });
    let record = Record::from_json(&text).expect("these have a default");
    assert_eq!(record.control, None);
    assert!(record.notes.is_empty() && record.settings.is_empty());
    let without_samples = changed(|value| {
        value["control"].as_object_mut().expect("a control").remove("samples");
    });
    let control = Record::from_json(&without_samples).expect("they were not kept once").control;
    assert!(control.expect("a control").samples.is_empty());
}

#[test]
fn what_is_not_json_is_said_with_its_place() {
    let refused = refusal("arm,median\nwrite,8.5\n");
    assert!(refused.starts_with("not JSON: ") && refused.contains("line 1"), "{refused}");

    let whole = sample::record().to_json().expect("every figure is finite");
    let cut = Record::from_json(&whole[..whole.len() / 2]).expect_err("half a record");
    assert!(matches!(cut, ReadError::NotJson(_)), "{cut}");
}

#[test]
fn json_without_a_schema_is_not_a_record() {
    for text in ["{}", "[1, 2]", "17", r#"{"jobs": []}"#] {
        assert_eq!(
            refusal(text),
            r#"not a record: no "schema": "bytepath.record/1" at the top level"#
        );
    }
}

#[test]
fn another_schema_is_named_beside_the_expected_one() {
    let profile = refusal(r#"{"schema": "bytepath.profile/1"}"#);
    assert_eq!(
        profile,
        r#"not a record: expected schema "bytepath.record/1", found "bytepath.profile/1""#
    );
    let number = refusal(r#"{"schema": 7}"#);
    assert_eq!(number, r#"not a record: expected schema "bytepath.record/1", found "7""#);
}

#[test]
fn a_newer_major_version_is_refused_as_such() {
    let newer = Record::from_json(&changed(|value| value["schema"] = json!("bytepath.record/2")))
        .expect_err("version 2 may mean anything");
    assert!(matches!(&newer, ReadError::Newer { found } if found == "bytepath.record/2"));
    assert!(newer.to_string().contains("a later one"), "{newer}");
}

#[test]
fn a_damaged_record_says_what_is_missing() {
    let text = changed(|value| {
        value["arms"][0].as_object_mut().expect("an arm is an object").remove("touched");
    });
    let refused = refusal(&text);
    assert!(refused.starts_with("damaged record: missing field `touched`"), "{refused}");
}

#[test]
fn a_name_that_no_table_can_hold_is_refused_wherever_it_stands() {
    let refused = |what: &str, change: &dyn Fn(&mut Value)| {
        let text = changed(|value| {
            // As many bytes, but not as many characters: this one is harmless.
            value["experiment"]["name"] = "ä".repeat(15_000).into();
            change(value);
        });
        let wanted =
            format!("damaged record: {what} has a name of 20001 characters, and 20000 is the most");
        assert_eq!(refusal(&text), wanted);
    };
    let long = "a".repeat(20_001);
    refused("an arm", &|value| value["arms"][1]["name"] = long.clone().into());
    refused("a section", &|value| value["arms"][1]["section"] = long.clone().into());
    for word in ["name", "unit"] {
        refused("a figure", &|value| {
            let mut figure = serde_json::json!({ "name": "ports", "unit": "k", "value": 1.0 });
            figure[word] = long.clone().into();
            value["arms"][1]["params"]["figures"] = vec![figure].into();
        });
    }
}

#[test]
fn an_error_in_one_of_several_records_names_the_line_of_the_file() {
    let whole = sample::record().to_json().expect("it is a record");
    let damaged = whole.replacen("\"blocks\": ", "\"blocks\": -", 1);
    let line = |text: &str| text.lines().position(|line| line.contains("\"blocks\": -"));
    for before in ["[\n\n", "[ ", "\r\n\t["] {
        let text = format!("{before}{whole},{damaged}]\n");
        let why = Record::all_from_json(&text).expect_err("less than no block").to_string();
        let line = line(&text).expect("it is there") + 1;
        assert!(why.starts_with("record 2 of 2: damaged record: "), "{why}");
        assert!(why.contains(&format!(" at line {line} column ")), "{line}: {why}");
    }
    let why = Record::all_from_json("[1,\n {\"schema\": 3}]").expect_err("neither is a record");
    assert!(why.to_string().starts_with("record 1 of 2: not a record"), "{why}");
}

#[test]
fn a_figure_that_is_not_finite_is_refused_by_name() {
    let mut record = sample::record();
    record.arms[2].samples[3].value = f64::INFINITY;
    let refused = record.to_json().expect_err("JSON has no infinity").to_string();
    assert!(refused.contains("samples of arm \"vmsplice → splice, huge\""), "{refused}");

    let mut record = sample::record();
    record.control.as_mut().expect("the sample has a control").ratio = f64::NAN;
    let refused = record.to_json().expect_err("JSON has no NaN").to_string();
    assert!(refused.contains("ratio of the control"), "{refused}");

    let mut record = sample::record();
    let explained = record.arms[0].explained.as_mut().expect("the sample explains its reference");
    explained.classes[1].ci95[0] = f64::NAN;
    let refused = record.to_json().expect_err("JSON has no NaN").to_string();
    assert!(refused.contains("explained of arm \"write → read\""), "{refused}");

    for forget in [
        |explained: &mut Explained| explained.descriptor_calls[0].share = f64::NAN,
        |explained: &mut Explained| explained.calls_traced = Some(f64::INFINITY),
    ] {
        let mut record = sample::record();
        forget(record.arms[0].explained.as_mut().expect("the sample explains its reference"));
        let refused = record.to_json().expect_err("JSON has no such number").to_string();
        assert!(refused.contains("explained of arm \"write → read\""), "{refused}");
    }
}
