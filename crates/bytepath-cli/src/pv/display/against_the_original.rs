//! Compared with pv itself.
