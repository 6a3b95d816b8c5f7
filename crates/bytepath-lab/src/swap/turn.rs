//! One run after the other: a machine has one pool of swap, and the pages of two runs would lie in each
//! other's areas. Neither would measure its own, and neither could take its area away.

use std::fs::{File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use bytepath::machine::has_all_users;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::interrupt;

/// Where runs of all users meet. Only root may make it, and only root has swap made.
const MEETING: &str = "/run/bytepath-swap.lock";

/// How often a run that waits looks whether it is its turn.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The turn of this run, until it is dropped or the process ends, however it does.
#[derive(Debug)]
pub struct Turn {
    _lock: Option<File>,
}

impl Turn {
    /// Waits for it. `busy` is called once, where there is something to wait for.
    ///
    /// # Errors
    /// Somebody wishes the end, or the file that runs meet at cannot be had.
    pub fn wait(busy: impl FnOnce()) -> Result<Turn, std::io::Error> {
        if !rustix::process::geteuid().is_root() {
            // It makes no areas.
            return Ok(Turn { _lock: None });
        }
        match Turn::at(Path::new(MEETING), busy) {
            // Nor does the root of a namespace of users, whom the machine refuses what root may do.
            Err(error) if error.kind() == ErrorKind::PermissionDenied && !has_all_users() => {
                Ok(Turn { _lock: None })
            }
            turn => turn,
        }
    }

    fn at(meeting: &Path, busy: impl FnOnce()) -> Result<Turn, std::io::Error> {
        let failed = |error: std::io::Error| {
            let text = format!("cannot lock {}: {error}", meeting.display());
            std::io::Error::new(error.kind(), text)
        };
        let mut open = OpenOptions::new();
        open.write(true).create(true).mode(0o600).custom_flags(libc::O_NOFOLLOW);
        let file = open.open(meeting).map_err(failed)?;
        let mut busy = Some(busy);
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Turn { _lock: Some(file) }),
                Err(Errno::WOULDBLOCK) => busy.take().map_or((), |busy| busy()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(failed(error.into())),
            }
            if interrupt::wished() {
                return Err(std::io::Error::other("interrupted while another bench swap ran"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_second_run_waits_until_the_first_has_ended() {
        let folder = tempfile::tempdir().expect("a folder");
        let meeting = folder.path().join("lock");
        let first = Turn::at(&meeting, || panic!("nobody else is there")).expect("a turn");
        let (told, waits) = channel();
        let second = std::thread::spawn(move || {
            Turn::at(&meeting, move || told.send(()).expect("somebody listens")).map(drop)
        });
        waits.recv().expect("it says that it waits");
        assert!(!second.is_finished());
        drop(first);
        second.join().expect("no panic").expect("its turn");
    }
}
