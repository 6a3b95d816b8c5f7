//! What tracing found, as text for a person: the largest first, and no more than fits a look.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use bytepath_report::table::{Fitted, Style, listing, printable};
use bytepath_report::{
    TraceConnection, TraceFile, TraceFound, TraceOffCpu, TraceSoftirq, TraceSyscall, TraceUntold,
    TraceWakeup, Traced, numbers,
};

/// Rows of a table.
const ROWS_SHOWN: usize = 25;
/// Sleeps that are shown with their stacks.
const STACKS_SHOWN: usize = 10;
/// System calls that are shown with a histogram.
const HISTOGRAMS_SHOWN: usize = 4;
/// Functions of a stack on a line of its own.
const FRAMES_SHOWN: usize = 12;
const BAR: usize = 40;
/// Names wrap to no fewer columns.
const NAME_MIN: u16 = 16;

/// All of it. Names of threads and files are whatever somebody called them, and command no terminal.
pub fn text(traced: &Traced, style: Style) -> String {
    let mut text = format!("{}: {} traced\n\n", traced.what, numbers::time(traced.seconds));
    text += &match &traced.found {
        TraceFound::OffCpu(rows) => off_cpu(rows),
        TraceFound::Wakeups(rows) => wakeups(rows, style),
        TraceFound::Syscalls(rows) => syscalls(rows, style),
        TraceFound::Softirq(rows) => softirqs(rows, traced.seconds, style),
        TraceFound::FileLife(rows) => files(rows, &traced.untold, style),
        TraceFound::Tcp(rows) => connections(rows, &traced.untold, style),
    };
    text.push('\n');
    for lost in &traced.lost {
        let _ = writeln!(text, "lost: {} {}", lost.times, lost.what);
    }
    for missing in &traced.missing {
        let _ = writeln!(text, "note: {missing}");
    }
    printable(&(text + &attached(traced)))
}

/// By which way programs were attached, and what was refused first.
fn attached(traced: &Traced) -> String {
    let mut ways: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for attached in &traced.attached {
        ways.entry(&attached.by).or_default().push(&attached.to);
    }
    let ways: Vec<String> =
        ways.iter().map(|(way, to)| format!("{} by {way}", to.join(", "))).collect();
    let mut text = format!("attached: {}\n", ways.join("; "));
    if let Some(refused) = traced.attached.iter().find_map(|attached| attached.refused.first()) {
        let _ = writeln!(text, "refused first: {refused}");
    }
    text
}

fn off_cpu(rows: &[TraceOffCpu]) -> String {
    if rows.is_empty() {
        return "nobody left its CPU\n".to_owned();
    }
    let mut states: BTreeMap<&str, (f64, u64)> = BTreeMap::new();
    for row in rows {
        let sum = states.entry(&row.state).or_default();
        *sum = (sum.0 + row.seconds, sum.1 + row.times);
    }
    let mut text = "off the CPU, all threads together: ".to_owned();
    let states: Vec<String> = states
        .iter()
        .map(|(state, (sum, times))| {
            format!("{state} {} ({})", numbers::time(*sum), numbers::counted(*times, "time"))
        })
        .collect();
    text += &states.join(", ");
    text += "\n";
    let merged = merged(rows);
    for row in merged.iter().take(STACKS_SHOWN) {
        text += &sleep(row);
    }
    text + &more(merged.len(), STACKS_SHOWN, "sleep")
}

/// Rows that differ in nothing that is shown are one.
fn merged(rows: &[TraceOffCpu]) -> Vec<TraceOffCpu> {
    let mut merged: BTreeMap<_, TraceOffCpu> = BTreeMap::new();
    for row in rows {
        let by = (row.interrupt.clone(), row.waker.as_ref().map(|waker| waker.name.clone()));
        let key = (
            row.thread.name.clone(),
            (row.state.clone(), row.still),
            row.user_stack.clone(),
            row.kernel_stack.clone(),
            (by, woken_in(row).to_vec()),
        );
        let sum = merged.entry(key);
        sum.and_modify(|sum| {
            sum.seconds += row.seconds;
            sum.times += row.times;
            sum.longest_seconds = sum.longest_seconds.max(row.longest_seconds);
            // One of several stands for no other.
            if let (Some(waker), Some(other)) = (&mut sum.waker, &row.waker)
                && waker.tid != other.tid
            {
                waker.tid = 0;
            }
        })
        .or_insert_with(|| row.clone());
    }
    let mut merged: Vec<TraceOffCpu> = merged.into_values().collect();
    merged.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    merged
}

