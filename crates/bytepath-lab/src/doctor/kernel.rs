//! The kernel's ways: rings, filters, mitigations, frequencies, idle CPUs, the hypervisor below.

use bytepath::Profile;
use bytepath::machine::{RISKY_CALLS, Ring, Virtualisation, survived};
use bytepath::profile::tuning;
use bytepath_report::numbers;

use super::{Examined, Here};

/// Hardware that is awake takes two to four times as long across CPUs.
const SLOW_WAKE_UPS: f64 = 6.0;
/// More than this part of the time taken by others is felt.
const STEAL_MAX: f64 = 0.01;

pub(super) fn examine(here: &Here<'_>) -> Vec<Examined> {
    let mut all = vec![
        ring(here),
        filter(here),
        mitigations(here),
        governor(here),
        wake_ups(here),
        virtual_machine(here),
        container(here),
        steal(here),
    ];
    all.extend(clock(here));
    all
}

fn ring(here: &Here<'_>) -> Examined {
    let name = "io-uring";
    match here.machine.ring() {
        Ring::Available(_) => Examined::good(
            name,
            "available",
            "many requests on files in flight at once, by few calls",
        ),
        refused @ (Ring::NotPermitted { remedy, .. }
        | Ring::Unknown { remedy, .. }
        | Ring::Failed { remedy, .. }) => {
            let why = "files are read by one call after the other, or by threads";
            // Others than the switch may forbid it, whatever that says.
            let switch = "kernel.io_uring_disabled";
            let is_the_switch = remedy.contains(switch);
            let change = || here.change(&format!("proc/sys/{}", switch.replace('.', "/")), 0);
            Examined::poor(name, refused.to_string(), why)
                .by(remedy.clone())
                .changed_by(is_the_switch.then(change).flatten())
        }
    }
}

fn filter(here: &Here<'_>) -> Examined {
    let name = "seccomp";
    if here.text("proc/self/status").is_none() {
        return Examined::unknown(name, "/proc/self/status cannot be read");
    }
    if !here.machine.user().seccomp {
        return Examined::good(name, "no filter", "system calls go to the kernel directly");
    }
    let is_deadly = |call: &&(&str, _)| survived(call.1).is_err();
    let deadly: Vec<_> = RISKY_CALLS.iter().filter(is_deadly).map(|(name, _)| *name).collect();
    let found = match deadly.as_slice() {
        [] => "a filter".to_owned(),
        deadly => format!("a filter that kills whoever calls {}", deadly.join(", ")),
    };
    Examined::poor(name, found, "each system call goes through it first, and some are refused")
        .costs(call_cost(here))
        .by("docker run --security-opt seccomp=unconfined, or SystemCallFilter= of the service")
}

fn call_cost(here: &Here<'_>) -> Option<String> {
    here.cost("system call").map(|ns| format!("a system call takes {} ns", numbers::figure(ns)))
}

/// What the kernel does about weaknesses of the processor, as far as it costs something at each system
/// call or switch.
fn mitigations(here: &Here<'_>) -> Examined {
    let name = "mitigations";
    let all = &here.machine.kernel().mitigations;
    if all.is_empty() {
        return Examined::unknown(name, "the kernel does not tell (cpu/vulnerabilities)");
    }
    let on: Vec<String> = all
        .iter()
        .filter(|(_, state)| costs_at_each_call(state))
        .map(|(weakness, _)| weakness.clone())
        .collect();
    if on.is_empty() {
        return Examined::good(
            name,
            "none that costs at each call",
            "system calls are as quick as may be",
        );
    }
    Examined::poor(
        name,
        format!("against {}", on.join(", ")),
        "each system call and switch takes longer; many small calls feel it, few large ones do not",
    )
    .costs(call_cost(here))
    .by(
        "boot option mitigations=off, where nobody runs code that is not trusted; larger chunks and \
         rings need none of it",
    )
}

/// Whether something of this state, in the words of the kernel's
/// Documentation/admin-guide/hw-vuln, is done at each system call, switch or indirect branch. IBRS
/// is, but not what is switched on once (`Enhanced / Automatic IBRS`) or for the firmware alone
/// (`IBRS_FW`).
fn costs_at_each_call(state: &str) -> bool {
    let Some(parts) = state.strip_prefix("Mitigation: ") else { return false };
    parts.to_ascii_lowercase().split(';').map(str::trim).any(|part| {
        let whole = ["pti", "ibrs", "ibrs (kernel)", "ibpb", "stuffing"].contains(&part);
        let dear = ["retpoline", "clear cpu buffers", "safe ret", "untrained return"];
        let for_guests_alone = part.ends_with(": vm");
        whole
            || part.starts_with("bhi: sw loop")
            || (!for_guests_alone && dear.iter().any(|words| part.contains(words)))
    })
}

