//! The calls of threads, counted and timed from their beginnings and ends; and what stands for the time
//! in which they were not traced.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fs;

use bytepath_report::SyscallCount;
use syscalls::Sysno;

use super::{ASKED_MAX, Call, Emptied};
use crate::world::Stat;

/// More records than these in a turn, on average over some turns, are many: some 15,000 calls a
/// second.
const MANY: usize = 300;
/// Calls that are this part of all, and more, come fast where calls do.
const FREQUENT: f64 = 0.1;
/// So many turns it takes to tell.
const TURNS: usize = 10;

/// Calls that do not return.
const NO_RETURN: [u64; 2] = [Sysno::exit as u64, EXIT_GROUP];
const EXIT_GROUP: u64 = Sysno::exit_group as u64;
/// Calls that end a process's other threads.
const EXECS: [u64; 2] = [Sysno::execve as u64, Sysno::execveat as u64];

/// What was traced.
#[derive(Default)]
pub(crate) struct Traced {
    threads: HashMap<u32, Caller>,
    /// The times in which calls were traced, and others not.
    pub(crate) windows: Vec<(u64, u64)>,
    /// How long all was traced.
    whole_ns: u64,
    /// Where calls were many: how long was traced, and how long not.
    on_ns: u64,
    pub(super) off_ns: u64,
}

/// The calls of a thread.
#[derive(Default)]
struct Caller {
    pid: u32,
    /// The call that it is in, and since when it was seen to be.
    within: Option<(u64, u64)>,
    /// When it was seen last to begin or end one.
    seen_ns: u64,
    /// How many and how long, by number: of the time in which all were traced, and of that in which a
    /// part was.
    calls: [HashMap<u64, (u64, u64)>; 2],
}

/// The calls of one number: how many were seen, and how many and how long they are told to be.
#[derive(Default)]
struct Sum {
    seen: f64,
    count: f64,
    spent_ns: f64,
}

/// A stretch of time in which calls were traced.
pub(super) struct Turn {
    pub(super) from: u64,
    pub(super) to: u64,
    /// Whether it stands for time beside it in which they were not.
    pub(super) in_part: bool,
}

/// When the last turns began, and how many records each brought.
#[derive(Default)]
pub(super) struct Pace(VecDeque<(u64, usize)>);

impl Pace {
    /// Whether calls are many, with those of one more turn. The turns before count as much as this
    /// one: a turn in which others had the CPU says nothing. What is over before there are so many
    /// turns is traced whole, unless there are more calls than can be.
    pub(super) fn are_many(&mut self, from: u64, seen: &Emptied) -> bool {
        self.0.push_back((from, seen.calls.len()));
        if self.0.len() > TURNS {
            self.0.pop_front();
        }
        let records = self.0.iter().map(|(_, records)| records).sum::<usize>();
        seen.full_ns.is_some() || (self.0.len() == TURNS && records > MANY * TURNS)
    }

    /// When the first of the turns began that it goes by.
    pub(super) fn since(&self) -> u64 {
        self.0.front().map_or(0, |(from, _)| *from)
    }
}

impl Traced {
    /// Takes what a turn has brought. Where calls were many behind it, all that is known of those that
    /// somebody is in ends with it.
    pub(super) fn turn(&mut self, turn: &Turn, seen: &Emptied, ends: bool) {
        // Where a ring was full, the time until then stands for the rest.
        let in_part = turn.in_part || seen.full_ns.is_some();
        let to = seen.full_ns.map_or(turn.to, |full| full.clamp(turn.from, turn.to));
        let window_ns = in_part.then_some(turn.from);
        // An exec(2) switches tracing on in between, and switching it off takes a while.
        let until = if turn.in_part { turn.to } else { u64::MAX };
        let is_in = |call: &&Call| (turn.from..=until).contains(&call.time_ns);
        let calls = seen.calls.iter().filter(is_in);
        calls.for_each(|call| self.take(call, window_ns));
        if in_part {
            self.windows.push((turn.from, turn.to));
            self.on_ns += to - turn.from;
            self.off_ns += turn.to - to;
        } else {
            self.whole_ns += turn.to - turn.from;
        }
        if in_part || ends {
            self.stretch_of_time_ends(to, in_part);
        }
        if to < turn.to {
            self.stretch_of_time_begins(turn.to);
        }
    }

