//! Which other program's measurement a JSON text is, if it is one that can be made a record.

use serde_json::Value;

/// Programs whose measurements can be made records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Foreign {
    /// hyperfine, as `--export-json` writes.
    Hyperfine,
    /// fio, as `--output-format=json` and `json+` write.
    Fio,
}

impl Foreign {
    /// The program that wrote this, by the fields that it has.
    pub fn of(value: &Value) -> Option<Foreign> {
        let list = |field: &str| value.get(field).and_then(Value::as_array);
        if value.get("fio version").is_some() && list("jobs").is_some() {
            return Some(Foreign::Fio);
        }
        let results = list("results")?;
        results.iter().all(|one| one.get("command").is_some()).then_some(Foreign::Hyperfine)
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Foreign::Hyperfine => "hyperfine",
            Foreign::Fio => "fio",
        }
    }
}
