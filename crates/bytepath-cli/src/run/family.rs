//! The processes of a run and the pipes between them, as seen from outside: no process and no copy
//! is put between them, and no descriptor of theirs is kept.

mod doing;
mod joining;
mod placed;
mod through;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use bytepath::machine::CpuList;
use rustix::process::{Pid, getpid};

use super::below::Below;
use super::process::{self, Id, Moved, OpenPipe, Reading};
use super::sizes::PipeSize;

pub(super) use doing::Doing;
use joining::Had;
use placed::runs_on;
pub(super) use through::Through;
use through::{START_BYTES, START_MOVES_BYTES};

/// Of more processes than this, the first are looked at.
const LOOKED_AT_MAX: usize = 256;
/// Of more members than this, those that are gone and did the least are forgotten: a loop may run thousands.
const KEPT_MAX: usize = 512;
/// But for those of the beginning.
pub(super) const FIRST_KEPT: usize = 64;

/// A process that takes part.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) pid: Pid,
    /// Its words; its name, where they are not told.
    pub(super) words: String,
    /// Whether they name a file that is worth counting.
    names_file: bool,
    pub(super) now: Reading,
    before: Reading,
    pub(super) pipes: Vec<OpenPipe>,
    /// Whether it was seen with a file, device or socket open that it can write to, but for messages.
    writes_file: bool,
    has_children: bool,
    program: Option<(u64, u64)>,
    /// The CPU that we put it on, or the one who started it.
    placed: Option<usize>,
    /// Whether it was put elsewhere since, by itself or by others: there it stays.
    elsewhere: bool,
    /// Whether it was made patient, by us or the one who started it.
    patient: bool,
    /// Whether it is still there.
    pub(super) alive: bool,
    /// Whether it was among those that the last look looked at.
    looked_at: bool,
    /// Whether it was looked at after its end, so that its counts are whole.
    pub(super) seen_ended: bool,
    pub(super) doing: Doing,
    /// As what it slept, as last seen.
    slept: Option<Doing>,
    /// For how long it did each.
    pub(super) times: BTreeMap<Doing, Duration>,
    pub(super) looks: u32,
    /// Whether it has not run since the look before.
    rested: bool,
    /// The place in the kernel where it sleeps, where that is told.
    sleeps_in: Option<String>,
    seen: Instant,
    /// For how long it was stopped.
    pub(super) stopped: Duration,
}

/// A pipe between two of them.
#[derive(Debug, Clone)]
pub(super) struct Joint {
    pub(super) writer: Id,
    pub(super) reader: Id,
    /// How much it can hold, as last seen.
    pub(super) holds_bytes: usize,
    pub(super) fill_bytes: u64,
    /// Who has either end.
    had: [Had; 2],
    /// The most that was seen in it.
    most_bytes: u64,
    /// What each wrote who had the end for it, and what each read, to whatever file and as last seen; not of
    /// shells, which have the ends of all that they start.
    moved: [BTreeMap<Id, u64>; 2],
    /// Why it could not be made larger.
    pub(super) refused: Option<String>,
    pub(super) looks: u32,
    /// For how long it was looked at, and was full, and empty.
    pub(super) seen: Duration,
    pub(super) full: Duration,
    pub(super) empty: Duration,
}

/// All of them.
#[derive(Debug)]
pub(super) struct Family {
    pub(super) members: Vec<Member>,
    pub(super) joints: BTreeMap<u64, Joint>,
    /// How many members were forgotten.
    pub(super) forgotten: usize,
    /// The seconds of CPU that those used.
    pub(super) forgotten_s: f64,
    below: Below,
    size: PipeSize,
    pub(super) allowed: CpuList,
    /// Whether what is started is patient.
    pub(super) patient: bool,
    /// The program of the shell, whose processes are not told where to run.
    shell: Option<(u64, u64)>,
    /// Our own program, which is also that of our movers.
    own: Option<(u64, u64)>,
    looked: Instant,
    /// For how long all of them were stopped.
    pub(super) stopped: Duration,
    pub(super) window: Duration,
    /// Whether nobody has run, come or gone since the look before.
    pub(super) rested: bool,
}

