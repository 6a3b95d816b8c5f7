//! The sentence: what dominated, and what to try.

use bytepath_report::numbers;

use crate::Explained;
use crate::classes::{
    Classes, IDLE, KERNEL_THREADS, OTHERS, UNCLAIMED, UNDIVIDED, USER, is_beside,
};
use crate::counters::name;
use crate::folded::RARE;
use crate::profile::Profile;
use crate::shares::Seen;

/// From this share on a class dominates.
const DOMINATES: f64 = 0.25;

/// From this share of idle time on, waiting is what there is to say.
const WAITS: f64 = 0.35;

/// From this share of the time on, calls in which it slept are what there is to say where others had the
/// CPUs, if the work itself had one for no more than that.
const SLEEPS: f64 = 0.5;
const RUNS_MAX: f64 = 0.1;

/// Calls that wait for processes and threads of the work itself, which may want a CPU; dash(1) waits for
/// its children's signal.
const WAITS_FOR_ITSELF: [&str; 6] =
    ["wait4", "waitid", "rt_sigsuspend", "futex", "futex_wait", "futex_waitv"];

/// Above so many switches a second of each CPU that it could use, sleeping is for each other and not for a device.
const SWITCHES_A_SECOND: f64 = 2_000.0;

/// Fewer samples of the work itself than these say nothing about it.
const OWN_MIN: u64 = 20;

/// What there is to know of the work beside what is explained.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Known {
    /// Samples that are of the work itself.
    pub(crate) own: u64,
    /// CPUs that it could run on.
    pub(crate) cpus: usize,
    /// What was seen of it.
    pub(crate) seen: Seen,
    /// Of so many CPUs the shares divide the time.
    pub(crate) usable: f64,
}

/// A paragraph for a person.
pub(crate) fn sentence(explained: &Explained, known: Known) -> String {
    if explained.samples == 0 {
        return "Nothing was sampled, so there is nothing to say.".to_owned();
    }
    let idle = share(explained, IDLE);
    let mut text = match idle {
        idle if idle >= WAITS => waiting(explained, idle, known),
        _ => sleeping(explained, known.own).unwrap_or_else(|| match known.own {
            ..OWN_MIN => too_little(explained, known),
            _ => working(explained, known.cpus),
        }),
    };
    let of_kernel = share(explained, KERNEL_THREADS);
    if of_kernel >= 0.1 {
        text += &format!(
            " Threads of the kernel took {} of these CPUs' time, for the work or for other \
             programs (it is they who write back what was written): --tree shows what they did.",
            percent(of_kernel)
        );
    }
    let others = share(explained, OTHERS);
    if others >= 0.1 {
        text += &format!(
            " Other programs took {} of these CPUs' time: measure again on an idle machine.",
            percent(others)
        );
    }
    text
}

/// Where the CPUs were not idle because others had them, calls tell that the work itself slept, unless it
/// waited in them for a CPU.
fn sleeping(explained: &Explained, own: u64) -> Option<String> {
    let counted = |counter: &str| explained.counters.get(counter).copied().unwrap_or(0.0);
    let calls = || {
        let calls = explained.syscalls.iter();
        calls.filter(|call| !WAITS_FOR_ITSELF.contains(&call.name.as_str()))
    };
    let longest = calls().next()?;
    let in_calls = calls().filter_map(|call| call.seconds).sum::<f64>();
    let ran = own as f64 / f64::from(explained.hz.max(1));
    let slept = in_calls.min(explained.seconds) - ran;
    let by_itself = counted(name::SWITCHES_VOLUNTARY) > counted(name::SWITCHES_INVOLUNTARY);
    let sleeps = slept >= SLEEPS * explained.seconds && ran <= RUNS_MAX * explained.seconds;
    (sleeps && by_itself).then(|| {
        format!(
            "It slept for {} of {}, most of all in {}: what it waits for (a device, a peer, a timer) \
             decides, not the CPU.",
            numbers::time(slept),
            numbers::time(explained.seconds),
            longest.name
        )
    })
}

