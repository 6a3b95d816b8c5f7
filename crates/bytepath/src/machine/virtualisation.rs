//! Whether a hypervisor stands between this kernel and the hardware, and which.
//!
//! It changes what system calls, wake-ups and page faults cost, so a measurement says so.

use std::fmt;
use std::path::Path;

use super::files;
use crate::sys::cpuid;

/// What stands below this kernel.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Virtualisation {
    /// The hardware.
    None,
    /// A hypervisor, by its short name: `kvm`, `xen`, `hyper-v`, `vmware`, …
    Under(String),
    /// The machine does not tell.
    #[default]
    Unknown,
}

impl fmt::Display for Virtualisation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Virtualisation::None => "none",
            Virtualisation::Under(name) => name,
            Virtualisation::Unknown => "unknown",
        })
    }
}

/// What hypervisors call themselves in CPUID, and what people call them.
/// From the kernel's arch/x86/kernel/cpu and the list of systemd-detect-virt.
const SIGNATURES: &[(&str, &str)] = &[
    ("KVMKVMKVM", "kvm"),
    ("Linux KVM Hv", "kvm"),
    ("Microsoft Hv", "hyper-v"),
    ("VMwareVMware", "vmware"),
    ("XenVMMXenVMM", "xen"),
    ("TCGTCGTCGTCG", "qemu"),
    ("bhyve bhyve", "bhyve"),
    ("ACRNACRNACRN", "acrn"),
    ("QNXQVMBSQG", "qnx"),
    ("SRESRESRESRE", "sre"),
    ("Apple VZ", "apple"),
];

/// The same from what the firmware says of the machine.
const PRODUCTS: &[(&str, &str)] = &[
    ("KVM", "kvm"),
    ("QEMU", "kvm"),
    ("Amazon EC2", "kvm"),
    ("Google Compute Engine", "kvm"),
    ("OpenStack", "kvm"),
    ("VMware", "vmware"),
    ("VirtualBox", "virtualbox"),
    ("innotek", "virtualbox"),
    ("Xen", "xen"),
    ("Virtual Machine", "hyper-v"),
    ("Parallels", "parallels"),
    ("Apple Virtualization", "apple"),
];

const FIRMWARE: &[&str] = &[
    "sys/class/dmi/id/product_name",
    "sys/class/dmi/id/sys_vendor",
    "sys/class/dmi/id/bios_vendor",
    "proc/device-tree/hypervisor/compatible",
];

/// Reads the processor's flags from `cpuinfo` and looks for a name where it says that there is a
/// hypervisor.
pub(crate) fn detect(root: &Path, cpuinfo: &str) -> Virtualisation {
    match files::value(cpuinfo, "flags") {
        Some(flags) if !flags.split_whitespace().any(|flag| flag == "hypervisor") => {
            Virtualisation::None
        }
        Some(_) => {
            let name = signature_name(cpuid::hypervisor_signature().as_deref());
            name.or_else(|| told(root)).map_or(Virtualisation::Unknown, Virtualisation::Under)
        }
        // Processors other than x86 have no such flag: without a name nothing is known.
        None => told(root).map_or(Virtualisation::Unknown, Virtualisation::Under),
    }
}

fn signature_name(signature: Option<&str>) -> Option<String> {
    let signature = signature?;
    let (_, name) = SIGNATURES.iter().find(|(known, _)| *known == signature)?;
    Some((*name).to_owned())
}

fn told(root: &Path) -> Option<String> {
    if let Some(name) = files::text(root, "sys/hypervisor/type") {
        return Some(name);
    }
    let told = FIRMWARE.iter().filter_map(|name| files::text(root, name));
    told.filter_map(|text| product_name(&text)).next()
}

fn product_name(text: &str) -> Option<String> {
    let text = text.to_ascii_lowercase();
    let known = PRODUCTS.iter().find(|(product, _)| text.contains(&product.to_ascii_lowercase()));
    known.map(|(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_processor_without_the_flag_is_not_virtual() {
        let root = tempfile::tempdir().expect("a temporary folder");
        assert_eq!(detect(root.path(), "flags\t: fpu vme\n"), Virtualisation::None);
    }

    #[test]
    fn an_arm_machine_is_known_by_its_firmware_or_not_at_all() {
        let root = tempfile::tempdir().expect("a temporary folder");
        let cpuinfo = "CPU implementer\t: 0x41\n";
        assert_eq!(detect(root.path(), cpuinfo), Virtualisation::Unknown);
        let firmware = root.path().join("sys/class/dmi/id");
        fs::create_dir_all(&firmware).expect("a folder for the firmware's words");
        fs::write(firmware.join("sys_vendor"), "QEMU\n").expect("the vendor");
        assert_eq!(detect(root.path(), cpuinfo), Virtualisation::Under("kvm".to_owned()));
    }

    #[test]
    fn hypervisors_are_named_as_people_name_them() {
        assert_eq!(signature_name(Some("Microsoft Hv")), Some("hyper-v".to_owned()));
        assert_eq!(signature_name(Some("something new")), None);
        assert_eq!(product_name("VMware7,1"), Some("vmware".to_owned()));
        assert_eq!(product_name("ThinkPad"), None);
    }
}
