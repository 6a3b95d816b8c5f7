//! Who is who while it is sampled: which processes belong to the work, what their threads are
//! called, and what code lies where in each. Told by records, so that it is known of processes that
//! have ended by the time somebody asks.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fs;

use crate::files::{Files, Identity};
use crate::record::{Kind, Map, ToUnwind};
use crate::unwind::{Cache, Unwinding};

/// Whose sample it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Whose {
    /// Of the work that is looked at.
    Work,
    /// Of a thread of the kernel, which may well work for it.
    Kernel,
    /// Nobody's: the CPU was idle.
    Idle,
    /// Of another program.
    Others,
}

/// A place in code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    /// An address of the kernel.
    Kernel(u64),
    /// An address as the file of this number gives it.
    File(u32, u64),
    /// Somewhere in the file of this number, of which no more is known.
    Within(u32),
    /// Nowhere that is known.
    Unknown,
}

/// All that was told.
pub(crate) struct World {
    processes: HashMap<u32, Process>,
    /// What processes were before they began another program, by how many they had begun, where that is
    /// remembered.
    past: Option<HashMap<(u32, u32), Process>>,
    /// What threads are called, those of the whole machine.
    names: HashMap<u32, String>,
    work: HashSet<u32>,
    /// All processes that ever belonged to the work.
    pub(crate) ever: HashSet<u32>,
    /// The process that starts the work and waits for it.
    left_out: Option<u32>,
    /// What processes are called that make the work's load, and are none of it.
    beside: Vec<String>,
    /// Those of them that there are.
    aside: HashSet<u32>,
    /// Threads of the sampler itself, which are none of the work's.
    own: HashSet<u32>,
    /// Whether threads that are nobody's are the kernel's own, as far as was asked.
    of_kernel: HashMap<u32, bool>,
    pub(crate) files: Files,
    cache: Cache,
}

/// A process of the work.
#[derive(Clone)]
struct Process {
    maps: BTreeMap<u64, Mapping>,
    unwinding: Unwinding,
    /// How many programs it and those that it came from have begun, from 0 again behind [`PROGRAMS`].
    programs: u32,
}

/// What tracing keeps of the number of programs.
const PROGRAMS: u32 = 1 << 10;
/// So many programs that have ended are remembered.
const PAST_MAX: usize = 16_384;

#[derive(Clone, Copy)]
struct Mapping {
    end: u64,
    offset: u64,
    file: u32,
}

impl World {
    /// The work is `root`, and what it starts; `own` threads are not.
    pub(crate) fn new(roots: &[u32], own: impl IntoIterator<Item = u32>) -> World {
        let mut world = World {
            processes: HashMap::new(),
            past: None,
            names: HashMap::new(),
            work: roots.iter().copied().collect(),
            ever: roots.iter().copied().collect(),
            left_out: None,
            beside: Vec::new(),
            aside: HashSet::new(),
            own: own.into_iter().collect(),
            of_kernel: HashMap::new(),
            files: Files::default(),
            cache: Cache::default(),
        };
        roots.iter().for_each(|root| world.look_at(*root));
        world
    }

    /// From now on, where code lay in programs that have ended is remembered.
    pub(crate) fn remember(&mut self) {
        self.past = Some(HashMap::new());
    }

