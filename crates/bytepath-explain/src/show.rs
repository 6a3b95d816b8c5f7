//! An explanation as text for a terminal: the sentence, the cost table, counters, system calls, what
//! is missing.

use std::fmt::Write as _;

use bytepath_report::table::{Fitted, Style, listing, paragraph};
use bytepath_report::{Explained, numbers};

use crate::classes::{OTHERS, UNCLAIMED, is_beside};
use crate::shares::wilson;

/// System calls that are shown; the record has all.
const SYSCALLS_SHOWN: usize = 12;
/// System calls that looked descriptors up that are shown.
const CALLS_SHOWN: usize = 5;
/// Symbols that no class claims that are shown.
const UNCLAIMED_SHOWN: usize = 5;
/// Classes with less than this are one line together.
const SHARE_SHOWN: f64 = 0.001;
/// Names wrap to no fewer columns.
const NAME_MIN: u16 = 16;

/// All of it but the tree.
pub fn text(explained: &Explained, style: Style) -> String {
    let mut text = format!("{}\n", paragraph(&explained.sentence, style));
    if !explained.classes.is_empty() {
        let _ = writeln!(text, "{}", classes(explained, style));
        let _ = writeln!(text, "{}", paragraph(&about(explained), style));
    }
    if !explained.unclaimed.is_empty() {
        let names = explained.unclaimed.iter().take(UNCLAIMED_SHOWN);
        let names: Vec<String> =
            names.map(|symbol| format!("{} {}", symbol.symbol, percent(symbol.share))).collect();
        let line = format!("No class claims: {}.", names.join(", "));
        let _ = writeln!(text, "{}", paragraph(&line, style));
    }
    if !explained.descriptor_calls.is_empty() {
        let calls = explained.descriptor_calls.iter().take(CALLS_SHOWN);
        let calls: Vec<String> =
            calls.map(|call| format!("{} {}", call.symbol, percent(call.share))).collect();
        let line = format!("Descriptors were looked up in: {}.", calls.join(", "));
        let _ = writeln!(text, "{}", paragraph(&line, style));
    }
    if !explained.counters.is_empty() {
        let _ = writeln!(text, "{}", counters(explained, style));
    }
    if !explained.syscalls.is_empty() {
        let _ = writeln!(text, "{}", syscalls(explained, style));
    }
    for missing in &explained.missing {
        let _ = write!(text, "{}", paragraph(missing, style));
    }
    text
}

/// What the shares are of.
fn about(explained: &Explained) -> String {
    let cpus = match explained.cpus.as_slice() {
        [] => "the work's own threads".to_owned(),
        [one] => format!("CPU {one}"),
        several => format!("{} CPUs", several.len()),
    };
    let mut text = format!(
        "{} of {cpus} in {:.1} s, {} a second, by {}; intervals are of 95%.",
        numbers::counted(explained.samples, "sample"),
        explained.seconds,
        explained.hz,
        explained.source
    );
    if explained.classes.iter().any(|class| class.published.is_some()) {
        text += " Published shares are of the time that CPUs were busy on another machine.";
    }
    text
}

fn classes(explained: &Explained, style: Style) -> String {
    let beside = explained.classes.iter().filter(|class| is_beside(&class.name));
    let away: f64 = beside.map(|class| class.share).sum();
    let published = explained.classes.iter().any(|class| class.published.is_some());
    let mut columns = vec![name("class"), figures("share"), figures("95%").importance(2)];
    columns.push(figures("of busy").importance(3));
    columns.extend(published.then(|| figures("published").importance(1)));
    let mut rows = Vec::new();
    let mut few = 0.0;
    for class in &explained.classes {
        if class.share < SHARE_SHOWN && class.published.is_none() && class.name != UNCLAIMED {
            few += class.share;
            continue;
        }
        let [low, high] = class.ci95;
        let busy = match is_beside(&class.name) || away >= 1.0 {
            true => String::new(),
            false => percent(class.share / (1.0 - away)),
        };
        let interval = format!("{:.1} to {:.1}", low * 100.0, high * 100.0);
        let mut row = vec![class.name.clone(), percent(class.share), interval, busy];
        if published {
            row.push(class.published.map_or_else(String::new, percent));
        }
        rows.push(row);
    }
    if few > 0.0 {
        let mut row = vec!["others, each under 0.1%".to_owned(), percent(few)];
        row.resize(columns.len(), String::new());
        rows.push(row);
    }
    listing(&columns, &rows, style)
}

