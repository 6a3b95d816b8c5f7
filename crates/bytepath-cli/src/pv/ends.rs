//! The inputs and the output: opened as pv opens them, sized, and looked at for being the same.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;

use bytepath::endpoint::EndpointError;
use bytepath::{Endpoint, Kind};
use rustix::fs::{Access, SeekFrom};

use super::Settings;
use super::live::Live;
use super::status::Status;
use super::tally::Tally;
use crate::closed;
use crate::errno;
use crate::quote::printable;
use crate::sys::start;

/// An input, open.
pub(crate) struct Source<'fd> {
    pub(crate) name: String,
    pub(crate) endpoint: Endpoint<'fd>,
}

/// Whether a name stands for standard input.
pub(crate) fn is_stdin(name: &OsStr) -> bool {
    name == "-"
}

impl Source<'_> {
    /// Opens an input, or tells why not.
    pub(crate) fn open(name: &OsStr, live: &Live) -> Result<Source<'static>, Status> {
        let opened = match is_stdin(name) {
            true if start::was_closed(0) => Err(EndpointError::Closed { fd: 0 }),
            true => Endpoint::source(rustix::stdio::stdin()),
            false => checked(name).and_then(|()| Endpoint::open_source(Path::new(name))),
        };
        let shown = printable(name);
        match opened {
            Ok(endpoint) => Ok(Source { name: shown, endpoint }),
            Err(error) => {
                live.say(format_args!("{shown}: {}", why(&error)));
                Err(match error {
                    EndpointError::Directory { .. } => Status::TRANSFER,
                    _ => Status::OPEN,
                })
            }
        }
    }

    /// Bytes from where it stands to its end, for what has an end that can be known.
    pub(crate) fn bytes(&self) -> Option<u64> {
        match self.endpoint.kind() {
            Kind::File => {
                let at = rustix::fs::tell(&self.endpoint).unwrap_or(0);
                Some(self.endpoint.bytes().saturating_sub(at))
            }
            Kind::BlockDevice => device_bytes(&self.endpoint),
            _ => None,
        }
    }
}

/// Whether the name can be opened: see [`closed`].
fn checked(name: &OsStr) -> Result<(), EndpointError> {
    closed::check(name).map_err(|errno| EndpointError::Open { path: printable(name), errno })
}

/// Why an end could not be opened, in a few words.
fn why(error: &EndpointError) -> String {
    match error {
        EndpointError::Open { errno, .. } => errno::word(*errno),
        EndpointError::Directory { .. } => "read failed: Is a directory".into(),
        other => other.to_string(),
    }
}

/// The size of a block device; leaves its position.
pub(crate) fn device_bytes(device: &Endpoint<'_>) -> Option<u64> {
    let at = rustix::fs::tell(device).ok()?;
    let end = rustix::fs::seek(device, SeekFrom::End(0)).ok()?;
    rustix::fs::seek(device, SeekFrom::Start(at)).ok()?;
    Some(end.saturating_sub(at))
}

/// The output, open.
pub(crate) struct Sink<'fd> {
    pub(crate) name: String,
    pub(crate) endpoint: Endpoint<'fd>,
}

impl Sink<'_> {
    /// Standard output. One that cannot be written, and is one of the inputs, is told of as such.
    pub(crate) fn stdout(
        inputs: &[impl AsRef<OsStr>],
        live: &Live,
    ) -> Result<Sink<'static>, Status> {
        let endpoint = match start::was_closed(1) {
            true => Err(EndpointError::Closed { fd: 1 }),
            false => Endpoint::sink(rustix::stdio::stdout()),
        };
        if let Err(EndpointError::WrongWay { .. }) = endpoint
            && let Some(input) = input_that_is(Path::new("/proc/self/fd/1"), inputs)
        {
            live.say(format_args!("{}: input is the output", printable(input)));
            return Err(Status::SAME_FILE);
        }
        opened("standard output".into(), endpoint, live)
    }

    /// A file, made or emptied; unless it is one of the inputs, which would be lost.
    pub(crate) fn file(
        path: &Path,
        inputs: &[impl AsRef<OsStr>],
        live: &Live,
    ) -> Result<Sink<'static>, Status> {
        if let Some(input) = input_that_is(path, inputs) {
            let (input, path) = (printable(input), printable(path));
            live.say(format_args!("{input}: input is the output {path}; it is left as it was"));
            return Err(Status::SAME_FILE);
        }
        let endpoint = checked(path.as_os_str()).and_then(|()| Endpoint::open_sink(path));
        opened(printable(path), endpoint, live)
    }

    /// Nothing: what is moved there is gone.
    pub(crate) fn nowhere(live: &Live) -> Result<Sink<'static>, Status> {
        opened("/dev/null".into(), Endpoint::open_sink("/dev/null"), live)
    }

    /// Whether the kernel had anything to complain about at the end: file systems on a network may
    /// tell of a failed write only here.
    pub(crate) fn closed(&self, live: &Live) -> Status {
        if self.endpoint.kind() != Kind::File {
            return Status::DONE;
        }
        // Closing a duplicate is told the same, and leaves the original to whoever else has it.
        let told = match self.endpoint.as_fd().try_clone_to_owned() {
            Ok(copy) => nix::unistd::close(copy).map_err(std::io::Error::from),
            Err(_) => Ok(()),
        };
        match told {
            Ok(()) => Status::DONE,
            Err(error) => {
                live.say(format_args!("{}: close failed: {}", self.name, errno::word_of(&error)));
                Status::CLOSE
            }
        }
    }
}

