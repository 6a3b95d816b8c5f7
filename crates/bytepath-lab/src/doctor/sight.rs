//! What may be seen: without it nobody can say where the time goes.

use std::path::{Path, PathBuf};

use bytepath::machine::{Capabilities, Capability};

use super::change::commands;
use super::{Change, Examined, Here};

/// CAP_PERFMON, CAP_BPF and CAP_SYSLOG, by their bits (capabilities(7)).
const PERFMON: u32 = 38;
const BPF: u32 = 39;
const SYSLOG: u32 = 34;

pub(super) fn examine(here: &Here<'_>) -> Vec<Examined> {
    vec![sampling(here), symbols(here), programs(here)]
}

fn holds(here: &Here<'_>, bit: u32) -> bool {
    let held: Capabilities = here.machine.user().capabilities;
    held.0 >> bit & 1 == 1
}

fn sampling(here: &Here<'_>) -> Examined {
    let (name, file) = ("perf-event-paranoid", "proc/sys/kernel/perf_event_paranoid");
    let Some(level) = here.number::<i32>(file) else {
        return Examined::unknown(name, format!("/{file} cannot be read"));
    };
    // Above 2 it is the distributions' own: Ubuntu's kernels do not ask for CAP_PERFMON there.
    let mighty = here.machine.user().capabilities.has(Capability::SysAdmin)
        || (holds(here, PERFMON) && level <= 2);
    let found = format!("{level}{}", if mighty { ", which does not bind this user" } else { "" });
    if mighty || level <= 1 {
        // Others are bound by it, for whom it can be changed.
        let change = if level > 1 { here.change(file, 1) } else { None };
        return Examined::good(name, found, "bytepath explain sees the kernel too")
            .changed_by(change);
    }
    let why = match level {
        2 => "bytepath explain sees user space only",
        _ => "bytepath explain may see nothing",
    };
    Examined::poor(name, found, why)
        .by("sysctl -w kernel.perf_event_paranoid=1, or 0 to see whole CPUs")
        .changed_by(here.change(file, 1))
}

fn symbols(here: &Here<'_>) -> Examined {
    let (name, file) = ("kptr-restrict", "proc/sys/kernel/kptr_restrict");
    let Some(level) = here.number::<i32>(file) else {
        return Examined::unknown(name, format!("/{file} cannot be read"));
    };
    let shown = here.text("proc/kallsyms").is_some_and(|table| {
        let first = table.lines().next().and_then(|line| line.split(' ').next());
        first.is_some_and(|address| address.bytes().any(|digit| digit != b'0'))
            || table.lines().take(64).any(|line| !line.starts_with("0000000000000000"))
    });
    // Without CAP_SYSLOG they are for those who may sample the kernel.
    let paranoid = "proc/sys/kernel/perf_event_paranoid";
    let is_paranoid = here.number::<i32>(paranoid).is_some_and(|level| level > 1);
    let opened_for_all = [(level > 0, file, "0"), (is_paranoid, paranoid, "1")];
    let mut files: Vec<(PathBuf, String)> = opened_for_all
        .into_iter()
        .filter(|(is_wanted, ..)| *is_wanted)
        .map(|(_, file, to)| (PathBuf::from(file), to.to_owned()))
        .collect();
    if shown {
        // Others may be bound by what does not bind this user.
        return Examined::good(name, level.to_string(), "functions of the kernel have names")
            .changed_by(Change::of(here.root, &files));
    }
    let poor = Examined::poor(
        name,
        level.to_string(),
        "functions of the kernel have no names in what bytepath explain tells this user",
    );
    files.retain(|(changed, _)| changed == Path::new(file) || !holds(here, SYSLOG));
    if files.is_empty() {
        return poor.by("a kernel with CONFIG_KALLSYMS, and a /proc/kallsyms that can be read");
    }
    poor.by(format!("{}, or run it as root", commands(&files)))
        .changed_by(Change::of(here.root, &files))
}

/// Whether programs may be loaded into the kernel.
fn programs(here: &Here<'_>) -> Examined {
    let name = "bpf";
    let mighty = here.machine.user().capabilities.has(Capability::SysAdmin)
        || (holds(here, BPF) && holds(here, PERFMON));
    let types = here.root.join("sys/kernel/btf/vmlinux").is_file();
    match (mighty, types) {
        (true, true) => Examined::good(name, "allowed", "bytepath explain --trace works"),
        (true, false) => Examined::poor(
            name,
            "allowed, without the kernel's types (BTF)",
            "of bytepath explain --trace, files and connections cannot be told",
        )
        .by("a kernel with CONFIG_DEBUG_INFO_BTF"),
        (false, _) if here.text("proc/self/status").is_none() => {
            Examined::unknown(name, "/proc/self/status cannot be read")
        }
        (false, _) => {
            Examined::poor(name, "not for this user", "bytepath explain --trace does not work")
                .by("run it as root, or: setcap cap_bpf,cap_perfmon+ep $(command -v bytepath)")
        }
    }
}