pub(super) fn governor(here: &Here<'_>) -> Examined {
    let name = "governor";
    let governors = &here.machine.kernel().governors;
    let cpus = "sys/devices/system/cpu";
    if governors.is_empty() && !here.root.join(cpus).is_dir() {
        return Examined::unknown(name, format!("/{cpus} cannot be read"));
    }
    if governors.is_empty() {
        let why =
            "the processor, or the host of this virtual machine, chooses its frequency itself";
        return Examined::good(name, "none here", why);
    }
    let slow = governors.iter().find(|name| *name == "powersave");
    if slow.is_some() && is_followed_by_the_processor(here) {
        return preference(here, name);
    }
    match slow {
        Some(slow) => Examined::poor(
            name,
            slow.clone(),
            "the CPU frequency rises late or not at all; what performance gains is not measured here",
        )
        .by("echo performance | tee /sys/devices/system/cpu/cpufreq/policy*/scaling_governor")
        .changed_by(super::memory::policies_change(here, "scaling_governor", "performance")),
        None => Examined::good(name, governors.join(" "), "frequencies follow the work"),
    }
}

const CPUFREQ: &str = "sys/devices/system/cpu/cpufreq";

/// What the file of this name says in each policy of frequencies.
fn of_policies(here: &Here<'_>, file: &str) -> Vec<String> {
    let policies = here.names(CPUFREQ).into_iter().filter(|name| name.starts_with("policy"));
    policies.filter_map(|policy| here.text(&format!("{CPUFREQ}/{policy}/{file}"))).collect()
}

/// Whether `powersave` is what these drivers call the governor that follows the work, as they do in
/// their active modes (Documentation/admin-guide/pm/intel_pstate.rst and amd-pstate.rst).
fn is_followed_by_the_processor(here: &Here<'_>) -> bool {
    let drivers = of_policies(here, "scaling_driver");
    let active = |driver: &String| ["intel_pstate", "amd-pstate-epp"].contains(&driver.as_str());
    !drivers.is_empty() && drivers.iter().all(active)
}

/// There the processor is told how far to prefer speed to power.
fn preference(here: &Here<'_>, name: &str) -> Examined {
    let file = "energy_performance_preference";
    let preferences = of_policies(here, file);
    let Some(preferred) = preferences.iter().find(|preferred| *preferred == "power") else {
        let mut told = preferences;
        told.dedup();
        let found = std::iter::once("powersave".to_owned()).chain(told).collect::<Vec<_>>();
        return Examined::good(name, found.join(", "), "frequencies follow the work");
    };
    let found = format!("powersave, and the processor is to prefer {preferred}");
    Examined::poor(name, found, "the CPU frequency rises late")
        .by(format!("echo balance_performance | tee /{CPUFREQ}/policy*/{file}"))
        .changed_by(super::memory::policies_change(here, file, "balance_performance"))
}

/// A CPU that sleeps is woken by an interrupt; under a hypervisor, by two detours through it.
pub(super) fn wake_ups(here: &Here<'_>) -> Examined {
    let name = "wake-ups";
    let same = here.cost("wake-up by pipe, same-cpu");
    let across = here.measured().and_then(|profile| {
        profile.costs.iter().find(|cost| {
            cost.name.starts_with("wake-up by pipe") && !cost.name.ends_with("same-cpu")
        })
    });
    if here.machine.allowed_cpus().len() == 1 {
        let found = "no second CPU that this process may use";
        return Examined::good(name, found, "both ends share the one there is");
    }
    let again = || here.profile.map_or_else(|| tuning(None), Profile::tuning);
    if let Some(doubt) = here.profile.and_then(Profile::doubt) {
        return Examined::unknown(name, doubt).by(again());
    }
    let (Some(same), Some(across)) = (same, across) else {
        return Examined::unknown(name, "not measured, or not as this machine is now").by(again());
    };
    let found =
        format!("{:.1} us on another CPU, {:.1} on the same one", across.value / 1e3, same / 1e3);
    if across.value <= SLOW_WAKE_UPS * same {
        return Examined::good(name, found, "two ends on two CPUs wake each other quickly");
    }
    Examined::poor(
        name,
        found,
        "CPUs sleep when they are idle, and waking one is slow; processes that share a CPU, larger \
         pipes, and spinning avoid it",
    )
    .costs(Some(format!("{} a wake-up", numbers::ratio(across.value / same))))
    .by(kept_awake(here))
}

const GOVERNOR: &str = "sys/devices/system/cpu/cpuidle/current_governor";
const GOVERNORS: &str = "sys/devices/system/cpu/cpuidle/available_governors";
const POLLED_NS: &str = "sys/module/haltpoll/parameters/guest_halt_poll_ns";

/// What keeps idle CPUs awake for a while: the governor haltpoll, which only guests have, and which
/// polls no longer than its parameter says, so that it does nothing where that is 0
/// (Documentation/virt/guest-halt-polling.rst; 200 us unless somebody changed it).
pub(super) fn kept_awake(here: &Here<'_>) -> String {
    let at_boot = "boot option idle=poll";
    let Some(governors) = here.text(GOVERNORS) else {
        return format!(
            "{at_boot}, or cpuidle.governor=haltpoll in a guest, which trade power for it"
        );
    };
    let is_chosen = here.text(GOVERNOR).is_some_and(|governor| governor == "haltpoll");
    let is_there = governors.split_whitespace().any(|governor| governor == "haltpoll");
    let choose = (is_there && !is_chosen).then(|| format!("echo haltpoll > /{GOVERNOR}"));
    let has_no_time = here.number::<u64>(POLLED_NS) == Some(0);
    let poll = (is_there && has_no_time).then(|| format!("echo 200000 > /{POLLED_NS}"));
    let steps: Vec<_> = choose.into_iter().chain(poll).collect();
    match steps.is_empty() {
        true => format!("{at_boot}, which trades power for it"),
        false => format!("{}, which trades power for it; or {at_boot}", steps.join(" && ")),
    }
}

