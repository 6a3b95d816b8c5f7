//! `bytepath bench swap`: what takes the pages that do not fit.

use std::path::PathBuf;
use std::time::Duration;

use bytepath_lab::experiments::swap::{self, JOBS, Job};
use bytepath_lab::swap::contents::{Contents, KINDS};
use bytepath_lab::swap::places;
use bytepath_lab::swap::turn::Turn;
use bytepath_report::numbers;
use clap::Args;

use super::choosing::{Listing, chosen_by_name, listed};
use super::measuring::{BLOCKS, Measuring, Sampling, TIMES, Times, telling, telling_with};
use super::results::show;
use crate::hidden::this_program;
use crate::measured::measured;
use crate::said::say;
use crate::usage::wrong_usage;
use crate::{left, touch, values};

/// What takes the pages that do not fit into memory? A disk, compressed memory
#[derive(Args)]
#[command(
    mut_args(telling(BLOCKS, [USUAL, QUICK])),
    mut_args(telling_with("with --work redis or mariadb ", TIMES, [SERVICE_USUAL, SERVICE_QUICK]))
)]
pub(super) struct Swap {
    /// Only these arms, by name or pattern: swap-file, 'zram-*', none
    #[arg(long, value_name = "GLOB", value_delimiter = ',')]
    arms: Vec<String>,
    #[command(flatten)]
    listing: Listing,
    /// What is short of memory: touch (a process that writes and reads it), redis, mariadb
    #[arg(long, value_name = "WORK", value_parser = job, default_value = "touch")]
    work: Job,
    /// How much memory the process may have; 50M unless given, of --quick 16M
    #[arg(long, value_name = "SIZE", value_parser = limit)]
    limit: Option<u64>,
    /// How much it writes; 300M unless given, of --quick 48M
    #[arg(long, value_name = "SIZE", value_parser = touch::whole_pieces)]
    size: Option<u64>,
    /// How large the swap area is; 500M unless given, of --quick 80M
    #[arg(long, value_name = "SIZE", value_parser = touch::whole_pieces)]
    area: Option<u64>,
    /// What the pages hold: integers (unless given), text, random
    #[arg(long, value_name = "KIND", value_parser = touch::contents)]
    contents: Option<Contents>,
    /// How many pages are read in random order; 8192 unless given, of --quick 1024
    #[arg(long, value_name = "N")]
    random_pages: Option<u64>,
    /// Bytes that the disk of swap-loop reads and writes in a second; 12.2M is 12,200,000
    #[arg(long, value_name = "RATE", value_parser = rate, default_value = "12.2M")]
    disk_rate: u64,
    /// Make swap files in this directory, which has to be on a disk; here, or else in /var/tmp, unless
    /// given
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    #[command(flatten)]
    times: Times,
    #[command(flatten)]
    measuring: Measuring,
}

fn job(name: &str) -> Result<Job, String> {
    JOBS.iter()
        .find(|(known, _)| *known == name)
        .map(|(_, job)| *job)
        .ok_or_else(|| values::unknown("work", name, JOBS.iter().map(|(name, _)| *name)))
}

/// Under this no process starts.
const LIMIT_BYTES_MIN: u64 = 8 << 20;

fn limit(text: &str) -> Result<u64, String> {
    match values::size(text)? {
        bytes if bytes < LIMIT_BYTES_MIN => Err("less than 8M starts no process".into()),
        bytes => Ok(bytes),
    }
}

/// Makers of disks count in powers of ten, and so does the published rate.
fn rate(text: &str) -> Result<u64, String> {
    let number = text.strip_suffix(['M', 'm']);
    match values::size(&number.map_or_else(|| text.to_owned(), |number| format!("{number}MB")))? {
        bytes if bytes < 100_000 => Err("a disk of less than 100K a second takes hours".into()),
        bytes => Ok(bytes),
    }
}

/// The slow disk alone takes most of 5 minutes.
const USUAL: Sampling = Sampling { blocks: 5, time: Duration::ZERO, warm_up: Duration::ZERO };
const QUICK: Sampling = Sampling { blocks: 3, ..USUAL };

/// Filling a server takes longer than the sample.
const SERVICE_USUAL: Sampling =
    Sampling { blocks: 5, time: Duration::from_secs(5), warm_up: Duration::from_secs(1) };
const SERVICE_QUICK: Sampling =
    Sampling { blocks: 3, time: Duration::from_secs(1), warm_up: Duration::ZERO };

