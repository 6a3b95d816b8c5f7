//! One sample in a network of its own: the upstream, nginx where it is asked for, the client, and a
//! look at the sockets again and again. `bytepath keepalive` is this, started apart.

use std::fs;
use std::io::{self, Read as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Signal, set_parent_process_death_signal};
use serde::{Deserialize, Serialize};

use super::client::{AskReport, BEGINS};
use super::nginx::{Proxy, complaint};
use super::sockets::Sockets;
use super::upstream::READY;
use super::{Address, Connections, Load, Protocol};
use crate::confine::{Confinement, NOBODY, is_reached_by_nobody};
use crate::interrupt::{self, Came};
use crate::noise::process_times;
use crate::pipe_work::{Says, asked_to_end, end, ended, spawn_on};

/// Ports of a network that nobody else is in.
const PROXY_PORT: u16 = 8080;
const UPSTREAM_PORT: u16 = 9000;

/// A server that does not come up within this time does not come up.
const UP_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// Between two looks at the sockets.
const CENSUS_EVERY: Duration = Duration::from_millis(50);

/// What a sample is made of.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// What the upstream speaks.
    pub protocol: Protocol,
    /// Whether it listens at a port or at a socket in the file system.
    pub unix: bool,
    /// How long connections to the upstream last.
    pub connections: Connections,
    /// What is between client and upstream.
    pub proxy: Option<Proxy>,
    /// How many connections the client has at once.
    pub concurrency: usize,
    /// How much it asks.
    pub load: Load,
    /// Seconds before the clock starts.
    pub warm_up_s: f64,
    /// Seconds.
    pub time_s: f64,
    /// Where files of this sample are.
    pub directory: PathBuf,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StageReport {
    /// What the client found.
    pub asked: AskReport,
    /// Seconds of CPU of the upstream, and of all processes of nginx.
    pub upstream_cpu_s: Option<f64>,
    /// The same of nginx.
    pub proxy_cpu_s: Option<f64>,
    /// Connections to the upstream, over time.
    pub series: Vec<Look>,
    /// Connections that were opened in all, by everybody.
    pub opened: Option<u64>,
}

/// A look at the sockets of connections to the upstream.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// When, from the start of the clock.
    pub seconds: f64,
    /// In TIME_WAIT at the upstream: it closed first.
    pub at_upstream: usize,
    /// In TIME_WAIT at who calls it.
    pub at_caller: usize,
    /// Ephemeral ports taken.
    pub ports: usize,
}

/// Runs a sample, as the first process of a namespace whose others end with it.
///
/// # Errors
/// A server does not come up, or the client fails: why.
pub fn run(sample: &Sample, bytepath: &Path) -> Result<StageReport, String> {
    // Its starter is outside of the namespace, and so has no number here to be asked for.
    set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|errno| io::Error::from(errno).to_string())?;
    let upstream = match sample.unix {
        true => Address::Unix(sample.directory.join("upstream")),
        false => Address::Tcp(UPSTREAM_PORT),
    };
    let mut running = Running::default();
    running.start_upstream(sample, bytepath, &upstream)?;
    let (protocol, connections, asked) = match &sample.proxy {
        None => (sample.protocol, sample.connections, upstream),
        Some(proxy) => {
            running.start_proxy(proxy, sample, bytepath, &upstream)?;
            // Only what is behind nginx differs from arm to arm.
            (Protocol::Http, Connections::Kept, Address::Tcp(PROXY_PORT))
        }
    };
    let mut client = Command::new(bytepath);
    client.args(["fetch", "--protocol", protocol.name(), "--connections", connections.name()]);
    client.args(["--concurrency", &sample.concurrency.to_string()]);
    if let Load::Rate(rate) = sample.load {
        client.args(["--rate", &rate.to_string()]);
    }
    client.args(["--time", &format!("{}s", sample.time_s)]);
    client.args(["--warm-up", &format!("{}s", sample.warm_up_s)]);
    client.arg(address_word(&asked)).stdin(Stdio::null());
    client.stdout(Stdio::piped()).stderr(Stdio::piped());
    running.client = Some(spawn_on(&mut client, None)?);
    let report = running.watched(sample);
    let told = |why: String| match complaint(&sample.directory.join("nginx")) {
        Some(line) => format!("{why}; nginx says: {line}"),
        None => why,
    };
    report.map_err(told)
}

/// An address as `bytepath fetch` and `bytepath upstream` take it.
fn address_word(address: &Address) -> String {
    match address {
        Address::Tcp(port) => format!("tcp:{port}"),
        Address::Unix(path) => format!("unix:{}", path.display()),
    }
}

/// The processes of a sample; ended when dropped.
#[derive(Default)]
struct Running {
    upstream: Option<Child>,
    proxy: Option<Child>,
    client: Option<Child>,
}

