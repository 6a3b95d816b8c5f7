//! The processes of a run and the pipes between them, as seen from outside: no process and no copy
//! is put between them, and no descriptor of theirs is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use bytepath::machine::CpuList;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, ioctl_fionread};
use rustix::pipe::fcntl_getpipe_size;
use rustix::process::{Pid, getpid};
use rustix::thread::{CpuSet, sched_setaffinity};

use super::below::Below;
use super::placing::{May, Places, Seen};
use super::process::{self, Moved, OpenPipe, Reading};
use super::sizes::PipeSize;
use crate::sys::spawn;

/// Of more processes than this, the first are looked at.
const LOOKED_AT_MAX: usize = 256;
/// Of more members than this, those that are gone and did the least are forgotten: a loop may run thousands.
const KEPT_MAX: usize = 512;
/// But for those of the beginning.
pub(super) const FIRST_KEPT: usize = 64;
/// Of more that have an end of one pipe, the first are counted.
const ENDS_KEPT_MAX: usize = 64;
/// A program has counted its CPUs and begun its work once it moved this, or worked this long.
const BEGUN_BYTES: u64 = 256 << 10;
const BEGUN_NS: u64 = 20_000_000;
/// Or sleeps after this time.
const BEGUN_AFTER: Duration = Duration::from_millis(50);

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
    /// Whether it was seen with a file open that it can write to, but for messages.
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

/// What a process does at a moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Doing {
    Runs,
    WaitsForCpu,
    WaitsForInput,
    WaitsForOutput,
    WaitsForDisk,
    #[default]
    Other,
}

impl Doing {
    /// Whether it runs, or would.
    fn is_awake(self) -> bool {
        matches!(self, Doing::Runs | Doing::WaitsForCpu)
    }

    pub(super) fn said(self) -> &'static str {
        match self {
            Doing::Runs => "runs",
            Doing::WaitsForCpu => "waits for CPU",
            Doing::WaitsForInput => "waits for input",
            Doing::WaitsForOutput => "waits for output",
            Doing::WaitsForDisk => "waits for disk",
            Doing::Other => "waits",
        }
    }
}

/// Who has an end of a pipe.
#[derive(Debug, Clone, Default)]
struct Had {
    /// For how long each had it, by its number.
    times: BTreeMap<i32, Duration>,
    /// Whether others that had it have ended.
    outlived_others: bool,
}

/// A pipe between two of them.
#[derive(Debug, Clone)]
pub(super) struct Joint {
    pub(super) writer: Pid,
    pub(super) reader: Pid,
    /// How much it can hold, as last seen.
    pub(super) holds_bytes: usize,
    pub(super) fill_bytes: u64,
    /// Who has either end.
    had: [Had; 2],
    /// The most that was seen in it.
    most_bytes: u64,
    /// What each wrote who had the end for it, and what each read, to whatever file, by their numbers and as last
    /// seen; not of shells, which have the ends of all that they start.
    moved: [BTreeMap<i32, u64>; 2],
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
        for member in self.members.iter_mut().filter(|member| member.alive) {
            member.alive = found.iter().any(|(pid, _)| *pid == member.pid);
            if !member.alive {
                self.rested = false;
                member.let_go(&self.allowed);
            }
        }
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
        for member in self.members.iter_mut().filter(|member| member.alive) {
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
        let living = self.members.iter_mut().find(|member| member.pid == pid && member.alive);
        let member = match living {
            Some(member) => member,
            None => self.added(pid, &reading),
        };
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
        let is_known = |pid| members.iter().any(|member| member.pid == pid);
        self.joints.retain(|_, joint| is_known(joint.writer) && is_known(joint.reader));
    }

    fn added(&mut self, pid: Pid, reading: &Reading) -> &mut Member {
        let parent = reading.parent.and_then(|parent| self.member(parent));
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
        self.ended(pid);
        let (waited, moved) = process::moved_by_ended(wait);
        if let Some(moved) = moved {
            self.moved(pid, moved);
        }
        waited
    }

    /// It has not been waited for yet.
    fn ended(&mut self, pid: Pid) {
        let Some(reading) = Reading::of(pid) else { return };
        let known = self.members.iter_mut().rev().find(|member| member.pid == pid);
        let member = match known {
            Some(member) => member,
            None => self.added(pid, &reading),
        };
        member.seen_ended = reading.moved.is_some();
        let moved = reading.moved.or(member.now.moved);
        member.now = Reading { moved, ..reading };
        member.alive = false;
    }

    /// What a child had moved in the end, where the kernel has not shown it before.
    fn moved(&mut self, pid: Pid, moved: Moved) {
        let known = self.members.iter_mut().rev().find(|member| member.pid == pid);
        if let Some(member) = known.filter(|member| !member.seen_ended) {
            member.now.moved = Some(moved);
            member.seen_ended = true;
        }
    }

    /// Which pipe joins whom. A shell has the ends of its stages' pipes until it has started them,
    /// and a process may hand its end on: so both are looked for again, among those who have it now.
    fn join(&mut self) {
        let mut ends: BTreeMap<u64, [Vec<&Member>; 2]> = BTreeMap::new();
        let mut moved = Vec::new();
        for member in self.members.iter().filter(|member| member.alive) {
            let works = !member.has_children && !self.is_shell(member);
            for pipe in &member.pipes {
                let end = usize::from(pipe.is_read);
                ends.entry(pipe.number).or_default()[end].push(member);
                moved.extend(
                    member
                        .now
                        .moved
                        .filter(|_| works)
                        .map(|bytes| (pipe.number, end, member.pid, bytes.of_end(end))),
                );
            }
        }
        for (number, ends) in ends {
            let known = self.joints.get(&number);
            let had = [0, 1].map(|end| self.had(&ends[end], known.map(|joint| &joint.had[end])));
            let worker = |end: usize| worker(&ends[end], &had[end]);
            let (Some(writer), Some(reader)) = (worker(0), worker(1)) else { continue };
            if writer != reader {
                let joint = self.joints.entry(number).or_insert(Joint::new(writer, reader));
                (joint.writer, joint.reader, joint.had) = (writer, reader, had);
            }
        }
        for (number, end, pid, bytes) in moved {
            let Some(joint) = self.joints.get_mut(&number) else { continue };
            let (ends, pid) = (&mut joint.moved[end], pid.as_raw_nonzero().get());
            if ends.len() < ENDS_KEPT_MAX || ends.contains_key(&pid) {
                ends.insert(pid, bytes);
            }
        }
    }

    fn had(&self, holders: &[&Member], before: Option<&Had>) -> Had {
        let number = |pid: Pid| pid.as_raw_nonzero().get();
        let has_ended =
            |pid| !self.members.iter().any(|member| member.alive && number(member.pid) == pid);
        let before_of = |pid| before?.times.get(&pid).copied();
        let pids = holders.iter().map(|holder| number(holder.pid));
        Had {
            times: pids
                .map(|pid| (pid, before_of(pid).unwrap_or_default() + self.window))
                .collect(),
            outlived_others: before.is_some_and(|before| {
                before.outlived_others || before.times.keys().any(|pid| has_ended(*pid))
            }),
        }
    }

    /// The members as the one who places them wants to know them.
    pub(super) fn seen(&self) -> Vec<Seen> {
        let takes_part = |member: &&Member| {
            let joined = |joint: &Joint| joint.writer == member.pid || joint.reader == member.pid;
            member.alive && self.joints.values().any(joined)
        };
        let mut seen: Vec<_> =
            self.members.iter().filter(takes_part).map(|member| self.seen_of(member)).collect();
        let depths = self.depths();
        seen.sort_by_key(|seen| depths.get(&seen.pid));
        seen
    }

