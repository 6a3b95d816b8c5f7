//! `bytepath bench EXPERIMENT`: the published experiments, on this machine.

mod again;
mod all;
mod calls;
mod choosing;
mod cmd;
mod copy;
mod explained;
mod fget;
mod files;
mod generators;
mod input;
mod ipc;
mod keepalive;
mod measuring;
mod memory;
mod movers;
mod overhead;
mod pages;
mod pipes;
mod results;
mod run;
mod swap;

use clap::{Args, Subcommand};

use crate::{interrupt, left};

pub(crate) use copy::Copy;
pub(crate) use explained::explain;
pub(crate) use files::Files;
pub(crate) use ipc::Ipc;
pub(crate) use measuring::directory;
pub(crate) use pipes::{Pipes, measure_pipes, pipes_arms};

/// Run a published experiment on this machine, and say what came beside what was published
#[derive(Args)]
#[command(arg_required_else_help = true, args_conflicts_with_subcommands = true)]
pub(crate) struct Options {
    /// Name the experiments and stop
    #[arg(long)]
    list: bool,
    #[command(subcommand)]
    experiment: Option<Experiment>,
}

#[derive(Subcommand)]
enum Experiment {
    Pipes(Pipes),
    Overhead(overhead::Overhead),
    Movers(movers::Movers),
    Calls(calls::Calls),
    Copy(copy::Copy),
    Fget(Box<fget::Fget>),
    Files(Box<files::Files>),
    Gen(generators::Generators),
    Ipc(ipc::Ipc),
    Run(run::Run),
    Memory(memory::Memory),
    Pages(pages::PagesOptions),
    All(all::All),
    Swap(swap::Swap),
    Keepalive(keepalive::Keepalive),
    Cmd(cmd::Cmd),
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let Some(experiment) = &options.experiment else { return all::list() };
    left::undo();
    interrupt::ended(|| match experiment {
        Experiment::Pipes(options) => pipes::run(options),
        Experiment::Overhead(options) => overhead::run(options),
        Experiment::Movers(options) => movers::run(options),
        Experiment::Calls(options) => calls::run(options),
        Experiment::Copy(options) => copy::run(options),
        Experiment::Fget(options) => fget::run(options),
        Experiment::Files(options) => files::run(options),
        Experiment::Gen(options) => generators::run(options),
        Experiment::Ipc(options) => ipc::run(options),
        Experiment::Run(options) => run::run(options),
        Experiment::Memory(options) => memory::run(options),
        Experiment::Pages(options) => pages::run(options),
        Experiment::All(options) => all::run(options),
        Experiment::Swap(options) => swap::run(options),
        Experiment::Keepalive(options) => keepalive::run(options),
        Experiment::Cmd(options) => cmd::run(options),
    })
}