fn counters(explained: &Explained, style: Style) -> String {
    let columns = [name("counted"), figures("times"), figures("a second").importance(1)];
    let row = |(name, count): (&String, &f64)| {
        vec![name.clone(), whole(*count), whole(count / explained.seconds.max(1e-9))]
    };
    listing(&columns, &explained.counters.iter().map(row).collect::<Vec<_>>(), style)
}

fn syscalls(explained: &Explained, style: Style) -> String {
    let columns = [
        name("system call"),
        figures("times"),
        figures("seconds").importance(2),
        figures("µs each").importance(1),
    ];
    let mut rows = Vec::new();
    let about = if explained.calls_traced.is_some() { "~" } else { "" };
    for call in explained.syscalls.iter().take(SYSCALLS_SHOWN) {
        let told = |digits: usize, number: f64| format!("{about}{number:.digits$}");
        let seconds = call.seconds.map_or_else(String::new, |seconds| told(3, seconds));
        let each = call.seconds.filter(|_| call.count > 0);
        let each = each.map(|seconds| told(1, seconds / call.count as f64 * 1e6));
        let times = format!("{about}{}", whole(call.count as f64));
        rows.push(vec![call.name.clone(), times, seconds, each.unwrap_or_default()]);
    }
    let rest = explained.syscalls.iter().skip(SYSCALLS_SHOWN);
    let count = rest.clone().fold(0, |sum: u64, call| sum.saturating_add(call.count));
    if count > 0 {
        let seconds: f64 = rest.filter_map(|call| call.seconds).sum();
        let others = explained.syscalls.len() - SYSCALLS_SHOWN;
        rows.push(vec![
            numbers::counted(others as u64, "other"),
            format!("{about}{}", whole(count as f64)),
            format!("{about}{seconds:.3}"),
            String::new(),
        ]);
    }
    listing(&columns, &rows, style)
}

/// Two explanations class by class: what grew and what shrank, in points of percent, and whether
/// that is more than samples differ by. What other programs took is left out: it says nothing about
/// either, and would make all else smaller.
pub fn difference(before: &Explained, after: &Explained, style: Style) -> String {
    let mut names: Vec<&str> = Vec::new();
    for class in before.classes.iter().chain(&after.classes) {
        if class.name != OTHERS && !names.contains(&class.name.as_str()) {
            names.push(&class.name);
        }
    }
    let class = |explained: &Explained, name: &str| {
        let found = explained.classes.iter().find(|class| class.name == name);
        // Of what was never seen there may have been some.
        let unseen = (0.0, wilson(0.0, explained.samples as f64));
        found.map_or(unseen, |class| (class.share, class.ci95))
    };
    let others = |explained: &Explained| class(explained, OTHERS).0;
    let of = |explained: &Explained, name: &str| {
        let (share, ci95) = class(explained, name);
        let rest = (1.0 - others(explained)).max(f64::MIN_POSITIVE);
        (share / rest, ci95.map(|bound| (bound / rest).min(1.0)))
    };
    let mut rows: Vec<(f64, Vec<String>)> = names
        .into_iter()
        .map(|name| {
            let ((then, was), (now, is)) = (of(before, name), of(after, name));
            let apart = was[1] < is[0] || is[1] < was[0];
            let points = (now - then) * 100.0;
            let sure = if apart { "" } else { "within the intervals" };
            let row = vec![
                name.to_owned(),
                percent(then),
                percent(now),
                format!("{points:+.1}"),
                sure.to_owned(),
            ];
            (points.abs(), row)
        })
        .collect();
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let rows: Vec<_> = rows.into_iter().map(|(_, row)| row).collect();
    let columns = [
        name("class"),
        figures("before").importance(1),
        figures("after").importance(2),
        figures("points"),
        name(""),
    ];
    let (then, now) = (others(before), others(after));
    let note = match then.max(now) >= 0.01 {
        true => format!(
            "\nTime of other programs is left out: {} before, {} after.\n",
            percent(then),
            percent(now)
        ),
        false => String::new(),
    };
    listing(&columns, &rows, style) + &note
}

/// A column of names, which always stays.
fn name(heading: &str) -> Fitted {
    Fitted::new(heading).wraps_from(NAME_MIN)
}

fn figures(heading: &str) -> Fitted {
    Fitted::new(heading).of_figures()
}

fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}

/// A whole number, its thousands apart.
fn whole(number: f64) -> String {
    let digits = format!("{number:.0}");
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |rest| ("-", rest));
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    format!("{sign}{text}")
}

#[cfg(test)]
mod tests {
    use bytepath_report::{ClassShare, SyscallCount};

    use super::*;
    use crate::missing::Missing;

