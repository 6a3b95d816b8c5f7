//! By two channels, one there and one back.

use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;

use bytepath::Wait;
use bytepath::channel::{Connection, Receiver, Sender, Setup};

use super::{Medium, Side, Trips};

pub(super) struct Channel {
    pub(super) name: &'static str,
    pub(super) wait: Wait,
}

impl Medium for Channel {
    fn name(&self) -> &'static str {
        self.name
    }

    fn carries(&self, _bytes: usize) -> bool {
        true
    }

    fn joints(&self) -> io::Result<(Vec<OwnedFd>, Vec<OwnedFd>)> {
        let ((out, there), (back, home)) = (Connection::pair()?, Connection::pair()?);
        Ok((vec![out.into(), back.into()], vec![there.into(), home.into()]))
    }

    fn joints_an_end(&self) -> usize {
        2
    }

    fn end(&self, joints: Vec<OwnedFd>, side: Side) -> io::Result<Box<dyn Trips>> {
        let joints = <[OwnedFd; 2]>::try_from(joints);
        let [first, second] = joints.map_err(|_| io::Error::other("an end has two descriptors"))?;
        let (first, second) = (Connection::from_fd(first)?, Connection::from_fd(second)?);
        let setup = Setup { wait: self.wait, ..Setup::default() };
        // Each end of a channel is made while the other one is.
        let both = match side {
            Side::Begins => Both { out: first.sender(&setup)?, back: second.receiver(&setup)? },
            Side::Answers => {
                let back = first.receiver(&setup)?;
                Both { out: second.sender(&setup)?, back }
            }
        };
        Ok(Box::new(both))
    }
}

struct Both {
    out: Sender,
    back: Receiver,
}

impl Trips for Both {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)
    }

    fn receive(&mut self, into: &mut [u8]) -> io::Result<()> {
        self.back.read_exact(into)
    }
}
