//! Looks at some work while it runs, and explains afterwards where its time went.

use std::collections::{BTreeMap, HashMap};
use std::fs;

use bytepath_report::{ClassShare, Explained};
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity};

use crate::came_from::{by_call, unclaimed};
use crate::classes::{Classes, DESCRIPTORS, UNCLAIMED, UNDIVIDED};
use crate::counters::{Counted, Counting, name, why};
use crate::missing::{Missing, NO_SAMPLES};
use crate::open::{Source, View};
use crate::profile::{IDLE, OTHERS, Part, Profile, Stack, Thread};
use crate::sampler::{Cpus, Sampled, Sampling, online};
use crate::sentence::{Known, sentence};
use crate::shares::{Seen, Share, shares};
use crate::syscalls::{Traced, Tracing};
use crate::tracefs::Tracepoints;
use crate::world::{Stat, threads_of, with_descendants};
use crate::{Settings, Whom, folded, symbols};

/// Some work is being looked at.
pub struct Watch {
    whom: Whom,
    settings: Settings,
    /// The CPUs that the work may run on.
    cpus: Vec<u32>,
    /// Whether it was put on these CPUs, so that all their time is its.
    its_cpus: bool,
    sampling: Option<Sampling>,
    tracing: Option<Tracing>,
    counting: Counting,
    began: std::time::Instant,
    worked: Worked,
    idle_s: HashMap<u32, f64>,
    missing: Vec<String>,
}

/// What was seen of some work.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Looked {
    /// What it says, as a record keeps it.
    pub explained: Explained,
    /// All samples, for exports and graphs.
    pub profile: Profile,
}

impl Watch {
    /// Begins to look at `whom`. `pinned` are the CPUs that the work is put on, where it is.
    ///
    /// It never fails: what cannot be seen is told by what was seen.
    pub fn start(whom: Whom, pinned: &[usize], settings: &Settings) -> Watch {
        let mut missing: Vec<String> = Vec::new();
        let online = online();
        let threads: Vec<u32> = match whom {
            Whom::Started => Vec::new(),
            Whom::Process(pid) => with_descendants(pid).into_iter().flat_map(threads_of).collect(),
        };
        let mut cpus: Vec<u32> = match pinned {
            [] => allowed(whom, &threads, &online),
            pinned => pinned.iter().filter_map(|cpu| u32::try_from(*cpu).ok()).collect(),
        };
        cpus.sort_unstable();
        cpus.dedup();
        let is_free = |cpu: &&u32| pinned.is_empty() && !cpus.contains(cpu);
        let elsewhere: Vec<u32> = online.iter().filter(is_free).copied().collect();
        let looked_at = Cpus { allowed: &cpus, elsewhere: &elsewhere };
        let found = Tracepoints::find();
        let tracepoints = found.as_ref().ok();
        let tracing = settings.syscalls.then_some(tracepoints).flatten();
        let tracing = tracing.and_then(|from| {
            Tracing::start(from, whom, &threads, &online)
                .map_err(|error| {
                    let what = "system calls by name";
                    missing.push(Missing::no_tracepoints(what, &why(&error)).0);
                })
                .ok()
        });
        let own: Vec<u32> = tracing.iter().map(|tracing| tracing.tid).collect();
        let sampling = Sampling::start(whom, looked_at, settings, &own, &mut missing)
            .map_err(|why| missing.push(why.0))
            .ok();
        let counted = Counted {
            whom,
            threads: &threads,
            online: &online,
            tracepoints,
            syscalls: tracing.is_some(),
        };
        let counting = Counting::start(&counted, &mut missing);
        if let Err(error) = &found {
            let what = format!("system calls by name, {}", counting.traced());
            missing.push(Missing::no_tracepoints(&what, &no_tracefs(error)).0);
        }
        Watch {
            whom,
            settings: settings.clone(),
            idle_s: idle_s(),
            cpus,
            its_cpus: !pinned.is_empty(),
            sampling,
            tracing,
            counting,
            began: std::time::Instant::now(),
            worked: Worked::by_now(whom),
            missing,
        }
    }

    /// Why no samples can be taken, if none can.
    pub fn takes_no_samples(&self) -> Option<&str> {
        match self.sampling {
            Some(_) => None,
            None => self.missing.iter().find(|why| why.starts_with(NO_SAMPLES)).map(String::as_str),
        }
    }

    /// What will be missing because it is refused here; a machine that has no hardware counters refuses
    /// nothing.
    pub fn refused(&self) -> impl Iterator<Item = &str> {
        let lesser = Missing::no_cycles().0;
        self.missing.iter().filter(move |why| **why != lesser).map(String::as_str)
    }

