//! One sample of a copy: a program in a process of its own, from its start to its end.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::copiers::Line;
use super::ground::Ground;
use super::material::{Material, Supply};
use crate::arm::{Outcome, Timing, Work};
use crate::clock::{Clocked, monotonic_ns};
use crate::clocked::Asked;
use crate::ends::{GIB, Starter, Usage, costs_per_gib};
use crate::to_the_end::to_the_end;

/// Who copies.
pub enum Mover {
    /// `bytepath carry` by one route, which never takes another.
    Route(&'static str),
    /// A program.
    Program(Line),
}

/// What the page cache holds of the source when a copy begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cache {
    /// All of it.
    Hot,
    /// Nothing.
    Cold,
}

impl Cache {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Cache::Hot => "hot",
            Cache::Cold => "cold",
        }
    }
}

/// When a copy has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// When its program has.
    Ended,
    /// When it is on the device as well.
    Durable,
}

/// A copy, again and again.
pub struct CopyWork {
    /// The `bytepath` executable.
    pub program: PathBuf,
    /// Who copies.
    pub mover: Mover,
    /// What is copied.
    pub supply: Rc<Supply>,
    /// Where.
    pub ground: Rc<Ground>,
    /// What of it is in the page cache.
    pub cache: Cache,
    /// When the clock stops.
    pub until: Until,
    /// Whether a copy was compared byte by byte already.
    pub compared: Cell<bool>,
    /// Whether what is in the page cache afterwards is told.
    pub tells_residency: bool,
}

/// The slowest machines copy 16 MiB/s.
const SLOWEST_BYTES_PER_S: u64 = 16 << 20;
const PATIENCE: Duration = Duration::from_secs(60);

impl Work for CopyWork {
    fn sample(&self, _: &Timing) -> Result<Outcome, String> {
        self.copied(&self.supply.whole)
    }

    fn trial(&self, _: &Timing) -> Result<(), String> {
        let tried = self.copied(&self.supply.trial).map(drop);
        self.compared.set(false);
        tried
    }
}

impl CopyWork {
    /// The copy's own place; there is one at a time.
    fn sink(&self) -> PathBuf {
        self.ground.root().join("copy")
    }

    fn copied(&self, material: &Material) -> Result<Outcome, String> {
        let sink = Gone(self.sink());
        remove(&sink.0)?;
        match self.cache {
            Cache::Hot => material.heat()?,
            Cache::Cold => material.cool().and_then(|()| self.ground.cool())?,
        }
        if self.until == Until::Durable {
            // What others have written is not this copy's to wait for.
            self.ground.sync()?;
        }
        let Clocked { began_ns, seconds, usage, .. } = self.carried_out(material, &sink.0)?;
        let seconds = match self.until {
            Until::Ended => seconds,
            // The kernel writes on between the end of the program and this.
            Until::Durable => {
                self.ground.sync()?;
                monotonic_ns().saturating_sub(began_ns) as f64 / 1e9
            }
        };
        // Before the copy is read to be checked.
        let resident = match self.tells_residency {
            true => Some(Resident {
                source: material.resident()?,
                copy: material.resident_of(&sink.0)?,
            }),
            false => None,
        };
        let held = material.check(&sink.0, !self.compared.replace(true))?;
        let mut outcome = outcome(material.bytes(), held, seconds, usage);
        outcome.found.extend(resident.into_iter().flat_map(Resident::found));
        Ok(outcome)
    }

    /// Runs the program to its end.
    fn carried_out(&self, material: &Material, sink: &Path) -> Result<Clocked, String> {
        let mut complaint = tempfile::tempfile().map_err(told)?;
        let patience = PATIENCE + Duration::from_secs(material.bytes() / SLOWEST_BYTES_PER_S);
        let clocked = match &self.mover {
            Mover::Route(route) => {
                let mut command = self.carrying(route, material, sink)?;
                carried(command.stderr(complaint.try_clone().map_err(told)?), patience)?
            }
            Mover::Program(line) => {
                let words = line.words(material.path(), sink);
                let output = line.to_standard_output().then(|| made(sink)).transpose()?;
                let (program, output) = (self.program.as_path(), output.as_ref());
                let asked = Asked { program, words: &words, input: None, output, patience };
                let clocked = asked.clocked(&mut complaint)?;
                match clocked.not_started(&words[0].to_string_lossy()) {
                    Some(why) => return Err(why),
                    None => clocked,
                }
            }
        };
        if clocked.code == Some(0) {
            return Ok(clocked);
        }
        let mut text = String::new();
        let _ = complaint.rewind().and_then(|()| complaint.read_to_string(&mut text));
        let text = text.trim().trim_start_matches("bytepath: ");
        Err(match text.is_empty() {
            true => format!("it failed ({})", clocked.status()),
            false => text.to_owned(),
        })
    }

