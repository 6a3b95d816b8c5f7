//! Names that are there only until what has them takes the place of something else, or is whole: a signal
//! that ends the program removes them.

use std::ffi::{OsStr, OsString};
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use rustix::io::Errno;
use rustix::process::Pid;

use super::place::{Directory, Place, joined};

/// What such names begin with; the number of the process follows, and that of the attempt.
pub(super) const BESIDE_START: &str = ".bytepath-";

/// Attempts at a name that nobody else has.
const ATTEMPTS_MAX: u32 = 100;

/// A new name in the same folder, made by `make`: of what is not whole as long as this is held.
pub(super) fn beside(
    place: &Place,
    mut make: impl FnMut(&Place) -> Result<(), Errno>,
) -> Result<Arc<Place>, Errno> {
    let (folder, _) = place.parent();
    let mut unfinished = unfinished();
    for attempt in 0..ATTEMPTS_MAX {
        let process = rustix::process::getpid().as_raw_nonzero();
        let name = format!("{BESIDE_START}{process}-{attempt}");
        let beside = place.renamed(joined(&folder, OsStr::new(&name)));
        match make(&beside) {
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
            Ok(()) => {
                let beside = Arc::new(beside);
                unfinished.retain(|(place, _)| place.strong_count() > 0);
                unfinished.push((Arc::downgrade(&beside), rustix::thread::gettid()));
                return Ok(beside);
            }
        }
    }
    Err(Errno::EXIST)
}

/// Removes what has a name only until it is whole: for a program that is about to be ended. None is
/// made after that.
pub(super) fn remove_unfinished() {
    let mut unfinished = unfinished();
    for (place, maker) in unfinished.drain(..) {
        let Some(place) = place.upgrade() else { continue };
        // Whoever copies may have a table of open files of its own, where the number is another's.
        let of_maker = match &place.directory {
            Directory::Held(held) => {
                let mut path = OsString::from(format!(
                    "/proc/self/task/{}/fd/{}/",
                    maker.as_raw_nonzero(),
                    held.as_raw_fd()
                ));
                path.push(&place.name);
                Some(path)
            }
            Directory::Working => None,
        };
        let removed = of_maker.is_some_and(|path| rustix::fs::unlink(path).is_ok());
        // Without /proc, by the number: no directory of ours has another's file of that name.
        if !removed {
            let _ = place.remove();
        }
    }
    std::mem::forget(unfinished);
}

/// Those names, and the threads that made them.
fn unfinished() -> MutexGuard<'static, Vec<(Weak<Place>, Pid)>> {
    static UNFINISHED: Mutex<Vec<(Weak<Place>, Pid)>> = Mutex::new(Vec::new());
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}
