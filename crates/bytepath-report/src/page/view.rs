//! What the page's templates are given: the words and figures of each run, as text.

use askama::Template;
use serde_json::Value;

use crate::arm::{Arm, Status, Verdict};
use crate::machine::Cache;
use crate::numbers;
use crate::record::Record;
use crate::table::{Further, columns, figures, footnotes, latencies};
use crate::{answer, doubt};

use super::Limits;
use super::explained::{ExplainedArm, explained};
use super::text::{NAME_MAX, SENTENCE_MAX, shown};

/// The setting in which a record keeps the command that made it.
pub const COMMAND: &str = "command";

#[derive(Template)]
#[template(path = "run.html")]
pub(super) struct Run {
    /// The number of the run on the page, from 1.
    pub(super) number: usize,
    pub(super) name: String,
    question: String,
    definition: String,
    pub(super) answer: Vec<String>,
    doubts: Vec<Doubt>,
    /// The kinds of doubt, each once.
    pub(super) badges: Vec<&'static str>,
    facts: String,
    arms: Table,
    /// Arms of the record that are not on the page.
    left_out: Option<String>,
    unavailable: Pairs,
    published: Vec<String>,
    any_untouched: bool,
    any_published: bool,
    latencies: Option<Table>,
    figures: Option<Table>,
    costs: Option<Table>,
    explained: Vec<ExplainedArm>,
    command: Option<String>,
    settings: Pairs,
    machine: Pairs,
    notes: Vec<String>,
    control: Option<String>,
    id: String,
    samples: usize,
    /// Samples of the record that are not on the page.
    samples_left_out: Option<String>,
    /// How many of all samples are disturbed.
    flagged: Option<String>,
}

struct Doubt {
    kind: &'static str,
    grave: bool,
    text: String,
}

/// A table: its headings, and rows of cells.
#[derive(Template)]
#[template(path = "table.html")]
struct Table {
    id: String,
    caption: String,
    headings: Vec<Heading>,
    rows: Vec<Row>,
}

struct Heading {
    text: String,
    figure: bool,
}

struct Row {
    /// The number of the arm in the run, from 0.
    arm: usize,
    section: String,
    /// What marks the row, as classes of its element.
    marks: &'static str,
    /// The median with all its digits.
    exact: String,
    cells: Vec<String>,
}

#[derive(Template)]
#[template(path = "pairs.html")]
pub(super) struct Pairs {
    pub(super) of: Vec<Pair>,
}

pub(super) struct Pair {
    pub(super) name: String,
    pub(super) value: String,
}

impl Run {
    pub(super) fn of(number: usize, record: &Record, here: &doubt::Here, limits: &Limits) -> Run {
        let experiment = &record.experiment;
        let arms: Vec<&Arm> = record.arms.iter().take(limits.arms).collect();
        let ran = |arm: &&&Arm| arm.status == Status::Ok && arm.unit.is_of_bytes();
        let doubts: Vec<Doubt> = doubt::of(record, here).into_iter().map(Doubt::of).collect();
        let mut badges: Vec<_> = doubts.iter().map(|doubt| doubt.kind).collect();
        badges.dedup();
        let samples = record.arms.iter().map(|arm| arm.samples.len()).sum();
        let on_page = |arm: &&Arm| arm.samples.len().min(limits.samples);
        let samples_on_page: usize = arms.iter().map(on_page).sum();
        let name = shown(&experiment.name, NAME_MAX);
        let named = |what: &str, caption: String| (format!("{what}-{number}"), caption);
        Run {
            number,
            question: shown(&experiment.question, SENTENCE_MAX),
            definition: shown(&experiment.definition, SENTENCE_MAX),
            answer: answer::of(record).iter().map(|text| shown(text, SENTENCE_MAX)).collect(),
            doubts,
            badges,
            facts: facts(record),
            arms: arms_table(record, &arms, named("arms", format!("Arms of {name}"))),
            left_out: left_out(record.arms.len() - arms.len(), "arm"),
            unavailable: Pairs { of: unavailable(&arms) },
            published: published(&arms),
            any_untouched: arms.iter().filter(ran).any(|arm| !arm.touched),
            any_published: arms.iter().any(|arm| arm.published.is_some()),
            latencies: latencies::further(&arms).map(|of| {
                let caption = format!("Latencies, and what a request costs, in {name}");
                further_table(&arms, of, named("latencies", caption))
            }),
            figures: figures::further(&arms).map(|of| {
                let caption = format!("What else the arms of {name} tell");
                further_table(&arms, of, named("figures", caption))
            }),
            costs: costs_table(
                record,
                &arms,
                named("costs", format!("Costs of the arms of {name}")),
            ),
            explained: explained(&arms, limits),
            command: record
                .settings
                .get(COMMAND)
                .and_then(Value::as_str)
                .map(|text| shown(text, SENTENCE_MAX)),
            settings: Pairs { of: settings(record) },
            machine: Pairs { of: machine(record) },
            notes: first(
                &record.notes,
                NOTES_MAX,
                |note| shown(note, SENTENCE_MAX),
                |more| not_here(more, "note"),
            ),
            control: record.control.as_ref().map(|control| {
                format!(
                    "The reference once more as “{}”: {} {}",
                    shown(&control.arm, NAME_MAX),
                    numbers::ratio_within(control.ratio, Some(control.ratio_ci95)),
                    numbers::ratio_interval(control.ratio_ci95)
                )
            }),
            id: shown(&record.id, NAME_MAX),
            samples,
            samples_left_out: left_out(samples - samples_on_page, "sample"),
            flagged: footnotes::flagged(record).map(|text| shown(&text, SENTENCE_MAX)),
            name,
        }
    }
}

