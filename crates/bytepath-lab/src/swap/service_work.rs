//! The work of arms that are a real service in a group that is short of memory.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use bytepath_report::Figures;
use hdrhistogram::Histogram;

use super::server::{Server, handed_over};
use super::shortage::Shortage;
use super::stage::Stage;
use crate::arm::{Measured, Outcome, Timing, Work};
use crate::confine::is_reached_by_nobody;
use crate::left::Folder;

/// A server with data that does not fit, and a load for it.
pub trait Service {
    /// Makes what all samples have in common, once.
    ///
    /// # Errors
    /// Why not, and what to do.
    fn prepared(&self, bytepath: &Path, directory: &Path) -> Result<(), String>;

    /// Starts it in groups, with its data where it can be reached.
    ///
    /// # Errors
    /// Why not, and what to do.
    fn up(&self, bytepath: &Path, directory: &Path, groups: Vec<PathBuf>)
    -> Result<Server, String>;

    /// Loads it for so long.
    ///
    /// # Errors
    /// What went wrong.
    fn load(&self, directory: &Path, time: Duration) -> Result<Loaded, String>;
}

/// What a load came to.
pub struct Loaded {
    /// Transactions that were done.
    pub transactions: f64,
    /// How long that took.
    pub seconds: f64,
    /// How long each of them took.
    pub latencies: Histogram<u64>,
}

/// The service of all arms, and its directory, made when first needed.
pub struct Shared {
    /// It, or why there is none.
    pub service: Result<Box<dyn Service>, String>,
    /// Where its directory is made, or why nowhere.
    pub directory: Result<PathBuf, String>,
    folder: OnceCell<Folder>,
}

impl Shared {
    /// Nothing is made yet.
    pub fn new(
        service: Result<Box<dyn Service>, String>,
        directory: Result<PathBuf, String>,
    ) -> Shared {
        Shared { service, directory, folder: OnceCell::new() }
    }

    fn folder(&self) -> Result<&Path, String> {
        if self.folder.get().is_none() {
            let directory = self.directory.clone()?;
            is_reached_by_nobody(&directory)?;
            let made = Folder::make(&directory).and_then(|folder| {
                handed_over(folder.path())?;
                Ok(folder)
            });
            let made = made.map_err(|error| format!("{}: {error}", directory.display()))?;
            let _ = self.folder.set(made);
        }
        Ok(self.folder.get().expect("it was just made").path())
    }
}

/// A service, again and again.
pub struct ServiceWork {
    /// The `bytepath` executable.
    pub program: PathBuf,
    /// How much memory there is, and what takes the pages.
    pub shortage: Shortage,
    /// The service.
    pub shared: Rc<Shared>,
}

impl Work for ServiceWork {
    fn is_served_by_the_kernel(&self) -> bool {
        true
    }

    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        let Measured::Time(time) = timing.measured else {
            return Err("a service is loaded for a time; give one".into());
        };
        let service = self.shared.service.as_ref().map_err(String::clone)?;
        let directory = self.shared.folder()?;
        let on =
            |stage: &mut Stage| self.on(stage, service.as_ref(), directory, timing.warm_up, time);
        let mut outcome = self.shortage.staged(on)?;
        outcome.found.extend(self.shortage.found());
        Ok(outcome)
    }

    /// The tools, an area and a group; filling the service takes as long as a sample.
    fn trial(&self, _: &Timing) -> Result<(), String> {
        let service = self.shared.service.as_ref().map_err(String::clone)?;
        self.shortage.stage()?.end()?;
        service.prepared(&self.program, self.shared.folder()?)
    }
}

impl ServiceWork {
    fn on(
        &self,
        stage: &mut Stage,
        service: &dyn Service,
        directory: &Path,
        warm_up: Duration,
        time: Duration,
    ) -> Result<Outcome, String> {
        let mut server = service.up(&self.program, directory, stage.joined.clone())?;
        let mut figures = Figures::default();
        if !warm_up.is_zero() {
            service.load(directory, warm_up)?;
        }
        stage.begins();
        let loaded = service.load(directory, time);
        figures.add("major faults", "count", stage.major_faults().map(|count| count as f64));
        stage.taken(&mut figures);
        stage.moved(&mut figures);
        match loaded {
            Ok(loaded) => Ok(Outcome {
                value: loaded.transactions / loaded.seconds,
                seconds: loaded.seconds,
                found: BTreeMap::from([("words".to_owned(), server.words.clone().into())]),
                latencies: Some(loaded.latencies),
                figures,
                ..Outcome::default()
            }),
            Err(why) if server.has_ended() => Err(format!("{why}; it ended{}", server.complaint())),
            Err(why) => Err(why),
        }
    }
}