    /// Looks no longer.
    pub fn stop(mut self) -> Looked {
        let seconds = self.began.elapsed().as_secs_f64();
        let system_s = Worked::by_now(self.whom).seconds_since(&self.worked);
        let idle_s = idle_s();
        let counters = self.counting.stop(&mut self.missing);
        // The tracer takes its time to end, which is none of the work's.
        let sampled = self.sampling.take().map(Sampling::stop);
        let tracer = self.tracing.as_ref().map(|tracing| tracing.tid);
        let traced = self.tracing.take().map(Tracing::stop);
        let Some(sampled) = sampled else {
            let explained = Explained { seconds, counters, ..Explained::default() };
            let explained = Explained { missing: self.missing, ..explained };
            let (seen, cpus) = (Seen::Threads, self.cpus.len());
            let sentence = sentence(&explained, Known { own: 0, cpus, seen, usable: 1.0 });
            return Looked {
                explained: Explained { sentence, ..explained },
                profile: Profile::default(),
            };
        };
        let mut profile = symbols::named(&sampled.collected, &mut self.missing);
        // What is counted of all says nothing of a part.
        let all = counters.get(name::SYSCALLS).filter(|_| self.settings.beside.is_empty()).copied();
        if let Some(traced) = &traced {
            without_windows(&mut profile, traced);
            let in_part = traced.part().map(|part| Missing::calls_in_part(part, all.is_some()).0);
            self.missing.extend(in_part);
        }
        let calls_traced = traced.as_ref().and_then(|traced| traced.part());
        let cpus: Vec<u32> = sampled.collected.cpus().into_iter().collect();
        let idle_since =
            |cpu: &u32| Some((*cpu, (idle_s.get(cpu)? - self.idle_s.get(cpu)?).max(0.0)));
        let idle_s = cpus.iter().filter_map(idle_since).collect();
        Beside { system_s, idle_s }.put_in(&mut profile, &sampled);
        let syscalls = traced.map_or_else(Vec::new, |traced| {
            let own: Vec<u32> = tracer.into_iter().collect();
            traced.counts(&sampled.collected.world.ever, &own, all)
        });
        let lost = sampled.collected.lost;
        if lost > 0 {
            self.missing.push(Missing::lost(lost, profile.samples()).0);
        }
        let whole = sampled.view == View::Cpus;
        let seen = match (whole, self.its_cpus) {
            (false, _) => Seen::Threads,
            (true, true) => Seen::ItsCpus(cpus.len()),
            (true, false) => Seen::Cpus(cpus.len()),
        };
        let usable = seen.usable(&profile, sampled.hz);
        let known = Known { own: of_the_work(&profile), cpus: cpus.len(), seen, usable };
        let explained = Explained {
            source: sampled.source.name().to_owned(),
            hz: sampled.hz,
            lost,
            seconds: sampled.seconds,
            cpus: if whole { cpus } else { Vec::new() },
            counters,
            syscalls,
            calls_traced,
            missing: self.missing,
            ..Explained::default()
        };
        let mut explained = filled(explained, &profile, seen, usable);
        explained.sentence = sentence(&explained, known);
        Looked { explained, profile }
    }
}

fn no_tracefs(error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) if rustix::process::geteuid().is_root() => {
            "tracefs is refused to root here, as by a container or a sandbox; run it outside"
                .to_owned()
        }
        Some(libc::EACCES | libc::EPERM) => {
            "tracefs is for root alone; run as root, or mount it with a gid of yours".to_owned()
        }
        Some(libc::ENODEV | libc::ENOSYS) => {
            "this kernel has no tracefs (CONFIG_FTRACE)".to_owned()
        }
        _ => format!("tracefs: {error}"),
    }
}

/// Takes out the samples that were taken while many calls were traced, which made the work slower, unless
/// most of those of the work are such.
fn without_windows(profile: &mut Profile, traced: &Traced) {
    let in_window = |time_ns: u64| {
        let at = traced.windows.partition_point(|(_, to)| *to < time_ns);
        traced.windows.get(at).is_some_and(|(from, _)| *from <= time_ns)
    };
    let works = |stack: u32| profile.thread_of(&profile.stacks[stack as usize]).part == Part::Work;
    let (inside, outside): (Vec<bool>, Vec<bool>) = profile
        .moments
        .iter()
        .filter(|moment| works(moment.stack))
        .map(|moment| in_window(moment.time_ns))
        .partition(|inside| *inside);
    // Work that is over soon was hardly seen at any other time.
    if inside.len() > outside.len() {
        return;
    }
    for moment in profile.moments.iter().filter(|moment| in_window(moment.time_ns)) {
        profile.counts[moment.stack as usize] -= 1;
    }
    profile.moments.retain(|moment| !in_window(moment.time_ns));
}