impl Family {
    pub(super) fn new(
        below: Below,
        size: PipeSize,
        allowed: CpuList,
        shell: Option<(u64, u64)>,
    ) -> Family {
        let (members, joints) = (Vec::new(), BTreeMap::new());
        Family {
            below,
            members,
            joints,
            forgotten: 0,
            forgotten_s: 0.0,
            size,
            allowed,
            patient: false,
            shell,
            own: process::program(getpid()),
            looked: Instant::now(),
            stopped: Duration::ZERO,
            window: Duration::ZERO,
            rested: false,
        }
    }

    /// Looks at everybody, and makes pipes that are new as large as they are to be.
    pub(super) fn look(&mut self) {
        let now = Instant::now();
        self.window = now - std::mem::replace(&mut self.looked, now);
        let mut found = Vec::new();
        self.below.each(LOOKED_AT_MAX, |pid, has_children| found.push((pid, has_children)));
        self.rested = true;
        self.part_with_others(&found);
        for (pid, has_children) in found {
            self.look_at(pid, has_children);
        }
        self.rested &= self.members.iter().all(|member| !member.alive || member.rested);
        self.forget_the_least();
        self.join();
        let pipe_bytes = self.pipe_bytes();
        for (number, joint) in &mut self.joints {
            joint.look(*number, &self.members, &self.size, pipe_bytes, self.window);
        }
        for member in self.members.iter_mut().filter(|it| it.alive && it.looked_at) {
            let now = member.done_now(&self.joints);
            let before = std::mem::replace(&mut member.doing, now);
            if member.now.is_stopped() {
                member.stopped += self.window;
            } else {
                member.spent(self.window, before);
                member.looks += 1;
            }
        }
        let lives = |member: &&Member| member.alive && !member.now.has_ended();
        let mut living = self.members.iter().filter(lives).peekable();
        if living.peek().is_some() && living.all(|member| member.now.is_stopped()) {
            self.stopped += self.window;
        }
    }

    /// Those that were not found are gone, unless they may come behind those that are looked at.
    fn part_with_others(&mut self, found: &[(Pid, bool)]) {
        let is_cut = found.len() >= LOOKED_AT_MAX;
        for member in self.members.iter_mut().filter(|member| member.alive) {
            member.looked_at = found.iter().any(|(pid, _)| *pid == member.pid);
            member.alive = member.looked_at || (is_cut && member.is_there());
            if !member.alive {
                self.rested = false;
                member.let_go(&self.allowed);
            }
        }
    }

    /// All were stopped for so long, as we were, since the last look.
    pub(super) fn stood_still(&mut self, time: Duration) {
        self.looked += time;
        self.stopped += time;
        let living = self.members.iter_mut().filter(|member| member.alive);
        living.for_each(|member| member.stopped += time);
    }

    /// What pipes that are new are to have, beside the others that are there.
    fn pipe_bytes(&self) -> usize {
        let has_reader = |joint: &&Joint| self.member(joint.reader).is_some_and(|end| end.alive);
        let (new, known): (Vec<&Joint>, Vec<&Joint>) =
            self.joints.values().filter(has_reader).partition(|joint| joint.looks == 0);
        self.size.each_of(new.len(), known.iter().map(|joint| joint.holds_bytes).sum())
    }

    fn look_at(&mut self, pid: Pid, has_children: bool) {
        let Some(reading) = Reading::of(pid) else { return };
        let id = Id::new(pid, reading.began);
        let member = match self.members.iter_mut().find(|member| member.id() == id) {
            Some(member) => member,
            None => {
                // Another had its number before.
                let before = self.members.iter_mut().filter(|member| member.pid == pid);
                before.for_each(|member| member.alive = false);
                self.added(pid, &reading)
            }
        };
        (member.alive, member.looked_at) = (true, true);
        member.take(reading, has_children);
    }

