//! Records for the tests of reports: like those that runs leave, and such as nobody should send.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytepath_report::{
    Arm, Build, ClassShare, Control, Costs, Experiment, Explained, Machine, Published, Record,
    Sample, SchemaName, Stack, SymbolShare, SyscallCount, Unit, Verdict, latency,
};

/// A run with arms that are faster, slower, missing, moved, touched, published and explained.
pub(crate) fn record() -> Record {
    let mut record = empty("pipes");
    record.arms = vec![
        Arm { reference: true, touched: true, ..arm("write-read", 3.5, None) },
        Arm {
            published: Some(published(12.7)),
            touched: true,
            ..arm("vmsplice-read", 12.25, Some(Verdict::Faster))
        },
        Arm {
            published: Some(published(62.5)),
            ..arm("vmsplice-splice-huge-spin", 61.0625, Some(Verdict::Faster))
        },
        Arm { touched: true, ..arm("write-read-4k", 0.25, Some(Verdict::Slower)) },
        Arm::unavailable("uring-read", Unit::GibPerSecond, "io_uring_setup: EPERM"),
    ];
    record.arms[1].explained = Some(explained());
    let mut histogram = latency::empty();
    (1..=1000_u64).for_each(|ns| histogram.saturating_record(ns * 1000));
    let told = latency::Latency::of(&histogram).expect("it fits");
    let params = &mut record.arms[0].params;
    params.insert(latency::PARAM.to_owned(), serde_json::to_value(told).expect("JSON"));
    params.insert("io_bytes".to_owned(), 1024.into());
    record
}

fn empty(name: &str) -> Record {
    Record {
        schema: SchemaName::V1,
        id: format!("{name}-1"),
        started: "2026-03-01T12:00:00Z".to_owned(),
        bytepath: Build { version: "0.1.0".to_owned(), build: "9c2d41e".to_owned() },
        machine: Machine { kernel: "6.18.5".to_owned(), ..Machine::default() },
        experiment: Experiment {
            name: name.to_owned(),
            question: "How fast can a pipe be?".to_owned(),
            definition: "Bytes from one process to another.".to_owned(),
        },
        settings: BTreeMap::from([("seed".to_owned(), 42.into())]),
        blocks: 3,
        trusted: true,
        untrusted_why: None,
        control: Some(Control {
            arm: "write-read (A/A)".into(),
            ratio: 1.0,
            ratio_ci95: [0.98, 1.02],
            samples: Vec::new(),
        }),
        arms: Vec::new(),
        notes: Vec::new(),
    }
}

fn arm(name: &str, value: f64, verdict: Option<Verdict>) -> Arm {
    let sample = |(block, factor): (u32, f64)| Sample {
        block,
        order: block,
        value: value * factor,
        flagged: block == 1,
        flag_why: (block == 1).then(|| "steal 23%, more than 5%".to_owned()),
        seconds: 0.3,
        ..Sample::default()
    };
    Arm {
        samples: (0..).zip([0.96875, 1.0, 1.03125]).map(sample).collect(),
        median: Some(value),
        ci95: Some([value * 0.9375, value * 1.0625]),
        ratio: Some(value / 3.5),
        ratio_ci95: Some([value / 3.75, value / 3.25]),
        verdict,
        costs: Some(Costs {
            cpu_user_s_per_gib: Some(0.0125),
            cpu_system_s_per_gib: Some(0.25),
            context_switches_per_gib: Some(1204.0),
            ..Costs::default()
        }),
        ..Arm::new(name, Unit::GibPerSecond)
    }
}

fn published(value: f64) -> Published {
    Published { value, source: "mazzo.li 2022".to_owned(), note: None }
}

pub(crate) fn explained() -> Explained {
    let class = |name: &str, share: f64, published| ClassShare {
        name: name.to_owned(),
        share,
        ci95: [share - 0.02, share + 0.02],
        published,
    };
    let stack = |frames: &str, count| Stack { frames: frames.to_owned(), count };
    Explained {
        sentence: "62% of the time is copying; lend pages instead.".to_owned(),
        source: "cpu-clock".to_owned(),
        hz: 999,
        samples: 1000,
        seconds: 0.5,
        cpus: vec![0, 1],
        classes: vec![
            class("copying", 0.625, Some(0.5)),
            class("idle", 0.25, None),
            class("unclaimed", 0.125, None),
        ],
        unclaimed: vec![SymbolShare { symbol: "mystery_[k]".to_owned(), share: 0.125 }],
        stacks: vec![
            stack("bytepath;main;write;pipe_write_[k];copy_page_from_iter_[k]", 625),
            stack("swapper;default_idle_[k]", 250),
            stack("bytepath;main;mystery_[k]", 125),
        ],
        counters: BTreeMap::from([("context-switches-voluntary".to_owned(), 1204.0)]),
        syscalls: vec![SyscallCount { name: "write".to_owned(), count: 4096, seconds: Some(0.25) }],
        missing: vec!["hardware cycles: there is no PMU here".to_owned()],
        ..Explained::default()
    }
}

/// What would run, were it not text.
pub(crate) const EVIL: &str = "</script><script>window.hacked=1</script><img src=x onerror=window.hacked=2>\
    <svg onload=window.hacked=3>{{ 7*7 }}{% raw %}\"'`-->]]>javascript:hacked=4\u{202e}\u{0}\u{1b}[31m";

/// A record whose every text is out to do something.
pub(crate) fn hostile() -> Record {
    let mut record = record();
    let value = serde_json::to_value(&record).expect("JSON");
    record = serde_json::from_value(poisoned(value, "")).expect("still a record");
    for (index, arm) in record.arms.iter_mut().enumerate() {
        arm.name = format!("{index}{EVIL}");
        arm.section = Some(EVIL.to_owned());
    }
    record.trusted = false;
    record.untrusted_why = Some(EVIL.to_owned());
    record.settings.insert(EVIL.to_owned(), EVIL.into());
    record.settings.insert("command".to_owned(), EVIL.into());
    record.machine.mitigations.insert(EVIL.to_owned(), EVIL.to_owned());
    record.notes = vec![EVIL.to_owned()];
    record
}

/// All texts but those that have to be what they are.
fn poisoned(value: serde_json::Value, field: &str) -> serde_json::Value {
    use serde_json::Value;
    let kept = ["schema", "unit", "better", "status", "verdict", "started", "histogram"];
    match value {
        Value::String(_) if !kept.contains(&field) => EVIL.into(),
        Value::Array(all) => all.into_iter().map(|one| poisoned(one, field)).collect(),
        Value::Object(all) => {
            all.into_iter().map(|(field, one)| (field.clone(), poisoned(one, &field))).collect()
        }
        other => other,
    }
}

/// Writes a record into a folder.
pub(crate) fn kept(folder: &Path, name: &str, record: &Record) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, record.to_json().expect("finite figures")).expect("a file");
    path
}
