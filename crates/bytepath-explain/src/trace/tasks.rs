//! Which threads are traced: those of the command or the process, and all that they start. One map
//! holds them and what programs remember of each; three programs keep it: at the start, at exec and at exit.

use std::collections::HashMap;

use rustix::io::Errno;

use super::asm::{Alu, Asm, Helper, If, Label, Reg, Size};
use super::hook::{CONTEXT, Event, Hook, SCRATCH, Unknown, Value};
use crate::sys::bpf::{Map, MapKind, Program, ProgramKind};
use crate::world::text;

/// Threads that are traced at once; those beyond are counted as lost.
pub(super) const TASKS_MAX: u32 = 16_384;
/// Threads whose names are remembered; the oldest are forgotten.
const PEOPLE_MAX: u32 = 16_384;

/// What is known of a thread: where each thing lies in its record.
pub(super) mod task {
    pub(in crate::trace) const STATE: i16 = 0;
    pub(in crate::trace) const TGID: i16 = 4;
    pub(in crate::trace) const ENTER_NS: i16 = 8;
    pub(in crate::trace) const CALL: i16 = 16;
    pub(in crate::trace) const READS: i16 = 24;
    pub(in crate::trace) const WRITES: i16 = 28;
    /// The number under which its name is kept.
    pub(in crate::trace) const WHO: i16 = 32;
    pub(in crate::trace) const OFF_NS: i16 = 40;
    pub(in crate::trace) const OFF_KERNEL_STACK: i16 = 48;
    pub(in crate::trace) const OFF_USER_STACK: i16 = 52;
    pub(in crate::trace) const OFF_STATE: i16 = 56;
    pub(in crate::trace) const WAKER_TID: i16 = 60;
    pub(in crate::trace) const WAKER_STACK: i16 = 64;
    pub(in crate::trace) const WAKER_CPU: i16 = 68;
    pub(in crate::trace) const WOKEN_NS: i16 = 72;
    /// Where a call that lasts puts what is read when it returns.
    pub(in crate::trace) const MEMORY: i16 = 80;
    pub(in crate::trace) const BYTES: i16 = 88;
}

/// Started by a process that is armed: traced from its exec on.
pub(super) const PENDING: i32 = 1;
/// Traced.
pub(super) const TRACED: i32 = 2;
/// Not traced, but woken by one that is.
pub(super) const BYSTANDER: i32 = 3;

/// What was lost, by the place of its count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Lost {
    Tasks,
    Keys,
    Stacks,
    Records,
}

impl Lost {
    pub(super) const ALL: [Lost; 4] = [Lost::Tasks, Lost::Keys, Lost::Stacks, Lost::Records];

    pub(super) fn what(self) -> &'static str {
        match self {
            Lost::Tasks => "threads that were not followed (more than 16384 at once)",
            Lost::Keys => "events that no row was left for",
            Lost::Stacks => "stacks that could not be taken or kept",
            Lost::Records => "records of files or connections that nobody took in time",
        }
    }
}

/// The maps that all modes have.
#[derive(Debug)]
pub(super) struct Tasks {
    pub(super) tasks: Map,
    people: Map,
    /// When the last thread of a process ended.
    exits: Map,
    armed: Map,
    lost: Map,
}

/// Who a thread is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Person {
    pub(super) tgid: u32,
    pub(super) name: String,
}

/// A thread that was there before anybody looked.
#[derive(Debug)]
pub(super) struct There {
    pub(super) tid: u32,
    pub(super) tgid: u32,
    pub(super) name: String,
    /// The state in which it is off its CPU, as the kernel has it.
    pub(super) off: Option<u32>,
    /// The system call that it is in, where calls are traced.
    pub(super) call: Option<u64>,
}

/// Not sched_process_fork, whose record does not tell threads from processes.
const NEW: Event = Event { group: "task", name: "task_newtask" };
const EXEC: Event = Event { group: "sched", name: "sched_process_exec" };
const EXIT: Event = Event { group: "sched", name: "sched_process_exit" };

const CHILD_TID: Value =
    Value { argument: ("task", 0), member: Some(("task_struct", &["pid"])), field: "pid" };
const CLONE_FLAGS: Value =
    Value { argument: ("clone_flags", 1), member: None, field: "clone_flags" };
