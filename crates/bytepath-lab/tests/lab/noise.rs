//! What strangers did, judged from stored texts of the kernel's counters.

use std::time::{Duration, Instant};

use bytepath_lab::noise::{
    Disturbance, OwnUse, Snapshot, disturbance, parse_busy_ns, parse_cpus, parse_some_total_us,
    parse_task, process_times,
};

const STAT: &str = "\
cpu  6129 0 3120 148570 1951 0 61 143 0 0
cpu0 2273 1 1070 76559 63 2 9 61 0 0
cpu2 3855 0 2050 72010 1888 0 51 82 7 3
intr 166792 0 0
ctxt 298313
btime 1763689000
";

#[test]
fn the_cpus_that_are_online_are_read_by_number() {
    let cpus = parse_cpus(STAT);
    assert_eq!(cpus.keys().copied().collect::<Vec<_>>(), [0, 2]);
    assert_eq!((cpus[&0].user, cpus[&0].nice, cpus[&0].system), (2273, 1, 1070));
    assert_eq!((cpus[&2].idle, cpus[&2].iowait), (72010, Some(1888)));
    assert_eq!((cpus[&0].irq, cpus[&0].softirq, cpus[&0].steal), (Some(2), Some(9), Some(61)));
}

#[test]
fn columns_that_a_kernel_does_not_have_are_none_and_nonsense_is_left_out() {
    let cpus = parse_cpus("cpu0 1 2 3 4 5 6 7\ncpu1 1 2 3 4\ncpu2 1 2\ncpux 1 2 3 4\ncpu3\n");
    assert_eq!(cpus.keys().copied().collect::<Vec<_>>(), [0, 1]);
    assert_eq!((cpus[&0].softirq, cpus[&0].steal), (Some(7), None));
    assert_eq!((cpus[&1].idle, cpus[&1].iowait), (4, None));
    assert!(parse_cpus("").is_empty());
}

#[test]
fn pressure_is_the_total_of_the_some_line() {
    let text = "some avg10=8.56 avg60=6.60 avg300=3.24 total=20232060\n\
                full avg10=0.00 avg60=0.00 avg300=0.00 total=0\n";
    assert_eq!(parse_some_total_us(text), Some(20_232_060));
    assert_eq!(parse_some_total_us(""), None);
    assert_eq!(parse_some_total_us("full avg10=0.00 total=3\n"), None);
}

#[test]
fn busy_times_are_read_from_the_versions_that_count_nanoseconds() {
    let text = "version 15\ntimestamp 4295000000\n\
                cpu0 0 0 0 0 0 0 2388428434 118412873 17063\n\
                domain0 0003 0 0 0\n\
                cpu1 0 0 0 0 0 0 1974251001 90153772 15122\n";
    let busy = parse_busy_ns(text);
    assert_eq!((busy[&0], busy[&1], busy.len()), (2_388_428_434, 1_974_251_001, 2));
    assert!(parse_busy_ns(&text.replace("version 15", "version 14")).is_empty());
    assert!(parse_busy_ns("").is_empty());
}

#[test]
fn the_times_of_a_task_are_running_and_waiting() {
    let times = parse_task("2000000 71032 1\n").unwrap();
    assert_eq!((times.ran, times.waited), (Duration::from_millis(2), Duration::from_nanos(71032)));
    assert_eq!(parse_task("12"), None);
}

#[test]
fn this_process_has_times_or_the_kernel_says_why_not() {
    match process_times(std::process::id()) {
        Ok(_) => {}
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::NotFound),
    }
    assert!(process_times(u32::MAX).is_err());
}

/// Two CPUs during a second, in ticks: idle, stolen, and seconds used by the sample itself.
struct Case {
    wall_ms: u64,
    idle: u64,
    steal: u64,
    own_ms: u64,
}

