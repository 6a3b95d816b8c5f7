//! The work of arms that ask what a descriptor costs: a service under load, in processes of their
//! own, and single calls.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use bytepath_report::{Costs, Figures};
use serde_json::Value;

use crate::arm::{Measured, Outcome, Timing, Work};
use crate::confine::Confinement;
use crate::descendants::end_with_all;
use crate::ends::Starter;
use crate::fget::Situation;
use crate::fget::calls::{Called, Job};
use crate::fget::load::{self, Loaded};
use crate::fget::serve::{Family, Listening, Served, Service};
use crate::interrupt::{self, Came};
use crate::left::Folder;
use crate::pipe_work::{EndedOnDrop, Says, end, ended, spawn_on};
use crate::to_the_end::{file_in, said};
use crate::tools;

/// A service that does not begin in this time does not begin.
const BEGINS_WITHIN: Duration = Duration::from_secs(10);

/// One that ends badly does so within this time of its clients.
const SAYS_WHY_WITHIN: Duration = Duration::from_secs(1);

/// A service and its load.
pub struct ServiceWork {
    /// The `bytepath` executable.
    pub program: PathBuf,
    /// Who serves.
    pub server: Server,
    /// How many threads serve, by which sockets, with how many connections; what it says of the
    /// situation counts for ours alone.
    pub service: Service,
    /// Threads of clients.
    pub clients: usize,
}

/// Who serves.
#[derive(Debug, Clone)]
pub enum Server {
    /// `bytepath serve`.
    Ours,
    /// memcached, at this path.
    Memcached(PathBuf),
}

impl Work for ServiceWork {
    fn beside(&self) -> &'static [&'static str] {
        &[load::NAME]
    }

    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        let Measured::Time(time) = timing.measured else {
            return Err("requests are measured by time; give one".into());
        };
        let mut running = Running::default();
        let addresses = match &self.server {
            Server::Ours => self.start_ours(&mut running)?,
            Server::Memcached(path) => vec![self.start_memcached(path, &mut running)?],
        };
        let mut load = Command::new(&self.program);
        load.arg("load").args(Starter::this().words());
        for address in &addresses {
            load.args(["--address", address]);
        }
        for server in &running.servers {
            load.args(["--server", &server.id().to_string()]);
        }
        load.args(["--connections", &self.service.connections.to_string()]);
        load.args(["--clients", &self.clients.to_string()]);
        load.args(["--warm-up", &format!("{}us", timing.warm_up.as_micros())]);
        load.args(["--time", &format!("{}us", time.as_micros())]);
        load.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        running.load = Some(spawn_on(&mut load, None)?);
        let loaded: Result<Loaded, String> =
            ended(&mut running.load, Says::Output, timing.patience());
        let loaded = match (loaded, &self.server) {
            (Ok(loaded), Server::Ours) => loaded,
            (Ok(loaded), Server::Memcached(_)) => {
                return outcome(&loaded, None, std::mem::take(&mut running.found));
            }
            // Why a service ended tells more than that its clients miss it.
            (Err(why), _) => return Err(running.why_ended().unwrap_or(why)),
        };
        let served = running.served(timing.patience())?;
        outcome(&loaded, served, BTreeMap::new())
    }
}

impl ServiceWork {
    /// Starts our service, in as many processes as the situation has; where it listens.
    fn start_ours(&self, running: &mut Running) -> Result<Vec<String>, String> {
        let Service { situation, threads, connections, neighbours, family } = self.service;
        let several = situation == Situation::Processes;
        let (processes, threads) = if several { (threads, 1) } else { (1, threads) };
        let mut addresses = Vec::new();
        for process in 0..processes {
            // Connections take turns over the processes, as they do over threads.
            let connections = (connections + processes - 1 - process) / processes;
            let mut serve = Command::new(&self.program);
            serve.arg("serve").args(Starter::this().words());
            serve.args(["--situation", situation.name(), "--family", family.name()]);
            serve.args(["--threads", &threads.to_string()]);
            serve.args(["--connections", &connections.to_string()]);
            serve.args(["--neighbours", &neighbours.to_string()]);
            serve.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
            running.servers.push(spawn_on(&mut serve, None)?);
            let child = running.servers.last_mut().expect("it was started");
            let out = child.stdout.as_mut().ok_or("it has no output")?;
            let listening: Listening = match first_line(out) {
                Ok(line) => serde_json::from_str(&line).map_err(|error| error.to_string())?,
                // It says on standard error why it ended.
                Err(why) => return Err(running.why_ended().unwrap_or(why)),
            };
            addresses.extend(listening.addresses);
        }
        Ok(addresses)
    }