fn sleep(row: &TraceOffCpu) -> String {
    let times = match row.times {
        1 => "once".to_owned(),
        times => format!("{times} times, at most {}", numbers::time(row.longest_seconds)),
    };
    let mut text =
        format!("\n{:>9}  {} {}, {times}", numbers::time(row.seconds), row.thread.name, row.state);
    match (&row.interrupt, &row.waker) {
        _ if row.still => text += ", and still was at the end",
        (Some(interrupt), _) => {
            let _ = write!(text, "; woken by an interrupt ({interrupt})");
        }
        (None, Some(waker)) => {
            let _ = write!(text, "; woken by {}", waker.name);
            if waker.tid > 0 {
                let _ = write!(text, " ({})", waker.tid);
            }
        }
        (None, None) => {}
    }
    text.push('\n');
    let stacks =
        [("in", &row.user_stack[..]), ("kernel", &row.kernel_stack), ("woken in", woken_in(row))];
    for (what, stack) in stacks {
        if !stack.is_empty() {
            let _ = writeln!(text, "           {what}: {}", frames(stack));
        }
    }
    text
}

/// Where the waker was, if it is a thread.
fn woken_in(row: &TraceOffCpu) -> &[String] {
    if row.interrupt.is_none() { &row.waker_stack } else { &[] }
}

/// The innermost functions, the outermost of them first.
fn frames(stack: &[String]) -> String {
    let from = stack.len().saturating_sub(FRAMES_SHOWN);
    let dots = if from > 0 { "… > " } else { "" };
    format!("{dots}{}", stack[from..].join(" > "))
}

fn wakeups(rows: &[TraceWakeup], style: Style) -> String {
    if rows.is_empty() {
        return "nobody was woken\n".to_owned();
    }
    /// Times, seconds in all, the longest, the histogram.
    type Sum = (u64, f64, f64, Vec<u64>);
    let mut pairs: BTreeMap<(String, &str), Sum> = BTreeMap::new();
    let mut cpus: BTreeMap<(u32, u32), (u64, f64)> = BTreeMap::new();
    for row in rows {
        let pair = pairs.entry((waker(row), &row.wakee.name)).or_default();
        pair.0 += row.times;
        pair.1 += row.seconds;
        pair.2 = pair.2.max(row.longest_seconds);
        add(&mut pair.3, &row.log2_ns);
        let cpu = cpus.entry((row.from_cpu, row.to_cpu)).or_default();
        *cpu = (cpu.0 + row.times, cpu.1 + row.seconds);
    }
    let mut head =
        table(&["waker", "woken", "times", "mean", "half below", "99% below", "longest"], 2);
    let mut pairs: Vec<_> = pairs.into_iter().collect();
    pairs.sort_by(|one, other| other.1.1.total_cmp(&one.1.1));
    for ((waker, wakee), (times, sum, longest, buckets)) in pairs.iter().take(ROWS_SHOWN) {
        head.rows.push(vec![
            waker.clone(),
            (*wakee).to_owned(),
            times.to_string(),
            mean(*sum, *times),
            below(buckets, 0.5, *longest),
            below(buckets, 0.99, *longest),
            numbers::time(*longest),
        ]);
    }
    let mut between = table(&["from CPU", "to CPU", "times", "mean"], 0);
    let mut cpus: Vec<_> = cpus.into_iter().collect();
    cpus.sort_by_key(|(_, (times, _))| std::cmp::Reverse(*times));
    for ((from, to), (times, sum)) in cpus.iter().take(ROWS_SHOWN) {
        between.rows.push(vec![
            from.to_string(),
            to.to_string(),
            times.to_string(),
            mean(*sum, *times),
        ]);
    }
    format!(
        "{}{}\n{}{}",
        head.drawn(style),
        more(pairs.len(), ROWS_SHOWN, "pair"),
        between.drawn(style),
        more(cpus.len(), ROWS_SHOWN, "CPU pair")
    )
}

/// Who or what woke.
fn waker(row: &TraceWakeup) -> String {
    match (&row.interrupt, &row.waker) {
        (Some(interrupt), _) => format!("(interrupt: {interrupt})"),
        (None, Some(waker)) => waker.name.clone(),
        (None, None) => numbers::UNKNOWN.to_owned(),
    }
}

