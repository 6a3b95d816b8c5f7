//! pv's exit status: a mask with a bit for each kind of trouble.

use std::process::ExitCode;

/// What went wrong, of each kind at most once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status(u8);

impl Status {
    /// Nothing went wrong.
    pub(crate) const DONE: Status = Status(0);
    /// Another pv could not be reached, the file for --pidfile not written, or a command not run.
    pub(crate) const REMOTE: Status = Status(1);
    /// A file could not be opened or looked at.
    pub(crate) const OPEN: Status = Status(2);
    /// An input is the output.
    pub(crate) const SAME_FILE: Status = Status(4);
    /// The output could not be closed: what was written may not be there.
    pub(crate) const CLOSE: Status = Status(8);
    /// Bytes could not be read or written.
    pub(crate) const TRANSFER: Status = Status(16);
    /// A signal ended it early.
    pub(crate) const SIGNAL: Status = Status(32);
    /// Memory could not be had. Wrong usage gives the same number.
    pub(crate) const MEMORY: Status = Status(64);

    /// The number that the shell sees.
    pub(crate) fn code(self) -> u8 {
        self.0
    }
}

impl std::ops::BitOr for Status {
    type Output = Status;

    fn bitor(self, other: Status) -> Status {
        Status(self.0 | other.0)
    }
}

impl std::ops::BitOrAssign for Status {
    fn bitor_assign(&mut self, other: Status) {
        self.0 |= other.0;
    }
}

impl From<Status> for i32 {
    fn from(status: Status) -> i32 {
        i32::from(status.0)
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> ExitCode {
        ExitCode::from(status.0)
    }
}