    /// So that hours of a loop cost no more at each look than its first minute.
    fn forget_the_least(&mut self) {
        if self.members.len() <= KEPT_MAX {
            return;
        }
        let gone = self.members.iter().skip(FIRST_KEPT).filter(|member| !member.alive);
        let mut used: Vec<u64> = gone.map(|member| member.now.run_ns).collect();
        used.sort_unstable();
        let Some(least) = used.get(used.len() / 2).copied() else { return };
        let (mut place, before) = (0, self.members.len());
        let forgotten_s = &mut self.forgotten_s;
        self.members.retain(|member| {
            place += 1;
            let kept = place <= FIRST_KEPT || member.alive || member.now.run_ns > least;
            *forgotten_s += if kept { 0.0 } else { member.now.used_s() };
            kept
        });
        self.forgotten += before - self.members.len();
        let members = &self.members;
        let is_known = |id| members.iter().any(|member| member.id() == id);
        self.joints.retain(|_, joint| is_known(joint.writer) && is_known(joint.reader));
    }

    fn added(&mut self, pid: Pid, reading: &Reading) -> &mut Member {
        let parent = reading.parent.and_then(|parent| self.latest(parent));
        let placed = parent.and_then(|parent| parent.placed);
        // It may have been started just before its parent was put there.
        let placed = placed.filter(|cpu| runs_on(pid, &[*cpu].into()));
        self.members.push(Member {
            placed,
            patient: self.patient,
            ..Member::new(pid, reading.clone())
        });
        self.members.last_mut().expect("it was just put there")
    }

    /// Learns what a child was in the end, and waits for it.
    pub(super) fn bury<T>(&mut self, pid: Pid, wait: impl FnOnce() -> T) -> T {
        let id = self.ended(pid);
        let (waited, moved) = process::moved_by_ended(wait);
        if let Some((id, moved)) = id.zip(moved) {
            self.moved(id, moved);
        }
        waited
    }

    /// It has not been waited for yet.
    fn ended(&mut self, pid: Pid) -> Option<Id> {
        let reading = Reading::of(pid)?;
        let id = Id::new(pid, reading.began);
        let known = self.members.iter_mut().find(|member| member.id() == id);
        let member = match known {
            Some(member) => member,
            None => self.added(pid, &reading),
        };
        member.seen_ended = reading.moved.is_some();
        let moved = reading.moved.or(member.now.moved);
        member.now = Reading { moved, ..reading };
        member.alive = false;
        Some(id)
    }

    /// What a child had moved in the end, where the kernel has not shown it before.
    fn moved(&mut self, id: Id, moved: Moved) {
        let known = self.members.iter_mut().find(|member| member.id() == id);
        if let Some(member) = known.filter(|member| !member.seen_ended) {
            member.now.moved = Some(moved);
            member.seen_ended = true;
        }
    }

    fn is_shell(&self, member: &Member) -> bool {
        let runs_it = self.shell.is_some() && member.program == self.shell;
        runs_it || member.now.name.ends_with("sh")
    }

    pub(super) fn member(&self, id: Id) -> Option<&Member> {
        self.members.iter().rev().find(|member| member.id() == id)
    }

    /// The last that had this number.
    pub(super) fn latest(&self, pid: Pid) -> Option<&Member> {
        self.members.iter().rev().find(|member| member.pid == pid)
    }

    /// Whom we have started ourselves by this number, before others could have it; nobody among the members if
    /// that was never seen.
    pub(super) fn started(&self, pid: Pid) -> Id {
        let first = self.members.iter().find(|member| member.pid == pid);
        first.map_or(Id::new(pid, 0), Member::id)
    }

    /// Whose child it is, or was in the end.
    pub(super) fn parent(&self, child: &Member) -> Option<&Member> {
        let parent = child.now.parent?;
        let is_it = |it: &&Member| it.pid == parent && it.now.began <= child.now.began;
        self.members.iter().rev().find(is_it)
    }
}

