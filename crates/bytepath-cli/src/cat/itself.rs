//! A file that is its own output.

use std::os::fd::AsFd;

use bytepath::{Endpoint, Kind};
use rustix::fs::SeekFrom;

/// Whether the output is the file that is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    /// It is not.
    No,
    /// It is, and the reading never meets what is written.
    Harmless,
    /// It is, and nothing is left to be read by a position that the writing would move too.
    Over,
    /// It is, and the reading would go on in what was written, until the device is full.
    Endless,
}

/// What is done to the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bytes {
    AsTheyAre,
    ShownOtherwise,
}

/// The reading follows the writing without end where it stands before it. GNU cat up to 9.5
/// refused whatever was not yet read; later ones look at where the writing stands, as this does.
///
/// Bytes that are shown otherwise may become more, so that the writing overtakes the reading, and in
/// one open file both have one position: then whatever is not yet read is refused.
pub(super) fn met(source: &Endpoint<'_>, sink: &Endpoint<'_>, bytes: Bytes) -> Met {
    if !source.same_file(sink) {
        return Met::No;
    }
    // With O_APPEND everything goes to the end, wherever the descriptor stands.
    let writes_at = if sink.appends() { SeekFrom::End(0) } else { SeekFrom::Current(0) };
    let reading = rustix::fs::seek(source.as_fd(), SeekFrom::Current(0));
    let writing = rustix::fs::seek(sink.as_fd(), writes_at);
    let is_one = source.same_open_file(sink);
    let meets = match bytes {
        Bytes::AsTheyAre if !is_one => 0,
        _ if source.kind() == Kind::BlockDevice => u64::MAX,
        _ => rustix::fs::fstat(source.as_fd())
            .map_or(u64::MAX, |stat| u64::try_from(stat.st_size).unwrap_or(0)),
    };
    match (reading, writing) {
        (Ok(reading), Ok(writing)) if reading < writing.max(meets) => Met::Endless,
        _ if is_one => Met::Over,
        _ => Met::Harmless,
    }
}