fn syscalls(rows: &[TraceSyscall], style: Style) -> String {
    if rows.is_empty() {
        return "no system calls\n".to_owned();
    }
    let mut head = table(
        &[
            "system call",
            "calls",
            "errors",
            "seconds",
            "mean",
            "half below",
            "99% below",
            "longest",
        ],
        1,
    );
    for row in rows.iter().take(ROWS_SHOWN) {
        head.rows.push(vec![
            row.name.clone(),
            row.calls.to_string(),
            row.errors.to_string(),
            format!("{:.6}", row.seconds),
            mean(row.seconds, row.calls),
            below(&row.log2_ns, 0.5, row.longest_seconds),
            below(&row.log2_ns, 0.99, row.longest_seconds),
            numbers::time(row.longest_seconds),
        ]);
    }
    let mut text = head.drawn(style) + &more(rows.len(), ROWS_SHOWN, "system call");
    for row in rows.iter().filter(|row| row.unfinished > 0) {
        let _ = writeln!(
            text,
            "still in {}: {}, for {} and less",
            row.name,
            numbers::counted(row.unfinished, "thread"),
            numbers::time(row.unfinished_seconds)
        );
    }
    for row in rows.iter().filter(|row| row.calls > 0).take(HISTOGRAMS_SHOWN) {
        let _ = write!(text, "\n{}\n{}", row.name, histogram(&row.log2_ns));
    }
    text
}

fn softirqs(rows: &[TraceSoftirq], traced: f64, style: Style) -> String {
    if rows.is_empty() {
        return "no soft interrupts\n".to_owned();
    }
    let mut head = table(
        &[
            "vector",
            "times",
            "seconds",
            "of one CPU",
            "99% below",
            "longest",
            "on traced",
            "seconds",
        ],
        1,
    );
    for row in rows {
        head.rows.push(vec![
            row.vector.clone(),
            row.times.to_string(),
            format!("{:.6}", row.seconds),
            format!("{:.2}%", row.seconds / traced.max(1e-9) * 100.0),
            below(&row.log2_ns, 0.99, row.longest_seconds),
            numbers::time(row.longest_seconds),
            row.on_traced_times.to_string(),
            format!("{:.6}", row.on_traced_seconds),
        ]);
    }
    format!(
        "{}on traced: what came to a CPU while a traced thread had it, whose time it took\n",
        head.drawn(style)
    )
}

fn files(rows: &[TraceFile], untold: &[TraceUntold], style: Style) -> String {
    if rows.is_empty() {
        return "no files\n".to_owned();
    }
    let mut rows: Vec<&TraceFile> = rows.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.read_bytes + row.written_bytes));
    let mut head =
        table(&["file", "by", "opened at", "open for", "reads", "bytes", "writes", "bytes"], 2);
    for row in rows.iter().take(ROWS_SHOWN) {
        head.rows.push(vec![
            row.path.clone(),
            row.thread.name.clone(),
            row.opened_at.map_or("before".to_owned(), numbers::time),
            row.lifetime_seconds.map_or("still".to_owned(), numbers::time),
            row.reads.to_string(),
            row.read_bytes.to_string(),
            row.writes.to_string(),
            row.written_bytes.to_string(),
        ]);
    }
    let bytes = |row: &&TraceFile| (1, row.read_bytes, row.written_bytes);
    let all = rows.iter().map(bytes).chain(untold.iter().map(sums)).reduce(both);
    let (count, read, written) = all.unwrap_or_default();
    format!(
        "{}{}{}, {} read, {} written\n",
        head.drawn(style),
        more(rows.len(), ROWS_SHOWN, "file"),
        numbers::counted(count, "open file"),
        numbers::bytes(read),
        numbers::bytes(written)
    )
}

/// How many, and their bytes.
type Sums = (u64, u64, u64);

fn sums(untold: &TraceUntold) -> Sums {
    (untold.rows, untold.read_bytes, untold.written_bytes)
}

fn both(one: Sums, other: Sums) -> Sums {
    (one.0 + other.0, one.1 + other.1, one.2 + other.2)
}