    /// Whoever follows a process counts its programs from this one on.
    pub(crate) fn count_from_here(&mut self, pid: u32) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.programs = 0;
        }
    }

    /// A process is none of the work's, though what it starts is.
    pub(crate) fn leave_out(&mut self, pid: u32) {
        self.ever.remove(&pid);
        self.left_out = Some(pid);
    }

    /// Processes that call themselves one of these are none of the work's from then on.
    pub(crate) fn leave_aside(&mut self, names: &[String]) {
        self.beside = names.to_vec();
    }

    /// What is there of a process that began before anybody looked.
    fn look_at(&mut self, pid: u32) {
        let maps = text(&format!("/proc/{pid}/maps"));
        for tid in threads_of(pid) {
            self.name_of(tid);
        }
        self.processes.insert(pid, Process::new());
        for map in maps.lines().filter_map(|line| mapped_code(pid, line)) {
            self.map(&map);
        }
    }

    /// Learns from a record that is no sample.
    pub(crate) fn learn(&mut self, kind: Kind) {
        match kind {
            Kind::Map(map) => self.map(&map),
            Kind::Comm { pid, tid, name, exec } => {
                if exec && let Some(process) = self.processes.get_mut(&pid) {
                    let programs = (process.programs + 1) % PROGRAMS;
                    let next = Process { programs, ..Process::new() };
                    let ended = std::mem::replace(process, next);
                    if let Some(past) = self.past.as_mut().filter(|past| past.len() < PAST_MAX) {
                        // Its stacks are told as they are.
                        let ended = Process { unwinding: Unwinding::new(), ..ended };
                        past.insert((pid, ended.programs), ended);
                    }
                }
                if pid == tid && self.work.contains(&pid) && self.beside.contains(&name) {
                    self.aside.insert(pid);
                    self.ever.remove(&pid);
                }
                self.names.insert(tid, name);
            }
            Kind::Fork { pid, parent_pid, tid, parent_tid } => {
                let name = self.name_of(parent_tid);
                self.names.insert(tid, name);
                self.of_kernel.remove(&tid);
                self.forked(pid, parent_pid, tid);
            }
            Kind::Exit { tid } => {
                self.own.remove(&tid);
            }
            Kind::Sample(_) | Kind::Lost(_) => {}
        }
    }

    fn forked(&mut self, pid: u32, parent: u32, tid: u32) {
        if pid == parent && tid != pid {
            return;
        }
        // A number may come again, for a process of somebody else.
        self.work.remove(&pid);
        self.aside.remove(&pid);
        self.processes.remove(&pid);
        if self.work.contains(&parent) {
            self.work.insert(pid);
            self.ever.insert(pid);
            let process = self.processes.get(&parent).cloned().unwrap_or_else(Process::new);
            self.processes.insert(pid, process);
        }
    }

    fn map(&mut self, map: &Map) {
        if !self.work.contains(&map.pid) {
            return;
        }
        let end = map.start.saturating_add(map.bytes);
        let file = self.files.number_of(map);
        let process = self.processes.entry(map.pid).or_insert_with(Process::new);
        let overlapped: Vec<u64> = process
            .maps
            .range(..end)
            .filter(|(_, mapping)| mapping.end > map.start)
            .map(|(start, _)| *start)
            .collect();
        for start in overlapped {
            process.maps.remove(&start);
            process.unwinding.remove(start);
        }
        process.unwinding.add(self.files.get(file), map.start..end, map.offset);
        process.maps.insert(map.start, Mapping { end, offset: map.offset, file });
    }

    /// Whose a sample is.
    pub(crate) fn whose(&mut self, pid: u32, tid: u32, in_kernel_alone: bool) -> Option<Whose> {
        match pid {
            // The kernel has this number for what idles, and for all whom the one that looks cannot see
            // from its container (pid_namespaces(7)). What idles is never in user space.
            0 if in_kernel_alone => Some(Whose::Idle),
            0 => Some(Whose::Others),
            _ if self.own.contains(&tid) || self.left_out == Some(pid) => None,
            _ if self.aside.contains(&pid) => None,
            _ if self.work.contains(&pid) => Some(Whose::Work),
            _ if in_kernel_alone && self.is_kernel_thread(tid) => Some(Whose::Kernel),
            _ => Some(Whose::Others),
        }
    }

    /// Whether a thread is one of the kernel's that may work for somebody.
    fn is_kernel_thread(&mut self, tid: u32) -> bool {
        if let Some(known) = self.of_kernel.get(&tid) {
            return *known;
        }
        let name = self.name_of(tid);
        let is = is_of_kernel(&Stat::of(&tid.to_string()))
            && !UPKEEP.iter().any(|upkeep| name.starts_with(upkeep));
        self.of_kernel.insert(tid, is);
        is
    }

    /// What a thread is called.
    pub(crate) fn name_of(&mut self, tid: u32) -> String {
        let read = || {
            let name = text(&format!("/proc/{tid}/comm"));
            if name.is_empty() { format!("thread {tid}") } else { name.trim_end().to_owned() }
        };
        self.names.entry(tid).or_insert_with(read).clone()
    }

    /// The places of a stack of user space, leaf first.
    pub(crate) fn user_places(
        &mut self,
        pid: u32,
        by_frame_pointer: &[u64],
        to_unwind: Option<&ToUnwind>,
    ) -> Vec<Place> {
        let Some(process) = self.processes.get(&pid) else { return Vec::new() };
        let unwound = to_unwind.map(|from| process.unwinding.frames(from, &mut self.cache));
        let addresses = match &unwound {
            Some(addresses) => addresses.as_slice(),
            None => by_frame_pointer,
        };
        addresses.iter().map(|address| process.place(*address, &self.files)).collect()
    }
}

