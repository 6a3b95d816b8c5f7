//! `pages`: what looking up, holding, making, mapping and walking pages costs.

use std::collections::BTreeMap;
use std::path::Path;

use bytepath_report::{Record, Unit, Verdict, numbers};

use super::Description;
use crate::arm::{Arm, Work};
use crate::memory_work::TouchWork;
use crate::touches::{Made, TOUCHES, Touch};

/// What it asks.
pub const DESCRIPTION: Description = Description {
    name: "pages",
    question: "What do pages cost: to look up and hold, to make, to map, and to find in page tables?",
    definition: "One process on one CPU works on an area of 32 MiB in 4 KiB pages, in transparent \
                 huge pages, in pages of the hugetlb pool, or untouched. vmsplice lends it to a \
                 pipe of 1 MiB (only vmsplice is clocked, not the draining); process-vm-readv reads \
                 a word of each 4 KiB of its own process; o-direct reads 1 MiB of a file at once; \
                 register-buffers has a ring keep it; gup-fast is the kernel's own test; fault-write \
                 and fault-read touch each 4 KiB that was given back; munmap gives it all back; mmap \
                 maps and unmaps it untouched, in 4 KiB pages and those of the pool, which take one \
                 call each; stride reads a word of each 4 KiB of areas of 256 KiB \
                 to 128 MiB in random order, each telling where the next is. Values are for each \
                 4 KiB; of stride for a read, of mmap for a pair of calls.",
};

/// Where and on what arms run.
pub struct Setup<'a> {
    /// The `bytepath` executable.
    pub program: &'a Path,
    /// Where a file is made.
    pub directory: &'a Path,
    /// The CPU that processes run on.
    pub cpu: usize,
}

/// The arms: every way on every kind of area that it is measured on, of those asked for.
pub fn arms(kinds: &[Made], setup: &Setup<'_>) -> Vec<Arm> {
    let of = |touch: &'static Touch| {
        let kinds = touch.on.iter().filter(|kind| kinds.is_empty() || kinds.contains(kind));
        kinds.map(|kind| arm(touch, *kind, setup)).collect::<Vec<_>>()
    };
    TOUCHES.iter().flat_map(of).collect()
}

fn arm(touch: &'static Touch, made: Made, setup: &Setup<'_>) -> Arm {
    let params = BTreeMap::from([
        ("way".to_owned(), touch.summary.into()),
        ("operation".to_owned(), touch.operation.into()),
        ("area".to_owned(), made.name().into()),
        ("area_bytes".to_owned(), touch.area_bytes.into()),
    ]);
    let work = TouchWork {
        program: setup.program.to_owned(),
        touch,
        made,
        directory: setup.directory.to_owned(),
        cpu: [setup.cpu],
    };
    Arm {
        name: format!("{}/{}", touch.name, made.name()),
        section: Some(touch.name.to_owned()),
        params,
        unit: Unit::Nanoseconds,
        touched: false,
        published: None,
        work: Ok(Box::new(work) as Box<dyn Work>),
    }
}

/// What huge pages save, and where that is undecided, in a sentence.
pub fn saves(record: &Record) -> Option<String> {
    let arm = |touch: &Touch, pages: &str| {
        let name = format!("{}/{pages}", touch.name);
        record.arms.iter().find(|arm| arm.name == name)
    };
    let saved: Vec<String> = TOUCHES
        .iter()
        .filter_map(|touch| {
            let (base, huge) = (arm(touch, "base")?, arm(touch, "huge")?);
            let [from, to] = [base.median?, huge.median?].map(numbers::figure);
            let decided = huge.verdict.is_some_and(|verdict| verdict != Verdict::Undecided);
            let undecided = if decided { "" } else { " (undecided)" };
            Some(format!("{} {from} to {to} ns{undecided}", touch.name))
        })
        .collect();
    (!saved.is_empty()).then(|| format!("From 4 KiB pages to 2 MiB ones: {}", saved.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::record_of;

    #[test]
    fn what_the_table_calls_undecided_is_no_fact_below_it() {
        let arm = |name: &str, median: f64, verdict: Option<Verdict>| {
            let mut arm = bytepath_report::Arm::new(name, Unit::Nanoseconds);
            (arm.median, arm.verdict) = (Some(median), verdict);
            arm
        };
        let record = record_of(vec![
            arm("vmsplice/base", 9.0, None),
            arm("vmsplice/huge", 3.0, Some(Verdict::Faster)),
            arm("munmap/base", 8.0, None),
            arm("munmap/huge", 7.0, Some(Verdict::Undecided)),
            arm("fault-read/base", 5.0, None),
        ]);
        assert_eq!(
            saves(&record).as_deref(),
            Some(
                "From 4 KiB pages to 2 MiB ones: vmsplice 9.00 to 3.00 ns, \
                 munmap 8.00 to 7.00 ns (undecided)"
            )
        );
    }
}
