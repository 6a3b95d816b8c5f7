//! `bytepath completions` and `bytepath man`: what a shell and man(1) need to know, made of the same
//! definitions as the help.

mod manual;
mod offered;
mod script;
mod surroundings;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::fleet;
use crate::streams::stdout;

/// Print the completions for a shell
///
/// For bash: bytepath completions bash >~/.local/share/bash-completion/completions/bytepath
#[derive(Args)]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_parser = clap::builder::EnumValueParser::<Shell>::new())]
    shell: Shell,
}

/// Write the manual pages into a folder
#[derive(Args)]
pub(crate) struct Man {
    /// The folder; it is made where there is none
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn completions(options: &Completions, command: &Command) -> anyhow::Result<()> {
    let script = script::of(options.shell, offered::by(shown(command)));
    stdout().write_all(script.as_bytes()).context("standard output")
}

pub(crate) fn man(options: &Man, command: &Command) -> anyhow::Result<()> {
    let folder = &options.folder;
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let mut command = shown(command);
    command.build();
    pages(&command, "bytepath", folder)
}

/// The command without those subcommands that are no commands for people.
fn shown(command: &Command) -> Command {
    let subcommands = command.get_subcommands().filter(|command| !command.is_hide_set());
    Command::new("bytepath")
        .version(env!("CARGO_PKG_VERSION"))
        .about(command.get_about().cloned().unwrap_or_default())
        .disable_help_subcommand(true)
        .subcommands(subcommands.cloned())
        .mut_subcommand("fleet", |_| fleet::described())
}

/// A page for the command, and one for each of its subcommands: bytepath-cat.1.
fn pages(command: &Command, name: &str, folder: &Path) -> anyhow::Result<()> {
    for subcommand in command.get_subcommands() {
        pages(subcommand, &format!("{name}-{}", subcommand.get_name()), folder)?;
    }
    let path = folder.join(format!("{name}.1"));
    let page = manual::page(command, name)?;
    std::fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))
}
