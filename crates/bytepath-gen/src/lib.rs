//! Streams of bytes that can be made from any place on, as fast as memory takes them.
//!
//! ```
//! use bytepath_gen::{Counted, Generator, Rule};
//!
//! let mut lines = Counted::new(Rule::FizzBuzz, 14, Some(3))?;
//! let mut text = [0; 64];
//! let count = lines.fill(0, &mut text);
//! assert_eq!(&text[..count], b"14\nFizzBuzz\n16\n");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A [`Generator`] is asked for the bytes at an offset, so that several threads can each make a part
//! of what comes next ([`Crew`]), and so that whoever was refused halfway can go on from there. No
//! descriptor is known here: who sends the bytes is not this crate's matter.

mod counted;
mod crew;
mod random;
mod sys;
mod text;

pub use counted::{Counted, OutOfRange, Rule};
pub use crew::{Crew, CrewError};
pub use random::Random;
pub use text::Text;

/// A stream of bytes, each of which depends on its place alone.
pub trait Generator: Send {
    /// How many bytes it has; `None` where it has no end.
    fn bytes(&self) -> Option<u128> {
        None
    }

    /// Fills `into` with the bytes from `offset` on; fewer only where the stream ends. How many.
    ///
    /// Going on where the last call ended costs nothing; any other place has to be looked up first,
    /// which takes up to a microsecond.
    fn fill(&mut self, offset: u128, into: &mut [u8]) -> usize;

    /// The same stream once more, for another thread.
    fn another(&self) -> Box<dyn Generator>;
}

/// A stream that a function of offset and memory gives.
impl<F: FnMut(u128, &mut [u8]) + Clone + Send + 'static> Generator for F {
    fn fill(&mut self, offset: u128, into: &mut [u8]) -> usize {
        self(offset, into);
        into.len()
    }

    fn another(&self) -> Box<dyn Generator> {
        Box::new(self.clone())
    }
}
