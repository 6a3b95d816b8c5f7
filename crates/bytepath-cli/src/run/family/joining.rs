//! Which pipe joins whom, and how full each is.

use std::collections::BTreeMap;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::ioctl_fionread;
use rustix::pipe::fcntl_getpipe_size;

use super::{Family, Joint, Member, START_MOVES_BYTES};
use crate::run::process::{self, Id};
use crate::run::sizes::PipeSize;

/// Of more that have an end of one pipe, the first are counted.
const ENDS_KEPT_MAX: usize = 64;

/// Who has an end of a pipe.
#[derive(Debug, Clone, Default)]
pub(super) struct Had {
    /// For how long each had it.
    times: BTreeMap<Id, Duration>,
    /// Whether others that had it have ended.
    outlived_others: bool,
}

impl Family {
    /// Which pipe joins whom. A shell has the ends of its stages' pipes until it has started them,
    /// and a process may hand its end on: so both are looked for again, among those who have it now.
    pub(super) fn join(&mut self) {
        let mut ends: BTreeMap<u64, [Vec<&Member>; 2]> = BTreeMap::new();
        let mut moved = Vec::new();
        for member in self.members.iter().filter(|member| member.alive) {
            for pipe in &member.pipes {
                let end = usize::from(pipe.is_read);
                ends.entry(pipe.number).or_default()[end].push(member);
                let bytes = self.moved_by(member, end);
                moved.extend(bytes.map(|bytes| (pipe.number, end, member.id(), bytes)));
            }
        }
        for (number, ends) in ends {
            let known = self.joints.get(&number);
            let had = [0, 1].map(|end| self.had(&ends[end], known.map(|joint| &joint.had[end])));
            let worker = |end: usize| {
                let moves = |member: &Member| {
                    let is_of_file = end == 1 && member.names_file;
                    !is_of_file && self.moved_by(member, end) > Some(START_MOVES_BYTES[end])
                };
                worker(&ends[end], &had[end], moves)
            };
            let (Some(writer), Some(reader)) = (worker(0), worker(1)) else { continue };
            if writer != reader {
                let joint = self.joints.entry(number).or_insert(Joint::new(writer, reader));
                (joint.writer, joint.reader, joint.had) = (writer, reader, had);
            }
        }
        for (number, end, id, bytes) in moved {
            let Some(joint) = self.joints.get_mut(&number) else { continue };
            let ends = &mut joint.moved[end];
            if ends.len() < ENDS_KEPT_MAX || ends.contains_key(&id) {
                ends.insert(id, bytes);
            }
        }
    }

    /// What it wrote (0), or read (1), if it does the work itself.
    fn moved_by(&self, member: &Member, end: usize) -> Option<u64> {
        let works = !member.has_children && !self.is_shell(member);
        member.now.moved.filter(|_| works).map(|bytes| bytes.of_end(end))
    }

    fn had(&self, holders: &[&Member], before: Option<&Had>) -> Had {
        let has_ended = |id| !self.members.iter().any(|member| member.alive && member.id() == id);
        let before_of = |id| before?.times.get(&id).copied();
        let time = |holder: &Member| match before_of(holder.id()) {
            Some(before) => before + self.window,
            None => self.window.min(holder.now.age),
        };
        Had {
            times: holders.iter().map(|holder| (holder.id(), time(holder))).collect(),
            outlived_others: before.is_some_and(|before| {
                before.outlived_others || before.times.keys().any(|id| has_ended(*id))
            }),
        }
    }
}

