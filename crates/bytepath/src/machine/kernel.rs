//! Which kernel runs here, on what processor, and what slows it down on purpose.

use std::path::Path;

use super::files;
use super::virtualisation::{self, Virtualisation};

const VULNERABILITIES: &str = "sys/devices/system/cpu/vulnerabilities";
const CPU_ROOT: &str = "sys/devices/system/cpu";

/// /proc/cpuinfo repeats itself for each CPU; the first one says what we ask.
const CPUINFO_BYTES_MAX: u64 = 16 << 10;

/// The kernel and the processor, as they describe themselves. Recorded beside measurements; nothing
/// is ever decided by a version.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kernel {
    /// As `uname -r`.
    pub release: String,
    /// As `uname -v`: the build.
    pub version: String,
    /// As `uname -m`.
    pub architecture: String,
    /// What the boot loader passed.
    pub command_line: String,
    /// The hypervisor, if any.
    pub virtualisation: Virtualisation,
    /// The processor's name.
    pub cpu_model: String,
    /// Each known processor weakness and what the kernel does about it: (`meltdown`, `Mitigation:
    /// PTI`).
    pub mitigations: Vec<(String, String)>,
    /// The frequency governors in use, each once; empty where the machine does not let the kernel
    /// choose.
    pub governors: Vec<String>,
}

impl Kernel {
    /// Asks the running kernel, and reads the files below `root` (`/` for this machine).
    pub fn read(root: &Path) -> Kernel {
        let name = rustix::system::uname();
        let cpuinfo =
            files::text_up_to(root, "proc/cpuinfo", CPUINFO_BYTES_MAX).unwrap_or_default();
        Kernel {
            release: name.release().to_string_lossy().into_owned(),
            version: name.version().to_string_lossy().into_owned(),
            architecture: name.machine().to_string_lossy().into_owned(),
            command_line: files::text(root, "proc/cmdline").unwrap_or_default(),
            virtualisation: virtualisation::detect(root, &cpuinfo),
            cpu_model: cpu_model(&cpuinfo),
            mitigations: mitigations(root),
            governors: governors(root),
        }
    }
}

/// x86 names its model; Arm gives numbers for the maker and the part.
fn cpu_model(cpuinfo: &str) -> String {
    let named = ["model name", "cpu model", "uarch", "cpu"];
    if let Some(model) = named.iter().find_map(|key| files::value(cpuinfo, key)) {
        return model.to_owned();
    }
    match (files::value(cpuinfo, "CPU implementer"), files::value(cpuinfo, "CPU part")) {
        (Some(maker), Some(part)) => format!("Arm implementer {maker} part {part}"),
        _ => "unknown".to_owned(),
    }
}

fn mitigations(root: &Path) -> Vec<(String, String)> {
    let names = files::names(root, VULNERABILITIES).into_iter();
    names
        .filter_map(|name| Some((files::text(root, &format!("{VULNERABILITIES}/{name}"))?, name)))
        .map(|(state, name)| (name, state))
        .collect()
}

fn governors(root: &Path) -> Vec<String> {
    let policies = files::names(root, &format!("{CPU_ROOT}/cpufreq"));
    let mut governors: Vec<String> = policies
        .iter()
        .filter_map(|policy| {
            files::text(root, &format!("{CPU_ROOT}/cpufreq/{policy}/scaling_governor"))
        })
        .collect();
    governors.sort();
    governors.dedup();
    governors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_named_on_x86_and_numbered_on_arm() {
        assert_eq!(cpu_model("processor\t: 0\nmodel name\t: AMD EPYC\n"), "AMD EPYC");
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(cpu_model(arm), "Arm implementer 0x41 part 0xd0c");
        assert_eq!(cpu_model("garbage"), "unknown");
    }

    #[test]
    fn an_empty_tree_gives_empty_facts() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let kernel = Kernel::read(root.path());
        assert_eq!(kernel.command_line, "");
        assert!(kernel.mitigations.is_empty() && kernel.governors.is_empty());
        assert!(!kernel.release.is_empty(), "uname needs no files");
    }
}
