//! Real samples of real work. Nothing here asks how fast or how often: only where samples lie, of
//! work that is nowhere else.

use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytepath_explain::classes::Classes;
use bytepath_explain::counters::name;
use bytepath_explain::profile::{Part, Profile};
use bytepath_explain::{Looked, Settings, Stacks, Watch, Whom, firefox, flame, folded};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// What one test starts is of this process, and would be of another test's work.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Whether the kernel can be looked into here; if not, says so.
fn sees_the_kernel() -> bool {
    let sees = rustix::process::geteuid().is_root()
        && std::fs::read_to_string("/proc/kallsyms")
            .is_ok_and(|text| !text.starts_with("0000000000000000 "));
    let watch = Watch::start(Whom::Started, &[], &Settings::default());
    let refused = watch.takes_no_samples().map(str::to_owned);
    drop(watch);
    if !sees || refused.is_some() {
        eprintln!("skipped: the kernel cannot be looked into here: {refused:?}");
        return false;
    }
    true
}

fn looked_at(program: &str, words: &[&str], settings: &Settings) -> Looked {
    let watch = Watch::start(Whom::Started, &[], settings);
    let ended = Command::new(program)
        .args(words)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .expect("the program is everywhere");
    assert!(ended.success(), "{program}: {ended}");
    watch.stop()
}

/// Samples of one thread by name, and of those the ones that are of a class.
fn of_thread(profile: &Profile, thread: &str, class: &str) -> (u64, u64) {
    let classes = Classes::built_in().of_all(profile);
    let (mut all, mut of_class) = (0, 0);
    for (number, stack) in profile.stacks.iter().enumerate() {
        if profile.thread_of(stack).name == thread {
            all += profile.counts[number];
            of_class += if classes[number] == class { profile.counts[number] } else { 0 };
        }
    }
    (all, of_class)
}

#[inline(never)]
fn spins_here(stop: &AtomicBool) -> u64 {
    // Nothing in it is a call of a function, which would stand between where there are no frame
    // pointers: not even without optimisation.
    let mut sum = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        let mut number = 0_u64;
        while number != 1 << 20 {
            sum ^= number << 3;
            number += 1;
        }
    }
    sum
}

/// Longer than this nothing is waited for.
const HANGS_AFTER: Duration = Duration::from_secs(60);

/// So many hundredths of a second of a CPU (USER_HZ) are enough for samples.
const SPUN_TICKS: u64 = 40;

/// What a thread of this process has used of a CPU outside of the kernel, in ticks (proc_pid_stat(5)).
fn used_ticks(thread: &str) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat"));
    let stat = stat.expect("the thread runs");
    let (_, behind_the_name) = stat.rsplit_once(") ").expect("it has a name");
    behind_the_name.split(' ').nth(11).and_then(|ticks| ticks.parse().ok()).expect("a number")
}

/// Waits until a thread of this process has spun for a while, since now.
#[track_caller]
fn until_it_has_spun(thread: &str) {
    let (before, until) = (used_ticks(thread), Instant::now() + HANGS_AFTER);
    while used_ticks(thread) < before + SPUN_TICKS {
        assert!(Instant::now() < until, "it does not run");
        std::thread::yield_now();
    }
}

#[test]
fn a_thread_that_spins_is_found_in_the_function_in_which_it_does() {
    let _alone = alone();
    for stacks in [Stacks::Tables, Stacks::FramePointers] {
        static STOP: AtomicBool = AtomicBool::new(false);
        STOP.store(false, Ordering::Relaxed);
        let (tells, told) = std::sync::mpsc::channel();
        let body = move || {
            let number = rustix::thread::gettid().as_raw_nonzero();
            tells.send(number.to_string()).expect("somebody listens");
            spins_here(&STOP)
        };
        let spinner =
            std::thread::Builder::new().name("spinner".into()).spawn(body).expect("a thread");
        let settings = Settings { stacks, ..Settings::default() };
        let watch = Watch::start(Whom::Process(std::process::id()), &[], &settings);
        if let Some(why) = watch.takes_no_samples() {
            eprintln!("skipped: {why}");
            STOP.store(true, Ordering::Relaxed);
            return;
        }
        until_it_has_spun(&told.recv().expect("it tells its number"));
        let looked = watch.stop();
        STOP.store(true, Ordering::Relaxed);
        spinner.join().expect("it only counts");
        let profile = looked.profile;
        let (mut all, mut there) = (0, 0);
        for (stack, count) in profile.stacks.iter().zip(&profile.counts) {
            if profile.thread_of(stack).name == "spinner" {
                all += count;
                let is_there =
                    profile.symbols_of(stack).any(|symbol| symbol.name.contains("spins_here"));
                there += if is_there { *count } else { 0 };
            }
        }
        assert!(all > 0, "{stacks:?}: the spinner was not sampled");
        // An interrupt may be sampled while the thread runs.
        assert!(there * 10 >= all * 8, "{stacks:?}: {there} of {all} in the function");
    }
}