fn too_little(explained: &Explained, known: Known) -> String {
    let own = known.own;
    let mut text = format!(
        "Too little ran to say where its time went: {own} of {} came from the work itself",
        numbers::counted(explained.samples, "sample")
    );
    let longest =
        explained.syscalls.iter().find(|call| call.seconds.is_some_and(|time| time > 0.0));
    if let Some(call) = longest {
        text += &format!(", which was longest in {}", call.name);
    }
    text += "; let it run for longer, or take more samples (--hz).";
    if let Seen::Cpus(2..) = known.seen {
        text += " The shares are of less time: that of as many CPUs as it used at once.";
    }
    text
}

fn waiting(explained: &Explained, idle: f64, known: Known) -> String {
    let rate = |counter: &str| {
        let count = explained.counters.get(counter).copied().unwrap_or(0.0);
        count / explained.seconds.max(1e-9) / known.usable
    };
    let across = rate(name::WAKEUPS_ACROSS);
    let switches = rate(name::SWITCHES_VOLUNTARY).max(rate(name::SWITCHES));
    let time = match known.seen {
        Seen::Cpus(2..) => "the time of as many CPUs as it used at once",
        Seen::ItsCpus(2..) => "the time of its CPUs",
        _ => "the CPU's time",
    };
    let whole = percent(idle);
    let why = if across >= SWITCHES_A_SECOND && known.cpus > 1 {
        "is idle: threads sleep and wake each other across CPUs; put them on one CPU or let them \
         spin; see --wait hybrid"
            .to_owned()
    } else if switches >= SWITCHES_A_SECOND {
        "is idle between short sleeps: larger pipes, buffers or batches make them fewer".to_owned()
    } else {
        // A call that took less is not what it waits in: it may sleep by page faults, or be stopped.
        let waited_in = explained
            .syscalls
            .iter()
            .find(|call| call.seconds.is_some_and(|time| time >= idle * explained.seconds / 2.0));
        match waited_in {
            Some(call) => format!(
                "is idle: it waits, most of all in {}; what it waits for (a device, a peer, a timer) \
                 decides, not the CPU",
                call.name
            ),
            None => "is idle: it waits for a device, a peer or a timer, not for the CPU".to_owned(),
        }
    };
    let mut text = format!("{whole} of {time} {why}.");
    if let Some(next) = largest(explained).filter(|next| next.1 >= 0.05) {
        text += &format!(" Of the rest most is {} ({} of all time).", next.0, percent(next.1));
    }
    text
}

fn working(explained: &Explained, cpus: usize) -> String {
    let beside = explained.classes.iter().filter(|class| is_beside(&class.name));
    let busy = 1.0 - beside.map(|class| class.share).sum::<f64>();
    let mut own = explained.classes.iter().filter(|class| !is_beside(&class.name));
    let Some(first) = own.next().filter(|class| class.share > 0.0) else {
        return "Nothing of the work itself was sampled.".to_owned();
    };
    let (class, of_busy) = (first.name.as_str(), first.share / busy);
    let advice = match class {
        UNCLAIMED => {
            let symbols: Vec<&str> =
                explained.unclaimed.iter().take(3).map(|symbol| symbol.symbol.as_str()).collect();
            format!("no class claims it; most of it is in {}", symbols.join(", "))
        }
        UNDIVIDED => {
            "system calls and faults, of which this user may see no more: see what is missing below"
                .to_owned()
        }
        USER => leaf_of_user(explained),
        _ => {
            let known = Classes::built_in().named(class);
            known.map_or_else(String::new, |class| {
                format!("{}; to try: {}", class.about, class.advice_on(cpus))
            })
        }
    };
    let percents = percent(of_busy);
    let mut text = match of_busy >= DOMINATES {
        true => format!("{percents} of the time it ran is {class}: {advice}."),
        false => format!(
            "No cost dominates. The largest is {class}, {percents} of the time it ran: {advice}."
        ),
    };
    if let Some(second) = own.next().filter(|second| second.share / busy >= 0.1) {
        text += &format!(" Next is {} ({}).", second.name, percent(second.share / busy));
    }
    let idle = share(explained, IDLE);
    if idle >= 0.1 {
        text += &format!(" The CPUs were idle for {} of the time.", percent(idle));
    }
    text
}

