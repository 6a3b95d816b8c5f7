//! Work to trace, one piece after the other.

use std::fs;
use std::process::{Command, ExitStatus};
use std::sync::{Mutex, MutexGuard};

use bytepath_explain::trace::{Mode, TraceError, Tracing, Way};
use bytepath_report::{TraceWakeup, Traced};

/// What this process starts while it is armed is traced: so nobody else may start anything then.
static STARTING: Mutex<()> = Mutex::new(());

pub(crate) fn lock() -> MutexGuard<'static, ()> {
    STARTING.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Traces a command; says why and gives nothing where this machine does not allow it.
pub(crate) fn of_command(mode: Mode, command: &mut Command) -> Option<Traced> {
    of_command_by(mode, &Way::ALL, command)
}

pub(crate) fn of_command_by(mode: Mode, ways: &[Way], command: &mut Command) -> Option<Traced> {
    let _lock = lock();
    let mut tracing = match Tracing::start_by(mode, ways) {
        Ok(tracing) => tracing,
        Err(error) => return skipped(&error),
    };
    tracing.arm().expect("this process is known");
    run(command);
    tracing.disarm();
    Some(tracing.finish("a command").expect("it is told"))
}

pub(crate) fn start(mode: Mode) -> Option<Tracing> {
    Tracing::start(mode).map_or_else(|error| skipped(&error), Some)
}

/// Says why nothing is traced. The kernel has its verifier look at programs only of those who may load some:
/// what that refuses is our bug, unless the kernel lacks a helper.
fn skipped<T>(error: &TraceError) -> Option<T> {
    let why = error.why();
    let lacks = ["unknown func", "cannot use helper"].iter().any(|said| why.contains(said));
    assert!(lacks || !why.contains("(verifier: "), "{why}");
    println!("skipped: {why}");
    None
}

pub(crate) fn run(command: &mut Command) -> ExitStatus {
    command.status().expect("it is started")
}

pub(crate) fn shell(line: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", line]);
    shell
}

/// Whether a thread of this name woke, and not an interrupt.
pub(crate) fn is_by(row: &TraceWakeup, name: &str) -> bool {
    row.waker.as_ref().is_some_and(|waker| waker.name == name)
}

/// The kernel's own counts of soft interrupts, all CPUs together, by our names.
pub(crate) fn soft_interrupts() -> Vec<(String, u64)> {
    let names = [
        ("HI", "high-tasklet"),
        ("TIMER", "timer"),
        ("NET_TX", "net-tx"),
        ("NET_RX", "net-rx"),
        ("BLOCK", "block"),
        ("IRQ_POLL", "irq-poll"),
        ("TASKLET", "tasklet"),
        ("SCHED", "sched"),
        ("HRTIMER", "hrtimer"),
        ("RCU", "rcu"),
    ];
    let table = fs::read_to_string("/proc/softirqs").unwrap_or_default();
    let row = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        let (_, ours) = names.iter().find(|(kernels, _)| *kernels == name.trim())?;
        let sum = counts.split_whitespace().filter_map(|count| count.parse::<u64>().ok()).sum();
        Some(((*ours).to_owned(), sum))
    };
    table.lines().filter_map(row).collect()
}
