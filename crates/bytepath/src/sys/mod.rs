//! The only unsafe code: each resource is owned by a type, so that misuse does not compile.

pub(crate) mod aio;
pub(crate) mod alias_probe;
pub(crate) mod closing;
pub(crate) mod cpuid;
pub(crate) mod deadly;
pub(crate) mod error_queue;
pub(crate) mod faults;
pub(crate) mod file_mapping;
pub(crate) mod forks;
pub(crate) mod half_word;
pub(crate) mod mapped_file;
pub(crate) mod memory;
pub(crate) mod open_file;
pub(crate) mod page_filler;
pub(crate) mod peer_user;
pub(crate) mod place;
pub(crate) mod posix_aio;
pub(crate) mod process_memory;
pub(crate) mod reflink;
pub(crate) mod ring;
pub(crate) mod ring_probe;
pub(crate) mod sealed;
pub(crate) mod shared;
pub(crate) mod shared_bytes;
pub(crate) mod this_cpu;
pub(crate) mod write_back;

use rustix::io::Errno;

/// The kernel's word on the call that has just failed.
fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// What a call answered that counts; a number below 0 says that it failed.
fn counted(answer: impl TryInto<usize>) -> Result<usize, Errno> {
    answer.try_into().map_err(|_| last_errno())
}
