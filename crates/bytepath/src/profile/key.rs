//! What the figures of a profile are true of.

use serde::{Deserialize, Serialize};

use crate::machine::Machine;

/// What a profile depends on: where any of it differs, the figures are another machine's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct MachineKey {
    /// The kernel's release.
    pub kernel: String,
    /// The processor's name.
    pub cpu_model: String,
    /// The CPUs that the process may use, as `0-3,8`.
    pub cpus_allowed: String,
    /// The hypervisor, if any.
    pub virtualisation: String,
    /// The kernel's name for its present run (/proc/sys/kernel/random/boot_id). While it is the same,
    /// so are kernel, processor and hypervisor, which takes a hundred times as long to find out.
    #[serde(default)]
    pub boot_id: String,
}

impl MachineKey {
    /// The key of a machine.
    pub fn of(machine: &Machine) -> Self {
        let kernel = machine.kernel();
        MachineKey {
            kernel: kernel.release.clone(),
            cpu_model: kernel.cpu_model.clone(),
            cpus_allowed: machine.allowed_cpus().to_string(),
            virtualisation: kernel.virtualisation.to_string(),
            boot_id: machine.boot_id().to_owned(),
        }
    }

    /// Whether it is of the same machine, perhaps in another run of it.
    pub(super) fn is_machine_of(&self, other: &MachineKey) -> bool {
        MachineKey { boot_id: self.boot_id.clone(), ..other.clone() } == *self
    }

    /// What of it differs from a machine: what, then, now.
    pub(super) fn differs(&self, machine: &Machine) -> Option<(&'static str, String, String)> {
        let cpus = machine.allowed_cpus_now().to_string();
        if self.cpus_allowed != cpus {
            return Some(("the CPUs allowed", self.cpus_allowed.clone(), cpus));
        }
        if !self.boot_id.is_empty() && self.boot_id == machine.boot_id() {
            return None;
        }
        let now = MachineKey::of(machine);
        [
            ("the kernel", &self.kernel, now.kernel),
            ("the processor", &self.cpu_model, now.cpu_model),
            ("the hypervisor", &self.virtualisation, now.virtualisation),
        ]
        .into_iter()
        .find(|(_, then, now)| *then != now)
        .map(|(what, then, now)| (what, then.clone(), now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn within_one_run_of_the_kernel_only_the_cpus_allowed_can_change() {
        let here = Machine::this();
        let mut key = MachineKey { kernel: "2.4.0".into(), ..MachineKey::of(here) };
        assert_eq!(key.differs(here), None);
        key.boot_id = "another run".into();
        assert_eq!(key.differs(here).map(|(what, ..)| what), Some("the kernel"));
        let other = MachineKey { cpus_allowed: "77".into(), ..MachineKey::of(here) };
        assert_eq!(other.differs(here).map(|(what, ..)| what), Some("the CPUs allowed"));
    }

    #[test]
    fn a_thread_that_may_use_other_cpus_than_before_is_asked_anew() {
        let here = Machine::this();
        if here.allowed_cpus_now().len() < 2 {
            println!("skipped: one CPU alone");
            return;
        }
        let cpus_allowed = here.allowed_cpus_now().to_string();
        let key = MachineKey { cpus_allowed, ..MachineKey::of(here) };
        let what = |key: &MachineKey| key.differs(here).map(|(what, ..)| what);
        assert_eq!(what(&key), None);
        let cpu = here.allowed_cpus_now().first().expect("a CPU");
        let pinned = crate::placement::pin_this_thread(cpu).expect("an allowed CPU");
        assert_eq!(what(&key), Some("the CPUs allowed"));
        let alone = MachineKey { cpus_allowed: cpu.to_string(), ..key.clone() };
        assert_eq!(what(&alone), None);
        drop(pinned);
        assert_eq!(what(&key), None);
    }
}
