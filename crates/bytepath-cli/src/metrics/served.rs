//! HTTP on a Unix socket, one answer a connection: GET /metrics.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use super::{EVERY, Telling, warn};

/// Who asks has so long to say so.
const PATIENCE: Duration = Duration::from_secs(2);
/// And to take an answer that is longer than what a socket holds.
const TAKEN_WITHIN: Duration = Duration::from_millis(100);
/// So many may be about to ask; who has been for longest gives way to the next.
const CLIENTS_MAX: usize = 16;
/// A request is no longer than this.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Nor has it more headers.
const HEADERS_MAX: usize = 64;

/// Answers until the job has ended.
pub(super) fn serve(path: &Path, telling: &Telling, page: impl Fn() -> String) {
    let listener = match listener(path) {
        Ok(listener) => listener,
        Err(error) => {
            let path = path.display();
            warn(format_args!(
                "--metrics: cannot listen on {path}: {error}; the job goes on without"
            ));
            return;
        }
    };
    let made = identity(path);
    let mut clients: Vec<Client> = Vec::new();
    while telling.code().is_none() {
        let first = clients.iter().map(|client| client.until).min();
        let left = first.map(|until| until.saturating_duration_since(Instant::now()));
        let sockets = clients.iter().map(|client| client.stream.as_fd());
        telling.wait(left, sockets.chain([listener.as_fd()]));
        match listener.accept() {
            Ok((stream, _)) => {
                clients.extend(Client::new(stream));
                clients.drain(..clients.len().saturating_sub(CLIENTS_MAX));
            }
            // Out of descriptors, say: not to be asked again at once.
            Err(error) if error.kind() != ErrorKind::WouldBlock => telling.wait(Some(EVERY), []),
            Err(_) => {}
        }
        clients.retain_mut(|client| client.is_waited_for(&page));
    }
    drop((listener, clients));
    // Another job may have its own there by now.
    if made.is_some() && made == identity(path) {
        let _ = std::fs::remove_file(path);
    }
}

fn identity(path: &Path) -> Option<(u64, u64)> {
    std::fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Takes the place of a socket that nobody listens on, which a killed job left; of nothing else.
fn listener(path: &Path) -> std::io::Result<UnixListener> {
    let is_left = || {
        std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket())
            && UnixStream::connect(path)
                .is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
    };
    let listener = match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse && is_left() => {
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// One who is about to ask.
struct Client {
    stream: UnixStream,
    /// What was said so far.
    bytes: Vec<u8>,
    until: Instant,
}

impl Client {
    fn new(stream: UnixStream) -> std::io::Result<Client> {
        stream.set_nonblocking(true)?;
        stream.set_write_timeout(Some(TAKEN_WITHIN))?;
        Ok(Client { stream, bytes: Vec::new(), until: Instant::now() + PATIENCE })
    }

    /// Hears what was said, and answers once that is all; whether there is more to hear.
    fn is_waited_for(&mut self, page: &impl Fn() -> String) -> bool {
        match self.asked() {
            Ok(None) => return true,
            // Who leaves without its answer has no further claim.
            Ok(Some(asked)) => drop(self.answer(asked, page)),
            Err(_) => {}
        }
        false
    }

    fn answer(&mut self, asked: Asked, page: &impl Fn() -> String) -> std::io::Result<()> {
        let Asked { status, is_for_head } = asked;
        let mut body = match status {
            OK => page(),
            wrong => format!("{wrong}; ask for GET /metrics\n"),
        };
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
             Content-Length: {}\r\nConnection: close\r\n\r\n",
            body.len()
        );
        // Whose head tells of the body that GET gets (RFC 9110, 8.6).
        if is_for_head {
            body.clear();
        }
        self.stream.set_nonblocking(false)?;
        self.stream.write_all((head + &body).as_bytes())
    }

    /// What is asked for, once all of that was said.
    fn asked(&mut self) -> std::io::Result<Option<Asked>> {
        let late =
            || (Instant::now() >= self.until).then_some(Asked::unclear("408 Request Timeout"));
        let mut piece = [0; 1024];
        let count = match (&self.stream).read(&mut piece) {
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(late()),
            read => read?,
        };
        self.bytes.extend_from_slice(&piece[..count]);
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        Ok(match request.parse(&self.bytes) {
            Ok(httparse::Status::Complete(_)) => Some(meant(&request)),
            Ok(httparse::Status::Partial) if count > 0 && self.bytes.len() < REQUEST_BYTES_MAX => {
                late()
            }
            Ok(httparse::Status::Partial) | Err(_) => Some(Asked::unclear("400 Bad Request")),
        })
    }
}

const OK: &str = "200 OK";

/// How it is answered.
struct Asked {
    status: &'static str,
    is_for_head: bool,
}

impl Asked {
    fn unclear(status: &'static str) -> Asked {
        Asked { status, is_for_head: false }
    }
}

fn meant(request: &httparse::Request<'_, '_>) -> Asked {
    let path = request.path.unwrap_or_default().split('?').next();
    let status = match (request.method, path) {
        (Some("GET" | "HEAD"), Some("/metrics")) => OK,
        (Some("GET" | "HEAD"), _) => "404 Not Found",
        _ => "405 Method Not Allowed",
    };
    Asked { status, is_for_head: request.method == Some("HEAD") }
}
