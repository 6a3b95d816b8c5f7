//! The load: clients that each keep many connections busy with one small request at a time, and
//! meanwhile look how much of the CPU the service takes.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use serde::{Deserialize, Serialize};

use super::{FgetError, neighbours, raise_descriptor_limit};
use crate::descendants::below;
use crate::threads;

/// What a process that makes a load calls itself, so that samples of it are known for what they are.
pub const NAME: &str = "bytepath-load";

/// A load to be.
#[derive(Debug, Clone)]
pub struct Load {
    /// Where the service listens; connections take turns over the addresses.
    pub addresses: Vec<String>,
    /// Connections in all.
    pub connections: usize,
    /// Threads of clients; no more are started than there are connections.
    pub clients: usize,
    /// The processes that serve.
    pub servers: Vec<u32>,
    /// Before the clock starts.
    pub warm_up: Duration,
    /// What is measured.
    pub time: Duration,
}

/// What came of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Loaded {
    /// Requests answered while the clock ran.
    pub requests: u64,
    /// How long it ran.
    pub seconds: f64,
    /// Nanoseconds of CPU that the service took meanwhile, without its neighbours.
    pub server_cpu_ns: u64,
}

/// Keys asked for, and the bytes of their values: memcached's users store small ones.
const KEYS: usize = 64;
const VALUE_BYTES: usize = 64;

/// Of so many requests one is a set, and the others are gets.
const GETS_PER_SET: usize = 10;

/// A look at what has been answered is not taken more often.
const SHORTEST: Duration = Duration::from_millis(1);

/// A service that does not answer for so long hangs.
const PATIENCE: Duration = Duration::from_secs(10);

impl Load {
    /// Puts the service under load for the time, and leaves.
    ///
    /// # Errors
    /// The service cannot be reached, does not answer or answers wrongly, or its CPU time cannot be
    /// looked up.
    pub fn run(&self) -> Result<Loaded, FgetError> {
        raise_descriptor_limit();
        let (stop, requests) = (AtomicBool::new(false), AtomicU64::new(0));
        let asking = self.connected()?.into_iter().map(|clients| || ask(clients, &stop, &requests));
        let measure = || {
            let measured = self.measure(&requests);
            stop.store(true, Ordering::Relaxed);
            measured
        };
        let (asked, measured) =
            threads::all_at_once(asking, measure).map_err(FgetError::because)?;
        asked.into_iter().collect::<Result<(), _>>()?;
        measured
    }

    /// The connections of each thread. One without any would not wait for anything, and is none.
    fn connected(&self) -> Result<Vec<Vec<Client>>, FgetError> {
        let mut of_threads = Vec::new();
        of_threads.resize_with(self.clients.min(self.connections), Vec::new);
        for number in 0..self.connections {
            let client = Client::connect(&self.addresses[number % self.addresses.len()])?;
            of_threads[number % self.clients].push(client);
        }
        Ok(of_threads)
    }

    fn measure(&self, requests: &AtomicU64) -> Result<Loaded, FgetError> {
        std::thread::sleep(self.warm_up);
        let look = || Ok((requests.load(Ordering::Relaxed), self.server_cpu_ns()?));
        let (before, cpu_before) = look()?;
        let began = Instant::now();
        std::thread::sleep(self.time);
        let (mut after, mut cpu_after) = look()?;
        // On a busy machine the first answers may take longer than a short sample; and the time of a
        // thread that goes on running is not told before the next tick.
        while (after == before || cpu_after <= cpu_before) && began.elapsed() < PATIENCE {
            std::thread::sleep(self.time.max(SHORTEST));
            (after, cpu_after) = look()?;
        }
        Ok(Loaded {
            requests: after - before,
            seconds: began.elapsed().as_secs_f64(),
            server_cpu_ns: cpu_after.saturating_sub(cpu_before),
        })
    }