/// The number of the thread that has called exec(2).
const CALLER_TID: Value = Value { argument: ("old_pid", 1), member: None, field: "old_pid" };

/// Where programs put the number of a thread on the stack.
pub(super) const KEY: i16 = -16;
/// Where they put the number under which its name is kept.
pub(super) const WHO: i16 = KEY + 4;
/// Numbers of threads are below 2^22 (PID_MAX_LIMIT). Above them stands how many programs it and those
/// that it came from have begun: each has a name of its own.
const TID_BITS: i32 = 22;
/// Where a new record of a thread is put together.
const RECORD: i16 = KEY - task::BYTES;
/// tgid, padding, name.
const PERSON_BYTES: i16 = 24;
const PERSON: i16 = RECORD - PERSON_BYTES;

/// A program's maker.
pub(super) type Make<M> = fn(&Hook<'_>, &M) -> Result<Asm, Unknown>;

/// The programs that follow.
pub(super) const PROGRAMS: [(Event, Make<Tasks>); 3] =
    [(NEW, on_new), (EXEC, on_exec), (EXIT, on_exit)];

impl Tasks {
    pub(super) fn new() -> Result<Tasks, Errno> {
        Ok(Tasks {
            tasks: Map::new(MapKind::Hash, "bp_tasks", 4, task::BYTES as usize, TASKS_MAX)?,
            people: Map::new(MapKind::LruHash, "bp_people", 4, PERSON_BYTES as usize, PEOPLE_MAX)?,
            exits: Map::new(MapKind::LruHash, "bp_exits", 4, 8, PEOPLE_MAX)?,
            armed: Map::new(MapKind::Array, "bp_armed", 4, 4, 1)?,
            lost: Map::new(MapKind::Array, "bp_lost", 4, 8, Lost::ALL.len() as u32)?,
        })
    }

    /// From now on what this process starts is traced from its exec on, until disarmed.
    pub(super) fn arm(&self) -> Result<(), Errno> {
        self.armed.set(&[0; 4], &own_number()?.to_ne_bytes())
    }

    pub(super) fn disarm(&self) -> Result<(), Errno> {
        self.armed.set(&[0; 4], &0u32.to_ne_bytes())
    }

    /// Traces a thread that is there, from this moment on.
    pub(super) fn add(&self, there: &There, now_ns: u64) -> Result<(), Errno> {
        let There { tid, tgid, .. } = *there;
        let mut record = [0u8; task::BYTES as usize];
        put(&mut record, task::STATE, &TRACED.to_ne_bytes());
        put(&mut record, task::TGID, &tgid.to_ne_bytes());
        put(&mut record, task::WHO, &tid.to_ne_bytes());
        if let Some(state) = there.off {
            put(&mut record, task::OFF_NS, &now_ns.to_ne_bytes());
            put(&mut record, task::OFF_KERNEL_STACK, &BEFORE.to_ne_bytes());
            put(&mut record, task::OFF_USER_STACK, &NO_STACK.to_ne_bytes());
            put(&mut record, task::OFF_STATE, &state.to_ne_bytes());
        }
        if let Some(call) = there.call {
            put(&mut record, task::CALL, &call.to_ne_bytes());
            put(&mut record, task::ENTER_NS, &now_ns.to_ne_bytes());
        }
        self.call(tid, tgid, &there.name)?;
        self.tasks.set(&tid.to_ne_bytes(), &record)
    }

    /// A thread that was added at `since_ns` had left by then what it was in. What programs have written is
    /// later.
    pub(super) fn left(&self, tid: u32, since_ns: u64) -> Result<(), Errno> {
        let Some(mut record) = self.tasks.get(&tid.to_ne_bytes())? else { return Ok(()) };
        let since = |record: &[u8], at: i16| wide(record, at as usize) == since_ns;
        if since(&record, task::ENTER_NS) {
            put(&mut record, task::ENTER_NS, &[0; 8]);
        }
        // Who was seen to be woken slept until then.
        if since(&record, task::OFF_NS) && wide(&record, task::WOKEN_NS as usize) == 0 {
            put(&mut record, task::OFF_NS, &[0; 8]);
        }
        self.tasks.set(&tid.to_ne_bytes(), &record)
    }

    /// A thread that was added had ended by then.
    pub(super) fn remove(&self, tid: u32) -> Result<(), Errno> {
        self.tasks.delete(&tid.to_ne_bytes())
    }

    /// Remembers a name under its number.
    fn call(&self, who: u32, tgid: u32, name: &str) -> Result<(), Errno> {
        let mut person = [0u8; PERSON_BYTES as usize];
        put(&mut person, 0, &tgid.to_ne_bytes());
        person[8..23].iter_mut().zip(name.bytes()).for_each(|(to, from)| *to = from);
        self.people.set(&who.to_ne_bytes(), &person)
    }

    /// Asks for the names of threads that live, which they may have changed since they were started. To
    /// be done while programs still tell who ends, and who begins another program. Where one cannot be had or
    /// kept, the thread has the name that it had.
    pub(super) fn call_anew(&self) {
        if !in_first_pid_namespace() {
            return;
        }
        let traced = |record: &[u8]| number(record, task::STATE as usize) == TRACED as u32;
        let who = |record: &[u8]| number(record, task::WHO as usize);
        let tasks = self.tasks.entries().unwrap_or_default();
        for (tid, record) in tasks.iter().filter(|(_, record)| traced(record)) {
            let name = text(&format!("/proc/{}/comm", number(tid, 0)));
            // It is of the thread and of the program that had it when it was asked for.
            let now = self.tasks.get(tid).ok().flatten().map(|record| who(&record));
            let person = self.person(who(record)).filter(|_| now == Some(who(record)));
            if let (Some(person), false) = (person, name.is_empty()) {
                let _ = self.call(who(record), person.tgid, name.trim_end());
            }
        }
    }

    /// Whether a thread is traced, or will be from its exec on.
    pub(super) fn follows(&self, tid: u32) -> bool {
        let task = self.tasks.get(&tid.to_ne_bytes()).ok().flatten();
        task.is_some_and(|task| number(&task, task::STATE as usize) != BYSTANDER as u32)
    }

    pub(super) fn person(&self, who: u32) -> Option<Person> {
        let person = self.people.get(&who.to_ne_bytes()).ok()??;
        let name = person[8..24].split(|byte| *byte == 0).next().unwrap_or_default();
        Some(Person { tgid: number(&person, 0), name: String::from_utf8_lossy(name).into_owned() })
    }

    /// When processes ended, those of which no thread is traced any more.
    pub(super) fn ended(&self) -> Result<HashMap<u32, u64>, Errno> {
        let ended = self.exits.entries()?;
        let mut ended: HashMap<u32, u64> =
            ended.iter().map(|(pid, at)| (number(pid, 0), wide(at, 0))).collect();
        for (_, record) in self.tasks.entries()? {
            ended.remove(&number(&record, task::TGID as usize));
        }
        Ok(ended)
    }

    /// What was lost so far.
    pub(super) fn lost(&self) -> Vec<(Lost, u64)> {
        let count = |lost: &Lost| {
            let count = self.lost.get(&(*lost as u32).to_ne_bytes()).ok().flatten();
            (*lost, count.map_or(0, |count| wide(&count, 0)))
        };
        Lost::ALL.iter().map(count).filter(|(_, count)| *count > 0).collect()
    }

    /// R7 = the record of the thread that runs, if it is traced; else goes to `none`.
    pub(super) fn running(&self, asm: &mut Asm, none: Label) {
        asm.call(Helper::PidTgid);
        asm.store(Size::B4, Reg::R10, KEY, Reg::R0);
        self.traced(asm, none);
    }

    /// R7 = the record of the thread whose number is in `tid`, if it is traced; else goes to `none`.
    pub(super) fn of(&self, asm: &mut Asm, tid: Reg, none: Label) {
        asm.store(Size::B4, Reg::R10, KEY, tid);
        self.traced(asm, none);
    }

    fn traced(&self, asm: &mut Asm, none: Label) {
        asm.lookup(&self.tasks, KEY, none);
        asm.mov(Reg::R7, Reg::R0);
        asm.load(Size::B4, Reg::R0, Reg::R7, task::STATE);
        asm.jump_if(Reg::R0, If::Different, TRACED, none);
    }

    /// Counts something that was lost. Changes [`SCRATCH`] and R0 to R5.
    pub(super) fn lose(&self, asm: &mut Asm, what: Lost) {
        let end = asm.label();
        asm.store(Size::B4, Reg::R10, SCRATCH, what as i32);
        asm.lookup(&self.lost, SCRATCH, end);
        asm.mov(Reg::R1, 1);
        asm.atomic_add(Reg::R0, 0, Reg::R1);
        asm.place(end);
    }

    /// R0 = the value of the key at `key`, made of zeroes where there is none yet; counts it as lost
    /// and goes to `full` where there is no room. `blank` is as much of the stack as a value has.
    pub(super) fn row(&self, asm: &mut Asm, map: &Map, key: i16, blank: (i16, i16), full: Label) {
        let (new, there, none) = (asm.label(), asm.label(), asm.label());
        asm.lookup(map, key, new);
        asm.jump(there);
        asm.place(new);
        asm.zero(blank.0, blank.1);
        asm.add_new(map, key, blank.0);
        asm.lookup(map, key, none);
        asm.jump(there);
        asm.place(none);
        self.lose(asm, Lost::Keys);
        asm.jump(full);
        asm.place(there);
    }

    /// R0 = the number of the stack here, or [`NO_STACK`]. `flags` as bpf_get_stackid takes them.
    pub(super) fn stack(&self, asm: &mut Asm, stacks: &Map, flags: i32) {
        let (none, unkept, taken) = (asm.label(), asm.label(), asm.label());
        asm.mov(Reg::R1, CONTEXT);
        asm.map(Reg::R2, stacks);
        asm.mov(Reg::R3, flags);
        asm.call(Helper::StackId);
        asm.jump_if(Reg::R0, If::SignedBelow, 0, unkept);
        asm.jump(taken);
        asm.place(unkept);
        // Another stack has its place. Any other refusal says that there is no such stack: threads of
        // the kernel have none of a user.
        asm.jump_if(Reg::R0, If::Different, -libc::EEXIST, none);
        self.lose(asm, Lost::Stacks);
        asm.place(none);
        asm.mov(Reg::R0, NO_STACK);
        asm.place(taken);
    }

    /// Puts the number under which the name of the thread that runs is kept at [`WHO`]. Changes [`KEY`].
    pub(super) fn who(&self, asm: &mut Asm) {
        let stranger = asm.label();
        asm.call(Helper::PidTgid);
        asm.store(Size::B4, Reg::R10, KEY, Reg::R0);
        asm.store(Size::B4, Reg::R10, WHO, Reg::R0);
        asm.lookup(&self.tasks, KEY, stranger);
        asm.load(Size::B4, Reg::R1, Reg::R0, task::WHO);
        asm.store(Size::B4, Reg::R10, WHO, Reg::R1);
        asm.place(stranger);
    }

    /// The same, and remembers its name, unless it is known.
    pub(super) fn introduce(&self, asm: &mut Asm) {
        let (new, known) = (asm.label(), asm.label());
        self.who(asm);
        asm.lookup(&self.people, WHO, new);
        asm.jump(known);
        asm.place(new);
        self.name_running(asm);
        asm.place(known);
    }

    /// Remembers the name of the thread that runs under the number at [`WHO`].
    fn name_running(&self, asm: &mut Asm) {
        asm.zero(PERSON, PERSON_BYTES);
        asm.call(Helper::PidTgid);
        asm.alu(Alu::ShiftRight, Reg::R0, 32);
        asm.store(Size::B4, Reg::R10, PERSON, Reg::R0);
        self.name(asm);
    }

    fn name(&self, asm: &mut Asm) {
        asm.address(Reg::R1, Reg::R10, (PERSON + 8).into());
        asm.mov(Reg::R2, 16);
        asm.call(Helper::Comm);
        asm.update(&self.people, WHO, PERSON);
    }

    /// There is no record any more under the number at [`KEY`].
    fn forget(&self, asm: &mut Asm) {
        asm.map(Reg::R1, &self.tasks);
        asm.address(Reg::R2, Reg::R10, KEY.into());
        asm.call(Helper::MapDelete);
    }

    /// Puts a new record under the number at [`KEY`]: `state`, `tgid` in registers, and what is at [`WHO`].
    pub(super) fn insert(&self, asm: &mut Asm, state: Reg, tgid: Reg) {
        let kept = asm.label();
        asm.zero(RECORD, task::BYTES);
        asm.store(Size::B4, Reg::R10, RECORD + task::STATE, state);
        asm.store(Size::B4, Reg::R10, RECORD + task::TGID, tgid);
        asm.load(Size::B4, Reg::R1, Reg::R10, WHO);
        asm.store(Size::B4, Reg::R10, RECORD + task::WHO, Reg::R1);
        asm.update(&self.tasks, KEY, RECORD);
        asm.jump_if(Reg::R0, If::Equal, 0, kept);
        self.lose(asm, Lost::Tasks);
        asm.place(kept);
    }
}

/// No stack could be taken, or was tried.
pub(super) const NO_STACK: i32 = -1;

/// The thread slept before anybody looked: its stack is the one that was asked for then.
pub(super) const BEFORE: i32 = -2;

/// The child of a traced thread is traced; that of an armed process will be when it execs.
fn on_new(hook: &Hook<'_>, tasks: &Tasks) -> Result<Asm, Unknown> {
    let mut asm = hook.begin();
    let (end, stranger, insert) = (asm.label(), asm.label(), asm.label());
    let (is_process, known) = (asm.label(), asm.label());
    let (child, tgid, state) = (Reg::R8, Reg::R9, Reg::R7);
    hook.value(&mut asm, child, &CHILD_TID)?;
    hook.value(&mut asm, tgid, &CLONE_FLAGS)?;
    asm.alu(Alu::And, tgid, libc::CLONE_THREAD);
    asm.jump_if(tgid, If::Equal, 0, is_process);
    asm.call(Helper::PidTgid);
    asm.alu(Alu::ShiftRight, Reg::R0, 32);
    asm.mov(tgid, Reg::R0);
    asm.jump(known);
    asm.place(is_process);
    asm.mov(tgid, child);
    asm.place(known);
    asm.call(Helper::PidTgid);
    asm.store(Size::B4, Reg::R10, KEY, Reg::R0);
    asm.lookup(&tasks.tasks, KEY, stranger);
    asm.load(Size::B4, state, Reg::R0, task::STATE);
    // The armed process may have been woken by what is traced.
    asm.jump_if(state, If::Equal, BYSTANDER, stranger);
    // It runs the program of its parent.
    asm.load(Size::B4, Reg::R1, Reg::R0, task::WHO);
    asm.alu(Alu::ShiftRight, Reg::R1, TID_BITS);
    asm.alu(Alu::ShiftLeft, Reg::R1, TID_BITS);
    asm.add(Reg::R1, child);
    asm.store(Size::B4, Reg::R10, WHO, Reg::R1);
    asm.jump(insert);

    asm.place(stranger);
    asm.store(Size::B4, Reg::R10, SCRATCH, 0);
    asm.lookup(&tasks.armed, SCRATCH, end);
    asm.load(Size::B4, state, Reg::R0, 0);
    asm.call(Helper::PidTgid);
    asm.alu(Alu::ShiftRight, Reg::R0, 32);
    asm.jump_if(Reg::R0, If::Different, state, end);
    // A thread of the armed process itself.
    asm.jump_if(tgid, If::Equal, state, end);
    asm.mov(state, PENDING);
    asm.store(Size::B4, Reg::R10, WHO, child);

    asm.place(insert);
    asm.store(Size::B4, Reg::R10, KEY, child);
    tasks.insert(&mut asm, state, tgid);
    asm.zero(PERSON, PERSON_BYTES);
    asm.store(Size::B4, Reg::R10, PERSON, tgid);
    tasks.name(&mut asm);
    asm.end(end);
    Ok(asm)
}

fn on_exec(hook: &Hook<'_>, tasks: &Tasks) -> Result<Asm, Unknown> {
    let mut asm = hook.begin();
    let (end, first, lost) = (asm.label(), asm.label(), asm.label());
    hook.value(&mut asm, Reg::R8, &CALLER_TID)?;
    asm.store(Size::B4, Reg::R10, KEY, Reg::R8);
    asm.lookup(&tasks.tasks, KEY, end);
    asm.mov(Reg::R7, Reg::R0);
    asm.call(Helper::PidTgid);
    asm.store(Size::B4, Reg::R10, WHO, Reg::R0);
    asm.load(Size::B4, Reg::R9, Reg::R10, WHO);
    asm.load(Size::B4, Reg::R8, Reg::R10, KEY);
    asm.jump_if(Reg::R8, If::Equal, Reg::R9, first);
    // The others have ended, and whoever called has the number of the first.
    asm.map(Reg::R1, &tasks.tasks);
    asm.address(Reg::R2, Reg::R10, WHO.into());
    asm.mov(Reg::R3, Reg::R7);
    asm.mov(Reg::R4, 0);
    asm.call(Helper::MapUpdate);
    tasks.forget(&mut asm);
    asm.lookup(&tasks.tasks, WHO, lost);
    asm.mov(Reg::R7, Reg::R0);
    asm.place(first);
    asm.load(Size::B4, Reg::R0, Reg::R7, task::STATE);
    asm.jump_if(Reg::R0, If::Above, TRACED, end);
    asm.store(Size::B4, Reg::R7, task::STATE, TRACED);
    asm.load(Size::B4, Reg::R1, Reg::R7, task::WHO);
    asm.alu(Alu::ShiftRight, Reg::R1, TID_BITS);
    asm.add(Reg::R1, 1);
    asm.alu(Alu::ShiftLeft, Reg::R1, TID_BITS);
    asm.add(Reg::R1, Reg::R9);
    asm.store(Size::B4, Reg::R7, task::WHO, Reg::R1);
    asm.store(Size::B4, Reg::R10, WHO, Reg::R1);
    asm.call(Helper::PidTgid);
    asm.alu(Alu::ShiftRight, Reg::R0, 32);
    asm.store(Size::B4, Reg::R7, task::TGID, Reg::R0);
    tasks.name_running(&mut asm);
    asm.jump(end);
    asm.place(lost);
    tasks.lose(&mut asm, Lost::Tasks);
    asm.end(end);
    Ok(asm)
}

fn on_exit(hook: &Hook<'_>, tasks: &Tasks) -> Result<Asm, Unknown> {
    let mut asm = hook.begin();
    let end = asm.label();
    asm.call(Helper::PidTgid);
    asm.store(Size::B4, Reg::R10, KEY, Reg::R0);
    asm.lookup(&tasks.tasks, KEY, end);
    asm.load(Size::B4, Reg::R1, Reg::R0, task::WHO);
    asm.store(Size::B4, Reg::R10, WHO, Reg::R1);
    tasks.name_running(&mut asm);
    asm.call(Helper::PidTgid);
    asm.alu(Alu::ShiftRight, Reg::R0, 32);
    asm.store(Size::B4, Reg::R10, WHO, Reg::R0);
    asm.call(Helper::Now);
    asm.store(Size::B8, Reg::R10, PERSON, Reg::R0);
    asm.update(&tasks.exits, WHO, PERSON);
    tasks.forget(&mut asm);
    asm.end(end);
    Ok(asm)
}

/// The number of a thread out of that under which its name is kept.
pub(super) fn tid(who: u32) -> u32 {
    who & ((1 << TID_BITS) - 1)
}

/// How many programs it and those that it came from had begun.
pub(super) fn programs(who: u32) -> u32 {
    who >> TID_BITS
}

/// This process's number as programs see it, which is not the one here inside a PID namespace. Asked
/// by a program that is run once.
fn own_number() -> Result<u32, Errno> {
    let mut asm = Asm::new();
    asm.call(Helper::PidTgid);
    asm.alu(Alu::ShiftRight, Reg::R0, 32);
    asm.exit();
    let asked = Program::load(ProgramKind::RawTracepoint, "bp_who", &asm.finish())
        .map_err(|error| error.errno)
        .and_then(|program| program.run_here());
    match asked {
        Ok(number) => Ok(number),
        // Before Linux 5.10 such programs were not run on demand.
        Err(_) if in_first_pid_namespace() => Ok(std::process::id()),
        Err(errno) => Err(errno),
    }
}

/// Whether the numbers of processes here are those that the kernel itself uses.
pub(super) fn in_first_pid_namespace() -> bool {
    /// PROC_PID_INIT_INO of linux/proc_ns.h.
    const FIRST: &str = "pid:[4026531836]";
    std::fs::read_link("/proc/self/ns/pid").is_ok_and(|name| name.as_os_str() == FIRST)
}

pub(super) fn put(record: &mut [u8], at: i16, bytes: &[u8]) {
    record[at as usize..at as usize + bytes.len()].copy_from_slice(bytes);
}

/// A number of 4 bytes in what a map holds.
pub(super) fn number(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

/// A number of 8 bytes in what a map holds.
pub(super) fn wide(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}
