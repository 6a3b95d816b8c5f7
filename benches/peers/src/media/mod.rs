//! What messages go by, a file each: an end that sends and one that receives, by the fastest way
//! that the medium has, without a copy.

pub(crate) mod channel;
pub(crate) mod iceoryx;
mod sys;
mod which;

pub(crate) use which::{Medium, Wait};

/// How an end is to be.
#[derive(Debug, Clone)]
pub(crate) struct Setup {
    pub(crate) wait: Wait,
    /// Both ends have one CPU.
    pub(crate) shares_cpu: bool,
    /// Words of a message.
    pub(crate) words: usize,
    /// Where the ends meet, another name for every sample.
    pub(crate) name: String,
}

/// The end that messages go into.
pub(crate) trait Out {
    /// Sends the message of this number: all of its words.
    fn send(&mut self, number: u64) -> anyhow::Result<()>;
}

/// The end that messages come out of.
pub(crate) trait In {
    /// Waits for a message: its first word, which is its number, and the sum of its words.
    fn receive(&mut self) -> anyhow::Result<(u64, u64)>;
}

pub(crate) type Ends = (Option<Box<dyn Out>>, Option<Box<dyn In>>);

/// Which ends a process has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Has {
    /// The end that sends there (or, where it is not `begins`, back).
    pub(crate) out: bool,
    /// The end that receives.
    pub(crate) back: bool,
    /// It is the process that begins.
    pub(crate) begins: bool,
}

/// Makes the ends of one process; the other one does so at the same time.
pub(crate) fn ends(medium: Medium, setup: &Setup, has: Has) -> anyhow::Result<Ends> {
    match medium {
        Medium::Iceoryx2 => iceoryx::ends(setup, has),
        Medium::Bytepath | Medium::BytepathAtomic | Medium::BytepathHybrid => {
            channel::ends(medium, setup, has)
        }
        Medium::PythonPipe | Medium::PythonQueue => anyhow::bail!("Python has ends of its own"),
    }
}
