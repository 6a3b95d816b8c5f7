//! A pipe of its usual size: written from a buffer, read into another.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use bytepath::pages::AlignedBuffer;

use crate::pipe_work::full_pipe;

use super::{Count, PIECE_BYTES, Reads, Ready, Stream, WORD_BYTES};

pub(super) struct Pipe;

impl Stream for Pipe {
    fn name(&self) -> &'static str {
        "pipe"
    }

    fn joints(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        full_pipe().map_err(io::Error::other)
    }

    fn reader(&self, joint: OwnedFd) -> io::Result<Box<dyn Reads>> {
        let buffer = AlignedBuffer::new(PIECE_BYTES);
        Ok(Box::new(Reader { pipe: joint.into(), buffer, count: Count::default() }))
    }

    fn write(&self, joint: OwnedFd, ready: Ready<'_>) -> io::Result<()> {
        let (mut pipe, mut buffer) = (File::from(joint), AlignedBuffer::new(PIECE_BYTES));
        ready()?;
        let mut count = Count::default();
        loop {
            let words = buffer.chunks_exact_mut(WORD_BYTES);
            for (word, value) in words.zip(count.take(PIECE_BYTES / WORD_BYTES)) {
                word.copy_from_slice(&value.to_ne_bytes());
            }
            pipe.write_all(&buffer)?;
        }
    }
}

struct Reader {
    pipe: File,
    buffer: AlignedBuffer,
    count: Count,
}

impl Reads for Reader {
    fn read(&mut self) -> io::Result<usize> {
        self.pipe.read_exact(&mut self.buffer)?;
        let (words, _) = self.buffer.as_chunks::<WORD_BYTES>();
        self.count.check(words.len(), words.iter().map(|word| u64::from_ne_bytes(*word)))
    }
}
