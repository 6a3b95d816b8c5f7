//! A record as a run of the pipe experiment would leave it, with one arm of every kind.

use std::collections::BTreeMap;

use bytepath_report::{
    Arm, Build, Cache, ClassShare, Control, Costs, Experiment, Explained, Machine, Published,
    Record, Sample, SchemaName, Stack, SymbolShare, SyscallCount, Unit, Verdict,
};
use serde_json::json;

/// Six arms, three blocks: the reference, its A/A twin, a faster, a slower and an undecided arm,
/// and one that could not run. One sample was disturbed and repeated.
pub(crate) fn record() -> Record {
    Record {
        schema: SchemaName::V1,
        id: "2026-03-01T12-00-00Z-pipes-7f3a".to_owned(),
        started: "2026-03-01T12:00:00Z".to_owned(),
        bytepath: Build { version: "0.1.0".to_owned(), build: "9c2d41e".to_owned() },
        machine: machine(),
        experiment: Experiment {
            name: "pipes".to_owned(),
            question: "how fast can a pipe be?".to_owned(),
            definition: "10 GiB from one process to another through a pipe".to_owned(),
        },
        settings: BTreeMap::from([
            ("seed".to_owned(), json!(42)),
            ("bytes".to_owned(), json!(10_u64 << 30)),
        ]),
        blocks: 3,
        trusted: true,
        untrusted_why: None,
        control: Some(Control {
            arm: "write → read, again".to_owned(),
            ratio: 1.004,
            ratio_ci95: [0.981, 1.02],
            samples: Vec::new(),
        }),
        arms: arms(),
        notes: vec!["both ends were pinned to CPUs of their own".to_owned()],
    }
}

/// The same run, had its A/A control failed.
pub(crate) fn untrusted_record() -> Record {
    let mut record = record();
    record.trusted = false;
    record.untrusted_why = Some(
        "the A/A control came out at 1.31x [1.22, 1.40]: something beside the arms changed; \
         use an idle machine and more blocks"
            .to_owned(),
    );
    record.control = Some(Control {
        arm: "write → read, again".to_owned(),
        ratio: 1.31,
        ratio_ci95: [1.22, 1.40],
        samples: Vec::new(),
    });
    record
}

fn machine() -> Machine {
    Machine {
        kernel: "6.18.5".to_owned(),
        command_line: Some("console=ttyS0 root=/dev/vda".to_owned()),
        virtualisation: Some("kvm".to_owned()),
        cpu_model: Some("AMD EPYC 7763".to_owned()),
        cpus_online: Some("0-1".to_owned()),
        cpus_allowed: Some("0-1".to_owned()),
        numa_nodes: Some(1),
        caches: vec![Cache {
            level: 2,
            kind: "Unified".to_owned(),
            bytes: 512 << 10,
            cpus: "0".to_owned(),
        }],
        memory_bytes: Some(8 << 30),
        page_bytes: 4096,
        thp_enabled: Some("madvise".to_owned()),
        thp_defrag: Some("madvise".to_owned()),
        hugetlb_pages: Some(0),
        mitigations: BTreeMap::from([(
            "spectre_v2".to_owned(),
            "Mitigation: Retpolines".to_owned(),
        )]),
        governor: None,
        pipe_max_size: Some(1 << 20),
        pipe_user_pages_soft: Some(16384),
        memlock_bytes: Some(u64::MAX),
        io_uring: Some("available".to_owned()),
        vmsplice_aliases: Some(true),
        psi: Some(true),
        file_system: Some("tmpfs".to_owned()),
        user_is_root: false,
    }
}

