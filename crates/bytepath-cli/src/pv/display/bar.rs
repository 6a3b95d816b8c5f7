//! How a bar looks.

use clap::ValueEnum;

/// What a bar is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum BarStyle {
    /// Equals signs and an arrow head
    #[default]
    Plain,
    /// Full blocks
    Block,
    /// Blocks in steps of an eighth
    Granular,
    /// Shades of grey
    Shaded,
}
