//! `bytepath run`: pipelines of unmodified programs, with large pipes and each stage on a CPU that
//! suits it; and, at the end, which stage held the others up.
//!
//! A pipeline of plain stages is taken apart (`script`), and its stages are started here
//! (`stages`). Anything else is run by the user's shell as it is, which keeps its meaning whatever
//! it is, and its processes and pipes are found from outside (`family`). From then on both are the
//! same: looked at several times a second (`watch`), placed (`placing`), told about (`told`).

mod below;
mod family;
mod listed;
mod live;
mod measured;
mod placing;
mod process;
mod quota;
mod script;
mod signals;
mod sizes;
mod stages;
mod told;
mod verdict;
mod watch;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytepath::machine::{CpuList, Machine};
use bytepath::profile::{Cost, Profile};
use bytepath_explain::Whom;
use clap::Args;
use rustix::io::Errno;
use rustix::stdio::stderr;
use rustix::thread::{CpuSet, sched_setaffinity};

use crate::explain::Explaining;
use crate::metrics::{self, MetricsOptions};
use crate::output::{self, Output};
use crate::planning::usual_profile;
use crate::said::{self, say};
use crate::shown::Shown;
use crate::sys::spawn;
use crate::usage::wrong_usage;
use crate::values;
use below::Below;
use family::Family;
use live::Live;
use measured::Measured;
use placing::Placer;
use quota::Quotas;
use script::{Own, Part, Script};
pub(crate) use signals::{Signals, end_by, is_passed_on};
use sizes::PipeSize;
use stages::{End, NOT_RUN, Stage, Stages};
use watch::Watched;

/// Run a pipeline of programs with large pipes, each stage on the CPU that suits it
///
/// The text means what it means to the shell, and ends as it would there. A pipeline of plain
/// commands is taken apart where the shell is sh, dash, bash or ash, and its stages are run with
/// larger pipes between them. Anything else (lists, loops, subshells, …) is run by the shell as it
/// is, and so is all text by another shell, such as zsh or fish (--shell /bin/sh does otherwise), and by
/// bash where SHELLOPTS or BASHOPTS is set, or BASH_ENV, which it does not read as sh; its pipes are found
/// and made larger from outside, but no stage has a status, --own-movers puts nothing in the place of
/// others, and --pipefail takes bash.
/// In both cases no stage interrupts another that runs, all are looked at several times a second, and
/// those that are faster together on one CPU are put there. --explain-plan says what is run how.
#[derive(Args, Default)]
pub(crate) struct Options {
    /// What you would type into a shell, as one argument: 'tar cf - DIR | zstd | wc -c'
    #[arg(required_unless_present = "words", conflicts_with = "words")]
    pipeline: Option<OsString>,
    /// Without a shell: the words of the stages, with ::: between them
    #[arg(last = true, value_name = "WORDS")]
    words: Vec<OsString>,
    /// The shell that runs the text; $SHELL, or else /bin/sh, unless given
    #[arg(long, value_name = "PATH", conflicts_with = "words")]
    shell: Option<PathBuf>,
    /// End with the status of the last stage that failed, if one did; text that is not taken apart needs
    /// --shell bash for it
    #[arg(long)]
    pipefail: bool,
    /// The size of the pipes between stages; unless given 1M, and less where they are so many that
    /// they would take more than half of what this user's pipes may have
    #[arg(long, value_name = "SIZE", value_parser = values::buffer_size)]
    pipe_size: Option<usize>,
    /// Run bytepath's own cat, pv and tee where the pipeline names these: same output, as long as nobody
    /// changes a file while it is read, but bytes go on by reference where the others copy them
    #[arg(long)]
    own_movers: bool,
    /// Leave it to the kernel where stages run, and when
    #[arg(long)]
    no_place: bool,
    /// Run on these CPUs alone: 0-3,8
    #[arg(long, value_name = "LIST", value_parser = cpu_list)]
    cpus: Option<CpuList>,
    /// Say what is run how, and afterwards what was decided
    #[arg(long)]
    explain_plan: bool,
    /// Say at the end how long it took, what went through each pipe, and which stage held the others
    /// up; on a terminal it is said anyway
    #[arg(long, overrides_with = "no_summary")]
    summary: bool,
    /// Say nothing at the end
    #[arg(long, overrides_with = "summary")]
    no_summary: bool,
    /// Draw a line a stage while it runs, on a terminal: what flows, how full the pipes are, what
    /// each stage waits for
    #[arg(long)]
    progress: bool,
    /// Write what the summary says, and each stage's status, to a file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    metrics: MetricsOptions,
    /// Say at the end where the time went: samples are taken meanwhile; see bytepath explain
    #[arg(long)]
    explain: bool,
    #[command(flatten, next_help_heading = "With --explain")]
    shown: Shown,
}

