//! Compared with the pv that is installed here, whatever its version: the same options, the same
//! bytes, the same things in the same order. From 1.9.24 on, whose lines ours are, to the letter.

use std::io::{Read, Write};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::time::Duration;

use clap::Parser;

use super::{Buffer, Display, DisplayOptions, Moment, Terminal, Way};

#[derive(Parser)]
struct Pv {
    #[command(flatten)]
    display: DisplayOptions,
    #[arg(short = 's')]
    size: Option<u64>,
}

type Version = (u32, u32, u32);

/// Since when lines are written to the letter as ours.
const CURRENT: Version = (1, 9, 24);

/// Options, and since which version pv has them.
const ASKED: &[(&str, Version)] = &[
    ("", (1, 0, 0)),
    ("-w 80", (1, 0, 0)),
    ("-w 80 -s 100", (1, 0, 0)),
    ("-w 70 -s 100 -N name", (1, 0, 0)),
    // Older ones leave out what does not fit.
    ("-w 40 -s 100 -N name", CURRENT),
    ("-w 20", CURRENT),
    ("-b", (1, 0, 0)),
    ("-bt", (1, 0, 0)),
    ("-r", (1, 0, 0)),
    ("-ra -b", (1, 2, 0)),
    ("-p -w 30", (1, 0, 0)),
    ("-p -w 30 -s 100", (1, 0, 0)),
    ("-p -w 30 -s 1000", (1, 0, 0)),
    ("-ptebar -s 400 -w 90", (1, 2, 0)),
    ("-e -t -s 100", (1, 0, 0)),
    ("-e -t", (1, 0, 0)),
    ("-I -b -s 200", (1, 6, 0)),
    ("-N x -b", (1, 0, 0)),
    ("-N a-name-longer-than-nine -b", (1, 0, 0)),
    ("-T -b", (1, 5, 1)),
    ("-F %b|%t|%%|%N -N x", (1, 5, 1)),
    ("-lb", (1, 2, 0)),
    ("-lpb -s 200 -w 40", (1, 2, 0)),
    ("-n -s 100", (1, 0, 0)),
    ("-n -b", (1, 3, 9)),
    ("-n -t -s 100", (1, 3, 9)),
    ("-n -bt -s 100", (1, 3, 9)),
    ("-n -lb", (1, 3, 9)),
    ("-b8", (1, 7, 0)),
    ("-b -m 5", (1, 7, 0)),
    ("-bk", (1, 8, 9)),
    ("-b -v", (1, 9, 0)),
    ("-n -br", (1, 9, 0)),
    ("-F %{bytes}|%{progress-bar-only}|%{progress-amount-only} -w 40 -s 100", (1, 9, 15)),
    ("-p -u granular -w 40 -s 700", (1, 9, 24)),
    ("-F %{bar-shaded}|%{sgr:red,bold}%b%{sgr:reset} -w 40 -s 700", (1, 9, 24)),
    ("-n -F <%b:%{progress-amount-only}> -s 100", (1, 9, 31)),
];

/// What comes in: first this much, then, when that was shown, the rest.
const INPUTS: &[(&[u8], &[u8])] =
    &[(b"", b""), (b"some words\nand a line\n", b""), (&[b'\n'; 40], &[b'\n'; 60])];

#[test]
fn the_pv_that_is_installed_draws_the_same() {
    let Some(version) = version() else {
        eprintln!("skipped: no pv to compare with; install it (apt-get install pv)");
        return;
    };
    let mut wrong = Vec::new();
    for (asked, since) in ASKED {
        if *since > version {
            eprintln!("skipped: pv {version:?} has no {asked}, it is in {since:?}");
            continue;
        }
        for (first, rest) in INPUTS {
            wrong.extend(difference(asked, first, rest, version));
        }
    }
    assert!(wrong.is_empty(), "{} lines differ:\n{}", wrong.len(), wrong.join("\n"));
}

/// The numbers in the first line of --version; `None` where there is no pv.
fn version() -> Option<Version> {
    let said = Command::new("pv").arg("--version").output().ok()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let words = said.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let mut numbers = words?.split('.').map(|number| number.parse().unwrap_or(0));
    Some((numbers.next()?, numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)))
}

fn difference(asked: &str, first: &[u8], rest: &[u8], version: Version) -> Option<String> {
    let alike = |seen: &str, ours: &str| match version >= CURRENT {
        true => masked(seen) == masked(ours),
        false => things(seen) == things(ours),
    };
    let ours = ours(asked, first, rest);
    let seen = original(asked, first, rest, |line| alike(line, &ours[0]));
    let all = seen.len() == ours.len() && seen.iter().zip(&ours).all(|(a, b)| alike(a, b));
    (!all).then(|| format!("{asked} ({} bytes)\n  pv   {seen:?}\n  ours {ours:?}", first.len()))
}

/// What pv drew first and last; only last where all bytes came at once. The first is the one that
/// is waited for: on a busy machine pv draws before it has read anything.
fn original(
    asked: &str,
    first: &[u8],
    rest: &[u8],
    waited_for: impl Fn(&str) -> bool,
) -> Vec<String> {
    let mut pv = Command::new("pv")
        .args(["-f", "-i", "0.1"])
        .args(asked.split_whitespace())
        .env("LC_ALL", "C.UTF-8")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .expect("pv starts");
    let mut stderr = pv.stderr.take().expect("a pipe");
    let mut drawn = Vec::new();
    give(&mut pv, first);
    if !rest.is_empty() {
        let mut lines = (0..DRAWN_MAX).map_while(|_| drawn_line(&mut stderr));
        let line = lines.find(|line| waited_for(line));
        drawn.push(line.unwrap_or_else(|| "nothing like it".into()));
        give(&mut pv, rest);
    }
    drop(pv.stdin.take());
    let mut all = Vec::new();
    stderr.read_to_end(&mut all).expect("lines");
    pv.wait().expect("pv ends");
    let all = String::from_utf8_lossy(&all).into_owned();
    let mut lines = all.split(['\r', '\n']).filter(|line| !line.is_empty());
    let summary = asked.contains("-v").then(|| lines.next_back()).flatten();
    drawn.extend(lines.next_back().map(String::from));
    drawn.extend(summary.map(String::from));
    drawn
}