fn connections(rows: &[TraceConnection], untold: &[TraceUntold], style: Style) -> String {
    if rows.is_empty() {
        return "no TCP connections\n".to_owned();
    }
    let mut nets: BTreeMap<&str, Sums> = BTreeMap::new();
    let told = rows.iter().map(|row| (&*row.subnet, (1, row.received_bytes, row.sent_bytes)));
    let others = untold.iter().map(|row| (row.subnet.as_deref().unwrap_or("(others)"), sums(row)));
    for (net, more) in told.chain(others) {
        let sum = nets.entry(net).or_default();
        *sum = both(*sum, more);
    }
    let mut nets: Vec<_> = nets.into_iter().collect();
    nets.sort_by_key(|(_, (_, received, sent))| std::cmp::Reverse(received + sent));
    let mut rows: Vec<&TraceConnection> = rows.iter().collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.sent_bytes + row.received_bytes));
    let mut head =
        table(&["here", "there", "by", "lasted", "sent", "received", "again", "round trip"], 3);
    for row in rows.iter().take(ROWS_SHOWN) {
        head.rows.push(vec![
            row.local.clone(),
            row.remote.clone(),
            row.thread.name.clone(),
            row.lifetime_seconds.map_or("still".to_owned(), numbers::time),
            row.sent_bytes.to_string(),
            row.received_bytes.to_string(),
            row.retransmitted.map_or(numbers::UNKNOWN.to_owned(), |count| count.to_string()),
            row.round_trip_seconds.map_or(numbers::UNKNOWN.to_owned(), numbers::time),
        ]);
    }
    let mut between = table(&["network", "connections", "sent", "received"], 1);
    for (net, (count, received, sent)) in nets.iter().take(ROWS_SHOWN) {
        between.rows.push(vec![
            (*net).to_owned(),
            count.to_string(),
            sent.to_string(),
            received.to_string(),
        ]);
    }
    format!(
        "{}{}\n{}{}",
        head.drawn(style),
        more(rows.len(), ROWS_SHOWN, "connection"),
        between.drawn(style),
        more(nets.len(), ROWS_SHOWN, "network")
    )
}

/// A table whose columns from `figures` on stand to the right.
struct Table {
    columns: Vec<Fitted>,
    rows: Vec<Vec<String>>,
}

/// A table of these columns. Where the terminal is narrow, the first stays, other words wrap, and
/// figures go from the right.
fn table(head: &[&str], figures: usize) -> Table {
    let column = |((index, heading), importance): ((usize, &&str), u8)| {
        let column = match index < figures {
            true => Fitted::new(*heading).wraps_from(NAME_MIN),
            false => Fitted::new(*heading).of_figures(),
        };
        if index < figures.max(1) { column } else { column.importance(importance) }
    };
    let columns = head.iter().enumerate().zip((0..=u8::MAX).rev());
    Table { columns: columns.map(column).collect(), rows: Vec::new() }
}

impl Table {
    fn drawn(&self, style: Style) -> String {
        listing(&self.columns, &self.rows, style)
    }
}

/// How many are not shown of a thing whose plural ends in s.
fn more(all: usize, shown: usize, what: &str) -> String {
    match all.saturating_sub(shown) as u64 {
        0 => String::new(),
        more => format!("{}; see --json\n", numbers::counted(more, &format!("more {what}"))),
    }
}

fn add(to: &mut Vec<u64>, from: &[u64]) {
    to.resize(to.len().max(from.len()), 0);
    to.iter_mut().zip(from).for_each(|(sum, count)| *sum += count);
}

fn mean(sum: f64, times: u64) -> String {
    if times == 0 { numbers::UNKNOWN.to_owned() } else { numbers::time(sum / times as f64) }
}

/// The power of two below which this part of the times lies; the longest of them where that is in the last
/// bucket, which has no upper end.
fn below(buckets: &[u64], part: f64, longest_seconds: f64) -> String {
    let all: u64 = buckets.iter().sum();
    let wanted = (all as f64 * part).ceil() as u64;
    let mut sum = 0;
    let found = buckets.iter().position(|count| {
        sum += count;
        sum >= wanted && sum > 0
    });
    let end = |bucket| upper_edge(bucket, buckets).unwrap_or(longest_seconds);
    found.map_or(numbers::UNKNOWN.to_owned(), |bucket| numbers::time(end(bucket)))
}

/// Where a bucket begins, in seconds.
fn edge(bucket: usize) -> f64 {
    2_f64.powi(bucket as i32) / 1e9
}

