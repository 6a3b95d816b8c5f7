//! What could not be seen, why, and what would show it: the steps in which explaining degrades.

use std::collections::BTreeSet;
use std::fs;
use std::io;

use bytepath::machine::{Capability, Machine, has_all_users, survived};
use bytepath_report::numbers;

use crate::open::View;

/// A sentence for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Missing(pub(crate) String);

/// The setting that says who may sample what.
const PARANOID: &str = "/proc/sys/kernel/perf_event_paranoid";

/// The setting that bounds how many samples a second there may be.
const RATE_MAX: &str = "/proc/sys/kernel/perf_event_max_sample_rate";

/// How many samples a second the kernel allows by now.
pub(crate) fn rate_max_hz() -> u32 {
    let most = fs::read_to_string(RATE_MAX).ok().and_then(|text| text.trim().parse().ok());
    most.unwrap_or(u32::MAX)
}

/// Opens events at so many samples a second, or at as many as may be taken, with what to say where it is
/// fewer.
///
/// # Errors
/// As `open`, which is asked once more where it says EINVAL: the limit may be lower by then.
pub(crate) fn at_most<T>(
    wanted_hz: u32,
    mut hz_max: impl FnMut() -> u32,
    mut open: impl FnMut(u32) -> io::Result<T>,
) -> io::Result<(T, u32, Option<Missing>)> {
    let mut once = || {
        let (hz, fewer) = rate_within(wanted_hz, hz_max());
        open(hz).map(|opened| (opened, hz, fewer))
    };
    match once() {
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) => once(),
        done => done,
    }
}

fn rate_within(wanted_hz: u32, hz_max: u32) -> (u32, Option<Missing>) {
    if wanted_hz <= hz_max {
        return (wanted_hz, None);
    }
    let why = Missing(format!(
        "{hz_max} samples a second of each CPU instead of {wanted_hz}: \
         kernel.perf_event_max_sample_rate allows no more, which the kernel lowers by itself where \
         samples take long; sysctl kernel.perf_event_max_sample_rate={wanted_hz}, as root, raises it"
    ));
    (hz_max.max(1), Some(why))
}

/// How what is missing begins where no samples can be taken.
pub const NO_SAMPLES: &str = "no samples";

impl Missing {
    /// No thread could be started.
    pub(crate) fn no_sampler(error: &io::Error) -> Missing {
        Missing(format!("{NO_SAMPLES}: cannot start a thread for them: {error}"))
    }

    /// System calls came faster than they can all be traced; `counted`: how many there were is known.
    pub(crate) fn calls_in_part(part: f64, counted: bool) -> Missing {
        let all = "; how many there were in all (system-calls) is counted";
        Missing(format!(
            "system calls were traced for {:.0}% of the time, which stand for the rest: they came too fast \
             to trace them all; what is told of each call (~) is an estimate, and one that was made only in \
             the rest of the time has no row{}",
            (part * 100.0).clamp(1.0, 99.0),
            if counted { all } else { "" }
        ))
    }

    /// Nothing may be sampled.
    pub(crate) fn no_samples(error: &io::Error) -> Missing {
        let why = match error.raw_os_error() {
            Some(libc::EACCES | libc::EPERM) => match binding() {
                Some(level) if level > 2 => format!(
                    "kernel.perf_event_paranoid is {level}, which keeps them from whoever is not root \
                     (CAP_PERFMON may not suffice); sysctl kernel.perf_event_paranoid=1, or root, gives \
                     them"
                ),
                _ => REFUSED.to_owned(),
            },
            Some(libc::ENOSYS) => {
                "this kernel has no perf_event_open (CONFIG_PERF_EVENTS)".to_owned()
            }
            Some(libc::EMFILE) => {
                "too few open files are allowed: an event for each thread and CPU needs one; raise \
                 ulimit -n"
                    .to_owned()
            }
            Some(libc::ENOMEM | libc::EAGAIN) => {
                "too little memory may be locked for the rings: raise ulimit -l or \
                 kernel.perf_event_mlock_kb"
                    .to_owned()
            }
            _ => format!("perf_event_open: {error}"),
        };
        Missing(format!("{NO_SAMPLES}: {why}"))
    }

    /// A better view was refused.
    pub(crate) fn of_view(view: View, error: &io::Error) -> Missing {
        let what = match view {
            View::Cpus => "idle time, and what the kernel's own threads do",
            View::Threads => "what the kernel does for the work",
            View::UserSpace => "user space",
        };
        let wanted = match view {
            View::Cpus => 0,
            View::Threads => 1,
            View::UserSpace => 2,
        };
        let why = match (error.raw_os_error(), binding()) {
            (Some(libc::EACCES | libc::EPERM), Some(level)) if level > wanted => format!(
                "kernel.perf_event_paranoid is {level}; sysctl kernel.perf_event_paranoid={wanted}, \
                 CAP_PERFMON or root shows it"
            ),
            (Some(libc::EACCES | libc::EPERM), _) => {
                "the kernel refuses it; CAP_PERFMON or root shows it".to_owned()
            }
            (Some(libc::EMFILE), _) => "too few open files are allowed; raise ulimit -n".to_owned(),
            _ => format!("perf_event_open: {error}"),
        };
        Missing(format!("not seen: {what}: {why}"))
    }

