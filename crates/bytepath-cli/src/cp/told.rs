//! What a step comes to whose failure is told of where it happens, and how much that weighs.

/// A failure that was told of: the rest goes on, and whoever takes note of it ends with 1.
#[derive(Debug)]
pub(super) struct Told;

/// The outcome of a step whose failure is told of where it happens.
pub(super) type Done<T = ()> = Result<T, Told>;

/// What something that is said says of the copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Weight {
    /// It is not whole.
    Failure,
    /// It is as whole as it has to be.
    Warning,
}
