//! Drives the real program, as people do: by its arguments, descriptors and signals.

mod bench;
mod calls;
mod cat;
mod classic;
mod cp;
mod ends;
mod files;
mod help;
mod installed;
mod movers;
mod null;
mod program;
mod pv;
mod pv_display;
mod pv_faults;
mod pv_lines;
mod pv_others;
mod pv_terminal;
mod quota;
mod refusals;
mod signals;
mod terminal;
mod tour;
mod tune;
mod verify;
mod with_others;
