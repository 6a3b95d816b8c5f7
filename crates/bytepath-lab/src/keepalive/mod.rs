//! Requests on connections that are kept, or on one each: an upstream, a client that loads it, and
//! nginx between them.

pub mod client;
mod fastcgi;
mod http;
pub mod nginx;
mod peer;
mod slots;
mod sockets;
pub mod stage;
pub mod upstream;
pub mod work;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// What is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// HTTP/1.1.
    Http,
    /// FastCGI 1.0.
    Fastcgi,
}

/// Where somebody listens.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Address {
    /// A port of the loopback interface.
    Tcp(u16),
    /// A socket in the file system.
    Unix(PathBuf),
}

/// How long a connection lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Connections {
    /// For one request.
    New,
    /// For as many as there are.
    Kept,
}

/// How much is asked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Load {
    /// Each connection asks again as soon as it was answered.
    Saturation,
    /// So many requests a second, at times that are set beforehand, answered or not.
    Rate(f64),
}

/// Bytes of the body of a response.
pub const BODY_BYTES: usize = 128;

impl Protocol {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Http => "http",
            Protocol::Fastcgi => "fastcgi",
        }
    }

    /// The protocol of this name.
    pub fn named(name: &str) -> Option<Protocol> {
        [Protocol::Http, Protocol::Fastcgi].into_iter().find(|protocol| protocol.name() == name)
    }

    fn speech(self) -> &'static dyn Speech {
        match self {
            Protocol::Http => &http::Http,
            Protocol::Fastcgi => &fastcgi::Fastcgi,
        }
    }
}

impl Connections {
    /// Its name in those of arms.
    pub fn name(self) -> &'static str {
        match self {
            Connections::New => "new",
            Connections::Kept => "kept",
        }
    }
}

/// What one side says and understands of what the other side says.
trait Speech: Sync {
    /// A request, and whether the connection is to be kept after it.
    fn request(&self, kept: Connections) -> Vec<u8>;

    /// The request at the beginning of these bytes, if all of it is there.
    ///
    /// # Errors
    /// It is none.
    fn asked(&self, bytes: &[u8]) -> Result<Option<Heard>, String>;

    /// A response with a body of [`BODY_BYTES`].
    fn response(&self, kept: Connections) -> Vec<u8>;

    /// The response at the beginning of these bytes, if all of it is there.
    ///
    /// # Errors
    /// It is none, or one that tells of a failure.
    fn answered(&self, bytes: &[u8]) -> Result<Option<Heard>, String>;
}

/// A message that was understood.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Heard {
    /// How long it is.
    bytes: usize,
    /// Whether the other side keeps the connection.
    kept: Connections,
}

/// The body of every response.
fn body() -> [u8; BODY_BYTES] {
    [b'x'; BODY_BYTES]
}