/// Time that samples do not show.
struct Beside {
    /// In the kernel, on behalf of the work.
    system_s: f64,
    /// In which nothing ran on a CPU, by its number.
    idle_s: BTreeMap<u32, f64>,
}

impl Beside {
    fn put_in(&self, profile: &mut Profile, sampled: &Sampled) {
        let samples = |seconds: f64| (seconds * f64::from(sampled.hz)).round() as u64;
        if sampled.view == View::UserSpace && self.system_s > 0.0 {
            add(profile, UNDIVIDED, Part::Work, samples(self.system_s));
        }
        if sampled.view != View::Cpus {
            return;
        }
        // CPUs on which the work alone was sampled have an idle time, too, and others have the rest of it.
        let elsewhere = &sampled.collected.elsewhere;
        let unseen = |cpu: &u32| sampled.source == Source::Cycles || elsewhere.contains_key(cpu);
        let idle_s = self.idle_s.iter().filter(|(cpu, _)| unseen(cpu)).map(|(_, idle_s)| idle_s);
        add(profile, IDLE, Part::Idle, samples(idle_s.sum()));
        let of_others = |(cpu, of_work): (&u32, &u64)| {
            let busy_s = sampled.seconds - self.idle_s.get(cpu).copied().unwrap_or(0.0);
            samples(busy_s).saturating_sub(*of_work)
        };
        add(profile, OTHERS, Part::Others, elsewhere.iter().map(of_others).sum());
    }
}

fn add(profile: &mut Profile, name: &str, part: Part, count: u64) {
    if count == 0 {
        return;
    }
    let thread = u32::try_from(profile.threads.len()).unwrap_or(u32::MAX);
    profile.threads.push(Thread { pid: 0, tid: 0, name: name.to_owned(), part });
    profile.stacks.push(Stack { thread, frames: Vec::new() });
    profile.counts.push(count);
}

/// What the samples say, put into an explanation that has all the rest but the sentence.
fn filled(mut explained: Explained, profile: &Profile, seen: Seen, usable: f64) -> Explained {
    let known = Classes::built_in();
    let classes = known.of_all(profile);
    explained.samples = profile.samples();
    let shares = shares(profile, &classes, seen, usable);
    explained.classes = shares.into_iter().map(class_share).collect();
    let share = explained.classes.iter().find(|class| class.name == UNCLAIMED);
    let share = share.map_or(0.0, |class| class.share);
    explained.unclaimed = unclaimed(profile, &classes, share);
    explained.descriptor_calls = by_call(profile, &classes, DESCRIPTORS);
    explained.stacks = folded::bounded(profile, &classes);
    explained
}

fn class_share(share: Share) -> ClassShare {
    ClassShare { name: share.class, share: share.share, ci95: share.ci95, published: None }
}

/// How many samples are of the work itself.
fn of_the_work(profile: &Profile) -> u64 {
    let own = profile.stacks.iter().zip(&profile.counts);
    let own = own.filter(|(stack, _)| profile.thread_of(stack).part == Part::Work);
    own.map(|(_, count)| count).sum()
}

/// The CPUs that the work may run on: those of any of its threads, or of what this thread starts.
fn allowed(whom: Whom, threads: &[u32], online: &[u32]) -> Vec<u32> {
    let number = |thread: &u32| Pid::from_raw(i32::try_from(*thread).ok()?);
    let threads: Vec<Option<Pid>> = match whom {
        Whom::Started => vec![None],
        Whom::Process(_) => threads.iter().filter_map(number).map(Some).collect(),
    };
    let sets = threads.into_iter().filter_map(|thread| sched_getaffinity(thread).ok());
    let sets: Vec<CpuSet> = sets.collect();
    let has = |set: &CpuSet, cpu: usize| cpu < CpuSet::MAX_CPU && set.is_set(cpu);
    // The kernel tells nothing where there are more CPUs than a set has, or the process has ended.
    let may = |cpu: &u32| sets.is_empty() || sets.iter().any(|set| has(set, *cpu as usize));
    online.iter().copied().filter(may).collect()
}

/// How long the kernel has worked for the processes that there are, by their numbers.
struct Worked(HashMap<u32, Process>);

#[derive(Clone, Copy, Default)]
struct Process {
    parent: u32,
    began: u64,
    /// How long the kernel has worked for itself, in ticks.
    own: u64,
    /// And for those of its children that have ended, if it has waited for them.
    of_ended: u64,
}

