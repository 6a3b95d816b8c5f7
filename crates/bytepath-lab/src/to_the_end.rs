//! A program that is run to its end, with all that it starts: what it wrote, what it said last, and
//! whether it failed.

use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

use bytepath_report::Costs;

use crate::descendants::end_with_all;
use crate::ends::Usage;
use crate::pair_work::{unnamed, waited};
use crate::pipe_work::spawn_on;

/// So much of what a command said last, or first, is told.
const LAST_WORDS_BYTES: u64 = 2000;

/// Which exit codes are no failure.
#[derive(Clone, Debug, PartialEq)]
pub enum Tolerated {
    /// 0 alone.
    Success,
    /// Every one, and every signal.
    All,
    /// 0 and these.
    These(Vec<i32>),
}

impl Tolerated {
    fn takes(&self, code: i32) -> bool {
        match self {
            Tolerated::Success => code == 0,
            Tolerated::All => true,
            Tolerated::These(codes) => code == 0 || codes.contains(&code),
        }
    }

    /// Why a program that ended so counts as failed, if it does.
    pub(crate) fn failure(&self, ending: Ending) -> Option<String> {
        match ending {
            Ending::Signal(_) if *self == Tolerated::All => None,
            Ending::Signal(signal) => Some(format!(
                "it was ended by {}; --ignore-failure without codes measures it all the same",
                signal_name(signal)
            )),
            Ending::Code(code) if self.takes(code) => None,
            Ending::Code(code) => Some(match code {
                127 => "it ended with 127: a command was not found".to_owned(),
                126 => "it ended with 126: a file is there that is not executable".to_owned(),
                129..=192 => format!(
                    "it ended with {code}: ended by {}; {}",
                    signal_name(code - 128),
                    self.taking(code)
                ),
                code => format!("it ended with {code}; {}", self.taking(code)),
            }),
        }
    }

    /// What to write so that this code is no failure either.
    fn taking(&self, code: i32) -> String {
        let codes = match self {
            Tolerated::These(codes) => {
                let all = codes.iter().chain([&code]).map(i32::to_string);
                format!("={}", all.collect::<Vec<_>>().join(","))
            }
            Tolerated::Success | Tolerated::All => String::new(),
        };
        format!("--ignore-failure{codes} measures it all the same")
    }
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Ending {
    /// By itself, with this code.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

impl Ending {
    /// The code by which shells tell it.
    pub(crate) fn code(self) -> i32 {
        match self {
            Ending::Code(code) => code,
            Ending::Signal(signal) => 128 + signal,
        }
    }
}

/// A program and all that it starts; ended together if it is not waited for to its end.
struct Whole(Option<Child>);

impl Drop for Whole {
    fn drop(&mut self) {
        end_with_all(&mut self.0);
    }
}

/// Runs a program and all that it starts to its end, within `patience`.
pub(crate) fn to_the_end(command: &mut Command, patience: Duration) -> Result<ExitStatus, String> {
    let mut whole = Whole(Some(spawn_on(command, None)?));
    waited(whole.0.as_mut().expect("it was just put there"), patience)
}

/// What one run of a program cost, by what it and all that it started have used.
pub(crate) fn costs_of_run(usage: Usage) -> Costs {
    Costs {
        cpu_user_s_per_run: Some(usage.user_s),
        cpu_system_s_per_run: Some(usage.system_s),
        context_switches_per_run: Some(usage.switches() as f64),
        page_faults_per_run: Some(usage.faults as f64),
        ..Costs::default()
    }
}

/// How many bytes a file has, and their hash.
pub(crate) fn hashed(output: &mut File) -> std::io::Result<(u64, u64)> {
    let (mut hasher, mut bytes) = (DefaultHasher::new(), 0);
    let mut piece = vec![0; 1 << 20];
    output.rewind()?;
    loop {
        let count = output.read(&mut piece)?;
        if count == 0 {
            return Ok((bytes, hasher.finish()));
        }
        hasher.write(&piece[..count]);
        bytes += count as u64;
    }
}

/// A file without a name, for what is written.
pub(crate) fn file_in(directory: &Path) -> Result<File, String> {
    unnamed(directory)
        .map_err(|error| format!("cannot make a file in {}: {error}", directory.display()))
}

/// How lines begin that only say where to read on.
const ADVICE: &[&str] = &["Try '", "Try `", "For more information", "Usage:", "usage:", "tip:"];

/// How many of its last lines are told of a program that failed: the cause is seldom in the very last.
const LAST_LINES: usize = 3;

/// And how long they may be together, where they are more than one.
const LAST_LINES_BYTES: usize = 300;

/// The last lines that a program said, but for advice, as the end of a sentence.
pub(crate) fn said(errors: &mut File) -> String {
    let mut text = Vec::new();
    let length = errors.seek(SeekFrom::End(0)).unwrap_or(0);
    let from = length.saturating_sub(LAST_WORDS_BYTES);
    let read = errors.seek(SeekFrom::Start(from)).and_then(|_| errors.read_to_end(&mut text));
    let text = String::from_utf8_lossy(&text);
    let lines = || text.lines().map(str::trim).filter(|line| !line.is_empty());
    let is_advice = |line: &&str| ADVICE.iter().any(|advice| line.starts_with(advice));
    let mut bytes = 0;
    let mut last: Vec<&str> = lines()
        .rev()
        .filter(|line| !is_advice(line))
        .take(LAST_LINES)
        .take_while(|line| {
            let is_first = bytes == 0;
            bytes += line.len();
            is_first || bytes <= LAST_LINES_BYTES
        })
        .collect();
    last.reverse();
    match (read, lines().next_back()) {
        (Ok(_), Some(advice)) if last.is_empty() => format!("; it said: {advice}"),
        (Ok(_), Some(_)) => format!("; it said: {}", last.join(" / ")),
        _ => String::new(),
    }
}

/// The first line that a program wrote, cut where it is long.
pub(crate) fn first_line(errors: &mut File) -> Option<String> {
    let mut text = Vec::new();
    errors.rewind().ok()?;
    errors.take(LAST_WORDS_BYTES).read_to_end(&mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    let line = text.split(['\n', '\r']).map(str::trim).find(|line| !line.is_empty())?;
    Some(line.to_owned())
}

fn signal_name(number: i32) -> String {
    match nix::sys::signal::Signal::try_from(number) {
        Ok(signal) => signal.as_str().to_owned(),
        Err(_) => format!("signal {number}"),
    }
}