    /// How many pipes lead to each, of those to which any does; a ring of pipes ends the count.
    fn depths(&self) -> BTreeMap<i32, usize> {
        let mut writers = BTreeMap::new();
        for joint in self.joints.values() {
            let [reader, writer] =
                [joint.reader, joint.writer].map(|pid| pid.as_raw_nonzero().get());
            writers.entry(reader).or_insert(writer);
        }
        let mut depths = BTreeMap::new();
        for reader in writers.keys() {
            // Back to one whose depth is known, or the first, and then forth again.
            let (mut way, mut at) = (Vec::new(), *reader);
            while let Some(writer) = writers.get(&at)
                && !depths.contains_key(&at)
                && way.len() < writers.len()
            {
                way.push(at);
                at = *writer;
            }
            let known = depths.get(&at).copied().unwrap_or(0);
            depths.extend(way.into_iter().rev().zip(known + 1..));
        }
        depths
    }

    fn seen_of(&self, member: &Member) -> Seen {
        let window = self.window.as_secs_f64().max(1e-6);
        let share = |of: fn(&Reading) -> u64| {
            of(&member.now).saturating_sub(of(&member.before)) as f64 / 1e9 / window
        };
        let moved = |reading: &Reading| reading.moved.map_or(0, Moved::sum);
        Seen {
            pid: member.pid.as_raw_nonzero().get(),
            demand: share(|reading| reading.run_ns),
            waited: share(|reading| reading.wait_ns),
            bytes: moved(&member.now).saturating_sub(moved(&member.before)),
            cpu: member.now.cpu,
            may: self.may(member),
        }
    }

    fn may(&self, member: &Member) -> May {
        let reading = &member.now;
        let waits = reading.state == 'S' && member.seen.elapsed() >= BEGUN_AFTER;
        let begun = waits
            || reading.moved.is_some_and(|moved| moved.sum() >= BEGUN_BYTES)
            || reading.run_ns >= BEGUN_NS;
        let is_shell = member.program == self.shell;
        if reading.threads > 1
            || member.elsewhere
            || (member.has_children && begun)
            || member.chose_itself(&self.allowed)
        {
            return May::Never;
        }
        if is_shell || !begun { May::NotYet } else { May::Move }
    }

    /// Puts everybody where they are to be.
    ///
    /// # Errors
    /// The kernel's word where it does not let us.
    pub(super) fn place(&mut self, places: &Places) -> Result<(), Errno> {
        let living = self.members.iter_mut().filter(|member| member.alive);
        let placed = living.map(|member| {
            let wanted = places.get(&member.pid.as_raw_nonzero().get()).copied();
            member.place(wanted, &self.allowed)
        });
        placed.fold(Ok(()), Result::and)
    }

    /// Those that go on when nobody looks at them any more run where and when the kernel has them run.
    pub(super) fn let_go(&mut self) {
        self.members.iter_mut().for_each(|member| member.let_go(&self.allowed));
    }

    /// What went through a pipe since it was there.
    pub(super) fn through(&self, joint: &Joint) -> Through {
        if joint.others() != [0; 2] {
            return self.by_several(joint);
        }
        let own = |pid| self.member(pid).filter(|member| !self.counts_others(member));
        let through = self.told(own(joint.writer), own(joint.reader), joint.most_bytes);
        let through = match through {
            Through::Agreed(_) => through,
            _ => self.past_a_splicer(joint, own).map_or(through, Through::About),
        };
        // What ended unseen was looked at before that, and so was the pipe.
        let is_alive = |pid| self.member(pid).is_some_and(|member| member.alive);
        match self.is_at_least(joint) && !is_alive(joint.writer) {
            true => through,
            false => through.unless_less_than(joint.most_bytes),
        }
    }

    /// What went through a pipe whose end several had, one after the other or at once. What they wrote and read
    /// may be of files of their own: so it is what one reader tells that was seen to its end, or at least what
    /// those tell that read nothing else.
    fn by_several(&self, joint: &Joint) -> Through {
        let read = |member: &Member| member.now.moved.map_or(0, |moved| moved.read_bytes);
        let readers = joint.moved[1].keys().filter_map(|pid| self.member(Pid::from_raw(*pid)?));
        // Who has waited counts what others read, also as the last program that a shell becomes.
        let readers = readers.filter(|it| !it.now.has_waited && read(it) > START_BYTES);
        let is_whole = |it: &&Member| it.seen_ended && !it.names_file;
        if joint.others()[1] == 0
            && let Some(bytes) = readers.clone().find(is_whole).map(read)
            && bytes >= joint.most_bytes
        {
            return Through::About(bytes);
        }
        let alone = readers.filter(|it| it.reads_input_alone() && it.reads_one_pipe());
        match alone.map(read).map(without_start).sum() {
            0 => Through::Unknown,
            bytes => Through::AtLeast(bytes),
        }
    }

