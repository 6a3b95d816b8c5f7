//! What the kernel's work on pages costs, seen from user space: looking them up and holding them
//! (get_user_pages), making them (page faults), mapping and unmapping, and walking page tables.
//!
//! Every way works on an area of its own, again and again; the clock runs only while the call that
//! is measured does. The unit is one base page of the area, or one access, or one call.

mod ways;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytepath::pages::{Memory, PageSize, Pages, PagesError};
use serde::{Deserialize, Serialize};

use crate::ends::Usage;
use crate::file_set::size_hint;
use crate::memory::in_wanted_pages;
use crate::sys::pinning;

pub use ways::{TOUCHES, by_name};

/// The area that most ways work on: in 2 MiB pages it is 16 of them.
pub const AREA_BYTES: usize = 32 << 20;

/// What an area is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    /// Pages that are there, of this size.
    Of(PageSize),
    /// Nothing yet: base pages that nobody has touched since they were given back.
    Untouched,
}

impl Made {
    /// Every kind.
    pub const ALL: &[Made] = &[
        Made::Of(PageSize::Base),
        Made::Of(PageSize::Huge),
        Made::Of(PageSize::Hugetlb),
        Made::Untouched,
    ];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Made::Of(size) => size.name(),
            Made::Untouched => "untouched",
        }
    }

    /// The kind of this name.
    pub fn named(name: &str) -> Option<Made> {
        Made::ALL.iter().copied().find(|made| made.name() == name)
    }

    /// The size of the pages that it has or will have.
    pub fn size(self) -> PageSize {
        match self {
            Made::Of(size) => size,
            Made::Untouched => PageSize::Base,
        }
    }
}

/// One way of touching pages.
pub struct Touch {
    /// Its name.
    pub name: &'static str,
    /// What it does, in a few words.
    pub summary: &'static str,
    /// What one of its operations is.
    pub operation: &'static str,
    /// Which areas it is measured on.
    pub on: &'static [Made],
    /// Bytes of its area.
    pub area_bytes: usize,
    measure: fn(&Setting, &mut Clock) -> Result<(), TouchError>,
}

/// What is measured.
#[derive(Debug, Clone)]
pub struct Setting {
    /// What the area is made of.
    pub made: Made,
    /// Its bytes.
    pub area_bytes: usize,
    /// Where a file is made.
    pub directory: PathBuf,
}

/// Why something is not measured.
#[derive(Debug, thiserror::Error)]
pub enum TouchError {
    /// It cannot be had here.
    #[error("{0}")]
    Unavailable(String),
    /// There is no such memory.
    #[error(transparent)]
    Pages(#[from] PagesError),
    /// A call failed.
    #[error("{what}: {errno}{}", size_hint(errno, "", ""))]
    Failed {
        /// What was done.
        what: &'static str,
        /// The kernel's word.
        errno: std::io::Error,
    },
}

impl TouchError {
    fn of<E: Into<std::io::Error>>(what: &'static str) -> impl Fn(E) -> TouchError {
        move |errno| TouchError::Failed { what, errno: errno.into() }
    }
}

impl From<crate::memory::SweepError> for TouchError {
    fn from(error: crate::memory::SweepError) -> TouchError {
        TouchError::Unavailable(error.to_string())
    }
}

/// What came.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct TouchReport {
    /// How many operations.
    pub operations: u64,
    /// How long they took, without what lies between them.
    pub seconds: f64,
    /// What all of it used, with what lies between them.
    pub usage: Usage,
}

/// Clocks what is measured, until there was enough of it.
pub struct Clock {
    /// Ends the warm-up, then the measuring.
    until: Instant,
    measured: Option<Duration>,
    operations: u64,
    spent: Duration,
    before: Usage,
}

impl Clock {
    /// Whether more is to be measured. The warm-up comes first.
    fn goes_on(&mut self) -> bool {
        if Instant::now() < self.until {
            return true;
        }
        match self.measured.take() {
            Some(time) => {
                self.until = Instant::now() + time;
                (self.operations, self.spent) = (0, Duration::ZERO);
                self.before = Usage::of_this_process();
                true
            }
            // One that takes longer than its time is measured once.
            None => self.operations == 0,
        }
    }

    /// Clocks one piece of work of so many operations.
    fn clock<T>(&mut self, operations: u64, work: impl FnOnce() -> T) -> T {
        let started = Instant::now();
        let done = work();
        self.add(operations, started.elapsed());
        done
    }

    fn add(&mut self, operations: u64, spent: Duration) {
        self.operations += operations;
        self.spent += spent;
    }
}

/// Measures one way.
///
/// # Errors
/// As [`TouchError`] tells.
pub fn run(
    touch: &Touch,
    setting: &Setting,
    warm_up: Duration,
    time: Duration,
) -> Result<TouchReport, TouchError> {
    let now = Instant::now();
    let mut clock = Clock {
        until: now + warm_up,
        measured: Some(time),
        operations: 0,
        spent: Duration::ZERO,
        before: Usage::of_this_process(),
    };
    (touch.measure)(setting, &mut clock)?;
    Ok(TouchReport {
        operations: clock.operations,
        seconds: clock.spent.as_secs_f64(),
        usage: Usage::of_this_process().since(clock.before),
    })
}

/// An area as the setting wants it.
struct Area {
    memory: Memory,
    made: Made,
}

impl Area {
    fn make(setting: &Setting) -> Result<Area, TouchError> {
        let pages = Pages { size: setting.made.size(), locked: false };
        let mut memory = Memory::allocate(setting.area_bytes, &pages)?;
        memory.as_mut_slice().fill(1);
        in_wanted_pages(memory.as_slice(), setting.made.size())?;
        Ok(Area { memory, made: setting.made })
    }

    /// Has the area as it is to be before each piece of work.
    fn ready(&mut self) -> Result<&[u8], TouchError> {
        if self.made == Made::Untouched {
            self.discard()?;
        }
        Ok(self.memory.as_slice())
    }

    fn ready_to_write(&mut self) -> Result<&mut [u8], TouchError> {
        if self.made == Made::Untouched {
            self.discard()?;
        }
        Ok(self.memory.as_mut_slice())
    }

    fn discard(&mut self) -> Result<(), TouchError> {
        pinning::discard(self.memory.as_mut_slice()).map_err(TouchError::of("madvise"))
    }
}

/// How many base pages so many bytes are.
fn base_pages(bytes: usize) -> u64 {
    (bytes / rustix::param::page_size()) as u64
}
