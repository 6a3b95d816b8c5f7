//! What a job may have to tell.

use bytepath::Meter;

/// How far a job is. What a command does not know is left out of the metrics.
#[derive(Debug, Clone, Default)]
pub(crate) struct Figures {
    /// Bytes that were moved, by route.
    pub(crate) routes: Vec<(&'static str, u64)>,
    /// How many they are is not known.
    pub(crate) is_moved_unknown: bool,
    /// All that there is to move.
    pub(crate) expected_bytes: Option<u64>,
    /// What of it is left as it is.
    pub(crate) skipped_bytes: Option<u64>,
    /// What is known to be on the device.
    pub(crate) durable_bytes: Option<u64>,
    /// System calls that moved bytes, and times that a mover waited.
    pub(crate) calls: Option<u64>,
    pub(crate) waits: Option<u64>,
    pub(crate) files: Option<u64>,
    pub(crate) lines: Option<u64>,
    /// The names of outputs, and how far each is behind.
    pub(crate) outputs: Vec<(String, u64)>,
    pub(crate) stages: Vec<StageFigures>,
    pub(crate) pipes: Vec<PipeFigures>,
}

/// A program of a pipeline.
#[derive(Debug, Clone, Default)]
pub(crate) struct StageFigures {
    pub(crate) program: String,
    pub(crate) cpu_seconds: f64,
    /// By read and write calls; unknown where the kernel does not say.
    pub(crate) read_and_written_bytes: Option<(u64, u64)>,
}

/// A pipe between two of them, which are told by their place.
#[derive(Debug, Clone, Default)]
pub(crate) struct PipeFigures {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) moved_bytes: Option<u64>,
    pub(crate) fill_bytes: u64,
    pub(crate) holds_bytes: u64,
}

impl Figures {
    /// Those of a meter.
    pub(crate) fn of(meter: &Meter) -> Figures {
        let reading = meter.read();
        Figures {
            routes: meter.by_route(),
            calls: Some(reading.calls),
            waits: Some(reading.waits),
            ..Figures::default()
        }
    }

    /// Adds bytes that went by a route.
    fn add(&mut self, route: &'static str, bytes: u64) {
        match self.routes.iter_mut().find(|(name, _)| *name == route) {
            Some((_, sum)) => *sum += bytes,
            None if bytes > 0 => self.routes.push((route, bytes)),
            None => {}
        }
    }

    /// Adds bytes that went by a route by calls that were not counted; nor are all, then.
    pub(crate) fn add_uncounted(&mut self, route: &'static str, bytes: u64) {
        self.calls = self.calls.filter(|_| bytes == 0);
        self.add(route, bytes);
    }

    /// Adds those of another mover of the same job. What there is to move, and how many calls there were,
    /// is known where both know it.
    pub(crate) fn with(mut self, other: Figures) -> Figures {
        let sum = |one: Option<u64>, other: Option<u64>| match (one, other) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        other.routes.iter().for_each(|(route, bytes)| self.add(route, *bytes));
        self.expected_bytes = self.expected_bytes.zip(other.expected_bytes).map(|(a, b)| a + b);
        self.durable_bytes = sum(self.durable_bytes, other.durable_bytes);
        self.calls = self.calls.zip(other.calls).map(|(a, b)| a + b);
        self.waits = sum(self.waits, other.waits);
        self.lines = sum(self.lines, other.lines);
        self
    }
}