    fn carrying(&self, route: &str, material: &Material, sink: &Path) -> Result<Command, String> {
        let mut command = Command::new(&self.program);
        command.args(["carry", "--route", route]).args(Starter::this().words());
        command.stdin(File::open(material.path()).map_err(told)?).stdout(made(sink)?);
        Ok(command)
    }
}

/// Runs a route to its end; it ends with this process by itself.
fn carried(command: &mut Command, patience: Duration) -> Result<Clocked, String> {
    let before = Usage::of_children();
    let (began_ns, began) = (monotonic_ns(), Instant::now());
    let status = to_the_end(command, patience)?;
    Ok(Clocked {
        began_ns,
        seconds: began.elapsed().as_secs_f64(),
        usage: Usage::of_children().since(before),
        code: status.code(),
        signal: status.signal(),
        ..Clocked::default()
    })
}

fn made(sink: &Path) -> Result<File, String> {
    let made = File::options().read(true).write(true).create_new(true).open(sink);
    made.map_err(|error| format!("cannot make the copy: {error}"))
}

/// Shares of pages that are in the page cache.
struct Resident {
    source: f64,
    copy: f64,
}

impl Resident {
    /// As the record has them.
    fn found(self) -> [(String, Value); 2] {
        let [source, copy] = bytepath_report::RESIDENT;
        [(source.to_owned(), self.source.into()), (copy.to_owned(), self.copy.into())]
    }
}

fn outcome(bytes: u64, held: u64, seconds: f64, usage: Usage) -> Outcome {
    let gib = bytes as f64 / GIB;
    let costs = costs_per_gib(&usage, None, bytes);
    let found = BTreeMap::from([
        ("bytes".to_owned(), bytes.into()),
        ("bytes_held".to_owned(), held.into()),
    ]);
    Outcome { value: gib / seconds.max(1e-9), seconds, costs, found, ..Outcome::default() }
}

/// A copy that is removed when it is dropped: before the next one, and outside the clock.
struct Gone(PathBuf);

impl Drop for Gone {
    fn drop(&mut self) {
        // The next sample says so where it cannot be removed.
        let _ = remove(&self.0);
    }
}

fn remove(path: &Path) -> Result<(), String> {
    let removed = match path.symlink_metadata() {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(_) => std::fs::remove_file(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    removed.map_err(|error| format!("cannot remove the last copy: {error}"))
}

fn told(error: std::io::Error) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::copies::ground;
    use crate::copies::material::{Amount, Kind};

    /// In the place of `bytepath clock`: it says that the command ended at once, and was started when the
    /// machine was.
    const CLOCK: &str = r#"#!/bin/sh
while [ "$1" != -- ]; do shift; done
shift
"$@" && cat << 'END'
{"began_ns": 0, "seconds": 0.0, "code": 0, "peak_bytes": null, "own_bytes": null, "signal": null, "errno": null,
"usage": {"user_s": 0.0, "system_s": 0.0, "switches_voluntary": 0, "switches_involuntary": 0, "faults": 0}}
END
"#;

    #[test]
    fn what_is_to_be_durable_takes_from_the_start_of_its_program_to_the_end_of_the_sync() {
        let folder = tempfile::tempdir().expect("a folder");
        let program = folder.path().join("clock");
        std::fs::write(&program, CLOCK).expect("written");
        std::fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("it runs");
        let ground = Ground::make(ground::Kind::Directory, folder.path(), 0).expect("a ground");
        let amount = Amount { file_bytes: 1 << 16, files: 1 };
        let supply = Rc::new(Supply::make(Kind::One, &ground, amount).expect("a file"));
        let ground = Rc::new(ground);
        let taken = |until| {
            let work = CopyWork {
                program: program.clone(),
                mover: Mover::Program(Line::of(["cp".to_owned()])),
                supply: supply.clone(),
                ground: ground.clone(),
                cache: Cache::Hot,
                until,
                compared: Cell::new(false),
                tells_residency: false,
            };
            work.copied(&supply.whole).expect("it is copied").seconds
        };
        let up = monotonic_ns() as f64 / 1e9;
        assert_eq!(taken(Until::Ended), 0.0);
        assert!(taken(Until::Durable) >= up);
    }
}