    /// What went through a pipe one of whose ends has counted less than what came to it, as one does that
    /// moves a part of it by splice(2), where its two neighbours agree.
    fn past_a_splicer<'a>(
        &'a self,
        joint: &Joint,
        own: impl Fn(Pid) -> Option<&'a Member>,
    ) -> Option<u64> {
        let moved = |pid| self.moved_in_all(own(pid)?);
        let written = |pid| Some(self.passed_on(own(pid)?, moved(pid)?));
        let joints = || self.joints.values().filter(|joint| joint.others() == [0; 2]);
        [joint.reader, joint.writer].into_iter().find_map(|middle| {
            let above = joints().find(|it| it.reader == middle)?;
            let below = joints().find(|it| it.writer == middle)?;
            let (came, counted) = (written(above.writer)?, moved(middle)?.read_bytes);
            let went = moved(below.reader)?.read_bytes;
            let has_spliced = counted < came && !agree(&(counted, came));
            (has_spliced && agree(&(came, went))).then_some(came)
        })
    }

    /// What it moved in the end. Where it was not looked at after that, the shell that waited for it,
    /// and for no other, counts it.
    fn moved_in_all(&self, member: &Member) -> Option<Moved> {
        if member.seen_ended {
            return member.now.moved;
        }
        let shell = self.member(member.now.parent?)?;
        let mut others = self.members.iter().filter(|other| other.pid != member.pid);
        let is_alone = others.all(|other| other.now.parent != member.now.parent);
        (is_alone && shell.seen_ended && self.counts_others(shell)).then_some(shell.now.moved)?
    }

    /// Whether it is a shell that has waited for what it started. It has the ends of all their pipes
    /// until they have begun, and so may be taken for the end of any, while its counts are of all.
    fn counts_others(&self, member: &Member) -> bool {
        self.is_shell(member) && member.now.has_waited
    }

    fn is_shell(&self, member: &Member) -> bool {
        let runs_it = self.shell.is_some() && member.program == self.shell;
        runs_it || member.now.name.ends_with("sh")
    }

    /// Whether more may have gone through than that.
    pub(super) fn is_at_least(&self, joint: &Joint) -> bool {
        let is_whole = |member: &Member| member.seen_ended && !self.counts_others(member);
        let whole = |pid| self.member(pid).is_some_and(is_whole);
        !whole(joint.writer) && !whole(joint.reader)
    }

    /// What went from one to the other, if there is a pipe between them.
    pub(super) fn between(&self, writer: Pid, reader: Pid) -> Through {
        self.told(self.member(writer), self.member(reader), 0)
    }

    /// What went from one to the other by what they count, where this was seen between them at
    /// once.
    fn told(&self, writer: Option<&Member>, reader: Option<&Member>, seen_bytes: u64) -> Through {
        let whole = |member: Option<&Member>| member.and_then(|member| self.moved_in_all(member));
        let one_is_whole = whole(writer).is_some() != whole(reader).is_some();
        // What was not looked at after its end says less than what was.
        let as_seen = |member: Option<&Member>| member.filter(|_| !one_is_whole)?.now.moved;
        let moved = |member| whole(member).or_else(|| as_seen(member));
        let counted = moved(writer).map(|moved| moved.written_bytes);
        let written = writer.zip(moved(writer)).map(|(it, moved)| self.passed_on(it, moved));
        let read = moved(reader).map(|moved| moved.read_bytes);
        let through = match Through::of(written, read, seen_bytes) {
            // Our movers do not count what they give on by reference.
            Through::Unknown if writer.is_some_and(|writer| self.is_ours(writer)) => {
                Through::of(None, read, seen_bytes)
            }
            through => through,
        };
        let is_as_read = through == Through::About(read.unwrap_or(0));
        let is_of_reader = read > written && is_as_read;
        let splices = |reader: &Member| self.may_splice(reader) && !reader.names_file;
        match through {
            // One that splices counts only what it could not, and the writer all that it gave on.
            Through::About(read) if is_as_read && reader.is_some_and(splices) => {
                let has_one_output = writer.is_some_and(Member::has_one_output);
                match written.filter(|written| *written > read && has_one_output) {
                    Some(written) => Through::About(written),
                    None => Through::AtLeast(without_start(read)),
                }
            }
            // Nobody tells what of that it read from its other files.
            _ if is_of_reader && reader.is_some_and(|reader| reader.names_file) => {
                let seen = writer.zip(writer.and_then(|writer| writer.now.moved));
                let seen = seen.map_or(0, |(it, moved)| self.passed_on(it, moved));
                match seen.min(read.unwrap_or(0)) {
                    ..=START_BYTES => Through::Unknown,
                    bytes => Through::AtLeast(bytes),
                }
            }
            // What a mover read bounds what it passed on, with its libraries.
            Through::Agreed(bytes) if written != counted => Through::About(bytes),
            through => match (written, writer, reader) {
                (Some(written), Some(writer), Some(reader)) => {
                    let beyond = self.beyond(written, writer, read, reader);
                    beyond.filter(|beyond| beyond.bytes() >= through.bytes()).unwrap_or(through)
                }
                _ => through,
            },
        }
    }

    /// What went through where the reader may have read more than the writer counts: one that
    /// splices counts only what it could not, and other files of a reader are counted too.
    fn beyond(
        &self,
        written: u64,
        writer: &Member,
        read: Option<u64>,
        reader: &Member,
    ) -> Option<Through> {
        let is_more = |read: u64| read > written && !agree(&(read, written));
        let last_seen = reader.now.moved.map_or(0, |moved| moved.read_bytes);
        let has_spliced = self.may_splice(writer) && !self.is_ours(writer);
        match read {
            _ if is_more(last_seen) && reader.reads_input_alone() => Some(match read {
                // As its shell tells, which may have run others.
                Some(read) if read.saturating_sub(last_seen) <= read / 4 => Through::About(read),
                _ => Through::AtLeast(without_start(last_seen)),
            }),
            _ if written <= START_BYTES => None,
            Some(read) => (has_spliced && is_more(read)).then_some(Through::AtLeast(written)),
            None => (has_spliced || is_more(last_seen)).then_some(Through::AtLeast(written)),
        }
    }

    /// What it wrote to one of its files, at the most: who writes all to several files, or messages
    /// as well, writes no more to each than it read.
    fn passed_on(&self, member: &Member, moved: Moved) -> u64 {
        let Moved { read_bytes, written_bytes } = moved;
        // Of one that has read next to nothing, or is ours, reading may not be counted.
        let is_bounded = read_bytes > START_BYTES && member.passes_on() && !self.is_ours(member);
        let is_more = written_bytes > read_bytes && !agree(&(written_bytes, read_bytes));
        if is_bounded && is_more { read_bytes } else { written_bytes }
    }

    /// Whether it may move a part by splice(2), which nobody counts.
    fn may_splice(&self, member: &Member) -> bool {
        member.now.name == "pv" || self.is_ours(member)
    }

    /// Whether it runs our own program.
    fn is_ours(&self, member: &Member) -> bool {
        self.own.is_some() && member.program == self.own
    }

    pub(super) fn member(&self, pid: Pid) -> Option<&Member> {
        self.members.iter().rev().find(|member| member.pid == pid)
    }
}

