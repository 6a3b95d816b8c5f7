//! Links that take the place of what is there, at once.

use rustix::fs::AtFlags;
use rustix::io::Errno;
use rustix::path::Arg;

use super::passing;
use super::place::{Follow, Place};

/// Whether what is in the way is replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Replace {
    Yes,
    No,
}

/// Whether a link took somebody's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Linked {
    New,
    Replaced,
}

/// Makes another name of a file.
pub(super) fn hard(
    file: &Place,
    follow: Follow,
    name: &Place,
    replace: Replace,
) -> Result<Linked, Errno> {
    let flags = match follow {
        Follow::Yes => AtFlags::SYMLINK_FOLLOW,
        Follow::No => AtFlags::empty(),
    };
    let make = |name: &Place| {
        rustix::fs::linkat(&file.directory, &file.name, &name.directory, &name.name, flags)
    };
    made(make, name, replace)
}

/// Makes a symbolic link.
pub(super) fn symbolic(
    target: impl Arg + Copy,
    name: &Place,
    replace: Replace,
) -> Result<Linked, Errno> {
    let make = |name: &Place| rustix::fs::symlinkat(target, &name.directory, &name.name);
    made(make, name, replace)
}

fn made(
    make: impl Fn(&Place) -> Result<(), Errno>,
    place: &Place,
    replace: Replace,
) -> Result<Linked, Errno> {
    match (make(place), replace) {
        (Ok(()), _) => Ok(Linked::New),
        (Err(Errno::EXIST), Replace::Yes) => replaced(make, place).map(|()| Linked::Replaced),
        (Err(errno), _) => Err(errno),
    }
}

/// Made beside it and renamed over it, so that there is no moment without the one or the other.
fn replaced(make: impl Fn(&Place) -> Result<(), Errno>, place: &Place) -> Result<(), Errno> {
    let beside = passing::beside(place, make)?;
    let renamed = beside.rename_to(place);
    // Renaming a name over another of the same file leaves both.
    let _ = beside.remove();
    renamed
}
