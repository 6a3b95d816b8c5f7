//! `bytepath confine`: a program in cgroups, namespaces, and as a user that are not this one's. The
//! processes of the arms of `bench swap` and `bench keepalive` are started so; not shown in the help.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use bytepath_lab::confine::Confinement;
use bytepath_lab::ends::Starter;
use clap::Args;

use crate::{ends, values};

/// Become a program, in other cgroups, in a network of its own, or as another user
#[derive(Args)]
#[command(hide = true)]
pub(crate) struct Options {
    /// Go into this cgroup, given as its directory; may be given more than once
    #[arg(long, value_name = "DIR")]
    join: Vec<PathBuf>,
    /// Have a network with nothing but a loopback interface, and end with all that is started
    #[arg(long)]
    apart: bool,
    /// Be the user, and the group, of this number
    #[arg(long, value_name = "N")]
    user: Option<u32>,
    /// End when this process, which started us, ends
    #[arg(long, value_name = "PID", value_parser = values::starter)]
    starter: Option<Starter>,
    /// The program and its words
    #[arg(required = true, last = true)]
    program: Vec<OsString>,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<ExitCode> {
    ends::end_with(options.starter)?;
    let confinement =
        Confinement { groups: options.join.clone(), apart: options.apart, user: options.user };
    let mut program = Command::new(&options.program[0]);
    program.args(&options.program[1..]);
    confinement.enter(program).map_err(anyhow::Error::msg)
}