impl Member {
    fn new(pid: Pid, reading: Reading) -> Member {
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

    /// The words behind its program's name; none where the words are those of one that was there
    /// before.
    fn words_behind(&self) -> Option<impl Iterator<Item = &str>> {
        let mut words = self.words.split_whitespace();
        let program = words.next()?.rsplit('/').next()?;
        (program == self.now.name).then_some(words)
    }

    /// Whether each of its files gets no more than it read. A cat needs no such bound: it has one
    /// output, and writes more than it read only where an option adds something.
    fn passes_on(&self) -> bool {
        let names_output = |word: &str| word.starts_with("/dev/") || word.starts_with("/proc/");
        match self.now.name.as_str() {
            "pv" => true,
            "tee" => !self.words_behind().is_some_and(|mut words| words.any(names_output)),
            _ => false,
        }
    }

    /// Whether all that it writes, but for messages, goes to its pipe, as far as was seen.
    fn has_one_output(&self) -> bool {
        self.passes_on() || (!self.pipes.is_empty() && !self.writes_file)
    }

    /// Whether it reads nothing but its input, and that is a pipe: one of these, without the name
    /// of a file.
    fn reads_input_alone(&self) -> bool {
        let is_option = |word: &str| word.starts_with('-') && !word.starts_with("--");
        let names_none = || self.words_behind().is_some_and(|mut words| words.all(is_option));
        let is_alone = match self.now.name.as_str() {
            "tee" => true,
            "cat" | "pv" | "wc" => names_none(),
            _ => false,
        };
        is_alone && self.pipes.iter().any(|pipe| pipe.is_read && pipe.fd == 0)
    }

    /// A pipe of which it has both ends, as for its signals, is its own affair.
    fn reads_one_pipe(&self) -> bool {
        let writes = |number| self.pipes.iter().any(|pipe| !pipe.is_read && pipe.number == number);
        self.pipes.iter().filter(|pipe| pipe.is_read && !writes(pipe.number)).count() == 1
    }

    /// Whether it runs on other CPUs than it was given.
    fn chose_itself(&self, allowed: &CpuList) -> bool {
        match self.placed {
            Some(cpu) => !runs_on(self.pid, &[cpu].into()),
            None => !runs_on(self.pid, &allowed.iter().collect()),
        }
    }

    /// Puts it back on all CPUs when it leaves us, and as impatient as any, if it is still there.
    fn let_go(&mut self, allowed: &CpuList) {
        let is_ours = self.placed.is_some() || self.patient;
        if is_ours && process::began(self.pid) == Some(self.now.began) {
            // If the kernel does not let us, it did not let us put it there either.
            let _ = self.place(None, allowed);
            if self.patient {
                process::tasks(self.pid).into_iter().for_each(spawn::end_patience);
            }
        }
    }

    /// Puts all of its threads on one CPU, or back on all.
    fn place(&mut self, wanted: Option<usize>, allowed: &CpuList) -> Result<(), Errno> {
        if self.placed.is_some() && self.chose_itself(allowed) {
            (self.placed, self.elsewhere) = (None, true);
        }
        if self.placed == wanted || self.elsewhere {
            return Ok(());
        }
        let mut cpus = CpuSet::new();
        match wanted {
            Some(cpu) => cpus.set(cpu),
            None => allowed.iter().for_each(|cpu| cpus.set(cpu)),
        }
        self.placed = wanted;
        for task in process::tasks(self.pid) {
            match sched_setaffinity(Some(task), &cpus) {
                // It is over.
                Ok(()) | Err(Errno::SRCH) => {}
                Err(errno) => return Err(errno),
            }
        }
        Ok(())
    }

    /// Whether it may have moved more than was last seen.
    pub(super) fn moved_at_least(&self) -> bool {
        self.now.moved.is_some() && !self.seen_ended
    }

    /// Whether it waited for most of the time, and for none of its pipes and files.
    pub(super) fn only_waits(&self) -> bool {
        self.times.get(&Doing::Other).is_some_and(|other| *other * 2 > self.seen_for())
    }

    /// For how long it was seen, but for when it was stopped.
    pub(super) fn seen_for(&self) -> Duration {
        self.times.values().sum()
    }

    /// Since the look before it ran and waited for a CPU for as long as the kernel tells, and slept
    /// otherwise. Where that is not told, or of several threads, what was seen at either end of the
    /// time counts for half of it.
    fn spent(&mut self, window: Duration, before: Doing) {
        let before = if self.looks == 0 || self.before.is_stopped() { self.doing } else { before };
        let asleep = [before, self.doing].into_iter().rfind(|end| !end.is_awake());
        self.slept = asleep.or(self.slept);
        if self.looks == 0 {
            *self.times.entry(self.doing).or_default() += window.min(self.now.age);
            return;
        }
        let (mut ends, mut left) = ([before, self.doing], window);
        if self.now.is_exact() && self.before.is_exact() {
            let gained = |of: fn(&Reading) -> u64| {
                Duration::from_nanos(of(&self.now).saturating_sub(of(&self.before)))
            };
            let ran = gained(|reading| reading.run_ns);
            let waited = gained(|reading| reading.wait_ns);
            for (doing, time) in [(Doing::Runs, ran), (Doing::WaitsForCpu, waited)] {
                // A wait is told when it is over, and may be longer.
                let time = time.min(left);
                *self.times.entry(doing).or_default() += time;
                left -= time;
            }
            // Who has not run does what it did.
            let slept = self.slept.filter(|_| !(ran.is_zero() && before.is_awake()));
            let asleep = slept.unwrap_or(Doing::WaitsForCpu);
            ends = if ran.is_zero() { [before; 2] } else { ends };
            ends = ends.map(|end| if end.is_awake() { asleep } else { end });
        }
        for end in ends {
            *self.times.entry(end).or_default() += left / 2;
        }
    }

    /// What it does at this moment.
    fn done_now(&self, joints: &BTreeMap<u64, Joint>) -> Doing {
        let gained = |of: fn(&Reading) -> u64| of(&self.now).saturating_sub(of(&self.before));
        match self.now.state {
            // The kernel has one letter for both, and tells how long it did either.
            'R' if gained(|reading| reading.wait_ns) > gained(|reading| reading.run_ns) => {
                return Doing::WaitsForCpu;
            }
            'R' => return Doing::Runs,
            'D' => return Doing::WaitsForDisk,
            'S' => {}
            _ => return Doing::Other,
        }
        let place = self.sleeps_in.as_deref().unwrap_or_default();
        let starved =
            || joints.values().any(|joint| joint.reader == self.pid && joint.fill_bytes == 0);
        let held_up = || joints.values().any(|joint| joint.writer == self.pid && joint.is_full());
        match () {
            () if place.contains("pipe_read") => Doing::WaitsForInput,
            () if place.contains("pipe_write") => Doing::WaitsForOutput,
            () if held_up() => Doing::WaitsForOutput,
            () if starved() => Doing::WaitsForInput,
            () => Doing::Other,
        }
    }
}

/// Who does the work of an end of a pipe, of those who have it: where others came with it and went, as what a
/// loop runs, none that came for a moment.
fn worker(holders: &[&Member], had: &Had) -> Option<Pid> {
    let longest = had.times.values().max().filter(|_| had.outlived_others);
    let time = |holder: &Member| had.times[&holder.pid.as_raw_nonzero().get()];
    let stays = |holder: &&&Member| longest.is_none_or(|longest| time(holder) * 2 > *longest);
    // Those below come later, and one without children does the work itself.
    let worker = holders.iter().filter(stays).reduce(|before, holder| {
        if before.has_children || !holder.has_children { holder } else { before }
    });
    worker.map(|worker| worker.pid)
}

/// Whether a process may run on these CPUs, and on no others.
fn runs_on(pid: Pid, cpus: &BTreeSet<usize>) -> bool {
    let its = |set: CpuSet| (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect();
    let its: Result<BTreeSet<usize>, Errno> = rustix::thread::sched_getaffinity(Some(pid)).map(its);
    its.is_ok_and(|its| its == *cpus)
}

/// Bytes that went through a pipe, as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Through {
    /// Writer and reader tell the same.
    Agreed(u64),
    /// One of them tells, or one tells less: the other has other files as well, or moves bytes
    /// without counting them, as splice(2) does.
    About(u64),
    /// So much is known to have gone through, and more may have.
    AtLeast(u64),
    Unknown,
}

/// What programs read when they start, at the most: some kilobytes.
const START_BYTES: u64 = 64 << 10;

/// What it read of its input, at the least.
fn without_start(read_bytes: u64) -> u64 {
    read_bytes.saturating_sub(START_BYTES)
}

/// Whether two counts are of the same bytes.
fn agree((one, other): &(u64, u64)) -> bool {
    one.abs_diff(*other) <= START_BYTES.max(one.max(other) / 50)
}

impl Through {
    /// Only what both ends tell.
    pub(super) fn agreed_bytes(self) -> Option<u64> {
        match self {
            Through::Agreed(bytes) => Some(bytes),
            _ => None,
        }
    }

    pub(super) fn bytes(self) -> Option<u64> {
        match self {
            Through::Agreed(bytes) | Through::About(bytes) | Through::AtLeast(bytes) => Some(bytes),
            Through::Unknown => None,
        }
    }

    /// Where more than that was seen in the pipe, neither end counts what it moves.
    fn unless_less_than(self, most_bytes: u64) -> Through {
        match self.bytes() {
            Some(bytes) if bytes < most_bytes => Through::Unknown,
            _ => self,
        }
    }

    /// Of what its writer wrote and its reader read, of all their files, and the most that was seen in
    /// the pipe.
    fn of(written: Option<u64>, read: Option<u64>, seen_bytes: u64) -> Through {
        // Who read less than was seen in the pipe does not count what it moves.
        let read = read.filter(|read| *read > START_BYTES || *read >= seen_bytes);
        let has_read_little = read.is_some_and(|read| read <= START_BYTES);
        let (writer_tells, reader_tells) = (written.is_some(), read.is_some());
        let [written, read] = [written, read].map(|bytes| bytes.unwrap_or(0));
        let (less, more) = (written.min(read), written.max(read));
        let agree = written > 0 && agree(&(written, read));
        match () {
            () if agree && less > START_BYTES => Through::Agreed(written),
            // What was read may have been the reader's own files, and what was written messages.
            () if agree && seen_bytes > 0 => Through::About(written),
            () if agree => Through::Unknown,
            () if less > START_BYTES => Through::About(less),
            // What was written went elsewhere, all or nearly all of it.
            () if has_read_little || more <= START_BYTES => Through::Unknown,
            () if !reader_tells => Through::About(written),
            // Where the writer does not count what it moves, the reader does.
            () if !writer_tells || seen_bytes > written => Through::About(read),
            // What was read were the reader's other files.
            () => Through::Unknown,
        }
    }
}

impl Joint {
    fn new(writer: Pid, reader: Pid) -> Joint {
        Joint {
            writer,
            reader,
            holds_bytes: 0,
            fill_bytes: 0,
            most_bytes: 0,
            had: Default::default(),
            moved: Default::default(),
            refused: None,
            looks: 0,
            seen: Duration::ZERO,
            full: Duration::ZERO,
            empty: Duration::ZERO,
        }
    }