impl World {
    /// The places of a stack of the program that a process had begun as the one of this number,
    /// leaf first. Where that program is not known, what the process has now tells them.
    pub(crate) fn places_then(&self, pid: u32, programs: u32, addresses: &[u64]) -> Vec<Place> {
        let then = self.program(pid, programs).or_else(|| self.processes.get(&pid));
        let Some(process) = then else { return Vec::new() };
        addresses.iter().map(|address| process.place(*address, &self.files)).collect()
    }

    /// Whether stacks of a program are told by what its process has now, since more is not known.
    pub(crate) fn is_told_by_now(&self, pid: u32, programs: u32) -> bool {
        self.program(pid, programs).is_none() && self.processes.contains_key(&pid)
    }

    fn program(&self, pid: u32, programs: u32) -> Option<&Process> {
        let now = self.processes.get(&pid).filter(|process| process.programs == programs);
        now.or_else(|| self.past.as_ref()?.get(&(pid, programs)))
    }
}

impl Process {
    fn new() -> Process {
        Process { maps: BTreeMap::new(), unwinding: Unwinding::new(), programs: 0 }
    }

    fn place(&self, address: u64, files: &Files) -> Place {
        let found = self.maps.range(..=address).next_back();
        let Some((start, mapping)) = found.filter(|(_, mapping)| address < mapping.end) else {
            return Place::Unknown;
        };
        match files.get(mapping.file).address_of(address - start + mapping.offset) {
            Some(address) => Place::File(mapping.file, address),
            None => Place::Within(mapping.file),
        }
    }
}

/// Threads of the kernel's that look after the machine's memory and work for no program: what DAMON,
/// compaction, khugepaged and page merging do goes on whoever runs.
const UPKEEP: &[&str] = &["kdamond", "kcompactd", "khugepaged", "ksmd", "khungtaskd"];

/// Whether this is the stat of a thread of the kernel's (PF_KTHREAD). That it has no command line says
/// nothing: a program that is about to end has none either.
fn is_of_kernel(stat: &Stat) -> bool {
    const PF_KTHREAD: u64 = 0x0020_0000;
    const FLAGS: usize = 6;
    stat.number(FLAGS).is_some_and(|flags| flags & PF_KTHREAD != 0)
}

/// What a file of /proc says; nothing where there is none. The kernel cuts names to 15 bytes, within a
/// character too: what is none any more is replaced.
pub(crate) fn text(path: &str) -> String {
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// What the kernel tells of a process or a thread (proc_pid_stat(5)) behind its name; nothing where it has
/// ended. The name stands in parentheses, and may hold any character.
pub(crate) struct Stat(String);

impl Stat {
    /// Of a process, `PID`, or a thread, `PID/task/TID`.
    pub(crate) fn of(thread: &str) -> Stat {
        Stat::behind_name(&text(&format!("/proc/{thread}/stat")))
    }

    fn behind_name(text: &str) -> Stat {
        Stat(text.rsplit_once(')').map_or("", |(_, behind)| behind).to_owned())
    }

    /// In what state it is, by its letter.
    pub(crate) fn state(&self) -> Option<char> {
        self.0.trim_start().chars().next()
    }

    /// The number that is the word `at`, of which the state is 0.
    pub(crate) fn number(&self, at: usize) -> Option<u64> {
        self.0.split_whitespace().nth(at)?.parse().ok()
    }
}

/// The threads of a process; none where it has ended.
pub(crate) fn threads_of(pid: u32) -> Vec<u32> {
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse().ok();
    let tasks = fs::read_dir(format!("/proc/{pid}/task"));
    tasks.map(|all| all.flatten().filter_map(number).collect()).unwrap_or_default()
}

/// A process and all that come from it, but for the one that looks: of a shell, that is one of its children.
pub(crate) fn with_descendants(pid: u32) -> Vec<u32> {
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<u32>().ok();
    let all = fs::read_dir("/proc").map(|all| all.flatten().filter_map(number).collect());
    let all: Vec<u32> = all.unwrap_or_default();
    let parents: Vec<(u32, u32)> =
        all.iter().filter_map(|pid| Some((*pid, parent_of(*pid)?))).collect();
    let this = std::process::id();
    let mut found = vec![pid];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        let children = parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid);
        let children = children.filter(|pid| *pid != this && !found.contains(pid));
        let children: Vec<u32> = children.collect();
        found.extend(children);
        next += 1;
    }
    found
}