    /// Starts memcached; where it listens.
    fn start_memcached(&self, path: &Path, running: &mut Running) -> Result<String, String> {
        let folder = Folder::make(&std::env::temp_dir())
            .map_err(|error| format!("no folder for its socket: {error}"))?;
        // So that it ends with this process, whatever ends that.
        let mut memcached = Confinement::default().command(&self.program, path);
        memcached.args(["-t", &self.service.threads.to_string()]);
        memcached.args(["-c", &(self.service.connections + 64).to_string(), "-m", "64", "-U", "0"]);
        if rustix::process::geteuid().is_root() {
            memcached.args(["-u", "root"]);
        }
        let (socket, port) = (folder.path().join("socket"), folder.path().join("port"));
        match self.service.family {
            Family::Unix => memcached.arg("-s").arg(&socket),
            // Port -1 is one that the kernel picks, and that is written to a file.
            Family::Tcp => memcached
                .args(["-l", "127.0.0.1", "-p", "-1"])
                .env("MEMCACHED_PORT_FILENAME", &port),
        };
        let errors = running.errors.insert(file_in(&std::env::temp_dir())?);
        let errors = errors.try_clone().map_err(|error| error.to_string())?;
        memcached.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors);
        running.folder = Some(folder);
        running.found.insert("words".to_owned(), tools::words_of(&memcached).into());
        running.servers.push(spawn_on(&mut memcached, None)?);
        let until = Instant::now() + BEGINS_WITHIN;
        loop {
            let listens = match self.service.family {
                Family::Unix => std::os::unix::net::UnixStream::connect(&socket)
                    .is_ok()
                    .then(|| format!("unix:{}", socket.display())),
                Family::Tcp => std::fs::read_to_string(&port).ok().and_then(|text| tcp_port(&text)),
            };
            if let Some(address) = listens {
                return Ok(address);
            }
            if let Some(why) = running.why_one_ended() {
                return Err(why);
            }
            if Instant::now() > until || interrupt::wished() {
                return Err("memcached does not begin to listen".into());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

/// The port in what memcached writes: `TCP INET: 40123`.
fn tcp_port(text: &str) -> Option<String> {
    let line = text.lines().find(|line| line.starts_with("TCP INET:") && text.ends_with('\n'))?;
    let port: u16 = line.rsplit(' ').next()?.parse().ok()?;
    Some(format!("tcp:127.0.0.1:{port}"))
}

/// The first line that a process says, within bounds.
fn first_line(out: &mut ChildStdout) -> Result<String, String> {
    let until = Instant::now() + BEGINS_WITHIN;
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.last() != Some(&b'\n') {
        match interrupt::wait(&*out, until).map_err(|error| error.to_string())? {
            Came::Readable => {}
            Came::Wish => return Err("interrupted".into()),
            Came::Nothing => return Err("the service does not begin to listen".into()),
        }
        match out.read(&mut byte).map_err(|error| error.to_string())? {
            0 => return Err("the service ended before it listened".into()),
            _ => line.push(byte[0]),
        }
    }
    String::from_utf8(line).map_err(|error| error.to_string())
}

/// The processes of one sample; ended when dropped.
#[derive(Default)]
struct Running {
    servers: Vec<Child>,
    load: Option<Child>,
    folder: Option<Folder>,
    /// What memcached, which may be another's program, complains of.
    errors: Option<File>,
    /// What it is run by.
    found: BTreeMap<String, Value>,
}

impl Running {
    /// What our services say at their end, once the clients have left.
    fn served(&mut self, patience: Duration) -> Result<Option<Served>, String> {
        let mut all: Option<Served> = None;
        // Where one has failed, the others are ended all the same.
        let servers = self.servers.drain(..).map(|server| EndedOnDrop(Some(server)));
        for mut server in servers.collect::<Vec<_>>() {
            let served: Served = ended(&mut server.0, Says::Output, patience)?;
            all = Some(all.map_or(served, |all| all.with(served)));
        }
        Ok(all)
    }
}

impl Running {
    /// What a service said at its end, if one has ended badly; the others still wait for clients.
    fn why_ended(&mut self) -> Option<String> {
        let until = Instant::now() + SAYS_WHY_WITHIN;
        while Instant::now() < until && !interrupt::wished() {
            let why = self.why_one_ended();
            if why.is_some() {
                return why;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        None
    }

    /// The same, of what has ended by now.
    fn why_one_ended(&mut self) -> Option<String> {
        self.servers.iter_mut().find_map(|server| {
            let status = server.try_wait().ok()??;
            if let Some(errors) = &mut self.errors {
                return Some(format!("memcached ended ({status}){}", said(errors)));
            }
            let mut said = String::new();
            server.stderr.as_mut()?.read_to_string(&mut said).ok()?;
            let said = said.trim().trim_start_matches("bytepath: ").to_owned();
            (!status.success() && !said.is_empty()).then_some(said)
        })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        end(&mut self.load);
        for server in self.servers.drain(..) {
            end_with_all(&mut Some(server));
        }
    }
}

fn outcome(
    loaded: &Loaded,
    served: Option<Served>,
    found: BTreeMap<String, Value>,
) -> Result<Outcome, String> {
    if loaded.requests == 0 {
        return Err("no request was answered in the time; give more (--time)".into());
    }
    if loaded.server_cpu_ns == 0 {
        return Err("no CPU time is seen of what answers: it is no process that was started".into());
    }
    let requests = loaded.requests as f64;
    let value = loaded.server_cpu_ns as f64 / requests;
    let mut figures = Figures::default();
    figures.add("requests", "1/s", requests / loaded.seconds.max(1e-9));
    let mut costs = Costs { cpu_ns_per_op: Some(value), ..Costs::default() };
    if let Some(served) = served.filter(|served| served.requests > 0) {
        let each = |count: u64| count as f64 / served.requests as f64;
        if let Some(busy_ns) = served.busy_ns {
            figures.add("busy", "ns each", each(busy_ns));
        }
        costs.syscalls_per_op = Some(each(served.calls));
    }
    Ok(Outcome { value, seconds: loaded.seconds, costs, figures, found, ..Outcome::default() })
}

/// Single calls on a descriptor.
pub struct DescriptorWork {
    /// The `bytepath` executable.
    pub program: PathBuf,
    /// What is called, and in which situation; its times are the sample's.
    pub job: Job,
}

impl Work for DescriptorWork {
    fn sample(&self, timing: &Timing) -> Result<Outcome, String> {
        let Measured::Time(time) = timing.measured else {
            return Err("calls are measured by time; give one".into());
        };
        let several = self.job.situation == Situation::Processes;
        let (processes, threads) =
            if several { (self.job.threads, 1) } else { (1, self.job.threads) };
        let null = File::open("/dev/null").map_err(|error| format!("/dev/null: {error}"))?;
        let mut children = Vec::new();
        for _ in 0..processes {
            let mut command = Command::new(&self.program);
            command.arg("descriptor").args(Starter::this().words());
            command.args(["--call", self.job.call.name()]);
            command.args(["--situation", self.job.situation.name()]);
            command.args(["--threads", &threads.to_string()]);
            command.args(["--neighbours", &self.job.neighbours.to_string()]);
            command.args(self.job.one_file.then_some("--one-file"));
            command.args(["--time", &format!("{}us", time.as_micros())]);
            command.args(["--warm-up", &format!("{}us", timing.warm_up.as_micros())]);
            let file = null.try_clone().map_err(|error| error.to_string())?;
            command.stdin(file).stdout(Stdio::piped()).stderr(Stdio::piped());
            children.push(EndedOnDrop::spawn_on(&mut command, None)?);
        }
        let mut all = Called::default();
        for child in &mut children {
            all = all.with(ended(&mut child.0, Says::Output, timing.patience())?);
        }
        let value = all.cpu_ns as f64 / all.calls.max(1) as f64;
        let costs =
            Costs { cpu_ns_per_op: Some(value), syscalls_per_op: Some(1.0), ..Costs::default() };
        Ok(Outcome { value, seconds: all.seconds, costs, ..Outcome::default() })
    }
}

/// Where memcached is, if it is one that takes a port of the kernel's choice.
///
/// # Errors
/// It is not installed, or too old: what to do.
pub fn memcached() -> Result<PathBuf, String> {
    let path = tools::needed("memcached", "memcached")?;
    let text = tools::version("memcached").unwrap_or_default();
    match version(&text) {
        Some(version) if version >= (1, 4) => Ok(path),
        _ => Err(format!(
            "{} says it is {:?}; memcached 1.4 or newer is needed",
            path.display(),
            text
        )),
    }
}

/// Of `memcached 1.6.18`.
fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().strip_prefix("memcached ")?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};

    use super::*;

    #[test]
    fn what_memcached_says_is_understood() {
        assert_eq!(version("memcached 1.6.18\n"), Some((1, 6)));
        assert_eq!(version("memcache 1.6.18\n"), None);
        assert_eq!(tcp_port("TCP INET: 40123\n").as_deref(), Some("tcp:127.0.0.1:40123"));
        assert_eq!(tcp_port("TCP INET: 401"), None, "it is still being written");
        assert_eq!(tcp_port("UDP INET: 40123\n"), None);
    }

    #[test]
    fn services_beside_one_that_failed_are_ended() {
        let servers = ["exit 1", "exec sleep 1000"].map(|script| {
            let mut command = Command::new("sh");
            command.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::null());
            command.spawn().expect("a shell")
        });
        let beside = Pid::from_child(&servers[1]);
        let mut running = Running::default();
        running.servers.extend(servers);
        assert!(running.served(Duration::from_secs(100)).is_err());
        drop(running);
        assert_eq!(test_kill_process(beside), Err(Errno::SRCH));
    }
}
