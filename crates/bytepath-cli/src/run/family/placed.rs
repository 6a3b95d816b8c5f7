//! Members are put on CPUs, and given back.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use bytepath::machine::CpuList;
use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_setaffinity};

use super::{Family, Joint, Member};
use crate::run::placing::{May, Places, Seen};
use crate::run::process::{self, Id, Moved, Reading};
use crate::sys::spawn;

/// A program has counted its CPUs and begun its work once it moved this, or worked this long.
const BEGUN_BYTES: u64 = 256 << 10;
const BEGUN_NS: u64 = 20_000_000;
/// Or sleeps after this time.
const BEGUN_AFTER: Duration = Duration::from_millis(50);

impl Family {
    /// The members as the one who places them wants to know them.
    pub(in crate::run) fn seen(&self) -> Vec<Seen> {
        let takes_part = |member: &&Member| {
            let joined = |joint: &Joint| joint.writer == member.id() || joint.reader == member.id();
            member.looked_at && member.alive && self.joints.values().any(joined)
        };
        let mut members: Vec<_> = self.members.iter().filter(takes_part).collect();
        let depths = self.depths();
        members.sort_by_key(|member| depths.get(&member.id()));
        members.into_iter().map(|member| self.seen_of(member)).collect()
    }

    /// How many pipes lead to each, of those to which any does; a ring of pipes ends the count.
    fn depths(&self) -> BTreeMap<Id, usize> {
        let mut writers = BTreeMap::new();
        for joint in self.joints.values() {
            writers.entry(joint.reader).or_insert(joint.writer);
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
    pub(in crate::run) fn place(&mut self, places: &Places) -> Result<(), Errno> {
        let living = self.members.iter_mut().filter(|member| member.alive);
        let placed = living.map(|member| {
            let wanted = places.get(&member.pid.as_raw_nonzero().get()).copied();
            member.place(wanted, &self.allowed)
        });
        placed.fold(Ok(()), Result::and)
    }

    /// Those that go on when nobody looks at them any more run where and when the kernel has them run.
    pub(in crate::run) fn let_go(&mut self) {
        self.members.iter_mut().for_each(|member| member.let_go(&self.allowed));
    }
}

impl Member {
    /// Whether it runs on other CPUs than it was given.
    fn chose_itself(&self, allowed: &CpuList) -> bool {
        match self.placed {
            Some(cpu) => !runs_on(self.pid, &[cpu].into()),
            None => !runs_on(self.pid, &allowed.iter().collect()),
        }
    }

    /// Puts it back on all CPUs when it leaves us, and as impatient as any, if it is still there.
    pub(super) fn let_go(&mut self, allowed: &CpuList) {
        let is_ours = self.placed.is_some() || self.patient;
        if is_ours && self.is_there() {
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
}

/// Whether a process may run on these CPUs, and on no others.
pub(super) fn runs_on(pid: Pid, cpus: &BTreeSet<usize>) -> bool {
    let its = |set: CpuSet| (0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect();
    let its: Result<BTreeSet<usize>, Errno> = rustix::thread::sched_getaffinity(Some(pid)).map(its);
    its.is_ok_and(|its| its == *cpus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::below::Below;
    use crate::run::sizes::PipeSize;

    #[test]
    fn pipes_put_the_stages_into_their_order() {
        let id = |number| Id { began: 0, number };
        let size = PipeSize::new(None);
        let mut family = Family::new(Below::default(), size, CpuList::default(), None);
        for (number, writer, reader) in [(1, 30, 20), (2, 20, 40), (3, 40, 10), (4, 30, 50)] {
            family.joints.insert(number, Joint::new(id(writer), id(reader)));
        }
        let line =
            BTreeMap::from([(20, 1), (40, 2), (10, 3), (50, 1)].map(|(it, at)| (id(it), at)));
        assert_eq!(family.depths(), line);
        family.joints.insert(5, Joint::new(id(10), id(30)));
        assert_eq!(family.depths().len(), 5, "a ring has an end too");
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
        let may = family.may(family.latest(pid).expect("it was seen"));
        child.kill().expect("it lives");
        child.wait().expect("it is ours");
        assert!(is_free && stays && may == May::Never, "{is_free} {stays} {may:?}");
    }
}
