//! A client that asks as fast as it is answered, or at times that are set beforehand, and clocks every
//! answer. One thread, by epoll. `bytepath fetch` is this.
//!
//! At a rate the clock of a request starts when it was due, whether a connection was free or not: an
//! upstream that stalls does not keep the requests from being made that would have seen it ("coordinated
//! omission", Gil Tene).

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use bytepath_report::latency;
use hdrhistogram::Histogram;
use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use super::peer::{Peer, Received};
use super::{Address, Connections, Load, Protocol, Speech};
use crate::ends::Usage;

/// Events that are taken at once.
const EVENTS: usize = 256;

/// For so long answers are waited for after the time is over; what has none by then has failed.
const DRAIN: Duration = Duration::from_secs(2);

/// After so many failures nothing more is asked.
const FAILURES_MAX: u64 = 10_000;

/// What is said on standard output when the clock starts.
pub const BEGINS: &[u8; 7] = b"begins\n";

/// What it is to do.
#[derive(Debug, Clone)]
pub struct Job {
    /// What is spoken.
    pub protocol: Protocol,
    /// Who is asked.
    pub address: Address,
    /// How long a connection lasts.
    pub connections: Connections,
    /// How many connections at once at most.
    pub concurrency: usize,
    /// How much is asked.
    pub load: Load,
    /// For so long before the clock starts.
    pub warm_up: Duration,
    /// For so long.
    pub time: Duration,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AskReport {
    /// Requests that were answered.
    pub answered: u64,
    /// Requests that were not, or that somebody answered who could not help.
    pub failed: u64,
    /// Why the first one failed.
    pub failed_why: Option<String>,
    /// From the start of the clock to the end of the time, or to an answer that was waited for after that.
    pub seconds: f64,
    /// How long each took, as `bytepath_report::latency` encodes it.
    pub histogram: String,
    /// What this process used meanwhile.
    pub usage: Usage,
}

/// Asks; calls `begins` when the clock starts.
///
/// # Errors
/// Nobody can be asked at all.
pub fn ask(job: &Job, begins: impl FnOnce()) -> io::Result<AskReport> {
    let mut client = Client::new(job)?;
    let start = Instant::now();
    client.run(start, start + job.warm_up, Duration::ZERO)?;
    begins();
    let (before, clock) = (Usage::of_this_process(), Instant::now());
    // What was asked before and is answered now counts where answers are counted, and not where every
    // request is.
    let since = (job.load != Load::Saturation).then_some(clock);
    client.measured = Some(Measured { since, ..Measured::default() });
    client.run(clock, clock + job.time, DRAIN)?;
    let (seconds, usage) = (clock.elapsed().as_secs_f64(), Usage::of_this_process().since(before));
    // What is on its way at saturation does not count, unless nobody answers it.
    if let (Some(measured), Load::Saturation) = (&mut client.measured, job.load) {
        measured.is_over = true;
        let end = Instant::now();
        client.run(end, end, DRAIN)?;
    }
    let measured = client.measured.take().unwrap_or_default();
    let unanswered = client.unanswered(&measured);
    let why = measured.failed_why.or((unanswered > 0).then(|| "no answer came in time".to_owned()));
    Ok(AskReport {
        answered: measured.histogram.len(),
        failed: measured.failed + unanswered,
        failed_why: why,
        seconds,
        histogram: latency::encoded(&measured.histogram).map_err(io::Error::other)?,
        usage,
    })
}

struct Measured {
    /// Requests that were due before this do not count.
    since: Option<Instant>,
    /// Whether answers count no more, and failures alone do.
    is_over: bool,
    histogram: Histogram<u64>,
    failed: u64,
    failed_why: Option<String>,
}

impl Default for Measured {
    fn default() -> Measured {
        Measured {
            since: None,
            is_over: false,
            histogram: latency::empty(),
            failed: 0,
            failed_why: None,
        }
    }
}

impl Measured {
    fn counts(&self, due: Instant) -> bool {
        self.since.is_none_or(|since| due >= since)
    }

    fn holds_any(&self) -> bool {
        self.failed > 0 || !self.histogram.is_empty()
    }
}

/// One of the connections that there may be at once.
#[derive(Default)]
struct Line {
    peer: Option<Peer>,
    /// When the request that is not yet answered was due.
    due: Option<Instant>,
}

struct Client<'a> {
    job: &'a Job,
    speech: &'static dyn Speech,
    request: Vec<u8>,
    epoll: OwnedFd,
    lines: Vec<Line>,
    /// Lines that nothing is asked on.
    idle: Vec<usize>,
    /// Requests that are due and have no line yet, at a rate.
    waiting: VecDeque<Instant>,
    measured: Option<Measured>,
}