    /// Of all that serves: what is started may be a script that starts the service.
    fn server_cpu_ns(&self) -> Result<u64, FgetError> {
        let mut sum = 0;
        for &server in &self.servers {
            sum += cpu_ns(server)?;
            let root = i32::try_from(server).ok().and_then(Pid::from_raw);
            let started = root.map(below).unwrap_or_default();
            // One that is gone by now took its time with it.
            sum += started.into_iter().filter_map(|pid| cpu_ns(pid as u32).ok()).sum::<u64>();
        }
        Ok(sum)
    }
}

/// Nanoseconds of CPU of a process's threads, without those that only disturb.
fn cpu_ns(process: u32) -> Result<u64, FgetError> {
    let tasks = format!("/proc/{process}/task");
    let gone = |error: std::io::Error| {
        FgetError::because(format!("the service (process {process}) is gone: {error}"))
    };
    let mut sum = 0;
    for task in std::fs::read_dir(&tasks).map_err(gone)? {
        let task = task.map_err(gone)?.path();
        sum += of_thread(&task).unwrap_or(Ok(0))?;
    }
    Ok(sum)
}

/// Nothing for a thread that has ended or is not counted.
fn of_thread(task: &Path) -> Option<Result<u64, FgetError>> {
    let name = std::fs::read(task.join("comm")).ok()?;
    if name.trim_ascii_end() == neighbours::NAME.as_bytes() {
        return None;
    }
    // Before others: time on a CPU, in nanoseconds (the kernel's Documentation/scheduler).
    let text = std::fs::read_to_string(task.join("schedstat")).ok();
    let ns = text.as_deref().and_then(|text| text.split_whitespace().next()?.parse().ok());
    Some(ns.ok_or_else(|| {
        FgetError::because("this kernel does not tell a thread's time (/proc/PID/task/*/schedstat)")
    }))
}

/// One connection.
struct Client {
    stream: Stream,
    asked: usize,
}

/// A connected socket of either family.
enum Stream {
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Client {
    fn connect(address: &str) -> Result<Client, FgetError> {
        let failed = |error: std::io::Error| match error.raw_os_error() {
            Some(number) => FgetError::of(format!("cannot reach {address}"))(
                rustix::io::Errno::from_raw_os_error(number),
            ),
            None => FgetError::because(format!("cannot reach {address}: {error}")),
        };
        let stream = match address.split_once(':') {
            Some(("unix", name)) => {
                let address = match name.strip_prefix('@') {
                    Some(name) => UnixAddr::from_abstract_name(name),
                    None => UnixAddr::from_pathname(name),
                };
                let stream = UnixStream::connect_addr(&address.map_err(failed)?).map_err(failed)?;
                stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
                Stream::Unix(stream)
            }
            Some(("tcp", name)) => {
                let address: SocketAddr = name
                    .parse()
                    .map_err(|error| FgetError::because(format!("{address:?}: {error}")))?;
                let stream = TcpStream::connect_timeout(&address, PATIENCE).map_err(failed)?;
                stream.set_nodelay(true).map_err(failed)?;
                stream.set_read_timeout(Some(PATIENCE)).map_err(failed)?;
                Stream::Tcp(stream)
            }
            _ => return Err(FgetError::because(format!("{address:?} is no address"))),
        };
        Ok(Client { stream, asked: 0 })
    }

    fn ask(&mut self) -> Result<(), FgetError> {
        let key = self.asked / GETS_PER_SET % KEYS;
        let request = match self.asked % GETS_PER_SET {
            0 => format!("set key{key} 0 0 {VALUE_BYTES}\r\n{:x<VALUE_BYTES$}\r\n", key),
            _ => format!("get key{key}\r\n"),
        };
        self.asked += 1;
        let sent = match &mut self.stream {
            Stream::Unix(stream) => stream.write_all(request.as_bytes()),
            Stream::Tcp(stream) => stream.write_all(request.as_bytes()),
        };
        sent.map_err(|error| unanswered(&error))
    }

    /// Waits for the answer to the last request, and looks whether it is one.
    fn hear(&mut self) -> Result<(), FgetError> {
        let key = (self.asked - 1) / GETS_PER_SET % KEYS;
        let wanted = match (self.asked - 1) % GETS_PER_SET {
            0 => "STORED\r\n".to_owned(),
            // Everybody stores the same under a key, and has stored it before.
            _ => format!("VALUE key{key} 0 {VALUE_BYTES}\r\n{key:x<VALUE_BYTES$}\r\nEND\r\n"),
        };
        let mut answer = vec![0; wanted.len()];
        let heard = match &mut self.stream {
            Stream::Unix(stream) => stream.read_exact(&mut answer),
            Stream::Tcp(stream) => stream.read_exact(&mut answer),
        };
        heard.map_err(|error| unanswered(&error))?;
        if answer == wanted.as_bytes() {
            return Ok(());
        }
        let answer = String::from_utf8_lossy(&answer).into_owned();
        Err(FgetError::because(format!("the service answers {answer:?} instead of {wanted:?}")))
    }
}

/// Why a service gave no answer.
fn unanswered(error: &std::io::Error) -> FgetError {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof, WouldBlock};
    FgetError::because(match error.kind() {
        // A socket whose time to read is over.
        WouldBlock => format!("the service does not answer within {PATIENCE:?}"),
        BrokenPipe | ConnectionReset | UnexpectedEof => "the service hung up".to_owned(),
        _ => format!("the service does not answer: {error}"),
    })
}