impl Member {
    pub(super) fn new(pid: Pid, reading: Reading) -> Member {
        let (pipes, writes_file) = process::open(pid);
        Member {
            pid,
            words: process::words(pid).unwrap_or_else(|| reading.name.clone()),
            names_file: process::names_files(pid, 1, START_BYTES),
            before: reading.clone(),
            now: reading,
            pipes,
            writes_file,
            has_children: false,
            program: process::program(pid),
            placed: None,
            elsewhere: false,
            patient: false,
            alive: true,
            looked_at: true,
            seen_ended: false,
            doing: Doing::default(),
            slept: None,
            times: BTreeMap::new(),
            looks: 0,
            rested: false,
            sleeps_in: None,
            seen: Instant::now(),
            stopped: Duration::ZERO,
        }
    }

    pub(super) fn id(&self) -> Id {
        Id::new(self.pid, self.now.began)
    }

    /// Whether it is there now, be it as one that has ended.
    pub(super) fn is_there(&self) -> bool {
        Id::of(self.pid) == Some(self.id())
    }

    fn take(&mut self, reading: Reading, has_children: bool) {
        if reading.has_ended() {
            self.rested = self.now.has_ended();
            self.seen_ended = reading.moved.is_some();
            let moved = reading.moved.or(self.now.moved);
            self.before = std::mem::replace(&mut self.now, Reading { moved, ..reading });
            return;
        }
        if reading.name != self.now.name || reading.stack != self.now.stack {
            self.words = process::words(self.pid).unwrap_or_else(|| reading.name.clone());
            self.names_file = process::names_files(self.pid, 1, START_BYTES);
        }
        self.rested = self.looks > 0 && reading.has_rested_since(&self.now);
        self.before = std::mem::replace(&mut self.now, reading);
        self.has_children = has_children;
        if !self.rested {
            let (pipes, writes_file) = process::open(self.pid);
            self.pipes = pipes;
            self.writes_file |= writes_file;
            self.program = process::program(self.pid);
            self.sleeps_in = process::sleeps_in(self.pid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_that_are_gone_those_that_did_the_least_are_forgotten() {
        let mut family =
            Family::new(Below::default(), PipeSize::new(None), CpuList::default(), None);
        let reading = Reading::of(getpid()).expect("ours");
        let pid =
            |number: usize| Pid::from_raw(i32::try_from(number).expect("small")).expect("one");
        for number in 1..=KEPT_MAX + 1 {
            let its = Reading { run_ns: number as u64, ..reading.clone() };
            let alive = number.is_multiple_of(100);
            family.members.push(Member { alive, ..Member::new(pid(number), its) });
            let id = Id::new(pid(number), reading.began);
            family.joints.insert(number as u64, Joint::new(id, id));
        }
        family.forget_the_least();
        let kept = FIRST_KEPT + (KEPT_MAX + 1 - FIRST_KEPT) / 2;
        assert!(family.members.len().abs_diff(kept) < 10, "{}", family.members.len());
        assert_eq!(family.forgotten, KEPT_MAX + 1 - family.members.len());
        assert_eq!(family.joints.len(), family.members.len());
        for number in [1, FIRST_KEPT, 100, 200, KEPT_MAX + 1] {
            assert!(family.latest(pid(number)).is_some(), "{number} is kept");
        }
        assert!(family.latest(pid(FIRST_KEPT + 1)).is_none());
    }

    #[test]
    fn who_comes_behind_those_that_are_looked_at_is_not_gone_and_is_counted_once() {
        let mut family =
            Family::new(Below::default(), PipeSize::new(None), CpuList::default(), None);
        let gone = Pid::from_raw(i32::MAX).expect("none has it");
        for pid in [getpid(), gone] {
            family.members.push(Member::new(pid, Reading::of(getpid()).expect("ours")));
        }
        let is_there = |family: &Family, pid| family.latest(pid).expect("it is kept").alive;
        let others = vec![(Pid::INIT, false); LOOKED_AT_MAX];
        family.part_with_others(&others);
        assert_eq!([getpid(), gone].map(|pid| is_there(&family, pid)), [true, false]);
        assert!(!family.latest(getpid()).expect("it is kept").looked_at);
        // Of few all are found; it may be among them again.
        family.part_with_others(&others[1..]);
        assert!(!is_there(&family, getpid()));
        family.look_at(getpid(), false);
        assert!(is_there(&family, getpid()));
        assert_eq!(family.members.len(), 2);
        // Its number may have been another's.
        family.members[0].now.began -= 1;
        family.look_at(getpid(), false);
        let alive = family.members.iter().map(|member| member.alive);
        assert_eq!(alive.collect::<Vec<_>>(), [false, false, true]);
    }

    #[test]
    fn what_one_was_in_the_end_is_not_told_of_another_that_had_its_number() {
        let mut family =
            Family::new(Below::default(), PipeSize::new(None), CpuList::default(), None);
        let now = Reading::of(getpid()).expect("ours");
        let moved = Some(Moved { read_bytes: 7, written_bytes: 8 });
        let before = Reading { began: now.began - 1, run_ns: 0, moved, ..now };
        let before = Member { alive: false, seen_ended: true, ..Member::new(getpid(), before) };
        let id = before.id();
        family.members.push(before);
        family.bury(getpid(), || ());
        let counts = family.members.iter().map(|member| (member.id() == id, member.now.run_ns > 0));
        assert_eq!(counts.collect::<Vec<_>>(), [(true, false), (false, true)]);
        assert_eq!(family.member(id).and_then(|member| member.now.moved), moved);
    }

    #[test]
    fn who_does_not_run_rests_and_what_it_does_later_is_seen() {
        use std::io::{Read, Write};
        use std::process::{Command, Stdio};
        let below = Below::noted().expect("/proc tells");
        let mut command = Command::new("bash");
        command.args(["-c", "echo; read line; exec 8<&0; echo; read line"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("bash");
        let pid = Pid::from_child(&child);
        let mut told = [0];
        let mut its_output = child.stdout.take().expect("it is piped");
        let mut says = || its_output.read_exact(&mut told).expect("it says when it waits");
        says();
        let mut family = Family::new(below, PipeSize::new(None), CpuList::default(), None);
        let deadline = Instant::now() + Duration::from_secs(20);
        // Other tests have children too.
        let rests = |family: &mut Family| {
            family.look();
            family.latest(pid).expect("it was seen").rested
        };
        let wait = |family: &mut Family| {
            while !rests(family) {
                assert!(Instant::now() < deadline, "it waits for a line");
                std::thread::sleep(Duration::from_millis(5));
            }
            family.latest(pid).expect("it was seen").pipes.iter().map(|pipe| pipe.fd).collect()
        };
        let before: Vec<u32> = wait(&mut family);
        child.stdin.as_mut().expect("it is piped").write_all(b"on\n").expect("it reads");
        says();
        assert!(!rests(&mut family), "it has run");
        let after = wait(&mut family);
        child.kill().expect("it lives");
        child.wait().expect("it is ours");
        assert!(!before.contains(&8) && after.contains(&8), "{before:?} {after:?}");
    }

    #[test]
    fn words_are_those_of_the_latest_exec_also_where_the_name_stays() {
        use std::io::{Read, Write};
        use std::process::{Command, Stdio};
        let below = Below::noted().expect("/proc tells");
        let mut command = Command::new("sh");
        command.args(["-c", "echo; read line; exec sh -c 'echo; read another; :'"]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh");
        let pid = Pid::from_child(&child);
        let mut family = Family::new(below, PipeSize::new(None), CpuList::default(), None);
        let mut its_output = child.stdout.take().expect("it is piped");
        let mut words = || {
            its_output.read_exact(&mut [0]).expect("it says when it waits");
            family.look();
            family.latest(pid).expect("it was seen").words.clone()
        };
        let before = words();
        child.stdin.as_mut().expect("it is piped").write_all(b"on\n").expect("it reads");
        let after = words();
        child.kill().expect("it lives");
        child.wait().expect("it is ours");
        assert!(before.contains("exec sh"), "{before}");
        assert_eq!(after, "sh -c echo; read another; :");
    }
}