/// Where programs themselves dominate, where in them: in what is of that class, and of no other.
fn leaf_of_user(explained: &Explained) -> String {
    let stacks = explained.stacks.iter();
    let profile = Profile::from_folded(stacks.map(|stack| (stack.frames.as_str(), stack.count)));
    let classes = Classes::built_in().of_all(&profile);
    let mut leaves = std::collections::HashMap::<&str, u64>::new();
    for (number, stack) in profile.stacks.iter().enumerate() {
        let leaf = profile.symbols_of(stack).next_back();
        let is_rare = profile.symbols_of(stack).next().is_some_and(|first| first.name == RARE);
        if let Some(leaf) = leaf.filter(|_| classes[number] == USER && !is_rare) {
            *leaves.entry(&leaf.name).or_default() += profile.counts[number];
        }
    }
    let most = leaves.into_iter().max_by(|a, b| (a.1, b.0).cmp(&(b.1, a.0)));
    match most {
        Some((leaf, _)) => format!(
            "the programs themselves work, most of all in {leaf}; the kernel and the way the bytes \
             go have little to do with it"
        ),
        None => "the programs themselves work".to_owned(),
    }
}

/// The largest class that is of the work itself.
fn largest(explained: &Explained) -> Option<(&str, f64)> {
    let found = explained.classes.iter().find(|class| !is_beside(&class.name))?;
    Some((&found.name, found.share))
}

