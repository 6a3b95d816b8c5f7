//! TCP on the loopback device by MSG_ZEROCOPY: the kernel is given the pages that the bytes lie in.
//!
//! Costs per buffer what read and write do, but for the copy from the sender to the kernel, where the
//! kernel does without it: on the loopback device it copies after all, and says so. Each buffer's
//! pages are looked up, held, and told of in the error queue besides.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;

use bytepath::pages::{Memory, Pages};
use bytepath::zero_copy::ZeroCopySender;
use rustix::net::AddressFamily;
use serde_json::Value;

use super::stream::Socket;
use super::{PIECE_BYTES, Receives, Sends, Way, uninterrupted};

/// TCP, whose sender lends its pages.
pub(super) struct ZeroCopy;

const TCP: Socket = Socket { name: "tcp-loopback", family: AddressFamily::INET };

/// Buffers that are out at once, at the most: the sender goes on while the kernel needs some.
const BUFFERS: usize = 16;

impl Way for ZeroCopy {
    fn name(&self) -> &'static str {
        "tcp-msg-zerocopy"
    }

    fn how(&self) -> &'static str {
        "send of 64 KiB with MSG_ZEROCOPY, through connected stream sockets, and read"
    }

    fn link(&self) -> io::Result<(OwnedFd, OwnedFd)> {
        TCP.link()
    }

    fn sender(&self, link: OwnedFd, _bytes: u64) -> io::Result<Box<dyn Sends>> {
        let sender = ZeroCopySender::new(link).map_err(|error| {
            let word =
                format!("the kernel sends nothing without a copy here (SO_ZEROCOPY): {error}");
            io::Error::new(error.kind(), word)
        })?;
        Ok(Box::new(Lending(sender)))
    }

    fn receiver(&self, link: OwnedFd) -> io::Result<Box<dyn Receives>> {
        TCP.receiver(link)
    }
}

struct Lending(ZeroCopySender);

impl Sends for Lending {
    fn send(&mut self, mut file: &File) -> io::Result<u64> {
        let mut reads = 0;
        loop {
            let back = match self.0.out() {
                BUFFERS => self.0.take_back()?,
                _ => None,
            };
            let mut buffer = match back {
                Some(buffer) => buffer,
                None => {
                    Memory::allocate(PIECE_BYTES, &Pages::default()).map_err(io::Error::other)?
                }
            };
            let count = uninterrupted(|| file.read(buffer.as_mut_slice()))?;
            reads += 1;
            if count == 0 {
                break;
            }
            self.0.send(buffer, count).map_err(|failed| io::Error::from(failed.errno))?;
        }
        while self.0.take_back()?.is_some() {}
        Ok(reads + self.0.meter().read().calls)
    }

    fn found(&self) -> BTreeMap<String, Value> {
        let (sends, copied) = self.0.copied();
        let share = copied as f64 / sends.max(1) as f64;
        BTreeMap::from([("copied_by_the_kernel_after_all".to_owned(), share.into())])
    }
}
