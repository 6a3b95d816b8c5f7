//! `movers`: programs that copy their standard input to their standard output, side by side between
//! the same two ends.

use std::collections::BTreeMap;
use std::path::Path;

use bytepath::profile::End;
use bytepath_report::Unit;

use super::Description;
use crate::arm::{Arm, Work};
use crate::experiments::pairs::Setup;
use crate::pair_work::{Mover, PairWork};

/// What it asks.
pub const DESCRIPTION: Description = Description {
    name: "movers",
    question: "How fast do programs move bytes from one end to another?",
    definition: "Each program copies its standard input to its standard output, from its start to \
                 its end. A file is in the page cache; a pipe or socket is kept full by another \
                 process, and emptied by one that reads 1 MiB at a time. The processes run where \
                 the scheduler puts them.",
};

/// Our own movers, after the name of the program.
const OURS: &[&[&str]] = &[&["cat"], &["pv", "-q"], &["pv", "-f", "-i", "0.1"], &["tee"]];

/// A program that moves.
#[derive(Debug, Clone)]
pub struct Program {
    /// The arm's name.
    pub name: String,
    /// Its words.
    pub words: Vec<String>,
}

/// Our own movers, by the path of this program.
pub fn ours(program: &Path) -> Vec<Program> {
    let path = program.display().to_string();
    OURS.iter()
        .map(|words| Program {
            name: format!("bytepath {}", words.join(" ")),
            words: std::iter::once(path.as_str())
                .chain(words.iter().copied())
                .map(str::to_owned)
                .collect(),
        })
        .collect()
}

/// The arms: one a program. One that is not there carries its reason.
pub fn arms(
    (source, sink): (End, End),
    programs: Vec<Result<Program, (String, String)>>,
    setup: &Setup<'_>,
) -> Vec<Arm> {
    let arm = |program: Result<Program, (String, String)>| {
        let (name, words) = match program {
            Ok(program) => (program.name, Ok(program.words)),
            Err((name, why)) => (name, Err(why)),
        };
        let line = words.as_ref().map_or_else(|_| name.clone(), |words| words.join(" "));
        let params = BTreeMap::from([
            ("source".to_owned(), source.to_string().into()),
            ("sink".to_owned(), sink.to_string().into()),
            ("mover".to_owned(), line.into()),
        ]);
        let work = words.map(|words| {
            let work = PairWork {
                program: setup.program.into(),
                mover: Mover::Program(words),
                source,
                sink,
                directory: setup.directory.into(),
                file: setup.file.into(),
                inlet: setup.inlet,
            };
            Box::new(work) as Box<dyn Work>
        });
        let unit = Unit::GibPerSecond;
        Arm { name, section: None, params, unit, touched: false, published: None, work }
    };
    programs.into_iter().map(arm).collect()
}