impl Joint {
    pub(super) fn new(writer: Id, reader: Id) -> Joint {
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

    /// A pipe has room for as many pieces as for pages, and pieces may be smaller.
    pub(super) fn is_full(&self) -> bool {
        self.fill_bytes * 4 >= self.holds_bytes as u64 * 3
    }

    /// Opens the pipe for a moment: kept open, it would hide from each end that the other is gone.
    pub(super) fn look(
        &mut self,
        number: u64,
        members: &[Member],
        size: &PipeSize,
        wanted: usize,
        window: Duration,
    ) {
        let of_reader = members.iter().find(|member| member.id() == self.reader && member.alive);
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

/// Who does the work of an end of a pipe, of those who have it: where others came with it and went, as what a
/// loop runs, none that came for a moment and has moved nothing.
fn worker(holders: &[&Member], had: &Had, moves: impl Fn(&Member) -> bool) -> Option<Id> {
    let longest = had.times.values().max().filter(|_| had.outlived_others);
    let time = |holder: &Member| had.times[&holder.id()];
    let stays = |holder: &Member| longest.is_none_or(|longest| time(holder) * 2 >= *longest);
    // Those below come later, and one without children does the work itself.
    let workers = holders.iter().filter(|holder| stays(holder) || moves(holder));
    let worker =
        workers.reduce(
            |before, holder| {
                if before.has_children || !holder.has_children { holder } else { before }
            },
        );
    worker.map(|worker| worker.id())
}

#[cfg(test)]
mod tests {
    use rustix::pipe::fcntl_setpipe_size;
    use rustix::process::{Pid, getpid};

    use bytepath::machine::CpuList;

    use super::*;
    use crate::run::below::Below;
    use crate::run::process::Reading;

    #[test]
    fn what_has_an_end_for_a_moment_is_not_whom_a_pipe_joins() {
        let pid = |number| Pid::from_raw(number).expect("one");
        let member = |number, has_children| {
            let reading = Reading::of(getpid()).expect("ours");
            Member { has_children, ..Member::new(pid(number), reading) }
        };
        let (shell, child) = (member(1, true), member(2, false));
        let ids = [shell.id(), child.id()];
        let of = |shell_ms, child_ms, outlived_others| {
            let times = [(ids[0], shell_ms), (ids[1], child_ms)];
            let times = times.map(|(id, ms)| (id, Duration::from_millis(ms))).into();
            let had = Had { times, outlived_others };
            [false, true]
                .map(|moves| worker(&[&shell, &child], &had, |it| moves && it.pid == child.pid))
        };
        assert_eq!(of(1000, 100, true), ids.map(Some));
        assert_eq!(of(150, 100, true), [Some(ids[1]); 2]);
        assert_eq!(of(1000, 100, false), [Some(ids[1]); 2], "it may have been started late");
        assert_eq!(worker(&[], &Had::default(), |_| true), None);
    }

    #[test]
    fn who_is_new_had_an_end_for_no_longer_than_it_is_there() {
        let ms = Duration::from_millis;
        let reading = |age| Reading { age, ..Reading::of(getpid()).expect("ours") };
        let (size, allowed) = (PipeSize::new(None), CpuList::default());
        let mut family = Family::new(Below::default(), size, allowed, None);
        family.window = ms(100);
        let times = |before: Option<&Had>, age| {
            family.had(&[&Member::new(getpid(), reading(age))], before).times.into_values().next()
        };
        let id = Member::new(getpid(), reading(ms(0))).id();
        let before = Had { times: [(id, ms(7))].into(), ..Had::default() };
        for (before, age, time) in [
            (None, ms(20), ms(20)),
            (Some(&Had::default()), ms(20), ms(20)),
            (None, ms(500), ms(100)),
            (Some(&before), ms(500), ms(107)),
        ] {
            assert_eq!(times(before, age), Some(time));
        }
    }

    #[test]
    fn what_a_pipe_was_at_either_end_of_a_time_counts_for_half_of_it() {
        let (read, write) = rustix::pipe::pipe().expect("a pipe");
        let number = rustix::fs::fstat(&read).expect("ours").st_ino;
        let members = [Member::new(getpid(), Reading::of(getpid()).expect("ours"))];
        let mut joint = Joint::new(members[0].id(), members[0].id());
        let size = PipeSize::new(None);
        let second = Duration::from_secs(1);
        joint.look(number, &members, &size, 0, second);
        rustix::io::write(&write, &vec![0; joint.holds_bytes]).expect("it has room");
        joint.look(number, &members, &size, 0, second * 2);
        assert_eq!((joint.seen, joint.empty, joint.full), (second * 3, second * 2, second));
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