fn virtual_machine(here: &Here<'_>) -> Examined {
    let name = "virtual-machine";
    match &here.machine.kernel().virtualisation {
        Virtualisation::None => Examined::good(name, "none", "nothing stands below the kernel"),
        Virtualisation::Unknown => Examined::unknown(name, "the machine does not tell"),
        Virtualisation::Under(hypervisor) => Examined::new(
            name,
            bytepath_report::Health::Unknown,
            format!("under {hypervisor}"),
            "wake-ups, page tables and devices go through a hypervisor: what that costs is under \
             wake-ups and steal",
        ),
    }
}

fn container(here: &Here<'_>) -> Examined {
    let name = "container";
    let marks = [("run/.containerenv", "podman"), (".dockerenv", "docker")];
    let found = marks.iter().find(|(mark, _)| here.root.join(mark).exists());
    let namespace = std::fs::read_link(here.root.join("proc/self/ns/pid"));
    let namespace = namespace.ok().map(|name| name.as_os_str() == INITIAL_PID_NAMESPACE);
    // An image of a machine that was made from a container's has the mark, too.
    let is_left_over = namespace == Some(true) && !is_on_overlay(here);
    if let Some((_, name_of)) = found.filter(|_| !is_left_over) {
        return Examined::new(
            name,
            bytepath_report::Health::Unknown,
            format!("in a container ({name_of})"),
            "its limits are under cgroup-cpu, cgroup-memory and seccomp; files are on an overlay unless \
             they are on a volume",
        );
    }
    match namespace {
        Some(true) => Examined::good(name, "none", "no namespace and no overlay in between"),
        Some(false) => Examined::new(
            name,
            bytepath_report::Health::Unknown,
            "in a PID namespace of its own",
            "its limits are under cgroup-cpu, cgroup-memory and seccomp",
        ),
        None => Examined::unknown(name, "/proc/self/ns cannot be read"),
    }
}

/// Its number is the same in every kernel (PROC_PID_INIT_INO).
const INITIAL_PID_NAMESPACE: &str = "pid:[4026531836]";

/// Whether the root is an overlay: of what is mounted there, the last is seen.
fn is_on_overlay(here: &Here<'_>) -> bool {
    let mounts = here.text("proc/self/mounts").unwrap_or_default();
    let is_overlay_at_root = |line: &str| {
        let mut words = line.split(' ').skip(1);
        (words.next() == Some("/")).then(|| words.next() == Some("overlay"))
    };
    mounts.lines().rev().find_map(is_overlay_at_root).unwrap_or(false)
}

/// Time that the hypervisor gave to others, since this machine was started.
fn steal(here: &Here<'_>) -> Examined {
    let name = "steal";
    let line = here.text("proc/stat").and_then(|text| text.lines().next().map(str::to_owned));
    let Some(line) = line.filter(|line| line.starts_with("cpu ")) else {
        return Examined::unknown(name, "/proc/stat cannot be read");
    };
    // user nice system idle iowait irq softirq steal; guest times are in user's.
    let times: Vec<u64> =
        line.split_whitespace().skip(1).take(8).filter_map(|word| word.parse().ok()).collect();
    let all: u64 = times.iter().sum();
    let (Some(stolen), 1..) = (times.get(7), all) else {
        return Examined::unknown(name, "/proc/stat does not tell it");
    };
    // What idle CPUs were not given, they did not want.
    let busy = all - times[3] - times.get(4).copied().unwrap_or(0).min(all - times[3]);
    let part = *stolen as f64 / busy.max(1) as f64;
    let found = format!("{:.1}% of the busy time since boot", part * 100.0);
    if part <= STEAL_MAX {
        return Examined::good(name, found, "the CPUs are this machine's own");
    }
    Examined::poor(name, found, "the hypervisor gave this machine's CPUs to others")
        .by("CPUs of its own for this machine, on the host")
}

/// Clocks that take a system call make every measured step dear.
fn clock(here: &Here<'_>) -> Option<Examined> {
    let clock = here.text("sys/devices/system/clocksource/clocksource0/current_clocksource")?;
    let slow = ["hpet", "acpi_pm", "jiffies", "refined-jiffies"].contains(&clock.as_str());
    Some(match slow {
        false => Examined::good("clock", clock, "it is read without a system call"),
        true => Examined::poor("clock", clock, "each look at the clock is a slow system call")
            .by("boot option clocksource=tsc tsc=reliable, if dmesg has no reason against it"),
    })
}
