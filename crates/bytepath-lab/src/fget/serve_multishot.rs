//! The service by a ring that is asked once for each connection: whatever comes lands in a buffer
//! that the ring has in store, for as long as there is one.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Instant;

use bytepath::pages::Pages;
use bytepath::ring::{Buffer, Completion, Operation, Request, Ring, Target};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

use super::FgetError;
use super::protocol::{Session, Store};
use super::serve::{RECEIVE_BYTES, Served};
use super::serve_ring::{REPLY_BYTES, TIME, opened, push, refused, wait_until_silent};

/// A client that lets so many bytes of answers wait does not read them.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Serves connections that are there.
pub(super) fn by_multishot(connections: &[OwnedFd], store: &Store) -> Result<Served, FgetError> {
    let count = connections.len();
    let mut ring = opened(count)?;
    let files: Vec<_> = connections.iter().map(AsFd::as_fd).collect();
    let targets = ring.register_files(&files).map_err(refused)?;
    ring.provide(u16::try_from(count).unwrap_or(u16::MAX), RECEIVE_BYTES).map_err(refused)?;
    serve(&mut ring, targets, connections, store)
}

/// A connection as it stands.
struct Client<'fd> {
    socket: Target<'fd>,
    session: Session,
    replies: Vec<u8>,
    /// How much of the replies was sent.
    sent: usize,
    /// Memory to send from, while nothing is sent.
    idle: Option<Buffer>,
    receiving: bool,
    gone: bool,
}

/// A client's two requests, as tokens tell them.
const RECEIVES: u64 = 0;
const SENDS: u64 = 1;

fn serve<'fd>(
    ring: &mut Ring<'fd>,
    targets: Vec<Target<'fd>>,
    connections: &[OwnedFd],
    store: &Store,
) -> Result<Served, FgetError> {
    let mut clients: Vec<Client<'fd>> = Vec::new();
    for (number, socket) in targets.into_iter().enumerate() {
        let buffer = Buffer::allocate(REPLY_BYTES, &Pages::default())
            .map_err(|error| FgetError::because(error.to_string()))?;
        let mut client = Client {
            socket,
            session: Session::default(),
            replies: Vec::new(),
            sent: 0,
            idle: Some(buffer),
            receiving: false,
            gone: false,
        };
        client.goes_on(number as u64, ring)?;
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
            if done.token == TIME {
                wait_until_silent(ring, heard)?;
                continue;
            }
            heard = woken;
            let (number, kind) = (done.token >> 1, done.token & 1);
            let client = &mut clients[number as usize];
            let was_there = client.is_there();
            match kind {
                RECEIVES => client.received(done, ring, store)?,
                _ => client.has_sent(done),
            }
            client.goes_on(number, ring)?;
            if was_there && !client.is_there() {
                left -= 1;
                // A client may wait for the end; the socket itself stays until all have left.
                let _ = shutdown(&connections[number as usize], Shutdown::Both);
            }
        }
    }
    served.calls = ring.calls() - before;
    served.requests = clients.iter().map(|client| client.session.requests).sum();
    Ok(served)
}

impl<'fd> Client<'fd> {
    /// Whether there is anything to be done for it: one that wishes to end gets its answers first.
    fn is_there(&self) -> bool {
        let is_answered = self.session.over && self.replies.is_empty();
        !self.gone && !is_answered
    }

    /// Takes what came; requests that come while answers are under way are answered behind them.
    fn received(
        &mut self,
        done: Completion,
        ring: &mut Ring<'fd>,
        store: &Store,
    ) -> Result<(), FgetError> {
        self.receiving = done.more;
        if let Some(piece) = done.piece {
            self.session.take(ring.piece(&piece), store, &mut self.replies);
            ring.give_back(piece);
        }
        match done.first {
            // It is asked again, now that a buffer is there.
            Err(Errno::NOBUFS) => {}
            Err(Errno::INVAL) => {
                return Err(FgetError::because(format!(
                    "{}; Linux 6.0 and later receive so",
                    ring.refusal(Errno::INVAL)
                )));
            }
            // A client that broke off has left, as one that ends has.
            Err(_) | Ok(0) => self.gone = true,
            Ok(_) => self.gone |= self.replies.len() - self.sent > WAITING_BYTES_MAX,
        }
        Ok(())
    }

    fn has_sent(&mut self, done: Completion) {
        self.idle = done.buffer;
        match done.first {
            Ok(count) => self.sent += count as usize,
            Err(_) => self.gone = true,
        }
        if self.sent == self.replies.len() {
            self.replies.clear();
            self.sent = 0;
        }
    }

    /// Asks for what is not under way: to receive, and to send the next piece of the replies.
    fn goes_on(&mut self, number: u64, ring: &mut Ring<'fd>) -> Result<(), FgetError> {
        if !self.is_there() {
            return Ok(());
        }
        if !self.receiving && !self.session.over {
            let receive = Operation::ReceiveEach { socket: self.socket };
            push(ring, Request::new(number << 1 | RECEIVES, receive))?;
            self.receiving = true;
        }
        if self.sent < self.replies.len()
            && let Some(mut buffer) = self.idle.take()
        {
            let piece = &self.replies[self.sent..];
            let piece = &piece[..piece.len().min(REPLY_BYTES)];
            buffer.as_mut_slice()[..piece.len()].copy_from_slice(piece);
            let send = Operation::Send { socket: self.socket, bytes: 0..piece.len() };
            push(ring, Request::new(number << 1 | SENDS, send).buffer(buffer))?;
        }
        Ok(())
    }
}
