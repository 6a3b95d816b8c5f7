//! By write and read: pipes, sockets, eventfds.

use std::fs::File;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;

use rustix::event::EventfdFlags;

use crate::pipe_work::{full_pipe, tcp_pair, unix_pair};

use super::{Medium, Side, Trips};

pub(super) struct Files {
    pub(super) name: &'static str,
    pub(super) of: Of,
}

/// What the descriptors are of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Of {
    Pipes,
    UnixSockets,
    Tcp,
    Eventfds,
}

/// What an eventfd counts in.
const COUNTER_BYTES: usize = 8;

/// One end's: what it writes to, and what it reads from.
type Joints = Vec<OwnedFd>;

impl Medium for Files {
    fn name(&self) -> &'static str {
        self.name
    }

    fn carries(&self, bytes: usize) -> bool {
        self.of != Of::Eventfds || bytes == COUNTER_BYTES
    }

    fn joints(&self) -> io::Result<(Joints, Joints)> {
        match self.of {
            Of::Pipes => {
                let (there, out) = full_pipe().map_err(io::Error::other)?;
                let (back, home) = full_pipe().map_err(io::Error::other)?;
                Ok((vec![out, back], vec![home, there]))
            }
            Of::Eventfds => {
                let made = || rustix::event::eventfd(0, EventfdFlags::CLOEXEC);
                let (out, back) = (made()?, made()?);
                Ok((vec![out.try_clone()?, back.try_clone()?], vec![back, out]))
            }
            Of::UnixSockets => {
                let (one, other) = unix_pair()?;
                Ok((vec![one.try_clone()?, one], vec![other.try_clone()?, other]))
            }
            Of::Tcp => {
                let (one, other) = tcp_pair()?;
                let both = |stream: TcpStream| -> io::Result<Joints> {
                    stream.set_nodelay(true)?;
                    Ok(vec![stream.try_clone()?.into(), stream.into()])
                };
                Ok((both(one)?, both(other)?))
            }
        }
    }

    fn joints_an_end(&self) -> usize {
        2
    }

    fn end(&self, joints: Joints, _side: Side) -> io::Result<Box<dyn Trips>> {
        let joints = <[OwnedFd; 2]>::try_from(joints);
        let [out, back] = joints.map_err(|_| io::Error::other("an end has two descriptors"))?;
        Ok(Box::new(Both { out: out.into(), back: back.into() }))
    }
}

struct Both {
    out: File,
    back: File,
}

impl Trips for Both {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<()> {
        self.back.read_exact(into)
    }
}
