//! What is true here: kernel, CPUs, limits, page sizes, which calls answer. Found by trying, never
//! by version.
//!
//! Every group of facts is found when it is first asked for and then remembered, so a job of one
//! byte pays for nothing that it does not ask. What could not be found for want of descriptors is
//! asked again the next time: a server that was short of them once is not so for ever. [`Machine::this`] is the machine we run on;
//! [`Machine::from_facts`] is any other, described by hand, which asks the kernel for nothing: the
//! planner is tested with such machines.
//!
//! Nothing here changes the machine: pipes, files in memory and rings made for a trial are closed
//! again.

mod answer;
mod calls;
mod cgroups;
mod cpu_list;
mod device_use;
mod facts;
mod file_system;
mod files;
#[cfg(test)]
pub(crate) mod fixture;
mod kernel;
mod large_pages;
mod limits;
mod memory;
mod memory_room;
mod mounts;
mod ring;
mod topology;
mod user;
mod virtualisation;

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

pub use crate::sys::deadly::{RISKY_CALLS, survived};
pub use answer::Answer;
pub use calls::Call;
pub use cgroups::Cgroups;
pub use cpu_list::CpuList;
pub use device_use::{DeviceUse, device_use};
pub use facts::Facts;
pub use file_system::{FileSystem, FileSystemError, file_system, file_system_of};
pub(crate) use file_system::{maps_to_its_end, may_be_of, may_compress, takes_ring, type_of};
pub use kernel::Kernel;
pub(crate) use large_pages::{LargePages, Turn};
pub use limits::{Limit, PipeLimits, ResourceLimits};
pub use memory::{HugePool, Memory};
pub use memory_room::{MemoryRoom, memory_room};
pub use mounts::unescaped;
pub(crate) use ring::refusal as ring_refusal;
pub use ring::{Ring, RingFeatures};
pub use topology::{Cache, CacheKind, Cpu, Topology};
pub(crate) use user::seccomp_filters;
pub use user::{Capabilities, Capability, User, has_all_users};
pub use virtualisation::Virtualisation;

/// A machine that can be asked about itself.
///
/// ```
/// use bytepath::machine::{Call, Machine};
/// let machine = Machine::this();
/// println!("splice: {}", machine.call(Call::Splice));
/// println!("io_uring: {}", machine.ring());
/// ```
#[derive(Debug, Default)]
pub struct Machine {
    kernel: OnceLock<Kernel>,
    cpus: OnceLock<Topology>,
    allowed_cpus: OnceLock<CpuList>,
    pipes: Fact<PipeLimits>,
    limits: OnceLock<ResourceLimits>,
    memory: OnceLock<Memory>,
    calls: [Fact<Answer>; Call::ALL.len()],
    ring: Fact<Ring>,
    pressure: OnceLock<Answer>,
    cgroups: OnceLock<Cgroups>,
    user: OnceLock<User>,
    boot_id: Fact<String>,
    /// Whether the CPUs allowed are as they were: the kernel is not asked for them again.
    keeps_cpus: AtomicBool,
}

/// A fact for which a descriptor is needed, and that therefore may not be found at once.
#[derive(Debug)]
struct Fact<T> {
    found: OnceLock<T>,
    /// What is said until it is found.
    meanwhile: OnceLock<T>,
}

impl<T> Default for Fact<T> {
    fn default() -> Fact<T> {
        Fact { found: OnceLock::new(), meanwhile: OnceLock::new() }
    }
}

impl<T> From<T> for Fact<T> {
    fn from(fact: T) -> Fact<T> {
        Fact { found: fact.into(), meanwhile: OnceLock::new() }
    }
}

impl<T> Fact<T> {
    /// The fact; `find` is asked for it until what it says `is_final`.
    fn get_or_find(&self, find: impl FnOnce() -> T, is_final: impl FnOnce(&T) -> bool) -> &T {
        if let Some(fact) = self.found.get() {
            return fact;
        }
        let fact = find();
        let place = if is_final(&fact) { &self.found } else { &self.meanwhile };
        place.get_or_init(|| fact)
    }
}