/// More notes, settings or facts than this are not shown, but counted.
const NOTES_MAX: usize = 200;

/// The first of these, and behind them what tells how many more there are.
pub(super) fn first<T, U>(
    all: impl IntoIterator<Item = T>,
    most: usize,
    told: impl Fn(T) -> U,
    more: impl Fn(usize) -> U,
) -> Vec<U> {
    let mut all = all.into_iter();
    let mut first: Vec<U> = all.by_ref().take(most).map(told).collect();
    match all.count() {
        0 => {}
        count => first.push(more(count)),
    }
    first
}

fn not_here(count: usize, what: &str) -> String {
    format!("not on this page: {}", more(count, what))
}

pub(super) fn more_pairs(count: usize) -> Pair {
    Pair { name: "not on this page".to_owned(), value: format!("{count} more") }
}

fn more(count: usize, what: &str) -> String {
    numbers::counted(count as u64, &format!("more {what}"))
}

impl Doubt {
    fn of(doubt: doubt::Doubt) -> Doubt {
        Doubt {
            kind: doubt.kind.word(),
            grave: doubt.kind == doubt::Kind::Untrusted,
            text: shown(&doubt.text, SENTENCE_MAX),
        }
    }
}

/// Columns whose place is in the table of costs.
fn is_cost(column: &columns::Column) -> bool {
    ["/GiB", "/op", "cached", "page cache", "/run", "peak memory"]
        .iter()
        .any(|part| column.name.contains(part))
}

/// The `id` of a table, and its caption.
type Named = (String, String);

fn arms_table(record: &Record, arms: &[&Arm], named: Named) -> Table {
    let filled = columns::ALL.iter().filter(|column| !is_cost(column));
    let chosen: Vec<_> = filled.filter(|column| column.holds_anything(record)).collect();
    table(record, arms, &chosen, named)
}

fn costs_table(record: &Record, arms: &[&Arm], named: Named) -> Option<Table> {
    let costs: Vec<_> = columns::ALL
        .iter()
        .filter(|column| is_cost(column) && column.holds_anything(record))
        .collect();
    if costs.is_empty() {
        return None;
    }
    let with_name: Vec<_> = columns::ALL.iter().take(1).chain(costs).collect();
    Some(table(record, arms, &with_name, named))
}

fn table(
    record: &Record,
    arms: &[&Arm],
    chosen: &[&columns::Column],
    (id, caption): Named,
) -> Table {
    let heading = |column: &&columns::Column| Heading {
        text: (column.heading)(record).replace('\n', " "),
        figure: column.is_of_figures(),
    };
    let unit = columns::common_unit(record);
    let row = |(index, arm): (usize, &&Arm)| Row {
        arm: index,
        section: arm.section.as_deref().map(|section| shown(section, NAME_MAX)).unwrap_or_default(),
        marks: marks(arm),
        exact: arm.median.map_or_else(String::new, |median| median.to_string()),
        cells: chosen.iter().map(|column| shown(&(column.cell)(unit, arm), NAME_MAX)).collect(),
    };
    Table {
        id,
        caption,
        headings: chosen.iter().map(heading).collect(),
        rows: arms.iter().enumerate().map(row).collect(),
    }
}

fn marks(arm: &Arm) -> &'static str {
    match (arm.status, arm.reference, arm.verdict) {
        (Status::Unavailable, ..) => "missing",
        (_, true, _) => "reference",
        (_, _, Some(Verdict::Faster)) => "faster",
        (_, _, Some(Verdict::Slower)) => "slower",
        _ => "",
    }
}

