//! `bytepath tune`: measures this machine once, so that every mover can choose by it.

pub(crate) mod table;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use bytepath::Profile;
use bytepath::machine::Machine;
use bytepath::profile::{End, Measured, Pair, tuning};
use bytepath_lab::lab::{Blocks, LabError};
use bytepath_lab::noise::Watch;
use bytepath_lab::schedule::fresh_seed;
use bytepath_lab::tune::{self, Budget, Effort, FirstSite, PairRun, Regret, Rounds, Site};
use bytepath_report::{Record, numbers};
use clap::Args;

use crate::bench::directory;
use crate::hidden::this_program;
use crate::measured::whole;
use crate::output::{self, Output};
use crate::planning::{named_profile, no_folder};
use crate::said::{self, say};
use crate::streams::stdout;
use crate::usage::wrong_usage;
use crate::{interrupt, left, planning, values};

/// A check has as many blocks as give intervals that can tell, and samples that go on long enough for
/// the planner to look at the profile.
const CHECK: Effort = Effort { rounds: Rounds::Exactly(10), bytes: 256 << 20, ..Effort::DEFAULT };

/// The fewest that give an interval.
const CHECK_BLOCKS_MIN: u32 = 3;

/// Measure this machine once (30 s), so that every mover can choose by it
///
/// What is measured holds for this kernel release, processor, hypervisor and set of allowed CPUs: after
/// a kernel update, or under taskset, plans go by rules again until it is measured once more; --show
/// ends with 1 and says why.
#[derive(Args)]
pub(crate) struct Options {
    /// Measure in 8 s, roughly
    #[arg(long)]
    quick: bool,
    /// Measure files in this directory, and so on its file system; may be given more than once
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: Vec<PathBuf>,
    /// Rounds in which every choice is measured once; with --check at least 3
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    blocks: Option<u32>,
    /// Bytes moved by each sample of a pair, or more where the source has no end and they would
    /// take less than 20 ms; with 128M also files that are large enough for several threads are measured,
    /// which takes 256 MiB there and, where that is no disk, of memory
    #[arg(long, value_name = "SIZE", value_parser = values::size)]
    bytes: Option<u64>,
    /// Measure this route too, wherever it suits the ends; may be given more than once
    #[arg(long, value_name = "NAME", value_parser = planning::route())]
    route: Vec<&'static str>,
    /// The profile; bytepath/profile.json in $XDG_STATE_HOME or ~/.local/state unless given
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Also write the profile here; - is standard output, which then holds nothing else
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Show the profile that is there, without measuring
    #[arg(long, conflicts_with_all = ["quick", "check", "blocks", "bytes", "dir", "route"])]
    show: bool,
    /// Run the planner's choice beside every fixed one, and fail if it is more than 5% behind
    #[arg(long, conflicts_with_all = ["quick", "json"])]
    check: bool,
}

impl Options {
    fn effort(&self, usual: Effort) -> Effort {
        Effort {
            rounds: self.blocks.map_or(usual.rounds, Rounds::Exactly),
            bytes: self.bytes.unwrap_or(usual.bytes),
            // Whoever asks for few rounds has not so many before them.
            looks: self.blocks.map_or(usual.looks, |blocks| usual.looks.min(blocks)),
            ..usual
        }
    }
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let path = match &options.profile {
        Some(path) => path.clone(),
        None => Profile::default_path().ok_or_else(|| {
            let why = no_folder("XDG_STATE_HOME");
            wrong_usage(format!("{why}, so nowhere to keep it; use --profile FILE"))
        })?,
    };
    if options.show {
        return show(&path, options);
    }
    if let (true, Some(blocks @ ..CHECK_BLOCKS_MIN)) = (options.check, options.blocks) {
        return Err(wrong_usage(format!(
            "--check --blocks {blocks}: fewer than {CHECK_BLOCKS_MIN} blocks give no interval to \
             judge by"
        )));
    }
    left::undo();
    interrupt::ended(|| match options.check {
        true => check(&path, options),
        false => measure(&path, options),
    })
}

fn show(path: &Path, options: &Options) -> anyhow::Result<()> {
    let json = options.json.as_deref().map(Output::open).transpose()?;
    let profile = Profile::read(path)?;
    tell(&profile, options, json)?;
    remark_on_places(&profile, path);
    Ok(profile.check_machine(Machine::this()).map_err(|error| error.of(path))?)
}