#[test]
fn reading_zeros_is_a_class_and_its_stacks_have_names_though_the_process_has_ended() {
    let _alone = alone();
    if !sees_the_kernel() {
        return;
    }
    let looked = looked_at(
        "dd",
        &["if=/dev/zero", "of=/dev/null", "bs=1M", "count=3000"],
        &Settings::default(),
    );
    let (all, zeroing) = of_thread(&looked.profile, "dd", "zeros that are read");
    assert!(all > 20, "{all} samples of dd");
    assert!(zeroing * 2 > all, "{zeroing} of {all} samples are of it");
    let named = |stack: &&bytepath_explain::profile::Stack| {
        looked.profile.thread_of(stack).name == "dd"
            && looked
                .profile
                .symbols_of(stack)
                .any(|symbol| symbol.file.is_some() && !symbol.name.starts_with('['))
    };
    assert!(
        looked.profile.stacks.iter().filter(named).count() > 0,
        "no function of dd's has a name"
    );
    let sum: f64 = looked.explained.classes.iter().map(|class| class.share).sum();
    assert!((sum - 1.0).abs() < 1e-6, "{sum}");
}

#[test]
fn a_program_that_sleeps_leaves_its_cpu_to_others() {
    let _alone = alone();
    if !sees_the_kernel() {
        return;
    }
    let looked = looked_at("sleep", &["0.3"], &Settings::default());
    let share: f64 = looked
        .explained
        .classes
        .iter()
        .filter(|class| ["idle", "other programs"].contains(&class.name.as_str()))
        .map(|class| class.share)
        .sum();
    assert!(looked.explained.samples > 0);
    assert!(share > 0.5, "{share}: {:?}", looked.explained.classes);
    let own = looked.profile.threads.iter().filter(|thread| thread.part == Part::Work);
    assert!(
        own.clone().all(|thread| thread.tid != std::process::id()),
        "the one that waits is sampled"
    );
}

#[test]
fn system_calls_are_counted_by_name_and_switches_with_them() {
    let _alone = alone();
    if !sees_the_kernel() {
        return;
    }
    let words = ["if=/dev/zero", "of=/dev/null", "bs=512", "count=500"];
    let looked = looked_at("dd", &words, &Settings::default());
    if looked.explained.syscalls.is_empty() {
        let why: Vec<_> =
            looked.explained.missing.iter().filter(|why| why.contains("not counted")).collect();
        assert!(!why.is_empty(), "no system calls, and nobody says why");
        eprintln!("skipped: {why:?}");
        return;
    }
    let calls = |name: &str| {
        looked.explained.syscalls.iter().find(|call| call.name == name).map_or(0, |call| call.count)
    };
    // It opens, loads and closes besides. So few calls are all traced.
    assert!((500..600).contains(&calls("read")), "{:?}", looked.explained.syscalls);
    assert!((500..600).contains(&calls("write")), "{:?}", looked.explained.syscalls);
    // The one that started it was its parent's, as were those that searched PATH for it.
    assert_eq!(calls("execve"), 0, "{:?}", looked.explained.syscalls);
    // All of them are told by name.
    let told: u64 = looked.explained.syscalls.iter().map(|call| call.count).sum();
    assert_eq!(looked.explained.counters[name::SYSCALLS], told as f64);
    let counters = &looked.explained.counters;
    assert!(counters[name::FAULTS_MINOR] > 0.0, "{counters:?}");
    assert!(counters[name::SYSCALLS] >= 1000.0, "{counters:?}");
    for (name, count) in counters {
        assert!(*count >= 0.0 && count.is_finite(), "{name}: {count}");
    }
}

