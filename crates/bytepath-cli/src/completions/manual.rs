//! A manual page: the generator's, with what that leaves out.

use std::time::{Duration, SystemTime};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::surroundings::{ENVIRONMENT, FILES, Told};
use crate::{records, values};

/// What commands end with; "" are those that have no word of their own.
const CODES: &[(&str, &[(&str, &str)])] = &[
    ("", &[DONE, FAILED, WRONG_USAGE]),
    ("cat", CLASSIC),
    ("cp", CLASSIC),
    ("tee", CLASSIC),
    (
        "pv",
        &[
            ("0", "It is done. Else the sum of what went wrong:"),
            (
                "1",
                "Another pv was not reached, the file of --pidfile not written, or a command not run.",
            ),
            ("2", "A file could not be opened or looked at."),
            ("4", "An input is the output."),
            ("8", "The output could not be closed: what was written may not be there."),
            ("16", "Bytes could not be read or written."),
            ("32", "A signal ended it early."),
            ("64", "Wrong usage, or memory could not be had."),
        ],
    ),
    (
        "bench",
        &[
            (
                "0",
                "It is done. An arm that cannot run here has no figure, and is no failure beside others that can.",
            ),
            (
                "1",
                "It failed, or an arm did that could run at first, or it was not measured to its end.",
            ),
            ("2", "Wrong usage."),
            INTERRUPTED,
        ],
    ),
    ("bench-cmd", MEASURED),
    ("bench-run", MEASURED),
    ("tour", MEASURED),
    ("tune", MEASURED),
    (
        "compare",
        &[
            ("0", "They were compared."),
            (
                "1",
                "They could not be; or, with --fail-if-slower, an arm of the base has no figure.",
            ),
            ("2", "Wrong usage."),
            ("3", "With --fail-if-slower, an arm is slower by so much or more."),
        ],
    ),
    (
        "doctor",
        &[
            ("0", "Nothing poor was found."),
            ("1", "Something was, or it failed."),
            ("2", "Wrong usage."),
        ],
    ),
    ("run", OF_ANOTHER),
    (
        "explain",
        &[
            DONE,
            ("1", "It failed."),
            WRONG_USAGE,
            (
                "129, 130, 131, 143",
                "SIGHUP, SIGINT, SIGQUIT or SIGTERM interrupted the arms of an experiment.",
            ),
            ("any", "Of a command or pipeline that it ran: that one's own."),
        ],
    ),
    ("pages", OF_ANOTHER),
    (
        "fleet",
        &[
            ("0", "It is done."),
            ("1", "It failed, on a machine at least; or fleet doctor found something poor."),
            ("2", "Wrong usage."),
            ("3", "With --fail-if-slower of fleet compare, an arm is slower by so much or more."),
            ("129, 130, 131, 143", "SIGHUP, SIGINT, SIGQUIT or SIGTERM interrupted it."),
        ],
    ),
];

const DONE: (&str, &str) = ("0", "It is done.");
const FAILED: (&str, &str) = ("1", "It failed, or a part of it did.");
const WRONG_USAGE: (&str, &str) = ("2", "Wrong usage.");
const INTERRUPTED: (&str, &str) = (
    "129, 130, 131, 143",
    "SIGHUP, SIGINT, SIGQUIT or SIGTERM interrupted it, and ended it once what was complete was shown.",
);

const MEASURED: &[(&str, &str)] = &[DONE, FAILED, WRONG_USAGE, INTERRUPTED];

const CLASSIC: &[(&str, &str)] =
    &[("0", "It is done."), ("1", "It failed, or a part of it did; or wrong usage.")];

const OF_ANOTHER: &[(&str, &str)] = &[
    ("0", "It is done."),
    ("1", "It failed."),
    ("2", "Wrong usage."),
    ("any", "Of a command or pipeline that it ran: that one's own."),
];

/// The commands whose options are those of programs that have a page as well.
const CLASSICS: &[&str] = &["cat", "cp", "pv", "tee"];