impl<'a> Client<'a> {
    fn new(job: &'a Job) -> io::Result<Client<'a>> {
        let speech = job.protocol.speech();
        Ok(Client {
            job,
            speech,
            request: speech.request(job.connections),
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            lines: (0..job.concurrency).map(|_| Line::default()).collect(),
            idle: (0..job.concurrency).rev().collect(),
            waiting: VecDeque::new(),
            measured: None,
        })
    }

    /// Asks from `start` to `end`, and waits for answers for so long after that.
    fn run(&mut self, start: Instant, end: Instant, drain: Duration) -> io::Result<()> {
        let mut events = Vec::with_capacity(EVENTS);
        let mut made: u64 = 0;
        loop {
            let now = Instant::now();
            let next = self.begin(start, end, now, &mut made);
            let all_answered = self.idle.len() == self.lines.len() && self.waiting.is_empty();
            // A time so short that nobody was answered in it goes on until somebody is.
            let enough = match (&self.measured, self.job.load) {
                (Some(measured), Load::Saturation) if !measured.is_over => measured.holds_any(),
                _ => all_answered,
            };
            let over = now >= end && (enough || now >= end + drain);
            if over || self.measured.as_ref().is_some_and(|all| all.failed > FAILURES_MAX) {
                return Ok(());
            }
            let until = if now < end { next.min(end) } else { end + drain };
            let left = Timespec::try_from(until.saturating_duration_since(now)).ok();
            events.clear();
            match epoll::wait(
                &self.epoll,
                rustix::buffer::spare_capacity(&mut events),
                left.as_ref(),
            ) {
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            for event in &events {
                self.progress(event.data.u64() as usize);
            }
        }
    }

    /// Asks what is due, and says when the next request is.
    fn begin(&mut self, start: Instant, end: Instant, now: Instant, made: &mut u64) -> Instant {
        match self.job.load {
            Load::Saturation if now < end => {
                // Each line once: one that fails at once is not tried again and again.
                for _ in 0..self.idle.len() {
                    let Some(line) = self.idle.pop() else { break };
                    self.ask_on(line, Instant::now());
                }
                end
            }
            Load::Saturation => end,
            Load::Rate(rate) => {
                let mut next = start + Duration::from_secs_f64(*made as f64 / rate);
                while next <= now && next < end {
                    self.waiting.push_back(next);
                    *made += 1;
                    next = start + Duration::from_secs_f64(*made as f64 / rate);
                }
                while let (Some(&due), Some(&line)) = (self.waiting.front(), self.idle.last()) {
                    self.waiting.pop_front();
                    self.idle.pop();
                    self.ask_on(line, due);
                }
                next
            }
        }
    }

    fn ask_on(&mut self, line: usize, due: Instant) {
        self.lines[line].due = Some(due);
        if let Err(error) = self.asked_on(line) {
            self.failed(line, error.to_string());
        }
    }

    fn asked_on(&mut self, number: usize) -> io::Result<()> {
        let line = &mut self.lines[number];
        let named = epoll::EventData::new_u64(number as u64);
        if let Some(peer) = &mut line.peer {
            peer.say(&self.request)?;
            return Ok(());
        }
        let mut peer = Peer::connected(&self.job.address).map_err(hinted)?;
        peer.say(&self.request)?;
        // Edge by edge: what can be sent is told once, when the connection is there.
        let flags = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&self.epoll, &peer, named, flags)?;
        line.peer = Some(peer);
        Ok(())
    }

    fn progress(&mut self, number: usize) {
        let line = &mut self.lines[number];
        let Some(peer) = &mut line.peer else { return };
        let heard = || -> io::Result<Option<Connections>> {
            peer.go_on()?;
            loop {
                match peer.hear()? {
                    Received::Some => {}
                    Received::Nothing => return Ok(None),
                    Received::End if line.due.is_none() => return Ok(Some(Connections::New)),
                    Received::End => return Err(io::Error::other("it hung up before it answered")),
                }
                if let Some(heard) = self.speech.answered(&peer.input).map_err(io::Error::other)? {
                    peer.input.drain(..heard.bytes);
                    return Ok(Some(heard.kept));
                }
            }
        };
        let mut heard = heard;
        match heard() {
            Ok(None) => {}
            Ok(Some(kept)) => self.answered(number, kept),
            Err(error) => self.failed(number, error.to_string()),
        }
    }

    fn answered(&mut self, number: usize, kept: Connections) {
        let line = &mut self.lines[number];
        if kept == Connections::New || self.job.connections == Connections::New {
            line.peer = None;
        }
        let Some(due) = line.due.take() else { return };
        let now = Instant::now();
        let counts = |measured: &&mut Measured| !measured.is_over && measured.counts(due);
        if let Some(measured) = self.measured.as_mut().filter(counts) {
            let ns = now.saturating_duration_since(due).as_nanos();
            measured.histogram.saturating_record(u64::try_from(ns).unwrap_or(u64::MAX));
        }
        self.idle.push(number);
    }

    fn failed(&mut self, number: usize, why: String) {
        let line = &mut self.lines[number];
        line.peer = None;
        // Where nothing was asked a connection that was kept is gone, which is no failure.
        let Some(due) = line.due.take() else { return };
        self.idle.push(number);
        if let Some(measured) = self.measured.as_mut().filter(|measured| measured.counts(due)) {
            measured.failed += 1;
            measured.failed_why.get_or_insert(why);
        }
    }

    /// Requests that count and have no answer.
    fn unanswered(&self, measured: &Measured) -> u64 {
        let asked = self.lines.iter().filter_map(|line| line.due);
        let due = asked.chain(self.waiting.iter().copied());
        due.filter(|due| measured.counts(*due)).count() as u64
    }
}

/// What a person can do about a connection that is not made.
fn hinted(error: io::Error) -> io::Error {
    match Errno::from_io_error(&error) {
        Some(Errno::ADDRNOTAVAIL) => io::Error::other(
            "no ephemeral port is left: all are in use or in TIME_WAIT \
             (net.ipv4.ip_local_port_range)",
        ),
        Some(Errno::MFILE) => io::Error::other("no descriptor is left (ulimit -n)"),
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::*;

    /// An upstream in a thread of the test: it is never ended, as it is of no cost when nobody asks.
    fn upstream(protocol: Protocol) -> (tempfile::TempDir, Address) {
        let folder = tempfile::tempdir().expect("a folder");
        let address = Address::Unix(folder.path().join("socket"));
        let listens = address.clone();
        std::thread::spawn(move || super::super::upstream::serve(protocol, &listens));
        while !folder.path().join("socket").exists() {
            std::thread::yield_now();
        }
        (folder, address)
    }

    #[test]
    fn every_request_is_answered_on_new_and_on_kept_connections() {
        for protocol in [Protocol::Http, Protocol::Fastcgi] {
            let (_folder, address) = upstream(protocol);
            for connections in [Connections::New, Connections::Kept] {
                for load in [Load::Saturation, Load::Rate(2000.0)] {
                    let job = Job {
                        protocol,
                        address: address.clone(),
                        connections,
                        concurrency: 4,
                        load,
                        warm_up: Duration::from_millis(50),
                        time: Duration::from_millis(50),
                    };
                    let report = ask(&job, || {}).expect("it is there");
                    assert_eq!((report.failed, &report.failed_why), (0, &None), "{job:?}");
                    match load {
                        Load::Rate(_) => assert_eq!(report.answered, 100, "{job:?}"),
                        Load::Saturation => assert!(report.answered > 0, "{job:?}"),
                    }
                }
            }
        }
    }

    #[test]
    fn an_upstream_that_stops_answering_half_way_is_no_fast_one() {
        // Once the time is over, or never.
        let hangs_up = Duration::from_millis(300);
        for (stays, why) in [
            (None, "no answer came in time"),
            (Some(hangs_up), "Connection reset by peer (os error 104)"),
        ] {
            stops_half_way(stays, why);
        }
    }

    fn stops_half_way(stays: Option<Duration>, why: &str) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).expect("bound");
        let job = Job {
            protocol: Protocol::Http,
            address: Address::Unix(path),
            connections: Connections::Kept,
            concurrency: 2,
            load: Load::Saturation,
            warm_up: Duration::ZERO,
            time: Duration::from_millis(100),
        };
        std::thread::spawn(move || {
            let speech = Protocol::Http.speech();
            let (asked, answer) =
                (speech.request(Connections::Kept), speech.response(Connections::Kept));
            let answer_one = || {
                let (mut stream, _) = listener.accept().expect("it comes");
                stream.read_exact(&mut vec![0; asked.len()]).expect("it asks");
                stream.write_all(&answer).expect("it hears");
                stream
            };
            // Kept open, and silent.
            let _kept = [answer_one(), answer_one()];
            match stays {
                Some(stays) => std::thread::sleep(stays),
                None => std::thread::park(),
            }
        });
        let report = ask(&job, || {}).expect("it is there");
        assert_eq!((report.answered, report.failed), (2, 2));
        assert_eq!(report.failed_why.as_deref(), Some(why));
        assert!(report.seconds >= job.time.as_secs_f64(), "{}", report.seconds);
    }

    #[test]
    fn of_requests_that_nobody_answers_those_of_the_warm_up_do_not_count() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let _silent = std::os::unix::net::UnixListener::bind(&path).expect("bound");
        let job = Job {
            protocol: Protocol::Http,
            address: Address::Unix(path),
            connections: Connections::New,
            concurrency: 2,
            load: Load::Rate(1000.0),
            warm_up: Duration::from_millis(40),
            time: Duration::from_millis(30),
        };
        let report = ask(&job, || {}).expect("it asks");
        assert_eq!((report.answered, report.failed), (0, 30));
        assert_eq!(report.failed_why.as_deref(), Some("no answer came in time"));
    }

    #[test]
    fn requests_that_nobody_answers_are_told_with_the_reason() {
        let job = Job {
            protocol: Protocol::Http,
            address: Address::Unix("/no/such/socket".into()),
            connections: Connections::Kept,
            concurrency: 2,
            load: Load::Rate(100.0),
            warm_up: Duration::ZERO,
            time: Duration::from_millis(30),
        };
        let report = ask(&job, || {}).expect("it asks");
        assert_eq!((report.answered, report.failed), (0, 3));
        assert!(report.failed_why.is_some_and(|why| why.contains("No such file")));
    }
}
