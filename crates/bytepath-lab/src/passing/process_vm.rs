//! The receiver reads the sender's memory (process_vm_readv).
//!
//! Costs per buffer two copies of its bytes (file to sender, sender to receiver), the system calls
//! for them, and two packets by which the ends take turns; two buffers keep both at work.

use std::fs::File;
use std::io::{self, IoSliceMut, Read};
use std::os::fd::OwnedFd;

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::unistd::Pid;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{PTracer, set_ptracer};

use super::{Receives, Sends, Sink, Way, uninterrupted};

/// process_vm_readv, told where by packets on a Unix socket.
pub(super) struct ProcessVm;

/// Buffers that the sender fills in turn, and what each holds.
const BUFFERS: usize = 2;
const BUFFER_BYTES: usize = 256 << 10;

impl Way for ProcessVm {
    fn name(&self) -> &'static str {
        "process-vm"
    }

    fn how(&self) -> &'static str {
        "process_vm_readv of 256 KiB from the sender's memory"
    }

    fn link(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        Ok(rustix::net::socketpair(family, kind, SocketFlags::CLOEXEC, None)?)
    }

    fn sender(&self, link: OwnedFd) -> io::Result<Box<dyn Sends>> {
        Ok(Box::new(Shown(link)))
    }

    fn receiver(&self, link: OwnedFd) -> io::Result<Box<dyn Receives>> {
        Ok(Box::new(Looker(link)))
    }
}

/// A stretch of the sender's memory.
struct Stretch {
    process: i32,
    address: u64,
    bytes: u64,
}

impl Stretch {
    fn packet(&self) -> [u8; 24] {
        let words = [self.process as u64, self.address, self.bytes];
        let mut packet = [0; 24];
        for (to, word) in packet.chunks_exact_mut(8).zip(words) {
            to.copy_from_slice(&word.to_ne_bytes());
        }
        packet
    }

    fn of(packet: &[u8]) -> Option<Stretch> {
        let word =
            |at: usize| packet.get(at..)?.first_chunk().map(|word| u64::from_ne_bytes(*word));
        Some(Stretch { process: word(0)? as i32, address: word(8)?, bytes: word(16)? })
    }
}

struct Shown(OwnedFd);

impl Sends for Shown {
    fn send(&mut self, mut file: &File) -> io::Result<u64> {
        // Where only parents may look (kernel.yama.ptrace_scope 1), this lets others; elsewhere the
        // kernel does not know the wish.
        let _ = set_ptracer(PTracer::Any);
        let mut buffers = vec![vec![0; BUFFER_BYTES]; BUFFERS];
        let (mut sent, mut looked_at, mut calls) = (0, 0, 0);
        loop {
            if sent - looked_at == BUFFERS {
                self.until_looked_at()?;
                looked_at += 1;
                calls += 1;
            }
            let buffer = &mut buffers[sent % BUFFERS];
            let count = uninterrupted(|| file.read(buffer))?;
            calls += 2;
            if count == 0 {
                break;
            }
            let stretch = Stretch {
                process: rustix::process::getpid().as_raw_pid(),
                address: buffer.as_ptr() as u64,
                bytes: count as u64,
            };
            rustix::net::send(&self.0, &stretch.packet(), SendFlags::NOSIGNAL)?;
            sent += 1;
        }
        rustix::net::shutdown(&self.0, rustix::net::Shutdown::Write)?;
        // The last of them are looked at while they are still there.
        for _ in looked_at..sent {
            self.until_looked_at()?;
        }
        Ok(calls)
    }
}

impl Shown {
    /// Waits until the receiver has looked at the oldest buffer that it has not told of.
    fn until_looked_at(&self) -> io::Result<()> {
        let told = || Ok(rustix::net::recv(&self.0, &mut [0; 1], RecvFlags::empty())?.1);
        match uninterrupted(told)? {
            0 => Err(io::Error::other("the receiver is gone")),
            _ => Ok(()),
        }
    }
}

struct Looker(OwnedFd);

impl Receives for Looker {
    fn receive(&mut self, sink: &mut Sink) -> io::Result<u64> {
        let (mut buffer, mut calls) = (vec![0; BUFFER_BYTES], 0);
        loop {
            let mut packet = [0; 24];
            let heard = || Ok(rustix::net::recv(&self.0, &mut packet, RecvFlags::empty())?.1);
            if uninterrupted(heard)? == 0 {
                return Ok(calls + 1);
            }
            let stretch = Stretch::of(&packet).ok_or_else(|| io::Error::other("no stretch"))?;
            let bytes = (stretch.bytes as usize).min(BUFFER_BYTES);
            calls += 2 + look(&stretch, &mut buffer[..bytes])?;
            calls += sink.take(&buffer[..bytes])?;
            rustix::net::send(&self.0, b"l", SendFlags::NOSIGNAL)?;
        }
    }
}

/// Reads a stretch of the other process's memory; the system calls that it took.
fn look(stretch: &Stretch, into: &mut [u8]) -> io::Result<u64> {
    let (mut done, mut calls) = (0, 0);
    while done < into.len() {
        let base = stretch.address as usize + done;
        let remote = [RemoteIoVec { base, len: into.len() - done }];
        let mut local = [IoSliceMut::new(&mut into[done..])];
        match process_vm_readv(Pid::from_raw(stretch.process), &mut local, &remote) {
            Ok(0) => return Err(io::Error::other("the sender's memory is gone")),
            Ok(count) => done += count,
            Err(nix::errno::Errno::EPERM) => {
                return Err(io::Error::other(
                    "the sender's memory may not be read (process_vm_readv: EPERM); a sandbox or \
                     kernel.yama.ptrace_scope keeps this process from it",
                ));
            }
            Err(errno) => return Err(errno.into()),
        }
        calls += 1;
    }
    Ok(calls)
}
