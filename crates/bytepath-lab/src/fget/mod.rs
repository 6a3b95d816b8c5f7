//! What a descriptor costs: a service with many connections, the load that it is put under, and
//! single calls, each in situations that differ in who shares the table of descriptors.

pub mod calls;
pub mod load;
mod neighbours;
mod protocol;
pub mod serve;
mod serve_multishot;
mod serve_ring;

use std::os::fd::{AsFd, OwnedFd};

use nix::sched::{CloneFlags, unshare};
use rustix::io::Errno;

/// Who shares which descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Situation {
    /// Threads share one table, and their descriptors lie in it as they come.
    SharedTable,
    /// Threads share one table, but each one's descriptors lie apart from the others', so that they
    /// share no cache line of it.
    FdRanges,
    /// Each thread has a table of its own (unshare(2) with CLONE_FILES).
    PrivateTable,
    /// Processes of one thread each.
    Processes,
    /// One thread does everything.
    SingleThread,
    /// Threads, each with a ring, which looks the descriptor up for each request.
    Uring,
    /// The same with the descriptors registered: looked up once.
    UringRegistered,
    /// Registered too, and asked once for each connection: what comes lands in buffers that the ring
    /// has in store (multishot receive).
    UringMultishot,
    /// As registered, with connections that never have a descriptor: accepted into the ring's own table.
    UringDirectAccept,
}

/// Every situation.
pub const SITUATIONS: &[Situation] = &[
    Situation::SharedTable,
    Situation::FdRanges,
    Situation::PrivateTable,
    Situation::Processes,
    Situation::SingleThread,
    Situation::Uring,
    Situation::UringRegistered,
    Situation::UringMultishot,
    Situation::UringDirectAccept,
];

impl Situation {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Situation::SharedTable => "shared-table",
            Situation::FdRanges => "fd-ranges",
            Situation::PrivateTable => "private-table",
            Situation::Processes => "processes",
            Situation::SingleThread => "single-thread",
            Situation::Uring => "uring",
            Situation::UringRegistered => "uring-registered",
            Situation::UringMultishot => "uring-multishot",
            Situation::UringDirectAccept => "uring-direct-accept",
        }
    }

    /// The situation of this name.
    pub fn named(name: &str) -> Option<Situation> {
        SITUATIONS.iter().copied().find(|situation| situation.name() == name)
    }

    /// Sees to it that this thread has its table to itself, where that is the situation.
    fn enter(self) -> Result<(), FgetError> {
        if self != Situation::PrivateTable {
            return Ok(());
        }
        unshare(CloneFlags::CLONE_FILES).map_err(|errno| {
            FgetError::of("cannot have a table of descriptors of its own (unshare)")(
                Errno::from_raw_os_error(errno as i32),
            )
        })
    }

    /// The descriptor at the place that the situation gives it: moved to the thread's own range, which
    /// holds so many, or as it is.
    fn placed(self, file: OwnedFd, thread: usize, each: usize) -> Result<OwnedFd, FgetError> {
        if self != Situation::FdRanges {
            return Ok(file);
        }
        let range = each.next_multiple_of(LINE_DESCRIPTORS).max(RANGE_DESCRIPTORS);
        let first = i32::try_from(RANGE_FIRST + thread * range).unwrap_or(i32::MAX);
        rustix::io::fcntl_dupfd_cloexec(file.as_fd(), first).map_err(|errno| match errno {
            Errno::INVAL => FgetError(format!(
                "no descriptor may be as high as {first}: raise ulimit -n, or take fewer threads or \
                 connections"
            )),
            errno => FgetError::of("cannot move a descriptor (F_DUPFD)")(errno),
        })
    }
}

/// The least range of a thread's descriptors, and where the first begins: whole cache lines of the table
/// (8 descriptors) and of its bitmaps (512).
const RANGE_DESCRIPTORS: usize = 2048;
const RANGE_FIRST: usize = 2048;
const LINE_DESCRIPTORS: usize = 512;

/// What went wrong, with the likely cause.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct FgetError(String);

impl FgetError {
    /// What a call was for, before the kernel's word.
    fn of(what: impl Into<String>) -> impl FnOnce(Errno) -> FgetError {
        let what = what.into();
        move |errno| {
            let hint = match errno {
                Errno::MFILE | Errno::NFILE => "; raise ulimit -n, or take fewer connections",
                Errno::PERM | Errno::ACCESS => "; is it forbidden here, as in some containers?",
                _ => "",
            };
            FgetError(format!("{what}: {}{hint}", std::io::Error::from(errno)))
        }
    }

    fn because(why: impl Into<String>) -> FgetError {
        FgetError(why.into())
    }
}

/// Lets this process have as many descriptors as it may: the soft limit is 1024 on most machines.
pub fn raise_descriptor_limit() {
    let resource = rustix::process::Resource::Nofile;
    let limit = rustix::process::getrlimit(resource);
    let raised = rustix::process::Rlimit { current: limit.maximum, ..limit };
    // One that stays as it is shows where descriptors run out.
    let _ = rustix::process::setrlimit(resource, raised);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_situation_has_its_name_back() {
        for situation in SITUATIONS {
            assert_eq!(Situation::named(situation.name()), Some(*situation));
        }
        assert_eq!(Situation::named("table"), None);
    }

    #[test]
    fn descriptors_are_moved_into_the_range_of_their_thread() {
        use std::os::fd::AsRawFd;
        raise_descriptor_limit();
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").expect("it is there"));
        // No other's begins before all of a thread's descriptors are in its own.
        for (each, firsts) in [(1, [2048, 4096]), (2048, [2048, 4096]), (2100, [2048, 4608])] {
            for (thread, first) in firsts.into_iter().enumerate() {
                let moved = Situation::FdRanges.placed(file(), thread, each).expect("moved");
                assert!(moved.as_raw_fd() >= first, "{each}: {moved:?}");
            }
        }
        let refused = Situation::FdRanges.placed(file(), 1 << 19, 1).expect_err("too high");
        assert!(refused.to_string().contains("ulimit -n"), "{refused}");
    }
}
