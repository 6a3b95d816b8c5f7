//! The schedule and the statistics promise error rates, so they are put to machines whose truth is
//! known.

mod intervals;
mod machines;
mod runs;
mod schedule;
mod simulated;
mod warnings;
