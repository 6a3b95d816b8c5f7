//! Drives the real program, as people do: by its arguments, descriptors and signals.

mod bench;
mod calls;
mod ends;
mod help;
mod program;
mod pv;
mod pv_display;
mod pv_faults;
mod pv_others;
mod pv_terminal;
mod refusals;
mod signals;
mod terminal;
mod tour;
mod verify;
mod with_others;