/// The input that is this very file or block device, which would be lost where that is emptied or overwritten.
pub(crate) fn input_that_is<'i>(path: &Path, inputs: &'i [impl AsRef<OsStr>]) -> Option<&'i OsStr> {
    let file = path.metadata().ok()?;
    let same = |input: &&OsStr| {
        let input = match is_stdin(input) {
            true => "/proc/self/fd/0".into(),
            false => std::path::PathBuf::from(input),
        };
        input.metadata().is_ok_and(|input| {
            let is_device = |found: &Metadata| found.file_type().is_block_device();
            match is_device(&input) && is_device(&file) {
                true => input.rdev() == file.rdev(),
                false => input.is_file() && (input.dev(), input.ino()) == (file.dev(), file.ino()),
            }
        })
    };
    inputs.iter().map(AsRef::as_ref).find(same)
}

/// Whether both are one regular file, or one block device, by whatever names.
pub(crate) fn are_one(source: &Endpoint<'_>, sink: &Endpoint<'_>) -> bool {
    let device = |end: &Endpoint<'_>| match end.kind() {
        Kind::BlockDevice => rustix::fs::fstat(end).ok().map(|stat| stat.st_rdev),
        _ => None,
    };
    source.same_file(sink) || device(source).is_some_and(|number| device(sink) == Some(number))
}

fn opened(
    name: String,
    endpoint: Result<Endpoint<'static>, EndpointError>,
    live: &Live,
) -> Result<Sink<'static>, Status> {
    endpoint.map(|endpoint| Sink { name: name.clone(), endpoint }).map_err(|error| {
        live.say(format_args!("{name}: {}", why(&error)));
        Status::OPEN
    })
}

/// Tells the tally how large the whole is: as it was said, or as the inputs are.
pub(crate) fn expect(settings: &Settings, inputs: &[impl AsRef<OsStr>], tally: &Tally) {
    match settings.size {
        Some(size) => tally.set_size(Some(size)),
        None if settings.options.display.counts_lines() => {
            tally.set_size_by_bytes(total_bytes(inputs));
        }
        None => tally.set_size(total_bytes(inputs)),
    }
}

/// The bytes of all inputs together; `None` where one of them has no size to be known. What cannot be read
/// gives none.
fn total_bytes(inputs: &[impl AsRef<OsStr>]) -> Option<u64> {
    let mut total: u64 = 0;
    for input in inputs.iter().map(AsRef::as_ref).filter(|input| may_be_read(input)) {
        let bytes = if is_stdin(input) {
            let endpoint = Endpoint::source(rustix::stdio::stdin()).ok()?;
            Source { name: String::new(), endpoint }.bytes()?
        } else {
            let found = std::fs::metadata(input).ok()?;
            match found.file_type() {
                kind if kind.is_file() => found.len(),
                kind if kind.is_block_device() => {
                    device_bytes(&Endpoint::open_source(Path::new(input)).ok()?)?
                }
                kind if kind.is_dir() => 0,
                _ => return None,
            }
        };
        total = total.saturating_add(bytes);
    }
    // Files of /proc and /sys say 0 and are not empty.
    Some(total).filter(|total| *total > 0)
}

fn may_be_read(input: &OsStr) -> bool {
    match is_stdin(input) {
        true => !start::was_closed(0),
        false => rustix::fs::access(input, Access::READ_OK).is_ok(),
    }
}
