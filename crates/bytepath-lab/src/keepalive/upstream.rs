//! An upstream: answers every request with the same few bytes, and keeps the connection or not as the
//! request wishes. One thread, by epoll. `bytepath upstream` is this.

use std::io::{self, Write as _};
use std::os::fd::OwnedFd;

use rustix::event::epoll;
use rustix::io::Errno;
use rustix::net::SocketFlags;

use super::peer::{Peer, Received, Sent, listener};
use super::slots::Slots;
use super::{Address, Connections, Protocol, Speech};

/// Events that are taken at once.
const EVENTS: usize = 256;

/// Names the socket that listens; connections have their numbers.
const LISTENER: u64 = u64::MAX;

/// What is said on standard output when connections can come.
pub const READY: &str = "ready\n";

/// Serves until it is ended.
///
/// # Errors
/// It cannot listen there.
pub fn serve(protocol: Protocol, address: &Address) -> io::Result<()> {
    let listening = listener(address)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    let named = epoll::EventData::new_u64(LISTENER);
    epoll::add(&epoll, &listening, named, epoll::EventFlags::IN)?;
    io::stdout().write_all(READY.as_bytes()).and_then(|()| io::stdout().flush())?;
    let speech = protocol.speech();
    let responses = [Connections::New, Connections::Kept].map(|kept| (kept, speech.response(kept)));
    let mut upstream = Upstream { epoll, speech, responses, peers: Slots::default() };
    let mut events = Vec::with_capacity(EVENTS);
    loop {
        events.clear();
        match epoll::wait(&upstream.epoll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in &events {
            match event.data.u64() {
                LISTENER => upstream.accept(&listening)?,
                number => upstream.progress(number as usize),
            }
        }
    }
}

struct Upstream {
    epoll: OwnedFd,
    speech: &'static dyn Speech,
    responses: [(Connections, Vec<u8>); 2],
    peers: Slots<Served>,
}

struct Served {
    peer: Peer,
    /// Whether the connection ends when all is sent.
    ends: bool,
    /// Whether it is waited for that more can be sent.
    waits: bool,
}

impl Upstream {
    /// Takes every connection that waits.
    fn accept(&mut self, listening: &OwnedFd) -> io::Result<()> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        loop {
            match rustix::net::accept_with(listening, flags) {
                Ok(socket) => {
                    let number = self.peers.add(Served {
                        peer: Peer::new(socket),
                        ends: false,
                        waits: false,
                    });
                    let served = self.peers.get(number).expect("it was just added");
                    let named = epoll::EventData::new_u64(number as u64);
                    epoll::add(&self.epoll, &served.peer, named, epoll::EventFlags::IN)?;
                }
                Err(Errno::AGAIN) => return Ok(()),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Answers what came; one who says anything else, or has had enough, is gone.
    fn progress(&mut self, number: usize) {
        let Some(served) = self.peers.get(number) else { return };
        if !answered(self.speech, &self.responses, served, &self.epoll, number).unwrap_or(false) {
            self.peers.remove(number);
        }
    }
}

/// Whether the connection goes on.
fn answered(
    speech: &dyn Speech,
    responses: &[(Connections, Vec<u8>)],
    served: &mut Served,
    epoll: &OwnedFd,
    number: usize,
) -> io::Result<bool> {
    let mut sent = served.peer.go_on()?;
    if !served.ends && served.peer.hear()? == Received::End {
        return Ok(false);
    }
    while let Some(heard) = speech.asked(&served.peer.input).map_err(io::Error::other)? {
        served.peer.input.drain(..heard.bytes);
        let response = responses.iter().find(|(kept, _)| *kept == heard.kept);
        sent = served.peer.say(response.map_or(&[][..], |(_, bytes)| bytes))?;
        served.ends = heard.kept == Connections::New;
        if served.ends || served.peer.input.is_empty() {
            break;
        }
    }
    if (sent == Sent::Some) != served.waits {
        served.waits = sent == Sent::Some;
        let flags = match served.waits {
            true => epoll::EventFlags::IN | epoll::EventFlags::OUT,
            false => epoll::EventFlags::IN,
        };
        epoll::modify(epoll, &served.peer, epoll::EventData::new_u64(number as u64), flags)?;
    }
    Ok(served.waits || !served.ends)
}
