//! What one user may take: pipe sizes, locked memory, open files.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::pipe::{PipeFlags, fcntl_getpipe_size, fcntl_setpipe_size, pipe_with};
use rustix::process::{Resource, getrlimit};

use super::files;

/// Larger pipes are not tried, although root could have them: the kernel keeps forty bytes for each
/// page of a pipe in one piece, and a pipe beyond every cache has no use.
const PIPE_BYTES_TRIED_MAX: usize = 64 << 20;

/// How large pipes may be, and are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PipeLimits {
    /// fs.pipe-max-size: the largest that a user without CAP_SYS_RESOURCE may ask for.
    pub max_bytes: Option<usize>,
    /// fs.pipe-user-pages-soft: pages in all of a user's pipes from which on larger ones are
    /// refused, and new ones are small. 0 is no limit.
    pub user_pages_soft: Option<u64>,
    /// fs.pipe-user-pages-hard: pages from which on every new pipe is refused. 0 is no limit.
    pub user_pages_hard: Option<u64>,
    /// What a new pipe holds here and now. Smaller than 64 KiB where the user's budget is spent.
    pub default_bytes: Option<usize>,
    /// The largest size that the kernel really gave when asked, at most 64 MiB.
    pub largest_bytes: Option<usize>,
}

impl PipeLimits {
    /// Reads the settings below `root` (`/` for this machine), and makes a pipe to see what it
    /// gets.
    pub fn probe(root: &Path) -> PipeLimits {
        let max_bytes = files::number(root, "proc/sys/fs/pipe-max-size");
        let pipe = pipe_with(PipeFlags::CLOEXEC).ok();
        let default_bytes = pipe.as_ref().and_then(|(reader, _)| fcntl_getpipe_size(reader).ok());
        PipeLimits {
            max_bytes,
            user_pages_soft: files::number(root, "proc/sys/fs/pipe-user-pages-soft"),
            user_pages_hard: files::number(root, "proc/sys/fs/pipe-user-pages-hard"),
            default_bytes,
            largest_bytes: pipe.and_then(|(reader, _)| largest_bytes(&reader, max_bytes)),
        }
    }
}

/// Goes down from `max_bytes` by halves until the kernel agrees, then up by doubling until it
/// refuses.
///
/// Going down meets a spent budget (EPERM); going up succeeds only with CAP_SYS_RESOURCE, which is
/// asked by trying, since a user namespace may show a capability that does not count here.
fn largest_bytes(pipe: &OwnedFd, max_bytes: Option<usize>) -> Option<usize> {
    let start =
        max_bytes.unwrap_or(1 << 20).clamp(rustix::param::page_size(), PIPE_BYTES_TRIED_MAX);
    let halves = std::iter::successors(Some(start), |bytes| Some(bytes / 2));
    let enough = halves.take_while(|bytes| *bytes >= rustix::param::page_size());
    let mut largest = enough.filter_map(|bytes| fcntl_setpipe_size(pipe, bytes).ok()).next()?;
    while largest >= start && largest < PIPE_BYTES_TRIED_MAX {
        let Ok(larger) = fcntl_setpipe_size(pipe, largest * 2) else { break };
        if larger <= largest {
            break;
        }
        largest = larger;
    }
    Some(largest)
}

/// Limits on this process's resources (`ulimit`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ResourceLimits {
    /// RLIMIT_MEMLOCK: bytes that may be locked, and that many kernels charge for rings.
    pub locked_memory_bytes: Limit,
    /// RLIMIT_NOFILE: descriptors.
    pub open_files: Limit,
}

/// One limit; `None` is unlimited.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limit {
    /// What holds now; the process itself may raise it up to `hard`.
    pub soft: Option<u64>,
    /// What only root can raise.
    pub hard: Option<u64>,
}

impl ResourceLimits {
    /// Asks the kernel.
    pub fn probe() -> ResourceLimits {
        ResourceLimits {
            locked_memory_bytes: limit(Resource::Memlock),
            open_files: limit(Resource::Nofile),
        }
    }
}

fn limit(resource: Resource) -> Limit {
    let limit = getrlimit(resource);
    Limit { soft: limit.current, hard: limit.maximum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_really_gets_the_largest_size() {
        let limits = PipeLimits::probe(Path::new("/"));
        let Some(largest) = limits.largest_bytes else {
            println!("skipped: the kernel gives no pipe here");
            return;
        };
        assert!(limits.default_bytes <= Some(largest));
        let (reader, _writer) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        assert_eq!(fcntl_setpipe_size(&reader, largest), Ok(largest));
    }

    #[test]
    fn without_the_settings_the_pipe_itself_still_tells() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let limits = PipeLimits::probe(root.path());
        assert_eq!((limits.max_bytes, limits.user_pages_soft), (None, None));
        assert!(limits.default_bytes.is_some());
    }

    #[test]
    fn the_soft_limit_is_not_above_the_hard_one() {
        let limit = ResourceLimits::probe().open_files;
        assert!(limit.hard.is_none_or(|hard| limit.soft.is_some_and(|soft| soft <= hard)));
    }
}
