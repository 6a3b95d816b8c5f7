//! `overhead`: what the plan, the trait, the waiting and the meter cost, against the same system
//! calls in a bare loop.

use std::collections::BTreeMap;
use std::path::Path;

use bytepath_report::Unit;

use super::Description;
use crate::arm::{Arm, Work};
use crate::carry_work::CarryWork;

/// What it asks.
pub const DESCRIPTION: Description = Description {
    name: "overhead",
    question: "What do the plan, the trait and the meter cost, against a bare loop?",
    definition: "One process reads /dev/zero and writes /dev/null, 64 MiB a job, again and again, \
                 in a loop of nothing but the two system calls, and by the route read-write with \
                 endpoints, plan, transfer and meter made anew for every job.",
};

/// The arm that the engine is compared with.
pub const BARE: &str = "bare-loop";

/// The arms at a buffer of `buf_bytes`, on one CPU; `program` is bytepath.
pub fn arms(buf_bytes: usize, cpu: usize, program: &Path) -> Vec<Arm> {
    let options = |how: [&str; 2]| {
        let buffer = ["--buf-size".to_owned(), buf_bytes.to_string()];
        how.iter().filter(|word| !word.is_empty()).map(|w| (*w).to_owned()).chain(buffer).collect()
    };
    vec![
        arm(BARE, options(["--bare", ""]), cpu, program),
        arm("engine", options(["--route", "read-write"]), cpu, program),
    ]
}

fn arm(name: &str, options: Vec<String>, cpu: usize, program: &Path) -> Arm {
    let carry = format!("bytepath carry {}", options.join(" "));
    Arm {
        name: name.to_owned(),
        params: BTreeMap::from([("carry".to_owned(), carry.into())]),
        unit: Unit::GibPerSecond,
        section: None,
        touched: false,
        published: None,
        work: Ok(Box::new(CarryWork {
            program: program.to_owned(),
            options,
            source: "/dev/zero".into(),
            sink: "/dev/null".into(),
            cpu: [cpu],
        }) as Box<dyn Work>),
    }
}
