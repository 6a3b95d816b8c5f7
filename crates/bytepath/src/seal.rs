//! Keeps traits that others use from being implemented by them, so that they can grow.

/// What only this crate can implement.
pub trait Sealed {}
