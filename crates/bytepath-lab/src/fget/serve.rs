//! The service: threads that each wait for their connections, receive small requests, and answer
//! them. By epoll, recv and send; `serve_ring` and
//! `serve_multishot` have the ways by a ring.

use std::io::Write;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use serde::{Deserialize, Serialize};

use super::neighbours::Neighbours;
use super::protocol::{Session, Store};
use super::{FgetError, Situation, raise_descriptor_limit, serve_multishot, serve_ring};
use crate::threads;

/// The sockets that connections come by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Unix stream sockets.
    Unix,
    /// TCP over loopback, on ports that the kernel picks.
    Tcp,
}

impl Family {
    /// The families by their names.
    pub const NAMES: [&str; 2] = ["unix", "tcp"];

    /// The family of this name.
    pub fn named(name: &str) -> Option<Family> {
        match name {
            "unix" => Some(Family::Unix),
            "tcp" => Some(Family::Tcp),
            _ => None,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Family::Unix => Family::NAMES[0],
            Family::Tcp => Family::NAMES[1],
        }
    }
}

/// A service to be.
#[derive(Debug, Clone, Copy)]
pub struct Service {
    /// Who shares which descriptors.
    pub situation: Situation,
    /// Threads that answer.
    pub threads: usize,
    /// Connections that are waited for, before the first request is answered.
    pub connections: usize,
    /// Threads that open and close descriptors meanwhile.
    pub neighbours: usize,
    /// How they connect.
    pub family: Family,
}

/// What a service says first: where it listens, an address for each thread.
#[derive(Debug, Serialize, Deserialize)]
pub struct Listening {
    /// `unix:@NAME` in the abstract namespace, or `tcp:ADDRESS`.
    pub addresses: Vec<String>,
}

/// What it says last.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Served {
    /// Requests answered.
    pub requests: u64,
    /// Nanoseconds from the return of a call that waits to the next such call, over all threads; none
    /// by a ring, which receives and sends within the call that waits.
    pub busy_ns: Option<u64>,
    /// System calls of the threads that answer.
    pub calls: u64,
}

impl Served {
    /// Both together.
    pub fn with(self, other: Served) -> Served {
        Served {
            requests: self.requests + other.requests,
            busy_ns: self.busy_ns.zip(other.busy_ns).map(|(one, other)| one + other),
            calls: self.calls + other.calls,
        }
    }
}

/// A client that does not come, or says nothing, for so long is gone.
pub(super) const PATIENCE: Duration = Duration::from_secs(20);

impl Service {
    /// Serves until every client has left; `said` is told where it listens, and what was served.
    ///
    /// # Errors
    /// A socket, a thread or a table of descriptors cannot be had, or nobody comes.
    pub fn run(&self, said: &mut impl Write) -> Result<(), FgetError> {
        raise_descriptor_limit();
        let listeners: Vec<Listener> = (0..self.threads)
            .map(|thread| Listener::open(self.family, thread))
            .collect::<Result<_, _>>()?;
        let addresses = listeners.iter().map(|listener| listener.address.clone()).collect();
        tell(said, &Listening { addresses })?;
        let neighbours = Neighbours::start(self.neighbours)
            .map_err(|error| FgetError::because(format!("cannot start neighbours: {error}")))?;
        let store = Arc::new(Store::default());
        let served = match &listeners[..] {
            // No thread shares its table, not even one that waits for it to end.
            [only] => self.worker(0, only, &store)?,
            several => self.workers(several, &store)?,
        };
        drop(neighbours);
        tell(said, &served)
    }

    fn workers(&self, listeners: &[Listener], store: &Store) -> Result<Served, FgetError> {
        let each = listeners.iter().enumerate();
        let works = each.map(|(thread, listener)| move || self.worker(thread, listener, store));
        let (all, ()) = threads::all_at_once(works, || ()).map_err(FgetError::because)?;
        let all = all.into_iter().collect::<Result<Vec<_>, _>>()?;
        Ok(all.into_iter().reduce(Served::with).unwrap_or_default())
    }

    /// Serves the connections that come by one listener.
    fn worker(
        &self,
        thread: usize,
        listener: &Listener,
        store: &Store,
    ) -> Result<Served, FgetError> {
        self.situation.enter()?;
        // Connections take turns over the threads.
        let count = (self.connections + self.threads - 1 - thread) / self.threads;
        if count == 0 {
            // Not even a ring, which takes in no fewer files than one.
            return Ok(Served { busy_ns: Some(0), ..Served::default() });
        }
        if self.situation == Situation::UringDirectAccept {
            return serve_ring::by_direct_accept(listener, count, store);
        }
        let each = self.connections.div_ceil(self.threads);
        let accepted = |_| self.situation.placed(listener.accept()?, thread, each);
        let connections: Vec<OwnedFd> = (0..count).map(accepted).collect::<Result<_, _>>()?;
        match self.situation {
            Situation::Uring => serve_ring::by_ring(&connections, false, store),
            Situation::UringRegistered => serve_ring::by_ring(&connections, true, store),
            Situation::UringMultishot => serve_multishot::by_multishot(&connections, store),
            _ => by_epoll(&connections, store),
        }
    }
}

