//! `bytepath bench movers`: cat, pv and their like, side by side between the same two ends.

use std::path::{Path, PathBuf};

use bytepath::inlets::Inlet;
use bytepath::profile::End;
use bytepath_lab::arm::Arm;
use bytepath_lab::experiments::movers::{self, Program};
use bytepath_lab::experiments::pairs;
use bytepath_lab::peers::Peer;
use bytepath_lab::tune::Site;
use clap::Args;

use super::measuring::{BLOCKS, Measuring, Sampling, directory, telling};
use super::results::show;
use crate::hidden::this_program;
use crate::measured::{against_first, well_named};
use crate::usage::wrong_usage;
use crate::values;

/// How fast do cat, pv and their like move bytes between two ends?
#[derive(Args)]
#[command(mut_args(telling(BLOCKS, [Sampling::USUAL, Sampling::QUICK])))]
pub(super) struct Movers {
    /// The ends: SOURCE:SINK of file, pipe, socket and null
    #[arg(long, value_name = "ENDS", value_parser = ends, default_value = "pipe:pipe")]
    pair: (End, End),
    /// Classics to run beside: pv, cat, dd, tee, mbuffer
    #[arg(long, value_name = "PROGRAM", value_delimiter = ',', value_parser = super::pipes::peer, default_value = "cat,pv,dd")]
    peer: Vec<&'static Peer>,
    /// Any other program to run beside, by its words, split at spaces; may be given more than once.
    /// The word {file} becomes the name of an empty file in DIR, for programs that write one too
    #[arg(long, value_name = "WORDS")]
    with: Vec<String>,
    /// How a pipe or socket is emptied; by read unless given
    #[arg(long, value_name = "INLET", value_parser = values::inlets())]
    inlet: Option<&'static dyn Inlet>,
    /// Bytes per sample
    #[arg(long, value_name = "SIZE", value_parser = values::size, default_value = "256M")]
    bytes: u64,
    /// Make files in this directory
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    #[command(flatten)]
    measuring: Measuring,
}

fn ends(text: &str) -> Result<(End, End), String> {
    let end = |name: &str| match name {
        "file" => Ok(End::File),
        "pipe" => Ok(End::Pipe),
        "socket" => Ok(End::Socket),
        "null" => Ok(End::Null),
        _ => Err(format!("there is no end {name:?}; there are: file, pipe, socket, null")),
    };
    let (source, sink) = text
        .split_once(':')
        .ok_or_else(|| format!("{text:?} is no pair of ends; write for example pipe:file"))?;
    match (end(source)?, end(sink)?) {
        (End::Null, _) => Err("/dev/null gives no bytes; it can only be the sink".into()),
        pair => Ok(pair),
    }
}

pub(super) fn run(options: &Movers) -> anyhow::Result<()> {
    if options.inlet.is_some() && matches!(options.pair.1, End::File | End::Null) {
        return Err(wrong_usage(
            "--inlet is how a pipe or socket is emptied, and the sink is none",
        ));
    }
    if options.inlet.is_some_and(|inlet| inlet.name() == "splice-null")
        && options.pair.1 == End::Socket
    {
        return Err(wrong_usage("the inlet splice-null empties pipes, and the sink is a socket"));
    }
    if options.with.iter().any(|line| line.trim().is_empty()) {
        return Err(wrong_usage("--with needs the words of a program"));
    }
    let dir = directory(&options.dir)?;
    // Before the files are made.
    let named = arms(options, &dir, Path::new(""), Path::new(""))?;
    let outputs = options.measuring.outputs(&named)?;
    let site = Site::prepare(&dir, options.bytes)?;
    let beside = Site::prepare(&dir, 0)?;
    let arms = arms(options, &dir, &site.file(), &beside.file())?;
    let mut settings = options.measuring.settings(Some(options.bytes));
    settings.others.insert("directory".into(), dir.display().to_string().into());
    if let Some(inlet) = options.inlet {
        settings.others.insert("inlet".into(), inlet.name().into());
    }
    let mut experiment = movers::DESCRIPTION.recorded();
    experiment.name = format!("movers, {} to {}", options.pair.0, options.pair.1);
    let record = against_first(experiment, arms, &settings)?;
    show(&record, None, outputs)
}

fn arms(options: &Movers, dir: &Path, file: &Path, beside: &Path) -> anyhow::Result<Vec<Arm>> {
    let program = this_program()?;
    let setup = pairs::Setup {
        program: &program,
        directory: dir,
        file,
        inlet: options.inlet.map_or("read", Inlet::name),
    };
    let peers = options.peer.iter().map(|peer| {
        let name = peer.words.join(" ");
        peer.found().map(|words| Program { name: name.clone(), words }).map_err(|why| (name, why))
    });
    let others = options.with.iter().map(|line| Ok(other(line, beside)));
    let ours = movers::ours(&program).into_iter().map(Ok);
    let programs = peers.chain(others).chain(ours).collect();
    well_named(movers::arms(options.pair, programs, &setup))
}

fn other(line: &str, beside: &Path) -> Program {
    let word = |word: &str| match word {
        "{file}" => beside.display().to_string(),
        _ => word.to_owned(),
    };
    Program { name: line.to_owned(), words: line.split_whitespace().map(word).collect() }
}