impl Running {
    fn start_upstream(
        &mut self,
        sample: &Sample,
        bytepath: &Path,
        at: &Address,
    ) -> Result<(), String> {
        let mut command = Command::new(bytepath);
        command.args(["upstream", "--protocol", sample.protocol.name(), &address_word(at)]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = spawn_on(&mut command, None)?;
        let out = child.stdout.as_mut().expect("it has an output");
        let mut said = [0; READY.len()];
        let came = out.read_exact(&mut said);
        self.upstream = Some(child);
        came.map_err(|error| format!("the upstream does not come up: {error}"))
    }

    fn start_proxy(
        &mut self,
        proxy: &Proxy,
        sample: &Sample,
        bytepath: &Path,
        up: &Address,
    ) -> Result<(), String> {
        let directory = sample.directory.join("nginx");
        let user = rustix::process::geteuid().is_root().then_some(NOBODY);
        let made = || -> io::Result<PathBuf> {
            fs::create_dir(&directory)?;
            let configuration = proxy.written(&directory, PROXY_PORT, up)?;
            for given in [&sample.directory, &directory, &configuration] {
                std::os::unix::fs::lchown(given, user, user)?;
            }
            Ok(configuration)
        };
        if let (Some(_), Some(above)) = (user, sample.directory.parent()) {
            is_reached_by_nobody(above)?;
        }
        let configuration = made().map_err(|error| {
            format!("no configuration for nginx in {}: {error}", directory.display())
        })?;
        let confinement = Confinement { user, ..Confinement::default() };
        let mut command = match user {
            Some(_) => confinement.command(bytepath, &proxy.program),
            None => Command::new(&proxy.program),
        };
        command.args(Proxy::words(&directory, &configuration));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let child = self.proxy.insert(spawn_on(&mut command, None)?);
        let until = Instant::now() + UP_WITHIN;
        while TcpStream::connect((Ipv4Addr::LOCALHOST, PROXY_PORT)).is_err() {
            let has_ended = child.try_wait().map_or(true, |status| status.is_some());
            if has_ended || Instant::now() > until {
                let mut said = String::new();
                if let Some(errors) = child.stderr.as_mut().filter(|_| has_ended) {
                    let _ = errors.read_to_string(&mut said);
                }
                let why = complaint(&directory).unwrap_or_else(|| said.trim().to_owned());
                return Err(format!("nginx does not come up: {why}"));
            }
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(())
    }

    /// Looks at the sockets until the client has ended.
    fn watched(&mut self, sample: &Sample) -> Result<StageReport, String> {
        let told = |error: io::Error| error.to_string();
        let patience = Duration::from_secs_f64(sample.warm_up_s + sample.time_s) + UP_WITHIN;
        let until = Instant::now() + patience;
        let out = self.client.as_mut().and_then(|client| client.stdout.as_mut());
        let out = out.expect("it has an output");
        let mut begins = [0; BEGINS.len()];
        // One that ends at once says why when it is waited for.
        let begun = out.read_exact(&mut begins).is_ok();
        let clock = Instant::now();
        let before = Cpu::now();
        let opened = opened();
        let series = match begun {
            true => looks(out, clock, until).map_err(told)?,
            false => Vec::new(),
        };
        let (after, opened_after) = (Cpu::now(), self::opened());
        let asked: AskReport = ended(&mut self.client, Says::Output, patience)?;
        let since = |of: fn(&Cpu) -> Option<f64>| Some(of(&after)? - of(&before)?);
        Ok(StageReport {
            asked,
            upstream_cpu_s: since(|cpu| cpu.upstream_s),
            proxy_cpu_s: since(|cpu| cpu.proxy_s),
            series,
            opened: opened.zip(opened_after).map(|(before, after)| after - before),
        })
    }
}

/// Looks at the sockets again and again, until the client says something.
fn looks(client: &ChildStdout, clock: Instant, until: Instant) -> io::Result<Vec<Look>> {
    let mut sockets = Sockets::open()?;
    let mut series = Vec::new();
    loop {
        let census = sockets.census(UPSTREAM_PORT)?;
        series.push(Look {
            seconds: clock.elapsed().as_secs_f64(),
            at_upstream: census.by_listener,
            at_caller: census.by_caller,
            ports: census.ports.len(),
        });
        match interrupt::wait(client, Instant::now() + CENSUS_EVERY)? {
            Came::Nothing if Instant::now() < until => {}
            _ => return Ok(series),
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.client);
        if let Some(mut proxy) = self.proxy.take() {
            // Its workers end before it does, and so are counted.
            asked_to_end(&mut proxy, UP_WITHIN);
            end(&mut Some(proxy));
        }
        end(&mut self.upstream);
    }
}

/// What the servers have used so far.
#[derive(Default)]
struct Cpu {
    upstream_s: Option<f64>,
    proxy_s: Option<f64>,
}

impl Cpu {
    /// By the processes below this one: /proc numbers them as the system does, and not as this
    /// process's own namespace.
    fn now() -> Cpu {
        let mut cpu = Cpu::default();
        let mut left = children("self");
        while let Some(pid) = left.pop() {
            left.extend(children(&pid));
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            let program = words.next().unwrap_or_default();
            let place = match words.next() {
                Some(b"upstream") => &mut cpu.upstream_s,
                _ if program.windows(5).any(|part| part == b"nginx") => &mut cpu.proxy_s,
                _ => continue,
            };
            let ran = pid.parse().ok().and_then(|pid| process_times(pid).ok());
            if let Some(times) = ran {
                *place = Some(place.unwrap_or(0.0) + times.ran.as_secs_f64());
            }
        }
        cpu
    }
}

/// The processes that a process started, all by its first thread.
fn children(pid: &str) -> Vec<String> {
    let number = match pid {
        "self" => fs::read_link("/proc/self")
            .ok()
            .and_then(|name| name.into_os_string().into_string().ok()),
        pid => Some(pid.to_owned()),
    };
    let told = number.map(|pid| format!("/proc/{pid}/task/{pid}/children"));
    let told = told.and_then(|path| fs::read_to_string(path).ok()).unwrap_or_default();
    told.split_whitespace().map(str::to_owned).collect()
}

/// TCP connections that were opened in this network, by /proc/net/snmp.
fn opened() -> Option<u64> {
    let told = fs::read_to_string("/proc/self/net/snmp").ok()?;
    let mut lines = told.lines().filter_map(|line| line.strip_prefix("Tcp: "));
    let place = lines.next()?.split(' ').position(|name| name == "ActiveOpens")?;
    lines.next()?.split(' ').nth(place)?.parse().ok()
}