    /// How many others than the two that it joins had its ends, and wrote and read something.
    pub(super) fn others(&self) -> [usize; 2] {
        let of = |end: usize, own: Pid, least: u64| {
            let own = own.as_raw_nonzero().get();
            let others =
                self.moved[end].iter().filter(|(pid, bytes)| **pid != own && **bytes > least);
            others.count()
        };
        // All read something as they start.
        [of(0, self.writer, 0), of(1, self.reader, START_BYTES)]
    }

    /// Of about so many bytes, and more that went through unseen: what certainly did.
    pub(super) fn at_least(&self, bytes: u64) -> Through {
        Through::AtLeast(without_start(bytes).max(self.most_bytes))
    }

    /// A pipe has room for as many pieces as for pages, and pieces may be smaller.
    fn is_full(&self) -> bool {
        self.fill_bytes * 4 >= self.holds_bytes as u64 * 3
    }

    /// Opens the pipe for a moment: kept open, it would hide from each end that the other is gone.
    fn look(
        &mut self,
        number: u64,
        members: &[Member],
        size: &PipeSize,
        wanted: usize,
        window: Duration,
    ) {
        let of_reader =
            members.iter().rev().find(|member| member.pid == self.reader && member.alive);
        let Some(reader) = of_reader else { return };
        let Some(end) = reader.pipes.iter().find(|end| end.is_read && end.number == number) else {
            return;
        };
        let path = process::path(reader.pid, &format!("fd/{}", end.fd));
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(pipe) = rustix::fs::open(path, flags, Mode::empty()) else { return };
        // Its process may have opened something else there meanwhile.
        if rustix::fs::fstat(&pipe).is_ok_and(|found| found.st_ino != number) {
            return;
        }
        if self.looks == 0 {
            self.refused = size.enlarge(&pipe, wanted).err();
        }
        let before = (self.looks > 0).then_some((self.is_full(), self.fill_bytes == 0));
        self.holds_bytes = fcntl_getpipe_size(&pipe).unwrap_or(0);
        self.fill_bytes = ioctl_fionread(&pipe).unwrap_or(0);
        self.most_bytes = self.most_bytes.max(self.fill_bytes);
        self.looks += 1;
        self.seen += window;
        let now = (self.is_full(), self.fill_bytes == 0);
        // What was seen at either end of the time counts for half of it.
        for (is_full, is_empty) in [before.unwrap_or(now), now] {
            self.full += if is_full { window / 2 } else { Duration::ZERO };
            self.empty += if is_empty { window / 2 } else { Duration::ZERO };
        }
    }
}

#[cfg(test)]
mod tests {
    use rustix::pipe::fcntl_setpipe_size;

    use super::*;

    #[test]
    fn bytes_through_a_pipe_are_known_where_both_ends_agree() {
        let mib = 1 << 20;
        let of = |written, read| Through::of(written, read, 0);
        assert_eq!(of(Some(90 * mib), Some(90 * mib + 5000)), Through::Agreed(90 * mib));
        assert_eq!(of(Some(90 * mib), Some(40 * mib)), Through::About(40 * mib));
        assert_eq!(of(None, Some(40 * mib)), Through::About(40 * mib));
        assert_eq!(of(None, Some(4000)), Through::Unknown);
        // A writer that splices; and a reader of other files, or one that nobody saw splice.
        assert_eq!(Through::of(Some(0), Some(40 * mib), mib), Through::About(40 * mib));
        assert_eq!(of(Some(0), Some(40 * mib)), Through::Unknown);
        assert_eq!(Through::of(Some(4), Some(40 * mib), 4), Through::Unknown);
        // So little is in no pipe that nobody saw it in.
        assert_eq!(Through::of(Some(2), Some(5000), 2), Through::About(2));
        assert_eq!(of(Some(2), Some(5000)), Through::Unknown);
        assert_eq!(of(Some(30_890), Some(37_000)), Through::Unknown);
        assert_eq!(of(Some(70_000), Some(75_000)), Through::Agreed(70_000));
        // A copy that says so in a line, and one whose reader splices.
        assert_eq!(of(Some(90 * mib + 12), Some(14_796)), Through::Unknown);
        assert_eq!(Through::of(Some(90 * mib), Some(14_796), mib), Through::About(90 * mib));
        assert_eq!(of(Some(90 * mib), None), Through::About(90 * mib));
        assert_eq!(Through::Agreed(163).unless_less_than(164), Through::Unknown);
        assert_eq!(Through::About(164).unless_less_than(164), Through::About(164));
    }

    #[test]
    fn what_two_stages_agree_on_went_through_the_one_between_them() {
        let [first, mid, last] = [1, 2, 3].map(|number| Pid::from_raw(number).expect("one"));
        let told = |[written, mid_read, mid_written, read]: [u64; 4]| {
            let size = PipeSize::new(None);
            let mut family = Family::new(Below::default(), size, CpuList::default(), None);
            for (pid, read_bytes, written_bytes) in
                [(first, 0, written), (mid, mid_read, mid_written), (last, read, 0)]
            {
                let moved = Some(Moved { read_bytes, written_bytes });
                let (name, ours) = ("cat".to_owned(), Reading::of(getpid()).expect("ours"));
                let reading = Reading { moved, name, has_waited: false, ..ours };
                let words = "cat - f".to_owned();
                let member = Member::new(pid, reading);
                family.members.push(Member { seen_ended: true, words, ..member });
            }
            let joints = [Joint::new(first, mid), Joint::new(mid, last)];
            family.joints.extend([1, 2].into_iter().zip(joints));
            family.joints.values().map(|joint| family.through(joint)).collect::<Vec<_>>()
        };
        let mib = 1 << 20;
        // Part of it is spliced.
        let all = [Through::About(90 * mib); 2];
        assert_eq!(told([90 * mib, 50 * mib, 40 * mib, 90 * mib]), all);
        // It is written to a file as well.
        let tee = [Through::Agreed(90 * mib), Through::About(90 * mib)];
        assert_eq!(told([90 * mib, 90 * mib, 180 * mib, 90 * mib]), tee);
        // Half of it is left out, and the last one read as much of its own files.
        let filter = [Through::Agreed(90 * mib), Through::About(40 * mib)];
        assert_eq!(told([90 * mib, 90 * mib, 40 * mib, 90 * mib]), filter);
        // It read less than was written, and passed on that.
        let part = [Through::About(50 * mib), Through::Agreed(40 * mib)];
        assert_eq!(told([90 * mib, 50 * mib, 40 * mib, 40 * mib]), part);
        // It read another file, and nothing of the pipe that was full.
        let other = [Through::About(mib), Through::Agreed(90 * mib)];
        assert_eq!(told([mib, 90 * mib, 90 * mib, 90 * mib]), other);
    }