impl Process {
    fn of(pid: u32) -> Option<Process> {
        let stat = Stat::of(&pid.to_string());
        let parent = u32::try_from(stat.number(1)?).ok()?;
        let [own, of_ended] = [stat.number(12)?, stat.number(14)?];
        Some(Process { parent, began: stat.number(19)?, own, of_ended })
    }
}

impl Worked {
    /// What this process starts counts once it has ended.
    fn by_now(whom: Whom) -> Worked {
        let of = |pid: u32| Some((pid, Process::of(pid)?));
        Worked(match whom {
            Whom::Started => {
                let this = of(std::process::id());
                this.map(|(pid, this)| (pid, Process { own: 0, ..this })).into_iter().collect()
            }
            Whom::Process(pid) => with_descendants(pid).into_iter().filter_map(of).collect(),
        })
    }

    fn has(&self, pid: u32, process: &Process) -> bool {
        self.0.get(&pid).is_some_and(|found| found.began == process.began)
    }

    fn seconds_since(&self, then: &Worked) -> f64 {
        let mut own = 0;
        let mut of_ended = HashMap::new();
        for (pid, now) in &self.0 {
            let before = then.0.get(pid).filter(|before| before.began == now.began);
            let before = before.copied().unwrap_or_default();
            own += now.own.saturating_sub(before.own);
            of_ended.insert(*pid, now.of_ended.saturating_sub(before.of_ended));
        }
        // Who has ended meanwhile has left whoever waited for it what it had had before, too; but not where
        // nobody did, or another process did, or it only lives elsewhere now.
        for (pid, had) in then.0.iter().filter(|(pid, had)| !self.has(**pid, had)) {
            let parent_of = |pid: &u32| then.0.get(pid).map(|process| process.parent);
            let is_left = |pid: &u32| then.0.get(pid).is_some_and(|left| self.has(*pid, left));
            let mut above = std::iter::successors(Some(had.parent), parent_of).take(then.0.len());
            let lives = || Process::of(*pid).is_some_and(|found| found.began == had.began);
            if let Some(left) = above.find(is_left)
                && let Some(of_ended) = of_ended.get_mut(&left)
                && !lives()
            {
                *of_ended = of_ended.saturating_sub(had.own + had.of_ended);
            }
        }
        let ticks = own + of_ended.values().sum::<u64>();
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64
    }
}