fn further_table(arms: &[&Arm], of: Further, (id, caption): Named) -> Table {
    let row = |(arm, cells): (usize, Vec<String>)| Row {
        arm,
        section: String::new(),
        marks: marks(arms[arm]),
        exact: String::new(),
        cells: cells.iter().map(|cell| shown(cell, NAME_MAX)).collect(),
    };
    let heading = |(place, text): (usize, String)| Heading {
        text: shown(&text.replace('\n', " "), NAME_MAX),
        figure: place > 0,
    };
    Table {
        id,
        caption,
        headings: of.headings.into_iter().enumerate().map(heading).collect(),
        rows: of.rows.into_iter().map(row).collect(),
    }
}

/// Why arms could not run, each with its reason.
fn unavailable(arms: &[&Arm]) -> Vec<Pair> {
    arms.iter()
        .filter(|arm| arm.status == Status::Unavailable)
        .map(|arm| Pair {
            name: shown(&arm.name, NAME_MAX),
            value: shown(arm.why.as_deref().unwrap_or("the record does not say why"), SENTENCE_MAX),
        })
        .collect()
}

/// Where published figures are from, each source once.
fn published(arms: &[&Arm]) -> Vec<String> {
    first(
        footnotes::published(arms.iter().copied()),
        NOTES_MAX,
        |text| shown(&text, SENTENCE_MAX),
        |more| not_here(more, "source"),
    )
}

/// How many there was no room for.
fn left_out(count: usize, what: &str) -> Option<String> {
    (count > 0).then(|| more(count, what))
}

fn facts(record: &Record) -> String {
    let machine = &record.machine;
    let kernel = (!machine.kernel.is_empty()).then(|| format!("Linux {}", machine.kernel));
    let blocks = numbers::counted(record.blocks.into(), "block");
    let all = [
        Some(record.started.clone()),
        Some(blocks),
        kernel,
        machine.cpu_model.clone(),
        machine.cpus_allowed.as_ref().map(|cpus| format!("CPUs {cpus}")),
        machine.virtualisation.clone(),
    ];
    shown(&all.into_iter().flatten().collect::<Vec<_>>().join(" · "), SENTENCE_MAX)
}

fn settings(record: &Record) -> Vec<Pair> {
    let shown_pair = |(name, value): (&String, &Value)| Pair {
        name: shown(name, NAME_MAX),
        value: shown(&plain(value), SENTENCE_MAX),
    };
    let others = record.settings.iter().filter(|(name, _)| *name != COMMAND);
    first(others, NOTES_MAX, shown_pair, more_pairs)
}

/// A value as one writes it: text without quotes, anything else as JSON.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Every fact of the machine that the record has, by the names of its schema.
fn machine(record: &Record) -> Vec<Pair> {
    let mut facts = vec![Pair {
        name: "bytepath".to_owned(),
        value: shown(&format!("{} ({})", record.bytepath.version, record.bytepath.build), NAME_MAX),
    }];
    let Ok(Value::Object(fields)) = serde_json::to_value(&record.machine) else { return facts };
    for (name, value) in fields {
        match value {
            Value::Null => {}
            Value::Object(map) => {
                let pair = |(key, value): (&String, &Value)| Pair {
                    name: shown(&format!("{}: {key}", name.replace('_', " ")), NAME_MAX),
                    value: shown(&plain(value), SENTENCE_MAX),
                };
                facts.extend(first(&map, NOTES_MAX, pair, more_pairs));
            }
            Value::Array(_) if name == "caches" => facts.extend(caches(record)),
            value if name.ends_with("_bytes") || name == "pipe_max_size" => facts.push(Pair {
                name: name.replace('_', " "),
                value: match value.as_u64() {
                    Some(u64::MAX) => "no limit".to_owned(),
                    Some(bytes) => numbers::bytes(bytes),
                    None => plain(&value),
                },
            }),
            value if plain(&value).is_empty() => {}
            value => facts.push(Pair {
                name: name.replace('_', " "),
                value: shown(&plain(&value), SENTENCE_MAX),
            }),
        }
    }
    facts
}

fn caches(record: &Record) -> Vec<Pair> {
    let pair = |cache: &Cache| Pair {
        name: format!(
            "cache, level {}, {}",
            cache.level,
            shown(&cache.kind.to_lowercase(), NAME_MAX)
        ),
        value: format!("{}, CPUs {}", numbers::bytes(cache.bytes), shown(&cache.cpus, NAME_MAX)),
    };
    first(&record.machine.caches, NOTES_MAX, pair, more_pairs)
}