/// Tells of places that are no longer as they were measured. The other figures are as good as ever.
fn remark_on_places(profile: &Profile, path: &Path) {
    let again = tuning(Some(path));
    for changed in profile.changed_places() {
        say(format_args!("{changed}: its figures go when {again} runs again"));
    }
}

/// The table, unless standard output is to hold the profile alone.
fn tell(profile: &Profile, options: &Options, json: Option<Output>) -> anyhow::Result<()> {
    let alone = options.json.as_deref().is_some_and(output::is_stdout);
    let kept = options.profile.as_deref();
    let written = json.map_or(Ok(()), |json| json.write(text(profile)?.as_bytes()));
    if !alone {
        let printed = table::print(profile, kept).context("standard output");
        return said::also(written, said::printed(printed));
    }
    for doubt in profile.doubt().into_iter().chain(profile.doubts_of_earlier(kept)) {
        say(format_args!("{doubt}"));
    }
    written
}

/// The text that is kept, without spaces: movers read it before they move a byte.
fn kept(profile: &Profile) -> anyhow::Result<String> {
    Ok(serde_json::to_string(profile)? + "\n")
}

/// The text for people.
fn text(profile: &Profile) -> anyhow::Result<String> {
    Ok(bytepath_report::json(profile)?)
}

fn measure(path: &Path, options: &Options) -> anyhow::Result<()> {
    if output::is_stdout(path) {
        return Err(wrong_usage(
            "no profile is kept on standard output; --json - writes it there too",
        ));
    }
    // Where it goes is looked at first, so that nobody measures in vain.
    make_folder(path)?;
    let output = Output::open(path)?;
    let json = options.json.as_deref().map(Output::open).transpose()?;
    let effort = options.effort(if options.quick { Effort::QUICK } else { Effort::DEFAULT });
    let sites = sites(&options.dir, effort)?;
    let mut profile = measured(&sites, effort, &options.route)?;
    profile.keep_other_places(Profile::read(path).ok());
    let kept = output.write(kept(&profile)?.as_bytes());
    // What was measured is told also where it cannot be kept.
    let told = tell(&profile, options, json);
    said::also(kept, told)?;
    if !options.json.as_deref().is_some_and(output::is_stdout) {
        use std::io::Write as _;
        let text = format!("\nkept in {}\n", path.display());
        stdout().write_all(text.as_bytes()).context("standard output")?;
    }
    Ok(())
}