#[test]
fn what_was_sampled_can_be_exported_in_every_way() {
    let _alone = alone();
    let looked = looked_at(
        "sh",
        &["-c", "i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done"],
        &Settings::default(),
    );
    if looked.profile.samples() == 0 {
        eprintln!("skipped: {:?}", looked.explained.missing);
        return;
    }
    let stacks = folded::all(&looked.profile);
    let folded: u64 = stacks.iter().map(|stack| stack.count).sum();
    assert_eq!(folded, looked.profile.samples());
    let svg =
        String::from_utf8(flame::graph("sh", &stacks).expect("it has samples")).expect("UTF-8");
    assert!(svg.trim_end().ends_with("</svg>"));
    let json = firefox::json("sh", looked.explained.hz, &looked.profile).expect("it is JSON");
    let json: serde_json::Value = serde_json::from_slice(&json).expect("it parses");
    let samples: u64 = json["threads"]
        .as_array()
        .expect("it has threads")
        .iter()
        .filter_map(|thread| thread["samples"]["length"].as_u64())
        .sum();
    assert_eq!(samples, looked.profile.moments.len() as u64);
    // What a record keeps says the same as all of it.
    let kept = &looked.explained.stacks;
    assert_eq!(kept.iter().map(|stack| stack.count).sum::<u64>(), folded);
    let again = Profile::from_folded(kept.iter().map(|stack| (stack.frames.as_str(), stack.count)));
    let class_counts = |profile: &Profile| {
        let mut counts = std::collections::BTreeMap::<String, u64>::new();
        for (class, count) in Classes::built_in().of_all(profile).into_iter().zip(&profile.counts) {
            *counts.entry(class.to_owned()).or_default() += count;
        }
        counts.retain(|_, count| *count > 0);
        counts
    };
    assert_eq!(class_counts(&again), class_counts(&looked.profile));
}

/// Two of the CPUs that this thread may run on, each as a set; if there is but one, says so.
fn two_cpus() -> Option<[(u32, CpuSet); 2]> {
    let all = sched_getaffinity(None).expect("fewer CPUs than a set has");
    let mut cpus = (0..CpuSet::MAX_CPU).filter(|cpu| all.is_set(*cpu)).map(|cpu| {
        let mut set = CpuSet::new();
        set.set(cpu);
        (u32::try_from(cpu).expect("few"), set)
    });
    let two = cpus.next().zip(cpus.next());
    if two.is_none() {
        eprintln!("skipped: there is one CPU");
    }
    two.map(Into::into)
}

/// What counts of a second, in which `sh` spins.
const SPINS: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";

#[test]
fn work_that_goes_to_a_cpu_on_which_nothing_was_to_run_is_sampled_there() {
    let _alone = alone();
    let Some([(here, on_here), (there, on_there)]) = two_cpus().filter(|_| sees_the_kernel())
    else {
        return;
    };
    // Affinity is this thread's alone, and ends with it.
    let (looked, ended) = std::thread::spawn(move || {
        sched_setaffinity(None, &on_here).expect("it may run there");
        let watch = Watch::start(Whom::Started, &[], &Settings::default());
        sched_setaffinity(None, &on_there).expect("it may run there");
        let ended = Command::new("sh").args(["-c", SPINS]).status();
        (watch.stop(), ended)
    })
    .join()
    .expect("it panics no more than others");
    assert!(ended.expect("sh is everywhere").success());
    let own = |stack: &bytepath_explain::profile::Stack| {
        looked.profile.thread_of(stack).part == Part::Work
    };
    let counts = looked.profile.stacks.iter().zip(&looked.profile.counts);
    let sampled: u64 = counts.filter(|(stack, _)| own(stack)).map(|(_, count)| count).sum();
    assert!(sampled > 20, "{sampled} samples of what spins");
    assert_eq!(looked.explained.cpus, [here, there]);
}

#[test]
fn a_process_runs_on_the_cpus_of_all_that_come_from_it() {
    let _alone = alone();
    let Some([(here, on_here), (there, on_there)]) = two_cpus().filter(|_| sees_the_kernel())
    else {
        return;
    };
    let mut parent = Command::new("sh")
        .args(["-c", "exec 3<&0; cat <&3 & echo $!; wait"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("sh is everywhere");
    let mut line = String::new();
    let said = parent.stdout.take().expect("it is piped");
    std::io::BufRead::read_line(&mut std::io::BufReader::new(said), &mut line).expect("it says");
    let child = rustix::process::Pid::from_raw(line.trim().parse().expect("a number"));
    sched_setaffinity(Some(rustix::process::Pid::from_child(&parent)), &on_here).expect("ours");
    sched_setaffinity(child, &on_there).expect("it is our child's");
    let looked = Watch::start(Whom::Process(parent.id()), &[], &Settings::default()).stop();
    drop(parent.stdin.take());
    parent.wait().expect("it ends with its child");
    assert_eq!(looked.explained.cpus, [here, there]);
}

#[test]
fn a_process_that_is_not_there_has_no_samples_and_nothing_breaks() {
    let _alone = alone();
    let mut child = Command::new("true").spawn().expect("true is everywhere");
    let pid = child.id();
    child.wait().expect("it ends");
    let looked = Watch::start(Whom::Process(pid), &[], &Settings::default()).stop();
    assert!(
        looked.profile.threads.iter().all(|thread| thread.part != Part::Work),
        "{:?}",
        looked.profile.threads
    );
    assert!(!looked.explained.sentence.is_empty());
}