/// As taskset(1) takes them: each part is read, or all is refused.
fn cpu_list(text: &str) -> Result<CpuList, String> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || b",-".contains(&byte));
    match is_plain && text.split(',').all(|part| !CpuList::parse(part).is_empty()) {
        true => Ok(CpuList::parse(text)),
        false => Err(format!("{text:?} is no list of CPUs; write for example 0-3,8")),
    }
}

/// What is run, and how it came to that.
struct Work {
    stages: Vec<Stage>,
    /// The shell that runs the text as it is, and why it does.
    whole: Option<Whole>,
}

struct Whole {
    shell: PathBuf,
    why: &'static str,
}

/// Between the stages where no shell is.
const BETWEEN: &str = ":::";

/// Standard error that is read takes something within this.
const HEARD_WITHIN: Duration = Duration::from_millis(500);

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if !options.explain && options.shown.asks_for_anything() {
        return Err(wrong_usage("--tree, --flame and their like need --explain"));
    }
    options.metrics.check([]).map_err(wrong_usage)?;
    let (json, metrics) = (options.json.as_deref(), options.metrics.file());
    options.shown.check(&[("--json", json), ("--metrics", metrics)])?;
    options.metrics.begin("run");
    let explaining = options.explain.then(|| Explaining::new(options.shown.clone(), None));
    run_and_explain(options, explaining.transpose()?)
}

/// Runs the stages as they are, placed by the kernel, and explains where their time went.
pub(crate) fn explained(words: &[OsString], explaining: Explaining) -> anyhow::Result<ExitCode> {
    let options =
        Options { words: words.to_vec(), no_place: true, no_summary: true, ..Options::default() };
    run_and_explain(&options, Some(explaining))
}

fn run_and_explain(
    options: &Options,
    mut explaining: Option<Explaining>,
) -> anyhow::Result<ExitCode> {
    let work = options.work()?;
    let mut json = options.json.as_deref().map(Output::open).transpose()?;
    let allowed = options.allowed()?;
    let size = PipeSize::new(options.pipe_size);
    let below = Below::noted();
    if options.explain_plan {
        explain(&work, options, &allowed, &size);
    } else if options.progress && below.is_none() {
        say(format_args!("bytepath: --progress: {}", told::UNSEEN));
    }
    let caught =
        Signals::caught().and_then(|mut signals| signals.hear_of_going_on().map(|()| signals));
    let mut signals = match caught {
        Ok(signals) => signals,
        Err(error) => {
            let remedy = match Errno::from_io_error(&error) {
                Some(Errno::MFILE | Errno::NFILE) => {
                    "; close files, or raise the limit on them (ulimit -n)"
                }
                _ => "",
            };
            let word = crate::errno::word_of(&error);
            say(format_args!("bytepath: cannot catch signals: {word}{remedy}"));
            // As for a stage that cannot be made.
            return Ok(ExitCode::from(NOT_RUN));
        }
    };
    let (whole, texts) = (work.whole, work.stages);
    let patient = options.makes_patient();
    let name = texts.iter().map(|stage| stage.text.as_str()).collect::<Vec<_>>().join(" | ");
    if let Some(explaining) = &mut explaining {
        explaining.begin(Whom::Started);
    }
    let quotas = options.tells_verdict().then(Quotas::now);
    let began = Instant::now();
    let mut watched = Watched {
        stages: Stages::start(texts, &size, patient, &mut signals),
        family: below.clone().filter(|_| options.looks(whole.as_ref())).map(|below| {
            let mut family = Family::new(below, size, allowed, options.shell_program());
            family.patient = patient;
            family
        }),
        below,
        places: (!options.no_place).then_some(placer),
        placer: None,
        tells_ends: options.tells_verdict() || options.metrics.metrics.is_some(),
        is_whole: whole.is_some(),
        // A shell that runs it was given the option itself.
        pipefail: options.pipefail && whole.is_none(),
        tells_refusal: options.pipe_size.is_some(),
        decisions: Vec::new(),
        began,
        quotas,
        looks: 0,
        ended_by: None,
        passed_on: None,
        has_passed_on: false,
        interrupt_was_answered: false,
        live: options.draws().then(Live::default),
        measured: options.metrics.metrics.is_some().then(Measured::default),
    };
    if let Some(measured) = &watched.measured {
        metrics::measured_by(measured.figures());
    }
    watched.watch(&mut signals);
    watched.measure();
    let took = began.elapsed();
    if let Some(live) = &mut watched.live {
        live.end();
    }
    let end = watched.end();
    // Of what could not be started there is nothing to say.
    let explaining = explaining.filter(|_| watched.stages.any_began());
    let tells = options.explain_plan || options.tells_verdict();
    if let Some(signal) = watched.passed_on.filter(|_| tells || explaining.is_some()) {
        signals.forget(signal);
    }
    let mut seen = explaining.map(|explaining| explaining.end(&name)).unwrap_or_default();
    let told =
        tells.then(|| told::Told::of(&watched, whole.as_ref().map(|whole| whole.why), took, end));
    // Files are written before it may end for want of somebody who hears what is said.
    let explained = seen.write(Output::is_file);
    let written = write_json(told.as_ref(), json.take_if(|json| json.is_file()));
    signals.end_it();
    let mut said = Ok(());
    // Who was asked to end does not wait for somebody to hear how it did.
    if watched.ended_by.is_none() || crate::live::is_heard(HEARD_WITHIN) {
        if whole.is_none() && !options.says_summary() {
            say_who_was_killed(&watched);
        }
        said =
            seen.text.take().map_or(Ok(()), |text| said::said(format_args!("{}", text.trim_end())));
        if let Some(told) = &told {
            say_the_end(options, told);
        }
    }
    let written = said::also(written, write_json(told.as_ref(), json));
    let explained = said::also(explained, seen.write(|_| true));
    let done = said::also(written, explained);
    match said::also(done, said.context("standard error")) {
        // How the pipeline ended is what whoever asks for its status wants to know.
        Err(error) if end.status() != 0 => say(format_args!("bytepath: {error:#}")),
        told => told?,
    }
    if let End::Killed(signal) = end {
        signals::end_by(signal);
    }
    Ok(ExitCode::from(u8::try_from(end.status() & 0xff).unwrap_or(1)))
}

