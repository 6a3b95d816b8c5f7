//! Tracing by eBPF: what threads waited for, who woke whom, how long system calls took, what soft
//! interrupts took away, which files lived how long, and what went through which connection.
//!
//! Programs are assembled here for the kernel that runs (`asm`), with offsets that it tells itself
//! (`btf`, `tracefs`), and attached in the first way that it allows (`hook`, `attach`). Everything the
//! kernel is given hangs on descriptors: it is gone with this process.
//!
//! What it costs the work that is looked at, `examples/trace-overhead.rs` measures; docs/seeing.md
//! has what came.

mod asm;
mod attach;
pub(crate) mod btf;
mod calls;
mod code;
mod descriptors;
mod files;
mod follow;
mod format;
mod found;
mod hook;
mod largest;
mod names;
mod off_cpu;
mod path;
mod rights;
pub mod shown;
mod soft_interrupts;
mod stacks;
mod tasks;
mod tcp;
mod wakers;
mod wakeups;

use std::fmt;
use std::time::Duration;

use bytepath_report::{TraceAttachment, Traced};
use rustix::io::Errno;

use attach::Attached;
use code::Code;
use follow::{Ask, Before, Collector};
use found::Gathered;
pub use hook::Way;
use hook::{Held, Kernel};
use tasks::Tasks;

use crate::sampler::now_ns;
use crate::sys::bpf_ring::Ring;

/// What can be traced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Where threads were while they had no CPU, and who woke them.
    OffCpu,
    /// Who woke whom, from CPU to CPU, and how long it took.
    Wakeups,
    /// How long each system call took.
    Syscalls,
    /// Time in soft interrupts.
    Softirq,
    /// Files: opened, read, written, closed.
    FileLife,
    /// Bytes by TCP connection and network.
    Tcp,
}

impl Mode {
    /// All of them.
    pub const ALL: &[Mode] =
        &[Mode::OffCpu, Mode::Wakeups, Mode::Syscalls, Mode::Softirq, Mode::FileLife, Mode::Tcp];

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Mode::OffCpu => "offcpu",
            Mode::Wakeups => "wakeups",
            Mode::Syscalls => "syscalls",
            Mode::Softirq => "softirq",
            Mode::FileLife => "filelife",
            Mode::Tcp => "tcp",
        }
    }

    /// What it tells, in a few words.
    pub fn about(self) -> &'static str {
        match self {
            Mode::OffCpu => "time without a CPU by stack, and who woke whom",
            Mode::Wakeups => "wake-ups with latencies, from whom to whom and from CPU to CPU",
            Mode::Syscalls => "latency histograms of each system call",
            Mode::Softirq => "time in soft interrupts, by vector",
            Mode::FileLife => "files opened, read, written and closed, with bytes and lifetimes",
            Mode::Tcp => "bytes by TCP connection and network",
        }
    }
}

/// Why nothing is traced: what failed, the likely cause, what to try.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceError(String);

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TraceError {}

impl TraceError {
    /// The same as what it displays.
    pub fn why(&self) -> &str {
        &self.0
    }

    fn bpf(what: &str, errno: Errno) -> TraceError {
        TraceError(rights::no_bpf(what, errno))
    }

    /// No way to attach to something worked.
    fn attach(to: &str, errno: Option<Errno>, refused: &[String]) -> TraceError {
        let remedy = match errno {
            Some(errno @ (Errno::PERM | Errno::ACCESS)) => {
                return TraceError(rights::no_bpf(&format!("attaching to {to}"), errno));
            }
            _ => {
                "a kernel with CONFIG_BPF_EVENTS, and CONFIG_DEBUG_INFO_BTF or a mounted tracefs, \
                  gives it"
            }
        };
        TraceError(format!("cannot trace {to}: {}; {remedy}", refused.join("; ")))
    }
}

/// The maps of the mode that runs.
#[derive(Debug)]
enum Maps {
    OffCpu(off_cpu::OffCpu),
    Wakeups(wakeups::Wakeups),
    Syscalls(calls::Calls),
    Softirq(soft_interrupts::SoftInterrupts),
    FileLife(files::Files),
    Tcp(tcp::Tcp),
}

impl Maps {
    fn new(mode: Mode) -> Result<(Maps, Option<Ring>), Errno> {
        Ok(match mode {
            Mode::OffCpu => (Maps::OffCpu(off_cpu::OffCpu::new()?), None),
            Mode::Wakeups => (Maps::Wakeups(wakeups::Wakeups::new()?), None),
            Mode::Syscalls => (Maps::Syscalls(calls::Calls::new()?), None),
            Mode::Softirq => (Maps::Softirq(soft_interrupts::SoftInterrupts::new()?), None),
            Mode::FileLife => (Maps::FileLife(files::Files::new()?), Some(files::Files::ring()?)),
            Mode::Tcp => (Maps::Tcp(tcp::Tcp::new()?), Some(tcp::Tcp::ring()?)),
        })
    }

    fn attach(
        &self,
        tasks: &Tasks,
        ring: Option<&Ring>,
        attached: &mut Attached<'_>,
    ) -> Result<Option<String>, TraceError> {
        let ring = || &ring.expect("modes that tell by a ring have one").map;
        match self {
            Maps::OffCpu(maps) => maps.attach(tasks, attached)?,
            Maps::Wakeups(maps) => maps.attach(tasks, attached)?,
            Maps::Syscalls(maps) => maps.attach(tasks, attached)?,
            Maps::Softirq(maps) => maps.attach(tasks, attached)?,
            Maps::FileLife(maps) => return maps.attach(tasks, ring(), attached),
            Maps::Tcp(maps) => maps.attach(tasks, ring(), attached)?,
        }
        Ok(None)
    }
}

