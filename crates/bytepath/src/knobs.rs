//! What can be set on a route, an outlet or an inlet.

use crate::pages::Pages;
use crate::wait::Wait;

/// What can be set; `None` leaves the choice to the mechanism.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Knobs {
    /// Bytes per call.
    pub chunk_bytes: Option<usize>,
    /// Size of every pipe at either end, and of pipes of our own.
    pub pipe_bytes: Option<usize>,
    /// Chunks in flight at once, where a mechanism can have more than one.
    pub queue_depth: Option<usize>,
    /// What to do when it cannot go on.
    pub wait: Wait,
    /// The pages of buffers of our own.
    pub pages: Pages,
}