/// Measures this machine, with files at these sites, and notes what others did meanwhile.
fn measured(sites: &[Site], effort: Effort, routes: &[&'static str]) -> anyhow::Result<Profile> {
    let watch = Watch::begin(true);
    let none =
        "nothing is kept, as not every pair was measured; a profile from before stays as it is";
    let profile = figures(sites, effort, routes).context(none)?;
    let allowed: Vec<usize> = Machine::this().allowed_cpus().iter().collect();
    let disturbance = watch.end(&allowed);
    let disturbed = disturbance.flagged.then_some(disturbance.why);
    Ok(Profile { disturbed, ..profile })
}

fn figures(sites: &[Site], effort: Effort, routes: &[&'static str]) -> anyhow::Result<Profile> {
    let program = this_program()?;
    let mut budget = Budget::new(effort, pairs(sites) + 2);
    let mut profile = tune::begin(Machine::this(), &program, effort);
    let spin = tune::spin_budget(&profile.costs);
    let part = (effort, budget.next_part());
    let pipes = tune::pipes::prepared(Machine::this(), &program, part, fresh_seed());
    profile.costs.extend(tune::pipes::costs(&whole(pipes)?));
    let part = (effort, budget.next_part());
    let outlets = tune::outlets::prepared(&program, spin, part, fresh_seed());
    profile.outlets = tune::outlets::sent(&whole(outlets)?, spin);
    let run = |site| PairRun { program: &program, site, effort, spin, seed: fresh_seed(), routes };
    let runs: Vec<PairRun<'_>> = sites.iter().map(run).collect();
    let mut looked = Vec::new();
    for (index, run) in runs.iter().enumerate() {
        for ends in tune::pairs_at(first(index)) {
            match Looked::at(run, ends, budget.next_part()) {
                Ok(pair) => looked.push(pair),
                // Ends of which nothing can be measured here leave the planner its rules.
                Err(error) if cannot_run(&error) => {
                    say(format_args!("{} to {}: {error}", ends.0, ends.1));
                }
                Err(error) => return Err(error),
            }
        }
    }
    let mut doubt: f64 = looked.iter().map(|looked| tune::doubt(&looked.pair)).sum();
    for looked in looked {
        let own = tune::doubt(&looked.pair);
        let finals = budget.finals(own, doubt);
        doubt -= own;
        profile.pairs.push(looked.settled(finals)?);
    }
    Ok(profile)
}

/// Every choice between two ends, roughly. Tells why a route that was asked for, and suits them, gave
/// nothing.
fn scanned(run: &PairRun<'_>, ends: (End, End)) -> anyhow::Result<Pair> {
    let record = whole(run.scan(ends))?;
    let pair = run.measured(ends, std::slice::from_ref(&record));
    for route in run.routes {
        let is_it = |choice: &Measured| choice.choice.route == *route;
        let has_figure = pair.choices.iter().any(is_it);
        if let Some(why) = run.refused(ends, &record, route).filter(|_| !has_figure) {
            say(format_args!("--route {route}: {} to {}: {why}", ends.0, ends.1));
        }
    }
    Ok(pair)
}

/// How many pairs there are to measure at all these sites.
fn pairs(sites: &[Site]) -> usize {
    (0..sites.len()).map(|index| tune::pairs_at(first(index)).len()).sum()
}

/// A pair whose choices were all looked at, and those worth it measured.
struct Looked<'a> {
    run: &'a PairRun<'a>,
    ends: (End, End),
    pair: Pair,
    /// What was measured of those worth it.
    records: Vec<Record>,
}

impl Looked<'_> {
    fn at<'a>(
        run: &'a PairRun<'a>,
        ends: (End, End),
        blocks: Blocks,
    ) -> anyhow::Result<Looked<'a>> {
        let began = Instant::now();
        let scanned = scanned(run, ends)?;
        let blocks = match blocks {
            Blocks::Within(time) => match time.checked_sub(began.elapsed()) {
                // The look has to do where there is no time for more.
                None => return Ok(Looked { run, ends, pair: scanned, records: Vec::new() }),
                Some(left) => Blocks::Within(left),
            },
            other => other,
        };
        let contenders = run.contenders(ends, &scanned, None, blocks);
        Looked { run, ends, pair: scanned, records: Vec::new() }.after(whole(contenders))
    }

    /// The pair after a last run, if there is one, of the choices that are level.
    fn settled(self, finals: Option<Blocks>) -> anyhow::Result<Pair> {
        let Some(blocks) = finals else { return Ok(self.pair) };
        let finals = self.run.finals(self.ends, &self.pair, blocks);
        Ok(self.after(whole(finals))?.pair)
    }

    /// The same with the figures of another run; those that there are have to do where no choice
    /// can run.
    fn after(mut self, another: anyhow::Result<Record>) -> anyhow::Result<Self> {
        match another {
            Ok(record) => {
                self.records.push(record);
                self.pair = tune::joined(self.pair, self.run.measured(self.ends, &self.records));
            }
            Err(error) if !cannot_run(&error) => return Err(error),
            Err(error) => {
                let (source, sink) = self.ends;
                say(format_args!(
                    "{source} to {sink}: not measured again, so what was measured first has to do: {error}"
                ));
            }
        }
        Ok(self)
    }
}

/// The profile of this machine in its usual place: the one that is there, if it is sound and not
/// stale, or else one that is quickly measured, with files in `folder`, and kept there.
pub(crate) fn ensured(folder: &Path) -> anyhow::Result<(Profile, PathBuf)> {
    let path = Profile::default_path().with_context(|| {
        format!("{}, so nowhere to keep a profile", no_folder("XDG_STATE_HOME"))
    })?;
    if let Ok(profile) = Profile::read(&path)
        && profile.check_machine(Machine::this()).is_ok()
    {
        return Ok((profile, path));
    }
    make_folder(&path)?;
    let output = Output::open(&path)?;
    let effort = Effort::QUICK;
    let profile = measured(&sites(&[folder.to_owned()], effort)?, effort, &[])?;
    output.write(kept(&profile)?.as_bytes())?;
    Ok((profile, path))
}

