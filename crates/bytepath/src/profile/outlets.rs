//! How fast each outlet wrote into a pipe, by what is sent and by who reads.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::reading::{is_sound, knobs_are_sound};
use crate::outlets::Use;
use crate::size::shown;
use crate::wait::Wait;

/// An outlet with its settings; what is absent is left to the outlet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sending {
    /// The outlet's name.
    pub outlet: String,
    /// Whether its buffers lie in huge pages.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub huge_pages: bool,
    /// Bytes per buffer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub buf_bytes: Option<usize>,
    /// The size that the pipe is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pipe_bytes: Option<usize>,
    /// How long to spin before sleeping, in nanoseconds; absent where it sleeps at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spin_ns: Option<u64>,
}

impl Sending {
    /// An outlet by its name, with its own settings.
    pub fn by(outlet: &str) -> Sending {
        let (buf_bytes, pipe_bytes, spin_ns) = (None, None, None);
        Sending { outlet: outlet.into(), huge_pages: false, buf_bytes, pipe_bytes, spin_ns }
    }

    /// The wait that it means.
    pub fn wait(&self) -> Wait {
        match self.spin_ns {
            Some(budget) => Wait::Hybrid(Duration::from_nanos(budget)),
            None => Wait::Block,
        }
    }
}

impl fmt::Display for Sending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.outlet)?;
        if let Some(bytes) = self.buf_bytes {
            write!(f, ", {} a buffer", shown(bytes as u64))?;
        }
        if self.huge_pages {
            f.write_str(", huge pages")?;
        }
        if let Some(bytes) = self.pipe_bytes {
            write!(f, ", a pipe of {}", shown(bytes as u64))?;
        }
        if let Some(budget) = self.spin_ns {
            write!(f, ", spins {} us", budget / 1000)?;
        }
        Ok(())
    }
}

/// What an outlet gave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sent {
    /// What was chosen.
    #[serde(flatten)]
    pub choice: Sending,
    /// Whether new bytes were sent all the time, or the same ones.
    pub used_for: Use,
    /// The median speed with a reader that copies what comes.
    pub read_gib_per_s: f64,
    /// The median speed with a reader that drops the pages.
    pub splice_gib_per_s: f64,
}

impl Sent {
    /// One figure for both readers, as nobody knows which one it will be: their geometric mean, in
    /// which a tenth more for the one weighs as much as a tenth more for the other.
    pub fn overall_gib_per_s(&self) -> f64 {
        (self.read_gib_per_s * self.splice_gib_per_s).sqrt()
    }

    pub(super) fn is_sound(&self) -> bool {
        let Sending { buf_bytes, pipe_bytes, spin_ns, .. } = self.choice;
        is_sound(self.read_gib_per_s)
            && is_sound(self.splice_gib_per_s)
            && knobs_are_sound(buf_bytes, pipe_bytes, spin_ns)
    }
}