    /// Of CPUs that the work may not run on nothing is seen.
    pub(crate) fn elsewhere(error: &io::Error) -> Missing {
        Missing(format!(
            "not seen: what the work does on CPUs that it may not run on now, should it go there: {}",
            crate::counters::why(error)
        ))
    }

    /// There is no hardware counter.
    pub(crate) fn no_cycles() -> Missing {
        Missing(
            "no hardware counters: a virtual machine without a PMU, or a refusal; a timer (cpu-clock) \
             samples instead, which sees code that runs with interrupts off where they come on again"
                .to_owned(),
        )
    }

    /// Symbols of the kernel are hidden.
    pub(crate) fn no_kernel_symbols(what: &str) -> Missing {
        let hidden = fs::read_to_string("/proc/sys/kernel/kptr_restrict").unwrap_or_default();
        let setting = match hidden.trim() {
            "0" | "" => {
                "root, or kernel.perf_event_paranoid=1 with CAP_SYSLOG, shows them".to_owned()
            }
            level => format!(
                "kernel.kptr_restrict is {level}; sysctl kernel.kptr_restrict=0 and CAP_SYSLOG, or \
                 root, shows them"
            ),
        };
        Missing(format!("no names of the kernel's functions: {what}; {setting}"))
    }

    /// Files that code was mapped from are not to be had.
    pub(crate) fn no_files(names: &BTreeSet<String>) -> Missing {
        const SHOWN_MAX: usize = 5;
        let shown: Vec<&str> = names.iter().map(String::as_str).take(SHOWN_MAX).collect();
        let more = names.len() - shown.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        Missing(format!(
            "no names of functions in {}{more}: what was mapped is not what has that name now, as after an \
             update or in another mount namespace, or may not be read; root sees it as long as the \
             process is there",
            shown.join(", ")
        ))
    }

    /// Tracepoints cannot be used.
    pub(crate) fn no_tracepoints(what: &str, why: &str) -> Missing {
        Missing(format!("not counted: {what}: {why}"))
    }

    /// Samples got lost.
    pub(crate) fn lost(lost: u64, samples: u64) -> Missing {
        Missing(format!(
            "{} lost beside {samples} taken: the machine was too busy to take them away; a lower \
             --hz, or --stacks fp, loses fewer",
            numbers::counted(lost, "sample")
        ))
    }
}

/// Why events are refused where the setting is not the reason, and what would allow them.
pub(crate) const REFUSED: &str = "the kernel refuses perf_event_open: a container's seccomp filter may be \
    why; run it with CAP_PERFMON and a profile that allows the call; a process of somebody else needs \
    root";

/// CAP_PERFMON (capabilities(7)).
const PERFMON: u32 = 38;

/// What the setting is, where it keeps anything from this process; none where it cannot be read, or where a
/// filter kills for the call. Above 2 it is the distributions' own: Ubuntu's kernels do not ask for
/// CAP_PERFMON there.
pub(crate) fn binding() -> Option<i32> {
    survived(libc::SYS_perf_event_open).ok()?;
    let level: i32 = fs::read_to_string(PARANOID).ok()?.trim().parse().ok()?;
    let held = Machine::this().user().capabilities;
    let holds = held.has(Capability::SysAdmin) || (held.0 >> PERFMON & 1 == 1 && level <= 2);
    (level > -1 && !(holds && has_all_users())).then_some(level)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_the_kernel_lowers_while_events_are_opened_is_read_again() {
        let limits = [20_000, 7_500];
        let (mut read, mut tried) = (limits.iter(), Vec::new());
        let opened = at_most(
            20_000,
            || *read.next().expect("it is asked once more"),
            |hz| {
                tried.push(hz);
                let error = io::Error::from_raw_os_error(libc::EINVAL);
                if hz > 7_500 { Err(error) } else { Ok(()) }
            },
        );
        let ((), hz, why) = opened.expect("it is opened at last");
        assert_eq!((hz, tried), (7_500, limits.to_vec()));
        assert!(why.is_some_and(|why| why.0.starts_with("7500 samples a second")));
    }

    #[test]
    fn more_samples_than_the_kernel_allows_are_as_many_as_it_does_and_it_is_told() {
        assert_eq!(rate_within(999, 999), (999, None));
        let (hz, why) = rate_within(20_000, 7_500);
        let why = why.expect("it says so").0;
        assert_eq!(hz, 7_500);
        assert!(why.starts_with("7500 samples a second of each CPU instead of 20000"), "{why}");
        assert!(why.contains("sysctl kernel.perf_event_max_sample_rate=20000"), "{why}");
    }
}