fn tell(said: &mut impl Write, what: &impl Serialize) -> Result<(), FgetError> {
    let line =
        serde_json::to_string(what).map_err(|error| FgetError::because(error.to_string()))?;
    let written = writeln!(said, "{line}").and_then(|()| said.flush());
    written.map_err(|error| FgetError::because(format!("cannot say where it listens: {error}")))
}

/// A socket that connections come by.
pub(super) struct Listener {
    socket: OwnedFd,
    address: String,
}

impl Listener {
    fn open(family: Family, thread: usize) -> Result<Listener, FgetError> {
        let failed = |error: std::io::Error| {
            FgetError::because(format!("cannot listen on a {} socket: {error}", family.name()))
        };
        match family {
            Family::Unix => {
                // In the abstract namespace: no file is left behind, whatever happens.
                let name = format!("bytepath-fget-{}-{thread}", std::process::id());
                let address = SocketAddr::from_abstract_name(&name).map_err(failed)?;
                let socket = UnixListener::bind_addr(&address).map_err(failed)?;
                Ok(Listener { socket: socket.into(), address: format!("unix:@{name}") })
            }
            Family::Tcp => {
                let socket = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).map_err(failed)?;
                let address = format!("tcp:{}", socket.local_addr().map_err(failed)?);
                Ok(Listener { socket: socket.into(), address })
            }
        }
    }

    /// Waits for the next connection, within bounds.
    pub(super) fn accept(&self) -> Result<OwnedFd, FgetError> {
        self.wait()?;
        let flags = rustix::net::SocketFlags::CLOEXEC;
        let socket = rustix::net::accept_with(&self.socket, flags)
            .map_err(FgetError::of("cannot accept a connection"))?;
        if self.address.starts_with("tcp:") {
            let stream = TcpStream::from(socket);
            let _ = stream.set_nodelay(true);
            return Ok(stream.into());
        }
        Ok(socket)
    }

    /// Waits until one can be accepted, within bounds.
    pub(super) fn wait(&self) -> Result<(), FgetError> {
        let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
        let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
        match rustix::event::poll(&mut fds, Some(&patience)) {
            Ok(0) => Err(FgetError::because("no client came")),
            Ok(_) => Ok(()),
            Err(errno) => Err(FgetError::of("cannot wait for a client")(errno)),
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Bytes that are received in one call at most.
pub(super) const RECEIVE_BYTES: usize = 4096;

/// Events taken from epoll at once, as memcached's library does at first.
const EVENTS: usize = 32;

/// Serves connections by epoll_wait, recv and send.
fn by_epoll(connections: &[OwnedFd], store: &Store) -> Result<Served, FgetError> {
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(FgetError::of("no epoll"))?;
    for (number, connection) in connections.iter().enumerate() {
        let data = epoll::EventData::new_u64(number as u64);
        epoll::add(&poll, connection, data, epoll::EventFlags::IN)
            .map_err(FgetError::of("cannot wait for a connection"))?;
    }
    let mut sessions: Vec<Session> = connections.iter().map(|_| Session::default()).collect();
    let (mut served, mut busy_ns, mut left) = (Served::default(), 0, connections.len());
    let mut events = Vec::with_capacity(EVENTS);
    let (mut piece, mut replies) = ([0; RECEIVE_BYTES], Vec::new());
    let patience = Timespec { tv_sec: PATIENCE.as_secs() as i64, tv_nsec: 0 };
    while left > 0 {
        events.clear();
        served.calls += 1;
        match epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), Some(&patience)) {
            Ok(0) => return Err(silent()),
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(errno) => return Err(FgetError::of("cannot wait for requests")(errno)),
        }
        let woken = Instant::now();
        for event in &events {
            let number = event.data.u64() as usize;
            let (connection, session) = (&connections[number], &mut sessions[number]);
            served.calls += 1;
            let count = match rustix::net::recv(connection, &mut piece, RecvFlags::DONTWAIT) {
                Ok((count, _)) => count,
                Err(Errno::AGAIN | Errno::INTR) => continue,
                // A client that broke off has left.
                Err(_) => 0,
            };
            replies.clear();
            session.take(&piece[..count], store, &mut replies);
            let gone = count == 0 || session.over;
            if !replies.is_empty() {
                served.calls += 1;
            }
            if !send_all(connection.as_fd(), &replies) || gone {
                let _ = epoll::delete(&poll, connection);
                // A client may wait for the end; the descriptor itself stays until all have left.
                let _ = rustix::net::shutdown(connection, rustix::net::Shutdown::Both);
                left -= 1;
            }
        }
        busy_ns += woken.elapsed().as_nanos() as u64;
    }
    served.busy_ns = Some(busy_ns);
    served.requests = sessions.iter().map(|session| session.requests).sum();
    Ok(served)
}

/// Nobody has said anything for as long as `PATIENCE`.
pub(super) fn silent() -> FgetError {
    FgetError::because("the clients say nothing any more")
}

/// Sends all of it; whether the client is still there.
fn send_all(connection: BorrowedFd<'_>, mut bytes: &[u8]) -> bool {
    while !bytes.is_empty() {
        match rustix::net::send(connection, bytes, SendFlags::NOSIGNAL) {
            Ok(count) => bytes = &bytes[count..],
            Err(Errno::INTR) => {}
            Err(_) => return false,
        }
    }
    true
}
