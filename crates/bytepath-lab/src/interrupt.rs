//! The wish that a run ends, from outside: a descriptor that becomes readable. Every wait for a
//! process looks at it too, so that a sample of an hour ends at once.
//!
//! There is one for the whole process, as signals are, which are where the wish comes from.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

static WISH: OnceLock<OwnedFd> = OnceLock::new();

/// Where it comes again and again.
static WISHES: OnceLock<OwnedFd> = OnceLock::new();

/// Wishes that come within this are one: timeout(1) sends a signal to us and then to our group.
const SAME_WITHIN: Duration = Duration::from_millis(100);

/// From now on samples end, and fail, once this descriptor is readable. It is never read from. Only
/// the first descriptor counts.
pub fn when_readable(descriptor: OwnedFd) {
    let _ = WISH.set(descriptor);
}

/// From now on something comes here, to be read, with every wish. It does not block.
pub fn each_in(descriptor: OwnedFd) {
    let _ = WISHES.set(descriptor);
}

/// Whether the run is to end.
pub fn wished() -> bool {
    wished_within(Duration::ZERO)
}

/// The same, when the wish may be on its way.
pub(crate) fn wished_within(time: Duration) -> bool {
    let until = Instant::now() + time;
    let Some(wish) = WISH.get() else { return false };
    let mut fds = [PollFd::new(wish, PollFlags::IN)];
    loop {
        match poll(&mut fds, left(until).as_ref()) {
            Err(Errno::INTR) => {}
            ready => return ready.is_ok_and(|count| count > 0),
        }
    }
}

/// What a wait came to.
pub(crate) enum Came {
    /// There is something to be read, or the end of it.
    Readable,
    /// The run is to end.
    Wish,
    /// Neither, in all the time.
    Nothing,
}

/// Waits until `from` is readable.
pub(crate) fn wait(from: impl AsFd, until: Instant) -> std::io::Result<Came> {
    wait_for_any(&[from.as_fd()], until)
}

/// Waits until one of these is readable.
pub(crate) fn wait_for_any(from: &[BorrowedFd<'_>], until: Instant) -> std::io::Result<Came> {
    let mut fds: Vec<_> = from.iter().map(|fd| PollFd::new(fd, PollFlags::IN)).collect();
    fds.extend(WISH.get().map(|wish| PollFd::new(wish, PollFlags::IN)));
    loop {
        match poll(&mut fds, left(until).as_ref()) {
            Ok(0) => return Ok(Came::Nothing),
            Ok(_) if fds.get(from.len()).is_some_and(|wish| !wish.revents().is_empty()) => {
                return Ok(Came::Wish);
            }
            Ok(_) => return Ok(Came::Readable),
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Waits until a process that this one started has ended; whether the run is to end before that. Where that cannot be
/// watched it is not known.
pub fn wished_before_end(child: &Child) -> bool {
    let Ok(ended) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else { return false };
    let long = Instant::now() + Duration::from_secs(1 << 32);
    matches!(wait(&ended, long), Ok(Came::Wish))
}

/// Waits until a process that this one started has ended, though the run is to end; whether that was wished
/// once more before. Where that cannot be watched it is not known.
pub(crate) fn wished_again_before_end(child: &Child) -> bool {
    let ended = pidfd_open(Pid::from_child(child), PidfdFlags::empty());
    let (Ok(ended), Some(wishes)) = (ended, WISHES.get()) else { return false };
    let mut first = wished().then(Instant::now);
    read_all(wishes);
    loop {
        let mut fds = [&ended, wishes].map(|fd| PollFd::new(fd, PollFlags::IN));
        match poll(&mut fds, None) {
            Err(Errno::INTR) => continue,
            Ok(_) if fds[0].revents().is_empty() => {}
            _ => return false,
        }
        read_all(wishes);
        if first.get_or_insert_with(Instant::now).elapsed() > SAME_WITHIN {
            return true;
        }
    }
}

fn read_all(wishes: &OwnedFd) {
    while matches!(rustix::io::read(wishes, &mut [0_u8; 64]), Ok(1..)) {}
}

/// The time that is left; none where it is too long to be told.
fn left(until: Instant) -> Option<Timespec> {
    Timespec::try_from(until.saturating_duration_since(Instant::now())).ok()
}