/// As shells do, but for the signals by which pipelines usually end.
fn say_who_was_killed(watched: &Watched) {
    for stage in &watched.stages.all {
        if let Some(End::Killed(signal)) = stage.end
            && !signals::is_usual_end(signal)
            && watched.ended_by != Some(signal)
        {
            let name = signals::name(signal);
            say(format_args!("bytepath: {}: ended by {name}", crate::live::in_a_line(&stage.text)));
        }
    }
}

fn say_the_end(options: &Options, told: &told::Told) {
    if options.explain_plan {
        say(format_args!("{}", told.plan().trim_end()));
    }
    if options.says_summary() {
        say(format_args!("{}", told.summary().trim_end()));
    }
}

fn write_json(told: Option<&told::Told>, to: Option<Output>) -> anyhow::Result<()> {
    told.zip(to).map_or(Ok(()), |(told, to)| to.write(told.json()?.as_bytes()))
}

fn explain(work: &Work, options: &Options, allowed: &CpuList, size: &PipeSize) {
    let seen = process::can_be_seen();
    match &work.whole {
        Some(Whole { shell, why }) => say(format_args!(
            "bytepath: {} runs it as it is: {why}{}",
            shell.display(),
            if seen { "; its pipes are found from outside" } else { "" }
        )),
        None => say(format_args!("bytepath: taken apart into {} stages:", work.stages.len())),
    }
    for (stage, number) in work.stages.iter().zip(1..).filter(|_| work.whole.is_none()) {
        say(format_args!("  {number}  {}", crate::live::in_a_line(&stage.text)));
    }
    let pipes = size.said(work.stages.len().saturating_sub(1));
    let placed = match allowed.len() {
        _ if options.no_place || !seen => "stages run where the kernel puts them",
        1 => "there is one CPU, so nothing to place",
        _ => "stages are placed by what is seen of them",
    };
    say(format_args!("  {pipes}; CPUs {allowed}: {placed}"));
    if !seen {
        say(format_args!("  {}", told::UNSEEN));
    }
    if options.makes_patient() {
        say(format_args!("  none interrupts another that runs (SCHED_BATCH)"));
    }
    let known = usual_profile();
    let gives = known.as_ref().ok().and_then(together_gives);
    match (options.no_place || allowed.len() == 1, &known, gives) {
        (false, _, Some(gives)) => say(format_args!(
            "  by the profile, stages that only copy move {gives:.1} times as much on one CPU as on two"
        )),
        (false, Err(why), _) => say(format_args!("  {why}")),
        (false, Ok(profile), None) => {
            if let Some(doubt) = profile.doubt() {
                say(format_args!("  the profile has no say: {doubt}"));
            }
        }
        _ => {}
    }
}