fn share(explained: &Explained, class: &str) -> f64 {
    explained.classes.iter().find(|found| found.name == class).map_or(0.0, |found| found.share)
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use bytepath_report::{ClassShare, SymbolShare, SyscallCount};

    use super::*;

    /// Work that there are samples enough of.
    const TWO_CPUS: Known = Known { own: 1000, cpus: 2, seen: Seen::Cpus(2), usable: 2.0 };

    fn explained(classes: &[(&str, f64)], counters: &[(&str, f64)]) -> Explained {
        let class = |(name, share): &(&str, f64)| ClassShare {
            name: (*name).to_owned(),
            share: *share,
            ..ClassShare::default()
        };
        Explained {
            samples: 1000,
            seconds: 1.0,
            cpus: vec![0, 1],
            classes: classes.iter().map(class).collect(),
            counters: counters
                .iter()
                .map(|(name, count)| ((*name).to_owned(), *count))
                .collect::<BTreeMap<_, _>>(),
            ..Explained::default()
        }
    }

    #[test]
    fn two_ends_that_wake_each_other_are_told_to_share_a_cpu() {
        let ends = explained(
            &[("idle", 0.87), ("waking and scheduling", 0.08), ("copying", 0.05)],
            &[(name::WAKEUPS_ACROSS, 90_000.0)],
        );
        let text = sentence(&ends, TWO_CPUS);
        assert!(
            text.starts_with("87% of the time of as many CPUs as it used at once is idle"),
            "{text}"
        );
        assert!(text.contains("on one CPU") && text.contains("--wait hybrid"), "{text}");
        assert!(text.contains("most is waking and scheduling (8% of all time)"), "{text}");
    }

    #[test]
    fn of_many_cpus_those_that_the_work_could_use_are_what_its_switches_are_of() {
        let mut ends =
            explained(&[("idle", 0.9), ("copying", 0.1)], &[(name::WAKEUPS_ACROSS, 28_000.0)]);
        ends.cpus = (0..16).collect();
        let many = Known { cpus: 16, seen: Seen::Cpus(16), usable: 1.5, ..TWO_CPUS };
        let text = sentence(&ends, many);
        assert!(text.contains("wake each other across CPUs"), "{text}");
        // Of CPUs that it was put on all the time counts, and all of them could be used.
        let its = Known { seen: Seen::ItsCpus(16), usable: 16.0, ..many };
        let text = sentence(&ends, its);
        assert!(text.starts_with("90% of the time of its CPUs is idle: it waits"), "{text}");
        let text = sentence(&explained(&[(OTHERS, 1.0)], &[]), Known { own: 0, ..its });
        assert!(text.starts_with("Too little ran") && !text.contains("less time"), "{text}");
    }

    #[test]
    fn who_shares_a_cpu_is_told_neither_to_share_it_nor_to_spin() {
        let alone = Known { cpus: 1, seen: Seen::Cpus(1), usable: 1.0, ..TWO_CPUS };
        for class in ["waking and scheduling", "locks and spinning"] {
            let text = sentence(&explained(&[(class, 0.9), ("copying", 0.1)], &[]), alone);
            assert!(text.contains("to try: "), "{text}");
            assert!(!text.contains("both ends on one CPU") && !text.contains("hybrid"), "{text}");
        }
        let idle = explained(&[("idle", 0.9)], &[(name::WAKEUPS_ACROSS, 90_000.0)]);
        let text = sentence(&idle, alone);
        assert!(!text.contains("put them on one CPU") && !text.contains("spin"), "{text}");
    }

    #[test]
    fn a_wait_for_a_device_is_no_matter_of_cpus() {
        let text = sentence(&explained(&[("idle", 0.9), ("copying", 0.1)], &[]), TWO_CPUS);
        assert!(text.contains("waits for a device") && !text.contains("one CPU"), "{text}");
        let call = |seconds| SyscallCount {
            name: "recvfrom".to_owned(),
            seconds: Some(seconds),
            ..SyscallCount::default()
        };
        for (seconds, named) in [(0.002, false), (0.8, true)] {
            let mut idle = explained(&[("idle", 0.9), ("copying", 0.1)], &[]);
            idle.syscalls = vec![call(seconds)];
            let text = sentence(&idle, TWO_CPUS);
            assert_eq!(text.contains("most of all in recvfrom"), named, "{text}");
        }
    }

    #[test]
    fn who_sleeps_while_others_have_the_cpus_is_told_to_sleep_and_who_waits_for_a_cpu_is_not() {
        let call = |name: &str, seconds| SyscallCount {
            name: name.to_owned(),
            seconds: Some(seconds),
            ..SyscallCount::default()
        };
        let told_of = |calls: &[(&str, f64)], own, switches: [f64; 2]| {
            let counters = [
                (name::SWITCHES_VOLUNTARY, switches[0]),
                (name::SWITCHES_INVOLUNTARY, switches[1]),
            ];
            let classes = [(OTHERS, 0.89), ("the sampler itself", 0.08), ("copying", 0.03)];
            let mut explained = explained(&classes, &counters);
            (explained.hz, explained.seconds) = (1000, 3.3);
            explained.syscalls = calls.iter().map(|(name, seconds)| call(name, *seconds)).collect();
            sentence(&explained, Known { own, ..TWO_CPUS })
        };
        let told = |own, switches| {
            let calls = [("wait4", 3.25), ("clock_nanosleep", 3.2), ("getppid", 0.01)];
            told_of(&calls, own, switches)
        };
        let text = told(30, [300.0, 2.0]);
        let slept = "It slept for 3.18 s of 3.30 s, most of all in clock_nanosleep";
        assert!(text.starts_with(slept), "{text}");
        assert!(!text.contains("sampler") && text.contains("Other programs took 89%"), "{text}");
        // As a niced make beside busy programs.
        let starved =
            WAITS_FOR_ITSELF.map(|call| told_of(&[(call, 3.25), ("read", 0.02)], 30, [300.0, 2.0]));
        for text in [told(1000, [300.0, 2.0]), told(30, [2.0, 300.0])].into_iter().chain(starved) {
            assert!(!text.contains("slept"), "{text}");
        }
    }

    #[test]
    fn what_dominates_comes_with_what_to_try() {
        let text = sentence(
            &explained(&[("copying", 0.6), ("idle", 0.2), ("user code", 0.2)], &[]),
            TWO_CPUS,
        );
        assert!(text.starts_with("75% of the time it ran is copying: bytes copied"), "{text}");
        assert!(text.contains("to try: routes that hand pages over"), "{text}");
        assert!(text.contains("Next is user code (25%). The CPUs were idle for 20%"), "{text}");
        let even = ["copying", "locks and spinning", "user code", "compression", "checksums"];
        let text = sentence(&explained(&even.map(|class| (class, 0.2)), &[]), TWO_CPUS);
        assert!(text.starts_with("No cost dominates. The largest is copying, 20%"), "{text}");
    }

    #[test]
    fn where_programs_work_is_not_where_they_do_what_has_a_class_of_its_own() {
        let mut user = explained(&[(USER, 0.6), ("checksums", 0.4)], &[]);
        let stack = |frames: &str, count| bytepath_report::Stack { frames: frames.into(), count };
        user.stacks = vec![
            stack("work;main;parse", 20),
            stack("work;main;print", 30),
            stack("work;main;lib::xxh3::consume", 40),
            stack("other programs", 900),
        ];
        let text = sentence(&user, TWO_CPUS);
        assert!(text.contains("most of all in print") && !text.contains("xxh3"), "{text}");
    }

    #[test]
    fn what_no_class_claims_is_named() {
        let mut strange = explained(&[(UNCLAIMED, 0.7), ("copying", 0.3)], &[]);
        strange.unclaimed = vec![SymbolShare { symbol: "frobnicate_[k]".to_owned(), share: 0.7 }];
        let text = sentence(&strange, TWO_CPUS);
        assert!(text.contains("no class claims it; most of it is in frobnicate_[k]"), "{text}");
    }

    #[test]
    fn few_samples_are_no_reason_for_advice() {
        let mut short = explained(&[(OTHERS, 0.98), ("copying", 0.02)], &[]);
        let call =
            bytepath_report::SyscallCount { name: "ppoll".into(), count: 1, seconds: Some(1.0) };
        short.syscalls = vec![call];
        let text = sentence(&short, Known { own: OWN_MIN - 1, ..TWO_CPUS });
        assert!(text.starts_with("Too little ran") && text.contains("19 of 1000"), "{text}");
        assert!(text.contains("longest in ppoll") && !text.contains("copying"), "{text}");
        assert!(text.contains("The shares are of less time"), "{text}");
        assert!(
            sentence(&short, Known { own: OWN_MIN, ..TWO_CPUS })
                .starts_with("100% of the time it ran is copying")
        );
    }

    #[test]
    fn what_threads_of_the_kernel_did_is_no_cost_of_the_work() {
        let beside =
            explained(&[(USER, 0.6), (KERNEL_THREADS, 0.3), (IDLE, 0.05), ("copying", 0.05)], &[]);
        let text = sentence(&beside, TWO_CPUS);
        assert!(text.starts_with("92% of the time it ran is user code"), "{text}");
        assert!(!text.contains("Next is"), "{text}");
        assert!(text.contains("Threads of the kernel took 30% of these CPUs' time"), "{text}");
    }

    #[test]
    fn others_that_disturb_are_told_of() {
        let text = sentence(&explained(&[("copying", 0.6), (OTHERS, 0.4)], &[]), TWO_CPUS);
        assert!(text.contains("Other programs took 40%"), "{text}");
    }
}