fn first(index: usize) -> FirstSite {
    if index == 0 { FirstSite::Yes } else { FirstSite::No }
}

fn cannot_run(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(LabError::NoArm(_)))
}

fn make_folder(path: &Path) -> anyhow::Result<()> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    std::fs::create_dir_all(folder).with_context(|| {
        format!("cannot make {}; name another place with --profile FILE", folder.display())
    })
}

fn sites(folders: &[PathBuf], effort: Effort) -> anyhow::Result<Vec<Site>> {
    let site = |dir: &PathBuf| -> anyhow::Result<Site> {
        let dir = directory(dir)?;
        if dir.to_str().is_none() {
            bail!("cannot keep a profile of {}: its name is not UTF-8", dir.display());
        }
        Ok(Site::prepare(&dir, effort.bytes)?)
    };
    folders.iter().map(site).collect()
}

/// Runs every pair with every fixed choice, then those that are near the best and the planner's,
/// interleaved.
fn check(path: &Path, options: &Options) -> anyhow::Result<()> {
    let profile = named_profile(path)?;
    remark_on_places(&profile, path);
    let (effort, again) = (options.effort(CHECK), tuning(Some(path)));
    let sites = sites(&options.dir, effort)?;
    let program = this_program()?;
    let path = std::path::absolute(path)?;
    let spin = tune::spin_budget(&profile.costs);
    let mut budget = Budget::new(effort, pairs(&sites));
    let (mut behind, mut untold) = (0, 0);
    told(table::regret_head())?;
    for (index, site) in sites.iter().enumerate() {
        let (seed, routes) = (fresh_seed(), &options.route[..]);
        let run = PairRun { program: &program, site, effort, spin, seed, routes };
        for pair in tune::pairs_at(first(index)) {
            let found = compared(&run, pair, (path.as_path(), budget.next_part()))?;
            let lost = found.as_ref().is_some_and(Regret::is_too_large);
            behind += u64::from(lost);
            untold += u64::from(found.is_none());
            let verdict = if lost { "  TOO FAR BEHIND" } else { "" };
            told(table::regret(pair, found.as_ref(), verdict))?;
        }
    }
    match found_wrong(behind, untold, &again) {
        Some(wrong) => bail!(wrong),
        None => Ok(()),
    }
}

/// How far the planner is behind between two ends, if that can be told.
fn compared(
    run: &PairRun<'_>,
    ends: (End, End),
    by: (&Path, Blocks),
) -> anyhow::Result<Option<Regret>> {
    match regret(run, ends, by) {
        Err(error) if cannot_run(&error) => {
            say(format_args!("{} to {}: {error}", ends.0, ends.1));
            Ok(None)
        }
        found => found,
    }
}

fn regret(
    run: &PairRun<'_>,
    ends: (End, End),
    (profile, blocks): (&Path, Blocks),
) -> anyhow::Result<Option<Regret>> {
    let scanned = scanned(run, ends)?;
    let look = || whole(run.contenders(ends, &scanned, Some(profile), blocks));
    let mut looks = vec![look()?];
    let found = Regret::of(&looks);
    if !found.as_ref().is_some_and(Regret::is_too_large) {
        return Ok(found);
    }
    // Of ten intervals that hold what is true 95 times in 100, one misses it in every fifth check:
    // where one speaks against the planner, twice as many blocks decide.
    told(table::regret(ends, found.as_ref(), "  too far behind? by more blocks:"))?;
    let more = look().map(|record| {
        looks.push(record);
        Regret::of(&looks)
    });
    decided(ends, found, more)
}

/// What more blocks find; the first look's, where no choice can run again.
fn decided(
    (source, sink): (End, End),
    first: Option<Regret>,
    more: anyhow::Result<Option<Regret>>,
) -> anyhow::Result<Option<Regret>> {
    match more {
        Err(error) if cannot_run(&error) => {
            say(format_args!(
                "{source} to {sink}: not compared again, so what was found first decides: {error}"
            ));
            Ok(first)
        }
        more => more,
    }
}

fn told(line: std::io::Result<()>) -> anyhow::Result<()> {
    said::printed(line.context("standard output"))
}

