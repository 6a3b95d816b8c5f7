//! The kernel's word for what went wrong, as messages have it.

use rustix::io::Errno;

/// The kernel's word alone, as strerror(3) gives it.
pub(crate) fn word(errno: Errno) -> String {
    let text = std::io::Error::from(errno).to_string();
    let number = format!(" (os error {})", errno.raw_os_error());
    text.strip_suffix(&number).map(str::to_owned).unwrap_or(text)
}

/// The same of an error that may be another's than the kernel's.
pub(crate) fn word_of(error: &std::io::Error) -> String {
    Errno::from_io_error(error).map_or_else(|| error.to_string(), word)
}
