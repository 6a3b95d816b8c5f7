//! Where the two ends of a channel meet.

use std::fmt;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::net::SocketAddrUnix;

use super::error::ChannelError;

/// A place where ends meet: a socket in the file system, or a name that only the kernel knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A path: whoever may write to the socket there may connect. It is made by the listener, which
    /// removes it, and what a killed listener left is replaced.
    Path(PathBuf),
    /// A name in the network namespace, gone with its listener. Everybody may connect.
    Abstract(Vec<u8>),
}

impl Address {
    /// The address that these words stand for: a path, or `@` and a name.
    ///
    /// # Errors
    /// It is empty.
    pub fn parse(words: impl AsRef<std::ffi::OsStr>) -> Result<Address, ChannelError> {
        let words = words.as_ref();
        match words.as_bytes() {
            [] | [b'@'] => Err(ChannelError::Address {
                address: words.to_string_lossy().into_owned(),
                why: "give a path, or @ and a name",
            }),
            [b'@', name @ ..] => Ok(Address::Abstract(name.to_vec())),
            _ => Ok(Address::Path(PathBuf::from(words))),
        }
    }

    pub(super) fn socket(&self) -> Result<SocketAddrUnix, ChannelError> {
        let made = match self {
            Address::Path(path) => SocketAddrUnix::new(path),
            Address::Abstract(name) => SocketAddrUnix::new_abstract_name(name),
        };
        // 108 bytes is all that the kernel's record has room for (unix(7)).
        made.map_err(|_| ChannelError::Address {
            address: self.to_string(),
            why: "it has to fit into 108 bytes, without a zero byte in a path",
        })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Path(path) => path.display().fmt(f),
            Address::Abstract(name) => write!(f, "@{}", String::from_utf8_lossy(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_told_from_a_path_and_too_long_ones_are_refused() {
        assert_eq!(Address::parse("@a").expect("a name"), Address::Abstract(b"a".to_vec()));
        assert_eq!(Address::parse("/tmp/@a").expect("a path"), Address::Path("/tmp/@a".into()));
        assert!(Address::parse("@").is_err());
        let long = Address::parse("x".repeat(109)).expect("words");
        assert!(long.socket().unwrap_err().to_string().contains("fit into 108 bytes"));
    }
}