    /// Calls were traced, and what was seen of them is none of what they were.
    pub(super) fn not_known(&mut self, from: u64, to: u64) {
        self.windows.push((from, to));
        self.off_ns += to - from;
    }

    /// Takes the beginning or the end of a call; `window_ns` is when the window began in which it was seen,
    /// where not all is traced.
    fn take(&mut self, call: &Call, window_ns: Option<u64>) {
        if !call.begins && EXECS.contains(&call.number) {
            self.take_over(call);
        }
        let caller = self.threads.entry(call.tid).or_default();
        caller.pid = call.pid;
        let is_first = window_ns.is_some_and(|window_ns| caller.seen_ns < window_ns);
        caller.seen_ns = call.time_ns;
        let part = usize::from(window_ns.is_some());
        let calls = &mut caller.calls[part];
        if call.begins {
            calls.entry(call.number).or_default().0 += 1;
            // What does not come back is no waiting.
            let ends = NO_RETURN.contains(&call.number);
            caller.within = (!ends).then_some((call.number, call.time_ns));
            if call.number == EXIT_GROUP {
                self.end_process(call, part);
            }
        } else {
            let within = caller.within.take();
            let begun = match window_ns {
                // It began while nothing was traced: all of the window until now was spent in it. Only the
                // first that ends may be such: ends are seen for longer than beginnings. The number is -1
                // where the call has changed what it goes back to (rt_sigreturn).
                Some(window_ns) if is_first && call.number as i64 >= 0 => within
                    .filter(|(number, _)| *number == call.number)
                    .or(Some((call.number, window_ns))),
                _ => within,
            };
            if let Some((number, since)) = begun {
                let (_, spent) = calls.entry(number).or_default();
                *spent += call.time_ns.saturating_sub(since);
            }
        }
    }

    /// Whoever has called exec(2) has the number of the first thread when it returns; but the first thread's own
    /// may have failed.
    fn take_over(&mut self, at: &Call) {
        let is_in = |within: &(u64, u64)| within.0 == at.number;
        if self.threads.get(&at.tid).is_some_and(|first| first.within.as_ref().is_some_and(is_in)) {
            return;
        }
        let mut others = self
            .threads
            .iter_mut()
            .filter(|(tid, caller)| at.tid == at.pid && **tid != at.tid && caller.pid == at.pid);
        let within = others.find_map(|(_, caller)| caller.within.take_if(|within| is_in(within)));
        if within.is_some() {
            self.threads.entry(at.tid).or_default().within = within;
        }
    }

    /// The other threads of a process that ends leave their calls.
    fn end_process(&mut self, at: &Call, part: usize) {
        for caller in self.threads.values_mut().filter(|caller| caller.pid == at.pid) {
            if let Some((number, since)) = caller.within.take() {
                let (_, spent) = caller.calls[part].entry(number).or_default();
                *spent += at.time_ns.saturating_sub(since);
            }
        }
    }

    /// Those that are in a call have been so until now.
    fn stretch_of_time_ends(&mut self, now: u64, in_part: bool) {
        for caller in self.threads.values_mut() {
            if let Some((number, since)) = &mut caller.within {
                let calls = &mut caller.calls[usize::from(in_part)];
                calls.entry(*number).or_default().1 += now.saturating_sub(*since);
                *since = now;
            }
        }
    }

