//! Which system calls answer here, found by calling each on something small of our own.
//!
//! A container's filter, a sandbox or a kernel's options may refuse any of them, whatever the
//! version says. Each costs five to fifteen system calls, once, and only when asked for. Whether a
//! call accepts a given *pair* of files is not a question for the machine: a route finds out when
//! it tries, and declines.

use std::io::IoSliceMut;
use std::os::fd::OwnedFd;

use rustix::fs::MemfdFlags;
use rustix::io::{self, Errno, ReadWriteFlags};
use rustix::pipe::{PipeFlags, SpliceFlags};

use super::Answer;
use crate::sys::alias_probe;

/// A call, or a way of calling, that a route may rest on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Call {
    /// vmsplice puts memory into a pipe.
    Vmsplice,
    /// vmsplice lends the memory itself: a reader of the pipe sees what is written there later.
    /// `No` means that it copies, like write.
    VmspliceAliases,
    /// splice moves from a file into a pipe.
    Splice,
    /// tee repeats a pipe's contents in another.
    Tee,
    /// copy_file_range copies from file to file.
    CopyFileRange,
    /// sendfile moves from a file into a pipe.
    Sendfile,
    /// preadv2 with RWF_NOWAIT tells that a pipe is empty without changing the pipe to O_NONBLOCK.
    Preadv2Nowait,
}

impl Call {
    /// All of them, in the order in which they are shown.
    pub const ALL: &[Call] = &[
        Call::Vmsplice,
        Call::VmspliceAliases,
        Call::Splice,
        Call::Tee,
        Call::CopyFileRange,
        Call::Sendfile,
        Call::Preadv2Nowait,
    ];

    /// The kernel's name, with what is special.
    pub fn name(self) -> &'static str {
        match self {
            Call::Vmsplice => "vmsplice",
            Call::VmspliceAliases => "vmsplice aliases",
            Call::Splice => "splice",
            Call::Tee => "tee",
            Call::CopyFileRange => "copy_file_range",
            Call::Sendfile => "sendfile",
            Call::Preadv2Nowait => "preadv2 RWF_NOWAIT on a pipe",
        }
    }

    /// Tries it now. [`Machine::call`](super::Machine::call) remembers the answer; this does not.
    pub fn probe(self) -> Answer {
        let tried = match self {
            Call::Vmsplice => alias_probe::vmsplice_aliases().map(|_| true),
            Call::VmspliceAliases => alias_probe::vmsplice_aliases(),
            Call::Splice => splice(),
            Call::Tee => tee(),
            Call::CopyFileRange => copy_file_range(),
            Call::Sendfile => sendfile(),
            Call::Preadv2Nowait => preadv2_nowait(),
        };
        match tried {
            Ok(true) => Answer::Yes,
            Ok(false) => self.without_effect(),
            Err(errno) => Answer::refused(errno, why(errno), self.remedy()),
        }
    }

    fn without_effect(self) -> Answer {
        let why = match self {
            Call::VmspliceAliases => "this kernel's vmsplice copies the memory",
            _ => "the call came back and the bytes did not arrive",
        };
        Answer::without_effect(why, self.remedy())
    }

    fn remedy(self) -> &'static str {
        match self {
            Call::Vmsplice | Call::VmspliceAliases => "write does the same work with a copy",
            Call::Preadv2Nowait => "poll before reading does the same with one more call",
            _ => "read and write do the same work with copies",
        }
    }
}

/// The likely cause of a refusal, in words.
fn why(errno: Errno) -> &'static str {
    match errno {
        Errno::NOSYS => "this kernel does not have the call, or a sandbox hides it",
        Errno::PERM | Errno::ACCESS => "a seccomp filter or a security module forbids the call",
        Errno::OPNOTSUPP => "this kernel has the call, but not for this kind of file",
        Errno::INVAL => "this kernel does not know the call in this form",
        Errno::MFILE | Errno::NFILE => "no descriptors are left (ulimit -n)",
        Errno::NOMEM => "memory is short",
        _ => "the call failed when tried",
    }
}

