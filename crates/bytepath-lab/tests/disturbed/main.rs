//! Samples that a stranger disturbed: measured again, and kept all the same. A binary of its own,
//! because what the threads of other tests use would count as the sample's own.

use std::cell::{Cell, RefCell};
use std::process::{Child, Command};
use std::sync::Mutex;

use bytepath::machine::Machine;
use bytepath::placement::pin_this_thread;
use bytepath_lab::arm::{Arm, Outcome, Timing, Work};
use bytepath_report::{Costs, Figures, Latency, latency};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

// Shared with the tests of the lab, which use more of it.
#[allow(dead_code)]
#[path = "../lab/works.rs"]
mod works;

use works::{found, recorded, steady, worked};

/// What a process used is counted for all of its threads together, so one test's strangers, once
/// waited for, would count as the other's own.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Keeps a CPU busy for some tenths of a second, whatever the clock says.
const BUSY: &str = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";

/// Idle itself, on a CPU where a stranger is busy during the samples that `disturbed` names.
struct Disturbed {
    cpu: [usize; 1],
    disturbed: fn(u32) -> bool,
    done: Cell<u32>,
    strangers: RefCell<Vec<Child>>,
}

impl Disturbed {
    fn new(disturbed: fn(u32) -> bool) -> Box<Disturbed> {
        let cpu = Machine::this().allowed_cpus().first().expect("a CPU");
        let (done, strangers) = (Cell::new(0), RefCell::new(Vec::new()));
        Box::new(Disturbed { cpu: [cpu], disturbed, done, strangers })
    }

    /// A process of our own is a stranger as long as it has not been waited for: only then does
    /// the kernel count what it used as ours.
    fn disturb(&self) {
        let pinned = pin_this_thread(self.cpu[0]).expect("an allowed CPU");
        let stranger = Command::new("sh").args(["-c", BUSY]).spawn().expect("a shell");
        drop(pinned);
        let pid = Pid::from_child(&stranger);
        self.strangers.borrow_mut().push(stranger);
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("it ends");
    }
}

impl Work for Disturbed {
    fn cpus(&self) -> &[usize] {
        &self.cpu
    }

    fn sample(&self, _: &Timing) -> Result<Outcome, String> {
        let done = self.done.replace(self.done.get() + 1);
        if (self.disturbed)(done) {
            self.disturb();
        }
        let number = f64::from(done);
        let costs = Costs { cpu_ns_per_op: Some(number), ..Costs::default() };
        let mut figures = Figures::default();
        figures.add("number", "count", number);
        let mut latencies = latency::empty();
        latencies.record(u64::from(done)).expect("it is in range");
        let (value, latencies) = (1.0 + number, Some(latencies));
        Ok(Outcome { value, seconds: 0.001, costs, figures, latencies, ..Outcome::default() })
    }
}

impl Drop for Disturbed {
    fn drop(&mut self) {
        for stranger in self.strangers.get_mut() {
            let _ = stranger.wait();
        }
    }
}

#[test]
fn a_disturbed_sample_is_measured_again_and_kept_with_the_reason() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // 0 is the trial, 1 the first block.
    let disturbed = worked("disturbed", Ok(Disturbed::new(|done| done == 1)));
    let record = recorded(vec![steady("a", 1.0), disturbed], 3);
    let samples = &found(&record, "disturbed").samples;
    let first = &samples[0];
    assert!(first.flagged && first.superseded, "{first:?}");
    assert!(first.flag_why.as_deref().is_some_and(|why| !why.is_empty()), "{first:?}");
    assert!(first.foreign_cpu_share.is_some_and(|share| share > 0.05), "{first:?}");
    let again = samples.iter().find(|sample| sample.block == first.block && !sample.superseded);
    let again = again.expect("the block has a sample that counts");
    assert!(again.order > first.order && again.value > first.value, "{again:?}");
    let counted = samples.iter().filter(|sample| !sample.superseded).count();
    assert_eq!(counted, 3, "one a block");
    let arm = found(&record, "disturbed");
    let median = arm.median.expect("three samples");
    assert!(median > first.value, "the first sample does not count: {median}");
    // Nor does what it told besides.
    let costs = arm.costs.as_ref().and_then(|costs| costs.cpu_ns_per_op);
    let number = Figures::of_arm(arm).and_then(|figures| figures.get("number"));
    assert_eq!((costs, number), (Some(median - 1.0), Some(median - 1.0)));
    let latency = Latency::of_arm(arm).expect("it was clocked");
    assert_eq!(latency.p50_ns, median as u64 - 1, "{latency:?}");
}

#[test]
fn a_machine_that_never_rests_is_measured_three_times_and_the_last_counts() {
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    let disturbed = worked("disturbed", Ok(Disturbed::new(|done| (1..=3).contains(&done))));
    // Of so many samples in a block more than two may be repeated.
    let mut arms: Vec<Arm> = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"]
        .map(|name| steady(name, 1.0))
        .into();
    arms.push(disturbed);
    let record = recorded(arms, 3);
    let samples = &found(&record, "disturbed").samples;
    let first_block: Vec<_> = samples.iter().filter(|sample| sample.block == 0).collect();
    let superseded: Vec<_> = first_block.iter().map(|sample| sample.superseded).collect();
    assert_eq!(superseded, [true, true, false]);
    assert!(first_block.iter().all(|sample| sample.flagged));
}