/// Drawings, ten a second, before what is waited for is taken not to come.
const DRAWN_MAX: usize = 50;

fn give(pv: &mut Child, bytes: &[u8]) {
    pv.stdin.as_mut().expect("a pipe").write_all(bytes).expect("pv reads");
}

/// The next line, however long it takes to come.
fn drawn_line(stderr: &mut ChildStderr) -> Option<String> {
    let mut line = Vec::new();
    let mut byte = [0];
    while stderr.read(&mut byte).ok()? == 1 && !b"\r\n".contains(&byte[0]) {
        line.push(byte[0]);
    }
    Some(String::from_utf8_lossy(&line).into_owned())
}

fn ours(asked: &str, first: &[u8], rest: &[u8]) -> Vec<String> {
    let words = ["pv", "-f", "-i", "0.1"].into_iter().chain(asked.split_whitespace());
    let pv = Pv::try_parse_from(words).expect("options");
    let mut display = Display::new(&pv.display).expect("options");
    display.look.terminal = Terminal { utf8: true, colours: true };
    let mut drawn = Vec::new();
    let all = [first, rest].concat();
    if !rest.is_empty() {
        drawn.push(draw(&mut display, &pv, first, false));
    }
    drawn.push(draw(&mut display, &pv, &all, true));
    drawn.extend(display.summary());
    drawn.retain(|line| !line.is_empty());
    drawn
}

fn draw(display: &mut Display, pv: &Pv, bytes: &[u8], last: bool) -> String {
    let options = &pv.display;
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count();
    let amount = if options.counts_lines() { lines } else { bytes.len() };
    let seen = options.buffer_percent || options.last_written.is_some();
    let moment = Moment {
        elapsed: Duration::from_millis(if last { 250 } else { 125 }),
        amount: amount as u64,
        size: pv.size,
        last_written: if seen { bytes } else { &[] },
        buffer: match seen {
            true => Buffer::Filled { used_bytes: 0, capacity_bytes: 4096 },
            false => Buffer::Unused(Way::Splice),
        },
        last,
        name: options.name.last().map(String::as_str),
        ..Moment::default()
    };
    match options.numeric {
        true => display.numeric_line(&moment),
        false => display.draw(&moment, options.width.unwrap_or(80)),
    }
}

/// A line without what no two runs share: rates, times and what sums them up. Whether a bar beside
/// them has their width shows in the bar.
fn masked(line: &str) -> String {
    if line.starts_with("rate ") {
        return "rate".into();
    }
    let mut masked = String::new();
    let mut rest = line.trim_end();
    while let Some((at, length)) = rate_or_time(rest) {
        masked.push_str(&rest[..at]);
        masked.push('#');
        rest = &rest[at + length..];
    }
    masked + rest
}

/// Where the first rate (`12.3KiB/s`) or time (`0:00:01`, or `0.1234` among numbers) is.
fn rate_or_time(line: &str) -> Option<(usize, usize)> {
    let rate = line.find("/s").map(|at| {
        let start = line[..at].rfind(['[', '(', '/']).map_or(0, |at| at + 1);
        (start, at + "/s".len() - start)
    });
    let ends = |letter: char| " []()|/{}".contains(letter);
    let number = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
    let point = |word: &str| {
        word.split_once('.').is_some_and(|(_, places)| places.len() == 4 && number(places))
    };
    let time = line.match_indices(|letter: char| letter.is_ascii_digit()).find_map(|(at, _)| {
        let word = &line[at..];
        let word = &word[..word.find(ends).unwrap_or(word.len())];
        let begins = at == 0 || line[..at].ends_with(ends);
        (begins && (word.matches(':').count() >= 2 || point(word))).then_some((at, word.len()))
    });
    [rate, time].into_iter().flatten().min()
}

/// What a line tells, thing by thing, for versions that space it differently: amounts, names and
/// percentages as they are, of the others only what they are.
fn things(line: &str) -> Vec<String> {
    let mut things = Vec::new();
    let mut rest = line.trim();
    while let Some(first) = rest.chars().next() {
        let bracket = "[({".find(first).and_then(|at| rest.find(&"])}"[at..=at]));
        let end = bracket.map_or_else(|| rest.find(' ').unwrap_or(rest.len()), |end| end + 1);
        things.push(thing(&rest[..end]));
        rest = rest[end..].trim_start();
    }
    things
}

fn thing(word: &str) -> String {
    let inside = word.trim_matches(|letter: char| "[](){}".contains(letter));
    let kind = match inside {
        _ if inside.ends_with("/s") => "rate",
        _ if word.starts_with('[') && inside.chars().all(|letter| " <=>".contains(letter)) => "bar",
        _ if word.matches(':').count() >= 2 && word.starts_with(|c: char| c.is_ascii_digit()) => {
            "time"
        }
        "ETA" | "FIN" => "end",
        _ if inside.parse::<f64>().is_ok() && inside.contains('.') && inside.len() > 4 => "time",
        _ => word,
    };
    kind.to_owned()
}
