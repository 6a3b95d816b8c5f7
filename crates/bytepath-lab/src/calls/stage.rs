//! What operations are done to: files, sockets and descriptors, made outside the clock.

use std::cell::RefCell;
use std::ffi::CString;
use std::fs::File;
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::FallocateFlags;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, bind, connect,
    listen, recv, send, socket_with,
};

use super::{CallError, Operation};
use crate::pipe_work::unix_pair;

/// Bytes of the file that is read, and in which room is made.
pub(super) const FILE_BYTES: u64 = 1 << 20;
/// Bytes of one read.
pub(super) const READ_BYTES: usize = 512;
/// Bytes that room is made for.
pub(super) const ROOM_BYTES: u64 = 4096;
/// Bytes of one message.
pub(super) const MESSAGE_BYTES: usize = 64;

/// What the operations of one process are done to.
pub(super) struct Stage {
    operation: Operation,
    /// The file that is read, and in which room is made; the one opened and asked about by path.
    pub(super) file: tempfile::NamedTempFile,
    pub(super) path: CString,
    /// Accepts connections.
    pub(super) listener: OwnedFd,
    address: SocketAddrUnix,
    /// The end that operations send on and receive from, and the other.
    pub(super) near: OwnedFd,
    far: OwnedFd,
    /// Always readable.
    pub(super) ready: OwnedFd,
    /// Never readable.
    pub(super) quiet: OwnedFd,
    /// Connections that were begun.
    clients: RefCell<Vec<OwnedFd>>,
    /// Connections that were taken: closed outside the clock.
    pub(super) taken: RefCell<Vec<OwnedFd>>,
}

impl Stage {
    pub(super) fn build(operation: Operation, directory: &Path) -> Result<Stage, CallError> {
        let made = CallError::stage("the file that operations are done to");
        let file = filled(operation, directory).map_err(made)?;
        let named = CString::new(file.path().as_os_str().as_encoded_bytes());
        let sockets = CallError::stage("sockets");
        let (listener, address) = listening().map_err(&sockets)?;
        let (near, far) = unix_pair().map_err(sockets)?;
        let event = |count| {
            let made = eventfd(count, EventfdFlags::CLOEXEC);
            made.map_err(|errno| CallError::stage("an eventfd")(errno.into()))
        };
        Ok(Stage {
            operation,
            path: named.expect("a path has no zero in it"),
            file,
            listener,
            address,
            near,
            far,
            ready: event(1)?,
            quiet: event(0)?,
            clients: RefCell::default(),
            taken: RefCell::default(),
        })
    }

    /// Makes what so many operations need.
    pub(super) fn prepare(&self, operations: u32) -> Result<(), CallError> {
        match self.operation {
            Operation::Accept => {
                let made = CallError::stage("connections (see ulimit -n)");
                let mut clients = self.clients.borrow_mut();
                for _ in 0..operations {
                    clients.push(connected(&self.address).map_err(&made)?);
                }
            }
            Operation::Receive => {
                for _ in 0..operations {
                    let message = [b'X'; MESSAGE_BYTES];
                    let sent = send(&self.far, &message, SendFlags::DONTWAIT);
                    sent.map_err(|errno| CallError::stage("bytes to receive")(errno.into()))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Clears away what so many operations left.
    pub(super) fn clear(&self, operations: u32) -> Result<(), CallError> {
        self.clients.borrow_mut().clear();
        self.taken.borrow_mut().clear();
        if self.operation == Operation::Send {
            return self.drained(MESSAGE_BYTES as u64 * u64::from(operations));
        }
        Ok(())
    }

    /// Takes what was sent, all of which has to be there.
    fn drained(&self, wanted: u64) -> Result<(), CallError> {
        let (mut found, mut piece) = (0, [0_u8; 4096]);
        while found < wanted {
            match recv(&self.far, &mut piece, RecvFlags::DONTWAIT) {
                Ok((count, _)) if count > 0 => found += count as u64,
                _ => return Err(CallError::Wrong { operation: "send", found, wanted }),
            }
        }
        Ok(())
    }
}

/// The file, with its bytes in memory and its room made.
fn filled(operation: Operation, directory: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let mut file = tempfile::Builder::new().prefix(".bytepath-calls-").tempfile_in(directory)?;
    file.write_all(&vec![b'X'; FILE_BYTES as usize])?;
    if operation == Operation::Fallocate {
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, FILE_BYTES)?;
    }
    // Written back now, so that the disk is quiet while it is measured.
    file.as_file().sync_data()?;
    Ok(file)
}

impl Stage {
    /// The file, opened.
    pub(super) fn opened(&self) -> &File {
        self.file.as_file()
    }
}

/// Connections that may wait to be taken.
const BACKLOG: i32 = 4096;

fn listening() -> std::io::Result<(OwnedFd, SocketAddrUnix)> {
    let name = format!("bytepath-calls-{}", std::process::id());
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes())?;
    let listener = stream()?;
    bind(&listener, &address)?;
    listen(&listener, BACKLOG)?;
    Ok((listener, address))
}

fn connected(address: &SocketAddrUnix) -> std::io::Result<OwnedFd> {
    // A connection that finds no place in the queue is refused rather than waited for.
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let client = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&client, address)?;
    Ok(client)
}

fn stream() -> std::io::Result<OwnedFd> {
    let flags = SocketFlags::CLOEXEC;
    Ok(socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?)
}