impl Options {
    fn work(&self) -> anyhow::Result<Work> {
        if self.json.as_deref().is_some_and(output::is_stdout) {
            return Err(wrong_usage("standard output is the pipeline's; give --json a file"));
        }
        match &self.pipeline {
            Some(pipeline) => self.of_shell(pipeline),
            None => Ok(Work { stages: of_words(&self.words, self.own())?, whole: None }),
        }
    }

    fn of_shell(&self, pipeline: &OsStr) -> anyhow::Result<Work> {
        use std::os::unix::ffi::OsStrExt;
        // A carriage return is a word to a shell.
        if pipeline.as_bytes().iter().all(|byte| b" \t\n".contains(byte)) {
            return Err(wrong_usage("the pipeline is empty"));
        }
        let shell = self.shell();
        let run = |text: &OsStr, shell_text: &OsStr| Stage {
            text: text.to_string_lossy().trim().to_owned(),
            words: vec![shell.clone().into_os_string(), "-c".into(), shell_text.to_owned()],
            shell_level: None,
            own_words: Vec::new(),
            redirects: [false; 2],
        };
        let run_whole = || {
            // It would be an option of the shell's, if nothing stood before it.
            let is_option = [b'-', b'+'].contains(&pipeline.as_bytes()[0]);
            let before = OsStr::new(if is_option { " " } else { "" });
            run(pipeline, &[before, pipeline].join(OsStr::new("")))
        };
        let own = self.own();
        let script = script::taken_apart(pipeline, &shell, own.as_ref());
        if let (Script::Whole(why), Some(_)) = (&script, &own) {
            say(format_args!("bytepath: --own-movers: {why}, so the shell runs what it names"));
        }
        match script {
            Script::Stages(parts) => {
                let run = |part: Part| Stage {
                    shell_level: part.shell_level,
                    own_words: part.words,
                    redirects: part.redirects,
                    ..run(&part.text, &part.shell_text)
                };
                Ok(Work { stages: parts.into_iter().map(run).collect(), whole: None })
            }
            Script::Whole(why) if self.pipefail => self.with_pipefail(run_whole(), why),
            Script::Whole(why) => Ok(Work {
                stages: vec![run_whole()],
                whole: Some(Whole { shell: shell.clone(), why }),
            }),
        }
    }

    /// What is not taken apart needs a shell that knows the option itself.
    fn with_pipefail(&self, mut stage: Stage, why: &'static str) -> anyhow::Result<Work> {
        let shell = self.shell();
        if shell.file_name() != Some(OsStr::new("bash")) {
            return Err(wrong_usage(format!(
                "--pipefail: {} has to run this text as it is, and may know no pipefail; use --shell bash",
                shell.display()
            )));
        }
        stage.words.splice(1..1, ["-o".into(), "pipefail".into()]);
        Ok(Work { stages: vec![stage], whole: Some(Whole { shell, why }) })
    }

    /// What runs movers in the place of those that are named, where they can be found.
    fn own(&self) -> Option<Own> {
        if !self.own_movers {
            return None;
        }
        let program = std::env::current_exe().inspect_err(|_| {
            say(format_args!(
                "bytepath: --own-movers: cannot find this program's own file, as without /proc; what is \
                 named runs"
            ));
        });
        // They would make pipes as large as they like them.
        let options: &[&str] = if self.pipe_size.is_some() { &["--no-enlarge"] } else { &[] };
        Some(Own { program: program.ok()?.into_os_string(), options })
    }

    fn shell(&self) -> PathBuf {
        shell(self.shell.as_deref())
    }

    /// The CPUs that the stages may use. Those asked for are taken by this process, and so by all
    /// that it starts.
    fn allowed(&self) -> anyhow::Result<CpuList> {
        let here = Machine::this().allowed_cpus();
        let Some(asked) = &self.cpus else { return Ok(here.clone()) };
        if let Some(missing) = asked.iter().find(|cpu| !here.contains(*cpu)) {
            return Err(wrong_usage(format!(
                "--cpus: this process may not use CPU {missing}; it may use {here}"
            )));
        }
        let mut set = CpuSet::new();
        asked.iter().for_each(|cpu| set.set(cpu));
        sched_setaffinity(None, &set).context("--cpus: the kernel does not let us")?;
        Ok(asked.clone())
    }