    /// A window begins behind a time in which nothing was traced: what those are in that were in a call
    /// before, and these threads of the work, the kernel tells. Who neither begins nor ends a call in the
    /// window would not be seen, and who has ended would be in its last one for ever.
    pub(super) fn window_begins(&mut self, now: u64, threads: &[(u32, u32)]) {
        let asked: HashSet<u32> = threads.iter().map(|(_, tid)| *tid).collect();
        let known = self.threads.iter().filter(|(_, caller)| caller.within.is_some());
        let known = known.filter(|(tid, _)| !asked.contains(*tid)).take(ASKED_MAX);
        let known: Vec<(u32, u32)> = known.map(|(tid, caller)| (caller.pid, *tid)).collect();
        self.stretch_of_time_begins(now);
        for (pid, tid) in known.iter().chain(threads).copied() {
            let Some(told) = told(pid, tid) else { continue };
            let caller = self.threads.entry(tid).or_default();
            caller.pid = pid;
            let returns = told.filter(|number| !NO_RETURN.contains(number));
            caller.within = returns.map(|number| (number, now));
        }
    }

    /// Calls that these threads were in before anybody looked are counted from now on.
    pub(super) fn begun_before(&mut self, now: u64, threads: &[(u32, u32)]) {
        for (pid, tid) in threads.iter().copied() {
            if let Some(Some(number)) = told(pid, tid) {
                self.take(&Call { pid, tid, time_ns: now, number, begins: true }, None);
            }
        }
    }

    fn stretch_of_time_begins(&mut self, now: u64) {
        for caller in self.threads.values_mut() {
            if let Some((_, since)) = &mut caller.within {
                *since = now;
            }
        }
    }

    /// What part of the time was traced, where it was not all of it.
    pub(crate) fn part(&self) -> Option<f64> {
        let traced_ns = self.whole_ns + self.on_ns;
        (self.off_ns > 0).then(|| traced_ns as f64 / (traced_ns + self.off_ns) as f64)
    }

    /// The calls of these processes, but not those of some threads; what took longest first. `all` is how
    /// many they made, where that was counted: calls were slower, and so fewer, while they were traced; and
    /// there were fewer than the time stands for where the work was over in it.
    pub(crate) fn counts(
        &self,
        pids: &HashSet<u32>,
        without: &[u32],
        all: Option<f64>,
    ) -> Vec<SyscallCount> {
        // Where it was over before the first window, all of the time before stands for the rest.
        let is_early = self.on_ns == 0;
        let standing_ns = if is_early { self.whole_ns.max(1) } else { self.on_ns };
        let of_time = (standing_ns + self.off_ns) as f64 / standing_ns as f64;
        let scales = [if is_early { of_time } else { 1.0 }, of_time];
        let mut sums: HashMap<u64, Sum> = HashMap::new();
        let callers = self.threads.iter();
        for (_, caller) in
            callers.filter(|(tid, caller)| pids.contains(&caller.pid) && !without.contains(tid))
        {
            for (calls, scale) in caller.calls.iter().zip(scales) {
                for (number, (count, spent)) in calls {
                    let sum = sums.entry(*number).or_default();
                    sum.seen += *count as f64;
                    sum.count += *count as f64 * scale;
                    sum.spent_ns += *spent as f64 * scale;
                }
            }
        }
        // Those that come fast are the ones that tracing keeps from being made.
        let told: f64 = sums.values().map(|sum| sum.count).sum();
        let frequent: Vec<_> =
            sums.values_mut().filter(|sum| sum.count >= FREQUENT * told).collect();
        let of_them: f64 = frequent.iter().map(|sum| sum.count).sum();
        if let Some(all) = all.filter(|_| self.off_ns > 0) {
            let times = 1.0 + (all - told) / of_them.max(1.0);
            for sum in frequent {
                let count = (sum.count * times).max(sum.seen);
                sum.spent_ns *= (count / sum.count).min(1.0);
                sum.count = count;
            }
        }
        let mut counts: Vec<SyscallCount> = sums
            .into_iter()
            .map(|(number, sum)| SyscallCount {
                name: name_of(number),
                count: sum.count.round() as u64,
                seconds: Some(sum.spent_ns / 1e9),
            })
            .collect();
        counts
            .sort_by(|a, b| b.seconds.partial_cmp(&a.seconds).unwrap_or(std::cmp::Ordering::Equal));
        counts
    }
}

