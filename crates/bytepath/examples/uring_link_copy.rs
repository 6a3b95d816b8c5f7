//! Copies a file by pairs of a read and a write that are linked on an io_uring: the kernel goes
//! from one to the other by itself.
//!
//! `cargo run --example uring_link_copy -- FROM TO`

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use bytepath::pages::Pages;
use bytepath::ring::{Buffer, Operation, Request, Ring, Setup, Target};

/// Pairs in flight.
const DEPTH: usize = 4;

/// Bytes a pair.
const CHUNK_BYTES: u64 = 256 << 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut paths = std::env::args_os().skip(1);
    let mut path = || paths.next().ok_or("usage: uring_link_copy FROM TO");
    let from = File::open(path()?)?;
    // Not emptied before it is known to be another file.
    let to = OpenOptions::new().write(true).create(true).truncate(false).open(path()?)?;
    let (found, there) = (from.metadata()?, to.metadata()?);
    if (found.dev(), found.ino()) == (there.dev(), there.ino()) {
        return Err("FROM and TO are the same file".into());
    }
    // Where the length is not told (a pipe, a file of /proc), pieces have no places.
    let bytes = found.len();
    if !found.is_file() || (bytes == 0 && (&from).read(&mut [0])? > 0) {
        return Err("FROM does not tell its length; copy it with cat".into());
    }
    if there.is_file() {
        to.set_len(0)?;
    }
    let mut ring =
        Ring::open(&Setup::with_entries(2 * DEPTH as u32)).map_err(|no| no.to_string())?;
    // What is still to be copied: a pair that comes back short leaves its rest here.
    let mut todo: Vec<(u64, u64)> = (0..bytes)
        .step_by(CHUNK_BYTES as usize)
        .map(|at| (at, CHUNK_BYTES.min(bytes - at)))
        .collect();
    let mut under_way: [(u64, u64); DEPTH] = [(0, 0); DEPTH];
    for (token, piece) in under_way.iter_mut().enumerate() {
        let Some(next) = todo.pop() else { break };
        let buffer = Buffer::allocate(CHUNK_BYTES as usize, &Pages::default())?;
        *piece = next;
        ring.push(pair(&from, &to, token as u64, next, buffer));
    }
    while let Some(done) = ring.wait()? {
        let (at, len) = under_way[done.token as usize];
        match (done.first?, done.then.ok_or("a pair has two answers")?) {
            (0, _) => return Err(format!("{at} bytes were there, and {bytes} before").into()),
            // A short read breaks the link: the write is cancelled, and both are tried in two parts.
            (read, Err(rustix::io::Errno::CANCELED)) => {
                let read = u64::from(read);
                todo.extend([(at + read, len - read), (at, read)]);
            }
            (_, written) => {
                let written = u64::from(written?);
                if written < len {
                    todo.push((at + written, len - written));
                }
            }
        }
        if let (Some(next), Some(buffer)) = (todo.pop(), done.buffer) {
            under_way[done.token as usize] = next;
            ring.push(pair(&from, &to, done.token, next, buffer));
        }
    }
    println!("{bytes} bytes in {} calls", ring.calls());
    Ok(())
}

/// A read of one piece and, linked to it, a write of the same.
fn pair<'fd>(
    from: &'fd File,
    to: &'fd File,
    token: u64,
    (at, len): (u64, u64),
    buffer: Buffer,
) -> Request<'fd> {
    let bytes = 0..len as usize;
    let (from, to) = (Target::Borrowed(from.as_fd()), Target::Borrowed(to.as_fd()));
    let read = Operation::Read { file: from, at, bytes: bytes.clone() };
    Request::new(token, read).then(Operation::Write { file: to, at, bytes }).buffer(buffer)
}