/// How long each CPU has been idle since it is there, and has waited for a device, by its number.
fn idle_s() -> HashMap<u32, f64> {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let idle = text.lines().filter_map(|line| {
        let mut words = line.strip_prefix("cpu")?.split(' ');
        let cpu = words.next()?.parse().ok()?;
        let mut times = words.skip(3).map_while(|word| word.parse::<f64>().ok());
        let ticks = times.next()? + times.next()?;
        Some((cpu, ticks / rustix::param::clock_ticks_per_second() as f64))
    });
    idle.collect()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;
    use crate::collect::Collected;
    use crate::profile::Symbol;
    use crate::record::{Kind, Record, Sample};
    use crate::world::World;

    fn symbol(name: &str) -> Symbol {
        Symbol { name: name.to_owned(), is_kernel: true, file: None }
    }

    #[test]
    fn what_no_class_claims_has_shares_of_the_time_that_classes_divide() {
        let mut profile = Profile { symbols: vec![symbol("frobnicate")], ..Profile::default() };
        add(&mut profile, "work", Part::Work, 30);
        add(&mut profile, IDLE, Part::Idle, 170);
        profile.stacks[0].frames = vec![0];
        // Of two CPUs, one could be used: half of what was sampled is no time of the work's.
        let explained = filled(Explained::default(), &profile, Seen::Cpus(2), 1.0);
        let class = explained.classes.iter().find(|class| class.name == UNCLAIMED).expect("it is");
        let [only] = explained.unclaimed.as_slice() else { panic!("{:?}", explained.unclaimed) };
        assert!((only.share - class.share).abs() < 1e-9, "{only:?} of {class:?}");
        assert!((class.share - 0.3).abs() < 1e-9, "{class:?}");
    }

    #[test]
    fn a_cpu_on_which_the_work_alone_is_sampled_is_idle_or_others_for_the_rest_of_the_time() {
        // A number above any that the kernel gives (PID_MAX_LIMIT is 2^22).
        let work = 1 << 24;
        let of = |source| {
            let mut collected = Collected::new(World::new(&[work], []), [0]);
            let sample = Sample { pid: work, tid: work, ..Sample::default() };
            for time_ns in 0..50 {
                let kind = Kind::Sample(Box::new(sample.clone()));
                collected.take(Record { time_ns, cpu: 1, kind });
            }
            let view = View::Cpus;
            let sampled = Sampled { collected, view, source, hz: 100, seconds: 2.0 };
            let mut profile = Profile::default();
            let idle_s = BTreeMap::from([(0, 1.0), (1, 0.5)]);
            Beside { system_s: 0.0, idle_s }.put_in(&mut profile, &sampled);
            let parts = profile.threads.iter().map(|thread| thread.part);
            parts.zip(profile.counts).collect::<Vec<_>>()
        };
        assert_eq!(of(Source::CpuClock), [(Part::Idle, 50), (Part::Others, 100)]);
        assert_eq!(of(Source::Cycles), [(Part::Idle, 150), (Part::Others, 100)]);
    }

    #[test]
    fn the_kernel_works_for_a_process_where_it_works_for_what_that_has_started() {
        let line = "dd if=/dev/zero of=/dev/null bs=1 2>&1 & echo $!; wait";
        let mut shell = std::process::Command::new("sh");
        let shell = shell.args(["-c", line]).stdout(std::process::Stdio::piped());
        let mut shell = shell.spawn().expect("sh is everywhere");
        let mut said = std::io::BufReader::new(shell.stdout.take().expect("it is piped"));
        let mut dd = String::new();
        std::io::BufRead::read_line(&mut said, &mut dd).expect("it says a number");
        let dd = rustix::process::Pid::from_raw(dd.trim().parse().expect("a number"));
        let whom = Whom::Process(shell.id());
        let (then, until) = (Worked::by_now(whom), Instant::now() + Duration::from_secs(60));
        let mut seconds = 0.0;
        while seconds == 0.0 && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
            seconds = Worked::by_now(whom).seconds_since(&then);
        }
        let killed = rustix::process::kill_process(dd.expect("one"), rustix::process::Signal::KILL);
        killed.expect("it runs");
        shell.wait().expect("it ends with its child");
        assert!(seconds > 0.0);
    }

    #[test]
    fn what_had_been_done_before_for_who_has_ended_is_done_no_second_time() {
        let second = rustix::param::clock_ticks_per_second();
        // Numbers above any that the kernel gives (PID_MAX_LIMIT is 2^22).
        let [parent, child, grandchild, new] = [1 << 24, 2 << 24, 3 << 24, 4 << 24];
        let of = |parent, own, of_ended| Process { parent, began: 10, own, of_ended };
        let then = Worked(HashMap::from([
            (parent, of(1, 5, 7)),
            (child, of(parent, 100, 100)),
            (grandchild, of(child, 100, 0)),
        ]));
        let now = of(1, 5 + second, 7 + 300 + 2 * second);
        let new = (new, of(parent, 4 * second, 8 * second));
        assert_eq!(Worked(HashMap::from([(parent, now), new])).seconds_since(&then), 15.0);
        assert_eq!(Worked(HashMap::new()).seconds_since(&then), 0.0);
    }

    #[test]
    fn what_was_done_for_who_has_left_is_taken_from_nobody_but_who_waited_for_it() {
        let second = rustix::param::clock_ticks_per_second();
        let [root, waits, ended] = [1 << 24, 2 << 24, 3 << 24];
        let of = |parent, of_ended| Process { parent, began: 10, own: 0, of_ended };
        let had = |pid, of: Process| (pid, Process { own: 100 * second, ..of });
        // Nobody waited for the one; the other, which is this process, has come to another parent.
        let this = std::process::id();
        let lives = Process::of(this).expect("it lives");
        let then = Worked(HashMap::from([
            (root, of(1, 0)),
            (waits, of(root, 0)),
            had(ended, of(root, 0)),
            had(this, Process { parent: waits, ..lives }),
        ]));
        let now = Worked(HashMap::from([(root, of(1, 0)), (waits, of(root, 3 * second))]));
        assert_eq!(now.seconds_since(&then), 3.0);
    }

    #[test]
    fn a_kernel_without_names_is_told_undivided() {
        let nameless = symbol(crate::classes::NAMELESS);
        let mut profile = Profile { symbols: vec![nameless], ..Profile::default() };
        add(&mut profile, "work", Part::Work, 30);
        profile.stacks[0].frames = vec![0, 0];
        let explained = filled(Explained::default(), &profile, Seen::Threads, 1.0);
        assert_eq!(explained.classes[0].name, UNDIVIDED);
        assert!(explained.unclaimed.is_empty());
    }
}
