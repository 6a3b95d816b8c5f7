//! Memory that does not fit: what takes its place (a file, a slow disk, compressed memory), and the
//! work that is short of it.

pub mod area;
pub mod areas;
pub mod contents;
mod group;
pub mod mariadb;
pub mod places;
pub mod redis;
mod resp;
pub mod server;
pub mod service_work;
pub mod shortage;
mod stage;
mod sysbench;
pub(crate) mod throttle;
pub mod touch_work;
pub mod toucher;
pub mod turn;
mod usage;
pub(crate) mod zswap;

/// What takes pages that do not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// A file.
    File,
    /// A file behind a loop device, that reads and writes so many bytes per second at most.
    SlowLoop,
    /// Memory, compressed by this algorithm.
    Zram(&'static str),
    /// Memory, compressed by the kernel's own choice; a file takes what does not fit there.
    Zswap,
    /// Nothing has to: there is no limit.
    None,
}

/// Every backend, in reading order, by its name on the command line.
pub const BACKENDS: &[(&str, Backend)] = &[
    ("swap-file", Backend::File),
    ("swap-loop", Backend::SlowLoop),
    ("zram-lz4", Backend::Zram("lz4")),
    ("zram-lzo", Backend::Zram("lzo")),
    ("zram-lzo-rle", Backend::Zram("lzo-rle")),
    ("zram-zstd", Backend::Zram("zstd")),
    ("zswap", Backend::Zswap),
    ("none", Backend::None),
];