    #[test]
    fn what_the_last_stage_moved_is_told_by_the_shell_that_waited_for_it() {
        let pid = |number| Pid::from_raw(number).expect("one");
        let mib = 1 << 20;
        let told = |[written, mid_read, mid_written]: [u64; 3], last: u64, shell: u64| {
            let size = PipeSize::new(None);
            let mut family = Family::new(Below::default(), size, CpuList::default(), None);
            for (number, parent, read_bytes, written_bytes) in [
                (1, None, 0, written),
                (2, None, mid_read, mid_written),
                (3, None, shell, 0),
                (4, Some(pid(3)), last, 0),
            ] {
                let moved = Some(Moved { read_bytes, written_bytes });
                let name = if number == 3 { "bash" } else { "cat" }.to_owned();
                let has_waited = number == 3;
                let ours = Reading::of(getpid()).expect("ours");
                let reading = Reading { moved, parent, name, has_waited, ..ours };
                let seen_ended = number < 4;
                family.members.push(Member { seen_ended, ..Member::new(pid(number), reading) });
            }
            let joints = [Joint::new(pid(1), pid(2)), Joint::new(pid(2), pid(4))];
            family.joints.extend([1, 2].into_iter().zip(joints));
            family.joints.values().map(|joint| family.through(joint)).collect::<Vec<_>>()
        };
        let all = [Through::About(90 * mib); 2];
        assert_eq!(told([90 * mib, 50 * mib, 40 * mib], 7 * mib, 90 * mib), all);
        // The shell ran others too.
        let lesser = [Through::About(50 * mib), Through::About(40 * mib)];
        assert_eq!(told([90 * mib, 50 * mib, 40 * mib], 7 * mib, 300 * mib), lesser);
    }

    #[test]
    fn what_our_movers_do_not_count_is_what_their_reader_read() {
        let moved = |read_bytes, written_bytes| {
            let moved = Some(Moved { read_bytes, written_bytes });
            Member::new(getpid(), Reading { moved, ..Reading::of(getpid()).expect("ours") })
        };
        let (below, size) = (Below::default(), PipeSize::new(None));
        let family = Family::new(below, size, CpuList::default(), None);
        let told = |written, read, program| {
            let writer = Member { program, ..moved(0, written) };
            let reader = Member { program: None, ..moved(read, 0) };
            family.told(Some(&writer), Some(&reader), 0)
        };
        let (ours, mib) = (family.own, 1 << 20);
        // A line of progress is no part of them.
        assert_eq!([0, 80].map(|written| told(written, mib, ours)), [Through::About(mib); 2]);
        assert_eq!(told(0, mib, None), Through::Unknown);
        assert_eq!(told(0, 5000, ours), Through::Unknown);
        assert_eq!(told(mib, mib + 9, ours), Through::Agreed(mib));
    }

    #[test]
    fn what_a_reader_of_other_files_has_read_is_not_told_of_the_pipe() {
        let moved = |read_bytes, written_bytes| {
            let moved = Some(Moved { read_bytes, written_bytes });
            Member::new(getpid(), Reading { moved, ..Reading::of(getpid()).expect("ours") })
        };
        let (below, size) = (Below::default(), PipeSize::new(None));
        let family = Family::new(below, size, CpuList::default(), None);
        let (ours, mib) = (family.own, 1 << 20);
        let told = |written, names_file, program| {
            let writer = Member { program, ..moved(0, written) };
            let reader =
                Member { names_file, seen_ended: true, program: None, ..moved(40 * mib, 0) };
            family.told(Some(&writer), Some(&reader), mib)
        };
        for program in [None, ours] {
            assert_eq!(told(0, false, program), Through::About(40 * mib));
            assert_eq!(told(0, true, program), Through::Unknown);
        }
        // As last seen.
        assert_eq!(told(15 * mib, true, None), Through::AtLeast(15 * mib));
    }

    #[test]
    fn what_several_wrote_and_read_is_told_by_who_had_no_other_file() {
        let pid = |number| Pid::from_raw(number).expect("one");
        let mib = 1 << 20;
        // Two writers, and readers by their words.
        let told = |readers: &[(&str, u64)], seen_ended, most_bytes| {
            let (below, size) = (Below::default(), PipeSize::new(None));
            let mut family = Family::new(below, size, CpuList::default(), None);
            let last = 2 + i32::try_from(readers.len()).expect("few");
            let mut joint = Joint { most_bytes, ..Joint::new(pid(2), pid(last)) };
            joint.moved[0] = [(1, 100 * mib), (2, 100 * mib)].into();
            for (number, (words, read_bytes)) in (3..).zip(readers) {
                let (words, has_waited) = match words.strip_prefix("waited ") {
                    Some(words) => (words, true),
                    None => (*words, false),
                };
                let name = words.split(' ').next().expect("one").to_owned();
                let moved = Some(Moved { read_bytes: *read_bytes, written_bytes: 0 });
                let ours = Reading::of(getpid()).expect("ours");
                let member = Member::new(pid(number), Reading { moved, name, has_waited, ..ours });
                let of = |fd| OpenPipe { fd, number: 7, is_read: true };
                let pipes = [0, 3].map(of).into_iter().take(1 + usize::from(words.contains("-u")));
                let (names_file, pipes) = (words.contains("file"), pipes.collect());
                let words = words.to_owned();
                family.members.push(Member { words, pipes, seen_ended, names_file, ..member });
                joint.moved[1].insert(number, *read_bytes);
            }
            (joint.others()[1], family.through(&joint))
        };
        assert_eq!(
            told(&[("wc", 20 * mib)], false, 0),
            (0, Through::AtLeast(20 * mib - START_BYTES))
        );
        assert_eq!(told(&[("wc", 20 * mib)], true, 0), (0, Through::About(20 * mib)));
        assert_eq!(told(&[("gzip", 20 * mib)], true, 0), (0, Through::About(20 * mib)));
        // What others read may be of other files.
        for reader in ["gzip", "cat file", "waited wc", "cat -u"] {
            let is_known = told(&[(reader, 20 * mib)], false, 0);
            assert_eq!(is_known, (0, Through::Unknown), "{reader}");
        }
        for reader in ["gzip file", "waited gzip"] {
            assert_eq!(told(&[(reader, 20 * mib)], true, 0), (0, Through::Unknown), "{reader}");
        }
        let several = [("cat", 2 * mib), ("gzip", 500 * mib), ("wc", mib), ("cat", 4000)];
        assert_eq!(told(&several, true, 0), (3, Through::AtLeast(3 * mib - 2 * START_BYTES)));
        // Who read less than was seen in it does not count what it moves.
        assert_eq!(told(&[("gzip", mib)], true, 2 * mib), (0, Through::Unknown));
        // Who slept before it read nothing of it.
        assert_eq!(told(&[("sleep", 4000), ("gzip", mib)], true, 0), (0, Through::About(mib)));
    }