/// The page of a command that is built, which is called so.
pub(super) fn page(command: &Command, name: &str) -> std::io::Result<String> {
    let usage = command.clone().render_usage().to_string();
    let usage = usage.strip_prefix("Usage: ").unwrap_or(&usage).to_owned();
    let mut command = command.clone().override_usage(usage);
    if command.get_version().is_some() {
        // A classic's own says more, in words of its own.
        command = command.version(env!("CARGO_PKG_VERSION"));
    }
    let page = Man::new(command)
        .title(name)
        .date(date())
        .source(concat!("bytepath ", env!("CARGO_PKG_VERSION")))
        .manual("bytepath");
    let mut text = Vec::new();
    page.render(&mut text)?;
    let text = String::from_utf8(text).expect("the generator writes text");
    let told = [
        if name == "bytepath" { notation() } else { String::new() },
        exit_status(name),
        surroundings(name, "ENVIRONMENT", ENVIRONMENT),
        surroundings(name, "FILES", FILES),
        see_also(name),
    ];
    // A blank line is a break.
    let text = text.replace(".br\n\n.br\n", ".sp\n");
    Ok(in_ascii(&(text + &told.concat())))
}

/// The day, or that of SOURCE_DATE_EPOCH, so that the same program packed again gives the same page.
fn date() -> String {
    let named = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|seconds| seconds.parse().ok());
    let named =
        named.map(Duration::from_secs).and_then(|at| SystemTime::UNIX_EPOCH.checked_add(at));
    records::time(named).split('T').next().unwrap_or_default().to_owned()
}

fn exit_status(name: &str) -> String {
    let command = name.strip_prefix("bytepath-").unwrap_or_default();
    // Those of a fleet have the codes of all of them, not of the command of the same name.
    let command = if command.starts_with("fleet-") { "fleet" } else { command };
    let whole = ["bench-cmd", "bench-run"].contains(&command);
    let explained = command.starts_with("explain-") && command != "explain-diff";
    let of_bench = explained || command.starts_with("bench-") && !whole;
    let command = if of_bench { "bench" } else { command };
    let of = |name| CODES.iter().find(|(of, _)| *of == name);
    let (_, codes) = of(command).or_else(|| of("")).expect("it is in the table");
    let mut section = Roff::new();
    section.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in *codes {
        section.control("TP", []).text([bold(*code)]).text([roman(*meaning)]);
    }
    section.to_roff()
}

/// How sizes and times are written.
fn notation() -> String {
    Roff::new().control("SH", ["SIZES AND TIMES"]).text([roman(values::NOTATION)]).to_roff()
}

/// What of these concerns the command, if anything does.
fn surroundings(name: &str, title: &str, all: &[Told]) -> String {
    let command = name.strip_prefix("bytepath").unwrap_or(name).trim_start_matches('-');
    let mut section = Roff::new();
    section.control("SH", [title]);
    let mut concerning = all.iter().filter(|told| told.concerns(command)).peekable();
    if concerning.peek().is_none() {
        return String::new();
    }
    for told in concerning {
        section.control("TP", []).text([bold(told.name)]).text([roman(told.meaning)]);
    }
    section.to_roff()
}

/// The pages of the commands that it is a command of, and the classic's.
fn see_also(name: &str) -> String {
    let mut pages = Vec::new();
    let mut above = name;
    while let Some((whole, last)) = above.rsplit_once('-') {
        if CLASSICS.contains(&last) {
            pages.push(last);
        }
        pages.push(whole);
        above = whole;
    }
    if pages.is_empty() {
        pages = CLASSICS.to_vec();
    }
    let mut line = Vec::new();
    for (at, page) in pages.into_iter().enumerate() {
        line.extend([roman(if at == 0 { "" } else { ", " }), bold(page), roman("(1)")]);
    }
    Roff::new().control("SH", ["SEE ALSO"]).text(line).to_roff()
}

/// In the words of roff(7), which not every formatter reads as UTF-8.
fn in_ascii(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter.is_ascii() {
            true => plain.push(letter),
            false => plain.push_str(&format!("\\[u{:04X}]", u32::from(letter))),
        }
    }
    plain
}