pub(super) fn run(options: &Swap) -> anyhow::Result<()> {
    options.check()?;
    let program = this_program()?;
    let bytes = options.or(options.size, swap::SIZE_BYTES, 48 << 20);
    let directory = places::fit_one(options.dir.as_deref());
    let mut settings = match options.work {
        Job::Touch => options.measuring.settings_between(USUAL, QUICK, Some(bytes)),
        Job::Redis | Job::Mariadb => {
            let settings = options.measuring.settings_between(SERVICE_USUAL, SERVICE_QUICK, None);
            options.times.in_place_of(settings)
        }
    };
    let setup = swap::Setup {
        program: &program,
        bytes,
        limit_bytes: options.or(options.limit, swap::LIMIT_BYTES, 16 << 20),
        area_bytes: options.or(options.area, swap::AREA_BYTES, 80 << 20),
        disk_rate: options.disk_rate,
        contents: options.contents.unwrap_or(Contents::Integers),
        random_pages: options.or(options.random_pages, 8192, 1024),
        seed: settings.seed,
        directory: directory.as_deref().map_err(String::as_str),
    };
    options.fits(&setup)?;
    let arms = chosen_by_name(swap::arms(options.work, &setup), &options.arms)?;
    if options.listing.list {
        return listed(&arms);
    }
    let outputs = options.measuring.outputs(&arms)?;
    // What another run makes is its own until that run has ended.
    let turn = Turn::wait(|| {
        say(format_args!(
            "bytepath: another bench swap is running on this machine; this one waits until it ends"
        ))
    })?;
    // That one may have been killed.
    left::undo();
    let (work, _) = JOBS.iter().find(|(_, job)| *job == options.work).expect("it is one of them");
    let (contents, _) = KINDS.iter().find(|(_, kind)| *kind == setup.contents).expect("likewise");
    settings.others.insert("work".into(), (*work).into());
    if options.work != Job::Mariadb {
        settings.others.insert("contents".into(), (*contents).into());
    }
    settings.others.insert("limit".into(), setup.limit_bytes.into());
    settings.others.insert("area".into(), setup.area_bytes.into());
    settings.others.insert("size".into(), bytes.into());
    settings.others.insert("disk_rate".into(), options.disk_rate.into());
    if options.work == Job::Touch {
        settings.others.insert("random_pages".into(), setup.random_pages.into());
    }
    if let Ok(directory) = &directory {
        settings.others.insert("directory".into(), directory.display().to_string().into());
    }
    let measured = measured(swap::DESCRIPTION.recorded(), arms, swap::REFERENCE, &settings);
    // What would not go is tried once more, and told also where the run was interrupted.
    left::undo();
    drop(turn);
    let mut record = measured?;
    record.notes.extend(swap::beside(&record));
    show(&record, swap::shows(&record).as_deref(), outputs)
}

impl Swap {
    /// What cannot be, or would have no effect.
    fn check(&self) -> anyhow::Result<()> {
        if self.work == Job::Touch && self.times.are_given() {
            return Err(wrong_usage(
                "memory is touched as a whole, so --time and --warm-up have no effect; see --size",
            ));
        }
        if self.work == Job::Mariadb && self.contents.is_some() {
            return Err(wrong_usage(
                "--contents has no effect on --work mariadb, whose rows sysbench makes",
            ));
        }
        if self.work != Job::Touch && self.random_pages.is_some() {
            return Err(wrong_usage(
                "--random-pages has no effect on a server, which is asked for as long as --time says",
            ));
        }
        Ok(())
    }

    fn or(&self, given: Option<u64>, usual: u64, quick: u64) -> u64 {
        given.unwrap_or(if self.measuring.quick { quick } else { usual })
    }

    /// Whether the pages have a place.
    fn fits(&self, setup: &swap::Setup<'_>) -> anyhow::Result<()> {
        // A server takes more than what it holds.
        let memory_bytes = bytepath::machine::Machine::this().memory().total_bytes;
        let [size, limit, area, memory] =
            [setup.bytes, setup.limit_bytes, setup.area_bytes, memory_bytes].map(numbers::bytes);
        if setup.bytes <= setup.limit_bytes {
            return Err(wrong_usage(format!(
                "--size {size} fits into --limit {limit}, so nothing is swapped: write more than the limit"
            )));
        }
        if setup.bytes > setup.limit_bytes.saturating_add(setup.area_bytes) {
            return Err(wrong_usage(format!(
                "--size {size} is more than --limit {limit} and --area {area} hold together"
            )));
        }
        if setup.bytes > memory_bytes {
            return Err(wrong_usage(format!(
                "--size {size} is more than this machine's memory ({memory}), and the arm none \
                 has no other"
            )));
        }
        Ok(())
    }
}
