//! `bytepath explain diff`: two explanations beside each other, of two arms or two runs.

use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use bytepath_explain::flame;
use bytepath_report::table::printable;
use bytepath_report::{Arm, Explained};
use clap::Args;

use crate::output::{self, Output};
use crate::streams::stdout;
use crate::style::style;
use crate::usage::wrong_usage;
use crate::{records, said};

/// Put two explanations beside each other: which costs grew, which shrank, and a flame graph of it
#[derive(Args)]
pub(super) struct Options {
    /// The first: a record's file, with #ARM where it explains several arms
    #[arg(value_name = "RECORD[#ARM]")]
    before: OsString,
    /// The second
    #[arg(value_name = "RECORD[#ARM]")]
    after: OsString,
    /// Draw the second's flame graph, red where it has more than the first and blue where less
    #[arg(long, value_name = "FILE")]
    flame: Option<PathBuf>,
}

pub(super) fn run(options: &Options) -> anyhow::Result<()> {
    let read = [&options.before, &options.after].map(|named| file_and_arm(named).0);
    output::spares("--flame", options.flame.as_deref(), read).map_err(wrong_usage)?;
    let output = options.flame.as_deref().map(Output::open).transpose()?;
    let (before, after) = (explained(&options.before)?, explained(&options.after)?);
    let text = bytepath_explain::show::difference(&before.1, &after.1, style());
    let heading = format!("before: {}\nafter:  {}\n\n", before.0, after.0);
    let drawn = output.map_or(Ok(()), |output| {
        let title = format!("{} against {}", after.0, before.0);
        output.write(&flame::difference(&title, &before.1.stacks, &after.1.stacks)?)
    });
    let table = printable(&heading) + &text;
    let printed = stdout().write_all(table.as_bytes()).context("standard output");
    said::also(drawn, said::printed(printed))
}

fn file_and_arm(named: &OsStr) -> (&OsStr, Option<Cow<'_, str>>) {
    let bytes = named.as_bytes();
    let file = |end: usize| OsStr::from_bytes(&bytes[..end]);
    let is_there =
        |file: &OsStr| file == "-" || std::fs::metadata(file).is_ok_and(|found| !found.is_dir());
    let hashes = || (0..bytes.len()).rev().filter(|at| bytes[*at] == b'#');
    // A file may have a # in its name, and so may an arm.
    let mut ends = std::iter::once(bytes.len()).chain(hashes());
    let end = ends.find(|end| is_there(file(*end))).or_else(|| hashes().next());
    let end = end.unwrap_or(bytes.len());
    (file(end), bytes.get(end + 1..).map(String::from_utf8_lossy))
}

/// The arm that is meant, by its name, and what explains it.
fn explained(named: &OsStr) -> anyhow::Result<(String, Explained)> {
    let (file, arm) = file_and_arm(named);
    let records = records::read(file)?;
    let file = Path::new(file).display();
    let all = records.iter().flat_map(|record| &record.arms);
    let with: Vec<&Arm> = all.filter(|found| found.explained.is_some()).collect();
    let names = || with.iter().map(|found| printable(&found.name)).collect::<Vec<_>>().join(", ");
    let found = match (arm.as_deref(), with.as_slice()) {
        (_, []) => bail!(
            "{file}: no arm of it is explained; bytepath bench … --explain --json, or bytepath \
             explain … --json, makes such a record"
        ),
        (None, [only]) => *only,
        (None, _) => {
            bail!("{file}: several arms are explained; say which by {file}#ARM: {}", names())
        }
        (Some(arm), _) => match with.iter().find(|found| found.name == arm) {
            Some(found) => *found,
            None => bail!("{file}: no arm {arm:?} of it is explained; there are: {}", names()),
        },
    };
    let explained = found.explained.clone().context("it was just looked for")?;
    Ok((found.name.clone(), explained))
}