    /// A family of a writer and a reader of these words, the reader below a shell that waited for
    /// it where that has counted something; the writer read and wrote, and the reader read, so much.
    fn told_of(
        [writer, reader]: [&str; 2],
        (read_bytes, written_bytes): (u64, u64),
        read: u64,
        shell: Option<u64>,
    ) -> Through {
        let pid = |number| Pid::from_raw(number).expect("one");
        let (below, size) = (Below::default(), PipeSize::new(None));
        let mut family = Family::new(below, size, CpuList::default(), None);
        let member = |number, words: &str, moved, seen_ended| {
            let name = words.trim_start_matches("/bin/").split(' ').next();
            let (name, words) = (name.unwrap_or_default(), words.to_owned());
            let ours = Reading::of(getpid()).expect("ours");
            let parent = (number == 2).then(|| pid(3));
            let (has_waited, moved) = (number == 3, Some(moved));
            let reading = Reading { name: name.to_owned(), parent, has_waited, moved, ..ours };
            let pipes =
                vec![OpenPipe { fd: u32::from(number == 1), number: 7, is_read: number != 1 }];
            let writes_file = words.contains(" -T ");
            let member = Member::new(pid(number), reading);
            let names_file = words.contains(" - ");
            Member { words, names_file, seen_ended, pipes, writes_file, program: None, ..member }
        };
        let of_reader = |read_bytes| Moved { read_bytes, written_bytes: 0 };
        let of_shell = of_reader(shell.unwrap_or(0));
        family.members = vec![
            member(1, writer, Moved { read_bytes, written_bytes }, true),
            member(2, reader, of_reader(read), false),
            member(3, "sh", of_shell, shell.is_some()),
        ];
        family.between(pid(1), pid(2))
    }

    #[test]
    fn who_writes_to_several_files_wrote_no_more_to_each_than_it_read() {
        let mib = 1 << 20;
        let of = |words, read: u64| {
            let moved = (20 * mib + 5000, 40 * mib);
            told_of([words, "cat - f"], moved, read, Some(read))
        };
        let capped = Through::About(20 * mib + 5000);
        assert_eq!(of("tee f", 40 * mib), capped);
        assert_eq!(of("/bin/tee f", 90 * mib), capped);
        assert_eq!(of("tee f", 20 * mib + 5000), capped);
        assert_eq!(of("cat -n", 40 * mib), Through::Agreed(40 * mib));
        assert_eq!(of("tee /dev/stdout", 40 * mib), Through::Agreed(40 * mib));
        // Of its own reading it counted nothing.
        let spliced = told_of(["tee f", "wc"], (5000, 40 * mib), 0, Some(40 * mib));
        assert_eq!(spliced, Through::Agreed(40 * mib));
    }

    #[test]
    fn of_a_writer_that_splices_the_reader_tells() {
        let mib = 1 << 20;
        let of = |words, read, shell| told_of(words, (2 * mib, 2 * mib), read, shell);
        let pv = "pv -q f";
        // As its shell counts, if the reader itself was seen to have read nearly as much.
        assert_eq!(of([pv, "cat"], 19 * mib, Some(20 * mib)), Through::About(20 * mib));
        assert_eq!(
            of([pv, "cat"], 9 * mib, Some(20 * mib)),
            Through::AtLeast(9 * mib - START_BYTES)
        );
        assert_eq!(of([pv, "cat"], 19 * mib, None), Through::AtLeast(19 * mib - START_BYTES));
        // What it read may have been other files.
        for reader in ["md5sum", "cat - g"] {
            assert_eq!(of([pv, reader], 19 * mib, Some(20 * mib)), Through::AtLeast(2 * mib));
            assert_eq!(of([pv, reader], 19 * mib, None), Through::AtLeast(2 * mib));
        }
        assert_eq!(of([pv, "md5sum"], 0, None), Through::AtLeast(2 * mib));
        assert_eq!(of(["cat f", "md5sum"], 0, None), Through::About(2 * mib));
        assert_eq!(of(["cat f", "md5sum"], 19 * mib, None), Through::AtLeast(2 * mib));
        assert_eq!(of(["cat f", "cat - g"], 19 * mib, Some(20 * mib)), Through::About(2 * mib));
        assert_eq!(of([pv, "cat"], 2 * mib, Some(2 * mib)), Through::Agreed(2 * mib));
    }

    #[test]
    fn of_a_reader_that_splices_the_writer_tells_if_it_has_no_other_output() {
        let mib = 1 << 20;
        let of = |words, read| told_of(words, (40 * mib, 40 * mib), read, Some(read));
        assert_eq!(of(["head f", "pv -q"], 4 * mib), Through::About(40 * mib));
        let least = Through::AtLeast(4 * mib - START_BYTES);
        assert_eq!(of(["sort -T d", "pv -q"], 4 * mib), least);
        assert_eq!(of(["head f", "cat"], 4 * mib), Through::About(4 * mib));
        assert_eq!(of(["head f", "pv -q"], 40 * mib), Through::Agreed(40 * mib));
    }

    #[test]
    fn what_has_an_end_for_a_moment_is_not_whom_a_pipe_joins() {
        let pid = |number| Pid::from_raw(number).expect("one");
        let member = |number, has_children| {
            let reading = Reading::of(getpid()).expect("ours");
            Member { has_children, ..Member::new(pid(number), reading) }
        };
        let (shell, child) = (member(1, true), member(2, false));
        let of = |shell_ms, child_ms, outlived_others| {
            let times = [(1, shell_ms), (2, child_ms)];
            let times = times.map(|(pid, ms)| (pid, Duration::from_millis(ms))).into();
            worker(&[&shell, &child], &Had { times, outlived_others })
        };
        assert_eq!(of(1000, 100, true), Some(pid(1)));
        assert_eq!(of(150, 100, true), Some(pid(2)));
        assert_eq!(of(1000, 100, false), Some(pid(2)), "it may have been started late");
        assert_eq!(worker(&[], &Had::default()), None);
    }

    #[test]
    fn pipes_put_the_stages_into_their_order() {
        let pid = |number| Pid::from_raw(number).expect("one");
        let size = PipeSize::new(None);
        let mut family = Family::new(Below::default(), size, CpuList::default(), None);
        for (number, writer, reader) in [(1, 30, 20), (2, 20, 40), (3, 40, 10), (4, 30, 50)] {
            family.joints.insert(number, Joint::new(pid(writer), pid(reader)));
        }
        let line = BTreeMap::from([(20, 1), (40, 2), (10, 3), (50, 1)]);
        assert_eq!(family.depths(), line);
        family.joints.insert(5, Joint::new(pid(10), pid(30)));
        assert_eq!(family.depths().len(), 5, "a ring has an end too");
    }

    #[test]
    fn who_waited_longer_for_a_cpu_than_it_ran_waits_for_one() {
        let reading = Reading::of(getpid()).expect("ours");
        let mut member = Member::new(getpid(), Reading { state: 'R', ..reading.clone() });
        for (ran_ms, waited_ms, does) in [(20, 10, Doing::Runs), (10, 20, Doing::WaitsForCpu)] {
            let run_ns = reading.run_ns + ran_ms * 1_000_000;
            let wait_ns = reading.wait_ns + waited_ms * 1_000_000;
            member.now = Reading { state: 'R', run_ns, wait_ns, ..reading.clone() };
            assert_eq!(member.done_now(&BTreeMap::new()), does);
        }
    }

