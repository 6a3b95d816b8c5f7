//! `bytepath pages PID`, or `-- COMMAND`: which addresses lie in which physical pages, and what could
//! be in huge ones and is not.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode};
use std::time::Duration;

use anyhow::{Context, bail};
use bytepath::machine::Machine;
use bytepath_lab::descendants;
use bytepath_lab::page_map::{Frames, Lookup, Mapping, Settings, advice};
use bytepath_report::numbers;
use bytepath_report::table::{self, Fitted};
use clap::Args;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use crate::output::{self, Output};
use crate::run::{Signals, is_passed_on};
use crate::said::{self, say};
use crate::streams::{stderr, stdout};
use crate::style::style;
use crate::sys::spawn;

/// How often the processes of a command are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Mappings with less than this there are told together, unless all are wanted.
const SMALL_BYTES: u64 = 1 << 20;

/// Show what pages a process has: their sizes, where they lie, and what could be huge and is not
///
/// Of a command, each process is shown as it was when it had most memory; that goes to standard
/// error, as the command's own output goes to standard output.
#[derive(Args)]
pub(crate) struct Options {
    /// The process
    #[arg(value_name = "PID", required_unless_present = "command", conflicts_with = "command")]
    pid: Option<u32>,
    /// A command to run and look at, with the processes that it starts
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<std::ffi::OsString>,
    /// The processes that it started too
    #[arg(long)]
    children: bool,
    /// Every mapping, and not only those that have 1 MiB or more there
    #[arg(long)]
    all: bool,
    /// Also which addresses lie in which physical pages (as root)
    #[arg(long)]
    each: bool,
    /// Write everything as JSON to a file; - for standard output, which then holds nothing else, but for
    /// what a command writes there before
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

/// A process, and what was seen of its memory.
#[derive(Debug, Serialize)]
struct Seen {
    pid: u32,
    command: String,
    resident_bytes: u64,
    huge_bytes: u64,
    swapped_bytes: u64,
    mappings: Vec<SeenMapping>,
    /// Why physical pages are not told, where they are not.
    hidden: Option<String>,
}

#[derive(Debug, Serialize)]
struct SeenMapping {
    #[serde(flatten)]
    mapping: Mapping,
    frames: Option<Frames>,
    /// What could be huge and is not.
    advice: Option<String>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let json = options.json.as_deref().map(Output::open).transpose()?;
    let alone = options.json.as_deref().is_some_and(output::is_stdout);
    let (seen, code) = match options.pid {
        Some(pid) => (of_process(pid, options)?, ExitCode::SUCCESS),
        None => of_command(&options.command)?,
    };
    if let Some(json) = json {
        let document = serde_json::json!({"schema": "bytepath.pages/1", "processes": seen});
        json.write(bytepath_report::json(&document)?.as_bytes())?;
    }
    if !alone {
        let text = told(&seen, options);
        said::printed(match options.pid {
            Some(_) => stdout().write_all(text.as_bytes()).context("standard output"),
            None => stderr().write_all(text.as_bytes()).context("standard error"),
        })?;
    }
    Ok(code)
}

fn of_process(pid: u32, options: &Options) -> anyhow::Result<Vec<Seen>> {
    let mut seen = vec![look(pid).with_context(|| why_not(pid))?];
    if !has_memory(pid) {
        bail!(
            "process {pid} has no memory of its own: it is a thread of the kernel's, or has ended \
             and waits for its parent"
        );
    }
    for pid in below(pid).filter(|_| options.children) {
        match look(pid) {
            Ok(below) => seen.push(below),
            Err(error) if has_gone(pid, &error) => {}
            Err(error) => say(format_args!("bytepath: {}: {error:#}", why_not(pid))),
        }
    }
    Ok(seen)
}

/// Why it cannot be looked at.
fn why_not(pid: u32) -> String {
    match std::path::Path::new(&format!("/proc/{pid}")).exists() {
        true if rustix::process::geteuid().is_root() => format!(
            "cannot look at process {pid}: root takes CAP_SYS_PTRACE over it, which a container \
             may lack, or a user namespace above this one refuse"
        ),
        true => format!(
            "cannot look at process {pid}; only its user and root may, and root alone where its \
             user may not read the program"
        ),
        false if !std::path::Path::new("/proc/self").exists() => {
            format!("cannot look at process {pid}: /proc is not mounted")
        }
        false => format!("there is no process {pid}"),
    }
}

/// Whether it could not be looked at because it has ended.
fn has_gone(pid: u32, error: &anyhow::Error) -> bool {
    let errno = error.downcast_ref().and_then(Errno::from_io_error);
    matches!(errno, Some(Errno::NOENT | Errno::SRCH)) || !has_memory(pid)
}

/// Threads of the kernel's and what has ended have no memory.
fn has_memory(pid: u32) -> bool {
    // In pages; all that is mapped comes first.
    let sizes = std::fs::read_to_string(format!("/proc/{pid}/statm")).unwrap_or_default();
    sizes.split_whitespace().next().is_some_and(|pages| pages != "0")
}

/// Runs a command, and looks at it and what it starts until its end.
fn of_command(words: &[std::ffi::OsString]) -> anyhow::Result<(Vec<Seen>, ExitCode)> {
    let Some((program, words)) = words.split_first() else { bail!("no command is given") };
    std::fs::File::open("/proc/self/smaps")
        .context("cannot look at pages: /proc/self/smaps cannot be read")?;
    // What is seen until then is shown, whatever ends the command.
    let mut signals = Signals::caught().context("cannot catch signals")?;
    let mut child =
        match spawn::spawn_as_we_were(Command::new(program).args(words), &[0, 1, 2], false) {
            Ok(child) => child,
            Err(error) => {
                let word = crate::errno::word_of(&error);
                say(format_args!("bytepath: cannot start {}: {word}", program.display()));
                let is_missing = error.kind() == std::io::ErrorKind::NotFound;
                return Ok((Vec::new(), ExitCode::from(if is_missing { 127 } else { 126 })));
            }
        };
    let mut most: BTreeMap<u32, Seen> = BTreeMap::new();
    let mut refused: BTreeMap<u32, String> = BTreeMap::new();
    let status = loop {
        for signal in signals.came().into_iter().filter(|signal| is_passed_on(*signal)) {
            if let Some(signal) = Signal::from_named_raw(signal) {
                // It may have ended just now.
                let _ = kill_process(Pid::from_child(&child), signal);
            }
        }
        let ended = waited(&mut child, most.is_empty() && refused.is_empty())?;
        if let Some(status) = ended {
            break status;
        }
        for pid in std::iter::once(child.id()).chain(below(child.id())) {
            let seen = match look(pid) {
                Ok(seen) if has_memory(pid) => seen,
                Err(error) if !has_gone(pid, &error) => {
                    refused.insert(pid, format!("{}: {error:#}", why_not(pid)));
                    continue;
                }
                Ok(_) | Err(_) => continue,
            };
            refused.remove(&pid);
            let more = |known: &Seen| known.resident_bytes < seen.resident_bytes;
            if most.get(&pid).is_none_or(more) {
                most.insert(pid, seen);
            }
        }
    };
    for why in refused.values() {
        say(format_args!("bytepath: {why}"));
    }
    if most.is_empty() && refused.is_empty() {
        say(format_args!(
            "bytepath: {} ended before it could be looked at; nothing is known of its pages",
            program.display()
        ));
    }
    let code = std::os::unix::process::ExitStatusExt::signal(&status).map_or(
        status.code().unwrap_or(1),
        // As shells tell it.
        |signal| 128 + signal,
    );
    Ok((most.into_values().collect(), ExitCode::from(u8::try_from(code).unwrap_or(1))))
}

/// Waits until the next look, or the end. The first looks come soon, so that short commands are seen.
fn waited(child: &mut Child, first: bool) -> anyhow::Result<Option<std::process::ExitStatus>> {
    let ended = child.try_wait()?;
    if ended.is_none() {
        std::thread::sleep(if first { LOOK_EVERY / 50 } else { LOOK_EVERY });
    }
    Ok(ended)
}

/// The processes that one started, and those that they started.
fn below(pid: u32) -> impl Iterator<Item = u32> {
    let root = i32::try_from(pid).ok().and_then(Pid::from_raw);
    root.into_iter().flat_map(descendants::below).filter_map(|pid| u32::try_from(pid).ok())
}

fn look(pid: u32) -> anyhow::Result<Seen> {
    let name = pid.to_string();
    let settings = Settings::of(Machine::this().memory());
    let mappings = Mapping::all_of(&name)?;
    let (lookup, mut hidden) = match Lookup::of(&name) {
        Ok(lookup) => (Some(lookup), None),
        Err(why) => (None, Some(why)),
    };
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let words = words.split(|byte| *byte == 0).filter(|word| !word.is_empty());
    let words: Vec<_> = words.map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let mut seen = Vec::new();
    for mapping in mappings {
        let frames = match lookup.as_ref().map(|lookup| lookup.frames(&mapping)) {
            Some(Ok(frames)) => Some(frames),
            Some(Err(why)) => {
                hidden = Some(why);
                None
            }
            None => None,
        };
        let advice = advice(&mapping, &settings);
        seen.push(SeenMapping { mapping, frames, advice });
    }
    let sum = |of: fn(&Mapping) -> u64| seen.iter().map(|seen| of(&seen.mapping)).sum();
    Ok(Seen {
        pid,
        command: words.join(" "),
        resident_bytes: sum(|mapping| mapping.resident_bytes),
        huge_bytes: sum(Mapping::huge_bytes),
        swapped_bytes: sum(|mapping| mapping.swapped_bytes),
        hidden,
        mappings: seen,
    })
}

fn columns() -> [Fitted; 7] {
    [
        Fitted::new("addresses"),
        Fitted::new("may").importance(2),
        Fitted::new("there").importance(5),
        Fitted::new("huge").importance(4),
        Fitted::new("pages of").importance(1).wraps_from(16),
        Fitted::new("swapped").importance(3),
        Fitted::new("what").wraps_from(12),
    ]
}

fn told(all: &[Seen], options: &Options) -> String {
    let mut text = String::new();
    for seen in all {
        text += &table::paragraph(
            &format!(
                "process {}: {} there, {} of it in huge pages, {} swapped ({})",
                seen.pid,
                numbers::bytes(seen.resident_bytes),
                numbers::bytes(seen.huge_bytes),
                numbers::bytes(seen.swapped_bytes),
                shortened(&seen.command)
            ),
            style(),
        );
        let is_shown = |seen: &&SeenMapping| {
            options.all || seen.mapping.resident_bytes + seen.mapping.swapped_bytes >= SMALL_BYTES
        };
        let (shown, small): (Vec<_>, Vec<_>) = seen.mappings.iter().partition(is_shown);
        if !shown.is_empty() {
            let rows: Vec<_> = shown.iter().map(|seen| row(seen)).collect();
            text += &format!("\n{}\n", table::listing(&columns(), &rows, style()));
        }
        if !small.is_empty() {
            let bytes = small.iter().map(|seen| seen.mapping.resident_bytes).sum();
            let bytes = numbers::bytes(bytes);
            text += &format!(
                "{} smaller mappings have {bytes} there (--all shows them)\n",
                small.len()
            );
        }
        for seen in &shown {
            if let Some(advice) = &seen.advice {
                let what = what(&seen.mapping);
                let start = seen.mapping.range.start;
                text += &table::paragraph(&format!("{start:x} {what}: {advice}"), style());
            }
            if options.each {
                text += &each(seen);
            }
        }
        if let Some(hidden) = &seen.hidden {
            text += &table::paragraph(hidden, style());
        }
        text.push('\n');
    }
    text
}

fn shortened(command: &str) -> String {
    match command.char_indices().nth(60) {
        Some((end, _)) => format!("{}…", &command[..end]),
        None => command.to_owned(),
    }
}

fn what(mapping: &Mapping) -> &str {
    if mapping.name.is_empty() { "memory" } else { &mapping.name }
}

fn row(seen: &SeenMapping) -> Vec<String> {
    let mapping = &seen.mapping;
    let sizes = match &seen.frames {
        Some(frames) => {
            let mut sizes: Vec<_> = frames.bytes_by_page.iter().collect();
            // The kinds of pages that hold most.
            sizes.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
            let size = |(page, bytes): &(&u64, &u64)| {
                format!("{} in {}", numbers::bytes(**bytes), numbers::bytes(**page))
            };
            sizes.iter().take(3).map(size).collect::<Vec<_>>().join(", ")
        }
        None => numbers::UNKNOWN.to_owned(),
    };
    let none_or = |bytes: u64| if bytes == 0 { String::new() } else { numbers::bytes(bytes) };
    vec![
        format!("{:x}-{:x}", mapping.range.start, mapping.range.end),
        mapping.permissions.clone(),
        numbers::bytes(mapping.resident_bytes),
        none_or(mapping.huge_bytes()),
        sizes,
        none_or(mapping.swapped_bytes),
        what(mapping).to_owned(),
    ]
}

/// Which addresses lie in which physical pages.
fn each(seen: &SeenMapping) -> String {
    let Some(frames) = &seen.frames else { return String::new() };
    let mut text = String::new();
    for run in &frames.runs {
        let bytes = numbers::bytes(run.range.end - run.range.start);
        let page = numbers::bytes(run.page_bytes);
        text += &format!(
            "  {:x}-{:x}  frame {:x}  {bytes} in {page} ({})\n",
            run.range.start, run.range.end, run.frame, run.kind
        );
    }
    if frames.runs_left_out > 0 {
        text += &format!("  and {} more\n", frames.runs_left_out);
    }
    text
}
