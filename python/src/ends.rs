//! The ends of a movement, by the numbers of the caller's descriptors.

use std::os::fd::{AsFd, BorrowedFd};

use bytepath::Endpoint;
use bytepath::endpoint::EndpointError;
use pyo3::prelude::*;
use rustix::io::Errno;

use crate::errors::CopyError;
use crate::sys::descriptors::{Given, given};

/// A descriptor that is to be an end, and what the caller knows it by.
pub(crate) struct End {
    number: i32,
    side: &'static str,
    given: Given,
}

impl End {
    /// # Errors
    /// The number is open on nothing, or the process is out of descriptors.
    pub(crate) fn source(py: Python<'_>, number: i32) -> PyResult<End> {
        End::new(py, number, "source")
    }

    /// # Errors
    /// As for a source.
    pub(crate) fn sink(py: Python<'_>, number: i32) -> PyResult<End> {
        End::new(py, number, "sink")
    }

    fn new(py: Python<'_>, number: i32, side: &'static str) -> PyResult<End> {
        match given(number) {
            Ok(given) => Ok(End { number, side, given }),
            Err(errno) => {
                let text = format!("the {}: {}", called(side, number), std::io::Error::from(errno));
                Err(CopyError::new(errno, text, 0).of(side).raise(py))
            }
        }
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.given.as_fd()
    }

    /// What it is, if it can be such an end.
    pub(crate) fn endpoint(&self, py: Python<'_>) -> PyResult<Endpoint<'_>> {
        let fd = self.fd();
        let end = match self.side {
            "source" => Endpoint::source(fd),
            _ => Endpoint::sink(fd),
        };
        let end = end.map_err(|error| self.refused(py, error))?;
        if end.kind().is_socket() && rustix::net::sockopt::socket_acceptconn(fd) == Ok(true) {
            let text = format!(
                "the {} listens for connections, and has no bytes itself: accept() gives what has",
                called(self.side, self.number)
            );
            return Err(CopyError::new(Errno::NOTCONN, text, 0).of(self.side).raise(py));
        }
        Ok(end)
    }

    /// The library knows it by the number of a duplicate.
    fn refused(&self, py: Python<'_>, error: EndpointError) -> PyErr {
        let name = format!("the {}", called(self.side, self.number));
        let error = match error {
            EndpointError::WrongWay { need, .. } => EndpointError::WrongWay { name, need },
            EndpointError::Directory { .. } => EndpointError::Directory { name },
            error => error,
        };
        CopyError::new(error.errno(), error.to_string(), 0).of(self.side).raise(py)
    }
}

fn called(side: &str, number: i32) -> String {
    format!("{side} (descriptor {number})")
}
