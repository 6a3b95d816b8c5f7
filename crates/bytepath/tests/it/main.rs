//! The engine from the outside: every route, outlet and inlet on real descriptors, in fair weather
//! and in foul.

mod channel;
mod conformance;
mod ends;
mod engines;
mod examples;
mod fan_out;
mod faults;
mod hugetlb;
mod inlets;
mod outlets;
mod random;
mod rings;
mod small_files;
mod stuck;
mod sys;
mod trial;
mod uncached;
mod watch;
mod zero_copy;