/// The call that a thread is in, if it waits in one: none while it runs, or where it has ended. Nothing
/// is told of a thread that lives to whoever may not ask.
pub(crate) fn told(pid: u32, tid: u32) -> Option<Option<u64>> {
    match fs::read_to_string(format!("/proc/{pid}/task/{tid}/syscall")) {
        // `running`, or the call's number, which is -1 outside of calls.
        Ok(text) => Some(text.split_whitespace().next().and_then(|word| word.parse().ok())),
        Err(_) => (!lives(pid, tid)).then_some(None),
    }
}

/// Whether a thread is there, and not only its number for whoever waits for it.
fn lives(pid: u32, tid: u32) -> bool {
    let state = Stat::of(&format!("{pid}/task/{tid}")).state();
    state.is_some_and(|state| !matches!(state, 'Z' | 'X'))
}

/// The name of a system call of this machine.
pub(crate) fn name_of(number: u64) -> String {
    let known = usize::try_from(number).ok().and_then(Sysno::new);
    known.map_or_else(|| format!("call {number}"), |call| call.name().to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    const WAIT: u64 = Sysno::ppoll as u64;

    fn call(tid: u32, time_ns: u64, number: u64, begins: bool) -> Call {
        Call { pid: 1, tid, time_ns, number, begins }
    }

    #[test]
    fn a_call_that_does_not_return_takes_no_time_and_ends_what_others_wait_in() {
        let mut traced = Traced::default();
        traced.take(&call(1, 100, WAIT, true), None);
        traced.take(&call(2, 150, EXIT_GROUP, true), None);
        traced.stretch_of_time_ends(1_000_000, false);
        let counts = traced.counts(&HashSet::from([1]), &[], None);
        let seconds = |name: &str| {
            let call = counts.iter().find(|call| call.name == name).expect("it was made");
            (call.count, call.seconds.map(|seconds| (seconds * 1e9).round() as u64))
        };
        assert_eq!(seconds("exit_group"), (1, Some(0)));
        assert_eq!(seconds("ppoll"), (1, Some(50)));
    }

    #[test]
    fn who_ended_while_nothing_was_traced_is_in_no_call_and_who_sleeps_is_where_the_kernel_says() {
        let mut ended = std::process::Command::new("true").spawn().expect("true is everywhere");
        let mut cat = std::process::Command::new("cat");
        let mut cat = cat.stdin(std::process::Stdio::piped()).spawn().expect("cat is everywhere");
        let (here, zombie) = (cat.id(), ended.id());
        let stat = |pid| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let until = Instant::now() + Duration::from_secs(60);
        while lives(zombie, zombie) || !stat(here).contains("(cat) S ") {
            assert!(Instant::now() < until, "{}, {}", stat(zombie), stat(here));
            std::thread::sleep(Duration::from_millis(1));
        }
        // Which call waits for input is the affair of whose cat it is; not every user is told.
        let call = told(here, here).flatten();
        // A number above any that the kernel gives (PID_MAX_LIMIT is 2^22).
        let gone = 1 << 24;
        let mut traced = Traced::default();
        for tid in [here, zombie, gone] {
            traced.take(&Call { pid: tid, tid, time_ns: 0, number: WAIT, begins: true }, Some(0));
        }
        traced.stretch_of_time_ends(100, true);
        traced.window_begins(1000, &[]);
        traced.on_ns = 1;
        traced.stretch_of_time_ends(1100, true);
        for pid in [here, zombie, gone] {
            let counts = traced.counts(&HashSet::from([pid]), &[], None);
            let wait = counts.iter().find(|call| call.name == "ppoll").expect("it was in it");
            let here_in =
                |count: &&SyscallCount| call.is_some_and(|call| count.name == name_of(call));
            let read = counts.iter().find(here_in).and_then(|count| count.seconds);
            let (waited, then) = match pid {
                _ if pid != here => (100e-9, None),
                // Who may not ask takes it to be where it was.
                _ if call.is_none() => (200e-9, None),
                _ => (100e-9, Some(100e-9)),
            };
            assert_eq!((wait.seconds, read), (Some(waited), then), "{pid}");
        }
        drop(cat.stdin.take());
        cat.wait().expect("it ends with its input");
        ended.wait().expect("it is our child");
    }

    #[test]
    fn an_exec_of_another_thread_than_the_first_ends_under_the_number_of_the_first() {
        for window_ns in [None, Some(0)] {
            let mut traced = Traced::default();
            let execve = Sysno::execve as u64;
            for (tid, time_ns, number, begins) in [
                (1, 10, WAIT, true),
                (2, 20, execve, true),
                (1, 30, WAIT, false),
                (1, 70, execve, false),
            ] {
                traced.take(&call(tid, time_ns, number, begins), window_ns);
            }
            traced.on_ns = 1;
            traced.stretch_of_time_ends(1_000_000, false);
            let counts = traced.counts(&HashSet::from([1]), &[], None);
            let of = |name: &str| {
                let call = counts.iter().find(|call| call.name == name).expect("it was made");
                (call.count, call.seconds)
            };
            assert_eq!((of("execve"), of("ppoll")), ((1, Some(50e-9)), (1, Some(20e-9))));
        }
    }

    #[test]
    fn an_exec_of_the_first_thread_that_fails_ends_none_of_another_thread() {
        let mut traced = Traced::default();
        let execve = Sysno::execve as u64;
        for (tid, time_ns, begins) in [(2, 20, true), (1, 30, true), (1, 40, false), (2, 70, false)]
        {
            traced.take(&call(tid, time_ns, execve, begins), None);
        }
        let counts = traced.counts(&HashSet::from([1]), &[], None);
        assert_eq!((counts[0].count, counts[0].seconds), (2, Some(60e-9)));
    }

    #[test]
    fn a_name_that_is_cut_within_a_character_is_one_of_a_thread_that_lives() {
        let ended = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            let (tells, told) = std::sync::mpsc::channel();
            let ended = &ended;
            scope.spawn(move || {
                rustix::thread::set_name(c"fourteen bytes\xc3").expect("any name will do");
                tells.send(rustix::thread::gettid().as_raw_nonzero().get()).expect("it listens");
                ended.wait();
            });
            let (pid, tid) = (std::process::id(), told.recv().expect("it runs").unsigned_abs());
            let alive = lives(pid, tid);
            let name = crate::world::text(&format!("/proc/{tid}/comm"));
            ended.wait();
            assert!(alive, "{name:?}");
            assert_eq!(name, "fourteen bytes\u{fffd}\n");
        });
    }

    #[test]
    fn a_call_that_began_while_nothing_was_traced_takes_the_time_of_the_window_until_it_ends() {
        let mut traced = Traced::default();
        let seen = |calls| Emptied { calls, full_ns: None };
        // The first thread was in another call when it was seen last, the second was never seen, and
        // what comes back from a signal's handler has no number. An exec switched tracing on too early.
        traced.turn(
            &Turn { from: 0, to: 100, in_part: true },
            &seen(vec![call(1, 50, WAIT, true)]),
            true,
        );
        let read = Sysno::read as u64;
        let ends = vec![
            call(1, 900, read, true),
            call(1, 1020, read, false),
            call(2, 1040, read, false),
            call(2, 1050, read, false),
            call(3, 1060, u64::MAX, false),
            call(4, 1200, read, false),
        ];
        traced.turn(&Turn { from: 1000, to: 1100, in_part: true }, &seen(ends), true);
        assert!(!traced.threads.contains_key(&4), "it was on its way off");
        let counts = traced.counts(&HashSet::from([1]), &[], None);
        let spent = |name: &str| {
            let call = counts.iter().find(|call| call.name == name).expect("it was made");
            call.seconds.map(|seconds| (seconds * 1e9).round() as u64)
        };
        assert_eq!((spent("ppoll"), spent("read")), (Some(50), Some(60)), "{counts:?}");
        assert!(counts.iter().all(|call| call.name != "read" || call.count == 0), "{counts:?}");
        assert_eq!(counts.len(), 2, "{counts:?}");
    }

    #[test]
    fn a_turn_in_which_others_had_the_cpu_does_not_make_calls_few() {
        let mut pace = Pace::default();
        let mut are_many = |records: usize| {
            let calls = (0..records).map(|_| call(1, 1, WAIT, true)).collect();
            pace.are_many(7, &Emptied { calls, full_ns: None })
        };
        assert!((1..TURNS).all(|_| !are_many(10 * MANY)), "what is short is traced whole");
        assert!(are_many(10 * MANY));
        assert!(are_many(0), "one turn says nothing");
        assert!((0..TURNS).any(|_| !are_many(0)), "calls have become few");
    }

    #[test]
    fn calls_that_were_traced_in_part_are_as_many_as_were_counted() {
        let mut traced = Traced::default();
        let begun = |from| Emptied { calls: vec![call(1, from, WAIT, true)], full_ns: None };
        traced.turn(&Turn { from: 0, to: 100, in_part: false }, &begun(0), true);
        traced.turn(&Turn { from: 100, to: 200, in_part: true }, &begun(100), true);
        traced.off_ns = 900;
        let count = |all| traced.counts(&HashSet::from([1]), &[], all)[0].count;
        assert_eq!((count(None), count(Some(31.0))), (11, 31));
        assert_eq!(count(Some(7.0)), 7, "it was over before the time that it stands for");
        assert_eq!(count(Some(1.0)), 2, "no fewer than were seen");
    }

    #[test]
    fn the_part_that_was_traced_is_told_of_all_the_time() {
        let mut traced = Traced::default();
        let begun = |from| Emptied { calls: vec![call(1, from, WAIT, true)], full_ns: None };
        assert_eq!(traced.part(), None, "all was");
        traced.turn(&Turn { from: 0, to: 700, in_part: false }, &begun(0), true);
        assert_eq!(traced.part(), None, "all was");
        traced.off_ns = 300;
        assert_eq!(traced.part(), Some(0.7), "it was over before the first window");
        let spent_ns = |traced: &Traced| {
            let counts = traced.counts(&HashSet::from([1]), &[], None);
            counts[0].seconds.map(|seconds| (seconds * 1e9).round())
        };
        assert_eq!(spent_ns(&traced), Some(1000.0), "what was traced stands for the rest");
        traced.turn(&Turn { from: 1000, to: 1100, in_part: true }, &begun(1000), true);
        assert_eq!(traced.part(), Some(800.0 / 1100.0));
        assert_eq!(spent_ns(&traced), Some(700.0 + 400.0), "the window stands for the rest");
    }

    #[test]
    fn what_did_not_fit_into_a_ring_is_made_up_for() {
        // A call a microsecond, and a ring that is full after a quarter of the turn.
        let calls = (0..2000).map(|at| call(1, at * 500, WAIT, at % 2 == 0)).collect();
        let seen = Emptied { calls, full_ns: Some(250_000) }.in_order();
        assert!(Pace::default().are_many(0, &seen), "more than can be traced are many");
        let mut traced = Traced::default();
        traced.turn(&Turn { from: 0, to: 1_000_000, in_part: false }, &seen, true);
        let counts = traced.counts(&HashSet::from([1]), &[], None);
        assert!(counts[0].count.abs_diff(1000) < 10, "{counts:?}");
        let seconds = counts[0].seconds.expect("it took some");
        assert!((seconds - 0.0005).abs() < 0.00001, "{counts:?}");
        assert_eq!(traced.windows, [(0, 1_000_000)], "samples of the turn are left out");
    }
}
