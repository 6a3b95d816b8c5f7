//! Why tracing is not to be had here, and the setting or capability that gives it.

use std::fs;

use rustix::io::Errno;

use crate::sys::bpf::POSSIBLE;

/// What stands in the way of the first call of bpf(2).
pub(super) fn no_bpf(what: &str, errno: Errno) -> String {
    let why = match errno {
        Errno::PERM | Errno::ACCESS => no_rights(),
        Errno::NOSYS => {
            "this kernel has no bpf(2) (CONFIG_BPF_SYSCALL), or a seccomp filter hides \
                         it: run outside the container, or with a profile that allows bpf"
                .to_owned()
        }
        Errno::INVAL => "this kernel is too old: ring buffers need Linux 5.8".to_owned(),
        Errno::NOMEM => {
            "the kernel has no memory for it: raise the memory cgroup's limit".to_owned()
        }
        Errno::NOENT => format!("{POSSIBLE} does not tell the CPUs: mount sysfs at /sys"),
        _ => "look at dmesg".to_owned(),
    };
    format!("cannot trace: {what}: {errno}; {why}")
}

/// The bits of CAP_SYS_ADMIN, CAP_PERFMON and CAP_BPF (capabilities(7)).
const SYS_ADMIN: u32 = 21;
const PERFMON: u32 = 38;
const BPF: u32 = 39;

fn no_rights() -> String {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
    let line = |key: &str| status.lines().find_map(|line| line.strip_prefix(key)).map(str::trim);
    let held = line("CapEff:").and_then(|held| u64::from_str_radix(held, 16).ok()).unwrap_or(0);
    let has = |bit: u32| held >> bit & 1 == 1;
    if has(SYS_ADMIN) || (has(BPF) && has(PERFMON)) {
        let locked = fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default();
        if locked.contains("[confidentiality]") {
            return "the kernel is locked down (confidentiality), which forbids reading its memory: \
                    boot with lockdown=integrity or none"
                .to_owned();
        }
        let filtered = line("Seccomp:") == Some("2");
        return match filtered {
            true => {
                "the capabilities are there, but a seccomp filter stands before bpf(2), as in most \
                     containers: run with a profile that allows it"
                    .to_owned()
            }
            false => {
                "the capabilities that this process has do not count: they are those of a user \
                      namespace; run it as root outside"
                    .to_owned()
            }
        };
    }
    let missing: Vec<&str> = [(BPF, "CAP_BPF"), (PERFMON, "CAP_PERFMON")]
        .iter()
        .filter(|(bit, _)| !has(*bit))
        .map(|(_, name)| *name)
        .collect();
    let disabled = fs::read_to_string("/proc/sys/kernel/unprivileged_bpf_disabled");
    let disabled = match disabled.as_deref().map(str::trim) {
        Ok("0") => "; kernel.unprivileged_bpf_disabled=0 allows filters for sockets, not tracing",
        Ok(_) => "; kernel.unprivileged_bpf_disabled keeps bpf(2) from other users altogether",
        Err(_) => "",
    };
    format!(
        "it takes {} (or CAP_SYS_ADMIN){disabled}: run it as root, or: setcap \
         cap_bpf,cap_perfmon,cap_sys_resource,cap_dac_read_search+ep $(command -v bytepath)",
        missing.join(" and ")
    )
}