/// On how many pairs a check found the planner behind, and on how many it could not tell; `None` where
/// all is well.
fn found_wrong(behind: u64, untold: u64, again: &str) -> Option<String> {
    let pairs = |count| numbers::counted(count, "pair");
    let margin = tune::MARGIN * 100.0;
    let is_behind = (behind > 0).then(|| {
        format!("is more than {margin:.0}% behind the best fixed choice on {}", pairs(behind))
    });
    let is_untold = (untold > 0).then(|| {
        format!(
            "could not be compared on {}, where its choice or every other could not run, or too few \
             blocks have both",
            pairs(untold)
        )
    });
    let found: Vec<String> = is_behind.into_iter().chain(is_untold).collect();
    let found = (!found.is_empty()).then(|| found.join(", and "))?;
    Some(format!("the planner {found}; run {again} again, on a quiet machine"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_rounds_have_no_more_looks_before_them() {
        let looks = |blocks| {
            let options = Options {
                quick: false,
                dir: Vec::new(),
                blocks,
                bytes: None,
                route: Vec::new(),
                profile: None,
                json: None,
                show: false,
                check: false,
            };
            options.effort(Effort::DEFAULT).looks
        };
        let usual = Effort::DEFAULT.looks;
        assert_eq!([None, Some(1), Some(1000)].map(looks), [usual, 1, usual]);
    }

    #[test]
    fn what_was_measured_stays_where_it_cannot_be_measured_again() {
        let folder = tempfile::tempdir().expect("a folder");
        let effort = Effort { bytes: 4096, ..Effort::QUICK };
        let site = Site::prepare(folder.path(), effort.bytes).expect("there is room");
        let program = folder.path().join("no program");
        let run =
            PairRun { program: &program, site: &site, effort, spin: None, seed: 1, routes: &[] };
        let ends = (End::Pipe, End::Pipe);
        let choices = ["splice", "read-write"].map(|route| bytepath::profile::Measured {
            choice: bytepath::profile::Setting {
                route: route.into(),
                chunk_bytes: None,
                pipe_bytes: None,
                spin_ns: None,
                stays: false,
            },
            gib_per_s: 5.0,
            ci95: None,
            overall_gib_per_s: 5.0,
            cpu_s_per_gib: 0.1,
        });
        let (source, sink) = ends;
        let pair = Pair { source, sink, place: None, bytes: None, choices: choices.into() };
        let looked = || Looked { run: &run, ends, pair: pair.clone(), records: Vec::new() };
        for ended in [LabError::Interrupted(String::new()), LabError::Replaced(program.clone())] {
            let told = ended.to_string();
            let error = looked().after(Err(ended.into())).err().expect("all ends");
            assert_eq!(error.to_string(), told);
        }
        let settled = looked().settled(Some(Blocks::Exactly(1))).expect("the pair is kept");
        assert_eq!(settled, pair);
        let compared = compared(&run, ends, (folder.path(), Blocks::Exactly(3)));
        assert_eq!(compared.expect("the other pairs go on"), None);
    }

    #[test]
    fn the_first_look_decides_where_there_is_no_second() {
        let first = Regret {
            best: "splice".into(),
            best_gib_per_s: 8.0,
            planner_gib_per_s: 4.0,
            ratio: 0.5,
            ratio_ci95: [0.4, 0.6],
        };
        let after =
            |more| decided((End::Pipe, End::Pipe), Some(first.clone()), more).map_err(|_| "ended");
        let error = |error: LabError| Err(error.into());
        assert_eq!(after(error(LabError::NoArm("no".into()))), Ok(Some(first.clone())));
        assert_eq!(after(error(LabError::Interrupted(String::new()))), Err("ended"));
        assert_eq!(after(Ok(None)), Ok(None), "more blocks could not tell");
    }

    #[test]
    fn a_check_that_finds_both_tells_both() {
        let told = |behind, untold| found_wrong(behind, untold, "`bytepath tune`");
        assert_eq!(told(0, 0), None);
        assert_eq!(
            told(2, 0).as_deref(),
            Some(
                "the planner is more than 5% behind the best fixed choice on 2 pairs; run \
                 `bytepath tune` again, on a quiet machine"
            )
        );
        let untold = told(0, 1).expect("one is untold");
        assert!(untold.starts_with("the planner could not be compared on 1 pair, "), "{untold}");
        let both = told(1, 2).expect("both are");
        for part in ["on 1 pair, and could not be", " on 2 pairs, where", "; run `bytepath tune`"] {
            assert!(both.contains(part), "{part} is missing in {both}");
        }
    }
}
