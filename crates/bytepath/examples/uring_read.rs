//! Reads a file past the page cache (O_DIRECT), with four reads in flight on an io_uring, and says
//! how many bytes it has and what they add up to.
//!
//! `cargo run --example uring_read -- FILE`

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;

use bytepath::pages::Pages;
use bytepath::ring::{Buffer, Operation, Request, Ring, Setup, Target};

/// Reads in flight.
const DEPTH: u64 = 4;

/// Bytes a read: whole blocks, at offsets that are multiples of it.
const CHUNK_BYTES: usize = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).ok_or("usage: uring_read FILE")?;
    let file = open_direct(path.as_ref())?;
    let found = file.metadata()?;
    // Four reads at once need places; and files of /proc, whose length is not told, are read from front
    // to back.
    if !found.is_file() || (found.len() == 0 && !is_empty(path.as_ref())?) {
        return Err("FILE does not tell its length; read it with cat".into());
    }
    let mut ring = Ring::open(&Setup::with_entries(DEPTH as u32)).map_err(|no| no.to_string())?;
    for chunk in 0..DEPTH {
        ring.push(read(&file, chunk, Buffer::allocate(CHUNK_BYTES, &Pages::default())?));
    }
    let (mut bytes, mut sum, mut next) = (0, 0_u64, DEPTH);
    while let Some(done) = ring.wait()? {
        let count = done.first? as usize;
        let buffer = done.buffer.ok_or("a read has a buffer")?;
        bytes += count as u64;
        sum += buffer.as_slice()[..count].iter().map(|&byte| u64::from(byte)).sum::<u64>();
        // Only the last chunk of a file is short.
        if count == CHUNK_BYTES {
            ring.push(read(&file, next, buffer));
            next += 1;
        }
    }
    println!("{bytes} bytes, sum {sum}, {} calls", ring.calls());
    Ok(())
}

/// A read of the chunk of this number, which is its token.
fn read(file: &File, chunk: u64, buffer: Buffer) -> Request<'_> {
    let (file, at) = (Target::Borrowed(file.as_fd()), chunk * CHUNK_BYTES as u64);
    Request::new(chunk, Operation::Read { file, at, bytes: 0..CHUNK_BYTES }).buffer(buffer)
}

/// Whether it has no bytes, whatever its length says.
fn is_empty(path: &std::path::Path) -> std::io::Result<bool> {
    Ok(File::open(path)?.read(&mut [0])? == 0)
}

/// Past the page cache where the file system can, through it where it cannot (EINVAL).
fn open_direct(path: &std::path::Path) -> std::io::Result<File> {
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let opened = OpenOptions::new().read(true).custom_flags(direct).open(path);
    opened.or_else(|_| File::open(path))
}