const WORD: &[u8] = b"bytepath";

fn splice() -> io::Result<bool> {
    let (file, (reader, writer)) = (file_with_word()?, pipe()?);
    let moved = rustix::pipe::splice(
        &file,
        Some(&mut 0),
        &writer,
        None,
        WORD.len(),
        SpliceFlags::NONBLOCK,
    )?;
    arrived(&reader, moved)
}

fn tee() -> io::Result<bool> {
    let ((source, source_writer), (reader, writer)) = (pipe()?, pipe()?);
    let written = io::write(&source_writer, WORD)?;
    let repeated = rustix::pipe::tee(&source, &writer, written, SpliceFlags::NONBLOCK)?;
    Ok(arrived(&reader, repeated)? && arrived(&source, written)?)
}

fn sendfile() -> io::Result<bool> {
    let (file, (reader, writer)) = (file_with_word()?, pipe()?);
    let moved = rustix::fs::sendfile(&writer, &file, Some(&mut 0), WORD.len())?;
    arrived(&reader, moved)
}

fn copy_file_range() -> io::Result<bool> {
    let (source, sink) = (file_with_word()?, file()?);
    let (mut from, mut to) = (0, 0);
    let (from, to) = (Some(&mut from), Some(&mut to));
    let copied = rustix::fs::copy_file_range(&source, from, &sink, to, WORD.len())?;
    let mut seen = [0; WORD.len()];
    let read = io::pread(&sink, &mut seen, 0)?;
    Ok((copied, read, seen.as_slice()) == (WORD.len(), WORD.len(), WORD))
}

/// The pipe is also O_NONBLOCK, so that a sandbox that ignores the flag cannot hang us here; Linux
/// refuses the flag with EOPNOTSUPP where it would not honour it, which makes EAGAIN an answer all
/// the same.
fn preadv2_nowait() -> io::Result<bool> {
    let (reader, _writer) = pipe()?;
    let mut seen = [0; 1];
    let mut buffers = [IoSliceMut::new(&mut seen)];
    match io::preadv2(&reader, &mut buffers, u64::MAX, ReadWriteFlags::NOWAIT) {
        Err(Errno::AGAIN) => Ok(true),
        Err(errno) => Err(errno),
        Ok(_) => Ok(false),
    }
}

fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)
}

/// A file in memory: every kernel that we run on has memfd, and it leaves nothing behind.
fn file() -> io::Result<OwnedFd> {
    rustix::fs::memfd_create("bytepath-probe", MemfdFlags::CLOEXEC)
}

fn file_with_word() -> io::Result<OwnedFd> {
    let file = file()?;
    match io::pwrite(&file, WORD, 0)? {
        written if written == WORD.len() => Ok(file),
        _ => Err(Errno::IO),
    }
}

/// Whether the word, all of it, comes out of the pipe.
fn arrived(reader: &OwnedFd, bytes: usize) -> io::Result<bool> {
    let mut seen = [0; WORD.len()];
    let read = io::read(reader, &mut seen)?;
    Ok((bytes, read, seen.as_slice()) == (WORD.len(), WORD.len(), WORD))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_answers_yes_or_says_why_not_and_what_instead() {
        for call in Call::ALL {
            match call.probe() {
                Answer::Yes => println!("{}: yes", call.name()),
                Answer::No { why, remedy, .. } => {
                    println!("{}: no, {why}", call.name());
                    assert!(!why.is_empty() && !remedy.is_empty());
                }
            }
        }
    }

    #[test]
    fn vmsplice_aliases_only_where_vmsplice_answers() {
        if Call::VmspliceAliases.probe().is_yes() {
            assert!(Call::Vmsplice.probe().is_yes());
        }
    }

    #[test]
    fn calls_are_listed_once_each_under_their_own_name() {
        let names: std::collections::BTreeSet<_> =
            Call::ALL.iter().map(|call| call.name()).collect();
        assert_eq!(names.len(), Call::ALL.len());
    }
}
