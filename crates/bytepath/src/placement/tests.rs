//! Placements on the machines of the fixtures, and on this one.

use super::*;
use crate::machine::{Machine, fixture};

fn distinct(topology: &Topology, allowed: &str) -> Vec<(&'static str, usize, usize)> {
    let placements = Placement::distinct(topology, &CpuList::parse(allowed));
    let of = |named: &NamedPlacement| {
        let [writer, reader] = named.cpus.expect("each has CPUs");
        (named.name, writer, reader)
    };
    placements.iter().map(of).collect()
}

#[test]
fn a_laptop_has_siblings_and_a_shared_cache_away_from_cpu_0() {
    let expected = [("same-cpu", 1, 1), ("smt-sibling", 1, 5), ("shared-cache", 1, 2)];
    assert_eq!(distinct(&fixture::laptop(), "0-7"), expected);
}

#[test]
fn two_sockets_have_everything_but_siblings() {
    let expected =
        [("same-cpu", 1, 1), ("shared-cache", 2, 3), ("same-socket", 1, 2), ("cross-socket", 1, 4)];
    assert_eq!(distinct(&fixture::two_sockets(), "0-7"), expected);
}

#[test]
fn a_machine_with_one_kind_of_other_cpu_calls_it_cross_cpu() {
    let expected = [("same-cpu", 1, 1), ("cross-cpu", 0, 1)];
    assert_eq!(distinct(&fixture::two_cpus(), "0-1"), expected);
    assert_eq!(distinct(&fixture::two_threads(), "0-1"), expected);
    let kinds = Placement::distinct(&fixture::two_threads(), &CpuList::parse("0-1"));
    assert_eq!(kinds[1].placement, Placement::SmtSibling);
}

#[test]
fn one_cpu_has_only_same_cpu() {
    assert_eq!(distinct(&fixture::one_cpu(), "0"), [("same-cpu", 0, 0)]);
    assert_eq!(distinct(&fixture::laptop(), "3"), [("same-cpu", 3, 3)]);
}

#[test]
fn cpus_that_are_not_allowed_are_not_used() {
    assert_eq!(distinct(&fixture::laptop(), "0,4"), [("same-cpu", 4, 4), ("cross-cpu", 0, 4)]);
    assert_eq!(distinct(&fixture::two_sockets(), "3,7"), [("same-cpu", 3, 3), ("cross-cpu", 3, 7)]);
    assert_eq!(distinct(&fixture::laptop(), "40"), []);
}

#[test]
fn without_caches_or_sockets_in_the_tree_other_cpus_count_as_one_socket() {
    let tree = fixture::CpuTree::new("0-3");
    assert_eq!(distinct(&tree.read(), "0-3"), [("same-cpu", 1, 1), ("cross-cpu", 1, 2)]);
}

#[test]
fn every_specific_name_that_exists_is_accepted_and_cross_cpu_is_the_nearest_other_core() {
    let (laptop, all) = (fixture::laptop(), CpuList::parse("0-7"));
    assert_eq!(Placement::CrossCpu.cpus(&laptop, &all), Ok(Some((1, 2))));
    assert_eq!(Placement::SmtSibling.cpus(&laptop, &all), Ok(Some((1, 5))));
    assert_eq!(Placement::Free.cpus(&laptop, &all), Ok(None));
    let (pair, both) = (fixture::two_cpus(), CpuList::parse("0-1"));
    assert_eq!(Placement::SharedCache.cpus(&pair, &both), Ok(Some((0, 1))));
    assert_eq!(Placement::CrossCpu.cpus(&pair, &both), Ok(Some((0, 1))));
    let threads = fixture::two_threads();
    assert_eq!(Placement::CrossCpu.cpus(&threads, &both), Ok(Some((0, 1))));
}

#[test]
fn a_placement_that_is_not_here_is_refused_with_those_that_are() {
    let laptop = fixture::laptop();
    let error = Placement::CrossSocket.cpus(&laptop, &CpuList::parse("0-7"));
    let text = error.expect_err("a laptop has one socket").to_string();
    assert_eq!(
        text,
        "this process has no placement cross-socket on CPUs 0-7; it has free, same-cpu, smt-sibling, \
         shared-cache, cross-cpu"
    );
    let error = Placement::CrossCpu.cpus(&fixture::one_cpu(), &CpuList::parse("0"));
    let text = error.expect_err("there is one CPU").to_string();
    assert_eq!(text, "this process has no placement cross-cpu on CPUs 0; it has free, same-cpu");
}

#[test]
fn two_cpus_by_number_must_be_allowed() {
    let (laptop, some) = (fixture::laptop(), CpuList::parse("0-3"));
    let pinned = |source, sink| Placement::Pinned { source, sink }.cpus(&laptop, &some);
    assert_eq!(pinned(2, 3), Ok(Some((2, 3))));
    assert_eq!(pinned(2, 7), Err(PlacementError::CpuNotAllowed { cpu: 7, allowed: some.clone() }));
}

#[test]
fn names_survive_reading_and_writing() {
    let two = Placement::Pinned { source: 2, sink: 3 };
    for placement in Placement::NAMED.iter().chain([&two]) {
        assert_eq!(placement.to_string().parse(), Ok(*placement));
    }
    let error = "next-door".parse::<Placement>().expect_err("there is no such name").to_string();
    assert!(error.contains("\"next-door\"") && error.contains("smt-sibling"), "{error}");
    assert!("2,x".parse::<Placement>().is_err());
}

#[test]
fn this_machine_can_pin_to_each_of_its_placements() {
    let machine = Machine::this();
    let here = Placement::distinct(machine.cpus(), machine.allowed_cpus());
    if here.is_empty() {
        println!("skipped: this machine does not tell its CPUs");
    }
    for named in here {
        let cpus = named.cpus.expect("each has CPUs");
        println!("{} ({}): {} to {}", named.name, named.placement, cpus[0], cpus[1]);
        for cpu in cpus {
            pin_this_thread(cpu).expect("an allowed CPU").unpin().expect("the CPUs from before");
        }
    }
}