fn snapshots(case: &Case) -> [Snapshot; 2] {
    let before = Snapshot {
        at: Instant::now(),
        ticks_per_second: 100,
        cpus: parse_cpus("cpu0 0 0 0 1000 0 0 0 50\ncpu1 0 0 0 1000 0 0 0 50\n"),
        busy_ns: Default::default(),
        waited_us: None,
    };
    let mut after = before.clone();
    after.at += Duration::from_millis(case.wall_ms);
    for ticks in after.cpus.values_mut() {
        ticks.idle += case.idle;
        ticks.steal = ticks.steal.map(|steal| steal + case.steal);
    }
    [before, after]
}

fn own(case: &Case) -> OwnUse {
    OwnUse { cpu: Duration::from_millis(case.own_ms), ..OwnUse::default() }
}

fn judged(case: &Case) -> Disturbance {
    let [before, after] = snapshots(case);
    disturbance(&before, &after, &[0, 1], &own(case))
}

#[test]
fn a_sample_alone_on_its_cpus_is_not_flagged() {
    let quiet = judged(&Case { wall_ms: 1000, idle: 40, steal: 0, own_ms: 1200 });
    assert!(!quiet.flagged, "{quiet:?}");
    assert_eq!((quiet.steal_share, quiet.why.as_str()), (Some(0.0), ""));
    assert!(quiet.foreign_share.unwrap() < 0.001);
}

#[test]
fn stolen_time_is_flagged_above_its_limit() {
    let stolen = judged(&Case { wall_ms: 1000, idle: 0, steal: 10, own_ms: 1800 });
    assert!(stolen.flagged && (stolen.steal_share.unwrap() - 0.1).abs() < 1e-9);
    assert_eq!(stolen.why, "the hypervisor took 10% of the CPU time");
    let little = judged(&Case { wall_ms: 1000, idle: 0, steal: 1, own_ms: 1980 });
    assert!(!little.flagged, "{little:?}");
}

#[test]
fn a_stranger_on_the_cpus_of_the_sample_is_flagged() {
    let shared = judged(&Case { wall_ms: 1000, idle: 20, steal: 0, own_ms: 1000 });
    assert!(shared.flagged && (shared.foreign_share.unwrap() - 0.3).abs() < 1e-9);
    assert_eq!(shared.why, "other processes used 30% of the CPU time");
}

#[test]
fn a_short_sample_is_not_flagged_for_the_rounding_of_ticks() {
    // 20 ms: one tick more or less on each CPU is half of the time.
    let short = judged(&Case { wall_ms: 20, idle: 1, steal: 0, own_ms: 10 });
    assert!(short.foreign_share.unwrap() > 0.2 && !short.flagged, "{short:?}");
    let shorter = judged(&Case { wall_ms: 2, idle: 0, steal: 0, own_ms: 2 });
    assert_eq!(shorter.why, "too short a sample to tell what other processes used");
    assert!(!shorter.flagged);
}

#[test]
fn a_hint_confirms_a_foreign_share_within_its_error_but_flags_nothing_alone() {
    let within_error = Case { wall_ms: 200, idle: 1, steal: 0, own_ms: 340 };
    let [before, after] = snapshots(&within_error);
    let preempted = OwnUse { involuntary_switches: 60, ..own(&within_error) };
    let waited = OwnUse { runqueue_wait: Some(Duration::from_millis(30)), ..own(&within_error) };
    assert!(!judged(&within_error).flagged);
    let judge = |own: &OwnUse| disturbance(&before, &after, &[0, 1], own);
    assert_eq!(
        judge(&preempted).why,
        "other processes used 10% of the CPU time (±8%, confirmed by involuntary switches)"
    );
    assert!(judge(&waited).why.contains("confirmed by waiting for a CPU"));
    let alone = OwnUse { cpu: Duration::from_millis(390), ..preempted };
    assert!(!judge(&alone).flagged);
}

#[test]
fn pressure_is_a_share_of_the_time_and_confirms() {
    let case = Case { wall_ms: 200, idle: 1, steal: 0, own_ms: 340 };
    let [mut before, mut after] = snapshots(&case);
    (before.waited_us, after.waited_us) = (Some(1_000_000), Some(1_050_000));
    let pressed = disturbance(&before, &after, &[0, 1], &own(&case));
    assert!((pressed.psi_share.unwrap() - 0.25).abs() < 1e-9);
    assert!(pressed.why.contains("confirmed by CPU pressure"), "{pressed:?}");
}

