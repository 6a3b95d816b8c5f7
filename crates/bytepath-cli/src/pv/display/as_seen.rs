//! Lines that pv 1.12 drew, drawn again: the same options, the same moments, the same text.
//!
//! `as_seen.txt` was written by watching that program with a clock that was set by hand, so that
//! each of its lines belongs to one elapsed time and one amount. Where we draw something else on
//! purpose, `ON_PURPOSE` says what and why.

use std::time::{Duration, SystemTime};

use clap::Parser;

use super::{Buffer, Display, DisplayOptions, FAREWELL, Moment, Terminal, Way};

const SEEN: &str = include_str!("as_seen.txt");

/// When pv's wall clock began.
const EPOCH: Duration = Duration::from_secs(1_700_000_000);

/// Options of which we draw something else, and why.
const ON_PURPOSE: &[(&str, &str)] = &[
    ("-f -w 80 -lv", "pv calls lines bytes in the summary"),
    ("-f -w 61 -g -F '%{progress-conemu}%b'", "pv tells the tab not what the gauge shows"),
];

#[derive(Parser)]
struct Pv {
    #[command(flatten)]
    display: DisplayOptions,
    #[arg(short = 's')]
    size: Option<u64>,
}

/// What was asked for, and what was seen.
struct Case {
    asked: &'static str,
    options: DisplayOptions,
    size: Option<u64>,
    seen: Vec<Seen>,
}

enum Seen {
    Line { elapsed: f64, amount: u64, last: bool, text: Option<String> },
    Title(String),
    Summary(String),
}

#[test]
fn lines_are_those_of_the_original() {
    let mut wrong = Vec::new();
    let mut lines = 0;
    for case in SEEN.split("\n$ ").skip(1).map(case) {
        if ON_PURPOSE.iter().any(|(asked, _)| *asked == case.asked) {
            continue;
        }
        lines += case.seen.len();
        wrong.extend(difference(&case));
    }
    assert!(lines > 1_000, "only {lines} lines compared");
    assert!(wrong.is_empty(), "{} cases differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn case(text: &'static str) -> Case {
    let mut lines = text.lines();
    let asked = lines.next().unwrap_or_default();
    let words = std::iter::once("pv".to_owned()).chain(words(asked));
    let pv = Pv::try_parse_from(words).unwrap_or_else(|error| panic!("{asked}: {error}"));
    let seen = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).map(seen).collect();
    Case { asked, options: pv.display, size: pv.size, seen }
}

/// Words as a shell has them, where quotes stand around whole words.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line.trim_start();
    while !rest.is_empty() {
        let (word, after) = match rest.strip_prefix('\'') {
            Some(quoted) => quoted.split_once('\'').expect("a closing quote"),
            None => rest.split_once(' ').unwrap_or((rest, "")),
        };
        words.push(word.to_owned());
        rest = after.trim_start();
    }
    words
}

/// `- 1.5 100|text` is a drawing, `=` the last one, `~` none; `x` is a title, `v` the summary.
fn seen(line: &str) -> Seen {
    let (kind, rest) = line.split_at(2);
    let text = |text: &str| text.replace("\\e", "\x1b");
    match kind {
        "x " => Seen::Title(text(rest)),
        "v " => Seen::Summary(text(rest)),
        _ => {
            let (moment, drawn) = match rest.split_once('|') {
                Some((moment, drawn)) => (moment, Some(text(drawn))),
                None => (rest, None),
            };
            let (elapsed, amount) = moment.split_once(' ').expect("a time and an amount");
            Seen::Line {
                elapsed: elapsed.parse().expect("a time"),
                amount: amount.parse().expect("an amount"),
                last: kind == "= ",
                text: drawn,
            }
        }
    }
}

/// The first line that differs, if one does. Spaces at the end only cover what was there before.
fn difference(case: &Case) -> Option<String> {
    let mut display = Display::new(&case.options).expect("options");
    display.zone = crate::sys::local_time::utc;
    display.look.terminal = Terminal { utf8: true, colours: true };
    let mut moment = Moment::default();
    for seen in &case.seen {
        let (ours, theirs) = match seen {
            Seen::Line { elapsed, amount, last, text } => {
                let elapsed = Duration::from_secs_f64(*elapsed);
                moment = Moment {
                    elapsed,
                    amount: *amount,
                    size: case.size,
                    now: SystemTime::UNIX_EPOCH + EPOCH + elapsed,
                    last: *last,
                    name: case.options.name.last().map(String::as_str),
                    buffer: buffer(&case.options),
                    ..Moment::default()
                };
                let Some(text) = text else { continue };
                // pv wrote it behind the end of the line, where it is not part of what was seen.
                (drawn(&mut display, case, &moment).replace(FAREWELL, ""), text)
            }
            Seen::Title(text) => {
                (display.extra(&moment, width(case)).window_title.unwrap_or_default(), text)
            }
            Seen::Summary(text) => (display.summary().unwrap_or_default(), text),
        };
        if ours.trim_end() != theirs.trim_end() {
            let asked = case.asked;
            return Some(format!("{asked}\n  pv   {theirs:?}\n  ours {ours:?}"));
        }
    }
    None
}

fn drawn(display: &mut Display, case: &Case, moment: &Moment<'_>) -> String {
    match case.options.numeric {
        true => display.numeric_line(moment),
        false => display.draw(moment, width(case)),
    }
}

/// -T and -A have pv read and write itself, and nothing stays in its buffer.
fn buffer(options: &DisplayOptions) -> Buffer {
    match options.buffer_percent || options.last_written.is_some() {
        true => Buffer::Filled { used_bytes: 0, capacity_bytes: 1 << 19 },
        false => Buffer::Unused(Way::Splice),
    }
}

/// Eighty columns are what pv takes an unknown terminal for.
fn width(case: &Case) -> usize {
    case.options.width.filter(|width| *width > 0).unwrap_or(80)
}