    #[test]
    fn a_person_reads_shares_calls_and_what_is_missing() {
        let class = |name: &str, share: f64, published| ClassShare {
            name: name.to_owned(),
            share,
            ci95: [share - 0.01, share + 0.01],
            published,
        };
        let explained = Explained {
            sentence: "80% of the time is idle.".to_owned(),
            source: "cpu-clock".to_owned(),
            hz: 999,
            samples: 2000,
            seconds: 1.0,
            cpus: vec![0, 1],
            classes: vec![class("idle", 0.8, None), class("copying", 0.2, Some(0.24))],
            counters: [("migrations".to_owned(), 1234567.0)].into(),
            syscalls: vec![SyscallCount { name: "write".into(), count: 1000, seconds: Some(0.5) }],
            missing: vec!["no hardware counters".to_owned()],
            ..Explained::default()
        };
        let text = text(&explained, Style::default());
        for part in [
            "80% of the time is idle.",
            "20.0%",
            "100.0%",
            "24.0%",
            "1,234,567",
            "500.0",
            "no hardware",
        ] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
    }

    #[test]
    fn calls_that_were_traced_in_part_are_told_as_estimates_and_what_was_counted_is_not() {
        let call =
            |name: &str, count| SyscallCount { name: name.into(), count, seconds: Some(0.5) };
        let explained = Explained {
            counters: [("system-calls".to_owned(), 1017.0)].into(),
            syscalls: vec![call("write", 1000), call("read", 0)],
            calls_traced: Some(0.1),
            missing: vec![Missing::calls_in_part(0.1, true).to_string()],
            ..Explained::default()
        };
        let text = text(&explained, Style::default());
        for part in ["~1,000", "~0.500", "~500.0", " 1,017", "10% of the time"] {
            assert!(text.contains(part), "{part} is missing in\n{text}");
        }
        assert!(!text.contains("500000"), "a call that was not seen to begin has no mean\n{text}");
    }

    #[test]
    fn a_difference_is_of_the_work_and_not_of_what_others_did_meanwhile() {
        let class = |name: &str, share: f64| ClassShare {
            name: name.to_owned(),
            share,
            ci95: [share * 0.9, share * 1.1],
            ..ClassShare::default()
        };
        let of =
            |classes: Vec<ClassShare>| Explained { samples: 1000, classes, ..Explained::default() };
        let alone =
            of(vec![class("copying", 0.6), class("user code", 0.398), class("idle", 0.002)]);
        let beside = vec![class(OTHERS, 0.5), class("copying", 0.3), class("user code", 0.2)];
        let text = difference(&alone, &of(beside), Style::default());
        let row = |name: &str| {
            let line = text.lines().find(|line| line.trim().starts_with(name));
            line.unwrap_or_else(|| panic!("{name} is not in\n{text}")).to_owned()
        };
        assert!(row("copying").contains("60.0%  60.0%    +0.0"), "{text}");
        assert!(!text.contains("\nother programs"), "{text}");
        assert!(text.contains("0.0% before, 50.0% after"), "{text}");
        let evil = of(vec![class("a\u{1b}[31m", 1.0)]);
        assert!(
            difference(&evil, &evil, Style::default()).contains("a\u{fffd}[31m"),
            "it commands no terminal"
        );
        assert!(row("idle").contains("within"), "two samples and none are no difference\n{text}");
    }

    #[test]
    fn tables_fit_a_narrow_terminal_and_name_what_they_lack() {
        let class = ClassShare {
            name: "waking and being woken by others".to_owned(),
            share: 0.5,
            ci95: [0.49, 0.51],
            published: Some(0.24),
        };
        let explained = Explained {
            sentence: "Half of it.".to_owned(),
            samples: 2000,
            classes: vec![class],
            counters: [("context-switches-voluntary".to_owned(), 1234567.0)].into(),
            syscalls: vec![SyscallCount { name: "write".into(), count: 1000, seconds: Some(0.5) }],
            ..Explained::default()
        };
        for width in 28..90 {
            let style = Style { width: Some(width), ..Style::default() };
            for text in [text(&explained, style), difference(&explained, &explained, style)] {
                let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
                assert!(widest <= usize::from(width.max(16 + 2 + 6 + 2 + 16)), "{width}:\n{text}");
            }
        }
        let narrow = Style { width: Some(36), ..Style::default() };
        let told = text(&explained, narrow);
        assert!(told.contains("too narrow to show: published"), "{told}");
        assert!(told.contains("50.0%") && told.contains("1,234,567"), "{told}");
    }
}