/// Tracing that is under way. Whoever drops it has traced in vain, and nothing is left behind.
#[derive(Debug)]
pub struct Tracing {
    tasks: Tasks,
    maps: Maps,
    held: Vec<Held>,
    told: Vec<TraceAttachment>,
    missing: Vec<String>,
    collector: Option<Collector>,
    code: Option<Code>,
    /// What threads were in that were there before.
    before: Before,
    begun_ns: u64,
}

impl Tracing {
    /// Attaches all that a mode needs. Nobody is traced yet: see [`Tracing::arm`] and
    /// [`Tracing::follow`].
    ///
    /// # Errors
    /// Where BPF is not to be had, or the kernel does not tell what is needed: with the setting or
    /// the capability that gives it.
    pub fn start(mode: Mode) -> Result<Tracing, TraceError> {
        Tracing::start_by(mode, &Way::ALL)
    }

    /// The same, but only in these ways of attaching to tracepoints, of which the first that works is
    /// taken.
    ///
    /// # Errors
    /// As [`Tracing::start`].
    pub fn start_by(mode: Mode, ways: &[Way]) -> Result<Tracing, TraceError> {
        let tasks = Tasks::new().map_err(|errno| TraceError::bpf("making a map", errno))?;
        let (maps, ring) =
            Maps::new(mode).map_err(|errno| TraceError::bpf("making a map", errno))?;
        let kernel = Kernel::running();
        let mut attached = Attached::new(&kernel, ways);
        for (event, make) in tasks::PROGRAMS {
            attached.on(event, |hook| make(hook, &tasks))?;
        }
        let missing = maps.attach(&tasks, ring.as_ref(), &mut attached)?;
        let unnamed = calls::unnamed_note(&kernel).filter(|_| mode == Mode::Syscalls);
        let Attached { held, told, .. } = attached;
        let collector = ring.map(|ring| Collector::start(mode, ring)).transpose();
        let collector = collector.map_err(|error| {
            TraceError(format!("cannot start a thread that takes what is traced: {error}"))
        })?;
        Ok(Tracing {
            tasks,
            maps,
            held,
            told,
            missing: missing.into_iter().chain(unnamed).collect(),
            collector,
            code: None,
            before: Before::default(),
            begun_ns: now_ns(),
        })
    }

    /// From now on, what this process starts is traced, from its exec(2) on, and all that comes from
    /// it.
    ///
    /// # Errors
    /// Where the kernel does not say under which number it knows this process.
    pub fn arm(&mut self) -> Result<(), TraceError> {
        self.look_at_code(&[std::process::id()]);
        self.begun_ns = now_ns();
        self.tasks.arm().map_err(|errno| TraceError::bpf("asking for this process's number", errno))
    }

    /// What this process starts from now on is not traced.
    pub fn disarm(&self) {
        // It was written before: it can be written again.
        let _ = self.tasks.disarm();
    }

    /// From now on a process, its threads, its children and what they start are traced.
    ///
    /// # Errors
    /// Where there is no such process, or numbers here are not those of the kernel (PID namespaces).
    pub fn follow(&mut self, pid: u32) -> Result<(), TraceError> {
        self.look_at_code(&crate::world::with_descendants(pid));
        self.begun_ns = now_ns();
        let ask = Ask {
            calls: matches!(self.maps, Maps::Syscalls(_)),
            stacks: matches!(self.maps, Maps::OffCpu(_)),
            rings: matches!(self.maps, Maps::FileLife(_) | Maps::Tcp(_)),
        };
        let mut followed = self.code.as_ref().map(Code::followed);
        self.before = follow::follow(&self.tasks, pid, self.begun_ns, ask)?;
        if let Some(followed) = &mut followed {
            followed.append(&mut self.before.added);
        }
        Ok(())
    }

    /// Stacks need to know what code is where.
    fn look_at_code(&mut self, roots: &[u32]) {
        if !matches!(self.maps, Maps::OffCpu(_)) {
            return;
        }
        match Code::of(roots) {
            Ok(code) => self.code = Some(code),
            Err(error) => self.missing.push(format!(
                "functions of programs have no names, since perf_event_open does not tell what is \
                 mapped where: {error}; CAP_PERFMON or kernel.perf_event_paranoid=-1 gives it"
            )),
        }
    }

    /// Ends it, and tells what was found. `what` is what was traced, in words.
    ///
    /// # Errors
    /// Where the kernel refuses to give what it gathered.
    pub fn finish(mut self, what: &str) -> Result<Traced, TraceError> {
        let refused = |errno| TraceError::bpf("reading what was gathered", errno);
        self.tasks.call_anew();
        let ended_ns = now_ns();
        // Detached, so that what is read does not move.
        self.held.clear();
        let gathered = Gathered {
            told: self.collector.take().map(Collector::finish),
            code: self.code.take().map(Code::finish),
        };
        let found = found::of(&self, gathered, ended_ns).map_err(refused)?;
        Ok(found::traced(self, found, what, Duration::from_nanos(ended_ns)))
    }
}
