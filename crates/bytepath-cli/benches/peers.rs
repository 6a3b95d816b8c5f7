//! What benches/peers uses of the lab and of reports, compiled without iceoryx2, so that whoever changes
//! those hears of it: clippy compiles this with all targets. Measures nothing.
#![allow(dead_code, missing_docs, reason = "the program that uses it is in a workspace of its own")]

#[path = "../../../benches/peers/src/arms.rs"]
mod arms;
#[path = "../../../benches/peers/src/measure.rs"]
mod measure;
#[path = "../../../benches/peers/src/media/which.rs"]
mod media;
#[path = "../../../benches/peers/src/work.rs"]
mod work;