#[test]
fn pressure_elsewhere_confirms_nothing_about_a_pinned_sample() {
    let case = Case { wall_ms: 200, idle: 1, steal: 0, own_ms: 165 };
    let [mut before, mut after] = snapshots(&case);
    (before.waited_us, after.waited_us) = (Some(0), Some(200_000));
    let pinned = disturbance(&before, &after, &[1], &own(&case));
    assert!(pinned.foreign_share.unwrap() > 0.1 && !pinned.flagged, "{pinned:?}");
}

#[test]
fn busy_times_in_nanoseconds_make_short_samples_judgeable() {
    let case = Case { wall_ms: 50, idle: 2, steal: 0, own_ms: 50 };
    let [mut before, mut after] = snapshots(&case);
    before.busy_ns = [(0, 1_000_000_000), (1, 1_000_000_000)].into();
    after.busy_ns = [(0, 1_050_000_000), (1, 1_020_000_000)].into();
    let shared = disturbance(&before, &after, &[0, 1], &own(&case));
    assert!(shared.flagged, "20 of 100 ms were foreign: {shared:?}");
    assert!((shared.foreign_share.unwrap() - 0.2).abs() < 1e-9);
}

#[test]
fn a_stranger_that_never_left_its_cpu_is_seen_by_the_idle_time_it_took() {
    let case = Case { wall_ms: 1000, idle: 0, steal: 0, own_ms: 1000 };
    let [mut before, mut after] = snapshots(&case);
    before.busy_ns = [(0, 1_000_000_000), (1, 1_000_000_000)].into();
    after.busy_ns = [(0, 2_000_000_000), (1, 1_000_000_000)].into();
    let shared = disturbance(&before, &after, &[0, 1], &own(&case));
    assert!((shared.foreign_share.unwrap() - 0.5).abs() < 1e-9 && shared.flagged);
}

#[test]
fn a_cpu_that_goes_offline_is_a_disturbance() {
    let [before, mut after] = snapshots(&Case { wall_ms: 1000, idle: 0, steal: 0, own_ms: 2000 });
    after.cpus.remove(&1);
    let lost = disturbance(&before, &after, &[0, 1], &OwnUse::default());
    assert_eq!(lost.why, "CPU 1 went on- or offline during the sample");
    assert!(lost.flagged && lost.foreign_share.is_none());
}

#[test]
fn what_cannot_be_read_is_said_and_never_zero() {
    let [mut before, mut after] =
        snapshots(&Case { wall_ms: 1000, idle: 0, steal: 0, own_ms: 2000 });
    before.cpus.clear();
    after.cpus.clear();
    let blind = disturbance(&before, &after, &[0, 1], &OwnUse::default());
    assert_eq!((blind.steal_share, blind.foreign_share, blind.psi_share), (None, None, None));
    assert_eq!(blind.why, "/proc/stat does not tell what other processes used");
    assert!(!blind.flagged);
    assert_eq!(
        disturbance(&before, &after, &[], &OwnUse::default()).why,
        "no time or no CPU to judge"
    );
}

#[test]
fn a_counter_that_goes_backwards_did_not_rise() {
    let [mut before, after] = snapshots(&Case { wall_ms: 1000, idle: 40, steal: 0, own_ms: 1200 });
    before.cpus.get_mut(&0).unwrap().iowait = Some(3);
    assert!(
        !disturbance(
            &before,
            &after,
            &[0, 1],
            &own(&Case { wall_ms: 0, idle: 0, steal: 0, own_ms: 1200 })
        )
        .flagged
    );
}

#[test]
fn a_snapshot_of_this_machine_knows_its_cpus() {
    let snapshot = Snapshot::take();
    if snapshot.cpus.is_empty() {
        println!("skipped: /proc/stat cannot be read here");
        return;
    }
    assert!(snapshot.ticks_per_second > 0);
    assert!(snapshot.cpus.values().any(|ticks| ticks.idle > 0));
}
