//! Stacks for trees: little of a thread's own is enough for most; what is deeper gets a large one.
//!
//! That takes a thread, which costs as much as copying several files: small trees do without.

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::ledger::Entered;
use super::turns;

/// Directories of one path, at most: the bound of the recursion.
pub(super) const LEVELS_MAX: usize = 8192;

/// What a level takes at most.
const LEVEL_BYTES: usize = 32 << 10;

/// How many of them are on the stack that there is, at most.
const LEVELS_HERE_MAX: usize = 64;

/// How many of them are, by the limit on stacks, a quarter of which is taken for them.
pub(super) fn levels_here() -> usize {
    let stack = getrlimit(Resource::Stack).current.unwrap_or(u64::MAX);
    usize::try_from(stack / 4)
        .map_or(LEVELS_HERE_MAX, |stack| (stack / LEVEL_BYTES).min(LEVELS_HERE_MAX))
}

/// Goes on with a stack for all levels that there may be, only what is used of which costs: at the same
/// place of the tree, and within the same entries.
///
/// # Errors
/// The kernel's word, where there is no memory for it: nothing was done.
pub(super) fn on_large_stack<T: Send>(work: impl FnOnce() -> T + Send) -> Result<T, Errno> {
    let mut here = (turns::now(), Entered::take());
    let (now, entered) = &mut here;
    let on_it = || {
        turns::set(now.clone());
        entered.put();
        let outcome = work();
        (*now, *entered) = (turns::now(), Entered::take());
        outcome
    };
    let outcome = std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(LEVELS_MAX * LEVEL_BYTES);
        let thread = thread
            .spawn_scoped(scope, on_it)
            .map_err(|error| error.raw_os_error().map_or(Errno::NOMEM, Errno::from_raw_os_error))?;
        Ok(thread.join().expect("it does not panic"))
    });
    let (now, mut entered) = here;
    turns::set(now);
    entered.put();
    outcome
}
