//! HTTP on a Unix socket, one answer a connection: GET /metrics.

use std::io::{ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::{Duration, Instant};

use super::{EVERY, Telling, warn};

/// Who asks has so long to say so, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(2);
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
    while telling.code().is_none() {
        if telling.wait(None, Some(&listener.as_fd())) {
            match listener.accept() {
                // Who leaves without its answer has no further claim.
                Ok((stream, _)) => drop(answer(&stream, &page)),
                // Out of descriptors, say: not to be asked again at once.
                Err(error) if error.kind() != ErrorKind::WouldBlock => {
                    telling.wait(Some(EVERY), None);
                }
                Err(_) => {}
            }
        }
    }
    drop(listener);
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

fn answer(mut stream: &UnixStream, page: &impl Fn() -> String) -> std::io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let (status, body) = match asked(stream)? {
        Asked::Page => ("200 OK", page()),
        Asked::Head => ("200 OK", String::new()),
        Asked::Wrong(status) => (status, format!("{status}; ask for GET /metrics\n")),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes())
}

enum Asked {
    Page,
    Head,
    Wrong(&'static str),
}

fn asked(mut stream: &UnixStream) -> std::io::Result<Asked> {
    let until = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(Asked::Wrong("408 Request Timeout"));
        }
        stream.set_read_timeout(Some(left))?;
        let count = stream.read(&mut piece)?;
        bytes.extend_from_slice(&piece[..count]);
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut request = httparse::Request::new(&mut headers);
        match request.parse(&bytes) {
            Ok(httparse::Status::Complete(_)) => return Ok(meant(&request)),
            Ok(httparse::Status::Partial) if count > 0 && bytes.len() < REQUEST_BYTES_MAX => {}
            Ok(httparse::Status::Partial) | Err(_) => return Ok(Asked::Wrong("400 Bad Request")),
        }
    }
}

fn meant(request: &httparse::Request<'_, '_>) -> Asked {
    let path = request.path.unwrap_or_default().split('?').next();
    match (request.method, path) {
        (Some("GET"), Some("/metrics")) => Asked::Page,
        (Some("HEAD"), Some("/metrics")) => Asked::Head,
        (Some("GET" | "HEAD"), _) => Asked::Wrong("404 Not Found"),
        _ => Asked::Wrong("405 Method Not Allowed"),
    }
}
