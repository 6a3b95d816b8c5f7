//! `bytepath pv`: moves bytes and shows how far they are, as Pipe Viewer does.

pub(crate) mod display;
