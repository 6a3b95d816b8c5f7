//! The schedule, the statistics and the judgement of noise: they promise error rates, so they are
//! put to machines whose truth is known.

mod intervals;
mod machines;
mod noise;
mod runs;
mod schedule;
mod simulated;
mod warnings;