/// Where it ends; the last holds all that is longer.
fn upper_edge(bucket: usize, buckets: &[u64]) -> Option<f64> {
    (bucket + 1 < buckets.len()).then(|| edge(bucket + 1))
}

fn histogram(buckets: &[u64]) -> String {
    let most = buckets.iter().copied().max().unwrap_or(0).max(1);
    let first = buckets.iter().position(|count| *count > 0).unwrap_or(0);
    let last = buckets.iter().rposition(|count| *count > 0).unwrap_or(0);
    let mut text = String::new();
    for (bucket, count) in buckets.iter().enumerate().take(last + 1).skip(first) {
        let bar = (*count as f64 / most as f64 * BAR as f64).ceil() as usize;
        let end = upper_edge(bucket, buckets);
        let end = end.map_or("or more".to_owned(), |end| format!("to {:>8}", numbers::time(end)));
        let _ = writeln!(
            text,
            "  {:>8} {end:<11}  {count:>9}  {}",
            numbers::time(edge(bucket)),
            "#".repeat(bar)
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use bytepath_report::TraceThread;

    use super::*;

    #[test]
    fn the_power_of_two_below_which_a_part_lies_is_the_buckets_upper_end() {
        let mut buckets = vec![0; 32];
        buckets[10] = 98;
        buckets[20] = 2;
        assert_eq!(below(&buckets, 0.5, 0.002), "2.05 µs");
        assert_eq!(below(&buckets, 0.99, 0.002), "2.10 ms");
        assert_eq!(below(&[], 0.5, 0.0), "–");
    }

    #[test]
    fn the_last_bucket_has_no_upper_end() {
        let mut buckets = vec![0; 32];
        buckets[31] = 1;
        assert_eq!(below(&buckets, 0.99, 10.0), numbers::time(10.0));
        let text = histogram(&buckets);
        assert!(text.starts_with(&format!("  {:>8} or more ", numbers::time(edge(31)))), "{text}");
        buckets[30] = 1;
        let [first, last] = [0, 1].map(|line| histogram(&buckets).lines().nth(line).map(width));
        assert_eq!(first, last, "the counts stand below each other");
        fn width(line: &str) -> usize {
            line.chars().count()
        }
    }

    #[test]
    fn one_thread_that_still_is_in_a_call_is_one() {
        let row = |unfinished| TraceSyscall {
            name: "read".to_owned(),
            unfinished,
            unfinished_seconds: 2.0,
            ..TraceSyscall::default()
        };
        for (count, wanted) in [(1, "still in read: 1 thread, "), (2, "still in read: 2 threads, ")]
        {
            let text = syscalls(&[row(count)], Style::default());
            assert!(text.contains(wanted), "{text}");
        }
    }

    #[test]
    fn one_of_several_wakers_of_a_name_does_not_stand_for_the_others() {
        let by = |tid| TraceOffCpu {
            waker: Some(TraceThread { tid, name: "sleep".to_owned(), ..TraceThread::default() }),
            times: 1,
            ..TraceOffCpu::default()
        };
        assert!(off_cpu(&[by(7), by(7)]).contains("; woken by sleep (7)\n"));
        assert!(off_cpu(&[by(7), by(8), by(8)]).contains("; woken by sleep\n"));
    }

    #[test]
    fn sleeps_that_were_ended_in_different_places_are_told_apart() {
        let row = |place: &str, interrupt: Option<&str>| TraceOffCpu {
            waker: interrupt.is_none().then(TraceThread::default),
            interrupt: interrupt.map(str::to_owned),
            waker_stack: vec![place.to_owned()],
            times: 1,
            ..TraceOffCpu::default()
        };
        let text = off_cpu(&[row("pipe_write", None), row("futex_wake", None)]);
        assert!(text.contains("woken in: pipe_write\n"), "{text}");
        assert!(text.contains("woken in: futex_wake\n"), "{text}");
        let timers = [row("one", Some("timer")), row("other", Some("timer"))];
        assert_eq!(merged(&timers).len(), 1, "what an interrupt came by is not shown");
    }

    #[test]
    fn one_that_is_not_shown_is_one() {
        let files = |count| files(&vec![TraceFile::default(); count], &[], Style::default());
        assert!(files(1).contains("\n1 open file, 0 B read"), "{}", files(1));
        assert!(files(ROWS_SHOWN + 1).contains("\n1 more file; see --json\n26 open files, "));
        assert!(files(ROWS_SHOWN + 2).contains("\n2 more files; see --json\n"));
        let once = off_cpu(&[TraceOffCpu { times: 1, ..TraceOffCpu::default() }]);
        assert!(once.contains("(1 time)"), "{once}");
    }

    #[test]
    fn what_is_not_told_one_by_one_is_in_the_sums() {
        let untold = |subnet: Option<&str>| TraceUntold {
            subnet: subnet.map(str::to_owned),
            rows: 7,
            read_bytes: 1000,
            written_bytes: 20,
        };
        let file = TraceFile { read_bytes: 5, ..TraceFile::default() };
        let text = files(&[file], &[untold(None)], Style::default());
        assert!(text.ends_with("\n8 open files, 1005 B read, 20 B written\n"), "{text}");
        let row = |number: u64| TraceConnection {
            subnet: format!("10.0.{number}.0/24"),
            sent_bytes: number,
            ..TraceConnection::default()
        };
        let rows: Vec<_> = (0..=ROWS_SHOWN as u64).map(row).collect();
        let text = connections(&rows, &[untold(Some("10.0.3.0/24"))], Style::default());
        let nets = text.split("network").nth(1).expect("a table of them");
        let nets: Vec<Vec<&str>> =
            nets.lines().skip(2).map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(nets[0], ["10.0.3.0/24", "8", "23", "1000"]);
        assert_eq!(nets[1], ["10.0.25.0/24", "1", "25", "0"], "the largest first");
    }

    #[test]
    fn names_command_no_terminal() {
        let evil = || "a\u{1b}]0;x\u{7}".to_owned();
        let thread = || TraceThread { name: evil(), ..Default::default() };
        let sleep = TraceOffCpu {
            thread: thread(),
            waker: Some(thread()),
            user_stack: vec![evil()],
            ..TraceOffCpu::default()
        };
        for found in [
            TraceFound::OffCpu(vec![sleep]),
            TraceFound::Wakeups(vec![TraceWakeup { waker: Some(thread()), ..Default::default() }]),
            TraceFound::FileLife(vec![TraceFile { path: evil(), ..Default::default() }]),
            TraceFound::Tcp(vec![TraceConnection { thread: thread(), ..Default::default() }]),
        ] {
            let traced = Traced {
                schema: Default::default(),
                bytepath: String::new(),
                what: evil(),
                seconds: 1.0,
                attached: Vec::new(),
                lost: Vec::new(),
                untold: Vec::new(),
                missing: Vec::new(),
                found,
            };
            let text = text(&traced, Style::default());
            assert!(text.matches("a\u{fffd}]0;x\u{fffd}").count() >= 2, "{text:?}");
            assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
        }
    }

    #[test]
    fn an_interrupt_that_woke_is_told_in_the_place_of_a_thread() {
        let wakeup = TraceWakeup { interrupt: Some("timer".to_owned()), ..Default::default() };
        assert!(wakeups(&[wakeup], Style::default()).contains("(interrupt: timer)"));
    }

    #[test]
    fn a_histogram_has_no_empty_ends() {
        let mut buckets = vec![0; 32];
        (buckets[9], buckets[11]) = (4, 1);
        let text = histogram(&buckets);
        assert_eq!(text.lines().count(), 3);
        assert!(text.lines().next().is_some_and(|line| line.ends_with(&"#".repeat(BAR))));
    }

    #[test]
    fn on_a_narrow_terminal_figures_go_from_the_right_and_names_wrap() {
        let row = TraceConnection {
            local: "[2001:db8:0:1:2:3:4:5]:34567".to_owned(),
            remote: "[2001:db8:0:1:2:3:4:6]:443".to_owned(),
            sent_bytes: 12_345_678_901,
            ..TraceConnection::default()
        };
        let full = connections(std::slice::from_ref(&row), &[], Style::default());
        assert!(full.contains("round trip") && !full.contains("too narrow"), "{full}");
        for width in 50..100 {
            let style = Style { width: Some(width), ..Style::default() };
            let text = connections(std::slice::from_ref(&row), &[], style);
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap_or(0);
            assert!(widest <= usize::from(width.max(16 + 2 + 16 + 2 + 16)), "{width}:\n{text}");
            let has_last = text.lines().next().is_some_and(|head| head.contains("round trip"));
            assert_eq!(has_last, !text.contains("too narrow to show: "), "{width}:\n{text}");
        }
    }
}
