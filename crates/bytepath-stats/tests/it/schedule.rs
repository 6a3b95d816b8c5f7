//! Complete randomised blocks, repeatable from a seed.

use std::collections::{BTreeSet, HashMap};

use bytepath_stats::schedule::{
    Lineup, REPEATS_PER_SAMPLE_MAX, Repeat, Schedule, Turn, fresh_seed,
};

fn orders(arms: usize, blocks: u32, seed: u64) -> Vec<Vec<usize>> {
    let mut orders = vec![Vec::new(); blocks as usize];
    for turn in Schedule::new(Lineup::new(arms, 0), blocks, seed) {
        orders[turn.block as usize].push(turn.arm);
    }
    orders
}

#[test]
fn every_arm_and_the_control_run_once_in_each_block() {
    for order in orders(5, 20, 1) {
        assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), (0..6).collect());
        assert_eq!(order.len(), 6);
    }
}

#[test]
fn the_control_does_the_work_of_the_reference() {
    let lineup = Lineup::new(4, 2);
    assert_eq!(lineup.control(), 4);
    let work: Vec<usize> = (0..lineup.in_a_block()).map(|arm| lineup.work_of(arm)).collect();
    assert_eq!(work, [0, 1, 2, 3, 2]);
}

#[test]
fn the_same_seed_gives_the_same_orders_and_another_seed_others() {
    assert_eq!(orders(6, 10, 7), orders(6, 10, 7));
    assert_ne!(orders(6, 10, 7), orders(6, 10, 8));
    assert_ne!(fresh_seed(), fresh_seed());
    // Of 64 bits, one in two thousand would be.
    for seed in std::iter::repeat_with(fresh_seed).take(100) {
        assert_eq!(seed as f64 as u64, seed, "a reader that knows floating point alone");
        assert!(seed < 1 << 53, "{seed}");
    }
}

#[test]
fn the_second_block_runs_the_first_backwards_and_no_later_one_must() {
    let orders = orders(6, 4, 3);
    assert_eq!(orders[1], orders[0].iter().rev().copied().collect::<Vec<_>>());
    assert_ne!(orders[3], orders[2].iter().rev().copied().collect::<Vec<_>>());
}

#[test]
fn every_arm_is_as_often_in_every_place() {
    let mut seen: HashMap<(usize, u32), u32> = HashMap::new();
    for seed in 0..1000 {
        for turn in Schedule::new(Lineup::new(3, 0), 3, seed) {
            *seen.entry((turn.arm, turn.order)).or_default() += 1;
        }
    }
    // 3000 blocks, so 750 expected; six standard deviations are about 150.
    assert_eq!(seen.len(), 16);
    assert!(seen.values().all(|times| (600..900).contains(times)), "{seen:?}");
}

#[test]
fn a_disturbed_sample_is_repeated_at_the_end_of_its_block() {
    let mut schedule = Schedule::new(Lineup::new(2, 0), 2, 5);
    let first = schedule.next().unwrap();
    assert_eq!(schedule.repeat(first), Repeat::Queued);
    let rest: Vec<Turn> = schedule.by_ref().take(3).collect();
    let expected = Turn { block: 0, order: 3, arm: first.arm, attempt: 1 };
    assert_eq!(rest[2], expected);
    assert!(schedule.block_finished());
    assert_eq!(schedule.count(), 3, "the second block is complete and has no repeat");
}

#[test]
fn repeats_end_at_their_bound() {
    let mut schedule = Schedule::new(Lineup::new(7, 0), 1, 5);
    let disturbed = schedule.next().unwrap().arm;
    let mut turns = 1;
    let mut repeat = schedule.repeat(Turn { block: 0, order: 0, arm: disturbed, attempt: 0 });
    while let Some(turn) = schedule.next() {
        turns += 1;
        if turn.arm == disturbed {
            assert_eq!(repeat, Repeat::Queued);
            repeat = schedule.repeat(turn);
        }
    }
    assert_eq!((turns, repeat), (8 + REPEATS_PER_SAMPLE_MAX, Repeat::LimitReached));
}

#[test]
fn a_machine_that_is_never_quiet_makes_a_run_a_quarter_longer() {
    let mut schedule = Schedule::new(Lineup::new(7, 0), 3, 5);
    let mut turns = 0;
    while let Some(turn) = schedule.next() {
        turns += 1;
        schedule.repeat(turn);
    }
    assert_eq!(turns, 3 * (8 + 2));
}

#[test]
#[should_panic(expected = "within its own block")]
fn a_sample_is_never_repeated_in_a_later_block() {
    let mut schedule = Schedule::new(Lineup::new(1, 0), 2, 5);
    let first = schedule.next().unwrap();
    schedule.nth(1);
    schedule.repeat(first);
}

#[test]
fn a_run_that_is_stopped_completes_its_block() {
    let mut schedule = Schedule::new(Lineup::new(3, 0), 100, 5);
    schedule.next();
    schedule.stop();
    assert!(!schedule.block_finished());
    assert_eq!(schedule.count(), 3);
}

#[test]
fn no_blocks_are_no_turns() {
    assert_eq!(Schedule::new(Lineup::new(3, 0), 0, 5).next(), None);
}