    fn makes_patient(&self) -> bool {
        !self.no_place && spawn::may_be_patient()
    }

    /// Whether there is a terminal on which lines can be drawn over.
    fn draws(&self) -> bool {
        self.progress && rustix::termios::isatty(stderr()) && !crate::live::is_dumb()
    }

    fn says_summary(&self) -> bool {
        self.summary || (!self.no_summary && rustix::termios::isatty(stderr()))
    }

    /// Whether it is told in the end who held the others up.
    fn tells_verdict(&self) -> bool {
        self.says_summary() || self.json.is_some()
    }

    /// Whether anybody wants to know what the stages do.
    fn looks(&self, whole: Option<&Whole>) -> bool {
        whole.is_some()
            || !self.no_place
            || self.says_summary()
            || self.progress
            || self.json.is_some()
            || self.metrics.metrics.is_some()
    }

    fn shell_program(&self) -> Option<(u64, u64)> {
        self.pipeline.is_some().then(|| self.shell()).and_then(|shell| program(&shell))
    }
}

fn placer(allowed: &CpuList) -> Placer {
    let profile = usual_profile().ok();
    Placer::new(neighbours(allowed), profile.as_ref().and_then(together_gives))
}

/// CPUs in an order in which neighbours share what can be shared: the cores of a socket that share
/// a cache one after the other, and only then their second threads.
fn neighbours(allowed: &CpuList) -> Vec<usize> {
    let topology = Machine::this().cpus();
    let mut cpus: Vec<usize> = allowed.iter().collect();
    cpus.sort_by_key(|&id| {
        let cpu = topology.cpu(id);
        let thread = cpu.and_then(|cpu| cpu.smt_siblings.iter().position(|sibling| sibling == id));
        let cache = cpu.and_then(|cpu| cpu.caches.last()?.shared_by.first());
        (thread, cpu.and_then(|cpu| cpu.package), cache, id)
    });
    cpus
}

/// What two ends of a pipe moved on one CPU, for each byte that they moved on two. Where others had
/// the CPUs meanwhile, nobody knows.
fn together_gives(profile: &Profile) -> Option<f64> {
    if profile.disturbed.is_some() {
        return None;
    }
    let of_copying = |cost: &&Cost| {
        cost.name.starts_with("write and read, pipe of 1M, ") && cost.name.ends_with(", block")
    };
    let (on_one, on_two): (Vec<&Cost>, Vec<&Cost>) =
        profile.costs.iter().filter(of_copying).partition(|cost| cost.name.contains("same-cpu"));
    let best = |costs: Vec<&Cost>| costs.iter().map(|cost| cost.value).reduce(f64::max);
    Some(best(on_one)? / best(on_two).filter(|rate| *rate > 0.0)?)
}

/// The shell that was asked for, or the user's.
pub(crate) fn shell(asked: Option<&Path>) -> PathBuf {
    let own = std::env::var_os("SHELL").map(PathBuf::from);
    let own = own.filter(|path| path.is_absolute() && path.exists());
    asked.map(Path::to_owned).or(own).unwrap_or_else(|| "/bin/sh".into())
}

/// What tells a program from others.
fn program(path: &Path) -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt;
    let found = std::fs::metadata(path).ok()?;
    Some((found.dev(), found.ino()))
}

fn of_words(words: &[OsString], own: Option<Own>) -> anyhow::Result<Vec<Stage>> {
    let stages = words.split(|word| word == BETWEEN).zip(1..).map(|(words, number)| {
        let Some(program) = words.first() else {
            return Err(wrong_usage(format!(
                "stage {number} has no words; write -- cmd args ::: cmd args"
            )));
        };
        let own = own.clone().filter(|_| script::is_mover(program));
        let shown = own.as_ref().map(|_| "bytepath".to_owned());
        let own_words = words.iter().map(|word| word.to_string_lossy().into_owned());
        let own_words: Vec<String> = shown.into_iter().chain(own_words).collect();
        let text = own_words.join(" ");
        let mut words = words.to_vec();
        if let Some(own) = own {
            words.splice(1..1, own.options.iter().map(OsString::from));
            words.insert(0, own.program);
        }
        Ok(Stage { text, words, shell_level: None, own_words, redirects: [false; 2] })
    });
    stages.collect()
}