fn parent_of(pid: u32) -> Option<u32> {
    const PARENT: usize = 1;
    u32::try_from(Stat::of(&pid.to_string()).number(PARENT)?).ok()
}

/// A line of /proc/PID/maps, if it is of code.
fn mapped_code(pid: u32, line: &str) -> Option<Map> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    let offset = u64::from_str_radix(words.next()?, 16).ok()?;
    let (major, minor) = words.next()?.split_once(':')?;
    let device = |hex| u32::from_str_radix(hex, 16).ok();
    let device = rustix::fs::makedev(device(major)?, device(minor)?);
    let file = Identity { device, inode: words.next()?.parse().ok()?, generation: None };
    let name = words.next().unwrap_or_default().trim_start();
    let start = u64::from_str_radix(start, 16).ok()?;
    let bytes = u64::from_str_radix(end, 16).ok()?.checked_sub(start)?;
    let name = if name.is_empty() { "//anon" } else { name }.to_owned();
    rights.contains('x').then_some(Map { pid, start, bytes, offset, file, name })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fork(pid: u32, parent_pid: u32) -> Kind {
        Kind::Fork { pid, parent_pid, tid: pid, parent_tid: parent_pid }
    }

    #[test]
    fn what_the_work_starts_is_the_works_and_a_number_that_comes_again_is_not() {
        // Numbers above any that the kernel gives (PID_MAX_LIMIT is 2^22).
        let [work, child, grandchild, stranger] = [1 << 24, 2 << 24, 3 << 24, 4 << 24];
        let mut world = World::new(&[work], []);
        world.learn(fork(child, work));
        world.learn(fork(grandchild, child));
        for pid in [work, child, grandchild] {
            assert_eq!(world.whose(pid, pid, false), Some(Whose::Work));
        }
        assert_eq!(world.whose(stranger, stranger, false), Some(Whose::Others));
        world.learn(fork(child, stranger));
        assert_eq!(world.whose(child, child, false), Some(Whose::Others));
    }

    #[test]
    fn what_a_container_cannot_see_is_not_idle() {
        let mut world = World::new(&[], []);
        assert_eq!(world.whose(0, 0, true), Some(Whose::Idle));
        assert_eq!(world.whose(0, 0, false), Some(Whose::Others));
    }

    #[test]
    fn what_only_makes_the_load_is_left_aside_until_its_number_comes_again() {
        let [work, load] = [1 << 24, 2 << 24];
        let mut world = World::new(&[work], []);
        world.leave_aside(&["the-load".to_owned()]);
        world.learn(fork(load, work));
        assert_eq!(world.whose(load, load, false), Some(Whose::Work));
        let comm = |pid, name: &str| Kind::Comm { pid, tid: pid, name: name.into(), exec: false };
        world.learn(comm(load, "the-load"));
        assert_eq!(world.whose(load, load + 1, false), None, "its threads too");
        assert!(!world.ever.contains(&load) && world.ever.contains(&work));
        world.learn(fork(load, work));
        assert_eq!(world.whose(load, load, false), Some(Whose::Work));
    }

    #[test]
    fn a_program_that_ends_is_no_thread_of_the_kernels() {
        // Of a zombie and of kthreadd: neither has a command line.
        let zombie = "77 (a) b) Z 1 77 77 0 -1 4228108 0 0 0 0 0 0";
        let kthreadd = "2 (kthreadd) S 0 0 0 0 -1 2129984 0 0 0 0 0 0";
        let of_kernel = |stat| is_of_kernel(&Stat::behind_name(stat));
        assert!(!of_kernel(zombie) && of_kernel(kthreadd) && !of_kernel(""));
        let mut world = World::new(&[], []);
        let number = 3 << 24;
        world.names.insert(number, "kdamond.0".to_owned());
        assert_eq!(world.whose(number, number, true), Some(Whose::Others));
    }

    #[test]
    fn a_new_program_has_a_new_name_and_none_of_the_old_maps() {
        let pid = 1 << 24;
        let mut world = World::new(&[pid], []);
        let name = "[vdso]".to_owned();
        let map = Map { pid, start: 0x1000, bytes: 0x1000, name, ..Map::default() };
        world.learn(Kind::Map(map));
        let place = |world: &mut World| world.user_places(pid, &[0x1800], None);
        assert_eq!(place(&mut world), [Place::Within(0)]);
        world.learn(Kind::Comm { pid, tid: pid, name: "new".to_owned(), exec: true });
        assert_eq!(place(&mut world), [Place::Unknown]);
        assert_eq!(world.name_of(pid), "new");
    }

    #[test]
    fn a_stack_of_a_program_that_was_there_before_is_told_by_its_own_maps() {
        let (pid, child) = (1 << 24, 2 << 24);
        let mut world = World::new(&[pid], []);
        world.remember();
        let map = |pid, name: &str| {
            let name = name.to_owned();
            Kind::Map(Map { pid, start: 0x1000, bytes: 0x1000, name, ..Map::default() })
        };
        world.learn(map(pid, "[vdso]"));
        world.learn(fork(child, pid));
        world.learn(Kind::Comm { pid: child, tid: child, name: "new".to_owned(), exec: true });
        world.learn(map(child, "//anon"));
        let at = |pid, programs| world.places_then(pid, programs, &[0x1800]);
        assert_eq!(at(pid, 0), [Place::Within(0)]);
        assert_eq!((at(child, 0), at(child, 1)), (vec![Place::Within(0)], vec![Place::Within(1)]));
        // Nobody knows of a third: what is there now tells.
        assert_eq!(at(child, 2), vec![Place::Within(1)]);
        assert!(world.is_told_by_now(child, 2) && !world.is_told_by_now(child, 0));
        assert_eq!(at(3 << 24, 0), []);
    }

    #[test]
    fn maps_are_read_with_any_name() {
        let line = "7f00-7f10 r-xp 00001000 fd:00 12       /tmp/a b (deleted)";
        let map = mapped_code(1, line).expect("it is code");
        assert_eq!((map.start, map.bytes, map.offset), (0x7f00, 0x10, 0x1000));
        assert_eq!(map.name, "/tmp/a b (deleted)");
        assert_eq!(map.file, Identity { device: 0xfd00, inode: 12, generation: None });
        assert_eq!(mapped_code(1, "7f00-7f10 rw-p 00001000 fd:00 12 /tmp/a"), None);
        assert_eq!(mapped_code(1, "what is this"), None);
    }

    #[test]
    fn children_are_found_and_who_looks_is_none_of_its_parents() {
        assert!(threads_of(std::process::id()).contains(&std::process::id()));
        let found = with_descendants(std::os::unix::process::parent_id());
        assert!(!found.contains(&std::process::id()), "{found:?}");
        let mut cat = std::process::Command::new("cat");
        let mut child = cat.stdin(std::process::Stdio::piped()).spawn().expect("cat is everywhere");
        let found = with_descendants(std::process::id());
        drop(child.stdin.take());
        assert!(child.wait().expect("it ends with its input").success());
        assert!(found.contains(&std::process::id()) && found.contains(&child.id()), "{found:?}");
    }
}