    #[test]
    fn the_time_between_two_looks_is_told_by_what_the_kernel_counts_and_the_rest_by_its_ends() {
        let reading =
            Reading { are_exact: true, threads: 1, ..Reading::of(getpid()).expect("ours") };
        let ms = Duration::from_millis;
        let spent = |ends: [Doing; 2], ran_ms: u64, waited_ms: u64, threads| {
            let mut member = Member::new(getpid(), Reading { threads, ..reading.clone() });
            member.looks = 1;
            member.now.run_ns += ran_ms * 1_000_000;
            member.now.wait_ns += waited_ms * 1_000_000;
            member.doing = ends[1];
            member.spent(ms(100), ends[0]);
            member.times.retain(|_, time| !time.is_zero());
            member.times
        };
        use Doing::{Runs, WaitsForCpu, WaitsForInput, WaitsForOutput};
        let asleep = [WaitsForInput, WaitsForOutput];
        let all = [(Runs, ms(20)), (WaitsForCpu, ms(10)), (asleep[0], ms(35)), (asleep[1], ms(35))];
        assert_eq!(spent(asleep, 20, 10, 1), all.into());
        assert_eq!(spent(asleep, 0, 0, 1), [(asleep[0], ms(100))].into());
        for ends in [[Runs, WaitsForInput], [WaitsForInput, Runs]] {
            let told = [(Runs, ms(60)), (WaitsForInput, ms(40))];
            assert_eq!(spent(ends, 60, 0, 1), told.into());
            let told = [(Runs, ms(50)), (WaitsForInput, ms(50))];
            assert_eq!(spent(ends, 60, 0, 2), told.into(), "its threads run at once");
        }
        assert_eq!(spent([Runs; 2], 0, 0, 1), [(WaitsForCpu, ms(100))].into());
        assert_eq!(spent([Runs; 2], 10, 900, 1), [(Runs, ms(10)), (WaitsForCpu, ms(90))].into());
    }

    #[test]
    fn what_a_pipe_was_at_either_end_of_a_time_counts_for_half_of_it() {
        let (read, write) = rustix::pipe::pipe().expect("a pipe");
        let number = rustix::fs::fstat(&read).expect("ours").st_ino;
        let members = [Member::new(getpid(), Reading::of(getpid()).expect("ours"))];
        let mut joint = Joint::new(getpid(), getpid());
        let size = PipeSize::new(None);
        let second = Duration::from_secs(1);
        joint.look(number, &members, &size, 0, second);
        rustix::io::write(&write, &vec![0; joint.holds_bytes]).expect("it has room");
        joint.look(number, &members, &size, 0, second * 2);
        assert_eq!((joint.seen, joint.empty, joint.full), (second * 3, second * 2, second));
    }

    #[test]
    fn of_many_that_are_gone_those_that_did_the_least_are_forgotten() {
        let mut family =
            Family::new(Below::default(), PipeSize::new(None), CpuList::default(), None);
        let reading = Reading::of(getpid()).expect("ours");
        let pid =
            |number: usize| Pid::from_raw(i32::try_from(number).expect("small")).expect("one");
        for number in 1..=KEPT_MAX + 1 {
            let reading = Reading { run_ns: number as u64, ..reading.clone() };
            let alive = number.is_multiple_of(100);
            family.members.push(Member { alive, ..Member::new(pid(number), reading) });
            family.joints.insert(number as u64, Joint::new(pid(number), pid(number)));
        }
        family.forget_the_least();
        let kept = FIRST_KEPT + (KEPT_MAX + 1 - FIRST_KEPT) / 2;
        assert!(family.members.len().abs_diff(kept) < 10, "{}", family.members.len());
        assert_eq!(family.forgotten, KEPT_MAX + 1 - family.members.len());
        assert_eq!(family.joints.len(), family.members.len());
        for number in [1, FIRST_KEPT, 100, 200, KEPT_MAX + 1] {
            assert!(family.member(pid(number)).is_some(), "{number} is kept");
        }
        assert!(family.member(pid(FIRST_KEPT + 1)).is_none());
    }

    /// A program, in a family that has looked at it and put it on the first CPU; with all CPUs, if
    /// there are several.
    fn placed(line: &str) -> Option<(std::process::Child, Family, CpuList)> {
        use std::process::{Command, Stdio};
        let allowed = bytepath::machine::Machine::this().allowed_cpus().clone();
        let Some(first) = allowed.iter().next().filter(|_| allowed.len() > 1) else {
            println!("skipped: there is one CPU");
            return None;
        };
        let below = Below::noted().expect("/proc tells");
        let mut command = Command::new("sh");
        command.args(["-c", line]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("sh");
        let mut told = [0];
        std::io::Read::read_exact(child.stdout.as_mut().expect("it is piped"), &mut told)
            .expect("it says when it has begun");
        let mut family = Family::new(below, PipeSize::new(None), allowed.clone(), None);
        family.look();
        let its = Some(Pid::from_child(&child));
        let its = |member: &&Member| Some(member.pid) == its || member.now.parent == its;
        let its = family.members.iter().filter(its);
        let places = its.map(|member| (member.pid.as_raw_nonzero().get(), first)).collect();
        family.place(&places).expect("they are ours");
        Some((child, family, allowed))
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
            family.member(pid).expect("it was seen").rested
        };
        let wait = |family: &mut Family| {
            while !rests(family) {
                assert!(Instant::now() < deadline, "it waits for a line");
                std::thread::sleep(Duration::from_millis(5));
            }
            family.member(pid).expect("it was seen").pipes.iter().map(|pipe| pipe.fd).collect()
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
            family.member(pid).expect("it was seen").words.clone()
        };
        let before = words();
        child.stdin.as_mut().expect("it is piped").write_all(b"on\n").expect("it reads");
        let after = words();
        child.kill().expect("it lives");
        child.wait().expect("it is ours");
        assert!(before.contains("exec sh"), "{before}");
        assert_eq!(after, "sh -c echo; read another; :");
    }

    #[test]
    fn who_leaves_the_family_may_run_on_all_cpus() {
        let Some((mut child, mut family, allowed)) = placed("sleep 60 & echo; read line") else {
            return;
        };
        let all = allowed.iter().collect();
        let is_sleep = |member: &&Member| member.now.parent == Some(Pid::from_child(&child));
        let sleep = family.members.iter().find(is_sleep).expect("it was seen").pid;
        assert!(!runs_on(sleep, &all));
        // It loses its parent.
        child.wait().expect("it is ours");
        family.look();
        let is_free = runs_on(sleep, &all);
        rustix::process::kill_process(sleep, rustix::process::Signal::KILL).expect("it lives");
        assert!(is_free);
    }

    #[test]
    fn who_is_left_in_the_end_may_run_on_all_cpus_but_stays_where_it_was_put_since() {
        let Some((mut child, mut family, allowed)) = placed("echo; exec sleep 60") else { return };
        let (pid, last) = (Pid::from_child(&child), allowed.iter().last().expect("there are two"));
        let mut elsewhere = CpuSet::new();
        elsewhere.set(last);
        family.let_go();
        let is_free = runs_on(pid, &allowed.iter().collect());
        let first =
            Places::from([(pid.as_raw_nonzero().get(), allowed.iter().next().expect("one"))]);
        family.place(&first).expect("it is ours");
        sched_setaffinity(Some(pid), &elsewhere).expect("it is ours");
        family.place(&Places::new()).expect("nothing is to be done");
        family.place(&first).expect("nothing is to be done");
        family.let_go();
        let stays = runs_on(pid, &[last].into());
        let may = family.may(family.member(pid).expect("it was seen"));
        child.kill().expect("it lives");
        child.wait().expect("it is ours");
        assert!(is_free && stays && may == May::Never, "{is_free} {stays} {may:?}");
    }

    #[test]
    fn setting_a_size_by_another_open_of_the_pipe_sets_it_for_all() {
        let (read, _write) = rustix::pipe::pipe().expect("a pipe");
        use std::os::fd::AsRawFd;
        let path = process::path(getpid(), &format!("fd/{}", read.as_raw_fd()));
        let again = rustix::fs::open(path, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
        fcntl_setpipe_size(again.expect("it is ours"), 128 << 10).expect("within any limit");
        assert_eq!(fcntl_getpipe_size(&read), Ok(128 << 10));
    }
}
