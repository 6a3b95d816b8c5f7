//! Where the time of a movement went: samples and counters while it runs, and what they say in words.

mod sys;
pub mod trace;
mod world;