impl Machine {
    /// The machine we run on.
    pub fn this() -> &'static Machine {
        static THIS: OnceLock<Machine> = OnceLock::new();
        THIS.get_or_init(Machine::default)
    }

    /// A machine described by hand. It never asks the kernel anything.
    pub fn from_facts(facts: Facts) -> Machine {
        let Facts { mut calls, .. } = facts;
        let mut answer = |call| Fact::from(calls.remove(&call).unwrap_or(Answer::Yes));
        Machine {
            calls: std::array::from_fn(|index| answer(Call::ALL[index])),
            kernel: facts.kernel.into(),
            cpus: facts.cpus.into(),
            allowed_cpus: facts.allowed_cpus.into(),
            pipes: facts.pipes.into(),
            limits: facts.limits.into(),
            memory: facts.memory.into(),
            ring: facts.ring.into(),
            pressure: facts.pressure.into(),
            cgroups: facts.cgroups.into(),
            user: facts.user.into(),
            boot_id: Fact::from(String::new()),
            keeps_cpus: true.into(),
        }
    }

    /// The kernel's name for its present run; empty where it does not tell. The quickest way to
    /// know that nothing about the machine itself has changed.
    pub fn boot_id(&self) -> &str {
        let read = || files::text(root(), "proc/sys/kernel/random/boot_id").unwrap_or_default();
        self.boot_id.get_or_find(read, |boot_id| !boot_id.is_empty())
    }

    /// The kernel and the processor.
    pub fn kernel(&self) -> &Kernel {
        self.kernel.get_or_init(|| Kernel::read(root()))
    }

    /// The CPUs and what they share.
    pub fn cpus(&self) -> &Topology {
        self.cpus.get_or_init(|| Topology::read(root()))
    }

    /// The CPUs that this process may use, as they were for the thread that asked first: ask before
    /// pinning.
    pub fn allowed_cpus(&self) -> &CpuList {
        self.allowed_cpus.get_or_init(of_this_thread)
    }

    /// The CPUs that the calling thread may use now: by sched_setaffinity(2) they change at any
    /// time, for each thread by itself. In programs that [keep](Machine::keep_allowed_cpus) them,
    /// those that they began with.
    pub fn allowed_cpus_now(&self) -> CpuList {
        match self.keeps_cpus.load(Relaxed) {
            true => self.allowed_cpus().clone(),
            false => of_this_thread(),
        }
    }

    /// Notes the CPUs that the calling thread may use, and from now on goes by them: for programs
    /// that place their threads, or are placed by others, while they work.
    pub fn keep_allowed_cpus(&self) {
        self.allowed_cpus();
        self.keeps_cpus.store(true, Relaxed);
    }

    /// How large pipes may be, and are.
    pub fn pipes(&self) -> &PipeLimits {
        let probe = || PipeLimits::probe(root());
        self.pipes.get_or_find(probe, |limits| limits.default_bytes.is_some())
    }

    /// Limits on this process's resources.
    pub fn limits(&self) -> &ResourceLimits {
        self.limits.get_or_init(ResourceLimits::probe)
    }

    /// Memory and page sizes.
    pub fn memory(&self) -> &Memory {
        self.memory.get_or_init(|| Memory::read(root()))
    }

    /// Whether a system call answers, by trying that one alone.
    pub fn call(&self, call: Call) -> &Answer {
        self.calls[call as usize].get_or_find(|| call.probe(), Answer::is_final)
    }

    /// Whether io_uring answers, and what it can do.
    pub fn ring(&self) -> &Ring {
        self.ring.get_or_find(|| Ring::probe(root()), |ring| ring.answer().is_final())
    }

    /// Whether the kernel tells how long work waits (PSI).
    pub fn pressure(&self) -> &Answer {
        self.pressure.get_or_init(|| cgroups::pressure(root()))
    }

    /// Which generations of cgroups are mounted.
    pub fn cgroups(&self) -> &Cgroups {
        self.cgroups.get_or_init(|| Cgroups::read(root()))
    }

    /// Who we are and what that allows.
    pub fn user(&self) -> &User {
        self.user.get_or_init(|| User::read(root()))
    }

    /// Everything, found out now where it was not yet: for a tour of the machine, and for the
    /// record of a measurement. Takes a few milliseconds, more where there are hundreds of
    /// CPUs.
    pub fn facts(&self) -> Facts {
        Facts {
            kernel: self.kernel().clone(),
            cpus: self.cpus().clone(),
            allowed_cpus: self.allowed_cpus().clone(),
            pipes: self.pipes().clone(),
            limits: *self.limits(),
            memory: self.memory().clone(),
            calls: Call::ALL.iter().map(|call| (*call, self.call(*call).clone())).collect(),
            ring: self.ring().clone(),
            pressure: self.pressure().clone(),
            cgroups: self.cgroups().clone(),
            user: self.user().clone(),
        }
    }
}

fn of_this_thread() -> CpuList {
    CpuList::of_this_thread().unwrap_or_else(|_| Topology::read(root()).online())
}

fn root() -> &'static Path {
    Path::new("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_call_has_the_place_of_its_number() {
        for (index, call) in Call::ALL.iter().enumerate() {
            assert_eq!(*call as usize, index);
        }
    }

    #[test]
    fn a_machine_described_by_hand_says_what_it_was_told() {
        let mut facts = Facts::ordinary();
        let refusal = Answer::without_effect("it copies", "use write");
        facts.calls.insert(Call::VmspliceAliases, refusal.clone());
        let machine = Machine::from_facts(facts.clone());
        assert_eq!(machine.call(Call::VmspliceAliases), &refusal);
        assert_eq!(machine.call(Call::Splice), &Answer::Yes);
        assert_eq!(machine.pipes(), &facts.pipes);
        assert_eq!(Machine::from_facts(machine.facts()).facts(), machine.facts());
    }

    #[test]
    fn a_fact_is_found_once_and_stays() {
        assert!(std::ptr::eq(Machine::this().pipes(), Machine::this().pipes()));
        assert!(std::ptr::eq(Machine::this(), Machine::this()));
    }

    #[test]
    fn this_machine_tells_everything_about_itself() {
        for (name, value) in Machine::this().facts().list() {
            println!("{name}: {value}");
            assert!(!name.is_empty() && !value.is_empty(), "{name}");
        }
    }
}
