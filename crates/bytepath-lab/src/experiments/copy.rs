//! `copy`: how fast programs and routes copy files and trees, on one file system after the other.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::Path;
use std::rc::Rc;

use bytepath::routes::{ROUTES, Route};
use bytepath::{Endpoint, Job};
use bytepath_report::Unit;

use super::Description;
use crate::arm::{Arm, Work};
use crate::copies::copiers::{Copier, Line};
use crate::copies::ground::{self, Ground};
use crate::copies::material::{Amount, Kind, Supply};
use crate::copies::work::{Cache, CopyWork, Mover, Until};
use crate::facts::FILE_SYSTEM;

/// What it asks.
pub const DESCRIPTION: Description = Description {
    name: "copy",
    question: "How fast are files and trees copied, by which program and which route?",
    definition: "A program copies a file or a tree to a place where there is none, on the same \
                 file system; the clock runs from its start to its end, and on to the end of \
                 syncfs where it says fsync. What is copied is in the page cache (hot) or not \
                 (cold), by mincore; what names it is always. one: random bytes; sparse: 64 KiB of \
                 each MiB are data, the rest holes, which count as bytes; tree: files of 0 to \
                 64 KiB, each power of two as frequent as the next, 100 to a directory. Every copy \
                 is checked: its sizes, a file's bytes by their sum, and of trees the first byte by \
                 byte. What of source and copy is in the page cache when the clock stops is told as \
                 a share of their pages, where that is asked for.",
};

/// Our own copier.
const OURS: &str = "bytepath-cp";

/// The same, leaving the page cache as it was.
const UNCACHED: (&str, &str) = ("bytepath-cp-uncached", "--uncached");

/// What is asked for.
pub struct Asked<'a> {
    /// The `bytepath` executable.
    pub program: &'a Path,
    /// What is copied.
    pub works: &'a [Kind],
    /// What of it is in the page cache.
    pub caches: &'a [Cache],
    /// When a copy has ended.
    pub until: &'a [Until],
    /// Programs beside ours; the first is the reference.
    pub peers: &'a [&'static Copier],
    /// Any other programs, by their words.
    pub others: &'a [Vec<String>],
    /// Whether there are arms that leave the page cache as it was, and all tell what is there.
    pub uncached: bool,
}

/// A ground with what is copied there, or why there is none.
pub struct Place {
    /// Which ground.
    pub kind: ground::Kind,
    /// The ground.
    pub ground: Result<Rc<Ground>, String>,
    supplies: Vec<(Kind, Result<Rc<Supply>, String>)>,
}

impl Place {
    /// Makes what is copied.
    pub fn supplied(
        kind: ground::Kind,
        ground: Result<Ground, String>,
        works: &[Kind],
        amount: Amount,
    ) -> Place {
        let ground = ground.map(Rc::new);
        let supply = |work: &Kind| {
            let ground = ground.as_ref().map_err(String::clone);
            (*work, ground.and_then(|ground| Supply::make(*work, ground, amount)).map(Rc::new))
        };
        let supplies = works.iter().map(supply).collect();
        Place { kind, ground, supplies }
    }

    /// One that is not made, because its arms are only to be named.
    pub fn named(kind: ground::Kind, works: &[Kind]) -> Place {
        Place::supplied(
            kind,
            Err("it is only named".into()),
            works,
            Amount { file_bytes: 0, files: 0 },
        )
    }
}

/// The arms, section by section: a ground, a kind of material, the page cache, the end.
pub fn arms(places: &[Place], asked: &Asked<'_>) -> Vec<Arm> {
    let mut arms = Vec::new();
    for place in places {
        for work in asked.works {
            for cache in asked.caches {
                for until in asked.until {
                    let section = Section { place, work: *work, cache: *cache, until: *until };
                    arms.extend(section.arms(asked));
                }
            }
        }
    }
    arms
}

/// What the arms of one section have in common.
struct Section<'a> {
    place: &'a Place,
    work: Kind,
    cache: Cache,
    until: Until,
}