/// Asks on all connections, then hears all answers, until it is to stop.
fn ask(mut clients: Vec<Client>, stop: &AtomicBool, requests: &AtomicU64) -> Result<(), FgetError> {
    while !stop.load(Ordering::Relaxed) {
        clients.iter_mut().try_for_each(Client::ask)?;
        clients.iter_mut().try_for_each(Client::hear)?;
        requests.fetch_add(clients.len() as u64, Ordering::Relaxed);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_that_is_silent_or_gone_is_told_in_our_own_words() {
        let (near, far) = UnixStream::pair().expect("a pair");
        near.set_read_timeout(Some(Duration::from_millis(1))).expect("it may be set");
        let mut client = Client { stream: Stream::Unix(near), asked: 0 };
        client.ask().expect("there is room");
        let why = |heard: Result<(), FgetError>| heard.expect_err("nobody answers").to_string();
        assert_eq!(why(client.hear()), "the service does not answer within 10s");
        drop(far);
        assert_eq!(why(client.hear()), "the service hung up");
        assert_eq!(why(client.ask()), "the service hung up");
    }

    #[test]
    fn every_thread_of_clients_has_connections() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let _service = std::os::unix::net::UnixListener::bind(&path).expect("bound");
        for (connections, clients, of_threads) in
            [(2, 5, &[1, 1][..]), (5, 2, &[3, 2]), (3, 3, &[1, 1, 1])]
        {
            let load = Load {
                addresses: vec![format!("unix:{}", path.display())],
                connections,
                clients,
                servers: Vec::new(),
                warm_up: Duration::ZERO,
                time: Duration::ZERO,
            };
            let connected = load.connected().expect("it listens");
            assert_eq!(connected.iter().map(Vec::len).collect::<Vec<_>>(), of_threads);
        }
    }

    #[test]
    fn the_time_of_what_a_server_started_is_its_own() {
        let line = "sh -c 'while :; do :; done' & wait";
        let mut shell = std::process::Command::new("sh");
        let mut child = Some(shell.args(["-c", line]).spawn().expect("a shell is everywhere"));
        let servers = vec![child.as_ref().expect("it was started").id()];
        let load = Load {
            addresses: Vec::new(),
            connections: 0,
            clients: 0,
            servers,
            warm_up: Duration::ZERO,
            time: Duration::ZERO,
        };
        let began = Instant::now();
        // A shell that waits takes no time.
        let mut took = Ok(0);
        while took.as_ref().is_ok_and(|ns| *ns < 200_000_000) && began.elapsed().as_secs() < 60 {
            std::thread::sleep(Duration::from_millis(5));
            took = load.server_cpu_ns();
        }
        crate::descendants::end_with_all(&mut child);
        assert!(took.expect("it is there") >= 200_000_000);
    }
}
