//! The service by a ring: requests are received and answered by it, one call for as many as are
//! ready.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use bytepath::pages::Pages;
use bytepath::ring::{Buffer, Completion, Operation, Request, Ring, Setup, Target};

use super::FgetError;
use super::protocol::{Session, Store};
use super::serve::{Listener, PATIENCE, RECEIVE_BYTES, Served, silent};

/// A ring has no room for the receiving and the sending of more connections, and for time.
const CONNECTIONS_MAX: usize = (1 << 14) - 1;

/// A connection's buffer: what is received, then what is answered.
const BUFFER_BYTES: usize = RECEIVE_BYTES + REPLY_BYTES;
pub(super) const REPLY_BYTES: usize = 64 << 10;

/// Tokens: a connection's number, or these: where the listener was asked, where time was, and where a
/// connection was ended.
const ACCEPTS: u64 = u64::MAX - 1;
pub(super) const TIME: u64 = u64::MAX - 2;
const ENDS: u64 = u64::MAX - 3;

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

/// A ring for so many connections.
pub(super) fn opened<'fd>(connections: usize) -> Result<Ring<'fd>, FgetError> {
    if connections > CONNECTIONS_MAX {
        return Err(FgetError::because(format!(
            "a ring serves {CONNECTIONS_MAX} connections, and not {connections}: take more threads"
        )));
    }
    let steps = (connections as u32 * 2 + 1).max(8);
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
    let mut heard = Instant::now();
    wait_until_silent(ring, heard)?;
    while left > 0 {
        ring.submit_and_wait(1).map_err(FgetError::of("the ring fails"))?;
        let woken = Instant::now();
        while let Some(done) = ring.take() {
            match done.token {
                TIME => wait_until_silent(ring, heard)?,
                ENDS => {}
                number => {
                    heard = woken;
                    let client = &mut clients[number as usize];
                    let socket = client.socket;
                    let next = client.goes_on(done, store);
                    left -= usize::from(next.is_none());
                    // A client may wait for the end; the socket itself stays until all have left.
                    let ends = || Request::new(ENDS, Operation::Shutdown { socket });
                    push(ring, next.unwrap_or_else(ends))?;
                }
            }
        }
    }
    served.calls = ring.calls() - before;
    served.requests = clients.iter().map(|client| client.session.requests).sum();
    Ok(served)
}

/// Has the ring tell when nobody will have been heard for as long as clients are waited for.
///
/// # Errors
/// That is now.
pub(super) fn wait_until_silent(ring: &mut Ring<'_>, heard: Instant) -> Result<(), FgetError> {
    match PATIENCE.checked_sub(heard.elapsed()) {
        Some(left) => push(ring, Request::new(TIME, Operation::Timeout(left))),
        None => Err(silent()),
    }
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

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;

    use super::*;
    use crate::fget::{raise_descriptor_limit, serve_multishot};

    /// More than a ring has entries for by default; of clients that have left.
    #[test]
    fn thousands_of_connections_have_room_in_a_ring_and_more_than_it_holds_are_refused() {
        raise_descriptor_limit();
        let ours = |_| UnixStream::pair().map(|(ours, _)| OwnedFd::from(ours));
        let all: Result<Vec<OwnedFd>, _> = (0..5000).map(ours).collect();
        let Ok(all) = all else { return println!("skipped: there are no 5,000 descriptors") };
        let store = Store::default();
        for served in [
            by_ring(&all, false, &store),
            by_ring(&all, true, &store),
            serve_multishot::by_multishot(&all, &store),
        ] {
            match served {
                Ok(served) => assert_eq!(served.requests, 0),
                Err(error) => println!("skipped: {error}"),
            }
        }
        let refused = opened(CONNECTIONS_MAX + 1).expect_err("too many");
        assert!(refused.to_string().contains("take more threads"), "{refused}");
    }
}
