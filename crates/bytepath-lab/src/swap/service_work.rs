//! The work of arms that are a real service in a group that is short of memory.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

use bytepath_report::Figures;
use hdrhistogram::Histogram;

use super::area::{Area, Wanted};
use super::server::{Server, handed_over};
use super::stage::{Stage, compressor};
use crate::arm::{Measured, Outcome, Timing, Work};
use crate::interrupt;
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
    /// What takes the pages.
    pub wanted: Wanted,
    /// How much memory there is.
    pub limit_bytes: u64,
    /// The service.
    pub shared: Rc<Shared>,
    /// The area, once it is made.
    pub area: OnceCell<Area>,
}

/// Of a server that the kernel ended for want of memory one more is run.
const ATTEMPTS: u32 = 2;

impl Work for ServiceWork {
    fn cpus(&self) -> &[usize] {
        &[]
    }

    fn is_served_by_the_kernel(&self) -> bool {
        true
    }

    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        let Measured::Time(time) = timing.measured else {
            return Err("a service is loaded for a time; give one".into());
        };
        let (loaded, figures) = self.loaded(timing.warm_up, time)?;
        let mut found = BTreeMap::new();
        if let Some(compressor) = compressor(self.wanted.backend) {
            found.insert("compressor".to_owned(), compressor.into());
        }
        let seconds = loaded.seconds;
        Ok(Outcome {
            value: loaded.transactions / seconds,
            seconds,
            found,
            latencies: Some(loaded.latencies),
            figures,
            ..Outcome::default()
        })
    }

    /// The tools, an area and a group; filling the service takes as long as a sample.
    fn trial(&self, _: &Timing) -> Result<(), String> {
        let service = self.shared.service.as_ref().map_err(String::clone)?;
        let stage =
            Stage::set(self.area()?, self.wanted.backend, self.limit_bytes, self.wanted.bytes)?;
        stage.end()?;
        service.prepared(&self.program, self.shared.folder()?)
    }
}

impl ServiceWork {
    fn area(&self) -> Result<&Area, String> {
        if self.area.get().is_none() {
            let _ = self.area.set(Area::make(&self.wanted)?);
        }
        Ok(self.area.get().expect("it was just made"))
    }

    fn loaded(&self, warm_up: Duration, time: Duration) -> Result<(Loaded, Figures), String> {
        for _ in 1..ATTEMPTS {
            if let Ok(done) = self.loaded_once(warm_up, time)? {
                return Ok(done);
            }
        }
        self.loaded_once(warm_up, time)?.map_err(|why| {
            format!(
                "the kernel ended it for want of memory, {ATTEMPTS} times ({why}); take a larger \
                 --area or --limit, or a smaller --size"
            )
        })
    }

    /// The inner error is that of a server that the kernel ended for want of memory.
    fn loaded_once(
        &self,
        warm_up: Duration,
        time: Duration,
    ) -> Result<Result<(Loaded, Figures), String>, String> {
        let service = self.shared.service.as_ref().map_err(String::clone)?;
        let directory = self.shared.folder()?;
        let mut stage =
            Stage::set(self.area()?, self.wanted.backend, self.limit_bytes, self.wanted.bytes)?;
        let done = self.on(&mut stage, service.as_ref(), directory, warm_up, time);
        let killed = stage.killed() > 0;
        stage.end()?;
        match done {
            Ok(done) => Ok(Ok(done)),
            Err(why) if killed && !interrupt::wished() => Ok(Err(why)),
            Err(why) => Err(why),
        }
    }

    fn on(
        &self,
        stage: &mut Stage,
        service: &dyn Service,
        directory: &Path,
        warm_up: Duration,
        time: Duration,
    ) -> Result<(Loaded, Figures), String> {
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
            Ok(loaded) => Ok((loaded, figures)),
            Err(why) if server.has_ended() => Err(format!("{why}; it ended{}", server.complaint())),
            Err(why) => Err(why),
        }
    }
}
