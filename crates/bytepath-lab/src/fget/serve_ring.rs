//! The service by a ring: requests are received and answered by it, one call for as many as are
//! ready.

use std::os::fd::{AsFd, OwnedFd};

use bytepath::pages::Pages;
use bytepath::ring::{Buffer, Completion, Operation, Request, Ring, Setup, Target};

use super::FgetError;
use super::protocol::{Session, Store};
use super::serve::{Listener, RECEIVE_BYTES, Served};

/// Steps that a ring has room for, whatever the connections: it then hands over what it has.
const ENTRIES_MAX: u32 = 4096;

/// A connection's buffer: what is received, then what is answered.
const BUFFER_BYTES: usize = RECEIVE_BYTES + REPLY_BYTES;
pub(super) const REPLY_BYTES: usize = 64 << 10;

/// Tokens: a connection's number, or this where the listener was asked.
const ACCEPTS: u64 = u64::MAX - 1;

/// Serves connections that are there.
pub(super) fn by_ring(
    connections: &[OwnedFd],
    registered: bool,
    store: &Store,
) -> Result<Served, FgetError> {
    let mut ring = opened(connections.len())?;
    let files: Vec<_> = connections.iter().map(AsFd::as_fd).collect();
    let targets = match registered {
        true => ring.register_files(&files).map_err(refused)?,
        false => files.iter().map(|file| Target::Borrowed(*file)).collect(),
    };
    serve(&mut ring, targets, store)
}

/// Accepts so many connections into the ring's own table, and serves them.
pub(super) fn by_direct_accept(
    listener: &Listener,
    count: usize,
    store: &Store,
) -> Result<Served, FgetError> {
    let mut ring = opened(count)?;
    ring.register_room(u32::try_from(count).unwrap_or(u32::MAX)).map_err(refused)?;
    let mut targets = Vec::new();
    for _ in 0..count {
        listener.wait()?;
        let accept = Operation::AcceptRegistered { listener: Target::Borrowed(listener.as_fd()) };
        ring.push(Request::new(ACCEPTS, accept));
        let done = ring.wait().map_err(FgetError::of("the ring fails"))?;
        let done = done.ok_or_else(|| FgetError::because("the ring forgot a connection"))?;
        done.first.map_err(FgetError::of("cannot accept into the ring (Linux 5.19 can)"))?;
        targets.extend(done.taken_in.map(Target::Registered));
    }
    serve(&mut ring, targets, store)
}

fn opened<'fd>(connections: usize) -> Result<Ring<'fd>, FgetError> {
    let steps = u32::try_from(connections * 2).unwrap_or(ENTRIES_MAX).clamp(8, ENTRIES_MAX);
    Ring::open(&Setup::with_entries(steps)).map_err(refused)
}

pub(super) fn refused(refusal: bytepath::Refusal) -> FgetError {
    FgetError::because(refusal.to_string())
}

/// A connection as it stands.
struct Client<'fd> {
    socket: Target<'fd>,
    session: Session,
    replies: Vec<u8>,
    /// How much of the replies was sent.
    sent: usize,
    sending: bool,
}

fn serve<'fd>(
    ring: &mut Ring<'fd>,
    targets: Vec<Target<'fd>>,
    store: &Store,
) -> Result<Served, FgetError> {
    let mut clients: Vec<Client<'fd>> = Vec::new();
    for (number, socket) in targets.into_iter().enumerate() {
        let (session, replies) = (Session::default(), Vec::new());
        let client = Client { socket, session, replies, sent: 0, sending: false };
        let buffer = Buffer::allocate(BUFFER_BYTES, &Pages::default())
            .map_err(|error| FgetError::because(error.to_string()))?;
        push(ring, client.receive(number as u64, buffer))?;
        clients.push(client);
    }
    let (mut served, mut left) = (Served::default(), clients.len());
    let before = ring.calls();
    while left > 0 {
        ring.submit_and_wait(1).map_err(FgetError::of("the ring fails"))?;
        while let Some(done) = ring.take() {
            match clients[done.token as usize].goes_on(done, store) {
                Some(request) => push(ring, request)?,
                None => left -= 1,
            }
        }
    }
    served.calls = ring.calls() - before;
    served.requests = clients.iter().map(|client| client.session.requests).sum();
    Ok(served)
}

pub(super) fn push<'fd>(ring: &mut Ring<'fd>, request: Request<'fd>) -> Result<(), FgetError> {
    if ring.room() == 0 {
        ring.submit().map_err(FgetError::of("the ring fails"))?;
    }
    ring.push(request);
    Ok(())
}

impl<'fd> Client<'fd> {
    fn receive(&self, token: u64, buffer: Buffer) -> Request<'fd> {
        let bytes = 0..RECEIVE_BYTES;
        Request::new(token, Operation::Receive { socket: self.socket, bytes }).buffer(buffer)
    }

    /// The next piece of the replies.
    fn send(&mut self, token: u64, mut buffer: Buffer) -> Request<'fd> {
        let count = (self.replies.len() - self.sent).min(REPLY_BYTES);
        let bytes = RECEIVE_BYTES..RECEIVE_BYTES + count;
        let piece = &self.replies[self.sent..self.sent + count];
        buffer.as_mut_slice()[bytes.clone()].copy_from_slice(piece);
        self.sending = true;
        Request::new(token, Operation::Send { socket: self.socket, bytes }).buffer(buffer)
    }

    /// What follows on an answer; nothing where the client has left.
    fn goes_on(&mut self, done: Completion, store: &Store) -> Option<Request<'fd>> {
        let count = done.first.ok()? as usize;
        let buffer = done.buffer?;
        if self.sending {
            self.sent += count;
            self.sending = false;
            if self.sent < self.replies.len() {
                return Some(self.send(done.token, buffer));
            }
        } else {
            self.replies.clear();
            self.sent = 0;
            self.session.take(&buffer.as_slice()[..count], store, &mut self.replies);
            if count == 0 {
                return None;
            }
            if !self.replies.is_empty() {
                return Some(self.send(done.token, buffer));
            }
        }
        (!self.session.over).then(|| self.receive(done.token, buffer))
    }
}
