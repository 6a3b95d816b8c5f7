//! Names of standard descriptors that the process was started without.
//!
//! Something stands in their place (see `sys::start`), which /dev/stdin, /dev/fd/0 and their like would
//! open. To a classic there is nothing of that name.

use std::ffi::OsStr;
use std::path::Path;

use rustix::io::Errno;

use crate::sys::start;

/// As many symbolic links the kernel follows: see path_resolution(7).
const LINKS_MAX: usize = 40;

/// To be called before what the user names is opened or looked at.
///
/// # Errors
/// The kernel's word for what is not there, where the name leads to such a descriptor.
pub(crate) fn check(name: &OsStr) -> Result<(), Errno> {
    if leads_there(Path::new(name), LINKS_MAX) { Err(Errno::NOENT) } else { Ok(()) }
}

/// The same before calls that follow no symbolic link.
///
/// # Errors
/// As above, where it is the very name of such a descriptor.
pub(crate) fn check_itself(name: &OsStr) -> Result<(), Errno> {
    if leads_there(Path::new(name), 0) { Err(Errno::NOENT) } else { Ok(()) }
}

fn leads_there(path: &Path, links: usize) -> bool {
    if !(0..3).any(start::was_closed) {
        return false;
    }
    let Ok(descriptors) = Path::new("/proc/self/fd").canonicalize() else { return false };
    let mut path = path.to_owned();
    for _ in 0..=links {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else { return false };
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let Ok(folder) = folder.canonicalize() else { return false };
        if folder == descriptors {
            let named = |descriptor: &usize| name == OsStr::new(&descriptor.to_string());
            return (0..3).find(named).is_some_and(start::was_closed);
        }
        let Ok(link) = path.read_link() else { return false };
        path = folder.join(link);
    }
    false
}
