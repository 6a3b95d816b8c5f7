//! The published JSON Schema: that it is the one the types make, and that it tells records from
//! everything else.

use std::path::Path;

use bytepath_report::schema;
use jsonschema::Validator;
use serde_json::{Value, json};

use crate::sample;

fn published() -> Validator {
    let schema: Value = serde_json::from_str(schema::PUBLISHED).expect("the schema is JSON");
    jsonschema::draft202012::meta::validate(&schema).expect("the schema is a JSON Schema");
    jsonschema::validator_for(&schema).expect("the schema compiles")
}

fn complaints(record: &Value) -> Vec<String> {
    published().iter_errors(record).map(|error| error.to_string()).collect()
}

#[test]
fn the_published_schemas_are_those_that_the_types_make() {
    let is_update = std::env::var_os("UPDATE_SCHEMA").is_some_and(|value| value == "1");
    let mut differ = Vec::new();
    for published in schema::SCHEMAS {
        let generated = published.generate().expect("a schema is JSON");
        if is_update {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("schema");
            std::fs::write(folder.join(published.file), generated).expect("it can be written");
        } else if generated != published.text {
            differ.push(published.file);
        }
    }
    assert!(
        differ.is_empty(),
        "the types that make {differ:?} changed: run this test with UPDATE_SCHEMA=1, and check that \
         fields were only added"
    );
}

#[test]
fn a_sample_record_is_valid() {
    for record in [sample::record(), sample::untrusted_record()] {
        let text = record.to_json().expect("every figure is finite");
        let value = serde_json::from_str(&text).expect("it was just written");
        assert_eq!(complaints(&value), Vec::<String>::new());
    }
}

#[test]
fn the_schema_allows_fields_of_later_releases() {
    let mut record = json!(sample::record());
    record["arms"][0]["later"] = json!({"x": 1});
    assert_eq!(complaints(&record), Vec::<String>::new());
}

#[test]
fn the_schema_refuses_what_is_not_a_record() {
    let broken: [(&str, Value); 8] = [
        ("/schema", json!("bytepath.record/2")),
        ("/arms", json!("none")),
        ("/machine/page_bytes", json!("4 KiB")),
        ("/arms/0/unit", json!("MB/s")),
        ("/arms/0/better", json!("Higher")),
        ("/arms/0/ci95", json!([8.3])),
        ("/arms/1/verdict", json!("perhaps")),
        ("/arms/0/samples/0/value", Value::Null),
    ];
    for (place, value) in broken {
        let mut record = json!(sample::record());
        *record.pointer_mut(place).expect("the sample has this field") = value;
        assert_eq!(complaints(&record).len(), 1, "{place}: {:?}", complaints(&record));
    }
}

#[test]
fn every_field_of_the_schema_is_described() {
    let schema: Value = serde_json::from_str(schema::PUBLISHED).expect("the schema is JSON");
    let mut types = vec![("Record", &schema)];
    let definitions = schema["$defs"].as_object().expect("the schema has definitions");
    types.extend(definitions.iter().map(|(name, definition)| (name.as_str(), definition)));
    for (name, definition) in types {
        assert!(definition["description"].is_string(), "{name} is not described");
        for (field, shape) in definition["properties"].as_object().into_iter().flatten() {
            assert!(shape["description"].is_string(), "{name}.{field} is not described");
        }
    }
}