impl Section<'_> {
    fn arms(&self, asked: &Asked<'_>) -> Vec<Arm> {
        let mut arms = Vec::new();
        let is_mount = self.place.ground.as_ref().is_ok_and(|ground| ground.is_mount());
        for peer in asked.peers {
            let line = peer.line(self.work, is_mount);
            arms.push(self.arm(peer.name, line.map(Mover::Program), asked));
        }
        arms.push(self.arm(OURS, Ok(self.ours(asked, None)), asked));
        if asked.uncached {
            let (name, option) = UNCACHED;
            arms.push(self.arm(
                name,
                self.leaving_the_cache(self.ours(asked, Some(option))),
                asked,
            ));
        }
        for words in asked.others {
            let line = Line::of_other(words, is_mount);
            arms.push(self.arm(&words.join(" "), line.map(Mover::Program), asked));
        }
        if self.work == Kind::One {
            for route in routes_between_files() {
                let mover = Mover::Route(route.name());
                match (route.leaves_cache().is_ok(), asked.uncached) {
                    (false, _) => arms.push(self.arm(route.name(), Ok(mover), asked)),
                    (true, true) => {
                        arms.push(self.arm(route.name(), self.leaving_the_cache(mover), asked));
                    }
                    (true, false) => {}
                }
            }
        }
        arms
    }

    /// Our own copier, with an option.
    fn ours(&self, asked: &Asked<'_>, option: Option<&str>) -> Mover {
        let recursive = (self.work == Kind::Tree).then_some("-r");
        let words = ["cp"].into_iter().chain(recursive).chain(option).map(str::to_owned);
        let path = asked.program.display().to_string();
        Mover::Program(Line::of(std::iter::once(path).chain(words)))
    }

    /// A mover that leaves the page cache as it was, where copies can be anywhere else.
    fn leaving_the_cache(&self, mover: Mover) -> Result<Mover, String> {
        match &self.place.ground {
            Ok(ground) if ground.is_memory() => Err("its files are in the page cache and nowhere \
                                                     else, so every copy stays there"
                .into()),
            _ => Ok(mover),
        }
    }

    fn name(&self) -> String {
        let fsync = if self.until == Until::Durable { "+fsync" } else { "" };
        format!("{}/{}/{}{fsync}", self.place.kind.name(), self.work.name(), self.cache.name())
    }

    fn arm(&self, name: &str, mover: Result<Mover, String>, asked: &Asked<'_>) -> Arm {
        let line = mover.as_ref().map(|mover| match mover {
            Mover::Route(route) => format!("bytepath carry --route {route}"),
            Mover::Program(line) => line.shown(),
        });
        let mut params = BTreeMap::from([
            ("work".to_owned(), self.work.name().into()),
            ("cache".to_owned(), self.cache.name().into()),
            ("fsync".to_owned(), (self.until == Until::Durable).into()),
        ]);
        if let Ok(line) = line {
            params.insert("copier".to_owned(), line.into());
        }
        if let Ok(ground) = &self.place.ground {
            params.insert(FILE_SYSTEM.to_owned(), ground.file_system().into());
        }
        Arm {
            name: format!("{}/{name}", self.name()),
            section: Some(self.name()),
            params,
            unit: Unit::GibPerSecond,
            touched: false,
            published: None,
            work: self.work(mover, asked),
        }
    }

    fn work(
        &self,
        mover: Result<Mover, String>,
        asked: &Asked<'_>,
    ) -> Result<Box<dyn Work>, String> {
        let ground = self.place.ground.clone()?;
        if self.cache == Cache::Cold && ground.is_memory() {
            return Err("its files are memory and nothing else: they are never cold".into());
        }
        let supply = self.place.supplies.iter().find(|(work, _)| *work == self.work);
        let supply = supply.map_or_else(|| Err("it was not made".into()), |(_, made)| made.clone());
        Ok(Box::new(CopyWork {
            program: asked.program.to_owned(),
            mover: mover?,
            supply: supply?,
            ground,
            cache: self.cache,
            until: self.until,
            compared: Cell::new(false),
            tells_residency: asked.uncached,
        }))
    }
}

/// The routes that can join two files, by their rules.
fn routes_between_files() -> Vec<&'static dyn Route> {
    let made = || {
        let (from, to) = (tempfile::tempfile()?, tempfile::tempfile()?);
        // Some routes have no use for a file without bytes.
        from.set_len(1 << 20)?;
        std::io::Result::Ok((from, to))
    };
    // Where no file can be made, every route is an arm, and says itself why it cannot run.
    let Ok((from, to)) = made() else { return ROUTES.to_vec() };
    let ends = (Endpoint::source(from.as_fd()), Endpoint::sink(to.as_fd()));
    let (Ok(source), Ok(sink)) = ends else { return Vec::new() };
    let job = Job::new(&source, &sink);
    ROUTES.iter().copied().filter(|route| route.suits(&job).is_ok()).collect()
}