fn arms() -> Vec<Arm> {
    vec![
        Arm {
            params: BTreeMap::from([("chunk_bytes".to_owned(), json!(262_144))]),
            samples: samples(&[8.31, 8.51, 8.62]),
            ci95: Some([8.31, 8.62]),
            costs: Some(costs([0.012, 0.221, 8_192.0, 1_204.0, 31.0])),
            touched: true,
            published: Some(published(3.7)),
            reference: true,
            explained: Some(explained()),
            ..measured("write → read", 8.51)
        },
        Arm {
            samples: samples(&[8.34, 8.54, 8.6]),
            ci95: Some([8.34, 8.6]),
            ratio: Some(1.004),
            ratio_ci95: Some([0.981, 1.02]),
            verdict: Some(Verdict::Same),
            costs: Some(costs([0.012, 0.223, 8_192.0, 1_198.0, 31.0])),
            touched: true,
            ..measured("write → read, again", 8.54)
        },
        Arm {
            params: BTreeMap::from([
                ("chunk_bytes".to_owned(), json!(262_144)),
                ("pages".to_owned(), json!("huge, 2 MiB")),
            ]),
            samples: disturbed_samples(),
            ci95: Some([91.0, 96.3]),
            ratio: Some(11.07),
            ratio_ci95: Some([10.8, 11.4]),
            verdict: Some(Verdict::Faster),
            costs: Some(costs([0.0011, 0.0187, 10_240.0, 12_345.0, 0.5])),
            published: Some(published(51.0)),
            ..measured("vmsplice → splice, huge", 94.2)
        },
        Arm {
            samples: samples(&[0.81, 0.83, 0.84]),
            ci95: Some([0.81, 0.84]),
            ratio: Some(0.0975),
            ratio_ci95: Some([0.094, 0.101]),
            verdict: Some(Verdict::Slower),
            costs: Some(Costs { context_switches_per_gib: Some(262_144.0), ..Costs::default() }),
            touched: true,
            ..measured("write → read, 4 KiB", 0.83)
        },
        Arm {
            samples: samples(&[7.2, 8.9, 11.3]),
            ci95: Some([7.2, 11.3]),
            ratio: Some(1.046),
            ratio_ci95: Some([0.87, 1.31]),
            verdict: Some(Verdict::Undecided),
            touched: true,
            published: Some(published(12.7)),
            ..measured("vmsplice → read", 8.9)
        },
        Arm::unavailable(
            "uring → read",
            Unit::GibPerSecond,
            "io_uring_setup: EPERM: kernel.io_uring_disabled is 2; set it to 0 as root",
        ),
    ]
}

/// Where the reference arm's time went.
fn explained() -> Explained {
    let class = |name: &str, share, ci95, published| ClassShare {
        name: name.to_owned(),
        share,
        ci95,
        published,
    };
    let stack = |frames: &str, count| Stack { frames: frames.to_owned(), count };
    Explained {
        sentence: "60% of the CPU's time is copying; vmsplice hands pages over instead.".to_owned(),
        source: "cpu-clock".to_owned(),
        hz: 999,
        samples: 5,
        seconds: 0.005,
        cpus: vec![0],
        classes: vec![
            class("copying", 0.6, [0.17, 0.93], Some(0.24)),
            class("idle", 0.2, [0.0, 0.6], None),
            class("unclaimed", 0.2, [0.0, 0.6], None),
        ],
        unclaimed: vec![SymbolShare { symbol: "unheard_of_[k]".to_owned(), share: 0.2 }],
        descriptor_calls: vec![SymbolShare { symbol: "sys_read_[k]".to_owned(), share: 0.125 }],
        stacks: vec![
            stack("writer;main;write;pipe_write_[k];copy_page_from_iter_[k]", 3),
            stack("swapper;default_idle_[k]", 1),
            stack("writer;[rare];unclaimed", 1),
        ],
        counters: BTreeMap::from([("context-switches-voluntary".to_owned(), 12.0)]),
        syscalls: vec![SyscallCount { name: "write".to_owned(), count: 40, seconds: Some(0.004) }],
        missing: vec!["no hardware counters: a virtual machine without a PMU".to_owned()],
        ..Explained::default()
    }
}

fn measured(name: &str, median: f64) -> Arm {
    Arm { median: Some(median), ..Arm::new(name, Unit::GibPerSecond) }
}

fn published(value: f64) -> Published {
    Published {
        value,
        source: "mazzo.li, 2022".to_owned(),
        note: Some("i7-8550U, Linux 5.17, ends on cores of their own".to_owned()),
    }
}

fn costs([user, system, syscalls, switches, faults]: [f64; 5]) -> Costs {
    Costs {
        cpu_user_s_per_gib: Some(user),
        cpu_system_s_per_gib: Some(system),
        syscalls_per_gib: Some(syscalls),
        context_switches_per_gib: Some(switches),
        page_faults_per_gib: Some(faults),
        ..Costs::default()
    }
}

fn samples(values: &[f64]) -> Vec<Sample> {
    let sample = |(block, value): (u32, &f64)| Sample {
        block,
        order: (block + 1) % 5,
        value: *value,
        steal_share: Some(0.001),
        foreign_cpu_share: Some(0.02),
        seconds: 10.0 / value,
        ..Sample::default()
    };
    (0..).zip(values).map(sample).collect()
}

/// Block 1 was disturbed, and measured once more.
fn disturbed_samples() -> Vec<Sample> {
    let mut samples = samples(&[91.0, 40.1, 96.3]);
    let disturbed = &mut samples[1];
    disturbed.flagged = true;
    disturbed.flag_why = Some("steal 23%, more than 5%".to_owned());
    disturbed.superseded = true;
    disturbed.steal_share = Some(0.23);
    samples.push(Sample { block: 1, order: 5, value: 94.2, seconds: 0.1062, ..Sample::default() });
    samples
}
