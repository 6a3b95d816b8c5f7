//! Whether the promised error rates hold on machines whose truth is known. Run with `--nocapture`
//! to see the tables.

use bytepath_stats::{
    Decision, Ratio, UntilCi, bootstrap_median_interval, median, median_interval,
};

use crate::machines::{MACHINES, Machine, State, run};

const RUNS: u64 = 4000;
const BLOCKS: [u32; 5] = [3, 5, 6, 10, 20];

fn percent(hits: usize) -> f64 {
    hits as f64 * 100.0 / RUNS as f64
}

#[test]
fn equal_arms_are_called_different_in_at_most_five_percent_of_runs() {
    for machine in MACHINES {
        let mut row = format!("{:28}", machine.name);
        for blocks in BLOCKS {
            let (mut wrong, mut wrong_bootstrap) = (0, 0);
            for seed in 0..RUNS {
                let [reference, arm, _] = run(machine, blocks, 1.0, seed);
                let ratio = Ratio::of(&arm, &reference).unwrap();
                wrong += usize::from(!ratio.interval.contains(1.0));
                let plain = bootstrap_median_interval(&ratio.per_block);
                wrong_bootstrap += usize::from(!plain.contains(1.0));
            }
            row += &format!(" | {:.1} ({:.0})", percent(wrong), percent(wrong_bootstrap));
            assert!(percent(wrong) <= 5.0, "{} at {blocks} blocks", machine.name);
        }
        println!("{row}");
    }
}

#[test]
fn a_clean_run_is_distrusted_in_at_most_five_percent_of_runs() {
    for machine in MACHINES {
        let distrusted = (0..RUNS).filter(|seed| {
            let [reference, _, control] = run(machine, 10, 1.0, *seed);
            !Ratio::of(&control, &reference).unwrap().interval.contains(1.0)
        });
        assert!(percent(distrusted.count()) <= 5.0, "{}", machine.name);
    }
}

/// How often, in percent, an arm that is truly faster by `effect` is found to be.
fn found_percent(noise: &Machine, blocks: u32, effect: f64) -> f64 {
    let found = (0..RUNS).filter(|seed| {
        let [reference, arm, _] = run(noise, blocks, effect, *seed);
        Ratio::of(&arm, &reference).unwrap().interval.low > 1.0
    });
    percent(found.count())
}

const NOISE_2: Machine = Machine { name: "2%", log_noise: |state, _| 0.02 * state.normal() };
const NOISE_3: Machine = Machine { name: "3%", log_noise: |state, _| 0.03 * state.normal() };
const NOISE_5: Machine = Machine { name: "5%", log_noise: |state, _| 0.05 * state.normal() };

#[test]
fn an_effect_worth_finding_is_found_in_ten_blocks() {
    for (effect, noise) in [(1.2, NOISE_5), (1.05, NOISE_2), (1.05, NOISE_3)] {
        let found = BLOCKS.map(|blocks| found_percent(&noise, blocks, effect));
        println!("ratio {effect}, noise {:3}: {found:.0?}", noise.name);
    }
    assert!(found_percent(&NOISE_5, 10, 1.2) >= 90.0);
    assert!(found_percent(&NOISE_2, 10, 1.05) >= 80.0);
    assert!(found_percent(&NOISE_3, 10, 1.05) >= 80.0);
}

#[test]
fn three_blocks_find_what_is_overwhelming() {
    assert!(found_percent(&NOISE_2, 3, 1.5) >= 90.0);
    assert!(found_percent(&NOISE_5, 3, 2.0) >= 90.0);
}

const SLOW_30: Machine = Machine {
    name: "30% of samples 22% slower",
    log_noise: |state, _| 0.2 * f64::from(state.happens(0.3)) + 0.03 * state.normal(),
};

#[test]
fn the_interval_of_a_median_holds_it_in_about_95_percent_of_runs() {
    // Machines whose blocks are independent, so that there is one median to be found.
    for machine in [&MACHINES[0], &MACHINES[1], &MACHINES[2], &SLOW_30] {
        let long: Vec<f64> =
            (0..200).flat_map(|seed| run(machine, 500, 1.0, seed)[0].clone()).collect();
        let truth = median(&long).unwrap();
        let mut row = format!("{:28}", machine.name);
        for blocks in BLOCKS {
            let held = (0..RUNS).filter(|seed| {
                median_interval(&run(machine, blocks, 1.0, *seed)[0]).unwrap().contains(truth)
            });
            let held = percent(held.count());
            row += &format!(" | {held:.1}");
            assert!(held >= 92.0, "{} at {blocks} blocks: {held}%", machine.name);
        }
        println!("{row}");
    }
}

/// Runs until the interval is within ± `percent_wanted`; whether it then excludes 1, and blocks.
fn stopped(machine: &Machine, percent_wanted: f64, seed: u64) -> (bool, usize) {
    let [reference, arm, _] = run(machine, 60, 1.0, seed);
    let mut rule = UntilCi::new(percent_wanted).within(10, 60);
    for blocks in 1..=60 {
        let ratio = Ratio::of(&arm[..blocks], &reference[..blocks]);
        let width =
            ratio.as_ref().map_or(f64::INFINITY, |r| r.interval.relative_half_width(r.median));
        if rule.after_block(width) != Decision::Continue {
            return (!ratio.unwrap().interval.contains(1.0), blocks);
        }
    }
    unreachable!("the rule gives up after 60 blocks");
}

#[test]
fn stopping_when_the_interval_is_narrow_keeps_the_error_rate() {
    const STOPPED_RUNS: u64 = 1000;
    let sticky = &MACHINES[9];
    for (machine, wanted) in [(&NOISE_3, 3.0), (&NOISE_3, 2.0), (&MACHINES[2], 3.0), (sticky, 2.0)]
    {
        let ends: Vec<_> = (0..STOPPED_RUNS).map(|seed| stopped(machine, wanted, seed)).collect();
        let wrong = ends.iter().filter(|(wrong, _)| *wrong).count() as f64 / 10.0;
        let blocks = ends.iter().map(|(_, blocks)| blocks).sum::<usize>() as f64 / 1000.0;
        println!("{:28} ±{wanted}%: {wrong:.1}% wrong after {blocks:.1} blocks", machine.name);
        assert!(wrong <= 5.0, "{} ±{wanted}%", machine.name);
    }
}

#[test]
fn a_machine_remembers_nothing_of_another_run() {
    assert_eq!(run(&MACHINES[9], 3, 1.0, 7), run(&MACHINES[9], 3, 1.0, 7));
    assert_ne!(State::new(1).normal(), State::new(2).normal());
}
