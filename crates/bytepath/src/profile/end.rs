//! The ends that figures are kept for.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::endpoint::{Endpoint, Kind};

/// The ends that are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// A regular file, in the page cache.
    File,
    /// A pipe.
    Pipe,
    /// A Unix stream socket. TCP is not measured: what loopback gives says nothing of a network.
    Socket,
    /// /dev/null.
    Null,
}

impl End {
    /// The ends that these are; `None` where either is not measured.
    pub fn of_both(source: &Endpoint<'_>, sink: &Endpoint<'_>) -> Option<(End, End)> {
        Some((End::of(source.kind())?, End::of(sink.kind())?))
    }

    /// The end that this kind of descriptor is; `None` for what is not measured.
    pub fn of(kind: Kind) -> Option<End> {
        Some(match kind {
            Kind::File => End::File,
            Kind::Pipe => End::Pipe,
            Kind::UnixSocket => End::Socket,
            Kind::Null => End::Null,
            _ => return None,
        })
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            End::File => "file",
            End::Pipe => "pipe",
            End::Socket => "socket",
            End::Null => "/dev/null",
        })
    }
}

#[cfg(test)]
mod tests {
    use rustix::fd::AsFd;

    use super::*;

    #[test]
    fn figures_of_unix_sockets_are_not_those_of_tcp() {
        let end = |family| {
            let socket = rustix::net::socket(family, rustix::net::SocketType::STREAM, None);
            let socket = socket.expect("a socket");
            End::of(Endpoint::sink(socket.as_fd()).expect("a sink").kind())
        };
        assert_eq!(end(rustix::net::AddressFamily::UNIX), Some(End::Socket));
        assert_eq!(end(rustix::net::AddressFamily::INET), None);
    }
}
