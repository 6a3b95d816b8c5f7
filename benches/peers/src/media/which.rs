//! The media by their names, and how ends wait.

use clap::ValueEnum;

/// A medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Medium {
    /// iceoryx2: publish and subscribe, samples that are lent.
    Iceoryx2,
    /// bytepath's queue of messages, its bytes seen as slices: the other end is trusted, as by
    /// iceoryx2.
    Bytepath,
    /// The same, its bytes seen as atomic words: nobody is trusted.
    BytepathAtomic,
    /// The same as `bytepath`, with the usual wait: spin for a while, then sleep.
    BytepathHybrid,
    /// Python's multiprocessing.Pipe.
    PythonPipe,
    /// Python's multiprocessing.Queue.
    PythonQueue,
}

/// What an end does while there is nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Wait {
    /// Sleep.
    Block,
    /// Look again at once; where both ends have one CPU, let the other run first.
    Spin,
}
