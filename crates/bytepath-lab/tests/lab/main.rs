//! The run itself, with works that are told what to give: which arms run, in which order, what
//! becomes of those that fail, what strangers did meanwhile, and what the record says about it.

mod failing;
mod interrupted;
mod noise;
mod record;
mod works;
