//! One movement between two real ends, with everything that must be true of it afterwards.

use std::fmt;
use std::os::fd::AsFd;

use bytepath::plan::PlanError;
use bytepath::routes::{Allowed, Cache};
use bytepath::{Cancel, Endpoint, Job, Knobs, Meter, Moved, Plan, Transfer, TransferError};

use crate::ends::{Pace, SinkKind, SourceKind, Supply, contents, set_nonblock};

/// A movement to be made.
#[derive(Clone)]
pub(crate) struct Trial {
    pub(crate) source: &'static SourceKind,
    pub(crate) sink: &'static SinkKind,
    /// Bytes that the source has.
    pub(crate) bytes: usize,
    pub(crate) limit: Option<u64>,
    /// The only route, or all of them.
    pub(crate) only: Option<&'static str>,
    pub(crate) aliasing: Allowed,
    pub(crate) cache: Cache,
    pub(crate) knobs: Knobs,
    /// Whether somebody could cancel it (nobody does).
    pub(crate) cancellable: bool,
    /// Whether either descriptor has O_NONBLOCK set.
    pub(crate) nonblock: Nonblock,
    /// How the far ends go about it.
    pub(crate) pace: Pace,
}

/// The ends with O_NONBLOCK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Nonblock {
    pub(crate) source: bool,
    pub(crate) sink: bool,
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} from {} to {}: {} bytes, limit {:?}, cache {:?}, {:?}, cancellable {}, {:?}, {:?}",
            self.only.unwrap_or("the best route"),
            self.source.name,
            self.sink.name,
            self.bytes,
            self.limit,
            self.cache,
            self.knobs,
            self.cancellable,
            self.nonblock,
            self.pace,
        )
    }
}

impl fmt::Debug for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What the plan and the transfer said.
pub(crate) type Answer = Result<Result<Moved, TransferError>, PlanError>;

/// How it ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// The plan has a reason not to try.
    Refused,
    /// The kernel had, before anything was moved.
    Declined(String),
    /// All bytes arrived, and everything that has to be true is.
    Moved(Moved),
}

impl Trial {
    /// All of `bytes` by all routes, from what they are.
    pub(crate) fn new(source: &'static SourceKind, sink: &'static SinkKind, bytes: usize) -> Self {
        Trial {
            source,
            sink,
            bytes,
            limit: None,
            only: None,
            aliasing: Allowed::Yes,
            cache: Cache::Keep,
            knobs: Knobs::default(),
            cancellable: false,
            nonblock: Nonblock { source: false, sink: false },
            pace: Pace::Whole,
        }
    }

    /// Whether it comes to an end.
    pub(crate) fn ends(&self) -> bool {
        match self.source.supply {
            Supply::Ends => true,
            Supply::Waits => self.limit.is_some_and(|limit| limit <= self.bytes as u64),
            Supply::Endless => self.limit.is_some(),
        }
    }

    /// Makes the movement and checks what has to be true of it.
    ///
    /// # Panics
    /// If anything is not.
    pub(crate) fn run(&self) -> Ended {
        self.run_where(|transfer| transfer())
    }

    /// The same, with the transfer alone made by `place`: on a thread of less rights, say.
    pub(crate) fn run_where(
        &self,
        place: impl FnOnce(&(dyn Fn() -> Answer + Sync)) -> Answer,
    ) -> Ended {
        let source = self.source.open_sized(contents(self.bytes), self.pace, self.knobs.pipe_bytes);
        let sink = self.sink.open(self.pace);
        set_nonblock(source.as_fd(), self.nonblock.source);
        set_nonblock(sink.as_fd(), self.nonblock.sink);
        let meter = Meter::new();
        let answer = {
            let from = Endpoint::source(source.as_fd()).expect("a source");
            let to = Endpoint::sink(sink.as_fd()).expect("a sink");
            let mut job = Job::new(&from, &to);
            (job.limit, job.aliasing, job.cache) = (self.limit, self.aliasing, self.cache);
            place(&|| self.transfer(&job, &meter))
        };
        let expected = self.expected();
        let moved = match &answer {
            Ok(Ok(moved)) => moved.bytes,
            Ok(Err(TransferError::Declined { offset, .. })) => *offset,
            Ok(Err(error)) => panic!("{error}"),
            Err(_) => 0,
        };
        let moved = usize::try_from(moved).expect("a size");
        assert_eq!(meter.bytes(), moved as u64, "the meter and the transfer agree");
        if let Some(arrived) = sink.finish() {
            same(&arrived, &expected[..moved]);
        }
        if self.source.supply != Supply::Endless {
            let left = &contents(self.bytes)[moved..];
            same(&source.rest(left.len()), left);
        }
        self.judged(answer, &expected, &meter)
    }

    fn transfer(&self, job: &Job<'_>, meter: &Meter) -> Answer {
        let plan = match self.only {
            Some(name) => Plan::only(name, job, self.knobs.clone())?,
            None => Plan::best(job, self.knobs.clone())?,
        };
        let cancel = Cancel::new().expect("a token");
        let transfer = Transfer::new(job, &plan).meter(meter);
        Ok(if self.cancellable { transfer.cancel(&cancel) } else { transfer }.run())
    }

    /// The bytes that have to arrive.
    fn expected(&self) -> Vec<u8> {
        let limit = self.limit.map_or(usize::MAX, |limit| limit.try_into().unwrap_or(usize::MAX));
        match self.source.supply {
            Supply::Endless => vec![0; limit],
            _ => contents(self.bytes.min(limit)).into(),
        }
    }

    fn judged(&self, answer: Answer, expected: &[u8], meter: &Meter) -> Ended {
        match (answer, self.only) {
            (Ok(Ok(moved)), only) => {
                assert_eq!(moved.bytes, expected.len() as u64, "all bytes were moved");
                assert!(meter.read().calls > 0 || self.limit == Some(0), "nothing was called");
                if let Some(only) = only {
                    assert_eq!(moved.route, only, "a route alone never falls back");
                    assert!(moved.declined.is_empty(), "{:?}", moved.declined);
                }
                Ended::Moved(moved)
            }
            (Ok(Err(TransferError::Declined { offset: 0, declined })), Some(only)) => {
                let [gave] = &declined[..] else { panic!("one route gave up: {declined:?}") };
                assert_eq!(gave.route, only);
                assert!(!gave.why.is_empty());
                Ended::Declined(gave.why.clone())
            }
            (Err(PlanError::Refused { route, refusal }), Some(only)) => {
                assert_eq!(route, only);
                assert!(!refusal.reason.is_empty());
                Ended::Refused
            }
            (answer, _) => panic!("{answer:?}"),
        }
    }
}

/// The bytes are the same; else where they differ, not all of them.
///
/// # Panics
/// If they are not.
pub(crate) fn same(got: &[u8], wanted: &[u8]) {
    if got == wanted {
        return;
    }
    let differ = got.iter().zip(wanted).position(|(got, wanted)| got != wanted);
    panic!(
        "{} bytes came where {} should have, differing from byte {differ:?} on",
        got.len(),
        wanted.len()
    );
}
