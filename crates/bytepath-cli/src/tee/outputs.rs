//! Where the bytes go: standard output, and the files that are named.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, BorrowedFd};

use bytepath::Endpoint;
use bytepath::endpoint::EndpointError;
use rustix::io::Errno;

use crate::close::closed_well;
use crate::closed;
use crate::sys::start;

/// What messages call standard output.
const STANDARD_OUTPUT: &str = "standard output";

/// Whether files are overwritten.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Opening {
    Overwrite,
    Append,
}

/// The outputs, standard output first.
pub(super) struct Outputs<'a> {
    names: Vec<OsString>,
    ends: Vec<Option<Endpoint<'a>>>,
    listeners: usize,
}

impl<'a> Outputs<'a> {
    /// Standard output alone. One that is not open for writing matters once there are bytes.
    pub(super) fn begin(stdout: BorrowedFd<'a>) -> Outputs<'a> {
        let open = !start::was_closed(1);
        let end = open.then(|| Endpoint::sink(stdout).ok()).flatten();
        Outputs { names: vec![STANDARD_OUTPUT.into()], ends: vec![end], listeners: 0 }
    }

    /// Opens a file, which `-` is the name of too.
    ///
    /// # Errors
    /// The kernel's word.
    pub(super) fn open(&mut self, name: &OsStr, opening: Opening) -> Result<(), Errno> {
        closed::check(name)?;
        let opened = match opening {
            Opening::Overwrite => Endpoint::open_sink(name),
            Opening::Append => Endpoint::open_sink_to_append(name),
        };
        self.ends.push(Some(opened.map_err(|error: EndpointError| error.errno())?));
        self.names.push(name.to_owned());
        Ok(())
    }

    /// Lets one more get the bytes, which is no output: see [`Outputs::is_output`].
    pub(super) fn listen(&mut self, name: &str, sink: BorrowedFd<'a>) {
        self.ends.push(Endpoint::sink(sink).ok());
        self.names.push(name.into());
        self.listeners += 1;
    }

    /// How many listen.
    pub(super) fn listeners(&self) -> usize {
        self.listeners
    }

    /// Whether it is what the user named, and nothing that only listens.
    pub(super) fn is_output(&self, place: usize) -> bool {
        place + self.listeners < self.ends.len()
    }

    /// In the order of the names.
    pub(super) fn ends(&self) -> &[Option<Endpoint<'a>>] {
        &self.ends
    }

    pub(super) fn name(&self, place: usize) -> &OsStr {
        &self.names[place]
    }

    /// Why files that were written are not whole after all, as closing them tells. What was lost
    /// before has been told of.
    pub(super) fn close(
        &self,
        lost: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = (usize, Errno)> {
        let files = self.ends.iter().enumerate().skip(1);
        let files = files.filter(move |(place, _)| !lost(*place) && self.is_output(*place));
        files.filter_map(|(place, end)| Some((place, closed_well(end.as_ref()?.as_fd()).err()?)))
    }
}
